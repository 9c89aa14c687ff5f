//! The simulated arbiter: it never fails itself, but an instance may be cut off from it, and its
//! words travel as messages do; they may get lost, or be late.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::disk::outcome;
use super::world::{Shared, World};
use crate::BoxFuture;
use crate::arbiter::{Arbiter, Change, Entry, LeaseId, Put};

struct Value {
    bytes: Vec<u8>,
    revision: u64,
    lease: Option<LeaseId>,
}

struct Lease {
    ttl_us: u64,
    ends_us: u64,
}

#[derive(Default)]
pub(super) struct ArbiterState {
    revision: u64,
    keys: BTreeMap<String, Value>,
    leases: BTreeMap<LeaseId, Lease>,
    next_lease: u64,
    /// Instances that it cannot reach, nor they it.
    pub(super) cut_off: BTreeSet<u8>,
    /// How likely each way of a question is lost or late.
    pub(super) trouble: f64,
}

/// A word that is late takes up to this much longer.
const LATE_US: u64 = 400_000;

impl ArbiterState {
    /// Ends what nobody has renewed.
    fn expire(&mut self, now_us: u64) {
        let over = |l: &Lease| l.ends_us <= now_us;
        let ended: Vec<LeaseId> =
            self.leases.iter().filter(|(_, l)| over(l)).map(|(id, _)| *id).collect();
        ended.into_iter().for_each(|lease| self.end(lease));
    }

    fn end(&mut self, lease: LeaseId) {
        if self.leases.remove(&lease).is_some() {
            self.revision += 1;
            self.keys.retain(|_, v| v.lease != Some(lease));
        }
    }

    fn renew(&mut self, lease: LeaseId, now_us: u64) -> bool {
        let lease = self.leases.get_mut(&lease);
        lease.map(|l| l.ends_us = now_us + l.ttl_us).is_some()
    }

    fn change(&mut self, change: Change) -> bool {
        let as_given = |(key, revision): &(String, u64)| {
            self.keys.get(key).map_or(0, |v| v.revision) == *revision
        };
        let lives = |put: &Put| put.lease.is_none_or(|l| self.leases.contains_key(&l));
        if !change.given.iter().all(as_given) || !change.put.iter().all(lives) {
            return false;
        }
        self.revision += 1;
        for key in &change.delete {
            self.keys.remove(key);
        }
        for Put { key, value, lease } in change.put {
            let value = Value { bytes: value, revision: self.revision, lease };
            self.keys.insert(key, value);
        }
        true
    }
}

/// The arbiter as one process sees it.
pub(super) struct SimArbiter {
    pub(super) shared: Arc<Shared>,
    pub(super) pid: u32,
}

/// How long the next word travels; `None`: it gets lost.
fn travels_us(world: &mut World) -> Option<u64> {
    let delay = world.message_delay_us();
    let trouble = world.arbiter.trouble;
    if trouble > 0.0 && world.rng.chance(trouble) {
        return world.rng.chance(0.5).then(|| delay + world.rng.between((0, LATE_US)));
    }
    Some(delay)
}

impl SimArbiter {
    /// A question travels there, is answered at one moment, and its answer travels back.
    fn ask<T: Send + 'static>(
        &self,
        what: impl FnOnce(&mut ArbiterState, u64) -> T + Send + 'static,
    ) -> BoxFuture<'_, io::Result<T>> {
        let (done, answer) = oneshot::channel();
        let pid = self.pid;
        let reaches = move |world: &World| {
            let instance = world.instance_of(pid);
            !world.arbiter.cut_off.contains(&instance)
        };
        let mut world = self.shared.lock();
        // What is cut off or lost, either way, is never answered.
        let Some(delay) = travels_us(&mut world) else { return Box::pin(outcome(answer)) };
        world.after(delay, move |world| {
            if !reaches(world) {
                return;
            }
            let now_us = world.now;
            world.arbiter.expire(now_us);
            let result = what(&mut world.arbiter, now_us);
            let revision = world.arbiter.revision;
            world.note("arbiter", u64::from(pid), revision);
            let Some(delay) = travels_us(world) else { return };
            world.after(delay, move |world| {
                if reaches(world) && world.is_alive(pid) {
                    drop(done.send(Ok(result)));
                }
            });
        });
        drop(world);
        Box::pin(outcome(answer))
    }
}

impl Arbiter for SimArbiter {
    fn grant(&self, ttl: Duration) -> BoxFuture<'_, io::Result<LeaseId>> {
        let ttl_us = super::micros(ttl);
        self.ask(move |state, now_us| {
            state.next_lease += 1;
            let id = LeaseId(state.next_lease);
            state.leases.insert(id, Lease { ttl_us, ends_us: now_us + ttl_us });
            id
        })
    }

    fn renew(&self, lease: LeaseId) -> BoxFuture<'_, io::Result<bool>> {
        self.ask(move |state, now_us| state.renew(lease, now_us))
    }

    fn revoke(&self, lease: LeaseId) -> BoxFuture<'_, io::Result<()>> {
        self.ask(move |state, _| state.end(lease))
    }

    fn read(&self) -> BoxFuture<'_, io::Result<Vec<Entry>>> {
        self.ask(|state, _| {
            let entry = |(key, v): (&String, &Value)| Entry {
                key: key.clone(),
                value: v.bytes.clone(),
                revision: v.revision,
            };
            state.keys.iter().map(entry).collect()
        })
    }

    fn change(&self, change: Change) -> BoxFuture<'_, io::Result<bool>> {
        self.ask(move |state, _| state.change(change))
    }
}
