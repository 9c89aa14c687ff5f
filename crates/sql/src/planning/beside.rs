//! RETURNING of UPDATE … FROM and DELETE … USING: columns of the relations beside the target.
//!
//! What it promises: they have the values of the row that the target's row was joined with, as
//! anybody who has changed that row meanwhile has left it. What it must never do: read a relation
//! that RETURNING does not name.

use super::quoted;
use crate::bind::{
    Binder, HiddenCall, Params, SessionFn, ident_name, names_of_from, object_parts, output_name,
};
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, Query, SelectItem, SelectItemQualifiedWildcardKind, TableWithJoins,
    VisitMut, VisitorMut, WildcardAdditionalOptions, visit_expressions,
};
use kernel::dict::TableDef;
use kernel::row::{ColType, TypeKind, Value};
use query::{PgColumn, Scalar};
use std::ops::ControlFlow;

/// Name of the columns that part the relations' columns in the statement's query.
const PART: &str = "$beside";

/// The relations beside the target whose columns are returned.
pub(super) struct Beside {
    names: Vec<String>,
    /// Where in the query's columns the first part begins.
    first: usize,
}

/// Parameters, and for each the column of the statement's query that gives its value.
pub(super) type Given = Vec<(usize, usize)>;

/// A column of them in the statement's query, and the parameter it becomes in RETURNING.
struct Found {
    relation: String,
    column: String,
    param: usize,
}

/// Whether an expression, or the items, names a column that is not the target's.
fn names_others(items: &[SelectItem], names: &[String], target: &TableDef) -> bool {
    let of_target = |name: &str| target.columns.iter().any(|column| column.name == name);
    let wild = items.iter().any(|item| match item {
        SelectItem::Wildcard(_) => true,
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
            object_parts(name).is_ok_and(|parts| parts.last().is_some_and(|n| names.contains(n)))
        }
        _ => false,
    });
    let named = visit_expressions(&items.to_vec(), |expr| {
        let other = match expr {
            Expr::Identifier(ident) => !of_target(&ident_name(ident)),
            Expr::CompoundIdentifier(parts) => match &parts[..] {
                [.., relation, _] => names.contains(&ident_name(relation)),
                _ => false,
            },
            _ => false,
        };
        if other { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    wild || named.is_break()
}

impl Beside {
    /// Adds the columns of what stands in `from` to the statement's query, if they are returned.
    pub(super) fn add(
        from: &[TableWithJoins],
        returning: Option<&[SelectItem]>,
        target: &TableDef,
        items: &mut Vec<SelectItem>,
    ) -> Option<Beside> {
        let mut scope = Vec::new();
        from.iter().for_each(|one| names_of_from(one, &mut scope));
        let names: Vec<String> = scope.into_iter().map(|(_, name)| name).collect();
        if names.is_empty() || !names_others(returning?, &names, target) {
            return None;
        }
        let first = items.len();
        for (at, name) in names.iter().enumerate() {
            let alias = Ident::with_quote('"', format!("{PART}{at}"));
            items.push(SelectItem::ExprWithAlias { expr: crate::bind::number("0"), alias });
            let name = ObjectName::from(vec![quoted(name)]);
            items.push(SelectItem::QualifiedWildcard(
                SelectItemQualifiedWildcardKind::ObjectName(name),
                WildcardAdditionalOptions::default(),
            ));
        }
        Some(Beside { names, first })
    }

    /// The items of RETURNING with parameters in place of those columns; the parameters, each with
    /// the column of the query that gives its value.
    pub(super) fn as_params(
        &self,
        items: &[SelectItem],
        columns: &[PgColumn],
        target: &TableDef,
        alias: &str,
        params: &mut Params,
    ) -> Result<(Vec<SelectItem>, Given)> {
        let (mut found, mut given) = (Vec::new(), Vec::new());
        let mut relation = None;
        for (at, column) in columns.iter().enumerate().skip(self.first) {
            if let Some(number) = column.name.strip_prefix(PART) {
                relation = number.parse::<usize>().ok().and_then(|at| self.names.get(at));
                continue;
            }
            let Some(relation) = relation else { continue };
            let mut ty = column.col_type().unwrap_or(ColType::new(TypeKind::Text));
            if ty.kind == TypeKind::Numeric {
                ty.modifier = column.typmod;
            }
            let args = vec![Scalar::Const(Value::Int8(i64::try_from(at).unwrap_or(i64::MAX)))];
            let param = params.add_hidden(HiddenCall { function: SessionFn::Beside(ty), args });
            given.push((param, at));
            let (relation, column) = (relation.clone(), column.name.clone());
            found.push(Found { relation, column, param });
        }
        let mut out = Vec::with_capacity(items.len());
        for item in items {
            self.expand(item, &found, target, alias, &mut out)?;
        }
        Ok((out, given))
    }

    fn expand(
        &self,
        item: &SelectItem,
        found: &[Found],
        target: &TableDef,
        alias: &str,
        out: &mut Vec<SelectItem>,
    ) -> Result<()> {
        let shown = |found: &Found| SelectItem::ExprWithAlias {
            expr: Binder::placeholder(found.param),
            alias: Ident::with_quote('"', &found.column),
        };
        match item {
            SelectItem::Wildcard(_) => {
                out.extend(super::modify::expand_wildcard(item.clone(), target, alias));
                out.extend(found.iter().map(shown));
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                let relation = object_parts(name)?.pop().unwrap_or_default();
                if self.names.contains(&relation) {
                    out.extend(found.iter().filter(|one| one.relation == relation).map(shown));
                } else if relation == alias {
                    let all = SelectItem::Wildcard(WildcardAdditionalOptions::default());
                    out.extend(super::modify::expand_wildcard(all, target, alias));
                } else {
                    out.push(item.clone());
                }
            }
            other => {
                let name = output_name(other);
                let mut item = other.clone();
                let replaced = with_params(&mut item, found, target)?;
                // Named as it was written.
                if let (true, SelectItem::UnnamedExpr(expr), Some(name)) = (replaced, &item, name) {
                    let alias = Ident::with_quote('"', name);
                    item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
                }
                out.push(item);
            }
        }
        Ok(())
    }
}

/// Puts parameters in place of the columns; whether there were any.
fn with_params(item: &mut SelectItem, found: &[Found], target: &TableDef) -> Result<bool> {
    let mut walk = WithParams { found, target, inner: Vec::new(), replaced: false };
    match item.visit(&mut walk) {
        ControlFlow::Break(error) => Err(*error),
        ControlFlow::Continue(()) => Ok(walk.replaced),
    }
}

/// See [`with_params`].
struct WithParams<'a> {
    found: &'a [Found],
    target: &'a TableDef,
    /// For each query around what is looked at the names of what stands in it: they come first.
    inner: Vec<Vec<String>>,
    replaced: bool,
}

impl WithParams<'_> {
    fn param_of(&self, expr: &Expr) -> Result<Option<usize>> {
        let shadowed = |name: &String| self.inner.iter().any(|names| names.contains(name));
        match expr {
            Expr::CompoundIdentifier(parts) => {
                let [.., relation, column] = &parts[..] else { return Ok(None) };
                let (relation, column) = (ident_name(relation), ident_name(column));
                let same = |one: &&Found| one.relation == relation && one.column == column;
                if shadowed(&relation) {
                    return Ok(None);
                }
                let found = self.found.iter().find(same).map(|one| one.param);
                if found.is_none() && self.found.iter().any(|one| one.relation == relation) {
                    let text = format!("column {relation}.{column} does not exist");
                    return Err(PgError::new("42703", text));
                }
                Ok(found)
            }
            // In a query inside it may be a column of what stands there.
            Expr::Identifier(ident) if self.inner.is_empty() => {
                let name = ident_name(ident);
                let of_target = self.target.columns.iter().any(|column| column.name == name);
                let mut named = self.found.iter().filter(|one| one.column == name);
                let first = named.next().map(|one| one.param);
                if first.is_some() && (of_target || named.next().is_some()) {
                    let text = format!("column reference \"{name}\" is ambiguous");
                    return Err(PgError::new("42702", text));
                }
                Ok(first)
            }
            _ => Ok(None),
        }
    }
}

impl VisitorMut for WithParams<'_> {
    type Break = Box<PgError>;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Box<PgError>> {
        self.inner.push(crate::whole_rows::names_in(query));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<Box<PgError>> {
        self.inner.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Box<PgError>> {
        match self.param_of(expr) {
            Err(error) => ControlFlow::Break(Box::new(error)),
            Ok(None) => ControlFlow::Continue(()),
            Ok(Some(param)) => {
                *expr = Binder::placeholder(param);
                self.replaced = true;
                ControlFlow::Continue(())
            }
        }
    }
}
