//! Hazard M6: an instance hangs although its heartbeat goes on. And who does not hang, but is slow,
//! is left alone.

use std::sync::Arc;
use std::time::Duration;

use block::InstanceNo;
use env::simulated::{DiskFault, FaultKind};
use kernel::txn::{Isolation, Transaction};
use observe::WaitEvent;
use sim::Cluster;

use crate::rows::{Outcome, Session, cluster, make, run, wait};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// So many instances with a short misscount, open.
fn quick(seed: u64, instances: u8) -> Cluster {
    let mut cluster = cluster(seed, 0);
    cluster.membership.misscount = ms(400);
    cluster.membership.heartbeat = ms(40);
    (1..=instances).for_each(|k| cluster.start(k));
    cluster
}

/// A transaction that has changed the row.
fn changer(cluster: &Cluster, session: &Session, rowid: block::Rowid) -> Arc<Transaction> {
    let txn = session.begin(Isolation::ReadCommitted);
    run(cluster, session.set(&txn, rowid, |n| n + 1, 20));
    txn
}

/// A commit on the session's instance; ends with the members of the epoch that it ended in.
fn commit(session: &Session, txn: Arc<Transaction>) -> Outcome<Vec<InstanceNo>> {
    session.another().spawn(|s| async move {
        txn.commit(&s.ctx).await.expect("committed");
        s.at.node.view().members.clone()
    })
}

/// Makes tasks `task` of `victim` hang while a commit of `by` waits for it: `victim` is dead before
/// the epoch without it begins, the others go on, and `logged` is in the alert log of `at`.
fn put_out(seed: u64, instances: u8, victim: u8, by: u8, task: &'static str, logged: (u8, &str)) {
    let mut cluster = quick(seed, instances);
    let what = format!("seed {seed}: {task} of {victim} of {instances} hangs, {by} commits");
    let rowid = make(&cluster, by, 1, 20)[0];
    let session = Session::new(&cluster, by);
    run(&cluster, session.set_committed(rowid, 1, 20));
    let epoch = session.at.node.view().epoch;
    let txn = changer(&cluster, &session, rowid);
    cluster.world.hold_tasks(victim, task);
    let began = cluster.world.now();
    let committed = commit(&session, txn);
    cluster.world.run_for(ms(100));
    assert!(committed.lock().is_none(), "{what}: acknowledged while it had not heard of it");
    let waits = session.at.observer.sessions().into_iter().any(|s| {
        let wait = s.wait;
        wait.event == Some(WaitEvent::WaitForScnAck) && wait.p[0] == u64::from(victim)
    });
    assert!(waits, "{what}: the wait does not name it");
    let over = || {
        let alive = cluster.world.is_alive(victim);
        let now = session.at.node.view().epoch;
        assert!(!alive || now == epoch, "{what}: the epoch began before its death");
        committed.lock().is_some()
    };
    assert!(cluster.world.run_until(ms(3000), over), "{what}: the commit stands");
    let members = wait(&cluster, &committed);
    let left: Vec<InstanceNo> = (1..=instances).filter(|k| *k != victim).map(InstanceNo).collect();
    assert_eq!(members, left, "{what}");
    let took_us = cluster.world.now().since(began);
    assert!(took_us < 1_200_000, "{what}: commits stood for {took_us} us");
    let (at, text) = logged;
    if !cluster.has_alert(at, text) {
        cluster.print_alerts();
        panic!("{what}: no alert with {text:?}");
    }
    cluster.crash(victim);
    let began = cluster.world.now();
    for k in (1..=instances).filter(|k| *k != victim) {
        let session = Session::new(&cluster, k);
        assert_eq!(run(&cluster, session.get_now(rowid)), 2, "{what}");
        run(&cluster, session.set_committed(rowid, 2, 20));
    }
    assert!(cluster.world.now().since(began) < 300_000, "{what}: commits do not go on");
}

/// The message task hangs: the instance knows it itself, and says so.
#[test]
fn m6_an_instance_whose_message_task_hangs_goes_and_not_who_waits_for_it() {
    for (seed, (victim, by)) in (1..).zip([(3, 1), (1, 3), (2, 3)]) {
        put_out(seed, 3, victim, by, "LCK0", (victim, "LCK0 has not run for 400ms"));
    }
    put_out(4, 2, 1, 2, "LCK0", (2, "instance 1 is put out: it hangs, as it says itself"));
}

/// Nothing reaches the message tasks, which are well: only the others can tell.
#[test]
fn m6_an_instance_that_acknowledges_nothing_is_put_out_by_who_waits_for_it() {
    for (seed, (victim, by)) in (1..).zip([(3, 1), (1, 3), (2, 3)]) {
        let text = format!("instance {victim} has acknowledged nothing for 400ms");
        put_out(seed, 3, victim, by, "admit", (by, &text));
    }
    put_out(4, 2, 1, 2, "admit", (2, "instance 1 is put out: instance 2 gets no answers"));
}

/// Both hang: the voting rules leave one.
#[test]
fn m6_of_two_that_both_hang_one_goes_on() {
    let mut cluster = quick(1, 2);
    let rowids = make(&cluster, 1, 200, 3000);
    let sessions = [1, 2].map(|k| Session::new(&cluster, k));
    let txns: Vec<_> = sessions.iter().map(|s| s.begin(Isolation::ReadCommitted)).collect();
    run(&cluster, sessions[0].set(&txns[0], rowids[0], |_| 1, 20));
    run(&cluster, sessions[1].set(&txns[1], rowids[199], |_| 1, 20));
    for k in [1, 2] {
        cluster.world.hold_tasks(k, "admit");
    }
    let [first, second] = [0, 1].map(|i| {
        let txn = txns[i].clone();
        sessions[i].another().spawn(|s| async move { txn.commit(&s.ctx).await.is_ok() })
    });
    assert!(wait(&cluster, &first));
    assert!(second.lock().is_none() && !cluster.world.is_alive(2));
    cluster.crash(2);
    assert_eq!(run(&cluster, sessions[0].get_now(rowids[0])), 1);
}

/// Recovery takes many times the misscount, and commits and reads wait for it: nobody is blamed.
#[test]
fn m6_who_is_slow_because_the_membership_changes_is_not_put_out() {
    for seed in 1..=2 {
        let mut cluster = quick(seed, 3);
        let rowids = make(&cluster, 3, 60, 3000);
        let three = Session::new(&cluster, 3);
        for &rowid in &rowids {
            run(&cluster, three.set_committed(rowid, 1, 3000));
        }
        let one = Session::new(&cluster, 1);
        drop(three);
        for path in ["lun", "redo"] {
            cluster.world.set_fault(DiskFault {
                instance: None,
                path_contains: path.to_owned(),
                kind: FaultKind::SlowUs(900_000),
                probability: 1.0,
            });
        }
        let committed = commit(&one, changer(&cluster, &one, rowids[0]));
        let epoch = one.at.node.view().epoch.0;
        cluster.crash(3);
        let changed = cluster.world.now();
        assert_eq!(wait(&cluster, &committed), [InstanceNo(1), InstanceNo(2)], "seed {seed}");
        let two = Session::new(&cluster, 2);
        run(&cluster, two.set_committed(rowids[1], 5, 3000));
        let took_us = cluster.world.now().since(changed);
        assert!(took_us > 1_500_000, "seed {seed}: {took_us} us is no test");
        assert_eq!(one.at.node.view().epoch.0, epoch + 1, "seed {seed}: another epoch");
        for k in [1, 2] {
            assert!(!cluster.has_alert(k, "acknowledged nothing"), "seed {seed}");
            assert!(!cluster.has_alert(k, "has not run"), "seed {seed}");
        }
    }
}

/// One that is stopped again and again, while its commits wait, blames nobody for it.
#[test]
fn m6_who_was_stopped_does_not_blame_the_others() {
    let cluster = quick(2, 3);
    let rowid = make(&cluster, 1, 1, 20)[0];
    let one = Session::new(&cluster, 1);
    let epoch = one.at.node.view().epoch;
    for round in 0..20_u64 {
        let committed = commit(&one, changer(&cluster, &one, rowid));
        cluster.world.run_for(Duration::from_micros(round * 37));
        cluster.world.pause(1);
        cluster.world.run_for(ms(330));
        cluster.world.resume(1);
        wait(&cluster, &committed);
        cluster.world.run_for(ms(45));
    }
    assert_eq!(one.at.node.view().epoch, epoch, "the membership has changed");
}

/// Who is asked for undo that it must fetch itself, from one that hangs, does not hang.
#[test]
fn m6_who_waits_for_one_that_hangs_is_not_put_out_with_it() {
    for seed in 1..=16 {
        let mut cluster = cluster(seed, 0);
        cluster.membership.misscount = ms(400);
        cluster.membership.heartbeat = ms(40);
        // Undo that nobody uses leaves it soon.
        cluster.settings.push(("db_cache_size", (1 << 20).to_string()));
        (1..=3).for_each(|k| cluster.start(k));
        let rowids = make(&cluster, 1, 300, 3000);
        let one = Session::new(&cluster, 1);
        let two = Session::new(&cluster, 2);
        let snap = run(&cluster, two.now());
        for n in 1..=6 {
            for &rowid in &rowids {
                run(&cluster, one.set_committed(rowid, n, 3000));
            }
        }
        cluster.world.hold_tasks(3, "LMS0");
        // Each by itself: those that need nothing of the third get as far as their undo.
        let read = |rowid| {
            let snap = snap.clone();
            two.another().spawn(move |s| async move { s.get(&snap, rowid).await.ok() })
        };
        let old: Vec<_> = rowids.into_iter().map(read).collect();
        cluster.world.run_until(ms(3000), || !cluster.world.is_alive(3));
        assert!(!cluster.world.is_alive(3), "seed {seed}: it still hangs");
        if !cluster.world.is_alive(1) || !cluster.world.is_alive(2) {
            cluster.print_alerts();
            panic!("seed {seed}: one has been put out that did not hang");
        }
        for value in old {
            assert_eq!(wait(&cluster, &value), Some(0), "seed {seed}");
        }
    }
}
