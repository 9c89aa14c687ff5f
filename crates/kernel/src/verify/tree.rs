//! The shape of an index: levels, bounds, links, and which blocks are in it.

use std::collections::BTreeMap;

use block::layout::{self, Kind as BlockKind};
use block::piece::{self, Piece};
use block::{Dba, Version, rows};
use rustc_hash::FxHashSet;

use super::Kind;
use super::blocks::Walk;
use super::index::{Entry, sum_of};
use super::space::Wanted;
use crate::dict::{IndexDef, IndexKind};
use crate::space::SegmentKind;

type Bound = Option<Box<[u8]>>;
/// What a branch says: the low key of a child, the child, the branch.
type Link = (Box<[u8]>, Dba, Dba);

/// What is kept of one block.
struct Node {
    level: u8,
    low: Bound,
    high: Bound,
    right: Dba,
    version: Version,
    /// Of a branch: low keys and children.
    children: Vec<(Box<[u8]>, Dba)>,
    /// Of a leaf.
    entries: Vec<Entry>,
}

/// What is the matter with a piece; `before`: value and end of the one before it.
fn complaint(
    piece: &Piece<'_>,
    before: Option<&(Vec<u8>, u64)>,
    rowids: &[u64],
) -> Option<&'static str> {
    let same = before.filter(|(value, _)| value == piece.value());
    if piece.count != rowids.len() as u64 {
        Some("it has not as many rows as it says")
    } else if rowids.last().is_some_and(|last| *last > piece.end()) {
        Some("it has a row behind its end")
    } else if same.is_some_and(|(_, end)| rowids.first().is_some_and(|first| first <= end)) {
        Some("it has a row of the piece before it")
    } else if same.is_none() && before.is_some_and(|(_, end)| *end != piece::END) {
        Some("the value before it has no last piece")
    } else {
        None
    }
}

impl Walk<'_> {
    /// The settled entries of an index; `unsettled` gets the rows of the others. `None`: some of
    /// its blocks are damaged.
    pub async fn tree(
        &mut self,
        of: &str,
        index: &IndexDef,
        unsettled: &mut FxHashSet<u64>,
    ) -> Option<Vec<Entry>> {
        let wanted = Wanted {
            of,
            obj: index.obj,
            header: index.header,
            birth: index.birth,
            kind: SegmentKind::Index,
        };
        let segment = self.segment(&wanted).await?;
        let mut nodes = BTreeMap::new();
        let mut whole = true;
        for (first, ordinal, count) in segment.runs() {
            let mut references = Vec::new();
            for ((dba, image), at) in self.run(of, first, count).await.into_iter().zip(ordinal..) {
                let Some(b) = image else {
                    whole = false;
                    continue;
                };
                if !self.is_of(&b, &wanted, &[BlockKind::Leaf, BlockKind::Branch]) {
                    // A crash leaves blocks that were allotted and never formatted. If one of them
                    // should be in the tree, the tree leads there.
                    self.counts.stray_blocks += u64::from(!segment.is_raw(at));
                    continue;
                }
                if layout::kind(&b) == BlockKind::Leaf {
                    self.itl(of, dba, &b, &mut references);
                }
                nodes.insert(dba, self.node(of, index.kind, &b, unsettled));
            }
            self.undo_references(of, references).await;
        }
        // Without one of its blocks, what an index holds and how is not known.
        if !whole {
            return None;
        }
        let reached = self.levels(of, index.root, &nodes);
        self.counts.stray_blocks += (nodes.len() - reached.len().min(nodes.len())) as u64;
        let mut entries = Vec::new();
        for (dba, node) in nodes {
            if reached.contains(&dba) {
                entries.extend(node.entries);
            }
        }
        Some(entries)
    }

    fn node(
        &mut self,
        of: &str,
        kind: IndexKind,
        b: &[u8],
        unsettled: &mut FxHashSet<u64>,
    ) -> Node {
        let bound = |key: Option<&[u8]>| key.map(Box::from);
        let mut node = Node {
            level: rows::level(b),
            low: bound(rows::low_key(b)),
            high: bound(rows::high_key(b)),
            right: rows::right(b),
            version: layout::version(b),
            children: Vec::new(),
            entries: Vec::new(),
        };
        let mut before: Option<(Vec<u8>, u64)> = None;
        for pos in 0..rows::slot_count(b) {
            let entry = rows::entry(b, pos);
            if node.level > 0 {
                node.children.push((Box::from(entry.key), Dba::from_u64(entry.value)));
            } else if kind == IndexKind::Bitmap {
                let Some(piece) = Piece::of(&entry) else {
                    let what = format!("entry {pos} is no piece");
                    self.find_in(Kind::Tree, b, layout::dba(b), of, what);
                    continue;
                };
                let rowids = piece.rowids();
                if let Some(what) = complaint(&piece, before.as_ref(), &rowids) {
                    let what = format!("piece {pos}: {what}");
                    self.find_in(Kind::Tree, b, layout::dba(b), of, what);
                }
                let value = piece.value();
                match self.is_settled(b, entry.lock) {
                    true => node.entries.extend(
                        rowids.iter().map(|rowid| (*rowid, sum_of(&piece::key_at(value, *rowid)))),
                    ),
                    false => unsettled.extend(rowids),
                }
                before = Some((value.to_vec(), piece.end()));
            } else if !self.is_settled(b, entry.lock) {
                unsettled.insert(entry.value);
            } else if entry.flags & rows::DELETED == 0 {
                node.entries.push((entry.value, sum_of(entry.key)));
            }
        }
        node
    }

    /// Goes through all levels from the root down; gives the blocks that are in the tree.
    fn levels(&mut self, of: &str, root: Dba, nodes: &BTreeMap<Dba, Node>) -> FxHashSet<Dba> {
        let mut reached = FxHashSet::default();
        let Some(top) = nodes.get(&root) else {
            let what = "the root is not a block of the index".to_owned();
            self.find(Kind::Tree, root, Version::ZERO, of, what);
            return reached;
        };
        // What the level above says of this one: the root's is what a parent would say.
        let mut parents = vec![(Box::from(&[][..]), root, root)];
        for level in (0..=top.level).rev() {
            let Some(children) = self.level(of, level, &parents, nodes, &mut reached) else {
                break;
            };
            parents = children;
        }
        reached
    }

    /// Goes along one level. `parents`: low key, block, and the parent that says so, in order.
    fn level(
        &mut self,
        of: &str,
        level: u8,
        parents: &[Link],
        nodes: &BTreeMap<Dba, Node>,
        reached: &mut FxHashSet<Dba>,
    ) -> Option<Vec<Link>> {
        let (mut children, mut known) = (Vec::new(), parents.iter().peekable());
        let mut at = parents.first()?.1;
        let mut low: Bound = None;
        let mut from = parents.first()?.2;
        loop {
            let Some(node) = nodes.get(&at).filter(|n| n.level == level) else {
                let version = nodes.get(&from).map_or(Version::ZERO, |n| n.version);
                let what = format!("it leads to block {at}, which is none of level {level}");
                self.find(Kind::Tree, from, version, of, what);
                return None;
            };
            let mut complain = |what: String| self.find(Kind::Tree, at, node.version, of, what);
            if !reached.insert(at) {
                complain("links lead back to it".to_owned());
                return None;
            }
            if node.low != low {
                complain("it does not begin where its left neighbour ends".to_owned());
            }
            if node.high.is_none() != node.right.is_none() {
                complain("it has a right neighbour without a bound, or the reverse".to_owned());
            }
            match known.next_if(|(_, child, _)| *child == at) {
                Some((key, _, _)) if key[..] != *low.as_deref().unwrap_or_default() => {
                    complain("its parent has another key for it".to_owned());
                }
                Some(_) => {}
                None => self.counts.unfinished_splits += 1,
            }
            let own = node.children.iter().map(|(key, child)| (key.clone(), *child, at));
            children.extend(own);
            (from, low) = (at, node.high.clone());
            if node.right.is_none() {
                break;
            }
            at = node.right;
        }
        for (_, child, parent) in known {
            let version = nodes.get(parent).map_or(Version::ZERO, |n| n.version);
            let what = format!("it leads to block {child}, which its level does not have there");
            self.find(Kind::Tree, *parent, version, of, what);
        }
        Some(children)
    }
}
