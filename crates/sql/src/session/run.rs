//! From a plan to whoever runs its kind.
//!
//! What it promises: the shortest statements take the shortest way. What it must never do: grow the
//! frame of that way by those of the others.

use super::portal::{OpenRows, Portal, PortalState};
use super::{Fetched, Session};
use crate::Result;
use crate::encode::{RowEncoder, RowSink};
use crate::log_on::{is_audited, is_audited_own};
use crate::plan::{Kind, Plan, QueryPlan};
use datafusion::arrow::array::RecordBatch;
use kernel::row::Value;
use kernel::txn::{Isolation, Transaction};
use query::brief::{Brief, Cells, Receiver};
use query::{ExecState, JoinKeys, PgColumn, SharedRows};
use std::sync::Arc;

/// One run of a plan: its values, and who gets the rows.
pub(super) struct Run<'a> {
    pub(super) plan: &'a Arc<Plan>,
    pub(super) params: Vec<Value>,
    pub(super) portal: &'a mut Portal,
    /// 0: all.
    pub(super) max_rows: usize,
    pub(super) sink: &'a mut dyn RowSink,
}

/// Encodes rows and hands them to the client's buffer.
struct Sending<'a> {
    encoder: RowEncoder,
    sink: &'a mut dyn RowSink,
}

impl Receiver for Sending<'_> {
    fn row(&mut self, cells: &Cells<'_>) -> Result<()> {
        self.encoder.encode(|i| Ok(cells.get(i)), self.sink.row())
    }

    fn pause(&mut self) {
        self.sink.flush_if_large();
    }
}

impl Session {
    pub(super) async fn run_plan(&mut self, run: Run<'_>) -> Result<Fetched> {
        // Boxed but for the shortest way: the frame of this function would be as large as all of
        // them together, and every idle session would keep that much stack touched.
        match &run.plan.kind {
            Kind::Direct(direct) if run.plan.views.is_empty() => {
                let encoder = self.encoder_of(run.plan, run.portal);
                self.run_direct(direct, &run.params, encoder, run.sink).await.map(Fetched::Complete)
            }
            _ if run.plan.views.is_empty() => env::boxed!(self.run_other(run)).await,
            _ => env::boxed!(self.run_over_views(run)).await,
        }
    }

    /// Runs a plan over views of the system's: they are as they are now.
    async fn run_over_views(&mut self, run: Run<'_>) -> Result<Fetched> {
        let outer = self.read_views(run.plan).await?;
        let done = env::boxed!(self.run_other(run)).await;
        self.views = outer;
        done
    }

    fn encoder_of(&self, plan: &Plan, portal: &Portal) -> RowEncoder {
        self.encoder_into(&plan.columns, portal)
    }

    /// What sends rows to the portal's client, or keeps them for the code that asked.
    pub(crate) fn encoder_into(&self, columns: &[PgColumn], portal: &Portal) -> RowEncoder {
        let encoder = self.encoder(columns, &portal.formats);
        match &portal.taken {
            Some(taken) => encoder.taken_by(taken.clone()),
            None => encoder,
        }
    }

    async fn run_other(&mut self, run: Run<'_>) -> Result<Fetched> {
        let Run { plan, params, portal, max_rows, sink } = run;
        let encoder = self.encoder_of(plan, portal);
        match &plan.kind {
            Kind::Empty => Ok(Fetched::Empty),
            Kind::Direct(direct) => {
                let run = env::boxed!(self.run_direct(direct, &params, encoder, sink));
                run.await.map(Fetched::Complete)
            }
            Kind::Query(query) => {
                self.run_query(query, params, portal, encoder, max_rows, sink).await
            }
            Kind::Merge(merge) => {
                env::boxed!(self.run_merge(merge, params)).await.map(Fetched::Complete)
            }
            Kind::Call(call) => {
                let rows = env::boxed!(self.run_call(call, params, false)).await?;
                let mut encoder = encoder;
                for row in rows.iter().filter(|row| !row.is_empty()) {
                    let value = |i: usize| Ok(query::scalar::Val::Ref(row[i].as_datum()));
                    encoder.encode(value, sink.row())?;
                }
                Ok(Fetched::Complete("CALL".to_owned()))
            }
            Kind::With(with) => {
                env::boxed!(self.run_with(with, params, portal, encoder, max_rows, sink)).await
            }
            Kind::Modify(modify) => {
                let run = env::boxed!(self.run_modify(modify, params, encoder, sink));
                run.await.map(Fetched::Complete)
            }
            Kind::InsertSelect(insert) => {
                let run = env::boxed!(self.run_insert_select(insert, params, encoder, sink));
                run.await.map(Fetched::Complete)
            }
            Kind::Utility(ast) => {
                let done = env::boxed!(self.run_utility(ast, portal, sink)).await;
                if is_audited(ast) {
                    self.audit(&portal.prepared.statement.text, &done);
                }
                done
            }
            Kind::Own(own) => {
                portal.params = params;
                let done = env::boxed!(self.run_own(own, portal, sink)).await;
                if is_audited_own(own) {
                    self.audit(&portal.prepared.statement.text, &done);
                }
                done
            }
            Kind::Explain { options, statement } => {
                env::boxed!(self.run_explain(*options, statement, portal, sink)).await
            }
            Kind::ExplainPlan { id, statement, binds } => {
                env::boxed!(self.explain_plan(id.clone(), statement, binds)).await
            }
        }
    }

    /// Runs a query.
    pub(crate) async fn run_query(
        &mut self,
        query: &QueryPlan,
        params: Vec<Value>,
        portal: &mut Portal,
        encoder: RowEncoder,
        max_rows: usize,
        sink: &mut dyn RowSink,
    ) -> Result<Fetched> {
        if query.lock.is_some() {
            let tag = env::boxed!(self.run_locking(query, params, encoder, sink)).await?;
            return Ok(Fetched::Complete(tag));
        }
        let measured = self.measuring.is_some();
        // A client that asks for one row is told that there may be another.
        if !measured && max_rows != 1 {
            let keeps = |handle: &Transaction| handle.isolation() == Isolation::RepeatableRead;
            if self.txn.as_ref().is_some_and(|txn| keeps(&txn.handle)) {
                // What the transaction sees is settled by its first query, whatever that is.
                self.snapshot()?;
            }
            if let Some(row) = self.calculated(query, &params)? {
                let (mut encoder, readers) = (encoder, query::planner::readers(&row)?);
                let value = |i: usize| Ok(query::scalar::Val::Ref(readers[i].get(0)));
                encoder.encode(value, sink.row())?;
                return Ok(Fetched::Complete("SELECT 1".to_owned()));
            }
        }
        // Of a portal that stops in between the session may do something else.
        let at_once = max_rows == 0 || portal.first_only;
        let state = self.exec_state_with(params, max_rows == 0).await?;
        let mut encoder = encoder;
        if !measured
            && at_once
            && let Some(brief) = self.brief(query, &state.params).await?
        {
            let mut receiver = Sending { encoder, sink: &mut *sink };
            let rows_max = if max_rows == 0 { usize::MAX } else { max_rows };
            if let Some(rows) = brief.run(&state, &mut receiver, rows_max).await? {
                return Ok(match rows == rows_max {
                    true => Fetched::Suspended,
                    false => Fetched::Complete(format!("SELECT {rows}")),
                });
            }
            encoder = receiver.encoder;
        }
        let stream = env::boxed!(self.open_measured(query, state)).await?;
        portal.state = PortalState::Rows(Box::new(OpenRows::new(stream, encoder)));
        env::boxed!(self.pump(portal, max_rows, sink)).await
    }

    /// The one row of a query that reads nothing, as far as that can be worked out without a plan.
    pub(crate) fn calculated(
        &self,
        query: &QueryPlan,
        params: &[Value],
    ) -> Result<Option<RecordBatch>> {
        let planner = &self.database.planner;
        match query.calculation.get_or_init(|| planner.calculation(&query.query)) {
            Some(calculation) => Ok(planner.calculate(calculation, params, &self.ctx)?),
            None => Ok(None),
        }
    }

    /// The query to run without Arrow, if it is one of those.
    async fn brief<'q>(&self, plan: &'q QueryPlan, params: &[Value]) -> Result<Option<&'q Brief>> {
        if !plan.query.reusable {
            return Ok(None);
        }
        let planner = &self.database.planner;
        let physical = match plan.physical.get() {
            Some(physical) => physical,
            None => {
                let make = || planner.physical_peeking(&plan.query.plan, params);
                env::boxed!(plan.physical.get_or_try_init(make)).await?
            }
        };
        Ok(plan.brief.get_or_init(|| Brief::of(physical)).as_ref())
    }

    /// Rows that parts of the running statement have given so far.
    pub(crate) fn given(&self) -> Arc<Vec<RecordBatch>> {
        self.running.as_ref().map(|running| running.given.clone()).unwrap_or_default()
    }

    /// Runs a plan inside another statement.
    pub(crate) async fn run_inner(
        &mut self,
        plan: &Arc<Plan>,
        params: Vec<Value>,
        portal: &mut Portal,
        sink: &mut dyn RowSink,
    ) -> Result<Fetched> {
        let prepared = portal.prepared.clone();
        let call = self.begin_call(plan);
        // What is counted as part of the other is no execution of its own.
        let outer = match prepared.plan.cursor.get() {
            Some(_) => self.begin_measured(plan, false),
            None => self.measuring.take(),
        };
        let run = Run { plan, params, portal: &mut *portal, max_rows: 0, sink };
        // A statement may hold another one: the future's size must not depend on itself.
        let done = env::boxed!(self.run_plan(run)).await;
        self.note_plan(&prepared, plan);
        self.end_measured(outer, portal, 0, &done);
        self.end_call(call.as_ref(), plan, true, 0, &done);
        done
    }

    /// Everything an execution of DataFusion's needs of the session.
    pub(crate) async fn exec_state(&mut self, params: Vec<Value>) -> Result<Arc<ExecState>> {
        self.exec_state_with(params, false).await
    }

    /// The same for rows that must not call functions with an effect.
    pub(crate) async fn exec_state_unanswered(
        &mut self,
        params: Vec<Value>,
    ) -> Result<Arc<ExecState>> {
        let mut state = self.exec_state(params).await?;
        if let Some(state) = Arc::get_mut(&mut state) {
            state.calls = None;
        }
        Ok(state)
    }

    /// The same; whether tasks may help.
    pub(crate) async fn exec_state_with(
        &mut self,
        params: Vec<Value>,
        parallel: bool,
    ) -> Result<Arc<ExecState>> {
        let snapshot = self.snapshot()?;
        Ok(Arc::new(ExecState {
            ctx: self.ctx.clone(),
            snapshot,
            params,
            env: self.format_env(),
            target: None,
            given: self.given(),
            views: self.views.clone(),
            keys: JoinKeys::default(),
            shared: SharedRows::default(),
            parallel,
            calls: Some(self.row_calls.clone()),
        }))
    }
}
