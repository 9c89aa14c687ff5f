//! Names in the SQL of the field's language that are both a variable's and a column's: the column
//! is meant wherever a table of the statement has it in scope.
//!
//! What it promises: a name is a column's in SELECT, WHERE, SET and their like of the query whose
//! tables have it, and of queries inside that one; in VALUES, LIMIT and where no table has it, it
//! is the variable's. What it must never do: cost anything once a statement is planned, or where
//! no name is the same.

use super::lex::{Tok, tokens};
use super::run::Machine;
use super::tree::{Named, Sql};
use crate::bind::{ident_name, object_parts, output_name, table_alias, table_parts};
use crate::parse::{Parsed, Statement, parse_single};
use crate::{PgError, Result};
use datafusion::catalog::TableProvider;
use datafusion::sql::sqlparser::ast::{
    Expr, FromTable, MergeAction, MergeInsertKind, ObjectName, OrderByKind, Query, Select,
    SelectItem, SetExpr, Statement as Ast, TableAlias, TableFactor, TableObject, TableWithJoins,
    UpdateTableFromKind, Value, Visit, Visitor,
};
use query::Relation;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A relation as a statement names it.
type RelationName = (Option<String>, String);

/// Columns of relations.
pub(super) type Columns = BTreeMap<RelationName, Arc<[String]>>;

/// Number of the parameter that stands for the first name that is looked at.
const FIRST: usize = 40_000;
/// More of them than numbers are left for, and nobody writes that many: all are variables then.
const NAMES_MAX: usize = 20_000;

/// A statement as it is planned: some names of variables are columns in it.
pub(super) struct Written {
    pub(super) text: String,
    /// Which of the values it takes.
    pub(super) given: Vec<usize>,
}

impl Sql {
    /// The name of a variable that may be a column's.
    fn named(&self, used: usize) -> Option<&Arc<Named>> {
        self.names.get(used).and_then(Option::as_ref)
    }

    /// Whether there is any.
    pub(super) fn has_names(&self) -> bool {
        self.names.iter().any(Option::is_some)
    }
}

/// The parameters of a text: their places, and of which use each is.
fn parameters(text: &str, sql: &Sql) -> Result<Vec<(usize, usize, usize)>> {
    let number = |tok: &Tok| match tok {
        Tok::Word(word) => word.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1),
        _ => None,
    };
    let all = tokens(text)?;
    let found = all.iter().filter_map(|token| Some((token.at, token.end, number(&token.tok)?)));
    Ok(found.filter(|(_, _, used)| *used < sql.uses.len()).collect())
}

/// The text with another one in the place of each parameter.
fn replaced(
    text: &str,
    parameters: &[(usize, usize, usize)],
    mut with: impl FnMut(usize) -> String,
) -> String {
    let (mut out, mut copied) = (String::with_capacity(text.len()), 0);
    for (i, (at, end, _)) in parameters.iter().enumerate() {
        out.push_str(&text[copied..*at]);
        out.push_str(&with(i));
        copied = *end;
    }
    out.push_str(&text[copied..]);
    out
}

/// The text in which the parameters of these places are the names that they were written as, and
/// each other use is of as many parameters as it has values.
pub(super) fn written(
    text: &str,
    sql: &Sql,
    columns: &BTreeSet<usize>,
    counts: &[usize],
) -> Result<Written> {
    let parameters = parameters(text, sql)?;
    let used: BTreeSet<usize> = parameters
        .iter()
        .enumerate()
        .filter(|(place, _)| !columns.contains(place))
        .map(|(_, (_, _, used))| *used)
        .collect();
    let (mut given, mut first, mut shown) = (Vec::new(), 0, Vec::with_capacity(counts.len()));
    for (at, count) in counts.iter().enumerate() {
        let mut all = Vec::new();
        if used.contains(&at) {
            for value in first..first + count {
                given.push(value);
                all.push(format!("${}", given.len()));
            }
        }
        shown.push(all.join(", "));
        first += count;
    }
    let text = replaced(text, &parameters, |place| {
        let used = parameters[place].2;
        match sql.named(used).filter(|_| columns.contains(&place)) {
            Some(named) => named.text.clone(),
            None => shown.get(used).cloned().unwrap_or_default(),
        }
    });
    Ok(Written { text, given })
}

/// The places that are left as columns after an error says that there is no such column; `None`: it
/// is about something else.
pub(super) fn without_failed(
    error: &PgError,
    text: &str,
    sql: &Sql,
    columns: &BTreeSet<usize>,
) -> Option<BTreeSet<usize>> {
    if !matches!(error.code, "42703" | "42P01") || columns.is_empty() {
        return None;
    }
    let parameters = parameters(text, sql).ok()?;
    let parts = |place: &usize| Some(&sql.named(parameters.get(*place)?.2)?.parts);
    let said: Vec<&str> = error.message.split([' ', '"']).collect();
    let fails = |place: &usize| {
        parts(place).is_none_or(|parts| {
            said.contains(&parts.join(".").as_str())
                || parts.iter().any(|part| said.contains(&part.as_str()))
        })
    };
    let rest: BTreeSet<usize> = columns.iter().copied().filter(|place| !fails(place)).collect();
    (rest.len() < columns.len()).then_some(rest)
}

/// Whatever may be a name in a statement: of relations with what they are called in it, and of what
/// it calls its columns.
#[derive(Default)]
struct Mentioned {
    relations: Vec<RelationName>,
    qualifiers: BTreeSet<String>,
    columns: BTreeSet<String>,
}

impl Mentioned {
    fn alias(&mut self, alias: Option<&TableAlias>) {
        let Some(alias) = alias else { return };
        // A function's only column is called as the function is.
        let name = ident_name(&alias.name);
        self.columns.insert(name.clone());
        self.qualifiers.insert(name);
        self.columns.extend(alias.columns.iter().map(|column| ident_name(&column.name)));
    }

    fn relation(&mut self, name: &ObjectName) {
        let Ok((schema, name)) = table_parts(name) else { return };
        self.qualifiers.insert(name.clone());
        self.relations.push((schema, name));
    }

    /// Whether a name may be one of a column here.
    fn may_be(&self, named: &Named, known: &Columns) -> bool {
        let is_column = |name: &String| {
            let of_relations = self.relations.iter().filter_map(|relation| known.get(relation));
            self.columns.contains(name) || of_relations.into_iter().any(|all| all.contains(name))
        };
        match &named.parts[..] {
            [name] => is_column(name),
            [qualifier, name] => {
                self.qualifiers.contains(qualifier) && (name == "*" || is_column(name))
            }
            _ => false,
        }
    }
}

impl Visitor for Mentioned {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        self.relation(relation);
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        for table in query.with.iter().flat_map(|with| &with.cte_tables) {
            self.alias(Some(&table.alias));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        self.columns.extend(select.projection.iter().filter_map(|item| match item {
            SelectItem::ExprWithAlias { alias, .. } => Some(ident_name(alias)),
            _ => None,
        }));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        self.alias(table_alias(factor));
        ControlFlow::Continue(())
    }

    fn pre_visit_statement(&mut self, statement: &Ast) -> ControlFlow<()> {
        if let Ast::Insert(insert) = statement {
            if let TableObject::TableName(name) = &insert.table {
                self.relation(name);
            }
            let alias = insert.table_alias.as_ref().map(|alias| ident_name(&alias.alias));
            self.qualifiers.extend(alias);
            self.qualifiers.insert("excluded".to_owned());
        }
        ControlFlow::Continue(())
    }
}

/// What stands in FROM, with the name that it has there.
struct Source {
    name: Option<String>,
    columns: Arc<[String]>,
}

/// Walks through a statement whose names in question are parameters with numbers from [`FIRST`] on.
struct Walker<'a> {
    known: &'a Columns,
    named: &'a [Arc<Named>],
    /// WITH queries around, the innermost last, and how many there were before each query.
    tables: Vec<(String, Arc<[String]>)>,
    before: Vec<usize>,
    /// What is in scope, the innermost last.
    frames: Vec<Vec<Source>>,
    /// Frames that a subquery in FROM does not see.
    hidden: Vec<usize>,
    /// Whether a column is in the scope of each name; what is found first holds.
    found: BTreeMap<usize, bool>,
}

impl Walker<'_> {
    /// The name that an expression stands for.
    fn place(&self, expr: &Expr) -> Option<usize> {
        let Expr::Value(value) = expr else { return None };
        let Value::Placeholder(text) = &value.value else { return None };
        let number = text.strip_prefix('$')?.parse::<usize>().ok()?;
        number.checked_sub(FIRST).filter(|place| *place < self.named.len())
    }

    fn is_column(&self, named: &Named) -> bool {
        let visible = self.frames.iter().enumerate().filter(|(at, _)| !self.hidden.contains(at));
        let mut sources = visible.flat_map(|(_, sources)| sources);
        match &named.parts[..] {
            [name] => sources.any(|source| source.columns.contains(name)),
            [qualifier, name] => sources.any(|source| {
                source.name.as_ref() == Some(qualifier)
                    && (name == "*" || source.columns.contains(name))
            }),
            _ => false,
        }
    }

    fn source(&mut self, factor: &TableFactor, out: &mut Vec<Source>) {
        let alias = table_alias(factor);
        let columns: Arc<[String]> = match factor {
            TableFactor::Table { name, args: None, .. } => self.columns_of(name),
            TableFactor::Derived { subquery, .. } => self.outputs(subquery),
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                return self.sources(std::slice::from_ref(table_with_joins), out);
            }
            TableFactor::Table { name, .. } | TableFactor::Function { name, .. } => {
                object_parts(name).ok().and_then(|mut parts| parts.pop()).into_iter().collect()
            }
            _ => Arc::from([]),
        };
        let of_table = match factor {
            TableFactor::Table { name, .. } => object_parts(name).ok().and_then(|mut p| p.pop()),
            _ => None,
        };
        let is_table =
            matches!(factor, TableFactor::Table { args: None, .. } | TableFactor::Derived { .. });
        let name = alias.map(|alias| ident_name(&alias.name)).or(of_table);
        let own = alias.into_iter().flat_map(|alias| &alias.columns);
        let mut all: Vec<String> = own.map(|column| ident_name(&column.name)).collect();
        all.extend(columns.iter().skip(all.len()).cloned());
        if !is_table {
            all.extend(name.clone());
        }
        out.push(Source { name, columns: all.into() });
    }

    fn sources(&mut self, tables: &[TableWithJoins], out: &mut Vec<Source>) {
        for table in tables {
            self.source(&table.relation, out);
            for join in &table.joins {
                self.source(&join.relation, out);
            }
        }
    }

    fn frame(&mut self, tables: &[TableWithJoins]) -> Vec<Source> {
        let mut out = Vec::new();
        self.sources(tables, &mut out);
        out
    }

    fn columns_of(&self, name: &ObjectName) -> Arc<[String]> {
        let Ok((schema, name)) = table_parts(name) else { return Arc::from([]) };
        let common = self.tables.iter().rev().find(|(table, _)| *table == name);
        match common.filter(|_| schema.is_none()) {
            Some((_, columns)) => columns.clone(),
            None => self.known.get(&(schema, name)).cloned().unwrap_or_else(|| Arc::from([])),
        }
    }

    fn push_tables(&mut self, query: &Query) {
        for table in query.with.iter().flat_map(|with| &with.cte_tables) {
            let own = table.alias.columns.iter().map(|column| ident_name(&column.name));
            let mut all: Vec<String> = own.collect();
            let columns = self.outputs(&table.query);
            all.extend(columns.iter().skip(all.len()).cloned());
            self.tables.push((ident_name(&table.alias.name), all.into()));
        }
    }

    /// The names of a query's columns.
    fn outputs(&mut self, query: &Query) -> Arc<[String]> {
        let before = self.tables.len();
        self.push_tables(query);
        let out = self.outputs_of(&query.body);
        self.tables.truncate(before);
        out.into()
    }

    fn outputs_of(&mut self, body: &SetExpr) -> Vec<String> {
        match body {
            SetExpr::Select(select) => self.items(&select.projection, &select.from),
            SetExpr::Query(query) => self.outputs(query).to_vec(),
            SetExpr::SetOperation { left, .. } => self.outputs_of(left),
            SetExpr::Values(values) => {
                let count = values.rows.first().map_or(0, |row| row.len());
                (1..=count).map(|n| format!("column{n}")).collect()
            }
            SetExpr::Insert(Ast::Insert(insert)) => {
                self.items(insert.returning.as_deref().unwrap_or_default(), &[])
            }
            SetExpr::Update(Ast::Update(update)) => {
                let items = update.returning.as_deref().unwrap_or_default();
                self.items(items, std::slice::from_ref(&update.table))
            }
            SetExpr::Delete(Ast::Delete(delete)) => {
                let items = delete.returning.as_deref().unwrap_or_default();
                self.items(items, tables_of(&delete.from))
            }
            _ => Vec::new(),
        }
    }

    fn items(&mut self, items: &[SelectItem], from: &[TableWithJoins]) -> Vec<String> {
        let mut out = Vec::new();
        for item in items {
            match item {
                SelectItem::UnnamedExpr(expr) if let Some(place) = self.place(expr) => {
                    out.extend(self.named[place].parts.last().cloned());
                }
                SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => {
                    let sources = self.frame(from);
                    out.extend(sources.iter().flat_map(|source| source.columns.iter().cloned()));
                }
                item => out.extend(output_name(item)),
            }
        }
        out
    }

    /// Looks at a part of a statement in whose scope these are.
    fn within(&mut self, frame: Vec<Source>, look: impl FnOnce(&mut Self)) {
        self.frames.push(frame);
        look(self);
        self.frames.pop();
    }

    /// An order may be by what the query calls its columns, if it is that alone.
    fn order(&mut self, query: &Query) {
        let Some(order) = &query.order_by else { return };
        let OrderByKind::Expressions(all) = &order.kind else { return };
        let columns = self.outputs_of(&query.body).into();
        let frame = match &*query.body {
            SetExpr::Select(select) => self.frame(&select.from),
            _ => Vec::new(),
        };
        self.within(frame, |own| {
            own.frames.push(vec![Source { name: None, columns }]);
            for one in all {
                if own.place(&one.expr).is_some() {
                    let _ = one.expr.visit(own);
                }
            }
            own.frames.pop();
            let _ = order.visit(own);
        });
    }

    fn statement_frame(&mut self, statement: &Ast) -> Vec<Source> {
        let mut out = Vec::new();
        match statement {
            Ast::Update(update) => {
                self.sources(std::slice::from_ref(&update.table), &mut out);
                if let Some(
                    UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from),
                ) = &update.from
                {
                    self.sources(from, &mut out);
                }
            }
            Ast::Delete(delete) => {
                self.sources(tables_of(&delete.from), &mut out);
                self.sources(delete.using.as_deref().unwrap_or_default(), &mut out);
            }
            Ast::Merge(merge) => {
                // Columns of the target mean nothing in a row that it does not have yet.
                let mut source = Vec::new();
                self.source(&merge.source, &mut source);
                self.within(source, |own| {
                    for clause in &merge.clauses {
                        if let MergeAction::Insert(insert) = &clause.action
                            && let MergeInsertKind::Values(values) = &insert.kind
                        {
                            let _ = values.visit(own);
                        }
                    }
                });
                self.source(&merge.table, &mut out);
                self.source(&merge.source, &mut out);
            }
            Ast::Insert(insert) => {
                // RETURNING and ON CONFLICT see the row; what it is made of does not.
                let TableObject::TableName(name) = &insert.table else { return out };
                let columns = self.columns_of(name);
                let alias = insert.table_alias.as_ref().map(|alias| ident_name(&alias.alias));
                let own = object_parts(name).ok().and_then(|mut parts| parts.pop());
                let excluded =
                    Source { name: Some("excluded".to_owned()), columns: columns.clone() };
                let frame = vec![Source { name: alias.or(own), columns }, excluded];
                self.within(frame, |own| {
                    let _ = insert.returning.visit(own);
                    let _ = insert.on.visit(own);
                });
            }
            _ => {}
        }
        out
    }
}

impl Visitor for Walker<'_> {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &Ast) -> ControlFlow<()> {
        let frame = self.statement_frame(statement);
        self.frames.push(frame);
        ControlFlow::Continue(())
    }

    fn post_visit_statement(&mut self, _: &Ast) -> ControlFlow<()> {
        self.frames.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.before.push(self.tables.len());
        self.push_tables(query);
        self.order(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        let before = self.before.pop().unwrap_or(0);
        self.tables.truncate(before);
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        let frame = self.frame(&select.from);
        self.frames.push(frame);
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &Select) -> ControlFlow<()> {
        self.frames.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if matches!(factor, TableFactor::Derived { lateral: false, .. }) {
            self.hidden.push(self.frames.len().saturating_sub(1));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if matches!(factor, TableFactor::Derived { lateral: false, .. }) {
            self.hidden.pop();
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Some(place) = self.place(expr)
            && let named = self.named[place].clone()
            && let is_column = self.is_column(&named)
        {
            self.found.entry(place).or_insert(is_column);
        }
        ControlFlow::Continue(())
    }
}

fn tables_of(from: &FromTable) -> &[TableWithJoins] {
    match from {
        FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables) => tables,
    }
}

impl Machine<'_> {
    /// Which parameters of a statement's text are columns, by their places in it; and the statement
    /// as it was read, if none is.
    pub(super) async fn columns_named(
        &mut self,
        text: &str,
        sql: &Sql,
    ) -> Result<(BTreeSet<usize>, Option<Statement>)> {
        let statement = parse_single(text)?;
        let Parsed::Sql(ast) = &statement.parsed else {
            return Ok((BTreeSet::new(), Some(statement)));
        };
        let mut mentioned = Mentioned::default();
        let _ = ast.visit(&mut mentioned);
        let mut known = Columns::new();
        for relation in &mentioned.relations {
            if let Some(columns) = self.columns_of(relation).await {
                known.insert(relation.clone(), columns);
            }
        }
        let may_be = |named: &Arc<Named>| mentioned.may_be(named, &known);
        if !sql.names.iter().flatten().any(may_be) {
            return Ok((BTreeSet::new(), Some(statement)));
        }
        let parameters = parameters(text, sql)?;
        let (mut named, mut places) = (Vec::new(), Vec::new());
        for (place, (_, _, used)) in parameters.iter().enumerate() {
            if let Some(one) = sql.named(*used) {
                named.push(one.clone());
                places.push(place);
            }
        }
        if named.len() > NAMES_MAX {
            return Ok((BTreeSet::new(), Some(statement)));
        }
        let numbered = replaced(text, &parameters, |place| match places.binary_search(&place) {
            Ok(at) => format!("${}", FIRST + at),
            Err(_) => format!("${}", parameters[place].2 + 1),
        });
        let Parsed::Sql(ast) = parse_single(&numbered)?.parsed else {
            return Err(PgError::internal("a statement that is another one"));
        };
        let mut walker = Walker {
            known: &known,
            named: &named,
            tables: Vec::new(),
            before: Vec::new(),
            frames: Vec::new(),
            hidden: Vec::new(),
            found: BTreeMap::new(),
        };
        let _ = ast.visit(&mut walker);
        let columns: BTreeSet<usize> = walker
            .found
            .iter()
            .filter(|(_, is_column)| **is_column)
            .map(|(at, _)| places[*at])
            .collect();
        let unchanged = columns.is_empty().then_some(statement);
        Ok((columns, unchanged))
    }

    /// The names of a relation's columns; `None`: there is no such relation.
    async fn columns_of(&mut self, relation: &RelationName) -> Option<Arc<[String]>> {
        if let Some(known) = self.view_columns.get(relation) {
            return Some(known.clone());
        }
        let (schema, name) = relation;
        // What all instances have is asked of this one: the columns are the same.
        let local = name.strip_prefix('g').filter(|local| local.starts_with("v$"));
        let found = self.session.find_relation(schema.as_deref(), local.unwrap_or(name));
        match env::boxed!(found).await.ok()? {
            Relation::Table(def) | Relation::View(def) => {
                Some(def.columns.iter().map(|column| column.name.clone()).collect())
            }
            Relation::Rows(rows) => {
                let schema = TableProvider::schema(&*rows);
                let own = schema.fields().iter().map(|field| field.name().clone());
                let columns: Arc<[String]> =
                    own.chain(local.map(|_| "inst_id".to_owned())).collect();
                // These rows are costly, and their columns always the same.
                self.view_columns.insert(relation.clone(), columns.clone());
                Some(columns)
            }
        }
    }
}
