//! CREATE TABLE AS and SELECT INTO: a table from a query's columns, filled with its rows.
//!
//! What it promises: the table has the names and types the query is described with. What it must
//! never do: leave a table behind whose rows could not be computed.

use super::{named, refuse};
use crate::bind::{ident_name, object_parts};
use crate::encode::RowSink;
use crate::parse::{NO_TYPE, Statement, parse_single};
use crate::plan::{Plan, Prepared, Renewed};
use crate::session::{Fetched, Portal, PortalState, Session};
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{self, ObjectName, Query, SetExpr, Statement as Ast};
use kernel::dict::{self, ColumnDef, NewTable};
use query::PgColumn;
use query::functions::quote_ident;
use std::sync::Arc;

/// The table to be made.
pub(super) struct Made<'a> {
    pub(super) name: &'a ObjectName,
    pub(super) temporary: bool,
    pub(super) on_commit: Option<ast::OnCommit>,
}

/// The clause INTO of a query.
fn into_of(query: &Query) -> Option<&ast::SelectInto> {
    match &*query.body {
        SetExpr::Select(select) => select.into.as_ref(),
        _ => None,
    }
}

impl Session {
    pub(super) async fn select_into(&mut self, query: &Query) -> Result<String> {
        let Some(into) = into_of(query).cloned() else {
            return Err(PgError::internal("no INTO"));
        };
        let mut query = query.clone();
        if let SetExpr::Select(select) = &mut *query.body {
            select.into = None;
        }
        let made = Made { name: &into.name, temporary: into.temporary, on_commit: None };
        self.create_table_as(made, Vec::new(), &query, false).await
    }

    pub(super) async fn create_table_as(
        &mut self,
        made: Made<'_>,
        names: Vec<String>,
        query: &Query,
        if_not_exists: bool,
    ) -> Result<String> {
        let (schema, table) = match made.temporary {
            true => self.new_temp_name(made.name).await?,
            false => self.new_name(made.name).await?,
        };
        if self.is_made(&schema, &table, if_not_exists).await? {
            return Ok("CREATE TABLE AS".to_owned());
        }
        let text = query.to_string();
        let plan = env::boxed!(self.make_plan(&parse_single(&text)?, &[])).await?;
        if names.len() > plan.columns.len() {
            return Err(PgError::syntax("too many column names were specified"));
        }
        let columns = plan.columns.iter().enumerate();
        let columns = columns
            .map(|(i, column)| column_of(names.get(i).unwrap_or(&column.name), column))
            .collect::<Result<Vec<ColumnDef>>>()?;
        for (i, column) in columns.iter().enumerate() {
            if columns[..i].iter().any(|other| other.name == column.name) {
                let text = format!("column \"{}\" specified more than once", column.name);
                return Err(PgError::new("42701", text));
            }
        }
        let target = format!("{}.{}", quote_ident(&schema), quote_ident(&table));
        let new = NewTable {
            schema,
            name: table.clone(),
            owner: self.owner(),
            columns,
            indexes: Vec::new(),
            checks: Vec::new(),
        };
        let txn = self.transaction()?;
        let def = dict::create_table(&self.ctx, &txn, new).await.map_err(|e| named(e, &table))?;
        self.note_at_commit(&def, made.on_commit);
        self.give_default_rights(kernel::dict::AclKind::Relation, &def.schema, def.obj).await?;
        let insert = parse_single(&format!("INSERT INTO {target} {text}"))?;
        let plan = Arc::new(env::boxed!(self.make_plan(&insert, &[])).await?);
        let tag = self.run_silently(plan).await?;
        Ok(tag.replace("INSERT 0", "SELECT"))
    }

    /// Runs a plan that returns no rows.
    pub(super) async fn run_silently(&mut self, plan: Arc<Plan>) -> Result<String> {
        let params = self.call_all(&plan.hidden).await?;
        let statement = Statement::empty();
        let prepared = Arc::new(Prepared {
            renewed: Renewed::default(),
            param_oids: Vec::new(),
            columns: Vec::new(),
            returns_rows: false,
            statement,
            given: None,
            declared: Vec::new(),
            context: self.plan_context.clone(),
            plan: plan.clone(),
        });
        let mut portal = Portal {
            prepared,
            params: Vec::new(),
            formats: Vec::new(),
            state: PortalState::Ready,
            taken: None,
            first_only: false,
            measured: None,
        };
        let mut sink = NoRows::default();
        match self.run_inner(&plan, params, &mut portal, &mut sink).await? {
            Fetched::Complete(tag) => Ok(tag),
            _ => Err(PgError::internal("an INSERT without a tag")),
        }
    }
}

fn column_of(name: &str, column: &PgColumn) -> Result<ColumnDef> {
    let Some(mut ty) = column.col_type() else {
        return refuse(format!("a column of the type of \"{name}\" in a new table"));
    };
    // An array's modifier is the type of its elements.
    if ty.element().is_none() {
        ty.modifier = column.typmod;
    }
    Ok(ColumnDef::new(name, ty))
}

/// Takes no rows: none come.
#[derive(Default)]
struct NoRows {
    buffer: bytes::BytesMut,
}

impl RowSink for NoRows {
    fn row(&mut self) -> &mut bytes::BytesMut {
        self.buffer.clear();
        &mut self.buffer
    }

    fn copy_out(&mut self, _: bool, _: usize) {}

    fn flush_if_large(&mut self) {}
}

/// Names without types, as CREATE TABLE AS has them.
pub(super) fn bare_names(columns: &[ast::ColumnDef]) -> Result<Vec<String>> {
    let bare = |column: &ast::ColumnDef| {
        let bare = matches!(&column.data_type, ast::DataType::Custom(name, _)
            if object_parts(name)? == [NO_TYPE]);
        if !bare || !column.options.is_empty() {
            return Err(PgError::syntax("CREATE TABLE AS takes names of columns only"));
        }
        Ok(ident_name(&column.name))
    };
    columns.iter().map(bare).collect()
}

/// Whether a statement is SELECT INTO.
pub(crate) fn is_select_into(ast: &Ast) -> bool {
    matches!(ast, Ast::Query(query) if into_of(query).is_some())
}
