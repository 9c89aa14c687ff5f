//! Which block an insert goes to, and which block an index grows by.
//!
//! Each instance inserts into blocks that it has claimed in the FreeMap, each session into one of a
//! few of them, so that neither instances nor sessions fight for a block. What is kept here in
//! memory
//! is only a list of work: it may be lost at any time, and is found again by the owner noted in the
//! FreeMap when the instance uses the segment next.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use block::layout::{self, Kind};
use block::op::Op;
use block::redo::RecordKind;
use block::{Dba, Mode, Xid, itl};
use observe::{Ctx, HeldEnqueue, WaitEvent, enq_p1};
use parking_lot::{Mutex, MutexGuard};

use super::files::Space;
use super::layout::{
    CLASS_EMPTY, CLASS_RAW, Extent, ExtentMap, FREE_MAP_BLOCKS, FreeEntry, SegmentKind, class_of,
    class_room, free_entry, free_map_of, free_map_ordinal, free_parts, is_meta,
};
use super::segment::SegmentId;
use crate::change::Change;
use crate::error::Result;

/// Blocks that the sessions of one instance insert into at the same time, per segment.
const OPEN_BLOCKS: usize = 4;
/// Blocks with room claimed in one look at a FreeMap.
const CLAIM_MAX: usize = 16;
/// Blocks claimed above the high-water mark at once: a part of the segment, within these limits.
const RAISE_PART: u32 = 8;
const RAISE_MIN: u32 = 6;
const RAISE_MAX: u32 = 64;
/// An open block with at least this much room is kept when a longer row does not fit.
const KEEP_ROOM: usize = 2000;
/// Blocks with less potential room than this are not worth coming back to.
pub const WORTH_CLASS: u8 = 4;
/// Blocks with new room noted before the note is written to the FreeMap for all instances.
const FREED_MAX: usize = 64;
/// After so many blocks that turned out too full an insert gets one that was never used.
const TRIES_BEFORE_FRESH: u32 = 3;

/// Rows of which the data blocks of a segment's first extent get so many each, one after the other,
/// before any gets more: the few rows of a small table, each changed by many sessions, are not to
/// make one hot block of it. Rows that come together are dealt out evenly.
const FIRST_ROWS: [usize; 6] = [2, 2, 4, 8, 16, 32];
/// Ordinal of the first data block: the header and a FreeMap come before.
const FIRST_ORDINAL: u32 = 2;

/// How many of its first rows a block has, one of a segment's first extent.
#[derive(Clone, Copy, Debug)]
struct FirstRows {
    /// Which of the blocks it is.
    index: usize,
    taken: usize,
}

impl FirstRows {
    fn of(spare: Spare) -> Option<FirstRows> {
        let index = usize::try_from(spare.ordinal.checked_sub(FIRST_ORDINAL)?).ok()?;
        (spare.class == CLASS_RAW && index < FIRST_ROWS.len())
            .then_some(FirstRows { index, taken: 0 })
    }

    /// Rows it may still take, when so many wait to be inserted.
    fn left(self, waiting: usize) -> usize {
        let share = match waiting {
            0 | 1 => FIRST_ROWS[self.index],
            _ => waiting.div_ceil(FIRST_ROWS.len() - self.index).max(2),
        };
        share.saturating_sub(self.taken)
    }
}

/// A block being inserted into.
#[derive(Clone, Copy, Debug)]
struct Open {
    dba: Dba,
    ordinal: u32,
    /// Until it, and the others like it, have their first rows.
    first: Option<FirstRows>,
    /// Bytes free for a row, as far as known here.
    room: usize,
    /// What will be free once deleted rows may be purged.
    potential: usize,
}

/// A block claimed and not in use yet.
#[derive(Clone, Copy, Debug)]
struct Spare {
    ordinal: u32,
    class: u8,
    /// Claimed above the high-water mark by this very list: certainly never formatted.
    fresh: bool,
}

impl Spare {
    fn room(&self) -> usize {
        if self.class == CLASS_RAW { class_room(CLASS_EMPTY) } else { class_room(self.class) }
    }
}

#[derive(Default)]
struct Pool {
    loaded: bool,
    open: [Option<Open>; OPEN_BLOCKS],
    spare: VecDeque<Spare>,
    /// Blocks done with: what their FreeMap entry becomes.
    retired: BTreeMap<u32, u8>,
    /// Blocks in which deletes have made room: potential class.
    freed: BTreeMap<u32, u8>,
    /// Index blocks handed out since the FreeMap was last written.
    handed: BTreeSet<u32>,
    /// FreeMap to look at next.
    cursor: u32,
}

impl Pool {
    /// Notes new room in a block that is in this pool; `false`: it is not.
    fn heard_of_room(&mut self, ordinal: u32, class: u8, potential: usize) -> bool {
        let open = self.open.iter_mut().flatten().find(|o| o.ordinal == ordinal);
        let spare = self.spare.iter_mut().find(|s| s.ordinal == ordinal);
        let retired = self.retired.get_mut(&ordinal);
        let held = open.is_some() || spare.is_some() || retired.is_some();
        if let Some(open) = open {
            open.potential = open.potential.max(potential);
        }
        // The class of a raw block already says all.
        if let Some(spare) = spare {
            spare.class = spare.class.max(class);
        }
        if let Some(retired) = retired {
            *retired = class.max(*retired);
        }
        held
    }

    fn retire(&mut self, open: Open) {
        let class = class_of(open.potential);
        self.retired.insert(open.ordinal, if class < WORTH_CLASS { 0 } else { class });
    }

    /// Whether there is a block of the first extent that has none of its first rows yet.
    fn has_first(&self) -> bool {
        self.spare.iter().any(|s| FirstRows::of(*s).is_some())
    }

    /// The open block, if it can take a row of `need` bytes of so many that wait; with how many of
    /// them it may be given.
    fn offer(&mut self, slot: usize, need: usize, waiting: usize) -> Option<(Dba, usize)> {
        let open = self.open[slot].filter(|open| open.room >= need)?;
        let Some(first) = open.first else { return Some((open.dba, usize::MAX)) };
        let share = first.left(waiting).min(waiting.max(1));
        let taken = FirstRows { taken: first.taken + share, ..first };
        let (first, share) = match share {
            0 if self.has_first() => return None,
            0 => (None, usize::MAX),
            _ => (Some(taken), share),
        };
        self.open[slot] = Some(Open { first, ..open });
        Some((open.dba, share))
    }

    /// Takes a spare with `need` bytes of room; only one never used if `fresh`.
    fn take_spare(&mut self, need: usize, fresh: bool) -> Option<Spare> {
        let fits = |s: &Spare| s.room() >= need && (!fresh || s.class == CLASS_RAW);
        let at = self.spare.iter().position(fits)?;
        self.spare.remove(at)
    }
}

/// Insert state of one segment on this instance.
pub struct Segment {
    pub(super) id: SegmentId,
    extents: Mutex<Arc<ExtentMap>>,
    pool: Mutex<Pool>,
    /// Held by the one session that refills the pool.
    work: tokio::sync::Mutex<()>,
}

impl Segment {
    fn new(id: SegmentId) -> Segment {
        Segment {
            id,
            extents: Mutex::new(Arc::new(ExtentMap::default())),
            pool: Mutex::new(Pool::default()),
            work: tokio::sync::Mutex::new(()),
        }
    }

    /// The right to refill the pool, to raise the high-water mark and to write notes.
    async fn take_work(&self, ctx: &Ctx) -> Result<(tokio::sync::MutexGuard<'_, ()>, HeldEnqueue)> {
        let header = self.id.header;
        let p = [enq_p1(*b"HW", 6), u64::from(header.file), u64::from(header.block)];
        let request = ctx.ask_enqueue(WaitEvent::EnqHw);
        let work = ctx.wait_or_cancel(WaitEvent::EnqHw, p, self.work.lock()).await?;
        Ok((work, request.granted()))
    }

    pub(super) fn extents(&self) -> Arc<ExtentMap> {
        Arc::clone(&self.extents.lock())
    }

    pub(super) fn set_extents(&self, extents: &[Extent]) {
        let new = ExtentMap::new(extents);
        let mut known = self.extents.lock();
        // Extents are only ever added: the longer list is the newer one.
        if known.blocks() < new.blocks() {
            *known = Arc::new(new);
        }
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock()
    }
}

/// What one FreeMap is asked to do.
#[derive(Default)]
struct MapWork {
    retired: Vec<(u32, u8)>,
    freed: Vec<(u32, u8)>,
}

impl Space {
    /// The insert state of a segment, made at first use.
    pub(super) fn segment(&self, id: SegmentId) -> Arc<Segment> {
        let key = (id.header, id.birth);
        if let Some(segment) = self.segments.read().get(&key) {
            return Arc::clone(segment);
        }
        let mut segments = self.segments.write();
        Arc::clone(segments.entry(key).or_insert_with(|| Arc::new(Segment::new(id))))
    }

    /// The entries that mark `count` blocks from `at` on as claimed and never formatted.
    pub(super) fn claim_raw(&self, at: u32, count: u32) -> Op {
        let entry = FreeEntry { owner: self.me, class: CLASS_RAW };
        Op::Patch(free_parts(&(at..at + count).map(|i| (i, entry)).collect::<Vec<_>>()))
    }

    pub(super) async fn read_free_entry(
        &self,
        ctx: &Ctx,
        segment: &Segment,
        ordinal: u32,
    ) -> Result<FreeEntry> {
        let (k, at) = free_map_of(ordinal);
        let map = self.dba(ctx, segment, free_map_ordinal(k)).await?;
        let id = segment.id;
        self.cache.read(ctx, map, |b| id.check_free_map(b).map(|()| free_entry(b, at))).await?
    }

    /// A formatted block that has room for a row which takes `need_bytes`, as far as is known here:
    /// the caller looks again under the latch and, if it has not, says so ([`Space::note_full`])
    /// and
    /// comes back with `tries` raised by one. `hint` (the session) chooses among the open blocks.
    /// With it comes how many of the `rows` that wait to be inserted it is to be given at most.
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::ObjectGone`], or the session was interrupted.
    pub async fn block_for_insert(
        &self,
        ctx: &Ctx,
        id: SegmentId,
        need_bytes: usize,
        rows: usize,
        hint: u64,
        tries: u32,
    ) -> Result<(Dba, usize)> {
        let segment = self.segment(id);
        let slot = usize::try_from(hint % OPEN_BLOCKS as u64).unwrap_or(0);
        let fresh = tries >= TRIES_BEFORE_FRESH;
        loop {
            let spare = {
                let mut pool = segment.pool();
                if let Some(offer) = pool.offer(slot, need_bytes, rows) {
                    return Ok(offer);
                }
                pool.take_spare(need_bytes, fresh)
            };
            let Some(spare) = spare else {
                self.refill(ctx, &segment, need_bytes, fresh).await?;
                continue;
            };
            match self.open_block(ctx, &segment, spare).await {
                Ok(open) => self.install(&segment, slot, open),
                Err(e) => {
                    segment.pool().spare.push_front(spare);
                    return Err(e);
                }
            }
        }
    }

    /// Makes a spare block ready: formats it if it has never been.
    async fn open_block(&self, ctx: &Ctx, segment: &Segment, spare: Spare) -> Result<Open> {
        let id = segment.id;
        let dba = self.dba(ctx, segment, spare.ordinal).await?;
        let room = spare.room();
        let first = FirstRows::of(spare);
        let open = Open { dba, ordinal: spare.ordinal, first, room, potential: room };
        if spare.class != CLASS_RAW {
            return Ok(open);
        }
        self.cache.log.throttle(ctx).await?;
        let (obj, birth, itl) = (id.obj, id.birth, itl::ITL_INITIAL);
        let format = Op::Format { kind: Kind::Heap, obj, birth, level: 0, itl };
        let pin = if spare.fresh {
            self.cache.pin_formatted(ctx, dba, format.clone()).await?
        } else {
            self.cache.pin(ctx, dba, Mode::X).await?
        };
        let mut change = Change::begin(&self.cache, &[&pin]);
        // Granted and formatted at once; or claimed in an earlier life of this instance: it may
        // have been filled since.
        if !is_own(change.block(0), id, &[Kind::Heap]) {
            change.push(0, format);
            change.commit(ctx, Xid::NONE, RecordKind::Change);
        }
        Ok(open)
    }

    fn install(&self, segment: &Segment, slot: usize, open: Open) {
        let mut pool = segment.pool();
        let partly_used = pool.spare.iter().filter(|s| s.class != CLASS_RAW).count();
        match pool.open[slot].replace(open) {
            // What comes next goes behind its rows, not between: it is as good as full.
            Some(old) if old.first.is_some() => pool.retire(Open { potential: 0, ..old }),
            Some(old) if old.room >= KEEP_ROOM && partly_used < CLAIM_MAX => {
                let class = class_of(old.room);
                pool.spare.push_back(Spare { ordinal: old.ordinal, class, fresh: false });
            }
            Some(old) => pool.retire(old),
            None => {}
        }
    }

    /// The block has only `room_bytes` free for a row now, and `potential_bytes` once its deleted
    /// rows may be purged.
    pub fn note_full(&self, id: SegmentId, dba: Dba, room_bytes: usize, potential_bytes: usize) {
        let segment = self.segment(id);
        let mut pool = segment.pool();
        for open in pool.open.iter_mut().flatten().filter(|o| o.dba == dba) {
            open.room = room_bytes;
            open.potential = potential_bytes;
        }
    }

    /// Deletes have made room in a block: `potential_bytes` will be free once they are settled.
    ///
    /// # Errors
    /// [`Error::ObjectGone`], or the session was interrupted while it wrote the notes down.
    pub async fn note_room(
        &self,
        ctx: &Ctx,
        id: SegmentId,
        dba: Dba,
        potential_bytes: usize,
    ) -> Result<()> {
        let class = class_of(potential_bytes);
        if class < WORTH_CLASS {
            return Ok(());
        }
        let segment = self.segment(id);
        let Some(ordinal) = self.ordinal(ctx, &segment, dba).await? else { return Ok(()) };
        let many = {
            let mut pool = segment.pool();
            if is_meta(ordinal) || pool.heard_of_room(ordinal, class, potential_bytes) {
                return Ok(());
            }
            pool.freed.insert(ordinal, class);
            pool.freed.len() >= FREED_MAX
        };
        if !many {
            return Ok(());
        }
        // Another session at work will see to it, or the next note.
        let request = ctx.ask_enqueue(WaitEvent::EnqHw);
        if let Ok(_work) = segment.work.try_lock() {
            let _held = request.granted();
            self.write_notes(ctx, &segment, None).await?;
        }
        Ok(())
    }

    /// Finds blocks for the pool: what deletes have freed, what the FreeMap knows, or new ones.
    async fn refill(&self, ctx: &Ctx, segment: &Segment, need: usize, fresh: bool) -> Result<()> {
        let _work = segment.take_work(ctx).await?;
        if !segment.pool().loaded {
            self.load(ctx, segment, SegmentKind::Heap).await?;
        }
        let found = |pool: &Pool| {
            let fits = |s: &Spare| s.room() >= need && (!fresh || s.class == CLASS_RAW);
            pool.spare.iter().any(fits)
        };
        // Another session may have refilled the pool while this one waited.
        if found(&segment.pool()) {
            return Ok(());
        }
        self.write_notes(ctx, segment, (!fresh).then_some(need)).await?;
        if found(&segment.pool()) {
            return Ok(());
        }
        let chunk = (segment.extents().blocks() / RAISE_PART).clamp(RAISE_MIN, RAISE_MAX);
        let new = self.raise_hwm(ctx, segment, chunk).await?;
        let fresh = |ordinal| Spare { ordinal, class: CLASS_RAW, fresh: true };
        segment.pool().spare.extend(new.map(fresh));
        Ok(())
    }

    /// Takes up again what the FreeMap says is this instance's, from before it was restarted.
    async fn load(&self, ctx: &Ctx, segment: &Segment, kind: SegmentKind) -> Result<()> {
        let id = segment.id;
        self.learn_extents(ctx, segment).await?;
        let hwm = self.segment_info(ctx, id.header).await?.hwm;
        let mut mine: Vec<Spare> = Vec::new();
        for k in 0..hwm.div_ceil(FREE_MAP_BLOCKS) {
            let map = self.dba(ctx, segment, free_map_ordinal(k)).await?;
            let me = self.me;
            let found = self.cache.read(ctx, map, |b| -> Result<Vec<Spare>> {
                id.check_free_map(b)?;
                let entries = (0..FREE_MAP_BLOCKS).map(|at| (at, free_entry(b, at)));
                Ok(entries
                    .filter(|(_, e)| e.owner == me)
                    .map(|(at, e)| Spare {
                        ordinal: k * FREE_MAP_BLOCKS + at,
                        class: e.class,
                        fresh: false,
                    })
                    .collect())
            });
            mine.extend(found.await??);
        }
        let mut used = BTreeMap::new();
        if kind == SegmentKind::Index {
            // An index block is in use as soon as it is formatted.
            for spare in &mine {
                let dba = self.dba(ctx, segment, spare.ordinal).await?;
                let own = |b: &[u8]| is_own(b, id, &[Kind::Leaf, Kind::Branch]);
                if self.cache.read(ctx, dba, own).await? {
                    used.insert(spare.ordinal, 0);
                }
            }
        }
        let mut pool = segment.pool();
        pool.spare = mine.into_iter().filter(|s| !used.contains_key(&s.ordinal)).collect();
        pool.retired.append(&mut used);
        pool.loaded = true;
        Ok(())
    }

    /// Writes down what the pool knows about blocks done with and blocks freed; with `need`, claims
    /// blocks that have so much room on the way. Called under the work lock.
    async fn write_notes(&self, ctx: &Ctx, segment: &Segment, need: Option<usize>) -> Result<()> {
        let mut maps: BTreeMap<u32, MapWork> = BTreeMap::new();
        let mut cursor = 0;
        {
            let mut pool = segment.pool();
            for (ordinal, class) in std::mem::take(&mut pool.retired) {
                let (k, at) = free_map_of(ordinal);
                maps.entry(k).or_default().retired.push((at, class));
            }
            for (ordinal, class) in std::mem::take(&mut pool.freed) {
                let (k, at) = free_map_of(ordinal);
                maps.entry(k).or_default().freed.push((at, class));
            }
            if need.is_some() {
                let count = segment.extents().blocks().div_ceil(FREE_MAP_BLOCKS).max(1);
                cursor = pool.cursor % count;
                pool.cursor = cursor + 1;
                maps.entry(cursor).or_default();
            }
        }
        let mut result = Ok(());
        for (k, work) in maps {
            if result.is_ok() {
                let need = need.filter(|_| k == cursor || !work.freed.is_empty());
                result = self.write_map(ctx, segment, k, &work, need).await;
            }
            if result.is_err() {
                // Nothing of this map was written: keep its notes.
                let mut pool = segment.pool();
                let ordinal = |at| k * FREE_MAP_BLOCKS + at;
                pool.retired.extend(work.retired.iter().map(|(at, c)| (ordinal(*at), *c)));
                pool.freed.extend(work.freed.iter().map(|(at, c)| (ordinal(*at), *c)));
            }
        }
        result
    }

    async fn write_map(
        &self,
        ctx: &Ctx,
        segment: &Segment,
        k: u32,
        work: &MapWork,
        need: Option<usize>,
    ) -> Result<()> {
        let extents = segment.extents();
        let Some(map) = extents.dba(free_map_ordinal(k)) else { return Ok(()) };
        let id = segment.id;
        // A FreeMap above the high-water mark does not exist yet: nothing can be claimed there.
        if !self.cache.read(ctx, map, |b| is_own(b, id, &[Kind::FreeMap])).await? {
            return Ok(());
        }
        self.cache.log.throttle(ctx).await?;
        let pin = self.cache.pin(ctx, map, Mode::X).await?;
        let mut change = Change::begin(&self.cache, &[&pin]);
        id.check_free_map(change.block(0))?;
        let mut now: BTreeMap<u32, FreeEntry> = BTreeMap::new();
        for &(at, class) in &work.retired {
            now.insert(at, FreeEntry { owner: FreeEntry::NOBODY, class });
        }
        let b = change.block(0);
        for &(at, class) in &work.freed {
            // Another instance's blocks are its own to look after.
            if free_entry(b, at).owner == FreeEntry::NOBODY || now.contains_key(&at) {
                now.insert(at, FreeEntry { owner: FreeEntry::NOBODY, class });
            }
        }
        let claimed = need.map_or_else(Vec::new, |need| {
            let known = |at| now.get(&at).copied().unwrap_or_else(|| free_entry(b, at));
            (0..FREE_MAP_BLOCKS)
                .map(|at| (at, known(at)))
                .filter(|(_, e)| e.owner == FreeEntry::NOBODY && e.class <= CLASS_EMPTY)
                .filter(|(_, e)| e.class >= WORTH_CLASS && class_room(e.class) >= need)
                .take(CLAIM_MAX)
                .collect()
        });
        for (at, e) in &claimed {
            now.insert(*at, FreeEntry { owner: self.me, class: e.class });
        }
        let entries: Vec<_> = now.into_iter().filter(|(at, e)| free_entry(b, *at) != *e).collect();
        if !entries.is_empty() {
            change.push(0, Op::Patch(free_parts(&entries)));
            change.commit(ctx, Xid::NONE, RecordKind::Change);
        }
        let spare = |(at, e): &(u32, FreeEntry)| Spare {
            ordinal: k * FREE_MAP_BLOCKS + at,
            class: e.class,
            fresh: false,
        };
        segment.pool().spare.extend(claimed.iter().map(spare));
        Ok(())
    }

    /// A block for an index to grow by; unformatted. The caller formats it (`pin_formatted`, then a
    /// format with the segment's object and birth) or gives it back with [`Space::free_block`].
    ///
    /// # Errors
    /// [`Error::DiskFull`], [`Error::ObjectGone`], or the session was interrupted.
    pub async fn alloc_block(&self, ctx: &Ctx, header: Dba) -> Result<Dba> {
        let segment = self.segment(self.segment_id(ctx, header).await?);
        loop {
            let spare = {
                let mut pool = segment.pool();
                let spare = pool.spare.pop_front();
                if let Some(s) = spare {
                    pool.handed.insert(s.ordinal);
                }
                spare
            };
            if let Some(spare) = spare {
                return self.dba(ctx, &segment, spare.ordinal).await;
            }
            let _work = segment.take_work(ctx).await?;
            if !segment.pool().loaded {
                self.load(ctx, &segment, SegmentKind::Index).await?;
            }
            if !segment.pool().spare.is_empty() {
                continue;
            }
            {
                let mut pool = segment.pool();
                let handed = std::mem::take(&mut pool.handed);
                pool.retired.extend(handed.into_iter().map(|ordinal| (ordinal, 0)));
            }
            self.write_notes(ctx, &segment, None).await?;
            let part = segment.extents().blocks() / RAISE_PART;
            let new = self.raise_hwm(ctx, &segment, part.clamp(2, RAISE_MAX / 2)).await?;
            let fresh = |ordinal| Spare { ordinal, class: CLASS_RAW, fresh: true };
            segment.pool().spare.extend(new.map(fresh));
        }
    }

    /// Takes back a block from [`Space::alloc_block`] that was not formatted after all.
    ///
    /// # Errors
    /// [`Error::ObjectGone`]: the segment was dropped.
    pub async fn free_block(&self, ctx: &Ctx, header: Dba, dba: Dba) -> Result<()> {
        let segment = self.segment(self.segment_id(ctx, header).await?);
        let Some(ordinal) = self.ordinal(ctx, &segment, dba).await? else { return Ok(()) };
        let mut pool = segment.pool();
        pool.handed.remove(&ordinal);
        // Its FreeMap entry may say "used" by now, which only means that a crash would lose it.
        pool.spare.push_front(Spare { ordinal, class: CLASS_RAW, fresh: true });
        Ok(())
    }

    /// Writes down all notes and gives up all claims on heap blocks, so that other instances can
    /// use
    /// them: for a clean close.
    ///
    /// # Errors
    /// Those of writing the FreeMaps; what was not written is found again at the next open.
    pub async fn close(&self, ctx: &Ctx) -> Result<()> {
        let mut segments: Vec<Arc<Segment>> = self.segments.read().values().cloned().collect();
        segments.sort_unstable_by_key(|s| (s.id.header, s.id.birth));
        for segment in segments {
            let header = segment.id.header;
            let p = [enq_p1(*b"HW", 6), u64::from(header.file), u64::from(header.block)];
            let request = ctx.ask_enqueue(WaitEvent::EnqHw);
            let _work = ctx.wait(WaitEvent::EnqHw, p, segment.work.lock()).await;
            let _held = request.granted();
            {
                let mut pool = segment.pool();
                for open in std::mem::take(&mut pool.open).into_iter().flatten() {
                    pool.retire(open);
                }
                let (raw, used): (VecDeque<Spare>, VecDeque<Spare>) =
                    std::mem::take(&mut pool.spare).into_iter().partition(|s| s.class == CLASS_RAW);
                // Raw blocks stay this instance's: only the owner knows that they mean nothing.
                pool.spare = raw;
                pool.retired.extend(used.iter().map(|s| (s.ordinal, s.class)));
                let handed = std::mem::take(&mut pool.handed);
                pool.retired.extend(handed.into_iter().map(|ordinal| (ordinal, 0)));
            }
            match self.write_notes(ctx, &segment, None).await {
                // Dropped by another instance.
                Ok(()) | Err(crate::error::Error::ObjectGone) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

/// Whether the block is one of these kinds and of this segment.
fn is_own(b: &[u8], id: SegmentId, kinds: &[Kind]) -> bool {
    kinds.contains(&layout::kind(b)) && layout::obj(b) == id.obj && layout::birth(b) == id.birth
}
