//! Functions of text and of bytes.
//!
//! What it promises: characters are counted, not bytes; what a function refuses has PostgreSQL's
//! error. What it must never do: make a text longer than a field may be.

use super::RowFunction;
use super::math::integer;
use super::typed::{Body, Line, Many, One};
use crate::error::{PgError, Result};
use crate::wire::{FormatEnv, to_text};
use kernel::row::{ColType, Datum, TypeKind, Value};

/// Longest text that a function makes, as PostgreSQL's longest field.
const TEXT_BYTES_MAX: usize = 0x3fff_ffff;

pub(super) fn text<'a>(datum: &Datum<'a>) -> Result<&'a str> {
    match datum {
        Datum::Text(text) => Ok(text),
        _ => Err(PgError::internal("an argument that is no text")),
    }
}

pub(super) fn bytes<'a>(datum: &Datum<'a>) -> Result<&'a [u8]> {
    match datum {
        Datum::Bytea(bytes) => Ok(bytes),
        _ => Err(PgError::internal("an argument that is no bytea")),
    }
}

pub(super) fn made(text: impl Into<Box<str>>) -> Result<Value> {
    Ok(Value::Text(text.into()))
}

pub(super) fn whole(count: usize) -> Result<Value> {
    i32::try_from(count).map(Value::Int4).map_err(|_| PgError::out_of_range("integer"))
}

/// The text that a value of any type is written as.
pub(super) fn shown(datum: &Datum<'_>) -> String {
    to_text(datum, &FormatEnv::plain())
}

fn too_long() -> PgError {
    PgError::new("54000", "requested length too large")
}

/// Whether a text of so many bytes may be made.
fn fits(bytes: usize) -> Result<()> {
    if bytes > TEXT_BYTES_MAX { Err(too_long()) } else { crate::memory::results_fit(bytes) }
}

fn hashtext(a: &[Datum<'_>]) -> Result<Value> {
    let [_, low] = super::hash::of_bytes(text(&a[0])?.as_bytes(), 0);
    Ok(Value::Int4(low.cast_signed()))
}

fn hashtextextended(a: &[Datum<'_>]) -> Result<Value> {
    let Datum::Int8(seed) = &a[1] else {
        return Err(PgError::internal("a seed that is no bigint"));
    };
    let [high, low] = super::hash::of_bytes(text(&a[0])?.as_bytes(), seed.cast_unsigned());
    Ok(Value::Int8((u64::from(high) << 32 | u64::from(low)).cast_signed()))
}

fn ascii(a: &[Datum<'_>]) -> Result<Value> {
    let first = text(&a[0])?.chars().next();
    Ok(Value::Int4(first.map_or(0, |c| u32::from(c).cast_signed())))
}

fn chr(a: &[Datum<'_>]) -> Result<Value> {
    let code = integer(&a[0])?;
    if code < 0 {
        return Err(PgError::new("22023", "character number must be positive"));
    }
    if code == 0 {
        return Err(PgError::new("54000", "null character not permitted"));
    }
    let c = u32::try_from(code).ok().filter(|code| *code <= 0x10_ffff);
    let Some(c) = c else {
        let message = format!("requested character too large for encoding: {code}");
        return Err(PgError::new("54000", message));
    };
    match char::from_u32(c) {
        Some(c) => made(c.to_string()),
        None => {
            let message = format!("requested character not valid for encoding: {code}");
            Err(PgError::new("54000", message))
        }
    }
}

/// One character for one, as PostgreSQL's case conversion has it.
fn upper_of(c: char) -> char {
    let mut all = c.to_uppercase();
    match (all.next(), all.next()) {
        (Some(upper), None) => upper,
        _ => c,
    }
}

fn lower_of(c: char) -> char {
    let mut all = c.to_lowercase();
    match (all.next(), all.next()) {
        (Some(lower), None) => lower,
        _ => c,
    }
}

fn initcap(a: &[Datum<'_>]) -> Result<Value> {
    let mut inside = false;
    let out: String = text(&a[0])?
        .chars()
        .map(|c| {
            let new = if inside { lower_of(c) } else { upper_of(c) };
            inside = c.is_alphanumeric();
            new
        })
        .collect();
    made(out)
}

fn trimmed<'t>(text: &'t str, set: &str, left: bool, right: bool) -> &'t str {
    let within = |c: char| set.contains(c);
    let text = if left { text.trim_start_matches(within) } else { text };
    if right { text.trim_end_matches(within) } else { text }
}

fn trim(a: &[Datum<'_>], left: bool, right: bool) -> Result<Value> {
    let set = a.get(1).map_or(Ok(" "), text)?;
    made(trimmed(text(&a[0])?, set, left, right))
}

fn trim_bytes(a: &[Datum<'_>], left: bool, right: bool) -> Result<Value> {
    let (mut all, set) = (bytes(&a[0])?, bytes(&a[1])?);
    while let [first, rest @ ..] = all
        && left
        && set.contains(first)
    {
        all = rest;
    }
    while let [rest @ .., last] = all
        && right
        && set.contains(last)
    {
        all = rest;
    }
    Ok(Value::Bytea(all.into()))
}

/// The first `count` characters; all but the last ones if it is negative.
fn left(a: &[Datum<'_>]) -> Result<Value> {
    let (all, count) = (text(&a[0])?, integer(&a[1])?);
    let keep = if count >= 0 { count } else { all.chars().count() as i64 + count };
    let keep = usize::try_from(keep).unwrap_or(0);
    made(all.chars().take(keep).collect::<String>())
}

fn right(a: &[Datum<'_>]) -> Result<Value> {
    let (all, count) = (text(&a[0])?, integer(&a[1])?);
    let length = all.chars().count() as i64;
    let drop = if count >= 0 { length - count } else { -count };
    made(all.chars().skip(usize::try_from(drop).unwrap_or(0)).collect::<String>())
}

fn pad(a: &[Datum<'_>], on_left: bool) -> Result<Value> {
    let all = text(&a[0])?;
    let length = usize::try_from(integer(&a[1])?).unwrap_or(0);
    let fill: Vec<char> = a.get(2).map_or(Ok(" "), text)?.chars().collect();
    let has = all.chars().count();
    if has >= length || fill.is_empty() {
        return made(all.chars().take(length).collect::<String>());
    }
    if length.saturating_mul(4) > TEXT_BYTES_MAX {
        return Err(too_long());
    }
    fits(length)?;
    let filling: String = fill.iter().cycle().take(length - has).collect();
    made(if on_left { filling + all } else { all.to_owned() + &filling })
}

fn pad_number(a: &[Datum<'_>], on_left: bool) -> Result<Value> {
    let number = shown(&a[0]);
    let mut all = vec![Datum::Text(&number)];
    all.extend_from_slice(&a[1..]);
    pad(&all, on_left)
}

fn repeat(a: &[Datum<'_>]) -> Result<Value> {
    let (all, count) = (text(&a[0])?, usize::try_from(integer(&a[1])?).unwrap_or(0));
    fits(all.len().saturating_mul(count))?;
    made(all.repeat(count))
}

fn replace(a: &[Datum<'_>]) -> Result<Value> {
    let (all, from, to) = (text(&a[0])?, text(&a[1])?, text(&a[2])?);
    if from.is_empty() {
        return made(all);
    }
    let grown = all.matches(from).count().saturating_mul(to.len()).saturating_add(all.len());
    fits(grown)?;
    made(all.replace(from, to))
}

fn translate(a: &[Datum<'_>]) -> Result<Value> {
    let (all, from, to) = (text(&a[0])?, text(&a[1])?, text(&a[2])?);
    let to: Vec<char> = to.chars().collect();
    let out: String = all
        .chars()
        .filter_map(|c| match from.chars().position(|f| f == c) {
            Some(at) => to.get(at).copied(),
            None => Some(c),
        })
        .collect();
    made(out)
}

/// Where a part begins and how long it is, of `length` units; PostgreSQL counts from 1 and lets a
/// part begin before.
pub(super) fn part(length: usize, from: i64, count: Option<i64>) -> Result<(usize, usize)> {
    if count.is_some_and(|count| count < 0) {
        return Err(PgError::new("22011", "negative substring length not allowed"));
    }
    let length = length as i64;
    let end = count.map_or(length + 1, |count| from.saturating_add(count).min(length + 1));
    let start = from.max(1);
    let size = usize::try_from(end - start).unwrap_or(0);
    Ok((usize::try_from(start - 1).unwrap_or(0), size))
}

fn substring(a: &[Datum<'_>]) -> Result<Value> {
    let (from, count) = (integer(&a[1])?, a.get(2).map(integer).transpose()?);
    if let Datum::Bytea(all) = &a[0] {
        let (start, size) = part(all.len(), from, count)?;
        return Ok(Value::Bytea(all.iter().skip(start).take(size).copied().collect()));
    }
    let all = text(&a[0])?;
    let (start, size) = part(all.chars().count(), from, count)?;
    made(all.chars().skip(start).take(size).collect::<String>())
}

fn overlay(a: &[Datum<'_>]) -> Result<Value> {
    let from = integer(&a[2])?;
    if from <= 0 {
        return Err(PgError::new("22011", "negative substring length not allowed"));
    }
    let end = |count: i64| {
        let end = i32::try_from(from).ok().zip(i32::try_from(count).ok());
        end.and_then(|(from, count)| from.checked_add(count))
            .map(i64::from)
            .ok_or_else(|| PgError::out_of_range("integer"))
    };
    if let (Datum::Bytea(all), Datum::Bytea(new)) = (&a[0], &a[1]) {
        let end = end(a.get(3).map_or(Ok(new.len() as i64), integer)?)?;
        let (_, size) = part(all.len(), 1, Some(from - 1))?;
        let (start, rest) = part(all.len(), end, None)?;
        let tail = all.iter().skip(start).take(rest);
        return Ok(Value::Bytea(all[..size].iter().chain(*new).chain(tail).copied().collect()));
    }
    let (all, new) = (text(&a[0])?, text(&a[1])?);
    let end = end(a.get(3).map_or(Ok(new.chars().count() as i64), integer)?)?;
    let (_, size) = part(all.chars().count(), 1, Some(from - 1))?;
    let (start, rest) = part(all.chars().count(), end, None)?;
    let mut out: String = all.chars().take(size).collect();
    out.push_str(new);
    out.extend(all.chars().skip(start).take(rest));
    made(out)
}

fn position(all: &Datum<'_>, wanted: &Datum<'_>) -> Result<Value> {
    if let (Datum::Bytea(all), Datum::Bytea(wanted)) = (all, wanted) {
        if wanted.is_empty() {
            return Ok(Value::Int4(1));
        }
        let at = all.windows(wanted.len()).position(|part| part == *wanted);
        return whole(at.map_or(0, |at| at + 1));
    }
    let (all, wanted) = (text(all)?, text(wanted)?);
    whole(all.find(wanted).map_or(0, |at| all[..at].chars().count() + 1))
}

fn split_part(a: &[Datum<'_>]) -> Result<Value> {
    let (all, by, at) = (text(&a[0])?, text(&a[1])?, integer(&a[2])?);
    if at == 0 {
        return Err(PgError::new("22023", "field position must not be zero"));
    }
    let nth = usize::try_from(at.unsigned_abs() - 1).unwrap_or(usize::MAX);
    if all.is_empty() {
        return made("");
    }
    if by.is_empty() {
        return made(if nth == 0 { all } else { "" });
    }
    made(if at > 0 { all.split(by).nth(nth) } else { all.rsplit(by).nth(nth) }.unwrap_or(""))
}

pub(super) fn parts_of(a: &[Datum<'_>]) -> Result<Option<Vec<Value>>> {
    if a[0].is_null() {
        return Ok(None);
    }
    let all = text(&a[0])?;
    let null = match a.get(2) {
        Some(Datum::Text(null)) => Some(*null),
        _ => None,
    };
    let item = |text: &str| match null {
        Some(null) if null == text => Value::Null,
        _ => Value::Text(text.into()),
    };
    if all.is_empty() {
        return Ok(Some(Vec::new()));
    }
    Ok(Some(match &a[1] {
        Datum::Text("") => vec![item(all)],
        Datum::Text(by) => all.split(by).map(item).collect(),
        _ => all.chars().map(|c| item(c.encode_utf8(&mut [0; 4]))).collect(),
    }))
}

fn concat(a: &[Datum<'_>]) -> Result<Value> {
    let given = a.iter().filter(|one| !one.is_null());
    made(given.map(shown).collect::<String>())
}

fn concat_ws(a: &[Datum<'_>]) -> Result<Value> {
    let Datum::Text(by) = &a[0] else { return Ok(Value::Null) };
    let all: Vec<String> = a[1..].iter().filter(|one| !one.is_null()).map(shown).collect();
    made(all.join(by))
}

fn to_hex(a: &[Datum<'_>]) -> Result<Value> {
    made(match &a[0] {
        Datum::Int4(v) => format!("{v:x}"),
        v => format!("{:x}", integer(v)?),
    })
}

fn quote_literal(a: &[Datum<'_>]) -> Result<Value> {
    made(quoted(text(&a[0])?))
}

/// The text that a cast of a value gives.
fn cast_text(datum: &Datum<'_>) -> String {
    match datum {
        Datum::Bool(v) => v.to_string(),
        other => shown(other),
    }
}

/// A literal of SQL.
pub(super) fn quoted(text: &str) -> String {
    let escape = if text.contains('\\') { "E" } else { "" };
    format!("{escape}'{}'", text.replace('\'', "''").replace('\\', "\\\\"))
}

fn num_nulls(a: &[Datum<'_>], nulls: bool) -> Result<Value> {
    whole(a.iter().filter(|one| one.is_null() == nulls).count())
}

fn size_bytes(a: &[Datum<'_>]) -> Result<Value> {
    let all = text(&a[0])?;
    let invalid = || PgError::new("22023", format!("invalid size: \"{all}\""));
    let trimmed = all.trim_matches([' ', '\t', '\n', '\r']);
    let end = trimmed
        .char_indices()
        .find(|(at, c)| {
            !(c.is_ascii_digit() || *c == '.' || (*at == 0 && (*c == '-' || *c == '+')))
        })
        .map_or(trimmed.len(), |(at, _)| at);
    let (digits, unit) = trimmed.split_at(end);
    if !digits.contains(|c: char| c.is_ascii_digit()) {
        return Err(invalid());
    }
    let (v, scale) = crate::cast::parse_numeric(digits).map_err(|_| invalid())?;
    let unit = unit.trim();
    let power = match unit.to_ascii_lowercase().as_str() {
        "" | "bytes" | "b" => 0,
        "kb" => 10,
        "mb" => 20,
        "gb" => 30,
        "tb" => 40,
        "pb" => 50,
        _ => {
            return Err(invalid()
                .with_detail(format!("Invalid size unit: \"{unit}\"."))
                .with_hint(
                    "Valid units are \"bytes\", \"B\", \"kB\", \"MB\", \"GB\", \"TB\", and \"PB\".",
                ));
        }
    };
    let range = || PgError::out_of_range("bigint");
    let v = v.checked_mul(1i128 << power).ok_or_else(range)?;
    let v = crate::arith::rescale(v, scale, 0).ok_or_else(range)?;
    i64::try_from(v).map(Value::Int8).map_err(|_| range())
}

fn length(a: &[Datum<'_>]) -> Result<Value> {
    match &a[0] {
        Datum::Bytea(all) => whole(all.len()),
        all => whole(text(all)?.chars().count()),
    }
}

fn octets(datum: &Datum<'_>) -> Result<usize> {
    match datum {
        Datum::Bytea(all) => Ok(all.len()),
        all => Ok(text(all)?.len()),
    }
}

fn md5_of(a: &[Datum<'_>]) -> Result<Value> {
    made(format!(
        "{:x}",
        match &a[0] {
            Datum::Bytea(all) => md5::compute(all),
            all => md5::compute(text(all)?),
        }
    ))
}

const fn one(body: One) -> Body {
    Body::One(body)
}

const fn many(body: Many) -> Body {
    Body::Many(body)
}

/// The arguments with whole numbers in the place of numerics, whose fractions are dropped.
pub(super) fn of_whole(a: &[Datum<'_>], body: One) -> Result<Value> {
    let mut given = Vec::with_capacity(a.len());
    for datum in a {
        given.push(match datum {
            Datum::Numeric(..) | Datum::Int8(_) => {
                let (v, scale) = crate::cast::to_numeric(datum)?;
                let v = crate::arith::pow10(u32::from(scale)).map_or(0, |unit| v / unit);
                let v = i32::try_from(v).map_err(|_| PgError::out_of_range("integer"))?;
                Datum::Int4(v)
            }
            other => *other,
        });
    }
    body(&given)
}

/// The text in the second place as a value of a type.
fn as_kind(a: &[Datum<'_>], kind: TypeKind) -> Result<Value> {
    let mode = crate::cast::CastMode::Explicit;
    crate::cast::cast(&a[1], ColType::new(kind), mode, &FormatEnv::plain())
}

pub(super) const LINES: &[Line] = &[
    // The field's: what the session tells beside a column of another type.
    ("$as_of(text, text) text", one(|a| Ok(a[1].to_value()))),
    ("$as_of(int2, text) int2", one(|a| as_kind(a, TypeKind::Int2))),
    ("$as_of(int4, text) int4", one(|a| as_kind(a, TypeKind::Int4))),
    ("$as_of(int8, text) int8", one(|a| as_kind(a, TypeKind::Int8))),
    ("$as_of(float4, text) float4", one(|a| as_kind(a, TypeKind::Float4))),
    ("$as_of(float8, text) float8", one(|a| as_kind(a, TypeKind::Float8))),
    ("$as_of(numeric, text) numeric:15", one(|a| super::field::to_number(&a[1..]))),
    // The field's numbers may have fractions.
    ("+chr(int8) text", one(|a| of_whole(a, chr))),
    ("+chr(numeric) text", one(|a| of_whole(a, chr))),
    ("+lpad(text, numeric) text", one(|a| of_whole(a, |a| pad(a, true)))),
    ("+lpad(text, numeric, text) text", one(|a| of_whole(a, |a| pad(a, true)))),
    ("+rpad(text, numeric) text", one(|a| of_whole(a, |a| pad(a, false)))),
    ("+rpad(text, numeric, text) text", one(|a| of_whole(a, |a| pad(a, false)))),
    ("+substr(text, numeric) text", one(|a| of_whole(a, substring))),
    ("+substr(text, numeric, numeric) text", one(|a| of_whole(a, substring))),
    ("+replace(text, text) text", one(|a| replace(&[a[0], a[1], Datum::Text("")]))),
    ("ascii(text) int4", one(ascii)),
    ("hashtext(text) int4", one(hashtext)),
    ("hashtextextended(text, int8) int8", one(hashtextextended)),
    ("chr(int4) text", one(chr)),
    ("lower(text) text", one(|a| made(text(&a[0])?.chars().map(lower_of).collect::<String>()))),
    ("upper(text) text", one(|a| made(text(&a[0])?.chars().map(upper_of).collect::<String>()))),
    ("initcap(text) text", one(initcap)),
    ("btrim(text) text", one(|a| trim(a, true, true))),
    ("btrim(text, text) text", one(|a| trim(a, true, true))),
    ("btrim(bytea, bytea) bytea", one(|a| trim_bytes(a, true, true))),
    ("ltrim(text) text", one(|a| trim(a, true, false))),
    ("ltrim(text, text) text", one(|a| trim(a, true, false))),
    ("ltrim(bytea, bytea) bytea", one(|a| trim_bytes(a, true, false))),
    ("rtrim(text) text", one(|a| trim(a, false, true))),
    ("rtrim(text, text) text", one(|a| trim(a, false, true))),
    ("rtrim(bytea, bytea) bytea", one(|a| trim_bytes(a, false, true))),
    ("length(text) int4", one(length)),
    ("length(bytea) int4", one(length)),
    ("char_length(text) int4", one(length)),
    ("character_length(text) int4", one(length)),
    ("octet_length(text) int4", one(|a| whole(octets(&a[0])?))),
    ("octet_length(bytea) int4", one(|a| whole(octets(&a[0])?))),
    ("bit_length(text) int4", one(|a| whole(octets(&a[0])?.saturating_mul(8)))),
    ("bit_length(bytea) int4", one(|a| whole(octets(&a[0])?.saturating_mul(8)))),
    ("left(text, int4) text", one(left)),
    ("right(text, int4) text", one(right)),
    ("lpad(text, int4) text", one(|a| pad(a, true))),
    ("lpad(text, int4, text) text", one(|a| pad(a, true))),
    // The field's: a number is padded as it is shown.
    ("lpad(numeric, int4) text", one(|a| pad_number(a, true))),
    ("lpad(numeric, int4, text) text", one(|a| pad_number(a, true))),
    ("rpad(text, int4) text", one(|a| pad(a, false))),
    ("rpad(text, int4, text) text", one(|a| pad(a, false))),
    // The field's: a number is padded as it is shown.
    ("rpad(numeric, int4) text", one(|a| pad_number(a, false))),
    ("rpad(numeric, int4, text) text", one(|a| pad_number(a, false))),
    ("repeat(text, int4) text", one(repeat)),
    ("replace(text, text, text) text", one(replace)),
    ("reverse(text) text", one(|a| made(text(&a[0])?.chars().rev().collect::<String>()))),
    ("translate(text, text, text) text", one(translate)),
    ("substring(text, int4) text", one(substring)),
    ("substring(text, int4, int4) text", one(substring)),
    ("substring(bytea, int4) bytea", one(substring)),
    ("substring(bytea, int4, int4) bytea", one(substring)),
    ("substr(text, int4) text", one(substring)),
    ("substr(text, int4, int4) text", one(substring)),
    ("substr(bytea, int4) bytea", one(substring)),
    ("substr(bytea, int4, int4) bytea", one(substring)),
    ("overlay(text, text, int4) text", one(overlay)),
    ("overlay(text, text, int4, int4) text", one(overlay)),
    ("overlay(bytea, bytea, int4) bytea", one(overlay)),
    ("overlay(bytea, bytea, int4, int4) bytea", one(overlay)),
    ("position(text, text) int4", one(|a| position(&a[0], &a[1]))),
    ("position(bytea, bytea) int4", one(|a| position(&a[0], &a[1]))),
    ("strpos(text, text) int4", one(|a| position(&a[0], &a[1]))),
    ("split_part(text, text, int4) text", one(split_part)),
    ("string_to_array(text, text) ?text[]", many(parts_of)),
    ("string_to_array(text, text, text) ?text[]", many(parts_of)),
    (
        "starts_with(text, text) bool",
        one(|a| Ok(Value::Bool(text(&a[0])?.starts_with(text(&a[1])?)))),
    ),
    ("concat(any...) ?text", one(concat)),
    ("concat_ws(text, any...) ?text", one(concat_ws)),
    ("to_hex(int4) text", one(to_hex)),
    ("to_hex(int8) text", one(to_hex)),
    ("quote_ident(text) text", one(|a| made(super::quote_ident(text(&a[0])?)))),
    ("quote_literal(text) text", one(quote_literal)),
    ("quote_literal(any) text", one(|a| made(quoted(&cast_text(&a[0]))))),
    (
        "quote_nullable(text) ?text",
        one(|a| if a[0].is_null() { made("NULL") } else { quote_literal(a) }),
    ),
    (
        "quote_nullable(any) ?text",
        one(|a| if a[0].is_null() { made("NULL") } else { made(quoted(&cast_text(&a[0]))) }),
    ),
    ("num_nulls(any...) ?int4", one(|a| num_nulls(a, true))),
    ("num_nonnulls(any...) ?int4", one(|a| num_nulls(a, false))),
    ("pg_size_bytes(text) int8", one(size_bytes)),
    ("md5(text) text", one(md5_of)),
    ("md5(bytea) text", one(md5_of)),
];

/// What `dbms_random.string` is called in a plan; its third argument is by chance.
pub const RANDOM_STRING: &str = "$random_string";

/// A text of characters by chance: `U` of capital letters, `L` of small ones, `A` of both, `X` of
/// capital letters and digits, `P` of all that can be printed.
pub(super) fn random_string() -> RowFunction {
    let returns = ColType::new(TypeKind::Text);
    RowFunction::new(RANDOM_STRING, Some(3), returns, true, |args| {
        const LARGE: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
        let [Datum::Text(kind), length, Datum::Float8(chance)] = args else {
            return Err(PgError::new("22023", "dbms_random.string takes a text and a number"));
        };
        let printed: String = (' '..='~').collect();
        let of = match kind.to_ascii_lowercase().as_str() {
            "l" => LARGE.to_ascii_lowercase(),
            "a" => format!("{LARGE}{}", LARGE.to_ascii_lowercase()),
            "x" => format!("{LARGE}0123456789"),
            "p" => printed,
            _ => LARGE.to_owned(),
        };
        let length = match length {
            Datum::Int4(length) => usize::try_from(*length).unwrap_or(0).min(4000),
            _ => 0,
        };
        // Weyl's sequence, mixed (SplitMix64).
        let mut state = chance.to_bits();
        let mut next = || {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        };
        let of = of.as_bytes();
        let count = of.len() as u64;
        let pick = |chance: u64| of[usize::try_from(chance % count).unwrap_or(0)] as char;
        let made: String = (0..length).map(|_| pick(next())).collect();
        Ok(Value::Text(made.into()))
    })
}
