//! What a load offers to a scenario.

use std::ops::AddAssign;
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

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.acknowledged += other.acknowledged;
        self.unknown += other.unknown;
        self.refused += other.refused;
        self.looks += other.looks;
        self.deadlocks += other.deadlocks;
        self.conflicts += other.conflicts;
        self.too_old += other.too_old;
        self.full += other.full;
        self.locked += other.locked;
        self.disk_errors += other.disk_errors;
    }
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

/// Several loads on one database: each piece of work is one of them, by chance.
pub struct Together(pub Vec<Arc<dyn Load>>);

impl Load for Together {
    fn set_up<'a>(&'a self, ctx: &'a Ctx, at: &'a Arc<Instance>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            for load in &self.0 {
                load.set_up(ctx, at).await?;
            }
            Ok(())
        })
    }

    fn step<'a>(&'a self, ctx: &'a Ctx, at: &'a Arc<Instance>, n: u8) -> BoxFuture<'a, ()> {
        let which = at.core.env.random() % self.0.len() as u64;
        self.0[usize::try_from(which).expect("few loads")].step(ctx, at, n)
    }

    fn check<'a>(&'a self, ctx: &'a Ctx, at: &'a Arc<Instance>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            for load in &self.0 {
                load.check(ctx, at).await?;
            }
            Ok(())
        })
    }

    fn counts(&self) -> Counts {
        let mut all = Counts::default();
        self.0.iter().for_each(|load| all += load.counts());
        all
    }
}
