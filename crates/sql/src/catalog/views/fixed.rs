//! What views there are.

use super::registry::{Make, views};
use super::{all, int4};
use crate::catalog::rows::Shape::{Int4, Text};
use crate::catalog::rows::{Rows, text};
use kernel::instance::Instance;
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

fn fixed_table(_: &Arc<Instance>, rows: &mut Rows) {
    for view in all() {
        rows.push(vec![text(view.name), text(view.doc)]);
        if view.is_local() {
            let doc = format!("On all instances: {}", view.doc);
            rows.push(vec![text(format!("g{}", view.name)), text(doc)]);
        }
    }
}

fn columns(_: &Arc<Instance>, rows: &mut Rows) {
    for view in all() {
        for (at, column) in view.columns().enumerate() {
            rows.push(vec![
                text(view.name),
                int4(at + 1),
                text(column.name),
                text(column.type_name()),
                text(column.doc),
            ]);
        }
    }
}
