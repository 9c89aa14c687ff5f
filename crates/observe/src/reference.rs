//! The manual pages that are made from the registries; `cargo x bless` writes them, a test
//! compares.

use std::fmt::Write;

use crate::events::WaitEvent;
use crate::stats::Stat;

/// `docs/reference/wait-events.md`.
#[must_use]
pub fn wait_events_page() -> String {
    let mut page = String::from(
        "# Wait events\n\n\
         Made from the registry in `crates/observe/src/events.rs` by `cargo x bless`.\n\n\
         What a session waits for is shown in `v$session` and `v$session_wait` while it lasts, and \
         counted in `v$session_event`, `v$system_event` and `v$event_histogram`. Times are \
         microseconds. p1 of an `enq:` event holds the two letters of the enqueue's type in its \
         high half and the mode in the low half (1 null, 2 SS, 3 SX, 4 S, 5 SSX, 6 X). Events \
         of class Idle are left out of reports.\n\n\
         | Event | Class | p1 / p2 / p3 | A session waits because |\n|---|---|---|---|\n",
    );
    for event in WaitEvent::ALL {
        let p = event.p_labels().map(|l| if l.is_empty() { "–" } else { l }).join(" / ");
        let p = p.replace('|', "\\|");
        let _ = writeln!(page, "| {event} | {} | {p} | {} |", event.class(), event.doc());
    }
    page
}

/// `docs/reference/statistics.md`.
#[must_use]
pub fn statistics_page() -> String {
    let mut page = String::from(
        "# Statistics\n\n\
         Made from the registry in `crates/observe/src/stats.rs` by `cargo x bless`.\n\n\
         Counters shown in `v$sysstat` (instance) and `v$sesstat` (session). `value` has the unit \
         that stands here, `cs` being hundredths of a second; `value_us` has times in full. \
         Classes: 1 user, 2 redo, 4 enqueue, 8 cache, 32 cluster, 64 SQL.\n\n\
         | Statistic | Class | Unit | Meaning |\n|---|--:|---|---|\n",
    );
    for stat in Stat::ALL {
        let (class, unit) = (stat.class().number(), stat.unit().name());
        let _ = writeln!(page, "| {stat} | {class} | {unit} | {} |", stat.doc());
    }
    page
}
