//! Rights to keep definitions that another instance wants back at once.

use std::sync::{OnceLock, Weak};

use env::BoxFuture;

use super::super::cache::Entry;
use super::super::state::Dict;
use super::*;
use crate::error::Result;

/// S is given and, before its taker goes on, given back to an instance that changes the object.
#[derive(Default)]
struct Fleeting(OnceLock<Weak<Dict>>);

impl Fleeting {
    fn take_back(&self, obj: ObjId) {
        let dict = self.0.get().and_then(Weak::upgrade).expect("the dictionary");
        dict.cache.invalidate(obj);
    }
}

impl ObjectLocks for Fleeting {
    fn lock_object<'a>(
        &'a self,
        _: &'a Ctx,
        _: &'a Transaction,
        obj: ObjId,
        _: ObjectMode,
    ) -> BoxFuture<'a, Result<()>> {
        self.take_back(obj);
        Box::pin(std::future::ready(Ok(())))
    }

    fn try_lock_object<'a>(
        &'a self,
        _: &'a Ctx,
        _: &'a Transaction,
        obj: ObjId,
    ) -> BoxFuture<'a, Result<bool>> {
        self.take_back(obj);
        Box::pin(std::future::ready(Ok(true)))
    }

    fn unlock_object(&self, _: u64, _: ObjId) {}
}

#[test]
fn a_definition_read_under_a_right_that_did_not_last_is_not_kept() {
    let w = world();
    w.t.run(async {
        let def = w.make().await;
        let open = of(&w.t.core).expect("open");
        let fixed = fixed::TABLES.iter().map(|t| open.cache.table_by_obj(t.obj).expect("fixed"));
        let locks = Arc::new(Fleeting::default());
        let bootstrap = (*def).clone();
        let observer = Arc::clone(&w.ctx.observer);
        let rights: Arc<dyn ObjectLocks> = locks.clone();
        let dict = Arc::new(Dict::new(bootstrap, fixed.collect(), rights, observer));
        locks.0.set(Arc::downgrade(&dict)).expect("set once");
        let txn = w.t.begin();
        let generation = dict.right_to_keep(&w.ctx, &txn, def.obj).await.expect("given");
        assert!(!dict.cache.put(generation, Entry::Table(Arc::clone(&def))), "kept without S");
        let generation = dict.try_right_to_keep(&w.ctx, &txn, def.obj).await.expect("asked");
        let generation = generation.expect("given");
        assert!(!dict.cache.put(generation, Entry::Table(Arc::clone(&def))), "kept without S");
        txn.rollback(&w.ctx).await.expect("rollback");
    });
}
