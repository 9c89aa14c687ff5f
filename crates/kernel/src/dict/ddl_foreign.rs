//! Foreign keys made and dropped.
//!
//! A foreign key belongs to two tables, and both definitions tell of it: every change of one locks
//! both tables as DDL does, the child first, and gives both a new version, so that whoever changes
//! rows of either knows it from then on, on every instance. What the rows that are there must meet
//! is the caller's to see, under these locks.

use std::sync::Arc;

use observe::Ctx;

use super::ddl::{lock_for_ddl, new_version, own_table};
use super::ddl_comment::forget_comments;
use super::def::{ForeignKeyDef, ObjectDef, TableDef};
use super::fixed::Fixed;
use super::ids::next_obj;
use super::lookup::table_by_obj;
use super::names::{check_name, undefined};
use super::records::{at, column_list, foreign_values};
use super::state::{newest, of};
use super::store;
use crate::error::{Error, Result};
use crate::row::{Datum, Value};
use crate::txn::{TmMode, Transaction};

/// Adds a foreign key to `def.table`; its number is given here.
///
/// # Errors
/// [`Error::DuplicateObject`], [`Error::Invalid`]; what waiting for the users of either table can
/// fail with.
pub async fn add_foreign_key(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    child: &TableDef,
    parent: &TableDef,
    mut def: ForeignKeyDef,
) -> Result<Arc<TableDef>> {
    check_name(&def.name)?;
    let (child_object, _) = lock_for_ddl(ctx, txn, child, TmMode::X).await?;
    let (parent_object, now) = lock_for_ddl(ctx, txn, parent, TmMode::X).await?;
    if !now.indexes.iter().any(|index| index.obj == def.index && index.unique) {
        return Err(Error::ObjectGone);
    }
    def.obj = next_obj(ctx, txn.core()).await?;
    let values = foreign_values(&def);
    let values: Vec<Datum<'_>> = values.iter().map(Value::as_datum).collect();
    match store::insert(ctx, txn, of(txn.core())?.fixed(Fixed::Ref), &values).await {
        Err(Error::UniqueViolation { .. }) => {
            return Err(Error::DuplicateObject(format!("constraint \"{}\"", def.name)));
        }
        done => done?,
    }
    both_new(ctx, txn, &child_object, &parent_object).await?;
    own_table(ctx, txn, &child_object).await
}

/// A new version for both tables, or for the one if the key refers to its own table.
async fn both_new(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    child: &ObjectDef,
    parent: &ObjectDef,
) -> Result<()> {
    new_version(ctx, txn, child).await?;
    if parent.obj != child.obj {
        new_version(ctx, txn, parent).await?;
    }
    Ok(())
}

/// Locks both tables of a foreign key of `child`.
async fn lock_both(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    child: &TableDef,
    name: &str,
) -> Result<(ObjectDef, ObjectDef, Arc<ForeignKeyDef>)> {
    let missing = || undefined("constraint", name);
    let (child_object, now) = lock_for_ddl(ctx, txn, child, TmMode::X).await?;
    let key = now.foreign.iter().find(|key| key.name == name).cloned().ok_or_else(missing)?;
    if key.parent == child_object.obj {
        return Ok((child_object.clone(), child_object, key));
    }
    let parent = table_by_obj(ctx, txn, key.parent).await?.ok_or_else(missing)?;
    let (parent_object, _) = lock_for_ddl(ctx, txn, &parent, TmMode::X).await?;
    Ok((child_object, parent_object, key))
}

/// Drops a foreign key of `child`.
///
/// # Errors
/// [`Error::UndefinedObject`]; what waiting for the users of either table can fail with.
pub async fn drop_foreign_key(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    child: &TableDef,
    name: &str,
) -> Result<()> {
    let (child, parent, key) = lock_both(ctx, txn, child, name).await?;
    delete_row(ctx, txn, &key).await?;
    forget_comments(ctx, txn, key.obj).await?;
    both_new(ctx, txn, &child, &parent).await
}

async fn delete_row(ctx: &Ctx, txn: &Arc<Transaction>, key: &ForeignKeyDef) -> Result<()> {
    let table = of(txn.core())?.fixed(Fixed::Ref);
    let snap = newest(txn)?;
    let at = [store::obj(key.table), Datum::Text(&key.name)];
    let row = store::one(ctx, &snap, table, 0, &at).await?;
    let row = row.ok_or_else(|| undefined("constraint", &key.name))?;
    store::delete(ctx, txn, table, &snap, &row).await
}

async fn replace(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    old: &ForeignKeyDef,
    new: &ForeignKeyDef,
) -> Result<()> {
    delete_row(ctx, txn, old).await?;
    let values = foreign_values(new);
    let values: Vec<Datum<'_>> = values.iter().map(Value::as_datum).collect();
    store::insert(ctx, txn, of(txn.core())?.fixed(Fixed::Ref), &values).await
}

/// Gives a foreign key another name.
///
/// # Errors
/// As [`drop_foreign_key`]; [`Error::Invalid`].
pub async fn rename_foreign_key(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    child: &TableDef,
    old: &str,
    name: &str,
) -> Result<()> {
    check_name(name)?;
    let (child, parent, key) = lock_both(ctx, txn, child, old).await?;
    let new = ForeignKeyDef { name: name.to_owned(), ..(*key).clone() };
    replace(ctx, txn, &key, &new).await?;
    both_new(ctx, txn, &child, &parent).await
}

/// Notes that all rows of the child meet the key.
///
/// # Errors
/// As [`drop_foreign_key`].
pub async fn validate_foreign_key(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    child: &TableDef,
    name: &str,
) -> Result<()> {
    let (child, parent, key) = lock_both(ctx, txn, child, name).await?;
    let at = [store::obj(key.table), Datum::Text(&key.name)];
    let table = of(txn.core())?.fixed(Fixed::Ref);
    let changes = vec![(at::REF_VALIDATED, Value::Bool(true))];
    store::change(ctx, txn, table, 0, &at, |_| Ok(changes.clone())).await?;
    both_new(ctx, txn, &child, &parent).await
}

/// The foreign keys of a table that is going, its own ones. Whether others refer to it, its
/// dropper has seen to.
pub(super) async fn drop_all_foreign_keys(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &TableDef,
) -> Result<()> {
    if let Some(other) = def.referenced.iter().find(|reference| reference.table != def.obj) {
        let what = format!("constraint {} refers to table {}", other.key, def.name);
        return Err(Error::DependentObjects(what));
    }
    for key in &def.foreign {
        if key.parent == def.obj {
            delete_row(ctx, txn, key).await?;
            forget_comments(ctx, txn, key.obj).await?;
        } else {
            drop_foreign_key(ctx, txn, def, &key.name).await?;
        }
    }
    Ok(())
}

/// The columns of a locked table move: its keys move with them, and go with a column of theirs.
pub(super) async fn move_foreign_keys(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &TableDef,
    moved: &(impl Fn(u16) -> Option<u16> + Sync),
) -> Result<()> {
    for key in &def.foreign {
        let columns: Option<Vec<u16>> = key.columns.iter().map(|old| moved(*old)).collect();
        match columns {
            None => drop_foreign_key(ctx, txn, def, &key.name).await?,
            Some(columns) if columns != key.columns => {
                let list = Value::Text(column_list(&columns).into());
                let (table, changes) =
                    (of(txn.core())?.fixed(Fixed::Ref), [(at::REF_COLUMNS, list)]);
                let at = [store::obj(key.table), Datum::Text(&key.name)];
                store::change(ctx, txn, table, 0, &at, |_| Ok(changes.to_vec())).await?;
            }
            Some(_) => {}
        }
    }
    Ok(())
}
