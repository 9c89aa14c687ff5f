//! Cursors with their arguments and states, and loops over arrays; what cursor variables name is in
//! [`super::named_cursors`].
//!
//! What it promises: a cursor's arguments are seen by its query alone; what it says of itself
//! (`c%rowcount`) is its own. What it must never do: run a query that gives its rows one by one to
//! its end before they are fetched.

use super::exec::Source;
use super::lex::Tok;
use super::parse::{Name, Parser};
use super::places::{Place, field_at};
use super::run::{Flow, Machine};
use super::tree::{
    Access, CursorArg, CursorDef, CursorFact, CursorParam, Dialect, Into, Kind, Rows, Slot, Sql,
    TypeName, Use, Variable,
};
use crate::{PgError, Result};
use kernel::row::{ArrayView, ColType, TypeKind, Value};
use query::array::array_value;

impl Parser<'_> {
    /// A cursor's arguments and query, behind its name.
    pub(super) fn declare_cursor(&mut self, name: &str) -> Result<()> {
        let slot = self.new_slot();
        self.enter(None, false);
        let mut params = Vec::new();
        if self.symbol("(") {
            loop {
                let name = self.name()?;
                let _ = self.word("in");
                let (ty, is_record) = self.type_name()?;
                if is_record {
                    return Err(PgError::unsupported("a row as an argument of a cursor"));
                }
                let default = match self.symbol(":=") || self.symbol("=") || self.word("default") {
                    true => Some(self.expr_until(&[], &[",", ")"])?),
                    false => None,
                };
                let slot = self.new_slot();
                self.declare(&name, Name::Scalar(slot))?;
                params.push(CursorParam { slot, name, ty, default });
                if !self.symbol(",") {
                    break;
                }
            }
            self.expect_symbol(")")?;
        }
        if self.word("return") {
            // What its rows are is seen by its query.
            self.type_name()?;
        }
        if !self.word("is") && !self.word("for") {
            return Err(self.near());
        }
        let range = self.range_until(&[], &[";"])?;
        let query = self.sql_of(&[range], true);
        self.expect_symbol(";")?;
        self.leave();
        self.new_cursor(name, slot, Some(query), params)
    }

    /// A cursor, or a variable that may be one.
    pub(super) fn new_cursor(
        &mut self,
        name: &str,
        slot: Slot,
        query: Option<Sql>,
        params: Vec<CursorParam>,
    ) -> Result<()> {
        self.add_cursor(slot, query, params);
        self.declare(name, Name::Cursor(slot))
    }

    /// The same without a name yet.
    pub(super) fn add_cursor(&mut self, slot: Slot, query: Option<Sql>, params: Vec<CursorParam>) {
        let mut state = || self.new_slot();
        let (count, open, found, not_found) = (state(), state(), state(), state());
        let named = query.is_none();
        let def = CursorDef { slot, query, named, params, count, open, found, not_found };
        self.cursors.push(def);
    }

    /// `c sys_refcursor;`, behind the name.
    pub(super) fn declare_cursor_variable(
        &mut self,
        name: String,
        variables: &mut Vec<Variable>,
    ) -> Result<()> {
        self.advance();
        let mut default = None;
        if self.symbol(":=") || self.symbol("=") || self.word("default") {
            default = Some(self.expr_until(&[], &[";"])?);
        }
        self.expect_symbol(";")?;
        let slot = self.new_slot();
        self.new_cursor(&name, slot, None, Vec::new())?;
        let (ty, constant, not_null, whole) = (TypeName::Cursor, false, false, None);
        variables.push(Variable { slot, name, ty, constant, not_null, default, whole });
        Ok(())
    }

    fn cursor_def(&self, slot: Slot) -> Option<&CursorDef> {
        self.cursors.iter().find(|def| def.slot == slot)
    }

    /// Whether a cursor's name may stand for a value: PL/pgSQL hands on what is declared with its
    /// query, too.
    pub(super) fn may_name(&self, slot: Slot) -> bool {
        self.dialect == Dialect::Pg || self.cursor_def(slot).is_some_and(|def| def.named)
    }

    /// The code hands on what is in a place: of a cursor the name.
    pub(super) fn hand_on(&mut self, slot: Slot) {
        if let Some(def) = self.cursors.iter_mut().find(|def| def.slot == slot) {
            def.named = true;
        }
    }

    /// What a cursor says of itself by this name.
    pub(super) fn attribute(&self, cursor: Slot, name: &str) -> Option<Use> {
        let def = self.cursor_def(cursor)?;
        let (slot, fact) = match name {
            "rowcount" => (def.count, CursorFact::RowCount),
            "isopen" => (def.open, CursorFact::IsOpen),
            "found" => (def.found, CursorFact::Found),
            "notfound" => (def.not_found, CursorFact::NotFound),
            _ => return None,
        };
        Some(match def.named {
            true => Use::with(cursor, Access::OfCursor(fact)),
            false => Use::of(slot),
        })
    }

    pub(super) fn cursor(&mut self) -> Result<Slot> {
        let name = self.name()?;
        match self.lookup(&name) {
            Some(Name::Cursor(slot)) => Ok(slot),
            _ => Err(self.error("42601", format!("\"{name}\" is no cursor of this block"))),
        }
    }

    /// Values for a cursor's arguments, if a parenthesis follows.
    pub(super) fn cursor_args(&mut self) -> Result<Vec<CursorArg>> {
        let mut args = Vec::new();
        if !self.symbol("(") || self.symbol(")") {
            return Ok(args);
        }
        loop {
            let named = matches!(self.peek(1), Tok::Symbol("=>" | ":="));
            let name = if named { Some(self.name()?) } else { None };
            if named {
                self.advance();
            }
            args.push(CursorArg { name, value: self.expr_until(&[], &[",", ")"])? });
            if !self.symbol(",") {
                break;
            }
        }
        self.expect_symbol(")")?;
        Ok(args)
    }

    pub(super) fn open_statement(&mut self) -> Result<Kind> {
        self.expect("open")?;
        let cursor = self.cursor()?;
        let _ = self.words(&["no", "scroll"]) || self.word("scroll");
        if self.word("for") {
            if self.cursor_def(cursor).is_some_and(|def| def.query.is_some()) {
                let text = "OPEN .. FOR of a cursor that is declared with its query";
                return Err(self.error("42601", text));
            }
            let rows = match self.word("execute") {
                true => {
                    let text = self.expr_until(&["using"], &[";"])?;
                    Rows::Dynamic { text, using: self.using_list()? }
                }
                false => self.rows_or_text()?,
            };
            self.expect_symbol(";")?;
            return Ok(Kind::OpenFor { cursor, rows });
        }
        let args = self.cursor_args()?;
        self.expect_symbol(";")?;
        Ok(Kind::Open { cursor, args })
    }

    /// A query, or in the field's language an expression that is one's text.
    fn rows_or_text(&mut self) -> Result<Rows> {
        let is_query = self.is_any(&["select", "with", "values", "table"]);
        if is_query || self.dialect == Dialect::Pg {
            let range = self.range_until(&[], &[";"])?;
            return Ok(Rows::Static(self.sql_of(&[range], true)));
        }
        let text = self.expr_until(&["using"], &[";"])?;
        Ok(Rows::Dynamic { text, using: self.using_list()? })
    }

    pub(super) fn using_list(&mut self) -> Result<Vec<Sql>> {
        let mut using = Vec::new();
        if self.word("using") {
            loop {
                using.push(self.expr_until(&[], &[",", ";"])?);
                if !self.symbol(",") {
                    break;
                }
            }
        }
        Ok(using)
    }

    /// Where FETCH goes: to the next row.
    fn fetch_direction(&mut self) -> Result<()> {
        const OTHERS: [&str; 7] =
            ["prior", "first", "last", "absolute", "relative", "backward", "all"];
        let counts = |tok: &Tok| match tok {
            Tok::Number | Tok::Symbol("-") => true,
            Tok::Word(word) => word == "all",
            _ => false,
        };
        let refused = match self.tok() {
            Tok::Word(word) if matches!(self.lookup(word), Some(Name::Cursor(_))) => return Ok(()),
            Tok::Word(word) if OTHERS.contains(&word.as_str()) => word.to_uppercase(),
            Tok::Word(word) if word == "forward" && counts(self.peek(1)) => {
                "FORWARD with a number of rows".to_owned()
            }
            Tok::Word(word) if word == "next" || word == "forward" => {
                self.advance();
                return Ok(());
            }
            tok if counts(tok) => "with a number of rows".to_owned(),
            _ => return Ok(()),
        };
        let hint = "Cursors of procedural code go forward, a row at a time.";
        Err(self.unsupported(format!("FETCH {refused} in procedural code"), hint))
    }

    /// MOVE of a cursor of the code's own; one that SQL has declared is SQL's to move.
    pub(super) fn refuse_move(&self) -> Result<()> {
        let end = (0..).find(|ahead| matches!(self.peek(*ahead), Tok::Symbol(";") | Tok::End));
        let last = end.and_then(|end| end.checked_sub(1)).map(|last| self.peek(last));
        let Some(Tok::Word(name) | Tok::Quoted(name)) = last else { return Ok(()) };
        match self.lookup(name) {
            Some(Name::Cursor(_)) => {
                let hint = "FETCH the rows that are to be passed over.";
                Err(self.unsupported("MOVE in procedural code", hint))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn fetch_statement(&mut self) -> Result<Kind> {
        self.expect("fetch")?;
        self.fetch_direction()?;
        let _ = self.word("from") || self.word("in");
        let cursor = self.cursor()?;
        let Some(mut into) = self.targets_clause()? else { return Err(self.near()) };
        if into.bulk && self.word("limit") {
            into.limit = Some(self.expr_until(&[], &[";"])?);
        }
        self.expect_symbol(";")?;
        Ok(Kind::Fetch { cursor, into })
    }

    /// `foreach x in array a loop`.
    pub(super) fn foreach_statement(&mut self, label: Option<String>) -> Result<Kind> {
        self.expect("foreach")?;
        let target = self.target()?;
        if self.word("slice") {
            return Err(PgError::unsupported("FOREACH .. SLICE"));
        }
        self.expect("in")?;
        self.expect("array")?;
        let array = self.expr_until(&["loop"], &[])?;
        let body = self.loop_body(label.as_deref())?;
        Ok(Kind::ForEach { label, target, array, body })
    }

    /// Whether an element of a variable gets a value here.
    pub(super) fn assigns_element(&self) -> bool {
        let Some(len) = self.target_len().filter(|len| self.is_at(*len, "[")) else {
            return false;
        };
        let mut open = 0_usize;
        for ahead in len.. {
            match self.peek(ahead) {
                Tok::Symbol("[" | "(") => open += 1,
                Tok::Symbol("]" | ")") => {
                    open = open.saturating_sub(1);
                    if open == 0 {
                        return matches!(self.peek(ahead + 1), Tok::Symbol(":=" | "="));
                    }
                }
                Tok::Symbol(";") | Tok::End => return false,
                _ => {}
            }
        }
        false
    }

    /// `a[i] := value`.
    pub(super) fn element_assignment(&mut self) -> Result<Kind> {
        let target = self.target()?;
        self.expect_symbol("[")?;
        let index = self.expr_until(&[], &["]"])?;
        self.expect_symbol("]")?;
        if !self.symbol(":=") && !self.symbol("=") {
            return Err(self.near());
        }
        let value = self.expr_to_end()?;
        Ok(Kind::AssignElement { target, index, value })
    }
}

/// What a cursor says of itself before it is opened.
pub(super) fn prepare_states(places: &mut [Place], def: &CursorDef) {
    places[def.count] = Place::new(TypeKind::Int8, Value::Null);
    places[def.open] = Place::new(TypeKind::Bool, Value::Bool(false));
    for slot in [def.found, def.not_found] {
        places[slot] = Place::new(TypeKind::Bool, Value::Null);
    }
}

impl Machine<'_> {
    /// The query of a declared cursor, with its arguments in their places.
    pub(super) async fn query_of(&mut self, slot: Slot, args: &[CursorArg]) -> Result<Sql> {
        let def = self.queries.get(&slot).cloned();
        let def = def.ok_or_else(|| PgError::internal("a cursor that is not declared"))?;
        let Some(query) = def.query else {
            return Err(PgError::new("42601", "a cursor variable is opened with FOR and a query"));
        };
        let mut values = vec![None; def.params.len()];
        for (at, arg) in args.iter().enumerate() {
            let place = match &arg.name {
                Some(name) => def.params.iter().position(|param| param.name == *name),
                None => Some(at),
            };
            let slot = place.and_then(|place| values.get_mut(place));
            let slot = slot.filter(|slot| slot.is_none());
            let wrong = || PgError::new("42601", "too many arguments for cursor");
            *slot.ok_or_else(wrong)? = Some(self.eval(&arg.value).await?);
        }
        for (param, value) in def.params.iter().zip(values) {
            let (value, from) = match (value, &param.default) {
                (Some(value), _) => value,
                (None, Some(default)) => self.eval(default).await?,
                (None, None) => {
                    return Err(PgError::new("42601", "not enough arguments for cursor"));
                }
            };
            let (ty, _) = self.resolve(&param.ty).await?;
            let place = &mut self.places[param.slot];
            place.name.clone_from(&param.name);
            (place.ty, place.record, place.value) = (ty, None, Value::Null);
            self.store(&Use::of(param.slot), value, from)?;
        }
        Ok(query)
    }

    /// What the cursor says of itself: rows fetched, whether it is open, what it found last.
    pub(super) fn note_cursor(&mut self, slot: Slot, opened: Option<bool>, found: Option<bool>) {
        let Some(def) = self.queries.get(&slot) else { return };
        let (count, open, yes, no) = (def.count, def.open, def.found, def.not_found);
        let truth = |value: Option<bool>| value.map_or(Value::Null, Value::Bool);
        if let Some(opened) = opened {
            self.places[open].value = Value::Bool(opened);
            self.places[count].value = if opened { Value::Int8(0) } else { Value::Null };
        }
        self.places[yes].value = truth(found);
        self.places[no].value = truth(found.map(|found| !found));
        if let (Some(true), Value::Int8(rows)) = (found, &mut self.places[count].value) {
            *rows += 1;
        }
    }

    /// The same of many rows.
    pub(super) fn note_cursor_rows(&mut self, slot: Slot, found: bool, more: u64) {
        self.note_cursor(slot, None, Some(found));
        let Some(def) = self.queries.get(&slot) else { return };
        let more = i64::try_from(more).unwrap_or(i64::MAX);
        if let Value::Int8(rows) = &mut self.places[def.count].value {
            // One of them has been counted if any was found.
            *rows += more - i64::from(found);
        }
    }

    pub(super) async fn open(&mut self, slot: Slot, args: &[CursorArg]) -> Result<()> {
        if self.is_named(slot) {
            let query = self.query_of(slot, args).await?;
            return self.open_named(slot, Source::Static(&query)).await;
        }
        self.check_closed(slot)?;
        let query = self.query_of(slot, args).await?;
        let cursor = self.cursor_of(Source::Static(&query)).await?;
        self.cursors.insert(slot, cursor);
        self.note_cursor(slot, Some(true), None);
        Ok(())
    }

    /// A cursor that is open is not opened once more, nor by a loop over it.
    pub(super) fn check_closed(&self, slot: Slot) -> Result<()> {
        if self.is_named(slot) {
            return match self.open_name(slot) {
                Some(name) => {
                    Err(PgError::new("42P03", format!("cursor \"{name}\" already in use")))
                }
                None => Ok(()),
            };
        }
        match self.cursors.contains_key(&slot) {
            true => Err(PgError::new("42P03", "the cursor is already in use")),
            false => Ok(()),
        }
    }

    pub(super) async fn fetch(&mut self, slot: Slot, into: &Into) -> Result<()> {
        if into.bulk {
            return self.fetch_bulk(slot, into).await;
        }
        let targets = self.settled_all(&into.targets).await?;
        if self.is_named(slot) {
            return self.fetch_named(slot, into, &targets).await;
        }
        let cursor = self.cursors.remove(&slot);
        let mut cursor = cursor.ok_or_else(|| PgError::new("34000", "the cursor is not open"))?;
        let row = self.next_row(&mut cursor).await;
        let (names, types) = (cursor.names.clone(), cursor.types.clone());
        self.cursors.insert(slot, cursor);
        let row = row?;
        self.note_cursor(slot, None, Some(row.is_some()));
        self.set_found(row.is_some());
        match row {
            Some(row) => self.take_row(&targets, row, &names, &types),
            None if self.dialect == Dialect::Pg => self.take_nothing(into, &names, &types),
            None => Ok(()),
        }
    }

    pub(super) fn close(&mut self, slot: Slot) -> Result<()> {
        if self.is_named(slot) {
            return self.close_named(slot);
        }
        if self.cursors.remove(&slot).is_none() {
            return Err(PgError::new("34000", "the cursor is not open"));
        }
        self.note_cursor(slot, Some(false), None);
        Ok(())
    }

    /// The elements of an array; `None` for NULL.
    fn elements(value: &Value) -> Result<Option<Vec<Value>>> {
        match value {
            Value::Null => Ok(None),
            Value::Array(bytes) => {
                Ok(Some(ArrayView::new(bytes).iter().map(|one| one.to_value()).collect()))
            }
            _ => Err(PgError::new("42804", "FOREACH expression must yield an array, not a value")),
        }
    }

    pub(super) async fn run_foreach(
        &mut self,
        label: Option<&str>,
        target: &Use,
        array: &Sql,
        body: &[super::tree::Statement],
    ) -> Result<Flow> {
        let (value, ty) = self.eval(array).await?;
        let Some(elements) = Self::elements(&value)? else {
            return Err(PgError::new("22004", "FOREACH expression must not be null"));
        };
        let from = ty.element().unwrap_or(ColType::new(TypeKind::Text));
        let mut turned = false;
        for element in elements {
            turned = true;
            self.store(target, element, from)?;
            if let Some(flow) = self.turn(label, body).await? {
                self.set_found(true);
                return Ok(flow);
            }
        }
        self.set_found(turned);
        Ok(Flow::Next)
    }

    /// Gives one element of an array variable a value; those on the way to it are NULL.
    pub(super) async fn assign_element(
        &mut self,
        target: &Use,
        index: &Sql,
        value: &Sql,
    ) -> Result<()> {
        let place = &self.places[target.slot];
        let ty = match &target.field {
            Some(field) => {
                let at = field_at(place, field)?;
                place.record.as_ref().map(|record| record.types[at])
            }
            None => place.ty,
        };
        let array = ty.filter(|ty| ty.element().is_some());
        let element = array.and_then(ColType::element);
        let (Some(array), Some(element)) = (array, element) else {
            let text = format!("subscripted object \"{}\" is not an array", place.name);
            return Err(PgError::new("42804", text));
        };
        let (at, _) = self.eval(index).await?;
        let Value::Int8(at) = self.converted(&at, ColType::new(TypeKind::Int8))? else {
            return Err(PgError::new("22004", "array subscript in assignment must not be null"));
        };
        let (value, _) = self.eval(value).await?;
        let value = self.converted(&value, element)?;
        let place = &self.places[target.slot];
        let held = match (&target.field, &place.record) {
            (Some(field), Some(record)) => &record.values[field_at(place, field)?],
            _ => &place.value,
        };
        let mut items = Self::elements(held)?.unwrap_or_default();
        let position = usize::try_from(at).ok().and_then(|at| at.checked_sub(1));
        let Some(position) = position.filter(|at| *at < ELEMENTS_MAX) else {
            return Err(PgError::new("2202E", "array subscript out of range"));
        };
        if position >= items.len() {
            items.resize(position + 1, Value::Null);
        }
        items[position] = value;
        self.store(target, array_value(element, &items), array)
    }
}

/// Most elements of an array that a variable grows to.
const ELEMENTS_MAX: usize = 10_000_000;
