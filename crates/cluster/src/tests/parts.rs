//! Who goes on when instances cannot reach each other, or complain of each other.

use super::*;

#[test]
fn hazard_m8_a_cut_that_only_two_see_evicts_the_higher_of_them() {
    for (kind, seed) in both(0..10) {
        let cluster = Cluster::formed_by(kind, seed, 3);
        cluster.world.cut(1, 3);
        assert!(cluster.settled(&[1, 2], Duration::from_secs(10)), "seed {seed}");
        assert!(!cluster.world.is_alive(3), "seed {seed}");
    }
}

#[test]
fn of_two_that_are_cut_apart_the_lower_goes_on() {
    for (kind, seed) in both(0..10) {
        let cluster = Cluster::formed_by(kind, seed, 2);
        cluster.world.cut(1, 2);
        assert!(cluster.settled(&[1], Duration::from_secs(10)), "seed {seed}");
        assert!(!cluster.world.is_alive(2), "seed {seed}");
    }
}

#[test]
fn the_larger_part_goes_on_even_without_the_lowest() {
    for (kind, seed) in both(0..10) {
        let cluster = Cluster::formed_by(kind, seed, 3);
        cluster.world.cut(1, 2);
        cluster.world.cut(1, 3);
        assert!(cluster.settled(&[2, 3], Duration::from_secs(10)), "seed {seed}");
        assert!(!cluster.world.is_alive(1), "seed {seed}");
    }
}

/// Of `count` instances, `by` says that `of` hangs, for each pair; these go on.
fn after_complaints(count: u8, complaints: &[(u8, u8)], left: &[u8]) {
    for (kind, seed) in both(0..10) {
        let cluster = Cluster::formed_by(kind, seed, count);
        let (before, _) = cluster.epoch_of(1).unwrap();
        for (by, of) in complaints {
            cluster.memberships.lock()[by].report_hung(InstanceNo(*of), before);
        }
        let what = format!("seed {seed}: {complaints:?}");
        let out: Vec<u8> = (1..=count).filter(|i| !left.contains(i)).collect();
        let gone = || {
            let alive = out.iter().any(|i| cluster.world.is_alive(*i));
            let epoch = cluster.epoch_of(left[0]).unwrap().0;
            assert!(!alive || epoch == before, "{what}: the epoch began before the death");
            !alive
        };
        assert!(cluster.world.run_until(Duration::from_secs(2), gone), "{what}");
        assert!(cluster.settled(left, Duration::from_secs(1)), "{what}");
    }
}

#[test]
fn m6_who_hangs_by_the_word_of_others_is_ended_before_the_epoch_without_it_begins() {
    after_complaints(3, &[(2, 1)], &[2, 3]);
    after_complaints(3, &[(3, 1)], &[2, 3]);
    after_complaints(3, &[(2, 3)], &[1, 2]);
    after_complaints(2, &[(2, 1)], &[2]);
}

#[test]
fn m6_the_larger_part_goes_on_when_instances_complain_of_each_other() {
    after_complaints(3, &[(1, 2), (1, 3)], &[2, 3]);
    after_complaints(3, &[(1, 3), (3, 1)], &[1, 2]);
    after_complaints(2, &[(1, 2), (2, 1)], &[1]);
    // Who knows that it hangs itself is out, unless all do.
    after_complaints(3, &[(1, 1), (1, 2)], &[2, 3]);
    after_complaints(2, &[(1, 1), (1, 2), (2, 1)], &[2]);
    after_complaints(2, &[(1, 1), (2, 2)], &[1]);
}

#[test]
fn m6_a_complaint_of_an_earlier_epoch_is_void() {
    let cluster = Cluster::formed(3, 3);
    let (before, _) = cluster.epoch_of(1).unwrap();
    cluster.world.break_connections(1, 3);
    let next = || cluster.epoch_of(1).is_some_and(|(e, _)| e > before);
    assert!(cluster.world.run_until(Duration::from_secs(5), next));
    cluster.memberships.lock()[&1].report_hung(InstanceNo(2), before);
    cluster.world.run_for(Duration::from_secs(5));
    assert!(cluster.settled(&[1, 2, 3], Duration::from_secs(5)));
}
