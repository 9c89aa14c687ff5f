//! Cursors that procedural code opens for its cursor variables. Such a variable holds the cursor's
//! name, so it may be handed on, and the client fetches by that name as from a cursor of DECLARE.
//!
//! What it promises: rows are those of the moment of OPEN, whoever fetches them, the code, a
//! routine that got the name, or the client; a row goes to one of them. Functions that its rows
//! call are called as the rows are fetched. What it must never do: undo what code commits for a row
//! that nobody has fetched yet.

use super::{Cursor, unknown};
use crate::encode::{Nowhere, RowEncoder, TakenRows};
use crate::pl::{portal_of, type_of};
use crate::plan::{Kind, Plan, Prepared};
use crate::session::{Fetched, Session};
use crate::{PgError, Result, Severity};
use datafusion::execution::SendableRecordBatchStream;
use kernel::row::{ColType, Value};
use observe::{CursorKind, Outcome, Stat};
use query::KeptRows;
use query::row_calls::{RowCall, RowCalls};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::mpsc;

/// Names and types of a cursor's columns.
pub(crate) type Shape = (Arc<[String]>, Arc<[ColType]>);

/// The two ends of the way on which rows send their calls.
type Answers = (RowCalls, mpsc::UnboundedReceiver<RowCall>);

/// What procedural code has to do with a cursor.
#[derive(Default)]
pub(super) struct OfCode {
    /// The statement that it was opened for; `None`: SQL has declared it.
    prepared: Option<Arc<Prepared>>,
    /// Which of the cursors it is that code has opened in the session, from 1; 0: SQL has declared
    /// it.
    number: u64,
    /// Code of the field's has opened it: commits and rollbacks of its code do not end it.
    of_field: bool,
    /// Whether the last fetch of code found a row.
    found: Option<bool>,
    /// What makes values of its rows, once code has fetched one.
    taker: Option<(RowEncoder, TakenRows)>,
    shape: Option<Shape>,
    /// Why there are no more rows than those that were kept.
    broken: Option<PgError>,
    /// Where its rows send their calls: it may outlive the routine that has opened it, whose own
    /// rows are answered while it runs.
    answers: Option<Answers>,
}

impl OfCode {
    /// The session answers the calls of this cursor's rows, or, after a second time, those that it
    /// did before.
    pub(super) fn exchange_answers(&mut self, session: &mut Session) {
        if let Some((calls, called)) = &mut self.answers {
            std::mem::swap(&mut session.row_calls, calls);
            std::mem::swap(&mut session.called, called);
        }
    }

    /// What a fetch fails with behind the last row.
    pub(super) fn broken(&self) -> Option<PgError> {
        self.broken.clone()
    }

    /// A commit has taken its rows in as far as they came: what is wrong with one is the matter of
    /// who fetches it, not of the code that commits what it has done.
    pub(super) fn settle_kept(&mut self, kept: Result<()>) -> Result<()> {
        match kept {
            Err(error) if self.number > 0 && !ends_everything(&error) => {
                self.broken = Some(error);
                Ok(())
            }
            kept => kept,
        }
    }

    pub(super) const fn outlives_transactions(&self) -> bool {
        self.of_field
    }
}

/// What a cursor tells of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CursorState {
    pub(crate) rows: u64,
    pub(crate) found: Option<bool>,
}

/// Whether an error is none of a row: the statement is to stop, or the session ends.
fn ends_everything(error: &PgError) -> bool {
    error.severity == Severity::Fatal || error.code == "57014"
}

/// Whether a plan gives its rows when they are asked for; what locks or changes rows, or finds its
/// one row by a key, has all of them at once.
fn streams(plan: &Plan) -> bool {
    matches!(&plan.kind, Kind::Query(query) if query.lock.is_none())
}

impl Cursor {
    /// The next row, which has come.
    fn take_row(&mut self, taker: (RowEncoder, TakenRows)) -> Result<Vec<Value>> {
        let (mut encoder, taken) = taker;
        self.at += 1;
        self.of_code.found = Some(true);
        let given = self.give_at_hand(self.at, &mut encoder, &mut Nowhere::default());
        let row = taken.lock().pop();
        self.of_code.taker = Some((encoder, taken));
        given?;
        row.ok_or_else(|| PgError::internal("a cursor's row that is gone"))
    }

    fn shape(&mut self) -> Shape {
        let columns = &self.columns;
        let make = || {
            let names = columns.iter().map(|column| column.name.clone()).collect();
            (names, columns.iter().map(type_of).collect())
        };
        self.of_code.shape.get_or_insert_with(make).clone()
    }
}

impl Session {
    /// A name that no cursor has.
    pub(crate) fn unused_cursor_name(&mut self) -> String {
        loop {
            self.unnamed_cursors += 1;
            let name = format!("<unnamed portal {}>", self.unnamed_cursors);
            if !self.cursors.contains_key(&name) {
                return name;
            }
        }
    }

    pub(crate) fn has_cursor(&self, name: &str) -> bool {
        self.cursors.contains_key(name)
    }

    /// Whether code has opened this cursor after so many others.
    pub(crate) fn is_opened_after(&self, name: &str, before: u64) -> bool {
        self.cursors.get(name).is_some_and(|cursor| cursor.of_code.number > before)
    }

    /// Whether this is a cursor of code that stays open for the client.
    pub(crate) fn is_kept_open(&self, name: &str) -> bool {
        let is_kept = |cursor: &Cursor| cursor.hold && cursor.of_code.number > 0;
        self.cursors.get(name).is_some_and(is_kept)
    }

    /// What a cursor tells of itself; `None`: it is not open.
    pub(crate) fn cursor_state(&self, name: &str) -> Option<CursorState> {
        let cursor = self.cursors.get(name)?;
        Some(CursorState { rows: cursor.at, found: cursor.of_code.found })
    }

    /// Opens a cursor for code, under a name that none has.
    ///
    /// `of_field`: the code is in the field's language.
    pub(crate) async fn open_in_code(
        &mut self,
        name: &str,
        prepared: &Arc<Prepared>,
        params: Vec<Value>,
        of_field: bool,
    ) -> Result<()> {
        let mut own = OfCode { answers: Some(RowCalls::new()), ..OfCode::default() };
        let (plan, stream, rows) = match streams(&prepared.plan) {
            true => {
                own.exchange_answers(self);
                let opened = self.open_stream(prepared, params).await;
                own.exchange_answers(self);
                opened?
            }
            false => {
                let mut kept = KeptRows::new(&self.database.planner, &self.ctx);
                kept.push_values(self.rows_at_once(prepared, params).await?);
                (prepared.plan.clone(), None, kept)
            }
        };
        let text = &prepared.statement.text;
        self.code_cursors += 1;
        let of_code =
            OfCode { prepared: Some(prepared.clone()), number: self.code_cursors, of_field, ..own };
        let cursor = Cursor {
            plan: plan.clone(),
            text: (**text).to_owned(),
            hold: false,
            scroll: false,
            created_us: self.ctx.env.wall_us() - query::datetime::EPOCH_US,
            columns: plan.columns.clone(),
            depth: Some(self.savepoints()),
            stream,
            rows,
            at: 0,
            after: false,
            of_code,
        };
        self.cursors.insert(name.to_owned(), cursor);
        self.note_cursor(CursorKind::Open, name, text, &plan);
        self.ctx.bump(Stat::OpenedCursorsCumulative, 1);
        self.note_open_cursors();
        Ok(())
    }

    /// The rows of a statement that runs to its end before it gives one.
    async fn rows_at_once(
        &mut self,
        prepared: &Arc<Prepared>,
        params: Vec<Value>,
    ) -> Result<Vec<Vec<Value>>> {
        let taken = TakenRows::default();
        let mut portal = portal_of(prepared.clone(), &taken);
        self.run_within(&mut portal, params, 0, &mut Nowhere::default()).await?;
        let rows = std::mem::take(&mut *taken.lock());
        Ok(rows)
    }

    async fn open_stream(
        &mut self,
        prepared: &Arc<Prepared>,
        params: Vec<Value>,
    ) -> Result<(Arc<Plan>, Option<SendableRecordBatchStream>, KeptRows)> {
        let traced = self.begin_part(prepared, Some(&params));
        let call = self.begin_call(&prepared.plan);
        let opened = self.open_stream_counted(prepared, params, traced.is_some()).await;
        let outcome = Outcome { executed: true, failed: opened.is_err(), ..Outcome::default() };
        self.end_call_with(call.as_ref(), &prepared.plan, outcome);
        let told = match &opened {
            Ok(_) => Ok(Fetched::Suspended),
            Err(error) => Err(error.clone()),
        };
        self.end_part(traced, prepared, 0, &told);
        opened
    }

    async fn open_stream_counted(
        &mut self,
        prepared: &Arc<Prepared>,
        mut params: Vec<Value>,
        traced: bool,
    ) -> Result<(Arc<Plan>, Option<SendableRecordBatchStream>, KeptRows)> {
        self.begin_if_needed();
        self.ctx.bump(Stat::ExecuteCount, 1);
        self.ctx.bump(Stat::RecursiveCalls, 1);
        let plan = match self.serves(prepared) && !prepared.plan.may_be_hidden() {
            true => prepared.plan.clone(),
            false => env::boxed!(self.valid_plan(prepared)).await?,
        };
        if let Some(txn) = &mut self.txn {
            txn.used = true;
            txn.queried |= plan.may_see();
        }
        params.truncate(plan.params.len());
        for call in &plan.hidden {
            let value = env::boxed!(self.session_call(call, &params)).await?;
            params.push(value);
        }
        if traced {
            env::boxed!(self.make_traced(&plan, &params)).await?;
            self.note_executed(&plan);
        }
        let (stream, rows) = env::boxed!(self.open_cursor(&plan, params, true)).await?;
        self.note_plan(prepared, &plan);
        Ok((plan, stream, rows))
    }

    /// The next row of a cursor as values, for code; `None`: there are no more.
    pub(crate) async fn next_in_code(&mut self, name: &str) -> Result<Option<Vec<Value>>> {
        let cursor = self.cursors.get_mut(name).ok_or_else(|| unknown(name))?;
        let at_hand = !cursor.after && cursor.rows.has(cursor.at);
        if at_hand && let Some(taker) = cursor.of_code.taker.take() {
            return cursor.take_row(taker).map(Some);
        }
        let gone = || unknown(name);
        let (name, mut cursor) = self.cursors.remove_entry(name).ok_or_else(gone)?;
        let done = env::boxed!(self.fetch_in_code(&mut cursor)).await;
        self.cursors.insert(name, cursor);
        done
    }

    /// The same of a cursor whose next row may have to be waited for.
    async fn fetch_in_code(&mut self, cursor: &mut Cursor) -> Result<Option<Vec<Value>>> {
        let prepared = cursor.of_code.prepared.clone();
        let traced = match &prepared {
            Some(prepared) => self.begin_part(prepared, None),
            None => None,
        };
        let (plan, call) = (cursor.plan.clone(), self.begin_call(&cursor.plan));
        let before = cursor.rows.come();
        let reached = match cursor.after {
            true => Ok(false),
            false => cursor.reach(self, cursor.at + 1).await,
        };
        let rows = cursor.rows.come() - before;
        let ended = matches!(reached, Ok(false));
        let outcome = Outcome {
            failed: reached.is_err(),
            fetched: reached.is_ok(),
            ended,
            rows,
            ..Outcome::default()
        };
        self.end_call_with(call.as_ref(), &plan, outcome);
        if let Some(prepared) = &prepared {
            let told = match &reached {
                Ok(true) => Ok(Fetched::Suspended),
                Ok(false) => Ok(Fetched::Complete(format!("SELECT {rows}"))),
                Err(error) => Err(error.clone()),
            };
            let rows = usize::try_from(rows).unwrap_or(usize::MAX);
            self.end_part(traced, prepared, rows, &told);
        }
        if !reached? {
            (cursor.after, cursor.of_code.found) = (true, Some(false));
            return Ok(None);
        }
        cursor.rows.bring(cursor.at).await?;
        let taker = match cursor.of_code.taker.take() {
            Some(taker) => taker,
            None => self.encoder(&cursor.columns, &[]).into_rows(),
        };
        cursor.take_row(taker).map(Some)
    }

    /// What the columns of a cursor are called, and their types.
    pub(crate) fn shape_in_code(&mut self, name: &str) -> Result<Shape> {
        let cursor = self.cursors.get_mut(name).ok_or_else(|| unknown(name))?;
        Ok(cursor.shape())
    }

    /// Names of all cursors.
    pub(crate) fn cursor_names(&self) -> Vec<String> {
        self.cursors.keys().cloned().collect()
    }

    /// Closes the cursors that have other names than these.
    pub(crate) fn close_other_cursors(&mut self, kept: &[String]) {
        self.cursors.retain(|name, _| kept.contains(name));
        self.note_open_cursors();
    }

    /// Closes what nobody can name any more; `failed`: but for what the client had before.
    pub(crate) fn let_cursor_go(&mut self, name: &str, failed: bool) {
        if self.cursors.get(name).is_some_and(|cursor| !(failed && cursor.hold)) {
            self.cursors.remove(name);
            self.note_open_cursors();
        }
    }

    /// The client keeps a cursor beyond the transaction.
    pub(crate) fn keep_cursor(&mut self, name: &str) {
        if let Some(cursor) = self.cursors.get_mut(name) {
            cursor.hold = true;
        }
    }

    /// Takes the cursors away that outlive the transaction which code is about to end.
    pub(crate) fn take_outliving_cursors(&mut self) -> BTreeMap<String, Cursor> {
        let mut taken = BTreeMap::new();
        for name in self.cursor_names() {
            let outlives =
                |cursor: &Cursor| cursor.of_code.outlives_transactions() && cursor.depth.is_some();
            if self.cursors.get(&name).is_some_and(outlives)
                && let Some(cursor) = self.cursors.remove(&name)
            {
                taken.insert(name, cursor);
            }
        }
        if !taken.is_empty() {
            self.note_open_cursors();
        }
        taken
    }

    /// They belong to the next transaction.
    pub(crate) fn put_cursors_back(&mut self, taken: BTreeMap<String, Cursor>) {
        if taken.is_empty() {
            return;
        }
        for (name, mut cursor) in taken {
            cursor.depth = Some(0);
            if let Some(prepared) = &cursor.of_code.prepared {
                let text = &prepared.statement.text;
                self.note_cursor(CursorKind::Open, &name, text, &cursor.plan);
            }
            self.cursors.insert(name, cursor);
        }
        self.note_open_cursors();
    }
}
