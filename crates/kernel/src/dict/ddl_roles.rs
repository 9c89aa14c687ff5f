//! Roles made, changed and dropped, and their memberships.
//!
//! All roles are one definition ([`ROLES_OBJ`]): whoever changes one has the right to it alone
//! until the transaction's end, and every instance reads them anew afterwards. A role is also a
//! definition of its own for those who log on.

use std::sync::Arc;

use block::ObjId;
use observe::Ctx;

use super::acl::{Acl, AclKind};
use super::ddl_comment::forget_comments;
use super::ddl_schema::change_list_of;
use super::def::{ObjectKind, TableDef, UserDef};
use super::fixed::{Fixed, ROLES_OBJ, ROLES_VERSION, SUPERUSER, SUPERUSER_OBJ};
use super::ids::next_obj;
use super::lists::{roles, routines, schemas, types};
use super::lookup::{objects, table_by_obj};
use super::names::{check_name, undefined};
use super::records::{at, read_user, user_values};
use super::roles::MemberDef;
use super::state::{exclude, newest, of, touch};
use super::store::{self, obj};
use super::times::now_us;
use crate::error::{Error, Result};
use crate::row::{Datum, Value};
use crate::txn::Transaction;

/// Takes the right to change roles.
pub(super) async fn change_roles(ctx: &Ctx, txn: &Arc<Transaction>) -> Result<()> {
    change_list_of(ctx, txn, ROLES_OBJ, ROLES_VERSION).await
}

/// What was noted as seen before the change is not what is there after it.
pub(super) fn touch_roles(txn: &Arc<Transaction>) -> Result<()> {
    touch(txn, |touched| {
        touched.objects.insert(ROLES_OBJ, None);
    })
}

fn touch_user(txn: &Arc<Transaction>, obj: ObjId, name: &str) -> Result<()> {
    touch(txn, |touched| {
        touched.objects.insert(obj, None);
        touched.objects.insert(ROLES_OBJ, None);
        touched.users.insert(name.to_owned());
    })
}

/// Writes the row of a new role.
pub(super) async fn insert_user(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    table: &TableDef,
    user: &UserDef,
) -> Result<()> {
    let values = user_values(user);
    let values: Vec<Datum<'_>> = values.iter().map(|(_, value)| value.as_datum()).collect();
    store::insert(ctx, txn, table, &values).await
}

/// Makes a role like `new`, whose number is given here.
///
/// # Errors
/// [`Error::DuplicateObject`], [`Error::Invalid`].
pub async fn create_user(ctx: &Ctx, txn: &Arc<Transaction>, new: &UserDef) -> Result<UserDef> {
    check_name(&new.name)?;
    change_roles(ctx, txn).await?;
    let (obj, made_us) = (next_obj(ctx, txn.core()).await?, Some(now_us(ctx)));
    let user = UserDef { obj, made_us, ..new.clone() };
    exclude(ctx, txn, user.obj).await?;
    match insert_user(ctx, txn, of(txn.core())?.fixed(Fixed::User), &user).await {
        Ok(()) => {}
        Err(Error::UniqueViolation { .. }) => return Err(taken(&user.name)),
        Err(e) => return Err(e),
    }
    touch_user(txn, user.obj, &user.name)?;
    Ok(user)
}

fn taken(name: &str) -> Error {
    Error::DuplicateObject(format!("role \"{name}\""))
}

async fn own_user(ctx: &Ctx, txn: &Arc<Transaction>, name: &str) -> Result<UserDef> {
    let snap = newest(txn)?;
    let user = read_user(ctx, of(txn.core())?, &snap, name).await?;
    user.ok_or_else(|| undefined("role", name))
}

/// Makes of the role called `name` what `change` makes of it, its name included.
///
/// # Errors
/// [`Error::UndefinedObject`]; [`Error::DuplicateObject`] if the new name is taken.
pub async fn alter_user(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    name: &str,
    change: impl FnOnce(&mut UserDef) + Send,
) -> Result<()> {
    change_roles(ctx, txn).await?;
    let mut user = own_user(ctx, txn, name).await?;
    exclude(ctx, txn, user.obj).await?;
    let number = user.obj;
    change(&mut user);
    check_name(&user.name)?;
    user.obj = number;
    let table = of(txn.core())?.fixed(Fixed::User);
    let values = user_values(&user);
    let key = [Datum::Text(name)];
    let found = store::change(ctx, txn, table, 0, &key, |_| Ok(values.clone())).await;
    match found {
        Ok(true) => {}
        Ok(false) => return Err(undefined("role", name)),
        Err(Error::UniqueViolation { .. }) => return Err(taken(&user.name)),
        Err(e) => return Err(e),
    }
    touch_user(txn, number, name)?;
    touch_user(txn, number, &user.name)
}

/// Replaces what the user's password is checked against.
///
/// # Errors
/// [`Error::UndefinedObject`].
pub async fn set_password(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    name: &str,
    verifier: Option<&str>,
) -> Result<()> {
    let verifier = verifier.map(str::to_owned);
    alter_user(ctx, txn, name, |user| user.verifier = verifier).await
}

/// Makes `member` a member of `role`, or a member with other rights; without `grant` it is one no
/// more. Says whether anything has changed.
///
/// # Errors
/// What reading and changing the dictionary can fail with.
pub async fn change_member(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    (role, member): (ObjId, ObjId),
    grant: Option<MemberDef>,
) -> Result<bool> {
    change_roles(ctx, txn).await?;
    let table = of(txn.core())?.fixed(Fixed::Auth);
    let (snap, key) = (newest(txn)?, [obj(role), obj(member)]);
    let known = store::one(ctx, &snap, table, 0, &key).await?;
    let changed = match (known, grant) {
        (None, None) => false,
        (Some(row), None) => {
            store::delete(ctx, txn, table, &snap, &row).await?;
            true
        }
        (None, Some(new)) => {
            let values = [obj(role), obj(member), obj(new.grantor), Datum::Bool(new.admin)];
            store::insert(ctx, txn, table, &values).await?;
            true
        }
        (Some(row), Some(new)) => {
            let same = row.bool(3)? == new.admin;
            let changes = vec![(3, Value::Bool(new.admin))];
            if !same {
                store::change(ctx, txn, table, 0, &key, |_| Ok(changes.clone())).await?;
            }
            !same
        }
    };
    touch_roles(txn)?;
    Ok(changed)
}

/// Something that names a role.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RoleUse {
    Owns(ObjectKind, String, ObjId),
    OwnsSchema(String),
    OwnsType(String, ObjId),
    /// Whether it is a procedure, its name with its signature, its number.
    OwnsRoutine(bool, String, ObjId),
    OwnsDatabase,
    /// Rights on a relation.
    Rights(ObjectKind, String, ObjId),
    RightsOnColumn {
        relation: String,
        column: String,
        obj: ObjId,
    },
    RightsOnSchema(String),
    RightsOnType(String, ObjId),
    RightsOnRoutine(bool, String, ObjId),
    RightsOnDatabase,
    Defaults(AclKind, ObjId, Option<ObjId>),
}

/// All that keeps a role from being dropped.
///
/// # Errors
/// What reading the dictionary can fail with.
pub async fn role_uses(ctx: &Ctx, txn: &Arc<Transaction>, role: ObjId) -> Result<Vec<RoleUse>> {
    let named = |acl: &Option<Acl>| acl.as_ref().is_some_and(|acl| acl.names(role));
    let mut found = Vec::new();
    let roles = roles(ctx, txn).await?;
    if roles.owner == role {
        found.push(RoleUse::OwnsDatabase);
    } else if named(&roles.acl) {
        found.push(RoleUse::RightsOnDatabase);
    }
    for schema in &schemas(ctx, txn).await?.all {
        if schema.owner == role {
            found.push(RoleUse::OwnsSchema(schema.name.clone()));
        } else if named(&schema.acl) {
            found.push(RoleUse::RightsOnSchema(schema.name.clone()));
        }
    }
    for ty in &types(ctx, txn).await?.all {
        let shown = format!("{}.{}", ty.schema, ty.name);
        if ty.owner == role {
            found.push(RoleUse::OwnsType(shown, ty.obj));
        } else if named(&ty.acl) {
            found.push(RoleUse::RightsOnType(shown, ty.obj));
        }
    }
    for routine in &routines(ctx, txn).await?.all {
        let shown = format!("{}.{}({})", routine.schema, routine.name, routine.signature);
        let is_procedure = routine.body.procedure;
        if routine.owner == role {
            found.push(RoleUse::OwnsRoutine(is_procedure, shown, routine.obj));
        } else if named(&routine.acl) {
            found.push(RoleUse::RightsOnRoutine(is_procedure, shown, routine.obj));
        }
    }
    for object in objects(ctx, txn).await? {
        let shown = format!("{}.{}", object.schema, object.name);
        if object.owner == role {
            // An index belongs to its table.
            if object.kind != ObjectKind::Index {
                found.push(RoleUse::Owns(object.kind, shown, object.obj));
            }
            continue;
        }
        if named(&object.acl) {
            found.push(RoleUse::Rights(object.kind, shown.clone(), object.obj));
        }
        if matches!(object.kind, ObjectKind::Table | ObjectKind::View)
            && let Some(def) = table_by_obj(ctx, txn, object.obj).await?
        {
            for column in def.columns.iter().filter(|column| named(&column.acl)) {
                let (relation, column) = (shown.clone(), column.name.clone());
                found.push(RoleUse::RightsOnColumn { relation, column, obj: object.obj });
            }
        }
    }
    for one in &roles.defaults {
        if one.role == role || one.acl.names(role) {
            found.push(RoleUse::Defaults(one.kind, one.role, one.schema));
        }
    }
    Ok(found)
}

/// Drops a role that nothing names any more; it leaves the roles that it is in.
///
/// # Errors
/// [`Error::UndefinedObject`], [`Error::DependentObjects`].
pub async fn drop_user(ctx: &Ctx, txn: &Arc<Transaction>, name: &str) -> Result<()> {
    change_roles(ctx, txn).await?;
    let user = own_user(ctx, txn, name).await?;
    if user.obj == SUPERUSER_OBJ {
        return Err(Error::DependentObjects(format!(
            "cannot drop role {SUPERUSER} because it is required by the database system"
        )));
    }
    if !role_uses(ctx, txn, user.obj).await?.is_empty() {
        return Err(Error::DependentObjects(format!(
            "role \"{name}\" cannot be dropped because some objects depend on it"
        )));
    }
    exclude(ctx, txn, user.obj).await?;
    let dict = of(txn.core())?;
    let snap = newest(txn)?;
    let auth = dict.fixed(Fixed::Auth);
    for row in store::all(ctx, &snap, auth).await? {
        if row.obj(0)? == user.obj || row.obj(1)? == user.obj {
            store::delete(ctx, txn, auth, &snap, &row).await?;
        } else if row.obj(2)? == user.obj {
            // What a role that is gone has granted stays, as granted by the system.
            let key = [obj(row.obj(0)?), obj(row.obj(1)?)];
            let changes = vec![(2, Value::Int8(i64::from(SUPERUSER_OBJ.0)))];
            store::change(ctx, txn, auth, 0, &key, |_| Ok(changes.clone())).await?;
        }
    }
    let key = [Datum::Text(name)];
    let snap = newest(txn)?;
    let row = store::one(ctx, &snap, dict.fixed(Fixed::User), 0, &key).await?;
    let row = row.ok_or_else(|| undefined("role", name))?;
    debug_assert_eq!(row.text_or_null(at::USER_VERIFIER)?, user.verifier.as_deref());
    store::delete(ctx, txn, dict.fixed(Fixed::User), &snap, &row).await?;
    forget_comments(ctx, txn, user.obj).await?;
    touch_user(txn, user.obj, name)
}
