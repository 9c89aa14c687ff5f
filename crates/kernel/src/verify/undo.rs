//! Undo segments: their transaction tables, what active transactions have written, and what blocks
//! say of transactions.

use block::layout::{self, Kind as BlockKind};
use block::undo::{self, TX_SLOT_COUNT, TxSlot, TxState, UndoRecord};
use block::{Dba, INSTANCES_MAX, InstanceNo, Uba, Version, Xid, itl};

use super::Kind;
use super::blocks::{Image, Walk};
use crate::space::Extent;
use crate::undo::{UNDO_FILE, extents_of, header_dba, segments_of};

/// What is known of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Known {
    Active,
    Ended,
    /// Its number is beyond all that were given out.
    NeverWas,
    /// There is no such undo segment, or its header is damaged.
    Unknown,
}

/// The transaction tables of all undo segments.
#[derive(Default)]
pub(super) struct Transactions {
    /// By segment number.
    headers: Vec<Option<Image>>,
    extents: Vec<(u16, Extent)>,
}

impl Transactions {
    fn slot(&self, xid: Xid) -> Option<TxSlot> {
        let header = self.headers.get(usize::from(xid.usn))?.as_ref()?;
        (xid.slot < TX_SLOT_COUNT).then(|| TxSlot::get(header, xid.slot))
    }

    pub fn state(&self, xid: Xid) -> Known {
        let Some(slot) = self.slot(xid) else { return Known::Unknown };
        match slot.seq.cmp(&xid.seq) {
            std::cmp::Ordering::Less => Known::NeverWas,
            std::cmp::Ordering::Greater => Known::Ended,
            std::cmp::Ordering::Equal if slot.state == TxState::Active => Known::Active,
            std::cmp::Ordering::Equal => Known::Ended,
        }
    }

    /// Whether there is such an undo segment, readable or not, and such a slot.
    fn could_have(&self, xid: Xid) -> bool {
        let there = xid.usn > 0 && usize::from(xid.usn) < self.headers.len();
        there && xid.slot < TX_SLOT_COUNT
    }

    /// Whether the transaction may still change its mind.
    pub fn is_open(&self, xid: Xid) -> bool {
        // One that began after the table was read is younger than all it knows.
        matches!(self.state(xid), Known::Active | Known::NeverWas)
    }

    fn active(&self) -> Vec<(Xid, TxSlot)> {
        let mut all = Vec::new();
        for (usn, header) in (0u16..).zip(&self.headers) {
            let Some(header) = header else { continue };
            for slot in 0..TX_SLOT_COUNT {
                let tx = TxSlot::get(header, slot);
                if tx.state == TxState::Active {
                    all.push((Xid { usn, slot, seq: tx.seq }, tx));
                }
            }
        }
        all
    }
}

/// An ITL entry that names undo of an active transaction.
pub(super) struct Reference {
    dba: Dba,
    version: Version,
    obj: block::ObjId,
    leaf: bool,
    entry: itl::Itl,
}

fn undo_name(usn: u16) -> String {
    format!("undo segment {usn}")
}

impl Walk<'_> {
    /// Reads the headers of all undo segments and notes whose the extents are.
    pub async fn undo_headers(&mut self) {
        self.transactions.headers.push(None);
        let all: Vec<u16> = (1..=INSTANCES_MAX).flat_map(|k| segments_of(InstanceNo(k))).collect();
        for usn in all {
            let (dba, of) = (header_dba(usn), undo_name(usn));
            let mut header = self.one(&of, dba).await;
            if let Some(b) = &header
                && layout::kind(b) != BlockKind::UndoHeader
            {
                let what = format!("it is a {:?} block", layout::kind(b));
                self.find_in(Kind::Undo, b, dba, &of, what);
                header = None;
            }
            for extent in header.iter().flat_map(|b| extents_of(b)).collect::<Vec<_>>() {
                self.claim(&of, dba, UNDO_FILE, extent);
                self.transactions.extents.push((usn, extent));
            }
            // Nobody knows what space it has.
            self.blind |= header.is_none();
            debug_assert_eq!(self.transactions.headers.len(), usize::from(usn));
            self.transactions.headers.push(header);
        }
        self.counts.active = self.transactions.active().len() as u64;
    }

    /// What the transactions that are not over have written, from the last record to the first.
    pub async fn undo_chains(&mut self) {
        for (xid, slot) in self.transactions.active() {
            let of = format!("transaction {xid}");
            let tail = if slot.rolling_back {
                slot.next
            } else {
                let Some(b) = self.one(&of, slot.undo).await else { continue };
                let last = undo::last_of(&b, xid).filter(|_| layout::kind(&b) == BlockKind::Undo);
                let Some(rec) = last else {
                    let what = "its current undo block has no record of it".to_owned();
                    self.find_in(Kind::Undo, &b, slot.undo, &of, what);
                    continue;
                };
                Uba { dba: slot.undo, rec }
            };
            self.undo_chain(&of, xid, tail).await;
        }
    }

    async fn undo_chain(&mut self, of: &str, xid: Xid, tail: Uba) {
        let (mut next, mut above) = (tail, None);
        while !next.is_none() {
            let Some(b) = self.one(of, next.dba).await else { return };
            let record = (layout::kind(&b) == BlockKind::Undo)
                .then(|| UndoRecord::find(&b, next, xid))
                .flatten();
            let Some(record) = record else {
                let what = format!("undo record {next} is not there, or not its own");
                return self.find_in(Kind::Undo, &b, next.dba, of, what);
            };
            if above.is_some_and(|above| above <= record.undo_no) {
                let what = format!("undo record {next} has number {}", record.undo_no.0);
                return self.find_in(Kind::Undo, &b, next.dba, of, what);
            }
            above = Some(record.undo_no);
            next = record.prev;
        }
    }

    /// Looks at a block's ITL, and gives what must be looked up in undo.
    pub fn itl(&mut self, of: &str, dba: Dba, b: &[u8], references: &mut Vec<Reference>) {
        for (idx, entry) in itl::iter(b).filter(|(_, e)| !e.xid.is_none()) {
            let what = match self.transactions.state(entry.xid) {
                Known::Ended => continue,
                // Its segment's header has been complained of.
                Known::Unknown if self.transactions.could_have(entry.xid) => continue,
                Known::Unknown => "which no undo segment has",
                Known::NeverWas => "which never was",
                Known::Active if entry.scn.0 != 0 => "which has not committed, as committed",
                Known::Active => {
                    let (obj, version) = (layout::obj(b), layout::version(b));
                    let leaf = layout::kind(b) == BlockKind::Leaf;
                    references.push(Reference { dba, version, obj, leaf, entry });
                    continue;
                }
            };
            let what = format!("ITL entry {idx} names transaction {}, {what}", entry.xid);
            self.find_in(Kind::Itl, b, dba, of, what);
        }
    }

    /// The undo that ITL entries of active transactions name.
    pub async fn undo_references(&mut self, of: &str, references: Vec<Reference>) {
        for r in references {
            let uba = r.entry.uba;
            let Some(b) = self.one(of, uba.dba).await else { continue };
            let record = (layout::kind(&b) == BlockKind::Undo)
                .then(|| UndoRecord::find(&b, uba, r.entry.xid))
                .flatten();
            let fits = record.is_some_and(|record| {
                let target = r.leaf || record.target == r.dba;
                target && record.obj == r.obj && record.undo_no == r.entry.undo_no
            });
            if !fits {
                let what = format!("undo record {uba} of transaction {} does not fit", r.entry.xid);
                self.find(Kind::Itl, r.dba, r.version, of, what);
            }
        }
    }

    /// The blocks of all undo extents.
    pub async fn undo_blocks(&mut self) {
        for (usn, extent) in self.transactions.extents.clone() {
            for (first, count) in Walk::pieces(extent.first, extent.blocks) {
                self.run(&undo_name(usn), first, count).await;
            }
        }
    }
}
