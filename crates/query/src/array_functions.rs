//! Operators and functions of arrays.
//!
//! What it promises: PostgreSQL's results for arrays of one dimension; an untyped literal beside an
//! array is read as one, beside an element as that. Left out: several dimensions.

use crate::array::{array_value, literal_items, parse_array};
use crate::cast::{CastMode, cast, kind_of, parse_text};
use crate::error::{PgError, Result};
use crate::functions::{ReturnsFn, RowFunction};
use crate::scalar::{CmpOp, compare, like};
use crate::types::{col_type_of, oid, pg_type_of_field};
use crate::wire::{FormatEnv, to_text};
use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::ScalarValue;
use kernel::row::{ArrayView, ColType, Datum, TypeKind, Value};

const BOOL: ColType = ColType::new(TypeKind::Bool);
const INT4: ColType = ColType::new(TypeKind::Int4);
const TEXT: ColType = ColType::new(TypeKind::Text);
const TEXTS: ColType = ColType::array_of(TypeKind::Text);

fn no_function(name: &str) -> PgError {
    PgError::new("42883", format!("function {name} does not exist for these types"))
}

fn no_operator() -> PgError {
    PgError::new("42883", "operator does not exist for these types")
}

/// The type of the first argument that is an array.
fn array_of_args(fields: &[FieldRef], _: &[Option<&ScalarValue>]) -> Result<ColType> {
    fields
        .iter()
        .filter_map(|f| col_type_of(f.data_type()))
        .find(|ty| ty.kind == TypeKind::Array)
        .ok_or_else(no_operator)
}

/// The type of the first argument's elements.
pub(crate) fn element_of_args(fields: &[FieldRef], _: &[Option<&ScalarValue>]) -> Result<ColType> {
    let first = fields.first().and_then(|f| col_type_of(f.data_type()));
    // A name is a row of characters.
    if fields.first().is_some_and(|f| pg_type_of_field(f).oid == oid::NAME) {
        return Ok(TEXT);
    }
    let first =
        first.ok_or_else(|| PgError::new("42804", "cannot subscript a value of no type"))?;
    if first.kind == TypeKind::Jsonb {
        return Ok(first);
    }
    first.element().ok_or_else(|| {
        let ty = first.without_limit();
        let text = format!("cannot subscript type {ty} because it does not support subscripting");
        PgError::new("42804", text)
    })
}

fn int4(n: usize) -> Value {
    i32::try_from(n).map_or(Value::Null, Value::Int4)
}

pub(crate) fn whole(datum: &Datum<'_>) -> Result<i64> {
    match datum {
        Datum::Int2(v) => Ok(i64::from(*v)),
        Datum::Int4(v) => Ok(i64::from(*v)),
        Datum::Int8(v) => Ok(*v),
        Datum::Text(text) => {
            text.trim().parse().map_err(|_| PgError::invalid_text("integer", text))
        }
        _ => Err(PgError::new("42804", "array subscript must have type integer")),
    }
}

/// The elements of an array, or of a literal that stands for one of this kind.
fn elements(datum: &Datum<'_>, kind: TypeKind, env: &FormatEnv) -> Result<Vec<Value>> {
    let owned;
    let bytes = match datum {
        Datum::Null => return Ok(Vec::new()),
        Datum::Array(bytes) => bytes,
        Datum::Text(text) => {
            owned = parse_array(text, ColType::array_of(kind), env)?;
            match &owned {
                Value::Array(bytes) => &**bytes,
                _ => return Err(no_operator()),
            }
        }
        _ => return Err(no_operator()),
    };
    Ok(ArrayView::new(bytes).iter().map(|element| element.to_value()).collect())
}

fn view<'a>(datum: &Datum<'a>, name: &str) -> Result<ArrayView<'a>> {
    match datum {
        Datum::Array(bytes) => Ok(ArrayView::new(bytes)),
        _ => Err(no_function(name)),
    }
}

/// The kind of the elements of whichever is an array.
fn kind_of_arrays(args: &[Datum<'_>]) -> Result<TypeKind> {
    let found = args.iter().find_map(|arg| match arg {
        Datum::Array(bytes) => Some(ArrayView::new(bytes).kind()),
        _ => None,
    });
    found.ok_or_else(no_operator)
}

/// A single value as an element of this kind.
fn element(datum: &Datum<'_>, kind: TypeKind, env: &FormatEnv) -> Result<Value> {
    match datum {
        Datum::Text(text) => parse_text(text, ColType::new(kind), env),
        other => cast(other, ColType::new(kind), CastMode::Assignment, env),
    }
}

fn same(a: &Value, b: &Value) -> Result<bool> {
    Ok(match (a.is_null(), b.is_null()) {
        (true, true) => true,
        (false, false) => compare(&a.as_datum(), &b.as_datum())? == Some(std::cmp::Ordering::Equal),
        _ => false,
    })
}

/// Both sides of an operator between arrays.
fn sides(args: &[Datum<'_>], env: &FormatEnv) -> Result<(Vec<Value>, Vec<Value>)> {
    let kind = kind_of_arrays(args)?;
    Ok((elements(&args[0], kind, env)?, elements(&args[1], kind, env)?))
}

/// Whether `all` has each of `some`; NULL is in no array here.
fn contains(all: &[Value], some: &[Value]) -> Result<bool> {
    for wanted in some {
        let mut found = false;
        for one in all {
            found |= !wanted.is_null() && same(one, wanted)?;
        }
        if !found {
            return Ok(false);
        }
    }
    Ok(true)
}

/// `@>` between arrays.
///
/// # Errors
/// 42883 if there is no array.
pub fn contains_function(args: &[Datum<'_>], env: &FormatEnv) -> Result<Value> {
    let (all, some) = sides(args, env)?;
    contains(&all, &some).map(Value::Bool)
}

/// `||` where a side is an array of elements of this kind.
#[must_use]
pub fn concat_function(kind: TypeKind, env: FormatEnv) -> RowFunction {
    RowFunction::new("$array_concat", Some(2), TEXTS, false, move |args| {
        let arrays = |datum: &Datum<'_>| matches!(datum, Datum::Array(_));
        let (left, right) = (&args[0], &args[1]);
        match (left, right) {
            (Datum::Null, Datum::Null) => return Ok(Value::Null),
            (Datum::Null, array) | (array, Datum::Null) if arrays(array) => {
                return Ok(array.to_value());
            }
            _ => {}
        }
        let list = |datum: &Datum<'_>| match datum {
            Datum::Array(_) | Datum::Text(_) if kind_of(datum) != Some(kind) => {
                elements(datum, kind, &env)
            }
            // Beside an array an untyped literal is one, but text beside texts is an element.
            Datum::Text(text) if text.starts_with('{') => elements(datum, kind, &env),
            // A NULL beside an element is an array that is not there.
            Datum::Null => Ok(Vec::new()),
            other => Ok(vec![element(other, kind, &env)?]),
        };
        let mut all = list(left)?;
        all.extend(list(right)?);
        Ok(array_value(ColType::new(kind), &all))
    })
    .returning(array_of_args)
}

/// `x op ANY (array)` and `x op ALL (array)` under these names.
const QUANTIFIED: [(&str, CmpOp); 6] = [
    ("eq", CmpOp::Eq),
    ("ne", CmpOp::Ne),
    ("lt", CmpOp::Lt),
    ("le", CmpOp::Le),
    ("gt", CmpOp::Gt),
    ("ge", CmpOp::Ge),
];

fn quantified(args: &[Datum<'_>], op: CmpOp, any: bool, env: &FormatEnv) -> Result<Value> {
    let (value, array) = (&args[0], &args[1]);
    let vector;
    let array = match array {
        // Vectors of the catalog are written without braces.
        Datum::Text(text) if !text.trim_start().starts_with('{') => {
            let items: Vec<&str> = text.split_whitespace().collect();
            vector = format!("{{{}}}", items.join(","));
            &Datum::Text(&vector)
        }
        other => other,
    };
    let kind = match (array, kind_of(value)) {
        (Datum::Null, _) => return Ok(Value::Null),
        (Datum::Array(bytes), _) => ArrayView::new(bytes).kind(),
        (_, kind) => kind.unwrap_or(TypeKind::Text),
    };
    let all = elements(array, kind, env)?;
    if all.is_empty() {
        return Ok(Value::Bool(!any));
    }
    let read;
    let value = match value {
        Datum::Text(text) if !kind.is_text() => {
            read = parse_text(text, ColType::new(kind), env)?;
            read.as_datum()
        }
        other => *other,
    };
    let mut unknown = false;
    for one in &all {
        match compare(&value, &one.as_datum())? {
            Some(order) if op.holds(order) == any => return Ok(Value::Bool(any)),
            Some(_) => {}
            None => unknown = true,
        }
    }
    Ok(if unknown { Value::Null } else { Value::Bool(!any) })
}

fn operators(env: FormatEnv) -> Vec<RowFunction> {
    let mut all = vec![
        RowFunction::new("$array_overlap", Some(2), BOOL, true, move |args| {
            let (left, right) = sides(args, &env)?;
            let mut found = false;
            for one in &left {
                found |= contains(&right, std::slice::from_ref(one))?;
            }
            Ok(Value::Bool(found))
        }),
        RowFunction::new("$array_get", Some(2), TEXT, true, |args| {
            if let Datum::Jsonb(_) = args[0] {
                return crate::subscripts::jsonb_part(&args[0], &args[1]);
            }
            if let Datum::Text(name) = args[0] {
                let at = usize::try_from(whole(&args[1])?).ok();
                let found = at.and_then(|at| name.chars().nth(at));
                return Ok(found.map_or(Value::Null, |c| Value::Text(c.to_string().into())));
            }
            let (array, at) = (view(&args[0], "subscript")?, whole(&args[1])?);
            let at = usize::try_from(at).ok().and_then(|at| at.checked_sub(1));
            let found = at.filter(|at| *at < array.len()).map(|at| array.get(at).to_value());
            Ok(found.unwrap_or(Value::Null))
        })
        .returning(element_of_args),
        RowFunction::new("$array_or_empty", Some(1), TEXTS, false, |args| {
            Ok(if args[0].is_null() { array_value(TEXT, &[]) } else { args[0].to_value() })
        })
        .returning(array_of_args),
        RowFunction::new("$array_slice", Some(3), TEXTS, true, |args| {
            let array = view(&args[0], "slice")?;
            let count = i64::try_from(array.len()).unwrap_or(i64::MAX);
            let (from, to) = (whole(&args[1])?.max(1), whole(&args[2])?.min(count));
            let all: Vec<Value> = (from..=to)
                .filter_map(|at| usize::try_from(at - 1).ok())
                .map(|at| array.get(at).to_value())
                .collect();
            Ok(array_value(ColType::new(array.kind()), &all))
        })
        .returning(array_of_args),
    ];
    for (name, fold_case) in [("$any_like", false), ("$any_ilike", true)] {
        all.push(RowFunction::new(name, Some(2), BOOL, true, move |args| {
            let Datum::Text(text) = args[0] else { return Err(no_function("LIKE ANY")) };
            let mut unknown = false;
            for pattern in view(&args[1], "LIKE ANY")?.iter() {
                match pattern {
                    Datum::Text(pattern) if like(text, pattern, fold_case)? => {
                        return Ok(Value::Bool(true));
                    }
                    Datum::Null => unknown = true,
                    _ => {}
                }
            }
            Ok(if unknown { Value::Null } else { Value::Bool(false) })
        }));
    }
    for (name, _) in QUANTIFIED {
        for word in ["any", "all"] {
            let name = format!("${word}_{name}");
            if !KNOWN_ARRAYS.contains(&&*name) {
                all.push(quantified_function(&name, env));
            }
        }
    }
    all
}

/// Those of them that look known arrays through by order.
pub(crate) const KNOWN_ARRAYS: [&str; 2] = ["$any_eq", "$all_ne"];

/// `x op ANY (array)` or `x op ALL (array)` by its name.
///
/// # Panics
/// If there is none of that name.
pub(crate) fn quantified_function(name: &str, env: FormatEnv) -> RowFunction {
    let any = name.starts_with("$any_");
    let found = QUANTIFIED.iter().find(|(op, _)| name.ends_with(&format!("_{op}")));
    let (_, op) = *found.expect("an operator");
    RowFunction::new(name, Some(2), BOOL, false, move |args| quantified(args, op, any, &env))
}

fn dimension(args: &[Datum<'_>]) -> Result<bool> {
    Ok(whole(&args[1])? == 1)
}

fn position(args: &[Datum<'_>], env: &FormatEnv) -> Result<Vec<usize>> {
    let array = view(&args[0], "array_position")?;
    let wanted = element(&args[1], array.kind(), env)?;
    let mut found = Vec::new();
    for (at, one) in array.iter().enumerate() {
        if same(&one.to_value(), &wanted)? {
            found.push(at + 1);
        }
    }
    Ok(found)
}

fn to_string(args: &[Datum<'_>], env: &FormatEnv) -> Result<Value> {
    let (Datum::Array(bytes), Datum::Text(separator)) = (&args[0], &args[1]) else {
        if args[..2].iter().any(Datum::is_null) {
            return Ok(Value::Null);
        }
        return match (&args[0], &args[1]) {
            // Arrays of the catalog are text.
            (Datum::Text(text), Datum::Text(separator)) => {
                let items: Vec<String> = literal_items(text)?.into_iter().flatten().collect();
                Ok(Value::Text(items.join(separator).into()))
            }
            _ => Err(no_function("array_to_string")),
        };
    };
    let null = match args.get(2) {
        Some(Datum::Text(text)) => Some(*text),
        _ => None,
    };
    Ok(Value::Text(texts(bytes, null, env).join(separator).into()))
}

/// The elements as texts; what stands for those that are NULL, if anything does.
fn texts(array: &[u8], null: Option<&str>, env: &FormatEnv) -> Vec<String> {
    let text = |one: Datum<'_>| match one {
        Datum::Null => null.map(str::to_owned),
        Datum::Bool(v) => Some(if v { "t" } else { "f" }.to_owned()),
        other => Some(to_text(&other, env)),
    };
    ArrayView::new(array).iter().filter_map(text).collect()
}

/// The field's `listagg` that is cut where it is too long: of an array, what stands between its
/// elements, what in place of the rest, and whether it is told how many are left out.
pub const LISTED: &str = "$listed";
/// The field's longest text.
const LISTED_BYTES_MAX: usize = 4000;
/// What the field keeps free for the number of values that are left out.
const LISTED_COUNT_BYTES: usize = 24;

fn listed(args: &[Datum<'_>], env: &FormatEnv) -> Result<Value> {
    let [array, separator, filler, counted] = args else { return Err(no_function(LISTED)) };
    let items = match array {
        Datum::Array(bytes) => texts(bytes, None, env),
        Datum::Null => Vec::new(),
        _ => return Err(no_function(LISTED)),
    };
    let word = |datum: &Datum<'_>| match datum {
        Datum::Text(text) => (*text).to_owned(),
        _ => String::new(),
    };
    let count = matches!(counted, Datum::Bool(true));
    Ok(match items.is_empty() {
        true => Value::Null,
        false => Value::Text(cut(&items, &word(separator), &word(filler), count).into()),
    })
}

/// All of the values, or the first of them that leave room for what tells that there are more.
fn cut(items: &[String], separator: &str, filler: &str, counted: bool) -> String {
    let all: usize = items.iter().map(|item| item.len() + separator.len()).sum();
    if all <= LISTED_BYTES_MAX + separator.len() {
        return items.join(separator);
    }
    let count = if counted { LISTED_COUNT_BYTES } else { 0 };
    let room = LISTED_BYTES_MAX.saturating_sub(filler.len() + count);
    let (mut kept, mut bytes) = (0, 0);
    for item in items {
        bytes += item.len() + separator.len();
        if bytes > room {
            break;
        }
        kept += 1;
    }
    let mut out = String::with_capacity(LISTED_BYTES_MAX);
    for item in &items[..kept] {
        out.push_str(item);
        out.push_str(separator);
    }
    out.push_str(filler);
    if counted {
        out.push_str(&format!("({})", items.len() - kept));
    }
    out
}

/// The subscripts of an array that counts from `first`, as an array.
///
/// # Errors
/// 42883 for what is no array.
pub(crate) fn subscripts(args: &[Datum<'_>], first: i32) -> Result<Value> {
    let (array, dimension) = match args {
        [array, dimension] | [array, dimension, _] => (array, whole(dimension)?),
        _ => return Err(no_function("generate_subscripts")),
    };
    let reverse = matches!(args.get(2), Some(Datum::Bool(true)));
    let count = view(array, "generate_subscripts")?.len();
    let count = if dimension == 1 { i32::try_from(count).unwrap_or(i32::MAX) } else { 0 };
    let mut all: Vec<Value> = (first..count.saturating_add(first)).map(Value::Int4).collect();
    if reverse {
        all.reverse();
    }
    Ok(array_value(INT4, &all))
}

fn size_functions() -> Vec<RowFunction> {
    let by_dimension = |name: &'static str, of: fn(usize) -> usize| {
        RowFunction::new(name, Some(2), INT4, true, move |args| {
            let array = view(&args[0], name)?;
            Ok(if dimension(args)? && !array.is_empty() {
                int4(of(array.len()))
            } else {
                Value::Null
            })
        })
    };
    vec![
        by_dimension("array_length", |count| count),
        by_dimension("array_upper", |count| count),
        by_dimension("array_lower", |_| 1),
        RowFunction::new("cardinality", Some(1), INT4, true, |args| {
            Ok(int4(view(&args[0], "cardinality")?.len()))
        }),
        // The numbers of the rows that `unnest` makes of these arrays.
        RowFunction::new(
            "$array_ordinals",
            None,
            ColType::array_of(TypeKind::Int8),
            false,
            |args| {
                let mut longest = 0;
                for arg in args.iter().filter(|arg| !arg.is_null()) {
                    longest = longest.max(view(arg, "unnest")?.len());
                }
                let count = i64::try_from(longest).unwrap_or(0);
                let all: Vec<Value> = (1..=count).map(Value::Int8).collect();
                Ok(array_value(ColType::new(TypeKind::Int8), &all))
            },
        ),
        RowFunction::new(
            "$generate_subscripts",
            None,
            ColType::array_of(TypeKind::Int4),
            true,
            |args| subscripts(args, 1),
        ),
        RowFunction::new("array_ndims", Some(1), INT4, true, |args| {
            Ok(if view(&args[0], "array_ndims")?.is_empty() { Value::Null } else { Value::Int4(1) })
        }),
        RowFunction::new("array_dims", Some(1), TEXT, true, |args| {
            let count = view(&args[0], "array_dims")?.len();
            Ok(if count == 0 { Value::Null } else { Value::Text(format!("[1:{count}]").into()) })
        }),
    ]
}

/// All of them, for a session in the time zone of `env`.
pub fn functions(env: FormatEnv) -> Vec<RowFunction> {
    let as_array: ReturnsFn = array_of_args;
    let changed = |name: &'static str,
                   count: usize,
                   change: fn(Vec<Value>, &[Value]) -> Result<Vec<Value>>| {
        RowFunction::new(name, Some(count), TEXTS, false, move |args| {
            if args[0].is_null() {
                return Ok(Value::Null);
            }
            let kind = view(&args[0], name)?.kind();
            let rest: Result<Vec<Value>> =
                args[1..].iter().map(|arg| element(arg, kind, &env)).collect();
            let all = change(elements(&args[0], kind, &env)?, &rest?)?;
            Ok(array_value(ColType::new(kind), &all))
        })
        .returning(as_array)
    };
    let mut all = operators(env);
    all.extend(size_functions());
    all.push(changed("array_remove", 2, |mut all, rest| {
        let mut kept = Vec::with_capacity(all.len());
        for one in all.drain(..) {
            if !same(&one, &rest[0])? {
                kept.push(one);
            }
        }
        Ok(kept)
    }));
    all.push(changed("array_replace", 3, |mut all, rest| {
        for one in &mut all {
            if same(one, &rest[0])? {
                *one = rest[1].clone();
            }
        }
        Ok(all)
    }));
    for (name, array_at) in [("array_append", 0), ("array_prepend", 1)] {
        let function = RowFunction::new(name, Some(2), TEXTS, false, move |args| {
            let (array, one) = (&args[array_at], &args[1 - array_at]);
            let kind = match array {
                Datum::Array(bytes) => ArrayView::new(bytes).kind(),
                _ => kind_of(one).unwrap_or(TypeKind::Text),
            };
            let mut all = elements(array, kind, &env)?;
            all.insert(if array_at == 0 { all.len() } else { 0 }, element(one, kind, &env)?);
            Ok(array_value(ColType::new(kind), &all))
        });
        all.push(function.returning(as_array));
    }
    all.push(
        RowFunction::new("array_cat", Some(2), TEXTS, false, move |args| {
            if args.iter().all(Datum::is_null) {
                return Ok(Value::Null);
            }
            let kind = kind_of_arrays(args)?;
            let mut all = elements(&args[0], kind, &env)?;
            all.extend(elements(&args[1], kind, &env)?);
            Ok(array_value(ColType::new(kind), &all))
        })
        .returning(as_array),
    );
    all.push(RowFunction::new("array_position", None, INT4, false, move |args| {
        let from = match args {
            [Datum::Null, ..] => return Ok(Value::Null),
            [_, _] => 1,
            [_, _, from] => whole(from)?,
            _ => return Err(no_function("array_position")),
        };
        let found = position(args, &env)?;
        let found = found.into_iter().find(|at| i64::try_from(*at).is_ok_and(|at| at >= from));
        Ok(found.map_or(Value::Null, int4))
    }));
    let positions = ColType::array_of(TypeKind::Int4);
    all.push(RowFunction::new("array_positions", Some(2), positions, false, move |args| {
        if args[0].is_null() {
            return Ok(Value::Null);
        }
        let found: Vec<Value> = position(args, &env)?.into_iter().map(int4).collect();
        Ok(array_value(INT4, &found))
    }));
    all.push(
        RowFunction::new("trim_array", Some(2), TEXTS, true, |args| {
            let array = view(&args[0], "trim_array")?;
            let cut = usize::try_from(whole(&args[1])?).ok().filter(|cut| *cut <= array.len());
            let Some(cut) = cut else {
                let message =
                    format!("number of elements to trim must be between 0 and {}", array.len());
                return Err(PgError::new("2202E", message));
            };
            let kept: Vec<Value> =
                array.iter().take(array.len() - cut).map(|one| one.to_value()).collect();
            Ok(array_value(ColType::new(array.kind()), &kept))
        })
        .returning(as_array),
    );
    all.push(
        RowFunction::new("array_fill", Some(2), TEXTS, false, move |args| {
            let Datum::Array(counts) = &args[1] else {
                let message = "dimension array or low bound array cannot be null";
                return Err(PgError::new("22004", message));
            };
            let counts = ArrayView::new(counts);
            let count = match counts.len() {
                0 => 0,
                1 => whole(&counts.get(0))?,
                _ => return Err(PgError::unsupported("an array of several dimensions")),
            };
            // Of a NULL the column knows the type.
            let kind = kind_of(&args[0]).unwrap_or(TypeKind::Text);
            let too_many = || {
                let message = "array size exceeds the maximum allowed (134217727)";
                PgError::new("54000", message)
            };
            let count = usize::try_from(count).ok().filter(|n| *n <= 134_217_727);
            let count = count.ok_or_else(too_many)?;
            crate::memory::results_fit(count.saturating_mul(size_of::<Value>()))?;
            let all = vec![args[0].to_value(); count];
            Ok(array_value(ColType::new(kind), &all))
        })
        .returning(|fields, _| {
            let first = fields.first().and_then(|f| col_type_of(f.data_type()));
            first.map(|ty| ColType::array_of(ty.kind)).ok_or_else(no_operator)
        }),
    );
    all.push(RowFunction::new("array_to_string", None, TEXT, false, move |args| {
        if !matches!(args.len(), 2 | 3) {
            return Err(no_function("array_to_string"));
        }
        to_string(args, &env)
    }));
    all.push(RowFunction::new(LISTED, Some(4), TEXT, false, move |args| listed(args, &env)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_cut_between_their_values() {
        let short: Vec<String> = ["a", "b", "c"].map(str::to_owned).to_vec();
        assert_eq!(cut(&short, ",", "...", true), "a,b,c");
        // 4000 bytes are no more than fit: the last value has no separator behind it.
        let full = vec!["x".repeat(7); 500];
        assert_eq!(cut(&full, ",", "...", true).len(), 3999);
        let wide = vec!["x".repeat(9); 500];
        let told = cut(&wide, ",", "...", true);
        // 397 values with separators are 3970 bytes, and leave 27 for the rest.
        assert!(told.ends_with("x,...(103)"), "{told}");
        assert_eq!(told.len(), 3970 + "...(103)".len());
        let untold = cut(&wide, ", ", "~", false);
        assert_eq!(untold.len(), 363 * 11 + 1);
        assert_eq!(cut(&["y".repeat(5000)], ",", "...", true), "...(1)");
    }
}
