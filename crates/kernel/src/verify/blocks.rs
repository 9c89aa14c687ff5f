//! Blocks as they would be after recovery, and the walk that looks at all of them.

use std::time::Duration;

use block::layout::{self, Damage, Kind as BlockKind};
use block::{BLOCK_BYTES, Dba, INSTANCES_MAX, InstanceNo, Version, rows, undo};
use disk::Group;
use observe::{Ctx, WaitEvent};
use rustc_hash::{FxHashMap, FxHashSet};

use super::space::Owners;
use super::undo::Transactions;
use super::{Counts, FINDINGS_MAX, Finding, Kind};
use crate::cache::find_torn;
use crate::error::Result;
use crate::recovery::{Collected, collect};
use crate::redo::{CONTROL_FILE, ThreadStatus, read_thread};

/// Blocks that one read fetches.
const RUN_BLOCKS: u32 = 64;
/// A block that fails its checks is read again so often: somebody may be writing it.
const READS_MAX: u32 = 12;
const READ_AGAIN: Duration = Duration::from_millis(1);
/// Reads of the redo until a checkpoint has not overtaken the reader.
const REDO_READS_MAX: u32 = 8;
/// Single blocks that are kept for the next look.
const KEPT_BLOCKS: usize = 4096;

/// The image of one block.
pub(super) type Image = Vec<u8>;

/// One pass.
pub(super) struct Walk<'a> {
    pub ctx: &'a Ctx,
    pub group: &'a Group,
    pub lives: bool,
    pub redo: Collected,
    pub transactions: Transactions,
    pub owners: Owners,
    pub findings: Vec<Finding>,
    pub lost: Vec<Finding>,
    pub counts: Counts,
    /// Blocks that have been complained of: once is enough.
    damaged: FxHashSet<Dba>,
    /// The dictionary could not be read: nobody knows whose what is.
    pub blind: bool,
    kept: FxHashMap<Dba, Option<Image>>,
}

impl<'a> Walk<'a> {
    pub fn new(ctx: &'a Ctx, group: &'a Group, lives: bool) -> Walk<'a> {
        Walk {
            ctx,
            group,
            lives,
            redo: Collected::default(),
            transactions: Transactions::default(),
            owners: Owners::default(),
            findings: Vec::new(),
            lost: Vec::new(),
            counts: Counts::default(),
            damaged: FxHashSet::default(),
            blind: false,
            kept: FxHashMap::default(),
        }
    }

    pub fn find(&mut self, kind: Kind, dba: Dba, version: Version, of: &str, what: String) {
        if self.findings.len() >= FINDINGS_MAX {
            self.counts.not_kept += 1;
            return;
        }
        self.findings.push(Finding { kind, dba, version, of: of.to_owned(), what });
    }

    /// A finding about a block whose image is at hand.
    pub fn find_in(&mut self, kind: Kind, b: &[u8], dba: Dba, of: &str, what: String) {
        self.find(kind, dba, layout::version(b), of, what);
    }

    /// Whether the block could not be read, which has been said.
    pub fn is_damaged(&self, dba: Dba) -> bool {
        self.damaged.contains(&dba)
    }

    pub fn note_control(&mut self, k: InstanceNo, what: String) {
        let dba = Dba::new(CONTROL_FILE, 2 * u32::from(k.0));
        self.find(Kind::Control, dba, Version::ZERO, &format!("redo thread {k}"), what);
    }

    /// Reads the redo of all open threads.
    pub async fn read_redo(&mut self) -> Result<()> {
        for _ in 0..REDO_READS_MAX {
            let mut open = Vec::new();
            for k in (1..=INSTANCES_MAX).map(InstanceNo) {
                let state = read_thread(self.group, k).await;
                if state.is_ok_and(|(_, state)| state.status == ThreadStatus::Open) {
                    open.push(k);
                }
            }
            if open.is_empty() {
                self.redo = Collected::default();
                return Ok(());
            }
            let torn = find_torn(self.ctx, self.group, &open).await?;
            self.redo = collect(self.ctx, self.group, &open).await?;
            self.redo.torn = torn;
            self.counts.redo_blocks = self.redo.block_count() as u64;
            // What lies before the checkpoint may have been written over while it was read.
            let mut whole = true;
            for end in &self.redo.ends {
                let now = read_thread(self.group, end.thread).await;
                whole &= now.is_ok_and(|(_, now)| {
                    now.incarnation == end.state.incarnation && now.checkpoint <= end.end
                });
            }
            if whole || !self.lives {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Everything, in the order in which each part needs the ones before.
    pub async fn all(&mut self) -> Result<()> {
        self.undo_headers().await;
        let dictionary = self.dictionary().await;
        for named in &dictionary.other {
            self.other_segment(named).await;
        }
        for table in &dictionary.tables {
            self.ctx.check_interrupt()?;
            self.table(table, None).await;
        }
        self.undo_chains().await;
        self.undo_blocks().await;
        self.free_space().await;
        Ok(())
    }

    async fn read(&self, first: Dba, count: u32) -> std::result::Result<Vec<u8>, disk::Error> {
        let p = [u64::from(first.file), u64::from(first.block), u64::from(count)];
        let read = self.group.read_blocks(first.file, first.block, count);
        self.ctx.wait(WaitEvent::DbFileScatteredRead, p, read).await.map(|b| b.to_vec())
    }

    /// Blocks side by side; `None` where one is damaged, which has been said then.
    pub async fn run(&mut self, of: &str, first: Dba, count: u32) -> Vec<(Dba, Option<Image>)> {
        let mut out = Vec::with_capacity(count as usize);
        let all = self.read(first, count).await;
        for i in 0..count {
            let dba = Dba::new(first.file, first.block + i);
            let at = i as usize * BLOCK_BYTES;
            let bytes = all.as_ref().ok().map(|all| all[at..at + BLOCK_BYTES].to_vec());
            let image = self.settled(of, dba, bytes).await;
            out.push((dba, image));
        }
        out
    }

    /// Runs of at most [`RUN_BLOCKS`].
    pub fn pieces(first: Dba, count: u32) -> impl Iterator<Item = (Dba, u32)> {
        (0..count)
            .step_by(RUN_BLOCKS as usize)
            .map(move |at| (Dba::new(first.file, first.block + at), RUN_BLOCKS.min(count - at)))
    }

    /// One block; it is kept for a while.
    pub async fn one(&mut self, of: &str, dba: Dba) -> Option<Image> {
        if let Some(image) = self.kept.get(&dba) {
            return image.clone();
        }
        let image = self.settled(of, dba, None).await;
        if self.kept.len() >= KEPT_BLOCKS {
            self.kept.clear();
        }
        self.kept.insert(dba, image.clone());
        image
    }

    /// The block as recovery would leave it. `bytes`: what has been read of it.
    async fn settled(&mut self, of: &str, dba: Dba, bytes: Option<Vec<u8>>) -> Option<Image> {
        match self.try_settle(dba, bytes).await {
            Ok(image) => Some(image),
            Err((kind, what)) => {
                if self.damaged.insert(dba) {
                    self.find(kind, dba, Version::ZERO, of, what);
                }
                None
            }
        }
    }

    pub async fn try_settle(
        &mut self,
        dba: Dba,
        bytes: Option<Vec<u8>>,
    ) -> std::result::Result<Image, (Kind, String)> {
        self.counts.blocks += 1;
        let mut image = match self.whole(dba, bytes).await {
            Ok(image) => image,
            Err(_) if self.redo.begins_with_format(dba) => vec![0; BLOCK_BYTES],
            Err(damage) => match self.redo.torn.get(&dba) {
                Some(copy) => copy.to_vec(),
                None => return Err(damage),
            },
        };
        check_shape(&image).map_err(|what| (Kind::Block, what))?;
        self.redo.apply(&mut image, dba).map_err(|e| (Kind::Redo, e.to_string()))?;
        check_shape(&image).map_err(|what| (Kind::Block, what))?;
        Ok(image)
    }

    /// The bytes on disk, once they pass their checks.
    async fn whole(
        &self,
        dba: Dba,
        bytes: Option<Vec<u8>>,
    ) -> std::result::Result<Image, (Kind, String)> {
        let mut next = bytes;
        let mut last = (Kind::Unreadable, String::new());
        for round in 0..if self.lives { READS_MAX } else { 2 } {
            let bytes = match next.take() {
                Some(bytes) => Ok(bytes),
                None => self.read(dba, 1).await,
            };
            last = match bytes.map(|b| layout::check(&b, dba).map(|()| b)) {
                Ok(Ok(b)) => return Ok(b),
                Ok(Err(damage)) => (kind_of(damage), damage.to_string()),
                Err(e) => (Kind::Unreadable, e.to_string()),
            };
            if round > 0 && self.lives {
                self.ctx.sleep(WaitEvent::TornBlockRecheck, READ_AGAIN).await;
            }
        }
        Err(last)
    }
}

fn kind_of(damage: Damage) -> Kind {
    match damage {
        Damage::Checksum { .. } => Kind::Checksum,
        Damage::Address { .. } => Kind::Address,
        Damage::Kind { .. } => Kind::BlockKind,
    }
}

/// Whether the block's own structure holds, so that everybody may read it.
fn check_shape(b: &[u8]) -> std::result::Result<(), String> {
    match layout::kind(b) {
        BlockKind::Heap => rows::verify(b, false),
        BlockKind::Leaf | BlockKind::Branch => {
            let (leaf, level) = (layout::kind(b) == BlockKind::Leaf, rows::level(b));
            if leaf != (level == 0) {
                return Err(format!("level {level}"));
            }
            rows::verify(b, true)
        }
        BlockKind::Undo => undo::verify(b),
        _ => Ok(()),
    }
}
