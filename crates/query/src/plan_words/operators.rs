//! The operators of plans, and what each is called: by PostgreSQL, whose words EXPLAIN has, and by
//! the field, whose words `v$sql_plan`, `dbms_xplan`, traces and the console have.
//!
//! What it promises: one table, which all of them read. What it must never do: let the name that
//! the library has for an operator be seen. One that is not in the table is known to pass rows on
//! and no more, and has no step of its own.

use datafusion::common::JoinType;

/// What a line of a plan names beside its operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Object {
    None,
    /// The table, view or function that is read.
    Table,
    Index,
}

/// A line of a plan in the field's words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operation {
    pub name: &'static str,
    /// Empty: it has none.
    pub option: &'static str,
    pub object: Object,
}

impl Operation {
    const fn new(name: &'static str, option: &'static str) -> Operation {
        Operation { name, option, object: Object::None }
    }

    const fn of_table(name: &'static str, option: &'static str) -> Operation {
        Operation { name, option, object: Object::Table }
    }

    const fn of_index(name: &'static str, option: &'static str) -> Operation {
        Operation { name, option, object: Object::Index }
    }
}

/// What the field calls the reading of a table, whatever leads to its rows.
pub const TABLE_ACCESS: &str = "TABLE ACCESS";

const BY_ROWID: Operation = Operation::of_table(TABLE_ACCESS, "BY INDEX ROWID");
const UNIQUE: Operation = Operation::of_index("INDEX", "UNIQUE SCAN");
const FAST_DUAL: Operation = Operation::new("FAST DUAL", "");
const UNION_ALL: Operation = Operation::new("UNION-ALL", "");
const FILTER: Operation = Operation::new("FILTER", "");

/// What a step of a plan does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operator {
    SeqScan,
    /// A key finds one row at most.
    IndexUniqueScan,
    IndexRangeScan {
        backward: bool,
    },
    /// All of an index, in its order.
    IndexFullScan {
        backward: bool,
    },
    /// The index's entries are all that is read.
    IndexOnlyScan {
        backward: bool,
    },
    /// The same of all of them.
    IndexOnlyFullScan {
        backward: bool,
    },
    /// The first of an index's entries, or the last, has a value that is asked for; `whole`: of
    /// all, not of a range of keys.
    IndexExtreme {
        whole: bool,
    },
    /// By each key of a list.
    IndexKeysScan {
        unique: bool,
    },
    /// By one index after the other.
    IndexAnyScan,
    /// Rows that bitmaps find.
    BitmapScan,
    /// The keys of bitmaps are all that is read.
    BitmapOnlyScan,
    /// Bits are counted.
    BitmapCount,
    /// A view whose rows are in memory.
    FixedScan,
    /// The one row of `dual`.
    DualScan,
    ValuesScan,
    FunctionScan,
    /// Rows that another part of the statement has made.
    GivenScan,
    /// What the run before has found, of a recursive query.
    WorkTableScan,
    /// One row without a table.
    Result,
    /// No row.
    NoRows,
    HashJoin(JoinType),
    MergeJoin(JoinType),
    NestedLoop(JoinType),
    /// All pairs.
    CrossJoin,
    /// A join's keys are told to the scan of its other side.
    JoinKeys,
    /// All rows are one group.
    Aggregate,
    GroupAggregate,
    HashAggregate,
    Sort,
    /// The first rows of an order.
    FirstRows,
    /// The same for each group, of which a window numbers the rows.
    FirstOfGroups,
    IncrementalSort,
    Append,
    /// Inputs that are in order, as one.
    MergeAppend,
    RecursiveUnion,
    Limit,
    /// Rows are passed over, without a bound on those behind them.
    Offset,
    /// Rows come in the order that it needs, or it needs none.
    Window,
    /// The step below it sorts for it.
    WindowSort,
    /// The step below it finds the first rows of groups for it.
    WindowFirst,
    Filter,
    Gather,
    /// Rows that several places of a statement read.
    Shared,
    /// Functions that each row calls.
    Calls,
    /// The same where sequences are among them.
    Sequence,
    /// Subqueries that run for each row.
    Apply,
    /// Subqueries that give one value to all rows.
    InitPlan,
    ProjectSet,
    /// Gives the rows of its input as they are.
    PassesOn,
}

/// Operators by the names that the library, or we, have for them. Some are several, which are told
/// apart by more than the name.
const NAMED: [(&str, Operator); 50] = [
    ("ScanExec", Operator::SeqScan),
    ("IndexJoinExec", Operator::NestedLoop(JoinType::Inner)),
    ("GatherExec", Operator::Gather),
    ("AppendExec", Operator::Append),
    ("KeysExec", Operator::JoinKeys),
    ("SharedExec", Operator::Shared),
    ("CallsExec", Operator::Calls),
    ("ApplyExec", Operator::Apply),
    ("GivenExec", Operator::GivenScan),
    ("AggregateExec", Operator::HashAggregate),
    ("AnalyzeExec", Operator::PassesOn),
    ("async_func", Operator::PassesOn),
    ("BoundedWindowAggExec", Operator::Window),
    ("BufferExec", Operator::PassesOn),
    ("CoalesceBatchesExec", Operator::PassesOn),
    ("CoalescePartitionsExec", Operator::PassesOn),
    ("CooperativeExec", Operator::PassesOn),
    ("CrossJoinExec", Operator::CrossJoin),
    ("DataSinkExec", Operator::PassesOn),
    ("DataSourceExec", Operator::ValuesScan),
    ("EmptyExec", Operator::NoRows),
    ("ExplainExec", Operator::Result),
    ("FilterExec", Operator::Filter),
    ("GlobalLimitExec", Operator::Limit),
    ("HashJoinExec", Operator::HashJoin(JoinType::Inner)),
    ("InterleaveExec", Operator::Append),
    ("LazyMemoryExec", Operator::FunctionScan),
    ("LocalLimitExec", Operator::Limit),
    ("NestedLoopJoinExec", Operator::NestedLoop(JoinType::Inner)),
    ("OutputRequirementExec", Operator::PassesOn),
    ("PartialSortExec", Operator::IncrementalSort),
    ("PartitionedTopKExec", Operator::FirstOfGroups),
    ("PiecewiseMergeJoinExec", Operator::MergeJoin(JoinType::Inner)),
    ("PlaceholderRowExec", Operator::Result),
    ("ProjectionExec", Operator::PassesOn),
    ("RecursiveQueryExec", Operator::RecursiveUnion),
    ("RepartitionExec", Operator::PassesOn),
    ("ScalarSubqueryExec", Operator::InitPlan),
    ("SortExec", Operator::Sort),
    ("SortExec(TopK)", Operator::FirstRows),
    ("SortMergeJoinExec", Operator::MergeJoin(JoinType::Inner)),
    ("SortPreservingMergeExec", Operator::MergeAppend),
    ("StreamingTableExec", Operator::FunctionScan),
    ("SymmetricHashJoinExec", Operator::HashJoin(JoinType::Inner)),
    ("UnionExec", Operator::Append),
    ("UnorderedExec", Operator::PassesOn),
    ("UnnestExec", Operator::ProjectSet),
    ("WindowAggExec", Operator::Window),
    ("WorkTableExec", Operator::WorkTableScan),
    // What the library's own tables answer changes with.
    ("DmlResultExec", Operator::Result),
];

/// A join's word with the rows that it keeps; `plain`: its word where it has no more than matches.
fn kept(word: &str, plain: &str, kind: JoinType) -> String {
    let side = match kind {
        JoinType::Inner => return plain.to_owned(),
        JoinType::Left => "Left",
        JoinType::Right => "Right",
        JoinType::Full => "Full",
        JoinType::LeftSemi => "Semi",
        JoinType::RightSemi => "Right Semi",
        JoinType::LeftAnti => "Anti",
        JoinType::RightAnti => "Right Anti",
        JoinType::LeftMark => "Mark",
        JoinType::RightMark => "Right Mark",
    };
    format!("{word} {side} Join")
}

/// The same as the field's option.
fn kept_option(kind: JoinType) -> &'static str {
    match kind {
        JoinType::Inner => "",
        JoinType::LeftSemi | JoinType::RightSemi => "SEMI",
        JoinType::LeftAnti | JoinType::RightAnti => "ANTI",
        JoinType::Full => "FULL OUTER",
        // All rows of one side come, and with them whether they have a match.
        JoinType::LeftMark | JoinType::RightMark | JoinType::Left | JoinType::Right => "OUTER",
    }
}

const fn range(backward: bool) -> Operation {
    let option = if backward { "RANGE SCAN DESCENDING" } else { "RANGE SCAN" };
    Operation::of_index("INDEX", option)
}

const fn full(backward: bool) -> Operation {
    let option = if backward { "FULL SCAN DESCENDING" } else { "FULL SCAN" };
    Operation::of_index("INDEX", option)
}

impl Operator {
    /// By the name that the library, or we, have for it.
    pub(super) fn named(name: &str) -> Operator {
        let found = NAMED.iter().find(|(known, _)| *known == name);
        found.map_or(Operator::PassesOn, |(_, operator)| *operator)
    }

    /// What PostgreSQL calls it.
    #[must_use]
    pub fn word(self) -> String {
        self.row().0
    }

    /// What the field calls it: lines, each the input of the one before. Those of a join by an
    /// index are without its inner side, those of a scan by bitmaps without these. None: the field
    /// shows what is below it in its place.
    #[must_use]
    pub fn operations(self) -> Vec<Operation> {
        self.row().1
    }

    /// The table.
    fn row(self) -> (String, Vec<Operation>) {
        let (word, operations) = match self {
            Operator::SeqScan => ("Seq Scan", vec![Operation::of_table(TABLE_ACCESS, "FULL")]),
            Operator::IndexUniqueScan => ("Index Unique Scan", vec![BY_ROWID, UNIQUE]),
            Operator::IndexRangeScan { backward } => {
                ("Index Range Scan", vec![BY_ROWID, range(backward)])
            }
            Operator::IndexFullScan { backward } => {
                ("Index Range Scan", vec![BY_ROWID, full(backward)])
            }
            Operator::IndexOnlyScan { backward } => ("Index Only Scan", vec![range(backward)]),
            Operator::IndexOnlyFullScan { backward } => ("Index Only Scan", vec![full(backward)]),
            Operator::IndexExtreme { whole: true } => {
                ("Index Only Scan", vec![Operation::of_index("INDEX", "FULL SCAN (MIN/MAX)")])
            }
            Operator::IndexExtreme { whole: false } => {
                let scan = Operation::of_index("INDEX", "RANGE SCAN (MIN/MAX)");
                ("Index Only Scan", vec![Operation::new("FIRST ROW", ""), scan])
            }
            Operator::IndexKeysScan { unique } => {
                let each = if unique { UNIQUE } else { range(false) };
                ("Index Scan", vec![Operation::new("INLIST ITERATOR", ""), BY_ROWID, each])
            }
            // Each of its accesses has lines of its own below that.
            Operator::IndexAnyScan => ("Index Scan", vec![Operation::new("CONCATENATION", "")]),
            Operator::BitmapScan => ("Bitmap Index Scan", vec![BY_ROWID]),
            Operator::BitmapOnlyScan => {
                ("Bitmap Index Only Scan", vec![Operation::of_index("BITMAP INDEX", "RANGE SCAN")])
            }
            Operator::BitmapCount => {
                ("Bitmap Count", vec![Operation::new("BITMAP CONVERSION", "COUNT")])
            }
            Operator::FixedScan => {
                ("Fixed Table Scan", vec![Operation::of_table("FIXED TABLE", "FULL")])
            }
            Operator::DualScan => ("Fixed Table Scan", vec![FAST_DUAL]),
            Operator::ValuesScan => ("Values Scan", vec![Operation::new("VALUES SCAN", "")]),
            Operator::FunctionScan => {
                ("Function Scan", vec![Operation::of_table("COLLECTION ITERATOR", "PICKLER FETCH")])
            }
            Operator::GivenScan => ("CTE Scan", vec![Operation::new("VIEW", "")]),
            Operator::WorkTableScan => {
                ("WorkTable Scan", vec![Operation::new("RECURSIVE WITH PUMP", "")])
            }
            Operator::Result => ("Result", vec![FAST_DUAL]),
            Operator::NoRows => ("Result", vec![FILTER]),
            Operator::HashJoin(kind) => {
                let operation = Operation::new("HASH JOIN", kept_option(kind));
                return (kept("Hash", "Hash Join", kind), vec![operation]);
            }
            Operator::MergeJoin(kind) => {
                let operation = Operation::new("MERGE JOIN", kept_option(kind));
                return (kept("Merge", "Merge Join", kind), vec![operation]);
            }
            Operator::NestedLoop(kind) => {
                let operation = Operation::new("NESTED LOOPS", kept_option(kind));
                return (kept("Nested Loop", "Nested Loop", kind), vec![operation]);
            }
            Operator::CrossJoin => ("Nested Loop", vec![Operation::new("MERGE JOIN", "CARTESIAN")]),
            Operator::JoinKeys => ("Join Keys", vec![Operation::new("JOIN FILTER", "CREATE")]),
            Operator::Aggregate => ("Aggregate", vec![Operation::new("SORT", "AGGREGATE")]),
            Operator::GroupAggregate => {
                ("GroupAggregate", vec![Operation::new("SORT", "GROUP BY")])
            }
            Operator::HashAggregate => ("HashAggregate", vec![Operation::new("HASH", "GROUP BY")]),
            Operator::Sort => ("Sort", vec![Operation::new("SORT", "ORDER BY")]),
            Operator::FirstRows | Operator::FirstOfGroups => {
                ("Sort", vec![Operation::new("SORT", "ORDER BY STOPKEY")])
            }
            Operator::IncrementalSort => {
                ("Incremental Sort", vec![Operation::new("SORT", "ORDER BY")])
            }
            Operator::Append => ("Append", vec![UNION_ALL]),
            Operator::MergeAppend => {
                ("Merge Append", vec![Operation::new("SORT", "ORDER BY"), UNION_ALL])
            }
            Operator::RecursiveUnion => (
                "Recursive Union",
                vec![Operation::new("UNION ALL (RECURSIVE WITH)", "BREADTH FIRST")],
            ),
            Operator::Limit => ("Limit", vec![Operation::new("COUNT", "STOPKEY")]),
            Operator::Offset => ("Limit", vec![Operation::new("COUNT", "")]),
            Operator::Window => ("WindowAgg", vec![Operation::new("WINDOW", "BUFFER")]),
            Operator::WindowSort => ("WindowAgg", vec![Operation::new("WINDOW", "SORT")]),
            Operator::WindowFirst => {
                ("WindowAgg", vec![Operation::new("WINDOW", "SORT PUSHED RANK")])
            }
            Operator::Filter => ("Subquery Scan", vec![FILTER]),
            Operator::Gather => ("Gather", vec![Operation::new("PX COORDINATOR", "")]),
            Operator::Shared => (
                "Shared Rows",
                vec![
                    Operation::new("TEMP TABLE TRANSFORMATION", ""),
                    Operation::new("LOAD AS SELECT", "(CURSOR DURATION MEMORY)"),
                ],
            ),
            Operator::Calls => ("Calls for each row", vec![]),
            Operator::Sequence => ("Calls for each row", vec![Operation::new("SEQUENCE", "")]),
            Operator::Apply => ("Apply", vec![FILTER]),
            Operator::InitPlan => ("InitPlan", vec![]),
            Operator::ProjectSet => {
                ("ProjectSet", vec![Operation::new("COLLECTION ITERATOR", "SUBQUERY FETCH")])
            }
            Operator::PassesOn => ("Result", vec![]),
        };
        (word.to_owned(), operations)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::append::AppendExec;
    use crate::apply_exec::ApplyExec;
    use crate::explain::{Step, steps};
    use crate::gather::GatherExec;
    use crate::given::GivenExec;
    use crate::index_join::IndexJoinExec;
    use crate::join_keys::KeysExec;
    use crate::row_calls::CallsExec;
    use crate::scan::ScanExec;
    use crate::shared::SharedExec;
    use crate::unordered::UnorderedExec;
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::datasource::sink::DataSinkExec;
    use datafusion::datasource::source::DataSourceExec;
    use datafusion::physical_expr::expressions::Column;
    use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
    use datafusion::physical_optimizer::output_requirements::OutputRequirementExec;
    use datafusion::physical_plan::ExecutionPlan;
    use datafusion::physical_plan::aggregates::AggregateExec;
    use datafusion::physical_plan::analyze::AnalyzeExec;
    use datafusion::physical_plan::buffer::BufferExec;
    use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
    use datafusion::physical_plan::coop::CooperativeExec;
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion::physical_plan::explain::ExplainExec;
    use datafusion::physical_plan::filter::FilterExec;
    use datafusion::physical_plan::joins::{
        CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PiecewiseMergeJoinExec, SortMergeJoinExec,
        SymmetricHashJoinExec,
    };
    use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
    use datafusion::physical_plan::memory::LazyMemoryExec;
    use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
    use datafusion::physical_plan::projection::ProjectionExec;
    use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
    use datafusion::physical_plan::repartition::RepartitionExec;
    use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
    use datafusion::physical_plan::sorts::partial_sort::PartialSortExec;
    use datafusion::physical_plan::sorts::partitioned_topk::PartitionedTopKExec;
    use datafusion::physical_plan::sorts::sort::SortExec;
    use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
    use datafusion::physical_plan::streaming::StreamingTableExec;
    use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
    use datafusion::physical_plan::unnest::UnnestExec;
    use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
    use datafusion::physical_plan::work_table::WorkTableExec;
    use std::sync::Arc;

    /// What is told apart by more than a name.
    const FINER: [Operator; 25] = [
        Operator::IndexUniqueScan,
        Operator::IndexRangeScan { backward: false },
        Operator::IndexRangeScan { backward: true },
        Operator::IndexFullScan { backward: false },
        Operator::IndexFullScan { backward: true },
        Operator::IndexOnlyScan { backward: false },
        Operator::IndexOnlyScan { backward: true },
        Operator::IndexOnlyFullScan { backward: false },
        Operator::IndexOnlyFullScan { backward: true },
        Operator::IndexExtreme { whole: false },
        Operator::IndexExtreme { whole: true },
        Operator::IndexKeysScan { unique: false },
        Operator::IndexKeysScan { unique: true },
        Operator::IndexAnyScan,
        Operator::BitmapScan,
        Operator::BitmapOnlyScan,
        Operator::BitmapCount,
        Operator::FixedScan,
        Operator::DualScan,
        Operator::Aggregate,
        Operator::GroupAggregate,
        Operator::Offset,
        Operator::WindowSort,
        Operator::WindowFirst,
        Operator::Sequence,
    ];

    const JOINS: [JoinType; 10] = [
        JoinType::Inner,
        JoinType::Left,
        JoinType::Right,
        JoinType::Full,
        JoinType::LeftSemi,
        JoinType::RightSemi,
        JoinType::LeftAnti,
        JoinType::RightAnti,
        JoinType::LeftMark,
        JoinType::RightMark,
    ];

    #[test]
    fn no_name_of_the_library_is_in_the_table() {
        let named = NAMED.iter().map(|(_, operator)| *operator);
        let joins = JOINS.iter().flat_map(|kind| {
            [Operator::HashJoin(*kind), Operator::MergeJoin(*kind), Operator::NestedLoop(*kind)]
        });
        for operator in named.chain(FINER).chain(joins) {
            let (word, operations) = operator.row();
            assert!(!word.is_empty() && !word.contains("Exec"), "{operator:?}: {word}");
            for Operation { name, option, .. } in operations {
                assert!(!name.is_empty() && !name.contains("EXEC"), "{operator:?}: {name}");
                assert_eq!((name, option), (&*name.to_uppercase(), &*option.to_uppercase()));
            }
        }
    }

    #[test]
    fn every_operator_of_the_library_and_of_ours_is_in_the_table() {
        let all = [
            AggregateExec::static_name(),
            AnalyzeExec::static_name(),
            BoundedWindowAggExec::static_name(),
            BufferExec::static_name(),
            CoalescePartitionsExec::static_name(),
            CooperativeExec::static_name(),
            CrossJoinExec::static_name(),
            DataSinkExec::static_name(),
            DataSourceExec::static_name(),
            EmptyExec::static_name(),
            ExplainExec::static_name(),
            FilterExec::static_name(),
            GlobalLimitExec::static_name(),
            HashJoinExec::static_name(),
            InterleaveExec::static_name(),
            LazyMemoryExec::static_name(),
            LocalLimitExec::static_name(),
            NestedLoopJoinExec::static_name(),
            OutputRequirementExec::static_name(),
            PartialSortExec::static_name(),
            PartitionedTopKExec::static_name(),
            PiecewiseMergeJoinExec::static_name(),
            PlaceholderRowExec::static_name(),
            ProjectionExec::static_name(),
            RecursiveQueryExec::static_name(),
            RepartitionExec::static_name(),
            ScalarSubqueryExec::static_name(),
            SortExec::static_name(),
            SortMergeJoinExec::static_name(),
            SortPreservingMergeExec::static_name(),
            StreamingTableExec::static_name(),
            SymmetricHashJoinExec::static_name(),
            UnionExec::static_name(),
            UnnestExec::static_name(),
            WindowAggExec::static_name(),
            WorkTableExec::static_name(),
            AppendExec::static_name(),
            UnorderedExec::static_name(),
            ApplyExec::static_name(),
            CallsExec::static_name(),
            GatherExec::static_name(),
            GivenExec::static_name(),
            IndexJoinExec::static_name(),
            KeysExec::static_name(),
            ScanExec::static_name(),
            SharedExec::static_name(),
        ];
        for name in all {
            assert!(NAMED.iter().any(|(known, _)| *known == name), "{name}");
        }
        assert_eq!(Operator::named("SortExec(TopK)"), Operator::FirstRows);
        assert_eq!(Operator::named("UnheardOfExec"), Operator::PassesOn);
    }

    type Plan = Arc<dyn ExecutionPlan>;

    fn row() -> Plan {
        let fields = vec![Field::new("a", DataType::Int32, true)];
        Arc::new(PlaceholderRowExec::new(Arc::new(Schema::new(fields))))
    }

    fn by_a() -> LexOrdering {
        let key = PhysicalSortExpr::new_default(Arc::new(Column::new("a", 0)));
        LexOrdering::new([key]).expect("a key")
    }

    fn shown(step: &Step) -> String {
        let inputs: Vec<String> = step.inputs.iter().map(shown).collect();
        format!("{}[{}]", step.text, inputs.join(", "))
    }

    #[test]
    fn what_passes_rows_on_has_no_step() {
        let plan: Plan = Arc::new(CooperativeExec::new(row()));
        let plan: Plan = Arc::new(CoalescePartitionsExec::new(plan));
        assert_eq!(shown(&steps(&plan)), "Result[]");
        let sorted: Plan = Arc::new(SortExec::new(by_a(), plan));
        assert_eq!(shown(&steps(&sorted)), "Sort[Result[]]");
    }

    #[test]
    fn what_merges_branches_in_order_has_them_as_inputs() {
        let branch = || Arc::new(SortExec::new(by_a(), row())) as Plan;
        let union = UnionExec::try_new(vec![branch(), branch()]).expect("two branches");
        let plan: Plan = Arc::new(SortPreservingMergeExec::new(by_a(), union));
        let step = steps(&plan);
        assert_eq!(shown(&step), "Merge Append[Sort[Result[]], Sort[Result[]]]");
        assert_eq!(step.details, [("Sort Key", "a NULLS FIRST".to_owned())]);
        let below: Vec<Operator> = step.field_inputs().iter().map(|step| step.operator).collect();
        assert_eq!(below, [Operator::Sort, Operator::Sort]);
    }
}
