//! Single values, borrowed ([`Datum`]) and owned ([`Value`]).

use super::EnumValue;

/// A span of time as SQL has it: the parts are kept apart, for months and days vary in length.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Interval {
    pub months: i32,
    pub days: i32,
    pub us: i64,
}

impl Interval {
    pub const US_PER_DAY: i64 = 86_400_000_000;
    pub const DAYS_PER_MONTH: i64 = 30;

    /// What intervals compare by: microseconds, with months of 30 days and days of 24 hours.
    #[must_use]
    pub fn span_us(self) -> i128 {
        let days = i64::from(self.months) * Interval::DAYS_PER_MONTH + i64::from(self.days);
        i128::from(days) * i128::from(Interval::US_PER_DAY) + i128::from(self.us)
    }
}

/// One value of a row. Dates are days, timestamps microseconds, since 2000-01-01 (PostgreSQL's
/// epoch).
///
/// Equality is that of the representation (numeric 1.5 and 1.50 differ); comparison as SQL has it
/// is
/// that of keys.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Datum<'a> {
    Null,
    Bool(bool),
    Int2(i16),
    Int4(i32),
    Int8(i64),
    Float4(f32),
    Float8(f64),
    /// Unscaled value and number of digits after the point.
    Numeric(i128, u8),
    Text(&'a str),
    Bytea(&'a [u8]),
    Date(i32),
    Timestamp(i64),
    Timestamptz(i64),
    Uuid([u8; 16]),
    /// Microseconds since midnight.
    Time(i64),
    Interval(Interval),
    /// Text as it was written.
    Json(&'a str),
    /// Text in normal form.
    Jsonb(&'a str),
    /// Bytes of [`super::ArrayView`].
    Array(&'a [u8]),
    Enum(EnumValue),
}

impl Datum<'_> {
    #[must_use]
    #[inline]
    pub const fn is_null(&self) -> bool {
        matches!(self, Datum::Null)
    }

    /// An owned copy.
    #[must_use]
    pub fn to_value(&self) -> Value {
        match *self {
            Datum::Null => Value::Null,
            Datum::Bool(v) => Value::Bool(v),
            Datum::Int2(v) => Value::Int2(v),
            Datum::Int4(v) => Value::Int4(v),
            Datum::Int8(v) => Value::Int8(v),
            Datum::Float4(v) => Value::Float4(v),
            Datum::Float8(v) => Value::Float8(v),
            Datum::Numeric(v, scale) => Value::Numeric(v, scale),
            Datum::Text(v) => Value::Text(v.into()),
            Datum::Bytea(v) => Value::Bytea(v.into()),
            Datum::Date(v) => Value::Date(v),
            Datum::Timestamp(v) => Value::Timestamp(v),
            Datum::Timestamptz(v) => Value::Timestamptz(v),
            Datum::Uuid(v) => Value::Uuid(v),
            Datum::Time(v) => Value::Time(v),
            Datum::Interval(v) => Value::Interval(v),
            Datum::Json(v) => Value::Json(v.into()),
            Datum::Jsonb(v) => Value::Jsonb(v.into()),
            Datum::Array(v) => Value::Array(v.into()),
            Datum::Enum(v) => Value::Enum(v),
        }
    }
}

/// An owned [`Datum`].
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    Null,
    Bool(bool),
    Int2(i16),
    Int4(i32),
    Int8(i64),
    Float4(f32),
    Float8(f64),
    Numeric(i128, u8),
    Text(Box<str>),
    Bytea(Box<[u8]>),
    Date(i32),
    Timestamp(i64),
    Timestamptz(i64),
    Uuid([u8; 16]),
    Time(i64),
    Interval(Interval),
    Json(Box<str>),
    Jsonb(Box<str>),
    Array(Box<[u8]>),
    Enum(EnumValue),
}

impl Value {
    #[must_use]
    #[inline]
    pub const fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// The value, borrowed.
    #[must_use]
    #[inline]
    pub fn as_datum(&self) -> Datum<'_> {
        match self {
            Value::Null => Datum::Null,
            Value::Bool(v) => Datum::Bool(*v),
            Value::Int2(v) => Datum::Int2(*v),
            Value::Int4(v) => Datum::Int4(*v),
            Value::Int8(v) => Datum::Int8(*v),
            Value::Float4(v) => Datum::Float4(*v),
            Value::Float8(v) => Datum::Float8(*v),
            Value::Numeric(v, scale) => Datum::Numeric(*v, *scale),
            Value::Text(v) => Datum::Text(v),
            Value::Bytea(v) => Datum::Bytea(v),
            Value::Date(v) => Datum::Date(*v),
            Value::Timestamp(v) => Datum::Timestamp(*v),
            Value::Timestamptz(v) => Datum::Timestamptz(*v),
            Value::Uuid(v) => Datum::Uuid(*v),
            Value::Time(v) => Datum::Time(*v),
            Value::Interval(v) => Datum::Interval(*v),
            Value::Json(v) => Datum::Json(v),
            Value::Jsonb(v) => Datum::Jsonb(v),
            Value::Array(v) => Datum::Array(v),
            Value::Enum(v) => Datum::Enum(*v),
        }
    }
}
