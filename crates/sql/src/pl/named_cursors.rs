//! Cursors that variables name: those of the session, which routines and the client may be given.
//!
//! What it promises: a variable that is assigned or handed on is the same cursor; in the field's
//! language a cursor goes when the code ends that has opened it, unless it is given on. What it
//! must never do: close a cursor that was lent.

use super::elements::{Typed, is_constant};
use super::exec::Source;
use super::run::Machine;
use super::tree::{CursorDef, CursorFact, Dialect, Into, Program, Rows, Slot, Use};
use crate::{PgError, Result};
use kernel::row::{ColType, TypeKind, Value};
use std::collections::BTreeSet;

/// The name that a value is.
fn name_in(value: &Value) -> Option<&str> {
    match value {
        Value::Text(name) => Some(name),
        _ => None,
    }
}

/// Whether a value is this name.
pub(super) fn holds_name(value: Option<&Value>, name: &str) -> bool {
    value.and_then(name_in) == Some(name)
}

fn not_open() -> PgError {
    PgError::new("34000", "the cursor is not open")
}

impl Machine<'_> {
    /// Whether a cursor is one of the session's.
    pub(super) fn is_named(&self, slot: Slot) -> bool {
        self.queries.get(&slot).is_some_and(|def| def.named)
    }

    /// The name of the cursor that a variable stands for.
    pub(super) fn cursor_name(&self, slot: Slot) -> Result<String> {
        match (name_in(&self.places[slot].value), self.dialect) {
            (Some(name), Dialect::Field) if !self.session.has_cursor(name) => Err(not_open()),
            (Some(name), _) => Ok(name.to_owned()),
            // What is declared with its query gets its name when it is opened.
            (None, Dialect::Pg) if !self.places[slot].name.is_empty() => {
                let text = format!("cursor variable \"{}\" is null", self.places[slot].name);
                Err(PgError::new("22004", text))
            }
            (None, _) => Err(not_open()),
        }
    }

    /// The name of the session's cursor that a variable stands for, if that is open.
    pub(super) fn open_name(&self, slot: Slot) -> Option<&str> {
        name_in(&self.places[slot].value).filter(|name| self.session.has_cursor(name))
    }

    pub(super) async fn open_for(&mut self, slot: Slot, rows: &Rows) -> Result<()> {
        match rows {
            Rows::Static(sql) => self.open_named(slot, Source::Static(sql)).await,
            Rows::Dynamic { text, using } => {
                let (text, types, values) = self.dynamic(text, using).await?;
                let source = Source::Dynamic { text: &text, types: &types, values };
                self.open_named(slot, source).await
            }
            Rows::Cursor(..) => Err(PgError::internal("a cursor is opened for a cursor")),
        }
    }

    /// Opens the cursor that the variable names; one without a name gets one.
    pub(super) async fn open_named(&mut self, slot: Slot, source: Source<'_>) -> Result<()> {
        let held = name_in(&self.places[slot].value).map(str::to_owned);
        if held.is_none() && self.places[slot].constant {
            return Err(is_constant(&self.places[slot]));
        }
        if let (Some(name), Dialect::Pg) = (&held, self.dialect)
            && self.session.has_cursor(name)
        {
            return Err(PgError::new("42P03", format!("cursor \"{name}\" already in use")));
        }
        let (planned, values) = self.bound(source).await?;
        let prepared = planned.prepared;
        if !prepared.plan.returns_rows {
            return Err(PgError::syntax("cannot open a cursor for a statement without rows"));
        }
        if let Some(name) = &held {
            // A variable of the field's is opened anew.
            self.session.let_cursor_go(name, false);
        }
        let is_new = held.is_none();
        let name = held.unwrap_or_else(|| self.session.unused_cursor_name());
        let is_field = self.dialect == Dialect::Field;
        let mark = self.mark_of_statement();
        let opening = self.session.open_in_code(&name, &prepared, values, is_field);
        let done = env::boxed!(opening).await;
        self.settle_statement(mark, done).await?;
        if !self.lent.contains(&name) {
            self.opened.insert(name.clone());
        }
        if is_new {
            let value = Value::Text(name.into());
            self.store(&Use::of(slot), value, ColType::REF_CURSOR)?;
        }
        Ok(())
    }

    pub(super) async fn next_of_named(&mut self, name: &str) -> Result<Option<Vec<Value>>> {
        let mark = self.mark_of_statement();
        let done = self.session.next_in_code(name).await;
        self.settle_statement(mark, done).await
    }

    pub(super) async fn fetch_named(
        &mut self,
        slot: Slot,
        into: &Into,
        targets: &[Use],
    ) -> Result<()> {
        let name = self.cursor_name(slot)?;
        let row = self.next_of_named(&name).await?;
        self.set_found(row.is_some());
        let (names, types) = self.session.shape_in_code(&name)?;
        match row {
            Some(row) => self.take_row(targets, row, &names, &types),
            None if self.dialect == Dialect::Pg => self.take_nothing(into, &names, &types),
            None => Ok(()),
        }
    }

    pub(super) fn close_named(&mut self, slot: Slot) -> Result<()> {
        let name = self.cursor_name(slot)?;
        self.session.close_cursor(Some(&name))?;
        self.opened.remove(&name);
        Ok(())
    }

    /// What the cursor says of itself that a variable names.
    pub(super) fn cursor_fact(&self, slot: Slot, fact: CursorFact) -> Typed {
        let name = name_in(&self.places[slot].value);
        let state = name.and_then(|name| self.session.cursor_state(name));
        let found = state.and_then(|state| state.found);
        let truth = |truth: Option<bool>| truth.map_or(Value::Null, Value::Bool);
        let (value, kind) = match fact {
            CursorFact::RowCount => {
                let rows = |rows| Value::Int8(i64::try_from(rows).unwrap_or(i64::MAX));
                (state.map_or(Value::Null, |state| rows(state.rows)), TypeKind::Int8)
            }
            CursorFact::IsOpen => (Value::Bool(state.is_some()), TypeKind::Bool),
            CursorFact::Found => (truth(found), TypeKind::Bool),
            CursorFact::NotFound => (truth(found.map(|found| !found)), TypeKind::Bool),
        };
        (value, Some(ColType::new(kind)))
    }

    /// The caller has given the code what is in this place: a cursor stays the caller's.
    pub(super) fn lend(&mut self, slot: Slot) {
        let place = &self.places[slot];
        if place.ty == Some(ColType::REF_CURSOR)
            && let Some(name) = name_in(&place.value)
        {
            self.lent.insert(name.to_owned());
        }
    }

    /// Gives a variable a cursor's name, which is new to the code if what it has called has opened
    /// it.
    pub(super) fn store_cursor(&mut self, slot: Slot, value: Value) -> Result<()> {
        let place = &mut self.places[slot];
        if place.constant {
            return Err(is_constant(place));
        }
        let old = std::mem::replace(&mut place.value, value);
        let new = name_in(&self.places[slot].value);
        if let (Dialect::Field, Some(name)) = (self.dialect, new)
            && !self.lent.contains(name)
            && self.is_own_cursor(slot, name)
        {
            self.opened.insert(name.to_owned());
        }
        if let Some(name) = name_in(&old) {
            self.forget_cursor(name);
        }
        Ok(())
    }

    /// Whether the cursor that a variable gets is the code's to close: one that was opened since
    /// the code began, or that an earlier block has kept open for the client's variable of this
    /// name.
    fn is_own_cursor(&self, slot: Slot, name: &str) -> bool {
        self.session.is_opened_after(name, self.cursors_before)
            || self.kept.contains(&slot) && self.session.is_kept_open(name)
    }

    /// The names that variables among these places hold.
    pub(super) fn cursors_in(&self, slots: std::ops::Range<Slot>) -> Vec<String> {
        let named = self.queries.range(slots).filter(|(_, def)| def.named);
        let held = named.filter_map(|(slot, _)| name_in(&self.places[*slot].value));
        held.map(str::to_owned).collect()
    }

    /// A variable of the field's holds this name no more: if none does, nobody can name the cursor.
    pub(super) fn forget_cursor(&mut self, name: &str) {
        let holds = |(slot, def): (&Slot, &CursorDef)| {
            def.named && holds_name(Some(&self.places[*slot].value), name)
        };
        let is_own = self.dialect == Dialect::Field && self.opened.contains(name);
        let is_aside = self.aside.iter().any(|held| held == name);
        if is_own && !is_aside && !self.queries.iter().any(holds) {
            self.opened.remove(name);
            self.session.let_cursor_go(name, false);
        }
    }

    /// The code has ended: cursors of the field's code that nobody can name any more are closed.
    /// PL/pgSQL leaves its own to the end of the transaction.
    pub(super) fn leave_cursors(&mut self, program: &Program, failed: bool) {
        if self.opened.is_empty() || self.dialect == Dialect::Pg {
            return;
        }
        let mut stay: BTreeSet<String> = BTreeSet::new();
        if !failed {
            for slot in &self.kept {
                if let Some(name) = name_in(&self.places[*slot].value)
                    && self.opened.contains(name)
                {
                    self.session.keep_cursor(name);
                }
            }
            let slots = program.given.iter().chain(&program.results).chain(&self.kept);
            let held = slots.filter_map(|slot| name_in(&self.places[*slot].value));
            let given = self.given.iter().flatten().filter_map(name_in);
            stay.extend(held.chain(given).map(str::to_owned));
        }
        for name in std::mem::take(&mut self.opened) {
            if !stay.contains(&name) {
                self.session.let_cursor_go(&name, failed);
            }
        }
    }
}
