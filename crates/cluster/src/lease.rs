//! Membership by leases, for instances of several hosts: no lock of one host's kernel tells of the
//! life of a process on another.
//!
//! A life hangs on a lease that the arbiter ([`env::arbiter`]) keeps. Rules:
//!
//! 1. A lease counts from when its renewal was *sent*, less an eighth for clocks that run
//!    differently: its owner takes it for ended before anybody else can. From then on it gives no
//!    answers (the kernel asks at each snapshot) and ends itself.
//! 2. That it does so is not enough: it may stand still and wake much later. So its life is over
//!    only when the storage has been told to refuse what it reads and writes, by a key that it
//!    registered before it did either; whoever decides does that when the lease has ended, then
//!    notes it, and only then an epoch begins without it. What it may know after that is what it
//!    knew before.
//! 3. Who registers must find its lease alive after that: a process that stood still in between is
//!    one that nobody could fence.
//! 4. A decision is one change of the arbiter's: it takes place only if the record is still the one
//!    it was made upon, and the decider's own lease lasts.
//!
//! The disk group's own lock is one of a file: between hosts it takes a cluster's file system,
//! whose locks fall when their holder is fenced.
//!
//! Keys: `control`; `decider`, on the decider's lease; for each instance `slot/N`, `alive/N` (its
//! incarnation, on its lease) and `fenced/N` (the last incarnation that the storage refuses, or
//! that has left for good).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use block::{INSTANCES_MAX, InstanceNo};
use env::arbiter::{Arbiter, Change, Entry, LeaseId, Put};
use env::{BoxFuture, Env, Lane, Micros};
use parking_lot::Mutex;

use crate::Error;
use crate::machine::Life;
use crate::registry::{Ending, Registry};
use crate::voting::{Basis, Control, Slot, SlotState, VotingView, bit};

const CONTROL: &str = "control";
const DECIDER: &str = "decider";

/// Of a lease, this part is left to clocks that run differently.
const MARGIN: u32 = 8;
/// Renewals are due so many times in a lease.
const RENEWALS: u32 = 6;
/// A restart waits for what its predecessor has left, for so many leases.
const PATIENCE: u32 = 3;

fn slot_key(instance: InstanceNo) -> String {
    format!("slot/{}", instance.0)
}

fn alive_key(instance: InstanceNo) -> String {
    format!("alive/{}", instance.0)
}

fn fenced_key(instance: InstanceNo) -> String {
    format!("fenced/{}", instance.0)
}

/// How the storage knows a life.
fn writer_key(life: Life) -> u64 {
    life.incarnation << 8 | u64::from(life.instance.0)
}

fn put(key: String, value: Vec<u8>, lease: Option<LeaseId>) -> Put {
    Put { key, value, lease }
}

/// Until when this instance may give answers; [`Deadline::never`] where nothing but its process
/// ends its life.
#[derive(Clone, Debug)]
pub struct Deadline(Arc<AtomicU64>);

impl Deadline {
    #[must_use]
    pub fn never() -> Deadline {
        Deadline(Arc::new(AtomicU64::new(u64::MAX)))
    }

    fn set(&self, at: Micros) {
        self.0.store(at.0, Ordering::SeqCst);
    }

    fn get(&self) -> Micros {
        Micros(self.0.load(Ordering::SeqCst))
    }

    /// Whether it has passed. Looks at the clock only if there is a deadline.
    #[must_use]
    pub fn has_passed(&self, env: &Env) -> bool {
        let at = self.0.load(Ordering::SeqCst);
        at != u64::MAX && env.now().0 >= at
    }
}

/// All that the arbiter keeps of a cluster.
struct Keys(BTreeMap<String, Entry>);

impl Keys {
    fn of(entries: Vec<Entry>) -> Keys {
        Keys(entries.into_iter().map(|e| (e.key.clone(), e)).collect())
    }

    fn revision(&self, key: &str) -> u64 {
        self.0.get(key).map_or(0, |e| e.revision)
    }

    fn number(&self, key: &str) -> Option<u64> {
        let value = &self.0.get(key)?.value;
        Some(value.as_slice().try_into().map_or(0, u64::from_le_bytes))
    }

    fn slot(&self, instance: InstanceNo) -> Result<Slot, Error> {
        let Some(entry) = self.0.get(&slot_key(instance)) else { return Ok(Slot::default()) };
        Slot::decode(&entry.value).ok_or(Error::BadRecord("slot"))
    }

    fn fenced(&self, instance: InstanceNo) -> u64 {
        self.number(&fenced_key(instance)).unwrap_or(0)
    }

    fn basis(&self) -> Basis {
        Basis {
            control: self.revision(CONTROL),
            decider: self.revision(DECIDER),
            decides: self.number(DECIDER).unwrap_or(0),
        }
    }

    fn view(&self) -> Result<VotingView, Error> {
        let control = match self.0.get(CONTROL) {
            Some(entry) => Control::decode(&entry.value).ok_or(Error::BadRecord(CONTROL))?,
            None => Control::default(),
        };
        let mut view = VotingView { control, basis: self.basis(), ..VotingView::default() };
        for instance in (1..=INSTANCES_MAX).map(InstanceNo) {
            let slot = self.slot(instance)?;
            let incarnation = slot.incarnation;
            if self.0.contains_key(&alive_key(instance)) {
                view.locked |= bit(instance);
            } else if incarnation > self.fenced(instance) {
                view.locked |= bit(instance);
                view.expired |= bit(instance);
            }
            view.slots.push(Some(slot));
        }
        Ok(view)
    }
}

fn io_error(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |e| Error::io(what, e)
}

/// Reads the arbiter once.
///
/// # Errors
/// There is none, or it fails.
pub async fn read(env: &Env) -> Result<VotingView, Error> {
    let arbiter = env.arbiter().map_err(io_error("find the arbiter"))?;
    let entries = arbiter.read().await.map_err(io_error("read from the arbiter"))?;
    Keys::of(entries).view()
}

/// The arbiter with a limit on each call, so that what gets lost is asked again while the lease
/// lasts. Whether a change that was not answered has taken place, the next look tells.
#[derive(Clone)]
struct Asked {
    env: Env,
    arbiter: Arc<dyn Arbiter>,
    limit: Duration,
}

impl Asked {
    async fn within<T>(
        &self,
        what: &'static str,
        call: impl Future<Output = io::Result<T>>,
    ) -> Result<T, Error> {
        let answer = self.env.timeout(self.limit, call).await;
        let answer = answer.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        answer.map_err(|e| Error::io(what, e))
    }

    async fn keys(&self) -> Result<Keys, Error> {
        self.within("read from the arbiter", self.arbiter.read()).await.map(Keys::of)
    }

    async fn change(&self, change: Change, what: &'static str) -> Result<bool, Error> {
        self.within(what, self.arbiter.change(change)).await
    }

    async fn revoke(&self, lease: LeaseId) -> Result<(), Error> {
        self.within("give a lease back", self.arbiter.revoke(lease)).await
    }
}

/// Has the storage refuse what a life writes, and notes that.
async fn fence(arbiter: &Asked, keys: &Keys, life: Life) -> Result<bool, Error> {
    let fenced = arbiter.env.fence(writer_key(life));
    fenced.await.map_err(io_error("fence an instance"))?;
    let key = fenced_key(life.instance);
    let change = Change {
        // Not over the note of a later one.
        given: vec![(key.clone(), keys.revision(&key))],
        put: vec![put(key, life.incarnation.to_le_bytes().to_vec(), None)],
        delete: Vec::new(),
    };
    arbiter.change(change, "note that an instance is fenced").await
}

/// A life on a lease.
pub(crate) struct LeaseRegistry {
    env: Env,
    arbiter: Asked,
    me: Life,
    ttl: Duration,
    lease: LeaseId,
    /// Of the own `alive` key, which is never changed while it is there.
    alive_revision: u64,
    deadline: Deadline,
    renewed: Mutex<Micros>,
    /// Lives that a task is fencing.
    fencing: Arc<Mutex<BTreeSet<Life>>>,
}

impl LeaseRegistry {
    /// Begins a life of instance `me`, when that of its predecessor is over.
    pub async fn claim(
        env: &Env,
        me: InstanceNo,
        ttl: Duration,
    ) -> Result<(LeaseRegistry, Slot), Error> {
        if me.0 == 0 || me.0 > INSTANCES_MAX {
            return Err(Error::NoSuchInstance(me));
        }
        let arbiter = env.arbiter().map_err(io_error("find the arbiter"))?;
        let arbiter = Asked { env: env.clone(), arbiter, limit: ttl / RENEWALS };
        let began = env.now();
        let patience_us = u64::try_from((ttl * PATIENCE).as_micros()).unwrap_or(u64::MAX);
        loop {
            let error = match Self::try_claim(&arbiter, me, ttl).await {
                Ok(Some(claimed)) => return Ok(claimed),
                Ok(None) => continue,
                // The storage, or the arbiter, is none.
                Err(Error::Io { what, source }) if source.kind() == io::ErrorKind::Unsupported => {
                    return Err(Error::Io { what, source });
                }
                Err(e) => e,
            };
            // A predecessor's lease ends, and what got lost is asked again.
            if env.now().since(began) > patience_us {
                return Err(error);
            }
            env.sleep(ttl / RENEWALS).await;
        }
    }

    /// `None`: one step further, to be tried again at once.
    async fn try_claim(
        arbiter: &Asked,
        me: InstanceNo,
        ttl: Duration,
    ) -> Result<Option<(LeaseRegistry, Slot)>, Error> {
        let keys = arbiter.keys().await?;
        let last = keys.slot(me)?;
        if keys.0.contains_key(&alive_key(me)) {
            return Err(Error::AlreadyRunning { instance: me, pid: last.pid });
        }
        if last.incarnation > keys.fenced(me) {
            let predecessor = Life { instance: me, incarnation: last.incarnation };
            fence(arbiter, &keys, predecessor).await?;
            return Ok(None);
        }
        let incarnation = last.incarnation.max(keys.fenced(me)) + 1;
        let life = Life { instance: me, incarnation };
        Self::begin(&arbiter.env, arbiter.clone(), &keys, life, ttl).await
    }

    /// `None`: another process was quicker, or this one too slow.
    async fn begin(
        env: &Env,
        arbiter: Asked,
        keys: &Keys,
        me: Life,
        ttl: Duration,
    ) -> Result<Option<(LeaseRegistry, Slot)>, Error> {
        let renewed = env.now();
        let lease = arbiter.within("get a lease", arbiter.arbiter.grant(ttl)).await?;
        let slot = Slot {
            incarnation: me.incarnation,
            state: SlotState::Joining,
            pid: env.pid(),
            pid_start: env.process_start_time(env.pid()).unwrap_or(0),
            ..Slot::default()
        };
        let (alive, own) = (alive_key(me.instance), slot_key(me.instance));
        let change = Change {
            given: vec![(alive.clone(), 0), (own.clone(), keys.revision(&own))],
            put: vec![
                put(alive.clone(), me.incarnation.to_le_bytes().to_vec(), Some(lease)),
                put(own, slot.encode(), None),
            ],
            delete: Vec::new(),
        };
        if !arbiter.change(change, "take the slot").await? {
            arbiter.revoke(lease).await?;
            return Ok(None);
        }
        env.register(writer_key(me)).await.map_err(io_error("register with the storage"))?;
        let alive_revision = arbiter.keys().await?.revision(&alive);
        let registry = LeaseRegistry {
            env: env.clone(),
            arbiter,
            me,
            ttl,
            lease,
            alive_revision,
            deadline: Deadline(Arc::default()),
            renewed: Mutex::new(renewed),
            fencing: Arc::default(),
        };
        // Rule 3. The key is looked at before: it may be that of another life only if this lease
        // has ended.
        match registry.renew_now().await {
            Ok(()) => Ok(Some((registry, slot))),
            Err(Error::LeaseEnded) => Ok(None),
            Err(e) => Err(e),
        }
    }

    pub fn own_deadline(&self) -> Deadline {
        self.deadline.clone()
    }

    async fn renew_now(&self) -> Result<(), Error> {
        let sent = self.env.now();
        let renewal = self.arbiter.arbiter.renew(self.lease);
        if !self.arbiter.within("renew the lease", renewal).await? {
            return Err(Error::LeaseEnded);
        }
        let lasts_us = (self.ttl - self.ttl / MARGIN).as_micros();
        let lasts_us = u64::try_from(lasts_us).unwrap_or(u64::MAX / 2);
        *self.renewed.lock() = sent;
        self.deadline.set(Micros(sent.0 + lasts_us));
        Ok(())
    }

    async fn change(&self, mut change: Change, what: &'static str) -> Result<bool, Error> {
        // Nothing is done by one whose lease has ended, whatever it believes.
        change.given.push((alive_key(self.me.instance), self.alive_revision));
        self.arbiter.change(change, what).await
    }

    async fn look(&self) -> Result<VotingView, Error> {
        let keys = self.arbiter.keys().await?;
        if keys.revision(&alive_key(self.me.instance)) != self.alive_revision {
            return Err(Error::LeaseEnded);
        }
        keys.view()
    }

    async fn put_slot(&self, slot: &Slot) -> Result<(), Error> {
        let put = vec![put(slot_key(self.me.instance), slot.encode(), None)];
        match self.change(Change { put, ..Change::default() }, "write a heartbeat").await? {
            true => Ok(()),
            false => Err(Error::LeaseEnded),
        }
    }

    /// Lets another decide, if this instance does.
    async fn give_way(&self) -> Result<(), Error> {
        let basis = self.arbiter.keys().await?.basis();
        if basis.decides == writer_key(self.me) {
            let given = vec![(DECIDER.to_owned(), basis.decider)];
            let change = Change { given, delete: vec![DECIDER.to_owned()], ..Change::default() };
            self.change(change, "let another decide").await?;
        }
        Ok(())
    }
}

/// Fences a life whose lease has ended.
async fn fence_expired(arbiter: &Asked, life: Life) -> Result<(), Error> {
    let keys = arbiter.keys().await?;
    let lasts = keys.0.contains_key(&alive_key(life.instance));
    if !lasts && keys.fenced(life.instance) < life.incarnation {
        fence(arbiter, &keys, life).await?;
    }
    Ok(())
}

impl Registry for LeaseRegistry {
    fn renew(&self) -> BoxFuture<'_, Result<(), Error>> {
        env::boxed!(async {
            let since_us = u128::from(self.env.now().since(*self.renewed.lock()));
            match since_us >= (self.ttl / RENEWALS).as_micros() {
                true => self.renew_now().await,
                false => Ok(()),
            }
        })
    }

    fn deadline(&self) -> Option<Micros> {
        Some(self.deadline.get())
    }

    fn view(&self) -> BoxFuture<'_, Result<VotingView, Error>> {
        env::boxed!(self.look())
    }

    fn write_slot<'a>(&'a self, slot: &'a Slot) -> BoxFuture<'a, Result<(), Error>> {
        env::boxed!(self.put_slot(slot))
    }

    fn is_deciding(&self, view: &VotingView) -> bool {
        view.basis.decides == writer_key(self.me)
    }

    fn begin_deciding(&self) -> BoxFuture<'_, Result<bool, Error>> {
        env::boxed!(async {
            let value = writer_key(self.me).to_le_bytes().to_vec();
            let change = Change {
                given: vec![(DECIDER.to_owned(), 0)],
                put: vec![put(DECIDER.to_owned(), value, Some(self.lease))],
                delete: Vec::new(),
            };
            // The next view shows it.
            self.change(change, "become the decider").await
        })
    }

    fn end_deciding(&self) -> BoxFuture<'_, ()> {
        // If that fails it is tried again: the next view shows it as deciding.
        env::boxed!(async { drop(self.give_way().await) })
    }

    fn write_control<'a>(
        &'a self,
        control: &'a Control,
        seen: &'a VotingView,
    ) -> BoxFuture<'a, Result<(), Error>> {
        let given = vec![
            (CONTROL.to_owned(), seen.basis.control),
            (DECIDER.to_owned(), seen.basis.decider),
        ];
        let put = vec![put(CONTROL.to_owned(), control.encode(), None)];
        env::boxed!(async move {
            let change = Change { given, put, delete: Vec::new() };
            match self.change(change, "write the epoch").await? {
                true => Ok(()),
                // Decided upon what has changed: to be looked at anew.
                false => Err(Error::Overtaken),
            }
        })
    }

    /// In a task of its own: it may take long, and the own lease is to be renewed meanwhile.
    fn end(&self, life: Life, _: (u32, u64)) -> Ending {
        if self.fencing.lock().insert(life) {
            let (arbiter, fencing) = (self.arbiter.clone(), Arc::clone(&self.fencing));
            let limit = self.ttl * PATIENCE;
            self.env.spawn_task("fence", Lane::Background, async move {
                // What has failed is tried again as long as the life is to be put out.
                let _ = arbiter.env.timeout(limit, fence_expired(&arbiter, life)).await;
                fencing.lock().remove(&life);
            });
        }
        Ending::UnderWay
    }

    fn leave<'a>(&'a self, slot: &'a Slot) -> BoxFuture<'a, Result<(), Error>> {
        // No answers from here on.
        self.deadline.set(Micros(0));
        env::boxed!(async move {
            // It writes no more, and nobody need fence it: with its slot it says that itself, so
            // that the others need not wait for its lease to end.
            let own = self.me.incarnation.to_le_bytes().to_vec();
            let slot = put(slot_key(self.me.instance), slot.encode(), None);
            let fenced = put(fenced_key(self.me.instance), own, None);
            let change = Change { put: vec![slot, fenced], ..Change::default() };
            if !self.change(change, "leave").await? {
                return Err(Error::LeaseEnded);
            }
            self.arbiter.revoke(self.lease).await
        })
    }
}
