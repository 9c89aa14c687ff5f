//! DDL: CREATE, ALTER, DROP, TRUNCATE, from the syntax tree to the dictionary. One module for each
//! kind of object; here is what all of them need, above all how objects get their names.
//!
//! What it promises: a clause that has no meaning here is either refused or named in a notice; DDL
//! is part of its transaction. What it must never do: commit, or write a dictionary row itself.

mod alter_column;
mod alter_table;
mod column;
mod comment;
mod constraint;
mod depend;
mod drop;
mod foreign;
mod identity;
mod index;
mod labels;
mod like;
mod materialized;
mod predicate;
mod rename;
mod rewrite;
mod schema;
mod sequence;
mod sequence_use;
mod table;
mod table_as;
mod temporary;
mod types;
mod updatable;
mod view;

pub(crate) use materialized::check_populated;
pub(crate) use predicate::{bind_predicate, predicate_text};
pub(crate) use schema::missing_schema;
pub(crate) use table_as::is_select_into;
pub(crate) use temporary::{PG_TEMP, Temporary, is_temporary};
pub(crate) use updatable::{Verb, not_updatable, why_not, why_not_written};
pub(crate) use view::query_of;

use crate::bind::table_parts;
use crate::session::Session;
use crate::{PgError, Result, Severity};
use datafusion::sql::sqlparser::ast::{ObjectName, Statement as Ast};
use kernel::dict::{self, Privileges, TableDef};
use std::sync::Arc;

fn refuse<T>(what: impl std::fmt::Display) -> Result<T> {
    Err(PgError::unsupported(what))
}

fn duplicate_table(name: &str) -> PgError {
    PgError::new("42P07", format!("relation \"{name}\" already exists"))
}

fn named(error: kernel::Error, name: &str) -> PgError {
    match error {
        kernel::Error::DuplicateObject(_) => duplicate_table(name),
        other => other.into(),
    }
}

impl Session {
    /// Runs one statement and says its tag.
    pub(crate) async fn run_ddl(&mut self, ast: &Ast) -> Result<String> {
        self.check_writable("DDL")?;
        let mut ast = ast.clone();
        self.settle_types(&mut ast).await?;
        match &ast {
            Ast::CreateType { name, representation } => {
                self.create_type(name, representation.as_ref()).await
            }
            Ast::AlterType(alter) => env::boxed!(self.alter_type(alter)).await,
            Ast::CreateTable(create) => self.create_table(create).await,
            Ast::CreateView(create) => self.create_view(create).await,
            Ast::CreateSchema {
                schema_name,
                if_not_exists,
                with: None,
                options: None,
                default_collate_spec: None,
                clone: None,
            } => self.create_schema(schema_name, *if_not_exists).await,
            Ast::CreateIndex(create) => self.create_index(create).await,
            Ast::AlterTable(alter) => self.alter_table(alter).await,
            Ast::Drop { object_type, if_exists, names, cascade, purge, table: None, .. } => {
                let how = (*cascade, *purge);
                self.drop_objects(object_type, names, *if_exists, how).await
            }
            Ast::Query(query) => self.select_into(query).await,
            Ast::Comment { object_type, object_name, comment, if_exists: false } => {
                self.comment_on(object_type, object_name, comment.as_deref()).await
            }
            Ast::Truncate(truncate) => self.truncate(truncate).await,
            other => refuse(first_words(other)),
        }
    }

    /// Whom new objects belong to.
    pub(crate) fn owner(&self) -> block::ObjId {
        self.identity.role
    }

    /// Schema and name of an object to be made.
    async fn new_name(&mut self, name: &ObjectName) -> Result<(String, String)> {
        let (schema, name) = table_parts(name)?;
        self.own_schema(schema, name).await
    }

    pub(crate) async fn own_schema(
        &mut self,
        schema: Option<String>,
        name: String,
    ) -> Result<(String, String)> {
        let schema = match schema {
            Some(schema) => schema,
            None => {
                let path = self.schemas_for(None).await?;
                path.into_iter().find(|name| !is_temporary(name)).ok_or_else(|| {
                    PgError::new("3F000", "no schema has been selected to create in")
                })?
            }
        };
        if schema == PG_TEMP || schema == self.named_schema(PG_TEMP)? {
            self.check_database(Privileges::TEMPORARY).await?;
            return Ok((self.temp_schema().await?, name));
        }
        if dict::RESERVED_SCHEMAS.contains(&schema.as_str()) {
            return Err(PgError::new("42501", format!("permission denied for schema {schema}")));
        }
        let txn = self.transaction()?;
        if dict::schemas(&self.ctx, &txn).await?.find(&schema).is_none() {
            return Err(schema::missing_schema(&schema));
        }
        self.check_create_in(&schema).await?;
        Ok((schema, name))
    }

    /// Whether the name is taken, of which IF NOT EXISTS makes a notice; 42P07 without it.
    async fn is_made(&mut self, schema: &str, name: &str, if_not_exists: bool) -> Result<bool> {
        let txn = self.transaction()?;
        if dict::object(&self.ctx, &txn, schema, name).await?.is_none() {
            return Ok(false);
        }
        if !if_not_exists {
            return Err(duplicate_table(name));
        }
        self.notice(Severity::Notice, format!("relation \"{name}\" already exists, skipping"));
        Ok(true)
    }

    /// A name like `wanted` that nothing has.
    async fn free_name(&mut self, schema: &str, wanted: &str) -> Result<String> {
        let txn = self.transaction()?;
        let base: String = wanted.chars().take(55).collect();
        for n in 0..1000 {
            let name = if n == 0 { base.clone() } else { format!("{base}{n}") };
            if dict::object(&self.ctx, &txn, schema, &name).await?.is_none() {
                return Ok(name);
            }
        }
        Err(duplicate_table(wanted))
    }

    /// The table or view of a name, or 42P01.
    pub(crate) async fn relation_of(&mut self, name: &ObjectName) -> Result<Arc<TableDef>> {
        let (schema, view) = table_parts(name)?;
        match self.find_relation(schema.as_deref(), &view).await? {
            query::Relation::View(def) => Ok(def),
            _ => self.table_of(name).await,
        }
    }

    /// The view of a name, or 42P01.
    async fn view_of(&mut self, name: &ObjectName) -> Result<Arc<TableDef>> {
        let (schema, view) = table_parts(name)?;
        match self.find_relation(schema.as_deref(), &view).await? {
            query::Relation::View(def) => Ok(def),
            _ => Err(PgError::new("42809", format!("\"{view}\" is not a view"))),
        }
    }

    /// The table of a name, or 42P01.
    pub(crate) async fn table_of(&mut self, name: &ObjectName) -> Result<Arc<TableDef>> {
        let (schema, table) = table_parts(name)?;
        match self.find_relation(schema.as_deref(), &table).await? {
            query::Relation::Table(def) if def.schema == dict::SYS => {
                Err(PgError::new("42501", format!("permission denied for table {table}")))
            }
            query::Relation::Table(def) => Ok(def),
            query::Relation::Rows(_) | query::Relation::View(_) => {
                Err(PgError::new("42809", format!("\"{table}\" is not a table")))
            }
        }
    }
}

fn first_words(ast: &Ast) -> String {
    let text = ast.to_string();
    let words: Vec<&str> = text.split_whitespace().take(2).collect();
    words.join(" ")
}
