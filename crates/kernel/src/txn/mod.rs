#![doc = include_str!("README.md")]

mod core;
mod current;
mod end;
mod kept;
mod locks;
mod modify;
mod pending;
mod rollback;
mod scn_times;
mod snapshot;
mod status;
mod transaction;
mod wait;
mod work_memory;

#[cfg(test)]
mod tests;

pub use global::msg::Resource;

pub use self::core::{Core, CoreConfig, CrCopy, INDEX_GATES, LeafFinder, Peers};
pub use current::CurrentView;
pub use kept::{COPIES_MAX, Memory};
pub use locks::{
    Holder, TableEnqueues, TableLocks, TmMode, analyze_resource, is_of_sequence,
    is_shared_by_instance, notification_resource, sequence_resource, table_resource, user_resource,
};
pub use modify::{Crowd, LockState, Outcome, Step, Target, View};
pub use pending::{Moment, PutOff};
pub use scn_times::ScnTimes;
pub use snapshot::{Snapshot, Snapshots};
pub use status::TxStatus;
pub use transaction::{Isolation, Savepoint, Transaction};
pub use wait::{LockWait, RemoteDeadlocks, WaitTarget, WaitView, Waits};
pub use work_memory::{Held, WorkMemory};
