//! The kernel calls that reading needs, in one place.
//!
//! What it promises: nothing above this module depends on the shape of the kernel's scan types.

use crate::error::Result;
use crate::explain::{PartBegun, SharedActual};
use block::{Dba, Rowid};
use kernel::dict::{IndexDef, TableDef};
use kernel::table;
use kernel::txn::{COPIES_MAX, Snapshot, WorkMemory};
use observe::{Ctx, Operation};
use std::ops::Bound;
use std::sync::Arc;

/// A full scan in progress.
pub struct FullScan(table::Scan);

/// Begins a full scan.
///
/// # Errors
/// The kernel's.
pub async fn full_scan(ctx: &Ctx, table: &TableDef, snapshot: &Snapshot) -> Result<FullScan> {
    Ok(FullScan(table::scan(ctx, table, snapshot).await?))
}

impl FullScan {
    /// The same, which takes what it holds ahead of this memory.
    #[must_use]
    pub fn within(self, memory: Arc<dyn WorkMemory>) -> FullScan {
        FullScan(self.0.within(memory))
    }

    /// Visits the rows of the next block; false at the end.
    ///
    /// # Errors
    /// The kernel's.
    pub async fn next_block(
        &mut self,
        ctx: &Ctx,
        visit: impl FnMut(Rowid, &[u8]) + Send,
    ) -> Result<bool> {
        Ok(self.0.next_block(ctx, visit).await?)
    }
}

pub use kernel::table::{Granule, long_scan};

/// Parts of a full scan, which can be read apart.
///
/// # Errors
/// The kernel's.
pub async fn granules(ctx: &Ctx, table: &TableDef, snapshot: &Snapshot) -> Result<Vec<Granule>> {
    Ok(table::scan_granules(ctx, table, snapshot).await?)
}

/// Begins to read one of them. `operation`: what reading all of them is, if it may take long.
#[must_use]
pub fn granule_scan(
    table: &TableDef,
    snapshot: &Snapshot,
    granule: Granule,
    operation: Option<Arc<Operation>>,
) -> FullScan {
    FullScan(table::scan_granule(table, snapshot, granule).telling(operation))
}

/// A set of rows, by what [`bit`] makes of their addresses.
pub type RowSet = roaring::RoaringTreemap;

/// Bits of a number that are a slot's: no block has so many rows.
const SLOT_BITS: u32 = 9;
const _: () = {
    let least = 2 + block::rows::ROW_HEADER_BYTES + block::rows::ROW_CAPACITY_MIN;
    assert!(block::BLOCK_BYTES / least <= 1 << SLOT_BITS);
};

/// A row's number in a set: in the order of addresses, and so that the rows of many blocks lie in
/// one piece of it.
fn bit(rowid: Rowid) -> u64 {
    (rowid.dba.to_u64() << SLOT_BITS) | u64::from(rowid.slot)
}

fn rowid(bit: u64) -> Rowid {
    #[allow(clippy::cast_possible_truncation)] // masked
    let slot = (bit & ((1 << SLOT_BITS) - 1)) as u16;
    Rowid { dba: Dba::from_u64(bit >> SLOT_BITS), slot }
}

/// An index range in progress, or a set of rows that is gone through.
pub struct RangeScan(Found);

enum Found {
    Index(Box<table::IndexScan>),
    Rows(Box<roaring::treemap::IntoIter>),
}

/// Rows of a set that make a batch.
const SET_ROWS: usize = 1024;

/// Begins to go through a set of rows.
#[must_use]
pub fn row_scan(rows: RowSet) -> RangeScan {
    RangeScan(Found::Rows(Box::new(rows.into_iter())))
}

/// Begins to read an index between two keys, from the greater one if `backward`.
#[must_use]
pub fn range_scan(
    ctx: &Ctx,
    index: &IndexDef,
    from: Bound<&[u8]>,
    to: Bound<&[u8]>,
    backward: bool,
    snapshot: &Snapshot,
) -> RangeScan {
    let direction = if backward { table::Direction::Backward } else { table::Direction::Forward };
    let scan = table::index_range(ctx, index, from, to, direction, snapshot);
    RangeScan(Found::Index(Box::new(scan)))
}

impl RangeScan {
    /// The next entries, a leaf's worth; false at the end.
    ///
    /// # Errors
    /// The kernel's.
    pub async fn next_batch(&mut self, ctx: &Ctx, out: &mut Entries) -> Result<bool> {
        out.clear();
        let with_keys = out.with_keys;
        let scan = match &mut self.0 {
            Found::Index(scan) => scan,
            Found::Rows(rows) => {
                out.rowids.extend(rows.take(SET_ROWS).map(rowid));
                return Ok(!out.rowids.is_empty());
            }
        };
        let more = scan.next_leaf(ctx, |key, rowid| {
            out.rowids.push(rowid);
            if with_keys {
                out.keys.extend_from_slice(key);
                out.ends.push(out.keys.len());
            }
        });
        Ok(more.await?)
    }

    /// The same; `part`: where it is told what that took.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) async fn next_watched(
        &mut self,
        ctx: &Ctx,
        out: &mut Entries,
        part: Option<&SharedActual>,
    ) -> Result<bool> {
        let Some(part) = part else { return self.next_batch(ctx, out).await };
        let (begun, before) = (PartBegun::again(part, ctx), self.pieces());
        let more = self.next_batch(ctx, out).await?;
        let rows = if more { out.rowids.len() as u64 } else { 0 };
        begun.end_pieces(ctx, rows, self.pieces() - before);
        Ok(more)
    }

    /// The same as [`RangeScan::next_count`]; `part`: where it is told what that took.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) async fn count_watched(
        &mut self,
        ctx: &Ctx,
        part: Option<&SharedActual>,
    ) -> Result<Option<u64>> {
        let Some(part) = part else { return self.next_count(ctx).await };
        let (begun, before) = (PartBegun::again(part, ctx), self.pieces());
        let count = self.next_count(ctx).await?;
        begun.end_pieces(ctx, count.unwrap_or(0), self.pieces() - before);
        Ok(count)
    }

    /// How many pieces of bitmaps have been read.
    pub(crate) fn pieces(&self) -> u64 {
        match &self.0 {
            Found::Index(scan) => scan.pieces(),
            Found::Rows(_) => 0,
        }
    }

    /// How many the next entries are, a leaf's worth; `None`: the end.
    ///
    /// # Errors
    /// The kernel's.
    pub async fn next_count(&mut self, ctx: &Ctx) -> Result<Option<u64>> {
        match &mut self.0 {
            Found::Index(scan) => Ok(scan.count_leaf(ctx).await?),
            Found::Rows(rows) => {
                let left = rows.size_hint().0 as u64;
                **rows = RowSet::new().into_iter();
                Ok((left > 0).then_some(left))
            }
        }
    }

    /// Adds the rows of the next entries to a set; false at the end.
    ///
    /// # Errors
    /// The kernel's.
    pub async fn add_to(&mut self, ctx: &Ctx, rows: &mut RowSet) -> Result<bool> {
        let Found::Index(scan) = &mut self.0 else { return Ok(false) };
        let more = scan.next_leaf(ctx, |_, rowid| {
            rows.insert(bit(rowid));
        });
        Ok(more.await?)
    }
}

/// Entries of an index: addresses, and keys if they are wanted.
#[derive(Default)]
pub struct Entries {
    with_keys: bool,
    rowids: Vec<Rowid>,
    keys: Vec<u8>,
    /// Where each key ends.
    ends: Vec<usize>,
}

impl Entries {
    /// None yet; `with_keys` if their keys will be asked for.
    #[must_use]
    pub fn new(with_keys: bool) -> Entries {
        Entries { with_keys, ..Entries::default() }
    }

    fn clear(&mut self) {
        self.rowids.clear();
        self.keys.clear();
        self.ends.clear();
    }

    #[must_use]
    pub fn rowids(&self) -> &[Rowid] {
        &self.rowids
    }

    /// The key of an entry. Empty if keys were not wanted.
    #[must_use]
    pub fn key(&self, at: usize) -> &[u8] {
        let Some(end) = self.ends.get(at) else { return &[] };
        let begin = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.keys[begin..*end]
    }

    /// The slots of the entries from `from` on that point to rows of the same block, at most
    /// `limit` of them, and the block.
    pub fn run(&self, from: usize, limit: usize, slots: &mut Vec<u16>) -> Option<Dba> {
        let dba = self.rowids.get(from)?.dba;
        slots.clear();
        let same = self.rowids[from..].iter().take(limit).take_while(|rowid| rowid.dba == dba);
        slots.extend(same.map(|rowid| rowid.slot));
        Some(dba)
    }
}

/// Has the blocks that the entries from `at` on point to brought here together, as many as a
/// snapshot keeps, if other instances change them; how far that reaches. No further than
/// `rows_max` entries.
///
/// # Errors
/// Interrupted.
pub async fn bring(
    ctx: &Ctx,
    snapshot: &Snapshot,
    batch: &Entries,
    at: usize,
    rows_max: usize,
) -> Result<usize> {
    let rowids = &batch.rowids()[at..];
    let rowids = &rowids[..rowids.len().min(rows_max)];
    if snapshot.core().cache.is_alone() {
        return Ok(at + rowids.len());
    }
    let mut dbas: Vec<Dba> = Vec::with_capacity(COPIES_MAX);
    let mut taken = 0;
    for rowid in rowids {
        if !dbas.contains(&rowid.dba) {
            if dbas.len() == COPIES_MAX {
                break;
            }
            dbas.push(rowid.dba);
        }
        taken += 1;
    }
    kernel::read::bring(ctx, snapshot, &dbas).await?;
    Ok(at + taken)
}

/// Calls `each` with those of the rows at `slots` of a block that the snapshot shows, until it
/// returns false.
///
/// # Errors
/// The kernel's.
pub async fn fetch_block(
    ctx: &Ctx,
    table: &TableDef,
    dba: Dba,
    slots: &[u16],
    snapshot: &Snapshot,
    each: impl FnMut(usize, &[u8]) -> bool + Send,
) -> Result<()> {
    Ok(table::fetch_block(ctx, table, dba, slots, snapshot, each).await?)
}

/// Reads the row at an address; false if the snapshot sees none.
///
/// # Errors
/// The kernel's.
pub async fn fetch(
    ctx: &Ctx,
    table: &TableDef,
    rowid: Rowid,
    snapshot: &Snapshot,
    row: &mut Vec<u8>,
) -> Result<bool> {
    Ok(table::fetch(ctx, table, rowid, snapshot, row).await?)
}

/// Reads the row with this key of a unique index; `part`: where it is told what the index took.
///
/// # Errors
/// The kernel's.
pub async fn unique_lookup(
    ctx: &Ctx,
    table: &TableDef,
    index: &IndexDef,
    key: &[u8],
    snapshot: &Snapshot,
    row: &mut Vec<u8>,
    part: Option<&SharedActual>,
) -> Result<Option<Rowid>> {
    if let Some(part) = part {
        let begun = PartBegun::start(part, ctx);
        let found = table::index_rowid(ctx, index, key, snapshot).await?;
        begun.end(ctx, u64::from(found.is_some()));
        let Some(rowid) = found else { return Ok(None) };
        if fetch(ctx, table, rowid, snapshot, row).await? {
            return Ok(Some(rowid));
        }
        // It is not there, which the whole look-up says in its words.
    }
    Ok(table::index_lookup(ctx, table, index, key, snapshot, row).await?)
}
