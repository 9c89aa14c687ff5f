//! Runs procedural code.

use super::at_once::Now;
use super::collections::Item;
use super::conditions::{message_of, number_in_change, number_of, of_code, told};
use super::exec::{Cursor, Ready, Source};
use super::parse::parse;
use super::places::{Place, Record, null_not_allowed};
use super::tree::{
    Block, Condition, CursorDef, Dialect, FOUND, Handler, Into, Kind, MESSAGE, NOT_FOUND, NUMBER,
    Program, ROW_COUNT, Routine, Rows, SQL_FOUND, SQL_IS_OPEN, SQL_NOT_FOUND, STATE, Slot, Sql,
    Statement, Use,
};
use crate::session::{Fetched, Session};
use crate::{PgError, Result, Severity};
use futures::future::LocalBoxFuture;
use kernel::row::{ColType, TypeKind, Value};
use query::cast::{CastMode, cast};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A block that is to be run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Code {
    pub(crate) text: Arc<str>,
    /// In the field's language.
    pub(crate) field: bool,
}

/// Where the code goes on.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Flow {
    Next,
    Exit(Option<String>),
    Again(Option<String>),
    /// At the statement with this label.
    Goto(String),
    Return,
}

/// An error that is being handled, with which declared exception it is and what number it has.
#[derive(Clone, Debug)]
pub(super) struct Handled {
    pub(super) error: PgError,
    pub(super) own: Option<usize>,
    pub(super) number: Option<i32>,
}

/// A block while it runs.
pub(super) struct Machine<'s> {
    pub(super) session: &'s mut Session,
    pub(super) dialect: Dialect,
    pub(super) places: Vec<Place>,
    pub(super) ready: Vec<Option<Ready>>,
    pub(super) cursors: BTreeMap<Slot, Cursor>,
    pub(super) queries: BTreeMap<Slot, CursorDef>,
    numbers: Vec<(usize, i32)>,
    /// Errors that are being handled, the innermost last.
    pub(super) handled: Vec<Handled>,
    /// The declared exception that was raised last, while it is on its way.
    pub(super) own: Option<usize>,
    /// The number that the error on its way was given.
    pub(super) number: Option<i32>,
    /// Blocks around that catch errors.
    guarded: usize,
    /// Names of cursors that it has opened, or was given by what it called.
    pub(super) opened: BTreeSet<String>,
    /// How many cursors code had opened in the session before: those are not its to close.
    pub(super) cursors_before: u64,
    /// Variables whose cursors stay open behind it.
    pub(super) kept: Vec<Slot>,
    /// Names of those that its caller has lent it.
    pub(super) lent: BTreeSet<String>,
    /// Names that variables of its routines hold which are in a call of themselves.
    pub(super) aside: Vec<String>,
    /// What has been put out and is no whole line yet.
    pub(super) line: String,
    /// Rows that a routine gives.
    pub(super) given: Vec<Vec<Value>>,
    /// Types of a routine's columns.
    pub(super) columns: Vec<ColType>,
    /// Where the arguments are that make up its result.
    pub(super) results: Vec<Slot>,
    /// Procedures and functions of its blocks.
    pub(super) routines: Arc<[Routine]>,
    /// What FORALL has changed, by its index, and which of its turns failed with which number.
    pub(super) bulk_rows: BTreeMap<i64, i64>,
    pub(super) bulk_errors: Vec<(i64, i32)>,
    /// Rows that are collected come to those that are there.
    pub(super) appends: bool,
    /// Savepoints that there were when it began.
    savepoints: usize,
    /// Columns of views that are made when they are asked for.
    pub(super) view_columns: super::scopes::Columns,
    shown: String,
    is_sql: bool,
    /// It has been said where the error at hand happened.
    located: bool,
}

impl Session {
    /// Runs a block.
    pub(crate) async fn run_code(&mut self, code: &Code) -> Result<Fetched> {
        let dialect = if code.field { Dialect::Field } else { Dialect::Pg };
        let program = parse(&code.text, dialect)?;
        Machine::new(self, &program, Vec::new()).run(&program).await?;
        Ok(Fetched::Complete("DO".to_owned()))
    }
}

impl<'s> Machine<'s> {
    /// `ready`: what an earlier run has planned.
    pub(super) fn new(
        session: &'s mut Session,
        program: &Program,
        mut ready: Vec<Option<Ready>>,
    ) -> Machine<'s> {
        ready.resize_with(program.statements, || None);
        let mut places = vec![Place::new(TypeKind::Text, Value::Null); program.slots];
        for (slot, value) in [
            (FOUND, false),
            (NOT_FOUND, true),
            (SQL_FOUND, false),
            (SQL_NOT_FOUND, true),
            (SQL_IS_OPEN, false),
        ] {
            places[slot] = Place::new(TypeKind::Bool, Value::Bool(value));
        }
        places[ROW_COUNT] = Place::new(TypeKind::Int8, Value::Int8(0));
        places[STATE].value = Value::Text("00000".into());
        let message = match program.dialect {
            Dialect::Field => message_of(0),
            Dialect::Pg => String::new(),
        };
        places[MESSAGE].value = Value::Text(message.into());
        places[NUMBER] = Place::new(TypeKind::Int4, Value::Int4(0));
        for def in &program.cursors {
            super::cursor::prepare_states(&mut places, def);
        }
        for (slot, name) in &program.records {
            places[*slot] = Place::record(name);
        }
        Machine {
            cursors_before: session.code_cursors,
            session,
            dialect: program.dialect,
            places,
            ready,
            cursors: BTreeMap::new(),
            queries: program.cursors.iter().map(|def| (def.slot, def.clone())).collect(),
            numbers: program.numbers.clone(),
            handled: Vec::new(),
            own: None,
            number: None,
            guarded: 0,
            opened: BTreeSet::new(),
            kept: program.kept.clone(),
            lent: BTreeSet::new(),
            aside: Vec::new(),
            line: String::new(),
            given: Vec::new(),
            columns: Vec::new(),
            results: program.results.clone(),
            routines: program.routines.clone(),
            bulk_rows: BTreeMap::new(),
            bulk_errors: Vec::new(),
            appends: false,
            savepoints: 0,
            view_columns: BTreeMap::new(),
            shown: program.shown.clone(),
            is_sql: program.is_sql,
            located: false,
        }
    }

    /// Runs the block; whether it ended by RETURN.
    pub(super) async fn run(&mut self, program: &Program) -> Result<bool> {
        self.savepoints = self.session.savepoints();
        let done = self.run_block(&program.block).await;
        if done.is_err() {
            self.session.forget_savepoints(self.savepoints);
        }
        self.leave_cursors(program, done.is_err());
        let finished = self.finish();
        let flow = done?;
        finished?;
        Ok(flow == Flow::Return)
    }

    /// Output without its end of line is a line all the same.
    fn finish(&mut self) -> Result<()> {
        match self.line.is_empty() {
            true => Ok(()),
            false => self.end_line(),
        }
    }

    // ---- blocks -----------------------------------------------------------------------------

    pub(super) fn run_block<'a>(
        &'a mut self,
        block: &'a Block,
    ) -> LocalBoxFuture<'a, Result<Flow>> {
        env::boxed!(async move {
            let guards = !block.handlers.is_empty();
            // An error in a declaration is not this block's to catch.
            self.declare(block).await?;
            let before: Vec<Slot> = self.cursors.keys().copied().collect();
            let named = match guards && self.dialect == Dialect::Pg {
                true => self.session.cursor_names(),
                false => Vec::new(),
            };
            let mark = match guards && self.dialect == Dialect::Pg {
                true => self.session.mark_within(),
                false => None,
            };
            self.guarded += usize::from(guards);
            let holds = guards && self.dialect == Dialect::Pg;
            let catches = guards && self.dialect == Dialect::Field;
            self.session.blocks_that_hold += usize::from(holds);
            self.session.blocks_that_catch += usize::from(catches);
            let done = self.run_all(&block.body).await;
            self.session.blocks_that_catch -= usize::from(catches);
            self.session.blocks_that_hold -= usize::from(holds);
            self.guarded -= usize::from(guards);
            let flow = match done {
                Err(error) => {
                    let Some(handler) = self.handler_of(block, &error) else { return Err(error) };
                    if let Some(mark) = mark {
                        self.session.rollback_within(mark).await?;
                        self.cursors.retain(|slot, _| before.contains(slot));
                        self.session.close_other_cursors(&named);
                    }
                    self.located = false;
                    self.handle(handler, error).await?
                }
                Ok(flow) => flow,
            };
            Ok(match flow {
                Flow::Exit(Some(label)) if block.label.as_deref() == Some(&label) => Flow::Next,
                other => other,
            })
        })
    }

    async fn declare(&mut self, block: &Block) -> Result<()> {
        for variable in &block.variables {
            let named = self.cursors_in(variable.slot..variable.slot + 1);
            self.prepare_place(variable.slot, &variable.name, &variable.ty).await?;
            for name in named {
                self.forget_cursor(&name);
            }
            if let Some(default) = &variable.default {
                let (value, from) = self.eval(default).await?;
                self.store(&Use::of(variable.slot), value, from)?;
            }
            if let Some(whole) = &variable.whole {
                let item = self.item(whole).await?;
                if !matches!(item, Item::Null) {
                    self.store_whole(&Use::of(variable.slot), item).await?;
                }
            }
            let place = &mut self.places[variable.slot];
            if variable.not_null && place.is_single() && place.value.is_null() {
                return Err(null_not_allowed(&variable.name));
            }
            (place.constant, place.not_null) = (variable.constant, variable.not_null);
        }
        Ok(())
    }

    /// The number that the code has given an exception of its own.
    pub(super) fn number_given(&self, exception: usize) -> Option<i32> {
        let given = self.numbers.iter().rev().find(|(known, _)| *known == exception);
        given.map(|(_, number)| *number)
    }

    fn handler_of<'b>(&self, block: &'b Block, error: &PgError) -> Option<&'b Handler> {
        // The session ends, or is asked to stop: no OTHERS holds that.
        if error.severity == Severity::Fatal {
            return None;
        }
        let numbered = |id: &usize| {
            let number = self.number.or_else(|| Some(number_of(error)));
            self.numbers.iter().any(|(known, n)| known == id && Some(*n) == number)
        };
        // One without a number is no error that the database knows.
        let is_unknown = self.own.is_some() && self.number.is_none();
        let meets = |condition: &Condition| match condition {
            Condition::Others => !matches!(error.code, "57014" | "P0004"),
            Condition::State(begin) => !is_unknown && error.code.starts_with(begin.as_str()),
            Condition::Own(id) => self.own == Some(*id) || numbered(id),
        };
        block.handlers.iter().find(|handler| handler.conditions.iter().any(meets))
    }

    async fn handle(&mut self, handler: &Handler, error: PgError) -> Result<Flow> {
        const SLOTS: [Slot; 3] = [STATE, MESSAGE, NUMBER];
        let before = SLOTS.map(|slot| self.places[slot].value.clone());
        let (own, given) = (self.own.take(), self.number.take());
        let number = given.unwrap_or_else(|| number_of(&error));
        let message = match self.dialect {
            Dialect::Field => told(&error),
            Dialect::Pg => error.message.as_str(),
        };
        self.places[STATE].value = Value::Text(error.code.into());
        self.places[MESSAGE].value = Value::Text(message.into());
        self.places[NUMBER].value = Value::Int4(number);
        self.handled.push(Handled { error, own, number: given });
        let done = self.run_all(&handler.body).await;
        self.handled.pop();
        for (slot, value) in SLOTS.into_iter().zip(before) {
            self.places[slot].value = value;
        }
        done
    }

    // ---- statements -------------------------------------------------------------------------

    async fn run_all(&mut self, statements: &[Statement]) -> Result<Flow> {
        let mut at = 0;
        while let Some(statement) = statements.get(at) {
            self.session.ctx.check_interrupt()?;
            let done = match self.run_at_once(&statement.kind) {
                Now::Done(done) => done,
                Now::Body(body) => self.run_arm(body).await,
                Now::Arms(arms, otherwise) => self.run_arms(arms, otherwise).await,
                Now::Waits(begun) => self.select_on(*begun).await,
                Now::Nothing => self.run_one(&statement.kind).await,
            };
            let flow = done.map_err(|error| self.at_line(error, statement))?;
            at += 1;
            match flow {
                Flow::Next => {}
                Flow::Goto(label) => {
                    let found = statements.iter().position(|s| s.label.as_ref() == Some(&label));
                    let Some(found) = found else { return Ok(Flow::Goto(label)) };
                    at = found;
                }
                flow => return Ok(flow),
            }
        }
        Ok(Flow::Next)
    }

    fn run_arm<'a>(&'a mut self, body: &'a [Statement]) -> LocalBoxFuture<'a, Result<Flow>> {
        env::boxed!(self.run_all(body))
    }

    /// Runs what is behind the first condition that holds.
    fn run_arms<'a>(
        &'a mut self,
        arms: &'a [(Sql, Vec<Statement>)],
        otherwise: &'a [Statement],
    ) -> LocalBoxFuture<'a, Result<Flow>> {
        env::boxed!(async move {
            for (condition, body) in arms {
                if self.is_true(condition).await? {
                    return self.run_arm(body).await;
                }
            }
            self.run_arm(otherwise).await
        })
    }

    /// Runs a statement that may have something to wait for.
    pub(super) fn run_one<'a>(&'a mut self, kind: &'a Kind) -> LocalBoxFuture<'a, Result<Flow>> {
        env::boxed!(async move {
            match kind {
                Kind::Nothing => {}
                Kind::Block(block) => return self.run_block(block).await,
                Kind::Assign { target, value } => {
                    let (value, from) = self.eval(value).await?;
                    match &target.access {
                        None => self.store(target, value, from)?,
                        Some(_) => {
                            let target = self.settled(target).await?;
                            self.store(&target, value, from)?;
                        }
                    }
                }
                Kind::AssignWhole { target, from } => {
                    let item = self.item(from).await?;
                    let target = self.settled(target).await?;
                    self.store_whole(&target, item).await?;
                }
                Kind::Alter { target, method, args } => self.alter(target, *method, args).await?,
                Kind::CallLocal(call) => {
                    self.call_local(call).await?;
                }
                Kind::ReturnWith(assignment) => {
                    self.run_one(assignment).await?;
                    return Ok(Flow::Return);
                }
                Kind::ForAll { slot, over, save, body } => {
                    self.run_forall(*slot, over, *save, body).await?;
                }
                Kind::Seed(sql) => self.seed(sql).await?,
                Kind::Goto(label) => return Ok(Flow::Goto(label.clone())),
                Kind::Savepoint(name) => self.session.savepoint_within(name)?,
                Kind::RollbackTo(name) => self.rollback_to(name).await?,
                Kind::AssignElement { target, index, value } => {
                    self.assign_element(target, index, value).await?;
                }
                Kind::Copy { target, from } => {
                    let record = self.places[*from].record.clone().unwrap_or_default();
                    let Record { names, types, values, .. } = record;
                    let target = [Use::of(*target)];
                    self.take_row(&target, values, &names, &types)?;
                }
                Kind::If { arms, otherwise } => {
                    return self.run_arms(arms, otherwise).await;
                }
                Kind::Case { operand, arms, otherwise, slot } => {
                    return self
                        .run_case(operand.as_ref(), arms, otherwise.as_deref(), *slot)
                        .await;
                }
                Kind::Loop { .. }
                | Kind::While { .. }
                | Kind::Range { .. }
                | Kind::ForEach { .. }
                | Kind::ForRows { .. } => return self.run_loop(kind).await,
                Kind::Exit { label, when, again } => {
                    let goes = match when {
                        Some(when) => self.is_true(when).await?,
                        None => true,
                    };
                    return Ok(match (goes, again) {
                        (false, _) => Flow::Next,
                        (true, true) => Flow::Again(label.clone()),
                        (true, false) => Flow::Exit(label.clone()),
                    });
                }
                Kind::Return(returned) => {
                    if let Some(returned) = returned {
                        self.give_result(returned).await?;
                    }
                    return Ok(Flow::Return);
                }
                Kind::ReturnNext(returned) => match returned {
                    Some(returned) => self.give_result(returned).await?,
                    None => self.give_arguments()?,
                },
                Kind::ReturnQuery(rows) => self.give_rows(rows).await?,
                Kind::Call { sql, targets, query, name } => {
                    self.call(sql, targets, query.as_ref(), name).await?;
                }
                Kind::Sql { sql, into, perform, is_query } => {
                    if *is_query && into.is_none() && !perform {
                        return Err(PgError::syntax("query has no destination for result data")
                            .with_hint(
                                "If you want to discard the results of a SELECT, use PERFORM \
                                 instead.",
                            ));
                    }
                    let outer = std::mem::replace(&mut self.session.in_expression, *perform);
                    let done = self.run_sql(Source::Static(sql), into.as_ref(), *is_query).await;
                    self.session.in_expression = outer;
                    done?;
                }
                Kind::Execute(execute) => self.execute(execute).await?,
                Kind::Raise(raise) => self.raise(raise).await?,
                Kind::Assert { condition, message } => self.assert(condition, message).await?,
                Kind::Commit | Kind::Rollback => {
                    self.end_transaction(matches!(kind, Kind::Commit)).await?;
                }
                Kind::Diagnostics { stacked, items } => self.diagnose(*stacked, items)?,
                Kind::Open { cursor, args } => self.open(*cursor, args).await?,
                Kind::OpenFor { cursor, rows } => self.open_for(*cursor, rows).await?,
                Kind::Fetch { cursor, into } => self.fetch(*cursor, into).await?,
                Kind::Close { cursor } => {
                    self.close(*cursor)?;
                }
                Kind::Put { text, ends } => self.put(text.as_ref(), *ends).await?,
                Kind::Output(on) => self.switch_output(*on),
                Kind::TakeLine { line, status } => self.take_line(line, status).await?,
                Kind::Tell(told) => self.tell(told).await?,
                Kind::TellLong(call) => self.tell_long(call).await?,
                Kind::Gather(what) => self.gather(what).await?,
                Kind::System(call) => self.call_system(call).await?,
                Kind::Ask(asked) => self.ask(asked)?,
                Kind::Fail { number, message, keeps } => {
                    self.fail(number, message, keeps.as_ref()).await?;
                }
            }
            Ok(Flow::Next)
        })
    }

    async fn run_case(
        &mut self,
        operand: Option<&Sql>,
        arms: &[(Vec<Sql>, Vec<Statement>)],
        otherwise: Option<&[Statement]>,
        slot: Slot,
    ) -> Result<Flow> {
        if let Some(operand) = operand {
            let (value, ty) = self.eval(operand).await?;
            (self.places[slot].value, self.places[slot].ty) = (value, Some(ty));
        }
        for (tests, body) in arms {
            for test in tests {
                if self.is_true(test).await? {
                    return self.run_all(body).await;
                }
            }
        }
        match otherwise {
            Some(body) => self.run_all(body).await,
            None => Err(PgError::new("20000", "case not found")
                .with_hint("CASE statement is missing ELSE part.")),
        }
    }

    // ---- loops ------------------------------------------------------------------------------

    async fn run_loop(&mut self, kind: &Kind) -> Result<Flow> {
        match kind {
            Kind::Loop { label, body } => loop {
                if let Some(flow) = self.turn(label.as_deref(), body).await? {
                    return Ok(flow);
                }
            },
            Kind::While { label, condition, body } => {
                while self.is_true(condition).await? {
                    if let Some(flow) = self.turn(label.as_deref(), body).await? {
                        return Ok(flow);
                    }
                }
                Ok(Flow::Next)
            }
            Kind::Range { label, slot, reverse, from, to, step, body } => {
                let (low, high) = (self.limit(from).await?, self.limit(to).await?);
                let step = match step {
                    Some(step) => self.limit(step).await?,
                    None => 1,
                };
                if step <= 0 {
                    let text = "BY value of FOR loop must be greater than zero";
                    return Err(PgError::new("22023", text));
                }
                // The field writes the lower bound first in both directions.
                let (mut at, last, step) = match (reverse, self.dialect) {
                    (false, _) => (low, high, step),
                    (true, Dialect::Pg) => (low, high, -step),
                    (true, Dialect::Field) => (high, low, -step),
                };
                let mut turned = false;
                while if step > 0 { at <= last } else { at >= last } {
                    turned = true;
                    self.places[*slot] = match (self.dialect, i32::try_from(at)) {
                        (Dialect::Pg, Ok(at)) => Place::new(TypeKind::Int4, Value::Int4(at)),
                        _ => Place::new(TypeKind::Int8, Value::Int8(at)),
                    };
                    if let Some(flow) = self.turn(label.as_deref(), body).await? {
                        self.set_found(true);
                        return Ok(flow);
                    }
                    let Some(next) = at.checked_add(step) else { break };
                    at = next;
                }
                self.set_found(turned);
                Ok(Flow::Next)
            }
            Kind::ForEach { label, target, array, body } => {
                self.run_foreach(label.as_deref(), target, array, body).await
            }
            Kind::ForRows { label, targets, rows, body } => {
                self.run_rows(label.as_deref(), targets, rows, body).await
            }
            _ => Err(PgError::internal("no loop")),
        }
    }

    /// One turn of a loop; `Some`: it has ended.
    pub(super) async fn turn(
        &mut self,
        label: Option<&str>,
        body: &[Statement],
    ) -> Result<Option<Flow>> {
        self.session.ctx.check_interrupt()?;
        let own = |name: &Option<String>| name.is_none() || name.as_deref() == label;
        Ok(match self.run_all(body).await? {
            Flow::Next => None,
            Flow::Again(name) if own(&name) => None,
            Flow::Exit(name) if own(&name) => Some(Flow::Next),
            other => Some(other),
        })
    }

    pub(super) async fn limit(&mut self, sql: &Sql) -> Result<i64> {
        let (value, _) = self.eval(sql).await?;
        let ty = ColType::new(TypeKind::Int8);
        match self.converted(&value, ty)? {
            Value::Int8(bound) => Ok(bound),
            _ => Err(PgError::new("22004", "a bound of a FOR loop cannot be null")),
        }
    }

    async fn run_rows(
        &mut self,
        label: Option<&str>,
        targets: &[Use],
        rows: &Rows,
        body: &[Statement],
    ) -> Result<Flow> {
        let cursor = self.open_rows(rows).await?;
        let done = self.run_turns(cursor, label, targets, rows, body).await;
        // However the loop ends, its cursor is closed.
        if let Rows::Cursor(slot, _) = rows {
            self.note_cursor(*slot, Some(false), None);
        }
        done
    }

    async fn run_turns(
        &mut self,
        mut cursor: Cursor,
        label: Option<&str>,
        targets: &[Use],
        rows: &Rows,
        body: &[Statement],
    ) -> Result<Flow> {
        let mut turned = false;
        let into = Into::row(false, targets.to_vec());
        let first = self.next_row(&mut cursor).await?;
        if first.is_none() {
            self.take_nothing(&into, &cursor.names, &cursor.types)?;
        }
        let mut next = first;
        while let Some(row) = next.take() {
            turned = true;
            if let Rows::Cursor(slot, _) = rows {
                self.note_cursor(*slot, None, Some(true));
            }
            self.take_row(targets, row, &cursor.names, &cursor.types)?;
            if let Some(flow) = self.turn(label, body).await? {
                self.set_found(true);
                return Ok(flow);
            }
            next = self.next_row(&mut cursor).await?;
        }
        self.set_found(turned);
        Ok(Flow::Next)
    }

    pub(super) async fn open_rows(&mut self, rows: &Rows) -> Result<Cursor> {
        match rows {
            Rows::Static(sql) => self.cursor_of(Source::Static(sql)).await,
            Rows::Dynamic { text, using } => {
                let (text, types, values) = self.dynamic(text, using).await?;
                self.cursor_of(Source::Dynamic { text: &text, types: &types, values }).await
            }
            Rows::Cursor(slot, args) => {
                let query = self.query_of(*slot, args).await?;
                self.check_closed(*slot)?;
                let cursor = self.cursor_of(Source::Static(&query)).await?;
                self.note_cursor(*slot, Some(true), None);
                Ok(cursor)
            }
        }
    }

    // ---- values -----------------------------------------------------------------------------

    pub(super) async fn is_true(&mut self, condition: &Sql) -> Result<bool> {
        let (value, _) = self.eval(condition).await?;
        self.truth(&value)
    }

    /// Whether the value of a condition is true.
    pub(super) fn truth(&self, value: &Value) -> Result<bool> {
        if let Value::Bool(truth) = value {
            return Ok(*truth);
        }
        let held = self.converted(value, ColType::new(TypeKind::Bool))?;
        Ok(matches!(held, Value::Bool(true)))
    }

    /// A value as a variable of a type takes it.
    pub(super) fn converted(&self, value: &Value, ty: ColType) -> Result<Value> {
        let done = cast(&value.as_datum(), ty, CastMode::Assignment, &self.session.format_env());
        if self.dialect == Dialect::Pg {
            return done;
        }
        let done = done.map_err(of_code)?;
        // PostgreSQL cuts blanks that are too many, also where it assigns.
        let is_cut = match (value, &done) {
            (Value::Text(from), Value::Text(to)) => to.len() < from.len(),
            _ => false,
        };
        match is_cut && ty.kind == TypeKind::Varchar {
            true => Err(PgError::new("22001", format!("value too long for type {ty}"))),
            false => Ok(done),
        }
    }

    pub(super) fn set_found(&mut self, found: bool) {
        self.places[FOUND].value = Value::Bool(found);
        self.places[NOT_FOUND].value = Value::Bool(!found);
    }

    // ---- transactions -----------------------------------------------------------------------

    async fn end_transaction(&mut self, commits: bool) -> Result<()> {
        // What the message has done before would be committed with it.
        if self.session.blocks_that_hold > 0 || !self.session.is_first {
            let what = if commits { "commit" } else { "roll back" };
            let text = match self.guarded > 0 && self.dialect == Dialect::Pg {
                true => format!("cannot {what} while a subtransaction is active"),
                false => "invalid transaction termination".to_owned(),
            };
            return Err(PgError::new("2D000", text));
        }
        self.session.end_within(commits).await
    }

    /// Goes back to a savepoint that was set since the statement began, or by the client.
    async fn rollback_to(&mut self, name: &str) -> Result<()> {
        let holds = self.session.blocks_that_hold > 0;
        self.session.rollback_to_within(name, self.savepoints, holds).await
    }

    /// Says where an error happened, the innermost place first.
    fn at_line(&mut self, mut error: PgError, statement: &Statement) -> PgError {
        error.position = None;
        if std::mem::replace(&mut self.located, true) {
            return error;
        }
        let inside = error.about.as_deref().is_some_and(|about| about.context.is_some());
        if !inside && self.number.is_none() && statement.kind.changes_rows() {
            self.number = number_in_change(&error);
        }
        let (line, what) = (statement.line, statement.kind.name());
        let place = match self.is_sql {
            true => format!("{} statement {line}", self.shown),
            false => format!("{} line {line} at {what}", self.shown),
        };
        let about = error.about.get_or_insert_default();
        about.context = Some(match about.context.take() {
            Some(inner) => format!("{inner}\n{place}"),
            None => place,
        });
        error
    }

    /// What a statement that fails goes back to, by itself: the field's blocks go on with what was
    /// done before, also by the routines that they call.
    pub(super) fn mark_of_statement(&mut self) -> Option<crate::session::Mark> {
        match self.session.blocks_that_catch > 0 {
            true => self.session.mark_within(),
            false => None,
        }
    }

    pub(super) async fn settle_statement<T>(
        &mut self,
        mark: Option<crate::session::Mark>,
        done: Result<T>,
    ) -> Result<T> {
        if let (Err(_), Some(mark)) = (&done, mark) {
            self.session.rollback_within(mark).await?;
        }
        done
    }
}

/// The type of a column as far as one can say without its table.
pub(crate) fn type_of(column: &query::PgColumn) -> ColType {
    match query::types::col_type_of_oid(column.oid) {
        Some(ty) if ty.modifier == -1 => ColType { kind: ty.kind, modifier: column.typmod },
        // What its modifier says is known by its number: arrays, cursors.
        Some(ty) => ty,
        None => ColType::new(TypeKind::Enum),
    }
}
