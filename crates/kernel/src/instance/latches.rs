//! The latches of an instance, for `v$latch`.

use env::latch::LatchList;

use super::Instance;
use crate::dict;

impl Instance {
    /// Tells of the latches of the kernel.
    pub fn latches(&self, list: &mut LatchList) {
        self.core.cache.latches(list);
        self.core.log.latches(list);
        self.node.latches(list);
        self.core.table_locks.latches(list);
        self.core.snapshots.latches(list);
        self.core.all_segments().iter().for_each(|segment| segment.latches(list));
        dict::sequence_latches(&self.core, list);
        self.observer.latches(list);
    }
}
