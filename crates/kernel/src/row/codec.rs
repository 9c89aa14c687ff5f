//! Rows to bytes and back. See the README for the layout.

use super::{ArrayView, ColType, Datum, EnumValue, Interval, RowTypes, TypeKind};

const WIDE: u16 = 0x8000;
const COUNT_MASK: u16 = 0x3fff;
const NULL_NARROW: u16 = 0x8000;
const NULL_WIDE: u32 = 0x8000_0000;
const HEADER_BYTES: usize = 2;
const NARROW_DATA_BYTES_MAX: usize = 0x7fff;

/// Bytes that are not a row of the given types.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("malformed row: {0}")]
pub struct RowError(&'static str);

/// Appends the row to `out`. `types` and `values` go in parallel; a value's variant is that of its
/// column's kind, or NULL.
///
/// # Panics
/// If they do not fit each other: whoever encodes has coerced the values before.
pub fn encode_row(types: &[ColType], values: &[Datum<'_>], out: &mut Vec<u8>) {
    assert_eq!(types.len(), values.len(), "as many values as columns");
    let count = u16::try_from(values.len()).expect("column count fits 14 bits");
    assert!(count <= COUNT_MASK, "column count fits 14 bits");
    let data_bytes: usize = values.iter().map(data_bytes_of).sum();
    let wide = data_bytes > NARROW_DATA_BYTES_MAX;
    let offset_bytes = if wide { 4 } else { 2 };
    out.reserve(HEADER_BYTES + values.len() * offset_bytes + data_bytes);
    let header = if wide { count | WIDE } else { count };
    out.extend_from_slice(&header.to_le_bytes());
    let offsets_at = out.len();
    out.resize(offsets_at + values.len() * offset_bytes, 0);
    let data_at = out.len();
    for (i, (ty, value)) in types.iter().zip(values).enumerate() {
        assert!(fits(ty.kind, value), "value {value:?} in a column of type {ty}");
        append_data(value, out);
        let end = out.len() - data_at;
        let at = offsets_at + i * offset_bytes;
        if wide {
            let mut end = u32::try_from(end).expect("rows stay below 2 GiB");
            if value.is_null() {
                end |= NULL_WIDE;
            }
            out[at..at + 4].copy_from_slice(&end.to_le_bytes());
        } else {
            let mut end = u16::try_from(end).expect("narrow rows stay below 32 KiB");
            if value.is_null() {
                end |= NULL_NARROW;
            }
            out[at..at + 2].copy_from_slice(&end.to_le_bytes());
        }
    }
}

pub(super) fn fits(kind: TypeKind, value: &Datum<'_>) -> bool {
    match value {
        Datum::Null => true,
        Datum::Bool(_) => kind == TypeKind::Bool,
        Datum::Int2(_) => kind == TypeKind::Int2,
        Datum::Int4(_) => kind == TypeKind::Int4,
        Datum::Int8(_) => kind == TypeKind::Int8,
        Datum::Float4(_) => kind == TypeKind::Float4,
        Datum::Float8(_) => kind == TypeKind::Float8,
        Datum::Numeric(..) => kind == TypeKind::Numeric,
        Datum::Text(_) => kind.is_text(),
        Datum::Bytea(_) => kind == TypeKind::Bytea,
        Datum::Date(_) => kind == TypeKind::Date,
        Datum::Timestamp(_) => kind == TypeKind::Timestamp,
        Datum::Timestamptz(_) => kind == TypeKind::Timestamptz,
        Datum::Uuid(_) => kind == TypeKind::Uuid,
        Datum::Time(_) => kind == TypeKind::Time,
        Datum::Interval(_) => kind == TypeKind::Interval,
        Datum::Json(_) => kind == TypeKind::Json,
        Datum::Jsonb(_) => kind == TypeKind::Jsonb,
        Datum::Array(_) => kind == TypeKind::Array,
        Datum::Enum(_) => kind == TypeKind::Enum,
    }
}

fn data_bytes_of(value: &Datum<'_>) -> usize {
    match value {
        Datum::Null => 0,
        Datum::Bool(_) => 1,
        Datum::Int2(_) => 2,
        Datum::Int4(_) | Datum::Float4(_) | Datum::Date(_) => 4,
        Datum::Int8(_)
        | Datum::Float8(_)
        | Datum::Timestamp(_)
        | Datum::Timestamptz(_)
        | Datum::Time(_)
        | Datum::Enum(_) => 8,
        Datum::Uuid(_) | Datum::Interval(_) => 16,
        Datum::Numeric(v, _) => 1 + int_bytes(*v),
        Datum::Text(v) | Datum::Json(v) | Datum::Jsonb(v) => v.len(),
        Datum::Bytea(v) | Datum::Array(v) => v.len(),
    }
}

pub(super) fn append_data(value: &Datum<'_>, out: &mut Vec<u8>) {
    match value {
        Datum::Null => {}
        Datum::Bool(v) => out.push(u8::from(*v)),
        Datum::Int2(v) => out.extend_from_slice(&v.to_le_bytes()),
        Datum::Int4(v) | Datum::Date(v) => out.extend_from_slice(&v.to_le_bytes()),
        Datum::Int8(v) | Datum::Timestamp(v) | Datum::Timestamptz(v) | Datum::Time(v) => {
            out.extend_from_slice(&v.to_le_bytes());
        }
        Datum::Uuid(v) => out.extend_from_slice(v),
        Datum::Interval(v) => {
            out.extend_from_slice(&v.us.to_le_bytes());
            out.extend_from_slice(&v.days.to_le_bytes());
            out.extend_from_slice(&v.months.to_le_bytes());
        }
        Datum::Float4(v) => out.extend_from_slice(&v.to_le_bytes()),
        Datum::Float8(v) => out.extend_from_slice(&v.to_le_bytes()),
        Datum::Enum(v) => out.extend_from_slice(&v.position.to_le_bytes()),
        Datum::Numeric(v, scale) => {
            out.push(*scale);
            out.extend_from_slice(&v.to_le_bytes()[..int_bytes(*v)]);
        }
        Datum::Text(v) | Datum::Json(v) | Datum::Jsonb(v) => {
            out.extend_from_slice(v.as_bytes());
        }
        Datum::Bytea(v) | Datum::Array(v) => out.extend_from_slice(v),
    }
}

/// Bytes of the shortest two's complement form.
fn int_bytes(v: i128) -> usize {
    let significant = if v < 0 { 128 - v.leading_ones() } else { 128 - v.leading_zeros() };
    (significant as usize + 1).div_ceil(8).max(1)
}

/// What the bytes of a row mean: its columns' types, and their values in rows too short to have
/// them.
#[derive(Clone, Copy)]
pub struct RowShape<'a> {
    types: &'a [ColType],
    missing: &'a [Option<Box<[u8]>>],
}

impl<'a> From<&'a RowTypes> for RowShape<'a> {
    #[inline(always)]
    fn from(types: &'a RowTypes) -> RowShape<'a> {
        RowShape { types, missing: types.missing() }
    }
}

impl<'a> From<&'a [ColType]> for RowShape<'a> {
    fn from(types: &'a [ColType]) -> RowShape<'a> {
        RowShape { types, missing: &[] }
    }
}

impl<'a> From<&'a Vec<ColType>> for RowShape<'a> {
    fn from(types: &'a Vec<ColType>) -> RowShape<'a> {
        RowShape { types, missing: &[] }
    }
}

impl<'a, const N: usize> From<&'a [ColType; N]> for RowShape<'a> {
    fn from(types: &'a [ColType; N]) -> RowShape<'a> {
        RowShape { types, missing: &[] }
    }
}

/// The value as a row keeps it; `None` for NULL.
///
/// # Panics
/// If it is not of the kind.
#[must_use]
pub fn stored_value(kind: TypeKind, value: &Datum<'_>) -> Option<Box<[u8]>> {
    assert!(fits(kind, value), "value {value:?} for a column of another type");
    if value.is_null() {
        return None;
    }
    let mut out = Vec::with_capacity(data_bytes_of(value));
    append_data(value, &mut out);
    Some(out.into_boxed_slice())
}

/// Whether bytes can be a value of the kind: for what comes from disk.
#[must_use]
pub fn is_stored_value(kind: TypeKind, data: &[u8]) -> bool {
    check_data(kind, data).is_ok()
}

/// One row's bytes, readable column by column.
#[derive(Clone, Copy)]
pub struct RowView<'a> {
    types: &'a [ColType],
    missing: &'a [Option<Box<[u8]>>],
    bytes: &'a [u8],
    count: usize,
    wide: bool,
}

impl<'a> RowView<'a> {
    /// A view of bytes that [`encode_row`] made with these types, or a prefix of them.
    ///
    /// # Panics
    /// If there is no header; [`RowView::get`] does if the rest is malformed. Bytes of unknown
    /// origin go through [`RowView::checked`].
    #[must_use]
    #[inline(always)]
    pub fn new(shape: impl Into<RowShape<'a>>, bytes: &'a [u8]) -> RowView<'a> {
        let RowShape { types, missing } = shape.into();
        let header = u16::from_le_bytes([bytes[0], bytes[1]]);
        let count = usize::from(header & COUNT_MASK);
        RowView { types, missing, bytes, count, wide: header & WIDE != 0 }
    }

    /// Like [`RowView::new`], after checking every column, so that reading cannot fail.
    ///
    /// # Errors
    /// [`RowError`] says what is wrong with the bytes.
    pub fn checked(
        shape: impl Into<RowShape<'a>>,
        bytes: &'a [u8],
    ) -> Result<RowView<'a>, RowError> {
        if bytes.len() < HEADER_BYTES {
            return Err(RowError("no header"));
        }
        let shape = shape.into();
        let types = shape.types;
        let view = RowView::new(shape, bytes);
        if view.count > types.len() {
            return Err(RowError("more columns than its table"));
        }
        let Some(data_bytes) = bytes.len().checked_sub(view.data_at()) else {
            return Err(RowError("offsets are cut off"));
        };
        let mut start = 0;
        for (i, ty) in types.iter().enumerate().take(view.count) {
            let (end, null) = view.end_of(i);
            if end < start || end > data_bytes || (null && end != start) {
                return Err(RowError("offset out of order"));
            }
            let data = &bytes[view.data_at() + start..view.data_at() + end];
            if !null {
                check_data(ty.kind, data)?;
            }
            start = end;
        }
        if start != data_bytes {
            return Err(RowError("bytes after the last column"));
        }
        Ok(view)
    }

    /// Number of columns stored; those after it read as what their column says is missing: NULL
    /// or the default it was added with.
    #[must_use]
    pub fn stored_count(&self) -> usize {
        self.count
    }

    /// Whether column `i` is NULL.
    #[must_use]
    #[inline]
    pub fn is_null(&self, i: usize) -> bool {
        if i >= self.count { self.missing(i).is_none() } else { self.end_of(i).1 }
    }

    /// The bytes of column `i` as stored; `None` for NULL.
    #[must_use]
    #[inline(always)]
    pub fn raw(&self, i: usize) -> Option<&'a [u8]> {
        if i >= self.count {
            return self.missing(i);
        }
        let (end, null) = self.end_of(i);
        if null {
            return None;
        }
        let start = if i == 0 { 0 } else { self.end_of(i - 1).0 };
        let data_at = self.data_at();
        Some(&self.bytes[data_at + start..data_at + end])
    }

    /// Whether column `i` is a numeric without precision and scale.
    #[must_use]
    pub fn is_free_numeric(&self, i: usize) -> bool {
        let ty = self.types[i];
        ty.kind == TypeKind::Numeric && ty.precision_scale().is_none()
    }

    /// The value of column `i` (from 0).
    ///
    /// # Panics
    /// If the bytes are not a row of these types.
    #[must_use]
    #[inline]
    pub fn get(&self, i: usize) -> Datum<'a> {
        match self.raw(i) {
            None => Datum::Null,
            Some(data) => decode(self.types[i], data),
        }
    }

    /// All columns of the table, in order.
    pub fn iter(self) -> impl Iterator<Item = Datum<'a>> {
        (0..self.types.len()).map(move |i| self.get(i))
    }

    #[cold]
    fn missing(&self, i: usize) -> Option<&'a [u8]> {
        self.missing.get(i).and_then(Option::as_deref)
    }

    #[inline(always)]
    fn data_at(&self) -> usize {
        HEADER_BYTES + self.count * if self.wide { 4 } else { 2 }
    }

    #[inline(always)]
    fn end_of(&self, i: usize) -> (usize, bool) {
        if self.wide {
            let at = HEADER_BYTES + i * 4;
            let raw = u32::from_le_bytes(array(&self.bytes[at..at + 4]));
            ((raw & !NULL_WIDE) as usize, raw & NULL_WIDE != 0)
        } else {
            let at = HEADER_BYTES + i * 2;
            let raw = u16::from_le_bytes(array(&self.bytes[at..at + 2]));
            (usize::from(raw & !NULL_NARROW), raw & NULL_NARROW != 0)
        }
    }
}

/// A column of a row, as far as a short look tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Glance<'a> {
    Null,
    /// As stored.
    Data(&'a [u8]),
    /// A [`RowView`] is to be asked.
    Unknown,
}

/// Column `i` of the bytes of a row: what most rows of a scan are dropped by.
#[must_use]
#[inline(always)]
pub fn glance(row: &[u8], i: usize) -> Glance<'_> {
    let Some((header, rest)) = row.split_first_chunk::<HEADER_BYTES>() else {
        return Glance::Unknown;
    };
    let header = u16::from_le_bytes(*header);
    let count = usize::from(header & COUNT_MASK);
    if header & WIDE != 0 || i >= count {
        return Glance::Unknown;
    }
    let Some((ends, data)) = rest.split_at_checked(2 * count) else { return Glance::Unknown };
    let end_at = |i: usize| u16::from_le_bytes([ends[2 * i], ends[2 * i + 1]]);
    let end = end_at(i);
    if end & NULL_NARROW != 0 {
        return Glance::Null;
    }
    let start = if i == 0 { 0 } else { end_at(i - 1) & !NULL_NARROW };
    data.get(usize::from(start)..usize::from(end)).map_or(Glance::Unknown, Glance::Data)
}

/// What a value of fixed width stores that is a number: an integer, a date, an instant.
///
/// # Panics
/// If the bytes are of another width than 2, 4 and 8.
#[must_use]
#[inline(always)]
pub fn stored_integer(data: &[u8]) -> i64 {
    match data.len() {
        2 => i64::from(i16::from_le_bytes(array(data))),
        4 => i64::from(i32::from_le_bytes(array(data))),
        _ => i64::from_le_bytes(array(data)),
    }
}

/// Unscaled value and scale of a stored numeric; `None` if the value needs more than 64 bits.
#[must_use]
#[inline(always)]
pub fn stored_numeric(data: &[u8]) -> Option<(i64, u8)> {
    let (scale, rest) = data.split_first()?;
    if rest.is_empty() || rest.len() > 8 {
        return None;
    }
    // Most numbers are small: two steps instead of a loop.
    let value = match *rest {
        [a] => i64::from(a.cast_signed()),
        [a, b] => i64::from(i16::from_le_bytes([a, b])),
        [a, b, c] => i64::from(i32::from_le_bytes([0, a, b, c]) >> 8),
        [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
        _ => {
            let mut bits = 0u64;
            for (at, byte) in rest.iter().enumerate() {
                bits |= u64::from(*byte) << (8 * at);
            }
            let unused = 64 - 8 * rest.len();
            (bits << unused).cast_signed() >> unused
        }
    };
    Some((value, *scale))
}

pub(super) fn check_data(kind: TypeKind, data: &[u8]) -> Result<(), RowError> {
    if let Some(width) = kind.width_bytes() {
        if data.len() != width {
            return Err(RowError("a value of the wrong width"));
        }
        if kind == TypeKind::Bool && data[0] > 1 {
            return Err(RowError("a boolean that is neither 0 nor 1"));
        }
    } else if kind == TypeKind::Numeric {
        if data.len() < 2 || data.len() > 17 {
            return Err(RowError("a numeric of the wrong width"));
        }
    } else if kind == TypeKind::Array {
        if ArrayView::checked(data).is_none() {
            return Err(RowError("a malformed array"));
        }
    } else if kind != TypeKind::Bytea && std::str::from_utf8(data).is_err() {
        return Err(RowError("text that is not UTF-8"));
    }
    Ok(())
}

#[inline]
fn array<const N: usize>(data: &[u8]) -> [u8; N] {
    data.try_into().expect("a value of its type's width")
}

#[inline]
fn utf8(data: &[u8]) -> &str {
    std::str::from_utf8(data).expect("text is stored as UTF-8")
}

#[inline]
pub(super) fn decode(ty: ColType, data: &[u8]) -> Datum<'_> {
    match ty.kind {
        TypeKind::Bool => Datum::Bool(data[0] != 0),
        TypeKind::Int2 => Datum::Int2(i16::from_le_bytes(array(data))),
        TypeKind::Int4 => Datum::Int4(i32::from_le_bytes(array(data))),
        TypeKind::Int8 => Datum::Int8(i64::from_le_bytes(array(data))),
        TypeKind::Float4 => Datum::Float4(f32::from_le_bytes(array(data))),
        TypeKind::Float8 => Datum::Float8(f64::from_le_bytes(array(data))),
        TypeKind::Date => Datum::Date(i32::from_le_bytes(array(data))),
        TypeKind::Timestamp => Datum::Timestamp(i64::from_le_bytes(array(data))),
        TypeKind::Timestamptz => Datum::Timestamptz(i64::from_le_bytes(array(data))),
        TypeKind::Numeric => {
            let (scale, rest) = data.split_first().expect("a numeric has a scale");
            let negative = rest.last().expect("a numeric has digits") & 0x80 != 0;
            let mut wide = if negative { [0xff; 16] } else { [0; 16] };
            wide[..rest.len()].copy_from_slice(rest);
            Datum::Numeric(i128::from_le_bytes(wide), *scale)
        }
        TypeKind::Text | TypeKind::Varchar | TypeKind::Char => Datum::Text(utf8(data)),
        TypeKind::Json => Datum::Json(utf8(data)),
        TypeKind::Jsonb => Datum::Jsonb(utf8(data)),
        TypeKind::Uuid => Datum::Uuid(array(data)),
        TypeKind::Time => Datum::Time(i64::from_le_bytes(array(data))),
        TypeKind::Interval => Datum::Interval(Interval {
            us: i64::from_le_bytes(array(&data[..8])),
            days: i32::from_le_bytes(array(&data[8..12])),
            months: i32::from_le_bytes(array(&data[12..])),
        }),
        TypeKind::Bytea => Datum::Bytea(data),
        TypeKind::Array => Datum::Array(data),
        TypeKind::Enum => {
            let position = i64::from_le_bytes(array(data));
            Datum::Enum(EnumValue { of: ty.modifier, position })
        }
    }
}
