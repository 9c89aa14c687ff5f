//! What ANALYZE has gathered, of tables, their columns and indexes.
//!
//! What it promises: a table of which nothing is known has a row without numbers, a column none.
//! What it must never do: gather something.

use super::objects::{Statistics, analyzed, count, distinct_keys, spread, told_of_column};
use super::registry::{Column, Make, SessionView, columns, views};
use super::shown_name;
use crate::catalog::Catalog;
use crate::catalog::rows::Shape::{Float8, Int4, Int8, Text, Timestamptz};
use crate::catalog::rows::{Rows, int, text};
use kernel::dict::{IndexDef, TableDef, TableStats};
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
    "dba_ind_statistics", Make::Session(SessionView::IndStatistics), "Statistics of indexes, by \
        those of their tables." {
        owner: Text, "Its schema.";
        index_name: Text, "Its name.";
        table_owner: Text, "Schema of the table.";
        table_name: Text, "The table.";
        partition_name: Text, "Always NULL: there are no partitions.";
        object_type: Text, "`INDEX`.";
        blevel: Int8, "Always NULL: it is not gathered.";
        leaf_blocks: Int8, "Always NULL: it is not gathered.";
        clustering_factor: Int8, "Always NULL: it is not gathered.";
        distinct_keys: Int8, "As in `dba_indexes`.";
        num_rows: Int8, "As in `dba_indexes`.";
        sample_size: Int8, "Rows that were looked at for it.";
        last_analyzed: Timestamptz, "When they were gathered.";
    } + HOW {} + KEPT {}
}

/// The columns of [`HOW`].
fn how(known: Option<&TableStats>) -> [Value; 2] {
    [text(if known.is_some() { "YES" } else { "NO" }), text("NO")]
}

/// The rows of one of these views.
pub(super) fn fill(which: SessionView, catalog: &Catalog, all: &Statistics, rows: &mut Rows) {
    for table in &catalog.tables {
        let known = all.get(&table.obj).map(|known| &**known).filter(|known| known.rows >= 0.0);
        match which {
            SessionView::TabStatistics => rows.push(of_table(table, known)),
            SessionView::TabColStatistics => of_columns(table, known, rows),
            _ => {
                let indexes = table.all_indexes();
                indexes.for_each(|index| rows.push(of_index(table, index, known)));
            }
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
        of(|known| Value::Float8(known.row_bytes)),
        of(|known| int(known.sampled)),
        of(analyzed),
    ];
    row.extend(how(known));
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
        row.extend(how(known));
        rows.push(row);
    }
}

fn of_index(table: &TableDef, index: &IndexDef, known: Option<&TableStats>) -> Vec<Value> {
    let whole = known.filter(|_| index.predicate.is_none());
    let of = |value: fn(&TableStats) -> Value| whole.map_or(Value::Null, value);
    let keys = whole.and_then(|known| distinct_keys(table, index, known));
    let mut row = vec![
        shown_name(&table.schema),
        shown_name(&index.name),
        shown_name(&table.schema),
        shown_name(&table.name),
        Value::Null,
        text("INDEX"),
        Value::Null,
        Value::Null,
        Value::Null,
        keys.map_or(Value::Null, count),
        of(|known| count(known.rows)),
        of(|known| int(known.sampled)),
        of(analyzed),
    ];
    row.extend(how(whole));
    row.extend([Value::Null, Value::Null]);
    row
}
