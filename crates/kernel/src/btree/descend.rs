//! From the root to the block that covers a key, reading branch blocks as they stand now.
//!
//! Holds one block at a time and nothing in between: a split that happens meanwhile shows as a key
//! beyond the block's high key, and the right link leads on (btree rule 2). Allocates nothing on
//! the way down unless a right link had to be followed.

use std::sync::Arc;

use block::Dba;
use block::layout::{self, Kind};
use block::rows;
use env::BoxFuture;
use observe::Ctx;

use super::seg::IndexSeg;
use crate::cache::Cache;
use crate::error::{Error, Result};
use crate::txn::{Core, LeafFinder};

/// Times a descent starts over before it is taken for a bug. Each start over needs a split of the
/// very root meanwhile.
const RESTARTS_MAX: u32 = 100;

/// Which block of a level is wanted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Seek<'a> {
    /// The one that covers this key.
    At(&'a [u8]),
    /// The one with the keys just below this one.
    Below(&'a [u8]),
    /// The one at the right end.
    Last,
}

impl Seek<'_> {
    /// Whether the wanted block is right of `b`.
    pub(super) fn is_beyond(self, b: &[u8]) -> bool {
        match self {
            Seek::At(key) => rows::high_key(b).is_some_and(|high| key >= high),
            Seek::Below(key) => rows::high_key(b).is_some_and(|high| key > high),
            Seek::Last => rows::high_key(b).is_some(),
        }
    }

    /// Whether the wanted block is left of `b`: only if the caller's idea of the tree is wrong.
    pub(super) fn is_before(self, b: &[u8]) -> bool {
        match self {
            Seek::At(key) => rows::low_key(b).is_some_and(|low| key < low),
            Seek::Below(key) => rows::low_key(b).is_some_and(|low| key <= low),
            Seek::Last => false,
        }
    }

    /// The child of branch `b` to go to.
    fn child(self, b: &[u8]) -> Option<Dba> {
        let pos = match self {
            Seek::At(key) => match rows::search(b, key) {
                Ok(pos) => pos,
                Err(pos) => pos.checked_sub(1)?,
            },
            Seek::Below(key) => match rows::search(b, key) {
                Ok(pos) | Err(pos) => pos.checked_sub(1)?,
            },
            Seek::Last => rows::slot_count(b).checked_sub(1)?,
        };
        Some(Dba::from_u64(rows::entry(b, pos).value))
    }
}

/// A right link that had to be followed: maybe the parent entry of a split is missing.
pub(super) struct Hop {
    /// Level of the blocks left and right of the link.
    pub level: u8,
    pub separator: Vec<u8>,
    pub right: Dba,
}

impl Hop {
    /// The link from `b` to its right neighbour, if it has one.
    pub(super) fn of(b: &[u8]) -> Option<Hop> {
        let separator = rows::high_key(b)?.to_vec();
        Some(Hop { level: rows::level(b), separator, right: rows::right(b) })
    }
}

/// What a block met on the way says.
enum Next {
    /// It is the wanted one.
    Here,
    /// Go down; the child is of this level.
    Child(Dba, u8),
    Right(Hop),
    /// Not a block of this index, or of a level that cannot be here: start over.
    Lost,
}

fn next(seg: &IndexSeg, seek: Seek<'_>, to_level: u8, expect_level: Option<u8>, b: &[u8]) -> Next {
    let level = rows::level(b);
    if !seg.owns(b) || expect_level.is_some_and(|l| l != level) || seek.is_before(b) {
        return Next::Lost;
    }
    if seek.is_beyond(b) {
        return Hop::of(b).map_or(Next::Lost, Next::Right);
    }
    if level == to_level {
        return Next::Here;
    }
    if level < to_level || layout::kind(b) != Kind::Branch {
        return Next::Lost;
    }
    seek.child(b).map_or(Next::Lost, |dba| Next::Child(dba, level - 1))
}

/// How far a descent has come.
pub(super) struct Way {
    at: Dba,
    /// Level that the block there must have; `None`: it is the root.
    level: Option<u8>,
    restarts: u32,
}

impl Way {
    pub(super) fn from_root(seg: &IndexSeg) -> Way {
        Way { at: seg.root, level: None, restarts: 0 }
    }

    /// What was at the end of it is not the wanted block: from the root again.
    ///
    /// # Errors
    /// It has been so too often.
    pub(super) fn again(&mut self, seg: &IndexSeg) -> Result<()> {
        self.restarts += 1;
        if self.restarts >= RESTARTS_MAX {
            let text = format!("index {} at {}: no way down", seg.obj, seg.root);
            return Err(Error::Invariant(text));
        }
        (self.at, self.level) = (seg.root, None);
        Ok(())
    }

    /// Takes the step that the block says; the wanted block if that is the last one.
    fn step(
        &mut self,
        seg: &IndexSeg,
        to_level: u8,
        hop: &mut Option<Hop>,
        next: Next,
    ) -> Result<Option<Dba>> {
        match next {
            Next::Here => return Ok(Some(self.at)),
            Next::Child(child, child_level) if child_level == to_level && to_level == 0 => {
                return Ok(Some(child));
            }
            Next::Child(child, child_level) => (self.at, self.level) = (child, Some(child_level)),
            Next::Right(found) => {
                self.at = found.right;
                *hop = Some(found);
            }
            Next::Lost if self.at == seg.root => return Err(Error::ObjectGone),
            Next::Lost => self.again(seg)?,
        }
        Ok(None)
    }
}

/// The block of `to_level` that `seek` wants, as far as the branches know. A leaf found through a
/// branch is not looked at: whoever pins or reads it checks its bounds. `hop` is set to the
/// last right link followed.
///
/// # Errors
/// [`Error::ObjectGone`] if the root is not this index's any more.
pub(super) async fn descend(
    ctx: &Ctx,
    cache: &Cache,
    seg: &IndexSeg,
    seek: Seek<'_>,
    to_level: u8,
    hop: &mut Option<Hop>,
) -> Result<Dba> {
    let mut way = Way::from_root(seg);
    descend_on(ctx, cache, seg, seek, to_level, hop, &mut way).await
}

/// The same from where a descent has come to.
pub(super) async fn descend_on(
    ctx: &Ctx,
    cache: &Cache,
    seg: &IndexSeg,
    seek: Seek<'_>,
    to_level: u8,
    hop: &mut Option<Hop>,
    way: &mut Way,
) -> Result<Dba> {
    loop {
        let level = way.level;
        let next = cache.read(ctx, way.at, |b| next(seg, seek, to_level, level, b)).await?;
        if let Some(found) = way.step(seg, to_level, hop, next)? {
            return Ok(found);
        }
    }
}

/// The leaf that `seek` wants, as far as one comes without waiting. `None`: the block that the way
/// has come to is not here.
///
/// # Errors
/// As [`descend`].
pub(super) fn leaf_now(
    ctx: &Ctx,
    cache: &Cache,
    seg: &IndexSeg,
    seek: Seek<'_>,
    way: &mut Way,
) -> Result<Option<Dba>> {
    loop {
        let level = way.level;
        let Ok(next) = cache.try_read(ctx, way.at, |b: &[u8]| next(seg, seek, 0, level, b)) else {
            return Ok(None);
        };
        if let Some(found) = way.step(seg, 0, &mut None, next)? {
            return Ok(Some(found));
        }
    }
}

/// The leaf of the index with this root that covers `key` now: rollback of an index entry must find
/// its leaf again after splits (hazard H9).
///
/// # Errors
/// [`Error::ObjectGone`] if `root` is no index block any more.
pub async fn find_leaf(ctx: &Ctx, cache: &Cache, root: Dba, key: &[u8]) -> Result<Dba> {
    let seg = cache
        .read(ctx, root, |b| IndexSeg {
            obj: layout::obj(b),
            header: Dba::NONE,
            root,
            birth: layout::birth(b),
            unique: false,
            bitmap: false,
        })
        .await?;
    let mut leaf = descend(ctx, cache, &seg, Seek::At(key), 0, &mut None).await?;
    // A split since the descent, or one whose parent entry is missing, shows only in the leaf.
    while let Some(right) =
        cache.read(ctx, leaf, |b| Seek::At(key).is_beyond(b).then(|| rows::right(b))).await?
    {
        leaf = right;
    }
    Ok(leaf)
}

/// [`find_leaf`] as the transaction layer calls it.
pub struct Finder;

impl LeafFinder for Finder {
    fn find_leaf<'a>(
        &'a self,
        ctx: &'a Ctx,
        core: &'a Arc<Core>,
        root: Dba,
        key: &'a [u8],
    ) -> BoxFuture<'a, Result<Dba>> {
        env::boxed!(find_leaf(ctx, &core.cache, root, key))
    }
}
