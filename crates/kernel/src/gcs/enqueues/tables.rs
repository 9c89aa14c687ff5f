//! Table locks: the instance holds the table's enqueue for all its transactions.
//!
//! Promises: the shadow's user [`INSTANCE`] has exactly the mode that [`crate::txn::TableLocks`]
//! believes
//! to have; both change under the service's lock.

use std::time::Duration;

use block::ObjId;
use env::BoxFuture;
use global::ges::{ShadowEffect, ShadowEvent};
use global::msg::{GesMode, Resource};
use observe::Ctx;

use super::super::node::Node;
use super::{Entry, INSTANCE, Step};
use crate::error::Result;
use crate::txn::{TableEnqueues, table_resource};

const TM: [u8; 2] = *b"TM";

impl TableEnqueues for Node {
    fn cover<'a>(
        &'a self,
        ctx: &'a Ctx,
        obj: ObjId,
        mode: GesMode,
        no_wait: bool,
    ) -> BoxFuture<'a, Result<()>> {
        let resource = table_resource(obj);
        Box::pin(async move {
            // Dead transactions come first (H18).
            while self.is_being_adopted(resource) {
                self.env.sleep(Duration::from_millis(1)).await;
            }
            self.ask(ctx, resource, mode, INSTANCE, no_wait).answer().await
        })
    }

    fn released(&self, obj: ObjId) {
        let resource = table_resource(obj);
        let _gate = self.cache.enter_protocol();
        let mut state = self.enqueues.state.lock();
        let Some(wanted) = self.core.table_locks.revoking(obj) else { return };
        if let Some(mode) = self.core.table_locks.give_way(obj, wanted, false) {
            let (owner, req_id) = (INSTANCE, self.req_id());
            let event = ShadowEvent::Lower { owner, mode, req_id };
            self.run(&mut state, Step::Shadow(resource, event));
        }
    }
}

impl Node {
    pub(super) fn table_covered(&self, resource: Resource, mode: GesMode) {
        if resource.kind == TM {
            self.core.table_locks.covered(ObjId(resource.id1), mode);
        }
    }

    /// Another instance goes on waiting for `wanted`: the transactions' end is awaited.
    pub(super) fn owe(&self, resource: Resource, wanted: GesMode) {
        if resource.kind == TM {
            self.core.table_locks.owe(ObjId(resource.id1), wanted);
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
        if resource.kind != TM || entry.shadow.users().is_empty() {
            return;
        }
        let obj = ObjId(resource.id1);
        if let Some(mode) = self.core.table_locks.give_way(obj, wanted, no_wait) {
            let (owner, req_id) = (INSTANCE, self.req_id());
            entry.shadow.step(ShadowEvent::Lower { owner, mode, req_id }, effects);
        }
    }
}
