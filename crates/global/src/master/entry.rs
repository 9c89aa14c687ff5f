//! One block's entry in the directory. Small while nothing happens: what only a conversion needs
//! is boxed, and freed with it.

use std::fmt;

use block::{Dba, InstanceNo, Mode, Version};

use super::Queue;
use crate::msg::{Have, ReqId, Seq, Want};
use crate::set::InstanceSet;

/// The most requests that wait for one block: one per instance, and each may have a CR request that
/// came back from a holder in the same moment.
pub const QUEUE_MAX: usize = 16;

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ask {
    pub from: InstanceNo,
    pub req_id: ReqId,
    pub want: Want,
    pub have: Have,
    pub arrived_us: u64,
    /// How long it had waited for this block server before.
    pub lms_us: u32,
}

/// How far the conversion in progress is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Waiting for these to give up their S copies.
    Invalidating { left: InstanceSet },
    /// The asker was granted its right; its Taken is awaited.
    Granted,
    /// `source` ships to the asker, whose Taken is awaited.
    Forwarded { source: InstanceNo },
    /// `source` compares its past image with disk (C1).
    Promoting { source: InstanceNo },
}

/// The conversion in progress; without an asker it is a promotion.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Conversion {
    pub ask: Option<Ask>,
    pub seq: Seq,
    pub stage: Stage,
}

/// What an entry has only while something happens to its block.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Busy {
    pub conv: Option<Conversion>,
    pub queue: Queue,
    /// CR requests that found the block on its way from one holder to the next.
    pub cr_parked: Vec<Ask>,
    pub recovery: Option<InstanceNo>,
    pub write_wanted: Option<Version>,
}

/// One block.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Entry {
    pub s: InstanceSet,
    pub x: Option<InstanceNo>,
    /// The holder in S that may have to write. A holder in X is its own writer.
    pub writer: Option<InstanceNo>,
    pub past: Vec<(InstanceNo, Version)>,
    /// Who was told last to become the writer: an eviction it offered before it heard is void.
    pub told: Option<(InstanceNo, Seq)>,
    busy: Option<Box<Busy>>,
}

impl Entry {
    pub fn conv(&self) -> Option<&Conversion> {
        self.busy.as_ref().and_then(|b| b.conv.as_ref())
    }

    pub fn conv_mut(&mut self) -> Option<&mut Conversion> {
        self.busy.as_mut().and_then(|b| b.conv.as_mut())
    }

    pub fn recovery(&self) -> Option<InstanceNo> {
        self.busy.as_ref().and_then(|b| b.recovery)
    }

    pub fn busy_mut(&mut self) -> &mut Busy {
        self.busy.get_or_insert_default()
    }

    /// Frees what has become empty.
    pub fn tidy(&mut self) {
        let unused = |b: &Busy| {
            b.conv.is_none()
                && b.queue.is_empty()
                && b.cr_parked.is_empty()
                && b.recovery.is_none()
                && b.write_wanted.is_none()
        };
        if self.busy.as_deref().is_some_and(unused) {
            self.busy = None;
        }
    }

    /// Whether nothing is left to remember.
    pub fn is_empty(&self) -> bool {
        self.s.is_empty() && self.x.is_none() && self.past.is_empty() && self.busy.is_none()
    }

    /// Whether this request is queued or being served already.
    pub fn knows(&self, ask: &Ask) -> bool {
        let Some(busy) = &self.busy else { return false };
        let same = |a: &Ask| a.from == ask.from && a.req_id == ask.req_id;
        busy.conv.is_some_and(|c| c.ask.as_ref().is_some_and(same))
            || busy.queue.iter().any(same)
            || busy.cr_parked.iter().any(same)
    }

    /// Whether `who` holds `mode` or more.
    pub fn covers(&self, who: InstanceNo, mode: Mode) -> bool {
        self.x == Some(who) || (mode == Mode::S && self.s.contains(who))
    }

    pub fn enqueue(&mut self, ask: Ask) {
        let queue = &mut self.busy_mut().queue;
        // An instance has one request out; an older one of its is void.
        queue.retain(|a| a.from != ask.from);
        queue.push_back(ask);
        assert!(queue.len() <= QUEUE_MAX, "{} requests wait for one block", queue.len());
    }

    /// What `who` said it had when it asked is not so any more.
    pub fn forget_have_of(&mut self, who: InstanceNo) {
        let queue = self.busy.iter_mut().flat_map(|b| b.queue.iter_mut());
        for ask in queue.filter(|a| a.from == who) {
            ask.have = crate::msg::Have::default();
        }
    }

    pub fn next_ask(&mut self) -> Option<Ask> {
        self.busy.as_mut()?.queue.pop_front()
    }

    /// Whether somebody waits for a current copy.
    pub fn wanted(&self) -> bool {
        self.busy.as_ref().is_some_and(|b| !b.queue.is_empty() || b.write_wanted.is_some())
    }

    pub fn take_write_wanted(&mut self) -> Option<Version> {
        self.busy.as_mut()?.write_wanted.take()
    }

    /// Takes a request out of the queue; false if it is not there (any more).
    pub fn withdraw(&mut self, from: InstanceNo, req_id: ReqId) -> bool {
        let Some(busy) = &mut self.busy else { return false };
        let before = busy.queue.len() + busy.cr_parked.len();
        let other = |a: &Ask| a.from != from || a.req_id != req_id;
        busy.queue.retain(other);
        busy.cr_parked.retain(other);
        busy.queue.len() + busy.cr_parked.len() < before
    }

    /// `who` holds nothing any more (its past image stays).
    pub fn strike(&mut self, who: InstanceNo) {
        self.s = self.s.without(who);
        self.x = self.x.filter(|&x| x != who);
        self.writer = self.writer.filter(|&w| w != who);
    }

    /// Records a past image; an instance keeps one at most, the newest.
    pub fn set_past(&mut self, who: InstanceNo, version: Version) {
        self.drop_past_of(who);
        self.past.push((who, version));
    }

    pub fn drop_past_of(&mut self, who: InstanceNo) {
        self.past.retain(|p| p.0 != who);
    }

    /// Invariant 1 as far as the record shows it, and the record's own consistency.
    pub fn assert_invariants(&self, addr: Dba) {
        assert!(self.x.is_none() || self.s.is_empty(), "{addr}: X together with S");
        assert!(self.writer.is_none_or(|w| self.s.contains(w)), "{addr}: a writer without a copy");
        if let Some(busy) = &self.busy {
            let idle = busy.conv.is_none() && busy.recovery.is_none();
            debug_assert!(!idle || busy.queue.is_empty(), "{addr}: a queue that nobody serves");
            debug_assert!(!idle || busy.cr_parked.is_empty(), "{addr}: a CR request forgotten");
        }
    }

    pub fn view(&self) -> EntryView {
        EntryView {
            x: self.x,
            s: self.s.iter().collect(),
            writer: self.writer,
            past: self.past.clone(),
            asker: self.conv().and_then(|c| c.ask.map(|a| (a.from, a.want.mode()))),
            promoting: self.conv().is_some_and(|c| c.ask.is_none()),
            queue: self
                .busy
                .as_ref()
                .map(|b| b.queue.iter().chain(&b.cr_parked).map(|a| (a.from, a.want)).collect())
                .unwrap_or_default(),
            recovery: self.recovery(),
        }
    }

    pub fn from_view(view: &EntryView, recovery: Option<InstanceNo>) -> Entry {
        let mut s = InstanceSet::default();
        view.s.iter().for_each(|&i| s.insert(i));
        let busy = recovery.map(|by| Box::new(Busy { recovery: Some(by), ..Busy::default() }));
        Entry { s, x: view.x, writer: view.writer, past: view.past.clone(), told: None, busy }
    }
}

/// What a master records of a block.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EntryView {
    pub x: Option<InstanceNo>,
    pub s: Vec<InstanceNo>,
    pub writer: Option<InstanceNo>,
    pub past: Vec<(InstanceNo, Version)>,
    /// The asker of the conversion in progress.
    pub asker: Option<(InstanceNo, Mode)>,
    pub promoting: bool,
    pub queue: Vec<(InstanceNo, Want)>,
    pub recovery: Option<InstanceNo>,
}

impl fmt::Display for EntryView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = Vec::new();
        parts.extend(self.x.map(|i| format!("X i{i}")));
        parts.extend(self.s.iter().map(|i| {
            let writer = if self.writer == Some(*i) { " (writer)" } else { "" };
            format!("S i{i}{writer}")
        }));
        parts.extend(self.past.iter().map(|(i, v)| format!("past image i{i} {v}")));
        parts.extend(self.asker.map(|(i, m)| format!("converting i{i} to {m}")));
        if self.promoting {
            parts.push("promoting".into());
        }
        parts.extend(self.queue.iter().map(|(i, w)| format!("queued i{i} {w}")));
        parts.extend(self.recovery.map(|i| format!("recovery lock i{i}")));
        f.write_str(&parts.join(", "))
    }
}
