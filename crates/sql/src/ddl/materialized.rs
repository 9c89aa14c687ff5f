//! Materialized views: made, filled anew and changed.
//!
//! A materialized view is a table whose rows are those that a query had when it was last refreshed.
//!
//! What it promises: the query is kept as a view's is; what it reads does not go without it. What
//! it must never do: show rows of a view that has none yet, or let rows be changed but by REFRESH.

use super::refuse;
use super::temporary::is_temporary;
use super::view::query_of;
use crate::bind::ident_name;
use crate::parse::{NO_DATA, Refresh, parse_single};
use crate::session::Session;
use crate::view::name_output;
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{self, AlterTableOperation};
use kernel::dict::{self, Materialized, NewTable, TableDef, ViewDef};
use query::functions::quote_ident;
use std::sync::Arc;

/// 55000 for a materialized view without rows.
pub(crate) fn check_populated(def: &TableDef) -> Result<()> {
    match &def.materialized {
        Some(own) if !own.populated => {
            let name = &def.name;
            let text = format!("materialized view \"{name}\" has not been populated");
            Err(PgError::new("55000", text).with_hint("Use the REFRESH MATERIALIZED VIEW command."))
        }
        _ => Ok(()),
    }
}

fn not_materialized(name: &str) -> PgError {
    PgError::new("42809", format!("\"{name}\" is not a materialized view"))
}

/// Whether WITH NO DATA is said; anything else that WITH may say is refused.
fn without_data(options: &ast::CreateTableOptions) -> Result<bool> {
    let options = match options {
        ast::CreateTableOptions::None => return Ok(false),
        ast::CreateTableOptions::With(options) => options,
        _ => return refuse("a clause of this CREATE MATERIALIZED VIEW"),
    };
    for option in options {
        let known = matches!(option, ast::SqlOption::KeyValue { key, .. } if key.value == NO_DATA);
        if !known {
            return refuse("storage parameters of materialized views");
        }
    }
    Ok(!options.is_empty())
}

impl Session {
    pub(super) async fn create_materialized(&mut self, create: &ast::CreateView) -> Result<String> {
        let no_data = without_data(&create.options)?;
        if create.temporary || create.or_replace {
            return Err(PgError::syntax("syntax error at or near \"materialized\""));
        }
        let done = || Ok("CREATE MATERIALIZED VIEW".to_owned());
        let (schema, name) = self.new_name(&create.name).await?;
        if self.is_made(&schema, &name, create.if_not_exists).await? {
            return done();
        }
        let names: Vec<String> = create.columns.iter().map(|c| ident_name(&c.name)).collect();
        let defined = self.define_view(&create.query, &names).await;
        let (view, columns) = defined.map_err(|error| match error.code {
            "42601" if error.message.starts_with("CREATE VIEW specifies") => {
                PgError::syntax("too many column names were specified")
            }
            _ => error,
        })?;
        if is_temporary(&schema) || self.reads_temporary(&view.uses).await? {
            let text = "materialized views must not use temporary tables or views";
            return Err(PgError::new("0A000", text));
        }
        let txn = self.transaction()?;
        let new = NewTable {
            schema,
            name: name.clone(),
            owner: self.owner(),
            columns,
            indexes: Vec::new(),
            checks: Vec::new(),
        };
        let made = dict::create_materialized(&self.ctx, &txn, new, &view, !no_data).await;
        let made = made.map_err(|error| super::named(error, &name))?;
        let kind = dict::AclKind::Relation;
        self.give_default_rights(kind, &made.schema, made.obj).await?;
        if no_data {
            return done();
        }
        Ok(format!("SELECT {}", self.fill(&made, &view).await?))
    }

    /// Puts the rows of its query into an empty materialized view; how many there are.
    async fn fill(&mut self, def: &TableDef, view: &ViewDef) -> Result<u64> {
        let target = format!("{}.{}", quote_ident(&def.schema), quote_ident(&def.name));
        let text = format!("INSERT INTO {target} {}", view.text);
        let caller = self.check_as.replace(def.owner);
        let tag = self.change_materialized(def, &text).await;
        self.check_as = caller;
        let tag = tag?;
        Ok(tag.rsplit(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0))
    }

    /// Runs a statement that changes the rows of a materialized view.
    async fn change_materialized(&mut self, def: &TableDef, text: &str) -> Result<String> {
        self.refreshed = Some(def.obj);
        let plan = env::boxed!(self.make_plan(&parse_single(text)?, &[])).await;
        let done = match plan {
            Ok(plan) => self.run_silently(Arc::new(plan)).await,
            Err(error) => Err(error),
        };
        self.refreshed = None;
        done
    }

    pub(crate) async fn refresh(&mut self, refresh: &Refresh) -> Result<String> {
        self.check_writable("REFRESH MATERIALIZED VIEW")?;
        let Refresh { concurrently, schema, name, no_data } = refresh;
        if *concurrently && *no_data {
            let text = "CONCURRENTLY and WITH NO DATA options cannot be used together";
            return Err(PgError::syntax(text));
        }
        self.begin_if_needed();
        let Some(def) = self.find_table(schema.as_deref(), name).await? else {
            return Err(PgError::undefined_table(match schema {
                Some(schema) => format!("{schema}.{name}"),
                None => name.clone(),
            }));
        };
        let Some(own) = &def.materialized else {
            return Err(PgError { code: "0A000", ..not_materialized(name) });
        };
        self.check_owner("materialized view", name, def.owner).await?;
        let txn = self.transaction()?;
        if *concurrently {
            check_concurrently(&def, own)?;
            self.change_materialized(&def, &format!("DELETE FROM {}", qualified(&def))).await?;
            self.fill(&def, &own.view).await?;
        } else {
            let def = dict::lock_definition(&self.ctx, &txn, &def).await?;
            let Some(own) = &def.materialized else { return Err(not_materialized(name)) };
            dict::truncate_table(&self.ctx, &txn, &def).await?;
            if own.populated == *no_data {
                dict::set_materialized(&self.ctx, &txn, &def, &own.view, !no_data).await?;
            }
            if !no_data {
                let def = self.altered(&def).await?;
                self.fill(&def, &own.view).await?;
            }
        }
        Ok("REFRESH MATERIALIZED VIEW".to_owned())
    }

    /// ALTER .. RENAME COLUMN: also in what the query gives.
    pub(super) async fn rename_materialized_column(
        &mut self,
        def: &Arc<TableDef>,
        old: &str,
        new: &str,
    ) -> Result<()> {
        let Some(own) = &def.materialized else { return Err(not_materialized(&def.name)) };
        self.rename_column(def, old, new).await?;
        let mut query = query_of(&own.view)?;
        let before: Vec<String> = def.columns.iter().map(|c| c.name.clone()).collect();
        let after: Vec<String> =
            before.iter().map(|name| if name == old { new } else { name }.to_owned()).collect();
        name_output(&mut query, &after, &before)?;
        let view = ViewDef { text: query.to_string(), ..own.view.clone() };
        let txn = self.transaction()?;
        let def = self.altered(def).await?;
        Ok(dict::set_materialized(&self.ctx, &txn, &def, &view, own.populated).await?)
    }

    /// 42809 for what ALTER TABLE does to tables alone.
    pub(super) fn check_alters(def: &TableDef, operation: &AlterTableOperation) -> Result<()> {
        let what = match operation {
            _ if def.materialized.is_none() => return Ok(()),
            AlterTableOperation::RenameTable { .. } | AlterTableOperation::RenameColumn { .. } => {
                return Ok(());
            }
            AlterTableOperation::AddColumn { .. } => "ADD COLUMN",
            AlterTableOperation::DropColumn { .. } => "DROP COLUMN",
            AlterTableOperation::AddConstraint { .. } => "ADD CONSTRAINT",
            AlterTableOperation::DropConstraint { .. } => "DROP CONSTRAINT",
            AlterTableOperation::AlterColumn { .. } => "ALTER COLUMN",
            _ => return refuse("this form of ALTER TABLE of a materialized view"),
        };
        let text = format!("ALTER action {what} cannot be performed on relation \"{}\"", def.name);
        let detail = "This operation is not supported for materialized views.";
        Err(PgError::new("42809", text).with_detail(detail))
    }

    /// Writes a reader's text anew after what it reads has changed its name.
    pub(super) async fn set_text(&mut self, def: &TableDef, view: &ViewDef) -> Result<()> {
        let txn = self.transaction()?;
        match &def.materialized {
            Some(own) => {
                dict::set_materialized(&self.ctx, &txn, def, view, own.populated).await?;
            }
            None => dict::replace_view(&self.ctx, &txn, def, &def.columns, view).await?,
        }
        Ok(())
    }
}

fn qualified(def: &TableDef) -> String {
    format!("{}.{}", quote_ident(&def.schema), quote_ident(&def.name))
}

/// What REFRESH .. CONCURRENTLY asks of the view.
fn check_concurrently(def: &TableDef, own: &Materialized) -> Result<()> {
    if !own.populated {
        let text = "CONCURRENTLY cannot be used when the materialized view is not populated";
        return Err(PgError::new("0A000", text));
    }
    if !def.indexes.iter().any(|index| index.unique) {
        let name = qualified(def);
        let text = format!("cannot refresh materialized view \"{name}\" concurrently");
        let hint = "Create a unique index with no WHERE clause on one or more columns of the \
                    materialized view.";
        return Err(PgError::new("55000", text).with_hint(hint));
    }
    Ok(())
}
