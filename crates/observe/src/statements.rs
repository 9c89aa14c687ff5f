//! Statements that this instance has parsed, and what their executions have cost: the field's
//! shared cursors.
//!
//! What it promises: what is counted outlives the plan; the number of statements and the bytes of
//! their texts are bounded, and the least active ones go first; one that goes while its plan is
//! still in use comes back with the next execution. What it must never do: take a lock where a
//! statement that is known is executed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, OnceLock};

use env::Micros;
use env::latch::Latch;
use parking_lot::Mutex;

use crate::plan_steps::{KnownPlan, PlanFigures, PlanRow, StepFigures};
use crate::signature::Signatures;

/// Statements that are known at once.
pub const STATEMENTS_MAX: usize = 4_000;
/// Bytes of their texts.
pub const TEXT_BYTES_MAX: usize = 32 << 20;
/// Counters of one statement stand apart by session, so that those which run it at the same time
/// do not wait for one another's cache lines.
const SHARDS: usize = 4;
/// One of so many goes when there is no room.
const GIVEN_UP_PART: usize = 16;
/// From this elapsed time on the next execution of the statement has its CPU time measured.
pub(crate) const LONG_US: u64 = 1_000;

/// What a statement is known by: the field's `sql_id`, which stands for its text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SqlId(u64);

impl SqlId {
    /// That of a text.
    #[must_use]
    pub fn of(text: &str) -> SqlId {
        let mut hash = md5::Context::new();
        hash.consume(text.as_bytes());
        hash.consume([0]);
        let digest = hash.finalize().0;
        let word = |at: usize| {
            u32::from_le_bytes([digest[at], digest[at + 1], digest[at + 2], digest[at + 3]])
        };
        SqlId((u64::from(word(8)) << 32) | u64::from(word(12)))
    }

    /// Inverse of [`SqlId::number`]; 0 stands for none.
    #[must_use]
    pub const fn from_number(number: u64) -> Option<SqlId> {
        if number == 0 { None } else { Some(SqlId(number)) }
    }

    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }

    /// The field's hash value: the lower half.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // the lower half
    pub const fn hash_value(self) -> u32 {
        self.0 as u32
    }
}

impl fmt::Display for SqlId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LETTERS: &[u8; 32] = b"0123456789abcdfghjkmnpqrstuvwxyz";
        let letter = |i: u32| char::from(LETTERS[((self.0 >> (5 * i)) & 31) as usize]);
        let text: String = (0..13).rev().map(letter).collect();
        f.write_str(&text)
    }
}

/// Who parsed a statement first.
#[derive(Clone, Debug)]
pub struct ParsedBy {
    pub user: Arc<str>,
    /// Number of the same.
    pub user_no: u32,
    /// As [`crate::About::schemas`].
    pub schemas: Arc<str>,
    pub service: Arc<str>,
    pub module: Arc<str>,
    pub action: Arc<str>,
    /// Number of the routine whose code it stands in; `None`: of none.
    pub code: Option<u32>,
}

/// What some work has cost the session that did it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Cost {
    pub elapsed_us: u64,
    pub cpu_us: u64,
    /// Blocks visited, consistent and current.
    pub gets: u64,
    /// Blocks read from disk.
    pub reads: u64,
    /// Steps that sorted.
    pub sorts: u64,
    /// Waited, by class: application, concurrency, cluster, user I/O.
    pub waited_us: [u64; 4],
}

/// What came of a call on a statement.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// It was an execution, not only the fetch of more rows.
    pub executed: bool,
    pub failed: bool,
    /// Rows were asked for.
    pub fetched: bool,
    /// There are no more rows.
    pub ended: bool,
    /// Rows given or changed.
    pub rows: u64,
}

macro_rules! figures {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        #[derive(Default)]
        #[repr(align(64))]
        struct Live {
            $($name: AtomicU64,)*
            waited_us: [AtomicU64; 4],
            /// Executions whose rows were fetched to the end in the same call: all in one.
            whole: AtomicU64,
            /// Calls, be they executions or fetches of more rows: what they are numbered by.
            calls: AtomicU64,
            last_active_us: AtomicU64,
        }

        /// What is counted of a statement; times are microseconds.
        #[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
        pub struct Figures {
            $($(#[$doc])* pub $name: u64,)*
            /// Waited, by class: application, concurrency, cluster, user I/O.
            pub waited_us: [u64; 4],
        }

        impl Live {
            fn read(&self) -> Figures {
                let mut figures = Figures {
                    $($name: self.$name.load(Relaxed),)*
                    waited_us: [0, 1, 2, 3].map(|i| self.waited_us[i].load(Relaxed)),
                };
                let whole = self.whole.load(Relaxed);
                figures.executions += whole;
                figures.fetches += whole;
                figures.ends_of_fetch += whole;
                figures
            }

            /// Moves what is counted to `to`.
            fn move_to(&self, to: &Live) {
                $(add(&to.$name, self.$name.swap(0, Relaxed));)*
                add(&to.whole, self.whole.swap(0, Relaxed));
                to.last_active_us.fetch_max(self.last_active_us.load(Relaxed), Relaxed);
                for (to, from) in to.waited_us.iter().zip(&self.waited_us) {
                    add(to, from.swap(0, Relaxed));
                }
            }
        }

        impl Figures {
            /// Adds those of another child of the same statement.
            pub fn add(&mut self, other: &Figures) {
                $(self.$name += other.$name;)*
                for (sum, part) in self.waited_us.iter_mut().zip(other.waited_us) {
                    *sum += part;
                }
            }
        }
    };
}

figures! {
    /// Times it was parsed, its plan found or not.
    parse_calls,
    /// Times it was planned.
    loads,
    /// Times its plan was found out of date.
    invalidations,
    /// Executions, failed ones among them.
    executions,
    /// Executions that failed.
    failures,
    /// Calls that fetched rows.
    fetches,
    /// Executions whose rows were fetched to the end.
    ends_of_fetch,
    /// Rows given or changed.
    rows,
    /// Blocks visited.
    gets,
    /// Blocks read from disk.
    reads,
    /// Steps that sorted.
    sorts,
    /// Parsing, executing and fetching.
    elapsed_us,
    /// On a CPU.
    cpu_us,
    /// Planning it.
    hard_parse_us,
}

fn add(cell: &AtomicU64, n: u64) {
    // Most executions wait for nothing and read nothing: what adds nothing touches no memory.
    if n > 0 {
        cell.fetch_add(n, Relaxed);
    }
}

/// One statement as one kind of session means it: the field's child cursor.
pub struct SharedCursor {
    id: SqlId,
    /// Whose it is: see [`Statements::find`].
    context: u64,
    child: u32,
    text: Arc<str>,
    command: u32,
    /// Made when they are asked for.
    signatures: OnceLock<Signatures>,
    parsed_by: ParsedBy,
    first_load_wall_us: i64,
    live: [Live; SHARDS],
    last_load_us: AtomicU64,
    plan_hash: AtomicU32,
    /// Which plan it runs with, as who makes plans tells them apart.
    plan_number: AtomicU64,
    plan: Mutex<KnownPlan>,
    long: AtomicBool,
    gone: AtomicBool,
}

impl SharedCursor {
    #[must_use]
    pub fn id(&self) -> SqlId {
        self.id
    }

    /// Tells children of one statement apart.
    pub(crate) fn child(&self) -> u32 {
        self.child
    }

    /// A call on it begins: a number that no other call on it has, from 1.
    pub(crate) fn number_call(&self, sid: u32) -> u64 {
        let calls = self.live(sid).calls.fetch_add(1, Relaxed);
        calls * SHARDS as u64 + u64::from(sid) % SHARDS as u64 + 1
    }

    /// Its text as it was parsed.
    #[must_use]
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// The field's number of the command; 0: it has none.
    #[must_use]
    pub fn command(&self) -> u32 {
        self.command
    }

    /// What its text has in common with others.
    #[must_use]
    pub fn signatures(&self) -> Signatures {
        *self.signatures.get_or_init(|| Signatures::of(&self.text))
    }

    /// Whether its last execution was so long that measuring CPU time costs nothing beside it.
    pub(crate) fn is_long(&self) -> bool {
        self.long.load(Relaxed)
    }

    /// Hash value of the plan that it has run with last; 0: none, or one for each execution.
    #[must_use]
    pub fn plan_hash(&self) -> u32 {
        self.plan_hash.load(Relaxed)
    }

    /// The plan that it runs with: what it is known by, and which of those that look alike but
    /// expect other things. `steps` are asked for when it is another.
    pub fn set_plan(&self, hash: u32, number: u64, steps: impl FnOnce() -> Vec<PlanRow>) {
        if self.plan_number.load(Relaxed) != number || self.plan_hash() != hash {
            let steps = steps().into();
            let mut plan = self.plan.lock();
            // Made once more, it may be the same.
            let figures = plan.figures.take().filter(|_| plan.hash == hash);
            *plan = KnownPlan { hash, steps, figures };
            self.plan_hash.store(hash, Relaxed);
            self.plan_number.store(number, Relaxed);
        }
    }

    /// An execution by the plan with this hash value was measured: what each step has done.
    pub fn measured(&self, hash: u32, steps: Vec<Option<StepFigures>>) {
        self.plan.lock().measured(hash, steps);
    }

    /// What its plan takes in memory.
    fn plan_bytes(&self) -> usize {
        self.plan.lock().bytes()
    }

    /// The counters for the session with this number.
    fn live(&self, sid: u32) -> &Live {
        &self.live[sid as usize % SHARDS]
    }

    pub(crate) fn parsed(&self, sid: u32) {
        add(&self.live(sid).parse_calls, 1);
    }

    fn figures(&self) -> Figures {
        let mut sum = Figures::default();
        for live in &self.live {
            sum.add(&live.read());
        }
        sum
    }

    fn last_active_us(&self) -> u64 {
        self.live.iter().map(|live| live.last_active_us.load(Relaxed)).max().unwrap_or(0)
    }
}

impl Live {
    fn add_cost(&self, cost: &Cost) {
        let live = self;
        add(&live.elapsed_us, cost.elapsed_us);
        add(&live.cpu_us, cost.cpu_us);
        add(&live.gets, cost.gets);
        add(&live.reads, cost.reads);
        add(&live.sorts, cost.sorts);
        for (cell, us) in live.waited_us.iter().zip(cost.waited_us) {
            add(cell, us);
        }
    }
}

impl SharedCursor {
    pub(crate) fn count(&self, sid: u32, outcome: Outcome, cost: &Cost, now: Micros) {
        let live = self.live(sid);
        if outcome.executed && outcome.fetched && outcome.ended {
            add(&live.whole, 1);
        } else {
            add(&live.executions, u64::from(outcome.executed));
            add(&live.fetches, u64::from(outcome.fetched));
            add(&live.ends_of_fetch, u64::from(outcome.ended));
        }
        add(&live.failures, u64::from(outcome.failed));
        add(&live.rows, outcome.rows);
        live.add_cost(cost);
        let long = cost.elapsed_us >= LONG_US;
        if long != self.is_long() {
            self.long.store(long, Relaxed);
        }
        live.last_active_us.store(now.0, Relaxed);
    }

    fn row(&self, now: Micros, wall_us: i64) -> CursorRow {
        let wall = |at: u64| wall_us.saturating_sub_unsigned(now.since(Micros(at)));
        let KnownPlan { hash: plan_hash, steps: plan, figures: plan_figures } =
            self.plan.lock().clone();
        CursorRow {
            id: self.id,
            child: self.child,
            text: self.text.clone(),
            command: self.command,
            signatures: self.signatures(),
            parsed_by: self.parsed_by.clone(),
            plan_hash,
            plan,
            plan_figures,
            bytes: (size_of::<SharedCursor>() + self.text.len()) as u64,
            first_load_wall_us: self.first_load_wall_us,
            last_load_wall_us: wall(self.last_load_us.load(Relaxed)),
            last_active_wall_us: wall(self.last_active_us()),
            figures: self.figures(),
        }
    }
}

/// What is known of a statement at one moment.
#[derive(Clone, Debug)]
pub struct CursorRow {
    pub id: SqlId,
    /// Tells children of one statement apart, from 0.
    pub child: u32,
    pub text: Arc<str>,
    /// The field's number of the command; 0: it has none.
    pub command: u32,
    pub signatures: Signatures,
    pub parsed_by: ParsedBy,
    /// 0: it has no plan.
    pub plan_hash: u32,
    /// Its steps, the statement itself first.
    pub plan: Arc<[PlanRow]>,
    /// What they have done; `None`: no execution by this plan was measured.
    pub plan_figures: Option<Arc<PlanFigures>>,
    /// What it takes in memory, its plan not counted.
    pub bytes: u64,
    /// Wall clock in µs since 1970, as all that follow.
    pub first_load_wall_us: i64,
    pub last_load_wall_us: i64,
    pub last_active_wall_us: i64,
    pub figures: Figures,
}

/// Sums over all statements since the instance began, those that are forgotten among them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct LibraryTotals {
    /// Plans looked for.
    pub gets: u64,
    /// Of these found, and current.
    pub get_hits: u64,
    /// Plans made again that had been held, and were aged out or invalidated.
    pub reloads: u64,
    /// Held plans found out of date.
    pub invalidations: u64,
    /// Executions that had to plan anew.
    pub pin_misses: u64,
}

type Key = (SqlId, u64);

#[derive(Default)]
pub(crate) struct Known {
    by_key: BTreeMap<Key, Arc<SharedCursor>>,
    text_bytes: usize,
}

/// The statements of an instance.
pub struct Statements {
    pub(crate) known: Latch<Known>,
    get_hits: AtomicU64,
    get_misses: AtomicU64,
    reloads: AtomicU64,
    invalidations: AtomicU64,
    pin_misses: AtomicU64,
}

impl Default for Statements {
    fn default() -> Statements {
        Statements {
            known: Latch::new("shared pool", Known::default()),
            get_hits: AtomicU64::default(),
            get_misses: AtomicU64::default(),
            reloads: AtomicU64::default(),
            invalidations: AtomicU64::default(),
            pin_misses: AtomicU64::default(),
        }
    }
}

/// A statement that has been parsed, to be found or remembered.
pub struct Parsed<'a> {
    pub text: &'a str,
    /// Sessions with the same number share the statement: the same user, names found in the same
    /// schemas, parameters of the same types.
    pub context: u64,
    pub now: Micros,
    pub wall_us: i64,
}

impl Statements {
    /// The statement of a text; a new one is remembered as parsed by whom `by` says.
    pub fn find(&self, parsed: &Parsed<'_>, by: impl FnOnce() -> ParsedBy) -> Arc<SharedCursor> {
        let text = parsed.text.trim();
        let key = (SqlId::of(text), parsed.context);
        let mut known = self.known.lock();
        if let Some(found) = known.by_key.get(&key) {
            return found.clone();
        }
        let siblings = known.by_key.range((key.0, 0)..=(key.0, u64::MAX));
        let taken: BTreeSet<u32> = siblings.map(|(_, cursor)| cursor.child).collect();
        let child = (0..).find(|n| !taken.contains(n)).unwrap_or(0);
        let made = Arc::new(SharedCursor {
            id: key.0,
            context: key.1,
            child,
            text: Arc::from(text),
            command: crate::trace::command(text),
            signatures: OnceLock::new(),
            parsed_by: by(),
            first_load_wall_us: parsed.wall_us,
            live: std::array::from_fn(|_| Live {
                last_active_us: AtomicU64::new(parsed.now.0),
                ..Live::default()
            }),
            last_load_us: AtomicU64::new(parsed.now.0),
            plan_hash: AtomicU32::new(0),
            plan_number: AtomicU64::new(0),
            plan: Mutex::default(),
            // Its first execution makes what later ones find.
            long: AtomicBool::new(true),
            gone: AtomicBool::new(false),
        });
        known.insert(&made);
        made
    }

    /// What they take in memory.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let known = self.known.lock();
        let plans: usize = known.by_key.values().map(|cursor| cursor.plan_bytes()).sum();
        (known.text_bytes + known.by_key.len() * size_of::<SharedCursor>() + plans) as u64
    }

    /// A plan was looked for, and found or not.
    pub fn count_get(&self, hit: bool) {
        let counter = if hit { &self.get_hits } else { &self.get_misses };
        counter.fetch_add(1, Relaxed);
    }

    /// A held plan was found out of date.
    pub fn invalidated(&self, cursor: Option<&SharedCursor>) {
        self.invalidations.fetch_add(1, Relaxed);
        if let Some(cursor) = cursor {
            add(&cursor.live(0).invalidations, 1);
        }
    }

    /// A plan was made that had been held before.
    pub fn reloaded(&self) {
        self.reloads.fetch_add(1, Relaxed);
    }

    /// An execution had to plan anew.
    pub fn pin_missed(&self) {
        self.pin_misses.fetch_add(1, Relaxed);
    }

    /// A plan was made. `alone`: its cost is in no execution of the same statement.
    pub(crate) fn loaded(&self, cursor: &SharedCursor, cost: &Cost, alone: bool, now: Micros) {
        let live = cursor.live(0);
        add(&live.loads, 1);
        add(&live.hard_parse_us, cost.elapsed_us);
        if alone {
            live.add_cost(cost);
        }
        cursor.last_load_us.store(now.0, Relaxed);
        live.last_active_us.fetch_max(now.0, Relaxed);
    }

    /// A statement that has been forgotten was executed.
    pub(crate) fn come_back(&self, cursor: &Arc<SharedCursor>) {
        if !cursor.gone.load(Relaxed) {
            return;
        }
        let mut known = self.known.lock();
        match known.by_key.get(&(cursor.id, cursor.context)) {
            Some(other) if !Arc::ptr_eq(other, cursor) => {
                for (from, to) in cursor.live.iter().zip(&other.live) {
                    from.move_to(to);
                }
            }
            Some(_) => {}
            None => {
                cursor.gone.store(false, Relaxed);
                known.insert(cursor);
            }
        }
    }

    /// One of the children of a statement, for what they have in common; `None`: it is not known.
    #[must_use]
    pub fn child_of(&self, id: SqlId) -> Option<Arc<SharedCursor>> {
        let known = self.known.lock();
        known.by_key.range((id, 0)..=(id, u64::MAX)).next().map(|(_, cursor)| cursor.clone())
    }

    /// All that are known, by [`SqlId`].
    #[must_use]
    pub fn rows(&self, now: Micros, wall_us: i64) -> Vec<CursorRow> {
        let all: Vec<Arc<SharedCursor>> = self.known.lock().by_key.values().cloned().collect();
        all.iter().map(|cursor| cursor.row(now, wall_us)).collect()
    }

    #[must_use]
    pub fn totals(&self) -> LibraryTotals {
        let (get_hits, get_misses) = (self.get_hits.load(Relaxed), self.get_misses.load(Relaxed));
        LibraryTotals {
            gets: get_hits + get_misses,
            get_hits,
            reloads: self.reloads.load(Relaxed),
            invalidations: self.invalidations.load(Relaxed),
            pin_misses: self.pin_misses.load(Relaxed),
        }
    }
}

impl Known {
    fn insert(&mut self, cursor: &Arc<SharedCursor>) {
        self.text_bytes += cursor.text.len();
        self.by_key.insert((cursor.id, cursor.context), cursor.clone());
        while self.by_key.len() > STATEMENTS_MAX || self.text_bytes > TEXT_BYTES_MAX {
            let count = (self.by_key.len() / GIVEN_UP_PART).max(1);
            if !self.give_up(count, (cursor.id, cursor.context)) {
                return;
            }
        }
    }

    /// Forgets the least active statements but `kept`; `false`: there are none.
    fn give_up(&mut self, count: usize, kept: Key) -> bool {
        // One that has run once, and briefly, most often has values in its text and never comes
        // again.
        let activity = |cursor: &SharedCursor| {
            let figures = cursor.figures();
            let matters = figures.executions > 1 || figures.elapsed_us >= 1_000_000;
            (matters, cursor.last_active_us())
        };
        let others = self.by_key.iter().filter(|(key, _)| **key != kept);
        let mut all: Vec<_> = others.map(|(key, cursor)| (activity(cursor), *key)).collect();
        all.sort_unstable();
        all.truncate(count);
        for (_, key) in &all {
            if let Some(gone) = self.by_key.remove(key) {
                self.text_bytes -= gone.text.len();
                gone.gone.store(true, Relaxed);
            }
        }
        !all.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by() -> ParsedBy {
        let word = |text: &str| Arc::from(text);
        let (service, module, action) = (word("s"), word("m"), word("a"));
        let (user, schemas) = (word("u"), word("p"));
        ParsedBy { user, user_no: 10, schemas, service, module, action, code: None }
    }

    fn find(all: &Statements, text: &str, context: u64, now: u64) -> Arc<SharedCursor> {
        let wall_us = 1_000_000_000;
        all.find(&Parsed { text, context, now: Micros(now), wall_us }, by)
    }

    fn run(all: &Statements, cursor: &Arc<SharedCursor>, elapsed_us: u64, now: u64) {
        let outcome = Outcome { executed: true, rows: 2, ..Outcome::default() };
        let cost = Cost { elapsed_us, cpu_us: elapsed_us, gets: 3, ..Cost::default() };
        cursor.count(1, outcome, &cost, Micros(now));
        all.come_back(cursor);
    }

    fn figures(all: &Statements, id: SqlId) -> Vec<(u32, Figures)> {
        let rows = all.rows(Micros(0), 0).into_iter().filter(|row| row.id == id);
        rows.map(|row| (row.child, row.figures)).collect()
    }

    #[test]
    fn a_text_is_one_statement_with_a_child_for_each_context() {
        let all = Statements::default();
        let one = find(&all, "select 1 ", 1, 0);
        assert!(Arc::ptr_eq(&one, &find(&all, "select 1", 1, 5)));
        let other = find(&all, "select 1", 2, 0);
        run(&all, &one, 10, 7);
        run(&all, &one, 10, 8);
        run(&all, &other, 5, 9);
        let got = figures(&all, SqlId::of("select 1"));
        let counted: Vec<_> = got.iter().map(|(c, f)| (*c, f.executions, f.gets)).collect();
        assert_eq!(counted, [(0, 2, 6), (1, 1, 3)]);
    }

    #[test]
    fn the_least_active_go_and_come_back_when_they_run_again() {
        let all = Statements::default();
        let kept = find(&all, "kept", 0, 0);
        for now in [1, 2] {
            run(&all, &kept, 10, now);
        }
        let old = find(&all, "old", 0, 3);
        run(&all, &old, 10, 3);
        for n in 0..STATEMENTS_MAX {
            let once = find(&all, &format!("select {n}"), 0, 10 + n as u64);
            run(&all, &once, 10, 10 + n as u64);
        }
        let rows = all.rows(Micros(0), 0);
        assert!(rows.len() <= STATEMENTS_MAX);
        assert_eq!(figures(&all, kept.id()).len(), 1, "it ran twice");
        assert_eq!(figures(&all, old.id()).len(), 0, "it ran once, before all others");
        run(&all, &old, 10, 99_999);
        assert_eq!(figures(&all, old.id())[0].1.executions, 2);
    }

    #[test]
    fn what_a_forgotten_one_counts_goes_to_its_successor() {
        let all = Statements::default();
        let old = find(&all, "old", 0, 0);
        for n in 0..STATEMENTS_MAX {
            let once = find(&all, &format!("select {n}"), 0, 10 + n as u64);
            run(&all, &once, 10, 10 + n as u64);
        }
        let new = find(&all, "old", 0, 99_999);
        assert!(!Arc::ptr_eq(&old, &new));
        run(&all, &new, 10, 99_999);
        run(&all, &old, 10, 99_999);
        run(&all, &old, 10, 99_999);
        assert_eq!(figures(&all, new.id())[0].1.executions, 3);
    }

    #[test]
    fn texts_are_bounded_by_their_bytes() {
        let all = Statements::default();
        for n in 0..5_u64 {
            let text = format!("{n}{}", "x".repeat(TEXT_BYTES_MAX / 4));
            let cursor = find(&all, &text, 0, n);
            run(&all, &cursor, 10, n);
        }
        let bytes: usize = all.rows(Micros(0), 0).iter().map(|row| row.text.len()).sum();
        assert!(bytes <= TEXT_BYTES_MAX, "{bytes}");
    }

    #[test]
    fn plans_made_again_are_loads_and_reloads_if_they_had_been_held() {
        let all = Statements::default();
        let cursor = find(&all, "select 1", 0, 0);
        let cost = Cost { elapsed_us: 40, ..Cost::default() };
        all.loaded(&cursor, &cost, true, Micros(1));
        all.loaded(&cursor, &cost, false, Micros(2));
        assert_eq!(all.totals().reloads, 0, "the first was not kept");
        all.invalidated(Some(&cursor));
        all.loaded(&cursor, &cost, false, Micros(3));
        all.reloaded();
        let got = figures(&all, cursor.id())[0].1;
        assert_eq!((got.loads, got.invalidations, got.hard_parse_us), (3, 1, 120));
        assert_eq!(got.elapsed_us, 40);
        assert_eq!((all.totals().reloads, all.totals().invalidations), (1, 1));
    }
}
