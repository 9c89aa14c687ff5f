//! Tables made, changed, emptied and dropped.
//!
//! Every change follows one order: lock the table (TM X), take the right to change its definition
//! (H19), read the definition as it stands now, change the rows of the dictionary, note what was
//! touched. All of it belongs to the caller's transaction; a statement that fails half-way is
//! rolled back to its start by the caller.

use std::sync::Arc;

use block::ObjId;
use observe::Ctx;

use super::ddl_alter::insert_check;
use super::ddl_comment::forget_comments;
use super::ddl_foreign::drop_all_foreign_keys;
use super::ddl_index::{add_index, check_index, drop_index_rows, replace_index_segment};
use super::ddl_type::hold_types;
use super::def::{CheckDef, ColumnDef, NewTable, ObjectDef, ObjectKind, SequenceDef, TableDef};
use super::fixed::{Fixed, RESERVED_SCHEMAS};
use super::ids::{next_obj, next_version};
use super::lookup::table_by_obj;
use super::names::{check_name, check_schema, undefined};
use super::records::{
    at, column_values, object_by_name, object_by_obj, object_values, read_sequence, read_table,
    table_values,
};
use super::segments::{drop_at_commit, make_heap};
use super::state::{exclude, newest, of, touch};
use super::store::{self, obj};
use super::times::{Times, noted};
use crate::error::{Error, Result};
use crate::row::{Datum, Value};
use crate::txn::{LockWait, TmMode, Transaction};

/// Most columns a table can have.
pub const COLUMNS_MAX: usize = 1600;

/// Makes a table with its constraints.
///
/// # Errors
/// [`Error::DuplicateObject`], [`Error::Invalid`]; disk full.
pub async fn create_table(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    new: NewTable,
) -> Result<Arc<TableDef>> {
    let object = make_table(ctx, txn, new, ObjectKind::Table).await?;
    own_table(ctx, txn, &object).await
}

/// As [`create_table`], of either kind that has rows.
pub(super) async fn make_table(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    new: NewTable,
    kind: ObjectKind,
) -> Result<ObjectDef> {
    check_schema(ctx, txn, &new.schema).await?;
    check_name(&new.name)?;
    check_columns(&new.columns)?;
    hold_types(ctx, txn, &new.columns).await?;
    for index in &new.indexes {
        check_index(index, &new.columns)?;
    }
    let number = next_obj(ctx, txn.core()).await?;
    let object = add_object(
        ctx,
        txn,
        ObjectDef {
            obj: number,
            owner: new.owner,
            schema: new.schema,
            name: new.name,
            kind,
            acl: None,
            created: txn.core().current_scn(),
            version: 0,
            form: 0,
            times: Times::of_new(ctx),
        },
    )
    .await?;
    let (header, birth) = make_heap(ctx, txn, number).await?;
    let dict = of(txn.core())?;
    let tab = dict.fixed(Fixed::Tab);
    store::insert(ctx, txn, tab, &table_values(number, header, birth)?).await?;
    for (position, column) in new.columns.iter().enumerate() {
        let values = column_values(number, position, column, None)?;
        store::insert(ctx, txn, dict.fixed(Fixed::Col), &values).await?;
    }
    for (name, expr) in new.checks {
        let check = next_obj(ctx, txn.core()).await?;
        insert_check(ctx, txn, number, CheckDef { obj: check, name, expr, valid: true }).await?;
    }
    for index in new.indexes {
        let def = own_table(ctx, txn, &object).await?;
        add_index(ctx, txn, &def, index).await?;
    }
    Ok(object)
}

pub(super) fn check_columns(columns: &[ColumnDef]) -> Result<()> {
    if columns.len() > COLUMNS_MAX {
        let text = format!("tables can have at most {COLUMNS_MAX} columns");
        return Err(Error::Raised { sqlstate: "54011", text });
    }
    for (i, column) in columns.iter().enumerate() {
        check_name(&column.name)?;
        if columns[..i].iter().any(|other| other.name == column.name) {
            let what = format!("column \"{}\"", column.name);
            return Err(Error::DuplicateObject(what));
        }
    }
    Ok(())
}

/// Enters an object into `obj$`, with its first version, and notes that the transaction has
/// touched it.
pub(super) async fn add_object(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    object: ObjectDef,
) -> Result<ObjectDef> {
    let dict = of(txn.core())?;
    let version = next_version(txn.core());
    let object = ObjectDef { version, form: version, ..object };
    let exists = || Error::DuplicateObject(format!("relation \"{}\"", object.name));
    let snap = newest(txn)?;
    if object_by_name(ctx, dict, &snap, &object.schema, &object.name).await?.is_some() {
        return Err(exists());
    }
    exclude(ctx, txn, object.obj).await?;
    // Somebody else may be making the same name at the same time: the unique index decides.
    match store::insert(ctx, txn, dict.fixed(Fixed::Obj), &object_values(&object)?).await {
        Ok(()) => {}
        Err(Error::UniqueViolation { .. }) => return Err(exists()),
        Err(e) => return Err(e),
    }
    touch_object(txn, &object)?;
    Ok(object)
}

/// Notes that the transaction has changed the object.
pub(super) fn touch_object(txn: &Arc<Transaction>, object: &ObjectDef) -> Result<()> {
    touch(txn, |touched| {
        touched.objects.insert(object.obj, None);
        touched.names.insert((object.schema.clone(), object.name.clone()));
    })
}

/// The table as the transaction sees it now.
pub(super) async fn own_table(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    object: &ObjectDef,
) -> Result<Arc<TableDef>> {
    table_by_obj(ctx, txn, object.obj).await?.ok_or_else(|| undefined("relation", &object.name))
}

/// Locks the table against everybody in `mode`, takes the right to change its definition and reads
/// it as it stands under the lock.
pub(super) async fn lock_for_ddl(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    table: &TableDef,
    mode: TmMode,
) -> Result<(ObjectDef, TableDef)> {
    if RESERVED_SCHEMAS.contains(&table.schema.as_str()) {
        let what = format!("permission denied: \"{}\" is a system catalog", table.name);
        return Err(Error::Invalid(what));
    }
    let core = txn.core();
    core.lock_table(ctx, txn, table.obj, mode, LockWait::Wait).await?;
    exclude(ctx, txn, table.obj).await?;
    let dict = of(core)?;
    let snap = newest(txn)?;
    let gone = || undefined("relation", &table.name);
    let object = object_by_obj(ctx, dict, &snap, table.obj).await?.ok_or_else(gone)?;
    let def = read_table(ctx, dict, &snap, &object).await?.ok_or_else(gone)?;
    Ok((object, def))
}

/// Gives the object a new version: plans and cached definitions of the old one end with the
/// commit, and statements that change its rows by the old one begin again.
pub(super) async fn new_version(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    object: &ObjectDef,
) -> Result<()> {
    set_version(ctx, txn, object, Renewed::Shape).await
}

/// As [`new_version`], for what does not matter to who changes its rows: they go on.
pub(super) async fn new_plans(ctx: &Ctx, txn: &Arc<Transaction>, object: &ObjectDef) -> Result<()> {
    set_version(ctx, txn, object, Renewed::Rights).await
}

/// As [`new_plans`], for what is no change of the object.
pub(super) async fn new_estimates(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    object: &ObjectDef,
) -> Result<()> {
    set_version(ctx, txn, object, Renewed::Estimates).await
}

/// Why an object gets a new version.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Renewed {
    /// It is made of something else.
    Shape,
    /// Its rows are in other blocks.
    Place,
    Rights,
    Estimates,
}

async fn set_version(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    object: &ObjectDef,
    renewed: Renewed,
) -> Result<()> {
    let core = txn.core();
    let version = i64::try_from(next_version(core))
        .map_err(|_| Error::Invariant("versions are below 2^63".into()))?;
    let mut values = vec![(at::OBJ_VERSION, Value::Int8(version))];
    if matches!(renewed, Renewed::Shape | Renewed::Place) {
        values.push((at::OBJ_FORM, Value::Int8(version)));
    }
    if renewed != Renewed::Estimates {
        values.extend(noted(ctx, at::OBJ_TIMES, renewed == Renewed::Shape));
    }
    let table = of(core)?.fixed(Fixed::Obj);
    let key = [obj(object.obj)];
    let found = store::change(ctx, txn, table, 0, &key, |_| Ok(values.clone())).await?;
    if !found {
        return Err(undefined("relation", &object.name));
    }
    touch_object(txn, object)
}

/// Deletes the object's row in `obj$`.
pub(super) async fn drop_object(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    object: &ObjectDef,
) -> Result<()> {
    delete_all(ctx, txn, Fixed::Obj, 0, object.obj).await?;
    forget_comments(ctx, txn, object.obj).await?;
    touch_object(txn, object)
}

/// Deletes the rows of one object.
pub(super) async fn delete_all(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    from: Fixed,
    index_no: usize,
    number: ObjId,
) -> Result<()> {
    let table = of(txn.core())?.fixed(from);
    let snap = newest(txn)?;
    for row in store::by_key(ctx, &snap, table, index_no, &[obj(number)]).await? {
        store::delete(ctx, txn, table, &snap, &row).await?;
    }
    Ok(())
}

/// Drops a table, its indexes and the sequences that belong to it.
///
/// # Errors
/// [`Error::UndefinedObject`] if somebody else dropped it; what waiting for its users can fail
/// with.
pub async fn drop_table(ctx: &Ctx, txn: &Arc<Transaction>, table: &TableDef) -> Result<()> {
    let (object, def) = lock_for_ddl(ctx, txn, table, TmMode::X).await?;
    drop_all_foreign_keys(ctx, txn, &def).await?;
    for index in def.all_indexes() {
        drop_index_rows(ctx, txn, &def, index).await?;
    }
    for sequence in owned_sequences(ctx, txn, def.obj).await? {
        super::ddl_other::drop_sequence(ctx, txn, &sequence).await?;
    }
    for check in &def.checks {
        forget_comments(ctx, txn, check.obj).await?;
    }
    for table in [Fixed::Con, Fixed::TabStat, Fixed::ColStat] {
        delete_all(ctx, txn, table, 0, def.obj).await?;
    }
    if def.materialized.is_some() {
        super::ddl_view::delete_query(ctx, txn, def.obj).await?;
    }
    delete_all(ctx, txn, Fixed::Col, 0, def.obj).await?;
    delete_all(ctx, txn, Fixed::Tab, 0, def.obj).await?;
    drop_object(ctx, txn, &object).await?;
    let (core, number) = (Arc::clone(txn.core()), def.obj);
    txn.on_commit(Box::new(move || super::state::forget_changes(&core, number)));
    drop_at_commit(ctx, txn, def.obj, def.header, def.birth).await
}

async fn owned_sequences(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    table: ObjId,
) -> Result<Vec<SequenceDef>> {
    let dict = of(txn.core())?;
    let snap = newest(txn)?;
    let mut owned = Vec::new();
    for row in store::all(ctx, &snap, dict.fixed(Fixed::Seq)).await? {
        if row.obj_or_null(at::SEQ_TABLE)? != Some(table) {
            continue;
        }
        if let Some(object) = object_by_obj(ctx, dict, &snap, row.obj(0)?).await? {
            owned.extend(read_sequence(ctx, dict, &snap, &object).await?);
        }
    }
    Ok(owned)
}

/// Empties a table: it gets new segments, the old ones are freed once the transaction has
/// committed. Snapshots taken before can no longer read it (H20).
///
/// # Errors
/// As [`drop_table`]; disk full.
pub async fn truncate_table(ctx: &Ctx, txn: &Arc<Transaction>, table: &TableDef) -> Result<()> {
    let (object, def) = lock_for_ddl(ctx, txn, table, TmMode::X).await?;
    replace_segments(ctx, txn, &def).await?;
    super::statistics::clear_statistics(ctx, txn, &def).await?;
    set_version(ctx, txn, &object, Renewed::Place).await
}

/// Empty segments for a locked table and its indexes; the old ones go at commit. The caller gives
/// the table a new version.
pub(super) async fn replace_segments(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &TableDef,
) -> Result<()> {
    let (header, birth) = make_heap(ctx, txn, def.obj).await?;
    let new = table_values(def.obj, header, birth)?;
    let changes: Vec<(usize, Value)> =
        [at::TAB_HEADER, at::TAB_BIRTH].into_iter().map(|i| (i, new[i].to_value())).collect();
    let tab = of(txn.core())?.fixed(Fixed::Tab);
    store::change(ctx, txn, tab, 0, &[obj(def.obj)], |_| Ok(changes.clone())).await?;
    drop_at_commit(ctx, txn, def.obj, def.header, def.birth).await?;
    for index in def.all_indexes() {
        replace_index_segment(ctx, txn, index).await?;
    }
    Ok(())
}

pub(super) async fn write_not_null(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    number: ObjId,
    position: usize,
    not_null: bool,
) -> Result<()> {
    let table = of(txn.core())?.fixed(Fixed::Col);
    let key: [Datum<'_>; 2] = [obj(number), store::int4(position)?];
    store::change(ctx, txn, table, 0, &key, |_| {
        Ok(vec![(at::COL_NOT_NULL, Value::Bool(not_null))])
    })
    .await?;
    Ok(())
}
