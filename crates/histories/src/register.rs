//! Registers: is there one order of all operations, each within its time, that explains what every
//! client was told? (Wing and Gong's search, with the visited states remembered, as Lowe has it.)
//!
//! What it promises: `Ok` only if there is such an order. What it must never do: give up silently;
//! a search that becomes too long is an error.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashSet;
use serde_json::Value;

use crate::history::{Operation, Outcome};

/// States looked at before a register's history counts as too hard.
const STATES_MAX: usize = 5_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Read(Option<i64>),
    Write(i64),
    /// The new value is put in place of the old one, or the old one was not there.
    Replace {
        old: i64,
        new: i64,
        done: bool,
    },
}

#[derive(Clone, Copy, Debug)]
struct Step {
    begin_ns: u64,
    /// `None`: at any time after the beginning, or never.
    end_ns: Option<u64>,
    act: Act,
}

impl Act {
    /// The register afterwards, if this can be what happened to it.
    fn apply(self, held: Option<i64>) -> Option<Option<i64>> {
        match self {
            Act::Read(seen) => (seen == held).then_some(held),
            Act::Write(value) => Some(Some(value)),
            Act::Replace { old, new, done: true } => (held == Some(old)).then_some(Some(new)),
            Act::Replace { old, done: false, .. } => (held != Some(old)).then_some(held),
        }
    }

    /// The value that it may have brought.
    fn brings(self) -> Option<i64> {
        match self {
            Act::Write(value) => Some(value),
            Act::Replace { new, done: true, .. } => Some(new),
            _ => None,
        }
    }

    /// The value that it certainly met.
    fn met(self) -> Option<i64> {
        match self {
            Act::Read(seen) => seen,
            Act::Replace { old, done: true, .. } => Some(old),
            _ => None,
        }
    }
}

/// `["r", key, value or null]`, `["w", key, value]`, `["cas", key, old, new, done]`.
fn parse(operation: &Operation) -> Option<(i64, Act)> {
    let parts = operation.value.as_array()?;
    let number = |at: usize| parts.get(at).and_then(Value::as_i64);
    let act = match parts.first()?.as_str()? {
        "r" => Act::Read(number(2)),
        "w" => Act::Write(number(2)?),
        // One without an answer matters only if it has replaced the value.
        "cas" => {
            let done = operation.outcome == Outcome::Unknown || parts.get(4)?.as_bool()?;
            Act::Replace { old: number(2)?, new: number(3)?, done }
        }
        _ => return None,
    };
    Some((number(1)?, act))
}

/// Checks all registers of a history; the number of registers.
///
/// # Errors
/// Which register has no such order, and its operations; or a register whose search is too long.
pub fn check(operations: &[Operation]) -> Result<usize, String> {
    let mut registers: BTreeMap<i64, Vec<Step>> = BTreeMap::new();
    for operation in operations.iter().filter(|o| o.outcome != Outcome::Failed) {
        let unreadable = || format!("not an operation on a register: {operation:?}");
        let (key, act) = parse(operation).ok_or_else(unreadable)?;
        let known = operation.outcome == Outcome::Done;
        // A read without an answer says nothing.
        if known || !matches!(act, Act::Read(_)) {
            let end_ns = known.then_some(operation.end_ns);
            let step = Step { begin_ns: operation.begin_ns, end_ns, act };
            registers.entry(key).or_default().push(step);
        }
    }
    for (key, steps) in &mut registers {
        forget_the_unseen(steps);
        steps.sort_by_key(|s| s.begin_ns);
        if !is_linearizable(steps).map_err(|why| format!("register {key}: {why}"))? {
            let all: Vec<String> = steps.iter().map(|s| format!("  {s:?}")).collect();
            return Err(format!("register {key} is not linearizable:\n{}", all.join("\n")));
        }
    }
    Ok(registers.len())
}

/// An unanswered change whose value nobody met may just as well not have happened: each value is
/// written once. Who did not find the value that he would have replaced may have met any other that
/// came before he was told so.
fn forget_the_unseen(steps: &mut Vec<Step>) {
    let met: BTreeSet<i64> = steps.iter().filter_map(|s| s.act.met()).collect();
    let missed = |s: &Step| match s.act {
        Act::Replace { done: false, .. } => s.end_ns,
        _ => None,
    };
    let last_missed_ns = steps.iter().filter_map(missed).max();
    steps.retain(|s| {
        s.end_ns.is_some()
            || s.act.brings().is_some_and(|v| met.contains(&v))
            || last_missed_ns.is_some_and(|end_ns| s.begin_ns < end_ns)
    });
}

/// Steps by their beginnings.
fn is_linearizable(steps: &[Step]) -> Result<bool, String> {
    type Taken = Vec<u64>;
    let has = |taken: &Taken, at: usize| taken[at / 64] >> (at % 64) & 1 == 1;
    let answered = steps.iter().filter(|s| s.end_ns.is_some()).count();
    let mut seen: FxHashSet<(Taken, Option<i64>)> = FxHashSet::default();
    // What is taken, how many of it were answered, the first not taken, and what is held.
    let mut stack = vec![(vec![0_u64; steps.len() / 64 + 1], 0, 0, None)];
    while let Some((taken, count, first, held)) = stack.pop() {
        if count == answered {
            return Ok(true);
        }
        if seen.len() > STATES_MAX {
            return Err(format!("more than {STATES_MAX} states: the search was given up"));
        }
        // Whoever ended before this one began must come first.
        let mut bound = u64::MAX;
        for (at, step) in steps.iter().enumerate().skip(first) {
            if step.begin_ns > bound {
                break;
            }
            if has(&taken, at) {
                continue;
            }
            bound = bound.min(step.end_ns.unwrap_or(u64::MAX));
        }
        for (at, step) in steps.iter().enumerate().skip(first) {
            if step.begin_ns > bound {
                break;
            }
            if has(&taken, at) {
                continue;
            }
            let Some(next) = step.act.apply(held) else { continue };
            let mut more = taken.clone();
            more[at / 64] |= 1 << (at % 64);
            if seen.insert((more.clone(), next)) {
                let first = (first..steps.len()).find(|n| !has(&more, *n));
                let first = first.unwrap_or(steps.len());
                let count = count + usize::from(step.end_ns.is_some());
                stack.push((more, count, first, next));
            }
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn op(begin_ns: u64, end_ns: u64, outcome: Outcome, value: Value) -> Operation {
        Operation { process: begin_ns, begin_ns, end_ns, outcome, value }
    }

    const DONE: Outcome = Outcome::Done;

    #[test]
    fn orders_that_exist_are_found() {
        let overlapping = [
            op(0, 10, DONE, json!(["w", 1, 5])),
            op(5, 20, DONE, json!(["r", 1, null])),
            op(6, 20, DONE, json!(["r", 1, 5])),
            op(21, 22, DONE, json!(["cas", 1, 5, 6, true])),
            op(23, 24, DONE, json!(["cas", 1, 5, 7, false])),
            op(25, 26, DONE, json!(["r", 1, 6])),
            op(25, 26, DONE, json!(["r", 2, null])),
        ];
        assert_eq!(check(&overlapping), Ok(2));
        // One without an answer may come late, or not at all; one that failed may not.
        let late = [
            op(0, 1, Outcome::Unknown, json!(["w", 1, 5])),
            op(2, 3, DONE, json!(["r", 1, null])),
            op(4, 5, DONE, json!(["r", 1, 5])),
        ];
        assert_eq!(check(&late), Ok(1));
        let unanswered = [
            op(0, 1, DONE, json!(["w", 1, 5])),
            op(2, 3, Outcome::Unknown, json!(["cas", 1, 5, 6])),
            op(4, 5, DONE, json!(["r", 1, 5])),
            op(6, 7, DONE, json!(["r", 1, 6])),
        ];
        assert_eq!(check(&unanswered), Ok(1));
        // Nobody has read it, but one has missed what it replaced.
        let missed = [
            op(0, 1, DONE, json!(["w", 1, 5])),
            op(2, 3, Outcome::Unknown, json!(["w", 1, 6])),
            op(4, 9, DONE, json!(["cas", 1, 5, 7, false])),
        ];
        assert_eq!(check(&missed), Ok(1));
    }

    #[test]
    fn stale_lost_and_invented_values_are_refused() {
        let refused = |operations: &[Operation]| {
            let why = check(operations).expect_err("it is refused");
            assert!(why.contains("not linearizable"), "{why}");
        };
        let write = |at, v| op(at, at + 1, DONE, json!(["w", 1, v]));
        // Stale.
        refused(&[write(0, 5), write(2, 6), op(4, 5, DONE, json!(["r", 1, 5]))]);
        // Lost.
        refused(&[write(0, 5), op(4, 5, DONE, json!(["r", 1, null]))]);
        // Two readers see two orders.
        refused(&[
            op(0, 100, DONE, json!(["w", 1, 5])),
            op(0, 100, DONE, json!(["w", 1, 6])),
            op(1, 2, DONE, json!(["r", 1, 5])),
            op(3, 4, DONE, json!(["r", 1, 6])),
            op(5, 6, DONE, json!(["r", 1, 5])),
        ]);
        // Seen although it failed.
        refused(&[
            op(0, 1, Outcome::Failed, json!(["w", 1, 5])),
            op(2, 3, DONE, json!(["r", 1, 5])),
        ]);
        // Seen before it began.
        refused(&[op(0, 1, DONE, json!(["r", 1, 5])), write(2, 5)]);
        // Two replace the same value.
        refused(&[
            write(0, 5),
            op(2, 9, DONE, json!(["cas", 1, 5, 6, true])),
            op(2, 9, DONE, json!(["cas", 1, 5, 7, true])),
        ]);
        // Missed though nobody has replaced it, or only he who came later.
        refused(&[write(0, 5), op(4, 9, DONE, json!(["cas", 1, 5, 7, false]))]);
        refused(&[
            write(0, 5),
            op(4, 9, DONE, json!(["cas", 1, 5, 7, false])),
            op(10, 11, Outcome::Unknown, json!(["w", 1, 6])),
        ]);
        // Gone again after it was seen.
        refused(&[
            write(0, 4),
            op(2, 3, Outcome::Unknown, json!(["w", 1, 5])),
            op(4, 5, DONE, json!(["r", 1, 5])),
            op(6, 7, DONE, json!(["r", 1, 4])),
        ]);
        assert!(check(&[op(0, 1, DONE, json!(["x", 1]))]).is_err());
    }
}
