//! Parts of arrays and of jsonb by subscripts: read where a value stands, and changed by UPDATE.
//!
//! What it promises: what is not named stays as it is; what is missing on the way is made, as
//! PostgreSQL makes it. Left out: arrays that do not count from 1.

use crate::array::array_value;
use crate::cast::parse_text;
use crate::error::{PgError, Result};
use crate::functions::RowFunction;
use crate::json::Json;
use crate::wire::{FormatEnv, to_text};
use kernel::row::{ArrayView, ColType, Datum, TypeKind, Value};

/// An array as text, a new element as text, and its position: the array as text.
pub const ARRAY_ASSIGN: &str = "$array_assign";
/// A jsonb, the new part, and the way to it, all of texts.
pub const JSONB_ASSIGN: &str = "$jsonb_assign";

/// Most elements of an array, as in PostgreSQL.
const ELEMENTS_MAX: usize = 134_217_727;

pub(crate) fn functions() -> Vec<RowFunction> {
    let text = ColType::new(TypeKind::Text);
    let jsonb = ColType::new(TypeKind::Jsonb);
    vec![
        RowFunction::new(ARRAY_ASSIGN, Some(3), text, false, array_assigned),
        RowFunction::new(JSONB_ASSIGN, None, jsonb, false, jsonb_assigned),
    ]
}

fn no_subscript(what: &str) -> PgError {
    PgError::new("22004", format!("{what} subscript in assignment must not be null"))
}

fn array_assigned(args: &[Datum<'_>]) -> Result<Value> {
    let text = ColType::new(TypeKind::Text);
    let env = FormatEnv::plain();
    let at = match &args[2] {
        Datum::Null => return Err(no_subscript("array")),
        at => crate::array_functions::whole(at)?,
    };
    let mut items: Vec<Value> = match &args[0] {
        Datum::Text(whole) => match parse_text(whole, ColType::array_of(TypeKind::Text), &env)? {
            Value::Array(bytes) => {
                ArrayView::new(&bytes).iter().map(|one| one.to_value()).collect()
            }
            _ => Vec::new(),
        },
        _ => Vec::new(),
    };
    let position = usize::try_from(at).ok().and_then(|at| at.checked_sub(1));
    let position = position.filter(|at| *at == 0 || !items.is_empty());
    let Some(position) = position else {
        return Err(PgError::unsupported("an array that does not count from 1"));
    };
    if position >= ELEMENTS_MAX {
        let text = format!("array size exceeds the maximum allowed ({ELEMENTS_MAX})");
        return Err(PgError::new("54000", text));
    }
    if position >= items.len() {
        items.resize(position + 1, Value::Null);
    }
    items[position] = args[1].to_value();
    let whole = array_value(text, &items);
    Ok(Value::Text(to_text(&whole.as_datum(), &env).into()))
}

fn jsonb_assigned(args: &[Datum<'_>]) -> Result<Value> {
    let [whole, new, path @ ..] = args else {
        return Err(PgError::internal("an assignment without a value"));
    };
    let json = |datum: &Datum<'_>| match datum {
        Datum::Jsonb(text) | Datum::Json(text) | Datum::Text(text) => Json::parse(text).map(Some),
        _ => Ok(None),
    };
    let mut keys = Vec::with_capacity(path.len());
    for key in path {
        match key {
            Datum::Null => return Err(no_subscript("jsonb")),
            key => keys.push(to_text(key, &FormatEnv::plain())),
        }
    }
    let new = json(new)?.unwrap_or(Json::Null);
    let out = match json(whole)? {
        None => made(&keys, new)?,
        Some(whole) => assigned(whole, &keys, 1, new)?,
    };
    Ok(Value::Jsonb(out.to_jsonb()?.into()))
}

/// What there is nothing of yet.
fn made(keys: &[String], new: Json) -> Result<Json> {
    let Some((key, rest)) = keys.split_first() else { return Ok(new) };
    let inner = made(rest, new)?;
    let Ok(index) = key.parse::<i64>() else {
        return Ok(Json::Object(vec![(key.clone(), inner)]));
    };
    let mut all = Vec::new();
    put(&mut all, index.max(0), inner)?;
    Ok(Json::Array(all))
}

/// Puts an element behind the last one, and nulls between them.
fn put(all: &mut Vec<Json>, index: i64, inner: Json) -> Result<()> {
    let at = usize::try_from(index).unwrap_or(usize::MAX);
    if at >= ELEMENTS_MAX {
        let text =
            format!("number of jsonb array elements exceeds the maximum allowed ({ELEMENTS_MAX})");
        return Err(PgError::new("54000", text));
    }
    all.resize(at.max(all.len()), Json::Null);
    all.push(inner);
    Ok(())
}

fn assigned(json: Json, keys: &[String], level: usize, new: Json) -> Result<Json> {
    let Some((key, rest)) = keys.split_first() else { return Ok(new) };
    match json {
        Json::Object(mut members) => {
            match members.iter_mut().rev().find(|(known, _)| known == key) {
                Some((_, inner)) => {
                    let old = std::mem::replace(inner, Json::Null);
                    *inner = assigned(old, rest, level + 1, new)?;
                }
                None => members.push((key.clone(), made(rest, new)?)),
            }
            Ok(Json::Object(members))
        }
        Json::Array(mut all) => {
            let index: i64 = key.parse().map_err(|_| {
                let text = format!("path element at position {level} is not an integer: \"{key}\"");
                PgError::new("22P02", text)
            })?;
            let count = i64::try_from(all.len()).unwrap_or(i64::MAX);
            let at = if index < 0 { index + count } else { index };
            if at < 0 {
                let text = format!("path element at position {level} is out of range: {index}");
                return Err(PgError::new("22023", text));
            }
            match usize::try_from(at).ok().and_then(|at| all.get_mut(at)) {
                Some(inner) => {
                    let old = std::mem::replace(inner, Json::Null);
                    *inner = assigned(old, rest, level + 1, new)?;
                }
                None => put(&mut all, at, made(rest, new)?)?,
            }
            Ok(Json::Array(all))
        }
        _ => {
            let detail = "The path assumes key is a composite object, but it is a scalar value.";
            Err(PgError::new("22023", "cannot replace existing key").with_detail(detail))
        }
    }
}

/// The part of a jsonb that one subscript names.
pub(crate) fn jsonb_part(whole: &Datum<'_>, key: &Datum<'_>) -> Result<Value> {
    let key = to_text(key, &FormatEnv::plain());
    crate::json_functions::at_path(whole, &[key])
}
