//! A view's text: the query with every name fixed as it was understood when the view was made.
//!
//! What it promises: a table stands with its schema and under a name of its own, a column of a
//! table with the table's, and no wildcard is left; so the text means the same whatever the search
//! path is and whatever is added later. It also says what the text reads. What it must never do:
//! guess; a form that it cannot take apart is refused.

use crate::bind::{ident_name, object_parts, output_name, table_parts};
use crate::{PgError, Result};
use block::ObjId;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, JoinConstraint,
    JoinOperator, ObjectName, OrderByKind, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableAlias, TableFactor, TableWithJoins, Values,
    VisitMut, VisitorMut, visit_relations,
};
use kernel::dict::Use;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// What a name in FROM stands for.
#[derive(Clone)]
pub(crate) struct Found {
    pub(crate) schema: String,
    pub(crate) name: String,
    /// Of what the dictionary keeps; rows of the catalog depend on nothing.
    pub(crate) obj: Option<ObjId>,
    pub(crate) columns: Vec<String>,
}

/// Relations by schema, if it was given, and name.
pub(crate) type Known = BTreeMap<(Option<String>, String), Found>;

/// What has happened to something that a text reads.
#[derive(Clone)]
pub(crate) enum Change {
    /// The object has another schema or name.
    Object { obj: ObjId, schema: String, name: String },
    /// One of its columns has another name.
    Column { obj: ObjId, old: String, new: String },
}

/// The names in a query that may be relations of the dictionary.
pub(crate) fn relation_names(query: &Query) -> Vec<(Option<String>, String)> {
    let mut found = Vec::new();
    let _: ControlFlow<()> = visit_relations(query, |name| {
        found.extend(table_parts(name).ok());
        ControlFlow::Continue(())
    });
    found.sort_unstable();
    found.dedup();
    found
}

/// Fixes the names in `query` and says what it reads.
pub(crate) fn fix(query: &mut Query, known: &Known, change: Option<Change>) -> Result<Vec<Use>> {
    let mut fixer =
        Fixer { known, change, ctes: Vec::new(), scopes: Vec::new(), uses: BTreeSet::new() };
    fixer.query(query)?;
    Ok(fixer.uses.into_iter().collect())
}

/// One relation in FROM.
#[derive(Clone)]
struct Item {
    alias: String,
    obj: Option<ObjId>,
    columns: Vec<String>,
    /// Columns that a join with USING shows once, and not as this relation's.
    merged: Vec<String>,
}

struct Fixer<'a> {
    known: &'a Known,
    change: Option<Change>,
    /// Common table expressions in scope with their columns, innermost last.
    ctes: Vec<(String, Vec<String>)>,
    /// Relations in scope, innermost last.
    scopes: Vec<Vec<Item>>,
    uses: BTreeSet<Use>,
}

fn refuse<T>(what: impl std::fmt::Display) -> Result<T> {
    Err(PgError::unsupported(format!("{what} in a view")))
}

pub(crate) fn quoted(name: &str) -> Ident {
    if query::functions::quote_ident(name) == name {
        Ident::new(name)
    } else {
        Ident::with_quote('"', name)
    }
}

fn names_of(alias: Option<&TableAlias>, own: Vec<String>) -> Vec<String> {
    let given = alias.map(|alias| &alias.columns[..]).unwrap_or_default();
    let mut names: Vec<String> = given.iter().map(|column| ident_name(&column.name)).collect();
    let from = names.len().min(own.len());
    names.extend(own.into_iter().skip(from));
    names
}

impl Fixer<'_> {
    /// Fixes a query; its output columns' names.
    fn query(&mut self, query: &mut Query) -> Result<Vec<String>> {
        let known = self.ctes.len();
        if let Some(with) = &mut query.with {
            for cte in &mut with.cte_tables {
                let name = ident_name(&cte.alias.name);
                if with.recursive {
                    let first = leftmost(&cte.query.body).clone();
                    let mut first = Query { body: Box::new(first), ..(*cte.query).clone() };
                    first.with = None;
                    let own = self.query(&mut first)?;
                    self.ctes.push((name.clone(), names_of(Some(&cte.alias), own)));
                }
                let own = self.query(&mut cte.query)?;
                if with.recursive {
                    self.ctes.pop();
                }
                self.ctes.push((name, names_of(Some(&cte.alias), own)));
            }
        }
        let (names, items) = self.set_expr(&mut query.body)?;
        self.scopes.push(items);
        let done = self.clauses(query, &names);
        self.scopes.pop();
        self.ctes.truncate(known);
        done.map(|()| names)
    }

    /// ORDER BY and what follows it: there a name that stands alone means an output column.
    fn clauses(&mut self, query: &mut Query, names: &[String]) -> Result<()> {
        if let Some(order_by) = &mut query.order_by
            && let OrderByKind::Expressions(all) = &mut order_by.kind
        {
            for one in all {
                let output = matches!(&one.expr, Expr::Identifier(ident)
                    if names.contains(&ident_name(ident)));
                if !output {
                    self.expressions(one)?;
                }
            }
        }
        if let Some(limit) = &mut query.limit_clause {
            self.expressions(limit)?;
        }
        Ok(())
    }

    fn set_expr(&mut self, body: &mut SetExpr) -> Result<(Vec<String>, Vec<Item>)> {
        match body {
            SetExpr::Select(select) => self.select(select),
            SetExpr::Query(query) => Ok((self.query(query)?, Vec::new())),
            SetExpr::SetOperation { left, right, .. } => {
                let (names, _) = self.set_expr(left)?;
                self.set_expr(right)?;
                Ok((names, Vec::new()))
            }
            SetExpr::Values(values) => {
                let width = values.rows.first().map_or(0, |row| row.content.len());
                for expr in values.rows.iter_mut().flat_map(|row| &mut row.content) {
                    self.expressions(expr)?;
                }
                Ok(((1..=width).map(|n| format!("column{n}")).collect(), Vec::new()))
            }
            _ => refuse("this form of a query"),
        }
    }

    fn select(&mut self, select: &mut Select) -> Result<(Vec<String>, Vec<Item>)> {
        let mut from = std::mem::take(&mut select.from);
        let mut items = Vec::new();
        for one in &mut from {
            self.joins(one, &mut items)?;
        }
        let mut projection = Vec::with_capacity(select.projection.len());
        for item in select.projection.drain(..) {
            match item {
                SelectItem::Wildcard(_) => all_columns(&items, &mut projection),
                SelectItem::QualifiedWildcard(
                    SelectItemQualifiedWildcardKind::ObjectName(name),
                    _,
                ) => {
                    let wanted = object_parts(&name)?.pop().unwrap_or_default();
                    let item = items.iter().find(|item| item.alias == wanted);
                    let item = item.ok_or_else(|| missing_from(&wanted))?;
                    projection.extend(item.columns.iter().map(|column| of(&item.alias, column)));
                }
                other => projection.push(other),
            }
        }
        // Names that come from the form of an expression stay, whatever becomes of it.
        let names: Vec<Option<String>> = projection.iter().map(output_name).collect();
        select.projection = projection;
        self.scopes.push(items);
        let done = self.expressions(select);
        let items = self.scopes.pop().unwrap_or_default();
        done?;
        select.from = from;
        for (item, name) in select.projection.iter_mut().zip(&names) {
            if output_name(item) != *name
                && let (SelectItem::UnnamedExpr(expr), Some(name)) = (&*item, name)
            {
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: quoted(name) };
            }
        }
        let names = names.into_iter().map(|name| name.unwrap_or_else(|| "?column?".to_owned()));
        Ok((names.collect(), items))
    }

    fn joins(&mut self, from: &mut TableWithJoins, items: &mut Vec<Item>) -> Result<()> {
        let first = items.len();
        self.factor(&mut from.relation, items)?;
        for join in &mut from.joins {
            let before = items.len();
            self.factor(&mut join.relation, items)?;
            let on = match &mut join.join_operator {
                JoinOperator::Join(on)
                | JoinOperator::Inner(on)
                | JoinOperator::Left(on)
                | JoinOperator::LeftOuter(on)
                | JoinOperator::Right(on)
                | JoinOperator::RightOuter(on)
                | JoinOperator::FullOuter(on)
                | JoinOperator::CrossJoin(on) => on,
                _ => return refuse("this kind of join"),
            };
            let merged: Vec<String> = match on {
                JoinConstraint::On(expr) => {
                    self.scopes.push(items.clone());
                    let done = self.expressions(expr);
                    self.scopes.pop();
                    done?;
                    continue;
                }
                JoinConstraint::None => continue,
                JoinConstraint::Using(names) => {
                    let names = names.iter().map(|name| Ok(object_parts(name)?.pop()));
                    names.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect()
                }
                JoinConstraint::Natural => {
                    let shown = |item: &Item| item.columns.clone();
                    let left: Vec<String> = items[first..before].iter().flat_map(shown).collect();
                    let right = items[before..].iter().flat_map(shown);
                    let both: Vec<String> = right.filter(|name| left.contains(name)).collect();
                    // Columns that are added later must not join.
                    let names = both.iter().map(|name| ObjectName::from(vec![quoted(name)]));
                    *on = JoinConstraint::Using(names.collect());
                    both
                }
            };
            for (i, item) in items.iter_mut().enumerate().skip(first) {
                for name in merged.iter().filter(|name| item.columns.contains(name)) {
                    if let Some(obj) = item.obj {
                        self.uses.insert(Use { obj, column: name.clone() });
                        if self.renamed(obj, name).is_some() {
                            return refuse("another name for a column that is joined by USING");
                        }
                    }
                    // The first relation that has it shows it.
                    if i >= before && !item.merged.contains(name) {
                        item.merged.push(name.clone());
                    }
                }
            }
        }
        Ok(())
    }

    fn factor(&mut self, factor: &mut TableFactor, items: &mut Vec<Item>) -> Result<()> {
        match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                let (schema, table) = table_parts(name)?;
                let cte = self.ctes.iter().rev().find(|(cte, _)| *cte == table);
                if let Some((_, columns)) = cte.filter(|_| schema.is_none()) {
                    let columns = names_of(alias.as_ref(), columns.clone());
                    let alias = alias.as_ref().map_or(table, |alias| ident_name(&alias.name));
                    items.push(Item { alias, obj: None, columns, merged: Vec::new() });
                    return Ok(());
                }
                let found = self.known.get(&(schema, table.clone()));
                let found = found.ok_or_else(|| PgError::undefined_table(&table))?;
                let (mut in_schema, mut called) = (&found.schema, &found.name);
                if let Some(Change::Object { obj, schema, name }) = &self.change
                    && found.obj == Some(*obj)
                {
                    (in_schema, called) = (schema, name);
                }
                *name = ObjectName::from(vec![quoted(in_schema), quoted(called)]);
                let alias = alias.get_or_insert_with(|| TableAlias {
                    explicit: true,
                    name: quoted(&table),
                    columns: Vec::new(),
                    at: None,
                });
                if let Some(obj) = found.obj {
                    self.uses.insert(Use { obj, column: String::new() });
                    for (column, _) in found.columns.iter().zip(&alias.columns) {
                        self.uses.insert(Use { obj, column: column.clone() });
                    }
                }
                let renames = !alias.columns.is_empty();
                let columns = names_of(Some(alias), found.columns.clone());
                let obj = found.obj.filter(|_| !renames);
                let alias = ident_name(&alias.name);
                items.push(Item { alias, obj, columns, merged: Vec::new() });
            }
            TableFactor::Table { args: Some(args), alias, name, .. } => {
                for arg in &mut args.args {
                    self.scopes.push(items.clone());
                    let done = self.expressions(arg);
                    self.scopes.pop();
                    done?;
                }
                let own = object_parts(name)?.pop().unwrap_or_default();
                let called = alias.as_ref().map_or(own, |alias| ident_name(&alias.name));
                let columns = names_of(alias.as_ref(), vec![called.clone()]);
                items.push(Item { alias: called, obj: None, columns, merged: Vec::new() });
            }
            TableFactor::Derived { lateral, subquery, alias, .. } => {
                let lateral = *lateral;
                if lateral {
                    self.scopes.push(items.clone());
                }
                let own = self.query(subquery);
                if lateral {
                    self.scopes.pop();
                }
                let columns = names_of(alias.as_ref(), own?);
                let alias = alias.as_ref().map_or_else(String::new, |a| ident_name(&a.name));
                items.push(Item { alias, obj: None, columns, merged: Vec::new() });
            }
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                self.joins(table_with_joins, items)?;
            }
            _ => return refuse("this form of a table in FROM"),
        }
        Ok(())
    }

    /// Fixes columns in the expressions of `node`, and the queries in them.
    fn expressions<T: VisitMut>(&mut self, node: &mut T) -> Result<()> {
        let mut walk = Walk { fixer: self, aside: Vec::new() };
        match node.visit(&mut walk) {
            ControlFlow::Break(error) => Err(error),
            ControlFlow::Continue(()) => Ok(()),
        }
    }

    fn renamed(&self, object: ObjId, column: &str) -> Option<&str> {
        match &self.change {
            Some(Change::Column { obj, old, new }) if *obj == object && old == column => Some(new),
            _ => None,
        }
    }

    /// The column that one name stands for, if it is a table's.
    fn column(&mut self, name: &Ident) -> Option<Expr> {
        let column = ident_name(name);
        let scope = self.scopes.iter().rev().find_map(|items| {
            let with: Vec<&Item> = items.iter().filter(|i| i.columns.contains(&column)).collect();
            (!with.is_empty()).then_some(with)
        })?;
        let [one] = &scope[..] else { return None };
        let (alias, obj) = (one.alias.clone(), one.obj);
        Some(self.used(&alias, obj, &column))
    }

    /// All columns are read by a name that stands for a whole row. The name stays: the row has what
    /// columns there are then.
    fn whole_row(&mut self, name: &str) {
        let named = |items: &Vec<Item>| items.iter().find(|item| item.alias == name).cloned();
        let Some(item) = self.scopes.iter().rev().find_map(named) else { return };
        if let Some(obj) = item.obj {
            self.uses.extend(item.columns.into_iter().map(|column| Use { obj, column }));
        }
    }

    /// [`Fixer::whole_row`] for the arguments that are written `name.*`.
    fn whole_rows_in(&mut self, function: &Function) {
        let FunctionArguments::List(list) = &function.args else { return };
        for arg in &list.args {
            if let FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(name)) = arg
                && let Some(name) = object_parts(name).ok().and_then(|mut parts| parts.pop())
            {
                self.whole_row(&name);
            }
        }
    }

    fn used(&mut self, alias: &str, obj: Option<ObjId>, column: &str) -> Expr {
        let mut shown = column.to_owned();
        if let Some(obj) = obj {
            if let Some(new) = self.renamed(obj, column) {
                new.clone_into(&mut shown);
            }
            self.uses.insert(Use { obj, column: shown.clone() });
        }
        if alias.is_empty() {
            return Expr::Identifier(quoted(&shown));
        }
        Expr::CompoundIdentifier(vec![quoted(alias), quoted(&shown)])
    }

    fn qualified(&mut self, parts: &[Ident]) -> Option<Expr> {
        let names: Vec<String> = parts.iter().map(ident_name).collect();
        let (column, rest) = names.split_last()?;
        let alias = rest.last()?;
        let named = |item: &&Item| item.alias == *alias;
        let scope = self.scopes.iter().rev().find(|scope| scope.iter().any(|i| named(&i)))?;
        // Tables of one name in two schemas: either may be meant, so both are read.
        let all: Vec<_> = scope.iter().filter(named).map(|i| (i.alias.clone(), i.obj)).collect();
        let mut shown = None;
        for (alias, obj) in all {
            let used = self.used(&alias, obj, column);
            shown.get_or_insert(used);
        }
        shown
    }
}

/// Walks expressions; a query in them is put aside, fixed as such, and put back.
struct Walk<'f, 'a> {
    fixer: &'f mut Fixer<'a>,
    aside: Vec<Query>,
}

impl VisitorMut for Walk<'_, '_> {
    type Break = PgError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<PgError> {
        let mut own = std::mem::replace(query, no_query());
        let fixed = self.fixer.query(&mut own);
        self.aside.push(own);
        match fixed {
            Ok(_) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<PgError> {
        if let Some(own) = self.aside.pop() {
            *query = own;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<PgError> {
        let fixed = match &*expr {
            Expr::Identifier(ident) => {
                let column = self.fixer.column(ident);
                if column.is_none() {
                    self.fixer.whole_row(&ident_name(ident));
                }
                column
            }
            Expr::Function(function) => {
                self.fixer.whole_rows_in(function);
                None
            }
            Expr::CompoundIdentifier(parts) => self.fixer.qualified(parts),
            _ => None,
        };
        if let Some(fixed) = fixed {
            *expr = fixed;
        }
        ControlFlow::Continue(())
    }
}

/// A query with nothing in it, in the place of one that is put aside.
pub(crate) fn no_query() -> Query {
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

fn leftmost(body: &SetExpr) -> &SetExpr {
    match body {
        SetExpr::SetOperation { left, .. } => leftmost(left),
        other => other,
    }
}

fn of(alias: &str, column: &str) -> SelectItem {
    let name = vec![quoted(alias), quoted(column)];
    SelectItem::UnnamedExpr(Expr::CompoundIdentifier(name))
}

/// What `*` stands for: columns that are joined by USING come first and once.
fn all_columns(items: &[Item], out: &mut Vec<SelectItem>) {
    let mut merged: Vec<&String> = Vec::new();
    for name in items.iter().flat_map(|item| &item.merged) {
        if !merged.contains(&name) {
            merged.push(name);
        }
    }
    let once = |name: &&String| SelectItem::UnnamedExpr(Expr::Identifier(quoted(name)));
    out.extend(merged.iter().map(once));
    for item in items {
        let own = item.columns.iter().filter(|name| !merged.contains(name));
        out.extend(own.map(|column| match item.alias.as_str() {
            "" => SelectItem::UnnamedExpr(Expr::Identifier(quoted(column))),
            alias => of(alias, column),
        }));
    }
}

fn missing_from(alias: &str) -> PgError {
    PgError::new("42P01", format!("missing FROM-clause entry for table \"{alias}\""))
}

/// Gives the output columns of a query their names. What cannot be named in its place is wrapped.
pub(crate) fn name_output(query: &mut Query, names: &[String], own: &[String]) -> Result<()> {
    if names == own {
        return Ok(());
    }
    fn first_select(body: &mut SetExpr) -> Option<&mut Select> {
        match body {
            SetExpr::Select(select) => Some(select),
            SetExpr::SetOperation { left, .. } => first_select(left),
            _ => None,
        }
    }
    let Some(select) = first_select(&mut query.body) else {
        return refuse("names for the columns of VALUES");
    };
    for (i, name) in names.iter().enumerate() {
        let Some(item) = select.projection.get_mut(i) else { break };
        match item {
            SelectItem::UnnamedExpr(expr) if own.get(i) != Some(name) => {
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: quoted(name) };
            }
            SelectItem::ExprWithAlias { alias, .. } => *alias = quoted(name),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{Parsed, parse_single};
    use datafusion::sql::sqlparser::ast::Statement;

    fn query_of(text: &str) -> Query {
        match parse_single(text).unwrap().parsed {
            Parsed::Sql(ast) => match *ast {
                Statement::Query(query) => *query,
                other => panic!("{other}"),
            },
            other => panic!("{other:?}"),
        }
    }

    fn known() -> Known {
        let table = |name: &str, number: u32, columns: &[&str]| {
            let columns = columns.iter().map(|c| (*c).to_owned()).collect();
            let (schema, obj) = ("public".to_owned(), Some(ObjId(number)));
            let found = Found { schema, name: name.to_owned(), obj, columns };
            [
                ((None, name.to_owned()), found.clone()),
                ((Some("public".into()), name.into()), found),
            ]
        };
        let all = [table("t", 1, &["id", "a"]), table("u", 2, &["id", "b", "T c"])];
        all.into_iter().flatten().collect()
    }

    fn fixed(text: &str, change: Option<Change>) -> (String, String) {
        let mut query = query_of(text);
        let uses = fix(&mut query, &known(), change).unwrap();
        let shown: Vec<String> =
            uses.iter().map(|one| format!("{}.{}", one.obj.0, one.column)).collect();
        (query.to_string(), shown.join(" "))
    }

    fn text_of(text: &str) -> String {
        fixed(text, None).0
    }

    #[test]
    fn names_are_fixed_and_wildcards_expanded() {
        let (text, uses) = fixed("select * from t where a > 1 order by a", None);
        assert_eq!(text, "SELECT t.id, t.a FROM public.t AS t WHERE t.a > 1 ORDER BY a");
        assert_eq!(uses, "1. 1.a 1.id");
        assert_eq!(
            text_of("select u.*, x.a n from u join t x using (id)"),
            "SELECT u.id, u.b, u.\"T c\", x.a AS n FROM public.u AS u JOIN public.t x USING(id)"
        );
        assert_eq!(
            text_of("select * from t natural join u"),
            "SELECT id, t.a, u.b, u.\"T c\" FROM public.t AS t JOIN public.u AS u USING(id)"
        );
        assert_eq!(
            text_of("with t as (select * from t) select * from t"),
            "WITH t AS (SELECT t.id, t.a FROM public.t AS t) SELECT t.id, t.a FROM t"
        );
        assert_eq!(
            text_of("select 1 from t where exists (select * from u where u.id = a)"),
            "SELECT 1 FROM public.t AS t WHERE EXISTS (SELECT u.id, u.b, u.\"T c\" \
             FROM public.u AS u WHERE u.id = t.a)"
        );
        assert_eq!(
            text_of("select * from (select id as n from public.t) s union values (1)"),
            "SELECT s.n FROM (SELECT t.id AS n FROM public.t AS t) s UNION VALUES (1)"
        );
    }

    #[test]
    fn what_is_renamed_is_renamed_in_the_text() {
        let column = Change::Column { obj: ObjId(1), old: "a".into(), new: "Z".into() };
        let (text, uses) = fixed("select id, a, a + 1 as a from t group by a", Some(column));
        assert_eq!(
            text,
            "SELECT t.id, t.\"Z\" AS a, t.\"Z\" + 1 AS a FROM public.t AS t GROUP BY t.\"Z\""
        );
        assert_eq!(uses, "1. 1.Z 1.id");
        let (schema, name) = ("s".into(), "v".into());
        let object = Change::Object { obj: ObjId(2), schema, name };
        let (text, _) = fixed("select b from u", Some(object));
        assert_eq!(text, "SELECT u.b FROM s.v AS u");
    }
}
