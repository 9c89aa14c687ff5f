//! Plans that are held: found by the text of a statement, and made where there is none.
//!
//! What it promises: who gets a plan from here gets a current one; `v$librarycache` counts what it
//! took to find it, and a call that parses is one parse, a hard one if its plan had to be made.
//! What it must never do: hold a plan that is good for one execution.

use super::Counted;
use crate::Result;
use crate::cache::PlanKey;
use crate::parse::{Parsed, Statement};
use crate::plan::Plan;
use crate::session::Session;
use block::ObjId;
use datafusion::sql::sqlparser::ast::Statement as Ast;
use observe::{SharedCursor, Stat};
use std::sync::Arc;

/// Whether a statement may have a literal like `'now'`, which is read when it is planned.
fn names_the_clock(text: &str) -> bool {
    const WORDS: [&str; 4] = ["now", "today", "tomorrow", "yesterday"];
    text.split('\'').skip(1).any(|part| {
        let word = part.trim();
        WORDS.iter().any(|known| known.eq_ignore_ascii_case(word))
    })
}

/// On whose behalf a plan is looked for, which is what is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    /// Of a call that parses the statement.
    Parse,
    /// Of an execution, whose plan is out of date: the statement was parsed by a call before. One
    /// that has to plan it anew parses it again, as a hard parse.
    Execution,
    /// Of a call that is counted by itself, or not at all.
    Beside,
}

impl Session {
    /// The plan of a statement that a call parses, from the cache if it is there and current.
    pub(crate) async fn plan_for(
        &mut self,
        statement: &Statement,
        declared: &[u32],
    ) -> Result<Arc<Plan>> {
        self.plan_counted(statement, declared, Counted::Always, Asked::Parse).await
    }

    /// The same; whether the statement is one that is counted, and on whose behalf.
    pub(crate) async fn plan_counted(
        &mut self,
        statement: &Statement,
        declared: &[u32],
        counted: Counted,
        asked: Asked,
    ) -> Result<Arc<Plan>> {
        Ok(self.plan_or_make(statement, declared, counted, asked).await?.0)
    }

    /// The same; and whether it had to be made.
    pub(crate) async fn plan_or_make(
        &mut self,
        statement: &Statement,
        declared: &[u32],
        counted: Counted,
        asked: Asked,
    ) -> Result<(Arc<Plan>, bool)> {
        if asked == Asked::Parse {
            self.ctx.bump(Stat::ParseCountTotal, 1);
        }
        let text = &statement.text;
        let cached = matches!(&statement.parsed, Parsed::Sql(ast)
        if matches!(
            **ast,
            Ast::Query(_) | Ast::Insert(_) | Ast::Update(_) | Ast::Delete(_) | Ast::Merge(_)
        ));
        if !cached {
            let plan = self.make_for_many(statement, declared).await?;
            self.note_asked(&plan, text, declared, counted, asked);
            return Ok((Arc::new(plan), true));
        }
        let mut key = self.plan_key(text.clone(), declared);
        if statement.exact {
            key.session = Arc::from(format!("{};exact", key.session));
        }
        if !statement.dates.is_empty() {
            key.session = Arc::from(format!("{};dates {:?}", key.session, statement.dates));
        }
        let observer = self.ctx.observer.clone();
        if let Some(plan) = self.database.cache.get(&key) {
            if self.is_current(&plan) && !self.is_hidden(&plan).await? {
                observer.statements.count_get(true);
                self.note_asked(&plan, text, declared, counted, asked);
                return Ok((plan, false));
            }
            // It may be good for who has another time zone.
            if self.is_of_zone(&plan) && self.database.cache.invalidate(&key, &plan) {
                observer.statements.invalidated(plan.cursor.get().map(|cursor| &**cursor));
            }
        }
        observer.statements.count_get(false);
        if asked == Asked::Execution {
            self.ctx.bump(Stat::ParseCountTotal, 1);
        }
        if asked != Asked::Beside {
            self.ctx.bump(Stat::ParseCountHard, 1);
        }
        let planning = self.ctx.begin_planning(text);
        let made = self.make_for_many(statement, declared).await;
        let cursor = made.as_ref().ok();
        let cursor = cursor.and_then(|plan| self.note_asked(plan, text, declared, counted, asked));
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
        Ok((plan, true))
    }

    /// A plan that may be kept: it reads its views at each execution, whatever it is made within.
    async fn make_for_many(&mut self, statement: &Statement, declared: &[u32]) -> Result<Plan> {
        let outer = std::mem::replace(&mut self.plans_once, false);
        let made = env::boxed!(self.make_plan(statement, declared)).await;
        self.plans_once = outer;
        made
    }

    /// The plan for one execution of a statement that is planned for each: that is a part of the
    /// execution, and no parse.
    pub(crate) async fn plan_for_one(
        &mut self,
        statement: &Statement,
        declared: &[u32],
        counted: Counted,
    ) -> Result<Arc<Plan>> {
        let planning = self.ctx.begin_planning(&statement.text);
        let outer = std::mem::replace(&mut self.plans_once, true);
        let made = env::boxed!(self.make_plan(statement, declared)).await;
        self.plans_once = outer;
        self.ctx.end_planning(&planning, None);
        let plan = Plan { once: true, ..made? };
        self.note_counted(&plan, &statement.text, declared, counted);
        Ok(Arc::new(plan))
    }

    /// What the plan is counted under; if a call has parsed the statement, that is counted.
    fn note_asked<'p>(
        &mut self,
        plan: &'p Plan,
        text: &str,
        declared: &[u32],
        counted: Counted,
        asked: Asked,
    ) -> Option<&'p SharedCursor> {
        match asked {
            Asked::Parse => self.note_parse(plan, text, declared, counted),
            Asked::Execution | Asked::Beside => self.note_counted(plan, text, declared, counted),
        }
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
