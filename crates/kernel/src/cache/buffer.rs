//! One cached block: its latch, its state, and the pins that keep its right here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

use super::holder::Holder;
use block::{Dba, Mode, Rba, Version};
use env::IoBuf;
use parking_lot::{RwLock, RwLockReadGuard};
use tokio::sync::Notify;

use super::Cache;

/// An old dirty version kept after the block was given away in X.
pub struct PastImage {
    pub image: IoBuf,
    pub version: Version,
    /// Oldest change in it that is not on disk: it holds this instance's checkpoint back.
    pub first_dirty: Rba,
}

/// What the latch protects.
pub struct State {
    /// The current image; `None` while it is being read, and after the right has gone.
    pub image: Option<IoBuf>,
    /// This instance's right, true even while the instance is alone (hazard C5).
    pub mode: Mode,
    /// Somebody is reading it from disk or has asked the cluster for it.
    pub loading: bool,
    pub dirty: bool,
    /// Oldest change not on disk since disk last held the block (hazard C15).
    pub first_dirty: Rba,
    /// End of the newest redo record that changed it.
    pub last_rba: Rba,
    /// End of the newest redo record that changed its structure (hazard H1).
    pub struct_rba: Rba,
    /// A write to disk is in flight.
    pub writing: bool,
    /// First change since the write in flight took its copy.
    pub redirty: Option<Rba>,
    /// A peer waits for the block: no new pins (`gc buffer busy release`).
    pub blocked: bool,
    /// Instance recovery has not finished with it.
    pub recovering: bool,
    pub past_image: Option<PastImage>,
    /// The protocol's view of this block.
    pub holder: Holder,
}

/// A cached block.
pub struct Buffer {
    pub dba: Dba,
    pins: AtomicU32,
    pub(super) usage: AtomicU8,
    /// Set while somebody waits for the pins to drop.
    pub(crate) pin_waiter: AtomicBool,
    latch: RwLock<State>,
    /// Woken at every change of state that somebody may wait for.
    pub(crate) changed: Notify,
}

impl Buffer {
    pub(super) fn new(dba: Dba, loading: bool) -> Buffer {
        Buffer {
            dba,
            pins: AtomicU32::new(0),
            usage: AtomicU8::new(1),
            pin_waiter: AtomicBool::new(false),
            latch: RwLock::new(State {
                image: None,
                mode: Mode::N,
                loading,
                dirty: false,
                first_dirty: Rba::ZERO,
                last_rba: Rba::ZERO,
                struct_rba: Rba::ZERO,
                writing: false,
                redirty: None,
                blocked: false,
                recovering: false,
                past_image: None,
                holder: Holder::default(),
            }),
            changed: Notify::new(),
        }
    }

    /// The latch. Never held over an await: its guard is not `Send`.
    pub(crate) fn latch(&self) -> &RwLock<State> {
        &self.latch
    }

    pub(crate) fn pin_count(&self) -> u32 {
        self.pins.load(Ordering::SeqCst)
    }

    /// Marks use, for the replacement policy.
    pub(super) fn touch(&self) {
        let usage = self.usage.load(Ordering::Relaxed);
        if usage < 5 {
            self.usage.store(usage + 1, Ordering::Relaxed);
        }
    }

    /// Pins if the state (whose latch the caller holds) grants `want`.
    pub(super) fn pin_if(self: &Arc<Buffer>, st: &State, want: Mode) -> bool {
        if st.image.is_none() || st.mode < want || st.blocked || st.recovering {
            return false;
        }
        self.pins.fetch_add(1, Ordering::SeqCst);
        true
    }
}

/// Keeps the block's image and this instance's right to it here. Short-lived: a peer that wants
/// the block waits for it (cache rule 3).
pub struct Pin {
    pub(crate) buffer: Arc<Buffer>,
    pub(super) cache: Arc<Cache>,
}

impl Pin {
    #[must_use]
    pub fn dba(&self) -> Dba {
        self.buffer.dba
    }

    /// Latches the block for reading. Not `Send`: the guard cannot be kept over an await.
    #[must_use]
    pub fn read(&self) -> BlockRef<'_> {
        BlockRef(self.buffer.latch.read())
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        if self.buffer.pins.fetch_sub(1, Ordering::SeqCst) == 1
            && self.buffer.pin_waiter.swap(false, Ordering::SeqCst)
        {
            self.cache.pins_dropped(&self.buffer);
        }
    }
}

/// A latched block.
pub struct BlockRef<'a>(RwLockReadGuard<'a, State>);

impl std::ops::Deref for BlockRef<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.0.image.as_ref().expect("a pinned block has its image")
    }
}
