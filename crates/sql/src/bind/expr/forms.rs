//! Functions and operators that are written in a way of their own: `substring(x from 2 for 3)`,
//! `LIKE ... ESCAPE`, `|/ x`, sets of rows.
//!
//! What it promises: each is the call of a function that PostgreSQL makes of it.

use super::build::{call, not, number};
use crate::bind::{Binder, HiddenCall, SessionFn, refuse};
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CeilFloorKind, DateTimeField, Expr, FunctionArg, FunctionArgExpr, Ident, Query,
    SelectItem, SetExpr, TableAlias, TableAliasColumnDef, TableFactor, TrimWhereField,
    UnaryOperator, Value,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use kernel::row::{ColType, TypeKind, Value as Datum};
use query::functions::cast_name;

/// The function that an operator with one side stands for.
pub(super) fn unary(op: &UnaryOperator) -> Option<&'static str> {
    Some(match op {
        UnaryOperator::PGAbs => "abs",
        UnaryOperator::BitwiseNot => "$bit_not",
        UnaryOperator::PGSquareRoot => "$square_root",
        UnaryOperator::PGCubeRoot => "$cube_root",
        _ => return None,
    })
}

/// `-a ^ b`, where the sign binds tighter, though the parser thinks otherwise.
pub(super) fn negated_power(power: &Expr) -> Expr {
    match power {
        Expr::BinaryOp { left, op: BinaryOperator::PGExp, right } => Expr::BinaryOp {
            left: Box::new(negated_power(left)),
            op: BinaryOperator::PGExp,
            right: right.clone(),
        },
        other => Expr::Nested(Box::new(Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr: Box::new(other.clone()),
        })),
    }
}

fn plain(kind: &CeilFloorKind) -> bool {
    match kind {
        CeilFloorKind::DateTimeField(field) => {
            *field == DateTimeField::NoDateTime || field.to_string().is_empty()
        }
        CeilFloorKind::Scale(_) => false,
    }
}

/// The call that an expression with words of its own between its arguments is.
pub(crate) fn written_call(expr: &Expr) -> Option<(&'static str, Vec<Expr>)> {
    Some(match expr {
        Expr::Ceil { expr: inner, field } if plain(field) => ("ceil", vec![(**inner).clone()]),
        Expr::Floor { expr: inner, field } if plain(field) => ("floor", vec![(**inner).clone()]),
        Expr::Position { expr: wanted, r#in } => {
            ("position", vec![(**r#in).clone(), (**wanted).clone()])
        }
        Expr::Substring { expr: inner, substring_from, substring_for, shorthand, .. } => {
            let name = if *shorthand { "substr" } else { "substring" };
            let mut args = vec![(**inner).clone()];
            match (substring_from, substring_for) {
                (Some(from), length) => {
                    args.push((**from).clone());
                    args.extend(length.iter().map(|length| (**length).clone()));
                }
                (None, Some(length)) => args.extend([number("1"), (**length).clone()]),
                (None, None) => {}
            }
            (name, args)
        }
        Expr::Trim { expr: inner, trim_where, trim_what, trim_characters } => {
            let name = match trim_where {
                None | Some(TrimWhereField::Both) => "btrim",
                Some(TrimWhereField::Leading) => "ltrim",
                Some(TrimWhereField::Trailing) => "rtrim",
            };
            let mut args = vec![(**inner).clone()];
            args.extend(trim_what.iter().map(|what| (**what).clone()));
            args.extend(trim_characters.iter().flatten().cloned());
            (name, args)
        }
        Expr::Overlay { expr: inner, overlay_what, overlay_from, overlay_for } => {
            let mut args =
                vec![(**inner).clone(), (**overlay_what).clone(), (**overlay_from).clone()];
            args.extend(overlay_for.iter().map(|length| (**length).clone()));
            ("overlay", args)
        }
        _ => return None,
    })
}

impl Binder<'_> {
    /// What has words of its own between its arguments.
    pub(super) fn written_form(&mut self, expr: &mut Expr) -> Result<()> {
        let Some((name, mut args)) = written_call(expr) else {
            return refuse(format!("the expression {expr}"));
        };
        self.all(args.iter_mut())?;
        *expr = call(name, args);
        Ok(())
    }

    /// LIKE with an escape character of its own, and SIMILAR TO.
    pub(super) fn like_escaped(&mut self, expr: &mut Expr) -> Result<()> {
        let (name, value, pattern, escape, negated) = match &*expr {
            Expr::Like { expr, pattern, escape_char, negated, .. } => {
                ("$like", expr, pattern, escape_char, *negated)
            }
            Expr::ILike { expr, pattern, escape_char, negated, .. } => {
                ("$ilike", expr, pattern, escape_char, *negated)
            }
            Expr::SimilarTo { expr, pattern, escape_char, negated } => {
                ("$similar", expr, pattern, escape_char, *negated)
            }
            _ => return Ok(()),
        };
        let mut args = vec![(**value).clone(), (**pattern).clone()];
        match escape.as_ref().map(|escape| &escape.value) {
            None => {}
            Some(Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text)) => {
                args.push(super::build::string(text.clone()));
            }
            Some(other) => return refuse(format!("ESCAPE {other}")),
        }
        self.all(args.iter_mut())?;
        *expr = not(call(name, args), negated);
        Ok(())
    }

    /// `pg_listening_channels()` in a select list.
    pub(super) fn listening_channels(&mut self) -> Result<Expr> {
        // Only whether a set may stand here is asked.
        self.set_in_list("", Vec::new())?;
        let function = SessionFn::ListeningChannels;
        let at = self.params.add_hidden(HiddenCall { function, args: Vec::new() });
        Ok(call("unnest", vec![Binder::placeholder(at)]))
    }

    /// A function that gives a set of rows, in a select list.
    pub(super) fn set_in_list(&mut self, made: &str, mut args: Vec<Expr>) -> Result<Expr> {
        if !(self.sets_allowed && self.in_projection) {
            let what = "set-returning functions are not allowed in this place";
            return Err(PgError::new("0A000", what).with_hint(
                "You might be able to move the set-returning function into a LATERAL FROM item.",
            ));
        }
        self.all(args.iter_mut())?;
        self.sets_found = true;
        Ok(call("unnest", vec![call(made, args)]))
    }
}

/// The type of a series whose bounds are integers that are known here: its rows are made as they
/// are read.
pub(in crate::bind) fn integer_series(function: &str, args: &[Expr]) -> Option<TypeKind> {
    if function != "generate_series" || !(2..=3).contains(&args.len()) {
        return None;
    }
    let mut found = TypeKind::Int4;
    for arg in args {
        match super::constant::constant(arg)? {
            (Datum::Int4(_), _) => {}
            (Datum::Int8(_), _) => found = TypeKind::Int8,
            _ => return None,
        }
    }
    Some(found)
}

/// `SELECT cast(name AS kind) AS name FROM generate_series(...)`.
pub(in crate::bind) fn series_query(kind: TypeKind, args: Vec<Expr>, name: &str) -> Result<Query> {
    let column = Expr::Identifier(Ident::with_quote('"', "value"));
    let column = call(&cast_name(ColType::new(kind)), vec![column]);
    let mut query = set_query("SELECT 1 AS value FROM generate_series(1)", column, name)?;
    if let SetExpr::Select(select) = &mut *query.body
        && let Some(from) = select.from.first_mut()
        && let TableFactor::Table { args: Some(list), .. } = &mut from.relation
    {
        list.args =
            args.into_iter().map(|e| FunctionArg::Unnamed(FunctionArgExpr::Expr(e))).collect();
    }
    Ok(query)
}

/// `pg_listening_channels()` in FROM.
pub(in crate::bind) fn listening_factor(alias: Option<TableAlias>) -> Result<TableFactor> {
    let name = "pg_listening_channels";
    let query = set_query("SELECT 1 AS value", call(name, Vec::new()), name)?;
    let mut alias = alias.unwrap_or_else(|| TableAlias {
        explicit: true,
        name: Ident::new(name),
        columns: Vec::new(),
        at: None,
    });
    if alias.columns.is_empty() {
        // The one column of the result is called as the function's alias.
        let column = TableAliasColumnDef { name: alias.name.clone(), data_type: None };
        alias.columns.push(column);
    }
    let (subquery, alias) = (Box::new(query), Some(alias));
    Ok(TableFactor::Derived { lateral: false, subquery, alias, sample: None })
}

/// `template` with `made` for the one item of its list, called `name`.
pub(in crate::bind) fn set_query(template: &str, made: Expr, name: &str) -> Result<Query> {
    let query = Parser::new(&PostgreSqlDialect {})
        .try_with_sql(template)
        .and_then(|mut parser| parser.parse_query());
    let mut query = *query.map_err(|_| PgError::internal("a query over a set of rows"))?;
    let SetExpr::Select(select) = &mut *query.body else {
        return Err(PgError::internal("a query over a set of rows"));
    };
    for item in &mut select.projection {
        if let SelectItem::ExprWithAlias { expr, alias } = item {
            *expr = made.clone();
            *alias = Ident::with_quote('"', name);
        }
    }
    Ok(query)
}
