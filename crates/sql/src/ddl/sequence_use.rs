//! The sequences that the defaults of columns call.
//!
//! What it promises: a default means the sequence that its text named when it was declared, by the
//! search path of then, and calls it by whatever name it has later. What it must never do: leave a
//! default behind that names nothing; a sequence that is called goes only with CASCADE, which takes
//! the defaults too.

use super::depend::{Dependent, Thing, depended_on};
use super::predicate::quote_literal;
use crate::bind::ident_name;
use crate::parse::byte_offset;
use crate::sequence::split_name;
use crate::session::Session;
use crate::{PgError, Result, direct};
use block::ObjId;
use datafusion::sql::sqlparser::ast::{
    DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Value, visit_expressions,
};
use datafusion::sql::sqlparser::tokenizer::Span;
use kernel::dict::{self, ColumnDef, SequenceDef, TableDef};
use kernel::txn::{LockWait, TmMode};
use query::functions::quote_ident;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// The name of a sequence in a text: `nextval`'s argument, or what stands before `.nextval`.
struct Named {
    /// Where its literal stands, in bytes; of the field's form the whole.
    at: Range<usize>,
    /// The function that the field's form means.
    call: Option<&'static str>,
    schema: Option<String>,
    name: String,
}

impl Named {
    fn is(&self, sequence: &SequenceDef) -> bool {
        self.schema.as_ref() == Some(&sequence.schema) && self.name == sequence.name
    }

    /// What stands there for a sequence of that name.
    fn text(&self, name: &str) -> String {
        match self.call {
            Some(function) => format!("{function}({})", quote_literal(name)),
            None => quote_literal(name),
        }
    }
}

/// A sequence's name as it is found whatever the search path.
pub(super) fn qualified(schema: &str, name: &str) -> String {
    format!("{}.{}", quote_ident(schema), quote_ident(name))
}

/// The sequences that an expression names by literals, the last one first. A name that is a text
/// (`'s'::text`) is looked up whenever it is used, and means nothing before.
fn named_in(text: &str) -> Result<Vec<Named>> {
    let mut found = Vec::new();
    if !text.contains(['(', '.']) {
        return Ok(found);
    }
    let expr = direct::parse_expr(text)?;
    let _: ControlFlow<()> = visit_expressions(&expr, |expr| {
        let (call, span, parts) = match (literal_of(expr), by_field(expr)) {
            (Some((span, name)), _) => (None, span, split_name(name)),
            (None, Some((call, span, parts))) => (Some(call), span, parts),
            (None, None) => return ControlFlow::Continue(()),
        };
        let (schema, name) = match &parts[..] {
            [name] => (None, name.clone()),
            [schema, name] => (Some(schema.clone()), name.clone()),
            _ => return ControlFlow::Continue(()),
        };
        let at = byte_offset(text, span.start)..byte_offset(text, span.end);
        found.push(Named { at, call, schema, name });
        ControlFlow::Continue(())
    });
    found.sort_by_key(|named| std::cmp::Reverse(named.at.start));
    Ok(found)
}

/// `s.nextval`: the function that it means, where it stands, and the sequence's name.
fn by_field(expr: &Expr) -> Option<(&'static str, Span, Vec<String>)> {
    let Expr::CompoundIdentifier(parts) = expr else { return None };
    let (last, name) = parts.split_last()?;
    let call = ["nextval", "currval"]
        .into_iter()
        .find(|call| last.quote_style.is_none() && last.value.eq_ignore_ascii_case(call))?;
    let span = Span::new(name.first()?.span.start, last.span.end);
    Some((call, span, name.iter().map(ident_name).collect()))
}

/// The literal by which a call names its sequence, if it is such a call.
fn literal_of(expr: &Expr) -> Option<(Span, &str)> {
    let Expr::Function(call) = expr else { return None };
    let function = call.name.0.last()?.as_ident()?.value.to_lowercase();
    if !["nextval", "currval", "setval"].contains(&function.as_str()) {
        return None;
    }
    let FunctionArguments::List(list) = &call.args else { return None };
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) = list.args.first()? else { return None };
    let literal = match arg {
        Expr::Cast { expr, data_type: DataType::Regclass, .. } => &**expr,
        other => other,
    };
    let Expr::Value(value) = literal else { return None };
    let Value::SingleQuotedString(name) = &value.value else { return None };
    Some((value.span, name))
}

/// A default's text with a sequence's new name, if it calls that sequence.
pub(super) fn renamed(text: &str, sequence: &SequenceDef, to: &str) -> Result<Option<String>> {
    let mut new = None;
    for named in named_in(text)? {
        if named.is(sequence) {
            // All else is as it was written.
            let text = new.get_or_insert_with(|| text.to_owned());
            text.replace_range(named.at.clone(), &named.text(to));
        }
    }
    Ok(new)
}

/// The columns whose defaults call a sequence.
fn callers<'a>(table: &'a TableDef, sequence: &SequenceDef) -> Result<Vec<&'a ColumnDef>> {
    let mut callers = Vec::new();
    for column in &table.columns {
        let Some(text) = &column.default else { continue };
        if named_in(text)?.iter().any(|named| named.is(sequence)) {
            callers.push(column);
        }
    }
    Ok(callers)
}

impl Session {
    /// Binds the names of sequences in a column's default to what they mean now.
    ///
    /// # Errors
    /// 42P01 if there is no such sequence.
    pub(super) async fn bind_sequences(&mut self, column: &mut ColumnDef) -> Result<()> {
        let Some(text) = &mut column.default else { return Ok(()) };
        for named in named_in(text)? {
            let Named { at, schema, name, .. } = &named;
            let missing = || match &schema {
                Some(schema) => PgError::undefined_table(format!("{schema}.{name}")),
                None => PgError::undefined_table(name),
            };
            let found = self.find_sequence(schema.as_deref(), name).await?;
            let found = found.ok_or_else(missing)?;
            // It does not go or change its name before this transaction ends.
            self.hold_sequence(found.obj, TmMode::SS).await?;
            let txn = self.transaction()?;
            let held = dict::sequence(&self.ctx, &txn, &found.schema, &found.name).await?;
            let held = held.filter(|held| held.obj == found.obj).ok_or_else(missing)?;
            text.replace_range(at.clone(), &named.text(&qualified(&held.schema, &held.name)));
        }
        Ok(())
    }

    /// Locks a sequence for those who use its name, or for one who takes it away.
    pub(super) async fn hold_sequence(&mut self, obj: ObjId, mode: TmMode) -> Result<()> {
        let txn = self.transaction()?;
        let core = &self.instance.core;
        core.lock_table(&self.ctx, &txn, obj, mode, LockWait::Wait).await?;
        Ok(())
    }

    /// Has the defaults that call a sequence call it by another name.
    pub(super) async fn rename_in_defaults(
        &mut self,
        sequence: &SequenceDef,
        to: &str,
    ) -> Result<()> {
        let txn = self.transaction()?;
        for table in dict::tables(&self.ctx, &txn).await? {
            let mut columns = super::alter_column::kept(&table);
            let mut changed = false;
            for column in &mut columns {
                let Some(text) = &column.def.default else { continue };
                if let Some(new) = renamed(text, sequence, to)? {
                    column.def.default = Some(new);
                    changed = true;
                }
            }
            if changed {
                self.set_columns(&table, columns, false).await?;
            }
        }
        Ok(())
    }

    /// A sequence as messages have it: with its schema if it is not found without.
    pub(super) async fn shown_sequence(&mut self, sequence: &SequenceDef) -> Result<String> {
        let visible = self.find_sequence(None, &sequence.name).await?;
        Ok(match visible.is_some_and(|found| found.obj == sequence.obj) {
            true => quote_ident(&sequence.name),
            false => qualified(&sequence.schema, &sequence.name),
        })
    }

    /// The defaults that call a sequence, but for those of tables that go with it.
    pub(super) async fn defaults_on(
        &mut self,
        sequence: &SequenceDef,
        goes: impl Fn(ObjId) -> bool,
    ) -> Result<Vec<Dependent>> {
        let txn = self.transaction()?;
        let mut found = Vec::new();
        for table in dict::tables(&self.ctx, &txn).await? {
            if goes(table.obj) {
                continue;
            }
            for column in callers(&table, sequence)? {
                let of = self.shown_relation(&table).await?;
                let shown = format!("default value for column {} of table {of}", column.name);
                let said =
                    format!("{shown} depends on sequence {}", self.shown_sequence(sequence).await?);
                let what = Thing::Default(table.obj, column.name.clone());
                found.push(Dependent { what, shown, said });
            }
        }
        Ok(found)
    }

    /// The same of the sequences that go with tables.
    pub(super) async fn defaults_on_owned(
        &mut self,
        goes: impl Fn(ObjId) -> bool,
    ) -> Result<Vec<Dependent>> {
        let txn = self.transaction()?;
        let mut found = Vec::new();
        for sequence in dict::sequences(&self.ctx, &txn).await? {
            if sequence.table.is_some_and(&goes) {
                self.hold_sequence(sequence.obj, TmMode::X).await?;
                found.extend(self.defaults_on(&sequence, &goes).await?);
            }
        }
        Ok(found)
    }

    pub(super) async fn drop_default(&mut self, table: ObjId, column: &str) -> Result<()> {
        let txn = self.transaction()?;
        let Some(table) = dict::table_by_obj(&self.ctx, &txn, table).await? else { return Ok(()) };
        let mut columns = super::alter_column::kept(&table);
        for one in columns.iter_mut().filter(|one| one.def.name == column) {
            one.def.default = None;
        }
        self.set_columns(&table, columns, false).await?;
        Ok(())
    }

    /// Whether there was such a sequence; it is gone now.
    pub(super) async fn drop_sequence(
        &mut self,
        schema: Option<&str>,
        name: &str,
        cascade: bool,
    ) -> Result<bool> {
        let Some(sequence) = self.find_sequence(schema, name).await? else { return Ok(false) };
        let (in_schema, owner) = (&sequence.schema, sequence.owner);
        self.check_droppable("sequence", name, in_schema, owner).await?;
        self.hold_sequence(sequence.obj, TmMode::X).await?;
        let what = format!("sequence {}", self.shown_sequence(&sequence).await?);
        self.check_no_identity(&sequence, &what).await?;
        let dependents = self.defaults_on(&sequence, |_| false).await?;
        self.drop_dependents(&what, dependents, cascade).await?;
        let txn = self.transaction()?;
        dict::drop_sequence(&self.ctx, &txn, &sequence).await?;
        Ok(true)
    }

    /// 2BP01 if the sequence is an identity column's.
    async fn check_no_identity(&mut self, sequence: &SequenceDef, what: &str) -> Result<()> {
        let Some(table) = sequence.table else { return Ok(()) };
        let txn = self.transaction()?;
        let Some(table) = dict::table_by_obj(&self.ctx, &txn, table).await? else { return Ok(()) };
        let callers = callers(&table, sequence)?;
        let Some(column) = callers.iter().find(|column| column.generated.is_some()) else {
            return Ok(());
        };
        let of = self.shown_relation(&table).await?;
        let column = format!("column {} of table {of}", column.name);
        let text = format!("cannot drop {what} because {column} requires it");
        Err(PgError::new("2BP01", text).with_hint(format!("You can drop {column} instead.")))
    }

    /// Drops the sequence of a column that has just been dropped or is no identity any more.
    pub(super) async fn drop_sequence_of(
        &mut self,
        table: &Arc<TableDef>,
        default: Option<&str>,
        what: &str,
        cascade: bool,
    ) -> Result<()> {
        let Some(default) = default else { return Ok(()) };
        let txn = self.transaction()?;
        for sequence in dict::sequences(&self.ctx, &txn).await? {
            let own = sequence.table == Some(table.obj)
                && named_in(default)?.iter().any(|named| named.is(&sequence));
            if own {
                self.hold_sequence(sequence.obj, TmMode::X).await?;
                let others = self.defaults_on(&sequence, |_| false).await?;
                if !cascade && !others.is_empty() {
                    let said: Vec<String> = others.into_iter().map(|one| one.said).collect();
                    return Err(depended_on(what, &said));
                }
                self.drop_dependents(what, others, cascade).await?;
                dict::drop_sequence(&self.ctx, &txn, &sequence).await?;
            }
        }
        Ok(())
    }
}
