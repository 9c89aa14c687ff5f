//! What one session did in a turn, and a session that has everything at hand before it.
//!
//! What it promises: figures are those of the session alone. What it must never do: call a session
//! warm that still asks other instances; who gives up leaves that to the counts.

use std::collections::BTreeMap;

use super::bed::{Session, Waits, growth, waited};
use super::check::Check;
use super::report::Report;

/// Enough for blocks of which each is copied some times before it is shared.
const PASSES_MAX: usize = 50;

/// Counted over a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    pub gets: i64,
    pub reads: i64,
    pub gc_waits: i64,
}

impl Work {
    /// Of a session since its statistics and waits were these.
    ///
    /// # Errors
    /// A view cannot be read.
    pub async fn since(
        session: &Session,
        statistics: &BTreeMap<String, i64>,
        waits: &Waits,
    ) -> Result<Work, String> {
        let now = session.statistics().await?;
        let grown = |name: &str| growth(statistics, &now, name);
        Ok(Work {
            gets: grown("consistent gets") + grown("db block gets"),
            reads: grown("physical reads"),
            gc_waits: waited(waits, &session.waits().await?, "gc ").0,
        })
    }

    /// Checks it: so many gets, nothing read from disk and nothing asked of another instance.
    pub fn check(self, report: &mut Report, who: &str, gets: i64) {
        for (what, wanted, found) in [
            ("block gets", gets, self.gets),
            ("blocks read from disk", 0, self.reads),
            ("waits for other instances", 0, self.gc_waits),
        ] {
            report.checks.push(Check::count(format!("{who}: {what}"), wanted, found));
        }
    }
}

/// Runs these statements in each session until none asks anything of another instance. Whoever has
/// changed a block gives copies of it before he shares it, and whoever has made a definition gives
/// it up when another instance first reads it, and reads it again.
///
/// # Errors
/// What an instance said.
pub async fn warm(sessions: &[Session], statements: &[&str]) -> Result<(), String> {
    for _ in 0..PASSES_MAX {
        let mut asked = 0;
        for session in sessions.iter().chain(sessions) {
            let before = session.waits().await?;
            for statement in statements {
                session.run(statement).await?;
            }
            asked += waited(&before, &session.waits().await?, "gc ").0;
        }
        if asked == 0 {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_get_too_many_a_read_and_a_wait_are_found() {
        let fails = |work: Work| {
            let mut report = Report::default();
            work.check(&mut report, "index", 300);
            report.failures().map(|check| check.what.clone()).collect::<Vec<_>>()
        };
        let good = Work { gets: 300, reads: 0, gc_waits: 0 };
        assert!(fails(good).is_empty());
        assert_eq!(fails(Work { gets: 301, ..good }), ["index: block gets"]);
        assert_eq!(fails(Work { reads: 1, ..good }), ["index: blocks read from disk"]);
        assert_eq!(fails(Work { gc_waits: 1, ..good }), ["index: waits for other instances"]);
    }
}
