//! PREPARE, EXECUTE and DEALLOCATE: statements with a name of the client's.
//!
//! What it promises: a named statement follows changes of the tables it names. What it must never
//! do: run a plan that is out of date.

use super::{done, refuse};
use crate::cache::Named;
use crate::encode::RowSink;
use crate::parse::Parsed;
use crate::plan::{Prepared, Renewed};
use crate::session::{Fetched, Portal, PortalState, Session};
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{self, Expr, Statement as Ast};
use observe::{CursorKind, Stat};
use query::scalar::EvalContext;
use std::sync::Arc;

impl Session {
    pub(super) async fn run_prepare(
        &mut self,
        name: String,
        types: &[ast::DataType],
        statement: &Ast,
    ) -> Result<Fetched> {
        if self.named.contains_key(&name) {
            let text = format!("prepared statement \"{name}\" already exists");
            return Err(PgError::new("42P05", text));
        }
        let mut oids = Vec::new();
        let mut own = Ast::Prepare {
            name: ast::Ident::new(""),
            data_types: types.to_vec(),
            statement: Box::new(statement.clone()),
        };
        self.settle_types(&mut own).await?;
        let Ast::Prepare { data_types: types, .. } = &own else {
            return Err(PgError::internal("PREPARE that is none"));
        };
        for ty in types {
            let ty = query::sqltype::col_type_of_sql(ty)?;
            oids.push(ty.map_or(0, |ty| query::PgType::of(ty).oid));
        }
        let inner = crate::parse::parse_single(&statement.to_string())?;
        if !matches!(&inner.parsed, Parsed::Sql(ast)
        if matches!(
            **ast,
            Ast::Query(_) | Ast::Insert(_) | Ast::Update(_) | Ast::Delete(_) | Ast::Merge(_)
        )) {
            return refuse("PREPARE of this statement");
        }
        let plan = self.plan_for(&inner, &oids).await?;
        let prepared = Arc::new(Prepared {
            renewed: Renewed::default(),
            context: self.plan_context.clone(),
            param_oids: plan.params.iter().map(|ty| query::PgType::of(*ty).oid).collect(),
            columns: plan.columns.clone(),
            returns_rows: plan.returns_rows,
            statement: inner,
            given: None,
            declared: oids,
            plan,
        });
        let (text, plan) = (&prepared.statement.text, &prepared.plan);
        self.note_cursor(CursorKind::Named, &name, text, plan);
        self.named.insert(name, prepared);
        self.note_open_cursors();
        done("PREPARE")
    }

    pub(super) async fn run_execute(
        &mut self,
        name: &str,
        args: &[Expr],
        portal: &mut Portal,
        sink: &mut dyn RowSink,
    ) -> Result<Fetched> {
        let prepared = self.named.get(name).cloned().ok_or_else(|| unknown_statement(name))?;
        self.ctx.bump(Stat::CursorCacheHits, 1);
        let plan = self.valid_plan(&prepared).await?;
        if args.len() != plan.params.len() {
            return Err(PgError::syntax(format!(
                "wrong number of parameters for prepared statement \"{name}\""
            ))
            .with_detail(format!(
                "Expected {} parameters but got {}.",
                plan.params.len(),
                args.len()
            )));
        }
        let env = self.format_env();
        let mut values = Vec::with_capacity(args.len());
        for (arg, ty) in args.iter().zip(&plan.params) {
            let mut params = crate::bind::Params::new(Vec::new(), 0);
            let mut binder = crate::bind::scalar::ScalarBinder::constants(&mut params);
            let scalar = binder.bind_assignment(arg, *ty)?;
            let scalar =
                scalar.ok_or_else(|| PgError::unsupported(format!("the argument {arg}")))?;
            let called = self.call_all(&params.hidden).await?;
            let cx = EvalContext { row: None, params: &called, env: &env };
            values.push(scalar.eval(&cx)?.into_value());
        }
        let mut params = values;
        for call in &plan.hidden {
            let value = self.session_call(call, &params).await?;
            params.push(value);
        }
        // The rows of the inner statement are the outer one's; it is fetched at once.
        let mut inner = Portal {
            prepared,
            params: Vec::new(),
            formats: portal.formats.clone(),
            state: PortalState::Ready,
            taken: None,
            first_only: false,
            measured: None,
        };
        self.run_inner(&plan, params, &mut inner, sink).await
    }

    pub(super) fn run_deallocate(&mut self, name: &str) -> Result<Fetched> {
        if name == "all" {
            self.named = Named::new();
            self.note_open_cursors();
            return done("DEALLOCATE ALL");
        }
        self.named.remove(name).ok_or_else(|| unknown_statement(name))?;
        self.note_open_cursors();
        done("DEALLOCATE")
    }
}

pub(super) fn unknown_statement(name: &str) -> PgError {
    PgError::new("26000", format!("prepared statement \"{name}\" does not exist"))
}
