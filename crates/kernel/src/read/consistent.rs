//! See the README.

use std::sync::Arc;

use block::itl::{self, Itl};
use block::layout::{self, Kind};
use block::undo::UndoRecord;
use block::{BLOCK_BYTES, Dba, ObjId, Scn, Xid, rows};
use observe::{Ctx, Stat};

use super::sight::{Eye, Sight, all_visible, known_of, left, take_back};
use crate::cache::SegmentStat;
use crate::error::{Error, Result};
use crate::txn::{COPIES_MAX, Core, CrCopy, Held, Snapshot, TxStatus};

/// Why a snapshot older than its segment sees nothing of it (hazard H20).
pub const YOUNGER: &str = "the object was created or truncated later";

/// What the reader expects the block to be.
#[derive(Clone, Copy, Debug)]
pub struct Expect {
    pub kind: Kind,
    pub obj: ObjId,
    pub birth: Scn,
}

impl Expect {
    /// Whether the block is what is expected. A block of the segment that is not yet formatted is
    /// `Ok(false)`: it has no rows.
    fn check(&self, b: &[u8], snap: &Snapshot) -> Result<bool> {
        let scn = snap.scn();
        if layout::kind(b) == self.kind
            && layout::obj(b) == self.obj
            && layout::birth(b) == self.birth
        {
            if self.birth > scn && !snap.made_itself(self.obj, self.birth) {
                return Err(Error::too_old(scn, YOUNGER));
            }
            return Ok(true);
        }
        // Free and nobody's: never formatted. One that has somebody's name has had another life
        // since the reader's segment had it, and says nothing of what was there.
        let nobodys = layout::kind(b) == Kind::Free && layout::obj(b) == ObjId(0);
        if !nobodys && (layout::obj(b) != self.obj || layout::birth(b) != self.birth) {
            // The space has been given to another segment, or to a later life of this one.
            return Err(Error::ObjectGone);
        }
        Ok(false)
    }
}

/// A clone to be taken back, with what was known of its transactions when it was made: one that
/// rolls back meanwhile has left its changes in the clone (hazard H10).
struct Clone {
    bytes: Vec<u8>,
    known: Vec<(Xid, TxStatus)>,
    /// It came from another instance: even what is known here may have ended since it was made.
    remote: bool,
}

impl Clone {
    /// A copy from another instance. `gone`: rolled back for certain before it was asked for.
    fn of_copy(bytes: Vec<u8>, gone: &[Xid]) -> Clone {
        Clone { bytes, known: Vec::new(), remote: true }.after(gone)
    }

    /// The same, read after it was known that these have been rolled back: nothing of them is in it
    /// but entries, which a leaf keeps for as long as nobody needs them.
    fn after(mut self, gone: &[Xid]) -> Clone {
        self.known.extend(gone.iter().map(|x| (*x, TxStatus::Gone)));
        self
    }
}

/// What this instance knows of the transactions in a copy is asked once, and judged by from then
/// on: one that rolls back later has left its changes in the copy. One rolled back already may have
/// been running when the copy was made: what the copy shows of it is undone as if it ran (hazard
/// H10).
fn note_states(core: &Core, copy: &[u8], known: &mut Vec<(Xid, TxStatus)>, gone: &mut Vec<Xid>) {
    for (_, e) in itl::iter(copy) {
        let open = !e.xid.is_none() && e.scn == Scn::ZERO;
        if !open || known.iter().any(|(x, _)| *x == e.xid) {
            continue;
        }
        match core.local_status(e.xid) {
            Some(TxStatus::Gone) => {
                gone.push(e.xid);
                known.push((e.xid, TxStatus::Active));
            }
            Some(status) => known.push((e.xid, status)),
            None => {}
        }
    }
}

/// What the fast path left to do.
enum First<R> {
    Done(R),
    Clone(Clone),
}

/// Undo that is gone because its transaction ended meanwhile: the block is read again this often.
const RETRIES_MAX: u32 = 8;

/// What a look at a block came to that does not wait.
pub enum Seen<R> {
    /// What `f` said; `None`: the block has no rows.
    Done(Option<R>),
    /// There is something to wait for: [`consistent_on`].
    Waits(Begun),
}

/// What a look that has to wait has found already.
#[derive(Default)]
pub struct Begun(Option<Clone>);

/// As [`consistent`] if that need not wait: most looks end here. `f` is taken if it is called.
///
/// # Errors
/// [`Error::SnapshotTooOld`], [`Error::ObjectGone`].
pub fn consistent_now<R>(
    ctx: &Ctx,
    snap: &Snapshot,
    dba: Dba,
    expect: Expect,
    f: &mut Option<impl FnOnce(&[u8]) -> R>,
) -> Result<Seen<R>> {
    match snap.core().cache.try_read(ctx, dba, |b: &[u8]| first_look(snap, expect, b, f)) {
        Err(_) => Ok(Seen::Waits(Begun::default())),
        Ok(Ok(Some(First::Clone(clone)))) => Ok(Seen::Waits(Begun(Some(clone)))),
        Ok(done) => Ok(Seen::Done(finish_first(ctx, done?)?)),
    }
}

/// [`consistent`] after [`consistent_now`] has found that it waits.
///
/// # Errors
/// As [`consistent`].
pub async fn consistent_on<R>(
    ctx: &Ctx,
    snap: &Snapshot,
    dba: Dba,
    expect: Expect,
    f: impl FnOnce(&[u8]) -> R + Send,
    begun: Begun,
) -> Result<Option<R>> {
    env::boxed!(consistent_waiting(ctx, snap, dba, expect, Some(f), begun.0)).await
}

/// Runs `f` once on block `dba` as of `snap`. `Ok(None)`: the block is not formatted (or of another
/// kind of the same segment): it has no rows.
///
/// # Errors
/// [`Error::SnapshotTooOld`], [`Error::ObjectGone`]; disk errors; interrupted.
pub async fn consistent<R>(
    ctx: &Ctx,
    snap: &Snapshot,
    dba: Dba,
    expect: Expect,
    f: impl FnOnce(&[u8]) -> R + Send,
) -> Result<Option<R>> {
    let mut f = Some(f);
    match consistent_now(ctx, snap, dba, expect, &mut f)? {
        Seen::Done(out) => Ok(out),
        // All that may wait is in a box of its own: the future of the common case stays small.
        Seen::Waits(begun) => {
            env::boxed!(consistent_waiting(ctx, snap, dba, expect, f, begun.0)).await
        }
    }
}

/// What the first look came to, if it was enough.
fn finish_first<R>(ctx: &Ctx, first: Option<First<R>>) -> Result<Option<R>> {
    match first {
        Some(First::Done(out)) => {
            ctx.bump(Stat::NoWorkGets, 1);
            Ok(Some(out))
        }
        _ => Ok(None),
    }
}

/// [`consistent`] for a block that is not here, or needs a clone (`first`, if it has been made).
async fn consistent_waiting<R>(
    ctx: &Ctx,
    snap: &Snapshot,
    dba: Dba,
    expect: Expect,
    mut f: Option<impl FnOnce(&[u8]) -> R + Send>,
    mut first: Option<Clone>,
) -> Result<Option<R>> {
    let core = snap.core();
    let mut gone = Vec::new();
    for _ in 0..RETRIES_MAX {
        let epoch = core.peers().map(|p| p.epoch());
        if let Some(copy) = snap.memory().copy(epoch, dba)
            && expect.check(&copy, snap)?
        {
            ctx.bump(Stat::ConsistentGets, 1);
            core.cache.common.segments.add(expect.obj, SegmentStat::LogicalReads, 1);
            ctx.bump(Stat::CrCopiesUsedAgain, 1);
            return Ok(Some(f.take().expect("called once")(&copy)));
        }
        let mut remote = false;
        let clone = if let Some(clone) = first.take() {
            clone
        } else if let Some(image) = seen_copy(ctx, snap, dba) {
            ctx.bump(Stat::ConsistentGets, 1);
            core.cache.common.segments.add(expect.obj, SegmentStat::LogicalReads, 1);
            if !expect.check(&image, snap)? {
                return Ok(None);
            }
            remote = true;
            let mut clone = Clone::of_copy(image, &gone);
            note_states(core, &clone.bytes, &mut clone.known, &mut gone);
            let left = left(&Eye::of(snap), &clone.bytes, &clone.known);
            // Most often nothing in it has to be taken back.
            if left.question.is_none() && left.undo.is_none() {
                let out = f.take().expect("called once")(&clone.bytes);
                snap.memory().keep_copy(epoch, dba, Arc::new(clone.bytes));
                return Ok(Some(out));
            }
            clone.bytes = rows::expand(&clone.bytes, 2 * BLOCK_BYTES);
            clone
        } else if let Some(copy) = remote_copy(ctx, snap, dba, !gone.is_empty()).await? {
            ctx.bump(Stat::ConsistentGets, 1);
            core.cache.common.segments.add(expect.obj, SegmentStat::LogicalReads, 1);
            if !expect.check(&copy.image, snap)? {
                return Ok(None);
            }
            if copy.complete {
                let f = f.take().expect("called once");
                let out = f(&copy.image);
                snap.memory().keep_copy(epoch, dba, Arc::new(copy.image));
                return Ok(Some(out));
            }
            remote = true;
            Clone::of_copy(rows::expand(&copy.image, copy.image.len() + BLOCK_BYTES), &gone)
        } else {
            let first =
                core.cache.read(ctx, dba, |b| first_look(snap, expect, b, &mut f)).await??;
            match first {
                Some(First::Clone(clone)) => clone.after(&gone),
                done => return finish_first(ctx, done),
            }
        };
        ctx.bump(Stat::CrBlocksCreated, 1);
        let whole = undo_clone(ctx, snap, clone, expect, &mut |_| {}, &mut gone).await?;
        if core.peers().map(|p| p.epoch()) != epoch {
            // What was said of its transactions may have died with who said it: their numbers may
            // be given out again (hazard H1). So may what a copy was made from.
            gone.clear();
            if remote {
                continue;
            }
        }
        if let Some(clone) = whole {
            let f = f.take().expect("called once");
            let out = f(&clone);
            snap.memory().keep_copy(epoch, dba, Arc::new(clone));
            return Ok(Some(out));
        }
    }
    ctx.bump(Stat::SnapshotTooOld, 1);
    Err(Error::too_old(snap.scn(), "undo has been used anew"))
}

/// Whether another transaction has changed the row in `slot` of a heap block (not merely locked it)
/// in a way the snapshot does not see. Works on the current block: a copy from another instance may
/// have had such a change taken back already.
///
/// # Errors
/// As [`consistent`].
pub async fn changed_since(
    ctx: &Ctx,
    snap: &Snapshot,
    dba: Dba,
    expect: Expect,
    slot: u16,
) -> Result<bool> {
    let core = snap.core();
    let mut gone = Vec::new();
    for _ in 0..RETRIES_MAX {
        let epoch = core.peers().map(|p| p.epoch());
        let look = |b: &[u8]| first_look(snap, expect, b, &mut Some(|_: &[u8]| ()));
        let clone = match core.cache.read(ctx, dba, look).await?? {
            None | Some(First::Done(())) => return Ok(false),
            Some(First::Clone(clone)) => clone.after(&gone),
        };
        let mut changed = false;
        let mut watch = |r: &UndoRecord| {
            changed |= snap.own() != Some(r.xid) && r.inverse.changes_row(slot);
        };
        let whole = undo_clone(ctx, snap, clone, expect, &mut watch, &mut gone).await?.is_some();
        if whole || changed {
            return Ok(changed);
        }
        if core.peers().map(|p| p.epoch()) != epoch {
            gone.clear();
        }
    }
    Err(Error::too_old(snap.scn(), "undo has been used anew"))
}

fn first_look<R>(
    snap: &Snapshot,
    expect: Expect,
    b: &[u8],
    f: &mut Option<impl FnOnce(&[u8]) -> R>,
) -> Result<Option<First<R>>> {
    if !expect.check(b, snap)? {
        return Ok(None);
    }
    if all_visible(&Eye::of(snap), b) {
        let f = f.take().expect("called once");
        return Ok(Some(First::Done(f(b))));
    }
    let known = known_of(snap.core(), b);
    let bytes = rows::expand(b, 2 * BLOCK_BYTES);
    Ok(Some(First::Clone(Clone { bytes, known, remote: false })))
}

/// The block as another instance of this machine holds it now, if it can be seen.
fn seen_copy(ctx: &Ctx, snap: &Snapshot, dba: Dba) -> Option<Vec<u8>> {
    let core = snap.core();
    let peers = core.peers()?;
    if core.cache.is_readable(dba) {
        return None;
    }
    peers.seen_copy(ctx, dba, snap.scn())
}

/// A copy from the cluster, if this instance has no right to the block and another one changes it.
/// `anew`: not one that was asked for before this reader knew what it knows (hazard H10).
async fn remote_copy(ctx: &Ctx, snap: &Snapshot, dba: Dba, anew: bool) -> Result<Option<CrCopy>> {
    let core = snap.core();
    let Some(peers) = core.peers() else { return Ok(None) };
    if core.cache.is_readable(dba) {
        return Ok(None);
    }
    peers.consistent_copy(ctx, dba, snap.scn(), anew).await
}

/// Has copies of those of these blocks brought together that other instances change, so that a
/// reader of all of them waits once. Best effort: what is left is brought when it is read.
///
/// # Errors
/// Interrupted.
pub async fn bring(ctx: &Ctx, snap: &Snapshot, dbas: &[Dba]) -> Result<()> {
    let away = away_of(snap, dbas.iter().copied(), COPIES_MAX);
    let brought = bring_away(ctx, snap, None, &away).await?;
    brought.into_iter().for_each(|copy| copy.keep(snap));
    Ok(())
}

/// A finished copy of a block that another instance changes, as of one snapshot.
pub struct Brought {
    pub dba: Dba,
    epoch: Option<u64>,
    image: Vec<u8>,
}

impl Brought {
    /// What it holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.image.capacity()
    }

    /// The next reader of the block at this snapshot finds it.
    pub fn keep(self, snap: &Snapshot) {
        snap.memory().keep_copy(self.epoch, self.dba, Arc::new(self.image));
    }
}

/// As [`bring`], for neighbouring blocks of the segment `obj` that are read one after the other, in
/// their order: those that no instance has are read from disk together, and of the others finished
/// copies come back, which `held` accounts for from here on. Also how many blocks have been looked
/// at: fewer than `count` where there was no memory for the copies of more.
///
/// # Errors
/// Interrupted; what reading blocks can fail with.
pub async fn bring_run(
    ctx: &Ctx,
    snap: &Snapshot,
    obj: ObjId,
    first: Dba,
    count: u32,
    held: &mut Held,
) -> Result<(Vec<Brought>, u32)> {
    let dbas = (0..count).map(|i| Dba::new(first.file, first.block + i));
    let mut away = away_of(snap, dbas, usize::MAX);
    if away.len() < 2 {
        return Ok((Vec::new(), count));
    }
    let room = held.take_for(away.len());
    let looked_at = away.get(room).map_or(count, |next| next.block - first.block);
    away.truncate(room);
    let brought = bring_away(ctx, snap, Some(obj), &away).await?;
    held.came(away.len(), brought.len());
    held.hold(brought.iter().map(Brought::bytes).sum());
    Ok((brought, looked_at))
}

/// The first of these blocks, at most so many, for which a reader would have to ask.
fn away_of(snap: &Snapshot, dbas: impl Iterator<Item = Dba>, max: usize) -> Vec<Dba> {
    let core = snap.core();
    let Some(peers) = core.peers() else { return Vec::new() };
    let epoch = Some(peers.epoch());
    let is_away = |dba: &Dba| {
        !core.cache.is_readable(*dba)
            && snap.memory().copy(epoch, *dba).is_none()
            && !peers.may_see(*dba)
    };
    dbas.filter(is_away).take(max).collect()
}

async fn bring_away(
    ctx: &Ctx,
    snap: &Snapshot,
    of: Option<ObjId>,
    away: &[Dba],
) -> Result<Vec<Brought>> {
    // One is brought when it is read.
    if away.len() < 2 {
        return Ok(Vec::new());
    }
    let Some(peers) = snap.core().peers() else { return Ok(Vec::new()) };
    let epoch = Some(peers.epoch());
    let copies = peers.consistent_copies(ctx, away, of, snap.scn()).await?.into_iter();
    let complete = copies.filter(|(_, copy)| copy.complete);
    Ok(complete.map(|(dba, copy)| Brought { dba, epoch, image: copy.image }).collect())
}

/// Takes back, on a clone, everything the snapshot does not see; `None` if undo it needs is gone.
async fn undo_clone(
    ctx: &Ctx,
    snap: &Snapshot,
    clone: Clone,
    expect: Expect,
    watch: &mut (dyn FnMut(&UndoRecord) + Send),
    gone: &mut Vec<Xid>,
) -> Result<Option<Vec<u8>>> {
    let core = snap.core().clone();
    let Clone { mut bytes, mut known, remote } = clone;
    loop {
        if remote {
            note_states(&core, &bytes, &mut known, gone);
        }
        // A bound may hide a commit above another's exact SCN: nothing is undone before that.
        let left = left(&Eye::of(snap), &bytes, &known);
        let Some((idx, e, sight)) = left.question.or(left.undo) else {
            return Ok(Some(bytes));
        };
        match sight {
            Sight::TooOld => {
                ctx.bump(Stat::SnapshotTooOld, 1);
                return Err(Error::too_old(snap.scn(), "when a transaction ended is forgotten"));
            }
            Sight::Outcome => {
                core.await_outcome(ctx, e.xid).await?;
                known.retain(|(x, _)| *x != e.xid);
                known.push((e.xid, core.status(ctx, e.xid).await?));
            }
            Sight::Ask => {
                // Asked after the copy was made: one rolled back since must still be undone (H10).
                let status = match core.status(ctx, e.xid).await? {
                    TxStatus::Gone => {
                        gone.push(e.xid);
                        TxStatus::Active
                    }
                    status => status,
                };
                known.push((e.xid, status));
            }
            Sight::Visible => return Ok(Some(bytes)),
            Sight::Active | Sight::Later(_) | Sight::OwnLater | Sight::Hiding => {
                let Some(record) = undo_record(ctx, snap, &e, expect).await? else {
                    return Ok(None);
                };
                ctx.bump(Stat::UndoBlocksRead, 1);
                watch(&record);
                take_back(&mut bytes, idx, &record)?;
            }
        }
    }
}

/// The undo record an entry points to, if it is still there and is the one expected.
async fn undo_record(
    ctx: &Ctx,
    snap: &Snapshot,
    e: &Itl,
    expect: Expect,
) -> Result<Option<UndoRecord>> {
    let core = snap.core();
    let find = |b: &[u8]| {
        let record = UndoRecord::find(b, e.uba, e.xid)?;
        let fits =
            record.undo_no == e.undo_no && record.obj == expect.obj && record.birth == expect.birth;
        fits.then_some(record)
    };
    if core.segment(e.xid.usn).is_some() {
        return core.cache.read(ctx, e.uba.dba, find).await;
    }
    let Some(peers) = core.peers() else { return Ok(None) };
    let epoch = Some(peers.epoch());
    // A record never changes while it is there; one not found may have been added since.
    if let Some(image) = snap.memory().undo_block(epoch, e.uba.dba)
        && let Some(record) = find(&image)
    {
        return Ok(Some(record));
    }
    if let Some(image) = peers.seen_undo(ctx, e.xid, e.uba.dba)
        && let Some(record) = find(&image)
    {
        snap.memory().keep_undo_block(epoch, e.uba.dba, Arc::new(image));
        return Ok(Some(record));
    }
    let image = peers.undo_block(ctx, e.xid, e.uba).await?;
    let record = find(&image);
    snap.memory().keep_undo_block(epoch, e.uba.dba, Arc::new(image.to_vec()));
    Ok(record)
}
