//! Crashes and epochs in the one-block world: the Marker cut as the kernel must do it, the rebuild
//! by `global::epoch`, and a recovery that applies the dead threads' changes and checks that there
//! is no gap.

use block::{InstanceNo, Version};
use global::epoch::Rebuild;
use global::holder::HolderEvent;
use global::msg::Recovered;

use crate::world::{ADDR, Packet, World};

impl World {
    fn living(&self) -> Vec<InstanceNo> {
        self.nodes.iter().filter(|(_, n)| n.alive).map(|(&i, _)| i).collect()
    }

    /// The instance dies: what it has sent and nobody has applied is discarded (C3), its changes
    /// that are not durable have never happened.
    pub fn crash(&mut self, who: InstanceNo) {
        self.note(|| format!("i{who} dies"));
        self.node(who).alive = false;
        self.channels.retain(|&(from, to), _| from != who && to != who);
        self.log.retain(|&(_, by, durable)| by != who || durable);
        let first = self.first;
        self.newest = self.log.iter().map(|e| e.0).max().unwrap_or(first);
        let newest = self.newest;
        for n in self.nodes.values_mut() {
            if !n.alive {
                n.waiting.clear();
            }
            // What has never happened need not be seen.
            n.waiting.iter_mut().for_each(|s| s.newest = s.newest.min(newest));
        }
        self.open = false;
        // Who waited for the dead one's Marker waits no more.
        for i in self.living() {
            self.try_enter(i);
        }
    }

    /// The instance sends its Markers; from now on it says nothing more of the old epoch.
    pub fn freeze(&mut self, i: InstanceNo) {
        assert!(!self.nodes[&i].frozen && self.nodes[&i].report.is_none());
        self.open = false;
        self.node(i).frozen = true;
        self.note(|| format!("i{i}: sends its Markers"));
        for to in self.living() {
            if to != i {
                self.channels.entry((i, to)).or_default().push_back(Packet::Marker);
            }
        }
        self.try_enter(i);
    }

    /// Enters the new epoch once the Markers of all the living are here.
    pub fn try_enter(&mut self, i: InstanceNo) {
        let n = &self.nodes[&i];
        let all = self.living().into_iter().all(|p| p == i || n.markers.contains(&p));
        if !n.frozen || !all {
            return;
        }
        // Packets of the old epoch to ourselves are void too.
        self.channels.remove(&(i, i));
        let master_no = *self.living().first().expect("somebody lives");
        let n = self.node(i);
        n.master_no = master_no;
        n.frozen = false;
        n.markers.clear();
        self.step(i, HolderEvent::EnterEpoch);
        let report = self.nodes[&i].holder.holding(&self.facts(i));
        self.note(|| match &report {
            Some(h) => {
                let writer = if h.writer { " writer" } else { "" };
                let unwritten = if h.unwritten { " unwritten" } else { "" };
                let past = h.past.map(|p| format!(" past image {p}")).unwrap_or_default();
                format!("i{i}: reports {} {}{writer}{unwritten}{past}", h.mode, h.version)
            }
            None => format!("i{i}: reports nothing"),
        });
        self.node(i).report = Some(report);
        if self.living().iter().all(|p| self.nodes[p].report.is_some()) {
            self.rebuild();
        }
    }

    /// The versions of the block in the threads of the dead.
    fn dead_version(&self) -> Option<Version> {
        self.log.iter().filter(|e| self.in_dead_thread(e.1)).map(|e| e.0).max()
    }

    fn in_dead_thread(&self, by: InstanceNo) -> bool {
        !self.nodes[&by].alive && !self.closed.contains(&by)
    }

    /// The recoverer gives the dead threads up as soon as nothing is owed: at the earliest moment
    /// the protocol allows.
    pub fn close_dead_threads(&mut self) {
        let owed = self.masters.iter().any(|(i, m)| self.nodes[i].alive && !m.owed().is_empty());
        if self.open && !owed {
            let dead = self.nodes.iter().filter(|(_, n)| !n.alive).map(|(&i, _)| i);
            self.closed.extend(dead);
        }
    }

    fn rebuild(&mut self) {
        let living = self.living();
        self.master_no = *living.first().expect("somebody lives");
        let master_no = self.master_no;
        let mut rebuild = Rebuild::new();
        for &i in &living {
            let report = self.node(i).report.take().expect("all have reported");
            rebuild.report(i, &report.into_iter().collect::<Vec<_>>());
        }
        if let Some(version) = self.dead_version() {
            rebuild.dead_changes(&[Recovered { addr: ADDR, version }]);
        }
        for m in self.masters.values_mut() {
            m.clear();
        }
        let now_us = self.now_us;
        let master = self.masters.get_mut(&master_no).expect("master");
        let rebuilt = rebuild.finish(now_us, master, master_no);
        assert!(rebuilt.broken.is_empty(), "{:?}", rebuilt.broken);
        self.note(|| format!("i{master_no}: has rebuilt the directory"));
        self.send_all(master_no, rebuilt.effects);
        for block in rebuilt.set {
            self.recover(block.past, block.dead);
        }
        self.open = true;
        for (from, _, msg) in std::mem::take(&mut self.for_master) {
            self.master_step(from, master_no, &msg);
        }
        for i in living {
            self.wake(i);
        }
        self.close_dead_threads();
    }

    /// Recovery of the block: newest past image if newer than disk, else disk, then redo of the
    /// dead, version by version. A gap would be a lost change of somebody who lives (C1).
    fn recover(&mut self, past: Option<(InstanceNo, Version)>, dead: Version) {
        let base = past.map_or(self.disk, |p| p.1.max(self.disk));
        self.note(|| format!("recovery: from {base} by redo up to {dead}"));
        let mut version = base;
        while version < dead {
            version = version.next();
            let by = self.log.iter().find(|e| e.0 == version).expect("a change per version").1;
            assert!(self.in_dead_thread(by), "C1: {version} by i{by} is in no dead thread");
        }
        assert_eq!(version, self.newest, "recovery misses a change");
        self.disk = version;
        let master_no = self.master_no;
        let now_us = self.now_us;
        let mut out = Vec::new();
        let master = self.masters.get_mut(&master_no).expect("master");
        master.recovered(now_us, ADDR, version, &mut out);
        self.send_all(master_no, out);
    }

    /// The whole membership change at once: all Markers, then all deliveries.
    pub fn change_epoch(&mut self) {
        for i in self.living() {
            if !self.nodes[&i].frozen && self.nodes[&i].report.is_none() {
                self.freeze(i);
            }
        }
        self.deliver_all();
        assert!(self.open, "the epoch change does not end");
    }
}
