//! A service outside the cluster that keeps small values and leases: what instances of several
//! hosts agree by.
//!
//! It is what etcd promises: one order of all changes, each change whole or not at all and only if
//! what it rests on is still as it was; a lease that ends when nobody has renewed it for its time
//! by the service's own clock, and takes with it the keys that hang on it. Each call may take any
//! time, or never be answered: whoever calls sets a limit.

use std::io;
use std::time::Duration;

use crate::BoxFuture;

/// Whether an I/O was refused because the storage has been told to refuse its process's
/// ([`crate::EnvImpl::fence`]): Linux says EBADE to who lacks the reservation.
#[must_use]
pub fn is_fenced(e: &io::Error) -> bool {
    e.raw_os_error() == Some(nix::libc::EBADE)
}

/// A lease, by a number that is never given twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LeaseId(pub u64);

/// A key with its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    pub key: String,
    pub value: Vec<u8>,
    /// Which change of the service was the last one of this key; from 1 on.
    pub revision: u64,
}

/// A value to be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Put {
    pub key: String,
    pub value: Vec<u8>,
    /// The key goes when this lease ends.
    pub lease: Option<LeaseId>,
}

/// What is changed at once, or not at all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Change {
    /// Keys that must have been changed last in this revision; 0: that must not exist.
    pub given: Vec<(String, u64)>,
    pub put: Vec<Put>,
    pub delete: Vec<String>,
}

pub trait Arbiter: Send + Sync {
    /// A new lease, which lasts so long from now on, by the service's clock.
    fn grant(&self, ttl: Duration) -> BoxFuture<'_, io::Result<LeaseId>>;
    /// The lease lasts its time anew, from when the service hears of it; `false`: it has ended.
    fn renew(&self, lease: LeaseId) -> BoxFuture<'_, io::Result<bool>>;
    /// Ends a lease.
    fn revoke(&self, lease: LeaseId) -> BoxFuture<'_, io::Result<()>>;
    /// All keys at one moment after the call, in their order.
    fn read(&self) -> BoxFuture<'_, io::Result<Vec<Entry>>>;
    /// `false`: something was not as given, and nothing has changed.
    fn change(&self, change: Change) -> BoxFuture<'_, io::Result<bool>>;
}
