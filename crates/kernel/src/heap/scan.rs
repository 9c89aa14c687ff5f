//! Rows as of a snapshot: one by its address, or all of them.
//!
//! What a statement reads here is exactly what its snapshot shows: deleted rows and pieces are left
//! out, heads are followed to their pieces at the same snapshot.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use block::layout;
use block::{Dba, MASTER_GROUP_BLOCKS, Rowid, rows};
use observe::{Ctx, Operation};

use super::HeapSeg;
use super::chain::{self, Stub};
use crate::error::{Error, Result};
use crate::read::{self, Brought, Expect, Seen, YOUNGER};
use crate::txn::{Held, Snapshot, WorkMemory};

/// Blocks of one granule, at the most.
const GRANULE_BLOCKS: u32 = 4 * MASTER_GROUP_BLOCKS;

/// Whether a block belongs to the segment as it is now.
pub(super) fn is_own(b: &[u8], seg: &HeapSeg) -> bool {
    layout::kind(b) == layout::Kind::Heap
        && layout::obj(b) == seg.obj
        && layout::birth(b) == seg.birth
}

pub(super) async fn consistent<R>(
    ctx: &Ctx,
    seg: &HeapSeg,
    snap: &Snapshot,
    dba: Dba,
    f: impl FnOnce(&[u8]) -> R + Send,
) -> Result<Option<R>> {
    read::consistent(ctx, snap, dba, expect(seg), f).await
}

fn expect(seg: &HeapSeg) -> Expect {
    Expect { kind: layout::Kind::Heap, obj: seg.obj, birth: seg.birth }
}

/// Whether another transaction has changed the row since the snapshot. The caller has it locked.
pub(super) async fn changed_since(
    ctx: &Ctx,
    seg: &HeapSeg,
    snap: &Snapshot,
    rowid: Rowid,
) -> Result<bool> {
    match read::changed_since(ctx, snap, rowid.dba, expect(seg), rowid.slot).await {
        // What cannot be told counts as changed.
        Err(Error::SnapshotTooOld(_)) => Ok(true),
        other => other,
    }
}

/// What stands at a row's address.
enum Found {
    Nothing,
    Row,
    Head(Stub),
}

/// What a fetch came to that does not wait.
pub(crate) enum Fetched {
    /// Whether there is a row; if so, it is in `out`.
    Done(bool),
    /// [`fetch_on`] goes on from here.
    Waits(FetchBegun),
}

/// How far a fetch has come that has something to wait for.
pub(crate) enum FetchBegun {
    /// It looks at the block.
    Block(read::Begun),
    /// The row is in pieces, which are to be read.
    Pieces(Stub),
}

/// Looks for the row in its block.
fn found_at(slot: u16, b: &[u8], out: &mut Vec<u8>) -> Found {
    match rows::get(b, slot).filter(|r| r.flags & (rows::DELETED | rows::PIECE) == 0) {
        None => Found::Nothing,
        Some(row) => match Stub::of(&row) {
            Some(stub) => Found::Head(stub),
            None => {
                out.extend_from_slice(row.bytes);
                Found::Row
            }
        },
    }
}

/// As [`fetch`] if that need not wait: no future is made for it.
///
/// # Errors
/// [`Error::SnapshotTooOld`]; [`Error::ObjectGone`].
pub(crate) fn fetch_now(
    ctx: &Ctx,
    seg: &HeapSeg,
    rowid: Rowid,
    snap: &Snapshot,
    out: &mut Vec<u8>,
) -> Result<Fetched> {
    out.clear();
    let mut look = Some(|b: &[u8]| found_at(rowid.slot, b, out));
    let seen = read::consistent_now(ctx, snap, rowid.dba, expect(seg), &mut look)?;
    Ok(match seen {
        Seen::Waits(begun) => Fetched::Waits(FetchBegun::Block(begun)),
        Seen::Done(None | Some(Found::Nothing)) => Fetched::Done(false),
        Seen::Done(Some(Found::Row)) => Fetched::Done(true),
        Seen::Done(Some(Found::Head(stub))) => Fetched::Waits(FetchBegun::Pieces(stub)),
    })
}

/// Goes on with a fetch that waits.
///
/// # Errors
/// As [`fetch`].
pub(crate) async fn fetch_on(
    ctx: &Ctx,
    seg: &HeapSeg,
    rowid: Rowid,
    snap: &Snapshot,
    out: &mut Vec<u8>,
    begun: FetchBegun,
) -> Result<bool> {
    let stub = match begun {
        FetchBegun::Pieces(stub) => stub,
        FetchBegun::Block(begun) => {
            let look = |b: &[u8]| found_at(rowid.slot, b, out);
            let seen = read::consistent_on(ctx, snap, rowid.dba, expect(seg), look, begun).await?;
            match seen.unwrap_or(Found::Nothing) {
                Found::Nothing => return Ok(false),
                Found::Row => return Ok(true),
                Found::Head(stub) => stub,
            }
        }
    };
    chain::read_consistent(ctx, seg, snap, stub, out).await?;
    Ok(true)
}

/// The row at `rowid` as `snap` shows it, into `out` (cleared first). `false`: it shows none.
///
/// # Errors
/// [`Error::SnapshotTooOld`], [`Error::ObjectGone`]; what reading blocks can fail with.
pub async fn fetch(
    ctx: &Ctx,
    seg: &HeapSeg,
    rowid: Rowid,
    snap: &Snapshot,
    out: &mut Vec<u8>,
) -> Result<bool> {
    match fetch_now(ctx, seg, rowid, snap, out)? {
        Fetched::Done(found) => Ok(found),
        Fetched::Waits(begun) => env::boxed!(fetch_on(ctx, seg, rowid, snap, out, begun)).await,
    }
}

/// Calls `each` with the rows of one block at these slots that `snap` shows, in the slots' order,
/// until it returns false. The number is the position among `slots`. The block is read once.
///
/// # Errors
/// As [`fetch`].
pub async fn fetch_block(
    ctx: &Ctx,
    seg: &HeapSeg,
    dba: Dba,
    slots: &[u16],
    snap: &Snapshot,
    mut each: impl FnMut(usize, &[u8]) -> bool + Send,
) -> Result<()> {
    let mut at = 0;
    let mut long = Vec::new();
    while at < slots.len() {
        let each = &mut each;
        // Ends early at a row whose pieces have to be read once the latch is released.
        let seen = consistent(ctx, seg, snap, dba, |b| {
            for (i, slot) in slots.iter().enumerate().skip(at) {
                let row = rows::get(b, *slot);
                let row = row.filter(|r| r.flags & (rows::DELETED | rows::PIECE) == 0);
                match row.as_ref().map(|row| (row, Stub::of(row))) {
                    None => {}
                    Some((_, Some(stub))) => return (i + 1, Some(stub)),
                    Some((row, None)) if !each(i, row.bytes) => return (slots.len(), None),
                    Some((_, None)) => {}
                }
            }
            (slots.len(), None)
        });
        let Some((next, stub)) = seen.await? else { return Ok(()) };
        at = next;
        if let Some(stub) = stub {
            long.clear();
            chain::read_consistent(ctx, seg, snap, stub, &mut long).await?;
            if !each(at - 1, &long) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// A run of neighbouring blocks of a table, one part of a full scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Granule {
    pub first: Dba,
    pub blocks: u32,
}

/// A scan over all rows, block by block.
pub struct Scan {
    seg: HeapSeg,
    snap: Snapshot,
    granules: Vec<Granule>,
    /// Granule being read, and the next block in it.
    at: (usize, u32),
    /// Blocks of that granule that have been asked for ahead.
    ahead: u32,
    /// Copies of those of them that other instances change, in their order.
    brought: VecDeque<Brought>,
    /// What they take of the memory of whoever scans.
    held: Held,
    /// Heads met in the block at hand; their pieces are read once its latch is released.
    heads: Vec<(Rowid, Stub)>,
    row: Vec<u8>,
    /// Told how far the scan is, if it may take long.
    operation: Option<Arc<Operation>>,
    /// Blocks that have been begun with and that it has not been told of.
    untold: u32,
}

impl Scan {
    fn new(seg: &HeapSeg, snap: &Snapshot, granules: Vec<Granule>) -> Scan {
        Scan {
            seg: *seg,
            snap: snap.clone(),
            granules,
            at: (0, 0),
            ahead: 0,
            brought: VecDeque::new(),
            held: Held::of(snap.core().work_memory()),
            heads: Vec::new(),
            row: Vec::new(),
            operation: None,
            untold: 0,
        }
    }

    /// The same scan, which tells this operation how far it is.
    #[must_use]
    pub fn telling(mut self, operation: Option<Arc<Operation>>) -> Scan {
        self.operation = operation;
        self
    }

    /// The same scan, which takes what it holds ahead of this memory: a statement's.
    #[must_use]
    pub fn within(mut self, memory: Arc<dyn WorkMemory>) -> Scan {
        self.held = Held::of(Some(memory));
        self
    }

    /// Blocks that all of it reads.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.granules.iter().map(|granule| u64::from(granule.blocks)).sum()
    }

    /// What was begun with is done, and so many blocks come next.
    fn tell(&mut self, ctx: &Ctx, next: u32) {
        let done = std::mem::replace(&mut self.untold, next);
        if let Some(operation) = self.operation.as_ref().filter(|_| done > 0) {
            operation.advance(ctx, u64::from(done));
        }
    }

    /// Calls `each` for the rows of the next block that has been formatted. `false`: the end.
    ///
    /// # Errors
    /// [`Error::SnapshotTooOld`]; [`Error::ObjectGone`]; what reading blocks can fail with.
    pub async fn next_block(
        &mut self,
        ctx: &Ctx,
        mut each: impl FnMut(Rowid, &[u8]) + Send,
    ) -> Result<bool> {
        let Some(dba) = self.advance(ctx).await? else { return Ok(false) };
        self.heads.clear();
        let heads = &mut self.heads;
        let visit = |b: &[u8]| visit_rows(b, dba, heads, &mut each);
        match consistent(ctx, &self.seg, &self.snap, dba, visit).await {
            Ok(_) => {}
            Err(e @ Error::ObjectGone) => {
                let space = &self.snap.core().space;
                if space.is_raw(ctx, self.seg, dba).await? {
                    return Ok(true);
                }
                // It may have been formatted between the two looks; if it was not, it is not ours.
                let heads = &mut self.heads;
                let visit = |b: &[u8]| visit_rows(b, dba, heads, &mut each);
                consistent(ctx, &self.seg, &self.snap, dba, visit).await.map_err(|_| e)?;
            }
            Err(e) => return Err(e),
        }
        for (rowid, stub) in std::mem::take(&mut self.heads) {
            chain::read_consistent(ctx, &self.seg, &self.snap, stub, &mut self.row).await?;
            each(rowid, &self.row);
        }
        Ok(true)
    }

    /// Address of the next block, read ahead with its neighbours.
    async fn advance(&mut self, ctx: &Ctx) -> Result<Option<Dba>> {
        let Some(granule) = self.granules.get(self.at.0).copied() else {
            self.tell(ctx, 0);
            return Ok(None);
        };
        let (_, within) = self.at;
        let dba = Dba::new(granule.first.file, granule.first.block + within);
        if within >= self.ahead {
            let to_border = MASTER_GROUP_BLOCKS - dba.block % MASTER_GROUP_BLOCKS;
            let count = to_border.min(granule.blocks - within);
            self.tell(ctx, 0);
            let count = match count {
                0 | 1 => count,
                several => env::boxed!(self.look_ahead(ctx, dba, several)).await?,
            };
            self.ahead = within + count;
            self.untold = count;
        }
        while let Some(copy) = self.brought.pop_front_if(|copy| copy.dba <= dba) {
            self.held.let_go(copy.bytes());
            if copy.dba == dba {
                copy.keep(&self.snap);
            }
        }
        self.at.1 += 1;
        if self.at.1 >= granule.blocks {
            self.at = (self.at.0 + 1, 0);
            self.ahead = 0;
        }
        ctx.check_interrupt()?;
        Ok(Some(dba))
    }

    /// Reads blocks together. What another instance changes is not this one's to read: copies of it
    /// are asked for together. How many blocks that was done for.
    async fn look_ahead(&mut self, ctx: &Ctx, first: Dba, count: u32) -> Result<u32> {
        let cache = &self.snap.core().cache;
        if cache.is_alone() {
            cache.prefetch(ctx, self.seg.obj, first, count).await?;
            return Ok(count);
        }
        let (snap, obj) = (&self.snap, self.seg.obj);
        let run = read::bring_run(ctx, snap, obj, first, count, &mut self.held);
        let (brought, looked_at) = run.await?;
        self.brought = brought.into();
        Ok(looked_at)
    }
}

fn visit_rows(
    b: &[u8],
    dba: Dba,
    heads: &mut Vec<(Rowid, Stub)>,
    each: &mut impl FnMut(Rowid, &[u8]),
) {
    rows::each(b, |slot, row| {
        if row.flags & (rows::DELETED | rows::PIECE) != 0 {
            return;
        }
        let rowid = Rowid { dba, slot };
        match Stub::of(&row) {
            Some(stub) => heads.push((rowid, stub)),
            None => each(rowid, row.bytes),
        }
    });
}

/// A scan over the whole table.
///
/// # Errors
/// [`Error::ObjectGone`]: the table was dropped; what reading its header can fail with.
pub async fn scan(ctx: &Ctx, seg: &HeapSeg, snap: &Snapshot) -> Result<Scan> {
    Ok(Scan::new(seg, snap, scan_granules(ctx, seg, snap).await?))
}

/// Parts of a full scan, in address order; together they are the whole table.
///
/// # Errors
/// As [`scan`].
pub async fn scan_granules(ctx: &Ctx, seg: &HeapSeg, snap: &Snapshot) -> Result<Vec<Granule>> {
    let mut granules = Vec::new();
    // An empty segment has no block that would tell (hazard H20).
    if seg.birth > snap.scn() && !snap.made_itself(seg.obj, seg.birth) {
        return Err(Error::too_old(snap.scn(), YOUNGER));
    }
    for (first, count) in snap.core().space.scan_ranges(ctx, *seg).await? {
        let end = first.block + count;
        let mut at = first.block;
        while at < end {
            let blocks = (GRANULE_BLOCKS - at % GRANULE_BLOCKS).min(end - at);
            granules.push(Granule { first: Dba::new(first.file, at), blocks });
            at += blocks;
        }
    }
    Ok(granules)
}

/// A scan over at most `blocks_max` blocks, chosen at random, each with the same chance, in address
/// order. Also how many they are, and of how many.
///
/// # Errors
/// As [`scan`].
pub async fn sample(
    ctx: &Ctx,
    seg: &HeapSeg,
    snap: &Snapshot,
    blocks_max: u64,
) -> Result<(Scan, u64, u64)> {
    let all = scan_granules(ctx, seg, snap).await?;
    let total: u64 = all.iter().map(|granule| u64::from(granule.blocks)).sum();
    if total <= blocks_max {
        return Ok((Scan::new(seg, snap, all), total, total));
    }
    // Floyd's: as many draws as blocks, however many there are to choose from.
    let mut places = BTreeSet::new();
    for last in total - blocks_max..total {
        let place = ctx.env.random() % (last + 1);
        if !places.insert(place) {
            places.insert(last);
        }
    }
    let mut granules = all.into_iter();
    let (mut granule, mut before) = (granules.next(), 0u64);
    let mut chosen: Vec<Granule> = Vec::new();
    for place in places {
        while let Some(one) = granule.filter(|one| place - before >= u64::from(one.blocks)) {
            before += u64::from(one.blocks);
            granule = granules.next();
        }
        let Some(one) = granule else { break };
        let within = u32::try_from(place - before).unwrap_or(u32::MAX);
        let first = Dba::new(one.first.file, one.first.block + within);
        match chosen.last_mut() {
            // Neighbours are read at once.
            Some(last)
                if last.first.file == first.file
                    && last.first.block + last.blocks == first.block
                    && last.blocks < GRANULE_BLOCKS =>
            {
                last.blocks += 1;
            }
            _ => chosen.push(Granule { first, blocks: 1 }),
        }
    }
    Ok((Scan::new(seg, snap, chosen), blocks_max, total))
}

/// A scan over one granule.
#[must_use]
pub fn scan_granule(seg: &HeapSeg, snap: &Snapshot, granule: Granule) -> Scan {
    Scan::new(seg, snap, vec![granule])
}
