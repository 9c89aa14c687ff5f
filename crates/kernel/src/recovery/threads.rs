//! See the README.

use std::collections::BTreeMap;

use block::op::{Replay, Vector};
use block::{BLOCK_BYTES, Dba, INSTANCES_MAX, InstanceNo, Rba, Scn, Version, layout};
use disk::Group;
use env::IoBuf;
use observe::{AlertLevel, Ctx, Stat, WaitEvent};

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

/// The redo of dead threads, by block.
#[derive(Default)]
pub struct Collected {
    /// Vectors with the SCN of their record, in version order.
    pub blocks: BTreeMap<Dba, Vec<(Scn, Vector)>>,
    /// Whole copies of blocks that the dead have torn, not yet restored.
    pub torn: BTreeMap<Dba, IoBuf>,
    pub ends: Vec<ThreadEnd>,
    pub max_scn: Scn,
    pub bytes: u64,
}

impl Collected {
    /// The version each block had when its instance died.
    #[must_use]
    pub fn last_versions(&self) -> BTreeMap<Dba, Version> {
        let last = self.blocks.iter().filter_map(|(d, v)| v.last().map(|(s, v)| (*d, v.after(*s))));
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
    for &thread in threads {
        let (state_seq, state) = read_thread(group, thread).await?;
        if state.status == ThreadStatus::Closed {
            continue;
        }
        let ring = Ring::open(group, thread)?;
        let mut scan = Scan::open(group, ring, &state).await?;
        let mut max_scn = state.scn;
        let p = [u64::from(thread.0), 0, 0];
        while let Some(record) = ctx.wait(WaitEvent::LogFileSequentialRead, p, scan.next()).await? {
            max_scn = max_scn.max(record.scn);
            for vector in record.vectors {
                all.blocks.entry(vector.dba).or_default().push((record.scn, vector));
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
    for vectors in all.blocks.values_mut() {
        vectors.sort_by_key(|(scn, v)| v.after(*scn));
    }
    // What was read must stay what it is, whatever the disks' caches lose from now on.
    group.sync().await?;
    Ok(all)
}

/// Applies to `image` what it lacks. Returns how many vectors were applied.
///
/// # Errors
/// Something is missing between the block and the redo.
pub fn apply_vectors(image: &mut [u8], dba: Dba, vectors: &[(Scn, Vector)]) -> Result<u64> {
    let mut applied = 0;
    for (scn, vector) in vectors {
        match vector.replay(image, *scn) {
            Replay::Applied => applied += 1,
            Replay::Skipped => {}
            Replay::Gap => {
                let have = layout::version(image);
                let what =
                    format!("redo continues at {} but the block is at {have}", vector.before);
                return Err(Error::Corrupt { dba, what });
            }
        }
    }
    Ok(applied)
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
            collected.blocks.len(),
            torn.len()
        ),
    );
    let area = Area::Recovery(dead[0]);
    let mut batch: Vec<(Dba, IoBuf)> = Vec::new();
    for (&dba, vectors) in &collected.blocks {
        let mut image = group.read_blocks(dba.file, dba.block, 1).await?;
        if let Err(damage) = layout::check(&image, dba) {
            // A format may repair what is damaged; anything else needs the block.
            if !vectors.first().is_some_and(|(_, v)| v.op.is_format()) {
                return Err(Error::Corrupt { dba, what: damage.to_string() });
            }
            image = IoBuf::zeroed(BLOCK_BYTES);
        }
        let applied = apply_vectors(&mut image, dba, vectors)?;
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
