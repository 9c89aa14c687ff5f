//! Users here who wait for a block.
//!
//! Promises: a block that comes is kept for as many uses as users waited for it, and for none
//! that has gone. Must never hold a latch.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::cache::{Buffer, Cache};

/// Counts a local user that waits for the block.
pub(super) struct Waiting<'a> {
    cache: &'a Cache,
    buffer: Arc<Buffer>,
    served: Cell<bool>,
}

impl<'a> Waiting<'a> {
    pub fn new(cache: &'a Cache, buffer: &Arc<Buffer>) -> Waiting<'a> {
        buffer.waiters.fetch_add(1, Ordering::SeqCst);
        Waiting { cache, buffer: buffer.clone(), served: Cell::new(false) }
    }

    pub fn is_for(&self, buffer: &Arc<Buffer>) -> bool {
        Arc::ptr_eq(&self.buffer, buffer)
    }

    /// The block is here, and the user takes it before it waits for anything else: that ends the
    /// reservation.
    pub fn served(&self) {
        self.served.set(true);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let last = self.buffer.waiters.fetch_sub(1, Ordering::SeqCst) == 1;
        if self.served.get() {
            return;
        }
        // Its use falls away; with no waiter left, whoever waits elsewhere goes on.
        let free = match last {
            true => self.buffer.end_reservation(),
            false => self.buffer.use_reservation(),
        };
        if free {
            self.cache.pins_dropped(&self.buffer);
        }
    }
}
