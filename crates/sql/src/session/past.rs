//! Moments of the past: the SCN that a table is read as of, `timestamp_to_scn`, `scn_to_timestamp`.
//!
//! What it promises: an SCN of the past, or an error that says what is wrong with it. What it must
//! never do: let a statement read as of an SCN that commits may still be given.

use super::Session;
use crate::bind::SessionFn;
use crate::encode::{Nowhere, TakenRows};
use crate::parse::parse_single;
use crate::planning::Counted;
use crate::{EPOCH_US, PgError, Result};
use block::Scn;
use kernel::row::{ColType, TypeKind, Value};
use query::cast::{CastMode, cast};
use query::types::PgType;
use query::wire::FormatEnv;

fn too_early(earliest_us: Option<i64>) -> PgError {
    let error = PgError::new("72000", "no SCN is known of that time");
    match earliest_us.and_then(shown) {
        Some(text) => error.with_hint(format!("This instance knows them since {text} (UTC).")),
        None => error,
    }
}

/// A moment as a text.
fn shown(wall_us: i64) -> Option<String> {
    let at = Value::Timestamp(wall_us - EPOCH_US);
    let env = query::wire::FormatEnv::plain();
    Some(query::wire::to_text(&at.as_datum(), &env))
}

fn invalid(what: impl std::fmt::Display) -> PgError {
    PgError::new("22023", format!("{what} is no system change number of the past"))
        .with_hint("current_scn of v$database is the newest one there is.")
}

impl Session {
    /// The SCN that a clause asks for, by a query of its own.
    pub(super) async fn past_scn(&mut self, args: &[Value]) -> Result<Value> {
        let Some((is_scn, text, params)) = crate::idioms::past::asked(args) else {
            return Err(PgError::internal("a moment that is none"));
        };
        let value = self.first_value(text, params.to_vec()).await?;
        match (is_scn, value) {
            (_, Value::Null) => Err(PgError::new("22004", "AS OF of NULL")),
            (true, Value::Int8(scn)) => {
                self.checked_scn(scn).map(|scn| Value::Int8(scn_value(scn)))
            }
            (false, Value::Timestamptz(at)) => self.scn_of_time(at),
            _ => Err(PgError::internal("a moment of another type")),
        }
    }

    pub(super) fn scn_and_time(
        &self,
        function: SessionFn,
        args: &[Value],
        env: &FormatEnv,
    ) -> Result<Value> {
        let kind = match function {
            SessionFn::TimestampToScn => TypeKind::Timestamptz,
            _ => TypeKind::Int8,
        };
        let [given] = args else {
            let text = "timestamp_to_scn and scn_to_timestamp have one argument";
            return Err(PgError::new("42883", text));
        };
        match cast(&given.as_datum(), ColType::new(kind), CastMode::Explicit, env)? {
            Value::Timestamptz(at) => self.scn_of_time(at),
            Value::Int8(scn) => {
                let times = &self.instance.scn_times;
                let scn = self.checked_scn(scn)?;
                // What no look has shown yet is of now.
                let newest = || self.ctx.env.wall_us();
                let known = times.time_of(scn);
                let at = match known {
                    None if times.earliest().and_then(|e| times.scn_at(e)) > Some(scn) => {
                        return Err(too_early(times.earliest()));
                    }
                    known => known.unwrap_or_else(newest),
                };
                Ok(Value::Timestamptz(at - EPOCH_US))
            }
            _ => Ok(Value::Null),
        }
    }

    fn checked_scn(&self, scn: i64) -> Result<Scn> {
        let known = u64::try_from(scn).ok().map(Scn);
        let past = known.filter(|scn| *scn > Scn::ZERO && *scn <= self.instance.core.current_scn());
        past.ok_or_else(|| invalid(scn))
    }

    fn scn_of_time(&self, at: i64) -> Result<Value> {
        let wall_us = at.saturating_add(EPOCH_US);
        if wall_us > self.ctx.env.wall_us() {
            return Err(PgError::new("22023", "AS OF a time that is still to come"));
        }
        let times = &self.instance.scn_times;
        let scn = times.scn_at(wall_us).ok_or_else(|| too_early(times.earliest()))?;
        Ok(Value::Int8(scn_value(scn)))
    }

    /// The one value of a query, with the statement's own parameters.
    async fn first_value(&mut self, text: &str, params: Vec<Value>) -> Result<Value> {
        let type_of = |value: &Value| {
            query::cast::kind_of(&value.as_datum())
                .map_or(0, |kind| PgType::of(ColType::new(kind)).oid)
        };
        let types: Vec<u32> = params.iter().map(type_of).collect();
        let statement = parse_single(text)?;
        let prepared = self.prepare_within(statement, &types, Counted::UnlessValues).await?;
        let taken = TakenRows::default();
        let mut portal = crate::pl::portal_of(prepared, &taken);
        let mut nowhere = Nowhere::default();
        self.run_within(&mut portal, params, 0, &mut nowhere).await?;
        let row = taken.lock().drain(..).next();
        Ok(row.and_then(|row| row.into_iter().next()).unwrap_or(Value::Null))
    }
}

fn scn_value(scn: Scn) -> i64 {
    i64::try_from(scn.0).unwrap_or(i64::MAX)
}
