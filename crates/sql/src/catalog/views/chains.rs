//! Who waits for whom, over all instances and to the end: `v$wait_chains`.
//!
//! What it promises: each session stands in one chain, behind the one that it waits for; a chain
//! that joins another ends with the first session that both have. What it must never do: walk in a
//! circle.

use super::int4;
use super::registry::{Make, SessionView, views};
use crate::Result;
use crate::catalog::rows::Shape::{Int4, Int8, Text};
use crate::catalog::rows::{NamedRow, Rows, text};
use crate::session::Session;
use kernel::row::Value;
use std::collections::{BTreeMap, BTreeSet};

views! {
    "v$wait_chains", Make::Session(SessionView::WaitChains), "Sessions that wait for others, and \
        those that they wait for, on all instances." {
        chain_id: Int4, "Number of the chain; its rows go from who waits to who is waited for.";
        chain_is_cycle: Text, "`TRUE`: each waits for the next, and the last for one before.";
        chain_signature: Text, "Events of the chain, from its end.";
        instance: Int4, "The instance of the session.";
        sid: Int4, "The session.";
        "sess_serial#": Int4, "Its `serial#`.";
        blocker_is_valid: Text, "`TRUE`: it waits for another session.";
        blocker_instance: Int4, "The instance of that one.";
        blocker_sid: Int4, "That one.";
        "blocker_sess_serial#": Int4, "Its `serial#`.";
        blocker_chain_id: Int4, "The chain in which that one stands, if it is another.";
        in_wait: Text, "`TRUE`: it waits now.";
        wait_event_text: Text, "What it waits for, or has waited for last.";
        in_wait_secs: Int8, "Seconds of the same.";
        num_waiters: Int4, "Sessions that wait for it directly.";
        "row_wait_obj#": Int8, "The object whose row it waits for.";
        "row_wait_file#": Int4, "File of that row.";
        "row_wait_block#": Int8, "Block of that row.";
        "row_wait_row#": Int4, "Number of that row in its block.";
    }
}

/// Instance and sid.
type Key = (i32, i32);

/// A session, as far as chains show it.
struct One {
    serial: Value,
    blocker: Option<Key>,
    waits: bool,
    event: String,
    seconds: Value,
    row: [Value; 4],
}

fn number(value: &Value) -> Option<i32> {
    match value {
        Value::Int4(number) => Some(*number),
        _ => None,
    }
}

impl One {
    fn of(row: &NamedRow<'_>) -> Option<(Key, One)> {
        let key =
            |instance: &str, sid: &str| Some((number(&row.get(instance))?, number(&row.get(sid))?));
        let one = One {
            serial: row.get("serial#"),
            blocker: key("blocking_instance", "blocking_session"),
            waits: row.text("state") == "WAITING",
            event: row.text("event").to_owned(),
            seconds: row.get("seconds_in_wait"),
            row: ["obj#", "file#", "block#", "row#"]
                .map(|part| row.get(&format!("row_wait_{part}"))),
        };
        Some((key("inst_id", "sid")?, one))
    }
}

/// A chain: its sessions from who waits on, and whether it goes round in a circle.
#[derive(Debug, PartialEq, Eq)]
struct Chain {
    sessions: Vec<Key>,
    cycle: bool,
}

/// The chains of who waits for whom.
fn chains(blockers: &BTreeMap<Key, Option<Key>>) -> Vec<Chain> {
    let waited_for: BTreeSet<Key> = blockers.values().flatten().copied().collect();
    // From those whom nobody waits for; what is left goes round in circles.
    let waiting = blockers.keys().copied().filter(|key| blockers[key].is_some());
    let (inner, outer): (Vec<Key>, Vec<Key>) = waiting.partition(|key| waited_for.contains(key));
    let mut listed = BTreeSet::new();
    let mut out = Vec::new();
    for first in outer.into_iter().chain(inner) {
        let (mut sessions, mut at) = (Vec::new(), Some(first));
        let mut cycle = false;
        while let Some(key) = at.filter(|key| blockers.contains_key(key)) {
            if !listed.insert(key) {
                cycle = sessions.contains(&key);
                break;
            }
            sessions.push(key);
            at = blockers[&key];
        }
        if !sessions.is_empty() {
            out.push(Chain { sessions, cycle });
        }
    }
    out
}

impl Session {
    pub(super) async fn wait_chains(&mut self, rows: &mut Rows) -> Result<()> {
        let all = self.rows_of_all("v$session").await?;
        let known: BTreeMap<Key, One> =
            all.iter().flat_map(Rows::named).filter_map(|row| One::of(&row)).collect();
        let blockers: BTreeMap<Key, Option<Key>> =
            known.iter().map(|(key, one)| (*key, one.blocker)).collect();
        let found = chains(&blockers);
        let chain_of: BTreeMap<Key, usize> = found
            .iter()
            .enumerate()
            .flat_map(|(at, chain)| chain.sessions.iter().map(move |key| (*key, at)))
            .collect();
        let flag = |set: bool| text(if set { "TRUE" } else { "FALSE" });
        for (at, chain) in found.iter().enumerate() {
            let events = chain.sessions.iter().rev();
            let events: Vec<String> = events.map(|key| format!("'{}'", known[key].event)).collect();
            let signature = events.join("<=");
            for key in &chain.sessions {
                let one = &known[key];
                let of_blocker = |value: fn(Key) -> i32| {
                    one.blocker.map_or(Value::Null, |blocker| Value::Int4(value(blocker)))
                };
                let blocker = one.blocker.and_then(|blocker| known.get(&blocker));
                let elsewhere = one.blocker.and_then(|blocker| chain_of.get(&blocker));
                let mut row = vec![
                    int4(at + 1),
                    flag(chain.cycle),
                    text(&*signature),
                    Value::Int4(key.0),
                    Value::Int4(key.1),
                    one.serial.clone(),
                    flag(one.blocker.is_some()),
                    of_blocker(|blocker| blocker.0),
                    of_blocker(|blocker| blocker.1),
                    blocker.map_or(Value::Null, |blocker| blocker.serial.clone()),
                    elsewhere.filter(|of| **of != at).map_or(Value::Null, |of| int4(of + 1)),
                    flag(one.waits),
                    text(&*one.event),
                    one.seconds.clone(),
                    int4(blockers.values().filter(|of| **of == Some(*key)).count()),
                ];
                row.extend(one.row.iter().cloned());
                rows.push(row);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(blockers: &[(i32, i32)]) -> Vec<(Vec<i32>, bool)> {
        let mut all: BTreeMap<Key, Option<Key>> = BTreeMap::new();
        for (waiter, blocker) in blockers {
            all.entry((1, *blocker)).or_default();
            all.insert((1, *waiter), Some((1, *blocker)));
        }
        let sids = |chain: Chain| {
            let sessions = chain.sessions.into_iter().map(|key| key.1).collect();
            (sessions, chain.cycle)
        };
        chains(&all).into_iter().map(sids).collect()
    }

    #[test]
    fn each_session_stands_in_one_chain() {
        assert_eq!(of(&[]), []);
        // 1 waits for 2, which waits for 3; 4 waits for 2 too.
        let expected = [(vec![1, 2, 3], false), (vec![4], false)];
        assert_eq!(of(&[(1, 2), (2, 3), (4, 2)]), expected);
        // Two that wait for each other, and one that waits for them.
        assert_eq!(of(&[(1, 2), (2, 1)]), [(vec![1, 2], true)]);
        assert_eq!(of(&[(1, 2), (2, 1), (3, 1)]), [(vec![3, 1, 2], true)]);
    }

    #[test]
    fn a_blocker_that_has_gone_ends_a_chain() {
        let all = BTreeMap::from([((1, 1), Some((2, 9)))]);
        assert_eq!(chains(&all), [Chain { sessions: vec![(1, 1)], cycle: false }]);
    }
}
