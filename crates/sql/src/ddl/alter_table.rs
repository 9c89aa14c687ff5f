//! ALTER TABLE: its operations and their order; constraints and names.
//!
//! What it promises: the operations of a statement run in PostgreSQL's order (what is dropped goes
//! first), each on the table as the one before has left it, under one lock. What it must never do:
//! accept rows that the new definition forbids.

use super::constraint::{Constraints, several_primary_keys};
use super::foreign::check_free;
use super::{named, refuse};
use crate::bind::{ident_name, table_parts};
use crate::session::Session;
use crate::view::Change;
use crate::{PgError, Result, Severity};
use datafusion::sql::sqlparser::ast::{
    self, AlterColumnOperation, AlterTableOperation, RenameTableNameKind, TableConstraint,
};
use kernel::dict::{self, TableDef};
use std::sync::Arc;

/// When an operation of a statement has its turn.
fn pass(operation: &AlterTableOperation) -> u8 {
    match operation {
        AlterTableOperation::DropColumn { .. }
        | AlterTableOperation::DropConstraint { .. }
        | AlterTableOperation::DropPrimaryKey { .. } => 0,
        AlterTableOperation::AlterColumn { op, .. } => match op {
            AlterColumnOperation::DropNotNull | AlterColumnOperation::DropDefault => 0,
            AlterColumnOperation::SetDataType { .. } => 1,
            AlterColumnOperation::SetNotNull => 3,
            _ => 5,
        },
        AlterTableOperation::AddColumn { .. } => 2,
        AlterTableOperation::AddConstraint {
            constraint: TableConstraint::PrimaryKey(_) | TableConstraint::Unique(_),
            ..
        } => 4,
        _ => 5,
    }
}

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
        if let [AlterTableOperation::RenameTable { table_name: RenameTableNameKind::To(to) }] =
            &alter.operations[..]
            && let (None, to) = table_parts(to)?
            && self.find_table(schema.as_deref(), &name).await?.is_none()
            && env::boxed!(self.rename_other(schema.as_deref(), &name, &to)).await?
        {
            return done();
        }
        let table = self.table_of(&alter.name).await?;
        self.check_owner("table", &table.name, table.owner).await?;
        let txn = self.transaction()?;
        let table = dict::lock_definition(&self.ctx, &txn, &table).await?;
        // It may have got another owner while this waited.
        self.check_owner("table", &table.name, table.owner).await?;
        let mut operations: Vec<&AlterTableOperation> = alter.operations.iter().collect();
        operations.sort_by_key(|operation| pass(operation));
        for operation in operations {
            // Each sees what the one before has done.
            let table = self.altered(&table).await?;
            self.alter_one(&table, operation).await?;
        }
        done()
    }

    /// The table as the operations so far have left it.
    pub(super) async fn altered(&mut self, table: &TableDef) -> Result<Arc<TableDef>> {
        let txn = self.transaction()?;
        let found = dict::table_by_obj(&self.ctx, &txn, table.obj).await?;
        found.ok_or_else(|| {
            PgError::new("42P01", format!("relation \"{}\" does not exist", table.name))
        })
    }

    async fn alter_one(
        &mut self,
        table: &Arc<TableDef>,
        operation: &AlterTableOperation,
    ) -> Result<()> {
        Session::check_alters(table, operation)?;
        match operation {
            AlterTableOperation::AddConstraint { constraint, not_valid } => {
                self.add_constraint(table, constraint, !not_valid).await
            }
            AlterTableOperation::ValidateConstraint { name } => {
                self.validate_constraint(table, &ident_name(name)).await
            }
            AlterTableOperation::AddColumn {
                if_not_exists,
                column_def,
                column_position: None,
                ..
            } => self.add_column(table, column_def, *if_not_exists).await,
            AlterTableOperation::DropConstraint { if_exists, name, drop_behavior } => {
                let cascade = *drop_behavior == Some(ast::DropBehavior::Cascade);
                self.drop_constraint(table, &ident_name(name), *if_exists, cascade).await
            }
            AlterTableOperation::DropPrimaryKey { drop_behavior } => {
                let primary = table.indexes.iter().find(|index| index.primary);
                let name = primary.and_then(|index| index.constraint.clone());
                let Some(name) = name else {
                    let text = format!("table \"{}\" has no primary key", table.name);
                    return Err(PgError::new("42704", text));
                };
                let cascade = *drop_behavior == Some(ast::DropBehavior::Cascade);
                self.drop_constraint(table, &name, false, cascade).await
            }
            AlterTableOperation::DropColumn { column_names, if_exists, drop_behavior, .. } => {
                let cascade = *drop_behavior == Some(ast::DropBehavior::Cascade);
                for name in column_names {
                    let table = self.altered(table).await?;
                    self.drop_column(&table, &ident_name(name), *if_exists, cascade).await?;
                }
                Ok(())
            }
            AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
                let (old, new) = (ident_name(old_column_name), ident_name(new_column_name));
                if table.materialized.is_some() {
                    return self.rename_materialized_column(table, &old, &new).await;
                }
                self.rename_column(table, &old, &new).await
            }
            AlterTableOperation::RenameTable { table_name: RenameTableNameKind::To(name) } => {
                let (None, name) = table_parts(name)? else {
                    return Err(PgError::syntax("a name without a schema is expected"));
                };
                self.rename_relation(table, name).await
            }
            AlterTableOperation::RenameConstraint { old_name, new_name } => {
                self.rename_constraint(table, &ident_name(old_name), &ident_name(new_name)).await
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

    /// Another name for a table or a view, also in the texts of the views that read it.
    pub(super) async fn rename_relation(
        &mut self,
        def: &Arc<TableDef>,
        name: String,
    ) -> Result<()> {
        let txn = self.transaction()?;
        let done = dict::rename_table(&self.ctx, &txn, def, &name).await;
        done.map_err(|error| named(error, &name))?;
        let change = Change::Object { obj: def.obj, schema: def.schema.clone(), name };
        self.rewrite_views(def, &change).await
    }

    async fn rename_constraint(
        &mut self,
        table: &Arc<TableDef>,
        old: &str,
        new: &str,
    ) -> Result<()> {
        if let Some(check) = table.checks.iter().find(|check| check.name == old) {
            check_free(table, new)?;
            let txn = self.transaction()?;
            let made = (new.to_owned(), check.expr.clone(), check.valid);
            let done = dict::set_check(&self.ctx, &txn, table, Some(old), Some(made)).await;
            return Ok(done.map(|_| ())?);
        }
        if table.foreign.iter().any(|key| key.name == old) {
            check_free(table, new)?;
            let txn = self.transaction()?;
            return Ok(dict::rename_foreign_key(&self.ctx, &txn, table, old, new).await?);
        }
        let found = table.indexes.iter().find(|i| i.constraint.as_deref() == Some(old));
        let Some(index) = found.cloned() else {
            let text = format!("constraint \"{old}\" for table \"{}\" does not exist", table.name);
            return Err(PgError::new("42704", text));
        };
        let txn = self.transaction()?;
        let done = dict::rename_index(&self.ctx, &txn, table, &index, new).await;
        done.map_err(|error| named(error, new))
    }

    async fn add_constraint(
        &mut self,
        table: &Arc<TableDef>,
        constraint: &TableConstraint,
        valid: bool,
    ) -> Result<()> {
        if !valid
            && !matches!(constraint, TableConstraint::Check(_) | TableConstraint::ForeignKey(_))
        {
            return Err(PgError::unsupported("NOT VALID with this kind of constraint"));
        }
        let names: Vec<String> = table.columns.iter().map(|c| c.name.clone()).collect();
        let mut constraints = Constraints::default();
        constraints.add(constraint, &table.name, &names)?;
        constraints.foreign.iter_mut().for_each(|key| key.not_valid = !valid);
        self.add_constraints(table, constraints, valid).await
    }

    /// Sees whether the rows from before a constraint meet it too.
    async fn validate_constraint(&mut self, table: &Arc<TableDef>, name: &str) -> Result<()> {
        let relation = &table.name;
        if let Some(key) = table.foreign.iter().find(|key| key.name == name) {
            return self.validate_key(table, key).await;
        }
        let Some(check) = table.checks.iter().find(|check| check.name == name) else {
            if table.indexes.iter().any(|i| i.constraint.as_deref() == Some(name)) {
                let text = format!(
                    "constraint \"{name}\" of relation \"{relation}\" is not a foreign key or \
                     check constraint"
                );
                return Err(PgError::new("42809", text));
            }
            let text = format!("constraint \"{name}\" of relation \"{relation}\" does not exist");
            return Err(PgError::new("42704", text));
        };
        if check.valid {
            return Ok(());
        }
        let (txn, made) = (self.transaction()?, (name.to_owned(), check.expr.clone(), true));
        let table = dict::set_check(&self.ctx, &txn, table, Some(name), Some(made)).await?;
        self.check_rows(&table).await
    }

    /// Makes constraints on a locked table.
    pub(super) async fn add_constraints(
        &mut self,
        table: &Arc<TableDef>,
        constraints: Constraints,
        valid: bool,
    ) -> Result<()> {
        let names: Vec<String> = table.columns.iter().map(|c| c.name.clone()).collect();
        let indexes = table.indexes.iter().filter_map(|index| index.constraint.clone());
        let taken = indexes.chain(table.checks.iter().map(|check| check.name.clone()));
        let taken: Vec<String> =
            taken.chain(table.foreign.iter().map(|key| key.name.clone())).collect();
        let checks = constraints.named_checks(&table.name, &names, &taken)?;
        for index in constraints.indexes {
            let table = self.altered(table).await?;
            if index.primary && table.primary_key().is_some() {
                return Err(several_primary_keys(&table.name));
            }
            check_free(&table, &index.name)?;
            self.is_made(&table.schema, &index.name, false).await?;
            self.build_index(&table, index).await?;
        }
        for (name, expr) in checks {
            let (txn, made) = (self.transaction()?, (name, expr, valid));
            let table = dict::set_check(&self.ctx, &txn, table, None, Some(made)).await?;
            self.check_rows(&table).await?;
        }
        for key in &constraints.foreign {
            let table = self.altered(table).await?;
            self.add_foreign_key(&table, key).await?;
        }
        Ok(())
    }

    async fn drop_constraint(
        &mut self,
        table: &Arc<TableDef>,
        name: &str,
        if_exists: bool,
        cascade: bool,
    ) -> Result<()> {
        if table.foreign.iter().any(|key| key.name == name) {
            let txn = self.transaction()?;
            return Ok(dict::drop_foreign_key(&self.ctx, &txn, table, name).await?);
        }
        if table.checks.iter().any(|check| check.name == name) {
            let txn = self.transaction()?;
            return Ok(dict::set_check(&self.ctx, &txn, table, Some(name), None)
                .await
                .map(|_| ())?);
        }
        let index = table.indexes.iter().find(|i| i.constraint.as_deref() == Some(name));
        let index = index.cloned();
        let known = index.is_some();
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
        if let Some(index) = index {
            let what = format!("constraint {name} on table {}", table.name);
            self.free_index(table, &index, &what, cascade).await?;
        }
        let txn = self.transaction()?;
        Ok(dict::drop_constraint(&self.ctx, &txn, table, name).await?)
    }
}
