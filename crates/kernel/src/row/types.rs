//! The types a column can have. Their codes are stored in the dictionary and must never change.

use std::fmt;

/// What kind of values a column holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TypeKind {
    Bool,
    Int2,
    Int4,
    Int8,
    Float8,
    Numeric,
    Text,
    Varchar,
    Char,
    Bytea,
    Date,
    Timestamp,
    Timestamptz,
    Uuid,
    Time,
    Interval,
    Json,
    Jsonb,
    /// The modifier is the code of the elements' kind.
    Array,
    /// The modifier names a definition of this process, in the dictionary the type's object.
    Enum,
    Float4,
}

impl TypeKind {
    /// All kinds, in the order of their codes.
    pub const ALL: [TypeKind; 21] = [
        TypeKind::Bool,
        TypeKind::Int2,
        TypeKind::Int4,
        TypeKind::Int8,
        TypeKind::Float8,
        TypeKind::Numeric,
        TypeKind::Text,
        TypeKind::Varchar,
        TypeKind::Char,
        TypeKind::Bytea,
        TypeKind::Date,
        TypeKind::Timestamp,
        TypeKind::Timestamptz,
        TypeKind::Uuid,
        TypeKind::Time,
        TypeKind::Interval,
        TypeKind::Json,
        TypeKind::Jsonb,
        TypeKind::Array,
        TypeKind::Enum,
        TypeKind::Float4,
    ];

    /// The number stored in the dictionary.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            TypeKind::Bool => 1,
            TypeKind::Int2 => 2,
            TypeKind::Int4 => 3,
            TypeKind::Int8 => 4,
            TypeKind::Float8 => 5,
            TypeKind::Numeric => 6,
            TypeKind::Text => 7,
            TypeKind::Varchar => 8,
            TypeKind::Char => 9,
            TypeKind::Bytea => 10,
            TypeKind::Date => 11,
            TypeKind::Timestamp => 12,
            TypeKind::Timestamptz => 13,
            TypeKind::Uuid => 14,
            TypeKind::Time => 15,
            TypeKind::Interval => 16,
            TypeKind::Json => 17,
            TypeKind::Jsonb => 18,
            TypeKind::Array => 19,
            TypeKind::Enum => 20,
            TypeKind::Float4 => 21,
        }
    }

    /// Inverse of [`TypeKind::code`].
    #[must_use]
    pub fn from_code(code: u8) -> Option<TypeKind> {
        TypeKind::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// Whether the values are character strings.
    #[must_use]
    pub const fn is_text(self) -> bool {
        matches!(self, TypeKind::Text | TypeKind::Varchar | TypeKind::Char)
    }

    /// Whether an index can order the values.
    #[must_use]
    pub const fn is_ordered(self) -> bool {
        !matches!(self, TypeKind::Json | TypeKind::Jsonb)
    }

    /// Bytes of a value in a row, where all values have the same.
    #[must_use]
    pub const fn width_bytes(self) -> Option<usize> {
        match self {
            TypeKind::Bool => Some(1),
            TypeKind::Int2 => Some(2),
            TypeKind::Int4 | TypeKind::Float4 | TypeKind::Date => Some(4),
            TypeKind::Int8
            | TypeKind::Float8
            | TypeKind::Timestamp
            | TypeKind::Timestamptz
            | TypeKind::Time
            | TypeKind::Enum => Some(8),
            TypeKind::Uuid | TypeKind::Interval => Some(16),
            TypeKind::Numeric
            | TypeKind::Text
            | TypeKind::Varchar
            | TypeKind::Char
            | TypeKind::Bytea
            | TypeKind::Json
            | TypeKind::Jsonb
            | TypeKind::Array => None,
        }
    }
}

/// In the modifier of an interval: that it may have all fields.
const INTERVAL_FIELDS: i32 = 0x7fff << 16;
/// The fields that a type of intervals may be written with, the longest first, and their bits above
/// the digits in its modifier, which are PostgreSQL's.
const INTERVAL_FIELD_NAMES: [(i32, &str); 6] = [
    (1 << 2, "year"),
    (1 << 1, "month"),
    (1 << 3, "day"),
    (1 << 10, "hour"),
    (1 << 11, "minute"),
    (1 << 12, "second"),
];
/// Digits of a second's fraction, at most.
pub const PRECISION_MAX: u8 = 6;

/// A column's type: its kind and PostgreSQL's `atttypmod` (-1: none).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ColType {
    pub kind: TypeKind,
    pub modifier: i32,
}

impl ColType {
    /// `refcursor`: a text that names a cursor. Its modifier is PostgreSQL's number of the type,
    /// which no other text has; it is stored in the dictionary.
    pub const REF_CURSOR: ColType = ColType { kind: TypeKind::Text, modifier: 1790 };

    /// Whether it is `refcursor`.
    #[must_use]
    pub const fn is_ref_cursor(self) -> bool {
        matches!(self.kind, TypeKind::Text) && self.modifier == ColType::REF_CURSOR.modifier
    }

    /// A type without a modifier.
    #[must_use]
    pub const fn new(kind: TypeKind) -> ColType {
        ColType { kind, modifier: -1 }
    }

    /// `varchar(n)` or `char(n)`.
    #[must_use]
    pub const fn with_length(kind: TypeKind, length: i32) -> ColType {
        ColType { kind, modifier: length + 4 }
    }

    /// `numeric(precision, scale)`.
    #[must_use]
    pub const fn numeric(precision: u8, scale: u8) -> ColType {
        ColType {
            kind: TypeKind::Numeric,
            modifier: (((precision as i32) << 16) | scale as i32) + 4,
        }
    }

    /// `timestamp(digits)`, `timestamptz`, `time` and `interval`: how many digits of a second's
    /// fraction there are.
    #[must_use]
    pub const fn with_precision(kind: TypeKind, digits: u8) -> ColType {
        let fields = if matches!(kind, TypeKind::Interval) { INTERVAL_FIELDS } else { 0 };
        ColType { kind, modifier: fields | digits as i32 }
    }

    /// An array of elements of this kind.
    #[must_use]
    pub const fn array_of(element: TypeKind) -> ColType {
        ColType { kind: TypeKind::Array, modifier: element.code() as i32 }
    }

    /// Whether values of one are values of the other: the same type, perhaps in two versions.
    #[must_use]
    pub fn is_same(self, other: ColType) -> bool {
        let obj = |ty: ColType| ty.enum_type().map(|def| def.obj);
        self == other || (obj(self).is_some() && obj(self) == obj(other))
    }

    /// The type without a length or precision.
    #[must_use]
    pub const fn without_limit(self) -> ColType {
        match self.kind {
            TypeKind::Array | TypeKind::Enum => self,
            TypeKind::Text if self.is_ref_cursor() => self,
            kind => ColType::new(kind),
        }
    }

    /// The type of an array's elements.
    #[must_use]
    pub fn element(self) -> Option<ColType> {
        if self.kind != TypeKind::Array {
            return None;
        }
        let kind = u8::try_from(self.modifier).ok().and_then(TypeKind::from_code)?;
        (kind != TypeKind::Array).then_some(ColType::new(kind))
    }

    /// Whether an index can order the values.
    #[must_use]
    pub fn is_ordered(self) -> bool {
        self.element().unwrap_or(self).kind.is_ordered()
    }

    /// The length limit in characters of `varchar(n)` and `char(n)`.
    #[must_use]
    pub fn length(self) -> Option<usize> {
        match self.kind {
            TypeKind::Varchar | TypeKind::Char if self.modifier >= 4 => {
                usize::try_from(self.modifier - 4).ok()
            }
            _ => None,
        }
    }

    /// Precision and scale of `numeric(p, s)`; `None` if unconstrained.
    #[must_use]
    pub fn precision_scale(self) -> Option<(u8, u8)> {
        if self.kind != TypeKind::Numeric || self.modifier < 4 {
            return None;
        }
        let packed = self.modifier - 4;
        Some((u8::try_from(packed >> 16).ok()?, u8::try_from(packed & 0xffff).ok()?))
    }

    /// The digits of a second's fraction that values have; `None`: as many as there can be.
    #[must_use]
    pub fn precision(self) -> Option<u8> {
        let timed = matches!(
            self.kind,
            TypeKind::Timestamp | TypeKind::Timestamptz | TypeKind::Time | TypeKind::Interval
        );
        if !timed || self.modifier < 0 {
            return None;
        }
        u8::try_from(self.modifier & 0xffff).ok().filter(|digits| *digits <= PRECISION_MAX)
    }

    /// The first and the last of the fields that intervals of the type have; `None`: all there are.
    #[must_use]
    pub fn interval_fields(self) -> Option<(&'static str, &'static str)> {
        let all = self.modifier & INTERVAL_FIELDS == INTERVAL_FIELDS;
        if self.kind != TypeKind::Interval || self.modifier < 0 || all {
            return None;
        }
        let has = |field: &&(i32, &'static str)| (self.modifier >> 16) & field.0 != 0;
        let first = INTERVAL_FIELD_NAMES.iter().find(has)?;
        let last = INTERVAL_FIELD_NAMES.iter().rfind(has)?;
        Some((first.1, last.1))
    }
}

/// As PostgreSQL's `format_type` writes it.
impl fmt::Display for ColType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(element) = self.element() {
            return write!(f, "{element}[]");
        }
        let name = match self.kind {
            TypeKind::Bool => "boolean",
            TypeKind::Int2 => "smallint",
            TypeKind::Int4 => "integer",
            TypeKind::Int8 => "bigint",
            TypeKind::Float4 => "real",
            TypeKind::Float8 => "double precision",
            TypeKind::Numeric => "numeric",
            TypeKind::Text if self.is_ref_cursor() => "refcursor",
            TypeKind::Text => "text",
            TypeKind::Varchar => "character varying",
            TypeKind::Char => "character",
            TypeKind::Bytea => "bytea",
            TypeKind::Date => "date",
            TypeKind::Timestamp | TypeKind::Timestamptz => "timestamp",
            TypeKind::Uuid => "uuid",
            TypeKind::Time => "time",
            TypeKind::Interval => "interval",
            TypeKind::Json => "json",
            TypeKind::Jsonb => "jsonb",
            TypeKind::Array => "anyarray",
            TypeKind::Enum => self.enum_type().map_or("anyenum", |def| &def.name),
        };
        f.write_str(name)?;
        if let Some(length) = self.length() {
            write!(f, "({length})")?;
        }
        if let Some((precision, scale)) = self.precision_scale() {
            write!(f, "({precision},{scale})")?;
        }
        if let Some((first, last)) = self.interval_fields() {
            write!(f, " {first}")?;
            if last != first {
                write!(f, " to {last}")?;
            }
        }
        if let Some(digits) = self.precision() {
            write!(f, "({digits})")?;
        }
        f.write_str(match self.kind {
            TypeKind::Timestamp | TypeKind::Time => " without time zone",
            TypeKind::Timestamptz => " with time zone",
            _ => "",
        })
    }
}

/// The types of a table's columns, and what rows from before a column was added read in it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct RowTypes {
    types: Vec<ColType>,
    /// Values as rows keep them; empty if no column has one.
    missing: Vec<Option<Box<[u8]>>>,
}

impl RowTypes {
    /// `missing` goes in parallel with `types`.
    ///
    /// # Panics
    /// If it does not.
    #[must_use]
    pub fn new(types: Vec<ColType>, missing: Vec<Option<Box<[u8]>>>) -> RowTypes {
        assert_eq!(types.len(), missing.len(), "one entry for each column");
        let any = missing.iter().any(Option::is_some);
        RowTypes { types, missing: if any { missing } else { Vec::new() } }
    }

    #[inline(always)]
    pub(super) fn missing(&self) -> &[Option<Box<[u8]>>] {
        &self.missing
    }
}

impl std::ops::Deref for RowTypes {
    type Target = [ColType];

    #[inline(always)]
    fn deref(&self) -> &[ColType] {
        &self.types
    }
}

impl From<Vec<ColType>> for RowTypes {
    fn from(types: Vec<ColType>) -> RowTypes {
        RowTypes { types, missing: Vec::new() }
    }
}

impl FromIterator<ColType> for RowTypes {
    fn from_iter<I: IntoIterator<Item = ColType>>(types: I) -> RowTypes {
        types.into_iter().collect::<Vec<_>>().into()
    }
}
