//! The expressions that indexes are over: read, named, shown, and made into what computes them.
//!
//! What it promises: the kernel gets the value that a query would give for the expression,
//! whoever writes the row. What it must never do: wait, or look at a session.

use crate::bind::{Binder, Params, output_name};
use crate::check::{self, Place};
use crate::database::Database;
use crate::direct::parse_expr;
use crate::planning::{select_query, target_factor};
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, SelectItem, Statement as Ast, TableWithJoins, visit_expressions_mut,
};
use kernel::dict::{IndexDef, KEY_EXPR, KeyExpr, KeyExpressions, TableDef};
use kernel::row::{TypeKind, Value};
use query::functions::quote_ident;
use query::key_exprs::KeyExprs;
use query::wire::FormatEnv;
use query::{Relation, TableSet};
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};

/// Computes the keys of an instance's indexes.
pub(crate) struct KeyMaker(pub(crate) Weak<Database>);

impl KeyMaker {
    fn made(&self, table: &TableDef, index: &IndexDef) -> Result<Arc<KeyExprs>> {
        if let Some(known) = index.derived.get::<KeyExprs>() {
            return Ok(known);
        }
        let database = self.0.upgrade().ok_or(kernel::Error::Closing)?;
        let texts = index.exprs.iter().map(|expr| parse_expr(&expr.text));
        let exprs = texts.collect::<Result<Vec<Expr>>>()?;
        let made = Arc::new(compile(&database, table, &exprs)?);
        index.derived.put(made.clone());
        Ok(made)
    }
}

fn raised(error: PgError) -> kernel::Error {
    kernel::Error::Raised { sqlstate: error.code, text: error.message }
}

impl KeyExpressions for KeyMaker {
    fn prepare(&self, table: &TableDef, index: &IndexDef) -> kernel::Result<()> {
        self.made(table, index).map(|_| ()).map_err(raised)
    }

    fn values(
        &self,
        table: &TableDef,
        index: &IndexDef,
        rows: &[&[u8]],
    ) -> kernel::Result<Vec<Vec<Value>>> {
        let made = self.made(table, index).map_err(raised)?;
        made.values(table, rows).map_err(raised)
    }
}

/// Expressions over a table's rows, ready to be computed.
///
/// # Errors
/// What is wrong with one; 42P17 for one that is not immutable.
pub(crate) fn compile(database: &Database, table: &TableDef, exprs: &[Expr]) -> Result<KeyExprs> {
    let env = FormatEnv::plain();
    // Without its indexes: planning a query over it would ask for their expressions.
    let own = Arc::new(TableDef {
        indexes: Vec::new(),
        partial: Vec::new(),
        computed: Vec::new(),
        checks: Vec::new(),
        ..table.clone()
    });
    let mut set = TableSet::new(env, "UTC");
    set.insert(Some(&own.schema), &own.name, Relation::Table(own.clone()));
    let mut queries = Vec::with_capacity(exprs.len());
    for expr in exprs {
        let mut expr = expr.clone();
        crate::named_types::mark_in_table(&mut expr, table);
        let mut params = Params::new(Vec::new(), 0);
        let mut binder = Binder::new(&mut params, &env);
        binder.bind_expr(&mut expr)?;
        let references = binder.references;
        if !references.relations.is_empty() {
            return Err(PgError::new("0A000", "cannot use subquery in index expression"));
        }
        if !params.hidden.is_empty() || references.catalog_functions || references.sizes {
            let text = "functions in index expression must be marked IMMUTABLE";
            return Err(PgError::new("42P17", text));
        }
        let alias = Ident::with_quote('"', "key");
        let items = vec![SelectItem::ExprWithAlias { expr, alias }];
        let relation = target_factor(&own, &own.name);
        let from = vec![TableWithJoins { relation, joins: Vec::new() }];
        queries.push(Ast::Query(Box::new(select_query(items, from, None)?)));
    }
    database.planner.key_exprs(&own, queries, &set)
}

/// The expressions as an index keeps them, with their types.
pub(crate) fn key_exprs(
    database: &Database,
    table: &TableDef,
    exprs: &[Expr],
) -> Result<Vec<KeyExpr>> {
    let exprs = exprs.iter().map(normal).collect::<Result<Vec<Expr>>>()?;
    let types = compile(database, table, &exprs)?.types();
    let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
    let made = |(expr, ty): (&Expr, kernel::row::ColType)| {
        if ty.kind == TypeKind::Enum {
            return Err(PgError::unsupported("an index on an expression of an enum type"));
        }
        let columns = check::columns_of(expr, &names);
        let columns = columns.into_iter().filter_map(|at| u16::try_from(at).ok()).collect();
        Ok(KeyExpr { text: expr.to_string(), ty, columns })
    };
    exprs.iter().zip(types).map(made).collect()
}

/// The expression as it is kept: without brackets around it, names of functions as they are told.
fn normal(expr: &Expr) -> Result<Expr> {
    let mut expr = check::normal(expr, Place::Index)?;
    while let Expr::Nested(inner) = expr {
        expr = *inner;
    }
    let _: ControlFlow<()> = visit_expressions_mut(&mut expr, |part| {
        if let Expr::Function(function) = part
            && let [last] = &function.name.0[..]
            && let Some(ident) = last.as_ident()
            && ident.quote_style.is_none()
        {
            let name = ident.value.to_lowercase();
            // As PostgreSQL shows what is no function to it.
            let name = match name.as_str() {
                "coalesce" | "nullif" | "greatest" | "least" => name.to_uppercase(),
                _ => name,
            };
            function.name = ObjectName::from(vec![Ident::new(name)]);
        }
        ControlFlow::Continue(())
    });
    Ok(expr)
}

/// The text of an expression as an index would keep it.
pub(crate) fn kept_text(text: &str) -> Result<String> {
    Ok(normal(&parse_expr(text)?)?.to_string())
}

/// Whether it may stand in a key without brackets.
fn is_call(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Function(_)
            | Expr::Extract { .. }
            | Expr::Ceil { .. }
            | Expr::Floor { .. }
            | Expr::Position { .. }
            | Expr::Substring { .. }
            | Expr::Trim { .. }
            | Expr::Overlay { .. }
    )
}

/// The expression in an index's key as definitions show it.
pub(crate) fn shown(expr: &KeyExpr, short: bool) -> String {
    match parse_expr(&expr.text) {
        Ok(parsed) if is_call(&parsed) => check::shown(&parsed, short),
        Ok(parsed) => format!("({})", check::shown(&parsed, short)),
        Err(_) => format!("({})", expr.text),
    }
}

/// A part of an index's key as definitions show it.
pub(crate) fn shown_part(table: &TableDef, index: &IndexDef, column: u16, short: bool) -> String {
    match column.checked_sub(KEY_EXPR) {
        Some(at) => shown(&index.exprs[usize::from(at)], short),
        None => quote_ident(&table.columns[usize::from(column)].name),
    }
}

/// What the columns of an index on these parts are called: each name once.
pub(crate) fn part_names(table: &TableDef, columns: &[u16], exprs: &[KeyExpr]) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(columns.len());
    for column in columns {
        let base = match column.checked_sub(KEY_EXPR) {
            None => table.columns[usize::from(*column)].name.clone(),
            Some(at) => {
                let parsed = parse_expr(&exprs[usize::from(at)].text).ok();
                let name = parsed.and_then(|expr| output_name(&SelectItem::UnnamedExpr(expr)));
                name.filter(|name| name != "?column?").unwrap_or_else(|| "expr".to_owned())
            }
        };
        let (mut name, mut n) = (base.clone(), 0);
        while names.contains(&name) {
            n += 1;
            name = format!("{base}{n}");
        }
        names.push(name);
    }
    names
}
