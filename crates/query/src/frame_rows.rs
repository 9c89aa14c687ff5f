//! Which rows of a partition belong to the frame of each.
//!
//! What it promises: PostgreSQL's rows, for all units, and for RANGE with offsets over numbers,
//! dates, times and intervals. It computes nothing over the rows.

use crate::arrow_rows::ColumnReader;
use crate::cast::to_f64;
use crate::datetime::midnight;
use crate::error::{PgError, Result};
use crate::interval;
use crate::temporal::shift_zoned;
use crate::wire::FormatEnv;
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::compute::{SortOptions, partition};
use kernel::row::{Datum, Interval, Value};
use std::cmp::Ordering;
use std::ops::Range;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Units {
    Rows,
    Range,
    Groups,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum End {
    First,
    Preceding,
    Current,
    Following,
    Last,
    /// The partition's first group, and its last one, whole.
    FirstGroup,
    LastGroup,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Exclude {
    NoOthers,
    CurrentRow,
    Group,
    Ties,
}

/// What a frame is, but for its offsets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Shape {
    pub(crate) units: Units,
    pub(crate) start: End,
    pub(crate) end: End,
    pub(crate) exclude: Exclude,
}

impl Shape {
    pub(crate) fn has_offsets(&self) -> bool {
        [self.start, self.end].iter().any(|end| matches!(end, End::Preceding | End::Following))
    }
}

/// The offsets of start and end; those that are not asked for are none.
pub(crate) struct Offsets {
    counts: [usize; 2],
    values: [Value; 2],
}

impl Offsets {
    pub(crate) fn read(shape: &Shape, given: &[ColumnReader; 2], rows: usize) -> Result<Offsets> {
        let mut own = Offsets { counts: [0; 2], values: [Value::Null, Value::Null] };
        if rows == 0 {
            return Ok(own);
        }
        let ends = [(shape.start, "starting"), (shape.end, "ending")];
        for (i, (end, word)) in ends.into_iter().enumerate() {
            if !matches!(end, End::Preceding | End::Following) {
                continue;
            }
            let value = given[i].get(0);
            if value.is_null() {
                let text = format!("frame {word} offset must not be null");
                return Err(PgError::new("22004", text));
            }
            if shape.units == Units::Range {
                if is_negative(&value) {
                    let text = "invalid preceding or following size in window function";
                    return Err(PgError::new("22013", text));
                }
                own.values[i] = value.to_value();
                continue;
            }
            let Datum::Int8(count) = value else {
                return Err(PgError::internal("an offset of rows"));
            };
            own.counts[i] = usize::try_from(count).map_err(|_| {
                PgError::new("22013", format!("frame {word} offset must not be negative"))
            })?;
        }
        Ok(own)
    }
}

fn is_negative(value: &Datum<'_>) -> bool {
    match value {
        Datum::Int2(v) => *v < 0,
        Datum::Int4(v) => *v < 0,
        Datum::Int8(v) => *v < 0,
        Datum::Numeric(v, _) => *v < 0,
        Datum::Float8(v) => *v < 0.0 || v.is_nan(),
        Datum::Interval(v) => v.span_us() < 0,
        _ => false,
    }
}

/// A value that is ordered by, as a number.
#[derive(Clone, Copy, Debug)]
enum Key {
    Whole(i128),
    Float(f64),
}

fn compare(a: Key, b: Key) -> Ordering {
    match (a, b) {
        (Key::Whole(a), Key::Whole(b)) => a.cmp(&b),
        // NaN is greater than all else; both zeros are one.
        (Key::Float(a), Key::Float(b)) => match (a.is_nan(), b.is_nan()) {
            (false, false) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
            (a, b) => a.cmp(&b),
        },
        _ => Ordering::Equal,
    }
}

fn out_of_range() -> PgError {
    PgError::new("22003", "value overflows numeric format")
}

/// With so many digits behind the point.
fn scaled(value: i128, own: u8, scale: u8) -> Result<i128> {
    let factor = 10_i128.checked_pow(u32::from(scale.saturating_sub(own)));
    factor.and_then(|factor| value.checked_mul(factor)).ok_or_else(out_of_range)
}

fn key_of(value: &Datum<'_>, scale: u8) -> Result<Key> {
    Ok(match value {
        Datum::Int2(v) => Key::Whole(scaled(i128::from(*v), 0, scale)?),
        Datum::Int4(v) => Key::Whole(scaled(i128::from(*v), 0, scale)?),
        Datum::Int8(v) => Key::Whole(scaled(i128::from(*v), 0, scale)?),
        Datum::Numeric(v, own) => Key::Whole(scaled(*v, *own, scale)?),
        Datum::Float4(v) => Key::Float(f64::from(*v)),
        Datum::Float8(v) => Key::Float(*v),
        Datum::Date(v) => Key::Whole(i128::from(midnight(*v))),
        Datum::Timestamp(v) | Datum::Timestamptz(v) | Datum::Time(v) => Key::Whole(i128::from(*v)),
        Datum::Interval(v) => Key::Whole(v.span_us()),
        _ => return Err(PgError::internal("an order that RANGE does not go by")),
    })
}

/// A value that is ordered by, with the offset added, or taken away.
fn moved(value: &Datum<'_>, by: &Value, add: bool, scale: u8, env: &FormatEnv) -> Result<Key> {
    let by = by.as_datum();
    let signed = |v: Interval| if add { Ok(v) } else { interval::negate(v) };
    Ok(match (value, &by) {
        (Datum::Date(day), Datum::Interval(v)) => {
            Key::Whole(interval::shift(midnight(*day), signed(*v)?)?.into())
        }
        (Datum::Timestamp(us), Datum::Interval(v)) => {
            Key::Whole(interval::shift(*us, signed(*v)?)?.into())
        }
        (Datum::Timestamptz(us), Datum::Interval(v)) => {
            Key::Whole(shift_zoned(*us, signed(*v)?, &env.zone)?.into())
        }
        (Datum::Time(us), Datum::Interval(v)) => {
            Key::Whole(i128::from(*us) + i128::from(signed(*v)?.us))
        }
        (Datum::Interval(own), Datum::Interval(v)) => {
            Key::Whole(interval::add(*own, signed(*v)?)?.span_us())
        }
        (Datum::Float4(_) | Datum::Float8(_), _) => {
            let (own, by) = (to_f64(value)?, to_f64(&by)?);
            Key::Float(if add { own + by } else { own - by })
        }
        _ => match (key_of(value, scale)?, key_of(&by, scale)?) {
            (Key::Whole(own), Key::Whole(by)) => {
                let sum = if add { own.checked_add(by) } else { own.checked_sub(by) };
                Key::Whole(sum.ok_or_else(out_of_range)?)
            }
            _ => return Err(PgError::internal("an offset of another type")),
        },
    })
}

fn scale_of(value: &Datum<'_>) -> u8 {
    if let Datum::Numeric(_, scale) = value { *scale } else { 0 }
}

/// The values that RANGE's offsets are put to.
struct Ordered<'a> {
    reader: &'a ColumnReader,
    keys: Vec<Key>,
    /// The rows that are not NULL.
    known: Range<usize>,
    descending: bool,
    scale: u8,
}

impl<'a> Ordered<'a> {
    fn new(
        reader: &'a ColumnReader,
        options: SortOptions,
        offsets: &Offsets,
        rows: usize,
    ) -> Result<Ordered<'a>> {
        let values = offsets.values.iter().map(|value| scale_of(&value.as_datum()));
        let scale = (0..rows).map(|row| scale_of(&reader.get(row))).chain(values).max();
        let scale = scale.unwrap_or(0);
        let first = (0..rows).find(|row| !reader.get(*row).is_null()).unwrap_or(rows);
        let end = (first..rows).find(|row| reader.get(*row).is_null()).unwrap_or(rows);
        let keys = (first..end).map(|row| key_of(&reader.get(row), scale));
        let keys = keys.collect::<Result<Vec<Key>>>()?;
        Ok(Ordered { reader, keys, known: first..end, descending: options.descending, scale })
    }

    /// The first row at or behind the one so far from `row`; with `past`, the first behind all
    /// that are just so far.
    fn place(
        &self,
        row: usize,
        by: &Value,
        following: bool,
        past: bool,
        env: &FormatEnv,
    ) -> Result<usize> {
        let add = following != self.descending;
        let bound = moved(&self.reader.get(row), by, add, self.scale, env)?;
        let before = |key: &Key| {
            let order = compare(*key, bound);
            let order = if self.descending { order.reverse() } else { order };
            order == Ordering::Less || (past && order == Ordering::Equal)
        };
        Ok(self.known.start + self.keys.partition_point(before))
    }
}

/// For each row the rows of its frame, as up to three ranges.
///
/// # Errors
/// 22003, 22008 where an offset leads beyond what its type holds.
pub(crate) fn frames(
    shape: &Shape,
    keys: &[ArrayRef],
    key: Option<&ColumnReader>,
    options: Option<&SortOptions>,
    offsets: &Offsets,
    rows: usize,
    env: &FormatEnv,
) -> Result<Vec<Vec<Range<usize>>>> {
    let groups: Vec<Range<usize>> = match keys {
        [] => std::iter::once(0..rows).filter(|all| !all.is_empty()).collect(),
        _ => partition(keys).map_err(datafusion::error::DataFusionError::from)?.ranges(),
    };
    let ordered = match (key, options) {
        (Some(key), Some(options)) => Some(Ordered::new(key, *options, offsets, rows)?),
        _ => None,
    };
    let mut out = Vec::with_capacity(rows);
    for (at, group) in groups.iter().enumerate() {
        for row in group.clone() {
            let one = |end: usize| -> Result<usize> {
                let which = if end == 0 { shape.start } else { shape.end };
                let past = end == 1;
                let edge = |of: &Range<usize>| if past { of.end } else { of.start };
                let count = offsets.counts[end];
                Ok(match (which, shape.units) {
                    (End::First, _) => 0,
                    (End::Last, _) => rows,
                    (End::FirstGroup, _) => groups.first().map_or(0, edge),
                    (End::LastGroup, _) => groups.last().map_or(rows, edge),
                    (End::Current, Units::Rows) => row + usize::from(past),
                    (End::Current, _) => edge(group),
                    (End::Preceding, Units::Rows) => {
                        (row + usize::from(past)).saturating_sub(count)
                    }
                    (End::Following, Units::Rows) => {
                        row.saturating_add(count).saturating_add(usize::from(past)).min(rows)
                    }
                    (End::Preceding, Units::Groups) => match at.checked_sub(count) {
                        Some(at) => edge(&groups[at]),
                        None => 0,
                    },
                    (End::Following, Units::Groups) => {
                        let at = at.saturating_add(count);
                        groups.get(at).map_or(rows, edge)
                    }
                    (End::Preceding | End::Following, Units::Range) => match &ordered {
                        Some(ordered) if ordered.known.contains(&row) => {
                            let following = which == End::Following;
                            ordered.place(row, &offsets.values[end], following, past, env)?
                        }
                        // NULLs are as far from each other as from nothing else.
                        _ => edge(group),
                    },
                })
            };
            let (start, end) = (one(0)?, one(1)?);
            out.push(without(start..end.max(start), row, group, shape.exclude));
        }
    }
    Ok(out)
}

/// The frame without what EXCLUDE names.
fn without(
    frame: Range<usize>,
    row: usize,
    group: &Range<usize>,
    exclude: Exclude,
) -> Vec<Range<usize>> {
    let cut = |from: usize, to: usize| frame.start.max(from)..frame.end.min(to);
    let parts = match exclude {
        Exclude::NoOthers => vec![frame.clone()],
        Exclude::CurrentRow => vec![cut(0, row), cut(row + 1, usize::MAX)],
        Exclude::Group => vec![cut(0, group.start), cut(group.end, usize::MAX)],
        Exclude::Ties => {
            vec![cut(0, group.start), cut(row, row + 1), cut(group.end, usize::MAX)]
        }
    };
    parts.into_iter().filter(|part| part.start < part.end).collect()
}
