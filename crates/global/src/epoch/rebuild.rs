//! A directory from reports: who holds what, and what must be done so that the newest version of
//! every block has somebody who answers for it.
//!
//! The recovery set is decided here (C1, M9): blocks changed in a dead thread, and blocks with a
//! past image, or a copy newer than disk, but without a living writer. Where a living copy or past
//! image is as new as everything the dead threads know, nothing is recovered: its holder becomes
//! the writer. Only what is left is locked.

use std::collections::BTreeMap;

use block::{Dba, InstanceNo, Mode, Version};

use crate::master::{EntryView, Master, MasterEffect};
use crate::msg::{Holding, Recovered};

/// What must happen to a block before, or right after, requests go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Its entry says it all.
    AsItIs,
    /// This holder has the duty to write from now on; it is told.
    MakeWriter { instance: InstanceNo },
    /// Nobody holds it; this past image is as new as anything known. Its instance compares it with
    /// disk, and holds the block in X if it is newer.
    Promote { instance: InstanceNo, version: Version },
    /// A dead thread has changes newer than all that lives: lock it, rebuild it from the past image
    /// (if it is newer than disk) or disk, by redo up to `dead`.
    Recover { past: Option<(InstanceNo, Version)>, dead: Version },
    /// The reports contradict each other: a bug; this instance must stop rather than guess.
    Broken(&'static str),
}

/// Decides about one block: `reports` of the living, and the highest version of it in dead threads.
#[must_use]
pub fn decide(reports: &[(InstanceNo, Holding)], dead: Option<Version>) -> (EntryView, Decision) {
    let mut view = EntryView::default();
    let mut copy: Option<Version> = None;
    let mut dirty: Option<InstanceNo> = None;
    let mut unwritten = false;
    for &(i, h) in reports {
        view.past.extend(h.past.map(|v| (i, v)));
        match h.mode {
            Mode::N => continue,
            Mode::S => view.s.push(i),
            Mode::X if view.x.is_some() => return (view, Decision::Broken("two holders in X")),
            Mode::X => view.x = Some(i),
        }
        if copy.is_some_and(|v| v != h.version) {
            return (view, Decision::Broken("copies of two versions"));
        }
        copy = Some(h.version);
        unwritten |= h.unwritten;
        if h.writer {
            if dirty.is_some() {
                return (view, Decision::Broken("two writers"));
            }
            dirty = Some(i);
        }
    }
    if view.x.is_some() && !view.s.is_empty() {
        return (view, Decision::Broken("X together with S"));
    }
    view.writer = dirty.filter(|_| view.x.is_none());
    let decision = match copy {
        Some(version) => decide_held(&view, version, dirty, unwritten, dead),
        None => decide_unheld(&view, dead),
    };
    (view, decision)
}

fn decide_held(
    view: &EntryView,
    version: Version,
    dirty: Option<InstanceNo>,
    unwritten: bool,
    dead: Option<Version>,
) -> Decision {
    if dead > Some(version) {
        return Decision::Broken("a dead thread is ahead of a living copy");
    }
    if view.past.iter().any(|p| p.1 > version) {
        return Decision::Broken("a past image is ahead of a living copy");
    }
    // A writer that lives need only know that somebody waits for its write. Somebody is also the
    // dead thread: its redo lies under this copy, and is given up only when the copy is on disk.
    let needed = !view.past.is_empty() || dead.is_some() || (dirty.is_none() && unwritten);
    let instance = dirty.or(view.x).or_else(|| view.s.iter().copied().min());
    match instance {
        Some(instance) if needed => Decision::MakeWriter { instance },
        _ => Decision::AsItIs,
    }
}

fn decide_unheld(view: &EntryView, dead: Option<Version>) -> Decision {
    let newest = view.past.iter().copied().max_by_key(|p| (p.1, std::cmp::Reverse(p.0)));
    match (newest, dead) {
        (None, None) => Decision::AsItIs,
        (past, Some(dead)) if past.is_none_or(|p| p.1 < dead) => Decision::Recover { past, dead },
        (Some((instance, version)), _) => Decision::Promote { instance, version },
        (None, Some(_)) => unreachable!("matched above"),
    }
}

/// A block locked for recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unfinished {
    pub addr: Dba,
    /// The newest past image among the living.
    pub past: Option<(InstanceNo, Version)>,
    /// The highest version in a dead thread.
    pub dead: Version,
}

/// Collects reports, then rebuilds one master's part of the directory.
#[derive(Default)]
pub struct Rebuild {
    /// As they come: a million of them are sorted once, while everybody waits.
    reports: Vec<(InstanceNo, Holding)>,
    /// The highest version of each block in dead threads.
    dead: BTreeMap<Dba, Version>,
}

/// The result of a rebuild.
#[derive(Default, Debug)]
pub struct Rebuilt {
    /// Messages of the duties.
    pub effects: Vec<MasterEffect>,
    /// This master's part of the recovery set.
    pub set: Vec<Unfinished>,
    /// Contradictions: stop this instance.
    pub broken: Vec<(Dba, &'static str)>,
}

impl Rebuild {
    #[must_use]
    pub fn new() -> Rebuild {
        Rebuild::default()
    }

    /// A batch of what an instance holds of the blocks mastered here.
    pub fn report(&mut self, from: InstanceNo, items: &[Holding]) {
        self.reports.extend(items.iter().map(|&h| (from, h)));
    }

    /// A batch of what was found in dead threads; of several versions the highest counts.
    pub fn dead_changes(&mut self, items: &[Recovered]) {
        for r in items {
            let dead = self.dead.entry(r.addr).or_insert(r.version);
            *dead = (*dead).max(r.version);
        }
    }

    /// Fills `master` (emptied first); blocks of the set are locked by `recoverer`.
    pub fn finish(self, now_us: u64, master: &mut Master, recoverer: InstanceNo) -> Rebuilt {
        let Rebuild { mut reports, mut dead } = self;
        master.clear();
        let mut rebuilt = Rebuilt::default();
        let mut one = |addr: Dba, reports: &[(InstanceNo, Holding)], dead: Option<Version>| {
            let (view, decision) = decide(reports, dead);
            match decision {
                Decision::Broken(why) => rebuilt.broken.push((addr, why)),
                Decision::Recover { past, dead } => {
                    master.install(addr, &view, Some(recoverer));
                    rebuilt.set.push(Unfinished { addr, past, dead });
                }
                Decision::AsItIs => master.install(addr, &view, None),
                Decision::MakeWriter { instance } => {
                    let mut view = view;
                    if view.x.is_none() {
                        view.writer = Some(instance);
                    }
                    master.install(addr, &view, None);
                    master.tell_writer(now_us, addr, instance, dead, &mut rebuilt.effects);
                }
                Decision::Promote { .. } => {
                    master.install(addr, &view, None);
                    master.promote(now_us, addr, dead, &mut rebuilt.effects);
                }
            }
        };
        // Those of one block stay in the order in which they came.
        reports.sort_by_key(|(_, h)| h.addr);
        for group in reports.chunk_by(|a, b| a.1.addr == b.1.addr) {
            let addr = group[0].1.addr;
            one(addr, group, dead.remove(&addr));
        }
        // Nobody alive has these.
        for (addr, version) in dead {
            one(addr, &[], Some(version));
        }
        rebuilt
    }
}
