//! What statements have cost: where the session's calls are told to the instance's statistics of
//! statements.
//!
//! What it promises: each execution counts once under its own text, however deep in procedural code
//! it stands, and is part of what runs it; values that were taken out of a text are no part of it.
//! What it must never do: fail, or make a known statement look for anything.

use crate::Result;
use crate::plan::{Direct, Kind, Plan, Prepared};
use crate::planning::Counted;
use crate::session::{Fetched, Session};
use datafusion::sql::sqlparser::ast::Statement as Ast;
use observe::{Outcome, SharedCursor, SqlCall};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Commands that the session remembers by their text: `BEGIN`, `COMMIT` and what else comes again
/// and again without a plan that is kept.
const COMMANDS_MAX: usize = 8;

/// What sessions of one kind share statements by.
#[derive(Default)]
pub(crate) struct CountedAs {
    /// Of its role and schema path.
    context: u64,
    commands: Vec<Arc<SharedCursor>>,
}

impl CountedAs {
    pub(crate) fn of(role: u32, path: &str) -> CountedAs {
        let mut hasher = DefaultHasher::new();
        (role, path).hash(&mut hasher);
        CountedAs { context: hasher.finish(), commands: Vec::new() }
    }
}

/// How many rows a call has given or changed.
pub(crate) fn rows_of(fetched: &Fetched, max_rows: usize) -> u64 {
    match fetched {
        Fetched::Complete(tag) => {
            tag.rsplit(' ').next().and_then(|n| n.parse().ok()).unwrap_or_default()
        }
        Fetched::Suspended => max_rows as u64,
        Fetched::CopyIn { .. } | Fetched::Empty => 0,
    }
}

/// Whether what a plan does is counted under its own text.
fn is_counted(plan: &Plan, counted: Counted) -> bool {
    let is_query = matches!(plan.kind, Kind::Query(_) | Kind::Direct(_));
    let alone = is_query && plan.tables.is_empty() && plan.hidden.is_empty();
    if counted == Counted::UnlessExpression && alone {
        return false;
    }
    match &plan.kind {
        // What it executes is counted; its values make a new text of each.
        Kind::Utility(ast) => !matches!(**ast, Ast::Execute { .. }),
        Kind::Direct(direct) => {
            counted == Counted::Always || !matches!(**direct, Direct::Values(_))
        }
        Kind::Empty => false,
        _ => true,
    }
}

impl Session {
    /// What a text is counted under.
    fn cursor_of(&mut self, text: &str, declared: &[u32]) -> Arc<SharedCursor> {
        let text = text.trim();
        let known = |cursor: &&Arc<SharedCursor>| **cursor.text() == *text;
        if declared.is_empty()
            && let Some(known) = self.counted_as.commands.iter().find(known)
        {
            return known.clone();
        }
        let mut hasher = DefaultHasher::new();
        (self.counted_as.context, declared).hash(&mut hasher);
        let by = (self.user.as_str(), self.identity.role_number());
        let found = self.ctx.parsed_sql(text, hasher.finish(), by);
        if declared.is_empty() {
            let commands = &mut self.counted_as.commands;
            if commands.len() == COMMANDS_MAX {
                commands.remove(0);
            }
            commands.push(found.clone());
        }
        found
    }

    /// A call has parsed a statement, its plan found or made.
    pub(crate) fn note_parse<'p>(
        &mut self,
        plan: &'p Plan,
        text: &str,
        declared: &[u32],
        counted: Counted,
    ) -> Option<&'p SharedCursor> {
        let cursor = self.note_counted(plan, text, declared, counted)?;
        self.ctx.count_parse(cursor);
        Some(cursor)
    }

    /// What a plan is counted under; `None`: it is part of what runs it.
    pub(crate) fn note_counted<'p>(
        &mut self,
        plan: &'p Plan,
        text: &str,
        declared: &[u32],
        counted: Counted,
    ) -> Option<&'p SharedCursor> {
        if !is_counted(plan, counted) {
            return None;
        }
        Some(plan.cursor.get_or_init(|| self.cursor_of(text, declared)))
    }

    /// A call on a statement begins. `None`: it is counted as part of what runs it.
    pub(crate) fn begin_call(&self, plan: &Plan) -> Option<SqlCall> {
        plan.cursor.get().map(|cursor| self.ctx.enter_sql(cursor))
    }

    /// It ends. `executes`: it was the first of its execution.
    pub(crate) fn end_call(
        &mut self,
        call: Option<&SqlCall>,
        plan: &Plan,
        executes: bool,
        max_rows: usize,
        done: &Result<Fetched>,
    ) {
        let (Some(cursor), Some(call)) = (plan.cursor.get(), call) else { return };
        if matches!(done, Ok(Fetched::CopyIn { .. })) {
            self.copying = Some(cursor.clone());
        }
        let ended = matches!(done, Ok(Fetched::Complete(_)));
        let outcome = Outcome {
            executed: executes,
            failed: done.is_err(),
            fetched: plan.returns_rows && done.is_ok(),
            ended: plan.returns_rows && ended,
            rows: done.as_ref().map_or(0, |fetched| rows_of(fetched, max_rows)),
        };
        self.ctx.leave_sql(cursor, call, outcome);
    }

    /// The same, with what came of it.
    pub(crate) fn end_call_with(&self, call: Option<&SqlCall>, plan: &Plan, outcome: Outcome) {
        if let (Some(cursor), Some(call)) = (plan.cursor.get(), call) {
            self.ctx.leave_sql(cursor, call, outcome);
        }
    }

    /// The plan that runs: its number is known once it has been made.
    pub(crate) fn note_plan(&mut self, prepared: &Prepared, plan: &Plan) {
        if let Some(cursor) = prepared.plan.cursor.get() {
            let steps = || crate::plan_lines::plan_rows(plan);
            let numbers = crate::trace::plan_numbers(plan);
            self.ctx.note_plan(cursor, numbers, steps);
            self.note_traced_plan(cursor.text(), numbers.0);
        }
    }

    /// More data of the client's COPY comes, or its end.
    pub(crate) fn begin_copying(&mut self) -> Option<(Arc<SharedCursor>, SqlCall)> {
        let cursor = self.copying.take()?;
        let call = self.ctx.enter_sql(&cursor);
        Some((cursor, call))
    }

    /// What came of it; `goes_on`: there may be more.
    pub(crate) fn end_copying(
        &mut self,
        copying: Option<(Arc<SharedCursor>, SqlCall)>,
        rows: u64,
        failed: bool,
        goes_on: bool,
    ) {
        let Some((cursor, call)) = copying else { return };
        self.ctx.leave_sql(&cursor, &call, Outcome { rows, failed, ..Outcome::default() });
        self.copying = Some(cursor).filter(|_| goes_on && !failed);
    }
}
