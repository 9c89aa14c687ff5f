//! Cursors: DECLARE, FETCH, MOVE, CLOSE.
//!
//! What it promises: a cursor shows what its DECLARE saw, whatever happens afterwards; it goes with
//! its transaction, or, WITH HOLD, with its session. What it must never do: give a row twice where
//! the client did not ask for it.

mod in_code;

use self::in_code::OfCode;
use crate::encode::{Nowhere, RowEncoder, RowSink, ValueRef};
use crate::parse::Parsed;
use crate::plan::{Kind, Plan};
use crate::planning::{Asked, Counted};
use crate::session::{Fetched, Portal, Session};
use crate::{PgError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::sql::sqlparser::ast::Statement as Ast;
use kernel::row::Value;
use observe::{CursorKind, OpenCursor, Outcome, Stat};
use query::{KeptRows, PgColumn};
use std::sync::Arc;

/// What DECLARE says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Declare {
    pub name: String,
    /// SCROLL or NO SCROLL, if one was written.
    pub scroll: Option<bool>,
    pub hold: bool,
    pub query: String,
}

/// Where FETCH and MOVE go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// So many rows on; `None`: all.
    Forward(Option<i64>),
    Backward(Option<i64>),
    Absolute(i64),
    Relative(i64),
}

/// FETCH or MOVE.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fetch {
    pub name: String,
    pub direction: Direction,
    /// MOVE: the rows are counted and not given.
    pub only_move: bool,
}

/// An open cursor.
pub(crate) struct Cursor {
    /// Its query, which its fetches are counted under.
    plan: Arc<Plan>,
    text: String,
    hold: bool,
    scroll: bool,
    created_us: i64,
    columns: Vec<PgColumn>,
    /// Savepoints that there were; `None` once its transaction has committed.
    depth: Option<usize>,
    stream: Option<SendableRecordBatchStream>,
    /// Rows that have come and may be asked for.
    rows: KeptRows,
    /// Rows in front of which the cursor stands: 0 before the first. It is *on* row `at`, from 1.
    at: u64,
    /// It stands behind the last row.
    after: bool,
    /// What procedural code has to do with it.
    of_code: OfCode,
}

fn unknown(name: &str) -> PgError {
    PgError::new("34000", format!("cursor \"{name}\" does not exist"))
}

fn forward_only() -> PgError {
    PgError::new("55000", "cursor can only scan forward")
        .with_hint("Declare it with SCROLL option to enable backward scan.")
}

impl Cursor {
    /// Sees to it that row `number` (from 1) has come; `false` if there is no such row.
    async fn reach(&mut self, session: &mut Session, number: u64) -> Result<bool> {
        while self.rows.come() < number {
            let Some(stream) = &mut self.stream else {
                return self.of_code.broken().map_or(Ok(false), Err);
            };
            self.of_code.exchange_answers(session);
            let batch = session.next_batch(stream).await;
            self.of_code.exchange_answers(session);
            let Some(batch) = batch else {
                self.stream = None;
                return Ok(false);
            };
            let batch = batch?;
            if batch.num_rows() == 0 {
                continue;
            }
            if !self.scroll {
                // The row that it stands on stays.
                self.rows.forget_before(self.at.saturating_sub(1));
            }
            self.rows.push(&batch)?;
        }
        Ok(true)
    }

    /// How many rows there are; all of them have come then.
    async fn count(&mut self, session: &mut Session) -> Result<u64> {
        while self.reach(session, self.rows.come() + 1).await? {}
        Ok(self.rows.come())
    }

    async fn give(
        &mut self,
        number: u64,
        encoder: &mut RowEncoder,
        sink: &mut dyn RowSink,
    ) -> Result<()> {
        self.rows.bring(number - 1).await?;
        self.give_at_hand(number, encoder, sink)
    }

    /// The same of a row that need not be read back.
    fn give_at_hand(
        &self,
        number: u64,
        encoder: &mut RowEncoder,
        sink: &mut dyn RowSink,
    ) -> Result<()> {
        let row = self.rows.get(number - 1)?;
        encoder.encode(|column| Ok(ValueRef::Ref(row.get(column))), sink.row())?;
        sink.flush_if_large();
        Ok(())
    }

    fn on_row(&self) -> bool {
        self.at > 0 && !self.after
    }

    fn check_backward(&self) -> Result<()> {
        if self.scroll { Ok(()) } else { Err(forward_only()) }
    }

    /// Goes `count` rows on (`None`: to the end) and gives them; tells how many there were.
    async fn forward(
        &mut self,
        session: &mut Session,
        count: Option<u64>,
        mut out: Option<(&mut RowEncoder, &mut dyn RowSink)>,
    ) -> Result<u64> {
        let mut done = 0;
        while !self.after && count.is_none_or(|count| done < count) {
            if !self.reach(session, self.at + 1).await? {
                self.after = true;
                break;
            }
            self.at += 1;
            done += 1;
            if let Some((encoder, sink)) = &mut out {
                self.give(self.at, encoder, *sink).await?;
            }
        }
        Ok(done)
    }

    /// The same towards the first row.
    async fn backward(
        &mut self,
        session: &mut Session,
        count: Option<u64>,
        mut out: Option<(&mut RowEncoder, &mut dyn RowSink)>,
    ) -> Result<u64> {
        self.check_backward()?;
        let mut done = 0;
        while count.is_none_or(|count| done < count) {
            let before = match self.after {
                true => self.count(session).await?,
                false => self.at.saturating_sub(1),
            };
            self.after = false;
            self.at = before;
            if before == 0 {
                break;
            }
            done += 1;
            if let Some((encoder, sink)) = &mut out {
                self.give(before, encoder, *sink).await?;
            }
        }
        Ok(done)
    }

    async fn run(
        &mut self,
        session: &mut Session,
        direction: Direction,
        out: Option<(&mut RowEncoder, &mut dyn RowSink)>,
    ) -> Result<u64> {
        match direction {
            Direction::Forward(Some(count)) if count < 0 => {
                self.backward(session, Some(count.unsigned_abs()), out).await
            }
            Direction::Backward(Some(count)) if count < 0 => {
                self.forward(session, Some(count.unsigned_abs()), out).await
            }
            Direction::Forward(Some(0)) | Direction::Backward(Some(0)) | Direction::Relative(0) => {
                if !self.on_row() {
                    return Ok(0);
                }
                if let Some((encoder, sink)) = out {
                    self.check_backward()?;
                    self.give(self.at, encoder, sink).await?;
                }
                Ok(1)
            }
            Direction::Forward(count) => {
                self.forward(session, count.map(i64::unsigned_abs), out).await
            }
            Direction::Backward(count) => {
                self.backward(session, count.map(i64::unsigned_abs), out).await
            }
            Direction::Relative(count) if count > 0 => {
                let before = count.unsigned_abs() - 1;
                self.forward(session, Some(before), None).await?;
                self.forward(session, Some(1), out).await
            }
            Direction::Relative(count) => {
                let before = count.unsigned_abs() - 1;
                self.backward(session, Some(before), None).await?;
                self.backward(session, Some(1), out).await
            }
            Direction::Absolute(to) => {
                let target = match to {
                    0.. => to.unsigned_abs(),
                    _ => {
                        self.check_backward()?;
                        let all = self.count(session).await?;
                        (all + 1).saturating_sub(to.unsigned_abs())
                    }
                };
                // On from where it stands, if the row lies ahead.
                if target <= self.at || self.after {
                    self.check_backward()?;
                    self.at = 0;
                    self.after = false;
                }
                if target == 0 {
                    return Ok(0);
                }
                self.forward(session, Some(target - 1 - self.at), None).await?;
                self.forward(session, Some(1), out).await
            }
        }
    }

    /// Takes all rows in: the query's snapshot and locks end with the transaction.
    async fn keep_all(&mut self, session: &mut Session) -> Result<()> {
        let scroll = std::mem::replace(&mut self.scroll, true);
        let kept = self.count(session).await;
        self.scroll = scroll;
        self.stream = None;
        self.depth = None;
        kept.map(|_| ())
    }
}

impl Session {
    /// The columns of what a cursor gives.
    pub(crate) fn cursor_columns(&self, fetch: &Fetch) -> Result<Vec<PgColumn>> {
        if fetch.only_move {
            return Ok(Vec::new());
        }
        let cursor = self.cursors.get(&fetch.name).ok_or_else(|| unknown(&fetch.name))?;
        Ok(cursor.columns.clone())
    }

    /// The columns of a cursor that DECLARE has made; clients ask for them as for a portal's.
    #[must_use]
    pub fn cursor_description(&self, name: &str) -> Option<Vec<PgColumn>> {
        self.cursors.get(name).map(|cursor| cursor.columns.clone())
    }

    /// The plan of a cursor's query, for the types of its parameters or to be run.
    pub(crate) async fn plan_cursor(
        &mut self,
        declare: &Declare,
        declared: &[u32],
        asked: Asked,
    ) -> Result<Arc<Plan>> {
        let statement = crate::parse::parse_single(&declare.query)?;
        let is_query = matches!(&statement.parsed, Parsed::Sql(ast)
            if matches!(**ast, Ast::Query(_)));
        if !is_query {
            return Err(PgError::syntax("syntax error: DECLARE CURSOR is FOR a query"));
        }
        self.plan_counted(&statement, declared, Counted::Always, asked).await
    }

    pub(crate) async fn declare(&mut self, declare: &Declare, portal: &Portal) -> Result<Fetched> {
        let text = &portal.prepared.statement.text;
        let explicit = self.txn.as_ref().is_some_and(|txn| txn.explicit);
        if !explicit && !declare.hold {
            let text = "DECLARE CURSOR can only be used in transaction blocks";
            return Err(PgError::new("25P01", text));
        }
        if self.cursors.contains_key(&declare.name) {
            let text = format!("cursor \"{}\" already exists", declare.name);
            return Err(PgError::new("42P03", text));
        }
        let prepared = &portal.prepared;
        if prepared.statement.param_count > 0 && prepared.plan.params.is_empty() {
            return Err(PgError::new("42P02", "there is no parameter $1"));
        }
        // One with parameters was planned when DECLARE was parsed, for their types.
        let asked = match prepared.statement.param_count {
            0 => Asked::Parse,
            _ => Asked::Execution,
        };
        let plan = self.plan_cursor(declare, &prepared.param_oids, asked).await?;
        let mut params = portal.params.clone();
        for call in &plan.hidden {
            let value = self.session_call(call, &params).await?;
            params.push(value);
        }
        self.ctx.bump(Stat::ExecuteCount, 1);
        let call = self.begin_call(&plan);
        let opened = self.open_cursor(&plan, params, false).await;
        let outcome = Outcome { executed: true, failed: opened.is_err(), ..Outcome::default() };
        self.end_call_with(call.as_ref(), &plan, outcome);
        let (stream, rows) = opened?;
        let cursor = Cursor {
            plan: plan.clone(),
            text: (**text).to_owned(),
            hold: declare.hold,
            scroll: declare.scroll == Some(true),
            created_us: self.ctx.env.wall_us() - query::datetime::EPOCH_US,
            columns: plan.columns.clone(),
            depth: Some(self.txn.as_ref().map_or(0, |txn| txn.savepoints.len())),
            stream,
            rows,
            at: 0,
            after: false,
            of_code: OfCode::default(),
        };
        self.cursors.insert(declare.name.clone(), cursor);
        self.note_cursor(CursorKind::Open, &declare.name, text, &plan);
        self.ctx.bump(Stat::OpenedCursorsCumulative, 1);
        self.note_open_cursors();
        Ok(Fetched::Complete("DECLARE CURSOR".to_owned()))
    }

    /// `answered`: whether its rows may call stored functions.
    async fn open_cursor(
        &mut self,
        plan: &Arc<Plan>,
        params: Vec<Value>,
        answered: bool,
    ) -> Result<(Option<SendableRecordBatchStream>, KeptRows)> {
        let outer = self.read_views(plan).await?;
        let opened = self.open_with_views(plan, params, answered).await;
        self.views = outer;
        opened
    }

    async fn open_with_views(
        &mut self,
        plan: &Arc<Plan>,
        params: Vec<Value>,
        answered: bool,
    ) -> Result<(Option<SendableRecordBatchStream>, KeptRows)> {
        let (encoder, rows) = self.encoder(&plan.columns, &[]).into_rows();
        let mut nowhere = Nowhere::default();
        let mut kept = KeptRows::new(&self.database.planner, &self.ctx);
        match &plan.kind {
            Kind::Query(query) if query.lock.is_none() => {
                // The rows of a cursor that SQL declares do nothing whenever they are fetched.
                let state = match answered {
                    true => self.exec_state(params).await?,
                    false => self.exec_state_unanswered(params).await?,
                };
                return Ok((Some(self.open_query(query, state).await?), kept));
            }
            Kind::Query(query) => {
                env::boxed!(self.run_locking(query, params, encoder, &mut nowhere)).await?;
            }
            Kind::Direct(direct) => {
                env::boxed!(self.run_direct(direct, &params, encoder, &mut nowhere)).await?;
            }
            Kind::With(_) => {
                let text = "DECLARE CURSOR must not contain data-modifying statements in WITH";
                return Err(PgError::new("0A000", text));
            }
            _ => return Err(PgError::unsupported("a cursor for this statement")),
        }
        kept.push_values(std::mem::take(&mut *rows.lock()));
        Ok((None, kept))
    }

    pub(crate) async fn fetch_cursor(
        &mut self,
        fetch: &Fetch,
        portal: &Portal,
        sink: &mut dyn RowSink,
    ) -> Result<Fetched> {
        let mut cursor = self.cursors.remove(&fetch.name).ok_or_else(|| unknown(&fetch.name))?;
        let mut encoder = self.encoder_into(&cursor.columns, portal);
        let out: Option<(&mut RowEncoder, &mut dyn RowSink)> =
            if fetch.only_move { None } else { Some((&mut encoder, sink)) };
        let (plan, call) = (cursor.plan.clone(), self.begin_call(&cursor.plan));
        let done = env::boxed!(cursor.run(self, fetch.direction, out)).await;
        let rows = done.as_ref().map_or(0, |rows| *rows);
        let ended = done.is_ok() && cursor.after;
        let outcome = Outcome {
            failed: done.is_err(),
            fetched: done.is_ok(),
            ended,
            rows,
            ..Outcome::default()
        };
        self.end_call_with(call.as_ref(), &plan, outcome);
        self.cursors.insert(fetch.name.clone(), cursor);
        let verb = if fetch.only_move { "MOVE" } else { "FETCH" };
        Ok(Fetched::Complete(format!("{verb} {}", done?)))
    }

    pub(crate) fn cursor_rows(&self) -> Vec<CursorRow> {
        let row = |(name, cursor): (&String, &Cursor)| CursorRow {
            name: name.clone(),
            text: cursor.text.clone(),
            hold: cursor.hold,
            scroll: cursor.scroll,
            created_us: cursor.created_us,
        };
        self.cursors.iter().map(row).collect()
    }

    /// CLOSE of one cursor, or of all (`None`).
    pub(crate) fn close_cursor(&mut self, name: Option<&str>) -> Result<Fetched> {
        match name {
            None => {
                self.cursors.clear();
                self.note_open_cursors();
                Ok(Fetched::Complete("CLOSE CURSOR ALL".to_owned()))
            }
            Some(name) => {
                self.cursors.remove(name).ok_or_else(|| unknown(name))?;
                self.note_open_cursors();
                Ok(Fetched::Complete("CLOSE CURSOR".to_owned()))
            }
        }
    }

    /// There is a cursor or named statement of this name, which others are to see.
    pub(crate) fn note_cursor(
        &self,
        kind: CursorKind,
        name: &str,
        text: &Arc<str>,
        plan: &Arc<Plan>,
    ) {
        let cursor = OpenCursor { text: text.clone(), of: plan.clone() };
        self.ctx.session.open_cursors().add(kind, name, cursor);
    }

    /// How many cursors there are now is told, and how many statements have names.
    pub(crate) fn note_open_cursors(&self) {
        let told = self.ctx.session.open_cursors();
        told.keep(CursorKind::Open, self.cursors.len(), |name| self.cursors.contains_key(name));
        told.keep(CursorKind::Named, self.named.len(), |name| self.named.contains_key(name));
        let totals = self.ctx.session.totals();
        totals.set_gauge(Stat::OpenedCursorsCurrent, self.cursors.len() as u64);
        totals.set_gauge(Stat::CursorCacheCount, self.named.len() as u64);
    }

    /// The transaction is about to commit: cursors that stay take their rows in.
    pub(crate) async fn hold_cursors(&mut self) -> Result<()> {
        for name in self.cursor_names() {
            let is_to_come = |cursor: &Cursor| cursor.hold && cursor.depth.is_some();
            if !self.cursors.get(&name).is_some_and(is_to_come) {
                continue;
            }
            let mark = if self.txn.is_some() { self.mark_within() } else { None };
            let Some(mut cursor) = self.cursors.remove(&name) else { continue };
            let kept = env::boxed!(cursor.keep_all(self)).await;
            let failed = kept.is_err();
            let settled = cursor.of_code.settle_kept(kept);
            self.cursors.insert(name, cursor);
            settled?;
            // What a function has done that was called for the row goes with it.
            if let Some(mark) = mark.filter(|_| failed) {
                self.rollback_within(mark).await?;
            }
        }
        Ok(())
    }

    /// The transaction has ended: its cursors go, but those that were kept.
    pub(crate) fn end_cursors(&mut self) {
        self.user_locks.set_transaction(None);
        if !self.cursors.is_empty() {
            self.cursors.retain(|_, cursor| cursor.depth.is_none());
            self.note_open_cursors();
        }
    }

    /// Cursors declared after a savepoint go with what is rolled back to it.
    pub(crate) fn end_cursors_after(&mut self, savepoints: usize) {
        self.cursors.retain(|_, cursor| {
            cursor.of_code.outlives_transactions()
                || cursor.depth.is_none_or(|depth| depth <= savepoints)
        });
        self.note_open_cursors();
    }
}

/// A cursor as `pg_cursors` shows it.
pub(crate) struct CursorRow {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) hold: bool,
    pub(crate) scroll: bool,
    /// When it was declared, µs since 2000-01-01.
    pub(crate) created_us: i64,
}
