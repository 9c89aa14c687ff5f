//! Names of relations where a value stands: `row_to_json(t)` means the whole row.
//!
//! What it promises: such a name becomes a row of the relation's columns, in their order, before
//! the statement is bound; a column of that name, wherever it is in scope, comes first. Where an
//! outer join has made a row up, the row is NULL. What it must never do: touch a statement without
//! such names.

mod aliases;
mod from;
mod joined;
mod repeated;
mod walk;

use crate::bind::{ident_name, object_parts, table_parts};
use crate::session::Session;
use crate::{PgError, Result};
use datafusion::catalog::TableProvider;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName,
    Query, Select, Statement as Ast, TableFactor, TableObject, Visit, Visitor, visit_expressions,
    visit_relations,
};
use query::Relation;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// What a name in FROM stands for.
#[derive(Clone)]
struct Found {
    columns: Vec<String>,
    /// A column that is never NULL.
    sure: Option<String>,
}

/// Relations by schema, if it was given, and name.
type Known = BTreeMap<(Option<String>, String), Found>;

fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

fn is(ident: &Ident, name: &str) -> bool {
    match ident.quote_style {
        Some(_) => ident.value == name,
        None => ident.value.eq_ignore_ascii_case(name),
    }
}

/// The last part of a call's name, if it is one that has no other schema than the system's.
fn called(name: &ObjectName) -> Option<String> {
    let mut parts = object_parts(name).ok()?;
    let last = parts.pop()?;
    (parts.is_empty() || parts == ["pg_catalog"]).then_some(last)
}

/// Whether a call is `row(...)`.
fn is_row(function: &Function) -> bool {
    matches!(&function.name.0[..], [name] if name.as_ident().is_some_and(|name| {
        name.quote_style.is_none() && name.value.eq_ignore_ascii_case("row")
    }))
}

/// Names that columns may be qualified with, and whether there are joins by name, or names of
/// output columns where they mean nothing.
#[derive(Default)]
struct Names(Vec<String>, bool);

impl Visitor for Names {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        self.0.extend(object_parts(relation).ok().and_then(|mut parts| parts.pop()));
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.1 |= joined::joins_by_name(query) || aliases::may_be_in(query);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. }
        | TableFactor::UNNEST { alias: Some(alias), .. } = factor
        {
            self.0.push(ident_name(&alias.name));
        }
        ControlFlow::Continue(())
    }
}

/// Looks for select lists that may have a column twice.
struct Repeating;

impl Visitor for Repeating {
    type Break = ();

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        match repeated::may_repeat(select) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// The names that columns in a query may be qualified with, also those of queries inside it.
pub(crate) fn names_in(query: &Query) -> Vec<String> {
    let mut names = Names::default();
    let _: ControlFlow<()> = query.visit(&mut names);
    names.0
}

/// Whether a statement may name a whole row, or a column beside a wildcard that shows it.
fn may_name_rows(ast: &Ast) -> bool {
    if ast.visit(&mut Repeating).is_break() {
        return true;
    }
    let mut names = Names::default();
    let _: ControlFlow<()> = ast.visit(&mut names);
    if let Ast::Insert(insert) = ast {
        if let TableObject::TableName(name) = &insert.table {
            names.0.extend(object_parts(name).ok().and_then(|mut parts| parts.pop()));
        }
        names.0.extend(insert.table_alias.iter().map(|alias| ident_name(&alias.alias)));
        names.0.push("excluded".to_owned());
    }
    let Names(names, by_name) = names;
    if by_name {
        return true;
    }
    let named = |ident: &Ident| names.iter().any(|name| is(ident, name));
    let wildcard = |function: &Function| {
        matches!(&function.args, FunctionArguments::List(list) if list.args.iter().any(|arg| {
            matches!(arg, FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(_)))
        }))
    };
    let found: ControlFlow<()> = visit_expressions(ast, |expr| {
        let found = match expr {
            Expr::Identifier(ident) => named(ident),
            Expr::Function(function) => is_row(function) || wildcard(function),
            Expr::IsNull(inner) | Expr::IsNotNull(inner) => matches!(**inner, Expr::Tuple(_)),
            Expr::CompoundFieldAccess { root, access_chain } => {
                matches!(**root, Expr::Nested(_))
                    && matches!(access_chain.first(), Some(AccessExpr::Dot(_)))
            }
            _ => false,
        };
        if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    found.is_break()
}

impl Session {
    /// The statement with rows in the place of the names that mean them; `None`: it has none.
    pub(crate) async fn settle_rows(&mut self, ast: &Ast) -> Result<Option<Ast>> {
        if !may_name_rows(ast) {
            return Ok(None);
        }
        let mut names = Vec::new();
        let _: ControlFlow<()> = visit_relations(ast, |name| {
            names.extend(table_parts(name).ok());
            ControlFlow::Continue(())
        });
        let mut known = Known::new();
        for (schema, name) in names {
            // A common table expression, or the statement's own error.
            let Ok(found) = self.find_relation(schema.as_deref(), &name).await else { continue };
            known.insert((schema, name), found_of(&found));
        }
        let mut own = ast.clone();
        walk::Rewriter::new(&known).statement(&mut own)?;
        Ok(Some(own))
    }
}

fn found_of(relation: &Relation) -> Found {
    match relation {
        Relation::Table(def) | Relation::View(def) => Found {
            columns: def.columns.iter().map(|column| column.name.clone()).collect(),
            sure: def.columns.iter().find(|c| c.not_null).map(|column| column.name.clone()),
        },
        Relation::Rows(rows) => {
            let schema = TableProvider::schema(&**rows);
            let columns = schema.fields().iter().map(|field| field.name().clone());
            Found { columns: columns.collect(), sure: None }
        }
    }
}

fn refuse<T>(what: impl std::fmt::Display) -> Result<T> {
    Err(PgError::unsupported(what))
}
