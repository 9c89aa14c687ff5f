//! Reads: one key, or a range in either direction, as of a snapshot.
//!
//! Each leaf is read consistent by itself; its bounds and links are those of the block as it stands
//! now, so nothing is lost or met twice when leaves split under a scan: the scan goes on from a
//! key, never from a position. A leaf from which a delete was purged that the snapshot must not see
//! is `snapshot too old` (hazard H11), never a missing row.

use std::ops::Bound;

use block::layout::Kind;
use block::piece::{END_BYTES, Piece};
use block::rows::{self, Entry};
use block::{Dba, Rowid};
use env::BoxFuture;
use observe::Ctx;

use super::descend::{Seek, Way, descend_on, leaf_now};
use super::seg::IndexSeg;
use crate::error::{Error, Result};
use crate::read::{self, Expect, Seen};
use crate::txn::Snapshot;

/// What one look at a leaf found.
enum Look<T> {
    Found(T),
    /// The key is right of here.
    Right(Dba),
    /// Not the leaf: descend again.
    Lost,
    TooOld,
}

/// How far the look-up of a key has come that has something to wait for.
pub struct LookupBegun {
    way: Way,
    /// The leaf that it is at, if it has come so far, and what it has found there if it has looked.
    leaf: Option<(Dba, Option<read::Begun>)>,
}

impl LookupBegun {
    /// Nothing has been looked at yet; `hint` is where the leaf probably is.
    fn at(seg: &IndexSeg, hint: Option<Dba>) -> LookupBegun {
        LookupBegun { way: Way::from_root(seg), leaf: hint.map(|leaf| (leaf, None)) }
    }
}

/// What the look-up of a key came to that does not wait.
pub enum Sought {
    Found(Option<Rowid>),
    /// [`lookup_on`] goes on from here.
    Waits(LookupBegun),
}

/// The row that a leaf's live entry of exactly this key points to.
fn row_of(key: &[u8], b: &[u8]) -> Option<Rowid> {
    let entry = rows::search(b, key).ok().map(|pos| rows::entry(b, pos));
    entry.filter(|e| !e.is_deleted()).map(|e| Rowid::from_u64(e.value))
}

/// As [`lookup`] if that need not wait: no future is made for it.
///
/// # Errors
/// [`Error::SnapshotTooOld`]; [`Error::ObjectGone`].
pub fn lookup_now(ctx: &Ctx, snap: &Snapshot, seg: &IndexSeg, key: &[u8]) -> Result<Sought> {
    let (cache, seek, expect) = (&snap.core().cache, Seek::At(key), leaf_of(seg));
    let mut way = Way::from_root(seg);
    loop {
        let Some(mut leaf) = leaf_now(ctx, cache, seg, seek, &mut way)? else {
            return Ok(Sought::Waits(LookupBegun { way, leaf: None }));
        };
        loop {
            let mut f = Some(|b: &[u8]| row_of(key, b));
            let mut looks = Some(|b: &[u8]| look(snap, seek, b, &mut f));
            match read::consistent_now(ctx, snap, leaf, expect, &mut looks)? {
                Seen::Waits(begun) => {
                    let leaf = Some((leaf, Some(begun)));
                    return Ok(Sought::Waits(LookupBegun { way, leaf }));
                }
                Seen::Done(seen) => match seen.unwrap_or(Look::Lost) {
                    Look::Found(out) => return Ok(Sought::Found(out)),
                    Look::Right(right) => leaf = right,
                    Look::Lost => break,
                    Look::TooOld => return Err(purged(snap)),
                },
            }
        }
        way.again(seg)?;
    }
}

/// Goes on with a look-up that waits. What it is made of is no part of its callers' types, which
/// are deep enough.
///
/// # Errors
/// As [`lookup`].
pub fn lookup_on<'a>(
    ctx: &'a Ctx,
    snap: &'a Snapshot,
    seg: &'a IndexSeg,
    key: &'a [u8],
    begun: LookupBegun,
) -> BoxFuture<'a, Result<Option<Rowid>>> {
    env::boxed!(on_leaf(ctx, snap, seg, Seek::At(key), begun, move |b| row_of(key, b)))
}

/// The row that the live entry of exactly this key points to.
///
/// # Errors
/// [`Error::SnapshotTooOld`]; [`Error::ObjectGone`]; what reading blocks can fail with.
pub async fn lookup(
    ctx: &Ctx,
    snap: &Snapshot,
    seg: &IndexSeg,
    key: &[u8],
) -> Result<Option<Rowid>> {
    match lookup_now(ctx, snap, seg, key)? {
        Sought::Found(found) => Ok(found),
        Sought::Waits(begun) => lookup_on(ctx, snap, seg, key, begun).await,
    }
}

fn leaf_of(seg: &IndexSeg) -> Expect {
    Expect { kind: Kind::Leaf, obj: seg.obj, birth: seg.birth }
}

fn purged(snap: &Snapshot) -> Error {
    Error::too_old(snap.scn(), "deleted index entries were purged")
}

/// Runs `f` on the leaf that `seek` wants, as of the snapshot, from where a look-up has come to.
async fn on_leaf<T: Send>(
    ctx: &Ctx,
    snap: &Snapshot,
    seg: &IndexSeg,
    seek: Seek<'_>,
    begun: LookupBegun,
    f: impl FnOnce(&[u8]) -> T + Send,
) -> Result<T> {
    let (cache, expect) = (&snap.core().cache, leaf_of(seg));
    let mut f = Some(f);
    let LookupBegun { mut way, leaf: mut first } = begun;
    loop {
        let (mut leaf, mut seen) = match first.take() {
            Some(begun) => begun,
            None => (descend_on(ctx, cache, seg, seek, 0, &mut None, &mut way).await?, None),
        };
        loop {
            let look = |b: &[u8]| look(snap, seek, b, &mut f);
            let found = match seen.take() {
                Some(seen) => read::consistent_on(ctx, snap, leaf, expect, look, seen).await?,
                None => read::consistent(ctx, snap, leaf, expect, look).await?,
            };
            match found.unwrap_or(Look::Lost) {
                Look::Found(out) => return Ok(out),
                Look::Right(right) => leaf = right,
                Look::Lost => break,
                Look::TooOld => return Err(purged(snap)),
            }
        }
        way.again(seg)?;
    }
}

fn look<T, F: FnOnce(&[u8]) -> T>(
    snap: &Snapshot,
    seek: Seek<'_>,
    b: &[u8],
    f: &mut Option<F>,
) -> Look<T> {
    if seek.is_before(b) {
        return Look::Lost;
    }
    if seek.is_beyond(b) {
        return Look::Right(rows::right(b));
    }
    if rows::purged_scn(b) > snap.scn() {
        return Look::TooOld;
    }
    f.take().map_or(Look::Lost, |f| Look::Found(f(b)))
}

/// Where a scan goes on.
enum At {
    Start,
    /// Forward: entries from this key on; probably in this leaf.
    From(Vec<u8>, Dba),
    /// Backward: entries below this key.
    Below(Vec<u8>),
    End,
}

/// A scan over a range of keys, leaf by leaf.
pub struct RangeScan {
    seg: IndexSeg,
    snap: Snapshot,
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
    backward: bool,
    at: At,
    /// Pieces of bitmaps that have been read.
    pieces: u64,
}

/// What a leaf says about where to go on.
struct Rest {
    entries: u32,
    at: At,
}

impl RangeScan {
    /// Entries between the bounds, ascending, or descending if `backward`. Bounds compare with
    /// whole entry keys, in a non-unique index with the rowid at their end.
    #[must_use]
    pub fn new(
        seg: IndexSeg,
        snap: Snapshot,
        low: Bound<Vec<u8>>,
        high: Bound<Vec<u8>>,
        backward: bool,
    ) -> RangeScan {
        RangeScan { seg, snap, low, high, backward, at: At::Start, pieces: 0 }
    }

    /// The snapshot the scan reads at.
    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        &self.snap
    }

    /// How many pieces of bitmaps it has read; 0 of an index that is none of bitmaps.
    #[must_use]
    pub fn pieces(&self) -> u64 {
        self.pieces
    }

    /// Calls `each` for the live entries of the next leaf that has some in the range. `false`: the
    /// range is at its end, `each` was not called.
    ///
    /// # Errors
    /// As [`lookup`]. The scan may be asked again after an interrupt.
    pub async fn next_leaf(
        &mut self,
        ctx: &Ctx,
        mut each: impl FnMut(&[u8], Rowid) + Send,
    ) -> Result<bool> {
        let (bitmap, backward, mut pieces) = (self.seg.bitmap, self.backward, 0);
        let more = self.visit_leaf(ctx, |entry| {
            let rows = tell(bitmap, entry, backward, &mut each);
            pieces += u64::from(bitmap && rows > 0);
            rows
        });
        let more = more.await?;
        self.pieces += pieces;
        Ok(more)
    }

    /// How many rows the live entries of the next leaf that has some in the range are; `None`: the
    /// range is at its end.
    ///
    /// # Errors
    /// As [`RangeScan::next_leaf`].
    pub async fn count_leaf(&mut self, ctx: &Ctx) -> Result<Option<u64>> {
        let (bitmap, mut count, mut pieces) = (self.seg.bitmap, 0, 0);
        let more = self.visit_leaf(ctx, |entry| {
            let rows = match bitmap {
                _ if entry.is_deleted() => 0,
                true => Piece::of(entry).map_or(0, |piece| piece.count),
                false => 1,
            };
            count += rows;
            pieces += u64::from(bitmap && rows > 0);
            u32::from(rows > 0)
        });
        let more = more.await?;
        self.pieces += pieces;
        Ok(more.then_some(count))
    }

    /// `visit` says how many rows an entry is.
    async fn visit_leaf(
        &mut self,
        ctx: &Ctx,
        mut visit: impl FnMut(&Entry<'_>) -> u32 + Send,
    ) -> Result<bool> {
        while !matches!(self.at, At::End) {
            ctx.check_interrupt()?;
            let rest = if self.backward {
                self.leaf_backward(ctx, &mut visit).await?
            } else {
                self.leaf_forward(ctx, &mut visit).await?
            };
            self.at = rest.at;
            if rest.entries > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Fills `out` with the entries of the next leaf that has some. `false`: the end, `out` is
    /// empty.
    ///
    /// # Errors
    /// As [`RangeScan::next_leaf`].
    pub async fn next_batch(&mut self, ctx: &Ctx, out: &mut Vec<(Vec<u8>, Rowid)>) -> Result<bool> {
        out.clear();
        self.next_leaf(ctx, |key, rowid| out.push((key.to_vec(), rowid))).await
    }

    async fn leaf_forward(
        &self,
        ctx: &Ctx,
        visit: &mut (impl FnMut(&Entry<'_>) -> u32 + Send),
    ) -> Result<Rest> {
        let (from, hint) = match (&self.at, &self.low) {
            (At::From(key, leaf), _) => (Bound::Included(key.as_slice()), Some(*leaf)),
            (_, low) => (as_slice(low), None),
        };
        let seek = match from {
            Bound::Included(key) | Bound::Excluded(key) => Seek::At(key),
            Bound::Unbounded => Seek::At(&[]),
        };
        let high = as_slice(&self.high);
        let begun = LookupBegun::at(&self.seg, hint);
        on_leaf(ctx, &self.snap, &self.seg, seek, begun, |b| {
            let mut entries = 0;
            for pos in first_position(b, from)..rows::slot_count(b) {
                let entry = rows::entry(b, pos);
                if is_above(entry.key, high) {
                    return Rest { entries, at: At::End };
                }
                entries += visit(&entry);
            }
            let at = match rows::high_key(b) {
                Some(key) if !is_above(key, high) => At::From(key.to_vec(), rows::right(b)),
                _ => At::End,
            };
            Rest { entries, at }
        })
        .await
    }

    async fn leaf_backward(
        &self,
        ctx: &Ctx,
        visit: &mut (impl FnMut(&Entry<'_>) -> u32 + Send),
    ) -> Result<Rest> {
        let to = match (&self.at, &self.high) {
            (At::Below(key), _) => Bound::Excluded(key.as_slice()),
            (_, high) => as_slice(high),
        };
        let seek = match to {
            Bound::Included(key) => Seek::At(key),
            Bound::Excluded([]) => return Ok(Rest { entries: 0, at: At::End }),
            Bound::Excluded(key) => Seek::Below(key),
            Bound::Unbounded => Seek::Last,
        };
        let low = as_slice(&self.low);
        let begun = LookupBegun::at(&self.seg, None);
        on_leaf(ctx, &self.snap, &self.seg, seek, begun, |b| {
            let mut entries = 0;
            for pos in (0..end_position(b, to)).rev() {
                let entry = rows::entry(b, pos);
                if is_below(entry.key, low) {
                    return Rest { entries, at: At::End };
                }
                entries += visit(&entry);
            }
            let at = match rows::low_key(b) {
                // Everything left of here is below the leaf's low key.
                Some(key) if !starts_at_or_above(low, key) => At::Below(key.to_vec()),
                _ => At::End,
            };
            Rest { entries, at }
        })
        .await
    }
}

/// Calls `each` for the rows of an entry; how many they are.
fn tell(
    bitmap: bool,
    entry: &Entry<'_>,
    backward: bool,
    each: &mut impl FnMut(&[u8], Rowid),
) -> u32 {
    if entry.is_deleted() {
        return 0;
    }
    if !bitmap {
        each(entry.key, Rowid::from_u64(entry.value));
        return 1;
    }
    let Some(piece) = Piece::of(entry) else { return 0 };
    let (mut key, mut count) = (piece.key.to_vec(), 0);
    let one = |rowid: u64| {
        let at = key.len() - END_BYTES;
        key[at..].copy_from_slice(&rowid.to_be_bytes());
        each(&key, Rowid::from_u64(rowid));
        count += 1;
    };
    match backward {
        true => piece.rowids().into_iter().rev().for_each(one),
        false => piece.each(one),
    }
    count
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

/// Position of the first entry at or above the bound.
fn first_position(b: &[u8], from: Bound<&[u8]>) -> u16 {
    match from {
        Bound::Unbounded => 0,
        Bound::Included(key) => rows::search(b, key).unwrap_or_else(|pos| pos),
        Bound::Excluded(key) => rows::search(b, key).map_or_else(|pos| pos, |pos| pos + 1),
    }
}

/// Position after the last entry at or below the bound.
fn end_position(b: &[u8], to: Bound<&[u8]>) -> u16 {
    match to {
        Bound::Unbounded => rows::slot_count(b),
        Bound::Included(key) => rows::search(b, key).map_or_else(|pos| pos, |pos| pos + 1),
        Bound::Excluded(key) => rows::search(b, key).unwrap_or_else(|pos| pos),
    }
}

fn is_above(key: &[u8], high: Bound<&[u8]>) -> bool {
    match high {
        Bound::Unbounded => false,
        Bound::Included(h) => key > h,
        Bound::Excluded(h) => key >= h,
    }
}

fn is_below(key: &[u8], low: Bound<&[u8]>) -> bool {
    match low {
        Bound::Unbounded => false,
        Bound::Included(l) => key < l,
        Bound::Excluded(l) => key <= l,
    }
}

/// Whether no key below `key` is in a range with this low bound.
fn starts_at_or_above(low: Bound<&[u8]>, key: &[u8]) -> bool {
    match low {
        Bound::Unbounded => false,
        Bound::Included(l) | Bound::Excluded(l) => key <= l,
    }
}
