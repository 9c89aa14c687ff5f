//! How columns are shown where results are aligned: texts within a width, numbers by a template or
//! within a width, headings of several lines.
//!
//! What it promises: digits are rounded exactly, however many there are. What it must never do:
//! show a part of a number for the whole; what has no room is `#` signs.

use std::borrow::Cow;

/// Digits of a number that is written out, at most.
const PLACES_MAX: i64 = 200_000;

/// Where a heading stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    Left,
    Center,
    Right,
}

/// What becomes of a text that is wider than its column.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Wrap {
    /// It goes on in the next line.
    #[default]
    Lines,
    /// The same, between two words if there are two.
    Words,
    Cut,
}

/// How values are shown.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Form {
    /// As they come.
    #[default]
    Plain,
    Text {
        width: usize,
        wrap: Wrap,
    },
    Number(Template),
    /// Numbers in so many characters.
    Within(usize),
}

/// How a column is shown.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Shape {
    pub form: Form,
    /// Its lines; `None`: the column's name.
    pub heading: Option<Vec<String>>,
    pub side: Option<Side>,
    /// What stands for NULL, if it is another text than elsewhere.
    pub null: Option<String>,
}

/// One without anything of its own.
pub static PLAIN: Shape = Shape { form: Form::Plain, heading: None, side: None, null: None };

impl Shape {
    /// The width that the column has whatever stands in it.
    pub fn width(&self) -> Option<usize> {
        if let Form::Text { width, .. } = &self.form { Some(*width) } else { None }
    }

    pub fn width_min(&self) -> usize {
        match &self.form {
            Form::Plain | Form::Text { .. } => 0,
            Form::Number(template) => template.width(),
            Form::Within(width) => *width,
        }
    }

    /// Whether values stand to the right; `None`: that is seen by them.
    pub fn is_right(&self) -> Option<bool> {
        match &self.form {
            Form::Plain => None,
            Form::Text { .. } => Some(false),
            Form::Number(_) | Form::Within(_) => Some(true),
        }
    }

    /// The lines of a value.
    pub fn lines<'a>(&self, text: &'a str) -> Vec<Cow<'a, str>> {
        match &self.form {
            Form::Plain => text.split('\n').map(Cow::Borrowed).collect(),
            Form::Text { width, wrap } => {
                let parts = text.split('\n').flat_map(|line| parts_of(line, *width, *wrap));
                parts.map(Cow::Borrowed).collect()
            }
            Form::Number(template) => vec![Cow::Owned(template.text(text))],
            Form::Within(width) => vec![within(text, *width)],
        }
    }

    /// Those of NULL, which is `usual` where the column has no text of its own for it.
    pub fn null_lines<'a>(&'a self, usual: &'a str) -> Vec<Cow<'a, str>> {
        let text = self.null.as_deref().unwrap_or(usual);
        match &self.form {
            Form::Plain | Form::Text { .. } => self.lines(text),
            // It is no number.
            Form::Number(_) | Form::Within(_) => vec![Cow::Borrowed(text)],
        }
    }

    /// A text of one line that stands in the column.
    pub fn label<'a>(&self, text: &'a str) -> &'a str {
        self.width().map_or(text, |width| cut(text, width))
    }

    /// A line of the heading, in a column of that width.
    pub fn heading_line(&self, text: &str, width: usize) -> String {
        let text = cut(text, width);
        let usual = if self.is_right() == Some(true) { Side::Right } else { Side::Left };
        match self.side.unwrap_or(usual) {
            Side::Left => format!(" {text:<width$} "),
            Side::Center => format!(" {text:^width$} "),
            Side::Right => format!(" {text:>width$} "),
        }
    }
}

/// As much of a text as there is room for.
fn cut(text: &str, width: usize) -> &str {
    text.char_indices().nth(width).map_or(text, |(at, _)| &text[..at])
}

/// A line in parts of so many characters.
fn parts_of(line: &str, width: usize, wrap: Wrap) -> Vec<&str> {
    let (mut parts, mut rest) = (Vec::new(), line);
    // Without a width nothing would ever be taken.
    let width = width.max(1);
    loop {
        let head = cut(rest, width);
        let (end, next) = match wrap {
            _ if head.len() == rest.len() => (head.len(), rest.len()),
            Wrap::Cut => (head.len(), rest.len()),
            Wrap::Lines => (head.len(), head.len()),
            Wrap::Words => between_words(rest, head.len()),
        };
        parts.push(&rest[..end]);
        rest = &rest[next..];
        if rest.is_empty() {
            return parts;
        }
    }
}

/// Where the last word ends of which there is room for `end` bytes, and where the next one begins.
fn between_words(text: &str, end: usize) -> (usize, usize) {
    let at = match text[end..].starts_with(' ') {
        true => end,
        false => text[..end].rfind(' ').unwrap_or(0),
    };
    let head = text[..at].trim_end().len();
    if head == 0 {
        return (end, end);
    }
    let behind = &text[at..];
    (head, at + (behind.len() - behind.trim_start().len()))
}

/// Where the sign of a number stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sign {
    /// A minus before it.
    Usual,
    /// `S`: a plus or a minus.
    First,
    Last,
    /// `MI`: a minus behind it.
    Minus,
    /// `PR`: `<5>`.
    Brackets,
}

/// How numbers are written: `999,990.99` and its like.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Template {
    written: String,
    /// `9`, `0` and `,` before the point.
    whole: Vec<u8>,
    /// Digits behind it; `None`: there is no point.
    fraction: Option<usize>,
    sign: Sign,
    has_dollar: bool,
    /// Zero is shown as blanks.
    blanks_zero: bool,
}

impl Template {
    /// `None`: it is none, or has parts that there are none of here.
    pub fn read(text: &str) -> Option<Template> {
        let written = text.to_ascii_uppercase();
        let (mut rest, mut sign) = (written.as_str(), Sign::Usual);
        if let Some(behind) = rest.strip_prefix('S') {
            (rest, sign) = (behind, Sign::First);
        } else {
            let ends = [("MI", Sign::Minus), ("PR", Sign::Brackets), ("S", Sign::Last)];
            for (end, meaning) in ends {
                if let Some(before) = rest.strip_suffix(end) {
                    (rest, sign) = (before, meaning);
                    break;
                }
            }
        }
        let (mut whole, mut fraction): (Vec<u8>, Option<usize>) = (Vec::new(), None);
        let (mut has_dollar, mut blanks_zero) = (false, false);
        for c in rest.bytes() {
            match (c, fraction) {
                (b'$', _) if !has_dollar => has_dollar = true,
                (b'B', _) if !blanks_zero => blanks_zero = true,
                (b'.' | b'D', None) => fraction = Some(0),
                (b'9' | b'0', None) => whole.push(c),
                (b'9' | b'0', Some(digits)) => fraction = Some(digits + 1),
                (b',' | b'G', None) if !whole.is_empty() => whole.push(b','),
                _ => return None,
            }
        }
        if whole.is_empty() && fraction.unwrap_or(0) == 0 {
            return None;
        }
        let written = text.to_owned();
        Some(Template { written, whole, fraction, sign, has_dollar, blanks_zero })
    }

    /// As it was written.
    pub fn written(&self) -> &str {
        &self.written
    }

    /// Characters that every number takes.
    pub fn width(&self) -> usize {
        let fraction = self.fraction.map_or(0, |digits| digits + 1);
        let sign = if self.sign == Sign::Brackets { 2 } else { 1 };
        self.whole.len() + fraction + usize::from(self.has_dollar) + sign
    }

    /// A number; `#` signs: it has no room.
    fn text(&self, value: &str) -> String {
        let width = self.width();
        let Some(number) = Digits::read(value) else {
            // Infinity and its like.
            let fits = value.chars().count() <= width;
            return if fits { format!("{value:>width$}") } else { "#".repeat(width) };
        };
        let scale = self.fraction.unwrap_or(0);
        let number = number.rounded(scale);
        if self.blanks_zero && number.is_zero() {
            return " ".repeat(width);
        }
        let Some(whole) = self.whole_text(&number) else { return "#".repeat(width) };
        let dollar = if self.has_dollar { "$" } else { "" };
        let point = if self.fraction.is_some() { "." } else { "" };
        let body = format!("{dollar}{whole}{point}{}", number.fraction(scale));
        let text = match (self.sign, number.minus) {
            (Sign::Usual, false) => body,
            (Sign::Usual | Sign::First, true) => format!("-{body}"),
            (Sign::First, false) => format!("+{body}"),
            (Sign::Last, false) => format!("{body}+"),
            (Sign::Last | Sign::Minus, true) => format!("{body}-"),
            (Sign::Minus, false) => format!("{body} "),
            (Sign::Brackets, false) => format!(" {body} "),
            (Sign::Brackets, true) => format!("<{body}>"),
        };
        format!("{text:>width$}")
    }

    /// What stands before the point; `None`: it has no room.
    fn whole_text(&self, number: &Digits) -> Option<String> {
        let digits = number.whole();
        let places: Vec<u8> = self.whole.iter().copied().filter(|mark| *mark != b',').collect();
        if digits.len() > places.len() {
            return None;
        }
        // From the first zero on all places are shown.
        let zero = places.iter().position(|mark| *mark == b'0');
        let mut least = zero.map_or(0, |at| places.len() - at);
        if self.fraction.unwrap_or(0) == 0 {
            least = least.max(1);
        }
        if self.blanks_zero && digits.is_empty() {
            least = 0;
        }
        let least = least.max(digits.len());
        let digits = format!("{digits:0>least$}");
        let mut left = digits.bytes().rev().peekable();
        let mut reversed = String::new();
        for mark in self.whole.iter().rev() {
            // A comma stands between digits.
            if left.peek().is_none() {
                break;
            }
            match mark {
                b',' => reversed.push(','),
                _ => reversed.extend(left.next().map(char::from)),
            }
        }
        Some(reversed.chars().rev().collect())
    }
}

/// A number in so many characters: digits behind the point are rounded away, and where too few
/// would be left, it has an exponent.
fn within(text: &str, width: usize) -> Cow<'_, str> {
    if text.chars().count() <= width {
        return Cow::Borrowed(text);
    }
    // As the server writes numbers, with a zero before the point or without.
    let leads = !text.trim_start_matches('-').starts_with('.');
    let shown = Digits::read(text).and_then(|number| number.within(width, leads));
    Cow::Owned(shown.unwrap_or_else(|| "#".repeat(width)))
}

/// A number by its digits, which stand behind a point that is then moved by so many places.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Digits {
    minus: bool,
    /// The first is no zero; zero has none.
    digits: Vec<u8>,
    point: i64,
}

impl Digits {
    fn read(text: &str) -> Option<Digits> {
        let (minus, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (number, exponent) = match text.split_once(['e', 'E']) {
            Some((number, exponent)) => (number, exponent.parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
        digits.drain(..zeros);
        if digits.is_empty() {
            return Some(Digits { minus, digits, point: 0 });
        }
        let [whole, zeros] = [whole.len(), zeros].map(|count| i64::try_from(count).ok());
        let point = whole? - zeros? + i64::from(exponent);
        (-PLACES_MAX..=PLACES_MAX).contains(&point).then_some(Digits { minus, digits, point })
    }

    fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    fn digit(&self, at: usize) -> char {
        self.digits.get(at).copied().map_or('0', char::from)
    }

    /// Digits before the point, none of zero.
    fn whole(&self) -> String {
        (0..usize::try_from(self.point).unwrap_or(0)).map(|at| self.digit(at)).collect()
    }

    /// Digits behind it.
    fn fraction(&self, scale: usize) -> String {
        let places = (self.point..).take(scale);
        places.map(|at| usize::try_from(at).map_or('0', |at| self.digit(at))).collect()
    }

    /// With so many digits behind the point.
    fn rounded(self, scale: usize) -> Digits {
        let scale = i64::try_from(scale).unwrap_or(PLACES_MAX);
        let kept = self.point.saturating_add(scale);
        match usize::try_from(kept) {
            Ok(kept) => self.kept(kept),
            // Less than a tenth of the last place.
            Err(_) => Digits { minus: self.minus, digits: Vec::new(), point: 0 },
        }
    }

    /// With so many digits, the last one rounded.
    fn kept(mut self, count: usize) -> Digits {
        let Some(next) = self.digits.get(count).copied() else { return self };
        let goes_up = next >= b'5';
        self.digits.truncate(count);
        if goes_up {
            let last = self.digits.iter().rposition(|digit| *digit != b'9');
            let behind = last.map_or(0, |at| at + 1);
            self.digits[behind..].fill(b'0');
            match last {
                Some(at) => self.digits[at] += 1,
                None => {
                    self.digits.insert(0, b'1');
                    self.point += 1;
                }
            }
        }
        if self.digits.is_empty() {
            self.point = 0;
        }
        self
    }

    /// `leads`: a zero stands before the point of what is less than 1.
    fn within(self, width: usize, leads: bool) -> Option<String> {
        let width = width.checked_sub(usize::from(self.minus))?;
        let before = usize::try_from(self.point).unwrap_or(0);
        let whole = if before == 0 { usize::from(leads) } else { before };
        let sign = if self.minus { "-" } else { "" };
        let exponent_len = exponent(self.point - 1).len();
        // Behind the first one there is a point.
        let digits = match width.checked_sub(exponent_len) {
            None | Some(0) => 0,
            Some(1 | 2) => 1,
            Some(room) => room - 1,
        };
        if let Some(room) = width.checked_sub(whole) {
            let scale = room.saturating_sub(1);
            let kept = self.point + i64::try_from(scale).ok()?;
            let all = usize::try_from(kept).is_ok_and(|kept| kept >= self.digits.len());
            if all || usize::try_from(kept).is_ok_and(|kept| kept >= digits) {
                let number = self.clone().rounded(scale);
                let fraction = number.fraction(scale);
                let fraction = fraction.trim_end_matches('0');
                let mut text = number.whole();
                if text.is_empty() && (leads || fraction.is_empty()) {
                    text.push('0');
                }
                if !fraction.is_empty() {
                    text.push('.');
                    text.push_str(fraction);
                }
                // One more before the point may have come of the rounding.
                if text.len() <= width {
                    let sign = if number.is_zero() { "" } else { sign };
                    return Some(format!("{sign}{text}"));
                }
            }
        }
        if digits == 0 {
            return None;
        }
        let number = self.kept(digits);
        let exponent = exponent(number.point - 1);
        let mut text = String::from(number.digit(0));
        if digits > 1 {
            text.push('.');
            text.extend((1..digits).map(|at| number.digit(at)));
        }
        text.push_str(&exponent);
        (text.len() <= width).then(|| format!("{sign}{text}"))
    }
}

/// `E+05`.
fn exponent(exponent: i64) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("E{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(template: &str, value: &str) -> String {
        Template::read(template).map_or("?".to_owned(), |template| template.text(value))
    }

    #[test]
    fn numbers_are_written_by_a_template() {
        for (template, value, wanted) in [
            ("999", "7", "   7"),
            ("999", "0", "   0"),
            ("999", "-45", " -45"),
            ("999", "999.5", "####"),
            ("999", "1000", "####"),
            ("0999", "7", " 0007"),
            ("999,990.99", "1234.5", "   1,234.50"),
            ("999,990.99", "0.005", "       0.01"),
            ("999,990.99", "-123456.789", "-123,456.79"),
            ("999,990.99", "1234567", "###########"),
            ("999.99", "0.5", "    .50"),
            ("999.99", "99.995", " 100.00"),
            ("99.99", "-0.25", "  -.25"),
            (".99", "0.256", " .26"),
            ("0,000", "5", " 0,005"),
            ("9g999d9", "1234.56", " 1,234.6"),
            ("$9,999", "12", "    $12"),
            ("$9,999", "-1200", "-$1,200"),
            ("S999", "12", " +12"),
            ("S999", "-12", " -12"),
            ("999S", "-12", " 12-"),
            ("999mi", "-12", " 12-"),
            ("999MI", "12", " 12 "),
            ("999PR", "-12", " <12>"),
            ("999PR", "12", "  12 "),
            ("B990", "0", "    "),
            ("B990.9", "0.5", "    .5"),
            ("999", "1.5e2", " 150"),
            ("9.999", "12e-2", "  .120"),
            ("9999999", "Infinity", "Infinity"),
            ("999", "NaN", " NaN"),
            ("99999999999999999999", "12345678901234567890.4", " 12345678901234567890"),
        ] {
            assert_eq!(written(template, value), wanted, "{template} of {value}");
        }
        for wrong in ["", "a20", "S", ".", ",999", "9.9.9", "9.9,9", "9SMI", "$$9", "9.9EEEE"] {
            assert!(Template::read(wrong).is_none(), "{wrong}");
        }
        assert_eq!(Template::read("$999,990.99").map(|t| t.width()), Some(12));
        assert_eq!(Template::read("999,990.99mi").map(|t| t.width()), Some(11));
    }

    #[test]
    fn numbers_have_room_in_a_width() {
        for (value, width, wanted) in [
            ("12345", 10, "12345"),
            ("0.33333333333333", 10, "0.33333333"),
            (".33333333333333", 10, ".333333333"),
            ("-2.66666666666", 8, "-2.66667"),
            ("1234.56789", 6, "1234.6"),
            ("9999.96", 5, "10000"),
            ("1234567890123", 10, "1.2346E+12"),
            ("-1234567890123", 10, "-1.235E+12"),
            ("1234567890123", 5, "1E+12"),
            ("1234567890123", 4, "####"),
            ("0.00000012345678", 10, "1.2346E-07"),
            ("0.0100000000001", 8, "0.01"),
            ("9.9999999e+99", 6, "1E+100"),
            ("9.9999999e+99", 5, "#####"),
            ("-0.00000000001", 4, "####"),
            ("Infinity", 4, "####"),
        ] {
            assert_eq!(within(value, width), wanted, "{value} in {width}");
        }
    }

    #[test]
    fn texts_go_on_in_the_next_line() {
        let of = |text, wrap| parts_of(text, 5, wrap);
        assert_eq!(of("abcdefghijkl", Wrap::Lines), ["abcde", "fghij", "kl"]);
        assert_eq!(of("abcde", Wrap::Lines), ["abcde"]);
        assert_eq!(of("", Wrap::Words), [""]);
        assert_eq!(of("äöüßéab", Wrap::Cut), ["äöüßé"]);
        assert_eq!(of("ab cd ef", Wrap::Words), ["ab cd", "ef"]);
        assert_eq!(of("ab cdef g  ", Wrap::Words), ["ab", "cdef", "g  "]);
        assert_eq!(of("abcdefg hi", Wrap::Words), ["abcde", "fg hi"]);
        assert_eq!(of("abcde     ", Wrap::Words), ["abcde"]);
        let shape = Shape { form: Form::Text { width: 3, wrap: Wrap::Lines }, ..Shape::default() };
        assert_eq!(shape.lines("ab\ncdef"), ["ab", "cde", "f"]);
        assert_eq!(shape.null_lines("(null)"), ["(nu", "ll)"]);
        assert_eq!((shape.label("Total"), &*shape.heading_line("NAME", 3)), ("Tot", " NAM "));
    }
}
