//! Statements inside procedural code: they are parts of the statement that runs it.
//!
//! What it promises: a part that fails leaves the session as it is, for whoever catches the error
//! to take back what was done. What it must never do: end the client's own transaction.

use super::portal::{Portal, STALE_PLANS_MAX};
use super::run::Run;
use super::transaction::Mark;
use super::{Fetched, Session};
use crate::encode::RowSink;
use crate::parse::Statement;
use crate::plan::{Kind, Plan, Prepared};
use crate::planning::{Asked, Counted};
use crate::{PgError, Result};
use futures::FutureExt;
use kernel::row::Value;
use observe::Stat;
use std::sync::Arc;

impl Session {
    pub(crate) async fn prepare_within(
        &mut self,
        statement: Statement,
        types: &[u32],
        counted: Counted,
    ) -> Result<Arc<Prepared>> {
        self.begin_if_needed();
        let mark = self.ctx.traced().then(|| self.ctx.trace_mark());
        let asked = Asked::Parse;
        let planning = self.ctx.trace_planning();
        let plan = env::boxed!(self.plan_counted(&statement, types, counted, asked)).await;
        drop(planning);
        let prepared = self.prepared_to_run(statement, types, plan?);
        if let Some(mark) = mark {
            self.tell_of_parse(&prepared, &mark);
        }
        Ok(prepared)
    }

    /// The same of what has been parsed before and is planned for each execution: the plan of the
    /// next one, which is no parse. `None`: it has to be prepared anew, as its names mean other
    /// things by now, or it is not one that is planned for each.
    pub(crate) async fn prepare_again(
        &mut self,
        prepared: &Prepared,
        counted: Counted,
    ) -> Result<Option<Arc<Prepared>>> {
        let (before, declared) = (&prepared.plan, &prepared.declared);
        if !before.once || prepared.context != self.plan_context || !self.is_current(before) {
            return Ok(None);
        }
        let statement = prepared.statement.clone();
        let planning = self.ctx.trace_planning();
        let plan = self.plan_for_one(&statement, declared, counted).await;
        drop(planning);
        let plan = match plan {
            Ok(plan) => plan,
            // Of a table that has come before the one that was meant: what its columns are called
            // is to be looked at.
            Err(error) if error.code.starts_with("42") => return Ok(None),
            Err(error) => return Err(error),
        };
        let objects = |plan: &Plan| -> Vec<_> { plan.tables.iter().map(|(obj, _)| *obj).collect() };
        if objects(&plan) != objects(before) {
            return Ok(None);
        }
        Ok(Some(self.prepared_to_run(statement, declared, plan)))
    }

    /// What is prepared to be run at once: a plan that is made for each execution is the next
    /// one's.
    fn prepared_to_run(
        &self,
        statement: Statement,
        declared: &[u32],
        plan: Arc<Plan>,
    ) -> Arc<Prepared> {
        let prepared = self.prepared(statement, declared, plan);
        if prepared.plan.once {
            prepared.renewed.set(prepared.context.clone(), prepared.plan.clone());
        }
        prepared
    }

    /// Whether what is prepared can be run as it is, unless a table hides one of its views.
    pub(crate) fn serves(&self, prepared: &Prepared) -> bool {
        let plan = &prepared.plan;
        !plan.once && prepared.context == self.plan_context && self.is_current(plan)
    }

    /// Begins to run a part, at most `max_rows` rows of it (0: all).
    pub(crate) async fn run_within(
        &mut self,
        portal: &mut Portal,
        params: Vec<Value>,
        max_rows: usize,
        sink: &mut dyn RowSink,
    ) -> Result<Fetched> {
        let prepared = portal.prepared.clone();
        let traced = self.begin_part(&prepared, Some(&params));
        let call = self.begin_call(&prepared.plan);
        let done = self.run_part(portal, params, max_rows, traced.is_some(), sink).await;
        self.end_call(call.as_ref(), &prepared.plan, true, max_rows, &done);
        self.end_part(traced, &prepared, max_rows, &done);
        done
    }

    async fn run_part(
        &mut self,
        portal: &mut Portal,
        mut params: Vec<Value>,
        max_rows: usize,
        traced: bool,
        sink: &mut dyn RowSink,
    ) -> Result<Fetched> {
        self.ctx.bump(Stat::ExecuteCount, 1);
        self.ctx.bump(Stat::RecursiveCalls, 1);
        let plan = &portal.prepared.plan;
        let plan = match self.serves(&portal.prepared) && !plan.may_be_hidden() {
            true => plan.clone(),
            false => self.valid_plan(&portal.prepared).boxed().await?,
        };
        if let Some(txn) = &mut self.txn {
            txn.used = true;
            txn.queried |= plan.may_see();
        }
        let mut plan = plan;
        for turn in 1.. {
            // A definition may change between the look at the plan and the lock on the table; what
            // has returned rows is not tried again, nor what may have committed.
            let again = turn < STALE_PLANS_MAX
                && !plan.returns_rows
                && !matches!(plan.kind, Kind::Call(_) | Kind::Own(_) | Kind::Utility(_));
            let kept = again.then(|| params.clone());
            let mark = if again { self.mark_within() } else { None };
            params.truncate(plan.params.len());
            for call in &plan.hidden {
                let value = env::boxed!(self.session_call(call, &params)).await?;
                params.push(value);
            }
            if traced {
                env::boxed!(self.make_traced(&plan, &params)).await?;
                self.note_executed(&plan);
            }
            let outer = self.begin_measured(&plan, traced);
            let run = Run { plan: &plan, params, portal: &mut *portal, max_rows, sink: &mut *sink };
            // A part may be a block itself: the future's size must not depend on itself.
            let done = env::boxed!(self.run_plan(run)).await;
            match (&done, kept, mark) {
                (Err(error), Some(kept), Some(mark)) if error.is_object_gone() => {
                    self.measuring = outer;
                    self.rollback_within(mark).await?;
                    plan = self.valid_plan(&portal.prepared).boxed().await?;
                    params = kept;
                }
                _ => {
                    if done.is_ok() {
                        self.note_plan(&portal.prepared, &plan);
                    }
                    self.end_measured(outer, portal, max_rows, &done);
                    let fetched = done?;
                    self.settle_keys(false).await?;
                    return Ok(fetched);
                }
            }
        }
        Err(kernel::Error::ObjectGone.into())
    }

    /// Goes on with a part that has stopped after some rows.
    pub(crate) async fn run_on(
        &mut self,
        portal: &mut Portal,
        max_rows: usize,
        sink: &mut dyn RowSink,
    ) -> Result<Fetched> {
        let prepared = portal.prepared.clone();
        let traced = self.begin_part(&prepared, None);
        let call = self.begin_call(&prepared.plan);
        let done = env::boxed!(self.pump_on(portal, max_rows, sink)).await;
        self.end_call(call.as_ref(), &prepared.plan, false, max_rows, &done);
        self.end_part(traced, &prepared, max_rows, &done);
        done
    }

    /// A point to go back to.
    pub(crate) fn mark_within(&mut self) -> Option<Mark> {
        self.begin_if_needed();
        self.txn.as_ref().map(super::Txn::mark)
    }

    /// Goes back to a point of this transaction, or to the beginning of one that came later.
    pub(crate) async fn rollback_within(&mut self, mark: Mark) -> Result<()> {
        match &mut self.txn {
            Some(txn) => Ok(txn.rollback_to(&self.ctx, mark).await?),
            None => Ok(()),
        }
    }

    /// Sets a savepoint for a block of the field's.
    pub(crate) fn savepoint_within(&mut self, name: &str) -> Result<()> {
        let mark = self.mark_within();
        if let (Some(txn), Some(mark)) = (&mut self.txn, mark) {
            // In a loop the same one moves.
            if txn.savepoints.last().is_some_and(|(known, ..)| known == name) {
                txn.savepoints.pop();
            }
            txn.savepoints.push((name.to_owned(), mark, txn.deferral.clone()));
            self.ctx.bump(Stat::Savepoints, 1);
        }
        Ok(())
    }

    /// Goes back to a savepoint; to one that is not among those from `own` on only if nothing
    /// around `holds` what was done.
    pub(crate) async fn rollback_to_within(
        &mut self,
        name: &str,
        own: usize,
        holds: bool,
    ) -> Result<()> {
        let missing = || PgError::new("3B001", format!("savepoint \"{name}\" does not exist"));
        let txn = self.txn.as_mut().ok_or_else(missing)?;
        let at = txn.savepoints.iter().rposition(|(known, ..)| known == name);
        let at = at.ok_or_else(missing)?;
        if holds && at < own {
            let text = format!("savepoint \"{name}\" was set outside of what is running");
            return Err(PgError::new("2D000", text)
                .with_hint("A function, and a block that PL/pgSQL calls, go back to their own."));
        }
        let (_, mark, deferral) = &txn.savepoints[at];
        let (mark, deferral) = (*mark, deferral.clone());
        txn.rollback_to(&self.ctx, mark).await?;
        txn.deferral = deferral;
        txn.savepoints.truncate(at + 1);
        self.end_cursors_after(at);
        Ok(())
    }

    /// How many savepoints there are.
    pub(crate) fn savepoints(&self) -> usize {
        self.txn.as_ref().map_or(0, |txn| txn.savepoints.len())
    }

    /// What has failed leaves none of its savepoints.
    pub(crate) fn forget_savepoints(&mut self, kept: usize) {
        if let Some(txn) = &mut self.txn {
            txn.savepoints.truncate(kept);
        }
    }

    /// Ends the transaction that the statement has begun, and begins the next one.
    pub(crate) async fn end_within(&mut self, commits: bool) -> Result<()> {
        let Some(txn) = &self.txn else { return Ok(()) };
        if txn.explicit {
            return Err(PgError::new("2D000", "invalid transaction termination"));
        }
        let (isolation, read_only) = (txn.handle.isolation(), txn.read_only);
        let carried = self.take_outliving_cursors();
        let ended = match commits {
            true => env::boxed!(self.commit()).await,
            false => env::boxed!(self.rollback()).await,
        };
        // Code that catches what has failed goes on, with its cursors.
        self.begin(false, isolation, read_only);
        self.put_cursors_back(carried);
        self.statement_start = self.txn.as_ref().map(super::Txn::mark);
        ended
    }
}
