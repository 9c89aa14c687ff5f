//! Memory that a session's statements hold: their work areas.
//!
//! What it promises: any of the session's workers tells of what it takes and gives back, and
//! whoever wants to know reads it. What it must never do: take a lock.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::session::SessionState;

/// Bytes that are held now, and the most that were at once.
#[derive(Default)]
pub(crate) struct Held {
    now: AtomicU64,
    most: AtomicU64,
}

impl SessionState {
    /// Statements of the session hold so much more in their work areas.
    pub fn hold(&self, bytes: usize) {
        let bytes = bytes as u64;
        let held = &self.running.held;
        let now = held.now.fetch_add(bytes, Relaxed) + bytes;
        held.most.fetch_max(now, Relaxed);
    }

    /// So much less, of what they hold.
    pub fn let_go(&self, bytes: usize) {
        self.running.held.now.fetch_sub(bytes as u64, Relaxed);
    }

    /// Bytes that the work areas of its statements hold now.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.running.held.now.load(Relaxed)
    }

    /// The most that they have held at once.
    #[must_use]
    pub fn most_held_bytes(&self) -> u64 {
        self.running.held.most.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use crate::SessionKind;
    use crate::tests::world;

    #[test]
    fn what_is_held_comes_and_goes_and_the_most_stays() {
        let (_, observer) = world();
        let ctx = observer.ctx(SessionKind::User, "psql");
        let seen = || (ctx.session.held_bytes(), ctx.session.most_held_bytes());
        ctx.session.hold(100);
        ctx.session.hold(50);
        assert_eq!(seen(), (150, 150));
        ctx.session.let_go(120);
        ctx.session.hold(10);
        assert_eq!(seen(), (40, 150));
        ctx.session.let_go(40);
        assert_eq!(seen(), (0, 150));
    }
}
