//! From text to a prepared statement, and from that and a client's values to a portal.
//!
//! What it promises: what is prepared runs with the result columns it was described with. What it
//! must never do: run a statement.

use super::transaction::{ends_transaction, in_failed_transaction};
use super::{Portal, PortalState, Session};
use crate::cache::{PlanKey, TEXT_BYTES_MAX};
use crate::parse::{Lifted, Parsed, Statement, lift, located, parse_single, split, without_end};
use crate::plan::{Plan, Prepared, Renewed};
use crate::planning::{Asked, Counted};
use crate::sharing::finds_one_row;
use crate::{PgError, Result, Severity};
use bytes::Bytes;
use kernel::row::Value;
use observe::Stat;
use query::types::{PgType, col_type_of_oid};
use query::wire::decode;
use std::sync::Arc;

impl Session {
    /// The statements of one simple query.
    ///
    /// # Errors
    /// 42601.
    pub fn split(&mut self, text: &str) -> Result<Vec<Statement>> {
        let one = text.trim().trim_end_matches(';').trim_end();
        if let Some(usual) = Statement::usual(one) {
            return Ok(vec![usual]);
        }
        if let Some(lifted) = lift(text) {
            let parsed = Parsed::Lifted(Box::new(lifted));
            let text = Arc::from(without_end(text));
            return Ok(vec![Statement { text, parsed, ..Statement::empty() }]);
        }
        // What is known is one statement: nothing but its end can have been cut off here.
        if let Some(key) = self.known_text(one) {
            return Ok(vec![Statement::unparsed(key.text)]);
        }
        if let Some(lifted) = self.shared_text(one) {
            let parsed = Parsed::Lifted(Box::new(lifted));
            return Ok(vec![Statement { text: Arc::from(one), parsed, ..Statement::empty() }]);
        }
        let all = split(text).inspect_err(|_| self.ctx.bump(Stat::ParseCountFailures, 1));
        all.iter().flatten().for_each(|statement| self.tell(statement));
        all.inspect_err(|error| {
            if self.ctx.traced() {
                self.ctx.trace_parse_error(None, one, self.identity.role.0, error.code);
            }
            self.fail_now();
        })
    }

    /// Prepares the one statement in `text`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub async fn prepare(&mut self, text: &str, param_oids: &[u32]) -> Result<Arc<Prepared>> {
        self.count_call();
        if self.ctx.traced() {
            let told = self.begin_parse(text);
            let done = env::boxed!(self.prepare_untraced(text, param_oids)).await;
            self.end_parse(told, &done);
            return done;
        }
        self.prepare_untraced(text, param_oids).await
    }

    async fn prepare_untraced(&mut self, text: &str, param_oids: &[u32]) -> Result<Arc<Prepared>> {
        if !self.identity.is_known() {
            env::boxed!(self.know_identity()).await?;
        }
        // A text that this instance knows needs no parsing.
        if self.txn.as_ref().is_none_or(|txn| !txn.failed) {
            let key = self.plan_key(Arc::from(text), param_oids);
            if let Some(plan) = self.known_plan(&key) {
                return Ok(self.prepared(Statement::unparsed(key.text), param_oids, plan));
            }
            // Who declares parameters means to give values.
            if param_oids.is_empty()
                && let Some(lifted) = lift(text).or_else(|| self.shared_text(text))
            {
                let whole = Arc::from(without_end(text));
                if let Some(prepared) = env::boxed!(self.prepare_lifted(whole, &lifted)).await {
                    return Ok(prepared);
                }
            }
        }
        let statement = match parse_single(text) {
            Ok(statement) => statement,
            Err(error) => {
                self.ctx.bump(Stat::ParseCountFailures, 1);
                self.statement_failed().await;
                return Err(error);
            }
        };
        self.tell(&statement);
        let prepared = self.prepare_with(statement, param_oids).await?;
        if param_oids.is_empty() {
            env::boxed!(self.share(&prepared)).await;
        }
        Ok(prepared)
    }

    /// Tells how the statement was understood.
    fn tell(&mut self, statement: &Statement) {
        for (code, text) in &statement.notices {
            let notice = PgError::notice(Severity::Notice, text.as_str());
            self.notices.push(PgError { code, ..notice });
        }
    }

    /// Prepares a statement of [`Session::split`].
    ///
    /// # Errors
    /// What is wrong with it.
    pub async fn prepare_statement(&mut self, statement: Statement) -> Result<Arc<Prepared>> {
        if self.ctx.traced() {
            let told = self.begin_parse(&statement.text);
            let done = env::boxed!(self.prepare_one(statement)).await;
            self.end_parse(told, &done);
            return done;
        }
        self.prepare_one(statement).await
    }

    async fn prepare_one(&mut self, statement: Statement) -> Result<Arc<Prepared>> {
        if !self.identity.is_known() {
            env::boxed!(self.know_identity()).await?;
        }
        match &statement.parsed {
            Parsed::Lifted(lifted) => {
                let prepared = self.prepare_lifted(statement.text.clone(), lifted).await;
                if let Some(prepared) = prepared {
                    return Ok(prepared);
                }
            }
            Parsed::Unparsed if self.txn.as_ref().is_none_or(|txn| !txn.failed) => {
                let key = self.plan_key(statement.text.clone(), &[]);
                if let Some(plan) = self.known_plan(&key) {
                    return Ok(self.prepared(statement, &[], plan));
                }
            }
            _ => {
                let prepared = self.prepare_with(statement, &[]).await?;
                env::boxed!(self.share(&prepared)).await;
                return Ok(prepared);
            }
        }
        match parse_single(&statement.text) {
            Ok(statement) => self.prepare_with(statement, &[]).await,
            Err(error) => {
                self.ctx.bump(Stat::ParseCountFailures, 1);
                self.statement_failed().await;
                Err(error)
            }
        }
    }

    /// The key of a text that a plan is held for.
    fn known_text(&self, text: &str) -> Option<PlanKey> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let key = self.plan_key(Arc::from(text), &[]);
        self.database.cache.get(&key).map(|_| key)
    }

    /// The plan held for a text, if it is current and that can be told at once: the call has parsed
    /// it.
    fn known_plan(&mut self, key: &PlanKey) -> Option<Arc<Plan>> {
        let plan = self.current_plan(key)?;
        self.count_call_of_parse(&plan, key, false);
        Some(plan)
    }

    /// The same, and nothing of it counts as a parse yet.
    fn current_plan(&mut self, key: &PlanKey) -> Option<Arc<Plan>> {
        let plan = self.database.cache.get(key)?;
        self.begin_if_needed();
        if plan.may_be_hidden() || !self.is_current(&plan) {
            return None;
        }
        self.ctx.observer.statements.count_get(true);
        Some(plan)
    }

    /// A call has parsed a text; `is_made`: there was no plan for it.
    fn count_call_of_parse(&mut self, plan: &Plan, key: &PlanKey, is_made: bool) {
        self.ctx.bump(Stat::ParseCountTotal, 1);
        if is_made {
            self.ctx.bump(Stat::ParseCountHard, 1);
        }
        self.note_parse(plan, &key.text, &key.param_oids, Counted::Always);
    }

    /// Prepares the text whose values have been taken out. `None`: it does not work, or does not
    /// mean the same; the text itself says then what is wrong with it, and is what the call has
    /// parsed.
    async fn prepare_lifted(&mut self, text: Arc<str>, lifted: &Lifted) -> Option<Arc<Prepared>> {
        let key = self.plan_key(Arc::from(&*lifted.text), &[]);
        let (prepared, is_made) = self.plan_lifted(text, lifted, &key).await?;
        self.count_call_of_parse(&prepared.plan, &key, is_made);
        Some(prepared)
    }

    /// The same, which counts as no parse; and whether there was no plan for it. `key`: what that
    /// is found by.
    pub(crate) async fn plan_lifted(
        &mut self,
        text: Arc<str>,
        lifted: &Lifted,
        key: &PlanKey,
    ) -> Option<(Arc<Prepared>, bool)> {
        if self.txn.as_ref().is_some_and(|txn| txn.failed) {
            return None;
        }
        let held = self.current_plan(key);
        let (plan, is_made) = match held {
            Some(plan) => (plan, false),
            None => {
                let statement = parse_single(&lifted.text).ok()?;
                // What is told of a text is told each time.
                if lifted.is_keyed() && !statement.notices.is_empty() {
                    return None;
                }
                self.tell(&statement);
                self.begin_if_needed();
                // It may be held all the same, if a table might hide one of its views.
                let plan = self.plan_or_make(&statement, &[], Counted::Always, Asked::Beside);
                env::boxed!(plan).await.ok()?
            }
        };
        if plan.once || lifted.is_keyed() && !finds_one_row(&plan) {
            return None;
        }
        let env = self.format_env();
        let values = lifted.suits(&plan.params)?.zip(&plan.params);
        let given = values.map(|(value, ty)| decode(value.as_bytes(), *ty, 0, false, &env));
        let given = given.collect::<Result<Vec<Value>>>().ok()?;
        let prepared = Prepared {
            renewed: Renewed::default(),
            param_oids: Vec::new(),
            columns: plan.columns.clone(),
            returns_rows: plan.returns_rows,
            statement: Statement::unparsed(text),
            given: Some(given),
            declared: Vec::new(),
            context: self.plan_context.clone(),
            plan,
        };
        Some((Arc::new(prepared), is_made))
    }

    async fn prepare_with(
        &mut self,
        statement: Statement,
        param_oids: &[u32],
    ) -> Result<Arc<Prepared>> {
        if !self.identity.is_known() {
            env::boxed!(self.know_identity()).await?;
        }
        if let Some(txn) = &self.txn
            && txn.failed
            && !ends_transaction(&statement)
        {
            return Err(in_failed_transaction());
        }
        self.begin_if_needed();
        // Definitions that somebody changes are waited for here.
        self.start_clock();
        match self.plan_for(&statement, param_oids).await {
            Ok(plan) => Ok(self.prepared(statement, param_oids, plan)),
            Err(error) => {
                self.statement_failed().await;
                Err(located(error, &statement))
            }
        }
    }

    /// Binds values to a prepared statement.
    ///
    /// # Errors
    /// 08P01 for the wrong number of parameters; what is wrong with a value.
    pub fn bind(
        &mut self,
        prepared: &Arc<Prepared>,
        params: &[Option<Bytes>],
        param_formats: &[i16],
        result_formats: &[i16],
    ) -> Result<Portal> {
        let bound = self.bind_values(prepared, params, param_formats, result_formats);
        bound.inspect_err(|_| self.fail_now())
    }

    fn bind_values(
        &mut self,
        prepared: &Arc<Prepared>,
        params: &[Option<Bytes>],
        param_formats: &[i16],
        result_formats: &[i16],
    ) -> Result<Portal> {
        let wanted = match prepared.given {
            Some(_) => &[],
            None => &prepared.plan.params[..],
        };
        if params.len() != wanted.len() {
            return Err(PgError::new(
                "08P01",
                format!(
                    "bind message supplies {} parameters, but prepared statement requires {}",
                    params.len(),
                    wanted.len()
                ),
            ));
        }
        let env = self.format_env();
        let mut values = prepared.given.clone().unwrap_or_default();
        values.reserve(params.len() + prepared.plan.hidden.len());
        for (i, (param, ty)) in params.iter().zip(wanted).enumerate() {
            let binary = match param_formats {
                [] => false,
                [one] => *one == 1,
                many => many.get(i) == Some(&1),
            };
            let oid = prepared.param_oids.get(i).copied().unwrap_or(0);
            values.push(match param {
                None => Value::Null,
                // It arrives as the type its OID says and becomes the type the plan has for it.
                Some(bytes) => decode(bytes, *ty, oid, binary, &env)?,
            });
        }
        Ok(Portal {
            prepared: prepared.clone(),
            params: values,
            formats: result_formats.to_vec(),
            state: PortalState::Ready,
            taken: None,
            first_only: false,
            measured: None,
        })
    }

    /// The plan, made anew if a table has changed since, or if it is made for each execution.
    /// Values that were taken out of the text are in it then, not among its parameters.
    pub(crate) async fn valid_plan(&mut self, prepared: &Arc<Prepared>) -> Result<Arc<Plan>> {
        let plan = &prepared.plan;
        if self.serves(prepared) && !self.is_hidden(plan).await? {
            return Ok(plan.clone());
        }
        let renewed = match plan.once {
            true => prepared.renewed.take(),
            false => prepared.renewed.get(),
        };
        if let Some((context, renewed)) = renewed
            && context == self.plan_context
            && self.is_current(&renewed)
            && !self.is_hidden(&renewed).await?
        {
            return Ok(renewed);
        }
        let statement = match &prepared.statement.parsed {
            Parsed::Unparsed => parse_single(&prepared.statement.text)?,
            _ => prepared.statement.clone(),
        };
        let declared = &prepared.declared;
        let fresh = if plan.once {
            env::boxed!(self.plan_for_one(&statement, declared, Counted::Always)).await?
        } else {
            self.ctx.observer.statements.pin_missed();
            let asked = Asked::Execution;
            env::boxed!(self.plan_counted(&statement, declared, Counted::Always, asked)).await?
        };
        let shape = |plan: &Plan| -> Vec<u32> { plan.columns.iter().map(|c| c.oid).collect() };
        let same = |(a, b): (&kernel::row::ColType, &kernel::row::ColType)| a.is_same(*b);
        let params = prepared.given.is_some()
            || fresh.params.len() == plan.params.len()
                && fresh.params.iter().zip(&plan.params).all(same);
        if shape(&fresh) != shape(plan) || !params {
            return Err(PgError::new("0A000", "cached plan must not change result type"));
        }
        if !fresh.once {
            prepared.renewed.set(self.plan_context.clone(), fresh.clone());
        }
        Ok(fresh)
    }

    pub(super) fn prepared(
        &self,
        statement: Statement,
        declared: &[u32],
        plan: Arc<Plan>,
    ) -> Arc<Prepared> {
        let param_oids = plan
            .params
            .iter()
            .enumerate()
            .map(|(i, ty)| match declared.get(i) {
                Some(oid) if *oid != 0 && col_type_of_oid(*oid).is_some() => *oid,
                _ => PgType::of(*ty).oid,
            })
            .collect();
        Arc::new(Prepared {
            renewed: Renewed::default(),
            param_oids,
            columns: plan.columns.clone(),
            returns_rows: plan.returns_rows,
            statement,
            given: None,
            declared: declared.to_vec(),
            context: self.plan_context.clone(),
            plan,
        })
    }
}
