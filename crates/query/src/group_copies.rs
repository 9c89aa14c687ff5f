//! The field's `group_id()`: which copy of its group a row is of, where a query groups by the same
//! columns more than once (`GROUP BY a, ROLLUP(a)`).
//!
//! What it promises: the rows of a group's first copy have 0, those of the next one 1, and so on;
//! without grouping sets all have 0. What it must never do: change what a query without it does.

use crate::error::PgError;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Column;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{
    Accumulator, Aggregate, AggregateUDF, AggregateUDFImpl, Expr, GroupingSet, LogicalPlan,
    Projection, Signature, Volatility, Window, bitwise_shift_right, cast, lit,
};
use datafusion::optimizer::analyzer::AnalyzerRule;
use datafusion::optimizer::analyzer::resolve_grouping_function::ResolveGroupingFunction;
use std::sync::Arc;

const NAME: &str = "group_id";

/// What stands for a call until it is known what is grouped by.
#[derive(Debug, PartialEq, Eq, Hash)]
struct GroupId {
    signature: Signature,
}

/// The function.
pub(crate) fn aggregate() -> Arc<AggregateUDF> {
    let signature = Signature::nullary(Volatility::Immutable);
    Arc::new(AggregateUDF::new_from_impl(GroupId { signature }))
}

impl AggregateUDFImpl for GroupId {
    fn name(&self) -> &'static str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Int32)
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> DfResult<Box<dyn Accumulator>> {
        Err(PgError::new("42809", "group_id() has no window").into())
    }
}

/// The plan with numbers of copies in place of such calls, and with grouping sets that name each
/// column once: what the library counts copies by when it makes the plan and when it runs it would
/// differ otherwise.
///
/// # Errors
/// 42803 for a call in a query that groups by nothing.
pub(crate) fn with_copies(plan: LogicalPlan) -> DfResult<LogicalPlan> {
    let mut changed = false;
    let done = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Aggregate(groups) if groups.aggr_expr.iter().any(is_call) => {
            changed = true;
            Ok(Transformed::yes(numbered(groups)?))
        }
        LogicalPlan::Aggregate(groups) => match plain_sets(&groups.group_expr) {
            Some(plain) => {
                changed = true;
                let groups = Aggregate::try_new(groups.input, plain, groups.aggr_expr)?;
                Ok(Transformed::yes(LogicalPlan::Aggregate(groups)))
            }
            None => Ok(Transformed::no(LogicalPlan::Aggregate(groups))),
        },
        // It shows what is below it, which is other columns now.
        LogicalPlan::Window(window) if changed => {
            let window = Window::try_new(window.window_expr, window.input)?;
            Ok(Transformed::yes(LogicalPlan::Window(window)))
        }
        node => Ok(Transformed::no(node)),
    })?;
    Ok(done.data)
}

fn is_call(expr: &Expr) -> bool {
    match expr {
        Expr::AggregateFunction(call) => call.func.name() == NAME,
        Expr::Alias(named) => is_call(&named.expr),
        _ => false,
    }
}

/// The groups without the calls, and above them what the calls give. The library tells copies of a
/// group apart in the high bits of a column of its own, above a bit for each column that is grouped
/// by.
fn numbered(groups: Aggregate) -> DfResult<LogicalPlan> {
    let Aggregate { input, group_expr, aggr_expr, schema, .. } = groups;
    if group_expr.is_empty() {
        let text = "group_id() is for queries with GROUP BY";
        return Err(PgError::new("42803", text).into());
    }
    let sets = matches!(&group_expr[..], [Expr::GroupingSet(_)]);
    let shown = schema.columns();
    let first = shown.len() - aggr_expr.len();
    let count = first - usize::from(sets);
    let kept = aggr_expr.iter().filter(|expr| !is_call(expr)).cloned().collect();
    let group_expr = plain_sets(&group_expr).unwrap_or(group_expr);
    let below = Aggregate::try_new(input, group_expr, kept)?;
    // What GROUPING gives is worked out from the same column, which is gone above it.
    let below = ResolveGroupingFunction::new()
        .analyze(LogicalPlan::Aggregate(below), &ConfigOptions::default())?;
    let (mut exprs, below) = match below {
        LogicalPlan::Projection(resolved) => (resolved.expr, resolved.input),
        other => {
            let mut columns = other.schema().columns();
            if sets {
                columns.remove(count);
            }
            (columns.into_iter().map(Expr::Column).collect(), Arc::new(other))
        }
    };
    let copy = match u64::try_from(count) {
        Ok(bits) if sets && bits < u64::from(u64::BITS) => {
            let id = Expr::Column(Column::from_name(Aggregate::INTERNAL_GROUPING_ID));
            cast(bitwise_shift_right(cast(id, DataType::UInt64), lit(bits)), DataType::Int32)
        }
        _ => lit(0_i32),
    };
    for (at, column) in shown.into_iter().skip(first).enumerate() {
        if is_call(&aggr_expr[at]) {
            let copy = copy.clone().alias_qualified(column.relation, column.name);
            exprs.insert(count + at, copy);
        }
    }
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, below)?))
}

/// Grouping sets with each column once, in one order: copies of a set are known by being equal.
/// `None`: they are so.
fn plain_sets(group_expr: &[Expr]) -> Option<Vec<Expr>> {
    let [Expr::GroupingSet(GroupingSet::GroupingSets(sets))] = group_expr else { return None };
    let mut all: Vec<&Expr> = Vec::new();
    for expr in sets.iter().flatten() {
        if !all.contains(&expr) {
            all.push(expr);
        }
    }
    let plain = |set: &Vec<Expr>| -> Vec<Expr> {
        all.iter().filter(|expr| set.contains(expr)).map(|expr| (*expr).clone()).collect()
    };
    let plain: Vec<Vec<Expr>> = sets.iter().map(plain).collect();
    let differ = plain != *sets;
    differ.then(|| vec![Expr::GroupingSet(GroupingSet::GroupingSets(plain))])
}
