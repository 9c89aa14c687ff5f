//! Entries as they stand now: what is there, and who is still deciding about it.
//!
//! For foreign keys (see `table::foreign`). Leaves are read current, one at a time; an entry that
//! comes behind the scan belongs to a change that is younger than the scan.

use std::sync::Arc;

use block::{Dba, Rowid, Xid, rows};
use observe::Ctx;

use super::descend::{Seek, descend};
use super::seg::IndexSeg;
use crate::error::{Error, Result};
use crate::row::key_prefix_end;
use crate::txn::{CurrentView, LockState, Transaction};

/// Times a leaf found on the way down may turn out to be another block before it is taken for a
/// bug.
const RESTARTS_MAX: u32 = 100;

/// What stands under a key.
#[derive(Clone, Debug, Default)]
pub struct CurrentEntries {
    /// Rows of entries that are there for good, or by the transaction's own doing.
    pub live: Vec<Rowid>,
    /// Another transaction has put in or marked an entry and has not ended.
    pub busy: Option<Xid>,
    /// One that has marked an entry.
    pub marked: Option<Xid>,
    /// The keys of entries that such transactions have put in, or brought back.
    pub came: Vec<(Xid, Box<[u8]>)>,
}

impl CurrentEntries {
    /// Takes back what a look that is made again has found.
    fn reset(&mut self, to: (usize, usize, Option<Xid>, Option<Xid>)) {
        self.live.truncate(to.0);
        self.came.truncate(to.1);
        (self.busy, self.marked) = (to.2, to.3);
    }
}

enum Look {
    Right(Dba),
    Lost,
    /// The range goes on at this key.
    On(Vec<u8>),
    End,
}

/// The entries whose key begins with `prefix`, whole columns; no more than `limit` live ones.
///
/// # Errors
/// [`Error::ObjectGone`]; what reading blocks can fail with.
pub async fn current(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    seg: &IndexSeg,
    prefix: &[u8],
    limit: usize,
) -> Result<CurrentEntries> {
    let mut end = prefix.to_vec();
    key_prefix_end(&mut end);
    let mut found = CurrentEntries::default();
    let mut from = prefix.to_vec();
    let mut restarts = 0;
    let cache = &txn.core().cache;
    'leaf: loop {
        ctx.check_interrupt()?;
        let mut leaf = descend(ctx, cache, seg, Seek::At(&from), 0, &mut None).await?;
        loop {
            let before = (found.live.len(), found.came.len(), found.busy, found.marked);
            let look = |b: &[u8], view: &CurrentView| {
                found.reset(before);
                visit(seg, b, view, &from, &end, limit, &mut found)
            };
            match txn.read_current(ctx, leaf, look).await? {
                Look::Right(right) => leaf = right,
                Look::Lost => break,
                Look::End => return Ok(found),
                Look::On(key) => {
                    from = key;
                    continue 'leaf;
                }
            }
        }
        restarts += 1;
        if restarts == RESTARTS_MAX {
            return Err(Error::Invariant(format!("index {}: no leaf for a key", seg.obj)));
        }
    }
}

fn visit(
    seg: &IndexSeg,
    b: &[u8],
    view: &CurrentView,
    from: &[u8],
    end: &[u8],
    limit: usize,
    found: &mut CurrentEntries,
) -> Look {
    if !seg.is_leaf_of(b, from) {
        let beyond = seg.owns(b) && rows::level(b) == 0 && Seek::At(from).is_beyond(b);
        return if beyond { Look::Right(rows::right(b)) } else { Look::Lost };
    }
    let first = rows::search(b, from).unwrap_or_else(|pos| pos);
    for pos in first..rows::slot_count(b) {
        let entry = rows::entry(b, pos);
        if entry.key >= end || found.live.len() >= limit {
            return Look::End;
        }
        match view.lock_state(entry.lock) {
            LockState::Active(xid) => {
                found.busy = Some(xid);
                match entry.is_deleted() {
                    true => found.marked = Some(xid),
                    false => found.came.push((xid, entry.key.into())),
                }
            }
            _ if entry.is_deleted() => {}
            _ => found.live.push(Rowid::from_u64(entry.value)),
        }
    }
    match rows::high_key(b) {
        Some(key) if key < end => Look::On(key.to_vec()),
        _ => Look::End,
    }
}
