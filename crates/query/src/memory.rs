//! How much the steps of statements may hold in memory, within `pga_aggregate_target`.
//!
//! What it promises: statements that hold much share the target evenly, and one that holds little
//! gets what it asks for whatever the others do. What is refused is written to temporary files
//! where the step can do that; else the statement fails with 53200, alone. What it must never do:
//! let one statement's hunger end another one.

use crate::error::Result;
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use kernel::row::{Datum, Value};
use kernel::txn::WorkMemory;
use observe::{Ctx, Stat};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// How the refusal of a hash join's table begins: it may merge instead.
pub(crate) const JOIN_REFUSED: &str = "hash join: ";
/// What a statement may always hold beside what the two sorts of a merge join keep for merging.
const SURE_ROWS_BYTES: usize = 4 << 20;
/// What a step that sorts keeps for merging what it has written: some batches, and their keys.
const MERGE_BYTES: std::ops::RangeInclusive<usize> = 4 << 20..=6 << 20;
/// The tables of hash joins may take three quarters of what a statement may: what sorts or groups
/// above them needs some, too, and can write out the rest.
const JOINS: &str = "HashJoinInput";
/// Steps that write out share what the statement may hold. So do those that merge for a sort, which
/// say of themselves that they cannot, but do, by merging in more steps.
const SORTS: &str = "ExternalSorter";
/// Steps that sort no more than the first rows, which they hold.
const FIRST_ROWS: &str = "TopK";
/// What a step that writes out may hold however many they are.
const SPILLING_MIN_BYTES: usize = 4 << 20;

/// What the values of one call may hold however small the target is: a row's length.
pub(crate) const RESULT_BYTES_MIN: usize = 16 << 20;

/// Work areas of all statements of an instance.
#[derive(Debug)]
pub struct Pga {
    target_bytes: usize,
    /// What a sort keeps for merging.
    merge_bytes: usize,
    /// A statement that holds less is not asked to save.
    sure_bytes: usize,
    used_bytes: AtomicUsize,
    most_bytes: AtomicUsize,
    /// Statements that hold more than is sure.
    large: AtomicUsize,
    over_allocations: AtomicU64,
    refusals: AtomicU64,
}

/// What the work areas hold, for `v$pgastat`.
#[derive(Clone, Copy, Debug)]
pub struct PgaUse {
    pub target_bytes: u64,
    /// What one statement may hold now.
    pub bound_bytes: u64,
    pub used_bytes: u64,
    pub most_bytes: u64,
    /// Times a statement was given what is sure although the target was reached.
    pub over_allocations: u64,
    /// Times a step was told to save.
    pub refusals: u64,
}

impl Pga {
    #[must_use]
    pub fn new(target_bytes: usize) -> Arc<Pga> {
        let merge_bytes = Pga::sort_merge_bytes(target_bytes);
        // While one merges, the other one begins.
        let sure_bytes = 3 * merge_bytes + SURE_ROWS_BYTES;
        Arc::new(Pga {
            target_bytes,
            merge_bytes,
            sure_bytes,
            used_bytes: AtomicUsize::new(0),
            most_bytes: AtomicUsize::new(0),
            large: AtomicUsize::new(0),
            over_allocations: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
        })
    }

    /// What a sort keeps for merging.
    pub(crate) fn sort_merge_bytes(target_bytes: usize) -> usize {
        (target_bytes / 4).clamp(*MERGE_BYTES.start(), *MERGE_BYTES.end())
    }

    /// Rows that steps hand on at once: where memory is short, a sort could hold but a few batches.
    pub(crate) fn batch_rows(target_bytes: usize) -> usize {
        if target_bytes < 64 << 20 { 2048 } else { 8192 }
    }

    /// What the values that one call of a function gives for many rows may hold.
    #[must_use]
    pub fn result_bytes(&self) -> usize {
        self.target_bytes.max(RESULT_BYTES_MIN)
    }

    /// What a statement may always hold.
    pub(crate) fn sure_bytes(&self) -> usize {
        self.sure_bytes
    }

    /// What one statement may hold if `large` of them hold much.
    fn bound(&self, large: usize) -> usize {
        (self.target_bytes / large.max(1)).max(self.sure_bytes)
    }

    #[must_use]
    pub fn usage(&self) -> PgaUse {
        let bytes = |n: usize| n as u64;
        PgaUse {
            target_bytes: bytes(self.target_bytes),
            bound_bytes: bytes(self.bound(self.large.load(Ordering::Relaxed))),
            used_bytes: bytes(self.used_bytes.load(Ordering::Relaxed)),
            most_bytes: bytes(self.most_bytes.load(Ordering::Relaxed)),
            over_allocations: self.over_allocations.load(Ordering::Relaxed),
            refusals: self.refusals.load(Ordering::Relaxed),
        }
    }

    fn add(&self, bytes: usize) {
        let used = self.used_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.most_bytes.fetch_max(used, Ordering::Relaxed);
    }
}

/// What the values of a call for many rows hold so far.
#[derive(Default)]
pub(crate) struct Results {
    bytes: usize,
}

impl Results {
    /// The value, counted as one more.
    ///
    /// # Errors
    /// 53200 if it is one too many.
    pub(crate) fn counted(&mut self, value: Value) -> Result<Value> {
        self.count(&value.as_datum())?;
        Ok(value)
    }

    /// Counts one more that is there already.
    ///
    /// # Errors
    /// 53200 if it is one too many.
    pub(crate) fn count(&mut self, value: &Datum<'_>) -> Result<()> {
        self.bytes = self.bytes.saturating_add(match value {
            Datum::Text(text) | Datum::Json(text) | Datum::Jsonb(text) => text.len(),
            Datum::Bytea(bytes) | Datum::Array(bytes) => bytes.len(),
            _ => return Ok(()),
        });
        results_fit(self.bytes)
    }
}

/// Whether values that hold so much may be made, for the statement that is planned or run.
///
/// # Errors
/// 53200.
pub(crate) fn results_fit(bytes: usize) -> Result<()> {
    let bound = crate::interruptible::result_bytes();
    if bytes <= bound {
        return Ok(());
    }
    Err(crate::error::out_of_memory(&format!(
        "Values of a function for rows that are worked on together hold {bytes} bytes and may \
         hold {bound}."
    )))
}

/// The work areas of one statement.
pub(crate) struct StatementMemory {
    pga: Arc<Pga>,
    /// Whose statement it is, for its statistics.
    whose: Option<Ctx>,
    used_bytes: AtomicUsize,
    /// Steps that can write out.
    spilling: AtomicUsize,
    /// Those of them that sort and have been told to.
    written: Mutex<BTreeSet<usize>>,
}

impl StatementMemory {
    pub(crate) fn new(pga: Arc<Pga>) -> StatementMemory {
        let (used_bytes, spilling) = (AtomicUsize::new(0), AtomicUsize::new(0));
        StatementMemory { pga, whose: None, used_bytes, spilling, written: Mutex::default() }
    }

    /// The same, of a session: its sorts are counted, and what it holds is told to it.
    pub(crate) fn of_session(self, ctx: &Ctx) -> StatementMemory {
        StatementMemory { whose: Some(ctx.clone()), ..self }
    }

    /// A step has ended.
    fn count_sort(&self, step: &MemoryConsumer) {
        let Some(ctx) = &self.whose else { return };
        if step.name().contains(FIRST_ROWS) {
            ctx.bump(Stat::SortsMemory, 1);
        } else if is_sort(step) {
            let wrote = self.written.lock().remove(&step.id());
            ctx.bump(if wrote { Stat::SortsDisk } else { Stat::SortsMemory }, 1);
        }
    }

    fn add(&self, bytes: usize) {
        let before = self.used_bytes.fetch_add(bytes, Ordering::Relaxed);
        let sure = self.pga.sure_bytes;
        if before <= sure && before + bytes > sure {
            self.pga.large.fetch_add(1, Ordering::Relaxed);
        }
        self.pga.add(bytes);
        if let Some(ctx) = &self.whose {
            ctx.session.hold(bytes);
        }
    }

    fn remove(&self, bytes: usize) {
        let before = self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        let sure = self.pga.sure_bytes;
        if before > sure && before - bytes <= sure {
            self.pga.large.fetch_sub(1, Ordering::Relaxed);
        }
        self.pga.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(ctx) = &self.whose {
            ctx.session.let_go(bytes);
        }
    }

    /// What stands against it that a step gets so much more.
    fn refusal(&self, step: &MemoryReservation, bytes: usize) -> Option<String> {
        let own = self.used_bytes.load(Ordering::Relaxed);
        let wanted = own.saturating_add(bytes);
        let of_all = self.pga.used_bytes.load(Ordering::Relaxed).saturating_add(bytes);
        let sure = wanted <= self.pga.sure_bytes;
        let others = usize::from(own <= self.pga.sure_bytes);
        let bound = self.pga.bound(self.pga.large.load(Ordering::Relaxed).saturating_add(others));
        let (consumer, of_step) = (step.consumer(), step.size().saturating_add(bytes));
        let may = if consumer.name().starts_with(JOINS) {
            wanted <= bound / 4 * 3
        } else if consumer.can_spill() || consumer.name().starts_with(SORTS) {
            let share = bound / self.spilling.load(Ordering::Relaxed).max(1);
            let merging = self.pga.merge_bytes;
            let share = match consumer.can_spill() {
                // Before it writes rows out, it makes bytes that compare of their keys, where these
                // are several: as much again, of short rows twice as much, beside the rows.
                true if is_sort(consumer) => {
                    (share.saturating_sub(merging) / 2).max(SPILLING_MIN_BYTES)
                }
                true => share.saturating_sub(merging).max(SPILLING_MIN_BYTES),
                false => share.max(merging + merging / 2),
            };
            wanted <= bound && of_step <= share
        } else {
            wanted <= bound
        };
        let fits = of_all <= self.pga.target_bytes;
        if may && sure && !fits {
            self.pga.over_allocations.fetch_add(1, Ordering::Relaxed);
        }
        if may && (sure || fits) {
            return None;
        }
        let mark = if consumer.name().starts_with(JOINS) { JOIN_REFUSED } else { "" };
        Some(format!("{mark}{}", out_of_memory(bytes, own, bound)))
    }
}

/// Whether a step is a sort that writes out what it may not hold.
fn is_sort(step: &MemoryConsumer) -> bool {
    step.can_spill() && step.name().starts_with(SORTS)
}

fn out_of_memory(bytes: usize, held: usize, bound: usize) -> String {
    format!(
        "out of memory: The statement asked for {bytes} bytes more, holds {held} and may hold \
         {bound} now."
    )
}

/// What a session holds beside its statements' steps: the collections of its code.
#[derive(Debug)]
pub struct Reservation(MemoryReservation);

impl Reservation {
    #[must_use]
    pub fn new(pga: &Arc<Pga>, name: &'static str) -> Reservation {
        let pool: Arc<dyn MemoryPool> = Arc::new(StatementMemory::new(pga.clone()));
        Reservation(MemoryConsumer::new(name).register(&pool))
    }

    /// The same, told to its session as what its statements hold.
    pub(crate) fn of_session(pga: &Arc<Pga>, ctx: &Ctx, name: &'static str) -> Reservation {
        let pool: Arc<dyn MemoryPool> = Arc::new(StatementMemory::new(pga.clone()).of_session(ctx));
        Reservation(MemoryConsumer::new(name).register(&pool))
    }

    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.size()
    }

    /// So much more.
    ///
    /// # Errors
    /// 53200.
    pub fn grow(&self, bytes: usize) -> Result<()> {
        Ok(self.0.try_grow(bytes)?)
    }

    /// So much less, of what is held.
    pub fn shrink(&self, bytes: usize) {
        self.0.shrink(bytes.min(self.0.size()));
    }
}

/// The name of blocks' copies that scans hold ahead.
const COPIES: &str = "copies of blocks";

/// What scans hold ahead that are of no statement here: those of definitions, of code in between.
/// All together are as one statement.
#[must_use]
pub fn scans_memory(pga: &Arc<Pga>) -> Arc<dyn WorkMemory> {
    Arc::new(Reservation::new(pga, COPIES))
}

/// What one scan of a statement holds ahead.
pub(crate) fn scan_memory(pool: &Arc<dyn MemoryPool>) -> Arc<dyn WorkMemory> {
    Arc::new(Reservation(MemoryConsumer::new(COPIES).register(pool)))
}

impl WorkMemory for Reservation {
    fn try_take(&self, bytes: usize) -> bool {
        self.0.try_grow(bytes).is_ok()
    }

    fn take(&self, bytes: usize) {
        self.0.grow(bytes);
    }

    fn give_back(&self, bytes: usize) {
        self.shrink(bytes);
    }
}

impl MemoryPool for StatementMemory {
    fn name(&self) -> &'static str {
        "statement"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.spilling.fetch_add(consumer.can_spill().into(), Ordering::Relaxed);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.spilling.fetch_sub(consumer.can_spill().into(), Ordering::Relaxed);
        self.count_sort(consumer);
    }

    fn grow(&self, _: &MemoryReservation, bytes: usize) {
        self.add(bytes);
    }

    fn shrink(&self, _: &MemoryReservation, bytes: usize) {
        self.remove(bytes);
    }

    fn try_grow(&self, reservation: &MemoryReservation, bytes: usize) -> DfResult<()> {
        if bytes == 0 {
            return Ok(());
        }
        if let Some(refusal) = self.refusal(reservation, bytes) {
            self.pga.refusals.fetch_add(1, Ordering::Relaxed);
            if is_sort(reservation.consumer()) {
                self.written.lock().insert(reservation.consumer().id());
            }
            return Err(DataFusionError::ResourcesExhausted(refusal));
        }
        self.add(bytes);
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.used_bytes.load(Ordering::Relaxed)
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.pga.target_bytes)
    }
}

impl fmt::Debug for StatementMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for StatementMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = self.used_bytes.load(Ordering::Relaxed);
        write!(f, "statement: {used} of {} bytes", self.pga.target_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn step(pga: &Arc<Pga>, name: &str, spills: bool) -> MemoryReservation {
        let pool: Arc<dyn MemoryPool> = Arc::new(StatementMemory::new(pga.clone()));
        MemoryConsumer::new(name).with_can_spill(spills).register(&pool)
    }

    #[test]
    fn a_small_statement_is_served_whatever_a_large_one_holds() {
        let pga = Pga::new(16 * MIB);
        let large = step(&pga, "groups", false);
        large.try_grow(16 * MIB).expect("alone it may hold all");
        assert!(large.try_grow(1).is_err());
        let small = step(&pga, "groups", false);
        small.try_grow(pga.sure_bytes).expect("that much is sure");
        assert!(small.try_grow(1).is_err(), "the target is reached");
        let usage = pga.usage();
        assert_eq!((usage.over_allocations, usage.refusals), (1, 2));
        assert_eq!(usage.most_bytes, (32 * MIB) as u64);
        large.free();
        assert!(small.try_grow(1).is_err(), "it holds all");
        drop(small);
        assert_eq!(pga.usage().used_bytes, 0);
        assert_eq!(pga.large.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_a_scan_holds_ahead_is_the_statements() {
        let pga = Pga::new(16 * MIB);
        let pool: Arc<dyn MemoryPool> = Arc::new(StatementMemory::new(pga.clone()));
        let groups = MemoryConsumer::new("groups").register(&pool);
        let scan = scan_memory(&pool);
        assert!(scan.try_take(MIB));
        assert_eq!(pga.usage().used_bytes, MIB as u64);
        scan.give_back(MIB);
        groups.try_grow(pga.sure_bytes).expect("that much is sure");
        assert!(!scan.try_take(MIB), "the target is reached");
        scan.take(MIB / 16);
        assert!(scans_memory(&pga).try_take(MIB), "that much is sure");
        assert_eq!(pga.usage().used_bytes, (pga.sure_bytes + MIB / 16) as u64);
        drop((groups, scan));
        assert_eq!(pga.usage().used_bytes, 0);
    }

    #[test]
    fn large_statements_share_the_target_and_joins_and_sorts_leave_some() {
        let pga = Pga::new(64 * MIB);
        let [a, b] = [(); 2].map(|()| step(&pga, "groups", false));
        a.try_grow(23 * MIB).unwrap();
        b.try_grow(23 * MIB).unwrap();
        assert!(a.try_grow(10 * MIB).is_err(), "half of it is the other one's");
        a.try_grow(9 * MIB).unwrap();
        drop((a, b));
        let join = step(&pga, "HashJoinInput", false);
        assert!(join.try_grow(49 * MIB).is_err());
        join.try_grow(48 * MIB).unwrap();
        drop(join);
        let pool: Arc<dyn MemoryPool> = Arc::new(StatementMemory::new(pga.clone()));
        let sort =
            |name: &str, spills| MemoryConsumer::new(name).with_can_spill(spills).register(&pool);
        let [a, b] = [(); 2].map(|()| sort("ExternalSorter[0]", true));
        let merge = sort("ExternalSorterMerge[0]", false);
        assert!(a.try_grow(14 * MIB).is_err(), "half of it, less what it needs for merging: half");
        a.try_grow(13 * MIB).unwrap();
        assert!(merge.try_grow(33 * MIB).is_err());
        merge.try_grow(32 * MIB).unwrap();
        drop(b);
    }
}
