//! What a query reads, and whether the acting role may read it.
//!
//! What it promises: who may read all of a relation costs one look at its list; only where that
//! fails the query's text is taken apart for the columns that it names. What it must never do: let
//! a form that it cannot take apart pass.

use super::{denied, held_on_column, relation_word};
use crate::Result;
use crate::session::Session;
use crate::view::{Found, Known, fix, relation_names};
use datafusion::sql::sqlparser::ast::Query;
use kernel::dict::{Privileges, TableDef, Use};
use query::Relation;
use std::sync::Arc;

/// Where it stands which columns are read.
#[derive(Clone, Default, Debug)]
pub(crate) enum ReadBy {
    /// Nobody has kept it: a right on the whole relation is asked for.
    #[default]
    Unknown,
    /// In a query as it was written.
    Query(Box<Query>),
    /// In what a view says of itself.
    Uses(Vec<Use>),
}

/// The relation that a statement changes, which it may do without reading it.
pub(crate) struct Target<'a> {
    pub(crate) table: &'a Arc<TableDef>,
    /// The privilege that it takes, on these columns; on the whole where there are none.
    pub(crate) wanted: Privileges,
    pub(crate) columns: Option<&'a [usize]>,
    /// A query that reads what the statement reads of it.
    pub(crate) reads: Option<Query>,
}

impl Session {
    /// 42501 unless the acting role may read what is read of this relation.
    pub(crate) async fn check_read(&mut self, def: &TableDef, by: &mut ReadBy) -> Result<()> {
        crate::ddl::check_populated(def)?;
        if self.held_on(def).await?.has(Privileges::SELECT) {
            return Ok(());
        }
        if let ReadBy::Query(query) = by {
            let query = query.clone();
            *by = match env::boxed!(self.uses_of(&query)).await {
                Ok(uses) => ReadBy::Uses(uses),
                Err(_) => ReadBy::Unknown,
            };
        }
        let ReadBy::Uses(uses) = by else {
            return Err(denied(relation_word(def), &def.name));
        };
        let columns: Vec<usize> = columns_of(def, uses);
        let (role, roles) = (self.acting(), self.roles().await?);
        let may = |column: usize| held_on_column(&roles, role, def, column).has(Privileges::SELECT);
        let all = match &columns[..] {
            [] => (0..def.columns.len()).any(may),
            some => some.iter().all(|column| may(*column)),
        };
        if all { Ok(()) } else { Err(denied(relation_word(def), &def.name)) }
    }

    /// The relations and columns that a query names.
    async fn uses_of(&mut self, query: &Query) -> Result<Vec<Use>> {
        let mut known = Known::new();
        for (schema, name) in relation_names(query) {
            let Ok(found) = self.find_relation(schema.as_deref(), &name).await else { continue };
            let found = match &found {
                Relation::Table(def) | Relation::View(def) => Found {
                    schema: def.schema.clone(),
                    name: def.name.clone(),
                    obj: Some(def.obj),
                    columns: def.columns.iter().map(|column| column.name.clone()).collect(),
                },
                Relation::Rows(rows) => Found {
                    schema: schema.clone().unwrap_or_else(|| "pg_catalog".to_owned()),
                    name: name.clone(),
                    obj: None,
                    columns: datafusion::catalog::TableProvider::schema(&**rows)
                        .fields()
                        .iter()
                        .map(|field| field.name().clone())
                        .collect(),
                },
            };
            known.insert((schema, name), found);
        }
        fix(&mut query.clone(), &known, None)
    }

    /// 42501 unless the current role may do to its target what a statement does.
    pub(crate) async fn check_target(&mut self, target: Target<'_>) -> Result<()> {
        let Target { table, wanted, columns, reads } = target;
        match columns {
            Some(columns) => self.check_columns(table, wanted, columns).await?,
            None => self.check_relation(table, wanted).await?,
        }
        let Some(reads) = reads else { return Ok(()) };
        if self.held_on(table).await?.has(Privileges::SELECT) {
            return Ok(());
        }
        let uses = env::boxed!(self.uses_of(&reads)).await;
        let uses = uses.map_err(|_| denied(relation_word(table), &table.name))?;
        if columns_of(table, &uses).is_empty() {
            return Ok(());
        }
        self.check_read(table, &mut ReadBy::Uses(uses)).await
    }
}

fn columns_of(def: &TableDef, uses: &[Use]) -> Vec<usize> {
    let of = |one: &&Use| one.obj == def.obj && !one.column.is_empty();
    let named: Vec<&str> = uses.iter().filter(of).map(|one| one.column.as_str()).collect();
    named.into_iter().filter_map(|name| def.column(name)).collect()
}
