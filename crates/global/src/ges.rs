//! Enqueues: the master's queue, the instance's own table, and the search for deadlocks.
//!
//! An instance asks the master for a mode once and keeps it (as it keeps a block) until somebody
//! else needs it: local users come and go without a message. The master revokes with a blocking
//! notification; the instance lowers its mode as soon as its users allow, and serves newcomers
//! after whoever waits elsewhere.

mod deadlock;
mod master;
mod shadow;

pub use self::deadlock::{Deadlock, DeadlockEffect, WaitGraph, deadlocked};
pub use self::master::{GesEffect, GesMaster, GesView};
pub use self::shadow::{GesShadow, LocalWait, OwnerId, ShadowEffect, ShadowEvent};
