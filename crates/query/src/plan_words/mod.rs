//! Steps of a plan in PostgreSQL's words: what each does, and beside it its conditions, keys and
//! bounds as SQL.
//!
//! What it promises: a column has one name wherever the plan speaks of it, that of its table, or
//! the expression that makes it. What it must never do: show a step's name or places of columns as
//! the library has them, where we have words for it.

mod exprs;

use crate::append::AppendExec;
use crate::bounds::{shown, was_merged};
use crate::explain::unwatched;
use crate::fixed::name_of;
use crate::gather::GatherExec;
use crate::index_join::{From, IndexJoin, IndexJoinExec, KeyPart};
use crate::join_keys::KeysExec;
use crate::scalar::{CmpOp, Scalar};
use crate::scan::{Access, Bits, ScanExec, ScanWork};
use datafusion::common::{JoinSide, JoinType};
use datafusion::datasource::source::DataSourceExec;
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
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::work_table::WorkTableExec;
use datafusion::physical_plan::{displayable, windows};
use exprs::{Names, all_of, compared, made_name, scalar, told, words};
use kernel::dict::{IndexDef, IndexKind, KEY_EXPR, TableDef};
use kernel::row::Value;
use std::collections::HashMap;
use std::sync::Arc;

type Plan = Arc<dyn ExecutionPlan>;
type Pair = (Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>);

/// What is told of a step beside its words: a label, and the text behind it.
pub type Detail = (&'static str, String);

/// The details that say which rows there are.
pub(crate) const FILTER: &str = "Filter";

/// A step in words.
pub(crate) struct Told {
    pub(crate) head: String,
    pub(crate) details: Vec<Detail>,
}

impl Told {
    fn new(head: impl Into<String>) -> Told {
        Told { head: head.into(), details: Vec::new() }
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
        if let Some(sort) = plan.downcast_ref::<SortExec>() {
            let keys = self.sort_keys(sort.input(), sort.expr().iter());
            let limit = sort.fetch().map(|rows| rows.to_string());
            return Told::new("Sort").with("Sort Key", Some(keys)).with("Limit", limit);
        }
        if let Some(groups) = plan.downcast_ref::<AggregateExec>() {
            return self.aggregate(groups);
        }
        if let Some(limit) = plan.downcast_ref::<GlobalLimitExec>() {
            let (fetch, skip) = (limit.fetch(), limit.skip());
            return Told::new("Limit")
                .with("Offset", (skip > 0).then(|| skip.to_string()))
                .with("Limit", fetch.map(|rows| rows.to_string()));
        }
        if let Some(limit) = plan.downcast_ref::<LocalLimitExec>() {
            return Told::new("Limit").with("Limit", Some(limit.fetch().to_string()));
        }
        if let Some(window) = plan.downcast_ref::<WindowAggExec>() {
            return self.window(window.input(), window.window_expr());
        }
        if let Some(window) = plan.downcast_ref::<BoundedWindowAggExec>() {
            return self.window(window.input(), window.window_expr());
        }
        if let Some(filter) = plan.downcast_ref::<FilterExec>() {
            let condition = self.condition(filter.input(), filter.predicate());
            return Told::new("Subquery Scan").with(FILTER, condition);
        }
        if let Some(gather) = plan.downcast_ref::<GatherExec>() {
            let workers = gather.workers().to_string();
            return Told::new("Gather").with("Workers Planned", Some(workers));
        }
        if let Some(keys) = plan.downcast_ref::<KeysExec>() {
            let input = keys.input();
            let all: Vec<String> = keys.exprs().map(|key| self.expr(input, key)).collect();
            return Told::new("Join Keys").with("Keys", Some(all.join(", ")));
        }
        if let Some(name) = fixed(plan) {
            return Told::new(format!("Fixed Table Scan on {}", self.table(plan, &name)));
        }
        if let Some(table) = plan.downcast_ref::<WorkTableExec>() {
            return Told::new(format!("WorkTable Scan on {}", made_name(table.name())));
        }
        if plan.downcast_ref::<EmptyExec>().is_some() {
            return Told::new("Result").with("One-Time Filter", Some("false".to_owned()));
        }
        let head = if plan.downcast_ref::<DataSourceExec>().is_some() {
            "Values Scan".to_owned()
        } else if plan.downcast_ref::<PlaceholderRowExec>().is_some() {
            "Result".to_owned()
        } else if plan.downcast_ref::<UnionExec>().is_some()
            || plan.downcast_ref::<AppendExec>().is_some()
        {
            "Append".to_owned()
        } else if plan.downcast_ref::<RecursiveQueryExec>().is_some() {
            "Recursive Union".to_owned()
        } else if plan.downcast_ref::<UnnestExec>().is_some() {
            "ProjectSet".to_owned()
        } else if plan.downcast_ref::<LazyMemoryExec>().is_some() {
            "Function Scan".to_owned()
        } else if plan.name() == "ScalarSubqueryExec" {
            // The statement itself, and behind it subqueries that give it a value each.
            "InitPlan".to_owned()
        } else {
            displayable(plan.as_ref()).one_line().to_string().trim_end().to_owned()
        };
        Told::new(head)
    }

    fn aggregate(&self, groups: &AggregateExec) -> Told {
        let by = groups.group_expr();
        let exprs: Vec<&Arc<dyn PhysicalExpr>> = by.expr().iter().map(|(expr, _)| expr).collect();
        let sorted =
            groups.input_order_mode() == &datafusion::physical_plan::InputOrderMode::Sorted;
        let word = match (exprs.is_empty(), sorted) {
            (true, _) => "Aggregate",
            (false, true) => "GroupAggregate",
            (false, false) => "HashAggregate",
        };
        let part = match groups.mode() {
            AggregateMode::Partial | AggregateMode::PartialReduce => "Partial ",
            AggregateMode::Final | AggregateMode::FinalPartitioned => "Finalize ",
            AggregateMode::Single | AggregateMode::SinglePartitioned => "",
        };
        let label = if by.has_grouping_set() { "Grouping Sets" } else { "Group Key" };
        let limit = groups.limit_options().map(|limit| limit.limit().to_string());
        Told::new(format!("{part}{word}"))
            .with(label, self.exprs(groups.input(), &exprs))
            .with("Limit", limit)
    }

    fn window(&self, input: &Plan, exprs: &[Arc<dyn windows::WindowExpr>]) -> Told {
        let told = Told::new("WindowAgg");
        let Some(first) = exprs.first() else { return told };
        let by: Vec<&Arc<dyn PhysicalExpr>> = first.partition_by().iter().collect();
        let order = first.order_by();
        told.with("Partition By", self.exprs(input, &by))
            .with("Order By", (!order.is_empty()).then(|| self.sort_keys(input, order.iter())))
    }

    /// `given`: the step with what keeps its memory within bounds.
    fn join(&self, given: &Plan, plan: &Plan) -> Option<Told> {
        let (left, right, kind, _) = joined(plan)?;
        let word = match kind {
            JoinType::Inner => "",
            JoinType::Left => " Left",
            JoinType::Right => " Right",
            JoinType::Full => " Full",
            JoinType::LeftSemi => " Semi",
            JoinType::RightSemi => " Right Semi",
            JoinType::LeftAnti => " Anti",
            JoinType::RightAnti => " Right Anti",
            JoinType::LeftMark => " Mark",
            JoinType::RightMark => " Right Mark",
        };
        let filter = |filter: Option<&JoinFilter>| {
            filter.and_then(|filter| self.join_filter(left, right, filter))
        };
        if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            let head = if word.is_empty() { "Hash Join" } else { &format!("Hash{word} Join") };
            let spilled = was_merged(given).then(|| "from temporary files".to_owned());
            return Some(
                Told::new(head)
                    .with("Hash Cond", self.pairs(left, right, join.on()))
                    .with("Join Filter", filter(join.filter()))
                    .with("Merged", spilled),
            );
        }
        if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>() {
            let head = if word.is_empty() { "Merge Join" } else { &format!("Merge{word} Join") };
            return Some(
                Told::new(head)
                    .with("Merge Cond", self.pairs(left, right, join.on()))
                    .with("Join Filter", filter(join.filter().as_ref())),
            );
        }
        let condition = plan.downcast_ref::<NestedLoopJoinExec>().and_then(|join| join.filter());
        let head = if word.is_empty() { "Nested Loop" } else { &format!("Nested Loop{word} Join") };
        Some(Told::new(head).with("Join Filter", filter(condition)))
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

    fn bits(&self, plan: &Plan, work: &ScanWork, bits: &Bits) -> String {
        let all = |parts: &[Bits], word: &str| {
            let all: Vec<String> = parts.iter().map(|part| self.bits(plan, work, part)).collect();
            format!("({})", all.join(word))
        };
        match bits {
            Bits::One { index, op, value } => {
                let names: Names<'_> = &|at| self.table_column(plan, &work.table, at);
                let column = self.index_column(plan, &work.table, index, 0);
                compared(&column, *op, &scalar(value, names))
            }
            Bits::Null(index) => {
                format!("({} IS NULL)", self.index_column(plan, &work.table, index, 0))
            }
            Bits::All(parts) => all(parts, " AND "),
            Bits::Any(parts) => all(parts, " OR "),
            Bits::Minus(base, parts) => {
                format!("({} AND NOT {})", self.bits(plan, work, base), all(parts, " OR "))
            }
        }
    }

    fn filters(&self, plan: &Plan, work: &ScanWork, filters: &[Scalar]) -> Option<String> {
        let names: Names<'_> = &|at| self.table_column(plan, &work.table, at);
        let mut all = Vec::new();
        filters.iter().for_each(|filter| filter.conjuncts(&mut all));
        all.retain(|filter| **filter != Scalar::Const(Value::Bool(true)));
        all_of(all.into_iter().map(|filter| scalar(filter, names)).collect())
    }

    fn scan(&self, plan: &Plan, scan: &ScanExec) -> Told {
        let work = scan.work();
        let table = self.table(plan, &work.table.name);
        let by = scan.names().index.unwrap_or_default();
        let past = if work.as_of.is_some() { " as of an earlier SCN" } else { "" };
        let head = match &work.access {
            Access::Full => format!("Seq Scan on {table}{past}"),
            Access::Range { index, equal, backward, .. } => {
                let one = index.unique && equal.len() == index.columns.len();
                let bitmap = index.kind == IndexKind::Bitmap;
                let word = match (one, work.only_index().is_some()) {
                    _ if bitmap && work.counts_rows() => "Bitmap Count",
                    (true, _) => "Index Unique Scan",
                    (false, true) if bitmap => "Bitmap Index Only Scan",
                    (false, true) => "Index Only Scan",
                    (false, false) if bitmap => "Bitmap Index Scan",
                    (false, false) => "Index Range Scan",
                };
                let back = if *backward { " Backward" } else { "" };
                format!("{word}{back} using {by} on {table}{past}")
            }
            Access::Keys { .. } | Access::Any { .. } => {
                format!("Index Scan using {by} on {table}{past}")
            }
            Access::Bits(_) => {
                let word = if work.counts_rows() { "Bitmap Count" } else { "Bitmap Index Scan" };
                format!("{word} using {by} on {table}{past}")
            }
        };
        // What the range of keys says itself is told there.
        let filter = self.filters(plan, work, &work.unsaid);
        let probes: Vec<String> = work
            .probes
            .iter()
            .map(|probe| self.table_column(plan, &work.table, probe.column))
            .collect();
        Told::new(head)
            .with("Index Cond", self.access(plan, work, &work.access))
            .with(FILTER, filter)
            .with("Join Keys", (!probes.is_empty()).then(|| probes.join(", ")))
            .with("Limit", work.limit.map(|rows| rows.to_string()))
    }

    fn index_join(&self, plan: &Plan, join: &IndexJoinExec) -> Told {
        let (IndexJoin { index, inner: work, key, filter, limit, .. }, outer) =
            (join.join(), join.outer());
        let table = self.table(plan, &work.table.name);
        let head = format!("{}: Index Scan using {} on {table}", join.kind(), index.name);
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
        Told::new(head)
            .with("Index Cond", all_of(pairs.collect()))
            .with(FILTER, self.filters(plan, work, &work.filters))
            .with("Join Filter", filter)
            .with("Limit", limit.map(|rows| rows.to_string()))
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

/// A condition on the rows of a table.
#[must_use]
pub fn row_condition(table: &TableDef, condition: &Scalar) -> String {
    scalar(condition, &|at| table.columns.get(at).map_or("?", |column| &*column.name).to_owned())
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
