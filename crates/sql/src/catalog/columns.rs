//! `information_schema.columns`, with all columns that it has in PostgreSQL.

use super::Catalog;
use super::rows::{Rows, Shape, opt_text, text};
use super::schema::{plain_default, updatable_columns, yes_or_no};
use Shape::{Int4, Name, Text};
use kernel::dict::{ColumnDef, Generated, SequenceDef, TableDef};
use kernel::row::{ColType, PRECISION_MAX, TypeKind, Value};
use query::types::PgType;
use std::collections::HashMap;

const COLUMNS: &str = "table_catalog table_schema table_name column_name ordinal_position \
    column_default is_nullable data_type character_maximum_length character_octet_length \
    numeric_precision numeric_precision_radix numeric_scale datetime_precision interval_type \
    interval_precision character_set_catalog character_set_schema character_set_name \
    collation_catalog collation_schema collation_name domain_catalog domain_schema domain_name \
    udt_catalog udt_schema udt_name scope_catalog scope_schema scope_name maximum_cardinality \
    dtd_identifier is_self_referencing is_identity identity_generation identity_start \
    identity_increment identity_maximum identity_minimum identity_cycle is_generated \
    generation_expression is_updatable";

const TEXT_OCTETS_MAX: i64 = 1 << 30;
const CHARACTER_OCTETS_MAX: i64 = 4;

pub(super) fn columns(catalog: &Catalog) -> Rows {
    let names: Vec<&str> = COLUMNS.split_whitespace().collect();
    let shape = |name: &str| match name {
        "ordinal_position"
        | "character_maximum_length"
        | "character_octet_length"
        | "numeric_precision"
        | "numeric_precision_radix"
        | "numeric_scale"
        | "datetime_precision"
        | "interval_precision"
        | "maximum_cardinality" => Int4,
        "column_default" | "data_type" | "interval_type" | "generation_expression" => Text,
        name if name.starts_with("identity_") || name.starts_with("is_") => Text,
        _ => Name,
    };
    let mut rows = Rows::new(&names.iter().map(|name| (*name, shape(name))).collect::<Vec<_>>());
    let mut identities = HashMap::new();
    for sequence in &catalog.sequences {
        if let Some((table, at, true)) = catalog.column_of(sequence) {
            identities.insert((table.obj, at), &**sequence);
        }
    }
    for table in catalog.relations() {
        let updatable = updatable_columns(catalog, table);
        for (at, column) in table.columns.iter().enumerate() {
            let identity = identities.get(&(table.obj, at)).copied();
            let mut known: HashMap<&str, Value> =
                described(catalog, table, at, column, identity).into_iter().collect();
            known.insert("is_updatable", text(yes_or_no(updatable[at])));
            rows.push(names.iter().map(|name| known.remove(name).unwrap_or(Value::Null)).collect());
            debug_assert!(known.is_empty(), "names of columns: {:?}", known.keys());
        }
    }
    rows
}

/// What is known of a column; the rest is NULL.
fn described(
    catalog: &Catalog,
    table: &TableDef,
    at: usize,
    column: &ColumnDef,
    sequence: Option<&SequenceDef>,
) -> Vec<(&'static str, Value)> {
    let number = |n: i64| Value::Int4(i32::try_from(n).unwrap_or(i32::MAX));
    let or_null = |n: Option<i64>| n.map_or(Value::Null, number);
    let position = i64::try_from(at + 1).unwrap_or(0);
    let identity = match column.generated {
        Some(Generated::Always) => Some("ALWAYS"),
        Some(Generated::ByDefault) => Some("BY DEFAULT"),
        _ => None,
    };
    let computed = column.generated == Some(Generated::Stored);
    let plain = column.ty.without_limit();
    let [precision, radix, scale] = digits(column.ty);
    let length = column.ty.length().and_then(|n| i64::try_from(n).ok());
    let octets = column
        .ty
        .kind
        .is_text()
        .then(|| length.map_or(TEXT_OCTETS_MAX, |n| n.saturating_mul(CHARACTER_OCTETS_MAX)));
    let udt = PgType::of(plain).oid;
    let own = catalog.user_type(udt.into());
    let known = super::known::TYPES.find(udt.into()).map_or("", |ty| ty.text(1));
    let mut out = vec![
        ("table_catalog", text("skein")),
        ("table_schema", text(table.schema.as_str())),
        ("table_name", text(table.name.as_str())),
        ("column_name", text(column.name.as_str())),
        ("ordinal_position", number(position)),
        ("column_default", plain_default(catalog, column)),
        ("is_nullable", text(if column.not_null { "NO" } else { "YES" })),
        (
            "data_type",
            text(match (own, plain.element()) {
                (Some(_), _) => "USER-DEFINED".to_owned(),
                (_, Some(_)) => "ARRAY".to_owned(),
                _ => plain.to_string(),
            }),
        ),
        ("character_maximum_length", or_null(length)),
        ("character_octet_length", or_null(octets)),
        ("numeric_precision", or_null(precision)),
        ("numeric_precision_radix", or_null(radix)),
        ("numeric_scale", or_null(scale)),
        ("datetime_precision", or_null(digits_of(column.ty).map(i64::from))),
        ("interval_type", opt_text(interval_type(column.ty).as_deref())),
        ("udt_catalog", text("skein")),
        ("udt_schema", text(own.map_or("pg_catalog", |ty| &ty.schema))),
        ("udt_name", text(own.map_or(known, |ty| &ty.name))),
        ("dtd_identifier", text(position.to_string())),
        ("is_self_referencing", text("NO")),
        ("is_identity", text(yes_or_no(identity.is_some()))),
        ("identity_generation", opt_text(identity)),
        ("identity_cycle", text(yes_or_no(sequence.is_some_and(|s| s.cycle)))),
        ("is_generated", text(if computed { "ALWAYS" } else { "NEVER" })),
        ("generation_expression", opt_text(column.default.as_deref().filter(|_| computed))),
    ];
    if let Some(s) = sequence {
        out.extend([
            ("identity_start", text(s.start.to_string())),
            ("identity_increment", text(s.increment.to_string())),
            ("identity_maximum", text(s.max.to_string())),
            ("identity_minimum", text(s.min.to_string())),
        ]);
    }
    out
}

/// The digits of a second's fraction in a column, as the view tells them: none in a date.
fn digits_of(ty: ColType) -> Option<u8> {
    match ty.kind {
        TypeKind::Date => Some(0),
        TypeKind::Timestamp | TypeKind::Timestamptz | TypeKind::Time | TypeKind::Interval => {
            Some(ty.precision().unwrap_or(PRECISION_MAX))
        }
        _ => None,
    }
}

/// The fields of an interval, as they stand behind its type's name.
fn interval_type(ty: ColType) -> Option<String> {
    let shown = (ty.kind == TypeKind::Interval).then(|| ty.to_string())?;
    shown.strip_prefix("interval ").map(str::to_uppercase)
}

/// Precision, its radix, and scale of numbers.
fn digits(ty: ColType) -> [Option<i64>; 3] {
    let precision = ty.precision_scale();
    match ty.kind {
        TypeKind::Int2 => [Some(16), Some(2), Some(0)],
        TypeKind::Int4 => [Some(32), Some(2), Some(0)],
        TypeKind::Int8 => [Some(64), Some(2), Some(0)],
        TypeKind::Float4 => [Some(24), Some(2), None],
        TypeKind::Float8 => [Some(53), Some(2), None],
        TypeKind::Numeric => {
            [precision.map(|(p, _)| p.into()), Some(10), precision.map(|(_, s)| s.into())]
        }
        _ => [None; 3],
    }
}
