//! Traces that are on for every session which says certain things of itself: its service, module
//! and action, for whom it works.
//!
//! What it promises: a session is traced from the moment at which it says so, until it says
//! something else or the rule is gone; what it has asked for itself stays. What it must never do:
//! cost more than a look at a flag where there is no rule.

use std::sync::atomic::Ordering;

use super::{TRACE_CALLS, TraceRequest};
use crate::observer::Observer;
use crate::session::{About, SessionKind, SessionState};

/// Whom a rule is about; `None`: any.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TraceRule {
    pub service: Option<String>,
    pub module: Option<String>,
    pub action: Option<String>,
    pub client_identifier: Option<String>,
    /// As in [`TraceRequest::level`].
    pub level: u8,
}

/// The rules of an instance.
#[derive(Default)]
pub(crate) struct TraceRules {
    /// What [`Observer::outdated_trace_rules`] had given when they were read.
    number: u64,
    rules: Vec<TraceRule>,
    bytes_max: Option<u64>,
}

impl TraceRule {
    fn holds(&self, about: &About) -> bool {
        let same = |wanted: &Option<String>, said: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == said)
        };
        self.service.as_deref().is_none_or(|own| own.eq_ignore_ascii_case(&about.service))
            && same(&self.module, &about.module)
            && same(&self.action, &about.action)
            && same(&self.client_identifier, &about.client_identifier)
    }
}

impl Observer {
    /// The rules from now on, read after [`Observer::outdated_trace_rules`] had given this number;
    /// a file has at most so many bytes. Whoever reads more slowly than others changes nothing.
    pub fn set_trace_rules(&self, number: u64, rules: Vec<TraceRule>, bytes_max: Option<u64>) {
        // Held until all sessions follow: none does what older rules say after newer ones.
        let mut all = self.trace_rules.lock();
        if number < all.number {
            return;
        }
        let any = !rules.is_empty();
        *all = TraceRules { number, rules, bytes_max };
        let before = self.has_trace_rules.swap(any, Ordering::SeqCst);
        if any || before {
            self.session_states().iter().for_each(|state| self.follow_rules(&all, state));
        }
        self.read_trace_rules.store(number, Ordering::SeqCst);
    }

    /// Others have been written down: they are to be read.
    pub fn outdate_trace_rules(&self) {
        self.wanted_trace_rules.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether they are to be read, as they are when the instance starts: the number of those that
    /// whoever begins to read them now finds. `None`: they have been read.
    #[must_use]
    pub fn outdated_trace_rules(&self) -> Option<u64> {
        let wanted = self.wanted_trace_rules.load(Ordering::SeqCst);
        (self.read_trace_rules.load(Ordering::SeqCst) < wanted).then_some(wanted)
    }

    /// A session has said something else of itself, or has begun.
    pub fn apply_trace_rules(&self, state: &SessionState) {
        if self.has_trace_rules.load(Ordering::Relaxed) {
            self.follow_rules(&self.trace_rules.lock(), state);
        }
    }

    fn follow_rules(&self, all: &TraceRules, state: &SessionState) {
        if state.kind() != SessionKind::User {
            return;
        }
        let about = state.about();
        let level = all.rules.iter().filter(|rule| rule.holds(&about)).fold(0, |l, r| l | r.level);
        let level = if level > 0 { level | TRACE_CALLS } else { 0 };
        if state.rule_trace_level.swap(level, Ordering::SeqCst) == level {
            return;
        }
        let bytes_max = all.bytes_max;
        let request = TraceRequest { level, identifier: String::new(), bytes_max };
        // Without a folder for traces nothing is traced, whoever asks.
        let _ = self.retrace(state, &request, true);
    }
}
