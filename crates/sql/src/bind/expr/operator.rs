//! Operators with two sides.
//!
//! What it promises: `OPERATOR(pg_catalog.=)` and LIKE's operators are what they stand for. What it
//! must never do: let an operator of another schema pass for one of ours.

use super::build::call;
use crate::Result;
use crate::bind::{Binder, refuse};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr};

impl Binder<'_> {
    pub(super) fn binary(&mut self, expr: &mut Expr) -> Result<()> {
        let Expr::BinaryOp { left, op, right } = expr else { return Ok(()) };
        self.all([&mut **left, &mut **right])?;
        if let BinaryOperator::PGCustomBinaryOperator(parts) = op {
            let symbol = match &parts[..] {
                [schema, symbol] if schema.eq_ignore_ascii_case("pg_catalog") => symbol.as_str(),
                [symbol] => symbol.as_str(),
                _ => return refuse("an operator of another schema"),
            };
            *op = match symbol {
                "=" => BinaryOperator::Eq,
                "<>" | "!=" => BinaryOperator::NotEq,
                "<" => BinaryOperator::Lt,
                ">" => BinaryOperator::Gt,
                "<=" => BinaryOperator::LtEq,
                ">=" => BinaryOperator::GtEq,
                "~" => BinaryOperator::PGRegexMatch,
                "~*" => BinaryOperator::PGRegexIMatch,
                "!~" => BinaryOperator::PGRegexNotMatch,
                "!~*" => BinaryOperator::PGRegexNotIMatch,
                "~~" => BinaryOperator::PGLikeMatch,
                "!~~" => BinaryOperator::PGNotLikeMatch,
                "+" => BinaryOperator::Plus,
                "-" => BinaryOperator::Minus,
                "*" => BinaryOperator::Multiply,
                "/" => BinaryOperator::Divide,
                "||" => BinaryOperator::StringConcat,
                other => return refuse(format!("operator {other}")),
            };
        }
        let like = |negated, i: bool, left: &Expr, right: &Expr| {
            let (a, pattern) = (Box::new(left.clone()), Box::new(right.clone()));
            if i {
                Expr::ILike { negated, any: false, expr: a, pattern, escape_char: None }
            } else {
                Expr::Like { negated, any: false, expr: a, pattern, escape_char: None }
            }
        };
        match op {
            BinaryOperator::Plus
            | BinaryOperator::Minus
            | BinaryOperator::Multiply
            | BinaryOperator::Divide
            | BinaryOperator::Modulo
            | BinaryOperator::StringConcat
            | BinaryOperator::Gt
            | BinaryOperator::Lt
            | BinaryOperator::GtEq
            | BinaryOperator::LtEq
            | BinaryOperator::Eq
            | BinaryOperator::NotEq
            | BinaryOperator::And
            | BinaryOperator::Or
            | BinaryOperator::BitwiseAnd
            | BinaryOperator::BitwiseOr
            | BinaryOperator::PGBitwiseShiftLeft
            | BinaryOperator::PGBitwiseShiftRight
            | BinaryOperator::PGRegexMatch
            | BinaryOperator::PGRegexIMatch
            | BinaryOperator::PGRegexNotMatch
            | BinaryOperator::PGRegexNotIMatch => Ok(()),
            BinaryOperator::PGExp => {
                *expr = call("power", vec![(**left).clone(), (**right).clone()]);
                Ok(())
            }
            BinaryOperator::PGLikeMatch => {
                *expr = like(false, false, left, right);
                Ok(())
            }
            BinaryOperator::PGNotLikeMatch => {
                *expr = like(true, false, left, right);
                Ok(())
            }
            BinaryOperator::PGILikeMatch => {
                *expr = like(false, true, left, right);
                Ok(())
            }
            BinaryOperator::PGNotILikeMatch => {
                *expr = like(true, true, left, right);
                Ok(())
            }
            other => refuse(format!("operator {other}")),
        }
    }
}
