//! Links between members: who is let in, and what a closed one still brings.

use super::*;

#[test]
fn unknown_peers_are_refused() {
    let world = SimWorld::new(8, SimConfig::default());
    let (one, two) = (world.env(1), world.env(2));
    world.block_on(async {
        let a = listening(&one, 1, SECRET).await.interconnect;
        let b = listening(&two, 2, [8; 32]).await.interconnect;
        let members = [member(&a, 1, 1), member(&b, 2, 1)];
        let (x, y) = tokio::join!(a.connect_members(1, &members), b.connect_members(1, &members));
        assert_eq!(x, Err(ConnectError::Unreachable(InstanceNo(2))), "another secret");
        assert_eq!(y, Err(ConnectError::Unreachable(InstanceNo(1))));
        assert!(a.refused() > 0 && b.refused() > 0);
        // The right secret, but not a member; then the wrong incarnation.
        let c = listening(&two, 3, SECRET).await.interconnect;
        let refused = a.refused();
        let wide = [member(&a, 1, 1), member(&c, 3, 1)];
        assert!(c.connect_members(1, &wide).await.is_err());
        let stale = [member(&a, 1, 1), member(&c, 3, 9)];
        let (x, y) = tokio::join!(a.connect_members(2, &stale), c.connect_members(2, &wide));
        assert!(x.is_err() && y.is_err());
        assert!(a.refused() > refused);
        assert_eq!(a.send(InstanceNo(3), Class::Blocks, vec![1]), Err(Broken));
        // Bytes that are no handshake.
        let raw = two.connect(a.addr()).await.unwrap();
        let refused = a.refused();
        raw.sender.send(b"GET / HTTP/1.0\r\n\r\n".to_vec()).unwrap();
        two.sleep(Duration::from_millis(10)).await;
        assert_eq!(a.refused(), refused + 1);
    });
}

#[test]
fn hazard_c3_nothing_of_a_closed_peer_is_received() {
    let world = SimWorld::new(9, SimConfig::default());
    let (one, two) = (world.env(1), world.env(2));
    world.block_on(async {
        let mut a = listening(&one, 1, SECRET).await;
        let b = listening(&two, 2, SECRET).await;
        let members = [member(&a.interconnect, 1, 1), member(&b.interconnect, 2, 1)];
        let (x, y) = tokio::join!(
            a.interconnect.connect_members(1, &members),
            b.interconnect.connect_members(1, &members)
        );
        x.and(y).unwrap();
        for n in 1..=3 {
            b.interconnect.send(InstanceNo(1), Class::Blocks, vec![n]).unwrap();
        }
        let first = a.inboxes[0].recv().await.unwrap();
        assert_eq!((first.payload.as_slice(), first.is_stale()), (&[1][..], false));
        two.sleep(Duration::from_millis(10)).await;
        a.interconnect.close_peer(InstanceNo(2));
        assert!(first.is_stale());
        assert!(a.inboxes[0].try_recv().is_none(), "2 and 3 had arrived, and are void");
        assert!(a.broken.try_recv().is_err(), "closed from here: no news");
        two.sleep(Duration::from_millis(10)).await;
        assert_eq!(b.interconnect.send(InstanceNo(1), Class::Blocks, vec![4]), Err(Broken));
        // A whole link is kept over epochs; this one has to be made anew.
        let again = b.interconnect.connect_members(1, &members).await;
        assert_eq!(again, Err(ConnectError::Superseded), "never twice in one epoch");
        let (x, y) = tokio::join!(
            a.interconnect.connect_members(2, &members),
            b.interconnect.connect_members(2, &members)
        );
        x.and(y).unwrap();
        b.interconnect.send(InstanceNo(1), Class::Blocks, vec![5]).unwrap();
        assert_eq!(a.inboxes[0].recv().await.unwrap().payload, [5]);
    });
}
