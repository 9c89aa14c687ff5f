//! Arrays of one dimension: their text and binary forms, conversions and comparison.
//!
//! What it promises: PostgreSQL's forms, in and out. Left out, and refused with 0A000: arrays of
//! several dimensions, and such as do not count from 1.

use crate::cast::{CastMode, cast, parse_text};
use crate::error::{PgError, Result};
use crate::scalar::compare;
use crate::types::{PgType, col_type_of_oid, is_vector, oid};
use crate::wire::{FormatEnv, decode, push_binary, push_text};
use kernel::row::{ArrayView, ColType, Datum, Value, encode_array};
use std::cmp::Ordering;

/// Most elements of an array, as in PostgreSQL.
const ELEMENTS_MAX: usize = 134_217_727;

/// An array of these elements, which are of the type or NULL.
#[must_use]
pub fn array_value(element: ColType, elements: &[Value]) -> Value {
    let elements: Vec<Datum<'_>> = elements.iter().map(Value::as_datum).collect();
    Value::Array(encode_array(element.kind, &elements))
}

/// The type of an array column's elements.
///
/// # Errors
/// XX000 if the type is no array's.
pub fn element_type(array: ColType) -> Result<ColType> {
    array.element().ok_or_else(|| PgError::internal("the elements of what is no array"))
}

fn dimensions() -> PgError {
    PgError::unsupported("an array of several dimensions, or one that does not count from 1,")
}

/// What an array literal says: its elements as text, `None` for NULL.
///
/// # Errors
/// 22P02; 0A000 for several dimensions.
pub fn literal_items(text: &str) -> Result<Vec<Option<String>>> {
    let malformed = |detail: &str| {
        PgError::new("22P02", format!("malformed array literal: \"{text}\"")).with_detail(detail)
    };
    const ENDED: &str = "Unexpected end of input.";
    let trimmed = text.trim_matches(is_space);
    if trimmed.starts_with('[') && trimmed.contains('=') {
        return Err(dimensions());
    }
    let Some(body) = trimmed.strip_prefix('{') else {
        let detail = "Array value must start with \"{\" or dimension information.";
        return Err(malformed(detail));
    };
    let mut items = Vec::new();
    let mut rest = body.trim_start_matches(is_space);
    if let Some(after) = rest.strip_prefix('}') {
        return match after {
            "" => Ok(items),
            _ => Err(malformed("Junk after closing right brace.")),
        };
    }
    loop {
        let (item, after) = match rest.chars().next() {
            None => return Err(malformed(ENDED)),
            Some('{') => return Err(dimensions()),
            Some('"') => {
                let (item, after) = quoted(&rest[1..]).ok_or_else(|| malformed(ENDED))?;
                (Some(item), after)
            }
            Some(c @ (',' | '}')) => {
                return Err(malformed(&format!("Unexpected \"{c}\" character.")));
            }
            Some(_) => bare(rest).map_err(|why| match why {
                None => malformed(ENDED),
                Some('"') => malformed("Unexpected array element."),
                Some(c) => malformed(&format!("Unexpected \"{c}\" character.")),
            })?,
        };
        items.push(item);
        rest = after.trim_start_matches(is_space);
        if let Some(after) = rest.strip_prefix(',') {
            rest = after.trim_start_matches(is_space);
            continue;
        }
        return match rest.strip_prefix('}') {
            Some("") => Ok(items),
            Some(_) => Err(malformed("Junk after closing right brace.")),
            None if rest.is_empty() => Err(malformed(ENDED)),
            None => Err(malformed("Unexpected array element.")),
        };
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

/// The element behind its first quote, and what follows its last.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut item = String::new();
    let mut chars = text.char_indices();
    loop {
        match chars.next()? {
            (at, '"') => return Some((item, &text[at + 1..])),
            (_, '\\') => item.push(chars.next()?.1),
            (_, c) => item.push(c),
        }
    }
}

/// An element without quotes, and what follows it. The error is the character that does not belong.
fn bare(text: &str) -> std::result::Result<(Option<String>, &str), Option<char>> {
    let (mut item, mut escaped) = (String::new(), false);
    let mut kept = 0;
    let mut chars = text.char_indices();
    let end = loop {
        match chars.next() {
            None => return Err(None),
            Some((at, ',' | '}')) => break at,
            Some((_, c @ ('{' | '"'))) => return Err(Some(c)),
            Some((_, '\\')) => {
                item.push(chars.next().ok_or(None)?.1);
                escaped = true;
                kept = item.len();
            }
            Some((_, c)) => {
                item.push(c);
                if !is_space(c) {
                    kept = item.len();
                }
            }
        }
    };
    item.truncate(kept);
    let null = !escaped && item.eq_ignore_ascii_case("null");
    Ok((if null { None } else { Some(item) }, &text[end..]))
}

/// Reads an array from its text form.
///
/// # Errors
/// Those of [`literal_items`] and of the elements' type.
pub fn parse_array(text: &str, array: ColType, env: &FormatEnv) -> Result<Value> {
    let element = element_type(array)?;
    let values: Result<Vec<Value>> = literal_items(text)?
        .into_iter()
        .map(|item| item.map_or(Ok(Value::Null), |item| parse_text(&item, element, env)))
        .collect();
    Ok(array_value(element, &values?))
}

/// Appends an array's text form.
pub fn push_array(bytes: &[u8], env: &FormatEnv, out: &mut Vec<u8>) {
    out.push(b'{');
    let mut item = Vec::new();
    for (i, element) in ArrayView::new(bytes).iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        if element.is_null() {
            out.extend_from_slice(b"NULL");
            continue;
        }
        item.clear();
        push_text(&element, env, &mut item);
        let special =
            |b: &u8| matches!(b, b'"' | b'\\' | b'{' | b'}' | b',') || is_space(char::from(*b));
        if item.is_empty() || item.iter().any(special) || item.eq_ignore_ascii_case(b"null") {
            out.push(b'"');
            for b in &item {
                if matches!(b, b'"' | b'\\') {
                    out.push(b'\\');
                }
                out.push(*b);
            }
            out.push(b'"');
        } else {
            out.extend_from_slice(&item);
        }
    }
    out.push(b'}');
}

/// Appends the text form of a vector of the catalog.
pub fn push_vector(bytes: &[u8], env: &FormatEnv, out: &mut Vec<u8>) {
    for (i, element) in ArrayView::new(bytes).iter().enumerate() {
        if i > 0 {
            out.push(b' ');
        }
        push_text(&element, env, out);
    }
}

/// Appends an array's binary form, as the array type `array_oid`.
///
/// # Errors
/// Those of the elements' type.
pub fn push_binary_array(bytes: &[u8], array_oid: u32, out: &mut Vec<u8>) -> Result<()> {
    let view = ArrayView::new(bytes);
    let oid = match array_oid {
        oid::OIDVECTOR | oid::OID_ARRAY => oid::OID,
        oid::NAME_ARRAY => oid::NAME,
        oid::CHAR_ARRAY => oid::CHAR,
        _ => PgType::of(ColType::new(view.kind())).oid,
    };
    let first = i32::from(!is_vector(array_oid));
    let word = |n: usize| i32::try_from(n).map_err(|_| PgError::out_of_range("array"));
    let has_null = view.iter().any(|element| element.is_null());
    out.extend_from_slice(&i32::from(!view.is_empty()).to_be_bytes());
    out.extend_from_slice(&i32::from(has_null).to_be_bytes());
    out.extend_from_slice(&oid.to_be_bytes());
    if view.is_empty() {
        return Ok(());
    }
    out.extend_from_slice(&word(view.len())?.to_be_bytes());
    out.extend_from_slice(&first.to_be_bytes());
    for element in view.iter() {
        let at = out.len();
        out.extend_from_slice(&(-1i32).to_be_bytes());
        if !element.is_null() {
            push_binary(&element, oid, out)?;
            let len = word(out.len() - at - 4)?;
            out[at..at + 4].copy_from_slice(&len.to_be_bytes());
        }
    }
    Ok(())
}

/// Reads an array from its binary form.
///
/// # Errors
/// 22P03; 42804 for elements of another type; 0A000 for several dimensions.
pub fn decode_binary_array(bytes: &[u8], array: ColType) -> Result<Value> {
    let bad = || PgError::new("22P03", "incorrect binary data format");
    let element = element_type(array)?;
    let mut rest = bytes;
    let mut word = || -> Result<i32> {
        let (head, tail) = rest.split_first_chunk::<4>().ok_or_else(bad)?;
        rest = tail;
        Ok(i32::from_be_bytes(*head))
    };
    let (dims, flags, oid) = (word()?, word()?, word()?.cast_unsigned());
    if !matches!(flags, 0 | 1) {
        return Err(PgError::new("22P03", "invalid array flags"));
    }
    let sent = col_type_of_oid(oid).ok_or_else(bad)?;
    let alike = sent.kind == element.kind || (sent.kind.is_text() && element.kind.is_text());
    if !alike {
        return Err(PgError::new("42804", "wrong element type"));
    }
    if dims == 0 {
        return if rest.is_empty() { Ok(array_value(element, &[])) } else { Err(bad()) };
    }
    if dims != 1 {
        return Err(dimensions());
    }
    let (count, from) = (usize::try_from(word()?).map_err(|_| bad())?, word()?);
    if from != 1 && !(from == 0 && matches!(oid, oid::INT2 | oid::OID)) {
        return Err(dimensions());
    }
    if count > ELEMENTS_MAX || count > rest.len() / 4 {
        return Err(bad());
    }
    let mut values = Vec::with_capacity(count);
    for _ in 0..count {
        let (head, tail) = rest.split_first_chunk::<4>().ok_or_else(bad)?;
        let len = i32::from_be_bytes(*head);
        if len == -1 {
            values.push(Value::Null);
            rest = tail;
            continue;
        }
        let len = usize::try_from(len).map_err(|_| bad())?;
        let (data, after) = tail.split_at_checked(len).ok_or_else(bad)?;
        values.push(decode(data, element, oid, true, &FormatEnv::plain())?);
        rest = after;
    }
    if rest.is_empty() { Ok(array_value(element, &values)) } else { Err(bad()) }
}

/// An array with each element converted.
///
/// # Errors
/// Those of the conversion.
pub fn cast_array(bytes: &[u8], to: ColType, mode: CastMode, env: &FormatEnv) -> Result<Value> {
    let (view, element) = (ArrayView::new(bytes), element_type(to)?);
    if view.kind() == element.kind {
        return Ok(Value::Array(bytes.into()));
    }
    let values: Result<Vec<Value>> =
        view.iter().map(|value| cast(&value, element, mode, env)).collect();
    Ok(array_value(element, &values?))
}

/// Order of two arrays: element by element, NULL after all values, the shorter first.
///
/// # Errors
/// 42883 if the elements do not compare.
pub fn compare_arrays(a: &[u8], b: &[u8]) -> Result<Ordering> {
    let (a, b) = (ArrayView::new(a), ArrayView::new(b));
    for (left, right) in a.iter().zip(b.iter()) {
        let order = match compare(&left, &right)? {
            Some(order) => order,
            None => left.is_null().cmp(&right.is_null()),
        };
        if order.is_ne() {
            return Ok(order);
        }
    }
    Ok(a.len().cmp(&b.len()))
}

/// Bytes that compare as arrays of one type do.
///
/// # Errors
/// 42883 for json, which has no order.
pub fn array_key(bytes: &[u8]) -> Result<Vec<u8>> {
    use kernel::row::{TypeKind, encode_key};
    let view = ArrayView::new(bytes);
    let mut out = Vec::new();
    match view.kind() {
        TypeKind::Json => {
            let message = "could not identify a comparison function for type json";
            return Err(PgError::new("42883", message));
        }
        TypeKind::Jsonb => {
            let mut keys = Vec::with_capacity(view.len());
            for element in view.iter() {
                keys.push(match element {
                    Datum::Jsonb(text) => {
                        Value::Bytea(crate::json::Json::parse(text)?.key().into())
                    }
                    _ => Value::Null,
                });
            }
            let keys: Vec<Datum<'_>> = keys.iter().map(Value::as_datum).collect();
            encode_key(&[Datum::Array(&encode_array(TypeKind::Bytea, &keys))], &mut out);
        }
        _ => {
            encode_key(&[Datum::Array(bytes)], &mut out);
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::row::TypeKind;

    #[test]
    fn literals_come_back() {
        let env = FormatEnv::plain();
        for (kind, text, want) in [
            (TypeKind::Int4, " { 1 , NULL,3 } ", "{1,NULL,3}"),
            (
                TypeKind::Text,
                r#"{a b ,"c,d","","null",nuLL,x\,y}"#,
                r#"{"a b","c,d","","null",NULL,"x,y"}"#,
            ),
            (TypeKind::Text, "{}", "{}"),
            (TypeKind::Bool, "{t,false}", "{t,f}"),
            (TypeKind::Timestamp, "{2024-01-01}", "{\"2024-01-01 00:00:00\"}"),
        ] {
            let ty = ColType::array_of(kind);
            let Value::Array(bytes) = parse_array(text, ty, &env).unwrap() else { panic!() };
            let mut out = Vec::new();
            push_array(&bytes, &env, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), want);
            let mut wire = Vec::new();
            push_binary_array(&bytes, 0, &mut wire).unwrap();
            assert_eq!(decode_binary_array(&wire, ty).unwrap(), Value::Array(bytes));
            for cut in 0..wire.len() {
                assert!(decode_binary_array(&wire[..cut], ty).is_err(), "{text} cut at {cut}");
            }
        }
    }

    #[test]
    fn bad_literals_are_refused() {
        for text in ["", "1,2", "{1,2", "{1,}", "{,1}", "{1}x", "{\"a\"b}", "{a\"b\"}", "{\"a"] {
            assert_eq!(literal_items(text).unwrap_err().code, "22P02", "{text}");
        }
        for text in ["{{1},{2}}", "[0:1]={1,2}"] {
            assert_eq!(literal_items(text).unwrap_err().code, "0A000", "{text}");
        }
    }
}
