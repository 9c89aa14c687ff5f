//! What stands in FROM, with the columns that its names have.
//!
//! What it promises: the columns are those that `*` would show. A function whose columns are not
//! known here has no row.

use super::joined::{Visible, joined, visible};
use super::walk::Rewriter;
use super::{Found, called, quoted, refuse};
use crate::Result;
use crate::bind::{ident_name, object_parts, table_parts};
use crate::parse::{Parsed, parse_single};
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, JoinConstraint, JoinOperator, ObjectName, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, Statement as Ast, TableAlias, TableAliasColumnDef,
    TableFactor, TableWithJoins,
};

/// What a source's rows are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Rows,
    /// Values of a function: its name alone means the only column.
    Values,
    Unknown,
}

/// One thing in FROM.
#[derive(Clone)]
pub(super) struct Source {
    pub(super) alias: String,
    pub(super) columns: Vec<String>,
    pub(super) kind: Kind,
    /// A column that is never NULL in a row that is there.
    pub(super) sure: Option<String>,
    /// Whether an outer join may put NULLs in the place of a row.
    pub(super) nullable: bool,
    /// Whether it has to be told from its columns whether a row is there.
    pub(super) marked: bool,
}

/// What the names in one SELECT mean.
#[derive(Clone, Default)]
pub(super) struct Scope {
    pub(super) sources: Vec<Source>,
    /// Columns that USING shows once.
    pub(super) merged: Vec<String>,
    /// All that `*` shows, if that is known.
    pub(super) visible: Option<Vec<Visible>>,
}

/// The column that is true in a row that is there.
pub(super) fn mark_of(alias: &str) -> String {
    format!("$there_{alias}")
}

/// The names of columns: as an alias gives them, else their own.
pub(super) fn names_of(alias: Option<&TableAlias>, own: Vec<String>) -> Vec<String> {
    let given = alias.map(|alias| &alias.columns[..]).unwrap_or_default();
    let mut names: Vec<String> = given.iter().map(|column| ident_name(&column.name)).collect();
    let from = names.len().min(own.len());
    names.extend(own.into_iter().skip(from));
    names
}

fn source(alias: String, columns: Vec<String>) -> Source {
    Source { alias, columns, kind: Kind::Rows, sure: None, nullable: false, marked: false }
}

/// A table under a name.
pub(super) fn table(alias: String, names: Option<&TableAlias>, found: &Found) -> Source {
    let columns = names_of(names, found.columns.clone());
    let at = found.columns.iter().position(|column| found.sure.as_ref() == Some(column));
    let sure = at.and_then(|at| columns.get(at).cloned());
    Source { sure, ..source(alias, columns) }
}

impl Scope {
    /// What `*` shows.
    pub(super) fn shown(&self) -> Vec<String> {
        if let Some(visible) = &self.visible {
            return visible.iter().map(|one| one.name.clone()).collect();
        }
        let own = self.sources.iter().flat_map(|source| &source.columns);
        let own = own.filter(|name| !self.merged.contains(name));
        self.merged.iter().chain(own).cloned().collect()
    }
}

impl Rewriter<'_> {
    /// Adds what stands in FROM to the scope; the queries in it are rewritten.
    pub(super) fn sources(
        &mut self,
        from: &mut TableWithJoins,
        scope: &mut Scope,
    ) -> Result<Option<Vec<Visible>>> {
        let first = scope.sources.len();
        let mut visible = self.source(&mut from.relation, scope)?;
        for join in &mut from.joins {
            let before = scope.sources.len();
            let right = self.source(&mut join.relation, scope)?;
            visible = match (visible, right) {
                (Some(left), Some(right)) => Some(joined(left, right, join)?),
                _ => None,
            };
            let (on, left, right) = match &join.join_operator {
                JoinOperator::Left(on) | JoinOperator::LeftOuter(on) => (on, false, true),
                JoinOperator::Right(on) | JoinOperator::RightOuter(on) => (on, true, false),
                JoinOperator::FullOuter(on) => (on, true, true),
                JoinOperator::Join(on) | JoinOperator::Inner(on) | JoinOperator::CrossJoin(on) => {
                    (on, false, false)
                }
                _ => continue,
            };
            let (earlier, later) = scope.sources.split_at_mut(before);
            earlier[first..].iter_mut().for_each(|source| source.nullable |= left);
            later.iter_mut().for_each(|source| source.nullable |= right);
            let merged: Vec<String> = match on {
                JoinConstraint::Using(names) => {
                    names.iter().filter_map(|name| object_parts(name).ok()?.pop()).collect()
                }
                JoinConstraint::Natural => {
                    let of = |all: &[Source]| -> Vec<String> {
                        all.iter().flat_map(|source| source.columns.clone()).collect()
                    };
                    let right = of(later);
                    of(&earlier[first..]).into_iter().filter(|name| right.contains(name)).collect()
                }
                _ => Vec::new(),
            };
            for name in merged {
                if !scope.merged.contains(&name) {
                    scope.merged.push(name);
                }
            }
        }
        Ok(visible)
    }

    fn source(
        &mut self,
        factor: &mut TableFactor,
        scope: &mut Scope,
    ) -> Result<Option<Vec<Visible>>> {
        let made = match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                let (schema, own) = table_parts(name)?;
                let called = alias.as_ref().map_or_else(|| own.clone(), |a| ident_name(&a.name));
                if schema.is_none()
                    && let Some((_, columns)) = self.ctes.iter().rev().find(|cte| cte.0 == own)
                {
                    source(called, names_of(alias.as_ref(), columns.clone()))
                } else if let Some(found) = self.known.get(&(schema, own)) {
                    table(called, alias.as_ref(), found)
                } else {
                    Source { kind: Kind::Unknown, ..source(called, Vec::new()) }
                }
            }
            TableFactor::Table { name, alias, args: Some(args), with_ordinality, .. } => {
                self.function(name, &mut args.args, alias.as_ref(), *with_ordinality, scope)?
            }
            TableFactor::Function { name, alias, args, with_ordinality, .. } => {
                self.function(name, args, alias.as_ref(), *with_ordinality, scope)?
            }
            TableFactor::UNNEST { alias, array_exprs, with_ordinality, .. } => {
                let count = array_exprs.len();
                self.among(scope, |own| {
                    array_exprs.iter_mut().try_for_each(|expr| own.expressions(expr))
                })?;
                values("unnest", vec!["unnest"; count], alias.as_ref(), *with_ordinality)
            }
            TableFactor::Derived { lateral, subquery, alias, .. } => {
                let own = match lateral {
                    true => self.among(scope, |own| own.query(subquery))?,
                    false => self.query(subquery)?,
                };
                let called = alias.as_ref().map_or_else(String::new, |a| ident_name(&a.name));
                source(called, names_of(alias.as_ref(), own))
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                return self.sources(table_with_joins, scope);
            }
            _ => Source { kind: Kind::Unknown, ..source(String::new(), Vec::new()) },
        };
        let columns = visible(&made);
        scope.sources.push(made);
        Ok(columns)
    }

    /// Does something where what stands before it in FROM is in scope.
    fn among<T>(&mut self, scope: &Scope, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.scopes.push(scope.clone());
        let done = work(self);
        let used = self.scopes.pop().unwrap_or_default();
        if used.sources.iter().zip(&scope.sources).any(|(now, then)| now.marked != then.marked) {
            return refuse("a whole row that an outer join may have made up, in LATERAL");
        }
        done
    }

    fn function(
        &mut self,
        name: &ObjectName,
        args: &mut [FunctionArg],
        alias: Option<&TableAlias>,
        ordinality: bool,
        scope: &Scope,
    ) -> Result<Source> {
        self.among(scope, |own| args.iter_mut().try_for_each(|arg| own.expressions(arg)))?;
        let function = called(name).unwrap_or_default();
        let columns = match query::functions::json_set(&function) {
            Some(columns) => columns.iter().map(|(_, column)| *column).collect(),
            None if function == "unnest" => vec!["unnest"; args.len()],
            None if query::functions::set_function(&function).is_some() => vec![&*function],
            None => {
                let called = alias.map_or_else(|| function.clone(), |a| ident_name(&a.name));
                return Ok(Source { kind: Kind::Unknown, ..source(called, Vec::new()) });
            }
        };
        Ok(values(&function, columns, alias, ordinality))
    }

    /// Puts columns that say whether a row is there beside sources that have none.
    pub(super) fn mark(&self, select: &mut Select, scope: &Scope) -> Result<()> {
        if !scope.sources.iter().any(|source| source.marked) {
            return Ok(());
        }
        if !scope.merged.is_empty() || scope.sources.iter().any(|s| s.kind == Kind::Unknown) {
            return refuse("a whole row that an outer join may have made up, in this query");
        }
        let mut items = Vec::with_capacity(select.projection.len());
        for item in select.projection.drain(..) {
            let shown: Vec<&Source> = match &item {
                SelectItem::Wildcard(_) => scope.sources.iter().collect(),
                SelectItem::QualifiedWildcard(
                    SelectItemQualifiedWildcardKind::ObjectName(name),
                    _,
                ) => {
                    let wanted = object_parts(name)?.pop().unwrap_or_default();
                    scope.sources.iter().filter(|source| source.alias == wanted).collect()
                }
                _ => Vec::new(),
            };
            if shown.is_empty() {
                items.push(item);
                continue;
            }
            for source in shown {
                items.extend(source.columns.iter().map(|column| {
                    let name = vec![quoted(&source.alias), quoted(column)];
                    SelectItem::UnnamedExpr(Expr::CompoundIdentifier(name))
                }));
            }
        }
        select.projection = items;
        let marked = scope.sources.iter().filter(|source| source.marked);
        for source in marked {
            for from in &mut select.from {
                mark_in(from, source)?;
            }
        }
        Ok(())
    }
}

/// A function's values.
fn values(
    function: &str,
    columns: Vec<&str>,
    alias: Option<&TableAlias>,
    ordinality: bool,
) -> Source {
    let called = alias.map_or_else(|| function.to_owned(), |alias| ident_name(&alias.name));
    let single = columns.len() == 1 && !ordinality;
    let mut own: Vec<String> = columns.into_iter().map(str::to_owned).collect();
    // The only column of most functions is called as the function is.
    if single && (own == [function] || function == "unnest") {
        own = vec![called.clone()];
    }
    if ordinality {
        own.push("ordinality".to_owned());
    }
    let kind = if single { Kind::Values } else { Kind::Rows };
    Source { kind, ..source(called, names_of(alias, own)) }
}

fn mark_in(from: &mut TableWithJoins, source: &Source) -> Result<()> {
    let joined = from.joins.iter_mut().map(|join| &mut join.relation);
    for factor in std::iter::once(&mut from.relation).chain(joined) {
        match factor {
            TableFactor::NestedJoin { table_with_joins, .. } => mark_in(table_with_joins, source)?,
            TableFactor::Table { alias, name, .. } => {
                let called = match alias {
                    Some(alias) => ident_name(&alias.name),
                    None => object_parts(name)?.pop().unwrap_or_default(),
                };
                if called == source.alias {
                    *factor = marked(factor.clone(), source)?;
                }
            }
            TableFactor::Derived { alias: Some(alias), .. }
                if ident_name(&alias.name) == source.alias =>
            {
                *factor = marked(factor.clone(), source)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// The same rows with one more column, which is true.
fn marked(mut inner: TableFactor, source: &Source) -> Result<TableFactor> {
    let mark = mark_of(&source.alias);
    let parsed = parse_single("select *, true as mark from t")?.parsed;
    let no_skeleton = || crate::PgError::internal("no skeleton");
    let Parsed::Sql(ast) = parsed else { return Err(no_skeleton()) };
    let Ast::Query(mut subquery) = *ast else { return Err(no_skeleton()) };
    if let SetExpr::Select(select) = &mut *subquery.body {
        let lateral = match &mut inner {
            TableFactor::Derived { lateral, .. } => std::mem::take(lateral),
            _ => false,
        };
        if let Some(SelectItem::ExprWithAlias { alias, .. }) = select.projection.get_mut(1) {
            *alias = quoted(&mark);
        }
        select.from = vec![TableWithJoins { relation: inner, joins: Vec::new() }];
        let columns = source.columns.iter().chain([&mark]);
        let columns = columns
            .map(|name| TableAliasColumnDef { name: quoted(name), data_type: None })
            .collect();
        let name = quoted(&source.alias);
        let alias = Some(TableAlias { explicit: true, name, columns, at: None });
        return Ok(TableFactor::Derived { lateral, subquery, alias, sample: None });
    }
    Err(no_skeleton())
}

/// The first branch of a query, which gives its columns their names.
pub(super) fn first_branch(query: &Query) -> Query {
    let mut body = &query.body;
    while let SetExpr::SetOperation { left, .. } = &**body {
        body = left;
    }
    Query { with: None, order_by: None, limit_clause: None, body: body.clone(), ..query.clone() }
}
