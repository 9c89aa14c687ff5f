//! What a session tells of the statements that it parses and executes: who runs what now, and what
//! it has cost.
//!
//! What it promises: a call costs two looks at the clock and a few additions; CPU time is asked of
//! the scheduler, which is a system call, only around statements whose last execution was long, and
//! where one has turned out to be. Of the others it is taken for what they did not wait for. What
//! it must never do: allocate.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use env::Micros;

use crate::call_time::TimePart;
use crate::ctx::Ctx;
use crate::plan_steps::PlanRow;
use crate::running::{Entered, Outer};
use crate::session::SessionKind;
use crate::statements::{Cost, LONG_US, Outcome, Parsed, ParsedBy, SharedCursor, SqlId};
use crate::stats::Stat;
use crate::totals::WAITED_ALL;

/// The session's counters when some work began.
#[derive(Clone, Copy)]
struct CostMark {
    now: Micros,
    /// What the session's thread had used; 0: there is no such clock.
    cpu_us: u64,
    /// That is of this moment, and not of one a few calls before.
    exact: bool,
    gets: u64,
    reads: u64,
    sorts: u64,
    waited_us: [u64; WAITED_ALL + 1],
}

/// A call on a statement that has begun.
#[must_use]
pub struct SqlCall {
    mark: CostMark,
    outer: Outer,
}

/// A statement that is being planned.
#[must_use]
pub struct Planning {
    mark: CostMark,
    outer: Outer,
    /// Its cost is in no execution of the same statement.
    alone: bool,
    was_parsing: bool,
}

impl Ctx {
    fn cost_mark(&self, measures_cpu: bool) -> CostMark {
        let running = &self.session.running;
        let exact = measures_cpu || running.cpu_is_old();
        let cpu_us = match exact {
            true => running.set_cpu(self.env.thread_cpu_us()),
            false => running.cpu(),
        };
        CostMark { cpu_us, exact, ..self.counters() }
    }

    fn counters(&self) -> CostMark {
        let totals = &self.session.totals;
        CostMark {
            now: self.env.now(),
            cpu_us: 0,
            exact: false,
            gets: totals.stat(Stat::ConsistentGets) + totals.stat(Stat::DbBlockGets),
            reads: totals.stat(Stat::PhysicalReads),
            sorts: totals.stat(Stat::SortsMemory) + totals.stat(Stat::SortsDisk),
            waited_us: totals.waited_us(),
        }
    }

    fn cost_since(&self, mark: &CostMark) -> (Cost, Micros) {
        let end = self.counters();
        let elapsed_us = end.now.since(mark.now);
        let waited = |class: usize| end.waited_us[class].saturating_sub(mark.waited_us[class]);
        let worked_us = elapsed_us.saturating_sub(waited(WAITED_ALL));
        // What looks long may have stood in the queue for a processor. Then what the thread has
        // used since the last time it was asked is a bound, with that of the few calls between.
        let cpu_us = match mark.cpu_us > 0 && (mark.exact || worked_us >= LONG_US) {
            true => {
                let used_us = self.env.thread_cpu_us().saturating_sub(mark.cpu_us);
                used_us.min(if mark.exact { elapsed_us } else { worked_us })
            }
            false => worked_us,
        };
        let cost = Cost {
            elapsed_us,
            cpu_us,
            gets: end.gets.saturating_sub(mark.gets),
            reads: end.reads.saturating_sub(mark.reads),
            sorts: end.sorts.saturating_sub(mark.sorts),
            waited_us: [0, 1, 2, 3].map(waited),
        };
        (cost, end.now)
    }

    /// A call on a statement begins: inside the one that runs, if one does.
    pub fn enter_sql(&self, cursor: &SharedCursor) -> SqlCall {
        let mark = self.cost_mark(cursor.is_long());
        let call = Some((cursor.child(), cursor.number_call(self.session.sid())));
        let entered = Entered { id: cursor.id(), call, plan_hash: cursor.plan_hash() };
        let outer = self.session.running.enter(entered, mark.now);
        if outer.is_none() && self.session.kind() == SessionKind::User {
            self.session.calls.begin(TimePart::Execute, mark.now);
        }
        SqlCall { mark, outer }
    }

    /// It ends.
    pub fn leave_sql(&self, cursor: &Arc<SharedCursor>, call: &SqlCall, outcome: Outcome) {
        let (cost, now) = self.cost_since(&call.mark);
        cursor.count(self.session.sid(), outcome, &cost, now);
        self.observer.statements.come_back(cursor);
        if call.outer.is_none() {
            self.session.calls.end(TimePart::Execute, now);
        }
        self.session.running.leave(cursor.id(), call.outer);
    }

    /// The plan of the running statement is known now.
    pub fn note_plan(
        &self,
        cursor: &SharedCursor,
        (hash, number): (u32, u64),
        steps: impl FnOnce() -> Vec<PlanRow>,
    ) {
        cursor.set_plan(hash, number, steps);
        self.session.running.set_plan_hash(hash);
    }

    /// A statement is about to be planned.
    pub fn begin_planning(&self, text: &str) -> Planning {
        let mark = self.cost_mark(true);
        let id = SqlId::of(text.trim());
        let running = &self.session.running;
        let alone = running.sql() != id.number();
        // What is planned while it is executed is at the same call.
        let call = if alone { None } else { running.call() };
        let outer = running.enter(Entered { id, call, plan_hash: 0 }, mark.now);
        let was_parsing = running.set_parsing(true);
        if !was_parsing {
            self.session.calls.begin(TimePart::Parse, mark.now);
        }
        Planning { mark, outer, alone, was_parsing }
    }

    /// It has been planned, or has failed (`None`).
    pub fn end_planning(&self, planning: &Planning, cursor: Option<&SharedCursor>) {
        let running = &self.session.running;
        running.set_parsing(planning.was_parsing);
        running.put_back(planning.outer);
        let (cost, now) = self.cost_since(&planning.mark);
        if !planning.was_parsing {
            self.session.calls.end(TimePart::Parse, now);
        }
        self.bump(Stat::ParseTimeCpu, cost.cpu_us);
        if let Some(cursor) = cursor {
            self.observer.statements.loaded(cursor, &cost, planning.alone, now);
        }
    }

    /// A statement has been parsed, as the user of this name and number. `context`: see
    /// [`Parsed::context`].
    #[must_use]
    pub fn parsed_sql(
        &self,
        text: &str,
        context: u64,
        (user, user_no): (&str, u32),
    ) -> Arc<SharedCursor> {
        let (now, wall_us) = (self.env.now(), self.env.wall_us());
        let parsed = Parsed { text, context, now, wall_us };
        let by = || {
            let about = self.session.about();
            ParsedBy {
                user: Arc::from(user),
                user_no,
                schemas: about.schemas,
                service: about.service,
                module: about.module,
                action: about.action,
                code: self.session.running().code,
            }
        };
        self.observer.statements.find(&parsed, by)
    }

    /// It is parsed once more.
    pub fn count_parse(&self, cursor: &SharedCursor) {
        cursor.parsed(self.session.sid());
    }
}

/// Relaxed counters of waits that were shown, by what statements are charged with.
impl crate::totals::LiveTotals {
    fn waited_us(&self) -> [u64; WAITED_ALL + 1] {
        [0, 1, 2, 3, WAITED_ALL].map(|class| self.waited[class].load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WaitEvent;
    use crate::tests::{at, poll, world};
    use std::pin::pin;

    #[test]
    fn a_call_is_charged_with_what_happened_in_it() {
        let (clock, observer) = world();
        let ctx = observer.ctx(SessionKind::User, "psql");
        let outer = ctx.parsed_sql("call p()", 1, ("u", 10));
        let inner = ctx.parsed_sql("select 1", 1, ("u", 10));
        let called = ctx.enter_sql(&outer);
        clock.advance(100);
        ctx.bump(Stat::ConsistentGets, 2);
        let selected = ctx.enter_sql(&inner);
        let running = ctx.session.running();
        assert_eq!((running.sql, running.top), (Some(inner.id()), Some(outer.id())));
        assert_eq!((running.child, running.top_child), (Some(0), Some(0)));
        ctx.bump(Stat::DbBlockGets, 3);
        ctx.bump(Stat::PhysicalReads, 1);
        ctx.bump(Stat::SortsMemory, 2);
        let event = WaitEvent::DbFileSequentialRead;
        let mut wait = pin!(ctx.wait(event, [4, 7, 1], at(&clock, 400, ())));
        assert!(poll(wait.as_mut()).is_pending());
        clock.advance(300);
        assert!(poll(wait.as_mut()).is_ready());
        clock.advance(50);
        let outcome = Outcome { executed: true, fetched: true, rows: 7, ..Outcome::default() };
        ctx.leave_sql(&inner, &selected, outcome);
        assert_eq!(ctx.session.running().sql, Some(outer.id()));
        ctx.leave_sql(&outer, &called, Outcome { executed: true, ..Outcome::default() });
        let running = ctx.session.running();
        assert_eq!((running.sql, running.top), (None, None));
        assert_eq!(running.previous, Some(outer.id()));
        assert_eq!((running.child, running.exec, running.previous_child), (None, None, Some(0)));
        let began = running.previous_since;
        assert_eq!(ctx.env.now().since(began), 450);
        let rows = observer.statements.rows(ctx.env.now(), 0);
        let of = |id| rows.iter().find(|row| row.id == id).expect("it is known").figures;
        let (one, all) = (of(inner.id()), of(outer.id()));
        assert_eq!((one.elapsed_us, one.cpu_us, one.waited_us), (350, 50, [0, 0, 0, 300]));
        assert_eq!((one.gets, one.reads, one.rows, one.fetches), (3, 1, 7, 1));
        assert_eq!((one.sorts, all.sorts), (2, 2));
        assert_eq!((all.elapsed_us, all.cpu_us, all.gets, all.reads), (450, 150, 5, 1));
        assert_eq!((all.executions, all.rows, all.fetches), (1, 0, 0));
        assert_eq!(observer.stat(Stat::SqlExecuteTime), 450, "that of the client's alone");
    }

    #[test]
    fn what_goes_on_is_in_its_time_as_in_that_of_the_calls() {
        let (clock, observer) = world();
        let ctx = observer.ctx(SessionKind::User, "psql");
        let process = observer.ctx(SessionKind::Background, "SMON");
        let all = || {
            let stats = [Stat::DbTime, Stat::SqlExecuteTime, Stat::HardParseTime];
            let sysstat = observer.sysstat();
            stats.map(|stat| {
                let of = sysstat.iter().find(|(of, _)| *of == stat).expect("a statistic").1;
                assert_eq!(observer.stat(stat), of, "{stat}");
                of
            })
        };
        ctx.session.set_active(true, ctx.env.now());
        clock.advance(10);
        let cursor = ctx.parsed_sql("select 1", 1, ("u", 10));
        let call = ctx.enter_sql(&cursor);
        clock.advance(300);
        assert_eq!(all(), [310, 300, 0]);
        // Of a process it is no client's time.
        let own = process.enter_sql(&cursor);
        let planning = process.begin_planning("select 2");
        let inside = process.begin_planning("select 3");
        clock.advance(40);
        process.end_planning(&inside, None);
        process.end_planning(&planning, None);
        process.leave_sql(&cursor, &own, Outcome { executed: true, ..Outcome::default() });
        assert_eq!(all(), [350, 340, 40]);
        assert_eq!(observer.foreground_stats()[Stat::HardParseTime.index()], 0);
        ctx.leave_sql(&cursor, &call, Outcome { executed: true, ..Outcome::default() });
        clock.advance(5);
        assert_eq!(all(), [355, 340, 40]);
        // It ends in the middle of a statement.
        let _call = ctx.enter_sql(&cursor);
        clock.advance(7);
        drop(ctx);
        clock.advance(100);
        assert_eq!(all(), [362, 347, 40]);
    }

    #[test]
    fn each_call_on_a_statement_has_a_number_of_its_own() {
        let (_, observer) = world();
        let sessions = [1, 2, 3, 4, 5].map(|_| observer.ctx(SessionKind::User, "psql"));
        let mut seen = std::collections::BTreeSet::new();
        for ctx in sessions.iter().chain(&sessions) {
            let cursor = ctx.parsed_sql("select 1", 1, ("u", 10));
            let call = ctx.enter_sql(&cursor);
            let exec = ctx.session.running().exec;
            assert!(exec.is_some_and(|number| seen.insert(number)), "{exec:?}");
            ctx.leave_sql(&cursor, &call, Outcome { executed: true, ..Outcome::default() });
            assert_eq!(ctx.session.running().previous_exec, exec);
        }
        assert_eq!(seen.len(), 10);
    }

    #[test]
    fn routines_inside_one_another_are_told_apart() {
        let (_, observer) = world();
        let ctx = observer.ctx(SessionKind::User, "psql");
        let runs = || (ctx.session.running().entry_code, ctx.session.running().code);
        assert_eq!(runs(), (None, None));
        let none = ctx.session.enter_code(7);
        let outer = ctx.session.enter_code(8);
        assert_eq!(runs(), (Some(7), Some(8)));
        ctx.session.leave_code(outer);
        assert_eq!(runs(), (Some(7), Some(7)));
        ctx.session.leave_code(none);
        assert_eq!(runs(), (None, None));
        let _ = ctx.session.enter_code(9);
        // However what ran has ended.
        ctx.session.begin_request(&ctx.env);
        assert_eq!(runs(), (None, None));
    }

    #[test]
    fn planning_is_part_of_the_statement_and_of_no_other() {
        let (clock, observer) = world();
        let ctx = observer.ctx(SessionKind::User, "psql");
        let planning = ctx.begin_planning(" select 1 ");
        let running = ctx.session.running();
        assert_eq!((running.sql, running.parsing), (Some(SqlId::of("select 1")), true));
        clock.advance(40);
        let cursor = ctx.parsed_sql(" select 1 ", 1, ("u", 10));
        ctx.end_planning(&planning, Some(&cursor));
        let running = ctx.session.running();
        assert_eq!((running.sql, running.previous, running.parsing), (None, None, false));
        assert_eq!((running.top, running.previous_exec), (None, None));
        // Planned again while it is being executed: that is in the execution already.
        let call = ctx.enter_sql(&cursor);
        let planning = ctx.begin_planning("select 1");
        let running = ctx.session.running();
        assert_eq!((running.child, running.exec.is_some()), (Some(0), true));
        clock.advance(10);
        ctx.end_planning(&planning, Some(&cursor));
        ctx.leave_sql(&cursor, &call, Outcome { executed: true, ..Outcome::default() });
        let figures = observer.statements.rows(ctx.env.now(), 0)[0].figures;
        assert_eq!((figures.loads, figures.hard_parse_us, figures.elapsed_us), (2, 50, 50));
        assert_eq!(observer.stat(Stat::HardParseTime), 50);
    }
}
