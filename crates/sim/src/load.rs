//! What a load offers to a scenario.

use std::sync::Arc;

use env::BoxFuture;
use kernel::Result;
use kernel::instance::Instance;
use observe::Ctx;

/// What a run's clients have done and met. Part of the report: two runs of a seed must agree in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Transactions whose commit was answered.
    pub acknowledged: usize,
    /// Transactions whose commit was begun and never answered.
    pub unknown: usize,
    /// Transactions that were rolled back.
    pub refused: usize,
    /// Looks at everything while the clients ran.
    pub looks: u64,
    pub deadlocks: u64,
    pub conflicts: u64,
    pub too_old: u64,
    pub full: u64,
    pub locked: u64,
    /// Work that the disks have refused.
    pub disk_errors: u64,
}

/// Whether this is what a client must expect of disks that fail.
#[must_use]
pub fn is_disk_trouble(e: &kernel::Error) -> bool {
    matches!(e, kernel::Error::Disk(_))
}

/// Tables, clients that work on them, and what must hold.
///
/// A client panics when something does not hold: the seed has found a bug.
pub trait Load: Send + Sync {
    /// Makes and fills the tables.
    fn set_up<'a>(&'a self, ctx: &'a Ctx, at: &'a Arc<Instance>) -> BoxFuture<'a, Result<()>>;
    /// One piece of work of client `n`, to its end.
    fn step<'a>(&'a self, ctx: &'a Ctx, at: &'a Arc<Instance>, n: u8) -> BoxFuture<'a, ()>;
    /// Compares the database with what the clients know.
    fn check<'a>(&'a self, ctx: &'a Ctx, at: &'a Arc<Instance>) -> BoxFuture<'a, Result<()>>;
    fn counts(&self) -> Counts;
}
