//! Which sessions stand in the way of those that wait for a lock here, on whatever instance they
//! are.
//!
//! What it promises: what the search for deadlocks would find, at the moment it is asked; an
//! instance that does not answer is waited for once, and not long. What it must never do: take part
//! in the protocol: it only reads.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use block::{InstanceNo, Xid};
use global::ges::WaitGraph;
use global::msg::{Waiter, decode_waiters, encode_waiters};
use observe::Blocking;

use super::super::calls::CallKind;
use super::super::node::Node;
use super::search::{Graph, number_of_name};

/// How long an instance may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_millis(500);
/// Sessions that wait for one another in a row, as far as they are followed.
const CHAIN_MAX: usize = 32;

/// Who stands in a session's way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockedBy {
    pub next: Blocking,
    /// At the end of the chain: who would have to go on.
    pub last: Blocking,
}

/// What an instance knows of one of its vertices.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct Told {
    /// Sid and serial number of the session that it is.
    session: Option<(u32, u32)>,
    on: Vec<Waiter>,
}

impl Told {
    fn encode(&self) -> Vec<u8> {
        let (sid, serial) = self.session.unwrap_or_default();
        let mut out = vec![u8::from(self.session.is_some())];
        out.extend_from_slice(&sid.to_le_bytes());
        out.extend_from_slice(&serial.to_le_bytes());
        out.extend_from_slice(&encode_waiters(&self.on));
        out
    }

    fn decode(bytes: &[u8]) -> Option<Told> {
        let (tag, rest) = bytes.split_first()?;
        let (sid, rest) = rest.split_first_chunk::<4>()?;
        let (serial, rest) = rest.split_first_chunk::<4>()?;
        let session = (u32::from_le_bytes(*sid), u32::from_le_bytes(*serial));
        let on = decode_waiters(rest).ok()?;
        Some(Told { session: (*tag == 1).then_some(session), on })
    }
}

impl Node {
    /// The session of this instance that works under this name.
    fn session_of(&self, xid: Xid) -> Option<(u32, u32)> {
        let number = number_of_name(xid);
        let states = self.observer.session_states();
        let found = states.iter().find(|state| {
            let (transaction, own, lock) = state.own_numbers();
            match number {
                Some(number) => number == transaction || number == lock,
                None => own == xid.to_u64(),
            }
        });
        found.map(|state| (state.sid(), state.serial()))
    }

    fn told_of(&self, who: &Waiter) -> Told {
        let session = match *who {
            Waiter::Owner { xid, .. } => self.session_of(xid),
            _ => None,
        };
        let on = Graph(self).wait_of(who).map(|wait| wait.on).unwrap_or_default();
        Told { session, on }
    }

    /// Answers another instance that follows a chain.
    pub(in super::super) fn answer_waits(&self, body: &[u8]) -> Option<Vec<u8>> {
        let asked = decode_waiters(body).ok()?;
        Some(self.told_of(asked.first()?).encode())
    }

    /// Who stands in the way of each session of this instance that waits for a lock, by its sid.
    pub async fn blockers(&self) -> BTreeMap<u32, BlockedBy> {
        let mut walk = Walk { node: self, known: BTreeMap::new(), silent: BTreeSet::new() };
        let mut out = BTreeMap::new();
        if self.core.waits.is_empty() {
            return out;
        }
        for state in self.observer.session_states() {
            let (transaction, ..) = state.own_numbers();
            if transaction == 0 || self.core.waits.wait_of(transaction).is_none() {
                continue;
            }
            let start = self.owner_of_number(transaction);
            out.insert(state.sid(), walk.blocked_by(start).await);
        }
        out
    }
}

/// One round of questions; what has been told is not asked again.
struct Walk<'a> {
    node: &'a Node,
    known: BTreeMap<Waiter, Told>,
    silent: BTreeSet<InstanceNo>,
}

impl Walk<'_> {
    /// `None`: its instance does not answer.
    async fn told(&mut self, who: Waiter) -> Option<Told> {
        if let Some(known) = self.known.get(&who) {
            return Some(known.clone());
        }
        let (node, home) = (self.node, who.home());
        let told = if home == node.me {
            node.told_of(&who)
        } else {
            if self.silent.contains(&home) || !node.view().members.contains(&home) {
                return None;
            }
            let body = encode_waiters(&[who]);
            let asked = node.call_peer(home, CallKind::Waits, &body);
            let answer = node.env.timeout(ANSWER_LIMIT, asked).await.ok().flatten();
            let told = answer.and_then(|bytes| Told::decode(&bytes));
            let Some(told) = told else {
                self.silent.insert(home);
                return None;
            };
            told
        };
        self.known.insert(who, told.clone());
        Some(told)
    }

    /// The first session that `start` waits for, and the name it is known by.
    async fn next(&mut self, start: Waiter) -> (Blocking, Option<Waiter>) {
        let mut unknown = None;
        let mut left = match self.told(start).await {
            Some(told) => told.on,
            None => return (Blocking::Unknown(Some(start.home().0)), None),
        };
        left.reverse();
        let mut seen = BTreeSet::from([start]);
        while let Some(who) = left.pop() {
            if !seen.insert(who) {
                continue;
            }
            let Some(told) = self.told(who).await else {
                unknown = Some(who.home().0);
                continue;
            };
            match (who, told.session) {
                (Waiter::Owner { home, .. }, Some((sid, serial))) => {
                    return (Blocking::By { sid, serial, instance: home.0 }, Some(who));
                }
                (Waiter::Owner { .. }, None) => {}
                _ => left.extend(told.on.into_iter().rev()),
            }
        }
        let found = match unknown {
            Some(instance) => Blocking::Unknown(Some(instance)),
            None => Blocking::NoHolder,
        };
        (found, None)
    }

    async fn blocked_by(&mut self, start: Waiter) -> BlockedBy {
        let (next, mut at) = self.next(start).await;
        let mut last = next;
        let mut seen = BTreeSet::from([start]);
        while let Some(who) = at.take().filter(|who| seen.insert(*who))
            && seen.len() <= CHAIN_MAX
        {
            match self.next(who).await {
                (further @ Blocking::By { .. }, name) => (last, at) = (further, name),
                // It waits for nobody.
                _ => break,
            }
        }
        BlockedBy { next, last }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_travels_whole() {
        let xid = Xid { usn: 3, slot: 7, seq: 9 };
        let on = vec![Waiter::Owner { home: InstanceNo(2), xid }];
        for told in [Told { session: Some((100_003, 8)), on }, Told::default()] {
            let bytes = told.encode();
            assert_eq!(Told::decode(&bytes), Some(told));
            assert_eq!(Told::decode(&bytes[..bytes.len() - 1]), None);
        }
    }
}
