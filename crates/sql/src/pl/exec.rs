//! SQL inside procedural code: planned once, run with the values of variables.

use super::at_once::by_itself;
use super::conditions::of_code;
use super::names::ALL_FIELDS;
use super::places::{Record, field_at};
use super::run::{Machine, type_of};
use super::scopes::{Written, without_failed, written};
use super::tree::{Dialect, Into, ROW_COUNT, Slot, Sql, Use};
use crate::encode::{Nowhere, TakenRows};
use crate::idioms::dates::mark_dates;
use crate::idioms::exact::as_the_field;
use crate::key_read::AtOnce;
use crate::parse::{Parsed, Statement, parse_single};
use crate::plan::{Direct, Kind as PlanKind, Prepared};
use crate::planning::Counted;
use crate::session::{Fetched, Portal, PortalState};
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::Statement as Ast;
use futures::future::LocalBoxFuture;
use kernel::row::{ColType, TypeKind, Value};
use observe::{CallMark, Stat};
use query::cast::{CastMode, cast};
use query::scalar::EvalContext;
use query::types::{PgType, col_type_of_oid};
use query::wire::FormatEnv;
use std::sync::Arc;

/// Rows of a loop that are fetched at a time.
const ROWS_AT_A_TIME: usize = 100;

/// A statement with its plan for parameters of these types.
pub(crate) struct Ready {
    pub(super) types: Vec<Given>,
    pub(super) planned: Planned,
    /// Which of the values it takes, if not all: the names of the others are columns'.
    given: Option<Box<[usize]>>,
}

impl Ready {
    /// The plan, with those of the values that it takes.
    fn with(&self, values: Vec<Value>) -> (Planned, Vec<Value>) {
        (self.planned.clone(), self.taken(values))
    }

    /// Those of the values that the plan takes.
    pub(super) fn taken(&self, values: Vec<Value>) -> Vec<Value> {
        match &self.given {
            None => values,
            Some(given) => given.iter().map(|at| values[*at].clone()).collect(),
        }
    }
}

/// What the value of a use is as a parameter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Given {
    /// The number of its type; 0: the one that is wanted.
    oid: u32,
    /// Whether it is of the type that the field's code declares as `date`, whatever holds it.
    is_date: bool,
}

impl Given {
    pub(super) fn of(ty: Option<ColType>) -> Given {
        let is_date = ty.is_some_and(|ty| ty.kind == TypeKind::Timestamp && ty.modifier == 0);
        Given { oid: parameter_type(ty), is_date }
    }
}

/// A plan, with the shape of its rows.
#[derive(Clone)]
pub(super) struct Planned {
    pub(super) prepared: Arc<Prepared>,
    pub(super) names: Arc<[String]>,
    pub(super) columns: Arc<[ColType]>,
}

impl Planned {
    pub(super) fn new(prepared: Arc<Prepared>) -> Planned {
        Planned {
            names: prepared.columns.iter().map(|c| c.name.clone()).collect(),
            columns: prepared.columns.iter().map(type_of).collect(),
            prepared,
        }
    }

    /// A record of its columns.
    pub(super) fn empty_row(&self) -> Record {
        let (names, types) = (self.names.clone(), self.columns.clone());
        let values = vec![Value::Null; names.len()];
        Record { names, types, values, fixed: true }
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
    /// Rows that are fetched at a time.
    pub(super) at_a_time: usize,
    params: Option<Vec<Value>>,
    rows: std::vec::IntoIter<Vec<Value>>,
    done: bool,
}

impl Machine<'_> {
    // ---- statements -------------------------------------------------------------------------

    pub(super) async fn prepare(
        &mut self,
        text: &str,
        types: &[u32],
        counted: Counted,
    ) -> Result<Arc<Prepared>> {
        let begun = self.parse_begun(counted);
        let (read, done) = match parse_single(text) {
            Ok(statement) => (true, self.prepare_read(statement, types, counted).await),
            Err(error) => (false, Err(error)),
        };
        done.inspect_err(|error| self.parse_failed(begun, text, read, error))
    }

    /// A statement is about to be prepared; `None`: it is not traced, as expressions are not.
    fn parse_begun(&self, counted: Counted) -> Option<CallMark> {
        let ctx = &self.session.ctx;
        (ctx.traced() && counted != Counted::UnlessExpression).then(|| ctx.trace_mark())
    }

    /// It could not be, and is not tried in another way.
    fn parse_failed(&self, begun: Option<CallMark>, text: &str, read: bool, error: &PgError) {
        if let Some(mark) = begun {
            self.session.tell_of_failed_parse(text, &mark, read, error.code);
        }
    }

    /// A statement of the code itself, which is in its language.
    ///
    /// `dates`: which of the parameters, by their numbers, are dates of the field.
    async fn prepare_own(
        &mut self,
        mut statement: Statement,
        types: &[u32],
        dates: &[usize],
        counted: Counted,
    ) -> Result<Arc<Prepared>> {
        if self.dialect == Dialect::Field
            && let Parsed::Sql(ast) = &mut statement.parsed
        {
            statement.exact = as_the_field(ast, true);
            statement.dates = mark_dates(ast, dates);
        }
        self.prepare_read(statement, types, counted).await
    }

    async fn prepare_read(
        &mut self,
        statement: Statement,
        types: &[u32],
        counted: Counted,
    ) -> Result<Arc<Prepared>> {
        let ends = matches!(&statement.parsed, Parsed::Sql(ast) if matches!(**ast,
            Ast::Commit { .. } | Ast::Rollback { .. } | Ast::StartTransaction { .. }
            | Ast::Savepoint { .. } | Ast::ReleaseSavepoint { .. }));
        if ends {
            return Err(PgError::unsupported("a transaction command as a text in a block"));
        }
        if matches!(&statement.parsed, Parsed::Sql(ast) if matches!(**ast, Ast::Copy { .. })) {
            return Err(PgError::unsupported("COPY in a block"));
        }
        self.session.prepare_within(statement, types, counted).await
    }

    /// A statement of the block, its plan made anew only if types or definitions have changed.
    async fn ready(&mut self, sql: &Sql, is_expression: bool) -> Result<(Planned, Vec<Value>)> {
        let all = |used: &Use| used.field.as_deref() == Some(ALL_FIELDS);
        if sql.uses.iter().any(all) {
            return env::boxed!(self.ready_with_rows(sql)).await;
        }
        if let Some(values) = self.values_at_once(sql) {
            let planned = self.ready[sql.id].as_ref().map(|ready| ready.planned.clone());
            return Ok((planned.ok_or_else(|| PgError::internal("no plan"))?, values?));
        }
        let mut values = Vec::with_capacity(sql.uses.len());
        // Types of what is worked out, once.
        let mut worked_out = Vec::new();
        let mut same = self.ready.get(sql.id).is_some_and(Option::is_some);
        for (at, used) in sql.uses.iter().enumerate() {
            let (value, ty) = match &used.access {
                None => self.value_of(used)?,
                Some(access) => {
                    let (value, ty) = match self.quick(used, access) {
                        Some(typed) => typed?,
                        None => self.worked_out(used, access).await?,
                    };
                    let ty = Given::of(ty);
                    worked_out.push(ty);
                    (value, ty)
                }
            };
            let known = self.ready[sql.id].as_ref();
            same = same && known.is_some_and(|ready| ready.types.get(at) == Some(&ty));
            values.push(value);
        }
        let known = self.ready[sql.id].as_ref().filter(|_| same);
        if let Some(ready) = known
            && self.session.serves(&ready.planned.prepared)
        {
            return Ok(ready.with(values));
        }
        if same && let Some(ready) = env::boxed!(self.ready_again(sql, is_expression)).await? {
            return Ok(ready.with(values));
        }
        let mut types = Vec::with_capacity(sql.uses.len());
        let mut rest = worked_out.into_iter();
        for used in &sql.uses {
            types.push(match used.access {
                Some(_) => rest.next().unwrap_or(Given::of(None)),
                None => self.type_of_use(used)?,
            });
        }
        let counts = vec![1; types.len()];
        let ready = env::boxed!(self.plan_with(sql, &counts, types, is_expression)).await?;
        Ok(ready.with(values))
    }

    /// The plan of a statement of the block without parameters.
    pub(super) async fn plan_of(&mut self, sql: &Sql) -> Result<Planned> {
        self.ready(sql, false).await.map(|(planned, _)| planned)
    }

    /// A statement of the block that is planned for each execution, for values of the same types,
    /// with the columns that it has this time. `None`: it has to be parsed again.
    async fn ready_again(&mut self, sql: &Sql, is_expression: bool) -> Result<Option<&Ready>> {
        let Some(ready) = self.ready[sql.id].as_mut() else { return Ok(None) };
        let prepared = &ready.planned.prepared;
        let again = self.session.prepare_again(prepared, counted_as(is_expression)).await?;
        let Some(prepared) = again else { return Ok(None) };
        ready.planned = Planned::new(prepared);
        Ok(Some(&*ready))
    }

    /// Plans a statement whose uses have so many values each, of these types.
    async fn plan_with(
        &mut self,
        sql: &Sql,
        counts: &[usize],
        types: Vec<Given>,
        is_expression: bool,
    ) -> Result<&Ready> {
        let counted = counted_as(is_expression);
        let text = match is_expression {
            true => format!("select {}", sql.text),
            false => sql.text.clone(),
        };
        let (mut columns, mut read) = match sql.has_names() {
            true => {
                // What columns are called is read to plan it.
                let planning = self.session.ctx.trace_planning();
                let named = env::boxed!(self.columns_named(&text, sql)).await;
                drop(planning);
                named?
            }
            false => Default::default(),
        };
        let single = counts.iter().all(|count| *count == 1);
        // Where the value of each is among all.
        let starts = counts.iter().scan(0, |next, count| {
            *next += count;
            Some(*next - count)
        });
        let starts: Vec<usize> = starts.collect();
        // Arguments are declared as timestamps: of those the code knows it.
        let is_date = |value: usize| {
            types[value].is_date || sql.dates.iter().any(|used| starts[*used] == value)
        };
        let oid_of = |value: usize| types[value].oid;
        let dates = |given: &mut dyn Iterator<Item = usize>| -> Vec<usize> {
            given.enumerate().filter(|(_, value)| is_date(*value)).map(|(at, _)| at + 1).collect()
        };
        let begun = self.parse_begun(counted);
        let (prepared, given) = loop {
            if columns.is_empty() && single {
                let statement = read.take().map_or_else(|| parse_single(&text), Ok);
                let statement =
                    statement.inspect_err(|error| self.parse_failed(begun, &text, false, error))?;
                let dates = dates(&mut (0..types.len()));
                let oids: Vec<u32> = (0..types.len()).map(oid_of).collect();
                let done = self.prepare_own(statement, &oids, &dates, counted).await;
                let done = done.inspect_err(|error| self.parse_failed(begun, &text, true, error));
                break (done?, None);
            }
            let Written { text: own, given } = written(&text, sql, &columns, counts)?;
            let taken: Vec<u32> = given.iter().copied().map(oid_of).collect();
            let dates = dates(&mut given.iter().copied());
            match self.prepare_own(parse_single(&own)?, &taken, &dates, counted).await {
                Ok(prepared) => break (prepared, Some(given)),
                Err(error) => match without_failed(&error, &text, sql, &columns) {
                    Some(rest) => columns = rest,
                    None => {
                        self.parse_failed(begun, &own, true, &error);
                        return Err(error);
                    }
                },
            }
        };
        let given = given.filter(|given| given.len() < types.len()).map(Vec::into_boxed_slice);
        let planned = Planned::new(prepared);
        Ok(self.ready[sql.id].insert(Ready { types, planned, given }))
    }

    /// The same of a statement in which records stand for all of their fields.
    async fn ready_with_rows(&mut self, sql: &Sql) -> Result<(Planned, Vec<Value>)> {
        let (mut types, mut values) = (Vec::new(), Vec::new());
        // How many parameters are in the place of each.
        let mut counts = Vec::with_capacity(sql.uses.len());
        for used in &sql.uses {
            let before = values.len();
            if used.field.as_deref() == Some(ALL_FIELDS) {
                let record = self.all_fields(used).await?;
                for (value, ty) in record.values.into_iter().zip(record.types.iter()) {
                    types.push(Given::of(Some(*ty)));
                    values.push(value);
                }
            } else {
                let (value, ty) = match &used.access {
                    Some(access) => {
                        let (value, ty) = self.worked_out(used, access).await?;
                        (value, Given::of(ty))
                    }
                    None => self.value_of(used)?,
                };
                types.push(ty);
                values.push(value);
            }
            counts.push(values.len() - before);
        }
        if let Some(ready) = self.ready.get(sql.id).and_then(Option::as_ref)
            && ready.types == types
        {
            if self.session.serves(&ready.planned.prepared) {
                return Ok(ready.with(values));
            }
            if let Some(ready) = env::boxed!(self.ready_again(sql, false)).await? {
                return Ok(ready.with(values));
            }
        }
        let ready = self.plan_with(sql, &counts, types, false).await?;
        Ok(ready.with(values))
    }

    /// A record as PostgreSQL writes a row.
    fn row_text(&self, slot: Slot) -> Result<Value> {
        // One that nothing was assigned to is NULL.
        let record = self.places[slot].record.as_ref().filter(|record| !record.names.is_empty());
        Ok(record.map_or(Value::Null, |record| self.row_text_of(&record.values)))
    }

    pub(super) fn row_text_of(&self, values: &[Value]) -> Value {
        let env = self.session.format_env();
        let mut cells = Vec::with_capacity(values.len());
        for value in values {
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
        Value::Text(format!("({})", cells.join(",")).into())
    }

    /// The type that a variable is declared with as a parameter.
    fn type_of_use(&self, used: &Use) -> Result<Given> {
        let place = &self.places[used.slot];
        let ty = match &used.field {
            Some(field) => {
                let at = field_at(place, field)?;
                place.record.as_ref().map(|record| record.types[at])
            }
            None if place.record.is_some() => Some(ColType::new(TypeKind::Text)),
            None => place.ty,
        };
        Ok(Given::of(ty))
    }

    /// The value of a variable, and the type it is declared with as a parameter.
    pub(super) fn value_of(&self, used: &Use) -> Result<(Value, Given)> {
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
        Ok((value, Given::of(ty)))
    }

    /// The values as the plan wants them.
    pub(super) fn given(&self, prepared: &Prepared, values: Vec<Value>) -> Result<Vec<Value>> {
        let wanted = &prepared.plan.params;
        let same = |value: &Value, ty: &ColType| value.is_null() || kind_of(value) == ty.kind;
        if values.iter().zip(wanted).all(|(value, ty)| same(value, ty)) {
            return Ok(values);
        }
        let env = self.session.format_env();
        let each = values.iter().zip(wanted);
        each.map(|(value, ty)| cast(&value.as_datum(), *ty, CastMode::Assignment, &env)).collect()
    }

    /// A statement with its values.
    pub(super) async fn bound(&mut self, source: Source<'_>) -> Result<(Planned, Vec<Value>)> {
        let (planned, values) = match source {
            Source::Static(sql) => self.ready(sql, false).await?,
            Source::Dynamic { text, types, values } => {
                (Planned::new(self.prepare(text, types, Counted::UnlessValues).await?), values)
            }
        };
        let values = self.given(&planned.prepared, values)?;
        Ok((planned, values))
    }

    /// The value of an expression, and its type.
    pub(super) async fn eval(&mut self, sql: &Sql) -> Result<(Value, ColType)> {
        let done = match self.value_at_once(sql) {
            Some(done) => done,
            None => self.eval_waiting(sql).await,
        };
        match self.dialect {
            Dialect::Field => done.map_err(of_code),
            Dialect::Pg => done,
        }
    }

    /// Boxed: most expressions have their value by now, and this is part of each one's future.
    fn eval_waiting<'a>(
        &'a mut self,
        sql: &'a Sql,
    ) -> LocalBoxFuture<'a, Result<(Value, ColType)>> {
        env::boxed!(self.eval_as_sql(sql))
    }

    async fn eval_as_sql(&mut self, sql: &Sql) -> Result<(Value, ColType)> {
        if let Some((used, access)) = by_itself(sql)
            && let Some(access) = access
        {
            let (value, ty) = self.worked_out(used, access).await?;
            return Ok((value, ty.unwrap_or(ColType::new(TypeKind::Text))));
        }
        let (planned, values) = self.ready(sql, true).await?;
        let Planned { prepared, columns, .. } = planned;
        let [ty] = columns[..] else {
            let count = columns.len();
            return Err(PgError::syntax(format!("query returned {count} columns")));
        };
        let mut values = self.given(&prepared, values)?;
        if let PlanKind::Direct(direct) = &prepared.plan.kind
            && let Direct::Values(output) = &**direct
            && let [one] = &output[..]
            && let env = self.session.format_env()
            && self.calls_at_once(&prepared, &env, &mut values)?
        {
            let cx = EvalContext { row: None, params: &values, env: &env };
            return Ok((one.eval(&cx)?.into_value(), ty));
        }
        Ok((self.value_by_query(&prepared, values).await?, ty))
    }

    /// The value of an expression that has to be run as a query.
    async fn value_by_query(
        &mut self,
        prepared: &Arc<Prepared>,
        values: Vec<Value>,
    ) -> Result<Value> {
        let mark = self.mark_of_statement();
        let outer = std::mem::replace(&mut self.session.in_expression, true);
        let done = self.run_whole(prepared, values).await;
        self.session.in_expression = outer;
        let (rows, _) = self.settle_statement(mark, done).await?;
        if rows.len() > 1 {
            return Err(PgError::new("21000", "query returned more than one row"));
        }
        let value = rows.into_iter().next().and_then(|row| row.into_iter().next());
        Ok(value.unwrap_or(Value::Null))
    }

    /// Adds the values of the functions that an expression calls; false, and none: one of them may
    /// have to wait.
    pub(super) fn calls_at_once(
        &self,
        prepared: &Prepared,
        env: &FormatEnv,
        values: &mut Vec<Value>,
    ) -> Result<bool> {
        let given = prepared.plan.params.len();
        for call in &prepared.plan.hidden {
            match self.session.value_at_once(call.function, env)? {
                Some(value) => values.push(value),
                None => {
                    values.truncate(given);
                    return Ok(false);
                }
            }
        }
        Ok(true)
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
        let done = match into {
            Some(into) if into.bulk && is_query => self.collect_query(source, into).await,
            _ => self.run_sql_unguarded(source, into, is_query).await,
        };
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
        if let Some(into) = into.filter(|into| !into.bulk && prepared.plan.returns_rows)
            && self.dialect == Dialect::Field
        {
            self.check_targets(&into.targets, columns.len())?;
        }
        let (mut rows, count) = match prepared.plan.returns_rows && is_query {
            true => self.run_some(&prepared, values, into.is_some()).await?,
            false => {
                let (rows, tag) = self.run_whole(&prepared, values).await?;
                (rows, tag.rsplit(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0))
            }
        };
        if !matches!(prepared.plan.kind, PlanKind::Utility(_) | PlanKind::Own(_)) {
            self.note_rows(count, tells);
        }
        let Some(into) = into else { return Ok(()) };
        if !prepared.plan.returns_rows {
            return Err(PgError::syntax("INTO used with a command that cannot return data"));
        }
        if into.bulk {
            let mut takers = self.takers(into).await?;
            for row in rows {
                self.take_bulk(&mut takers, row, &columns)?;
            }
            return self.give_bulk(takers).await;
        }
        let strict = into.strict || self.dialect == Dialect::Field || !is_query;
        if rows.len() > 1 && strict {
            return Err(PgError::new("P0003", "query returned more than one row")
                .with_hint("Make sure the query returns a single row, or use LIMIT 1."));
        }
        let row = (!rows.is_empty()).then(|| rows.swap_remove(0));
        if row.is_some() && into.targets.iter().any(|target| target.access.is_some()) {
            let settled = env::boxed!(self.settled_all(&into.targets)).await?;
            return self.take_first(into, &settled, row, (&names, &columns), is_query);
        }
        self.take_first(into, &into.targets, row, (&names, &columns), is_query)
    }

    /// The variables take the first row, or learn that there is none.
    pub(super) fn take_first(
        &mut self,
        into: &Into,
        targets: &[Use],
        row: Option<Vec<Value>>,
        (names, columns): (&Arc<[String]>, &Arc<[ColType]>),
        is_query: bool,
    ) -> Result<()> {
        let Some(row) = row else {
            return match into.strict || (is_query && self.dialect == Dialect::Field) {
                true => Err(PgError::new("P0002", "query returned no rows")),
                false => self.take_nothing(into, names, columns),
            };
        };
        self.take_row(targets, row, names, columns)?;
        self.places[ROW_COUNT].value = Value::Int8(1);
        Ok(())
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
            let row = match self.session.row_at_once(prepared, direct, &values) {
                AtOnce::Done(row) => row?,
                AtOnce::Waits(begun) => {
                    env::boxed!(self.session.row_on(prepared, direct, &values, begun)).await?
                }
            };
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
        portal.first_only = wants_rows;
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

    // ---- rows one by one --------------------------------------------------------------------

    pub(super) async fn cursor_of(&mut self, source: Source<'_>) -> Result<Cursor> {
        let (planned, values) = self.bound(source).await?;
        let Planned { prepared, names, columns } = planned;
        if !prepared.plan.returns_rows {
            return Err(PgError::syntax("cannot loop over a statement that returns no rows"));
        }
        self.session.ctx.bump(Stat::OpenedCursorsCumulative, 1);
        let taken = TakenRows::default();
        Ok(Cursor {
            names,
            types: columns,
            portal: portal_of(prepared, &taken),
            taken,
            at_a_time: ROWS_AT_A_TIME,
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
            let limit = if whole { 0 } else { cursor.at_a_time };
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
}

/// How a statement of the block is counted.
fn counted_as(is_expression: bool) -> Counted {
    match is_expression {
        true => Counted::UnlessExpression,
        false => Counted::UnlessValues,
    }
}

pub(crate) fn portal_of(prepared: Arc<Prepared>, taken: &TakenRows) -> Portal {
    Portal {
        prepared,
        params: Vec::new(),
        formats: Vec::new(),
        state: PortalState::Ready,
        taken: Some(taken.clone()),
        first_only: false,
        measured: None,
    }
}

fn kind_of(value: &Value) -> TypeKind {
    query::cast::kind_of(&value.as_datum()).unwrap_or(TypeKind::Text)
}

/// The type of a parameter; 0: the one that is wanted.
pub(super) fn parameter_type(ty: Option<ColType>) -> u32 {
    let oid = ty.map_or(0, |ty| PgType::of(ty).oid);
    if col_type_of_oid(oid).is_some() { oid } else { 0 }
}
