//! What the field has in expressions and PostgreSQL has not: dates that are computed with in days,
//! templates of its own, `nvl2`.
//!
//! What it promises: an expression that PostgreSQL understands too keeps PostgreSQL's meaning, but
//! for `to_date` with a template that asks for a time, which keeps it, and the patterns `RR` and
//! `FF` of templates. What it must never do: guess from the name of a column that it is a date.

use super::build::{call, string, text_of};
use super::function::plain_args;
use crate::bind::{Binder, object_parts};
use crate::idioms::dates::DAY;
use crate::{PgError, Result};
use ::query::functions::{is_hexadecimal, template};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, CastKind, DataType, Expr, Function,
    helpers::attached_token::AttachedToken,
};

/// Functions of which the result is a date if one of their arguments is one.
const LIKE_AN_ARGUMENT: [&str; 8] =
    ["nvl", "nvl2", "coalesce", "greatest", "least", "decode", "min", "max"];

fn called(function: &Function) -> Option<String> {
    let mut parts = object_parts(&function.name).ok()?;
    let name = parts.pop()?;
    (parts.is_empty() && crate::routines::called_by(std::slice::from_ref(&name)).is_none())
        .then_some(name)
}

/// Whether the expression is a date as the field has it, with a time of day: none that PostgreSQL
/// understands is.
pub(super) fn is_date(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_date(inner),
        Expr::Identifier(ident) => {
            ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("sysdate")
        }
        Expr::BinaryOp { left, op: BinaryOperator::Plus, right } => is_date(left) || is_date(right),
        Expr::BinaryOp { left, op: BinaryOperator::Minus, .. } => is_date(left),
        Expr::Case { conditions, else_result, .. } => {
            let mut results = conditions.iter().map(|when| &when.result);
            results.any(is_date) || else_result.as_deref().is_some_and(is_date)
        }
        Expr::Function(function) => {
            let Some(name) = called(function) else { return false };
            let Ok(args) = plain_args(function) else { return false };
            match (name.as_str(), &args[..]) {
                ("add_months" | "next_day", [_, _]) | ("last_day" | DAY, [_]) => true,
                ("trunc" | "round", [of]) => is_date(of),
                // A template, where PostgreSQL has a number of digits.
                ("trunc" | "round", [of, to]) => {
                    let template = |text: &str| text.bytes().any(|b| b.is_ascii_alphabetic());
                    is_date(of) || text_of(to).is_some_and(template)
                }
                ("to_date", [_, template]) => text_of(template).is_some_and(has_time),
                (::query::TO_DATETIME, [_, _]) => true,
                (name, args) if LIKE_AN_ARGUMENT.contains(&name) => args.iter().any(is_date),
                _ => false,
            }
        }
        _ => false,
    }
}

/// The parts of a template, with whether each stands in double quotes.
fn parts(template: &str) -> impl Iterator<Item = (&str, bool)> {
    template.split('"').enumerate().map(|(at, part)| (part, at % 2 == 1))
}

/// Whether a template asks for a time of day.
fn has_time(template: &str) -> bool {
    parts(template).any(|(part, quoted)| {
        let part = part.to_ascii_uppercase();
        // Minutes without hours, but no month: `MI` is no part of other patterns.
        !quoted && ["HH", "MI", "SS"].iter().any(|pattern| part.contains(pattern))
    })
}

/// A number of days, in which whole numbers are divided as the field divides them.
fn days(expr: &mut Expr) {
    match expr {
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => days(inner),
        Expr::BinaryOp { left, op, right } => {
            if *op == BinaryOperator::Divide {
                let divisor = std::mem::replace(&mut **right, string(""));
                **right = Expr::Cast {
                    kind: CastKind::Cast,
                    expr: Box::new(divisor),
                    data_type: DataType::DoublePrecision,
                    array: false,
                    format: None,
                };
                days(left);
            } else if matches!(
                op,
                BinaryOperator::Plus | BinaryOperator::Minus | BinaryOperator::Multiply
            ) {
                days(left);
                days(right);
            }
        }
        _ => {}
    }
}

/// Whether a template of numbers or times is not PostgreSQL's as it stands.
pub(crate) fn is_of_field(mask: &str) -> bool {
    is_hexadecimal(mask) || template(mask).is_some()
}

impl Binder<'_> {
    /// `sysdate - 1/24`, `sysdate - hired`: whether it was one of these, which is bound then.
    pub(super) fn field_dates(&mut self, expr: &mut Expr) -> Result<bool> {
        let Expr::BinaryOp { left, op, right } = expr else { return Ok(false) };
        let minus = *op == BinaryOperator::Minus;
        let dates = (is_date(left), is_date(right));
        if !(minus || *op == BinaryOperator::Plus) || dates == (false, false) {
            return Ok(false);
        }
        if !dates.0 {
            days(left);
        }
        if !dates.1 {
            days(right);
        }
        self.all([&mut **left, &mut **right])?;
        if minus {
            let sides = vec![(**left).clone(), (**right).clone()];
            *expr = call(::query::functions::FIELD_MINUS, sides);
        }
        Ok(true)
    }

    /// Functions that are written in another way; `None`: another one.
    pub(super) fn field_function(
        &mut self,
        name: &str,
        function: &Function,
    ) -> Result<Option<Expr>> {
        const KNOWN: [&str; 7] = [
            "nvl2",
            "sys_guid",
            "to_char",
            "to_date",
            "to_number",
            "to_timestamp",
            "to_timestamp_tz",
        ];
        if !KNOWN.contains(&name) {
            return Ok(None);
        }
        let mut args = plain_args(function)?;
        match (name, &mut args[..]) {
            ("sys_guid", []) => {
                let id = Expr::Cast {
                    kind: CastKind::Cast,
                    expr: Box::new(call("gen_random_uuid", Vec::new())),
                    data_type: DataType::Text,
                    array: false,
                    format: None,
                };
                let digits = call("replace", vec![id, string("-"), string("")]);
                let mut made = call("decode", vec![digits, string("hex")]);
                self.expr(&mut made)?;
                Ok(Some(made))
            }
            ("nvl2", [value, set, unset]) => {
                let mut case = Expr::Case {
                    case_token: AttachedToken::empty(),
                    end_token: AttachedToken::empty(),
                    operand: None,
                    conditions: vec![CaseWhen {
                        condition: Expr::IsNotNull(Box::new(value.clone())),
                        result: set.clone(),
                    }],
                    else_result: Some(Box::new(unset.clone())),
                };
                self.expr(&mut case)?;
                Ok(Some(case))
            }
            ("nvl2", args) => {
                let text = format!("function nvl2 with {} arguments does not exist", args.len());
                Err(PgError::new("42883", text))
            }
            (_, [_, mask]) => {
                let Some(given) = text_of(mask).map(str::to_owned) else { return Ok(None) };
                let own = template(&given);
                let name = match name {
                    "to_char" if is_hexadecimal(&given) => query::TO_HEX,
                    "to_number" if is_hexadecimal(&given) => query::FROM_HEX,
                    "to_date" if has_time(&given) => ::query::TO_DATETIME,
                    "to_timestamp_tz" => "to_timestamp",
                    _ if own.is_none() => return Ok(None),
                    name => name,
                };
                if let Some(own) = own {
                    *mask = string(own);
                }
                self.all(args.iter_mut())?;
                Ok(Some(call(name, args)))
            }
            _ => Ok(None),
        }
    }

    /// `uid` where no table is in sight that may have a column of that name.
    pub(super) fn is_uid(&self, name: &str) -> bool {
        name == "uid" && self.scopes.iter().all(Vec::is_empty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Expr {
        crate::direct::parse_expr(text).expect("an expression")
    }

    #[test]
    fn dates_are_told_by_how_they_are_made() {
        for text in [
            "sysdate",
            "sysdate - 1/24",
            "1 + (sysdate)",
            "trunc(sysdate)",
            "trunc(d, 'MM') - 1",
            "nvl(d, sysdate)",
            "to_date('x', 'dd.mm.yyyy hh24:mi')",
            "case when a then d else sysdate end",
            "add_months(d, 3)",
        ] {
            assert!(is_date(&parsed(text)), "{text}");
        }
        for text in [
            "d",
            "now()",
            "trunc(d)",
            "trunc(x, '2')",
            "round(x, 2)",
            "d - sysdate",
            "to_date('x', 'dd-mon-yyyy')",
            "to_date('x', 'dd\"mi\"mm')",
            "coalesce(d, e)",
        ] {
            assert!(!is_date(&parsed(text)), "{text}");
        }
    }
}
