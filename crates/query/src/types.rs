//! PostgreSQL's types as clients see them, and their Arrow counterparts.
//!
//! What it promises: each column type has one Arrow type; what Arrow cannot say (varchar and its
//! length, `oid`, `name`) travels as field metadata and comes back in [`PgColumn`].

use datafusion::arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};
use kernel::dict::{ColumnDef, USER_OBJ_MIN};
use kernel::row::{ColType, TypeKind};
use std::collections::HashMap;

/// OIDs of the types we name.
pub mod oid {
    pub const BOOL: u32 = 16;
    pub const BYTEA: u32 = 17;
    pub const CHAR: u32 = 18;
    pub const NAME: u32 = 19;
    pub const INT8: u32 = 20;
    pub const INT2: u32 = 21;
    pub const INT2VECTOR: u32 = 22;
    pub const INT4: u32 = 23;
    pub const REGPROC: u32 = 24;
    pub const TEXT: u32 = 25;
    pub const OID: u32 = 26;
    pub const OIDVECTOR: u32 = 30;
    pub const JSON: u32 = 114;
    pub const PG_NODE_TREE: u32 = 194;
    pub const FLOAT4: u32 = 700;
    pub const FLOAT8: u32 = 701;
    pub const UNKNOWN: u32 = 705;
    pub const TEXT_ARRAY: u32 = 1009;
    pub const BPCHAR: u32 = 1042;
    pub const VARCHAR: u32 = 1043;
    pub const DATE: u32 = 1082;
    pub const TIME: u32 = 1083;
    pub const TIMESTAMP: u32 = 1114;
    pub const TIMESTAMPTZ: u32 = 1184;
    pub const INTERVAL: u32 = 1186;
    pub const NUMERIC: u32 = 1700;
    pub const REFCURSOR: u32 = 1790;
    pub const CHAR_ARRAY: u32 = 1002;
    pub const NAME_ARRAY: u32 = 1003;
    pub const INT2_ARRAY: u32 = 1005;
    pub const OID_ARRAY: u32 = 1028;
    pub const REGPROCEDURE: u32 = 2202;
    pub const REGOPER: u32 = 2203;
    pub const REGOPERATOR: u32 = 2204;
    pub const REGCLASS: u32 = 2205;
    pub const REGTYPE: u32 = 2206;
    pub const REGNAMESPACE: u32 = 4089;
    pub const REGROLE: u32 = 4096;
    pub const RECORD: u32 = 2249;
    pub const VOID: u32 = 2278;
    pub const RECORD_ARRAY: u32 = 2287;
    pub const UUID: u32 = 2950;
    pub const JSONB: u32 = 3802;
}

/// Whether values of a type are numbers of objects that are shown by their names.
#[must_use]
pub const fn names_objects(type_oid: u32) -> bool {
    matches!(
        type_oid,
        oid::REGPROC
            | oid::REGPROCEDURE
            | oid::REGOPER
            | oid::REGOPERATOR
            | oid::REGCLASS
            | oid::REGTYPE
            | oid::REGNAMESPACE
            | oid::REGROLE
    )
}

/// Whether values of a type are numbers of objects: 4 bytes for clients, `Int8` here.
#[must_use]
pub const fn is_object_number(type_oid: u32) -> bool {
    type_oid == oid::OID || names_objects(type_oid)
}

/// Whether a type is one of the catalog's vectors, which count from 0 and have no braces.
#[must_use]
pub const fn is_vector(type_oid: u32) -> bool {
    matches!(type_oid, oid::INT2VECTOR | oid::OIDVECTOR)
}

/// Digits after the point that unconstrained numerics have inside DataFusion, whose decimals have a
/// fixed
/// scale. Trailing zeros are not shown on output.
pub const FREE_NUMERIC_SCALE: u8 = 15;
/// Precision of every decimal computed with.
pub const NUMERIC_PRECISION: u8 = 38;
/// Time zone of `timestamptz` in Arrow.
pub const UTC: &str = "+00:00";
/// What the time zone of an enum's Arrow type begins with.
const ENUM_ZONE: &str = "enum:";
const META_TYPE: &str = "skein.type";
const META_SOURCE: &str = "skein.column";
const META_SHORT: &str = "skein.short";
const ACLITEM_ARRAY: u32 = 1034;

/// A type as the protocol names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PgType {
    pub oid: u32,
    pub typmod: i32,
}

impl PgType {
    #[must_use]
    pub const fn new(oid: u32) -> PgType {
        PgType { oid, typmod: -1 }
    }

    /// Of an enum, `typmod` says which definition: see [`PgType::shown_typmod`].
    #[must_use]
    pub fn of(ty: ColType) -> PgType {
        let oid = match ty.kind {
            TypeKind::Bool => oid::BOOL,
            TypeKind::Int2 => oid::INT2,
            TypeKind::Int4 => oid::INT4,
            TypeKind::Int8 => oid::INT8,
            TypeKind::Float4 => oid::FLOAT4,
            TypeKind::Float8 => oid::FLOAT8,
            TypeKind::Numeric => oid::NUMERIC,
            TypeKind::Text if ty.is_ref_cursor() => return PgType::new(oid::REFCURSOR),
            TypeKind::Text => oid::TEXT,
            TypeKind::Varchar => oid::VARCHAR,
            TypeKind::Char => oid::BPCHAR,
            TypeKind::Bytea => oid::BYTEA,
            TypeKind::Date => oid::DATE,
            TypeKind::Timestamp => oid::TIMESTAMP,
            TypeKind::Timestamptz => oid::TIMESTAMPTZ,
            TypeKind::Uuid => oid::UUID,
            TypeKind::Time => oid::TIME,
            TypeKind::Interval => oid::INTERVAL,
            TypeKind::Json => oid::JSON,
            TypeKind::Jsonb => oid::JSONB,
            TypeKind::Array => return PgType::new(array_oid(ty.modifier)),
            TypeKind::Enum => ty.enum_type().map_or(oid::TEXT, |def| def.obj.0),
        };
        PgType { oid, typmod: ty.modifier }
    }

    /// What clients are told: types of users have no modifiers.
    #[must_use]
    pub const fn shown_typmod(self) -> i32 {
        if self.oid >= USER_OBJ_MIN { -1 } else { self.typmod }
    }

    /// `pg_type.typlen`: -1 for variable length.
    #[must_use]
    pub const fn typlen(self) -> i16 {
        match self.oid {
            oid::BOOL | oid::CHAR => 1,
            oid::INT2 => 2,
            oid::INT4 | oid::FLOAT4 | oid::DATE | oid::VOID => 4,
            other if is_object_number(other) => 4,
            oid::INT8 | oid::FLOAT8 | oid::TIMESTAMP | oid::TIMESTAMPTZ | oid::TIME => 8,
            oid::INTERVAL | oid::UUID => 16,
            oid::NAME => 64,
            oid::UNKNOWN => -2,
            USER_OBJ_MIN.. => 4,
            _ => -1,
        }
    }
}

/// OID of the arrays whose elements' kind has this code; 0 if there are none.
const fn array_oid(code: i32) -> u32 {
    let mut at = 0;
    while at < ARRAY_OIDS.len() {
        let (kind, oid) = ARRAY_OIDS[at];
        if kind.code() as i32 == code {
            return oid;
        }
        at += 1;
    }
    0
}

const ARRAY_OIDS: [(TypeKind, u32); 19] = [
    (TypeKind::Bool, 1000),
    (TypeKind::Bytea, 1001),
    (TypeKind::Int2, 1005),
    (TypeKind::Int4, 1007),
    (TypeKind::Text, oid::TEXT_ARRAY),
    (TypeKind::Char, 1014),
    (TypeKind::Varchar, 1015),
    (TypeKind::Int8, 1016),
    (TypeKind::Float4, 1021),
    (TypeKind::Float8, 1022),
    (TypeKind::Timestamp, 1115),
    (TypeKind::Date, 1182),
    (TypeKind::Time, 1183),
    (TypeKind::Timestamptz, 1185),
    (TypeKind::Interval, 1187),
    (TypeKind::Numeric, 1231),
    (TypeKind::Uuid, 2951),
    (TypeKind::Json, 199),
    (TypeKind::Jsonb, 3807),
];

/// One column of a result, as RowDescription has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgColumn {
    pub name: String,
    pub oid: u32,
    pub typlen: i16,
    pub typmod: i32,
    pub table_oid: u32,
    pub attnum: i16,
}

impl PgColumn {
    #[must_use]
    pub fn new(name: impl Into<String>, ty: PgType) -> PgColumn {
        PgColumn {
            name: name.into(),
            oid: ty.oid,
            typlen: ty.typlen(),
            typmod: ty.typmod,
            table_oid: 0,
            attnum: 0,
        }
    }

    /// As [`PgType::shown_typmod`].
    #[must_use]
    pub const fn shown_typmod(&self) -> i32 {
        PgType { oid: self.oid, typmod: self.typmod }.shown_typmod()
    }

    /// The column type of its values; `None` for what has none.
    #[must_use]
    pub fn col_type(&self) -> Option<ColType> {
        if self.oid >= USER_OBJ_MIN {
            return Some(ColType { kind: TypeKind::Enum, modifier: self.typmod });
        }
        col_type_of_oid(self.oid)
    }

    /// The column that a field of a plan's output is.
    #[must_use]
    pub fn of_field(field: &Field) -> PgColumn {
        let mut column = PgColumn::new(field.name().clone(), pg_type_of_field(field));
        if let Some((table, attnum)) = field.metadata().get(META_SOURCE).and_then(|s| pair(s)) {
            column.table_oid = u32::try_from(table).unwrap_or(0);
            column.attnum = i16::try_from(attnum).unwrap_or(0);
        }
        column
    }
}

fn pair(text: &str) -> Option<(i64, i64)> {
    let (a, b) = text.split_once(':')?;
    Some((a.parse().ok()?, b.parse().ok()?))
}

/// The Arrow type that holds values of `ty`.
#[must_use]
pub fn arrow_type(ty: ColType) -> DataType {
    match ty.kind {
        TypeKind::Bool => DataType::Boolean,
        TypeKind::Int2 => DataType::Int16,
        TypeKind::Int4 => DataType::Int32,
        TypeKind::Int8 => DataType::Int64,
        TypeKind::Float4 => DataType::Float32,
        TypeKind::Float8 => DataType::Float64,
        TypeKind::Numeric => {
            let (precision, scale) =
                ty.precision_scale().unwrap_or((NUMERIC_PRECISION, FREE_NUMERIC_SCALE));
            DataType::Decimal128(precision, i8::try_from(scale).unwrap_or(i8::MAX))
        }
        TypeKind::Text | TypeKind::Varchar | TypeKind::Char => DataType::Utf8,
        TypeKind::Bytea => DataType::Binary,
        TypeKind::Date => DataType::Date32,
        TypeKind::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
        TypeKind::Timestamptz => DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())),
        TypeKind::Uuid => DataType::FixedSizeBinary(16),
        TypeKind::Time => DataType::Time64(TimeUnit::Microsecond),
        TypeKind::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
        // Types of their own, so that text is not taken for them nor they for text.
        TypeKind::Json => DataType::LargeBinary,
        TypeKind::Jsonb => DataType::BinaryView,
        TypeKind::Array => {
            let element = ty.element().unwrap_or(ColType::new(TypeKind::Text));
            DataType::new_list(arrow_type(element), true)
        }
        // The one Arrow type of numbers that has room for a name: it goes wherever values go.
        TypeKind::Enum => {
            let name = format!("{ENUM_ZONE}{}", ty.modifier);
            DataType::Timestamp(TimeUnit::Second, Some(name.into()))
        }
    }
}

/// The definition that the time zone of a timestamp names, if it is an enum's.
#[must_use]
pub fn enum_of_zone(zone: &str) -> Option<i32> {
    zone.strip_prefix(ENUM_ZONE)?.parse().ok()
}

/// The column type closest to an Arrow type; `None` if there is none.
#[must_use]
pub fn col_type_of(ty: &DataType) -> Option<ColType> {
    Some(match ty {
        DataType::Boolean => ColType::new(TypeKind::Bool),
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => ColType::new(TypeKind::Int2),
        DataType::Int32 | DataType::UInt16 => ColType::new(TypeKind::Int4),
        DataType::Int64 | DataType::UInt32 | DataType::UInt64 => ColType::new(TypeKind::Int8),
        DataType::Float16 | DataType::Float32 => ColType::new(TypeKind::Float4),
        DataType::Float64 => ColType::new(TypeKind::Float8),
        DataType::Decimal128(precision, scale) => {
            if *precision == NUMERIC_PRECISION || *scale < 0 {
                ColType::new(TypeKind::Numeric)
            } else {
                ColType::numeric(*precision, u8::try_from(*scale).unwrap_or(0))
            }
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => {
            ColType::new(TypeKind::Text)
        }
        DataType::Binary => ColType::new(TypeKind::Bytea),
        DataType::LargeBinary => ColType::new(TypeKind::Json),
        DataType::BinaryView => ColType::new(TypeKind::Jsonb),
        DataType::FixedSizeBinary(16) => ColType::new(TypeKind::Uuid),
        DataType::Time32(_) | DataType::Time64(_) => ColType::new(TypeKind::Time),
        DataType::Interval(_) | DataType::Duration(_) => ColType::new(TypeKind::Interval),
        DataType::Date32 => ColType::new(TypeKind::Date),
        DataType::Timestamp(_, None) => ColType::new(TypeKind::Timestamp),
        DataType::Timestamp(_, Some(zone)) => match enum_of_zone(zone) {
            Some(modifier) => ColType { kind: TypeKind::Enum, modifier },
            None => ColType::new(TypeKind::Timestamptz),
        },
        DataType::List(element) | DataType::LargeList(element) => {
            match col_type_of(element.data_type())?.kind {
                TypeKind::Array => return None,
                // There are no arrays of enums: of their labels.
                TypeKind::Enum => ColType::array_of(TypeKind::Text),
                kind => ColType::array_of(kind),
            }
        }
        _ => return None,
    })
}

/// What a client is told about values of a field: the metadata if there are any, else the Arrow
/// type.
#[must_use]
pub fn pg_type_of_field(field: &Field) -> PgType {
    let from_meta = field.metadata().get(META_TYPE).and_then(|s| pair(s)).and_then(|(oid, m)| {
        Some(PgType { oid: u32::try_from(oid).ok()?, typmod: i32::try_from(m).ok()? })
    });
    let plain = pg_type_of(field.data_type());
    if plain.oid >= USER_OBJ_MIN {
        return plain;
    }
    match from_meta {
        // Casts and functions may carry the metadata of their argument: believed only if it fits.
        Some(ty) if same_family(ty.oid, field.data_type()) => ty,
        _ => plain,
    }
}

fn same_family(oid: u32, ty: &DataType) -> bool {
    match ty {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => !matches!(
            oid,
            oid::BOOL
                | oid::INT2
                | oid::INT4
                | oid::INT8
                | oid::FLOAT4
                | oid::FLOAT8
                | oid::NUMERIC
                | oid::OID
        ),
        DataType::Int64 => oid == oid::INT8 || is_object_number(oid),
        DataType::Decimal128(..) => oid == oid::NUMERIC,
        DataType::List(element) if *element.data_type() == DataType::Int16 => {
            matches!(oid, oid::INT2_ARRAY | oid::INT2VECTOR)
        }
        DataType::List(element) if *element.data_type() == DataType::Int64 => {
            matches!(oid, 1016 | oid::OID_ARRAY | oid::OIDVECTOR)
        }
        DataType::List(element) if *element.data_type() == DataType::Utf8 => {
            matches!(oid, oid::CHAR_ARRAY | oid::NAME_ARRAY | ACLITEM_ARRAY)
                || matches!(
                    col_type_of_oid(oid).and_then(ColType::element).map(|ty| ty.kind),
                    Some(TypeKind::Text | TypeKind::Varchar | TypeKind::Char)
                )
        }
        other => pg_type_of(other).oid == oid,
    }
}

fn pg_type_of(ty: &DataType) -> PgType {
    match ty {
        DataType::Decimal128(..) | DataType::Decimal256(..) => PgType::new(oid::NUMERIC),
        other => col_type_of(other).map_or(PgType::new(oid::TEXT), PgType::of),
    }
}

/// Field of a table's column.
#[must_use]
pub fn field_of_column(column: &ColumnDef, table_oid: u32, position: usize) -> Field {
    let field = Field::new(&column.name, arrow_type(column.ty), !column.not_null);
    let ty = PgType::of(column.ty);
    let metadata = HashMap::from([
        (META_TYPE.to_owned(), format!("{}:{}", ty.oid, ty.typmod)),
        (META_SOURCE.to_owned(), format!("{table_oid}:{}", position + 1)),
    ]);
    field.with_metadata(metadata)
}

/// Field that is shown to clients as a value of type `shown`.
#[must_use]
pub fn field_with_meta(name: &str, data_type: DataType, shown: PgType) -> Field {
    // Fields that mean the same must be equal: VALUES and UNION compare them.
    if pg_type_of(&data_type) == shown {
        return Field::new(name, data_type, true);
    }
    let metadata =
        HashMap::from([(META_TYPE.to_owned(), format!("{}:{}", shown.oid, shown.typmod))]);
    Field::new(name, data_type, true).with_metadata(metadata)
}

/// The field of a value that is shown without zeros at the end of its fraction.
pub(crate) fn shown_short(value: &Field, name: &str) -> Field {
    let mut metadata = value.metadata().clone();
    metadata.remove(META_SOURCE);
    if matches!(value.data_type(), DataType::Decimal128(..)) {
        metadata.insert(META_SHORT.to_owned(), String::new());
    }
    Field::new(name, value.data_type().clone(), true).with_metadata(metadata)
}

/// Whether a field is one of [`shown_short`].
pub(crate) fn is_shown_short(field: &Field) -> bool {
    field.metadata().contains_key(META_SHORT)
}

/// The column type of a parameter OID; `None` if unspecified or unknown here.
#[must_use]
pub fn col_type_of_oid(oid: u32) -> Option<ColType> {
    let kind = match oid {
        oid::BOOL => TypeKind::Bool,
        oid::INT2 => TypeKind::Int2,
        oid::INT4 => TypeKind::Int4,
        oid::INT8 => TypeKind::Int8,
        oid::FLOAT4 => TypeKind::Float4,
        oid::FLOAT8 => TypeKind::Float8,
        oid::NUMERIC => TypeKind::Numeric,
        oid::TEXT | oid::NAME | oid::CHAR => TypeKind::Text,
        oid::REFCURSOR => return Some(ColType::REF_CURSOR),
        oid::VARCHAR => TypeKind::Varchar,
        oid::BPCHAR => TypeKind::Char,
        oid::BYTEA => TypeKind::Bytea,
        oid::DATE => TypeKind::Date,
        oid::TIMESTAMP => TypeKind::Timestamp,
        oid::TIMESTAMPTZ => TypeKind::Timestamptz,
        oid::UUID => TypeKind::Uuid,
        oid::TIME => TypeKind::Time,
        oid::INTERVAL => TypeKind::Interval,
        oid::JSON => TypeKind::Json,
        oid::JSONB => TypeKind::Jsonb,
        oid::INT2VECTOR => return Some(ColType::array_of(TypeKind::Int2)),
        oid::OIDVECTOR | oid::OID_ARRAY => return Some(ColType::array_of(TypeKind::Int8)),
        oid::CHAR_ARRAY | oid::NAME_ARRAY => return Some(ColType::array_of(TypeKind::Text)),
        other if is_object_number(other) => TypeKind::Int8,
        other => {
            let found = ARRAY_OIDS.iter().find(|(_, oid)| *oid == other);
            return found.map(|(kind, _)| ColType::array_of(*kind));
        }
    };
    Some(ColType::new(kind))
}
