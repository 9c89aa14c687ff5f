//! Log-on: whether a role may, what its session begins with, and what the audit trail is told.
//!
//! What it promises: a session is counted among its role's from log-on until it is dropped. What it
//! must never do: prove who somebody is; whoever calls has done so.

use crate::access::{Access, no_role};
use crate::audit::{Event, note};
use crate::database::Database;
use crate::hba::{Knock, Method, method_of};
use crate::parse::Own;
use crate::session::{Fetched, Session};
use crate::{DATABASE, PgError, Result, Severity};
use block::ObjId;
use datafusion::sql::sqlparser::ast::Statement as Ast;
use kernel::dict::{self, AclKind, Privileges};
use kernel::instance::Instance;
use kernel::txn::Isolation;
use observe::{AlertLevel, Ctx, without_passwords};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Sessions of an instance by role.
#[derive(Default)]
pub(crate) struct Seats(Mutex<BTreeMap<ObjId, usize>>);

/// One session's place; dropping it frees the place.
pub(crate) struct Seat {
    seats: Arc<Seats>,
    role: ObjId,
}

impl Seats {
    /// Takes a place if fewer than `limit` are taken.
    fn take(self: &Arc<Seats>, role: ObjId, limit: Option<usize>) -> Option<Seat> {
        let mut taken = self.0.lock();
        let count = taken.entry(role).or_default();
        if limit.is_some_and(|limit| *count >= limit) {
            return None;
        }
        *count += 1;
        Some(Seat { seats: Arc::clone(self), role })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.0.lock();
        if let Some(count) = taken.get_mut(&self.role) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.role);
            }
        }
    }
}

/// Takes the rules for who may log on from this file.
///
/// # Errors
/// What is wrong with it.
pub fn follow_hba(instance: &Arc<Instance>, path: &Path) -> std::result::Result<(), String> {
    let database = Database::of(instance).map_err(|e| e.message)?;
    database.hba.follow(path)
}

/// Begins the audit trail in this file.
///
/// # Errors
/// It cannot be opened.
pub fn begin_audit(instance: &Arc<Instance>, path: &Path) -> std::result::Result<(), String> {
    let database = Database::of(instance).map_err(|e| e.message)?;
    let shown = path.display();
    database.trail.begin(path).map_err(|e| format!("open the audit trail {shown}: {e}"))
}

/// How a client has to prove who it is.
///
/// # Errors
/// 28000 if no rule lets it in.
pub async fn method_for(instance: &Arc<Instance>, ctx: &Ctx, knock: Knock<'_>) -> Result<Method> {
    let database = Database::of(instance)?;
    let (rules, problem) = database.hba.rules();
    if let Some(problem) = problem {
        ctx.alert(AlertLevel::Error, problem);
    }
    let txn = instance.begin(ctx, Isolation::ReadCommitted);
    let roles = dict::roles(ctx, &txn).await;
    txn.rollback(ctx).await?;
    let method = method_of(&rules, &knock, &*roles?);
    let from = knock.peer.map_or_else(|| "[local]".to_owned(), |peer| peer.to_string());
    let encryption = if knock.encrypted { "SSL encryption" } else { "no encryption" };
    let who = format!(
        "host \"{from}\", user \"{}\", database \"{}\", {encryption}",
        knock.user, knock.database
    );
    match method {
        None => Err(PgError::new("28000", format!("no pg_hba.conf entry for {who}"))),
        Some(Method::Reject) => {
            Err(PgError::new("28000", format!("pg_hba.conf rejects connection for {who}")))
        }
        Some(method) => Ok(method),
    }
}

/// Whether a command is one that the audit trail keeps.
pub(crate) fn is_audited(ast: &Ast) -> bool {
    matches!(
        ast,
        Ast::CreateTable(_)
            | Ast::CreateView(_)
            | Ast::CreateSchema { .. }
            | Ast::CreateIndex(_)
            | Ast::CreateType { .. }
            | Ast::AlterType(_)
            | Ast::AlterTable(_)
            | Ast::Drop { .. }
            | Ast::Query(_)
            | Ast::Comment { .. }
            | Ast::Truncate(_)
    )
}

/// The same for those that the library does not parse.
pub(crate) fn is_audited_own(own: &Own) -> bool {
    match own {
        Own::Access(access) => !matches!(**access, Access::SetRole { name: None, .. }),
        Own::CreateSequence(_)
        | Own::CreateRoutine(_)
        | Own::Routine(_)
        | Own::AlterRelation(_)
        | Own::AlterSystem(_)
        | Own::Refresh(_) => true,
        _ => false,
    }
}

impl Session {
    /// A client that has proved who it is begins its session. `peer`: where it is.
    ///
    /// # Errors
    /// 28000, 42501, 53300: its role may not.
    pub async fn log_on(&mut self, peer: &str) -> Result<()> {
        self.know_identity().await?;
        let begun = self.take_seat().await;
        self.rollback_quietly().await?;
        begun?;
        crate::workload::read_newest_rules(&self.instance).await;
        peer.clone_into(&mut self.peer);
        self.note_event("LOGON", "00000", "");
        Ok(())
    }

    async fn take_seat(&mut self) -> Result<()> {
        let roles = self.roles().await?;
        let user = roles.of(self.identity.login).cloned();
        let user = user.ok_or_else(|| no_role(&self.session_user))?;
        let name = &user.name;
        if !user.login {
            return Err(PgError::new(
                "28000",
                format!("role \"{name}\" is not permitted to log in"),
            ));
        }
        let owner = (AclKind::Database, roles.owner);
        let held = crate::access::held(&roles, user.obj, owner, roles.acl.as_ref());
        if !held.has(Privileges::CONNECT) {
            let text = format!("permission denied for database \"{DATABASE}\"");
            let detail = "User does not have CONNECT privilege.";
            return Err(PgError::new("42501", text).with_detail(detail));
        }
        let limit = usize::try_from(user.connections).ok().filter(|_| !user.superuser);
        let seat = self.database.seats.take(user.obj, limit);
        let full = || PgError::new("53300", format!("too many connections for role \"{name}\""));
        self.seat = Some(seat.ok_or_else(full)?);
        for (setting, value) in &user.config {
            if let Err(error) = self.settings.begin_with(setting, value) {
                self.notice(Severity::Warning, error.message);
            }
        }
        let params = Arc::clone(&self.instance.params);
        for (setting, ms) in [
            ("statement_timeout", params.statement_timeout()),
            ("lock_timeout", params.lock_timeout()),
            ("idle_in_transaction_session_timeout", params.idle_in_transaction_session_timeout()),
            ("idle_session_timeout", params.idle_session_timeout()),
        ] {
            if ms > 0 {
                self.settings.begin_with(setting, &ms.to_string())?;
            }
        }
        let workers = params.max_parallel_workers_per_gather().to_string();
        self.settings.begin_with("max_parallel_workers_per_gather", &workers)?;
        self.settings.begin_with("statistics_level", params.statistics_level())?;
        self.note_context();
        Ok(())
    }

    /// How long the client may think now, in µs, and the error that ends the session then.
    #[must_use]
    pub fn idle_limit(&self) -> Option<(u64, PgError)> {
        let (limit, code, what) = match self.transaction_status() {
            b'I' => (self.settings.idle_session_us, "57P05", "idle-session"),
            _ => (self.settings.idle_in_transaction_us, "25P03", "idle-in-transaction"),
        };
        if limit == 0 {
            return None;
        }
        let text = format!("terminating connection due to {what} timeout");
        Some((limit, PgError { severity: Severity::Fatal, ..PgError::new(code, text) }))
    }

    fn note_event(&self, action: &str, outcome: &str, text: &str) {
        let event = Event {
            sid: self.pid(),
            user: &self.session_user,
            role: &self.user,
            peer: &self.peer,
            action,
            outcome,
            text,
        };
        note(&self.instance, &event);
    }

    pub(crate) fn note_log_off(&self) {
        if self.seat.is_some() {
            self.note_event("LOGOFF", "00000", "");
        }
    }

    /// Tells the audit trail of a statement that has changed definitions or rights, or would have.
    pub(crate) fn audit(&self, text: &str, done: &Result<Fetched>) {
        if self.seat.is_none() {
            return;
        }
        let words: Vec<String> = text.split_whitespace().take(2).map(str::to_uppercase).collect();
        let (action, outcome) = match done {
            Ok(Fetched::Complete(tag)) => (tag.clone(), "00000"),
            Ok(_) => (words.join(" "), "00000"),
            Err(error) => (words.join(" "), error.code),
        };
        self.note_event(&action, outcome, &without_passwords(text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_and_given_back() {
        let seats: Arc<Seats> = Arc::default();
        let role = ObjId(16_400);
        let one = seats.take(role, Some(1));
        assert!(one.is_some() && seats.take(role, Some(1)).is_none());
        assert!(seats.take(ObjId(16_401), Some(1)).is_some(), "another role's");
        drop(one);
        assert!(seats.take(role, Some(1)).is_some());
        assert!(seats.take(role, Some(0)).is_none());
    }
}
