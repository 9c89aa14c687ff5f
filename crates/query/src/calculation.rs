//! Queries without FROM: expressions over parameters, as procedural code has them by the thousand.
//! They are made ready once and worked out for each execution, without a plan being made or run.
//!
//! What it promises: the row that the plan would give. What it must never do: work something out
//! whose type depends on the values of parameters; that goes through a plan.

use crate::error::Result;
use crate::functions::takes_type_from_values;
use crate::interruptible::Planning;
use crate::planner::{PlannedQuery, Planner};
use crate::pushdown::scalar_value_of;
use crate::types::{PgType, arrow_type, field_with_meta};
use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::logical_expr::{Expr, LogicalPlan, Projection};
use datafusion::physical_expr::PhysicalExpr;
use kernel::row::{ColType, TypeKind, Value};
use observe::Ctx;
use std::sync::Arc;

/// Steps of one calculation: what is common to several expressions is worked out in one before.
const STEPS_MAX: usize = 4;

/// A query's expressions, ready to be worked out.
pub struct Calculation {
    /// The parameters that they name, with their places.
    params: Vec<(usize, ColType)>,
    /// The first one's input has the parameters; each gets them and what the one before gave.
    steps: Vec<Step>,
}

struct Step {
    input: SchemaRef,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    output: SchemaRef,
}

/// The projections of a plan over one row without columns, the innermost first.
fn projections(plan: &LogicalPlan) -> Option<Vec<&Projection>> {
    match plan {
        LogicalPlan::EmptyRelation(empty) if empty.produce_one_row => Some(Vec::new()),
        LogicalPlan::Projection(projection) => {
            let mut all = projections(&projection.input)?;
            all.push(projection);
            (all.len() <= STEPS_MAX).then_some(all)
        }
        _ => None,
    }
}

fn param_name(at: usize) -> String {
    format!("${}", at + 1)
}

fn param_of(id: &str) -> Option<usize> {
    id.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1)
}

/// Whether an argument says what kind of result there is: a number of digits, the name of a field.
fn is_control(arg: &Expr, types: &[ColType]) -> bool {
    let Expr::Placeholder(placeholder) = arg else { return false };
    let ty = param_of(&placeholder.id).and_then(|at| types.get(at));
    ty.is_none_or(|ty| {
        ty.kind.is_text() || matches!(ty.kind, TypeKind::Int2 | TypeKind::Int4 | TypeKind::Int8)
    })
}

/// The parameters of an expression; `None`: it is none that can be worked out alone.
fn named(expr: &Expr, types: &[ColType], found: &mut Vec<usize>) -> Option<()> {
    let mut fits = true;
    let walked = expr.apply(|part| {
        match part {
            Expr::Placeholder(placeholder) => match param_of(&placeholder.id) {
                Some(at) if at < types.len() => found.push(at),
                _ => fits = false,
            },
            Expr::ScalarFunction(call) => {
                fits &= !(takes_type_from_values(&call.func)
                    && call.args.iter().any(|arg| is_control(arg, types)));
            }
            Expr::Alias(_)
            | Expr::Column(_)
            | Expr::Literal(..)
            | Expr::BinaryExpr(_)
            | Expr::Like(_)
            | Expr::Not(_)
            | Expr::IsNotNull(_)
            | Expr::IsNull(_)
            | Expr::IsTrue(_)
            | Expr::IsFalse(_)
            | Expr::IsUnknown(_)
            | Expr::IsNotTrue(_)
            | Expr::IsNotFalse(_)
            | Expr::IsNotUnknown(_)
            | Expr::Negative(_)
            | Expr::Between(_)
            | Expr::Case(_)
            | Expr::Cast(_)
            | Expr::InList(_) => {}
            _ => fits = false,
        }
        Ok(if fits { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    (walked.is_ok() && fits).then_some(())
}

/// The expression with parameters and what a step before has given as columns.
fn over_columns(expr: &Expr) -> Option<Expr> {
    let done = expr.clone().transform(|part| {
        Ok(match part {
            Expr::Placeholder(placeholder) => {
                Transformed::yes(Expr::Column(Column::new_unqualified(placeholder.id)))
            }
            Expr::Column(column) => {
                Transformed::yes(Expr::Column(Column::new_unqualified(column.name)))
            }
            Expr::Alias(alias) => Transformed::yes(*alias.expr),
            other => Transformed::no(other),
        })
    });
    done.ok().map(|done| done.data)
}

impl Planner {
    /// What a query works out, if it reads nothing.
    #[must_use]
    pub fn calculation(&self, query: &PlannedQuery) -> Option<Calculation> {
        let all = projections(&query.plan).filter(|all| !all.is_empty())?;
        let mut params = Vec::new();
        for expr in all.iter().flat_map(|projection| &projection.expr) {
            named(expr, &query.params, &mut params)?;
        }
        params.sort_unstable();
        params.dedup();
        let field = |at: &usize| {
            let ty = query.params[*at];
            field_with_meta(&param_name(*at), arrow_type(ty), PgType::of(ty))
        };
        let given: Vec<Field> = params.iter().map(field).collect();
        let mut before: Vec<Field> = Vec::new();
        let mut steps = Vec::with_capacity(all.len());
        for projection in all {
            let input = Arc::new(Schema::new([given.clone(), before].concat()));
            let schema = DFSchema::try_from(input.as_ref().clone()).ok()?;
            let mut ready = Vec::with_capacity(projection.expr.len());
            let mut output: Vec<Field> = Vec::with_capacity(projection.expr.len());
            for (expr, planned) in projection.expr.iter().zip(projection.schema.fields()) {
                let physical = self.physical_expr(&over_columns(expr)?, &schema).ok()?;
                if physical.data_type(&input).ok()? != *planned.data_type() {
                    return None;
                }
                output.push(planned.as_ref().clone().with_nullable(true));
                ready.push(physical);
            }
            before = output.clone();
            steps.push(Step { input, exprs: ready, output: Arc::new(Schema::new(output)) });
        }
        let params = params.into_iter().map(|at| (at, query.params[at])).collect();
        Some(Calculation { params, steps })
    }

    /// The one row of a calculation. `None`: a parameter has a value that its type's column has no
    /// room for; the plan knows what to do with it.
    ///
    /// # Errors
    /// Those of the expressions.
    pub fn calculate(
        &self,
        calculation: &Calculation,
        values: &[Value],
        ctx: &Ctx,
    ) -> Result<Option<RecordBatch>> {
        let mut given: Vec<ArrayRef> = Vec::with_capacity(calculation.params.len());
        for (at, ty) in &calculation.params {
            let Some(value) = values.get(*at) else { return Ok(None) };
            let scalar = scalar_value_of(value, *ty);
            if scalar.data_type() != arrow_type(*ty) {
                return Ok(None);
            }
            given.push(scalar.to_array()?);
        }
        let _planning = Planning::of(Some(ctx), self.pga().result_bytes());
        let one = RecordBatchOptions::new().with_row_count(Some(1));
        let mut before: Vec<ArrayRef> = Vec::new();
        let mut output = None;
        for step in &calculation.steps {
            let columns = [given.clone(), before].concat();
            let input = RecordBatch::try_new_with_options(step.input.clone(), columns, &one)?;
            before = Vec::with_capacity(step.exprs.len());
            for expr in &step.exprs {
                before.push(expr.evaluate(&input)?.into_array(1)?);
            }
            output = Some(step.output.clone());
        }
        let Some(output) = output else { return Ok(None) };
        Ok(Some(RecordBatch::try_new_with_options(output, before, &one)?))
    }
}
