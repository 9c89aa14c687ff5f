//! SQL inside procedural code: planned once, run with the values of variables.

use super::names::ALL_FIELDS;
use super::run::{Machine, field_at, not_assigned, type_of};
use super::tree::{Dialect, Into, ROW_COUNT, SQL_FOUND, SQL_NOT_FOUND, Slot, Sql, Use};
use crate::encode::{Nowhere, TakenRows};
use crate::parse::{Parsed, parse_single};
use crate::plan::{Direct, Kind as PlanKind, Prepared};
use crate::session::{Fetched, Portal, PortalState};
use crate::{PgError, Result, Severity};
use datafusion::sql::sqlparser::ast::Statement as Ast;
use kernel::row::{ColType, TypeKind, Value};
use query::scalar::EvalContext;
use query::types::{PgType, col_type_of_oid};
use std::sync::Arc;

/// Rows of a loop that are fetched at a time.
const ROWS_AT_A_TIME: usize = 100;

/// A statement with its plan for parameters of these types.
pub(crate) struct Ready {
    types: Vec<u32>,
    planned: Planned,
}

/// A plan, with the shape of its rows.
#[derive(Clone)]
pub(super) struct Planned {
    pub(super) prepared: Arc<Prepared>,
    names: Arc<[String]>,
    pub(super) columns: Arc<[ColType]>,
}

impl Planned {
    fn new(prepared: Arc<Prepared>) -> Planned {
        Planned {
            names: prepared.columns.iter().map(|c| c.name.clone()).collect(),
            columns: prepared.columns.iter().map(type_of).collect(),
            prepared,
        }
    }
}

/// Where a statement comes from.
pub(super) enum Source<'a> {
    Static(&'a Sql),
    Dynamic { text: &'a str, types: &'a [u32], values: Vec<Value> },
}

/// Rows that are fetched one by one.
pub(super) struct Cursor {
    pub(super) names: Arc<[String]>,
    pub(super) types: Arc<[ColType]>,
    portal: Portal,
    taken: TakenRows,
    params: Option<Vec<Value>>,
    rows: std::vec::IntoIter<Vec<Value>>,
    done: bool,
}

impl Machine<'_> {
    // ---- statements -------------------------------------------------------------------------

    pub(super) async fn prepare(&mut self, text: &str, types: &[u32]) -> Result<Arc<Prepared>> {
        let statement = parse_single(text)?;
        let ends = matches!(&statement.parsed, Parsed::Sql(ast) if matches!(**ast,
            Ast::Commit { .. } | Ast::Rollback { .. } | Ast::StartTransaction { .. }
            | Ast::Savepoint { .. } | Ast::ReleaseSavepoint { .. }));
        if ends {
            return Err(PgError::unsupported("a transaction command as a text in a block"));
        }
        if matches!(&statement.parsed, Parsed::Sql(ast) if matches!(**ast, Ast::Copy { .. })) {
            return Err(PgError::unsupported("COPY in a block"));
        }
        self.session.prepare_within(statement, types).await
    }

    /// A statement of the block, its plan made anew only if types or definitions have changed.
    async fn ready(&mut self, sql: &Sql, is_expression: bool) -> Result<(Planned, Vec<Value>)> {
        let expanded;
        let sql = match sql.uses.iter().any(|used| used.field.as_deref() == Some(ALL_FIELDS)) {
            true => {
                expanded = self.expanded(sql)?;
                &expanded
            }
            false => sql,
        };
        let mut values = Vec::with_capacity(sql.uses.len());
        let mut known = self.ready.get(sql.id).and_then(Option::as_ref);
        for (at, used) in sql.uses.iter().enumerate() {
            let (value, ty) = self.value_of(used)?;
            known = known.filter(|ready| ready.types.get(at) == Some(&ty));
            values.push(value);
        }
        if let Some(ready) = known
            && self.session.serves(&ready.planned.prepared)
        {
            return Ok((ready.planned.clone(), values));
        }
        let types = sql.uses.iter().map(|used| Ok(self.value_of(used)?.1));
        let types = types.collect::<Result<Vec<u32>>>()?;
        let prepared = match is_expression {
            true => self.prepare(&format!("select {}", sql.text), &types).await?,
            false => self.prepare(&sql.text, &types).await?,
        };
        let planned = Planned::new(prepared);
        self.ready[sql.id] = Some(Ready { types, planned: planned.clone() });
        Ok((planned, values))
    }

    /// A statement with each field of a record in the place of all of them.
    fn expanded(&self, sql: &Sql) -> Result<Sql> {
        let mut uses: Vec<Use> = Vec::new();
        let mut places: Vec<String> = Vec::new();
        for used in &sql.uses {
            let from = uses.len();
            match used.field.as_deref() {
                Some(ALL_FIELDS) => {
                    let place = &self.places[used.slot];
                    let record = place.record.as_ref().filter(|record| !record.names.is_empty());
                    let record = record.ok_or_else(|| not_assigned(place))?;
                    let field = |name: &String| Use { slot: used.slot, field: Some(name.clone()) };
                    uses.extend(record.names.iter().map(field));
                }
                _ => uses.push(used.clone()),
            }
            let all: Vec<String> = (from + 1..=uses.len()).map(|n| format!("${n}")).collect();
            places.push(all.join(", "));
        }
        let (mut text, mut copied) = (String::new(), 0);
        for token in super::lex::tokens(&sql.text)? {
            let super::lex::Tok::Word(word) = &token.tok else { continue };
            let number = word.strip_prefix('$').and_then(|n| n.parse::<usize>().ok());
            let Some(place) = number.and_then(|n| places.get(n.checked_sub(1)?)) else { continue };
            text.push_str(&sql.text[copied..token.at]);
            text.push_str(place);
            copied = token.end;
        }
        text.push_str(&sql.text[copied..]);
        Ok(Sql { id: sql.id, text, uses })
    }

    /// A record as PostgreSQL writes a row.
    fn row_text(&self, slot: Slot) -> Result<Value> {
        // One that nothing was assigned to is NULL.
        let record = self.places[slot].record.as_ref().filter(|record| !record.names.is_empty());
        let Some(record) = record else { return Ok(Value::Null) };
        let env = self.session.format_env();
        let mut cells = Vec::with_capacity(record.values.len());
        for value in &record.values {
            if value.is_null() {
                cells.push(String::new());
                continue;
            }
            let text = query::wire::to_text(&value.as_datum(), &env);
            let quoted = text.is_empty()
                || text.contains(|c: char| {
                    c.is_whitespace() || matches!(c, '"' | '\\' | '(' | ')' | ',')
                });
            cells.push(match quoted {
                true => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\"\"")),
                false => text,
            });
        }
        Ok(Value::Text(format!("({})", cells.join(",")).into()))
    }

    /// The value of a variable, and the type it is declared with as a parameter; 0: the one that is
    /// wanted.
    fn value_of(&self, used: &Use) -> Result<(Value, u32)> {
        let place = &self.places[used.slot];
        let (value, ty) = match &used.field {
            Some(field) => {
                let at = field_at(place, field)?;
                let record = place.record.as_ref().expect("it has a field");
                (record.values[at].clone(), Some(record.types[at]))
            }
            None => match &place.record {
                Some(_) => (self.row_text(used.slot)?, Some(ColType::new(TypeKind::Text))),
                None => (place.value.clone(), place.ty),
            },
        };
        let oid = ty.map_or(0, |ty| PgType::of(ty).oid);
        Ok((value, if col_type_of_oid(oid).is_some() { oid } else { 0 }))
    }

    /// The values as the plan wants them.
    fn given(&self, prepared: &Prepared, values: Vec<Value>) -> Result<Vec<Value>> {
        let wanted = &prepared.plan.params;
        let same = |value: &Value, ty: &ColType| value.is_null() || kind_of(value) == ty.kind;
        if values.iter().zip(wanted).all(|(value, ty)| same(value, ty)) {
            return Ok(values);
        }
        let each = values.iter().zip(wanted).map(|(value, ty)| self.converted(value, *ty));
        each.collect()
    }

    /// A statement with its values.
    pub(super) async fn bound(&mut self, source: Source<'_>) -> Result<(Planned, Vec<Value>)> {
        let (planned, values) = match source {
            Source::Static(sql) => self.ready(sql, false).await?,
            Source::Dynamic { text, types, values } => {
                (Planned::new(self.prepare(text, types).await?), values)
            }
        };
        let values = self.given(&planned.prepared, values)?;
        Ok((planned, values))
    }

    /// The value of an expression, and its type.
    pub(super) async fn eval(&mut self, sql: &Sql) -> Result<(Value, ColType)> {
        // A variable by itself, or a constant.
        if let [used] = &sql.uses[..]
            && sql.text == "$1"
            && let Some(ty) = self.places[used.slot].ty
            && used.field.is_none()
        {
            return Ok((self.places[used.slot].value.clone(), ty));
        }
        let (planned, values) = self.ready(sql, true).await?;
        let Planned { prepared, columns, .. } = planned;
        let [ty] = columns[..] else {
            let count = columns.len();
            return Err(PgError::syntax(format!("query returned {count} columns")));
        };
        let values = self.given(&prepared, values)?;
        if let PlanKind::Direct(direct) = &prepared.plan.kind
            && let Direct::Values(output) = &**direct
            && prepared.plan.hidden.is_empty()
            && let [one] = &output[..]
        {
            let env = self.session.format_env();
            let cx = EvalContext { row: None, params: &values, env: &env };
            return Ok((one.eval(&cx)?.into_value(), ty));
        }
        let mark = self.mark_of_statement();
        let done = self.run_whole(&prepared, values).await;
        let (rows, _) = self.settle_statement(mark, done).await?;
        if rows.len() > 1 {
            return Err(PgError::new("21000", "query returned more than one row"));
        }
        let value = rows.into_iter().next().and_then(|row| row.into_iter().next());
        Ok((value.unwrap_or(Value::Null), ty))
    }

    /// Runs a statement to its end. Its rows, and its tag.
    pub(super) async fn run_whole(
        &mut self,
        prepared: &Arc<Prepared>,
        values: Vec<Value>,
    ) -> Result<(Vec<Vec<Value>>, String)> {
        let taken = TakenRows::default();
        let mut portal = portal_of(prepared.clone(), &taken);
        let fetched =
            self.session.run_within(&mut portal, values, 0, &mut Nowhere::default()).await?;
        let rows = std::mem::take(&mut *taken.lock());
        match fetched {
            Fetched::Complete(tag) => Ok((rows, tag)),
            Fetched::Empty => Ok((rows, String::new())),
            Fetched::Suspended | Fetched::CopyIn { .. } => {
                Err(PgError::unsupported("this statement in a block"))
            }
        }
    }

    pub(super) async fn run_sql(
        &mut self,
        source: Source<'_>,
        into: Option<&Into>,
        is_query: bool,
    ) -> Result<()> {
        let mark = self.mark_of_statement();
        let done = self.run_sql_unguarded(source, into, is_query).await;
        self.settle_statement(mark, done).await
    }

    async fn run_sql_unguarded(
        &mut self,
        source: Source<'_>,
        into: Option<&Into>,
        is_query: bool,
    ) -> Result<()> {
        // EXECUTE leaves `found` as it is, but not the field's `sql%found`.
        let tells = matches!(source, Source::Static(_));
        let (planned, values) = self.bound(source).await?;
        let Planned { prepared, names, columns } = planned;
        let (mut rows, count) = match prepared.plan.returns_rows && is_query {
            true => self.run_some(&prepared, values, into.is_some()).await?,
            false => {
                let (rows, tag) = self.run_whole(&prepared, values).await?;
                (rows, tag.rsplit(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0))
            }
        };
        if !matches!(prepared.plan.kind, PlanKind::Utility(_) | PlanKind::Own(_)) {
            self.places[ROW_COUNT].value = Value::Int8(i64::try_from(count).unwrap_or(i64::MAX));
            self.places[SQL_FOUND].value = Value::Bool(count > 0);
            self.places[SQL_NOT_FOUND].value = Value::Bool(count == 0);
            if tells {
                self.set_found(count > 0);
            }
        }
        let Some(into) = into else { return Ok(()) };
        if !prepared.plan.returns_rows {
            return Err(PgError::syntax("INTO used with a command that cannot return data"));
        }
        let strict = into.strict || self.dialect == Dialect::Field || !is_query;
        if rows.len() > 1 && strict {
            return Err(PgError::new("P0003", "query returned more than one row")
                .with_hint("Make sure the query returns a single row, or use LIMIT 1."));
        }
        match rows.is_empty() {
            false => {
                let row = rows.swap_remove(0);
                self.take_row(&into.targets, row, &names, &columns)?;
                self.places[ROW_COUNT].value = Value::Int8(1);
                Ok(())
            }
            true if into.strict || (is_query && self.dialect == Dialect::Field) => {
                Err(PgError::new("P0002", "query returned no rows"))
            }
            true => self.take_nothing(into, &names, &columns),
        }
    }

    /// Runs a query for its effect, or for two rows at most: the rest is not kept. Its rows, and
    /// how many there were.
    async fn run_some(
        &mut self,
        prepared: &Arc<Prepared>,
        values: Vec<Value>,
        wants_rows: bool,
    ) -> Result<(Vec<Vec<Value>>, u64)> {
        let plan = &prepared.plan;
        if let PlanKind::Direct(direct) = &plan.kind
            && matches!(**direct, Direct::Select(_))
            && plan.hidden.is_empty()
            && self.session.serves(prepared)
        {
            let row = self.session.row_within(prepared, direct, &values).await?;
            let count = u64::from(row.is_some());
            return Ok((row.into_iter().collect(), count));
        }
        if plan.runs_whole() || matches!(plan.kind, PlanKind::Direct(_)) {
            let (rows, _) = self.run_whole(prepared, values).await?;
            let count = rows.len() as u64;
            return Ok((rows, count));
        }
        let taken = TakenRows::default();
        let mut portal = portal_of(prepared.clone(), &taken);
        let mut nowhere = Nowhere::default();
        let limit = if wants_rows { 2 } else { ROWS_AT_A_TIME };
        let mut fetched = self.session.run_within(&mut portal, values, limit, &mut nowhere).await?;
        let mut count = 0;
        loop {
            let rows = std::mem::take(&mut *taken.lock());
            count += rows.len() as u64;
            if wants_rows || !matches!(fetched, Fetched::Suspended) {
                return Ok((rows, count));
            }
            fetched = self.session.run_on(&mut portal, limit, &mut nowhere).await?;
        }
    }

    /// The first row of a statement, which is run to its end if it changes something.
    pub(super) async fn first_row(&mut self, sql: &Sql) -> Result<Option<Vec<Value>>> {
        let (planned, values) = self.bound(Source::Static(sql)).await?;
        let prepared = planned.prepared;
        let mark = self.mark_of_statement();
        let done = match prepared.plan.returns_rows {
            true => self.run_some(&prepared, values, true).await.map(|(rows, _)| rows),
            false => self.run_whole(&prepared, values).await.map(|_| Vec::new()),
        };
        let rows = self.settle_statement(mark, done).await?;
        Ok(rows.into_iter().next())
    }

    /// A statement that is put together while the block runs: its text, and the values of USING.
    pub(super) async fn dynamic(
        &mut self,
        text: &Sql,
        using: &[Sql],
    ) -> Result<(String, Vec<u32>, Vec<Value>)> {
        let (value, _) = self.eval(text).await?;
        let Value::Text(text) = self.converted(&value, ColType::new(TypeKind::Text))? else {
            let text = "query string argument of EXECUTE is null";
            return Err(PgError::new("22004", text));
        };
        let (mut types, mut values) = (Vec::new(), Vec::new());
        for sql in using {
            let (value, ty) = self.eval(sql).await?;
            let oid = PgType::of(ty).oid;
            types.push(if col_type_of_oid(oid).is_some() { oid } else { 0 });
            values.push(value);
        }
        // The field's `:1` and `:name`, in the order in which they stand.
        let text = match self.dialect {
            Dialect::Field if !using.is_empty() => numbered(&text)?,
            _ => text.trim_end().trim_end_matches(';').to_owned(),
        };
        Ok((text, types, values))
    }

    // ---- rows one by one --------------------------------------------------------------------

    pub(super) async fn cursor_of(&mut self, source: Source<'_>) -> Result<Cursor> {
        let (planned, values) = self.bound(source).await?;
        let Planned { prepared, names, columns } = planned;
        if !prepared.plan.returns_rows {
            return Err(PgError::syntax("cannot loop over a statement that returns no rows"));
        }
        let taken = TakenRows::default();
        Ok(Cursor {
            names,
            types: columns,
            portal: portal_of(prepared, &taken),
            taken,
            params: Some(values),
            rows: Vec::new().into_iter(),
            done: false,
        })
    }

    pub(super) async fn next_row(&mut self, cursor: &mut Cursor) -> Result<Option<Vec<Value>>> {
        loop {
            if let Some(row) = cursor.rows.next() {
                return Ok(Some(row));
            }
            if cursor.done {
                return Ok(None);
            }
            // What changes rows is done at once, whoever looks at how many of them.
            let whole = cursor.portal.prepared.plan.runs_whole();
            let limit = if whole { 0 } else { ROWS_AT_A_TIME };
            let portal = &mut cursor.portal;
            let mut nowhere = Nowhere::default();
            let mark = self.mark_of_statement();
            let done = match cursor.params.take() {
                Some(params) => self.session.run_within(portal, params, limit, &mut nowhere).await,
                None => self.session.run_on(portal, limit, &mut nowhere).await,
            };
            let fetched = self.settle_statement(mark, done).await?;
            cursor.done = !matches!(fetched, Fetched::Suspended);
            cursor.rows = std::mem::take(&mut *cursor.taken.lock()).into_iter();
        }
    }

    // ---- output -----------------------------------------------------------------------------

    pub(super) async fn put(&mut self, text: Option<&Sql>, ends: bool) -> Result<()> {
        if let Some(text) = text {
            let (value, _) = self.eval(text).await?;
            if let Value::Text(text) = self.converted(&value, ColType::new(TypeKind::Text))? {
                self.line.push_str(&text);
            }
        }
        if ends {
            let line = std::mem::take(&mut self.line);
            self.session.notice(Severity::Notice, line);
        }
        Ok(())
    }
}

fn portal_of(prepared: Arc<Prepared>, taken: &TakenRows) -> Portal {
    Portal {
        prepared,
        params: Vec::new(),
        formats: Vec::new(),
        state: PortalState::Ready,
        taken: Some(taken.clone()),
    }
}

fn kind_of(value: &Value) -> TypeKind {
    query::cast::kind_of(&value.as_datum()).unwrap_or(TypeKind::Text)
}

/// `:1` and `:name` as parameters, in the order in which they stand.
fn numbered(text: &str) -> Result<String> {
    use super::lex::{Tok, tokens};
    let words = tokens(text)?;
    let (mut out, mut copied, mut count) = (String::new(), 0, 0);
    for pair in words.windows(2) {
        let [colon, name] = pair else { continue };
        let named = matches!(name.tok, Tok::Word(_) | Tok::Number) && colon.end == name.at;
        if colon.tok == Tok::Symbol(":") && named {
            count += 1;
            out.push_str(&text[copied..colon.at]);
            out.push_str(&format!("${count}"));
            copied = name.end;
        }
    }
    out.push_str(&text[copied..]);
    Ok(out.trim_end().trim_end_matches(';').to_owned())
}
