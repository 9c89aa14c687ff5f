//! What views there are.
//!
//! What it promises: names are in capital letters, as `dictionary` and the views of objects show
//! theirs. What it must never do: list a view that cannot be read.

use super::objects::{digits, ordinal, type_name};
use super::registry::{Column, Make, View, views};
use super::{all, int4};
use crate::catalog::rows::Shape::{self, Int4, Text};
use crate::catalog::rows::{Rows, text};
use kernel::instance::Instance;
use kernel::row::Value;
use std::sync::Arc;

views! {
    "v$fixed_table", Make::Local(fixed_table), "The views of this list." {
        name: Text, "Name of the view.";
        description: Text, "What its rows are.";
    }
    "v$fixed_view_columns", Make::Local(columns), "The columns of the views of this list (a name \
        of our own); a `gv$` view has `inst_id` before them." {
        view_name: Text, "Name of the view.";
        column_id: Int4, "Place of the column, from 1.";
        column_name: Text, "Name of the column.";
        data_type: Text, "Type of the column.";
        description: Text, "What the column holds.";
    }
}

/// The name of a view or column, as the field shows it.
pub(super) fn shown(prefix: &str, name: &str) -> Value {
    text(format!("{prefix}{name}").to_uppercase())
}

fn fixed_table(_: &Arc<Instance>, rows: &mut Rows) {
    for view in all() {
        rows.push(vec![shown("", view.name), text(view.doc)]);
        if view.is_local() {
            let doc = format!("On all instances: {}", view.doc);
            rows.push(vec![shown("g", view.name), text(doc)]);
        }
    }
}

fn columns(_: &Arc<Instance>, rows: &mut Rows) {
    for view in all() {
        for (at, column) in view.columns().enumerate() {
            rows.push(vec![
                shown("", view.name),
                int4(at + 1),
                shown("", column.name),
                text(column.type_name()),
                text(column.doc),
            ]);
        }
    }
}

/// The schema that the views of this list are in, as the field has it.
const OWNER: &str = "SYS";

/// What `gv$` views have before the columns of theirs.
static INSTANCE: Column = Column { name: "inst_id", shape: Int4, doc: "Its instance." };

/// The rows of `dba_tab_columns`, or of `dba_tab_cols` (`with_more`), for these views.
pub(super) fn tab_columns(with_more: bool, rows: &mut Rows) {
    for view in all() {
        view_columns(&view.name.to_uppercase(), view.columns(), with_more, rows);
        if view.is_local() {
            let columns = std::iter::once(&INSTANCE).chain(view.columns());
            view_columns(&format!("G{}", view.name.to_uppercase()), columns, with_more, rows);
        }
        if let Some((rest, owner)) = of_all(view) {
            view_columns(&format!("ALL_{rest}"), view.columns(), with_more, rows);
            let own = view.columns().filter(|column| column.name != owner);
            view_columns(&format!("USER_{rest}"), own, with_more, rows);
        }
    }
}

/// Of a view of objects what is behind `DBA_` in its name, and the column that `user_` views lack.
fn of_all(view: &View) -> Option<(String, &'static str)> {
    let rest = view.name.strip_prefix("dba_")?;
    Some((rest.to_uppercase(), view.owner()?))
}

fn view_columns<'a>(
    name: &str,
    columns: impl Iterator<Item = &'a Column>,
    with_more: bool,
    rows: &mut Rows,
) {
    for (at, column) in columns.enumerate() {
        let ty = column.shape.col_type();
        // Texts of views are short: for the field they are no large objects.
        let data_type = match column.shape {
            Shape::Text | Shape::Name | Shape::Char => "VARCHAR2".to_owned(),
            _ => type_name(ty),
        };
        let [precision, scale] = digits(ty);
        let mut row = vec![
            text(OWNER),
            text(name),
            shown("", column.name),
            text(data_type),
            Value::Null,
            precision,
            scale,
            text("Y"),
            ordinal(at),
        ];
        // From `data_default` to `default_length`: nothing is gathered of them.
        row.extend([const { Value::Null }; 12]);
        row.push(text("NO"));
        if with_more {
            row.extend([text("NO"), text("NO"), ordinal(at), ordinal(at)]);
        }
        rows.push(row);
    }
}
