//! Enum types made, changed and dropped.
//!
//! All types are one definition, as the schemas are: together they decide what a name means.
//! A change of a type gives new versions to the tables and views with columns of it, whose
//! definitions hold the labels. Who makes such a column holds the type in SS until its transaction
//! has ended; who changes the type has it in X, and so knows all of them.

use std::sync::Arc;

use block::ObjId;
use observe::Ctx;

use super::acl::Acl;
use super::ddl::{delete_all, new_version};
use super::ddl_routine::routines_of_type;
use super::ddl_schema::change_list_of;
use super::def::{ColumnDef, TypeDef, Types};
use super::fixed::{Fixed, ROUTINES_OBJ, ROUTINES_VERSION, TYPES_OBJ, TYPES_VERSION};
use super::ids::next_obj;
use super::lists::types;
use super::names::{check_name, check_schema, undefined};
use super::records::{acl_of, acl_value, at, object_by_name, object_by_obj};
use super::state::{exclude, newest, of, touch};
use super::store::{self, obj};
use super::times::{Times, noted};
use crate::error::{Error, Result};
use crate::row::{Datum, EnumPlace, EnumType, TypeKind, Value};
use crate::txn::{LockWait, TmMode, Transaction};

/// What [`alter_type`] does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TypeChange<'a> {
    AddValue(&'a str, EnumPlace<'a>),
    /// From, to.
    RenameValue(&'a str, &'a str),
    Rename(&'a str),
    Schema(&'a str),
    Owner(ObjId),
    Comment(Option<&'a str>),
}

fn touch_types(txn: &Arc<Transaction>) -> Result<()> {
    touch(txn, |touched| {
        touched.objects.insert(TYPES_OBJ, None);
    })
}

fn exists(name: &str) -> Error {
    Error::DuplicateObject(format!("type \"{name}\""))
}

/// Makes an enum type with labels in this order.
///
/// # Errors
/// [`Error::DuplicateObject`], [`Error::Invalid`].
pub async fn create_type(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    (schema, name): (&str, &str),
    owner: ObjId,
    labels: &[String],
) -> Result<ObjId> {
    check_schema(ctx, txn, schema).await?;
    check_name(name)?;
    change_list_of(ctx, txn, TYPES_OBJ, TYPES_VERSION).await?;
    check_free(ctx, txn, schema, name).await?;
    let number = next_obj(ctx, txn.core()).await?;
    let own =
        [obj(number), Datum::Text(schema), Datum::Text(name), obj(owner), Datum::Null, Datum::Null];
    let values: Vec<Datum<'_>> = own.into_iter().chain(Times::of_new(ctx).values()).collect();
    insert(ctx, txn, Fixed::Type, &values, name).await?;
    let mut def = EnumType {
        obj: number,
        schema: schema.to_owned(),
        name: name.to_owned(),
        labels: Vec::new(),
    };
    for text in labels {
        let position = def.position_for(EnumPlace::Last).ok_or_else(no_room)?;
        let label = add_label(ctx, txn, number, position, text).await?;
        def.labels.push(label);
    }
    touch_types(txn)?;
    Ok(number)
}

fn no_room() -> Error {
    Error::Invalid("there is no room for another value at this place of the enum".into())
}

async fn check_free(ctx: &Ctx, txn: &Arc<Transaction>, schema: &str, name: &str) -> Result<()> {
    let known = types(ctx, txn).await?;
    let relation = object_by_name(ctx, of(txn.core())?, &newest(txn)?, schema, name).await?;
    if known.find(schema, name).is_some() || relation.is_some() {
        return Err(exists(name));
    }
    Ok(())
}

async fn insert(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    into: Fixed,
    values: &[Datum<'_>],
    name: &str,
) -> Result<()> {
    match store::insert(ctx, txn, of(txn.core())?.fixed(into), values).await {
        Err(Error::UniqueViolation { .. }) => Err(exists(name)),
        done => done,
    }
}

async fn add_label(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    ty: ObjId,
    position: i64,
    text: &str,
) -> Result<crate::row::EnumLabel> {
    let number = next_obj(ctx, txn.core()).await?;
    let values = [obj(ty), Datum::Int8(position), obj(number), Datum::Text(text)];
    insert(ctx, txn, Fixed::Enum, &values, text).await?;
    Ok(crate::row::EnumLabel { obj: number, position, text: text.to_owned() })
}

/// Locks a type against everybody who uses it in a definition, takes the right to change the list,
/// and gives the type as it stands then.
async fn lock_type(ctx: &Ctx, txn: &Arc<Transaction>, ty: &TypeDef) -> Result<TypeDef> {
    txn.core().lock_table(ctx, txn, ty.obj, TmMode::X, LockWait::Wait).await?;
    change_list_of(ctx, txn, TYPES_OBJ, TYPES_VERSION).await?;
    let now = types(ctx, txn).await?;
    now.by_obj(ty.obj).cloned().ok_or_else(|| undefined("type", &ty.name))
}

/// The tables and views with columns of a type, by number. Whoever has the type in X knows that
/// there are no others.
///
/// # Errors
/// What reading the dictionary's blocks can fail with.
pub async fn type_users(ctx: &Ctx, txn: &Arc<Transaction>, ty: ObjId) -> Result<Vec<ObjId>> {
    let (dict, snap) = (of(txn.core())?, newest(txn)?);
    let mut users = Vec::new();
    for row in store::all(ctx, &snap, dict.fixed(Fixed::Col)).await? {
        let is_enum = row.int(at::COL_TYPE)? == i64::from(TypeKind::Enum.code());
        if is_enum && row.int4(at::COL_MODIFIER)?.cast_unsigned() == ty.0 {
            users.push(row.obj(0)?);
        }
    }
    users.sort_unstable();
    users.dedup();
    Ok(users)
}

/// New versions for what has columns of the type, and with them for the plans that work on it.
async fn renew_users(ctx: &Ctx, txn: &Arc<Transaction>, ty: ObjId) -> Result<()> {
    for number in type_users(ctx, txn, ty).await? {
        txn.core().lock_table(ctx, txn, number, TmMode::SS, LockWait::Wait).await?;
        exclude(ctx, txn, number).await?;
        let object = object_by_obj(ctx, of(txn.core())?, &newest(txn)?, number).await?;
        if let Some(object) = object {
            new_version(ctx, txn, &object).await?;
        }
    }
    Ok(())
}

/// Changes a type.
///
/// # Errors
/// [`Error::UndefinedObject`] if somebody else dropped it; [`Error::DuplicateObject`] if a name or
/// a label is taken; [`Error::Invalid`] if there is no room for a label.
pub async fn alter_type(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    ty: &TypeDef,
    change: TypeChange<'_>,
) -> Result<()> {
    if let TypeChange::Schema(schema) = change {
        check_schema(ctx, txn, schema).await?;
    }
    let ty = lock_type(ctx, txn, ty).await?;
    let text = |text: &str| Value::Text(text.into());
    match change {
        TypeChange::AddValue(label, place) => {
            let position = ty.def().position_for(place).ok_or_else(no_room)?;
            if ty.def().find(label).is_some() {
                return Err(exists(label));
            }
            add_label(ctx, txn, ty.obj, position, label).await?;
        }
        TypeChange::RenameValue(from, to) => {
            let missing = || undefined("enum label", from);
            let position = ty.def().find(from).ok_or_else(missing)?.position;
            let table = of(txn.core())?.fixed(Fixed::Enum);
            let key = [obj(ty.obj), Datum::Int8(position)];
            store::change(ctx, txn, table, 0, &key, |_| Ok(vec![(at::ENUM_LABEL, text(to))]))
                .await?;
        }
        TypeChange::Rename(name) => {
            check_name(name)?;
            check_free(ctx, txn, &ty.schema, name).await?;
            change_row(ctx, txn, &ty, vec![(at::TYPE_NAME, text(name))]).await?;
        }
        TypeChange::Schema(schema) => {
            check_free(ctx, txn, schema, &ty.name).await?;
            change_row(ctx, txn, &ty, vec![(at::TYPE_SCHEMA, text(schema))]).await?;
        }
        TypeChange::Owner(owner) => {
            let acl = ty.acl.as_ref().map(|acl| acl.with_owner(ty.owner, owner));
            let number = Value::Int8(i64::from(owner.0));
            let changes = vec![(at::TYPE_OWNER, number), (at::TYPE_ACL, acl_value(acl.as_ref()))];
            change_row(ctx, txn, &ty, changes).await?;
        }
        TypeChange::Comment(comment) => {
            let comment = comment.map_or(Value::Null, text);
            change_row(ctx, txn, &ty, vec![(at::TYPE_COMMENT, comment)]).await?;
        }
    }
    if !matches!(change, TypeChange::Comment(_)) {
        let is_shape = matches!(change, TypeChange::AddValue(..) | TypeChange::RenameValue(..));
        change_row(ctx, txn, &ty, noted(ctx, at::TYPE_TIMES, is_shape)).await?;
    }
    touch_types(txn)?;
    match change {
        TypeChange::Owner(_) | TypeChange::Comment(_) => Ok(()),
        _ => {
            if !routines_of_type(ctx, txn, ty.obj).await?.is_empty() {
                change_list_of(ctx, txn, ROUTINES_OBJ, ROUTINES_VERSION).await?;
            }
            renew_users(ctx, txn, ty.obj).await
        }
    }
}

async fn change_row(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    ty: &TypeDef,
    changes: Vec<(usize, Value)>,
) -> Result<()> {
    let table = of(txn.core())?.fixed(Fixed::Type);
    store::change(ctx, txn, table, 0, &[obj(ty.obj)], |_| Ok(changes.clone())).await?;
    Ok(())
}

/// Replaces the rights on a type.
pub(super) async fn change_type_acl(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    number: ObjId,
    change: &mut (impl FnMut(Option<Acl>) -> Option<Acl> + Send),
) -> Result<()> {
    change_list_of(ctx, txn, TYPES_OBJ, TYPES_VERSION).await?;
    let table = of(txn.core())?.fixed(Fixed::Type);
    let found = store::change(ctx, txn, table, 0, &[obj(number)], |row| {
        let new = change(acl_of(row, at::TYPE_ACL)?);
        let mut changes = noted(ctx, at::TYPE_TIMES, false);
        changes.push((at::TYPE_ACL, acl_value(new.as_ref())));
        Ok(changes)
    })
    .await?;
    touch_types(txn)?;
    if found { Ok(()) } else { Err(undefined("type", &number.0.to_string())) }
}

/// Locks a type against everybody who would use it in a definition: what uses it stays known.
///
/// # Errors
/// [`Error::UndefinedObject`] if somebody else dropped it.
pub async fn lock_type_users(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    ty: &TypeDef,
) -> Result<Vec<ObjId>> {
    lock_type(ctx, txn, ty).await?;
    type_users(ctx, txn, ty.obj).await
}

/// Drops a type, of which there must be no columns by then.
///
/// # Errors
/// [`Error::UndefinedObject`]; [`Error::DependentObjects`].
pub async fn drop_type(ctx: &Ctx, txn: &Arc<Transaction>, ty: &TypeDef) -> Result<()> {
    let ty = lock_type(ctx, txn, ty).await?;
    let used = !type_users(ctx, txn, ty.obj).await?.is_empty()
        || !routines_of_type(ctx, txn, ty.obj).await?.is_empty();
    if used {
        let what = format!("cannot drop type {} because other objects depend on it", ty.name);
        return Err(Error::DependentObjects(what));
    }
    delete_all(ctx, txn, Fixed::Enum, 0, ty.obj).await?;
    delete_all(ctx, txn, Fixed::Type, 0, ty.obj).await?;
    touch_types(txn)
}

/// Drops all types of a schema; what had columns of them is gone.
pub(super) async fn drop_types_in(ctx: &Ctx, txn: &Arc<Transaction>, schema: &str) -> Result<()> {
    let known = types(ctx, txn).await?;
    for ty in known.all.iter().filter(|ty| ty.schema == schema) {
        drop_type(ctx, txn, ty).await?;
    }
    Ok(())
}

/// Keeps the types of columns as they are until the transaction has ended.
pub(super) async fn hold_types(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    columns: &[ColumnDef],
) -> Result<()> {
    for column in columns {
        let Some(def) = column.ty.enum_type() else { continue };
        txn.core().lock_table(ctx, txn, def.obj, TmMode::SS, LockWait::Wait).await?;
        let known: Arc<Types> = types(ctx, txn).await?;
        if known.by_obj(def.obj).is_none_or(|now| now.ty != column.ty) {
            return Err(Error::ObjectGone);
        }
    }
    Ok(())
}
