//! EXPLAIN and EXPLAIN ANALYZE.
//!
//! What it promises: the plan shown is the one that would run, and under ANALYZE the one that ran,
//! with what each step of it did. What it must never do: run a statement without ANALYZE.

use super::explain_text::{Explained, json, lines};
use super::{done, refuse};
use crate::bind::ident_name;
use crate::encode::RowSink;
use crate::parse::Statement;
use crate::plan::{Direct, Kind, Plan, Prepared, QueryPlan, Renewed};
use crate::session::{Fetched, Portal, PortalState, Session};
use crate::{PgError, Result};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::sqlparser::ast::{Expr, UtilityOption, Value as AstValue};
use kernel::row::Value;
use query::explain::{Detail, Visits, condition_beside_key, key_condition};
use std::sync::Arc;

/// What EXPLAIN is to show.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools)] // as the statement has them
pub(crate) struct ExplainOptions {
    pub(crate) analyze: bool,
    pub(crate) verbose: bool,
    /// What steps are thought to cost and to yield.
    pub(crate) costs: bool,
    pub(crate) buffers: bool,
    pub(crate) timing: bool,
    pub(crate) summary: bool,
    pub(crate) json: bool,
}

impl ExplainOptions {
    /// # Errors
    /// PostgreSQL's for options that it does not know or that do not go together.
    pub(crate) fn of(
        analyze: bool,
        verbose: bool,
        given: &[UtilityOption],
    ) -> Result<ExplainOptions> {
        let mut options = ExplainOptions {
            analyze,
            verbose,
            costs: false,
            buffers: false,
            timing: false,
            summary: false,
            json: false,
        };
        let (mut costs, mut timing, mut summary) = (None, None, None);
        for option in given {
            let name = ident_name(&option.name);
            let on = || boolean(&name, option.arg.as_ref());
            match &*name {
                "analyze" => options.analyze = on()?,
                "verbose" => options.verbose = on()?,
                "costs" => costs = Some(on()?),
                "buffers" => options.buffers = on()?,
                "timing" => timing = Some(on()?),
                "summary" => summary = Some(on()?),
                // Nothing that a session can set has a say in plans.
                "settings" => {
                    on()?;
                }
                "wal" if on()? => return refuse("EXPLAIN option WAL"),
                "wal" => {}
                "format" => options.json = is_json(option.arg.as_ref())?,
                other => {
                    let text = format!("unrecognized EXPLAIN option \"{other}\"");
                    return Err(PgError::syntax(text));
                }
            }
        }
        if timing == Some(true) && !options.analyze {
            return Err(PgError::new("22023", "EXPLAIN option TIMING requires ANALYZE"));
        }
        options.timing = timing.unwrap_or(options.analyze);
        options.summary = summary.unwrap_or(options.analyze);
        options.costs = costs.unwrap_or(options.analyze || options.json);
        Ok(options)
    }
}

/// An option's value as it was written.
fn word(arg: &Expr) -> String {
    match arg {
        Expr::Identifier(ident) => ident_name(ident),
        Expr::Value(value) => match &value.value {
            AstValue::SingleQuotedString(text) => text.clone(),
            other => other.to_string(),
        },
        other => other.to_string(),
    }
}

fn boolean(name: &str, arg: Option<&Expr>) -> Result<bool> {
    let Some(arg) = arg else { return Ok(true) };
    match word(arg).to_ascii_lowercase().as_str() {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        _ => Err(PgError::syntax(format!("{name} requires a Boolean value"))),
    }
}

fn is_json(arg: Option<&Expr>) -> Result<bool> {
    let Some(arg) = arg else { return Err(PgError::syntax("format requires a parameter")) };
    let format = word(arg);
    match &*format {
        "text" => Ok(false),
        "json" => Ok(true),
        "xml" | "yaml" => refuse(format!("EXPLAIN format {format}")),
        other => {
            let text = format!("unrecognized value for EXPLAIN option \"format\": \"{other}\"");
            Err(PgError::new("22023", text))
        }
    }
}

/// What stands above the steps of a query, and the query itself.
fn parts(kind: &Kind) -> Option<(&QueryPlan, Option<String>)> {
    Some(match kind {
        Kind::Query(query) => {
            let above = |lock: &crate::plan::LockRows| {
                let names: Vec<&str> =
                    lock.targets.iter().map(|target| target.table.name.as_str()).collect();
                format!("Lock Rows on {}", names.join(", "))
            };
            (query, query.lock.as_ref().map(above))
        }
        Kind::Modify(modify) => {
            let verb = if modify.set.is_some() { "Update" } else { "Delete" };
            (&modify.query, Some(format!("{verb} on {}", modify.table.name)))
        }
        Kind::InsertSelect(insert) => {
            (&insert.query, Some(format!("Insert on {}", insert.table.name)))
        }
        Kind::Merge(merge) => (&merge.query, Some(format!("Merge on {}", merge.table.name))),
        _ => return None,
    })
}

/// The same of a plan that can be explained.
fn explained_parts(plan: &Plan) -> Result<(&QueryPlan, Option<String>)> {
    let Some(parts) = parts(&plan.kind) else { return refuse("EXPLAIN of this statement") };
    match plan.params.is_empty() {
        true => Ok(parts),
        false => refuse("EXPLAIN of a statement with parameters"),
    }
}

impl Session {
    pub(crate) async fn run_explain(
        &mut self,
        options: ExplainOptions,
        statement: &Statement,
        portal: &Portal,
        sink: &mut dyn RowSink,
    ) -> Result<Fetched> {
        let begin = self.ctx.env.now();
        let plan = match options.analyze {
            // One of its own: its steps are watched.
            true => Arc::new(env::boxed!(self.make_plan(statement, &[])).await?),
            false => self.plan_for(statement, &[]).await?,
        };
        let mut explained = Explained::default();
        if let Kind::Direct(direct) = &plan.kind {
            explained.above = Some(direct_text(direct));
            explained.details = direct_details(direct);
            explained.planning_us = self.ctx.env.now().since(begin);
            if options.analyze {
                self.analyze(&plan, None, &mut explained).await?;
            }
        } else {
            let (query, above) = explained_parts(&plan)?;
            let values = self.call_all(&plan.hidden).await?;
            let mut physical = self.steps_with(query, &values).await?;
            explained.above = above;
            explained.planning_us = self.ctx.env.now().since(begin);
            if options.analyze {
                let reads = matches!(&plan.kind, Kind::Query(q) if q.lock.is_none());
                let watched = query::explain::watched(&physical, options.timing)?;
                // A statement that changes rows runs its own plan, which can be watched if it has
                // been made for good.
                if reads || (query.query.reusable && query.physical.set(watched.clone()).is_ok()) {
                    physical = watched;
                }
                let to_read = reads.then_some((&physical, values));
                self.analyze(&plan, to_read, &mut explained).await?;
            }
            explained.step = Some(query::explain::steps(&physical));
        }
        let rows: Vec<Vec<String>> = match options.json {
            true => vec![vec![json(&explained, &options)]],
            false => lines(&explained, &options).into_iter().map(|line| vec![line]).collect(),
        };
        self.send_texts(&rows, portal, sink)?;
        done("EXPLAIN")
    }

    /// The steps of a plan's query, whose parameters need no values; `None`: it goes by single
    /// rows.
    pub(crate) async fn explained_steps(
        &mut self,
        plan: &Plan,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if matches!(plan.kind, Kind::Direct(_)) {
            return Ok(None);
        }
        if !plan.params.is_empty()
            && let Some((query, _)) = parts(&plan.kind)
        {
            let planner = &self.database.planner;
            let unbound = planner.without_values(&query.query)?;
            return Ok(Some(planner.physical(&unbound).await?));
        }
        let (query, _) = explained_parts(plan)?;
        let values = self.call_all(&plan.hidden).await?;
        self.steps_with(query, &values).await.map(Some)
    }

    async fn steps_with(
        &self,
        query: &QueryPlan,
        values: &[Value],
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let planner = &self.database.planner;
        let bound = planner.with_values(&query.query, values)?;
        planner.physical(&bound).await
    }

    /// Runs the statement and notes how long it took; a changing one really changes.
    async fn analyze(
        &mut self,
        plan: &Arc<Plan>,
        query: Option<(&Arc<dyn ExecutionPlan>, Vec<Value>)>,
        explained: &mut Explained,
    ) -> Result<()> {
        let (start, before) = (self.ctx.env.now(), Visits::of(&self.ctx));
        let mut rows = 0u64;
        if let Some((physical, values)) = query {
            let outer = self.read_views(plan).await?;
            let state = self.exec_state_with(values, true).await;
            self.views = outer;
            let mut stream = self.database.planner.execute(physical, state?, false)?;
            while let Some(batch) = self.next_batch(&mut stream).await {
                rows += u64::try_from(batch?.num_rows()).unwrap_or(0);
                self.ctx.check_interrupt()?;
            }
        } else {
            let params = self.call_all(&plan.hidden).await?;
            let mut sink = CountingSink::default();
            let statement = Statement::empty();
            let prepared = Arc::new(Prepared {
                renewed: Renewed::default(),
                context: self.plan_context.clone(),
                param_oids: Vec::new(),
                columns: plan.columns.clone(),
                returns_rows: plan.returns_rows,
                statement,
                given: None,
                declared: Vec::new(),
                plan: plan.clone(),
            });
            let mut inner = Portal {
                prepared,
                params: Vec::new(),
                formats: Vec::new(),
                state: PortalState::Ready,
                taken: None,
                first_only: false,
                measured: None,
            };
            self.run_inner(plan, params, &mut inner, &mut sink).await?;
            rows = sink.rows;
        }
        explained.execution_us = Some(self.ctx.env.now().since(start));
        explained.rows = rows;
        explained.visits = Visits::of(&self.ctx).since(before);
        Ok(())
    }
}

/// Throws rows away and counts them.
#[derive(Default)]
struct CountingSink {
    buffer: bytes::BytesMut,
    rows: u64,
}

impl RowSink for CountingSink {
    fn row(&mut self) -> &mut bytes::BytesMut {
        self.rows += 1;
        self.buffer.clear();
        &mut self.buffer
    }

    fn copy_out(&mut self, _: bool, _: usize) {}

    fn flush_if_large(&mut self) {}
}

/// What leads to the row, and what it must meet beside that.
fn direct_details(direct: &Direct) -> Vec<Detail> {
    let Some(row) = direct.row() else { return Vec::new() };
    let mut details = vec![("Index Cond", key_condition(&row.table, &row.index, &row.key))];
    if !row.key_is_all {
        let left = condition_beside_key(&row.table, &row.index, &row.key, &row.filter);
        details.extend(left.map(|text| ("Filter", text)));
    }
    details
}

pub(crate) fn direct_text(direct: &Direct) -> String {
    let lookup = |row: &crate::plan::RowAccess| {
        format!("Index Unique Lookup using {} on {} (direct)", row.index.name, row.table.name)
    };
    match direct {
        Direct::Select(select) if select.lock.is_some() => {
            format!("Lock Row: {}", lookup(&select.row))
        }
        Direct::Select(select) => lookup(&select.row),
        Direct::Update { row, .. } => format!("Update: {}", lookup(row)),
        Direct::Delete { row, .. } => format!("Delete: {}", lookup(row)),
        Direct::Insert { table, rows, .. } => {
            format!("Insert on {} ({} rows, direct)", table.name, rows.len())
        }
        Direct::Values(_) => "Result".to_owned(),
    }
}
