//! Functions of bytes: encodings, digests, single bytes and bits.
//!
//! What it promises: what `encode` writes `decode` reads, and what is no such text is PostgreSQL's
//! error.

use super::math::integer;
use super::strings::{bytes, made, text};
use super::typed::{Body, Line, One};
use crate::error::{PgError, Result};
use base64::Engine as _;
use kernel::row::{Datum, Value};
use std::fmt::Write as _;

fn unknown(name: &str) -> PgError {
    PgError::new("22023", format!("unrecognized encoding: \"{name}\""))
}

fn encode(a: &[Datum<'_>]) -> Result<Value> {
    let (all, name) = (bytes(&a[0])?, text(&a[1])?);
    let mut out = String::new();
    match name.to_ascii_lowercase().as_str() {
        "hex" => all.iter().for_each(|b| {
            let _ = write!(out, "{b:02x}");
        }),
        "base64" => {
            // Lines of 76 characters.
            let whole = base64::engine::general_purpose::STANDARD.encode(all);
            for (i, c) in whole.chars().enumerate() {
                if i > 0 && i % 76 == 0 {
                    out.push('\n');
                }
                out.push(c);
            }
        }
        "escape" => all.iter().for_each(|b| match b {
            b'\\' => out.push_str("\\\\"),
            0 | 0x80.. => {
                let _ = write!(out, "\\{b:03o}");
            }
            b => out.push(char::from(*b)),
        }),
        _ => return Err(unknown(name)),
    }
    made(out)
}

fn decode(a: &[Datum<'_>]) -> Result<Value> {
    let (all, name) = (text(&a[0])?, text(&a[1])?);
    let out = match name.to_ascii_lowercase().as_str() {
        "hex" => from_hex(all)?,
        "base64" => from_base64(all)?,
        "escape" => from_escape(all)?,
        _ => return Err(unknown(name)),
    };
    Ok(Value::Bytea(out.into()))
}

fn from_hex(all: &str) -> Result<Vec<u8>> {
    let mut digits = Vec::with_capacity(all.len());
    for c in all.chars().filter(|c| !matches!(c, ' ' | '\n' | '\t' | '\r')) {
        let digit = c
            .to_digit(16)
            .ok_or_else(|| PgError::new("22023", format!("invalid hexadecimal digit: \"{c}\"")))?;
        digits.push(u8::try_from(digit).unwrap_or(0));
    }
    if digits.len() % 2 != 0 {
        return Err(PgError::new("22023", "invalid hexadecimal data: odd number of digits"));
    }
    Ok(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

fn from_base64(all: &str) -> Result<Vec<u8>> {
    let invalid = |what: String| PgError::new("22023", what);
    let (mut out, mut buffer, mut at, mut padding) = (Vec::new(), 0u32, 0u32, 0u32);
    for c in all.chars().filter(|c| !matches!(c, ' ' | '\n' | '\t' | '\r')) {
        let six = match c {
            'A'..='Z' => u32::from(c) - u32::from('A'),
            'a'..='z' => u32::from(c) - u32::from('a') + 26,
            '0'..='9' => u32::from(c) - u32::from('0') + 52,
            '+' => 62,
            '/' => 63,
            '=' => {
                if padding == 0 {
                    padding = match at {
                        2 => 1,
                        3 => 2,
                        _ => {
                            let what = "unexpected \"=\" while decoding base64 sequence";
                            return Err(invalid(what.to_owned()));
                        }
                    };
                }
                0
            }
            other => {
                let what =
                    format!("invalid symbol \"{other}\" found while decoding base64 sequence");
                return Err(invalid(what));
            }
        };
        buffer = buffer << 6 | six;
        at += 1;
        if at == 4 {
            let three = buffer.to_be_bytes();
            out.push(three[1]);
            if padding == 0 || padding > 1 {
                out.push(three[2]);
            }
            if padding == 0 || padding > 2 {
                out.push(three[3]);
            }
            (buffer, at) = (0, 0);
        }
    }
    if at != 0 {
        return Err(invalid("invalid base64 end sequence".to_owned())
            .with_hint("Input data is missing padding, is truncated, or is otherwise corrupted."));
    }
    Ok(out)
}

fn from_escape(all: &str) -> Result<Vec<u8>> {
    let invalid = || PgError::new("22P02", "invalid input syntax for type bytea");
    let (all, mut out, mut at) = (all.as_bytes(), Vec::new(), 0);
    while let Some(byte) = all.get(at) {
        if *byte != b'\\' {
            out.push(*byte);
            at += 1;
            continue;
        }
        if all.get(at + 1) == Some(&b'\\') {
            out.push(b'\\');
            at += 2;
            continue;
        }
        let octal = all.get(at + 1..at + 4).and_then(|d| std::str::from_utf8(d).ok());
        out.push(octal.and_then(|d| u8::from_str_radix(d, 8).ok()).ok_or_else(invalid)?);
        at += 4;
    }
    Ok(out)
}

fn index(at: i64, length: usize) -> Result<usize> {
    usize::try_from(at).ok().filter(|i| *i < length).ok_or_else(|| {
        let last = length as i64 - 1;
        PgError::new("2202E", format!("index {at} out of valid range, 0..{last}"))
    })
}

fn get_byte(a: &[Datum<'_>]) -> Result<Value> {
    let all = bytes(&a[0])?;
    Ok(Value::Int4(i32::from(all[index(integer(&a[1])?, all.len())?])))
}

fn set_byte(a: &[Datum<'_>]) -> Result<Value> {
    let mut all = bytes(&a[0])?.to_vec();
    let at = index(integer(&a[1])?, all.len())?;
    all[at] = integer(&a[2])?.to_le_bytes()[0];
    Ok(Value::Bytea(all.into()))
}

fn get_bit(a: &[Datum<'_>]) -> Result<Value> {
    let all = bytes(&a[0])?;
    let at = index(integer(&a[1])?, all.len() * 8)?;
    Ok(Value::Int4(i32::from(all[at / 8] >> (at % 8) & 1)))
}

fn set_bit(a: &[Datum<'_>]) -> Result<Value> {
    let mut all = bytes(&a[0])?.to_vec();
    let at = index(integer(&a[1])?, all.len() * 8)?;
    let mask = 1u8 << (at % 8);
    match integer(&a[2])? {
        0 => all[at / 8] &= !mask,
        1 => all[at / 8] |= mask,
        _ => return Err(PgError::new("22023", "new bit must be 0 or 1")),
    }
    Ok(Value::Bytea(all.into()))
}

fn bit_count(a: &[Datum<'_>]) -> Result<Value> {
    Ok(Value::Int8(bytes(&a[0])?.iter().map(|b| i64::from(b.count_ones())).sum()))
}

fn utf8_name(name: &str, from: bool) -> Result<()> {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    match plain.as_str() {
        "utf8" | "unicode" => Ok(()),
        "latin1" | "iso88591" | "sqlascii" | "win1252" | "latin9" | "windows1252" => {
            Err(PgError::unsupported(format!("encoding {name}")))
        }
        _ if from => Err(PgError::new("22023", format!("invalid source encoding name \"{name}\""))),
        _ => Err(PgError::new("22023", format!("invalid destination encoding name \"{name}\""))),
    }
}

fn convert_from(a: &[Datum<'_>]) -> Result<Value> {
    utf8_name(text(&a[1])?, true)?;
    let all = bytes(&a[0])?;
    let bad = |at: usize| {
        let length = match all[at] {
            0xc0..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf7 => 4,
            _ => 1,
        };
        let shown: Vec<String> =
            all[at..].iter().take(length).map(|b| format!("0x{b:02x}")).collect();
        let what = format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" "));
        PgError::new("22021", what)
    };
    match std::str::from_utf8(all) {
        Ok(text) => match text.find('\0') {
            Some(at) => Err(bad(at)),
            None => made(text),
        },
        Err(error) => Err(bad(error.valid_up_to())),
    }
}

fn convert_to(a: &[Datum<'_>]) -> Result<Value> {
    utf8_name(text(&a[1])?, false)?;
    Ok(Value::Bytea(text(&a[0])?.as_bytes().into()))
}

const fn one(body: One) -> Body {
    Body::One(body)
}

pub(super) const LINES: &[Line] = &[
    ("encode(bytea, text) text", one(encode)),
    ("decode(text, text) bytea", one(decode)),
    ("get_byte(bytea, int4) int4", one(get_byte)),
    ("set_byte(bytea, int4, int4) bytea", one(set_byte)),
    ("get_bit(bytea, int8) int4", one(get_bit)),
    ("set_bit(bytea, int8, int4) bytea", one(set_bit)),
    ("bit_count(bytea) int8", one(bit_count)),
    ("convert_from(bytea, text) text", one(convert_from)),
    ("convert_to(text, text) bytea", one(convert_to)),
    ("sha224(bytea) bytea", one(digest::<sha2::Sha224>)),
    ("sha256(bytea) bytea", one(digest::<sha2::Sha256>)),
    ("sha384(bytea) bytea", one(digest::<sha2::Sha384>)),
    ("sha512(bytea) bytea", one(digest::<sha2::Sha512>)),
];

fn digest<D: sha2::Digest>(a: &[Datum<'_>]) -> Result<Value> {
    Ok(Value::Bytea(D::digest(bytes(&a[0])?).to_vec().into()))
}
