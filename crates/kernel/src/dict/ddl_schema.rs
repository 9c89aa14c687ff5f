//! Schemas made and dropped, and objects moved between them.
//!
//! The list of all schemas is one definition, cached and versioned like a table's, since it decides
//! what a name without a schema means; who changes it has the right to it alone. Who makes an
//! object holds its schema in SS until its transaction has ended, who drops the schema asks for X.

use std::sync::Arc;

use block::ObjId;
use observe::Ctx;

use super::ddl::{drop_table, lock_for_ddl, new_version, touch_object};
use super::ddl_alter::rename_object;
use super::ddl_comment::forget_comments;
use super::ddl_foreign::drop_foreign_key;
use super::ddl_other::drop_sequence;
use super::ddl_routine::drop_routines_in;
use super::ddl_type::drop_types_in;
use super::ddl_view::drop_view;
use super::def::{ObjectDef, ObjectKind, SchemaDef, SequenceDef, TableDef};
use super::fixed::{Fixed, RESERVED_SCHEMAS, SCHEMAS_OBJ, SCHEMAS_VERSION, TEMP_PREFIX};
use super::ids::{next_obj, next_version};
use super::lists::{routines, schemas, types};
use super::lookup::{objects, sequence, table_by_obj};
use super::names::{check_name, check_schema, undefined};
use super::records::{at, object_by_name, object_by_obj, schema_values};
use super::state::{autonomous, exclude, finish, newest, of, touch};
use super::store::{self, obj};
use crate::error::{Error, Result};
use crate::row::{Datum, Value};
use crate::txn::{Core, LockWait, TmMode, Transaction};

/// Takes the right to change a list that is one definition, and gives it a new version, which is in
/// that row of `props$`.
pub(super) async fn change_list_of(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    list: ObjId,
    row: &'static str,
) -> Result<()> {
    exclude(ctx, txn, list).await?;
    let version = next_version(txn.core()).to_string();
    let props = of(txn.core())?.fixed(Fixed::Props);
    // The row's lock keeps two changers on one instance apart.
    let key = [Datum::Text(row)];
    let changes = vec![(1, Value::Text(version.into()))];
    if !store::change(ctx, txn, props, 0, &key, |_| Ok(changes.clone())).await? {
        return Err(Error::Invariant(format!("props$ has no row '{row}'")));
    }
    touch(txn, |touched| {
        touched.objects.insert(list, None);
    })
}

pub(super) async fn change_list(ctx: &Ctx, txn: &Arc<Transaction>) -> Result<()> {
    change_list_of(ctx, txn, SCHEMAS_OBJ, SCHEMAS_VERSION).await
}

/// Makes a schema.
///
/// # Errors
/// [`Error::DuplicateObject`], [`Error::Invalid`].
pub async fn create_schema(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    name: &str,
    owner: ObjId,
) -> Result<()> {
    check_name(name)?;
    let exists = || Error::DuplicateObject(format!("schema \"{name}\""));
    change_list(ctx, txn).await?;
    if RESERVED_SCHEMAS.contains(&name) || schemas(ctx, txn).await?.find(name).is_some() {
        return Err(exists());
    }
    let obj = next_obj(ctx, txn.core()).await?;
    let def = SchemaDef { obj, name: name.to_owned(), owner, acl: None };
    let table = of(txn.core())?.fixed(Fixed::Schema);
    match store::insert(ctx, txn, table, &schema_values(&def, None)).await {
        Err(Error::UniqueViolation { .. }) => Err(exists()),
        done => done,
    }?;
    touch(txn, |touched| {
        touched.objects.insert(SCHEMAS_OBJ, None);
    })
}

/// Locks a schema against everybody and drops it: it must be empty by then.
///
/// # Errors
/// [`Error::UndefinedObject`]; [`Error::DependentObjects`] if something is in it.
pub async fn drop_schema(ctx: &Ctx, txn: &Arc<Transaction>, schema: &SchemaDef) -> Result<()> {
    txn.core().lock_table(ctx, txn, schema.obj, TmMode::X, LockWait::Wait).await?;
    change_list(ctx, txn).await?;
    let gone = || undefined("schema", &schema.name);
    let known = schemas(ctx, txn).await?;
    known.all.iter().find(|known| known.obj == schema.obj).ok_or_else(gone)?;
    let full = objects(ctx, txn).await?.iter().any(|object| object.schema == schema.name)
        || types(ctx, txn).await?.all.iter().any(|ty| ty.schema == schema.name)
        || routines(ctx, txn).await?.all.iter().any(|one| one.schema == schema.name);
    if full {
        let what = format!("cannot drop schema {} because it is not empty", schema.name);
        return Err(Error::DependentObjects(what));
    }
    let (table, snap) = (of(txn.core())?.fixed(Fixed::Schema), newest(txn)?);
    let row = store::one(ctx, &snap, table, 0, &[Datum::Text(&schema.name)]).await?;
    store::delete(ctx, txn, table, &snap, &row.ok_or_else(gone)?).await?;
    forget_comments(ctx, txn, schema.obj).await?;
    touch(txn, |touched| {
        touched.objects.insert(SCHEMAS_OBJ, None);
    })
}

/// Gives a schema another name. What is in it keeps the old one, until the caller moves it.
///
/// # Errors
/// [`Error::DuplicateObject`], [`Error::UndefinedObject`], [`Error::Invalid`].
pub async fn rename_schema(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    schema: &SchemaDef,
    name: &str,
) -> Result<()> {
    check_name(name)?;
    txn.core().lock_table(ctx, txn, schema.obj, TmMode::X, LockWait::Wait).await?;
    change_list(ctx, txn).await?;
    let known = schemas(ctx, txn).await?;
    if RESERVED_SCHEMAS.contains(&name) || known.find(name).is_some() {
        return Err(Error::DuplicateObject(format!("schema \"{name}\"")));
    }
    let table = of(txn.core())?.fixed(Fixed::Schema);
    let changes = vec![(at::SCHEMA_NAME, Value::Text(name.into()))];
    let key = [Datum::Text(&schema.name)];
    if !store::change(ctx, txn, table, 0, &key, |_| Ok(changes.clone())).await? {
        return Err(undefined("schema", &schema.name));
    }
    touch(txn, |touched| {
        touched.objects.insert(SCHEMAS_OBJ, None);
    })
}

async fn move_object(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    object: &ObjectDef,
    schema: &str,
) -> Result<()> {
    let exists = || Error::DuplicateObject(format!("relation \"{}\"", object.name));
    let (dict, snap) = (of(txn.core())?, newest(txn)?);
    if object_by_name(ctx, dict, &snap, schema, &object.name).await?.is_some() {
        return Err(exists());
    }
    touch_object(txn, object)?;
    let changes = vec![(at::OBJ_SCHEMA, Value::Text(schema.into()))];
    let key = [obj(object.obj)];
    match store::change(ctx, txn, dict.fixed(Fixed::Obj), 0, &key, |_| Ok(changes.clone())).await {
        Ok(true) => {}
        Ok(false) => return Err(undefined("relation", &object.name)),
        Err(Error::UniqueViolation { .. }) => return Err(exists()),
        Err(e) => return Err(e),
    }
    let moved = ObjectDef { schema: schema.to_owned(), ..object.clone() };
    new_version(ctx, txn, &moved).await
}

/// Moves a table or a view, with its indexes and the sequences given, to another schema. Defaults
/// that call these are the caller's to change.
///
/// # Errors
/// [`Error::DuplicateObject`] if a name is taken there; [`Error::UndefinedObject`].
pub async fn set_schema(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    table: &TableDef,
    sequences: &[Arc<SequenceDef>],
    schema: &str,
) -> Result<()> {
    check_schema(ctx, txn, schema).await?;
    let (object, def) = lock_for_ddl(ctx, txn, table, TmMode::X).await?;
    let dict = of(txn.core())?;
    move_object(ctx, txn, &object, schema).await?;
    let indexes = def.all_indexes().map(|index| (index.obj, &index.name));
    let owned = sequences.iter().map(|sequence| (sequence.obj, &sequence.name));
    for (number, name) in indexes.chain(owned) {
        exclude(ctx, txn, number).await?;
        let part = object_by_obj(ctx, dict, &newest(txn)?, number).await?;
        move_object(ctx, txn, &part.ok_or_else(|| undefined("relation", name))?, schema).await?;
    }
    Ok(())
}

/// Gives a sequence another name or moves it to another schema. Defaults that call it are the
/// caller's to change.
///
/// # Errors
/// [`Error::DuplicateObject`] if the name is taken there; [`Error::UndefinedObject`],
/// [`Error::Invalid`].
pub async fn move_sequence(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    sequence: &SequenceDef,
    schema: &str,
    name: &str,
) -> Result<()> {
    exclude(ctx, txn, sequence.obj).await?;
    let dict = of(txn.core())?;
    let object = object_by_obj(ctx, dict, &newest(txn)?, sequence.obj).await?;
    let mut object = object.ok_or_else(|| undefined("sequence", &sequence.name))?;
    if object.name != name {
        rename_object(ctx, txn, &object, name).await?;
        name.clone_into(&mut object.name);
        new_version(ctx, txn, &object).await?;
    }
    if object.schema != schema {
        check_schema(ctx, txn, schema).await?;
        move_object(ctx, txn, &object, schema).await?;
    }
    Ok(())
}

/// Drops every table, view, sequence, routine and type in a schema, whatever depends on it there.
///
/// # Errors
/// What dropping them can fail with.
pub async fn drop_all_in(ctx: &Ctx, txn: &Arc<Transaction>, schema: &str) -> Result<()> {
    let inside = |object: &ObjectDef| object.schema == schema;
    let all: Vec<ObjectDef> = objects(ctx, txn).await?.into_iter().filter(inside).collect();
    drop_all(ctx, txn, &all).await?;
    drop_routines_in(ctx, txn, schema).await?;
    drop_types_in(ctx, txn, schema).await
}

async fn drop_all(ctx: &Ctx, txn: &Arc<Transaction>, all: &[ObjectDef]) -> Result<()> {
    // Tables that refer to each other go in any order once they no longer do.
    for object in all.iter().filter(|object| object.kind == ObjectKind::Table) {
        let Some(def) = table_by_obj(ctx, txn, object.obj).await? else { continue };
        for key in &def.foreign {
            drop_foreign_key(ctx, txn, &def, &key.name).await?;
        }
    }
    use ObjectKind::{Materialized, Sequence, Table, View};
    for kind in [View, Materialized, Table, Sequence] {
        for object in all.iter().filter(|object| object.kind == kind) {
            if kind == ObjectKind::Sequence {
                // Those of serial columns are gone with their tables.
                let def = sequence(ctx, txn, &object.schema, &object.name).await?;
                if let Some(def) = def.filter(|def| def.obj == object.obj) {
                    drop_sequence(ctx, txn, &def).await?;
                }
                continue;
            }
            let Some(def) = table_by_obj(ctx, txn, object.obj).await? else { continue };
            match def.view {
                Some(_) => drop_view(ctx, txn, &def).await?,
                None => drop_table(ctx, txn, &def).await?,
            }
        }
    }
    Ok(())
}

/// The temporary objects that sessions of an earlier life of this instance have left. To be asked
/// before it has sessions.
///
/// # Errors
/// What reading the dictionary's blocks can fail with.
pub async fn left_temporary(ctx: &Ctx, core: &Arc<Core>) -> Result<Vec<ObjectDef>> {
    let prefix = format!("{TEMP_PREFIX}{}_", core.me.0);
    let left = objects(ctx, &autonomous(core)).await?.into_iter();
    Ok(left.filter(|object| object.schema.starts_with(&prefix)).collect())
}

/// Drops what [`left_temporary`] has found, once the dead transactions have been rolled back. A new
/// session may have done so before.
///
/// # Errors
/// What dropping them can fail with; what is left is dropped by the next call.
pub async fn drop_left(ctx: &Ctx, core: &Arc<Core>, left: &[ObjectDef]) -> Result<()> {
    if left.is_empty() {
        return Ok(());
    }
    let own = autonomous(core);
    let dropped = drop_all(ctx, &own, left).await;
    finish(ctx, &own, dropped).await
}
