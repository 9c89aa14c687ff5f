//! The order of inner joins, chosen by what `ANALYZE` knows of their tables.
//!
//! What it promises: the same rows in the same columns. Inner joins change places with each other,
//! and with the semi and anti joins over them, which only take rows away and so may come as soon
//! as what they ask about is there. Whatever else stands between them (outer joins, groups,
//! limits, subqueries) stays where it is and is one input among the others. Up to [`EXACT_MAX`]
//! inputs the cheapest of all trees is found, beyond that one that is put together pair by pair.
//! What it must never do: touch joins of a table that nobody has looked through.

use crate::access_rules::LOOKUP_ROWS;
use crate::estimate::TableSize;
use crate::facts::{Fact, Matches, groups};
use crate::provider::TableScanSource;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinConstraint, JoinType, NullEquality};
use datafusion::datasource::source_as_provider;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::utils::{conjunction, split_conjunction, split_conjunction_owned};
use datafusion::logical_expr::{BinaryExpr, Expr, Filter, Join, LogicalPlan, Operator, Projection};
use kernel::dict::TableDef;
use std::collections::HashMap;
use std::sync::Arc;

/// Inputs up to which all trees are looked at.
const EXACT_MAX: usize = 10;
/// Inputs beyond which the order stays what it is.
const INPUTS_MAX: usize = 30;
/// Part of the rows that a condition of which nothing is known keeps.
const OTHER: f64 = 1.0 / 3.0;
/// What a row costs that is put into a hash table, in rows of a full scan.
const BUILD_ROWS: f64 = 2.0;
/// What must be won for the order to change.
const WORTH: f64 = 0.9;

/// The plan with its inner joins in a cheaper order, if there is one.
///
/// # Errors
/// DataFusion's.
pub(crate) fn reordered(plan: LogicalPlan) -> DfResult<Transformed<LogicalPlan>> {
    let mut changed = false;
    let plan = rewrite(plan, &mut changed)?;
    Ok(if changed { Transformed::yes(plan) } else { Transformed::no(plan) })
}

fn rewrite(plan: LogicalPlan, changed: &mut bool) -> DfResult<LogicalPlan> {
    if keep_of(&plan).is_some() {
        let (mut group, mut below) = (Group::default(), false);
        group.flatten(&plan);
        for input in &mut group.inputs {
            input.plan = rewrite(input.plan.clone(), &mut below)?;
        }
        if let Some(better) = group.best(&plan)? {
            *changed = true;
            return Ok(better);
        }
        // The order stays; what is below may have changed.
        if !below {
            return Ok(plan);
        }
    }
    Ok(plan.map_children(|child| rewrite(child, changed).map(Transformed::yes))?.data)
}

/// What a join does with the rows of its inputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Keep {
    /// Pairs that match.
    Pairs,
    /// Rows of the left side with a match, or without one.
    Left {
        matched: bool,
    },
    Right {
        matched: bool,
    },
}

/// What a join that may change places does; `None` for anything else.
fn keep_of(plan: &LogicalPlan) -> Option<Keep> {
    let LogicalPlan::Join(join) = plan else { return None };
    if join.null_equality != NullEquality::NullEqualsNothing || join.null_aware {
        return None;
    }
    Some(match join.join_type {
        JoinType::Inner => Keep::Pairs,
        JoinType::LeftSemi => Keep::Left { matched: true },
        JoinType::LeftAnti => Keep::Left { matched: false },
        JoinType::RightSemi => Keep::Right { matched: true },
        JoinType::RightAnti => Keep::Right { matched: false },
        _ => return None,
    })
}

/// A projection that only leaves columns out.
fn is_plain(projection: &Projection) -> bool {
    projection.expr.iter().all(|expr| matches!(expr, Expr::Column(_)))
        && projection.schema.columns() == plain_columns(projection)
}

fn plain_columns(projection: &Projection) -> Vec<Column> {
    let column = |expr: &Expr| match expr {
        Expr::Column(column) => Some(column.clone()),
        _ => None,
    };
    projection.expr.iter().filter_map(column).collect()
}

/// What is joined.
struct Input {
    plan: LogicalPlan,
    rows: f64,
    /// What reading it costs.
    cost: f64,
    /// Of one that only takes rows away: whether those with a match stay.
    only: Option<bool>,
}

/// A condition between inputs: a set of them.
struct Condition {
    expr: Expr,
    inputs: u32,
    /// Of an equality: its sides with the inputs they speak of.
    sides: Option<[(Expr, u32); 2]>,
}

/// A condition as a join had it.
enum Raw {
    Equal(Expr, Expr),
    Other(Expr),
}

/// Inner joins next to each other.
#[derive(Default)]
struct Group {
    inputs: Vec<Input>,
    conditions: Vec<Condition>,
    /// Each with the input that takes rows away by it, if it is not an inner join's.
    raw: Vec<(Raw, Option<usize>)>,
}

/// A tree of joins over a set of inputs.
#[derive(Clone)]
struct Tree {
    cost: f64,
    rows: f64,
    /// The sets that are joined; an input alone has none.
    parts: Option<(u32, u32)>,
}

impl Group {
    fn flatten(&mut self, plan: &LogicalPlan) {
        match (plan, keep_of(plan)) {
            (LogicalPlan::Join(join), Some(keep)) => {
                let mut by = None;
                match keep {
                    Keep::Pairs => {
                        self.flatten(&join.left);
                        self.flatten(&join.right);
                    }
                    Keep::Left { matched } => {
                        self.flatten(&join.left);
                        by = Some(self.push(&join.right, Some(matched)));
                    }
                    Keep::Right { matched } => {
                        self.flatten(&join.right);
                        by = Some(self.push(&join.left, Some(matched)));
                    }
                }
                let equal = join.on.iter().cloned().map(|(l, r)| Raw::Equal(l, r));
                let others = join.filter.clone().map(split_conjunction_owned);
                let others = others.into_iter().flatten().map(Raw::Other);
                self.raw.extend(equal.chain(others).map(|raw| (raw, by)));
            }
            (LogicalPlan::Projection(projection), _)
                if keep_of(&projection.input).is_some() && is_plain(projection) =>
            {
                self.flatten(&projection.input);
            }
            (other, _) => {
                self.push(other, None);
            }
        }
    }

    fn push(&mut self, plan: &LogicalPlan, only: Option<bool>) -> usize {
        self.inputs.push(Input { plan: plan.clone(), rows: 0.0, cost: 0.0, only });
        self.inputs.len() - 1
    }

    /// The inputs that an expression speaks of; `None` if a column is in none or in several. Of
    /// those that only take rows away just `by` can be meant.
    fn inputs_of(&self, expr: &Expr, by: Option<usize>) -> Option<u32> {
        let mut set = 0u32;
        for column in expr.column_refs() {
            let mut of = self.inputs.iter().enumerate().filter(|(at, input)| {
                (input.only.is_none() || Some(*at) == by) && input.plan.schema().has_column(column)
            });
            let (at, _) = of.next()?;
            if of.next().is_some() {
                return None;
            }
            set |= 1 << at;
        }
        Some(set)
    }

    /// Puts conditions to their inputs and sizes the inputs; `false` if something is not known.
    fn prepare(&mut self) -> DfResult<bool> {
        for (raw, by) in std::mem::take(&mut self.raw) {
            let condition = match raw {
                Raw::Equal(left, right) => {
                    let (a, b) = (self.inputs_of(&left, by), self.inputs_of(&right, by));
                    let (Some(a), Some(b)) = (a, b) else { return Ok(false) };
                    let sides = (Box::new(left.clone()), Box::new(right.clone()));
                    let expr = Expr::BinaryExpr(BinaryExpr::new(sides.0, Operator::Eq, sides.1));
                    let sides = Some([(left, a), (right, b)]);
                    Condition { expr, inputs: a | b, sides }
                }
                Raw::Other(expr) => {
                    let Some(inputs) = self.inputs_of(&expr, by) else { return Ok(false) };
                    Condition { expr, inputs, sides: None }
                }
            };
            if condition.inputs == 0 {
                return Ok(false);
            }
            if let Some(by) = by {
                // All that it is asked about must be there before it.
                if condition.inputs & (1 << by) == 0 || condition.inputs.count_ones() < 2 {
                    return Ok(false);
                }
            }
            self.conditions.push(condition);
        }
        for input in &mut self.inputs {
            let mut known = true;
            input.plan.apply(|node| {
                if let LogicalPlan::TableScan(scan) = node {
                    let provider = source_as_provider(&scan.source)?;
                    let source = provider.downcast_ref::<TableScanSource>();
                    known &= source.is_some_and(|source| source.may_move());
                }
                Ok(TreeNodeRecursion::Continue)
            })?;
            if !known {
                return Ok(false);
            }
            input.rows = rows_of(&input.plan)?.max(1.0);
            input.cost = cost_of(&input.plan)?;
        }
        Ok(true)
    }

    /// The joins in a better order, with the columns that `plan` has.
    fn best(mut self, plan: &LogicalPlan) -> DfResult<Option<LogicalPlan>> {
        let count = self.inputs.len();
        if !(3..=INPUTS_MAX).contains(&count) || !self.prepare()? {
            return Ok(None);
        }
        let mut facts = Facts::default();
        let old = self.as_it_is(&mut facts);
        let all = (1u32 << count) - 1;
        let trees = match count <= EXACT_MAX {
            true => self.cheapest(&mut facts),
            false => self.pair_by_pair(&mut facts),
        };
        let Some(best) = trees.get(&all) else { return Ok(None) };
        if old.is_some_and(|old| best.cost > old * WORTH) {
            return Ok(None);
        }
        let joined = self.build(&trees, all)?;
        let columns = plan.schema().columns().into_iter().map(Expr::Column).collect();
        let shown = Projection::try_new(columns, Arc::new(joined))?;
        Ok(Some(LogicalPlan::Projection(shown)))
    }

    /// What the joins cost one after the other, as they were written. What only takes rows away
    /// comes behind what it is asked about there, too.
    fn as_it_is(&self, facts: &mut Facts) -> Option<f64> {
        let mut trees = self.alone();
        let mut so_far = 1u32;
        for at in 1..self.inputs.len() {
            let tree = self.join(&trees, so_far, 1 << at, facts)?;
            so_far |= 1 << at;
            trees.insert(so_far, tree);
        }
        trees.get(&so_far).map(|tree| tree.cost)
    }

    fn alone(&self) -> HashMap<u32, Tree> {
        let one = |(at, input): (usize, &Input)| {
            (1 << at, Tree { cost: input.cost, rows: input.rows, parts: None })
        };
        self.inputs.iter().enumerate().map(one).collect()
    }

    fn is_linked(&self, a: u32, b: u32) -> bool {
        self.conditions.iter().any(|c| c.inputs & a != 0 && c.inputs & b != 0)
    }

    /// The cheapest tree over each set of inputs that conditions hold together.
    fn cheapest(&self, facts: &mut Facts) -> HashMap<u32, Tree> {
        let mut trees = self.alone();
        let all = (1u32 << self.inputs.len()) - 1;
        for set in 1..=all {
            if set.count_ones() < 2 {
                continue;
            }
            for linked in [true, false] {
                let low = set & set.wrapping_neg();
                let mut part = (set - 1) & set;
                let mut best: Option<Tree> = None;
                while part > 0 {
                    // Each way to part the set once: the lowest input is on one side.
                    if part & low != 0 && self.is_linked(part, set & !part) == linked {
                        let tree = self.join(&trees, part, set & !part, facts);
                        let better = |tree: &Tree| best.as_ref().is_none_or(|b| tree.cost < b.cost);
                        if let Some(tree) = tree.filter(better) {
                            best = Some(tree);
                        }
                    }
                    part = (part - 1) & set;
                }
                if let Some(best) = best {
                    trees.insert(set, best);
                    break;
                }
                if set != all {
                    // Without a condition between them they are joined at the end, if ever.
                    break;
                }
            }
        }
        if !trees.contains_key(&all) {
            return self.pair_by_pair(facts);
        }
        trees
    }

    /// Always the pair next that yields fewest rows.
    fn pair_by_pair(&self, facts: &mut Facts) -> HashMap<u32, Tree> {
        let mut trees = self.alone();
        let mut sets: Vec<u32> = (0..self.inputs.len()).map(|at| 1 << at).collect();
        while sets.len() > 1 {
            let mut best: Option<((bool, f64), u32, u32, Tree)> = None;
            for (i, a) in sets.iter().enumerate() {
                for b in &sets[i + 1..] {
                    let Some(tree) = self.join(&trees, *a, *b, facts) else { continue };
                    let rank = (!self.is_linked(*a, *b), tree.rows + tree.cost);
                    if best.as_ref().is_none_or(|(known, ..)| rank < *known) {
                        best = Some((rank, *a, *b, tree));
                    }
                }
            }
            let Some((_, a, b, tree)) = best else { break };
            sets.retain(|set| *set != a && *set != b);
            sets.push(a | b);
            trees.insert(a | b, tree);
        }
        trees
    }

    /// The one of two sets that is a single input which only takes rows away, with the other one
    /// and whether rows with a match stay. `Err` if they cannot be joined now.
    fn taking(&self, a: u32, b: u32) -> Result<Option<(u32, u32, bool)>, ()> {
        let only = |set: u32| match set.count_ones() {
            1 => self.inputs.get(set.trailing_zeros() as usize).and_then(|input| input.only),
            _ => None,
        };
        let (by, of, matched) = match (only(a), only(b)) {
            (None, None) => return Ok(None),
            (Some(matched), None) => (a, b, matched),
            (None, Some(matched)) => (b, a, matched),
            (Some(_), Some(_)) => return Err(()),
        };
        let there = |c: &Condition| c.inputs & by == 0 || c.inputs & !(of | by) == 0;
        if self.conditions.iter().all(there) { Ok(Some((by, of, matched))) } else { Err(()) }
    }

    /// Two sets joined, by a hash table or by look-ups in an index.
    fn join(&self, trees: &HashMap<u32, Tree>, a: u32, b: u32, facts: &mut Facts) -> Option<Tree> {
        let (left, right) = (trees.get(&a)?, trees.get(&b)?);
        let taking = self.taking(a, b).ok()?;
        let (mut of_left, mut of_right) = (Vec::new(), Vec::new());
        let mut other = 1.0;
        for condition in &self.conditions {
            let new = condition.inputs & !(a | b) == 0
                && condition.inputs & a != 0
                && condition.inputs & b != 0;
            if !new {
                continue;
            }
            match condition.ordered(a, b) {
                Some((one, two)) => {
                    of_left.push(facts.of(self, one));
                    of_right.push(facts.of(self, two));
                }
                None => other *= OTHER,
            }
        }
        let found = Matches::of(&of_left, &of_right, (left.rows, right.rows));
        let rows = match (found, taking) {
            (found, Some((by, _, matched))) => {
                let part = found.and_then(|found| match by == b {
                    true => found.left_part(),
                    false => found.right_part(),
                });
                let part = part.unwrap_or(0.5) * if matched { other } else { 1.0 };
                let part = if matched { part } else { (1.0 - part).max(0.01) };
                part * if by == b { left.rows } else { right.rows }
            }
            (Some(found), None) => found.pairs() * other,
            (None, None) if of_left.is_empty() => left.rows * right.rows * other,
            (None, None) => left.rows.max(right.rows) * other,
        };
        let rows = rows.max(1.0);
        let (build, probe) = (left.rows.min(right.rows), left.rows.max(right.rows));
        let mut cost = match of_left.is_empty() {
            true => left.cost + right.cost + left.rows * right.rows,
            false => left.cost + right.cost + build * BUILD_ROWS + probe,
        };
        for (outer, set, keys) in [(left, b, &of_right), (right, a, &of_left)] {
            if taking.is_some_and(|(by, ..)| by != set) {
                continue;
            }
            if let Some(each) = self.rows_each(set, keys) {
                // Other conditions on the table are looked at only afterwards.
                cost = cost.min(outer.cost + outer.rows * (1.0 + each) * LOOKUP_ROWS);
            }
        }
        Some(Tree { cost: cost + rows, rows, parts: Some((a, b)) })
    }

    /// Rows that one key finds, if the set is a table with an index for the keys.
    fn rows_each(&self, set: u32, keys: &[Option<Fact>]) -> Option<f64> {
        if set.count_ones() != 1 {
            return None;
        }
        let input = self.inputs.get(set.trailing_zeros() as usize)?;
        let (table, size) = scanned(&input.plan)?;
        let keys: Vec<&Fact> = keys.iter().map(Option::as_ref).collect::<Option<_>>()?;
        if keys.is_empty() || keys.iter().any(|fact| fact.table.obj != table.obj) {
            return None;
        }
        let is_key = |column: &&u16| keys.iter().any(|fact| fact.column == usize::from(**column));
        let each = |index: &Arc<kernel::dict::IndexDef>| {
            let used = index.columns.iter().take_while(is_key).count();
            if used < keys.len() {
                return None;
            }
            if index.unique && used == index.columns.len() {
                return Some(1.0);
            }
            let distinct: f64 = keys.iter().map(|fact| fact.distinct).product();
            Some((size.rows / distinct.min(size.rows).max(1.0)).max(1.0))
        };
        table.indexes.iter().filter_map(each).min_by(f64::total_cmp)
    }

    fn build(&self, trees: &HashMap<u32, Tree>, set: u32) -> DfResult<LogicalPlan> {
        let parts = trees.get(&set).and_then(|tree| tree.parts);
        let Some((a, b)) = parts else {
            let plan = self.inputs[set.trailing_zeros() as usize].plan.clone();
            let own = self.conditions.iter().filter(|condition| condition.inputs == set);
            return Ok(match conjunction(own.map(|condition| condition.expr.clone())) {
                Some(own) => LogicalPlan::Filter(Filter::try_new(own, Arc::new(plan))?),
                None => plan,
            });
        };
        let (a, b, ty) = match self.taking(a, b) {
            Ok(Some((by, of, true))) => (of, by, JoinType::LeftSemi),
            Ok(Some((by, of, false))) => (of, by, JoinType::LeftAnti),
            _ => (a, b, JoinType::Inner),
        };
        let (left, right) = (self.build(trees, a)?, self.build(trees, b)?);
        let (mut on, mut filters) = (Vec::new(), Vec::new());
        for condition in &self.conditions {
            let inside = condition.inputs & !set == 0;
            let below = condition.inputs & !a == 0 || condition.inputs & !b == 0;
            if below || !inside {
                continue;
            }
            match condition.ordered(a, b) {
                Some((one, two)) => on.push((one.clone(), two.clone())),
                None => filters.push(condition.expr.clone()),
            }
        }
        Ok(LogicalPlan::Join(Join::try_new(
            Arc::new(left),
            Arc::new(right),
            on,
            conjunction(filters),
            ty,
            JoinConstraint::On,
            NullEquality::NullEqualsNothing,
            false,
        )?))
    }
}

impl Condition {
    /// Of an equality of something in `a` with something in `b`: its sides in that order.
    fn ordered(&self, a: u32, b: u32) -> Option<(&Expr, &Expr)> {
        let [(left, of_left), (right, of_right)] = self.sides.as_ref()?;
        let is = |of: u32, set: u32| of != 0 && of & !set == 0;
        if is(*of_left, a) && is(*of_right, b) {
            Some((left, right))
        } else if is(*of_left, b) && is(*of_right, a) {
            Some((right, left))
        } else {
            None
        }
    }
}

/// What has been found out of join keys.
#[derive(Default)]
struct Facts(HashMap<String, Option<Fact>>);

impl Facts {
    fn of(&mut self, group: &Group, expr: &Expr) -> Option<Fact> {
        let name = expr.to_string();
        if let Some(known) = self.0.get(&name) {
            return known.clone();
        }
        let mut found = None;
        if let Some(column) = column_of(expr) {
            let of = group.inputs.iter().find(|input| input.plan.schema().has_column(column));
            found = of.and_then(|input| fact_of(&input.plan, column));
        }
        self.0.insert(name, found.clone());
        found
    }
}

fn column_of(expr: &Expr) -> Option<&Column> {
    match expr {
        Expr::Column(column) => Some(column),
        Expr::Cast(cast) => column_of(&cast.expr),
        Expr::Alias(alias) => column_of(&alias.expr),
        _ => None,
    }
}

fn scanned(plan: &LogicalPlan) -> Option<(Arc<TableDef>, TableSize)> {
    match plan {
        LogicalPlan::TableScan(scan) => {
            let provider = source_as_provider(&scan.source).ok()?;
            let source = provider.downcast_ref::<TableScanSource>()?;
            Some((source.table().clone(), source.size().clone()))
        }
        LogicalPlan::SubqueryAlias(alias) => scanned(&alias.input),
        LogicalPlan::Projection(projection) if is_plain(projection) => scanned(&projection.input),
        _ => None,
    }
}

/// What is known of a plan's column.
fn fact_of(plan: &LogicalPlan, column: &Column) -> Option<Fact> {
    match plan {
        LogicalPlan::TableScan(_) => {
            let (table, size) = scanned(plan)?;
            let at = table.column(&column.name)?;
            Fact::of(&table, &size, at)
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let at = plan.schema().maybe_index_of_column(column)?;
            let below = alias.input.schema().columns().into_iter().nth(at)?;
            fact_of(&alias.input, &below)
        }
        LogicalPlan::Projection(projection) => {
            let at = plan.schema().maybe_index_of_column(column)?;
            fact_of(&projection.input, column_of(projection.expr.get(at)?)?)
        }
        LogicalPlan::Aggregate(aggregate) => {
            let at = plan.schema().maybe_index_of_column(column)?;
            fact_of(&aggregate.input, column_of(aggregate.group_expr.get(at)?)?)
        }
        LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Distinct(_)
        | LogicalPlan::Join(_) => {
            let inputs = plan.inputs();
            let input = inputs.into_iter().find(|input| input.schema().has_column(column))?;
            fact_of(input, column)
        }
        _ => None,
    }
}

/// Whether all that a filter asks is told to the scan below it, whose rows are judged by it.
fn is_told(filter: &Filter) -> bool {
    let LogicalPlan::TableScan(scan) = &*filter.input else { return false };
    split_conjunction(&filter.predicate).into_iter().all(|one| scan.filters.contains(one))
}

/// Rows that a plan is thought to yield.
pub(crate) fn rows_of(plan: &LogicalPlan) -> DfResult<f64> {
    let inputs = plan.inputs();
    Ok(match plan {
        LogicalPlan::TableScan(scan) => {
            let provider = source_as_provider(&scan.source).ok();
            let source = provider.as_ref().and_then(|p| p.downcast_ref::<TableScanSource>());
            let Some(source) = source else { return Ok(1000.0) };
            #[allow(clippy::cast_precision_loss)] // a guess
            let limit = scan.fetch.map_or(f64::INFINITY, |limit| limit as f64);
            source.rows_kept(&scan.filters).min(limit)
        }
        LogicalPlan::Filter(filter) => {
            let rows = rows_of(&filter.input)?;
            if is_told(filter) { rows } else { rows * OTHER }
        }
        LogicalPlan::Aggregate(aggregate) => {
            let rows = rows_of(&aggregate.input)?;
            if aggregate.group_expr.is_empty() {
                return Ok(1.0);
            }
            let fact = |expr| column_of(expr).and_then(|c| fact_of(&aggregate.input, c));
            let facts: Vec<Option<Fact>> = aggregate.group_expr.iter().map(fact).collect();
            groups(&facts, rows).unwrap_or(rows * 0.1)
        }
        LogicalPlan::Join(join) => {
            let rows = (rows_of(&join.left)?, rows_of(&join.right)?);
            let fact = |plan: &LogicalPlan, expr: &Expr| {
                column_of(expr).and_then(|column| fact_of(plan, column))
            };
            let of_left: Vec<_> = join.on.iter().map(|(l, _)| fact(&join.left, l)).collect();
            let of_right: Vec<_> = join.on.iter().map(|(_, r)| fact(&join.right, r)).collect();
            let found = Matches::of(&of_left, &of_right, rows);
            let pairs = match &found {
                Some(found) => found.pairs(),
                None if join.on.is_empty() => rows.0 * rows.1,
                None => rows.0.max(rows.1),
            };
            let found = found.as_ref();
            let left_part = found.and_then(Matches::left_part).unwrap_or(0.5);
            let right_part = found.and_then(Matches::right_part).unwrap_or(0.5);
            match join.join_type {
                JoinType::Inner => pairs,
                JoinType::Left => pairs.max(rows.0),
                JoinType::Right => pairs.max(rows.1),
                JoinType::Full => pairs.max(rows.0).max(rows.1),
                JoinType::LeftSemi => rows.0 * left_part,
                JoinType::LeftAnti => rows.0 * (1.0 - left_part).max(0.01),
                JoinType::RightSemi => rows.1 * right_part,
                JoinType::RightAnti => rows.1 * (1.0 - right_part).max(0.01),
                JoinType::LeftMark => rows.0,
                JoinType::RightMark => rows.1,
            }
        }
        LogicalPlan::Limit(limit) => {
            let rows = rows_of(&limit.input)?;
            match limit.get_fetch_type()? {
                #[allow(clippy::cast_precision_loss)] // a guess
                datafusion::logical_expr::FetchType::Literal(Some(fetch)) => rows.min(fetch as f64),
                _ => rows,
            }
        }
        LogicalPlan::Union(_) => {
            let each = inputs.into_iter().map(rows_of);
            each.sum::<DfResult<f64>>()?
        }
        LogicalPlan::EmptyRelation(_) => 1.0,
        LogicalPlan::Values(values) => {
            #[allow(clippy::cast_precision_loss)] // a guess
            let rows = values.values.len() as f64;
            rows
        }
        _ => match inputs.first() {
            Some(input) => rows_of(input)?,
            None => 1000.0,
        },
    })
}

/// What working a plan out costs, in rows of a full scan.
pub(crate) fn cost_of(plan: &LogicalPlan) -> DfResult<f64> {
    if let LogicalPlan::TableScan(scan) = plan
        && let Ok(provider) = source_as_provider(&scan.source)
        && let Some(source) = provider.downcast_ref::<TableScanSource>()
    {
        let (kept, all) = (rows_of(plan)?, source.size().rows);
        let by_index = source.is_served(&scan.filters);
        return Ok(if by_index { (kept * LOOKUP_ROWS).min(all) } else { all });
    }
    let mut cost = rows_of(plan)?;
    for input in plan.inputs() {
        cost += cost_of(input)?;
    }
    Ok(cost)
}
