//! Comparisons with several values: BETWEEN, IN, ANY and ALL.
//!
//! What it promises: an untyped literal takes the other side's type. What it must never do: write
//! out a list so long that the plan is all comparisons, or one whose values have a type in common.

use super::array::array_items;
use super::build::{binary, call, not, string, text_of};
use crate::bind::{Binder, object_parts, refuse};
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, UnaryOperator,
    Value,
};
use std::fmt::Write as _;

/// Longest list that is written out as comparisons.
const LIST_MAX: usize = 64;

/// Longest list whose items are looked at one by one when a plan is made.
const WRITTEN_MAX: usize = 1_000;

/// A list of nothing but whole numbers, or but untyped literals, and NULL: the function that looks
/// for a value in it, and how it is written as an array.
fn constants(list: &[Expr]) -> Option<(&'static str, String)> {
    let mut text = String::with_capacity(list.len() * 8);
    let literals = text_of(list.first()?).is_some();
    for item in list {
        text.push(if text.is_empty() { '{' } else { ',' });
        match item {
            Expr::Value(value) if value.value == Value::Null => text.push_str("NULL"),
            item if literals => {
                text.push('"');
                for c in text_of(item)?.chars() {
                    if matches!(c, '"' | '\\') {
                        text.push('\\');
                    }
                    text.push(c);
                }
                text.push('"');
            }
            item => write!(text, "{}", whole_number(item)?).ok()?,
        }
    }
    text.push('}');
    Some((if literals { query::lists::IN_LITERALS } else { query::lists::IN_INTEGERS }, text))
}

/// Functions of texts that give a text.
const OF_TEXTS: [&str; 23] = [
    "btrim",
    "chr",
    "concat",
    "concat_ws",
    "format",
    "initcap",
    "left",
    "lower",
    "lpad",
    "ltrim",
    "md5",
    "repeat",
    "replace",
    "reverse",
    "right",
    "rpad",
    "rtrim",
    "split_part",
    "substr",
    "substring",
    "to_char",
    "translate",
    "upper",
];

fn is_text_type(data_type: &DataType) -> bool {
    let ty = query::sqltype::col_type_of_sql(data_type).ok().flatten();
    ty.is_some_and(|ty| ty.kind.is_text())
}

fn whole_number(item: &Expr) -> Option<i64> {
    let digits = |expr: &Expr| match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, false) => digits.parse::<i64>().ok(),
            _ => None,
        },
        _ => None,
    };
    match item {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => digits(expr).map(|n| -n),
        other => digits(other),
    }
}

impl Binder<'_> {
    /// Written out as comparisons, where an untyped literal takes the other side's type.
    pub(super) fn between(&mut self, expr: &mut Expr) -> Result<()> {
        let Expr::Between { expr: value, negated, low, high } = expr else { return Ok(()) };
        self.all([&mut **value, &mut **low, &mut **high])?;
        let low = binary((**value).clone(), BinaryOperator::GtEq, (**low).clone());
        let high = binary((**value).clone(), BinaryOperator::LtEq, (**high).clone());
        let both = Expr::Nested(Box::new(binary(low, BinaryOperator::And, high)));
        *expr = not(both, *negated);
        Ok(())
    }

    pub(super) fn in_list(&mut self, expr: &mut Expr) -> Result<()> {
        let Expr::InList { expr: value, list, negated } = expr else { return Ok(()) };
        if list.is_empty() {
            return Err(PgError::syntax("syntax error at or near \")\""));
        }
        if is_row(value) {
            let equal = |row: Expr| binary((**value).clone(), BinaryOperator::Eq, row);
            let rows = list.drain(..).map(equal).collect();
            let any = joined(rows, &BinaryOperator::Or).unwrap_or_else(|| string(""));
            let mut any = not(Expr::Nested(Box::new(any)), *negated);
            self.expr(&mut any)?;
            *expr = any;
            return Ok(());
        }
        self.expr(value)?;
        if list.len() > WRITTEN_MAX
            && let Some((function, text)) = constants(list)
        {
            let any = call(function, vec![(**value).clone(), string(text)]);
            *expr = not(any, *negated);
            return Ok(());
        }
        // Literals beside texts have one type with them, which the value decides on: char(n) is not
        // compared with each by itself.
        let texts = list.iter().any(|item| self.is_text_value(item));
        let texts = texts && !self.is_untyped(value);
        self.all(list.iter_mut())?;
        let untyped = list.iter().any(|e| text_of(e).is_some());
        if !untyped || texts || list.len() > LIST_MAX {
            return Ok(());
        }
        let (value, negated) = ((**value).clone(), *negated);
        let equal = list.drain(..).map(|item| binary(value.clone(), BinaryOperator::Eq, item));
        let any = joined(equal.collect(), &BinaryOperator::Or).unwrap_or_else(|| string(""));
        *expr = not(Expr::Nested(Box::new(any)), negated);
        Ok(())
    }

    /// Whether it is a literal, or a parameter, that has no type yet.
    fn is_untyped(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Nested(inner) => self.is_untyped(inner),
            Expr::Value(value) => match &value.value {
                Value::Placeholder(name) => self.parameter_type(name).is_none(),
                _ => text_of(expr).is_some(),
            },
            _ => false,
        }
    }

    /// Whether it is a text for certain, and no literal.
    fn is_text_value(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Nested(inner) => self.is_text_value(inner),
            Expr::Cast { data_type, .. } => is_text_type(data_type),
            Expr::TypedString(typed) => is_text_type(&typed.data_type),
            Expr::Value(value) => match &value.value {
                Value::Placeholder(name) => {
                    self.parameter_type(name).is_some_and(|ty| ty.kind.is_text())
                }
                _ => false,
            },
            Expr::Function(call) => {
                let name = object_parts(&call.name).ok().and_then(|mut parts| parts.pop());
                name.is_some_and(|name| OF_TEXTS.contains(&name.as_str()))
            }
            Expr::BinaryOp { op: BinaryOperator::StringConcat, .. }
            | Expr::Substring { .. }
            | Expr::Trim { .. } => true,
            _ => false,
        }
    }

    fn parameter_type(&self, name: &str) -> Option<kernel::row::ColType> {
        let at = super::literal::placeholder_index(name).ok()?;
        self.params.types.get(at).copied().flatten()
    }

    /// `x = ANY (...)` over an array literal or a subquery.
    pub(super) fn any_all(&mut self, expr: &mut Expr) -> Result<()> {
        let (left, op, right, any) = match expr {
            Expr::AnyOp { left, compare_op, right, .. } => (left, compare_op, right, true),
            Expr::AllOp { left, compare_op, right } => (left, compare_op, right, false),
            _ => return Ok(()),
        };
        if let Expr::Subquery(subquery) = &mut **right {
            let negated = match (&op, any) {
                (BinaryOperator::Eq, true) => false,
                (BinaryOperator::NotEq, false) => true,
                _ => {
                    self.expr(left)?;
                    return self.query(subquery);
                }
            };
            if is_row(left) {
                let (expr_box, subquery) = (left.clone(), subquery.clone());
                *expr = Expr::InSubquery { expr: expr_box, subquery, negated };
                return self.expr(expr);
            }
            self.expr(left)?;
            self.query(subquery)?;
            let (expr_box, subquery) = (left.clone(), subquery.clone());
            *expr = Expr::InSubquery { expr: expr_box, subquery, negated };
            return Ok(());
        }
        let items = array_items(right)?.filter(|items| items.len() <= LIST_MAX);
        let Some(items) = items else {
            let word = if any { "any" } else { "all" };
            let op = match op {
                BinaryOperator::Eq => "eq",
                BinaryOperator::NotEq => "ne",
                BinaryOperator::Lt => "lt",
                BinaryOperator::LtEq => "le",
                BinaryOperator::Gt => "gt",
                BinaryOperator::GtEq => "ge",
                other => return refuse(format!("operator {other} with ANY or ALL of an array")),
            };
            self.type_of_array(left, right);
            self.all([&mut **left, &mut **right])?;
            *expr = call(&format!("${word}_{op}"), vec![(**left).clone(), (**right).clone()]);
            return Ok(());
        };
        let join = if any { BinaryOperator::Or } else { BinaryOperator::And };
        let parts = items.into_iter().map(|item| binary((**left).clone(), op.clone(), item));
        let empty = || Expr::Value(Value::Boolean(!any).into());
        let parts = joined(parts.collect(), &join).unwrap_or_else(empty);
        let mut all = Expr::Nested(Box::new(parts));
        self.expr(&mut all)?;
        *expr = all;
        Ok(())
    }
}

impl Binder<'_> {
    /// `x LIKE ANY (array)`: of a list as many conditions as it has items.
    pub(super) fn like_any(&mut self, expr: &mut Expr) -> Result<()> {
        let (function, negated, value, pattern) = match &*expr {
            Expr::Like { negated, expr, pattern, escape_char: None, .. } => {
                ("$any_like", *negated, expr, pattern)
            }
            Expr::ILike { negated, expr, pattern, escape_char: None, .. } => {
                ("$any_ilike", *negated, expr, pattern)
            }
            other => return refuse(format!("the expression {other}")),
        };
        let items = array_items(pattern)?.filter(|items| items.len() <= LIST_MAX);
        let Some(items) = items else {
            if negated {
                return refuse(format!("the expression {expr}"));
            }
            let text = kernel::row::ColType::array_of(kernel::row::TypeKind::Text);
            self.expect_type(pattern, text);
            let (mut value, mut pattern) = ((**value).clone(), (**pattern).clone());
            self.all([&mut value, &mut pattern])?;
            *expr = call(function, vec![value, pattern]);
            return Ok(());
        };
        let one = |item: Expr| {
            let mut one = expr.clone();
            if let Expr::Like { any, pattern, .. } | Expr::ILike { any, pattern, .. } = &mut one {
                *any = false;
                **pattern = item;
            }
            one
        };
        let parts = joined(items.into_iter().map(one).collect(), &BinaryOperator::Or);
        let parts = parts.unwrap_or_else(|| Expr::Value(Value::Boolean(false).into()));
        let mut all = Expr::Nested(Box::new(parts));
        self.expr(&mut all)?;
        *expr = all;
        Ok(())
    }

    /// `x LIKE ALL (array)`: there is no item that it is unlike.
    pub(super) fn like_all(&mut self, expr: &mut Expr) -> Result<()> {
        let mut unlike = expr.clone();
        let (negated, any, pattern) = match &mut unlike {
            Expr::Like { negated, any, pattern, .. }
            | Expr::ILike { negated, any, pattern, .. } => (negated, any, pattern),
            other => return refuse(format!("the expression {other}")),
        };
        if let Some(array) = array_of_all(pattern).cloned() {
            **pattern = array;
        }
        (*any, *negated) = (true, !*negated);
        self.like_any(&mut unlike)?;
        *expr = not(unlike, true);
        Ok(())
    }

    /// A parameter that stands alone, maybe in brackets, is of this type.
    fn expect_type(&mut self, expr: &Expr, ty: kernel::row::ColType) {
        match expr {
            Expr::Nested(inner) => self.expect_type(inner, ty),
            Expr::Value(value) => {
                if let Value::Placeholder(name) = &value.value
                    && let Ok(at) = super::literal::placeholder_index(name)
                    && let Some(slot @ None) = self.params.types.get_mut(at)
                {
                    *slot = Some(ty);
                }
            }
            _ => {}
        }
    }

    /// A parameter that is an array beside a typed parameter or cast has such elements.
    fn type_of_array(&mut self, left: &Expr, right: &Expr) {
        let Expr::Value(value) = right else { return };
        let Value::Placeholder(name) = &value.value else { return };
        let Ok(at) = super::literal::placeholder_index(name) else { return };
        let element = match left {
            Expr::Cast { data_type, .. } => {
                query::sqltype::col_type_of_sql(data_type).ok().flatten()
            }
            _ => None,
        };
        if let (Some(slot @ None), Some(element)) = (self.params.types.get_mut(at), element) {
            *slot = Some(kernel::row::ColType::array_of(element.kind));
        }
    }
}

/// The array of `ALL (array)` behind LIKE, which the parser takes for a function's call.
pub(super) fn array_of_all(pattern: &Expr) -> Option<&Expr> {
    let Expr::Function(call) = pattern else { return None };
    let [name] = &call.name.0[..] else { return None };
    let name = name.as_ident()?;
    if name.quote_style.is_some() || !name.value.eq_ignore_ascii_case("all") {
        return None;
    }
    let FunctionArguments::List(list) = &call.args else { return None };
    match &list.args[..] {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(array))] => Some(array),
        _ => None,
    }
}

/// Conditions joined pairwise, so that many of them do not make a deep tree; `None` of none.
fn joined(mut all: Vec<Expr>, op: &BinaryOperator) -> Option<Expr> {
    match all.len() {
        0 | 1 => all.pop(),
        count => {
            let right = joined(all.split_off(count / 2), op)?;
            let left = joined(all, op)?;
            let side = |expr| Expr::Nested(Box::new(expr));
            Some(binary(side(left), op.clone(), side(right)))
        }
    }
}

pub(super) fn is_row(expr: &Expr) -> bool {
    row_of(expr).is_some()
}

/// The fields of `(a, b)`.
pub(super) fn row_of(expr: &Expr) -> Option<&[Expr]> {
    match expr {
        Expr::Tuple(all) if all.len() > 1 => Some(all),
        _ => None,
    }
}

/// A comparison of two rows, written out field by field. NULL in a field counts as it does there.
pub(super) fn rows_compared(expr: &Expr) -> Result<Option<Expr>> {
    let Expr::BinaryOp { left, op, right } = expr else { return Ok(None) };
    let (Some(left), Some(right)) = (row_of(left), row_of(right)) else { return Ok(None) };
    if left.len() != right.len() {
        return Err(PgError::syntax("unequal number of entries in row expressions"));
    }
    let strict = match op {
        BinaryOperator::Eq | BinaryOperator::NotEq => op.clone(),
        BinaryOperator::Lt | BinaryOperator::LtEq => BinaryOperator::Lt,
        BinaryOperator::Gt | BinaryOperator::GtEq => BinaryOperator::Gt,
        _ => return Ok(None),
    };
    let mut pairs = left.iter().cloned().zip(right.iter().cloned()).rev();
    let Some((a, b)) = pairs.next() else { return Ok(None) };
    let mut out = binary(a, op.clone(), b);
    for (a, b) in pairs {
        out = match op {
            BinaryOperator::Eq => {
                binary(binary(a, BinaryOperator::Eq, b), BinaryOperator::And, out)
            }
            BinaryOperator::NotEq => {
                binary(binary(a, BinaryOperator::NotEq, b), BinaryOperator::Or, out)
            }
            _ => {
                let less = binary(a.clone(), strict.clone(), b.clone());
                let equal = binary(a.clone(), BinaryOperator::Eq, b.clone());
                let then = Expr::Nested(Box::new(binary(equal, BinaryOperator::And, out)));
                let either = Expr::Nested(Box::new(binary(less, BinaryOperator::Or, then)));
                // Says nothing more, but bounds the first column of an index.
                let bound = if strict == BinaryOperator::Lt {
                    BinaryOperator::LtEq
                } else {
                    BinaryOperator::GtEq
                };
                binary(binary(a, bound, b), BinaryOperator::And, either)
            }
        };
        out = Expr::Nested(Box::new(out));
    }
    Ok(Some(out))
}
