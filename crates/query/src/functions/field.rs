//! Functions that the field knows and PostgreSQL does not.
//!
//! What it promises: the field's values and errors, on PostgreSQL's types: an empty text is a text.
//! What it must never do: take a name or a form that PostgreSQL has (those are looked at first, see
//! [`super::typed`]).

use super::math::{float, integer, numeric};
use super::strings::{bytes, made, of_whole, shown, text, whole as whole_length};
use super::typed::{Body, Line, One};
use crate::arith::rescale;
use crate::cast::parse_numeric;
use crate::error::{PgError, Result};
use crate::types::FREE_NUMERIC_SCALE;
use crate::wire::FormatEnv;
use kernel::row::{Datum, Value};

/// Where a text stands in another one, from 1 on, the nth time; a negative place to begin at counts
/// from the end, and the search goes back from there. 0: nowhere.
fn instr(a: &[Datum<'_>]) -> Result<Value> {
    let (all, wanted) = (text(&a[0])?, text(&a[1])?);
    let from = a.get(2).map_or(Ok(1), integer)?;
    let nth = a.get(3).map_or(Ok(1), integer)?;
    if nth < 1 {
        let message = format!("argument {nth} is out of range");
        return Err(PgError::new("22023", message)
            .with_hint("The last argument of instr says which occurrence is wanted, from 1 on."));
    }
    let all: Vec<char> = all.chars().collect();
    let wanted: Vec<char> = wanted.chars().collect();
    let at = |at: usize| all.get(at..).is_some_and(|rest| rest.starts_with(&wanted));
    let length = all.len();
    let skipped = usize::try_from(nth - 1).unwrap_or(usize::MAX);
    let step = usize::try_from(from.unsigned_abs()).unwrap_or(usize::MAX);
    let found = match from {
        _ if wanted.is_empty() || from == 0 => None,
        1.. => (step - 1..length).filter(|i| at(*i)).nth(skipped),
        _ if step > length => None,
        _ => (0..=length - step).rev().filter(|i| at(*i)).nth(skipped),
    };
    let place = found.map_or(0, |at| at + 1);
    i32::try_from(place).map(Value::Int4).map_err(|_| PgError::out_of_range("integer"))
}

fn bitand_int4(a: &[Datum<'_>]) -> Result<Value> {
    let both = integer(&a[0])? & integer(&a[1])?;
    i32::try_from(both).map(Value::Int4).map_err(|_| PgError::out_of_range("integer"))
}

fn bitand_numeric(a: &[Datum<'_>]) -> Result<Value> {
    let whole = |datum: &Datum<'_>| {
        let (v, scale) = numeric(datum)?;
        Ok::<i128, PgError>(v / 10i128.pow(u32::from(scale).min(38)))
    };
    Ok(Value::Numeric(whole(&a[0])? & whole(&a[1])?, 0))
}

/// The first argument unless it is no number.
fn nanvl(a: &[Datum<'_>]) -> Result<Value> {
    let (value, otherwise) = (float(&a[0])?, float(&a[1])?);
    Ok(Value::Float8(if value.is_nan() { otherwise } else { value }))
}

fn soundex(a: &[Datum<'_>]) -> Result<Value> {
    // Of each letter; 0: a vowel, which parts what sounds alike; 7: h and w, which do not.
    const CODES: &[u8; 26] = b"01230127022455012623017202";
    let letters = text(&a[0])?.chars().filter(char::is_ascii_alphabetic);
    let (mut out, mut last) = (String::new(), b'0');
    for letter in letters.map(|c| c.to_ascii_uppercase()) {
        let code = CODES[usize::from(letter as u8 - b'A')];
        if out.is_empty() {
            out.push(letter);
        } else if !matches!(code, b'0' | b'7') && code != last {
            out.push(char::from(code));
        }
        if code != b'7' {
            last = code;
        }
        if out.len() == 4 {
            break;
        }
    }
    if out.is_empty() {
        return Ok(Value::Null);
    }
    made(format!("{out:0<4}"))
}

fn hex(all: &[u8]) -> Result<Value> {
    made(all.iter().map(|byte| format!("{byte:02X}")).collect::<String>())
}

fn hextoraw(a: &[Datum<'_>]) -> Result<Value> {
    let digits = text(&a[0])?.trim();
    let wrong = || PgError::new("22023", format!("invalid hex number: \"{digits}\""));
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    // A digit that is alone is the lower half of its byte.
    let digits = if digits.len() % 2 == 1 { format!("0{digits}") } else { digits.to_owned() };
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| wrong());
    let all = (0..digits.len()).step_by(2).map(byte).collect::<Result<Vec<u8>>>()?;
    Ok(Value::Bytea(all.into()))
}

/// The type's number, the length and the bytes of a text or of bytes, which are stored as they are.
fn dump(a: &[Datum<'_>]) -> Result<Value> {
    let (kind, all) = match &a[0] {
        Datum::Null => return made("NULL"),
        Datum::Bytea(bytes) => (23, *bytes),
        other => (1, text(other)?.as_bytes()),
    };
    let format = match a.get(1) {
        Some(Datum::Null) => return Ok(Value::Null),
        Some(format) => integer(format)?,
        None => 10,
    };
    let byte = |byte: &u8| match format % 1000 {
        8 => format!("{byte:o}"),
        16 => format!("{byte:x}"),
        _ => byte.to_string(),
    };
    let characters = match format {
        8 | 10 | 16 => "",
        1008 | 1010 | 1016 if kind == 1 => " CharacterSet=AL32UTF8",
        1008 | 1010 | 1016 => "",
        other => {
            return Err(PgError::new("22023", format!("dump knows no format {other}"))
                .with_hint("Its formats are 8, 10 and 16, and 1000 more with the character set."));
        }
    };
    let shown: Vec<String> = all.iter().map(byte).collect();
    made(format!("Typ={kind} Len={}{characters}: {}", all.len(), shown.join(",")))
}

/// A number from 0 to the highest bucket, the same for the same value.
fn ora_hash(a: &[Datum<'_>]) -> Result<Value> {
    let highest = a.get(1).map_or(Ok(i64::from(u32::MAX)), integer)?;
    if !(0..=i64::from(u32::MAX)).contains(&highest) {
        let message = format!("the highest bucket {highest} must be between 0 and {}", u32::MAX);
        return Err(PgError::new("22023", message));
    }
    if a[0].is_null() {
        return Ok(Value::Int8(0));
    }
    let [_, low] = super::hash::of_bytes(shown(&a[0]).as_bytes(), 0);
    Ok(Value::Int8(i64::from(low) % (highest + 1)))
}

/// `to_char(x)` of the field's statements: numbers are written as the field does.
pub const FIELD_TO_CHAR: &str = "$to_char";

pub(super) fn field_to_char(a: &[Datum<'_>]) -> Result<Value> {
    let (v, scale) = numeric(&a[0])?;
    Ok(Value::Text(number_text(v, scale).into()))
}

/// A number as text has no zeros behind its point that say nothing.
fn to_char(a: &[Datum<'_>]) -> Result<Value> {
    let written = shown(&a[0]);
    if matches!(a[0], Datum::Numeric(..)) && written.contains('.') {
        return made(written.trim_end_matches('0').trim_end_matches('.'));
    }
    made(written)
}

pub(super) fn to_number(a: &[Datum<'_>]) -> Result<Value> {
    let (v, scale) = parse_numeric(text(&a[0])?)?;
    let v = rescale(v, scale, FREE_NUMERIC_SCALE);
    let v = v.ok_or_else(|| PgError::out_of_range("numeric"))?;
    Ok(Value::Numeric(v, FREE_NUMERIC_SCALE))
}

/// A level of a hierarchy, unless the row stands above itself.
fn connect_by_level(a: &[Datum<'_>]) -> Result<Value> {
    match a[0] {
        Datum::Bool(true) => Err(PgError::new("22000", "CONNECT BY loop in user data")
            .with_hint("CONNECT BY NOCYCLE leaves out rows that stand above themselves.")),
        _ => Ok(a[1].to_value()),
    }
}

const fn one(body: One) -> Body {
    Body::One(body)
}

/// A side of the field's `||`: NULL is an empty text there.
pub const PART: &str = "$part";

fn part(a: &[Datum<'_>]) -> Result<Value> {
    Ok(match &a[0] {
        Datum::Null => Value::Text("".into()),
        Datum::Numeric(v, scale) => Value::Text(number_text(*v, *scale).into()),
        Datum::Text(_) => a[0].to_value(),
        // A whole number, or a float: anything else has been made a text before.
        other => Value::Text(crate::wire::to_text(other, &FormatEnv::plain()).into()),
    })
}

/// A number as the field writes it where nothing says how: without zeros at the end of its
/// fraction, and without one before the point.
#[must_use]
pub fn number_text(value: i128, scale: u8) -> String {
    let (value, scale) = crate::cast::trim_zeros(value, scale);
    let text = crate::wire::to_text(&Datum::Numeric(value, scale), &FormatEnv::plain());
    match text.strip_prefix("-0.") {
        Some(fraction) => format!("-.{fraction}"),
        None => text.strip_prefix('0').filter(|rest| rest.starts_with('.')).unwrap_or(&text).into(),
    }
}

/// The field's `substr`: a start below zero counts from the end.
pub const FIELD_SUBSTR: &str = "$substr";

fn substr(a: &[Datum<'_>]) -> Result<Value> {
    let all = text(&a[0])?;
    let (start, length) = (whole(&a[1])?, a.get(2).map(whole).transpose()?);
    let count = i64::try_from(all.chars().count()).unwrap_or(i64::MAX);
    let first = match start {
        0 | 1 => 0,
        2.. => start - 1,
        _ => count.saturating_add(start),
    };
    // The field knows no empty text.
    if first < 0 || first >= count || length.is_some_and(|length| length < 1) {
        return Ok(Value::Null);
    }
    let length = length.unwrap_or(count).min(count - first);
    let (first, length) = (usize::try_from(first), usize::try_from(length));
    let part = all.chars().skip(first.unwrap_or(usize::MAX)).take(length.unwrap_or(0));
    Ok(Value::Text(part.collect::<String>().into()))
}

/// A number without its fraction.
fn whole(number: &Datum<'_>) -> Result<i64> {
    match number {
        Datum::Numeric(v, scale) => {
            let unit = 10_i128.checked_pow(u32::from(*scale)).unwrap_or(i128::MAX);
            Ok(i64::try_from(v / unit).unwrap_or(if *v < 0 { i64::MIN } else { i64::MAX }))
        }
        other => integer(other),
    }
}

/// The field's.
const MASK_DIGITS_MAX: usize = 63;

/// `to_char(n, 'XXXX')`: with as many digits at most as the mask has.
pub const TO_HEX: &str = "$to_hex";

pub(super) fn to_hex(a: &[Datum<'_>]) -> Result<Value> {
    let (number, mask) = (whole(&a[0])?, text(&a[1])?);
    let fills = mask.get(..2).is_some_and(|first| first.eq_ignore_ascii_case("fm"));
    let digits = if fills { &mask[2..] } else { mask };
    let width = digits.len();
    if width > MASK_DIGITS_MAX {
        let text = format!("a mask of more than {MASK_DIGITS_MAX} digits");
        return Err(PgError::new("22023", text));
    }
    let mut shown = format!("{number:X}");
    if digits.contains('x') {
        shown.make_ascii_lowercase();
    }
    let out = if number < 0 || shown.len() > width {
        "#".repeat(width + usize::from(!fills))
    } else {
        let zeros = if digits.starts_with('0') { width } else { 0 };
        let shown = format!("{shown:0>zeros$}");
        if fills { shown } else { format!("{shown:>width$}", width = width + 1) }
    };
    Ok(Value::Text(out.into()))
}

/// `to_number('ff', 'xx')`.
pub const FROM_HEX: &str = "$from_hex";

pub(super) fn from_hex(a: &[Datum<'_>]) -> Result<Value> {
    let (given, mask) = (text(&a[0])?.trim(), text(&a[1])?);
    let read = i64::from_str_radix(given, 16).ok().filter(|read| *read >= 0);
    match read.filter(|_| given.len() <= mask.len() && !given.starts_with('+')) {
        Some(read) => Ok(Value::Numeric(read.into(), 0)),
        None => {
            let what = format!("\"{given}\" is no number of up to {} digits", mask.len());
            Err(PgError::new("22P02", format!("{what} from 0 to F")))
        }
    }
}

pub(super) const LINES: &[Line] = &[
    ("$part(any) ?text", one(part)),
    ("$substr(text, int4) text", one(substr)),
    ("$substr(text, int4, int4) text", one(substr)),
    ("$substr(text, int8) text", one(substr)),
    ("$substr(text, int8, int8) text", one(substr)),
    ("$substr(text, numeric) text", one(substr)),
    ("$substr(text, numeric, numeric) text", one(substr)),
    ("$to_hex(int4, text) text", one(to_hex)),
    ("$to_hex(int8, text) text", one(to_hex)),
    ("$to_hex(numeric, text) text", one(to_hex)),
    ("$from_hex(text, text) numeric:0", one(from_hex)),
    ("instr(text, text) int4", one(instr)),
    ("instr(text, text, int4) int4", one(instr)),
    ("instr(text, text, int4, int4) int4", one(instr)),
    ("+instr(text, text, numeric) int4", one(|a| of_whole(a, instr))),
    ("+instr(text, text, numeric, numeric) int4", one(|a| of_whole(a, instr))),
    ("lengthb(text) int4", one(|a| whole_length(text(&a[0])?.len()))),
    ("bitand(int4, int4) int4", one(bitand_int4)),
    ("bitand(int8, int8) int8", one(|a| Ok(Value::Int8(integer(&a[0])? & integer(&a[1])?)))),
    ("bitand(numeric, numeric) numeric:0", one(bitand_numeric)),
    ("lnnvl(bool) ?bool", one(|a| Ok(Value::Bool(!matches!(a[0], Datum::Bool(true)))))),
    ("nanvl(float8, float8) float8", one(nanvl)),
    ("nanvl(numeric, numeric) numeric:first", one(|a| Ok(a[0].to_value()))),
    ("soundex(text) text", one(soundex)),
    ("rawtohex(bytea) text", one(|a| hex(bytes(&a[0])?))),
    ("rawtohex(text) text", one(|a| hex(text(&a[0])?.as_bytes()))),
    ("hextoraw(text) bytea", one(hextoraw)),
    ("dump(text) ?text", one(dump)),
    ("dump(text, int4) ?text", one(dump)),
    ("dump(bytea) ?text", one(dump)),
    ("dump(bytea, int4) ?text", one(dump)),
    ("ora_hash(any) ?int8", one(ora_hash)),
    ("ora_hash(any, int8) ?int8", one(ora_hash)),
    ("$connect_by_level(bool, int4) ?int4", one(connect_by_level)),
    ("+to_char(any) text", one(to_char)),
    ("+$to_char(any) text", one(to_char)),
    ("+to_number(text) numeric:15", one(to_number)),
    ("+to_number(numeric) numeric:first", one(|a| Ok(a[0].to_value()))),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_from_either_end() {
        let place = |from: i32, nth: i32| {
            let text = Datum::Text("corporate floor");
            instr(&[text, Datum::Text("or"), Datum::Int4(from), Datum::Int4(nth)])
        };
        assert_eq!(place(1, 1), Ok(Value::Int4(2)));
        assert_eq!(place(3, 2), Ok(Value::Int4(14)));
        assert_eq!(place(-3, 2), Ok(Value::Int4(2)));
        assert_eq!(place(-1, 1), Ok(Value::Int4(14)));
        assert_eq!(place(-99, 1), Ok(Value::Int4(0)));
        assert_eq!(place(0, 1), Ok(Value::Int4(0)));
        assert_eq!(place(99, 1), Ok(Value::Int4(0)));
        assert!(place(1, 0).is_err());
        let overlapping = [Datum::Text("aaa"), Datum::Text("aa"), Datum::Int4(1), Datum::Int4(2)];
        assert_eq!(instr(&overlapping), Ok(Value::Int4(2)));
    }

    #[test]
    fn numbers_are_written_as_short_as_they_are() {
        for (value, scale, wanted) in [
            (25_000, 5, ".25"),
            (-25, 2, "-.25"),
            (245_000, 2, "2450"),
            (0, 3, "0"),
            (-1_050, 2, "-10.5"),
            (100, 0, "100"),
        ] {
            assert_eq!(number_text(value, scale), wanted);
        }
    }

    #[test]
    fn bytes_are_shown_one_by_one() {
        let of = |args: &[Datum<'_>]| match dump(args) {
            Ok(Value::Text(shown)) => shown.into_string(),
            other => format!("{other:?}"),
        };
        assert_eq!(of(&[Datum::Text("abü")]), "Typ=1 Len=4: 97,98,195,188");
        let format = Datum::Int4(1016);
        assert_eq!(of(&[Datum::Text("Az"), format]), "Typ=1 Len=2 CharacterSet=AL32UTF8: 41,7a");
        assert_eq!(of(&[Datum::Bytea(&[0, 255]), Datum::Int4(16)]), "Typ=23 Len=2: 0,ff");
        assert_eq!(of(&[Datum::Text("")]), "Typ=1 Len=0: ");
        assert_eq!(of(&[Datum::Null]), "NULL");
        assert!(dump(&[Datum::Text("a"), Datum::Int4(17)]).is_err());
    }

    #[test]
    fn names_that_sound_alike() {
        let of = |name: &str| match soundex(&[Datum::Text(name)]) {
            Ok(Value::Text(code)) => code.into_string(),
            other => format!("{other:?}"),
        };
        assert_eq!((of("SMYTHE"), of("Smith")), ("S530".to_owned(), "S530".to_owned()));
        assert_eq!((of("Ashcraft"), of("Tymczak")), ("A261".to_owned(), "T522".to_owned()));
        assert_eq!(of("Pfister"), "P236");
    }
}
