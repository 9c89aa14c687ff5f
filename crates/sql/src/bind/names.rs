//! Names: identifiers folded to lower case, and the names PostgreSQL gives to result columns.

use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{DataType, Expr, Ident, ObjectName, SelectItem, Value};

/// An identifier, folded unless quoted.
pub(crate) fn ident_name(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

/// The parts of a qualified name.
pub(crate) fn object_parts(name: &ObjectName) -> Result<Vec<String>> {
    name.0
        .iter()
        .map(|part| {
            part.as_ident()
                .map(ident_name)
                .ok_or_else(|| PgError::syntax(format!("invalid name \"{name}\"")))
        })
        .collect()
}

/// Schema, if given, and name of a relation. A database name in front must be ours.
pub(crate) fn table_parts(name: &ObjectName) -> Result<(Option<String>, String)> {
    let mut parts = object_parts(name)?;
    let last = parts.pop().ok_or_else(|| PgError::syntax("a name is missing"))?;
    let schema = parts.pop();
    match parts.pop() {
        None => Ok((schema, last)),
        Some(database) if database == "skein" && parts.is_empty() => Ok((schema, last)),
        Some(_) => Err(PgError::new(
            "0A000",
            format!("cross-database references are not implemented: \"{name}\""),
        )),
    }
}

/// The name PostgreSQL gives to an item of a select list.
pub(crate) fn output_name(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(ident_name(alias)),
        SelectItem::UnnamedExpr(expr) => {
            Some(expr_name(expr).unwrap_or_else(|| "?column?".to_owned()))
        }
        _ => None,
    }
}

fn expr_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(ident) => Some(ident_name(ident)),
        Expr::CompoundIdentifier(parts) => parts.last().map(ident_name),
        Expr::Function(function) => function.name.0.last()?.as_ident().map(ident_name),
        Expr::Nested(inner) => expr_name(inner),
        Expr::Collate { expr, .. } => expr_name(expr),
        Expr::Cast { expr, data_type, .. } => {
            expr_name(expr).or_else(|| Some(type_name(data_type)))
        }
        Expr::TypedString(typed) => Some(type_name(&typed.data_type)),
        Expr::Case { else_result, .. } => {
            else_result.as_ref().and_then(|e| column_name(e)).or_else(|| Some("case".to_owned()))
        }
        Expr::Exists { negated: false, .. } => Some("exists".to_owned()),
        Expr::Extract { .. } => Some("extract".to_owned()),
        Expr::Ceil { .. } => Some("ceil".to_owned()),
        Expr::Floor { .. } => Some("floor".to_owned()),
        Expr::Position { .. } => Some("position".to_owned()),
        Expr::Substring { shorthand: true, .. } => Some("substr".to_owned()),
        Expr::Substring { .. } => Some("substring".to_owned()),
        Expr::Overlay { .. } => Some("overlay".to_owned()),
        Expr::Trim { trim_where, .. } => {
            let name =
                trim_where.as_ref().map_or("btrim", |side| match side.to_string().as_str() {
                    "LEADING" => "ltrim",
                    "TRAILING" => "rtrim",
                    _ => "btrim",
                });
            Some(name.to_owned())
        }
        Expr::AtTimeZone { .. } => Some("timezone".to_owned()),
        Expr::Array(_) => Some("array".to_owned()),
        Expr::Interval(_) => Some("interval".to_owned()),
        Expr::Value(value) => matches!(value.value, Value::Boolean(_)).then(|| "bool".to_owned()),
        Expr::Subquery(query) => match &*query.body {
            datafusion::sql::sqlparser::ast::SetExpr::Select(select) => {
                select.projection.first().and_then(output_name)
            }
            _ => None,
        },
        _ => None,
    }
}

fn column_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => expr_name(expr),
        _ => None,
    }
}

fn type_name(ty: &DataType) -> String {
    use query::sqltype::col_type_of_sql;
    if let DataType::Custom(name, _) = ty
        && let Some(last) = name.0.last().and_then(|part| part.as_ident())
    {
        return ident_name(last);
    }
    let found = col_type_of_sql(ty).map(|ty| ty.map(|ty| ty.element().unwrap_or(ty)));
    match found {
        Ok(Some(ty)) => match ty.kind {
            kernel::row::TypeKind::Bool => "bool",
            kernel::row::TypeKind::Int2 => "int2",
            kernel::row::TypeKind::Int4 => "int4",
            kernel::row::TypeKind::Int8 => "int8",
            kernel::row::TypeKind::Float4 => "float4",
            kernel::row::TypeKind::Float8 => "float8",
            kernel::row::TypeKind::Numeric => "numeric",
            kernel::row::TypeKind::Text => "text",
            kernel::row::TypeKind::Varchar => "varchar",
            kernel::row::TypeKind::Char => "bpchar",
            kernel::row::TypeKind::Bytea => "bytea",
            kernel::row::TypeKind::Date => "date",
            kernel::row::TypeKind::Timestamp => "timestamp",
            kernel::row::TypeKind::Timestamptz => "timestamptz",
            kernel::row::TypeKind::Uuid => "uuid",
            kernel::row::TypeKind::Time => "time",
            kernel::row::TypeKind::Interval => "interval",
            kernel::row::TypeKind::Json => "json",
            kernel::row::TypeKind::Jsonb => "jsonb",
            kernel::row::TypeKind::Array => "anyarray",
            kernel::row::TypeKind::Enum => ty.enum_type().map_or("anyenum", |def| &def.name),
        }
        .to_owned(),
        _ => ty.to_string().to_lowercase(),
    }
}
