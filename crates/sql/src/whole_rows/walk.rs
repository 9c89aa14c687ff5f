//! The walk through a statement: which names are in scope where an expression stands.
//!
//! What it promises: it looks for a column of a name in all the queries around it before it takes
//! the name for a relation's, as PostgreSQL does; an output column keeps the name it had.

use super::from::{Kind, Scope, Source, first_branch, mark_of, names_of, table};
use super::{Found, Known, is_row, quoted, refuse};
use crate::bind::{call, ident_name, object_parts, output_name, table_parts};
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, Distinct, Expr, FromTable, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, GroupByExpr, Insert, JoinConstraint, JoinOperator, OnConflictAction,
    OnInsert, OrderByKind, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr,
    Statement as Ast, TableFactor, TableObject, TableWithJoins, UpdateTableFromKind, Value, Values,
    VisitMut, VisitorMut,
};
use std::ops::ControlFlow;

/// Rewrites one statement.
pub(super) struct Rewriter<'a> {
    pub(super) known: &'a Known,
    /// Common table expressions in scope with their columns, innermost last.
    pub(super) ctes: Vec<(String, Vec<String>)>,
    /// What is in scope, innermost last.
    pub(super) scopes: Vec<Scope>,
    /// Queries around what is looked at.
    pub(super) depth: usize,
}

/// What stands before `.*`.
pub(super) fn qualifier(kind: &SelectItemQualifiedWildcardKind) -> String {
    match kind {
        SelectItemQualifiedWildcardKind::ObjectName(name) => {
            object_parts(name).ok().and_then(|mut parts| parts.pop()).unwrap_or_default()
        }
        SelectItemQualifiedWildcardKind::Expr(expr) => expr.to_string(),
    }
}

fn text(value: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(value.to_owned()).into())
}

pub(super) fn column(alias: &str, name: &str) -> Expr {
    Expr::CompoundIdentifier(vec![quoted(alias), quoted(name)])
}

impl<'a> Rewriter<'a> {
    pub(super) fn new(known: &'a Known) -> Rewriter<'a> {
        Rewriter { known, ctes: Vec::new(), scopes: Vec::new(), depth: 0 }
    }

    pub(super) fn statement(&mut self, ast: &mut Ast) -> Result<()> {
        self.changed(ast).map(drop)
    }

    /// Rewrites a statement; the columns that it returns.
    fn changed(&mut self, ast: &mut Ast) -> Result<Vec<String>> {
        match ast {
            Ast::Query(query) => self.query(query),
            Ast::Insert(insert) => self.insert(insert),
            Ast::Update(update) => {
                let mut scope = Scope::default();
                self.sources(&mut update.table, &mut scope)?;
                let from = update.from.iter_mut().flat_map(|from| match from {
                    UpdateTableFromKind::BeforeSet(all) | UpdateTableFromKind::AfterSet(all) => all,
                });
                for one in from {
                    self.sources(one, &mut scope)?;
                }
                let from = update.from.iter_mut().flat_map(|from| match from {
                    UpdateTableFromKind::BeforeSet(all) | UpdateTableFromKind::AfterSet(all) => all,
                });
                self.scopes.push(scope);
                for one in from {
                    self.conditions(one)?;
                }
                for assignment in &mut update.assignments {
                    self.expressions(&mut assignment.value)?;
                }
                self.expressions(&mut update.selection)?;
                let names = self.items(update.returning.as_deref_mut().unwrap_or_default());
                self.left()?;
                names
            }
            Ast::Delete(delete) => {
                let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) =
                    &mut delete.from;
                let mut scope = Scope::default();
                for one in from.iter_mut().chain(delete.using.iter_mut().flatten()) {
                    self.sources(one, &mut scope)?;
                }
                self.scopes.push(scope);
                for one in delete.using.iter_mut().flatten() {
                    self.conditions(one)?;
                }
                self.expressions(&mut delete.selection)?;
                let names = self.items(delete.returning.as_deref_mut().unwrap_or_default());
                self.left()?;
                names
            }
            Ast::Merge(merge) => {
                let mut scope = Scope::default();
                for factor in [&mut merge.table, &mut merge.source] {
                    let relation = factor.clone();
                    let mut from = TableWithJoins { relation, joins: Vec::new() };
                    self.sources(&mut from, &mut scope)?;
                    *factor = from.relation;
                }
                self.scopes.push(scope);
                self.expressions(&mut *merge.on)?;
                self.expressions(&mut merge.clauses)?;
                self.left()?;
                Ok(Vec::new())
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Leaves a scope in which nothing can be put beside a source.
    fn left(&mut self) -> Result<()> {
        let scope = self.scopes.pop().unwrap_or_default();
        if scope.sources.iter().any(|source| source.marked) {
            return refuse("a whole row that an outer join may have made up, in this statement");
        }
        Ok(())
    }

    fn insert(&mut self, insert: &mut Insert) -> Result<Vec<String>> {
        if let Some(source) = &mut insert.source {
            self.query(source)?;
        }
        let TableObject::TableName(name) = &insert.table else { return Ok(Vec::new()) };
        let key = table_parts(name)?;
        let alias = insert.table_alias.as_ref().map(|alias| ident_name(&alias.alias));
        let alias = alias.unwrap_or_else(|| key.1.clone());
        let none = Found { columns: Vec::new(), sure: None };
        let found = self.known.get(&key).unwrap_or(&none);
        let target = table(alias, None, found);
        let excluded = Source { alias: "excluded".to_owned(), ..target.clone() };
        if let Some(OnInsert::OnConflict(conflict)) = &mut insert.on
            && let OnConflictAction::DoUpdate(update) = &mut conflict.action
        {
            let sources = vec![target.clone(), excluded];
            self.scopes.push(Scope { sources, ..Scope::default() });
            for assignment in &mut update.assignments {
                self.expressions(&mut assignment.value)?;
            }
            self.expressions(&mut update.selection)?;
            self.left()?;
        }
        self.scopes.push(Scope { sources: vec![target], ..Scope::default() });
        let names = self.items(insert.returning.as_deref_mut().unwrap_or_default());
        self.left()?;
        names
    }

    /// Rewrites a query; its output columns' names.
    pub(super) fn query(&mut self, query: &mut Query) -> Result<Vec<String>> {
        self.depth += 1;
        let known = self.ctes.len();
        if let Some(with) = &mut query.with {
            for cte in &mut with.cte_tables {
                let name = ident_name(&cte.alias.name);
                if with.recursive {
                    let own = self.query(&mut first_branch(&cte.query))?;
                    self.ctes.push((name.clone(), names_of(Some(&cte.alias), own)));
                }
                let own = self.query(&mut cte.query)?;
                if with.recursive {
                    self.ctes.pop();
                }
                self.ctes.push((name, names_of(Some(&cte.alias), own)));
            }
        }
        let (names, scope) = self.body(&mut query.body)?;
        self.scopes.push(scope.unwrap_or_default());
        self.clauses(query, &names)?;
        let scope = self.scopes.pop().unwrap_or_default();
        if let SetExpr::Select(select) = &mut *query.body {
            self.mark(select, &scope)?;
        }
        self.ctes.truncate(known);
        self.depth -= 1;
        Ok(names)
    }

    /// ORDER BY and what follows it: there a name that stands alone means an output column.
    fn clauses(&mut self, query: &mut Query, names: &[String]) -> Result<()> {
        let given = self.given_beside_columns(query);
        if let Some(order_by) = &mut query.order_by
            && let OrderByKind::Expressions(all) = &mut order_by.kind
        {
            for one in all {
                if !is_output(&one.expr, names) {
                    self.settle_names(&mut one.expr, &given)?;
                    self.expressions(&mut one.expr)?;
                }
            }
        }
        self.expressions(&mut query.limit_clause)
    }

    fn body(&mut self, body: &mut SetExpr) -> Result<(Vec<String>, Option<Scope>)> {
        Ok(match body {
            SetExpr::Select(select) => {
                let (names, scope) = self.select(select)?;
                (names, Some(scope))
            }
            SetExpr::Query(query) => (self.query(query)?, None),
            SetExpr::SetOperation { left, right, .. } => {
                let names = self.branch(left)?;
                self.branch(right)?;
                (names, None)
            }
            SetExpr::Values(values) => {
                let width = values.rows.first().map_or(0, |row| row.content.len());
                for expr in values.rows.iter_mut().flat_map(|row| &mut row.content) {
                    self.expressions(expr)?;
                }
                ((1..=width).map(|n| format!("column{n}")).collect(), None)
            }
            SetExpr::Table(table) => {
                let schema = table.schema_name.as_ref().map(|name| name.to_lowercase());
                let name = table.table_name.clone().unwrap_or_default().to_lowercase();
                let found = self.known.get(&(schema, name));
                (found.map(|found| found.columns.clone()).unwrap_or_default(), None)
            }
            SetExpr::Insert(ast)
            | SetExpr::Update(ast)
            | SetExpr::Delete(ast)
            | SetExpr::Merge(ast) => (self.changed(ast)?, None),
        })
    }

    fn branch(&mut self, body: &mut SetExpr) -> Result<Vec<String>> {
        let (names, scope) = self.body(body)?;
        if let (SetExpr::Select(select), Some(scope)) = (body, scope) {
            self.mark(select, &scope)?;
        }
        Ok(names)
    }

    fn select(&mut self, select: &mut Select) -> Result<(Vec<String>, Scope)> {
        let mut from = std::mem::take(&mut select.from);
        let mut scope = Scope::default();
        let mut visible = Some(Vec::new());
        for one in &mut from {
            let own = self.sources(one, &mut scope)?;
            visible = visible.zip(own).map(|(all, own)| [all, own].concat());
        }
        scope.visible = visible;
        scope.expand(&mut select.projection);
        self.scopes.push(scope);
        for one in &mut from {
            self.conditions(one)?;
        }
        let given = super::aliases::given(select);
        if let Some(having) = &mut select.having {
            // Nothing that stands alone means an output column here.
            let mut nested = Expr::Nested(Box::new(having.clone()));
            self.settle_names(&mut nested, &given)?;
            *having = nested;
        }
        let each = self.each_item(&mut select.projection)?;
        super::repeated::mark(&mut select.projection, &each);
        let names: Vec<String> = each.into_iter().flatten().collect();
        let by_output = match &mut select.group_by {
            GroupByExpr::Expressions(all, _) => std::mem::take(all),
            GroupByExpr::All(_) => Vec::new(),
        };
        let (distinct, mut projection) =
            (select.distinct.take(), std::mem::take(&mut select.projection));
        self.expressions(select)?;
        std::mem::swap(&mut select.projection, &mut projection);
        select.distinct = distinct;
        select.from = from;
        let rewrite = |own: &mut Self, all: &mut Vec<Expr>| {
            for expr in all {
                if let Expr::GroupingSets(sets) | Expr::Cube(sets) | Expr::Rollup(sets) = expr {
                    sets.iter_mut().flatten().try_for_each(|one| own.in_set(one, &given))?;
                    continue;
                }
                // A column that a join shows once goes before an output column.
                if !is_output(expr, &names) || matches!(own.named(expr), Ok(Some(_))) {
                    own.settle_names(expr, &given)?;
                    own.expressions(expr)?;
                }
            }
            Ok::<(), PgError>(())
        };
        if let Some(Distinct::On(all)) = &mut select.distinct {
            rewrite(self, all)?;
        }
        if let GroupByExpr::Expressions(all, _) = &mut select.group_by {
            *all = by_output;
            rewrite(self, all)?;
        }
        Ok((names, self.scopes.pop().unwrap_or_default()))
    }

    /// Rewrites what a grouping set has: a name that stands alone there is a column's, or, if there
    /// is none, that of an output column.
    fn in_set(&mut self, expr: &mut Expr, given: &[String]) -> Result<()> {
        if matches!(expr, Expr::Identifier(_)) {
            let mut nested = Expr::Nested(Box::new(expr.clone()));
            if self.settle_names(&mut nested, given).is_err() {
                return Ok(());
            }
            if let Expr::Nested(column) = nested {
                *expr = *column;
            }
        } else {
            self.settle_names(expr, given)?;
        }
        self.expressions(expr)
    }

    /// Rewrites a select list; the output columns' names.
    fn items(&mut self, items: &mut [SelectItem]) -> Result<Vec<String>> {
        Ok(self.each_item(items)?.into_iter().flatten().collect())
    }

    /// Rewrites a select list; the names that each item gives.
    fn each_item(&mut self, items: &mut [SelectItem]) -> Result<Vec<Vec<String>>> {
        let mut names = Vec::with_capacity(items.len());
        for item in items {
            names.push(match item {
                SelectItem::Wildcard(_) => self.scopes.last().map(Scope::shown).unwrap_or_default(),
                SelectItem::QualifiedWildcard(kind, _) => {
                    let name = qualifier(kind);
                    let found = self.find(&name).map(|(_, source)| source.columns.clone());
                    found.unwrap_or_default()
                }
                _ => {
                    let name = output_name(item);
                    let before = item.clone();
                    self.expressions(item)?;
                    if let (SelectItem::UnnamedExpr(expr), Some(name)) = (&*item, &name)
                        && *item != before
                    {
                        let alias = quoted(name);
                        *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
                    }
                    vec![name.unwrap_or_else(|| "?column?".to_owned())]
                }
            });
        }
        Ok(names)
    }

    /// Rewrites the conditions of joins.
    fn conditions(&mut self, from: &mut TableWithJoins) -> Result<()> {
        if let TableFactor::NestedJoin { table_with_joins, .. } = &mut from.relation {
            self.conditions(table_with_joins)?;
        }
        for join in &mut from.joins {
            if let TableFactor::NestedJoin { table_with_joins, .. } = &mut join.relation {
                self.conditions(table_with_joins)?;
            }
            if let JoinOperator::Join(JoinConstraint::On(on))
            | JoinOperator::Inner(JoinConstraint::On(on))
            | JoinOperator::Left(JoinConstraint::On(on))
            | JoinOperator::LeftOuter(JoinConstraint::On(on))
            | JoinOperator::Right(JoinConstraint::On(on))
            | JoinOperator::RightOuter(JoinConstraint::On(on))
            | JoinOperator::FullOuter(JoinConstraint::On(on)) = &mut join.join_operator
            {
                self.expressions(on)?;
            }
        }
        Ok(())
    }

    /// Rewrites the expressions of `node`, and the queries in them.
    pub(super) fn expressions<T: VisitMut>(&mut self, node: &mut T) -> Result<()> {
        let mut walk = Walk { rewriter: self, aside: Vec::new() };
        match node.visit(&mut walk) {
            ControlFlow::Break(error) => Err(*error),
            ControlFlow::Continue(()) => Ok(()),
        }
    }

    /// What is called so, in the scope that is nearest.
    fn find(&self, name: &str) -> Option<(usize, &Source)> {
        self.scopes.iter().enumerate().rev().find_map(|(at, scope)| {
            scope.sources.iter().find(|source| source.alias == name).map(|source| (at, source))
        })
    }

    fn is_column(&self, name: &str) -> bool {
        let mut sources = self.scopes.iter().flat_map(|scope| &scope.sources);
        sources.any(|source| source.columns.iter().any(|column| column == name))
    }

    /// The relation's name and columns, if the name means no column.
    fn fields_of(&self, expr: &Expr) -> Option<(String, Vec<String>)> {
        let name = match expr {
            Expr::Identifier(ident) => ident_name(ident),
            Expr::Nested(inner) => return self.fields_of(inner),
            _ => return None,
        };
        let (_, source) = self.find(&name).filter(|_| !self.is_column(&name))?;
        (source.kind == Kind::Rows).then(|| (name, source.columns.clone()))
    }

    /// The row of what is called so.
    fn whole(&mut self, name: &str) -> Option<Expr> {
        let (at, source) = self.find(name)?;
        match source.kind {
            Kind::Unknown => return None,
            Kind::Values => return source.columns.first().map(|own| column(name, own)),
            Kind::Rows => {}
        }
        let source = source.clone();
        let there = match &source.sure {
            _ if !source.nullable => Expr::Value(Value::Boolean(true).into()),
            Some(sure) => column(name, sure),
            None => {
                let sources = &mut self.scopes[at].sources;
                let marked = sources.iter_mut().filter(|source| source.alias == name);
                marked.for_each(|source| source.marked = true);
                column(name, &mark_of(name))
            }
        };
        let mut args = vec![there];
        for own in &source.columns {
            args.extend([text(own), column(name, own)]);
        }
        Some(call(query::rows::ROW, args))
    }

    /// The fields of `row(...)`, with the columns of `t.*` in its place.
    fn fields(&self, function: &Function) -> Result<Vec<Expr>> {
        let FunctionArguments::List(list) = &function.args else { return Ok(Vec::new()) };
        let mut fields = Vec::new();
        for arg in &list.args {
            match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => fields.push(expr.clone()),
                FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(name)) => {
                    let name = object_parts(name)?.pop().unwrap_or_default();
                    let Some((_, source)) = self.find(&name) else {
                        let text = format!("missing FROM-clause entry for table \"{name}\"");
                        return Err(PgError::new("42P01", text));
                    };
                    fields.extend(source.columns.iter().map(|own| column(&name, own)));
                }
                _ => return refuse("this form of a row"),
            }
        }
        Ok(fields)
    }

    fn before(&mut self, expr: &mut Expr) -> Result<()> {
        if let Expr::IsNull(inner) | Expr::IsNotNull(inner) = &*expr {
            let fields = match &**inner {
                Expr::Tuple(fields) => Some(fields.clone()),
                Expr::Function(function) if is_row(function) => Some(self.fields(function)?),
                other => self
                    .fields_of(other)
                    .map(|(name, columns)| columns.iter().map(|own| column(&name, own)).collect()),
            };
            if let Some(fields) = fields {
                *expr = all_are(fields, matches!(expr, Expr::IsNull(_)));
            }
            return Ok(());
        }
        match expr {
            Expr::Function(function) if is_row(function) => {
                *expr = Expr::Tuple(self.fields(function)?);
            }
            Expr::Function(function) => {
                let FunctionArguments::List(list) = &mut function.args else { return Ok(()) };
                for arg in &mut list.args {
                    if let FunctionArg::Unnamed(arg) = arg
                        && let FunctionArgExpr::QualifiedWildcard(name) = arg
                    {
                        let name = object_parts(name)?.pop().unwrap_or_default();
                        if let Some(row) = self.whole(&name) {
                            *arg = FunctionArgExpr::Expr(row);
                        }
                    }
                }
            }
            Expr::CompoundFieldAccess { root, access_chain } => {
                let Some((name, columns)) = self.fields_of(root) else { return Ok(()) };
                let Some(AccessExpr::Dot(Expr::Identifier(field))) = access_chain.first() else {
                    return Ok(());
                };
                let field = ident_name(field);
                if !columns.contains(&field) {
                    let text = format!("column \"{field}\" not found in data type {name}");
                    return Err(PgError::new("42703", text));
                }
                access_chain.remove(0);
                **root = column(&name, &field);
                if access_chain.is_empty() {
                    *expr = (**root).clone();
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Whether an expression is the name of an output column.
fn is_output(expr: &Expr, names: &[String]) -> bool {
    matches!(expr, Expr::Identifier(ident) if names.contains(&ident_name(ident)))
}

/// Whether all fields are NULL, or none is.
fn all_are(fields: Vec<Expr>, null: bool) -> Expr {
    let one = |field: Expr| {
        let field = Box::new(Expr::Nested(Box::new(field)));
        if null { Expr::IsNull(field) } else { Expr::IsNotNull(field) }
    };
    let and = |left: Expr, right: Expr| Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::And,
        right: Box::new(right),
    };
    let all = fields.into_iter().map(one).reduce(and);
    Expr::Nested(Box::new(all.unwrap_or_else(|| Expr::Value(Value::Boolean(true).into()))))
}

/// Walks expressions; a query in them is put aside, rewritten as such, and put back.
struct Walk<'r, 'a> {
    rewriter: &'r mut Rewriter<'a>,
    aside: Vec<Query>,
}

impl VisitorMut for Walk<'_, '_> {
    type Break = Box<PgError>;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Box<PgError>> {
        let mut own = std::mem::replace(query, no_query());
        let done = self.rewriter.query(&mut own);
        self.aside.push(own);
        match done {
            Ok(_) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(Box::new(error)),
        }
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Box<PgError>> {
        if let Some(own) = self.aside.pop() {
            *query = own;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Box<PgError>> {
        if let Err(error) = self.rewriter.before(expr) {
            return ControlFlow::Break(Box::new(error));
        }
        // The name of a field is no name of a relation: not while the parts are visited.
        for field in fields_accessed(expr) {
            if let Expr::Identifier(name) = &*field {
                *field = Expr::CompoundIdentifier(vec![name.clone()]);
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Box<PgError>> {
        for field in fields_accessed(expr) {
            if let Expr::CompoundIdentifier(parts) = &*field
                && let [name] = &parts[..]
            {
                *field = Expr::Identifier(name.clone());
            }
        }
        match self.rewriter.named(expr) {
            Err(error) => return ControlFlow::Break(Box::new(error)),
            Ok(Some(column)) => {
                *expr = column;
                return ControlFlow::Continue(());
            }
            Ok(None) => {}
        }
        if let Expr::Identifier(ident) = &*expr {
            let name = ident_name(ident);
            if !self.rewriter.is_column(&name)
                && let Some(row) = self.rewriter.whole(&name)
            {
                *expr = row;
            }
        }
        ControlFlow::Continue(())
    }
}

/// The names behind points of `(a).b.c`.
fn fields_accessed(expr: &mut Expr) -> impl Iterator<Item = &mut Expr> {
    let chain = match expr {
        Expr::CompoundFieldAccess { access_chain, .. } => &mut access_chain[..],
        _ => &mut [],
    };
    chain.iter_mut().filter_map(|access| match access {
        AccessExpr::Dot(field) => Some(field),
        AccessExpr::Subscript(_) => None,
    })
}

/// A query with nothing in it, in the place of one that is put aside.
fn no_query() -> Query {
    let rows = Vec::new();
    let body = SetExpr::Values(Values { explicit_row: false, value_keyword: false, rows });
    Query {
        with: None,
        body: Box::new(body),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}
