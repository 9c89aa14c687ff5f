//! Plans that are held: found by the text of a statement, and made where there is none.
//!
//! What it promises: who gets a plan from here gets a current one, and `v$librarycache` counts what
//! it took to find it. What it must never do: hold a plan that is good for one execution.

use super::Counted;
use crate::Result;
use crate::cache::PlanKey;
use crate::parse::{Parsed, Statement};
use crate::plan::Plan;
use crate::session::Session;
use block::ObjId;
use datafusion::sql::sqlparser::ast::Statement as Ast;
use observe::Stat;
use std::sync::Arc;

/// Whether a statement may have a literal like `'now'`, which is read when it is planned.
fn names_the_clock(text: &str) -> bool {
    const WORDS: [&str; 4] = ["now", "today", "tomorrow", "yesterday"];
    text.split('\'').skip(1).any(|part| {
        let word = part.trim();
        WORDS.iter().any(|known| known.eq_ignore_ascii_case(word))
    })
}

impl Session {
    /// The plan of a statement, from the cache if it is there and current.
    pub(crate) async fn plan_for(
        &mut self,
        statement: &Statement,
        declared: &[u32],
    ) -> Result<Arc<Plan>> {
        self.plan_counted(statement, declared, Counted::Always).await
    }

    /// The same; whether the statement is one that is counted.
    pub(crate) async fn plan_counted(
        &mut self,
        statement: &Statement,
        declared: &[u32],
        counted: Counted,
    ) -> Result<Arc<Plan>> {
        self.ctx.bump(Stat::ParseCountTotal, 1);
        let text = &statement.text;
        let cached = matches!(&statement.parsed, Parsed::Sql(ast)
        if matches!(
            **ast,
            Ast::Query(_) | Ast::Insert(_) | Ast::Update(_) | Ast::Delete(_) | Ast::Merge(_)
        ));
        if !cached {
            let plan = Box::pin(self.make_plan(statement, declared)).await?;
            self.note_parse(&plan, text, declared, counted);
            return Ok(Arc::new(plan));
        }
        let mut key = self.plan_key(text.clone(), declared);
        if statement.exact {
            key.session = Arc::from(format!("{};exact", key.session));
        }
        let observer = self.ctx.observer.clone();
        if let Some(plan) = self.database.cache.get(&key) {
            if self.is_current(&plan) {
                observer.statements.count_get(true);
                self.note_parse(&plan, text, declared, counted);
                return Ok(plan);
            }
            // It may be good for who has another time zone.
            if self.is_of_zone(&plan) && self.database.cache.invalidate(&key, &plan) {
                observer.statements.invalidated(plan.cursor.get().map(|cursor| &**cursor));
            }
        }
        observer.statements.count_get(false);
        self.ctx.bump(Stat::ParseCountHard, 1);
        let planning = self.ctx.begin_planning(text);
        let made = Box::pin(self.make_plan(statement, declared)).await;
        let cursor = made.as_ref().ok();
        let cursor = cursor.and_then(|plan| self.note_parse(plan, text, declared, counted));
        self.ctx.end_planning(&planning, cursor);
        let mut plan = made?;
        if self.database.cache.was_held(&key) {
            observer.statements.reloaded();
        }
        plan.once |= plan.zone_name().is_some() && names_the_clock(text);
        let plan = Arc::new(plan);
        if !plan.once {
            self.database.cache.put(key, plan.clone(), self.ctx.traced());
        }
        Ok(plan)
    }

    pub(crate) fn plan_key(&self, text: Arc<str>, declared: &[u32]) -> PlanKey {
        PlanKey { text, param_oids: declared.to_vec(), session: self.plan_context.clone() }
    }

    /// Whether a plan was made for the session's time zone, or is good for all.
    fn is_of_zone(&self, plan: &Plan) -> bool {
        plan.zone_name().is_none_or(|zone| *zone == *self.settings.zone_name)
    }

    /// Whether the tables of a plan are as they were when it was made.
    pub(crate) fn is_current(&self, plan: &Plan) -> bool {
        if !self.is_of_zone(plan) {
            return false;
        }
        let Some(txn) = &self.txn else { return plan.tables.is_empty() };
        let current =
            |(obj, version): &(ObjId, u64)| kernel::dict::is_current(&txn.handle, *obj, *version);
        plan.tables.iter().all(current)
    }
}
