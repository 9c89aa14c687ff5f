//! Rights to objects' definitions (H19), as enqueues of type QD.
//!
//! S is the mode the instance keeps, with no user: as long as it has it, the row cache may hold the
//! definition. Promises that the definition is forgotten here before the master hears that the
//! instance has S no more. X is the transaction's, to its end.

use std::sync::{Arc, Weak};

use block::ObjId;
use env::BoxFuture;
use global::ges::OwnerId;
use global::msg::{GesMode, Resource};
use observe::{Ctx, WaitEvent};

use super::super::node::Node;
use crate::dict::{self, ObjectLocks, ObjectMode, RightMessage};
use crate::error::{Error, Result};
use crate::txn::{LockWait, Transaction};

const QD: [u8; 2] = *b"QD";

fn object_resource(obj: ObjId) -> Resource {
    Resource::new(QD, obj.0, 0)
}

/// A node's rights for the dictionary, which the node has: it is not kept alive from there.
struct Rights(Weak<Node>);

impl Rights {
    fn node(&self) -> Result<Arc<Node>> {
        self.0.upgrade().ok_or(Error::Closing)
    }
}

impl Node {
    /// What the dictionary asks before it keeps definitions.
    #[must_use]
    pub fn object_locks(self: &Arc<Node>) -> Arc<dyn ObjectLocks> {
        Arc::new(Rights(Arc::downgrade(self)))
    }
}

impl ObjectLocks for Rights {
    fn lock_object<'a>(
        &'a self,
        ctx: &'a Ctx,
        txn: &'a Transaction,
        obj: ObjId,
        mode: ObjectMode,
    ) -> BoxFuture<'a, Result<()>> {
        env::boxed!(async move { self.node()?.lock_object(ctx, txn, obj, mode).await })
    }

    fn try_lock_object<'a>(
        &'a self,
        ctx: &'a Ctx,
        txn: &'a Transaction,
        obj: ObjId,
    ) -> BoxFuture<'a, Result<bool>> {
        env::boxed!(async move { self.node()?.try_lock_object(ctx, txn, obj).await })
    }

    fn unlock_object(&self, txn: u64, obj: ObjId) {
        if let Ok(node) = self.node() {
            node.unlock_object(txn, obj);
        }
    }
}

impl ObjectLocks for Node {
    fn lock_object<'a>(
        &'a self,
        ctx: &'a Ctx,
        txn: &'a Transaction,
        obj: ObjId,
        mode: ObjectMode,
    ) -> BoxFuture<'a, Result<()>> {
        env::boxed!(async move {
            let resource = object_resource(obj);
            let mode = match mode {
                ObjectMode::S => GesMode::S,
                ObjectMode::X => GesMode::X,
            };
            // A transaction of this instance that is changing it does not keep others here from
            // reading what is committed: the row cache's generation guards them.
            if mode == GesMode::S && self.enqueue_mode(resource).covers(GesMode::S) {
                return Ok(());
            }
            let owner = OwnerId(txn.local_id());
            let p = [u64::from(obj.0), 0, 100 * u64::from(mode.number())];
            let asked = async { self.ask_mode(resource, mode, owner, false).answer().await };
            let event = WaitEvent::LibraryCacheLock;
            let core = &self.core;
            core.wait_enqueue(ctx, txn, resource, asked, event, p, LockWait::Wait).await?;
            if mode == GesMode::S {
                self.enqueue_unlock(resource, owner);
            }
            Ok(())
        })
    }

    fn try_lock_object<'a>(
        &'a self,
        ctx: &'a Ctx,
        txn: &'a Transaction,
        obj: ObjId,
    ) -> BoxFuture<'a, Result<bool>> {
        env::boxed!(async move {
            let resource = object_resource(obj);
            if self.enqueue_mode(resource).covers(GesMode::S) {
                return Ok(true);
            }
            let owner = OwnerId(txn.local_id());
            let p = [u64::from(obj.0), 0, 100 * u64::from(GesMode::S.number())];
            let asked = async { self.ask_mode(resource, GesMode::S, owner, true).answer().await };
            match ctx.wait_or_cancel(WaitEvent::LibraryCacheLock, p, asked).await? {
                Ok(()) => {
                    self.enqueue_unlock(resource, owner);
                    Ok(true)
                }
                Err(Error::RowLocked) => Ok(false),
                Err(e) => Err(e),
            }
        })
    }

    fn unlock_object(&self, txn: u64, obj: ObjId) {
        self.enqueue_unlock(object_resource(obj), OwnerId(txn));
    }
}

impl Node {
    /// Another instance is told this about a right, or wants it: counted for the row cache, if
    /// the enqueue is one of its own.
    pub(super) fn count_right(&self, resource: Resource, message: RightMessage) {
        if resource.kind == QD {
            dict::count_right(&self.core, ObjId(resource.id1), message);
        }
    }

    /// Before the master hears of it.
    pub(super) fn object_lowered(&self, resource: Resource, mode: GesMode) {
        if resource.kind == QD && !mode.covers(GesMode::S) {
            dict::invalidate(&self.core, ObjId(resource.id1));
        }
    }
}
