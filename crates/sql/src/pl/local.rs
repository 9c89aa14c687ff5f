//! Procedures and functions that a block declares.
//!
//! What it promises: what they declare is their own in each call, and what is declared around them
//! they share with it; what a call fails with leaves the caller's variables alone. What it must
//! never do: use a stack that is not there.

use super::collections::Item;
use super::lex::Tok;
use super::named_cursors::holds_name;
use super::parse::{Name, Parser, Returning, names_cursor_type};
use super::places::Place;
use super::run::{Flow, Machine};
use super::tree::{Call, Kind, Param, Passed, Routine, Slot, TypeName, Use};
use super::types::Shape;
use crate::{PgError, Result};
use futures::future::LocalBoxFuture;
use kernel::row::{ColType, TypeKind, Value};

impl Parser<'_> {
    /// `procedure p ..` or `function f ..` among declarations.
    pub(super) fn declare_routine(&mut self) -> Result<()> {
        let is_function = self.is("function");
        self.advance();
        let name = self.name()?;
        let first = self.slots();
        let at = match self.lookup_here(&name) {
            None => {
                self.routines.push(Routine {
                    name: name.clone(),
                    params: Vec::new(),
                    result: None,
                    block: None,
                    slots: first..first,
                    records: Vec::new(),
                });
                let at = self.routines.len() - 1;
                self.declare(&name, Name::Routine(at))?;
                at
            }
            Some(Name::Routine(at)) if self.routines[at].block.is_none() => at,
            Some(Name::Routine(_)) => {
                let text = format!("a second routine \"{name}\" in one block");
                return Err(self.unsupported(text, "Give each of them a name of its own."));
            }
            Some(_) => {
                return Err(self.error("42601", format!("duplicate declaration of \"{name}\"")));
            }
        };
        let declared = !self.routines[at].params.is_empty() || self.routines[at].result.is_some();
        self.enter_routine(&name);
        let params = self.parameters()?;
        let mut result = None;
        if is_function {
            self.expect("return")?;
            let ty = self.returned_type()?;
            result = Some((self.new_slot(), ty));
        }
        while self.is_any(&["deterministic", "result_cache", "parallel_enable", "pipelined"]) {
            if self.is("pipelined") {
                let text = "PIPELINED of a function of a block";
                return Err(self.unsupported(text, "Return a collection."));
            }
            self.advance();
        }
        let same =
            |a: &Param, b: &Param| a.name == b.name && a.given == b.given && a.result == b.result;
        let known = &self.routines[at];
        let differs = known.params.len() != params.len()
            || !known.params.iter().zip(&params).all(|(a, b)| same(a, b))
            || known.result.is_some() != is_function;
        if declared && differs {
            let text = format!("\"{name}\" is not what it was declared as");
            return Err(self.error("42601", text));
        }
        self.routines[at].params = params;
        self.routines[at].result = result;
        if self.symbol(";") {
            self.leave();
            return Ok(());
        }
        if !self.word("is") && !self.word("as") {
            return Err(self.near());
        }
        let returning = if is_function { Returning::Value } else { Returning::Nothing };
        let around = std::mem::replace(&mut self.returning, returning);
        let outer = self.local.replace(at);
        let records = std::mem::take(&mut self.records);
        let gotos = self.gotos.len();
        let block = self.block_behind(Some(name), true)?;
        self.check_gotos(gotos)?;
        self.expect_symbol(";")?;
        self.leave();
        (self.returning, self.local) = (around, outer);
        let records = std::mem::replace(&mut self.records, records);
        let slots = first..self.slots();
        let routine = &mut self.routines[at];
        (routine.slots, routine.records, routine.block) = (slots, records, Some(block));
        Ok(())
    }

    /// Those in parentheses, if there are any.
    fn parameters(&mut self) -> Result<Vec<Param>> {
        let mut params = Vec::new();
        if !self.symbol("(") {
            return Ok(params);
        }
        loop {
            let name = self.name()?;
            let is_in = self.word("in");
            let is_out = self.word("out");
            let _ = self.word("nocopy");
            let (given, result) = (is_in || !is_out, is_out);
            let slot = self.new_slot();
            if self.is_cursor_type() {
                self.advance();
                self.new_cursor(&name, slot, None, Vec::new())?;
                let (ty, default) = (TypeName::Cursor, None);
                params.push(Param { slot, name, given, result, ty, default });
            } else {
                let (ty, _) = self.type_name()?;
                let mut default = None;
                if self.symbol(":=") || self.word("default") {
                    if result {
                        let text = "only input parameters can have default values";
                        return Err(self.error("42P13", text));
                    }
                    default = Some(self.passed(&ty, &[",", ")"])?);
                }
                self.declare_as(&name, slot, &ty)?;
                params.push(Param { slot, name, given, result, ty, default });
            }
            if !self.symbol(",") {
                break;
            }
        }
        self.expect_symbol(")")?;
        Ok(params)
    }

    fn returned_type(&mut self) -> Result<TypeName> {
        if self.is_cursor_type() {
            self.advance();
            return Ok(TypeName::Cursor);
        }
        Ok(self.type_name()?.0)
    }

    /// A call of a routine of the block, with what its parameters get.
    pub(super) fn local_call(&mut self) -> Result<Call> {
        let name = self.name()?;
        let Some(Name::Routine(at)) = self.lookup(&name) else { return Err(self.near()) };
        let count = self.routines[at].params.len();
        let mut args: Vec<Option<Passed>> = (0..count).map(|_| None).collect();
        if self.symbol("(") && !self.symbol(")") {
            let mut next = 0;
            loop {
                let place = match (self.tok().clone(), self.peek(1)) {
                    (Tok::Word(given) | Tok::Quoted(given), Tok::Symbol("=>")) => {
                        self.at += 2;
                        self.routines[at].params.iter().position(|param| param.name == given)
                    }
                    _ => {
                        next += 1;
                        Some(next - 1).filter(|place| *place < count)
                    }
                };
                let free = place.filter(|place| args[*place].is_none());
                let wrong = || {
                    let text = format!("wrong arguments in call of \"{name}\"");
                    self.error("42883", text)
                };
                let place = free.ok_or_else(wrong)?;
                args[place] = Some(self.argument_of(at, place)?);
                if !self.symbol(",") {
                    break;
                }
            }
            self.expect_symbol(")")?;
        }
        let mut all = Vec::with_capacity(count);
        for (arg, param) in args.into_iter().zip(&self.routines[at].params) {
            all.push(match arg {
                Some(arg) => arg,
                None if param.default.is_some() => Passed::Default,
                None => {
                    let text =
                        format!("parameter \"{}\" is missing in call of \"{name}\"", param.name);
                    return Err(self.error("42883", text));
                }
            });
        }
        Ok(Call { routine: at, args: all })
    }

    fn argument_of(&mut self, routine: usize, place: usize) -> Result<Passed> {
        const ENDS: [&str; 2] = [",", ")"];
        let param = &self.routines[routine].params[place];
        let (result, ty) = (param.result, param.ty.clone());
        if !result {
            return self.passed(&ty, &ENDS);
        }
        let from = self.at;
        let name = self.routines[routine].params[place].name.clone();
        if let Ok((target, shape)) = self.target_with_shape()
            && matches!(self.tok(), Tok::Symbol("," | ")"))
        {
            match (Shape::of(&ty), shape) {
                (Shape::Scalar, Shape::Scalar) | (Shape::Record, Shape::Record) => {}
                (Shape::Collection(a), Shape::Collection(b)) => self.check_same(&a, &b)?,
                (wanted, _) => return Err(self.not_whole(&wanted)),
            }
            return Ok(Passed::Variable(target));
        }
        self.at = from;
        let text = format!("parameter \"{name}\" gives a value and takes a variable");
        Err(self.error("42601", text))
    }

    /// A call as a statement.
    pub(super) fn local_call_statement(&mut self) -> Result<Kind> {
        let call = self.local_call()?;
        if self.routines[call.routine].result.is_some() {
            let name = &self.routines[call.routine].name;
            let text = format!("\"{name}\" is a function, and its result goes nowhere");
            return Err(self.error("42809", text));
        }
        self.expect_symbol(";")?;
        Ok(Kind::CallLocal(call))
    }

    /// RETURN with what a function of the block gives.
    pub(super) fn local_return(&mut self, routine: usize) -> Result<Kind> {
        let Some((slot, ty)) = self.routines[routine].result.clone() else {
            if self.symbol(";") {
                return Ok(Kind::Return(None));
            }
            return Err(self.error("42804", "RETURN cannot have a parameter in a procedure"));
        };
        if self.is_symbol(";") {
            return Err(self.error("42601", "missing expression at or near \";\""));
        }
        let kind = self.assigned(Use::of(slot), &Shape::of(&ty))?;
        Ok(Kind::ReturnWith(Box::new(kind)))
    }

    /// Whether the type of a cursor variable stands here.
    pub(super) fn is_cursor_type(&self) -> bool {
        let Tok::Word(word) = self.tok() else { return false };
        names_cursor_type(word) || self.lookup(word) == Some(Name::CursorType)
    }
}

/// What a parameter is given.
enum Given {
    Nothing,
    Value(Value, ColType),
    Item(Item),
}

impl Machine<'_> {
    /// Calls a routine of the block; what a function gives.
    pub(super) fn call_local<'a>(
        &'a mut self,
        call: &'a Call,
    ) -> LocalBoxFuture<'a, Result<Option<Place>>> {
        env::boxed!(async move {
            crate::depth::check_calls()?;
            self.session.ctx.check_interrupt()?;
            let routines = self.routines.clone();
            let routine = &routines[call.routine];
            let Some(block) = &routine.block else {
                let text = format!("\"{}\" is declared and has no body", routine.name);
                return Err(PgError::new("42883", text));
            };
            let (given, targets) = self.given_to(routine, call).await?;
            // The places are those of the call before, if it is in one.
            let fresh = Place::new(TypeKind::Text, Value::Null);
            let slots = routine.slots.clone();
            let (aside, held) = (self.aside.len(), self.cursors_in(slots.clone()));
            self.aside.extend(held);
            let saved: Vec<Place> = slots
                .clone()
                .map(|slot| std::mem::replace(&mut self.places[slot], fresh.clone()))
                .collect();
            let mut open = self.cursors.split_off(&slots.start);
            let mut later = open.split_off(&slots.end);
            self.cursors.append(&mut later);
            let done = async {
                self.bind(routine, given).await?;
                self.run_block(block).await
            }
            .await;
            let results = done.and_then(|flow| self.results_of(routine, flow));
            let named = self.cursors_in(slots.clone());
            for (slot, place) in slots.clone().zip(saved) {
                self.places[slot] = place;
            }
            self.aside.truncate(aside);
            // Its own cursors are closed.
            let mut left = self.cursors.split_off(&slots.start);
            let mut later = left.split_off(&slots.end);
            self.cursors.append(&mut later);
            self.cursors.append(&mut open);
            let (results, result) = results?;
            for (target, place) in targets.into_iter().zip(results) {
                let (Some(target), Some(place)) = (target, place) else { continue };
                match Item::of(&place) {
                    Some(item) => self.store_whole(&target, item).await?,
                    None => {
                        let from = place.ty.unwrap_or(ColType::new(TypeKind::Text));
                        self.store(&target, place.value, from)?;
                    }
                }
            }
            let given = result.as_ref().map(|place| &place.value);
            for name in named.iter().filter(|name| !holds_name(given, name)) {
                self.forget_cursor(name);
            }
            Ok(result)
        })
    }

    /// What the parameters get, and the variables that take what they give.
    async fn given_to(
        &mut self,
        routine: &Routine,
        call: &Call,
    ) -> Result<(Vec<Given>, Vec<Option<Use>>)> {
        let mut given = Vec::with_capacity(call.args.len());
        let mut targets = Vec::with_capacity(call.args.len());
        for (param, passed) in routine.params.iter().zip(&call.args) {
            let mut target = None;
            given.push(match passed {
                Passed::Default => Given::Nothing,
                Passed::Value(sql) => {
                    let (value, ty) = self.eval(sql).await?;
                    Given::Value(value, ty)
                }
                Passed::Whole(whole) => Given::Item(self.item(whole).await?),
                Passed::Variable(used) => {
                    let used = self.settled(used).await?;
                    let begins = match param.given {
                        false => Given::Nothing,
                        true => match self.item_of(&used)? {
                            Some(item) => Given::Item(item),
                            None => {
                                let (value, ty) = self.value_with_type(&used)?;
                                Given::Value(value, ty)
                            }
                        },
                    };
                    target = Some(used);
                    begins
                }
            });
            targets.push(target);
        }
        Ok((given, targets))
    }

    /// Gives the parameters what they get.
    async fn bind(&mut self, routine: &Routine, given: Vec<Given>) -> Result<()> {
        for (_, def) in self.queries.range(routine.slots.clone()) {
            super::cursor::prepare_states(&mut self.places, def);
        }
        for (slot, name) in &routine.records {
            self.places[*slot] = Place::record(name);
        }
        for (param, given) in routine.params.iter().zip(given) {
            self.prepare_place(param.slot, &param.name, &param.ty).await?;
            let target = Use::of(param.slot);
            match (given, &param.default) {
                (Given::Value(value, from), _) => self.store(&target, value, from)?,
                (Given::Item(item), _) => self.store_whole(&target, item).await?,
                (Given::Nothing, Some(Passed::Value(sql))) if param.given => {
                    let (value, from) = self.eval(sql).await?;
                    self.store(&target, value, from)?;
                }
                (Given::Nothing, Some(Passed::Whole(whole))) if param.given => {
                    let item = self.item(whole).await?;
                    self.store_whole(&target, item).await?;
                }
                (Given::Nothing, _) => {}
            }
            self.places[param.slot].constant = !param.result;
        }
        if let Some((slot, ty)) = &routine.result {
            self.prepare_place(*slot, &routine.name, ty).await?;
        }
        Ok(())
    }

    /// What the parameters hold at the end, and what a function gives.
    fn results_of(
        &mut self,
        routine: &Routine,
        flow: Flow,
    ) -> Result<(Vec<Option<Place>>, Option<Place>)> {
        if routine.result.is_some() && flow != Flow::Return {
            let text = format!("function \"{}\" ended without RETURN", routine.name);
            return Err(PgError::new("2F005", text));
        }
        let fresh = Place::new(TypeKind::Text, Value::Null);
        let mut take = |slot: Slot| std::mem::replace(&mut self.places[slot], fresh.clone());
        let results =
            routine.params.iter().map(|param| param.result.then(|| take(param.slot))).collect();
        Ok((results, routine.result.as_ref().map(|(slot, _)| take(*slot))))
    }
}
