//! Correlated subqueries that the library would turn into a join of other rows.
//!
//! It moves a condition on outer columns above all that stands over it in the subquery, as if
//! windows, DISTINCT, a second aggregate or an outer join gave the same without it. A window that
//! is partitioned by what such conditions compare for equality does; where nothing helps, the
//! subquery is to be run row by row. So it is where an aggregate's one row of no rows counts:
//! under a filter, and where rows are looked for.
//!
//! What it promises: a plan that is not complained of has the rows that are written, whatever the
//! library makes of its subqueries. What it must never do: complain of a plan without outer
//! columns.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{ExprSchema, JoinType, Result as DfResult};
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, Expr, Limit, LogicalPlan, Operator, Window,
};

/// The plan with windows partitioned by what correlates their rows, and whether the library would
/// get a subquery of it wrong.
pub(crate) fn partitioned(plan: LogicalPlan) -> DfResult<(LogicalPlan, bool)> {
    let mut walk = Walk { wrong: false };
    let (plan, _) = walk.plan(plan, Asked::Rows)?;
    Ok((plan, walk.wrong))
}

/// What is asked of a subquery.
#[derive(Clone, Copy, PartialEq)]
enum Asked {
    Rows,
    /// Whether a row, or a value, is among its rows, however often.
    Any,
}

/// The conditions on outer columns that stand in a plan.
#[derive(Default)]
struct Found {
    /// Whether there are any.
    any: bool,
    /// Whether one is more than the equality of a column with what is outer.
    beyond_columns: bool,
    /// What they compare for equality, in the plan's own columns; `None` where one is something
    /// else, or the plan does not show it.
    equal: Option<Vec<Expr>>,
    /// Whether there are rows even where no row satisfies them.
    always_a_row: bool,
}

impl Found {
    fn nothing() -> Found {
        Found { equal: Some(Vec::new()), ..Found::default() }
    }

    fn with(mut self, other: Found) -> Found {
        self.any |= other.any;
        self.beyond_columns |= other.beyond_columns;
        self.always_a_row |= other.always_a_row;
        self.equal = match (self.equal, other.equal) {
            (Some(mut own), Some(others)) => {
                own.extend(others);
                Some(own)
            }
            _ => None,
        };
        self
    }
}

struct Walk {
    wrong: bool,
}

impl Walk {
    fn plan(&mut self, plan: LogicalPlan, asked: Asked) -> DfResult<(LogicalPlan, Found)> {
        let below = match &plan {
            LogicalPlan::Window(_) | LogicalPlan::Limit(_) => Asked::Rows,
            LogicalPlan::Aggregate(aggregate) if !aggregate.aggr_expr.is_empty() => Asked::Rows,
            _ => asked,
        };
        // A subquery's conditions are its own: those on columns further out are seen again there.
        let boundary = matches!(plan, LogicalPlan::Subquery(_));
        let (mut found, mut at) = (Found::nothing(), 0);
        let join = match &plan {
            LogicalPlan::Join(join) => Some(join.join_type),
            _ => None,
        };
        let recursive = matches!(plan, LogicalPlan::RecursiveQuery(_));
        let plan = plan.map_children(|child| {
            let (child, of_child) = self.plan(child, below)?;
            if of_child.any && !boundary {
                let kept = join.is_none_or(|join| stays(join, at));
                self.wrong |= !kept || recursive || (join.is_some() && of_child.always_a_row);
            }
            at += 1;
            found = std::mem::replace(&mut found, Found::nothing()).with(of_child);
            Ok(Transformed::yes(child))
        })?;
        let plan = self.in_expressions(plan.data)?;
        if boundary {
            return Ok((plan, Found::nothing()));
        }
        self.node(plan, found, asked)
    }

    /// The subqueries in the expressions of a node.
    fn in_expressions(&mut self, plan: LogicalPlan) -> DfResult<LogicalPlan> {
        let mut has = false;
        plan.apply_subqueries(|_| {
            has = true;
            Ok(TreeNodeRecursion::Stop)
        })?;
        if !has {
            return Ok(plan);
        }
        let plan = plan.map_expressions(|expr| {
            expr.transform_up(|mut part| {
                let asked = match part {
                    Expr::Exists(_) | Expr::InSubquery(_) => Asked::Any,
                    _ => Asked::Rows,
                };
                let exists = matches!(part, Expr::Exists(_));
                let looks = !matches!(part, Expr::ScalarSubquery(_));
                let Some(subquery) = crate::further_out::subquery_of(&mut part) else {
                    return Ok(Transformed::no(part));
                };
                let (inner, found) = self.plan(subquery.subquery.as_ref().clone(), asked)?;
                // The library leaves out OFFSET where it looks for any row.
                self.wrong |= exists && found.any && skips(&inner);
                // It joins with groups, of which there is none without rows.
                self.wrong |= looks && found.any && found.always_a_row;
                subquery.subquery = std::sync::Arc::new(inner);
                Ok(Transformed::yes(part))
            })
        })?;
        Ok(plan.data)
    }

    /// What a node makes of the conditions below it, and adds to them.
    fn node(
        &mut self,
        plan: LogicalPlan,
        found: Found,
        asked: Asked,
    ) -> DfResult<(LogicalPlan, Found)> {
        let found = match &plan {
            LogicalPlan::Filter(filter) => {
                // What it makes of a row that is there without rows is known of few conditions.
                self.wrong |= found.any && found.always_a_row;
                let conditions = split_conjunction(&filter.predicate).into_iter();
                let outer = conditions.filter(|condition| condition.contains_outer());
                outer.map(|one| condition(one, &filter.input)).fold(found, Found::with)
            }
            _ if !found.any => found,
            LogicalPlan::Window(window) => {
                self.wrong |= found.equal.is_none() || found.always_a_row;
                let by = found.equal.clone().unwrap_or_default();
                let plan = LogicalPlan::Window(by_all(window, &by)?);
                return Ok((plan, found));
            }
            LogicalPlan::Distinct(Distinct::All(_)) => {
                let inexact = found.equal.is_none() || found.beyond_columns;
                self.wrong |= asked == Asked::Rows && (inexact || found.always_a_row);
                found
            }
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate, found, asked),
            LogicalPlan::Projection(projection) => {
                let shown = |expr: &Expr| projection.expr.contains(expr);
                let equal = found.equal.filter(|all| all.iter().all(shown));
                Found { equal, ..found }
            }
            LogicalPlan::Join(_) | LogicalPlan::Sort(_) => found,
            _ => Found { equal: None, ..found },
        };
        Ok((plan, found))
    }

    fn aggregate(&mut self, aggregate: &Aggregate, found: Found, asked: Asked) -> Found {
        let distinct = aggregate.aggr_expr.is_empty();
        // The library refuses all else over aggregates by itself.
        let inexact = found.equal.is_none() || found.beyond_columns;
        let counted = asked == Asked::Rows || !distinct;
        self.wrong |= counted && (found.always_a_row || (distinct && inexact));
        // Casts are seen through by the library, as if no two values were one afterwards.
        self.wrong |= !distinct && found.beyond_columns && found.equal.is_some();
        let groups = |expr: &Expr| aggregate.group_expr.contains(expr);
        let equal = found.equal.filter(|all| all.iter().all(groups));
        // A column more to group by is none of any of the sets.
        let sets = |expr: &Expr| matches!(expr, Expr::GroupingSet(_));
        self.wrong |= aggregate.group_expr.iter().any(sets);
        let always_a_row = found.always_a_row || crate::sure_rows::gives_without_rows(aggregate);
        Found { equal, always_a_row, ..found }
    }
}

/// Whether rows of one side of a join (0: the left) are those of its result, if it has them at all.
fn stays(join: JoinType, side: usize) -> bool {
    use JoinType::{Inner, Left, LeftAnti, LeftMark, LeftSemi, Right, RightAnti, RightSemi};
    match join {
        Inner => true,
        Left | LeftSemi | LeftAnti | LeftMark => side == 0,
        Right | RightSemi | RightAnti => side == 1,
        _ => false,
    }
}

fn skips(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Limit(Limit { skip: Some(_), .. }) => true,
        LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Limit(_) => {
            plan.inputs().iter().any(|input| skips(input))
        }
        _ => false,
    }
}

/// What one condition on outer columns is.
fn condition(condition: &Expr, input: &LogicalPlan) -> Found {
    let other = Found { any: true, beyond_columns: true, ..Found::default() };
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else {
        return other;
    };
    let own = |expr: &Expr| expr.any_column_refs() && !expr.contains_outer();
    let outer = |expr: &Expr| !expr.any_column_refs() && expr.contains_outer();
    let side = match (left, right) {
        (side, with) | (with, side) if own(side) && outer(with) => side,
        _ => return other,
    };
    let has_subquery = crate::outer_join::holds_subquery(side);
    if side.is_volatile() || has_subquery.unwrap_or(true) {
        return other;
    }
    let beyond_columns = match &**side {
        Expr::Column(_) => false,
        Expr::Cast(cast) => match &*cast.expr {
            Expr::Column(column) => {
                let from = input.schema().data_type(column);
                !(from.is_ok_and(DataType::is_integer) && cast.field.data_type().is_integer())
            }
            _ => true,
        },
        _ => true,
    };
    let equal = Some(vec![side.as_ref().clone()]);
    Found { any: true, beyond_columns, equal, always_a_row: false }
}

/// The windows partitioned by `by` too, under their old names.
fn by_all(window: &Window, by: &[Expr]) -> DfResult<Window> {
    let exprs = window.window_expr.iter().map(|expr| {
        let name = expr.schema_name().to_string();
        match expr.clone().unalias() {
            Expr::WindowFunction(mut function) => {
                let WindowFunction { params, .. } = function.as_mut();
                for one in by {
                    if !params.partition_by.contains(one) {
                        params.partition_by.push(one.clone());
                    }
                }
                Expr::WindowFunction(function).alias(name)
            }
            other => other.alias(name),
        }
    });
    Window::try_new(exprs.collect(), window.input.clone())
}
