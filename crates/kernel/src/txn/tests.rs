//! Limits that only the inside of a transaction reaches in good time.

use std::time::Duration;

use block::{ObjId, Scn};
use env::Micros;
use futures::future::join;
use observe::{Ctx, EnqueueKind, EnqueueTotals, Interrupt, Stat, WaitEvent};

use crate::error::Error;
use crate::testing::TestInstance;
use crate::txn::{LockWait, TmMode};
use crate::undo::TxMem;

#[test]
fn a_transaction_waits_until_one_of_all_slots_is_free() {
    let db = TestInstance::new(21, 8192);
    let ctx = db.session("a");
    db.run(async {
        let flag = ctx.session.cancel_flag();
        let mut taken = Vec::new();
        let refused = loop {
            flag.set_deadline(Some(Micros(ctx.env.now().0 + 1_000_000)));
            match db.core.begin_undo(&ctx).await {
                Ok(cursor) => taken.push(cursor),
                Err(e) => break e,
            }
        };
        assert!(matches!(refused, Error::Interrupt(Interrupt::TimedOut)), "{refused}");
        flag.set_deadline(None);
        let waits = || ctx.session.totals().event(WaitEvent::UndoSegmentTxSlot).waits;
        let before = waits();
        assert!(before > 0, "it waited for a slot");
        let release = async {
            while waits() == before {
                ctx.env.sleep(Duration::from_millis(1)).await;
            }
            let mut cursor = taken.pop().expect("slots are taken");
            let segment = cursor.segment.clone();
            segment.finish(&mut cursor, TxMem::Free, Scn::ZERO, ctx.env.now());
            cursor.xid
        };
        let (again, given) = join(db.core.begin_undo(&ctx), release).await;
        let again = again.expect("the slot that was given back").xid;
        assert_eq!((again.usn, again.slot), (given.usn, given.slot));
    });
}

#[test]
fn what_a_transaction_locks_is_asked_for_and_let_go_once() {
    let db = TestInstance::new(22, 1024);
    let (ctx, other) = (db.session("a"), db.session("b"));
    let counted = |ctx: &Ctx| {
        let stats = [Stat::EnqueueRequests, Stat::EnqueueConversions, Stat::EnqueueReleases];
        stats.map(|stat| ctx.session.totals().stat(stat))
    };
    let (one, two) = (ObjId(9_001), ObjId(9_002));
    db.run(async {
        let txn = db.begin();
        let locks = [(one, TmMode::SX), (one, TmMode::SX), (one, TmMode::SS), (two, TmMode::SX)];
        for (obj, mode) in locks {
            let locked = db.core.lock_table(&ctx, &txn, obj, mode, LockWait::Wait).await;
            locked.expect("nobody else has it");
        }
        assert_eq!(counted(&ctx), [2, 0, 0], "what it has is not asked for");
        let raised = db.core.lock_table(&ctx, &txn, one, TmMode::X, LockWait::Wait).await;
        raised.expect("nobody else has it");
        assert_eq!(counted(&ctx), [2, 1, 0]);
        let refused = db.begin();
        let answer = db.core.lock_table(&other, &refused, one, TmMode::SX, LockWait::NoWait).await;
        assert!(matches!(answer, Err(Error::RowLocked)), "{answer:?}");
        assert_eq!(counted(&other), [1, 0, 0]);
        // Its own enqueue; extents for undo may be asked for, and are let go.
        txn.ready(&ctx).await.expect("room for undo");
        let [asked, _, gone] = counted(&ctx);
        assert_eq!(asked - gone, 3);
        txn.commit(&ctx).await.expect("a commit");
        let [asked, _, gone] = counted(&ctx);
        assert_eq!(asked, gone, "all is let go");
    });
    let (all, of) = (db.observer.enqueues(), |stat| db.observer.stat(stat));
    let kinds = EnqueueKind::ALL.map(|kind| all.of(kind));
    let sum = |what: fn(&EnqueueTotals) -> u64| kinds.iter().map(what).sum::<u64>();
    assert_eq!(sum(|kind| kind.requests), of(Stat::EnqueueRequests));
    assert_eq!(sum(|kind| kind.conversions), of(Stat::EnqueueConversions));
    assert_eq!(sum(|kind| kind.releases), of(Stat::EnqueueReleases));
}
