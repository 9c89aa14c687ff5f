//! EXECUTE: statements and blocks whose text is put together while the code runs.
//!
//! What it promises: what is bound is a value, never a part of the text. What it must never do: end
//! the transaction by a text.

use super::exec::{Source, parameter_type};
use super::lex::{Tok, tokens};
use super::parse::{Parser, parse_bound};
use super::places::Place;
use super::run::Machine;
use super::tree::{Dialect, Execute, Into, Kind, Program, Sql};
use super::types::Shape;
use crate::{PgError, Result};
use kernel::row::{ColType, TypeKind, Value};

impl Parser<'_> {
    pub(super) fn execute_statement(&mut self) -> Result<Kind> {
        self.expect("execute")?;
        let _ = self.word("immediate");
        const NEXT: [&str; 4] = ["into", "using", "bulk", "returning"];
        let text = self.expr_until(&NEXT, &[";"])?;
        let (mut into, mut using) = (None, Vec::new());
        let (mut returns, mut outs) = (false, Vec::new());
        loop {
            if into.is_none() && (self.is("into") || self.is("bulk")) {
                into = self.targets_clause()?;
            } else if into.is_none() && self.word("returning") {
                into = self.targets_clause()?;
                returns = true;
            } else if using.is_empty() && self.word("using") {
                loop {
                    let is_in = self.word("in");
                    if self.is("out") && !self.is_at(1, ",") && !self.is_at(1, ";") {
                        self.advance();
                        let from = self.at;
                        let (target, shape) = self.target_with_shape()?;
                        if !matches!(shape, Shape::Scalar) {
                            let hint = "Bind its elements or fields.";
                            return Err(self.unsupported("USING OUT of a whole record", hint));
                        }
                        outs.push((using.len(), target));
                        let end = std::mem::replace(&mut self.at, from);
                        if !is_in {
                            self.at = end;
                            using.push(self.plain("null".to_owned()));
                            if !self.symbol(",") {
                                break;
                            }
                            continue;
                        }
                    }
                    using.push(self.expr_until(&["into", "returning", "bulk"], &[";", ","])?);
                    if !self.symbol(",") {
                        break;
                    }
                }
            } else {
                break;
            }
        }
        self.expect_symbol(";")?;
        Ok(Kind::Execute(Execute { text, into, using, outs, returns }))
    }
}

impl Machine<'_> {
    pub(super) async fn execute(&mut self, execute: &Execute) -> Result<()> {
        let text = self.text_of(&execute.text).await?;
        let given = self.given_values(&execute.using).await?;
        if self.dialect == Dialect::Field && is_block(&text) {
            let mark = self.mark_of_statement();
            let done = env::boxed!(self.execute_block(&text, given, execute)).await;
            return self.settle_statement(mark, done).await;
        }
        let mut into = execute.into.clone();
        let mut given = given;
        if !execute.outs.is_empty() {
            // Of a statement by itself only RETURNING gives something.
            if into.is_some() {
                return Err(PgError::syntax("USING OUT and INTO stand in one statement"));
            }
            let outs = || execute.outs.iter();
            into = Some(Into::row(false, outs().map(|(_, target)| target.clone()).collect()));
            let mut at = 0;
            given.retain(|_| {
                at += 1;
                outs().all(|(place, _)| *place != at - 1)
            });
        }
        let returns = execute.returns || !execute.outs.is_empty();
        let text = if returns { without_into(&text)? } else { text };
        let text = self.with_parameters(&text, given.len())?;
        let types: Vec<u32> = given.iter().map(|(_, ty)| parameter_type(Some(*ty))).collect();
        let values = given.into_iter().map(|(value, _)| value).collect();
        let source = Source::Dynamic { text: &text, types: &types, values };
        let is_query = into.is_some() && !returns;
        self.run_sql(source, into.as_ref(), is_query).await
    }

    /// A block with variables for what is bound.
    async fn execute_block(
        &mut self,
        text: &str,
        given: Vec<(Value, ColType)>,
        execute: &Execute,
    ) -> Result<()> {
        if execute.into.is_some() {
            return Err(PgError::syntax("INTO used with a command that cannot return data"));
        }
        let (text, count) = bound(text)?;
        if count != given.len() {
            return Err(binds_differ("block", count, given.len()));
        }
        let mut targets = Vec::with_capacity(execute.outs.len());
        for (place, target) in &execute.outs {
            targets.push((*place, self.settled(target).await?));
        }
        let types: Vec<Option<ColType>> = targets
            .iter()
            .map(|(_, target)| self.value_with_type(target).ok().map(|(_, ty)| ty))
            .collect();
        let type_at = |place: usize, ty: ColType| {
            let at = targets.iter().position(|(known, _)| *known == place);
            at.and_then(|at| types[at]).unwrap_or(ty)
        };
        let cursors = given.iter().enumerate().map(|(at, (_, ty))| type_at(at, *ty));
        let cursors: Vec<bool> = cursors.map(ColType::is_ref_cursor).collect();
        let program: Program = parse_bound(&text, &cursors)?;
        let mut machine = Machine::new(&mut *self.session, &program, Vec::new());
        for (place, (slot, (value, ty))) in program.given.iter().zip(given).enumerate() {
            let at = targets.iter().position(|(known, _)| *known == place);
            let ty = type_at(place, ty);
            let value = machine.converted(&value, ty)?;
            machine.places[*slot] = Place { value, ty: Some(ty), ..Place::null() };
            machine.places[*slot].constant = at.is_none();
            machine.lend(*slot);
        }
        machine.run(&program).await?;
        let mut results = Vec::with_capacity(targets.len());
        for (place, target) in targets {
            let held = &machine.places[program.given[place]];
            results.push((target, held.value.clone(), held.ty));
        }
        for (target, value, ty) in results {
            self.store(&target, value, ty.unwrap_or(ColType::new(TypeKind::Text)))?;
        }
        Ok(())
    }

    /// A statement that is put together while the block runs: its text, and the values of USING.
    pub(super) async fn dynamic(
        &mut self,
        text: &Sql,
        using: &[Sql],
    ) -> Result<(String, Vec<u32>, Vec<Value>)> {
        let text = self.text_of(text).await?;
        let given = self.given_values(using).await?;
        let text = self.with_parameters(&text, given.len())?;
        let types = given.iter().map(|(_, ty)| parameter_type(Some(*ty))).collect();
        Ok((text, types, given.into_iter().map(|(value, _)| value).collect()))
    }

    async fn text_of(&mut self, text: &Sql) -> Result<String> {
        let (value, _) = self.eval(text).await?;
        match self.converted(&value, ColType::new(TypeKind::Text))? {
            Value::Text(text) => Ok(text.into_string()),
            _ => Err(PgError::new("22004", "query string argument of EXECUTE is null")),
        }
    }

    async fn given_values(&mut self, using: &[Sql]) -> Result<Vec<(Value, ColType)>> {
        let mut given = Vec::with_capacity(using.len());
        for sql in using {
            given.push(self.eval(sql).await?);
        }
        Ok(given)
    }

    /// The field's `:1` and `:name` as parameters, in the order in which they stand, of which so
    /// many get values.
    fn with_parameters(&self, text: &str, given: usize) -> Result<String> {
        let plain = || text.trim_end().trim_end_matches(';').to_owned();
        if self.dialect == Dialect::Pg || (given == 0 && !text.contains(':')) {
            return Ok(plain());
        }
        match numbered(text) {
            Ok((text, count)) if count == given => Ok(text),
            Ok((_, count)) => Err(binds_differ("statement", count, given)),
            // What is wrong with it is told as of any other statement.
            Err(_) if given == 0 => Ok(plain()),
            Err(error) => Err(error),
        }
    }
}

/// USING gives fewer or more values than there are bind variables.
fn binds_differ(of: &str, count: usize, given: usize) -> PgError {
    let wrong = match given < count {
        true => "not all variables bound",
        false => "bind variable does not exist",
    };
    let text = format!("{wrong}: the {of} has {count} bind variables, and USING gives {given}");
    PgError::new("07001", text)
}

/// Whether a text is a block of the field's.
fn is_block(text: &str) -> bool {
    let text = text.trim_start();
    let is = |word: &str| {
        text.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word))
            && text[word.len()..].starts_with(char::is_whitespace)
    };
    is("begin") || is("declare")
}

/// `:1` and `:name` of a block as the parameters that it has, each name being one; how many.
fn bound(text: &str) -> Result<(String, usize)> {
    let words = tokens(text)?;
    let (mut out, mut copied, mut names) = (String::new(), 0, Vec::<&str>::new());
    for pair in words.windows(2) {
        let [colon, name] = pair else { continue };
        let named = matches!(name.tok, Tok::Word(_) | Tok::Number) && colon.end == name.at;
        if colon.tok == Tok::Symbol(":") && named {
            let given = &text[name.at..name.end];
            let known = names.iter().position(|known| known.eq_ignore_ascii_case(given));
            let number = known.unwrap_or_else(|| {
                names.push(given);
                names.len() - 1
            });
            out.push_str(&text[copied..colon.at]);
            out.push_str(&format!("${}", number + 1));
            copied = name.end;
        }
    }
    out.push_str(&text[copied..]);
    Ok((out, names.len()))
}

/// `:1` and `:name` as parameters, in the order in which they stand; how many.
fn numbered(text: &str) -> Result<(String, usize)> {
    let words = tokens(text)?;
    let (mut out, mut copied, mut count) = (String::new(), 0, 0);
    // Brackets around.
    let mut open = 0_usize;
    for (at, pair) in words.windows(2).enumerate() {
        let [colon, name] = pair else { continue };
        match colon.tok {
            Tok::Symbol("[") => open += 1,
            Tok::Symbol("]") => open = open.saturating_sub(1),
            _ => {}
        }
        let named = matches!(name.tok, Tok::Word(_) | Tok::Number) && colon.end == name.at;
        let before = at.checked_sub(1).map(|at| &words[at].tok);
        // `a[1:2]` is a part of an array.
        let parts = open > 0 && !matches!(before, Some(Tok::Symbol("[")));
        if colon.tok == Tok::Symbol(":") && named && !parts {
            count += 1;
            out.push_str(&text[copied..colon.at]);
            out.push_str(&format!("${count}"));
            copied = name.end;
        }
    }
    out.push_str(&text[copied..]);
    Ok((out.trim_end().trim_end_matches(';').to_owned(), count))
}

/// A statement of EXECUTE IMMEDIATE without the INTO of its RETURNING.
fn without_into(text: &str) -> Result<String> {
    let words = tokens(text)?;
    let is = |at: usize, word: &str| matches!(&words[at].tok, Tok::Word(w) if w == word);
    let returning = (0..words.len()).rev().find(|at| is(*at, "returning"));
    let into = returning.and_then(|from| (from..words.len()).find(|at| is(*at, "into")));
    match into {
        Some(at) => Ok(text[..words[at].at].trim_end().to_owned()),
        None => Err(PgError::syntax("the statement has no RETURNING .. INTO")),
    }
}
