//! The repository's tables and views are made when the first snapshot is taken.
//!
//! What it promises: two instances that begin at once make them once; a table of an older release
//! gets the columns it lacks, and a view is made anew, with what has been granted on it. What it
//! must never do: take away a column of a table; fail because a view cannot be made anew.

use super::SCHEMA;
use super::shown::{self, HistView};
use super::statements::Statements;
use super::tables::{Column, SNAPSHOT, SQL_PLAN, all_tables, create};
use crate::Result;
use crate::catalog::{DATABASE, database_id};
use kernel::dict::{self, AclTarget, SUPERUSER_OBJ, TableDef};
use observe::AlertLevel;

/// How often it is tried anew because another instance makes the same.
const TRIES: usize = 5;

/// Whether an error may mean that another instance was faster: with an object or a column of this
/// name, or with an object that was there a moment ago.
fn is_of_others(code: &str) -> bool {
    matches!(code, "42P06" | "42P07" | "42710" | "42701" | "42P01" | "42704" | "40001" | "40P01")
}

/// Whether an error means that a view must stay as it is for now: others need it so, what has its
/// name is no view, or it is in use.
fn is_in_the_way(code: &str) -> bool {
    matches!(code, "2BP01" | "42P16" | "42809" | "55P03")
}

impl Statements {
    /// Makes what is missing.
    pub(super) async fn install(&mut self) -> Result<()> {
        let mut tries = 0;
        loop {
            tries += 1;
            self.begin();
            let made = self.make_missing().await;
            match self.end(made).await {
                Err(error) if is_of_others(error.code) && tries < TRIES => {}
                done => return done,
            }
        }
    }

    async fn make_missing(&mut self) -> Result<()> {
        let txn = self.session.transaction()?;
        let ctx = self.session.ctx.clone();
        let mut new = false;
        if dict::schemas(&ctx, &txn).await?.find(SCHEMA).is_none() {
            dict::create_schema(&ctx, &txn, SCHEMA, SUPERUSER_OBJ).await?;
            new = true;
        }
        for (table, columns) in all_tables() {
            match self.table(table).await? {
                Some(found) => self.complete(&found, table, &columns).await?,
                None => {
                    self.make(table, &columns).await?;
                    new = true;
                }
            }
        }
        for view in shown::all(database_id(&self.session.instance), DATABASE) {
            new |= match self.table(&view.name).await? {
                Some(found) if !view.is_old(&found) => false,
                Some(found) => self.renew(&view, &found).await?,
                None => {
                    self.run(&view.create()).await?;
                    true
                }
            };
        }
        if new {
            // Who may read the views of statistics may read what is kept of them.
            self.run("grant usage on schema pg_awr to pg_read_all_stats").await?;
            self.run("grant select on all tables in schema pg_awr to pg_read_all_stats").await?;
        }
        Ok(())
    }

    async fn make(&mut self, table: &str, columns: &[Column]) -> Result<()> {
        self.run(&create(table, columns)).await?;
        let key = match (table, columns[0].0) {
            (SNAPSHOT, _) => "snap_id, instance_number",
            (SQL_PLAN, _) => "sql_id, plan_hash_value, id",
            (_, first) => first,
        };
        let unique = if columns[0].0 == "snap_id" && table != SNAPSHOT { "" } else { "unique " };
        let bare = table.replace('$', "");
        self.run(&format!("create {unique}index {bare}_id on pg_awr.{table} ({key})")).await?;
        Ok(())
    }

    /// Adds what an older release did not have.
    async fn complete(&mut self, found: &TableDef, table: &str, columns: &[Column]) -> Result<()> {
        let missing = columns.iter().filter(|(name, _)| found.column(name).is_none());
        for (name, ty) in missing {
            let add = format!("add column if not exists {name} {ty}");
            self.run(&format!("alter table pg_awr.{table} {add}")).await?;
        }
        Ok(())
    }

    /// Makes a view of an older release anew: in its place if its columns can stay, so that it
    /// keeps its grants and what reads it. `false`: it must stay as it is.
    async fn renew(&mut self, view: &HistView, found: &TableDef) -> Result<bool> {
        let old: Vec<&str> = found.columns.iter().map(|column| column.name.as_str()).collect();
        let replace = view.replace(&old).map(|statement| vec![statement]);
        let anew = vec![format!("drop view if exists pg_awr.{}", view.name), view.create()];
        let mut why = None;
        for way in replace.into_iter().chain([anew]) {
            self.run("savepoint old_view").await?;
            match self.run_all(&way).await {
                Ok(()) => {
                    self.run("release savepoint old_view").await?;
                    self.give_back(found).await?;
                    return Ok(true);
                }
                Err(error) if is_in_the_way(error.code) => {
                    self.run("rollback to savepoint old_view").await?;
                    self.run("release savepoint old_view").await?;
                    let is_in_use = error.code == "55P03";
                    why = Some(error);
                    if is_in_use {
                        break;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        // It is tried again with each snapshot: once is often enough to be told.
        let told = !self.session.database.old_views.lock().insert(view.name.clone());
        if let Some(error) = why.filter(|_| !told) {
            let text = format!("view pg_awr.{} stays as an older release made it", view.name);
            self.session.ctx.alert(AlertLevel::Warning, format!("{text}: {error}"));
        }
        Ok(false)
    }

    async fn run_all(&mut self, statements: &[String]) -> Result<()> {
        for statement in statements {
            self.run(statement).await?;
        }
        Ok(())
    }

    /// What a view that is gone had of owner and grants, for the one that has its name now.
    async fn give_back(&mut self, old: &TableDef) -> Result<()> {
        let Some(new) = self.table(&old.name).await? else { return Ok(()) };
        // What was replaced has kept them.
        if new.obj == old.obj {
            return Ok(());
        }
        let (txn, ctx) = (self.session.transaction()?, self.session.ctx.clone());
        if new.owner != old.owner {
            dict::change_owner(&ctx, &txn, new.obj, &[], old.owner).await?;
        }
        if old.acl.is_some() {
            let target = AclTarget::Relation(new.obj);
            dict::change_acl(&ctx, &txn, target, |_| old.acl.clone()).await?;
        }
        for (at, column) in new.columns.iter().enumerate() {
            let before = old.columns.iter().find(|before| before.name == column.name);
            if let Some(acl) = before.and_then(|before| before.acl.as_ref()) {
                let target = AclTarget::Column(new.obj, at);
                dict::change_acl(&ctx, &txn, target, |_| Some(acl.clone())).await?;
            }
        }
        Ok(())
    }
}
