//! Calls of stored functions in expressions.
//!
//! What it promises: one whose arguments are constants is called once before the statement, unless
//! each row must call it; all others are called by the rows. What it must never do: call one that
//! may have to be left out.

use super::scalar::{ScalarBinder, Typed};
use super::{Binder, HiddenCall, SessionFn};
use crate::routines::{RoutineRef, choose, given, is_untyped};
use crate::{PgError, Result};
use block::ObjId;
use datafusion::sql::sqlparser::ast::Expr;
use kernel::dict::Routines;
use kernel::row::ColType;
use query::Scalar;
use std::sync::Arc;

fn lost() -> PgError {
    PgError::internal("a call of a routine that was not looked up")
}

impl ScalarBinder<'_> {
    fn routines(&self) -> Result<Arc<Routines>> {
        self.params.routines.clone().ok_or_else(lost)
    }

    /// A call whose arguments need no row; `None`: they have to be planned.
    pub(super) fn routine(&mut self, candidates: &[ObjId], args: &[Expr]) -> Result<Option<Typed>> {
        let Some((called, args)) = self.routine_call(candidates, args)? else { return Ok(None) };
        self.session(SessionFn::Routine(called), args)
    }

    pub(super) fn routine_call(
        &mut self,
        candidates: &[ObjId],
        args: &[Expr],
    ) -> Result<Option<(RoutineRef, Vec<Scalar>)>> {
        let mut bound = Vec::with_capacity(args.len());
        for arg in args {
            let Some(typed) = ScalarBinder::constants(self.params).bind(arg)? else {
                return Ok(None);
            };
            bound.push(typed);
        }
        let routines = self.routines()?;
        let types: Vec<Option<ColType>> = bound.iter().map(|typed| typed.ty).collect();
        let def = choose(&routines, candidates, &types)?;
        let mut all = Vec::with_capacity(bound.len());
        for (typed, arg) in bound.into_iter().zip(given(def)) {
            let Some(scalar) = self.adopt(typed, arg.ty)? else { return Ok(None) };
            all.push(scalar);
        }
        Ok(Some((RoutineRef::of(def)?, all)))
    }
}

impl Binder<'_> {
    pub(super) fn routine(
        &mut self,
        candidates: &[ObjId],
        lazy: bool,
        mut args: Vec<Expr>,
    ) -> Result<Expr> {
        let routines = self.params.routines.clone().ok_or_else(lost)?;
        let volatile = candidates
            .iter()
            .filter_map(|obj| routines.by_obj(*obj))
            .any(|def| RoutineRef::of(def).is_ok_and(|called| called.volatile));
        let once = !lazy && (self.one_row || !volatile);
        if once {
            let before = self.params.hidden.len();
            let mut constants = ScalarBinder::constants(self.params);
            let found = constants.routine_call(candidates, &args)?;
            // Rows have values of their own where one of the arguments has.
            let each = |call: &HiddenCall| call.function.per_row();
            let alike = self.one_row || !self.params.hidden[before..].iter().any(each);
            match found.filter(|_| alike) {
                Some((called, args)) => {
                    let call = HiddenCall { function: SessionFn::Routine(called), args };
                    return Ok(Binder::placeholder(self.params.add_hidden(call)));
                }
                None => self.params.hidden.truncate(before),
            }
        }
        // A parameter takes the type of the argument, if there is one routine.
        if let [one] = candidates
            && let Some(def) = routines.by_obj(*one)
        {
            RoutineRef::of(def)?;
            for (arg, wanted) in args.iter().zip(given(def)) {
                crate::planning::note_parameter(arg, wanted.ty, self.params)?;
            }
        }
        let mask: String = args.iter().map(|arg| if is_untyped(arg) { '1' } else { '0' }).collect();
        self.all(args.iter_mut())?;
        let objs: Vec<String> = candidates.iter().map(|obj| obj.0.to_string()).collect();
        let name = format!("{}:{mask}", objs.join(","));
        if self.references.routines.iter().all(|(known, _)| *known != name) {
            self.references.routines.push((name.clone(), candidates.to_vec()));
        }
        Ok(super::call(&query::row_calls::routine_name(&name), args))
    }
}
