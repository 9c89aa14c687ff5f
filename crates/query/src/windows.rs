//! Windows over any type that can be sorted.
//!
//! DataFusion refuses RANGE frames over types it cannot add to, even where the frame names nothing
//! but its ends and the current row. Such a frame is the same rows as one of GROUPS.
//!
//! What it promises: the same rows in each frame, under the same names.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result as DfResult;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, Window, WindowFrame, WindowFrameBound, WindowFrameUnits,
};
use std::sync::Arc;

/// The plan with frames that DataFusion takes.
///
/// # Errors
/// DataFusion's.
pub(crate) fn with_any_order(plan: LogicalPlan) -> DfResult<LogicalPlan> {
    let rewritten = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::Window(window) = &node else { return Ok(Transformed::no(node)) };
        let exprs: Vec<Option<Expr>> =
            window.window_expr.iter().map(|expr| by_groups(expr, &window.input)).collect();
        if exprs.iter().all(Option::is_none) {
            return Ok(Transformed::no(node));
        }
        let all = window.window_expr.iter().zip(exprs);
        let all = all.map(|(old, new)| new.unwrap_or_else(|| old.clone())).collect();
        let window = Window::try_new(all, window.input.clone())?;
        Ok(Transformed::yes(LogicalPlan::Window(window)))
    })?;
    Ok(rewritten.data)
}

/// The call over groups of equal rows, if it is one that DataFusion would refuse.
fn by_groups(expr: &Expr, input: &Arc<LogicalPlan>) -> Option<Expr> {
    if let Expr::Alias(named) = expr {
        // Its name stays, whatever stands below.
        let mut named = named.clone();
        *named.expr = by_groups(&named.expr, input)?.unalias();
        return Some(Expr::Alias(named));
    }
    let Expr::WindowFunction(function) = expr else { return None };
    let frame = &function.params.window_frame;
    let ends = [&frame.start_bound, &frame.end_bound].into_iter().all(|bound| match bound {
        WindowFrameBound::Preceding(v) | WindowFrameBound::Following(v) => v.is_null(),
        WindowFrameBound::CurrentRow => true,
    });
    if frame.units != WindowFrameUnits::Range || !ends {
        return None;
    }
    let ty = function.params.order_by.first()?.expr.get_type(input.schema()).ok()?;
    let refused = matches!(
        ty,
        DataType::Time64(_)
            | DataType::Binary
            | DataType::FixedSizeBinary(_)
            | DataType::Interval(_)
    );
    if !refused {
        return None;
    }
    let bound = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::Preceding(_) => WindowFrameBound::Preceding(ScalarValue::UInt64(None)),
        WindowFrameBound::Following(_) => WindowFrameBound::Following(ScalarValue::UInt64(None)),
        WindowFrameBound::CurrentRow => WindowFrameBound::CurrentRow,
    };
    let (start, end) = (bound(&frame.start_bound), bound(&frame.end_bound));
    let mut function = function.clone();
    function.params.window_frame = WindowFrame::new_bounds(WindowFrameUnits::Groups, start, end);
    Some(Expr::WindowFunction(function).alias(expr.schema_name().to_string()))
}
