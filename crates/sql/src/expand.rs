//! What a name in a statement stands for while it is planned: a view is put in the place of its
//! name, and what the meaning of a name without schema depends on is noted.
//!
//! What it promises: a plan goes when a view behind it, or the schemas it was looked for in,
//! change. What it must never do: run a statement.

use crate::access::ReadBy;
use crate::bind::{Binder, Params, References};
use crate::ddl::is_temporary;
use crate::session::Session;
use crate::{PgError, Result};
use block::ObjId;
use datafusion::sql::sqlparser::ast::Statement as Ast;
use kernel::dict::TableDef;
use query::Relation;

impl Session {
    /// What plans that look for names on the search path depend on: the schemas there are.
    pub(crate) async fn path_version(&mut self) -> Result<(ObjId, u64)> {
        let txn = self.transaction()?;
        let schemas = kernel::dict::schemas(&self.ctx, &txn).await?;
        Ok((kernel::dict::SCHEMAS_OBJ, schemas.version))
    }

    /// Whether a name would be looked for here before anywhere else. What is found further on may
    /// be hidden by something made later, which no version of it would tell: such a plan is not
    /// kept.
    pub(crate) async fn is_first(&mut self, schema: &str) -> Result<bool> {
        // The session's own temporary objects are part of what plans are found by.
        let path = self.schemas_for(None).await?;
        let first = path.iter().find(|name| !is_temporary(name));
        Ok(is_temporary(schema) || first.is_none_or(|first| first == schema))
    }

    /// What a view shows, to be planned in its place, with the tables behind it.
    pub(crate) async fn expand_view(
        &mut self,
        view: &TableDef,
        params: &mut Params,
    ) -> Result<(Relation, Vec<(ObjId, u64)>, bool)> {
        let own = view.view.as_ref().ok_or_else(|| PgError::internal("a view without a text"))?;
        let weight = self.view_weight + crate::depth::weigh_text(&own.text)?;
        crate::depth::check_views(weight)?;
        let mut settled = Ast::Query(Box::new(crate::ddl::query_of(own)?));
        if let Some(with_records) = env::boxed!(self.settle_records(&settled)).await? {
            settled = with_records;
        }
        let named = env::boxed!(self.settle_types(&mut settled)).await?;
        let mut named: Vec<(ObjId, u64)> = named.into_iter().collect();
        if let Some((called, tables)) = env::boxed!(self.settle_routines(&settled, true)).await? {
            params.routines = Some(self.routines().await?);
            settled = called;
            named.extend(tables);
        }
        if let Some(with_rows) = env::boxed!(self.settle_rows(&settled)).await? {
            settled = with_rows;
        }
        let Ast::Query(mut query) = settled else {
            return Err(PgError::internal("a view without a query"));
        };
        let env = self.format_env();
        let mut binder = Binder::new(params, &env);
        binder.bind_query(&mut query)?;
        // What the view reads is read by its owner.
        let read_by = ReadBy::Uses(own.uses.clone());
        let references = References { read_by, ..binder.references };
        let caller = self.check_as.replace(view.owner);
        self.view_depth += 1;
        let outside = std::mem::replace(&mut self.view_weight, weight);
        let found = self.relations(&references, params).await;
        self.view_depth -= 1;
        self.view_weight = outside;
        self.check_as = caller;
        let (set, mut tables, once) = found?;
        tables.extend(named);
        let names: Vec<String> = view.columns.iter().map(|column| column.name.clone()).collect();
        let statement = Ast::Query(query);
        let relation = self.database.planner.view(statement, &set, &params.all_types(), &names)?;
        Ok((relation, tables, once))
    }
}
