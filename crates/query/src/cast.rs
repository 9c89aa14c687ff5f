//! Conversions between types: text to values, and values to the type of a column.
//!
//! What it promises: a value that does not fit is an error with PostgreSQL's SQLSTATE, never a
//! silently
//! different value; the exceptions are those of SQL (rounding of numerics, blanks cut from char).

use crate::arith::{pow10, rescale};
use crate::datetime;
use crate::error::{PgError, Result};
use crate::interval::{self, Fields};
use crate::json::Json;
use crate::wire::{FormatEnv, reject_nul, to_text};
use kernel::row::{ArrayView, ColType, Datum, EnumValue, Interval, PRECISION_MAX, TypeKind, Value};

/// Who asks for a conversion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CastMode {
    /// A value goes into a column: too long text is an error.
    Assignment,
    /// `CAST` or `::`: too long text is cut.
    Explicit,
}

/// Reads a value of type `ty` from its text form.
///
/// # Errors
/// 22P02, 22003, 22007, 22008, 22001.
pub fn parse_text(text: &str, ty: ColType, env: &FormatEnv) -> Result<Value> {
    let value = match ty.kind {
        TypeKind::Bool => Value::Bool(parse_bool(text)?),
        TypeKind::Int2 => Value::Int2(parse_int(text, "smallint")?),
        TypeKind::Int4 => Value::Int4(parse_int(text, "integer")?),
        TypeKind::Int8 => Value::Int8(parse_int(text, "bigint")?),
        TypeKind::Float4 => Value::Float4(parse_float4(text)?),
        TypeKind::Float8 => Value::Float8(parse_float8(text)?),
        TypeKind::Numeric => {
            let (value, scale) = parse_numeric(text)?;
            fit_numeric(value, scale, ty)?
        }
        TypeKind::Text | TypeKind::Varchar | TypeKind::Char => {
            reject_nul(text)?;
            Value::Text(fit_text(text, ty, CastMode::Assignment)?.into())
        }
        TypeKind::Bytea => Value::Bytea(parse_bytea(text)?.into_boxed_slice()),
        TypeKind::Date => Value::Date(datetime::parse_date(text, local_now(env))?),
        TypeKind::Timestamp => Value::Timestamp(datetime::parse_timestamp(text, local_now(env))?),
        TypeKind::Timestamptz => {
            Value::Timestamptz(datetime::parse_timestamptz(text, &env.zone, env.now_us)?)
        }
        TypeKind::Uuid => Value::Uuid(parse_uuid(text)?),
        TypeKind::Time => Value::Time(datetime::parse_time_of_day(text, local_now(env))?),
        TypeKind::Interval => Value::Interval(interval::parse_in(text, Fields::of(ty))?),
        TypeKind::Json => {
            Json::parse(text)?;
            Value::Json(text.into())
        }
        TypeKind::Jsonb => Value::Jsonb(Json::parse(text)?.to_jsonb()?.into()),
        TypeKind::Array => crate::array::parse_array(text, ty, env)?,
        TypeKind::Enum => Value::Enum(ty.enum_value(text).ok_or_else(|| {
            PgError::new("22P02", format!("invalid input value for enum {ty}: \"{text}\""))
        })?),
    };
    Ok(fit_time(value, ty))
}

/// What the session's clock shows.
fn local_now(env: &FormatEnv) -> i64 {
    env.zone.local(env.now_us)
}

/// A point in time or an interval with as many digits of a second as its type has: halves go away
/// from zero, which is the year 2000. And an interval without what is smaller than its type's
/// fields.
fn fit_time(value: Value, ty: ColType) -> Value {
    let value = match value {
        Value::Interval(v) if ty.kind == TypeKind::Interval => {
            Value::Interval(Fields::of(ty).cut(v))
        }
        other => other,
    };
    let Some(digits) = ty.precision().filter(|digits| *digits < PRECISION_MAX) else {
        return value;
    };
    let unit = 10i64.pow(u32::from(PRECISION_MAX - digits));
    let rounded = |us: i64| match us.checked_add(us.signum() * (unit / 2)) {
        Some(sum) if !datetime::is_infinite(us) => sum / unit * unit,
        _ => us,
    };
    match value {
        Value::Timestamp(us) => Value::Timestamp(rounded(us)),
        Value::Timestamptz(us) => Value::Timestamptz(rounded(us)),
        Value::Time(us) => Value::Time(rounded(us)),
        Value::Interval(v) => Value::Interval(Interval { us: rounded(v.us), ..v }),
        other => other,
    }
}

/// # Errors
/// 22P02.
pub fn parse_bool(text: &str) -> Result<bool> {
    let lower = text.trim().to_ascii_lowercase();
    let is_prefix = |word: &str, min: usize| lower.len() >= min && word.starts_with(&lower);
    if lower == "1" || is_prefix("true", 1) || is_prefix("yes", 1) || lower == "on" {
        Ok(true)
    } else if lower == "0" || is_prefix("false", 1) || is_prefix("no", 1) || is_prefix("off", 2) {
        Ok(false)
    } else {
        Err(PgError::invalid_text("boolean", text))
    }
}

fn parse_int<T: std::str::FromStr<Err = std::num::ParseIntError>>(
    text: &str,
    type_name: &str,
) -> Result<T> {
    use std::num::IntErrorKind;
    text.trim().parse::<T>().map_err(|error| match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => {
            PgError::new("22003", format!("value \"{text}\" is out of range for type {type_name}"))
        }
        _ => PgError::invalid_text(type_name, text),
    })
}

fn parse_float8(text: &str) -> Result<f64> {
    parse_float(text, "double precision", f64::is_infinite, |v| v == 0.0)
}

fn parse_float4(text: &str) -> Result<f32> {
    parse_float(text, "real", f32::is_infinite, |v| v == 0.0)
}

fn parse_float<T: std::str::FromStr + Copy>(
    text: &str,
    type_name: &str,
    is_infinite: fn(T) -> bool,
    is_zero: fn(T) -> bool,
) -> Result<T> {
    let trimmed = text.trim();
    let parsed: T = trimmed.parse().map_err(|_| PgError::invalid_text(type_name, text))?;
    let digits = trimmed.split(['e', 'E']).next().unwrap_or_default();
    let written_infinite = digits.contains(['i', 'I']);
    let written_zero = !digits.bytes().any(|b| matches!(b, b'1'..=b'9'));
    if is_infinite(parsed) && !written_infinite || is_zero(parsed) && !written_zero {
        let text = format!("\"{text}\" is out of range for type {type_name}");
        return Err(PgError::new("22003", text));
    }
    Ok(parsed)
}

/// Reads a decimal number with its scale.
///
/// # Errors
/// 22P02; 22003 beyond 38 digits; 0A000 for what is no number.
pub fn parse_numeric(text: &str) -> Result<(i128, u8)> {
    let invalid = || PgError::invalid_text("numeric", text);
    let too_large = || {
        PgError::new("22003", "value overflows numeric format")
            .with_detail("Numeric values have at most 38 digits here.")
    };
    let trimmed = text.trim();
    let word = trimmed.trim_start_matches(['-', '+']);
    if ["nan", "inf", "infinity"].iter().any(|known| word.eq_ignore_ascii_case(known)) {
        return Err(PgError::unsupported(format!("the numeric value {trimmed}")));
    }
    let (mantissa, exponent) = match trimmed.find(['e', 'E']) {
        Some(at) => (&trimmed[..at], trimmed[at + 1..].parse::<i32>().map_err(|_| invalid())?),
        None => (trimmed, 0),
    };
    let (negative, digits) = match mantissa.as_bytes().first() {
        Some(b'-') => (true, &mantissa[1..]),
        Some(b'+') => (false, &mantissa[1..]),
        _ => (false, mantissa),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return Err(invalid());
    }
    let mut value: i128 = 0;
    for b in whole.bytes().chain(fraction.bytes()) {
        if !b.is_ascii_digit() {
            return Err(invalid());
        }
        value = value
            .checked_mul(10)
            .and_then(|v| v.checked_add(i128::from(b - b'0')))
            .ok_or_else(too_large)?;
    }
    let scale = i32::try_from(fraction.len()).map_err(|_| too_large())?.saturating_sub(exponent);
    if scale < 0 {
        value =
            pow10(scale.unsigned_abs()).and_then(|p| value.checked_mul(p)).ok_or_else(too_large)?;
    }
    let scale = u8::try_from(scale.max(0)).map_err(|_| too_large())?;
    Ok((if negative { -value } else { value }, scale))
}

fn fit_numeric(value: i128, scale: u8, ty: ColType) -> Result<Value> {
    let Some((precision, wanted)) = ty.precision_scale() else {
        return Ok(Value::Numeric(value, scale));
    };
    let rounded = rescale(value, scale, wanted);
    let limit = pow10(u32::from(precision));
    match (rounded, limit) {
        (Some(v), Some(limit)) if v.abs() < limit => Ok(Value::Numeric(v, wanted)),
        _ => Err(PgError::new("22003", "numeric field overflow").with_detail(format!(
            "A field with precision {precision}, scale {wanted} must round to an absolute value \
             less than {}{}.",
            if precision == wanted { "1" } else { "10^" },
            if precision == wanted { String::new() } else { (precision - wanted).to_string() },
        ))),
    }
}

fn fit_text(text: &str, ty: ColType, mode: CastMode) -> Result<&str> {
    let text = if ty.kind == TypeKind::Char {
        // As bytes: looking back for characters costs several times as much.
        &text[..text.bytes().rposition(|b| b != b' ').map_or(0, |last| last + 1)]
    } else {
        text
    };
    let Some(limit) = ty.length() else { return Ok(text) };
    // Bytes are at least as many as characters: the common case needs no counting.
    if text.len() <= limit {
        return Ok(text);
    }
    match text.char_indices().nth(limit) {
        None => Ok(text),
        Some((at, _)) => {
            if mode == CastMode::Explicit || text[at..].bytes().all(|b| b == b' ') {
                Ok(&text[..at])
            } else {
                Err(PgError::new("22001", format!("value too long for type {ty}")))
            }
        }
    }
}

/// 32 hexadecimal digits, in braces or not, with hyphens after any four.
fn parse_uuid(text: &str) -> Result<[u8; 16]> {
    let invalid = || PgError::invalid_text("uuid", text);
    let body = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}').ok_or_else(invalid)?,
        None => text,
    };
    let (mut out, mut count, mut hyphen_allowed) = ([0u8; 16], 0usize, false);
    for c in body.chars() {
        if c == '-' && hyphen_allowed {
            hyphen_allowed = false;
            continue;
        }
        let digit = c.to_digit(16).filter(|_| count < 32).ok_or_else(invalid)?;
        let digit = u8::try_from(digit).map_err(|_| invalid())?;
        out[count / 2] = out[count / 2] << 4 | digit;
        count += 1;
        hyphen_allowed = count.is_multiple_of(4) && count < 32;
    }
    if count == 32 { Ok(out) } else { Err(invalid()) }
}

fn parse_bytea(text: &str) -> Result<Vec<u8>> {
    let invalid = || PgError::invalid_text("bytea", text);
    if let Some(hex) = text.strip_prefix("\\x") {
        if let Some(other) =
            hex.chars().find(|c| !c.is_ascii_whitespace() && !c.is_ascii_hexdigit())
        {
            let text = format!("invalid hexadecimal digit: \"{other}\"");
            return Err(PgError::new("22023", text));
        }
        let digits: Vec<u8> = hex.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
        if !digits.len().is_multiple_of(2) {
            return Err(PgError::new("22023", "invalid hexadecimal data: odd number of digits"));
        }
        return digits
            .chunks(2)
            .map(|pair| {
                let text = std::str::from_utf8(pair).map_err(|_| invalid())?;
                u8::from_str_radix(text, 16).map_err(|_| invalid())
            })
            .collect();
    }
    let mut out = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        if bytes[i] != b'\\' {
            out.push(bytes[i]);
            i += 1;
        } else if bytes.get(i + 1) == Some(&b'\\') {
            out.push(b'\\');
            i += 2;
        } else {
            let octal = text.get(i + 1..i + 4).ok_or_else(invalid)?;
            out.push(u8::from_str_radix(octal, 8).map_err(|_| invalid())?);
            i += 4;
        }
    }
    Ok(out)
}

/// A value converted to type `ty`.
///
/// # Errors
/// 42846 if there is no such conversion, else as [`parse_text`].
pub fn cast(datum: &Datum<'_>, ty: ColType, mode: CastMode, env: &FormatEnv) -> Result<Value> {
    let no_cast = || PgError::new("42846", format!("cannot cast type {} to {ty}", name_of(datum)));
    let value = match (datum, ty.kind) {
        (Datum::Null, _) => Value::Null,
        (Datum::Text(text), kind) if kind.is_text() => {
            Value::Text(fit_text(text, ty, mode)?.into())
        }
        (Datum::Text(text), _) => parse_text(text, ty, env)?,
        (other, kind) if kind.is_text() => {
            let text = match other {
                Datum::Bool(v) => if *v { "true" } else { "false" }.to_owned(),
                other => to_text(other, env),
            };
            Value::Text(fit_text(&text, ty, mode)?.into())
        }
        (Datum::Bool(v), TypeKind::Bool) => Value::Bool(*v),
        (Datum::Bool(v), TypeKind::Int4) => Value::Int4(i32::from(*v)),
        (Datum::Int4(v), TypeKind::Bool) => Value::Bool(*v != 0),
        (Datum::Bytea(v), TypeKind::Bytea) => Value::Bytea((*v).into()),
        (Datum::Date(v), TypeKind::Date) => Value::Date(*v),
        (Datum::Date(v), TypeKind::Timestamp) => Value::Timestamp(datetime::midnight(*v)),
        (Datum::Date(v), TypeKind::Timestamptz) => {
            Value::Timestamptz(env.zone.to_utc(datetime::midnight(*v)))
        }
        (Datum::Timestamp(v), TypeKind::Timestamp) => Value::Timestamp(*v),
        (Datum::Timestamp(v), TypeKind::Timestamptz) => Value::Timestamptz(env.zone.to_utc(*v)),
        (Datum::Timestamp(v), TypeKind::Date) => Value::Date(days(*v)?),
        (Datum::Timestamptz(v), TypeKind::Timestamptz) => Value::Timestamptz(*v),
        (Datum::Timestamptz(v), TypeKind::Timestamp) => Value::Timestamp(local(*v, env)),
        (Datum::Timestamptz(v), TypeKind::Date) => Value::Date(days(local(*v, env))?),
        (Datum::Timestamp(v), TypeKind::Time) => Value::Time(v.rem_euclid(datetime::US_PER_DAY)),
        (Datum::Timestamptz(v), TypeKind::Time) => {
            Value::Time(local(*v, env).rem_euclid(datetime::US_PER_DAY))
        }
        (Datum::Interval(v), TypeKind::Time) => Value::Time(v.us.rem_euclid(datetime::US_PER_DAY)),
        (Datum::Time(v), TypeKind::Interval) => Value::Interval(interval::of_us(*v)),
        (Datum::Time(v), TypeKind::Time) => Value::Time(*v),
        (Datum::Interval(v), TypeKind::Interval) => Value::Interval(*v),
        (Datum::Uuid(v), TypeKind::Uuid) => Value::Uuid(*v),
        (Datum::Enum(v), TypeKind::Enum) => Value::Enum(same_enum(*v, ty).ok_or_else(no_cast)?),
        (Datum::Array(v), TypeKind::Array) => crate::array::cast_array(v, ty, mode, env)?,
        (Datum::Json(v), TypeKind::Json) => Value::Json((*v).into()),
        (Datum::Jsonb(v), TypeKind::Jsonb) => Value::Jsonb((*v).into()),
        (Datum::Jsonb(v), TypeKind::Json) => Value::Json((*v).into()),
        (Datum::Json(v), TypeKind::Jsonb) => parse_text(v, ty, env)?,
        (Datum::Jsonb(v), _) if mode == CastMode::Explicit => cast_jsonb(v, ty, env)?,
        (number, kind) if is_number(number) => {
            cast_number(number, kind, ty).ok_or_else(no_cast)??
        }
        _ => return Err(no_cast()),
    };
    Ok(fit_time(value, ty))
}

/// A value of a type as one of the same type, perhaps in another version of it.
fn same_enum(value: EnumValue, to: ColType) -> Option<EnumValue> {
    let same = value.ty() == to || value.ty().enum_type()?.obj == to.enum_type()?.obj;
    same.then_some(EnumValue { of: to.modifier, position: value.position })
}

/// A number or boolean out of a jsonb.
fn cast_jsonb(text: &str, ty: ColType, env: &FormatEnv) -> Result<Value> {
    let parsed = Json::parse(text)?;
    let number = is_number_kind(ty.kind);
    match &parsed {
        Json::Number(digits) if number => {
            let (v, scale) = parse_numeric(digits)?;
            cast(&Datum::Numeric(v, scale), ty, CastMode::Explicit, env)
        }
        Json::Bool(v) if ty.kind == TypeKind::Bool => Ok(Value::Bool(*v)),
        _ if number || ty.kind == TypeKind::Bool => {
            let what = parsed.type_name();
            Err(PgError::new("22023", format!("cannot cast jsonb {what} to type {ty}")))
        }
        _ => Err(PgError::new("42846", format!("cannot cast type jsonb to {ty}"))),
    }
}

const fn is_number_kind(kind: TypeKind) -> bool {
    matches!(
        kind,
        TypeKind::Int2
            | TypeKind::Int4
            | TypeKind::Int8
            | TypeKind::Float4
            | TypeKind::Float8
            | TypeKind::Numeric
    )
}

fn local(us: i64, env: &FormatEnv) -> i64 {
    env.zone.local(us)
}

fn days(us: i64) -> Result<i32> {
    if datetime::is_infinite(us) {
        return Ok(if us == i64::MAX { i32::MAX } else { i32::MIN });
    }
    datetime::date_of(us.div_euclid(datetime::US_PER_DAY))
}

pub(crate) const fn is_number(datum: &Datum<'_>) -> bool {
    matches!(
        datum,
        Datum::Int2(_)
            | Datum::Int4(_)
            | Datum::Int8(_)
            | Datum::Float4(_)
            | Datum::Float8(_)
            | Datum::Numeric(..)
    )
}

fn name_of(datum: &Datum<'_>) -> ColType {
    if let Datum::Array(bytes) = datum {
        return ColType::array_of(ArrayView::new(bytes).kind());
    }
    if let Datum::Enum(value) = datum {
        return value.ty();
    }
    ColType::new(kind_of(datum).unwrap_or(TypeKind::Text))
}

/// The kind a value is of; `None` for NULL.
#[must_use]
pub const fn kind_of(datum: &Datum<'_>) -> Option<TypeKind> {
    Some(match datum {
        Datum::Null => return None,
        Datum::Bool(_) => TypeKind::Bool,
        Datum::Int2(_) => TypeKind::Int2,
        Datum::Int4(_) => TypeKind::Int4,
        Datum::Int8(_) => TypeKind::Int8,
        Datum::Float4(_) => TypeKind::Float4,
        Datum::Float8(_) => TypeKind::Float8,
        Datum::Numeric(..) => TypeKind::Numeric,
        Datum::Text(_) => TypeKind::Text,
        Datum::Bytea(_) => TypeKind::Bytea,
        Datum::Date(_) => TypeKind::Date,
        Datum::Timestamp(_) => TypeKind::Timestamp,
        Datum::Timestamptz(_) => TypeKind::Timestamptz,
        Datum::Uuid(_) => TypeKind::Uuid,
        Datum::Time(_) => TypeKind::Time,
        Datum::Interval(_) => TypeKind::Interval,
        Datum::Json(_) => TypeKind::Json,
        Datum::Jsonb(_) => TypeKind::Jsonb,
        Datum::Array(_) => TypeKind::Array,
        Datum::Enum(_) => TypeKind::Enum,
    })
}

fn cast_number(number: &Datum<'_>, kind: TypeKind, ty: ColType) -> Option<Result<Value>> {
    Some(match kind {
        TypeKind::Int2 => to_i64(number, "smallint").and_then(|v| {
            i16::try_from(v).map(Value::Int2).map_err(|_| PgError::out_of_range("smallint"))
        }),
        TypeKind::Int4 => to_i64(number, "integer").and_then(|v| {
            i32::try_from(v).map(Value::Int4).map_err(|_| PgError::out_of_range("integer"))
        }),
        TypeKind::Int8 => to_i64(number, "bigint").map(Value::Int8),
        TypeKind::Float4 => to_f32(number).map(Value::Float4),
        TypeKind::Float8 => to_f64(number).map(Value::Float8),
        TypeKind::Numeric => to_numeric(number).and_then(|(v, scale)| fit_numeric(v, scale, ty)),
        _ => return None,
    })
}

fn to_i64(number: &Datum<'_>, type_name: &str) -> Result<i64> {
    let range = || PgError::out_of_range(type_name);
    match number {
        Datum::Int2(v) => Ok(i64::from(*v)),
        Datum::Int4(v) => Ok(i64::from(*v)),
        Datum::Int8(v) => Ok(*v),
        Datum::Numeric(v, scale) => {
            rescale(*v, *scale, 0).and_then(|v| i64::try_from(v).ok()).ok_or_else(range)
        }
        Datum::Float4(v) => to_i64(&Datum::Float8(f64::from(*v)), type_name),
        #[allow(clippy::cast_possible_truncation)] // the range is checked before
        Datum::Float8(v) => {
            let rounded = v.round_ties_even();
            if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded) {
                Ok(rounded as i64)
            } else {
                Err(range())
            }
        }
        _ => Err(range()),
    }
}

/// A number as double precision; 0 for what is no number.
///
/// # Errors
/// 22003 if a numeric cannot be read as one.
#[allow(clippy::cast_precision_loss)] // that is what the conversion means
pub fn to_f64(number: &Datum<'_>) -> Result<f64> {
    Ok(match number {
        Datum::Int2(v) => f64::from(*v),
        Datum::Int4(v) => f64::from(*v),
        Datum::Int8(v) => *v as f64,
        Datum::Float4(v) => f64::from(*v),
        Datum::Float8(v) => *v,
        // Through text: a division would round twice.
        numeric => to_text(numeric, &FormatEnv::plain())
            .parse()
            .map_err(|_| PgError::out_of_range("double precision"))?,
    })
}

/// A number as real.
///
/// # Errors
/// 22003 if it is too large or too small for one.
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)] // what the conversion means
pub fn to_f32(number: &Datum<'_>) -> Result<f32> {
    match number {
        Datum::Float4(v) => Ok(*v),
        Datum::Float8(v) => {
            let out = *v as f32;
            if out.is_infinite() && v.is_finite() {
                return Err(PgError::new("22003", "value out of range: overflow"));
            }
            if out == 0.0 && *v != 0.0 {
                return Err(PgError::new("22003", "value out of range: underflow"));
            }
            Ok(out)
        }
        Datum::Int8(v) => Ok(*v as f32),
        Datum::Numeric(..) => parse_float4(&to_text(number, &FormatEnv::plain())),
        other => to_f64(other).map(|v| v as f32),
    }
}

/// A number as numeric.
///
/// # Errors
/// 22003 for NaN, infinities and what is too large.
pub fn to_numeric(number: &Datum<'_>) -> Result<(i128, u8)> {
    match number {
        Datum::Int2(v) => Ok((i128::from(*v), 0)),
        Datum::Int4(v) => Ok((i128::from(*v), 0)),
        Datum::Int8(v) => Ok((i128::from(*v), 0)),
        Datum::Numeric(v, scale) => Ok((*v, *scale)),
        Datum::Float4(v) if v.is_finite() => {
            // 6 significant digits, as PostgreSQL converts.
            parse_numeric(&format!("{v:.5e}")).map(|(v, scale)| trim_zeros(v, scale))
        }
        Datum::Float8(v) if v.is_finite() => {
            // 15 significant digits, as PostgreSQL converts.
            parse_numeric(&format!("{v:.14e}")).map(|(v, scale)| trim_zeros(v, scale))
        }
        _ => Err(PgError::out_of_range("numeric")),
    }
}

/// The same value without zeros at its end.
#[must_use]
pub fn trim_zeros(mut value: i128, mut scale: u8) -> (i128, u8) {
    while scale > 0 && value % 10 == 0 {
        value /= 10;
        scale -= 1;
    }
    (value, scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, ty: ColType) -> Result<Value> {
        parse_text(text, ty, &FormatEnv::plain())
    }

    #[test]
    fn bad_text_has_postgresqls_codes() {
        let code = |text, kind| parse(text, ColType::new(kind)).unwrap_err().code;
        assert_eq!(code("abc", TypeKind::Int4), "22P02");
        assert_eq!(code("", TypeKind::Int4), "22P02");
        assert_eq!(code("99999999999", TypeKind::Int4), "22003");
        assert_eq!(code("maybe", TypeKind::Bool), "22P02");
        assert_eq!(code("1e400", TypeKind::Float8), "22003");
        assert_eq!(code("1.2.3", TypeKind::Numeric), "22P02");
        assert_eq!(code("\\x0", TypeKind::Bytea), "22023");
    }

    #[test]
    fn numerics_round_and_overflow() {
        assert_eq!(parse("1.005", ColType::numeric(4, 2)).unwrap(), Value::Numeric(101, 2));
        assert_eq!(parse("99.995", ColType::numeric(4, 2)).unwrap_err().code, "22003");
        assert_eq!(
            parse("1.5e3", ColType::new(TypeKind::Numeric)).unwrap(),
            Value::Numeric(1500, 0)
        );
        assert_eq!(parse("-.5", ColType::new(TypeKind::Numeric)).unwrap(), Value::Numeric(-5, 1));
    }

    #[test]
    fn text_lengths_are_counted_in_characters() {
        let ty = ColType::with_length(TypeKind::Varchar, 3);
        assert_eq!(parse("äöü", ty).unwrap(), Value::Text("äöü".into()));
        assert_eq!(parse("äöü ", ty).unwrap(), Value::Text("äöü".into()));
        assert_eq!(parse("abcd", ty).unwrap_err().code, "22001");
        let char3 = ColType::with_length(TypeKind::Char, 3);
        assert_eq!(parse("a  ", char3).unwrap(), Value::Text("a".into()));
        let env = FormatEnv::plain();
        let cut = cast(&Datum::Text("abcd"), ty, CastMode::Explicit, &env).unwrap();
        assert_eq!(cut, Value::Text("abc".into()));
    }

    #[test]
    fn numbers_convert_with_rounding_and_range() {
        let env = FormatEnv::plain();
        let to =
            |datum: Datum<'_>, kind| cast(&datum, ColType::new(kind), CastMode::Explicit, &env);
        assert_eq!(to(Datum::Float8(2.5), TypeKind::Int4).unwrap(), Value::Int4(2));
        assert_eq!(to(Datum::Numeric(25, 1), TypeKind::Int4).unwrap(), Value::Int4(3));
        assert_eq!(to(Datum::Int8(1 << 40), TypeKind::Int4).unwrap_err().code, "22003");
        assert_eq!(to(Datum::Float8(0.1), TypeKind::Numeric).unwrap(), Value::Numeric(1, 1));
        assert_eq!(to(Datum::Date(1), TypeKind::Int4).unwrap_err().code, "42846");
    }
}
