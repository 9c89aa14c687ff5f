//! ALTER TYPE .. RENAME VALUE, and the texts kept with tables and views that name the label.
//!
//! What it promises: a default that is the label alone has its new name; what names it among other
//! things is not left behind with a label that is none any more. What it must never do: rewrite a
//! text in which the same letters may mean something else.

use super::alter_column::kept;
use super::depend::kind_of;
use crate::session::Session;
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{Expr, Value, visit_expressions};
use kernel::dict::{self, TableDef, TypeChange, TypeDef};
use std::ops::ControlFlow;
use std::sync::Arc;

fn quoted(label: &str) -> String {
    format!("'{}'", label.replace('\'', "''"))
}

/// Whether a literal in the text has these letters.
fn names(expr: &Expr, label: &str) -> bool {
    visit_expressions(expr, |part| match part {
        Expr::Value(value)
            if matches!(&value.value, Value::SingleQuotedString(text) if text == label) =>
        {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

fn still_named(what: &str) -> PgError {
    PgError::unsupported(format!("another name for a label that {what} may name"))
        .with_hint("Drop it, rename the label, and make it anew with the new name.")
}

/// What of a table, beside plain defaults, names the label.
fn keeper(table: &TableDef, label: &str) -> Result<Option<String>> {
    let named =
        |text: &str| -> Result<bool> { Ok(names(&crate::direct::parse_expr(text)?, label)) };
    for column in &table.columns {
        let Some(text) = &column.default else { continue };
        let plain = column.ty.enum_type().is_some() && *text == quoted(label);
        if !plain && named(text)? {
            return Ok(Some(format!("the expression of column \"{}\"", column.name)));
        }
    }
    for check in &table.checks {
        if named(&check.expr)? {
            return Ok(Some(format!("constraint \"{}\"", check.name)));
        }
    }
    for index in table.all_indexes() {
        for key in &index.exprs {
            if named(&key.text)? {
                return Ok(Some(format!("index \"{}\"", index.name)));
            }
        }
    }
    Ok(None)
}

impl Session {
    /// # Errors
    /// 0A000 where a text names the label that would have to be written anew.
    pub(super) async fn rename_label(&mut self, ty: &TypeDef, from: &str, to: &str) -> Result<()> {
        let txn = self.transaction()?;
        let mut tables: Vec<Arc<TableDef>> = Vec::new();
        for user in dict::type_users(&self.ctx, &txn, ty.obj).await? {
            let Some(def) = dict::table_by_obj(&self.ctx, &txn, user).await? else { continue };
            if def.view.is_none()
                && let Some(what) = keeper(&def, from)?
            {
                let (kind, name) = (kind_of(&def), &def.name);
                return Err(still_named(&format!("{what} of {kind} \"{name}\"")));
            }
            tables.push(def);
        }
        let mut views: Vec<Arc<TableDef>> = Vec::new();
        for used in tables.iter().map(|def| def.obj).chain([ty.obj]) {
            for (view, _) in dict::dependents(&self.ctx, &txn, used).await? {
                views.extend(dict::table_by_obj(&self.ctx, &txn, view).await?);
            }
        }
        for def in tables.iter().chain(&views) {
            let materialized = def.materialized.as_ref().map(|one| &one.view);
            let Some(view) = def.view.as_ref().or(materialized) else { continue };
            if view.text.contains(&quoted(from)) {
                let (kind, name) = (kind_of(def), &def.name);
                return Err(still_named(&format!("{kind} \"{name}\"")));
            }
        }
        let renamed = dict::alter_type(&self.ctx, &txn, ty, TypeChange::RenameValue(from, to));
        renamed.await.map_err(PgError::from)?;
        for def in tables {
            let (old, new) = (quoted(from), quoted(to));
            let is_label = |column: &dict::ColumnDef| {
                column.ty.enum_type().is_some_and(|own| own.obj == ty.obj)
                    && column.default.as_ref() == Some(&old)
            };
            if !def.columns.iter().any(is_label) {
                continue;
            }
            let now = dict::table_by_obj(&self.ctx, &txn, def.obj).await?.unwrap_or(def);
            let now = dict::lock_definition(&self.ctx, &txn, &now).await?;
            let mut columns = kept(&now);
            for column in &mut columns {
                if is_label(&column.def) {
                    column.def.default = Some(new.clone());
                }
            }
            self.set_columns(&now, columns, false).await?;
        }
        Ok(())
    }
}
