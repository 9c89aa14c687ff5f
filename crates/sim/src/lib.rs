//! The cluster in one thread: scenarios over the real kernel in a simulated world, and what must
//! hold afterwards.
//!
//! A scenario makes a database, opens its instances, lets the clients of a load work and note what
//! was acknowledged, crashes and restarts instances meanwhile, and in the end compares the database
//! with what the clients know. All of it comes from one seed: the same seed gives the same trace.

mod bank;
mod cluster;
mod family;
mod faults;
mod file;
mod holders;
mod load;
mod mixed;
mod ratchet;
mod scenario;
mod seeds;
mod sequences;
mod shrink;
mod tables;
mod told;

pub use bank::Bank;
pub use cluster::{Cluster, STUCK, Sizes};
pub use family::Family;
pub use faults::Fault;
pub use holders::check as check_holders;
pub use load::{Counts, Load, Together};
pub use mixed::{Mix, Mixed};
pub use ratchet::{Speed, Verdict, yard};
pub use scenario::{LoadKind, Report, Scenario, run};
pub use seeds::SeedLog;
pub use sequences::{Sequences, plain_sequence};
pub use shrink::{Failing, shrink};
pub use tables::{plain_table, primary_key};
pub use told::{Lists, Registers};
