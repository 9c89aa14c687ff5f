//! What views there are.
//!
//! What it promises: names are in capital letters, as `dictionary` and the views of objects show
//! theirs. What it must never do: list a view that cannot be read.

use super::registry::{Make, views};
use super::{all, int4};
use crate::catalog::rows::Shape::{Int4, Text};
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
