//! The wait at hand of a session and its last ones, each with what it was for and how long it took.
//!
//! What it promises: to keep one costs a few relaxed stores to memory that only the session writes.
//! What it must never do: be read outside the sequence lock of the session's current wait.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use env::Micros;

use crate::events::WaitEvent;

/// The current wait of a session, or the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitView {
    /// Counts the session's waits.
    pub seq: u32,
    pub waiting: bool,
    /// `None`: has not waited yet.
    pub event: Option<WaitEvent>,
    pub p: [u64; 3],
    /// Waiting: so far. Else: how long the last wait took.
    pub wait_us: u64,
    /// Time since the last wait ended; 0 while waiting.
    pub since_last_us: u64,
    /// Not waiting: the instance that the last wait's block came from, if it was for one and one
    /// came.
    pub served_by: Option<u8>,
}

impl WaitView {
    /// The mode in which a transaction's lock is waited for, as p1 has it; `None`: none is.
    #[must_use]
    pub fn tx_mode(&self) -> Option<u8> {
        let of_tx = self.event.is_some_and(|event| event.name().starts_with("enq: TX"));
        (self.waiting && of_tx).then_some(self.p[0].to_le_bytes()[0])
    }
}

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
