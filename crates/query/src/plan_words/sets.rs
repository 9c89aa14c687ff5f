//! Sets of rows that bitmaps give: what each is asked for, and how they are brought together.
//!
//! What it promises: each index's own condition stands with it; all of them together say what the
//! step as a whole is told to look for.

use super::exprs::{Names, compared, scalar};
use super::{Namer, Plan};
use crate::explain::Sets;
use crate::scalar::CmpOp;
use crate::scan::{Access, Bits, ScanExec, ScanWork};
use kernel::dict::{IndexDef, IndexKind};

impl Namer {
    /// What leads to the rows of a scan, if these are bitmaps.
    pub(crate) fn sets(&self, plan: &Plan, scan: &ScanExec) -> Option<Sets> {
        let work = scan.work();
        match &work.access {
            Access::Range { index, .. } if index.kind == IndexKind::Bitmap => {
                let condition = self.access(plan, work, &work.access);
                Some(one(index, scan.names().single, condition))
            }
            Access::Bits(found) => Some(self.set(plan, work, &found.bits)),
            _ => None,
        }
    }

    /// What is of one kind is brought together in one step.
    fn set(&self, plan: &Plan, work: &ScanWork, bits: &Bits) -> Sets {
        let single = |index: &IndexDef| index.columns.len() == 1;
        let of =
            |index: &IndexDef, single: bool| one(index, single, Some(self.bits(plan, work, bits)));
        match bits {
            Bits::One { index, op, .. } => of(index, *op == CmpOp::Eq && single(index)),
            Bits::Null(index) => of(index, single(index)),
            Bits::Given(index) => of(index, false),
            Bits::All(parts) => {
                let mut all = Vec::new();
                for part in parts {
                    match self.set(plan, work, part) {
                        Sets::All(more) => all.extend(more),
                        other => all.push(other),
                    }
                }
                Sets::All(all)
            }
            Bits::Any(parts) => {
                let mut all = Vec::new();
                for part in parts {
                    match self.set(plan, work, part) {
                        Sets::Any(more) => all.extend(more),
                        other => all.push(other),
                    }
                }
                Sets::Any(all)
            }
            Bits::Minus(base, parts) => {
                let gone = parts.iter().map(|part| self.set(plan, work, part)).collect();
                Sets::Minus(Box::new(self.set(plan, work, base)), gone)
            }
        }
    }

    /// The condition that a set is of.
    pub(super) fn bits(&self, plan: &Plan, work: &ScanWork, bits: &Bits) -> String {
        let all = |parts: &[Bits], word: &str| {
            let all: Vec<String> = parts.iter().map(|part| self.bits(plan, work, part)).collect();
            format!("({})", all.join(word))
        };
        let column = |index: &IndexDef| self.index_column(plan, &work.table, index, 0);
        match bits {
            Bits::One { index, op, value } => {
                let names: Names<'_> = &|at| self.table_column(plan, &work.table, at);
                compared(&column(index), *op, &scalar(value, names))
            }
            Bits::Null(index) => format!("({} IS NULL)", column(index)),
            Bits::Given(index) => format!("({} IS NOT NULL)", column(index)),
            Bits::All(parts) => all(parts, " AND "),
            Bits::Any(parts) => all(parts, " OR "),
            Bits::Minus(base, parts) => {
                format!("({} AND NOT {})", self.bits(plan, work, base), all(parts, " OR "))
            }
        }
    }
}

fn one(index: &IndexDef, single: bool, condition: Option<String>) -> Sets {
    Sets::One {
        index: index.name.clone(),
        obj: index.obj.0,
        bitmap: index.kind == IndexKind::Bitmap,
        single,
        condition,
        actual: None,
    }
}
