//! A holder in a change of membership: what of the old epoch is void, and what is reported.
//!
//! Promises: a right with an image stays, and so does a past image; nothing that was asked for or
//! owed in the old epoch is done in the new one. Must never let go of a version that is nowhere
//! else.

use block::{Mode, Version};

use super::types::Image;
use super::{Facts, Holder, HolderEffect};
use crate::msg::{Holding, Seq};

impl Holder {
    /// Nothing is under way: entering an epoch is nothing but that.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.pending.is_none()
            && self.duty.is_none()
            && self.releasing.is_none()
            && self.comparing.is_none()
            && self.taken_unacked.is_none()
            && matches!(self.image, Image::Present | Image::Absent)
    }

    /// What to report in a new epoch, after [`HolderEvent::EnterEpoch`].
    #[must_use]
    pub fn holding(&self, facts: &Facts) -> Option<Holding> {
        let held = self.readable();
        if !held && facts.past_image.is_none() {
            return None;
        }
        Some(Holding {
            addr: self.addr,
            mode: if held { self.mode } else { Mode::N },
            version: if held { facts.version } else { Version::ZERO },
            writer: held && facts.dirty,
            unwritten: held && self.unwritten,
            past: facts.past_image,
        })
    }

    /// All that was under way is void; rights with an image stay (C2).
    pub(super) fn enter_epoch(&mut self, out: &mut Vec<HolderEffect>) {
        self.pending = None;
        self.holder_last = None;
        self.duty = None;
        self.cr_parked.clear();
        self.taken_unacked = None;
        self.comparing = None;
        self.seq = Seq(0);
        if self.releasing.is_some() {
            // The master may have agreed, given the block to somebody who has changed it, and died
            // with its acknowledgement in the pipe. The copy is clean: let it go.
            self.lose();
            out.push(HolderEffect::DropImage);
        }
        if self.image == Image::Reading {
            self.mode = Mode::N;
            self.image = Image::Dropping;
        }
        out.push(HolderEffect::Wake);
    }
}
