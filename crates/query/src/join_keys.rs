//! What a hash join knows of its keys once one side is in memory, told to the scan on the other:
//! rows that could find no partner are dropped where they are read, before they are decoded.
//!
//! What it promises: the same rows. A set of keys is used once it is complete and not before; one
//! that memory or its size does not allow is done without. It belongs to one execution. What it
//! must never do: cross a step that a missing row would make say something else: an outer join that
//! keeps the row, a limit, a window.

use crate::datetime::EPOCH_DAYS;
use crate::error::PgError;
use crate::estimate::{matched_part, plan_rows};
use crate::index_join::{From, IndexJoinExec};
use crate::scan::{Probe, ScanExec, ScanWork};
use crate::state::{ExecState, SharedState};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Date32Type, Int16Type, Int32Type, Int64Type};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{JoinType, NullEquality};
use datafusion::error::Result as DfResult;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::StreamExt;
use kernel::row::TypeKind;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Keys beyond which none are kept.
const KEYS_MAX: usize = 4 << 20;
/// Bits of a map for each key, up to which one is made instead of a hash table.
const BITS_PER_KEY: u64 = 128;
/// Bits that a map may always have.
const BITS_FREE: u64 = 1 << 20;
/// Rows of a scan below which it is not worth the while.
const SCAN_ROWS_MIN: f64 = 5_000.0;
/// Part of a scan's rows that must be thought to have no partner.
const DROPPED_MIN: f64 = 0.2;

/// Whole numbers that are the keys of a join's side.
#[derive(Debug)]
pub(crate) struct KeySet {
    kind: Kind,
    /// What it holds of the memory of all sessions.
    _memory: MemoryReservation,
}

#[derive(Debug)]
enum Kind {
    /// A bit for each number from `first` on.
    Map { first: i64, bits: Vec<u64> },
    /// Open addressing in twice the room; `EMPTY` is no key, but told apart.
    Table { slots: Vec<i64>, shift: u32, has_empty: bool },
}

const EMPTY: i64 = i64::MIN;

impl KeySet {
    fn new(keys: Vec<i64>, memory: MemoryReservation) -> Option<KeySet> {
        let first = keys.iter().copied().min().unwrap_or(0);
        let last = keys.iter().copied().max().unwrap_or(0);
        let range = u64::try_from(i128::from(last) - i128::from(first) + 1).unwrap_or(u64::MAX);
        if range <= BITS_FREE.max(keys.len() as u64 * BITS_PER_KEY) {
            let words = usize::try_from(range.div_ceil(64)).ok()?;
            memory.try_grow(words * size_of::<u64>()).ok()?;
            let mut bits = vec![0u64; words];
            for key in &keys {
                let at = key.wrapping_sub(first).cast_unsigned();
                bits[usize::try_from(at / 64).ok()?] |= 1 << (at % 64);
            }
            return Some(KeySet { kind: Kind::Map { first, bits }, _memory: memory });
        }
        let room = (keys.len() * 2).next_power_of_two().max(2);
        memory.try_grow(room * size_of::<i64>()).ok()?;
        let shift = 64 - room.trailing_zeros();
        let (mut slots, mut has_empty) = (vec![EMPTY; room], false);
        for key in keys {
            if key == EMPTY {
                has_empty = true;
                continue;
            }
            let mut at = place(key, shift);
            while slots[at] != EMPTY && slots[at] != key {
                at = (at + 1) & (room - 1);
            }
            slots[at] = key;
        }
        Some(KeySet { kind: Kind::Table { slots, shift, has_empty }, _memory: memory })
    }

    /// Whether the key is among them.
    #[inline]
    pub(crate) fn has(&self, key: i64) -> bool {
        match &self.kind {
            Kind::Map { first, bits } => {
                // What is below the first one wraps around to beyond the last.
                let at = key.wrapping_sub(*first).cast_unsigned();
                let word = usize::try_from(at / 64).ok().and_then(|word| bits.get(word));
                word.is_some_and(|word| word >> (at % 64) & 1 == 1)
            }
            Kind::Table { slots, shift, has_empty } => {
                if key == EMPTY {
                    return *has_empty;
                }
                let mut at = place(key, *shift);
                loop {
                    match slots[at] {
                        found if found == key => return true,
                        EMPTY => return false,
                        _ => at = (at + 1) & (slots.len() - 1),
                    }
                }
            }
        }
    }
}

#[inline]
#[allow(clippy::cast_possible_truncation)] // what is left fits a table's size
fn place(key: i64, shift: u32) -> usize {
    (key.cast_unsigned().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> shift) as usize
}

/// The keys known in one execution, by the numbers that its plan has for them.
#[derive(Default)]
pub struct JoinKeys(Mutex<HashMap<u64, Arc<KeySet>>>);

impl JoinKeys {
    /// A set, if it is complete.
    pub(crate) fn get(&self, number: u64) -> Option<Arc<KeySet>> {
        self.0.lock().get(&number).cloned()
    }
}

/// Puts [`KeysExec`] under hash joins, and tells the scans on their other sides.
#[derive(Debug)]
pub(crate) struct KeysOfJoins;

impl PhysicalOptimizerRule for KeysOfJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        with_keys(plan, Vec::new(), &mut HashSet::new())
    }

    fn name(&self) -> &'static str {
        "keys_of_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Keys that a column of a plan must be among.
#[derive(Clone, Copy)]
struct Wanted {
    number: u64,
    column: usize,
}

/// The plan with those keys looked at by its scans; notes in `used` which found one.
fn with_keys(
    plan: Arc<dyn ExecutionPlan>,
    wanted: Vec<Wanted>,
    used: &mut HashSet<u64>,
) -> DfResult<Arc<dyn ExecutionPlan>> {
    if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        let probes: Vec<Probe> = wanted.iter().filter_map(|one| probe(scan.work(), *one)).collect();
        if probes.is_empty() {
            return Ok(plan);
        }
        used.extend(probes.iter().map(|probe| probe.number));
        let work = ScanWork { probes, ..(**scan.work()).clone() };
        return Ok(Arc::new(ScanExec::with_work(work)));
    }
    let mut below: Vec<Vec<Wanted>> = vec![Vec::new(); plan.children().len()];
    for one in wanted {
        if let Some((child, column)) = passed_on(&plan, one.column) {
            below[child].push(Wanted { column, ..one });
        }
    }
    let join = plan.downcast_ref::<HashJoinExec>();
    let own = join.map(keys_of).unwrap_or_default();
    if let [_, right] = &mut below[..] {
        right.extend(own.iter().map(|(wanted, _)| *wanted));
    }
    let mut children = Vec::with_capacity(below.len());
    for (child, wanted) in plan.children().into_iter().zip(below) {
        children.push(with_keys(child.clone(), wanted, used)?);
    }
    let keys: Vec<Key> = own
        .into_iter()
        .filter(|(wanted, _)| used.contains(&wanted.number))
        .map(|(wanted, expr)| Key { number: wanted.number, expr })
        .collect();
    if !keys.is_empty() {
        children[0] = Arc::new(KeysExec::new(children[0].clone(), keys.into()));
    }
    replace_children_if_necessary(plan, children)
}

/// The keys of a join that rows of its right side must have, with what they are on the left one.
fn keys_of(join: &HashJoinExec) -> Vec<(Wanted, Arc<dyn PhysicalExpr>)> {
    /// Numbers are told apart in all plans: parts of one execution may be planned apart.
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let drops = matches!(
        join.join_type(),
        JoinType::Inner
            | JoinType::Left
            | JoinType::LeftSemi
            | JoinType::LeftAnti
            | JoinType::LeftMark
            | JoinType::RightSemi
    );
    let plain = join.null_equality() == NullEquality::NullEqualsNothing && !join.null_aware;
    if !drops || !plain || *join.partition_mode() != PartitionMode::CollectLeft {
        return Vec::new();
    }
    let part = matched_part(join, false)
        .unwrap_or_else(|| (plan_rows(join.left()) / plan_rows(join.right()).max(1.0)).min(1.0));
    if part > 1.0 - DROPPED_MIN {
        return Vec::new();
    }
    let number = |ty: DataType| {
        matches!(ty, DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::Date32)
    };
    let left_schema = join.left().schema();
    let key = |(left, right): &(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)| {
        let column = bare(right)?;
        let of_number = left.data_type(&left_schema).is_ok_and(number);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        of_number.then(|| (Wanted { number, column }, left.clone()))
    };
    join.on().iter().filter_map(key).collect()
}

/// The column that an expression is, whole numbers perhaps made wider.
fn bare(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        let wider = matches!(cast.cast_type(), DataType::Int32 | DataType::Int64);
        return if wider { bare(cast.expr()) } else { None };
    }
    Some(expr.downcast_ref::<Column>()?.index())
}

fn probe(work: &ScanWork, wanted: Wanted) -> Option<Probe> {
    if work.target || work.limit.is_some() || work.size.rows < SCAN_ROWS_MIN {
        return None;
    }
    let crate::arrow_rows::Source::Column(column) = *work.sources.get(wanted.column)? else {
        return None;
    };
    // What the plan calls a day is counted from another one.
    let offset = match work.types[column].kind {
        TypeKind::Int2 | TypeKind::Int4 | TypeKind::Int8 => 0,
        TypeKind::Date => i64::from(EPOCH_DAYS),
        _ => return None,
    };
    Some(Probe { number: wanted.number, column, offset })
}

/// The input and its column by which rows may be dropped instead of by the plan's column `at`.
fn passed_on(plan: &Arc<dyn ExecutionPlan>, at: usize) -> Option<(usize, usize)> {
    if plan.fetch().is_some() {
        return None;
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        return Some((0, bare(&projection.expr().get(at)?.expr)?));
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let at = filter.projection().as_ref().map_or(Some(at), |all| all.get(at).copied())?;
        return Some((0, at));
    }
    if plan.downcast_ref::<SortExec>().is_some() {
        return Some((0, at));
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        // All rows of a group go, or none.
        let group = aggregate.group_expr();
        let whole = group.is_single() && aggregate.limit_options().is_none();
        let (expr, _) = group.expr().get(at).filter(|_| whole)?;
        return Some((0, bare(expr)?));
    }
    if let Some(join) = plan.downcast_ref::<IndexJoinExec>() {
        return match join.origin(at)? {
            From::Outer(column) => Some((0, column)),
            From::Inner(_) => None,
        };
    }
    let join = plan.downcast_ref::<HashJoinExec>()?;
    let at = join.projection.as_ref().map_or(Some(at), |all| all.get(at).copied())?;
    let left = join.left().schema().fields().len();
    match join.join_type() {
        JoinType::Inner if at < left => Some((0, at)),
        JoinType::Inner => Some((1, at - left)),
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
            (at < left && !join.null_aware).then_some((0, at))
        }
        JoinType::Right => (at >= left).then(|| (1, at - left)),
        JoinType::RightSemi | JoinType::RightAnti => (!join.null_aware).then_some((1, at)),
        JoinType::RightMark | JoinType::Full => None,
    }
}

/// A key that is collected.
#[derive(Clone, Debug)]
struct Key {
    number: u64,
    expr: Arc<dyn PhysicalExpr>,
}

/// Passes rows on and collects their keys.
#[derive(Debug)]
pub(crate) struct KeysExec {
    input: Arc<dyn ExecutionPlan>,
    keys: Arc<[Key]>,
    properties: Arc<PlanProperties>,
}

impl KeysExec {
    fn new(input: Arc<dyn ExecutionPlan>, keys: Arc<[Key]>) -> KeysExec {
        let properties = input.properties().clone();
        KeysExec { input, keys, properties }
    }

    pub(crate) fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    /// What is collected.
    pub(crate) fn exprs(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        self.keys.iter().map(|key| &key.expr)
    }
}

impl DisplayAs for KeysExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<String> = self.keys.iter().map(|key| key.expr.to_string()).collect();
        write!(f, "Join Keys: {}", keys.join(", "))
    }
}

impl ExecutionPlan for KeysExec {
    fn name(&self) -> &'static str {
        "KeysExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        for key in &*self.keys {
            if f(&key.expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let input = children.pop().ok_or_else(|| PgError::internal("keys without an input"))?;
        Ok(Arc::new(KeysExec::new(input, self.keys.clone())))
    }

    fn execute(
        &self,
        partition: usize,
        task: Arc<TaskContext>,
    ) -> DfResult<SendableRecordBatchStream> {
        let state: SharedState = task
            .session_config()
            .get_extension::<ExecState>()
            .ok_or_else(|| PgError::internal("a join without a session"))?;
        // Those of an execution before, of the same plan, are not these.
        self.keys.iter().for_each(|key| drop(state.keys.0.lock().remove(&key.number)));
        let one = self.input.output_partitioning().partition_count() == 1;
        let collect = |key: &Key| Collector {
            key: key.clone(),
            found: Vec::new(),
            memory: MemoryConsumer::new("keys of a join").register(task.memory_pool()),
        };
        let collectors = if one { self.keys.iter().map(collect).collect() } else { Vec::new() };
        let input = self.input.execute(partition, task.clone())?;
        let schema = self.input.schema();
        let stream = futures::stream::try_unfold(
            (input, collectors, state),
            |(mut input, mut collectors, state)| async move {
                let Some(batch) = input.next().await.transpose()? else {
                    let sets = collectors.into_iter().filter_map(Collector::finish);
                    state.keys.0.lock().extend(sets);
                    return Ok(None);
                };
                let mut kept = Vec::with_capacity(collectors.len());
                for mut collector in collectors.drain(..) {
                    if collector.take(&batch)? {
                        kept.push(collector);
                    }
                }
                Ok(Some((batch, (input, kept, state))))
            },
        );
        Ok(env::boxed!(RecordBatchStreamAdapter::new(schema, stream)))
    }
}

/// Keys collected so far.
struct Collector {
    key: Key,
    found: Vec<i64>,
    memory: MemoryReservation,
}

impl Collector {
    /// False: they are too many.
    fn take(&mut self, batch: &RecordBatch) -> DfResult<bool> {
        let array = self.key.expr.evaluate(batch)?.into_array(batch.num_rows())?;
        let bytes = array.len() * size_of::<i64>();
        if self.found.len() + array.len() > KEYS_MAX || self.memory.try_grow(bytes).is_err() {
            return Ok(false);
        }
        append(&array, &mut self.found)?;
        Ok(true)
    }

    fn finish(self) -> Option<(u64, Arc<KeySet>)> {
        let Collector { key, found, memory } = self;
        let held = memory.size();
        let set = KeySet::new(found, memory)?;
        set._memory.shrink(held);
        Some((key.number, Arc::new(set)))
    }
}

fn append(array: &ArrayRef, out: &mut Vec<i64>) -> DfResult<()> {
    // NULL equals nothing.
    match array.data_type() {
        DataType::Int16 => {
            out.extend(array.as_primitive::<Int16Type>().iter().flatten().map(i64::from));
        }
        DataType::Int32 => {
            out.extend(array.as_primitive::<Int32Type>().iter().flatten().map(i64::from));
        }
        DataType::Date32 => {
            out.extend(array.as_primitive::<Date32Type>().iter().flatten().map(i64::from));
        }
        DataType::Int64 => out.extend(array.as_primitive::<Int64Type>().iter().flatten()),
        other => return Err(PgError::internal(format!("a join key of type {other}")).into()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};

    fn set(keys: &[i64], bytes: usize) -> Option<KeySet> {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(bytes));
        KeySet::new(keys.to_vec(), MemoryConsumer::new("test").register(&pool))
    }

    #[test]
    fn near_and_far_keys_are_found_and_others_are_not() {
        let far = [i64::MIN, -7, 0, 1 << 40, i64::MAX];
        for keys in [&[5, 6, 900][..], &far[..], &far[1..], &[][..]] {
            let set = set(keys, 1 << 20).expect("room for it");
            for key in [i64::MIN, -8, -7, -1, 0, 1, 4, 5, 6, 7, 899, 900, 901, 1 << 40, i64::MAX] {
                assert_eq!(set.has(key), keys.contains(&key), "{key} of {keys:?}");
            }
        }
    }

    #[test]
    fn without_memory_there_is_no_set() {
        assert!(set(&[1, 1 << 19], 100).is_none());
    }
}
