//! Where a segment's undo blocks come from: its own ring of extents, the disk group, the other
//! segments of the instance.
//!
//! Promises: with no room in the group, undo that no running transaction needs is given up, oldest
//! first, wherever in the instance it lies, before a change is refused for want of space. Must
//! never give up what rollback needs, nor let an extent belong to two segments at any crash point.

use std::sync::Arc;

use block::bytes::u16_of;
use block::op::{Op, patch_u16};
use block::redo::RecordKind;
use block::undo::{OFF_EXTENT_LIST, OFF_EXTENTS, UNDO_EXTENTS_MAX};
use block::{Scn, Xid};
use env::Micros;
use env::marks::{self, Mark};
use observe::Ctx;
use parking_lot::RwLock;

use super::segment::{Extent, Inner, Segment, UNDO_EXTENT_BLOCKS, UNDO_FILE, pack};
use crate::cache::Cache;
use crate::change::Change;
use crate::error::{Error, Result};
use crate::space::{self, Space};

/// A segment of so many blocks (400 MiB) grows for what its transactions still need, no longer to
/// keep what they have left: a load of many small transactions would else take the whole group.
const RETAINED_BLOCKS_MAX: u32 = 51_200;

/// What a segment needs to find a block for undo.
#[derive(Clone, Copy)]
pub struct Supply<'a> {
    pub cache: &'a Arc<Cache>,
    pub space: &'a Space,
    /// The segments this instance was born with: where there is no room they help each other out.
    pub own: &'a RwLock<Vec<Arc<Segment>>>,
    /// No snapshot is older.
    pub horizon: Scn,
    pub retention_us: u64,
}

impl Segment {
    /// Adds an extent, or with no room takes the oldest that no active transaction needs.
    pub(super) async fn extend(&self, ctx: &Ctx, supply: &Supply<'_>) -> Result<()> {
        if self.inner.lock().steal_instead() {
            return Ok(());
        }
        match self.reserve(ctx, supply.space).await {
            Ok(reserved) => {
                let found = reserved.extent();
                let op = self.link(found);
                // Taken and linked in one record: a crash loses no space.
                reserved.commit_and(ctx, &[&self.header], vec![(0, op)], || {
                    self.inner.lock().push(Extent {
                        first: found.first,
                        blocks: found.blocks,
                        active: 0,
                        last_scn: Scn::ZERO,
                        last_end: Micros(0),
                    });
                });
                Ok(())
            }
            Err(full @ Error::DiskFull { .. }) => {
                let stolen = self.inner.lock().steal();
                if stolen || self.borrow(ctx, supply).await? { Ok(()) } else { Err(full) }
            }
            Err(e) => Err(e),
        }
    }

    /// Space for the next extent: the more of them there are the larger it is, so that one
    /// transaction may change as much as the group holds. Where there is no run of that size a
    /// smaller one will do.
    async fn reserve<'a>(&self, ctx: &Ctx, space: &'a Space) -> Result<space::Reservation<'a>> {
        let mut blocks = extent_blocks(self.inner.lock().extents.len());
        let at_limit = || {
            let what = format!("undo segment {} is at its limit", self.usn);
            Error::DiskFull { what }
        };
        if self.is_at_limit() {
            return Err(at_limit());
        }
        loop {
            match space.reserve(ctx, UNDO_FILE, blocks).await {
                // Others may have been quicker; while space is reserved nobody adds one.
                Ok(_) if self.is_at_limit() => return Err(at_limit()),
                Err(Error::DiskFull { .. }) if blocks > UNDO_EXTENT_BLOCKS => blocks /= 8,
                other => return other,
            }
        }
    }

    fn is_at_limit(&self) -> bool {
        self.inner.lock().extents.len() >= UNDO_EXTENTS_MAX
    }

    /// The header's change that adds an extent to the list. Only under the lock of the space books.
    fn link(&self, space::Extent { first, blocks }: space::Extent) -> Op {
        let at = self.inner.lock().extents.len();
        let list = u16_of(OFF_EXTENT_LIST + 8 * at);
        Op::Patch(vec![
            patch_u16(u16_of(OFF_EXTENTS), u16_of(at + 1)),
            (list, pack(first, blocks).to_le_bytes().to_vec()),
        ])
    }

    /// Takes over an extent of another segment of the instance, in which none of its running
    /// transactions has anything. `false`: there is none.
    async fn borrow(&self, ctx: &Ctx, supply: &Supply<'_>) -> Result<bool> {
        supply.cache.log.throttle(ctx).await?;
        let _books = supply.space.lock(ctx, UNDO_FILE).await?;
        if self.is_at_limit() {
            return Ok(false);
        }
        let mut lenders = supply.own.read().clone();
        lenders.retain(|s| s.usn != self.usn);
        // The one whose last transaction there ended first.
        lenders.sort_by_cached_key(|s| s.inner.lock().lendable().map(|e| e.last_end));
        for lender in lenders {
            let (extent, left) = {
                let mut inner = lender.inner.lock();
                let Some(extent) = inner.lend() else { continue };
                (extent, inner.extents.len())
            };
            let Extent { first, blocks, .. } = extent;
            let mut change = Change::begin(supply.cache, &[&self.header, &lender.header]);
            change.push(0, self.link(space::Extent { first, blocks }));
            let count = patch_u16(u16_of(OFF_EXTENTS), u16_of(left));
            change.push(1, Op::Patch(vec![count]));
            change.commit(ctx, Xid::NONE, RecordKind::Change);
            self.inner.lock().push(extent);
            return Ok(true);
        }
        Ok(false)
    }
}

/// Blocks of the extent that a segment with `count` extents gets next.
fn extent_blocks(count: usize) -> u32 {
    match count {
        0..64 => UNDO_EXTENT_BLOCKS,
        64..192 => 8 * UNDO_EXTENT_BLOCKS,
        _ => 64 * UNDO_EXTENT_BLOCKS,
    }
}

impl Inner {
    /// Adds an extent and goes on in it.
    fn push(&mut self, extent: Extent) {
        self.extents.push(extent);
        let blocks = self.extents.iter().map(|e| u64::from(e.blocks)).sum();
        self.blocks_most = self.blocks_most.max(blocks);
        self.current = self.extents.len() - 1;
        self.next_block = 0;
    }

    /// Steals where the segment is large enough that it need not grow for retention's sake.
    fn steal_instead(&mut self) -> bool {
        let blocks: u32 = self.extents.iter().map(|e| e.blocks).sum();
        blocks >= RETAINED_BLOCKS_MAX && self.steal()
    }

    /// Enters the extent whose transactions ended first, retention or not.
    fn steal(&mut self) -> bool {
        if !self.left_by_crash.is_empty() {
            return false;
        }
        let idle = (0..self.extents.len()).filter(|&i| self.extents[i].active == 0);
        match idle.min_by_key(|&i| self.extents[i].last_end) {
            Some(i) => {
                marks::reached(Mark::UndoReused);
                self.enter(i);
                true
            }
            None => false,
        }
    }

    /// The extent another segment may have: the last, as cursors know the others by their places.
    fn lendable(&self) -> Option<Extent> {
        let last = *self.extents.last()?;
        (last.active == 0 && self.left_by_crash.is_empty()).then_some(last)
    }

    fn lend(&mut self) -> Option<Extent> {
        let last = self.lendable()?;
        self.extents.pop();
        self.lent += 1;
        let left = self.extents.len();
        self.pool.retain(|&(_, e)| e != left);
        self.spares.retain(|&(_, e)| e != left);
        // As after loading: the next block is found when the oldest extent may be entered.
        self.current = self.current.min(left);
        Some(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_has_room_for_a_large_transaction() {
        let blocks: u64 = (0..UNDO_EXTENTS_MAX).map(|n| u64::from(extent_blocks(n))).sum();
        assert!(blocks * 8192 > 10 << 30, "{blocks} blocks at most");
    }
}
