//! The simulated network: FIFO connections with random delays, cuts and breaks.
//!
//! A crash ends a process's connections like the death of a process on a living host: what is in
//! flight from it arrives up to some point, then its peers see the end; what is in flight to it is
//! lost. A cut holds everything back; if it lasts, the connection breaks on both sides. A broken
//! connection stays broken.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::task::{Poll, Waker};

use super::rng::hash_bytes;
use super::world::{Shared, World};
use crate::{BoxFuture, Connection, FrameReceiver, FrameSender, Listener};

enum Item {
    Frame(Vec<u8>),
    /// The other side sends no more.
    End,
}

/// One side of a connection; holds what travels towards it.
struct Side {
    pid: u32,
    inbox: VecDeque<Vec<u8>>,
    in_flight: VecDeque<Item>,
    /// Deliveries that came due during a cut.
    stalled: usize,
    last_due_us: u64,
    ended: bool,
    waker: Option<Waker>,
    sender_alive: bool,
    receiver_alive: bool,
}

impl Side {
    fn new(pid: u32) -> Side {
        Side {
            pid,
            inbox: VecDeque::new(),
            in_flight: VecDeque::new(),
            stalled: 0,
            last_due_us: 0,
            ended: false,
            waker: None,
            sender_alive: true,
            receiver_alive: true,
        }
    }

    fn end(&mut self) {
        self.ended = true;
        self.in_flight.clear();
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

struct Conn {
    sides: [Side; 2],
    /// Nothing can be sent any more.
    broken: bool,
}

struct ListenerState {
    pid: u32,
    backlog: VecDeque<u64>,
    waker: Option<Waker>,
}

#[derive(Default)]
pub(super) struct NetState {
    listeners: BTreeMap<String, ListenerState>,
    conns: BTreeMap<u64, Conn>,
    cuts: BTreeMap<(u8, u8), u64>,
    /// From and to.
    one_way_cuts: BTreeMap<(u8, u8), u64>,
    next_id: u64,
    next_port: u16,
}

fn pair(a: u8, b: u8) -> (u8, u8) {
    (a.min(b), a.max(b))
}

impl World {
    /// How long the next message travels.
    pub(super) fn message_delay_us(&mut self) -> u64 {
        self.rng.between(self.config.net_delay_us)
    }

    /// Whether what travels towards side `to` is held back.
    fn is_cut(&self, conn: &Conn, to: usize) -> bool {
        let [from, to] = [1 - to, to].map(|i| self.instance_of(conn.sides[i].pid));
        self.net.cuts.contains_key(&pair(from, to))
            || self.net.one_way_cuts.contains_key(&(from, to))
    }

    fn post(&mut self, id: u64, to: usize, item: Item) {
        let delay = self.message_delay_us();
        let now = self.now;
        let side = &mut self.net.conns.get_mut(&id).expect("a live connection").sides[to];
        side.in_flight.push_back(item);
        side.last_due_us = side.last_due_us.max(now + delay);
        let wait = side.last_due_us - now;
        self.after(wait, move |world| world.deliver(id, to));
    }

    fn deliver(&mut self, id: u64, to: usize) {
        let Some(conn) = self.net.conns.get(&id) else { return };
        let cut = self.is_cut(conn, to);
        let side = &mut self.net.conns.get_mut(&id).expect("seen above").sides[to];
        if cut {
            side.stalled += 1;
            return;
        }
        match side.in_flight.pop_front() {
            // Cleared by a break.
            None => {}
            Some(Item::End) => {
                side.end();
                self.note("net end", id, to as u64);
            }
            Some(Item::Frame(frame)) => {
                let hash = hash_bytes(&frame);
                side.inbox.push_back(frame);
                if let Some(waker) = side.waker.take() {
                    waker.wake();
                }
                self.note("net frame", id * 2 + to as u64, hash);
            }
        }
    }

    fn break_conn(&mut self, id: u64, keep_inbox: bool) {
        self.note("net break", id, 0);
        let Some(conn) = self.net.conns.get_mut(&id) else { return };
        conn.broken = true;
        for side in &mut conn.sides {
            if !keep_inbox {
                side.inbox.clear();
            }
            side.end();
        }
    }

    fn between(&self, a: u8, b: u8) -> Vec<u64> {
        let wanted = pair(a, b);
        let joins = |c: &Conn| {
            pair(self.instance_of(c.sides[0].pid), self.instance_of(c.sides[1].pid)) == wanted
        };
        self.net.conns.iter().filter(|(_, c)| joins(c)).map(|(id, _)| *id).collect()
    }

    /// Nothing passes between two instances until healed; connections break if it lasts.
    pub(super) fn cut(&mut self, a: u8, b: u8) {
        self.net.next_id += 1;
        let generation = self.net.next_id;
        self.net.cuts.insert(pair(a, b), generation);
        self.note("cut", u64::from(a), u64::from(b));
        let lasts = self.config.cut_break_us;
        self.after(lasts, move |world| {
            if world.net.cuts.get(&pair(a, b)) == Some(&generation) {
                world.break_between(a, b);
            }
        });
    }

    /// Nothing passes from one instance to another until healed; connections break if it lasts.
    pub(super) fn cut_one_way(&mut self, from: u8, to: u8) {
        self.net.next_id += 1;
        let generation = self.net.next_id;
        self.net.one_way_cuts.insert((from, to), generation);
        self.note("cut one way", u64::from(from), u64::from(to));
        let lasts = self.config.cut_break_us;
        self.after(lasts, move |world| {
            if world.net.one_way_cuts.get(&(from, to)) == Some(&generation) {
                world.break_between(from, to);
            }
        });
    }

    pub(super) fn heal(&mut self, a: u8, b: u8) {
        self.net.cuts.remove(&pair(a, b));
        self.net.one_way_cuts.remove(&(a, b));
        self.net.one_way_cuts.remove(&(b, a));
        self.note("heal", u64::from(a), u64::from(b));
        for id in self.between(a, b) {
            for to in [0, 1] {
                let side = &mut self.net.conns.get_mut(&id).expect("listed").sides[to];
                for _ in 0..std::mem::take(&mut side.stalled) {
                    // In order by the sequence number of events of one time.
                    self.after(0, move |world| world.deliver(id, to));
                }
            }
        }
    }

    /// Resets every connection between two instances; what is in flight is lost.
    pub(super) fn break_between(&mut self, a: u8, b: u8) {
        for id in self.between(a, b) {
            self.break_conn(id, true);
        }
    }

    fn drop_half(&mut self, id: u64, side: usize, sender: bool) {
        let Some(conn) = self.net.conns.get_mut(&id) else { return };
        let me = &mut conn.sides[side];
        if sender {
            me.sender_alive = false;
        } else {
            me.receiver_alive = false;
        }
        let gone = !me.sender_alive && !me.receiver_alive;
        let broken = conn.broken;
        let all_gone = conn.sides.iter().all(|s| !s.sender_alive && !s.receiver_alive);
        if sender && !broken {
            self.post(id, 1 - side, Item::End);
        }
        if gone && !broken {
            // The peer learns at its next delivery; from here its sends go nowhere.
            self.net.conns.get_mut(&id).expect("seen above").broken = true;
        }
        if all_gone {
            self.net.conns.remove(&id);
        }
    }
}

/// The process is gone: its listeners close, its connections end.
pub(super) fn crash(world: &mut World, pid: u32) {
    world.net.listeners.retain(|_, l| l.pid != pid);
    let ids: Vec<u64> = world
        .net
        .conns
        .iter()
        .filter(|(_, c)| c.sides.iter().any(|s| s.pid == pid))
        .map(|(id, _)| *id)
        .collect();
    for id in ids {
        let conn = world.net.conns.get_mut(&id).expect("listed above");
        if conn.broken {
            continue;
        }
        conn.broken = true;
        let dead = usize::from(conn.sides[1].pid == pid);
        conn.sides[dead].end();
        conn.sides[dead].inbox.clear();
        let arriving = conn.sides[1 - dead].in_flight.len() as u64;
        let keep = world.rng.below(arriving + 1);
        let conn = world.net.conns.get_mut(&id).expect("listed above");
        conn.sides[1 - dead].in_flight.truncate(keep as usize);
        world.post(id, 1 - dead, Item::End);
    }
}

struct SimSender {
    shared: Arc<Shared>,
    id: u64,
    side: usize,
}

impl FrameSender for SimSender {
    fn send(&self, frame: Vec<u8>) -> io::Result<()> {
        let mut world = self.shared.lock();
        match world.net.conns.get(&self.id) {
            Some(conn) if !conn.broken => {}
            _ => return Err(io::ErrorKind::BrokenPipe.into()),
        }
        world.post(self.id, 1 - self.side, Item::Frame(frame));
        Ok(())
    }

    fn close(&self) {
        self.shared.lock().break_conn(self.id, false);
    }
}

impl Drop for SimSender {
    fn drop(&mut self) {
        self.shared.lock().drop_half(self.id, self.side, true);
    }
}

struct SimReceiver {
    shared: Arc<Shared>,
    id: u64,
    side: usize,
}

impl FrameReceiver for SimReceiver {
    fn recv(&mut self) -> BoxFuture<'_, Option<Vec<u8>>> {
        Box::pin(std::future::poll_fn(|cx| {
            let mut world = self.shared.lock();
            let Some(conn) = world.net.conns.get_mut(&self.id) else { return Poll::Ready(None) };
            let side = &mut conn.sides[self.side];
            if let Some(frame) = side.inbox.pop_front() {
                return Poll::Ready(Some(frame));
            }
            if side.ended {
                return Poll::Ready(None);
            }
            side.waker = Some(cx.waker().clone());
            Poll::Pending
        }))
    }
}

impl Drop for SimReceiver {
    fn drop(&mut self) {
        self.shared.lock().drop_half(self.id, self.side, false);
    }
}

fn connection(shared: &Arc<Shared>, id: u64, side: usize) -> Connection {
    let shared = Arc::clone(shared);
    Connection {
        sender: Arc::new(SimSender { shared: shared.clone(), id, side }),
        receiver: Box::new(SimReceiver { shared, id, side }),
        // Its wires have a length.
        same_machine: false,
    }
}

/// One attempt of `pid` to reach `addr`; the delays are the caller's.
pub(super) fn connect(shared: &Arc<Shared>, pid: u32, addr: &str) -> io::Result<Connection> {
    let mut world = shared.lock();
    let Some(peer) = world.net.listeners.get(addr).map(|l| l.pid) else {
        return Err(io::ErrorKind::ConnectionRefused.into());
    };
    world.net.next_id += 1;
    let id = world.net.next_id;
    let sides = [Side::new(pid), Side::new(peer)];
    world.net.conns.insert(id, Conn { sides, broken: false });
    let listener = world.net.listeners.get_mut(addr).expect("seen above");
    listener.backlog.push_back(id);
    if let Some(waker) = listener.waker.take() {
        waker.wake();
    }
    world.note("connect", id, u64::from(peer));
    drop(world);
    Ok(connection(shared, id, 0))
}

/// Whether a cut stands between `pid` and whoever listens on `addr`.
pub(super) fn cut_off(shared: &Shared, pid: u32, addr: &str) -> bool {
    let world = shared.lock();
    let Some(listener) = world.net.listeners.get(addr) else { return false };
    let (a, b) = (world.instance_of(pid), world.instance_of(listener.pid));
    // A connection needs both ways.
    let one_way = &world.net.one_way_cuts;
    world.net.cuts.contains_key(&pair(a, b))
        || one_way.contains_key(&(a, b))
        || one_way.contains_key(&(b, a))
}

pub(super) fn listen(shared: &Arc<Shared>, pid: u32, addr: &str) -> io::Result<Box<dyn Listener>> {
    let mut world = shared.lock();
    let addr = match addr.strip_suffix(":0") {
        Some(host) => {
            world.net.next_port += 1;
            format!("{host}:{}", 20_000 + u32::from(world.net.next_port))
        }
        None => addr.to_owned(),
    };
    if world.net.listeners.contains_key(&addr) {
        return Err(io::ErrorKind::AddrInUse.into());
    }
    let state = ListenerState { pid, backlog: VecDeque::new(), waker: None };
    world.net.listeners.insert(addr.clone(), state);
    drop(world);
    Ok(Box::new(SimListener { shared: Arc::clone(shared), pid, addr }))
}

struct SimListener {
    shared: Arc<Shared>,
    pid: u32,
    addr: String,
}

impl Listener for SimListener {
    fn local_addr(&self) -> String {
        self.addr.clone()
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<Connection>> {
        Box::pin(std::future::poll_fn(|cx| {
            let id = {
                let mut world = self.shared.lock();
                let Some(listener) = world.net.listeners.get_mut(&self.addr) else {
                    return Poll::Pending;
                };
                match listener.backlog.pop_front() {
                    Some(id) => id,
                    None => {
                        listener.waker = Some(cx.waker().clone());
                        return Poll::Pending;
                    }
                }
            };
            Poll::Ready(Ok(connection(&self.shared, id, 1)))
        }))
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        let mut world = self.shared.lock();
        // After a crash and restart the address may be another process's.
        if world.net.listeners.get(&self.addr).is_some_and(|l| l.pid == self.pid) {
            let listener = world.net.listeners.remove(&self.addr).expect("seen above");
            for id in listener.backlog {
                world.break_conn(id, false);
            }
        }
    }
}
