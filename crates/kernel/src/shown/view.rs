//! The side of those who look.

use std::sync::atomic::{Ordering, fence};

use block::{BLOCK_BYTES, Dba, Scn, Xid, layout};
use env::SharedView;

use super::{
    ADDRESS, BUCKET, CLOCK, DIRECTORY, DURABLE, EPOCH, FLOOR, FRAME, OPEN_WORDS, PLACE_WORDS,
    STRUCTURE, TxShown, VERSION, bucket, place_word, slot_word,
};

/// A block that is being changed is looked at again so often: its owner holds the latch for
/// microseconds, unless it has lost its processor.
const LOOKS: u32 = 20;

/// What another instance shows.
pub struct PeerMemory {
    view: SharedView,
    places: usize,
}

impl PeerMemory {
    /// `None`: it is not laid out as this version of the program does.
    #[must_use]
    pub fn new(view: SharedView) -> Option<PeerMemory> {
        let layout = view.layout();
        let places = layout.words.checked_sub(DIRECTORY)? / PLACE_WORDS;
        let known = layout.open_words == OPEN_WORDS
            && layout.words == DIRECTORY + places * PLACE_WORDS
            && layout.frame_bytes == BLOCK_BYTES
            && places >= BUCKET
            && places.is_multiple_of(BUCKET);
        known.then_some(PeerMemory { view, places })
    }

    /// The epoch that the owner is in; 0 while it is frozen.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.view.word(EPOCH)
    }

    /// The owner draws no SCN at or below this from now on (hazard H8).
    pub fn raise_clock(&self, scn: Scn) {
        let clock = self.view.open_word(CLOCK);
        // Most often it is there already, and many look at the word.
        if clock.load(Ordering::SeqCst) < scn.0 {
            clock.fetch_max(scn.0, Ordering::SeqCst);
        }
    }

    /// No snapshot that the owner takes from now on is below this.
    pub fn raise_floor(&self, scn: Scn) {
        self.view.open_word(FLOOR).fetch_max(scn.0, Ordering::SeqCst);
    }

    /// State of a transaction of a segment that the owner was born with and answers for; `None`: it
    /// must be asked.
    #[must_use]
    pub fn transaction(&self, xid: Xid) -> Option<TxShown> {
        let at = slot_word(xid)?;
        let seq = u64::from(xid.seq);
        if self.view.word(at) != seq {
            return None;
        }
        let state = TxShown::decode(self.view.word(at + 1));
        // A slot used anew meanwhile has another number.
        state.filter(|_| self.view.word(at) == seq)
    }

    fn word(&self, place: usize, which: usize) -> u64 {
        self.view.word(place_word(place) + which)
    }

    /// Where the block is shown, by a look that takes no care.
    #[must_use]
    pub fn place_of(&self, dba: Dba) -> Option<usize> {
        bucket(dba, self.places).find(|place| self.word(*place, ADDRESS) == dba.to_u64())
    }

    /// The block as it is now, if the owner holds it in X; `None`: it does not, or is changing it,
    /// or has changed its structure and the redo of that is not durable (hazard H1).
    #[must_use]
    pub fn copy(&self, dba: Dba) -> Option<Vec<u8>> {
        self.copy_at(self.place_of(dba)?, dba)
    }

    /// [`PeerMemory::copy`] of a block that [`PeerMemory::place_of`] has found.
    #[must_use]
    pub fn copy_at(&self, place: usize, dba: Dba) -> Option<Vec<u8>> {
        for _ in 0..LOOKS {
            let version = self.word(place, VERSION);
            if version & 1 == 1 {
                std::hint::spin_loop();
                continue;
            }
            if self.word(place, ADDRESS) != dba.to_u64() {
                return None;
            }
            let frame = u32::try_from(self.word(place, FRAME).checked_sub(1)?).ok()?;
            if self.word(place, STRUCTURE) > self.view.word(DURABLE) {
                return None;
            }
            let image = self.view.copy_frame(frame)?;
            // What was copied is not of after this.
            fence(Ordering::Acquire);
            if self.word(place, VERSION) == version {
                return (layout::dba(&image) == dba).then_some(image);
            }
        }
        None
    }
}
