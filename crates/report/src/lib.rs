//! Text out of what instances have written down: trace files summed up, and sorted by session.
//!
//! What it promises: whatever the input, it ends with all that could be read and a note for each
//! line that could not. What it must never do: touch a file or a clock.

mod layout;
mod tkprof;
mod trace;
mod trcsess;

pub use tkprof::{Options, SortKey, tkprof};
pub use trace::{Note, Trace};
pub use trcsess::{Filter, trcsess};

#[cfg(test)]
mod tests;
