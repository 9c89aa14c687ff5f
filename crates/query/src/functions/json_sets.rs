//! The parts of a json document as sets: elements, names and values of members.
//!
//! What it promises: PostgreSQL's rows in its order: of json as written, of jsonb as it is kept.

use super::typed::{Body, Line, Many};
use crate::error::{PgError, Result};
use crate::json::{Json, Parts, parts};
use kernel::row::{Datum, Value};

fn text<'a>(datum: &Datum<'a>) -> &'a str {
    match datum {
        Datum::Json(text) | Datum::Jsonb(text) | Datum::Text(text) => text,
        _ => "null",
    }
}

/// A part of a document, of its type.
fn part(of: &Datum<'_>, text: &str) -> Value {
    match of {
        Datum::Jsonb(_) => Value::Jsonb(text.into()),
        _ => Value::Json(text.into()),
    }
}

/// A part as `->>` shows it; of a JSON null there is nothing.
fn shown(text: &str) -> Result<Value> {
    Ok(match Json::parse(text)? {
        Json::String(text) => Value::Text(text.into()),
        Json::Null => Value::Null,
        _ => Value::Text(text.trim().into()),
    })
}

fn items<'a>(datum: &Datum<'a>) -> Result<Vec<&'a str>> {
    match parts(text(datum))? {
        Parts::Array(all) => Ok(all),
        Parts::Object(_) => Err(PgError::new("22023", "cannot extract elements from an object")),
        Parts::Scalar(_) => Err(PgError::new("22023", "cannot extract elements from a scalar")),
    }
}

fn members<'a>(datum: &Datum<'a>) -> Result<Vec<(String, &'a str)>> {
    match parts(text(datum))? {
        Parts::Object(all) => Ok(all),
        Parts::Array(_) => Err(PgError::new("22023", "cannot take members from an array")),
        Parts::Scalar(_) => Err(PgError::new("22023", "cannot take members from a scalar")),
    }
}

fn elements(a: &[Datum<'_>]) -> Result<Option<Vec<Value>>> {
    Ok(Some(items(&a[0])?.into_iter().map(|item| part(&a[0], item)).collect()))
}

fn element_texts(a: &[Datum<'_>]) -> Result<Option<Vec<Value>>> {
    items(&a[0])?.into_iter().map(shown).collect::<Result<_>>().map(Some)
}

fn keys(a: &[Datum<'_>]) -> Result<Option<Vec<Value>>> {
    Ok(Some(members(&a[0])?.into_iter().map(|(key, _)| Value::Text(key.into())).collect()))
}

fn values(a: &[Datum<'_>]) -> Result<Option<Vec<Value>>> {
    Ok(Some(members(&a[0])?.into_iter().map(|(_, value)| part(&a[0], value)).collect()))
}

fn value_texts(a: &[Datum<'_>]) -> Result<Option<Vec<Value>>> {
    members(&a[0])?.into_iter().map(|(_, value)| shown(value)).collect::<Result<_>>().map(Some)
}

/// The document if it is an object: a row is made of it, by the function of the second argument.
fn object(a: &[Datum<'_>]) -> Result<Value> {
    let function = text(&a[1]);
    let what = match parts(text(&a[0]))? {
        Parts::Object(_) => return Ok(part(&a[0], text(&a[0]))),
        _ if function.ends_with("recordset") => {
            let text = format!("argument of {function} must be an array of objects");
            return Err(PgError::new("22023", text));
        }
        Parts::Array(_) => "an array",
        Parts::Scalar(_) => "a scalar",
    };
    Err(PgError::new("22023", format!("cannot call {function} on {what}")))
}

/// The functions that make a set's columns, as arrays, with the columns' names; `None` for a
/// function that is none of these.
#[must_use]
pub fn json_set(name: &str) -> Option<&'static [(&'static str, &'static str)]> {
    Some(match name {
        "json_array_elements" => &[("$json_array_elements", "value")],
        "jsonb_array_elements" => &[("$jsonb_array_elements", "value")],
        "json_array_elements_text" => &[("$json_array_elements_text", "value")],
        "jsonb_array_elements_text" => &[("$jsonb_array_elements_text", "value")],
        "json_object_keys" => &[("$json_object_keys", "json_object_keys")],
        "jsonb_object_keys" => &[("$jsonb_object_keys", "jsonb_object_keys")],
        "json_each" => &[("$json_object_keys", "key"), ("$json_object_values", "value")],
        "jsonb_each" => &[("$jsonb_object_keys", "key"), ("$jsonb_object_values", "value")],
        "json_each_text" => &[("$json_object_keys", "key"), ("$json_object_texts", "value")],
        "jsonb_each_text" => &[("$jsonb_object_keys", "key"), ("$jsonb_object_texts", "value")],
        _ => return None,
    })
}

/// Whether a function gives a column of such a set, as an array.
#[must_use]
pub fn gives_json_set(name: &str) -> bool {
    LINES.iter().any(|(line, _)| line.split('(').next() == Some(name))
}

const fn many(body: Many) -> Body {
    Body::Many(body)
}

pub(super) const LINES: &[Line] = &[
    ("$json_object(json, text) json", Body::One(object)),
    ("$jsonb_object(jsonb, text) jsonb", Body::One(object)),
    ("$json_array_elements(json) json[]", many(elements)),
    ("$jsonb_array_elements(jsonb) jsonb[]", many(elements)),
    ("$json_array_elements_text(json) text[]", many(element_texts)),
    ("$jsonb_array_elements_text(jsonb) text[]", many(element_texts)),
    ("$json_object_keys(json) text[]", many(keys)),
    ("$jsonb_object_keys(jsonb) text[]", many(keys)),
    ("$json_object_values(json) json[]", many(values)),
    ("$jsonb_object_values(jsonb) jsonb[]", many(values)),
    ("$json_object_texts(json) text[]", many(value_texts)),
    ("$jsonb_object_texts(jsonb) text[]", many(value_texts)),
];
