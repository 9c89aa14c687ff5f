//! Tables altered: their columns and names.
//!
//! The same order as in `ddl`: TM X, the right to change the definition, the definition as it
//! stands, then rows of the dictionary. What the rows of the table itself must become is the
//! caller's: whoever asks for new segments fills them.

use std::sync::Arc;

use block::ObjId;
use observe::Ctx;

use super::ddl::{
    check_columns, delete_all, lock_for_ddl, new_version, own_table, replace_segments, touch_object,
};
use super::ddl_comment::forget_comments;
use super::ddl_foreign::move_foreign_keys;
use super::ddl_index::{check_unreferenced, drop_index_rows};
use super::ddl_type::hold_types;
use super::def::{AlteredColumn, CheckDef, ColumnDef, ObjectDef, TableDef};
use super::expression::{KEY_EXPR, KeyExpr, expr_bytes};
use super::fixed::Fixed;
use super::ids::next_obj;
use super::index::{Included, IndexDef};
use super::names::{check_name, undefined};
use super::records::{
    at, check_values, column_values, key_list, object_by_name, object_by_obj, predicate_bytes,
};
use super::state::{newest, of};
use super::statistics::move_statistics;
use super::store::{self, obj};
use super::times::noted;
use crate::error::{Error, Result};
use crate::row::{Datum, TypeKind, Value};
use crate::txn::{TmMode, Transaction};

/// Locks the table against everybody and gives its definition as it stands under the lock.
///
/// # Errors
/// [`Error::UndefinedObject`] if somebody else dropped it; what waiting for its users can fail
/// with.
pub async fn lock_definition(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    table: &TableDef,
) -> Result<Arc<TableDef>> {
    let (_, def) = lock_for_ddl(ctx, txn, table, TmMode::X).await?;
    Ok(Arc::new(def))
}

/// Gives the table other columns. An index goes with a column of its key. With `rewrite` the table
/// and its indexes get new, empty segments, which the caller fills from those of the old
/// definition; without it all columns stay in their places and new ones come at the end.
///
/// # Errors
/// As [`lock_definition`]; [`Error::DuplicateObject`], [`Error::Invalid`]; disk full.
pub async fn alter_columns(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    table: &TableDef,
    columns: Vec<AlteredColumn>,
    rewrite: bool,
) -> Result<Arc<TableDef>> {
    let (object, def) = lock_for_ddl(ctx, txn, table, TmMode::X).await?;
    if !rewrite && !in_place(&def, &columns) {
        return Err(Error::Invariant("columns move only with a rewrite".into()));
    }
    let moved = |old: u16| {
        let new = columns.iter().position(|column| column.from == Some(usize::from(old)));
        new.and_then(|new| u16::try_from(new).ok())
    };
    for index in def.all_indexes() {
        let predicate = index.predicate.as_ref().map(|condition| condition.moved(&moved));
        if let Some(None) = predicate {
            // It goes with a column that its predicate names.
            drop_index_rows(ctx, txn, &def, index).await?;
            continue;
        }
        if let Some(Some(new)) = predicate.filter(|new| *new != index.predicate) {
            let bytes = Value::Bytea(predicate_bytes(&new).into());
            change_index(ctx, txn, index, vec![(at::IND_PREDICATE, bytes)]).await?;
        }
        let all = |columns: &[u16]| -> Option<Vec<u16>> {
            let place = |old: &u16| if *old < KEY_EXPR { moved(*old) } else { Some(*old) };
            columns.iter().map(place).collect()
        };
        let exprs = index
            .exprs
            .iter()
            .map(|expr| Some(KeyExpr { columns: all(&expr.columns)?, ..expr.clone() }));
        let Some(exprs) = exprs.collect::<Option<Vec<KeyExpr>>>() else {
            // It goes with a column that an expression of its key names.
            drop_index_rows(ctx, txn, &def, index).await?;
            continue;
        };
        if exprs != index.exprs {
            change_index(ctx, txn, index, vec![(at::IND_EXPRS, exprs_value(&exprs))]).await?;
        }
        match (all(index.key_columns()), all(&index.included.columns)) {
            (Some(keys), Some(columns)) => {
                let included = Included { columns, stored: index.included.stored };
                if keys != index.key_columns() || included != index.included {
                    let list =
                        Value::Text(key_list(index.kind, &keys, &index.orders, &included).into());
                    change_index(ctx, txn, index, vec![(at::IND_COLUMNS, list)]).await?;
                }
            }
            _ => {
                check_unreferenced(&def, index)?;
                drop_index_rows(ctx, txn, &def, index).await?;
            }
        }
    }
    move_foreign_keys(ctx, txn, &def, &moved).await?;
    move_statistics(ctx, txn, &def, &columns).await?;
    let mut defs: Vec<ColumnDef> = columns.into_iter().map(|column| column.def).collect();
    if rewrite {
        // Every row gets a value of its own.
        defs.iter_mut().for_each(|def| def.missing = None);
    }
    check_columns(&defs)?;
    hold_types(ctx, txn, &defs).await?;
    delete_all(ctx, txn, Fixed::Col, 0, def.obj).await?;
    for (position, column) in defs.iter().enumerate() {
        let acl = column.acl.as_ref().map(ToString::to_string);
        let values = column_values(def.obj, position, column, acl.as_deref())?;
        store::insert(ctx, txn, of(txn.core())?.fixed(Fixed::Col), &values).await?;
    }
    touch_object(txn, &object)?;
    if rewrite {
        let now = own_table(ctx, txn, &object).await?;
        replace_segments(ctx, txn, &now).await?;
    }
    new_version(ctx, txn, &object).await?;
    own_table(ctx, txn, &object).await
}

fn in_place(def: &TableDef, columns: &[AlteredColumn]) -> bool {
    columns.len() >= def.columns.len()
        && columns.iter().enumerate().all(|(i, column)| match def.columns.get(i) {
            Some(old) => {
                let (new, old) = (column.def.ty, old.ty);
                let same = new.kind == old.kind && (new.kind != TypeKind::Enum || new == old);
                column.from == Some(i) && same
            }
            None => column.from.is_none(),
        })
}

fn exprs_value(exprs: &[KeyExpr]) -> Value {
    expr_bytes(exprs).map_or(Value::Null, |bytes| Value::Bytea(bytes.into()))
}

/// Gives an index on expressions others in their places, which mean the same in the table as it is
/// now: a column has got another name, or another type.
///
/// # Errors
/// As [`lock_definition`].
pub async fn set_index_expressions(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    table: &TableDef,
    index: &IndexDef,
    exprs: &[KeyExpr],
) -> Result<Arc<TableDef>> {
    let (object, def) = lock_for_ddl(ctx, txn, table, TmMode::X).await?;
    let known = def.computed.iter().find(|known| known.obj == index.obj);
    let known = known.filter(|known| known.exprs.len() == exprs.len());
    let known = known.ok_or_else(|| undefined("index", &index.name))?;
    if known.exprs.iter().zip(exprs).any(|(old, new)| old.ty != new.ty) {
        // What is known of its values is of the old types.
        delete_all(ctx, txn, Fixed::ColStat, 0, known.obj).await?;
    }
    change_index(ctx, txn, known, vec![(at::IND_EXPRS, exprs_value(exprs))]).await?;
    new_version(ctx, txn, &object).await?;
    own_table(ctx, txn, &object).await
}

async fn change_index(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    index: &IndexDef,
    changes: Vec<(usize, Value)>,
) -> Result<()> {
    let table = of(txn.core())?.fixed(Fixed::Ind);
    store::change(ctx, txn, table, 0, &[obj(index.obj)], |_| Ok(changes.clone())).await?;
    Ok(())
}

/// Gives an object another name, which the transaction has then touched too.
pub(super) async fn rename_object(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    object: &ObjectDef,
    name: &str,
) -> Result<()> {
    check_name(name)?;
    let dict = of(txn.core())?;
    let exists = || Error::DuplicateObject(format!("relation \"{name}\""));
    let snap = newest(txn)?;
    if object_by_name(ctx, dict, &snap, &object.schema, name).await?.is_some() {
        return Err(exists());
    }
    touch_object(txn, object)?;
    let mut changes = vec![(at::OBJ_NAME, Value::Text(name.into()))];
    changes.extend(noted(ctx, at::OBJ_TIMES, false));
    let table = dict.fixed(Fixed::Obj);
    let key = [obj(object.obj)];
    match store::change(ctx, txn, table, 0, &key, |_| Ok(changes.clone())).await {
        Ok(true) => {}
        Ok(false) => return Err(undefined("relation", &object.name)),
        // Somebody else made the same name at the same time: the unique index decides.
        Err(Error::UniqueViolation { .. }) => return Err(exists()),
        Err(e) => return Err(e),
    }
    touch_object(txn, &ObjectDef { name: name.to_owned(), ..object.clone() })
}

/// Gives a table another name.
///
/// # Errors
/// As [`lock_definition`]; [`Error::DuplicateObject`] if the name is taken, [`Error::Invalid`].
pub async fn rename_table(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    table: &TableDef,
    name: &str,
) -> Result<()> {
    let (object, _) = lock_for_ddl(ctx, txn, table, TmMode::X).await?;
    rename_object(ctx, txn, &object, name).await?;
    new_version(ctx, txn, &object).await
}

/// Gives an index another name, and the constraint that stands on it.
///
/// # Errors
/// As [`rename_table`].
pub async fn rename_index(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    table: &TableDef,
    index: &IndexDef,
    name: &str,
) -> Result<()> {
    let (owner, def) = lock_for_ddl(ctx, txn, table, TmMode::X).await?;
    let gone = || undefined("index", &index.name);
    let known = def.all_indexes().find(|known| known.obj == index.obj).ok_or_else(gone)?;
    let snap = newest(txn)?;
    let object = object_by_obj(ctx, of(txn.core())?, &snap, index.obj).await?;
    rename_object(ctx, txn, &object.ok_or_else(gone)?, name).await?;
    if known.constraint.is_some() {
        let changes = vec![(at::IND_CONSTRAINT, Value::Text(name.into()))];
        change_index(ctx, txn, known, changes).await?;
    }
    new_version(ctx, txn, &owner).await
}

/// The table is locked, or this transaction's own.
pub(super) async fn insert_check(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    table: ObjId,
    def: CheckDef,
) -> Result<()> {
    check_name(&def.name)?;
    let con = of(txn.core())?.fixed(Fixed::Con);
    match store::insert(ctx, txn, con, &check_values(table, &def)).await {
        Err(Error::UniqueViolation { .. }) => {
            Err(Error::DuplicateObject(format!("constraint \"{}\"", def.name)))
        }
        done => done,
    }
}

/// Replaces the table's CHECK constraint of that name (`old`), or adds or drops one: name, text,
/// and whether the rows meet it, which is the caller's to see under the same lock.
///
/// # Errors
/// As [`lock_definition`]; [`Error::DuplicateObject`] if the new name is taken.
pub async fn set_check(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    table: &TableDef,
    old: Option<&str>,
    new: Option<(String, String, bool)>,
) -> Result<Arc<TableDef>> {
    let (object, def) = lock_for_ddl(ctx, txn, table, TmMode::X).await?;
    let mut number = None;
    if let Some(name) = old {
        let con = of(txn.core())?.fixed(Fixed::Con);
        let snap = newest(txn)?;
        let key = [obj(def.obj), Datum::Text(name)];
        let row = store::one(ctx, &snap, con, 0, &key).await?;
        let row = row.ok_or_else(|| undefined("constraint", name))?;
        store::delete(ctx, txn, con, &snap, &row).await?;
        number = Some(row.obj(2)?);
    }
    match (new, number) {
        (Some((name, expr, valid)), number) => {
            let obj = match number {
                Some(number) => number,
                None => next_obj(ctx, txn.core()).await?,
            };
            insert_check(ctx, txn, def.obj, CheckDef { obj, name, expr, valid }).await?;
        }
        (None, Some(number)) => forget_comments(ctx, txn, number).await?,
        (None, None) => {}
    }
    new_version(ctx, txn, &object).await?;
    own_table(ctx, txn, &object).await
}

/// Says what a table, or the column at a position, is for; `None` takes it back.
///
/// # Errors
/// As [`lock_definition`].
pub async fn set_comment(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    table: &TableDef,
    column: Option<usize>,
    comment: Option<&str>,
) -> Result<()> {
    let (object, def) = lock_for_ddl(ctx, txn, table, TmMode::X).await?;
    let dict = of(txn.core())?;
    let text = comment.map_or(Value::Null, |text| Value::Text(text.into()));
    let found = match column {
        None => {
            let changes = vec![(at::TAB_COMMENT, text)];
            let (tab, key) = (dict.fixed(Fixed::Tab), [obj(def.obj)]);
            store::change(ctx, txn, tab, 0, &key, |_| Ok(changes.clone())).await?
        }
        Some(position) => {
            let changes = vec![(at::COL_COMMENT, text)];
            let (col, key) = (dict.fixed(Fixed::Col), [obj(def.obj), store::int4(position)?]);
            store::change(ctx, txn, col, 0, &key, |_| Ok(changes.clone())).await?
        }
    };
    if !found {
        return Err(undefined("relation", &def.name));
    }
    new_version(ctx, txn, &object).await
}
