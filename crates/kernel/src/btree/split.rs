//! Splits: a full block becomes two, then the parent learns of it.
//!
//! Two redo records: the first makes the right part and cuts the left one, the second adds the
//! parent entry. Between them the tree is whole: the right part is reached by the link of the left
//! one, and the next writer that comes by that link adds the entry. A root keeps its address: its
//! content goes to two new blocks, in one record with the root's new face.
//!
//! Never holds a block while space is allotted; pins in ascending order (hazard H15).

use block::layout::{self, Kind};
use block::op::Op;
use block::redo::RecordKind;
use block::rows;
use block::{Dba, Mode, Xid};
use env::BoxFuture;
use env::marks::{self, Mark, Point};
use observe::{Ctx, Stat, WaitEvent, enq_p1};

use super::descend::{Hop, Seek, descend};
use super::seg::IndexSeg;
use super::shape;
use crate::cache::{Cache, Pin};
use crate::change::Change;
use crate::error::Result;
use crate::txn::{Core, INDEX_GATES};

/// Free bytes below which a block counts as full when a split is about to be made: a split that
/// somebody else has just made is not made again.
const ITL_RESERVE_BYTES: usize = block::itl::ITL_ENTRY_BYTES;

/// Splits `dba`, a leaf or branch of the index that `key` found too full, and adds the parent
/// entry. Does nothing if the block has room by now or no longer covers the key.
pub(super) fn split<'a>(
    ctx: &'a Ctx,
    core: &'a Core,
    seg: &'a IndexSeg,
    dba: Dba,
    key: &'a [u8],
) -> BoxFuture<'a, Result<()>> {
    env::boxed!(async move {
        match cut(ctx, core, seg, dba, key).await? {
            // The next writer that comes by the link finishes it.
            Some(_) if marks::is_taken(Point::SplitAbandoned) => Ok(()),
            Some(hop) => add_parent_entry(ctx, core, seg, &hop).await,
            None => Ok(()),
        }
    })
}

/// The first half of a split: one redo record. Returns what the parent must learn; `None` for a
/// root, whose new face is part of the record, and if there was nothing to do.
pub(super) async fn cut(
    ctx: &Ctx,
    core: &Core,
    seg: &IndexSeg,
    dba: Dba,
    key: &[u8],
) -> Result<Option<Hop>> {
    let gate = &core.index_gates[gate_of(dba)];
    let _gate = match gate.try_lock() {
        Ok(gate) => gate,
        Err(_) => {
            let p = [enq_p1(*b"TX", 4), u64::from(dba.file), u64::from(dba.block)];
            let asked = ctx.ask_enqueue(WaitEvent::EnqTxIndex);
            let gate = ctx.wait_or_cancel(WaitEvent::EnqTxIndex, p, gate.lock()).await?;
            // What was asked for is the end of the other's split.
            drop(asked.granted());
            gate
        }
    };
    // Whoever held the gate before may have done it.
    if !core.cache.read(ctx, dba, |b| is_full(seg, b, key)).await? {
        return Ok(None);
    }
    let fresh = alloc(ctx, core, seg, if dba == seg.root { 2 } else { 1 }).await?;
    let made = rearrange(ctx, core, seg, dba, &fresh, key).await;
    if !matches!(made, Ok(Made::Root | Made::Right(_))) {
        free(ctx, core, seg, &fresh).await?;
    }
    Ok(match made? {
        Made::Right(hop) => Some(hop),
        Made::Root | Made::Nothing => None,
    })
}

/// What became of a split's first half.
enum Made {
    /// The root has grown a level.
    Root,
    /// There is a new block to the right.
    Right(Hop),
    /// It was not needed any more.
    Nothing,
}

async fn alloc(ctx: &Ctx, core: &Core, seg: &IndexSeg, count: usize) -> Result<Vec<Dba>> {
    let mut fresh = Vec::with_capacity(count);
    while fresh.len() < count {
        match core.space.alloc_block(ctx, seg.header).await {
            Ok(dba) => fresh.push(dba),
            Err(e) => {
                free(ctx, core, seg, &fresh).await?;
                return Err(e);
            }
        }
    }
    Ok(fresh)
}

/// Gives back blocks that came to nothing.
async fn free(ctx: &Ctx, core: &Core, seg: &IndexSeg, blocks: &[Dba]) -> Result<()> {
    for &dba in blocks {
        core.space.free_block(ctx, seg.header, dba).await?;
    }
    Ok(())
}

async fn rearrange(
    ctx: &Ctx,
    core: &Core,
    seg: &IndexSeg,
    dba: Dba,
    fresh: &[Dba],
    key: &[u8],
) -> Result<Made> {
    core.log.throttle(ctx).await?;
    let pins = pin_all(ctx, &core.cache, seg, &[dba], fresh).await?;
    if dba == seg.root {
        let made = push_down(ctx, core, seg, &pins, key);
        return Ok(if made { Made::Root } else { Made::Nothing });
    }
    Ok(cut_in_two(ctx, core, seg, &pins, key).map_or(Made::Nothing, Made::Right))
}

fn gate_of(dba: Dba) -> usize {
    (dba.block as usize ^ (dba.block as usize >> 6)) % INDEX_GATES
}

/// Pins `old` and the `fresh` (unread) blocks in X, in ascending order; returns them as named.
async fn pin_all(
    ctx: &Ctx,
    cache: &Cache,
    seg: &IndexSeg,
    old: &[Dba],
    fresh: &[Dba],
) -> Result<Vec<Pin>> {
    let mut order: Vec<(Dba, bool, usize)> = old
        .iter()
        .map(|&dba| (dba, false))
        .chain(fresh.iter().map(|&dba| (dba, true)))
        .enumerate()
        .map(|(at, (dba, is_fresh))| (dba, is_fresh, at))
        .collect();
    order.sort_unstable();
    let mut pins = Vec::with_capacity(order.len());
    for (dba, is_fresh, at) in order {
        let pin = if is_fresh {
            cache.pin_formatted(ctx, dba, free_block(seg)).await?
        } else {
            cache.pin(ctx, dba, Mode::X).await?
        };
        pins.push((at, pin));
    }
    pins.sort_unstable_by_key(|(at, _)| *at);
    Ok(pins.into_iter().map(|(_, pin)| pin).collect())
}

/// Whether `b` still is a block of this index that covers `key` and has no room for it.
fn is_full(seg: &IndexSeg, b: &[u8], key: &[u8]) -> bool {
    seg.owns(b)
        && rows::covers(b, key)
        && rows::slot_count(b) >= 2
        && rows::free_bytes(b) < seg.entry_bytes(rows::level(b), key) + ITL_RESERVE_BYTES
}

/// Pins: the block, the new right one. `None`: not needed any more; the new block is made free.
fn cut_in_two(ctx: &Ctx, core: &Core, seg: &IndexSeg, pins: &[Pin], key: &[u8]) -> Option<Hop> {
    let (left, right) = (&pins[0], &pins[1]);
    let mut change = Change::begin(&core.cache, &[left, right]);
    let b = change.block(0);
    if !is_full(seg, b, key) {
        change.push(1, free_block(seg));
        change.commit(ctx, Xid::NONE, RecordKind::Change);
        return None;
    }
    let (kind, level) = (layout::kind(b), rows::level(b));
    let cut = shape::cut(seg, b, key);
    let (left_image, right_image) = shape::parts(b, &cut, right.dba());
    change.push(1, fresh_image(kind, seg, &right_image));
    change.push(0, Op::Image { kind, obj: seg.obj, body: Op::image_of(&left_image) });
    change.commit(ctx, Xid::NONE, RecordKind::Change);
    if level > 0 {
        ctx.bump(Stat::BranchSplits, 1);
    } else {
        ctx.bump(Stat::LeafSplits, 1);
        if cut.growing {
            ctx.bump(Stat::LeafSplits9010, 1);
        }
    }
    Some(Hop { level, separator: cut.separator, right: right.dba() })
}

fn fresh_image(kind: Kind, seg: &IndexSeg, image: &[u8]) -> Op {
    Op::FormatImage { kind, obj: seg.obj, body: Op::image_of(image) }
}

/// Makes a block one of the index that no other leads to.
pub(super) fn free_block(seg: &IndexSeg) -> Op {
    Op::Format { kind: Kind::Free, obj: seg.obj, birth: seg.birth, level: 0, itl: 0 }
}

/// Splits the root: its content moves into two new blocks below it. Pins: the root, the new blocks.
fn push_down(ctx: &Ctx, core: &Core, seg: &IndexSeg, pins: &[Pin], key: &[u8]) -> bool {
    let (left, right) = (&pins[1], &pins[2]);
    let mut change = Change::begin(&core.cache, &[&pins[0], left, right]);
    let b = change.block(0);
    if !is_full(seg, b, key) {
        change.push(1, free_block(seg));
        change.push(2, free_block(seg));
        change.commit(ctx, Xid::NONE, RecordKind::Change);
        return false;
    }
    let kind = layout::kind(b);
    let cut = shape::cut(seg, b, key);
    let (left_image, right_image) = shape::parts(b, &cut, right.dba());
    marks::reached(Mark::RootGrew);
    let root_image = shape::raised_root(seg, b, &cut, left.dba(), right.dba());
    change.push(1, fresh_image(kind, seg, &left_image));
    change.push(2, fresh_image(kind, seg, &right_image));
    change.push(0, Op::Image { kind: Kind::Branch, obj: seg.obj, body: Op::image_of(&root_image) });
    change.commit(ctx, Xid::NONE, RecordKind::Change);
    ctx.bump(Stat::RootSplits, 1);
    true
}

/// What one look at the parent found.
enum Parent {
    Done,
    Lost,
    Full,
}

/// Makes sure that the block right of a link has its entry one level up. Cheap if it has.
pub(super) async fn add_parent_entry(
    ctx: &Ctx,
    core: &Core,
    seg: &IndexSeg,
    hop: &Hop,
) -> Result<()> {
    let (separator, level) = (hop.separator.as_slice(), hop.level + 1);
    loop {
        let seek = Seek::At(separator);
        let parent = descend(ctx, &core.cache, seg, seek, level, &mut None).await?;
        let known = core
            .cache
            .read(ctx, parent, |b| seg.owns(b) && rows::search(b, separator).is_ok())
            .await?;
        if known {
            return Ok(());
        }
        core.log.throttle(ctx).await?;
        let pin = core.cache.pin(ctx, parent, Mode::X).await?;
        let found = enter(ctx, core, seg, &pin, hop);
        drop(pin);
        match found {
            Parent::Done => return Ok(()),
            Parent::Lost => {}
            Parent::Full => split(ctx, core, seg, parent, separator).await?,
        }
    }
}

fn enter(ctx: &Ctx, core: &Core, seg: &IndexSeg, pin: &Pin, hop: &Hop) -> Parent {
    let mut change = Change::begin(&core.cache, &[pin]);
    let b = change.block(0);
    let key = hop.separator.as_slice();
    if !seg.owns(b) || rows::level(b) != hop.level + 1 || !rows::covers(b, key) {
        return Parent::Lost;
    }
    if rows::search(b, key).is_ok() {
        return Parent::Done;
    }
    if rows::free_bytes(b) < rows::entry_bytes(key) + ITL_RESERVE_BYTES {
        return Parent::Full;
    }
    change.push(0, Op::BranchInsert { key: key.to_vec(), child: hop.right });
    change.commit(ctx, Xid::NONE, RecordKind::Change);
    Parent::Done
}
