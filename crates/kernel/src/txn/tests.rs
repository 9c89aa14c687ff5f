//! Limits that only the inside of a transaction reaches in good time.

use std::time::Duration;

use block::Scn;
use env::Micros;
use futures::future::join;
use observe::{Interrupt, WaitEvent};

use crate::error::Error;
use crate::testing::TestInstance;
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
