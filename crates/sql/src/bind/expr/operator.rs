//! Operators with two sides.
//!
//! What it promises: `OPERATOR(pg_catalog.=)` and LIKE's operators are what they stand for. What it
//! must never do: let an operator of another schema pass for one of ours.

use super::build::{call, not, string, text_of};
use crate::Result;
use crate::bind::{Binder, refuse};
use datafusion::sql::sqlparser::ast::{BinaryOperator, DataType, Expr, Value};

impl Binder<'_> {
    pub(super) fn binary(&mut self, expr: &mut Expr) -> Result<()> {
        if let Some(mut rows) = super::compare::rows_compared(expr)? {
            self.expr(&mut rows)?;
            *expr = rows;
            return Ok(());
        }
        if let Some(compared) = super::rows::row_compared(expr)? {
            *expr = compared;
            return self.expr(expr);
        }
        if let Some(literal) = super::constant::numeric_literal(expr) {
            *expr = literal;
            return Ok(());
        }
        if self.field_dates(expr)? {
            return Ok(());
        }
        let Expr::BinaryOp { left, op, right } = expr else { return Ok(()) };
        if json_operator(op).is_some() {
            path_literal(right);
        }
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
                "->" => BinaryOperator::Arrow,
                "->>" => BinaryOperator::LongArrow,
                "#>" => BinaryOperator::HashArrow,
                "#>>" => BinaryOperator::HashLongArrow,
                "@>" => BinaryOperator::AtArrow,
                "<@" => BinaryOperator::ArrowAt,
                "&&" => BinaryOperator::PGOverlap,
                other => return refuse(format!("operator {other}")),
            };
        }
        if let Some((function, swapped)) = json_operator(op) {
            let (a, b) = if swapped { (right, left) } else { (left, right) };
            *expr = call(function, vec![(**a).clone(), (**b).clone()]);
            return Ok(());
        }
        if let Some(function) = function_operator(op) {
            *expr = call(function, vec![(**left).clone(), (**right).clone()]);
            return Ok(());
        }
        let like = |negated, i: bool, left: &Expr, right: &Expr| {
            if text_of(right).is_some_and(|text| text.ends_with('\\')) {
                let name = if i { "$ilike" } else { "$like" };
                return not(call(name, vec![left.clone(), right.clone()]), negated);
            }
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
            | BinaryOperator::Or => Ok(()),
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

/// The function that an operator stands for.
fn function_operator(op: &BinaryOperator) -> Option<&'static str> {
    Some(match op {
        BinaryOperator::BitwiseAnd => "$bit_and",
        BinaryOperator::BitwiseOr => "$bit_or",
        BinaryOperator::PGBitwiseXor | BinaryOperator::BitwiseXor => "$bit_xor",
        BinaryOperator::PGBitwiseShiftLeft => "$shift_left",
        BinaryOperator::PGBitwiseShiftRight => "$shift_right",
        BinaryOperator::PGRegexMatch => "$regex",
        BinaryOperator::PGRegexIMatch => "$iregex",
        BinaryOperator::PGRegexNotMatch => "$not_regex",
        BinaryOperator::PGRegexNotIMatch => "$not_iregex",
        BinaryOperator::PGStartsWith => "$starts_with",
        BinaryOperator::PGExp => "$power",
        _ => return None,
    })
}

/// The function that an operator of json, jsonb or arrays stands for, and whether its sides change
/// places.
fn json_operator(op: &BinaryOperator) -> Option<(&'static str, bool)> {
    Some(match op {
        BinaryOperator::Arrow => ("$json_get", false),
        BinaryOperator::LongArrow => ("$json_get_text", false),
        BinaryOperator::HashArrow => ("$json_path", false),
        BinaryOperator::HashLongArrow => ("$json_path_text", false),
        BinaryOperator::AtArrow => ("$jsonb_contains", false),
        BinaryOperator::ArrowAt => ("$jsonb_contains", true),
        BinaryOperator::PGOverlap => ("$array_overlap", false),
        BinaryOperator::Question => ("$jsonb_exists", false),
        BinaryOperator::QuestionPipe => ("$jsonb_exists_any", false),
        BinaryOperator::QuestionAnd => ("$jsonb_exists_all", false),
        BinaryOperator::HashMinus => ("$jsonb_delete_path", false),
        _ => return None,
    })
}

/// `array['a', 'b']` and `'{a,b}'::text[]` beside such an operator, as the text of the array.
fn path_literal(expr: &mut Expr) {
    if let Expr::Cast { expr: inner, data_type: DataType::Array(_), .. } = expr
        && text_of(inner).is_some()
    {
        *expr = (**inner).clone();
        return;
    }
    let Expr::Array(array) = expr else { return };
    let items: Option<Vec<String>> = array
        .elem
        .iter()
        .map(|item| match item {
            Expr::Value(v) => match &v.value {
                Value::Number(digits, _) => Some(digits.clone()),
                _ => text_of(item)
                    .map(|t| format!("\"{}\"", t.replace('\\', "\\\\").replace('"', "\\\""))),
            },
            _ => None,
        })
        .collect();
    if let Some(items) = items {
        *expr = string(format!("{{{}}}", items.join(",")));
    }
}
