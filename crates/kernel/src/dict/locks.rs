//! The one seam through which a change of an object's definition reaches the other instances (H19).
//!
//! Rules, whoever implements it: a definition is put into the row cache only under S on its object,
//! and S is kept as long as it is there; DDL holds X from before its first change of the object
//! until its commit is acknowledged. An instance asked to give up S first calls
//! [`super::invalidate`], which raises the row cache's generation. S may be gone again by the time
//! that its taker goes on, so the generation is read before S is taken ([`super::state::Dict`]'s
//! `right_to_keep`): what is read under an S that did not last is not put in. Where an instance
//! cannot know what it missed (a membership change), it calls [`super::invalidate_all`].

use block::ObjId;
use env::BoxFuture;
use observe::Ctx;

use crate::error::Result;
use crate::txn::Transaction;

/// Right of an instance to an object's definition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObjectMode {
    /// To keep it in the row cache.
    S,
    /// To change it.
    X,
}

/// Rights to definitions, over all instances.
pub trait ObjectLocks: Send + Sync {
    /// Waits (`library cache lock`) until this instance has the right; X is `txn`'s.
    fn lock_object<'a>(
        &'a self,
        ctx: &'a Ctx,
        txn: &'a Transaction,
        obj: ObjId,
        mode: ObjectMode,
    ) -> BoxFuture<'a, Result<()>>;

    /// Takes S if nobody stands in the way; says whether it did.
    fn try_lock_object<'a>(
        &'a self,
        ctx: &'a Ctx,
        txn: &'a Transaction,
        obj: ObjId,
    ) -> BoxFuture<'a, Result<bool>>;

    /// The transaction (local number) that held X has ended; S may be kept.
    fn unlock_object(&self, txn: u64, obj: ObjId);
}

/// For one instance alone: nobody else keeps a definition, so every right is there at once. Its own
/// sessions need none: two changers exclude each other by TM X and by the row locks in the
/// dictionary, and a reader that races with a commit is caught by the row cache's generation.
#[derive(Clone, Copy, Default, Debug)]
pub struct OneInstance;

impl ObjectLocks for OneInstance {
    fn lock_object<'a>(
        &'a self,
        _: &'a Ctx,
        _: &'a Transaction,
        _: ObjId,
        _: ObjectMode,
    ) -> BoxFuture<'a, Result<()>> {
        env::boxed!(std::future::ready(Ok(())))
    }

    fn try_lock_object<'a>(
        &'a self,
        _: &'a Ctx,
        _: &'a Transaction,
        _: ObjId,
    ) -> BoxFuture<'a, Result<bool>> {
        env::boxed!(std::future::ready(Ok(true)))
    }

    fn unlock_object(&self, _: u64, _: ObjId) {}
}
