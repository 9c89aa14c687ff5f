//! What `ANALYZE` makes of a sample of rows: PostgreSQL's numbers, by PostgreSQL's rules.
//!
//! What it promises: of equal samples equal statistics; memory is bounded by the sample. What it
//! must never do: read a table itself.

use crate::key_exprs::exprs_of;
use kernel::dict::{ColumnStats, IndexDef, TableDef};
use kernel::row::{ColType, Datum, RowTypes, RowView, TypeKind, Value, encode_key};

/// Entries of a list of common values and of a histogram: PostgreSQL's default statistics target.
pub const TARGET: usize = 100;
/// Rows of a sample.
pub const SAMPLE_ROWS: usize = 300 * TARGET;
/// Blocks that a sample is taken from.
pub const SAMPLE_BLOCKS: u64 = 3_000;
/// Bytes of a sample, beyond which it holds fewer rows.
const SAMPLE_BYTES: usize = 64 << 20;
/// Values longer than this count, but are not kept.
const WIDE_BYTES: usize = 1_024;
/// Rows that expressions are computed for at a time.
const COMPUTED_ROWS: usize = 1_024;

/// Rows of which each one seen had the same chance to stay.
#[derive(Debug)]
pub struct Sample {
    /// With their place among all that were seen.
    rows: Vec<(u64, Box<[u8]>)>,
    seen: u64,
    held_bytes: usize,
    seen_bytes: u64,
    rows_max: usize,
}

impl Default for Sample {
    fn default() -> Self {
        Sample { rows: Vec::new(), seen: 0, held_bytes: 0, seen_bytes: 0, rows_max: SAMPLE_ROWS }
    }
}

impl Sample {
    /// One more row; `random` gives any number.
    pub fn add(&mut self, row: &[u8], mut random: impl FnMut() -> u64) {
        let place = self.seen;
        self.seen += 1;
        self.seen_bytes += row.len() as u64;
        if self.rows.len() < self.rows_max {
            self.rows.push((place, row.into()));
        } else {
            let at = random() % self.seen;
            let Some(slot) = usize::try_from(at).ok().and_then(|at| self.rows.get_mut(at)) else {
                return;
            };
            self.held_bytes -= slot.1.len();
            *slot = (place, row.into());
        }
        self.held_bytes += row.len();
        while self.held_bytes > SAMPLE_BYTES && self.rows.len() > 1 {
            // Any half is as good a sample.
            let keep = self.rows.len() / 2;
            while self.rows.len() > keep {
                let at = usize::try_from(random() % self.rows.len() as u64).unwrap_or(0);
                self.held_bytes -= self.rows.swap_remove(at).1.len();
            }
            self.rows_max = keep;
        }
    }

    /// Rows that were shown to it.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Rows in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Mean bytes of the rows seen.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // a mean
    pub fn row_bytes(&self) -> f64 {
        if self.seen == 0 { 0.0 } else { self.seen_bytes as f64 / self.seen as f64 }
    }

    /// Brings the rows back into the table's order; to be called when all have been added.
    pub fn sort(&mut self) {
        self.rows.sort_unstable_by_key(|(place, _)| *place);
    }

    /// What it says of a column of a table with `total_rows` rows.
    #[must_use]
    pub fn column(&self, types: &RowTypes, position: usize, total_rows: f64) -> ColumnStats {
        let values = self.rows.iter().map(|(_, row)| RowView::new(types, row).get(position));
        column_stats(types[position], values, total_rows)
    }

    /// What it says of an index's expressions; nothing if one of them fails for a row, which an
    /// index over some of the rows need not have met.
    #[must_use]
    pub fn expressions(
        &self,
        table: &TableDef,
        index: &IndexDef,
        total_rows: f64,
    ) -> Vec<ColumnStats> {
        let Some(exprs) = exprs_of(table, index) else { return Vec::new() };
        let types = exprs.types();
        let mut columns: Vec<Vec<Value>> = vec![Vec::new(); types.len()];
        for part in self.rows.chunks(COMPUTED_ROWS) {
            let rows: Vec<&[u8]> = part.iter().map(|(_, row)| &**row).collect();
            let Ok(computed) = exprs.values(table, &rows) else { return Vec::new() };
            for values in computed {
                columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
            }
        }
        let stats = |(ty, values): (&ColType, &Vec<Value>)| {
            column_stats(*ty, values.iter().map(Value::as_datum), total_rows)
        };
        types.iter().zip(&columns).map(stats).collect()
    }
}

/// Bytes of a value as PostgreSQL counts them.
fn width_of(ty: ColType, datum: &Datum<'_>) -> usize {
    let varying = match datum {
        Datum::Text(text) => text.len(),
        Datum::Bytea(bytes) => bytes.len(),
        _ => match ty.kind.width_bytes() {
            Some(bytes) => return bytes,
            None => kernel::row::stored_value(ty.kind, datum).map_or(8, |stored| stored.len()),
        },
    };
    varying + if varying < 127 { 1 } else { 4 }
}

/// One kind of value in the sample.
struct Run {
    count: usize,
    /// Where it first stands among the sorted values.
    first: usize,
}

/// What values in the order of their rows say of their column.
#[allow(clippy::cast_precision_loss)] // counts of a sample
pub fn column_stats<'a>(
    ty: ColType,
    values: impl Iterator<Item = Datum<'a>>,
    total_rows: f64,
) -> ColumnStats {
    let ordered = ty.is_ordered() && !matches!(ty.kind, TypeKind::Json | TypeKind::Jsonb);
    let (mut rows, mut nulls, mut wide, mut width) = (0usize, 0usize, 0usize, 0usize);
    let mut sorted: Vec<(Vec<u8>, usize, Datum<'a>)> = Vec::new();
    for datum in values {
        rows += 1;
        if datum.is_null() {
            nulls += 1;
            continue;
        }
        let bytes = width_of(ty, &datum);
        width += bytes;
        if bytes > WIDE_BYTES || !ordered {
            wide += 1;
            continue;
        }
        let mut key = Vec::new();
        encode_key(&[datum], &mut key);
        sorted.push((key, sorted.len(), datum));
    }
    let there = rows - nulls;
    let null_fraction = if rows == 0 { 0.0 } else { nulls as f64 / rows as f64 };
    let width = if there == 0 { 0.0 } else { width as f64 / there as f64 };
    let empty = ColumnStats {
        null_fraction,
        distinct: 0.0,
        width,
        correlation: None,
        common: Vec::new(),
        histogram: Vec::new(),
    };
    if there == 0 || !ordered {
        return empty;
    }
    if sorted.is_empty() {
        // All of them are wide: taken to differ.
        return ColumnStats { distinct: null_fraction - 1.0, ..empty };
    }
    sorted.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    let runs = runs_of(&sorted);
    let multiple = runs.iter().filter(|run| run.count > 1).count();
    let counts = Counts { rows, there, wide, distinct: runs.len(), multiple, null_fraction };
    let distinct = counts.distinct_values(total_rows);
    let kept = common_runs(&runs, &counts, distinct, total_rows);
    let common = kept
        .iter()
        .map(|run| (sorted[run.first].2.to_value(), run.count as f64 / rows as f64))
        .collect();
    let histogram = histogram(&sorted, &kept, counts.distinct);
    ColumnStats { distinct, correlation: correlation(&sorted), common, histogram, ..empty }
}

fn runs_of(sorted: &[(Vec<u8>, usize, Datum<'_>)]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (at, (key, ..)) in sorted.iter().enumerate() {
        match runs.last_mut() {
            Some(run) if sorted[run.first].0 == *key => run.count += 1,
            _ => runs.push(Run { count: 1, first: at }),
        }
    }
    runs
}

/// What a sample has of a column.
struct Counts {
    rows: usize,
    /// Values that are not NULL.
    there: usize,
    wide: usize,
    /// Different values among those that are not wide.
    distinct: usize,
    /// Those of them that come more than once.
    multiple: usize,
    null_fraction: f64,
}

#[allow(clippy::cast_precision_loss)] // counts of a sample
impl Counts {
    /// Distinct values of the whole column: below zero, less as many for each row.
    fn distinct_values(&self, total_rows: f64) -> f64 {
        let there = 1.0 - self.null_fraction;
        let distinct = if self.multiple == 0 {
            // No value came twice: they are taken to be unique.
            return -there;
        } else if self.wide == 0 && self.multiple == self.distinct {
            // Every value came several times: there are no others.
            self.distinct as f64
        } else {
            // Haas and Stokes, "Estimating the number of classes in a finite population", Duj1.
            let once = (self.distinct - self.multiple + self.wide) as f64;
            let seen = once + self.multiple as f64;
            let sampled = self.there as f64;
            let all = total_rows * there;
            let below = (sampled - once) + once * sampled / all;
            let guess = if all > 0.0 { sampled * seen / below } else { 0.0 };
            guess.max(seen).min(all.max(seen)).round()
        };
        // If they are many, there will be more when the table grows.
        if distinct > 0.1 * total_rows { -(distinct / total_rows) } else { distinct }
    }
}

/// The values common enough to be told one by one, the most common one first.
#[allow(clippy::cast_precision_loss)] // counts of a sample
fn common_runs<'r>(
    runs: &'r [Run],
    counts: &Counts,
    distinct: f64,
    total_rows: f64,
) -> Vec<&'r Run> {
    let mut common: Vec<&Run> = runs.iter().filter(|run| run.count > 1).collect();
    common.sort_by(|a, b| (b.count, a.first).cmp(&(a.count, b.first)));
    let complete = common.len() == counts.distinct && counts.wide == 0 && distinct > 0.0;
    if complete && common.len() <= TARGET {
        return common;
    }
    common.truncate(TARGET);
    let sample = counts.rows as f64;
    if sample >= total_rows || total_rows <= 1.0 {
        return common;
    }
    let in_table = if distinct < 0.0 { -distinct * total_rows } else { distinct };
    let mut before: usize = common.iter().map(|run| run.count).sum();
    while let Some(last) = common.last() {
        // Is the least common of them surely more common than those left out?
        before -= last.count;
        let others = (in_table - (common.len() - 1) as f64).max(1.0);
        let rest = (1.0 - before as f64 / sample - counts.null_fraction).clamp(0.0, 1.0) / others;
        let of_table = total_rows * last.count as f64 / sample;
        let variance = sample * of_table * (total_rows - of_table) * (total_rows - sample)
            / (total_rows * total_rows * (total_rows - 1.0));
        if last.count as f64 > rest * sample + 2.0 * variance.max(0.0).sqrt() + 0.5 {
            break;
        }
        common.pop();
    }
    common
}

/// Bounds of parts of equally many values, of those that are not told one by one.
fn histogram(
    sorted: &[(Vec<u8>, usize, Datum<'_>)],
    common: &[&Run],
    distinct: usize,
) -> Vec<Value> {
    let bounds = (distinct - common.len()).min(TARGET + 1);
    if bounds < 2 {
        return Vec::new();
    }
    let mut told: Vec<&Run> = common.to_vec();
    told.sort_by_key(|run| run.first);
    let mut told = told.into_iter().peekable();
    let mut rest = Vec::with_capacity(sorted.len());
    let mut at = 0;
    while at < sorted.len() {
        match told.next_if(|run| run.first == at) {
            Some(run) => at += run.count,
            None => {
                rest.push(at);
                at += 1;
            }
        }
    }
    let last = rest.len() - 1;
    (0..bounds).map(|i| sorted[rest[i * last / (bounds - 1)]].2.to_value()).collect()
}

/// Between the values' order and that of their rows.
#[allow(clippy::cast_precision_loss)] // counts of a sample
fn correlation(sorted: &[(Vec<u8>, usize, Datum<'_>)]) -> Option<f64> {
    if sorted.len() < 2 {
        return None;
    }
    let n = sorted.len() as f64;
    let products: f64 =
        sorted.iter().enumerate().map(|(at, (_, place, _))| at as f64 * *place as f64).sum();
    let sum = n * (n - 1.0) / 2.0;
    let squares = (n - 1.0) * n * (2.0 * n - 1.0) / 6.0;
    Some((n * products - sum * sum) / (n * squares - sum * sum))
}

#[cfg(test)]
#[allow(clippy::float_cmp)]
mod tests {
    use super::*;

    fn ints(values: impl Iterator<Item = Option<i32>>, total_rows: f64) -> ColumnStats {
        let datums = values.map(|value| value.map_or(Datum::Null, Datum::Int4));
        column_stats(ColType::new(TypeKind::Int4), datums, total_rows)
    }

    #[test]
    fn unique_values_grow_with_the_table_and_have_a_histogram() {
        let stats = ints((0..1000).map(Some), 1000.0);
        assert_eq!((stats.distinct, stats.null_fraction, stats.width), (-1.0, 0.0, 4.0));
        assert!(stats.common.is_empty());
        assert_eq!(stats.histogram.len(), TARGET + 1);
        assert_eq!(stats.histogram[0], Value::Int4(0));
        assert_eq!(stats.histogram[TARGET], Value::Int4(999));
        assert!((stats.correlation.unwrap() - 1.0).abs() < 1e-9);
        let backward = ints((0..1000).rev().map(Some), 1000.0);
        assert!((backward.correlation.unwrap() + 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_few_values_are_all_told() {
        let stats = ints((0..1000).map(|i| Some(i % 4)), 1_000_000.0);
        assert_eq!((stats.distinct, stats.common.len()), (4.0, 4));
        assert!(stats.histogram.is_empty());
        assert_eq!(stats.common[0], (Value::Int4(0), 0.25));
    }

    #[test]
    fn nulls_only_and_no_rows_at_all() {
        let stats = ints((0..50).map(|_| None), 50.0);
        assert_eq!((stats.distinct, stats.null_fraction), (0.0, 1.0));
        assert!(stats.common.is_empty() && stats.histogram.is_empty());
        let stats = ints(std::iter::empty(), 0.0);
        assert_eq!((stats.distinct, stats.null_fraction), (0.0, 0.0));
    }

    #[test]
    fn of_a_skewed_column_the_common_value_is_told_and_the_rest_is_parted() {
        let values = (0..3000).map(|i| Some(if i % 3 == 0 { i } else { 7 }));
        let stats = ints(values, 3000.0);
        assert_eq!(stats.common.len(), 1);
        assert_eq!(stats.common[0].0, Value::Int4(7));
        assert!((stats.common[0].1 - 2.0 / 3.0).abs() < 1e-9);
        assert_eq!(stats.histogram.len(), TARGET + 1);
        assert!(!stats.histogram.contains(&Value::Int4(7)));
        assert!((stats.distinct + 1001.0 / 3000.0).abs() < 1e-9, "{}", stats.distinct);
    }

    #[test]
    fn values_seen_once_say_how_many_were_missed() {
        // Of 100 000 rows with 10 000 values of ten rows each one in ten is looked at.
        let values = (0..10_000u64).map(|i| {
            let mut hash = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            Some(i32::try_from((hash >> 31) % 10_000).unwrap())
        });
        let stats = ints(values, 100_000.0);
        let distinct =
            if stats.distinct < 0.0 { -stats.distinct * 100_000.0 } else { stats.distinct };
        assert!((7_000.0..14_000.0).contains(&distinct), "{distinct}");
        assert!(stats.common.len() < 5, "{:?}", stats.common);
    }

    #[test]
    fn a_sample_is_of_bounded_size() {
        let (mut sample, mut state) = (Sample::default(), 1u64);
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 16
        };
        for _ in 0..SAMPLE_ROWS + 5_000 {
            sample.add(&[0; 10], &mut random);
        }
        assert_eq!((sample.len(), sample.seen()), (SAMPLE_ROWS, SAMPLE_ROWS as u64 + 5_000));
        assert_eq!(sample.row_bytes(), 10.0);
        for _ in 0..3_000 {
            sample.add(&[0; 100_000], &mut random);
        }
        assert!(sample.held_bytes <= SAMPLE_BYTES && sample.len() > 100);
        let held: usize = sample.rows.iter().map(|(_, row)| row.len()).sum();
        assert_eq!(held, sample.held_bytes);
    }
}
