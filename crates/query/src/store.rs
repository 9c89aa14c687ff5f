//! The kernel calls that reading needs, in one place.
//!
//! What it promises: nothing above this module depends on the shape of the kernel's scan types.

use crate::error::Result;
use block::Rowid;
use kernel::dict::{IndexDef, TableDef};
use kernel::table;
use kernel::txn::Snapshot;
use observe::Ctx;
use std::ops::Bound;

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

/// An index range in progress.
pub struct RangeScan(table::IndexScan);

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
    RangeScan(table::index_range(ctx, index, from, to, direction, snapshot))
}

impl RangeScan {
    /// The next entries; false at the end.
    ///
    /// # Errors
    /// The kernel's.
    pub async fn next_batch(&mut self, ctx: &Ctx, out: &mut Vec<(Vec<u8>, Rowid)>) -> Result<bool> {
        Ok(self.0.next_batch(ctx, out).await?)
    }
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

/// Reads the row with this key of a unique index.
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
) -> Result<Option<Rowid>> {
    Ok(table::index_lookup(ctx, table, index, key, snapshot, row).await?)
}
