//! Lists that transactions append to and read: which anomalies does the history prove?
//!
//! `adya` infers the dependencies between transactions (Adya's ww, wr and rw edges) and the real
//! time between them, and looks for the cycles that a level forbids. What it does not ask of READ
//! COMMITTED is looked for here: that a statement sees whatever was acknowledged before its
//! transaction began. What it must never do: pass a history that `adya` could not judge.

use std::collections::BTreeMap;
use std::time::Duration;

use adya::{History, Opts, Valid, Workload, check as search};
use serde_json::{Value, json};

use crate::history::{Operation, Outcome};

/// So long the search for cycles may take: a history that could not be judged has failed, and the
/// processor may be busy with other things.
const SEARCH_MAX: Duration = Duration::from_mins(2);

/// What a history must live up to, in the words of `adya`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    StrongSnapshotIsolation,
    StrongReadCommitted,
}

impl Level {
    fn model(self) -> &'static str {
        match self {
            Level::StrongSnapshotIsolation => "strong-snapshot-isolation",
            Level::StrongReadCommitted => "strong-read-committed",
        }
    }
}

/// Checks a history whose values are lists of `["append", key, element]` and `["r", key, [..]]`.
///
/// # Errors
/// What is wrong, with the operations that prove it.
pub fn check(operations: &[Operation], level: Level) -> Result<(), String> {
    let text = events(operations);
    let history = History::from_json(&text).map_err(|e| format!("not a history: {e}"))?;
    let models = vec![level.model().to_owned()];
    let opts = Opts { models, timeout: SEARCH_MAX, ..Opts::default() };
    let report = search(&history, Workload::ListAppend, &opts);
    if report.valid != Valid::True {
        let proofs: Vec<&str> =
            report.anomalies.values().flatten().map(|a| a.explanation.as_str()).collect();
        let kinds = report.anomaly_types.join(", ");
        return Err(format!("not {}: {kinds}\n{}", level.model(), proofs.join("\n")));
    }
    recency(operations)
}

/// The beginnings and ends, in their order; of those at one instant beginnings come first, so that
/// nothing is taken for earlier that may have been at the same time.
fn events(operations: &[Operation]) -> String {
    let mut events = Vec::with_capacity(2 * operations.len());
    for o in operations {
        let kind = match o.outcome {
            Outcome::Done => "ok",
            Outcome::Failed => "fail",
            Outcome::Unknown => "info",
        };
        // What was read is known at the end only.
        let asked = match o.value.as_array() {
            Some(parts) => parts.iter().map(without_answer).collect(),
            None => Value::Null,
        };
        let told = if o.outcome == Outcome::Done { &o.value } else { &asked };
        let process = o.process;
        let event = |kind: &str, at: u64, value: &Value| {
            let event = json!({"type": kind, "process": process, "time": at, "value": value});
            (at, usize::from(kind != "invoke"), event)
        };
        events.push(event("invoke", o.begin_ns, &asked));
        events.push(event(kind, o.end_ns, told));
    }
    events.sort_by_key(|(at, end, _)| (*at, *end));
    let mut text = String::new();
    for (index, (_, _, mut event)) in events.into_iter().enumerate() {
        event["index"] = json!(index);
        text.push_str(&event.to_string());
        text.push('\n');
    }
    text
}

fn without_answer(part: &Value) -> Value {
    if part.get(0) == Some(&json!("r")) { json!(["r", part.get(1), null]) } else { part.clone() }
}

/// Every read has what was acknowledged before its transaction began.
fn recency(operations: &[Operation]) -> Result<(), String> {
    let mut acknowledged: BTreeMap<i64, Vec<(u64, i64)>> = BTreeMap::new();
    let done = || operations.iter().filter(|o| o.outcome == Outcome::Done);
    let parts = |o: &Operation| o.value.as_array().cloned().unwrap_or_default();
    for o in done() {
        for part in parts(o) {
            if let ("append", Some(key), Some(element)) = split(&part) {
                acknowledged.entry(key).or_default().push((o.end_ns, element));
            }
        }
    }
    for o in done() {
        for part in parts(o) {
            let ("r", Some(key), _) = split(&part) else { continue };
            let list: Vec<i64> = part
                .get(2)
                .and_then(Value::as_array)
                .map_or_else(Vec::new, |l| l.iter().filter_map(Value::as_i64).collect());
            for (end_ns, element) in acknowledged.get(&key).into_iter().flatten() {
                if *end_ns < o.begin_ns && !list.contains(element) {
                    return Err(format!(
                        "stale read: {element} was acknowledged in list {key} at {end_ns} ns, and \
                         is missing in {o:?}"
                    ));
                }
            }
        }
    }
    Ok(())
}

fn split(part: &Value) -> (&str, Option<i64>, Option<i64>) {
    let number = |at: usize| part.get(at).and_then(Value::as_i64);
    (part.get(0).and_then(Value::as_str).unwrap_or_default(), number(1), number(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SI: Level = Level::StrongSnapshotIsolation;
    const RC: Level = Level::StrongReadCommitted;

    /// Transactions as (begin, end, outcome, value), each of a process of its own.
    fn history(all: &[(u64, u64, Outcome, Value)]) -> Vec<Operation> {
        let operation = |(n, (begin_ns, end_ns, outcome, value)): (u64, &(_, _, _, Value))| {
            let value = value.clone();
            Operation { process: n, begin_ns: *begin_ns, end_ns: *end_ns, outcome: *outcome, value }
        };
        (0..).zip(all).map(operation).collect()
    }

    const DONE: Outcome = Outcome::Done;

    #[test]
    fn what_snapshots_allow_passes() {
        // Write skew, an unknown outcome that is seen, one that is not, and a failure.
        let fine = history(&[
            (0, 10, DONE, json!([["r", 1, []], ["append", 2, 1]])),
            (1, 11, DONE, json!([["r", 2, []], ["append", 1, 1]])),
            (12, 13, Outcome::Unknown, json!([["append", 1, 2]])),
            (12, 13, Outcome::Unknown, json!([["append", 1, 3]])),
            (12, 13, Outcome::Failed, json!([["append", 1, 4]])),
            (20, 21, DONE, json!([["r", 1, [1, 3]], ["r", 2, [1]]])),
        ]);
        for level in [SI, RC] {
            assert_eq!(check(&fine, level), Ok(()), "{level:?}");
        }
        // A later statement may see more at READ COMMITTED.
        let fuzzy = history(&[
            (0, 10, DONE, json!([["r", 1, []], ["r", 1, [1]]])),
            (1, 5, DONE, json!([["append", 1, 1]])),
        ]);
        assert_eq!(check(&fuzzy, RC), Ok(()));
        assert!(check(&fuzzy, SI).is_err());
    }

    /// Each is what a broken cluster would show; no level may pass it.
    #[test]
    fn what_no_level_allows_is_refused() {
        let bad = [
            (
                "lost acknowledgement",
                vec![
                    (0, 1, DONE, json!([["append", 1, 1]])),
                    (2, 3, DONE, json!([["append", 1, 2]])),
                    (4, 5, DONE, json!([["r", 1, [2]]])),
                ],
            ),
            (
                "stale read",
                vec![
                    (0, 1, DONE, json!([["append", 1, 1]])),
                    (2, 3, DONE, json!([["r", 1, []]])),
                    (4, 5, DONE, json!([["r", 1, [1]]])),
                ],
            ),
            (
                "aborted read",
                vec![
                    (0, 1, Outcome::Failed, json!([["append", 1, 1]])),
                    (2, 3, DONE, json!([["r", 1, [1]]])),
                ],
            ),
            (
                "intermediate read",
                vec![
                    (0, 9, DONE, json!([["append", 1, 1], ["append", 1, 2]])),
                    (1, 8, DONE, json!([["r", 1, [1]]])),
                    (10, 11, DONE, json!([["r", 1, [1, 2]]])),
                ],
            ),
            (
                "dirty write",
                vec![
                    (0, 9, DONE, json!([["append", 1, 1], ["append", 2, 1]])),
                    (0, 9, DONE, json!([["append", 1, 2], ["append", 2, 2]])),
                    (10, 11, DONE, json!([["r", 1, [1, 2]], ["r", 2, [2, 1]]])),
                ],
            ),
            (
                "circular information flow",
                vec![
                    (0, 9, DONE, json!([["append", 1, 1], ["r", 2, [1]]])),
                    (0, 9, DONE, json!([["append", 2, 1], ["r", 1, [1]]])),
                ],
            ),
            (
                "incompatible orders",
                vec![
                    (0, 1, DONE, json!([["append", 1, 1]])),
                    (0, 1, DONE, json!([["append", 1, 2]])),
                    (2, 3, DONE, json!([["r", 1, [1, 2]]])),
                    (2, 3, DONE, json!([["r", 1, [2, 1]]])),
                ],
            ),
            (
                "doubled",
                vec![
                    (0, 1, DONE, json!([["append", 1, 1]])),
                    (2, 3, DONE, json!([["r", 1, [1, 1]]])),
                ],
            ),
        ];
        for (name, transactions) in bad {
            for level in [SI, RC] {
                assert!(check(&history(&transactions), level).is_err(), "{name} at {level:?}");
            }
        }
    }

    #[test]
    fn what_one_snapshot_cannot_show_is_refused_of_repeatable_read() {
        let bad = [
            (
                "read skew",
                vec![
                    (0, 9, DONE, json!([["r", 1, []], ["r", 2, [1]]])),
                    (1, 5, DONE, json!([["append", 1, 1], ["append", 2, 1]])),
                    (10, 11, DONE, json!([["r", 1, [1]]])),
                ],
            ),
            (
                "lost update",
                vec![
                    (0, 9, DONE, json!([["r", 1, []], ["append", 1, 1]])),
                    (0, 9, DONE, json!([["r", 1, []], ["append", 1, 2]])),
                    (10, 11, DONE, json!([["r", 1, [1, 2]]])),
                ],
            ),
            (
                "long fork",
                vec![
                    (0, 9, DONE, json!([["append", 1, 1]])),
                    (0, 9, DONE, json!([["append", 2, 1]])),
                    (1, 8, DONE, json!([["r", 1, [1]], ["r", 2, []]])),
                    (1, 8, DONE, json!([["r", 1, []], ["r", 2, [1]]])),
                ],
            ),
        ];
        for (name, transactions) in bad {
            assert!(check(&history(&transactions), SI).is_err(), "{name}");
        }
    }
}
