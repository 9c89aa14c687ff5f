//! The statements of procedural code.

use super::attributes::is_attribute_call;
use super::lex::Tok;
use super::parse::{Name, Parser, Returning};
use super::statistics::is_statistics_call;
use super::system_calls::is_system_call;
use super::tree::{Access, Dialect, Kind, Returned, Rows, Statement, Use};
use super::types::Shape;
use crate::{PgError, Result};
use std::ops::Range;

/// Words that cannot begin an assignment or a call.
fn is_reserved(word: &str) -> bool {
    matches!(word, "end" | "else" | "elsif" | "elseif" | "when" | "exception" | "then" | "loop")
}

impl Parser<'_> {
    pub(super) fn statements_until(&mut self, ends: &[&str]) -> Result<Vec<Statement>> {
        let mut out: Vec<Statement> = Vec::new();
        let gotos = self.gotos.len();
        while !self.is_any(ends) {
            if *self.tok() == Tok::End {
                return Err(self.near());
            }
            out.push(self.statement()?);
        }
        // GOTO finds statements of its own list and of those around it, not inside of others.
        let mut missing = self.gotos.split_off(gotos);
        missing.retain(|label| !out.iter().any(|s| s.label.as_ref() == Some(label)));
        self.gotos.append(&mut missing);
        Ok(out)
    }

    /// All labels that were named since must have been found.
    pub(super) fn check_gotos(&self, since: usize) -> Result<()> {
        match self.gotos.get(since) {
            None => Ok(()),
            Some(label) => {
                let text = format!("GOTO finds no label \"{label}\" here");
                Err(self.error("42601", text).with_hint("It cannot lead into a loop or block."))
            }
        }
    }

    fn statement(&mut self) -> Result<Statement> {
        let line = self.line();
        self.begun = self.at;
        self.deeper()?;
        let label = self.label()?;
        let kind = self.statement_kind(label.clone())?;
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.shallower();
        Ok(Statement { line, label, kind })
    }

    fn statement_kind(&mut self, label: Option<String>) -> Result<Kind> {
        let Tok::Word(first) = self.tok().clone() else {
            return match self.tok() {
                Tok::Quoted(_) if self.is_call() => self.call_statement(true),
                Tok::Quoted(_) => self.assignment(),
                _ => Err(self.near()),
            };
        };
        if self.dialect == Dialect::Field && label.is_none() {
            match self.lookup(&first) {
                Some(Name::Collection(_)) => return self.collection_statement(),
                _ if self.names_collection(&first) => return self.collection_statement(),
                // `procedure.variable` is none of its calls.
                Some(Name::Routine(_)) if !self.is_at(1, ".") => {
                    return self.local_call_statement();
                }
                _ => {}
            }
        }
        match first.as_str() {
            "declare" | "begin" => {
                let block = self.block(label)?;
                self.expect_symbol(";")?;
                Ok(Kind::Block(block))
            }
            "loop" | "while" | "for" | "foreach" => self.loop_statement(label),
            _ if label.is_some() && self.dialect == Dialect::Field => self.statement_kind(None),
            _ if label.is_some() => Err(self.near()),
            "goto" if self.dialect == Dialect::Field => {
                self.advance();
                let label = self.name()?;
                self.expect_symbol(";")?;
                self.gotos.push(label.clone());
                Ok(Kind::Goto(label))
            }
            "forall" if self.dialect == Dialect::Field => self.forall_statement(),
            "pipe" if self.is_ahead(1, "row") => {
                Err(self.unsupported("PIPE ROW", "Return a collection, or use RETURN QUERY."))
            }
            "savepoint" if self.dialect == Dialect::Field => {
                self.advance();
                let name = self.name()?;
                self.expect_symbol(";")?;
                Ok(Kind::Savepoint(name))
            }
            "if" => self.if_statement(),
            "case" => self.case_statement(),
            "null" => {
                self.advance();
                self.expect_symbol(";").map(|()| Kind::Nothing)
            }
            "exit" | "continue" => self.exit_statement(first == "continue"),
            "return" => self.return_statement(),
            "call" => {
                self.advance();
                self.call_statement(false)
            }
            "raise" => self.raise_statement(),
            "assert" => {
                self.advance();
                let condition = self.expr_until(&[], &[";", ","])?;
                let message = match self.symbol(",") {
                    true => Some(self.expr_until(&[], &[";"])?),
                    false => None,
                };
                self.expect_symbol(";")?;
                Ok(Kind::Assert { condition, message })
            }
            "commit" | "rollback" => {
                self.advance();
                let _ = self.word("work") || self.word("transaction");
                if self.dialect == Dialect::Field && self.word("to") {
                    let _ = self.is_ahead_name("savepoint") && self.word("savepoint");
                    let name = self.name()?;
                    self.expect_symbol(";")?;
                    return Ok(Kind::RollbackTo(name));
                }
                if self.is("to") {
                    return Err(PgError::unsupported("ROLLBACK TO in a block").with_hint(
                        "A block with EXCEPTION takes back what it did when it catches an error.",
                    ));
                }
                self.expect_symbol(";")?;
                Ok(if first == "commit" { Kind::Commit } else { Kind::Rollback })
            }
            "execute" => self.execute_statement(),
            "get" => self.diagnostics(),
            "open" => self.open_statement(),
            "fetch" => self.fetch_statement(),
            "close" => {
                self.advance();
                let cursor = self.cursor()?;
                self.expect_symbol(";")?;
                Ok(Kind::Close { cursor })
            }
            "perform" => {
                self.advance();
                let from = self.at;
                let range = self.range_until(&[], &[";"])?;
                debug_assert_eq!(range.start, from);
                self.expect_symbol(";")?;
                let mut sql = self.sql_of(&[range], true);
                sql.text.insert_str(0, "select ");
                Ok(Kind::Sql { sql, into: None, perform: true, is_query: true })
            }
            word if is_reserved(word) => Err(self.near()),
            _ if self.is_assignment() => self.assignment(),
            _ if self.assigns_element() => self.element_assignment(),
            "move" => {
                self.refuse_move()?;
                self.sql_statement()
            }
            "dbms_output" | "dbms_lock" | "dbms_random" | "raise_application_error" => {
                self.procedure(&first)
            }
            package if self.calls(package, is_attribute_call) => self.attribute_call(),
            package if self.calls(package, is_statistics_call) => self.statistics_call(),
            package if self.calls(package, is_system_call) => self.system_call(),
            "dbms_session" if self.calls("", |_, name| name == "sleep") => self.procedure(&first),
            _ => self.sql_statement(),
        }
    }

    /// Whether a procedure of this package comes next of which `is` says yes.
    fn calls(&self, package: &str, is: impl Fn(&str, &str) -> bool) -> bool {
        self.is_at(1, ".") && matches!(self.peek(2), Tok::Word(name) if is(package, name))
    }

    /// Of how many words the name of a variable, or of a field of one, is that stands here; that of
    /// its block may come first.
    pub(super) fn target_len(&self) -> Option<usize> {
        let name = |ahead: usize| match self.peek(ahead) {
            Tok::Word(name) | Tok::Quoted(name) => Some(name.as_str()),
            _ => None,
        };
        let first = name(0)?;
        let found = self.lookup(first);
        if !self.is_at(1, ".") {
            return found.map(|_| 1);
        }
        let second = name(2)?;
        if matches!(found, Some(Name::Record(_))) {
            return Some(3);
        }
        match self.lookup_in(first, second) {
            Some(Name::Record(_)) if self.is_at(3, ".") => name(4).map(|_| 5),
            Some(_) => Some(3),
            None => found.map(|_| 3),
        }
    }

    /// Whether a name stands here that is none of a variable, with its arguments or, in the field's
    /// language, by itself.
    fn is_call(&self) -> bool {
        let (Tok::Word(first) | Tok::Quoted(first)) = self.tok() else { return false };
        if self.lookup(first).is_some() || self.is_assignment() || self.names_collection(first) {
            return false;
        }
        let mut ahead = 1;
        while self.is_at(ahead, ".") {
            ahead += 2;
        }
        self.is_at(ahead, "(") || (self.dialect == Dialect::Field && self.is_at(ahead, ";"))
    }

    /// Whether a variable, or a field of one, and `:=` or `=` come next.
    fn is_assignment(&self) -> bool {
        let assigns = |ahead: usize| matches!(self.peek(ahead), Tok::Symbol(":=" | "="));
        match self.target_len() {
            Some(len) => assigns(len),
            None => self.is_at(1, ":="),
        }
    }

    /// Whether what the block with this label calls so is a collection.
    fn names_collection(&self, label: &str) -> bool {
        let (Tok::Word(name) | Tok::Quoted(name)) = self.peek(2) else { return false };
        self.is_at(1, ".") && matches!(self.lookup_in(label, name), Some(Name::Collection(_)))
    }

    /// A variable, a field of a record or an element that gets a value.
    pub(super) fn target(&mut self) -> Result<Use> {
        self.target_with_shape().map(|(target, _)| target)
    }

    /// The same, and what it is.
    pub(super) fn target_with_shape(&mut self) -> Result<(Use, Shape)> {
        if let Some(path) = self.path()? {
            if path.method.is_some() {
                return Err(self.error("42601", "a method of a collection takes no value"));
            }
            let shape = path.shape.clone();
            return Ok((path.into_use(), shape));
        }
        let name = self.name()?;
        let mut found = self.lookup(&name);
        let mut field = None;
        if self.symbol(".") {
            let second = self.name()?;
            match found {
                Some(Name::Record(_)) => field = Some(second),
                _ => {
                    found = self.lookup_in(&name, &second);
                    if matches!(found, Some(Name::Record(_))) && self.symbol(".") {
                        field = Some(self.name()?);
                    }
                }
            }
        }
        match found {
            Some(Name::Scalar(slot)) => Ok((Use::of(slot), Shape::Scalar)),
            Some(Name::Cursor(slot)) if self.may_name(slot) => {
                self.hand_on(slot);
                Ok((Use::of(slot), Shape::Scalar))
            }
            Some(Name::Record(slot)) => Ok(match field {
                Some(field) => (Use::field(slot, &field), Shape::Scalar),
                None => (Use::of(slot), Shape::Record),
            }),
            _ => Err(self.error("42601", format!("\"{name}\" is not a known variable"))),
        }
    }

    /// What begins with a collection's name.
    fn collection_statement(&mut self) -> Result<Kind> {
        let Some(path) = self.path()? else { return Err(self.near()) };
        let Some((method, args)) = path.method else {
            let shape = path.shape.clone();
            let target = path.into_use();
            if !self.symbol(":=") {
                return Err(self.near());
            }
            return self.assigned(target, &shape);
        };
        if !method.changes() {
            return Err(self.error("42809", "what a collection says of itself is no statement"));
        }
        self.expect_symbol(";")?;
        let (slot, indexes) = (path.slot, path.indexes);
        let target = match indexes.is_empty() {
            true => Use::of(slot),
            false => Use::with(slot, Access::Element { indexes, field: None }),
        };
        Ok(Kind::Alter { target, method, args })
    }

    /// What a variable of this shape is assigned, and the `;`.
    pub(super) fn assigned(&mut self, target: Use, shape: &Shape) -> Result<Kind> {
        if !matches!(shape, Shape::Scalar)
            && let Some(from) = self.whole(shape, &[";"])?
        {
            self.expect_symbol(";")?;
            return Ok(Kind::AssignWhole { target, from });
        }
        if matches!(shape, Shape::Collection(_)) {
            return Err(self.not_whole(shape));
        }
        let value = self.expr_to_end()?;
        Ok(Kind::Assign { target, value })
    }

    /// Whether a word is so many words ahead.
    fn is_ahead(&self, ahead: usize, word: &str) -> bool {
        matches!(self.peek(ahead), Tok::Word(w) if w == word)
    }

    /// Whether a word is here and a name behind it.
    fn is_ahead_name(&self, word: &str) -> bool {
        self.is(word) && matches!(self.peek(1), Tok::Word(_) | Tok::Quoted(_))
    }

    fn assignment(&mut self) -> Result<Kind> {
        if let Tok::Word(name) = self.tok()
            && let Some(Name::Cursor(slot)) = self.lookup(name)
            && !self.may_name(slot)
        {
            let hint = "Declare a variable of type SYS_REFCURSOR.";
            return Err(self.unsupported("an assignment to a declared cursor", hint));
        }
        let (target, shape) = self.target_with_shape()?;
        if !self.symbol(":=") && !self.symbol("=") {
            return Err(self.near());
        }
        if self.dialect == Dialect::Field {
            return self.assigned(target, &shape);
        }
        if let (Tok::Word(name), Tok::Symbol(";")) = (self.tok(), self.peek(1))
            && let Some(Name::Record(from)) = self.lookup(name)
            && target.field.is_none()
        {
            self.at += 2;
            return Ok(Kind::Copy { target: target.slot, from });
        }
        let value = self.expr_to_end()?;
        Ok(Kind::Assign { target, value })
    }

    fn if_statement(&mut self) -> Result<Kind> {
        const ENDS: [&str; 4] = ["elsif", "elseif", "else", "end"];
        self.expect("if")?;
        let mut arms = Vec::new();
        loop {
            let condition = self.condition_until("then")?;
            arms.push((condition, self.statements_until(&ENDS)?));
            if !self.word("elsif") && !self.word("elseif") {
                break;
            }
        }
        let otherwise = match self.word("else") {
            true => self.statements_until(&["end"])?,
            false => Vec::new(),
        };
        self.end_of("if")?;
        Ok(Kind::If { arms, otherwise })
    }

    fn end_of(&mut self, word: &str) -> Result<()> {
        self.expect("end")?;
        self.expect(word)?;
        self.expect_symbol(";")
    }

    fn case_statement(&mut self) -> Result<Kind> {
        self.expect("case")?;
        let slot = self.new_slot();
        let operand = match self.is("when") {
            true => None,
            false => Some(self.expr_until(&["when"], &[])?),
        };
        let mut arms = Vec::new();
        while self.word("when") {
            let mut tests = Vec::new();
            loop {
                let mut test = self.expr_until(&["then"], &[","])?;
                if operand.is_some() {
                    test.uses.push(Use::of(slot));
                    test.text = format!("${} = ({})", test.uses.len(), test.text);
                }
                tests.push(test);
                if operand.is_none() || !self.symbol(",") {
                    break;
                }
            }
            self.expect("then")?;
            arms.push((tests, self.statements_until(&["when", "else", "end"])?));
        }
        let otherwise = match self.word("else") {
            true => Some(self.statements_until(&["end"])?),
            false => None,
        };
        self.end_of("case")?;
        Ok(Kind::Case { operand, arms, otherwise, slot })
    }

    fn exit_statement(&mut self, again: bool) -> Result<Kind> {
        self.advance();
        let label = match self.tok() {
            Tok::Word(w) if w != "when" => Some(self.name()?),
            Tok::Quoted(_) => Some(self.name()?),
            _ => None,
        };
        if !self.ends_something(label.as_deref(), again) {
            let what = if again { "CONTINUE" } else { "EXIT" };
            let text = match &label {
                Some(name) => format!(
                    "there is no label \"{name}\" attached to any block or loop enclosing this \
                     statement"
                ),
                None if again => "CONTINUE cannot be used outside a loop".to_owned(),
                None => format!("{what} cannot be used outside a loop, unless it has a label"),
            };
            return Err(self.error("42601", text));
        }
        let when = match self.word("when") {
            true => Some(self.expr_until(&[], &[";"])?),
            false => None,
        };
        self.expect_symbol(";")?;
        Ok(Kind::Exit { label, when, again })
    }

    pub(super) fn loop_body(&mut self, label: Option<&str>) -> Result<Vec<Statement>> {
        self.expect("loop")?;
        let body = self.statements_until(&["end"])?;
        self.expect("end")?;
        self.expect("loop")?;
        self.end_label(label)?;
        self.expect_symbol(";")?;
        Ok(body)
    }

    fn loop_statement(&mut self, label: Option<String>) -> Result<Kind> {
        self.enter(label.clone(), true);
        let kind = if self.is("loop") {
            let body = self.loop_body(label.as_deref())?;
            Kind::Loop { label, body }
        } else if self.word("while") {
            let condition = self.expr_until(&["loop"], &[])?;
            let body = self.loop_body(label.as_deref())?;
            Kind::While { label, condition, body }
        } else if self.is("foreach") {
            self.foreach_statement(label)?
        } else {
            self.for_statement(label)?
        };
        self.leave();
        Ok(kind)
    }

    fn for_statement(&mut self, label: Option<String>) -> Result<Kind> {
        self.expect("for")?;
        let first = self.at;
        while !self.is("in") {
            if !matches!(self.tok(), Tok::Word(_) | Tok::Quoted(_) | Tok::Symbol("," | ".")) {
                return Err(self.near());
            }
            self.advance();
        }
        let names = first..self.at;
        self.expect("in")?;
        let reverse = self.word("reverse");
        if reverse || self.is_range() {
            self.at = if reverse { self.at } else { names.end + 1 };
            return self.range_loop(label, names, reverse);
        }
        let rows = self.rows_of_loop()?;
        let end = self.at;
        self.at = names.start;
        let targets = self.loop_targets(&names, &rows)?;
        if targets.len() > 1 && self.at != names.end {
            return Err(self.near());
        }
        self.at = end;
        let body = self.loop_body(label.as_deref())?;
        Ok(Kind::ForRows { label, targets, rows, body })
    }

    /// Whether `..` comes before the loop's body.
    fn is_range(&self) -> bool {
        let mut open = 0_usize;
        for token in &self.tokens[self.at..] {
            match &token.tok {
                Tok::Symbol("(") => open += 1,
                Tok::Symbol(")") => open = open.saturating_sub(1),
                Tok::Symbol("..") if open == 0 => return true,
                Tok::Word(w) if w == "loop" => return false,
                Tok::Symbol(";") | Tok::End => return false,
                _ => {}
            }
        }
        false
    }

    fn range_loop(
        &mut self,
        label: Option<String>,
        names: Range<usize>,
        reverse: bool,
    ) -> Result<Kind> {
        let from = self.expr_until(&[], &[".."])?;
        self.expect_symbol("..")?;
        let to = self.expr_until(&["loop", "by"], &[])?;
        let step = match self.word("by") {
            true => Some(self.expr_until(&["loop"], &[])?),
            false => None,
        };
        let end = self.at;
        self.at = names.start;
        let name = self.name()?;
        if self.at != names.end {
            return Err(self.near());
        }
        self.at = end;
        let slot = self.new_slot();
        self.declare(&name, Name::Scalar(slot))?;
        let body = self.loop_body(label.as_deref())?;
        Ok(Kind::Range { label, slot, reverse, from, to, step, body })
    }

    fn rows_of_loop(&mut self) -> Result<Rows> {
        if self.word("execute") {
            let _ = self.word("immediate");
            let text = self.expr_until(&["loop", "using"], &[])?;
            let mut using = Vec::new();
            if self.word("using") {
                loop {
                    using.push(self.expr_until(&["loop"], &[","])?);
                    if !self.symbol(",") {
                        break;
                    }
                }
            }
            return Ok(Rows::Dynamic { text, using });
        }
        if let Tok::Word(name) = self.tok()
            && let Some(Name::Cursor(slot)) = self.lookup(name)
        {
            self.advance();
            return Ok(Rows::Cursor(slot, self.cursor_args()?));
        }
        let range = self.range_until(&["loop"], &[])?;
        Ok(Rows::Static(self.sql_of(&[range], true)))
    }

    /// What the rows of a loop go into: variables that are there, or a record of its own.
    fn loop_targets(&mut self, names: &Range<usize>, rows: &Rows) -> Result<Vec<Use>> {
        let own = names.len() == 1;
        if own && let Tok::Word(name) | Tok::Quoted(name) = self.tok().clone() {
            let is_new = self.lookup(&name).is_none() || self.dialect == Dialect::Field;
            if is_new && (self.dialect == Dialect::Field || matches!(rows, Rows::Cursor(..))) {
                let slot = self.new_slot();
                self.declare(&name, Name::Record(slot))?;
                self.records.push((slot, name));
                return Ok(vec![Use::of(slot)]);
            }
        }
        if own && matches!(self.tok(), Tok::Word(w) if self.lookup(w).is_none()) {
            let text = "loop variable of loop over rows must be a record variable or list of \
                        scalar variables";
            return Err(self.error("42601", text));
        }
        self.targets()
    }

    pub(super) fn targets(&mut self) -> Result<Vec<Use>> {
        let mut targets = vec![self.target()?];
        while self.symbol(",") {
            targets.push(self.target()?);
        }
        Ok(targets)
    }

    fn return_statement(&mut self) -> Result<Kind> {
        self.expect("return")?;
        if let Some(routine) = self.local {
            return self.local_return(routine);
        }
        let set = matches!(self.returning, Returning::Set(_));
        if self.is("next") && !matches!(self.peek(1), Tok::Symbol("." | "(")) {
            self.advance();
            if !set {
                let text = "cannot use RETURN NEXT in a non-SETOF function";
                return Err(self.error("42804", text));
            }
            if self.returning == Returning::Set(true) {
                if !self.symbol(";") {
                    let text =
                        "RETURN NEXT cannot have a parameter in function with OUT parameters";
                    return Err(self.error("42804", text));
                }
                return Ok(Kind::ReturnNext(None));
            }
            return Ok(Kind::ReturnNext(Some(self.returned()?)));
        }
        if self.word("query") {
            if !set {
                let text = "cannot use RETURN QUERY in a non-SETOF function";
                return Err(self.error("42804", text));
            }
            let rows = match self.word("execute") {
                true => {
                    let text = self.expr_until(&["using"], &[";"])?;
                    Rows::Dynamic { text, using: self.using_list()? }
                }
                false => {
                    let range = self.range_until(&[], &[";"])?;
                    Rows::Static(self.sql_of(&[range], true))
                }
            };
            self.expect_symbol(";")?;
            return Ok(Kind::ReturnQuery(rows));
        }
        match (self.returning, self.symbol(";")) {
            (Returning::Value | Returning::Row, false) => Ok(Kind::Return(Some(self.returned()?))),
            (Returning::Value | Returning::Row, true) => {
                Err(self.error("42601", "missing expression at or near \";\""))
            }
            (_, true) => Ok(Kind::Return(None)),
            (Returning::Set(_), false) => {
                let text = "RETURN cannot have a parameter in function returning set";
                Err(self.error("42804", text).with_hint("Use RETURN NEXT or RETURN QUERY."))
            }
            (Returning::Arguments, false) => {
                let text = "RETURN cannot have a parameter in function with OUT parameters";
                Err(self.error("42804", text))
            }
            (Returning::Nothing, false) => {
                let text = "RETURN cannot have a parameter in function returning void";
                Err(self.error("42804", text))
            }
        }
    }

    /// What is returned, and the `;` behind it.
    fn returned(&mut self) -> Result<Returned> {
        if let (Tok::Word(name) | Tok::Quoted(name), Tok::Symbol(";")) = (self.tok(), self.peek(1))
            && let Some(Name::Record(slot)) = self.lookup(name)
        {
            self.at += 2;
            return Ok(Returned::Record(slot));
        }
        Ok(Returned::Value(self.expr_to_end()?))
    }

    /// `p(a, b)`, of which what is called may be a function; and the `;`.
    fn call_statement(&mut self, may_select: bool) -> Result<Kind> {
        let from = self.at;
        let mut name = vec![self.name()?];
        while self.symbol(".") {
            name.push(self.name()?);
        }
        let mut targets = Vec::new();
        if self.symbol("(") && !self.symbol(")") {
            loop {
                let begin = self.at;
                let range = self.range_until(&[], &[",", ")"])?;
                let end = self.at;
                // A variable by itself, under whatever name it is given.
                self.at = begin;
                let named = matches!(self.peek(1), Tok::Symbol("=>" | ":="));
                self.at += if named { 2 } else { 0 };
                let target = self.target().ok().filter(|_| self.at == range.end);
                targets.push(target);
                self.at = end;
                if !self.symbol(",") {
                    break;
                }
            }
            self.expect_symbol(")")?;
        }
        let end = self.at;
        self.expect_symbol(";")?;
        let range = from..end;
        // Its arguments are no SQL of a query's.
        let is_sql = self.dialect == Dialect::Pg;
        let mut sql = self.sql_of(std::slice::from_ref(&range), is_sql);
        let bare = self.tokens[end - 1].tok != Tok::Symbol(")");
        if bare {
            sql.text.push_str("()");
        }
        // Packages of ours.
        const OWN: [&str; 3] = ["dbms_monitor", "dbms_session", "dbms_workload_repository"];
        let own = OWN.contains(&name[0].as_str());
        let query = (may_select && !own).then(|| {
            let mut query = self.sql_of(std::slice::from_ref(&range), is_sql);
            query.text.insert_str(0, "select ");
            query
        });
        sql.text.insert_str(0, "call ");
        Ok(Kind::Call { sql, targets, query, name })
    }

    // ---- SQL --------------------------------------------------------------------------------

    pub(super) fn sql_statement(&mut self) -> Result<Kind> {
        let Tok::Word(first) = self.tok().clone() else { return Err(self.near()) };
        self.refuse_known(&first)?;
        const VERBS: [&str; 8] =
            ["select", "insert", "update", "delete", "merge", "values", "with", "table"];
        let is_verb = VERBS.contains(&first.as_str());
        // What is called for what it does.
        let mut ahead = 1;
        while matches!(self.peek(ahead), Tok::Symbol(".")) {
            ahead += 2;
        }
        let bare = self.dialect == Dialect::Field && *self.peek(ahead) == Tok::Symbol(";");
        if !is_verb && (bare || matches!(self.peek(ahead), Tok::Symbol("("))) {
            return self.call_statement(true);
        }
        let all = self.range_until(&[], &[";"])?;
        let end = self.at;
        let is_query = matches!(first.as_str(), "select" | "with" | "values" | "table");
        let changes = matches!(first.as_str(), "insert" | "update" | "delete" | "merge" | "with");
        let mut into = None;
        let mut parts = vec![all.clone()];
        if let Some(at) = self.place_of_into(&all, is_query, changes) {
            self.at = at + 1;
            let bulk = at >= all.start + 2
                && self.dialect == Dialect::Field
                && matches!(&self.tokens[at - 2].tok, Tok::Word(w) if w == "bulk")
                && matches!(&self.tokens[at - 1].tok, Tok::Word(w) if w == "collect");
            let strict = self.is("strict") && !matches!(self.peek(1), Tok::Symbol("," | ";" | "."));
            if strict {
                self.advance();
            }
            into = Some(self.row_targets(strict, bulk)?);
            let until = if bulk { at - 2 } else { at };
            parts = vec![all.start..until, self.at..all.end];
        }
        self.at = end;
        self.expect_symbol(";")?;
        if !is_verb {
            // Names in definitions are never variables.
            let text = self.cut(&all).to_owned();
            let sql = self.plain(text);
            return Ok(Kind::Sql { sql, into: None, perform: false, is_query: false });
        }
        self.refuse_row_set(&all)?;
        let sql = self.sql_of(&parts, true);
        Ok(Kind::Sql { sql, into, perform: false, is_query })
    }

    fn refuse_row_set(&self, all: &Range<usize>) -> Result<()> {
        if self.dialect == Dialect::Pg {
            return Ok(());
        }
        let word = |at: usize, word: &str| {
            at < all.end && matches!(&self.tokens[at].tok, Tok::Word(w) if w == word)
        };
        for at in all.clone() {
            let equals = matches!(self.tokens[(at + 2).min(all.end)].tok, Tok::Symbol("="));
            if word(at, "set") && word(at + 1, "row") && equals {
                let hint = "Name the columns: SET a = r.a, b = r.b.";
                return Err(self.unsupported("SET ROW", hint));
            }
        }
        Ok(())
    }

    /// The INTO of a statement that gives its rows to variables.
    fn place_of_into(&self, all: &Range<usize>, is_query: bool, changes: bool) -> Option<usize> {
        let mut open = 0_usize;
        let mut returns = is_query && !changes;
        let mut previous = "";
        for at in all.clone() {
            match &self.tokens[at].tok {
                Tok::Symbol("(") => open += 1,
                Tok::Symbol(")") => open = open.saturating_sub(1),
                Tok::Word(w) if open == 0 => {
                    if w == "into" && !matches!(previous, "insert" | "merge") && returns {
                        return Some(at);
                    }
                    returns |= w == "returning" || (w == "select" && is_query);
                    previous = w;
                }
                _ => {}
            }
        }
        None
    }
}
