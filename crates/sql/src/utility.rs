//! Commands: transaction control, settings, PREPARE and EXECUTE, EXPLAIN, maintenance.

use crate::bind::{ident_name, object_parts};
use crate::cache::Named;
use crate::encode::{RowSink, ValueRef, column_of};
use crate::parse::{Own, Parsed, Statement};
use crate::plan::{Direct, Kind, Plan, Prepared};
use crate::session::{Fetched, Portal, Session};
use crate::settings::{parse_isolation, serializable};
use crate::{PgError, Result, Severity};
use datafusion::sql::sqlparser::ast::{
    self, ContextModifier, DiscardObject, Expr, LockTableMode, Reset, Set, Statement as Ast,
    TransactionAccessMode, TransactionIsolationLevel, TransactionMode, Value as Literal,
};
use futures::StreamExt;
use kernel::row::{Datum, RowView, TypeKind, Value};
use kernel::table::LockWait;
use kernel::txn::{Isolation, TmMode};
use observe::Stat;
use query::PgColumn;
use query::scalar::EvalContext;
use std::sync::Arc;

fn refuse<T>(what: impl std::fmt::Display) -> Result<T> {
    Err(PgError::unsupported(what))
}

fn done(tag: &str) -> Result<Fetched> {
    Ok(Fetched::Complete(tag.to_owned()))
}

/// Columns of `SHOW PARAMETER`.
pub(crate) fn parameter_columns() -> Vec<PgColumn> {
    ["name", "type", "value"].iter().map(|name| column_of(name, TypeKind::Text)).collect()
}

fn setting_name(name: &ast::ObjectName) -> Result<String> {
    Ok(object_parts(name)?.join(".").to_lowercase())
}

/// A value as `SET` takes it: words, texts and numbers, joined.
fn setting_value(values: &[Expr]) -> Result<Option<String>> {
    let mut out = Vec::new();
    for value in values {
        match value {
            Expr::Identifier(ident)
                if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default") =>
            {
                return Ok(None);
            }
            Expr::Identifier(ident) => out.push(ident.value.clone()),
            Expr::Value(v) => match &v.value {
                Literal::SingleQuotedString(s)
                | Literal::DoubleQuotedString(s)
                | Literal::EscapedStringLiteral(s) => out.push(s.clone()),
                Literal::Number(n, _) => out.push(n.clone()),
                Literal::Boolean(b) => out.push(if *b { "on" } else { "off" }.to_owned()),
                other => out.push(other.to_string()),
            },
            other => out.push(other.to_string().trim_matches('\'').to_owned()),
        }
    }
    Ok(Some(out.join(", ")))
}

impl Session {
    /// The result columns of a command.
    pub(crate) fn command_columns(&self, ast: &Ast) -> Result<Vec<PgColumn>> {
        let text = |name: &str| column_of(name, TypeKind::Text);
        Ok(match ast {
            Ast::ShowVariable { variable } => match show_name(variable).as_str() {
                "all" => vec![text("name"), text("setting"), text("description")],
                name => vec![text(show_heading(name))],
            },
            Ast::Execute { name: Some(name), .. } => {
                let name = setting_name(name)?;
                let prepared = self.named.get(&name).ok_or_else(|| unknown_statement(&name))?;
                prepared.columns.clone()
            }
            _ => Vec::new(),
        })
    }

    /// BEGIN, COMMIT, ROLLBACK and savepoints, which work before a transaction is begun for the
    /// statement.
    pub(crate) async fn transaction_command(
        &mut self,
        prepared: &Arc<Prepared>,
    ) -> Result<Option<Fetched>> {
        let Kind::Utility(ast) = &prepared.plan.kind else { return Ok(None) };
        match &**ast {
            Ast::StartTransaction { modes, statements, exception, modifier, .. } => {
                if !statements.is_empty() || exception.is_some() || modifier.is_some() {
                    return refuse("this form of BEGIN");
                }
                self.begin_block(modes).await.map(Some)
            }
            Ast::Commit { chain, modifier: None, .. } => {
                let had = self.txn.as_ref().map(|txn| (txn.explicit, txn.failed));
                if !had.is_some_and(|(explicit, _)| explicit) {
                    self.notice(Severity::Warning, "there is no transaction in progress");
                }
                let failed = had.is_some_and(|(_, failed)| failed);
                let tag = if failed { "ROLLBACK" } else { "COMMIT" };
                if failed {
                    self.rollback().await?;
                } else {
                    self.commit().await?;
                }
                self.chain(*chain);
                Ok(Some(Fetched::Complete(tag.to_owned())))
            }
            Ast::Rollback { chain, savepoint: None } => {
                if !self.txn.as_ref().is_some_and(|txn| txn.explicit) {
                    self.notice(Severity::Warning, "there is no transaction in progress");
                }
                self.rollback().await?;
                self.chain(*chain);
                Ok(Some(Fetched::Complete("ROLLBACK".to_owned())))
            }
            Ast::Rollback { chain: _, savepoint: Some(name) } => {
                self.rollback_to(&ident_name(name)).await?;
                Ok(Some(Fetched::Complete("ROLLBACK".to_owned())))
            }
            _ => Ok(None),
        }
    }

    fn chain(&mut self, chain: bool) {
        if chain {
            let (isolation, read_only) = (self.settings.isolation, self.settings.read_only);
            self.begin(true, isolation, read_only);
        }
    }

    async fn begin_block(&mut self, modes: &[TransactionMode]) -> Result<Fetched> {
        if let Some(txn) = &mut self.txn {
            if txn.explicit {
                self.notice(Severity::Warning, "there is already a transaction in progress");
                return done("BEGIN");
            }
            // BEGIN inside a message makes what went before it part of the block.
            if txn.used {
                txn.explicit = true;
                return done("BEGIN");
            }
            self.rollback_unused().await?;
        }
        let (isolation, read_only) = self.modes(modes)?;
        self.begin(true, isolation, read_only);
        done("BEGIN")
    }

    /// Gives up a transaction in which only planning has been done.
    async fn rollback_unused(&mut self) -> Result<()> {
        match self.txn.take() {
            Some(txn) => Ok(txn.handle.rollback(&self.ctx).await?),
            None => Ok(()),
        }
    }

    fn modes(&self, modes: &[TransactionMode]) -> Result<(Isolation, bool)> {
        let (mut isolation, mut read_only) = (self.settings.isolation, self.settings.read_only);
        for mode in modes {
            match mode {
                TransactionMode::AccessMode(mode) => {
                    read_only = *mode == TransactionAccessMode::ReadOnly;
                }
                TransactionMode::IsolationLevel(level) => {
                    isolation = match level {
                        TransactionIsolationLevel::ReadCommitted
                        | TransactionIsolationLevel::ReadUncommitted => Isolation::ReadCommitted,
                        TransactionIsolationLevel::RepeatableRead => Isolation::RepeatableRead,
                        TransactionIsolationLevel::Serializable => return Err(serializable()),
                        TransactionIsolationLevel::Snapshot => {
                            return refuse("isolation level SNAPSHOT");
                        }
                    };
                }
            }
        }
        Ok((isolation, read_only))
    }

    async fn rollback_to(&mut self, name: &str) -> Result<()> {
        let no_block = || {
            PgError::new("25P01", "ROLLBACK TO SAVEPOINT can only be used in transaction blocks")
        };
        let Some(txn) = self.txn.as_mut().filter(|txn| txn.explicit) else {
            return Err(no_block());
        };
        let at = txn.savepoints.iter().rposition(|(known, _)| known == name);
        let at = at.ok_or_else(|| no_savepoint(name))?;
        let savepoint = txn.savepoints[at].1;
        txn.handle.rollback_to(&self.ctx, savepoint).await?;
        txn.savepoints.truncate(at + 1);
        txn.failed = false;
        Ok(())
    }

    fn savepoint(&mut self, name: String) -> Result<Fetched> {
        let Some(txn) = self.txn.as_mut().filter(|txn| txn.explicit) else {
            return Err(PgError::new("25P01", "SAVEPOINT can only be used in transaction blocks"));
        };
        let savepoint = txn.handle.savepoint();
        txn.savepoints.push((name, savepoint));
        self.ctx.bump(Stat::Savepoints, 1);
        done("SAVEPOINT")
    }

    fn release(&mut self, name: &str) -> Result<Fetched> {
        let Some(txn) = self.txn.as_mut().filter(|txn| txn.explicit) else {
            let text = "RELEASE SAVEPOINT can only be used in transaction blocks";
            return Err(PgError::new("25P01", text));
        };
        let at = txn.savepoints.iter().rposition(|(known, _)| known == name);
        txn.savepoints.truncate(at.ok_or_else(|| no_savepoint(name))?);
        done("RELEASE")
    }

    pub(crate) async fn run_utility(
        &mut self,
        ast: &Ast,
        portal: &mut Portal,
        sink: &mut dyn RowSink,
    ) -> Result<Fetched> {
        match ast {
            Ast::Savepoint { name } => self.savepoint(ident_name(name)),
            Ast::ReleaseSavepoint { name } => self.release(&ident_name(name)),
            Ast::Set(set) => self.run_set(set),
            Ast::Reset(reset) => {
                match &reset.reset {
                    Reset::ALL => self.settings.reset_all()?,
                    Reset::ConfigurationParameter(name) => {
                        self.settings.set(&setting_name(name)?, None, false)?;
                    }
                }
                self.note_context();
                done("RESET")
            }
            Ast::ShowVariable { variable } => self.run_show(variable, portal, sink),
            Ast::Discard { object_type } => self.run_discard(object_type),
            Ast::Prepare { name, data_types, statement } => {
                self.run_prepare(ident_name(name), data_types, statement).await
            }
            Ast::Execute { name: Some(name), parameters, .. } => {
                let name = setting_name(name)?;
                self.run_execute(&name, parameters, portal, sink).await
            }
            Ast::Deallocate { name, .. } => {
                let name = ident_name(name);
                if name == "all" {
                    self.named = Named::new();
                    return done("DEALLOCATE ALL");
                }
                self.named.remove(&name).ok_or_else(|| unknown_statement(&name))?;
                done("DEALLOCATE")
            }
            Ast::Copy { .. } => self.run_copy(ast, sink).await,
            Ast::Lock(lock) => self.run_lock(lock).await,
            Ast::LISTEN { .. } | Ast::NOTIFY { .. } | Ast::UNLISTEN { .. } => {
                refuse("LISTEN/NOTIFY")
            }
            Ast::Declare { .. } | Ast::Fetch { .. } | Ast::Close { .. } => refuse("cursors in SQL")
                .map_err(|e: PgError| {
                    e.with_hint("Portals of the extended protocol fetch in parts.")
                }),
            ddl => Ok(Fetched::Complete(self.run_ddl(ddl).await?)),
        }
    }

    fn run_set(&mut self, set: &Set) -> Result<Fetched> {
        match set {
            Set::SingleAssignment { scope, hivevar: false, variable, values } => {
                let local = *scope == Some(ContextModifier::Local);
                let (name, value) = (setting_name(variable)?, setting_value(values)?);
                if name == "transaction_isolation" {
                    let isolation = match &value {
                        Some(text) => parse_isolation(text)?,
                        None => self.settings.isolation,
                    };
                    self.change_isolation(isolation, None)?;
                } else {
                    self.settings.set(&name, value.as_deref(), local)?;
                    self.note_context();
                    if name == "application_name" {
                        self.ctx.session.set_program(value.as_deref().unwrap_or(""));
                    }
                }
            }
            Set::SetTimeZone { local, value } => {
                let value = setting_value(std::slice::from_ref(value))?;
                self.settings.set("timezone", value.as_deref(), *local)?;
                self.note_context();
            }
            Set::SetNames { charset_name, .. } => {
                self.settings.set("client_encoding", Some(&charset_name.value), false)?;
            }
            Set::SetNamesDefault {} => {}
            Set::SetTransaction { modes, snapshot: None, session } => {
                let (isolation, read_only) = self.modes(modes)?;
                if *session {
                    self.settings.isolation = isolation;
                    self.settings.read_only = read_only;
                } else {
                    self.change_isolation(isolation, Some(read_only))?;
                }
            }
            other => return refuse(format!("SET {other}")),
        }
        done("SET")
    }

    /// SET TRANSACTION: only before the block has done anything.
    fn change_isolation(&mut self, isolation: Isolation, read_only: Option<bool>) -> Result<()> {
        let Some(txn) = self.txn.as_mut().filter(|txn| txn.explicit) else {
            self.notice(
                Severity::Warning,
                "SET TRANSACTION can only be used in transaction blocks",
            );
            return Ok(());
        };
        let read_only = read_only.unwrap_or(txn.read_only);
        if txn.handle.isolation() != isolation {
            if txn.handle.xid().is_some() || !txn.savepoints.is_empty() {
                return Err(PgError::new(
                    "25001",
                    "SET TRANSACTION ISOLATION LEVEL must be called before any query",
                ));
            }
            let start_us = txn.start_us;
            self.begin(true, isolation, read_only);
            if let Some(txn) = &mut self.txn {
                txn.start_us = start_us;
            }
        } else {
            txn.read_only = read_only;
        }
        Ok(())
    }

    /// A setting or, failing that, a parameter of the instance.
    pub(crate) fn show_setting(&self, name: &str) -> Option<String> {
        match name {
            "transaction_isolation" | "transaction isolation level" => {
                let isolation = self.txn.as_ref().map(|txn| txn.handle.isolation());
                Some(isolation_name(isolation.unwrap_or(self.settings.isolation)).to_owned())
            }
            "transaction_read_only" => {
                let read_only =
                    self.txn.as_ref().map_or(self.settings.read_only, |txn| txn.read_only);
                Some(if read_only { "on" } else { "off" }.to_owned())
            }
            name => self.settings.show(name).or_else(|| self.instance.params.show(name).ok()),
        }
    }

    fn run_show(
        &mut self,
        variable: &[ast::Ident],
        portal: &Portal,
        sink: &mut dyn RowSink,
    ) -> Result<Fetched> {
        let name = show_name(variable);
        let mut rows: Vec<Vec<String>> = Vec::new();
        if name == "all" {
            for (name, value) in self.settings.all() {
                rows.push(vec![name, value, String::new()]);
            }
            for row in self.instance.params.rows() {
                rows.push(vec![row.name.to_owned(), row.display_value, row.description.to_owned()]);
            }
        } else {
            let value = self.show_setting(&name).ok_or_else(|| {
                let text = format!("unrecognized configuration parameter \"{name}\"");
                PgError::new("42704", text)
            })?;
            rows.push(vec![value]);
        }
        self.send_texts(&rows, portal, sink)?;
        done("SHOW")
    }

    /// Rows of texts, for the columns the portal's statement was described with.
    fn send_texts(
        &self,
        rows: &[Vec<String>],
        portal: &Portal,
        sink: &mut dyn RowSink,
    ) -> Result<()> {
        let mut encoder = self.encoder(&portal.prepared.columns, &portal.formats);
        for row in rows {
            encoder.encode(|i| Ok(ValueRef::Ref(Datum::Text(&row[i]))), sink.row())?;
            sink.flush_if_large();
        }
        Ok(())
    }

    fn run_discard(&mut self, what: &DiscardObject) -> Result<Fetched> {
        match what {
            DiscardObject::ALL => {
                if self.txn.as_ref().is_some_and(|txn| txn.explicit) {
                    let text = "DISCARD ALL cannot run inside a transaction block";
                    return Err(PgError::new("25001", text));
                }
                self.named = Named::new();
                self.sequences.clear();
                self.last_sequence = None;
                self.settings.reset_all()?;
                self.note_context();
                done("DISCARD ALL")
            }
            DiscardObject::PLANS => {
                self.database.cache.clear();
                done("DISCARD PLANS")
            }
            DiscardObject::SEQUENCES => {
                self.sequences.clear();
                self.last_sequence = None;
                done("DISCARD SEQUENCES")
            }
            DiscardObject::TEMP => done("DISCARD TEMP"),
        }
    }

    async fn run_prepare(
        &mut self,
        name: String,
        types: &[ast::DataType],
        statement: &Ast,
    ) -> Result<Fetched> {
        if self.named.contains_key(&name) {
            let text = format!("prepared statement \"{name}\" already exists");
            return Err(PgError::new("42P05", text));
        }
        let mut oids = Vec::new();
        for ty in types {
            let ty = query::sqltype::col_type_of_sql(ty)?;
            oids.push(ty.map_or(0, |ty| query::PgType::of(ty).oid));
        }
        let inner = crate::parse::parse_single(&statement.to_string())?;
        if !matches!(&inner.parsed, Parsed::Sql(ast)
            if matches!(**ast, Ast::Query(_) | Ast::Insert(_) | Ast::Update(_) | Ast::Delete(_)))
        {
            return refuse("PREPARE of this statement");
        }
        let plan = self.plan_for(&inner, &oids).await?;
        let prepared = Arc::new(Prepared {
            param_oids: plan.params.iter().map(|ty| query::PgType::of(*ty).oid).collect(),
            columns: plan.columns.clone(),
            returns_rows: plan.returns_rows,
            statement: inner,
            declared: oids,
            plan,
        });
        self.named.insert(name, prepared);
        done("PREPARE")
    }

    async fn run_execute(
        &mut self,
        name: &str,
        args: &[Expr],
        portal: &mut Portal,
        sink: &mut dyn RowSink,
    ) -> Result<Fetched> {
        let prepared = self.named.get(name).cloned().ok_or_else(|| unknown_statement(name))?;
        let plan = self.execute_plan(&prepared).await?;
        if args.len() != plan.params.len() {
            return Err(PgError::syntax(format!(
                "wrong number of parameters for prepared statement \"{name}\""
            ))
            .with_detail(format!(
                "Expected {} parameters but got {}.",
                plan.params.len(),
                args.len()
            )));
        }
        let env = self.format_env();
        let mut values = Vec::with_capacity(args.len());
        for (arg, ty) in args.iter().zip(&plan.params) {
            let mut params = crate::bind::Params::new(Vec::new(), 0);
            let mut binder = crate::bind::scalar::ScalarBinder::constants(&mut params);
            let scalar = binder.bind_assignment(arg, *ty)?;
            let scalar =
                scalar.ok_or_else(|| PgError::unsupported(format!("the argument {arg}")))?;
            let called = self.call_all(&params.hidden).await?;
            let cx = EvalContext { row: None, params: &called, env: &env };
            values.push(scalar.eval(&cx)?.into_value());
        }
        let mut params = values;
        for call in &plan.hidden {
            let value = self.session_call(call, &params).await?;
            params.push(value);
        }
        // The rows of the inner statement are the outer one's; it is fetched at once.
        let mut inner = Portal {
            prepared,
            params: Vec::new(),
            formats: portal.formats.clone(),
            state: crate::session::PortalState::Ready,
        };
        self.run_inner(&plan, params, &mut inner, sink).await
    }

    async fn execute_plan(&mut self, prepared: &Arc<Prepared>) -> Result<Arc<Plan>> {
        if !prepared.plan.once && self.is_current(&prepared.plan) {
            return Ok(prepared.plan.clone());
        }
        self.plan_for(&prepared.statement, &prepared.declared).await
    }

    async fn run_lock(&mut self, lock: &ast::Lock) -> Result<Fetched> {
        if !self.txn.as_ref().is_some_and(|txn| txn.explicit) {
            return Err(PgError::new("25P01", "LOCK TABLE can only be used in transaction blocks"));
        }
        let mode = match &lock.lock_mode {
            // A reader needs no lock here: it never waits and is never waited for.
            Some(LockTableMode::AccessShare) => None,
            Some(LockTableMode::RowShare) => Some(TmMode::SS),
            Some(LockTableMode::RowExclusive) => Some(TmMode::SX),
            Some(LockTableMode::Share) => Some(TmMode::S),
            Some(LockTableMode::ShareUpdateExclusive | LockTableMode::ShareRowExclusive) => {
                Some(TmMode::SSX)
            }
            Some(LockTableMode::Exclusive | LockTableMode::AccessExclusive) | None => {
                Some(TmMode::X)
            }
        };
        let wait = match (lock.nowait, self.settings.lock_timeout_us) {
            (true, _) => LockWait::NoWait,
            (false, 0) => LockWait::Wait,
            (false, us) => LockWait::Timeout(us),
        };
        for target in &lock.tables {
            let table = self.table_of(&target.name).await?;
            let Some(mode) = mode else { continue };
            let txn = self.transaction()?;
            txn.core().lock_table(&self.ctx, &txn, table.obj, mode, wait).await.map_err(
                |e| match e {
                    kernel::Error::RowLocked => PgError::new(
                        "55P03",
                        format!("could not obtain lock on relation \"{}\"", table.name),
                    ),
                    other => other.into(),
                },
            )?;
        }
        done("LOCK TABLE")
    }

    pub(crate) async fn run_own(
        &mut self,
        own: &Own,
        portal: &Portal,
        sink: &mut dyn RowSink,
    ) -> Result<Fetched> {
        match own {
            Own::Vacuum { tables } => {
                self.check_tables(tables).await?;
                let text = "VACUUM has nothing to do: space of old row versions is reused by the changes that follow";
                self.notice(Severity::Notice, text);
                done("VACUUM")
            }
            Own::Analyze { tables } => {
                self.check_tables(tables).await?;
                let text = "ANALYZE has nothing to do: plans use no statistics yet";
                self.notice(Severity::Notice, text);
                done("ANALYZE")
            }
            Own::Checkpoint => {
                let cache = &self.instance.core.cache;
                cache.checkpoint_all(&self.ctx, self.instance.me).await?;
                done("CHECKPOINT")
            }
            Own::ShowParameter(pattern) => {
                let wanted = pattern.as_deref().unwrap_or("").trim_matches('%').to_lowercase();
                let rows: Vec<Vec<String>> = self
                    .instance
                    .params
                    .rows()
                    .into_iter()
                    .filter(|row| row.name.contains(&wanted))
                    .map(|row| {
                        vec![row.name.to_owned(), row.type_name.to_owned(), row.display_value]
                    })
                    .collect();
                self.send_texts(&rows, portal, sink)?;
                done("SHOW")
            }
            Own::CreateSequence(spec) => {
                self.check_writable("CREATE SEQUENCE")?;
                Ok(Fetched::Complete(self.create_sequence(spec).await?))
            }
            Own::AlterSystemSet { name, value } => {
                self.instance.alter_system(name, value).map_err(param_error)?;
                done("ALTER SYSTEM")
            }
            Own::AlterSessionSet { name, value } => {
                if self.settings.show(name).is_some() {
                    self.settings.set(name, Some(value), false)?;
                    self.note_context();
                    return done("ALTER SESSION");
                }
                kernel::params::Parameters::check_session(name, value).map_err(param_error)?;
                refuse(format!("parameter \"{name}\" of one session"))
            }
        }
    }

    /// Every table named must exist.
    async fn check_tables(&mut self, tables: &[(Option<String>, String)]) -> Result<()> {
        for (schema, name) in tables {
            self.find_relation(schema.as_deref(), name).await?;
        }
        Ok(())
    }

    pub(crate) async fn run_explain(
        &mut self,
        analyze: bool,
        statement: &Statement,
        portal: &Portal,
        sink: &mut dyn RowSink,
    ) -> Result<Fetched> {
        let plan = self.plan_for(statement, &[]).await?;
        let (query, above) = match &plan.kind {
            Kind::Direct(direct) => {
                let mut rows = vec![vec![direct_text(direct)]];
                if analyze {
                    rows.push(vec![self.analyze(&plan, None).await?]);
                }
                self.send_texts(&rows, portal, sink)?;
                return done("EXPLAIN");
            }
            Kind::Query(query) => (
                &**query,
                query.lock.as_ref().map(|lock| format!("Lock Rows on {}", lock.table.name)),
            ),
            Kind::Modify(modify) => {
                let verb = if modify.set.is_some() { "Update" } else { "Delete" };
                (&modify.query, Some(format!("{verb} on {}", modify.table.name)))
            }
            Kind::InsertSelect(insert) => {
                (&insert.query, Some(format!("Insert on {}", insert.table.name)))
            }
            _ => return refuse("EXPLAIN of this statement"),
        };
        if !plan.params.is_empty() {
            return refuse("EXPLAIN of a statement with parameters");
        }
        let values = self.call_all(&plan.hidden).await?;
        let planner = &self.database.planner;
        let bound = planner.with_values(&query.query, &values)?;
        let physical = planner.physical(&bound).await?;
        let mut lines: Vec<String> = above.iter().cloned().collect();
        let indent = if above.is_some() { "  " } else { "" };
        if analyze {
            let summary = self.analyze(&plan, Some((&physical, values))).await?;
            let shown = query::planner::explain(&physical, true);
            lines.extend(shown.into_iter().map(|line| format!("{indent}{line}")));
            lines.push(summary);
        } else {
            let shown = query::planner::explain(&physical, false);
            lines.extend(shown.into_iter().map(|line| format!("{indent}{line}")));
        }
        let rows: Vec<Vec<String>> = lines.into_iter().map(|line| vec![line]).collect();
        self.send_texts(&rows, portal, sink)?;
        done("EXPLAIN")
    }

    /// Runs the statement and says how long it took; a changing one really changes.
    async fn analyze(
        &mut self,
        plan: &Arc<Plan>,
        query: Option<(&Arc<dyn datafusion::physical_plan::ExecutionPlan>, Vec<Value>)>,
    ) -> Result<String> {
        let start = self.ctx.env.now();
        let mut rows = 0u64;
        let reads = matches!(&plan.kind, Kind::Query(q) if q.lock.is_none());
        match query {
            Some((physical, values)) if reads => {
                let state = self.exec_state(values).await?;
                let mut stream = self.database.planner.execute(physical, state, false)?;
                while let Some(batch) = stream.next().await {
                    rows += u64::try_from(batch?.num_rows()).unwrap_or(0);
                    self.ctx.check_interrupt()?;
                }
            }
            _ => {
                let params = self.call_all(&plan.hidden).await?;
                let mut sink = CountingSink::default();
                let statement =
                    Statement { text: Arc::from(""), parsed: Parsed::Empty, param_count: 0 };
                let prepared = Arc::new(Prepared {
                    param_oids: Vec::new(),
                    columns: plan.columns.clone(),
                    returns_rows: plan.returns_rows,
                    statement,
                    declared: Vec::new(),
                    plan: plan.clone(),
                });
                let mut inner = Portal {
                    prepared,
                    params: Vec::new(),
                    formats: Vec::new(),
                    state: crate::session::PortalState::Ready,
                };
                self.run_inner(plan, params, &mut inner, &mut sink).await?;
                rows = sink.rows;
            }
        }
        let us = self.ctx.env.now().since(start);
        Ok(format!("Execution: {}.{:03} ms, {rows} rows", us / 1000, us % 1000))
    }

    /// The values of the one row a direct statement reads.
    pub(crate) async fn direct_row(
        &mut self,
        direct: &Direct,
        params: &[Value],
    ) -> Result<Option<Vec<Value>>> {
        let env = self.format_env();
        let (output, view);
        match direct {
            Direct::Values(all) => {
                output = all;
                view = None;
            }
            Direct::Select(select) => {
                if !self.direct_select(select, params, &env).await? {
                    return Ok(None);
                }
                output = &select.output;
                view = Some(RowView::new(&select.row.table.types, &self.row));
            }
            _ => return Err(PgError::unsupported("COPY of a statement that changes rows")),
        }
        let cx = EvalContext { row: view, params, env: &env };
        let values: Result<Vec<Value>> =
            output.iter().map(|one| one.eval(&cx).map(query::scalar::Val::into_value)).collect();
        values.map(Some)
    }
}

/// Throws rows away and counts them.
#[derive(Default)]
struct CountingSink {
    buffer: bytes::BytesMut,
    rows: u64,
}

impl RowSink for CountingSink {
    fn row(&mut self) -> &mut bytes::BytesMut {
        self.rows += 1;
        self.buffer.clear();
        &mut self.buffer
    }

    fn copy_out(&mut self, _: bool, _: usize) {}

    fn flush_if_large(&mut self) {}
}

fn param_error(error: kernel::params::ParamError) -> PgError {
    let code = match error {
        kernel::params::ParamError::Unknown { .. } => "42704",
        kernel::params::ParamError::Invalid { .. } => "22023",
        kernel::params::ParamError::Fixed { .. } => "55P02",
    };
    PgError::new(code, error.to_string())
}

fn unknown_statement(name: &str) -> PgError {
    PgError::new("26000", format!("prepared statement \"{name}\" does not exist"))
}

fn no_savepoint(name: &str) -> PgError {
    PgError::new("3B001", format!("savepoint \"{name}\" does not exist"))
}

fn isolation_name(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::ReadCommitted => "read committed",
        Isolation::RepeatableRead => "repeatable read",
    }
}

fn show_name(variable: &[ast::Ident]) -> String {
    let words: Vec<String> = variable.iter().map(|i| i.value.to_lowercase()).collect();
    match words.join(" ").as_str() {
        "time zone" => "timezone".to_owned(),
        "transaction isolation level" => "transaction_isolation".to_owned(),
        "session authorization" => "session_authorization".to_owned(),
        _ => words.join("."),
    }
}

fn show_heading(name: &str) -> &str {
    match name {
        "timezone" => "TimeZone",
        "datestyle" => "DateStyle",
        "intervalstyle" => "IntervalStyle",
        other => other,
    }
}

fn direct_text(direct: &Direct) -> String {
    let lookup = |row: &crate::plan::RowAccess| {
        format!("Index Unique Lookup using {} on {} (direct)", row.index.name, row.table.name)
    };
    match direct {
        Direct::Select(select) if select.lock.is_some() => {
            format!("Lock Row: {}", lookup(&select.row))
        }
        Direct::Select(select) => lookup(&select.row),
        Direct::Update { row, .. } => format!("Update: {}", lookup(row)),
        Direct::Delete { row, .. } => format!("Delete: {}", lookup(row)),
        Direct::Insert { table, rows, .. } => {
            format!("Insert on {} ({} rows, direct)", table.name, rows.len())
        }
        Direct::Values(_) => "Result".to_owned(),
    }
}
