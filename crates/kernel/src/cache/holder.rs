//! The protocol's view of one buffer.

/// Placeholder-free minimal state: what the cache itself must know of the protocol.
#[derive(Default, Debug)]
pub struct Holder {
    /// A conversion or release of this block is under way.
    busy: bool,
}

impl Holder {
    #[must_use]
    pub fn is_idle(&self) -> bool {
        !self.busy
    }

    /// The instance is alone: it holds the block in X by right.
    pub fn set_alone(&mut self) {
        self.busy = false;
    }
}
