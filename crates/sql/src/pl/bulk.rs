//! Many rows at once: BULK COLLECT, and FORALL with what it says of each turn.
//!
//! What it promises: FORALL runs its statement by one plan; a turn that fails takes back what it
//! did itself, and with SAVE EXCEPTIONS the others go on. What it must never do: hold rows that
//! the work areas have no room for.

use super::collections::{Collection, Item, Key};
use super::conditions::{number_in_change, number_of};
use super::exec::{Cursor, Source};
use super::lex::Tok;
use super::parse::{Name, Parser};
use super::places::Place;
use super::run::Machine;
use super::tree::{Access, Into, Kind, Over, Slot, Use};
use super::types::Shape;
use crate::{PgError, Result, Severity};
use kernel::row::{ColType, TypeKind, Value};
use std::sync::Arc;

/// Rows that are fetched at a time.
const ROWS_AT_A_TIME: usize = 1000;

/// What an error with saved exceptions is.
const ERRORS_IN_ARRAY: (i32, &str) = (-24_381, "error(s) in array DML");

impl Parser<'_> {
    /// Behind INTO: variables, or collections for all rows.
    pub(super) fn row_targets(&mut self, strict: bool, bulk: bool) -> Result<Into> {
        let mut targets = Vec::new();
        loop {
            let (target, shape) = self.target_with_shape()?;
            match (&shape, bulk) {
                (Shape::Collection(_), true) | (Shape::Scalar | Shape::Record, false) => {}
                (Shape::Collection(_), false) => {
                    let text = "a collection takes rows by BULK COLLECT INTO";
                    return Err(self.error("42804", text));
                }
                (_, true) => {
                    let text = "BULK COLLECT INTO takes collections, not variables of one value";
                    return Err(self.error("42804", text));
                }
            }
            targets.push(target);
            if !self.symbol(",") {
                break;
            }
        }
        Ok(Into { bulk, ..Into::row(strict, targets) })
    }

    /// `into ..` or `bulk collect into ..`, if it comes next.
    pub(super) fn targets_clause(&mut self) -> Result<Option<Into>> {
        let bulk = self.words(&["bulk", "collect"]);
        if bulk {
            self.expect("into")?;
        } else if !self.word("into") {
            return Ok(None);
        }
        let strict = !bulk && !self.is_at(1, ",") && !self.is_at(1, ";") && self.word("strict");
        self.row_targets(strict, bulk).map(Some)
    }

    pub(super) fn forall_statement(&mut self) -> Result<Kind> {
        const BEHIND: [&str; 8] =
            ["save", "select", "with", "insert", "update", "delete", "merge", "execute"];
        self.expect("forall")?;
        let name = self.name()?;
        self.expect("in")?;
        let over = if self.words(&["indices", "of"]) {
            let collection = self.collection_use()?;
            let mut bounds = None;
            if self.word("between") {
                let from = self.expr_until(&["and"], &[])?;
                self.expect("and")?;
                bounds = Some((from, self.expr_until(&BEHIND, &[])?));
            }
            Over::Indices(collection, bounds)
        } else if self.words(&["values", "of"]) {
            Over::Values(self.collection_use()?)
        } else {
            let from = self.expr_until(&[], &[".."])?;
            self.expect_symbol("..")?;
            Over::Range(from, self.expr_until(&BEHIND, &[])?)
        };
        let save = self.words(&["save", "exceptions"]);
        if !self.is_any(&BEHIND[3..]) {
            let text = "FORALL runs an INSERT, UPDATE, DELETE, MERGE or EXECUTE IMMEDIATE";
            return Err(self.error("42601", text));
        }
        self.enter(None, false);
        let slot = self.new_slot();
        self.declare(&name, Name::Scalar(slot))?;
        let body = Box::new(match self.is("execute") {
            true => self.execute_statement()?,
            false => self.sql_statement()?,
        });
        self.leave();
        Ok(Kind::ForAll { slot, over, save, body })
    }

    fn collection_use(&mut self) -> Result<Use> {
        match self.path()? {
            Some(path) if path.method.is_none() && matches!(path.shape, Shape::Collection(_)) => {
                Ok(path.into_use())
            }
            _ => Err(self.near()),
        }
    }

    /// `sql%bulk_rowcount(i)` and `sql%bulk_exceptions`, behind `sql`; how many words they are.
    pub(super) fn bulk_attribute(&mut self, at: usize) -> Result<Option<(Use, usize)>> {
        let word =
            |parser: &Self, i: usize| match &parser.tokens[i.min(parser.tokens.len() - 1)].tok {
                Tok::Word(w) => w.clone(),
                _ => String::new(),
            };
        let from = self.at;
        self.at = at + 3;
        let access = match word(self, at + 2).as_str() {
            "bulk_rowcount" => {
                self.expect_symbol("(")?;
                let index = self.expr_until(&[], &[")"])?;
                self.expect_symbol(")")?;
                Access::BulkRows(index)
            }
            "bulk_exceptions" if self.symbol(".") => {
                self.expect("count")?;
                Access::BulkErrors
            }
            "bulk_exceptions" => {
                self.expect_symbol("(")?;
                let index = self.expr_until(&[], &[")"])?;
                self.expect_symbol(")")?;
                self.expect_symbol(".")?;
                let what = self.name()?;
                if !matches!(what.as_str(), "error_index" | "error_code") {
                    let text = format!("sql%bulk_exceptions does not say \"{what}\"");
                    return Err(self.error("42703", text));
                }
                Access::BulkError { at: index, code: what == "error_code" }
            }
            _ => {
                self.at = from;
                return Ok(None);
            }
        };
        let len = self.at - at;
        self.at = from;
        Ok(Some((Use::with(0, access), len)))
    }
}

/// Collections that take rows.
pub(super) struct Takers {
    targets: Vec<Use>,
    made: Vec<Collection>,
    pub(super) count: u64,
}

impl Machine<'_> {
    /// New collections for the rows.
    pub(super) async fn takers(&mut self, into: &Into) -> Result<Takers> {
        let targets = self.settled_all(&into.targets).await?;
        let mut made = Vec::with_capacity(targets.len());
        for target in &targets {
            let Some(Item::Collection(known)) = self.item_of(target)? else {
                return Err(PgError::new("42804", "BULK COLLECT INTO takes collections"));
            };
            made.push(Collection::empty(known.form.clone(), self.account()));
        }
        Ok(Takers { targets, made, count: 0 })
    }

    pub(super) fn take_bulk(
        &self,
        takers: &mut Takers,
        row: Vec<Value>,
        types: &[ColType],
    ) -> Result<()> {
        takers.count += 1;
        if let [only] = &mut takers.made[..] {
            let element = self.row_element(&only.form, row, types)?;
            return only.push(element);
        }
        if row.len() != takers.made.len() {
            let text = format!(
                "a row of {} columns goes into {} collections",
                row.len(),
                takers.made.len()
            );
            return Err(PgError::new("42804", text));
        }
        for ((all, value), from) in takers.made.iter_mut().zip(row).zip(types) {
            let element = self.value_element(&all.form, value, *from)?;
            all.push(element)?;
        }
        Ok(())
    }

    pub(super) async fn give_bulk(&mut self, takers: Takers) -> Result<()> {
        for (target, made) in takers.targets.iter().zip(takers.made) {
            if self.appends {
                self.append(target, made)?;
                continue;
            }
            self.store_whole(target, Item::Collection(Arc::new(made))).await?;
        }
        Ok(())
    }

    /// Rows of a cursor, so many at most, into collections; how many there were.
    pub(super) async fn collect(
        &mut self,
        cursor: &mut Cursor,
        into: &Into,
        limit: Option<u64>,
    ) -> Result<u64> {
        let mut takers = self.takers(into).await?;
        cursor.at_a_time = ROWS_AT_A_TIME;
        let types = cursor.types.clone();
        while limit.is_none_or(|limit| takers.count < limit) {
            let Some(row) = self.next_row(cursor).await? else { break };
            if takers.count.is_multiple_of(1024) {
                self.session.ctx.check_interrupt()?;
            }
            self.take_bulk(&mut takers, row, &types)?;
        }
        let count = takers.count;
        self.give_bulk(takers).await?;
        Ok(count)
    }

    /// The same of a cursor that a variable names.
    async fn collect_named(&mut self, slot: Slot, into: &Into, limit: Option<u64>) -> Result<u64> {
        let name = self.cursor_name(slot)?;
        let mut takers = self.takers(into).await?;
        let (_, types) = self.session.shape_in_code(&name)?;
        while limit.is_none_or(|limit| takers.count < limit) {
            let Some(row) = self.next_of_named(&name).await? else { break };
            if takers.count.is_multiple_of(1024) {
                self.session.ctx.check_interrupt()?;
            }
            self.take_bulk(&mut takers, row, &types)?;
        }
        let count = takers.count;
        self.give_bulk(takers).await?;
        Ok(count)
    }

    /// A query whose rows all go into collections.
    pub(super) async fn collect_query(&mut self, source: Source<'_>, into: &Into) -> Result<()> {
        let tells = matches!(source, Source::Static(_));
        let mut cursor = self.cursor_of(source).await?;
        let count = self.collect(&mut cursor, into, None).await?;
        self.note_rows(count, tells);
        Ok(())
    }

    pub(super) async fn fetch_bulk(&mut self, slot: Slot, into: &Into) -> Result<()> {
        let limit = match &into.limit {
            None => None,
            Some(limit) => {
                let (value, _) = self.eval(limit).await?;
                let limit = match self.converted(&value, ColType::new(TypeKind::Int8))? {
                    Value::Int8(limit) => u64::try_from(limit).ok().filter(|limit| *limit > 0),
                    _ => None,
                };
                let text = "LIMIT of FETCH must be greater than zero";
                Some(limit.ok_or_else(|| PgError::new("22003", text))?)
            }
        };
        if self.is_named(slot) {
            let count = self.collect_named(slot, into, limit).await?;
            self.set_found(limit.is_some_and(|limit| count == limit));
            return Ok(());
        }
        let cursor = self.cursors.remove(&slot);
        let mut cursor = cursor.ok_or_else(|| PgError::new("34000", "the cursor is not open"))?;
        let done = self.collect(&mut cursor, into, limit).await;
        self.cursors.insert(slot, cursor);
        let count = done?;
        // It is told apart from the last rows by how many were wanted.
        let found = limit.is_some_and(|limit| count == limit);
        self.note_cursor_rows(slot, found, count);
        self.set_found(found);
        Ok(())
    }

    // ---- FORALL -----------------------------------------------------------------------------

    /// The indexes that FORALL runs over.
    async fn turns(&mut self, over: &Over) -> Result<Box<dyn Iterator<Item = i64>>> {
        let number = |key: Key| match key {
            Key::Int(at) => Ok(at),
            Key::Text(_) => Err(PgError::new("42804", "FORALL runs over indexes that are numbers")),
        };
        match over {
            Over::Range(from, to) => {
                let (from, to) = (self.limit(from).await?, self.limit(to).await?);
                Ok(Box::new(from..=to))
            }
            Over::Indices(used, bounds) => {
                let bounds = match bounds {
                    Some((from, to)) => Some((self.limit(from).await?, self.limit(to).await?)),
                    None => None,
                };
                let keys = self.whole_collection(used).await?.keys();
                let all = keys.into_iter().map(number).collect::<Result<Vec<i64>>>()?;
                let inside = |at: &i64| bounds.is_none_or(|(from, to)| (from..=to).contains(at));
                let all: Vec<i64> = all.into_iter().filter(inside).collect();
                Ok(Box::new(all.into_iter()))
            }
            Over::Values(used) => {
                let all = self.whole_collection(used).await?;
                let mut out = Vec::new();
                for key in all.keys() {
                    let super::collections::Element::Value(value) = all.get(&key)? else {
                        return Err(PgError::new("42804", "VALUES OF takes a list of indexes"));
                    };
                    match self.converted(value, ColType::new(TypeKind::Int8))? {
                        Value::Int8(at) => out.push(at),
                        _ => return Err(PgError::new("22004", "an index of FORALL is null")),
                    }
                }
                Ok(Box::new(out.into_iter()))
            }
        }
    }

    async fn whole_collection(&mut self, used: &Use) -> Result<Arc<Collection>> {
        let used = self.settled(used).await?;
        match self.item_of(&used)? {
            Some(Item::Collection(all)) => Ok(all),
            _ => Err(PgError::new("42804", "a collection is wanted")),
        }
    }

    pub(super) async fn run_forall(
        &mut self,
        slot: Slot,
        over: &Over,
        save: bool,
        body: &Kind,
    ) -> Result<()> {
        let turns = self.turns(over).await?;
        self.bulk_rows.clear();
        self.bulk_errors.clear();
        let mut rows = 0;
        self.note_rows(0, true);
        for (turn, at) in (1_i64..).zip(turns) {
            self.session.ctx.check_interrupt()?;
            let index = i32::try_from(at).map_or(Value::Int8(at), Value::Int4);
            let kind = if i32::try_from(at).is_ok() { TypeKind::Int4 } else { TypeKind::Int8 };
            self.places[slot] = Place::new(kind, index);
            let mark = if save { self.session.mark_within() } else { None };
            let done = self.run_one(body).await;
            self.appends = true;
            match done {
                Ok(_) => {
                    let count = self.rows_of_last();
                    rows += count;
                    *self.bulk_rows.entry(at).or_insert(0) += count;
                }
                // A cancel ends it all.
                Err(error)
                    if save && error.code != "57014" && error.severity != Severity::Fatal =>
                {
                    if let Some(mark) = mark {
                        self.session.rollback_within(mark).await?;
                    }
                    let given = self.number.take().or_else(|| number_in_change(&error));
                    let number = given.unwrap_or_else(|| number_of(&error));
                    self.own = None;
                    self.bulk_errors.push((turn, number));
                    self.bulk_rows.insert(at, 0);
                }
                Err(error) => {
                    self.appends = false;
                    return Err(error);
                }
            }
        }
        self.appends = false;
        self.note_rows(u64::try_from(rows).unwrap_or(0), true);
        if self.bulk_errors.is_empty() {
            return Ok(());
        }
        let (number, text) = ERRORS_IN_ARRAY;
        self.number = Some(number);
        let failed = self.bulk_errors.len();
        Err(PgError::new("22000", text)
            .with_detail(format!("{failed} of the turns of FORALL failed."))
            .with_hint("sql%bulk_exceptions says which, and why."))
    }

    /// Rows that the last statement has changed.
    fn rows_of_last(&self) -> i64 {
        match self.places[super::tree::ROW_COUNT].value {
            Value::Int8(count) => count,
            _ => 0,
        }
    }

    /// What a statement says of its rows.
    pub(super) fn note_rows(&mut self, count: u64, tells: bool) {
        use super::tree::{ROW_COUNT, SQL_FOUND, SQL_NOT_FOUND};
        self.places[ROW_COUNT].value = Value::Int8(i64::try_from(count).unwrap_or(i64::MAX));
        self.places[SQL_FOUND].value = Value::Bool(count > 0);
        self.places[SQL_NOT_FOUND].value = Value::Bool(count == 0);
        if tells {
            self.set_found(count > 0);
        }
    }
}
