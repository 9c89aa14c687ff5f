//! What EXPLAIN tells of a step before it has run: cost, rows, width.
//!
//! What it promises: PostgreSQL's unit, in which reading a block in order costs 1, and its default
//! constants; looking a row up costs what the choice between plans takes it to cost. What it must
//! never do: decide anything.

use crate::access_rules::LOOKUP_ROWS;
use crate::arrow_rows::Source;
use crate::estimate::{plan_rows, value_bytes};
use crate::facts::{Fact, fact_at};
use crate::index_join::IndexJoinExec;
use crate::scalar::Scalar;
use crate::scan::{Access, ScanExec, ScanWork};
use datafusion::arrow::datatypes::DataType;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use std::sync::Arc;

/// `seq_page_cost`, `cpu_tuple_cost` and `cpu_operator_cost` as PostgreSQL has them.
const BLOCK: f64 = 1.0;
const ROW: f64 = 0.01;
const OPERATION: f64 = 0.0025;

/// What is thought of a step with all below it.
#[derive(Clone, Copy, Default, Debug)]
pub struct Estimate {
    /// Until its first row, and in all.
    pub startup_cost: f64,
    pub total_cost: f64,
    pub rows: f64,
    /// Mean bytes of a row.
    pub width: f64,
}

/// What is thought of a plan.
#[must_use]
pub(crate) fn estimate(plan: &Arc<dyn ExecutionPlan>) -> Estimate {
    let (startup_cost, total_cost) = cost(plan);
    Estimate { startup_cost, total_cost, rows: plan_rows(plan), width: width(plan) }
}

fn log2(n: f64) -> f64 {
    n.max(2.0).log2()
}

/// What looking at the conditions on a row costs.
fn filter_cost(work: &ScanWork) -> f64 {
    #[allow(clippy::cast_precision_loss)] // few
    let filters = work.filters.len() as f64;
    filters * OPERATION
}

/// The part of so many rows that a limit lets a step work out.
#[allow(clippy::cast_precision_loss)] // a guess
fn worked_out(limit: Option<usize>, rows: f64) -> f64 {
    limit.map_or(1.0, |limit| (limit as f64 / rows.max(1.0)).min(1.0))
}

fn scan_cost(work: &ScanWork) -> (f64, f64) {
    let (filters, all) = (filter_cost(work), work.size.rows.max(1.0));
    let (startup, total) = match &work.access {
        Access::Full => (0.0, work.size.blocks * BLOCK + all * (ROW + filters)),
        Access::Range { .. } | Access::Keys { .. } | Access::Any { .. } | Access::Bits(_) => {
            let startup = OPERATION * log2(all);
            let (only, found) = (work.only_index().is_some(), work.rows_found().max(1.0));
            let each = if only { ROW } else { ROW * LOOKUP_ROWS };
            let read = match work.bitmap_blocks() {
                // Bits are counted, none is looked at by itself.
                Some(blocks) if work.counts_rows() => blocks * BLOCK,
                Some(blocks) if only => blocks * BLOCK + found * (ROW + filters),
                Some(blocks) => (blocks + work.blocks_of(found)) * BLOCK + found * (ROW + filters),
                // Whatever becomes of them.
                None => found * (each + filters),
            };
            (startup, startup + read)
        }
    };
    (startup, startup + (total - startup) * worked_out(work.limit, work.rows_unlimited()))
}

/// What the inner side of a join by index is thought to take for one outer row.
pub(crate) fn inner_estimate(join: &IndexJoinExec) -> Estimate {
    let (join, work) = (join.join(), join.inner());
    let found = join.found_each * (ROW * LOOKUP_ROWS + filter_cost(work));
    let (startup_cost, total_cost) = (0.0, ROW * LOOKUP_ROWS + found);
    let key = join.index.columns.iter().take(join.key.len()).map(|column| usize::from(*column));
    let mut width = columns_width(work, yielded(work).collect());
    if width <= 0.0 {
        width = columns_width(work, filtered(work).into_iter().chain(key).collect());
    }
    Estimate { startup_cost, total_cost, rows: join.rows_each, width }
}

/// The table's columns that a scan yields.
fn yielded(work: &ScanWork) -> impl Iterator<Item = usize> {
    work.sources.iter().filter_map(|source| match source {
        Source::Column(column) => Some(*column),
        _ => None,
    })
}

/// The table's columns that conditions on its rows name.
fn filtered(work: &ScanWork) -> Vec<usize> {
    let mut columns = work.hints.columns(&work.table);
    for filter in &work.filters {
        filter.walk(&mut |part| {
            if let Scalar::Column(column) = part {
                columns.push(*column);
            }
        });
    }
    columns
}

/// Mean bytes of the columns that a scan reads.
pub(crate) fn read_width(work: &ScanWork) -> f64 {
    columns_width(work, yielded(work).chain(filtered(work)).collect())
}

/// Mean bytes of some of a table's columns, each counted once.
fn columns_width(work: &ScanWork, mut columns: Vec<usize>) -> f64 {
    columns.sort_unstable();
    columns.dedup();
    let width = |column: usize| {
        let known = Fact::of(&work.table, &work.size, column).map(|fact| fact.width);
        known.or_else(|| work.types.get(column).map(|ty| value_bytes(*ty))).unwrap_or(0.0)
    };
    columns.into_iter().map(width).sum()
}

/// Cost until the first row, and in all.
fn cost(plan: &Arc<dyn ExecutionPlan>) -> (f64, f64) {
    let plan = crate::bounds::shown(plan);
    if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        return scan_cost(scan.work());
    }
    let inputs: Vec<(f64, f64)> = plan.children().into_iter().map(cost).collect();
    let rows_in: Vec<f64> = plan.children().into_iter().map(plan_rows).collect();
    let rows = plan_rows(plan);
    let (first, all) = inputs.first().copied().unwrap_or_default();
    let n = rows_in.first().copied().unwrap_or(0.0);
    #[allow(clippy::cast_precision_loss)] // few
    let times = |count: usize| count as f64 * OPERATION;
    if let Some(join) = plan.downcast_ref::<IndexJoinExec>() {
        let total = all + n * inner_estimate(join).total_cost;
        let part = worked_out(join.join().limit, join.rows());
        return (first, first + (total - first) * part);
    }
    if let (Some(join), [left, right]) = (crate::bounds::hash_join(plan), &inputs[..]) {
        let keys = times(join.on().len());
        let startup = left.1 + rows_in[0] * (keys + ROW) + right.0;
        return (startup, startup + right.1 - right.0 + rows_in[1] * keys + rows * ROW);
    }
    if let (true, [left, right]) =
        (plan.downcast_ref::<NestedLoopJoinExec>().is_some(), &inputs[..])
    {
        let startup = left.1 + right.0;
        let pairs = rows_in[0] * rows_in[1] * OPERATION;
        return (startup, startup + right.1 - right.0 + pairs + rows * ROW);
    }
    if plan.downcast_ref::<SortExec>().is_some() {
        let compared = plan.fetch().map_or(n, |_| 2.0 * rows.max(1.0));
        let startup = all + 2.0 * OPERATION * n * log2(compared);
        return (startup, startup + OPERATION * rows);
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let each = aggregate.group_expr().expr().len() + aggregate.aggr_expr().len();
        let startup = all + n * times(each);
        return (startup, startup + rows * ROW);
    }
    if plan.downcast_ref::<FilterExec>().is_some() {
        return (first, all + n * OPERATION);
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let computed =
            projection.expr().iter().filter(|one| one.expr.downcast_ref::<Column>().is_none());
        let computed = computed.count();
        return (first, all + n * times(computed));
    }
    if plan.fetch().is_some() && inputs.len() == 1 {
        // Who finds no row has read to the end.
        return (first, first + (all - first) * (rows.max(1.0) / n.max(1.0)).min(1.0));
    }
    match inputs.len() {
        0 => (0.0, rows * ROW),
        1 => (first, all),
        _ => (first, inputs.iter().map(|input| input.1).sum()),
    }
}

/// Mean bytes of a row: by what is known of the columns, else by their types.
fn width(plan: &Arc<dyn ExecutionPlan>) -> f64 {
    const TEXT: f64 = 32.0;
    let schema = plan.schema();
    let one = |(at, field): (usize, &Arc<datafusion::arrow::datatypes::Field>)| {
        if let Some(fact) = fact_at(plan, at) {
            return fact.width;
        }
        match field.data_type() {
            DataType::Null => 0.0,
            DataType::Boolean => 1.0,
            DataType::Decimal128(..) => 8.0,
            #[allow(clippy::cast_precision_loss)] // small
            ty => ty.primitive_width().map_or(TEXT, |bytes| bytes as f64),
        }
    };
    schema.fields().iter().enumerate().map(one).sum()
}
