//! Text out of what instances have written down: trace files summed up, and sorted by session;
//! snapshots of the statistics compared.
//!
//! What it promises: whatever the input, it ends with all that could be read and a note for each
//! line that could not. What it must never do: touch a file or a clock.

mod awr;
mod diagnose;
mod layout;
mod tkprof;
mod trace;
mod trcsess;

pub use awr::{
    Fetched, Input, Interval, Problem, Samples, SnapshotRow, TABLES, ash_html, ash_text,
    check_pair, newest_pair, report_html, report_text,
};
pub use diagnose::{Beside, Sequence, diagnose};
pub use tkprof::{Options, SortKey, tkprof};
pub use trace::{Note, Trace};
pub use trcsess::{Filter, trcsess};

#[cfg(test)]
mod tests;
