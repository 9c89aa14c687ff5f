//! A value and the column of a subquery that it is looked for in: IN, ANY, ALL. They are compared
//! by the library alone, which knows none of PostgreSQL's rules.
//!
//! What it promises: intervals, jsonb and arrays by their keys, floating numbers beside others as
//! double precision, char(n) by the rules of its blanks. What it must never do: change what the
//! subquery finds.

use crate::expr_planner::{as_double, as_doubles};
use crate::ordering::{key_of, keyed, kind_of};
use crate::sides::{beside_char, is_padded};
use crate::wire::FormatEnv;
use datafusion::common::DFSchema;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlanBuilder, Subquery};
use std::sync::Arc;

/// What a subquery's column is called beside a value.
const FOUND: &str = "$found";

/// Makes both comparable; whether there was something to change.
///
/// # Errors
/// None but the library's.
pub(crate) fn made_alike(
    value: &mut Expr,
    subquery: &mut Subquery,
    schema: &DFSchema,
    env: FormatEnv,
) -> DfResult<bool> {
    let inner = subquery.subquery.schema().clone();
    let Some(column) = inner.columns().into_iter().next().map(Expr::Column) else {
        return Ok(false);
    };
    let (own, found) = compared((value, schema), (&column, &inner), env)?;
    let changed = own != *value || found != column;
    if found != column {
        let plan = subquery.subquery.as_ref().clone();
        let plan = LogicalPlanBuilder::from(plan).project(vec![found])?.build()?;
        subquery.subquery = Arc::new(plan);
    }
    *value = own;
    Ok(changed)
}

/// The same for a comparison that becomes a condition beside the subquery's rows: their column has
/// a name that nothing around it has, since the library tells columns apart by nothing else.
///
/// # Errors
/// None but the library's.
pub(crate) fn made_alike_inside(
    value: &mut Expr,
    subquery: &mut Subquery,
    schema: &DFSchema,
    env: FormatEnv,
) -> DfResult<()> {
    made_alike(value, subquery, schema, env)?;
    let inner = subquery.subquery.as_ref().clone();
    let Some(column) = inner.schema().columns().into_iter().next() else { return Ok(()) };
    let taken = |name: &str| schema.fields().iter().any(|field| field.name() == name);
    let mut name = FOUND.to_owned();
    while taken(&name) {
        name.push('+');
    }
    let found = Expr::Column(column).alias(name);
    let plan = LogicalPlanBuilder::from(inner).project(vec![found])?.build()?;
    subquery.subquery = Arc::new(plan);
    Ok(())
}

/// What is compared instead of the two.
fn compared(
    (value, schema): (&Expr, &DFSchema),
    (column, inner): (&Expr, &DFSchema),
    env: FormatEnv,
) -> DfResult<(Expr, Expr)> {
    let (own, found) = (value.clone(), column.clone());
    if keyed(kind_of(value, schema)) {
        return Ok((key_of(own, schema)?, key_of(found, inner)?));
    }
    if let (Ok(lt), Ok(rt)) = (value.get_type(schema), column.get_type(inner))
        && as_doubles(&lt, &rt)
    {
        return Ok((as_double(own, &lt), as_double(found, &rt)));
    }
    Ok(match (is_padded(value, schema), is_padded(column, inner)) {
        (false, true) => (beside_char(own, schema, env), found),
        (true, false) => (own, beside_char(found, inner, env)),
        _ => (own, found),
    })
}
