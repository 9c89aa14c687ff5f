//! The binder: walks a whole syntax tree, refuses what it does not know, and rewrites the rest into
//! what DataFusion plans
//! with PostgreSQL's meaning.
//!
//! What it promises: every node and every clause was looked at by name; a new variant of the
//! library's tree is refused until
//! somebody has decided what it means. Values of the session become hidden parameters, so that
//! plans can be shared.

mod calls;
mod distinct;
mod empty;
mod expr;
mod from;
mod grouping;
mod names;
mod ordered;
mod query;
mod recursive;
mod routine;
mod sample;
pub(crate) mod scalar;
mod subquery;
mod tableoid;
mod window;

use crate::access::ReadBy;
use crate::routines::RoutineRef;
use crate::{PgError, Result};
use ::query::Scalar;
use block::ObjId;
use datafusion::sql::sqlparser::ast;
use kernel::dict::{Routines, TableDef};
use kernel::row::{ColType, TypeKind};
use std::sync::Arc;

pub(crate) use self::query::{
    TARGETS_MAX, marked_name, name_columns, names_of_from, shown_name, union_of_values,
};
pub(crate) use expr::{
    call, column_of_query, number, placeholder_index, plain_args, session_function,
};
pub(crate) use names::{ident_name, object_parts, output_name, table_alias, table_parts};
pub(crate) use window::EXCLUDE;

/// A function whose value depends on the session or has an effect: called once before the statement
/// runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SessionFn {
    Now,
    /// `sysdate`: the clock's time when the statement begins, in whole seconds.
    SystemDate,
    /// `systimestamp`.
    SystemTime,
    /// `sys_context(namespace, name)`.
    Context,
    /// `userenv(name)`.
    UserEnv,
    /// `uid`.
    UserId,
    LocalTimestamp,
    CurrentDate,
    ClockTimestamp,
    CurrentUser,
    SessionUser,
    CurrentSchema,
    CurrentSchemas,
    ListeningChannels,
    BackendPid,
    Notify,
    Setting,
    SetConfig,
    TransactionId,
    TransactionOutcome,
    NextVal,
    CurrVal,
    LastVal,
    SetVal,
    Sleep,
    StartTime,
    Advisory(Advisory),
    SignalBackend {
        /// To end the session, not what it does.
        ends: bool,
    },
    RandomUuid,
    /// A number from 0 on below 1.
    Random,
    /// `dbms_workload_repository.create_snapshot()`.
    CreateSnapshot,
    /// The SCN that a table is read as of; the arguments are its kind, the expression's text and
    /// the statement's parameters.
    PastScn,
    /// `timestamp_to_scn(t)`, `scn_to_timestamp(n)`.
    TimestampToScn,
    ScnToTimestamp,
    /// A function of `dbms_xplan`.
    Xplan(crate::xplan::Shown),
    /// A column of a relation beside the target of UPDATE or DELETE: known row by row.
    Beside(ColType),
    /// A stored function.
    Routine(RoutineRef),
}

/// What a function on advisory locks does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Advisory {
    Lock {
        shared: bool,
        /// For the transaction, not the session.
        transaction: bool,
        /// Says whether it has the lock; does not wait for it.
        tries: bool,
    },
    Unlock {
        shared: bool,
    },
    UnlockAll,
}

impl Advisory {
    fn named(name: &str) -> Option<Advisory> {
        let name = name.strip_prefix("pg_")?;
        let (tries, name) = match name.strip_prefix("try_") {
            Some(name) => (true, name),
            None => (false, name),
        };
        let name = name.strip_prefix("advisory_")?;
        let lock = |shared, transaction| Advisory::Lock { shared, transaction, tries };
        Some(match (name, tries) {
            ("lock", _) => lock(false, false),
            ("lock_shared", _) => lock(true, false),
            ("xact_lock", _) => lock(false, true),
            ("xact_lock_shared", _) => lock(true, true),
            ("unlock", false) => Advisory::Unlock { shared: false },
            ("unlock_shared", false) => Advisory::Unlock { shared: true },
            ("unlock_all", false) => Advisory::UnlockAll,
            _ => return None,
        })
    }
}

impl SessionFn {
    /// The type that a parameter of a call takes if nothing else tells.
    pub(crate) const fn argument(self, count: usize) -> TypeKind {
        match (self, count) {
            (SessionFn::Advisory(_), 2) | (SessionFn::SignalBackend { .. }, _) => TypeKind::Int4,
            (
                SessionFn::Advisory(_) | SessionFn::TransactionOutcome | SessionFn::ScnToTimestamp,
                _,
            ) => TypeKind::Int8,
            (SessionFn::TimestampToScn, _) => TypeKind::Timestamptz,
            _ => TypeKind::Text,
        }
    }

    pub(crate) const fn result(self) -> ColType {
        if let SessionFn::Beside(ty) = self {
            return ty;
        }
        if let SessionFn::Routine(routine) = self {
            return routine.result;
        }
        if matches!(
            self,
            SessionFn::CurrentSchemas | SessionFn::ListeningChannels | SessionFn::Xplan(_)
        ) {
            return ColType::array_of(TypeKind::Text);
        }
        ColType::new(match self {
            SessionFn::CurrentSchemas | SessionFn::ListeningChannels | SessionFn::Xplan(_) => {
                TypeKind::Array
            }
            SessionFn::Beside(ty) => ty.kind,
            SessionFn::Routine(routine) => routine.result.kind,
            SessionFn::Now
            | SessionFn::SystemTime
            | SessionFn::ClockTimestamp
            | SessionFn::StartTime
            | SessionFn::ScnToTimestamp => TypeKind::Timestamptz,
            SessionFn::LocalTimestamp | SessionFn::SystemDate => TypeKind::Timestamp,
            SessionFn::RandomUuid => TypeKind::Uuid,
            SessionFn::Random => TypeKind::Float8,
            SessionFn::CurrentDate => TypeKind::Date,
            SessionFn::BackendPid => TypeKind::Int4,
            SessionFn::NextVal
            | SessionFn::CurrVal
            | SessionFn::LastVal
            | SessionFn::SetVal
            | SessionFn::TransactionId
            | SessionFn::UserId
            | SessionFn::PastScn
            | SessionFn::TimestampToScn
            | SessionFn::CreateSnapshot => TypeKind::Int8,
            SessionFn::CurrentUser
            | SessionFn::SessionUser
            | SessionFn::CurrentSchema
            | SessionFn::Context
            | SessionFn::UserEnv
            | SessionFn::Setting
            | SessionFn::SetConfig
            | SessionFn::Sleep
            | SessionFn::Notify
            | SessionFn::TransactionOutcome
            | SessionFn::Advisory(Advisory::UnlockAll | Advisory::Lock { tries: false, .. }) => {
                TypeKind::Text
            }
            SessionFn::Advisory(_) | SessionFn::SignalBackend { .. } => TypeKind::Bool,
        })
    }

    /// Whether each row must have a value of its own, so that one call before the statement would
    /// be wrong.
    pub(crate) const fn per_row(self) -> bool {
        if let SessionFn::Routine(routine) = self {
            return routine.volatile;
        }
        matches!(
            self,
            SessionFn::NextVal
                | SessionFn::SetVal
                | SessionFn::Sleep
                | SessionFn::ClockTimestamp
                | SessionFn::RandomUuid
                | SessionFn::Random
                | SessionFn::Advisory(_)
                | SessionFn::SignalBackend { .. }
                | SessionFn::Notify
                | SessionFn::TimestampToScn
                | SessionFn::ScnToTimestamp
                | SessionFn::CreateSnapshot
        )
    }
}

/// A call of such a function; its result is one more parameter.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct HiddenCall {
    pub(crate) function: SessionFn,
    pub(crate) args: Vec<Scalar>,
}

/// Parameters of a statement: the client's first, then the hidden ones.
#[derive(Clone, Debug)]
pub(crate) struct Params {
    pub(crate) types: Vec<Option<ColType>>,
    pub(crate) hidden: Vec<HiddenCall>,
    /// Where the statement's calls of routines are looked up, if it has any.
    pub(crate) routines: Option<Arc<Routines>>,
}

impl Params {
    pub(crate) fn new(mut declared: Vec<Option<ColType>>, count: usize) -> Params {
        if declared.len() < count {
            declared.resize(count, None);
        }
        Params { types: declared, hidden: Vec::new(), routines: None }
    }

    /// Position of the parameter that holds the call's result.
    pub(crate) fn add_hidden(&mut self, call: HiddenCall) -> usize {
        // The number of its row stands behind the name of a sequence whose value all share.
        let shared = call.function == SessionFn::NextVal && call.args.len() == 2;
        if (shared || !call.function.per_row())
            && let Some(at) = self.hidden.iter().position(|known| *known == call)
        {
            return self.types.len() + at;
        }
        self.hidden.push(call);
        self.types.len() + self.hidden.len() - 1
    }

    /// Types of all, as far as they are known.
    pub(crate) fn all_types(&self) -> Vec<Option<ColType>> {
        let hidden = self.hidden.iter().map(|call| Some(call.function.result()));
        self.types.iter().copied().chain(hidden).collect()
    }
}

/// What a statement refers to, found on the walk.
#[derive(Default, Debug)]
pub(crate) struct References {
    /// Relations by schema, if given, and name.
    pub(crate) relations: Vec<(Option<String>, String)>,
    /// Whether functions on the catalog need it (`regclass`, `pg_get_indexdef`).
    pub(crate) catalog_functions: bool,
    /// Whether functions tell how large relations are.
    pub(crate) sizes: bool,
    /// Functions that rows call: names in the plan, and candidates.
    pub(crate) routines: Vec<(String, Vec<ObjId>)>,
    /// What the statement changes, where nothing else in it reads that: no right to read is asked
    /// for.
    pub(crate) target: Option<(Option<String>, String)>,
    /// Where it stands which columns are read.
    pub(crate) read_by: ReadBy,
}

impl References {
    pub(crate) fn add(&mut self, schema: Option<String>, name: String) {
        // Columns of the catalog may be shown by names that it has.
        self.catalog_functions |= schema.as_deref() == Some("pg_catalog")
            || (schema.is_none() && name.starts_with("pg_"));
        let key = (schema, name);
        if !self.relations.contains(&key) {
            self.relations.push(key);
        }
    }

    /// Adds what the statement changes, whose columns are looked at elsewhere.
    pub(crate) fn add_target(&mut self, table: &TableDef) {
        let key = (Some(table.schema.clone()), table.name.clone());
        if !self.relations.contains(&key) {
            self.relations.push(key.clone());
            self.target = Some(key);
        }
    }
}

/// Walks and rewrites one statement.
pub(crate) struct Binder<'a> {
    pub(crate) params: &'a mut Params,
    pub(crate) references: References,
    /// Names of the common table expressions in scope, innermost last.
    ctes: Vec<String>,
    /// Whether functions with a value for each row may be called here: there is one row.
    one_row: bool,
    /// Whether the query at hand may leave rows out in the end.
    limited: bool,
    /// Whether this is part of a select list, where DataFusion plans no EXISTS.
    in_projection: bool,
    /// Whether a function that gives a set of rows may be called here.
    sets_allowed: bool,
    /// Whether one has been called in the query at hand.
    sets_found: bool,
    /// Whether something stands before what is bound in FROM: only then is there a lateral join.
    after_first: bool,
    depth: usize,
    /// What stands in FROM of the queries around what is bound, the innermost last: schema, if it
    /// was given, and name.
    scopes: Vec<Vec<(Option<String>, String)>>,
    /// Functions in FROM whose alias means their only column too: it, and the column.
    set_aliases: Vec<(String, String)>,
    /// Windows that the clause WINDOW names, as they were written.
    windows: Vec<(String, ast::WindowSpec)>,
    /// Scalar subqueries around what is bound.
    scalar_depth: usize,
    subquery_depth: usize,
    /// Expressions and queries bound so far.
    bound: usize,
}

/// Expressions of one statement. What is written twice by the binder, nested often enough, would
/// take all memory there is.
const BOUND_MAX: usize = 3_000_000;

/// Scalar subqueries in scalar subqueries: the library plans each once more for each around it.
const SCALAR_DEPTH_MAX: usize = 14;

/// Subqueries of conditions in one another: each may double the work.
const SUBQUERY_DEPTH_MAX: usize = 18;

/// Schema of names that mean what stands further out; no schema is called so.
pub(crate) const OUTER: &str = "$outer";

impl<'a> Binder<'a> {
    pub(crate) fn new(params: &'a mut Params, _env: &::query::wire::FormatEnv) -> Binder<'a> {
        Binder {
            params,
            references: References::default(),
            ctes: Vec::new(),
            one_row: false,
            limited: false,
            in_projection: false,
            sets_allowed: true,
            sets_found: false,
            after_first: false,
            depth: 0,
            scopes: Vec::new(),
            set_aliases: Vec::new(),
            windows: Vec::new(),
            scalar_depth: 0,
            subquery_depth: 0,
            bound: 0,
        }
    }

    /// Binds a whole query.
    pub(crate) fn bind_query(&mut self, query: &mut ast::Query) -> Result<()> {
        self.query(query)
    }

    /// Binds the WITH clause of a statement; its names are known afterwards.
    pub(crate) fn bind_with(&mut self, with: &mut ast::With) -> Result<()> {
        self.with(with)
    }

    /// Binds an expression of a statement that is planned as part of a query.
    pub(crate) fn bind_expr(&mut self, expr: &mut ast::Expr) -> Result<()> {
        self.expr(expr)
    }

    /// Binds how many rows there may be.
    pub(crate) fn bind_limit(&mut self, limit: &mut ast::Expr) -> Result<()> {
        self.limit_expr(limit, "LIMIT")
    }

    pub(crate) fn bind_from(&mut self, from: &mut ast::TableWithJoins) -> Result<()> {
        self.table_with_joins(from)
    }

    pub(crate) fn bind_items(&mut self, items: &mut [ast::SelectItem]) -> Result<()> {
        items.iter_mut().try_for_each(|item| self.select_item(item))
    }

    fn enter(&mut self) -> Result<()> {
        self.depth += 1;
        self.bound += 1;
        crate::depth::check_room(0)?;
        if self.bound > BOUND_MAX {
            return Err(PgError::new("54001", "statement is too complex"));
        }
        Ok(())
    }

    /// A qualified name that means something further out: with a schema, so that it is not taken
    /// for a field of a column that is called as its qualifier.
    fn outer_name(&self, parts: &[String]) -> Option<ast::Expr> {
        let [qualifier, column] = parts else { return None };
        let (own, around) = self.scopes.split_last()?;
        let called = |scope: &[(Option<String>, String)]| {
            scope.iter().find(|(_, name)| name == qualifier).map(|(schema, _)| schema.clone())
        };
        if called(own).is_some() {
            return None;
        }
        let schema = around.iter().rev().find_map(|scope| called(scope))?;
        let schema = schema.unwrap_or_else(|| OUTER.to_owned());
        let parts = [&schema, qualifier, column].map(|part| ast::Ident::with_quote('"', part));
        Some(ast::Expr::CompoundIdentifier(parts.to_vec()))
    }

    pub(crate) fn placeholder(at: usize) -> ast::Expr {
        let name = format!("${}", at + 1);
        ast::Expr::Value(ast::Value::Placeholder(name).into())
    }
}

fn refuse<T>(what: impl std::fmt::Display) -> Result<T> {
    Err(PgError::unsupported(what))
}
