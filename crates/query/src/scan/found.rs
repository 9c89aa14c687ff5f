//! How many rows an access finds, and how many of those a scan keeps.
//!
//! What it promises: what is found depends on what leads to the rows alone, so that a further
//! condition on them makes no access cheaper. What it must never do: change a result.

use super::{Access, ScanWork};
use crate::estimate::rows_kept;
use crate::implied::scalar_of;
use crate::scalar::Scalar;
use crate::selectivity::column_condition;
use kernel::dict::Condition;

/// Those of the conditions that are about one of these columns.
pub(super) fn conditions_about(filters: &[Scalar], columns: &[usize]) -> Vec<Scalar> {
    let mut conjuncts = Vec::new();
    filters.iter().for_each(|filter| filter.conjuncts(&mut conjuncts));
    let about = |one: &&Scalar| match one {
        Scalar::In(value, _) => {
            matches!(**value, Scalar::Column(column) if columns.contains(&column))
        }
        one => column_condition(one).is_some_and(|(at, ..)| columns.contains(&at)),
    };
    conjuncts.into_iter().filter(about).cloned().collect()
}

impl Access {
    /// How many parts of its index's key it has values or bounds for.
    pub(super) fn parts_used(&self) -> usize {
        match self {
            Access::Range { equal, lower, upper, .. } => {
                equal.len() + usize::from(lower.is_some() || upper.is_some())
            }
            Access::Keys { .. } => 1,
            Access::Full | Access::Any { .. } | Access::Bits(_) => 0,
        }
    }

    /// Whether it is all of an index.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self, Access::Range { .. }) && self.parts_used() == 0
    }

    /// Whether its keys begin with single values, with no bounds behind them.
    pub(super) fn is_of_single_values(&self) -> bool {
        matches!(self, Access::Range { equal, lower: None, upper: None, .. } if !equal.is_empty())
    }

    /// Whether it finds one row at most.
    pub(crate) fn is_of_one(&self) -> bool {
        matches!(self, Access::Range { index, equal, .. }
            if index.unique && equal.len() == index.columns.len())
    }
}

impl ScanWork {
    /// Rows that the scan would yield without its limit.
    pub(crate) fn rows_unlimited(&self) -> f64 {
        if self.hints.is_empty() {
            return rows_kept(&self.table, &self.filters, &self.size);
        }
        // What is told in terms of expressions is judged by those.
        let told = |filter: &&Scalar| !self.hints.has_own(filter);
        let others: Vec<Scalar> = self.filters.iter().filter(told).cloned().collect();
        let kept = rows_kept(&self.table, &others, &self.size) * self.part_of_hints(true);
        if self.access.is_of_one() { kept.min(1.0) } else { kept }
    }

    /// Rows that the access finds, before what only the rows themselves can say.
    pub(crate) fn rows_found(&self) -> f64 {
        match &self.access {
            Access::Full => self.size.rows,
            Access::Range { .. } | Access::Keys { .. } => {
                let found = self.found_by(&self.access, &self.filters) * self.part_of_hints(false);
                if self.access.is_of_one() { found.min(1.0) } else { found }
            }
            Access::Any { branches } => {
                let each = branches.iter().map(|branch| {
                    let own = branch.filters.iter().take(1);
                    let filters: Vec<Scalar> = own.chain(&self.filters).cloned().collect();
                    self.found_by(&branch.access, &filters)
                });
                each.sum::<f64>().min(self.size.rows)
            }
            Access::Bits(found) => {
                let mut conjuncts = Vec::new();
                self.filters.iter().for_each(|filter| filter.conjuncts(&mut conjuncts));
                let said = conjuncts.into_iter().filter(|one| !found.rest.contains(one));
                let said: Vec<Scalar> = said.cloned().collect();
                rows_kept(&self.table, &said, &self.size)
            }
        }
    }

    /// The same of an access by one index, by what the filters say of the table's columns.
    fn found_by(&self, access: &Access, filters: &[Scalar]) -> f64 {
        let Some(index) = access.index() else { return self.size.rows };
        let used = index.columns.iter().take(access.parts_used());
        let columns: Vec<usize> = used.map(|column| usize::from(*column)).collect();
        let mut said = conditions_about(filters, &columns);
        // A partial index has no other rows than its predicate says.
        let parts = match &index.predicate {
            Some(Condition::And(parts)) => &parts[..],
            Some(whole) => std::slice::from_ref(whole),
            None => &[],
        };
        for part in parts {
            let mut named = Vec::new();
            part.columns(&mut named);
            let known = named.iter().any(|column| columns.contains(&usize::from(*column)));
            said.extend(scalar_of(part, &self.types).filter(|_| !known));
        }
        rows_kept(&self.table, &said, &self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrow_rows::Source;
    use crate::cost::estimate;
    use crate::estimate::TableSize;
    use crate::scalar::CmpOp;
    use crate::scan::ScanExec;
    use crate::testing;
    use block::{Dba, ObjId, Scn};
    use datafusion::arrow::datatypes::Schema;
    use datafusion::physical_plan::ExecutionPlan;
    use kernel::dict::{Derived, Evaluator, Included, IndexDef, IndexKind, TableDef};
    use kernel::row::{TypeKind, Value};
    use std::sync::Arc;

    const ROWS: i32 = 10_000;

    fn index() -> Arc<IndexDef> {
        Arc::new(IndexDef {
            kind: IndexKind::Tree,
            obj: ObjId(20_001),
            name: "t_few".into(),
            table: ObjId(20_000),
            columns: vec![1],
            included: Included::default(),
            orders: vec![],
            unique: false,
            primary: false,
            constraint: None,
            header: Dba::NONE,
            root: Dba::NONE,
            birth: Scn(1),
            predicate: None,
            exprs: vec![],
            evaluator: Evaluator::default(),
            derived: Derived::default(),
        })
    }

    /// A table of a unique column and of one of four values, with an index on that.
    fn table() -> TableDef {
        let columns = [("id", TypeKind::Int4), ("few", TypeKind::Int4)];
        testing::table(&columns, vec![index()])
    }

    fn work(filters: &[Scalar], access: Access) -> ScanWork {
        let table = table();
        let value = |column: usize, i: i32| Value::Int4(if column == 0 { i } else { i % 4 });
        let stats = testing::known(&table, ROWS, value);
        let size = TableSize {
            blocks: 100.0,
            index_blocks: vec![20.0],
            rows: f64::from(ROWS),
            row_bytes: 24.0,
            stats: Some(Arc::new(stats)),
            ..TableSize::default()
        };
        ScanWork {
            types: table.columns.iter().map(|column| column.ty).collect(),
            table: Arc::new(table),
            sources: Vec::new(),
            schema: Arc::new(Schema::empty()),
            filters: filters.to_vec(),
            unsaid: Vec::new(),
            probes: Vec::new(),
            access,
            hints: Arc::default(),
            limit: None,
            target: false,
            size,
            as_of: None,
            instead: None,
            asked: Vec::new(),
        }
    }

    #[test]
    fn a_full_scan_that_is_thought_to_find_nothing_reads_all_blocks() {
        let none = Scalar::IsNull(Box::new(Scalar::Column(0)));
        let scan = work(&[none], Access::Full);
        assert!(scan.rows_unlimited() < 0.01, "{}", scan.rows_unlimited());
        assert!(cost(scan) >= 100.0);
    }

    fn cost(work: ScanWork) -> f64 {
        let plan: Arc<dyn ExecutionPlan> = Arc::new(ScanExec::with_work(work));
        estimate(&plan).total_cost
    }

    fn equal(column: usize, value: i32) -> Scalar {
        Scalar::compare(CmpOp::Eq, Scalar::Column(column), Scalar::Const(Value::Int4(value)))
    }

    fn by_index(value: i32) -> Access {
        let equal = vec![Scalar::Const(Value::Int4(value))];
        Access::Range { index: index(), equal, lower: None, upper: None, backward: false }
    }

    #[test]
    fn a_full_scan_costs_no_less_for_further_conditions() {
        let all = [equal(1, 2), equal(0, 7), equal(0, 9)];
        let costs: Vec<f64> =
            (0..=all.len()).map(|count| cost(work(&all[..count], Access::Full))).collect();
        assert!(costs.is_sorted(), "{costs:?}");
        assert!(costs[0] > 100.0, "{costs:?}");
    }

    /// The same table, its index one of bitmaps.
    fn with_bitmaps(filters: &[Scalar], access: Access) -> ScanWork {
        let bitmaps = || Arc::new(IndexDef { kind: IndexKind::Bitmap, ..(*index()).clone() });
        let access = match access {
            Access::Range { equal, lower, upper, backward, .. } => {
                Access::Range { index: bitmaps(), equal, lower, upper, backward }
            }
            other => other,
        };
        let table = TableDef { indexes: vec![bitmaps()], ..table() };
        ScanWork { table: Arc::new(table), ..work(filters, access) }
    }

    #[test]
    fn bitmaps_cost_the_blocks_that_they_take() {
        let filters = [equal(1, 2)];
        // A quarter of the index's blocks, and those above them.
        let counted = cost(with_bitmaps(&filters, by_index(2)));
        assert!((6.0..6.5).contains(&counted), "{counted}");
        let sources = vec![Source::Column(0)];
        let rows = ScanWork { sources, ..with_bitmaps(&filters, by_index(2)) };
        let rows = cost(rows);
        assert!(rows > 100.0 && rows < cost(work(&filters, Access::Full)), "{rows}");
    }

    #[test]
    fn rows_without_a_value_are_found_by_bitmaps() {
        let null = [Scalar::IsNull(Box::new(Scalar::Column(1)))];
        let scan = ScanExec::new(with_bitmaps(&null, Access::Full));
        assert!(matches!(scan.work().access, Access::Bits(_)), "{:?}", scan.work().access);
        assert!(scan.work().counts_rows());
        let cost = cost((**scan.work()).clone());
        assert!(cost < 3.0, "{cost}");
    }

    #[test]
    fn rows_with_a_value_are_counted_by_bitmaps() {
        let null = Scalar::IsNull(Box::new(Scalar::Column(1)));
        let given = [Scalar::Not(Box::new(null))];
        let scan = ScanExec::new(with_bitmaps(&given, Access::Full));
        assert!(matches!(scan.work().access, Access::Bits(_)), "{:?}", scan.work().access);
        assert!(scan.work().counts_rows());
        // All blocks of the index, and those above them.
        let cost = cost((**scan.work()).clone());
        assert!((20.0..22.0).contains(&cost), "{cost}");
    }

    #[test]
    fn an_index_finds_what_its_keys_say() {
        let found = work(&[equal(1, 2)], by_index(2));
        let with_more = work(&[equal(1, 2), equal(0, 7)], by_index(2));
        for one in [&found, &with_more] {
            assert!((one.rows_found() - 2_500.0).abs() < 1.0, "{}", one.rows_found());
        }
        assert!(with_more.rows_unlimited() < 2.0, "{}", with_more.rows_unlimited());
        assert!(cost(with_more) >= cost(found));
        // The first rows of few that are kept cost as much as all that must be looked at for them.
        let limited = |filters: &[Scalar], limit| {
            cost(ScanWork { limit: Some(limit), ..work(filters, Access::Full) })
        };
        assert!(limited(&[equal(1, 2)], 25) < limited(&[equal(1, 2)], 250));
        let one = [equal(0, 7)];
        assert!(limited(&one, 1) >= cost(work(&one, Access::Full)) * 0.99);
    }
}
