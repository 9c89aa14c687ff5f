//! How transactions ended whose slots have been used anew.
//!
//! A segment has few slots, and a short load goes through all of them in a second; a snapshot may
//! ask for much longer. Promises that as long as one may ask, an end is told exactly; beyond that
//! (or beyond [`PAST_MAX`]) only a bound is known. Lives in memory alone: after a restart every end
//! before it is told by the bound in the segment's header.

use std::collections::VecDeque;

use block::{Scn, Xid};
use rustc_hash::FxHashMap;

use super::segment::TxMem;

/// Ends remembered by one segment, for a snapshot that stays very long: some 4 MB, and 40 MB of
/// an instance's ten.
const PAST_MAX: usize = 1 << 16;

#[derive(Default)]
pub(super) struct Past {
    ends: FxHashMap<(u16, u32), TxMem>,
    /// In the order the slots were used anew, which is nearly that of the ends.
    order: VecDeque<(Scn, u16, u32)>,
    /// Nothing that has been given up here ended later.
    bound: Scn,
}

impl Past {
    /// What was forgotten up to now ended at `bound` or before.
    pub fn new(bound: Scn) -> Past {
        Past { bound, ..Past::default() }
    }

    /// The slot of `xid`, which ended in `state` at `ended`, is used anew. No snapshot is older
    /// than `horizon`.
    pub fn remember(&mut self, xid: Xid, state: TxMem, ended: Scn, horizon: Scn) {
        self.ends.insert((xid.slot, xid.seq), state);
        self.order.push_back((ended, xid.slot, xid.seq));
        while let Some(&(ended, slot, seq)) = self.order.front()
            && (ended <= horizon || self.order.len() > PAST_MAX)
        {
            self.order.pop_front();
            self.ends.remove(&(slot, seq));
            self.bound = self.bound.max(ended);
        }
    }

    /// How `xid` ended; `Err(bound)`: that is forgotten, it was at that SCN or before.
    pub fn end_of(&self, xid: Xid) -> Result<TxMem, Scn> {
        self.ends.get(&(xid.slot, xid.seq)).copied().ok_or(self.bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn xid(seq: u32) -> Xid {
        Xid { usn: 1, slot: 3, seq }
    }

    #[test]
    fn an_end_is_told_while_a_snapshot_may_ask() {
        let mut past = Past::new(Scn(5));
        for i in 1..=10_u32 {
            let scn = Scn(10 * u64::from(i));
            past.remember(xid(i), TxMem::Committed(scn), scn, Scn(0));
        }
        assert_eq!(past.end_of(xid(1)), Ok(TxMem::Committed(Scn(10))));
        assert_eq!(past.end_of(xid(11)), Err(Scn(5)));
        past.remember(xid(11), TxMem::Free, Scn(110), Scn(40));
        assert_eq!(past.end_of(xid(4)), Err(Scn(40)));
        assert_eq!(past.end_of(xid(5)), Ok(TxMem::Committed(Scn(50))));
        assert_eq!(past.end_of(xid(11)), Ok(TxMem::Free));
    }

    #[test]
    fn no_more_are_kept_than_there_is_room_for() {
        let mut past = Past::default();
        let all = u32::try_from(PAST_MAX).expect("fits") + 3;
        for i in 1..=all {
            let scn = Scn(u64::from(i));
            past.remember(xid(i), TxMem::Committed(scn), scn, Scn(0));
        }
        assert_eq!((past.ends.len(), past.order.len()), (PAST_MAX, PAST_MAX));
        assert_eq!(past.end_of(xid(1)), Err(Scn(3)));
        assert_eq!(past.end_of(xid(4)), Ok(TxMem::Committed(Scn(4))));
    }
}
