//! Values that this instance has taken from sequences and not handed out yet.
//!
//! In memory only: what is here is lost with the instance, never handed out twice. Does no I/O.

use std::sync::Arc;

use block::ObjId;
use env::Micros;
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;

/// Consecutive values of one sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Range {
    pub first: i64,
    pub increment: i64,
    /// Values left.
    pub count: u64,
}

/// Values taken at once where a table's own sequence is used much, unless its cache is larger.
const GROWN_MAX: u64 = 1_000;
/// Ranges used up within this time make the next one twice as large.
const USED_MUCH_US: u64 = 1_000_000;

/// When values were taken last, and how many.
#[derive(Clone, Copy, Default)]
struct Refilled {
    at: Micros,
    count: u64,
}

/// One sequence's values, and the turn to take more.
#[derive(Default)]
pub(super) struct Slot {
    range: Mutex<Range>,
    refilled: Mutex<Refilled>,
    /// Held while values are taken from the dictionary.
    pub refill: tokio::sync::Mutex<()>,
}

impl Slot {
    /// The next value, if there is one.
    pub fn take(&self) -> Option<i64> {
        let mut range = self.range.lock();
        let value = range.first;
        range.count = range.count.checked_sub(1)?;
        if range.count > 0 {
            range.first += range.increment;
        }
        Some(value)
    }

    /// How many values to take now of a table's own sequence with this cache: each time costs the
    /// session a durable commit, and lets all who want a value wait for it.
    pub fn wanted(&self, cache: u64, now: Micros) -> u64 {
        let mut last = self.refilled.lock();
        let used_much = last.count > 0 && now.since(last.at) < USED_MUCH_US;
        let count = if used_much { last.count.saturating_mul(2).min(GROWN_MAX) } else { 0 };
        *last = Refilled { at: now, count: count.max(cache) };
        last.count
    }

    pub fn is_empty(&self) -> bool {
        self.range.lock().count == 0
    }

    /// Replaces what is left.
    pub fn put(&self, range: Range) {
        *self.range.lock() = range;
    }
}

/// All sequences that this instance has values of.
#[derive(Default)]
pub struct Caches(RwLock<FxHashMap<ObjId, Arc<Slot>>>);

/// One line of `v$_sequences`: what this instance holds of a sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CachedSequence {
    pub obj: ObjId,
    /// The value handed out next; `None`: the next request takes new ones.
    pub next: Option<i64>,
    pub count: u64,
}

impl Caches {
    pub(super) fn slot(&self, obj: ObjId) -> Arc<Slot> {
        if let Some(slot) = self.0.read().get(&obj) {
            return Arc::clone(slot);
        }
        Arc::clone(self.0.write().entry(obj).or_default())
    }

    /// Gives up what is held of a sequence that was changed or dropped.
    pub(crate) fn forget(&self, obj: ObjId) {
        if let Some(slot) = self.0.write().remove(&obj) {
            slot.put(Range::default());
        }
    }

    pub(super) fn list(&self) -> Vec<CachedSequence> {
        let slots = self.0.read();
        let mut all: Vec<CachedSequence> = slots
            .iter()
            .map(|(obj, slot)| {
                let range = *slot.range.lock();
                let next = (range.count > 0).then_some(range.first);
                CachedSequence { obj: *obj, next, count: range.count }
            })
            .collect();
        all.sort_by_key(|cached| cached.obj);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_handed_out_once_and_in_order() {
        let caches = Caches::default();
        let slot = caches.slot(ObjId(1));
        assert_eq!(slot.take(), None);
        slot.put(Range { first: i64::MAX - 3, increment: 3, count: 2 });
        let listed = caches.list();
        assert_eq!((listed[0].next, listed[0].count), (Some(i64::MAX - 3), 2));
        assert_eq!(
            (slot.take(), slot.take(), slot.take()),
            (Some(i64::MAX - 3), Some(i64::MAX), None)
        );
    }

    #[test]
    fn ranges_grow_while_they_are_used_up_quickly() {
        let slot = Slot::default();
        let at = |us: u64| Micros(1 + us);
        assert_eq!(slot.wanted(20, at(0)), 20);
        assert_eq!(slot.wanted(20, at(900_000)), 40);
        let grown: Vec<u64> = (0..6).map(|i| slot.wanted(20, at(900_000 + i))).collect();
        assert_eq!(grown, [80, 160, 320, 640, 1000, 1000]);
        assert_eq!(slot.wanted(20, at(2_000_000)), 20);
        assert_eq!([0, 1].map(|i| slot.wanted(5_000, at(2_000_000 + i))), [5_000, 5_000]);
    }

    #[test]
    fn forgetting_empties_the_slot_that_a_session_still_has() {
        let caches = Caches::default();
        let slot = caches.slot(ObjId(1));
        slot.put(Range { first: 1, increment: 1, count: 20 });
        caches.forget(ObjId(1));
        assert_eq!(slot.take(), None);
        assert!(caches.list().is_empty());
    }
}
