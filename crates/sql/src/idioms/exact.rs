//! Operators and names that mean something else in the field: in its blocks and routines, and in
//! statements that read `dual` or its views, `10 / 4` is 2.5, `||` takes NULL for an empty text and
//! numbers on both sides, `to_char(0.5)` is `.5`, `substr(s, -3)` counts from the end, and `user`
//! is written as the views show it.
//!
//! What it promises: a whole number on the left of a division becomes a numeric, a side of `||` a
//! text unless one of them is an array, bytes or jsonb; anything else stays what it is. What it
//! must never do: touch a statement of another kind, in which PostgreSQL's operators are meant.

use super::plain_name;
use crate::bind::{call, table_parts};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, ExactNumberInfo, Expr, Fetch, FunctionArg, FunctionArgExpr,
    FunctionArguments, LimitClause, ObjectName, Query, Statement as Ast, UnaryOperator, Value,
    Visit, VisitMut, Visitor, VisitorMut,
};
use std::ops::ControlFlow;

/// The function that makes a whole number a numeric.
pub(crate) const EXACT: &str = "$exact";
/// The one that makes a float a numeric too, of the 15 digits that it has; a numeric keeps all of
/// its own.
pub(crate) const DECIMAL: &str = "$decimal";

/// Prefixes of views that only the field has, and of those whose names users may have given, too.
const OWN: [&str; 2] = ["v$", "gv$"];
const SHARED: [&str; 3] = ["dba_", "user_", "all_"];

pub(super) fn is_division(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryOp { op: BinaryOperator::Divide, .. })
}

/// `substr(s, i [, n])`.
fn is_substr(expr: &Expr) -> bool {
    matches!(expr, Expr::Substring { special: true, shorthand: true, .. })
}

fn is_user(expr: &Expr) -> bool {
    match expr {
        Expr::Function(function) => {
            matches!(function.args, FunctionArguments::None)
                && matches!(&function.name.0[..], [name] if name.as_ident().is_some_and(|name| {
                    name.quote_style.is_none() && name.value.eq_ignore_ascii_case("user")
                }))
        }
        _ => false,
    }
}

/// The name of the user as the field's views show it.
fn shown_user() -> Option<Expr> {
    let text = "(case when current_user ~ '^[a-z0-9_$#]*$' then upper(current_user) \
                else user::text end)";
    crate::direct::parse_expr(text).ok()
}

fn is_joining(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryOp { op: BinaryOperator::StringConcat, .. })
}

/// `round(x, 2)`: the field rounds floats so, too, and views have such columns.
fn rounds(expr: &Expr) -> bool {
    let Expr::Function(function) = expr else { return false };
    if !matches!(plain_name(&function.name).as_deref(), Some("round" | "trunc")) {
        return false;
    }
    let FunctionArguments::List(list) = &function.args else { return false };
    let is_number = |expr: &Expr| match expr {
        Expr::Value(value) => matches!(value.value, Value::Number(..)),
        _ => false,
    };
    let is_count = |expr: &Expr| match expr {
        Expr::UnaryOp { expr, .. } => is_number(expr),
        expr => is_number(expr),
    };
    match &list.args[..] {
        [
            FunctionArg::Unnamed(FunctionArgExpr::Expr(of)),
            FunctionArg::Unnamed(FunctionArgExpr::Expr(to)),
        ] => is_count(to) && !is_exact(of) && !is_number(of) && !matches!(of, Expr::Cast { .. }),
        _ => false,
    }
}

/// What is rounded, as a numeric: what has no type yet by a cast, anything else by what it is.
fn with_numeric(expr: &mut Expr) {
    let Expr::Function(function) = expr else { return };
    let FunctionArguments::List(list) = &mut function.args else { return };
    let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(of))) = list.args.first_mut() else {
        return;
    };
    let whole = std::mem::replace(of, Expr::Value(Value::Null.into()));
    *of = match whole {
        Expr::Value(_) => Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(whole),
            data_type: DataType::Numeric(ExactNumberInfo::None),
            array: false,
            format: None,
        },
        whole => call(DECIMAL, vec![whole]),
    };
}

/// What `to_char(x)` writes, of which nothing says how.
fn written_plainly(expr: &Expr) -> Option<Expr> {
    let Expr::Function(function) = expr else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    if plain_name(&function.name).as_deref() != Some("to_char") {
        return None;
    }
    match &list.args[..] {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(value))] => Some(value.clone()),
        _ => None,
    }
}

/// The function that a call with a template is in the field's statements, if it is another one:
/// templates of numbers have signs of the field's, and what is no literal is only known later.
fn of_template(expr: &Expr) -> Option<(&'static str, Vec<Expr>)> {
    let Expr::Function(function) = expr else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    let [
        FunctionArg::Unnamed(FunctionArgExpr::Expr(of)),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(mask)),
    ] = &list.args[..]
    else {
        return None;
    };
    let literal = matches!(mask, Expr::Value(value)
        if matches!(value.value, Value::SingleQuotedString(_)));
    let name = match plain_name(&function.name)?.as_str() {
        "to_char" => query::FIELD_TO_CHAR,
        "to_date" if !literal => query::TO_DATETIME,
        "to_number" if !literal => query::FIELD_TO_NUMBER,
        "to_timestamp" if !literal => query::FIELD_TO_TIMESTAMP,
        _ => return None,
    };
    Some((name, vec![of.clone(), mask.clone()]))
}

/// The value of whole numbers that are added and multiplied as they are written.
fn written_value(expr: &Expr) -> Option<i128> {
    match expr {
        Expr::Nested(inner) => written_value(inner),
        Expr::Value(value) => match &value.value {
            Value::Number(digits, false) => digits.parse().ok(),
            _ => None,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => written_value(expr)?.checked_neg(),
        Expr::BinaryOp { left, op, right } => {
            let (left, right) = (written_value(left)?, written_value(right)?);
            match op {
                BinaryOperator::Plus => left.checked_add(right),
                BinaryOperator::Minus => left.checked_sub(right),
                BinaryOperator::Multiply => left.checked_mul(right),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Whether whole numbers come to more than their type holds: the field's have no such end.
fn overflows(expr: &Expr) -> bool {
    let Expr::BinaryOp { left, right, .. } = expr else { return false };
    let Some(value) = written_value(expr) else { return false };
    let narrow = |side: &Expr| written_value(side).is_some_and(|v| i32::try_from(v).is_ok());
    match narrow(left) && narrow(right) {
        true => i32::try_from(value).is_err(),
        false => i64::try_from(value).is_err(),
    }
}

/// Whether there is something that the field means otherwise.
pub(crate) fn differs(ast: &Ast) -> bool {
    struct Finder;
    impl Visitor for Finder {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            let own = is_division(expr) || is_joining(expr) || is_substr(expr);
            let other = rounds(expr) || overflows(expr) || of_template(expr).is_some();
            match own || other || is_user(expr) || written_plainly(expr).is_some() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
    }
    ast.visit(&mut Finder).is_break()
}

/// What a statement reads that may be the field's.
#[derive(Default)]
pub(crate) struct Read {
    /// Something that nobody else has.
    pub(crate) own: bool,
    /// Names that are the field's unless users have given them.
    pub(crate) shared: Vec<String>,
}

impl Visitor for Read {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        let Ok((schema, name)) = table_parts(relation) else { return ControlFlow::Continue(()) };
        let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
        match schema.as_deref() {
            Some("sys") => self.own = true,
            Some(_) => {}
            None if begins(&OWN) => self.own = true,
            None if name == "dual" || begins(&SHARED) => self.shared.push(name),
            None => {}
        }
        ControlFlow::Continue(())
    }
}

/// What a statement reads of the field's.
pub(crate) fn read_by(ast: &Ast) -> Read {
    let mut read = Read::default();
    let _ = ast.visit(&mut read);
    read
}

/// Divides and joins as the field does. `typed`: parameters have types. Whether anything was
/// changed.
pub(crate) fn as_the_field(ast: &mut Ast, typed: bool) -> bool {
    let mut divider = Divider { typed, changed: false, closed: 0, bounds: Vec::new() };
    let _ = VisitMut::visit(ast, &mut divider);
    divider.changed
}

struct Divider {
    typed: bool,
    changed: bool,
    /// Calls around of functions that take whole numbers.
    closed: usize,
    /// Bounds of the queries around, which are whole numbers.
    bounds: Vec<(Option<LimitClause>, Option<Fetch>)>,
}

/// Functions that take any number, and give what it is.
const OPEN: [&str; 39] = [
    "round",
    "trunc",
    "to_char",
    "sum",
    "avg",
    "min",
    "max",
    "greatest",
    "least",
    "nvl",
    "nvl2",
    "decode",
    "coalesce",
    "nullif",
    "abs",
    "ceil",
    "ceiling",
    "floor",
    "mod",
    "power",
    "sqrt",
    "ln",
    "log",
    "exp",
    "sign",
    "count",
    "median",
    "stddev",
    "variance",
    "concat",
    "to_number",
    "ratio_to_report",
    "listagg",
    "lnnvl",
    "put_line",
    "put",
    "numtodsinterval",
    "numtoyminterval",
    "remainder",
];

/// Whether an expression takes whole numbers, or a user's routine's arguments, for all one sees.
fn closes(expr: &Expr) -> bool {
    match expr {
        Expr::Function(function) => {
            let name = function.name.0.last().and_then(|part| part.as_ident());
            name.is_none_or(|name| {
                let name = name.value.to_lowercase();
                let kept = query::keep::aggregate_of(&name);
                !OPEN.contains(&kept.unwrap_or(&name))
            })
        }
        Expr::Substring { .. } | Expr::Overlay { .. } | Expr::CompoundFieldAccess { .. } => true,
        _ => false,
    }
}

/// Whether an expression is no whole number, as one sees.
fn is_exact(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => is_exact(inner),
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.contains(['.', 'e', 'E']),
            _ => false,
        },
        Expr::Interval(_) => true,
        Expr::Function(function) => plain_name(&function.name).as_deref() == Some(EXACT),
        other => is_division(other),
    }
}

impl Divider {
    /// Makes a side of `||` what is empty where it is NULL.
    fn join(&self, side: &mut Expr) -> bool {
        let text = |text: &str| Expr::Value(Value::SingleQuotedString(text.to_owned()).into());
        match side {
            // Nothing that is joined is NULL.
            Expr::BinaryOp { op: BinaryOperator::StringConcat, .. } => return false,
            Expr::Value(value) => match &value.value {
                Value::Null => {
                    *side = text("");
                    return true;
                }
                Value::SingleQuotedString(_) => return false,
                _ => {}
            },
            _ => {}
        }
        let untyped = !self.typed
            && matches!(side, Expr::Value(value)
                if matches!(value.value, Value::Placeholder(_)));
        let mut inner = std::mem::replace(side, Expr::Value(Value::Null.into()));
        if untyped {
            inner = Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(inner),
                data_type: DataType::Text,
                array: false,
                format: None,
            };
        }
        *side = call(query::PART, vec![inner]);
        true
    }
}

impl VisitorMut for Divider {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.bounds.push((query.limit_clause.take(), query.fetch.take()));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some((limit, fetch)) = self.bounds.pop() {
            (query.limit_clause, query.fetch) = (limit, fetch);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.closed += usize::from(closes(expr));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.closed -= usize::from(closes(expr));
        if !self.typed && rounds(expr) {
            with_numeric(expr);
            self.changed = true;
            return ControlFlow::Continue(());
        }
        if let Expr::BinaryOp { left, op: BinaryOperator::StringConcat, right } = expr {
            self.changed |= self.join(left) | self.join(right);
            return ControlFlow::Continue(());
        }
        if let Some(value) = written_plainly(expr) {
            *expr = call(query::FIELD_TO_CHAR, vec![value]);
            self.changed = true;
        }
        if let Some((name, args)) = of_template(expr) {
            *expr = call(name, args);
            self.changed = true;
        }
        if is_user(expr)
            && let Some(shown) = shown_user()
        {
            *expr = shown;
            self.changed = true;
        }
        if is_substr(expr)
            && let Expr::Substring { expr: text, substring_from: Some(from), substring_for, .. } =
                &mut *expr
        {
            let mut take = |arg: &mut Box<Expr>| {
                std::mem::replace(&mut **arg, Expr::Value(Value::Null.into()))
            };
            let mut args = vec![take(text), take(from)];
            args.extend(substring_for.as_mut().map(&mut take));
            *expr = call(query::FIELD_SUBSTR, args);
            self.changed = true;
        }
        if self.closed > 0 {
            return ControlFlow::Continue(());
        }
        if overflows(expr)
            && let Expr::BinaryOp { left, .. } = expr
        {
            let whole = std::mem::replace(&mut **left, Expr::Value(Value::Null.into()));
            **left = call(EXACT, vec![whole]);
            self.changed = true;
        }
        let Expr::BinaryOp { left, op: BinaryOperator::Divide, right } = expr else {
            return ControlFlow::Continue(());
        };
        if is_exact(left) || is_exact(right) {
            return ControlFlow::Continue(());
        }
        // A parameter without a type takes that of the other side.
        let is_open = |side: &Expr| {
            !self.typed
                && matches!(side, Expr::Value(value)
                    if matches!(value.value, Value::Placeholder(_)))
        };
        let side = if is_open(left) && !is_open(right) { right } else { left };
        let whole = std::mem::replace(&mut **side, Expr::Value(Value::Null.into()));
        **side = call(EXACT, vec![whole]);
        self.changed = true;
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{Parsed, parse_single};

    fn divided(text: &str, typed: bool) -> String {
        let Parsed::Sql(mut ast) = parse_single(text).unwrap().parsed else { panic!("{text}") };
        as_the_field(&mut ast, typed);
        ast.to_string()
    }

    #[test]
    fn sides_become_what_the_field_takes_them_for() {
        for (text, typed, as_divided) in [
            ("select a / 2", false, "SELECT \"$exact\"(a) / 2"),
            ("select a / 2 / b", false, "SELECT \"$exact\"(a) / 2 / b"),
            ("select a / (b / c)", false, "SELECT a / (\"$exact\"(b) / c)"),
            ("select a / 2.0", false, "SELECT a / 2.0"),
            ("select $1 / 2", false, "SELECT $1 / \"$exact\"(2)"),
            ("select $1 / $2", true, "SELECT \"$exact\"($1) / $2"),
            ("select a * 2", true, "SELECT a * 2"),
            ("select round(a / 2, 1)", true, "SELECT round(\"$exact\"(a) / 2, 1)"),
            (
                "select round(a, 1), trunc(b, -2)",
                false,
                "SELECT round(\"$decimal\"(a), 1), trunc(\"$decimal\"(b), -2)",
            ),
            ("select round($1, 1)", false, "SELECT round(CAST($1 AS NUMERIC), 1)"),
            ("select round(123, 1), round(1.5, 1)", false, "SELECT round(123, 1), round(1.5, 1)"),
            ("select round(d, 'mm'), round(a)", false, "SELECT round(d, 'mm'), round(a)"),
            ("select half(a / 2), b / 2", true, "SELECT half(a / 2), \"$exact\"(b) / 2"),
            ("select a || 'x' || null", true, "SELECT \"$part\"(a) || 'x' || ''"),
            ("select upper(1 || (b))", true, "SELECT upper(\"$part\"(1) || \"$part\"((b)))"),
            ("select $1 || b", false, "SELECT \"$part\"(CAST($1 AS TEXT)) || \"$part\"(b)"),
            ("select substr(a, -3, b)", true, "SELECT \"$substr\"(a, -3, b)"),
            ("select to_char(a / 2)", true, "SELECT \"$to_char\"(\"$exact\"(a) / 2)"),
            ("select to_char(a, '9')", true, "SELECT \"$to_char\"(a, '9')"),
            ("select to_date(a, 'YYYY')", true, "SELECT to_date(a, 'YYYY')"),
            ("select to_date(a, b)", true, "SELECT \"$to_datetime\"(a, b)"),
            ("select 86400 * 1000000", true, "SELECT \"$exact\"(86400) * 1000000"),
            ("select 86400 * 1000", true, "SELECT 86400 * 1000"),
            ("select 1024 * 1024 * 1024 * 4", true, "SELECT \"$exact\"(1024 * 1024 * 1024) * 4"),
            (
                "select substring(a, 3), substr(a from 2)",
                true,
                "SELECT SUBSTRING(a, 3), SUBSTR(a FROM 2)",
            ),
            ("select 1 limit a / 2", true, "SELECT 1 LIMIT a / 2"),
        ] {
            assert_eq!(divided(text, typed), as_divided, "{text}");
        }
    }

    #[test]
    fn what_is_read_tells_whose_statement_it_is() {
        let read = |text: &str| {
            let Parsed::Sql(ast) = parse_single(text).unwrap().parsed else { panic!("{text}") };
            let read = read_by(&ast);
            (read.own, read.shared.join(","))
        };
        assert_eq!(read("select 1 from v$sql"), (true, String::new()));
        assert_eq!(read("select 1 from a, (select 1 from dual) b"), (false, "dual".to_owned()));
        assert_eq!(read("select 1 from user_t"), (false, "user_t".to_owned()));
        assert_eq!(read("select 1 from s.user_t, t"), (false, String::new()));
    }
}
