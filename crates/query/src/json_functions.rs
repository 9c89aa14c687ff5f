//! Operators and functions of json and jsonb.
//!
//! What it promises: a part of a json value is given as it was written; what is made as jsonb is in
//! normal form. Left out: functions that give several rows, paths of SQL/JSON.

use crate::error::{PgError, Result};
use crate::functions::{ReturnsFn, RowFunction};
use crate::json::{Json, Parts, parts, push_string};
use crate::rows::Form;
use crate::types::col_type_of;
use crate::wire::{FormatEnv, to_text};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use kernel::row::{ArrayView, ColType, Datum, TypeKind, Value};

const TEXT: ColType = ColType::new(TypeKind::Text);
const BOOL: ColType = ColType::new(TypeKind::Bool);
const INT4: ColType = ColType::new(TypeKind::Int4);
const JSON: ColType = ColType::new(TypeKind::Json);
const JSONB: ColType = ColType::new(TypeKind::Jsonb);

/// The text of a json or jsonb, or of a literal that stands for one.
fn document<'a>(datum: &Datum<'a>) -> Result<&'a str> {
    match datum {
        Datum::Json(text) | Datum::Jsonb(text) | Datum::Text(text) => Ok(text),
        _ => Err(no_operator()),
    }
}

fn no_operator() -> PgError {
    PgError::new("42883", "operator or function does not exist for these types")
}

fn jsonb_of(datum: &Datum<'_>) -> Result<Json> {
    match datum {
        Datum::Jsonb(text) => Json::parse(text),
        Datum::Text(text) => Json::parse(text)?.normal(),
        _ => Err(no_operator()),
    }
}

fn jsonb(value: &Json) -> Value {
    Value::Jsonb(value.to_text().into())
}

/// The type of the first argument, which is json or jsonb.
fn as_first(fields: &[FieldRef], _: &[Option<&ScalarValue>]) -> Result<ColType> {
    let found = fields.first().and_then(|f| col_type_of(f.data_type()));
    found.filter(|ty| matches!(ty.kind, TypeKind::Json | TypeKind::Jsonb)).ok_or_else(no_operator)
}

/// The type of a function that wants a row, or an array, as its first argument.
fn wants(name: &str, fields: &[FieldRef], wanted: fn(&DataType) -> bool) -> Result<ColType> {
    let ty = fields.first().map_or(&DataType::Null, |field| field.data_type());
    if wanted(ty) && fields.len() <= 2 {
        return Ok(JSON);
    }
    let shown = |field: &FieldRef| match field.data_type() {
        DataType::Struct(_) => "record".to_owned(),
        DataType::Null => "unknown".to_owned(),
        ty => col_type_of(ty).map_or_else(|| ty.to_string(), |ty| ty.without_limit().to_string()),
    };
    let all: Vec<String> = fields.iter().map(shown).collect();
    let text = format!("function {name}({}) does not exist", all.join(", "));
    Err(PgError::new("42883", text))
}

fn row_wanted(fields: &[FieldRef], _: &[Option<&ScalarValue>]) -> Result<ColType> {
    wants("row_to_json", fields, |ty| matches!(ty, DataType::Struct(_)))
}

fn array_wanted(fields: &[FieldRef], _: &[Option<&ScalarValue>]) -> Result<ColType> {
    wants("array_to_json", fields, |ty| matches!(ty, DataType::List(_) | DataType::LargeList(_)))
}

/// A document with each of its parts in a line of its own, if that is asked for.
fn in_lines(text: String, lines: Option<&Datum<'_>>) -> Result<Value> {
    const BETWEEN: &str = ",\n ";
    if !matches!(lines, Some(Datum::Bool(true))) {
        return Ok(Value::Json(text.into()));
    }
    let all = match parts(&text)? {
        Parts::Scalar(_) => return Ok(Value::Json(text.as_str().into())),
        Parts::Array(all) => format!("[{}]", all.join(BETWEEN)),
        Parts::Object(members) => {
            let member = |(key, value): (String, &str)| {
                let mut out = String::new();
                push_string(&key, &mut out);
                format!("{out}:{value}")
            };
            let all: Vec<String> = members.into_iter().map(member).collect();
            format!("{{{}}}", all.join(BETWEEN))
        }
    };
    Ok(Value::Json(all.into()))
}

/// `row_to_json` and `array_to_json`.
fn whole_to_json(env: FormatEnv) -> Vec<RowFunction> {
    let both: [(&str, ReturnsFn); 2] =
        [("row_to_json", row_wanted), ("array_to_json", array_wanted)];
    let function = |(name, wanted): (&str, ReturnsFn)| {
        RowFunction::new(name, None, JSON, true, move |args| {
            in_lines(json_of(&args[0], &env)?, args.get(1))
        })
        .returning(wanted)
        .taking_rows(Form::Json, env)
    };
    both.into_iter().map(function).collect()
}

/// A value of SQL as JSON text.
pub(crate) fn json_of(datum: &Datum<'_>, env: &FormatEnv) -> Result<String> {
    let mut out = String::new();
    match datum {
        Datum::Null => out.push_str("null"),
        Datum::Bool(v) => out.push_str(if *v { "true" } else { "false" }),
        Datum::Json(text) | Datum::Jsonb(text) => out.push_str(text),
        Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) | Datum::Numeric(..) => {
            out = to_text(datum, env);
        }
        Datum::Float4(v) if v.is_finite() => out = to_text(datum, env),
        Datum::Float8(v) if v.is_finite() => out = to_text(datum, env),
        Datum::Timestamp(_) | Datum::Timestamptz(_) => {
            let mut text = to_text(datum, env).replacen(' ', "T", 1);
            let minutes = text.rsplit(['+', '-']).next().is_some_and(|zone| zone.contains(':'));
            if matches!(datum, Datum::Timestamptz(_)) && !text.ends_with("BC") && !minutes {
                text.push_str(":00");
            }
            push_string(&text, &mut out);
        }
        Datum::Array(bytes) => {
            let all: Result<Vec<String>> =
                ArrayView::new(bytes).iter().map(|one| json_of(&one, env)).collect();
            out = format!("[{}]", all?.join(","));
        }
        other => push_string(&to_text(other, env), &mut out),
    }
    Ok(out)
}

/// The part that a key or a position names.
fn step<'a>(text: &'a str, key: &Datum<'_>) -> Result<Option<&'a str>> {
    let index = match key {
        Datum::Int2(v) => Some(i64::from(*v)),
        Datum::Int4(v) => Some(i64::from(*v)),
        Datum::Int8(v) => Some(*v),
        Datum::Text(_) => None,
        _ => return Err(no_operator()),
    };
    Ok(match (parts(text)?, index, key) {
        (Parts::Array(all), Some(index), _) => element(&all, index).copied(),
        (Parts::Object(members), None, Datum::Text(key)) => {
            members.iter().rev().find(|m| m.0 == *key).map(|m| m.1)
        }
        _ => None,
    })
}

/// The element at a position, counted from the end if it is negative.
fn element<T>(all: &[T], index: i64) -> Option<&T> {
    let count = i64::try_from(all.len()).ok()?;
    let at = if index < 0 { index + count } else { index };
    usize::try_from(at).ok().and_then(|at| all.get(at))
}

/// The elements of a `text[]` in its text form.
fn path_of(datum: &Datum<'_>) -> Result<Vec<String>> {
    let text = match datum {
        Datum::Text(text) => text,
        Datum::Array(bytes) => {
            let all = ArrayView::new(bytes);
            let texts = all.iter().filter(|one| !one.is_null());
            return Ok(texts.map(|one| to_text(&one, &FormatEnv::plain())).collect());
        }
        _ => return Err(no_operator()),
    };
    let malformed = || PgError::new("22P02", format!("malformed array literal: \"{text}\""));
    let body = text.trim().strip_prefix('{').and_then(|t| t.strip_suffix('}'));
    let mut rest = body.ok_or_else(malformed)?.trim();
    let mut out = Vec::new();
    while !rest.is_empty() {
        let item;
        if let Some(after) = rest.strip_prefix('"') {
            let mut text = String::new();
            let mut chars = after.char_indices();
            let end = loop {
                match chars.next().ok_or_else(malformed)? {
                    (at, '"') => break at,
                    (_, '\\') => text.push(chars.next().ok_or_else(malformed)?.1),
                    (_, c) => text.push(c),
                }
            };
            item = text;
            rest = after[end + 1..].trim_start();
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            item = rest[..end].trim().to_owned();
            rest = &rest[end..];
            if item.is_empty() || item.contains(['{', '}', '"']) {
                return Err(malformed());
            }
        }
        out.push(item);
        match rest.strip_prefix(',') {
            Some(after) if !after.trim().is_empty() => rest = after.trim_start(),
            None if rest.is_empty() => {}
            _ => return Err(malformed()),
        }
    }
    Ok(out)
}

/// What stands at a path; NULL if nothing does.
pub(crate) fn at_path(whole: &Datum<'_>, path: &[String]) -> Result<Value> {
    Ok(part(whole, walk(document(whole)?, path)?))
}

fn walk<'a>(text: &'a str, path: &[String]) -> Result<Option<&'a str>> {
    let mut at = text;
    for key in path {
        let found = match parts(at)? {
            Parts::Array(all) => {
                key.trim().parse::<i64>().ok().and_then(|index| element(&all, index).copied())
            }
            Parts::Object(members) => members.iter().rev().find(|m| m.0 == *key).map(|m| m.1),
            Parts::Scalar(_) => None,
        };
        match found {
            Some(part) => at = part,
            None => return Ok(None),
        }
    }
    Ok(Some(at))
}

/// A part as a value of the type of the whole.
fn part(whole: &Datum<'_>, found: Option<&str>) -> Value {
    match (whole, found) {
        (_, None) => Value::Null,
        (Datum::Jsonb(_), Some(text)) => Value::Jsonb(text.into()),
        (_, Some(text)) => Value::Json(text.trim().into()),
    }
}

/// A part as text.
fn part_text(found: Option<&str>) -> Result<Value> {
    let Some(text) = found else { return Ok(Value::Null) };
    let text = text.trim();
    Ok(match text.as_bytes().first() {
        Some(b'{' | b'[') => Value::Text(text.into()),
        Some(b'"' | b'n') => match Json::parse(text)?.as_text() {
            Some(text) => Value::Text(text.into()),
            None => Value::Null,
        },
        _ => Value::Text(text.into()),
    })
}

fn has_key(value: &Json, key: &str) -> bool {
    match value {
        Json::Object(_) => value.get(key).is_some(),
        Json::Array(all) => all.iter().any(|one| matches!(one, Json::String(s) if s == key)),
        Json::String(text) => text == key,
        _ => false,
    }
}

/// `jsonb || jsonb`.
pub(crate) fn concat_function() -> RowFunction {
    RowFunction::new("$jsonb_concat", Some(2), JSONB, true, |args| {
        let (a, b) = (jsonb_of(&args[0])?, jsonb_of(&args[1])?);
        let list = |value| match value {
            Json::Array(all) => all,
            other => vec![other],
        };
        let both = match (a, b) {
            (Json::Object(mut a), Json::Object(b)) => {
                a.extend(b);
                Json::Object(a).normal()?
            }
            (a, b) => {
                let mut all = list(a);
                all.extend(list(b));
                Json::Array(all)
            }
        };
        Ok(jsonb(&both))
    })
}

/// `jsonb - key`, `jsonb - position`, `jsonb - keys`.
pub(crate) fn delete_function() -> RowFunction {
    RowFunction::new("$jsonb_delete", Some(2), JSONB, true, |args| {
        let index = match &args[1] {
            Datum::Int2(v) => Some(i64::from(*v)),
            Datum::Int4(v) => Some(i64::from(*v)),
            Datum::Int8(v) => Some(*v),
            Datum::Text(_) => None,
            Datum::Array(_) => return without_keys(jsonb_of(&args[0])?, &path_of(&args[1])?),
            _ => return Err(no_operator()),
        };
        let whole = jsonb_of(&args[0])?;
        let rest = match (whole, index, &args[1]) {
            (Json::Object(_), Some(_), _) => {
                let message = "cannot delete from object using integer index";
                return Err(PgError::new("22023", message));
            }
            (Json::Object(mut members), None, Datum::Text(key)) => {
                members.retain(|member| member.0 != *key);
                Json::Object(members)
            }
            (Json::Array(mut all), None, Datum::Text(key)) => {
                all.retain(|one| !matches!(one, Json::String(s) if s == key));
                Json::Array(all)
            }
            (Json::Array(mut all), Some(index), _) => {
                let count = i64::try_from(all.len()).unwrap_or(i64::MAX);
                let at = if index < 0 { index + count } else { index };
                if let Ok(at) = usize::try_from(at)
                    && at < all.len()
                {
                    all.remove(at);
                }
                Json::Array(all)
            }
            _ => return Err(PgError::new("22023", "cannot delete from scalar")),
        };
        Ok(jsonb(&rest))
    })
}

fn without_keys(whole: Json, keys: &[String]) -> Result<Value> {
    Ok(jsonb(&match whole {
        Json::Object(mut members) => {
            members.retain(|member| !keys.contains(&member.0));
            Json::Object(members)
        }
        Json::Array(mut all) => {
            all.retain(|one| !matches!(one, Json::String(text) if keys.contains(text)));
            Json::Array(all)
        }
        _ => return Err(PgError::new("22023", "cannot delete from scalar")),
    }))
}

/// What a change does at the end of its path.
enum Change<'a> {
    /// The flag says whether it goes behind the element that the path names.
    Insert(&'a Json, bool),
    Delete,
    /// The flag says whether a member that is not there is made.
    Set(&'a Json, bool),
}

fn change(whole: &mut Json, path: &[String], position: usize, what: &Change<'_>) -> Result<()> {
    let Some((key, rest)) = path.split_first() else { return Ok(()) };
    match whole {
        Json::Object(members) => {
            let at = members.iter().position(|member| member.0 == *key);
            match (at, rest.is_empty(), what) {
                (Some(at), true, Change::Delete) => drop(members.remove(at)),
                (Some(at), true, Change::Set(new, _)) => members[at].1 = (*new).clone(),
                (Some(at), false, _) => change(&mut members[at].1, rest, position + 1, what)?,
                (None, true, Change::Set(new, true) | Change::Insert(new, _)) => {
                    members.push((key.clone(), (*new).clone()));
                }
                (Some(_), true, Change::Insert(..)) => {
                    return Err(PgError::new("22023", "cannot replace existing key")
                        .with_hint("Try using the function jsonb_set to replace key value."));
                }
                (None, ..) => {}
            }
        }
        Json::Array(all) => {
            let index: i64 = key.trim().parse().map_err(|_| {
                PgError::new(
                    "22P02",
                    format!("path element at position {position} is not an integer: \"{key}\""),
                )
            })?;
            let count = i64::try_from(all.len()).unwrap_or(i64::MAX);
            let from_start = if index < 0 { index + count } else { index };
            let at = usize::try_from(from_start).ok().filter(|at| *at < all.len());
            match (at, rest.is_empty(), what) {
                (Some(at), true, Change::Delete) => drop(all.remove(at)),
                (Some(at), true, Change::Set(new, _)) => all[at] = (*new).clone(),
                (Some(at), false, _) => change(&mut all[at], rest, position + 1, what)?,
                (Some(at), true, Change::Insert(new, after)) => {
                    all.insert(at + usize::from(*after), (*new).clone());
                }
                (None, true, Change::Set(new, true) | Change::Insert(new, _)) => {
                    let end = if from_start < 0 { 0 } else { all.len() };
                    all.insert(end, (*new).clone());
                }
                (None, ..) => {}
            }
        }
        _ => {}
    }
    Ok(())
}

fn changed(whole: &Datum<'_>, path: &Datum<'_>, what: &Change<'_>) -> Result<Value> {
    let mut value = jsonb_of(whole)?;
    let path = path_of(path)?;
    if matches!(value, Json::Array(_) | Json::Object(_)) {
        change(&mut value, &path, 1, what)?;
    } else {
        let verb = if matches!(what, Change::Delete) { "delete path in" } else { "set path in" };
        return Err(PgError::new("22023", format!("cannot {verb} scalar")));
    }
    Ok(jsonb(&value.normal()?))
}

fn build_object(args: &[Datum<'_>], binary: bool, env: &FormatEnv) -> Result<String> {
    if !args.len().is_multiple_of(2) {
        let name = if binary { "jsonb_build_object" } else { "json_build_object" };
        return Err(PgError::new("22023", "argument list must have even number of elements")
            .with_hint(format!(
                "The arguments of {name}() must consist of alternating keys and values."
            )));
    }
    let mut out = String::from("{");
    for (i, pair) in args.chunks(2).enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        if pair[0].is_null() {
            let at = i * 2 + 1;
            return Err(if binary {
                PgError::new("22023", format!("argument {at}: key must not be null"))
            } else {
                PgError::new("22023", format!("argument {at} cannot be null"))
                    .with_hint("Object keys should be text.")
            });
        }
        push_member(&pair[0], &pair[1], env, &mut out)?;
    }
    out.push('}');
    Ok(out)
}

pub(crate) fn push_member(
    key: &Datum<'_>,
    value: &Datum<'_>,
    env: &FormatEnv,
    out: &mut String,
) -> Result<()> {
    push_string(&to_text(key, env), out);
    out.push_str(" : ");
    out.push_str(&json_of(value, env)?);
    Ok(())
}

fn build_array(args: &[Datum<'_>], env: &FormatEnv) -> Result<String> {
    let all: Result<Vec<String>> = args.iter().map(|arg| json_of(arg, env)).collect();
    Ok(format!("[{}]", all?.join(", ")))
}

fn array_length(args: &[Datum<'_>]) -> Result<Value> {
    match parts(document(&args[0])?)? {
        Parts::Array(all) => Ok(Value::Int4(i32::try_from(all.len()).unwrap_or(i32::MAX))),
        Parts::Object(_) => Err(PgError::new("22023", "cannot get array length of a non-array")),
        Parts::Scalar(_) => Err(PgError::new("22023", "cannot get array length of a scalar")),
    }
}

fn strip_nulls(value: Json) -> Json {
    match value {
        Json::Object(members) => Json::Object(
            members
                .into_iter()
                .filter(|member| member.1 != Json::Null)
                .map(|(key, value)| (key, strip_nulls(value)))
                .collect(),
        ),
        Json::Array(all) => Json::Array(all.into_iter().map(strip_nulls).collect()),
        other => other,
    }
}

/// Without a blank between its parts, as functions of json write it.
fn compact(value: &Json, out: &mut String) {
    match value {
        Json::Object(members) => {
            out.push('{');
            for (i, (key, value)) in members.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                push_string(key, out);
                out.push(':');
                compact(value, out);
            }
            out.push('}');
        }
        Json::Array(all) => {
            out.push('[');
            for (i, one) in all.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                compact(one, out);
            }
            out.push(']');
        }
        other => out.push_str(&other.to_text()),
    }
}

/// Indented by four blanks a level.
fn pretty(value: &Json, indent: usize, out: &mut String) {
    let line = |indent: usize, out: &mut String| {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', indent * 4));
    };
    match value {
        Json::Array(all) => {
            out.push('[');
            for (i, one) in all.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                line(indent + 1, out);
                pretty(one, indent + 1, out);
            }
            line(indent, out);
            out.push(']');
        }
        Json::Object(members) => {
            out.push('{');
            for (i, (key, one)) in members.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                line(indent + 1, out);
                push_string(key, out);
                out.push_str(": ");
                pretty(one, indent + 1, out);
            }
            line(indent, out);
            out.push('}');
        }
        scalar => out.push_str(&scalar.to_text()),
    }
}

fn operators(env: FormatEnv) -> Vec<RowFunction> {
    let as_first: ReturnsFn = as_first;
    let exists = |name: &str, all: bool| {
        RowFunction::new(name, Some(2), BOOL, true, move |args| {
            let (value, keys) = (jsonb_of(&args[0])?, path_of(&args[1])?);
            let mut keys = keys.iter();
            Ok(Value::Bool(if all {
                keys.all(|key| has_key(&value, key))
            } else {
                keys.any(|key| has_key(&value, key))
            }))
        })
    };
    vec![
        RowFunction::new("$json_get", Some(2), JSON, true, |args| {
            Ok(part(&args[0], step(document(&args[0])?, &args[1])?))
        })
        .returning(as_first),
        RowFunction::new("$json_get_text", Some(2), TEXT, true, |args| {
            part_text(step(document(&args[0])?, &args[1])?)
        }),
        RowFunction::new("$json_path", Some(2), JSON, true, |args| {
            Ok(part(&args[0], walk(document(&args[0])?, &path_of(&args[1])?)?))
        })
        .returning(as_first),
        RowFunction::new("$json_path_text", Some(2), TEXT, true, |args| {
            part_text(walk(document(&args[0])?, &path_of(&args[1])?)?)
        }),
        RowFunction::new("$jsonb_contains", Some(2), BOOL, true, move |args| {
            if args.iter().any(|arg| matches!(arg, Datum::Array(_))) {
                return crate::array_functions::contains_function(args, &env);
            }
            if !args.iter().any(|arg| matches!(arg, Datum::Jsonb(_))) {
                return Err(no_operator());
            }
            Ok(Value::Bool(jsonb_of(&args[0])?.contains(&jsonb_of(&args[1])?)))
        }),
        RowFunction::new("$jsonb_exists", Some(2), BOOL, true, |args| {
            let Datum::Text(key) = &args[1] else { return Err(no_operator()) };
            Ok(Value::Bool(has_key(&jsonb_of(&args[0])?, key)))
        }),
        exists("$jsonb_exists_any", false),
        exists("$jsonb_exists_all", true),
        RowFunction::new("$jsonb_delete_path", Some(2), JSONB, true, |args| {
            changed(&args[0], &args[1], &Change::Delete)
        }),
    ]
}

/// All of them, for a session in the time zone of `env`.
pub fn functions(env: FormatEnv) -> Vec<RowFunction> {
    let mut all = operators(env);
    all.extend(whole_to_json(env));
    for (name, binary) in [("json", false), ("jsonb", true)] {
        let made = move |text: String| -> Result<Value> {
            Ok(if binary {
                Value::Jsonb(Json::parse(&text)?.to_jsonb()?.into())
            } else {
                Value::Json(text.into())
            })
        };
        let ty = if binary { JSONB } else { JSON };
        let named = |tail: &str| format!("{name}_{tail}");
        all.push(
            RowFunction::new(&named("build_object"), None, ty, false, move |args| {
                made(build_object(args, binary, &env)?)
            })
            .taking_rows(Form::Json, env),
        );
        all.push(
            RowFunction::new(&named("build_array"), None, ty, false, move |args| {
                made(build_array(args, &env)?)
            })
            .taking_rows(Form::Json, env),
        );
        all.push(
            RowFunction::new(&format!("to_{name}"), Some(1), ty, true, move |args| {
                made(json_of(&args[0], &env)?)
            })
            .taking_rows(Form::Json, env),
        );
        all.push(RowFunction::new(&named("typeof"), Some(1), TEXT, true, |args| {
            let name = match parts(document(&args[0])?)? {
                Parts::Array(_) => "array",
                Parts::Object(_) => "object",
                Parts::Scalar(value) => value.type_name(),
            };
            Ok(Value::Text(name.into()))
        }));
        all.push(RowFunction::new(&named("array_length"), Some(1), INT4, true, array_length));
        for (tail, text) in [("extract_path", false), ("extract_path_text", true)] {
            let function = RowFunction::new(
                &named(tail),
                None,
                if text { TEXT } else { ty },
                true,
                move |args| {
                    let (whole, keys) = args.split_first().ok_or_else(no_operator)?;
                    let keys: Vec<String> =
                        keys.iter().map(|key| to_text(key, &FormatEnv::plain())).collect();
                    // A literal is of the type in the function's name.
                    let normal;
                    let document = match whole {
                        Datum::Text(_) if binary => {
                            normal = jsonb_of(whole)?.to_text();
                            &normal
                        }
                        other => document(other)?,
                    };
                    let found = walk(document, &keys)?;
                    Ok(match (text, binary, found) {
                        (true, ..) => part_text(found)?,
                        (_, _, None) => Value::Null,
                        (_, true, Some(part)) => Value::Jsonb(part.into()),
                        (_, false, Some(part)) => Value::Json(part.trim().into()),
                    })
                },
            );
            all.push(function);
        }
    }
    all.push(RowFunction::new("jsonb_strip_nulls", Some(1), JSONB, true, |args| {
        Ok(jsonb(&strip_nulls(jsonb_of(&args[0])?)))
    }));
    all.push(RowFunction::new("json_strip_nulls", Some(1), JSON, true, |args| {
        let mut out = String::new();
        compact(&strip_nulls(Json::parse(document(&args[0])?)?), &mut out);
        Ok(Value::Json(out.into()))
    }));
    all.push(RowFunction::new("jsonb_insert", None, JSONB, true, |args| {
        let after = match args.get(3) {
            None => false,
            Some(Datum::Bool(after)) => *after,
            Some(_) => return Err(no_operator()),
        };
        let [whole, path, new, ..] = args else { return Err(no_operator()) };
        changed(whole, path, &Change::Insert(&jsonb_of(new)?, after))
    }));
    all.push(RowFunction::new("jsonb_pretty", Some(1), TEXT, true, |args| {
        let mut out = String::new();
        pretty(&jsonb_of(&args[0])?, 0, &mut out);
        Ok(Value::Text(out.into()))
    }));
    all.push(RowFunction::new("jsonb_set", None, JSONB, true, |args| {
        let create = match args.get(3) {
            None => true,
            Some(Datum::Bool(create)) => *create,
            Some(_) => return Err(no_operator()),
        };
        let [whole, path, new, ..] = args else { return Err(no_operator()) };
        changed(whole, path, &Change::Set(&jsonb_of(new)?, create))
    }));
    all
}
