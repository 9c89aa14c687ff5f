//! The interconnect: FIFO channels between members.
//!
//! A *link* joins this life of the instance with one life of a peer; it has a channel for each
//! direction
//! and message class, each a TCP connection of its own, so that no class can starve another. Rules:
//!
//! 1. A link is made in an epoch, by [`Interconnect::connect_members`], and lives over later epochs
//!    for
//!    as long as both are members.
//! 2. When any channel of a link breaks, the whole link is broken, for good; [`Started::broken`]
//!    tells.
//!    It is made anew only in a later epoch. What had arrived before the break can still be
//!    received.
//! 3. After [`Interconnect::close_peer`] nothing of that link is received any more.
//! 4. Only who knows the secret, is in the membership last given, and names its epoch, is let in.
//! 5. A link on which nothing arrives for long is broken: idle ones are kept alive by empty frames.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use block::InstanceNo;
use env::{Connection, Env, FrameSender, Lane, Listener, Micros};
use parking_lot::RwLock;
use tokio::sync::{Semaphore, mpsc};

use crate::Error;
use crate::handshake::{self, Hello, Secret, Verdict};
use crate::machine::Member;
use crate::voting::Life;

/// Message classes; each has channels and queues of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Class {
    Blocks,
    Enqueues,
    Transactions,
    Epochs,
}

/// When a message must leave.
#[derive(PartialEq, Eq)]
enum Haste {
    Now,
    Soon,
    WithNext,
}

/// How many classes there are.
pub const CLASSES: usize = 4;

impl Class {
    pub const ALL: [Class; CLASSES] =
        [Class::Blocks, Class::Enqueues, Class::Transactions, Class::Epochs];

    pub(crate) fn from_u8(v: u8) -> Option<Class> {
        Class::ALL.get(usize::from(v)).copied()
    }
}

#[derive(Clone, Copy, Debug)]
pub struct InterconnectConfig {
    /// Between two empty frames on each link.
    pub ping: Duration,
    /// How long nothing may arrive before the link is broken.
    pub silence: Duration,
    /// How long [`Interconnect::connect_members`] tries.
    pub connect: Duration,
    /// Messages received but not yet taken, for each class; beyond it the peers' channels back up.
    pub inbox_messages: usize,
}

impl Default for InterconnectConfig {
    fn default() -> Self {
        InterconnectConfig {
            ping: Duration::from_millis(500),
            silence: Duration::from_secs(3),
            connect: Duration::from_secs(5),
            inbox_messages: 4096,
        }
    }
}

/// What a [`Hello`] names that only asks whether anybody is there: no epoch has this number.
const PROBE_EPOCH: u64 = 0;
/// Between two attempts to make a channel.
const RETRY: Duration = Duration::from_millis(3);
/// Between two attempts to reach who is probed.
const PROBE_RETRY: Duration = Duration::from_millis(50);
/// Handshakes under way that others have begun.
const HANDSHAKES_MAX: usize = 64;

/// There is no whole link to that peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broken;

/// A message that has arrived.
pub struct Incoming {
    pub from: InstanceNo,
    /// The sender's life.
    pub incarnation: u64,
    pub class: Class,
    pub payload: Vec<u8>,
    /// When it was taken off the wire, by the own clock.
    pub arrived: Micros,
    /// The sender is on this machine: what it sends is here at once, and its clock is this one.
    pub same_machine: bool,
    link: Arc<Link>,
}

impl Incoming {
    /// Its link has been closed by [`Interconnect::close_peer`] since it arrived: it must not be
    /// acted on any more.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.link.closed.load(Ordering::Acquire)
    }
}

/// The queue of one class.
pub struct ClassInbox(mpsc::Receiver<Incoming>);

impl ClassInbox {
    /// The next message, in order within each sender; leaves out what is stale. `None`: the
    /// interconnect is gone.
    pub async fn recv(&mut self) -> Option<Incoming> {
        loop {
            let message = self.0.recv().await?;
            if !message.is_stale() {
                return Some(message);
            }
        }
    }

    /// The next message if one is there.
    pub fn try_recv(&mut self) -> Option<Incoming> {
        loop {
            let message = self.0.try_recv().ok()?;
            if !message.is_stale() {
                return Some(message);
            }
        }
    }
}

/// What [`Interconnect::start`] gives.
pub struct Started {
    pub interconnect: Arc<Interconnect>,
    /// In the order of [`Class::ALL`].
    pub inboxes: [ClassInbox; CLASSES],
    /// Peers whose link has broken (not: has been closed from here).
    pub broken: mpsc::UnboundedReceiver<Life>,
}

/// Messages and bytes exchanged with a peer since the start, empty frames not counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PeerCounters {
    pub instance: u8,
    pub sent_messages: u64,
    pub sent_bytes: u64,
    pub received_messages: u64,
    pub received_bytes: u64,
}

#[derive(Default)]
struct Counters {
    sent_messages: AtomicU64,
    sent_bytes: AtomicU64,
    received_messages: AtomicU64,
    received_bytes: AtomicU64,
}

#[derive(Default)]
struct Channels {
    out: [Option<Arc<dyn FrameSender>>; CLASSES],
    /// Kept to close them with the link.
    back: [Option<Arc<dyn FrameSender>>; CLASSES],
}

struct Link {
    peer: Life,
    channels: RwLock<Channels>,
    /// Rule 2.
    broken: AtomicBool,
    /// Rule 3.
    closed: AtomicBool,
    /// Frames received, empty ones included; the keeper looks whether it moves.
    arrivals: AtomicU64,
    counters: Arc<Counters>,
}

impl Link {
    fn new(peer: Life, counters: Arc<Counters>) -> Arc<Link> {
        Arc::new(Link {
            peer,
            channels: RwLock::default(),
            broken: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            arrivals: AtomicU64::new(0),
            counters,
        })
    }

    fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    fn is_whole(&self) -> bool {
        let channels = self.channels.read();
        channels.out.iter().chain(&channels.back).all(Option::is_some) && !self.is_broken()
    }

    /// Breaks every channel; true for the first to do so.
    fn break_off(&self) -> bool {
        let first = !self.broken.swap(true, Ordering::AcqRel);
        let channels = std::mem::take(&mut *self.channels.write());
        for sender in channels.out.into_iter().chain(channels.back).flatten() {
            sender.close();
        }
        first
    }
}

/// The membership in force, for those who knock.
#[derive(Default)]
struct Roster {
    epoch: u64,
    links: BTreeMap<InstanceNo, Arc<Link>>,
    counters: BTreeMap<InstanceNo, Arc<Counters>>,
}

/// The interconnect of one instance; see the module's text.
pub struct Interconnect {
    env: Env,
    me: Life,
    secret: Secret,
    config: InterconnectConfig,
    addr: String,
    roster: RwLock<Roster>,
    inboxes: [mpsc::Sender<Incoming>; CLASSES],
    broken: mpsc::UnboundedSender<Life>,
    refused: AtomicU64,
    handshakes: Semaphore,
    /// Channels in which something waits for a flush, a bit for each instance and class.
    queued: AtomicU64,
}

const _: () = assert!((block::INSTANCES_MAX as usize + 1) * CLASSES <= u64::BITS as usize);

/// Why [`Interconnect::connect_members`] has not made all links.
#[derive(thiserror::Error, Clone, PartialEq, Eq, Debug)]
pub enum ConnectError {
    #[error("no link to instance {0} could be made in time")]
    Unreachable(InstanceNo),
    #[error("a later epoch has begun")]
    Superseded,
}

impl Interconnect {
    /// Listens on `addr` (port 0: any). Nobody is let in before [`Interconnect::connect_members`].
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub async fn start(
        env: &Env,
        me: InstanceNo,
        incarnation: u64,
        secret: [u8; 32],
        addr: &str,
        config: InterconnectConfig,
    ) -> Result<Started, Error> {
        let listener = env
            .listen(addr)
            .await
            .map_err(|e| Error::io(format!("listen on {addr} for the interconnect"), e))?;
        let (senders, inboxes): (Vec<_>, Vec<_>) =
            Class::ALL.iter().map(|_| mpsc::channel(config.inbox_messages)).unzip();
        let (broken, broken_events) = mpsc::unbounded_channel();
        let interconnect = Arc::new(Interconnect {
            env: env.clone(),
            me: Life { instance: me, incarnation },
            secret,
            config,
            addr: listener.local_addr(),
            roster: RwLock::default(),
            inboxes: senders.try_into().expect("one of each class"),
            broken,
            refused: AtomicU64::new(0),
            handshakes: Semaphore::new(HANDSHAKES_MAX),
            queued: AtomicU64::new(0),
        });
        let task = Arc::clone(&interconnect).accept_all(listener);
        env.spawn_task("interconnect", Lane::Serve, task);
        let inboxes: Vec<ClassInbox> = inboxes.into_iter().map(ClassInbox).collect();
        let inboxes = inboxes.try_into().unwrap_or_else(|_| unreachable!("one of each class"));
        Ok(Started { interconnect, inboxes, broken: broken_events })
    }

    /// Where this instance listens, port filled in.
    #[must_use]
    pub fn addr(&self) -> &str {
        &self.addr
    }

    /// Handshakes refused since the start.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    fn link(&self, peer: InstanceNo) -> Option<Arc<Link>> {
        self.roster.read().links.get(&peer).cloned()
    }

    /// Queues a message. An error means that the link is broken (or there is none): the message is
    /// lost, and a new epoch is due. No error does not mean that it arrives.
    ///
    /// # Errors
    /// [`Broken`].
    ///
    /// # Panics
    /// When the message is empty.
    pub fn send(&self, to: InstanceNo, class: Class, payload: Vec<u8>) -> Result<(), Broken> {
        self.put(to, class, payload, Haste::Now)
    }

    /// As [`Interconnect::send`], for one who holds locks: the message leaves with the next
    /// [`Interconnect::flush`], by whomever.
    ///
    /// # Errors
    /// [`Broken`].
    ///
    /// # Panics
    /// When the message is empty.
    pub fn queue(&self, to: InstanceNo, class: Class, payload: Vec<u8>) -> Result<(), Broken> {
        self.put(to, class, payload, Haste::Soon)
    }

    /// As [`Interconnect::send`], for what nobody waits for: it goes with the channel's next
    /// message, the next sign of life at the latest.
    ///
    /// # Errors
    /// [`Broken`].
    ///
    /// # Panics
    /// When the message is empty.
    pub fn send_with_next(
        &self,
        to: InstanceNo,
        class: Class,
        payload: Vec<u8>,
    ) -> Result<(), Broken> {
        self.put(to, class, payload, Haste::WithNext)
    }

    /// Sends what is queued.
    pub fn flush(&self) {
        let mut channels = self.queued.swap(0, Ordering::AcqRel);
        while channels != 0 {
            let at = channels.trailing_zeros();
            channels &= channels - 1;
            let (to, class) = (at as usize / CLASSES, at as usize % CLASSES);
            let to = InstanceNo(u8::try_from(to).expect("an instance"));
            let sender = self.link(to).and_then(|link| link.channels.read().out[class].clone());
            if let Some(sender) = sender {
                sender.flush();
            }
        }
    }

    fn put(
        &self,
        to: InstanceNo,
        class: Class,
        payload: Vec<u8>,
        haste: Haste,
    ) -> Result<(), Broken> {
        assert!(!payload.is_empty(), "an empty frame is not a message");
        let link = self.link(to).ok_or(Broken)?;
        let sender = link.channels.read().out[class as usize].clone().ok_or(Broken)?;
        let bytes = payload.len() as u64;
        let put = match haste {
            Haste::Now => sender.send(payload),
            Haste::Soon | Haste::WithNext => sender.queue(payload),
        };
        if put.is_err() {
            self.on_broken(&link);
            return Err(Broken);
        }
        if haste == Haste::Soon {
            let at = usize::from(to.0) * CLASSES + class as usize;
            self.queued.fetch_or(1 << at, Ordering::AcqRel);
        }
        link.counters.sent_messages.fetch_add(1, Ordering::Relaxed);
        link.counters.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Whether a whole link to this life exists.
    #[must_use]
    pub fn is_linked(&self, peer: Life) -> bool {
        self.link(peer.instance).is_some_and(|l| l.peer == peer && l.is_whole())
    }

    /// Closes the link to a peer. When this returns, no message of that link is received any more.
    pub fn close_peer(&self, peer: InstanceNo) {
        let link = self.roster.write().links.remove(&peer);
        if let Some(link) = link {
            link.closed.store(true, Ordering::Release);
            link.break_off();
        }
    }

    /// Makes the links of an epoch: closes those to who is not a member, keeps whole ones, makes
    /// what
    /// is missing or broken anew. Returns when all are whole.
    ///
    /// # Errors
    /// [`ConnectError`]; the links already made stay.
    pub async fn connect_members(
        self: &Arc<Self>,
        epoch: u64,
        members: &[Member],
    ) -> Result<(), ConnectError> {
        let peers = self.enter_epoch(epoch, members)?;
        for (link, addr) in &peers {
            for class in Class::ALL {
                if link.channels.read().out[class as usize].is_none() {
                    let task =
                        Arc::clone(self).make_channel(epoch, class, link.clone(), addr.clone());
                    self.env.spawn_task("connect", Lane::Serve, task);
                }
            }
        }
        let start = self.env.now();
        loop {
            if self.roster.read().epoch != epoch {
                return Err(ConnectError::Superseded);
            }
            let Some((missing, _)) = peers.iter().find(|(l, _)| !l.is_whole()) else {
                return Ok(());
            };
            let late = self.env.now().since(start) > self.config.connect.as_micros() as u64;
            if missing.is_broken() || late {
                return Err(ConnectError::Unreachable(missing.peer.instance));
            }
            self.env.sleep(RETRY / 3).await;
        }
    }

    /// Makes `members` the ones who may come in; returns the links to be whole.
    fn enter_epoch(
        &self,
        epoch: u64,
        members: &[Member],
    ) -> Result<Vec<(Arc<Link>, String)>, ConnectError> {
        let wanted: BTreeMap<InstanceNo, (Life, &str)> = members
            .iter()
            .filter(|m| m.instance != self.me.instance)
            .map(|m| {
                let life = Life { instance: m.instance, incarnation: m.incarnation };
                (m.instance, (life, m.addr.as_str()))
            })
            .collect();
        let mut gone = Vec::new();
        let mut roster = self.roster.write();
        if epoch <= roster.epoch {
            return Err(ConnectError::Superseded);
        }
        roster.epoch = epoch;
        roster.links.retain(|instance, link| {
            let stays = wanted.get(instance).is_some_and(|(life, _)| *life == link.peer);
            if !stays {
                link.closed.store(true, Ordering::Release);
            }
            let keep = stays && link.is_whole();
            if !keep {
                gone.push(Arc::clone(link));
            }
            keep
        });
        let mut peers = Vec::new();
        for (instance, (life, addr)) in wanted {
            let counters = Arc::clone(roster.counters.entry(instance).or_default());
            let link =
                roster.links.entry(instance).or_insert_with(|| Link::new(life, counters)).clone();
            peers.push((link, addr.to_owned()));
        }
        drop(roster);
        for link in gone {
            link.break_off();
        }
        Ok(peers)
    }

    /// Counters of every peer there has been.
    #[must_use]
    pub fn counters(&self) -> Vec<PeerCounters> {
        let get = |c: &AtomicU64| c.load(Ordering::Relaxed);
        let roster = self.roster.read();
        let peers = roster.counters.iter();
        peers
            .map(|(instance, c)| PeerCounters {
                instance: instance.0,
                sent_messages: get(&c.sent_messages),
                sent_bytes: get(&c.sent_bytes),
                received_messages: get(&c.received_messages),
                received_bytes: get(&c.received_bytes),
            })
            .collect()
    }

    fn on_broken(&self, link: &Arc<Link>) {
        if link.break_off() && !link.closed.load(Ordering::Acquire) {
            // Nobody listens only when the instance ends.
            let _ = self.broken.send(link.peer);
        }
    }

    /// The link still stands in the roster and is not broken.
    fn is_current(&self, link: &Arc<Link>) -> bool {
        self.link(link.peer.instance).is_some_and(|l| Arc::ptr_eq(&l, link)) && !link.is_broken()
    }

    /// Whether the interconnect of instance `to` answers at `addr` in this time. That something
    /// there accepts a connection proves nothing: it may be a proxy, or the backlog of who is
    /// stopped. Nor does one connection that breaks: what has broken the channels may still be at
    /// it, and a member's life hangs on the answer. So it is asked again until the time is over.
    pub async fn answers(&self, to: InstanceNo, addr: &str, within: Duration) -> bool {
        let asked = async {
            while !self.ask_once(to, addr).await {
                self.env.sleep(PROBE_RETRY).await;
            }
        };
        self.env.timeout(within, asked).await.is_ok()
    }

    async fn ask_once(&self, to: InstanceNo, addr: &str) -> bool {
        let Ok(mut conn) = self.env.connect(addr).await else { return false };
        let hello = Hello { asker: self.me, epoch: PROBE_EPOCH, class: Class::Epochs, to };
        let verdict = handshake::ask(&self.env, &mut conn, &self.secret, &hello).await;
        conn.sender.close();
        verdict.is_some()
    }

    /// Makes the outgoing channel of one class, trying again while the peer is not ready.
    async fn make_channel(
        self: Arc<Self>,
        epoch: u64,
        class: Class,
        link: Arc<Link>,
        addr: String,
    ) {
        let to = link.peer.instance;
        let hello = Hello { asker: self.me, epoch, class, to };
        let limit_us = self.config.connect.as_micros() as u64;
        let start = self.env.now();
        while self.is_current(&link) && self.env.now().since(start) < limit_us {
            if let Ok(mut conn) = self.env.connect(&addr).await {
                let verdict = handshake::ask(&self.env, &mut conn, &self.secret, &hello).await;
                if verdict == Some(Verdict::Accepted) {
                    return self.run_out(link, class, conn).await;
                }
                conn.sender.close();
                if verdict == Some(Verdict::Refused) {
                    // The peer's side of this link is older than ours, or it knows a later epoch.
                    return self.on_broken(&link);
                }
            }
            self.env.sleep(RETRY).await;
        }
    }

    /// Installs an outgoing channel and watches for its end; its peer sends nothing on it.
    async fn run_out(self: Arc<Self>, link: Arc<Link>, class: Class, mut conn: Connection) {
        let installed = {
            let mut channels = link.channels.write();
            let free = !link.is_broken() && channels.out[class as usize].is_none();
            if free {
                channels.out[class as usize] = Some(Arc::clone(&conn.sender));
            }
            free
        };
        if !installed {
            conn.sender.close();
            return;
        }
        if class == Class::Epochs {
            self.start_keeper(&link);
        }
        while conn.receiver.recv().await.is_some() {}
        self.on_broken(&link);
    }

    /// Sends empty frames and breaks the link when none arrive. Silence is counted in own rounds,
    /// so
    /// that a process that was stopped does not blame its peers.
    fn start_keeper(self: &Arc<Self>, link: &Arc<Link>) {
        let (this, link) = (Arc::clone(self), Arc::clone(link));
        let rounds_max =
            self.config.silence.as_micros().div_ceil(self.config.ping.as_micros().max(1));
        self.env.spawn_task("keeper", Lane::Serve, async move {
            let (mut seen, mut quiet) = (0, 0);
            while this.is_current(&link) {
                let sender = link.channels.read().out[Class::Epochs as usize].clone();
                let alive = sender.is_some_and(|s| s.send(Vec::new()).is_ok());
                this.env.sleep(this.config.ping).await;
                let arrivals = link.arrivals.load(Ordering::Relaxed);
                quiet = if arrivals == seen { quiet + 1 } else { 0 };
                seen = arrivals;
                if !alive || quiet >= rounds_max {
                    this.on_broken(&link);
                }
            }
        });
    }

    async fn accept_all(self: Arc<Self>, mut listener: Box<dyn Listener>) {
        loop {
            match listener.accept().await {
                Ok(conn) => {
                    let task = Arc::clone(&self).admit(conn);
                    self.env.spawn_task("admit", Lane::Serve, task);
                }
                // Out of descriptors, most likely: others may end.
                Err(_) => self.env.sleep(RETRY).await,
            }
        }
    }

    /// Answers one handshake and, if it is accepted, receives from that channel until it ends.
    async fn admit(self: Arc<Self>, mut conn: Connection) {
        let admitted = {
            let Ok(_permit) = self.handshakes.try_acquire() else {
                return conn.sender.close();
            };
            let hello = handshake::answer(&self.env, &mut conn, &self.secret).await;
            hello.map(|hello| (hello, self.judge(&hello, &conn)))
        };
        match admitted {
            Some((hello, Ok(link))) => {
                handshake::send_verdict(&conn, Verdict::Accepted);
                self.receive(link, hello.class, conn).await;
            }
            Some((hello, Err(verdict))) => {
                handshake::send_verdict(&conn, verdict);
                if verdict == Verdict::Refused && hello.epoch != PROBE_EPOCH {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                }
            }
            None => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                conn.sender.close();
            }
        }
    }

    /// Rule 4. On acceptance the channel is part of the link.
    fn judge(&self, hello: &Hello, conn: &Connection) -> Result<Arc<Link>, Verdict> {
        let roster = self.roster.read();
        let probe = hello.epoch == PROBE_EPOCH;
        if probe || hello.to != self.me.instance || hello.epoch < roster.epoch {
            return Err(Verdict::Refused);
        }
        if hello.epoch > roster.epoch {
            return Err(Verdict::Later);
        }
        let link = roster.links.get(&hello.asker.instance).ok_or(Verdict::Refused)?.clone();
        drop(roster);
        let mut channels = link.channels.write();
        // Looked at under the lock: a break takes out what is in by then, and nothing comes later.
        if link.peer != hello.asker || link.is_broken() {
            return Err(Verdict::Refused);
        }
        if channels.back[hello.class as usize].is_some() {
            // The peer has given up a channel that looks whole from here: the link is broken.
            drop(channels);
            self.on_broken(&link);
            return Err(Verdict::Refused);
        }
        channels.back[hello.class as usize] = Some(Arc::clone(&conn.sender));
        drop(channels);
        Ok(link)
    }

    async fn receive(&self, link: Arc<Link>, class: Class, conn: Connection) {
        let Connection { sender: _sender, mut receiver, same_machine } = conn;
        while let Some(payload) = receiver.recv().await {
            link.arrivals.fetch_add(1, Ordering::Relaxed);
            if payload.is_empty() {
                continue;
            }
            link.counters.received_messages.fetch_add(1, Ordering::Relaxed);
            link.counters.received_bytes.fetch_add(payload.len() as u64, Ordering::Relaxed);
            let Life { instance: from, incarnation } = link.peer;
            let (arrived, link) = (self.env.now(), Arc::clone(&link));
            let message =
                Incoming { from, incarnation, class, payload, arrived, same_machine, link };
            if self.inboxes[class as usize].send(message).await.is_err() {
                break;
            }
        }
        self.on_broken(&link);
    }
}
