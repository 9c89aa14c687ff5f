//! Functions whose value depends on the session or that change it, and the calls of them that a
//! plan has hidden among its parameters.
//!
//! What it promises: `now()` and its like say one time for the whole transaction. What it must
//! never do: sleep or wait so that the client cannot cancel it.

use super::Session;
use crate::bind::{HiddenCall, SessionFn, session_function};
use crate::routines::RoutineRef;
use crate::{PgError, Result};
use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result as DfResult;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use futures::future::{Either, select};
use kernel::row::{ColType, TypeKind, Value};
use kernel::txn::TxStatus;
use query::datetime::EPOCH_US;
use query::row_calls::RowCall;
use query::wire::FormatEnv;
use std::pin::pin;

impl Session {
    /// Calls a function of the session.
    pub(crate) async fn session_call(
        &mut self,
        call: &HiddenCall,
        params: &[Value],
    ) -> Result<Value> {
        let env = self.format_env();
        let cx = query::scalar::EvalContext { row: None, params, env: &env };
        let args: Result<Vec<Value>> =
            call.args.iter().map(|arg| arg.eval(&cx).map(query::scalar::Val::into_value)).collect();
        self.call_function(call.function, &args?, &env).await
    }

    /// The next rows of a query. Their calls are answered meanwhile.
    pub(crate) async fn next_batch(
        &mut self,
        stream: &mut SendableRecordBatchStream,
    ) -> Option<DfResult<RecordBatch>> {
        loop {
            let call = {
                let called = pin!(self.called.recv());
                match select(stream.next(), called).await {
                    Either::Left((batch, _)) => return batch,
                    Either::Right((call, _)) => call?,
                }
            };
            // One of a statement that has been cancelled must do nothing any more.
            if call.is_wanted() {
                let value = env::boxed!(self.row_call(&call)).await;
                call.answer(value);
            }
        }
    }

    async fn row_call(&mut self, call: &RowCall) -> Result<Value> {
        if let Some(obj) = query::row_calls::routine_of(&call.function) {
            self.ctx.check_interrupt()?;
            let routines = self.routines().await?;
            let def = routines.by_obj(block::ObjId(obj));
            let def = def.ok_or_else(|| PgError::from(kernel::Error::ObjectGone))?;
            let called = RoutineRef::of(def)?;
            return env::boxed!(self.value_of_routine(called, &call.args)).await;
        }
        let function = session_function(&call.function)
            .ok_or_else(|| PgError::internal(format!("rows call {}", call.function)))?;
        // These are strict in PostgreSQL, which is to say that they do nothing then.
        if function != SessionFn::Notify && call.args.contains(&Value::Null) {
            return Ok(Value::Null);
        }
        self.ctx.check_interrupt()?;
        let env = self.format_env();
        self.call_function(function, &call.args, &env).await
    }

    /// Calls of a default, for one row.
    pub(crate) async fn call_all(&mut self, calls: &[HiddenCall]) -> Result<Vec<Value>> {
        let mut out = Vec::with_capacity(calls.len());
        for call in calls {
            out.push(self.session_call(call, &[]).await?);
        }
        Ok(out)
    }

    /// The value of a function that takes no arguments and waits for nothing; `None`: another one.
    pub(crate) fn value_at_once(
        &self,
        function: SessionFn,
        env: &FormatEnv,
    ) -> Result<Option<Value>> {
        let text = |text: &str| Value::Text(text.into());
        Ok(Some(match function {
            SessionFn::Beside(_) => Value::Null,
            SessionFn::Now => Value::Timestamptz(env.now_us),
            SessionFn::SystemTime => Value::Timestamptz(self.ctx.env.wall_us() - EPOCH_US),
            SessionFn::SystemDate => {
                let now = self.ctx.env.wall_us() - EPOCH_US;
                let local = env.zone.local(now.div_euclid(1_000_000) * 1_000_000);
                Value::Timestamp(local)
            }
            SessionFn::UserId => Value::Int8(i64::from(self.identity.role.0)),
            SessionFn::ClockTimestamp => Value::Timestamptz(self.ctx.env.wall_us() - EPOCH_US),
            SessionFn::StartTime => {
                Value::Timestamptz(self.ctx.observer.started_wall_us() - EPOCH_US)
            }
            SessionFn::LocalTimestamp | SessionFn::CurrentDate => {
                let kind = function.result();
                let now = kernel::row::Datum::Timestamptz(env.now_us);
                query::cast::cast(&now, kind, query::cast::CastMode::Explicit, env)?
            }
            SessionFn::CurrentUser => text(&self.user),
            SessionFn::SessionUser => text(&self.session_user),
            SessionFn::BackendPid => Value::Int4(self.pid()),
            SessionFn::RandomUuid => {
                let (high, low) = (self.ctx.env.random(), self.ctx.env.random());
                Value::Uuid(query::functions::random_uuid(high, low))
            }
            // As many bits as the fraction of a double has.
            #[allow(clippy::cast_precision_loss)]
            SessionFn::Random => {
                Value::Float8((self.ctx.env.random() >> 11) as f64 / (1u64 << 53) as f64)
            }
            _ => return Ok(None),
        }))
    }

    async fn call_function(
        &mut self,
        function: SessionFn,
        args: &[Value],
        env: &FormatEnv,
    ) -> Result<Value> {
        if let Some(value) = self.value_at_once(function, env)? {
            return Ok(value);
        }
        let text = |text: &str| Value::Text(text.into());
        Ok(match function {
            SessionFn::Routine(called) => env::boxed!(self.value_of_routine(called, args)).await?,
            SessionFn::Context | SessionFn::UserEnv => self.told(function, args).await?,
            SessionFn::PastScn => env::boxed!(self.past_scn(args)).await?,
            SessionFn::TimestampToScn | SessionFn::ScnToTimestamp => {
                self.scn_and_time(function, args, env)?
            }
            SessionFn::CurrentSchema => match self
                .schemas_for(None)
                .await?
                .iter()
                .find(|schema| !crate::ddl::is_temporary(schema))
            {
                Some(schema) => text(schema),
                None => Value::Null,
            },
            SessionFn::CurrentSchemas => {
                let mut path = self.schemas_for(None).await?;
                // What is always looked through first is told if it is asked for.
                let all = args.first() == Some(&Value::Bool(true));
                path.retain(|schema| all || !crate::ddl::is_temporary(schema));
                if all && !path.iter().any(|schema| schema == "pg_catalog") {
                    let temporary = path.first().is_some_and(|s| crate::ddl::is_temporary(s));
                    path.insert(usize::from(temporary), "pg_catalog".to_owned());
                }
                let path: Vec<Value> = path.iter().map(|schema| text(schema)).collect();
                query::array::array_value(ColType::new(TypeKind::Text), &path)
            }
            SessionFn::ListeningChannels => {
                let channels = self.listening.channels();
                let channels: Vec<Value> = channels.map(&text).collect();
                query::array::array_value(ColType::new(TypeKind::Text), &channels)
            }
            SessionFn::Xplan(shown) => env::boxed!(self.xplan(shown, args)).await?,
            SessionFn::Notify => {
                let said = |at: usize| match args.get(at) {
                    Some(Value::Text(said)) => said.as_ref(),
                    _ => "",
                };
                self.notify(said(0), said(1))?;
                text("")
            }
            SessionFn::TransactionId => {
                let txn = self.transaction()?;
                Value::Int8(txn.xid().map_or(0, |xid| xid.to_u64().cast_signed()))
            }
            SessionFn::TransactionOutcome => env::boxed!(self.transaction_outcome(args)).await?,
            SessionFn::Setting => self.current_setting(args)?,
            SessionFn::SetConfig => {
                let [Value::Text(name), value, local] = args else {
                    return Err(PgError::new(
                        "22004",
                        "set_config needs a name, a value and a flag",
                    ));
                };
                let value = match value {
                    Value::Text(value) => Some(&**value),
                    _ => None,
                };
                self.settings.set(name, value, *local == Value::Bool(true))?;
                self.note_context();
                text(value.unwrap_or(""))
            }
            SessionFn::Sleep => {
                let seconds = match args.first() {
                    None | Some(Value::Null) => 0.0,
                    Some(given) => {
                        let (double, env) = (ColType::new(TypeKind::Float8), self.format_env());
                        let mode = query::cast::CastMode::Explicit;
                        let given = query::cast::cast(&given.as_datum(), double, mode, &env)?;
                        query::cast::to_f64(&given.as_datum())?
                    }
                };
                if seconds > 0.0 {
                    let duration = std::time::Duration::from_secs_f64(seconds.min(1e9));
                    let us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
                    let sleep = self.ctx.env.sleep(duration);
                    self.ctx.wait_or_cancel(observe::WaitEvent::PgSleep, [us, 0, 0], sleep).await?;
                }
                text("")
            }
            SessionFn::SignalBackend { ends } => env::boxed!(self.signal(ends, args)).await?,
            SessionFn::CreateSnapshot => Value::Int8(self.create_snapshot().await?),
            SessionFn::Advisory(call) => env::boxed!(self.advisory(call, args)).await?,
            SessionFn::NextVal | SessionFn::CurrVal | SessionFn::LastVal | SessionFn::SetVal => {
                self.sequence_call(function, args).await?
            }
            SessionFn::Beside(_)
            | SessionFn::SystemTime
            | SessionFn::SystemDate
            | SessionFn::UserId
            | SessionFn::Now
            | SessionFn::ClockTimestamp
            | SessionFn::StartTime
            | SessionFn::LocalTimestamp
            | SessionFn::CurrentDate
            | SessionFn::CurrentUser
            | SessionFn::SessionUser
            | SessionFn::BackendPid
            | SessionFn::RandomUuid
            | SessionFn::Random => Value::Null,
        })
    }

    /// In PostgreSQL's words; NULL for one that ended too long ago to be known.
    async fn transaction_outcome(&mut self, args: &[Value]) -> Result<Value> {
        let id = match args {
            [Value::Null] => return Ok(Value::Null),
            [Value::Int8(id)] => *id,
            [Value::Int4(id)] => i64::from(*id),
            _ => {
                let why = "skein_transaction_outcome needs one transaction id";
                return Err(PgError::new("42883", why));
            }
        };
        let core = self.transaction()?.core().clone();
        let xid = block::Xid::from_u64(id.cast_unsigned());
        let word = match core.outcome(&self.ctx, xid).await? {
            Some(TxStatus::Active | TxStatus::Committing(_)) => "in progress",
            Some(TxStatus::Committed(_)) => "committed",
            Some(TxStatus::Gone) => "aborted",
            Some(TxStatus::CommittedBy(_)) => return Ok(Value::Null),
            None => {
                let why = format!("{id} is not the id of a transaction");
                return Err(PgError::new("22023", why));
            }
        };
        Ok(Value::Text(word.into()))
    }

    fn current_setting(&self, args: &[Value]) -> Result<Value> {
        let Some(Value::Text(name)) = args.first() else { return Ok(Value::Null) };
        match self.show_setting(name) {
            Some(value) => Ok(Value::Text(value.into())),
            None if args.get(1) == Some(&Value::Bool(true)) => Ok(Value::Null),
            None => Err(PgError::new(
                "42704",
                format!("unrecognized configuration parameter \"{name}\""),
            )),
        }
    }
}
