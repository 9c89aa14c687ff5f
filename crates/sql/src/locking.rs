//! SELECT … FOR UPDATE and its like: which rows a query locks, and how.
//!
//! What it promises: a row is locked before it is returned, as it is at that moment; LIMIT and
//! OFFSET count locked rows. Every strength is one exclusive lock: who asks for a weaker one (FOR
//! SHARE) never gets less than he asked for. A query over several relations whose rows have changed
//! meanwhile is run again from its beginning, with the locks it has got so far. What it must never
//! do: return a row that somebody else can change before this transaction ends.

use crate::bind::{Params, ident_name, table_parts};
use crate::check::is_aggregate;
use crate::dml::row_error;
use crate::encode::{RowEncoder, RowSink, ValueRef};
use crate::plan::{LockKind, LockRows, LockTarget, QueryPlan};
use crate::planning::{expand_wildcard, hidden_items, quoted};
use crate::session::Session;
use crate::target_rows::TargetRows;
use crate::{PgError, Result};
use datafusion::arrow::array::RecordBatch;
use datafusion::sql::sqlparser::ast::{
    self, Expr, GroupByExpr, JoinConstraint, JoinOperator, LimitClause, LockClause, NonBlock,
    ObjectName, Query, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableAlias,
    TableFactor, TableWithJoins, WildcardAdditionalOptions,
};
use kernel::row::{ColType, Datum, TypeKind, Value};
use kernel::table::{self, Change};
use kernel::txn::Snapshot;
use query::scalar::EvalContext;
use query::{ExecState, JoinKeys, Relation, Scalar, SharedRows, TARGET_CATALOG};
use std::ops::ControlFlow;
use std::sync::Arc;

/// How a FOR clause waits.
pub(crate) fn kind_of(lock: &LockClause) -> LockKind {
    match lock.nonblock {
        None => LockKind::Wait,
        Some(NonBlock::Nowait) => LockKind::NoWait,
        Some(NonBlock::SkipLocked) => LockKind::SkipLocked,
    }
}

/// What stands in FROM.
struct Item {
    alias: Option<String>,
    /// Schema and name, of what may be a table.
    name: Option<(Option<String>, String)>,
    /// Whether it has rows of tables that cannot be reached from here.
    is_query: bool,
    /// Whether an outer join may put NULLs in its row's place.
    nullable: bool,
}

fn item_of(factor: &TableFactor) -> Result<Item> {
    let alias = |alias: &Option<TableAlias>| alias.as_ref().map(|a| ident_name(&a.name));
    let mut item = Item { alias: None, name: None, is_query: false, nullable: false };
    match factor {
        TableFactor::Table { name, alias: shown, args: None, sample, .. } => {
            if sample.is_some() {
                return refuse("TABLESAMPLE");
            }
            let (schema, name) = table_parts(name)?;
            item.alias = alias(shown).or_else(|| Some(name.clone()));
            item.name = Some((schema, name));
        }
        TableFactor::Derived { alias: shown, subquery, .. } => {
            item.alias = alias(shown);
            item.is_query = !matches!(&*subquery.body, SetExpr::Values(_));
        }
        TableFactor::Table { alias: shown, .. }
        | TableFactor::Function { alias: shown, .. }
        | TableFactor::UNNEST { alias: shown, .. }
        | TableFactor::TableFunction { alias: shown, .. } => item.alias = alias(shown),
        _ => return refuse("something else than tables in FROM"),
    }
    Ok(item)
}

fn refuse<T>(what: &str) -> Result<T> {
    Err(PgError::new("0A000", format!("FOR UPDATE is not allowed with {what}")))
}

/// All that stands in FROM, in its order; whether a join merges columns.
fn items_of(from: &TableWithJoins, out: &mut Vec<Item>) -> Result<bool> {
    let first = out.len();
    let mut merges = item_or_join(&from.relation, out)?;
    for join in &from.joins {
        let before = out.len();
        merges |= item_or_join(&join.relation, out)?;
        let (left, right) = match &join.join_operator {
            JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => (false, true),
            JoinOperator::Right(_) | JoinOperator::RightOuter(_) => (true, false),
            JoinOperator::FullOuter(_) => (true, true),
            _ => (false, false),
        };
        for (at, item) in out.iter_mut().enumerate().skip(first) {
            item.nullable |= if at < before { left } else { right };
        }
        merges |= match &join.join_operator {
            JoinOperator::Join(on)
            | JoinOperator::Inner(on)
            | JoinOperator::Left(on)
            | JoinOperator::LeftOuter(on)
            | JoinOperator::Right(on)
            | JoinOperator::RightOuter(on)
            | JoinOperator::FullOuter(on) => {
                matches!(on, JoinConstraint::Using(_) | JoinConstraint::Natural)
            }
            _ => false,
        };
    }
    Ok(merges)
}

fn has_natural(from: &TableWithJoins) -> bool {
    let natural = |operator: &JoinOperator| {
        matches!(
            operator,
            JoinOperator::Join(JoinConstraint::Natural)
                | JoinOperator::Inner(JoinConstraint::Natural)
                | JoinOperator::Left(JoinConstraint::Natural)
                | JoinOperator::LeftOuter(JoinConstraint::Natural)
                | JoinOperator::Right(JoinConstraint::Natural)
                | JoinOperator::RightOuter(JoinConstraint::Natural)
                | JoinOperator::FullOuter(JoinConstraint::Natural)
        )
    };
    let nested = |factor: &TableFactor| match factor {
        TableFactor::NestedJoin { table_with_joins, .. } => has_natural(table_with_joins),
        _ => false,
    };
    nested(&from.relation)
        || from.joins.iter().any(|join| natural(&join.join_operator) || nested(&join.relation))
}

fn item_or_join(factor: &TableFactor, out: &mut Vec<Item>) -> Result<bool> {
    match factor {
        TableFactor::NestedJoin { table_with_joins, alias: None } => {
            items_of(table_with_joins, out)
        }
        other => {
            out.push(item_of(other)?);
            Ok(false)
        }
    }
}

/// The locks of a query that is being planned.
pub(crate) struct Locking {
    pub(crate) rows: LockRows,
    /// Names of what stands in FROM, for `*`.
    names: Vec<Option<String>>,
    /// Whether `*` is not just the columns of one after the other.
    merges: bool,
}

impl Session {
    /// Takes FOR UPDATE and LIMIT off the query: rows are locked, then counted.
    pub(crate) async fn take_lock_clause(
        &mut self,
        query: &mut Query,
        params: &mut Params,
    ) -> Result<Locking> {
        let ties = query.fetch.as_ref().is_some_and(|fetch| fetch.with_ties);
        if ties && query.locks.iter().any(|l| l.nonblock == Some(ast::NonBlock::SkipLocked)) {
            let text = "SKIP LOCKED and WITH TIES options cannot be used together";
            return Err(PgError::syntax(text));
        }
        let SetExpr::Select(select) = &*query.body else {
            return refuse("UNION/INTERSECT/EXCEPT or VALUES");
        };
        if select.distinct.is_some() {
            return refuse("DISTINCT clause");
        }
        let grouped =
            !matches!(&select.group_by, GroupByExpr::Expressions(all, _) if all.is_empty());
        if grouped || select.having.is_some() {
            return refuse("GROUP BY clause");
        }
        for item in &select.projection {
            let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item
            else {
                continue;
            };
            check_called(expr)?;
        }
        for key in query.order_by.iter().flat_map(|order| match &order.kind {
            ast::OrderByKind::Expressions(all) => &all[..],
            ast::OrderByKind::All(_) => &[],
        }) {
            check_called(&key.expr)?;
        }
        let (mut items, mut merges) = (Vec::new(), false);
        for from in &select.from {
            merges |= items_of(from, &mut items)?;
        }
        let ctes: Vec<String> = query
            .with
            .iter()
            .flat_map(|with| &with.cte_tables)
            .map(|cte| ident_name(&cte.alias.name))
            .collect();
        for (at, item) in items.iter().enumerate() {
            let twice = |other: &Item| other.alias.is_some() && other.alias == item.alias;
            if items[..at].iter().any(twice) {
                return refuse("two relations of one name, unless they have aliases");
            }
        }
        let alone = items.len() == 1 && ctes.is_empty();
        let mut targets: Vec<LockTarget> = Vec::new();
        let seconds = crate::lock_words::waited(&mut query.locks)?;
        for lock in std::mem::take(&mut query.locks) {
            let names = items.iter().map(|item| (item.alias.as_ref(), item.name.as_ref()));
            let lock = self.of_relation(lock, names).await?;
            let of = lock.of.as_ref().map(table_parts).transpose()?.map(|(_, name)| name);
            if let Some(of) = &of
                && !items.iter().any(|item| item.alias.as_ref() == Some(of))
            {
                let text =
                    format!("relation \"{of}\" in FOR UPDATE clause not found in FROM clause");
                return Err(PgError::new("42P01", text));
            }
            let wanted = |item: &&Item| of.is_none() || item.alias == of;
            for item in items.iter().filter(wanted) {
                let Some(table) = self.lockable(item, of.is_some(), &ctes).await? else { continue };
                let alias = item.alias.clone().unwrap_or_default();
                let kind = match (kind_of(&lock), seconds) {
                    (LockKind::Wait, Some(seconds)) => LockKind::WaitSeconds(seconds),
                    (kind, _) => kind,
                };
                match targets.iter_mut().find(|known| known.alias == alias) {
                    // Who must not wait does not, whichever clause says so.
                    Some(known) => known.kind = known.kind.hastier(kind),
                    None => targets.push(LockTarget { table, alias, kind }),
                }
            }
        }
        if targets.len() > 1 && select.from.iter().any(has_natural) {
            return refuse("NATURAL JOIN of several relations to be locked");
        }
        let (limit, offset) = limits(query, params)?;
        let names = items.into_iter().map(|item| item.alias).collect();
        Ok(Locking { rows: LockRows { targets, alone, limit, offset }, names, merges })
    }

    /// The table whose rows are to be locked; `None`: what stands there has no rows to lock.
    async fn lockable(
        &mut self,
        item: &Item,
        named: bool,
        ctes: &[String],
    ) -> Result<Option<Arc<kernel::dict::TableDef>>> {
        let cannot = |what: &str| {
            Err(PgError::new("0A000", format!("FOR UPDATE cannot be applied to {what}")))
        };
        let Some((schema, name)) = &item.name else {
            return match (item.is_query, named) {
                (true, _) => refuse("a subquery in FROM, unless OF names other relations"),
                (false, true) => cannot("VALUES or a function"),
                (false, false) => Ok(None),
            };
        };
        if schema.is_none() && (ctes.contains(name) || self.given_relation(name)?.is_some()) {
            return if named { cannot("a WITH query") } else { Ok(None) };
        }
        match self.find_relation(schema.as_deref(), name).await? {
            Relation::Table(_) if item.nullable => cannot("the nullable side of an outer join"),
            Relation::Table(table) => Ok(Some(table)),
            Relation::View(_) => refuse("a view"),
            Relation::Rows(_) if named => cannot(&format!("\"{name}\"")),
            Relation::Rows(_) => Ok(None),
        }
    }

    /// Locks each row, then sends it as it is now.
    pub(crate) async fn run_locking(
        &mut self,
        plan: &QueryPlan,
        params: Vec<Value>,
        encoder: RowEncoder,
        sink: &mut dyn RowSink,
    ) -> Result<String> {
        self.check_writable("SELECT FOR UPDATE")?;
        let Some(lock) = &plan.lock else { return Err(PgError::internal("no lock")) };
        let skip = self.bound(lock.offset.as_ref(), &params)?.unwrap_or(0);
        let limit = self.bound(lock.limit.as_ref(), &params)?.unwrap_or(u64::MAX);
        let sent = match &lock.targets[..] {
            [target] if lock.alone => {
                self.lock_one_by_one(plan, target, params, (skip, limit), encoder, sink).await?
            }
            _ => self.lock_joined(plan, lock, params, (skip, limit), encoder, sink).await?,
        };
        Ok(format!("SELECT {sent}"))
    }

    /// Of a query over one table: each row is sent as soon as it is locked.
    async fn lock_one_by_one(
        &mut self,
        plan: &QueryPlan,
        target: &LockTarget,
        params: Vec<Value>,
        (mut skip, limit): (u64, u64),
        mut encoder: RowEncoder,
        sink: &mut dyn RowSink,
    ) -> Result<u64> {
        let snapshot = self.snapshot()?;
        let state = self.exec_state(params.clone()).await?;
        let mut stream = self.open_measured(plan, state).await?;
        let mut sent = 0u64;
        'all: while sent < limit {
            let Some(batch) = self.next_batch(&mut stream).await else { break };
            let batch = batch?;
            let rows = TargetRows::at_end(&batch, 1)?;
            for i in 0..batch.num_rows() {
                if sent == limit {
                    break 'all;
                }
                self.ctx.check_interrupt()?;
                let locked = self.lock_row(plan, target, &params, &snapshot, &rows, i).await?;
                let (readers, at, fresh);
                match locked {
                    None => continue,
                    Some(None) => {
                        readers = &rows.readers;
                        at = i;
                    }
                    Some(Some(batch)) => {
                        fresh = query::planner::readers(&batch)?;
                        readers = &fresh;
                        at = 0;
                    }
                }
                if skip > 0 {
                    skip -= 1;
                    continue;
                }
                encoder.encode(|c| Ok(ValueRef::Ref(readers[c].get(at))), sink.row())?;
                sink.flush_if_large();
                sent += 1;
            }
        }
        Ok(sent)
    }

    /// Of a query over several relations: rows are sent when all are locked as one snapshot shows
    /// them.
    async fn lock_joined(
        &mut self,
        plan: &QueryPlan,
        lock: &LockRows,
        params: Vec<Value>,
        (skip, limit): (u64, u64),
        mut encoder: RowEncoder,
        sink: &mut dyn RowSink,
    ) -> Result<u64> {
        let mut snapshot = self.snapshot()?;
        let found = loop {
            match self.locked_at(plan, lock, &params, &snapshot, skip.saturating_add(limit)).await?
            {
                Some(found) => break found,
                None => snapshot = self.later_snapshot()?,
            }
        };
        let (mut skip, mut sent) = (skip, 0);
        for (batch, rows) in found {
            let readers = query::planner::readers(&batch)?;
            for at in rows {
                if skip > 0 {
                    skip -= 1;
                    continue;
                }
                encoder.encode(|c| Ok(ValueRef::Ref(readers[c].get(at))), sink.row())?;
                sink.flush_if_large();
                sent += 1;
            }
        }
        Ok(sent)
    }

    /// Locks the rows that a snapshot shows, up to so many: each batch with the rows of it that are
    /// locked. `None`: one of them has changed since.
    async fn locked_at(
        &mut self,
        plan: &QueryPlan,
        lock: &LockRows,
        params: &[Value],
        snapshot: &Snapshot,
        wanted: u64,
    ) -> Result<Option<Vec<(RecordBatch, Vec<usize>)>>> {
        let state = Arc::new(ExecState {
            ctx: self.ctx.clone(),
            snapshot: snapshot.clone(),
            params: params.to_vec(),
            env: self.format_env(),
            target: None,
            given: self.given(),
            views: self.views.clone(),
            keys: JoinKeys::default(),
            shared: SharedRows::default(),
            parallel: false,
            calls: Some(self.row_calls.clone()),
        });
        let txn = self.transaction()?;
        let mut stream = self.open_measured(plan, state).await?;
        let (mut found, mut count) = (Vec::new(), 0);
        while count < wanted {
            let Some(batch) = self.next_batch(&mut stream).await else { break };
            let batch = batch?;
            let rows = TargetRows::at_end(&batch, lock.targets.len())?;
            let mut locked = Vec::new();
            'rows: for at in 0..batch.num_rows() {
                if count == wanted {
                    break;
                }
                self.ctx.check_interrupt()?;
                for (n, target) in lock.targets.iter().enumerate() {
                    let (rowid, _) = rows.get_of(n, at)?;
                    if self.changed_by_a_part(&target.table, rowid) {
                        continue 'rows;
                    }
                    let wait = target.kind.wait(self.settings.lock_timeout_us);
                    let (ctx, table) = (&self.ctx, &target.table);
                    let change = table::lock(ctx, &txn, table, rowid, snapshot, wait).await;
                    match change.map_err(|error| row_error(error, table))? {
                        Change::Done => {}
                        Change::Gone | Change::Skipped => continue 'rows,
                        // It is this transaction's now: the next look sees it as it is.
                        Change::Newer(_) => return Ok(None),
                    }
                }
                locked.push(at);
                count += 1;
            }
            found.push((batch, locked));
        }
        Ok(Some(found))
    }

    fn bound(&self, scalar: Option<&Scalar>, params: &[Value]) -> Result<Option<u64>> {
        let Some(scalar) = scalar else { return Ok(None) };
        let env = self.format_env();
        match scalar.eval(&EvalContext { row: None, params, env: &env })?.datum() {
            Datum::Int8(v) => match u64::try_from(v) {
                Ok(v) => Ok(Some(v)),
                Err(_) => Err(PgError::new("2201W", "LIMIT must not be negative")),
            },
            _ => Ok(None),
        }
    }

    /// Locks one row: `None` to leave it out, else the row's new version if there is one.
    async fn lock_row(
        &mut self,
        plan: &QueryPlan,
        target: &LockTarget,
        params: &[Value],
        snapshot: &Snapshot,
        rows: &TargetRows,
        at: usize,
    ) -> Result<Option<Option<RecordBatch>>> {
        let (rowid, _) = rows.get(at)?;
        if self.changed_by_a_part(&target.table, rowid) {
            return Ok(None);
        }
        let txn = self.transaction()?;
        let wait = target.kind.wait(self.settings.lock_timeout_us);
        let mut snapshot = snapshot.clone();
        let mut fresh = None;
        loop {
            let change = table::lock(&self.ctx, &txn, &target.table, rowid, &snapshot, wait).await;
            match change.map_err(|error| row_error(error, &target.table))? {
                Change::Done => return Ok(Some(fresh)),
                Change::Gone | Change::Skipped => return Ok(None),
                Change::Newer(row) => {
                    snapshot = self.later_snapshot()?;
                    match self.look_again(plan, params, &snapshot, rowid, &row).await? {
                        None => return Ok(None),
                        some => fresh = some,
                    }
                }
            }
        }
    }
}

/// Takes LIMIT and OFFSET off.
fn limits(query: &mut Query, params: &mut Params) -> Result<(Option<Scalar>, Option<Scalar>)> {
    let (mut limit, mut offset) = (None, None);
    if let Some(clause) = query.limit_clause.take() {
        let LimitClause::LimitOffset { limit: l, offset: o, limit_by } = clause else {
            return refuse("this form of LIMIT");
        };
        if !limit_by.is_empty() {
            return refuse("LIMIT BY");
        }
        (limit, offset) = (l, o);
    }
    if let Some(fetch) = query.fetch.take() {
        if fetch.with_ties {
            return Err(PgError::unsupported("FETCH FIRST WITH TIES with FOR UPDATE"));
        }
        if limit.is_some() {
            return Err(PgError::syntax("multiple LIMIT clauses not allowed"));
        }
        limit = Some(fetch.quantity.unwrap_or_else(|| crate::bind::number("1")));
    }
    let mut scalar = |expr: Option<Expr>| -> Result<Option<Scalar>> {
        let Some(expr) = expr else { return Ok(None) };
        let int8 = ColType::new(TypeKind::Int8);
        let mut binder = crate::bind::scalar::ScalarBinder::constants(params);
        let bound = binder.bind_assignment(&expr, int8)?;
        bound.map(Some).ok_or_else(|| PgError::unsupported("this LIMIT with FOR UPDATE"))
    };
    Ok((scalar(limit)?, scalar(offset.map(|offset| offset.value))?))
}

/// Refuses functions over many rows, but for those of subqueries.
fn check_called(expr: &Expr) -> Result<()> {
    struct Called(usize);
    impl ast::Visitor for Called {
        type Break = &'static str;

        fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<&'static str> {
            self.0 += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<&'static str> {
            self.0 -= 1;
            ControlFlow::Continue(())
        }

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<&'static str> {
            let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
            if self.0 > 0 {
                return ControlFlow::Continue(());
            }
            if function.over.is_some() {
                return ControlFlow::Break("window functions");
            }
            let name = function.name.0.last().and_then(|part| part.as_ident()).map(ident_name);
            match name {
                Some(name) if is_aggregate(&name) => ControlFlow::Break("aggregate functions"),
                Some(name) if matches!(name.as_str(), "unnest" | "generate_series") => {
                    ControlFlow::Break("set-returning functions in the target list")
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }
    match ast::Visit::visit(expr, &mut Called(0)) {
        ControlFlow::Break(what) => refuse(what),
        ControlFlow::Continue(()) => Ok(()),
    }
}

impl Locking {
    /// Puts the hidden columns of the targets at the end of a bound query.
    pub(crate) fn add_hidden_columns(&self, query: &mut Query) -> Result<()> {
        let SetExpr::Select(select) = &mut *query.body else {
            return Err(PgError::internal("a lock without a select"));
        };
        let mut found = 0;
        for from in &mut select.from {
            self.aim(from, &mut found);
        }
        if found != self.rows.targets.len() {
            return Err(PgError::internal("a lock without a table"));
        }
        for item in std::mem::take(&mut select.projection) {
            self.expand(item, &mut select.projection)?;
        }
        for target in &self.rows.targets {
            select.projection.extend(hidden_items(&target.alias));
        }
        Ok(())
    }

    /// Has the targets read with their hidden columns.
    fn aim(&self, from: &mut TableWithJoins, found: &mut usize) {
        let joined = from.joins.iter_mut().map(|join| &mut join.relation);
        for factor in std::iter::once(&mut from.relation).chain(joined) {
            match factor {
                TableFactor::NestedJoin { table_with_joins, .. } => {
                    self.aim(table_with_joins, found);
                }
                TableFactor::Table { name, alias, args: None, .. } => {
                    let shown = match alias {
                        Some(alias) => ident_name(&alias.name),
                        None => match table_parts(name) {
                            Ok((_, name)) => name,
                            Err(_) => continue,
                        },
                    };
                    let mut targets = self.rows.targets.iter();
                    let Some(target) = targets.find(|target| target.alias == shown) else {
                        continue;
                    };
                    *found += 1;
                    let table = &target.table;
                    *name = ObjectName::from(vec![
                        quoted(TARGET_CATALOG),
                        quoted(&table.schema),
                        quoted(&table.name),
                    ]);
                    alias.get_or_insert_with(|| TableAlias {
                        explicit: true,
                        name: quoted(&shown),
                        columns: Vec::new(),
                        at: None,
                    });
                }
                _ => {}
            }
        }
    }

    /// A wildcard is all columns but the hidden ones.
    fn expand(&self, item: SelectItem, out: &mut Vec<SelectItem>) -> Result<()> {
        let target = |name: &str| self.rows.targets.iter().find(|target| target.alias == name);
        match &item {
            SelectItem::Wildcard(_) => {
                if self.merges && !self.rows.targets.is_empty() {
                    return refuse("* over a join with USING or NATURAL");
                }
                for name in &self.names {
                    let Some(name) = name else {
                        return refuse("* over what has no name in FROM");
                    };
                    match target(name) {
                        Some(target) => {
                            out.extend(expand_wildcard(item.clone(), &target.table, name));
                        }
                        None => out.push(SelectItem::QualifiedWildcard(
                            SelectItemQualifiedWildcardKind::ObjectName(ObjectName::from(vec![
                                quoted(name),
                            ])),
                            WildcardAdditionalOptions::default(),
                        )),
                    }
                }
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                match table_parts(name).ok().and_then(|(_, name)| target(&name)) {
                    Some(target) => {
                        out.extend(expand_wildcard(item.clone(), &target.table, &target.alias));
                    }
                    None => out.push(item),
                }
            }
            _ => out.push(item),
        }
        Ok(())
    }
}

/// Finds FOR clauses in what stands inside of a statement, and takes these queries out.
#[derive(Default)]
pub(crate) struct Taken {
    /// How many queries the one looked at stands in, and how many of these, but for the statement's
    /// own, have a WITH clause.
    depth: usize,
    with: usize,
    /// Queries below a statement's own; 0 if the statement is no query.
    own: usize,
    pub(crate) queries: Vec<Query>,
}

/// What a query that was taken out is called in its place.
pub(crate) fn taken_name(number: usize) -> String {
    format!("$locked{number}")
}

/// What its columns are called there.
pub(crate) fn taken_column(at: usize) -> String {
    format!("column {at}")
}

impl Taken {
    /// Takes them out of a statement.
    pub(crate) fn out_of(statement: &mut ast::Statement) -> Result<Taken> {
        let own = usize::from(matches!(statement, ast::Statement::Query(_)));
        let mut taken = Taken { own, ..Taken::default() };
        match ast::VisitMut::visit(statement, &mut taken) {
            ControlFlow::Break(error) => Err(error),
            ControlFlow::Continue(()) => Ok(taken),
        }
    }
}

impl ast::VisitorMut for Taken {
    type Break = PgError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<PgError> {
        self.with += usize::from(self.depth >= self.own && query.with.is_some());
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<PgError> {
        self.depth -= 1;
        self.with -= usize::from(self.depth >= self.own && query.with.is_some());
        if self.depth < self.own || query.locks.is_empty() {
            return ControlFlow::Continue(());
        }
        if self.with > 0 {
            let text = "FOR UPDATE inside of a subquery that has a WITH clause of its own";
            return ControlFlow::Break(PgError::unsupported(text));
        }
        let text = format!("select * from \"{}\"", taken_name(self.queries.len()));
        match query_of_text(&text) {
            Ok(read) => self.queries.push(std::mem::replace(query, read)),
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }
}

fn query_of_text(text: &str) -> Result<Query> {
    if let crate::parse::Parsed::Sql(ast) = crate::parse::parse_single(text)?.parsed
        && let ast::Statement::Query(query) = *ast
    {
        return Ok(*query);
    }
    Err(PgError::internal("no skeleton"))
}

/// Gives the columns of a query that was taken out their names, where it is read.
pub(crate) struct Shown {
    /// What reads it now, and what is to.
    plain: Query,
    listed: Query,
}

impl Shown {
    pub(crate) fn new(number: usize, columns: &[query::PgColumn]) -> Result<Shown> {
        let name = taken_name(number);
        let list: Vec<String> = columns
            .iter()
            .enumerate()
            .map(|(at, column)| {
                format!("{} as {}", quoted(&taken_column(at)), quoted(&column.name))
            })
            .collect();
        Ok(Shown {
            plain: query_of_text(&format!("select * from \"{name}\""))?,
            listed: query_of_text(&format!("select {} from \"{name}\"", list.join(", ")))?,
        })
    }

    /// Wherever it is read.
    pub(crate) fn put_into<T: ast::VisitMut>(&mut self, read: &mut T) {
        let _ = read.visit(self);
    }
}

impl ast::VisitorMut for Shown {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if query.body == self.plain.body {
            query.body = self.listed.body.clone();
        }
        ControlFlow::Continue(())
    }
}

/// Whether a query inside of a statement has a FOR clause.
pub(crate) fn locks_inside(statement: &ast::Statement) -> bool {
    struct Finds(usize);
    impl ast::Visitor for Finds {
        type Break = ();

        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            if self.0 == 0 && !query.locks.is_empty() {
                return ControlFlow::Break(());
            }
            self.0 = self.0.saturating_sub(1);
            ControlFlow::Continue(())
        }
    }
    let own = usize::from(matches!(statement, ast::Statement::Query(_)));
    ast::Visit::visit(statement, &mut Finds(own)).is_break()
}
