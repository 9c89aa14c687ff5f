//! What stands in FROM: relations, queries, functions that give rows.
//!
//! What it promises: each form is either bound, or made a query that is, or refused by name.

use super::{Binder, HiddenCall, SessionFn, ident_name, object_parts, refuse, table_parts};
use crate::idioms::past;
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Query, SelectItem,
    SetExpr, Statement, TableAlias, TableAliasColumnDef, TableFactor, TableWithJoins,
    visit_expressions, visit_expressions_mut,
};
use kernel::row::TypeKind;
use std::ops::ControlFlow;

impl Binder<'_> {
    pub(super) fn relation(&mut self, schema: Option<String>, name: String) {
        if schema.is_none() && self.ctes.contains(&name) {
            return;
        }
        self.references.add(schema, name);
    }

    pub(super) fn table_factor(&mut self, factor: &mut TableFactor) -> Result<()> {
        if let Some(series) = lateral_series(factor)? {
            *factor = series;
            let TableFactor::Derived { subquery, lateral, .. } = factor else { return Ok(()) };
            *lateral = self.after_first;
            return self.series_bounds(subquery);
        }
        if let Some(made) = self.xplan_lines(factor)? {
            *factor = made;
            return Ok(());
        }
        if let TableFactor::Table { sample: sample @ Some(_), .. } = factor {
            let sample = sample.take();
            *factor = super::sample::sampled(factor.clone(), sample)?;
        }
        self.enter()?;
        match factor {
            TableFactor::Table {
                name,
                alias,
                args,
                with_hints,
                version,
                with_ordinality,
                partitions,
                json_path,
                sample: _,
                index_hints,
            } => {
                if !with_hints.is_empty()
                    || !partitions.is_empty()
                    || json_path.is_some()
                    || !index_hints.is_empty()
                {
                    return refuse("this form of a table in FROM");
                }
                plain_alias(alias.as_ref())?;
                if let Some(args) = args
                    && let Some(arrays) = unnested(name, &args.args, alias)?
                {
                    let ordinality = *with_ordinality;
                    return self.unnest(factor, &arrays, ordinality);
                }
                if *with_ordinality {
                    return refuse("WITH ORDINALITY of this function");
                }
                if let Some(list) = args
                    && list.args.is_empty()
                    && object_parts(name)?.last().is_some_and(|last| last == "pg_get_keywords")
                {
                    *args = None;
                    alias.get_or_insert_with(|| TableAlias {
                        explicit: true,
                        name: Ident::new("pg_get_keywords"),
                        columns: Vec::new(),
                        at: None,
                    });
                    *name = ["pg_catalog", crate::catalog::KEYWORDS]
                        .map(|part| Ident::with_quote('"', part))
                        .to_vec()
                        .into();
                    self.relation(Some("pg_catalog".into()), crate::catalog::KEYWORDS.into());
                    self.depth -= 1;
                    return Ok(());
                }
                if let Some(list) = args
                    && list.args.is_empty()
                    && object_parts(name)?.last().is_some_and(|l| l == "pg_listening_channels")
                {
                    *factor = super::expr::listening_factor(alias.take())?;
                    self.depth -= 1;
                    return self.table_factor(factor);
                }
                if let Some(args) = args
                    && let Some(options) = super::expr::options_table(name, &args.args, alias)?
                {
                    *factor = options;
                    self.depth -= 1;
                    return self.table_factor(factor);
                }
                if version.is_some() && args.is_some() {
                    return refuse("AS OF of a function");
                }
                if let Some(args) = args {
                    if let Some(made) = self.table_function(name, &mut args.args, alias)? {
                        *factor = made;
                    }
                    return Ok(());
                }
                let (schema, mut table) = table_parts(name)?;
                if let Some(version) = version.take() {
                    if schema.is_none() && self.ctes.contains(&table) {
                        return refuse("AS OF of a query of WITH");
                    }
                    let shown = Ident::with_quote('"', &table);
                    table = past::name_of(self.past(&version)?, &table);
                    alias.get_or_insert_with(|| TableAlias {
                        explicit: true,
                        name: shown,
                        columns: Vec::new(),
                        at: None,
                    });
                }
                let quoted = |part: &str| Ident::with_quote('"', part);
                let parts = schema.iter().map(|s| quoted(s)).chain([quoted(&table)]);
                *name = parts.collect::<Vec<_>>().into();
                self.relation(schema, table);
            }
            TableFactor::Derived { lateral, subquery, alias, sample } => {
                if sample.is_some() {
                    return refuse("TABLESAMPLE");
                }
                // Of what stands first only queries further out are seen.
                *lateral &= self.after_first;
                plain_alias(alias.as_ref())?;
                self.query(subquery)?;
            }
            TableFactor::Function { lateral: _, name, args, with_ordinality, alias } => {
                if let Some(arrays) = unnested(name, args, alias)? {
                    let ordinality = *with_ordinality;
                    return self.unnest(factor, &arrays, ordinality);
                }
                if *with_ordinality {
                    return refuse("WITH ORDINALITY");
                }
                if let Some(made) = self.table_function(name, args, alias)? {
                    *factor = made;
                }
                return Ok(());
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                plain_alias(alias.as_ref())?;
                self.table_with_joins(table_with_joins)?;
            }
            TableFactor::UNNEST { array_exprs, with_offset: false, with_ordinality, .. } => {
                let (arrays, ordinality) = (array_exprs.clone(), *with_ordinality);
                return self.unnest(factor, &arrays, ordinality);
            }
            _ => return refuse("this form of a table in FROM"),
        }
        self.depth -= 1;
        Ok(())
    }

    /// `table(dbms_xplan.display(..))`: its lines are an array that the session makes.
    fn xplan_lines(&mut self, factor: &TableFactor) -> Result<Option<TableFactor>> {
        const COLUMN: &str = "plan_table_output";
        let Some((shown, names, given, alias)) = xplan_call(factor)? else { return Ok(None) };
        let mut args = vec![::query::Scalar::Const(kernel::row::Value::Null); names.len()];
        for (n, arg) in given.into_iter().enumerate() {
            let (at, called, expr) = match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => {
                    (Some(n), (n + 1).to_string(), expr)
                }
                FunctionArg::Named { name, arg: FunctionArgExpr::Expr(expr), .. } => {
                    let name = ident_name(&name);
                    (names.iter().position(|known| **known == *name), name, expr)
                }
                _ => return refuse("this form of an argument"),
            };
            let Some(slot) = at.and_then(|at| args.get_mut(at)) else {
                let known = names.join(", ");
                let text = format!("this function of dbms_xplan has no argument \"{called}\"");
                return Err(
                    PgError::new("42883", text).with_hint(format!("The arguments are {known}."))
                );
            };
            let constants = super::scalar::ScalarBinder::constants(self.params);
            let Some(bound) = constants.bind_argument(&expr, TypeKind::Text)? else {
                return refuse(format!("the argument {expr}"));
            };
            *slot = bound;
        }
        let function = SessionFn::Xplan(shown);
        let at = self.params.add_hidden(HiddenCall { function, args });
        let rows = super::expr::call("unnest", vec![Binder::placeholder(at)]);
        let subquery = Box::new(super::expr::set_query("SELECT 1 AS value", rows, COLUMN)?);
        let alias = alias.unwrap_or_else(|| TableAlias {
            explicit: true,
            name: Ident::new("dbms_xplan"),
            columns: Vec::new(),
            at: None,
        });
        let alias = Some(alias);
        Ok(Some(TableFactor::Derived { lateral: false, subquery, alias, sample: None }))
    }

    /// Binds what stands in the query that [`lateral_series`] has made.
    fn series_bounds(&mut self, query: &mut Query) -> Result<()> {
        let SetExpr::Select(outer) = &mut *query.body else { return Ok(()) };
        let Some(TableFactor::Derived { subquery, .. }) =
            outer.from.first_mut().map(|from| &mut from.relation)
        else {
            return Ok(());
        };
        let SetExpr::Select(select) = &mut *subquery.body else { return Ok(()) };
        let Some(SelectItem::ExprWithAlias { expr: Expr::Function(unnest), .. }) =
            select.projection.first_mut()
        else {
            return Ok(());
        };
        let done = visit_expressions_mut(unnest, |part| match part {
            Expr::Function(function) if is_series(&function.name) => {
                let FunctionArguments::List(list) = &mut function.args else {
                    return ControlFlow::Break(Ok(()));
                };
                ControlFlow::Break(list.args.iter_mut().try_for_each(|arg| match arg {
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => self.expr(expr),
                    _ => refuse("named arguments"),
                }))
            }
            _ => ControlFlow::Continue(()),
        });
        match done {
            ControlFlow::Break(bound) => bound,
            ControlFlow::Continue(()) => Ok(()),
        }
    }

    /// `unnest(...)` in FROM.
    fn unnest(
        &mut self,
        factor: &mut TableFactor,
        arrays: &[Expr],
        with_ordinality: bool,
    ) -> Result<()> {
        let (TableFactor::Table { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::UNNEST { alias, .. }) = factor
        else {
            return refuse("this form of unnest");
        };
        let mut alias = alias.take();
        let after_first = self.after_first;
        let (mut subquery, lateral) =
            super::expr::unnest_query(arrays, with_ordinality, &mut alias)?;
        self.query(&mut subquery)?;
        self.depth -= 1;
        let lateral = lateral && after_first;
        *factor = TableFactor::Derived { lateral, subquery, alias, sample: None };
        Ok(())
    }

    /// A function in FROM; what it becomes unless it stays as it is.
    fn table_function(
        &mut self,
        name: &mut ObjectName,
        args: &mut [FunctionArg],
        alias: &mut Option<TableAlias>,
    ) -> Result<Option<TableFactor>> {
        self.depth -= 1;
        let mut parts = object_parts(name)?;
        let function = parts.pop().unwrap_or_default();
        if !parts.is_empty() && parts != ["pg_catalog"] {
            return Err(PgError::new("42883", format!("function {name}(...) does not exist")));
        }
        let Some(made) = ::query::functions::set_function(&function) else {
            return Err(PgError::new("42883", format!("function {function}(...) does not exist"))
                .with_hint(
                    "Functions that can stand in FROM are generate_series, regexp_matches, \
                     regexp_split_to_table and string_to_table.",
                ));
        };
        let mut values = Vec::with_capacity(args.len());
        for arg in &mut *args {
            match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => values.push(expr.clone()),
                _ => return refuse("named arguments"),
            }
        }
        // The one column of the result is called as the function's alias.
        let alias = alias.get_or_insert_with(|| TableAlias {
            explicit: true,
            name: Ident::new(function.clone()),
            columns: Vec::new(),
            at: None,
        });
        if alias.columns.is_empty() {
            let column = TableAliasColumnDef { name: alias.name.clone(), data_type: None };
            alias.columns.push(column);
        }
        let streamed = super::expr::integer_series(&function, &values);
        values.iter_mut().try_for_each(|expr| self.expr(expr))?;
        let subquery = Box::new(match streamed {
            Some(kind) => super::expr::series_query(kind, values, &function)?,
            None => {
                let rows = super::expr::call("unnest", vec![super::expr::call(made, values)]);
                super::expr::set_query("SELECT 1 AS value", rows, &function)?
            }
        });
        let alias = Some(alias.clone());
        Ok(Some(TableFactor::Derived { lateral: false, subquery, alias, sample: None }))
    }
}

/// A call in FROM of a function of `dbms_xplan`.
type XplanCall =
    (crate::xplan::Shown, &'static [&'static str], Vec<FunctionArg>, Option<TableAlias>);

/// With or without `table(..)` around it.
fn xplan_call(factor: &TableFactor) -> Result<Option<XplanCall>> {
    let (parts, args, alias) = match factor {
        TableFactor::TableFunction { expr: Expr::Function(call), alias } => {
            let args = match &call.args {
                FunctionArguments::List(list) => list.args.clone(),
                _ => Vec::new(),
            };
            (object_parts(&call.name)?, args, alias)
        }
        TableFactor::TableFunction { expr: Expr::CompoundIdentifier(parts), alias } => {
            (parts.iter().map(ident_name).collect(), Vec::new(), alias)
        }
        TableFactor::Table { name, args: Some(args), alias, .. } => {
            (object_parts(name)?, args.args.clone(), alias)
        }
        TableFactor::Function { name, args, alias, .. } => {
            (object_parts(name)?, args.clone(), alias)
        }
        _ => return Ok(None),
    };
    let [.., package, function] = &parts[..] else { return Ok(None) };
    if package != "dbms_xplan" {
        return Ok(None);
    }
    match crate::xplan::Shown::named(function) {
        Some((shown, names)) => Ok(Some((shown, names, args, alias.clone()))),
        None => refuse(format!("dbms_xplan.{function}")),
    }
}

const SERIES: &str = "generate_series";
/// The function that gives a series as an array.
const SERIES_ARRAY: &str = "$generate_series";

fn is_series(name: &ObjectName) -> bool {
    object_parts(name).is_ok_and(|parts| parts == [SERIES_ARRAY])
}

/// `generate_series` over columns of what stands before it, as a lateral query.
fn lateral_series(factor: &TableFactor) -> Result<Option<TableFactor>> {
    let (name, args, alias) = match factor {
        TableFactor::Table { name, args: Some(args), alias, with_ordinality: false, .. } => {
            (name, &args.args, alias)
        }
        TableFactor::Function { name, args, alias, with_ordinality: false, .. } => {
            (name, args, alias)
        }
        _ => return Ok(None),
    };
    let column = |expr: &Expr| matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
    let names_column = visit_expressions(args, |expr| match column(expr) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    let function = object_parts(name)?.pop();
    if function.as_deref() != Some(SERIES) || names_column.is_continue() {
        return Ok(None);
    }
    let shown = alias.as_ref().map_or_else(|| SERIES.to_owned(), |a| ident_name(&a.name));
    let column = match alias.as_ref().and_then(|alias| alias.columns.first()) {
        Some(column) => ident_name(&column.name),
        None => shown.clone(),
    };
    let quote = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let (shown, column) = (quote(&shown), quote(&column));
    let args = args.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let text = format!(
        "select 1 from lateral (select * from (select unnest(\"{SERIES_ARRAY}\"({args})) \
         as {column}) as \"$series\" where {column} is not null) as {shown}"
    );
    let crate::parse::Parsed::Sql(ast) = crate::parse::parse_single(&text)?.parsed else {
        return Ok(None);
    };
    let Statement::Query(query) = *ast else { return Ok(None) };
    let SetExpr::Select(mut select) = *query.body else { return Ok(None) };
    Ok(select.from.pop().map(|from| from.relation))
}

fn plain_alias(alias: Option<&TableAlias>) -> Result<()> {
    match alias {
        Some(alias) if alias.at.is_some() => refuse("AT in an alias"),
        _ => Ok(()),
    }
}

/// The arrays of a call of `unnest`, or those that a function on json gives.
fn unnested(
    name: &ObjectName,
    args: &[FunctionArg],
    alias: &mut Option<TableAlias>,
) -> Result<Option<Vec<Expr>>> {
    let parts = object_parts(name)?;
    let called = match &parts[..] {
        [name] => name,
        [schema, name] if schema == "pg_catalog" => name,
        _ => return Ok(None),
    };
    let of_json = ::query::functions::json_set(called);
    if called != "unnest" && of_json.is_none() {
        return Ok(None);
    }
    let all = args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Ok(expr.clone()),
        _ => refuse("named arguments"),
    });
    let all = all.collect::<Result<Vec<Expr>>>()?;
    let Some(columns) = of_json else { return Ok(Some(all)) };
    let [document] = &all[..] else {
        return Err(PgError::new("42883", format!("function {called}(...) does not exist")));
    };
    let alias = alias.get_or_insert_with(|| TableAlias {
        explicit: true,
        name: Ident::new(called.clone()),
        columns: Vec::new(),
        at: None,
    });
    for (_, column) in columns.iter().skip(alias.columns.len()) {
        let name = Ident::with_quote('"', *column);
        alias.columns.push(TableAliasColumnDef { name, data_type: None });
    }
    let made = columns.iter().map(|(made, _)| super::expr::call(made, vec![document.clone()]));
    Ok(Some(made.collect()))
}

/// Functions in FROM of one column, which their alias alone means too: it, and the column.
pub(super) fn set_aliases(from: &TableWithJoins, out: &mut Vec<(String, String)>) {
    let joined = from.joins.iter().map(|join| &join.relation);
    for factor in std::iter::once(&from.relation).chain(joined) {
        let (TableFactor::Table { name, alias: Some(alias), args: Some(_), .. }
        | TableFactor::Function { name, alias: Some(alias), .. }) = factor
        else {
            continue;
        };
        let called = object_parts(name).ok().and_then(|mut parts| parts.pop());
        let Some([(_, column)]) = called.as_deref().and_then(::query::functions::json_set) else {
            continue;
        };
        let column = match alias.columns.first() {
            Some(column) => ident_name(&column.name),
            None => (*column).to_owned(),
        };
        out.push((ident_name(&alias.name), column));
    }
}
