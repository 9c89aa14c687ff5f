//! DataFusion's expressions as ours, where they can be; a filter that can is evaluated inside the
//! scan.
//!
//! What it promises: a converted filter keeps exactly the rows that DataFusion's would. That lets a
//! plan with
//! parameters in such filters be built once: they never become physical expressions.

use crate::arith::Op;
use crate::arrow_rows::{ColumnReader, arrow_interval, interval_of, single_column};
use crate::cast::CastMode;
use crate::datetime::{day_of_plan, plan_day, plan_us, us_of_plan};
use crate::functions::by_row::planned;
use crate::functions::{RowCall, arithmetic_of, cast_name, is_negation, numeric_of};
use crate::key_exprs::Computed;
use crate::scalar::{CmpOp, Scalar, common_number};
use crate::types::{NUMERIC_PRECISION, col_type_of, enum_of_zone};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use kernel::row::{ColType, EnumValue, TypeKind, Value};

/// What a table's columns are, by name.
pub struct Columns<'a> {
    pub names: &'a [&'a str],
    pub types: &'a [ColType],
    /// Expressions that count as columns behind them.
    pub(crate) computed: Option<&'a Computed>,
}

/// An expression of ours with its kind; the kind of an untyped NULL or parameter is unknown.
struct Typed {
    scalar: Scalar,
    kind: Option<TypeKind>,
}

/// The filter as a condition of ours.
#[must_use]
pub fn convert_filter(expr: &Expr, columns: &Columns<'_>) -> Option<Scalar> {
    let typed = convert(expr, columns)?;
    // What the optimizer makes of `false AND NULL`, after the scan has said what it takes.
    let null = matches!(typed.scalar, Scalar::Const(Value::Null));
    (null || matches!(typed.kind, Some(TypeKind::Bool))).then_some(typed.scalar)
}

fn boolean(scalar: Scalar) -> Option<Typed> {
    Some(Typed { scalar, kind: Some(TypeKind::Bool) })
}

fn convert(expr: &Expr, columns: &Columns<'_>) -> Option<Typed> {
    if let Some((at, ty)) = columns.computed.and_then(|all| all.find(expr)) {
        let scalar = Scalar::Column(columns.types.len() + at);
        return Some(Typed { scalar, kind: Some(ty.kind) });
    }
    match expr {
        Expr::Alias(alias) => convert(&alias.expr, columns),
        Expr::Column(column) => {
            let at = columns.names.iter().position(|name| *name == column.name)?;
            Some(Typed { scalar: Scalar::Column(at), kind: Some(columns.types[at].kind) })
        }
        Expr::Literal(value, _) => {
            let value = value_of(value)?;
            let kind = crate::cast::kind_of(&value.as_datum());
            Some(Typed { scalar: Scalar::Const(value), kind })
        }
        Expr::Placeholder(placeholder) => {
            let number: usize = placeholder.id.strip_prefix('$')?.parse().ok()?;
            let kind = placeholder
                .field
                .as_ref()
                .and_then(|field| col_type_of(field.data_type()))
                .map(|ty| ty.kind);
            Some(Typed { scalar: Scalar::Param(number.checked_sub(1)?), kind })
        }
        Expr::BinaryExpr(binary) => convert_binary(binary, columns),
        Expr::Not(inner) => boolean(Scalar::Not(Box::new(condition(inner, columns)?))),
        Expr::IsNull(inner) => boolean(Scalar::IsNull(Box::new(convert(inner, columns)?.scalar))),
        Expr::IsNotNull(inner) => {
            let null = Scalar::IsNull(Box::new(convert(inner, columns)?.scalar));
            boolean(Scalar::Not(Box::new(null)))
        }
        Expr::Between(between) => {
            let low = compare(CmpOp::Ge, &between.expr, &between.low, columns)?;
            let high = compare(CmpOp::Le, &between.expr, &between.high, columns)?;
            negated(Scalar::and(low, high), between.negated)
        }
        Expr::InList(list) => {
            let value = convert(&list.expr, columns)?;
            let items: Option<Vec<Scalar>> = list
                .list
                .iter()
                .map(|item| {
                    let item = convert(item, columns)?;
                    comparable(value.kind, item.kind).then_some(item.scalar)
                })
                .collect();
            negated(Scalar::In(Box::new(value.scalar), items?), list.negated)
        }
        Expr::Like(like) if like.escape_char.is_none() => {
            let (text, pattern) = (convert(&like.expr, columns)?, convert(&like.pattern, columns)?);
            // What an outer column is for a row can be a NULL, whose type is not seen.
            if [&text, &pattern].iter().any(|side| side.scalar == Scalar::Const(Value::Null)) {
                return boolean(Scalar::Const(Value::Null));
            }
            if !text.kind?.is_text() || pattern.kind.is_some_and(|kind| !kind.is_text()) {
                return None;
            }
            let sides = Box::new((text.scalar, pattern.scalar));
            negated(Scalar::Like(sides, like.case_insensitive), like.negated)
        }
        Expr::Negative(inner) => negative(inner, columns),
        Expr::Cast(cast) => {
            let inner = convert(&cast.expr, columns)?;
            let ty = col_type_of(cast.field.data_type())?;
            // Text that is no number is DataFusion's error to word; decimals have its rounding.
            if inner.kind.is_some_and(TypeKind::is_text) && !ty.kind.is_text() {
                return None;
            }
            let scalar = Scalar::Cast(Box::new(inner.scalar), ty, CastMode::Explicit);
            Some(Typed { scalar, kind: Some(ty.kind) })
        }
        Expr::ScalarFunction(call) if matches!(call.name(), "$any_eq" | "$all_ne") => {
            let [value, array] = &call.args[..] else { return None };
            negated(among(value, array, columns)?, call.name() == "$all_ne")
        }
        Expr::ScalarFunction(call) if is_negation(call.name()) => {
            negative(call.args.first()?, columns)
        }
        // What the plan takes the blanks at the end off, beside a value of char(n).
        Expr::ScalarFunction(call) if call.name() == cast_name(ColType::new(TypeKind::Char)) => {
            let inner = convert(call.args.first()?, columns)?;
            let ty = ColType::new(TypeKind::Char);
            if inner.kind.is_some_and(|kind| !kind.is_text()) {
                return None;
            }
            let scalar = Scalar::Cast(Box::new(inner.scalar), ty, CastMode::Explicit);
            Some(Typed { scalar, kind: Some(TypeKind::Char) })
        }
        Expr::ScalarFunction(call) => {
            let [left, right] = &call.args[..] else { return known_call(call, columns) };
            let sides = || Some((convert(left, columns)?, convert(right, columns)?));
            if let Some((op, scale)) = numeric_of(call.func.name()) {
                let ty = ColType::numeric(NUMERIC_PRECISION, scale);
                let known = known_number(op, sides()?)?;
                let scalar = Scalar::Cast(Box::new(known.scalar), ty, CastMode::Explicit);
                return Some(Typed { scalar, kind: known.kind });
            }
            let Some((op, kind)) = arithmetic_of(call.func.name()) else {
                return known_call(call, columns);
            };
            let (left, right) = sides()?;
            arith(op, kind, left, right)
        }
        _ => None,
    }
}

/// The type of a NULL, also with signs before it.
fn kind_of_null(expr: &Expr) -> Option<TypeKind> {
    match expr {
        Expr::Literal(value, _) => col_type_of(&value.data_type()).map(|ty| ty.kind),
        Expr::Alias(alias) => kind_of_null(&alias.expr),
        Expr::Negative(inner) => kind_of_null(inner),
        Expr::ScalarFunction(call) if is_negation(call.name()) => {
            call.args.first().and_then(kind_of_null)
        }
        _ => None,
    }
}

/// A function of what is the same for all rows, such as `now() - interval '1 hour'`: what a column
/// is compared with. Not where the digits of a number depend on how a plan works it out.
fn known_call(call: &ScalarFunction, columns: &Columns<'_>) -> Option<Typed> {
    let args = call.args.iter().map(|arg| convert(arg, columns));
    let args: Vec<Typed> = args.collect::<Option<_>>()?;
    let digits = |kind| {
        matches!(kind, TypeKind::Numeric | TypeKind::Float4 | TypeKind::Array | TypeKind::Char)
    };
    if !args.iter().all(|arg| arg.scalar.is_row_free()) {
        return None;
    }
    // What a parameter is for a run can be a NULL, which is to be taken as the parameter was.
    let kind_of = |(typed, expr): (&Typed, &Expr)| typed.kind.or_else(|| kind_of_null(expr));
    let kinds: Vec<Option<TypeKind>> = args.iter().zip(&call.args).map(kind_of).collect();
    let scalars: Vec<Scalar> = args.into_iter().map(|arg| arg.scalar).collect();
    let (scalar, kind) = match RowCall::of(call, &kinds) {
        Some((planned, returns)) => (Scalar::Planned(planned, scalars), returns.kind),
        None => {
            let called = planned(call.name(), &kinds)?;
            let as_taken = |(at, scalar): (usize, Scalar)| match called.arg(at) {
                Some(kind) if kinds[at] != Some(kind) => {
                    let ty = ColType::new(kind);
                    Scalar::Cast(Box::new(scalar), ty, CastMode::Explicit)
                }
                _ => scalar,
            };
            let scalars = scalars.into_iter().enumerate().map(as_taken).collect();
            (Scalar::Call(called, scalars), called.returns().kind)
        }
    };
    (!digits(kind)).then_some(Typed { scalar, kind: Some(kind) })
}

fn negative(inner: &Expr, columns: &Columns<'_>) -> Option<Typed> {
    let inner = convert(inner, columns)?;
    Some(Typed { scalar: Scalar::Neg(Box::new(inner.scalar)), kind: inner.kind })
}

/// `value = ANY (array)` of an array that is the same for all rows.
fn among(value: &Expr, array: &Expr, columns: &Columns<'_>) -> Option<Scalar> {
    let ty = match array {
        Expr::Literal(literal, _) => literal.data_type(),
        Expr::Placeholder(placeholder) => placeholder.field.as_ref()?.data_type().clone(),
        Expr::Cast(cast) => cast.field.data_type().clone(),
        _ => return None,
    };
    let element = col_type_of(&ty)?.element()?;
    let value = convert(unwidened(value, columns), columns)?;
    let array = convert(array, columns)?.scalar;
    let same = value.kind.is_some() && comparable(value.kind, Some(element.kind));
    (same && array.is_row_free())
        .then(|| Scalar::In(Box::new(value.scalar), vec![Scalar::Each(Box::new(array))]))
}

fn negated(scalar: Scalar, negated: bool) -> Option<Typed> {
    boolean(if negated { Scalar::Not(Box::new(scalar)) } else { scalar })
}

fn condition(expr: &Expr, columns: &Columns<'_>) -> Option<Scalar> {
    let typed = convert(expr, columns)?;
    matches!(typed.kind, Some(TypeKind::Bool) | None).then_some(typed.scalar)
}

fn arith(op: Op, kind: TypeKind, left: Typed, right: Typed) -> Option<Typed> {
    let scalar = Scalar::Arith(op, kind, Box::new((left.scalar, right.scalar)));
    Some(Typed { scalar, kind: Some(kind) })
}

/// A calculation with decimals that is the same for all rows: what a column is compared with.
fn known_number(op: Op, (left, right): (Typed, Typed)) -> Option<Typed> {
    // How many digits a quotient has depends on zeros that constants have got on the way here.
    if op == Op::Div {
        return None;
    }
    // What a parameter is for a run can be a NULL, whose type is not seen.
    if [&left, &right].iter().any(|side| side.scalar == Scalar::Const(Value::Null)) {
        return Some(Typed { scalar: Scalar::Const(Value::Null), kind: Some(TypeKind::Numeric) });
    }
    let is_decimal = common_number(left.kind?, right.kind?)? == TypeKind::Numeric;
    let same = left.scalar.is_row_free() && right.scalar.is_row_free();
    if is_decimal && same { arith(op, TypeKind::Numeric, left, right) } else { None }
}

fn convert_binary(binary: &BinaryExpr, columns: &Columns<'_>) -> Option<Typed> {
    let op = match binary.op {
        // Those of other numbers are functions.
        Operator::Plus | Operator::Minus => {
            let op = if binary.op == Operator::Plus { Op::Add } else { Op::Sub };
            let sides = (convert(&binary.left, columns)?, convert(&binary.right, columns)?);
            return known_number(op, sides);
        }
        Operator::And | Operator::Or => {
            let sides =
                Box::new((condition(&binary.left, columns)?, condition(&binary.right, columns)?));
            let and = binary.op == Operator::And;
            return boolean(if and { Scalar::And(sides) } else { either(*sides) });
        }
        Operator::Eq => CmpOp::Eq,
        Operator::NotEq => CmpOp::Ne,
        Operator::Lt => CmpOp::Lt,
        Operator::LtEq => CmpOp::Le,
        Operator::Gt => CmpOp::Gt,
        Operator::GtEq => CmpOp::Ge,
        _ => return None,
    };
    boolean(compare(op, &binary.left, &binary.right, columns)?)
}

/// Either condition; a list where both say what one column equals: short lists arrive as OR.
fn either((left, right): (Scalar, Scalar)) -> Scalar {
    let alternatives = |side: &Scalar| match side {
        Scalar::Compare(CmpOp::Eq, sides) => match &**sides {
            (Scalar::Column(at), other) | (other, Scalar::Column(at)) if other.is_row_free() => {
                Some((*at, vec![other.clone()]))
            }
            _ => None,
        },
        Scalar::In(value, list) => match **value {
            Scalar::Column(at) if list.iter().all(Scalar::is_row_free) => Some((at, list.clone())),
            _ => None,
        },
        _ => None,
    };
    if let (Some((a, mut list)), Some((b, more))) = (alternatives(&left), alternatives(&right))
        && a == b
    {
        list.extend(more);
        return Scalar::In(Box::new(Scalar::Column(a)), list);
    }
    Scalar::Or(Box::new((left, right)))
}

fn compare(op: CmpOp, left: &Expr, right: &Expr, columns: &Columns<'_>) -> Option<Scalar> {
    let (left, right) = (unwidened(left, columns), unwidened(right, columns));
    let (left, right) = (convert(left, columns)?, convert(right, columns)?);
    comparable(left.kind, right.kind).then(|| {
        let (left, right) = (left.scalar, right.scalar);
        let by_day = by_day(op, &left, &right, columns)
            .or_else(|| by_day(op.flipped(), &right, &left, columns));
        by_day.unwrap_or_else(|| Scalar::compare(op, left, right))
    })
}

/// A comparison of a date column, made a timestamp, with a known instant as one with a date: what
/// `date + interval` yields is a timestamp. `None`: it is none, or no date is equal. Where the
/// instant is only known when the plan runs, with the day that it is in beside it.
fn by_day(op: CmpOp, left: &Scalar, right: &Scalar, columns: &Columns<'_>) -> Option<Scalar> {
    const DAY_US: i64 = 86_400_000_000;
    let Scalar::Cast(column, to, _) = left else { return None };
    let Scalar::Column(at) = &**column else { return None };
    let Scalar::Const(Value::Timestamp(us)) = right else {
        let of_date = columns.types.get(*at).is_some_and(|ty| ty.kind == TypeKind::Date);
        let bound = match op {
            CmpOp::Eq => CmpOp::Eq,
            CmpOp::Lt | CmpOp::Le => CmpOp::Le,
            CmpOp::Gt | CmpOp::Ge => CmpOp::Ge,
            CmpOp::Ne => return None,
        };
        if to.kind != TypeKind::Timestamp
            || !of_date
            || !right.is_row_free()
            || matches!(right, Scalar::Const(_))
        {
            return None;
        }
        let day = ColType::new(TypeKind::Date);
        let day = Scalar::Cast(Box::new(right.clone()), day, CastMode::Explicit);
        let by_day = Scalar::compare(bound, Scalar::Column(*at), day);
        return Some(Scalar::and(by_day, Scalar::compare(op, left.clone(), right.clone())));
    };
    let infinite = matches!(*us, i64::MIN | i64::MAX);
    if to.kind != TypeKind::Timestamp || columns.types[*at].kind != TypeKind::Date || infinite {
        return None;
    }
    let day = i32::try_from(us.div_euclid(DAY_US)).ok()?;
    let op = match (op, us.rem_euclid(DAY_US) == 0) {
        (op, true) => op,
        (CmpOp::Lt | CmpOp::Le, false) => CmpOp::Le,
        (CmpOp::Gt | CmpOp::Ge, false) => CmpOp::Gt,
        (CmpOp::Eq | CmpOp::Ne, false) => return None,
    };
    Some(Scalar::compare(op, Scalar::Column(*at), Scalar::Const(Value::Date(day))))
}

/// A column, or such an expression, of integers without the cast to a wider type that the other
/// side asked for: integers compare by value here, and only a bare column can bound an index.
fn unwidened<'a>(expr: &'a Expr, columns: &Columns<'_>) -> &'a Expr {
    let Expr::Cast(cast) = expr else { return expr };
    let bytes = |kind| match kind {
        TypeKind::Int2 => Some(2),
        TypeKind::Int4 => Some(4),
        TypeKind::Int8 => Some(8),
        _ => None,
    };
    let own = match &*cast.expr {
        Expr::Column(column) => {
            let at = columns.names.iter().position(|name| *name == column.name);
            at.map(|at| columns.types[at])
        }
        other => columns.computed.and_then(|all| all.find(other)).map(|(_, ty)| ty),
    };
    let from = own.and_then(|ty| bytes(ty.kind));
    let to = col_type_of(cast.field.data_type()).and_then(|ty| bytes(ty.kind));
    match (from, to) {
        (Some(from), Some(to)) if from <= to => &cast.expr,
        _ => expr,
    }
}

fn comparable(a: Option<TypeKind>, b: Option<TypeKind>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => {
            a == b || (a.is_text() && b.is_text()) || common_number(a, b).is_some()
        }
        _ => true,
    }
}

/// A constant of DataFusion's as ours.
#[must_use]
pub fn value_of(value: &ScalarValue) -> Option<Value> {
    Some(match value {
        v if v.is_null() => Value::Null,
        ScalarValue::Boolean(Some(v)) => Value::Bool(*v),
        ScalarValue::Int8(Some(v)) => Value::Int2(i16::from(*v)),
        ScalarValue::Int16(Some(v)) => Value::Int2(*v),
        ScalarValue::Int32(Some(v)) => Value::Int4(*v),
        ScalarValue::Int64(Some(v)) => Value::Int8(*v),
        ScalarValue::UInt64(Some(v)) => Value::Numeric(i128::from(*v), 0),
        ScalarValue::Float32(Some(v)) => Value::Float4(*v),
        ScalarValue::Float64(Some(v)) => Value::Float8(*v),
        ScalarValue::Decimal128(Some(v), _, scale) => {
            Value::Numeric(*v, u8::try_from(*scale).ok()?)
        }
        ScalarValue::Utf8(Some(v))
        | ScalarValue::LargeUtf8(Some(v))
        | ScalarValue::Utf8View(Some(v)) => Value::Text(v.as_str().into()),
        ScalarValue::Binary(Some(v)) => Value::Bytea(v.as_slice().into()),
        ScalarValue::LargeBinary(Some(v)) => Value::Json(std::str::from_utf8(v).ok()?.into()),
        ScalarValue::BinaryView(Some(v)) => Value::Jsonb(std::str::from_utf8(v).ok()?.into()),
        ScalarValue::List(_) | ScalarValue::LargeList(_) => {
            let array = value.to_array().ok()?;
            let field = Field::new("", array.data_type().clone(), true);
            ColumnReader::new(&array, &field).ok()?.get(0).to_value()
        }
        ScalarValue::FixedSizeBinary(16, Some(v)) => Value::Uuid(v.as_slice().try_into().ok()?),
        ScalarValue::Time64Microsecond(Some(v)) => Value::Time(*v),
        ScalarValue::IntervalMonthDayNano(Some(v)) => Value::Interval(interval_of(*v)),
        ScalarValue::Date32(Some(v)) => Value::Date(day_of_plan(*v)),
        ScalarValue::TimestampMicrosecond(Some(v), zone) => timestamp(*v, zone.is_some())?,
        ScalarValue::TimestampNanosecond(Some(v), zone) => {
            timestamp(v.div_euclid(1000), zone.is_some())?
        }
        ScalarValue::TimestampMillisecond(Some(v), zone) => {
            timestamp(v.checked_mul(1000)?, zone.is_some())?
        }
        ScalarValue::TimestampSecond(Some(v), Some(zone)) if enum_of_zone(zone).is_some() => {
            Value::Enum(EnumValue { of: enum_of_zone(zone)?, position: *v })
        }
        ScalarValue::TimestampSecond(Some(v), zone) => {
            timestamp(v.checked_mul(1_000_000)?, zone.is_some())?
        }
        _ => return None,
    })
}

fn timestamp(unix_us: i64, zoned: bool) -> Option<Value> {
    let us = us_of_plan(unix_us);
    Some(if zoned { Value::Timestamptz(us) } else { Value::Timestamp(us) })
}

/// A value of ours as a constant of DataFusion's, of the type that plans have for it.
#[must_use]
pub fn scalar_value_of(value: &Value, ty: ColType) -> ScalarValue {
    use crate::types::{FREE_NUMERIC_SCALE, NUMERIC_PRECISION, UTC, arrow_type};
    match value {
        Value::Null => ScalarValue::try_from(&arrow_type(ty)).unwrap_or(ScalarValue::Null),
        Value::Bool(v) => ScalarValue::Boolean(Some(*v)),
        Value::Int2(v) => ScalarValue::Int16(Some(*v)),
        Value::Int4(v) => ScalarValue::Int32(Some(*v)),
        Value::Int8(v) => ScalarValue::Int64(Some(*v)),
        Value::Float4(v) => ScalarValue::Float32(Some(*v)),
        Value::Float8(v) => ScalarValue::Float64(Some(*v)),
        Value::Numeric(v, scale) => {
            let to = (*scale).max(if ty.precision_scale().is_some() { *scale } else { 0 });
            let to = if ty.precision_scale().is_none() { FREE_NUMERIC_SCALE.max(to) } else { to };
            match crate::arith::rescale(*v, *scale, to) {
                Some(v) => ScalarValue::Decimal128(Some(v), NUMERIC_PRECISION, to.cast_signed()),
                None => ScalarValue::Decimal128(Some(*v), NUMERIC_PRECISION, scale.cast_signed()),
            }
        }
        Value::Text(v) => ScalarValue::Utf8(Some(v.to_string())),
        Value::Bytea(v) => ScalarValue::Binary(Some(v.to_vec())),
        Value::Date(v) => ScalarValue::Date32(Some(plan_day(*v))),
        Value::Uuid(v) => ScalarValue::FixedSizeBinary(16, Some(v.to_vec())),
        Value::Time(v) => ScalarValue::Time64Microsecond(Some(*v)),
        // A time part of more than 292 years has no counterpart.
        Value::Interval(v) => ScalarValue::IntervalMonthDayNano(arrow_interval(*v).ok()),
        Value::Json(v) => ScalarValue::LargeBinary(Some(v.as_bytes().to_vec())),
        Value::Array(bytes) => {
            // Of the elements' own type, whatever was asked for: plans know arrays by that.
            let ty = ColType::array_of(kernel::row::ArrayView::new(bytes).kind());
            single_column(ty, &arrow_type(ty), std::slice::from_ref(value))
                .ok()
                .and_then(|array| ScalarValue::try_from_array(&array, 0).ok())
                .unwrap_or(ScalarValue::Null)
        }
        Value::Enum(v) => match arrow_type(v.ty()) {
            DataType::Timestamp(_, zone) => ScalarValue::TimestampSecond(Some(v.position), zone),
            _ => ScalarValue::Null,
        },
        Value::Jsonb(v) => ScalarValue::BinaryView(Some(v.as_bytes().to_vec())),
        Value::Timestamp(v) => ScalarValue::TimestampMicrosecond(Some(plan_us(*v)), None),
        Value::Timestamptz(v) => {
            ScalarValue::TimestampMicrosecond(Some(plan_us(*v)), Some(UTC.into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::expr::Placeholder;
    use datafusion::prelude::{cast, col};
    use std::sync::Arc;

    /// `id >= $1` as the library writes it where `$1` is of that type and `id` is int4.
    fn at_least(ty: DataType) -> Scalar {
        let field = Some(Arc::new(Field::new("", ty.clone(), true)));
        let param = Expr::Placeholder(Placeholder::new_with_field("$1".to_owned(), field));
        let types = [ColType::new(TypeKind::Int4)];
        let columns = Columns { names: &["id"], types: &types, computed: None };
        convert_filter(&cast(col("id"), ty).gt_eq(param), &columns).expect("a filter of ours")
    }

    #[test]
    fn a_calculation_with_a_free_number_bounds_the_column() {
        let number = DataType::Decimal128(38, 15);
        let field = Some(Arc::new(Field::new("", number.clone(), true)));
        let param = Expr::Placeholder(Placeholder::new_with_field("$1".to_owned(), field));
        let two = Expr::Literal(ScalarValue::Decimal128(Some(2), 20, 0), None);
        let types = [ColType::new(TypeKind::Numeric)];
        let columns = Columns { names: &["n"], types: &types, computed: None };
        let product = crate::functions::numeric_function(Op::Mul, 15);
        let product = product.call(vec![param.clone(), two.clone()]);
        for known in [param.clone() + two.clone(), param - two.clone(), product] {
            let filter = convert_filter(&col("n").eq(known), &columns).expect("a filter of ours");
            let Scalar::Compare(CmpOp::Eq, sides) = filter else { panic!("{filter:?}") };
            assert!(sides.0 == Scalar::Column(0) && sides.1.is_row_free(), "{sides:?}");
        }
        // What differs from row to row is left to the library.
        assert!(convert_filter(&(col("n") + two.clone()).eq(two), &columns).is_none());
    }

    #[test]
    fn a_parameter_of_a_wider_type_bounds_the_column() {
        let bare = |scalar: &Scalar| {
            matches!(scalar, Scalar::Compare(CmpOp::Ge, sides)
                if matches!(**sides, (Scalar::Column(0), Scalar::Param(0))))
        };
        assert!(bare(&at_least(DataType::Int64)));
        assert!(!bare(&at_least(DataType::Int16)), "a cast that can fail stays");
        assert!(!bare(&at_least(DataType::Float64)), "numbers of other kinds have rules of theirs");
    }
}
