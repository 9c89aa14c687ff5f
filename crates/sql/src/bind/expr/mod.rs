//! Expressions: each kind is bound, rewritten or refused by name. Here is the walk; each family of
//! expressions has a module.
//!
//! What it promises: what comes out means to the planner what the text means to PostgreSQL. What it
//! must never do: let a kind through that it has not named.

mod array;
mod build;
mod cast;
mod compare;
mod constant;
mod field;
mod forms;
mod function;
mod hypothetical;
mod interval;
mod literal;
mod operator;
mod rows;
mod session;

pub(crate) use interval::interval_literal;
pub(crate) use literal::placeholder_index;
pub(crate) use rows::column_of_query;
pub(in crate::bind) use rows::row_in_condition;

pub(super) use array::{as_bigint, options_table, unnest_query};
pub(crate) use build::{call, number, text_of};
pub(super) use cast::type_literals;
pub(crate) use field::is_of_field;
pub(crate) use forms::written_call;
pub(in crate::bind) use forms::{integer_series, listening_factor, series_query, set_query};
pub(crate) use function::plain_args;
pub(crate) use session::{rounded_now, session_function};

use super::{
    Binder, SCALAR_DEPTH_MAX, SUBQUERY_DEPTH_MAX, ident_name, object_parts, refuse, subquery,
};
use crate::{PgError, Result};
use build::string;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, CaseWhen, CastKind, DataType, Expr, Ident, Query, Subscript,
    UnaryOperator, Value,
};

impl Binder<'_> {
    pub(super) fn expr(&mut self, expr: &mut Expr) -> Result<()> {
        self.enter()?;
        let done = self.expr_inner(expr);
        self.depth -= 1;
        done
    }

    /// A query in a condition.
    fn subquery(&mut self, query: &mut Query) -> Result<()> {
        self.subquery_depth += 1;
        if self.subquery_depth > SUBQUERY_DEPTH_MAX {
            return Err(crate::depth::too_deep());
        }
        self.query(query)?;
        self.subquery_depth -= 1;
        Ok(())
    }

    pub(in crate::bind) fn all<'e>(
        &mut self,
        all: impl IntoIterator<Item = &'e mut Expr>,
    ) -> Result<()> {
        all.into_iter().try_for_each(|expr| self.expr(expr))
    }

    fn expr_inner(&mut self, expr: &mut Expr) -> Result<()> {
        if let Some(row) = rows::row_in(expr)? {
            *expr = row;
            return self.expr(expr);
        }
        // A count can be joined to what it belongs to; other forms are run for each row.
        if matches!(expr, Expr::Exists { .. })
            && self.in_projection
            && subquery::as_count(expr).is_ok()
        {
            return self.expr(expr);
        }
        match expr {
            Expr::Identifier(ident) => {
                let name = ident_name(ident);
                let set = self
                    .set_aliases
                    .iter()
                    .rfind(|(alias, column)| *alias == name && *column != name);
                if let Some((_, column)) = set {
                    let parts = [&name, column].map(|part| Ident::with_quote('"', part));
                    *expr = Expr::CompoundIdentifier(parts.to_vec());
                    return self.expr(expr);
                }
                self.identifier(ident).map(|new| replace(expr, new))
            }
            Expr::CompoundIdentifier(parts) => {
                let parts: Vec<String> = parts.iter().map(ident_name).collect();
                let outer = self.outer_name(&parts);
                self.compound(&parts).map(|new| replace(expr, new.or(outer)))
            }
            Expr::Value(_) => self.value(expr),
            Expr::Nested(inner)
            | Expr::IsNull(inner)
            | Expr::IsNotNull(inner)
            | Expr::IsTrue(inner)
            | Expr::IsNotTrue(inner)
            | Expr::IsFalse(inner)
            | Expr::IsNotFalse(inner)
            | Expr::IsUnknown(inner)
            | Expr::IsNotUnknown(inner) => self.expr(inner),
            Expr::IsDistinctFrom(a, b) | Expr::IsNotDistinctFrom(a, b) => {
                self.all([&mut **a, &mut **b])
            }
            Expr::BinaryOp { op: BinaryOperator::Overlaps, .. } => self.overlaps(expr),
            Expr::BinaryOp { .. } => self.binary(expr),
            Expr::UnaryOp { op: UnaryOperator::Minus, expr: inner }
                if matches!(**inner, Expr::BinaryOp { op: BinaryOperator::PGExp, .. }) =>
            {
                let mut power = forms::negated_power(inner);
                self.expr(&mut power)?;
                *expr = power;
                Ok(())
            }
            // A condition that is a text literal is a boolean.
            Expr::UnaryOp { op: UnaryOperator::Not, expr: inner } if text_of(inner).is_some() => {
                cast::as_type(inner, DataType::Boolean);
                self.expr(inner)
            }
            Expr::UnaryOp { op, expr: inner } => match op {
                UnaryOperator::Minus if literal::least_integer(inner).is_some() => {
                    if let Some(least) = literal::least_integer(inner) {
                        *expr = least;
                    }
                    Ok(())
                }
                UnaryOperator::Plus | UnaryOperator::Minus | UnaryOperator::Not => self.expr(inner),
                other => {
                    let Some(function) = forms::unary(other) else {
                        return refuse(format!("operator {other}"));
                    };
                    self.expr(inner)?;
                    *expr = call(function, vec![(**inner).clone()]);
                    Ok(())
                }
            },
            Expr::Between { .. } => self.between(expr),
            Expr::InList { .. } => self.in_list(expr),
            Expr::InSubquery { expr: inner, subquery, negated: _ } => {
                self.expr(inner)?;
                self.subquery(subquery)
            }
            Expr::Exists { subquery, negated: _ } => self.subquery(subquery),
            Expr::Subquery(_) => {
                subquery::as_single_value(expr);
                self.scalar_depth += 1;
                if self.scalar_depth > SCALAR_DEPTH_MAX {
                    return Err(PgError::new("54001", "stack depth limit exceeded")
                        .with_hint("Too many subqueries stand in one another."));
                }
                match expr {
                    Expr::Subquery(subquery) => self.query(subquery),
                    other => self.single_value(other),
                }?;
                self.scalar_depth -= 1;
                Ok(())
            }
            Expr::AnyOp { .. } | Expr::AllOp { .. } => self.any_all(expr),
            Expr::Like { any: true, .. } | Expr::ILike { any: true, .. } => self.like_any(expr),
            Expr::Like { any: false, expr: a, pattern, escape_char, negated: _ }
            | Expr::ILike { any: false, expr: a, pattern, escape_char, negated: _ } => {
                match escape_char {
                    None if compare::array_of_all(pattern).is_some() => self.like_all(expr),
                    Some(c) if c.value != Value::SingleQuotedString("\\".into()) => {
                        self.like_escaped(expr)
                    }
                    // A pattern that ends with the escape is an error that the library has not.
                    _ if text_of(pattern).is_some_and(|text| text.ends_with('\\')) => {
                        *escape_char = None;
                        self.like_escaped(expr)
                    }
                    _ => {
                        *escape_char = None;
                        self.all([&mut **a, &mut **pattern])
                    }
                }
            }
            Expr::SimilarTo { .. } => self.like_escaped(expr),
            Expr::Cast { .. } => self.cast(expr),
            Expr::TypedString(typed) => {
                let inner = Box::new(Expr::Value(typed.value.clone()));
                let data_type = typed.data_type.clone();
                *expr = Expr::Cast {
                    kind: CastKind::Cast,
                    expr: inner,
                    data_type,
                    array: false,
                    format: None,
                };
                self.cast(expr)
            }
            Expr::Interval(interval) => {
                *expr = interval_literal(interval)?;
                self.cast(expr)
            }
            Expr::Extract { field, expr: inner, .. } => {
                self.expr(inner)?;
                let field = string(field.to_string().to_lowercase());
                *expr = call("$extract", vec![field, (**inner).clone()]);
                Ok(())
            }
            Expr::Ceil { .. }
            | Expr::Floor { .. }
            | Expr::Position { .. }
            | Expr::Substring { .. }
            | Expr::Trim { .. }
            | Expr::Overlay { .. } => self.written_form(expr),
            Expr::Collate { expr: inner, collation } => {
                let name = object_parts(collation)?.pop().unwrap_or_default();
                if !matches!(name.as_str(), "C" | "c" | "POSIX" | "posix" | "default" | "ucs_basic")
                {
                    return refuse(format!("collation \"{name}\""));
                }
                let mut inner = std::mem::replace(&mut **inner, string(""));
                self.expr(&mut inner)?;
                *expr = inner;
                Ok(())
            }
            Expr::Function(_) => self.function(expr),
            Expr::Case { operand, conditions, else_result, .. } => {
                let sets = std::mem::replace(&mut self.sets_allowed, false);
                cast::type_results(conditions, else_result.as_deref_mut())?;
                self.all(operand.iter_mut().map(|e| &mut **e))?;
                for CaseWhen { condition, result } in conditions {
                    self.all([condition, result])?;
                }
                self.all(else_result.iter_mut().map(|e| &mut **e))?;
                self.sets_allowed = sets;
                Ok(())
            }
            Expr::Array(array) => {
                // Before the planner looks at them, once for each way through the levels.
                if array.elem.iter().any(|item| matches!(item, Expr::Array(_))) {
                    return refuse("an array of several dimensions");
                }
                cast::type_alike(&mut array.elem.iter_mut().collect::<Vec<_>>());
                self.all(&mut array.elem)?;
                let is_name =
                    |e: &Expr| matches!(e, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
                if array.elem.iter().any(|item| crate::outside::any(item, is_name)) {
                    // The planner looks for the names of a literal's elements in this query alone.
                    *expr = call("make_array", std::mem::take(&mut array.elem));
                }
                Ok(())
            }
            Expr::Tuple(all) => {
                let mut row = rows::as_value(std::mem::take(all));
                self.expr(&mut row)?;
                *expr = row;
                Ok(())
            }
            Expr::GroupingSets(sets) | Expr::Cube(sets) | Expr::Rollup(sets) => {
                sets.iter_mut().try_for_each(|set| self.all(set))
            }
            Expr::AtTimeZone { timestamp, time_zone } => {
                self.all([&mut **timestamp, &mut **time_zone])?;
                *expr = call("timezone", vec![(**time_zone).clone(), (**timestamp).clone()]);
                Ok(())
            }
            Expr::CompoundFieldAccess { root, access_chain } => {
                // A field of a pair that `_pg_expandarray` gives; there are no other records.
                if let [AccessExpr::Dot(Expr::Identifier(field))] = &access_chain[..]
                    && matches!(&*field.value, "x" | "n")
                {
                    self.expr(root)?;
                    let field = build::string(&field.value);
                    *expr = build::call("get_field", vec![(**root).clone(), field]);
                    return Ok(());
                }
                if let [AccessExpr::Dot(Expr::Identifier(field))] = &access_chain[..]
                    && !matches!(**root, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
                {
                    let field = build::string(ident_name(field));
                    self.expr(root)?;
                    *expr = build::call(::query::rows::FIELD, vec![(**root).clone(), field]);
                    return Ok(());
                }
                self.subscript(expr)
            }
            other => refuse(format!("the expression {other}")),
        }
    }

    /// `(a, b) OVERLAPS (c, d)`.
    fn overlaps(&mut self, expr: &mut Expr) -> Result<()> {
        let Expr::BinaryOp { left, right, .. } = expr else { return Ok(()) };
        let mut args = Vec::with_capacity(4);
        for (side, word) in [(left, "left"), (right, "right")] {
            match &mut **side {
                Expr::Tuple(all) if all.len() == 2 => args.append(all),
                Expr::Tuple(_) => {
                    let text =
                        format!("wrong number of parameters on {word} side of OVERLAPS expression");
                    return Err(PgError::syntax(text));
                }
                _ => return Err(PgError::syntax("syntax error at or near \"overlaps\"")),
            }
        }
        self.all(&mut args)?;
        *expr = call("overlaps", args);
        Ok(())
    }

    /// `array[i]` and `array[from:to]`.
    fn subscript(&mut self, expr: &mut Expr) -> Result<()> {
        let Expr::CompoundFieldAccess { root, access_chain } = expr else { return Ok(()) };
        // `table.column[i]`: the names belong together.
        while let (Expr::Identifier(_) | Expr::CompoundIdentifier(_), [AccessExpr::Dot(_), _, ..]) =
            (&**root, &access_chain[..])
        {
            let AccessExpr::Dot(Expr::Identifier(field)) = access_chain.remove(0) else {
                return refuse("this kind of field access");
            };
            let mut parts = match &**root {
                Expr::Identifier(first) => vec![first.clone()],
                Expr::CompoundIdentifier(parts) => parts.clone(),
                _ => Vec::new(),
            };
            parts.push(field);
            **root = Expr::CompoundIdentifier(parts);
        }
        self.expr(root)?;
        let mut root = (**root).clone();
        // Each subscript but the last of what the ones before it name.
        while access_chain.len() > 1 {
            let AccessExpr::Subscript(Subscript::Index { mut index }) = access_chain.remove(0)
            else {
                return refuse("several subscripts");
            };
            self.expr(&mut index)?;
            root = call("$array_get", vec![root, index]);
        }
        *expr = match &mut access_chain[0] {
            AccessExpr::Subscript(Subscript::Index { index }) => {
                self.expr(index)?;
                call("$array_get", vec![root, index.clone()])
            }
            AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, stride: None }) => {
                let lower = lower_bound.take().unwrap_or_else(|| number("1"));
                let upper = upper_bound.take().unwrap_or_else(|| number("2147483647"));
                let mut bounds = [lower, upper];
                self.all(&mut bounds)?;
                let [lower, upper] = bounds;
                call("$array_slice", vec![root, lower, upper])
            }
            _ => return refuse("this kind of field access"),
        };
        Ok(())
    }

    /// A subquery that has become `CASE WHEN condition THEN (subquery) END`.
    fn single_value(&mut self, expr: &mut Expr) -> Result<()> {
        let Expr::Case { conditions, .. } = expr else {
            return Err(PgError::internal("a subquery became something else"));
        };
        for CaseWhen { condition, result } in conditions {
            self.expr(condition)?;
            if let Expr::Subquery(subquery) = result {
                self.query(subquery)?;
            }
        }
        Ok(())
    }
}

fn replace(expr: &mut Expr, new: Option<Expr>) {
    if let Some(new) = new {
        *expr = new;
    }
}
