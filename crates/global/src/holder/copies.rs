//! Consistent copies for readers elsewhere: who serves one, and when a holder that serves many of
//! a quiet block shares it instead.
//!
//! Promises: no mode changes at the reader; none is served from a past image (H14), nor to a
//! reader's guess by one whose right is in doubt. Must never take part in a conversion.

use block::{InstanceNo, Mode, Scn, Xid};

use super::{CR_SERVED_BEFORE_DOWNGRADE, Facts, Holder, HolderEffect};
use crate::msg::{MasterMsg, ReqId, Timings};

impl Holder {
    pub(super) fn turn_cr_away(&mut self, out: &mut Vec<HolderEffect>) {
        for (asker, req_id, scn, xid, _) in self.cr_parked.drain(..) {
            let msg = MasterMsg::CrNotHeld { asker, req_id, scn, xid };
            out.push(HolderEffect::ToMaster(msg));
        }
    }

    /// A reader's guess was this instance. Only the holder in X answers, and only while its right
    /// is beyond doubt: after an offer to evict the master may have given the block away, and one
    /// who shares the block is for the master to see, which may let the reader share it too.
    pub(super) fn ask_cr(
        &mut self,
        (asker, req_id, scn, xid, timings): (InstanceNo, ReqId, Scn, Xid, Timings),
        facts: &Facts,
        out: &mut Vec<HolderEffect>,
    ) {
        if facts.frozen {
            return;
        }
        if self.mode == Mode::X && self.readable() {
            self.forward_cr((asker, req_id, scn, xid, timings), facts, out);
        } else {
            let msg = MasterMsg::CrNotHeld { asker, req_id, scn, xid };
            out.push(HolderEffect::ToMaster(msg));
        }
    }

    pub(super) fn forward_cr(
        &mut self,
        cr: (InstanceNo, ReqId, Scn, Xid, Timings),
        facts: &Facts,
        out: &mut Vec<HolderEffect>,
    ) {
        if facts.frozen {
            return;
        }
        let (to, req_id, scn, xid, timings) = cr;
        if self.reading() {
            self.cr_parked.push(cr);
            return;
        }
        if !self.present() {
            let msg = MasterMsg::CrNotHeld { asker: to, req_id, scn, xid };
            out.push(HolderEffect::ToMaster(msg)); // H14
            return;
        }
        out.push(HolderEffect::ServeCr { to, req_id, scn, xid, timings });
        if self.cr_version != facts.version {
            self.cr_version = facts.version;
            self.cr_served = 0;
        }
        self.cr_served = self.cr_served.saturating_add(1);
        let quiet = self.duty.is_none()
            && self.releasing.is_none()
            && self.pending.is_none()
            && facts.change_pins == 0
            && !facts.writing
            && (!facts.dirty || facts.redo_durable);
        if self.mode == Mode::X && quiet && self.cr_served >= CR_SERVED_BEFORE_DOWNGRADE {
            self.mode = Mode::S;
            self.cr_served = 0;
            let msg = MasterMsg::Downgraded { seq: self.seq, unwritten: facts.dirty };
            out.push(HolderEffect::ToMaster(msg));
        }
    }
}
