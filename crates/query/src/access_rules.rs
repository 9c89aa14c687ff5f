//! Which side of a join is held in memory, which joins look rows up in an index, and which sorts an
//! index makes needless: rules among DataFusion's own over physical plans.
//!
//! What they promise: the same rows; where an order was asked for, that order.

use crate::arrow_rows::Source;
use crate::estimate::plan_rows;
use crate::facts::Fact;
use crate::index_join::{From, IndexJoin, IndexJoinExec, Keep, KeyPart};
use crate::scalar::Scalar;
use crate::scan::{Access, ScanExec, ScanWork};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinSide, JoinType, NullEquality};
use datafusion::error::Result as DfResult;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use kernel::dict::{IndexDef, IndexKind};
use kernel::row::TypeKind;
use std::sync::Arc;

/// What finding one row by its address or key costs, in rows of a full scan.
pub(crate) const LOOKUP_ROWS: f64 = 12.0;

/// How many times the rows of one side of a join the other one has before they change places: what
/// is guessed about equally large is left as it is.
const SWAP_FACTOR: f64 = 1.5;

/// DataFusion's rules with ours where they belong: after the sides of joins are chosen, before
/// orders and limits are settled, and at the end.
#[must_use]
pub fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = PhysicalOptimizer::new().rules;
    rules.insert(0, Arc::new(crate::unordered::Unordered));
    let after = rules.iter().position(|rule| rule.name() == "join_selection");
    let at = after.map_or(0, |at| at + 1);
    rules.insert(at, Arc::new(JoinSides));
    rules.insert(at + 1, Arc::new(IndexJoins));
    rules.insert(at + 2, Arc::new(IndexOrder));
    rules.insert(at + 3, Arc::new(UselessHints));
    let sorts = rules.iter().position(|rule| rule.name() == "EnsureRequirements");
    let sorts = sorts.unwrap_or(at + 4);
    rules.insert(sorts, Arc::new(crate::kept_order::KeptOrder));
    rules.insert(sorts + 1, Arc::new(crate::unordered::FilledSides));
    rules.push(Arc::new(crate::unordered::OrdersSettled));
    // By which way each table is read is settled.
    rules.push(Arc::new(crate::scan::SaidFilters));
    rules.push(Arc::new(crate::filter_order::FilterOrder));
    // What stands between a join and its scans is settled.
    rules.push(Arc::new(crate::join_keys::KeysOfJoins));
    rules.push(Arc::new(crate::gather::Gathers));
    rules.push(Arc::new(crate::append::Appends));
    // What steps are is settled: the others know hash joins and windows by their names.
    rules.push(Arc::new(crate::bounds::Bounds));
    rules
}

/// The side of a hash join that is held in memory is the one of fewer rows: DataFusion leaves it
/// where it is for want of statistics behind joins and aggregates.
#[derive(Debug)]
struct JoinSides;

impl PhysicalOptimizerRule for JoinSides {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let rewritten = plan.transform_up(|node| {
            let Some(join) = node.downcast_ref::<HashJoinExec>() else {
                return Ok(Transformed::no(node));
            };
            let larger = plan_rows(join.left()) > plan_rows(join.right()) * SWAP_FACTOR;
            if !larger || join.null_aware || !join.join_type().supports_swap() {
                return Ok(Transformed::no(node));
            }
            Ok(Transformed::yes(join.swap_inputs(PartitionMode::CollectLeft)?))
        })?;
        Ok(rewritten.data)
    }

    fn name(&self) -> &'static str {
        "join_sides"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Hash joins of few rows with an indexed table become look-ups.
#[derive(Debug)]
struct IndexJoins;

impl PhysicalOptimizerRule for IndexJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let rewritten = plan.transform_up(|node| {
            let Some(join) = node.downcast_ref::<HashJoinExec>() else {
                return Ok(Transformed::no(node));
            };
            let sides = [JoinSide::Right, JoinSide::Left];
            let best = sides
                .into_iter()
                .filter_map(|inner| lookup_join(join, inner))
                .min_by(|a, b| a.0.total_cmp(&b.0));
            Ok(match best {
                Some((_, join)) => Transformed::yes(Arc::new(join) as Arc<dyn ExecutionPlan>),
                None => Transformed::no(node),
            })
        })?;
        Ok(rewritten.data)
    }

    fn name(&self) -> &'static str {
        "index_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// What becomes of outer rows, if the join may look up its inner side.
fn keep_of(join: JoinType, inner: JoinSide) -> Option<Keep> {
    Some(match (join, inner) {
        (JoinType::Inner, _) => Keep::Matches,
        (JoinType::Left, JoinSide::Right) | (JoinType::Right, JoinSide::Left) => {
            Keep::MatchesOrNull
        }
        (JoinType::LeftSemi, JoinSide::Right) | (JoinType::RightSemi, JoinSide::Left) => {
            Keep::IfMatched
        }
        (JoinType::LeftAnti, JoinSide::Right) | (JoinType::RightAnti, JoinSide::Left) => {
            Keep::IfUnmatched
        }
        _ => return None,
    })
}

/// The join as look-ups of its inner side, with their cost, if they cost less than hashing.
fn lookup_join(join: &HashJoinExec, inner_side: JoinSide) -> Option<(f64, IndexJoinExec)> {
    if join.null_aware || join.null_equality() != NullEquality::NullEqualsNothing {
        return None;
    }
    let (outer, inner) = match inner_side {
        JoinSide::Right => (join.left(), join.right()),
        _ => (join.right(), join.left()),
    };
    let keep = keep_of(*join.join_type(), inner_side)?;
    let work = inner.downcast_ref::<ScanExec>()?.work();
    if work.target || work.limit.is_some() || work.as_of.is_some() {
        return None;
    }
    let mut keys: Vec<Option<Arc<dyn PhysicalExpr>>> = vec![None; work.types.len()];
    let mut exact = true;
    for (left, right) in join.on() {
        let (outer, inner) = match inner_side {
            JoinSide::Right => (left, right),
            _ => (right, left),
        };
        match joined_column(work, inner) {
            Some(column) if keys[column].is_none() => keys[column] = Some(outer.clone()),
            _ => exact = false,
        }
    }
    let fixed = Access::equal_columns(&work.types, &work.filters);
    let (index, key) = best_index(work, &keys, &fixed)?;
    let used = |column: usize| {
        let position = index.columns.iter().position(|c| usize::from(*c) == column);
        position.is_some_and(|at| at < key.len() && matches!(key[at], KeyPart::Outer(_)))
    };
    // A join column that the key leaves out would have to be compared afterwards.
    let all_used = keys.iter().enumerate().all(|(column, key)| key.is_none() || used(column));
    if !exact || !all_used {
        return None;
    }
    let whole = index.unique && key.len() == index.columns.len();
    let depth = i32::try_from(key.len()).unwrap_or(1);
    let rows = work.size.rows.max(1.0);
    let found = if whole {
        1.0
    } else {
        let columns = index.columns.iter().take(key.len()).map(|column| usize::from(*column));
        rows_of_key(work, columns).unwrap_or((rows * 0.01f64.powi(depth)).max(1.0))
    };
    let outer_rows = plan_rows(outer).max(1.0);
    let cost = outer_rows * (1.0 + found) * LOOKUP_ROWS;
    let other = match &work.access {
        Access::Full => rows,
        _ => work.rows() * LOOKUP_ROWS,
    };
    if cost >= other {
        return None;
    }
    let kept = if rows > 0.0 { (work.rows() / rows).min(1.0) } else { 1.0 };
    let outer_width = outer.schema().fields().len();
    let left_width = join.left().schema().fields().len();
    let all: Vec<From> = match keep {
        Keep::IfMatched | Keep::IfUnmatched => (0..outer_width).map(From::Outer).collect(),
        _ => (0..join.join_schema().fields().len())
            .map(|i| match (i < left_width, inner_side) {
                (true, JoinSide::Right) => From::Outer(i),
                (true, _) => From::Inner(i),
                (false, JoinSide::Right) => From::Inner(i - left_width),
                (false, _) => From::Outer(i - left_width),
            })
            .collect(),
    };
    let columns = match &join.projection {
        Some(projection) => projection.iter().map(|i| all[*i]).collect(),
        None => all,
    };
    let outer_side = match inner_side {
        JoinSide::Right => JoinSide::Left,
        _ => JoinSide::Right,
    };
    let index_join = IndexJoin {
        inner: work.clone(),
        index,
        key,
        keep,
        filter: join.filter().map(|filter| (filter.clone(), outer_side)),
        columns,
        schema: join.schema(),
        limit: join.fetch(),
        found_each: found,
        rows_each: found * kept,
        part: crate::estimate::matched_part(join, inner_side == JoinSide::Right),
    };
    Some((cost, IndexJoinExec::new(outer.clone(), Arc::new(index_join))))
}

/// Rows that have one value of a key, by what is known of its columns.
fn rows_of_key(work: &ScanWork, columns: impl Iterator<Item = usize>) -> Option<f64> {
    let rows = work.size.rows.max(1.0);
    let mut keys = 1.0;
    for column in columns {
        keys *= Fact::of(&work.table, &work.size, column)?.distinct;
    }
    Some((rows / f64::min(keys, rows)).max(1.0))
}

/// The table's column behind a join key, if a look-up by the outer value finds just the rows that
/// equal it.
fn joined_column(work: &ScanWork, inner: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    let integer = |ty: &DataType| matches!(ty, DataType::Int16 | DataType::Int32 | DataType::Int64);
    let column = match inner.downcast_ref::<CastExpr>() {
        // A value that the narrower column cannot hold has no key there.
        Some(cast) if integer(cast.cast_type()) => cast.expr().downcast_ref::<Column>()?,
        Some(_) => return None,
        None => inner.downcast_ref::<Column>()?,
    };
    let ty = work.schema.field(column.index()).data_type();
    let Source::Column(at) = *work.sources.get(column.index())? else { return None };
    let fits = match work.types[at].kind {
        TypeKind::Int2 | TypeKind::Int4 | TypeKind::Int8 => integer(ty),
        TypeKind::Bool
        | TypeKind::Numeric
        | TypeKind::Text
        | TypeKind::Varchar
        | TypeKind::Char
        | TypeKind::Bytea
        | TypeKind::Date
        | TypeKind::Timestamp
        | TypeKind::Timestamptz
        | TypeKind::Uuid
        | TypeKind::Time
        | TypeKind::Enum => inner.downcast_ref::<Column>().is_some(),
        // Their keys are not what DataFusion compares.
        TypeKind::Float4
        | TypeKind::Float8
        | TypeKind::Interval
        | TypeKind::Json
        | TypeKind::Jsonb
        | TypeKind::Array => false,
    };
    fits.then_some(at)
}

/// The index with the most leading columns joined or fixed, at least one of them joined.
fn best_index(
    work: &ScanWork,
    joined: &[Option<Arc<dyn PhysicalExpr>>],
    fixed: &[Option<Scalar>],
) -> Option<(Arc<IndexDef>, Vec<KeyPart>)> {
    let key_of = |index: &IndexDef| -> Vec<KeyPart> {
        let part = |column: &u16| {
            let column = usize::from(*column);
            match (&joined[column], &fixed[column]) {
                (Some(expr), _) => Some(KeyPart::Outer(expr.clone())),
                (None, Some(scalar)) => Some(KeyPart::Fixed(scalar.clone())),
                (None, None) => None,
            }
        };
        index.columns.iter().map_while(part).collect()
    };
    let score = |index: &IndexDef, key: &[KeyPart]| {
        let whole = index.unique && key.len() == index.columns.len();
        (whole, key.len())
    };
    work.table
        .indexes
        .iter()
        .map(|index| (index.clone(), key_of(index)))
        // Keys that are turned round are found as a whole.
        .filter(|(index, key)| index.kind != IndexKind::Reverse || key.len() == index.columns.len())
        .filter(|(_, key)| key.iter().any(|part| matches!(part, KeyPart::Outer(_))))
        .max_by_key(|(index, key)| score(index, key))
}

/// Sorts that an index has done already.
#[derive(Debug)]
struct IndexOrder;

impl PhysicalOptimizerRule for IndexOrder {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let rewritten = plan.transform_down(|node| {
            let Some(sort) = node.downcast_ref::<SortExec>() else {
                return Ok(Transformed::no(node));
            };
            Ok(match ordered(sort)? {
                Some(plan) => Transformed::yes(plan),
                None => Transformed::no(node),
            })
        })?;
        Ok(rewritten.data)
    }

    fn name(&self) -> &'static str {
        "index_order"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Tables that were to be read by an index which neither a condition nor a join nor an order has
/// been able to use are read as if that had not been said.
#[derive(Debug)]
struct UselessHints;

impl PhysicalOptimizerRule for UselessHints {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let rewritten = plan.transform_up(|node| {
            let instead = node.downcast_ref::<ScanExec>().and_then(ScanExec::otherwise);
            Ok(match instead {
                Some(scan) => Transformed::yes(Arc::new(scan) as Arc<dyn ExecutionPlan>),
                None => Transformed::no(node),
            })
        })?;
        if !rewritten.transformed {
            return Ok(rewritten.data);
        }
        // What their other indexes may do for a join or an order.
        let joined = IndexJoins.optimize(rewritten.data, config)?;
        IndexOrder.optimize(joined, config)
    }

    fn name(&self) -> &'static str {
        "useless_hints"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether plans sort values of this kind as keys do.
pub(crate) fn orders_as_keys(kind: TypeKind) -> bool {
    use TypeKind::{Array, Interval, Json, Jsonb};
    !matches!(kind, Interval | Json | Jsonb | Array)
}

/// A column to sort by.
#[derive(Clone, Copy)]
struct SortColumn {
    /// Position in the output of the node at hand, then in the table.
    column: usize,
    descending: bool,
    nulls_first: bool,
}

/// The sort's input in the sort's order by way of an index, if there is one that pays.
fn ordered(sort: &SortExec) -> DfResult<Option<Arc<dyn ExecutionPlan>>> {
    let columns = sort.expr().iter().map(|one| {
        let column = one.expr.downcast_ref::<Column>()?.index();
        let options = one.options;
        let (descending, nulls_first) = (options.descending, options.nulls_first);
        Some(SortColumn { column, descending, nulls_first })
    });
    let Some(columns) = columns.collect::<Option<Vec<_>>>() else { return Ok(None) };
    let Some(plan) = with_order(sort.input(), columns, sort.fetch())? else { return Ok(None) };
    Ok(Some(match sort.fetch() {
        Some(limit) => match plan.with_fetch(Some(limit)) {
            Some(limited) => limited,
            None => Arc::new(GlobalLimitExec::new(plan, 0, Some(limit))),
        },
        None => plan,
    }))
}

/// The plan with its scan in that order; steps that keep the order may stand in between.
fn with_order(
    plan: &Arc<dyn ExecutionPlan>,
    mut columns: Vec<SortColumn>,
    limit: Option<usize>,
) -> DfResult<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        return Ok(ordered_scan(scan.work(), &columns, limit)
            .map(|work| Arc::new(ScanExec::with_work(work)) as Arc<dyn ExecutionPlan>));
    }
    let input = if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        for one in &mut columns {
            match projection.expr()[one.column].expr.downcast_ref::<Column>() {
                Some(below) => one.column = below.index(),
                None => return Ok(None),
            }
        }
        projection.input()
    } else if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        if let Some(projection) = filter.projection() {
            for one in &mut columns {
                one.column = projection[one.column];
            }
        }
        filter.input()
    } else {
        return Ok(None);
    };
    match with_order(input, columns, limit)? {
        Some(input) => Ok(Some(replace_children_if_necessary(plan.clone(), vec![input])?)),
        None => Ok(None),
    }
}

fn ordered_scan(work: &ScanWork, columns: &[SortColumn], limit: Option<usize>) -> Option<ScanWork> {
    if work.limit.is_some() || work.target {
        return None;
    }
    let in_table = columns.iter().map(|one| match work.sources.get(one.column)? {
        Source::Column(column) => Some(SortColumn { column: *column, ..*one }),
        _ => None,
    });
    let mut columns: Vec<SortColumn> = in_table.collect::<Option<_>>()?;
    let options =
        |one: &SortColumn| SortOptions { descending: one.descending, nulls_first: one.nulls_first };
    let asked = columns.iter().map(|one| (one.column, options(one))).collect();
    // What equals one value in all rows orders none of them.
    let fixed = Access::equal_columns(&work.types, &work.filters);
    columns.retain(|one| fixed.get(one.column).is_none_or(Option::is_none));
    let found = if columns.is_empty() { work.clone() } else { by_order(work, &columns, limit)? };
    Some(ScanWork { asked, ..found })
}

/// The scan in the order of these columns of the table.
fn by_order(work: &ScanWork, columns: &[SortColumn], limit: Option<usize>) -> Option<ScanWork> {
    match &work.access {
        Access::Range { index, equal, lower, upper, .. } => {
            let bounded = lower.is_some() || upper.is_some();
            let Some(backward) = direction(work, index, equal.len(), bounded, columns) else {
                return as_narrow(work, columns);
            };
            let mut ordered = work.clone();
            if let Access::Range { backward: to, .. } = &mut ordered.access {
                *to = backward;
            }
            Some(ordered)
        }
        Access::Full | Access::Bits(_) => {
            let now = match &work.access {
                Access::Bits(found) => work.bits_cost(found).unwrap_or(work.size.rows),
                _ => work.size.rows,
            };
            // Rows in the order of an index are found one by one: worth it for the first few only.
            #[allow(clippy::cast_precision_loss)] // a guess
            let wanted = limit? as f64;
            let kept = (work.rows() / work.size.rows.max(1.0)).clamp(1e-9, 1.0);
            if wanted / kept * LOOKUP_ROWS >= now {
                return None;
            }
            // A range that alone was not worth it may be for the first few of its rows.
            if let Some(ranged) = ordered_ranges(work, columns).next() {
                return Some(ranged);
            }
            let computed = work.table.computed.iter().filter(|index| index.predicate.is_none());
            work.table.indexes.iter().chain(computed).find_map(|index| {
                let backward = direction(work, index, 0, false, columns)?;
                let access = Access::whole(index.clone(), backward);
                Some(ScanWork { access, ..work.clone() })
            })
        }
        Access::Keys { .. } | Access::Any { .. } => None,
    }
}

/// The scan by each range of keys that its filters ask for and that comes in that order.
fn ordered_ranges(work: &ScanWork, columns: &[SortColumn]) -> impl Iterator<Item = ScanWork> {
    let offers = Access::offers(&work.table, &work.types, &work.filters);
    let more = Access::offers_before_exprs(&work.table, &work.types, &work.filters);
    let all = offers.into_iter().map(|(access, _)| access).chain(more);
    all.filter_map(move |mut access| {
        let Access::Range { index, equal, lower, upper, backward: to, .. } = &mut access else {
            return None;
        };
        let bounded = lower.is_some() || upper.is_some();
        *to = direction(work, index, equal.len(), bounded, columns)?;
        Some(ScanWork { access, ..work.clone() })
    })
}

/// The scan by a range that comes in that order and is no wider than the chosen one, which does
/// not.
fn as_narrow(work: &ScanWork, columns: &[SortColumn]) -> Option<ScanWork> {
    // One row has no order.
    if work.access.is_of_one() {
        return None;
    }
    let rows = work.rows_found();
    ordered_ranges(work, columns).find(|other| {
        let entries = work.only_index().is_none() || other.only_index().is_some();
        entries && other.rows_found() <= rows
    })
}

/// Whether a condition is that the column has a value.
fn is_not_null(condition: &Scalar, column: usize) -> bool {
    let Scalar::Not(inner) = condition else { return false };
    matches!(&**inner, Scalar::IsNull(of) if **of == Scalar::Column(column))
}

/// Whether the index's entries behind `equal` fixed columns come in that order, and from which end.
fn direction(
    work: &ScanWork,
    index: &IndexDef,
    equal: usize,
    bounded: bool,
    columns: &[SortColumn],
) -> Option<bool> {
    if index.kind == IndexKind::Reverse {
        return None;
    }
    let position = |column: usize| index.columns.iter().position(|c| usize::from(*c) == column);
    let mut next = equal;
    let mut backward = None;
    for one in columns {
        match position(one.column) {
            Some(at) if at < equal => continue,
            Some(at) if at == next => {}
            _ => return None,
        }
        let kind = work.types[one.column].kind;
        if !orders_as_keys(kind) {
            return None;
        }
        let own = index.order(next);
        let turned = one.descending != own.descending;
        // A bound leaves NULLs out, and so does a condition that says so.
        let no_nulls = work.table.columns[one.column].not_null
            || (bounded && next == equal)
            || work.filters.iter().any(|filter| is_not_null(filter, one.column));
        if !no_nulls && (one.nulls_first != own.nulls_first) != turned {
            return None;
        }
        if *backward.get_or_insert(turned) != turned {
            return None;
        }
        next += 1;
        // Behind a whole unique key no further column tells rows apart.
        if index.unique && next == index.columns.len() && no_nulls {
            break;
        }
    }
    Some(backward.unwrap_or(false))
}
