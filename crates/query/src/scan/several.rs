//! OR over columns of several indexes: the rows of each alternative by an index of its own.
//!
//! What it promises: each row once, in the part of the first alternative that holds for it; no
//! memory for the rows that were there before. What it must never do: use an index for some
//! alternatives and leave out another.

use super::{Access, SMALL_ROWS, ScanExec, ScanWork};
use crate::scalar::Scalar;

/// One alternative.
#[derive(Clone, Debug)]
pub struct Branch {
    pub(crate) access: Access,
    /// What its rows meet beside the scan's filters: it, and none of the alternatives before it.
    pub(crate) filters: Vec<Scalar>,
}

/// Alternatives that are tried.
const ALTERNATIVES_MAX: usize = 16;

/// The parts of an OR.
pub(crate) fn alternatives<'a>(condition: &'a Scalar, out: &mut Vec<&'a Scalar>) {
    if let Scalar::Or(sides) = condition {
        alternatives(&sides.0, out);
        alternatives(&sides.1, out);
    } else {
        out.push(condition);
    }
}

/// False where the condition holds, true where it does not or is not known.
fn is_not_true(condition: &Scalar) -> Scalar {
    let unknown = Scalar::IsNull(Box::new(condition.clone()));
    Scalar::Or(Box::new((unknown, Scalar::Not(Box::new(condition.clone())))))
}

impl ScanExec {
    /// Scans that each read what one of several accesses leads to, with what each is for; none if
    /// this one has no several accesses. A later one leaves out what is of those before it, which
    /// these do not say.
    pub(crate) fn branches(&self) -> Vec<(ScanExec, &Scalar)> {
        let work = self.work();
        let Access::Any { branches } = &work.access else { return Vec::new() };
        let own: Vec<&Scalar> = branches.iter().filter_map(|one| one.filters.first()).collect();
        let mut others = Vec::new();
        work.filters.iter().for_each(|filter| filter.conjuncts(&mut others));
        others.retain(|one| {
            let mut all = Vec::new();
            alternatives(one, &mut all);
            all != own
        });
        let scan = |branch: &Branch, own: &Scalar| {
            let mut filters = Vec::new();
            own.conjuncts(&mut filters);
            filters.extend_from_slice(&others);
            let (access, filters) = (branch.access.clone(), filters.into_iter().cloned().collect());
            // Rows are read, also where the entries have all that is asked for.
            ScanExec::with_work(ScanWork { access, filters, target: true, ..(**work).clone() })
        };
        branches.iter().zip(&own).map(|(branch, own)| (scan(branch, own), *own)).collect()
    }
}

impl ScanWork {
    /// Takes an index for each alternative of an OR, where that costs less than reading the table.
    /// What that costs, if it is known.
    pub(super) fn prefer_several(&mut self) -> Option<f64> {
        if !matches!(self.access, Access::Full) {
            return None;
        }
        let mut conjuncts = Vec::new();
        self.filters.iter().for_each(|filter| filter.conjuncts(&mut conjuncts));
        let known = self.size.stats.is_some() && self.size.rows >= SMALL_ROWS;
        let mut best: Option<(f64, Vec<Branch>)> = None;
        for (at, one) in conjuncts.iter().enumerate() {
            let mut all = Vec::new();
            alternatives(one, &mut all);
            if all.len() < 2 || all.len() > ALTERNATIVES_MAX {
                continue;
            }
            let others = conjuncts.iter().enumerate().filter(|(i, _)| *i != at);
            let others: Vec<Scalar> = others.map(|(_, other)| (*other).clone()).collect();
            if let Some((cost, branches)) = self.branches(&all, &others, known)
                && best.as_ref().is_none_or(|(least, _)| cost < *least)
                && (!known || cost < self.size.rows)
            {
                best = Some((cost, branches));
            }
        }
        let (cost, branches) = best?;
        self.access = Access::Any { branches };
        Some(cost)
    }

    /// An access for each alternative, with what all of them cost; `None` if one has none.
    fn branches(
        &self,
        all: &[&Scalar],
        others: &[Scalar],
        known: bool,
    ) -> Option<(f64, Vec<Branch>)> {
        let mut cost = 0.0;
        let mut branches = Vec::with_capacity(all.len());
        for (at, one) in all.iter().enumerate() {
            let mut filters = vec![(*one).clone()];
            filters.extend_from_slice(others);
            let (own, access) = self.cheapest_offer(&filters)?;
            // A range without statistics may be the whole table.
            let narrow = match &access {
                Access::Range { equal, .. } => !equal.is_empty(),
                Access::Keys { .. } => true,
                _ => false,
            };
            if !known && !narrow {
                return None;
            }
            cost += own;
            let earlier = all[..at].iter().map(|earlier| is_not_true(earlier));
            let filters = std::iter::once((*one).clone()).chain(earlier).collect();
            branches.push(Branch { access, filters });
        }
        Some((cost, branches))
    }
}
