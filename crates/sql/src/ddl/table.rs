//! CREATE TABLE, TRUNCATE and the drop of a table.
//!
//! What it promises: a table comes with its indexes and the sequences of its columns, or not at
//! all. What it must never do: accept a clause it has not named.

use super::column::{Column, check_default, declare_column};
use super::constraint::{Constraints, one_primary_key, taken_name};
use super::like::Like;
use super::table_as::{Made, bare_names};
use super::temporary::is_temporary;
use super::{named, refuse};
use crate::bind::ident_name;
use crate::check::has_rules;
use crate::generated::check_expressions;
use crate::session::Session;
use crate::{PgError, Result, Severity};
use datafusion::sql::sqlparser::ast::{self, CreateTableOptions, SqlOption};
use kernel::dict::{self, AclKind, NewTable, Privileges};

impl Session {
    pub(super) async fn create_table(&mut self, create: &ast::CreateTable) -> Result<String> {
        check_create_table(create)?;
        if let Some(query) = &create.query {
            if !create.constraints.is_empty() {
                return Err(PgError::syntax("CREATE TABLE AS takes no constraints"));
            }
            for option in table_options(&create.table_options)? {
                self.table_option(option)?;
            }
            let names = bare_names(&create.columns)?;
            let if_not_exists = create.if_not_exists;
            let made = Made {
                name: &create.name,
                temporary: create.temporary,
                on_commit: create.on_commit,
            };
            return self.create_table_as(made, names, query, if_not_exists).await;
        }
        for option in table_options(&create.table_options)? {
            self.table_option(option)?;
        }
        let (schema, name) = match create.temporary {
            true => self.new_temp_name(&create.name).await?,
            false => self.new_name(&create.name).await?,
        };
        if create.on_commit.is_some() && !is_temporary(&schema) {
            let text = "ON COMMIT can only be used on temporary tables";
            return Err(PgError::new("42P16", text));
        }
        let txn = self.transaction()?;
        if self.is_made(&schema, &name, create.if_not_exists).await? {
            return Ok("CREATE TABLE".to_owned());
        }
        let mut constraints = Constraints::default();
        let (mut columns, likes) =
            self.declared_columns(&create.columns, &name, &mut constraints).await?;
        let names: Vec<String> = columns.iter().map(|c| c.def.name.clone()).collect();
        for constraint in &create.constraints {
            constraints.add(constraint, &name, &names)?;
        }
        let mut checks = constraints.named_checks(&name, &names, &[])?;
        for (check, text) in likes.iter().flat_map(Like::checks) {
            if checks.iter().any(|(known, _)| *known == check) {
                return Err(taken_name(&check, &name));
            }
            checks.push((check, text));
        }
        let (indexes, foreign) = (constraints.indexes, constraints.foreign);
        one_primary_key(&indexes, &name)?;
        if let Some(twice) = indexes.iter().find(|i| checks.iter().any(|c| c.0 == i.name)) {
            return Err(taken_name(&twice.name, &name));
        }
        for index in indexes.iter().filter(|index| index.primary) {
            for column in &index.columns {
                columns[usize::from(*column)].def.not_null = true;
            }
        }
        let mut owned = Vec::new();
        for column in &mut columns {
            if let Some(options) = column.sequence.take() {
                owned.push(self.own_sequence(&schema, &name, &mut column.def, &options).await?);
            } else {
                self.bind_sequences(&mut column.def).await?;
            }
        }
        let new = NewTable {
            schema,
            name: name.clone(),
            owner: self.owner(),
            columns: columns.into_iter().map(|c| c.def).collect(),
            indexes,
            checks,
        };
        for index in &new.indexes {
            super::index::check_key(&new.columns, &index.columns)?;
        }
        new.columns.iter().try_for_each(check_default)?;
        check_expressions(&new.columns)?;
        self.check_types(new.columns.iter()).await?;
        let table = dict::create_table(&self.ctx, &txn, new).await.map_err(|e| named(e, &name))?;
        self.note_at_commit(&table, create.on_commit);
        self.give_default_rights(AclKind::Relation, &table.schema, table.obj).await?;
        for sequence in owned {
            self.make_owned(sequence, table.obj).await?;
        }
        for like in &likes {
            self.like_indexes(like, &table).await?;
        }
        let table = self.altered(&table).await?;
        if has_rules(&table) {
            // No rows yet: this sees whether conditions and expressions can be bound.
            self.check_rows(&table).await?;
        }
        for key in &foreign {
            let table = self.altered(&table).await?;
            self.add_foreign_key(&table, key).await?;
        }
        Ok("CREATE TABLE".to_owned())
    }

    /// The columns in their order, those of LIKE among them, and the clauses LIKE.
    async fn declared_columns(
        &mut self,
        declared: &[ast::ColumnDef],
        table: &str,
        constraints: &mut Constraints,
    ) -> Result<(Vec<Column>, Vec<Like>)> {
        let mut columns: Vec<Column> = Vec::with_capacity(declared.len());
        let mut likes = Vec::new();
        for column in declared {
            let new = match self.like_of(column).await? {
                None => vec![declare_column(column, table, constraints, columns.len())?],
                Some(like) => {
                    let new = self.like_columns(&like).await?;
                    likes.push(like);
                    new
                }
            };
            for column in new {
                if columns.iter().any(|known| known.def.name == column.def.name) {
                    return Err(PgError::new(
                        "42701",
                        format!("column \"{}\" specified more than once", column.def.name),
                    ));
                }
                columns.push(column);
            }
        }
        Ok((columns, likes))
    }

    pub(super) fn table_option(&mut self, option: &SqlOption) -> Result<()> {
        let SqlOption::KeyValue { key, value } = option else {
            return refuse(format!("the table option {option}"));
        };
        let name = ident_name(key);
        match name.as_str() {
            // Of which a notice has been given when it was read.
            crate::parse::STORED => Ok(()),
            // Free space in blocks is the storage layer's own business.
            "fillfactor" | "autovacuum_enabled" | "toast_tuple_target" | "parallel_workers" => {
                let text = format!(
                    "storage parameter \"{name}\" = {value} has no meaning here and is ignored"
                );
                self.notice(Severity::Notice, text);
                Ok(())
            }
            other => Err(PgError::new("22023", format!("unrecognized parameter \"{other}\""))),
        }
    }

    pub(super) async fn truncate(&mut self, truncate: &ast::Truncate) -> Result<String> {
        if truncate.partitions.is_some() || truncate.on_cluster.is_some() {
            return refuse("this form of TRUNCATE");
        }
        let mut tables = Vec::new();
        for target in &truncate.table_names {
            let table = self.table_of(&target.name).await?;
            if table.materialized.is_some() {
                let text = format!("\"{}\" is not a table", table.name);
                return Err(PgError::new("42809", text));
            }
            self.check_relation(&table, Privileges::TRUNCATE).await?;
            tables.push(table);
        }
        let cascade = truncate.cascade == Some(ast::CascadeOption::Cascade);
        let tables = self.with_referring(tables, cascade).await?;
        for table in &tables {
            self.check_relation(table, Privileges::TRUNCATE).await?;
        }
        if matches!(truncate.identity, Some(ast::TruncateIdentityOption::Restart)) {
            self.restart_sequences(&tables).await?;
        }
        let txn = self.transaction()?;
        for table in tables {
            dict::truncate_table(&self.ctx, &txn, &table).await?;
        }
        Ok("TRUNCATE TABLE".to_owned())
    }
}

/// Refuses every clause of CREATE TABLE but those that mean something.
fn check_create_table(create: &ast::CreateTable) -> Result<()> {
    if create.inherits.is_some() || create.partition_of.is_some() || create.partition_by.is_some() {
        return refuse("inheritance and partitions");
    }
    if create.like.is_some() {
        return refuse("LIKE in CREATE TABLE");
    }
    let plain = ast::CreateTable {
        name: create.name.clone(),
        columns: create.columns.clone(),
        constraints: create.constraints.clone(),
        if_not_exists: create.if_not_exists,
        temporary: create.temporary,
        global: create.global,
        on_commit: create.on_commit,
        table_options: create.table_options.clone(),
        query: create.query.clone(),
        ..ast::helpers::stmt_create_table::CreateTableBuilder::new(create.name.clone()).build()
    };
    // hive_formats is filled in by the parser without being written.
    let plain = ast::CreateTable { hive_formats: create.hive_formats.clone(), ..plain };
    if *create != plain {
        return refuse("a clause of this CREATE TABLE");
    }
    Ok(())
}

fn table_options(options: &CreateTableOptions) -> Result<&[SqlOption]> {
    match options {
        CreateTableOptions::None => Ok(&[]),
        CreateTableOptions::With(options) => Ok(options),
        _ => refuse("this form of table options"),
    }
}
