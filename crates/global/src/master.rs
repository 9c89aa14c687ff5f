//! The directory of the blocks an instance masters: who holds what, who waits for it.
//!
//! The serial point of a block: one conversion at a time, recorded before it is forwarded or
//! granted, closed by the asker's `Taken`; the queue is served in order. It decides by its own
//! record, never by what an asker claims to have (H12), and never grants from disk while it lists a
//! past image (C1). CR requests are no conversions: they are passed on even while one runs, so that
//! a reader never waits for a writer's log flush.
//!
//! It relies on FIFO channels: what a holder says about itself is true when it said it, and arrives
//! in the order it was said. It keeps nothing of a block that nobody holds, wants or remembers.

mod entry;

use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};

use block::{Dba, InstanceNo, Mode, Version};
use rustc_hash::FxHashMap;

pub use self::entry::EntryView;
use self::entry::{Ask, Conversion, Entry, Stage};
use crate::msg::{Grant, HolderMsg, MasterMsg, Promoted, Seq, Source, Timings, Want};
use crate::set::InstanceSet;

/// A message the master sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MasterEffect {
    pub to: InstanceNo,
    pub addr: Dba,
    pub msg: HolderMsg,
}

/// One instance's part of the directory (or one LMS thread's share of it).
#[derive(Clone)]
pub struct Master {
    me: InstanceNo,
    last_seq: u64,
    entries: FxHashMap<Dba, Entry>,
    owed: BTreeMap<Dba, Version>,
}

/// Hashed by content, for explorations that must recognise a state.
impl Hash for Master {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.last_seq, &self.owed).hash(state);
        for addr in self.addresses() {
            (addr, &self.entries[&addr]).hash(state);
        }
    }
}

impl Master {
    #[must_use]
    pub fn new(me: InstanceNo) -> Master {
        Master { me, last_seq: 0, entries: FxHashMap::default(), owed: BTreeMap::new() }
    }

    /// Blocks with an entry.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What is recorded of a block, for views, checkers and scripts.
    #[must_use]
    pub fn view(&self, addr: Dba) -> Option<EntryView> {
        self.entries.get(&addr).map(Entry::view)
    }

    /// All blocks with an entry, ascending.
    #[must_use]
    pub fn addresses(&self) -> Vec<Dba> {
        let mut list: Vec<Dba> = self.entries.keys().copied().collect();
        list.sort_unstable();
        list
    }

    /// Whether no past image and no recovery lock is left: two of the conditions of the alone flag
    /// (C5). Walks the directory: for the moment of a membership change, not for each block.
    #[must_use]
    pub fn nothing_special(&self) -> bool {
        self.entries.values().all(|e| e.past.is_empty() && e.recovery().is_none())
    }

    /// Forgets everything: the directory is rebuilt from reports in every epoch (C2).
    pub fn clear(&mut self) {
        self.entries.clear();
        self.owed.clear();
    }

    /// Enters a rebuilt entry. `recovery`: its block is locked by this recoverer.
    pub fn install(&mut self, addr: Dba, view: &EntryView, recovery: Option<InstanceNo>) {
        let entry = Entry::from_view(view, recovery);
        entry.assert_invariants(addr);
        if !entry.is_empty() {
            self.entries.insert(addr, entry);
        }
    }

    /// Has the newest past image compared with disk, and promoted if it is newer: a duty found by
    /// a rebuild. With `dead`, a dead thread's redo is kept until the block is on disk.
    pub fn promote(
        &mut self,
        now_us: u64,
        addr: Dba,
        dead: Option<Version>,
        out: &mut Vec<MasterEffect>,
    ) {
        self.owed.extend(dead.map(|version| (addr, version)));
        self.with_entry(now_us, addr, out, |step| {
            if step.entry.conv().is_none() && step.entry.recovery().is_none() {
                step.start_promotion();
            }
        });
    }

    /// Tells a holder that it is the writer and that somebody waits for its write: a duty found by
    /// a rebuild. With `dead`, a dead thread's redo is kept until the block is on disk.
    pub fn tell_writer(
        &mut self,
        now_us: u64,
        addr: Dba,
        to: InstanceNo,
        dead: Option<Version>,
        out: &mut Vec<MasterEffect>,
    ) {
        self.owed.extend(dead.map(|version| (addr, version)));
        self.with_entry(now_us, addr, out, |step| {
            step.tell_writer(to);
            if let Some(version) = dead {
                step.send(to, HolderMsg::WriteRequest { version });
            }
        });
    }

    /// Blocks whose holders must have written them, in this version or a later one, before the dead
    /// threads are given up.
    #[must_use]
    pub fn owed(&self) -> &BTreeMap<Dba, Version> {
        &self.owed
    }

    /// Asks again for the writes owed: a block may have moved on before its writer wrote it, and
    /// the
    /// next one has no reason to hurry. A block nobody has any more was clean when it was let go.
    pub fn press_owed(&mut self, now_us: u64, out: &mut Vec<MasterEffect>) {
        let owed: Vec<(Dba, Version)> = self.owed.iter().map(|(a, v)| (*a, *v)).collect();
        for (addr, version) in owed {
            if !self.entries.contains_key(&addr) {
                self.owed.remove(&addr);
                continue;
            }
            self.with_entry(now_us, addr, out, |step| {
                let wanted = &mut step.entry.busy_mut().write_wanted;
                *wanted = (*wanted).max(Some(version));
                step.advance();
            });
        }
    }

    /// Locks a block for recovery: requests for it park until [`Master::recovered`].
    pub fn lock_for_recovery(&mut self, addr: Dba, by: InstanceNo) {
        self.entries.entry(addr).or_default().busy_mut().recovery = Some(by);
    }

    /// The block is rebuilt and `version` of it is on disk: unlock it, drop older past images.
    pub fn recovered(
        &mut self,
        now_us: u64,
        addr: Dba,
        version: Version,
        out: &mut Vec<MasterEffect>,
    ) {
        self.with_entry(now_us, addr, out, |step| {
            step.entry.busy_mut().recovery = None;
            step.written(version);
            step.advance();
        });
    }

    /// Handles one message. Every message is answered, queued, or known to need no answer.
    pub fn step(
        &mut self,
        now_us: u64,
        from: InstanceNo,
        addr: Dba,
        msg: &MasterMsg,
        out: &mut Vec<MasterEffect>,
    ) {
        self.with_entry(now_us, addr, out, |step| step.message(from, msg));
        if let Some(&dead) = self.owed.get(&addr) {
            self.owed_step(dead, from, addr, msg, out);
        }
    }

    fn owed_step(
        &mut self,
        dead: Version,
        from: InstanceNo,
        addr: Dba,
        msg: &MasterMsg,
        out: &mut Vec<MasterEffect>,
    ) {
        match *msg {
            MasterMsg::Written { version }
            | MasterMsg::Promoted { outcome: Promoted::DiskIsNewer { version }, .. }
                if version >= dead =>
            {
                self.owed.remove(&addr);
            }
            MasterMsg::Promoted { outcome: Promoted::Holds { version }, .. } => {
                out.push(MasterEffect { to: from, addr, msg: HolderMsg::WriteRequest { version } });
            }
            _ => {}
        }
    }

    fn with_entry(
        &mut self,
        now_us: u64,
        addr: Dba,
        out: &mut Vec<MasterEffect>,
        act: impl FnOnce(&mut Step<'_>),
    ) {
        let entry = self.entries.entry(addr).or_default();
        let mut step = Step { me: self.me, last_seq: &mut self.last_seq, addr, now_us, entry, out };
        act(&mut step);
        step.entry.tidy();
        step.entry.assert_invariants(addr);
        if step.entry.is_empty() {
            self.entries.remove(&addr);
        }
    }
}

/// One step over one entry.
struct Step<'a> {
    me: InstanceNo,
    last_seq: &'a mut u64,
    addr: Dba,
    now_us: u64,
    entry: &'a mut Entry,
    out: &'a mut Vec<MasterEffect>,
}

impl Step<'_> {
    fn send(&mut self, to: InstanceNo, msg: HolderMsg) {
        self.out.push(MasterEffect { to, addr: self.addr, msg });
    }

    fn next_seq(&mut self) -> Seq {
        *self.last_seq += 1;
        Seq(*self.last_seq)
    }

    fn timings(&self, ask: &Ask) -> Timings {
        let queue_us = u32::try_from(self.now_us.saturating_sub(ask.arrived_us));
        let queue_us = queue_us.unwrap_or(u32::MAX);
        Timings { queue_us, master_lms_us: ask.lms_us, ..Timings::default() }
    }

    fn message(&mut self, from: InstanceNo, msg: &MasterMsg) {
        match *msg {
            MasterMsg::Request { req_id, want, have, lms_us } => {
                self.request(Ask { from, req_id, want, have, arrived_us: self.now_us, lms_us });
            }
            MasterMsg::Taken { seq, mode, version: _, past } => self.taken(from, seq, mode, past),
            MasterMsg::Released { seq } => self.released(from, seq),
            MasterMsg::NotHeld { seq } => self.not_held(from, seq),
            MasterMsg::CrNotHeld { asker, req_id, scn, xid } => {
                let want = Want::Cr { scn, xid };
                let ask = Ask {
                    from: asker,
                    req_id,
                    want,
                    have: crate::msg::Have::default(),
                    arrived_us: self.now_us,
                    lms_us: 0,
                };
                // While a conversion runs, the copy is on its way: route again when it closes.
                if self.entry.conv().is_some() {
                    self.entry.busy_mut().cr_parked.push(ask);
                } else {
                    self.request(ask);
                }
            }
            MasterMsg::Invalidated { seq, past } => self.invalidated(from, seq, past),
            MasterMsg::Written { version } => self.written(version),
            MasterMsg::WriteRequest { version } => self.write_request(from, version),
            MasterMsg::Downgraded { seq: _, unwritten } => self.downgraded(from, unwritten),
            MasterMsg::Cancel { req_id } => {
                let withdrawn = self.entry.withdraw(from, req_id);
                self.send(
                    from,
                    if withdrawn {
                        HolderMsg::Withdrawn { req_id }
                    } else {
                        HolderMsg::TooLate { req_id }
                    },
                );
            }
            MasterMsg::Promoted { seq, outcome } => self.promoted(from, seq, outcome),
        }
    }

    fn request(&mut self, ask: Ask) {
        if self.entry.knows(&ask) {
            return; // A repeated request whose first copy is being served.
        }
        // With a conversion on, its source may have shipped already and ask for the block back
        // before the Taken is here: it queues. Else the record is as new as the request.
        if self.entry.conv().is_none() && self.entry.covers(ask.from, ask.want.mode()) {
            self.send(ask.from, HolderMsg::Retry { req_id: ask.req_id });
            return;
        }
        if let Want::Cr { .. } = ask.want
            && self.entry.recovery().is_none()
        {
            if self.route_cr(&ask) {
                return;
            }
            if self.entry.conv().is_some() {
                self.entry.busy_mut().cr_parked.push(ask);
                return;
            }
        }
        self.entry.enqueue(ask);
        self.advance();
    }

    /// Passes a CR request on to a copy that can serve it without changing mode: the holder in X,
    /// or, while a conversion keeps an S request from being served, a holder in S.
    fn route_cr(&mut self, ask: &Ask) -> bool {
        let Want::Cr { scn, xid } = ask.want else { return false };
        let holder = match self.entry.x {
            Some(x) => Some(x),
            None if self.entry.conv().is_some() => self.pick_source(self.entry.s.without(ask.from)),
            None => None,
        };
        let Some(holder) = holder.filter(|&h| h != ask.from) else { return false };
        let timings = self.timings(ask);
        let (to, req_id) = (ask.from, ask.req_id);
        self.send(holder, HolderMsg::ForwardCr { to, req_id, scn, xid, timings });
        true
    }

    /// Serves the queue until a conversion is on, or it is empty.
    fn advance(&mut self) {
        while self.entry.conv().is_none() && self.entry.recovery().is_none() {
            let nobody = self.entry.x.is_none() && self.entry.s.is_empty();
            let wanted = self.entry.wanted();
            if nobody && wanted && !self.entry.past.is_empty() {
                self.start_promotion();
                return;
            }
            if self.relay_write_request() {
                continue;
            }
            let Some(ask) = self.entry.next_ask() else { return };
            if matches!(ask.want, Want::Cr { .. }) && self.entry.x.is_some() {
                if !self.route_cr(&ask) {
                    self.send(ask.from, HolderMsg::Retry { req_id: ask.req_id });
                }
                continue;
            }
            if self.entry.covers(ask.from, ask.want.mode()) {
                // It asked before its own past image was promoted: it has the block by now, and
                // must
                // not be told to ship it to itself.
                self.send(ask.from, HolderMsg::Retry { req_id: ask.req_id });
                continue;
            }
            if self.entry.s.contains(ask.from) && ask.have.mode == Mode::N {
                // As above, and it has shared the block since: a grant names the version of the
                // asker's copy, which this request does not.
                self.send(ask.from, HolderMsg::Retry { req_id: ask.req_id });
                continue;
            }
            self.start(ask);
        }
    }

    fn start(&mut self, ask: Ask) {
        let seq = self.next_seq();
        let others = self.entry.s.without(ask.from);
        let mut left = InstanceSet::default();
        if ask.want.mode() == Mode::X && self.entry.x.is_none() {
            left = others;
            if !self.entry.s.contains(ask.from)
                && let Some(source) = self.pick_source(others)
            {
                left = left.without(source); // It ships its copy instead.
            }
        }
        for who in left.iter() {
            self.send(who, HolderMsg::Invalidate { seq });
        }
        self.entry.busy_mut().conv =
            Some(Conversion { ask: Some(ask), seq, stage: Stage::Invalidating { left } });
        if left.is_empty() {
            self.grant_or_forward();
        }
    }

    /// The conversion has no copy in its way any more: give the asker its right.
    fn grant_or_forward(&mut self) {
        let Some(Conversion { ask: Some(ask), seq, .. }) = self.entry.conv().copied() else {
            unreachable!("only a conversion with an asker is granted");
        };
        let mode = ask.want.mode();
        let past_images = !self.entry.past.is_empty();
        let timings = self.timings(&ask);
        let mut grant =
            Grant { req_id: ask.req_id, mode, seq, source: Source::Disk, past_images, timings };
        let stage = if self.entry.s.contains(ask.from) {
            grant.source = Source::YourCopy { version: ask.have.version };
            self.send(ask.from, HolderMsg::Grant { grant });
            Stage::Granted
        } else if let Some(source) = self.entry.x.or_else(|| self.pick_source(self.entry.s)) {
            let (to, req_id) = (ask.from, ask.req_id);
            let forward = HolderMsg::Forward { to, mode, req_id, seq, past_images, timings };
            self.send(source, forward);
            Stage::Forwarded { source }
        } else if past_images {
            // The last copy has gone while we invalidated: ask the past images first (C1).
            self.entry.busy_mut().conv = None;
            self.entry.busy_mut().queue.push_front(ask);
            self.start_promotion();
            return;
        } else {
            self.send(ask.from, HolderMsg::Grant { grant });
            Stage::Granted
        };
        self.entry.conv_mut().expect("the conversion is on").stage = stage;
    }

    /// Of the S holders, the one that ships: the writer (its content must move), then this
    /// instance (a hop less), then the lowest.
    fn pick_source(&self, of: InstanceSet) -> Option<InstanceNo> {
        let preferred = [self.entry.writer, Some(self.me)];
        preferred.into_iter().flatten().find(|&i| of.contains(i)).or_else(|| of.iter().next())
    }

    fn taken(
        &mut self,
        from: InstanceNo,
        seq: Seq,
        mode: Mode,
        past: Option<(InstanceNo, Version)>,
    ) {
        self.send(from, HolderMsg::TakenAck { seq });
        let closes = |c: &Conversion| c.seq == seq && c.ask.is_some_and(|a| a.from == from);
        if !self.entry.conv().is_some_and(closes) {
            return; // A repetition of one we have.
        }
        match mode {
            Mode::X => {
                self.entry.s = InstanceSet::default();
                self.entry.x = Some(from);
                self.entry.writer = None;
                // It is dirty from now on: its own past image is superseded by the copy.
                self.entry.drop_past_of(from);
            }
            Mode::S => {
                if let Some(x) = self.entry.x.take() {
                    self.entry.s.insert(x);
                    self.entry.writer = Some(x);
                }
                self.entry.s.insert(from);
            }
            Mode::N => {}
        }
        if let Some((who, version)) = past.filter(|p| p.0 != from) {
            self.entry.set_past(who, version);
        }
        self.close();
    }

    /// Ends the conversion; what waited for it goes on.
    fn close(&mut self) {
        let busy = self.entry.busy_mut();
        busy.conv = None;
        for ask in std::mem::take(&mut busy.cr_parked) {
            if !self.route_cr(&ask) {
                self.entry.enqueue(ask);
            }
        }
        self.advance();
    }

    fn released(&mut self, from: InstanceNo, seq: Seq) {
        let told_since = self.entry.told.is_some_and(|t| t.0 == from && t.1 > seq);
        let busy = self.entry.conv().is_some() || self.entry.recovery().is_some();
        let accepted = !busy && !told_since;
        if accepted {
            self.entry.strike(from);
        }
        self.send(from, HolderMsg::ReleasedAck { seq, accepted });
    }

    fn not_held(&mut self, from: InstanceNo, seq: Seq) {
        self.entry.strike(from);
        let Some(conv) = self.entry.conv_mut() else { return };
        let asker = conv.ask.map(|a| a.from);
        match &mut conv.stage {
            Stage::Invalidating { left } => {
                let was_last = left.contains(from) && left.without(from).is_empty();
                *left = left.without(from);
                if was_last {
                    self.grant_or_forward();
                }
            }
            Stage::Forwarded { source } if *source == from => self.decide_again(),
            Stage::Granted if asker == Some(from) && conv.seq == seq => {
                // It cannot use the grant: it has no such request any more (this was a repetition
                // of one that is served), or another state than the one it asked in.
                let req_id = conv.ask.map(|a| a.req_id).expect("seen above");
                self.send(from, HolderMsg::Retry { req_id });
                self.close();
            }
            Stage::Promoting { source } if *source == from && conv.seq == seq => {
                self.promoted(from, seq, Promoted::Nothing);
            }
            _ => {}
        }
    }

    /// Starts the conversion anew, with a sequence number of its own so that late answers to the
    /// first attempt cannot be taken for answers to the second.
    fn decide_again(&mut self) {
        let conv = self.entry.busy_mut().conv.take();
        let ask = conv.and_then(|c| c.ask).expect("a promotion is not decided again");
        self.entry.busy_mut().queue.push_front(ask);
        self.advance();
    }

    fn invalidated(&mut self, from: InstanceNo, seq: Seq, past: Option<Version>) {
        if let Some(version) = past {
            self.entry.set_past(from, version);
        }
        let Some(conv) = self.entry.conv_mut().filter(|c| c.seq == seq) else { return };
        let Stage::Invalidating { left } = &mut conv.stage else { return };
        if !left.contains(from) {
            return;
        }
        *left = left.without(from);
        let done = left.is_empty();
        self.entry.strike(from);
        if done {
            self.grant_or_forward();
        }
    }

    /// Disk holds `version`: past images up to it may go.
    fn written(&mut self, version: Version) {
        let past = std::mem::take(&mut self.entry.past);
        for (who, image) in past {
            if image <= version {
                self.send(who, HolderMsg::PastImageDrop { version });
            } else {
                self.entry.past.push((who, image));
            }
        }
    }

    fn write_request(&mut self, from: InstanceNo, version: Version) {
        if !self.entry.past.iter().any(|p| p.0 == from) {
            return; // Written meanwhile, or its conversion is still open: the checkpoint repeats.
        }
        let wanted = &mut self.entry.busy_mut().write_wanted;
        *wanted = (*wanted).max(Some(version));
        self.advance();
    }

    /// Tells the writer that a checkpoint waits for it (H17).
    fn relay_write_request(&mut self) -> bool {
        let Some(version) = self.entry.take_write_wanted() else { return false };
        if let Some(to) = self.entry.x.or_else(|| self.make_writer()) {
            self.send(to, HolderMsg::WriteRequest { version });
        }
        true
    }

    /// The writer among the holders in S; appoints one if nobody is (C1, M9).
    fn make_writer(&mut self) -> Option<InstanceNo> {
        if self.entry.writer.is_none()
            && let Some(to) = self.pick_source(self.entry.s)
        {
            self.entry.writer = Some(to);
            self.tell_writer(to);
        }
        self.entry.writer
    }

    fn tell_writer(&mut self, to: InstanceNo) {
        let seq = self.next_seq();
        self.entry.told = Some((to, seq));
        self.entry.drop_past_of(to); // Superseded by the copy that is dirty from now on.
        self.send(to, HolderMsg::BecomeWriter { seq });
    }

    fn start_promotion(&mut self) {
        let newest = self.entry.past.iter().max_by_key(|p| (p.1, std::cmp::Reverse(p.0)));
        let Some(&(source, _)) = newest else { return };
        let seq = self.next_seq();
        self.entry.busy_mut().conv =
            Some(Conversion { ask: None, seq, stage: Stage::Promoting { source } });
        self.send(source, HolderMsg::Promote { seq });
    }

    fn promoted(&mut self, from: InstanceNo, seq: Seq, outcome: Promoted) {
        if !self.entry.conv().is_some_and(|c| c.seq == seq && c.ask.is_none()) {
            return;
        }
        self.entry.drop_past_of(from);
        match outcome {
            Promoted::Holds { .. } => {
                self.entry.x = Some(from);
                self.entry.forget_have_of(from);
            }
            Promoted::DiskIsNewer { version } => self.written(version),
            Promoted::Nothing => {}
        }
        self.close();
    }

    fn downgraded(&mut self, from: InstanceNo, unwritten: bool) {
        // With a conversion on, it is the source, and the conversion will record what it becomes.
        if self.entry.x == Some(from) && self.entry.conv().is_none() {
            self.entry.x = None;
            self.entry.s.insert(from);
            self.entry.writer = unwritten.then_some(from);
        }
    }
}

/// The longest queue of a block: an instance has one request out per block.
const _: () = assert!(block::INSTANCES_MAX as usize <= entry::QUEUE_MAX);

type Queue = VecDeque<Ask>;
