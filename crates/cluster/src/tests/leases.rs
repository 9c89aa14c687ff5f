//! What holds by leases alone: nobody can end a process of another host, or see that it is gone.

use super::*;

fn formed(seed: u64, count: u8) -> Cluster {
    Cluster::formed_by(Kind::Lease, seed, count)
}

/// A shared file that instances write to, as they do to the database's.
fn shared_file(env: &Env) -> Arc<dyn env::RawFile> {
    let options = env::OpenOptions { create_new: false, direct: true, dsync: true };
    env.open(Path::new("/db/data"), options).unwrap()
}

fn make_shared_file(cluster: &Cluster) {
    let options = env::OpenOptions { create_new: true, direct: true, dsync: true };
    let file = cluster.world.env(9).open(Path::new("/db/data"), options).unwrap();
    file.allocate(1 << 20).unwrap();
}

#[test]
fn c18_the_epoch_without_a_stopped_instance_begins_when_it_is_fenced_and_it_writes_no_more() {
    for seed in 0..30 {
        let cluster = formed(seed, 3);
        make_shared_file(&cluster);
        let victim = (seed % 3) as u8 + 1;
        let survivors: Vec<u8> = (1..=3).filter(|i| *i != victim).collect();
        let (before, _) = cluster.epoch_of(survivors[0]).unwrap();
        let file = shared_file(&cluster.world.env(victim));
        let deadline = cluster.memberships.lock()[&victim].deadline();
        // It writes without a pause, and knows nothing of leases; so its last write may be under
        // way when it is fenced.
        let (env, written) = (cluster.world.env(victim), Arc::new(Mutex::new((0_u64, 0_u64))));
        let log = written.clone();
        env.clone().spawn_task("writer", Lane::Background, async move {
            for n in 1_u64.. {
                let mut buf = env::IoBuf::zeroed(4096);
                buf[..8].copy_from_slice(&n.to_le_bytes());
                match file.write_at(0, buf).await.0 {
                    Ok(()) => log.lock().0 += 1,
                    Err(e) => {
                        assert!(env::arbiter::is_fenced(&e), "{e}");
                        log.lock().1 += 1;
                    }
                }
            }
        });
        cluster.world.run_for(Duration::from_millis(20));
        cluster.world.pause(victim);
        let next = || {
            let epoch = cluster.epoch_of(survivors[0]).unwrap().0;
            let fenced = cluster.world.is_fenced(victim);
            assert!(fenced || epoch == before, "seed {seed}: the epoch came before the fence");
            epoch > before
        };
        assert!(cluster.world.run_until(Duration::from_secs(5), next), "seed {seed}");
        assert!(cluster.world.is_alive(victim), "seed {seed}: nobody can end it");
        let reader = cluster.world.env(survivors[0]);
        assert!(deadline.has_passed(&reader), "seed {seed}: it may not answer any more");
        assert!(cluster.settled(&survivors, Duration::from_secs(1)), "seed {seed}");
        let why = "its lease has ended".to_owned();
        assert!(cluster.seen(&Seen::PutOut(victim, why)), "seed {seed}");
        let content = || {
            let (result, buf) =
                cluster.world.block_on(shared_file(&reader).read_at(0, env::IoBuf::zeroed(4096)));
            result.unwrap();
            buf.to_vec()
        };
        let (told, _) = *written.lock();
        let then = content();
        assert!(told > 10, "seed {seed}: {told} writes");
        // Of all that wakes, what could end it comes last.
        cluster.world.hold_tasks(victim, "membership");
        cluster.world.resume(victim);
        cluster.world.run_for(Duration::from_millis(5));
        cluster.world.release_tasks(victim);
        let ended = || !cluster.world.is_alive(victim);
        assert!(cluster.world.run_until(Duration::from_millis(100), ended), "seed {seed}");
        let (told_late, refused) = *written.lock();
        assert!(told_late <= told + 1, "seed {seed}: at most what it had not heard of yet");
        assert!(refused > 3, "seed {seed}: it has tried {refused} times");
        assert_eq!(content(), then, "seed {seed}: nothing has changed since the epoch");
        let env = cluster.world.restart_env(victim);
        cluster.start(env, victim);
        assert!(cluster.settled(&[1, 2, 3], Duration::from_secs(5)), "seed {seed}");
        assert!(!cluster.world.is_fenced(victim), "seed {seed}: its next life may write");
    }
}

/// Its peers and its disks are well, but it cannot renew: it ends before anybody takes it for dead.
#[test]
fn who_cannot_reach_the_arbiter_has_ended_when_the_epoch_without_it_begins() {
    for seed in 0..20 {
        let cluster = formed(seed, 3);
        cluster.world.run_for(Duration::from_millis(37 * seed));
        let victim = (seed % 3) as u8 + 1;
        let survivors: Vec<u8> = (1..=3).filter(|i| *i != victim).collect();
        let (before, _) = cluster.epoch_of(survivors[0]).unwrap();
        let cut = cluster.world.now().0;
        cluster.world.cut_arbiter(victim, true);
        let ended = || {
            let alive = cluster.world.is_alive(victim);
            let expired = cluster.view().is_expired(InstanceNo(victim));
            let epoch = cluster.epoch_of(survivors[0]).unwrap().0;
            assert!(!alive || (epoch == before && !expired), "seed {seed}: taken for dead");
            !alive
        };
        assert!(cluster.world.run_until(2 * LEASE, ended), "seed {seed}");
        let took = Duration::from_micros(cluster.world.now().0 - cut);
        assert!(took < LEASE, "seed {seed}: {took:?}");
        assert!(cluster.seen(&Seen::Evicted(victim)), "seed {seed}");
        assert!(cluster.settled(&survivors, Duration::from_secs(1)), "seed {seed}");
    }
}

/// A short outage of the arbiter for all: nobody is put out. A long one: nobody goes on.
#[test]
fn an_outage_of_the_arbiter_is_borne_for_as_long_as_the_leases_last() {
    for seed in 0..10 {
        let cluster = formed(seed, 3);
        let (before, _) = cluster.epoch_of(1).unwrap();
        let outage = |duration| {
            (1..=3).for_each(|i| cluster.world.cut_arbiter(i, true));
            cluster.world.run_for(duration);
            (1..=3).for_each(|i| cluster.world.cut_arbiter(i, false));
        };
        outage(LEASE / 2);
        cluster.world.run_for(3 * LEASE);
        assert_eq!(cluster.epoch_of(1).map(|(e, _)| e), Some(before), "seed {seed}");
        assert!((1..=3).all(|i| cluster.world.is_alive(i)), "seed {seed}");
        outage(LEASE);
        assert!((1..=3).all(|i| !cluster.world.is_alive(i)), "seed {seed}");
        for i in 1..=3 {
            let env = cluster.world.restart_env(i);
            cluster.start(env, i);
        }
        assert!(cluster.settled(&[1, 2, 3], Duration::from_secs(10)), "seed {seed}");
    }
}

/// It stands still between taking its slot and being known to the storage: nobody can fence it, so
/// it may not begin.
#[test]
fn who_is_late_with_its_registration_begins_anew() {
    let mut anew = 0;
    for seed in 0..40 {
        let cluster = Cluster::new(Kind::Lease, seed);
        let env = cluster.world.env(1);
        let config = quick(Kind::Lease).0;
        let taken = Arc::new(Mutex::new(None));
        let (task_env, task_taken) = (env.clone(), taken.clone());
        env.spawn_task("claim", Lane::Background, async move {
            let claim = Claim::take_as(&task_env, path(), InstanceNo(1), true, &config).await;
            *task_taken.lock() = Some(claim.unwrap());
        });
        cluster.world.run_for(Duration::from_micros(15 * seed));
        cluster.world.pause(1);
        cluster.world.run_for(2 * LEASE);
        cluster.world.resume(1);
        let done = || taken.lock().is_some();
        assert!(cluster.world.run_until(4 * LEASE, done), "seed {seed}");
        let claim = taken.lock().take().unwrap();
        let slot = cluster.view().slot(InstanceNo(1)).cloned().unwrap();
        assert_eq!(slot.incarnation, claim.incarnation(), "seed {seed}");
        assert!(!cluster.world.is_fenced(1), "seed {seed}");
        anew += u64::from(claim.incarnation() > 1);
    }
    assert!(anew > 3, "only {anew} began anew");
}

#[test]
fn nobody_opens_where_the_storage_cannot_refuse_a_writer() {
    let env = env::real::RealEnv::new();
    let config = quick(Kind::Lease).0;
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let claim = runtime.block_on(Claim::take_as(&env, path(), InstanceNo(1), true, &config));
    assert!(matches!(claim, Err(Error::Io { .. })));
}

/// Questions and answers that are lost or late put nobody wrongly out, and leave nothing behind
/// that others wait for: epochs go on while they are, and afterwards.
#[test]
fn lost_and_late_words_of_the_arbiter_leave_one_cluster() {
    for seed in 0..60 {
        let cluster = formed(seed, 3);
        let probability = [0.05, 0.2, 0.4][(seed % 3) as usize];
        cluster.world.set_arbiter_trouble(probability);
        for _ in 0..4 {
            let i = (cluster.world.random() % 3) as u8 + 1;
            match cluster.world.random() % 3 {
                0 => cluster.world.crash(i),
                1 if cluster.world.is_alive(i) => cluster.world.pause(i),
                _ => cluster.world.break_connections(i, i % 3 + 1),
            }
            let wait = cluster.world.random() % 900;
            cluster.world.run_for(Duration::from_millis(wait));
            cluster.world.resume(i);
            if !cluster.world.is_alive(i) {
                let env = cluster.world.restart_env(i);
                cluster.start(env, i);
            }
        }
        cluster.world.set_arbiter_trouble(0.0);
        cluster.world.run_for(4 * LEASE);
        for i in (1..=3).filter(|i| !cluster.world.is_alive(*i)) {
            let env = cluster.world.restart_env(i);
            cluster.start(env, i);
        }
        assert!(cluster.settled(&[1, 2, 3], Duration::from_secs(10)), "seed {seed}");
    }
}
