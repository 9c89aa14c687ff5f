//! Who may do what with an object, and whose it is: lists of rights and owners changed.
//!
//! A list is computed from the one in the row as it stands when the row's lock is had, so of two
//! grants at the same time none is lost. A change gives the object a new version: no statement
//! planned before it begins after it, on any instance. One that is changing rows then goes on.

use std::sync::Arc;

use block::ObjId;
use observe::Ctx;

use super::acl::{Acl, AclKind};
use super::ddl::{new_plans, touch_object};
use super::ddl_roles::{change_roles, touch_roles};
use super::ddl_routine::change_routine_acl;
use super::ddl_schema::change_list;
use super::ddl_type::change_type_acl;
use super::def::{ObjectDef, ObjectKind};
use super::fixed::{DATABASE_ACL, Fixed, SCHEMAS_OBJ};
use super::lookup::{sequence, table_by_obj};
use super::names::undefined;
use super::records::{acl_of, acl_value, at, object_by_obj};
use super::state::{exclude, newest, of, touch};
use super::store::{self, obj};
use crate::error::Result;
use crate::row::{Datum, Value};
use crate::txn::{LockWait, TmMode, Transaction};

/// What a list of rights belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AclTarget<'a> {
    /// A table, view or sequence.
    Relation(ObjId),
    /// A column of a table or view, by its position.
    Column(ObjId, usize),
    Schema(&'a str),
    /// An enum type.
    Type(ObjId),
    /// A function or procedure.
    Routine(ObjId),
    Database,
    /// What new objects get.
    Default {
        role: ObjId,
        schema: Option<ObjId>,
        kind: AclKind,
    },
}

/// Takes the right to change a relation and gives what it is now. Those who work with its rows go
/// on; DDL waits, and is waited for.
pub(super) async fn lock_object(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    number: ObjId,
    mode: TmMode,
) -> Result<ObjectDef> {
    let core = txn.core();
    let gone = || undefined("relation", &number.0.to_string());
    let dict = of(core)?;
    let object = object_by_obj(ctx, dict, &newest(txn)?, number).await?.ok_or_else(gone)?;
    if object.kind != ObjectKind::Sequence {
        core.lock_table(ctx, txn, number, mode, LockWait::Wait).await?;
    }
    exclude(ctx, txn, number).await?;
    object_by_obj(ctx, dict, &newest(txn)?, number).await?.ok_or_else(gone)
}

/// Replaces a list of rights by what `change` makes of it; `None` in and out: what the kind gives
/// by default, and for [`AclTarget::Default`] no entry.
///
/// # Errors
/// [`Error::UndefinedObject`] if it is gone.
pub async fn change_acl(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    target: AclTarget<'_>,
    mut change: impl FnMut(Option<Acl>) -> Option<Acl> + Send,
) -> Result<()> {
    let dict = of(txn.core())?;
    match target {
        AclTarget::Relation(number) => {
            let object = lock_object(ctx, txn, number, TmMode::SS).await?;
            let key = [obj(number)];
            store::change(ctx, txn, dict.fixed(Fixed::Obj), 0, &key, |row| {
                let new = change(acl_of(row, at::OBJ_ACL)?);
                Ok(vec![(at::OBJ_ACL, acl_value(new.as_ref()))])
            })
            .await?;
            new_plans(ctx, txn, &object).await
        }
        AclTarget::Column(number, position) => {
            let object = lock_object(ctx, txn, number, TmMode::SS).await?;
            let key = [obj(number), store::int4(position)?];
            store::change(ctx, txn, dict.fixed(Fixed::Col), 0, &key, |row| {
                let new = change(acl_of(row, at::COL_ACL)?);
                Ok(vec![(at::COL_ACL, acl_value(new.as_ref()))])
            })
            .await?;
            new_plans(ctx, txn, &object).await
        }
        AclTarget::Schema(name) => {
            change_list(ctx, txn).await?;
            let (table, key) = (dict.fixed(Fixed::Schema), [Datum::Text(name)]);
            let found = store::change(ctx, txn, table, 0, &key, |row| {
                let new = change(acl_of(row, at::SCHEMA_ACL)?);
                Ok(vec![(at::SCHEMA_ACL, acl_value(new.as_ref()))])
            })
            .await?;
            touch_schemas(txn, found, name)
        }
        AclTarget::Type(number) => change_type_acl(ctx, txn, number, &mut change).await,
        AclTarget::Routine(number) => change_routine_acl(ctx, txn, number, &mut change).await,
        AclTarget::Database => {
            change_roles(ctx, txn).await?;
            let (table, key) = (dict.fixed(Fixed::Props), [Datum::Text(DATABASE_ACL)]);
            store::change(ctx, txn, table, 0, &key, |row| {
                let text = row.text(1)?;
                let wrong = || row.unknown("list of access rights");
                let old = match text {
                    "" => None,
                    text => Some(Acl::parse(text).ok_or_else(wrong)?),
                };
                let new = change(old).map_or_else(String::new, |acl| acl.to_string());
                Ok(vec![(1, Value::Text(new.into()))])
            })
            .await?;
            touch_roles(txn)
        }
        AclTarget::Default { role, schema, kind } => {
            change_roles(ctx, txn).await?;
            let table = dict.fixed(Fixed::DefaultAcl);
            let schema = obj(schema.unwrap_or(ObjId(0)));
            let key = [obj(role), schema, Datum::Text(kind.code())];
            let snap = newest(txn)?;
            match store::one(ctx, &snap, table, 0, &key).await? {
                None => {
                    if let Some(new) = change(None) {
                        let text = new.to_string();
                        let [role, schema, kind] = key;
                        let values = [role, schema, kind, Datum::Text(&text)];
                        store::insert(ctx, txn, table, &values).await?;
                    }
                }
                Some(row) => match change(acl_of(&row, 3)?) {
                    None => store::delete(ctx, txn, table, &snap, &row).await?,
                    new => {
                        let changes = vec![(3, acl_value(new.as_ref()))];
                        store::change(ctx, txn, table, 0, &key, |_| Ok(changes.clone())).await?;
                    }
                },
            }
            touch_roles(txn)
        }
    }
}

fn touch_schemas(txn: &Arc<Transaction>, found: bool, name: &str) -> Result<()> {
    touch(txn, |touched| {
        touched.objects.insert(SCHEMAS_OBJ, None);
    })?;
    if found { Ok(()) } else { Err(undefined("schema", name)) }
}

async fn give(ctx: &Ctx, txn: &Arc<Transaction>, object: &ObjectDef, owner: ObjId) -> Result<()> {
    let key = [obj(object.obj)];
    let old = object.owner;
    store::change(ctx, txn, of(txn.core())?.fixed(Fixed::Obj), 0, &key, |row| {
        let acl = acl_of(row, at::OBJ_ACL)?.map(|acl| acl.with_owner(old, owner));
        let number = Value::Int8(i64::from(owner.0));
        Ok(vec![(at::OBJ_OWNER, number), (at::OBJ_ACL, acl_value(acl.as_ref()))])
    })
    .await?;
    touch_object(txn, object)?;
    new_plans(ctx, txn, object).await
}

/// Gives a table, view or sequence to another role, a table with its indexes and the sequences that
/// belong to it, given here.
///
/// # Errors
/// [`Error::UndefinedObject`] if it is gone.
pub async fn change_owner(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    number: ObjId,
    sequences: &[ObjId],
    owner: ObjId,
) -> Result<()> {
    let object = lock_object(ctx, txn, number, TmMode::X).await?;
    give(ctx, txn, &object, owner).await?;
    if object.kind == ObjectKind::Sequence {
        sequence(ctx, txn, &object.schema, &object.name).await?;
        return Ok(());
    }
    let def = table_by_obj(ctx, txn, number).await?;
    let def = def.ok_or_else(|| undefined("relation", &object.name))?;
    for (position, column) in def.columns.iter().enumerate() {
        let Some(acl) = &column.acl else { continue };
        let acl = acl.with_owner(object.owner, owner);
        let key = [obj(number), store::int4(position)?];
        let changes = vec![(at::COL_ACL, acl_value(Some(&acl)))];
        let table = of(txn.core())?.fixed(Fixed::Col);
        store::change(ctx, txn, table, 0, &key, |_| Ok(changes.clone())).await?;
    }
    let parts = def.all_indexes().map(|index| index.obj).chain(sequences.iter().copied());
    for part in parts {
        exclude(ctx, txn, part).await?;
        let found = object_by_obj(ctx, of(txn.core())?, &newest(txn)?, part).await?;
        if let Some(found) = found {
            give(ctx, txn, &found, owner).await?;
        }
    }
    Ok(())
}

/// Gives a schema to another role.
///
/// # Errors
/// [`Error::UndefinedObject`] if it is gone.
pub async fn change_schema_owner(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    name: &str,
    owner: ObjId,
) -> Result<()> {
    change_list(ctx, txn).await?;
    let (table, key) = (of(txn.core())?.fixed(Fixed::Schema), [Datum::Text(name)]);
    let found = store::change(ctx, txn, table, 0, &key, |row| {
        let old = row.obj(at::SCHEMA_OWNER)?;
        let acl = acl_of(row, at::SCHEMA_ACL)?.map(|acl| acl.with_owner(old, owner));
        let number = Value::Int8(i64::from(owner.0));
        Ok(vec![(at::SCHEMA_OWNER, number), (at::SCHEMA_ACL, acl_value(acl.as_ref()))])
    })
    .await?;
    touch_schemas(txn, found, name)
}
