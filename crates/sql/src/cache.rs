//! The plan cache of an instance (the field's library cache): statements by text, schema path and
//! parameter types.
//!
//! What it promises: bounded memory; a hit costs one look-up. Whether a plan is still current is
//! asked by whoever takes it.

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

/// Texts remembered that have come once.
const SEEN_ONCE: usize = 4_096;

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
    /// Hashes of texts that came once, by their last digits.
    seen_once: Vec<u64>,
}

impl Plans {
    /// Whether the text has not come lately. It is remembered.
    fn is_first_sight(&mut self, key: &PlanKey) -> bool {
        let hash = self.by_key.hasher().hash_one(key);
        self.seen_once.resize(SEEN_ONCE, 0);
        let at = usize::try_from(hash % SEEN_ONCE as u64).expect("small");
        std::mem::replace(&mut self.seen_once[at], hash) != hash
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
                plans.by_key.remove(&oldest);
            }
        }
    }

    pub(crate) fn clear(&self) {
        *self.0.lock() = Plans::default();
    }
}

/// Named plans of a session (`PREPARE`).
pub(crate) type Named<T> = BTreeMap<String, T>;
