//! Views made, replaced and dropped.
//!
//! A view is an object with columns and a text instead of a segment, and rows in `dep$` that say
//! what the text reads. What is read is locked against DDL by whoever makes the view, so that no
//! view is left behind whose tables are gone; what to do with the views of a table that is dropped
//! or changed is the caller's to say.

use std::sync::Arc;

use block::{Dba, ObjId, Scn};
use observe::Ctx;

use super::ddl::{
    add_object, check_columns, delete_all, drop_object, lock_for_ddl, make_table, new_version,
    own_table,
};
use super::ddl_type::hold_types;
use super::def::{
    CheckOption, ColumnDef, NewTable, NewView, ObjectDef, ObjectKind, TableDef, ViewDef,
};
use super::fixed::Fixed;
use super::ids::next_obj;
use super::lists::{routines, types};
use super::lookup::table_by_obj;
use super::names::{check_name, check_schema};
use super::records::{NOT_POPULATED, POPULATED, column_values, table_values, use_values};
use super::state::of;
use super::store::{self, obj, text_or_null};
use super::times::Times;
use crate::error::{Error, Result};
use crate::row::Datum;
use crate::txn::{LockWait, TmMode, Transaction};

/// Keeps what a view reads as it is until the transaction has ended.
///
/// # Errors
/// [`Error::ObjectGone`] if something of it is gone by now: the text must be read again.
async fn hold(ctx: &Ctx, txn: &Arc<Transaction>, view: &ViewDef) -> Result<()> {
    let mut objects: Vec<ObjId> = view.uses.iter().map(|one| one.obj).collect();
    objects.sort_unstable();
    objects.dedup();
    for used in objects {
        txn.core().lock_table(ctx, txn, used, TmMode::SS, LockWait::Wait).await?;
        let is_type = types(ctx, txn).await?.by_obj(used).is_some();
        if is_type || routines(ctx, txn).await?.by_obj(used).is_some() {
            continue;
        }
        let def = table_by_obj(ctx, txn, used).await?.ok_or(Error::ObjectGone)?;
        let named = view.uses.iter().filter(|one| one.obj == used && !one.column.is_empty());
        for one in named {
            def.column(&one.column).ok_or(Error::ObjectGone)?;
        }
    }
    Ok(())
}

/// Makes a view.
///
/// # Errors
/// [`Error::DuplicateObject`], [`Error::Invalid`]; [`Error::ObjectGone`] if what it reads has
/// changed since the text was read.
pub async fn create_view(ctx: &Ctx, txn: &Arc<Transaction>, new: NewView) -> Result<Arc<TableDef>> {
    check_schema(ctx, txn, &new.schema).await?;
    check_name(&new.name)?;
    check_columns(&new.columns)?;
    hold(ctx, txn, &new.view).await?;
    hold_types(ctx, txn, &new.columns).await?;
    let core = txn.core();
    let object = ObjectDef {
        obj: next_obj(ctx, core).await?,
        owner: new.owner,
        schema: new.schema,
        name: new.name,
        kind: ObjectKind::View,
        acl: None,
        created: core.current_scn(),
        version: 0,
        form: 0,
        times: Times::of_new(ctx),
    };
    let object = add_object(ctx, txn, object).await?;
    let tab = of(core)?.fixed(Fixed::Tab);
    // No segment: a row all the same, which holds the comment.
    let values = table_values(object.obj, Dba::NONE, Scn(0))?;
    store::insert(ctx, txn, tab, &values).await?;
    write_text(ctx, txn, object.obj, &new.columns, &new.view).await?;
    own_table(ctx, txn, &object).await
}

async fn write_text(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    number: ObjId,
    columns: &[ColumnDef],
    view: &ViewDef,
) -> Result<()> {
    let dict = of(txn.core())?;
    for (position, column) in columns.iter().enumerate() {
        let acl = column.acl.as_ref().map(ToString::to_string);
        let values = column_values(number, position, column, acl.as_deref())?;
        store::insert(ctx, txn, dict.fixed(Fixed::Col), &values).await?;
    }
    let check = text_or_null(view.check.map(CheckOption::code));
    let text = [obj(number), Datum::Text(&view.text), check];
    store::insert(ctx, txn, dict.fixed(Fixed::View), &text).await?;
    for used in &view.uses {
        store::insert(ctx, txn, dict.fixed(Fixed::Dep), &use_values(number, used)).await?;
    }
    Ok(())
}

/// Makes a materialized view, without rows: `populated` says that these will be all.
///
/// # Errors
/// As [`create_view`]; disk full.
pub async fn create_materialized(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    new: NewTable,
    view: &ViewDef,
    populated: bool,
) -> Result<Arc<TableDef>> {
    hold(ctx, txn, view).await?;
    let object = make_table(ctx, txn, new, ObjectKind::Materialized).await?;
    write_query(ctx, txn, object.obj, view, populated).await?;
    own_table(ctx, txn, &object).await
}

/// Gives a materialized view another text, or says whether its rows are those of its query.
///
/// # Errors
/// As [`replace_view`].
pub async fn set_materialized(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    table: &TableDef,
    view: &ViewDef,
    populated: bool,
) -> Result<()> {
    let (object, def) = lock_for_ddl(ctx, txn, table, TmMode::X).await?;
    hold(ctx, txn, view).await?;
    delete_query(ctx, txn, def.obj).await?;
    write_query(ctx, txn, def.obj, view, populated).await?;
    new_version(ctx, txn, &object).await
}

async fn write_query(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    number: ObjId,
    view: &ViewDef,
    populated: bool,
) -> Result<()> {
    let dict = of(txn.core())?;
    let state = if populated { POPULATED } else { NOT_POPULATED };
    let text = [obj(number), Datum::Text(&view.text), Datum::Text(state)];
    store::insert(ctx, txn, dict.fixed(Fixed::View), &text).await?;
    for used in &view.uses {
        store::insert(ctx, txn, dict.fixed(Fixed::Dep), &use_values(number, used)).await?;
    }
    Ok(())
}

/// Deletes what says which query something shows.
pub(super) async fn delete_query(ctx: &Ctx, txn: &Arc<Transaction>, number: ObjId) -> Result<()> {
    for table in [Fixed::Dep, Fixed::View] {
        delete_all(ctx, txn, table, 0, number).await?;
    }
    Ok(())
}

async fn delete_text(ctx: &Ctx, txn: &Arc<Transaction>, number: ObjId) -> Result<()> {
    for table in [Fixed::Dep, Fixed::View, Fixed::Col] {
        delete_all(ctx, txn, table, 0, number).await?;
    }
    Ok(())
}

/// Gives a view another text and the columns that come with it.
///
/// # Errors
/// As [`create_view`]; [`Error::UndefinedObject`] if somebody else dropped it.
pub async fn replace_view(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    view: &TableDef,
    columns: &[ColumnDef],
    new: &ViewDef,
) -> Result<()> {
    check_columns(columns)?;
    let (object, def) = lock_for_ddl(ctx, txn, view, TmMode::X).await?;
    hold(ctx, txn, new).await?;
    hold_types(ctx, txn, columns).await?;
    delete_text(ctx, txn, def.obj).await?;
    // What was granted on a column stays with it.
    let mut columns = columns.to_vec();
    for column in &mut columns {
        let old = def.columns.iter().find(|old| old.name == column.name);
        column.acl = old.and_then(|old| old.acl.clone());
    }
    write_text(ctx, txn, def.obj, &columns, new).await?;
    new_version(ctx, txn, &object).await
}

/// Drops a view.
///
/// # Errors
/// [`Error::UndefinedObject`] if somebody else dropped it.
pub async fn drop_view(ctx: &Ctx, txn: &Arc<Transaction>, view: &TableDef) -> Result<()> {
    let (object, def) = lock_for_ddl(ctx, txn, view, TmMode::X).await?;
    delete_text(ctx, txn, def.obj).await?;
    delete_all(ctx, txn, Fixed::Tab, 0, def.obj).await?;
    drop_object(ctx, txn, &object).await
}
