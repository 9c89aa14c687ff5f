//! Single values, borrowed ([`Datum`]) and owned ([`Value`]).

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
    Float8(f64),
    /// Unscaled value and number of digits after the point.
    Numeric(i128, u8),
    Text(&'a str),
    Bytea(&'a [u8]),
    Date(i32),
    Timestamp(i64),
    Timestamptz(i64),
}

impl Datum<'_> {
    #[must_use]
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
            Datum::Float8(v) => Value::Float8(v),
            Datum::Numeric(v, scale) => Value::Numeric(v, scale),
            Datum::Text(v) => Value::Text(v.into()),
            Datum::Bytea(v) => Value::Bytea(v.into()),
            Datum::Date(v) => Value::Date(v),
            Datum::Timestamp(v) => Value::Timestamp(v),
            Datum::Timestamptz(v) => Value::Timestamptz(v),
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
    Float8(f64),
    Numeric(i128, u8),
    Text(Box<str>),
    Bytea(Box<[u8]>),
    Date(i32),
    Timestamp(i64),
    Timestamptz(i64),
}

impl Value {
    #[must_use]
    pub const fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// The value, borrowed.
    #[must_use]
    pub fn as_datum(&self) -> Datum<'_> {
        match self {
            Value::Null => Datum::Null,
            Value::Bool(v) => Datum::Bool(*v),
            Value::Int2(v) => Datum::Int2(*v),
            Value::Int4(v) => Datum::Int4(*v),
            Value::Int8(v) => Datum::Int8(*v),
            Value::Float8(v) => Datum::Float8(*v),
            Value::Numeric(v, scale) => Datum::Numeric(*v, *scale),
            Value::Text(v) => Datum::Text(v),
            Value::Bytea(v) => Datum::Bytea(v),
            Value::Date(v) => Datum::Date(*v),
            Value::Timestamp(v) => Datum::Timestamp(*v),
            Value::Timestamptz(v) => Datum::Timestamptz(*v),
        }
    }
}
