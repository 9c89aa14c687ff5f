//! Advisory locks: `pg_advisory_lock` and its kin, the same on all instances.
//!
//! What it promises: a session's locks go with it, a transaction's with the transaction; a wait for
//! one is part of the search for deadlocks. What it must never do: make a session wait for itself.

use crate::bind::Advisory;
use crate::session::Session;
use crate::{PgError, Result, Severity};
use kernel::row::{ColType, TypeKind, Value};
use kernel::table::LockWait;
use kernel::txn::{Core, Holder, Resource, TmMode, user_resource};
use query::cast::{CastMode, cast};
use query::wire::FormatEnv;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How often a session holds a lock in each mode.
#[derive(Clone, Copy, Default)]
struct Count {
    exclusive: u32,
    shared: u32,
}

impl Count {
    fn of(&mut self, shared: bool) -> &mut u32 {
        if shared { &mut self.shared } else { &mut self.exclusive }
    }

    fn is_held(self, shared: bool) -> bool {
        (if shared { self.shared } else { self.exclusive }) > 0
    }

    fn mode(self) -> Option<TmMode> {
        match (self.exclusive, self.shared) {
            (0, 0) => None,
            (0, _) => Some(TmMode::S),
            _ => Some(TmMode::X),
        }
    }
}

/// The locks a session holds beyond its transactions; released when it is dropped.
pub(crate) struct UserLocks {
    core: Arc<Core>,
    /// The number they are held under, from the first one on.
    number: Option<u64>,
    counts: BTreeMap<Resource, Count>,
}

impl UserLocks {
    pub(crate) fn new(core: Arc<Core>) -> UserLocks {
        UserLocks { core, number: None, counts: BTreeMap::new() }
    }

    /// The session works in this transaction now, or in none.
    pub(crate) fn set_transaction(&self, transaction: Option<u64>) {
        if let Some(number) = self.number {
            self.core.waits.set_session(number, transaction);
        }
    }

    pub(crate) fn release_all(&mut self) {
        self.counts.clear();
        if let Some(number) = self.number {
            self.core.table_locks.release_holder(number);
        }
    }

    /// The number that locks are held under while the session works in `transaction`.
    pub(crate) fn number_in(&mut self, transaction: u64) -> u64 {
        let number = *self.number.get_or_insert_with(|| self.core.session_number());
        self.core.waits.set_session(number, Some(transaction));
        number
    }

    /// The number that the locks are held under, if there were any.
    pub(crate) fn number(&self) -> Option<u64> {
        self.number
    }
}

impl Drop for UserLocks {
    fn drop(&mut self) {
        self.release_all();
        self.set_transaction(None);
    }
}

/// One of a key's halves as the name of the lock has it.
fn half(value: i64) -> u32 {
    u32::try_from(value & 0xffff_ffff).unwrap_or(0)
}

/// The lock that one number, or two, name; `None` if one is NULL.
fn resource_of(args: &[Value]) -> Result<Option<Resource>> {
    let wanted = if args.len() == 2 { TypeKind::Int4 } else { TypeKind::Int8 };
    let mut keys = Vec::with_capacity(2);
    for arg in args {
        if matches!(arg, Value::Null) {
            return Ok(None);
        }
        let fits = matches!(arg, Value::Int2(_) | Value::Int4(_) | Value::Text(_))
            || (wanted == TypeKind::Int8 && matches!(arg, Value::Int8(_)));
        if !fits {
            let text = "function pg_advisory_lock does not exist for these arguments";
            return Err(PgError::new("42883", text));
        }
        let to = ColType::new(TypeKind::Int8);
        let env = FormatEnv::plain();
        match cast(&arg.as_datum(), to, CastMode::Explicit, &env)? {
            Value::Int8(key) => keys.push(key),
            _ => return Err(PgError::internal("the key of a lock")),
        }
    }
    match keys[..] {
        [key] => Ok(Some(user_resource(false, half(key >> 32), half(key)))),
        [one, two] => Ok(Some(user_resource(true, half(one), half(two)))),
        _ => Err(PgError::new("42883", "function pg_advisory_lock needs one key or two")),
    }
}

impl Session {
    pub(crate) async fn advisory(&mut self, call: Advisory, args: &[Value]) -> Result<Value> {
        if call == Advisory::UnlockAll {
            self.user_locks.release_all();
            return Ok(Value::Text("".into()));
        }
        let Some(resource) = resource_of(args)? else { return Ok(Value::Null) };
        match call {
            Advisory::Lock { shared, transaction, tries } => {
                let got = self.take_user_lock(resource, shared, transaction, tries).await?;
                Ok(if tries { Value::Bool(got) } else { Value::Text("".into()) })
            }
            Advisory::Unlock { shared } => Ok(Value::Bool(self.give_user_lock(resource, shared))),
            Advisory::UnlockAll => Ok(Value::Null),
        }
    }

    async fn take_user_lock(
        &mut self,
        resource: Resource,
        shared: bool,
        transaction: bool,
        tries: bool,
    ) -> Result<bool> {
        let txn = self.transaction()?;
        let core = self.user_locks.core.clone();
        let number = self.user_locks.number_in(txn.local_id());
        self.ctx.session.set_lock_number(number);
        let who = if transaction {
            Holder { id: txn.local_id(), same: Some(number) }
        } else {
            Holder { id: number, same: Some(txn.local_id()) }
        };
        let mode = if shared { TmMode::S } else { TmMode::X };
        let wait = if tries { LockWait::NoWait } else { self.lock_wait() };
        match core.lock_resource(&self.ctx, &txn, who, resource, mode, wait).await {
            Ok(()) => {}
            Err(kernel::Error::RowLocked) if tries => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        if !transaction {
            *self.user_locks.counts.entry(resource).or_default().of(shared) += 1;
        }
        Ok(true)
    }

    /// Gives back one of the session's locks; `false`, with a warning, if it has none.
    fn give_user_lock(&mut self, resource: Resource, shared: bool) -> bool {
        let locks = &mut self.user_locks;
        let count = locks.counts.get_mut(&resource).filter(|count| count.is_held(shared));
        let (Some(count), Some(number)) = (count, locks.number) else {
            let mode = if shared { "ShareLock" } else { "ExclusiveLock" };
            self.notice(Severity::Warning, format!("you don't own a lock of type {mode}"));
            return false;
        };
        let before = count.mode();
        *count.of(shared) -= 1;
        let keep = count.mode();
        if keep.is_none() {
            locks.counts.remove(&resource);
        }
        if keep != before {
            locks.core.table_locks.lower(number, resource, keep);
        }
        true
    }
}
