//! What one statement remembers of the consistent copies it has made.
//!
//! A statement that comes to a changed block by an index comes to it once for each of its rows;
//! with undo on another instance each of these copies costs a message for every change taken back.
//!
//! Promises: what is kept is private to one snapshot at one own position (hazard H5), so a copy is
//! the same however often it is made; it is forgotten at a change of the epoch (hazard H1). Must
//! never grow beyond its two small bounds.

use std::collections::VecDeque;
use std::sync::Arc;

use block::Dba;
use env::give_copy_back;

/// Finished copies, up to 16 KiB each (a block that outgrew itself: up to 56).
pub const COPIES_MAX: usize = 8;
/// Undo blocks of other instances, 8 KiB each.
const UNDO_BLOCKS_MAX: usize = 8;

/// The newest few images, by address.
struct Newest {
    items: VecDeque<(Dba, Arc<Vec<u8>>)>,
    max: usize,
}

impl Newest {
    fn new(max: usize) -> Newest {
        Newest { items: VecDeque::new(), max }
    }

    fn get(&self, dba: Dba) -> Option<Arc<Vec<u8>>> {
        self.items.iter().rev().find(|(d, _)| *d == dba).map(|(_, item)| item.clone())
    }

    fn put(&mut self, dba: Dba, item: Arc<Vec<u8>>) {
        self.items.retain(|(d, _)| *d != dba);
        if self.items.len() == self.max {
            self.items.pop_front();
        }
        self.items.push_back((dba, item));
    }
}

impl Drop for Newest {
    fn drop(&mut self) {
        // Those that nobody reads any more: the next statement's copies go there.
        self.items.drain(..).filter_map(|(_, item)| Arc::into_inner(item)).for_each(give_copy_back);
    }
}

/// Copies and undo blocks as they were at one epoch.
pub struct Kept {
    epoch: Option<u64>,
    copies: Newest,
    undo: Newest,
}

impl Kept {
    fn new(epoch: Option<u64>) -> Kept {
        Kept { epoch, copies: Newest::new(COPIES_MAX), undo: Newest::new(UNDO_BLOCKS_MAX) }
    }
}

/// The memory of a snapshot: empty, and one word, until a copy is made.
#[derive(Default)]
pub struct Memory(parking_lot::Mutex<Option<Box<Kept>>>);

impl Memory {
    fn get<R>(&self, epoch: Option<u64>, f: impl FnOnce(&Kept) -> Option<R>) -> Option<R> {
        self.0.lock().as_ref().filter(|kept| kept.epoch == epoch).and_then(|kept| f(kept))
    }

    fn put(&self, epoch: Option<u64>, f: impl FnOnce(&mut Kept)) {
        let mut kept = self.0.lock();
        if kept.as_ref().is_none_or(|kept| kept.epoch != epoch) {
            *kept = Some(Box::new(Kept::new(epoch)));
        }
        f(kept.as_mut().expect("just made"));
    }

    /// The finished copy of a block, if one was made in this epoch.
    #[must_use]
    pub fn copy(&self, epoch: Option<u64>, dba: Dba) -> Option<Arc<Vec<u8>>> {
        self.get(epoch, |kept| kept.copies.get(dba))
    }

    pub fn keep_copy(&self, epoch: Option<u64>, dba: Dba, copy: Arc<Vec<u8>>) {
        self.put(epoch, |kept| kept.copies.put(dba, copy));
    }

    /// An undo block as another instance sent it; it may have grown since.
    #[must_use]
    pub fn undo_block(&self, epoch: Option<u64>, dba: Dba) -> Option<Arc<Vec<u8>>> {
        self.get(epoch, |kept| kept.undo.get(dba))
    }

    pub fn keep_undo_block(&self, epoch: Option<u64>, dba: Dba, image: Arc<Vec<u8>>) {
        self.put(epoch, |kept| kept.undo.put(dba, image));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dba(block: u32) -> Dba {
        Dba { file: 4, block }
    }

    #[test]
    fn the_oldest_goes_first_and_an_epoch_forgets_all() {
        let memory = Memory::default();
        for n in 0..=COPIES_MAX as u32 {
            memory.keep_copy(Some(1), dba(n), Arc::new(vec![0]));
        }
        assert!(memory.copy(Some(1), dba(0)).is_none(), "the oldest had to go");
        assert!(memory.copy(Some(1), dba(1)).is_some());
        memory.keep_copy(Some(1), dba(1), Arc::new(vec![1]));
        assert_eq!(*memory.copy(Some(1), dba(1)).expect("kept"), vec![1]);
        assert!(memory.copy(Some(2), dba(1)).is_none(), "another epoch");
        memory.keep_undo_block(Some(2), dba(7), Arc::new(vec![2]));
        assert!(memory.undo_block(Some(2), dba(7)).is_some());
        assert!(memory.copy(Some(2), dba(7)).is_none());
        assert!(memory.copy(Some(1), dba(1)).is_none(), "forgotten for good");
    }
}
