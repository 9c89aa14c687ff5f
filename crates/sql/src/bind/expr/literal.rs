//! Literals and parameters.
//!
//! What it promises: a number has the type PostgreSQL gives it. What it must never do: round one.

use super::build::{call, number, string};
use crate::bind::{Binder, refuse};
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{CastKind, DataType, Expr, Value};
use kernel::row::{ColType, TypeKind};
use query::cast::parse_numeric;
use query::functions::cast_name;

/// Position of a parameter named `$1`, from 0.
pub(crate) fn placeholder_index(name: &str) -> Result<usize> {
    name.strip_prefix('$')
        .and_then(|n| n.parse::<usize>().ok())
        .and_then(|n| n.checked_sub(1))
        .ok_or_else(|| PgError::new("42P02", format!("there is no parameter {name}")))
}

/// What stands behind a minus sign, if both together are the least integer or bigint.
pub(super) fn least_integer(digits: &Expr) -> Option<Expr> {
    let Expr::Value(value) = digits else { return None };
    let Value::Number(digits, _) = &value.value else { return None };
    let kind = match digits.as_str() {
        "2147483648" => TypeKind::Int4,
        "9223372036854775808" => TypeKind::Int8,
        _ => return None,
    };
    Some(call(&cast_name(ColType::new(kind)), vec![string(format!("-{digits}"))]))
}

/// A literal that is no integer: a numeric with the digits it is written with.
fn decimal(digits: &str) -> Result<Expr> {
    match parse_numeric(digits) {
        // The library takes 1e9 for a decimal with -9 digits behind the point, and what has no
        // point for double precision beyond bigint.
        Ok((value, 0)) => Ok(number(&format!("{value}."))),
        Ok((value, scale)) => {
            let width = usize::from(scale) + 1;
            let all = format!("{value:0width$}");
            let (whole, fraction) = all.split_at(all.len() - usize::from(scale));
            Ok(number(&format!("{whole}.{fraction}")))
        }
        // A number far beyond our numerics.
        Err(_) if digits.contains(['e', 'E']) => {
            Ok(call(&cast_name(ColType::new(TypeKind::Float8)), vec![string(digits)]))
        }
        Err(error) => Err(error),
    }
}

impl Binder<'_> {
    pub(super) fn value(&mut self, expr: &mut Expr) -> Result<()> {
        let Expr::Value(value) = expr else { return Ok(()) };
        match &value.value {
            Value::Number(digits, _) => {
                if digits.parse::<i32>().is_ok() {
                    *expr = Expr::Cast {
                        kind: CastKind::Cast,
                        expr: Box::new(number(&digits.clone())),
                        data_type: DataType::Int4(None),
                        array: false,
                        format: None,
                    };
                } else if digits.parse::<i64>().is_err() {
                    *expr = decimal(digits)?;
                }
                Ok(())
            }
            Value::SingleQuotedString(_) | Value::Boolean(_) | Value::Null => Ok(()),
            Value::EscapedStringLiteral(text) => {
                *expr = string(text.clone());
                Ok(())
            }
            Value::DollarQuotedString(text) => {
                *expr = string(text.value.clone());
                Ok(())
            }
            Value::Placeholder(name) => {
                let at = placeholder_index(name)?;
                // Behind the client's stand those that a statement has put in place of something.
                if at >= self.params.types.len() + self.params.hidden.len() {
                    return Err(PgError::new("42P02", format!("there is no parameter {name}")));
                }
                Ok(())
            }
            other => refuse(format!("the literal {other}")),
        }
    }
}
