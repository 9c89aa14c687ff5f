//! Foreign keys declared, and what stands in their way: tables, indexes and columns that others
//! refer to.
//!
//! What it promises: a key is in the dictionary only if the rows that are there meet it, or it says
//! that they have not been looked at (NOT VALID). What it must never do: drop a key that the
//! statement does not name without CASCADE.

use super::constraint::taken_name;
use super::depend::{Dependent, Thing};
use super::{is_temporary, refuse};
use crate::bind::{ident_name, table_parts};
use crate::foreign::no_parent;
use crate::session::Session;
use crate::{PgError, Result, Severity};
use block::ObjId;
use datafusion::sql::sqlparser::ast::{
    self, ConstraintCharacteristics, ConstraintReferenceMatchKind, DeferrableInitial, Ident,
    ObjectName, ReferentialAction,
};
use kernel::dict::{self, ForeignKeyDef, Generated, IndexDef, KeyAction, TableDef};
use kernel::row::ColType;
use kernel::table::foreign;
use query::functions::quote_ident;
use std::sync::Arc;

/// A foreign key as declared.
pub(super) struct NewForeign {
    pub(super) name: Option<String>,
    /// Columns of the table that refers.
    pub(super) columns: Vec<String>,
    pub(super) spec: ast::ForeignKeyConstraint,
    pub(super) not_valid: bool,
}

/// A foreign key, and the table whose rows it refers from.
type Reference = (Arc<TableDef>, Arc<ForeignKeyDef>);

fn action(spec: Option<ReferentialAction>) -> KeyAction {
    match spec {
        None | Some(ReferentialAction::NoAction) => KeyAction::NoAction,
        Some(ReferentialAction::Restrict) => KeyAction::Restrict,
        Some(ReferentialAction::Cascade) => KeyAction::Cascade,
        Some(ReferentialAction::SetNull) => KeyAction::SetNull,
        Some(ReferentialAction::SetDefault) => KeyAction::SetDefault,
    }
}

/// Whether it is deferrable, and deferred from the beginning.
fn timing(characteristics: Option<ConstraintCharacteristics>) -> Result<(bool, bool)> {
    let Some(said) = characteristics else { return Ok((false, false)) };
    if said.enforced == Some(false) {
        return refuse("NOT ENFORCED");
    }
    let deferred = said.initially == Some(DeferrableInitial::Deferred);
    if deferred && said.deferrable == Some(false) {
        let text = "constraint declared INITIALLY DEFERRED must be DEFERRABLE";
        return Err(PgError::syntax(text));
    }
    Ok((deferred || said.deferrable == Some(true), deferred))
}

/// Positions of the columns that the table refers from.
fn referring(table: &TableDef, names: &[String]) -> Result<Vec<u16>> {
    let position = |name: &String| {
        let at = table.column(name).and_then(|at| u16::try_from(at).ok());
        at.ok_or_else(|| no_column(name))
    };
    names.iter().map(position).collect()
}

fn no_column(name: &str) -> PgError {
    let text = format!("column \"{name}\" referenced in foreign key constraint does not exist");
    PgError::new("42703", text)
}

/// The unique index over the columns referred to, and their places in it.
fn referred(
    parent: &TableDef,
    names: &[String],
    count: usize,
) -> Result<(Arc<IndexDef>, Vec<u16>)> {
    let table = &parent.name;
    let disagree = || {
        let text = "number of referencing and referenced columns for foreign key disagree";
        PgError::new("42830", text)
    };
    if names.is_empty() {
        let key = parent.primary_key().ok_or_else(|| {
            let text = format!("there is no primary key for referenced table \"{table}\"");
            PgError::new("42704", text)
        })?;
        let parts = 0..u16::try_from(key.columns.len()).unwrap_or(u16::MAX);
        if key.columns.len() != count {
            return Err(disagree());
        }
        return Ok((key.clone(), parts.collect()));
    }
    if parent.materialized.is_some() {
        let text = format!("referenced relation \"{table}\" is not a table");
        return Err(PgError::new("42809", text));
    }
    let columns = referring(parent, names)?;
    if columns.len() != count {
        return Err(disagree());
    }
    if (1..columns.len()).any(|i| columns[..i].contains(&columns[i])) {
        let text = "foreign key referenced-columns list must not contain duplicates";
        return Err(PgError::new("42830", text));
    }
    let serves = |index: &&Arc<IndexDef>| {
        index.unique
            && index.columns.len() == count
            && index.columns.iter().all(|column| columns.contains(column))
    };
    let index = parent.indexes.iter().find(serves).ok_or_else(|| {
        let text = format!(
            "there is no unique constraint matching given keys for referenced table \"{table}\""
        );
        PgError::new("42830", text)
    })?;
    let part = |column: &u16| {
        let at = index.columns.iter().position(|known| known == column).unwrap_or(0);
        u16::try_from(at).unwrap_or(u16::MAX)
    };
    Ok((index.clone(), columns.iter().map(part).collect()))
}

/// Whether values of the two columns can be compared; `name` is the key's.
fn check_types(name: &str, child: (&str, ColType), parent: (&str, ColType)) -> Result<()> {
    use kernel::row::TypeKind::{
        Char, Date, Float4, Float8, Int2, Int4, Int8, Numeric, Text, Timestamp,
    };
    use kernel::row::TypeKind::{Timestamptz, Varchar};
    if foreign::comparable(child.1.kind, parent.1.kind) {
        return Ok(());
    }
    // PostgreSQL casts the one to the other, or compares them as they are.
    let casts = matches!(
        (child.1.kind, parent.1.kind),
        (Int2 | Int4 | Int8 | Numeric, Float4 | Float8)
            | (Date | Timestamp | Timestamptz, Date | Timestamp | Timestamptz)
            | (Char, Text | Varchar)
            | (Text | Varchar, Char)
    );
    let plain = |ty: ColType| ty.without_limit();
    let (from, to) = (plain(child.1), plain(parent.1));
    if casts {
        return refuse(format!("a foreign key from {from} to {to}"));
    }
    let detail = format!(
        "Key columns \"{}\" and \"{}\" are of incompatible types: {from} and {to}.",
        child.0, parent.0
    );
    let text = format!("foreign key constraint \"{name}\" cannot be implemented");
    Err(PgError::new("42804", text).with_detail(detail))
}

fn check_all_types(child: &TableDef, parent: &TableDef, key: &ForeignKeyDef) -> Result<()> {
    let columns = key.parent_columns(parent).unwrap_or_default();
    for (own, other) in key.columns.iter().zip(&columns) {
        let (own, other) =
            (&child.columns[usize::from(*own)], &parent.columns[usize::from(*other)]);
        check_types(&key.name, (&own.name, own.ty), (&other.name, other.ty))?;
    }
    Ok(())
}

/// What gets its value by itself is not set by an action.
fn check_actions(table: &TableDef, key: &ForeignKeyDef) -> Result<()> {
    let computed = |at: &u16| table.columns[usize::from(*at)].generated == Some(Generated::Stored);
    if !key.columns.iter().any(computed) {
        return Ok(());
    }
    let sets = |action| matches!(action, KeyAction::SetNull | KeyAction::SetDefault);
    let refused = [
        (key.on_update == KeyAction::Cascade || sets(key.on_update), "UPDATE"),
        (sets(key.on_delete), "DELETE"),
    ];
    match refused.iter().find(|(refused, _)| *refused) {
        None => Ok(()),
        Some((_, event)) => Err(PgError::syntax(format!(
            "invalid ON {event} action for foreign key constraint containing generated column"
        ))),
    }
}

fn taken(table: &TableDef, name: &str) -> bool {
    table.foreign.iter().any(|key| key.name == name)
        || table.checks.iter().any(|check| check.name == name)
        || table.indexes.iter().any(|index| index.constraint.as_deref() == Some(name))
}

/// 42710 if the table has a constraint of this name.
pub(super) fn check_free(table: &TableDef, name: &str) -> Result<()> {
    if !taken(table, name) {
        return Ok(());
    }
    Err(taken_name(name, &table.name))
}

fn chosen_name(table: &TableDef, columns: &[String]) -> String {
    let base = format!("{}_{}_fkey", table.name, columns.join("_"));
    let numbered = |n: usize| if n == 0 { base.clone() } else { format!("{base}{n}") };
    (0..).map(numbered).find(|name| !taken(table, name)).unwrap_or_default()
}

impl Session {
    /// Adds a foreign key to a table that is locked or the transaction's own.
    pub(super) async fn add_foreign_key(
        &mut self,
        table: &Arc<TableDef>,
        new: &NewForeign,
    ) -> Result<()> {
        let spec = &new.spec;
        let parent = self.referred_table(&spec.foreign_table).await?;
        if spec.match_kind == Some(ConstraintReferenceMatchKind::Partial) {
            return Err(PgError::new("0A000", "MATCH PARTIAL not yet implemented"));
        }
        if is_temporary(&parent.schema) != is_temporary(&table.schema) {
            let kind = if is_temporary(&table.schema) { "temporary" } else { "permanent" };
            let text = format!("constraints on {kind} tables may reference only {kind} tables");
            return Err(PgError::new("42P16", text));
        }
        self.check_refers(&parent, &spec.referred_columns).await?;
        let txn = self.transaction()?;
        // Its index and its columns' types stay as they are from here on.
        let parent = dict::lock_definition(&self.ctx, &txn, &parent).await?;
        let (deferrable, deferred) = timing(spec.characteristics)?;
        let columns = referring(table, &new.columns)?;
        let names: Vec<String> = spec.referred_columns.iter().map(ident_name).collect();
        let (index, parts) = referred(&parent, &names, columns.len())?;
        let name = match &new.name {
            None => chosen_name(table, &new.columns),
            Some(name) => name.clone(),
        };
        check_free(table, &name)?;
        let key = ForeignKeyDef {
            // Numbered by the dictionary.
            obj: table.obj,
            name: name.clone(),
            table: table.obj,
            columns,
            parent: parent.obj,
            index: index.obj,
            parts,
            on_delete: action(spec.on_delete),
            on_update: action(spec.on_update),
            full: spec.match_kind == Some(ConstraintReferenceMatchKind::Full),
            deferrable,
            deferred,
            validated: !new.not_valid,
        };
        check_actions(table, &key)?;
        check_all_types(table, &parent, &key)?;
        let txn = self.transaction()?;
        let child = dict::add_foreign_key(&self.ctx, &txn, table, &parent, key).await?;
        let made = child.foreign.iter().find(|key| key.name == name).cloned();
        let made = made.ok_or_else(|| PgError::internal("the key is not there"))?;
        if new.not_valid { Ok(()) } else { self.look_through(&child, &made).await }
    }

    async fn referred_table(&mut self, name: &ObjectName) -> Result<Arc<TableDef>> {
        let shown = table_parts(name)?.1;
        self.table_of(name).await.map_err(|error| match error.code {
            "42809" => {
                PgError::new("42809", format!("referenced relation \"{shown}\" is not a table"))
            }
            _ => error,
        })
    }

    /// 42501 unless the role may refer to these columns of the parent.
    async fn check_refers(&mut self, parent: &TableDef, names: &[Ident]) -> Result<()> {
        let named = names.iter().filter_map(|name| parent.column(&ident_name(name)));
        let mut columns: Vec<usize> = named.collect();
        if names.is_empty()
            && let Some(key) = parent.primary_key()
        {
            columns.extend(key.columns.iter().map(|at| usize::from(*at)));
        }
        self.check_columns(parent, dict::Privileges::REFERENCES, &columns).await
    }

    /// 23503 if a row of the locked table has no parent.
    async fn look_through(&mut self, child: &TableDef, key: &ForeignKeyDef) -> Result<()> {
        let txn = self.transaction()?;
        let orphan = foreign::first_orphan(&self.ctx, &txn, child, key).await?;
        let Some(values) = orphan else { return Ok(()) };
        let parent = dict::table_by_obj(&self.ctx, &txn, key.parent).await?;
        let parent = parent.ok_or(kernel::Error::ObjectGone)?;
        Err(no_parent(child, &parent.name, key, &values))
    }

    /// VALIDATE CONSTRAINT.
    pub(super) async fn validate_key(
        &mut self,
        table: &TableDef,
        key: &Arc<ForeignKeyDef>,
    ) -> Result<()> {
        if key.validated {
            return Ok(());
        }
        let txn = self.transaction()?;
        dict::validate_foreign_key(&self.ctx, &txn, table, &key.name).await?;
        self.look_through(table, key).await
    }

    /// The keys that refer to the table, or to one of its indexes.
    pub(super) async fn references(
        &mut self,
        table: &TableDef,
        wanted: impl Fn(ObjId) -> bool,
    ) -> Result<Vec<Reference>> {
        let (txn, mut out) = (self.transaction()?, Vec::new());
        for reference in table.referenced.iter().filter(|one| wanted(one.index)) {
            let child = dict::table_by_obj(&self.ctx, &txn, reference.table).await?;
            let Some(child) = child else { continue };
            let key = child.foreign.iter().find(|key| key.obj == reference.key).cloned();
            out.extend(key.map(|key| (child, key)));
        }
        Ok(out)
    }

    /// Frees an index that is going to be dropped, of a constraint or of its own (`what`).
    pub(super) async fn free_index(
        &mut self,
        table: &TableDef,
        index: &IndexDef,
        what: &str,
        cascade: bool,
    ) -> Result<()> {
        let keys = self.references(table, |obj| obj == index.obj).await?;
        let on = format!("index {}", index.name);
        let keys = self.dependent_keys(keys, &on).await?;
        self.drop_dependents(what, keys, cascade).await
    }

    /// The keys that refer to a table from others, or to one column of it, as what depends on it
    /// (`on`).
    pub(super) async fn keys_on(
        &mut self,
        table: &TableDef,
        column: Option<&str>,
        on: &str,
    ) -> Result<Vec<Dependent>> {
        let at = column.and_then(|name| table.column(name));
        let holds = |columns: &[u16]| columns.iter().any(|c| Some(usize::from(*c)) == at);
        let wanted = |obj: ObjId| {
            let index = table.indexes.iter().find(|index| index.obj == obj);
            at.is_none() || index.is_some_and(|index| holds(&index.columns))
        };
        let keys = self.references(table, wanted).await?;
        // A key of the table itself goes with it, or with its own columns.
        let stands = |(child, key): &Reference| {
            child.obj != table.obj || (at.is_some() && !holds(&key.columns))
        };
        self.dependent_keys(keys.into_iter().filter(stands).collect(), on).await
    }

    async fn dependent_keys(&mut self, keys: Vec<Reference>, on: &str) -> Result<Vec<Dependent>> {
        let mut out = Vec::with_capacity(keys.len());
        for (child, key) in keys {
            let table = self.shown_relation(&child).await?;
            let shown = format!("constraint {} on table {table}", quote_ident(&key.name));
            let said = format!("{shown} depends on {on}");
            out.push(Dependent { what: Thing::Key(child, key), shown, said });
        }
        Ok(out)
    }

    /// A column has got another type: its keys must be comparable still, and met.
    pub(super) async fn recheck_keys(&mut self, table: &TableDef, at: usize) -> Result<()> {
        let table = self.altered(table).await?;
        let txn = self.transaction()?;
        let has = |columns: &[u16]| columns.iter().any(|column| usize::from(*column) == at);
        for key in table.foreign.iter().filter(|key| has(&key.columns)) {
            let parent = dict::table_by_obj(&self.ctx, &txn, key.parent).await?;
            let parent = parent.ok_or(kernel::Error::ObjectGone)?;
            check_all_types(&table, &parent, key)?;
            self.look_through(&table, key).await?;
        }
        let indexes: Vec<ObjId> =
            table.indexes.iter().filter(|i| has(&i.columns)).map(|i| i.obj).collect();
        for (child, key) in self.references(&table, |obj| indexes.contains(&obj)).await? {
            check_all_types(&child, &table, &key)?;
            self.look_through(&child, &key).await?;
        }
        Ok(())
    }

    /// The tables that TRUNCATE empties, locked: those named, with CASCADE also those that refer to
    /// them.
    pub(super) async fn with_referring(
        &mut self,
        mut tables: Vec<Arc<TableDef>>,
        cascade: bool,
    ) -> Result<Vec<Arc<TableDef>>> {
        let txn = self.transaction()?;
        let mut next = 0;
        while let Some(table) = tables.get(next) {
            // Under the lock: a key that refers to it is made under it too.
            let table = dict::lock_definition(&self.ctx, &txn, table).await?;
            tables[next] = table.clone();
            next += 1;
            for (child, _) in self.references(&table, |_| true).await? {
                if tables.iter().any(|known| known.obj == child.obj) {
                    continue;
                }
                let (name, parent) = (&child.name, &table.name);
                if !cascade {
                    let text = "cannot truncate a table referenced in a foreign key constraint";
                    let hint = format!(
                        "Truncate table \"{name}\" at the same time, or use TRUNCATE ... CASCADE."
                    );
                    return Err(PgError::new("0A000", text)
                        .with_detail(format!("Table \"{name}\" references \"{parent}\"."))
                        .with_hint(hint));
                }
                self.notice(Severity::Notice, format!("truncate cascades to table \"{name}\""));
                tables.push(child);
            }
        }
        Ok(tables)
    }
}
