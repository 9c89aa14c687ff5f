//! Statements of procedural code that have nothing to wait for: they are run without a future.
//!
//! What it promises: what is run here does what [`Machine::run_one`] would have it do; of what
//! cannot be, nothing has been done. What it must never do: plan, or run what may call code.

use super::conditions::of_code;
use super::exec::Given;
use super::names::ALL_FIELDS;
use super::run::{Flow, Machine};
use super::tree::{Access, Dialect, Into, Kind, Sql, Statement, Use};
use crate::key_read::{AtOnce, RowBegun};
use crate::plan::{Direct, Kind as PlanKind};
use crate::{PgError, Result};
use futures::future::LocalBoxFuture;
use kernel::row::{ColType, TypeKind, Value};
use query::scalar::EvalContext;

/// What came of a statement at once.
pub(super) enum Now<'k> {
    Done(Result<Flow>),
    /// It goes on with these.
    Body(&'k [Statement]),
    /// Of an IF: none of the conditions before these arms holds.
    Arms(&'k [(Sql, Vec<Statement>)], &'k [Statement]),
    /// It reads a row that is to be waited for.
    Waits(Box<SelectBegun<'k>>),
    /// Nothing: it is to be run as any other.
    Nothing,
}

/// `SELECT … INTO` that waits for its row.
pub(super) struct SelectBegun<'k> {
    sql: &'k Sql,
    into: &'k Into,
    values: Vec<Value>,
    row: RowBegun,
}

/// A variable that an expression is, and which part of it.
pub(super) fn by_itself(sql: &Sql) -> Option<(&Use, Option<&Access>)> {
    match &sql.uses[..] {
        [used] if sql.text == "$1" && used.field.is_none() => Some((used, used.access.as_deref())),
        _ => None,
    }
}

impl Machine<'_> {
    /// Runs a statement as far as nothing has to be waited for.
    pub(super) fn run_at_once<'k>(&mut self, kind: &'k Kind) -> Now<'k> {
        let done = match kind {
            Kind::Nothing => Some(Ok(Flow::Next)),
            Kind::Assign { target, value } if target.access.is_none() => {
                self.told_at_once(value).map(|done| {
                    let (value, from) = done?;
                    self.store(target, value, from).map(|()| Flow::Next)
                })
            }
            Kind::If { arms, otherwise } => return self.arm_at_once(arms, otherwise),
            Kind::Exit { label, when, again } => {
                let goes = match when {
                    Some(when) => self.truth_at_once(when),
                    None => Some(Ok(true)),
                };
                goes.map(|goes| {
                    Ok(match (goes?, again) {
                        (false, _) => Flow::Next,
                        (true, true) => Flow::Again(label.clone()),
                        (true, false) => Flow::Exit(label.clone()),
                    })
                })
            }
            Kind::Sql { sql, into: Some(into), perform: false, is_query: true } => {
                return self.select_at_once(sql, into).unwrap_or(Now::Nothing);
            }
            _ => None,
        };
        done.map_or(Now::Nothing, Now::Done)
    }

    fn arm_at_once<'k>(
        &self,
        arms: &'k [(Sql, Vec<Statement>)],
        otherwise: &'k [Statement],
    ) -> Now<'k> {
        for (at, (condition, body)) in arms.iter().enumerate() {
            match self.truth_at_once(condition) {
                // What has been asked is not asked again: it may be another by then.
                None => return Now::Arms(&arms[at..], otherwise),
                Some(Err(error)) => return Now::Done(Err(error)),
                Some(Ok(true)) => return Now::Body(body),
                Some(Ok(false)) => {}
            }
        }
        match otherwise.is_empty() {
            true => Now::Done(Ok(Flow::Next)),
            false => Now::Body(otherwise),
        }
    }

    /// Whether a condition holds.
    fn truth_at_once(&self, condition: &Sql) -> Option<Result<bool>> {
        let done = self.told_at_once(condition)?;
        Some(done.and_then(|(value, _)| self.truth(&value)))
    }

    /// The value of an expression, with the errors that the code's language has.
    fn told_at_once(&self, sql: &Sql) -> Option<Result<(Value, ColType)>> {
        let done = self.value_at_once(sql)?;
        Some(match self.dialect {
            Dialect::Field => done.map_err(of_code),
            Dialect::Pg => done,
        })
    }

    /// The value of an expression, and its type, if its plan is at hand and nothing in it waits.
    pub(super) fn value_at_once(&self, sql: &Sql) -> Option<Result<(Value, ColType)>> {
        // A variable by itself, or a constant.
        if let Some((used, access)) = by_itself(sql) {
            if let Some(access) = access {
                let typed = self.quick(used, access)?;
                let of = |ty: Option<ColType>| ty.unwrap_or(ColType::new(TypeKind::Text));
                return Some(typed.map(|(value, ty)| (value, of(ty))));
            }
            if let Some(ty) = self.places[used.slot].ty {
                return Some(Ok((self.places[used.slot].value.clone(), ty)));
            }
        }
        let values = match self.values_at_once(sql)? {
            Ok(values) => values,
            Err(error) => return Some(Err(error)),
        };
        let planned = &self.ready[sql.id].as_ref()?.planned;
        let ([ty], prepared) = (&planned.columns[..], &planned.prepared) else { return None };
        let PlanKind::Direct(direct) = &prepared.plan.kind else { return None };
        let Direct::Values(output) = &**direct else { return None };
        let [one] = &output[..] else { return None };
        let env = self.session.format_env();
        let evaluated = || {
            let mut values = self.given(prepared, values)?;
            if !self.calls_at_once(prepared, &env, &mut values)? {
                return Ok(None);
            }
            let cx = EvalContext { row: None, params: &values, env: &env };
            Ok(Some((one.eval(&cx)?.into_value(), *ty)))
        };
        evaluated().transpose()
    }

    /// The values for a statement of the block whose plan is at hand. `None`: it is not, or a value
    /// has to be worked out.
    pub(super) fn values_at_once(&self, sql: &Sql) -> Option<Result<Vec<Value>>> {
        let ready = self.ready.get(sql.id)?.as_ref()?;
        if ready.types.len() != sql.uses.len() || !self.session.serves(&ready.planned.prepared) {
            return None;
        }
        let mut values = Vec::with_capacity(sql.uses.len());
        for (used, wanted) in sql.uses.iter().zip(&ready.types) {
            if used.field.as_deref() == Some(ALL_FIELDS) {
                return None;
            }
            let found = match &used.access {
                None => self.value_of(used),
                Some(access) => self.quick(used, access)?.map(|(value, ty)| (value, Given::of(ty))),
            };
            match found {
                Ok((value, ty)) if ty == *wanted => values.push(value),
                Ok(_) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
        Some(Ok(ready.taken(values)))
    }

    /// Reads the row of a key into variables. `None`: nothing has been done.
    fn select_at_once<'k>(&mut self, sql: &'k Sql, into: &'k Into) -> Option<Now<'k>> {
        if into.bulk || into.targets.iter().any(|target| target.access.is_some()) {
            return None;
        }
        let planned = &self.ready.get(sql.id)?.as_ref()?.planned;
        let plan = &planned.prepared.plan;
        let PlanKind::Direct(direct) = &plan.kind else { return None };
        // What a lock has changed is to be taken back if it fails.
        let reads = matches!(&**direct, Direct::Select(select) if select.lock.is_none());
        if !reads || !plan.hidden.is_empty() {
            return None;
        }
        let begin = |values: Result<Vec<Value>>| {
            let values = self.given(&planned.prepared, values?)?;
            if self.dialect == Dialect::Field {
                self.check_targets(&into.targets, planned.columns.len())?;
            }
            Ok(values)
        };
        let values = match begin(self.values_at_once(sql)?) {
            Ok(values) => values,
            Err(error) => return Some(Now::Done(Err(error))),
        };
        Some(match self.session.row_at_once(&planned.prepared, direct, &values) {
            AtOnce::Done(row) => Now::Done(self.take_selected(sql, into, row)),
            AtOnce::Waits(row) => Now::Waits(Box::new(SelectBegun { sql, into, values, row })),
        })
    }

    /// Goes on with one that waits for its row. What it is made of is no part of its caller's type,
    /// which is deep enough.
    pub(super) fn select_on<'a>(
        &'a mut self,
        begun: SelectBegun<'a>,
    ) -> LocalBoxFuture<'a, Result<Flow>> {
        env::boxed!(self.select_waiting(begun))
    }

    async fn select_waiting(&mut self, begun: SelectBegun<'_>) -> Result<Flow> {
        let SelectBegun { sql, into, values, row } = begun;
        let ready = self.ready[sql.id].as_ref();
        let planned = &ready.ok_or_else(|| PgError::internal("no plan"))?.planned;
        let PlanKind::Direct(direct) = &planned.prepared.plan.kind else {
            return Err(PgError::internal("only a read of a row waits"));
        };
        let row = self.session.row_on(&planned.prepared, direct, &values, row).await;
        self.take_selected(sql, into, row)
    }

    /// The variables take the row.
    fn take_selected(
        &mut self,
        sql: &Sql,
        into: &Into,
        row: Result<Option<Vec<Value>>>,
    ) -> Result<Flow> {
        let row = row?;
        self.note_rows(u64::from(row.is_some()), true);
        let ready = self.ready[sql.id].as_ref();
        let planned = &ready.ok_or_else(|| PgError::internal("no plan"))?.planned;
        let (names, columns) = (planned.names.clone(), planned.columns.clone());
        self.take_first(into, &into.targets, row, (&names, &columns), true)?;
        Ok(Flow::Next)
    }
}
