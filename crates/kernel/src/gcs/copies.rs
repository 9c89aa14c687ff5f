//! Consistent copies, as their readers ask for them: one, or all that a range of rows needs.
//!
//! Promises: a copy is as of the snapshot asked for, or the reader is told that it shares the block
//! now; who asks for many waits for all of them together. Must never keep a block from anybody: a
//! copy is no right.

use std::pin::pin;

use block::{Dba, Mode, Scn, Xid, layout};
use cluster::Class;
use futures::future::{Either, join_all, select};
use global::HolderEvent;
use global::msg::{ReqId, Want};
use observe::{Ctx, Stat, Told, TransferKind, WaitEvent};
use tokio::sync::oneshot;

use super::blocks::{REPEAT_AFTER, transfer_times};
use super::node::{CrAnswer, Node};
use super::waiting::Waiting;
use crate::cache::{Carry, SegmentStat};
use crate::error::Result;
use crate::txn::CrCopy;

/// A question for a copy of one of many blocks.
struct Asked<'a> {
    dba: Dba,
    answer: oneshot::Receiver<CrAnswer>,
    direct: Option<block::InstanceNo>,
    guard: CrGuard<'a>,
}

impl Node {
    /// A consistent-read base of a block this instance has no right to: a copy, or `None` if it has
    /// the block in S now.
    pub(super) async fn get_consistent(
        &self,
        ctx: &Ctx,
        dba: Dba,
        scn: Scn,
    ) -> Result<Option<CrCopy>> {
        let p = [u64::from(dba.file), u64::from(dba.block), 1];
        let (mut waited, mut until, mut waits) = (false, None, None);
        loop {
            ctx.wait_or_cancel(WaitEvent::GcQuiesce, p, self.wait_thaw()).await?;
            let (buffer, _) = self.cache.lookup_or_insert(dba);
            let waiting = match waits.take().filter(|w: &Waiting<'_>| w.is_for(&buffer)) {
                Some(waiting) => waiting,
                None => Waiting::new(&self.cache, &buffer),
            };
            let waiting = waits.insert(waiting);
            let changed = buffer.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            let (mut copy, mut reading) = (None, None);
            let here;
            {
                let _turn = self.own_turn(Class::Blocks);
                let _gate = self.cache.enter_protocol();
                let mut st = buffer.latch().write();
                here = self.cache.is_alone() || self.cache.usable(&buffer, &st, Mode::S);
                if here {
                    waiting.served();
                    reading = if waited { st.disk_read.take() } else { None };
                } else if let Some(e) = st.read_error.take() {
                    return Err(e);
                } else if st.holder.reading() {
                    reading = st.disk_read.clone();
                } else if st.holder.pending().is_none() {
                    let req_id = self.req_id();
                    let want = Want::Cr { scn, xid: Xid::NONE };
                    let event = HolderEvent::Want { want, req_id };
                    let (answer, answered) = oneshot::channel();
                    self.cr_waits.lock().insert(req_id, answer);
                    (st.arrival, st.disk_read) = (None, None);
                    self.cache.step(&buffer, &mut st, event, Carry::default());
                    match st.holder.pending() {
                        Some(pending) if pending.0 == req_id => {
                            copy = Some((req_id, answered, st.holder.asked_directly()));
                        }
                        _ => drop(self.cr_waits.lock().remove(&req_id)),
                    }
                }
            }
            if here {
                reading.into_iter().for_each(|read| read.account_late(ctx, until));
                return Ok(None);
            }
            (waited, until) = (true, None);
            if let Some(read) = reading {
                read.wait(ctx, dba, REPEAT_AFTER, changed).await?;
                continue;
            }
            let began = self.env.now();
            let Some((req_id, answered, asked)) = copy else {
                let busy = WaitEvent::GcBufferBusyAcquire;
                if ctx.wait_for_or_cancel(busy, p, REPEAT_AFTER, changed).await?.is_err() {
                    self.repeat(&buffer);
                }
                self.count_segment(&buffer, SegmentStat::GcBufferBusy);
                continue;
            };
            let _guard = CrGuard { node: self, req_id };
            let wait = async {
                let either = futures::future::select(answered, changed);
                match self.env.timeout(REPEAT_AFTER, either).await {
                    Ok(futures::future::Either::Left((Ok(answer), _))) => {
                        let us = self.env.now().since(began);
                        let told = self.copy_received(ctx, dba, &answer, asked, us);
                        ((Some(answer.copy), None), told)
                    }
                    Ok(_) => {
                        let told = self.ended(ctx, &buffer, Want::S, began);
                        ((None, told.until), told)
                    }
                    Err(_) => {
                        self.repeat(&buffer);
                        ((None, None), WaitEvent::GcCrRequest.into())
                    }
                }
            };
            let wait = ctx.wait_relabel_or_cancel(WaitEvent::GcCrRequest, p, wait).begun();
            let (got, told) = self.env.eager(wait).await?;
            if got.is_some() {
                return Ok(got);
            }
            until = told;
        }
    }

    /// Copies of those of many blocks of which another instance has one, asked for together. Best
    /// effort: what does not come in one go is asked for again by whoever needs it.
    pub(super) async fn get_consistent_many(
        &self,
        ctx: &Ctx,
        dbas: &[Dba],
        scn: Scn,
    ) -> Result<Vec<(Dba, CrCopy)>> {
        let Some(first) = dbas.first() else { return Ok(Vec::new()) };
        let p = [u64::from(first.file), u64::from(first.block), dbas.len() as u64];
        ctx.wait_or_cancel(WaitEvent::GcQuiesce, p, self.wait_thaw()).await?;
        let mut asked = Vec::with_capacity(dbas.len());
        {
            // All questions to one instance leave together, at the end of this step.
            let _turn = self.own_turn(Class::Blocks);
            let _gate = self.cache.enter_protocol();
            if self.cache.is_alone() {
                return Ok(Vec::new());
            }
            asked.extend(dbas.iter().filter_map(|dba| self.ask_copy(*dba, scn)));
        }
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        let buffers: Vec<_> = asked.iter().filter_map(|a| self.cache.lookup(a.dba)).collect();
        let began = self.env.now();
        let all = join_all(asked.into_iter().map(|asked| self.copy_asked(ctx, asked, began)));
        let wait = self.env.timeout(REPEAT_AFTER, all);
        let wait = ctx.wait_or_cancel(WaitEvent::GcCrMultiBlockRequest, p, wait);
        let came = self.env.eager(wait).await?.unwrap_or_default();
        // What nobody had is being read from disk.
        self.wait_for_reads(ctx, &buffers).await?;
        Ok(came.into_iter().flatten().collect())
    }

    /// Asks for a copy of a block unless there is a better way, or somebody asks already.
    fn ask_copy(&self, dba: Dba, scn: Scn) -> Option<Asked<'_>> {
        let (buffer, _) = self.cache.lookup_or_insert(dba);
        let mut st = buffer.latch().write();
        if self.cache.usable(&buffer, &st, Mode::S) || st.holder.pending().is_some() {
            return None;
        }
        let req_id = self.req_id();
        let want = Want::Cr { scn, xid: Xid::NONE };
        let (sender, answer) = oneshot::channel();
        self.cr_waits.lock().insert(req_id, sender);
        let guard = CrGuard { node: self, req_id };
        if !st.holder.reading() {
            (st.arrival, st.disk_read, st.read_error) = (None, None, None);
        }
        self.cache.step(&buffer, &mut st, HolderEvent::Want { want, req_id }, Carry::default());
        let ours = st.holder.pending().is_some_and(|p| p.0 == req_id);
        ours.then(|| Asked { dba, answer, direct: st.holder.asked_directly(), guard })
    }

    /// Accounts a copy; the event by which the field names it, and whose it was.
    fn copy_received(
        &self,
        ctx: &Ctx,
        dba: Dba,
        answer: &CrAnswer,
        asked: Option<block::InstanceNo>,
        total_us: u64,
    ) -> Told {
        ctx.bump(Stat::GcCrBlocksReceived, 1);
        ctx.bump(Stat::GcCrReceiveTime, total_us);
        let obj = layout::obj(&answer.copy.image);
        self.cache.common.segments.add(obj, SegmentStat::GcCrBlocksReceived, 1);
        let hops = self.hops(dba, answer.from, asked);
        let times = transfer_times(total_us, &answer.timings, answer.own_lms_us);
        let event = self.record(TransferKind::Cr, dba, answer.from, hops, times);
        Told { event, until: None, served_by: Some(answer.from.0) }
    }

    /// The copy, or `None` if the question ends in another way.
    async fn copy_asked(
        &self,
        ctx: &Ctx,
        asked: Asked<'_>,
        began: env::Micros,
    ) -> Option<(Dba, CrCopy)> {
        let Asked { dba, answer, direct, guard } = asked;
        let buffer = self.cache.lookup(dba)?;
        let ended = async {
            let mut changed = pin!(buffer.changed.notified());
            changed.as_mut().enable();
            let busy = {
                let st = buffer.latch().read();
                st.holder.pending().is_some_and(|p| p.0 == guard.req_id)
            };
            if busy {
                changed.await;
            }
        };
        match select(answer, pin!(ended)).await {
            Either::Left((Ok(answer), _)) => {
                let us = self.env.now().since(began);
                self.copy_received(ctx, dba, &answer, direct, us);
                Some((dba, answer.copy))
            }
            _ => None,
        }
    }
}

struct CrGuard<'a> {
    node: &'a Node,
    req_id: ReqId,
}

impl Drop for CrGuard<'_> {
    fn drop(&mut self) {
        self.node.cr_waits.lock().remove(&self.req_id);
    }
}
