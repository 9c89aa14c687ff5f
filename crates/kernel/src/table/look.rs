//! What there is to know of an index as a whole: for `ANALYZE`.
//!
//! What it promises: rows, keys and blocks are counted as the entries that the snapshot shows name
//! them. What it must never do: read the table.

use observe::Ctx;

use super::query::index_seg;
use crate::btree;
use crate::dict::{IndexDef, IndexKind, IndexStats, TableDef};
use crate::error::Result;
use crate::row::{ColType, decode_ordered_prefix};
use crate::txn::Snapshot;

/// Bytes of the rowid behind a key.
const ROWID_BYTES: usize = 8;

/// Where the key ends in an entry.
enum KeyEnd {
    /// Every entry has a key of its own.
    Unique,
    /// Before the rowid.
    BeforeRowid,
    /// Behind the columns of these types; included ones follow.
    Behind(Vec<ColType>),
    /// Equal keys are not side by side.
    Unknown,
}

/// A look along the leaves of an index.
pub struct IndexLook<'a> {
    index: &'a IndexDef,
    end: KeyEnd,
    look: btree::IndexLook,
}

/// Begins a look at about `leaves_max` leaves of an index of the table; `random` gives any number.
///
/// # Errors
/// [`crate::error::Error::ObjectGone`]; what reading blocks can fail with.
pub async fn look_at_index<'a>(
    ctx: &Ctx,
    def: &TableDef,
    index: &'a IndexDef,
    snap: &Snapshot,
    leaves_max: u64,
    random: impl FnMut() -> u64 + Send,
) -> Result<IndexLook<'a>> {
    let end = match (index.unique, index.included.stored, index.kind) {
        (true, ..) => KeyEnd::Unique,
        (false, false, _) => KeyEnd::BeforeRowid,
        (false, true, IndexKind::Tree) => {
            let columns = index.key_columns().iter();
            KeyEnd::Behind(columns.map(|column| index.part_type(def, *column)).collect())
        }
        (false, true, _) => KeyEnd::Unknown,
    };
    let seg = index_seg(index);
    let look = btree::IndexLook::begin(ctx, snap, seg, leaves_max, random).await?;
    Ok(IndexLook { index, end, look })
}

impl IndexLook<'_> {
    /// Looks through some leaves; `false`: all are done.
    ///
    /// # Errors
    /// [`crate::error::Error::SnapshotTooOld`]; what reading blocks can fail with.
    pub async fn go_on(&mut self, ctx: &Ctx) -> Result<bool> {
        let (end, orders) = (&self.end, self.index.orders());
        let mut values = Vec::new();
        let key_bytes = |key: &[u8]| match end {
            KeyEnd::Unique | KeyEnd::Unknown => key.len(),
            KeyEnd::BeforeRowid => key.len().saturating_sub(ROWID_BYTES),
            KeyEnd::Behind(types) => {
                values.clear();
                let rest = decode_ordered_prefix(types, orders, key, &mut values);
                rest.map_or(key.len(), |rest| key.len() - rest.len())
            }
        };
        self.look.next_run(ctx, key_bytes).await
    }

    /// What it has found out, at this time, µs of the wall clock.
    #[must_use]
    pub fn stats(&self, at_us: i64) -> IndexStats {
        let found = self.look.figures();
        let keys = match self.end {
            KeyEnd::Unique => Some(found.rows),
            KeyEnd::BeforeRowid | KeyEnd::Behind(_) => Some(found.keys),
            KeyEnd::Unknown => None,
        };
        IndexStats {
            index: self.index.obj,
            levels: u64::from(found.levels),
            leaves: found.leaves,
            rows: found.rows,
            keys,
            clustering: found.clustering,
            sampled: found.sampled,
            at_us,
        }
    }
}
