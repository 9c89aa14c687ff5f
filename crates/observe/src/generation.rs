//! What one task writes in several cells and others read as one state.
//!
//! What it promises: who reads between two changes gets what was written together. What it must
//! never do: make the writer wait for a reader, nor a reader for ever for the writer.

use std::sync::atomic::{AtomicU32, Ordering, fence};

/// How often a reader tries to see one state before it takes what it has: the writer may have been
/// preempted in the middle of a change.
const READ_ATTEMPTS: u32 = 100_000;

/// Number of the changes of such cells, twice; odd while one is under way.
#[derive(Default)]
pub(crate) struct Generation(AtomicU32);

impl Generation {
    /// Changes the cells; for their one writer.
    pub fn write<T>(&self, change: impl FnOnce() -> T) -> T {
        let generation = self.0.load(Ordering::Relaxed);
        self.0.store(generation.wrapping_add(1) | 1, Ordering::Relaxed);
        fence(Ordering::Release);
        let out = change();
        self.0.store((generation | 1).wrapping_add(1), Ordering::Release);
        out
    }

    /// What is read between two changes.
    pub fn consistent<T>(&self, read: impl Fn() -> T) -> T {
        let mut attempt = 0;
        loop {
            let before = self.0.load(Ordering::Acquire);
            let view = read();
            fence(Ordering::Acquire);
            let same = self.0.load(Ordering::Relaxed) == before;
            attempt += 1;
            if (same && before.is_multiple_of(2)) || attempt == READ_ATTEMPTS {
                return view;
            }
            if attempt % 64 == 0 {
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU64};

    #[test]
    fn a_reader_sees_what_was_written_together() {
        let (generation, stop) = (Generation::default(), AtomicBool::new(false));
        let cells = [const { AtomicU64::new(0) }; 2];
        std::thread::scope(|threads| {
            threads.spawn(|| {
                for n in 1.. {
                    generation.write(|| cells.iter().for_each(|c| c.store(n, Ordering::Relaxed)));
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
            let read = || [0, 1].map(|at: usize| cells[at].load(Ordering::Relaxed));
            let seen: Vec<[u64; 2]> = (0..20_000).map(|_| generation.consistent(read)).collect();
            stop.store(true, Ordering::Relaxed);
            assert!(seen.iter().all(|[one, other]| one == other));
        });
    }
}
