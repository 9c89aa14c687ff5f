//! Statements ready to run: what the plan cache holds.
//!
//! What it promises: a plan that is kept holds no value, no snapshot, no row of a view and no
//! session; it is valid while the versions of the tables it names are current. Two sessions may run
//! one plan at the same time.

use crate::bind::HiddenCall;
use crate::parse::{Own, Statement};
use crate::returning::Returning;
use block::ObjId;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::sqlparser::ast::Statement as Ast;
use kernel::dict::{IndexDef, TableDef};
use kernel::row::ColType;
use kernel::row::Value;
use kernel::table::LockWait;
use observe::SharedCursor;
use parking_lot::Mutex;
use query::brief::Brief;
use query::planner::PlannedQuery;
use query::{Calculation, PgColumn, Scalar, ViewName};
use std::sync::{Arc, OnceLock};
use tokio::sync::OnceCell;

/// A prepared statement.
pub struct Prepared {
    pub param_oids: Vec<u32>,
    pub columns: Vec<PgColumn>,
    /// Whether it answers with rows, be it none.
    pub returns_rows: bool,
    pub(crate) statement: Statement,
    /// Values that stood in the text and are the plan's parameters; the client has none then.
    pub(crate) given: Option<Vec<Value>>,
    /// Parameter types as the client declared them.
    pub(crate) declared: Vec<u32>,
    /// What of the session the plan depends on, as it was then.
    pub(crate) context: Arc<str>,
    pub(crate) plan: Arc<Plan>,
    pub(crate) renewed: Renewed,
}

/// The plan of a prepared statement whose own is out of date, and what of the session it depends
/// on: a statement that is prepared once and executed for weeks is planned anew once for each
/// change, not for each execution. Of a statement that is planned for each execution: the plan of
/// the next one, if that has been made.
#[derive(Default)]
pub(crate) struct Renewed(Mutex<Option<(Arc<str>, Arc<Plan>)>>);

impl Renewed {
    /// Lets go of it: a plan for one execution is run once.
    pub(crate) fn take(&self) -> Option<(Arc<str>, Arc<Plan>)> {
        self.0.lock().take()
    }

    pub(crate) fn get(&self) -> Option<(Arc<str>, Arc<Plan>)> {
        self.0.lock().clone()
    }

    pub(crate) fn set(&self, context: Arc<str>, plan: Arc<Plan>) {
        *self.0.lock() = Some((context, plan));
    }
}

impl Plan {
    /// The time zone that it was made for, if its meaning depends on one.
    pub(crate) fn zone_name(&self) -> Option<&str> {
        self.kind.zone_name()
    }
}

impl Kind {
    /// As [`Plan::zone_name`].
    pub(crate) fn zone_name(&self) -> Option<&str> {
        let query = match self {
            Kind::Query(plan) => &plan.query,
            Kind::Modify(plan) => &plan.query.query,
            Kind::InsertSelect(plan) => &plan.query.query,
            Kind::Merge(plan) => &plan.query.query,
            Kind::With(plan) => return plan.zone_name(),
            Kind::Call(call) => return call.zone_name(),
            Kind::Direct(direct) => match &**direct {
                Direct::Insert { conflict: Some(conflict), .. } => return conflict.zone_name(),
                _ => return None,
            },
            Kind::Empty
            | Kind::Utility(_)
            | Kind::Own(_)
            | Kind::Explain { .. }
            | Kind::ExplainPlan { .. } => return None,
        };
        Some(&query.zone_name)
    }
}

/// A plan with what it depends on.
pub(crate) struct Plan {
    pub(crate) kind: Kind,
    /// Tables and their versions at the time of planning.
    pub(crate) tables: Vec<(ObjId, u64)>,
    /// Types of the client's parameters.
    pub(crate) params: Vec<ColType>,
    pub(crate) hidden: Vec<HiddenCall>,
    pub(crate) columns: Vec<PgColumn>,
    pub(crate) returns_rows: bool,
    /// Views whose rows each execution reads.
    pub(crate) views: Vec<ViewName>,
    /// Whether it must be made anew for each execution: it holds what is true now, like functions
    /// that look into the catalog.
    pub(crate) once: bool,
    /// Whether it asks for being measured step by step in all executions.
    pub(crate) measured: bool,
    /// See `trace::plan_hash`.
    pub(crate) hash: OnceLock<u32>,
    /// See `trace::plan_numbers`.
    pub(crate) number: OnceLock<u64>,
    /// What its executions are counted under; unset: they count as part of what runs it.
    pub(crate) cursor: OnceLock<Arc<SharedCursor>>,
}

impl observe::Counted for Plan {
    fn counted(&self) -> Option<Arc<SharedCursor>> {
        self.cursor.get().cloned()
    }
}

impl Plan {
    /// Whether one of its views would not be meant if there were a table of that name.
    pub(crate) fn may_be_hidden(&self) -> bool {
        self.views.iter().any(|view| view.may_be_hidden)
    }

    /// Whether it may see or lock something of the database.
    pub(crate) fn may_see(&self) -> bool {
        let Kind::Utility(ast) = &self.kind else { return true };
        !matches!(**ast, Ast::Set(_) | Ast::ShowVariable { .. } | Ast::Reset(_))
    }

    /// Whether it is done when its first row is sent: a client that asks for a few rows at a time
    /// gets them from where they are kept.
    pub(crate) fn runs_whole(&self) -> bool {
        self.returns_rows
            && match &self.kind {
                Kind::Empty => false,
                Kind::Query(query) => query.lock.is_some(),
                Kind::Direct(direct) => !matches!(&**direct, Direct::Select(_) | Direct::Values(_)),
                _ => true,
            }
    }
}

impl Kind {
    /// Goes through all queries that it is made of.
    pub(crate) fn each_query(&self, see: &mut dyn FnMut(&PlannedQuery)) {
        match self {
            Kind::Query(plan) => see(&plan.query),
            Kind::Modify(plan) => {
                see(&plan.query.query);
                plan.returning.iter().filter_map(Returning::query).for_each(see);
            }
            Kind::InsertSelect(plan) => {
                see(&plan.query.query);
                plan.conflict.iter().filter_map(|conflict| conflict.query()).for_each(&mut *see);
                plan.returning.iter().filter_map(Returning::query).for_each(see);
            }
            Kind::Merge(plan) => see(&plan.query.query),
            Kind::With(plan) => plan.kinds().for_each(|kind| kind.each_query(see)),
            Kind::Call(call) => call.args.each_query(see),
            Kind::Direct(direct) => {
                if let Direct::Insert { conflict: Some(conflict), .. } = &**direct {
                    conflict.query().into_iter().for_each(see);
                }
            }
            Kind::Empty
            | Kind::Utility(_)
            | Kind::Own(_)
            | Kind::Explain { .. }
            | Kind::ExplainPlan { .. } => {}
        }
    }

    /// Types of the parameters as the query behind it knows them.
    pub(crate) fn param_types(&self) -> Option<Vec<ColType>> {
        match self {
            Kind::Query(plan) => Some(plan.query.params.clone()),
            Kind::Modify(plan) => Some(plan.query.query.params.clone()),
            Kind::InsertSelect(plan) => Some(plan.query.query.params.clone()),
            Kind::Merge(plan) => Some(plan.query.query.params.clone()),
            Kind::With(plan) => plan.main.param_types(),
            Kind::Call(call) => call.args.param_types(),
            _ => None,
        }
    }
}

pub(crate) enum Kind {
    Empty,
    Direct(Box<Direct>),
    Query(Box<QueryPlan>),
    Modify(Box<ModifyPlan>),
    InsertSelect(Box<InsertSelect>),
    Merge(Box<crate::merge::MergePlan>),
    /// A procedure, or a function whose rows a statement reads.
    Call(Box<crate::routines::CallPlan>),
    /// Several of them, which see one snapshot.
    With(Box<crate::with::WithPlan>),
    Utility(Box<Ast>),
    Own(Own),
    /// `EXPLAIN` of a plan.
    Explain {
        options: crate::utility::ExplainOptions,
        statement: Box<Statement>,
    },
    /// `EXPLAIN PLAN`, with what the plan is to be known by, and the names of the parameters.
    ExplainPlan {
        id: Option<String>,
        statement: Box<Statement>,
        binds: Vec<String>,
    },
}

/// Statements on single rows, without DataFusion.
pub(crate) enum Direct {
    Select(DirectSelect),
    Update {
        row: RowAccess,
        set: Vec<(usize, Scalar)>,
        returning: Option<Vec<Scalar>>,
    },
    Delete {
        row: RowAccess,
        returning: Option<Vec<Scalar>>,
    },
    Insert {
        table: Arc<TableDef>,
        rows: Vec<Vec<Scalar>>,
        conflict: Option<Box<crate::conflict::OnConflict>>,
        returning: Option<Vec<Scalar>>,
    },
    /// `SELECT` without `FROM`.
    Values(Vec<Scalar>),
}

impl Direct {
    /// How its row is found, if it is one that is there.
    pub(crate) fn row(&self) -> Option<&RowAccess> {
        match self {
            Direct::Select(select) => Some(&select.row),
            Direct::Update { row, .. } | Direct::Delete { row, .. } => Some(row),
            Direct::Insert { .. } | Direct::Values(_) => None,
        }
    }
}

pub(crate) struct DirectSelect {
    pub(crate) row: RowAccess,
    pub(crate) output: Vec<Scalar>,
    pub(crate) lock: Option<LockKind>,
}

/// How the one row is found.
pub(crate) struct RowAccess {
    pub(crate) table: Arc<TableDef>,
    pub(crate) index: Arc<IndexDef>,
    /// A value for each column of the index, in its column's type.
    pub(crate) key: Vec<Scalar>,
    /// The whole condition, for the second look.
    pub(crate) filter: Scalar,
    /// Whether the key alone decides for the row that it finds.
    pub(crate) key_is_all: bool,
}

/// How rows are locked by a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LockKind {
    Wait,
    NoWait,
    SkipLocked,
    /// No longer than this.
    WaitSeconds(u32),
}

impl LockKind {
    /// Of two that are asked for the one that waits less.
    pub(crate) fn hastier(self, other: LockKind) -> LockKind {
        match (self, other) {
            (LockKind::NoWait, _) | (_, LockKind::NoWait) => LockKind::NoWait,
            (LockKind::SkipLocked, _) | (_, LockKind::SkipLocked) => LockKind::SkipLocked,
            (LockKind::WaitSeconds(a), LockKind::WaitSeconds(b)) => LockKind::WaitSeconds(a.min(b)),
            (LockKind::WaitSeconds(most), _) | (_, LockKind::WaitSeconds(most)) => {
                LockKind::WaitSeconds(most)
            }
            (LockKind::Wait, LockKind::Wait) => LockKind::Wait,
        }
    }

    pub(crate) fn wait(self, timeout_us: u64) -> LockWait {
        match self {
            LockKind::NoWait => LockWait::NoWait,
            LockKind::SkipLocked => LockWait::SkipLocked,
            LockKind::WaitSeconds(0) => LockWait::NoWait,
            LockKind::WaitSeconds(most) => {
                let most_us = u64::from(most) * 1_000_000;
                LockWait::Timeout(if timeout_us > 0 { most_us.min(timeout_us) } else { most_us })
            }
            LockKind::Wait if timeout_us > 0 => LockWait::Timeout(timeout_us),
            LockKind::Wait => LockWait::Wait,
        }
    }
}

/// A plan of DataFusion's.
pub(crate) struct QueryPlan {
    pub(crate) query: PlannedQuery,
    /// Made at the first execution, if parameters allow that it serves all.
    pub(crate) physical: OnceCell<Arc<dyn ExecutionPlan>>,
    /// The same without Arrow, if it is of such a shape.
    pub(crate) brief: OnceLock<Option<Brief>>,
    /// What it works out, if it reads nothing.
    pub(crate) calculation: OnceLock<Option<Calculation>>,
    /// Rows are locked before they are returned.
    pub(crate) lock: Option<LockRows>,
}

impl QueryPlan {
    pub(crate) fn new(query: PlannedQuery) -> QueryPlan {
        QueryPlan {
            query,
            physical: OnceCell::new(),
            brief: OnceLock::new(),
            calculation: OnceLock::new(),
            lock: None,
        }
    }
}

/// The last columns of the query are address and bytes of a row of each target; these rows are
/// locked, and the columns not shown.
pub(crate) struct LockRows {
    pub(crate) targets: Vec<LockTarget>,
    /// Whether the one target is all that the query reads: a row that has changed meanwhile is
    /// looked at again by itself.
    pub(crate) alone: bool,
    /// Limit and offset count locked rows.
    pub(crate) limit: Option<Scalar>,
    pub(crate) offset: Option<Scalar>,
}

/// A table of a query whose rows are locked, and the name it goes by there.
pub(crate) struct LockTarget {
    pub(crate) table: Arc<TableDef>,
    pub(crate) alias: String,
    pub(crate) kind: LockKind,
}

/// UPDATE or DELETE: the query gives address, row, and then the new values of `set`.
pub(crate) struct ModifyPlan {
    pub(crate) table: Arc<TableDef>,
    pub(crate) query: QueryPlan,
    /// Columns that get new values; `None` for DELETE.
    pub(crate) set: Option<Vec<usize>>,
    pub(crate) returning: Option<Returning>,
    /// Parameters of RETURNING that hold what the target's row was joined with: position, and the
    /// column of the query that gives it.
    pub(crate) beside: Vec<(usize, usize)>,
}

/// INSERT of a query's rows.
pub(crate) struct InsertSelect {
    pub(crate) table: Arc<TableDef>,
    pub(crate) query: QueryPlan,
    /// For each column of the query, the table's column.
    pub(crate) columns: Vec<usize>,
    /// Columns that get their default, with the expression and its calls for each row.
    pub(crate) defaults: Vec<(usize, RowDefault)>,
    pub(crate) conflict: Option<Box<crate::conflict::OnConflict>>,
    pub(crate) returning: Option<Returning>,
}

/// A default evaluated for each row: its parameters are the calls' results.
pub(crate) struct RowDefault {
    pub(crate) scalar: Scalar,
    pub(crate) calls: Vec<HiddenCall>,
}
