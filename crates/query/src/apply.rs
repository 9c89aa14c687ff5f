//! Subqueries that no join can stand for: run again for each row of what they refer to.
//!
//! DataFusion turns the correlated subqueries that it can into joins. A plan of which it leaves one
//! is rewritten here: the subquery's outer columns become parameters, and an [`Apply`] node under
//! the expression gives its value as one more column; under a lateral join, its rows.
//!
//! What it promises: a name means the nearest query's column; NULL counts in IN, ANY and ALL as
//! SQL has it. What it must never do: touch a plan that DataFusion can do on its own.

use crate::error::PgError;
use crate::lateral_filters;
use crate::outer_join;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{
    Column, DFSchema, DFSchemaRef, ExprSchema, Result as DfResult, TableReference,
};
use datafusion::execution::session_state::SessionState;
use datafusion::functions_aggregate::expr_fn::{bool_and, bool_or, count};
use datafusion::logical_expr::expr::{
    Exists, InSubquery, Placeholder, SetComparison, SetQuantifier,
};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    BinaryExpr, Expr, Extension, Filter, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Operator,
    Projection, Subquery, SubqueryAlias, UserDefinedLogicalNodeCore, lit, when,
};
use datafusion::optimizer::optimize_projections::OptimizeProjections;
use datafusion::optimizer::optimizer::Optimizer;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// What a subquery gives for a row.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Debug)]
pub(crate) enum Gives {
    /// The value of its one row.
    Value,
    /// Whether it has a row.
    Exists,
    /// Its rows, after the outer one; that alone, with NULLs, if there is none and it must stay.
    Rows { keep: bool },
}

/// The outer columns of a subquery, with the parameters that stand for them.
type Binds = Vec<(Column, usize)>;

/// A subquery without outer columns.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Inner {
    pub(crate) plan: LogicalPlan,
    pub(crate) gives: Gives,
    pub(crate) binds: Binds,
}

/// Runs subqueries for each row of its input.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Apply {
    pub(crate) input: LogicalPlan,
    pub(crate) inners: Vec<Inner>,
    /// Fields that the subqueries add to the input's.
    added: Vec<(Option<TableReference>, FieldRef)>,
    pub(crate) schema: DFSchemaRef,
}

impl Apply {
    fn new(
        input: LogicalPlan,
        inners: Vec<Inner>,
        added: Vec<(Option<TableReference>, FieldRef)>,
    ) -> DfResult<Apply> {
        let known = input.schema().iter().map(|(q, f)| (q.cloned(), f.clone()));
        let fields = known.chain(added.iter().cloned()).collect();
        let schema = DFSchema::new_with_metadata(fields, HashMap::new())?;
        Ok(Apply { input, inners, added, schema: Arc::new(schema) })
    }

    fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }
}

impl PartialOrd for Apply {
    fn partial_cmp(&self, other: &Apply) -> Option<Ordering> {
        self.input.partial_cmp(&other.input)
    }
}

impl UserDefinedLogicalNodeCore for Apply {
    fn name(&self) -> &'static str {
        "Apply"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Apply: {} subqueries", self.inners.len())
    }

    fn with_exprs_and_inputs(
        &self,
        _exprs: Vec<Expr>,
        mut inputs: Vec<LogicalPlan>,
    ) -> DfResult<Apply> {
        let input = inputs.pop().ok_or_else(|| PgError::internal("an apply without input"))?;
        Apply::new(input, self.inners.clone(), self.added.clone())
    }
}

/// The optimised plan, with subqueries run row by row where nothing else is left. Parameters from
/// `first_param` on (counted from 0) are free.
pub(crate) fn optimized(
    state: &SessionState,
    raw: &LogicalPlan,
    first_param: usize,
) -> DfResult<LogicalPlan> {
    if !has_subquery(raw)? {
        return in_order(state, state.optimize(raw)?);
    }
    let (raw, further_out) = crate::further_out::noted(raw)?;
    let (raw, wrong) = crate::correlated::partitioned(raw)?;
    let wrong = wrong || outer_join::is_in(&raw)?;
    // DataFusion takes a column of a query further out for one of the next.
    let mut first = None;
    if !further_out && !wrong {
        let plan = state.optimize(&raw).and_then(|plan| in_order(state, plan));
        if let Ok(done) = &plan
            && !has_leftover(done)?
            && !done.exists(|node| Ok(is_blurred(node)))?
        {
            return plan;
        }
        first = Some(plan);
    }
    let mut rewriter = Rewriter { state, next: first_param, names: 0, found: false, all: false };
    let rewritten = rewriter.rewrite(raw.clone())?;
    match first {
        Some(Err(error)) if !rewriter.found => {
            // It may be one of the others that the library stumbles over.
            let mut all = Rewriter { state, next: first_param, names: 0, found: false, all: true };
            let rewritten = all.rewrite(raw)?;
            let plan = if all.found { finished(state, &rewritten) } else { return Err(error) };
            plan.map_err(|_| error)
        }
        Some(first) if !rewriter.found => first,
        _ => finished(state, &rewritten),
    }
}

/// What is left of a plan whose subqueries are run row by row, optimised.
fn finished(state: &SessionState, rewritten: &LogicalPlan) -> DfResult<LogicalPlan> {
    let plan = in_order(state, state.optimize(rewritten)?)?;
    if has_leftover(&plan)? {
        return Err(PgError::unsupported("a correlated subquery in this place").into());
    }
    Ok(plan)
}

/// The plan with its joins in the best order that is known, no columns that nobody needs, and
/// groups that it has twice worked out once.
fn in_order(state: &SessionState, plan: LogicalPlan) -> DfResult<LogicalPlan> {
    // What cannot be looked at stays as it is written.
    let ordered = match crate::join_order::reordered(plan.clone()) {
        Ok(ordered) if ordered.transformed => ordered,
        _ => return crate::shared::with_shared(plan),
    };
    let rules = Optimizer::with_rules(vec![Arc::new(OptimizeProjections::new())]);
    crate::shared::with_shared(rules.optimize(ordered.data, state, |_, _| {})?)
}

/// Whether there is a subquery in the plan at all.
fn has_subquery(plan: &LogicalPlan) -> DfResult<bool> {
    let mut found = false;
    plan.apply(|node| {
        found |= matches!(node, LogicalPlan::Subquery(_)) || holds_subquery(node)?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Whether a node speaks of a column that its inputs do not have: one of a query further out, taken
/// for a column of the nearest.
fn has_stray_column(node: &LogicalPlan) -> DfResult<bool> {
    let known = matches!(
        node,
        LogicalPlan::Filter(_)
            | LogicalPlan::Projection(_)
            | LogicalPlan::Join(_)
            | LogicalPlan::Aggregate(_)
            | LogicalPlan::Sort(_)
    );
    let mut stray = false;
    if known {
        let inputs = node.inputs();
        node.apply_expressions(|expr| {
            let has = |column: &Column| inputs.iter().any(|i| i.schema().has_column(column));
            stray |= !expr.column_refs().iter().all(|column| has(column));
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(stray)
}

/// Whether it is a NOT IN that goes by more than the value: its NULLs count only among the rows
/// that the rest lets through, which the library does not know.
fn is_blurred(node: &LogicalPlan) -> bool {
    let LogicalPlan::Join(join) = node else { return false };
    join.null_aware && (join.on.len() != 1 || join.filter.is_some())
}

/// Whether there is a subquery that no physical plan can hold.
fn has_leftover(plan: &LogicalPlan) -> DfResult<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= matches!(node, LogicalPlan::Subquery(s) if !s.outer_ref_columns.is_empty());
        found |= has_stray_column(node)?;
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                found |= matches!(
                    part,
                    Expr::OuterReferenceColumn(..)
                        | Expr::Exists(_)
                        | Expr::InSubquery(_)
                        | Expr::SetComparison(_)
                );
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

struct Rewriter<'a> {
    state: &'a SessionState,
    /// The next free parameter.
    next: usize,
    /// Columns named so far.
    names: usize,
    found: bool,
    /// Whether those that are not correlated are run row by row too.
    all: bool,
}

/// The subqueries met in the expressions of one node.
#[derive(Default)]
struct Met {
    /// Values of the outer row that the subqueries need, beside its columns.
    computed: Vec<Expr>,
    inners: Vec<Inner>,
    added: Vec<(Option<TableReference>, FieldRef)>,
}

impl Rewriter<'_> {
    fn rewrite(&mut self, plan: LogicalPlan) -> DfResult<LogicalPlan> {
        let plan = match plan {
            LogicalPlan::Join(join) => match lateral(&join.right) {
                Some((subquery, aliases)) => {
                    let rows = subquery.subquery.as_ref().clone();
                    let join = lateral_filters::of_join(join)?;
                    return self.lateral_join(&join, rows, aliases);
                }
                None => {
                    let moved = outer_join::with_filters_below(join)?;
                    self.found |= moved.transformed;
                    if outer_join::asks_each_pair(&moved.data)? {
                        return self.outer_join(moved.data);
                    }
                    join_with_filter_above(moved.data)?
                }
            },
            LogicalPlan::Filter(filter) => match lateral_filters::below(filter)? {
                moved if moved.transformed => return self.rewrite(moved.data),
                as_it_was => as_it_was.data,
            },
            LogicalPlan::Subquery(Subquery { subquery, outer_ref_columns, .. })
                if outer_ref_columns.is_empty() =>
            {
                return self.rewrite(Arc::unwrap_or_clone(subquery));
            }
            other => other,
        };
        let plan = plan.map_children(|child| self.rewrite(child).map(Transformed::yes))?.data;
        self.expressions(plan)
    }

    /// Puts columns for the subqueries in a node's expressions.
    fn expressions(&mut self, plan: LogicalPlan) -> DfResult<LogicalPlan> {
        if !holds_subquery(&plan)? {
            return Ok(plan);
        }
        let [input] = plan.inputs()[..] else { return Ok(plan) };
        let (input, schema) = (input.clone(), plan.schema().clone());
        let conditional = matches!(plan, LogicalPlan::Filter(_)) && !self.all;
        let names = NamePreserver::new(&plan);
        let mut met = Met::default();
        let mapped = plan.map_expressions(|expr| {
            let saved = names.save(&expr);
            let mapped = expr.transform_up(|part| {
                match self.subquery(&part, input.schema(), conditional, &mut met)? {
                    Some(column) => Ok(Transformed::yes(column)),
                    None => Ok(Transformed::no(part)),
                }
            })?;
            Ok(mapped.update_data(|expr| saved.restore(expr)))
        })?;
        let plan = mapped.data;
        if met.inners.is_empty() {
            return Ok(plan);
        }
        self.found = true;
        let input = if met.computed.is_empty() {
            input
        } else {
            let own = input.schema().columns().into_iter().map(Expr::Column);
            let all = own.chain(met.computed).collect();
            LogicalPlan::Projection(Projection::try_new(all, Arc::new(input))?)
        };
        let apply = Apply::new(input, met.inners, met.added)?.into_plan();
        let exprs = plan.expressions();
        let plan = plan.with_new_exprs(exprs, vec![apply])?;
        if plan.schema().fields().len() == schema.fields().len() {
            return Ok(plan);
        }
        // What passes its input's columns on has got more of them.
        let own = schema.columns().into_iter().map(Expr::Column).collect();
        Ok(LogicalPlan::Projection(Projection::try_new(own, Arc::new(plan))?))
    }

    /// The column that stands for a subquery; `None` for what is none, or can stay.
    fn subquery(
        &mut self,
        expr: &Expr,
        outer: &DFSchemaRef,
        conditional: bool,
        met: &mut Met,
    ) -> DfResult<Option<Expr>> {
        let correlated = |subquery: &Subquery| !subquery.outer_ref_columns.is_empty();
        let (plan, gives, negated) = match expr {
            Expr::ScalarSubquery(subquery) if correlated(subquery) => {
                (subquery.subquery.as_ref().clone(), Gives::Value, false)
            }
            Expr::Exists(Exists { subquery, negated }) if correlated(subquery) || !conditional => {
                (subquery.subquery.as_ref().clone(), Gives::Exists, *negated)
            }
            Expr::InSubquery(InSubquery { expr, subquery, negated })
                if correlated(subquery) || !conditional =>
            {
                let value = self.computed(expr, outer, met)?;
                let plan = subquery.subquery.as_ref().clone();
                (compared(plan, value, Operator::Eq, true)?, Gives::Value, *negated)
            }
            Expr::SetComparison(SetComparison { expr, subquery, op, quantifier })
                if correlated(subquery) || !conditional =>
            {
                let value = self.computed(expr, outer, met)?;
                let plan = subquery.subquery.as_ref().clone();
                let any = matches!(quantifier, SetQuantifier::Any);
                (compared(plan, value, *op, any)?, Gives::Value, false)
            }
            _ => return self.staying(expr),
        };
        let mut schema = outer.as_ref().clone();
        for expr in &met.computed {
            let (qualifier, field) = expr_field(expr, outer)?;
            schema = schema
                .join(&DFSchema::new_with_metadata(vec![(qualifier, field)], HashMap::new())?)?;
        }
        let inner = self.inner(plan, gives, &schema, &[])?;
        self.names += 1;
        let name = format!("$apply{}", self.names);
        let field = match gives {
            Gives::Exists => Field::new(&name, DataType::Boolean, false),
            _ => {
                let field = inner.plan.schema().field(0);
                field.as_ref().clone().with_name(&name).with_nullable(true)
            }
        };
        met.inners.push(inner);
        met.added.push((None, Arc::new(field)));
        let column = Expr::Column(Column::new_unqualified(name));
        Ok(Some(if negated { Expr::Not(Box::new(column)) } else { column }))
    }

    /// A subquery that stays, with what is in it rewritten; `None` for what is none.
    fn staying(&mut self, expr: &Expr) -> DfResult<Option<Expr>> {
        let mut expr = expr.clone();
        let Some(subquery) = crate::further_out::subquery_of(&mut expr) else { return Ok(None) };
        if !has_subquery(&subquery.subquery)? {
            return Ok(None);
        }
        subquery.subquery = Arc::new(self.rewrite(subquery.subquery.as_ref().clone())?);
        Ok(Some(expr))
    }

    /// A reference to the value of an expression over the outer row.
    fn computed(&mut self, expr: &Expr, outer: &DFSchemaRef, met: &mut Met) -> DfResult<Expr> {
        self.names += 1;
        let name = format!("$apply{}", self.names);
        let named = expr.clone().alias(&name);
        let (_, field) = expr_field(&named, outer)?;
        met.computed.push(named);
        Ok(Expr::OuterReferenceColumn(field, Column::new_unqualified(name)))
    }

    /// An outer join whose condition holds a subquery on both sides' columns: the other side's rows
    /// are looked for anew for each row that stays.
    fn outer_join(&mut self, join: Join) -> DfResult<LogicalPlan> {
        let columns: Vec<Expr> = join.schema.columns().into_iter().map(Expr::Column).collect();
        let join = outer_join::to_the_left(join)?;
        let rows = join.right.as_ref().clone();
        let joined = self.lateral_join(&join, rows, Vec::new())?;
        Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(joined))?))
    }

    /// `rows` are those on the right, in which the left side's columns are outer ones.
    fn lateral_join(
        &mut self,
        join: &Join,
        rows: LogicalPlan,
        aliases: Vec<TableReference>,
    ) -> DfResult<LogicalPlan> {
        let keep = match join.join_type {
            JoinType::Inner => false,
            JoinType::Left => true,
            _ => {
                let text = "invalid reference to FROM-clause entry: the combining JOIN type must \
                            be INNER or LEFT for a LATERAL reference";
                return Err(PgError::new("42P10", text).into());
            }
        };
        self.found = true;
        let left = self.rewrite(join.left.as_ref().clone())?;
        let mut plan = rows;
        for alias in aliases.into_iter().rev() {
            plan = LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(Arc::new(plan), alias)?);
        }
        let right = plan.schema().clone();
        let on = join.on.iter().map(|(l, r)| l.clone().eq(r.clone()));
        if let Some(filter) = on.chain(join.filter.clone()).reduce(Expr::and) {
            // The left side's columns are outer ones for a filter below.
            let outer = join.left.schema().clone();
            let filter = filter.transform_up(|part| match part {
                Expr::Column(column) if !right.has_column(&column) => {
                    let field = outer.field_from_column(&column)?.clone();
                    Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
                }
                other => Ok(Transformed::no(other)),
            })?;
            let filter = Filter::try_new(filter.data, Arc::new(plan))?;
            plan = crate::not_in::of_filter(filter)?.data;
        }
        let inner = self.inner(plan, Gives::Rows { keep }, left.schema(), &[])?;
        let added = right
            .iter()
            .map(|(q, f)| {
                let nullable = f.is_nullable() || keep;
                (q.cloned(), Arc::new(f.as_ref().clone().with_nullable(nullable)))
            })
            .collect();
        Ok(Apply::new(left, vec![inner], added)?.into_plan())
    }

    fn inner(
        &mut self,
        plan: LogicalPlan,
        gives: Gives,
        outer: &DFSchema,
        shadows: &[DFSchemaRef],
    ) -> DfResult<Inner> {
        let mut binds = Vec::new();
        let plan = self.bind(plan, outer, shadows, &mut binds)?;
        // Subqueries in it take parameters after these; no two of them run at the same time.
        let plan = optimized(self.state, &plan, self.next)?;
        Ok(Inner { plan, gives, binds })
    }

    /// Parameters for the columns of `outer`, but where a nearer query (`shadows`) has the column.
    fn bind(
        &mut self,
        plan: LogicalPlan,
        outer: &DFSchema,
        shadows: &[DFSchemaRef],
        binds: &mut Binds,
    ) -> DfResult<LogicalPlan> {
        let nearer = |schema: &DFSchemaRef| {
            let mut all = shadows.to_vec();
            all.push(schema.clone());
            all
        };
        let left = match &plan {
            LogicalPlan::Join(join) if lateral(&join.right).is_some() => {
                Some(nearer(join.left.schema()))
            }
            _ => None,
        };
        let plan = plan.map_children(|child| {
            let shadows = match &left {
                Some(all) if lateral(&child).is_some() => &all[..],
                _ => shadows,
            };
            self.bind(child, outer, shadows, binds).map(Transformed::yes)
        })?;
        let mut plan = plan.data;
        if let LogicalPlan::Subquery(subquery) = &mut plan {
            subquery.outer_ref_columns = unbound(&subquery.outer_ref_columns, outer, shadows);
        }
        let own = match plan.inputs()[..] {
            [] => nearer(plan.schema()),
            [input] => nearer(input.schema()),
            _ => nearer(plan.schema()),
        };
        let names = NamePreserver::new(&plan);
        let bound = plan.map_expressions(|expr| {
            let saved = names.save(&expr);
            let bound = expr.transform_up(|part| match part {
                Expr::OuterReferenceColumn(field, column)
                    if binds_here(&column, outer, shadows) =>
                {
                    let at = match binds.iter().find(|(known, _)| *known == column) {
                        Some((_, at)) => *at,
                        None => {
                            binds.push((column, self.next));
                            self.next += 1;
                            self.next - 1
                        }
                    };
                    let id = format!("${}", at + 1);
                    let parameter = Placeholder::new_with_field(id, Some(field));
                    Ok(Transformed::yes(Expr::Placeholder(parameter)))
                }
                other => self.bind_nested(other, outer, &own, binds),
            })?;
            Ok(bound.update_data(|expr| saved.restore(expr)))
        })?;
        bound.data.recompute_schema()
    }

    /// The same inside a subquery of an expression.
    fn bind_nested(
        &mut self,
        expr: Expr,
        outer: &DFSchema,
        shadows: &[DFSchemaRef],
        binds: &mut Binds,
    ) -> DfResult<Transformed<Expr>> {
        let mut inside = |subquery: Subquery| -> DfResult<Subquery> {
            let outer_ref_columns = unbound(&subquery.outer_ref_columns, outer, shadows);
            let plan = Arc::unwrap_or_clone(subquery.subquery);
            let plan = Arc::new(self.bind(plan, outer, shadows, binds)?);
            Ok(Subquery { subquery: plan, outer_ref_columns, spans: subquery.spans })
        };
        Ok(Transformed::yes(match expr {
            Expr::ScalarSubquery(subquery) => Expr::ScalarSubquery(inside(subquery)?),
            Expr::Exists(mut exists) => {
                exists.subquery = inside(exists.subquery)?;
                Expr::Exists(exists)
            }
            Expr::InSubquery(mut one) => {
                one.subquery = inside(one.subquery)?;
                Expr::InSubquery(one)
            }
            Expr::SetComparison(mut one) => {
                one.subquery = inside(one.subquery)?;
                Expr::SetComparison(one)
            }
            other => return Ok(Transformed::no(other)),
        }))
    }
}

fn binds_here(column: &Column, outer: &DFSchema, shadows: &[DFSchemaRef]) -> bool {
    outer.has_column(column) && !shadows.iter().any(|nearer| nearer.has_column(column))
}

fn unbound(columns: &[Expr], outer: &DFSchema, shadows: &[DFSchemaRef]) -> Vec<Expr> {
    let stays = |expr: &&Expr| match expr {
        Expr::OuterReferenceColumn(_, column) => !binds_here(column, outer, shadows),
        _ => true,
    };
    columns.iter().filter(stays).cloned().collect()
}

fn expr_field(expr: &Expr, schema: &DFSchema) -> DfResult<(Option<TableReference>, FieldRef)> {
    use datafusion::logical_expr::ExprSchemable;
    expr.to_field(schema)
}

fn holds_subquery(plan: &LogicalPlan) -> DfResult<bool> {
    let mut found = false;
    plan.apply_subqueries(|_| {
        found = true;
        Ok(TreeNodeRecursion::Stop)
    })?;
    Ok(found)
}

/// The lateral subquery that a join's right side is, under its aliases (outermost first).
pub(crate) fn lateral(right: &LogicalPlan) -> Option<(&Subquery, Vec<TableReference>)> {
    let (mut plan, mut aliases) = (right, Vec::new());
    loop {
        match plan {
            LogicalPlan::SubqueryAlias(alias) => {
                aliases.push(alias.alias.clone());
                plan = &alias.input;
            }
            LogicalPlan::Subquery(subquery) if !subquery.outer_ref_columns.is_empty() => {
                return Some((subquery, aliases));
            }
            _ => return None,
        }
    }
}

/// An inner join whose condition holds a subquery, as a filter over the join.
fn join_with_filter_above(mut join: Join) -> DfResult<LogicalPlan> {
    match join.filter.take() {
        Some(filter)
            if join.join_type == JoinType::Inner && outer_join::holds_subquery(&filter)? =>
        {
            let join = Arc::new(LogicalPlan::Join(join));
            Ok(LogicalPlan::Filter(Filter::try_new(filter, join)?))
        }
        filter => {
            join.filter = filter;
            Ok(LogicalPlan::Join(join))
        }
    }
}

/// One row that says how `value` compares with the rows of a plan: with any of them, or with all.
fn compared(plan: LogicalPlan, value: Expr, op: Operator, any: bool) -> DfResult<LogicalPlan> {
    let other = Expr::Column(plan.schema().columns().remove(0));
    let comparison = Expr::BinaryExpr(BinaryExpr::new(Box::new(value), op, Box::new(other)));
    let one = Expr::Column(Column::new_unqualified("$one"));
    let over_all = if any { bool_or(one.clone()) } else { bool_and(one.clone()) };
    let column = |name: &str| Expr::Column(Column::new_unqualified(name));
    let null = lit(datafusion::common::ScalarValue::Boolean(None));
    let decided = column("$decided");
    let decisive = if any { decided.is_true() } else { decided.is_false() };
    let result = when(decisive, lit(any))
        .when(column("$known").lt(column("$all")), null)
        .otherwise(lit(!any))?;
    LogicalPlanBuilder::from(plan)
        .project(vec![comparison.alias("$one")])?
        .aggregate(
            Vec::<Expr>::new(),
            vec![
                over_all.alias("$decided"),
                count(one).alias("$known"),
                count(lit(1_i64)).alias("$all"),
            ],
        )?
        .project(vec![result.alias("$result")])?
        .build()
}
