//! LIKE in CREATE TABLE: what a new table takes over from another one.
//!
//! What it promises: the copy is the new table's own, under names that PostgreSQL would choose.
//! What it must never do: tie the tables to each other.

use super::column::Column;
use super::comment::constraint_obj;
use super::constraint::several_primary_keys;
use super::refuse;
use super::sequence::like_spec;
use crate::key_exprs::part_names;
use crate::session::Session;
use crate::words::LIKE;
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast;
use kernel::dict::{
    self, CheckDef, ColumnDef, CommentDef, Described, Generated, Included, KEY_EXPR, KeyExpr,
    NewIndex, ObjectKind, Privileges, TableDef,
};
use query::Relation;
use std::sync::Arc;

/// A clause LIKE: the relation it names, and what of it is wanted.
pub(super) struct Like {
    pub(super) source: Arc<TableDef>,
    /// `+` or `-`, and what INCLUDING or EXCLUDING says.
    options: Vec<String>,
}

impl Like {
    /// Whether the table gets this of the source. The last word counts.
    pub(super) fn takes(&self, what: &str) -> bool {
        let said = self
            .options
            .iter()
            .rfind(|option| matches!(&option[1..], "all") || option[1..] == *what);
        said.is_some_and(|option| option.starts_with('+'))
    }

    /// The CHECK constraints that come along.
    fn checks_of(&self) -> &[CheckDef] {
        if self.takes("constraints") { &self.source.checks } else { &[] }
    }

    /// Their names and texts.
    pub(super) fn checks(&self) -> impl Iterator<Item = (String, String)> {
        self.checks_of().iter().map(|check| (check.name.clone(), check.expr.clone()))
    }
}

/// What the parser made of a clause LIKE; `None`: a column.
fn clause_of(column: &ast::ColumnDef) -> Option<&[String]> {
    match &column.data_type {
        ast::DataType::Custom(_, words) if column.name.value == LIKE => Some(words),
        _ => None,
    }
}

fn invalid(name: &str, kinds: &str) -> PgError {
    let text = format!("relation \"{name}\" is invalid in LIKE clause");
    let detail = format!("This operation is not supported for {kinds}.");
    PgError::new("42809", text).with_detail(detail)
}

impl Session {
    /// What a declaration that stands for LIKE means; `None`: it declares a column.
    pub(super) async fn like_of(&mut self, column: &ast::ColumnDef) -> Result<Option<Like>> {
        let Some(words) = clause_of(column) else { return Ok(None) };
        let (names, options): (Vec<String>, Vec<String>) =
            words.iter().cloned().partition(|word| word.starts_with('.'));
        let parts = names.iter().map(|name| ast::Ident::with_quote('"', &name[1..]));
        let name = ast::ObjectName::from(parts.collect::<Vec<_>>());
        let (schema, name) = crate::bind::table_parts(&name)?;
        let source = self.like_source(schema.as_deref(), &name).await?;
        self.check_relation(&source, Privileges::SELECT).await?;
        Ok(Some(Like { source, options }))
    }

    async fn like_source(&mut self, schema: Option<&str>, name: &str) -> Result<Arc<TableDef>> {
        if let Some(found) = self.find_table(schema, name).await? {
            if found.schema == dict::SYS {
                return refuse("LIKE of a relation of the system's");
            }
            return Ok(found);
        }
        if self.find_sequence(schema, name).await?.is_some() {
            return Err(invalid(name, "sequences"));
        }
        let txn = self.transaction()?;
        for schema in self.schemas_for(schema).await? {
            let found = dict::object(&self.ctx, &txn, &schema, name).await?;
            if found.is_some_and(|found| found.kind == ObjectKind::Index) {
                return Err(invalid(name, "indexes"));
            }
        }
        match self.find_relation(schema, name).await? {
            Relation::Table(def) | Relation::View(def) => Ok(def),
            Relation::Rows(_) => refuse("LIKE of a relation of the system's"),
        }
    }

    /// The columns that a clause stands for.
    pub(super) async fn like_columns(&mut self, like: &Like) -> Result<Vec<Column>> {
        let mut columns = Vec::with_capacity(like.source.columns.len());
        for from in &like.source.columns {
            let mut def =
                ColumnDef { not_null: from.not_null, ..ColumnDef::new(&from.name, from.ty) };
            let mut sequence = None;
            if like.takes("comments") {
                def.comment.clone_from(&from.comment);
            }
            match from.generated {
                Some(Generated::Stored) if like.takes("generated") => {
                    def.default.clone_from(&from.default);
                    def.generated = from.generated;
                }
                Some(Generated::Always | Generated::ByDefault) if like.takes("identity") => {
                    let own = self.identity_sequence(&like.source, from).await?;
                    sequence = Some(own.map(|own| like_spec(&own)).unwrap_or_default());
                    def.generated = from.generated;
                }
                // The sequence of a serial column stays the one it is.
                None if like.takes("defaults") => def.default.clone_from(&from.default),
                _ => {}
            }
            columns.push(Column { def, sequence });
        }
        Ok(columns)
    }

    /// The sequence that a column's default calls and its table owns.
    async fn identity_sequence(
        &mut self,
        table: &TableDef,
        column: &ColumnDef,
    ) -> Result<Option<Arc<dict::SequenceDef>>> {
        let txn = self.transaction()?;
        let all = dict::sequences(&self.ctx, &txn).await?;
        Ok(all.into_iter().find(|sequence| {
            sequence.table == Some(table.obj)
                && crate::catalog::calls_sequence(table, sequence)
                    .is_some_and(|caller| caller.name == column.name)
        }))
    }

    /// Makes the indexes that come along, on a table which has just been made, and notes what is
    /// said of them and of constraints.
    pub(super) async fn like_indexes(&mut self, like: &Like, table: &TableDef) -> Result<()> {
        let mut indexes: Vec<_> = like.source.all_indexes().cloned().collect();
        if !like.takes("indexes") {
            indexes.clear();
        }
        let mut comments = Vec::new();
        if like.takes("comments") {
            let txn = self.transaction()?;
            comments = dict::comments(&self.ctx, &txn).await?;
        }
        indexes.sort_by_key(|index| index.obj);
        for index in indexes {
            let table = self.altered(table).await?;
            if index.primary && table.primary_key().is_some() {
                return Err(several_primary_keys(&table.name));
            }
            let place = |at: u16| {
                let at = table.column(&like.source.columns[usize::from(at)].name)?;
                u16::try_from(at).ok()
            };
            let placed = |at: &u16| if *at < KEY_EXPR { place(*at) } else { Some(*at) };
            let moved = |expr: &KeyExpr| {
                let columns = expr.columns.iter().map(placed).collect::<Option<_>>()?;
                Some(KeyExpr { columns, ..expr.clone() })
            };
            let lost = || PgError::internal("a column of LIKE is missing");
            let columns: Option<Vec<u16>> = index.columns.iter().map(placed).collect();
            let exprs: Option<Vec<KeyExpr>> = index.exprs.iter().map(moved).collect();
            let predicate = match &index.predicate {
                Some(predicate) => Some(predicate.moved(&place).ok_or_else(lost)?),
                None => None,
            };
            let (columns, exprs) = (columns.ok_or_else(lost)?, exprs.ok_or_else(lost)?);
            let beside: Option<Vec<u16>> = index.included.columns.iter().map(placed).collect();
            let included =
                Included { columns: beside.ok_or_else(lost)?, stored: index.included.stored };
            let mut all = columns.clone();
            if !included.stored {
                all.extend(&included.columns);
            }
            let list = part_names(&table, &all, &exprs).join("_");
            let wanted = match (index.primary, &index.constraint) {
                (true, _) => format!("{}_pkey", table.name),
                (false, Some(_)) => format!("{}_{list}_key", table.name),
                (false, None) => format!("{}_{list}_idx", table.name),
            };
            let name = self.free_name(&table.schema, &wanted).await?;
            let new = NewIndex {
                kind: index.kind,
                constraint: index.constraint.as_ref().map(|_| name.clone()),
                name,
                columns,
                included,
                orders: index.orders.clone(),
                unique: index.unique,
                primary: index.primary,
                predicate,
                exprs,
            };
            // A constraint that an index stands for is made anew: nothing is said of it.
            let of_index =
                |said: &&CommentDef| said.on == Described::Relation && said.obj == index.obj;
            let said = comments.iter().find(of_index);
            let name = new.name.clone();
            self.build_index(&table, new).await?;
            let Some(said) = said else { continue };
            let made = self.altered(&table).await?;
            let made = made.all_indexes().find(|made| made.name == name).ok_or_else(lost)?;
            let on = (said.on, made.obj);
            self.note_comment(on, table.obj, Some(&said.text)).await?;
        }
        for check in like.checks_of() {
            for said in comments.iter().filter(|said| said.obj == check.obj) {
                if let Some(made) = constraint_obj(table, &check.name) {
                    self.note_comment((said.on, made), table.obj, Some(&said.text)).await?;
                }
            }
        }
        Ok(())
    }
}
