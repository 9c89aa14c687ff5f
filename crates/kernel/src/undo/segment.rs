//! One undo segment in memory.

use std::collections::VecDeque;
use std::sync::Arc;

use block::bytes::{get_u16, get_u32, get_u64};
use block::layout::{self, Kind};
use block::op::Op;
use block::redo::RecordKind;
use block::undo::{
    self, OFF_EXTENT_LIST, OFF_EXTENTS, OFF_FORGOTTEN, OFF_SEQ_FLOOR, TX_SLOT_COUNT, TxSlot,
    TxState, UNDO_EXTENTS_MAX,
};
use block::{Dba, InstanceNo, Mode, ObjId, Scn, Uba, UndoNo, Xid};
use env::Micros;
use env::latch::{Latch, LatchCounts, LatchList};
use observe::{Ctx, EnqueueKind, HeldEnqueue};

use rustc_hash::FxHashMap;
use tokio::sync::Notify;

use super::history::UndoBlocks;
use super::past::Past;
use super::supply::Supply;
use crate::cache::{Cache, Pin};
use crate::change::Change;
use crate::error::{Error, Result};
use crate::shown::{SEGMENTS_SHOWN, Shown, TxShown};
use crate::space;

/// File of the undo blocks.
pub const UNDO_FILE: u16 = 3;
/// File of the segment headers: block number = segment number. The highest of the data files, so
/// that a header may be latched after any other block.
pub const UNDO_HEADER_FILE: u16 = 63;
/// Blocks of the smallest undo extent, of which the others are multiples.
pub const UNDO_EXTENT_BLOCKS: u32 = 128;
/// Undo segments an instance is born with.
const SEGMENTS_PER_INSTANCE: u16 = SEGMENTS_SHOWN;
/// So many transactions of one slot at most can be lost with the redo that a crash takes along: the
/// log buffer holds no more of them.
const SEQ_GAP: u32 = 1 << 14;
/// A block with less room than this is not used on by another transaction.
const POOL_ROOM_BYTES: usize = 1024;

#[must_use]
pub fn header_dba(usn: u16) -> Dba {
    Dba::new(UNDO_HEADER_FILE, u32::from(usn))
}

/// The segments instance `k` is born with.
pub fn segments_of(k: InstanceNo) -> impl Iterator<Item = u16> {
    let first = u16::from(k.0 - 1) * SEGMENTS_PER_INSTANCE + 1;
    first..first + SEGMENTS_PER_INSTANCE
}

/// Formats the header of a new segment. Database creation only.
///
/// # Errors
/// A disk error.
pub async fn format_header(ctx: &Ctx, cache: &Arc<Cache>, usn: u16) -> Result<()> {
    let pin = cache.pin_new(ctx, header_dba(usn)).await?;
    let mut change = Change::begin(cache, &[&pin]);
    let op =
        Op::Format { kind: Kind::UndoHeader, obj: ObjId(0), birth: Scn::ZERO, level: 0, itl: 0 };
    change.push(0, op);
    change.commit(ctx, Xid::NONE, RecordKind::Change);
    Ok(())
}

/// Makes a block one for undo, with no records yet.
pub(crate) fn format_block() -> Op {
    Op::Format { kind: Kind::Undo, obj: ObjId(0), birth: Scn::ZERO, level: 0, itl: 0 }
}

/// State of a transaction in its slot, as its owner knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TxMem {
    Free,
    Active,
    /// The commit record is appended, its outcome not yet certain.
    Committing(Scn),
    Committed(Scn),
}

impl From<TxMem> for TxShown {
    fn from(state: TxMem) -> TxShown {
        match state {
            TxMem::Free => TxShown::Gone,
            TxMem::Active => TxShown::Active,
            TxMem::Committing(scn) => TxShown::Committing(scn),
            TxMem::Committed(scn) => TxShown::Committed(scn),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct MemSlot {
    seq: u32,
    /// The number at loading. What lies between it and the floor never was, or is lost.
    loaded: u32,
    state: TxMem,
    /// When it was rolled back.
    ended: Scn,
}

impl MemSlot {
    /// Nothing that the transaction has left behind, or has hidden, is newer than this.
    fn ended(&self) -> Scn {
        if let TxMem::Committed(scn) = self.state { scn } else { self.ended }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub first: Dba,
    pub blocks: u32,
    /// Running transactions that have blocks of it.
    pub active: u32,
    /// Of the newest transaction that had blocks of it: its end.
    pub last_scn: Scn,
    pub last_end: Micros,
}

pub(super) struct Inner {
    slots: Vec<MemSlot>,
    /// Slots that may be used anew, oldest end first.
    reuse: VecDeque<u16>,
    /// Numbers given out lie above it.
    seq_floor: u32,
    /// Of all slots used anew: what a restart goes by.
    forgotten: Scn,
    past: Past,
    pub extents: Vec<Extent>,
    pub current: usize,
    pub next_block: u32,
    pub pool: Vec<(Dba, usize)>,
    /// Reserved blocks that no transaction has written to.
    pub spares: Vec<(Dba, usize)>,
    waiters: FxHashMap<u16, Arc<Notify>>,
    /// Found active at loading: their records may lie in any extent.
    pub left_by_crash: Vec<Xid>,
    /// The most blocks it has had since then, and how often it gave some to another segment.
    pub blocks_most: u64,
    pub lent: u64,
}

/// What `v$rollstat`-like reports show.
#[derive(Clone, Copy, Debug)]
pub struct UndoReport {
    pub usn: u16,
    pub extents: usize,
    pub blocks: u64,
    /// Transactions that have not ended.
    pub active: usize,
    /// The blocks by who needs them.
    pub states: UndoBlocks,
    /// The extent that undo goes to, and the block in it; `None`: none has been needed yet.
    pub current: Option<(usize, u32)>,
    /// The most blocks since the instance began to answer for it, and how often it gave some to
    /// another segment.
    pub blocks_most: u64,
    pub lent: u64,
    /// Requests for its latch, and those that slept.
    pub latched: LatchCounts,
}

/// An undo segment this instance answers for.
pub struct Segment {
    pub usn: u16,
    pub header: Arc<Pin>,
    pub(super) inner: Latch<Inner>,
    /// Where others of the machine see the states; `None` for an adopted segment: they ask.
    shown: Option<Arc<Shown>>,
}

/// Where a transaction writes its undo.
pub struct Cursor {
    pub segment: Arc<Segment>,
    pub xid: Xid,
    pub block: Arc<Pin>,
    extent: usize,
    /// The block has no record of the transaction yet: it is formatted with the first one.
    pub fresh: bool,
    /// The header does not name the transaction yet.
    pub begun: bool,
    pub tail: Uba,
    pub undo_no: UndoNo,
    /// Reserved for a record that does not fit the current block.
    pub spare: Option<(Arc<Pin>, usize)>,
    used: Vec<usize>,
    /// The transaction's own enqueue, which is let go with the cursor.
    _own: HeldEnqueue,
}

impl Segment {
    /// Loads the segment from its header block; `own`: this instance was born with it.
    ///
    /// # Errors
    /// The header cannot be read.
    pub async fn load(ctx: &Ctx, cache: &Arc<Cache>, usn: u16, own: bool) -> Result<Segment> {
        let pin = cache.pin(ctx, header_dba(usn), Mode::X).await?;
        let now = cache.env.now();
        let (slots, extents, forgotten, seq_floor) = {
            let b = pin.read();
            if layout::kind(&b) != Kind::UndoHeader {
                let what = "not an undo segment header".to_owned();
                return Err(Error::Corrupt { dba: pin.dba(), what });
            }
            let slots: Vec<MemSlot> = (0..TX_SLOT_COUNT)
                .map(|i| {
                    let s = TxSlot::get(&b, i);
                    let state = match s.state {
                        TxState::Free => TxMem::Free,
                        TxState::Active => TxMem::Active,
                        TxState::Committed => TxMem::Committed(s.scn),
                    };
                    MemSlot { seq: s.seq, loaded: s.seq, state, ended: s.scn }
                })
                .collect();
            let last_scn = cache.clock.current();
            let extents: Vec<Extent> = extents_of(&b)
                .map(|e| {
                    let space::Extent { first, blocks } = e;
                    Extent { first, blocks, active: 0, last_scn, last_end: now }
                })
                .collect();
            let seq_floor = get_u32(&b, OFF_SEQ_FLOOR);
            (slots, extents, Scn(get_u64(&b, OFF_FORGOTTEN)), seq_floor)
        };
        let reuse =
            (0..TX_SLOT_COUNT).filter(|&i| slots[usize::from(i)].state != TxMem::Active).collect();
        let left_by_crash = (0..TX_SLOT_COUNT)
            .zip(&slots)
            .filter(|(_, s)| s.state == TxMem::Active)
            .map(|(slot, s)| Xid { usn, slot, seq: s.seq })
            .collect();
        let inner = Inner {
            left_by_crash,
            slots,
            reuse,
            seq_floor,
            forgotten,
            past: Past::new(forgotten),
            // What is there may be needed by readers and by rollback: begin with the oldest extent
            // only after its retention.
            current: extents.len(),
            blocks_most: extents.iter().map(|e| u64::from(e.blocks)).sum(),
            lent: 0,
            extents,
            next_block: 0,
            pool: Vec::new(),
            spares: Vec::new(),
            waiters: FxHashMap::default(),
        };
        let shown = cache.shown.clone().filter(|_| own);
        let segment = Segment {
            usn,
            header: Arc::new(pin),
            inner: Latch::new("undo global data", inner),
            shown,
        };
        for (slot, s) in (0..TX_SLOT_COUNT).zip(&segment.inner.lock().slots) {
            segment.show(Xid { usn, slot, seq: s.seq }, s.state);
        }
        Ok(segment)
    }

    /// Others see the state from now on; under the segment's lock.
    fn show(&self, xid: Xid, state: TxMem) {
        if let Some(shown) = &self.shown {
            shown.set_transaction(xid, state.into());
        }
    }

    /// Makes ready for new transactions: their numbers will be above all that any earlier life can
    /// have given out, durable or not. Others may remember those (hazard H1). It must be durable
    /// before the first transaction begins.
    pub fn begin_life(&self, ctx: &Ctx, cache: &Arc<Cache>) {
        let floor = {
            let mut inner = self.inner.lock();
            let used = inner.slots.iter().map(|s| s.seq).max().unwrap_or(0);
            inner.seq_floor = used.max(inner.seq_floor) + SEQ_GAP;
            inner.seq_floor
        };
        let mut change = Change::begin(cache, &[&self.header]);
        let patch = block::op::patch_u32(block::bytes::u16_of(OFF_SEQ_FLOOR), floor);
        change.push(0, Op::Patch(vec![patch]));
        change.commit(ctx, Xid::NONE, RecordKind::Change);
    }

    /// Transactions that were active when the segment was loaded and are not rolled back yet.
    #[must_use]
    pub fn left_by_crash(&self) -> Vec<Xid> {
        self.inner.lock().left_by_crash.clone()
    }

    /// State of `xid`; `Err(bound)`: forgotten, it ended at that SCN or before.
    pub fn status(&self, xid: Xid) -> std::result::Result<TxMem, Scn> {
        let inner = self.inner.lock();
        let slot = inner.slots[usize::from(xid.slot)];
        match slot.seq.cmp(&xid.seq) {
            std::cmp::Ordering::Equal => Ok(slot.state),
            // Beyond what the table knows: it never was (hazard H1).
            std::cmp::Ordering::Less => Ok(TxMem::Free),
            // Of a life whose redo is lost: it has left nothing that anybody could find.
            std::cmp::Ordering::Greater if slot.loaded < xid.seq && xid.seq <= inner.seq_floor => {
                Ok(TxMem::Free)
            }
            std::cmp::Ordering::Greater => inner.past.end_of(xid),
        }
    }

    /// A notifier that is woken when `xid` ends; `None` if it has ended.
    pub fn waiter(&self, xid: Xid) -> Option<Arc<Notify>> {
        let mut inner = self.inner.lock();
        let slot = inner.slots[usize::from(xid.slot)];
        let running = matches!(slot.state, TxMem::Active | TxMem::Committing(_));
        if slot.seq != xid.seq || !running {
            return None;
        }
        Some(inner.waiters.entry(xid.slot).or_default().clone())
    }

    /// Sets the state of a running transaction. `f` runs in the same critical section (it draws the
    /// commit SCN there, hazard H8).
    pub fn set_state(&self, xid: Xid, f: impl FnOnce() -> TxMem) -> TxMem {
        let mut inner = self.inner.lock();
        let slot = &mut inner.slots[usize::from(xid.slot)];
        assert!(slot.seq == xid.seq, "slot of {xid} has been used anew");
        // Who sees the state as it was has raised the clock before the SCN is drawn (hazard H8).
        if let Some(shown) = &self.shown {
            shown.undecided(xid);
        }
        slot.state = f();
        self.show(xid, slot.state);
        slot.state
    }

    /// Takes a slot for a new transaction; `None` if all are active, or most of them ended later
    /// than `youngest`. No snapshot is older than `horizon`.
    fn take_slot(&self, youngest: Scn, horizon: Scn) -> Option<Xid> {
        let mut inner = self.inner.lock();
        let i = inner.reuse.pop_front()?;
        let old = inner.slots[usize::from(i)];
        // Young slots wait their turn while another segment has older ones.
        if old.ended() > youngest && inner.reuse.len() > usize::from(TX_SLOT_COUNT) / 2 {
            inner.reuse.push_front(i);
            return None;
        }
        inner.forgotten = inner.forgotten.max(old.ended());
        if old.ended() > Scn::ZERO {
            let ended = Xid { usn: self.usn, slot: i, seq: old.seq };
            inner.past.remember(ended, old.state, old.ended(), horizon);
        }
        let seq = old.seq.max(inner.seq_floor) + 1;
        let new = MemSlot { seq, state: TxMem::Active, ended: Scn::ZERO, ..old };
        inner.slots[usize::from(i)] = new;
        let xid = Xid { usn: self.usn, slot: i, seq };
        self.show(xid, TxMem::Active);
        Some(xid)
    }

    /// Highest SCN of an end whose slot has been used anew.
    #[must_use]
    pub fn forgotten(&self) -> Scn {
        self.inner.lock().forgotten
    }

    /// Begins a transaction here: a slot and an undo block. `None`: no slot is free whose last
    /// transaction ended at `youngest` or before.
    ///
    /// # Errors
    /// No undo space; a disk error.
    pub async fn begin(
        self: &Arc<Segment>,
        ctx: &Ctx,
        supply: &Supply<'_>,
        youngest: Scn,
    ) -> Result<Option<Cursor>> {
        let Some(xid) = self.take_slot(youngest, supply.horizon) else { return Ok(None) };
        let pooled = self.inner.lock().take_pooled();
        let block = match pooled {
            Some((dba, extent)) => match supply.cache.pin(ctx, dba, Mode::X).await {
                Ok(pin) => Ok((pin, extent, false)),
                Err(e) => {
                    self.inner.lock().extents[extent].active -= 1;
                    Err(e)
                }
            },
            None => self.new_block(ctx, supply).await.map(|(p, extent)| (p, extent, true)),
        };
        let (pin, extent, fresh) = match block {
            Ok(b) => b,
            Err(e) => {
                self.abandon(xid);
                return Err(e);
            }
        };
        Ok(Some(Cursor {
            segment: self.clone(),
            xid,
            block: Arc::new(pin),
            extent,
            fresh,
            begun: false,
            tail: Uba::NONE,
            undo_no: UndoNo(0),
            spare: None,
            used: vec![extent],
            _own: ctx.take_enqueue(EnqueueKind::Transaction),
        }))
    }

    /// Gives back the slot of a transaction that has changed nothing.
    fn abandon(&self, xid: Xid) {
        let mut inner = self.inner.lock();
        inner.slots[usize::from(xid.slot)].state = TxMem::Free;
        self.show(xid, TxMem::Free);
        inner.reuse.push_back(xid.slot);
    }

    /// A block for undo, pinned for formatting. Its extent counts as in use by one more from before
    /// the first wait on: until then nobody else may enter it anew.
    async fn new_block(&self, ctx: &Ctx, supply: &Supply<'_>) -> Result<(Pin, usize)> {
        let Supply { cache, horizon, retention_us, .. } = *supply;
        loop {
            let found = {
                let mut inner = self.inner.lock();
                let found = match inner.spares.pop() {
                    Some(spare) => Some(spare),
                    None => inner.take_block(cache.env.now(), horizon, retention_us),
                };
                if let Some((_, extent)) = found {
                    inner.extents[extent].active += 1;
                }
                found
            };
            if let Some((dba, extent)) = found {
                // Whoever may look for what it held is refused from now on: it has been given up.
                match cache.pin_formatted(ctx, dba, format_block()).await {
                    Ok(pin) => return Ok((pin, extent)),
                    Err(e) => {
                        let mut inner = self.inner.lock();
                        inner.extents[extent].active -= 1;
                        inner.spares.push((dba, extent));
                        return Err(e);
                    }
                }
            }
            self.extend(ctx, supply).await?;
        }
    }

    /// Tells of its latch.
    pub(crate) fn latches(&self, list: &mut LatchList) {
        list.add(&self.inner);
    }

    /// How it stands at this time. `retention_us`: how long undo is kept for readers.
    #[must_use]
    pub fn report(&self, now: Micros, retention_us: u64) -> UndoReport {
        let inner = self.inner.lock();
        let mut states = UndoBlocks::default();
        for extent in &inner.extents {
            let blocks = u64::from(extent.blocks);
            if extent.active > 0 {
                states.active += blocks;
            } else if now.since(extent.last_end) < retention_us {
                states.unexpired += blocks;
            } else {
                states.expired += blocks;
            }
        }
        let active = inner.slots.iter().filter(|s| s.state == TxMem::Active).count();
        let blocks = inner.extents.iter().map(|e| u64::from(e.blocks)).sum();
        let begun = inner.current < inner.extents.len();
        let current = begun.then(|| (inner.current, inner.next_block.saturating_sub(1)));
        let extents = inner.extents.len();
        UndoReport {
            usn: self.usn,
            extents,
            blocks,
            active,
            states,
            current,
            blocks_most: inner.blocks_most,
            lent: inner.lent,
            latched: self.inner.counts(),
        }
    }

    /// The transaction has ended in `state` at `scn`: its slot and blocks may be used on. Its undo
    /// is
    /// kept while a snapshot is older than that, rolled back or not: the records tell what it had
    /// taken over.
    pub fn finish(&self, cursor: &mut Cursor, state: TxMem, scn: Scn, now: Micros) {
        let xid = cursor.xid;
        let room = {
            let b = cursor.block.read();
            !cursor.fresh && undo::fits(&b, POOL_ROOM_BYTES)
        };
        let mut inner = self.inner.lock();
        let slot = &mut inner.slots[usize::from(xid.slot)];
        assert!(slot.seq == xid.seq, "slot of {xid} has been used anew");
        slot.state = state;
        slot.ended = scn;
        self.show(xid, state);
        inner.reuse.push_back(xid.slot);
        for &e in &cursor.used {
            let extent = &mut inner.extents[e];
            extent.active -= 1;
            extent.last_scn = extent.last_scn.max(scn);
            extent.last_end = now;
        }
        if cursor.fresh {
            inner.spares.push((cursor.block.dba(), cursor.extent));
        } else if room && inner.pool.len() < 8 {
            inner.pool.push((cursor.block.dba(), cursor.extent));
        }
        if let Some((pin, extent)) = cursor.spare.take() {
            inner.extents[extent].active -= 1;
            inner.spares.push((pin.dba(), extent));
        }
        if let Some(w) = inner.waiters.remove(&xid.slot) {
            w.notify_waiters();
        }
    }

    /// A transaction found active at start-up has been rolled back, at `scn`.
    pub fn finish_recovered(&self, xid: Xid, scn: Scn) {
        let mut inner = self.inner.lock();
        inner.left_by_crash.retain(|x| *x != xid);
        let slot = &mut inner.slots[usize::from(xid.slot)];
        slot.state = TxMem::Free;
        slot.ended = scn;
        self.show(xid, TxMem::Free);
        inner.reuse.push_back(xid.slot);
        if let Some(w) = inner.waiters.remove(&xid.slot) {
            w.notify_waiters();
        }
    }
}

/// An extent as its segment's header has it: the address of its first block below, above it how
/// often it is as long as the smallest, less one.
pub(super) fn pack(first: Dba, blocks: u32) -> u64 {
    first.to_u64() | u64::from(blocks / UNDO_EXTENT_BLOCKS - 1) << 48
}

/// The extents that the header of an undo segment names.
pub fn extents_of(header: &[u8]) -> impl Iterator<Item = space::Extent> + '_ {
    let n = usize::from(get_u16(header, OFF_EXTENTS)).min(UNDO_EXTENTS_MAX);
    (0..n).map(|i| {
        let (first, blocks) = unpack(get_u64(header, OFF_EXTENT_LIST + 8 * i));
        space::Extent { first, blocks }
    })
}

fn unpack(packed: u64) -> (Dba, u32) {
    let times = u32::try_from(packed >> 48).expect("16 bits") + 1;
    (Dba::from_u64(packed & ((1 << 48) - 1)), times * UNDO_EXTENT_BLOCKS)
}

impl Inner {
    /// A block with room that an ended transaction has left, its extent counted as in use.
    fn take_pooled(&mut self) -> Option<(Dba, usize)> {
        let (dba, extent) = self.pool.pop()?;
        self.extents[extent].active += 1;
        Some((dba, extent))
    }

    /// The next block of the ring, if the extent it lies in may be used.
    fn take_block(&mut self, now: Micros, horizon: Scn, retention_us: u64) -> Option<(Dba, usize)> {
        if self.extents.get(self.current).is_some_and(|e| self.next_block < e.blocks) {
            return Some(self.advance());
        }
        if self.extents.is_empty() {
            return None;
        }
        let next = (self.current + 1) % self.extents.len().max(1);
        let e = self.extents[next];
        let old = e.last_scn < horizon && now.since(e.last_end) > retention_us;
        let needed = e.active > 0 || !old || !self.left_by_crash.is_empty();
        if needed && !global::broken(global::Mutant::ReuseUndoEarly) {
            return None;
        }
        self.enter(next);
        Some(self.advance())
    }

    pub fn enter(&mut self, extent: usize) {
        self.pool.retain(|&(_, e)| e != extent);
        self.spares.retain(|&(_, e)| e != extent);
        self.current = extent;
        self.next_block = 0;
    }

    fn advance(&mut self) -> (Dba, usize) {
        let first = self.extents[self.current].first;
        let dba = Dba::new(first.file, first.block + self.next_block);
        self.next_block += 1;
        (dba, self.current)
    }
}

impl Cursor {
    /// Makes sure that any undo record can be written: if the current block may be too full, a
    /// spare is at hand.
    ///
    /// # Errors
    /// No undo space.
    pub async fn prepare(&mut self, ctx: &Ctx, supply: &Supply<'_>) -> Result<()> {
        let roomy = self.fresh || undo::fits(&self.block.read(), undo::UNDO_RECORD_BYTES_MAX);
        if roomy || self.spare.is_some() {
            return Ok(());
        }
        let segment = self.segment.clone();
        let (pin, extent) = segment.new_block(ctx, supply).await?;
        self.spare = Some((Arc::new(pin), extent));
        Ok(())
    }

    /// Makes the spare the current block.
    ///
    /// # Panics
    /// When there is none: `prepare` comes first.
    pub fn move_on(&mut self) {
        let (pin, extent) = self.spare.take().expect("a spare undo block");
        self.block = pin;
        self.extent = extent;
        self.fresh = true;
        self.used.push(extent);
    }

    /// The header slot as it must be once the next record is in the current block.
    #[must_use]
    pub fn slot(&self, state: TxState, scn: Scn) -> TxSlot {
        TxSlot {
            seq: self.xid.seq,
            state,
            undo: self.block.dba(),
            scn,
            next: Uba::NONE,
            rolling_back: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extent_keeps_its_size_beside_its_address() {
        let first = Dba::new(UNDO_FILE, 0xFEDC_BA98);
        for blocks in [128, 1024, 8192] {
            assert_eq!(unpack(pack(first, blocks)), (first, blocks));
        }
        // As segments made before sizes were kept have them.
        assert_eq!(unpack(first.to_u64()), (first, UNDO_EXTENT_BLOCKS));
    }
}
