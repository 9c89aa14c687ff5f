//! What a session has open: cursors, and statements that it has given names to.
//!
//! What it promises: others see it without asking the session, as it was when it last opened or
//! closed something. What it must never do: keep something that the session does not.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::session::SessionState;
use crate::statements::SharedCursor;

/// What is counted under a cursor of all sessions, once it has been parsed.
pub trait Counted: Send + Sync {
    /// That cursor; `None`: it is counted as part of what runs it, or has not run.
    fn counted(&self) -> Option<Arc<SharedCursor>>;
}

/// How a session holds a statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CursorKind {
    /// DECLARE has opened it, or code for a cursor variable.
    Open,
    /// PREPARE has named it.
    Named,
}

impl CursorKind {
    /// As `v$open_cursor.cursor_type` shows it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            CursorKind::Open => "OPEN",
            CursorKind::Named => "SESSION CURSOR CACHED",
        }
    }
}

/// One of them.
#[derive(Clone)]
pub struct OpenCursor {
    pub text: Arc<str>,
    /// Who knows what it is counted under.
    pub of: Arc<dyn Counted>,
}

type ByName = BTreeMap<Arc<str>, OpenCursor>;

/// All of one session.
#[derive(Default)]
pub struct OpenCursors {
    open: Mutex<ByName>,
    named: Mutex<ByName>,
}

impl OpenCursors {
    fn of(&self, kind: CursorKind) -> &Mutex<ByName> {
        match kind {
            CursorKind::Open => &self.open,
            CursorKind::Named => &self.named,
        }
    }

    /// There is one more, or another of this name.
    pub fn add(&self, kind: CursorKind, name: &str, cursor: OpenCursor) {
        self.of(kind).lock().insert(Arc::from(name), cursor);
    }

    /// The session has so many now: those whose names it does not know have gone.
    pub fn keep(&self, kind: CursorKind, count: usize, knows: impl Fn(&str) -> bool) {
        let mut all = self.of(kind).lock();
        if all.len() > count {
            all.retain(|name, _| knows(name));
        }
    }

    /// Kind, name and statement of each.
    #[must_use]
    pub fn list(&self) -> Vec<(CursorKind, Arc<str>, OpenCursor)> {
        let mut list = Vec::new();
        for kind in [CursorKind::Open, CursorKind::Named] {
            let all = self.of(kind).lock();
            list.extend(all.iter().map(|(name, cursor)| (kind, name.clone(), cursor.clone())));
        }
        list
    }
}

impl SessionState {
    /// What it has open.
    #[must_use]
    pub fn open_cursors(&self) -> &OpenCursors {
        &self.open_cursors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl Counted for Nothing {
        fn counted(&self) -> Option<Arc<SharedCursor>> {
            None
        }
    }

    #[test]
    fn what_the_session_does_not_know_any_more_goes() {
        let all = OpenCursors::default();
        let add = |kind, name, text: &str| {
            all.add(kind, name, OpenCursor { text: Arc::from(text), of: Arc::new(Nothing) });
        };
        add(CursorKind::Open, "a", "select 1");
        add(CursorKind::Open, "b", "select 2");
        add(CursorKind::Named, "a", "select 3");
        add(CursorKind::Open, "b", "select 4");
        all.keep(CursorKind::Open, 1, |name| name == "b");
        all.keep(CursorKind::Named, 1, |_| false);
        let list = all.list();
        let list: Vec<_> =
            list.iter().map(|(kind, name, one)| (kind.name(), &**name, &*one.text)).collect();
        let named = ("SESSION CURSOR CACHED", "a", "select 3");
        assert_eq!(list, [("OPEN", "b", "select 4"), named], "as many as it has stay unasked");
    }
}
