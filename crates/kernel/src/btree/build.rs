//! Building an index from a table's rows.
//!
//! Entries are collected and sorted in bounded runs. The first run, and every later one that lies
//! above all before it (rows in key order, the common case), is loaded bottom-up into fresh blocks;
//! the root, written last, makes them visible at once. From the first run out of order on, entries
//! go in one by one.
//!
//! Loaded entries carry no lock: whoever may see the index may see them. Readers with an older
//! snapshot are kept out by the segment's birth (hazard H20). Until the root is written a crash
//! leaves only blocks of a segment that its creator's rollback drops.

use std::sync::Arc;

use block::layout;
use block::op::Op;
use block::piece::{self, END_BYTES, Piece};
use block::redo::RecordKind;
use block::rows::{self, Entry};
use block::{Dba, Mode, Rowid, Xid};
use observe::Ctx;

use super::modify::{InsertOutcome, insert};
use super::pieces::VALUE_BYTES_MAX;
use super::seg::{IndexSeg, blank};
use super::shape::KEY_BYTES_MAX;
use super::split::free_block;
use crate::change::Change;
use crate::error::{Error, Result};
use crate::txn::{Core, Transaction};

/// Key bytes and entries of one sorted run at the most: it bounds the memory of a build.
const RUN_BYTES_MAX: usize = 64 << 20;
/// The same of a bitmap index, whose values come again in each run.
const PIECES_RUN_BYTES_MAX: usize = 256 << 20;
/// Room left in a loaded block: for the longest high key, and for ITL entries and inserts later.
const ROOM_BYTES: usize = KEY_BYTES_MAX + 2;
/// The same in a branch, for entries to come: what a long high key needs is made when it is known.
const BRANCH_ROOM_BYTES: usize = 256;
/// The same in a leaf of pieces, whose high key is no longer than a value with a rowid, when that
/// is short: for some rows that come to its pieces, too.
const PIECES_ROOM_BYTES: usize = 512;

/// An entry of a run: its key is `bytes[start..start + len]`.
struct Item {
    start: u32,
    len: u16,
    rowid: u64,
}

/// Entries not yet sorted.
#[derive(Default)]
struct Run {
    bytes: Vec<u8>,
    items: Vec<Item>,
}

impl Run {
    fn key(&self, item: &Item) -> &[u8] {
        let start = item.start as usize;
        &self.bytes[start..start + usize::from(item.len)]
    }

    fn push(&mut self, key: &[u8], rowid: Rowid) {
        let start = u32::try_from(self.bytes.len()).expect("a run is below 4 GiB");
        let len = u16::try_from(key.len()).expect("a key is below 64 KiB");
        self.items.push(Item { start, len, rowid: rowid.to_u64() });
        self.bytes.extend_from_slice(key);
    }

    fn memory_bytes(&self) -> usize {
        self.bytes.len() + self.items.len() * size_of::<Item>()
    }

    fn sort(&mut self) {
        let mut items = std::mem::take(&mut self.items);
        items.sort_unstable_by(|a, b| self.key(a).cmp(self.key(b)));
        self.items = items;
    }

    /// The first key that occurs twice in a sorted run.
    fn duplicate(&self) -> Option<&[u8]> {
        let equal = |pair: &&[Item]| self.key(&pair[0]) == self.key(&pair[1]);
        self.items.windows(2).find(equal).map(|pair| self.key(&pair[0]))
    }
}

/// The block being filled on one level.
struct Open {
    image: Vec<u8>,
    /// Allotted once a left neighbour had to name it.
    dba: Option<Dba>,
    /// Its key in the parent; empty at the left end.
    low: Vec<u8>,
}

/// Builds one index. Give it all entries, then call [`Builder::finish`].
pub struct Builder {
    core: Arc<Core>,
    txn: Arc<Transaction>,
    seg: IndexSeg,
    run: Run,
    run_bytes_max: usize,
    /// From the leaf level up.
    levels: Vec<Open>,
    /// Greatest key loaded.
    last: Option<Vec<u8>>,
    /// The loaded tree is complete; entries are inserted from now on.
    loaded: bool,
}

impl Builder {
    /// For an index that [`super::create`] has just made and that nobody else can use yet.
    #[must_use]
    pub fn new(txn: &Arc<Transaction>, seg: IndexSeg) -> Builder {
        Builder {
            core: txn.core().clone(),
            txn: txn.clone(),
            seg,
            run: Run::default(),
            run_bytes_max: if seg.bitmap { PIECES_RUN_BYTES_MAX } else { RUN_BYTES_MAX },
            levels: Vec::new(),
            last: None,
            loaded: false,
        }
    }

    /// With shorter runs: for tests of what happens between them.
    #[must_use]
    pub fn with_run_bytes(mut self, bytes: usize) -> Builder {
        self.run_bytes_max = bytes;
        self
    }

    /// Takes one entry, in any order.
    ///
    /// # Errors
    /// [`Error::KeyTooLong`]; [`Error::UniqueViolation`] with an empty index name and the key; disk
    /// full and what changing blocks can fail with.
    pub async fn add(&mut self, ctx: &Ctx, key: &[u8], rowid: Rowid) -> Result<()> {
        if key.len() > KEY_BYTES_MAX {
            return Err(Error::KeyTooLong { bytes: key.len(), limit: KEY_BYTES_MAX });
        }
        self.run.push(key, rowid);
        if self.run.memory_bytes() >= self.run_bytes_max {
            self.flush_run(ctx).await
        } else {
            Ok(())
        }
    }

    /// Completes the index.
    ///
    /// # Errors
    /// As [`Builder::add`].
    pub async fn finish(mut self, ctx: &Ctx) -> Result<()> {
        self.flush_run(ctx).await?;
        self.close(ctx).await
    }

    async fn flush_run(&mut self, ctx: &Ctx) -> Result<()> {
        let mut run = std::mem::take(&mut self.run);
        run.sort();
        if let Some(key) = run.duplicate() {
            return Err(violation(key));
        }
        let Some(first) = run.items.first() else { return Ok(()) };
        let follows = self.last.as_deref().is_none_or(|last| run.key(first) > last);
        if self.loaded || !follows {
            self.close(ctx).await?;
            return self.insert_all(ctx, &run).await;
        }
        if self.seg.bitmap {
            return self.append_pieces(ctx, &run).await;
        }
        for item in &run.items {
            self.append(ctx, 0, run.key(item), item.rowid).await?;
        }
        self.last = run.items.last().map(|item| run.key(item).to_vec());
        Ok(())
    }

    /// The rows of each value, in as many pieces as they need.
    async fn append_pieces(&mut self, ctx: &Ctx, run: &Run) -> Result<()> {
        let value = |item: &Item| {
            let key = run.key(item);
            &key[..key.len() - END_BYTES]
        };
        for items in run.items.chunk_by(|a, b| value(a) == value(b)) {
            let value = value(&items[0]);
            if value.len() > VALUE_BYTES_MAX {
                let (bytes, limit) = (value.len(), VALUE_BYTES_MAX);
                return Err(Error::KeyTooLong { bytes, limit });
            }
            let rowids: Vec<u64> = items.iter().map(|item| item.rowid).collect();
            let mut rest = rowids.as_slice();
            while !rest.is_empty() {
                let count = piece::filling(rest);
                let (here, more) = rest.split_at(count);
                let end = if more.is_empty() { piece::END } else { here[count - 1] };
                let (number, bytes) = piece::entry_of(&piece::key_at(value, end), here);
                self.append(ctx, 0, &bytes, number).await?;
                rest = more;
            }
            // What comes later of this value goes into its last piece.
            self.last = Some(piece::key_at(value, piece::END));
        }
        Ok(())
    }

    async fn insert_all(&self, ctx: &Ctx, run: &Run) -> Result<()> {
        for item in &run.items {
            ctx.check_interrupt()?;
            let (key, rowid) = (run.key(item), Rowid::from_u64(item.rowid));
            if insert(ctx, &self.txn, &self.seg, key, rowid).await? == InsertOutcome::Duplicate {
                return Err(violation(key));
            }
        }
        Ok(())
    }

    /// Adds an entry at the right end of a level. Sealing a block adds an entry one level up.
    async fn append(&mut self, ctx: &Ctx, level: usize, key: &[u8], value: u64) -> Result<()> {
        let (mut level, mut key, mut value) = (level, key.to_vec(), value);
        loop {
            if level == self.levels.len() {
                let image = blank(&self.seg, level_no(level));
                self.levels.push(Open { image, dba: None, low: Vec::new() });
            }
            let open = &mut self.levels[level];
            let short = Piece::of(&Entry { flags: 0, lock: 0, value, key: &key })
                .is_some_and(|piece| 2 * piece.key.len() < PIECES_ROOM_BYTES);
            let room = match level {
                0 if self.seg.bitmap && short => PIECES_ROOM_BYTES,
                0 => ROOM_BYTES,
                _ => BRANCH_ROOM_BYTES,
            };
            if rows::free_bytes(&open.image) >= rows::entry_bytes(&key) + room {
                rows::insert_entry(&mut open.image, 0, 0, value, &key);
                return Ok(());
            }
            let next = Entry { flags: 0, lock: 0, value, key: &key };
            let (sealed_low, sealed_dba) = self.seal(ctx, level, next).await?;
            rows::insert_entry(&mut self.levels[level].image, 0, 0, value, &key);
            (level, key, value) = (level + 1, sealed_low, sealed_dba.to_u64());
        }
    }

    /// Writes the open block of a level, which `next` does not fit into, and opens its right
    /// neighbour. Returns what the parent must know of the written one.
    async fn seal(&mut self, ctx: &Ctx, level: usize, next: Entry<'_>) -> Result<(Vec<u8>, Dba)> {
        ctx.check_interrupt()?;
        let right = self.core.space.alloc_block(ctx, self.seg.header).await?;
        let dba = match self.levels[level].dba {
            Some(dba) => dba,
            None => self.core.space.alloc_block(ctx, self.seg.header).await?,
        };
        let open = &mut self.levels[level];
        let last = rows::entry(&open.image, rows::slot_count(&open.image) - 1);
        let low = if level == 0 { self.seg.separator(&last, &next) } else { next.key.to_vec() };
        let (mut low, mut moved) = (low, Vec::new());
        // What gives way to a long high key of a branch begins the right neighbour.
        while level > 0 && rows::free_bytes(&open.image) < 2 + low.len() {
            let pos = rows::slot_count(&open.image) - 1;
            let entry = rows::entry(&open.image, pos);
            low = entry.key.to_vec();
            moved.push((entry.value, entry.key.to_vec()));
            rows::remove_entry(&mut open.image, pos);
        }
        rows::set_right(&mut open.image, right);
        rows::set_high_key(&mut open.image, Some(&low));
        let mut image = blank(&self.seg, level_no(level));
        rows::set_low_key(&mut image, Some(&low));
        for (value, key) in moved {
            rows::insert_entry(&mut image, 0, 0, value, &key);
        }
        let sealed = std::mem::replace(open, Open { image, dba: Some(right), low });
        self.write(ctx, dba, &sealed.image).await?;
        Ok((sealed.low, dba))
    }

    async fn write(&self, ctx: &Ctx, dba: Dba, image: &[u8]) -> Result<()> {
        self.core.log.throttle(ctx).await?;
        let pin = self.core.cache.pin_formatted(ctx, dba, free_block(&self.seg)).await?;
        let mut change = Change::begin(&self.core.cache, &[&pin]);
        let (kind, body) = (layout::kind(image), Op::image_of(image));
        change.push(0, Op::FormatImage { kind, obj: self.seg.obj, body });
        change.commit(ctx, Xid::NONE, RecordKind::Change);
        Ok(())
    }

    /// Writes what is still open, the top of it into the root.
    async fn close(&mut self, ctx: &Ctx) -> Result<()> {
        self.loaded = true;
        let mut level = 0;
        // A level whose block has an address has a level above it.
        while let Some(open) = self.levels.get_mut(level) {
            let Some(dba) = open.dba else { break };
            let (image, low) = (std::mem::take(&mut open.image), std::mem::take(&mut open.low));
            self.write(ctx, dba, &image).await?;
            self.append(ctx, level + 1, &low, dba.to_u64()).await?;
            level += 1;
        }
        let Some(top) = self.levels.get(level) else { return Ok(()) };
        self.core.log.throttle(ctx).await?;
        let pin = self.core.cache.pin(ctx, self.seg.root, Mode::X).await?;
        let mut change = Change::begin(&self.core.cache, &[&pin]);
        let (kind, body) = (layout::kind(&top.image), Op::image_of(&top.image));
        change.push(0, Op::Image { kind, obj: self.seg.obj, body });
        change.commit(ctx, Xid::NONE, RecordKind::Change);
        drop(pin);
        self.levels.clear();
        Ok(())
    }
}

fn level_no(level: usize) -> u8 {
    u8::try_from(level).expect("an index has few levels")
}

fn violation(key: &[u8]) -> Error {
    Error::UniqueViolation { index: String::new(), key: key.to_vec(), row: Vec::new() }
}
