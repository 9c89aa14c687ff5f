//! Constraints, and the columns that they are about.
//!
//! What it promises: a foreign key names the constraint that it refers to, if its index is one's.
//! What it must never do: name a column that the constraint does not mention.

use super::objects::ordinal;
use super::registry::{Make, SessionView, views};
use super::shown_name;
use crate::catalog::Catalog;
use crate::catalog::functions::action_words;
use crate::catalog::rows::Shape::{Int4, Text, Timestamptz};
use crate::catalog::rows::{Rows, opt_text, text};
use crate::{check, direct};
use block::ObjId;
use kernel::row::Value;

views! {
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
        search_condition_vc: Text, "The same as `search_condition`.";
        generated: Text, "`USER NAME`: names that are not given follow a rule, and are as good.";
        bad: Text, "Always NULL.";
        rely: Text, "Always NULL: a constraint is believed if it is validated.";
        last_change: Timestamptz, "Always NULL: nobody notes when it is altered.";
        invalid: Text, "Always NULL.";
        view_related: Text, "Always NULL: views have none.";
    }
    "dba_cons_columns", Make::Session(SessionView::ConsColumns), "Columns of constraints." {
        owner: Text, "Schema of the constraint.";
        constraint_name: Text, "The constraint.";
        table_name: Text, "The table.";
        column_name: Text, "Name of the column.";
        position: Int4, "Its place in the constraint, from 1; NULL: a check names it.";
    }
}

/// Of the index with this number: its schema, and the constraint that it enforces.
fn enforced(catalog: &Catalog, obj: ObjId) -> Option<(&str, &str)> {
    catalog.tables.iter().find_map(|table| {
        let index = table.indexes.iter().find(|index| index.obj == obj)?;
        Some((&*table.schema, index.constraint.as_deref()?))
    })
}

pub(super) fn constraints(catalog: &Catalog, rows: &mut Rows) {
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
        // What a check demands, and from `generated` to `view_related`.
        let end = |condition: Option<&str>| {
            let known = [opt_text(condition), text("USER NAME")];
            known.into_iter().chain([const { Value::Null }; 5])
        };
        for index in &table.indexes {
            let Some(name) = &index.constraint else { continue };
            let mut row = begin(name, if index.primary { "P" } else { "U" });
            row.extend([Value::Null, Value::Null, Value::Null, Value::Null]);
            row.extend(enabled(false, false, true));
            row.extend([shown_name(&table.schema), shown_name(&index.name)]);
            row.extend(end(None));
            rows.push(row);
        }
        for check in &table.checks {
            let mut row = begin(&check.name, "C");
            row.extend([text(&*check.expr), Value::Null, Value::Null, Value::Null]);
            row.extend(enabled(false, false, check.valid));
            row.extend([Value::Null, Value::Null]);
            row.extend(end(Some(&check.expr)));
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
            row.extend(end(None));
            rows.push(row);
        }
    }
}

pub(super) fn cons_columns(catalog: &Catalog, rows: &mut Rows) {
    for table in &catalog.tables {
        let mut add = |name: &str, column: usize, place: Value| {
            rows.push(vec![
                shown_name(&table.schema),
                shown_name(name),
                shown_name(&table.name),
                shown_name(&table.columns[column].name),
                place,
            ]);
        };
        let indexes = table.indexes.iter();
        let keys = indexes.filter_map(|index| Some((index.constraint.as_ref()?, index)));
        let keys = keys.map(|(name, index)| (name, index.key_columns()));
        let foreign = table.foreign.iter().map(|key| (&key.name, &key.columns[..]));
        for (name, columns) in keys.chain(foreign) {
            for (place, at) in columns.iter().enumerate() {
                add(name, usize::from(*at), ordinal(place));
            }
        }
        let names: Vec<&str> = table.columns.iter().map(|column| &*column.name).collect();
        for own in &table.checks {
            // It has been read before: when it was made.
            let Ok(expr) = direct::parse_expr(&own.expr) else { continue };
            for column in check::columns_of(&expr, &names) {
                add(&own.name, column, Value::Null);
            }
        }
    }
}
