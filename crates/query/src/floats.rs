//! Numbers of several types, a floating one among them, where all become of one type: arguments of
//! COALESCE, GREATEST, LEAST and ARRAY, results of CASE, columns of set operations, and what CASE
//! compares. The library would make numerics of them, which lose digits.
//!
//! What it promises: PostgreSQL's type: double precision where one of them is, else real; compared
//! are they as double precision. What it must never do: touch numbers of one type, or anything
//! else among numbers, which is the business of [`crate::common_types`].

use crate::expr_planner::as_double;
use crate::scalar::common_number;
use crate::types::col_type_of;
use crate::wire::FormatEnv;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{
    Distinct, Expr, ExprSchemable, Join, LogicalPlan, Projection, cast as cast_expr,
};
use kernel::row::{ColType, TypeKind};
use std::sync::Arc;

fn is_number(ty: &DataType) -> bool {
    col_type_of(ty).is_some_and(|ty| common_number(ty.kind, ty.kind).is_some())
}

/// The floating type that numbers of these types have in common; `None`: all are of one type, none
/// is floating, or one is no number.
pub(crate) fn common(types: &[DataType]) -> Option<DataType> {
    let known = || types.iter().filter(|ty| **ty != DataType::Null);
    let first = known().next()?;
    if known().all(|ty| ty == first) || !known().all(is_number) {
        return None;
    }
    [DataType::Float64, DataType::Float32].into_iter().find(|ty| types.contains(ty))
}

/// A number as one of a floating type.
fn as_float(expr: Expr, own: &DataType, to: &DataType) -> Expr {
    match (own, to) {
        (_, DataType::Float64) => as_double(expr, own),
        (DataType::Decimal128(..), _) => {
            let real = ColType::new(TypeKind::Float4);
            crate::functions::cast_expr(expr, real, FormatEnv::plain())
        }
        _ => cast_expr(expr, to.clone()),
    }
}

/// Makes expressions that are numbers of several types one floating type, if one is; whether there
/// was something to do.
///
/// # Errors
/// None but the library's.
pub(crate) fn made_alike(
    all: Vec<&mut Expr>,
    schema: &DFSchema,
    are_compared: bool,
) -> DfResult<bool> {
    let of = |expr: &Expr| expr.get_type(schema).unwrap_or(DataType::Null);
    let types: Vec<DataType> = all.iter().map(|expr| of(expr)).collect();
    let Some(to) = common(&types) else { return Ok(false) };
    let to = if are_compared { DataType::Float64 } else { to };
    for (expr, own) in all.into_iter().zip(&types) {
        if *own != to && *own != DataType::Null {
            *expr = as_float(std::mem::take(expr), own, &to);
        }
    }
    Ok(true)
}

/// The floating types of columns of rows that are put together, where they have one.
fn of_columns(inputs: &[&LogicalPlan]) -> Vec<Option<DataType>> {
    let width = inputs.iter().map(|input| input.schema().fields().len()).min().unwrap_or(0);
    let ty = |input: &&LogicalPlan, at: usize| input.schema().field(at).data_type().clone();
    (0..width)
        .map(|at| common(&inputs.iter().map(|input| ty(input, at)).collect::<Vec<_>>()))
        .collect()
}

/// As [`with_types`], below what the library has put there to leave out duplicates: there are more
/// of them among floating numbers.
fn with_types_below(plan: &LogicalPlan, types: &[Option<DataType>]) -> DfResult<LogicalPlan> {
    match plan {
        LogicalPlan::Distinct(Distinct::All(input)) => {
            let input = Arc::new(with_types_below(input, types)?);
            Ok(LogicalPlan::Distinct(Distinct::All(input)))
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let input = with_types_below(&alias.input, types)?;
            plan.with_new_exprs(Vec::new(), vec![input])
        }
        plan => with_types(plan, types),
    }
}

/// Rows with columns of these types.
fn with_types(plan: &LogicalPlan, types: &[Option<DataType>]) -> DfResult<LogicalPlan> {
    let columns = plan.schema().iter().zip(types).map(|((qualifier, field), to)| {
        let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
        match to {
            Some(to) if to != field.data_type() && !field.data_type().is_null() => {
                as_float(column, field.data_type(), to)
                    .alias_qualified(qualifier.cloned(), field.name())
            }
            _ => column,
        }
    });
    let columns = columns.collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan.clone()))?))
}

/// The branches of a UNION, or rows of VALUES, with floating numbers where one has them; `None`:
/// there is nothing to do.
///
/// # Errors
/// None but the library's.
pub(crate) fn branches(inputs: &[Arc<LogicalPlan>]) -> DfResult<Option<Vec<Arc<LogicalPlan>>>> {
    let types = of_columns(&inputs.iter().map(|input| &**input).collect::<Vec<_>>());
    if types.iter().all(Option::is_none) {
        return Ok(None);
    }
    let all = inputs.iter().map(|input| with_types(input, &types).map(Arc::new));
    all.collect::<DfResult<Vec<_>>>().map(Some)
}

/// As [`branches`], of what the library makes of INTERSECT and EXCEPT.
///
/// # Errors
/// None but the library's.
pub(crate) fn sides(join: &Join) -> DfResult<Option<[Arc<LogicalPlan>; 2]>> {
    let types = of_columns(&[&*join.left, &*join.right]);
    if types.iter().all(Option::is_none) {
        return Ok(None);
    }
    let side = |plan: &LogicalPlan| with_types_below(plan, &types).map(Arc::new);
    Ok(Some([side(&join.left)?, side(&join.right)?]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_a_floating_type_in_common_if_one_is_floating() {
        use DataType::{Decimal128, Float32, Float64, Int32, Null, Utf8};
        let of = |types: &[DataType]| common(types);
        assert_eq!(of(&[Decimal128(38, 2), Null, Float64]), Some(Float64));
        assert_eq!(of(&[Float32, Decimal128(38, 2)]), Some(Float32));
        assert_eq!(of(&[Float32, Int32, Float64]), Some(Float64));
        assert_eq!(of(&[Float64, Null]), None);
        assert_eq!(of(&[Int32, Decimal128(38, 2)]), None);
        assert_eq!(of(&[Float64, Int32, Utf8]), None);
        assert_eq!(of(&[]), None);
    }
}
