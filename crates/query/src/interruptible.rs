//! Planning and joining that can be cancelled: the library waits for nothing meanwhile and asks
//! nobody.
//!
//! What it promises: between any two of the optimizer's rules, and any two batches of a loop over
//! all pairs of rows, a cancelled or timed-out statement ends with its error. What it must never
//! do: outlive the work it was made for.

use crate::error::PgError;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{ColumnarValue, LogicalPlan};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{RecordBatchStream, SendableRecordBatchStream};
use futures::{Stream, StreamExt};
use observe::Ctx;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

thread_local! {
    /// Whose statement is being planned or run on this thread; neither awaits anything meanwhile.
    static PLANNING: RefCell<Option<(Ctx, usize)>> = const { RefCell::new(None) };
    /// What a value that is made outside a plan may hold.
    static BY_ROW_BYTES: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Says whose statement is planned, or asked for rows, until it is dropped.
pub(crate) struct Planning {
    before: Option<(Ctx, usize)>,
}

impl Planning {
    /// `result_bytes`: what the values that one call of a function gives for many rows may hold.
    pub(crate) fn of(ctx: Option<&Ctx>, result_bytes: usize) -> Planning {
        let now = ctx.map(|ctx| (ctx.clone(), result_bytes));
        Planning { before: PLANNING.replace(now) }
    }
}

impl Drop for Planning {
    fn drop(&mut self) {
        PLANNING.replace(self.before.take());
    }
}

/// An error if the statement that is planned or run is to end.
pub(crate) fn check() -> DfResult<()> {
    PLANNING.with_borrow(|ctx| match ctx {
        Some((ctx, _)) => {
            ctx.check_interrupt().map_err(|interrupt| PgError::from(interrupt).into())
        }
        None => Ok(()),
    })
}

/// What the values of one call may hold, for the statement that is planned or run.
pub(crate) fn result_bytes() -> usize {
    let planned = || PLANNING.with_borrow(|now| now.as_ref().map_or(usize::MAX, |now| now.1));
    BY_ROW_BYTES.get().unwrap_or_else(planned)
}

/// Calls a function of one row's values, whose results may hold so much.
pub(crate) fn by_row<T>(bytes: usize, call: impl FnOnce() -> T) -> T {
    let before = BY_ROW_BYTES.replace(Some(bytes));
    let result = call();
    BY_ROW_BYTES.set(before);
    result
}

/// A rule that changes nothing.
#[derive(Debug)]
struct Check;

impl OptimizerRule for Check {
    fn name(&self) -> &str {
        "check_interrupt"
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> DfResult<Transformed<LogicalPlan>> {
        check()?;
        Ok(Transformed::no(plan))
    }
}

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// The rules, with a look at the statement's end before each.
pub(crate) fn with_checks(rules: &[Rule]) -> Vec<Rule> {
    let check: Rule = Arc::new(Check);
    rules.iter().flat_map(|rule| [check.clone(), rule.clone()]).collect()
}

/// The rows of a plan; while it works on them it is known whose statement it is.
pub(crate) fn of_statement(
    rows: SendableRecordBatchStream,
    ctx: Ctx,
    result_bytes: usize,
) -> SendableRecordBatchStream {
    env::boxed!(OfStatement { rows, ctx, result_bytes })
}

struct OfStatement {
    rows: SendableRecordBatchStream,
    ctx: Ctx,
    result_bytes: usize,
}

impl Stream for OfStatement {
    type Item = DfResult<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let _running = Planning::of(Some(&self.ctx), self.result_bytes);
        self.rows.poll_next_unpin(cx)
    }
}

impl RecordBatchStream for OfStatement {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}

/// The rows of a step, with a look at the statement's end before each batch is handed on.
pub(crate) fn looking(rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let schema = rows.schema();
    let rows = rows.map(|batch| {
        check()?;
        batch
    });
    env::boxed!(RecordBatchStreamAdapter::new(schema, rows))
}

/// An expression that looks at the statement's end before it is worked out for a batch.
#[derive(Debug, Eq)]
pub(crate) struct Looking {
    inner: Arc<dyn PhysicalExpr>,
}

impl PartialEq for Looking {
    fn eq(&self, other: &Looking) -> bool {
        self.inner.eq(&other.inner)
    }
}

impl Hash for Looking {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl Looking {
    pub(crate) fn over(inner: &Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
        Arc::new(Looking { inner: inner.clone() })
    }
}

impl fmt::Display for Looking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl PhysicalExpr for Looking {
    fn return_field(&self, schema: &Schema) -> DfResult<FieldRef> {
        self.inner.return_field(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> DfResult<ColumnarValue> {
        check()?;
        self.inner.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.inner]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> DfResult<Arc<dyn PhysicalExpr>> {
        children
            .first()
            .map(Looking::over)
            .ok_or_else(|| PgError::internal("an expression without what it is over").into())
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_sql(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::optimizer::Optimizer;
    use env::simulated::{SimConfig, SimWorld};
    use observe::{Observer, SessionKind};

    #[test]
    fn planning_ends_with_its_statement_and_nobody_elses() {
        let world = SimWorld::new(1, SimConfig::default());
        let observer = Observer::new(world.env(1), 1);
        let (mine, others) =
            (observer.ctx(SessionKind::User, "a"), observer.ctx(SessionKind::User, "b"));
        assert!(check().is_ok(), "nobody plans");
        let planning = Planning::of(Some(&mine), 1);
        assert!(check().is_ok());
        mine.session.cancel_flag().cancel();
        assert_eq!(PgError::from(check().unwrap_err()).code, "57014");
        {
            // A query that is planned while another one is.
            let _inner = Planning::of(Some(&others), 2);
            assert!(check().is_ok());
        }
        assert!(check().is_err());
        drop(planning);
        assert!(check().is_ok());
    }

    #[test]
    fn each_rule_comes_after_a_look() {
        let rules = Optimizer::default().rules;
        let checked = with_checks(&rules);
        assert_eq!(checked.len(), 2 * rules.len());
        assert!(checked.iter().step_by(2).all(|rule| rule.name() == "check_interrupt"));
    }
}
