//! Stepping the protocol's holder of a buffer, and doing what it says.
//!
//! Under the gate (`enter_protocol`) and the buffer's latch, in this order: so that stepping and
//! sending are never split by a Marker (hazard C2), and what concerns one block is sent in the
//! order
//! in which it was decided.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use block::{Rba, Version, layout};
use env::IoBuf;
use global::{Facts, HolderEffect, HolderEvent};

use super::buffer::{Arrival, Buffer, PastImage, State};
use super::pool::Cache;

/// Uses here that the others wait for at most.
const RESERVED_USES_MAX: u32 = 16;

/// What a step may carry besides its event.
#[derive(Default)]
pub struct Carry {
    /// The image that arrived.
    pub image: Option<IoBuf>,
    /// How it came.
    pub arrival: Option<Arrival>,
}

thread_local! {
    /// How often this thread is in a step of the protocol, or holds its messages back.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Whether this thread is in a step of the protocol, at whose end what it says is sent.
pub(crate) fn in_protocol() -> bool {
    DEPTH.get() > 0
}

/// The gate, held shared. A session's panic ends the instance here, as a task's does anywhere: a
/// right given up and not sent would be lost.
///
/// What is said under it is queued, and leaves at its end, when the latches are free: who receives
/// a message runs at once, perhaps in the sender's place, and answers; the answer must not find the
/// latch held by one who waits for a processor.
pub struct InProtocol<'a> {
    cache: &'a Cache,
    _gate: parking_lot::RwLockReadGuard<'a, ()>,
    _critical: env::Critical<'a>,
}

impl Drop for InProtocol<'_> {
    fn drop(&mut self) {
        self.cache.said();
    }
}

/// What is said until this is dropped leaves together. For one who handles several messages in a
/// row; must not be kept over an await.
pub struct Together<'a>(&'a Cache, PhantomData<*const ()>);

impl Drop for Together<'_> {
    fn drop(&mut self) {
        self.0.said();
    }
}

impl Cache {
    /// Held shared while holders are stepped and what they say is sent; exclusively by the change
    /// of membership.
    pub fn enter_protocol(&self) -> InProtocol<'_> {
        let gate = self.protocol.read_recursive();
        DEPTH.set(DEPTH.get() + 1);
        let critical = self.env.critical("a step of the protocol");
        InProtocol { cache: self, _gate: gate, _critical: critical }
    }

    /// See [`Together`].
    pub fn say_together(&self) -> Together<'_> {
        DEPTH.set(DEPTH.get() + 1);
        Together(self, PhantomData)
    }

    /// The end of a step, or of several: what they have said leaves.
    fn said(&self) {
        DEPTH.set(DEPTH.get() - 1);
        if DEPTH.get() == 0
            && let Some(grants) = self.grants()
        {
            grants.send_queued();
        }
    }

    /// For the change of membership alone: nobody steps or sends while it is held.
    pub fn stop_protocol(&self) -> parking_lot::RwLockWriteGuard<'_, ()> {
        self.protocol.write()
    }

    /// Markers have been sent (true) or the new epoch has been entered (false); under
    /// `stop_protocol`.
    pub fn set_frozen(&self, frozen: bool) {
        self.frozen.store(frozen, Ordering::SeqCst);
    }

    #[must_use]
    pub fn is_frozen(&self) -> bool {
        self.frozen.load(Ordering::SeqCst)
    }

    /// The buffer as the protocol sees it.
    #[must_use]
    pub fn facts(&self, buffer: &Buffer, st: &State) -> Facts {
        let version = st.image.as_ref().map(|i| layout::version(i)).unwrap_or_default();
        self.facts_at(buffer, st, version, self.env.now().0)
    }

    /// The same at this time, of one whose image has this version.
    pub(super) fn facts_at(
        &self,
        buffer: &Buffer,
        st: &State,
        version: Version,
        now_us: u64,
    ) -> Facts {
        let (pins, change_pins) = buffer.pins_for_peers();
        Facts {
            pins,
            change_pins,
            writing: st.writing,
            dirty: st.dirty,
            version,
            redo_durable: self.log.durable() >= st.last_rba,
            past_image: st.past_image.as_ref().map(|p| p.version),
            frozen: self.is_frozen(),
            now_us,
        }
    }

    /// Steps the holder of `buffer`, whose latch the caller holds (and the protocol's gate), and
    /// does what it says.
    pub fn step(&self, buffer: &Arc<Buffer>, st: &mut State, event: HolderEvent, carry: Carry) {
        // Whoever unpins from here on looks whether a peer waits; tested again by the facts.
        if !self.is_alone() {
            buffer.pin_waiter.store(true, Ordering::SeqCst);
        }
        let mut facts = self.facts(buffer, st);
        if let HolderEvent::Block { .. } = event {
            // Facts are of before the installation.
            facts.version = Default::default();
        }
        let mut effects = Vec::new();
        st.holder.step(event, &facts, &mut effects);
        let mut carry = carry;
        for effect in effects {
            self.perform(buffer, st, effect, &mut carry);
        }
        // Only a peer who waits makes it worth a timer.
        if st.holder.duty().is_some()
            && buffer.is_reserved()
            && let Some(grants) = self.grants()
        {
            grants.end_reservation_soon(buffer);
        }
    }

    fn perform(
        &self,
        buffer: &Arc<Buffer>,
        st: &mut State,
        effect: HolderEffect,
        carry: &mut Carry,
    ) {
        match effect {
            HolderEffect::InstallImage => {
                st.image = carry.image.take();
                st.arrival = carry.arrival.take();
                st.last_rba = Rba::ZERO;
                st.struct_rba = Rba::ZERO;
                // It comes formatted, and tells whose it is.
                buffer.forget_sought();
                self.reserve(buffer);
            }
            HolderEffect::BecomeDirty => self.become_dirty(buffer, st),
            HolderEffect::KeepPastImage => {
                let image = st.image.take().expect("a dirty block has its image");
                self.settle_counts(buffer, &image);
                let inherited = st.past_image.take().map(|p| p.first_dirty);
                let first_dirty = inherited.map_or(st.first_dirty, |r| r.min(st.first_dirty));
                let version = layout::version(&image);
                st.past_image = Some(PastImage { image, version, first_dirty });
                st.dirty = false;
                self.requeue(buffer, st);
            }
            HolderEffect::AdoptPastImage => {
                let past = st.past_image.take().expect("the machine has seen it");
                st.image = Some(past.image);
                st.dirty = true;
                st.first_dirty = past.first_dirty;
                st.last_rba = Rba::ZERO;
                self.requeue(buffer, st);
            }
            HolderEffect::DropPastImage { superseded } => {
                let past = st.past_image.take();
                if let Some(past) = past.filter(|_| superseded) {
                    st.first_dirty = if st.dirty {
                        st.first_dirty.min(past.first_dirty)
                    } else {
                        past.first_dirty
                    };
                    st.dirty = st.image.is_some();
                }
                self.requeue(buffer, st);
            }
            HolderEffect::DropImage => {
                if let Some(image) = st.image.take() {
                    self.settle_counts(buffer, &image);
                }
                st.dirty = false;
                self.requeue(buffer, st);
            }
            HolderEffect::Wake => st.wake = true,
            other => match self.grants.get().map(Weak::upgrade) {
                Some(Some(grants)) => grants.perform(buffer, st, other, carry),
                // The instance is being taken down: nobody is to be told anything.
                Some(None) => {}
                None => self.env.abort_instance("a message is due, but the instance is alone"),
            },
        }
    }

    /// A block that has come for users here is kept until each of them has used it once.
    pub(crate) fn reserve(&self, buffer: &Buffer) {
        let users = buffer.waiters.load(Ordering::SeqCst).min(RESERVED_USES_MAX);
        buffer.reserved.store(users, Ordering::SeqCst);
    }

    fn become_dirty(&self, buffer: &Arc<Buffer>, st: &mut State) {
        if !st.dirty {
            st.dirty = true;
            st.first_dirty = self.log.next();
        }
        self.requeue(buffer, st);
    }

    /// Puts the buffer at its place on the dirty list.
    pub(super) fn requeue(&self, buffer: &Arc<Buffer>, st: &mut State) {
        let want = st.checkpoint_rba();
        if want == st.queued {
            return;
        }
        let mut dirty = self.dirty.lock();
        if let Some(old) = st.queued {
            dirty.remove(&(old, buffer.dba));
        }
        if let Some(new) = want {
            dirty.insert((new, buffer.dba), buffer.clone());
        }
        st.queued = want;
    }
}
