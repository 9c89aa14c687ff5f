//! What is in the dictionary, as the field shows it: `dba_objects`, `dba_tables` and the like.
//! Names that need no quotes are shown in capital letters, as scripts of the field write them.
//!
//! What it promises: only objects of users, each with the type that the field has for it. What it
//! must never do: read a table to tell of it.

use super::registry::{Make, SessionView, views};
use super::{int4, shown_name, wall};
use crate::Result;
use crate::catalog::Catalog;
use crate::catalog::functions::{action_words, view_definition};
use crate::catalog::rows::Shape::{Float8, Int4, Int8, Text, Timestamptz};
use crate::catalog::rows::{Rows, int, opt_text, text};
use crate::ddl::is_temporary;
use crate::session::Session;
use block::{BLOCK_BYTES, ObjId};
use kernel::dict::{self, ColumnStats, IndexDef, IndexKind, KEY_EXPR, TableDef, TableStats};
use kernel::row::{ColType, TypeKind, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

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
    }
    "dba_tab_columns", Make::Session(SessionView::TabColumns), "Columns of tables and views." {
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
    }
    "dba_indexes", Make::Session(SessionView::Indexes), "Indexes." {
        owner: Text, "Its schema.";
        index_name: Text, "Its name.";
        index_type: Text, "`NORMAL`, `NORMAL/REV`, `BITMAP`, and these with `FUNCTION-BASED` before \
            them.";
        table_owner: Text, "Schema of the table.";
        table_name: Text, "The table.";
        uniqueness: Text, "`UNIQUE` or `NONUNIQUE`.";
        tablespace_name: Text, "Where its blocks are.";
        status: Text, "`VALID`: every change of the table changes its indexes.";
        num_rows: Int8, "Rows that it holds, by the statistics of its table; NULL: they are not \
            known, as of an index over some of the rows.";
        distinct_keys: Int8, "Different keys, by the same; NULL: of a key of several columns, \
            unless it is unique, and of expressions.";
        sample_size: Int8, "Rows that were looked at for it.";
        last_analyzed: Timestamptz, "When statistics of its table were gathered.";
        partitioned: Text, "`NO`: there are no partitions.";
        temporary: Text, "`Y`: it is a session's own.";
    }
    "dba_ind_columns", Make::Session(SessionView::IndColumns), "What the keys of indexes are made of." {
        index_owner: Text, "Schema of the index.";
        index_name: Text, "The index.";
        table_owner: Text, "Schema of the table.";
        table_name: Text, "The table.";
        column_name: Text, "Name of the column, or text of the expression.";
        column_position: Int4, "Its place in the key, from 1.";
        descend: Text, "`DESC`: its values descend; else `ASC`.";
    }
    "dba_constraints", Make::Session(SessionView::Constraints), "Constraints of tables." {
        owner: Text, "Its schema.";
        constraint_name: Text, "Its name.";
        constraint_type: Text, "`P` primary key, `U` unique, `R` foreign key, `C` check.";
        table_name: Text, "The table.";
        search_condition: Text, "What a check demands.";
        r_owner: Text, "Schema of the constraint that a foreign key refers to.";
        r_constraint_name: Text, "That constraint.";
        delete_rule: Text, "What a foreign key does when its parent is deleted.";
        status: Text, "`ENABLED`: what is changed is checked; nobody can have it otherwise.";
        deferrable: Text, "`DEFERRABLE`: a transaction may have it checked at its end; `NOT \
            DEFERRABLE`.";
        deferred: Text, "`DEFERRED`: it is, unless it is said otherwise; `IMMEDIATE`: at once.";
        validated: Text, "`VALIDATED`; `NOT VALIDATED`: rows from before it may not meet it.";
        index_owner: Text, "Schema of the index that it goes by.";
        index_name: Text, "That index.";
    }
    "dba_cons_columns", Make::Session(SessionView::ConsColumns), "Columns of constraints." {
        owner: Text, "Schema of the constraint.";
        constraint_name: Text, "The constraint.";
        table_name: Text, "The table.";
        column_name: Text, "Name of the column.";
        position: Int4, "Its place in the constraint, from 1.";
    }
    "dba_views", Make::Session(SessionView::Views), "Views." {
        owner: Text, "Its schema.";
        view_name: Text, "Its name.";
        text_length: Int8, "Characters of its query.";
        text: Text, "Its query.";
    }
    "dba_tablespaces", Make::Session(SessionView::Tablespaces), "Where blocks are." {
        tablespace_name: Text, "Name.";
        block_size: Int8, "Bytes of a block.";
        contents: Text, "`PERMANENT` or `UNDO`.";
    }
}

/// The tablespace of tables and indexes.
pub(super) const USERS: &str = "USERS";

fn yes(yes: bool) -> Value {
    text(if yes { "Y" } else { "N" })
}

fn ordinal(at: usize) -> Value {
    int4(at + 1)
}

/// What the field calls a type.
fn type_name(ty: ColType) -> String {
    let known = match ty.kind {
        TypeKind::Int2 | TypeKind::Int4 | TypeKind::Int8 | TypeKind::Numeric => "NUMBER",
        TypeKind::Float4 => "BINARY_FLOAT",
        TypeKind::Float8 => "BINARY_DOUBLE",
        TypeKind::Varchar => "VARCHAR2",
        TypeKind::Char => "CHAR",
        TypeKind::Text => "CLOB",
        TypeKind::Bytea => "BLOB",
        TypeKind::Date => "DATE",
        TypeKind::Timestamp => return format!("TIMESTAMP({})", ty.precision().unwrap_or(6)),
        TypeKind::Timestamptz => {
            return format!("TIMESTAMP({}) WITH TIME ZONE", ty.precision().unwrap_or(6));
        }
        _ => return ty.without_limit().to_string().to_uppercase(),
    };
    known.to_owned()
}

/// Digits of a number, and those behind the point.
fn digits(ty: ColType) -> [Value; 2] {
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

fn objects(catalog: &Catalog, rows: &mut Rows) {
    let mut add = |schema: &str, name: &str, obj: ObjId, kind: &str| {
        let has_blocks = matches!(kind, "TABLE" | "INDEX" | "MATERIALIZED VIEW");
        rows.push(vec![
            shown_name(schema),
            shown_name(name),
            int(obj.0),
            if has_blocks { int(obj.0) } else { Value::Null },
            text(kind),
            yes(is_temporary(schema)),
            text("VALID"),
        ]);
    };
    for table in &catalog.tables {
        let kind = if table.materialized.is_some() { "MATERIALIZED VIEW" } else { "TABLE" };
        add(&table.schema, &table.name, table.obj, kind);
        for index in table.all_indexes() {
            add(&table.schema, &index.name, index.obj, "INDEX");
        }
    }
    for view in &catalog.views {
        add(&view.schema, &view.name, view.obj, "VIEW");
    }
    for def in &catalog.sequences {
        add(&def.schema, &def.name, def.obj, "SEQUENCE");
    }
    for def in &catalog.types.all {
        add(&def.schema, &def.name, def.obj, "TYPE");
    }
    for def in &catalog.routines.all {
        add(&def.schema, &def.name, def.obj, super::code::kind(def));
    }
}

/// What is known of tables.
type Statistics = BTreeMap<ObjId, Arc<TableStats>>;

/// When they were gathered.
fn analyzed(known: &TableStats) -> Value {
    known.analyzed_us.max(known.autoanalyzed_us).map_or(Value::Null, wall)
}

// Far below 2^63.
#[allow(clippy::cast_possible_truncation)]
fn count(rows: f64) -> Value {
    Value::Int8(rows.round() as i64)
}

fn tables(catalog: &Catalog, statistics: &Statistics, rows: &mut Rows) {
    for table in catalog.tables.iter().filter(|table| table.materialized.is_none()) {
        let known = statistics.get(&table.obj).filter(|known| known.rows >= 0.0);
        let of = |value: fn(&TableStats) -> Value| known.map_or(Value::Null, |known| value(known));
        rows.push(vec![
            shown_name(&table.schema),
            shown_name(&table.name),
            text(USERS),
            of(|known| count(known.rows)),
            of(|known| int(known.blocks)),
            of(|known| Value::Float8(known.row_bytes)),
            of(|known| int(known.sampled)),
            of(analyzed),
            text("VALID"),
            text("NO"),
            yes(is_temporary(&table.schema)),
        ]);
    }
}

/// Values that differ from each other, of so many rows.
fn distinct(known: &ColumnStats, rows: f64) -> f64 {
    if known.distinct < 0.0 { -known.distinct * rows } else { known.distinct }
}

fn tab_columns(catalog: &Catalog, statistics: &Statistics, rows: &mut Rows) {
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
            row.extend(told_of_column(known.map(|known| &**known), at));
            rows.push(row);
        }
    }
}

/// From `num_distinct` to `last_analyzed` of the column at a position.
fn told_of_column(known: Option<&TableStats>, at: usize) -> [Value; 5] {
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

fn int4_as_int8(value: impl TryInto<i64>) -> Value {
    value.try_into().map_or(Value::Null, Value::Int8)
}

/// Different keys of an index over all rows, as far as what is known of columns tells.
fn distinct_keys(table: &TableDef, index: &IndexDef, known: &TableStats) -> Option<f64> {
    let key = index.key_columns();
    let column = |at: u16| table.columns.get(usize::from(at));
    if index.unique && key.iter().all(|at| column(*at).is_some_and(|column| column.not_null)) {
        return Some(known.rows);
    }
    let [only] = key else { return None };
    Some(distinct(known.column(usize::from(*only))?, known.rows))
}

fn indexes(catalog: &Catalog, statistics: &Statistics, rows: &mut Rows) {
    for table in &catalog.tables {
        let known = statistics.get(&table.obj).filter(|known| known.rows >= 0.0);
        for index in table.all_indexes() {
            let whole = known.filter(|_| index.predicate.is_none());
            let of =
                |value: fn(&TableStats) -> Value| whole.map_or(Value::Null, |known| value(known));
            rows.push(vec![
                shown_name(&table.schema),
                shown_name(&index.name),
                text(index_type(index)),
                shown_name(&table.schema),
                shown_name(&table.name),
                text(if index.unique { "UNIQUE" } else { "NONUNIQUE" }),
                text(USERS),
                text("VALID"),
                of(|known| count(known.rows)),
                whole
                    .and_then(|known| distinct_keys(table, index, known))
                    .map_or(Value::Null, count),
                of(|known| int(known.sampled)),
                of(analyzed),
                text("NO"),
                yes(is_temporary(&table.schema)),
            ]);
        }
    }
}

fn ind_columns(catalog: &Catalog, rows: &mut Rows) {
    for table in &catalog.tables {
        for index in table.all_indexes() {
            for (place, at) in index.key_columns().iter().enumerate() {
                rows.push(vec![
                    shown_name(&table.schema),
                    shown_name(&index.name),
                    shown_name(&table.schema),
                    shown_name(&table.name),
                    key_part(table, index, *at),
                    ordinal(place),
                    text(if index.order(place).descending { "DESC" } else { "ASC" }),
                ]);
            }
        }
    }
}

/// Of the index with this number: its schema, and the constraint that it enforces.
fn enforced(catalog: &Catalog, obj: ObjId) -> Option<(&str, &str)> {
    catalog.tables.iter().find_map(|table| {
        let index = table.indexes.iter().find(|index| index.obj == obj)?;
        Some((&*table.schema, index.constraint.as_deref()?))
    })
}

fn constraints(catalog: &Catalog, rows: &mut Rows) {
    for table in &catalog.tables {
        let begin = |name: &str, kind: &str| {
            vec![shown_name(&table.schema), shown_name(name), text(kind), shown_name(&table.name)]
        };
        // Only foreign keys can wait for the end of a transaction.
        let enabled = |deferrable: bool, deferred: bool, valid: bool| {
            [
                text("ENABLED"),
                text(if deferrable { "DEFERRABLE" } else { "NOT DEFERRABLE" }),
                text(if deferred { "DEFERRED" } else { "IMMEDIATE" }),
                text(if valid { "VALIDATED" } else { "NOT VALIDATED" }),
            ]
        };
        for index in &table.indexes {
            let Some(name) = &index.constraint else { continue };
            let mut row = begin(name, if index.primary { "P" } else { "U" });
            row.extend([Value::Null, Value::Null, Value::Null, Value::Null]);
            row.extend(enabled(false, false, true));
            row.extend([shown_name(&table.schema), shown_name(&index.name)]);
            rows.push(row);
        }
        for check in &table.checks {
            let mut row = begin(&check.name, "C");
            row.extend([text(&*check.expr), Value::Null, Value::Null, Value::Null]);
            row.extend(enabled(false, false, check.valid));
            row.extend([Value::Null, Value::Null]);
            rows.push(row);
        }
        for key in &table.foreign {
            let parent = enforced(catalog, key.index);
            let mut row = begin(&key.name, "R");
            row.extend([
                Value::Null,
                parent.map_or(Value::Null, |(schema, _)| shown_name(schema)),
                parent.map_or(Value::Null, |(_, name)| shown_name(name)),
                text(action_words(key.on_delete)),
            ]);
            row.extend(enabled(key.deferrable, key.deferred, key.validated));
            row.extend([Value::Null, Value::Null]);
            rows.push(row);
        }
    }
}

fn cons_columns(catalog: &Catalog, rows: &mut Rows) {
    for table in &catalog.tables {
        let mut add = |name: &str, columns: &[u16]| {
            for (place, at) in columns.iter().enumerate() {
                rows.push(vec![
                    shown_name(&table.schema),
                    shown_name(name),
                    shown_name(&table.name),
                    shown_name(&table.columns[usize::from(*at)].name),
                    ordinal(place),
                ]);
            }
        };
        for index in &table.indexes {
            if let Some(name) = &index.constraint {
                add(name, index.key_columns());
            }
        }
        for key in &table.foreign {
            add(&key.name, &key.columns);
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
            shown.map_or(Value::Null, text),
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

    /// The rows of one of these views.
    pub(super) async fn objects_view(&mut self, which: SessionView, rows: &mut Rows) -> Result<()> {
        let catalog = self.shown_catalog().await?;
        match which {
            SessionView::Objects => objects(&catalog, rows),
            SessionView::Tables => {
                let txn = self.transaction()?;
                let all = dict::all_statistics(&self.ctx, &txn).await?;
                let all = all.into_iter().map(|one| (one.obj, Arc::new(one))).collect();
                tables(&catalog, &all, rows);
            }
            SessionView::TabColumns => {
                let all = self.column_statistics(&catalog).await?;
                tab_columns(&catalog, &all, rows);
            }
            SessionView::Indexes => {
                let all = self.column_statistics(&catalog).await?;
                indexes(&catalog, &all, rows);
            }
            SessionView::IndColumns => ind_columns(&catalog, rows),
            SessionView::Constraints => constraints(&catalog, rows),
            SessionView::ConsColumns => cons_columns(&catalog, rows),
            SessionView::Views => views_of(&catalog, rows),
            _ => {
                for (name, contents) in [(USERS, "PERMANENT"), ("UNDO", "UNDO")] {
                    rows.push(vec![text(name), int(BLOCK_BYTES), text(contents)]);
                }
            }
        }
        Ok(())
    }
}
