//! `information_schema`: tables and columns.

use super::Catalog;
use super::constraints;
use super::rights;
use super::rows::{Rows, Shape, int, text};
use crate::ddl::is_temporary;
use crate::planning::shown_columns;
use Shape::{Int4, Name, Other, Text};
use kernel::dict::{CheckOption, ColumnDef, TableDef};
use kernel::row::{ColType, Value};
use query::types::oid;

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
            | "routines"
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
        "columns" => super::columns::columns(catalog),
        "schemata" => schemata(catalog),
        "views" => views(catalog),
        "routines" => routines(catalog),
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
            text(yes_or_no(is_updatable(catalog, view))),
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
            text(match view.view.as_ref().and_then(|own| own.check) {
                None => "NONE",
                Some(CheckOption::Local) => "LOCAL",
                Some(CheckOption::Cascaded) => "CASCADED",
            }),
        ];
        row.extend((0..2).map(|_| text(yes_or_no(is_updatable(catalog, view)))));
        row.extend((0..3).map(|_| text("NO")));
        rows.push(row);
    }
    rows
}

/// Functions that users have made: there are none.
fn routines(catalog: &Catalog) -> Rows {
    let types = |name: &str| match name {
        "character_maximum_length"
        | "character_octet_length"
        | "numeric_precision"
        | "numeric_precision_radix"
        | "numeric_scale"
        | "datetime_precision"
        | "interval_precision"
        | "maximum_cardinality"
        | "max_dynamic_result_sets"
        | "result_cast_char_max_length"
        | "result_cast_char_octet_length"
        | "result_cast_numeric_precision"
        | "result_cast_numeric_precision_radix"
        | "result_cast_numeric_scale"
        | "result_cast_datetime_precision"
        | "result_cast_interval_precision"
        | "result_cast_maximum_cardinality" => Int4,
        "created" | "last_altered" => Other(oid::TIMESTAMPTZ),
        _ => Text,
    };
    let columns: Vec<_> = ROUTINES.split_whitespace().map(|name| (name, types(name))).collect();
    let mut rows = Rows::new(&columns);
    let names: Vec<&str> = ROUTINES.split_whitespace().collect();
    for row in super::stored::routine_values(catalog, &names) {
        rows.push(row);
    }
    rows
}

const ROUTINES: &str = "specific_catalog specific_schema specific_name routine_catalog \
    routine_schema routine_name routine_type module_catalog module_schema module_name udt_catalog \
    udt_schema udt_name data_type character_maximum_length character_octet_length \
    character_set_catalog character_set_schema character_set_name collation_catalog \
    collation_schema collation_name numeric_precision numeric_precision_radix numeric_scale \
    datetime_precision interval_type interval_precision type_udt_catalog type_udt_schema \
    type_udt_name scope_catalog scope_schema scope_name maximum_cardinality dtd_identifier \
    routine_body routine_definition external_name external_language parameter_style \
    is_deterministic sql_data_access is_null_call sql_path schema_level_routine \
    max_dynamic_result_sets is_user_defined_cast is_implicitly_invocable security_type \
    to_sql_specific_catalog to_sql_specific_schema to_sql_specific_name as_locator created \
    last_altered new_savepoint_level is_udt_dependent result_cast_from_data_type \
    result_cast_as_locator result_cast_char_max_length result_cast_char_octet_length \
    result_cast_char_set_catalog result_cast_char_set_schema result_cast_char_set_name \
    result_cast_collation_catalog result_cast_collation_schema result_cast_collation_name \
    result_cast_numeric_precision result_cast_numeric_precision_radix result_cast_numeric_scale \
    result_cast_datetime_precision result_cast_interval_type result_cast_interval_precision \
    result_cast_type_udt_catalog result_cast_type_udt_schema result_cast_type_udt_name \
    result_cast_scope_catalog result_cast_scope_schema result_cast_scope_name \
    result_cast_maximum_cardinality result_cast_dtd_identifier";

pub(super) fn yes_or_no(yes: bool) -> &'static str {
    if yes { "YES" } else { "NO" }
}

/// Which columns of a relation a statement may change, as far as it is no matter of rights.
pub(super) fn updatable_columns(catalog: &Catalog, def: &TableDef) -> Vec<bool> {
    let Some(own) = &def.view else {
        return vec![def.schema != kernel::dict::SYS; def.columns.len()];
    };
    let find = |schema: &str, name: &str| {
        catalog.relations().find(|known| known.schema == schema && known.name == name)
    };
    let known = crate::ddl::query_of(own).ok().and_then(|query| shown_columns(&query));
    let Some((schema, name, columns)) = known else { return vec![false; def.columns.len()] };
    let Some(below) = find(&schema, &name) else { return vec![false; def.columns.len()] };
    let updatable = updatable_columns(catalog, below);
    let column = |name: &Option<String>| {
        let at = name.as_deref().and_then(|name| below.column(name));
        at.is_some_and(|at| updatable[at])
    };
    columns.iter().map(column).collect()
}

/// Whether rows can be changed through a view.
pub(super) fn is_updatable(catalog: &Catalog, view: &TableDef) -> bool {
    updatable_columns(catalog, view).contains(&true)
}

pub(super) fn plain_default(catalog: &Catalog, column: &ColumnDef) -> Value {
    let default = column.default.as_deref().filter(|_| column.generated.is_none());
    default.map_or(Value::Null, |text_of| text(super::pg::shown_default(catalog, column, text_of)))
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
            text(ColType::new(s.kind).to_string()),
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
