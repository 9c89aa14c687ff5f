//! Looking into the memory of the machine's other instances, where they show it (`shown`): a
//! consistent read, the state of a transaction, an undo block and the news of a commit need no
//! message and wake nobody.
//!
//! Promises: what is seen was so at one moment between call and return, in the epoch in force and
//! with this instance not frozen: nobody can have been given what a dead instance still shows. Must
//! never wait; what cannot be seen is asked for by message.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use block::{Dba, InstanceNo, Scn, Xid, layout};
use env::Lane;
use global::Epoch;
use global::msg::TxnMessage;
use observe::{Ctx, Stat};
use parking_lot::RwLock;

use super::calls::CallKind;
use super::node::Node;
use super::transactions::born;
use crate::shown::{PeerMemory, TxShown};
use crate::txn::TxStatus;

/// So many looks at one version of a block; then it is asked for, and its holder may share it.
const LOOKS_BEFORE_ASKING: u64 = 64;

/// Blocks of which looks are counted, the newest by its address.
const COUNTED: usize = 1024;

/// Buffers shown in one go when an instance ceases to be alone.
const SHOWN_AT_ONCE: usize = 256;

/// The memories found in one epoch.
struct Found {
    epoch: Epoch,
    memories: Vec<(InstanceNo, PeerMemory)>,
}

/// What this instance sees of others.
pub(super) struct Looks {
    allowed: bool,
    found: RwLock<Arc<Found>>,
    /// Of the block last looked at here: a hash of its version, and how often.
    counts: Vec<AtomicU64>,
}

impl Looks {
    pub fn new(allowed: bool) -> Looks {
        Looks {
            allowed,
            found: RwLock::new(Arc::new(Found { epoch: Epoch(0), memories: Vec::new() })),
            counts: (0..COUNTED).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    pub fn allowed(&self) -> bool {
        self.allowed
    }

    /// Another epoch is entered: what was found in the last one is let go.
    pub fn forget(&self, epoch: Epoch) {
        *self.found.write() = Arc::new(Found { epoch, memories: Vec::new() });
    }

    fn found(&self) -> Arc<Found> {
        self.found.read().clone()
    }

    /// The count of looks at a block, and what tells its blocks apart.
    fn count_of(&self, dba: Dba) -> (&AtomicU64, u64) {
        let h = dba.to_u64().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        (&self.counts[usize::try_from(h).expect("32 bits") % COUNTED], h)
    }

    /// Whether the block last counted where this one is has been looked at too often.
    fn was_quiet(&self, dba: Dba) -> bool {
        self.count_of(dba).0.load(Ordering::Relaxed) & 0xff > LOOKS_BEFORE_ASKING
    }

    /// Whether one version of a block has been looked at so often that it had better be shared.
    fn is_quiet(&self, dba: Dba, image: &[u8]) -> bool {
        let (count, h) = self.count_of(dba);
        let version = layout::version(image);
        let of = h ^ version.format.0 << 16 ^ version.count;
        let old = count.load(Ordering::Relaxed);
        let n = if old >> 8 == of & (u64::MAX >> 8) { (old & 0xff) + 1 } else { 1 };
        count.store(of << 8 | n.min(0xff), Ordering::Relaxed);
        n > LOOKS_BEFORE_ASKING
    }
}

impl Found {
    fn of(&self, instance: InstanceNo) -> Option<&PeerMemory> {
        self.memories.iter().find(|m| m.0 == instance).map(|m| &m.1)
    }

    /// Who shows the block, and where.
    fn that_shows(&self, dba: Dba) -> Option<(&PeerMemory, usize)> {
        self.memories.iter().find_map(|(_, memory)| Some((memory, memory.place_of(dba)?)))
    }
}

impl Node {
    /// Whether what has just been seen can be believed: nobody has gone on to another epoch, since
    /// this instance would have had to let it.
    fn still_in(&self, epoch: Epoch, memory: &PeerMemory) -> bool {
        // The owner's word: one who has gone on without this instance is not looked at either.
        memory.epoch() == epoch.0 && !self.cache.is_frozen() && self.view.read().epoch == epoch
    }

    /// The newest image of a block that another instance holds in X.
    fn look(&self, dba: Dba, scn: Scn) -> Option<Vec<u8>> {
        let found = self.looks.found();
        let (memory, place) = found.that_shows(dba)?;
        // Before the look: what is committed after it lies above the snapshot (hazard H8).
        memory.raise_clock(scn);
        let image = memory.copy_at(place, dba)?;
        if !self.still_in(found.epoch, memory) {
            return None;
        }
        self.core.clock.raise(layout::scn(&image));
        Some(image)
    }

    pub(super) fn look_for_copy(&self, ctx: &Ctx, dba: Dba, scn: Scn) -> Option<Vec<u8>> {
        let image = self.look(dba, scn)?;
        if self.looks.is_quiet(dba, &image) {
            return None;
        }
        ctx.bump(Stat::GcCrBlocksSeen, 1);
        Some(image)
    }

    pub(super) fn may_look(&self, dba: Dba) -> bool {
        !self.looks.was_quiet(dba) && self.looks.found().that_shows(dba).is_some()
    }

    pub(super) fn look_for_undo(&self, ctx: &Ctx, xid: Xid, dba: Dba) -> Option<Vec<u8>> {
        let found = self.looks.found();
        // Its owner alone writes it; with another it would be an older version.
        let memory = found.of(born(xid.usn))?;
        let image = memory.copy(dba)?;
        if !self.still_in(found.epoch, memory) {
            return None;
        }
        self.core.clock.raise(layout::scn(&image));
        ctx.bump(Stat::GcUndoBlocksSeen, 1);
        Some(image)
    }

    pub(super) fn look_for_status(&self, ctx: &Ctx, xid: Xid, scn: Scn) -> Option<TxStatus> {
        let owner = born(xid.usn);
        let found = self.looks.found();
        let memory = found.of(owner)?;
        // Before the look (hazard H8).
        memory.raise_clock(scn);
        let state = memory.transaction(xid)?;
        if !self.still_in(found.epoch, memory) {
            return None;
        }
        if let TxShown::Committing(scn) | TxShown::Committed(scn) = state {
            self.core.clock.raise(scn);
        }
        ctx.bump(Stat::TransactionStatesSeen, 1);
        Some(match state {
            TxShown::Gone => TxStatus::Gone,
            TxShown::Active => TxStatus::Active,
            TxShown::Committing(scn) => TxStatus::Committing(scn),
            TxShown::Committed(scn) => TxStatus::Committed(scn),
        })
    }

    /// Tells an instance a commit SCN: its clock and its snapshots are above it from now on.
    /// `false`: it must be told by message.
    pub(super) fn tell_by_look(&self, to: InstanceNo, scn: Scn) -> bool {
        let found = self.looks.found();
        let Some(memory) = found.of(to) else { return false };
        memory.raise_clock(scn);
        memory.raise_floor(scn);
        self.still_in(found.epoch, memory)
    }

    /// In an epoch with others: shows them this instance's blocks, and finds what they show.
    pub(super) fn start_looking(&self, epoch: Epoch) {
        if !self.looks.allowed || self.cache.shown.is_none() || self.view().members.len() < 2 {
            return;
        }
        let node = self.arc();
        self.env.spawn_task("peer memory", Lane::Background, async move {
            node.find_memories(epoch).await;
            node.show_all(epoch).await;
        });
    }

    async fn find_memories(&self, epoch: Epoch) {
        let mut memories = Vec::new();
        for &to in self.view().members.iter().filter(|m| **m != self.me) {
            let kind = CallKind::Memory.code();
            let make = |req_id| TxnMessage::Call { req_id, kind, body: Vec::new() };
            // A question that another epoch overtakes is asked in that one.
            let Some(TxnMessage::CallReply { ok: true, body, .. }) = self.call(to, make).await
            else {
                continue;
            };
            let descriptor = String::from_utf8_lossy(&body);
            match self.env.look_at(&descriptor).map(PeerMemory::new) {
                Ok(Some(memory)) => memories.push((to, memory)),
                Ok(None) => {}
                Err(e) => {
                    let text = format!(
                        "the memory of instance {to} cannot be seen ({e}): its blocks are copied \
                         by message"
                    );
                    self.ctx.alert(observe::AlertLevel::Info, text);
                }
            }
        }
        let mut found = self.looks.found.write();
        if found.epoch <= epoch {
            *found = Arc::new(Found { epoch, memories });
        }
    }

    /// Shows what is held already; what changes from now on is shown as it does.
    async fn show_all(&self, epoch: Epoch) {
        let Some(shown) = &self.cache.shown else { return };
        {
            let _gate = self.cache.enter_protocol();
            if self.view().epoch != epoch {
                return;
            }
            shown.set_on(true);
        }
        // By their addresses: who keeps a buffer keeps it from being replaced.
        let held: Vec<Dba> = self.cache.buffers().iter().map(|b| b.dba).collect();
        for dbas in held.chunks(SHOWN_AT_ONCE) {
            dbas.iter().for_each(|dba| self.cache.show(*dba));
            self.env.sleep(std::time::Duration::from_millis(1)).await;
            if self.view().epoch != epoch {
                return;
            }
        }
    }
}
