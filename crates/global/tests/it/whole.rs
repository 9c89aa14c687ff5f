//! One small world, whole: three instances, one block, at most two requests of each, of any kind,
//! at any moment, and one crash of any instance anywhere; every order in which channels deliver
//! (FIFO within a channel) and I/O ends. Each state is checked against the invariants, each end
//! must be at rest, and the frontier must be empty when the exploration ends.
//!
//! Here nobody chooses who does what ([`crate::exhaustive`] explores chosen plans, with more kinds
//! of acts): what a state may go on with is all that it has not used up. States are told apart by
//! 128 bits; with 10^8 states two share them by chance with a probability below 10^-22.
//!
//! Sound reductions, and no others: each instance numbers its own requests, so that orders that
//! commute meet in one state; what can have no effect any more is left out of the fingerprint (the
//! dead, masters' records of instances that are no masters, changes that lie on disk and are not
//! their instance's last).

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hash, Hasher};

use block::{InstanceNo, Version};
use global::InstanceSet;
use global::msg::Want;

use crate::world::{Session, World, cr};

/// What an instance may ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ask {
    Read,
    /// Take X and change the block once.
    Change,
    Cr,
}

#[derive(Clone, Copy, Debug)]
enum Move {
    Ask(InstanceNo, Ask),
    Deliver(InstanceNo, InstanceNo),
    Io(InstanceNo),
    /// The instance dies; a write it had in flight has reached the disk, or not.
    Crash(InstanceNo, bool),
    Freeze(InstanceNo),
}

/// How large the world is.
struct Size {
    /// Requests that each instance may make.
    requests: [u8; 3],
    asks: &'static [Ask],
    crash: bool,
}

#[derive(Clone)]
struct State {
    world: World,
    left: [u8; 3],
    crashed: bool,
    froze: InstanceSet,
}

/// A state on the path that is being explored.
struct Frame {
    state: State,
    moves: Vec<Move>,
    next: usize,
}

/// Two lanes of 64 bits.
#[derive(Default)]
struct Fingerprint {
    a: u64,
    b: u64,
}

impl Fingerprint {
    fn mix(&mut self, v: u64) {
        self.a = (self.a.rotate_left(29) ^ v).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.a ^= self.a >> 32;
        self.b = (self.b ^ v.rotate_left(17)).wrapping_mul(0xd6e8_feb8_6659_fd93).rotate_left(31);
        self.b = self.b.wrapping_add(self.a);
    }

    fn value(mut self) -> u128 {
        for _ in 0..3 {
            self.mix(0x2545_f491_4f6c_dd1d);
        }
        u128::from(self.a) << 64 | u128::from(self.b)
    }
}

impl Hasher for Fingerprint {
    fn finish(&self) -> u64 {
        self.a
    }
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
        self.mix(bytes.len() as u64);
    }
    fn write_u8(&mut self, v: u8) {
        self.mix(u64::from(v));
    }
    fn write_u32(&mut self, v: u32) {
        self.mix(u64::from(v));
    }
    fn write_u64(&mut self, v: u64) {
        self.mix(v);
    }
    fn write_usize(&mut self, v: usize) {
        self.mix(v as u64);
    }
}

/// The fingerprint is a hash already.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("only fingerprints are hashed");
    }
    fn write_u128(&mut self, v: u128) {
        self.0 = u64::try_from(v >> 64).expect("64 bits");
    }
}

type Seen = HashSet<u128, BuildHasherDefault<AsItIs>>;

impl State {
    fn fingerprint(&self) -> u128 {
        let mut h = Fingerprint::default();
        let w = &self.world;
        (self.left, self.crashed, self.froze, w.disk, w.newest, w.open).hash(&mut h);
        for (i, node) in w.nodes.iter().filter(|(_, n)| n.alive) {
            (i, node).hash(&mut h);
        }
        for (i, master) in w.masters.iter().filter(|(i, _)| w.nodes[i].alive) {
            (i, master).hash(&mut h);
        }
        for (pair, queue) in w.channels.iter().filter(|(_, q)| !q.is_empty()) {
            (pair, queue).hash(&mut h);
        }
        (w.master_no, &w.for_master, &w.closed).hash(&mut h);
        let last = |by: InstanceNo| {
            let below = w.log.iter().filter(|e| e.1 == by && e.0 < w.disk);
            below.map(|e| e.0).max().unwrap_or(Version::ZERO)
        };
        for entry in &w.log {
            // Below what is on disk only each instance's last change can be heard of again.
            if entry.0 >= w.disk || entry.0 == last(entry.1) {
                entry.hash(&mut h);
            }
        }
        h.value()
    }

    fn moves(&self, size: &Size) -> Vec<Move> {
        let mut moves = Vec::new();
        let w = &self.world;
        for (&i, n) in w.nodes.iter().filter(|(_, n)| n.alive) {
            if self.left[usize::from(i.0) - 1] > 0 {
                moves.extend(size.asks.iter().map(|&ask| Move::Ask(i, ask)));
            }
            if self.crashed && !self.froze.contains(i) {
                moves.push(Move::Freeze(i));
            }
            if n.flushing || n.reading || n.writing.is_some() || n.comparing {
                moves.push(Move::Io(i));
            }
            if size.crash && !self.crashed {
                moves.push(Move::Crash(i, false));
                if n.writing.is_some() {
                    moves.push(Move::Crash(i, true));
                }
            }
        }
        moves.extend(w.busy_channels().into_iter().map(|(from, to)| Move::Deliver(from, to)));
        moves
    }

    fn make(&mut self, m: Move) {
        let w = &mut self.world;
        match m {
            Move::Ask(i, ask) => {
                self.left[usize::from(i.0) - 1] -= 1;
                let newest = w.newest;
                let want = match ask {
                    Ask::Read => Want::S,
                    Ask::Change => Want::X,
                    Ask::Cr => cr(newest.count),
                };
                w.want(i, Session { want, newest });
                w.check();
            }
            Move::Deliver(from, to) => {
                w.deliver(from, to);
            }
            Move::Io(i) => {
                w.io(i);
            }
            Move::Crash(i, landed) => {
                self.crashed = true;
                if landed {
                    w.disk = w.nodes[&i].writing.expect("a write in flight");
                }
                w.crash(i);
            }
            Move::Freeze(i) => {
                self.froze.insert(i);
                w.freeze(i);
                w.check();
            }
        }
    }
}

/// What an exploration has seen.
struct Result {
    states: usize,
    ends: usize,
    depth: usize,
}

/// Depth first, to the end: the path is what a failure is told by.
fn explore(size: &Size) -> Result {
    let mut world = World::new(3, 1, 5);
    world.own_numbers = true;
    world.nodes.values_mut().for_each(|n| n.auto_change = true);
    let start = State { world, left: size.requests, crashed: false, froze: InstanceSet::default() };
    let mut seen = Seen::default();
    seen.insert(start.fingerprint());
    let moves = start.moves(size);
    let mut path = vec![Frame { state: start, moves, next: 0 }];
    let mut result = Result { states: 1, ends: 0, depth: 0 };
    while let Some(top) = path.last_mut() {
        let Some(&m) = top.moves.get(top.next) else {
            path.pop();
            continue;
        };
        top.next += 1;
        let mut state = top.state.clone();
        told(&path, || state.make(m));
        if !seen.insert(state.fingerprint()) {
            continue;
        }
        result.states += 1;
        let moves = state.moves(size);
        if !moves.iter().any(|m| !matches!(m, Move::Ask(..) | Move::Crash(..))) {
            // Nobody need ask for more, nor die.
            result.ends += 1;
            told(&path, || state.world.check_at_rest());
        }
        path.push(Frame { state, moves, next: 0 });
        result.depth = result.depth.max(path.len());
    }
    assert_eq!(result.states, seen.len(), "the frontier is empty");
    result
}

/// Runs a step; if it panics, tells how the world came there.
fn told(path: &[Frame], step: impl FnOnce()) {
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(step));
    if let Err(panic) = done {
        println!("after {} moves:", path.len());
        for frame in path {
            println!("  {:?}", frame.moves[frame.next - 1]);
        }
        std::panic::resume_unwind(panic);
    }
}

fn explored(name: &str, size: &Size) {
    let r = explore(size);
    println!("{name}: {} states, {} at rest, {} moves deep", r.states, r.ends, r.depth);
    assert!(r.ends > 0);
}

const ALL: &[Ask] = &[Ask::Read, Ask::Change, Ask::Cr];
/// What every run explores; more is below.
#[test]
fn three_instances_of_which_one_dies_anywhere() {
    explored("one request each, a death", &Size { requests: [1, 1, 1], asks: ALL, crash: true });
}

/// Twelve million states, two minutes.
#[test]
#[ignore = "takes minutes: cargo test --release -p skein-global --test it whole -- --ignored"]
fn three_instances_that_ask_twice_for_anything() {
    explored("two requests each", &Size { requests: [2, 2, 2], asks: ALL, crash: false });
}

/// The whole of it needs some 32 bytes of memory a state, and hours.
#[test]
#[ignore = "takes hours: cargo test --release -p skein-global --test it whole -- --ignored"]
fn three_instances_that_ask_twice_and_of_which_one_dies_anywhere() {
    explored("two requests each, a death", &Size { requests: [2, 2, 2], asks: ALL, crash: true });
}
