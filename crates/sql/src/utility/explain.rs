//! EXPLAIN and EXPLAIN ANALYZE.
//!
//! What it promises: the plan shown is the one that would run, and under ANALYZE the one that ran.
//! What it must never do: run a statement without ANALYZE.

use super::{done, refuse};
use crate::Result;
use crate::encode::RowSink;
use crate::parse::{Parsed, Statement};
use crate::plan::{Direct, Kind, Plan, Prepared};
use crate::session::{Fetched, Portal, PortalState, Session};
use futures::StreamExt;
use kernel::row::Value;
use std::sync::Arc;

impl Session {
    pub(crate) async fn run_explain(
        &mut self,
        analyze: bool,
        statement: &Statement,
        portal: &Portal,
        sink: &mut dyn RowSink,
    ) -> Result<Fetched> {
        let plan = self.plan_for(statement, &[]).await?;
        let (query, above) = match &plan.kind {
            Kind::Direct(direct) => {
                let mut rows = vec![vec![direct_text(direct)]];
                if analyze {
                    rows.push(vec![self.analyze(&plan, None).await?]);
                }
                self.send_texts(&rows, portal, sink)?;
                return done("EXPLAIN");
            }
            Kind::Query(query) => (
                &**query,
                query.lock.as_ref().map(|lock| format!("Lock Rows on {}", lock.table.name)),
            ),
            Kind::Modify(modify) => {
                let verb = if modify.set.is_some() { "Update" } else { "Delete" };
                (&modify.query, Some(format!("{verb} on {}", modify.table.name)))
            }
            Kind::InsertSelect(insert) => {
                (&insert.query, Some(format!("Insert on {}", insert.table.name)))
            }
            Kind::Merge(merge) => (&merge.query, Some(format!("Merge on {}", merge.table.name))),
            _ => return refuse("EXPLAIN of this statement"),
        };
        if !plan.params.is_empty() {
            return refuse("EXPLAIN of a statement with parameters");
        }
        let values = self.call_all(&plan.hidden).await?;
        let planner = &self.database.planner;
        let bound = planner.with_values(&query.query, &values)?;
        let physical = planner.physical(&bound).await?;
        let mut lines: Vec<String> = above.iter().cloned().collect();
        let indent = if above.is_some() { "  " } else { "" };
        if analyze {
            let summary = self.analyze(&plan, Some((&physical, values))).await?;
            let shown = query::planner::explain(&physical, true);
            lines.extend(shown.into_iter().map(|line| format!("{indent}{line}")));
            lines.push(summary);
        } else {
            let shown = query::planner::explain(&physical, false);
            lines.extend(shown.into_iter().map(|line| format!("{indent}{line}")));
        }
        let rows: Vec<Vec<String>> = lines.into_iter().map(|line| vec![line]).collect();
        self.send_texts(&rows, portal, sink)?;
        done("EXPLAIN")
    }

    /// Runs the statement and says how long it took; a changing one really changes.
    async fn analyze(
        &mut self,
        plan: &Arc<Plan>,
        query: Option<(&Arc<dyn datafusion::physical_plan::ExecutionPlan>, Vec<Value>)>,
    ) -> Result<String> {
        let start = self.ctx.env.now();
        let mut rows = 0u64;
        let reads = matches!(&plan.kind, Kind::Query(q) if q.lock.is_none());
        match query {
            Some((physical, values)) if reads => {
                let state = self.exec_state(values).await?;
                let mut stream = self.database.planner.execute(physical, state, false)?;
                while let Some(batch) = stream.next().await {
                    rows += u64::try_from(batch?.num_rows()).unwrap_or(0);
                    self.ctx.check_interrupt()?;
                }
            }
            _ => {
                let params = self.call_all(&plan.hidden).await?;
                let mut sink = CountingSink::default();
                let statement =
                    Statement { text: Arc::from(""), parsed: Parsed::Empty, param_count: 0 };
                let prepared = Arc::new(Prepared {
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
                };
                self.run_inner(plan, params, &mut inner, &mut sink).await?;
                rows = sink.rows;
            }
        }
        let us = self.ctx.env.now().since(start);
        Ok(format!("Execution: {}.{:03} ms, {rows} rows", us / 1000, us % 1000))
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

fn direct_text(direct: &Direct) -> String {
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
