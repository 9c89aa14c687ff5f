//! Numerics that are known when the statement is bound.
//!
//! What it promises: such a numeric has the digits that PostgreSQL gives it; in a plan a column of
//! numerics has one number of digits. What it must never do: raise an error for a call that may
//! never be reached.

use super::build::number;
use super::function::plain_args;
use crate::bind::object_parts;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, UnaryOperator, Value as Literal,
};
use kernel::row::{ColType, TypeKind, Value};
use query::cast::{CastMode, parse_numeric};
use query::sqltype::col_type_of_sql;
use query::wire::FormatEnv;

/// A constant, and its kind if it has one.
pub(super) fn constant(expr: &Expr) -> Option<(Value, Option<TypeKind>)> {
    match expr {
        Expr::Nested(inner) => constant(inner),
        Expr::Value(value) => literal(&value.value),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
            let (value, kind) = constant(expr)?;
            let negated = match value {
                Value::Int4(v) => Value::Int4(v.checked_neg()?),
                Value::Int8(v) => Value::Int8(v.checked_neg()?),
                Value::Numeric(v, scale) => Value::Numeric(-v, scale),
                _ => return None,
            };
            Some((negated, kind))
        }
        Expr::Cast {
            kind: CastKind::Cast | CastKind::DoubleColon,
            expr,
            data_type,
            array: false,
            format: None,
        } => cast(expr, data_type),
        Expr::TypedString(text) => cast(&Expr::Value(text.value.clone()), &text.data_type),
        Expr::BinaryOp { left, op: BinaryOperator::PGExp, right } => {
            let args = [constant(left)?, constant(right)?];
            let value = query::functions::numeric_constant("power", &args)?;
            Some((value, Some(TypeKind::Numeric)))
        }
        Expr::Function(function) => {
            let name = object_parts(&function.name).ok()?.pop()?;
            let args = plain_args(function).ok()?;
            let args: Option<Vec<_>> = args.iter().map(constant).collect();
            let value = query::functions::numeric_constant(&name, &args?)?;
            Some((value, Some(TypeKind::Numeric)))
        }
        _ => None,
    }
}

fn literal(value: &Literal) -> Option<(Value, Option<TypeKind>)> {
    match value {
        Literal::Number(digits, _) => {
            if let Ok(v) = digits.parse::<i32>() {
                return Some((Value::Int4(v), Some(TypeKind::Int4)));
            }
            if let Ok(v) = digits.parse::<i64>() {
                return Some((Value::Int8(v), Some(TypeKind::Int8)));
            }
            let (v, scale) = parse_numeric(digits).ok()?;
            Some((Value::Numeric(v, scale), Some(TypeKind::Numeric)))
        }
        Literal::SingleQuotedString(text) => Some((Value::Text(text.as_str().into()), None)),
        _ => None,
    }
}

fn cast(inner: &Expr, to: &DataType) -> Option<(Value, Option<TypeKind>)> {
    let to = col_type_of_sql(to).ok()??;
    let numeric = ColType::new(TypeKind::Numeric);
    if to != numeric && !matches!(to.kind, TypeKind::Int2 | TypeKind::Int4 | TypeKind::Int8) {
        return None;
    }
    let (value, _) = constant(inner)?;
    let env = FormatEnv::plain();
    let value = query::cast::cast(&value.as_datum(), to, CastMode::Explicit, &env).ok()?;
    Some((value, Some(to.kind)))
}

/// A plain literal in place of a whole number.
pub(super) fn whole_literal(expr: &Expr) -> Option<Expr> {
    let (Value::Int4(v), _) = constant(expr)? else { return None };
    let literal = number(&v.unsigned_abs().to_string());
    Some(if v < 0 {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(literal) }
    } else {
        literal
    })
}

/// A literal in place of an expression that is such a numeric, with digits behind the point.
pub(super) fn numeric_literal(expr: &Expr) -> Option<Expr> {
    let (Value::Numeric(v, scale), Some(TypeKind::Numeric)) = constant(expr)? else { return None };
    if scale == 0 || scale > 38 {
        return None;
    }
    let width = usize::from(scale) + 1;
    let digits = format!("{:0>width$}", v.unsigned_abs().to_string());
    let (whole, fraction) = digits.split_at(digits.len() - usize::from(scale));
    let literal = number(&format!("{whole}.{fraction}"));
    Some(if v < 0 {
        Expr::Nested(Box::new(Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(literal) }))
    } else {
        literal
    })
}
