//! Who holds what, looked at from outside: the invariants of the global cache.
//!
//! By the holders' own views, at any moment: one instance has a block in X and nobody else has it,
//! or
//! several have it in S, all in the same version, at most one of them dirty. No past image is newer
//! than the current block.

use std::collections::BTreeMap;

use block::{Dba, InstanceNo, Mode};
use kernel::gcs::Held;

use crate::cluster::Cluster;

/// Looks at all living members.
///
/// # Panics
/// When an invariant does not hold: the run has found a bug.
pub fn check(cluster: &Cluster) {
    let mut blocks: BTreeMap<Dba, Vec<(u8, Held)>> = BTreeMap::new();
    let living = cluster.open.iter().filter(|(k, _)| cluster.world.is_alive(**k));
    // Who is out may live on where lives hang on leases; what it believes to hold is nothing.
    let newest = living.clone().map(|(_, i)| i.node.view()).max_by_key(|view| view.epoch);
    let members = newest.map(|view| view.members.clone()).unwrap_or_default();
    let by_locks = cluster.membership.lease.is_none();
    for (&k, instance) in living.filter(|(k, _)| by_locks || members.contains(&InstanceNo(**k))) {
        for held in instance.node.holdings() {
            blocks.entry(held.dba).or_default().push((k, held));
        }
    }
    for (dba, all) in blocks {
        if let Some(why) = broken(&all) {
            cluster.print_alerts();
            panic!("block {dba}: {why}: {all:?}");
        }
    }
}

fn broken(all: &[(u8, Held)]) -> Option<&'static str> {
    let current: Vec<&Held> = all.iter().map(|h| &h.1).filter(|h| h.mode != Mode::N).collect();
    let first = current.first()?;
    if current.len() > 1 && current.iter().any(|h| h.mode == Mode::X) {
        return Some("X together with another right");
    }
    if current.iter().any(|h| h.version != first.version) {
        return Some("copies of two versions");
    }
    if current.iter().filter(|h| h.dirty).count() > 1 {
        return Some("two writers");
    }
    if all.iter().any(|(_, h)| h.past.is_some_and(|p| p > first.version)) {
        return Some("a past image is newer than the block");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::{Scn, Version};

    fn held(mode: Mode, count: u64, past: Option<u64>) -> (u8, Held) {
        let version = |count| Version { format: Scn(1), count };
        let (dba, past) = (Dba::new(4, 1), past.map(version));
        (1, Held { dba, mode, version: version(count), dirty: mode == Mode::X, past })
    }

    #[test]
    fn each_violation_is_found() {
        let fine = [held(Mode::S, 5, Some(4)), held(Mode::S, 5, None), held(Mode::N, 0, Some(5))];
        assert_eq!(broken(&fine), None);
        assert!(broken(&[held(Mode::X, 5, None), held(Mode::S, 5, None)]).is_some());
        assert!(broken(&[held(Mode::S, 5, None), held(Mode::S, 6, None)]).is_some());
        assert!(broken(&[held(Mode::X, 5, None), held(Mode::N, 0, Some(6))]).is_some());
        let mut writers = [held(Mode::S, 5, None), held(Mode::S, 5, None)];
        writers.iter_mut().for_each(|w| w.1.dirty = true);
        assert!(broken(&writers).is_some());
    }
}
