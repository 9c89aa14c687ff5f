//! ALTER TABLE: one method for each operation.
//!
//! What it promises: the operations of a statement run in their order, each on the table as the one
//! before has left it. What it must never do: accept rows that the new definition forbids.

use super::column::declare_column;
use super::constraint::{constraint_index, several_primary_keys};
use super::refuse;
use crate::bind::{ident_name, table_parts};
use crate::session::Session;
use crate::{PgError, Result, Severity, direct};
use datafusion::sql::sqlparser::ast::{
    self, AlterColumnOperation, AlterTableOperation, TableConstraint,
};
use kernel::dict::{self, TableDef};
use std::sync::Arc;

impl Session {
    pub(super) async fn alter_table(&mut self, alter: &ast::AlterTable) -> Result<String> {
        let done = || Ok("ALTER TABLE".to_owned());
        if alter.location.is_some() || alter.on_cluster.is_some() || alter.table_type.is_some() {
            return refuse("this form of ALTER TABLE");
        }
        let (schema, name) = table_parts(&alter.name)?;
        if alter.if_exists && self.find_table(schema.as_deref(), &name).await?.is_none() {
            self.notice(Severity::Notice, format!("relation \"{name}\" does not exist, skipping"));
            return done();
        }
        for operation in &alter.operations {
            // Each sees what the one before has done.
            let table = self.table_of(&alter.name).await?;
            self.alter_one(&table, operation).await?;
        }
        done()
    }

    async fn alter_one(
        &mut self,
        table: &Arc<TableDef>,
        operation: &AlterTableOperation,
    ) -> Result<()> {
        match operation {
            AlterTableOperation::AddConstraint { constraint, not_valid: false } => {
                self.add_constraint(table, constraint).await
            }
            AlterTableOperation::AddColumn {
                if_not_exists,
                column_def,
                column_position: None,
                ..
            } => self.add_column(table, column_def, *if_not_exists).await,
            AlterTableOperation::DropConstraint { if_exists, name, drop_behavior: _ } => {
                self.drop_constraint(table, &ident_name(name), *if_exists).await
            }
            AlterTableOperation::AlterColumn { column_name, op } => {
                self.alter_column(table, &ident_name(column_name), op).await
            }
            AlterTableOperation::SetOptionsParens { options } => {
                options.iter().try_for_each(|option| self.table_option(option))
            }
            AlterTableOperation::OwnerTo { .. } => refuse("OWNER TO"),
            other => refuse(format!("ALTER TABLE {other}")),
        }
    }

    async fn add_constraint(
        &mut self,
        table: &Arc<TableDef>,
        constraint: &TableConstraint,
    ) -> Result<()> {
        let names: Vec<String> = table.columns.iter().map(|c| c.name.clone()).collect();
        let index = constraint_index(constraint, &table.name, &names)?;
        if index.primary && table.primary_key().is_some() {
            return Err(several_primary_keys(&table.name));
        }
        self.is_made(&table.schema, &index.name, false).await?;
        self.build_index(table, index).await
    }

    async fn drop_constraint(
        &mut self,
        table: &Arc<TableDef>,
        name: &str,
        if_exists: bool,
    ) -> Result<()> {
        let known = table.indexes.iter().any(|i| i.constraint.as_deref() == Some(name));
        if !known && if_exists {
            let text = format!(
                "constraint \"{name}\" of relation \"{}\" does not exist, skipping",
                table.name
            );
            self.notice(Severity::Notice, text);
            return Ok(());
        }
        if !known {
            return Err(PgError::new(
                "42704",
                format!("constraint \"{name}\" of relation \"{}\" does not exist", table.name),
            ));
        }
        let txn = self.transaction()?;
        Ok(dict::drop_constraint(&self.ctx, &txn, table, name).await?)
    }

    async fn add_column(
        &mut self,
        table: &Arc<TableDef>,
        column_def: &ast::ColumnDef,
        if_not_exists: bool,
    ) -> Result<()> {
        let names: Vec<String> = table.columns.iter().map(|c| c.name.clone()).collect();
        let name = ident_name(&column_def.name);
        if names.contains(&name) {
            if if_not_exists {
                let text = format!(
                    "column \"{name}\" of relation \"{}\" already exists, skipping",
                    table.name
                );
                self.notice(Severity::Notice, text);
                return Ok(());
            }
            return Err(PgError::new(
                "42701",
                format!("column \"{name}\" of relation \"{}\" already exists", table.name),
            ));
        }
        let mut indexes = Vec::new();
        let column = declare_column(column_def, &table.name, &mut indexes, names.len())?;
        if !indexes.is_empty() || column.sequence.is_some() {
            return refuse("ADD COLUMN with a constraint or a sequence");
        }
        if column.def.default.is_some() || column.def.not_null {
            return refuse("ADD COLUMN with DEFAULT or NOT NULL").map_err(|e: PgError| {
                e.with_hint("Add the column, UPDATE it, then SET NOT NULL.")
            });
        }
        let txn = self.transaction()?;
        Ok(dict::add_column(&self.ctx, &txn, table, column.def).await?)
    }

    async fn alter_column(
        &mut self,
        table: &Arc<TableDef>,
        column: &str,
        op: &AlterColumnOperation,
    ) -> Result<()> {
        let at = direct::column_position(table, column)?;
        let txn = self.transaction()?;
        match op {
            AlterColumnOperation::SetNotNull => {
                self.check_no_nulls(table, at).await?;
                Ok(dict::set_not_null(&self.ctx, &txn, table, at, true).await?)
            }
            AlterColumnOperation::DropNotNull => {
                Ok(dict::set_not_null(&self.ctx, &txn, table, at, false).await?)
            }
            other => refuse(format!("ALTER COLUMN {other}")),
        }
    }

    /// 23502 if a row has no value in the column.
    async fn check_no_nulls(&mut self, table: &Arc<TableDef>, column: usize) -> Result<()> {
        let txn = self.transaction()?;
        let (core, mode) = (txn.core(), kernel::txn::TmMode::X);
        let wait = kernel::table::LockWait::Wait;
        core.lock_table(&self.ctx, &txn, table.obj, mode, wait).await?;
        let snapshot = self.snapshot().await?;
        let mut scan = kernel::table::scan(&self.ctx, table, &snapshot).await?;
        let mut found = false;
        let types = table.types.clone();
        loop {
            let more = scan
                .next_block(&self.ctx, |_, row| {
                    found |= kernel::row::RowView::new(&types, row).is_null(column);
                })
                .await?;
            if found {
                return Err(PgError::new(
                    "23502",
                    format!(
                        "column \"{}\" of relation \"{}\" contains null values",
                        table.columns[column].name, table.name
                    ),
                ));
            }
            if !more {
                return Ok(());
            }
            self.ctx.check_interrupt()?;
        }
    }
}
