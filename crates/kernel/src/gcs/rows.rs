//! What `v$gc_element` and `v$ges_enqueue` show: rights to blocks and enqueues, each as it stood at
//! its own moment.

use std::sync::Arc;

use block::{Dba, InstanceNo, Mode};
use env::latch::LatchList;
use global::msg::{GesMode, Resource};
use observe::SessionState;

use super::node::Node;
use super::transactions::born;

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
    /// Tells of the latches of both services.
    pub(crate) fn latches(&self, list: &mut LatchList) {
        list.add(&self.master);
        self.enqueues.latches(list);
    }

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
        self.transaction_rows(&mut rows);
        rows
    }

    /// Adds transactions of other instances that sessions of this one wait for, and these waits.
    /// The service knows nothing of them, whoever waits asks the owner: they are told of where
    /// somebody waits, and their owner is their master.
    fn transaction_rows(&self, rows: &mut Vec<EnqueueRow>) {
        let waits = self.core.waits.all();
        if waits.iter().all(|wait| wait.any_of.is_empty()) {
            return;
        }
        let (view, sessions) = (self.view(), self.observer.session_states());
        let now = self.env.now();
        for wait in waits {
            let waits_as = |state: &&Arc<SessionState>| state.own_numbers().0 == wait.id;
            let mode = sessions.iter().find(waits_as).and_then(|s| s.wait_view(now).tx_mode());
            for xid in wait.any_of {
                let home = view.answers_for(born(xid.usn));
                if home == self.me {
                    continue;
                }
                let slot = u32::from(xid.usn) << 16 | u32::from(xid.slot);
                let holder = EnqueueRow {
                    resource: Resource::new(*b"TX", slot, xid.seq),
                    owner: home,
                    master: home,
                    granted: GesMode::X,
                    requested: None,
                    is_blocker: true,
                };
                if !rows.contains(&holder) {
                    rows.push(holder);
                }
                let wanted = GesMode::ALL.into_iter().find(|m| Some(m.number()) == mode);
                rows.push(EnqueueRow {
                    owner: self.me,
                    granted: GesMode::Null,
                    requested: Some(wanted.unwrap_or(GesMode::X)),
                    is_blocker: false,
                    ..holder
                });
            }
        }
    }
}
