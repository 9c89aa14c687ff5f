//! What `v$gc_element` and `v$ges_enqueue` show: rights to blocks and enqueues, each as it stood at
//! its own moment.

use block::{Dba, InstanceNo, Mode};
use global::msg::{GesMode, Resource};

use super::node::Node;

/// A block to which this instance has or wants a right.
#[derive(Clone, Copy, Debug)]
pub struct ElementRow {
    pub dba: Dba,
    pub mode: Mode,
    pub master: InstanceNo,
    /// It is being asked for.
    pub acquiring: bool,
    /// It is being given up, or another instance waits for it.
    pub releasing: bool,
    /// A write to disk is in flight.
    pub writing: bool,
    pub past_image: bool,
}

/// What one instance has or wants of an enqueue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EnqueueRow {
    pub resource: Resource,
    pub owner: InstanceNo,
    pub master: InstanceNo,
    pub granted: GesMode,
    /// What it will have; `None`: it waits for nothing.
    pub requested: Option<GesMode>,
    /// Another instance waits for it.
    pub is_blocker: bool,
}

impl Node {
    /// Blocks to which this instance has or wants a right, or of which it keeps a past image.
    #[must_use]
    pub fn element_rows(&self) -> Vec<ElementRow> {
        let view = self.view();
        let row = |buffer: std::sync::Arc<crate::cache::Buffer>| {
            let st = buffer.latch().read();
            let holder = &st.holder;
            let row = ElementRow {
                dba: buffer.dba,
                mode: holder.mode(),
                master: view.map.master_of(buffer.dba),
                acquiring: holder.pending().is_some(),
                releasing: holder.is_releasing() || holder.duty().is_some(),
                writing: st.writing,
                past_image: st.past_image.is_some(),
            };
            let any = row.mode != Mode::N || row.acquiring || row.releasing || row.past_image;
            any.then_some(row)
        };
        self.cache.buffers().into_iter().filter_map(row).collect()
    }

    /// Enqueues that this instance masters, with what each instance has and wants of them, and what
    /// it has and wants itself of those that others master.
    #[must_use]
    pub fn enqueue_rows(&self) -> Vec<EnqueueRow> {
        let view = self.view();
        let master_of = |resource: Resource| view.map.master_of_hash(resource.hash());
        let mut rows = Vec::new();
        let master = self.me;
        self.for_each_mastered(|resource, known| {
            for &(owner, granted) in &known.holders {
                let requested = known.queue.iter().find(|q| q.0 == owner).map(|q| q.1);
                let mut others = known.queue.iter().filter(|q| q.0 != owner);
                let is_blocker = others.any(|q| !q.1.compatible(granted));
                rows.push(EnqueueRow { resource, owner, master, granted, requested, is_blocker });
            }
            let newcomers = known.queue.iter().filter(|q| known.holders.iter().all(|h| h.0 != q.0));
            rows.extend(newcomers.map(|&(owner, wanted)| EnqueueRow {
                resource,
                owner,
                master,
                granted: GesMode::Null,
                requested: Some(wanted),
                is_blocker: false,
            }));
        });
        self.for_each_shadow(|shadow| {
            let (resource, granted) = (shadow.resource(), shadow.mode());
            let master = master_of(resource);
            if master != self.me && !shadow.is_idle() {
                let wanted = shadow.waiting().iter().filter(|w| !granted.covers(w.mode));
                let wanted = wanted.map(|w| w.mode).reduce(GesMode::join);
                let requested = wanted.map(|mode| mode.join(granted));
                let is_blocker = shadow.is_wanted_elsewhere();
                let owner = self.me;
                rows.push(EnqueueRow { resource, owner, master, granted, requested, is_blocker });
            }
        });
        rows
    }
}
