//! Plain queries of one table, run without Arrow: its rows as they are stored, a few of them
//! sorted or made distinct, or totals over all of them.
//!
//! What it promises: the rows that the plan it was made from gives, in the same order where that
//! has one. Making batches, and an operator for each step of the plan, costs more than such a query
//! itself when it reads some hundred rows. What it must never do: hold more than a fixed number of
//! rows and bytes; a query that needs more gives up before it has given out anything, and the plan
//! is run as it is.

use crate::arith::rescale;
use crate::cast::trim_zeros;
use crate::error::{PgError, Result};
use crate::scalar::{Val, compare};
use crate::scan::{ScanExec, ScanRun, ScanWork, Taker};
use crate::state::SharedState;
use block::Rowid;
use datafusion::arrow::datatypes::DataType;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use kernel::row::{ColType, Datum, RowView, TypeKind, Value, encode_key};
use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering as Memory};

/// Rows that room is made for as the first one comes; keys are mostly narrower than rows.
const HELD_AT_FIRST: usize = 100;
const HELD_BYTES_AT_FIRST_MAX: usize = 64 << 10;

/// Rows that are sorted or made distinct here at most.
const HELD_ROWS_MAX: usize = 4096;
/// Bytes of those rows and of their keys.
const HELD_BYTES_MAX: usize = 1 << 20;

/// A query that is run without Arrow.
pub struct Brief {
    work: Arc<ScanWork>,
    shape: Shape,
    /// It had too many rows once: it is not tried again.
    gave_up: AtomicBool,
}

#[derive(Debug)]
enum Shape {
    /// Columns of the table, in the order of the scan.
    Rows(Vec<usize>),
    Sorted(Sorted),
    Totals(Vec<Total>),
}

#[derive(Debug)]
struct Sorted {
    columns: Vec<usize>,
    /// Columns of the table; whether from the greatest down, NULLs first.
    order: Vec<(usize, bool)>,
    /// Rows that are equal in all columns of `order` are one.
    distinct: bool,
    limit: usize,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Total {
    Rows,
    Count(usize),
    Sum(usize),
    /// As the library's average of so many digits, shown with so many.
    Average(usize, u8),
    Min(usize),
    Max(usize),
}

/// One row of the result.
pub enum Cells<'a> {
    Stored(&'a [usize], RowView<'a>),
    Values(&'a [Value]),
}

impl<'a> Cells<'a> {
    /// The value of a column of the result.
    #[must_use]
    pub fn get(&self, at: usize) -> Val<'a> {
        match self {
            Cells::Stored(columns, row) => match row.get(columns[at]) {
                // Plans have such values with all digits there can be, and show none of the zeros.
                Datum::Numeric(value, scale) if scale > 0 && row.is_free_numeric(columns[at]) => {
                    let (value, scale) = trim_zeros(value, scale);
                    Val::Ref(Datum::Numeric(value, scale))
                }
                value => Val::Ref(value),
            },
            Cells::Values(values) => Val::Ref(values[at].as_datum()),
        }
    }
}

/// Who gets the rows of a result.
pub trait Receiver: Send {
    /// # Errors
    /// Those of handing the row on.
    fn row(&mut self, cells: &Cells<'_>) -> Result<()>;
    /// Called between rows while nothing is latched: may hand on what has come together.
    fn pause(&mut self);
}

impl Brief {
    /// The query of a plan, if it is of a shape that this module runs.
    #[must_use]
    pub fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Brief> {
        let (work, shape) = shape_of(plan)?;
        let columns: &[usize] = match &shape {
            Shape::Rows(columns) => columns,
            Shape::Sorted(sorted) => &sorted.columns,
            Shape::Totals(_) => &[],
        };
        let plain = columns.iter().all(|c| is_kept_by_arrow(work.types[*c]));
        plain.then_some(Brief { work, shape, gave_up: AtomicBool::new(false) })
    }

    /// Runs the query as far as its first `rows_max` rows; how many were given out, or `None` if it
    /// has too many to be run here and nothing has been given out.
    ///
    /// # Errors
    /// Those of reading and of the receiver.
    pub async fn run(
        &self,
        state: &SharedState,
        receiver: &mut dyn Receiver,
        rows_max: usize,
    ) -> Result<Option<usize>> {
        if self.gave_up.load(Memory::Relaxed) {
            return Ok(None);
        }
        match &self.shape {
            Shape::Rows(columns) => {
                let limit = self.work.limit.unwrap_or(usize::MAX).min(rows_max);
                let passing = Passing { columns, receiver, rows: 0, limit };
                let mut run = ScanRun::new(self.work.clone(), state.clone(), passing);
                while !run.is_at_end() && run.taker().rows < limit {
                    run.step().await?;
                    run.taker().receiver.pause();
                }
                Ok(Some(run.taker().rows))
            }
            Shape::Sorted(sorted) => {
                let held = Held { sorted, bytes: Vec::new(), rows: Vec::new() };
                let mut run = ScanRun::new(self.work.clone(), state.clone(), held);
                while !run.is_at_end() {
                    run.step().await?;
                    if run.taker().is_too_much() {
                        self.gave_up.store(true, Memory::Relaxed);
                        return Ok(None);
                    }
                }
                let held = run.taker();
                held.sort();
                held.give(&self.work, receiver, rows_max).map(Some)
            }
            Shape::Totals(totals) => {
                let running = totals.iter().map(|total| Running::new(*total)).collect();
                let adding = Adding { running, rows: 0 };
                let mut run = ScanRun::new(self.work.clone(), state.clone(), adding);
                while !run.is_at_end() {
                    run.step().await?;
                }
                let running = std::mem::take(&mut run.taker().running);
                let values: Vec<Value> =
                    running.into_iter().map(Running::value).collect::<Result<_>>()?;
                receiver.row(&Cells::Values(&values))?;
                Ok(Some(1))
            }
        }
    }
}

/// Whether a value of the type is the same after it has been in an Arrow array; numerics without a
/// scale are but for what [`Cells::get`] does and for digits that an array has no room for.
fn is_kept_by_arrow(ty: ColType) -> bool {
    !matches!(ty.kind, TypeKind::Interval | TypeKind::Json | TypeKind::Jsonb | TypeKind::Array)
}

// ---- from a plan to its shape -------------------------------------------------------------------

fn shape_of(plan: &Arc<dyn ExecutionPlan>) -> Option<(Arc<ScanWork>, Shape)> {
    let plan = crate::bounds::shown(plan);
    if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        return Some((scan.work().clone(), Shape::Rows(scan.work().columns()?)));
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let (work, shape) = shape_of(projection.input())?;
        let exprs = projection.expr().iter().map(|one| &one.expr);
        let shape = match shape {
            Shape::Rows(columns) => Shape::Rows(picked(exprs, &columns)?),
            Shape::Sorted(mut sorted) => {
                sorted.columns = picked(exprs, &sorted.columns)?;
                Shape::Sorted(sorted)
            }
            Shape::Totals(totals) => {
                Shape::Totals(exprs.map(|expr| total_shown(expr, &totals)).collect::<Option<_>>()?)
            }
        };
        return Some((work, shape));
    }
    if let Some(sort) = plan.downcast_ref::<SortExec>() {
        let (work, shape) = shape_of(sort.input())?;
        if sort.preserve_partitioning() {
            return None;
        }
        let (columns, distinct) = match shape {
            Shape::Rows(columns) if work.limit.is_none() => (columns, false),
            Shape::Sorted(sorted) if sorted.distinct && sorted.limit == usize::MAX => {
                (sorted.columns, true)
            }
            _ => return None,
        };
        let mut order = Vec::new();
        for one in sort.expr() {
            let at = column_of(&one.expr)?;
            if one.options.descending != one.options.nulls_first {
                return None;
            }
            order.push((*columns.get(at)?, one.options.descending));
        }
        if distinct {
            let rest = columns.iter().filter(|c| order.iter().all(|(o, _)| o != *c));
            let rest: Vec<_> = rest.map(|c| (*c, false)).collect();
            order.extend(rest);
        }
        let limit = sort.fetch().unwrap_or(usize::MAX);
        return sorted(work, columns, order, distinct, limit);
    }
    let aggregate = plan.downcast_ref::<AggregateExec>()?;
    let one_step = matches!(aggregate.mode(), AggregateMode::Single);
    if !one_step || aggregate.limit_options().is_some() {
        return None;
    }
    let (work, Shape::Rows(columns)) = shape_of(aggregate.input())? else { return None };
    let group = aggregate.group_expr();
    if work.limit.is_some() || !group.is_single() {
        return None;
    }
    if group.expr().is_empty() {
        let filtered = aggregate.filter_expr().iter().any(Option::is_some);
        let totals = aggregate.aggr_expr().iter().map(|one| total_of(one, &columns, &work));
        let totals = totals.collect::<Option<Vec<_>>>()?;
        return (!filtered && !totals.is_empty()).then_some((work, Shape::Totals(totals)));
    }
    if !aggregate.aggr_expr().is_empty() {
        return None;
    }
    let columns = picked(group.expr().iter().map(|(expr, _)| expr), &columns)?;
    let order = columns.iter().map(|c| (*c, false)).collect();
    sorted(work, columns, order, true, usize::MAX)
}

fn sorted(
    work: Arc<ScanWork>,
    columns: Vec<usize>,
    order: Vec<(usize, bool)>,
    distinct: bool,
    limit: usize,
) -> Option<(Arc<ScanWork>, Shape)> {
    // Keys of these order, and are equal, as Arrow's values are.
    let as_keys = |column: usize| {
        let kind = work.types[column].kind;
        crate::access_rules::orders_as_keys(kind)
            && !matches!(kind, TypeKind::Float4 | TypeKind::Float8 | TypeKind::Numeric)
    };
    let possible = order.iter().all(|(column, _)| as_keys(*column));
    possible.then_some((work, Shape::Sorted(Sorted { columns, order, distinct, limit })))
}

fn column_of(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    expr.downcast_ref::<Column>().map(Column::index)
}

fn picked<'a>(
    exprs: impl Iterator<Item = &'a Arc<dyn PhysicalExpr>>,
    columns: &[usize],
) -> Option<Vec<usize>> {
    exprs.map(|expr| columns.get(column_of(expr)?).copied()).collect()
}

/// A total as the projection above the aggregation shows it.
fn total_shown(expr: &Arc<dyn PhysicalExpr>, totals: &[Total]) -> Option<Total> {
    if let Some(at) = column_of(expr) {
        // The library's average has not been brought to its digits yet.
        return totals.get(at).copied().filter(|total| !matches!(total, Total::Average(_, 0)));
    }
    let function = expr.downcast_ref::<ScalarFunctionExpr>()?;
    let [argument] = function.args() else { return None };
    let Total::Average(column, 0) = totals.get(column_of(argument)?)? else { return None };
    let DataType::Decimal128(_, shown) = function.return_type() else { return None };
    let shown = u8::try_from(*shown).ok()?;
    (function.name() == "$average" && shown <= AVERAGE_SCALE)
        .then_some(Total::Average(*column, shown))
}

fn total_of(one: &AggregateFunctionExpr, columns: &[usize], work: &ScanWork) -> Option<Total> {
    if one.is_distinct() || !one.order_bys().is_empty() || one.ignore_nulls() {
        return None;
    }
    let arguments = one.expressions();
    let [argument] = &arguments[..] else { return None };
    if let Some(literal) = argument.downcast_ref::<Literal>() {
        let counted = one.fun().name() == "count" && !literal.value().is_null();
        return counted.then_some(Total::Rows);
    }
    let argument = match argument.downcast_ref::<CastExpr>() {
        Some(cast) => cast.expr(),
        None => argument,
    };
    let column = *columns.get(column_of(argument)?)?;
    let kind = work.types[column].kind;
    let small = matches!(kind, TypeKind::Int2 | TypeKind::Int4);
    let result = one.field();
    match (one.fun().name(), result.data_type()) {
        ("count", DataType::Int64) => Some(Total::Count(column)),
        ("sum", DataType::Int64) if small => Some(Total::Sum(column)),
        ("avg", DataType::Decimal128(_, scale)) if small => {
            (u8::try_from(*scale).ok()? == AVERAGE_SCALE).then_some(Total::Average(column, 0))
        }
        ("min", _) if has_extremes(kind) => Some(Total::Min(column)),
        ("max", _) if has_extremes(kind) => Some(Total::Max(column)),
        _ => None,
    }
}

/// Types whose values compare as Arrow's do.
fn has_extremes(kind: TypeKind) -> bool {
    use TypeKind::{Char, Date, Int2, Int4, Int8, Text, Timestamp, Timestamptz, Varchar};
    matches!(kind, Int2 | Int4 | Int8 | Date | Timestamp | Timestamptz | Text | Varchar | Char)
}

/// Digits that the library's average of whole numbers has.
const AVERAGE_SCALE: u8 = 18;

// ---- at work ------------------------------------------------------------------------------------

struct Passing<'a> {
    columns: &'a [usize],
    receiver: &'a mut dyn Receiver,
    rows: usize,
    limit: usize,
}

impl Taker for Passing<'_> {
    fn take(&mut self, _: Rowid, _: &[u8], view: &RowView<'_>) -> Result<()> {
        if self.rows == self.limit {
            return Ok(());
        }
        self.rows += 1;
        self.receiver.row(&Cells::Stored(self.columns, *view))
    }

    fn rows(&self) -> usize {
        self.rows
    }
}

/// Rows to be sorted: key and row follow each other in `bytes`.
struct Held<'a> {
    sorted: &'a Sorted,
    bytes: Vec<u8>,
    rows: Vec<HeldRow>,
}

#[derive(Clone, Copy)]
struct HeldRow {
    /// The first bytes of the key, so that most comparisons touch nothing else.
    head: u64,
    at: u32,
    key_bytes: u32,
    row_bytes: u32,
}

impl HeldRow {
    fn key<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        let at = self.at as usize;
        &bytes[at..at + self.key_bytes as usize]
    }

    fn row<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        let at = self.at as usize + self.key_bytes as usize;
        &bytes[at..at + self.row_bytes as usize]
    }
}

impl Taker for Held<'_> {
    fn take(&mut self, _: Rowid, row: &[u8], view: &RowView<'_>) -> Result<()> {
        if self.is_too_much() {
            return Ok(());
        }
        let at = self.bytes.len();
        if at == 0 {
            // Most are about as wide, and growing moves what is there.
            self.bytes.reserve((HELD_AT_FIRST * 2 * row.len()).min(HELD_BYTES_AT_FIRST_MAX));
            self.rows.reserve(HELD_AT_FIRST);
        }
        for (column, descending) in &self.sorted.order {
            let part = self.bytes.len();
            encode_key(&[view.get(*column)], &mut self.bytes);
            if *descending {
                self.bytes[part..].iter_mut().for_each(|byte| *byte = !*byte);
            }
        }
        let key_bytes = self.bytes.len() - at;
        let mut head = [0; 8];
        let taken = key_bytes.min(8);
        head[..taken].copy_from_slice(&self.bytes[at..at + taken]);
        self.bytes.extend_from_slice(row);
        let short = |n: usize| u32::try_from(n).map_err(|_| PgError::internal("a row above 4 GB"));
        self.rows.push(HeldRow {
            head: u64::from_be_bytes(head),
            at: short(at)?,
            key_bytes: short(key_bytes)?,
            row_bytes: short(row.len())?,
        });
        Ok(())
    }

    fn rows(&self) -> usize {
        self.rows.len()
    }
}

impl Held<'_> {
    fn is_too_much(&self) -> bool {
        self.rows.len() > HELD_ROWS_MAX || self.bytes.len() > HELD_BYTES_MAX
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        self.rows.sort_by(|a, b| a.head.cmp(&b.head).then_with(|| a.key(bytes).cmp(b.key(bytes))));
        if self.sorted.distinct {
            self.rows.dedup_by(|a, b| a.head == b.head && a.key(bytes) == b.key(bytes));
        }
        self.rows.truncate(self.sorted.limit);
    }

    fn give(&self, work: &ScanWork, receiver: &mut dyn Receiver, rows_max: usize) -> Result<usize> {
        let count = self.rows.len().min(rows_max);
        for (at, held) in self.rows[..count].iter().enumerate() {
            let view = RowView::new(&work.table.types, held.row(&self.bytes));
            receiver.row(&Cells::Stored(&self.sorted.columns, view))?;
            if at % 64 == 63 {
                receiver.pause();
            }
        }
        Ok(count)
    }
}

struct Adding {
    running: Vec<Running>,
    rows: usize,
}

impl Taker for Adding {
    fn take(&mut self, _: Rowid, _: &[u8], view: &RowView<'_>) -> Result<()> {
        self.rows += 1;
        self.running.iter_mut().try_for_each(|one| one.add(view))
    }

    fn take_count(&mut self, rows: u64) -> bool {
        if self.running.iter().any(|one| one.total != Total::Rows) {
            return false;
        }
        let count = i64::try_from(rows).unwrap_or(i64::MAX);
        self.running.iter_mut().for_each(|one| one.count += count);
        true
    }

    fn rows(&self) -> usize {
        self.rows
    }
}

struct Running {
    total: Total,
    /// Values that were not NULL, or rows.
    count: i64,
    sum: i128,
    extreme: Value,
}

impl Running {
    fn new(total: Total) -> Running {
        Running { total, count: 0, sum: 0, extreme: Value::Null }
    }

    fn add(&mut self, row: &RowView<'_>) -> Result<()> {
        match self.total {
            Total::Rows => self.count += 1,
            Total::Count(column) => self.count += i64::from(!row.get(column).is_null()),
            Total::Sum(column) | Total::Average(column, _) => {
                let value = match row.get(column) {
                    Datum::Null => return Ok(()),
                    Datum::Int2(v) => i128::from(v),
                    Datum::Int4(v) => i128::from(v),
                    _ => return Err(PgError::internal("a sum of what is no small integer")),
                };
                self.count += 1;
                self.sum += value;
            }
            Total::Min(column) => self.replace_if(&row.get(column), Ordering::is_lt)?,
            Total::Max(column) => self.replace_if(&row.get(column), Ordering::is_gt)?,
        }
        Ok(())
    }

    fn replace_if(&mut self, value: &Datum<'_>, better: fn(Ordering) -> bool) -> Result<()> {
        let replaces = match compare(value, &self.extreme.as_datum())? {
            Some(order) => better(order),
            // One of them is NULL.
            None => !value.is_null(),
        };
        if replaces {
            self.extreme = value.to_value();
        }
        Ok(())
    }

    fn value(self) -> Result<Value> {
        Ok(match self.total {
            Total::Rows | Total::Count(_) => Value::Int8(self.count),
            Total::Min(_) | Total::Max(_) => self.extreme,
            Total::Sum(_) | Total::Average(..) if self.count == 0 => Value::Null,
            Total::Sum(_) => {
                let sum = i64::try_from(self.sum);
                Value::Int8(sum.map_err(|_| PgError::out_of_range("bigint"))?)
            }
            Total::Average(_, shown) => {
                // As the library does it: cut after its digits, then rounded to those shown.
                let range = || PgError::out_of_range("numeric");
                let all = self.sum.checked_mul(10i128.pow(u32::from(AVERAGE_SCALE)));
                let cut = all.ok_or_else(range)? / i128::from(self.count);
                Value::Numeric(rescale(cut, AVERAGE_SCALE, shown).ok_or_else(range)?, shown)
            }
        })
    }
}
