//! Sequences made, changed and dropped.

use std::sync::Arc;

use block::ObjId;
use observe::Ctx;

use super::ddl::{add_object, delete_all, drop_object, new_version};
use super::def::{NewSequence, ObjectDef, ObjectKind, SequenceDef};
use super::fixed::Fixed;
use super::ids::next_obj;
use super::lookup::newest_sequence;
use super::names::{check_name, check_schema, undefined};
use super::records::{at, object_by_obj, sequence_generation, sequence_values};
use super::state::{exclude, newest, of, touch};
use super::store::{self, Record, obj};
use super::times::Times;
use crate::error::{Error, Result};
use crate::row::Value;
use crate::seq::withdraw_common;
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
        schema: new.schema.clone(),
        name: new.name.clone(),
        kind: ObjectKind::Sequence,
        acl: None,
        created: core.current_scn(),
        version: 0,
        form: 0,
        times: Times::of_new(ctx),
    };
    let object = add_object(ctx, txn, object).await?;
    let def = definition(object.obj, object.version, new);
    store::insert(ctx, txn, of(core)?.fixed(Fixed::Seq), &sequence_values(&def)).await?;
    Ok(Arc::new(def))
}

fn definition(obj: ObjId, version: u64, new: NewSequence) -> SequenceDef {
    SequenceDef {
        obj,
        schema: new.schema,
        name: new.name,
        owner: new.owner,
        acl: None,
        kind: new.kind,
        start: new.start,
        increment: new.increment,
        min: new.min,
        max: new.max,
        cache: new.cache,
        cycle: new.cycle,
        order: new.order,
        table: new.table,
        generation: 0,
        version,
    }
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
    let value = table.map_or(Value::Null, |table| Value::Int8(table.0.into()));
    change_sequence(ctx, txn, sequence, |_| Ok(vec![(at::SEQ_TABLE, value.clone())])).await
}

/// Waits until nobody else is changing the sequence, and nobody does until the transaction ends;
/// the sequence as it is then.
///
/// # Errors
/// [`Error::UndefinedObject`] if somebody else dropped it.
pub async fn lock_sequence(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    sequence: &SequenceDef,
) -> Result<Arc<SequenceDef>> {
    exclude(ctx, txn, sequence.obj).await?;
    let now = newest_sequence(ctx, txn, sequence.obj).await?;
    now.ok_or_else(|| undefined("sequence", &sequence.name))
}

/// Changes by which rules a sequence goes on and, with `restart`, what it gives next. Part of the
/// transaction, unlike `setval`. Another generation begins: the values that instances hold are
/// lost, but for those of this instance, or those that all instances have in common, if nobody has
/// taken or set any since and it does not cycle: it goes on behind the last one that was handed
/// out. Common ones are lost if the transaction is rolled back.
///
/// # Errors
/// [`Error::Invalid`] if the rules contradict each other, or how far the sequence has got;
/// [`Error::UndefinedObject`] if somebody else dropped it.
pub async fn alter_sequence(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    sequence: &SequenceDef,
    new: NewSequence,
    restart: Option<i64>,
) -> Result<()> {
    check_sequence(&new)?;
    let def = definition(sequence.obj, sequence.version, new);
    // All but the number, and the table, which is changed by itself.
    let values = sequence_values(&def);
    let rules: Vec<(usize, Value)> =
        (1..at::SEQ_TABLE).chain([at::SEQ_TYPE]).map(|i| (i, values[i].to_value())).collect();
    // Before the turn at the common values is taken: who changes the sequence meanwhile may have
    // its row, for which somebody who has that turn waits.
    exclude(ctx, txn, sequence.obj).await?;
    let held = of(txn.core())?.sequences.withdraw(sequence.obj, sequence.generation);
    let mut known = held.as_ref().and_then(|held| Some((held.given()?, held.last())));
    if let Some(held) = held {
        txn.on_rollback(Box::new(move || held.give_back()));
    }
    if known.is_none() {
        known = env::boxed!(withdraw_common(ctx, txn, sequence)).await?;
    }
    change_sequence(ctx, txn, sequence, |row| {
        let highwater = row.int(at::SEQ_HIGHWATER)?;
        // Nobody has taken or set values since they were taken here.
        let same = sequence_generation(row)? == sequence.generation && row.bool(at::SEQ_USED)?;
        let inside = |given: i64| (sequence.min..=sequence.max).contains(&given);
        let back = known.filter(|(given, last)| {
            same && *last == highwater && inside(*given) && !sequence.cycle && restart.is_none()
        });
        let at = restart.or(back.map(|(given, _)| given)).unwrap_or(highwater);
        if at < def.min {
            let (min, text) = (def.min, "cannot be less than MINVALUE");
            return Err(Error::Invalid(format!("RESTART value ({at}) {text} ({min})")));
        }
        if at > def.max {
            let (max, text) = (def.max, "cannot be greater than MAXVALUE");
            return Err(Error::Invalid(format!("RESTART value ({at}) {text} ({max})")));
        }
        let mut set = rules.clone();
        let generation = sequence_generation(row)?.wrapping_add(1);
        set.push((at::SEQ_GENERATION, Value::Int8(generation)));
        if restart.is_some() {
            set.push((at::SEQ_HIGHWATER, Value::Int8(at)));
            set.push((at::SEQ_USED, Value::Bool(false)));
        }
        if back.is_some() {
            set.push((at::SEQ_HIGHWATER, Value::Int8(at)));
        }
        Ok(set)
    })
    .await
}

async fn change_sequence(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    sequence: &SequenceDef,
    change: impl FnMut(&Record) -> Result<Vec<(usize, Value)>> + Send,
) -> Result<()> {
    exclude(ctx, txn, sequence.obj).await?;
    let snap = newest(txn)?;
    let object = object_by_obj(ctx, of(txn.core())?, &snap, sequence.obj).await?;
    let object = object.ok_or_else(|| undefined("sequence", &sequence.name))?;
    let fixed = of(txn.core())?.fixed(Fixed::Seq);
    if !store::change(ctx, txn, fixed, 0, &[obj(sequence.obj)], change).await? {
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
    touch(txn, |touched| {
        touched.dropped_sequences.insert(sequence.obj);
    })?;
    drop_object(ctx, txn, &object).await
}
