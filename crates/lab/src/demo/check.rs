//! The books: what the clients were told against what the database holds.
//!
//! Pure: it gets both sides as values. What it must never do: forgive. A transfer is in the
//! database if and only if a client was told so, or was told nothing.

use std::collections::BTreeMap;

use super::book::{Outcome, Transfer};

/// What each account starts with.
pub const INITIAL_BALANCE: i64 = 1000;
/// How many differences are named; the others are counted.
const NAMED_MAX: usize = 10;

/// Result of a comparison.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    pub acknowledged: usize,
    pub unknown: usize,
    /// Transfers of unknown outcome that are there.
    pub unknown_there: usize,
    /// Acknowledged transfers that are not there.
    pub lost: usize,
    pub differences: Vec<String>,
    /// Differences beyond those named.
    pub more: usize,
}

impl Verdict {
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.differences.is_empty()
    }

    fn differ(&mut self, text: String) {
        if self.differences.len() < NAMED_MAX {
            self.differences.push(text);
        } else {
            self.more += 1;
        }
    }
}

/// Compares the clients' list with the rows of the table of transfers.
#[must_use]
pub fn compare_transfers(list: &[(Outcome, Transfer)], rows: &[Transfer]) -> Verdict {
    let mut verdict = Verdict::default();
    let mut there: BTreeMap<i64, Transfer> = BTreeMap::new();
    for row in rows {
        if there.insert(row.id, *row).is_some() {
            verdict.differ(format!("transfer {} is there twice", row.id));
        }
    }
    for (outcome, told) in list {
        let found = there.remove(&told.id);
        match outcome {
            Outcome::Acknowledged => verdict.acknowledged += 1,
            Outcome::Unknown => {
                verdict.unknown += 1;
                verdict.unknown_there += usize::from(found.is_some());
            }
        }
        match found {
            Some(row) if row != *told => {
                verdict.differ(format!("transfer {} is {row:?}, was {told:?}", told.id));
            }
            None if *outcome == Outcome::Acknowledged => {
                verdict.lost += 1;
                verdict.differ(format!("acknowledged transfer {} is LOST", told.id));
            }
            _ => {}
        }
    }
    for id in there.keys() {
        verdict.differ(format!("transfer {id} is there, but no client was told so"));
    }
    verdict
}

/// Compares all balances with what the transfers make of them. `balances` holds (account, balance).
#[must_use]
pub fn compare_balances(accounts: i32, rows: &[Transfer], balances: &[(i32, i64)]) -> Verdict {
    let mut verdict = Verdict::default();
    let count = usize::try_from(accounts).unwrap_or(0);
    let mut expected = vec![INITIAL_BALANCE; count];
    let slot = |id: i32| usize::try_from(id).ok().and_then(|n| n.checked_sub(1));
    for row in rows {
        for (id, delta) in [(row.src, -i64::from(row.amount)), (row.dst, i64::from(row.amount))] {
            match slot(id).and_then(|at| expected.get_mut(at)) {
                Some(balance) => *balance += delta,
                None => verdict.differ(format!("transfer {} names account {id}", row.id)),
            }
        }
    }
    let mut seen = vec![false; count];
    for (id, balance) in balances {
        let Some(at) = slot(*id).filter(|at| *at < count) else {
            verdict.differ(format!("there is an account {id}"));
            continue;
        };
        if std::mem::replace(&mut seen[at], true) {
            verdict.differ(format!("account {id} is there twice"));
        }
        if *balance != expected[at] {
            verdict.differ(format!("account {id} holds {balance}, should be {}", expected[at]));
        }
    }
    for (at, _) in seen.iter().enumerate().filter(|(_, seen)| !**seen) {
        verdict.differ(format!("account {} is missing", at + 1));
    }
    let sum: i64 = balances.iter().map(|(_, b)| b).sum();
    if sum != i64::from(accounts) * INITIAL_BALANCE {
        verdict.differ(format!("the sum of all accounts is {sum}"));
    }
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Outcome = Outcome::Acknowledged;
    const U: Outcome = Outcome::Unknown;

    fn t(id: i64) -> Transfer {
        Transfer { id, src: 1, dst: 2, amount: 5 }
    }

    #[test]
    fn unknown_outcomes_may_be_either() {
        let verdict = compare_transfers(&[(A, t(1)), (U, t(2)), (U, t(3))], &[t(1), t(3)]);
        assert!(verdict.is_good(), "{verdict:?}");
        assert_eq!((verdict.acknowledged, verdict.unknown, verdict.unknown_there), (1, 2, 1));
    }

    #[test]
    fn lost_changed_doubled_and_unexplained_transfers_are_found() {
        let found = |list: &[(Outcome, Transfer)], rows: &[Transfer]| {
            let verdict = compare_transfers(list, rows);
            assert_eq!(verdict.differences.len(), 1, "{verdict:?}");
            verdict.differences[0].clone()
        };
        assert!(found(&[(A, t(1))], &[]).contains("LOST"));
        assert!(found(&[(A, t(1))], &[Transfer { amount: 6, ..t(1) }]).contains("amount: 6"));
        assert!(found(&[(A, t(1))], &[t(1), t(1)]).contains("twice"));
        assert!(found(&[], &[t(9)]).contains("no client"));
        let many: Vec<_> = (0..25).map(|id| (A, t(id))).collect();
        let verdict = compare_transfers(&many, &[]);
        assert_eq!((verdict.differences.len(), verdict.more, verdict.lost), (10, 15, 25));
    }

    #[test]
    fn each_balance_follows_from_the_transfers() {
        let rows = [t(1), Transfer { id: 2, src: 2, dst: 3, amount: 1 }];
        assert!(compare_balances(3, &rows, &[(1, 995), (3, 1001), (2, 1004)]).is_good());
        let found = |balances: &[(i32, i64)]| compare_balances(3, &rows, balances).differences;
        // The sum is right, the accounts are not.
        assert_eq!(found(&[(1, 995), (2, 1005), (3, 1000)]).len(), 2);
        assert_eq!(found(&[(1, 995), (2, 1004), (3, 1002)]).len(), 2);
        assert_eq!(found(&[(1, 995), (2, 1004)]).len(), 2);
        assert!(found(&[(1, 995), (2, 1004), (3, 1001), (4, 0)]).len() == 1);
        assert!(found(&[(1, 995), (2, 1004), (3, 1001), (1, 995)]).len() == 2);
        assert_eq!(compare_balances(1, &rows[1..], &[(1, 1000)]).differences.len(), 2);
    }
}
