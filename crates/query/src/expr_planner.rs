//! Operators and aggregates with PostgreSQL's types: integers overflow with an error, `sum(bigint)`
//! and `avg(integer)`
//! are numeric, an untyped literal takes the type of the other side.

use crate::arith::Op;
use crate::cast::parse_text;
use crate::common_types::with_typed_results;
use crate::error::PgError;
use crate::functions::{RowFunction, arithmetic_function, arithmetic_of, numeric_function};
use crate::ordering::order_key;
use crate::pushdown::scalar_value_of;
use crate::scalar::common_number;
use crate::sides::{beside_char, is_padded, is_value_first, value_last};
use crate::types::{FREE_NUMERIC_SCALE, NUMERIC_PRECISION, arrow_type, col_type_of};
use crate::wire::FormatEnv;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::expr::{
    AggregateFunction, Placeholder, ScalarFunction, WindowFunction,
};
use datafusion::logical_expr::planner::{
    ExprPlanner, PlannerResult, RawAggregateExpr, RawBinaryExpr, RawWindowExpr,
};
use datafusion::logical_expr::utils::COUNT_STAR_EXPANSION;
use datafusion::logical_expr::{
    Expr, ExprSchemable, ScalarUDF, WindowFunctionDefinition, cast as cast_expr,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use kernel::row::{ColType, Datum, TypeKind, Value};
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub struct PgExprPlanner {
    env: FormatEnv,
}

impl PgExprPlanner {
    /// For statements of a session in this time zone.
    #[must_use]
    pub const fn new(env: FormatEnv) -> PgExprPlanner {
        PgExprPlanner { env }
    }
}

fn op_of(op: &BinaryOperator) -> Option<Op> {
    Some(match op {
        BinaryOperator::Plus => Op::Add,
        BinaryOperator::Minus => Op::Sub,
        BinaryOperator::Multiply => Op::Mul,
        BinaryOperator::Divide => Op::Div,
        BinaryOperator::Modulo => Op::Mod,
        _ => return None,
    })
}

fn is_comparison(op: &BinaryOperator) -> bool {
    matches!(
        op,
        BinaryOperator::Eq
            | BinaryOperator::NotEq
            | BinaryOperator::Lt
            | BinaryOperator::LtEq
            | BinaryOperator::Gt
            | BinaryOperator::GtEq
    )
}

fn type_of(expr: &Expr, schema: &DFSchema) -> Option<DataType> {
    match expr {
        Expr::Placeholder(p) => p.field.as_ref().map(|f| f.data_type().clone()),
        Expr::Literal(value, _) if value.is_null() => None,
        // Else a row of operators is gone through again for each of them.
        Expr::ScalarFunction(call) if let Some(ty) = RowFunction::type_of(call) => Some(ty),
        other => other.get_type(schema).ok().filter(|ty| *ty != DataType::Null),
    }
}

fn is_text(ty: &DataType) -> bool {
    matches!(ty, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Gives an untyped parameter or a text literal the type of the other side.
pub(crate) fn adopt(
    expr: Expr,
    own: Option<&DataType>,
    other: Option<&DataType>,
    env: &FormatEnv,
) -> DfResult<Expr> {
    let Some(other) = other else { return Ok(expr) };
    match &expr {
        Expr::Placeholder(p) if own.is_none() => {
            Ok(Expr::Placeholder(Placeholder::new_with_field(
                p.id.clone(),
                Some(Arc::new(Field::new("", other.clone(), true))),
            )))
        }
        Expr::Literal(ScalarValue::Utf8(Some(text)), _) if !is_text(other) => {
            let Some(ty) = col_type_of(other) else { return Ok(expr) };
            let ty =
                if ty.kind == TypeKind::Numeric { ColType::new(TypeKind::Numeric) } else { ty };
            let value = parse_text(text, ty, env)?;
            if let Value::Numeric(v, scale) = value {
                // With the digits it is written with.
                let digits = v.unsigned_abs().checked_ilog10().unwrap_or(0) + 1;
                let digits = u8::try_from(digits).unwrap_or(NUMERIC_PRECISION).max(scale);
                if digits <= NUMERIC_PRECISION {
                    let literal = ScalarValue::Decimal128(Some(v), digits, scale.cast_signed());
                    return Ok(Expr::Literal(literal, None));
                }
            }
            Ok(Expr::Literal(scalar_value_of(&value, ty), None))
        }
        _ => Ok(expr),
    }
}

fn call(function: Arc<datafusion::logical_expr::ScalarUDF>, args: Vec<Expr>) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(function, args))
}

fn cast_to(expr: Expr, from: &DataType, to: &DataType) -> Expr {
    if from == to { expr } else { cast_expr(expr, to.clone()) }
}

/// What an untyped side takes for its type: that of the other, but an instant or a time is moved
/// by an interval.
fn adopted_type(op: Option<Op>, other: Option<&DataType>) -> Option<DataType> {
    let other = other?;
    let kind = col_type_of(other).map(|ty| ty.kind);
    let moved = matches!(kind, Some(TypeKind::Timestamp | TypeKind::Timestamptz | TypeKind::Time));
    let of = |kind| Some(arrow_type(ColType::new(kind)));
    match (op, kind) {
        (Some(Op::Add), _) if moved => of(TypeKind::Interval),
        (Some(Op::Mul | Op::Div), Some(TypeKind::Interval)) => of(TypeKind::Float8),
        // `jsonb - 'key'`.
        (Some(_), Some(TypeKind::Jsonb)) => of(TypeKind::Text),
        _ => Some(other.clone()),
    }
}

/// Two sides of a comparison that have no operator between them, though the library would find one.
fn check_comparable(op: &BinaryOperator, lt: &DataType, rt: &DataType) -> Result<(), PgError> {
    let kind = |ty| col_type_of(ty).map(|ty| ty.kind);
    let both_json = kind(lt) == Some(TypeKind::Json) && kind(rt) == kind(lt);
    let (a, b) = (col_type_of(lt), col_type_of(rt));
    let arrays = kind(lt) == Some(TypeKind::Array) && kind(rt) == kind(lt) && a != b;
    if both_json || arrays || apart(lt, rt) {
        return Err(no_operator(op, lt, rt));
    }
    Ok(())
}

/// Whether neither of two types is ever taken for the other without a cast. The library would
/// convert some of them.
pub(crate) fn apart(lt: &DataType, rt: &DataType) -> bool {
    let kinds = (col_type_of(lt).map(|ty| ty.kind), col_type_of(rt).map(|ty| ty.kind));
    let (Some(a), Some(b)) = kinds else { return false };
    let own = |kind| {
        matches!(
            kind,
            TypeKind::Uuid
                | TypeKind::Time
                | TypeKind::Interval
                | TypeKind::Json
                | TypeKind::Jsonb
                | TypeKind::Array
                | TypeKind::Enum
        )
    };
    let spans = |kind| matches!(kind, TypeKind::Time | TypeKind::Interval);
    if spans(a) && spans(b) {
        return false;
    }
    let number = |kind| common_number(kind, kind).is_some();
    let day = |kind| matches!(kind, TypeKind::Date | TypeKind::Timestamp | TypeKind::Timestamptz);
    let bytes = |kind| kind == TypeKind::Bytea;
    let truth = |kind| kind == TypeKind::Bool;
    let text = |kind: TypeKind| kind.is_text();
    let apart = bytes(a) != bytes(b)
        || (text(a) && (number(b) || day(b) || truth(b)))
        || (text(b) && (number(a) || day(a) || truth(a)))
        || (day(a) && (number(b) || truth(b)))
        || (day(b) && (number(a) || truth(a)))
        || (truth(a) && number(b))
        || (truth(b) && number(a));
    let enums = a == TypeKind::Enum && b == a && lt != rt;
    apart || enums || (a != b && (own(a) || own(b)))
}

pub(crate) fn no_operator(op: &BinaryOperator, lt: &DataType, rt: &DataType) -> PgError {
    let (a, b) = (shown_type(lt), shown_type(rt));
    PgError::new("42883", format!("operator does not exist: {a} {op} {b}"))
        .with_hint(NO_OPERATOR_HINT)
}

/// Whether the library is left to compute with these: numbers, and what has no type of ours.
fn computable(lt: &DataType, rt: &DataType) -> bool {
    match (col_type_of(lt), col_type_of(rt)) {
        (Some(a), Some(b)) => common_number(a.kind, b.kind).is_some(),
        _ => true,
    }
}

/// Whether numbers of these types compare as double precision, which the library would not choose:
/// one of them is real, or a numeric stands beside one of double precision.
pub(crate) fn as_doubles(lt: &DataType, rt: &DataType) -> bool {
    let either = |ty: &DataType| lt == ty || rt == ty;
    let numeric = matches!(lt, DataType::Decimal128(..)) || matches!(rt, DataType::Decimal128(..));
    let unlike = either(&DataType::Float32) || (either(&DataType::Float64) && numeric);
    lt != rt && unlike && computable(lt, rt)
}

/// A number as one of double precision, of a literal the nearest that there is.
pub(crate) fn as_double(expr: Expr, own: &DataType) -> Expr {
    if let Expr::Literal(ScalarValue::Decimal128(Some(value), _, scale), _) = &expr
        && let Ok(nearest) = format!("{value}e{}", -i32::from(*scale)).parse::<f64>()
    {
        return Expr::Literal(ScalarValue::Float64(Some(nearest)), None);
    }
    match own {
        // As a cast that is written: the library's rounds twice.
        DataType::Decimal128(..) => {
            crate::functions::cast_expr(expr, ColType::new(TypeKind::Float8), FormatEnv::plain())
        }
        _ => cast_to(expr, own, &DataType::Float64),
    }
}

/// Of real and double precision there is no `%`.
fn no_remainder(op: Op, lt: &DataType, rt: &DataType) -> Result<(), PgError> {
    let (Some(a), Some(b)) = (col_type_of(lt), col_type_of(rt)) else { return Ok(()) };
    let floating =
        matches!(common_number(a.kind, b.kind), Some(TypeKind::Float4 | TypeKind::Float8));
    if op == Op::Mod && floating {
        return Err(no_operator(&BinaryOperator::Modulo, lt, rt));
    }
    Ok(())
}

pub(crate) fn shown_type(ty: &DataType) -> String {
    col_type_of(ty).map_or_else(|| ty.to_string(), |ty| ty.without_limit().to_string())
}

const NO_OPERATOR_HINT: &str = "No operator matches the given name and argument types. You might \
                                need to add explicit type casts.";

fn plan_arithmetic(
    op: Op,
    left: Expr,
    right: Expr,
    lt: &DataType,
    rt: &DataType,
    env: FormatEnv,
) -> Result<Expr, Box<(Expr, Expr)>> {
    if let Some(dates) = plan_date(op, &left, &right, lt, rt) {
        return Ok(dates);
    }
    let (Some(a), Some(b)) = (col_type_of(lt), col_type_of(rt)) else {
        return Err(Box::new((left, right)));
    };
    if let Some(function) = crate::temporal::operator(op, a.kind, b.kind, env) {
        let left =
            if crate::temporal::moves_by_days(b.kind, a.kind) { as_days(left) } else { left };
        let right =
            if crate::temporal::moves_by_days(a.kind, b.kind) { as_days(right) } else { right };
        return Ok(call(function, vec![left, right]));
    }
    let Some(kind) = common_number(a.kind, b.kind) else { return Err(Box::new((left, right))) };
    match kind {
        TypeKind::Numeric if matches!(op, Op::Mul | Op::Div | Op::Mod) => {
            let (sa, sb) = (scale_of(lt), scale_of(rt));
            let free = [lt, rt].iter().any(|ty| is_free(ty));
            let scale = match op {
                Op::Mul | Op::Mod if free => FREE_NUMERIC_SCALE,
                Op::Mod => sa.max(sb),
                Op::Mul => (sa + sb).min(30),
                _ => 16.max(sa).max(sb),
            };
            Ok(call(numeric_function(op, scale), vec![left, right]))
        }
        TypeKind::Numeric => Err(Box::new((left, right))),
        TypeKind::Float8 if !matches!(op, Op::Div | Op::Mod) => {
            Ok(call(crate::functions::float8_function(op), vec![left, right]))
        }
        kind => match arithmetic_function(op, kind) {
            Some(function) => {
                let to = arrow_type(ColType::new(kind));
                Ok(call(function, vec![cast_to(left, lt, &to), cast_to(right, rt, &to)]))
            }
            None => Err(Box::new((left, right))),
        },
    }
}

fn scale_of(ty: &DataType) -> u8 {
    match ty {
        DataType::Decimal128(_, scale) => u8::try_from(*scale).unwrap_or(0),
        _ => 0,
    }
}

fn is_free(ty: &DataType) -> bool {
    *ty == DataType::Decimal128(NUMERIC_PRECISION, FREE_NUMERIC_SCALE.cast_signed())
}

/// A number of days beside an instant, where `1/24` is an hour: the division of whole numbers is
/// one of double precision.
fn as_days(expr: Expr) -> Expr {
    match expr {
        Expr::ScalarFunction(of) => match arithmetic_of(of.func.name()) {
            Some((op, _)) if op != Op::Mod => {
                let sides = of.args.into_iter().map(as_days).collect();
                let function = match op {
                    Op::Div => arithmetic_function(Op::Div, TypeKind::Float8),
                    op => Some(crate::functions::float8_function(op)),
                };
                match function {
                    Some(function) => call(function, sides),
                    None => Expr::Literal(ScalarValue::Null, None),
                }
            }
            _ => cast_expr(Expr::ScalarFunction(of), DataType::Float64),
        },
        Expr::Cast(cast) => match *cast.expr {
            Expr::ScalarFunction(of) if arithmetic_of(of.func.name()).is_some() => {
                as_days(Expr::ScalarFunction(of))
            }
            inner => cast_expr(inner, DataType::Float64),
        },
        other => cast_expr(other, DataType::Float64),
    }
}

/// `date ± integer`, `date - date`.
fn plan_date(op: Op, left: &Expr, right: &Expr, lt: &DataType, rt: &DataType) -> Option<Expr> {
    let integer = |ty: &DataType| matches!(ty, DataType::Int16 | DataType::Int32 | DataType::Int64);
    let days = |datum: &Datum<'_>| match datum {
        Datum::Date(v) => i64::from(*v),
        Datum::Int2(v) => i64::from(*v),
        Datum::Int4(v) => i64::from(*v),
        Datum::Int8(v) => *v,
        _ => 0,
    };
    let is_endless = |day: i64| day == i64::from(i32::MAX) || day == i64::from(i32::MIN);
    let function = match (lt, op, rt) {
        (DataType::Date32, Op::Sub, DataType::Date32) => {
            RowFunction::new("$date_diff", Some(2), ColType::new(TypeKind::Int4), true, move |a| {
                if a.iter().any(|date| is_endless(days(date))) {
                    return Err(PgError::new("22008", "cannot subtract infinite dates"));
                }
                i32::try_from(days(&a[0]) - days(&a[1]))
                    .map(Value::Int4)
                    .map_err(|_| PgError::out_of_range("integer"))
            })
        }
        (DataType::Date32, Op::Add | Op::Sub, rt) if integer(rt) => {
            let name = if op == Op::Add { "$date_plus" } else { "$date_minus" };
            RowFunction::new(name, Some(2), ColType::new(TypeKind::Date), true, move |a| {
                let n = days(&a[1]);
                let n = if op == Op::Add { n } else { n.saturating_neg() };
                let date = days(&a[0]);
                // What is infinite stays so.
                if is_endless(date) {
                    return Ok(a[0].to_value());
                }
                crate::datetime::date_of(date.saturating_add(n)).map(Value::Date)
            })
        }
        _ => return None,
    };
    Some(call(function.into_udf(), vec![left.clone(), right.clone()]))
}

/// What is no text beside a text is written as PostgreSQL writes it.
fn as_texts(
    expr: RawBinaryExpr,
    schema: &DFSchema,
    env: FormatEnv,
    parts: (Option<Part>, Option<Part>),
) -> DfResult<PlannerResult<RawBinaryExpr>> {
    let (lt, rt) = (type_of(&expr.left, schema), type_of(&expr.right, schema));
    let text = |ty: &DataType| col_type_of(ty).is_none_or(|ty| ty.kind.is_text());
    if parts == (None, None)
        && let (Some(a), Some(b)) = (&lt, &rt)
        && !text(a)
        && !text(b)
    {
        return Err(no_operator(&expr.op, a, b).into());
    }
    let side = |side: Expr, ty: Option<&DataType>, part: Option<Part>| {
        let is_number = ty.and_then(col_type_of).is_some_and(|ty| ty.kind == TypeKind::Numeric);
        match part {
            // It writes numbers as the field does.
            Some(_) if is_number => whole(side, part),
            part => whole(as_text(side, ty, env), part),
        }
    };
    let left = side(expr.left, lt.as_ref(), parts.0);
    let right = side(expr.right, rt.as_ref(), parts.1);
    Ok(PlannerResult::Original(RawBinaryExpr { op: expr.op, left, right }))
}

/// The function around a side of `||` that is an empty text where it is NULL.
type Part = Arc<ScalarUDF>;

/// The side itself, and what is around it.
fn part(side: Expr) -> (Expr, Option<Part>) {
    match side {
        Expr::ScalarFunction(mut call)
            if call.func.name() == crate::functions::PART && call.args.len() == 1 =>
        {
            (call.args.remove(0), Some(call.func))
        }
        side => (side, None),
    }
}

fn whole(side: Expr, part: Option<Part>) -> Expr {
    match part {
        Some(func) => Expr::ScalarFunction(ScalarFunction { func, args: vec![side] }),
        None => side,
    }
}

/// `||`: of arrays, jsonb and bytea it is ours.
fn plan_concat(
    mut expr: RawBinaryExpr,
    schema: &DFSchema,
    env: &FormatEnv,
) -> DfResult<PlannerResult<RawBinaryExpr>> {
    let parts;
    (expr.left, expr.right, parts) = {
        let (left, right) = (part(expr.left), part(expr.right));
        (left.0, right.0, (left.1, right.1))
    };
    let element = |side: &Expr| col_type_of(&type_of(side, schema)?)?.element();
    if let Some(element) = element(&expr.left).or_else(|| element(&expr.right)) {
        let function = crate::array_functions::concat_function(element.kind, *env).into_udf();
        return Ok(PlannerResult::Planned(call(function, vec![expr.left, expr.right])));
    }
    let jsonb = arrow_type(ColType::new(TypeKind::Jsonb));
    let sides = [&expr.left, &expr.right];
    if sides.iter().any(|side| type_of(side, schema) == Some(DataType::Binary)) {
        let concat = crate::functions::concat_bytes();
        return Ok(PlannerResult::Planned(call(concat, vec![expr.left, expr.right])));
    }
    if !sides.iter().any(|side| type_of(side, schema).as_ref() == Some(&jsonb)) {
        return as_texts(expr, schema, *env, parts);
    }
    let own = (type_of(&expr.left, schema), type_of(&expr.right, schema));
    let left = adopt(expr.left, own.0.as_ref(), Some(&jsonb), env)?;
    let right = adopt(expr.right, own.1.as_ref(), Some(&jsonb), env)?;
    let concat = crate::json_functions::concat_function().into_udf();
    Ok(PlannerResult::Planned(call(concat, vec![left, right])))
}

/// A value that is no text as PostgreSQL writes it.
pub(crate) fn as_text(expr: Expr, ty: Option<&DataType>, env: FormatEnv) -> Expr {
    let kind = ty.and_then(col_type_of).map(|ty| ty.kind);
    match kind {
        Some(kind) if !kind.is_text() && kind != TypeKind::Bytea => {
            crate::functions::cast_expr(expr, ColType::new(TypeKind::Text), env)
        }
        _ => expr,
    }
}

/// Whether a moment or a time stands beside a parameter without a type, which is an interval then.
fn is_moved(sides: &RawBinaryExpr, lt: Option<&DataType>, rt: Option<&DataType>) -> bool {
    let moment = |ty: Option<&DataType>| {
        let kind = ty.and_then(col_type_of).map(|ty| ty.kind);
        matches!(kind, Some(TypeKind::Timestamp | TypeKind::Timestamptz | TypeKind::Time))
    };
    let open =
        |side: &Expr, ty: Option<&DataType>| ty.is_none() && matches!(side, Expr::Placeholder(_));
    (moment(lt) && open(&sides.right, rt)) || (moment(rt) && open(&sides.left, lt))
}

/// A date or a timestamp beside an instant, as the instant it is in the session's time zone; a date
/// beside a timestamp as the midnight it begins with. The library would count both in nanoseconds,
/// which end in the year 2262.
fn as_instant(expr: Expr, own: &DataType, other: &DataType, env: FormatEnv) -> Expr {
    let kind = |ty| col_type_of(ty).map(|ty| ty.kind);
    match (kind(own), kind(other)) {
        (Some(TypeKind::Date | TypeKind::Timestamp), Some(TypeKind::Timestamptz)) => {
            crate::functions::cast_expr(expr, ColType::new(TypeKind::Timestamptz), env)
        }
        (Some(TypeKind::Date), Some(TypeKind::Timestamp)) => {
            let stored =
                |part: &Expr| Ok(matches!(part, Expr::Column(_) | Expr::OuterReferenceColumn(..)));
            let midnight = ColType::new(TypeKind::Timestamp);
            // Of a column as the library's own cast, which an index of the column is known through.
            match expr.exists(stored) {
                Ok(false) => crate::functions::cast_expr(expr, midnight, env),
                _ => cast_expr(expr, arrow_type(midnight)),
            }
        }
        _ => expr,
    }
}

/// Puts a function around the arguments of an aggregate: their types are known only with a schema,
/// which the planner's hook lacks. See [`crate::aggregates`].
fn check_arguments(aggregate: &str, args: &mut [Expr]) {
    let wildcard = |arg: &Expr| {
        #[allow(deprecated)]
        let found = matches!(arg, Expr::Wildcard { .. });
        found
    };
    if !crate::aggregates::is_checked(aggregate) || args.iter().any(wildcard) {
        return;
    }
    let all = args.to_vec();
    if let Some(first) = args.first_mut() {
        *first = call(crate::aggregates::argument_function(aggregate), all);
    }
}

/// Whether an aggregate counts rows whatever they hold, as `count(1)` does. It is to be the same
/// expression as `count(*)` then: the library calls both by one name, and takes one name once.
fn counts_rows(aggregate: &str, args: &[Expr], distinct: bool) -> bool {
    let known = |arg: &Expr| matches!(arg, Expr::Literal(value, _) if !value.is_null());
    aggregate == "count"
        && !distinct
        && match args {
            // An integer is written as the cast of one.
            [Expr::Cast(cast)] => known(&cast.expr),
            [arg] => known(arg),
            _ => false,
        }
}

/// What the library makes of the star in `count(*)`.
fn of_all_rows() -> Vec<Expr> {
    vec![Expr::Literal(COUNT_STAR_EXPANSION, None)]
}

impl ExprPlanner for PgExprPlanner {
    fn plan_binary_op(
        &self,
        mut expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> DfResult<PlannerResult<RawBinaryExpr>> {
        // Of a row of operators each takes longer than the one before.
        crate::interruptible::check()?;
        if expr.op == BinaryOperator::StringConcat {
            return plan_concat(expr, schema, &self.env);
        }
        if matches!(expr.op, BinaryOperator::And | BinaryOperator::Or) {
            let condition = |side: Expr| {
                let own = match &side {
                    Expr::Placeholder(parameter) => {
                        parameter.field.as_ref().map(|field| field.data_type().clone())
                    }
                    _ => None,
                };
                adopt(side, own.as_ref(), Some(&DataType::Boolean), &self.env)
            };
            let (left, right) = (condition(expr.left)?, condition(expr.right)?);
            return Ok(PlannerResult::Original(RawBinaryExpr { op: expr.op, left, right }));
        }
        let op = op_of(&expr.op);
        if op.is_none() && !is_comparison(&expr.op) {
            return Ok(PlannerResult::Original(expr));
        }
        expr.left = with_typed_results(expr.left, schema, &self.env)?;
        expr.right = with_typed_results(expr.right, schema, &self.env)?;
        let (lt, rt) = (type_of(&expr.left, schema), type_of(&expr.right, schema));
        // Date plus a text literal means an interval; that is DataFusion's business.
        let temporal = |ty: &Option<DataType>| {
            ty.as_ref().is_some_and(|ty| {
                ty.is_temporal() && col_type_of(ty).is_none_or(|ty| ty.kind != TypeKind::Enum)
            })
        };
        let moved = op == Some(Op::Add) && is_moved(&expr, lt.as_ref(), rt.as_ref());
        let one = (temporal(&lt) != temporal(&rt)) && (lt.is_none() || rt.is_none());
        if op.is_some() && one && !moved {
            return Ok(PlannerResult::Original(expr));
        }
        let value_first = is_value_first(&expr);
        if op.is_none() {
            let (pad_l, pad_r) = (is_padded(&expr.left, schema), is_padded(&expr.right, schema));
            if pad_r {
                expr.left = beside_char(expr.left, schema, self.env);
            }
            if pad_l {
                expr.right = beside_char(expr.right, schema, self.env);
            }
        }
        let (for_left, for_right) = (adopted_type(op, rt.as_ref()), adopted_type(op, lt.as_ref()));
        let left = adopt(expr.left, lt.as_ref(), for_left.as_ref(), &self.env)?;
        let right = adopt(expr.right, rt.as_ref(), for_right.as_ref(), &self.env)?;
        let (lt, rt) = (type_of(&left, schema), type_of(&right, schema));
        if let (Some(op), Some(lt), Some(rt)) = (op, &lt, &rt) {
            no_remainder(op, lt, rt)?;
            if op == Op::Sub && *lt == arrow_type(ColType::new(TypeKind::Jsonb)) {
                let delete = crate::json_functions::delete_function().into_udf();
                return Ok(PlannerResult::Planned(call(delete, vec![left, right])));
            }
            return Ok(match plan_arithmetic(op, left, right, lt, rt, self.env) {
                Ok(planned) => PlannerResult::Planned(planned),
                Err(_) if !computable(lt, rt) => {
                    return Err(no_operator(&expr.op, lt, rt).into());
                }
                Err(sides) => {
                    let (left, right) = *sides;
                    PlannerResult::Original(RawBinaryExpr { op: expr.op, left, right })
                }
            });
        }
        let (Some(lt), Some(rt)) = (lt, rt) else {
            return Ok(value_last(RawBinaryExpr { op: expr.op, left, right }, value_first));
        };
        check_comparable(&expr.op, &lt, &rt)?;
        let left = as_instant(left, &lt, &rt, self.env);
        let right = as_instant(right, &rt, &lt, self.env);
        let (left, right) = (order_key(left, &lt), order_key(right, &rt));
        let (left, right) = match as_doubles(&lt, &rt) {
            true => (as_double(left, &lt), as_double(right, &rt)),
            false => (left, right),
        };
        Ok(value_last(RawBinaryExpr { op: expr.op, left, right }, value_first))
    }

    fn plan_array_literal(
        &self,
        exprs: Vec<Expr>,
        schema: &DFSchema,
    ) -> DfResult<PlannerResult<Vec<Expr>>> {
        let elements = crate::common_types::elements(exprs, schema, &self.env)?;
        Ok(PlannerResult::Original(elements))
    }

    fn plan_aggregate(
        &self,
        mut expr: RawAggregateExpr,
    ) -> DfResult<PlannerResult<RawAggregateExpr>> {
        let name = expr.func.name().to_owned();
        let kept = crate::keep::function_of(&name);
        check_arguments(kept.unwrap_or(&name), &mut expr.args);
        if counts_rows(&name, &expr.args, expr.distinct) {
            expr.args = of_all_rows();
        }
        if name == "sum" {
            expr.func = crate::real_sum::sum();
        }
        if kept.unwrap_or(&name) != "avg" {
            return Ok(PlannerResult::Original(expr));
        }
        let RawAggregateExpr { func, args, distinct, filter, order_by, null_treatment } = expr;
        let func = if kept.is_some() { func } else { crate::real_sum::avg() };
        let average =
            AggregateFunction::new_udf(func, args, distinct, filter, order_by, null_treatment);
        let average = Expr::AggregateFunction(average);
        Ok(PlannerResult::Planned(call(crate::aggregates::average_function(), vec![average])))
    }

    fn plan_window(&self, mut expr: RawWindowExpr) -> DfResult<PlannerResult<RawWindowExpr>> {
        let name = expr.func_def.name().to_owned();
        if matches!(expr.func_def, WindowFunctionDefinition::AggregateUDF(_)) {
            check_arguments(&name, &mut expr.args);
        }
        if counts_rows(&name, &expr.args, expr.distinct) {
            expr.args = of_all_rows();
        }
        if name == "sum" {
            expr.func_def = WindowFunctionDefinition::AggregateUDF(crate::real_sum::sum());
        }
        if !matches!(name.as_str(), "avg" | "ntile") {
            return Ok(PlannerResult::Original(expr));
        }
        if name == "avg" {
            expr.func_def = WindowFunctionDefinition::AggregateUDF(crate::real_sum::avg());
        }
        let mut window = WindowFunction::new(expr.func_def, expr.args);
        window.params.partition_by = expr.partition_by;
        window.params.order_by = expr.order_by;
        window.params.window_frame = expr.window_frame;
        window.params.filter = expr.filter;
        window.params.null_treatment = expr.null_treatment;
        window.params.distinct = expr.distinct;
        let window = Expr::WindowFunction(Box::new(window));
        Ok(PlannerResult::Planned(if name == "avg" {
            call(crate::aggregates::average_function(), vec![window])
        } else {
            // PostgreSQL counts the parts in an integer.
            cast_expr(window, DataType::Int32)
        }))
    }
}
