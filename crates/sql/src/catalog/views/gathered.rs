//! What ANALYZE has gathered, of tables, their columns and indexes.
//!
//! What it promises: a table of which nothing is known has a row without numbers, a column none.
//! What it must never do: gather something.

use super::objects::{
    IndexFigures, Statistics, analyzed, count, different_keys, spread, told_of_column,
};
use super::registry::{Column, Make, SessionView, columns, views};
use super::{shown_name, wall};
use crate::catalog::Catalog;
use crate::catalog::rows::Shape::{Float8, Int4, Int8, Text, Timestamptz};
use crate::catalog::rows::{Rows, int, text};
use kernel::dict::{IndexDef, IndexStats, TableDef, TableStats};
use kernel::row::Value;

/// How statistics came about.
const HOW: &[Column] = columns! {
    global_stats: Text, "`YES`: they are of all rows, by a sample; `NO`: there are none.";
    user_stats: Text, "`NO`: nobody can set them.";
};

/// What the field knows beside that.
const KEPT: &[Column] = columns! {
    stattype_locked: Text, "Always NULL: nobody can lock them.";
    stale_stats: Text, "Always NULL: each instance counts the rows that it has changed.";
};

views! {
    "dba_tab_statistics", Make::Session(SessionView::TabStatistics), "Statistics of tables." {
        owner: Text, "Its schema.";
        table_name: Text, "Its name.";
        partition_name: Text, "Always NULL: there are no partitions.";
        object_type: Text, "`TABLE`.";
        num_rows: Int8, "Rows.";
        blocks: Int8, "Blocks below the high-water mark.";
        empty_blocks: Int8, "Always NULL: it is not gathered.";
        avg_space: Int8, "Always NULL: it is not gathered.";
        chain_cnt: Int8, "Always NULL: it is not gathered.";
        avg_row_len: Float8, "Mean bytes of a row.";
        sample_size: Int8, "Rows that were looked at.";
        last_analyzed: Timestamptz, "When they were gathered.";
    } + HOW {} + KEPT {}
    "dba_tab_col_statistics", Make::Session(SessionView::TabColStatistics), "Statistics of \
        columns, as far as there are some." {
        owner: Text, "Schema of the table.";
        table_name: Text, "The table.";
        column_name: Text, "Name of the column.";
        num_distinct: Int8, "Different values.";
        num_nulls: Int8, "Rows that have NULL there.";
        avg_col_len: Float8, "Mean bytes of a value that is not NULL.";
        sample_size: Int8, "Rows that were looked at for it.";
        last_analyzed: Timestamptz, "When they were gathered.";
        density: Float8, "As in `dba_tab_columns`.";
        num_buckets: Int4, "As in `dba_tab_columns`.";
        histogram: Text, "As in `dba_tab_columns`.";
    } + HOW {}
    "dba_ind_statistics", Make::Session(SessionView::IndStatistics), "Statistics of indexes, \
        gathered with those of their tables." {
        owner: Text, "Its schema.";
        index_name: Text, "Its name.";
        table_owner: Text, "Schema of the table.";
        table_name: Text, "The table.";
        partition_name: Text, "Always NULL: there are no partitions.";
        object_type: Text, "`INDEX`.";
        blevel: Int8, "As in `dba_indexes`.";
        leaf_blocks: Int8, "As in `dba_indexes`.";
        clustering_factor: Int8, "As in `dba_indexes`.";
        distinct_keys: Int8, "As in `dba_indexes`.";
        num_rows: Int8, "As in `dba_indexes`.";
        sample_size: Int8, "Rows that were looked at for it.";
        last_analyzed: Timestamptz, "When they were gathered.";
    } + HOW {} + KEPT {}
}

/// The columns of [`HOW`], where there are statistics, or are none.
fn how(known: bool) -> [Value; 2] {
    [text(if known { "YES" } else { "NO" }), text("NO")]
}

/// The rows of one of these views.
pub(super) fn fill(which: SessionView, catalog: &Catalog, all: &Statistics, rows: &mut Rows) {
    for table in &catalog.tables {
        let known = all.get(&table.obj).map(|known| &**known).filter(|known| known.rows >= 0.0);
        match which {
            SessionView::TabStatistics => rows.push(of_table(table, known)),
            _ => of_columns(table, known, rows),
        }
    }
}

/// The rows of `dba_ind_statistics`.
pub(super) fn of_indexes(catalog: &Catalog, figures: &IndexFigures, rows: &mut Rows) {
    for table in &catalog.tables {
        for index in table.all_indexes() {
            rows.push(of_index(table, index, figures.get(&index.obj)));
        }
    }
}

fn of_table(table: &TableDef, known: Option<&TableStats>) -> Vec<Value> {
    let of = |value: fn(&TableStats) -> Value| known.map_or(Value::Null, value);
    let mut row = vec![
        shown_name(&table.schema),
        shown_name(&table.name),
        Value::Null,
        text("TABLE"),
        of(|known| count(known.rows)),
        of(|known| int(known.blocks)),
        Value::Null,
        Value::Null,
        Value::Null,
        of(|known| Value::Float8(known.row_bytes.round())),
        of(|known| int(known.sampled)),
        of(analyzed),
    ];
    row.extend(how(known.is_some()));
    row.extend([Value::Null, Value::Null]);
    row
}

fn of_columns(table: &TableDef, known: Option<&TableStats>, rows: &mut Rows) {
    for (at, column) in table.columns.iter().enumerate() {
        if known.and_then(|known| known.column(at)).is_none() {
            continue;
        }
        let mut row =
            vec![shown_name(&table.schema), shown_name(&table.name), shown_name(&column.name)];
        row.extend(told_of_column(known, at));
        row.extend(spread(known, at));
        row.extend(how(known.is_some()));
        rows.push(row);
    }
}

fn of_index(table: &TableDef, index: &IndexDef, known: Option<&IndexStats>) -> Vec<Value> {
    let of = |value: fn(&IndexStats) -> Value| known.map_or(Value::Null, value);
    let mut row = vec![
        shown_name(&table.schema),
        shown_name(&index.name),
        shown_name(&table.schema),
        shown_name(&table.name),
        Value::Null,
        text("INDEX"),
        of(|known| int(known.levels)),
        of(|known| int(known.leaves)),
        of(|known| count(known.clustering)),
        of(different_keys),
        of(|known| count(known.rows)),
        of(|known| int(known.sampled)),
        of(|known| wall(known.at_us)),
    ];
    row.extend(how(known.is_some()));
    row.extend([Value::Null, Value::Null]);
    row
}
