//! Operations that take long: what each one is, how far it is, and since when; and what
//! applications say of operations of their own.
//!
//! What it promises: an operation that ends soon leaves nothing here and takes no lock; one that
//! lasts has a row of its own, which stays behind its end until newer ones push it out. Nothing
//! here runs by itself: an operation is shown when it says how far it is. What it must never do: be
//! told of each row that is worked on.

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use env::Micros;
use parking_lot::Mutex;

use crate::ctx::Ctx;
use crate::statements::SqlId;

/// What lasts no longer is not shown.
pub const SHOWN_AFTER_US: u64 = 6_000_000;
/// Operations that an instance shows.
pub const LONG_OPERATIONS_MAX: usize = 64;

/// What an operation works on.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Target {
    #[default]
    Nothing,
    Object {
        schema: String,
        name: String,
    },
    /// Something else, by what it is called.
    Other(String),
}

impl Target {
    /// An object of the dictionary.
    #[must_use]
    pub fn object(schema: &str, name: &str) -> Target {
        Target::Object { schema: schema.to_owned(), name: name.to_owned() }
    }
}

/// What an operation is, and how far.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Progress {
    pub name: String,
    pub target: Target,
    /// What else is to be said of the target.
    pub target_desc: String,
    /// A number that an application tells its operations apart by.
    pub context: i64,
    pub sofar: i64,
    /// 0: nobody knows.
    pub total: i64,
    /// What these count.
    pub units: String,
    /// Bytes that have been worked on, if it counts them beside.
    pub bytes: Option<u64>,
}

/// An operation that is shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LongRow {
    /// Tells the operations of an instance apart.
    pub number: u32,
    pub sid: u32,
    pub serial: u32,
    pub username: Arc<str>,
    /// The statement that did it, with its plan and since when it ran.
    pub sql: Option<SqlId>,
    pub plan_hash: u32,
    pub sql_since: Micros,
    pub began: Micros,
    /// When it told last how far it was.
    pub updated: Micros,
    /// An application has told it.
    pub told: bool,
    pub progress: Progress,
}

impl LongRow {
    /// Seconds that it had taken when it told last how far it was.
    #[must_use]
    pub fn elapsed_s(&self) -> u64 {
        self.updated.since(self.began) / 1_000_000
    }

    /// Seconds that the rest takes if it goes on like this; `None`: that cannot be told.
    #[must_use]
    pub fn remaining_s(&self) -> Option<u64> {
        let Progress { sofar, total, .. } = self.progress;
        let left = u128::try_from(total.checked_sub(sofar)?).unwrap_or(0);
        let done = u128::try_from(sofar).ok().filter(|done| *done > 0 && total > 0)?;
        let elapsed_us = u128::from(self.updated.since(self.began));
        u64::try_from(elapsed_us * left / done / 1_000_000).ok()
    }
}

#[derive(Default)]
struct Shown {
    last: u32,
    /// The oldest first.
    rows: VecDeque<Arc<Mutex<LongRow>>>,
}

/// The operations that an instance shows.
#[derive(Default)]
pub struct LongOperations(Mutex<Shown>);

impl LongOperations {
    /// All of them, the oldest first.
    #[must_use]
    pub fn rows(&self) -> Vec<LongRow> {
        let rows: Vec<_> = self.0.lock().rows.iter().cloned().collect();
        rows.iter().map(|row| row.lock().clone()).collect()
    }

    fn open(
        &self,
        ctx: &Ctx,
        began: Micros,
        told: bool,
        progress: Progress,
    ) -> Arc<Mutex<LongRow>> {
        let running = ctx.session.running();
        let mut shown = self.0.lock();
        shown.last = shown.last.wrapping_add(1).max(1);
        let row = Arc::new(Mutex::new(LongRow {
            number: shown.last,
            sid: ctx.session.sid(),
            serial: ctx.session.serial(),
            username: ctx.session.username(),
            sql: running.sql,
            plan_hash: running.plan_hash,
            sql_since: running.since,
            began,
            updated: ctx.env.now(),
            told,
            progress,
        }));
        if shown.rows.len() >= LONG_OPERATIONS_MAX {
            shown.rows.pop_front();
        }
        shown.rows.push_back(Arc::clone(&row));
        row
    }

    /// An application tells of an operation of its own: of the session's with this number, or, if
    /// there is none any more, of a new one. Gives its number.
    pub fn tell(&self, ctx: &Ctx, number: Option<u32>, progress: Progress) -> u32 {
        let who = (ctx.session.sid(), ctx.session.serial());
        let known = number.and_then(|number| {
            let shown = self.0.lock();
            let is_it = |row: &&Arc<Mutex<LongRow>>| {
                let row = row.lock();
                row.told && row.number == number && (row.sid, row.serial) == who
            };
            shown.rows.iter().find(is_it).cloned()
        });
        let Some(known) = known else {
            return self.open(ctx, ctx.env.now(), true, progress).lock().number;
        };
        let mut row = known.lock();
        (row.updated, row.progress) = (ctx.env.now(), progress);
        row.number
    }
}

/// An operation that may turn out to be long. Several may work on it at once.
pub struct Operation {
    name: &'static str,
    target: Target,
    total: u64,
    units: &'static str,
    began: Micros,
    sofar: AtomicU64,
    bytes: AtomicU64,
    row: OnceLock<Arc<Mutex<LongRow>>>,
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl Operation {
    /// It begins now. `total`: of these units; 0: nobody knows.
    #[must_use]
    pub fn begin(
        ctx: &Ctx,
        name: &'static str,
        target: Target,
        (total, units): (u64, &'static str),
    ) -> Operation {
        Operation {
            name,
            target,
            total,
            units,
            began: ctx.env.now(),
            sofar: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            row: OnceLock::new(),
        }
    }

    /// So many bytes more have been worked on; shown with the next step.
    pub fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// So much more is done.
    pub fn advance(&self, ctx: &Ctx, more: u64) {
        let sofar = self.sofar.fetch_add(more, Relaxed) + more;
        self.show(ctx, sofar, self.total);
    }

    /// All is done that there was to do.
    pub fn end(&self, ctx: &Ctx) {
        let all = self.sofar.load(Relaxed).max(self.total);
        self.sofar.store(all, Relaxed);
        self.show(ctx, all, all);
    }

    fn show(&self, ctx: &Ctx, sofar: u64, total: u64) {
        let now = ctx.env.now();
        if self.row.get().is_none() && now.since(self.began) < SHOWN_AFTER_US {
            return;
        }
        let row = self.row.get_or_init(|| {
            let progress = Progress {
                name: self.name.to_owned(),
                target: self.target.clone(),
                units: self.units.to_owned(),
                ..Progress::default()
            };
            ctx.observer.long_operations.open(ctx, self.began, false, progress)
        });
        let bytes = self.bytes.load(Relaxed);
        let mut row = row.lock();
        let progress = &mut row.progress;
        // Of several that tell at once the last need not be the one that knows of most.
        progress.sofar = progress.sofar.max(signed(sofar));
        progress.total = signed(total);
        progress.bytes = Some(bytes).filter(|bytes| *bytes > 0);
        row.updated = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::SessionKind;
    use crate::tests::world;

    const S: u64 = 1_000_000;

    fn scan(ctx: &Ctx, total: u64) -> Operation {
        Operation::begin(ctx, "Table Scan", Target::object("s", "t"), (total, "Blocks"))
    }

    #[test]
    fn what_ends_soon_is_not_shown() {
        let (clock, observer) = world();
        let ctx = observer.ctx(SessionKind::User, "u");
        let quick = scan(&ctx, 300);
        for _ in 0..2 {
            clock.advance(2 * S);
            quick.advance(&ctx, 128);
        }
        quick.end(&ctx);
        assert!(observer.long_operations.rows().is_empty());
    }

    #[test]
    fn what_lasts_is_shown_with_its_figures_and_stays() {
        let (clock, observer) = world();
        let ctx = observer.ctx(SessionKind::User, "u");
        ctx.session.set_username("scott");
        let slow = scan(&ctx, 1000);
        clock.advance(4 * S);
        slow.advance(&ctx, 100);
        assert!(observer.long_operations.rows().is_empty());
        clock.advance(4 * S);
        slow.advance(&ctx, 100);
        let [row] = &observer.long_operations.rows()[..] else { panic!("one row") };
        assert_eq!((row.progress.sofar, row.progress.total), (200, 1000));
        assert_eq!((row.elapsed_s(), row.remaining_s()), (8, Some(32)));
        assert_eq!((row.sid, &*row.username, row.told), (ctx.session.sid(), "scott", false));
        assert_eq!(row.progress.target, Target::object("s", "t"));
        clock.advance(2 * S);
        slow.end(&ctx);
        drop(ctx);
        let [row] = &observer.long_operations.rows()[..] else { panic!("it stays") };
        assert_eq!((row.progress.sofar, row.progress.total), (1000, 1000));
        assert_eq!((row.elapsed_s(), row.remaining_s()), (10, Some(0)));
    }

    #[test]
    fn what_has_no_known_end_has_one_when_it_is_reached() {
        let (clock, observer) = world();
        let ctx = observer.ctx(SessionKind::User, "u");
        let target = Target::Other("x".to_owned());
        let copy = Operation::begin(&ctx, "Copy From", target, (0, "Rows"));
        clock.advance(7 * S);
        copy.add_bytes(512);
        copy.advance(&ctx, 10);
        let row = observer.long_operations.rows().remove(0);
        assert_eq!((row.progress.sofar, row.progress.total), (10, 0));
        assert_eq!((row.progress.bytes, row.remaining_s()), (Some(512), None));
        copy.end(&ctx);
        let row = observer.long_operations.rows().remove(0);
        assert_eq!((row.progress.sofar, row.progress.total), (10, 10));
    }

    #[test]
    fn several_that_work_on_one_have_one_row() {
        let (clock, observer) = world();
        let ctx = observer.ctx(SessionKind::User, "u");
        let shared = Arc::new(scan(&ctx, 10_000));
        clock.advance(10 * S);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..25).for_each(|_| shared.advance(&ctx, 100)));
            }
        });
        let rows = observer.long_operations.rows();
        assert_eq!((rows.len(), rows[0].progress.sofar), (1, 10_000));
    }

    #[test]
    fn the_oldest_give_way() {
        let (clock, observer) = world();
        let ctx = observer.ctx(SessionKind::User, "u");
        let many = (0..LONG_OPERATIONS_MAX + 3).map(|_| scan(&ctx, 10)).collect::<Vec<_>>();
        clock.advance(10 * S);
        many.iter().for_each(|one| one.advance(&ctx, 1));
        let rows = observer.long_operations.rows();
        assert_eq!((rows.len(), rows[0].number), (LONG_OPERATIONS_MAX, 4));
        // One without a row goes on.
        many[0].advance(&ctx, 1);
        assert_eq!(observer.long_operations.rows(), rows);
    }

    #[test]
    fn applications_tell_of_their_own() {
        let (clock, observer) = world();
        let (ctx, other) =
            (observer.ctx(SessionKind::User, "u"), observer.ctx(SessionKind::User, "v"));
        let name = || "job".to_owned();
        let of = |sofar| Progress { name: name(), sofar, total: 9, ..Progress::default() };
        let all = &observer.long_operations;
        let number = all.tell(&ctx, None, of(1));
        clock.advance(3 * S);
        assert_eq!(all.tell(&ctx, Some(number), of(3)), number);
        let [row] = &all.rows()[..] else { panic!("one row") };
        assert_eq!((row.progress.sofar, row.elapsed_s(), row.remaining_s()), (3, 3, Some(6)));
        // Another session's, and one that is not there, are new ones.
        let theirs = all.tell(&other, Some(number), of(0));
        let new = all.tell(&ctx, Some(99), of(0));
        assert_eq!((all.rows().len(), theirs != number, new != number), (3, true, true));
        assert_eq!(all.rows()[1].remaining_s(), None);
    }
}
