//! Executions that are measured step by step: for a trace, for `v$sql_plan_statistics`.
//!
//! What it promises: one way to measure, which all who ask have their figures from; an execution
//! that nobody asks about costs a look at three flags. What it must never do: measure a statement
//! as part of another that runs inside it, or change what an execution yields.

use crate::Result;
use crate::counted::rows_of;
use crate::plan::{Kind, Plan, Prepared, QueryPlan};
use crate::plan_lines::plan_figures;
use crate::session::{Fetched, Portal, Session};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use observe::{Ctx, SharedCursor};
use query::ExecState;
use query::explain::{Actual, PartBegun, SharedActual};
use std::sync::Arc;

/// What is measured of an execution.
pub(crate) struct Measured {
    plan: Arc<Plan>,
    /// All of it.
    whole: SharedActual,
    /// The call on it that runs.
    begun: Option<PartBegun>,
    /// The steps of its query, which watch themselves.
    steps: Option<Arc<dyn ExecutionPlan>>,
    /// Of a statement on a single row, finding it in its index.
    key: SharedActual,
    /// Rows of a statement that has run to its end while its client still asks for them.
    rows: Option<u64>,
    traced: bool,
}

impl Measured {
    fn begin(ctx: &Ctx, plan: &Arc<Plan>, traced: bool) -> Measured {
        let whole = SharedActual::default();
        let begun = Some(PartBegun::start(&whole, ctx));
        let (plan, key) = (plan.clone(), SharedActual::default());
        Measured { plan, whole, begun, steps: None, key, rows: None, traced }
    }

    /// The call on it ends, having given so many rows.
    fn pause(&mut self, ctx: &Ctx, rows: u64) {
        if let Some(begun) = self.begun.take() {
            begun.end(ctx, rows);
        }
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(crate) fn steps(&self) -> Option<&Arc<dyn ExecutionPlan>> {
        self.steps.as_ref()
    }

    pub(crate) fn whole(&self) -> Actual {
        *self.whole.lock()
    }

    pub(crate) fn key(&self) -> Actual {
        *self.key.lock()
    }
}

/// What is measured around an execution.
pub(crate) type Outer = Option<Box<Measured>>;

/// Whether a plan has steps that can be measured.
fn has_steps(plan: &Plan) -> bool {
    matches!(
        plan.kind,
        Kind::Direct(_) | Kind::Query(_) | Kind::Modify(_) | Kind::InsertSelect(_) | Kind::Merge(_)
    )
}

impl Session {
    /// Whether what the steps of a plan do is to be kept with its statement.
    fn keeps_figures(&self, plan: &Plan) -> bool {
        plan.measured || self.settings.measures
    }

    /// An execution begins; `traced`: the trace's own statement is the one that runs. What is
    /// measured around it, for [`Session::end_measured`].
    pub(crate) fn begin_measured(&mut self, plan: &Arc<Plan>, traced: bool) -> Outer {
        let traced = traced && self.wants_traced_plan();
        let wanted = (traced || self.keeps_figures(plan)) && has_steps(plan);
        let own = wanted.then(|| Box::new(Measured::begin(&self.ctx, plan, traced)));
        std::mem::replace(&mut self.measuring, own)
    }

    /// A portal that has stopped after some rows goes on.
    pub(crate) fn resume_measured(&mut self, portal: &mut Portal) -> Outer {
        let mut own = portal.measured.take();
        if let Some(own) = &mut own {
            own.begun = Some(PartBegun::again(&own.whole, &self.ctx));
        }
        std::mem::replace(&mut self.measuring, own)
    }

    /// A call on the execution ends, and the execution itself unless there may be more rows.
    pub(crate) fn end_measured(
        &mut self,
        outer: Outer,
        portal: &mut Portal,
        max_rows: usize,
        done: &Result<Fetched>,
    ) {
        let own = std::mem::replace(&mut self.measuring, outer);
        let (Some(mut own), Ok(fetched)) = (own, done) else { return };
        let rows = own.rows.unwrap_or_else(|| rows_of(fetched, max_rows));
        own.pause(&self.ctx, rows);
        let more = matches!(fetched, Fetched::Suspended) && own.rows.is_none();
        if more && !portal.first_only {
            portal.measured = Some(own);
            return;
        }
        let prepared = portal.prepared.clone();
        self.tell_measured(own, prepared.plan.cursor.get().map(|cursor| &**cursor));
    }

    /// The same of a statement that has no portal, or whose end was not its own (`None`).
    pub(crate) fn end_measured_with(
        &mut self,
        outer: Outer,
        prepared: &Prepared,
        rows: Option<u64>,
    ) {
        let own = std::mem::replace(&mut self.measuring, outer);
        if let (Some(mut own), Some(rows)) = (own, rows) {
            own.pause(&self.ctx, rows);
            let plan = own.plan.clone();
            self.note_plan(prepared, &plan);
            self.tell_measured(own, prepared.plan.cursor.get().map(|cursor| &**cursor));
        }
    }

    /// The statement has run to its end; its client may still ask for rows of it.
    pub(crate) fn note_whole(&mut self, done: &Fetched) {
        if let Some(own) = &mut self.measuring {
            own.rows = Some(rows_of(done, 0));
        }
    }

    /// Whoever asked gets the figures.
    fn tell_measured(&mut self, own: Box<Measured>, cursor: Option<&SharedCursor>) {
        if let Some(cursor) = cursor
            && self.keeps_figures(&own.plan)
        {
            let hash = crate::trace::plan_hash(&own.plan);
            cursor.measured(hash, plan_figures(&own));
        }
        if own.traced {
            self.note_traced_steps(own);
        }
    }

    /// Starts the query of the statement at hand, whose steps are watched if it is measured.
    pub(crate) async fn open_measured(
        &mut self,
        plan: &QueryPlan,
        state: Arc<ExecState>,
    ) -> Result<SendableRecordBatchStream> {
        let Some(measuring) = &self.measuring else {
            return self.open_query(plan, state).await;
        };
        let planner = &self.database.planner;
        // What is read anew for a later snapshot is the same execution.
        let watched = if let Some(steps) = measuring.steps.clone() {
            reset_plan_states(steps)?
        } else {
            let physical = if plan.query.reusable {
                let make = || planner.physical_peeking(&plan.query.plan, &state.params);
                plan.physical.get_or_try_init(make).await?.clone()
            } else {
                let bound = planner.with_values(&plan.query, &state.params)?;
                planner.physical(&bound).await?
            };
            query::explain::watched(&reset_plan_states(physical)?, true)?
        };
        let stream = planner.execute(&watched, state, false)?;
        if let Some(measuring) = &mut self.measuring {
            measuring.steps = Some(watched);
        }
        Ok(stream)
    }

    /// Where finding the row of a statement in its index is measured; `None`: it is not.
    pub(crate) fn measured_key(&self) -> Option<SharedActual> {
        self.measuring.as_ref().map(|own| own.key.clone())
    }

    /// Whether the row that was found in the index is the statement's.
    pub(crate) fn note_key_row(&self, is_taken: bool) {
        if let Some(own) = &self.measuring {
            own.key.lock().rows = u64::from(is_taken);
        }
    }
}
