//! ALTER TABLE: columns added, dropped, renamed and changed.
//!
//! What it promises: a column is added without touching the rows if its default is one value; what
//! changes the rows' form writes them all anew. What it must never do: leave rows that the new
//! definition forbids.

use super::column::{check_default, column_type, declare_column};
use super::constraint::{Constraints, several_primary_keys};
use super::depend::{Thing, depended_on};
use super::refuse;
use super::rewrite::{Source, Using, contains_nulls};
use crate::bind::{Params, ident_name};
use crate::check::{columns_of, with_column};
use crate::generated::{check_expressions, computed_from, kind_of};
use crate::planning::{column_default, row_default};
use crate::session::Session;
use crate::view::Change;
use crate::{PgError, Result, Severity, direct};
use datafusion::sql::sqlparser::ast::{self, AlterColumnOperation, Expr, Ident, SelectItem};
use kernel::dict::{self, AlteredColumn, ColumnDef, Generated, TableDef};
use kernel::row::{ColType, PRECISION_MAX, TypeKind, stored_value};
use query::interval::Fields;
use query::scalar::EvalContext;
use std::sync::Arc;

/// The columns as they are.
pub(super) fn kept(table: &TableDef) -> Vec<AlteredColumn> {
    let kept = |(i, def): (usize, &ColumnDef)| AlteredColumn { from: Some(i), def: def.clone() };
    table.columns.iter().enumerate().map(kept).collect()
}

/// Each new column from the one it was.
fn from_old(columns: &[AlteredColumn]) -> Vec<Source> {
    columns.iter().filter_map(|column| column.from.map(Source::Old)).collect()
}

fn exists(table: &TableDef, column: &str) -> PgError {
    let table = &table.name;
    let text = format!("column \"{column}\" of relation \"{table}\" already exists");
    PgError::new("42701", text)
}

impl Session {
    pub(super) async fn set_columns(
        &mut self,
        table: &Arc<TableDef>,
        columns: Vec<AlteredColumn>,
        rewrite: bool,
    ) -> Result<Arc<TableDef>> {
        let txn = self.transaction()?;
        Ok(dict::alter_columns(&self.ctx, &txn, table, columns, rewrite).await?)
    }

    pub(super) async fn add_column(
        &mut self,
        table: &Arc<TableDef>,
        column_def: &ast::ColumnDef,
        if_not_exists: bool,
    ) -> Result<()> {
        let name = ident_name(&column_def.name);
        if table.column(&name).is_some() {
            let error = exists(table, &name);
            if !if_not_exists {
                return Err(error);
            }
            self.notice(Severity::Notice, format!("{}, skipping", error.message));
            return Ok(());
        }
        let mut constraints = Constraints::default();
        let at = table.columns.len();
        let mut column = declare_column(column_def, &table.name, &mut constraints, at)?;
        if constraints.indexes.iter().any(|index| index.primary) {
            if table.primary_key().is_some() {
                return Err(several_primary_keys(&table.name));
            }
            column.def.not_null = true;
        }
        if let Some(options) = column.sequence.take() {
            let sequence =
                self.own_sequence(&table.schema, &table.name, &mut column.def, &options).await?;
            self.make_owned(sequence, table.obj).await?;
        } else {
            self.bind_sequences(&mut column.def).await?;
        }
        let new = self.place_column(table, column.def).await?;
        self.add_constraints(&new, constraints, true).await
    }

    /// Adds a column at the end: with one value for all rows there are, or with one for each.
    async fn place_column(
        &mut self,
        table: &Arc<TableDef>,
        mut def: ColumnDef,
    ) -> Result<Arc<TableDef>> {
        self.check_types(std::iter::once(&def)).await?;
        let default = column_default(&def)?;
        let computed = def.generated == Some(Generated::Stored);
        let each = default
            .as_ref()
            .is_some_and(|default| default.calls.iter().any(|call| call.function.per_row()));
        if let Some(default) = default.filter(|_| !each) {
            let (called, env) = (self.call_all(&default.calls).await?, self.format_env());
            let cx = EvalContext { row: None, params: &called, env: &env };
            let value = default.scalar.eval(&cx)?.into_value();
            def.missing = stored_value(def.ty.kind, &value.as_datum());
        }
        if def.not_null
            && def.missing.is_none()
            && !each
            && !computed
            && self.has_rows(table).await?
        {
            return Err(contains_nulls(table, &def.name));
        }
        let mut columns = kept(table);
        let mut sources = from_old(&columns);
        columns.push(AlteredColumn { from: None, def });
        let all: Vec<ColumnDef> = columns.iter().map(|column| column.def.clone()).collect();
        check_expressions(&all)?;
        let new = self.set_columns(table, columns, each || computed).await?;
        if computed {
            sources.push(Source::Computed);
            self.check_rows(&new).await?;
            self.refill(table, &new, &sources, None).await?;
            return Ok(new);
        }
        if let Some(default) = row_default(&new, table.columns.len())?.filter(|_| each) {
            sources.push(Source::Default(default));
            self.refill(table, &new, &sources, None).await?;
        }
        Ok(new)
    }

    /// Writes the rows of a table into new segments, and its indexes with them.
    pub(super) async fn move_table(&mut self, table: &Arc<TableDef>) -> Result<()> {
        if table.view.is_some() || table.materialized.is_some() {
            let text = format!("\"{}\" is not a table", table.name);
            return Err(PgError::new("42809", text));
        }
        let columns = kept(table);
        let sources = from_old(&columns);
        let new = self.set_columns(table, columns, true).await?;
        self.refill(table, &new, &sources, None).await
    }

    pub(super) async fn drop_column(
        &mut self,
        table: &Arc<TableDef>,
        name: &str,
        if_exists: bool,
        cascade: bool,
    ) -> Result<()> {
        if let Err(error) = direct::column_position(table, name) {
            if !if_exists {
                return Err(error);
            }
            self.notice(Severity::Notice, format!("{}, skipping", error.message));
            return Ok(());
        }
        let table = &self.without_computed(table, name, cascade).await?;
        let at = direct::column_position(table, name)?;
        let dependents = self.dependents_of(table, Some(name)).await?;
        let shown = self.shown_relation(table).await?;
        let what = format!("column {name} of table {shown}");
        self.drop_dependents(&what, dependents, cascade).await?;
        // What is said of the column goes with it.
        let table = self.altered(table).await?;
        let table = &self.without_checks(&table, name).await?;
        let mut columns = kept(table);
        let dropped = columns.remove(at).def;
        let sources = from_old(&columns);
        let new = self.set_columns(table, columns, true).await?;
        self.refill(table, &new, &sources, None).await?;
        // The sequence of a serial column goes with it.
        self.drop_sequence_of(table, dropped.default.as_deref(), &what, cascade).await
    }

    pub(super) async fn rename_column(
        &mut self,
        table: &Arc<TableDef>,
        old: &str,
        new: &str,
    ) -> Result<()> {
        let missing = || PgError::new("42703", format!("column \"{old}\" does not exist"));
        let at = table.column(old).ok_or_else(missing)?;
        if table.column(new).is_some() {
            return Err(exists(table, new));
        }
        let mut columns = kept(table);
        new.clone_into(&mut columns[at].def.name);
        for at in computed_from(table, old)? {
            if let Some(text) = &mut columns[at].def.default {
                *text = with_column(text, old, new)?;
            }
        }
        let mut now = self.set_columns(table, columns, false).await?;
        let txn = self.transaction()?;
        for index in &table.computed {
            let mut exprs = index.exprs.clone();
            for expr in &mut exprs {
                expr.text = with_column(&expr.text, old, new)?;
            }
            if exprs != index.exprs {
                let done = dict::set_index_expressions(&self.ctx, &txn, &now, index, &exprs);
                now = done.await?;
            }
        }
        for check in &table.checks {
            let expr = with_column(&check.expr, old, new)?;
            if expr != check.expr {
                let name = Some(check.name.as_str());
                let made = (check.name.clone(), expr, check.valid);
                dict::set_check(&self.ctx, &txn, table, name, Some(made)).await?;
            }
        }
        let change = Change::Column { obj: table.obj, old: old.to_owned(), new: new.to_owned() };
        self.rewrite_views(table, &change).await
    }

    /// The table without the generated columns that are computed from the column.
    async fn without_computed(
        &mut self,
        table: &Arc<TableDef>,
        column: &str,
        cascade: bool,
    ) -> Result<Arc<TableDef>> {
        let names: Vec<String> = computed_from(table, column)?
            .into_iter()
            .map(|at| table.columns[at].name.clone())
            .filter(|name| name != column)
            .collect();
        if names.is_empty() {
            return Ok(table.clone());
        }
        let shown = self.shown_relation(table).await?;
        let on = format!("column {column} of table {shown}");
        let them: Vec<String> =
            names.iter().map(|name| format!("column {name} of table {shown}")).collect();
        if !cascade {
            let said: Vec<String> =
                them.iter().map(|one| format!("{one} depends on {on}")).collect();
            return Err(depended_on(&on, &said));
        }
        self.notice_cascade(&them);
        let mut left = table.clone();
        for name in names {
            env::boxed!(self.drop_column(&left, &name, false, true)).await?;
            left = self.altered(&left).await?;
        }
        Ok(left)
    }

    /// The table without the CHECK constraints that name the column.
    async fn without_checks(
        &mut self,
        table: &Arc<TableDef>,
        column: &str,
    ) -> Result<Arc<TableDef>> {
        let txn = self.transaction()?;
        let mut left = table.clone();
        for check in &table.checks {
            if !columns_of(&direct::parse_expr(&check.expr)?, &[column]).is_empty() {
                let name = Some(check.name.as_str());
                left = dict::set_check(&self.ctx, &txn, &left, name, None).await?;
            }
        }
        Ok(left)
    }

    pub(super) async fn alter_column(
        &mut self,
        table: &Arc<TableDef>,
        column: &str,
        op: &AlterColumnOperation,
    ) -> Result<()> {
        let at = direct::column_position(table, column)?;
        let mut columns = kept(table);
        let def = &mut columns[at].def;
        match op {
            AlterColumnOperation::SetNotNull => {
                if def.not_null {
                    return Ok(());
                }
                def.not_null = true;
                self.check_no_nulls(table, at).await?;
            }
            AlterColumnOperation::DropNotNull => {
                let in_key = |key: &Arc<dict::IndexDef>| {
                    key.columns.iter().any(|column| usize::from(*column) == at)
                };
                if matches!(def.generated, Some(Generated::Always | Generated::ByDefault)) {
                    let relation = &table.name;
                    let text = format!(
                        "column \"{column}\" of relation \"{relation}\" is an identity column"
                    );
                    return Err(PgError::syntax(text));
                }
                if table.primary_key().is_some_and(in_key) {
                    let text = format!("column \"{column}\" is in a primary key");
                    return Err(PgError::new("42P16", text));
                }
                def.not_null = false;
            }
            AlterColumnOperation::SetDefault { .. } | AlterColumnOperation::DropDefault
                if def.generated.is_some() =>
            {
                return Err(no_default(def, &table.name));
            }
            AlterColumnOperation::SetDefault { value } => {
                def.default = Some(super::column::default_text(value, def.ty));
                self.bind_sequences(def).await?;
                check_default(def)?;
            }
            AlterColumnOperation::DropDefault => def.default = None,
            AlterColumnOperation::SetDataType { data_type, using, .. } => {
                let (ty, sequence) = column_type(data_type)?;
                if sequence.is_some() {
                    let text = format!("type \"{data_type}\" does not exist");
                    return Err(PgError::new("42704", text.to_lowercase()));
                }
                self.change_type(table, at, ty, using.as_ref()).await?;
                return self.recheck_keys(table, at).await;
            }
            AlterColumnOperation::AddGenerated { generated_as, sequence_options } => {
                let options = sequence_options.as_deref().unwrap_or_default();
                return self.add_identity(table, at, *generated_as, options).await;
            }
        }
        self.set_columns(table, columns, false).await.map(|_| ())
    }

    /// ALTER COLUMN TYPE: all rows get the column's value in its new type.
    async fn change_type(
        &mut self,
        table: &Arc<TableDef>,
        at: usize,
        ty: ColType,
        using: Option<&Expr>,
    ) -> Result<()> {
        let mut columns = kept(table);
        let def = &mut columns[at].def;
        let (name, from) = (def.name.clone(), def.ty);
        if let Some(at) = computed_from(table, &name)?.into_iter().find(|i| *i != at) {
            let other = &table.columns[at].name;
            let detail = format!("Column \"{name}\" is used by generated column \"{other}\".");
            let text = "cannot alter type of a column used by a generated column";
            return Err(PgError::new("0A000", text).with_detail(detail));
        }
        for index in table.all_indexes() {
            if index.columns.iter().any(|column| usize::from(*column) == at) {
                super::index::check_types([ty].into_iter())?;
            }
            let mut named = Vec::new();
            if let Some(condition) = &index.predicate {
                condition.columns(&mut named);
            }
            if named.iter().any(|column| usize::from(*column) == at) {
                let what = format!(
                    "another type for a column that the predicate of index \"{}\" names",
                    index.name
                );
                return refuse(what);
            }
        }
        let dependents = self.dependents_of(table, Some(&name)).await?;
        if let Some(one) = dependents.iter().find(|one| matches!(one.what, Thing::View(_))) {
            let view = &one.shown;
            let detail = format!("rule _RETURN on {view} depends on column \"{name}\"");
            let text = "cannot alter type of a column used by a view or rule";
            return Err(PgError::new("0A000", text).with_detail(detail));
        }
        def.ty = ty;
        let cannot = |what: String| {
            PgError::new("42804", format!("{what} cannot be cast automatically to type {ty}"))
        };
        let expr = using.cloned().unwrap_or(Expr::Identifier(Ident::with_quote('"', &name)));
        let mut params = Params::new(Vec::new(), 0);
        let items = [SelectItem::UnnamedExpr(expr)];
        let (expr, shown) = self.plan_returning(&items, table, &table.name, &mut params).await?;
        if params.hidden.iter().any(|call| call.function.per_row()) {
            return refuse("a function with a value for each row in USING");
        }
        let given = shown.first().and_then(query::PgColumn::col_type);
        let given = given.map_or(TypeKind::Text, |ty| ty.kind);
        if using.is_none() && !crate::bind::scalar::assignable(from.kind, ty.kind) {
            let hint = format!("You might need to specify \"USING {name}::{ty}\".");
            return Err(cannot(format!("column \"{name}\"")).with_hint(hint));
        }
        if !crate::bind::scalar::assignable(given, ty.kind) {
            let what = format!("result of USING clause for column \"{name}\"");
            let hint = "You might need to add an explicit cast.";
            return Err(cannot(what).with_hint(hint));
        }
        if def.default.is_some() {
            let fits = column_default(def).is_ok();
            if !fits {
                return Err(cannot(format!("default for column \"{name}\"")));
            }
        }
        if using.is_none() && widens(from, ty) {
            let new = self.set_columns(table, columns, false).await?;
            return self.retype_keys(new).await.map(|_| ());
        }
        let mut sources = from_old(&columns);
        sources[at] = Source::Using;
        let using = Using { expr, calls: params.hidden };
        let new = self.set_columns(table, columns, true).await?;
        let new = self.retype_keys(new).await?;
        self.refill(table, &new, &sources, Some(&using)).await
    }

    /// The table after a column's type has changed: expressions in keys may have other types too.
    async fn retype_keys(&mut self, table: Arc<TableDef>) -> Result<Arc<TableDef>> {
        let txn = self.transaction()?;
        let mut now = table.clone();
        for index in &table.computed {
            let texts = index.exprs.iter().map(|expr| direct::parse_expr(&expr.text));
            let parsed = texts.collect::<Result<Vec<Expr>>>()?;
            let exprs = crate::key_exprs::key_exprs(&self.database, &table, &parsed)?;
            super::index::check_types(exprs.iter().map(|expr| expr.ty))?;
            if exprs != index.exprs {
                let done = dict::set_index_expressions(&self.ctx, &txn, &now, index, &exprs);
                now = done.await?;
            }
        }
        Ok(now)
    }
}

/// 42601 for a default of a column that comes by its values in another way.
fn no_default(def: &ColumnDef, table: &str) -> PgError {
    let kind = kind_of(def).unwrap_or("a column");
    let column = &def.name;
    let error = PgError::syntax(format!("column \"{column}\" of relation \"{table}\" is {kind}"));
    match def.generated {
        Some(Generated::Always | Generated::ByDefault) => {
            error.with_hint("Use ALTER TABLE ... ALTER COLUMN ... DROP IDENTITY instead.")
        }
        _ => error,
    }
}

/// Whether every value of one type is a value of the other, kept in the same bytes.
fn widens(from: ColType, to: ColType) -> bool {
    if from == to {
        return true;
    }
    from.kind == to.kind
        && match to.kind {
            TypeKind::Varchar => match (from.length(), to.length()) {
                (_, None) => true,
                (Some(old), Some(new)) => new >= old,
                (None, Some(_)) => false,
            },
            TypeKind::Numeric => match (from.precision_scale(), to.precision_scale()) {
                (_, None) => true,
                (Some(old), Some(new)) => new.1 == old.1 && new.0 >= old.0,
                (None, Some(_)) => false,
            },
            // What a type has no fields for goes.
            TypeKind::Interval if Fields::of(from) != Fields::of(to) => false,
            TypeKind::Timestamp | TypeKind::Timestamptz | TypeKind::Time | TypeKind::Interval => {
                let digits = |ty: ColType| ty.precision().unwrap_or(PRECISION_MAX);
                digits(to) >= digits(from)
            }
            _ => false,
        }
}
