//! What readers hold ahead of its use, as part of what a statement may hold.
//!
//! Whoever runs statements accounts for their memory; the kernel only says how much of it it has.
//!
//! What it promises: what is taken is given back, at the latest when its holder is dropped. What it
//! must never do: fail a statement. Who gets less does with less.

use std::sync::Arc;

use block::BLOCK_BYTES;

use super::kept::COPIES_MAX;

/// The memory of a statement, or of whatever else reads.
pub trait WorkMemory: Send + Sync {
    /// Takes so many bytes more, unless there are too few.
    fn try_take(&self, bytes: usize) -> bool;
    /// Takes so many bytes more in any case: they are held already, or few.
    fn take(&self, bytes: usize);
    fn give_back(&self, bytes: usize);
}

/// What one reader has taken of a memory, if anybody accounts for that.
#[derive(Default)]
pub struct Held {
    memory: Option<Arc<dyn WorkMemory>>,
    bytes: usize,
    /// Of so many blocks hardly more than a few should come as copies, by those before.
    blocks_of_few: usize,
}

impl Held {
    #[must_use]
    pub fn of(memory: Option<Arc<dyn WorkMemory>>) -> Held {
        Held { memory, bytes: 0, blocks_of_few: 0 }
    }

    /// Takes memory for copies of so many blocks, instead of what is held; for how many there is
    /// some. A few there is always: any statement keeps as many; and blocks that are read from disk
    /// need none, so that it does for more of those.
    pub(crate) fn take_for(&mut self, blocks: usize) -> usize {
        self.set(0);
        let Some(memory) = &self.memory else { return blocks };
        let of_few = blocks.min(self.blocks_of_few);
        let mut room = blocks;
        while room > COPIES_MAX {
            if memory.try_take(room * BLOCK_BYTES) {
                self.bytes = room * BLOCK_BYTES;
                return room.max(of_few);
            }
            room /= 2;
        }
        room = blocks.min(COPIES_MAX);
        self.set(room * BLOCK_BYTES);
        room.max(of_few)
    }

    /// Of so many blocks that were asked for, so many have come as copies. Where they were few,
    /// twice as many are asked for next: what comes unexpectedly is as much as has been read.
    pub(crate) fn came(&mut self, asked: usize, copies: usize) {
        self.blocks_of_few = match copies * 4 <= COPIES_MAX {
            true => asked * 2,
            false => asked.min(asked * COPIES_MAX / copies),
        };
    }

    /// So many bytes are held now, whatever was taken.
    pub(crate) fn hold(&mut self, bytes: usize) {
        self.set(bytes);
    }

    /// So many of them are not any more.
    pub(crate) fn let_go(&mut self, bytes: usize) {
        self.set(self.bytes.saturating_sub(bytes));
    }

    fn set(&mut self, bytes: usize) {
        let before = std::mem::replace(&mut self.bytes, bytes);
        let Some(memory) = &self.memory else { return };
        match bytes.checked_sub(before) {
            Some(0) => {}
            Some(more) => memory.take(more),
            None => memory.give_back(before - bytes),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// So many bytes in all; what is taken in any case may be more.
    struct Bounded {
        bytes_max: usize,
        taken: AtomicUsize,
    }

    impl WorkMemory for Bounded {
        fn try_take(&self, bytes: usize) -> bool {
            let fits = self.taken.load(Ordering::SeqCst) + bytes <= self.bytes_max;
            if fits {
                self.take(bytes);
            }
            fits
        }

        fn take(&self, bytes: usize) {
            self.taken.fetch_add(bytes, Ordering::SeqCst);
        }

        fn give_back(&self, bytes: usize) {
            self.taken.fetch_sub(bytes, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_short_memory_holds_less_ahead_and_all_of_it_is_given_back() {
        let blocks = |n: usize| n * BLOCK_BYTES;
        let memory = Arc::new(Bounded { bytes_max: blocks(40), taken: AtomicUsize::new(0) });
        let taken = || memory.taken.load(Ordering::SeqCst);
        let mut held = Held::of(Some(memory.clone()));
        assert_eq!((held.take_for(30), taken()), (30, blocks(30)));
        assert_eq!((held.take_for(128), taken()), (32, blocks(32)), "instead of what was held");
        let mut other = Held::of(Some(memory.clone()));
        assert_eq!(other.take_for(128), 8, "of what is left");
        assert_eq!((other.take_for(3), taken()), (3, blocks(35)));
        memory.take(blocks(5));
        assert_eq!((other.take_for(128), taken()), (COPIES_MAX, blocks(45)), "a few in any case");
        held.hold(blocks(3));
        held.let_go(blocks(1));
        assert_eq!(taken(), blocks(2 + 5 + COPIES_MAX));
        drop((held, other));
        assert_eq!(taken(), blocks(5));
        assert_eq!(Held::default().take_for(128), 128, "nobody accounts for it");
    }

    #[test]
    fn blocks_that_come_from_disk_need_no_memory() {
        let memory = Arc::new(Bounded { bytes_max: 0, taken: AtomicUsize::new(0) });
        let few = COPIES_MAX * BLOCK_BYTES;
        let mut held = Held::of(Some(memory.clone()));
        let mut run = |copies: fn(usize) -> usize| {
            let asked = held.take_for(128);
            assert_eq!(memory.taken.load(Ordering::SeqCst), few);
            held.came(asked, copies(asked));
            asked
        };
        let asked: Vec<usize> = (0..6).map(|_| run(|_| 0)).collect();
        assert_eq!(asked, [8, 16, 32, 64, 128, 128]);
        // Then others hold all of them, half of them, all, and hardly one.
        let [all, half, one]: [fn(usize) -> usize; 3] = [|n| n, |n| n / 2, |_| 1];
        let asked: Vec<usize> = [all, half, half, all, one, one].map(&mut run).to_vec();
        assert_eq!(asked, [128, 8, 8, 8, 8, 16]);
    }
}
