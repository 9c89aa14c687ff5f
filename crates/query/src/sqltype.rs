//! Names of types in SQL text.

use crate::error::{PgError, Result};
use crate::interval::Fields;
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, CharacterLength, DataType, ExactNumberInfo, Ident, ObjectName,
    ObjectNamePart, TimezoneInfo,
};
use datafusion::sql::sqlparser::tokenizer::{Location, Span};
use kernel::row::{ColType, PRECISION_MAX, TypeKind};

/// Longest `varchar(n)` and `char(n)`, as in PostgreSQL.
const LENGTH_MAX: u64 = 10_485_760;

/// The type a name means; `None` for names DataFusion may know (arrays).
///
/// # Errors
/// 22023 for a modifier out of range; 42704 for an unknown name; 0A000 for types of PostgreSQL that
/// are missing here.
pub fn col_type_of_sql(sql: &DataType) -> Result<Option<ColType>> {
    let plain = |kind| Ok(Some(ColType::new(kind)));
    match sql {
        DataType::Boolean | DataType::Bool => plain(TypeKind::Bool),
        DataType::SmallInt(_) | DataType::Int2(_) => plain(TypeKind::Int2),
        DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) => plain(TypeKind::Int4),
        DataType::BigInt(_) | DataType::Int8(_) => plain(TypeKind::Int8),
        DataType::DoublePrecision
        | DataType::Float8
        | DataType::Double(ExactNumberInfo::None)
        | DataType::Float(ExactNumberInfo::None) => plain(TypeKind::Float8),
        DataType::Real | DataType::Float4 => plain(TypeKind::Float4),
        DataType::Float(ExactNumberInfo::Precision(bits)) => match bits {
            0 => Err(PgError::new("22023", "precision for type float must be at least 1 bit")),
            1..=24 => plain(TypeKind::Float4),
            25..=53 => plain(TypeKind::Float8),
            _ => Err(PgError::new("22023", "precision for type float must be less than 54 bits")),
        },
        DataType::Numeric(info) | DataType::Decimal(info) | DataType::Dec(info) => {
            numeric_type(*info).map(Some)
        }
        DataType::Text | DataType::Clob(_) => plain(TypeKind::Text),
        DataType::Varchar(length)
        | DataType::CharacterVarying(length)
        | DataType::CharVarying(length) => text_type(TypeKind::Varchar, length.as_ref()).map(Some),
        DataType::Char(length) | DataType::Character(length) => {
            let one = CharacterLength::IntegerLength { length: 1, unit: None };
            text_type(TypeKind::Char, Some(length.as_ref().unwrap_or(&one))).map(Some)
        }
        DataType::Bytea | DataType::Blob(_) => plain(TypeKind::Bytea),
        DataType::Date => plain(TypeKind::Date),
        DataType::Timestamp(digits, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            Ok(Some(timed(TypeKind::Timestamp, *digits)))
        }
        DataType::Timestamp(digits, _) => Ok(Some(timed(TypeKind::Timestamptz, *digits))),
        DataType::Regclass => plain(TypeKind::Int8),
        DataType::Custom(name, modifiers) => custom_type(name, modifiers),
        DataType::Uuid => plain(TypeKind::Uuid),
        DataType::Time(digits, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            Ok(Some(timed(TypeKind::Time, *digits)))
        }
        DataType::Interval { fields: None, precision } => {
            Ok(Some(timed(TypeKind::Interval, *precision)))
        }
        DataType::Interval { fields: Some(fields), precision } => {
            interval_type(Fields::written(*fields), *precision).map(Some)
        }
        DataType::JSON => plain(TypeKind::Json),
        DataType::JSONB => plain(TypeKind::Jsonb),
        DataType::Array(
            ArrayElemTypeDef::SquareBracket(element, _) | ArrayElemTypeDef::AngleBracket(element),
        ) => array_type(element).map(Some),
        other => Err(PgError::unsupported(format!("type {other}"))),
    }
}

/// `type[]`; how many dimensions are written means nothing, as in PostgreSQL.
fn array_type(element: &DataType) -> Result<ColType> {
    let Some(ty) = col_type_of_sql(element)? else {
        return Err(PgError::unsupported(format!("an array of type {element}")));
    };
    if ty.kind == TypeKind::Array {
        return Ok(ty);
    }
    if ty.kind == TypeKind::Enum {
        return Err(PgError::unsupported(format!("an array of enum {ty}")));
    }
    if ty.modifier != -1 {
        return Err(PgError::unsupported("a length or precision of array elements"));
    }
    Ok(ColType::array_of(ty.kind))
}

fn numeric_type(info: ExactNumberInfo) -> Result<ColType> {
    let (precision, scale) = match info {
        ExactNumberInfo::None => return Ok(ColType::new(TypeKind::Numeric)),
        ExactNumberInfo::Precision(precision) => (precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (precision, scale),
    };
    let in_range = (1..=38).contains(&precision);
    match (u8::try_from(precision), u8::try_from(scale)) {
        (Ok(p), Ok(s)) if in_range && s <= p => Ok(ColType::numeric(p, s)),
        _ if !in_range => Err(PgError::new(
            "22023",
            format!("NUMERIC precision {precision} must be between 1 and 38"),
        )),
        _ => Err(PgError::new(
            "22023",
            format!("NUMERIC scale {scale} must be between 0 and precision {precision}"),
        )),
    }
}

/// A type of times; more digits of a second than there are mean all there are.
fn timed(kind: TypeKind, digits: Option<u64>) -> ColType {
    let fit = |digits: u64| u8::try_from(digits).unwrap_or(PRECISION_MAX).min(PRECISION_MAX);
    digits.map_or(ColType::new(kind), |digits| ColType::with_precision(kind, fit(digits)))
}

/// `interval day to second(3)`.
fn interval_type(fields: Fields, digits: Option<u64>) -> Result<ColType> {
    if digits.is_some() && !fields.have_seconds() {
        return Err(PgError::syntax("syntax error at or near \"(\"")
            .with_hint("An interval's precision is one of its seconds."));
    }
    Ok(fields.typed(timed(TypeKind::Interval, digits).precision()))
}

fn text_type(kind: TypeKind, length: Option<&CharacterLength>) -> Result<ColType> {
    match length {
        None => Ok(ColType::new(kind)),
        Some(CharacterLength::IntegerLength { length, .. }) => limited(kind, *length),
        Some(CharacterLength::Max) => Err(PgError::unsupported("length MAX")),
    }
}

fn limited(kind: TypeKind, length: u64) -> Result<ColType> {
    let name = if kind == TypeKind::Char { "char" } else { "varchar" };
    match i32::try_from(length) {
        Ok(n) if n >= 1 && length <= LENGTH_MAX => Ok(ColType::with_length(kind, n)),
        Ok(0) => Err(PgError::new("22023", format!("length for type {name} must be at least 1"))),
        _ => {
            Err(PgError::new("22023", format!("length for type {name} cannot exceed {LENGTH_MAX}")))
        }
    }
}

/// Line of the place where the name of a type of a user's stands, once it is known which one it
/// is: no text has as many. The column says the definition. The place of a name is no part of what
/// it means or how it is written, and goes wherever the name goes.
const MARKED: u64 = u64::MAX;

/// Notes which type a name stands for.
pub fn mark_type(name: &mut ObjectName, ty: ColType) {
    if let Some(ObjectNamePart::Identifier(ident)) = name.0.last_mut() {
        let at = Location { line: MARKED, column: u64::from(ty.modifier.cast_unsigned()) };
        ident.span = Span { start: at, end: at };
    }
}

/// The type that was noted with [`mark_type`].
#[must_use]
pub fn marked_type(name: &ObjectName) -> Option<ColType> {
    let at = name.0.last()?.as_ident()?.span.start;
    let modifier = u32::try_from(at.column).ok().filter(|_| at.line == MARKED)?;
    Some(ColType { kind: TypeKind::Enum, modifier: modifier.cast_signed() })
}

fn custom_type(name: &ObjectName, modifiers: &[String]) -> Result<Option<ColType>> {
    if let Some(ty) = marked_type(name) {
        return Ok(Some(ty));
    }
    let last = name.0.last().and_then(|part| part.as_ident());
    let lower = last.map(|ident| ident.value.to_ascii_lowercase()).unwrap_or_default();
    let kind = match lower.as_str() {
        "bool" | "boolean" => TypeKind::Bool,
        "int2" | "smallint" => TypeKind::Int2,
        "int4" | "int" | "integer" => TypeKind::Int4,
        "int8" | "bigint" | "oid" | "regclass" | "regtype" | "xid" => TypeKind::Int8,
        "float4" | "binary_float" => TypeKind::Float4,
        "float8" | "binary_double" => TypeKind::Float8,
        "number" | "numeric" | "decimal" => {
            let numbers: Result<Vec<u64>> = modifiers
                .iter()
                .map(|m| m.trim().parse().map_err(|_| PgError::syntax("invalid type modifier")))
                .collect();
            let info = match numbers?[..] {
                [] => ExactNumberInfo::None,
                [p] => ExactNumberInfo::Precision(p),
                [p, s] => {
                    ExactNumberInfo::PrecisionAndScale(p, i64::try_from(s).unwrap_or(i64::MAX))
                }
                _ => return Err(PgError::syntax("invalid type modifier")),
            };
            return numeric_type(info).map(Some);
        }
        "varchar2" | "nvarchar2" | "varchar" => {
            let Some(length) = modifiers.first() else {
                return Ok(Some(ColType::new(TypeKind::Varchar)));
            };
            let digits = length.split_whitespace().next().unwrap_or("");
            let length = digits.parse().map_err(|_| PgError::syntax("invalid type modifier"))?;
            return limited(TypeKind::Varchar, length).map(Some);
        }
        "refcursor" | "sys_refcursor" => return Ok(Some(ColType::REF_CURSOR)),
        "bpchar" => TypeKind::Char,
        "text" | "clob" | "nclob" | "long" | "name" | "char" | "regproc" | "unknown"
        | "cstring" => TypeKind::Text,
        "bytea" | "raw" | "blob" => TypeKind::Bytea,
        "timestamp" | "timestamptz" | "time" | "interval" if !modifiers.is_empty() => {
            let kind = match lower.as_str() {
                "timestamp" => TypeKind::Timestamp,
                "timestamptz" => TypeKind::Timestamptz,
                "time" => TypeKind::Time,
                _ => TypeKind::Interval,
            };
            let [digits] = modifiers else {
                return Err(PgError::new("22023", "invalid type modifier"));
            };
            let digits = digits.parse().map_err(|_| PgError::syntax("invalid type modifier"))?;
            return Ok(Some(timed(kind, Some(digits))));
        }
        "date" => TypeKind::Date,
        "timestamp" => TypeKind::Timestamp,
        "timestamptz" => TypeKind::Timestamptz,
        "uuid" => TypeKind::Uuid,
        "time" => TypeKind::Time,
        "interval" => TypeKind::Interval,
        "json" => TypeKind::Json,
        "jsonb" => TypeKind::Jsonb,
        "xml" | "inet" | "cidr" | "macaddr" | "money" | "timetz" | "bit" | "varbit" | "point" => {
            return Err(PgError::unsupported(format!("type {lower}")));
        }
        other => {
            let missing = || PgError::new("42704", format!("type \"{name}\" does not exist"));
            // As catalogs call arrays.
            let element = other.strip_prefix('_').ok_or_else(missing)?;
            let element = DataType::Custom(vec![Ident::new(element)].into(), Vec::new());
            return array_type(&element).map(Some).map_err(|_| missing());
        }
    };
    Ok(Some(ColType::new(kind)))
}
