//! The last waits of a session, each with what it was for and how long it took.
//!
//! What it promises: to keep one costs a few relaxed stores to memory that only the session writes.
//! What it must never do: be read outside the sequence lock of the session's current wait.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use env::Micros;

use crate::events::WaitEvent;
use crate::session::WaitView;

/// How many are kept.
pub const PAST_WAITS: usize = 10;

/// A wait that is over, or the one that lasts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PastWait {
    pub event: WaitEvent,
    pub p: [u64; 3],
    pub us: u64,
    /// From the end of the wait before until this one began; `None`: that is not kept any more.
    pub since_last_us: Option<u64>,
}

#[derive(Default)]
struct Cell {
    seq: AtomicU32,
    /// Number of the event, 0: none yet.
    event: AtomicU32,
    p: [AtomicU64; 3],
    us: AtomicU64,
    ended_us: AtomicU64,
}

/// What a cell holds.
#[derive(Clone, Copy)]
pub(crate) struct Ended {
    pub seq: u32,
    pub event: WaitEvent,
    pub p: [u64; 3],
    pub us: u64,
    pub at: Micros,
}

#[derive(Default)]
pub(crate) struct PastWaits([Cell; PAST_WAITS]);

impl PastWaits {
    pub fn put(&self, wait: Ended) {
        let cell = &self.0[wait.seq as usize % PAST_WAITS];
        cell.seq.store(wait.seq, Ordering::Relaxed);
        cell.event.store(wait.event.number(), Ordering::Relaxed);
        for (cell, value) in cell.p.iter().zip(wait.p) {
            cell.store(value, Ordering::Relaxed);
        }
        cell.us.store(wait.us, Ordering::Relaxed);
        cell.ended_us.store(wait.at.0, Ordering::Relaxed);
    }

    fn ended(&self) -> Vec<Ended> {
        let ended = |cell: &Cell| {
            Some(Ended {
                seq: cell.seq.load(Ordering::Relaxed),
                event: WaitEvent::from_number(cell.event.load(Ordering::Relaxed))?,
                p: [0, 1, 2].map(|i| cell.p[i].load(Ordering::Relaxed)),
                us: cell.us.load(Ordering::Relaxed),
                at: Micros(cell.ended_us.load(Ordering::Relaxed)),
            })
        };
        self.0.iter().filter_map(ended).collect()
    }

    /// The last waits, the newest first; what is waited for now is one of them.
    pub fn list(&self, current: &WaitView, now: Micros) -> Vec<PastWait> {
        let mut all = self.ended();
        all.sort_by_key(|wait| Reverse((wait.at, wait.seq)));
        if let Some(event) = current.event.filter(|_| current.waiting) {
            let (seq, p, us) = (current.seq, current.p, current.wait_us);
            all.insert(0, Ended { seq, event, p, us, at: now });
        }
        let since = |at: usize| {
            let began = all[at].at.0.saturating_sub(all[at].us);
            all.get(at + 1).map(|before| began.saturating_sub(before.at.0))
        };
        let waits = all.iter().enumerate().take(PAST_WAITS);
        waits
            .map(|(at, wait)| PastWait {
                event: wait.event,
                p: wait.p,
                us: wait.us,
                since_last_us: since(at),
            })
            .collect()
    }
}
