//! Sequences made and dropped.

use std::sync::Arc;

use block::ObjId;
use observe::Ctx;

use super::ddl::{add_object, delete_all, drop_object, new_version};
use super::def::{NewSequence, ObjectDef, ObjectKind, SequenceDef};
use super::fixed::Fixed;
use super::ids::next_obj;
use super::names::{check_name, check_schema, undefined};
use super::records::{at, object_by_obj, sequence_values};
use super::state::{exclude, newest, of};
use super::store::{self, obj};
use crate::error::{Error, Result};
use crate::row::Value;
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
        acl: None,
        created: core.current_scn(),
        version: 0,
        form: 0,
    };
    let object = add_object(ctx, txn, object).await?;
    let def = SequenceDef {
        obj: object.obj,
        schema: object.schema,
        name: object.name,
        owner: object.owner,
        acl: None,
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
