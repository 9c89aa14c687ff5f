//! An index as the rest of the kernel names it, and how an empty one is made.

use block::layout::{self, Kind};
use block::op::Op;
use block::piece::{self, PIECE_BYTES_MAX, Piece};
use block::redo::RecordKind;
use block::rows::{self, Entry};
use block::{Dba, ObjId, Scn, Xid};
use observe::Ctx;

use super::shape;
use crate::change::Change;
use crate::error::Result;
use crate::space::SegmentKind;
use crate::txn::Core;

/// ITL entries a leaf starts with.
const LEAF_ITL: u8 = block::itl::ITL_INITIAL;

/// One index: who it is and where its root stands for its whole life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexSeg {
    pub obj: ObjId,
    /// The segment's header block.
    pub header: Dba,
    pub root: Dba,
    /// SCN of the segment's creation: blocks of a former life carry another one.
    pub birth: Scn,
    pub unique: bool,
    /// Whether its entries are pieces ([`block::piece`]).
    pub bitmap: bool,
}

impl IndexSeg {
    /// Whether the block is part of this index, of whatever level.
    pub(super) fn owns(&self, b: &[u8]) -> bool {
        matches!(layout::kind(b), Kind::Leaf | Kind::Branch)
            && layout::obj(b) == self.obj
            && layout::birth(b) == self.birth
    }

    /// Bytes that an entry for `key` takes in a block of this level, at the most.
    pub(super) fn entry_bytes(&self, level: u8, key: &[u8]) -> usize {
        match self.bitmap && level == 0 {
            true => piece::growth_bytes(key) + PIECE_BYTES_MAX,
            false => rows::entry_bytes(key),
        }
    }

    /// The key at which a leaf is cut between these entries: above `left`, not above `right`.
    pub(super) fn separator(&self, left: &Entry<'_>, right: &Entry<'_>) -> Vec<u8> {
        if self.bitmap
            && let (Some(left), Some(right)) = (Piece::of(left), Piece::of(right))
        {
            return piece::separator(&left, &right);
        }
        shape::separator(left.key, right.key).to_vec()
    }

    /// Whether the block is a leaf of this index that `key` belongs to.
    pub(super) fn is_leaf_of(&self, b: &[u8], key: &[u8]) -> bool {
        layout::kind(b) == Kind::Leaf && self.owns(b) && rows::covers(b, key)
    }
}

/// Makes an empty index: a segment and its root, a leaf. Redo-only: whoever creates the index drops
/// the segment if its transaction rolls back.
///
/// # Errors
/// [`crate::error::Error::DiskFull`], or what reading and pinning blocks can fail with.
pub async fn create(ctx: &Ctx, core: &Core, obj: ObjId, unique: bool) -> Result<IndexSeg> {
    let (header, birth) =
        core.space.create_segment(ctx, crate::space::DATA_FILE, obj, SegmentKind::Index).await?;
    let root = core.space.alloc_block(ctx, header).await?;
    core.log.throttle(ctx).await?;
    let leaf = || Op::Format { kind: Kind::Leaf, obj, birth, level: 0, itl: LEAF_ITL };
    let pin = core.cache.pin_formatted(ctx, root, leaf()).await?;
    let mut change = Change::begin(&core.cache, &[&pin]);
    change.push(0, leaf());
    change.commit(ctx, Xid::NONE, RecordKind::Change);
    Ok(IndexSeg { obj, header, root, birth, unique, bitmap: false })
}

/// An empty leaf or branch of `seg` as a block image, to be filled and written with
/// [`Op::FormatImage`].
pub(super) fn blank(seg: &IndexSeg, level: u8) -> Vec<u8> {
    let mut b = vec![0; block::BLOCK_BYTES];
    let (kind, itl) = if level == 0 { (Kind::Leaf, LEAF_ITL) } else { (Kind::Branch, 0) };
    layout::init(&mut b, kind, Dba::NONE, seg.obj, seg.birth);
    rows::init(&mut b, level, itl);
    b
}
