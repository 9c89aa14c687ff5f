//! `pg_cancel_backend`, `pg_terminate_backend` and cancel requests: sessions that others stop, on
//! any instance.
//!
//! What it promises: who may do it is who may in PostgreSQL; a session that has ended meanwhile is
//! not mistaken for another with its number. What it must never do: touch a process of an instance
//! itself, or wait for an instance that is gone.

use super::Session;
use crate::parse::Victim;
use crate::{PgError, Result, Severity};
use block::InstanceNo;
use kernel::gcs::CallKind;
use kernel::instance::Instance;
use kernel::row::Value;
use observe::{Ctx, SessionKind, WaitEvent, instance_of_sid};
use std::time::Duration;

/// How often it is looked whether a session has ended.
const LOOK_US: u64 = 20_000;

/// A session, as it is told from those that had its number before.
#[derive(Clone, Copy)]
struct Target {
    sid: u32,
    serial: u32,
}

/// What is asked of the instance whose session it is.
#[derive(Clone, Copy)]
enum Question {
    /// Serial number and user's name.
    Who(u32),
    Cancel(Target),
    Terminate(Target),
    Lives(Target),
    /// Cancels by the secret that only the session's client knows.
    Request {
        sid: u32,
        secret: i32,
    },
}

impl Question {
    const fn sid(self) -> u32 {
        match self {
            Question::Who(sid) | Question::Request { sid, .. } => sid,
            Question::Cancel(of) | Question::Terminate(of) | Question::Lives(of) => of.sid,
        }
    }

    fn encode(self) -> Vec<u8> {
        let (tag, number) = match self {
            Question::Who(_) => (0, [0; 4]),
            Question::Cancel(of) => (1, of.serial.to_le_bytes()),
            Question::Terminate(of) => (2, of.serial.to_le_bytes()),
            Question::Lives(of) => (3, of.serial.to_le_bytes()),
            Question::Request { secret, .. } => (4, secret.to_le_bytes()),
        };
        [&[tag], &self.sid().to_le_bytes()[..], &number].concat()
    }

    /// `None` if [`Question::encode`] has not made these bytes.
    fn decode(bytes: &[u8]) -> Option<Question> {
        let (tag, rest) = bytes.split_first()?;
        let (sid, rest) = rest.split_first_chunk::<4>()?;
        let number: [u8; 4] = rest.try_into().ok()?;
        let sid = u32::from_le_bytes(*sid);
        let of = Target { sid, serial: u32::from_le_bytes(number) };
        Some(match tag {
            0 => Question::Who(sid),
            1 => Question::Cancel(of),
            2 => Question::Terminate(of),
            3 => Question::Lives(of),
            4 => Question::Request { sid, secret: i32::from_le_bytes(number) },
            _ => return None,
        })
    }

    /// `None`: the instance has no such session.
    fn answer(self, instance: &Instance) -> Option<Vec<u8>> {
        let found = instance.observer.session(self.sid());
        let found = found.filter(|found| found.kind() == SessionKind::User)?;
        match self {
            Question::Who(_) => {
                let serial = found.serial().to_le_bytes();
                return Some([&serial, found.username().as_bytes()].concat());
            }
            Question::Request { secret, .. } => {
                if found.cancel_secret() != Some(secret) {
                    return None;
                }
                found.cancel_flag().cancel();
            }
            Question::Cancel(of) | Question::Terminate(of) | Question::Lives(of)
                if of.serial != found.serial() =>
            {
                return None;
            }
            Question::Cancel(_) => found.cancel_flag().cancel(),
            Question::Terminate(_) => found.cancel_flag().terminate(),
            Question::Lives(_) => {}
        }
        Some(Vec::new())
    }

    /// Asks the instance whose session it is.
    async fn ask(self, instance: &Instance, ctx: &Ctx) -> Result<Option<Vec<u8>>> {
        let Some(of) = instance_of_sid(self.sid()).map(InstanceNo) else { return Ok(None) };
        let node = &instance.node;
        if of == node.me {
            return Ok(self.answer(instance));
        }
        if !node.view().members.contains(&of) {
            return Ok(None);
        }
        let (p, body) = ([0, 0, u64::from(CallKind::Signal.code())], self.encode());
        let call = node.call_peer(of, CallKind::Signal, &body);
        ctx.wait_or_cancel(WaitEvent::ReliableMessage, p, call).await.map_err(Into::into)
    }
}

/// What another instance has asked.
pub(crate) fn receive(instance: &Instance, body: &[u8]) -> Option<Vec<u8>> {
    Question::decode(body)?.answer(instance)
}

/// Passes on a cancel request that has come for a session of another instance, as one does through
/// an address that leads to any of them. Nothing is told of what comes of it.
pub async fn pass_cancel_on(instance: &Instance, ctx: &Ctx, pid: i32, secret: i32) {
    let Ok(sid) = u32::try_from(pid) else { return };
    // As with a request for a session of this instance, nobody is to learn whether it was one.
    let _ = Question::Request { sid, secret }.ask(instance, ctx).await;
}

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
        let sid = u32::try_from(pid).ok();
        let found = match sid {
            Some(sid) => Question::Who(sid).ask(&self.instance, &self.ctx).await?,
            None => None,
        };
        let who = found.as_deref().and_then(|found| found.split_first_chunk::<4>());
        let (Some(sid), Some((serial, user))) = (sid, who) else {
            return Ok(self.no_session(pid));
        };
        let target = Target { sid, serial: u32::from_le_bytes(*serial) };
        self.check_signal(&String::from_utf8_lossy(user), ends).await?;
        let signal = if ends { Question::Terminate(target) } else { Question::Cancel(target) };
        let sent = signal.ask(&self.instance, &self.ctx).await?;
        self.ctx.check_interrupt()?;
        if sent.is_none() {
            return Ok(self.no_session(pid));
        }
        if !ends || limit_ms == 0 || self.ended_within(target, limit_ms.unsigned_abs()).await? {
            return Ok(Value::Bool(true));
        }
        let unit = if limit_ms == 1 { "millisecond" } else { "milliseconds" };
        let text = format!("backend with PID {pid} did not terminate within {limit_ms} {unit}");
        self.notice(Severity::Warning, text);
        Ok(Value::Bool(false))
    }

    /// `ALTER SYSTEM KILL SESSION`.
    pub(crate) async fn kill(&mut self, victim: Victim) -> Result<()> {
        let Victim { sid, serial, instance } = victim;
        let target = Target { sid, serial };
        let missing = || {
            PgError::new("42704", format!("session {sid},{serial} does not exist"))
                .with_hint("v$session and gv$session show sid and serial of those that do.")
        };
        if sid == self.ctx.session.sid() {
            return Err(PgError::new("55000", "cannot kill the current session"));
        }
        if instance.is_some_and(|instance| instance_of_sid(sid) != Some(instance)) {
            return Err(missing());
        }
        let found = Question::Who(sid).ask(&self.instance, &self.ctx).await?;
        let who = found.as_deref().and_then(|found| found.split_first_chunk::<4>());
        let Some((found, user)) = who else { return Err(missing()) };
        if u32::from_le_bytes(*found) != serial {
            return Err(missing());
        }
        self.check_signal(&String::from_utf8_lossy(user), true).await?;
        let sent = Question::Terminate(target).ask(&self.instance, &self.ctx).await?;
        sent.map(drop).ok_or_else(missing)
    }

    fn no_session(&mut self, pid: i64) -> Value {
        let text = format!("PID {pid} is not a PostgreSQL backend process");
        self.notice(Severity::Warning, text);
        Value::Bool(false)
    }

    async fn ended_within(&mut self, of: Target, limit_ms: u64) -> Result<bool> {
        let deadline = self.ctx.env.now().0.saturating_add(limit_ms.saturating_mul(1_000));
        loop {
            if Question::Lives(of).ask(&self.instance, &self.ctx).await?.is_none() {
                return Ok(true);
            }
            let left = deadline.saturating_sub(self.ctx.env.now().0);
            if left == 0 {
                return Ok(false);
            }
            let sleep = self.ctx.env.sleep(Duration::from_micros(left.min(LOOK_US)));
            let what = [u64::from(of.sid), limit_ms, 0];
            self.ctx.wait_or_cancel(WaitEvent::SessionEnd, what, sleep).await?;
        }
    }

    async fn check_signal(&mut self, user: &str, ends: bool) -> Result<()> {
        let roles = self.roles().await?;
        let role = self.identity.role;
        if roles.is_superuser(role) {
            return Ok(());
        }
        let user = roles.find(user).map(|user| user.obj);
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

#[cfg(test)]
mod tests {
    use super::{Question, Target};

    #[test]
    fn questions_travel_whole() {
        let of = Target { sid: 100_007, serial: 9 };
        let all = [
            Question::Who(of.sid),
            Question::Cancel(of),
            Question::Terminate(of),
            Question::Lives(of),
            Question::Request { sid: of.sid, secret: -5 },
        ];
        for one in all {
            let bytes = one.encode();
            let read = Question::decode(&bytes).expect("whole");
            assert_eq!((read.encode(), read.sid()), (bytes.clone(), 100_007));
            assert!(Question::decode(&bytes[1..]).is_none());
        }
        assert!(Question::decode(&[9; 9]).is_none());
    }
}
