//! Sequences and users made, changed and dropped.

use std::sync::Arc;

use block::ObjId;
use observe::Ctx;

use super::ddl::{add_object, delete_all, drop_object, new_version};
use super::def::{NewSequence, ObjectDef, ObjectKind, SequenceDef, UserDef};
use super::fixed::{Fixed, SUPERUSER};
use super::ids::{next_obj, next_version};
use super::names::{check_name, check_schema, undefined};
use super::records::{at, object_by_obj, read_user, sequence_values, user_values};
use super::state::{exclude, newest, of, touch};
use super::store::{self, obj};
use crate::error::{Error, Result};
use crate::row::{Datum, Value};
use crate::txn::Transaction;

/// Makes a sequence.
///
/// # Errors
/// [`Error::DuplicateObject`], [`Error::Invalid`].
pub async fn create_sequence(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    new: NewSequence,
) -> Result<Arc<SequenceDef>> {
    check_schema(ctx, txn, &new.schema).await?;
    check_name(&new.name)?;
    check_sequence(&new)?;
    let core = txn.core();
    let object = ObjectDef {
        obj: next_obj(ctx, core).await?,
        owner: new.owner,
        schema: new.schema,
        name: new.name,
        kind: ObjectKind::Sequence,
        created: core.current_scn(),
        version: next_version(core),
    };
    let object = add_object(ctx, txn, object).await?;
    let def = SequenceDef {
        obj: object.obj,
        schema: object.schema,
        name: object.name,
        owner: object.owner,
        start: new.start,
        increment: new.increment,
        min: new.min,
        max: new.max,
        cache: new.cache,
        cycle: new.cycle,
        order: new.order,
        table: new.table,
        version: object.version,
    };
    store::insert(ctx, txn, of(core)?.fixed(Fixed::Seq), &sequence_values(&def)).await?;
    Ok(Arc::new(def))
}

fn check_sequence(new: &NewSequence) -> Result<()> {
    let wrong = if new.increment == 0 {
        "INCREMENT must not be zero"
    } else if new.min >= new.max {
        "MINVALUE must be less than MAXVALUE"
    } else if new.start < new.min {
        "START value cannot be less than MINVALUE"
    } else if new.start > new.max {
        "START value cannot be greater than MAXVALUE"
    } else if new.cache < 1 {
        "CACHE must be greater than zero"
    } else {
        return Ok(());
    };
    Err(Error::Invalid(wrong.into()))
}

/// Says which table a sequence belongs to, with which it is dropped; `None`: to none.
///
/// # Errors
/// [`Error::UndefinedObject`] if somebody else dropped it.
pub async fn set_sequence_table(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    sequence: &SequenceDef,
    table: Option<ObjId>,
) -> Result<()> {
    exclude(ctx, txn, sequence.obj).await?;
    let snap = newest(txn)?;
    let object = object_by_obj(ctx, of(txn.core())?, &snap, sequence.obj).await?;
    let object = object.ok_or_else(|| undefined("sequence", &sequence.name))?;
    let fixed = of(txn.core())?.fixed(Fixed::Seq);
    let value = table.map_or(Value::Null, |table| Value::Int8(table.0.into()));
    let found = store::change(ctx, txn, fixed, 0, &[obj(sequence.obj)], |_| {
        Ok(vec![(at::SEQ_TABLE, value.clone())])
    })
    .await?;
    if !found {
        return Err(undefined("sequence", &sequence.name));
    }
    new_version(ctx, txn, &object).await
}

/// Drops a sequence.
///
/// # Errors
/// [`Error::UndefinedObject`] if somebody else dropped it.
pub async fn drop_sequence(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    sequence: &SequenceDef,
) -> Result<()> {
    exclude(ctx, txn, sequence.obj).await?;
    let snap = newest(txn)?;
    let object = object_by_obj(ctx, of(txn.core())?, &snap, sequence.obj).await?;
    let object = object.ok_or_else(|| undefined("sequence", &sequence.name))?;
    delete_all(ctx, txn, Fixed::Seq, 0, sequence.obj).await?;
    drop_object(ctx, txn, &object).await
}

fn touch_user(txn: &Arc<Transaction>, obj: ObjId, name: &str) -> Result<()> {
    touch(txn, |touched| {
        touched.objects.insert(obj, None);
        touched.users.insert(name.to_owned());
    })
}

/// Makes a user. `verifier`: what passwords are checked against, `None` to accept none.
///
/// # Errors
/// [`Error::DuplicateObject`], [`Error::Invalid`].
pub async fn create_user(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    name: &str,
    verifier: Option<&str>,
    superuser: bool,
) -> Result<UserDef> {
    check_name(name)?;
    let user = UserDef {
        obj: next_obj(ctx, txn.core()).await?,
        name: name.to_owned(),
        verifier: verifier.map(str::to_owned),
        superuser,
    };
    exclude(ctx, txn, user.obj).await?;
    let table = of(txn.core())?.fixed(Fixed::User);
    match store::insert(ctx, txn, table, &user_values(&user)).await {
        Ok(()) => {}
        Err(Error::UniqueViolation { .. }) => {
            return Err(Error::DuplicateObject(format!("role \"{name}\"")));
        }
        Err(e) => return Err(e),
    }
    touch_user(txn, user.obj, name)?;
    Ok(user)
}

async fn own_user(ctx: &Ctx, txn: &Arc<Transaction>, name: &str) -> Result<UserDef> {
    let snap = newest(txn)?;
    let user = read_user(ctx, of(txn.core())?, &snap, name).await?;
    user.ok_or_else(|| undefined("role", name))
}

/// Replaces what the user's password is checked against.
///
/// # Errors
/// [`Error::UndefinedObject`].
pub async fn set_password(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    name: &str,
    verifier: Option<&str>,
) -> Result<()> {
    let user = own_user(ctx, txn, name).await?;
    exclude(ctx, txn, user.obj).await?;
    let table = of(txn.core())?.fixed(Fixed::User);
    let value = verifier.map_or(Value::Null, |v| Value::Text(v.into()));
    let found = store::change(ctx, txn, table, 0, &[Datum::Text(name)], |_| {
        Ok(vec![(at::USER_VERIFIER, value.clone())])
    })
    .await?;
    if !found {
        return Err(undefined("role", name));
    }
    touch_user(txn, user.obj, name)
}

/// Drops a user who owns nothing.
///
/// # Errors
/// [`Error::UndefinedObject`], [`Error::DependentObjects`].
pub async fn drop_user(ctx: &Ctx, txn: &Arc<Transaction>, name: &str) -> Result<()> {
    let user = own_user(ctx, txn, name).await?;
    if name == SUPERUSER {
        return Err(Error::DependentObjects(format!(
            "cannot drop role {name} because it owns the database"
        )));
    }
    let owned = super::lookup::objects(ctx, txn).await?;
    if let Some(object) = owned.iter().find(|object| object.owner == user.obj) {
        return Err(Error::DependentObjects(format!(
            "role \"{name}\" cannot be dropped because it owns relation {}",
            object.name
        )));
    }
    exclude(ctx, txn, user.obj).await?;
    let dict = of(txn.core())?;
    let snap = newest(txn)?;
    let key = [Datum::Text(name)];
    let row = store::one(ctx, &snap, dict.fixed(Fixed::User), 0, &key).await?;
    let row = row.ok_or_else(|| undefined("role", name))?;
    store::delete(ctx, txn, dict.fixed(Fixed::User), &snap, &row).await?;
    touch_user(txn, user.obj, name)
}
