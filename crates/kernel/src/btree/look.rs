//! A look along the leaves of an index: its height, its leaves, its keys, and how its order goes
//! with that of the table's blocks.
//!
//! What it promises: an index of few leaves is looked through whole, and its figures are exact as
//! of the snapshot; of a larger one runs of neighbouring leaves, chosen at random, stand for all.
//! What it must never do: hold more of the index than where these runs begin and end, or one key.

use std::ops::Bound;

use block::rows;
use block::{Dba, Rowid};
use observe::Ctx;

use super::descend::{Seek, descend};
use super::scan::RangeScan;
use super::seg::IndexSeg;
use crate::error::{Error, Result};
use crate::txn::Snapshot;

/// Leaves of a run, at the most.
const RUN_LEAVES: u16 = 10;

/// What a look has found out.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Figures {
    /// Levels of branches above the leaves.
    pub levels: u8,
    /// Leaves that branches lead to, empty ones among them.
    pub leaves: u64,
    /// Rows that the entries point to.
    pub rows: f64,
    /// Different keys.
    pub keys: f64,
    /// How often the rows, in the order of the index, are in another block than the one before;
    /// the first one counts.
    pub clustering: f64,
    /// Rows that were looked at.
    pub sampled: u64,
}

/// Leaves side by side under one branch.
#[derive(Debug)]
struct Run {
    /// Its place among all runs.
    number: u64,
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
    leaves: u64,
}

/// What the leaves looked at so far have shown.
#[derive(Default)]
struct Counts {
    leaves: u64,
    rows: u64,
    /// Rows that came behind another one, with what changed from that to this.
    pairs: u64,
    other_keys: u64,
    other_blocks: u64,
    /// Key and block of the row before.
    before: Option<(Vec<u8>, Dba)>,
}

impl Counts {
    fn add(&mut self, key: &[u8], block: Dba) {
        self.rows += 1;
        let Some((last_key, last_block)) = &mut self.before else {
            self.before = Some((key.to_vec(), block));
            return;
        };
        self.pairs += 1;
        if last_key.as_slice() != key {
            self.other_keys += 1;
            last_key.clear();
            last_key.extend_from_slice(key);
        }
        if *last_block != block {
            self.other_blocks += 1;
            *last_block = block;
        }
    }
}

/// Runs of which each one met had the same chance to stay.
struct Chosen {
    runs: Vec<Run>,
    met: u64,
    most: usize,
}

impl Chosen {
    fn add(&mut self, mut run: Run, random: &mut impl FnMut() -> u64) {
        run.number = self.met;
        self.met += 1;
        if self.runs.len() < self.most {
            self.runs.push(run);
            return;
        }
        let at = usize::try_from(random() % self.met).unwrap_or(usize::MAX);
        if let Some(slot) = self.runs.get_mut(at) {
            *slot = run;
        }
    }
}

/// A look at an index, run by run, so that whoever looks can let others go in between.
pub struct IndexLook {
    seg: IndexSeg,
    snap: Snapshot,
    levels: u8,
    leaves: u64,
    /// Those that are still to be looked through.
    runs: std::vec::IntoIter<Run>,
    /// The run that goes on where the last one has ended.
    next_run: u64,
    counts: Counts,
}

impl IndexLook {
    /// Begins a look at about `leaves_max` leaves of the index; `random` gives any number.
    ///
    /// # Errors
    /// [`Error::ObjectGone`]; what reading blocks can fail with.
    pub async fn begin(
        ctx: &Ctx,
        snap: &Snapshot,
        seg: IndexSeg,
        leaves_max: u64,
        mut random: impl FnMut() -> u64 + Send,
    ) -> Result<IndexLook> {
        let cache = &snap.core().cache;
        let most = usize::try_from(leaves_max / u64::from(RUN_LEAVES)).unwrap_or(usize::MAX);
        let mut chosen = Chosen { runs: Vec::new(), met: 0, most: most.max(1) };
        let mut leaves = 0;
        let level = cache.read(ctx, seg.root, |b| seg.owns(b).then(|| rows::level(b))).await?;
        let levels = level.ok_or(Error::ObjectGone)?;
        if levels == 0 {
            leaves = 1;
            let (low, high) = (Bound::Unbounded, Bound::Unbounded);
            chosen.add(Run { number: 0, low, high, leaves }, &mut random);
        } else {
            let mut at = descend(ctx, cache, &seg, Seek::At(&[]), 1, &mut None).await?;
            loop {
                ctx.check_interrupt()?;
                let found = cache.read(ctx, at, |b| runs_of(&seg, b)).await?;
                let (runs, right) = found.ok_or(Error::ObjectGone)?;
                for run in runs {
                    leaves += run.leaves;
                    chosen.add(run, &mut random);
                }
                let Some(right) = right else { break };
                at = right;
            }
        }
        chosen.runs.sort_unstable_by_key(|run| run.number);
        let runs = chosen.runs.into_iter();
        let snap = snap.clone();
        Ok(IndexLook { seg, snap, levels, leaves, runs, next_run: 0, counts: Counts::default() })
    }

    /// Looks through the next run; `false`: there is none. `key_bytes` says how many of an entry's
    /// bytes are the key that is compared with the one before.
    ///
    /// # Errors
    /// As [`RangeScan::next_leaf`].
    pub async fn next_run(
        &mut self,
        ctx: &Ctx,
        mut key_bytes: impl FnMut(&[u8]) -> usize + Send,
    ) -> Result<bool> {
        let Some(run) = self.runs.next() else { return Ok(false) };
        if run.number != self.next_run {
            self.counts.before = None;
        }
        self.next_run = run.number + 1;
        self.counts.leaves += run.leaves;
        let mut scan = RangeScan::new(self.seg, self.snap.clone(), run.low, run.high, false);
        let counts = &mut self.counts;
        let mut each = |key: &[u8], rowid: Rowid| {
            let bytes = key_bytes(key).min(key.len());
            counts.add(&key[..bytes], rowid.dba);
        };
        while scan.next_leaf(ctx, &mut each).await? {}
        Ok(true)
    }

    /// What has been found out.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // of a large index an estimate
    pub fn figures(&self) -> Figures {
        let Counts { leaves, rows, pairs, other_keys, other_blocks, .. } = self.counts;
        let share = if leaves == 0 { 0.0 } else { self.leaves as f64 / leaves as f64 };
        let all = (rows as f64 * share).round();
        let changes = |seen: u64| match (all < 1.0, pairs) {
            (true, _) => 0.0,
            (false, 0) => 1.0,
            (false, pairs) => (1.0 + seen as f64 / pairs as f64 * (all - 1.0)).round(),
        };
        Figures {
            levels: self.levels,
            leaves: self.leaves,
            rows: all,
            keys: changes(other_keys),
            clustering: changes(other_blocks),
            sampled: rows,
        }
    }
}

/// The leaves below a branch in runs, and the branch to its right; `None`: it is no such branch.
fn runs_of(seg: &IndexSeg, b: &[u8]) -> Option<(Vec<Run>, Option<Dba>)> {
    if !seg.owns(b) || rows::level(b) != 1 {
        return None;
    }
    let count = rows::slot_count(b);
    let key = |pos: u16| rows::entry(b, pos).key.to_vec();
    let end = rows::high_key(b).map_or(Bound::Unbounded, |key| Bound::Excluded(key.to_vec()));
    let mut runs = Vec::with_capacity(usize::from(count.div_ceil(RUN_LEAVES)));
    let mut from = 0;
    while from < count {
        let to = count.min(from.saturating_add(RUN_LEAVES));
        let high = if to < count { Bound::Excluded(key(to)) } else { end.clone() };
        let (low, leaves) = (Bound::Included(key(from)), u64::from(to - from));
        runs.push(Run { number: 0, low, high, leaves });
        from = to;
    }
    let right = rows::high_key(b).is_some().then(|| rows::right(b));
    Some((runs, right))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(leaves: u64) -> Run {
        Run { number: 0, low: Bound::Unbounded, high: Bound::Unbounded, leaves }
    }

    #[test]
    fn all_runs_stay_as_long_as_there_is_room() {
        let mut chosen = Chosen { runs: Vec::new(), met: 0, most: 3 };
        let mut numbers = [5, 1].into_iter();
        let mut random = || numbers.next().expect("asked only where there is no room");
        for leaves in 1..=5 {
            chosen.add(run(leaves), &mut random);
        }
        // Of the fourth the number 5 % 4 puts it into the second place, of the fifth 1 % 5 too.
        let kept: Vec<(u64, u64)> =
            chosen.runs.iter().map(|run| (run.number, run.leaves)).collect();
        assert_eq!((kept, chosen.met), (vec![(0, 1), (4, 5), (2, 3)], 5));
    }

    #[test]
    fn keys_and_blocks_count_where_they_change() {
        let mut counts = Counts::default();
        for (key, block) in [("a", 1), ("a", 2), ("b", 2), ("c", 1), ("c", 1)] {
            counts.add(key.as_bytes(), Dba::new(4, block));
        }
        assert_eq!((counts.rows, counts.pairs), (5, 4));
        assert_eq!((counts.other_keys, counts.other_blocks), (2, 2));
        // Another run: what stood before its first row is not known.
        counts.before = None;
        counts.add(b"x", Dba::new(4, 9));
        assert_eq!((counts.rows, counts.pairs, counts.other_keys), (6, 4, 2));
    }
}
