//! Sequences on one instance in a simulated world.

use std::sync::Arc;

use observe::{Ctx, Stat};

use super::*;
use crate::dict::{self, NewSequence, SequenceDef};
use crate::error::Error;
use crate::testing::TestInstance;
use crate::txn::Transaction;

fn world() -> (TestInstance, Ctx) {
    let t = TestInstance::new(11, 1024);
    let ctx = t.session("seq");
    (t, ctx)
}

fn sequence(cache: i64) -> NewSequence {
    NewSequence {
        schema: "public".into(),
        name: "s".into(),
        owner: dict::SUPERUSER_OBJ,
        kind: crate::row::TypeKind::Int8,
        start: 1,
        increment: 1,
        min: 1,
        max: i64::MAX,
        cache,
        cycle: false,
        order: false,
        table: None,
    }
}

async fn make(t: &TestInstance, ctx: &Ctx, new: NewSequence) -> Arc<SequenceDef> {
    let txn = t.begin();
    let def = dict::create_sequence(ctx, &txn, new).await.expect("a new sequence");
    txn.commit(ctx).await.expect("commit");
    def
}

async fn take(ctx: &Ctx, txn: &Arc<Transaction>, def: &SequenceDef, count: usize) -> Vec<i64> {
    let mut values = Vec::new();
    for _ in 0..count {
        values.push(nextval(ctx, txn, def).await.expect("a value"));
    }
    values
}

#[test]
fn values_come_from_memory_and_the_high_water_mark_is_ahead_of_them() {
    let (t, ctx) = world();
    t.run(async {
        let def = make(&t, &ctx, sequence(20)).await;
        let txn = t.begin();
        assert_eq!(last_value(&ctx, &txn, &def).await.expect("read"), (1, false));
        assert_eq!(take(&ctx, &txn, &def, 25).await, (1..=25).collect::<Vec<_>>());
        // However quickly they are used, what CACHE says is what is taken.
        assert_eq!(last_value(&ctx, &txn, &def).await.expect("read"), (40, true));
        let held = cached(&t.core);
        assert_eq!((held[0].obj, held[0].next, held[0].count), (def.obj, Some(26), 15));
        txn.rollback(&ctx).await.expect("rollback");
        assert_eq!(take(&ctx, &t.begin(), &def, 1).await, [26], "a rollback gives nothing back");
    });
}

#[test]
fn a_tables_own_sequence_takes_more_where_it_is_used_much() {
    let (t, ctx) = world();
    t.run(async {
        let new = NewSequence { table: Some(block::ObjId(1)), ..sequence(20) };
        let def = make(&t, &ctx, new).await;
        let txn = t.begin();
        assert_eq!(take(&ctx, &txn, &def, 25).await, (1..=25).collect::<Vec<_>>());
        // The second range is twice as large: the first was used up at once.
        assert_eq!(last_value(&ctx, &txn, &def).await.expect("read"), (60, true));
    });
}

#[test]
fn sessions_share_the_values_without_repeats() {
    let (t, ctx) = world();
    let def = t.run(make(&t, &ctx, sequence(3)));
    let (a, b) = (t.session("a"), t.session("b"));
    let mut values = t.run(async {
        let (one, two) = (t.begin(), t.begin());
        let both = futures::future::join(take(&a, &one, &def, 50), take(&b, &two, &def, 50));
        let (mut left, right) = both.await;
        assert!(left.is_sorted() && right.is_sorted());
        left.extend(right);
        left
    });
    values.sort_unstable();
    assert_eq!(values, (1..=100).collect::<Vec<_>>());
}

#[test]
fn a_nocache_sequence_leaves_no_gap() {
    let (t, ctx) = world();
    t.run(async {
        let def = make(&t, &ctx, sequence(1)).await;
        let txn = t.begin();
        assert_eq!(take(&ctx, &txn, &def, 3).await, [1, 2, 3]);
        assert_eq!(last_value(&ctx, &txn, &def).await.expect("read"), (3, true));
        assert!(cached(&t.core).iter().all(|held| held.count == 0));
    });
}

#[test]
fn every_change_of_a_sequences_entry_is_counted() {
    let (t, ctx) = world();
    t.run(async {
        let changes = || {
            let of = |stat: &dict::RowCacheStat| stat.name == "dc_sequences";
            dict::row_cache_stats(&t.core).into_iter().find(of).expect("its line").modifications
        };
        let def = make(&t, &ctx, sequence(20)).await;
        let before = changes();
        take(&ctx, &t.begin(), &def, 40).await;
        assert_eq!(changes(), before + 2, "values in hand change nothing");
        setval(&ctx, &t.begin(), &def, 7, true).await.expect("set");
        assert_eq!(changes(), before + 3);
    });
}

#[test]
fn what_a_sequence_commits_is_no_users_commit() {
    let (t, ctx) = world();
    t.run(async {
        let def = make(&t, &ctx, sequence(1)).await;
        let of = |stat| ctx.session.totals().stat(stat);
        let (user, recursive) = (of(Stat::UserCommits), of(Stat::RecursiveCommits));
        assert_eq!(user, 1, "CREATE SEQUENCE is the user's");
        let txn = t.begin();
        take(&ctx, &txn, &def, 3).await;
        txn.commit(&ctx).await.expect("commit");
        assert_eq!(of(Stat::UserCommits), user, "nothing of the user's was changed");
        assert_eq!(of(Stat::RecursiveCommits), recursive + 3);
        let low = setval(&ctx, &t.begin(), &def, 0, true).await;
        assert!(low.is_err());
        assert_eq!(of(Stat::UserRollbacks), 0, "nobody has asked for one");
    });
}

#[test]
fn the_limit_is_an_error_or_a_new_start() {
    let (t, ctx) = world();
    t.run(async {
        let def = make(&t, &ctx, NewSequence { max: 3, ..sequence(2) }).await;
        let txn = t.begin();
        assert_eq!(take(&ctx, &txn, &def, 3).await, [1, 2, 3]);
        let end = nextval(&ctx, &txn, &def).await;
        assert!(matches!(end, Err(Error::SequenceExhausted(_))));
        let name = "c".to_owned();
        let def = make(&t, &ctx, NewSequence { name, max: 3, cycle: true, ..sequence(2) }).await;
        assert_eq!(take(&ctx, &txn, &def, 5).await, [1, 2, 3, 1, 2]);
    });
}

#[test]
fn the_maker_uses_a_sequence_before_it_is_committed() {
    let (t, ctx) = world();
    t.run(async {
        let txn = t.begin();
        let new = sequence(20);
        let def = dict::create_sequence(&ctx, &txn, new).await.expect("a new sequence");
        assert_eq!(take(&ctx, &txn, &def, 2).await, [1, 2]);
        assert_eq!(setval(&ctx, &txn, &def, 9, true).await.expect("set"), 9);
        txn.commit(&ctx).await.expect("commit");
        assert_eq!(take(&ctx, &t.begin(), &def, 1).await, [10]);
    });
}

#[test]
fn setval_counts_at_once_whatever_becomes_of_the_transaction() {
    let (t, ctx) = world();
    t.run(async {
        let def = make(&t, &ctx, sequence(20)).await;
        let txn = t.begin();
        assert_eq!(take(&ctx, &txn, &def, 1).await, [1]);
        setval(&ctx, &txn, &def, 100, false).await.expect("set");
        assert_eq!(take(&ctx, &t.begin(), &def, 1).await, [100]);
        txn.rollback(&ctx).await.expect("rollback");
        assert_eq!(take(&ctx, &t.begin(), &def, 1).await, [101]);
        let low = setval(&ctx, &t.begin(), &def, 0, false).await;
        assert!(matches!(low, Err(Error::Invalid(_))));
    });
}

#[test]
fn a_dropped_sequence_gives_no_values() {
    let (t, ctx) = world();
    t.run(async {
        let def = make(&t, &ctx, sequence(20)).await;
        let txn = t.begin();
        assert_eq!(take(&ctx, &txn, &def, 1).await, [1]);
        dict::drop_sequence(&ctx, &txn, &def).await.expect("dropped");
        let gone = nextval(&ctx, &txn, &def).await;
        assert!(matches!(gone, Err(Error::UndefinedObject(_))));
        assert_eq!(take(&ctx, &t.begin(), &def, 1).await, [2], "others still have it");
        txn.commit(&ctx).await.expect("commit");
        let gone = nextval(&ctx, &t.begin(), &def).await;
        assert!(matches!(gone, Err(Error::UndefinedObject(_))));
    });
}
