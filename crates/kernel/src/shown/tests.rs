use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use block::{BLOCK_BYTES, Dba, Rba, Scn, Xid, layout};
use env::{Env, IoBuf, SharedView};

use super::*;

fn world() -> Env {
    env::simulated::SimWorld::new(1, env::simulated::SimConfig::default()).env(1)
}

fn both(blocks: usize) -> (Arc<Shown>, PeerMemory) {
    let env = world();
    let shown = Shown::new(&env, blocks).expect("memory to share");
    let view = env.look_at(shown.descriptor()).expect("found");
    (shown, PeerMemory::new(view).expect("of this version"))
}

fn block_of(dba: Dba) -> IoBuf {
    let mut image = IoBuf::zeroed(BLOCK_BYTES);
    let op = block::op::Op::Format {
        kind: layout::Kind::Heap,
        obj: block::ObjId(7),
        birth: Scn(1),
        level: 0,
        itl: 2,
    };
    op.apply(&mut image, dba);
    image
}

#[test]
fn a_block_is_seen_while_it_is_shown() {
    let (shown, peer) = both(8);
    let dba = Dba::new(4, 9);
    let mut image = block_of(dba);
    assert!(peer.place_of(dba).is_none() && peer.copy(dba).is_none());
    let place = shown.show(dba, None, &mut image, Rba::ZERO).expect("room");
    assert_eq!(peer.copy(dba).as_deref(), Some(&image[..]), "the image has moved into a frame");
    shown.change(place);
    image[BLOCK_BYTES - 1] = 3;
    assert!(peer.place_of(dba).is_some() && peer.copy(dba).is_none(), "it is being changed");
    assert_eq!(shown.show(dba, Some(place), &mut image, Rba::ZERO), Some(place));
    assert_eq!(peer.copy(dba).map(|b| b[BLOCK_BYTES - 1]), Some(3));
    shown.hide(place);
    assert!(peer.place_of(dba).is_none() && peer.copy(dba).is_none());
}

#[test]
fn h1_structure_is_not_followed_before_its_redo_is_durable() {
    let (shown, peer) = both(8);
    let dba = Dba::new(4, 9);
    let mut image = block_of(dba);
    shown.set_durable(Rba(99));
    shown.show(dba, None, &mut image, Rba(100));
    assert!(peer.copy(dba).is_none());
    shown.set_durable(Rba(100));
    assert!(peer.copy(dba).is_some());
}

#[test]
fn a_place_taken_again_never_shows_what_stood_there() {
    let (shown, peer) = both(16);
    // All blocks of one bucket, until it is full.
    let same = |a: Dba, b: Dba| bucket(a, 32) == bucket(b, 32);
    let first = Dba::new(4, 1);
    let dbas: Vec<Dba> =
        (1..).map(|n| Dba::new(4, n)).filter(|d| same(*d, first)).take(BUCKET + 1).collect();
    let mut images: Vec<IoBuf> = dbas.iter().map(|d| block_of(*d)).collect();
    let mut places = Vec::new();
    for (dba, image) in dbas.iter().zip(&mut images) {
        places.push(shown.show(*dba, None, image, Rba::ZERO));
    }
    assert!(places[..BUCKET].iter().all(Option::is_some), "a place for each");
    assert_eq!(places[BUCKET], None, "the bucket is full");
    shown.hide(places[0].expect("a place"));
    let last = dbas[BUCKET];
    assert!(peer.copy(last).is_none());
    assert_eq!(shown.show(last, None, &mut images[BUCKET], Rba::ZERO), places[0]);
    assert_eq!(peer.copy(last).as_deref(), Some(&images[BUCKET][..]));
    assert!(peer.copy(first).is_none());
}

#[test]
fn without_a_frame_a_block_is_not_shown() {
    let (shown, peer) = both(8);
    let mut images: Vec<IoBuf> = (0..9).map(|n| block_of(Dba::new(4, n))).collect();
    let mut shown_of = 0;
    for (n, image) in (0..).zip(&mut images) {
        shown_of += u32::from(shown.show(Dba::new(4, n), None, image, Rba::ZERO).is_some());
    }
    assert_eq!(shown_of, 8, "as many as there are frames");
    assert!(peer.copy(Dba::new(4, 8)).is_none());
}

#[test]
fn h8_a_state_is_undecided_while_the_scn_is_drawn() {
    let (shown, peer) = both(8);
    let xid = Xid { usn: 13, slot: 119, seq: 5 };
    assert_eq!(peer.transaction(xid), None, "nothing is known of it");
    shown.set_transaction(xid, TxShown::Active);
    assert_eq!(peer.transaction(xid), Some(TxShown::Active));
    shown.undecided(xid);
    assert_eq!(peer.transaction(xid), None);
    shown.set_transaction(xid, TxShown::Committing(Scn(1 << 60)));
    assert_eq!(peer.transaction(xid), Some(TxShown::Committing(Scn(1 << 60))));
    shown.set_transaction(xid, TxShown::Committed(Scn(70)));
    assert_eq!(peer.transaction(xid), Some(TxShown::Committed(Scn(70))));
    let next = Xid { seq: 6, ..xid };
    assert_eq!(peer.transaction(next), None, "later than the newest");
    shown.set_transaction(next, TxShown::Gone);
    assert_eq!(peer.transaction(next), Some(TxShown::Gone));
    assert_eq!(peer.transaction(xid), None, "its slot has been used anew");
    for wrong in [Xid { usn: 0, ..xid }, Xid { slot: 120, ..xid }, Xid { usn: 81, ..xid }] {
        assert_eq!(peer.transaction(wrong), None);
    }
}

#[test]
fn clock_and_floor_are_raised_and_never_lowered() {
    let (shown, peer) = both(8);
    peer.raise_clock(Scn(50));
    peer.raise_clock(Scn(40));
    peer.raise_floor(Scn(30));
    assert_eq!(shown.clock().load(Ordering::SeqCst), 50);
    assert_eq!(shown.floor().load(Ordering::SeqCst), 30);
}

#[test]
fn memory_of_another_layout_is_refused() {
    let env = world();
    let layout = env::SharedLayout {
        open_words: OPEN_WORDS,
        words: DIRECTORY + 3,
        frames: 1,
        frame_bytes: BLOCK_BYTES,
    };
    let (memory, _) = env.share_memory(layout).expect("memory");
    assert!(PeerMemory::new(SharedView::of(&memory).expect("a view")).is_none());
}

/// One thread changes a block all the time, its words all to the same number; what another copies
/// is never half of one and half of the next.
#[test]
fn a_copy_is_never_torn() {
    let (shown, peer) = both(8);
    let dba = Dba::new(4, 9);
    let mut image = block_of(dba);
    let body = 4096..BLOCK_BYTES;
    image[body.clone()].fill(0);
    let mut place = shown.show(dba, None, &mut image, Rba::ZERO);
    let done = AtomicBool::new(false);
    let taken = AtomicU32::new(0);
    let copies = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut n = 0u8;
            while !done.load(Ordering::SeqCst) {
                shown.change(place.expect("a place"));
                n = n.wrapping_add(1);
                image[body.clone()].fill(n);
                place = shown.show(dba, place, &mut image, Rba::ZERO);
                // Without a pause the reader, on a processor of its own, would never come through.
                let before = taken.load(Ordering::SeqCst);
                while n.is_multiple_of(16)
                    && taken.load(Ordering::SeqCst) == before
                    && !done.load(Ordering::SeqCst)
                {
                    std::hint::spin_loop();
                }
            }
        });
        let mut copies = 0;
        let mut last = 0;
        let mut changes = 0;
        while changes < 1000 {
            let Some(copy) = peer.copy(dba) else { continue };
            copies += 1;
            taken.fetch_add(1, Ordering::SeqCst);
            let first = copy[body.start];
            assert!(copy[body.clone()].iter().all(|b| *b == first), "a torn copy");
            changes += u32::from(first != last);
            last = first;
        }
        done.store(true, Ordering::SeqCst);
        copies
    });
    assert!(copies >= 1000);
}
