//! Small worlds, explored whole: three instances, one block, a few wishes each, every order in
//! which channels deliver and I/O ends (FIFO within a channel). Each state is checked against the
//! invariants; each end state must be at rest with nobody waiting.

use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use block::InstanceNo;
use global::InstanceSet;
use global::holder::HolderEvent;
use global::msg::Want;

use crate::world::{Session, World, cr};

/// What a user does to the block at an instance, at any moment.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Act {
    Read,
    /// Take X and change the block once.
    Change,
    Cr,
    Write,
    Evict,
    Checkpoint,
    /// All sessions there give up.
    Cancel,
    /// What is unanswered is said again.
    Repeat,
}

#[derive(Clone, Copy, Debug)]
enum Move {
    Act(usize),
    Deliver(InstanceNo, InstanceNo),
    Io(InstanceNo),
    /// The instance dies; a write it had in flight has reached the disk, or not.
    Crash(InstanceNo, bool),
    Freeze(InstanceNo),
}

/// What happens to the membership.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Membership {
    None,
    /// An epoch with the same members (a broken channel, a join).
    SameMembers,
    Death(InstanceNo),
    /// A second one after the thaw, whether the first one's thread is given up by then or not.
    Deaths(InstanceNo, InstanceNo),
}

struct Explorer {
    plans: Vec<Vec<Act>>,
    seen: HashSet<u64, BuildHasherDefault<DefaultHasher>>,
    states: usize,
    ends: usize,
    limit: usize,
    membership: Membership,
}

/// A world and how far each instance's plan is.
#[derive(Clone)]
struct State {
    world: World,
    done: Vec<usize>,
    dead: usize,
    froze: InstanceSet,
}

impl Membership {
    fn dying(self) -> Vec<InstanceNo> {
        match self {
            Membership::None | Membership::SameMembers => Vec::new(),
            Membership::Death(a) => vec![a],
            Membership::Deaths(a, b) => vec![a, b],
        }
    }
}

impl Explorer {
    fn moves(&self, s: &State) -> Vec<Move> {
        let mut moves = Vec::new();
        for (k, plan) in self.plans.iter().enumerate() {
            if s.done[k] < plan.len() && s.world.nodes[&InstanceNo(k as u8 + 1)].alive {
                moves.push(Move::Act(k));
            }
        }
        let due = self.membership == Membership::SameMembers || s.dead > 0;
        for (&i, n) in &s.world.nodes {
            if due && n.alive && !s.froze.contains(i) {
                moves.push(Move::Freeze(i));
            }
        }
        if let Some(&who) = self.membership.dying().get(s.dead)
            && s.world.open
        {
            moves.push(Move::Crash(who, false));
            if s.world.nodes[&who].writing.is_some() {
                moves.push(Move::Crash(who, true));
            }
        }
        for (from, to) in s.world.busy_channels() {
            moves.push(Move::Deliver(from, to));
        }
        for (&i, n) in &s.world.nodes {
            if n.alive && (n.flushing || n.reading || n.writing.is_some() || n.comparing) {
                moves.push(Move::Io(i));
            }
        }
        moves
    }

    fn make(&self, s: &mut State, m: Move) {
        match m {
            Move::Act(k) => {
                let act = self.plans[k][s.done[k]];
                s.done[k] += 1;
                self.act(&mut s.world, InstanceNo(k as u8 + 1), act);
                s.world.check();
            }
            Move::Deliver(from, to) => {
                s.world.deliver(from, to);
            }
            Move::Io(i) => {
                s.world.io(i);
            }
            Move::Crash(i, landed) => {
                s.dead += 1;
                s.froze = InstanceSet::default();
                if landed {
                    s.world.disk = s.world.nodes[&i].writing.expect("a write in flight");
                }
                s.world.crash(i);
            }
            Move::Freeze(i) => {
                s.froze.insert(i);
                s.world.freeze(i);
                s.world.check();
            }
        }
    }

    fn act(&self, w: &mut World, i: InstanceNo, act: Act) {
        let newest = w.newest;
        let want = |want| Session { want, newest };
        match act {
            Act::Read => w.want(i, want(Want::S)),
            Act::Change => w.want(i, want(Want::X)),
            Act::Cr => w.want(i, want(cr(newest.count))),
            Act::Write => {
                let n = &w.nodes[&i];
                if n.dirty && n.holder.readable() && n.writing.is_none() {
                    w.start_write(i);
                }
            }
            Act::Evict => w.step(i, HolderEvent::EvictWanted),
            Act::Cancel => {
                w.node(i).waiting.clear();
                w.step(i, HolderEvent::Cancel);
            }
            Act::Checkpoint => w.step(i, HolderEvent::CheckpointPast),
            Act::Repeat => w.step(i, HolderEvent::Repeat),
        }
    }

    /// Depth first, with the path kept for the report of a failure.
    fn explore(&mut self, start: State) {
        let mut steps: Vec<(usize, Move)> = Vec::new();
        let mut stack = vec![(start, usize::MAX)];
        while let Some((state, at)) = stack.pop() {
            self.states += 1;
            guarded(&steps, at, || {
                assert!(self.states <= self.limit, "more states than this test is sized for");
            });
            let moves = self.moves(&state);
            if moves.is_empty() {
                self.ends += 1;
                guarded(&steps, at, || state.world.check_at_rest());
            }
            for m in moves {
                let mut next = state.clone();
                steps.push((at, m));
                guarded(&steps, steps.len() - 1, || self.make(&mut next, m));
                let parts = (&next.world, &next.done, next.dead, next.froze);
                let hash = self.seen.hasher().hash_one(parts);
                if self.seen.insert(hash) {
                    stack.push((next, steps.len() - 1));
                } else {
                    steps.pop();
                }
            }
        }
    }
}

/// Runs `step`; if it panics, tells how the world came there: `steps` link back to their origin.
fn guarded(steps: &[(usize, Move)], mut at: usize, step: impl FnOnce()) {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(step));
    if let Err(panic) = result {
        let mut path = Vec::new();
        while let Some(&(before, m)) = steps.get(at) {
            path.push(m);
            at = before;
        }
        println!("after {} moves, the last of which are:", path.len());
        for m in path.iter().take(40).rev() {
            println!("  {m:?}");
        }
        std::panic::resume_unwind(panic);
    }
}

fn explore(name: &str, master: u8, plans: &[&[Act]]) {
    explore_with(name, master, plans, Membership::None);
}

fn explore_with(name: &str, master: u8, plans: &[&[Act]], membership: Membership) {
    let mut world = World::new(u8::try_from(plans.len()).expect("few"), master, 5);
    for n in world.nodes.values_mut() {
        n.auto_change = true;
    }
    let plans: Vec<Vec<Act>> = plans.iter().map(|p| p.to_vec()).collect();
    let done = vec![0; plans.len()];
    let mut e = Explorer {
        plans,
        seen: HashSet::default(),
        states: 0,
        ends: 0,
        limit: 400_000,
        membership,
    };
    e.explore(State { world, done, dead: 0, froze: InstanceSet::default() });
    println!("{name}: {} states, {} ends", e.states, e.ends);
    assert!(e.ends > 0);
}

use Act::{Cancel, Change, Checkpoint, Cr, Evict, Read, Repeat, Write};

#[test]
fn three_instances_with_two_wishes_each() {
    explore("three changers, twice", 1, &[&[Change, Change], &[Change, Change], &[Change]]);
    explore("readers and changers", 1, &[&[Read, Change], &[Read, Change], &[Change]]);
    explore("reader, upgrader, changer", 3, &[&[Read, Change], &[Change, Read], &[Read]]);
}

#[test]
fn writes_and_evictions() {
    explore("a write meets a changer", 1, &[&[Change, Write], &[Change, Write], &[]]);
    explore("an eviction meets a changer", 2, &[&[Read, Evict], &[Change], &[Read]]);
    explore("everybody lets go", 1, &[&[Change, Write, Evict], &[Read, Evict], &[Change]]);
    explore("a late refusal", 3, &[&[Read, Evict, Read, Evict], &[Change], &[]]);
    explore("a late Written", 3, &[&[Change, Change], &[Change, Write, Change], &[]]);
    explore("and comes back", 2, &[&[Read, Evict, Read], &[Change, Write, Evict], &[]]);
}

#[test]
fn consistent_reads_meet_moving_blocks() {
    explore("cr", 1, &[&[Change, Cr], &[Cr], &[Change]]);
    explore("cr and eviction", 2, &[&[Change, Write, Evict], &[Cr], &[Change]]);
    explore("cr by the one who lost it", 3, &[&[Change, Cr], &[Change, Cr], &[]]);
}

/// In these the guess is no more than a guess: the holder has moved on, shares the block, is about
/// to let it go, or a change is under way.
#[test]
fn guesses_of_readers_meet_moving_blocks() {
    explore("guess and changer", 3, &[&[Change, Cr, Cr], &[Change], &[Change]]);
    explore("guess and eviction", 3, &[&[Change, Write, Evict], &[Cr, Cr], &[Change]]);
    explore("guess and reader", 2, &[&[Change, Cr, Cr], &[Read], &[Change, Cr]]);
    explore("guess and cancel", 3, &[&[Change, Cr, Cancel, Cr], &[Change], &[]]);
    let dies = |i| Membership::Death(InstanceNo(i));
    explore_with("guess at a dead one", 1, &[&[], &[Change, Cr], &[Change]], dies(3));
    explore_with("guess, master dies", 1, &[&[], &[Change, Cr], &[Change]], dies(1));
}

#[test]
fn checkpoints_of_past_images() {
    explore("h17", 2, &[&[Change, Checkpoint], &[Change], &[]]);
    explore("h17 and a third", 1, &[&[Change, Checkpoint], &[Change], &[Read]]);
    explore(
        "past image at a writer",
        3,
        &[&[Change, Checkpoint], &[Change, Checkpoint], &[Change]],
    );
}

#[test]
fn cancels_meet_grants() {
    explore("m7", 1, &[&[Change], &[Change, Cancel], &[Change]]);
    explore("m7 by readers", 2, &[&[Read, Cancel, Change], &[Change], &[Read, Cancel]]);
}

#[test]
fn repetitions_change_nothing() {
    explore("of a copy", 3, &[&[Change, Write, Evict], &[Cr, Repeat], &[Read]]);
    explore("of a copy, twice", 2, &[&[Change, Write, Evict], &[], &[Cr, Repeat, Cr]]);
    explore("of a read", 3, &[&[Change, Write, Evict], &[Read, Repeat, Evict], &[Change]]);
    explore("of a change", 3, &[&[Change, Write], &[Change, Repeat, Write, Evict], &[Read]]);
    explore("of a question", 3, &[&[Change, Write, Evict], &[Cr, Cr, Repeat], &[Change]]);
}

#[test]
fn an_epoch_with_the_same_members_meets_everything() {
    let same = Membership::SameMembers;
    explore_with("c2 two changers", 1, &[&[Change], &[Change]], same);
    explore_with("c2 reader and changer", 2, &[&[Read, Evict], &[Change]], same);
    explore_with("c2 three", 3, &[&[Change], &[Change], &[]], same);
}

#[test]
fn a_death_meets_everything() {
    let dies = |i| Membership::Death(InstanceNo(i));
    explore_with("c1 holder dies", 1, &[&[Change], &[Change], &[]], dies(2));
    explore_with("c1 master dies", 2, &[&[Change], &[], &[Read]], dies(2));
    explore_with("c1 writer dies", 1, &[&[Change], &[Change, Write], &[]], dies(2));
    explore_with("c1 copy of a dead writer", 1, &[&[Read, Evict], &[Change, Write], &[]], dies(2));
    explore_with("c1 eviction meets duty", 3, &[&[Read, Evict], &[Change], &[Read]], dies(2));
    explore_with("c16 past image at a dead one", 3, &[&[Change, Write], &[Change], &[]], dies(2));
    explore_with("m9 s-writer dies", 1, &[&[Read], &[Change], &[]], dies(2));
    explore_with("c3 shipper dies", 3, &[&[Change], &[Change], &[]], dies(1));
}

#[test]
fn a_second_death_finds_the_first_ones_changes() {
    let both = |a, b| Membership::Deaths(InstanceNo(a), InstanceNo(b));
    explore_with("h24 holder, then heir", 1, &[&[Read], &[Change], &[Change]], both(2, 3));
    explore_with("h24 changer, then changer", 1, &[&[], &[Change], &[Change]], both(2, 3));
    explore_with("h24 past image, then holder", 1, &[&[Change], &[Change], &[]], both(2, 1));
}
