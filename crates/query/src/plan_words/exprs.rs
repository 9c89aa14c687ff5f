//! Conditions and values of plans as SQL.
//!
//! What it promises: columns by their names, operators and casts as a statement has them. What it
//! must never do: show the name that a function has only among ourselves.

use crate::arith::Op;
use crate::functions::{arithmetic_of, is_negation, numeric_of, symbol};
use crate::interruptible::Looking;
use crate::pushdown::value_of;
use crate::scalar::{CmpOp, Scalar};
use crate::scan::alternatives;
use crate::types::col_type_of;
use crate::unbound::UNBOUND;
use crate::wire::{FormatEnv, to_text};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, DynamicFilterPhysicalExpr, InListExpr, IsNotNullExpr,
    IsNullExpr, LikeExpr, Literal, NegativeExpr, NotExpr, TryCastExpr,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use kernel::row::{ColType, TypeKind, Value};
use std::sync::Arc;

/// The name of an input's column.
pub(super) type Names<'a> = &'a dyn Fn(usize) -> String;

/// Items of a list that are told.
const ITEMS_MAX: usize = 20;

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A value as a literal.
fn value(value: &Value) -> String {
    let kind = match value {
        Value::Null => return "NULL".to_owned(),
        Value::Text(text) => return quoted(text),
        Value::Date(_) => "date",
        Value::Time(_) => "time",
        Value::Timestamp(_) => "timestamp",
        Value::Timestamptz(_) => "timestamptz",
        Value::Interval(_) => "interval",
        Value::Uuid(_) => "uuid",
        Value::Bytea(_) => "bytea",
        Value::Bool(value) => return value.to_string(),
        Value::Int2(_)
        | Value::Int4(_)
        | Value::Int8(_)
        | Value::Float4(_)
        | Value::Float8(_)
        | Value::Numeric(..) => return to_text(&value.as_datum(), &FormatEnv::plain()),
        _ => return quoted(&to_text(&value.as_datum(), &FormatEnv::plain())),
    };
    format!("{}::{kind}", quoted(&to_text(&value.as_datum(), &FormatEnv::plain())))
}

fn literal(literal: &ScalarValue) -> String {
    value_of(literal).map_or_else(|| literal.to_string(), |found| value(&found))
}

fn sign(op: Op) -> &'static str {
    match op {
        Op::Add => "+",
        Op::Sub => "-",
        Op::Mul => "*",
        Op::Div => "/",
        Op::Mod => "%",
    }
}

fn comparison(op: CmpOp) -> &'static str {
    match op {
        CmpOp::Eq => "=",
        CmpOp::Ne => "<>",
        CmpOp::Lt => "<",
        CmpOp::Le => "<=",
        CmpOp::Gt => ">",
        CmpOp::Ge => ">=",
    }
}

/// The operator that a function of ours stands for, beside those that errors name
/// ([`symbol`]): words where there are some.
const OPERATORS: [(&str, &str); 17] = [
    ("$like", "LIKE"),
    ("$ilike", "ILIKE"),
    ("$similar", "SIMILAR TO"),
    ("$array_concat", "||"),
    ("$jsonb_concat", "||"),
    ("$jsonb_contains", "@>"),
    ("$jsonb_exists", "?"),
    ("$jsonb_exists_any", "?|"),
    ("$jsonb_exists_all", "?&"),
    ("$json_get", "->"),
    ("$json_get_text", "->>"),
    ("$json_path", "#>"),
    ("$json_path_text", "#>>"),
    ("$array_overlap", "&&"),
    ("$date_plus", "+"),
    ("$date_minus", "-"),
    ("$date_diff", "-"),
];

fn operator(function: &str) -> Option<&'static str> {
    if let Some((op, _)) = arithmetic_of(function) {
        return Some(sign(op));
    }
    if let Some((op, _)) = numeric_of(function) {
        return Some(sign(op));
    }
    let times = [("Add", "+"), ("Sub", "-"), ("Mul", "*"), ("Div", "/")];
    if let Some(rest) = function.strip_prefix("$times_") {
        return times.iter().find(|(word, _)| rest.starts_with(word)).map(|found| found.1);
    }
    let own = OPERATORS.iter().find(|(name, _)| *name == function).map(|found| found.1);
    own.or_else(|| symbol(function.strip_prefix('$')?))
}

/// The type that a cast's name says.
fn cast_to(function: &str) -> Option<ColType> {
    let (code, modifier) = function.strip_prefix("$cast_")?.split_once('_')?;
    let kind = TypeKind::from_code(code.parse().ok()?)?;
    Some(ColType { kind, modifier: modifier.parse().ok()? })
}

/// `any` and `all` with their operator.
fn quantified(function: &str) -> Option<(&'static str, &'static str)> {
    let (word, op) = match function.strip_prefix("$any_") {
        Some(op) => ("ANY", op),
        None => ("ALL", function.strip_prefix("$all_")?),
    };
    let known = [
        ("eq", "="),
        ("ne", "<>"),
        ("lt", "<"),
        ("le", "<="),
        ("gt", ">"),
        ("ge", ">="),
        ("like", "LIKE"),
        ("ilike", "ILIKE"),
    ];
    known.iter().find(|(name, _)| *name == op).map(|(_, sign)| (word, *sign))
}

/// A call as it was written.
fn call(function: &str, args: &[String]) -> String {
    if let Some(number) = function.strip_prefix(UNBOUND) {
        return format!("${number}");
    }
    if let ([left, right], Some(op)) = (args, operator(function)) {
        return format!("({left} {op} {right})");
    }
    if let ([left, right], Some((word, op))) = (args, quantified(function)) {
        return format!("({left} {op} {word} ({right}))");
    }
    match (args, cast_to(function)) {
        ([arg], Some(to)) => return format!("{arg}::{to}"),
        ([arg], None) if is_negation(function) => return format!("(- {arg})"),
        ([arg], None) if function == "$bit_not" => return format!("(~ {arg})"),
        // A whole number as one of any size.
        ([arg], None) if matches!(function, "$exact" | "$decimal" | "$part") => return arg.clone(),
        _ => {}
    }
    if function.starts_with("$in_") {
        let (of, items) = args.split_first().map_or(("", args), |(of, items)| (&**of, items));
        return format!("({of} IN ({}))", list(items));
    }
    format!("{}({})", function.trim_start_matches('$'), list(args))
}

fn list(items: &[String]) -> String {
    let mut out = items[..items.len().min(ITEMS_MAX)].join(", ");
    if items.len() > ITEMS_MAX {
        out.push_str(&format!(", .. {} more", items.len() - ITEMS_MAX));
    }
    out
}

/// Several conditions as one; `None`: there is none.
pub(super) fn all_of(mut conditions: Vec<String>) -> Option<String> {
    match conditions.len() {
        0 | 1 => conditions.pop(),
        _ => Some(format!("({})", conditions.join(" AND "))),
    }
}

/// The parts of a chain of one operator.
fn chain<'a>(
    expr: &'a Arc<dyn PhysicalExpr>,
    op: Operator,
    out: &mut Vec<&'a Arc<dyn PhysicalExpr>>,
) {
    match expr.downcast_ref::<BinaryExpr>() {
        Some(binary) if *binary.op() == op => {
            chain(binary.left(), op, out);
            chain(binary.right(), op, out);
        }
        _ => out.push(expr),
    }
}

fn binary(expr: &Arc<dyn PhysicalExpr>, binary: &BinaryExpr, names: Names<'_>) -> Option<String> {
    let op = *binary.op();
    if matches!(op, Operator::And | Operator::Or) {
        let mut parts = Vec::new();
        chain(expr, op, &mut parts);
        let mut words: Vec<String> = parts.iter().filter_map(|part| words(part, names)).collect();
        return match (words.len(), op) {
            (0 | 1, _) => words.pop(),
            (_, Operator::And) => all_of(words),
            _ => Some(format!("({})", words.join(" OR "))),
        };
    }
    let (left, right) = (told(binary.left(), names), told(binary.right(), names));
    let sign = match op {
        Operator::NotEq => "<>".to_owned(),
        other => other.to_string(),
    };
    Some(format!("({left} {sign} {right})"))
}

fn cast(inner: &Arc<dyn PhysicalExpr>, to: &DataType, names: Names<'_>) -> String {
    let told = told(inner, names);
    if inner.downcast_ref::<Literal>().is_some() {
        return told;
    }
    let to = col_type_of(to).map_or_else(|| to.to_string(), |ty| ty.to_string());
    format!("{told}::{to}")
}

fn case(case: &CaseExpr, names: Names<'_>) -> String {
    let mut out = "CASE".to_owned();
    if let Some(expr) = case.expr() {
        out.push_str(&format!(" {}", told(expr, names)));
    }
    for (when, then) in case.when_then_expr() {
        out.push_str(&format!(" WHEN {} THEN {}", told(when, names), told(then, names)));
    }
    if let Some(expr) = case.else_expr() {
        out.push_str(&format!(" ELSE {}", told(expr, names)));
    }
    out + " END"
}

/// Without the places that the library puts behind the names of columns.
fn without_places(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('@') {
        let digits = rest[at + 1..].bytes().take_while(u8::is_ascii_digit).count();
        let keep = if digits == 0 { at + 1 } else { at };
        out.push_str(&rest[..keep]);
        rest = &rest[at + 1 + digits..];
    }
    out + rest
}

/// A name that the library has made of an expression, nearly as it was written.
pub(super) fn made_name(name: &str) -> String {
    if name == "count(Int64(1))" {
        return "count(*)".to_owned();
    }
    name.trim_start_matches('$').to_owned()
}

/// An expression; `None`: what is only known when the plan runs, and changes no result.
pub(super) fn words(expr: &Arc<dyn PhysicalExpr>, names: Names<'_>) -> Option<String> {
    if expr.downcast_ref::<DynamicFilterPhysicalExpr>().is_some() {
        return None;
    }
    if let Some(column) = expr.downcast_ref::<Column>() {
        return Some(names(column.index()));
    }
    if let Some(found) = expr.downcast_ref::<Literal>() {
        return Some(literal(found.value()));
    }
    if let Some(found) = expr.downcast_ref::<BinaryExpr>() {
        return binary(expr, found, names);
    }
    if let Some(function) = expr.downcast_ref::<ScalarFunctionExpr>() {
        let args: Vec<String> = function.args().iter().map(|arg| told(arg, names)).collect();
        return Some(call(function.name(), &args));
    }
    if let Some(found) = expr.downcast_ref::<CastExpr>() {
        return Some(cast(found.expr(), found.cast_type(), names));
    }
    if let Some(found) = expr.downcast_ref::<TryCastExpr>() {
        return Some(cast(found.expr(), found.cast_type(), names));
    }
    if let Some(found) = expr.downcast_ref::<NotExpr>() {
        return Some(format!("(NOT {})", told(found.arg(), names)));
    }
    if let Some(found) = expr.downcast_ref::<IsNullExpr>() {
        return Some(format!("({} IS NULL)", told(found.arg(), names)));
    }
    if let Some(found) = expr.downcast_ref::<IsNotNullExpr>() {
        return Some(format!("({} IS NOT NULL)", told(found.arg(), names)));
    }
    if let Some(found) = expr.downcast_ref::<NegativeExpr>() {
        return Some(format!("(- {})", told(found.arg(), names)));
    }
    if let Some(found) = expr.downcast_ref::<InListExpr>() {
        let items: Vec<String> = found.list().iter().map(|item| told(item, names)).collect();
        let not = if found.negated() { "NOT " } else { "" };
        return Some(format!("({} {not}IN ({}))", told(found.expr(), names), list(&items)));
    }
    if let Some(found) = expr.downcast_ref::<LikeExpr>() {
        let not = if found.negated() { "NOT " } else { "" };
        let word = if found.case_insensitive() { "ILIKE" } else { "LIKE" };
        let (of, pattern) = (told(found.expr(), names), told(found.pattern(), names));
        return Some(format!("({of} {not}{word} {pattern})"));
    }
    if let Some(found) = expr.downcast_ref::<CaseExpr>() {
        return Some(case(found, names));
    }
    if expr.downcast_ref::<Looking>().is_some()
        && let [inner] = expr.children()[..]
    {
        return words(inner, names);
    }
    // The value of a subquery, which is one of the step's inputs.
    Some(without_places(&expr.to_string()).replace("scalar_subquery(<pending>)", "(subquery)"))
}

/// The same of what stands inside another.
pub(super) fn told(expr: &Arc<dyn PhysicalExpr>, names: Names<'_>) -> String {
    words(expr, names).unwrap_or_else(|| "true".to_owned())
}

/// A comparison with its sides.
pub(super) fn compared(left: &str, op: CmpOp, right: &str) -> String {
    format!("({left} {} {right})", comparison(op))
}

/// An expression over a row as it is stored.
pub(super) fn scalar(of: &Scalar, names: Names<'_>) -> String {
    let told = |inner: &Scalar| scalar(inner, names);
    let all = |items: &[Scalar]| items.iter().map(told).collect::<Vec<String>>();
    match of {
        Scalar::Const(found) => value(found),
        Scalar::Param(i) => format!("${}", i + 1),
        Scalar::Column(i) => names(*i),
        Scalar::Arith(op, _, sides) => {
            format!("({} {} {})", told(&sides.0), sign(*op), told(&sides.1))
        }
        Scalar::Neg(inner) => format!("(- {})", told(inner)),
        Scalar::Compare(op, sides) => compared(&told(&sides.0), *op, &told(&sides.1)),
        Scalar::And(_) => {
            let mut parts = Vec::new();
            of.conjuncts(&mut parts);
            let parts: Vec<String> = parts.into_iter().map(told).collect();
            format!("({})", parts.join(" AND "))
        }
        Scalar::Or(_) => {
            let mut parts = Vec::new();
            alternatives(of, &mut parts);
            let parts: Vec<String> = parts.into_iter().map(told).collect();
            format!("({})", parts.join(" OR "))
        }
        Scalar::Not(inner) => match &**inner {
            Scalar::IsNull(inner) => format!("({} IS NOT NULL)", told(inner)),
            inner => format!("(NOT {})", told(inner)),
        },
        Scalar::IsNull(inner) => format!("({} IS NULL)", told(inner)),
        Scalar::In(of, items) => match &items[..] {
            [Scalar::Each(array)] => format!("({} = ANY ({}))", told(of), told(array)),
            items => format!("({} IN ({}))", told(of), list(&all(items))),
        },
        Scalar::Each(array) => told(array),
        Scalar::Cast(inner, to, _) => match &**inner {
            Scalar::Const(_) => told(inner),
            inner => format!("{}::{to}", told(inner)),
        },
        Scalar::Concat(sides) => format!("({} || {})", told(&sides.0), told(&sides.1)),
        Scalar::Coalesce(items) => format!("COALESCE({})", list(&all(items))),
        Scalar::Like(sides, fold) => {
            let word = if *fold { "ILIKE" } else { "LIKE" };
            format!("({} {word} {})", told(&sides.0), told(&sides.1))
        }
        Scalar::Call(called, args) => call(called.name(), &all(args)),
        Scalar::Planned(planned, args) => call(planned.name(), &all(args)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_ours_are_told_as_they_are_written() {
        let args = |all: &[&str]| all.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>();
        assert_eq!(call("$int4_add", &args(&["a", "1"])), "(a + 1)");
        assert_eq!(call("$numeric_div_16", &args(&["a", "b"])), "(a / b)");
        assert_eq!(call("$times_Sub_13", &args(&["a", "b"])), "(a - b)");
        assert_eq!(call("$any_eq", &args(&["a", "b"])), "(a = ANY (b))");
        assert_eq!(call("$negative_int4", &args(&["a"])), "(- a)");
        assert_eq!(call("$like", &args(&["a", "'x%'"])), "(a LIKE 'x%')");
        assert_eq!(call("upper", &args(&["a"])), "upper(a)");
        assert_eq!(call("$bind_2", &[]), "$2");
        let to = ColType { kind: TypeKind::Int8, modifier: -1 };
        assert_eq!(call(&crate::functions::cast_name(to), &args(&["a"])), "a::bigint");
        let many: Vec<String> = (0..25).map(|n| n.to_string()).collect();
        assert!(list(&many).ends_with("18, 19, .. 5 more"));
    }

    #[test]
    fn places_go_and_other_signs_stay() {
        assert_eq!(without_places("f(a@12, b@0) @> x@y"), "f(a, b) @> x@y");
    }

    #[test]
    fn literals_are_quoted() {
        assert_eq!(value(&Value::Text("it's".into())), "'it''s'");
        assert_eq!(value(&Value::Int4(-3)), "-3");
        assert_eq!(value(&Value::Null), "NULL");
        assert_eq!(literal(&ScalarValue::Boolean(Some(true))), "true");
    }
}
