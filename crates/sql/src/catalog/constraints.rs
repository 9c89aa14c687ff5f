//! `information_schema`: constraints, and the columns they are about.
//!
//! What it promises: a foreign key names the constraint it refers to, if its index is one. What it
//! must never do: name a column that the constraint does not mention.

use super::Catalog;
use super::functions::action_words;
use super::rows::{Rows, Shape, opt_text, text};
use crate::{check, direct};
use Shape::{Int4, Name, Text};
use kernel::dict::{ForeignKeyDef, TableDef};
use kernel::row::Value;

/// The database's name in these views.
const CATALOG: &str = "skein";

fn yes_no(yes: bool) -> Value {
    text(if yes { "YES" } else { "NO" })
}

fn ordinal(i: usize) -> Value {
    Value::Int4(i32::try_from(i + 1).unwrap_or(0))
}

fn parent<'a>(catalog: &'a Catalog, key: &ForeignKeyDef) -> Option<&'a TableDef> {
    catalog.tables.iter().find(|table| table.obj == key.parent).map(|table| &**table)
}

pub(super) fn constraints(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("constraint_catalog", Name),
        ("constraint_schema", Name),
        ("constraint_name", Name),
        ("table_schema", Name),
        ("table_name", Name),
        ("constraint_type", Text),
        ("is_deferrable", Text),
        ("initially_deferred", Text),
    ]);
    for table in &catalog.tables {
        let mut add = |name: &str, kind: &str, deferrable: bool, deferred: bool| {
            rows.push(vec![
                text(CATALOG),
                text(table.schema.as_str()),
                text(name),
                text(table.schema.as_str()),
                text(table.name.as_str()),
                text(kind),
                yes_no(deferrable),
                yes_no(deferred),
            ]);
        };
        for index in &table.indexes {
            let Some(name) = &index.constraint else { continue };
            add(name, if index.primary { "PRIMARY KEY" } else { "UNIQUE" }, false, false);
        }
        table.checks.iter().for_each(|check| add(&check.name, "CHECK", false, false));
        for key in &table.foreign {
            add(&key.name, "FOREIGN KEY", key.deferrable, key.deferred);
        }
    }
    rows
}

pub(super) fn key_columns(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("constraint_schema", Name),
        ("constraint_name", Name),
        ("table_schema", Name),
        ("table_name", Name),
        ("column_name", Name),
        ("ordinal_position", Int4),
        ("position_in_unique_constraint", Int4),
    ]);
    for table in &catalog.tables {
        let mut add = |name: &str, columns: &[u16], parts: Option<&[u16]>| {
            for (i, at) in columns.iter().enumerate() {
                let part = parts.and_then(|parts| parts.get(i));
                rows.push(vec![
                    text(table.schema.as_str()),
                    text(name),
                    text(table.schema.as_str()),
                    text(table.name.as_str()),
                    text(table.columns[usize::from(*at)].name.as_str()),
                    ordinal(i),
                    part.map_or(Value::Null, |part| ordinal(usize::from(*part))),
                ]);
            }
        };
        for index in &table.indexes {
            let Some(name) = &index.constraint else { continue };
            add(name, &index.columns, None);
        }
        for key in &table.foreign {
            add(&key.name, &key.columns, Some(&key.parts));
        }
    }
    rows
}

pub(super) fn references(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("constraint_catalog", Name),
        ("constraint_schema", Name),
        ("constraint_name", Name),
        ("unique_constraint_catalog", Name),
        ("unique_constraint_schema", Name),
        ("unique_constraint_name", Name),
        ("match_option", Text),
        ("update_rule", Text),
        ("delete_rule", Text),
    ]);
    for table in &catalog.tables {
        for key in &table.foreign {
            let parent = parent(catalog, key);
            let index = parent.and_then(|p| p.indexes.iter().find(|i| i.obj == key.index));
            let unique = index.and_then(|index| index.constraint.as_deref());
            let of_unique = |name: &str| opt_text(unique.map(|_| name));
            rows.push(vec![
                text(CATALOG),
                text(table.schema.as_str()),
                text(key.name.as_str()),
                of_unique(CATALOG),
                of_unique(parent.map_or("", |parent| parent.schema.as_str())),
                opt_text(unique),
                text(if key.full { "FULL" } else { "NONE" }),
                text(action_words(key.on_update)),
                text(action_words(key.on_delete)),
            ]);
        }
    }
    rows
}

/// The columns that constraints are about; of a foreign key those it refers to.
pub(super) fn used_columns(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("table_catalog", Name),
        ("table_schema", Name),
        ("table_name", Name),
        ("column_name", Name),
        ("constraint_catalog", Name),
        ("constraint_schema", Name),
        ("constraint_name", Name),
    ]);
    for table in &catalog.tables {
        let mut add = |of: &TableDef, columns: &[usize], name: &str| {
            for at in columns {
                rows.push(vec![
                    text(CATALOG),
                    text(of.schema.as_str()),
                    text(of.name.as_str()),
                    text(of.columns[*at].name.as_str()),
                    text(CATALOG),
                    text(table.schema.as_str()),
                    text(name),
                ]);
            }
        };
        let wide = |columns: &[u16]| columns.iter().map(|c| usize::from(*c)).collect::<Vec<_>>();
        for index in &table.indexes {
            let Some(name) = &index.constraint else { continue };
            add(table, &wide(&index.columns), name);
        }
        let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
        for one in &table.checks {
            let Ok(expr) = direct::parse_expr(&one.expr) else { continue };
            add(table, &check::columns_of(&expr, &names), &one.name);
        }
        for key in &table.foreign {
            let Some(parent) = parent(catalog, key) else { continue };
            add(parent, &wide(&key.parent_columns(parent).unwrap_or_default()), &key.name);
        }
    }
    rows
}
