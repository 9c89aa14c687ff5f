//! Generated histories against a model.

use super::*;

/// A generated history against a model: every snapshot taken on the way shows what the model had.
#[test]
fn every_snapshot_of_a_random_history_shows_the_model() {
    for seed in 1..=6 {
        let mut t = table_on(TestInstance::new(seed, 512));
        let mut model = Rows::new();
        for _ in 0..3 {
            let t_ref = &t;
            model = t_ref.rig.world.block_on(random_history(t_ref, model));
            // The end of the history, and what was open then, is recovered.
            t.rig.crash();
            t.ctx = t.rig.session("test");
            assert!(t.rig.world.block_on(t.all(&t.now())) == model, "after a crash, seed {seed}");
            t.rig.world.block_on(t.verify());
        }
    }
}

/// Works on the table and leaves a transaction open; returns what is committed.
async fn random_history(t: &Table, mut model: Rows) -> Rows {
    let random = || t.rig.world.random();
    let mut kept: Vec<(Snapshot, Rows)> = Vec::new();
    for round in 0..60 {
        let txn = t.rig.begin();
        let mut next = model.clone();
        for _ in 0..random() % 8 + 1 {
            let pick = random() as usize;
            let len = match random() % 12 {
                0 => 20_000,
                1 => 7000,
                2..=4 => 900,
                _ => 80,
            };
            let row = row_of(len + (random() % 50) as usize, random() as u8);
            let rowid = next.keys().nth(pick % next.len().max(1)).copied();
            match (random() % 5, rowid) {
                (0 | 1, _) | (_, None) => {
                    let rowid = t.insert(&txn, &row).await;
                    assert!(next.insert(rowid, row).is_none(), "{rowid} is in use");
                }
                (2, Some(rowid)) => {
                    t.remove(&txn, rowid).await;
                    next.remove(&rowid);
                }
                (_, Some(rowid)) => {
                    t.set(&txn, rowid, &row).await;
                    next.insert(rowid, row);
                }
            }
        }
        let own = txn.snapshot_now().unwrap();
        assert!(t.all(&own).await == next, "own changes in round {round}");
        drop(own);
        if random() % 3 == 0 {
            txn.rollback(t.ctx()).await.unwrap();
        } else {
            txn.commit(t.ctx()).await.unwrap();
            model = next;
        }
        if random() % 4 == 0 {
            kept.push((t.now(), model.clone()));
        }
        if kept.len() > 5 {
            let gone = random() as usize % kept.len();
            kept.swap_remove(gone);
        }
        for (snap, rows) in &kept {
            assert!(t.all(snap).await == *rows, "snapshot {} in round {round}", snap.scn());
        }
    }
    t.verify().await;
    let open = t.rig.begin();
    t.insert(&open, &row_of(30_000, 1)).await;
    for rowid in model.keys().take(20) {
        t.set(&open, *rowid, &row_of(1000, 2)).await;
    }
    for rowid in model.keys().skip(20).take(20) {
        t.remove(&open, *rowid).await;
    }
    // Its redo goes along with that of the next commit.
    t.insert_committed(b"last").await;
    let rows = t.all(&t.now()).await;
    assert_eq!(rows.len(), model.len() + 1);
    rows
}
