//! See the README.

use std::collections::BTreeMap;

use block::op::Replay;
use block::redo::RawVector;
use block::{BLOCK_BYTES, Dba, INSTANCES_MAX, InstanceNo, Rba, Scn, Version, layout};
use disk::Group;
use env::IoBuf;
use observe::{AlertLevel, Ctx, Stat, WaitEvent};
use rustc_hash::FxHashMap;

use crate::cache::{Area, find_torn, restore_torn, write_images};
use crate::error::{Error, Result};
use crate::redo::{
    LOG_SECTOR_BYTES, Ring, Scan, ThreadState, ThreadStatus, read_thread, write_thread,
};

/// Where a dead thread ended.
#[derive(Clone, Copy, Debug)]
pub struct ThreadEnd {
    pub thread: InstanceNo,
    pub state_seq: u64,
    pub state: ThreadState,
    pub end: Rba,
    pub log_seq: u32,
    pub max_scn: Scn,
}

/// A change of a block in the redo that was read.
#[derive(Clone, Copy, Debug)]
struct Change {
    scn: Scn,
    before: Version,
    format: bool,
    /// Where its operation stands in the pieces kept.
    piece: u32,
    at: u32,
    len: u32,
}

impl Change {
    /// The version it makes.
    fn after(&self) -> Version {
        if self.format { Version { format: self.scn, count: 0 } } else { self.before.next() }
    }
}

/// Bytes of one piece of kept operations.
const PIECE_BYTES: usize = 4 << 20;

/// The redo of dead threads, by block. Operations are kept as they were read and decoded when they
/// are applied: others wait until it is known which blocks there are, not for what happens to them.
#[derive(Default)]
pub struct Collected {
    /// In version order.
    changes: BTreeMap<Dba, Vec<Change>>,
    pieces: Vec<Vec<u8>>,
    /// Whole copies of blocks that the dead have torn, not yet restored.
    pub torn: BTreeMap<Dba, IoBuf>,
    pub ends: Vec<ThreadEnd>,
    pub max_scn: Scn,
    pub bytes: u64,
}

impl Collected {
    /// Blocks with a change.
    #[must_use]
    pub fn block_count(&self) -> usize {
        self.changes.len()
    }

    /// Whether the first change of the block makes it anew: what disk has of it is not needed.
    #[must_use]
    pub fn begins_with_format(&self, dba: Dba) -> bool {
        self.changes.get(&dba).and_then(|c| c.first()).is_some_and(|c| c.format)
    }

    fn keep(&mut self, scn: Scn, vector: &RawVector<'_>) -> Change {
        let full = |p: &Vec<u8>| p.len() + vector.op.len() > p.capacity();
        if self.pieces.last().is_none_or(full) {
            self.pieces.push(Vec::with_capacity(PIECE_BYTES.max(vector.op.len())));
        }
        let number = |n: usize| u32::try_from(n).expect("a piece is below 4 GiB");
        let index = self.pieces.len() - 1;
        let piece = &mut self.pieces[index];
        let (at, len) = (number(piece.len()), number(vector.op.len()));
        piece.extend_from_slice(vector.op);
        let format = vector.is_format();
        Change { scn, before: vector.before, format, piece: number(index), at, len }
    }

    /// Applies to `image` what it lacks. Returns how many vectors were applied.
    ///
    /// # Errors
    /// Something is missing between the block and the redo.
    pub fn apply(&self, image: &mut [u8], dba: Dba) -> Result<u64> {
        let mut applied = 0;
        for c in self.changes.get(&dba).into_iter().flatten() {
            if layout::version(image) >= c.after() {
                continue;
            }
            let piece = &self.pieces[c.piece as usize];
            let op = &piece[c.at as usize..(c.at + c.len) as usize];
            let vector = RawVector { dba, before: c.before, op }.decode();
            let vector = vector.map_err(|e| Error::Corrupt {
                dba,
                what: format!("a change in the redo cannot be read: {e}"),
            })?;
            match vector.replay(image, c.scn) {
                Replay::Applied => applied += 1,
                Replay::Skipped => {}
                Replay::Gap => {
                    let have = layout::version(image);
                    let what = format!("redo continues at {} but the block is at {have}", c.before);
                    return Err(Error::Corrupt { dba, what });
                }
            }
        }
        Ok(applied)
    }

    /// The version each block had when its instance died.
    #[must_use]
    pub fn last_versions(&self) -> BTreeMap<Dba, Version> {
        let last = self.changes.iter().filter_map(|(d, c)| Some((*d, c.last()?.after())));
        let mut last: BTreeMap<Dba, Version> = last.collect();
        // A torn block is one to recover, also when no redo is left for it (hazard C11).
        for (&dba, image) in &self.torn {
            let version = last.entry(dba).or_insert(layout::version(image));
            *version = (*version).max(layout::version(image));
        }
        last
    }
}

/// Reads the threads from their checkpoints to their ends.
///
/// # Errors
/// A log or control file cannot be read.
pub async fn collect(ctx: &Ctx, group: &Group, threads: &[InstanceNo]) -> Result<Collected> {
    let mut all = Collected::default();
    let mut found: FxHashMap<Dba, Vec<Change>> = FxHashMap::default();
    for &thread in threads {
        let (state_seq, state) = read_thread(group, thread).await?;
        if state.status == ThreadStatus::Closed {
            continue;
        }
        let ring = Ring::open(group, thread)?;
        let mut scan = Scan::open(group, ring, &state).await?;
        let mut max_scn = state.scn;
        let p = [u64::from(thread.0), 0, 0];
        loop {
            let next = scan.next_with(|record| {
                max_scn = max_scn.max(record.scn);
                for vector in &record.vectors {
                    let change = all.keep(record.scn, vector);
                    found.entry(vector.dba).or_default().push(change);
                }
            });
            if ctx.wait(WaitEvent::LogFileSequentialRead, p, next).await?.is_none() {
                break;
            }
        }
        let end = scan.end().map_or(state.checkpoint, |e| e.rba);
        ctx.bump(Stat::RecoveryRedoRead, scan.bytes_read);
        all.bytes += end.0 - state.checkpoint.0;
        all.max_scn = all.max_scn.max(max_scn);
        all.ends.push(ThreadEnd {
            thread,
            state_seq,
            state,
            end,
            log_seq: scan.log_seq().max(state.log_seq),
            max_scn,
        });
    }
    all.changes = found.into_iter().collect();
    for changes in all.changes.values_mut() {
        changes.sort_by_key(Change::after);
    }
    // What was read must stay what it is, whatever the disks' caches lose from now on.
    group.sync().await?;
    Ok(all)
}

/// Recovers every thread that is open, none of whose instances lives: the first instance to start
/// does this. Returns what was recovered; the highest SCN found is in it.
///
/// # Errors
/// Damaged redo or blocks; disk errors. It can be tried again.
pub async fn recover_all(ctx: &Ctx, group: &Group) -> Result<Collected> {
    let all: Vec<InstanceNo> = (1..=INSTANCES_MAX).map(InstanceNo).collect();
    let mut dead = Vec::new();
    let mut max_scn = Scn::ZERO;
    for &k in &all {
        let (_, state) = read_thread(group, k).await?;
        max_scn = max_scn.max(state.scn);
        if state.status == ThreadStatus::Open {
            dead.push(k);
        }
    }
    if dead.is_empty() {
        return Ok(Collected { max_scn, ..Collected::default() });
    }
    // Nobody lives: nobody else writes them.
    let torn = find_torn(ctx, group, &dead).await?;
    for (&dba, image) in &torn {
        restore_torn(ctx, group, dba, image).await?;
    }
    let mut collected = collect(ctx, group, &dead).await?;
    collected.max_scn = collected.max_scn.max(max_scn);
    let names: Vec<String> = dead.iter().map(ToString::to_string).collect();
    ctx.alert(
        AlertLevel::Info,
        format!(
            "crash recovery of thread {}: {} bytes of redo, {} blocks, {} torn blocks restored",
            names.join(", "),
            collected.bytes,
            collected.block_count(),
            torn.len()
        ),
    );
    let area = Area::Recovery(dead[0]);
    let mut batch: Vec<(Dba, IoBuf)> = Vec::new();
    for &dba in collected.changes.keys() {
        let mut image = group.read_blocks(dba.file, dba.block, 1).await?;
        if let Err(damage) = layout::check(&image, dba) {
            // A format may repair what is damaged; anything else needs the block.
            if !collected.begins_with_format(dba) {
                return Err(Error::Corrupt { dba, what: damage.to_string() });
            }
            image = IoBuf::zeroed(BLOCK_BYTES);
        }
        let applied = collected.apply(&mut image, dba)?;
        ctx.bump(Stat::RecoveryVectors, applied);
        if applied > 0 {
            layout::seal(&mut image);
            batch.push((dba, image));
        }
        if batch.len() == crate::cache::DW_BLOCKS as usize {
            write_images(group, area, &batch).await?;
            batch.clear();
        }
    }
    if !batch.is_empty() {
        write_images(group, area, &batch).await?;
    }
    close_threads(group, &collected.ends).await?;
    ctx.bump(Stat::InstanceRecoveries, dead.len() as u64);
    Ok(collected)
}

/// Gives up the redo of recovered threads: all of their blocks are on disk.
///
/// # Errors
/// The control file cannot be written.
pub async fn close_threads(group: &Group, ends: &[ThreadEnd]) -> Result<()> {
    for e in ends {
        let state = ThreadState {
            status: ThreadStatus::Closed,
            checkpoint: Rba(e.end.0.next_multiple_of(LOG_SECTOR_BYTES)),
            log_seq: e.log_seq,
            scn: e.max_scn,
            ..e.state
        };
        write_thread(group, e.thread, e.state_seq + 1, &state).await?;
    }
    Ok(())
}
