//! Roles: `pg_roles`, `pg_authid`, `pg_user`, and what their sessions begin with.
//!
//! What it promises: every role is there. What it must never do: show a verifier.

use super::oid_of;
use crate::catalog::Catalog;
use crate::catalog::rows::Shape::{Bool, Int4, Name, Oid, Text, Timestamptz};
use crate::catalog::rows::{Rows, Shape, TEXTS, int, list, text};
use kernel::dict::UserDef;
use kernel::row::{ColType, TypeKind, Value};
use query::array::array_value;
use query::types::oid;

fn config(user: &UserDef) -> Value {
    let all: Vec<String> =
        user.config.iter().map(|(name, value)| format!("{name}={value}")).collect();
    if all.is_empty() { Value::Null } else { list(&all) }
}

pub(super) fn roles(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("oid", Oid),
        ("rolname", Name),
        ("rolsuper", Bool),
        ("rolinherit", Bool),
        ("rolcreaterole", Bool),
        ("rolcreatedb", Bool),
        ("rolcanlogin", Bool),
        ("rolreplication", Bool),
        ("rolconnlimit", Int4),
        ("rolpassword", Text),
        ("rolvaliduntil", Timestamptz),
        ("rolbypassrls", Bool),
        ("rolconfig", TEXTS),
    ]);
    for user in &catalog.users {
        rows.push(vec![
            oid_of(user.obj),
            text(user.name.as_str()),
            Value::Bool(user.superuser),
            Value::Bool(user.inherit),
            Value::Bool(user.create_role),
            Value::Bool(user.create_db),
            Value::Bool(user.login),
            Value::Bool(user.replication),
            Value::Int4(user.connections),
            text("********"),
            user.valid_until.map_or(Value::Null, Value::Timestamptz),
            Value::Bool(user.bypass_rls),
            config(user),
        ]);
    }
    rows
}

pub(super) fn users(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("usename", Name),
        ("usesysid", Oid),
        ("usecreatedb", Bool),
        ("usesuper", Bool),
        ("userepl", Bool),
        ("usebypassrls", Bool),
        ("passwd", Text),
        ("valuntil", Timestamptz),
        ("useconfig", TEXTS),
    ]);
    for user in catalog.users.iter().filter(|user| user.login) {
        rows.push(vec![
            text(user.name.as_str()),
            oid_of(user.obj),
            Value::Bool(user.create_db),
            Value::Bool(user.superuser),
            Value::Bool(user.replication),
            Value::Bool(user.bypass_rls),
            text("********"),
            user.valid_until.map_or(Value::Null, Value::Timestamptz),
            config(user),
        ]);
    }
    rows
}

/// Roles that nobody logs on as, with their members.
pub(super) fn groups(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("groname", Name),
        ("grosysid", Oid),
        ("grolist", Shape::List(oid::OID_ARRAY)),
    ]);
    for group in catalog.users.iter().filter(|user| !user.login) {
        let members = catalog.roles.members.iter().filter(|one| one.role == group.obj);
        let members: Vec<Value> = members.map(|one| oid_of(one.member)).collect();
        let list = array_value(ColType::new(TypeKind::Int8), &members);
        rows.push(vec![text(group.name.as_str()), oid_of(group.obj), list]);
    }
    rows
}

pub(super) fn settings(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[("setdatabase", Oid), ("setrole", Oid), ("setconfig", TEXTS)]);
    for user in catalog.users.iter().filter(|user| !user.config.is_empty()) {
        rows.push(vec![int(0), oid_of(user.obj), config(user)]);
    }
    rows
}
