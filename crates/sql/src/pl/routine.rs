//! Stored functions and procedures: their bodies made ready, and run.
//!
//! What it promises: a body is read once for all who call it, and its statements are planned once
//! for each session. What it must never do: use a stack that is not there; recursion without an end
//! is an error.

use super::conditions::of_code;
use super::exec::{Ready, Source};
use super::parse::{Argument, Around, Returning, parse_routine, parse_sql};
use super::run::Machine;
use super::tree::{Dialect, Program, Returned, Rows, Slot, Sql, Use};
use crate::plan::Kind as PlanKind;
use crate::session::Session;
use crate::{PgError, Result};
use kernel::dict::{ArgumentDef, ArgumentMode, RoutineDef, RoutineResult};
use kernel::row::{ColType, TypeKind, Value};
use query::cast::{CastMode, cast, kind_of};
use query::row_calls::RowCalls;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Routines whose plans a session keeps.
const KEPT_MAX: usize = 200;
/// Runs within one another for which it keeps them.
const DEPTH_KEPT_MAX: usize = 100;

/// Plans of a body's statements.
type Plans = Vec<Option<Ready>>;

/// What a session has planned of the routines it has called, by number: for each as often as it has
/// run within itself.
#[derive(Default)]
pub(crate) struct RoutinePlans(BTreeMap<u32, (Arc<Program>, Vec<Plans>)>);

impl RoutinePlans {
    fn take(&mut self, obj: u32, program: &Arc<Program>) -> Plans {
        match self.0.get_mut(&obj) {
            Some((known, free)) if Arc::ptr_eq(known, program) => free.pop().unwrap_or_default(),
            _ => Vec::new(),
        }
    }

    fn keep(&mut self, obj: u32, program: Arc<Program>, ready: Plans) {
        if self.0.len() >= KEPT_MAX {
            self.0.clear();
        }
        let (known, free) = self.0.entry(obj).or_insert_with(|| (program.clone(), Vec::new()));
        if !Arc::ptr_eq(known, &program) {
            (*known, *free) = (program, Vec::new());
        }
        if free.len() < DEPTH_KEPT_MAX {
            free.push(ready);
        }
    }
}

/// How errors name a routine.
fn shown(def: &RoutineDef) -> String {
    match def.body.language.as_str() {
        "sql" => format!("SQL function \"{}\"", def.name),
        _ => format!("PL/pgSQL function {}({})", def.name, def.signature),
    }
}

fn returning(def: &RoutineDef) -> Returning {
    let columns = def.body.args.iter().any(|arg| arg.mode.is_result());
    match (def.body.set, def.body.result) {
        (true, _) => Returning::Set(columns),
        (false, RoutineResult::Void) => Returning::Nothing,
        (false, _) if columns => Returning::Arguments,
        (false, RoutineResult::Type(_)) => Returning::Value,
        (false, RoutineResult::Record | RoutineResult::Row(_)) => Returning::Row,
    }
}

/// Reads a routine's body.
///
/// # Errors
/// 42601, and what else is wrong with it.
pub(crate) fn check_body(def: &RoutineDef) -> Result<()> {
    super::check::check(&compile(def)?, &def.name)
}

fn compile(def: &RoutineDef) -> Result<Program> {
    let body = &def.body;
    // A date in the field's form is kept as a timestamp.
    let is_date = |arg: &ArgumentDef| arg.ty.kind == TypeKind::Timestamp;
    let known = body.args.iter();
    let args = known
        .map(|arg| Argument {
            name: &arg.name,
            mode: arg.mode,
            is_date: is_date(arg),
            is_cursor: arg.ty.is_ref_cursor(),
        })
        .collect();
    let first = super::head::head_of(&body.options).and_then(super::head::first_name);
    let name = first.as_deref().unwrap_or(&def.name);
    let around = Around { name, args, returning: returning(def), shown: shown(def) };
    match body.language.as_str() {
        "sql" => parse_sql(&body.text, &around),
        "plsql" => parse_routine(&body.text, Dialect::Field, &around),
        _ => parse_routine(&body.text, Dialect::Pg, &around),
    }
}

/// An error in a routine's body, whose places are none of the statement that calls it.
fn without_position(error: PgError) -> PgError {
    PgError { position: None, ..error }
}

fn program_of(def: &RoutineDef) -> Result<Arc<Program>> {
    if let Some(known) = def.derived.get::<Program>() {
        return Ok(known);
    }
    let program = Arc::new(compile(def).map_err(without_position)?);
    def.derived.put(program.clone());
    Ok(def.derived.get().unwrap_or(program))
}

impl Session {
    /// Runs a routine with a value for each argument that a call gives. Its rows: one of a routine
    /// that gives no set; of no columns where it gives nothing.
    ///
    /// `columns`: the types of its result; `holds`: its caller is a statement, so it may not end
    /// the transaction.
    pub(crate) async fn run_routine(
        &mut self,
        def: &Arc<RoutineDef>,
        args: Vec<Value>,
        columns: &[ColType],
        holds: bool,
    ) -> Result<Vec<Vec<Value>>> {
        if def.body.strict && args.contains(&Value::Null) {
            return Ok(match def.body.set {
                true => Vec::new(),
                false => vec![vec![Value::Null; columns.len()]],
            });
        }
        crate::depth::check_calls()?;
        self.ctx.check_interrupt()?;
        let program = program_of(def)?;
        let ready = self.routine_plans.take(def.obj.0, &program);
        // What the statement around is at stays its own affair.
        let running = self.running.take();
        let parts = std::mem::take(&mut self.parts);
        // Rows of the statement around wait with their calls: these are not the routine's.
        let (calls, called) = RowCalls::new();
        let calls = std::mem::replace(&mut self.row_calls, calls);
        let called = std::mem::replace(&mut self.called, called);
        self.blocks_that_hold += usize::from(holds);
        let in_expression = std::mem::take(&mut self.in_expression);
        let outer_code = self.ctx.session.enter_code(def.obj.0);
        let mut machine = Machine::new(self, &program, ready);
        let done = env::boxed!(machine.run_body(def, args, columns, &program)).await;
        let ready = std::mem::take(&mut machine.ready);
        self.blocks_that_hold -= usize::from(holds);
        self.in_expression = in_expression;
        self.ctx.session.leave_code(outer_code);
        (self.running, self.parts) = (running, parts);
        (self.row_calls, self.called) = (calls, called);
        self.routine_plans.keep(def.obj.0, program, ready);
        done.map_err(without_position)
    }
}

impl Machine<'_> {
    async fn run_body(
        &mut self,
        def: &RoutineDef,
        args: Vec<Value>,
        columns: &[ColType],
        program: &Program,
    ) -> Result<Vec<Vec<Value>>> {
        self.columns = columns.to_vec();
        let mut values = args.into_iter();
        let mut slots = Slots { given: &program.given, results: &program.results };
        for arg in &def.body.args {
            let (given, result) = (arg.mode.is_given(), arg.mode.is_result());
            let Some(slot) = slots.next(given, result) else { continue };
            let value = if given { values.next().unwrap_or(Value::Null) } else { Value::Null };
            // As variables of such types are.
            let is_enum = arg.ty.kind == TypeKind::Enum;
            let ty = if is_enum { ColType::new(TypeKind::Text) } else { arg.ty };
            let value = self.as_type(value, ty, CastMode::Assignment)?;
            let place = &mut self.places[slot];
            place.name.clone_from(&arg.name);
            (place.value, place.ty) = (value, (!is_enum).then_some(arg.ty));
            place.constant = def.body.language == "plsql" && arg.mode == ArgumentMode::In;
            self.lend(slot);
        }
        let returned = self.run(program).await?;
        let body = &def.body;
        if body.set {
            return Ok(std::mem::take(&mut self.given));
        }
        if !program.results.is_empty() && !program.is_sql {
            let of_procedure = self.given.is_empty();
            if of_procedure {
                self.give(&program.results)?;
            }
        }
        if let Some(row) = self.given.pop() {
            return Ok(vec![row]);
        }
        match body.result {
            RoutineResult::Void => Ok(vec![Vec::new()]),
            // A query of SQL that finds nothing gives NULL.
            _ if program.is_sql => Ok(vec![vec![Value::Null; columns.len()]]),
            _ => {
                debug_assert!(!returned);
                let text = "control reached end of function without RETURN";
                let mut error = PgError::new("2F005", text);
                error.about.get_or_insert_default().context = Some(program.shown.clone());
                Err(error)
            }
        }
    }

    fn as_type(&self, value: Value, ty: ColType, mode: CastMode) -> Result<Value> {
        if value.is_null() || (kind_of(&value.as_datum()) == Some(ty.kind) && ty.modifier == -1) {
            return Ok(value);
        }
        let done = cast(&value.as_datum(), ty, mode, &self.session.format_env());
        match self.dialect {
            Dialect::Field => done.map_err(of_code),
            Dialect::Pg => done,
        }
    }

    /// One more row of the result, each value as its column wants it.
    fn give_row(&mut self, row: Vec<Value>) -> Result<()> {
        let wanted = self.columns.len();
        if row.len() != wanted {
            let (got, text) = (row.len(), "structure of query does not match function result type");
            return Err(PgError::new("42804", text).with_detail(format!(
                "Number of returned columns ({got}) does not match expected column count \
                 ({wanted})."
            )));
        }
        let mut out = Vec::with_capacity(wanted);
        for (value, ty) in row.into_iter().zip(self.columns.clone()) {
            let mode = match ty.kind {
                TypeKind::Enum => CastMode::Explicit,
                _ => CastMode::Assignment,
            };
            out.push(self.as_type(value, ty, mode)?);
        }
        self.given.push(out);
        Ok(())
    }

    /// What these variables hold, as a row.
    fn give(&mut self, slots: &[Slot]) -> Result<()> {
        let row = slots.iter().map(|slot| self.places[*slot].value.clone()).collect();
        self.give_row(row)
    }

    pub(super) fn give_arguments(&mut self) -> Result<()> {
        let slots = self.results.clone();
        self.give(&slots)
    }

    pub(super) async fn give_result(&mut self, returned: &Returned) -> Result<()> {
        let row = match returned {
            Returned::Value(sql) => {
                if self.columns.len() != 1 {
                    let text = "cannot return non-composite value from function returning \
                                composite type";
                    return Err(PgError::new("42804", text));
                }
                let (value, _) = self.eval(sql).await?;
                vec![value]
            }
            Returned::Record(slot) => {
                let record = self.places[*slot].record.clone().unwrap_or_default();
                // One that nothing was assigned to is NULL.
                match record.names.is_empty() {
                    true => vec![Value::Null; self.columns.len()],
                    false => record.values,
                }
            }
            Returned::First(sql) => {
                let Some(row) = self.first_row(sql).await? else { return Ok(()) };
                row
            }
        };
        self.give_row(row)
    }

    pub(super) async fn give_rows(&mut self, rows: &Rows) -> Result<()> {
        let mut cursor = self.open_rows(rows).await?;
        let before = self.given.len();
        while let Some(row) = self.next_row(&mut cursor).await? {
            self.session.ctx.check_interrupt()?;
            self.give_row(row)?;
        }
        let count = self.given.len() - before;
        self.places[super::tree::ROW_COUNT].value =
            Value::Int8(i64::try_from(count).unwrap_or(i64::MAX));
        self.set_found(count > 0);
        Ok(())
    }

    /// Calls a procedure, or a function for what it does.
    pub(super) async fn call(
        &mut self,
        sql: &Sql,
        targets: &[Option<Use>],
        query: Option<&Sql>,
        name: &[String],
    ) -> Result<()> {
        if let Some(query) = query
            && !self.session.is_procedure(name).await?
        {
            let outer = std::mem::replace(&mut self.session.in_expression, true);
            let done = self.run_sql(Source::Static(query), None, true).await;
            self.session.in_expression = outer;
            return match self.dialect {
                Dialect::Field => done.map_err(|error| no_procedure(error, query, name)),
                Dialect::Pg => done,
            };
        }
        let (planned, values) = self.bound(Source::Static(sql)).await?;
        let (rows, _) = self.run_whole(&planned.prepared, values).await?;
        let PlanKind::Call(call) = &planned.prepared.plan.kind else { return Ok(()) };
        let Some(row) = rows.into_iter().next() else { return Ok(()) };
        let names = planned.prepared.columns.iter().map(|column| column.name.as_str());
        let types = planned.columns.iter();
        for (((value, ty), out), name) in row.into_iter().zip(types).zip(&call.outs).zip(names) {
            let target = out.and_then(|at| targets.get(at)).and_then(Option::as_ref);
            let Some(target) = target else {
                let text = format!(
                    "procedure parameter \"{name}\" is an output parameter but corresponding \
                     argument is not writable"
                );
                return Err(PgError::new("42601", text));
            };
            self.store(target, value, *ty)?;
        }
        Ok(())
    }
}

/// What a call fails with that is none of a function: there is no such procedure. An error of what
/// was found and called stays as it is.
fn no_procedure(error: PgError, query: &Sql, name: &[String]) -> PgError {
    if error.about.as_deref().is_some_and(|about| about.context.is_some()) {
        return error;
    }
    let name = name.join(".");
    let is_bare = !query.text.ends_with(')');
    let called = match error.code {
        // It was looked for among columns, too.
        "42703" | "42P01" if is_bare => format!("{name}()"),
        "42883" => match error.message.strip_prefix("function ") {
            Some(called) if called.starts_with(&format!("{name}(")) => {
                called.trim_end_matches(" does not exist").to_owned()
            }
            _ => return error,
        },
        _ => return error,
    };
    PgError::new("42883", format!("procedure {called} does not exist")).with_hint(
        "No procedure matches the given name and argument types. You might need to add explicit \
         type casts.",
    )
}

/// Places of arguments in the order in which they stand.
struct Slots<'a> {
    given: &'a [Slot],
    results: &'a [Slot],
}

impl Slots<'_> {
    fn next(&mut self, given: bool, result: bool) -> Option<Slot> {
        let mut slot = None;
        if given && let Some((first, rest)) = self.given.split_first() {
            (slot, self.given) = (Some(*first), rest);
        }
        if result && let Some((first, rest)) = self.results.split_first() {
            (slot, self.results) = (Some(*first), rest);
        }
        slot
    }
}
