//! Questions for blocks, and the blocks that come.
//!
//! Promises: a block is accounted for when it comes, and once: for the session that has asked for
//! it, or, if that has gone, for the instance. So what others serve and what comes here are the
//! same numbers, and a mean time is one of all that were counted, whoever waited to the end. Must
//! never decide what becomes of a block.

use std::pin::pin;
use std::sync::Arc;

use block::{Dba, InstanceNo, ObjId};
use env::Lane;
use global::HolderEvent;
use global::msg::{ReqId, Timings, Want};
use observe::{
    Ctx, Stat, Told, TransferClass, TransferHow, TransferKind, TransferTimes, WaitEvent,
};

use super::node::Node;
use crate::cache::{Arrival, Buffer, Carry, Question, SegmentStat, State};

/// A request that has waited longer for block servers is called congested.
const CONGESTED_US: u64 = 1_000;

/// The messages of a transfer: asker, master, holder, or without the master between.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hops {
    Two,
    Three,
}

/// A block that has come.
#[derive(Clone, Copy)]
pub(super) struct Came {
    pub kind: TransferKind,
    pub dba: Dba,
    pub obj: ObjId,
    pub from: InstanceNo,
    /// The parts of its time that the holder has told.
    pub timings: Timings,
    /// How long it waited for the block server here.
    pub own_lms_us: u32,
}

impl Came {
    fn times(&self, total_us: u64) -> TransferTimes {
        let timings = &self.timings;
        TransferTimes {
            total_us,
            master_queue_us: u64::from(timings.queue_us),
            master_lms_us: u64::from(timings.master_lms_us),
            lms_us: u64::from(timings.lms_us),
            build_us: u64::from(timings.build_us),
            pin_us: u64::from(timings.pin_us),
            flush_us: u64::from(timings.flush_us),
            own_lms_us: u64::from(self.own_lms_us),
        }
        .within_total()
    }
}

impl Node {
    /// Asks for a block, whose latch the caller holds, in the name of a session, unless something
    /// else is under way. Whether the question is out.
    pub(super) fn ask(
        &self,
        ctx: &Ctx,
        buffer: &Arc<Buffer>,
        st: &mut State,
        want: Want,
        req_id: ReqId,
    ) -> bool {
        if !st.holder.reading() {
            // How an earlier question ended is not how this one does.
            (st.arrival, st.disk_read, st.read_error) = (None, None, None);
        }
        self.cache.step(buffer, st, HolderEvent::Want { want, req_id }, Carry::default());
        let is_out = st.holder.pending().is_some_and(|p| p.0 == req_id);
        if is_out {
            let (since, by) = (self.env.now(), Arc::downgrade(&ctx.session));
            let direct = st.holder.asked_directly();
            st.question = Some(Box::new(Question { req_id, since, direct, by }));
        }
        is_out
    }

    /// Returns when a question is answered, or void. A block changes for other reasons, too.
    pub(super) async fn answered(&self, buffer: &Buffer, req_id: ReqId) {
        loop {
            let mut changed = pin!(buffer.changed.notified());
            changed.as_mut().enable();
            let is_out = {
                let st = buffer.latch().read();
                st.holder.pending().is_some_and(|p| p.0 == req_id)
            };
            if !is_out {
                return;
            }
            changed.await;
        }
    }

    /// Accounts for a block that has come as the answer to this question; the event by which the
    /// field names the wait for it. No latch is held: the session that has asked may end here.
    pub(super) fn received(&self, came: &Came, question: Option<Box<Question>>) -> WaitEvent {
        let Some(question) = question else {
            // Nobody waits for what comes a second time.
            self.ctx.bump(Stat::GcBlocksUnasked, 1);
            return match came.kind {
                TransferKind::Cr => WaitEvent::GcCrBlock2Way,
                TransferKind::Current => WaitEvent::GcCurrentBlock2Way,
            };
        };
        let total_us = self.env.now().since(question.since);
        let asker = question.by.upgrade();
        let totals = asker.as_ref().unwrap_or(&self.ctx.session).totals();
        let (blocks, time, of_segment) = match came.kind {
            TransferKind::Cr => {
                (Stat::GcCrBlocksReceived, Stat::GcCrReceiveTime, SegmentStat::GcCrBlocksReceived)
            }
            TransferKind::Current => (
                Stat::GcCurrentBlocksReceived,
                Stat::GcCurrentReceiveTime,
                SegmentStat::GcCurrentBlocksReceived,
            ),
        };
        totals.add_stat(blocks, 1);
        totals.add_stat(time, total_us);
        self.cache.common.segments.add(came.obj, of_segment, 1);
        if let Some(last) = asker.filter(|asker| Arc::strong_count(asker) == 1) {
            // The session has ended meanwhile: its end, which may write to its trace, is no work
            // for a block server.
            self.env.spawn_task("a session's end", Lane::Background, async move { drop(last) });
        }
        let hops = self.hops(came.dba, came.from, question.direct);
        self.record(came, hops, came.times(total_us))
    }

    /// How many messages an answer took, by whom was asked.
    fn hops(&self, dba: Dba, from: InstanceNo, asked: Option<InstanceNo>) -> Hops {
        let master = self.master_of(dba);
        let by_master = master == from || master == self.me;
        let straight = match asked {
            // It was at hand, or one of the two was the master, who has been asked instead.
            Some(to) => to == from || master == self.me,
            None => by_master,
        };
        if straight { Hops::Two } else { Hops::Three }
    }

    /// Accounts for a transfer by its parts.
    fn record(&self, came: &Came, hops: Hops, mut times: TransferTimes) -> WaitEvent {
        let Came { kind, dba, from, .. } = *came;
        if self.master_of(dba) == from {
            // The master's server is the sender's.
            times.lms_us += std::mem::take(&mut times.master_lms_us);
        }
        let busy_us = times.flush_us + times.pin_us;
        let lms_us = times.lms_us + times.master_lms_us;
        let congested = lms_us > CONGESTED_US.max(busy_us);
        let how = match hops {
            _ if congested => TransferHow::Congested,
            _ if busy_us > 0 => TransferHow::Busy,
            Hops::Three => TransferHow::ThreeWay,
            Hops::Two => TransferHow::TwoWay,
        };
        let class = match dba.file {
            crate::undo::UNDO_HEADER_FILE => TransferClass::UndoHeader,
            crate::undo::UNDO_FILE => TransferClass::UndoBlock,
            crate::space::DATA_FILE => TransferClass::Data,
            _ => TransferClass::Other,
        };
        self.observer.block_waits.record(from.0, kind, class, how, &times);
        match (kind, how) {
            (TransferKind::Cr, TransferHow::Congested) => WaitEvent::GcCrBlockCongested,
            (TransferKind::Current, TransferHow::Congested) => WaitEvent::GcCurrentBlockCongested,
            (TransferKind::Cr, TransferHow::Busy) => WaitEvent::GcCrBlockBusy,
            (TransferKind::Cr, TransferHow::ThreeWay) => WaitEvent::GcCrBlock3Way,
            (TransferKind::Cr, _) => WaitEvent::GcCrBlock2Way,
            (TransferKind::Current, TransferHow::Busy) => WaitEvent::GcCurrentBlockBusy,
            (TransferKind::Current, TransferHow::ThreeWay) => WaitEvent::GcCurrentBlock3Way,
            (TransferKind::Current, _) => WaitEvent::GcCurrentBlock2Way,
        }
    }

    /// The name of the wait for a question that has just ended.
    pub(super) fn ended(&self, ctx: &Ctx, buffer: &Buffer, want: Want) -> Told {
        let (arrival, until) = {
            let st = buffer.latch().read();
            (st.arrival, st.read_before_told())
        };
        let current = want == Want::X;
        let (event, served_by) = match arrival {
            None if current => (WaitEvent::GcCurrentRetry, None),
            None => (WaitEvent::GcCrFailure, None),
            Some(Arrival::Block { from, event }) => (event, Some(from.0)),
            Some(Arrival::Grant { master_lms_us }) => {
                let local = self.master_of(buffer.dba) == self.me;
                ctx.bump(if local { Stat::GcLocalGrants } else { Stat::GcRemoteGrants }, 1);
                let event = match (current, u64::from(master_lms_us) > CONGESTED_US) {
                    (true, true) => WaitEvent::GcCurrentGrantCongested,
                    (true, false) => WaitEvent::GcCurrentGrant2Way,
                    (false, true) => WaitEvent::GcCrGrantCongested,
                    (false, false) => WaitEvent::GcCrGrant2Way,
                };
                (event, None)
            }
        };
        Told { event, until, served_by }
    }
}
