//! Rows as of a snapshot: by address, by key, by key range, all.

use std::borrow::Cow;
use std::ops::Bound;
use std::sync::Arc;

use block::{Dba, MASTER_GROUP_BLOCKS, Rowid};
use env::BoxFuture;
use observe::{Ctx, Operation, Stat, Target};

use crate::btree::{self, IndexSeg, RangeScan, Sought};
use crate::dict::{IndexDef, IndexKind, TableDef};
use crate::error::{Error, Result};
use crate::heap::{self, HeapSeg};
use crate::row::key_prefix_end;
use crate::txn::{Core, Snapshot};

pub use crate::heap::{Granule, Scan};

/// Which end of a range comes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    Forward,
    Backward,
}

/// The table's heap as the heap module names it.
pub(super) fn heap_seg(def: &TableDef) -> HeapSeg {
    HeapSeg { obj: def.obj, header: def.header, birth: def.birth }
}

/// The index as the btree module names it.
#[must_use]
pub fn index_seg(index: &IndexDef) -> IndexSeg {
    IndexSeg {
        obj: index.obj,
        header: index.header,
        root: index.root,
        birth: index.birth,
        unique: index.unique,
        bitmap: index.kind == IndexKind::Bitmap,
    }
}

/// Puts the row at `rowid` into `out` (cleared first). `false`: the snapshot shows none there.
///
/// # Errors
/// [`Error::SnapshotTooOld`]; what reading blocks can fail with.
pub async fn fetch(
    ctx: &Ctx,
    def: &TableDef,
    rowid: Rowid,
    snap: &Snapshot,
    out: &mut Vec<u8>,
) -> Result<bool> {
    ctx.bump(Stat::TableFetchByRowid, 1);
    heap::fetch(ctx, &heap_seg(def), rowid, snap, out).await
}

/// Calls `each` with those of the rows at `slots` of one block that the snapshot shows, until it
/// returns false: what [`fetch`] does row by row, with one look at the block. The number is the
/// position among `slots`.
///
/// # Errors
/// As [`fetch`].
pub async fn fetch_block(
    ctx: &Ctx,
    def: &TableDef,
    dba: Dba,
    slots: &[u16],
    snap: &Snapshot,
    each: impl FnMut(usize, &[u8]) -> bool + Send,
) -> Result<()> {
    ctx.bump(Stat::TableFetchByRowid, slots.len() as u64);
    heap::fetch_block(ctx, &heap_seg(def), dba, slots, snap, each).await
}

/// Blocks below the high-water marks of the table and of its indexes, in the order of
/// [`TableDef::all_indexes`].
///
/// # Errors
/// [`Error::ObjectGone`]; what reading the segment headers can fail with.
pub async fn blocks(ctx: &Ctx, core: &Core, def: &TableDef) -> Result<(u32, Vec<u32>)> {
    let table = core.space.segment_info(ctx, def.header).await?.hwm;
    let mut indexes = Vec::with_capacity(def.all_indexes().count());
    for index in def.all_indexes() {
        indexes.push(core.space.segment_info(ctx, index.header).await?.hwm);
    }
    Ok((table, indexes))
}

/// A scan of no more blocks is not looked upon as one that may take long.
const SHORT_SCAN_BLOCKS: u64 = 4 * MASTER_GROUP_BLOCKS as u64;

/// A scan over all rows.
///
/// # Errors
/// What reading the segment header can fail with.
pub async fn scan(ctx: &Ctx, def: &TableDef, snap: &Snapshot) -> Result<Scan> {
    let scan = heap::scan(ctx, &heap_seg(def), snap).await?;
    let operation = long_scan(ctx, def, scan.blocks());
    Ok(scan.telling(operation))
}

/// A scan of so many blocks of the table that begins now, as an operation that may take long;
/// `None`: it does not.
#[must_use]
pub fn long_scan(ctx: &Ctx, def: &TableDef, blocks: u64) -> Option<Arc<Operation>> {
    (blocks > SHORT_SCAN_BLOCKS).then(|| {
        let target = Target::object(&def.schema, &def.name);
        Arc::new(Operation::begin(ctx, "Table Scan", target, (blocks, "Blocks")))
    })
}

/// Parts of a full scan that can be read independently; together they are the whole table.
///
/// # Errors
/// What reading the segment header can fail with.
pub async fn scan_granules(ctx: &Ctx, def: &TableDef, snap: &Snapshot) -> Result<Vec<Granule>> {
    heap::scan_granules(ctx, &heap_seg(def), snap).await
}

/// A scan over at most `blocks_max` blocks, chosen at random. Also how many they are, and of how
/// many.
///
/// # Errors
/// What reading the segment header can fail with.
pub async fn sample(
    ctx: &Ctx,
    def: &TableDef,
    snap: &Snapshot,
    blocks_max: u64,
) -> Result<(Scan, u64, u64)> {
    heap::sample(ctx, &heap_seg(def), snap, blocks_max).await
}

/// A scan over one granule.
#[must_use]
pub fn scan_granule(def: &TableDef, snap: &Snapshot, granule: Granule) -> Scan {
    heap::scan_granule(&heap_seg(def), snap, granule)
}

/// Where the row is whose entry in a unique index has exactly this key.
///
/// # Errors
/// [`Error::SnapshotTooOld`]; what reading blocks can fail with.
pub async fn index_rowid(
    ctx: &Ctx,
    index: &IndexDef,
    key: &[u8],
    snap: &Snapshot,
) -> Result<Option<Rowid>> {
    lookup(ctx, index, key, snap).await
}

/// The key as the index keeps it.
fn arranged<'k>(index: &IndexDef, key: &'k [u8]) -> Cow<'k, [u8]> {
    if index.kind != IndexKind::Reverse {
        return Cow::Borrowed(key);
    }
    let mut key = key.to_vec();
    index.arrange(&mut key);
    Cow::Owned(key)
}

async fn lookup(ctx: &Ctx, index: &IndexDef, key: &[u8], snap: &Snapshot) -> Result<Option<Rowid>> {
    let (seg, key) = (index_seg(index), arranged(index, key));
    match btree::lookup_now(ctx, snap, &seg, &key)? {
        Sought::Found(found) => Ok(found),
        Sought::Waits(begun) => btree::lookup_on(ctx, snap, &seg, &key, begun).await,
    }
}

/// What [`index_lookup_now`] came to.
pub enum Looked {
    /// Where the row is, if there is one: then it is in `row`.
    Done(Option<Rowid>),
    /// [`index_lookup_on`] goes on from here.
    Waits(LookedBegun),
}

/// How far a look-up has come that has something to wait for.
pub struct LookedBegun(Part);

enum Part {
    Index(btree::LookupBegun),
    Row(Rowid, heap::FetchBegun),
}

/// As [`index_lookup`] if that need not wait: no future is made for it, and most look-ups end here.
///
/// # Errors
/// As [`index_lookup`].
pub fn index_lookup_now(
    ctx: &Ctx,
    def: &TableDef,
    index: &IndexDef,
    key: &[u8],
    snap: &Snapshot,
    row: &mut Vec<u8>,
) -> Result<Looked> {
    let (seg, key) = (index_seg(index), arranged(index, key));
    match btree::lookup_now(ctx, snap, &seg, &key)? {
        Sought::Waits(begun) => Ok(Looked::Waits(LookedBegun(Part::Index(begun)))),
        Sought::Found(None) => {
            row.clear();
            Ok(Looked::Done(None))
        }
        Sought::Found(Some(rowid)) => {
            ctx.bump(Stat::TableFetchByRowid, 1);
            match heap::fetch_now(ctx, &heap_seg(def), rowid, snap, row)? {
                heap::Fetched::Done(true) => Ok(Looked::Done(Some(rowid))),
                heap::Fetched::Done(false) => Err(no_row(index, rowid)),
                heap::Fetched::Waits(begun) => {
                    Ok(Looked::Waits(LookedBegun(Part::Row(rowid, begun))))
                }
            }
        }
    }
}

/// Goes on with a look-up that waits. What it is made of is no part of its callers' types, which
/// are deep enough.
///
/// # Errors
/// As [`index_lookup`].
pub fn index_lookup_on<'a>(
    ctx: &'a Ctx,
    def: &'a TableDef,
    index: &'a IndexDef,
    key: &'a [u8],
    snap: &'a Snapshot,
    row: &'a mut Vec<u8>,
    begun: LookedBegun,
) -> BoxFuture<'a, Result<Option<Rowid>>> {
    env::boxed!(look_on(ctx, def, index, key, snap, row, begun))
}

async fn look_on(
    ctx: &Ctx,
    def: &TableDef,
    index: &IndexDef,
    key: &[u8],
    snap: &Snapshot,
    row: &mut Vec<u8>,
    begun: LookedBegun,
) -> Result<Option<Rowid>> {
    let (rowid, found) = match begun.0 {
        Part::Row(rowid, begun) => {
            (rowid, heap::fetch_on(ctx, &heap_seg(def), rowid, snap, row, begun).await?)
        }
        Part::Index(begun) => {
            let (seg, key) = (index_seg(index), arranged(index, key));
            let Some(rowid) = btree::lookup_on(ctx, snap, &seg, &key, begun).await? else {
                row.clear();
                return Ok(None);
            };
            (rowid, fetch(ctx, def, rowid, snap, row).await?)
        }
    };
    if found { Ok(Some(rowid)) } else { Err(no_row(index, rowid)) }
}

fn no_row(index: &IndexDef, rowid: Rowid) -> Error {
    let what = format!("index {} has an entry for row {rowid}, which is not there", index.name);
    Error::Corrupt { dba: rowid.dba, what }
}

/// The row whose entry in a unique index has exactly this key, into `row` (cleared first).
///
/// # Errors
/// [`Error::SnapshotTooOld`]; [`Error::Corrupt`] if the entry points to no row.
pub async fn index_lookup(
    ctx: &Ctx,
    def: &TableDef,
    index: &IndexDef,
    key: &[u8],
    snap: &Snapshot,
    row: &mut Vec<u8>,
) -> Result<Option<Rowid>> {
    match index_lookup_now(ctx, def, index, key, snap, row)? {
        Looked::Done(found) => Ok(found),
        Looked::Waits(begun) => index_lookup_on(ctx, def, index, key, snap, row, begun).await,
    }
}

/// A range of an index, entry by entry.
pub struct IndexScan(RangeScan);

impl IndexScan {
    /// Fills `out` with the next entries, a leaf's worth. `false`: the end, `out` is empty.
    ///
    /// # Errors
    /// [`Error::SnapshotTooOld`]; what reading blocks can fail with.
    pub async fn next_batch(&mut self, ctx: &Ctx, out: &mut Vec<(Vec<u8>, Rowid)>) -> Result<bool> {
        self.0.next_batch(ctx, out).await
    }

    /// Calls `each` for the next entries, a leaf's worth. `false`: the end.
    ///
    /// # Errors
    /// As [`IndexScan::next_batch`].
    pub async fn next_leaf(
        &mut self,
        ctx: &Ctx,
        each: impl FnMut(&[u8], Rowid) + Send,
    ) -> Result<bool> {
        self.0.next_leaf(ctx, each).await
    }

    /// How many rows the next entries are, a leaf's worth; `None`: the end.
    ///
    /// # Errors
    /// As [`IndexScan::next_batch`].
    pub async fn count_leaf(&mut self, ctx: &Ctx) -> Result<Option<u64>> {
        self.0.count_leaf(ctx).await
    }

    /// How many pieces of bitmaps it has read; 0 of an index that is none of bitmaps.
    #[must_use]
    pub fn pieces(&self) -> u64 {
        self.0.pieces()
    }
}

/// Entries whose key lies between the bounds. A bound is a prefix of whole columns and stands for
/// all keys that begin with it: `Included` takes them in, `Excluded` leaves them out. So `= 5` on
/// the first column is `Included(5)` to `Included(5)`, whatever else the index holds. Of an index
/// whose keys are turned round the range is all of it, in no order, or one whole key.
#[must_use]
pub fn index_range(
    _ctx: &Ctx,
    index: &IndexDef,
    low: Bound<&[u8]>,
    high: Bound<&[u8]>,
    direction: Direction,
    snap: &Snapshot,
) -> IndexScan {
    let turned;
    let (low, high) = match (index.kind, low, high) {
        (IndexKind::Reverse, Bound::Included(key), Bound::Included(to)) => {
            assert!(key == to, "a range of index {}, whose keys are turned round", index.name);
            let mut key = key.to_vec();
            index.arrange(&mut key);
            turned = key;
            (Bound::Included(&*turned), Bound::Included(&*turned))
        }
        (IndexKind::Reverse, low, high) => {
            let all = low == Bound::Unbounded && high == Bound::Unbounded;
            assert!(all, "a range of index {}, whose keys are turned round", index.name);
            (low, high)
        }
        _ => (low, high),
    };
    let after = |key: &[u8]| {
        let mut key = key.to_vec();
        key_prefix_end(&mut key);
        key
    };
    let low = match low {
        Bound::Unbounded => Bound::Unbounded,
        Bound::Included(key) => Bound::Included(key.to_vec()),
        Bound::Excluded(key) => Bound::Included(after(key)),
    };
    let high = match high {
        Bound::Unbounded => Bound::Unbounded,
        Bound::Included(key) => Bound::Excluded(after(key)),
        Bound::Excluded(key) => Bound::Excluded(key.to_vec()),
    };
    let backward = direction == Direction::Backward;
    IndexScan(RangeScan::new(index_seg(index), snap.clone(), low, high, backward))
}
