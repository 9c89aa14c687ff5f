//! Functions and procedures made, changed and dropped.
//!
//! All routines are one definition, as the types are: who changes one has the right to the list
//! alone. Who makes a view that calls one holds it in SS until its transaction has ended; who
//! changes or drops it takes X, and so knows all of them.

use std::sync::Arc;

use block::ObjId;
use observe::Ctx;

use super::acl::Acl;
use super::ddl::delete_all;
use super::ddl_schema::change_list_of;
use super::def::Derived;
use super::fixed::{Fixed, ROUTINES_OBJ, ROUTINES_VERSION};
use super::ids::next_obj;
use super::lists::{routines, types};
use super::lookup::dependents;
use super::names::{check_name, check_schema, undefined};
use super::records::{acl_of, acl_value};
use super::routine::{
    RoutineBody, RoutineDef, RoutineResult, Volatility, argument_values, at, routine_values,
};
use super::state::{of, touch};
use super::store::{self, obj};
use super::times::{Times, noted};
use crate::error::{Error, Result};
use crate::row::{ColType, Value};
use crate::txn::{LockWait, TmMode, Transaction};

/// A routine to be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewRoutine {
    pub schema: String,
    pub name: String,
    pub signature: String,
    pub owner: ObjId,
    pub body: RoutineBody,
    /// No other routine of its language has the name in its schema, whatever is given to it.
    pub alone: bool,
}

/// Where a routine goes, and whether it stands there as [`NewRoutine::alone`] says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoutinePlace<'a> {
    pub to: &'a str,
    pub alone: bool,
}

/// What [`alter_routine`] does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RoutineChange<'a> {
    /// CREATE OR REPLACE: another body, and the signature that goes with it.
    Replace(&'a RoutineBody, &'a str),
    Strict(bool),
    Volatility(Volatility),
    Definer(bool),
    Options(&'a str),
    Rename(RoutinePlace<'a>),
    Schema(RoutinePlace<'a>),
    Owner(ObjId),
    Comment(Option<&'a str>),
}

fn touch_routines(txn: &Arc<Transaction>) -> Result<()> {
    touch(txn, |touched| {
        touched.objects.insert(ROUTINES_OBJ, None);
    })
}

fn exists(name: &str, signature: &str) -> Error {
    Error::DuplicateObject(format!("function {name}({signature})"))
}

/// The types that it names.
fn types_of(body: &RoutineBody) -> impl Iterator<Item = ColType> {
    let result = match body.result {
        RoutineResult::Type(ty) => Some(ty),
        _ => None,
    };
    body.args.iter().map(|arg| arg.ty).chain(result)
}

/// Keeps the types that it names as they are until the transaction has ended.
async fn hold_types_of(ctx: &Ctx, txn: &Arc<Transaction>, body: &RoutineBody) -> Result<()> {
    for ty in types_of(body) {
        let Some(def) = ty.enum_type() else { continue };
        txn.core().lock_table(ctx, txn, def.obj, TmMode::SS, LockWait::Wait).await?;
        if types(ctx, txn).await?.by_obj(def.obj).is_none_or(|now| now.ty != ty) {
            return Err(Error::ObjectGone);
        }
    }
    Ok(())
}

/// Makes a routine.
///
/// # Errors
/// [`Error::DuplicateObject`], [`Error::Invalid`]; [`Error::ObjectGone`] if a type has changed.
pub async fn create_routine(ctx: &Ctx, txn: &Arc<Transaction>, new: NewRoutine) -> Result<ObjId> {
    check_schema(ctx, txn, &new.schema).await?;
    check_name(&new.name)?;
    hold_types_of(ctx, txn, &new.body).await?;
    change_list_of(ctx, txn, ROUTINES_OBJ, ROUTINES_VERSION).await?;
    let known = routines(ctx, txn).await?;
    let in_way = |one: &RoutineDef| {
        one.signature == new.signature || new.alone && one.body.language == new.body.language
    };
    if known.named(&new.schema, &new.name).any(|one| in_way(one)) {
        return Err(exists(&new.name, &new.signature));
    }
    let def = RoutineDef {
        obj: next_obj(ctx, txn.core()).await?,
        schema: new.schema,
        name: new.name,
        signature: new.signature,
        owner: new.owner,
        acl: None,
        comment: None,
        times: Times::of_new(ctx),
        body: new.body,
        derived: Derived::default(),
    };
    write(ctx, txn, &def).await?;
    touch_routines(txn)?;
    Ok(def.obj)
}

async fn write(ctx: &Ctx, txn: &Arc<Transaction>, def: &RoutineDef) -> Result<()> {
    let dict = of(txn.core())?;
    let acl = def.acl.as_ref().map(ToString::to_string);
    let values = routine_values(def, acl.as_deref())?;
    match store::insert(ctx, txn, dict.fixed(Fixed::Proc), &values).await {
        Err(Error::UniqueViolation { .. }) => return Err(exists(&def.name, &def.signature)),
        done => done?,
    }
    for (position, arg) in def.body.args.iter().enumerate() {
        let values = argument_values(def.obj, position, arg)?;
        store::insert(ctx, txn, dict.fixed(Fixed::Arg), &values).await?;
    }
    Ok(())
}

async fn delete(ctx: &Ctx, txn: &Arc<Transaction>, number: ObjId) -> Result<()> {
    delete_all(ctx, txn, Fixed::Arg, 0, number).await?;
    delete_all(ctx, txn, Fixed::Proc, 0, number).await
}

/// Locks a routine against everybody who uses it in a definition, takes the right to change the
/// list, and gives the routine as it stands then.
///
/// # Errors
/// [`Error::UndefinedObject`] if somebody else dropped it.
pub async fn lock_routine(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    routine: &RoutineDef,
) -> Result<Arc<RoutineDef>> {
    txn.core().lock_table(ctx, txn, routine.obj, TmMode::X, LockWait::Wait).await?;
    change_list_of(ctx, txn, ROUTINES_OBJ, ROUTINES_VERSION).await?;
    let now = routines(ctx, txn).await?;
    now.by_obj(routine.obj).cloned().ok_or_else(|| undefined("function", &routine.name))
}

/// Changes a routine.
///
/// # Errors
/// [`Error::UndefinedObject`] if somebody else dropped it; [`Error::DuplicateObject`] if a name is
/// taken.
pub async fn alter_routine(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    routine: &RoutineDef,
    change: RoutineChange<'_>,
) -> Result<()> {
    match change {
        RoutineChange::Schema(place) => check_schema(ctx, txn, place.to).await?,
        RoutineChange::Rename(place) => check_name(place.to)?,
        RoutineChange::Replace(body, _) => hold_types_of(ctx, txn, body).await?,
        _ => {}
    }
    let now = lock_routine(ctx, txn, routine).await?;
    let text = |text: &str| Value::Text(text.into());
    let known = routines(ctx, txn).await?;
    let others = |schema: &str, name: &str| {
        known.named(schema, name).filter(|one| one.obj != now.obj).cloned().collect::<Vec<_>>()
    };
    let taken = |schema: &str, name: &str, alone: bool| {
        let in_way = |one: &Arc<RoutineDef>| {
            one.signature == now.signature || alone && one.body.language == now.body.language
        };
        others(schema, name).iter().any(in_way)
    };
    let mut changes = match change {
        RoutineChange::Replace(body, signature) => {
            if others(&now.schema, &now.name).iter().any(|one| one.signature == signature) {
                return Err(exists(&now.name, signature));
            }
            delete(ctx, txn, now.obj).await?;
            let (times, signature) = (now.times.after(ctx), signature.to_owned());
            let body = body.clone();
            let def = RoutineDef { body, times, signature, ..RoutineDef::clone(&now) };
            write(ctx, txn, &def).await?;
            return touch_routines(txn);
        }
        RoutineChange::Strict(strict) => vec![(at::STRICT, Value::Bool(strict))],
        RoutineChange::Volatility(volatility) => vec![(at::VOLATILITY, text(volatility.code()))],
        RoutineChange::Definer(definer) => vec![(at::DEFINER, Value::Bool(definer))],
        RoutineChange::Options(options) => vec![(at::OPTIONS, text(options))],
        RoutineChange::Rename(RoutinePlace { to, alone }) => {
            if taken(&now.schema, to, alone) {
                return Err(exists(to, &now.signature));
            }
            vec![(at::NAME, text(to))]
        }
        RoutineChange::Schema(RoutinePlace { to, alone }) => {
            if taken(to, &now.name, alone) {
                return Err(exists(&now.name, &now.signature));
            }
            vec![(at::SCHEMA, text(to))]
        }
        RoutineChange::Owner(owner) => {
            let acl = now.acl.as_ref().map(|acl| acl.with_owner(now.owner, owner));
            let number = Value::Int8(i64::from(owner.0));
            vec![(at::OWNER, number), (at::ACL, acl_value(acl.as_ref()))]
        }
        RoutineChange::Comment(comment) => {
            vec![(at::COMMENT, comment.map_or(Value::Null, text))]
        }
    };
    if !matches!(change, RoutineChange::Comment(_)) {
        changes.extend(noted(ctx, at::TIMES, false));
    }
    let table = of(txn.core())?.fixed(Fixed::Proc);
    store::change(ctx, txn, table, 0, &[obj(now.obj)], |_| Ok(changes.clone())).await?;
    touch_routines(txn)
}

/// Replaces the rights on a routine.
pub(super) async fn change_routine_acl(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    number: ObjId,
    change: &mut (impl FnMut(Option<Acl>) -> Option<Acl> + Send),
) -> Result<()> {
    change_list_of(ctx, txn, ROUTINES_OBJ, ROUTINES_VERSION).await?;
    let table = of(txn.core())?.fixed(Fixed::Proc);
    let found = store::change(ctx, txn, table, 0, &[obj(number)], |row| {
        let new = change(acl_of(row, at::ACL)?);
        let mut changes = noted(ctx, at::TIMES, false);
        changes.push((at::ACL, acl_value(new.as_ref())));
        Ok(changes)
    })
    .await?;
    touch_routines(txn)?;
    if found { Ok(()) } else { Err(undefined("function", &number.0.to_string())) }
}

/// The routines that name a type. Whoever has the type in X knows that there are no others.
///
/// # Errors
/// What reading the dictionary's blocks can fail with.
pub async fn routines_of_type(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    ty: ObjId,
) -> Result<Vec<Arc<RoutineDef>>> {
    let known = routines(ctx, txn).await?;
    let names = |routine: &&Arc<RoutineDef>| {
        types_of(&routine.body).any(|own| own.enum_type().is_some_and(|def| def.obj == ty))
    };
    Ok(known.all.iter().filter(names).cloned().collect())
}

/// Drops a routine, which no view may call by then.
///
/// # Errors
/// [`Error::UndefinedObject`]; [`Error::DependentObjects`].
pub async fn drop_routine(ctx: &Ctx, txn: &Arc<Transaction>, routine: &RoutineDef) -> Result<()> {
    let now = lock_routine(ctx, txn, routine).await?;
    if !dependents(ctx, txn, now.obj).await?.is_empty() {
        let what = format!("cannot drop function {} because other objects depend on it", now.name);
        return Err(Error::DependentObjects(what));
    }
    delete(ctx, txn, now.obj).await?;
    touch_routines(txn)
}

/// Drops all routines of a schema; what called them there is gone.
pub(super) async fn drop_routines_in(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    schema: &str,
) -> Result<()> {
    let known = routines(ctx, txn).await?;
    for routine in known.all.iter().filter(|routine| routine.schema == schema) {
        drop_routine(ctx, txn, routine).await?;
    }
    Ok(())
}
