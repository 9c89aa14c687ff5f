//! Temporary tables, views and sequences: objects of a schema that belongs to one session.
//!
//! What it promises: no other session sees or names them; they go with the session, and with the
//! next opening of an instance that has died. What it must never do: let two sessions share a
//! schema, or leave the rows of ON COMMIT DELETE ROWS behind a commit.

use crate::session::Session;
use crate::{PgError, Result};
use block::ObjId;
use datafusion::sql::sqlparser::ast::{ObjectName, OnCommit};
use kernel::dict::{self, TEMP_PREFIX, TableDef};

/// What a session knows of its temporary objects.
#[derive(Default)]
pub(crate) struct Temporary {
    /// Its schema, once it has made something in it.
    pub(crate) schema: Option<String>,
    /// Tables that a commit empties or drops.
    at_commit: Vec<(ObjId, OnCommit)>,
    /// How often what a name means may have changed.
    pub(crate) changes: u64,
}

impl Temporary {
    /// Whether a commit has something to do to temporary tables.
    pub(crate) fn at_commit(&self) -> bool {
        !self.at_commit.is_empty()
    }
}

/// The name by which every session calls its own schema.
pub(crate) const PG_TEMP: &str = "pg_temp";

impl Session {
    fn own_temp_schema(&self) -> String {
        format!("{TEMP_PREFIX}{}_{}", self.instance.me.0, self.ctx.session.sid())
    }

    pub(crate) fn is_own_temporary(&self, schema: &str) -> bool {
        schema == self.own_temp_schema()
    }

    /// The session's schema of temporary objects, with nothing in it that is not its own.
    pub(super) async fn temp_schema(&mut self) -> Result<String> {
        let schema = self.own_temp_schema();
        if self.temporary.schema.is_none() {
            // A session that ended badly may have left something.
            let txn = self.transaction()?;
            dict::drop_all_in(&self.ctx, &txn, &schema).await?;
            self.temporary.schema = Some(schema.clone());
        }
        self.temporary.changes += 1;
        self.note_context();
        Ok(schema)
    }

    /// The schema that a name in a statement means: `pg_temp` is the session's own, and nobody
    /// else's may be named.
    pub(crate) fn named_schema(&self, schema: &str) -> Result<String> {
        if schema == PG_TEMP {
            return Ok(self.own_temp_schema());
        }
        if schema.starts_with(TEMP_PREFIX) && schema != self.own_temp_schema() {
            return Err(PgError::new("0A000", "cannot access temporary tables of other sessions"));
        }
        Ok(schema.to_owned())
    }

    /// Schema and name of a temporary object to be made.
    pub(super) async fn new_temp_name(&mut self, name: &ObjectName) -> Result<(String, String)> {
        let (schema, name) = crate::bind::table_parts(name)?;
        let own = self.own_temp_schema();
        match schema.as_deref() {
            None | Some(PG_TEMP) => {}
            Some(schema) if schema == own => {}
            Some(_) => {
                let text = "cannot create temporary relation in non-temporary schema";
                return Err(PgError::new("42P16", text));
            }
        }
        Ok((self.temp_schema().await?, name))
    }

    /// Notes what a commit does to a new temporary table.
    pub(super) fn note_at_commit(&mut self, table: &TableDef, on_commit: Option<OnCommit>) {
        if let Some(what @ (OnCommit::DeleteRows | OnCommit::Drop)) = on_commit {
            self.temporary.at_commit.push((table.obj, what));
        }
    }

    /// What a commit does to temporary tables, as part of its transaction.
    pub(crate) async fn before_commit(&mut self) -> Result<()> {
        if self.temporary.at_commit.is_empty() {
            return Ok(());
        }
        let txn = self.transaction()?;
        let mut left = Vec::new();
        let all = self.temporary.at_commit.clone();
        for (obj, what) in &all {
            let (obj, what) = (*obj, *what);
            // One that was made in a transaction that rolled back is none.
            let Some(table) = dict::table_by_obj(&self.ctx, &txn, obj).await? else { continue };
            match what {
                OnCommit::Drop => self.drop_relations(vec![table], true).await?,
                _ => {
                    self.refuse_references(&table, &all).await?;
                    if self.has_rows(&table).await? {
                        dict::truncate_table(&self.ctx, &txn, &table).await?;
                    }
                    left.push((obj, what));
                }
            }
        }
        self.temporary.at_commit = left;
        Ok(())
    }

    /// 0A000 if rows that stay refer to a table that a commit empties.
    async fn refuse_references(
        &mut self,
        table: &TableDef,
        at_commit: &[(ObjId, OnCommit)],
    ) -> Result<()> {
        for (child, _) in self.references(table, |_| true).await? {
            if at_commit.contains(&(child.obj, OnCommit::DeleteRows)) {
                continue;
            }
            let (child, name) = (&child.name, &table.name);
            let detail = format!(
                "Table \"{child}\" references \"{name}\", but they do not have the same ON COMMIT \
                 setting."
            );
            let text = "unsupported ON COMMIT and foreign key combination";
            return Err(PgError::new("0A000", text).with_detail(detail));
        }
        Ok(())
    }

    /// Drops all temporary objects of the session, in a transaction that the caller ends.
    pub(crate) async fn drop_temporary(&mut self) -> Result<()> {
        let Some(schema) = self.temporary.schema.clone() else { return Ok(()) };
        self.begin_if_needed();
        let txn = self.transaction()?;
        dict::drop_all_in(&self.ctx, &txn, &schema).await?;
        self.temporary.at_commit.clear();
        self.temporary.changes += 1;
        self.note_context();
        Ok(())
    }
}

/// Whether an object is a temporary one.
pub(crate) fn is_temporary(schema: &str) -> bool {
    schema.starts_with(TEMP_PREFIX)
}
