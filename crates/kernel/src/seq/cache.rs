//! Values that this instance has taken from sequences and not handed out yet.
//!
//! In memory only: what is here is lost with the instance, never handed out twice. Does no I/O.

use std::sync::Arc;

use block::ObjId;
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

/// One sequence's values, and the turn to take more.
#[derive(Default)]
pub(super) struct Slot {
    range: Mutex<Range>,
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
    fn forgetting_empties_the_slot_that_a_session_still_has() {
        let caches = Caches::default();
        let slot = caches.slot(ObjId(1));
        slot.put(Range { first: 1, increment: 1, count: 20 });
        caches.forget(ObjId(1));
        assert_eq!(slot.take(), None);
        assert!(caches.list().is_empty());
    }
}
