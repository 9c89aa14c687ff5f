#![doc = include_str!("README.md")]

mod blocks;
mod dictionary;
mod heap;
mod index;
mod space;
#[cfg(test)]
mod tests;
mod tree;
mod undo;

use std::fmt;

use block::{Dba, INSTANCES_MAX, InstanceNo, Version};
use disk::Group;
use observe::Ctx;

use crate::error::Result;
use crate::redo::{ThreadState, ThreadStatus, read_thread};
use blocks::Walk;

/// What is wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    Unreadable,
    Checksum,
    Address,
    BlockKind,
    Redo,
    Control,
    Block,
    Itl,
    Undo,
    Dictionary,
    Segment,
    Space,
    Tree,
    Chain,
    Row,
    Index,
}

impl Kind {
    /// One word, as reports show it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Kind::Unreadable => "unreadable",
            Kind::Checksum => "checksum",
            Kind::Address => "address",
            Kind::BlockKind => "kind",
            Kind::Redo => "redo",
            Kind::Control => "control",
            Kind::Block => "block",
            Kind::Itl => "itl",
            Kind::Undo => "undo",
            Kind::Dictionary => "dictionary",
            Kind::Segment => "segment",
            Kind::Space => "space",
            Kind::Tree => "tree",
            Kind::Chain => "chain",
            Kind::Row => "row",
            Kind::Index => "index",
        }
    }
}

/// One finding.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Finding {
    pub kind: Kind,
    /// Where it was found.
    pub dba: Dba,
    /// Version of that block.
    pub version: Version,
    /// What the block is part of.
    pub of: String,
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: block {}, {}: {}", self.kind.word(), self.dba, self.of, self.what)
    }
}

/// How the database was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// No redo is needed.
    Closed,
    /// Nobody runs, and the redo of some threads is still to be applied.
    Crashed,
    /// Instances ran.
    Open,
}

impl State {
    /// One word, as reports show it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            State::Closed => "closed",
            State::Crashed => "crashed",
            State::Open => "open",
        }
    }
}

/// What was looked at, in the last pass.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    pub blocks: u64,
    /// Blocks that the redo of open threads has changed.
    pub redo_blocks: u64,
    pub segments: u64,
    pub tables: u64,
    pub indexes: u64,
    pub rows: u64,
    pub entries: u64,
    /// Transactions that were open.
    pub active: u64,
    /// Rows that they were at.
    pub unsettled_rows: u64,
    /// Index blocks that their parent does not know yet.
    pub unfinished_splits: u64,
    /// Index blocks that are in no tree.
    pub stray_blocks: u64,
    /// Damaged blocks that belong to nobody: no harm.
    pub damaged_free_blocks: u64,
    /// Findings that were not kept, damage among them.
    pub not_kept: u64,
    pub passes: u64,
}

/// What a walk has found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    pub state: State,
    pub counts: Counts,
    pub damage: Vec<Finding>,
    /// It may be damage, or may have changed underfoot.
    pub not_judged: Vec<Finding>,
    /// Space that belongs to nobody, as a crash may leave it.
    pub lost: Vec<Finding>,
}

impl Report {
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.damage.is_empty() && self.counts.not_kept == 0
    }
}

/// Findings of one pass that are kept.
const FINDINGS_MAX: usize = 1000;
/// Passes over an open database until what has not been found twice is called not judged.
const PASSES_MAX: u64 = 4;

async fn threads(group: &Group) -> (Vec<(u64, ThreadState)>, Vec<(InstanceNo, String)>) {
    let (mut all, mut bad) = (Vec::new(), Vec::new());
    for k in (1..=INSTANCES_MAX).map(InstanceNo) {
        match read_thread(group, k).await {
            Ok(state) => all.push(state),
            Err(e) => bad.push((k, e.to_string())),
        }
    }
    (all, bad)
}

/// Walks the database. `lives`: whether some instance runs, as far as the caller knows.
///
/// # Errors
/// The walk cannot begin: the group's layout or the control file's place cannot be read, or the
/// session was interrupted. Damage is no error.
pub async fn verify(ctx: &Ctx, group: &Group, lives: bool) -> Result<Report> {
    let mut report = Report {
        state: State::Closed,
        counts: Counts::default(),
        damage: Vec::new(),
        not_judged: Vec::new(),
        lost: Vec::new(),
    };
    let mut before: Vec<Finding> = Vec::new();
    for pass in 1..=PASSES_MAX {
        ctx.check_interrupt()?;
        group.refresh().await?;
        let (states, bad) = threads(group).await;
        let open = states.iter().any(|(_, s)| s.status == ThreadStatus::Open);
        let mut walk = Walk::new(ctx, group, lives);
        for (k, what) in bad {
            walk.note_control(k, what);
        }
        walk.read_redo().await?;
        walk.all().await?;
        let changed = lives || threads(group).await.0 != states;
        report.state = match (changed, open) {
            (true, _) => State::Open,
            (false, true) => State::Crashed,
            (false, false) => State::Closed,
        };
        report.counts = Counts { passes: pass, ..walk.counts };
        let mut found = std::mem::take(&mut walk.findings);
        found.sort();
        found.dedup();
        report.lost = std::mem::take(&mut walk.lost);
        let (sure, doubtful): (Vec<Finding>, Vec<Finding>) =
            found.iter().cloned().partition(|f| !changed || before.binary_search(f).is_ok());
        (report.damage, report.not_judged) = (sure, doubtful);
        if report.not_judged.is_empty() {
            break;
        }
        before = found;
    }
    if report.state == State::Open && report.counts.not_kept > 0 && report.damage.is_empty() {
        // Nothing is known of what was not kept.
        report.counts.not_kept = 0;
    }
    Ok(report)
}
