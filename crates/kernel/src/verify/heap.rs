//! Heap segments: every block, every row, the pieces of long rows.

use block::layout::{self, Kind as BlockKind};
use block::{Dba, Rowid, Version, itl, rows};
use rustc_hash::FxHashSet;

use super::Kind;
use super::blocks::Walk;
use super::space::{Segment, Wanted};
use crate::heap::{ROW_BYTES_MAX, Stub, piece_of};

/// A row that is there, or that an open transaction has deleted.
pub(super) struct HeapRow {
    pub rowid: Rowid,
    /// `None`: its pieces do not fit together, which has been said if it is damage.
    pub bytes: Option<Vec<u8>>,
    /// No open transaction is at it.
    pub settled: bool,
    /// Of its block.
    pub version: Version,
}

/// A row whose bytes are elsewhere.
struct Forward {
    rowid: Rowid,
    stub: Option<Stub>,
    settled: bool,
    version: Version,
}

/// What is gathered on the way through a segment.
#[derive(Default)]
struct Gathered {
    forwards: Vec<Forward>,
    pieces: FxHashSet<Rowid>,
    /// Pieces that rows name.
    named: FxHashSet<Rowid>,
}

impl Walk<'_> {
    /// Whether no open transaction has this lock byte's entry.
    pub fn is_settled(&self, b: &[u8], lock: u8) -> bool {
        lock == 0 || !self.transactions.is_open(itl::get(b, lock - 1).xid)
    }

    /// Gives every row of a heap segment to `each`.
    pub async fn heap(
        &mut self,
        wanted: &Wanted<'_>,
        segment: &Segment,
        each: &mut (dyn FnMut(HeapRow) + Send),
    ) {
        let mut gathered = Gathered::default();
        for (first, ordinal, count) in segment.runs() {
            let mut references = Vec::new();
            for ((dba, image), at) in
                self.run(wanted.of, first, count).await.into_iter().zip(ordinal..)
            {
                let Some(b) = image else { continue };
                if !self.is_of(&b, wanted, &[BlockKind::Heap]) {
                    self.foreign_block(&b, dba, at, wanted, segment);
                    continue;
                }
                self.itl(wanted.of, dba, &b, &mut references);
                self.heap_block(wanted.of, dba, &b, &mut gathered, each);
            }
            self.undo_references(wanted.of, references).await;
            for forward in std::mem::take(&mut gathered.forwards) {
                let row = self.assemble(wanted, &forward, &mut gathered.named).await;
                let Forward { rowid, settled, version, .. } = forward;
                each(HeapRow { rowid, bytes: row, settled, version });
            }
        }
        // Until their rows name them, pieces belong to their transaction.
        if self.counts.active == 0 && !self.lives {
            let mut strays: Vec<Rowid> =
                gathered.pieces.difference(&gathered.named).copied().collect();
            strays.sort_unstable();
            self.strays(wanted, strays).await;
        }
    }

    pub fn is_of(&self, b: &[u8], wanted: &Wanted<'_>, kinds: &[BlockKind]) -> bool {
        kinds.contains(&layout::kind(b))
            && layout::obj(b) == wanted.obj
            && layout::birth(b) == wanted.birth
    }

    /// A block below the high-water mark that is not the segment's must never have been formatted.
    pub fn foreign_block(
        &mut self,
        b: &[u8],
        dba: Dba,
        ordinal: u32,
        wanted: &Wanted<'_>,
        segment: &Segment,
    ) {
        if !segment.is_raw(ordinal) {
            let (kind, obj) = (layout::kind(b), layout::obj(b));
            let what = format!("it is a {kind:?} block of object {obj} and not known as unused");
            self.find_in(Kind::Segment, b, dba, wanted.of, what);
        }
    }

    fn heap_block(
        &mut self,
        of: &str,
        dba: Dba,
        b: &[u8],
        gathered: &mut Gathered,
        each: &mut (dyn FnMut(HeapRow) + Send),
    ) {
        let version = layout::version(b);
        for slot in 0..rows::slot_count(b) {
            let Some(row) = rows::get(b, slot) else { continue };
            let rowid = Rowid { dba, slot };
            let settled = self.is_settled(b, row.lock);
            if row.flags & !(rows::DELETED | rows::FORWARD | rows::PIECE) != 0 {
                let what = format!("slot {slot}: flags {:#x}", row.flags);
                self.find_in(Kind::Block, b, dba, of, what);
                continue;
            }
            if row.is_deleted() && settled {
                continue;
            }
            if row.flags & rows::PIECE != 0 {
                if settled {
                    gathered.pieces.insert(rowid);
                }
                continue;
            }
            self.counts.rows += u64::from(settled);
            self.counts.unsettled_rows += u64::from(!settled);
            if row.flags & rows::FORWARD != 0 {
                let stub = Stub::decode(row.bytes);
                gathered.forwards.push(Forward { rowid, stub, settled, version });
            } else {
                let bytes = Some(row.bytes.to_vec());
                each(HeapRow { rowid, bytes, settled, version });
            }
        }
    }

    /// The bytes of a row in pieces.
    async fn assemble(
        &mut self,
        wanted: &Wanted<'_>,
        forward: &Forward,
        named: &mut FxHashSet<Rowid>,
    ) -> Option<Vec<u8>> {
        let whole = self.try_assemble(wanted, forward, named).await;
        match whole {
            Ok(bytes) => Some(bytes),
            Err(what) => {
                if forward.settled {
                    let what = format!("row {}: {what}", forward.rowid);
                    let (dba, version) = (forward.rowid.dba, forward.version);
                    self.find(Kind::Chain, dba, version, wanted.of, what);
                }
                None
            }
        }
    }

    async fn try_assemble(
        &mut self,
        wanted: &Wanted<'_>,
        forward: &Forward,
        named: &mut FxHashSet<Rowid>,
    ) -> Result<Vec<u8>, String> {
        let stub = forward.stub.ok_or("it does not say where it is")?;
        let len = stub.row_bytes as usize;
        if len > ROW_BYTES_MAX {
            return Err(format!("{len} bytes"));
        }
        let (mut bytes, mut next) = (Vec::with_capacity(len), stub.first.to_u64());
        while next != 0 {
            let at = Rowid::from_u64(next);
            let b = self.one(wanted.of, at.dba).await.ok_or_else(|| format!("no piece {at}"))?;
            if !self.is_of(&b, wanted, &[BlockKind::Heap]) {
                return Err(format!("piece {at} is in a block of something else"));
            }
            let row = rows::get(&b, at.slot).filter(|r| r.flags & rows::PIECE != 0);
            let row = row.filter(|r| !r.is_deleted() || !forward.settled);
            let piece = row.as_ref().and_then(piece_of);
            let (following, data) = piece.ok_or_else(|| format!("no piece {at}"))?;
            named.insert(at);
            bytes.extend_from_slice(&data);
            if data.is_empty() || bytes.len() > len {
                return Err(format!("its pieces have not {len} bytes"));
            }
            next = following;
        }
        if bytes.len() == len { Ok(bytes) } else { Err(format!("its pieces have not {len} bytes")) }
    }

    /// Pieces that no row names.
    async fn strays(&mut self, wanted: &Wanted<'_>, pieces: Vec<Rowid>) {
        for at in pieces {
            let Some(b) = self.one(wanted.of, at.dba).await else { continue };
            self.find_in(Kind::Chain, &b, at.dba, wanted.of, format!("no row names piece {at}"));
        }
    }
}
