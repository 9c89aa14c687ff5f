//! `information_schema`: tables and columns.

use super::Catalog;
use super::constraints;
use super::rights;
use super::rows::{Rows, Shape, int, opt_text, text};
use crate::ddl::is_temporary;
use Shape::{Int4, Name, Text};
use kernel::dict::{ColumnDef, Generated};
use kernel::row::Value;
use query::types::PgType;

/// Whether there is a view of this name.
pub(super) fn is_known(name: &str) -> bool {
    matches!(
        name,
        "tables"
            | "columns"
            | "schemata"
            | "table_constraints"
            | "check_constraints"
            | "key_column_usage"
            | "referential_constraints"
            | "constraint_column_usage"
            | "sequences"
            | "views"
            | "table_privileges"
            | "role_table_grants"
            | "column_privileges"
            | "role_column_grants"
            | "usage_privileges"
            | "role_usage_grants"
            | "applicable_roles"
            | "enabled_roles"
    )
}

/// The view's rows.
pub(super) fn view(catalog: &Catalog, name: &str) -> Option<Rows> {
    Some(match name {
        "tables" => tables(catalog),
        "columns" => columns(catalog),
        "schemata" => schemata(catalog),
        "views" => views(catalog),
        "table_constraints" => constraints::constraints(catalog),
        "check_constraints" => checks(catalog),
        "key_column_usage" => constraints::key_columns(catalog),
        "referential_constraints" => constraints::references(catalog),
        "constraint_column_usage" => constraints::used_columns(catalog),
        "sequences" => sequences(catalog),
        "table_privileges" => rights::table_privileges(catalog, true),
        "role_table_grants" => rights::table_privileges(catalog, false),
        "column_privileges" => rights::column_privileges(catalog, true),
        "role_column_grants" => rights::column_privileges(catalog, false),
        "usage_privileges" => rights::usage_privileges(catalog, true),
        "role_usage_grants" => rights::usage_privileges(catalog, false),
        "applicable_roles" => rights::applicable_roles(catalog),
        "enabled_roles" => rights::enabled_roles(catalog),
        _ => return None,
    })
}

fn tables(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("table_catalog", Name),
        ("table_schema", Name),
        ("table_name", Name),
        ("table_type", Text),
        ("is_insertable_into", Text),
    ]);
    for table in &catalog.tables {
        let own = table.schema != kernel::dict::SYS;
        rows.push(vec![
            text("skein"),
            text(table.schema.as_str()),
            text(table.name.as_str()),
            text(match is_temporary(&table.schema) {
                true => "LOCAL TEMPORARY",
                false => "BASE TABLE",
            }),
            text(if own { "YES" } else { "NO" }),
        ]);
    }
    for view in &catalog.views {
        rows.push(vec![
            text("skein"),
            text(view.schema.as_str()),
            text(view.name.as_str()),
            text("VIEW"),
            text("NO"),
        ]);
    }
    rows
}

fn views(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("table_catalog", Name),
        ("table_schema", Name),
        ("table_name", Name),
        ("view_definition", Text),
        ("check_option", Text),
        ("is_updatable", Text),
        ("is_insertable_into", Text),
        ("is_trigger_updatable", Text),
        ("is_trigger_deletable", Text),
        ("is_trigger_insertable_into", Text),
    ]);
    for view in &catalog.views {
        let mut row = vec![
            text("skein"),
            text(view.schema.as_str()),
            text(view.name.as_str()),
            super::functions::view_definition(view).map_or(Value::Null, text),
            text("NONE"),
        ];
        row.extend((0..5).map(|_| text("NO")));
        rows.push(row);
    }
    rows
}

fn columns(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("table_catalog", Name),
        ("table_schema", Name),
        ("table_name", Name),
        ("column_name", Name),
        ("ordinal_position", Int4),
        ("column_default", Text),
        ("is_nullable", Text),
        ("data_type", Text),
        ("character_maximum_length", Int4),
        ("numeric_precision", Int4),
        ("numeric_scale", Int4),
        ("udt_name", Name),
        ("is_identity", Text),
        ("identity_generation", Text),
        ("is_generated", Text),
        ("generation_expression", Text),
    ]);
    for table in catalog.relations() {
        for (i, column) in table.columns.iter().enumerate() {
            let identity = match column.generated {
                Some(Generated::Always) => Some("ALWAYS"),
                Some(Generated::ByDefault) => Some("BY DEFAULT"),
                _ => None,
            };
            let computed = column.generated == Some(Generated::Stored);
            let plain = column.ty.without_limit();
            let precision = column.ty.precision_scale();
            let number = |n: i64| Value::Int4(i32::try_from(n).unwrap_or(i32::MAX));
            let length = column.ty.length().and_then(|n| i64::try_from(n).ok());
            let udt = PgType::of(plain).oid;
            let own = column.ty.enum_type();
            let known = super::known::TYPES.find(udt.into()).map_or("", |ty| ty.text(1));
            let udt = own.map_or(known, |def| &def.name);
            rows.push(vec![
                text("skein"),
                text(table.schema.as_str()),
                text(table.name.as_str()),
                text(column.name.as_str()),
                number(i64::try_from(i + 1).unwrap_or(0)),
                plain_default(column),
                text(if column.not_null { "NO" } else { "YES" }),
                text(if own.is_some() { "USER-DEFINED".to_owned() } else { plain.to_string() }),
                length.map_or(Value::Null, number),
                precision.map_or(Value::Null, |(p, _)| number(p.into())),
                precision.map_or(Value::Null, |(_, s)| number(s.into())),
                text(udt),
                text(if identity.is_some() { "YES" } else { "NO" }),
                opt_text(identity),
                text(if computed { "ALWAYS" } else { "NEVER" }),
                opt_text(column.default.as_deref().filter(|_| computed)),
            ]);
        }
    }
    rows
}

fn plain_default(column: &ColumnDef) -> Value {
    let default = column.default.as_deref().filter(|_| column.generated.is_none());
    default.map_or(Value::Null, |text_of| text(super::pg::shown_default(column, text_of)))
}

fn schemata(catalog: &Catalog) -> Rows {
    let mut rows =
        Rows::new(&[("catalog_name", Name), ("schema_name", Name), ("schema_owner", Name)]);
    for (_, name, owner) in catalog.all_schemas() {
        let owner = catalog.users.iter().find(|user| user.obj.0 == owner);
        let owner = owner.map_or(kernel::dict::SUPERUSER, |user| user.name.as_str());
        rows.push(vec![text("skein"), text(name), text(owner)]);
    }
    rows
}

fn checks(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("constraint_catalog", Name),
        ("constraint_schema", Name),
        ("constraint_name", Name),
        ("check_clause", Text),
    ]);
    for table in &catalog.tables {
        for check in &table.checks {
            rows.push(vec![
                text("skein"),
                text(table.schema.as_str()),
                text(check.name.as_str()),
                text(clause_of(check)),
            ]);
        }
    }
    rows
}

/// The condition without what its constraint says beside it.
fn clause_of(check: &kernel::dict::CheckDef) -> String {
    match crate::direct::parse_expr(&check.expr) {
        Ok(expr) => format!("({})", crate::check::shown(&expr, false)),
        Err(_) => format!("(({}))", check.expr),
    }
}

fn sequences(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("sequence_catalog", Name),
        ("sequence_schema", Name),
        ("sequence_name", Name),
        ("data_type", Text),
        ("start_value", Text),
        ("minimum_value", Text),
        ("maximum_value", Text),
        ("increment", Text),
        ("cycle_option", Text),
        ("cache_size", Shape::Int8),
    ]);
    for s in &catalog.sequences {
        rows.push(vec![
            text("skein"),
            text(s.schema.as_str()),
            text(s.name.as_str()),
            text("bigint"),
            text(s.start.to_string()),
            text(s.min.to_string()),
            text(s.max.to_string()),
            text(s.increment.to_string()),
            text(if s.cycle { "YES" } else { "NO" }),
            int(s.cache),
        ]);
    }
    rows
}
