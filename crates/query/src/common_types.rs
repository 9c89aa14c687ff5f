//! Untyped literals and parameters beside typed values, where all become of one type: arguments of
//! COALESCE, GREATEST, LEAST, NULLIF and ARRAY, the results of CASE, and what it compares.
//!
//! What it promises: the type is that of the typed ones, and a literal that is no value of it is
//! PostgreSQL's error. What it must never do: choose between types that differ, which is the
//! library's business, that of [`crate::floats`] and that of [`crate::type_rules`].

use crate::expr_planner::{adopt, as_text};
use crate::floats::made_alike;
use crate::sides::{beside_char, is_padded};
use crate::types::col_type_of;
use crate::wire::FormatEnv;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use kernel::row::TypeKind;

/// An array constructor.
const ARRAY: &str = "make_array";

/// The type that arguments of which some are texts are taken to have before it is known which of
/// them are literals: `None` unless all others are of one type. A text that is none is refused by
/// [`crate::type_rules`].
pub(crate) fn beside_texts(types: &[DataType]) -> Option<&DataType> {
    let plain = |ty: &&DataType| !matches!(ty, DataType::Utf8 | DataType::Null);
    let first = types.iter().find(plain)?;
    let one = types.iter().filter(plain).all(|ty| ty == first);
    (one && types.contains(&DataType::Utf8)).then_some(first)
}

/// The elements of an array constructor, of one type.
///
/// # Errors
/// 22P02 and its like.
pub(crate) fn elements(
    mut elements: Vec<Expr>,
    schema: &DFSchema,
    env: &FormatEnv,
) -> DfResult<Vec<Expr>> {
    alike(elements.iter_mut().collect(), schema, env)?;
    labels(&mut elements, schema, env);
    Ok(elements)
}

/// There are no arrays of enums: they are arrays of their labels.
fn labels(elements: &mut [Expr], schema: &DFSchema, env: &FormatEnv) -> bool {
    // All are of one type by now.
    let typed = elements.iter().find_map(|element| {
        let ty = element.get_type(schema).ok().filter(|ty| *ty != DataType::Null)?;
        Some((col_type_of(&ty)?, ty))
    });
    let Some((_, ty)) = typed.filter(|(known, _)| known.kind == TypeKind::Enum) else {
        return false;
    };
    for element in elements {
        *element = as_text(std::mem::take(element), Some(&ty), *env);
    }
    true
}

/// The plan with typed literals.
///
/// # Errors
/// 22P02 and its like for a literal that the type does not have.
pub(crate) fn with_common_types(plan: LogicalPlan, env: FormatEnv) -> DfResult<LogicalPlan> {
    let mut changed = false;
    let done = plan.transform_up_with_subqueries(|node| {
        let new = if has_common(&node)? {
            let mut schema = DFSchema::empty();
            node.inputs().iter().for_each(|input| schema.merge(input.schema()));
            let names = NamePreserver::new(&node);
            let new = node.map_expressions(|expr| {
                let saved = names.save(&expr);
                let new = expr.transform_up(|part| given(part, &schema, &env))?;
                Ok(new.update_data(|new| saved.restore(new)))
            })?;
            changed |= new.transformed;
            new
        } else {
            Transformed::no(node)
        };
        // What stands above may show other types now.
        if changed { new.data.recompute_schema().map(Transformed::yes) } else { Ok(new) }
    })?;
    Ok(done.data)
}

fn is_untyped(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(ScalarValue::Utf8(Some(_)), _) => true,
        Expr::Placeholder(parameter) => parameter.field.is_none(),
        _ => false,
    }
}

/// The expressions of a function that all become of one type.
fn arguments(expr: &Expr) -> &[Expr] {
    const FUNCTIONS: [&str; 5] = ["coalesce", "greatest", "least", "nullif", ARRAY];
    match expr {
        Expr::ScalarFunction(call) if FUNCTIONS.contains(&call.name()) => &call.args,
        _ => &[],
    }
}

fn has_common(node: &LogicalPlan) -> DfResult<bool> {
    let mut found = false;
    node.apply_expressions(|expr| {
        found = found || expr.exists(|part| Ok(is_of_results(part)))?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// Whether it is something whose parts become of one type.
fn is_of_results(expr: &Expr) -> bool {
    matches!(expr, Expr::Case(_)) || !arguments(expr).is_empty()
}

/// A CASE, or a function of that kind, whose parts have the type that they have in common; anything
/// else as it is.
///
/// # Errors
/// 22P02 and its like for a literal that the type does not have.
pub(crate) fn with_typed_results(expr: Expr, schema: &DFSchema, env: &FormatEnv) -> DfResult<Expr> {
    match is_of_results(&expr) {
        true => Ok(given(expr, schema, env)?.data),
        false => Ok(expr),
    }
}

fn given(mut expr: Expr, schema: &DFSchema, env: &FormatEnv) -> DfResult<Transformed<Expr>> {
    let done = if !arguments(&expr).is_empty()
        && let Expr::ScalarFunction(call) = &mut expr
    {
        let alike = alike(call.args.iter_mut().collect(), schema, env)?;
        let floats = made_alike(call.args.iter_mut().collect(), schema, false)?;
        let alike = alike || floats;
        (call.name() == ARRAY && labels(&mut call.args, schema, env)) || alike
    } else if let Expr::Case(Case { expr: value, when_then_expr, else_expr }) = &mut expr {
        let (mut compared, mut results) = (Vec::new(), Vec::new());
        for (when, then) in when_then_expr {
            compared.push(&mut **when);
            results.push(&mut **then);
        }
        results.extend(else_expr.as_deref_mut());
        let values = match value {
            Some(value) => {
                let padded = is_padded(value, schema);
                if padded {
                    for one in &mut compared {
                        **one = beside_char(std::mem::take(*one), schema, *env);
                    }
                }
                compared.push(value);
                let floats = made_alike(reborrowed(&mut compared), schema, true)?;
                alike(compared, schema, env)? || floats || padded
            }
            None => false,
        };
        let floats = made_alike(reborrowed(&mut results), schema, false)?;
        alike(results, schema, env)? || floats || values
    } else {
        false
    };
    Ok(if done { Transformed::yes(expr) } else { Transformed::no(expr) })
}

fn reborrowed<'a>(all: &'a mut [&mut Expr]) -> Vec<&'a mut Expr> {
    all.iter_mut().map(|expr| &mut **expr).collect()
}

/// Gives the untyped ones the type that all others have.
fn alike(mut all: Vec<&mut Expr>, schema: &DFSchema, env: &FormatEnv) -> DfResult<bool> {
    if !all.iter().any(|expr| is_untyped(expr)) {
        return Ok(false);
    }
    let mut types = all
        .iter()
        .filter(|expr| !is_untyped(expr))
        .filter_map(|expr| expr.get_type(schema).ok())
        .filter(|ty| *ty != DataType::Null);
    let Some(first) = types.next() else { return Ok(false) };
    let kind = |ty: &DataType| col_type_of(ty).map(|ty| ty.kind);
    let one = kind(&first);
    if one.is_none_or(|kind| kind.is_text()) || types.any(|ty| kind(&ty) != one) {
        return Ok(false);
    }
    for expr in all.iter_mut().filter(|expr| is_untyped(expr)) {
        let untyped = std::mem::take(*expr);
        **expr = adopt(untyped, None, Some(&first), env)?;
    }
    Ok(true)
}
