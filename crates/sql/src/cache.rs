//! The plan cache of an instance (the field's library cache): statements by text, schema path and
//! parameter types.
//!
//! What it promises: bounded memory; a hit costs one look-up; of what was held and is not any more
//! it knows that, for a while. Whether a plan is still current is asked by whoever takes it.

use crate::plan::Plan;
use env::latch::{Latch, LatchList};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Plans held.
const PLANS_MAX: usize = 2_000;
/// Longest text of a statement whose plan is held.
pub(crate) const TEXT_BYTES_MAX: usize = 32 << 10;

/// Texts remembered that have come once, and as many that were held.
const REMEMBERED: usize = 4_096;

/// What a plan is found by.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct PlanKey {
    pub(crate) text: Arc<str>,
    pub(crate) param_oids: Vec<u32>,
    /// Schema path and time zone: what the meaning of a text depends on.
    pub(crate) session: Arc<str>,
}

struct Slot {
    plan: Arc<Plan>,
    used: AtomicBool,
}

#[derive(Default)]
struct Plans {
    by_key: HashMap<PlanKey, Slot>,
    /// Keys in the order in which they may be given up: second chance.
    order: VecDeque<PlanKey>,
    seen_once: Remembered,
    given_up: Remembered,
}

/// Hashes of keys, by their last digits: of two with the same ones the newer.
#[derive(Default)]
struct Remembered(Vec<u64>);

impl Remembered {
    /// Puts a hash, or 0, where this one would be; what was there.
    fn replace(&mut self, hash: u64, by: u64) -> u64 {
        self.0.resize(REMEMBERED, 0);
        let at = usize::try_from(hash % REMEMBERED as u64).expect("small");
        std::mem::replace(&mut self.0[at], by)
    }
}

impl Plans {
    /// Whether the text has not come lately. It is remembered.
    fn is_first_sight(&mut self, key: &PlanKey) -> bool {
        let hash = self.by_key.hasher().hash_one(key);
        self.seen_once.replace(hash, hash) != hash
    }

    /// Lets go of a plan that is held.
    fn give_up(&mut self, key: &PlanKey) {
        if self.by_key.remove(key).is_some() {
            let hash = self.by_key.hasher().hash_one(key);
            self.given_up.replace(hash, hash);
        }
    }
}

/// See the module.
pub(crate) struct PlanCache(Latch<Plans>);

impl Default for PlanCache {
    fn default() -> PlanCache {
        PlanCache(Latch::new("library cache", Plans::default()))
    }
}

impl PlanCache {
    /// Tells of its latch.
    pub(crate) fn latches(&self, list: &mut LatchList) {
        list.add(&self.0);
    }

    pub(crate) fn get(&self, key: &PlanKey) -> Option<Arc<Plan>> {
        let plans = self.0.lock();
        let slot = plans.by_key.get(key)?;
        slot.used.store(true, Ordering::Relaxed);
        Some(slot.plan.clone())
    }

    /// Keeps a plan. That of a text without parameters is kept when the text comes for the second
    /// time: most such texts have values in them and never come again. `at_once`: when it comes for
    /// the first time, as in a session whose misses are looked at.
    pub(crate) fn put(&self, key: PlanKey, plan: Arc<Plan>, at_once: bool) {
        if key.text.len() > TEXT_BYTES_MAX {
            return;
        }
        let mut plans = self.0.lock();
        let bare = plan.params.is_empty() && plan.hidden.is_empty();
        if bare && !at_once && plans.is_first_sight(&key) {
            return;
        }
        let slot = Slot { plan, used: AtomicBool::new(false) };
        if plans.by_key.insert(key.clone(), slot).is_none() {
            plans.order.push_back(key);
        }
        while plans.by_key.len() > PLANS_MAX {
            let Some(oldest) = plans.order.pop_front() else { break };
            let used =
                plans.by_key.get(&oldest).is_some_and(|s| s.used.swap(false, Ordering::Relaxed));
            if used {
                plans.order.push_back(oldest);
            } else {
                plans.give_up(&oldest);
            }
        }
    }

    /// A plan has been found out of date: it is let go of. Whether nobody has done so before.
    pub(crate) fn invalidate(&self, key: &PlanKey, plan: &Arc<Plan>) -> bool {
        let mut plans = self.0.lock();
        let held = plans.by_key.get(key).is_some_and(|slot| Arc::ptr_eq(&slot.plan, plan));
        if held {
            plans.give_up(key);
            plans.order.retain(|other| other != key);
        }
        held
    }

    /// Whether a plan was held that has been let go of since this was last asked.
    pub(crate) fn was_held(&self, key: &PlanKey) -> bool {
        let mut plans = self.0.lock();
        let hash = plans.by_key.hasher().hash_one(key);
        let found = plans.given_up.replace(hash, 0);
        if found != hash {
            plans.given_up.replace(hash, found);
        }
        found == hash
    }

    pub(crate) fn clear(&self) {
        let mut plans = self.0.lock();
        for key in std::mem::take(&mut plans.order) {
            plans.give_up(&key);
        }
        plans.by_key.shrink_to_fit();
        plans.seen_once = Remembered::default();
    }
}

/// Named plans of a session (`PREPARE`).
pub(crate) type Named<T> = BTreeMap<String, T>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Kind;
    use std::sync::OnceLock;

    fn key(n: usize) -> PlanKey {
        PlanKey {
            text: format!("select {n}").into(),
            param_oids: Vec::new(),
            session: "public".into(),
        }
    }

    fn plan() -> Arc<Plan> {
        Arc::new(Plan {
            kind: Kind::Empty,
            tables: Vec::new(),
            params: Vec::new(),
            hidden: Vec::new(),
            columns: Vec::new(),
            returns_rows: false,
            views: Vec::new(),
            once: false,
            measured: false,
            hash: OnceLock::new(),
            number: OnceLock::new(),
            cursor: OnceLock::new(),
        })
    }

    #[test]
    fn what_was_never_held_was_not_let_go_of() {
        let cache = PlanCache::default();
        // It comes for the first time, and is not held.
        cache.put(key(1), plan(), false);
        assert!(cache.get(&key(1)).is_none() && !cache.was_held(&key(1)));
        cache.put(key(1), plan(), false);
        assert!(cache.get(&key(1)).is_some() && !cache.was_held(&key(1)));
    }

    #[test]
    fn a_plan_out_of_date_is_let_go_of_once() {
        let cache = PlanCache::default();
        let old = plan();
        cache.put(key(1), old.clone(), true);
        assert!(cache.invalidate(&key(1), &old));
        assert!(!cache.invalidate(&key(1), &old), "another session has found the same");
        assert!(cache.get(&key(1)).is_none());
        assert!(cache.was_held(&key(1)));
        assert!(!cache.was_held(&key(1)), "it has been made again");
        let new = plan();
        cache.put(key(1), new.clone(), true);
        assert!(!cache.invalidate(&key(1), &old), "that is not held");
        assert!(cache.get(&key(1)).is_some_and(|held| Arc::ptr_eq(&held, &new)));
    }

    #[test]
    fn what_is_not_used_is_aged_out() {
        let cache = PlanCache::default();
        for n in 0..=PLANS_MAX {
            cache.put(key(n), plan(), true);
        }
        assert!(cache.get(&key(0)).is_none() && cache.was_held(&key(0)));
        assert!(cache.get(&key(1)).is_some() && !cache.was_held(&key(1)));
        cache.clear();
        assert!(cache.get(&key(2)).is_none());
        assert!(cache.was_held(&key(PLANS_MAX)), "the last of those with its digits");
    }
}
