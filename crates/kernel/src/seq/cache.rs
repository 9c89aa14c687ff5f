//! Values that this instance has taken from sequences and not handed out yet.
//!
//! In memory only: what is here is lost with the instance, never handed out twice. Does no I/O.

use std::collections::VecDeque;
use std::sync::Arc;

use block::ObjId;
use env::Micros;
use env::latch::{Latch, LatchList};
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;

use super::turn::Turns;
use crate::dict::SequenceDef;

/// Consecutive values of one sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Range {
    pub first: i64,
    pub increment: i64,
    /// Values left.
    pub count: u64,
}

impl Range {
    /// The next value, if one is left.
    pub fn take(&mut self) -> Option<i64> {
        let value = self.first;
        self.count = self.count.checked_sub(1)?;
        if self.count > 0 {
            self.first += self.increment;
        }
        Some(value)
    }
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

/// Sequences that others may have dropped whose values are kept.
const DOUBTED_MAX: usize = 1_000;

/// Values, and the generation of the rules by which they were taken.
#[derive(Clone, Copy, Default)]
struct Held {
    range: Range,
    generation: i64,
}

/// How often values were taken, how long it took, and of what sequence: its name is not looked up
/// where it is shown.
#[derive(Default)]
struct Loads {
    count: u64,
    us: u64,
    def: Option<Arc<SequenceDef>>,
}

impl Loads {
    fn note(&mut self, def: &SequenceDef) {
        if self.def.as_ref().is_none_or(|known| known.version != def.version) {
            self.def = Some(Arc::new(def.clone()));
        }
    }
}

/// One sequence's values, and the turn to take more.
pub(super) struct Slot {
    held: Latch<Held>,
    refilled: Mutex<Refilled>,
    loads: Mutex<Loads>,
    /// Held while values are taken from the dictionary.
    pub refill: tokio::sync::Mutex<Turns>,
}

impl Default for Slot {
    fn default() -> Slot {
        Slot {
            held: Latch::new("sequence cache", Held::default()),
            refilled: Mutex::default(),
            loads: Mutex::default(),
            refill: tokio::sync::Mutex::default(),
        }
    }
}

impl Slot {
    /// The next value by the rules of this generation, if there is one. Values taken by other rules
    /// are given up.
    pub fn take(&self, generation: i64) -> Option<i64> {
        let mut held = self.held.lock();
        if held.generation != generation {
            *held = Held { range: Range::default(), generation };
        }
        held.range.take()
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

    /// Values were taken by this definition, which took so long.
    pub fn note_load(&self, def: &SequenceDef, us: u64) {
        let mut loads = self.loads.lock();
        loads.count += 1;
        loads.us += us;
        loads.note(def);
    }

    /// A value of it was taken here that was loaded elsewhere.
    pub fn note_use(&self, def: &SequenceDef) {
        self.loads.lock().note(def);
    }

    /// Gives up what is left of values of this generation: nobody gets them any more.
    fn withdraw(&self, generation: i64) -> Option<Range> {
        let mut held = self.held.lock();
        let range = std::mem::take(&mut held.range);
        (range.count > 0 && held.generation == generation).then_some(range)
    }

    pub fn is_empty(&self, generation: i64) -> bool {
        let held = self.held.lock();
        held.range.count == 0 || held.generation != generation
    }

    /// Replaces what is left.
    pub fn put(&self, range: Range, generation: i64) {
        *self.held.lock() = Held { range, generation };
    }
}

/// All sequences that this instance has values of.
#[derive(Default)]
pub struct Caches {
    slots: RwLock<FxHashMap<ObjId, Arc<Slot>>>,
    /// Whose definition another instance may have changed, or dropped, longest ago first.
    doubted: Mutex<VecDeque<ObjId>>,
}

/// One line of `v$_sequences`: what this instance holds of a sequence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CachedSequence {
    pub obj: ObjId,
    /// As it was when values were taken last.
    pub def: Arc<SequenceDef>,
    /// The value handed out next; `None`: the next request takes new ones.
    pub next: Option<i64>,
    pub count: u64,
    /// How often this instance has taken values from the dictionary, and how long that took.
    pub loads: u64,
    pub load_us: u64,
}

/// Values that were taken back before they were handed out.
pub(crate) struct Withdrawn {
    slot: Arc<Slot>,
    range: Range,
    generation: i64,
}

impl Withdrawn {
    /// The value that was handed out last.
    pub(crate) fn given(&self) -> Option<i64> {
        // A range is taken for somebody who waits for its first value.
        self.range.first.checked_sub(self.range.increment)
    }

    /// The last one that was held: as long as that is how far the sequence has got, it may go on
    /// behind the one given.
    pub(crate) fn last(&self) -> i64 {
        super::next::last_of(&self.range)
    }

    /// They are handed out after all, unless others have been taken.
    pub(crate) fn give_back(self) {
        let mut held = self.slot.held.lock();
        if held.range.count == 0 {
            *held = Held { range: self.range, generation: self.generation };
        }
    }
}

impl Caches {
    /// Tells of the latches of all sequences.
    pub(crate) fn latches(&self, list: &mut LatchList) {
        self.slots.read().values().for_each(|slot| list.add(&slot.held));
    }

    pub(super) fn slot(&self, obj: ObjId) -> Arc<Slot> {
        if let Some(slot) = self.slots.read().get(&obj) {
            return Arc::clone(slot);
        }
        Arc::clone(self.slots.write().entry(obj).or_default())
    }

    /// Gives up what is held of a sequence that was dropped.
    pub(crate) fn forget(&self, obj: ObjId) {
        if let Some(slot) = self.slots.write().remove(&obj) {
            slot.put(Range::default(), 0);
        }
    }

    /// Takes back what this instance holds of a sequence: nobody gets it any more.
    pub(crate) fn withdraw(&self, obj: ObjId, generation: i64) -> Option<Withdrawn> {
        let slot = self.slots.read().get(&obj).cloned()?;
        let range = slot.withdraw(generation)?;
        Some(Withdrawn { slot, range, generation })
    }

    /// Another instance is going to change the sequence. Its values are still good unless its
    /// generation turns out to be another; of too many such, which may all have been dropped, the
    /// first ones' are given up.
    pub(crate) fn doubt(&self, obj: ObjId) {
        if !self.slots.read().contains_key(&obj) {
            return;
        }
        let mut doubted = self.doubted.lock();
        if doubted.contains(&obj) {
            return;
        }
        doubted.push_back(obj);
        if doubted.len() > DOUBTED_MAX
            && let Some(first) = doubted.pop_front()
        {
            self.forget(first);
        }
    }

    pub(super) fn list(&self) -> Vec<CachedSequence> {
        let slots = self.slots.read();
        let mut all: Vec<CachedSequence> = slots
            .iter()
            .filter_map(|(obj, slot)| {
                let loads = slot.loads.lock();
                let range = slot.held.lock().range;
                Some(CachedSequence {
                    obj: *obj,
                    def: loads.def.clone()?,
                    next: (range.count > 0).then_some(range.first),
                    count: range.count,
                    loads: loads.count,
                    load_us: loads.us,
                })
            })
            .collect();
        all.sort_by_key(|cached| cached.obj);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::TypeKind;

    fn def(obj: u32) -> SequenceDef {
        SequenceDef {
            obj: ObjId(obj),
            schema: "public".into(),
            name: "s".into(),
            owner: ObjId(10),
            acl: None,
            kind: TypeKind::Int8,
            start: 1,
            increment: 1,
            min: 1,
            max: 9,
            cache: 20,
            cycle: false,
            order: false,
            table: None,
            generation: 0,
            version: 1,
        }
    }

    #[test]
    fn a_range_is_handed_out_once_and_in_order() {
        let caches = Caches::default();
        let slot = caches.slot(ObjId(1));
        assert_eq!(slot.take(0), None);
        slot.put(Range { first: i64::MAX - 3, increment: 3, count: 2 }, 0);
        assert_eq!(caches.list(), [], "nobody has said what it is");
        slot.note_load(&def(1), 5);
        let listed = caches.list();
        assert_eq!((listed[0].next, listed[0].count), (Some(i64::MAX - 3), 2));
        assert_eq!((listed[0].loads, listed[0].load_us), (1, 5));
        assert_eq!(
            (slot.take(0), slot.take(0), slot.take(0)),
            (Some(i64::MAX - 3), Some(i64::MAX), None)
        );
    }

    #[test]
    fn other_rules_give_up_what_was_taken() {
        let slot = Slot::default();
        slot.put(Range { first: 1, increment: 1, count: 20 }, 4);
        assert_eq!((slot.take(4), slot.take(4)), (Some(1), Some(2)));
        assert!(slot.is_empty(5) && !slot.is_empty(4));
        assert_eq!((slot.take(5), slot.take(4)), (None, None));
    }

    #[test]
    fn what_is_withdrawn_is_handed_out_no_more() {
        let caches = Caches::default();
        caches.slot(ObjId(1)).put(Range { first: 10, increment: 5, count: 3 }, 4);
        let withdrawn = caches.withdraw(ObjId(1), 4).expect("held");
        assert_eq!((withdrawn.given(), withdrawn.last()), (Some(5), 20));
        assert_eq!(caches.slot(ObjId(1)).take(4), None);
        assert!(caches.withdraw(ObjId(1), 4).is_none() && caches.withdraw(ObjId(2), 4).is_none());
        withdrawn.give_back();
        assert_eq!(caches.slot(ObjId(1)).take(4), Some(10));
        let withdrawn = caches.withdraw(ObjId(1), 4).expect("held");
        caches.slot(ObjId(1)).put(Range { first: 50, increment: 5, count: 3 }, 4);
        withdrawn.give_back();
        assert_eq!(caches.slot(ObjId(1)).take(4), Some(50), "others have been taken");
        assert!(caches.withdraw(ObjId(1), 5).is_none(), "by other rules");
    }

    #[test]
    fn values_of_sequences_in_doubt_are_kept_while_they_are_few() {
        let caches = Caches::default();
        let number = |n: usize| ObjId(u32::try_from(n).expect("small"));
        for obj in (0..=DOUBTED_MAX).map(number) {
            caches.doubt(obj);
            caches.slot(obj).put(Range { first: 7, increment: 1, count: 2 }, 0);
            caches.slot(obj).note_load(&def(obj.0), 1);
        }
        assert_eq!(caches.list().len(), DOUBTED_MAX + 1, "nothing was held yet");
        for obj in (0..=DOUBTED_MAX).map(number) {
            caches.doubt(obj);
            caches.doubt(obj);
        }
        assert_eq!(caches.list().len(), DOUBTED_MAX);
        assert_eq!(caches.slot(number(0)).take(0), None);
        assert_eq!(caches.slot(number(1)).take(0), Some(7));
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
        slot.put(Range { first: 1, increment: 1, count: 20 }, 0);
        slot.note_load(&def(1), 1);
        caches.forget(ObjId(1));
        assert_eq!(slot.take(0), None);
        assert!(caches.list().is_empty());
    }
}
