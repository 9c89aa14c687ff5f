//! `min` and `max` of an indexed column: the first row in the index's order instead of all rows.
//!
//! What it promises: the same value. An aggregate becomes an aggregate over the one row that a sort
//! by the column, cut off after one row, leaves; that the sort is an index scan then is
//! [`crate::access_rules`]'s business. Several aggregates become several such, side by side.

use crate::provider::TableScanSource;
use datafusion::common::tree_node::Transformed;
use datafusion::datasource::source_as_provider;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{
    Aggregate, Expr, Limit, LogicalPlan, LogicalPlanBuilder, Sort, SortExpr, TableScan,
};
use datafusion::optimizer::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::prelude::lit;
use std::sync::Arc;

/// More aggregates than this in one query are worked out in one pass.
const AGGREGATES_MAX: usize = 4;

/// The rule.
#[derive(Debug)]
pub struct IndexExtremes;

impl OptimizerRule for IndexExtremes {
    fn name(&self) -> &'static str {
        "index_extremes"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> DfResult<Transformed<LogicalPlan>> {
        let LogicalPlan::Aggregate(aggregate) = &plan else { return Ok(Transformed::no(plan)) };
        Ok(match by_index(aggregate)? {
            Some(rewritten) => Transformed::yes(rewritten),
            None => Transformed::no(plan),
        })
    }
}

/// The column and whether its greatest value is asked for.
fn extreme(expr: &Expr) -> Option<(&datafusion::common::Column, bool)> {
    let expr = match expr {
        Expr::Alias(alias) => &*alias.expr,
        other => other,
    };
    let Expr::AggregateFunction(call) = expr else { return None };
    let greatest = match call.func.name() {
        "min" => false,
        "max" => true,
        _ => return None,
    };
    let params = &call.params;
    if params.filter.is_some() || !params.order_by.is_empty() {
        return None;
    }
    let [Expr::Column(column)] = &params.args[..] else { return None };
    Some((column, greatest))
}

fn by_index(aggregate: &Aggregate) -> DfResult<Option<LogicalPlan>> {
    let LogicalPlan::TableScan(scan) = &*aggregate.input else { return Ok(None) };
    let calls = &aggregate.aggr_expr;
    if !aggregate.group_expr.is_empty() || calls.is_empty() || calls.len() > AGGREGATES_MAX {
        return Ok(None);
    }
    let provider = source_as_provider(&scan.source)?;
    let Some(source) = provider.downcast_ref::<TableScanSource>() else { return Ok(None) };
    if scan.fetch.is_some() {
        return Ok(None);
    }
    let mut parts: Option<LogicalPlanBuilder> = None;
    for call in calls {
        let Some((column, greatest)) = extreme(call) else { return Ok(None) };
        if !source.orders_by(&column.name, &scan.filters) {
            return Ok(None);
        }
        let one = one_row(scan, column, greatest)?;
        let part = LogicalPlan::Aggregate(Aggregate::try_new(
            Arc::new(one),
            Vec::new(),
            vec![call.clone()],
        )?);
        parts = Some(match parts {
            None => LogicalPlanBuilder::from(part),
            Some(so_far) => so_far.cross_join(part)?,
        });
    }
    parts.map(LogicalPlanBuilder::build).transpose()
}

/// The row with the least or greatest value of the column that is not NULL.
fn one_row(
    scan: &TableScan,
    column: &datafusion::common::Column,
    greatest: bool,
) -> DfResult<LogicalPlan> {
    let mut scan = scan.clone();
    scan.filters.push(Expr::Column(column.clone()).is_not_null());
    let sort = LogicalPlan::Sort(Sort {
        expr: vec![SortExpr::new(Expr::Column(column.clone()), !greatest, greatest)],
        input: Arc::new(LogicalPlan::TableScan(scan)),
        fetch: Some(1),
    });
    Ok(LogicalPlan::Limit(Limit {
        skip: None,
        fetch: Some(Box::new(lit(1i64))),
        input: Arc::new(sort),
    }))
}
