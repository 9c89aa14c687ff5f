//! Kinds of parameter values: how they are written, checked and shown.

use std::fmt;

/// What a parameter's value is, and which values it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole number in a range, both ends included.
    Int { min: i64, max: i64 },
    /// A size in bytes; written as a number or with K, M, G, T.
    Bytes { min: i64, max: i64 },
    /// A duration in seconds; written as a number or with s, min, h, d.
    Seconds { min: i64, max: i64 },
    /// A duration in milliseconds; written as a number or with ms, s, min, h.
    Millis { min: i64, max: i64 },
    /// A number with a fraction, held in millionths; the ends are in millionths.
    Fraction { min: i64, max: i64 },
    /// `true` or `false` (also on/off, yes/no, 1/0).
    Bool,
    /// One of a list of words; held as the word's position.
    Choice(&'static [&'static str]),
    /// Any text.
    Text,
}

/// When a parameter may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modifiable {
    /// Only in `skein.toml`, before the instance starts.
    Startup,
    /// At any time, for the whole instance (`alter system set`).
    System,
    /// At any time, for the instance or for one session (`set`, `alter session set`).
    Session,
}

impl Modifiable {
    /// The word views show: the field's `FALSE` / `IMMEDIATE`.
    #[must_use]
    pub fn system_word(self) -> &'static str {
        match self {
            Modifiable::Startup => "FALSE",
            Modifiable::System | Modifiable::Session => "IMMEDIATE",
        }
    }

    /// Whether one session may change it for itself.
    #[must_use]
    pub fn in_session(self) -> bool {
        self == Modifiable::Session
    }
}

/// One parameter as declared.
#[derive(Clone, Copy, Debug)]
pub struct ParamDef {
    pub name: &'static str,
    pub kind: Kind,
    /// The default as a user would write it.
    pub default: &'static str,
    pub modifiable: Modifiable,
    /// One sentence for `v$parameter` and the comment in `skein.toml`.
    pub description: &'static str,
}

/// One row of `v$parameter`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamRow {
    /// Position in the table, from 1.
    pub num: i32,
    pub name: &'static str,
    /// The word for the kind: `integer`, `big integer`, `boolean`, `string`.
    pub type_name: &'static str,
    /// The value in its base unit (bytes, seconds, milliseconds).
    pub value: String,
    /// The value as a user would write it (`128M`).
    pub display_value: String,
    pub default_value: &'static str,
    pub is_default: bool,
    /// `alter system` has changed it since the start.
    pub is_altered: bool,
    /// `FALSE` or `IMMEDIATE`.
    pub system_modifiable: &'static str,
    pub session_modifiable: bool,
    pub description: &'static str,
}

/// Why a value was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParamError {
    Unknown { name: String },
    Invalid { name: String, value: String, expected: String },
    Fixed { name: String },
}

impl fmt::Display for ParamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ParamError::Unknown { name } => write!(f, "unknown parameter \"{name}\""),
            ParamError::Invalid { name, value, expected } => {
                write!(f, "invalid value \"{value}\" for parameter \"{name}\": expected {expected}")
            }
            ParamError::Fixed { name } => write!(
                f,
                "parameter \"{name}\" cannot be changed while the instance runs; \
                 set it in skein.toml, or with scope=spfile, and restart"
            ),
        }
    }
}

impl std::error::Error for ParamError {}

const BYTE_UNITS: &[(&str, i64)] = &[
    ("tb", 1 << 40),
    ("t", 1 << 40),
    ("gb", 1 << 30),
    ("g", 1 << 30),
    ("mb", 1 << 20),
    ("m", 1 << 20),
    ("kb", 1 << 10),
    ("k", 1 << 10),
    ("b", 1),
];
const SECOND_UNITS: &[(&str, i64)] = &[("min", 60), ("d", 86_400), ("h", 3_600), ("s", 1)];
const MILLI_UNITS: &[(&str, i64)] = &[("ms", 1), ("min", 60_000), ("h", 3_600_000), ("s", 1_000)];

/// A size that bounds nothing, which is 0.
const UNLIMITED: &str = "unlimited";

impl Kind {
    /// The value's number: for text kinds there is none.
    pub(super) fn parse(self, text: &str) -> Option<i64> {
        let text = text.trim();
        match self {
            Kind::Int { min, max } => in_range(text.parse().ok()?, min, max),
            Kind::Bytes { min: 0, .. } if text.eq_ignore_ascii_case(UNLIMITED) => Some(0),
            Kind::Bytes { min, max } => in_range(with_unit(text, BYTE_UNITS)?, min, max),
            Kind::Seconds { min, max } => in_range(with_unit(text, SECOND_UNITS)?, min, max),
            Kind::Millis { min, max } => in_range(with_unit(text, MILLI_UNITS)?, min, max),
            Kind::Fraction { min, max } => in_range(millionths(text)?, min, max),
            Kind::Bool => match text.to_ascii_lowercase().as_str() {
                "true" | "on" | "yes" | "1" => Some(1),
                "false" | "off" | "no" | "0" => Some(0),
                _ => None,
            },
            Kind::Choice(words) => {
                let at = words.iter().position(|w| w.eq_ignore_ascii_case(text))?;
                i64::try_from(at).ok()
            }
            Kind::Text => None,
        }
    }

    /// What a user should have written.
    pub(super) fn expected(self) -> String {
        match self {
            Kind::Int { min, max } => format!("a whole number from {min} to {max}"),
            Kind::Bytes { min, max } => {
                let none = if min == 0 { ", or unlimited" } else { "" };
                format!("a size from {} to {}, such as 64M{none}", bytes_text(min), bytes_text(max))
            }
            Kind::Seconds { min, max } => format!("seconds from {min} to {max}"),
            Kind::Millis { min, max } => format!("milliseconds from {min} to {max}"),
            Kind::Fraction { min, max } => {
                format!("a number from {} to {}", fraction_text(min), fraction_text(max))
            }
            Kind::Bool => "true or false".to_owned(),
            Kind::Choice(words) => format!("one of {}", words.join(", ")),
            Kind::Text => "text".to_owned(),
        }
    }

    /// The number in its base unit, as text.
    pub(super) fn value_text(self, number: i64) -> String {
        match self {
            Kind::Bool => if number == 0 { "FALSE" } else { "TRUE" }.to_owned(),
            Kind::Choice(words) => usize::try_from(number)
                .ok()
                .and_then(|at| words.get(at))
                .map_or_else(String::new, |w| (*w).to_owned()),
            Kind::Fraction { .. } => fraction_text(number),
            _ => number.to_string(),
        }
    }

    /// The number as a user would write it.
    pub(super) fn display_text(self, number: i64) -> String {
        match self {
            Kind::Bytes { .. } if number == 0 => UNLIMITED.to_owned(),
            Kind::Bytes { .. } => bytes_text(number),
            _ => self.value_text(number),
        }
    }

    /// The field's word for the kind.
    pub(super) fn type_name(self) -> &'static str {
        match self {
            Kind::Int { .. } | Kind::Seconds { .. } | Kind::Millis { .. } => "integer",
            Kind::Bytes { .. } => "big integer",
            Kind::Fraction { .. } => "real",
            Kind::Bool => "boolean",
            Kind::Choice(_) | Kind::Text => "string",
        }
    }
}

/// One, as a [`Kind::Fraction`] holds it.
pub const FRACTION_ONE: u64 = 1_000_000;

fn millionths(text: &str) -> Option<i64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > 6 || (whole.is_empty() && part.is_empty()) {
        return None;
    }
    let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let part: i64 = format!("{part:0<6}").parse().ok()?;
    whole.checked_mul(1_000_000)?.checked_add(part)
}

fn fraction_text(number: i64) -> String {
    let text = format!("{}.{:06}", number / 1_000_000, number % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn in_range(value: i64, min: i64, max: i64) -> Option<i64> {
    (min..=max).contains(&value).then_some(value)
}

fn with_unit(text: &str, units: &[(&str, i64)]) -> Option<i64> {
    let lower = text.to_ascii_lowercase();
    let (digits, factor) = units
        .iter()
        .find_map(|(unit, factor)| lower.strip_suffix(unit).map(|d| (d, *factor)))
        .unwrap_or((&lower, 1));
    digits.trim().parse::<i64>().ok()?.checked_mul(factor)
}

/// A size with the largest unit that divides it.
fn bytes_text(bytes: i64) -> String {
    for (unit, shift) in [("T", 40), ("G", 30), ("M", 20), ("K", 10)] {
        if bytes != 0 && bytes % (1_i64 << shift) == 0 {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}
