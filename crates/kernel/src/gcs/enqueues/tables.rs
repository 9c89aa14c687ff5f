//! Table locks and locks of the users' own: the instance holds the enqueue for all its transactions
//! and sessions.
//!
//! Promises: the shadow's user [`INSTANCE`] has exactly the mode that [`crate::txn::TableLocks`]
//! believes
//! to have; both change under the service's lock.

use std::time::Duration;

use env::BoxFuture;
use global::ges::{ShadowEffect, ShadowEvent};
use global::msg::{GesMode, Resource, ValueBlock};

use super::super::node::Node;
use super::{Entry, INSTANCE, Step};
use crate::error::Result;
use crate::txn::{TableEnqueues, is_shared_by_instance};

impl TableEnqueues for Node {
    fn cover(&self, resource: Resource, mode: GesMode, no_wait: bool) -> BoxFuture<'_, Result<()>> {
        env::boxed!(async move {
            // Dead transactions come first (H18).
            while self.is_being_adopted(resource) {
                self.env.sleep(Duration::from_millis(1)).await;
            }
            self.ask_mode(resource, mode, INSTANCE, no_wait).answer().await
        })
    }

    fn value(&self, resource: Resource) -> Option<ValueBlock> {
        self.enqueue_value(resource)
    }

    fn set_value(&self, resource: Resource, value: u64, limit: u64) -> Result<()> {
        self.enqueue_set_value(resource, INSTANCE, value, limit)
    }

    fn released(&self, resource: Resource) {
        let _gate = self.cache.enter_protocol();
        let mut state = self.enqueues.state.lock();
        let Some(wanted) = self.core.table_locks.revoking(resource) else { return };
        if let Some(mode) = self.core.table_locks.give_way(resource, wanted, false) {
            let (owner, req_id) = (INSTANCE, self.req_id());
            let event = ShadowEvent::Lower { owner, mode, req_id };
            self.run(&mut state, Step::Shadow(resource, event));
        }
    }
}

impl Node {
    pub(super) fn table_covered(&self, resource: Resource, mode: GesMode) {
        if is_shared_by_instance(resource) {
            self.core.table_locks.covered(resource, mode);
        }
    }

    /// Another instance goes on waiting for `wanted`: the transactions' end is awaited.
    pub(super) fn owe(&self, resource: Resource, wanted: GesMode) {
        if is_shared_by_instance(resource) {
            self.core.table_locks.owe(resource, wanted);
        }
    }

    /// Another instance wants `wanted`: what is kept here without need is let go of first, so that
    /// who does not wait is refused for a true reason only.
    pub(super) fn give_way(
        &self,
        entry: &mut Entry,
        wanted: GesMode,
        no_wait: bool,
        effects: &mut Vec<ShadowEffect>,
    ) {
        let resource = entry.shadow.resource();
        if !is_shared_by_instance(resource) || entry.shadow.users().is_empty() {
            return;
        }
        if let Some(mode) = self.core.table_locks.give_way(resource, wanted, no_wait) {
            let (owner, req_id) = (INSTANCE, self.req_id());
            entry.shadow.step(ShadowEvent::Lower { owner, mode, req_id }, effects);
        }
    }
}
