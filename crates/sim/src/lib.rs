//! The cluster in one thread: scenarios over the real kernel in a simulated world, and what must
//! hold afterwards.
//!
//! A scenario makes a database, opens its instances, lets clients move money between accounts and
//! note what was acknowledged, crashes and restarts instances meanwhile, and in the end compares:
//! the sum of all accounts, every acknowledged transfer, every table against its index. All of it
//! comes from one seed: the same seed gives the same trace.

mod bank;
mod check;
mod cluster;
mod scenario;

pub use cluster::{Cluster, STUCK};
pub use scenario::{Report, Scenario, run};
