//! The same after the field's templates: `RR`, `FF` and hexadecimal digits, and in its statements
//! `TM`, a `$` in front of the digits, `B`, and `#` in all places of what is too long.
//!
//! What it promises: a template that is no literal means what it means as one. What it must never
//! do: change the meaning of a template that PostgreSQL writes in the same way.

use super::super::field::{from_hex, number_text, to_hex};
use super::*;
use std::borrow::Cow;

/// `to_date` of the field, with a time of day.
pub const TO_DATETIME: &str = "$to_datetime";
/// `to_number` and `to_timestamp` in the field's statements, with a template that is no literal.
pub const FIELD_TO_NUMBER: &str = "$to_number";
pub const FIELD_TO_TIMESTAMP: &str = "$to_timestamp";

/// The parts of a template, with whether each stands in double quotes.
fn parts(template: &str) -> impl Iterator<Item = (&str, bool)> {
    template.split('"').enumerate().map(|(at, part)| (part, at % 2 == 1))
}

/// The template as PostgreSQL writes it, if it writes it in another way.
#[must_use]
pub fn template(text: &str) -> Option<String> {
    let mut changed = false;
    let mut out = Vec::new();
    for (part, quoted) in parts(text) {
        if quoted {
            out.push(part.to_owned());
            continue;
        }
        let mut made = String::with_capacity(part.len());
        let mut rest = part;
        while let Some(next) = rest.chars().next() {
            let upper: String = rest.chars().take(4).collect::<String>().to_ascii_uppercase();
            let digit = upper.as_bytes().get(2).copied();
            let (put, length) = if upper == "RRRR" {
                ("YYYY", 4)
            } else if upper.starts_with("RR") {
                ("YY", 2)
            } else if upper.starts_with("FF") && !matches!(digit, Some(b'1'..=b'6')) {
                ("FF6", 2 + usize::from(matches!(digit, Some(b'7'..=b'9'))))
            } else {
                made.push(next);
                rest = &rest[next.len_utf8()..];
                continue;
            };
            changed = true;
            made.push_str(put);
            rest = &rest[length..];
        }
        out.push(made);
    }
    changed.then(|| out.join("\""))
}

/// Whether a template is for digits from 0 to F; PostgreSQL has no such.
#[must_use]
pub fn is_hexadecimal(template: &str) -> bool {
    let digits = match template.get(..2) {
        Some(fills) if fills.eq_ignore_ascii_case("fm") => &template[2..],
        _ => template,
    };
    let digits = digits.trim_start_matches('0');
    !digits.is_empty() && digits.bytes().all(|b| b.eq_ignore_ascii_case(&b'x'))
}

fn plain(given: &str) -> Cow<'_, str> {
    template(given).map_or(Cow::Borrowed(given), Cow::Owned)
}

fn field_instant(a: &[Datum<'_>], zone: &Zone) -> Result<Value> {
    let mask = plain(text(&a[1])?);
    instant_to_char(&[a[0], Datum::Text(&mask)], zone)
}

fn to_datetime(a: &[Datum<'_>]) -> Result<Value> {
    let read = reading::read(text(&a[0])?, &plain(text(&a[1])?))?;
    Ok(Value::Timestamp(read.local_us))
}

fn field_timestamp(a: &[Datum<'_>], zone: &Zone) -> Result<Value> {
    let mask = plain(text(&a[1])?);
    to_timestamp(&[a[0], Datum::Text(&mask)], zone)
}

fn field_to_number(a: &[Datum<'_>]) -> Result<Value> {
    match is_hexadecimal(text(&a[1])?) {
        true => from_hex(a),
        false => to_number(a),
    }
}

fn field_number(a: &[Datum<'_>]) -> Result<Value> {
    let given = text(&a[1])?;
    if is_hexadecimal(given) {
        return to_hex(&[Datum::Numeric(whole_of(&a[0])?, 0), a[1]]);
    }
    let upper = given.to_ascii_uppercase();
    let finite = match &a[0] {
        Datum::Float4(v) => v.is_finite(),
        Datum::Float8(v) => v.is_finite(),
        _ => true,
    };
    if matches!(upper.as_str(), "TM" | "TM9") && finite {
        let (v, scale) = to_numeric(&a[0])?;
        return made(number_text(v, scale));
    }
    // What stands in quotes is text.
    let (dollar, blank) = match given.contains('"') {
        true => (false, false),
        false => (upper.contains('$'), upper.contains('B')),
    };
    let mask: String = match dollar || blank {
        true => given.chars().filter(|c| !matches!(c, '$' | 'B' | 'b')).collect(),
        false => given.to_owned(),
    };
    let Value::Text(shown) = number_to_char(&[a[0], Datum::Text(&mask)])? else {
        return Ok(Value::Null);
    };
    let width = shown.chars().count() + usize::from(dollar);
    if shown.contains('#') && !given.contains('#') {
        return made("#".repeat(width));
    }
    if blank && finite && to_numeric(&a[0])?.0 == 0 {
        return made(" ".repeat(width));
    }
    match shown.find(|c: char| c.is_ascii_digit() || c == '.').filter(|_| dollar) {
        Some(at) => made(format!("{}${}", &shown[..at], &shown[at..])),
        None => Ok(Value::Text(shown)),
    }
}

/// A number without its fraction.
fn whole_of(number: &Datum<'_>) -> Result<i128> {
    let (v, scale) = to_numeric(number)?;
    Ok(crate::arith::pow10(u32::from(scale)).map_or(0, |unit| v / unit))
}

pub(in super::super) const FIELD_LINES: &[Line] = &[
    ("$to_char(timestamp, text) text", Body::In(field_instant)),
    ("$to_char(timestamptz, text) text", Body::In(field_instant)),
    ("$to_char(interval, text) text", Body::In(field_instant)),
    ("$to_char(int4, text) text", Body::One(field_number)),
    ("$to_char(int8, text) text", Body::One(field_number)),
    ("$to_char(numeric, text) text", Body::One(field_number)),
    ("$to_char(float4, text) text", Body::One(field_number)),
    ("$to_char(float8, text) text", Body::One(field_number)),
    ("$to_number(text, text) numeric:15", Body::One(field_to_number)),
    // `to_date`, whose template asks for a time of day or is no literal.
    ("$to_datetime(text, text) timestamp", Body::One(to_datetime)),
    ("$to_timestamp(text, text) timestamptz", Body::In(field_timestamp)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_of_the_field() {
        assert_eq!(template("DD-MON-RR HH24:MI").as_deref(), Some("DD-MON-YY HH24:MI"));
        assert_eq!(template("rrrr\"RR\"").as_deref(), Some("YYYY\"RR\""));
        assert_eq!(template("SS.FF").as_deref(), Some("SS.FF6"));
        assert_eq!(template("SS.FF9 X").as_deref(), Some("SS.FF6 X"));
        assert_eq!(template("SS.FF3"), None);
        assert_eq!(template("dd-mon-yyyy hh24:mi:ss"), None);
    }

    #[test]
    fn numbers_of_the_field() {
        for (number, scale, mask, shown) in [
            (500, 2, "$999.99", "   $5.00"),
            (-500, 2, "$999.99", "  -$5.00"),
            (500, 2, "FM$999.99", "$5."),
            (12_345, 0, "999", "####"),
            (12_345, 0, "$999", "#####"),
            (12_345, 3, "TM9", "12.345"),
            (5, 1, "tm", ".5"),
            (0, 0, "B99", "   "),
            (7, 0, "B99", "  7"),
            (255, 0, "XXXX", "   FF"),
            (2559, 1, "fmxx", "ff"),
            (1_234, 0, "9,999", " 1,234"),
        ] {
            let told = field_number(&[Datum::Numeric(number, scale), Datum::Text(mask)]);
            assert_eq!(told, Ok(Value::Text(shown.into())), "{number} {scale} {mask}");
        }
    }

    #[test]
    fn templates_that_are_no_literals_mean_the_same() {
        let read = |given: &str, mask: &str| to_datetime(&[Datum::Text(given), Datum::Text(mask)]);
        let same = read("05-MAR-24", "DD-MON-YY");
        assert!(same.is_ok());
        assert_eq!(read("05-MAR-24", "DD-MON-RR"), same);
        let number =
            |given: &str, mask: &str| field_to_number(&[Datum::Text(given), Datum::Text(mask)]);
        assert_eq!(number("FF", "XX"), number("255", "999"));
    }
}
