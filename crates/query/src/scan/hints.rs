//! What filters say of the expressions that indexes are over: how many rows they keep, and which of
//! them the keys of the chosen index see to.
//!
//! What it promises: a filter that is left out is true of every row that the access finds. What it
//! must never do: leave one out where keys may compare otherwise than values, or where rows come
//! from elsewhere than the access.

use super::run::is_exact;
use super::{Access, BIT_ROWS, LOOKUP_ROWS, ScanExec, ScanWork};
use crate::bounds::shown;
use crate::estimate::{OTHER, TableSize, selectivity};
use crate::key_exprs::Computed;
use crate::scalar::{CmpOp, Scalar};
use crate::selectivity::{Judge, column_condition};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result as DfResult;
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr, update_expr};
use kernel::dict::{ColumnStats, IndexDef, IndexKind, TableDef, TableStats};
use kernel::row::ColType;
use std::sync::Arc;

/// A filter in terms of the expressions.
#[derive(Debug)]
pub(crate) struct Hint {
    /// Over the table's columns and, behind them, the expressions.
    pub(crate) condition: Scalar,
    /// As the scan itself evaluates it, if it does.
    pub(crate) own: Option<Scalar>,
    /// As it is evaluated above the scan.
    pub(crate) above: Option<Arc<dyn PhysicalExpr>>,
}

/// Those of one scan.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    all: Vec<Hint>,
    computed: Arc<Computed>,
    /// What is known of the expressions' values.
    known: Vec<(ColType, Option<ColumnStats>)>,
}

impl Hints {
    pub(crate) fn new(
        table: &TableDef,
        size: &TableSize,
        computed: &Arc<Computed>,
        all: Vec<Hint>,
    ) -> Hints {
        let mut named = vec![false; computed.exprs.len()];
        for hint in &all {
            hint.condition.walk(&mut |part| {
                if let Scalar::Column(column) = part
                    && let Some(at) = column.checked_sub(table.columns.len())
                    && let Some(named) = named.get_mut(at)
                {
                    *named = true;
                }
            });
        }
        let known = computed.exprs.iter().enumerate().map(|(at, expr)| {
            let stats = size.stats.as_deref().filter(|_| named[at]);
            (expr.ty, stats.and_then(|stats| computed.stats(at, table, stats, size.rows)))
        });
        let known = known.collect();
        Hints { all, computed: computed.clone(), known }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether one of them is a filter that the scan itself evaluates.
    pub(crate) fn has_own(&self, filter: &Scalar) -> bool {
        self.all.iter().any(|hint| hint.own.as_ref() == Some(filter))
    }

    /// The one that a condition above the scan is.
    fn above(&self, condition: &Arc<dyn PhysicalExpr>) -> Option<&Hint> {
        self.all.iter().find(|hint| hint.above.as_ref().is_some_and(|own| own.eq(condition)))
    }

    /// Part of the rows that some of them keep together.
    pub(crate) fn part(
        &self,
        table: &TableDef,
        size: &TableSize,
        which: &dyn Fn(&Hint) -> bool,
    ) -> f64 {
        let mut conjuncts = Vec::new();
        let chosen = self.all.iter().filter(|hint| which(hint));
        chosen.for_each(|hint| hint.condition.conjuncts(&mut conjuncts));
        if conjuncts.is_empty() {
            return 1.0;
        }
        let nothing = TableStats::default();
        let stats = size.stats.as_deref().unwrap_or(&nothing);
        let judge = Judge::new(table, stats, size.rows, &size.peeked).behind(&self.known);
        judge.part(&conjuncts, &selectivity)
    }

    /// The table's columns that they name.
    pub(crate) fn columns(&self, table: &TableDef) -> Vec<usize> {
        let mut columns = Vec::new();
        for hint in &self.all {
            hint.condition.walk(&mut |part| {
                if let Scalar::Column(column) = part {
                    match column.checked_sub(table.columns.len()) {
                        Some(at) => columns.extend(self.computed.columns(at, table)),
                        None => columns.push(*column),
                    }
                }
            });
        }
        columns
    }
}

impl ScanWork {
    /// Where the parts of the key stand that the access has values or bounds for, if its index is
    /// on expressions.
    fn places(&self) -> Option<&[usize]> {
        let index = self.access.index()?;
        let at = self.table.computed.iter().position(|one| Arc::ptr_eq(one, index))?;
        self.hints.computed.places(at)?.get(..self.access.parts_used())
    }

    /// Whether the access looks for what a hint says.
    fn looks_for(&self, hint: &Hint) -> bool {
        let Some(places) = self.places() else { return false };
        let listed = matches!(self.access, Access::Keys { .. });
        let about = |one: &Scalar| match one {
            Scalar::In(value, _) => {
                listed && matches!(**value, Scalar::Column(column) if places.contains(&column))
            }
            one => column_condition(one).is_some_and(|(column, op, _)| {
                !listed && op != CmpOp::Ne && places.contains(&column)
            }),
        };
        let mut conjuncts = Vec::new();
        hint.condition.conjuncts(&mut conjuncts);
        conjuncts.into_iter().all(about)
    }

    /// Part of the rows that the hints keep which the access looks for; `with_own`: and those that
    /// the scan evaluates.
    pub(super) fn part_of_hints(&self, with_own: bool) -> f64 {
        let which = |hint: &Hint| (with_own && hint.own.is_some()) || self.looks_for(hint);
        self.hints.part(&self.table, &self.size, &which)
    }

    /// Part of the scan's rows that conditions above it keep; `None`: nothing is known of them.
    fn part_above(&self, conditions: &[Arc<dyn PhysicalExpr>]) -> Option<f64> {
        let known: Vec<&Hint> = conditions.iter().filter_map(|one| self.hints.above(one)).collect();
        if known.is_empty() {
            return None;
        }
        let left = |hint: &Hint| {
            !self.looks_for(hint) && known.iter().any(|known| std::ptr::eq(*known, hint))
        };
        let part = self.hints.part(&self.table, &self.size, &left);
        Some(if known.len() < conditions.len() { part * OTHER } else { part })
    }

    /// Takes out of the filters that are left what exact keys say in terms of expressions.
    pub(super) fn leave_out_hints(&mut self) {
        let mut unsaid = std::mem::take(&mut self.unsaid);
        let said = |hint: &Hint| hint.own.is_some() && self.says_hint(hint);
        let said: Vec<&Hint> = self.hints.all.iter().filter(|hint| said(hint)).collect();
        unsaid.retain(|filter| !said.iter().any(|hint| hint.own.as_ref() == Some(filter)));
        self.unsaid = unsaid;
    }

    /// Whether the keys that the access looks for say what a hint says, if they are exact.
    fn says_hint(&self, hint: &Hint) -> bool {
        let Some(places) = self.places() else { return false };
        let place = |column: usize| places.iter().position(|place| *place == column);
        let mut conjuncts = Vec::new();
        hint.condition.conjuncts(&mut conjuncts);
        conjuncts.into_iter().all(|one| self.access.says_of(&self.table, one, &place))
    }

    /// Whether all keys that the access looks for are known now, and compare as values do: it
    /// cannot fail, nor find others.
    fn is_certain(&self) -> bool {
        let exact = |index: &IndexDef, at: usize, value: &Scalar| {
            let (Scalar::Const(value), Some(column)) = (value, index.columns.get(at)) else {
                return false;
            };
            is_exact(&value.as_datum(), index.part_type(&self.table, *column))
        };
        match &self.access {
            Access::Range { index, equal, lower, upper, .. } => {
                let bounds = lower.iter().chain(upper);
                let bounds = bounds.map(|bound| (equal.len(), bound));
                equal.iter().enumerate().chain(bounds).all(|(at, value)| exact(index, at, value))
            }
            Access::Keys { index, keys } => keys.iter().all(|key| exact(index, 0, key)),
            Access::Full | Access::Any { .. } | Access::Bits(_) => false,
        }
    }

    /// Whether a condition above the scan is true of every row that it yields. Rows that are to be
    /// changed may be given to it anew, and an index may know nothing of the past.
    fn ensures(&self, condition: &Arc<dyn PhysicalExpr>) -> bool {
        !self.target
            && self.as_of.is_none()
            && self.hints.above(condition).is_some_and(|hint| self.says_hint(hint))
            && self.is_certain()
    }

    /// A full scan whose rows are only counted as one of the bitmaps of an index on expressions,
    /// if those say all that is asked of the rows, the conditions above the scan among it, and are
    /// less to read.
    fn counted_by_bits(&self, conditions: &[Arc<dyn PhysicalExpr>]) -> Option<ScanWork> {
        if !matches!(self.access, Access::Full) || self.hints.is_empty() {
            return None;
        }
        let said: Vec<Scalar> = self.hints.all.iter().map(|hint| hint.condition.clone()).collect();
        let computed = &self.hints.computed;
        let access = Access::choose(&self.table, &self.types, &self.filters, &said, computed);
        let index = access.index()?;
        if index.kind != IndexKind::Bitmap || index.exprs.is_empty() {
            return None;
        }
        let mut counting = ScanWork { access, sources: Vec::new(), ..self.clone() };
        counting.settle();
        let serves = counting.counts_rows() && conditions.iter().all(|one| counting.ensures(one));
        let cost = LOOKUP_ROWS + counting.rows_found() * BIT_ROWS;
        let sources = self.sources.clone();
        (serves && cost < self.size.rows).then(|| ScanWork { sources, ..counting })
    }
}

type Conditions = Vec<Arc<dyn PhysicalExpr>>;

/// The scan below a filter, and the filter's conditions as ones on its rows; `None`: something else
/// is below it.
fn below(filter: &FilterExec) -> DfResult<Option<(&ScanExec, Conditions)>> {
    let conditions = split_conjunction(filter.predicate()).into_iter();
    let mut input = filter.input();
    // One that is taken apart is several, of the same columns.
    while let Some(inner) = shown(input).downcast_ref::<FilterExec>() {
        if inner.projection().is_some() {
            return Ok(None);
        }
        input = inner.input();
    }
    if let Some(scan) = input.downcast_ref::<ScanExec>() {
        return Ok(Some((scan, conditions.cloned().collect())));
    }
    let Some(projection) = input.downcast_ref::<ProjectionExec>() else { return Ok(None) };
    let Some(scan) = projection.input().downcast_ref::<ScanExec>() else { return Ok(None) };
    let on_rows = |condition: &Arc<dyn PhysicalExpr>| -> DfResult<Arc<dyn PhysicalExpr>> {
        let rewritten = update_expr(condition, projection.expr(), true)?;
        Ok(rewritten.unwrap_or_else(|| condition.clone()))
    };
    Ok(Some((scan, conditions.map(on_rows).collect::<DfResult<_>>()?)))
}

/// Part of the rows below it that a filter is thought to keep; `None`: nothing is known of it.
pub(crate) fn filter_part(filter: &FilterExec) -> Option<f64> {
    let (scan, conditions) = below(filter).ok()??;
    scan.work().part_above(&conditions)
}

/// Leaves filters out that the access below them sees to.
#[derive(Debug)]
pub(crate) struct SaidFilters;

impl PhysicalOptimizerRule for SaidFilters {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        // Windows hold their partitions for ordered by what a filter says is the same in all rows.
        if plan.exists(|node| Ok(node.name().contains("Window")))? {
            return Ok(plan);
        }
        let done = plan.transform_up(|node| {
            let left = match node.downcast_ref::<FilterExec>() {
                Some(filter) => left_of(filter)?,
                None => None,
            };
            Ok(match left {
                Some(left) => Transformed::yes(left),
                None => Transformed::no(node),
            })
        })?;
        Ok(done.data)
    }

    fn name(&self) -> &'static str {
        "said_filters"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// What is left of a filter; `None`: all of it.
fn left_of(filter: &FilterExec) -> DfResult<Option<Arc<dyn ExecutionPlan>>> {
    let Some((scan, on_rows)) = below(filter)? else { return Ok(None) };
    // What it costs to count rows was not known before no column but the conditions' was read.
    let counts = filter.projection().as_deref().is_some_and(<[usize]>::is_empty)
        && filter.fetch().is_none()
        && filter.input().downcast_ref::<ScanExec>().is_some();
    let by_bits = if counts { scan.work().counted_by_bits(&on_rows) } else { None };
    let by_bits = by_bits.map(Arc::new);
    let work = by_bits.as_ref().unwrap_or_else(|| scan.work());
    let conditions = split_conjunction(filter.predicate());
    let left: Conditions = conditions
        .iter()
        .zip(&on_rows)
        .filter(|(_, on_rows)| !work.ensures(on_rows))
        .map(|(condition, _)| (*condition).clone())
        .collect();
    if left.len() == conditions.len() {
        return Ok(None);
    }
    if !left.is_empty() {
        let builder = FilterExecBuilder::from(filter).with_predicate(conjunction(left));
        return Ok(Some(Arc::new(builder.build()?)));
    }
    let mut work = (**work).clone();
    work.limit = match (work.limit, filter.fetch()) {
        (Some(own), Some(above)) => Some(own.min(above)),
        (own, above) => own.or(above),
    };
    let columns = filter.projection().as_deref();
    if let Some(projection) = filter.input().downcast_ref::<ProjectionExec>() {
        let all = projection.expr();
        let kept: Vec<ProjectionExpr> = match columns {
            Some(columns) => columns.iter().map(|at| all[*at].clone()).collect(),
            None => all.to_vec(),
        };
        let (scan, schema) = (Arc::new(ScanExec::with_work(work)), filter.schema());
        let shown = ProjectionExec::try_new_with_schema_metadata(kept, scan, &schema)?;
        return Ok(Some(Arc::new(shown)));
    }
    if filter.input().downcast_ref::<ScanExec>().is_none() {
        return Ok(None);
    }
    if let Some(columns) = columns {
        work.sources = columns.iter().map(|at| work.sources[*at]).collect();
        work.schema = Arc::new(work.schema.project(columns)?);
    }
    Ok(Some(Arc::new(ScanExec::with_work(work))))
}
