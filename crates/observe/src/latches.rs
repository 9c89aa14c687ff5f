//! Sleeps on latches as waits of the session whose thread it is.
//!
//! What it promises: a sleep is shown while it lasts, counted and traced as any other wait. What it
//! must never do: end a session, or write a file. When the sleep is over its thread has the latch,
//! which others want.

use std::sync::{Arc, Weak};

use env::Env;
use env::latch::{LatchWaits, attribute};

use crate::events::WaitEvent;
use crate::session::{Session, SessionState};

struct OfSession {
    /// Not the handle whose end is the session's.
    state: Weak<SessionState>,
    env: Env,
}

impl OfSession {
    fn new(session: &Session) -> OfSession {
        let env = session.observer.env().clone();
        OfSession { state: Arc::downgrade(&session.state), env }
    }
}

/// Sleeps of the calling thread on latches are waits of `session` from now on.
pub fn attribute_latches(session: &Session) {
    attribute(Some(Arc::new(OfSession::new(session))));
}

/// The event of a latch of this name.
fn event_of(latch: &str) -> WaitEvent {
    match latch {
        "buffer busy waits" => WaitEvent::BufferBusyWaits,
        "cache buffers chains" => WaitEvent::LatchCacheBuffersChains,
        "redo allocation" => WaitEvent::LatchRedoAllocation,
        "shared pool" => WaitEvent::LatchSharedPool,
        "library cache" => WaitEvent::LatchLibraryCache,
        _ => WaitEvent::LatchFree,
    }
}

impl LatchWaits for OfSession {
    fn wait(&self, name: &'static str, p: [u64; 3], sleep: &mut dyn FnMut()) {
        let Some(state) = self.state.upgrade() else { return sleep() };
        let (event, since) = (event_of(name), self.env.now());
        let token = state.show(event, p, since);
        sleep();
        let now = self.env.now();
        state.end(token, (event, None), since, now, false);
        if token != 0 {
            state.trace_latch(event, p, now.since(since), now, &self.env);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SessionKind;
    use crate::tests::world;

    #[test]
    fn a_sleep_on_a_latch_is_a_wait_of_its_session() {
        let (clock, observer) = world();
        let ctx = observer.ctx(SessionKind::User, "psql");
        let waits = OfSession::new(&ctx.session);
        waits.wait("cache buffers chains", [7, 0, 6], &mut || {
            let shown = ctx.session.wait_view(ctx.env.now());
            let event = Some(WaitEvent::LatchCacheBuffersChains);
            assert_eq!((shown.waiting, shown.event, shown.p), (true, event, [7, 0, 6]));
            clock.advance(30);
        });
        let counted = |event| {
            let totals = ctx.session.totals().event(event);
            (totals.waits, totals.time_us)
        };
        assert_eq!(counted(WaitEvent::LatchCacheBuffersChains), (1, 30));
        waits.wait("buffer busy waits", [4, 130, 1], &mut || clock.advance(5));
        assert_eq!(counted(WaitEvent::BufferBusyWaits), (1, 5));
        drop(ctx);
        let mut slept = false;
        waits.wait("gcs resource hash", [0; 3], &mut || slept = true);
        assert!(slept, "without a session it sleeps all the same");
    }
}
