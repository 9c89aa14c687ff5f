//! Constants that are compared, in one form each.
//!
//! The library takes literals for different values when one is of a type with a limit and the other
//! is not, or one is zero and the other negative zero: `s = 'x' and s = 'x'::varchar` would be
//! false, and of `s = 'x' and s <> 'x'::varchar` it would keep the first half alone.
//!
//! What it promises: literals of one value are one literal before conditions are looked at
//! together. What it must never do: work out what is not the same each time, or complain of what
//! cannot be worked out, which may never be asked for.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator, Volatility};
use datafusion::optimizer::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use std::sync::Arc;

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// The rules, with plain literals before the one that simplifies conditions.
pub(crate) fn with_plain_literals(mut rules: Vec<Rule>) -> Vec<Rule> {
    let at = rules.iter().position(|rule| rule.name() == "simplify_expressions");
    rules.insert(at.unwrap_or(0), Arc::new(PlainLiterals));
    rules
}

#[derive(Debug)]
struct PlainLiterals;

impl OptimizerRule for PlainLiterals {
    fn name(&self) -> &'static str {
        "plain_literals"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> DfResult<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Filter(_) | LogicalPlan::Projection(_) | LogicalPlan::Join(_) => {
                plain(plan, config)
            }
            other => Ok(Transformed::no(other)),
        }
    }
}

/// A node with plain literals in its comparisons.
///
/// # Errors
/// The library's.
pub(crate) fn plain(
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> DfResult<Transformed<LogicalPlan>> {
    let mut found = false;
    plan.apply_expressions(|expr| {
        found = found || expr.exists(|part| Ok(compared(part).any(is_special)))?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !found {
        return Ok(Transformed::no(plan));
    }
    let context = SimplifyContext::builder().with_config_options(config.options()).build();
    let simplifier = ExprSimplifier::new(context);
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        let saved = names.save(&expr);
        let done = expr.transform_up(|part| Ok(with_plain_sides(part, &simplifier)))?;
        Ok(done.update_data(|expr| saved.restore(expr)))
    })
}

/// What an expression compares.
fn compared(expr: &Expr) -> impl Iterator<Item = &Expr> {
    let (sides, list): ([Option<&Expr>; 2], &[Expr]) = match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => {
            ([Some(&**left), Some(&**right)], &[])
        }
        Expr::InList(InList { expr, list, .. }) => ([Some(&**expr), None], list.as_slice()),
        _ => ([None, None], &[]),
    };
    sides.into_iter().flatten().chain(list)
}

fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

fn with_plain_sides(mut expr: Expr, simplifier: &ExprSimplifier) -> Transformed<Expr> {
    let mut changed = false;
    let mut put = |side: &mut Expr| {
        if let Some(plain) = literal(side, simplifier) {
            *side = plain;
            changed = true;
        }
    };
    match &mut expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => {
            put(left);
            put(right);
        }
        Expr::InList(InList { expr, list, .. }) => {
            put(expr);
            list.iter_mut().for_each(put);
        }
        _ => {}
    }
    Transformed::new_transformed(expr, changed)
}

/// Whether there may be a plainer form of what is compared.
fn is_special(side: &Expr) -> bool {
    match side {
        Expr::Literal(value, metadata) => metadata.is_some() || plain_number(value).is_some(),
        Expr::ScalarFunction(_) => is_constant(side),
        // Others become literals without a past by themselves.
        Expr::Cast(cast) => {
            let floating = matches!(cast.field.data_type(), DataType::Float32 | DataType::Float64);
            (floating || has_call(&cast.expr)) && is_constant(side)
        }
        _ => false,
    }
}

fn has_call(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(cast) => has_call(&cast.expr),
        other => matches!(other, Expr::ScalarFunction(_)),
    }
}

/// Whether an expression is the same at all times.
fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(..) => true,
        Expr::Cast(cast) => is_constant(&cast.expr),
        Expr::ScalarFunction(call) => {
            call.func.signature().volatility == Volatility::Immutable
                && call.args.iter().all(is_constant)
        }
        _ => false,
    }
}

/// The plainer form, if there is one.
fn literal(side: &Expr, simplifier: &ExprSimplifier) -> Option<Expr> {
    if !is_special(side) {
        return None;
    }
    let value = match side {
        Expr::Literal(value, _) => value.clone(),
        // What fails is left for the row that asks for it.
        constant => match simplifier.simplify(constant.clone()) {
            Ok(Expr::Literal(value, _)) => value,
            _ => return None,
        },
    };
    Some(Expr::Literal(plain_number(&value).unwrap_or(value), None))
}

/// Zero without a sign and the one NaN, where it is another.
fn plain_number(value: &ScalarValue) -> Option<ScalarValue> {
    match *value {
        ScalarValue::Float64(Some(v)) => {
            // The sum of the zeros is the one without a sign.
            let plain = if v.is_nan() { f64::NAN } else { v + 0.0 };
            (plain.to_bits() != v.to_bits()).then_some(ScalarValue::Float64(Some(plain)))
        }
        ScalarValue::Float32(Some(v)) => {
            let plain = if v.is_nan() { f32::NAN } else { v + 0.0 };
            (plain.to_bits() != v.to_bits()).then_some(ScalarValue::Float32(Some(plain)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_one_number_and_so_are_all_that_are_none() {
        let double = |v| ScalarValue::Float64(Some(v));
        assert_eq!(plain_number(&double(-0.0)), Some(double(0.0)));
        assert_eq!(plain_number(&double(0.0)), None);
        assert_eq!(plain_number(&double(-1.5)), None);
        assert_eq!(plain_number(&double(-f64::NAN)), Some(double(f64::NAN)));
        assert_eq!(plain_number(&double(f64::NAN)), None);
        assert_eq!(plain_number(&double(f64::NEG_INFINITY)), None);
        let real = |v| ScalarValue::Float32(Some(v));
        assert_eq!(plain_number(&real(-0.0)), Some(real(0.0)));
        assert_eq!(plain_number(&ScalarValue::Int32(Some(0))), None);
    }
}
