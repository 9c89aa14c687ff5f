//! What `compute` gathers of a column: sums, averages and their like, of values as the server shows
//! them.
//!
//! What it promises: sums are exact as long as they have room in 38 digits; an average has six
//! digits behind the point, or as many as the values. NULLs do not count.

use std::cmp::Ordering;

/// Digits of an average behind the point, at least.
const AVERAGE_SCALE: u32 = 6;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Figure {
    Average,
    Count,
    Least,
    Most,
    Number,
    Sum,
    Deviation,
    Variance,
}

impl Figure {
    pub(super) fn named(word: &str) -> Option<Figure> {
        const WORDS: [(&str, &str, Figure); 8] = [
            ("avg", "avg", Figure::Average),
            ("cou", "count", Figure::Count),
            ("min", "minimum", Figure::Least),
            ("max", "maximum", Figure::Most),
            ("num", "number", Figure::Number),
            ("sum", "sum", Figure::Sum),
            ("std", "std", Figure::Deviation),
            ("var", "variance", Figure::Variance),
        ];
        let word = word.to_ascii_lowercase();
        let means = |(short, full, _): &&(&str, &str, Figure)| {
            word.starts_with(short) && full.starts_with(&word)
        };
        WORDS.iter().find(means).map(|(_, _, figure)| *figure)
    }

    /// Its name, and its label where none is given.
    pub(super) fn name(self) -> &'static str {
        match self {
            Figure::Average => "avg",
            Figure::Count => "count",
            Figure::Least => "minimum",
            Figure::Most => "maximum",
            Figure::Number => "number",
            Figure::Sum => "sum",
            Figure::Deviation => "std",
            Figure::Variance => "variance",
        }
    }
}

/// A number with so many digits behind the point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Decimal {
    digits: i128,
    scale: u32,
}

impl Decimal {
    /// `None`: it has an exponent, or no room.
    fn read(text: &str) -> Option<Decimal> {
        let (sign, rest) = match text.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, text),
        };
        let (whole, fraction) = rest.split_once('.').unwrap_or((rest, ""));
        let all = format!("{whole}{fraction}");
        if all.is_empty() || !all.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let digits = all.parse::<i128>().ok()? * sign;
        Some(Decimal { digits, scale: u32::try_from(fraction.len()).ok()? })
    }

    fn scaled(self, scale: u32) -> Option<Decimal> {
        let more = 10_i128.checked_pow(scale.checked_sub(self.scale)?)?;
        Some(Decimal { digits: self.digits.checked_mul(more)?, scale })
    }

    /// Both with as many digits behind the point.
    fn aligned(self, other: Decimal) -> Option<(Decimal, Decimal)> {
        let scale = self.scale.max(other.scale);
        self.scaled(scale).zip(other.scaled(scale))
    }

    fn plus(self, other: Decimal) -> Option<Decimal> {
        let (a, b) = self.aligned(other)?;
        Some(Decimal { digits: a.digits.checked_add(b.digits)?, scale: a.scale })
    }

    /// A part of it, rounded, without zeros at its end that the whole has not.
    fn divided(self, count: u64) -> Option<Decimal> {
        let whole = self.scaled(self.scale.max(AVERAGE_SCALE))?;
        let count = i128::from(count);
        let (mut digits, rest) = (whole.digits / count, whole.digits % count);
        if rest.abs().checked_mul(2)? >= count {
            digits += whole.digits.signum();
        }
        let mut scale = whole.scale;
        while scale > self.scale && digits % 10 == 0 {
            (digits, scale) = (digits / 10, scale - 1);
        }
        Some(Decimal { digits, scale })
    }

    fn text(self) -> String {
        let sign = if self.digits < 0 { "-" } else { "" };
        let digits = self.digits.unsigned_abs().to_string();
        let scale = usize::try_from(self.scale).unwrap_or(usize::MAX);
        if scale == 0 {
            return format!("{sign}{digits}");
        }
        let digits = format!("{digits:0>width$}", width = scale + 1);
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        format!("{sign}{whole}.{fraction}")
    }
}

/// Numbers are compared as such.
fn compare(a: &str, b: &str) -> Ordering {
    let exact = Decimal::read(a).zip(Decimal::read(b)).and_then(|(a, b)| a.aligned(b));
    if let Some((a, b)) = exact {
        return a.digits.cmp(&b.digits);
    }
    match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => a.total_cmp(&b),
        _ => a.cmp(b),
    }
}

fn float_text(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The values of a column up to a break.
#[derive(Clone, Debug)]
pub(super) struct Gathered {
    rows: u64,
    values: u64,
    /// `None`: it has no room, or a value is no such number.
    sum: Option<Decimal>,
    /// The same of what has an exponent, with the mean and the squares of what is off it.
    total: f64,
    mean: f64,
    squares: f64,
    least: Option<String>,
    most: Option<String>,
    has_others: bool,
}

impl Default for Gathered {
    fn default() -> Gathered {
        Gathered {
            rows: 0,
            values: 0,
            sum: Some(Decimal { digits: 0, scale: 0 }),
            total: 0.0,
            mean: 0.0,
            squares: 0.0,
            least: None,
            most: None,
            has_others: false,
        }
    }
}

impl Gathered {
    pub(super) fn add(&mut self, value: Option<&str>) {
        self.rows += 1;
        let Some(text) = value else { return };
        self.values += 1;
        let beyond = |known: &Option<String>, way| match known {
            Some(known) => compare(text, known) == way,
            None => true,
        };
        if beyond(&self.least, Ordering::Less) {
            self.least = Some(text.to_owned());
        }
        if beyond(&self.most, Ordering::Greater) {
            self.most = Some(text.to_owned());
        }
        let Ok(number) = text.parse::<f64>() else {
            self.has_others = true;
            return;
        };
        self.sum = self.sum.zip(Decimal::read(text)).and_then(|(sum, own)| sum.plus(own));
        self.total += number;
        #[allow(clippy::cast_precision_loss)] // there are never so many rows
        let count = self.values as f64;
        let off = number - self.mean;
        self.mean += off / count;
        self.squares += off * (number - self.mean);
    }

    /// A figure of the values; `None`: there are none.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn value(&self, figure: Figure) -> Result<Option<String>, &'static str> {
        match figure {
            Figure::Count => return Ok(Some(self.values.to_string())),
            Figure::Number => return Ok(Some(self.rows.to_string())),
            Figure::Least => return Ok(self.least.clone()),
            Figure::Most => return Ok(self.most.clone()),
            Figure::Average | Figure::Sum | Figure::Deviation | Figure::Variance => {}
        }
        if self.has_others {
            return Err("there are values that are no numbers");
        }
        if self.values == 0 {
            return Ok(None);
        }
        #[allow(clippy::cast_precision_loss)] // there are never so many rows
        let others = self.values.saturating_sub(1).max(1) as f64;
        let variance = self.squares / others;
        Ok(Some(match figure {
            Figure::Average => match self.sum.and_then(|sum| sum.divided(self.values)) {
                Some(average) => average.text(),
                None => float_text(self.mean),
            },
            Figure::Deviation => float_text(variance.sqrt()),
            Figure::Variance => float_text(variance),
            _ => self.sum.map_or_else(|| self.total.to_string(), Decimal::text),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(figure: Figure, values: &[&str]) -> Option<String> {
        let mut gathered = Gathered::default();
        values.iter().for_each(|value| gathered.add((!value.is_empty()).then_some(*value)));
        gathered.value(figure).expect("a figure")
    }

    #[test]
    fn sums_are_exact() {
        let of = |values: &[&str]| figure(Figure::Sum, values).unwrap_or_default();
        assert_eq!(of(&["0.10", "0.2", "-3"]), "-2.70");
        assert_eq!(of(&["99999999999999999999999.5", "", "1"]), "100000000000000000000000.5");
        assert_eq!(of(&["1e3", "1"]), "1001");
        assert_eq!(of(&["", ""]), "");
        assert_eq!(Decimal { digits: -5, scale: 3 }.text(), "-0.005");
    }

    #[test]
    fn other_figures_are_told_too() {
        let of = |which, values: &[&str]| figure(which, values).unwrap_or_default();
        let values = ["2", "", "4", "4", "10"];
        assert_eq!(of(Figure::Average, &values), "5");
        assert_eq!(of(Figure::Average, &["1", "1", "0"]), "0.666667");
        assert_eq!(of(Figure::Average, &["1.50", "2.50"]), "2.00");
        assert_eq!(of(Figure::Average, &["-1", "0"]), "-0.5");
        assert_eq!(
            (of(Figure::Count, &values), of(Figure::Number, &values)),
            ("4".into(), "5".into())
        );
        assert_eq!(
            (of(Figure::Least, &values), of(Figure::Most, &values)),
            ("2".into(), "10".into())
        );
        assert_eq!(of(Figure::Most, &["a", "b"]), "b");
        assert_eq!(of(Figure::Variance, &values), "12");
        assert_eq!(of(Figure::Deviation, &["1", "3"]), "1.414214");
        assert_eq!(Figure::named("MAXI"), Some(Figure::Most));
        assert_eq!((Figure::named("avg"), Figure::named("su")), (Some(Figure::Average), None));
    }
}
