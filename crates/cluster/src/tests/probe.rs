//! What counts as an answer to a probe.

use super::*;

/// A proxy, or the backlog of who is stopped, takes connections too.
#[test]
fn only_an_interconnect_with_the_secret_answers_a_probe() {
    let cluster = Cluster::formed(11, 2);
    let nets = cluster.nets.lock().clone();
    let env = cluster.world.env(9);
    let answers = |addr: String| {
        let net = nets[&1].clone();
        let within = Duration::from_millis(700);
        cluster.world.block_on(async move { net.answers(InstanceNo(2), &addr, within).await })
    };
    assert!(answers(nets[&2].addr().to_owned()));
    assert_eq!(nets[&2].refused(), 0, "a probe is no intruder");
    let mut listener = cluster.world.block_on(env.listen("127.0.0.1:0")).unwrap();
    let silent = listener.local_addr();
    env.spawn_task("silent", Lane::Background, async move {
        while let Ok(conn) = listener.accept().await {
            conn.sender.close();
        }
    });
    assert!(!answers(silent));
    let other =
        Interconnect::start(&env, InstanceNo(2), 1, [9; 32], "127.0.0.1:0", quick(Kind::File).1);
    let other = cluster.world.block_on(other).unwrap();
    assert!(!answers(other.interconnect.addr().to_owned()));
    // Both go on: nothing has been broken by it.
    assert!(cluster.settled(&[1, 2], Duration::from_secs(1)));
}

/// What breaks channels may break the connection of a probe too.
#[test]
fn a_probe_that_breaks_is_made_again() {
    let cluster = Cluster::formed(12, 2);
    let net = cluster.nets.lock()[&1].clone();
    let env = cluster.world.env(9);
    let mut listener = cluster.world.block_on(env.listen("127.0.0.1:0")).unwrap();
    let addr = listener.local_addr();
    let at = addr.clone();
    env.clone().spawn_task("breaks the first", Lane::Background, async move {
        for _ in 0..3 {
            listener.accept().await.unwrap().sender.close();
        }
        drop(listener);
        let secret = SECRET;
        let other =
            Interconnect::start(&env, InstanceNo(2), 1, secret, &at, quick(Kind::File).1).await;
        std::future::pending::<()>().await;
        drop(other);
    });
    let within = Duration::from_millis(700);
    assert!(cluster.world.block_on(async move { net.answers(InstanceNo(2), &addr, within).await }));
}
