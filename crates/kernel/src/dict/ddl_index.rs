//! Indexes and the constraints behind them.

use std::sync::Arc;

use block::bytes::ByteList;
use observe::{Ctx, Operation, Target};

use super::ddl::{add_object, delete_all, drop_object, lock_for_ddl, new_version, write_not_null};
use super::def::{ColumnDef, Derived, NewIndex, ObjectDef, ObjectKind, TableDef};
use super::expression::{KEY_EXPR, expr_bytes};
use super::fixed::Fixed;
use super::ids::next_obj;
use super::index::{IndexDef, IndexKind};
use super::lookup::table_by_obj;
use super::names::{check_name, undefined};
use super::records::{at, index_values, key_list, object_by_name, object_by_obj, predicate_bytes};
use super::segments::{drop_at_commit, make_index};
use super::state::{newest, of};
use super::store::{self, obj};
use super::times::Times;
use crate::btree::{Builder, IndexSeg};
use crate::error::{Error, Result};
use crate::row::{RowView, Value};
use crate::table;
use crate::txn::{TmMode, Transaction};

/// Most columns of an index.
pub const INDEX_COLUMNS_MAX: usize = 32;

pub(super) fn check_index(index: &NewIndex, columns: &[ColumnDef]) -> Result<()> {
    check_name(&index.name)?;
    let beside = if index.included.stored { 0 } else { index.included.columns.len() };
    if index.columns.is_empty() || index.columns.len() + beside > INDEX_COLUMNS_MAX {
        let what = format!("an index has 1 to {INDEX_COLUMNS_MAX} columns");
        return Err(Error::Invalid(what));
    }
    for (i, position) in index.columns.iter().enumerate() {
        if let Some(at) = position.checked_sub(KEY_EXPR) {
            if usize::from(at) >= index.exprs.len() || index.primary {
                return Err(Error::Invariant(format!("no expression {at} for an index")));
            }
            continue;
        }
        let Some(column) = columns.get(usize::from(*position)) else {
            return Err(Error::Invariant(format!("no column {position} for an index")));
        };
        if index.columns[..i].contains(position) {
            let what = format!("column \"{}\" appears twice in an index", column.name);
            return Err(Error::Invalid(what));
        }
    }
    let mut named = index.included.columns.clone();
    if let Some(predicate) = &index.predicate {
        predicate.columns(&mut named);
    }
    named.extend(index.exprs.iter().flat_map(|expr| &expr.columns));
    if named.iter().any(|at| columns.get(usize::from(*at)).is_none()) {
        return Err(Error::Invariant("a predicate on a column that is not there".into()));
    }
    if index.kind == IndexKind::Bitmap && index.unique {
        return Err(Error::Invariant("a bitmap index is not unique".into()));
    }
    if index.primary && !index.unique {
        return Err(Error::Invariant("a primary key is unique".into()));
    }
    Ok(())
}

/// Makes an index and fills it from the table. A primary key makes its columns NOT NULL.
///
/// # Errors
/// [`Error::UniqueViolation`], [`Error::NullValue`] from the rows; [`Error::DuplicateObject`],
/// [`Error::Invalid`]; what waiting for the table's changers can fail with; disk full.
pub async fn create_index(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    table: &TableDef,
    new: NewIndex,
) -> Result<()> {
    // Changers of rows wait until the commit, so every row they add is also added to the index. A
    // primary key changes columns too.
    let mode = if new.primary { TmMode::X } else { TmMode::S };
    let (_, def) = lock_for_ddl(ctx, txn, table, mode).await?;
    check_index(&new, &def.columns)?;
    add_index(ctx, txn, &def, new).await
}

/// The table is locked, or this transaction's own.
pub(super) async fn add_index(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &TableDef,
    new: NewIndex,
) -> Result<()> {
    if new.primary && def.primary_key().is_some() {
        return Err(Error::Invalid(format!(
            "multiple primary keys for table \"{}\" are not allowed",
            def.name
        )));
    }
    let core = txn.core();
    let object = ObjectDef {
        obj: next_obj(ctx, core).await?,
        owner: def.owner,
        schema: def.schema.clone(),
        name: new.name.clone(),
        kind: ObjectKind::Index,
        acl: None,
        created: core.current_scn(),
        version: 0,
        form: 0,
        times: Times::of_new(ctx),
    };
    let object = add_object(ctx, txn, object).await?;
    if new.primary {
        let positions: Vec<usize> = new.columns.iter().map(|c| usize::from(*c)).collect();
        check_no_nulls(ctx, txn, def, &positions).await?;
        for position in positions.into_iter().filter(|i| !def.columns[*i].not_null) {
            write_not_null(ctx, txn, def.obj, position, true).await?;
        }
    }
    let seg = make_index(ctx, txn, object.obj, new.kind, new.unique).await?;
    let index = IndexDef {
        kind: new.kind,
        obj: object.obj,
        name: new.name,
        table: def.obj,
        columns: new.columns,
        included: new.included,
        orders: new.orders,
        unique: new.unique,
        primary: new.primary,
        constraint: new.constraint,
        header: seg.header,
        root: seg.root,
        birth: seg.birth,
        predicate: new.predicate,
        exprs: new.exprs,
        evaluator: of(core)?.evaluator(),
        derived: Derived::default(),
    };
    fill(ctx, txn, def, &index, seg).await?;
    let columns = key_list(index.kind, index.key_columns(), &index.orders, &index.included);
    let predicate = index.predicate.as_ref().map(predicate_bytes);
    let exprs = expr_bytes(&index.exprs);
    let values = index_values(&index, &columns, predicate.as_deref(), exprs.as_deref())?;
    store::insert(ctx, txn, of(core)?.fixed(Fixed::Ind), &values).await?;
    let snap = newest(txn)?;
    let owner = object_by_obj(ctx, of(core)?, &snap, def.obj).await?;
    new_version(ctx, txn, &owner.ok_or_else(|| undefined("relation", &def.name))?).await
}

/// Enters all rows that the transaction sees; there are no others, the table is locked.
async fn fill(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &TableDef,
    index: &IndexDef,
    seg: IndexSeg,
) -> Result<()> {
    let snap = newest(txn)?;
    let mut builder = Builder::new(txn, seg);
    let scan = table::scan(ctx, def, &snap).await?;
    // The root is written when all else is.
    let work = (scan.blocks() + 1, "Blocks");
    let target = Target::object(&def.schema, &index.name);
    let operation = Arc::new(Operation::begin(ctx, "Index Build", target, work));
    let mut scan = scan.telling(Some(operation.clone()));
    let (mut rows, mut rowids, mut entries) = (ByteList::new(), Vec::new(), Vec::new());
    let named = |e| match e {
        Error::UniqueViolation { key, .. } => {
            let index = index.constraint.clone().unwrap_or_else(|| index.name.clone());
            Error::UniqueViolation { index, key, row: Vec::new() }
        }
        e => e,
    };
    loop {
        let more = scan
            .next_block(ctx, |rowid, row| {
                rows.push(row);
                rowids.push(rowid);
            })
            .await?;
        let all = rows.iter().zip(rowids.drain(..));
        table::entries(def, index, all, |_, key, rowid| entries.push((key.to_vec(), rowid)))?;
        rows.clear();
        for (key, rowid) in entries.drain(..) {
            builder.add(ctx, &key, rowid).await.map_err(named)?;
        }
        if !more {
            builder.finish(ctx).await.map_err(named)?;
            operation.end(ctx);
            return Ok(());
        }
    }
}

/// Looks for a NULL in these columns.
pub(super) async fn check_no_nulls(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &TableDef,
    positions: &[usize],
) -> Result<()> {
    let open: Vec<usize> =
        positions.iter().copied().filter(|i| !def.columns[*i].not_null).collect();
    if open.is_empty() {
        return Ok(());
    }
    let snap = newest(txn)?;
    let mut scan = table::scan(ctx, def, &snap).await?;
    let mut found = None;
    loop {
        let more = scan
            .next_block(ctx, |_, row| {
                let view = RowView::new(&def.types, row);
                found = found.or_else(|| open.iter().copied().find(|i| view.is_null(*i)));
            })
            .await?;
        if let Some(i) = found {
            let (table, column) = (def.name.clone(), def.columns[i].name.clone());
            return Err(Error::NullValue { table, column });
        }
        if !more {
            return Ok(());
        }
    }
}

/// Drops an index that no constraint stands on.
///
/// # Errors
/// [`Error::UndefinedObject`]; [`Error::DependentObjects`]; what waiting for the table's users can
/// fail with.
pub async fn drop_index(ctx: &Ctx, txn: &Arc<Transaction>, schema: &str, name: &str) -> Result<()> {
    let dict = of(txn.core())?;
    let missing = || undefined("index", name);
    let snap = newest(txn)?;
    let object = object_by_name(ctx, dict, &snap, schema, name).await?.ok_or_else(missing)?;
    let row = store::one(ctx, &snap, dict.fixed(Fixed::Ind), 0, &[obj(object.obj)]).await?;
    let table = row.ok_or_else(missing)?.obj(1)?;
    let table = table_by_obj(ctx, txn, table).await?.ok_or_else(missing)?;
    let (owner, def) = lock_for_ddl(ctx, txn, &table, TmMode::X).await?;
    let index = def.all_indexes().find(|i| i.obj == object.obj).ok_or_else(missing)?;
    if let Some(constraint) = &index.constraint {
        return Err(Error::DependentObjects(format!(
            "cannot drop index {name} because constraint {constraint} on table {} requires it",
            def.name
        )));
    }
    check_unreferenced(&def, index)?;
    drop_index_rows(ctx, txn, &def, index).await?;
    new_version(ctx, txn, &owner).await
}

/// Drops a primary key or unique constraint with its index.
///
/// # Errors
/// As [`drop_index`].
pub async fn drop_constraint(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    table: &TableDef,
    name: &str,
) -> Result<()> {
    let (owner, def) = lock_for_ddl(ctx, txn, table, TmMode::X).await?;
    let index = def
        .indexes
        .iter()
        .find(|index| index.constraint.as_deref() == Some(name))
        .ok_or_else(|| undefined("constraint", name))?;
    check_unreferenced(&def, index)?;
    drop_index_rows(ctx, txn, &def, index).await?;
    new_version(ctx, txn, &owner).await
}

/// A foreign key needs its index; who drops that drops the key first.
pub(super) fn check_unreferenced(table: &TableDef, index: &IndexDef) -> Result<()> {
    if table.referenced.iter().any(|reference| reference.index == index.obj) {
        let what = format!("a foreign key refers to index {} of {}", index.name, table.name);
        return Err(Error::DependentObjects(what));
    }
    Ok(())
}

/// Deletes the index's rows; its segment goes at commit. The caller gives the table a new version.
pub(super) async fn drop_index_rows(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    table: &TableDef,
    index: &IndexDef,
) -> Result<()> {
    let snap = newest(txn)?;
    let object = object_by_obj(ctx, of(txn.core())?, &snap, index.obj).await?;
    let object = object.ok_or_else(|| undefined("index", &index.name))?;
    if object.schema != table.schema {
        return Err(Error::Invariant(format!("index {} left its schema", index.name)));
    }
    delete_all(ctx, txn, Fixed::Ind, 0, index.obj).await?;
    // What is known of it and of its expressions.
    delete_all(ctx, txn, Fixed::ColStat, 0, index.obj).await?;
    drop_object(ctx, txn, &object).await?;
    drop_at_commit(ctx, txn, index.obj, index.header, index.birth).await
}

/// An empty segment for the index of a truncated table.
pub(super) async fn replace_index_segment(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    index: &IndexDef,
) -> Result<()> {
    let seg = make_index(ctx, txn, index.obj, index.kind, index.unique).await?;
    let new = IndexDef { header: seg.header, root: seg.root, birth: seg.birth, ..index.clone() };
    let columns = key_list(new.kind, new.key_columns(), &new.orders, &new.included);
    let values = index_values(&new, &columns, None, None)?;
    let changes: Vec<(usize, Value)> = [at::IND_HEADER, at::IND_ROOT, at::IND_BIRTH]
        .into_iter()
        .map(|i| (i, values[i].to_value()))
        .collect();
    let table = of(txn.core())?.fixed(Fixed::Ind);
    store::change(ctx, txn, table, 0, &[obj(index.obj)], |_| Ok(changes.clone())).await?;
    drop_at_commit(ctx, txn, index.obj, index.header, index.birth).await
}
