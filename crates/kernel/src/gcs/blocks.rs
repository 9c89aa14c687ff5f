//! Blocks: asking for them, serving them, mastering them.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use block::{BLOCK_BYTES, Dba, InstanceNo, Mode, Scn, Version, Xid, layout};
use cluster::Class;
use env::marks::{self, Mark, Point};
use env::{BoxFuture, IoBuf, Lane, Micros};
use global::msg::{GcsMessage, Have, HolderMsg, MasterMsg, Message, ReqId, Timings, Want};
use global::{HolderEffect, HolderEvent, MasterEffect, Mutant, broken};
use observe::{AlertLevel, Ctx, Stat, TransferKind, WaitEvent};

use super::arrivals::Came;
use super::node::{CrAnswer, Node};
use super::served::CrCount;
use super::waiting::Waiting;
use crate::cache::{Arrival, Buffer, Carry, DiskRead, Grants, SegmentStat, State};
use crate::error::{Error, Result};
use crate::read::Draft;
use crate::txn::CrCopy;

/// A request unanswered for this long is said again: every answer tolerates it.
pub(super) const REPEAT_AFTER: Duration = Duration::from_secs(2);

/// How long a peer waits for a block that has come for a user here who does not take it.
const RESERVED_AT_MOST: Duration = Duration::from_micros(500);

/// Where a consistent copy goes.
#[derive(Clone, Copy)]
struct CrReply {
    addr: Dba,
    to: InstanceNo,
    req_id: ReqId,
    scn: Scn,
    timings: Timings,
}

/// Blocks that one message of a master tells of at the most.
const TOLD_MAX: usize = block::MASTER_GROUP_BLOCKS as usize;

thread_local! {
    /// Blocks said in the step of the protocol that this thread is in: which statistic has their
    /// time, and since when.
    static LEAVING: RefCell<Vec<(Stat, Micros)>> = const { RefCell::new(Vec::new()) };
    /// Blocks that have been granted in that step, to be read from disk.
    static GRANTED: RefCell<Vec<Arc<Buffer>>> = const { RefCell::new(Vec::new()) };
}

/// Whether this thread's step has been granted blocks that it will read.
pub(super) fn is_granted() -> bool {
    GRANTED.with_borrow(|granted| !granted.is_empty())
}

pub(super) fn cap_us(us: u64) -> u32 {
    u32::try_from(us).unwrap_or(u32::MAX)
}

/// What has waited for the block server here says so when it is served.
fn has_waited(mut msg: HolderMsg, lms_us: u32) -> HolderMsg {
    match &mut msg {
        HolderMsg::Forward { timings, .. }
        | HolderMsg::ForwardCr { timings, .. }
        | HolderMsg::AskCr { timings, .. } => timings.lms_us = lms_us,
        _ => {}
    }
    msg
}

impl Grants for Node {
    fn acquire<'a>(
        &'a self,
        ctx: &'a Ctx,
        buffer: &'a Arc<Buffer>,
        want: Mode,
    ) -> BoxFuture<'a, Result<()>> {
        env::boxed!(self.get_block(ctx, buffer, want))
    }

    fn acquire_many<'a>(
        &'a self,
        ctx: &'a Ctx,
        buffers: Vec<Arc<Buffer>>,
    ) -> BoxFuture<'a, Result<()>> {
        env::boxed!(self.get_many(ctx, buffers))
    }

    fn send_queued(&self) {
        self.net.flush();
        let granted = GRANTED.take();
        if !granted.is_empty() {
            self.read_granted(granted);
        }
        LEAVING.with_borrow_mut(|leaving| {
            if !leaving.is_empty() {
                let now = self.env.now();
                leaving.drain(..).for_each(|(stat, since)| self.ctx.bump(stat, now.since(since)));
            }
        });
    }

    /// The user for whom the block has come pins it within microseconds, or has gone.
    fn end_reservation_soon(&self, buffer: &Arc<Buffer>) {
        let (node, buffer) = (self.arc(), buffer.clone());
        self.env.spawn_task("reservation", Lane::Serve, async move {
            node.env.sleep(RESERVED_AT_MOST).await;
            if buffer.end_reservation() {
                node.cache.pins_dropped(&buffer);
            }
        });
    }

    fn perform(
        &self,
        buffer: &Arc<Buffer>,
        st: &mut State,
        effect: HolderEffect,
        carry: &mut Carry,
    ) {
        let addr = buffer.dba;
        match effect {
            HolderEffect::ToMaster(MasterMsg::Request { req_id, want, have, .. }) => {
                let blocks = vec![(addr, have)];
                let request = GcsMessage::Request { req_id, want, blocks };
                self.send(self.master_of(addr), Message::Gcs(request));
            }
            HolderEffect::ToMaster(msg) => {
                match msg {
                    MasterMsg::CrNotHeld { .. } => self.served.count_cr(CrCount::Fail),
                    MasterMsg::Downgraded { .. } => {
                        self.served.count_cr(CrCount::FairnessDownConverts);
                    }
                    MasterMsg::Written { .. } => self.served.written(addr, self.env.now()),
                    _ => {}
                }
                let message = GcsMessage::ToMaster { addr, msg };
                self.send(self.master_of(addr), Message::Gcs(message));
            }
            HolderEffect::AskCr { to, req_id, scn, xid } => {
                let master = self.master_of(addr);
                let message = if master == to || master == self.me {
                    let (want, have) = (Want::Cr { scn, xid }, Have::default());
                    GcsMessage::Request { req_id, want, blocks: vec![(addr, have)] }
                } else {
                    let timings = Timings::default();
                    let msg = HolderMsg::AskCr { req_id, scn, xid, timings };
                    GcsMessage::ToHolder { addr, msg }
                };
                let to = if master == self.me { self.me } else { to };
                self.send(to, Message::Gcs(message));
            }
            HolderEffect::Ship(ship) => self.ship(buffer, st, &ship),
            HolderEffect::ServeCr { to, req_id, scn, xid, timings } => {
                self.serve_cr(buffer, st, (to, req_id, scn, xid), timings);
            }
            HolderEffect::ReadDisk => {
                self.cache.reserve(buffer);
                GRANTED.with_borrow_mut(|granted| granted.push(buffer.clone()));
            }
            HolderEffect::FlushRedo => self.flush_for(buffer.clone(), st),
            HolderEffect::UseCr => {
                let _ = carry; // The copy has been handed over with its message.
            }
            HolderEffect::StartWrite => {
                let (node, buffer) = (self.arc(), buffer.clone());
                self.served.write_asked(addr, self.env.now());
                self.env.spawn_task("fusion write", Lane::Background, async move {
                    node.ctx.bump(Stat::DbwrFusionWrites, 1);
                    node.cache.request_write(&buffer);
                });
            }
            HolderEffect::CompareWithDisk => self.compare_with_disk(buffer.clone()),
            HolderEffect::Broken(why) => {
                let text = format!("block {addr}: {why}");
                self.ctx.alert(AlertLevel::Error, text.clone());
                self.env.abort_instance(&text);
            }
            _ => {}
        }
    }
}

impl Node {
    /// Sends the image as it is; the mode has been lowered already.
    fn ship(&self, buffer: &Buffer, st: &State, ship: &global::holder::Ship) {
        assert!(ship.to != self.me, "block {} is shipped to its holder", buffer.dba);
        let image = st.image.as_ref().expect("what is shipped is here");
        assert!(
            self.cache.log.durable() >= st.last_rba || broken(Mutant::ShipBeforeFlush),
            "block {} leaves before its redo is durable",
            buffer.dba
        );
        assert!(layout::dba(image) == buffer.dba || layout::is_unwritten(image));
        self.served.shipped(&self.ctx, &ship.info.timings, ship.flushed);
        if ship.info.mode == Mode::S {
            self.served.count_cr(CrCount::CurrentRequests);
        } else {
            self.served.write_void(buffer.dba);
        }
        if ship.info.sender_past.is_some() {
            self.ctx.bump(Stat::GcPastImages, 1);
        }
        let began = self.env.now();
        let block = GcsMessage::Block { addr: buffer.dba, info: ship.info, image: image.to_vec() };
        self.send(ship.to, Message::Gcs(block));
        LEAVING.with_borrow_mut(|leaving| leaving.push((Stat::GcCurrentSendTime, began)));
    }

    /// A copy for a reader elsewhere, with what it may not see taken back as far as that needs no
    /// waiting; the asker does the rest. It waits for the log only where structure has changed
    /// (H1).
    fn serve_cr(
        &self,
        buffer: &Buffer,
        st: &State,
        (to, req_id, scn, _xid): (InstanceNo, ReqId, Scn, Xid),
        timings: Timings,
    ) {
        let image = st.image.as_ref().expect("what is served is here");
        // Before any state is read (H8).
        self.core.clock.raise(scn);
        let mut draft = Draft::new(&self.core, image, scn);
        let mut copy = CrReply { addr: buffer.dba, to, req_id, scn, timings };
        self.served.count_cr(CrCount::Data);
        let (upto, epoch) = (st.struct_rba, self.view().epoch);
        if self.cache.log.durable() >= upto && !draft.has_work(&self.core) {
            self.send_cr(copy, draft);
            return;
        }
        let node = self.arc();
        self.env.spawn_task("cr build", Lane::Serve, async move {
            let began = node.env.now();
            if !marks::is_taken(Point::CopyGivesUp) {
                draft.finish(&node.core);
            }
            let build_us = node.env.now().since(began);
            let mut flush_us = 0;
            node.ctx.bump(Stat::GcCrBuildTime, build_us);
            if node.cache.log.durable() < upto {
                marks::reached(Mark::CopyFlushed);
                let flush = node.cache.log.flushed(upto);
                node.ctx.wait(WaitEvent::GcsLogFlushSync, [0; 3], flush).await;
                flush_us = node.env.now().since(began) - build_us;
                node.served.cr_flushed(&node.ctx, flush_us);
            }
            copy.timings.build_us = cap_us(build_us);
            copy.timings.flush_us = cap_us(flush_us);
            copy.timings.serve_us = cap_us(build_us + flush_us);
            let _gate = node.cache.enter_protocol();
            if node.view().epoch == epoch && !node.cache.is_frozen() {
                node.send_cr(copy, draft);
            }
        });
    }

    fn send_cr(&self, to: CrReply, draft: Draft) {
        self.ctx.bump(Stat::GcCrBlocksServed, 1);
        if draft.undo_records > 0 {
            self.ctx.bump(Stat::CrBlocksCreated, 1);
            self.ctx.bump(Stat::UndoBlocksRead, u64::from(draft.undo_records));
        }
        match (draft.complete, draft.undo_records) {
            (false, _) => {
                self.ctx.bump(Stat::GcLightWorks, 1);
                self.served.count_cr(CrCount::LightWorks);
            }
            (true, 0) => self.served.count_cr(CrCount::Current),
            (true, _) => self.served.count_cr(CrCount::Zero),
        }
        let began = self.env.now();
        let CrReply { addr, to, req_id, scn, timings } = to;
        let (complete, image) = (draft.complete, draft.bytes);
        let copy = GcsMessage::CrBlock { addr, req_id, scn, complete, timings, image };
        self.send(to, Message::Gcs(copy));
        LEAVING.with_borrow_mut(|leaving| leaving.push((Stat::GcCrSendTime, began)));
    }

    /// What one step has been granted is read in as few requests as possible.
    fn read_granted(&self, granted: Vec<Arc<Buffer>>) {
        for (read, run) in self.cache.begin_reads(&self.ctx, granted) {
            let node = self.arc();
            self.env.spawn_task("granted read", Lane::Background, async move {
                let images = node.cache.read_granted(&read, &run).await;
                assert_eq!(images.len(), run.len(), "each block of a read has its outcome");
                let mut again = Vec::new();
                {
                    let _together = node.cache.say_together();
                    for (buffer, image) in run.iter().zip(images) {
                        match image {
                            Some(image) => node.granted_came(buffer, Ok(image)),
                            None => again.push(buffer),
                        }
                    }
                }
                // Another instance was writing it, or the request failed as a whole.
                let repeated = again.into_iter().map(|buffer| async {
                    node.granted_came(buffer, node.cache.read_into(&node.ctx, buffer).await);
                });
                futures::future::join_all(repeated).await;
                read.end();
                read.settled().await;
            });
        }
    }

    fn granted_came(&self, buffer: &Arc<Buffer>, read: Result<IoBuf>) {
        let _gate = self.cache.enter_protocol();
        let mut st = buffer.latch().write();
        let event = match read {
            Ok(image) => {
                (st.image, st.read_error) = (Some(image), None);
                HolderEvent::ReadDone
            }
            Err(e) => {
                // Of a right that has gone meanwhile nobody is to be told.
                if st.holder.reading() {
                    st.read_error = Some(e);
                }
                HolderEvent::ReadFailed
            }
        };
        self.cache.step(buffer, &mut st, event, Carry::default());
    }

    fn flush_for(&self, buffer: Arc<Buffer>, st: &State) {
        let (node, upto) = (self.arc(), st.last_rba);
        self.cache.log.nudge(upto);
        marks::reached(Mark::FlushBeforeShip);
        self.env.spawn_task("block flush", Lane::Serve, async move {
            let flush = node.cache.log.flushed(upto);
            node.ctx.wait(WaitEvent::GcsLogFlushSync, [0; 3], flush).await;
            let _gate = node.cache.enter_protocol();
            let mut st = buffer.latch().write();
            node.cache.step(&buffer, &mut st, HolderEvent::FlushDone, Carry::default());
        });
    }

    fn compare_with_disk(&self, buffer: Arc<Buffer>) {
        let node = self.arc();
        self.env.spawn_task("compare", Lane::Background, async move {
            let version = loop {
                match node.cache.read_block(&node.ctx, buffer.dba).await {
                    Ok(image) => break layout::version(&image),
                    // A damaged block is older than any past image of it.
                    Err(Error::Corrupt { .. }) => break Version::ZERO,
                    Err(e) => {
                        let text = format!("compare block {} with disk: {e}", buffer.dba);
                        node.ctx.alert(AlertLevel::Error, text);
                        node.env.sleep(Duration::from_millis(100)).await;
                    }
                }
            };
            let _gate = node.cache.enter_protocol();
            let mut st = buffer.latch().write();
            let event = HolderEvent::DiskVersion { version };
            marks::reached(Mark::PastImageCompared);
            node.cache.step(&buffer, &mut st, event, Carry::default());
        });
    }

    /// Gets right `want` and the image for a local user.
    async fn get_block(&self, ctx: &Ctx, buffer: &Arc<Buffer>, want: Mode) -> Result<()> {
        let want = if want == Mode::X { Want::X } else { Want::S };
        let dba = buffer.dba;
        let p = [u64::from(dba.file), u64::from(dba.block), 1];
        let shown =
            if want == Want::X { WaitEvent::GcCurrentRequest } else { WaitEvent::GcCrRequest };
        let waiting = Waiting::new(&self.cache, buffer);
        let (mut waited, mut until) = (false, None);
        loop {
            ctx.wait_or_cancel(WaitEvent::GcQuiesce, p, self.wait_thaw()).await?;
            let changed = buffer.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            let (mut asked, mut reading) = (None, None);
            let here;
            {
                let _turn = self.own_turn(Class::Blocks);
                let _gate = self.cache.enter_protocol();
                let mut st = buffer.latch().write();
                here = self.cache.is_alone() || self.cache.usable(buffer, &st, want.mode());
                if here {
                    waiting.served();
                    reading = if waited { st.disk_read.take() } else { None };
                } else if let Some(e) = st.read_error.take() {
                    return Err(e);
                } else if st.holder.reading() {
                    reading = st.disk_read.clone();
                } else if st.holder.pending().is_none() {
                    let req_id = self.req_id();
                    asked = self.ask(ctx, buffer, &mut st, want, req_id).then_some(req_id);
                }
            }
            if here {
                reading.into_iter().for_each(|read| read.account_late(ctx, until));
                return Ok(());
            }
            (waited, until) = (true, None);
            if let Some(read) = reading {
                read.wait(ctx, dba, REPEAT_AFTER, changed).await?;
                continue;
            }
            let result = if let Some(req_id) = asked {
                let wait = async {
                    let answered = self.answered(buffer, req_id);
                    let told = match self.env.timeout(REPEAT_AFTER, answered).await {
                        Ok(()) => self.ended(ctx, buffer, want),
                        Err(_) => {
                            self.repeat(buffer);
                            shown.into()
                        }
                    };
                    (told.until, told)
                };
                let wait = ctx.wait_relabel_or_cancel(shown, p, wait).begun();
                self.env.eager(wait).await.map(|told| until = told)
            } else {
                let busy = WaitEvent::GcBufferBusyAcquire;
                let woken = ctx.wait_for_or_cancel(busy, p, REPEAT_AFTER, changed).await;
                self.count_segment(buffer, SegmentStat::GcBufferBusy);
                // Whoever asked may have gone.
                woken.map(|w| w.unwrap_or_else(|_| self.repeat(buffer)))
            };
            if let Err(interrupt) = result {
                let _gate = self.cache.enter_protocol();
                let mut st = buffer.latch().write();
                if buffer.waiters.load(Ordering::SeqCst) <= 1 {
                    self.cache.step(buffer, &mut st, HolderEvent::Cancel, Carry::default());
                }
                return Err(interrupt.into());
            }
        }
    }

    pub(super) fn repeat(&self, buffer: &Arc<Buffer>) {
        marks::reached(Mark::GrantRefused);
        let _gate = self.cache.enter_protocol();
        let mut st = buffer.latch().write();
        self.cache.step(buffer, &mut st, HolderEvent::Repeat, Carry::default());
    }

    /// Counts something for the segment whose block a buffer holds, if it has come.
    pub(super) fn count_segment(&self, buffer: &Buffer, stat: SegmentStat) {
        let obj = buffer.latch().read().image.as_ref().map(|image| buffer.segment_of(image));
        obj.into_iter().for_each(|obj| self.cache.common.segments.add(obj, stat, 1));
    }

    /// Asks for many blocks of one group at once, as a reader; comes back when all are answered.
    async fn get_many(&self, ctx: &Ctx, buffers: Vec<Arc<Buffer>>) -> Result<()> {
        let Some(first) = buffers.first().map(|b| b.dba) else { return Ok(()) };
        let p = [u64::from(first.file), u64::from(first.block), buffers.len() as u64];
        ctx.wait_or_cancel(WaitEvent::GcQuiesce, p, self.wait_thaw()).await?;
        let want = Want::Cr { scn: self.core.clock.current(), xid: Xid::NONE };
        let req_id = self.req_id();
        let (mut asked, mut waits) = (Vec::new(), Vec::new());
        {
            let _turn = self.own_turn(Class::Blocks);
            let _gate = self.cache.enter_protocol();
            for buffer in &buffers {
                // What can be seen in another instance's memory is not asked for.
                if self.may_look(buffer.dba) {
                    continue;
                }
                let mut st = buffer.latch().write();
                if st.holder.pending().is_some() || st.holder.readable() {
                    continue;
                }
                if self.ask(ctx, buffer, &mut st, want, req_id) {
                    asked.push(buffer.clone());
                    waits.push(self.answered(buffer, req_id));
                }
            }
        }
        let all = futures::future::join_all(waits);
        let limit = REPEAT_AFTER;
        // Best effort: what has not come is asked for again by whoever needs it.
        let _ = ctx.wait_for_or_cancel(WaitEvent::GcCrMultiBlockRequest, p, limit, all).await?;
        self.wait_for_reads(ctx, &asked).await
    }

    /// Waits for the reads of blocks that were asked for together, each by its name.
    pub(super) async fn wait_for_reads(&self, ctx: &Ctx, asked: &[Arc<Buffer>]) -> Result<()> {
        let mut last: Option<Arc<DiskRead>> = None;
        for buffer in asked {
            let read = buffer.latch().read().disk_read.clone();
            let Some(read) = read else { continue };
            if !last.as_ref().is_some_and(|last| Arc::ptr_eq(last, &read)) {
                read.wait(ctx, buffer.dba, REPEAT_AFTER, read.ended()).await?;
                last = Some(read);
            }
        }
        Ok(())
    }

    /// Handles a message of the block class, which has waited `lms_us` for this server; under the
    /// gate.
    pub(super) fn gcs_message(&self, from: InstanceNo, message: GcsMessage, lms_us: u32) {
        let for_master = matches!(
            message,
            GcsMessage::Request { .. }
                | GcsMessage::ToMaster { .. }
                | GcsMessage::ToMasterMany { .. }
        );
        if for_master {
            let mut waiting = self.before_directory.lock();
            if !self.directory_ready.load(Ordering::SeqCst) || !waiting.is_empty() {
                waiting.push((from, message));
                return;
            }
            drop(waiting);
            self.master_message(from, message, lms_us);
            return;
        }
        match message {
            GcsMessage::ToHolder { addr, msg } => self.holder_message(from, addr, msg, lms_us),
            GcsMessage::ToHolderMany { msgs } => {
                for (addr, msg) in msgs {
                    self.holder_message(from, addr, msg, lms_us);
                }
            }
            GcsMessage::Block { addr, info, image } => {
                let (buffer, _) = self.cache.lookup_or_insert(addr);
                if image.len() != BLOCK_BYTES || layout::version(&image) != info.version {
                    let text = format!("block {addr} from instance {from} is damaged");
                    self.ctx.alert(AlertLevel::Error, text.clone());
                    self.env.abort_instance(&text);
                }
                self.core.clock.raise(layout::scn(&image));
                let question = buffer.latch().write().answer_to(info.req_id);
                let came = Came {
                    kind: TransferKind::Current,
                    dba: addr,
                    obj: layout::obj(&image),
                    from,
                    timings: info.timings,
                    own_lms_us: lms_us,
                };
                let event = self.received(&came, question);
                let carry = Carry {
                    image: Some(IoBuf::copy_from(&image)),
                    arrival: Some(Arrival::Block { from, event }),
                };
                let mut st = buffer.latch().write();
                self.cache.step(&buffer, &mut st, HolderEvent::Block { from, info }, carry);
            }
            GcsMessage::CrBlock { addr, req_id, timings, image, complete, .. } => {
                self.core.clock.raise(layout::scn(&image));
                let waiter = self.cr_waits.lock().remove(&(addr, req_id));
                let buffer = self.cache.lookup(addr);
                let (mut others, mut question) = (false, None);
                if let Some(buffer) = &buffer {
                    let mut st = buffer.latch().write();
                    question = st.answer_to(req_id);
                    let event = HolderEvent::CrBlock { from, req_id };
                    self.cache.step(buffer, &mut st, event, Carry::default());
                    others = std::mem::take(&mut st.wake);
                }
                // With nothing held: who is woken looks at the same things.
                let came = Came {
                    kind: TransferKind::Cr,
                    dba: addr,
                    obj: layout::obj(&image),
                    from,
                    timings,
                    own_lms_us: lms_us,
                };
                let event = self.received(&came, question);
                if let Some(waiter) = waiter {
                    let copy = CrCopy { image, complete };
                    // Who has gone meanwhile needs no copy.
                    let _ = waiter.send(CrAnswer { copy, from, event });
                }
                // After the answer, or who waits for it would think that there is none.
                if let Some(buffer) = buffer.filter(|_| others) {
                    buffer.changed.notify_waiters();
                }
            }
            _ => {}
        }
    }

    fn holder_message(&self, from: InstanceNo, addr: Dba, msg: HolderMsg, lms_us: u32) {
        let (buffer, _) = self.cache.lookup_or_insert(addr);
        let mut st = buffer.latch().write();
        let granted = match &msg {
            HolderMsg::Grant { grant }
                if st.holder.pending().is_some_and(|p| p.0 == grant.req_id) =>
            {
                let of_grant = Arrival::Grant { master_lms_us: grant.timings.master_lms_us };
                Some((grant.req_id, st.arrival.replace(of_grant)))
            }
            _ => None,
        };
        let event = HolderEvent::Message { from, msg: has_waited(msg, lms_us) };
        self.cache.step(&buffer, &mut st, event, Carry::default());
        if let Some((req_id, before)) = granted {
            if st.holder.pending().is_some_and(|p| p.0 == req_id) {
                // A right that could not be taken: the block is still to come.
                st.arrival = before;
            } else {
                st.question = None;
            }
        }
    }

    /// Steps the directory; under the gate.
    pub(super) fn master_message(&self, from: InstanceNo, message: GcsMessage, lms_us: u32) {
        let now_us = self.env.now().0;
        let mut effects = Vec::new();
        let mut master = self.master.lock();
        match message {
            GcsMessage::Request { req_id, want, blocks } => {
                for (addr, have) in blocks {
                    let msg = MasterMsg::Request { req_id, want, have, lms_us };
                    master.step(now_us, from, addr, &msg, &mut effects);
                }
            }
            GcsMessage::ToMaster { addr, msg } => {
                master.step(now_us, from, addr, &msg, &mut effects);
            }
            GcsMessage::ToMasterMany { msgs } => {
                for (addr, msg) in msgs {
                    master.step(now_us, from, addr, &msg, &mut effects);
                }
            }
            _ => {}
        }
        self.send_master(effects);
        let duties_done = master.owed().is_empty();
        drop(master);
        if duties_done {
            self.duties_done();
        }
    }

    /// Sends what the directory says, in its order: what one instance is told of several blocks in
    /// a row is one message, so that what it may read from disk it reads together.
    pub(super) fn send_master(&self, effects: Vec<MasterEffect>) {
        let alone = |effect: &MasterEffect| matches!(effect.msg, HolderMsg::TakenAck { .. });
        let same = |a: &MasterEffect, b: &MasterEffect| a.to == b.to && !alone(a) && !alone(b);
        for run in effects.chunk_by(same).flat_map(|run| run.chunks(TOLD_MAX)) {
            let to = run[0].to;
            let message = match run {
                [one] => GcsMessage::ToHolder { addr: one.addr, msg: one.msg },
                many => GcsMessage::ToHolderMany {
                    msgs: many.iter().map(|effect| (effect.addr, effect.msg)).collect(),
                },
            };
            match alone(&run[0]) {
                true => self.send_with_next(to, Message::Gcs(message)),
                false => self.send(to, Message::Gcs(message)),
            }
        }
    }
}
