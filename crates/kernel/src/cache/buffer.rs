//! One cached block: its latch, its state, and the pins that keep its right here.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use block::{Dba, InstanceNo, Mode, ObjId, Rba, Version, layout};
use env::{IoBuf, Micros};
use global::Holder;
use global::msg::ReqId;
use observe::{Session, WaitEvent};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::sync::Notify;

use super::busy::Common;
use super::{Cache, DiskRead};
use crate::error::Error;
use crate::shown::{Place, Shown};

/// A build with the feature `granted` takes whatever is here for its own, which measures what the
/// check of rights costs. It runs a single instance, and ends itself when another joins.
pub(super) const GRANTED: bool = cfg!(feature = "granted");

/// An old dirty version kept after the block was given away in X.
pub struct PastImage {
    pub image: IoBuf,
    pub version: Version,
    /// Oldest change in it that is not on disk: it holds this instance's checkpoint back.
    pub first_dirty: Rba,
}

/// What came last, for the wait that ends with it.
#[derive(Clone, Copy, Debug)]
pub enum Arrival {
    /// A right without an image. How long its question waited for the master's block server.
    Grant { master_lms_us: u32 },
    /// The image, and what the wait for it was.
    Block { from: InstanceNo, event: WaitEvent },
}

/// The last question for a block that went out and that no block has answered.
pub struct Question {
    pub req_id: ReqId,
    pub since: Micros,
    /// Whom it was sent to, if not to the master.
    pub direct: Option<InstanceNo>,
    /// Who has asked, and may have gone.
    pub by: Weak<Session>,
}

/// What the latch protects. In this order: what a change of membership reads of a million of them
/// lies side by side.
#[repr(C)]
pub struct State {
    /// Where others of the machine find it.
    place: Option<Place>,
    /// The current image; `None` while it is being read, and after the right has gone.
    pub image: Option<IoBuf>,
    /// Version of the image when the latch was last let go: the image itself may be far away.
    pub(super) version_unlatched: Version,
    /// End of the newest redo record of this instance that changed it.
    pub last_rba: Rba,
    pub past_image: Option<PastImage>,
    pub dirty: bool,
    /// A write to disk is in flight.
    pub writing: bool,
    /// Somebody here reads it from disk without asking anybody: the instance is alone.
    pub loading: bool,
    /// Who waits for a change is woken when the latch is let go.
    pub wake: bool,
    /// This instance's right, true even while it is alone (hazard C5), and what is owed of it.
    pub holder: Holder,
    /// Oldest change not on disk since disk last held the block (hazard C15).
    pub first_dirty: Rba,
    /// End of the newest redo record that changed its structure (hazard H1).
    pub struct_rba: Rba,
    /// First change since the write in flight took its copy.
    pub redirty: Option<Rba>,
    /// Its place on the dirty list.
    pub(super) queued: Option<Rba>,
    pub arrival: Option<Arrival>,
    pub question: Option<Box<Question>>,
    /// How it is, or was, read under the last grant, until a session has accounted for that.
    pub disk_read: Option<Arc<DiskRead>>,
    /// Why the last read under a grant failed; for those who wait.
    pub read_error: Option<Error>,
}

impl State {
    /// The right in which the image is here; N without an image.
    #[must_use]
    pub fn mode(&self) -> Mode {
        if self.image.is_some() && self.holder.present() { self.holder.mode() } else { Mode::N }
    }

    /// For checkers: what is reported in a new epoch is what the image is.
    pub fn check_version(&self) {
        let version = self.image.as_ref().map(|image| layout::version(image)).unwrap_or_default();
        assert_eq!(version, self.version_unlatched, "the version that is known of an image");
    }

    /// Lets others of the machine see what the block is now, or that it is not here in X.
    fn show(&mut self, dba: Dba, shown: &Shown) {
        let here = shown.is_on() && self.holder.mode() == Mode::X && self.holder.readable();
        match (&mut self.image, self.place) {
            (Some(image), place) if here => {
                self.place = shown.show(dba, place, image, self.struct_rba);
            }
            (_, Some(place)) => {
                shown.hide(place);
                self.place = None;
            }
            _ => {}
        }
    }

    /// The current image, if it may be read under the latch now.
    pub(super) fn readable(&self) -> Option<&[u8]> {
        let image = self.image.as_deref()?;
        (GRANTED || self.holder.readable()).then_some(image)
    }

    /// The question that a block which has come answers, if that is still open.
    pub(crate) fn answer_to(&mut self, req_id: ReqId) -> Option<Box<Question>> {
        self.question.take_if(|question| question.req_id == req_id)
    }

    /// Whether it cannot be given up before something has been written, here or elsewhere.
    pub(super) fn must_stay(&self) -> bool {
        self.dirty || self.writing || self.past_image.is_some()
    }

    /// Position that holds the checkpoint back: of the current image or the past image.
    pub(super) fn checkpoint_rba(&self) -> Option<Rba> {
        let current = self.dirty.then_some(self.first_dirty);
        let past = self.past_image.as_ref().map(|p| p.first_dirty);
        current.into_iter().chain(past).min()
    }
}

/// What has been done with a buffer. Whoever counts does it under the latch, shared or not, and by
/// a store: of those who do it at the same instant one may be lost.
#[derive(Default)]
pub(super) struct Counts {
    gets: AtomicU32,
    changes: AtomicU32,
}

impl Counts {
    pub fn got(&self) {
        self.gets.store(self.gets.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    pub fn changed(&self) {
        let changes = self.changes.load(Ordering::Relaxed);
        self.changes.store(changes.wrapping_add(1), Ordering::Relaxed);
    }

    /// Gets and changes.
    pub fn get(&self) -> (u64, u64) {
        let of = |n: &AtomicU32| u64::from(n.load(Ordering::Relaxed));
        (of(&self.gets), of(&self.changes))
    }

    /// The same, to be counted elsewhere from now on.
    pub fn take(&self) -> (u64, u64) {
        let of = |n: &AtomicU32| u64::from(n.swap(0, Ordering::Relaxed));
        (of(&self.gets), of(&self.changes))
    }
}

/// A cached block. In this order for the same reason as [`State`].
#[repr(C)]
pub struct Buffer {
    pins: AtomicU32,
    /// Those of the pins that may change the block.
    change_pins: AtomicU32,
    /// Sessions that wait for the block to come.
    pub(crate) waiters: AtomicU32,
    /// A block that has just come is used so often here before it goes on: once by each who waited
    /// for it. A block that all instances want would else travel for each single use.
    pub(super) reserved: AtomicU32,
    /// Gets and changes since its segment was told.
    pub(super) counts: Counts,
    pub(super) usage: AtomicU8,
    /// Set while somebody waits for the pins to drop.
    pub(crate) pin_waiter: AtomicBool,
    pub dba: Dba,
    /// The segment of which the reader that had it read told, while its image is here; 0: none.
    sought: AtomicU32,
    common: Arc<Common>,
    /// Woken at every change of state that somebody may wait for.
    pub(crate) changed: Notify,
    latch: RwLock<State>,
}

impl Buffer {
    pub(super) fn new(dba: Dba, common: Arc<Common>) -> Buffer {
        Buffer {
            dba,
            pins: AtomicU32::new(0),
            change_pins: AtomicU32::new(0),
            waiters: AtomicU32::new(0),
            reserved: AtomicU32::new(0),
            counts: Counts::default(),
            usage: AtomicU8::new(1),
            pin_waiter: AtomicBool::new(false),
            sought: AtomicU32::new(0),
            latch: RwLock::new(State {
                image: None,
                holder: Holder::new(dba),
                loading: false,
                dirty: false,
                first_dirty: Rba::ZERO,
                last_rba: Rba::ZERO,
                struct_rba: Rba::ZERO,
                writing: false,
                redirty: None,
                past_image: None,
                queued: None,
                arrival: None,
                question: None,
                disk_read: None,
                read_error: None,
                wake: false,
                version_unlatched: Version::ZERO,
                place: None,
            }),
            common,
            changed: Notify::new(),
        }
    }

    /// The latch. Never held over an await: its guard is not `Send`.
    pub(crate) fn latch(&self) -> Latch<'_> {
        Latch(self)
    }

    fn read_latch(&self) -> RwLockReadGuard<'_, State> {
        let latch = &self.latch;
        latch
            .try_read()
            .unwrap_or_else(|| self.common.latch(self.dba, || latch.try_read(), || latch.read()))
    }

    fn write_latch(&self) -> RwLockWriteGuard<'_, State> {
        let latch = &self.latch;
        latch
            .try_write()
            .unwrap_or_else(|| self.common.latch(self.dba, || latch.try_write(), || latch.write()))
    }

    pub(crate) fn pin_count(&self) -> u32 {
        self.pins.load(Ordering::SeqCst)
    }

    /// Counts a change of the block, for its segment. Under the latch.
    pub(crate) fn count_change(&self) {
        self.counts.changed();
    }

    /// A reader of the segment has the block read, whose image is not here: what is counted of it
    /// is that segment's, for one that has never been formatted says nothing of its own, or what
    /// it was in a former life. Under the latch.
    pub(crate) fn seek(&self, obj: ObjId) {
        self.sought.store(obj.0, Ordering::Relaxed);
    }

    /// The segment has been told of what was counted, and the image goes or is to be another's.
    pub(super) fn forget_sought(&self) {
        self.sought.store(0, Ordering::Relaxed);
    }

    /// The segment for which is counted what is done with the block, of which this is the image.
    pub(crate) fn segment_of(&self, image: &[u8]) -> ObjId {
        match self.sought.load(Ordering::Relaxed) {
            0 => layout::obj(image),
            obj => ObjId(obj),
        }
    }

    /// Marks use, for the replacement policy.
    pub(super) fn touch(&self) {
        let usage = self.usage.load(Ordering::Relaxed);
        if usage < 5 {
            self.usage.store(usage + 1, Ordering::Relaxed);
        }
    }

    /// Whether the state (whose latch the caller holds) allows use in `want` now. Newcomers queue
    /// behind a peer that waits, but not the one for whom the block has just come.
    pub(super) fn usable(&self, st: &State, want: Mode) -> bool {
        if st.image.is_none() {
            return false;
        }
        GRANTED
            || st.holder.admits(want)
            || (self.is_reserved() && st.holder.readable() && st.holder.mode() >= want)
    }

    /// Pins if the state allows it.
    pub(super) fn pin_if(self: &Arc<Buffer>, st: &State, want: Mode) -> bool {
        if !self.usable(st, want) {
            return false;
        }
        self.counts.got();
        self.pins.fetch_add(1, Ordering::SeqCst);
        if want == Mode::X {
            self.change_pins.fetch_add(1, Ordering::SeqCst);
        }
        self.use_reservation();
        true
    }

    /// Whether it is kept for users here.
    pub(crate) fn is_reserved(&self) -> bool {
        self.reserved.load(Ordering::SeqCst) > 0
    }

    /// One of those for whom it is kept has it now. Whether that was the last.
    pub(crate) fn use_reservation(&self) -> bool {
        if !self.is_reserved() {
            return false;
        }
        let (set, fetch) = (Ordering::SeqCst, Ordering::SeqCst);
        self.reserved.fetch_update(set, fetch, |n| n.checked_sub(1)) == Ok(1)
    }

    /// It is kept for nobody any more. Whether it was.
    pub(crate) fn end_reservation(&self) -> bool {
        self.reserved.swap(0, Ordering::SeqCst) > 0
    }

    /// Pins as the protocol counts them: a reservation is one.
    pub(crate) fn pins_for_peers(&self) -> (u32, u32) {
        let reserved = u32::from(self.is_reserved());
        let change = self.change_pins.load(Ordering::SeqCst);
        (self.pin_count() + reserved, change + reserved)
    }
}

/// A buffer's latch, not held yet.
pub(crate) struct Latch<'a>(&'a Buffer);

impl<'a> Latch<'a> {
    pub fn read(self) -> RwLockReadGuard<'a, State> {
        self.0.read_latch()
    }

    pub fn try_read(self) -> Option<RwLockReadGuard<'a, State>> {
        self.0.latch.try_read()
    }

    pub fn write(self) -> Latched<'a> {
        Latched::new(self.0, self.0.write_latch())
    }

    pub fn try_write(self) -> Option<Latched<'a>> {
        Some(Latched::new(self.0, self.0.latch.try_write()?))
    }

    /// The same of a block that is shown no more, with the memory where it was shown left as it is:
    /// [`Shown::forget_all`] sees to that.
    pub fn write_unshown(self) -> Latched<'a> {
        let mut guard = self.0.write_latch();
        guard.place = None;
        Latched::new(self.0, guard)
    }

    /// [`Latch::write_unshown`] if nobody has the latch, for one who leaves the image as it is.
    pub fn try_write_unshown(self) -> Option<Latched<'a>> {
        let mut guard = self.0.latch.try_write()?;
        guard.place = None;
        Some(Latched { guard: Some(guard), buffer: self.0, image_stays: true })
    }
}

/// The latch held for a change. Whoever waits for the change is woken after the latch is free: who
/// is woken under it meets it at once, and loses its processor over that.
pub(crate) struct Latched<'a> {
    /// `None` once it is being dropped.
    guard: Option<RwLockWriteGuard<'a, State>>,
    buffer: &'a Buffer,
    image_stays: bool,
}

impl<'a> Latched<'a> {
    fn new(buffer: &'a Buffer, guard: RwLockWriteGuard<'a, State>) -> Latched<'a> {
        if let (Some(place), Some(shown)) = (guard.place, &buffer.common.shown) {
            shown.change(place);
        }
        Latched { guard: Some(guard), buffer, image_stays: false }
    }
}

impl std::ops::Deref for Latched<'_> {
    type Target = State;
    fn deref(&self) -> &State {
        self.guard.as_ref().expect("held until dropped")
    }
}

impl std::ops::DerefMut for Latched<'_> {
    fn deref_mut(&mut self) -> &mut State {
        self.guard.as_mut().expect("held until dropped")
    }
}

impl Drop for Latched<'_> {
    fn drop(&mut self) {
        let buffer = self.buffer;
        // What a panic has left half done is never shown.
        if let (Some(shown), false) = (&buffer.common.shown, std::thread::panicking()) {
            self.show(buffer.dba, shown);
        }
        if !self.image_stays {
            let version = self.image.as_ref().map(|image| layout::version(image));
            self.version_unlatched = version.unwrap_or_default();
        }
        let wake = std::mem::take(&mut self.wake);
        self.guard = None;
        if wake {
            buffer.changed.notify_waiters();
        }
    }
}

/// Keeps the block's image and this instance's right to it here. Short-lived: a peer that wants
/// the block waits for it (cache rule 3).
pub struct Pin {
    pub(crate) buffer: Arc<Buffer>,
    pub(super) cache: Arc<Cache>,
    pub(super) mode: Mode,
}

impl Pin {
    #[must_use]
    pub fn dba(&self) -> Dba {
        self.buffer.dba
    }

    /// Latches the block for reading. Not `Send`: the guard cannot be kept over an await.
    #[must_use]
    pub fn read(&self) -> BlockRef<'_> {
        BlockRef(self.buffer.read_latch())
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        if self.mode == Mode::X {
            self.buffer.change_pins.fetch_sub(1, Ordering::SeqCst);
        }
        self.buffer.pins.fetch_sub(1, Ordering::SeqCst);
        if self.buffer.pin_waiter.load(Ordering::SeqCst)
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
