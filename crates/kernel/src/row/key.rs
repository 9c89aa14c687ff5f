//! Keys whose bytes compare as their values do. See the README for the form.

use super::{ArrayView, ColType, Datum, EnumValue, Interval, TypeKind, Value, encode_array};

const PRESENT: u8 = 0x01;
const NULL: u8 = 0xfe;
const NULL_FIRST: u8 = 0x00;
const AFTER_ALL: u8 = 0xff;
const ARRAY_END: u8 = 0x00;
const BYTES_END: [u8; 2] = [0, 0];
const NEGATIVE: u8 = 0x01;
const ZERO: u8 = 0x02;
const POSITIVE: u8 = 0x03;
/// Largest number of decimal digits of an `i128`.
const DIGITS_MAX: usize = 39;

/// Bytes that are not a key of the given types.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("malformed key: {0}")]
pub struct KeyError(&'static str);

/// Appends the key of `values` and says whether one of them is NULL (such a key never violates a
/// unique index).
pub fn encode_key(values: &[Datum<'_>], out: &mut Vec<u8>) -> bool {
    let mut has_null = false;
    for value in values {
        has_null |= value.is_null();
        encode_one(value, out);
    }
    has_null
}

/// How the values of a column stand in keys, one behind the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KeyOrder {
    pub descending: bool,
    pub nulls_first: bool,
}

/// Appends a value to a key in whose column values stand in `order`, and says whether it is NULL.
pub fn encode_ordered(value: &Datum<'_>, order: KeyOrder, out: &mut Vec<u8>) -> bool {
    if value.is_null() {
        out.push(if order.nulls_first { NULL_FIRST } else { NULL });
        return true;
    }
    let from = out.len() + 1;
    encode_one(value, out);
    if order.descending {
        // No value's bytes begin with those of another.
        out[from..].iter_mut().for_each(|b| *b = !*b);
    }
    false
}

/// Makes `key`, a prefix of whole columns, the least bound (inclusive) of keys that go on with a
/// value that is not NULL, in whatever order the column's values stand.
pub fn key_values_begin(key: &mut Vec<u8>) {
    key.push(PRESENT);
}

/// The same for their end (exclusive).
pub fn key_values_end(key: &mut Vec<u8>) {
    key.push(PRESENT + 1);
}

/// Makes `key`, a prefix of whole columns, greater than all keys that begin with it.
pub fn key_prefix_end(key: &mut Vec<u8>) {
    key.push(AFTER_ALL);
}

/// Turns a key of whole columns round: its length in two bytes, then its bytes from the last to the
/// first. Neighbours stand far from each other then, and no key begins with another one.
pub fn reverse_key(key: &mut Vec<u8>) {
    // Keys are below 64 KiB; a longer one is refused for its length.
    let len = u16::try_from(key.len()).unwrap_or(u16::MAX);
    key.extend_from_slice(&len.to_le_bytes());
    key.reverse();
}

/// The key that [`reverse_key`] has turned round, without what stands behind it; `None`: it has
/// not.
#[must_use]
pub fn unreversed_key(reversed: &[u8]) -> Option<Vec<u8>> {
    let (len, rest) = reversed.split_first_chunk::<2>()?;
    let key = rest.get(..usize::from(u16::from_be_bytes(*len)))?;
    Some(key.iter().rev().copied().collect())
}

fn encode_one(value: &Datum<'_>, out: &mut Vec<u8>) {
    if value.is_null() {
        out.push(NULL);
        return;
    }
    out.push(PRESENT);
    match value {
        Datum::Null => {}
        Datum::Bool(v) => out.push(u8::from(*v)),
        Datum::Int2(v) => out.extend_from_slice(&(v ^ i16::MIN).to_be_bytes()),
        Datum::Int4(v) | Datum::Date(v) => out.extend_from_slice(&(v ^ i32::MIN).to_be_bytes()),
        Datum::Int8(v) | Datum::Timestamp(v) | Datum::Timestamptz(v) | Datum::Time(v) => {
            out.extend_from_slice(&(v ^ i64::MIN).to_be_bytes());
        }
        // As wide as double precision, in whose order they are: keys of the two compare.
        Datum::Float4(v) => out.extend_from_slice(&float_bits(f64::from(*v)).to_be_bytes()),
        Datum::Float8(v) => out.extend_from_slice(&float_bits(*v).to_be_bytes()),
        Datum::Enum(v) => out.extend_from_slice(&(v.position ^ i64::MIN).to_be_bytes()),
        Datum::Numeric(v, scale) => encode_numeric(*v, *scale, out),
        Datum::Text(v) | Datum::Json(v) | Datum::Jsonb(v) => encode_bytes(v.as_bytes(), out),
        Datum::Uuid(v) => out.extend_from_slice(v),
        Datum::Interval(v) => {
            out.extend_from_slice(&(v.span_us() ^ i128::MIN).to_be_bytes());
        }
        Datum::Bytea(v) => encode_bytes(v, out),
        Datum::Array(v) => {
            // The end is smaller than any element, NULL greater than all of them.
            ArrayView::new(v).iter().for_each(|element| encode_one(&element, out));
            out.push(ARRAY_END);
        }
    }
}

/// Bits whose unsigned order is SQL's: -0 equals 0, NaN is the greatest.
fn float_bits(v: f64) -> u64 {
    let v = if v == 0.0 { 0.0 } else { v };
    let v = if v.is_nan() { f64::NAN.copysign(1.0) } else { v };
    let bits = v.to_bits();
    if bits >> 63 == 0 { bits | (1 << 63) } else { !bits }
}

fn encode_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len() + BYTES_END.len());
    let mut rest = bytes;
    // `contains` looks at many bytes at once, and few texts have a zero.
    while rest.contains(&0) {
        let after = rest.iter().position(|b| *b == 0).map_or(rest.len(), |at| at + 1);
        let (head, tail) = rest.split_at(after);
        out.extend_from_slice(head);
        out.push(0xff);
        rest = tail;
    }
    out.extend_from_slice(rest);
    out.extend_from_slice(&BYTES_END);
}

/// Sign, then the decimal exponent of the first digit, then the digits in pairs, each plus one so
/// that 0 ends them; trailing zeros are gone, so equal values have equal bytes.
#[allow(clippy::cast_possible_truncation)] // single digits
fn encode_numeric(v: i128, scale: u8, out: &mut Vec<u8>) {
    if v == 0 {
        out.push(ZERO);
        return;
    }
    let mut digits = [0u8; DIGITS_MAX];
    let mut start = DIGITS_MAX;
    let mut rest = v.unsigned_abs();
    while rest > 0 {
        start -= 1;
        digits[start] = (rest % 10) as u8;
        rest /= 10;
    }
    let digits = &digits[start..];
    let exponent = digits.len() as i16 - i16::from(scale);
    let significant = digits.iter().rposition(|d| *d != 0).map_or(0, |last| last + 1);
    out.push(if v < 0 { NEGATIVE } else { POSITIVE });
    let from = out.len();
    out.extend_from_slice(&(exponent ^ i16::MIN).to_be_bytes());
    for pair in digits[..significant].chunks(2) {
        let low = pair.get(1).copied().unwrap_or(0);
        out.push(pair[0] * 10 + low + 1);
    }
    out.push(0);
    if v < 0 {
        out[from..].iter_mut().for_each(|b| *b = !*b);
    }
}

/// Appends the values of a key to `out`. Numeric values come back without trailing zeros,
/// intervals with days as months and hours as days.
///
/// # Errors
/// [`KeyError`] if the bytes are not a key of these types.
pub fn decode_key(types: &[ColType], key: &[u8], out: &mut Vec<Value>) -> Result<(), KeyError> {
    let rest = decode_key_prefix(types, key, out)?;
    if rest.is_empty() { Ok(()) } else { Err(KeyError("bytes after the last column")) }
}

/// As [`decode_key`] for a key with something behind it, an address say, which it returns.
///
/// # Errors
/// As [`decode_key`].
pub fn decode_key_prefix<'a>(
    types: &[ColType],
    key: &'a [u8],
    out: &mut Vec<Value>,
) -> Result<&'a [u8], KeyError> {
    decode_ordered_prefix(types, &[], key, out)
}

/// The same where the values of columns stand in these orders; those of further columns ascend.
///
/// # Errors
/// As [`decode_key`].
pub fn decode_ordered_prefix<'a>(
    types: &[ColType],
    orders: &[KeyOrder],
    key: &'a [u8],
    out: &mut Vec<Value>,
) -> Result<&'a [u8], KeyError> {
    let mut rest = key;
    for (at, ty) in types.iter().enumerate() {
        let marker = take(&mut rest, 1)?[0];
        match marker {
            NULL | NULL_FIRST => out.push(Value::Null),
            PRESENT if orders.get(at).is_some_and(|order| order.descending) => {
                let turned: Vec<u8> = rest.iter().map(|b| !b).collect();
                let mut behind = &*turned;
                out.push(decode_one(*ty, &mut behind)?);
                rest = &rest[turned.len() - behind.len()..];
            }
            PRESENT => out.push(decode_one(*ty, &mut rest)?),
            _ => return Err(KeyError("unknown marker")),
        }
    }
    Ok(rest)
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Result<&'a [u8], KeyError> {
    let (head, tail) = rest.split_at_checked(count).ok_or(KeyError("cut off"))?;
    *rest = tail;
    Ok(head)
}

fn take_array<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], KeyError> {
    take(rest, N)?.try_into().map_err(|_| KeyError("cut off"))
}

fn take_float(rest: &mut &[u8]) -> Result<f64, KeyError> {
    let bits = u64::from_be_bytes(take_array(rest)?);
    Ok(f64::from_bits(if bits >> 63 == 1 { bits & !(1 << 63) } else { !bits }))
}

fn decode_one(ty: ColType, rest: &mut &[u8]) -> Result<Value, KeyError> {
    Ok(match ty.kind {
        TypeKind::Bool => Value::Bool(take(rest, 1)?[0] != 0),
        TypeKind::Int2 => Value::Int2(i16::from_be_bytes(take_array(rest)?) ^ i16::MIN),
        TypeKind::Int4 => Value::Int4(i32::from_be_bytes(take_array(rest)?) ^ i32::MIN),
        TypeKind::Date => Value::Date(i32::from_be_bytes(take_array(rest)?) ^ i32::MIN),
        TypeKind::Int8 => Value::Int8(i64::from_be_bytes(take_array(rest)?) ^ i64::MIN),
        TypeKind::Timestamp => Value::Timestamp(i64::from_be_bytes(take_array(rest)?) ^ i64::MIN),
        TypeKind::Timestamptz => {
            Value::Timestamptz(i64::from_be_bytes(take_array(rest)?) ^ i64::MIN)
        }
        #[allow(clippy::cast_possible_truncation)] // it came from one
        TypeKind::Float4 => Value::Float4(take_float(rest)? as f32),
        TypeKind::Float8 => Value::Float8(take_float(rest)?),
        TypeKind::Numeric => decode_numeric(rest)?,
        TypeKind::Text | TypeKind::Varchar | TypeKind::Char => Value::Text(decode_text(rest)?),
        TypeKind::Json => Value::Json(decode_text(rest)?),
        TypeKind::Jsonb => Value::Jsonb(decode_text(rest)?),
        TypeKind::Uuid => Value::Uuid(take_array(rest)?),
        TypeKind::Time => Value::Time(i64::from_be_bytes(take_array(rest)?) ^ i64::MIN),
        TypeKind::Interval => decode_interval(i128::from_be_bytes(take_array(rest)?) ^ i128::MIN)?,
        TypeKind::Bytea => Value::Bytea(decode_bytes(rest)?.into_boxed_slice()),
        TypeKind::Array => decode_elements(ty, rest)?,
        TypeKind::Enum => {
            let position = i64::from_be_bytes(take_array(rest)?) ^ i64::MIN;
            Value::Enum(EnumValue { of: ty.modifier, position })
        }
    })
}

fn decode_elements(ty: ColType, rest: &mut &[u8]) -> Result<Value, KeyError> {
    let element = ty.element().ok_or(KeyError("an array of unknown elements"))?;
    let mut elements = Vec::new();
    loop {
        match take(rest, 1)?[0] {
            ARRAY_END => break,
            NULL => elements.push(Value::Null),
            PRESENT => elements.push(decode_one(element, rest)?),
            _ => return Err(KeyError("unknown marker")),
        }
    }
    let elements: Vec<Datum<'_>> = elements.iter().map(Value::as_datum).collect();
    Ok(Value::Array(encode_array(element.kind, &elements)))
}

fn decode_text(rest: &mut &[u8]) -> Result<Box<str>, KeyError> {
    let text = String::from_utf8(decode_bytes(rest)?).map_err(|_| KeyError("text is not UTF-8"))?;
    Ok(text.into_boxed_str())
}

/// In whole months and days as far as they go: the key keeps only the length.
fn decode_interval(span_us: i128) -> Result<Value, KeyError> {
    let range = |_| KeyError("interval out of range");
    let us = i64::try_from(span_us % i128::from(Interval::US_PER_DAY)).map_err(range)?;
    let days = i64::try_from(span_us / i128::from(Interval::US_PER_DAY)).map_err(range)?;
    Ok(Value::Interval(Interval {
        months: i32::try_from(days / Interval::DAYS_PER_MONTH).map_err(range)?,
        days: i32::try_from(days % Interval::DAYS_PER_MONTH).map_err(range)?,
        us,
    }))
}

fn decode_bytes(rest: &mut &[u8]) -> Result<Vec<u8>, KeyError> {
    let mut out = Vec::new();
    loop {
        let at = rest.iter().position(|b| *b == 0).ok_or(KeyError("text without end"))?;
        out.extend_from_slice(take(rest, at)?);
        match take(rest, 2)?[1] {
            0x00 => return Ok(out),
            0xff => out.push(0),
            _ => return Err(KeyError("unknown escape")),
        }
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // at most 40 digits
fn decode_numeric(rest: &mut &[u8]) -> Result<Value, KeyError> {
    let sign = take(rest, 1)?[0];
    let flip = match sign {
        ZERO => return Ok(Value::Numeric(0, 0)),
        POSITIVE => 0x00,
        NEGATIVE => 0xff,
        _ => return Err(KeyError("unknown sign")),
    };
    let exponent: [u8; 2] = take_array(rest)?;
    let exponent = i16::from_be_bytes(exponent.map(|b| b ^ flip)) ^ i16::MIN;
    // Zeros wait until a digit follows them: the last digits may be zeros that do not fit.
    let (mut value, mut digits, mut zeros) = (0u128, 0i16, 0u32);
    loop {
        let pair = take(rest, 1)?[0] ^ flip;
        if pair == 0 {
            break;
        }
        let pair = pair - 1;
        for digit in [pair / 10, pair % 10] {
            if digit == 0 {
                zeros += 1;
                continue;
            }
            let factor = 10u128.checked_pow(zeros + 1);
            value = factor
                .and_then(|factor| value.checked_mul(factor))
                .and_then(|value| value.checked_add(u128::from(digit)))
                .ok_or(KeyError("numeric out of range"))?;
            digits += zeros as i16 + 1;
            zeros = 0;
        }
    }
    let mut scale = i32::from(digits) - i32::from(exponent);
    while scale < 0 {
        value = value.checked_mul(10).ok_or(KeyError("numeric out of range"))?;
        scale += 1;
    }
    let scale = u8::try_from(scale).map_err(|_| KeyError("numeric out of range"))?;
    let magnitude = if sign == NEGATIVE {
        0i128.checked_sub_unsigned(value)
    } else {
        i128::try_from(value).ok()
    };
    Ok(Value::Numeric(magnitude.ok_or(KeyError("numeric out of range"))?, scale))
}
