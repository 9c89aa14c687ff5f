//! Numbers written and read after a template.
//!
//! What it promises: the blanks, signs and zeros of PostgreSQL, whose walk over the template this
//! follows step by step.

use super::number_template::{Anchor, Key, Part, Picture};
use super::ordinal;
use crate::arith::{pow10, rescale};
use crate::cast::{CastMode, cast};
use crate::error::{PgError, Result};
use crate::wire::FormatEnv;
use kernel::row::{ColType, Datum, Value};

/// Digits that a double precision surely has.
const FLOAT_DIGITS: usize = 15;

fn out_of_range() -> PgError {
    PgError::out_of_range("numeric")
}

/// Digits after the point that a quotient has at least.
const QUOTIENT_DIGITS: u8 = 16;

/// Text of a numeric; of an empty template there is none.
pub(super) fn of_numeric((value, scale): (i128, u8), template: &str) -> Result<String> {
    let mut picture = Picture::parse(template)?;
    if picture.roman {
        let whole = rescale(value, scale, 0).ok_or_else(out_of_range)?;
        return write(picture, roman(whole), 0, '+');
    }
    if picture.exponent {
        return Ok(scientific((value, scale), picture.behind));
    }
    let mut scale = usize::from(scale);
    let mut value = value;
    if picture.shifted {
        // The point moves right: fewer digits stand behind it.
        let left = scale.saturating_sub(picture.shift);
        let more = u32::try_from(picture.shift.saturating_sub(scale)).unwrap_or(u32::MAX);
        value = pow10(more).and_then(|unit| value.checked_mul(unit)).ok_or_else(out_of_range)?;
        scale = left;
        picture.before += picture.shift;
    }
    let wanted = u8::try_from(picture.behind).map_err(|_| out_of_range())?;
    let from = u8::try_from(scale).map_err(|_| out_of_range())?;
    let rounded = rescale(value, from, wanted).ok_or_else(out_of_range)?;
    let width = picture.behind + 1;
    let mut digits = format!("{:0>width$}", rounded.unsigned_abs());
    if picture.behind > 0 {
        digits.insert(digits.len() - picture.behind, '.');
    }
    write_digits(picture, digits, if rounded < 0 { '-' } else { '+' })
}

/// Text of an integer: its exponent is rounded as that of a double precision.
pub(super) fn of_integer(value: i64, template: &str) -> Result<String> {
    if Picture::parse(template)?.exponent {
        #[allow(clippy::cast_precision_loss)] // a few digits are shown
        return of_float(value as f64, template);
    }
    of_numeric((i128::from(value), 0), template)
}

/// Text of a double precision.
pub(super) fn of_float(value: f64, template: &str) -> Result<String> {
    let mut picture = Picture::parse(template)?;
    if picture.roman {
        #[allow(clippy::cast_possible_truncation)] // what is out of range has no numeral
        let whole = value.round_ties_even() as i128;
        return write(picture, roman(whole), 0, '+');
    }
    if picture.exponent {
        return Ok(float_scientific(value, &picture));
    }
    let mut value = value;
    if picture.shifted {
        value *= 10_f64.powi(i32::try_from(picture.shift).unwrap_or(i32::MAX));
        picture.before += picture.shift;
    }
    let text = |value: f64, places: usize| {
        if value.is_finite() {
            format!("{value:.places$}")
        } else if value.is_nan() {
            "NaN".to_owned()
        } else {
            (if value < 0.0 { "-Infinity" } else { "Infinity" }).to_owned()
        }
    };
    let whole = text(value.abs(), 0).len();
    if whole >= FLOAT_DIGITS {
        picture.behind = 0;
    } else if whole + picture.behind > FLOAT_DIGITS {
        picture.behind = FLOAT_DIGITS - whole;
    }
    let digits = text(value, picture.behind);
    match digits.strip_prefix('-') {
        Some(digits) => write_digits(picture, digits.to_owned(), '-'),
        None => write_digits(picture, digits, '+'),
    }
}

/// Digits with a point, right-aligned in the picture; crosses where they do not fit.
fn write_digits(picture: Picture, digits: String, sign: char) -> Result<String> {
    let before = digits.find('.').unwrap_or(digits.len());
    if before > picture.before {
        let crosses = format!("{}.{}", "#".repeat(picture.before), "#".repeat(picture.behind));
        return write(picture, crosses, 0, sign);
    }
    let blanks = picture.before - before;
    write(picture, digits, blanks, sign)
}

/// A Roman numeral, or crosses.
fn roman(number: i128) -> String {
    const SIGNS: [(u16, &str); 13] = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    let mut rest = match u16::try_from(number) {
        Ok(number @ 1..=3999) => number,
        _ => return "#".repeat(15),
    };
    let mut out = String::new();
    for (value, sign) in SIGNS {
        while rest >= value {
            rest -= value;
            out.push_str(sign);
        }
    }
    out
}

/// One digit before the point, as many behind it as the picture has, and the power of ten.
fn scientific((value, scale): (i128, u8), behind: usize) -> String {
    let digits = value.unsigned_abs().to_string();
    let mut exponent = if value == 0 {
        0
    } else {
        i64::try_from(digits.len()).unwrap_or(0) - 1 - i64::from(scale)
    };
    let mut kept: Vec<u8> = digits.bytes().take(behind + 1).collect();
    kept.resize(behind + 1, b'0');
    if digits.as_bytes().get(behind + 1).is_some_and(|digit| *digit >= b'5') {
        let mut at = kept.len();
        loop {
            if at == 0 {
                kept.insert(0, b'1');
                kept.pop();
                exponent += 1;
                break;
            }
            at -= 1;
            if kept[at] < b'9' {
                kept[at] += 1;
                break;
            }
            kept[at] = b'0';
        }
    }
    let sign = if value < 0 { '-' } else { ' ' };
    let kept = String::from_utf8_lossy(&kept).into_owned();
    let (first, rest) = kept.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    let direction = if exponent < 0 { '-' } else { '+' };
    format!("{sign}{first}{point}{rest}e{direction}{:02}", exponent.abs())
}

fn float_scientific(value: f64, picture: &Picture) -> String {
    if !value.is_finite() {
        let (before, behind) = (picture.before, picture.behind);
        return format!(" {}.{}", "#".repeat(before), "#".repeat(behind + 4));
    }
    let text = format!("{:.*e}", picture.behind, value.abs());
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if value.is_sign_negative() { '-' } else { ' ' };
    let direction = if exponent < 0 { '-' } else { '+' };
    format!("{sign}{digits}e{direction}{:02}", exponent.abs())
}

/// A number on its way into a picture.
struct Writer {
    picture: Picture,
    digits: Vec<u8>,
    /// Position of the next digit.
    next: usize,
    /// Last digit that is shown, with `FM`.
    last: Option<usize>,
    sign: char,
    sign_written: bool,
    /// Places before the first digit.
    blanks: usize,
    place: usize,
    /// Where the last place is, for a sign behind it.
    places: usize,
    in_number: bool,
    zero_start: usize,
    out: String,
}

fn write(mut picture: Picture, digits: String, blanks: usize, sign: char) -> Result<String> {
    let (mut blanks, mut sign) = (blanks, sign);
    if picture.roman {
        let (parts, fill_mode) = (std::mem::take(&mut picture.parts), picture.fill_mode);
        picture = Picture { parts, fill_mode, roman: true, ..Picture::default() };
        (blanks, sign) = (0, ' ');
    }
    let sign_written = if picture.plus || picture.minus {
        !picture.plus || picture.minus
    } else {
        if sign != '-' && picture.fill_mode {
            picture.bracket = false;
        }
        if picture.anchor == Anchor::Before && picture.before == picture.before_anchor {
            picture.anchor = Anchor::Behind;
        }
        sign == '+' && picture.fill_mode && !picture.anchored
    };
    let digits = digits.into_bytes();
    let last = last_relevant(&picture, &digits, blanks);
    let mut places = picture.behind + picture.before;
    if sign_written || blanks > 0 {
        places = places.saturating_sub(1);
    }
    let parts = picture.parts.clone();
    let zero_start = picture.zero_start.saturating_sub(1);
    let mut writer = Writer {
        picture,
        digits,
        next: 0,
        last,
        sign,
        sign_written,
        blanks,
        place: 0,
        places,
        in_number: false,
        zero_start,
        out: String::new(),
    };
    for part in parts {
        match part {
            Part::Char(c) => writer.out.push(c),
            Part::Key(key, upper) => writer.key(key, upper)?,
        }
    }
    Ok(writer.out)
}

/// Position of the last digit that `FM` leaves.
fn last_relevant(picture: &Picture, digits: &[u8], blanks: usize) -> Option<usize> {
    if !picture.fill_mode || !picture.decimal {
        return None;
    }
    let point = digits.iter().position(|digit| *digit == b'.')?;
    let mut last = point;
    for (at, digit) in digits.iter().enumerate().skip(point + 1) {
        if *digit != b'0' {
            last = at;
        }
    }
    if picture.zero_end > blanks {
        last = last.max((digits.len() - 1).min(picture.zero_end - blanks));
    }
    Some(last)
}

impl Writer {
    fn key(&mut self, key: Key, upper: bool) -> Result<()> {
        let fill_mode = self.picture.fill_mode;
        match key {
            Key::Nine | Key::Zero | Key::Point => self.digit(key),
            Key::Comma | Key::Group if self.in_number => self.out.push(','),
            Key::Comma | Key::Group if !fill_mode => self.out.push(' '),
            // The C locale has no currency.
            Key::Currency => self.out.push(' '),
            Key::Roman => {
                let numeral = String::from_utf8_lossy(&self.digits).into_owned();
                let numeral = if upper { numeral } else { numeral.to_ascii_lowercase() };
                let width = if fill_mode { 0 } else { 15 };
                self.out.push_str(&format!("{numeral:>width$}"));
            }
            Key::Ordinal => {
                let crosses = self.digits.first() == Some(&b'#');
                if !(self.picture.roman || crosses || self.sign == '-' || self.picture.decimal) {
                    let digits = String::from_utf8_lossy(&self.digits).into_owned();
                    self.out.push_str(ordinal(&digits, upper)?);
                }
            }
            Key::Minus if self.sign == '-' => self.out.push('-'),
            Key::Plus if self.sign == '+' => self.out.push('+'),
            Key::Minus | Key::Plus if !fill_mode => self.out.push(' '),
            Key::Sign => self.out.push(self.sign),
            _ => {}
        }
        Ok(())
    }

    /// Whether a zero before the point is left out: `9.9` of 0.1.
    fn bare_point(&self) -> bool {
        !self.picture.zero
            && self.next == 0
            && self.digits.first() == Some(&b'0')
            && self.picture.behind != 0
    }

    /// Whether nothing behind the point is shown.
    fn ends_at_point(&self) -> bool {
        self.last.and_then(|at| self.digits.get(at)) == Some(&b'.')
    }

    fn push_sign(&mut self) {
        let picture = &self.picture;
        let here = self.place >= self.blanks || (picture.zero && self.zero_start == self.place);
        if self.sign_written || !here || (self.bare_point() && !self.ends_at_point()) {
            return;
        }
        if picture.anchored {
            if picture.anchor == Anchor::Before {
                self.out.push(self.sign);
                self.sign_written = true;
            }
        } else if picture.bracket {
            self.out.push(if self.sign == '+' { ' ' } else { '<' });
            self.sign_written = true;
        } else if self.sign == '+' {
            if !picture.fill_mode {
                self.out.push(' ');
            }
            self.sign_written = true;
        } else if self.sign == '-' {
            self.out.push('-');
            self.sign_written = true;
        }
    }

    fn digit(&mut self, key: Key) {
        if self.picture.roman {
            return;
        }
        self.in_number = false;
        self.push_sign();
        let (zero, fill_mode) = (self.picture.zero, self.picture.fill_mode);
        if self.place < self.blanks && (self.zero_start > self.place || !zero) {
            if !fill_mode {
                self.out.push(' ');
            }
        } else if zero && self.place < self.blanks && self.zero_start <= self.place {
            self.out.push('0');
            self.in_number = true;
        } else {
            self.own_digit(key);
        }
        let mut end =
            self.places + usize::from(self.blanks > 0) + usize::from(self.picture.decimal);
        if self.last.is_some_and(|last| last == self.next) {
            end = self.place;
        }
        if self.place + 1 == end {
            if self.sign_written && self.picture.bracket {
                self.out.push(if self.sign == '+' { ' ' } else { '>' });
            } else if self.picture.anchored && self.picture.anchor == Anchor::Behind {
                self.out.push(self.sign);
            }
        }
        self.place += 1;
    }

    /// A digit of the number itself, or its point.
    fn own_digit(&mut self, key: Key) {
        let digit = self.digits.get(self.next).copied();
        let fill_mode = self.picture.fill_mode;
        if digit == Some(b'.') {
            if !self.ends_at_point() || fill_mode {
                self.out.push('.');
            }
        } else if self.last.is_some_and(|last| self.next > last) && key != Key::Zero {
            // Behind what is shown.
        } else if self.bare_point() {
            if !fill_mode {
                self.out.push(' ');
            } else if self.ends_at_point() {
                self.out.push('0');
            }
        } else if let Some(digit) = digit {
            self.out.push(char::from(digit));
            self.in_number = true;
        }
        if digit.is_some() {
            self.next += 1;
        }
    }
}

/// A number on its way out of a text.
struct Reader<'t> {
    picture: Picture,
    text: &'t [u8],
    at: usize,
    sign: u8,
    digits: String,
    before: usize,
    behind: usize,
    point: bool,
}

/// The number that a text has in the places of the template; NULL for an empty template.
pub(super) fn read(text: &str, template: &str) -> Result<Value> {
    if template.is_empty() {
        return Ok(Value::Null);
    }
    let picture = Picture::parse(template)?;
    for (said, name) in [(picture.exponent, "EEEE"), (picture.roman, "RN")] {
        if said {
            return Err(PgError::new("0A000", format!("\"{name}\" not supported for input")));
        }
    }
    let parts = picture.parts.clone();
    let mut reader = Reader {
        picture,
        text: text.as_bytes(),
        at: 0,
        sign: b' ',
        digits: String::new(),
        before: 0,
        behind: 0,
        point: false,
    };
    for part in parts {
        if reader.at >= reader.text.len() {
            break;
        }
        reader.part(part);
    }
    reader.value()
}

impl Reader<'_> {
    fn here(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_char(&mut self) {
        self.at += 1;
        while self.here().is_some_and(|byte| byte & 0xc0 == 0x80) {
            self.at += 1;
        }
    }

    /// Past characters that are no part of a number.
    fn skip_other(&mut self, count: usize) {
        for _ in 0..count {
            match self.here() {
                None | Some(b'0'..=b'9' | b'.' | b',' | b'+' | b'-') => break,
                Some(_) => self.skip_char(),
            }
        }
    }

    fn part(&mut self, part: Part) {
        let in_number = false;
        let fill_mode = self.picture.fill_mode;
        match part {
            Part::Char(_) => self.skip_char(),
            Part::Key(Key::Nine | Key::Zero, _) => {
                self.digit(true);
                self.at += 1;
            }
            Part::Key(Key::Point, _) => {
                self.digit(false);
                self.at += 1;
            }
            Part::Key(Key::Comma | Key::Group, _) => {
                if (in_number || !fill_mode) && self.here() == Some(b',') {
                    self.at += 1;
                }
            }
            Part::Key(Key::Currency, _) => self.skip_other(1),
            Part::Key(Key::Ordinal, _) => self.skip_other(2),
            Part::Key(key @ (Key::Minus | Key::Plus | Key::Sign), _) => match self.here() {
                Some(sign @ b'-') if key != Key::Plus => self.take_sign(sign),
                Some(sign @ b'+') if key != Key::Minus => self.take_sign(sign),
                _ => self.skip_other(1),
            },
            Part::Key(..) => {}
        }
    }

    fn take_sign(&mut self, sign: u8) {
        self.sign = sign;
        self.at += 1;
    }

    /// The place of a digit or, unless it is one of digits only, of the point. The position is left
    /// on what was read.
    fn digit(&mut self, digit_place: bool) {
        if self.here() == Some(b' ') {
            self.at += 1;
        }
        let none = self.before + self.behind == 0;
        if self.sign == b' ' && digit_place && none {
            let Some(here) = self.here() else { return };
            let bracket = self.picture.bracket && here == b'<';
            let anchored = self.picture.anchored && self.picture.anchor == Anchor::Before;
            if here == b'-' || (!anchored && bracket) {
                self.take_sign(b'-');
            } else if here == b'+' {
                self.take_sign(b'+');
            }
        }
        let Some(here) = self.here() else { return };
        let mut is_read = false;
        if here.is_ascii_digit() {
            if self.point && self.behind == self.picture.behind {
                return;
            }
            self.digits.push(char::from(here));
            if self.point {
                self.behind += 1;
            } else {
                self.before += 1;
            }
            is_read = true;
        } else if self.picture.decimal && !self.point && here == b'.' {
            self.digits.push('.');
            self.point = true;
            is_read = true;
        }
        if self.sign != b' ' || self.before + self.behind == 0 {
            return;
        }
        if self.picture.anchored && is_read {
            // The sign behind the last digit.
            if let Some(sign @ (b'-' | b'+')) = self.text.get(self.at + 1).copied() {
                self.sign = sign;
                self.at += 1;
            }
        } else if !is_read
            && !self.picture.anchored
            && (self.picture.plus || self.picture.minus)
            && matches!(here, b'-' | b'+')
        {
            self.sign = here;
        }
    }

    fn value(self) -> Result<Value> {
        let digits = self.digits.strip_suffix('.').unwrap_or(&self.digits);
        let text = format!("{}{digits}", char::from(self.sign));
        let (scale, shift) = (self.behind, self.picture.shift);
        let precision = self.picture.before + shift + scale;
        let ty = match (u8::try_from(precision), u8::try_from(scale)) {
            (Ok(precision @ 1..=38), Ok(scale)) => ColType::numeric(precision, scale),
            _ => ColType::new(kernel::row::TypeKind::Numeric),
        };
        let read = cast(&Datum::Text(&text), ty, CastMode::Explicit, &FormatEnv::plain())?;
        let Value::Numeric(value, scale) = read else {
            return Err(PgError::internal("a number read is no numeric"));
        };
        if shift == 0 {
            return Ok(Value::Numeric(value, scale));
        }
        // The point moves left, by a power of ten with as many digits as a quotient has.
        let moved = u8::try_from(shift).ok().and_then(|shift| scale.checked_add(shift));
        let shown = scale.max(QUOTIENT_DIGITS);
        let value = moved.and_then(|moved| rescale(value, moved, shown));
        value.map(|value| Value::Numeric(value, shown)).ok_or_else(out_of_range)
    }
}
