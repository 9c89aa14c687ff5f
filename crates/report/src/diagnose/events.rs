//! Waits that no other rule explains: what costs much is named, if only by its event.
//!
//! What it promises: an event that another rule looks at is left to it, also where that finds
//! nothing to blame. What it must never do: say why.

use super::statements::waiters;
use super::{Case, Finding, ms_each, waits_of};
use crate::awr::page::number;

/// Events of which other rules know the cause; and sending what was asked for, which is work.
const EXPLAINED: [&str; 19] = [
    "log file sync",
    "commit outcome",
    "wait for scn ack",
    "enq: TX - row lock contention",
    "enq: TM - contention",
    "enq: TX - allocate ITL entry",
    "enq: TX - index contention",
    "log buffer space",
    "log file switch (checkpoint incomplete)",
    "db file sequential read",
    "db file scattered read",
    "db file parallel read",
    "direct path read temp",
    "direct path write temp",
    "row cache lock",
    "enq: SQ - contention",
    "DFS lock handle",
    "buffer busy waits",
    "SQL*Net message to client",
];

/// Everything else that clients wait for.
pub(super) fn others(case: &Case<'_>) -> Vec<Finding> {
    let Some(table) = case.all.table("wrh$_system_event") else { return Vec::new() };
    let mut found = Vec::new();
    for row in &table.rows {
        let [event, class, ..] = &row.keys[..] else { continue };
        let explained = EXPLAINED.contains(&event.as_str());
        if explained || matches!(class.as_str(), "Idle" | "Cluster") {
            continue;
        }
        let (waits, us) = case.event(event);
        if waits <= 0.0 {
            continue;
        }
        let each = number(ms_each(us, waits), 2);
        let mut evidence = vec![format!("{}, {each} ms each", waits_of(waits))];
        evidence.extend(waiters(case, event));
        found.push(Finding {
            cost_us: us,
            sentence: format!("sessions wait for `{event}` (class {class})."),
            evidence,
            remedy: "look up what that is (docs/reference/wait-events.md), and who waits for it, \
                     by which statement, in the active session history (skein report --ash)."
                .to_owned(),
        });
    }
    found
}
