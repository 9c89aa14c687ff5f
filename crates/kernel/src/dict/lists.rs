//! The lists of the dictionary that are read whole: schemas, types, routines, and roles.
//!
//! Each has a number as objects have, under which it is locked and kept in the row cache, and a
//! version in `props$` that every change of it counts up. All are looked up in one way; a list only
//! says what it is read from.

use std::future::Future;
use std::sync::Arc;

use block::ObjId;
use observe::Ctx;

use super::cache::{Entry, RowCache};
use super::def::{Schemas, Types};
use super::fixed::{
    DATABASE_ACL, DATABASE_OWNER, Fixed, ROLES_OBJ, ROLES_VERSION, ROUTINES_OBJ, ROUTINES_VERSION,
    SCHEMAS_OBJ, SCHEMAS_VERSION, TYPES_OBJ, TYPES_VERSION,
};
use super::lookup::LOAD_TRIES;
use super::records::{read_type, schema_of, user_of};
use super::roles::{Roles, default_of, member_of};
use super::routine::{Routines, read_routine};
use super::state::{Dict, autonomous, newest, of};
use super::store;
use crate::error::{Error, Result};
use crate::row::Datum;
use crate::txn::{Snapshot, Transaction};

/// A list with one version.
trait VersionedList: Sized + Send + Sync {
    /// What it is locked and kept by.
    const OBJ: ObjId;

    fn version(&self) -> u64;

    fn kept(cache: &RowCache) -> Option<Arc<Self>>;

    fn entry(list: Arc<Self>) -> Entry;

    fn read(ctx: &Ctx, dict: &Dict, snap: &Snapshot) -> impl Future<Output = Result<Self>> + Send;
}

async fn list<L: VersionedList>(ctx: &Ctx, txn: &Arc<Transaction>) -> Result<Arc<L>> {
    let dict = of(txn.core())?;
    if dict.has_touched_object(txn, L::OBJ) {
        let list = L::read(ctx, dict, &newest(txn)?).await?;
        dict.note_version(txn, L::OBJ, list.version());
        return Ok(Arc::new(list));
    }
    if let Some(list) = L::kept(&dict.cache) {
        return Ok(list);
    }
    let reader = autonomous(txn.core());
    let mut tries = 0;
    loop {
        // Every statement asks for them: one whose transaction changes a list and goes on must not
        // keep all others waiting. Till it has ended they read what is committed each time.
        let generation = dict.try_right_to_keep(ctx, txn, L::OBJ).await?;
        let list = Arc::new(L::read(ctx, dict, &newest(&reader)?).await?);
        let Some(generation) = generation else { return Ok(list) };
        tries += 1;
        let kept = dict.cache.put(generation, L::entry(Arc::clone(&list)));
        if kept || tries == LOAD_TRIES {
            return Ok(list);
        }
    }
}

async fn prop(ctx: &Ctx, dict: &Dict, snap: &Snapshot, name: &str) -> Result<String> {
    let row = store::one(ctx, snap, dict.fixed(Fixed::Props), 0, &[Datum::Text(name)]).await?;
    let row = row.ok_or_else(|| Error::Invariant(format!("props$ has no row '{name}'")))?;
    Ok(row.text(1)?.to_owned())
}

async fn version(ctx: &Ctx, dict: &Dict, snap: &Snapshot, name: &str) -> Result<u64> {
    let text = prop(ctx, dict, snap, name).await?;
    text.parse().map_err(|_| Error::Invariant(format!("props$ has '{text}' as '{name}'")))
}

impl VersionedList for Schemas {
    const OBJ: ObjId = SCHEMAS_OBJ;

    fn version(&self) -> u64 {
        self.version
    }

    fn kept(cache: &RowCache) -> Option<Arc<Schemas>> {
        cache.schemas()
    }

    fn entry(list: Arc<Schemas>) -> Entry {
        Entry::Schemas(list)
    }

    async fn read(ctx: &Ctx, dict: &Dict, snap: &Snapshot) -> Result<Schemas> {
        let rows = store::all(ctx, snap, dict.fixed(Fixed::Schema)).await?;
        let mut all = rows.iter().map(schema_of).collect::<Result<Vec<_>>>()?;
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Schemas { all, version: version(ctx, dict, snap, SCHEMAS_VERSION).await? })
    }
}

impl VersionedList for Types {
    const OBJ: ObjId = TYPES_OBJ;

    fn version(&self) -> u64 {
        self.version
    }

    fn kept(cache: &RowCache) -> Option<Arc<Types>> {
        cache.types()
    }

    fn entry(list: Arc<Types>) -> Entry {
        Entry::Types(list)
    }

    async fn read(ctx: &Ctx, dict: &Dict, snap: &Snapshot) -> Result<Types> {
        let mut all = Vec::new();
        for row in &store::all(ctx, snap, dict.fixed(Fixed::Type)).await? {
            all.push(read_type(ctx, dict, snap, row).await?);
        }
        all.sort_by(|a, b| (&a.schema, &a.name).cmp(&(&b.schema, &b.name)));
        Ok(Types { all, version: version(ctx, dict, snap, TYPES_VERSION).await? })
    }
}

impl VersionedList for Routines {
    const OBJ: ObjId = ROUTINES_OBJ;

    fn version(&self) -> u64 {
        self.version
    }

    fn kept(cache: &RowCache) -> Option<Arc<Routines>> {
        cache.routines()
    }

    fn entry(list: Arc<Routines>) -> Entry {
        Entry::Routines(list)
    }

    async fn read(ctx: &Ctx, dict: &Dict, snap: &Snapshot) -> Result<Routines> {
        let mut all = Vec::new();
        for row in &store::all(ctx, snap, dict.fixed(Fixed::Proc)).await? {
            all.push(Arc::new(read_routine(ctx, dict, snap, row).await?));
        }
        all.sort_by(|a, b| {
            (&a.schema, &a.name, &a.signature).cmp(&(&b.schema, &b.name, &b.signature))
        });
        Ok(Routines { all, version: version(ctx, dict, snap, ROUTINES_VERSION).await? })
    }
}

impl VersionedList for Roles {
    const OBJ: ObjId = ROLES_OBJ;

    fn version(&self) -> u64 {
        self.version
    }

    fn kept(cache: &RowCache) -> Option<Arc<Roles>> {
        cache.roles()
    }

    fn entry(list: Arc<Roles>) -> Entry {
        Entry::Roles(list)
    }

    async fn read(ctx: &Ctx, dict: &Dict, snap: &Snapshot) -> Result<Roles> {
        let rows = store::all(ctx, snap, dict.fixed(Fixed::User)).await?;
        let users = rows.iter().map(user_of).collect::<Result<Vec<_>>>()?;
        let rows = store::all(ctx, snap, dict.fixed(Fixed::Auth)).await?;
        let members = rows.iter().map(member_of).collect::<Result<Vec<_>>>()?;
        let rows = store::all(ctx, snap, dict.fixed(Fixed::DefaultAcl)).await?;
        let defaults = rows.iter().map(default_of).collect::<Result<Vec<_>>>()?;
        let version = prop(ctx, dict, snap, ROLES_VERSION).await?;
        let owner = prop(ctx, dict, snap, DATABASE_OWNER).await?;
        let acl = prop(ctx, dict, snap, DATABASE_ACL).await?;
        let roles = Roles::new(users, members, defaults, (&version, &owner, &acl));
        let wrong = || Error::Invariant("props$ holds a row of the roles that is none".into());
        roles.ok_or_else(wrong)
    }
}

/// All schemas but the system's.
///
/// # Errors
/// As [`super::table`].
pub async fn schemas(ctx: &Ctx, txn: &Arc<Transaction>) -> Result<Arc<Schemas>> {
    list(ctx, txn).await
}

/// All types that users have made.
///
/// # Errors
/// As [`super::table`].
pub async fn types(ctx: &Ctx, txn: &Arc<Transaction>) -> Result<Arc<Types>> {
    list(ctx, txn).await
}

/// All functions and procedures.
///
/// # Errors
/// As [`super::table`].
pub async fn routines(ctx: &Ctx, txn: &Arc<Transaction>) -> Result<Arc<Routines>> {
    list(ctx, txn).await
}

/// Roles with their members, default privileges, and who may do what with the database.
///
/// # Errors
/// As [`super::table`].
pub async fn roles(ctx: &Ctx, txn: &Arc<Transaction>) -> Result<Arc<Roles>> {
    list(ctx, txn).await
}
