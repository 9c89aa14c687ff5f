#![doc = include_str!("README.md")]

use std::sync::Arc;

use block::op::{Op, apply_at};
use block::redo::{Body, RecordKind, SAME_RECORD};
use block::{Mode, Rba, Scn, Version, Xid, layout};
use observe::Ctx;
use parking_lot::RwLockReadGuard;

use crate::cache::{Cache, Latched, Pin};
use crate::redo::count_record;

struct Member<'a> {
    pin: &'a Pin,
    guard: Latched<'a>,
}

/// A change being made. Not `Send`: it cannot be kept over an await.
pub struct Change<'a> {
    cache: &'a Arc<Cache>,
    /// In ascending address order.
    members: Vec<Member<'a>>,
    /// Position in `members` of each pin given to `begin`.
    order: Vec<usize>,
    ops: Vec<(usize, Op)>,
}

/// What a committed change was given.
#[derive(Clone, Copy, Debug)]
pub struct Stamped {
    pub scn: Scn,
    /// Flushing up to here makes the change durable.
    pub end: Rba,
}

impl<'a> Change<'a> {
    /// Latches the blocks of `pins` (distinct, all pinned in X).
    ///
    /// # Panics
    /// When a pin does not hold X: a bug of the caller.
    #[must_use]
    pub fn begin(cache: &'a Arc<Cache>, pins: &[&'a Pin]) -> Change<'a> {
        let mut sorted: Vec<usize> = (0..pins.len()).collect();
        sorted.sort_by_key(|&i| pins[i].dba());
        let mut order = vec![0; pins.len()];
        let mut members: Vec<Member<'a>> = Vec::with_capacity(pins.len());
        for (at, &i) in sorted.iter().enumerate() {
            order[i] = at;
            let pin = pins[i];
            if let Some(last) = members.last() {
                assert!(last.pin.dba() < pin.dba(), "a change names block {} twice", pin.dba());
            }
            let guard = pin.buffer.latch().write();
            assert!(guard.mode() == Mode::X, "block {} is changed without X", pin.dba());
            members.push(Member { pin, guard });
        }
        Change { cache, members, order, ops: Vec::with_capacity(pins.len()) }
    }

    /// The content of the `i`th block given to `begin`, before the change.
    #[must_use]
    pub fn block(&self, i: usize) -> &[u8] {
        self.members[self.order[i]].guard.image.as_ref().expect("a pinned block has its image")
    }

    /// The content, for hints that need no redo (cleanout).
    pub fn block_mut_for_hints(&mut self, i: usize) -> &mut [u8] {
        let at = self.order[i];
        self.members[at].guard.image.as_mut().expect("a pinned block has its image")
    }

    /// Adds a block after the others have been latched: one that nobody else latches together with
    /// another (an own undo block), or one with a higher address than all. Returns its index.
    ///
    /// # Panics
    /// As `begin`.
    pub fn add(&mut self, pin: &'a Pin) -> usize {
        assert!(self.members.iter().all(|m| m.pin.dba() != pin.dba()), "block named twice");
        let guard = pin.buffer.latch().write();
        assert!(guard.mode() == Mode::X, "block {} is changed without X", pin.dba());
        self.members.push(Member { pin, guard });
        self.order.push(self.members.len() - 1);
        self.order.len() - 1
    }

    /// Stages an operation on the `i`th block.
    pub fn push(&mut self, i: usize, op: Op) {
        self.ops.push((self.order[i], op));
    }

    /// Appends the redo record and applies it. The session's it is counted.
    pub fn commit(self, ctx: &Ctx, xid: Xid, kind: RecordKind) -> Stamped {
        self.commit_at(ctx, xid, kind, None)
    }

    /// As `commit`, with an SCN the caller has drawn.
    pub fn commit_at(mut self, ctx: &Ctx, xid: Xid, kind: RecordKind, scn: Option<Scn>) -> Stamped {
        let mut body = Body::new();
        let mut versions: Vec<_> =
            self.members.iter().map(|m| layout::version(image(&m.guard))).collect();
        let mut formats = false;
        for (at, op) in &self.ops {
            body.push(self.members[*at].pin.dba(), versions[*at], op);
            formats |= op.is_format();
            versions[*at] = if op.is_format() {
                Version { format: SAME_RECORD, count: 0 }
            } else {
                versions[*at].next()
            };
        }
        assert!(body.record_bytes() <= block::REDO_RECORD_BYTES_MAX, "redo record too long");
        let _gate: RwLockReadGuard<'_, ()> = self.cache.enter_gate();
        // Redo without its change, or half of one: none may be built on that.
        let _critical = self.cache.env.critical("a change");
        let (rba, end, scn) = self.cache.log.append(&body, xid, kind, scn, formats);
        for (at, op) in &self.ops {
            let member = &mut self.members[*at];
            let dba = member.pin.dba();
            let img = member.guard.image.as_mut().expect("a pinned block has its image");
            let before = layout::version(img);
            if op.is_format() {
                // It may become another segment's.
                self.cache.settle_counts(&member.pin.buffer, img);
            }
            member.pin.buffer.count_change();
            apply_at(img, dba, op, before, scn);
            self.cache.mark_dirty(
                &member.pin.buffer,
                &mut member.guard,
                rba,
                end,
                op.is_structural(),
            );
        }
        count_record(ctx.session.totals(), body.record_bytes(), self.ops.len());
        Stamped { scn, end }
    }
}

fn image<'g>(guard: &'g Latched<'_>) -> &'g [u8] {
    guard.image.as_ref().expect("a pinned block has its image")
}
