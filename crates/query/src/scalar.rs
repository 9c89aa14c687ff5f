//! Expressions over one row, evaluated on values as they are stored.
//!
//! They serve where Arrow would cost more than the work itself: statements on single rows, filters
//! inside scans,
//! defaults, and the second look at a row that another transaction has changed. What they promise:
//! SQL's three-valued
//! logic and PostgreSQL's errors. What they must never do: wait or have effects; sequences and the
//! clock arrive
//! as parameters.

use crate::arith::{self, Op};
use crate::cast::{CastMode, cast, to_f32, to_f64, to_numeric};
use crate::error::{PgError, Result};
use crate::functions::RowCall;
use crate::functions::by_row::Called;
use crate::interruptible::by_row;
use crate::json::Json;
use crate::memory::results_fit;
use crate::wire::{FormatEnv, to_text};
pub use kernel::dict::Comparison as CmpOp;
use kernel::row::{ArrayView, ColType, Datum, RowView, TypeKind, Value, encode_key};
use std::cmp::Ordering;

/// An expression.
#[derive(Clone, PartialEq, Debug)]
pub enum Scalar {
    Const(Value),
    /// A parameter of the execution, from 0.
    Param(usize),
    /// A column of the row, from 0.
    Column(usize),
    /// Both sides are brought to the kind first.
    Arith(Op, TypeKind, Box<(Scalar, Scalar)>),
    Neg(Box<Scalar>),
    Compare(CmpOp, Box<(Scalar, Scalar)>),
    And(Box<(Scalar, Scalar)>),
    Or(Box<(Scalar, Scalar)>),
    Not(Box<Scalar>),
    IsNull(Box<Scalar>),
    /// `IN` a list.
    In(Box<Scalar>, Vec<Scalar>),
    /// In the list of IN only: the elements of an array, each of them an item. A NULL in place of
    /// the array is one item.
    Each(Box<Scalar>),
    Cast(Box<Scalar>, ColType, CastMode),
    Concat(Box<(Scalar, Scalar)>),
    Coalesce(Vec<Scalar>),
    /// `LIKE`; the flag says that case does not matter.
    Like(Box<(Scalar, Scalar)>, bool),
    /// A function; the arguments have the types that it takes.
    Call(Called, Vec<Scalar>),
    /// The same of a function as plans have it; of what is the same for all rows.
    Planned(RowCall, Vec<Scalar>),
}

/// What an expression sees.
#[derive(Clone, Copy)]
pub struct EvalContext<'a> {
    pub row: Option<RowView<'a>>,
    pub params: &'a [Value],
    pub env: &'a FormatEnv,
}

/// A result: borrowed where possible.
#[derive(Clone, Debug)]
pub enum Val<'a> {
    Ref(Datum<'a>),
    Own(Value),
}

impl Val<'_> {
    #[must_use]
    pub fn datum(&self) -> Datum<'_> {
        match self {
            Val::Ref(datum) => *datum,
            Val::Own(value) => value.as_datum(),
        }
    }

    #[must_use]
    pub fn into_value(self) -> Value {
        match self {
            Val::Ref(datum) => datum.to_value(),
            Val::Own(value) => value,
        }
    }
}

const NULL: Val<'static> = Val::Ref(Datum::Null);

impl Scalar {
    #[must_use]
    pub fn compare(op: CmpOp, left: Scalar, right: Scalar) -> Scalar {
        Scalar::Compare(op, Box::new((left, right)))
    }

    #[must_use]
    pub fn and(left: Scalar, right: Scalar) -> Scalar {
        Scalar::And(Box::new((left, right)))
    }

    /// # Errors
    /// Those of the operations in it.
    ///
    /// # Panics
    /// If a column is asked for where there is no row: a bug of the binder.
    pub fn eval<'a>(&'a self, cx: &EvalContext<'a>) -> Result<Val<'a>> {
        Ok(match self {
            Scalar::Const(value) => Val::Ref(value.as_datum()),
            Scalar::Param(i) => match cx.params.get(*i) {
                Some(value) => Val::Ref(value.as_datum()),
                None => {
                    let message = format!("there is no parameter ${}", i + 1);
                    return Err(PgError::new("42P02", message));
                }
            },
            Scalar::Column(i) => Val::Ref(cx.row.as_ref().expect("a row to read from").get(*i)),
            Scalar::Arith(op, kind, sides) => {
                let (left, right) = (sides.0.eval(cx)?, sides.1.eval(cx)?);
                arithmetic(*op, *kind, &left.datum(), &right.datum())?
            }
            Scalar::Neg(inner) => negate(&inner.eval(cx)?.datum())?,
            Scalar::Compare(op, sides) => {
                let (left, right) = (sides.0.eval(cx)?, sides.1.eval(cx)?);
                match compare(&left.datum(), &right.datum())? {
                    None => NULL,
                    Some(order) => Val::Ref(Datum::Bool(op.holds(order))),
                }
            }
            Scalar::And(sides) => match sides.0.truth(cx)? {
                Some(false) => Val::Ref(Datum::Bool(false)),
                Some(true) => truth_val(sides.1.truth(cx)?),
                None => truth_val(sides.1.truth(cx)?.filter(|right| !right)),
            },
            Scalar::Or(sides) => match sides.0.truth(cx)? {
                Some(true) => Val::Ref(Datum::Bool(true)),
                Some(false) => truth_val(sides.1.truth(cx)?),
                None => truth_val(sides.1.truth(cx)?.filter(|right| *right)),
            },
            Scalar::Not(inner) => truth_val(inner.truth(cx)?.map(|v| !v)),
            Scalar::IsNull(inner) => Val::Ref(Datum::Bool(inner.eval(cx)?.datum().is_null())),
            Scalar::In(inner, list) => truth_val(in_list(&inner.eval(cx)?.datum(), list, cx)?),
            Scalar::Each(array) => array.eval(cx)?,
            Scalar::Cast(inner, ty, mode) => {
                Val::Own(cast(&inner.eval(cx)?.datum(), *ty, *mode, cx.env)?)
            }
            Scalar::Concat(sides) => {
                let (left, right) = (sides.0.eval(cx)?, sides.1.eval(cx)?);
                concat(&left.datum(), &right.datum(), cx.env)?
            }
            Scalar::Coalesce(all) => {
                for one in all {
                    let value = one.eval(cx)?;
                    if !value.datum().is_null() {
                        return Ok(value);
                    }
                }
                NULL
            }
            Scalar::Like(sides, fold_case) => {
                let (text, pattern) = (sides.0.eval(cx)?, sides.1.eval(cx)?);
                match (text.datum(), pattern.datum()) {
                    (Datum::Text(text), Datum::Text(pattern)) => {
                        Val::Ref(Datum::Bool(like(text, pattern, *fold_case)?))
                    }
                    _ => NULL,
                }
            }
            Scalar::Call(called, args) => match &args[..] {
                [one] => Val::Own(called.call(&[one.eval(cx)?.datum()], cx.env)?),
                all => {
                    let values = all.iter().map(|one| one.eval(cx)).collect::<Result<Vec<_>>>()?;
                    let datums: Vec<Datum<'_>> = values.iter().map(Val::datum).collect();
                    Val::Own(called.call(&datums, cx.env)?)
                }
            },
            Scalar::Planned(planned, args) => {
                let values = args.iter().map(|one| one.eval(cx)).collect::<Result<Vec<_>>>()?;
                let datums: Vec<Datum<'_>> = values.iter().map(Val::datum).collect();
                Val::Own(by_row(cx.env.value_bytes, || planned.call(&datums))?)
            }
        })
    }

    /// The value as a condition; `None` for NULL.
    ///
    /// # Errors
    /// 42804 if it is no boolean, else those of the operations in it.
    pub fn truth(&self, cx: &EvalContext<'_>) -> Result<Option<bool>> {
        match self.eval(cx)?.datum() {
            Datum::Bool(v) => Ok(Some(v)),
            Datum::Null => Ok(None),
            _ => Err(PgError::new("42804", "argument of a condition must be type boolean")),
        }
    }

    /// Calls `visit` on this expression and all in it.
    pub fn walk(&self, visit: &mut impl FnMut(&Scalar)) {
        visit(self);
        match self {
            Scalar::Const(_) | Scalar::Param(_) | Scalar::Column(_) => {}
            Scalar::Neg(a)
            | Scalar::Not(a)
            | Scalar::IsNull(a)
            | Scalar::Each(a)
            | Scalar::Cast(a, ..) => a.walk(visit),
            Scalar::Arith(_, _, sides)
            | Scalar::Compare(_, sides)
            | Scalar::And(sides)
            | Scalar::Or(sides)
            | Scalar::Concat(sides)
            | Scalar::Like(sides, _) => {
                sides.0.walk(visit);
                sides.1.walk(visit);
            }
            Scalar::In(a, list) => {
                a.walk(visit);
                list.iter().for_each(|one| one.walk(visit));
            }
            Scalar::Coalesce(all) | Scalar::Call(_, all) | Scalar::Planned(_, all) => {
                all.iter().for_each(|one| one.walk(visit));
            }
        }
    }

    /// Whether it reads no column.
    #[must_use]
    pub fn is_row_free(&self) -> bool {
        let mut free = true;
        self.walk(&mut |one| free &= !matches!(one, Scalar::Column(_)));
        free
    }

    /// Splits a conjunction into its parts.
    pub fn conjuncts<'a>(&'a self, out: &mut Vec<&'a Scalar>) {
        if let Scalar::And(sides) = self {
            sides.0.conjuncts(out);
            sides.1.conjuncts(out);
        } else {
            out.push(self);
        }
    }
}

fn truth_val(truth: Option<bool>) -> Val<'static> {
    truth.map_or(NULL, |v| Val::Ref(Datum::Bool(v)))
}

fn in_list(value: &Datum<'_>, list: &[Scalar], cx: &EvalContext<'_>) -> Result<Option<bool>> {
    let mut unknown = false;
    let mut is_equal = |item: &Datum<'_>| {
        let order = compare(value, item)?;
        unknown |= order.is_none();
        Ok::<bool, PgError>(order == Some(Ordering::Equal))
    };
    for one in list {
        let item = one.eval(cx)?;
        match (one, item.datum()) {
            (Scalar::Each(_), Datum::Array(bytes)) => {
                for item in ArrayView::new(bytes).iter() {
                    if is_equal(&item)? {
                        return Ok(Some(true));
                    }
                }
            }
            (_, item) => {
                if is_equal(&item)? {
                    return Ok(Some(true));
                }
            }
        }
    }
    Ok(if unknown { None } else { Some(false) })
}

/// How many items a list has; of an array that is not known yet `guess`.
pub(crate) fn item_count(list: &[Scalar], guess: usize) -> usize {
    let count = |one: &Scalar| match one {
        Scalar::Each(array) => match &**array {
            Scalar::Const(Value::Array(bytes)) => ArrayView::new(bytes).len(),
            Scalar::Const(_) => 1,
            _ => guess,
        },
        _ => 1,
    };
    list.iter().map(count).sum()
}

/// The values of a list's items; `None` if one cannot be worked out without a row.
pub(crate) fn item_values(list: &[Scalar], cx: &EvalContext<'_>) -> Option<Vec<Value>> {
    let mut values = Vec::with_capacity(item_count(list, 0));
    for one in list {
        if !one.is_row_free() {
            return None;
        }
        let item = one.eval(cx).ok()?;
        match (one, item.datum()) {
            (Scalar::Each(_), Datum::Array(bytes)) => {
                values.extend(ArrayView::new(bytes).iter().map(|item| item.to_value()));
            }
            _ => values.push(item.into_value()),
        }
    }
    Some(values)
}

fn concat(left: &Datum<'_>, right: &Datum<'_>, env: &FormatEnv) -> Result<Val<'static>> {
    if left.is_null() || right.is_null() {
        return Ok(NULL);
    }
    let shown = |datum: &Datum<'_>| match datum {
        Datum::Bool(v) => v.to_string(),
        other => to_text(other, env),
    };
    let (mut text, right) = (shown(left), shown(right));
    by_row(env.value_bytes, || results_fit(text.len().saturating_add(right.len())))?;
    text.push_str(&right);
    Ok(Val::Own(Value::Text(text.into_boxed_str())))
}

/// Order of two values; `None` if one is NULL. Numbers of different types compare by value.
///
/// # Errors
/// 42883 if the types do not compare.
pub fn compare(a: &Datum<'_>, b: &Datum<'_>) -> Result<Option<Ordering>> {
    Ok(Some(match (a, b) {
        (Datum::Null, _) | (_, Datum::Null) => return Ok(None),
        (Datum::Int4(a), Datum::Int4(b)) | (Datum::Date(a), Datum::Date(b)) => a.cmp(b),
        (Datum::Int8(a), Datum::Int8(b))
        | (Datum::Timestamp(a), Datum::Timestamp(b))
        | (Datum::Timestamptz(a), Datum::Timestamptz(b))
        | (Datum::Time(a), Datum::Time(b)) => a.cmp(b),
        (Datum::Uuid(a), Datum::Uuid(b)) => a.cmp(b),
        (Datum::Enum(a), Datum::Enum(b)) => a.position.cmp(&b.position),
        (Datum::Interval(a), Datum::Interval(b)) => a.span_us().cmp(&b.span_us()),
        (Datum::Jsonb(a), Datum::Jsonb(b)) => Json::parse(a)?.compare(&Json::parse(b)?),
        (Datum::Array(a), Datum::Array(b)) => crate::array::compare_arrays(a, b)?,
        (Datum::Text(a), Datum::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Datum::Bool(a), Datum::Bool(b)) => a.cmp(b),
        (Datum::Bytea(a), Datum::Bytea(b)) => a.cmp(b),
        (Datum::Numeric(a, scale_a), Datum::Numeric(b, scale_b)) if scale_a == scale_b => a.cmp(b),
        (a, b) => match (as_i64(a), as_i64(b)) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => compare_numbers(a, b)?,
        },
    }))
}

fn as_i64(datum: &Datum<'_>) -> Option<i64> {
    match datum {
        Datum::Int2(v) => Some(i64::from(*v)),
        Datum::Int4(v) => Some(i64::from(*v)),
        Datum::Int8(v) => Some(*v),
        _ => None,
    }
}

const fn is_float(datum: &Datum<'_>) -> bool {
    matches!(datum, Datum::Float4(_) | Datum::Float8(_))
}

fn compare_numbers(a: &Datum<'_>, b: &Datum<'_>) -> Result<Ordering> {
    let is_number =
        |d: &Datum<'_>| as_i64(d).is_some() || is_float(d) || matches!(d, Datum::Numeric(..));
    if !is_number(a) || !is_number(b) {
        return Err(PgError::new("42883", "operator does not exist for these types"));
    }
    if !is_float(a) && !is_float(b) {
        return Ok(compare_numerics(to_numeric(a)?, to_numeric(b)?));
    }
    // The key encoding has SQL's order: NaN last.
    let (mut key_a, mut key_b) = (Vec::with_capacity(32), Vec::with_capacity(32));
    encode_key(&[Datum::Float8(to_f64(a)?)], &mut key_a);
    encode_key(&[Datum::Float8(to_f64(b)?)], &mut key_b);
    Ok(key_a.cmp(&key_b))
}

fn compare_numerics((a, scale_a): (i128, u8), (b, scale_b): (i128, u8)) -> Ordering {
    let common = scale_a.max(scale_b);
    let scaled = |v: i128, scale: u8| {
        10i128.checked_pow(u32::from(common - scale)).and_then(|factor| v.checked_mul(factor))
    };
    match (scaled(a, scale_a), scaled(b, scale_b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        // Too large with the other's digits after the point: only one of them can be.
        (None, _) if a != 0 => a.cmp(&0),
        (_, None) if b != 0 => 0.cmp(&b),
        _ => a.cmp(&b),
    }
}

/// An operation on two values brought to `kind`.
///
/// # Errors
/// 22003, 22012.
pub fn arithmetic(op: Op, kind: TypeKind, a: &Datum<'_>, b: &Datum<'_>) -> Result<Val<'static>> {
    if a.is_null() || b.is_null() {
        return Ok(NULL);
    }
    let mismatch = || PgError::new("42883", "operator does not exist for these types");
    let datum = match kind {
        TypeKind::Int2 | TypeKind::Int4 | TypeKind::Int8 => {
            let (a, b) = (as_i64(a).ok_or_else(mismatch)?, as_i64(b).ok_or_else(mismatch)?);
            integer(op, kind, a, b)?
        }
        TypeKind::Float4 => Datum::Float4(arith::float4(op, to_f32(a)?, to_f32(b)?)?),
        TypeKind::Float8 => Datum::Float8(arith::float8(op, to_f64(a)?, to_f64(b)?)?),
        TypeKind::Numeric => {
            let (v, scale) = arith::numeric(op, to_numeric(a)?, to_numeric(b)?)?;
            Datum::Numeric(v, scale)
        }
        _ => return Err(mismatch()),
    };
    Ok(Val::Ref(datum))
}

fn integer(op: Op, kind: TypeKind, a: i64, b: i64) -> Result<Datum<'static>> {
    let out = arith::int8(op, a, b);
    Ok(match kind {
        TypeKind::Int2 => {
            Datum::Int2(i16::try_from(out?).map_err(|_| PgError::out_of_range("smallint"))?)
        }
        TypeKind::Int4 => {
            Datum::Int4(i32::try_from(out?).map_err(|_| PgError::out_of_range("integer"))?)
        }
        _ => Datum::Int8(out?),
    })
}

fn negate(datum: &Datum<'_>) -> Result<Val<'static>> {
    let overflow = PgError::out_of_range;
    Ok(Val::Ref(match datum {
        Datum::Null => Datum::Null,
        Datum::Int2(v) => Datum::Int2(v.checked_neg().ok_or_else(|| overflow("smallint"))?),
        Datum::Int4(v) => Datum::Int4(v.checked_neg().ok_or_else(|| overflow("integer"))?),
        Datum::Int8(v) => Datum::Int8(v.checked_neg().ok_or_else(|| overflow("bigint"))?),
        Datum::Float4(v) => Datum::Float4(-v),
        Datum::Float8(v) => Datum::Float8(-v),
        Datum::Numeric(v, scale) => Datum::Numeric(-v, *scale),
        Datum::Interval(v) => Datum::Interval(crate::interval::negate(*v)?),
        _ => return Err(PgError::new("42883", "operator does not exist: - for this type")),
    }))
}

/// The kind in which two numbers are computed with. Real is only that with its like; with any other
/// number it is double precision, as PostgreSQL's operators are.
#[must_use]
pub fn common_number(a: TypeKind, b: TypeKind) -> Option<TypeKind> {
    if a == TypeKind::Float4 && b == a {
        return Some(a);
    }
    let rank = |kind| match kind {
        TypeKind::Int2 => Some(0),
        TypeKind::Int4 => Some(1),
        TypeKind::Int8 => Some(2),
        TypeKind::Numeric => Some(3),
        TypeKind::Float4 | TypeKind::Float8 => Some(4),
        _ => None,
    };
    Some(match if rank(a)? >= rank(b)? { a } else { b } {
        TypeKind::Float4 => TypeKind::Float8,
        kind => kind,
    })
}

/// `LIKE` with `\` as escape.
///
/// # Errors
/// 22025 if the pattern ends with the escape.
pub fn like(text: &str, pattern: &str, fold_case: bool) -> Result<bool> {
    let fold = |c: char| {
        if fold_case { c.to_lowercase().next().unwrap_or(c) } else { c }
    };
    let text: Vec<char> = text.chars().map(fold).collect();
    let mut parts: Vec<Part> = Vec::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        parts.push(match c {
            '%' => Part::Any,
            '_' => Part::One,
            '\\' => match chars.next() {
                Some(c) => Part::Char(fold(c)),
                None => {
                    return Err(PgError::new(
                        "22025",
                        "LIKE pattern must not end with escape character",
                    ));
                }
            },
            c => Part::Char(fold(c)),
        });
    }
    Ok(like_match(&text, &parts))
}

#[derive(Clone, Copy, PartialEq)]
enum Part {
    Any,
    One,
    Char(char),
}

/// Matches with one point to return to: the last `%`. Linear in most cases, quadratic at worst.
fn like_match(text: &[char], parts: &[Part]) -> bool {
    let (mut t, mut p) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while t < text.len() {
        match parts.get(p) {
            Some(Part::Any) => {
                back = Some((t, p));
                p += 1;
            }
            Some(Part::One) => {
                t += 1;
                p += 1;
            }
            Some(Part::Char(c)) if *c == text[t] => {
                t += 1;
                p += 1;
            }
            _ => match back {
                Some((from, at)) => {
                    back = Some((from + 1, at));
                    t = from + 1;
                    p = at + 1;
                }
                None => return false,
            },
        }
    }
    parts[p..].iter().all(|part| *part == Part::Any)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn eval(scalar: &Scalar, params: &[Value]) -> Result<Value> {
        let env = FormatEnv::plain();
        let cx = EvalContext { row: None, params, env: &env };
        scalar.eval(&cx).map(Val::into_value)
    }

    #[test]
    fn numerics_compare_by_value_whatever_their_digits() {
        let order = |a, b| compare_numerics(a, b);
        assert_eq!(order((150, 2), (15, 1)), Ordering::Equal);
        assert_eq!(order((151, 2), (15, 1)), Ordering::Greater);
        assert_eq!(order((-151, 2), (-15, 1)), Ordering::Less);
        assert_eq!(order((0, 30), (0, 0)), Ordering::Equal);
        // Where one of them cannot be written with the other's digits.
        assert_eq!(order((10i128.pow(37), 0), (5, 20)), Ordering::Greater);
        assert_eq!(order((-10i128.pow(37), 0), (5, 20)), Ordering::Less);
        assert_eq!(order((5, 20), (10i128.pow(37), 0)), Ordering::Less);
        assert_eq!(order((1, 0), (0, 60)), Ordering::Greater);
        assert_eq!(order((0, 0), (-1, 60)), Ordering::Greater);
    }

    #[test]
    fn nulls_follow_three_valued_logic() {
        let (t, f, n) = (
            Scalar::Const(Value::Bool(true)),
            Scalar::Const(Value::Bool(false)),
            Scalar::Const(Value::Null),
        );
        for (a, b, and, or) in [
            (&t, &n, Value::Null, Value::Bool(true)),
            (&n, &t, Value::Null, Value::Bool(true)),
            (&f, &n, Value::Bool(false), Value::Null),
            (&n, &f, Value::Bool(false), Value::Null),
            (&n, &n, Value::Null, Value::Null),
        ] {
            let sides = || Box::new((a.clone(), b.clone()));
            assert_eq!(eval(&Scalar::And(sides()), &[]).unwrap(), and);
            assert_eq!(eval(&Scalar::Or(sides()), &[]).unwrap(), or);
        }
        let in_list = Scalar::In(
            Box::new(Scalar::Const(Value::Int4(1))),
            vec![n.clone(), Scalar::Const(Value::Int4(2))],
        );
        assert_eq!(eval(&in_list, &[]).unwrap(), Value::Null);
    }

    #[test]
    fn numbers_of_different_types_compare_by_value() {
        let cmp = |a: Datum<'_>, b: Datum<'_>| compare(&a, &b).unwrap().unwrap();
        assert_eq!(cmp(Datum::Int4(1), Datum::Int8(1)), Ordering::Equal);
        assert_eq!(cmp(Datum::Numeric(150, 2), Datum::Numeric(15, 1)), Ordering::Equal);
        assert_eq!(cmp(Datum::Int8(2), Datum::Numeric(15, 1)), Ordering::Greater);
        assert_eq!(cmp(Datum::Float8(f64::NAN), Datum::Int4(1)), Ordering::Greater);
        assert!(compare(&Datum::Int4(1), &Datum::Text("1")).is_err());
    }

    #[test]
    fn arithmetic_overflows_in_its_own_type() {
        let sum = Scalar::Arith(
            Op::Add,
            TypeKind::Int4,
            Box::new((Scalar::Param(0), Scalar::Const(Value::Int4(1)))),
        );
        assert_eq!(eval(&sum, &[Value::Int4(41)]).unwrap(), Value::Int4(42));
        assert_eq!(eval(&sum, &[Value::Int4(i32::MAX)]).unwrap_err().code, "22003");
        assert_eq!(eval(&sum, &[Value::Null]).unwrap(), Value::Null);
        assert_eq!(eval(&sum, &[]).unwrap_err().code, "42P02");
    }

    #[test]
    fn like_matches() {
        for (text, pattern, want) in [
            ("abc", "abc", true),
            ("abc", "a%", true),
            ("abc", "%c", true),
            ("abc", "a_c", true),
            ("abc", "a_", false),
            ("a%c", "a\\%c", true),
            ("abc", "a\\%c", false),
            ("", "%", true),
            ("aXbXc", "%X%c", true),
        ] {
            assert_eq!(like(text, pattern, false).unwrap(), want, "{text} like {pattern}");
        }
        assert!(like("ABC", "a%", true).unwrap());
        assert_eq!(like("a", "\\", false).unwrap_err().code, "22025");
    }
}
