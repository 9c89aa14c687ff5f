//! Portals: bound statements, fetched at once or in parts.
//!
//! What it promises: a client gets no more rows than it has asked for, and a plan that has become
//! stale is made anew before its first row. What it must never do: run a portal twice.

use super::Session;
use super::run::Run;
use super::transaction::{ends_transaction, in_failed_transaction};
use crate::encode::{RowEncoder, RowSink, TakenRows};
use crate::kept::KeptRows;
use crate::parse::{Own, located};
use crate::plan::{Kind, Plan, Prepared};
use crate::{PgError, Result};
use datafusion::execution::SendableRecordBatchStream;
use futures::FutureExt;
use kernel::row::Value;
use observe::{SessionKind, Stat};
use query::ColumnReader;
use std::sync::Arc;

/// How often a statement is planned anew because definitions change under it.
pub(super) const STALE_PLANS_MAX: usize = 5;

/// How far a fetch came.
#[derive(Debug, PartialEq, Eq)]
pub enum Fetched {
    /// The row limit was reached; there may be more.
    Suspended,
    /// All done; the command tag.
    Complete(String),
    /// The statement waits for data from the client: [`Session::copy_data`].
    CopyIn { binary: bool, columns: usize },
    /// The text held no statement.
    Empty,
}

/// A bound statement.
pub struct Portal {
    pub(crate) prepared: Arc<Prepared>,
    pub(crate) params: Vec<Value>,
    pub(crate) formats: Vec<i16>,
    pub(crate) state: PortalState,
    /// Where its rows go as values, if not to a client.
    pub(crate) taken: Option<TakenRows>,
    /// Whether nobody asks for more rows than the first time.
    pub(crate) first_only: bool,
    /// What its execution has done so far, if that is measured and it waits for being fetched.
    pub(crate) measured: crate::measured::Outer,
}

pub(crate) enum PortalState {
    Ready,
    Rows(Box<OpenRows>),
    /// The statement is done; its rows wait for the client.
    Kept(Box<KeptRows>),
    Done,
}

/// A query that is being fetched.
pub(crate) struct OpenRows {
    stream: SendableRecordBatchStream,
    readers: Vec<ColumnReader>,
    rows: usize,
    at: usize,
    encoder: RowEncoder,
}

impl OpenRows {
    pub(super) fn new(stream: SendableRecordBatchStream, encoder: RowEncoder) -> OpenRows {
        OpenRows { stream, readers: Vec::new(), rows: 0, at: 0, encoder }
    }
}

impl Session {
    /// Runs a portal on, at most `max_rows` rows (0: all).
    ///
    /// # Errors
    /// The statement's; it has left nothing behind then.
    pub async fn fetch(
        &mut self,
        portal: &mut Portal,
        max_rows: usize,
        sink: &mut dyn RowSink,
    ) -> Result<Fetched> {
        self.count_call();
        if self.ctx.traced() {
            return env::boxed!(self.fetch_traced(portal, max_rows, sink)).await;
        }
        self.fetch_untraced(portal, max_rows, sink).await
    }

    /// A call of the client begins.
    pub(super) fn count_call(&self) {
        if self.ctx.session.kind() == SessionKind::User {
            self.ctx.bump(Stat::UserCalls, 1);
        }
    }

    pub(crate) async fn fetch_untraced(
        &mut self,
        portal: &mut Portal,
        max_rows: usize,
        sink: &mut dyn RowSink,
    ) -> Result<Fetched> {
        let prepared = portal.prepared.clone();
        let executes = matches!(portal.state, PortalState::Ready);
        let call = self.begin_call(&prepared.plan);
        let done = self.fetch_settled(portal, max_rows, sink).await;
        self.end_call(call.as_ref(), &prepared.plan, executes, max_rows, &done);
        done
    }

    async fn fetch_settled(
        &mut self,
        portal: &mut Portal,
        max_rows: usize,
        sink: &mut dyn RowSink,
    ) -> Result<Fetched> {
        match self.fetch_inner(portal, max_rows, sink).await {
            Ok(fetched) => {
                if !matches!(fetched, Fetched::Suspended) {
                    portal.state = PortalState::Done;
                    self.set_as_noted().boxed().await?;
                }
                Ok(fetched)
            }
            Err(error) => {
                portal.state = PortalState::Done;
                self.set_by_rows.lock().clear();
                self.statement_failed().boxed().await;
                Err(located(error, &portal.prepared.statement))
            }
        }
    }

    /// Makes the settings that rows of the statement have asked for.
    async fn set_as_noted(&mut self) -> Result<()> {
        let noted = std::mem::take(&mut *self.set_by_rows.lock());
        for (name, value, local) in noted {
            if let Err(error) = self.settings.set(&name, Some(&value), local) {
                self.statement_failed().await;
                return Err(error);
            }
            self.note_context();
        }
        Ok(())
    }

    async fn fetch_inner(
        &mut self,
        portal: &mut Portal,
        max_rows: usize,
        sink: &mut dyn RowSink,
    ) -> Result<Fetched> {
        if let Some(txn) = &self.txn
            && txn.failed
            && !ends_transaction(&portal.prepared.statement)
        {
            return Err(in_failed_transaction());
        }
        match &mut portal.state {
            PortalState::Rows(_) => return env::boxed!(self.pump_on(portal, max_rows, sink)).await,
            PortalState::Kept(kept) => return Ok(kept.hand_out(max_rows, sink)),
            PortalState::Done => {
                return Err(PgError::new("55000", "the portal has already been run"));
            }
            PortalState::Ready => {}
        }
        self.ctx.bump(Stat::ExecuteCount, 1);
        self.ctx.session.set_sql(Some(portal.prepared.statement.text.clone()));
        self.start_clock();
        if let Kind::Utility(_) = &portal.prepared.plan.kind
            && let Some(done) = env::boxed!(self.transaction_command(&portal.prepared)).await?
        {
            return Ok(done);
        }
        self.begin_if_needed();
        let plan = &portal.prepared.plan;
        let mut plan = if !plan.once && !plan.may_be_hidden() && self.is_current(plan) {
            plan.clone()
        } else {
            self.valid_plan(&portal.prepared).boxed().await?
        };
        self.statement_start = self.txn.as_ref().map(super::Txn::mark);
        if let Some(txn) = &mut self.txn {
            self.is_first = !txn.used;
            // No block runs yet, however the one before has ended.
            (self.blocks_that_hold, self.blocks_that_catch) = (0, 0);
            self.in_expression = false;
            txn.used = true;
            txn.queried |= plan.may_see();
        }
        let mut given = std::mem::take(&mut portal.params);
        for _ in 0..STALE_PLANS_MAX {
            given.truncate(plan.params.len());
            // What returns rows is not tried again.
            let mut params =
                if plan.returns_rows { std::mem::take(&mut given) } else { given.clone() };
            for call in &plan.hidden {
                let value = env::boxed!(self.session_call(call, &params)).await?;
                params.push(value);
            }
            if self.tracing.is_some() {
                env::boxed!(self.make_traced(&plan, &params)).await?;
                self.note_executed(&plan);
            }
            let outer = self.begin_measured(&plan, self.tracing.is_some());
            let run = Run { plan: &plan, params, portal, max_rows, sink };
            let done = if max_rows > 0 && plan.runs_whole() {
                env::boxed!(self.run_kept(run)).await
            } else {
                self.run_plan(run).await
            };
            // The statement ends when all that it has brought about holds.
            let done = match done {
                Ok(fetched) => self.settle_keys(false).await.map(|()| fetched),
                failed => failed,
            };
            // Procedural code may have committed by now; its statements try again by themselves.
            let again =
                !plan.returns_rows && !matches!(plan.kind, Kind::Call(_) | Kind::Own(Own::Code(_)));
            let stale = matches!(&done, Err(error) if error.is_object_gone()) && again;
            if !stale {
                self.note_plan(&portal.prepared, &plan);
                self.end_measured(outer, portal, max_rows, &done);
                return done;
            }
            self.measuring = outer;
            // A definition changed between the look at the plan and the lock on the table.
            plan = self.replan_after_ddl(&portal.prepared).boxed().await?;
        }
        Err(kernel::Error::ObjectGone.into())
    }

    /// Takes the failed attempt back and plans anew.
    async fn replan_after_ddl(&mut self, prepared: &Arc<Prepared>) -> Result<Arc<Plan>> {
        if let (Some(txn), Some(start)) = (&mut self.txn, self.statement_start) {
            txn.rollback_to(&self.ctx, start).await?;
        }
        self.valid_plan(prepared).await
    }

    /// Runs a statement to its end and hands out the first of its rows.
    async fn run_kept(&mut self, run: Run<'_>) -> Result<Fetched> {
        let Run { plan, params, portal, max_rows, sink } = run;
        let mut kept = Box::<KeptRows>::default();
        let whole = Run { plan, params, portal: &mut *portal, max_rows: 0, sink: &mut *kept };
        let done = self.run_plan(whole).await?;
        self.note_whole(&done);
        let Fetched::Complete(tag) = done else { return Ok(done) };
        kept.finish(tag);
        let fetched = kept.hand_out(max_rows, sink);
        portal.state = PortalState::Kept(kept);
        Ok(fetched)
    }

    /// Goes on to send rows of a query that has stopped after some.
    pub(super) async fn pump_on(
        &mut self,
        portal: &mut Portal,
        max_rows: usize,
        sink: &mut dyn RowSink,
    ) -> Result<Fetched> {
        let outer = self.resume_measured(portal);
        let done = self.pump(portal, max_rows, sink).await;
        self.end_measured(outer, portal, max_rows, &done);
        done
    }

    /// Sends rows of an open query.
    pub(super) async fn pump(
        &mut self,
        portal: &mut Portal,
        max_rows: usize,
        sink: &mut dyn RowSink,
    ) -> Result<Fetched> {
        let PortalState::Rows(open) = &mut portal.state else {
            return Err(PgError::internal("no rows are open"));
        };
        let mut sent = 0;
        loop {
            while open.at < open.rows {
                if max_rows > 0 && sent == max_rows {
                    return Ok(Fetched::Suspended);
                }
                let (readers, at) = (&open.readers, open.at);
                let value = |i: usize| Ok(query::scalar::Val::Ref(readers[i].get(at)));
                open.encoder.encode(value, sink.row())?;
                sink.flush_if_large();
                open.at += 1;
                sent += 1;
            }
            if max_rows > 0 && sent == max_rows {
                return Ok(Fetched::Suspended);
            }
            self.ctx.check_interrupt()?;
            match self.next_batch(&mut open.stream).await {
                None => return Ok(Fetched::Complete(format!("SELECT {sent}"))),
                Some(batch) => {
                    let batch = batch?;
                    open.readers = query::planner::readers(&batch)?;
                    open.rows = batch.num_rows();
                    open.at = 0;
                }
            }
        }
    }

    /// The statement's deadline begins, and the limit of its waits for locks holds.
    pub(super) fn start_clock(&self) {
        let deadline = match self.settings.statement_timeout_us {
            0 => None,
            us => Some(env::Micros(self.ctx.env.now().0.saturating_add(us))),
        };
        let flag = self.ctx.session.cancel_flag();
        flag.set_deadline(deadline);
        flag.set_lock_limit(self.settings.lock_timeout_us);
    }
}
