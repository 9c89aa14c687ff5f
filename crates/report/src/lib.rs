//! Text out of what instances have written down: trace files summed up, and sorted by session;
//! snapshots of the statistics compared.
//!
//! What it promises: whatever the input, it ends with all that could be read and a note for each
//! line that could not. What it must never do: touch a file or a clock.

mod ask;
mod awr;
mod diagnose;
mod layout;
mod tkprof;
mod trace;
mod trcsess;

pub use ask::{
    CREATE_SNAPSHOT, SNAPSHOTS, beside, beside_statements, input, input_statements, is_missing,
    samples, samples_statements, snapshots, taken,
};
pub use awr::{
    Fetched, Input, Interval, Problem, Samples, SnapshotRow, TABLES, ash_html, ash_text,
    check_pair, newest_pair, refusal_html, report_html, report_text,
};
pub use diagnose::{Beside, Sequence, diagnose, diagnose_html};
pub use tkprof::{Options, SortKey, recorded, tkprof};
pub use trace::{Note, Trace};
pub use trcsess::{Filter, trcsess};

#[cfg(test)]
mod tests;
