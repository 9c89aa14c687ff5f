//! Transactions of other instances, the commit broadcast, undo by copy, the horizon.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use block::{BLOCK_BYTES, Dba, InstanceNo, ObjId, Scn, Uba, Xid};
use env::{BoxFuture, IoBuf, Lane};
use futures::FutureExt;
use global::msg::{Message, TxnMessage, TxnState};
use global::{Mutant, broken};
use observe::{Ctx, Stat, WaitEvent};

use super::calls::CallKind;
use super::node::Node;
use super::served::CrCount;
use crate::error::{Error, Result};
use crate::txn::{CrCopy, Peers, TxStatus};

/// How often each instance tells the others its oldest snapshot if it has changed.
const HORIZON_EVERY: Duration = Duration::from_millis(100);

/// Of how many times it tells it once though it has not changed: who enters an epoch late has not
/// heard what was said before.
const HORIZON_UNCHANGED: u32 = 20;

fn to_state(status: TxStatus) -> TxnState {
    match status {
        TxStatus::Active => TxnState::Active,
        TxStatus::Committing(scn) if broken(Mutant::AnswerBeforeFlush) => {
            TxnState::Committed { scn }
        }
        TxStatus::Committing(scn) => TxnState::Committing { scn },
        TxStatus::Committed(scn) => TxnState::Committed { scn },
        TxStatus::CommittedBy(scn) => TxnState::CommittedBefore { scn },
        TxStatus::Gone => TxnState::RolledBack,
    }
}

fn from_state(state: TxnState) -> TxStatus {
    match state {
        TxnState::Active => TxStatus::Active,
        TxnState::Committing { scn } => TxStatus::Committing(scn),
        TxnState::Committed { scn } => TxStatus::Committed(scn),
        TxnState::CommittedBefore { scn } => TxStatus::CommittedBy(scn),
        TxnState::RolledBack | TxnState::NeverWas => TxStatus::Gone,
    }
}

/// The instance an undo segment was born with.
pub(super) fn born(usn: u16) -> InstanceNo {
    (1..=block::INSTANCES_MAX)
        .map(InstanceNo)
        .find(|k| crate::undo::segments_of(*k).any(|u| u == usn))
        .unwrap_or(InstanceNo(1))
}

impl Peers for Node {
    fn seen_copy(&self, ctx: &Ctx, dba: Dba, scn: Scn) -> Option<Vec<u8>> {
        self.look_for_copy(ctx, dba, scn)
    }

    fn may_see(&self, dba: Dba) -> bool {
        self.may_look(dba)
    }

    fn seen_undo(&self, ctx: &Ctx, xid: Xid, dba: Dba) -> Option<Vec<u8>> {
        self.look_for_undo(ctx, xid, dba)
    }

    fn seen_status(&self, ctx: &Ctx, xid: Xid, scn: Scn) -> Option<TxStatus> {
        self.look_for_status(ctx, xid, scn).map(|status| from_state(to_state(status)))
    }

    fn status<'a>(&'a self, ctx: &'a Ctx, xid: Xid, _scn: Scn) -> BoxFuture<'a, Result<TxStatus>> {
        let (event, p) =
            (WaitEvent::TransactionEnquiry, [xid.usn.into(), xid.slot.into(), xid.seq.into()]);
        env::boxed!(async move {
            loop {
                ctx.check_interrupt()?;
                let owner = self.view().answers_for(born(xid.usn));
                if owner == self.me {
                    match self.core.local_status(xid) {
                        Some(status) => return Ok(status),
                        // Adopted in this epoch, but not loaded yet.
                        None => ctx.wait_or_cancel(event, p, self.wait_segments()).await?,
                    }
                    continue;
                }
                // The question carries this instance's clock, so a later commit gets a higher SCN.
                let make = |req_id| TxnMessage::TransactionState { req_id, xid };
                let wait = ctx.wait_or_cancel(event, p, self.call(owner, make));
                if let Some(TxnMessage::TransactionStateReply { state, .. }) =
                    self.env.eager(wait).await?
                {
                    return Ok(from_state(state));
                }
            }
        })
    }

    fn await_end<'a>(&'a self, _ctx: &'a Ctx, xid: Xid) -> BoxFuture<'a, Result<()>> {
        env::boxed!(async move {
            let owner = self.view().answers_for(born(xid.usn));
            if owner == self.me {
                self.wait_segments().await;
                return Ok(());
            }
            // Answered or overtaken by an epoch: the caller looks again either way.
            self.call(owner, |req_id| TxnMessage::AwaitEnd { req_id, xid }).await;
            Ok(())
        })
    }

    fn undo_block<'a>(&'a self, ctx: &'a Ctx, xid: Xid, uba: Uba) -> BoxFuture<'a, Result<IoBuf>> {
        env::boxed!(async move {
            loop {
                ctx.check_interrupt()?;
                let owner = self.view().answers_for(born(xid.usn));
                if owner == self.me {
                    if self.core.segment(xid.usn).is_none() {
                        self.wait_segments().await;
                        continue;
                    }
                    let copy = self.cache.read(ctx, uba.dba, IoBuf::copy_from).await?;
                    return Ok(copy);
                }
                let addr = uba.dba;
                let p = [u64::from(addr.file), u64::from(addr.block), 18];
                let asked = self.call(owner, |req_id| TxnMessage::UndoBlock { req_id, addr });
                let wait = ctx.wait_or_cancel(WaitEvent::GcCrRequest, p, asked);
                let reply = self.env.eager(wait).await?;
                match reply {
                    Some(TxnMessage::UndoBlockReply { image, .. })
                        if image.len() == BLOCK_BYTES =>
                    {
                        return Ok(IoBuf::copy_from(&image));
                    }
                    // The owner could not read it: here the error has a session that is told.
                    Some(TxnMessage::UndoBlockReply { .. }) => {
                        return self.cache.read_block(ctx, addr).await;
                    }
                    _ => {}
                }
            }
        })
    }

    fn broadcast<'a>(&'a self, ctx: &'a Ctx, scn: Scn) -> BoxFuture<'a, Result<()>> {
        env::boxed!(async move {
            if broken(Mutant::SkipScnBroadcast) {
                return Ok(());
            }
            let began = self.env.now();
            self.tell_all(ctx, scn).await;
            ctx.bump(Stat::ScnBroadcasts, 1);
            ctx.bump(Stat::ScnBroadcastTime, self.env.now().since(began));
            Ok(())
        })
    }

    fn epoch(&self) -> u64 {
        self.view.read().epoch.0
    }

    fn horizon(&self) -> Scn {
        let view = self.view();
        let horizons = self.horizons.lock();
        let others = view.members.iter().filter(|m| **m != self.me);
        others.map(|m| horizons.get(m).copied().unwrap_or(Scn::ZERO)).min().unwrap_or(Scn::MAX)
    }

    fn consistent_copy<'a>(
        &'a self,
        ctx: &'a Ctx,
        dba: Dba,
        scn: Scn,
        anew: bool,
    ) -> BoxFuture<'a, Result<Option<CrCopy>>> {
        env::boxed!(self.get_consistent(ctx, dba, scn, anew))
    }

    fn consistent_copies<'a>(
        &'a self,
        ctx: &'a Ctx,
        dbas: &'a [Dba],
        of: Option<ObjId>,
        scn: Scn,
    ) -> BoxFuture<'a, Result<Vec<(Dba, CrCopy)>>> {
        env::boxed!(self.get_consistent_many(ctx, dbas, of, scn))
    }
}

impl Node {
    /// Tells every live instance a commit SCN; returns when all have acknowledged it, asking anew
    /// in each epoch (a Marker acknowledges, too).
    async fn tell_all(&self, ctx: &Ctx, scn: Scn) {
        let mut told: Vec<InstanceNo> = vec![self.me];
        loop {
            let view = self.view();
            let left: Vec<InstanceNo> =
                view.members.iter().copied().filter(|m| !told.contains(m)).collect();
            let left: Vec<InstanceNo> = left
                .into_iter()
                .filter(|&to| {
                    let seen = self.tell_by_look(to, scn);
                    if seen {
                        told.push(to);
                    }
                    !seen
                })
                .collect();
            if left.is_empty() {
                if self.view().epoch == view.epoch {
                    return;
                }
                continue;
            }
            let make = |req_id| TxnMessage::ScnBroadcast { req_id, scn, objects: Vec::new() };
            let mut asks: Vec<_> =
                left.iter().map(|&to| (to, env::boxed!(self.call(to, make)), None)).collect();
            // All are asked before any is waited for.
            for (_, ask, answer) in &mut asks {
                *answer = ask.now_or_never();
            }
            for (to, ask, answer) in asks {
                // The wait names the one who lets the commit wait.
                let p = [u64::from(to.0), scn.0, 0];
                let answer = match answer {
                    Some(answer) => answer,
                    None => ctx.wait(WaitEvent::WaitForScnAck, p, ask).await,
                };
                if answer.is_some() {
                    told.push(to);
                }
            }
        }
    }

    /// A short wait for undo segments that are being adopted.
    async fn wait_segments(&self) {
        let loaded = self.segments_loaded.notified();
        let pause = self.env.sleep(Duration::from_millis(5));
        futures::future::select(env::boxed!(loaded), pause).await;
    }

    /// Waits until this instance has loaded the undo segments it answers for.
    pub async fn wait_segments_of(&self, epoch_at_least: u64) {
        while self.segments_ready.load(Ordering::SeqCst) < epoch_at_least {
            self.wait_segments().await;
        }
    }

    /// Tells the others, again and again, the oldest snapshot here.
    pub(super) fn start_horizons(self: &Arc<Node>) {
        let node = self.clone();
        self.env.spawn_task("horizon", Lane::Serve, async move {
            let (mut told, mut unsaid) = (None, 0);
            loop {
                node.env.sleep(HORIZON_EVERY).await;
                if node.cache.is_alone() {
                    continue;
                }
                let oldest = node.core.snapshots.horizon(&node.core.clock);
                let _gate = node.cache.enter_protocol();
                if node.cache.is_frozen() {
                    continue;
                }
                let now = Some((node.view().epoch, oldest));
                if std::mem::replace(&mut told, now) == now && unsaid < HORIZON_UNCHANGED {
                    unsaid += 1;
                    continue;
                }
                unsaid = 0;
                for &to in node.view().members.iter().filter(|m| **m != node.me) {
                    node.send(to, Message::Txn(TxnMessage::Horizon { oldest }));
                }
            }
        });
    }

    /// Handles a message of the transaction class; under the gate.
    pub(super) fn txn_message(&self, from: InstanceNo, message: TxnMessage) {
        match message {
            TxnMessage::TransactionState { req_id, xid } => {
                self.served.count_cr(CrCount::UndoHeader);
                let Some(status) = self.core.local_status(xid) else {
                    self.answer_later(from, req_id, xid);
                    return;
                };
                let state = to_state(status);
                let reply = TxnMessage::TransactionStateReply { req_id, xid, state };
                self.send(from, Message::Txn(reply));
            }
            TxnMessage::AwaitEnd { req_id, xid } => self.tell_end(from, req_id, xid),
            TxnMessage::ScnBroadcast { req_id, scn, .. } => {
                self.core.clock.raise(scn);
                self.core.snapshots.raise_floor(scn);
                self.send(from, Message::Txn(TxnMessage::ScnAck { req_id, scn }));
            }
            TxnMessage::Horizon { oldest } => {
                self.horizons.lock().insert(from, oldest);
            }
            TxnMessage::UndoBlock { req_id, addr } => {
                self.served.count_cr(CrCount::Undo);
                let buffer = self.cache.lookup(addr);
                let image =
                    buffer.and_then(|b| b.latch().read().image.as_ref().map(|i| i.to_vec()));
                match image {
                    Some(image) => {
                        let reply = TxnMessage::UndoBlockReply { req_id, addr, image };
                        self.send(from, Message::Txn(reply));
                    }
                    None => {
                        let later = TxnMessage::UndoBlockLater { req_id };
                        self.send(from, Message::Txn(later));
                        self.read_undo_for(from, req_id, addr);
                    }
                }
            }
            TxnMessage::Call { req_id, kind, body } => self.serve_call(from, req_id, kind, body),
            TxnMessage::TransactionStateReply { req_id, .. }
            | TxnMessage::Ended { req_id, .. }
            | TxnMessage::ScnAck { req_id, .. }
            | TxnMessage::UndoBlockReply { req_id, .. }
            | TxnMessage::CallReply { req_id, .. } => {
                // Who is woken looks at the calls, too: not under their lock.
                let call = self.calls.lock().remove(&req_id);
                if let Some(call) = call {
                    // The caller may have gone.
                    let _ = call.answer.send(message);
                }
            }
            TxnMessage::UndoBlockLater { req_id } => {
                if let Some(call) = self.calls.lock().get_mut(&req_id) {
                    call.prompt = false;
                }
            }
            TxnMessage::AwaitCancel { .. } => {}
        }
    }

    /// Reads an undo block for a peer. The peer must not do that itself: what is on disk may be
    /// torn, or from before redo that is still being applied here, or be written this very moment.
    fn read_undo_for(&self, to: InstanceNo, req_id: global::msg::ReqId, addr: Dba) {
        let (node, epoch) = (self.arc(), self.view().epoch);
        self.env.spawn_task("undo read", Lane::Serve, async move {
            let image = match node.cache.read(&node.ctx, addr, <[u8]>::to_vec).await {
                Ok(image) => image,
                // The peer finds the damage itself, and names it.
                Err(Error::Corrupt { .. } | Error::Disk(_)) => Vec::new(),
                // This instance closes: the next epoch has the peer ask somebody else.
                Err(_) => return,
            };
            node.send_if_in(epoch, to, TxnMessage::UndoBlockReply { req_id, addr, image });
        });
    }

    /// The segment is being adopted: answer when it is loaded.
    fn answer_later(&self, to: InstanceNo, req_id: global::msg::ReqId, xid: Xid) {
        let (node, epoch) = (self.arc(), self.view().epoch);
        self.env.spawn_task("state enquiry", Lane::Serve, async move {
            while node.view().epoch == epoch {
                node.wait_segments().await;
                if let Some(status) = node.core.local_status(xid) {
                    let state = to_state(status);
                    let reply = TxnMessage::TransactionStateReply { req_id, xid, state };
                    node.send_if_in(epoch, to, reply);
                    return;
                }
            }
        });
    }

    /// Answers once the transaction has ended.
    fn tell_end(&self, to: InstanceNo, req_id: global::msg::ReqId, xid: Xid) {
        let (node, epoch) = (self.arc(), self.view().epoch);
        self.env.spawn_task("await end", Lane::Serve, async move {
            while node.view().epoch == epoch {
                let Some(segment) = node.core.segment(xid.usn) else {
                    node.wait_segments().await;
                    continue;
                };
                let Some(notify) = segment.waiter(xid) else {
                    let status = node.core.local_status(xid).unwrap_or(TxStatus::Gone);
                    let state = to_state(status);
                    node.send_if_in(epoch, to, TxnMessage::Ended { req_id, xid, state });
                    return;
                };
                let ended = notify.notified();
                let mut ended = std::pin::pin!(ended);
                ended.as_mut().enable();
                if segment.waiter(xid).is_some() {
                    // Looked at again now and then: the segment may be handed over meanwhile.
                    let limit = Duration::from_millis(500);
                    let _ = node.env.timeout(limit, ended).await;
                }
            }
        });
    }

    /// Sends unless the epoch has changed.
    fn send_if_in(&self, epoch: global::Epoch, to: InstanceNo, message: TxnMessage) {
        let _gate = self.cache.enter_protocol();
        if self.view().epoch == epoch && !self.cache.is_frozen() {
            self.send(to, Message::Txn(message));
        }
    }

    fn serve_call(&self, from: InstanceNo, req_id: global::msg::ReqId, kind: u16, body: Vec<u8>) {
        let kind = CallKind::of_code(kind);
        if kind == Some(CallKind::PastImage) {
            let addr = body.try_into().map(|b| Dba::from_u64(u64::from_le_bytes(b)));
            let image = addr.ok().and_then(|a| self.past_image(a));
            let reply = TxnMessage::CallReply {
                req_id,
                ok: image.is_some(),
                body: image.unwrap_or_default(),
            };
            self.send(from, Message::Txn(reply));
            return;
        }
        if kind == Some(CallKind::Memory) {
            let shown = self.cache.shown.as_ref().filter(|_| self.looks.allowed());
            let body = shown.map(|s| s.descriptor().as_bytes().to_vec());
            let ok = body.is_some();
            let reply = TxnMessage::CallReply { req_id, ok, body: body.unwrap_or_default() };
            self.send(from, Message::Txn(reply));
            return;
        }
        if kind == Some(CallKind::Waits) {
            let told = self.answer_waits(&body);
            let ok = told.is_some();
            let reply = TxnMessage::CallReply { req_id, ok, body: told.unwrap_or_default() };
            self.send(from, Message::Txn(reply));
            return;
        }
        let (node, epoch) = (self.arc(), self.view().epoch);
        self.env.spawn_task("call", Lane::Background, async move {
            let handler = node.call_handler.lock().clone();
            let answer = match handler.zip(kind) {
                Some((handler, kind)) => handler(kind, body).await,
                None => None,
            };
            let ok = answer.is_some();
            let reply = TxnMessage::CallReply { req_id, ok, body: answer.unwrap_or_default() };
            node.send_if_in(epoch, from, reply);
        });
    }

    /// Asks another instance's handler (views over all instances); `None` if it has none or has
    /// gone. A question that a change of membership overtakes is asked again.
    pub async fn call_peer(&self, to: InstanceNo, kind: CallKind, body: &[u8]) -> Option<Vec<u8>> {
        let kind = kind.code();
        loop {
            let make = |req_id| TxnMessage::Call { req_id, kind, body: body.to_vec() };
            match self.call(to, make).await {
                Some(TxnMessage::CallReply { ok, body, .. }) => return ok.then_some(body),
                _ if !self.view().members.contains(&to) => return None,
                _ => {}
            }
        }
    }

    /// Sets what answers the calls of other instances.
    pub fn set_call_handler(&self, handler: CallHandler) {
        *self.call_handler.lock() = Some(handler);
    }
}

/// Answers a call of another instance: kind and body to body.
pub type CallHandler =
    Arc<dyn Fn(CallKind, Vec<u8>) -> BoxFuture<'static, Option<Vec<u8>>> + Send + Sync>;
