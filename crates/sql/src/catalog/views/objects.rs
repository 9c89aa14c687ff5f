//! What is in the dictionary, as the field shows it: `dba_objects`, `dba_tables` and the like.
//! Names that need no quotes are shown in capital letters, as scripts of the field write them.
//!
//! What it promises: only objects of users, each with the type that the field has for it. What it
//! must never do: read a table to tell of it.

use super::registry::{Column, Make, SessionView, columns, views};
use super::{constraints, dependencies, gathered, int4, shown_name, wall};
use crate::Result;
use crate::catalog::Catalog;
use crate::catalog::functions::view_definition;
use crate::catalog::rows::Shape::{Float8, Int4, Int8, Text, Timestamptz};
use crate::catalog::rows::{Rows, int, opt_text, text};
use crate::ddl::is_temporary;
use crate::session::Session;
use block::{BLOCK_BYTES, ObjId};
use kernel::dict::{
    self, ColumnDef, ColumnStats, Generated, IndexDef, IndexKind, IndexStats, KEY_EXPR, TableDef,
    TableStats, Times,
};
use kernel::row::{ColType, Datum, TypeKind, Value};
use kernel::space::UNIT_BLOCKS;
use query::datetime::EPOCH_US;
use query::wire::FormatEnv;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the field has of tables, and is the same for all of them here, or not known.
const TABLE_FORM: &[Column] = columns! {
    cluster_name: Text, "Always NULL: tables share no blocks.";
    iot_name: Text, "Always NULL: rows are in a heap.";
    iot_type: Text, "Always NULL, for the same reason.";
    pct_free: Int8, "Always NULL: nobody can set it.";
    empty_blocks: Int8, "Always NULL: it is not gathered.";
    avg_space: Int8, "Always NULL: it is not gathered.";
    chain_cnt: Int8, "Always NULL: it is not gathered.";
    logging: Text, "`YES`: there is no change without redo.";
    degree: Text, "`1`: how many tasks read it, the session and hints say.";
    instances: Text, "Always `1`.";
    cache: Text, "Always `N`.";
    nested: Text, "`NO`.";
    monitoring: Text, "`YES`: changed rows are counted.";
    compression: Text, "`DISABLED`: rows are kept as they are.";
    dropped: Text, "`NO`: what is dropped is gone.";
    read_only: Text, "`NO`.";
    segment_created: Text, "`YES`: it has had its segment from the beginning.";
    buffer_pool: Text, "`DEFAULT`: there is one.";
};

/// The same of indexes.
const INDEX_FORM: &[Column] = columns! {
    table_type: Text, "`TABLE`.";
    compression: Text, "`DISABLED`: keys are kept as they are.";
    prefix_length: Int8, "Always NULL, for the same reason.";
    pct_free: Int8, "Always NULL: nobody can set it.";
    blevel: Int8, "Levels above the leaves; 0: the root is a leaf.";
    leaf_blocks: Int8, "Its leaves, empty ones among them.";
    avg_leaf_blocks_per_key: Int8, "Leaves that rows of one key are in, at least 1.";
    avg_data_blocks_per_key: Int8, "The same of blocks of the table, by `clustering_factor`.";
    clustering_factor: Int8, "How often one reads another block of the table than the row before, \
        in the order of the index: near the table's blocks the orders go together, near its rows \
        they do not.";
    logging: Text, "`YES`: there is no change without redo.";
    degree: Text, "Always `1`.";
    instances: Text, "Always `1`.";
    generated: Text, "`N`: names that are not given follow a rule, and are as good.";
    visibility: Text, "`VISIBLE`: the planner may use it.";
    dropped: Text, "`NO`: what is dropped is gone.";
    join_index: Text, "`NO`: it is over one table.";
    segment_created: Text, "`YES`: it has had its segment from the beginning.";
};

/// What is known of a column of a table or view.
const TAB_COLUMN: &[Column] = columns! {
    owner: Text, "Schema of the table.";
    table_name: Text, "The table.";
    column_name: Text, "Name of the column.";
    data_type: Text, "Its type, by the field's name.";
    data_length: Int8, "Characters that it takes at most; NULL: no limit, or no text.";
    data_precision: Int8, "Digits of a number.";
    data_scale: Int8, "Of these, behind the point.";
    nullable: Text, "`N`: it cannot be NULL.";
    column_id: Int4, "Its place in the table, from 1.";
    data_default: Text, "The expression of its default.";
    num_distinct: Int8, "Different values, by the statistics of its table; NULL: they are not \
        known, as of a view.";
    num_nulls: Int8, "Rows that have NULL there, by the same.";
    avg_col_len: Float8, "Mean bytes of a value that is not NULL, by the same.";
    sample_size: Int8, "Rows that were looked at for it.";
    last_analyzed: Timestamptz, "When these were gathered.";
    density: Float8, "The part of the rows that have one value, if all are as frequent.";
    num_buckets: Int4, "Values and ranges of values that are told apart, by the same; 1: none.";
    histogram: Text, "How: `FREQUENCY`: the common values; `HEIGHT BALANCED`: ranges with equally \
        many; `HYBRID`: both; `NONE`.";
    char_length: Int8, "The same as `data_length`.";
    char_used: Text, "`C`: that counts characters; NULL: there is no limit.";
    default_length: Int8, "Characters of the expression of its default.";
    identity_column: Text, "`YES`: it takes its values from a sequence of its own; else `NO`.";
};

views! {
    "dba_objects", Make::Session(SessionView::Objects), "Tables, indexes, views, sequences, types and \
        routines." {
        owner: Text, "Its schema.";
        object_name: Text, "Its name.";
        object_id: Int8, "Its number.";
        data_object_id: Int8, "The same of what has blocks, as `obj#` names it; else NULL.";
        object_type: Text, "`TABLE`, `INDEX`, `VIEW`, `MATERIALIZED VIEW`, `SEQUENCE`, `TYPE`, \
            `FUNCTION` or `PROCEDURE`.";
        temporary: Text, "`Y`: it is a session's own.";
        status: Text, "`VALID`: what others use cannot be taken from them.";
        subobject_name: Text, "Always NULL: there are no partitions.";
        created: Timestamptz, "When it was made, by the clock of the instance that did it; NULL, \
            as the two that follow: before databases noted that.";
        last_ddl_time: Timestamptz, "When it was last changed: altered, emptied, renamed, given \
            an index, rights on it granted or taken.";
        timestamp: Text, "When what it is made of was last changed, as `2026-01-02:03:04:05`: not \
            by rights and names, nor emptied.";
        generated: Text, "`N`: names that are not given follow a rule, and are as good.";
        secondary: Text, "Always `N`.";
    }
    "dba_tables", Make::Session(SessionView::Tables), "Tables, with what is known of them since \
        statistics were gathered." {
        owner: Text, "Its schema.";
        table_name: Text, "Its name.";
        tablespace_name: Text, "Where its blocks are.";
        num_rows: Int8, "Rows.";
        blocks: Int8, "Blocks below the high-water mark.";
        avg_row_len: Float8, "Mean bytes of a row.";
        sample_size: Int8, "Rows that were looked at.";
        last_analyzed: Timestamptz, "When statistics were gathered.";
        status: Text, "`VALID`: it can be read.";
        partitioned: Text, "`NO`: there are no partitions.";
        temporary: Text, "`Y`: it is a session's own.";
    } + TABLE_FORM {}
    "dba_tab_columns", Make::Session(SessionView::TabColumns), "Columns of tables and views, \
        those of this list among them: their owner is `SYS`." {}
    + TAB_COLUMN {}
    "dba_tab_cols", Make::Session(SessionView::TabCols), "The same: there are no hidden ones." {}
    + TAB_COLUMN {
        hidden_column: Text, "`NO`.";
        virtual_column: Text, "`NO`: what is computed is kept.";
        segment_column_id: Int4, "The same as `column_id`.";
        internal_column_id: Int4, "The same.";
    }
    "dba_indexes", Make::Session(SessionView::Indexes), "Indexes, with what is known of them since \
        statistics of their tables were gathered: exact of an index of up to 1000 leaves, of a \
        larger one by a sample of these." {
        owner: Text, "Its schema.";
        index_name: Text, "Its name.";
        index_type: Text, "`NORMAL`, `NORMAL/REV`, `BITMAP`, and these with `FUNCTION-BASED` before \
            them.";
        table_owner: Text, "Schema of the table.";
        table_name: Text, "The table.";
        uniqueness: Text, "`UNIQUE` or `NONUNIQUE`.";
        tablespace_name: Text, "Where its blocks are.";
        status: Text, "`VALID`: every change of the table changes its indexes.";
        num_rows: Int8, "Rows that it holds; NULL, as all that follows from statistics: nobody has \
            gathered them.";
        distinct_keys: Int8, "Different keys. NULL is a key as others are; in a unique index each \
            NULL is another.";
        sample_size: Int8, "Rows that were looked at for it.";
        last_analyzed: Timestamptz, "When that was.";
        partitioned: Text, "`NO`: there are no partitions.";
        temporary: Text, "`Y`: it is a session's own.";
        funcidx_status: Text, "`ENABLED`: it is over an expression; NULL: it is not.";
    } + INDEX_FORM {}
    "dba_ind_columns", Make::Session(SessionView::IndColumns), "What the keys of indexes are made of." {
        index_owner: Text, "Schema of the index.";
        index_name: Text, "The index.";
        table_owner: Text, "Schema of the table.";
        table_name: Text, "The table.";
        column_name: Text, "Name of the column, or text of the expression.";
        column_position: Int4, "Its place in the key, from 1.";
        descend: Text, "`DESC`: its values descend; else `ASC`.";
        column_length: Int8, "Characters that it takes at most; NULL: no limit, or no text.";
        char_length: Int8, "The same.";
    }
    "dba_ind_expressions", Make::Session(SessionView::IndExpressions), "Expressions that indexes \
        are over." {
        index_owner: Text, "Schema of the index.";
        index_name: Text, "The index.";
        table_owner: Text, "Schema of the table.";
        table_name: Text, "The table.";
        column_expression: Text, "Text of the expression.";
        column_position: Int4, "Its place in the key, from 1.";
    }
    "dba_views", Make::Session(SessionView::Views), "Views." {
        owner: Text, "Its schema.";
        view_name: Text, "Its name.";
        text_length: Int8, "Characters of its query.";
        text: Text, "Its query.";
        text_vc: Text, "The same.";
    }
    "dba_tablespaces", Make::Session(SessionView::Tablespaces), "Where blocks are." {
        tablespace_name: Text, "Name.";
        block_size: Int8, "Bytes of a block.";
        contents: Text, "`PERMANENT` or `UNDO`.";
        initial_extent: Int8, "Bytes of the first extent of a segment, if it begins small.";
        next_extent: Int8, "Always NULL: the larger the segment, the larger its next extent.";
        min_extents: Int8, "Always `1`.";
        max_extents: Int8, "Always NULL: there are as many as the segment needs.";
        pct_increase: Int8, "Always NULL, as `next_extent`.";
        min_extlen: Int8, "Bytes of the smallest extent.";
        status: Text, "`ONLINE`.";
        logging: Text, "`LOGGING`: there is no change without redo.";
        force_logging: Text, "`YES`, for the same reason.";
        extent_management: Text, "`LOCAL`: the files say what is in use.";
        allocation_type: Text, "`SYSTEM`: nobody says how large extents are.";
        segment_space_management: Text, "`AUTO`: segments have maps of free blocks; `MANUAL`: of \
            undo.";
        def_tab_compression: Text, "`DISABLED`.";
        retention: Text, "`NOGUARANTEE`: undo is kept for `undo_retention` while there is room; \
            `NOT APPLY`: it holds none.";
        bigfile: Text, "`YES`: it has one file.";
        encrypted: Text, "`NO`.";
    }
}

/// The tablespace of tables and indexes.
pub(super) const USERS: &str = "USERS";

fn yes(yes: bool) -> Value {
    text(if yes { "Y" } else { "N" })
}

pub(super) fn ordinal(at: usize) -> Value {
    int4(at + 1)
}

/// What the field calls a type.
pub(super) fn type_name(ty: ColType) -> String {
    let known = match ty.kind {
        TypeKind::Int2 | TypeKind::Int4 | TypeKind::Int8 | TypeKind::Numeric => "NUMBER",
        TypeKind::Float4 => "BINARY_FLOAT",
        TypeKind::Float8 => "BINARY_DOUBLE",
        TypeKind::Varchar => "VARCHAR2",
        TypeKind::Char => "CHAR",
        TypeKind::Text if ty.is_ref_cursor() => "REF CURSOR",
        TypeKind::Text => "CLOB",
        TypeKind::Bytea => "BLOB",
        TypeKind::Date => "DATE",
        TypeKind::Timestamp => return format!("TIMESTAMP({})", ty.precision().unwrap_or(6)),
        TypeKind::Timestamptz => {
            return format!("TIMESTAMP({}) WITH TIME ZONE", ty.precision().unwrap_or(6));
        }
        TypeKind::Interval => return interval_name(ty),
        _ => return ty.without_limit().to_string().to_uppercase(),
    };
    known.to_owned()
}

/// What the field calls intervals. The first of the fields has as many digits as it may have there:
/// none are refused.
fn interval_name(ty: ColType) -> String {
    match ty.interval_fields() {
        Some(("year", "month")) => "INTERVAL YEAR(9) TO MONTH".to_owned(),
        Some(("day", "second")) => {
            format!("INTERVAL DAY(9) TO SECOND({})", ty.precision().unwrap_or(6))
        }
        _ => ty.to_string().to_uppercase(),
    }
}

/// Digits of a number, and those behind the point.
pub(super) fn digits(ty: ColType) -> [Value; 2] {
    let (precision, scale) = match ty.kind {
        TypeKind::Int2 => (5, 0),
        TypeKind::Int4 => (10, 0),
        TypeKind::Int8 => (19, 0),
        _ => match ty.precision_scale() {
            Some((precision, scale)) => (i64::from(precision), i64::from(scale)),
            None => return [Value::Null, Value::Null],
        },
    };
    [Value::Int8(precision), Value::Int8(scale)]
}

fn index_type(index: &IndexDef) -> &'static str {
    let computed = index.key_columns().iter().any(|at| *at >= KEY_EXPR);
    let descending = (0..index.key_columns().len()).any(|at| index.order(at).descending);
    match (index.kind, computed || descending) {
        (IndexKind::Tree, false) => "NORMAL",
        (IndexKind::Tree, true) => "FUNCTION-BASED NORMAL",
        (IndexKind::Reverse, false) => "NORMAL/REV",
        (IndexKind::Reverse, true) => "FUNCTION-BASED NORMAL/REV",
        (IndexKind::Bitmap, false) => "BITMAP",
        (IndexKind::Bitmap, true) => "FUNCTION-BASED BITMAP",
    }
}

/// Name of the column at a place of a key, or text of the expression.
fn key_part(table: &TableDef, index: &IndexDef, at: u16) -> Value {
    match at.checked_sub(KEY_EXPR) {
        Some(expr) => opt_text(index.exprs.get(usize::from(expr)).map(|expr| &*expr.text)),
        None => shown_name(&table.columns[usize::from(at)].name),
    }
}

/// When what is in `obj$` was made and changed.
type ObjectTimes = BTreeMap<ObjId, Times>;

/// A time as a text of the field's.
fn stamp(time_us: i64, env: &FormatEnv) -> Value {
    let local = Datum::Timestamp(env.zone.local(time_us - EPOCH_US));
    let shown = query::wire::to_text(&local, env);
    text(shown.split('.').next().unwrap_or_default().replace(' ', ":"))
}

fn objects(catalog: &Catalog, known: &ObjectTimes, env: &FormatEnv, rows: &mut Rows) {
    let mut add = |schema: &str, name: &str, obj: ObjId, kind: &str, times: Times| {
        let has_blocks = matches!(kind, "TABLE" | "INDEX" | "MATERIALIZED VIEW");
        rows.push(vec![
            shown_name(schema),
            shown_name(name),
            int(obj.0),
            if has_blocks { int(obj.0) } else { Value::Null },
            text(kind),
            yes(is_temporary(schema)),
            text("VALID"),
            Value::Null,
            times.made_us.map_or(Value::Null, wall),
            times.altered_us.map_or(Value::Null, wall),
            times.shaped_us.map_or(Value::Null, |time_us| stamp(time_us, env)),
            yes(false),
            yes(false),
        ]);
    };
    let times = |obj: ObjId| known.get(&obj).copied().unwrap_or_default();
    for table in &catalog.tables {
        let kind = if table.materialized.is_some() { "MATERIALIZED VIEW" } else { "TABLE" };
        add(&table.schema, &table.name, table.obj, kind, times(table.obj));
        for index in table.all_indexes() {
            add(&table.schema, &index.name, index.obj, "INDEX", times(index.obj));
        }
    }
    for view in &catalog.views {
        add(&view.schema, &view.name, view.obj, "VIEW", times(view.obj));
    }
    for def in &catalog.sequences {
        add(&def.schema, &def.name, def.obj, "SEQUENCE", times(def.obj));
    }
    for def in &catalog.types.all {
        add(&def.schema, &def.name, def.obj, "TYPE", def.times);
    }
    for def in &catalog.routines.all {
        add(&def.schema, &def.name, def.obj, super::code::kind(def), def.times);
    }
}

/// What is known of tables.
pub(super) type Statistics = BTreeMap<ObjId, Arc<TableStats>>;

/// What is known of indexes.
pub(super) type IndexFigures = BTreeMap<ObjId, IndexStats>;

/// When they were gathered.
pub(super) fn analyzed(known: &TableStats) -> Value {
    known.analyzed_us.max(known.autoanalyzed_us).map_or(Value::Null, wall)
}

// Far below 2^63.
#[allow(clippy::cast_possible_truncation)]
pub(super) fn count(rows: f64) -> Value {
    Value::Int8(rows.round() as i64)
}

fn tables(catalog: &Catalog, statistics: &Statistics, rows: &mut Rows) {
    for table in catalog.tables.iter().filter(|table| table.materialized.is_none()) {
        let known = statistics.get(&table.obj).filter(|known| known.rows >= 0.0);
        let of = |value: fn(&TableStats) -> Value| known.map_or(Value::Null, |known| value(known));
        let mut row = vec![
            shown_name(&table.schema),
            shown_name(&table.name),
            text(USERS),
            of(|known| count(known.rows)),
            of(|known| int(known.blocks)),
            of(|known| Value::Float8(known.row_bytes.round())),
            of(|known| int(known.sampled)),
            of(analyzed),
            text("VALID"),
            text("NO"),
            yes(is_temporary(&table.schema)),
        ];
        // From `cluster_name` to `chain_cnt`.
        row.extend([const { Value::Null }; 7]);
        let same = ["YES", "1", "1", "N", "NO", "YES", "DISABLED", "NO", "NO", "YES", "DEFAULT"];
        row.extend(same.map(text));
        rows.push(row);
    }
}

/// Values that differ from each other, of so many rows.
fn distinct(known: &ColumnStats, rows: f64) -> f64 {
    if known.distinct < 0.0 { -known.distinct * rows } else { known.distinct }
}

/// `with_more`: with what `dba_tab_cols` has beside the rest.
fn tab_columns(catalog: &Catalog, statistics: &Statistics, with_more: bool, rows: &mut Rows) {
    for table in catalog.relations() {
        let known = statistics.get(&table.obj).filter(|known| known.rows >= 0.0);
        for (at, column) in table.columns.iter().enumerate() {
            let [precision, scale] = digits(column.ty);
            let mut row = vec![
                shown_name(&table.schema),
                shown_name(&table.name),
                shown_name(&column.name),
                text(type_name(column.ty)),
                column.ty.length().map_or(Value::Null, int4_as_int8),
                precision,
                scale,
                yes(!column.not_null),
                ordinal(at),
                opt_text(column.default.as_deref()),
            ];
            let known = known.map(|known| &**known);
            row.extend(told_of_column(known, at));
            row.extend(spread(known, at));
            row.extend(form_of_column(column));
            if with_more {
                row.extend([text("NO"), text("NO"), ordinal(at), ordinal(at)]);
            }
            rows.push(row);
        }
    }
}

/// From `num_distinct` to `last_analyzed` of the column at a position.
pub(super) fn told_of_column(known: Option<&TableStats>, at: usize) -> [Value; 5] {
    let Some((known, column)) = known.and_then(|known| Some((known, known.column(at)?))) else {
        return std::array::from_fn(|_| Value::Null);
    };
    [
        count(distinct(column, known.rows)),
        count(column.null_fraction * known.rows),
        Value::Float8(column.width),
        int(known.sampled),
        analyzed(known),
    ]
}

/// From `density` to `histogram` of the column at a position.
pub(super) fn spread(known: Option<&TableStats>, at: usize) -> [Value; 3] {
    let Some((known, column)) = known.and_then(|known| Some((known, known.column(at)?))) else {
        return std::array::from_fn(|_| Value::Null);
    };
    let distinct = distinct(column, known.rows);
    let density = if distinct < 1.0 { 0.0 } else { distinct.recip() };
    let (common, ranges) = (column.common.len(), column.histogram.len().saturating_sub(1));
    let how = match (common > 0, ranges > 0) {
        (true, true) => "HYBRID",
        (true, false) => "FREQUENCY",
        (false, true) => "HEIGHT BALANCED",
        (false, false) => "NONE",
    };
    [Value::Float8(density), int4((common + ranges).max(1)), text(how)]
}

/// From `char_length` to `identity_column`.
fn form_of_column(column: &ColumnDef) -> [Value; 4] {
    let length = column.ty.length();
    let own = matches!(column.generated, Some(Generated::Always | Generated::ByDefault));
    let default = column.default.as_deref();
    [
        length.map_or(Value::Null, int4_as_int8),
        opt_text(length.map(|_| "C")),
        default.map_or(Value::Null, |default| int(default.chars().count())),
        text(if own { "YES" } else { "NO" }),
    ]
}

fn int4_as_int8(value: impl TryInto<i64>) -> Value {
    value.try_into().map_or(Value::Null, Value::Int8)
}

/// Different keys, if they could be told apart.
pub(super) fn different_keys(known: &IndexStats) -> Value {
    known.keys.map_or(Value::Null, count)
}

#[allow(clippy::cast_precision_loss)] // far below 2^53
fn leaves(known: &IndexStats) -> f64 {
    known.leaves as f64
}

/// Blocks for each key, at least one; none where there is no key.
fn for_each_key(known: &IndexStats, blocks: f64) -> Value {
    match known.keys {
        Some(keys) if keys > 0.0 => count((blocks / keys).max(1.0)),
        Some(_) => int(0),
        None => Value::Null,
    }
}

fn indexes(catalog: &Catalog, figures: &IndexFigures, rows: &mut Rows) {
    for table in &catalog.tables {
        for index in table.all_indexes() {
            let known = figures.get(&index.obj);
            let of = |value: fn(&IndexStats) -> Value| known.map_or(Value::Null, value);
            let mut row = vec![
                shown_name(&table.schema),
                shown_name(&index.name),
                text(index_type(index)),
                shown_name(&table.schema),
                shown_name(&table.name),
                text(if index.unique { "UNIQUE" } else { "NONUNIQUE" }),
                text(USERS),
                text("VALID"),
                of(|known| count(known.rows)),
                of(different_keys),
                of(|known| int(known.sampled)),
                of(|known| wall(known.at_us)),
                text("NO"),
                yes(is_temporary(&table.schema)),
                opt_text(index_type(index).starts_with("FUNCTION").then_some("ENABLED")),
                text("TABLE"),
                text("DISABLED"),
                // `prefix_length` and `pct_free`.
                Value::Null,
                Value::Null,
                of(|known| int(known.levels)),
                of(|known| int(known.leaves)),
                of(|known| for_each_key(known, leaves(known))),
                of(|known| for_each_key(known, known.clustering)),
                of(|known| count(known.clustering)),
            ];
            row.extend(["YES", "1", "1", "N", "VISIBLE", "NO", "NO", "YES"].map(text));
            rows.push(row);
        }
    }
}

fn ind_columns(catalog: &Catalog, rows: &mut Rows) {
    for table in &catalog.tables {
        for index in table.all_indexes() {
            for (place, at) in index.key_columns().iter().enumerate() {
                let column = table.columns.get(usize::from(*at));
                let length = column.and_then(|column| column.ty.length());
                let length = length.map_or(Value::Null, int4_as_int8);
                rows.push(vec![
                    shown_name(&table.schema),
                    shown_name(&index.name),
                    shown_name(&table.schema),
                    shown_name(&table.name),
                    key_part(table, index, *at),
                    ordinal(place),
                    text(if index.order(place).descending { "DESC" } else { "ASC" }),
                    length.clone(),
                    length,
                ]);
            }
        }
    }
}

fn ind_expressions(catalog: &Catalog, rows: &mut Rows) {
    for table in &catalog.tables {
        for index in table.all_indexes() {
            let parts = index.key_columns().iter().enumerate();
            for (place, at) in parts.filter(|(_, at)| **at >= KEY_EXPR) {
                rows.push(vec![
                    shown_name(&table.schema),
                    shown_name(&index.name),
                    shown_name(&table.schema),
                    shown_name(&table.name),
                    key_part(table, index, *at),
                    ordinal(place),
                ]);
            }
        }
    }
}

fn views_of(catalog: &Catalog, rows: &mut Rows) {
    for view in &catalog.views {
        let shown = view_definition(view);
        rows.push(vec![
            shown_name(&view.schema),
            shown_name(&view.name),
            shown.as_ref().map_or(Value::Null, |shown| int(shown.chars().count())),
            opt_text(shown.as_deref()),
            opt_text(shown.as_deref()),
        ]);
    }
}

fn tablespaces(rows: &mut Rows) {
    let unit = u64::from(UNIT_BLOCKS) * BLOCK_BYTES as u64;
    for (name, contents, maps, retention) in
        [(USERS, "PERMANENT", "AUTO", "NOT APPLY"), ("UNDO", "UNDO", "MANUAL", "NOGUARANTEE")]
    {
        rows.push(vec![
            text(name),
            int(BLOCK_BYTES),
            text(contents),
            int(unit),
            Value::Null,
            int(1),
            Value::Null,
            Value::Null,
            int(unit),
            text("ONLINE"),
            text("LOGGING"),
            text("YES"),
            text("LOCAL"),
            text("SYSTEM"),
            text(maps),
            text("DISABLED"),
            text(retention),
            text("YES"),
            text("NO"),
        ]);
    }
}

impl Session {
    /// What is known of all tables and their columns.
    async fn column_statistics(&mut self, catalog: &Catalog) -> Result<Statistics> {
        let txn = self.transaction()?;
        let mut all = Statistics::new();
        for table in &catalog.tables {
            let known = dict::statistics(&self.ctx, &txn, table).await?;
            all.extend(known.map(|known| (table.obj, known)));
        }
        Ok(all)
    }

    async fn index_figures(&mut self, catalog: &Catalog) -> Result<IndexFigures> {
        let txn = self.transaction()?;
        let mut all = IndexFigures::new();
        for table in &catalog.tables {
            let known = dict::index_statistics(&self.ctx, &txn, table).await?;
            all.extend(known.into_iter().map(|known| (known.index, known)));
        }
        Ok(all)
    }

    async fn object_times(&mut self) -> Result<ObjectTimes> {
        let txn = self.transaction()?;
        let all = dict::objects(&self.ctx, &txn).await?;
        Ok(all.into_iter().map(|object| (object.obj, object.times)).collect())
    }

    /// The rows of one of these views.
    pub(super) async fn objects_view(&mut self, which: SessionView, rows: &mut Rows) -> Result<()> {
        let catalog = self.shown_catalog().await?;
        match which {
            SessionView::Objects => {
                let known = self.object_times().await?;
                objects(&catalog, &known, &self.format_env(), rows);
            }
            SessionView::Tables => {
                let txn = self.transaction()?;
                let all = dict::all_statistics(&self.ctx, &txn).await?;
                let all = all.into_iter().map(|one| (one.obj, Arc::new(one))).collect();
                tables(&catalog, &all, rows);
            }
            SessionView::TabColumns | SessionView::TabCols => {
                let all = self.column_statistics(&catalog).await?;
                tab_columns(&catalog, &all, which == SessionView::TabCols, rows);
            }
            SessionView::Indexes => {
                let all = self.index_figures(&catalog).await?;
                indexes(&catalog, &all, rows);
            }
            SessionView::IndStatistics => {
                let all = self.index_figures(&catalog).await?;
                gathered::of_indexes(&catalog, &all, rows);
            }
            SessionView::TabStatistics | SessionView::TabColStatistics => {
                let all = self.column_statistics(&catalog).await?;
                gathered::fill(which, &catalog, &all, rows);
            }
            SessionView::IndColumns => ind_columns(&catalog, rows),
            SessionView::IndExpressions => ind_expressions(&catalog, rows),
            SessionView::Constraints => constraints::constraints(&catalog, rows),
            SessionView::ConsColumns => constraints::cons_columns(&catalog, rows),
            SessionView::Views => views_of(&catalog, rows),
            SessionView::Dependencies => dependencies::dependencies(&catalog, rows),
            SessionView::Procedures => dependencies::procedures(&catalog, rows),
            _ => tablespaces(rows),
        }
        Ok(())
    }
}
