//! The field's idioms that have another form here: `rownum`, `connect by`, outer joins by `(+)`,
//! aggregates with names of their own, the functions of `dbms_random`.
//!
//! What it promises: a statement means what it means in the field, or is refused by name. What it
//! must never do: touch a statement that has none of these words.

mod aggregates;
pub(crate) mod context;
pub(crate) mod dates;
pub(crate) mod exact;
mod hierarchy;
mod outer;
mod packages;
pub(crate) mod past;
mod recursion;
mod rows;
pub(crate) mod sequences;
pub(crate) mod short;

pub(crate) use hierarchy::{LEVEL_FUNCTION, OWN, with_marked_words};
pub(crate) use packages::of_lob;

use crate::bind::ident_name;
use crate::dialect::OwnDialect;
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, Ident, ObjectName, Query, Select, SelectItem, SetExpr,
    Statement as Ast, TableFactor, TableWithJoins, Visit, VisitMut, Visitor, VisitorMut,
};
use datafusion::sql::sqlparser::parser::Parser;
use std::ops::ControlFlow;

/// The statement in a form that the rest knows; `None`: it has none of these words. `is_routine`
/// says of a name, which may have its schema, whether somebody has made a function of it, which
/// then is meant.
pub(crate) fn rewritten(ast: &Ast, is_routine: &dyn Fn(&str) -> bool) -> Result<Option<Ast>> {
    let limited = match ast {
        Ast::Update(update) => update.limit.is_some().then_some("UPDATE"),
        Ast::Delete(delete) => delete.limit.is_some().then_some("DELETE"),
        _ => None,
    };
    // Here it is where the bound of `rownum` is kept.
    if let Some(verb) = limited {
        return Err(PgError::unsupported(format!("LIMIT of {verb}")));
    }
    if ast.visit(&mut Finder { is_routine }).is_continue() {
        return Ok(None);
    }
    let mut own = ast.clone();
    // Who gives something that name means it; in the field nobody can.
    let numbers_rows = ast.visit(&mut NamedRownum).is_continue();
    if numbers_rows {
        rows::changed(&mut own)?;
    }
    let sequences = sequences::Rows::default();
    match VisitMut::visit(&mut own, &mut Rewriter { is_routine, numbers_rows, sequences }) {
        ControlFlow::Break(error) => Err(*error),
        ControlFlow::Continue(()) => Ok(Some(own)),
    }
}

/// Looks for something that the statement itself calls `rownum`.
struct NamedRownum;

impl NamedRownum {
    fn told(named: bool) -> ControlFlow<()> {
        if named { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl Visitor for NamedRownum {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        let mut columns = tables.flat_map(|table| &table.alias.columns);
        NamedRownum::told(columns.any(|column| ident_name(&column.name) == "rownum"))
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        NamedRownum::told(select.projection.iter().any(|item| {
            matches!(item, SelectItem::ExprWithAlias { alias, .. } if ident_name(alias) == "rownum")
        }))
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        let alias = match factor {
            TableFactor::Table { alias, .. } | TableFactor::Derived { alias, .. } => alias.as_ref(),
            _ => None,
        };
        let mut columns = alias.into_iter().flat_map(|alias| &alias.columns);
        NamedRownum::told(columns.any(|column| ident_name(&column.name) == "rownum"))
    }
}

/// Looks for a word of the field's.
struct Finder<'a> {
    is_routine: &'a dyn Fn(&str) -> bool,
}

impl Visitor for Finder<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        match select.connect_by.is_empty() {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let found = match expr {
            Expr::Identifier(ident) => {
                is(ident, "level")
                    || is(ident, "rownum")
                    || (ident.value == hierarchy::SIBLINGS && ident.quote_style.is_some())
            }
            Expr::CompoundIdentifier(_) => {
                packages::shown_name(expr, self.is_routine).is_some() || sequences::is_value(expr)
            }
            Expr::OuterJoin(_) => true,
            Expr::BinaryOp { .. } => context::is_compared(expr, self.is_routine),
            Expr::Function(function) => {
                packages::is_called(function, self.is_routine)
                    || aggregates::named(function, self.is_routine).is_some()
            }
            _ => false,
        };
        if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

struct Rewriter<'a> {
    is_routine: &'a dyn Fn(&str) -> bool,
    /// Whether `rownum` is the number of a row.
    numbers_rows: bool,
    sequences: sequences::Rows,
}

fn broken(done: Result<()>) -> ControlFlow<Box<PgError>> {
    match done {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(Box::new(error)),
    }
}

impl VisitorMut for Rewriter<'_> {
    type Break = Box<PgError>;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Box<PgError>> {
        self.sequences.query(query);
        let done = outer::joins_in(&mut query.body)
            .and_then(|()| rows::series_in(&mut query.body))
            .and_then(|()| hierarchy::walked(query))
            .and_then(|()| match self.numbers_rows {
                true => rows::first_rows(query),
                false => Ok(()),
            });
        broken(done)
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Box<PgError>> {
        self.sequences.select(select);
        // What stands for a call shows its name all the same.
        for item in &mut select.projection {
            let SelectItem::UnnamedExpr(expr) = item else { continue };
            let name = packages::shown_name(expr, self.is_routine).or_else(|| match expr {
                Expr::Function(function) => aggregates::named(function, self.is_routine),
                _ => None,
            });
            if let Some(name) = name {
                let alias = Ident::with_quote('"', name);
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Box<PgError>> {
        context::compare(expr, self.is_routine);
        let made = packages::standing_for(expr, self.is_routine);
        let made = made.and_then(|made| match (made, &*expr) {
            (None, Expr::Function(function)) => aggregates::standing_for(function, self.is_routine),
            (made, _) => Ok(made),
        });
        match made {
            Ok(Some(new)) => *expr = new,
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(Box::new(error)),
        }
        ControlFlow::Continue(())
    }
}

fn is(ident: &Ident, name: &str) -> bool {
    ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case(name)
}

fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

fn parsed(text: &str) -> Result<Query> {
    let parsed =
        Parser::new(&OwnDialect::default()).try_with_sql(text).and_then(|mut p| p.parse_query());
    let query = parsed.map_err(|error| PgError::internal(format!("{text}: {error}")))?;
    Ok(*query)
}

fn select_of(query: Query) -> Result<Select> {
    match *query.body {
        SetExpr::Select(select) => Ok(*select),
        _ => Err(PgError::internal("a query that is no SELECT")),
    }
}

/// Conditions that AND joins.
fn conjuncts(expr: Expr, out: &mut Vec<Expr>) {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            conjuncts(*left, out);
            conjuncts(*right, out);
        }
        Expr::Nested(inner) if matches!(*inner, Expr::BinaryOp { op: BinaryOperator::And, .. }) => {
            conjuncts(*inner, out);
        }
        other => out.push(other),
    }
}

/// The conditions joined again; `None`: there are none.
fn all_of(conditions: Vec<Expr>) -> Option<Expr> {
    conditions.into_iter().reduce(|left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::And,
        right: Box::new(right),
    })
}

/// The name that what stands in FROM has in the query.
fn alias_of(relation: &TableFactor) -> Option<Ident> {
    match relation {
        TableFactor::Table { alias: Some(alias), args: None, .. }
        | TableFactor::Derived { alias: Some(alias), lateral: false, .. }
            if alias.columns.is_empty() =>
        {
            Some(alias.name.clone())
        }
        TableFactor::Table { name, alias: None, args: None, .. } => {
            name.0.last().and_then(|part| part.as_ident()).cloned()
        }
        _ => None,
    }
}

/// The name of a call without a schema.
fn plain_name(name: &ObjectName) -> Option<String> {
    match &name.0[..] {
        [only] => only.as_ident().map(ident_name),
        _ => None,
    }
}

/// Whether an expression is of an aggregate or of a window, outside subqueries.
fn aggregates(expr: &Expr) -> bool {
    crate::outside::any(expr, |part| match part {
        Expr::Function(function) => function.over.is_some() || is_aggregate(function),
        _ => false,
    })
}

fn is_aggregate(function: &Function) -> bool {
    plain_name(&function.name).is_some_and(|name| crate::check::is_aggregate(&name))
        || !function.within_group.is_empty()
}

/// `(query) AS alias` in FROM.
fn derived(query: Query, alias: Ident) -> Result<TableWithJoins> {
    let mut outer = select_of(parsed("select * from (select 1) as x")?)?;
    let mut from = outer.from.remove(0);
    if let TableFactor::Derived { subquery, alias: Some(name), .. } = &mut from.relation {
        **subquery = query;
        name.name = alias;
    }
    Ok(from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{Parsed, parse_single};

    pub(super) fn shown(text: &str) -> String {
        let statement = match parse_single(text) {
            Ok(statement) => statement,
            Err(error) => return error.code.to_owned(),
        };
        let Parsed::Sql(ast) = statement.parsed else { panic!("{text}") };
        match rewritten(&ast, &|_| false) {
            Ok(Some(new)) => new.to_string(),
            Ok(None) => "as it is".to_owned(),
            Err(error) => error.code.to_owned(),
        }
    }

    #[test]
    fn rows_are_counted_off() {
        assert_eq!(
            shown("select level, 'x' || level from dual connect by level <= 3"),
            "SELECT \"level\", 'x' || \"level\" FROM generate_series(1, 3) AS \"level\" (\"level\")"
        );
        assert_eq!(
            shown("insert into t select rownum from dual connect by rownum < $1"),
            "INSERT INTO t SELECT \"level\" AS \"rownum\" FROM generate_series(1, ($1) - 1) AS \
             \"level\" (\"level\")"
        );
    }

    #[test]
    fn the_first_rows_are_taken_before_anything_is_done_with_them() {
        let inner = "(SELECT * FROM t WHERE a > 1 LIMIT 10) AS t";
        assert_eq!(
            shown("select count(*) from t where a > 1 and rownum <= 10"),
            format!("SELECT count(*) FROM {inner}")
        );
        assert_eq!(
            shown("select rownum, t.a from t where rownum < 11 and a > 1 order by a"),
            format!("SELECT row_number() OVER () AS rownum, t.a FROM {inner} ORDER BY a")
        );
        assert_eq!(
            shown("select a from (select a from t order by a) where rownum = 1"),
            "SELECT a FROM (SELECT a FROM t ORDER BY a LIMIT 1)"
        );
        assert_eq!(
            shown("select a from (select a from t order by a) where rownum = 1 and a > 1"),
            "SELECT a FROM (SELECT a FROM t ORDER BY a) WHERE a > 1 LIMIT 1"
        );
        assert_eq!(
            shown("select a from t where rownum <= 1 for update"),
            "SELECT a FROM t LIMIT 1 FOR UPDATE"
        );
        assert_eq!(
            shown("select 1 from a, b where a.x = b.x and rownum <= 1"),
            "SELECT 1 FROM a, b WHERE a.x = b.x LIMIT 1"
        );
        assert_eq!(
            shown("select a.x, count(*) from a, b where rownum <= 9 group by a.x order by a.x"),
            "SELECT \"$lifted0\" AS \"x\", count(*) AS \"count\" FROM (SELECT 1 AS \"$lifted\", a.x \
             AS \"$lifted0\" FROM a, b LIMIT 9) AS rownum_rows GROUP BY \"$lifted0\" ORDER BY \
             \"$lifted0\""
        );
        assert_eq!(shown("select a from t"), "as it is");
    }

    #[test]
    fn rows_that_the_first_one_keeps_out() {
        for (condition, limit) in [
            ("rownum > 1", " LIMIT 0"),
            ("rownum >= 1", ""),
            ("rownum > 0", ""),
            ("rownum = 2", " LIMIT 0"),
            ("2 > rownum", " LIMIT 1"),
            ("rownum <> 4", " LIMIT 3"),
            ("rownum <= 2.5", " LIMIT 2"),
            ("rownum < 2.5", " LIMIT 2"),
            ("rownum between 1 and 5 and rownum < 4", " LIMIT 3"),
            ("rownum between 2 and 5", " LIMIT 0"),
            (
                "rownum <= $1",
                " LIMIT greatest(coalesce($1::BIGINT - 0::BIGINT, 0::BIGINT), 0::BIGINT)",
            ),
        ] {
            let text = shown(&format!("select a from t where {condition}"));
            assert_eq!(text, format!("SELECT a FROM t{limit}"), "{condition}");
        }
        assert_eq!(shown("select a from t where a = rownum"), "0A000");
        assert_eq!(shown("delete from t where rownum <= 3"), "DELETE FROM t LIMIT 3");
        assert_eq!(shown("delete from t limit 3"), "0A000");
    }
}
