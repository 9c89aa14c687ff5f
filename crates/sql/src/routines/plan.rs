//! Calls that are statements (`CALL`), and those that stand in FROM, which are run before the
//! statement is.

use super::choose::{RoutineRef, choose, columns_of, given};
use super::settle::{factor_call, shown};
use crate::bind::{Params, ident_name};
use crate::encode::Nowhere;
use crate::plan::Kind;
use crate::planning::Planned;
use crate::session::Session;
use crate::{PgError, Result};
use block::ObjId;
use datafusion::sql::sqlparser::ast::{
    self, CastKind, Expr, Function, FunctionArguments, Ident, ObjectName, SelectItem,
    Statement as Ast, TableAlias, TableFactor, VisitMut, VisitorMut,
};
use kernel::dict::{self, RoutineDef, RoutineResult, Routines};
use kernel::row::{ColType, Value};
use query::PgColumn;
use query::types::PgType;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A routine with what works out its arguments.
pub(crate) struct CallPlan {
    pub(crate) def: Arc<RoutineDef>,
    /// Gives one row with a column for each argument; [`Kind::Empty`]: there are none.
    pub(crate) args: Kind,
    /// Its columns.
    columns: Vec<PgColumn>,
    /// Of a procedure: for each column of its result the place in the call that it belongs to.
    pub(crate) outs: Vec<Option<usize>>,
    /// Types of its result's columns.
    types: Vec<ColType>,
}

impl CallPlan {
    pub(crate) fn zone_name(&self) -> Option<&str> {
        self.args.zone_name()
    }
}

/// A call in FROM that was taken out of its statement.
struct TakenCall {
    candidates: Vec<ObjId>,
    args: Vec<Expr>,
    /// What it is called by in the statement.
    name: String,
}

/// Takes calls of routines out of FROM, each in exchange for a relation.
struct Taker<'a> {
    lookup: &'a super::settle::Lookup,
    calls: Vec<TakenCall>,
}

impl VisitorMut for Taker<'_> {
    type Break = Box<PgError>;

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Box<PgError>> {
        match self.take(factor) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(Box::new(error)),
        }
    }
}

impl Taker<'_> {
    fn take(&mut self, factor: &mut TableFactor) -> Result<()> {
        let Some(call) = factor_call(factor) else { return Ok(()) };
        let Some((candidates, args)) = self.lookup.find(call.name, call.args, false)? else {
            return Ok(());
        };
        let own = call.name.0.last().and_then(|part| part.as_ident()).map(ident_name);
        let (TableFactor::Table { alias, with_ordinality, .. }
        | TableFactor::Function { alias, with_ordinality, .. }) = factor
        else {
            return Ok(());
        };
        if *with_ordinality {
            return Err(PgError::unsupported("WITH ORDINALITY of this function"));
        }
        let mut alias = alias.take().unwrap_or_else(|| TableAlias {
            explicit: true,
            name: Ident::with_quote('"', own.unwrap_or_default()),
            columns: Vec::new(),
            at: None,
        });
        if alias.columns.iter().any(|column| column.data_type.is_some()) {
            let text = "a column definition list is only allowed for functions returning \
                        \"record\"";
            return Err(PgError::syntax(text));
        }
        alias.explicit = true;
        let name = format!("$called{}", self.calls.len());
        // A function of one column names it as its alias.
        let one = candidates.first().and_then(|obj| self.lookup.routines.by_obj(*obj));
        let is_value = one.is_some_and(|def| {
            matches!(def.body.result, RoutineResult::Type(_) | RoutineResult::Void)
                && def.body.args.iter().all(|arg| !arg.mode.is_result())
        });
        if is_value && alias.columns.is_empty() {
            let name = alias.name.clone();
            alias.columns.push(ast::TableAliasColumnDef { name, data_type: None });
        }
        let relation = format!("select 1 from \"{name}\"");
        let crate::parse::Parsed::Sql(made) = crate::parse::parse_single(&relation)?.parsed else {
            return Err(PgError::internal("no skeleton"));
        };
        let Ast::Query(query) = *made else { return Err(PgError::internal("no skeleton")) };
        let ast::SetExpr::Select(mut select) = *query.body else {
            return Err(PgError::internal("no skeleton"));
        };
        let mut made = select.from.remove(0).relation;
        if let TableFactor::Table { alias: own, .. } = &mut made {
            *own = Some(alias);
        }
        *factor = made;
        self.calls.push(TakenCall { candidates, args, name });
        Ok(())
    }
}

/// What a call in FROM has become.
pub(crate) struct PlannedCall {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) columns: Vec<PgColumn>,
    pub(crate) tables: Vec<(ObjId, u64)>,
    pub(crate) once: bool,
}

impl Session {
    /// Takes calls of routines out of FROM, which are run first: plans of them.
    pub(crate) async fn take_calls(
        &mut self,
        statement: &mut Ast,
        params: &mut Params,
    ) -> Result<Vec<PlannedCall>> {
        if self.routines().await?.all.is_empty() {
            return Ok(Vec::new());
        }
        let lookup = self.lookup().await?;
        let mut taker = Taker { lookup: &lookup, calls: Vec::new() };
        if let ControlFlow::Break(error) = VisitMut::visit(statement, &mut taker) {
            return Err(*error);
        }
        let mut out = Vec::new();
        for call in taker.calls {
            let planned = self.plan_args(&lookup.routines, &call.candidates, call.args, params);
            let (def, planned) = env::boxed!(planned).await.map_err(|error| match error.code {
                "42703" | "42P01" => error.with_hint(
                    "A function in FROM is run first: its arguments cannot be columns of what \
                     stands before it.",
                ),
                _ => error,
            })?;
            self.check_execute(&def, false).await?;
            let columns = env::boxed!(self.result_columns(&def)).await?;
            let row_type = env::boxed!(self.row_type_of(&def)).await?;
            let shown = columns.iter().map(|(name, ty)| PgColumn::new(name, PgType::of(*ty)));
            let shown = shown.collect();
            let types = columns.into_iter().map(|(_, ty)| ty).collect();
            let planned = planned.unwrap_or_else(no_arguments);
            let Planned { kind: args, mut tables, columns: own, once, .. } = planned;
            tables.push((dict::ROUTINES_OBJ, lookup.routines.version));
            tables.extend(row_type.map(|table| (table.obj, table.version)));
            let plan = CallPlan { def, args, columns: own, outs: Vec::new(), types };
            let kind = Kind::Call(Box::new(plan));
            out.push(PlannedCall { name: call.name, kind, columns: shown, tables, once });
        }
        Ok(out)
    }

    /// `SELECT f(1)` of a function that gives a set, as `SELECT * FROM f(1)`.
    pub(crate) async fn set_alone(&mut self, ast: &Ast) -> Result<Option<Ast>> {
        let Ast::Query(query) = ast else { return Ok(None) };
        let ast::SetExpr::Select(select) = &*query.body else { return Ok(None) };
        let [SelectItem::UnnamedExpr(Expr::Function(function))] = &select.projection[..] else {
            return Ok(None);
        };
        let FunctionArguments::List(list) = &function.args else { return Ok(None) };
        let plain = select.selection.is_none() && select.having.is_none();
        if !select.from.is_empty() || !plain || query.with.is_some() {
            return Ok(None);
        }
        let lookup = self.lookup().await?;
        let Ok(Some((found, _))) = lookup.find(&function.name, &list.args, false) else {
            return Ok(None);
        };
        let is_set = |obj: &ObjId| {
            let def = lookup.routines.by_obj(*obj);
            def.is_some_and(|def| def.body.set && matches!(def.body.result, RoutineResult::Type(_)))
        };
        if !found.iter().all(is_set) {
            return Ok(None);
        }
        let text = format!("select * from {function}");
        let crate::parse::Parsed::Sql(made) = crate::parse::parse_single(&text)?.parsed else {
            return Ok(None);
        };
        let Ast::Query(made) = *made else { return Ok(None) };
        let mut own = query.clone();
        own.body = made.body;
        Ok(Some(Ast::Query(own)))
    }

    /// Whether calls of routines stand in FROM.
    pub(crate) async fn calls_in_from(&mut self, statement: &Ast) -> Result<bool> {
        struct Finds<'a>(&'a super::settle::Lookup, bool);
        impl datafusion::sql::sqlparser::ast::Visitor for Finds<'_> {
            type Break = ();

            fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
                if let Some(call) = factor_call(factor) {
                    self.1 |= !matches!(self.0.find(call.name, call.args, false), Ok(None));
                }
                ControlFlow::Continue(())
            }
        }
        if self.routines().await?.all.is_empty() {
            return Ok(false);
        }
        let lookup = self.lookup().await?;
        let mut finds = Finds(&lookup, false);
        let _: ControlFlow<()> = ast::Visit::visit(statement, &mut finds);
        Ok(finds.1)
    }

    /// Names and types of the columns of what a routine gives.
    pub(crate) async fn result_columns(
        &mut self,
        def: &RoutineDef,
    ) -> Result<Vec<(String, ColType)>> {
        let Some(table) = self.row_type_of(def).await? else {
            let mut columns = columns_of(def);
            if columns.is_empty() && !def.body.procedure {
                columns.push((def.name.clone(), super::ddl::NOTHING));
            }
            return Ok(columns);
        };
        Ok(table.columns.iter().map(|column| (column.name.clone(), column.ty)).collect())
    }

    /// The table or view whose rows a routine gives.
    async fn row_type_of(&mut self, def: &RoutineDef) -> Result<Option<Arc<dict::TableDef>>> {
        let RoutineResult::Row(obj) = def.body.result else { return Ok(None) };
        let txn = self.transaction()?;
        let table = dict::table_by_obj(&self.ctx, &txn, obj).await?;
        let gone = || {
            let text = format!("the table that function {} gives rows of is gone", def.name);
            PgError::new("42P01", text)
        };
        table.ok_or_else(gone).map(Some)
    }

    /// Which of the candidates is meant by these arguments, and the plan that works them out.
    async fn plan_args(
        &mut self,
        routines: &Arc<Routines>,
        candidates: &[ObjId],
        args: Vec<Expr>,
        params: &mut Params,
    ) -> Result<(Arc<RoutineDef>, Option<Planned>)> {
        if args.is_empty() {
            return Ok((choose(routines, candidates, &[])?.clone(), None));
        }
        let one = match candidates {
            [one] => routines.by_obj(*one).cloned(),
            _ => None,
        };
        let untyped: Vec<bool> = args.iter().map(is_untyped).collect();
        let wanted = one.iter().flat_map(|def| given(def)).map(|arg| arg.ty);
        let mut wanted: Vec<ColType> = wanted.collect();
        wanted.resize(args.len(), super::ddl::NOTHING);
        let mut items = Vec::with_capacity(args.len());
        for (i, arg) in args.into_iter().enumerate() {
            // What has no type of its own takes that of the argument.
            let arg = match (&one, untyped[i]) {
                (Some(_), true) => cast_to(arg, wanted[i])?,
                _ => arg,
            };
            items.push(SelectItem::UnnamedExpr(arg));
        }
        let query = crate::planning::select_query(items, Vec::new(), None)?;
        let statement = Ast::Query(Box::new(query));
        let settled = env::boxed!(self.settle_routines(&statement, false)).await?;
        let (statement, tables) = match settled {
            Some((statement, tables)) => (statement, tables),
            None => (statement, Vec::new()),
        };
        let mut planned = match self.plan_direct(&statement, params).await? {
            Some(planned) => planned,
            None => {
                let Ast::Query(query) = &statement else {
                    return Err(PgError::internal("no query"));
                };
                env::boxed!(self.plan_query(query, params)).await?
            }
        };
        planned.tables.extend(tables);
        let mut types = Vec::with_capacity(planned.columns.len());
        for (column, untyped) in planned.columns.iter().zip(&untyped) {
            types.push(match untyped {
                true => None,
                false => match self.type_of_oid(column.oid).await? {
                    None => query::types::col_type_of_oid(column.oid),
                    own => own,
                },
            });
        }
        let def = choose(routines, candidates, &types)?.clone();
        Ok((def, Some(planned)))
    }

    /// Plans CALL.
    pub(crate) async fn plan_call(
        &mut self,
        function: &Function,
        params: &mut Params,
    ) -> Result<Planned> {
        let lookup = self.lookup().await?;
        let args = match &function.args {
            FunctionArguments::None => &[][..],
            FunctionArguments::List(list) => &list.args,
            FunctionArguments::Subquery(_) => {
                return Err(PgError::unsupported("a query as a procedure's argument"));
            }
        };
        let found = lookup.find(&function.name, args, true)?;
        let Some((candidates, all)) = found else {
            let name = &function.name;
            let text = format!("procedure {name}({}) does not exist", shown(args));
            return Err(PgError::new("42883", text).with_hint(
                "No procedure matches the given name and argument types. You might need to add \
                 explicit type casts.",
            ));
        };
        let planned =
            env::boxed!(self.plan_args(&lookup.routines, &candidates, all, params)).await?;
        let (def, planned) = planned;
        self.check_execute(&def, false).await?;
        let columns = columns_of(&def);
        // Where in the call the arguments stand that it gives.
        let names: Vec<Option<String>> = args.iter().map(argument_name).collect();
        let mut outs = Vec::new();
        for (place, arg) in def.body.args.iter().enumerate() {
            if arg.mode.is_result() {
                let named = names.iter().position(|name| name.as_deref() == Some(&arg.name));
                let plain = names.get(place).is_some_and(Option::is_none).then_some(place);
                outs.push(named.or(plain));
            }
        }
        let types: Vec<ColType> = columns.iter().map(|(_, ty)| *ty).collect();
        let shown: Vec<PgColumn> =
            columns.iter().map(|(name, ty)| PgColumn::new(name, PgType::of(*ty))).collect();
        let planned = planned.unwrap_or_else(no_arguments);
        let Planned { kind: args, mut tables, columns: own, once, .. } = planned;
        tables.push((dict::ROUTINES_OBJ, lookup.routines.version));
        tables.extend(self.roles_version().await?);
        tables.push(self.path_version().await?);
        let returns_rows = !shown.is_empty();
        let kind = Kind::Call(Box::new(CallPlan { def, args, columns: own, outs, types }));
        Ok(Planned { kind, tables, columns: shown, returns_rows, once })
    }

    /// The rows of a call; `holds`: a statement waits for them.
    pub(crate) async fn run_call(
        &mut self,
        call: &CallPlan,
        params: Vec<Value>,
        holds: bool,
    ) -> Result<Vec<Vec<Value>>> {
        let args = match &call.args {
            Kind::Empty => Vec::new(),
            Kind::Direct(direct) => {
                let (encoder, rows) = self.encoder(&call.columns, &[]).into_rows();
                let mut nowhere = Nowhere::default();
                self.run_direct(direct, &params, encoder, &mut nowhere).await?;
                let rows = std::mem::take(&mut *rows.lock());
                rows.into_iter().next().unwrap_or_default()
            }
            Kind::Query(query) => {
                let rows = self.rows_of_query(query, params).await?;
                rows.into_iter().next().unwrap_or_default()
            }
            _ => return Err(PgError::internal("arguments of another kind")),
        };
        let definer = call.def.body.definer;
        let mut rows =
            env::boxed!(self.run_as(&call.def, definer, args, &call.types, holds)).await?;
        // What gives nothing gives a row of it where rows are wanted.
        let void = call.def.body.result == RoutineResult::Void && !call.def.body.procedure;
        for row in rows.iter_mut().filter(|row| void && row.is_empty()) {
            row.push(Value::Text("".into()));
        }
        Ok(rows)
    }

    /// Runs a routine with the rights that it has.
    async fn run_as(
        &mut self,
        def: &Arc<RoutineDef>,
        definer: bool,
        args: Vec<Value>,
        types: &[ColType],
        holds: bool,
    ) -> Result<Vec<Vec<Value>>> {
        if !definer || def.owner == self.identity.role {
            return self.run_routine(def, args, types, holds).await;
        }
        let roles = self.roles().await?;
        let owner = roles.of(def.owner).map(|user| user.name.clone());
        let gone = || PgError::internal("a routine without an owner");
        let before = self.act_as(Some((def.owner, owner.ok_or_else(gone)?)));
        // As in PostgreSQL it must not end the transaction of whoever has fewer rights.
        let holds = holds || def.body.language != "plsql";
        let done = self.run_routine(def, args, types, holds).await;
        self.act_as(before);
        done
    }

    /// The value of a routine that an expression calls.
    pub(crate) async fn value_of_routine(
        &mut self,
        called: RoutineRef,
        args: &[Value],
    ) -> Result<Value> {
        let routines = self.routines().await?;
        let def = routines.by_obj(called.obj).cloned();
        let def = def.ok_or_else(|| PgError::from(kernel::Error::ObjectGone))?;
        let void = def.body.result == RoutineResult::Void;
        let types = if void { Vec::new() } else { vec![called.result] };
        let definer = def.body.definer;
        let done = env::boxed!(self.run_as(&def, definer, args.to_vec(), &types, true)).await;
        // As in the field: what is not found has no value in a statement of SQL.
        let is_field = def.body.language == "plsql" && !self.in_expression;
        if is_field && matches!(&done, Err(error) if error.code == "P0002") {
            return Ok(Value::Null);
        }
        let rows = done?;
        let value = rows.into_iter().next().and_then(|row| row.into_iter().next());
        Ok(value.unwrap_or(if void { Value::Text("".into()) } else { Value::Null }))
    }
}

fn no_arguments() -> Planned {
    Planned {
        kind: Kind::Empty,
        tables: Vec::new(),
        columns: Vec::new(),
        returns_rows: false,
        once: false,
    }
}

/// The name that an argument is given by.
fn argument_name(arg: &ast::FunctionArg) -> Option<String> {
    match arg {
        ast::FunctionArg::Named { name, .. }
        | ast::FunctionArg::ExprNamed { name: Expr::Identifier(name), .. } => {
            Some(ident_name(name))
        }
        _ => None,
    }
}

/// Literals and parameters, whose type what they stand for decides.
pub(crate) fn is_untyped(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_untyped(inner),
        Expr::Value(value) => matches!(
            value.value,
            ast::Value::SingleQuotedString(_)
                | ast::Value::EscapedStringLiteral(_)
                | ast::Value::DollarQuotedString(_)
                | ast::Value::Placeholder(_)
                | ast::Value::Null
        ),
        _ => false,
    }
}

pub(super) fn cast_to(expr: Expr, ty: ColType) -> Result<Expr> {
    let name = match ty.enum_type() {
        Some(def) => {
            let parts = [&def.schema, &def.name].map(|part| Ident::with_quote('"', part));
            let mut name = ObjectName::from(parts.to_vec());
            query::sqltype::mark_type(&mut name, ty);
            ast::DataType::Custom(name, Vec::new())
        }
        None => {
            let cast = crate::direct::parse_expr(&format!("null::{ty}"))?;
            let Expr::Cast { data_type, .. } = cast else {
                return Err(PgError::internal("no cast"));
            };
            data_type
        }
    };
    let (kind, expr) = (CastKind::Cast, Box::new(expr));
    Ok(Expr::Cast { kind, expr, data_type: name, array: false, format: None })
}
