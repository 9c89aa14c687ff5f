//! `pg_cancel_backend` and `pg_terminate_backend`: sessions of this instance that others stop.
//!
//! What it promises: who may do it is who may in PostgreSQL. What it must never do: touch a process
//! of the instance itself.

use super::Session;
use crate::{PgError, Result, Severity};
use kernel::row::Value;
use observe::{SessionKind, SessionState};
use std::sync::Arc;
use std::time::Duration;

/// How often it is looked whether a session has ended.
const LOOK_US: u64 = 20_000;

fn number(value: Option<&Value>) -> Option<i64> {
    match value {
        Some(Value::Int2(n)) => Some(i64::from(*n)),
        Some(Value::Int4(n)) => Some(i64::from(*n)),
        Some(Value::Int8(n)) => Some(*n),
        _ => None,
    }
}

impl Session {
    /// Stops what the session of a number does, or ends it; whether there is such a session.
    pub(super) async fn signal(&mut self, ends: bool, args: &[Value]) -> Result<Value> {
        let name = if ends { "pg_terminate_backend" } else { "pg_cancel_backend" };
        if args.is_empty() || args.len() > 1 + usize::from(ends) {
            let text = format!("function {name} does not exist with these arguments");
            return Err(PgError::new("42883", text));
        }
        let Some(pid) = number(args.first()) else { return Ok(Value::Null) };
        let limit_ms = match args.get(1) {
            None => 0,
            Some(value) => match number(Some(value)) {
                None => return Ok(Value::Null),
                Some(limit) => limit,
            },
        };
        if limit_ms < 0 {
            return Err(PgError::new("22003", "\"timeout\" must not be negative"));
        }
        let found = u32::try_from(pid).ok().and_then(|sid| self.ctx.observer.session(sid));
        let Some(found) = found.filter(|found| found.kind() == SessionKind::User) else {
            let text = format!("PID {pid} is not a PostgreSQL backend process");
            self.notice(Severity::Warning, text);
            return Ok(Value::Bool(false));
        };
        self.check_signal(&found, ends).await?;
        if !ends {
            found.cancel_flag().cancel();
            self.ctx.check_interrupt()?;
            return Ok(Value::Bool(true));
        }
        found.cancel_flag().terminate();
        self.ctx.check_interrupt()?;
        if limit_ms == 0 || self.ended_within(&found, limit_ms.unsigned_abs()).await? {
            return Ok(Value::Bool(true));
        }
        let unit = if limit_ms == 1 { "millisecond" } else { "milliseconds" };
        let text = format!("backend with PID {pid} did not terminate within {limit_ms} {unit}");
        self.notice(Severity::Warning, text);
        Ok(Value::Bool(false))
    }

    async fn ended_within(&mut self, of: &Arc<SessionState>, limit_ms: u64) -> Result<bool> {
        let deadline = self.ctx.env.now().0.saturating_add(limit_ms.saturating_mul(1_000));
        loop {
            let now = self.ctx.observer.session(of.sid());
            if now.is_none_or(|now| now.serial() != of.serial()) {
                return Ok(true);
            }
            let left = deadline.saturating_sub(self.ctx.env.now().0);
            if left == 0 {
                return Ok(false);
            }
            let sleep = self.ctx.env.sleep(Duration::from_micros(left.min(LOOK_US)));
            let what = [u64::from(of.sid()), limit_ms, 0];
            self.ctx.wait_or_cancel(observe::WaitEvent::SessionEnd, what, sleep).await?;
        }
    }

    async fn check_signal(&mut self, of: &SessionState, ends: bool) -> Result<()> {
        let roles = self.roles().await?;
        let role = self.identity.role;
        if roles.is_superuser(role) {
            return Ok(());
        }
        let user = roles.find(&of.username()).map(|user| user.obj);
        let (verb, what) = match ends {
            false => ("cancel", "query"),
            true => ("terminate", "process"),
        };
        if user.is_some_and(|user| roles.is_superuser(user)) {
            let text = format!("must be a superuser to {verb} superuser {what}");
            return Err(PgError::new("42501", text));
        }
        let above = roles.above(role, true);
        if above.contains(&kernel::dict::SIGNAL_ROLE)
            || user.is_some_and(|user| above.contains(&user))
        {
            return Ok(());
        }
        let being = if ends { "terminated" } else { "canceled" };
        let text = format!(
            "must be a member of the role whose {what} is being {being} or member of \
             pg_signal_backend"
        );
        Err(PgError::new("42501", text))
    }
}
