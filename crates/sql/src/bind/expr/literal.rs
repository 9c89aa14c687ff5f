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
                } else if digits.bytes().all(|b| b.is_ascii_digit())
                    && digits.parse::<i64>().is_err()
                {
                    // Beyond bigint a whole number is numeric.
                    *expr = call(&cast_name(ColType::new(TypeKind::Numeric)), vec![string(digits)]);
                } else if digits.contains(['e', 'E']) {
                    // The library takes 1e9 for a decimal with -9 digits behind the point.
                    let kind = match parse_numeric(digits) {
                        Ok(_) => TypeKind::Numeric,
                        Err(_) => TypeKind::Float8,
                    };
                    *expr = call(&cast_name(ColType::new(kind)), vec![string(digits)]);
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
                if at >= self.params.types.len() {
                    return Err(PgError::new("42P02", format!("there is no parameter {name}")));
                }
                Ok(())
            }
            other => refuse(format!("the literal {other}")),
        }
    }
}
