//! Types of the columns of UNION, INTERSECT and EXCEPT: an untyped literal takes that of the other
//! side. And of VALUES as a union of its rows, where it takes that of all the others.
//!
//! What it promises: a literal that is no value of that type is 22P02. What it must never do: make
//! texts of numbers because one side has a literal in quotes.

use crate::expr_planner::adopt;
use crate::floats;
use crate::scalar::common_number;
use crate::types::col_type_of;
use crate::wire::FormatEnv;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{JoinType, NullEquality, ScalarValue};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{Distinct, Expr, Join, LogicalPlan, Projection, Union};
use kernel::row::TypeKind;
use std::sync::Arc;

/// The plan with typed literals in its unions.
pub(crate) fn with_set_types(plan: LogicalPlan, env: FormatEnv) -> DfResult<LogicalPlan> {
    let mut changed = false;
    let rewrite = |node: LogicalPlan| -> DfResult<Transformed<LogicalPlan>> {
        match node {
            LogicalPlan::Union(union) => {
                let inputs = match is_of_values(&union) {
                    true => given(&union.inputs, env)?,
                    false => adopted(&union, env)?,
                };
                let floats = floats::branches(inputs.as_ref().unwrap_or(&union.inputs))?;
                let inputs = floats.or(inputs);
                if inputs.is_none() && !changed {
                    return Ok(Transformed::no(LogicalPlan::Union(union)));
                }
                changed = true;
                let inputs = inputs.unwrap_or(union.inputs);
                let union = Union::try_new_with_loose_types(inputs)?;
                Ok(Transformed::yes(LogicalPlan::Union(union)))
            }
            LogicalPlan::Join(mut join) if is_set_operation(&join) => {
                if let Some((left, right)) = in_join(&join, env)? {
                    changed = true;
                    (join.left, join.right) = (left, right);
                }
                if let Some([left, right]) = floats::sides(&join)? {
                    changed = true;
                    (join.left, join.right) = (left, right);
                }
                match changed {
                    true => LogicalPlan::Join(join).recompute_schema().map(Transformed::yes),
                    false => Ok(Transformed::no(LogicalPlan::Join(join))),
                }
            }
            // What stands above may show other types now.
            other if changed => other.recompute_schema().map(Transformed::yes),
            other => Ok(Transformed::no(other)),
        }
    };
    Ok(plan.transform_up_with_subqueries(rewrite)?.data)
}

/// Whether a join is what the library makes of INTERSECT or EXCEPT.
pub(crate) fn is_set_operation(join: &Join) -> bool {
    join.null_equality == NullEquality::NullEqualsNull
        && matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
}

/// What a branch shows: below LIMIT, and what the library puts over it to leave out duplicates.
pub(crate) fn branch(plan: &LogicalPlan, with_distinct: bool) -> &LogicalPlan {
    match plan {
        LogicalPlan::Limit(limit) => branch(&limit.input, with_distinct),
        LogicalPlan::Distinct(Distinct::All(input)) if with_distinct => {
            branch(input, with_distinct)
        }
        LogicalPlan::SubqueryAlias(alias) if with_distinct => branch(&alias.input, with_distinct),
        other => other,
    }
}

/// The sides of INTERSECT or EXCEPT with literals of each other's types; `None`: there are none.
fn in_join(join: &Join, env: FormatEnv) -> DfResult<Option<(Arc<LogicalPlan>, Arc<LogicalPlan>)>> {
    let sides = [&join.left, &join.right];
    let width = join.left.schema().fields().len();
    if join.right.schema().fields().len() != width {
        return Ok(None);
    }
    let mut new = [None, None];
    for at in 0..width {
        let untyped = sides.map(|side| is_untyped(branch(side, true), at));
        if untyped[0] == untyped[1] {
            continue;
        }
        let (own, other) = if untyped[0] { (0, 1) } else { (1, 0) };
        let ty = sides[other].schema().field(at).data_type();
        let plan = new[own].take().unwrap_or_else(|| sides[own].as_ref().clone());
        new[own] = Some(retyped(plan, at, ty, &env)?);
    }
    if new.iter().all(Option::is_none) {
        return Ok(None);
    }
    let [left, right] = new;
    let side = |new: Option<LogicalPlan>, old: &Arc<LogicalPlan>| new.map_or(old.clone(), Arc::new);
    Ok(Some((side(left, &join.left), side(right, &join.right))))
}

/// A branch whose column has another type, down to the list that shows it.
fn retyped(plan: LogicalPlan, at: usize, ty: &DataType, env: &FormatEnv) -> DfResult<LogicalPlan> {
    if let LogicalPlan::Projection(old) = &plan {
        let mut list = old.expr.clone();
        list[at] = with_type(list[at].clone(), ty, env)?;
        return Ok(LogicalPlan::Projection(Projection::try_new(list, old.input.clone())?));
    }
    let [input] = plan.inputs()[..] else { return Ok(plan) };
    let input = retyped(input.clone(), at, ty, env)?;
    plan.with_new_exprs(plan.expressions(), vec![input])
}

/// What a branch shows in a column, if it is a plain list of expressions.
fn shown(branch: &LogicalPlan, at: usize) -> Option<&Expr> {
    let LogicalPlan::Projection(list) = branch else { return None };
    let mut expr = list.expr.get(at)?;
    while let Expr::Alias(alias) = expr {
        expr = &alias.expr;
    }
    Some(expr)
}

/// Whether a column has the type of nothing yet.
pub(crate) fn is_untyped(branch: &LogicalPlan, at: usize) -> bool {
    shown(branch, at).is_some_and(is_open)
        || *branch.schema().field(at).data_type() == DataType::Null
}

/// The branches with literals and parameters of the other branch's type; `None`: there are none.
fn adopted(union: &Union, env: FormatEnv) -> DfResult<Option<Vec<Arc<LogicalPlan>>>> {
    let [left, right] = &union.inputs[..] else { return Ok(None) };
    let width = left.schema().fields().len();
    if right.schema().fields().len() != width {
        return Ok(None);
    }
    let mut branches = [None, None];
    for at in 0..width {
        match (is_untyped(left, at), is_untyped(right, at)) {
            (true, true) | (false, false) => {}
            (own, _) => {
                let (from, to) = if own { (0, right) } else { (1, left) };
                let ty = to.schema().field(at).data_type();
                let old = if own { left } else { right };
                let list = branches[from].take().or_else(|| match &**old {
                    LogicalPlan::Projection(list) => Some(list.expr.clone()),
                    _ => None,
                });
                let Some(mut list) = list else { continue };
                list[at] = with_type(list[at].clone(), ty, &env)?;
                branches[from] = Some(list);
            }
        }
    }
    if branches.iter().all(Option::is_none) {
        return Ok(None);
    }
    let mut out = Vec::with_capacity(2);
    for (branch, list) in [left, right].into_iter().zip(branches) {
        out.push(match (&**branch, list) {
            (LogicalPlan::Projection(old), Some(list)) => {
                let new = Projection::try_new(list, old.input.clone())?;
                Arc::new(LogicalPlan::Projection(new))
            }
            _ => branch.clone(),
        });
    }
    Ok(Some(out))
}

/// Whether a union is one of rows of VALUES, by the names of its columns.
fn is_of_values(union: &Union) -> bool {
    let mut fields = union.schema.fields().iter().enumerate();
    fields.all(|(at, field)| *field.name() == format!("column{}", at + 1))
}

/// Whether a type has room for values of another one, too: numbers, or days and moments.
fn holds_both(wide: &DataType, other: &DataType) -> bool {
    let kind = |ty| col_type_of(ty).map(|ty| ty.kind);
    let (Some(wide), Some(other)) = (kind(wide), kind(other)) else { return false };
    let moments = [TypeKind::Date, TypeKind::Timestamp, TypeKind::Timestamptz];
    let rank = |kind: TypeKind| moments.iter().position(|known| *known == kind);
    if let (Some(wide), Some(other)) = (rank(wide), rank(other)) {
        return wide > other;
    }
    wide != other && common_number(wide, other) == Some(wide)
}

/// The type that the rows have in a column, but for what is untyped.
fn typed(rows: &[Arc<LogicalPlan>], at: usize) -> Option<DataType> {
    let types = rows.iter().filter_map(|row| match &**row {
        LogicalPlan::Union(union) => typed(&union.inputs, at),
        row if is_untyped(row, at) => None,
        row => Some(row.schema().field(at).data_type().clone()),
    });
    types.reduce(|known, new| if holds_both(&new, &known) { new } else { known })
}

/// The rows with literals and parameters of the type that the others have; `None`: there are none.
fn given(rows: &[Arc<LogicalPlan>], env: FormatEnv) -> DfResult<Option<Vec<Arc<LogicalPlan>>>> {
    let width = rows.iter().map(|row| row.schema().fields().len()).min().unwrap_or(0);
    let mut new: Option<Vec<Arc<LogicalPlan>>> = None;
    for at in 0..width {
        let old = new.as_deref().unwrap_or(rows);
        if let Some(ty) = typed(old, at)
            && let Some(all) = of_type(old, at, &ty, &env)?
        {
            new = Some(all);
        }
    }
    Ok(new)
}

/// The rows with what is untyped in a column of this type; `None`: nothing is.
fn of_type(
    rows: &[Arc<LogicalPlan>],
    at: usize,
    ty: &DataType,
    env: &FormatEnv,
) -> DfResult<Option<Vec<Arc<LogicalPlan>>>> {
    let mut changed = false;
    let mut all = Vec::with_capacity(rows.len());
    for row in rows {
        let new = match &**row {
            LogicalPlan::Union(union) => of_type(&union.inputs, at, ty, env)?
                .map(Union::try_new_with_loose_types)
                .transpose()?
                .map(LogicalPlan::Union),
            LogicalPlan::Projection(old) if shown(row, at).is_some_and(is_open) => {
                let mut list = old.expr.clone();
                list[at] = with_type(list[at].clone(), ty, env)?;
                Some(LogicalPlan::Projection(Projection::try_new(list, old.input.clone())?))
            }
            _ => None,
        };
        changed |= new.is_some();
        all.push(new.map_or_else(|| row.clone(), Arc::new));
    }
    Ok(changed.then_some(all))
}

/// A literal that is read as whatever is wanted, or a parameter without a type.
fn is_open(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(ScalarValue::Utf8(Some(_)), _) => true,
        Expr::Placeholder(parameter) => parameter.field.is_none(),
        _ => false,
    }
}

fn with_type(expr: Expr, ty: &DataType, env: &FormatEnv) -> DfResult<Expr> {
    let name = expr.schema_name().to_string();
    let inner = expr.unalias();
    let new = adopt(inner, None, Some(ty), env)?;
    Ok(if new.schema_name().to_string() == name { new } else { new.alias(name) })
}
