//! What EXPLAIN tells of a step before it has run: cost, rows, width.
//!
//! What it promises: PostgreSQL's unit, in which reading a block in order costs 1, and its default
//! constants; looking a row up costs what the choice between plans takes it to cost. What it must
//! never do: decide anything.

use crate::access_rules::LOOKUP_ROWS;
use crate::estimate::plan_rows;
use crate::facts::fact_at;
use crate::index_join::IndexJoinExec;
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

fn scan_cost(work: &ScanWork) -> (f64, f64) {
    #[allow(clippy::cast_precision_loss)] // few
    let filters = work.filters.len() as f64 * OPERATION;
    let all = work.size.rows.max(1.0);
    let rows = work.rows();
    let (startup, total) = match &work.access {
        Access::Full => (0.0, work.size.blocks * BLOCK + all * (ROW + filters)),
        Access::Range { .. } | Access::Keys { .. } | Access::Any { .. } | Access::Bits(_) => {
            let startup = OPERATION * log2(all);
            let each = if work.only_index().is_some() { ROW } else { ROW * LOOKUP_ROWS };
            (startup, startup + rows.max(1.0) * (each + filters))
        }
    };
    // A limit ends it early.
    let kept = crate::estimate::rows_kept(&work.table, &work.filters, &work.size).max(1.0);
    (startup, startup + (total - startup) * (rows / kept).clamp(0.0, 1.0))
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
    if plan.downcast_ref::<IndexJoinExec>().is_some() {
        return (first, all + n * ROW * LOOKUP_ROWS + rows * ROW * LOOKUP_ROWS);
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
        return (first, first + (all - first) * (rows / n.max(1.0)).clamp(0.0, 1.0));
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
