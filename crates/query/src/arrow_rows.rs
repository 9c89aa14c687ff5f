//! Rows to Arrow arrays, and Arrow arrays to values.
//!
//! What it promises: only the columns asked for are decoded; numerics get the scale of their Arrow
//! type.

use crate::arith::rescale;
use crate::cast::trim_zeros;
use crate::datetime::{day_of_plan, plan_day, plan_us, us_of_plan};
use crate::error::{PgError, Result};
use crate::types::{
    FREE_NUMERIC_SCALE, NUMERIC_PRECISION, arrow_type, col_type_of, enum_of_zone, is_shown_short,
};
use block::Rowid;
use datafusion::arrow::array::*;
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{
    DataType, Field, IntervalMonthDayNano, IntervalUnit, SchemaRef, TimeUnit,
};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use kernel::row::{
    ArrayView, ColType, Datum, EnumValue, Interval, RowView, TypeKind, Value, encode_array,
    stored_integer, stored_numeric,
};
use std::sync::Arc;

/// Where a column of a batch comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    Column(usize),
    /// The row's address, as a 64-bit integer.
    Rowid,
    /// The row's bytes.
    Row,
}

enum Builder {
    Bool(BooleanBuilder),
    Int2(Int16Builder),
    Int4(Int32Builder),
    Int8(Int64Builder),
    Float4(Float32Builder),
    Float8(Float64Builder),
    Numeric(Decimal128Builder, u8),
    Text(Texts),
    Bytea(BinaryBuilder),
    Date(Date32Builder),
    Timestamp(TimestampMicrosecondBuilder),
    Uuid(FixedSizeBinaryBuilder),
    Time(Time64MicrosecondBuilder),
    Interval(IntervalMonthDayNanoBuilder),
    Json(LargeBinaryBuilder),
    Jsonb(BinaryViewBuilder),
    Array(ListParts),
    Enum(TimestampSecondBuilder),
}

/// What a column of arrays is made of.
struct ListParts {
    element: DataType,
    values: Box<Builder>,
    lengths: Vec<usize>,
    valid: Vec<bool>,
}

impl Builder {
    fn new(ty: ColType) -> Builder {
        match ty.kind {
            TypeKind::Bool => Builder::Bool(BooleanBuilder::new()),
            TypeKind::Int2 => Builder::Int2(Int16Builder::new()),
            TypeKind::Int4 => Builder::Int4(Int32Builder::new()),
            TypeKind::Int8 => Builder::Int8(Int64Builder::new()),
            TypeKind::Float4 => Builder::Float4(Float32Builder::new()),
            TypeKind::Float8 => Builder::Float8(Float64Builder::new()),
            TypeKind::Numeric => {
                let (_, scale) =
                    ty.precision_scale().unwrap_or((NUMERIC_PRECISION, FREE_NUMERIC_SCALE));
                let builder = Decimal128Builder::new().with_data_type(arrow_type(ty));
                Builder::Numeric(builder, scale)
            }
            TypeKind::Text | TypeKind::Varchar | TypeKind::Char => Builder::Text(Texts::default()),
            TypeKind::Bytea => Builder::Bytea(BinaryBuilder::new()),
            TypeKind::Date => Builder::Date(Date32Builder::new()),
            TypeKind::Timestamp | TypeKind::Timestamptz => Builder::Timestamp(
                TimestampMicrosecondBuilder::new().with_data_type(arrow_type(ty)),
            ),
            TypeKind::Uuid => Builder::Uuid(FixedSizeBinaryBuilder::new(16)),
            TypeKind::Time => Builder::Time(Time64MicrosecondBuilder::new()),
            TypeKind::Interval => Builder::Interval(IntervalMonthDayNanoBuilder::new()),
            TypeKind::Json => Builder::Json(LargeBinaryBuilder::new()),
            TypeKind::Jsonb => Builder::Jsonb(BinaryViewBuilder::new()),
            TypeKind::Enum => {
                Builder::Enum(TimestampSecondBuilder::new().with_data_type(arrow_type(ty)))
            }
            TypeKind::Array => {
                let element = ty.element().unwrap_or(ColType::new(TypeKind::Text));
                Builder::Array(ListParts {
                    element: arrow_type(element),
                    values: Box::new(Builder::new(element)),
                    lengths: Vec::new(),
                    valid: Vec::new(),
                })
            }
        }
    }

    fn append(&mut self, datum: &Datum<'_>) -> Result<()> {
        match (self, datum) {
            (Builder::Bool(b), Datum::Bool(v)) => b.append_value(*v),
            (Builder::Int2(b), Datum::Int2(v)) => b.append_value(*v),
            (Builder::Int4(b), Datum::Int4(v)) => b.append_value(*v),
            (Builder::Int8(b), Datum::Int8(v)) => b.append_value(*v),
            (Builder::Float4(b), Datum::Float4(v)) => b.append_value(*v),
            (Builder::Float8(b), Datum::Float8(v)) => b.append_value(*v),
            (Builder::Numeric(b, to), Datum::Numeric(v, scale)) => {
                let v = if scale == to { Some(*v) } else { rescale(*v, *scale, *to) };
                let v = v.filter(|v| v.unsigned_abs() < 10u128.pow(38)).ok_or_else(|| {
                    PgError::new("22003", "numeric value is too large to compute with")
                        .with_detail("22 digits before the point are computed with.")
                })?;
                b.append_value(v);
            }
            (Builder::Text(b), Datum::Text(v)) => b.append(v.as_bytes())?,
            (Builder::Bytea(b), Datum::Bytea(v)) => b.append_value(v),
            (Builder::Date(b), Datum::Date(v)) => b.append_value(plan_day(*v)),
            (Builder::Timestamp(b), Datum::Timestamp(v) | Datum::Timestamptz(v)) => {
                b.append_value(plan_us(*v));
            }
            (Builder::Uuid(b), Datum::Uuid(v)) => b.append_value(v)?,
            (Builder::Time(b), Datum::Time(v)) => b.append_value(*v),
            (Builder::Interval(b), Datum::Interval(v)) => b.append_value(arrow_interval(*v)?),
            (Builder::Json(b), Datum::Json(v)) => b.append_value(v),
            (Builder::Jsonb(b), Datum::Jsonb(v)) => b.append_value(v),
            (Builder::Enum(b), Datum::Enum(v)) => b.append_value(v.position),
            (Builder::Array(b), Datum::Array(v)) => {
                let view = ArrayView::new(v);
                for element in view.iter() {
                    b.values.append(&element)?;
                }
                b.lengths.push(view.len());
                b.valid.push(true);
            }
            (builder, Datum::Null) => builder.append_null(),
            (_, other) => return Err(PgError::internal(format!("{other:?} in another column"))),
        }
        Ok(())
    }

    fn append_null(&mut self) {
        match self {
            Builder::Bool(b) => b.append_null(),
            Builder::Int2(b) => b.append_null(),
            Builder::Int4(b) => b.append_null(),
            Builder::Int8(b) => b.append_null(),
            Builder::Float4(b) => b.append_null(),
            Builder::Float8(b) => b.append_null(),
            Builder::Numeric(b, _) => b.append_null(),
            Builder::Text(b) => b.append_null(),
            Builder::Bytea(b) => b.append_null(),
            Builder::Date(b) => b.append_null(),
            Builder::Timestamp(b) => b.append_null(),
            Builder::Uuid(b) => b.append_null(),
            Builder::Time(b) => b.append_null(),
            Builder::Interval(b) => b.append_null(),
            Builder::Json(b) => b.append_null(),
            Builder::Jsonb(b) => b.append_null(),
            Builder::Enum(b) => b.append_null(),
            Builder::Array(b) => {
                b.lengths.push(0);
                b.valid.push(false);
            }
        }
    }

    fn finish(&mut self) -> Result<ArrayRef> {
        Ok(match self {
            Builder::Bool(b) => Arc::new(b.finish()),
            Builder::Int2(b) => Arc::new(b.finish()),
            Builder::Int4(b) => Arc::new(b.finish()),
            Builder::Int8(b) => Arc::new(b.finish()),
            Builder::Float4(b) => Arc::new(b.finish()),
            Builder::Float8(b) => Arc::new(b.finish()),
            Builder::Numeric(b, _) => Arc::new(b.finish()),
            Builder::Text(b) => Arc::new(b.finish()?),
            Builder::Bytea(b) => Arc::new(b.finish()),
            Builder::Date(b) => Arc::new(b.finish()),
            Builder::Timestamp(b) => Arc::new(b.finish()),
            Builder::Uuid(b) => Arc::new(b.finish()),
            Builder::Time(b) => Arc::new(b.finish()),
            Builder::Interval(b) => Arc::new(b.finish()),
            Builder::Json(b) => Arc::new(b.finish()),
            Builder::Jsonb(b) => Arc::new(b.finish()),
            Builder::Enum(b) => Arc::new(b.finish()),
            Builder::Array(b) => {
                let field = Arc::new(Field::new_list_field(b.element.clone(), true));
                let offsets = OffsetBuffer::from_lengths(std::mem::take(&mut b.lengths));
                let valid = NullBuffer::from(std::mem::take(&mut b.valid));
                Arc::new(ListArray::new(field, offsets, b.values.finish()?, Some(valid)))
            }
        })
    }

    /// Takes in a column's value as it is stored; `None` for NULL.
    #[inline]
    fn append_stored(&mut self, column: usize, view: &RowView<'_>) -> Result<()> {
        let Some(data) = view.raw(column) else {
            self.append_null();
            return Ok(());
        };
        match self {
            Builder::Int4(b) if data.len() == 4 => {
                b.append_value(i32::try_from(stored_integer(data)).unwrap_or_default());
            }
            Builder::Int8(b) if data.len() == 8 => b.append_value(stored_integer(data)),
            Builder::Date(b) if data.len() == 4 => {
                let days = i32::try_from(stored_integer(data)).unwrap_or_default();
                b.append_value(plan_day(days));
            }
            Builder::Text(b) => b.append(data)?,
            Builder::Numeric(b, to) => match stored_numeric(data) {
                Some((v, scale)) if scale == *to => b.append_value(i128::from(v)),
                _ => self.append(&view.get(column))?,
            },
            _ => self.append(&view.get(column))?,
        }
        Ok(())
    }
}

/// Texts of a batch: that they are UTF-8 is found of all at once.
#[derive(Default)]
struct Texts {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<i32>,
    /// Rows that are NULL.
    nulls: Vec<usize>,
}

impl Texts {
    #[inline]
    fn append(&mut self, text: &[u8]) -> Result<()> {
        self.bytes.extend_from_slice(text);
        let end = i32::try_from(self.bytes.len());
        self.ends.push(end.map_err(|_| crate::error::too_much_text())?);
        Ok(())
    }

    fn append_null(&mut self) {
        self.nulls.push(self.ends.len());
        self.ends.push(self.ends.last().copied().unwrap_or(0));
    }

    fn finish(&mut self) -> Result<StringArray> {
        let texts = std::mem::take(self);
        let nulls = (!texts.nulls.is_empty()).then(|| {
            let mut valid = vec![true; texts.ends.len()];
            texts.nulls.iter().for_each(|row| valid[*row] = false);
            NullBuffer::from(valid)
        });
        // What one batch needed the next one will.
        self.bytes.reserve(texts.bytes.len());
        self.ends.reserve(texts.ends.len());
        let mut offsets = Vec::with_capacity(texts.ends.len() + 1);
        offsets.push(0);
        offsets.extend_from_slice(&texts.ends);
        let offsets = OffsetBuffer::new(offsets.into());
        Ok(StringArray::try_new(offsets, texts.bytes.into(), nulls)?)
    }
}

/// An interval as Arrow counts it.
///
/// # Errors
/// 22008: more microseconds than nanoseconds can count.
pub fn arrow_interval(v: Interval) -> Result<IntervalMonthDayNano> {
    let nanoseconds =
        v.us.checked_mul(1000).ok_or_else(|| PgError::new("22008", "interval out of range"))?;
    Ok(IntervalMonthDayNano::new(v.months, v.days, nanoseconds))
}

/// Inverse of [`arrow_interval`].
#[must_use]
pub fn interval_of(v: IntervalMonthDayNano) -> Interval {
    Interval { months: v.months, days: v.days, us: v.nanoseconds.div_euclid(1000) }
}

/// Collects rows into one record batch.
pub struct RowBatchBuilder {
    schema: SchemaRef,
    columns: Vec<(Source, Builder)>,
    len: usize,
    bytes: usize,
}

impl RowBatchBuilder {
    /// `types` are those of the table; `schema` goes in parallel with `sources`.
    #[must_use]
    pub fn new(types: &[ColType], sources: &[Source], schema: SchemaRef) -> RowBatchBuilder {
        let columns = sources
            .iter()
            .map(|source| {
                let builder = match source {
                    Source::Column(i) => Builder::new(types[*i]),
                    Source::Rowid => Builder::new(ColType::new(TypeKind::Int8)),
                    Source::Row => Builder::new(ColType::new(TypeKind::Bytea)),
                };
                (*source, builder)
            })
            .collect();
        RowBatchBuilder { schema, columns, len: 0, bytes: 0 }
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of the rows taken in: long rows make a batch full early.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes in one row.
    ///
    /// # Errors
    /// 22003 for a numeric that cannot be computed with.
    pub fn append(&mut self, rowid: Rowid, row: &[u8], view: &RowView<'_>) -> Result<()> {
        for (source, builder) in &mut self.columns {
            match source {
                Source::Column(i) => builder.append_stored(*i, view)?,
                Source::Rowid => builder.append(&Datum::Int8(rowid.to_u64().cast_signed()))?,
                Source::Row => builder.append(&Datum::Bytea(row))?,
            }
        }
        self.len += 1;
        self.bytes += row.len();
        Ok(())
    }

    /// Takes in rows of which it wants no value; `false`: it wants some.
    pub fn count(&mut self, rows: u64) -> bool {
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        self.len = self.len.saturating_add(rows);
        self.columns.is_empty()
    }

    /// The batch so far; the builder is empty afterwards.
    ///
    /// # Errors
    /// Arrow's, which mean a bug.
    pub fn finish(&mut self) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(self.len));
        let arrays = self.columns.iter_mut().map(|(_, builder)| builder.finish());
        let arrays = arrays.collect::<Result<_>>()?;
        self.len = 0;
        self.bytes = 0;
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)?)
    }
}

/// An array of values of type `ty`; `arrow` may be a decimal of another scale.
///
/// # Errors
/// 22003 for a numeric that does not fit.
pub fn single_column(ty: ColType, arrow: &DataType, values: &[Value]) -> Result<ArrayRef> {
    let mut builder = match arrow {
        DataType::Decimal128(_, scale) => {
            let scale = u8::try_from(*scale).unwrap_or(0);
            Builder::Numeric(Decimal128Builder::new().with_data_type(arrow.clone()), scale)
        }
        // Elements may be decimals of another scale, too.
        DataType::List(element) => match (Builder::new(ty), element.data_type()) {
            (Builder::Array(mut parts), to @ DataType::Decimal128(_, scale)) => {
                let scale = u8::try_from(*scale).unwrap_or(0);
                let values = Decimal128Builder::new().with_data_type(to.clone());
                parts.values = Box::new(Builder::Numeric(values, scale));
                parts.element = to.clone();
                Builder::Array(parts)
            }
            (builder, _) => builder,
        },
        _ => Builder::new(ty),
    };
    for value in values {
        builder.append(&value.as_datum())?;
    }
    builder.finish()
}

/// Reads values out of an array.
pub enum ColumnReader {
    Null,
    Bool(BooleanArray),
    Int2(Int16Array),
    Int4(Int32Array),
    Int8(Int64Array),
    UInt8(UInt64Array),
    Float4(Float32Array),
    Float8(Float64Array),
    Numeric {
        array: Decimal128Array,
        scale: u8,
        trim: bool,
    },
    Text(StringArray),
    Bytea(BinaryArray),
    Date(Date32Array),
    Timestamp {
        array: TimestampMicrosecondArray,
        zoned: bool,
    },
    Uuid(FixedSizeBinaryArray),
    Time(Time64MicrosecondArray),
    Interval(IntervalMonthDayNanoArray),
    /// A difference of instants, in microseconds.
    Span(DurationMicrosecondArray),
    Json(LargeBinaryArray),
    Jsonb(BinaryViewArray),
    /// Positions, and the definition that they are of.
    Enum(TimestampSecondArray, i32),
    /// Bytes of each array.
    Array(Vec<Option<Box<[u8]>>>),
}

fn converted(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    Ok(cast_with_options(array, to, &options)?)
}

fn down<T: Array + Clone + 'static>(array: &ArrayRef) -> Result<T> {
    let found = array.as_any().downcast_ref::<T>().cloned();
    found.ok_or_else(|| PgError::internal(format!("array of type {}", array.data_type())))
}

impl ColumnReader {
    /// A reader of `array`, whose field is `field`.
    ///
    /// # Errors
    /// 0A000 for a type that has no counterpart.
    pub fn new(array: &ArrayRef, field: &Field) -> Result<ColumnReader> {
        let to = |ty: &DataType| converted(array, ty);
        Ok(match array.data_type() {
            DataType::Null => ColumnReader::Null,
            DataType::Boolean => ColumnReader::Bool(down(array)?),
            DataType::Int16 => ColumnReader::Int2(down(array)?),
            DataType::Int8 | DataType::UInt8 => ColumnReader::Int2(down(&to(&DataType::Int16)?)?),
            DataType::Int32 => ColumnReader::Int4(down(array)?),
            DataType::UInt16 => ColumnReader::Int4(down(&to(&DataType::Int32)?)?),
            DataType::Int64 => ColumnReader::Int8(down(array)?),
            DataType::UInt32 => ColumnReader::Int8(down(&to(&DataType::Int64)?)?),
            DataType::UInt64 => ColumnReader::UInt8(down(array)?),
            DataType::Float64 => ColumnReader::Float8(down(array)?),
            DataType::Float32 => ColumnReader::Float4(down(array)?),
            DataType::Float16 => ColumnReader::Float4(down(&to(&DataType::Float32)?)?),
            DataType::Decimal128(..) => {
                let array: Decimal128Array = down(array)?;
                let scale = u8::try_from(array.scale()).unwrap_or(0);
                ColumnReader::Numeric { array, scale, trim: trims(field, scale) }
            }
            DataType::Decimal256(_, scale) => {
                let array = down(&to(&DataType::Decimal128(NUMERIC_PRECISION, *scale))?)?;
                let scale = u8::try_from(*scale).unwrap_or(0);
                ColumnReader::Numeric { array, scale, trim: trims(field, scale) }
            }
            DataType::Utf8 => ColumnReader::Text(down(array)?),
            DataType::LargeUtf8 | DataType::Utf8View | DataType::Dictionary(..) => {
                ColumnReader::Text(down(&to(&DataType::Utf8)?)?)
            }
            DataType::Binary => ColumnReader::Bytea(down(array)?),
            DataType::FixedSizeBinary(16) => ColumnReader::Uuid(down(array)?),
            DataType::LargeBinary => ColumnReader::Json(down(array)?),
            DataType::BinaryView => ColumnReader::Jsonb(down(array)?),
            DataType::Time32(_) | DataType::Time64(_) => {
                ColumnReader::Time(down(&to(&DataType::Time64(TimeUnit::Microsecond))?)?)
            }
            DataType::FixedSizeBinary(_) => ColumnReader::Bytea(down(&to(&DataType::Binary)?)?),
            DataType::Date32 => ColumnReader::Date(down(array)?),
            DataType::Date64 => ColumnReader::Date(down(&to(&DataType::Date32)?)?),
            DataType::Timestamp(_, Some(zone)) if enum_of_zone(zone).is_some() => {
                let definition = enum_of_zone(zone).unwrap_or_default();
                ColumnReader::Enum(down(array)?, definition)
            }
            DataType::Timestamp(_, zone) => {
                let micros = to(&DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))?;
                ColumnReader::Timestamp { array: down(&micros)?, zoned: zone.is_some() }
            }
            DataType::List(_) | DataType::LargeList(_) => ColumnReader::Array(arrays(array)?),
            DataType::Interval(_) => {
                ColumnReader::Interval(down(&to(&DataType::Interval(IntervalUnit::MonthDayNano))?)?)
            }
            DataType::Duration(_) => {
                ColumnReader::Span(down(&to(&DataType::Duration(TimeUnit::Microsecond))?)?)
            }
            _ => ColumnReader::Text(formatted(array)?),
        })
    }

    /// The value at `row`.
    #[must_use]
    pub fn get(&self, row: usize) -> Datum<'_> {
        if self.is_null(row) {
            return Datum::Null;
        }
        match self {
            ColumnReader::Null => Datum::Null,
            ColumnReader::Bool(a) => Datum::Bool(a.value(row)),
            ColumnReader::Int2(a) => Datum::Int2(a.value(row)),
            ColumnReader::Int4(a) => Datum::Int4(a.value(row)),
            ColumnReader::Int8(a) => Datum::Int8(a.value(row)),
            ColumnReader::UInt8(a) => match i64::try_from(a.value(row)) {
                Ok(v) => Datum::Int8(v),
                Err(_) => Datum::Numeric(i128::from(a.value(row)), 0),
            },
            ColumnReader::Float4(a) => Datum::Float4(a.value(row)),
            ColumnReader::Float8(a) => Datum::Float8(a.value(row)),
            ColumnReader::Numeric { array, scale, trim } => {
                let (v, scale) = (array.value(row), *scale);
                let (v, scale) = if *trim { trim_zeros(v, scale) } else { (v, scale) };
                Datum::Numeric(v, scale)
            }
            ColumnReader::Text(a) => Datum::Text(a.value(row)),
            ColumnReader::Bytea(a) => Datum::Bytea(a.value(row)),
            ColumnReader::Date(a) => Datum::Date(day_of_plan(a.value(row))),
            ColumnReader::Timestamp { array, zoned } => {
                let us = us_of_plan(array.value(row));
                if *zoned { Datum::Timestamptz(us) } else { Datum::Timestamp(us) }
            }
            ColumnReader::Uuid(a) => Datum::Uuid(a.value(row).try_into().unwrap_or_default()),
            ColumnReader::Time(a) => Datum::Time(a.value(row)),
            ColumnReader::Interval(a) => Datum::Interval(interval_of(a.value(row))),
            ColumnReader::Span(a) => Datum::Interval(crate::interval::of_span(a.value(row))),
            ColumnReader::Json(a) => Datum::Json(str_of(a.value(row))),
            ColumnReader::Jsonb(a) => Datum::Jsonb(str_of(a.value(row))),
            ColumnReader::Enum(a, of) => Datum::Enum(EnumValue { of: *of, position: a.value(row) }),
            ColumnReader::Array(a) => a[row].as_deref().map_or(Datum::Null, Datum::Array),
        }
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            ColumnReader::Null => true,
            ColumnReader::Bool(a) => a.is_null(row),
            ColumnReader::Int2(a) => a.is_null(row),
            ColumnReader::Int4(a) => a.is_null(row),
            ColumnReader::Int8(a) => a.is_null(row),
            ColumnReader::UInt8(a) => a.is_null(row),
            ColumnReader::Float4(a) => a.is_null(row),
            ColumnReader::Float8(a) => a.is_null(row),
            ColumnReader::Numeric { array, .. } => array.is_null(row),
            ColumnReader::Text(a) => a.is_null(row),
            ColumnReader::Bytea(a) => a.is_null(row),
            ColumnReader::Date(a) => a.is_null(row),
            ColumnReader::Timestamp { array, .. } => array.is_null(row),
            ColumnReader::Uuid(a) => a.is_null(row),
            ColumnReader::Time(a) => a.is_null(row),
            ColumnReader::Interval(a) => a.is_null(row),
            ColumnReader::Span(a) => a.is_null(row),
            ColumnReader::Json(a) => a.is_null(row),
            ColumnReader::Jsonb(a) => a.is_null(row),
            ColumnReader::Enum(a, _) => a.is_null(row),
            ColumnReader::Array(a) => a[row].is_none(),
        }
    }
}

/// Text that was put into binary arrays as text.
fn str_of(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

/// Whether zeros at the end of a decimal are of our making: an unconstrained numeric, or computed
/// from one. Or of no account, since the statement wants it short.
fn trims(field: &Field, scale: u8) -> bool {
    let constrained = field.metadata().get("skein.type").is_some_and(|t| !t.ends_with(":-1"));
    // What computes with one has all the digits there are; a literal has those it is written with.
    let full = !matches!(field.data_type(), DataType::Decimal128(p, _) if *p < NUMERIC_PRECISION);
    let free = full && scale >= FREE_NUMERIC_SCALE && scale != 16;
    !constrained && (free || is_shown_short(field))
}

/// Lists as arrays of ours: those of enums as arrays of labels.
fn arrays(array: &ArrayRef) -> Result<Vec<Option<Box<[u8]>>>> {
    let element = match array.data_type() {
        DataType::List(field) | DataType::LargeList(field) => field.clone(),
        other => return Err(PgError::internal(format!("arrays of type {other}"))),
    };
    let kind = match element.data_type() {
        DataType::Null => TypeKind::Text,
        other => match col_type_of(other) {
            Some(ty) if ty.kind == TypeKind::Enum => TypeKind::Text,
            Some(ty) if ty.kind != TypeKind::Array => ty.kind,
            _ => return Err(PgError::unsupported("an array of several dimensions")),
        },
    };
    let mut out = Vec::with_capacity(array.len());
    for row in 0..array.len() {
        if array.is_null(row) {
            out.push(None);
            continue;
        }
        let items = match array.data_type() {
            DataType::LargeList(_) => down::<LargeListArray>(array)?.value(row),
            _ => down::<ListArray>(array)?.value(row),
        };
        let reader = ColumnReader::new(&items, &element)?;
        let labelled = |i| match reader.get(i) {
            Datum::Enum(value) => label(value).map_or(Datum::Null, Datum::Text),
            other => other,
        };
        let elements: Vec<Datum<'_>> = (0..items.len()).map(labelled).collect();
        out.push(Some(encode_array(kind, &elements)));
    }
    Ok(out)
}

fn label(value: EnumValue) -> Option<&'static str> {
    let definition = ColType { kind: TypeKind::Enum, modifier: value.of }.enum_type()?;
    definition.at(value.position).map(|label| label.text.as_str())
}

fn formatted(array: &ArrayRef) -> Result<StringArray> {
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(array, &options)?;
    let mut out = StringBuilder::new();
    for row in 0..array.len() {
        if array.is_null(row) {
            out.append_null();
        } else {
            out.append_value(formatter.value(row).try_to_string()?);
        }
    }
    Ok(out.finish())
}
