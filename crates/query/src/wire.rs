//! Values as clients send and receive them: PostgreSQL's text and binary formats.
//!
//! What it promises: output text is what PostgreSQL prints; what is sent in a format is read back
//! in it.

use crate::cast::parse_text;
use crate::datetime::{self, Zone};
use crate::error::{PgError, Result};
use crate::interval::push_interval;
use crate::memory::RESULT_BYTES_MIN;
use crate::types::{is_object_number, names_objects, oid};
use kernel::row::{ColType, Datum, EnumValue, Interval, TypeKind, Value};

/// First byte of a binary jsonb.
const JSONB_VERSION: u8 = 1;

/// What text conversions depend on.
#[derive(Clone, Copy, Debug)]
pub struct FormatEnv {
    pub zone: Zone,
    /// Start of the transaction, µs since 2000-01-01, for `'now'` and its like.
    pub now_us: i64,
    /// What a value that is made outside a plan may hold; else 53200.
    pub value_bytes: usize,
}

impl FormatEnv {
    /// UTC, at the epoch, and no values that are longer than a row: for what depends on neither.
    #[must_use]
    pub fn plain() -> FormatEnv {
        FormatEnv { zone: Zone::utc(), now_us: 0, value_bytes: RESULT_BYTES_MIN }
    }
}

/// Appends a value as text; nothing for NULL.
pub fn push_text(datum: &Datum<'_>, env: &FormatEnv, out: &mut Vec<u8>) {
    match datum {
        Datum::Null => {}
        Datum::Bool(v) => out.push(if *v { b't' } else { b'f' }),
        Datum::Int2(v) => push_int(i64::from(*v), out),
        Datum::Int4(v) => push_int(i64::from(*v), out),
        Datum::Int8(v) => push_int(*v, out),
        Datum::Float4(v) => {
            push_float(f64::from(*v), *v, (1e-4..1e6).contains(&v.abs()), out);
        }
        Datum::Float8(v) => push_float(*v, *v, (1e-4..1e15).contains(&v.abs()), out),
        Datum::Numeric(v, scale) => push_numeric(*v, *scale, out),
        Datum::Text(v) | Datum::Json(v) | Datum::Jsonb(v) => out.extend_from_slice(v.as_bytes()),
        Datum::Bytea(v) => {
            out.extend_from_slice(b"\\x");
            push_hex(v, out);
        }
        Datum::Date(v) => datetime::push_date(*v, out),
        Datum::Timestamp(v) => datetime::push_timestamp(*v, out),
        Datum::Timestamptz(v) => datetime::push_timestamptz(*v, &env.zone, out),
        Datum::Uuid(v) => push_uuid(*v, out),
        Datum::Time(v) => datetime::push_time(*v, out),
        Datum::Interval(v) => push_interval(*v, out),
        Datum::Array(v) => crate::array::push_array(v, env, out),
        Datum::Enum(v) => push_label(*v, out),
    }
}

/// The label; where it stands, should this instance not have learned of it yet (see [`EnumValue`]).
fn push_label(value: EnumValue, out: &mut Vec<u8>) {
    match value.label() {
        Some(label) => out.extend_from_slice(label.as_bytes()),
        None => push_int(value.position, out),
    }
}

/// A value as text.
#[must_use]
pub fn to_text(datum: &Datum<'_>, env: &FormatEnv) -> String {
    let mut out = Vec::new();
    push_text(datum, env, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

/// Appends a decimal number.
pub fn push_int(value: i64, out: &mut Vec<u8>) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

/// Shortest digits that read back the same; an exponent below 1e-4 and from 1e15 on.
/// Appends the fewest digits that mean `shown`, which is `value` in the precision of its type; with
/// an exponent unless it is `plain`.
fn push_float<T: std::fmt::Display + std::fmt::LowerExp>(
    value: f64,
    shown: T,
    plain: bool,
    out: &mut Vec<u8>,
) {
    if value.is_nan() {
        out.extend_from_slice(b"NaN");
        return;
    }
    if value.is_infinite() {
        out.extend_from_slice(if value > 0.0 { b"Infinity" } else { b"-Infinity" });
        return;
    }
    if value != 0.0 && !plain {
        let shown = format!("{shown:e}");
        let (mantissa, exponent) = shown.split_once('e').unwrap_or((&shown, "0"));
        let (sign, digits) = match exponent.strip_prefix('-') {
            Some(digits) => ('-', digits),
            None => ('+', exponent),
        };
        out.extend_from_slice(format!("{mantissa}e{sign}{digits:0>2}").as_bytes());
    } else {
        out.extend_from_slice(format!("{shown}").as_bytes());
    }
}

fn push_numeric(value: i128, scale: u8, out: &mut Vec<u8>) {
    let digits = value.unsigned_abs().to_string();
    if value < 0 {
        out.push(b'-');
    }
    let scale = usize::from(scale);
    if scale == 0 {
        out.extend_from_slice(digits.as_bytes());
        return;
    }
    if digits.len() > scale {
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        out.extend_from_slice(whole.as_bytes());
        out.push(b'.');
        out.extend_from_slice(fraction.as_bytes());
    } else {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', scale - digits.len()));
        out.extend_from_slice(digits.as_bytes());
    }
}

fn push_hex(bytes: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    for b in bytes {
        out.push(HEX[usize::from(b >> 4)]);
        out.push(HEX[usize::from(b & 15)]);
    }
}

fn push_uuid(uuid: [u8; 16], out: &mut Vec<u8>) {
    let mut from = 0;
    for to in [4, 6, 8, 10, 16] {
        if from > 0 {
            out.push(b'-');
        }
        push_hex(&uuid[from..to], out);
        from = to;
    }
}

/// Appends a value in binary format as the type `oid` of its column.
///
/// # Errors
/// 0A000 for a type without a binary format here; 22003 if it does not fit.
pub fn push_binary(datum: &Datum<'_>, type_oid: u32, out: &mut Vec<u8>) -> Result<()> {
    match datum {
        Datum::Null => {}
        Datum::Bool(v) => out.push(u8::from(*v)),
        Datum::Int2(v) => out.extend_from_slice(&v.to_be_bytes()),
        Datum::Int4(v) | Datum::Date(v) => out.extend_from_slice(&v.to_be_bytes()),
        Datum::Int8(v) if is_object_number(type_oid) => {
            let v = u32::try_from(*v).map_err(|_| PgError::out_of_range("OID"))?;
            out.extend_from_slice(&v.to_be_bytes());
        }
        Datum::Int8(v) | Datum::Timestamp(v) | Datum::Timestamptz(v) | Datum::Time(v) => {
            out.extend_from_slice(&v.to_be_bytes());
        }
        Datum::Uuid(v) => out.extend_from_slice(v),
        Datum::Interval(v) => {
            out.extend_from_slice(&v.us.to_be_bytes());
            out.extend_from_slice(&v.days.to_be_bytes());
            out.extend_from_slice(&v.months.to_be_bytes());
        }
        #[allow(clippy::cast_possible_truncation)] // a column of the catalog that is a float4
        Datum::Float8(v) if type_oid == oid::FLOAT4 => {
            out.extend_from_slice(&(*v as f32).to_be_bytes());
        }
        Datum::Float4(v) => out.extend_from_slice(&v.to_be_bytes()),
        Datum::Float8(v) => out.extend_from_slice(&v.to_be_bytes()),
        Datum::Numeric(v, scale) => push_binary_numeric(*v, *scale, out),
        // Such objects have been turned into their names, for a client that reads text.
        Datum::Text(_) if names_objects(type_oid) => {
            return Err(PgError::unsupported("binary output of an object's name; cast it to oid"));
        }
        Datum::Text(_) if matches!(type_oid, oid::RECORD | oid::RECORD_ARRAY) => {
            return Err(PgError::unsupported("binary output of a row; cast it to text"));
        }
        Datum::Text(v) | Datum::Json(v) => out.extend_from_slice(v.as_bytes()),
        Datum::Jsonb(v) => {
            out.push(JSONB_VERSION);
            out.extend_from_slice(v.as_bytes());
        }
        Datum::Bytea(v) => out.extend_from_slice(v),
        Datum::Enum(v) => push_label(*v, out),
        Datum::Array(v) => crate::array::push_binary_array(v, type_oid, out)?,
    }
    Ok(())
}

/// Count of base-10000 digits, weight, sign, scale, digits.
fn push_binary_numeric(value: i128, scale: u8, out: &mut Vec<u8>) {
    // The fraction is filled up to whole base-10000 digits.
    let scale_digits = usize::from(scale).div_ceil(4) * 4;
    let mut text = value.unsigned_abs().to_string();
    text.extend(std::iter::repeat_n('0', scale_digits - usize::from(scale)));
    let padded = text.len().div_ceil(4) * 4;
    let text = format!("{text:0>padded$}");
    let groups: Vec<i16> = text
        .as_bytes()
        .chunks(4)
        .map(|group| group.iter().fold(0, |n, b| n * 10 + i16::from(b - b'0')))
        .collect();
    let count = |n: usize| i16::try_from(n).unwrap_or(0);
    let mut weight = count(groups.len()) - count(scale_digits / 4) - 1;
    let leading = groups.iter().take_while(|g| **g == 0).count();
    let trailing = groups.iter().rev().take_while(|g| **g == 0).count();
    let digits = if leading == groups.len() {
        weight = 0;
        &[][..]
    } else {
        weight -= i16::try_from(leading).unwrap_or(0);
        &groups[leading..groups.len() - trailing]
    };
    out.extend_from_slice(&i16::try_from(digits.len()).unwrap_or(0).to_be_bytes());
    out.extend_from_slice(&weight.to_be_bytes());
    out.extend_from_slice(&(if value < 0 { 0x4000u16 } else { 0 }).to_be_bytes());
    out.extend_from_slice(&i16::from(scale).to_be_bytes());
    for digit in digits {
        out.extend_from_slice(&digit.to_be_bytes());
    }
}

/// Reads a parameter or COPY field.
///
/// # Errors
/// 22P02 or 22003 for text, 22P03 for binary.
pub fn decode(
    bytes: &[u8],
    ty: ColType,
    type_oid: u32,
    binary: bool,
    env: &FormatEnv,
) -> Result<Value> {
    if binary {
        return decode_binary(bytes, ty, type_oid);
    }
    parse_text(utf8(bytes)?, ty, env)
}

fn utf8(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes)
        .map_err(|_| PgError::new("22021", "invalid byte sequence for encoding \"UTF8\""))
}

fn array<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| {
        PgError::new("22P03", "incorrect binary data format")
            .with_detail(format!("{} bytes were sent where {N} are expected.", bytes.len()))
    })
}

fn decode_binary(bytes: &[u8], ty: ColType, type_oid: u32) -> Result<Value> {
    Ok(match ty.kind {
        TypeKind::Bool => Value::Bool(array::<1>(bytes)?[0] != 0),
        TypeKind::Int2 => Value::Int2(i16::from_be_bytes(array(bytes)?)),
        TypeKind::Int4 => Value::Int4(i32::from_be_bytes(array(bytes)?)),
        TypeKind::Int8 if is_object_number(type_oid) => {
            Value::Int8(i64::from(u32::from_be_bytes(array(bytes)?)))
        }
        TypeKind::Int8 => Value::Int8(i64::from_be_bytes(array(bytes)?)),
        TypeKind::Float4 => Value::Float4(f32::from_be_bytes(array(bytes)?)),
        TypeKind::Float8 if type_oid == oid::FLOAT4 => {
            Value::Float8(f64::from(f32::from_be_bytes(array(bytes)?)))
        }
        TypeKind::Float8 => Value::Float8(f64::from_be_bytes(array(bytes)?)),
        TypeKind::Numeric => decode_binary_numeric(bytes)?,
        TypeKind::Text | TypeKind::Varchar | TypeKind::Char => {
            let text = utf8(bytes)?;
            reject_nul(text)?;
            Value::Text(text.into())
        }
        TypeKind::Bytea => Value::Bytea(bytes.into()),
        TypeKind::Date => Value::Date(i32::from_be_bytes(array(bytes)?)),
        TypeKind::Timestamp => Value::Timestamp(i64::from_be_bytes(array(bytes)?)),
        TypeKind::Timestamptz => Value::Timestamptz(i64::from_be_bytes(array(bytes)?)),
        TypeKind::Uuid => Value::Uuid(array(bytes)?),
        TypeKind::Time => {
            let us = i64::from_be_bytes(array(bytes)?);
            if !(0..=datetime::US_PER_DAY).contains(&us) {
                return Err(PgError::new("22008", "time out of range"));
            }
            Value::Time(us)
        }
        TypeKind::Interval => {
            let [us, rest]: [[u8; 8]; 2] =
                [array(&bytes[..bytes.len().min(8)])?, array(&bytes[bytes.len().min(8)..])?];
            Value::Interval(crate::interval::checked(Interval {
                us: i64::from_be_bytes(us),
                days: i32::from_be_bytes(array(&rest[..4])?),
                months: i32::from_be_bytes(array(&rest[4..])?),
            })?)
        }
        TypeKind::Array => crate::array::decode_binary_array(bytes, ty)?,
        TypeKind::Enum | TypeKind::Json => parse_text(utf8(bytes)?, ty, &FormatEnv::plain())?,
        TypeKind::Jsonb => match bytes.split_first() {
            Some((&JSONB_VERSION, text)) => parse_text(utf8(text)?, ty, &FormatEnv::plain())?,
            _ => return Err(PgError::new("22P03", "unsupported jsonb version number")),
        },
    })
}

/// PostgreSQL's text cannot hold a zero byte.
///
/// # Errors
/// 22021.
pub fn reject_nul(text: &str) -> Result<()> {
    if text.as_bytes().contains(&0) {
        return Err(PgError::new("22021", "invalid byte sequence for encoding \"UTF8\": 0x00"));
    }
    Ok(())
}

fn decode_binary_numeric(bytes: &[u8]) -> Result<Value> {
    let bad = || PgError::new("22P03", "invalid binary numeric");
    let word = |i: usize| -> Result<i16> {
        bytes.get(i * 2..i * 2 + 2).map(|b| i16::from_be_bytes([b[0], b[1]])).ok_or_else(bad)
    };
    let (count, weight, sign, scale) = (word(0)?, word(1)?, word(2)?, word(3)?);
    let count = usize::try_from(count).map_err(|_| bad())?;
    let scale = u8::try_from(scale).map_err(|_| bad())?;
    if bytes.len() != 8 + count * 2 || !(sign == 0 || sign == 0x4000) {
        return Err(bad());
    }
    let too_large = || PgError::new("22003", "value overflows numeric format");
    let mut value: i128 = 0;
    for i in 0..count {
        let digit = word(4 + i)?;
        if !(0..10_000).contains(&digit) {
            return Err(bad());
        }
        value = value
            .checked_mul(10_000)
            .and_then(|v| v.checked_add(i128::from(digit)))
            .ok_or_else(too_large)?;
    }
    // Decimal digits after the point that `value` has now.
    let have = (i32::try_from(count).map_err(|_| bad())? - 1 - i32::from(weight)) * 4;
    let value = if have >= 0 {
        let have = u8::try_from(have).map_err(|_| too_large())?;
        crate::arith::rescale(value, have, scale)
    } else {
        crate::arith::pow10(have.unsigned_abs())
            .and_then(|unit| value.checked_mul(unit))
            .and_then(|value| crate::arith::rescale(value, 0, scale))
    };
    let value = value.ok_or_else(too_large)?;
    Ok(Value::Numeric(if sign == 0 { value } else { -value }, scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_postgresqls() {
        let env = FormatEnv::plain();
        for (datum, want) in [
            (Datum::Float8(1e15), "1e+15"),
            (Datum::Float8(100_000_000_000_000.0), "100000000000000"),
            (Datum::Float8(0.0001), "0.0001"),
            (Datum::Float8(0.00001), "1e-05"),
            (Datum::Float8(-0.1), "-0.1"),
            (Datum::Float8(0.0), "0"),
            (Datum::Numeric(-5, 3), "-0.005"),
            (Datum::Numeric(12_345, 2), "123.45"),
            (Datum::Bytea(&[0, 255]), "\\x00ff"),
            (Datum::Int8(i64::MIN), "-9223372036854775808"),
            (Datum::Bool(true), "t"),
        ] {
            assert_eq!(to_text(&datum, &env), want);
        }
    }

    #[test]
    fn numerics_survive_the_binary_format() {
        for (value, scale) in [
            (0, 0),
            (0, 3),
            (1, 0),
            (-1, 4),
            (10_000, 0),
            (123_456_789, 3),
            (5, 9),
            (i128::MAX / 100, 7),
        ] {
            let mut out = Vec::new();
            push_binary(&Datum::Numeric(value, scale), oid::NUMERIC, &mut out).unwrap();
            let ty = ColType::new(TypeKind::Numeric);
            let got = decode(&out, ty, oid::NUMERIC, true, &FormatEnv::plain()).unwrap();
            assert_eq!(got, Value::Numeric(value, scale));
        }
    }

    #[test]
    fn everyday_types_come_back_in_both_formats() {
        let env = FormatEnv::plain();
        for (kind, text, want) in [
            (TypeKind::Uuid, "A0EEBC999C0B4EF8BB6D6BB9BD380A11", Some(16)),
            (TypeKind::Time, "10:30:00.5", Some(8)),
            (TypeKind::Interval, "1 mon -2 days 00:00:01.5", Some(16)),
            (TypeKind::Json, "{ \"b\":1}", None),
            (TypeKind::Jsonb, "{\"b\":1,\"a\":[1.50]}", None),
        ] {
            let ty = ColType::new(kind);
            let type_oid = crate::types::PgType::of(ty).oid;
            let value = parse_text(text, ty, &env).unwrap();
            let mut out = Vec::new();
            push_binary(&value.as_datum(), type_oid, &mut out).unwrap();
            assert!(want.is_none_or(|len| out.len() == len), "{kind:?}");
            assert_eq!(decode(&out, ty, type_oid, true, &env).unwrap(), value);
            let shown = to_text(&value.as_datum(), &env);
            assert_eq!(parse_text(&shown, ty, &env).unwrap(), value, "{shown}");
            let cut = decode(&out[..out.len() - 1], ty, type_oid, true, &env);
            assert!(cut.is_err(), "{kind:?}");
        }
        let unknown = decode(b"\x02{}", ColType::new(TypeKind::Jsonb), oid::JSONB, true, &env);
        assert_eq!(unknown.unwrap_err().code, "22P03");
    }

    #[test]
    fn binary_of_the_wrong_length_is_refused() {
        let ty = ColType::new(TypeKind::Int4);
        let error = decode(&[1, 2], ty, oid::INT4, true, &FormatEnv::plain()).unwrap_err();
        assert_eq!(error.code, "22P03");
    }
}
