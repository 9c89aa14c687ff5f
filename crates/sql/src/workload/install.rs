//! The repository's tables and views are made when the first snapshot is taken.
//!
//! What it promises: two instances that begin at once make them once; a table of an older release
//! gets the columns it lacks. What it must never do: take away a column.

use super::SCHEMA;
use super::statements::Statements;
use super::tables::{Column, OTHERS, SNAPSHOT, SOURCES, SYSSTAT, all_columns, create, hist_name};
use crate::Result;
use kernel::dict::{self, SUPERUSER_OBJ, TableDef};

/// How often it is tried anew because another instance makes the same.
const TRIES: usize = 5;

impl Statements {
    /// Makes what is missing.
    pub(super) async fn install(&mut self) -> Result<()> {
        let mut tries = 0;
        loop {
            tries += 1;
            self.begin();
            let made = self.make_missing().await;
            match self.end(made).await {
                // Another instance was faster with an object of this name.
                Err(error)
                    if matches!(error.code, "42P06" | "42P07" | "42710") && tries < TRIES => {}
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
        let sources = SOURCES.iter().map(|source| (source.table, all_columns(source)));
        let others = OTHERS.iter().map(|(table, columns)| (*table, columns.to_vec()));
        for (table, columns) in others.chain(sources) {
            new |= match self.table(table).await? {
                Some(found) => self.complete(&found, table, &columns).await?,
                None => {
                    self.make(table, &columns).await?;
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
            (_, first) => first,
        };
        let unique = if columns[0].0 == "snap_id" && table != SNAPSHOT { "" } else { "unique " };
        let bare = table.replace('$', "");
        self.run(&format!("create {unique}index {bare}_id on pg_awr.{table} ({key})")).await?;
        self.show(table).await
    }

    async fn show(&mut self, table: &str) -> Result<()> {
        let shown = match table {
            // The field's name for it, which it has in this view only.
            SYSSTAT => "*, name as stat_name",
            _ => "*",
        };
        let text = format!(
            "create view pg_awr.{} as select {shown} from pg_awr.{table}",
            hist_name(table)
        );
        self.run(&text).await.map(|_| ())
    }

    /// Adds what an older release did not have; whether there was something.
    async fn complete(
        &mut self,
        found: &TableDef,
        table: &str,
        columns: &[Column],
    ) -> Result<bool> {
        let missing = columns.iter().filter(|(name, _)| found.column(name).is_none());
        let missing: Vec<&Column> = missing.collect();
        if missing.is_empty() {
            return Ok(false);
        }
        self.run(&format!("drop view if exists pg_awr.{}", hist_name(table))).await?;
        for (name, ty) in missing {
            self.run(&format!("alter table pg_awr.{table} add column {name} {ty}")).await?;
        }
        self.show(table).await?;
        Ok(true)
    }
}
