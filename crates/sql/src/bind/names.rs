//! Names: identifiers folded to lower case, and the names PostgreSQL gives to result columns.

use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, DataType, Expr, Ident, ObjectName, SelectItem, TableAlias, TableFactor,
};

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

/// The alias of something in FROM.
pub(crate) fn table_alias(factor: &TableFactor) -> Option<&TableAlias> {
    match factor {
        TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::TableFunction { alias, .. }
        | TableFactor::NestedJoin { alias, .. }
        | TableFactor::UNNEST { alias, .. } => alias.as_ref(),
        _ => None,
    }
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
    figured(expr).map(|(name, _)| name)
}

/// The name that an expression gives its column, and whether it is a good one: a cast around it
/// leaves that as it is, and takes the place of another.
fn figured(expr: &Expr) -> Option<(String, bool)> {
    let good = |name: String| Some((name, true));
    match expr {
        Expr::Identifier(ident) => good(ident_name(ident)),
        Expr::CompoundIdentifier(parts) => parts.last().map(ident_name).and_then(good),
        Expr::Function(function) => {
            let name = function.name.0.last()?.as_ident().map(ident_name)?;
            // As it was written.
            match name.as_str() {
                query::FIELD_SUBSTR => good("substr".to_owned()),
                query::FIELD_TO_CHAR => good("to_char".to_owned()),
                query::TO_DATETIME => good("to_date".to_owned()),
                query::FIELD_TO_NUMBER => good("to_number".to_owned()),
                query::FIELD_TO_TIMESTAMP => good("to_timestamp".to_owned()),
                query::NTH_FROM_LAST => good("nth_value".to_owned()),
                query::SHORT => figured(super::plain_args(function).ok()?.first()?),
                name => good(query::keep::aggregate_of(name).unwrap_or(name).to_owned()),
            }
        }
        Expr::Nested(inner) => figured(inner),
        Expr::CompoundFieldAccess { root, access_chain } => {
            let field = access_chain.iter().rev().find_map(|access| match access {
                AccessExpr::Dot(Expr::Identifier(ident)) => Some(ident_name(ident)),
                _ => None,
            });
            field.map_or_else(|| figured(root), good)
        }
        Expr::Collate { expr, .. } => figured(expr),
        Expr::Cast { expr, data_type, .. } => match figured(expr) {
            Some((name, true)) => good(name),
            _ => Some((type_name(data_type), false)),
        },
        Expr::TypedString(typed) => Some((type_name(&typed.data_type), false)),
        Expr::Interval(_) => Some(("interval".to_owned(), false)),
        Expr::Case { else_result, .. } => {
            let otherwise = else_result.as_ref().and_then(|otherwise| figured(otherwise));
            Some(otherwise.filter(|(_, good)| *good).unwrap_or(("case".to_owned(), false)))
        }
        Expr::Exists { negated: false, .. } => good("exists".to_owned()),
        Expr::Extract { .. } => good("extract".to_owned()),
        Expr::Ceil { .. } => good("ceil".to_owned()),
        Expr::Floor { .. } => good("floor".to_owned()),
        Expr::Position { .. } => good("position".to_owned()),
        Expr::Substring { shorthand: true, .. } => good("substr".to_owned()),
        Expr::Substring { .. } => good("substring".to_owned()),
        Expr::Overlay { .. } => good("overlay".to_owned()),
        Expr::Trim { trim_where, .. } => {
            let name =
                trim_where.as_ref().map_or("btrim", |side| match side.to_string().as_str() {
                    "LEADING" => "ltrim",
                    "TRAILING" => "rtrim",
                    _ => "btrim",
                });
            good(name.to_owned())
        }
        Expr::AtTimeZone { .. } => good("timezone".to_owned()),
        Expr::Array(_) => good("array".to_owned()),
        Expr::Subquery(query) => match &*query.body {
            datafusion::sql::sqlparser::ast::SetExpr::Select(select) => {
                select.projection.first().and_then(output_name).and_then(good)
            }
            _ => None,
        },
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
    if matches!(ty, DataType::Regclass) {
        return "regclass".to_owned();
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
