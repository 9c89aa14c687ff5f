//! Blocks that are made anew without having been read: what a session has to itself, and nobody
//! may find anything in, is formatted at the moment at which it is granted.
//!
//! What it promises: nobody sees such a block between its former life and the new one, for there is
//! nothing between them. Until it is formatted it counts as being read, which nobody may look at
//! nor give away, and which a change of membership takes back. The format is a change as any other,
//! with a record in the redo before it is applied; its version is a new SCN, and so above whatever
//! the block has been: all who had it before have said what their clocks were, on the way by which
//! the right has come here.
//!
//! What it must never do: format a block that nobody waits for any more. It is read then.

use std::sync::Arc;

use block::layout::{self, Kind};
use block::op::{Op, apply_at};
use block::redo::{Body, RecordKind};
use block::{BLOCK_BYTES, Dba, Mode, Version, Xid};
use env::IoBuf;
use global::HolderEvent;
use observe::Ctx;

use super::buffer::{Buffer, Pin};
use super::pool::Cache;
use super::step::Carry;
use crate::error::Result;
use crate::redo::count_record;

/// A session waits for a block that it will format. Ends with its wait, however that ends.
struct Wish<'a> {
    cache: &'a Cache,
    dba: Dba,
}

impl Drop for Wish<'_> {
    fn drop(&mut self) {
        self.cache.formats.lock().remove(&self.dba);
    }
}

impl Cache {
    /// As [`Cache::pin_new`], for a block in which nobody may find anything: if the cluster grants
    /// it to be read from disk, `format` is done to it instead. The caller sees by the block
    /// whether that was so. Nobody else of the cluster may be about to format the block, and the
    /// caller has reserved room in the log (hazard H16).
    ///
    /// # Errors
    /// As [`Cache::pin`]; the block may have been formatted all the same.
    pub async fn pin_formatted(&self, ctx: &Ctx, dba: Dba, format: Op) -> Result<Pin> {
        assert!(format.is_format(), "block {dba} is not made anew by {format:?}");
        self.formats.lock().insert(dba, (format, ctx.session.clone()));
        let _wish = Wish { cache: self, dba };
        self.pin_new(ctx, dba).await
    }

    /// What an instance alone takes a block for that it is about to format. Whoever knew it before
    /// may come in between: it has the name of its new segment, lest he find no rows in a block
    /// that was never formatted (hazard H20).
    pub(super) fn unread(&self, dba: Dba) -> IoBuf {
        let mut image = IoBuf::zeroed(BLOCK_BYTES);
        if let Some((Op::Format { obj, birth, .. }, _)) = self.formats.lock().get(&dba) {
            layout::init(&mut image, Kind::Free, dba, *obj, *birth);
        }
        image
    }

    /// Formats a block that has just been granted, if a session waits for that. Whether it has;
    /// else the block is to be read. No latch is held.
    pub(super) fn format_granted(&self, buffer: &Arc<Buffer>) -> bool {
        let dba = buffer.dba;
        if !self.formats.lock().contains_key(&dba) {
            return false;
        }
        let _gate = self.enter_protocol();
        // Whoever asked may be gone but for this: not let go under the latch.
        let asker;
        let mut st = buffer.latch().write();
        // A right taken back since, or one that is shared with others, makes nothing anew.
        if !st.holder.reading() || st.holder.mode() != Mode::X {
            return false;
        }
        // Under the latch: who has gone by now has taken the wish along.
        let Some((op, session)) = self.formats.lock().remove(&dba) else { return false };
        asker = session;
        let mut body = Body::new();
        body.push(dba, Version::ZERO, &op);
        let mut image = IoBuf::zeroed(BLOCK_BYTES);
        {
            let _changes = self.enter_gate();
            // Redo without its change: none may be built on that.
            let _critical = self.env.critical("a format");
            let (rba, end, scn) = self.log.append(&body, Xid::NONE, RecordKind::Change, None, true);
            apply_at(&mut image, dba, &op, Version::ZERO, scn);
            st.image = Some(image);
            // It tells whose it is from now on.
            buffer.forget_sought();
            buffer.count_change();
            count_record(asker.totals(), body.record_bytes(), 1);
            self.mark_dirty(buffer, &mut st, rba, end, op.is_structural());
        }
        st.read_error = None;
        self.step(buffer, &mut st, HolderEvent::ReadDone, Carry::default());
        true
    }
}
