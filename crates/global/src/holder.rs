//! One block at one instance: the right it has, and what it owes.
//!
//! Lives in the header of the cache's buffer and is stepped under the buffer's latch. The cache
//! owns
//! the bytes, pins, dirtiness, first-dirty Rba and past image; it tells what matters in [`Facts`]
//! with each step and performs the effects in order, before it lets go of the latch.
//!
//! What it promises: it demotes itself before it ships, in one step (C2); it never gives the block
//! away with a pin or a disk write on it (C6), nor dirty before the redo is durable; it answers
//! every message or parks it; it never serves a consistent copy from a past image (H14).

mod copies;
mod epochs;
mod types;

use block::{Dba, InstanceNo, Mode, Scn, Version, Xid};

pub use self::types::{Duty, Facts, HolderEffect, HolderEvent, Ship};
use self::types::{Image, Pending};
use crate::msg::{
    BlockInfo, Grant, Have, HolderMsg, MasterMsg, Promoted, ReqId, Seq, Source, Timings, Want,
};
use crate::mutant::{Mutant, broken};

/// CR copies served of an unchanged block in X before it becomes S (fairness).
pub const CR_SERVED_BEFORE_DOWNGRADE: u8 = 4;

/// Flushes that a block to be shipped waits for while who comes may still use it: it stays here
/// that long anyway. What is changed then needs the next flush, so that this is a peer's longest
/// wait for users who came after it.
pub const FLUSHES_SHARED: u8 = 1;

/// A holder sits in every buffer header: a thirtieth of the block it stands for, no more.
const _: () = assert!(size_of::<Holder>() * 30 <= block::BLOCK_BYTES);

/// The state of one block here.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Holder {
    addr: Dba,
    mode: Mode,
    image: Image,
    /// The last conversion this instance took part in.
    seq: Seq,
    /// Past images exist somewhere: a write must be told to the master.
    past_images: bool,
    /// An S copy that was newer than disk when it came.
    unwritten: bool,
    pending: Option<Pending>,
    duty: Option<Duty>,
    cr_parked: Vec<(InstanceNo, ReqId, Scn, Xid, Timings)>,
    releasing: Option<Seq>,
    taken_unacked: Option<MasterMsg>,
    flushing: bool,
    comparing: Option<Seq>,
    cr_served: u8,
    cr_version: Version,
    /// Who held the block in X when this instance last heard: asked for consistent copies first.
    /// A guess; it may hold nothing by now.
    holder_last: Option<InstanceNo>,
}

impl Holder {
    #[must_use]
    pub fn new(addr: Dba) -> Holder {
        Holder {
            addr,
            mode: Mode::N,
            image: Image::Absent,
            seq: Seq(0),
            past_images: false,
            unwritten: false,
            pending: None,
            duty: None,
            cr_parked: Vec::new(),
            releasing: None,
            taken_unacked: None,
            flushing: false,
            comparing: None,
            cr_served: 0,
            cr_version: Version::ZERO,
            holder_last: None,
        }
    }

    #[must_use]
    pub fn addr(&self) -> Dba {
        self.addr
    }

    /// The right held; an image may still be on its way from disk. N while an eviction waits for
    /// its acknowledgement: the master may have given the block away already.
    #[must_use]
    pub fn mode(&self) -> Mode {
        if self.releasing.is_some() { Mode::N } else { self.mode }
    }

    /// Whether the buffer holds the current block in S or X. Enough to build a consistent copy
    /// under the latch.
    #[must_use]
    pub fn readable(&self) -> bool {
        self.present() && self.releasing.is_none()
    }

    /// As [`Holder::readable`], for peers and checkers: what the master asked for before it heard
    /// of an eviction can still be served.
    #[must_use]
    pub fn present(&self) -> bool {
        self.mode != Mode::N && self.image == Image::Present
    }

    /// Whether the image is being read from disk under a right already held.
    #[must_use]
    pub fn reading(&self) -> bool {
        self.mode != Mode::N && self.image == Image::Reading
    }

    /// Whether a new pin in `mode` may be taken now. False while a peer waits for the block: local
    /// newcomers queue behind it, but for those who come while it waits for its first flush.
    #[must_use]
    pub fn admits(&self, mode: Mode) -> bool {
        let waiting = match &self.duty {
            None => false,
            Some(Duty::Forward { mode: Mode::S, .. }) => mode == Mode::X,
            Some(Duty::Forward { flushes, .. }) => {
                !self.flushing || !(1..=FLUSHES_SHARED).contains(flushes)
            }
            Some(_) => true,
        };
        self.readable() && self.mode >= mode && !waiting
    }

    /// The request that is out, if one is.
    #[must_use]
    pub fn pending(&self) -> Option<(ReqId, Want)> {
        self.pending.map(|p| (p.req_id, p.want))
    }

    /// Whom the request that is out was sent to, if not to the master.
    #[must_use]
    pub fn asked_directly(&self) -> Option<InstanceNo> {
        self.pending.and_then(|p| p.direct)
    }

    /// What a peer waits for here.
    #[must_use]
    pub fn duty(&self) -> Option<&Duty> {
        self.duty.as_ref()
    }

    /// Whether nothing is held, owed or awaited: the buffer may be reused (past image apart).
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.mode == Mode::N
            && self.image == Image::Absent
            && self.pending.is_none()
            && self.duty.is_none()
            && self.releasing.is_none()
            && self.comparing.is_none()
            && self.taken_unacked.is_none()
    }

    /// Whether the master has been told that the block is given back, and has not answered.
    #[must_use]
    pub fn is_releasing(&self) -> bool {
        self.releasing.is_some()
    }

    /// Whether no message about the block is under way or owed, here or at its master.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        matches!(self.image, Image::Absent | Image::Present)
            && self.pending.is_none()
            && self.duty.is_none()
            && self.cr_parked.is_empty()
            && self.releasing.is_none()
            && self.taken_unacked.is_none()
            && self.comparing.is_none()
            && !self.flushing
    }

    /// The only instance takes the right without a message (the caller has tested the alone flag
    /// under the latch, C5). True: the image must be read from disk and `ReadDone` stepped.
    pub fn take_alone(&mut self, mode: Mode) -> bool {
        assert!(self.pending.is_none() && self.duty.is_none(), "{}: alone, yet busy", self.addr);
        assert!(self.image != Image::Dropping, "{}: a stale read is on its way", self.addr);
        self.mode = self.mode.max(mode);
        if self.image == Image::Absent {
            self.image = Image::Reading;
            self.seq = Seq(0); // No master has granted this: none need hear if the read fails.
            return true;
        }
        false
    }

    /// The only instance lets go of a clean block.
    pub fn drop_alone(&mut self) {
        self.lose();
    }

    /// Takes one event; appends what to do, in order.
    pub fn step(&mut self, event: HolderEvent, facts: &Facts, out: &mut Vec<HolderEffect>) {
        match event {
            HolderEvent::Want { want, req_id } => self.want(want, req_id, facts, out),
            HolderEvent::Message { from, msg } => self.message(from, msg, facts, out),
            HolderEvent::Block { from, info } => self.block(from, &info, facts, out),
            HolderEvent::CrBlock { from, req_id } => {
                if self.finish_pending(req_id) {
                    self.holder_last = Some(from);
                    out.push(HolderEffect::UseCr);
                    out.push(HolderEffect::Wake);
                }
            }
            HolderEvent::Progress => self.attend(facts, out),
            HolderEvent::FlushDone => {
                self.flushing = false;
                self.attend(facts, out);
            }
            HolderEvent::WriteDone { version } => {
                if self.past_images && !facts.frozen && self.present() {
                    out.push(HolderEffect::ToMaster(MasterMsg::Written { version }));
                    self.past_images = false;
                }
                self.attend(facts, out);
            }
            HolderEvent::ReadDone => self.read_done(facts, out),
            HolderEvent::ReadFailed => self.read_failed(facts, out),
            HolderEvent::EvictWanted => self.evict(facts, out),
            HolderEvent::CheckpointPast => {
                if let Some(version) = facts.past_image.filter(|_| !facts.frozen) {
                    out.push(HolderEffect::ToMaster(MasterMsg::WriteRequest { version }));
                }
            }
            HolderEvent::DiskVersion { version } => self.compared(version, facts, out),
            HolderEvent::Cancel => {
                if let Some(p) = self.pending.as_mut().filter(|p| !p.cancelling && !facts.frozen) {
                    p.cancelling = true;
                    out.push(HolderEffect::ToMaster(MasterMsg::Cancel { req_id: p.req_id }));
                }
            }
            HolderEvent::EnterEpoch => self.enter_epoch(out),
            HolderEvent::Repeat => self.repeat(facts, out),
        }
        self.assert_invariants(facts);
    }

    fn assert_invariants(&self, facts: &Facts) {
        assert!(
            self.mode == Mode::N || matches!(self.image, Image::Reading | Image::Present),
            "{}: {} without an image",
            self.addr,
            self.mode
        );
        assert!(
            self.mode != Mode::N || self.image != Image::Present,
            "{}: an image without a right",
            self.addr
        );
        debug_assert!(self.duty.is_none() || self.mode != Mode::N || facts.frozen);
    }

    fn want(&mut self, want: Want, req_id: ReqId, facts: &Facts, out: &mut Vec<HolderEffect>) {
        let busy = self.pending.is_some()
            || self.duty.is_some()
            || self.releasing.is_some()
            || self.comparing.is_some()
            || matches!(self.image, Image::Reading | Image::Dropping);
        // Who asks while something is under way is woken by its end and asks again.
        if busy || facts.frozen || self.admits(want.mode()) {
            return;
        }
        let direct = if let Want::Cr { .. } = want { self.holder_last } else { None };
        self.pending = Some(Pending { req_id, want, direct, cancelling: false });
        let have = self.have(facts);
        out.push(match (want, direct) {
            (Want::Cr { scn, xid }, Some(to)) => HolderEffect::AskCr { to, req_id, scn, xid },
            _ => HolderEffect::ToMaster(MasterMsg::Request { req_id, want, have, lms_us: 0 }),
        });
    }

    fn have(&self, facts: &Facts) -> Have {
        let version = if self.present() { facts.version } else { Version::ZERO };
        Have { mode: self.mode, version }
    }

    fn finish_pending(&mut self, req_id: ReqId) -> bool {
        let ours = self.pending.is_some_and(|p| p.req_id == req_id);
        if ours {
            self.pending = None;
        }
        ours
    }

    fn message(
        &mut self,
        from: InstanceNo,
        msg: HolderMsg,
        facts: &Facts,
        out: &mut Vec<HolderEffect>,
    ) {
        match msg {
            HolderMsg::Grant { grant } => self.grant(&grant, facts, out),
            HolderMsg::Forward { to, mode, req_id, seq, past_images, timings } => {
                let (since_us, flush_since_us) = (facts.now_us, None);
                let flushes = 0;
                let duty = Duty::Forward {
                    to,
                    mode,
                    req_id,
                    seq,
                    past_images,
                    timings,
                    since_us,
                    flush_since_us,
                    flushes,
                };
                if self.park(duty, facts) {
                    if self.mode == Mode::N {
                        self.duty = None;
                        out.push(HolderEffect::ToMaster(MasterMsg::NotHeld { seq }));
                    }
                    self.attend(facts, out);
                }
            }
            HolderMsg::ForwardCr { to, req_id, scn, xid, timings } => {
                self.forward_cr((to, req_id, scn, xid, timings), facts, out);
            }
            HolderMsg::AskCr { req_id, scn, xid, timings } => {
                self.ask_cr((from, req_id, scn, xid, timings), facts, out);
            }
            HolderMsg::Invalidate { seq } => self.invalidate(seq, facts, out),
            HolderMsg::TakenAck { seq } => {
                let acked =
                    |m: &MasterMsg| matches!(m, MasterMsg::Taken { seq: s, .. } if *s == seq);
                if self.taken_unacked.as_ref().is_some_and(acked) {
                    self.taken_unacked = None;
                }
            }
            HolderMsg::ReleasedAck { seq, accepted } => self.released(seq, accepted, facts, out),
            HolderMsg::PastImageDrop { version } => {
                if facts.past_image.is_some_and(|p| p <= version) {
                    out.push(HolderEffect::DropPastImage { superseded: false });
                }
                if facts.version <= version {
                    self.unwritten = false;
                }
            }
            HolderMsg::WriteRequest { version: _ } => self.write_request(facts, out),
            HolderMsg::Withdrawn { req_id } | HolderMsg::Retry { req_id } => {
                if self.finish_pending(req_id) {
                    out.push(HolderEffect::Wake);
                }
            }
            HolderMsg::TooLate { req_id } => {
                if let Some(p) = self.pending.as_mut().filter(|p| p.req_id == req_id) {
                    p.cancelling = false;
                }
            }
            HolderMsg::Promote { seq } => self.promote(seq, facts, out),
            HolderMsg::BecomeWriter { seq } => {
                if self.present() && !facts.frozen {
                    self.seq = self.seq.max(seq);
                    // The master refuses an eviction offered before this was heard.
                    self.releasing = None;
                    self.become_writer(facts, out);
                    out.push(HolderEffect::Wake);
                }
            }
        }
    }

    /// The duty to write is here from this moment, whether the block is changed or not. The first
    /// redo this instance needs for it may be far older: an own past image keeps its first-dirty
    /// Rba (C15).
    fn become_writer(&mut self, facts: &Facts, out: &mut Vec<HolderEffect>) {
        self.past_images = true;
        self.unwritten = false;
        if facts.past_image.is_some() {
            out.push(HolderEffect::DropPastImage { superseded: true });
        }
        out.push(HolderEffect::BecomeDirty);
    }

    fn grant(&mut self, g: &Grant, facts: &Facts, out: &mut Vec<HolderEffect>) {
        if g.seq <= self.seq {
            return; // A repetition.
        }
        if facts.frozen {
            // A right without an image is not held (C2); an S copy stays what it is.
            self.finish_pending(g.req_id);
            return;
        }
        let usable = self.pending.is_some_and(|p| p.req_id == g.req_id)
            && match g.source {
                Source::Disk => self.image == Image::Absent,
                Source::YourCopy { version } => self.present() && facts.version == version,
            };
        if !usable {
            self.refuse_grant(g.seq, facts, out);
            return;
        }
        self.pending = None;
        self.holder_last = None;
        self.seq = g.seq;
        self.mode = g.mode;
        self.unwritten = false;
        self.past_images = g.past_images;
        match g.source {
            Source::Disk => {
                self.image = Image::Reading;
                out.push(HolderEffect::ReadDisk);
            }
            Source::YourCopy { .. } => {
                if g.past_images {
                    self.become_writer(facts, out);
                }
                out.push(HolderEffect::Wake);
            }
        }
        let version = self.have(facts).version;
        self.say_taken(version, None, out);
    }

    /// "Not held" is an answer to the master, which decides again (H12). It must be true: a copy at
    /// another version than the master believes goes.
    fn refuse_grant(&mut self, seq: Seq, facts: &Facts, out: &mut Vec<HolderEffect>) {
        if self.present() {
            if facts.dirty || facts.pins > 0 {
                out.push(HolderEffect::Broken("a grant on a copy of another version"));
                return;
            }
            self.lose();
            out.push(HolderEffect::DropImage);
        }
        out.push(HolderEffect::ToMaster(MasterMsg::NotHeld { seq }));
    }

    fn say_taken(
        &mut self,
        version: Version,
        past: Option<(InstanceNo, Version)>,
        out: &mut Vec<HolderEffect>,
    ) {
        let taken = MasterMsg::Taken { seq: self.seq, mode: self.mode, version, past };
        self.taken_unacked = Some(taken);
        out.push(HolderEffect::ToMaster(taken));
    }

    /// An image in S or X. It is taken even by an asker that has lost interest: its sender has
    /// given it up (M7).
    fn block(
        &mut self,
        from: InstanceNo,
        info: &BlockInfo,
        facts: &Facts,
        out: &mut Vec<HolderEffect>,
    ) {
        if info.seq <= self.seq {
            return; // A repetition.
        }
        if self.mode != Mode::N || self.image != Image::Absent {
            out.push(HolderEffect::Broken("a block arrived where a copy is held"));
            return;
        }
        if facts.past_image.is_some_and(|p| p > info.version) {
            out.push(HolderEffect::Broken("a block arrived older than the past image here"));
            return;
        }
        self.finish_pending(info.req_id);
        self.holder_last = None;
        self.mode = info.mode;
        self.image = Image::Present;
        self.seq = info.seq;
        self.cr_served = 0;
        self.past_images = info.past_images;
        self.unwritten = info.unwritten && info.mode == Mode::S;
        out.push(HolderEffect::InstallImage);
        if info.mode == Mode::X && info.past_images && !broken(Mutant::ForgetWriteDuty) {
            self.become_writer(facts, out);
        }
        if !facts.frozen {
            self.say_taken(info.version, info.sender_past.map(|v| (from, v)), out);
        }
        out.push(HolderEffect::Wake);
    }

    /// Accepts a duty of a conversion not seen yet; false for a repetition, or when frozen (what
    /// is parked then is void: the asker asks again in the next epoch).
    fn park(&mut self, duty: Duty, facts: &Facts) -> bool {
        let frozen = facts.frozen && !broken(Mutant::AcceptStaleEpoch);
        if frozen || duty.seq() <= self.seq {
            return false;
        }
        if self.duty.as_ref().is_some_and(|d| d.seq() >= duty.seq()) {
            return false;
        }
        self.duty = Some(duty);
        true
    }

    fn invalidate(&mut self, seq: Seq, facts: &Facts, out: &mut Vec<HolderEffect>) {
        let duty = Duty::Invalidate { seq, since_us: facts.now_us };
        if !self.park(duty, facts) {
            return;
        }
        if self.present() {
            self.attend(facts, out);
            return;
        }
        // Nothing here yet: answer at once, and drop what the read brings (H13).
        self.duty = None;
        self.seq = seq;
        self.drop_read(out);
        out.push(HolderEffect::ToMaster(MasterMsg::Invalidated { seq, past: None }));
    }

    fn drop_read(&mut self, out: &mut Vec<HolderEffect>) {
        if self.mode != Mode::N {
            self.mode = Mode::N;
            self.image = Image::Dropping;
        }
        self.turn_cr_away(out);
    }

    /// Does what a peer waits for, or the next step towards it.
    fn attend(&mut self, facts: &Facts, out: &mut Vec<HolderEffect>) {
        let frozen = facts.frozen && !broken(Mutant::AcceptStaleEpoch);
        if frozen || !self.present() {
            return;
        }
        let Some(duty) = &mut self.duty else { return };
        let pinned = match duty {
            Duty::Forward { mode: Mode::S, .. } if self.mode == Mode::S => false,
            Duty::Forward { mode: Mode::S, .. } => facts.change_pins > 0 || facts.writing,
            _ => facts.pins > 0 || facts.writing, // C6: a write in flight is a pin
        };
        if pinned {
            return;
        }
        if facts.dirty && !facts.redo_durable && !broken(Mutant::ShipBeforeFlush) {
            if let Duty::Forward { flush_since_us, flushes, .. } = duty {
                flush_since_us.get_or_insert(facts.now_us);
                *flushes = flushes.saturating_add(u8::from(!self.flushing));
            }
            if !self.flushing {
                self.flushing = true;
                out.push(HolderEffect::FlushRedo);
            }
            return;
        }
        match self.duty.take().expect("tested above") {
            Duty::Invalidate { seq, .. } => {
                self.seq = seq;
                let past = facts.dirty.then_some(facts.version);
                self.give_up(facts, out);
                out.push(HolderEffect::ToMaster(MasterMsg::Invalidated { seq, past }));
            }
            forward @ Duty::Forward { .. } => self.ship(&forward, facts, out),
        }
        out.push(HolderEffect::Wake);
    }

    /// Demotes and ships, in one step.
    fn ship(&mut self, forward: &Duty, facts: &Facts, out: &mut Vec<HolderEffect>) {
        let Duty::Forward { to, mode, req_id, seq, past_images, flush_since_us, .. } = *forward
        else {
            return;
        };
        self.seq = seq;
        let keeps_past = mode == Mode::X && facts.dirty;
        let ship = Ship {
            to,
            info: BlockInfo {
                req_id,
                mode,
                version: facts.version,
                seq,
                past_images: past_images || self.past_images || keeps_past,
                unwritten: facts.dirty || self.unwritten,
                sender_past: keeps_past.then_some(facts.version),
                timings: forward.timings(facts.now_us),
            },
            flushed: flush_since_us.is_some(),
        };
        if mode == Mode::X {
            // The bytes are still in the buffer when the effect is performed: give_up's effects
            // come after it.
            out.push(HolderEffect::Ship(ship));
            self.give_up(facts, out);
            self.holder_last = Some(to);
        } else {
            if !broken(Mutant::DemoteAfterSend) {
                self.mode = Mode::S;
            }
            self.cr_served = 0;
            out.push(HolderEffect::Ship(ship));
        }
    }

    /// Becomes N: dirty content becomes the past image, else the image goes.
    fn give_up(&mut self, facts: &Facts, out: &mut Vec<HolderEffect>) {
        self.lose();
        out.push(if facts.dirty { HolderEffect::KeepPastImage } else { HolderEffect::DropImage });
        if facts.dirty && broken(Mutant::DropPastImageEarly) {
            out.push(HolderEffect::DropPastImage { superseded: false });
        }
    }

    fn lose(&mut self) {
        self.mode = Mode::N;
        self.image = Image::Absent;
        self.releasing = None;
        self.unwritten = false;
        self.past_images = false;
    }

    fn read_done(&mut self, facts: &Facts, out: &mut Vec<HolderEffect>) {
        match self.image {
            Image::Dropping => {
                self.image = Image::Absent;
                out.push(HolderEffect::DropImage);
            }
            Image::Reading => {
                self.image = Image::Present;
                for cr in std::mem::take(&mut self.cr_parked) {
                    self.forward_cr(cr, facts, out);
                }
                self.attend(facts, out);
            }
            Image::Absent | Image::Present => return,
        }
        out.push(HolderEffect::Wake);
    }

    /// The waiters get the error from the cache; the master must know that nothing is here.
    fn read_failed(&mut self, facts: &Facts, out: &mut Vec<HolderEffect>) {
        if self.image == Image::Reading {
            let seq = self.duty.take().map_or(self.seq, |d| d.seq());
            self.seq = seq;
            self.lose();
            if facts.frozen {
                self.cr_parked.clear();
            } else {
                self.turn_cr_away(out);
                if seq != Seq(0) {
                    out.push(HolderEffect::ToMaster(MasterMsg::NotHeld { seq }));
                }
            }
        } else if self.image == Image::Dropping {
            self.image = Image::Absent;
        }
        out.push(HolderEffect::Wake);
    }

    /// A holder keeps the block until its master agrees that it goes (H13).
    fn evict(&mut self, facts: &Facts, out: &mut Vec<HolderEffect>) {
        let free = self.present()
            && facts.pins == 0
            && !facts.writing
            && !facts.dirty
            && !facts.frozen
            && self.pending.is_none()
            && self.duty.is_none()
            && self.releasing.is_none();
        if free {
            self.releasing = Some(self.seq);
            out.push(HolderEffect::ToMaster(MasterMsg::Released { seq: self.seq }));
        }
    }

    fn released(&mut self, seq: Seq, accepted: bool, facts: &Facts, out: &mut Vec<HolderEffect>) {
        if self.releasing != Some(seq) {
            return; // It was shipped meanwhile: the answer to an eviction long past.
        }
        self.releasing = None;
        if accepted {
            self.lose();
            out.push(HolderEffect::DropImage);
        } else {
            self.attend(facts, out);
        }
        out.push(HolderEffect::Wake);
    }

    fn write_request(&mut self, facts: &Facts, out: &mut Vec<HolderEffect>) {
        if !self.present() || facts.frozen {
            return;
        }
        if facts.dirty {
            self.past_images = true;
            if !facts.writing {
                out.push(HolderEffect::StartWrite);
            }
        } else if !self.unwritten {
            // A clean copy of its own right: what it shows is on disk.
            let version = facts.version;
            out.push(HolderEffect::ToMaster(MasterMsg::Written { version }));
            self.past_images = false;
        }
    }

    fn promote(&mut self, seq: Seq, facts: &Facts, out: &mut Vec<HolderEffect>) {
        if facts.frozen || seq <= self.seq {
            return;
        }
        if self.mode != Mode::N {
            out.push(HolderEffect::Broken("a holder was asked for its past image"));
            return;
        }
        if facts.past_image.is_none() {
            self.seq = seq;
            let outcome = Promoted::Nothing;
            out.push(HolderEffect::ToMaster(MasterMsg::Promoted { seq, outcome }));
            return;
        }
        if self.comparing.is_none() {
            out.push(HolderEffect::CompareWithDisk);
        }
        self.comparing = Some(seq);
    }

    fn compared(&mut self, disk: Version, facts: &Facts, out: &mut Vec<HolderEffect>) {
        let Some(seq) = self.comparing.take().filter(|_| !facts.frozen) else { return };
        self.seq = seq;
        let outcome = match facts.past_image {
            Some(version) if version > disk => {
                self.mode = Mode::X;
                self.image = Image::Present;
                self.past_images = true;
                out.push(HolderEffect::AdoptPastImage);
                Promoted::Holds { version }
            }
            Some(_) => {
                out.push(HolderEffect::DropPastImage { superseded: false });
                Promoted::DiskIsNewer { version: disk }
            }
            None => Promoted::DiskIsNewer { version: disk },
        };
        out.push(HolderEffect::ToMaster(MasterMsg::Promoted { seq, outcome }));
        out.push(HolderEffect::Wake);
    }

    /// Says again what has not been answered; every answer tolerates it.
    fn repeat(&self, facts: &Facts, out: &mut Vec<HolderEffect>) {
        if facts.frozen {
            return;
        }
        // A question put to a holder is not said again: it would come to the master by another way,
        // and could overtake the answer to the first.
        if let Some(p) = self.pending.filter(|p| p.direct.is_none()) {
            let (req_id, want, have) = (p.req_id, p.want, self.have(facts));
            out.push(HolderEffect::ToMaster(MasterMsg::Request { req_id, want, have, lms_us: 0 }));
        }
        out.extend(self.taken_unacked.map(HolderEffect::ToMaster));
        if let Some(seq) = self.releasing {
            out.push(HolderEffect::ToMaster(MasterMsg::Released { seq }));
        }
    }
}
