//! Steps of a plan in PostgreSQL's words: what each does, and beside it its conditions, keys and
//! bounds as SQL.
//!
//! What it promises: a column has one name wherever the plan speaks of it, that of its table, or
//! the expression that makes it. What it must never do: show a step's name as the library has it,
//! or places of columns where we have words for them.

mod exprs;
mod operators;
mod sets;

use crate::apply_exec::ApplyExec;
use crate::bounds::{shown, was_merged};
use crate::explain::unwatched;
use crate::fixed::name_of;
use crate::gather::GatherExec;
use crate::given::GivenExec;
use crate::index_join::{From, IndexJoin, IndexJoinExec, KeyPart};
use crate::join_keys::KeysExec;
use crate::row_calls::CallsExec;
use crate::scalar::{CmpOp, Scalar};
use crate::scan::{Access, ScanExec, ScanWork};
use datafusion::common::{JoinSide, JoinType};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec,
};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::memory::LazyMemoryExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::partial_sort::PartialSortExec;
use datafusion::physical_plan::sorts::partitioned_topk::PartitionedTopKExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::work_table::WorkTableExec;
use datafusion::physical_plan::{InputOrderMode, windows};
use exprs::{Names, all_of, compared, made_name, scalar, told, words};
use kernel::dict::{IndexDef, IndexKind, KEY_EXPR, TableDef};
use kernel::row::Value;
pub use operators::{Object, Operation, Operator, TABLE_ACCESS};
use std::collections::HashMap;
use std::sync::Arc;

type Plan = Arc<dyn ExecutionPlan>;
type Pair = (Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>);

/// What is told of a step beside its words: a label, and the text behind it.
pub type Detail = (&'static str, String);

/// The details that say which rows there are.
pub(crate) const FILTER: &str = "Filter";
/// The same of what is known before any is read.
const ONE_TIME: &str = "One-Time Filter";

/// A step in words.
pub(crate) struct Told {
    pub(crate) operator: Operator,
    pub(crate) head: String,
    pub(crate) details: Vec<Detail>,
}

impl Told {
    fn new(operator: Operator) -> Told {
        Told { operator, head: operator.word(), details: Vec::new() }
    }

    /// With words before the operator's own.
    fn after(mut self, words: &str) -> Told {
        self.head.insert_str(0, words);
        self
    }

    /// With words behind the operator's own.
    fn on(mut self, words: &str) -> Told {
        self.head.push_str(words);
        self
    }

    fn with(mut self, label: &'static str, text: Option<String>) -> Told {
        self.details.extend(text.map(|text| (label, text)));
        self
    }
}

/// The step itself, without those that only watch it.
fn plain(plan: &Plan) -> &Plan {
    shown(unwatched(plan))
}

fn id(plan: &Plan) -> usize {
    Arc::as_ptr(plan).cast::<()>().addr()
}

/// Calls tables by their names, one that is read more than once by another each time.
pub(crate) struct Namer {
    /// By the step that reads it.
    tables: HashMap<usize, String>,
    /// Whether columns need their table's name.
    several: bool,
}

/// What a step reads that has a name.
fn read_by(plan: &Plan) -> Option<String> {
    if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        return Some(scan.work().table.name.clone());
    }
    if let Some(join) = plan.downcast_ref::<IndexJoinExec>() {
        return Some(join.inner().table.name.clone());
    }
    fixed(plan)
}

/// The function whose rows a step gives.
pub(crate) fn function_of(plan: &dyn ExecutionPlan) -> Option<String> {
    let rows = plan.downcast_ref::<LazyMemoryExec>()?;
    let told = rows.generators().first()?.read().to_string();
    told.split_once(':').map(|(name, _)| name.to_owned())
}

/// What a step gives on as it is, or with columns worked out, and has no step of its own for.
pub(crate) fn passed_on(plan: &Plan) -> Option<&Plan> {
    match plan.children()[..] {
        [only] if Operator::named(plan.name()) == Operator::PassesOn => Some(only),
        _ => None,
    }
}

/// The view or list whose rows are in memory.
fn fixed(plan: &Plan) -> Option<String> {
    name_of(plan.as_ref()).map(str::to_owned)
}

impl Namer {
    pub(crate) fn of(plan: &Plan) -> Namer {
        let mut namer = Namer { tables: HashMap::new(), several: false };
        let mut counts = HashMap::new();
        namer.add(plan, &mut counts);
        namer.several = namer.tables.len() > 1;
        namer
    }

    fn add(&mut self, plan: &Plan, counts: &mut HashMap<String, usize>) {
        let plan = plain(plan);
        if let Some(name) = read_by(plan) {
            let count = counts.entry(name.clone()).or_insert(0);
            let name = if *count == 0 { name } else { format!("{name}_{count}") };
            *count += 1;
            self.tables.insert(id(plan), name);
        }
        for input in plan.children() {
            self.add(input, counts);
        }
    }

    /// The table, with the name that its columns go by if that is another.
    fn table(&self, plan: &Plan, name: &str) -> String {
        match self.tables.get(&id(plan)) {
            Some(other) if other != name => format!("{name} {other}"),
            _ => name.to_owned(),
        }
    }

    fn qualified(&self, plan: &Plan, column: &str) -> String {
        match self.tables.get(&id(plan)) {
            Some(table) if self.several => format!("{table}.{column}"),
            _ => column.to_owned(),
        }
    }

    fn table_column(&self, plan: &Plan, table: &TableDef, at: usize) -> String {
        let name = table.columns.get(at).map_or("?", |column| &column.name);
        self.qualified(plan, name)
    }

    /// What a plan's column is.
    fn column(&self, plan: &Plan, at: usize) -> String {
        let plan = plain(plan);
        let own = || made_name(plan.schema().fields().get(at).map_or("?", |field| field.name()));
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>()
            && let Some(found) = projection.expr().get(at)
        {
            return self.expr(projection.input(), &found.expr);
        }
        if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            let at = filter.projection().as_ref().map_or(Some(at), |p| p.get(at).copied());
            return at.map_or_else(own, |at| self.column(filter.input(), at));
        }
        if plan.downcast_ref::<ScanExec>().is_some() || fixed(plan).is_some() {
            return self.qualified(plan, &own());
        }
        if let Some(join) = plan.downcast_ref::<IndexJoinExec>() {
            return match join.origin(at) {
                Some(From::Outer(at)) => self.column(join.outer(), at),
                Some(From::Inner(_)) => self.qualified(plan, &own()),
                None => own(),
            };
        }
        if let Some((left, right, kind, projection)) = joined(plan) {
            let at = projection.map_or(Some(at), |p| p.get(at).copied());
            let Some(at) = at else { return own() };
            let count = left.schema().fields().len();
            return match kind {
                JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
                    if at < right.schema().fields().len() { self.column(right, at) } else { own() }
                }
                _ if at < count => self.column(left, at),
                JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => own(),
                _ => self.column(right, at - count),
            };
        }
        if let Some(groups) = plan.downcast_ref::<AggregateExec>() {
            return self.aggregate_column(groups, at).unwrap_or_else(own);
        }
        let children = plan.children();
        let like_first = plan.downcast_ref::<UnionExec>().is_some()
            || children.len() == 1 && plan.downcast_ref::<UnnestExec>().is_none();
        match children.first() {
            Some(first) if like_first && at < first.schema().fields().len() => {
                self.column(first, at)
            }
            _ => own(),
        }
    }

    fn aggregate_column(&self, groups: &AggregateExec, at: usize) -> Option<String> {
        let by = groups.group_expr().expr();
        if let Some((expr, _)) = by.get(at) {
            return Some(self.expr(groups.input(), expr));
        }
        let more = usize::from(groups.group_expr().has_grouping_set());
        let call = groups.aggr_expr().get(at.checked_sub(by.len() + more)?)?;
        // The second of two steps has the arguments as the first takes them.
        let input = match groups.mode() {
            AggregateMode::Final | AggregateMode::FinalPartitioned => first_part(groups.input())?,
            _ => groups.input(),
        };
        let args: Vec<String> =
            call.expressions().iter().map(|arg| self.expr(input, arg)).collect();
        let args = args.join(", ");
        let function = made_name(call.fun().name());
        Some(match (&*function, &*args) {
            ("count", "1") => "count(*)".to_owned(),
            _ if call.is_distinct() => format!("{function}(DISTINCT {args})"),
            _ => format!("{function}({args})"),
        })
    }

    /// An expression over the rows of `input`.
    fn expr(&self, input: &Plan, expr: &Arc<dyn PhysicalExpr>) -> String {
        told(expr, &|at| self.column(input, at))
    }

    fn exprs(&self, input: &Plan, exprs: &[&Arc<dyn PhysicalExpr>]) -> Option<String> {
        let all: Vec<String> = exprs.iter().map(|expr| self.expr(input, expr)).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }

    /// A condition on the rows of `input`; `None`: it is always true.
    pub(crate) fn condition(&self, input: &Plan, expr: &Arc<dyn PhysicalExpr>) -> Option<String> {
        words(expr, &|at| self.column(input, at))
    }

    fn sort_key(&self, input: &Plan, sort: &PhysicalSortExpr) -> String {
        let key = self.expr(input, &sort.expr);
        let nulls = match (sort.options.descending, sort.options.nulls_first) {
            (false, true) => " NULLS FIRST",
            (true, false) => " NULLS LAST",
            _ => "",
        };
        let down = if sort.options.descending { " DESC" } else { "" };
        format!("{key}{down}{nulls}")
    }

    fn sort_keys<'a>(
        &self,
        input: &Plan,
        keys: impl Iterator<Item = &'a PhysicalSortExpr>,
    ) -> String {
        keys.map(|key| self.sort_key(input, key)).collect::<Vec<_>>().join(", ")
    }

    fn pairs(&self, left: &Plan, right: &Plan, on: &[Pair]) -> Option<String> {
        let pair = |(a, b): &Pair| compared(&self.expr(left, a), CmpOp::Eq, &self.expr(right, b));
        all_of(on.iter().map(pair).collect())
    }

    /// What pairs of rows must meet.
    fn join_filter(&self, left: &Plan, right: &Plan, filter: &JoinFilter) -> Option<String> {
        words(filter.expression(), &|at| match filter.column_indices().get(at) {
            Some(found) if found.side == JoinSide::Left => self.column(left, found.index),
            Some(found) if found.side == JoinSide::Right => self.column(right, found.index),
            _ => "?".to_owned(),
        })
    }

    /// A step in words.
    pub(crate) fn told(&self, plan: &Plan) -> Told {
        let (given, plan) = (unwatched(plan), plain(plan));
        if let Some(scan) = plan.downcast_ref::<ScanExec>() {
            return self.scan(plan, scan);
        }
        if let Some(join) = plan.downcast_ref::<IndexJoinExec>() {
            return self.index_join(plan, join);
        }
        if let Some(told) = self.join(given, plan) {
            return told;
        }
        if let Some(told) = self.sort(plan) {
            return told;
        }
        if let Some(groups) = plan.downcast_ref::<AggregateExec>() {
            return self.aggregate(groups);
        }
        if let Some(limit) = plan.downcast_ref::<GlobalLimitExec>() {
            let (fetch, skip) = (limit.fetch(), limit.skip());
            let operator = if fetch.is_some() { Operator::Limit } else { Operator::Offset };
            return Told::new(operator)
                .with("Offset", (skip > 0).then(|| skip.to_string()))
                .with("Limit", fetch.map(|rows| rows.to_string()));
        }
        if let Some(limit) = plan.downcast_ref::<LocalLimitExec>() {
            return Told::new(Operator::Limit).with("Limit", Some(limit.fetch().to_string()));
        }
        if let Some(window) = plan.downcast_ref::<WindowAggExec>() {
            return self.window(window.input(), window.window_expr());
        }
        if let Some(window) = plan.downcast_ref::<BoundedWindowAggExec>() {
            return self.window(window.input(), window.window_expr());
        }
        if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            let condition = self.condition(filter.input(), filter.predicate());
            return Told::new(Operator::Filter).with(FILTER, condition);
        }
        if let Some(gather) = plan.downcast_ref::<GatherExec>() {
            let workers = gather.workers().to_string();
            return Told::new(Operator::Gather).with("Workers Planned", Some(workers));
        }
        if let Some(keys) = plan.downcast_ref::<KeysExec>() {
            let input = keys.input();
            let all: Vec<String> = keys.exprs().map(|key| self.expr(input, key)).collect();
            return Told::new(Operator::JoinKeys).with("Keys", Some(all.join(", ")));
        }
        if let Some(name) = fixed(plan) {
            let dual = name.eq_ignore_ascii_case("dual");
            let operator = if dual { Operator::DualScan } else { Operator::FixedScan };
            return Told::new(operator).on(&format!(" on {}", self.table(plan, &name)));
        }
        if let Some(table) = plan.downcast_ref::<WorkTableExec>() {
            return Told::new(Operator::WorkTableScan)
                .on(&format!(" on {}", made_name(table.name())));
        }
        if let Some(function) = function_of(plan.as_ref()) {
            return Told::new(Operator::FunctionScan).on(&format!(" on {function}"));
        }
        if let Some(given) = plan.downcast_ref::<GivenExec>() {
            let part = given.part();
            return Told::new(Operator::GivenScan).on(&format!(" on part {part} of the statement"));
        }
        if let Some(calls) = plan.downcast_ref::<CallsExec>() {
            let operator = if calls.has_sequence() { Operator::Sequence } else { Operator::Calls };
            return Told::new(operator).on(&format!(": {}", calls.functions()));
        }
        if let Some(apply) = plan.downcast_ref::<ApplyExec>() {
            let count = apply.subqueries();
            return Told::new(Operator::Apply).on(&format!(": {count} subqueries for each row"));
        }
        if plan.downcast_ref::<EmptyExec>().is_some() {
            return Told::new(Operator::NoRows).with(ONE_TIME, Some("false".to_owned()));
        }
        Told::new(match (Operator::named(plan.name()), plan.children().len()) {
            // All that is known of them.
            (Operator::PassesOn, 0) => Operator::Result,
            (Operator::PassesOn, _) => Operator::Append,
            (operator, _) => operator,
        })
    }

    fn sort(&self, plan: &Plan) -> Option<Told> {
        let told = |operator, input: &Plan, keys: &[PhysicalSortExpr], limit: Option<usize>| {
            Told::new(operator)
                .with("Sort Key", Some(self.sort_keys(input, keys.iter())))
                .with("Limit", limit.map(|rows| rows.to_string()))
        };
        if let Some(sort) = plan.downcast_ref::<SortExec>() {
            let first = sort.fetch().is_some();
            let operator = if first { Operator::FirstRows } else { Operator::Sort };
            return Some(told(operator, sort.input(), sort.expr(), sort.fetch()));
        }
        if let Some(sort) = plan.downcast_ref::<PartialSortExec>() {
            return Some(told(Operator::IncrementalSort, sort.input(), sort.expr(), sort.fetch()));
        }
        if let Some(sort) = plan.downcast_ref::<PartitionedTopKExec>() {
            let first = Operator::FirstOfGroups;
            return Some(told(first, sort.input(), sort.expr(), Some(sort.fetch())));
        }
        let merge = plan.downcast_ref::<SortPreservingMergeExec>()?;
        Some(told(Operator::MergeAppend, merge.input(), merge.expr(), merge.fetch()))
    }

    fn aggregate(&self, groups: &AggregateExec) -> Told {
        let by = groups.group_expr();
        let exprs: Vec<&Arc<dyn PhysicalExpr>> = by.expr().iter().map(|(expr, _)| expr).collect();
        let sorted = groups.input_order_mode() == &InputOrderMode::Sorted;
        let operator = match (exprs.is_empty(), sorted) {
            (true, _) => Operator::Aggregate,
            (false, true) => Operator::GroupAggregate,
            (false, false) => Operator::HashAggregate,
        };
        let part = match groups.mode() {
            AggregateMode::Partial | AggregateMode::PartialReduce => "Partial ",
            AggregateMode::Final | AggregateMode::FinalPartitioned => "Finalize ",
            AggregateMode::Single | AggregateMode::SinglePartitioned => "",
        };
        let label = if by.has_grouping_set() { "Grouping Sets" } else { "Group Key" };
        let limit = groups.limit_options().map(|limit| limit.limit().to_string());
        Told::new(operator)
            .after(part)
            .with(label, self.exprs(groups.input(), &exprs))
            .with("Limit", limit)
    }

    fn window(&self, input: &Plan, exprs: &[Arc<dyn windows::WindowExpr>]) -> Told {
        let told = Told::new(Operator::Window);
        let Some(first) = exprs.first() else { return told };
        let by: Vec<&Arc<dyn PhysicalExpr>> = first.partition_by().iter().collect();
        let order = first.order_by();
        told.with("Partition By", self.exprs(input, &by))
            .with("Order By", (!order.is_empty()).then(|| self.sort_keys(input, order.iter())))
    }

    /// `given`: the step with what keeps its memory within bounds.
    fn join(&self, given: &Plan, plan: &Plan) -> Option<Told> {
        let (left, right, kind, _) = joined(plan)?;
        let filter = |filter: Option<&JoinFilter>| {
            filter.and_then(|filter| self.join_filter(left, right, filter))
        };
        if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            let spilled = was_merged(given).then(|| "from temporary files".to_owned());
            return Some(
                Told::new(Operator::HashJoin(kind))
                    .with("Hash Cond", self.pairs(left, right, join.on()))
                    .with("Join Filter", filter(join.filter()))
                    .with("Merged", spilled),
            );
        }
        if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>() {
            return Some(
                Told::new(Operator::MergeJoin(kind))
                    .with("Merge Cond", self.pairs(left, right, join.on()))
                    .with("Join Filter", filter(join.filter().as_ref())),
            );
        }
        let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() else {
            return Some(Told::new(Operator::CrossJoin));
        };
        Some(Told::new(Operator::NestedLoop(kind)).with("Join Filter", filter(join.filter())))
    }

    /// What an index's column is.
    fn index_column(&self, plan: &Plan, table: &TableDef, index: &IndexDef, at: usize) -> String {
        match index.columns.get(at) {
            Some(column) if *column >= KEY_EXPR => {
                let expr = index.exprs.get(usize::from(*column - KEY_EXPR));
                expr.map_or("?".to_owned(), |expr| format!("({})", expr.text))
            }
            Some(column) => self.table_column(plan, table, usize::from(*column)),
            None => "?".to_owned(),
        }
    }

    /// What leads to the rows.
    fn access(&self, plan: &Plan, work: &ScanWork, access: &Access) -> Option<String> {
        let names: Names<'_> = &|at| self.table_column(plan, &work.table, at);
        match access {
            Access::Full => None,
            Access::Range { index, equal, lower, upper, .. } => {
                let column = |at| self.index_column(plan, &work.table, index, at);
                let mut all: Vec<String> = equal
                    .iter()
                    .enumerate()
                    .map(|(at, value)| compared(&column(at), CmpOp::Eq, &scalar(value, names)))
                    .collect();
                for (bound, op) in [(lower, CmpOp::Ge), (upper, CmpOp::Le)] {
                    all.extend(
                        bound
                            .iter()
                            .map(|value| compared(&column(equal.len()), op, &scalar(value, names))),
                    );
                }
                all_of(all)
            }
            Access::Keys { index, keys } => {
                let column = self.index_column(plan, &work.table, index, 0);
                // As a condition on the column, whose name stands for it.
                let list = Scalar::In(Box::new(Scalar::Column(0)), keys.clone());
                Some(scalar(&list, &|at| if at == 0 { column.clone() } else { names(at) }))
            }
            Access::Any { branches } => {
                let all: Vec<String> = branches
                    .iter()
                    .filter_map(|branch| self.access(plan, work, &branch.access))
                    .collect();
                Some(format!("({})", all.join(" OR ")))
            }
            Access::Bits(found) => Some(self.bits(plan, work, &found.bits)),
        }
    }

    fn filters(&self, plan: &Plan, work: &ScanWork, filters: &[Scalar]) -> Option<String> {
        let names: Names<'_> = &|at| self.table_column(plan, &work.table, at);
        let mut all = Vec::new();
        filters.iter().for_each(|filter| filter.conjuncts(&mut all));
        all.retain(|filter| **filter != Scalar::Const(Value::Bool(true)));
        all_of(all.into_iter().map(|filter| scalar(filter, names)).collect())
    }

    /// One access of a scan by several, each by an index: `earlier` are what those before it are
    /// for, whose rows it leaves out.
    pub(crate) fn branch(&self, plan: &Plan, branch: &ScanExec, earlier: &[&Scalar]) -> Told {
        let mut told = self.scan(plan, branch);
        let names: Names<'_> = &|at| self.table_column(plan, &branch.work().table, at);
        let gone = |one: &&Scalar| {
            let text = scalar(one, names);
            match text.starts_with('(') && text.ends_with(')') {
                true => format!("lnnvl{text}"),
                false => format!("lnnvl({text})"),
            }
        };
        let at = told.details.iter().position(|(label, _)| *label == FILTER);
        let own = at.map(|at| told.details.remove(at).1);
        told.with(FILTER, all_of(own.into_iter().chain(earlier.iter().map(gone)).collect()))
    }

    fn scan(&self, plan: &Plan, scan: &ScanExec) -> Told {
        let work = scan.work();
        let table = self.table(plan, &work.table.name);
        let by = scan.names().index.unwrap_or_default();
        let past = if work.as_of.is_some() { " as of an earlier SCN" } else { "" };
        let operator = scan_operator(work);
        let behind = match &work.access {
            Access::Full => format!(" on {table}{past}"),
            Access::Range { backward: true, .. } => {
                format!(" Backward using {by} on {table}{past}")
            }
            _ => format!(" using {by} on {table}{past}"),
        };
        // What the range of keys says itself is told there.
        let filter = self.filters(plan, work, &work.unsaid);
        let probes: Vec<String> = work
            .probes
            .iter()
            .map(|probe| self.table_column(plan, &work.table, probe.column))
            .collect();
        Told::new(operator)
            .on(&behind)
            .with("Index Cond", self.access(plan, work, &work.access))
            .with(FILTER, filter)
            .with("Join Keys", (!probes.is_empty()).then(|| probes.join(", ")))
            .with("Limit", work.limit.map(|rows| rows.to_string()))
    }

    fn index_join(&self, plan: &Plan, join: &IndexJoinExec) -> Told {
        let (IndexJoin { index, inner: work, key, filter, limit, .. }, outer) =
            (join.join(), join.outer());
        let table = self.table(plan, &work.table.name);
        let behind = format!(": Index Scan using {} on {table}", index.name);
        let names: Names<'_> = &|at| self.table_column(plan, &work.table, at);
        let pairs = key.iter().enumerate().map(|(at, part)| {
            let value = match part {
                KeyPart::Outer(expr) => self.expr(outer, expr),
                KeyPart::Fixed(value) => scalar(value, names),
            };
            compared(&self.index_column(plan, &work.table, index, at), CmpOp::Eq, &value)
        });
        let filter = filter.as_ref().and_then(|(filter, outer_side)| {
            words(filter.expression(), &|at| match filter.column_indices().get(at) {
                Some(found) if found.side == *outer_side => self.column(outer, found.index),
                Some(found) => {
                    let field = work.schema.fields().get(found.index);
                    self.qualified(plan, field.map_or("?", |field| field.name()))
                }
                None => "?".to_owned(),
            })
        });
        Told::new(Operator::NestedLoop(join.join_type()))
            .on(&behind)
            .with("Index Cond", all_of(pairs.collect()))
            .with(FILTER, self.filters(plan, work, &work.filters))
            .with("Join Filter", filter)
            .with("Limit", limit.map(|rows| rows.to_string()))
    }
}

/// How a table is read.
fn scan_operator(work: &ScanWork) -> Operator {
    let (count, only) = (work.counts_rows(), work.only_index().is_some());
    match &work.access {
        Access::Full => Operator::SeqScan,
        Access::Range { index, equal, backward, .. } => {
            let (backward, whole) = (*backward, work.access.is_whole());
            let one = index.unique && equal.len() == index.columns.len();
            match (index.kind == IndexKind::Bitmap, only) {
                (true, _) if count => Operator::BitmapCount,
                _ if one => Operator::IndexUniqueScan,
                (true, true) => Operator::BitmapOnlyScan,
                (true, false) => Operator::BitmapScan,
                (false, true) if whole => Operator::IndexOnlyFullScan { backward },
                (false, true) => Operator::IndexOnlyScan { backward },
                (false, false) if whole => Operator::IndexFullScan { backward },
                (false, false) => Operator::IndexRangeScan { backward },
            }
        }
        Access::Keys { index, .. } => {
            Operator::IndexKeysScan { unique: index.unique && index.columns.len() == 1 }
        }
        Access::Any { .. } => Operator::IndexAnyScan,
        Access::Bits(_) if count => Operator::BitmapCount,
        Access::Bits(_) => Operator::BitmapScan,
    }
}

/// `(a = 1)`: the columns of an index beside values for them.
#[must_use]
pub fn key_condition(table: &TableDef, index: &IndexDef, key: &[Scalar]) -> String {
    let name = |at: usize| table.columns.get(at).map_or("?", |column| &*column.name).to_owned();
    let pairs = index.columns.iter().zip(key).map(|(column, value)| {
        compared(&name(usize::from(*column)), CmpOp::Eq, &scalar(value, &name))
    });
    all_of(pairs.collect()).unwrap_or_default()
}

/// What a condition on the rows of a table asks beside such a key; `None`: nothing.
#[must_use]
pub fn condition_beside_key(
    table: &TableDef,
    index: &IndexDef,
    key: &[Scalar],
    condition: &Scalar,
) -> Option<String> {
    let name = |at: usize| table.columns.get(at).map_or("?", |column| &*column.name).to_owned();
    let is_of_key = |side: &Scalar, value: &Scalar| {
        let mut parts = index.columns.iter().zip(key);
        parts.any(|(column, own)| *side == Scalar::Column(usize::from(*column)) && own == value)
    };
    let mut all = Vec::new();
    condition.conjuncts(&mut all);
    all.retain(|one| match one {
        Scalar::Compare(CmpOp::Eq, sides) => {
            !is_of_key(&sides.0, &sides.1) && !is_of_key(&sides.1, &sides.0)
        }
        _ => true,
    });
    all_of(all.into_iter().map(|one| scalar(one, &name)).collect())
}

/// The sides of a join, its kind, and which of both sides' columns it gives, if not all.
#[allow(clippy::type_complexity)] // taken apart at once
fn joined(plan: &Plan) -> Option<(&Plan, &Plan, JoinType, Option<&[usize]>)> {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        let projection = join.projection.as_deref();
        return Some((join.left(), join.right(), *join.join_type(), projection));
    }
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        let projection = join.projection().as_deref();
        return Some((join.left(), join.right(), *join.join_type(), projection));
    }
    if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>() {
        return Some((join.left(), join.right(), join.join_type(), None));
    }
    let join = plan.downcast_ref::<CrossJoinExec>()?;
    Some((join.left(), join.right(), JoinType::Inner, None))
}

/// What the first of two steps of grouping reads.
fn first_part(plan: &Plan) -> Option<&Plan> {
    let plan = plain(plan);
    match plan.downcast_ref::<AggregateExec>() {
        Some(groups) => Some(groups.input()),
        None => match plan.children()[..] {
            [only] => first_part(only),
            _ => None,
        },
    }
}
