//! The owner's side.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use block::{BLOCK_BYTES, Dba, Rba, Xid};
use env::{Env, IoBuf, SharedLayout, SharedMemory};

use super::{
    ADDRESS, BUCKET, CLOCK, DIRECTORY, DURABLE, EPOCH, FLOOR, FRAME, OPEN_WORDS, PLACE_WORDS,
    STRUCTURE, TxShown, UNDECIDED, VERSION, bucket, place_word, slot_word,
};

/// Parts in which everything is forgotten.
const FORGOTTEN_IN: usize = 16;

/// Where a block stands in the directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place(usize);

/// What this instance shows.
pub struct Shown {
    memory: Arc<SharedMemory>,
    descriptor: String,
    places: usize,
    /// Blocks are shown: there is somebody to look.
    on: AtomicBool,
}

impl Shown {
    /// Memory for a cache of so many blocks. `None` where the system has none to share: all goes by
    /// messages then.
    #[must_use]
    pub fn new(env: &Env, cache_blocks: usize) -> Option<Arc<Shown>> {
        // Twice the room, so that few buckets are full; a tenth more frames for past images.
        let places = (2 * cache_blocks).next_multiple_of(BUCKET);
        let layout = SharedLayout {
            open_words: OPEN_WORDS,
            words: DIRECTORY + places * PLACE_WORDS,
            frames: cache_blocks + cache_blocks / 10,
            frame_bytes: BLOCK_BYTES,
        };
        let (memory, descriptor) = env.share_memory(layout).ok()?;
        Some(Arc::new(Shown { memory, descriptor, places, on: AtomicBool::new(false) }))
    }

    /// Where the others find it.
    #[must_use]
    pub fn descriptor(&self) -> &str {
        &self.descriptor
    }

    /// From now on blocks are shown, or not shown, as they change hands or content.
    pub fn set_on(&self, on: bool) {
        self.on.store(on, Ordering::SeqCst);
    }

    #[must_use]
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::SeqCst)
    }

    /// The word that is the instance's clock.
    pub(crate) fn clock(&self) -> &AtomicU64 {
        self.memory.open_word(CLOCK)
    }

    /// The word below which no new snapshot lies.
    pub(crate) fn floor(&self) -> &AtomicU64 {
        self.memory.open_word(FLOOR)
    }

    pub(crate) fn set_durable(&self, upto: Rba) {
        self.memory.word(DURABLE).store(upto.0, Ordering::SeqCst);
    }

    /// The epoch this instance is in; 0: frozen.
    pub(crate) fn set_epoch(&self, epoch: u64) {
        self.memory.word(EPOCH).store(epoch, Ordering::SeqCst);
    }

    /// What stands of a transaction slot from now on. `xid` is its newest transaction.
    pub(crate) fn set_transaction(&self, xid: Xid, state: TxShown) {
        let Some(at) = slot_word(xid) else { return };
        let seq = self.memory.word(at);
        if seq.load(Ordering::SeqCst) != u64::from(xid.seq) {
            self.memory.word(at + 1).store(UNDECIDED, Ordering::SeqCst);
            seq.store(u64::from(xid.seq), Ordering::SeqCst);
        }
        self.memory.word(at + 1).store(state.encode(), Ordering::SeqCst);
    }

    /// The transaction's state is about to change: until it is set, nobody may go by it.
    pub(crate) fn undecided(&self, xid: Xid) {
        if let Some(at) = slot_word(xid) {
            self.memory.word(at + 1).store(UNDECIDED, Ordering::SeqCst);
        }
    }

    fn word(&self, place: Place, which: usize) -> &AtomicU64 {
        self.memory.word(place_word(place.0) + which)
    }

    /// The block at this place is about to be changed, under its latch. Until [`Shown::show`] or
    /// [`Shown::hide`] nobody believes it.
    pub(crate) fn change(&self, place: Place) {
        let version = self.word(place, VERSION);
        let v = version.load(Ordering::Relaxed);
        version.store(v | 1, Ordering::Relaxed);
        // What is written from here on is not seen before that. A reader who has raised the clock
        // before he looks sees this version, or a change whose commit draws a higher SCN: between
        // this store and the SCN of a commit lies one of the clock's own, which is SeqCst.
        fence(Ordering::Release);
    }

    fn changed(&self, place: Place) {
        let version = self.word(place, VERSION);
        let v = version.load(Ordering::Relaxed);
        version.store((v | 1).wrapping_add(1), Ordering::Release);
    }

    /// A block in X, under its latch, is as it shall be seen; `place`: where it stands already.
    /// Where it stands from now on; `None`: it is not shown, for want of a frame or a place.
    pub(crate) fn show(
        &self,
        dba: Dba,
        place: Option<Place>,
        image: &mut IoBuf,
        structure: Rba,
    ) -> Option<Place> {
        let frame = match self.memory.frame_of(image) {
            Some(frame) => Some(frame),
            None => self.memory.take_frame().and_then(|mut buf| {
                buf.copy_from_slice(image);
                *image = buf;
                self.memory.frame_of(image)
            }),
        };
        let Some(frame) = frame else {
            place.into_iter().for_each(|place| self.hide(place));
            return None;
        };
        let place = match place {
            Some(place) => place,
            None => {
                let place = self.free_place(dba)?;
                self.change(place);
                place
            }
        };
        self.word(place, FRAME).store(u64::from(frame) + 1, Ordering::Relaxed);
        self.word(place, STRUCTURE).store(structure.0, Ordering::Relaxed);
        self.changed(place);
        Some(place)
    }

    /// The block at this place is shown no more.
    pub(crate) fn hide(&self, place: Place) {
        self.change(place);
        self.word(place, FRAME).store(0, Ordering::Relaxed);
        self.changed(place);
        // The last: who takes the place finds no frame there.
        self.word(place, ADDRESS).store(0, Ordering::Release);
    }

    /// No block is shown any more. The caller has seen to it that nothing is shown meanwhile, that
    /// no buffer knows a place, and that nobody believes what he has seen: the epoch is 0.
    pub(crate) fn forget_all(&self, env: &Env) {
        assert!(!self.is_on(), "blocks are shown while all are to be forgotten");
        assert_eq!(self.memory.word(EPOCH).load(Ordering::SeqCst), 0, "others may look");
        let taken = |place: &Place| self.word(*place, ADDRESS).load(Ordering::Relaxed) != 0;
        let chunk = self.places.div_ceil(FORGOTTEN_IN);
        env.in_parallel(FORGOTTEN_IN, |part| {
            let places = part * chunk..((part + 1) * chunk).min(self.places);
            places.map(Place).filter(taken).for_each(|place| self.hide(place));
        });
    }

    fn free_place(&self, dba: Dba) -> Option<Place> {
        bucket(dba, self.places).map(Place).find(|place| {
            let address = self.word(*place, ADDRESS);
            if address.load(Ordering::Relaxed) != 0 {
                return false;
            }
            let taken = Ordering::SeqCst;
            address.compare_exchange(0, dba.to_u64(), taken, Ordering::Relaxed).is_ok()
        })
    }
}
