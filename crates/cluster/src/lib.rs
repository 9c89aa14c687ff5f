//! Who is in the cluster, and the connections between its members.
//!
//! * [`voting`]: the voting file, where each instance holds a lock for as long as its process
//!   lives.
//! * [`lease`]: what stands in its place where instances are on several hosts: leases, with
//!   storage that refuses the writes of whoever is out.
//! * `registry`: the trait that both implement.
//! * [`machine`]: the membership decisions, a pure state machine.
//! * [`membership`]: the driver that feeds the machine and does what it says.
//! * [`interconnect`]: authenticated FIFO channels between members, one a direction and message
//!   class.
//!
//! What it promises: an instance is announced as departed only when its process is certainly gone
//! (its lock is free, or a newer incarnation holds it) or can neither answer nor write any more
//! (its lease has ended, and the storage refuses it); there is one decider an epoch (the holder of
//! the reconfiguration lock); a channel that broke is never resumed within a life of its link. What
//! an epoch change means for blocks and enqueues is the kernel's.

mod handshake;
pub mod interconnect;
pub mod lease;
pub mod machine;
pub mod membership;
mod registry;
#[cfg(test)]
mod tests;
pub mod voting;

pub use interconnect::{
    Broken, Class, ClassInbox, ConnectError, Incoming, Interconnect, InterconnectConfig,
    PeerCounters, Started,
};
pub use lease::Deadline;
pub use machine::{Departed, Member, MembershipEvent, Reconfiguration};
pub use membership::{Claim, Membership, MembershipConfig};
pub use voting::{SlotState, VotingView};

/// Errors of membership and of the start of the interconnect.
#[derive(thiserror::Error, Debug)]
pub enum Error {
    #[error("instance {instance} is already running (process {pid})")]
    AlreadyRunning { instance: block::InstanceNo, pid: u32 },
    #[error("{path} is not a voting file: {why}")]
    NotVotingFile { path: String, why: &'static str },
    #[error("instance {0} is beyond what the voting file has room for")]
    NoSuchInstance(block::InstanceNo),
    #[error("its lease has ended")]
    LeaseEnded,
    #[error("another instance has decided meanwhile")]
    Overtaken,
    #[error("the arbiter keeps something that is no record of the {0}")]
    BadRecord(&'static str),
    #[error("an address of {0} bytes does not fit its slot of the voting file")]
    AddressTooLong(usize),
    #[error("{what}: {source}")]
    Io { what: String, source: std::io::Error },
}

impl Error {
    pub(crate) fn io(what: impl Into<String>, source: std::io::Error) -> Error {
        Error::Io { what: what.into(), source }
    }
}
