//! Consistent copies, as their readers ask for them: one, or all that a range of rows needs.
//!
//! Promises: a copy is as of the snapshot asked for, or the reader is told that it shares the block
//! now; who asks for many waits for all of them together, and one that is slow takes nothing away
//! from the others. Must never keep a block from anybody: a copy is no right.

use std::collections::hash_map::Entry;
use std::pin::pin;
use std::sync::Arc;

use block::{Dba, Mode, ObjId, Scn, Xid};
use cluster::Class;
use futures::future::{Either, FutureExt, select};
use futures::stream::{FuturesUnordered, StreamExt};
use global::msg::{ReqId, Want};
use observe::{Ctx, Told, WaitEvent};
use tokio::sync::oneshot;

use super::blocks::REPEAT_AFTER;
use super::node::{CrAnswer, Node};
use super::waiting::Waiting;
use crate::cache::{Buffer, SegmentStat, State};
use crate::error::Result;
use crate::txn::CrCopy;

/// A question for a copy of a block.
struct Asked<'a> {
    buffer: Arc<Buffer>,
    answer: oneshot::Receiver<CrAnswer>,
    guard: CrGuard<'a>,
}

impl Node {
    /// A consistent-read base of a block this instance has no right to: a copy, or `None` if it has
    /// the block in S now. `anew`: no copy that was asked for before.
    pub(super) async fn get_consistent(
        &self,
        ctx: &Ctx,
        dba: Dba,
        scn: Scn,
        anew: bool,
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
                } else {
                    copy = self.ask_copy(ctx, &buffer, &mut st, scn, anew);
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
            let Some(asked) = copy else {
                let busy = WaitEvent::GcBufferBusyAcquire;
                if ctx.wait_for_or_cancel(busy, p, REPEAT_AFTER, changed).await?.is_err() {
                    self.repeat(&buffer);
                }
                self.count_segment(&buffer, SegmentStat::GcBufferBusy);
                continue;
            };
            let wait = async {
                match self.env.timeout(REPEAT_AFTER, self.answer_of(asked)).await {
                    Ok(Some(CrAnswer { copy, from, event })) => {
                        let told = Told { event, until: None, served_by: Some(from.0) };
                        ((Some(copy), None), told)
                    }
                    Ok(None) => {
                        let told = self.ended(ctx, &buffer, Want::S);
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

    /// Copies of those of many blocks of which another instance has one, asked for together, in the
    /// order of their addresses. Best effort: what does not come in time is left to whoever needs
    /// it. `of`: the segment that all are of, if the reader knows.
    pub(super) async fn get_consistent_many(
        &self,
        ctx: &Ctx,
        dbas: &[Dba],
        of: Option<ObjId>,
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
            for dba in dbas {
                let (buffer, _) = self.cache.lookup_or_insert(*dba);
                let mut st = buffer.latch().write();
                if !self.cache.usable(&buffer, &st, Mode::S) {
                    // Nobody may have it: then it is read.
                    if let Some(obj) = of.filter(|_| st.image.is_none()) {
                        buffer.seek(obj);
                    }
                    asked.extend(self.ask_copy(ctx, &buffer, &mut st, scn, false));
                }
            }
        }
        if asked.is_empty() {
            return Ok(Vec::new());
        }
        let buffers: Vec<_> = asked.iter().map(|asked| asked.buffer.clone()).collect();
        let mut came = Vec::with_capacity(asked.len());
        let mut questions = FuturesUnordered::new();
        for asked in asked {
            questions.push(async move {
                let dba = asked.buffer.dba;
                Some((dba, self.answer_of(asked).await?.copy))
            });
        }
        let all = async {
            while let Some(answer) = questions.next().await {
                came.extend(answer);
            }
        };
        let wait = self.env.timeout(REPEAT_AFTER, all);
        // The questions are out: that is a wait, however soon the answers are here.
        let wait = ctx.wait_or_cancel(WaitEvent::GcCrMultiBlockRequest, p, wait).begun();
        // What takes longer is waited for, or asked for again, by itself.
        let _ = self.env.eager(wait).await?;
        // What nobody had is being read from disk.
        self.wait_for_reads(ctx, &buffers).await?;
        while let Some(Some(answer)) = questions.next().now_or_never() {
            came.extend(answer);
        }
        came.sort_unstable_by_key(|(dba, _): &(Dba, CrCopy)| *dba);
        Ok(came)
    }

    /// Asks for a copy of a block. If the same has been asked for and nobody waits for the answer
    /// any more, that question is taken over, unless it must be asked `anew`. `None`: something
    /// else is under way.
    fn ask_copy(
        &self,
        ctx: &Ctx,
        buffer: &Arc<Buffer>,
        st: &mut State,
        scn: Scn,
        anew: bool,
    ) -> Option<Asked<'_>> {
        let want = Want::Cr { scn, xid: Xid::NONE };
        let pending = st.holder.pending();
        let req_id = match pending {
            None => self.req_id(),
            Some((req_id, asked)) if asked == want && !anew => req_id,
            Some(_) => return None,
        };
        let (sender, answer) = oneshot::channel();
        {
            let mut waits = self.cr_waits.lock();
            let Entry::Vacant(free) = waits.entry((buffer.dba, req_id)) else { return None };
            free.insert(sender);
        }
        let guard = CrGuard { node: self, dba: buffer.dba, req_id };
        let is_out = match pending {
            None => self.ask(ctx, buffer, st, want, req_id),
            Some(_) => {
                if let Some(question) = &mut st.question
                    && question.req_id == req_id
                {
                    question.by = Arc::downgrade(&ctx.session);
                }
                true
            }
        };
        is_out.then(|| Asked { buffer: buffer.clone(), answer, guard })
    }

    /// The answer to a question, or `None` if it ends in another way.
    async fn answer_of(&self, asked: Asked<'_>) -> Option<CrAnswer> {
        let Asked { buffer, answer, guard } = asked;
        let answered = pin!(self.answered(&buffer, guard.req_id));
        match select(answer, answered).await {
            Either::Left((answer, _)) => answer.ok(),
            Either::Right(((), answer)) => {
                // Whoever has taken the asker off the list is about to answer.
                guard.give_up();
                answer.await.ok()
            }
        }
    }
}

/// Somebody waits for the answer to a question.
struct CrGuard<'a> {
    node: &'a Node,
    dba: Dba,
    req_id: ReqId,
}

impl CrGuard<'_> {
    /// The question will not be answered, unless it is already.
    fn give_up(&self) {
        self.node.cr_waits.lock().remove(&(self.dba, self.req_id));
    }
}

impl Drop for CrGuard<'_> {
    fn drop(&mut self) {
        self.give_up();
    }
}
