//! Roles: `pg_roles`, `pg_authid`, `pg_user`.
//!
//! What it promises: every role is there. What it must never do: show a verifier.

use super::oid_of;
use crate::catalog::Catalog;
use crate::catalog::rows::Shape::{Bool, Int4, Name, NoList, Oid, Text, Timestamptz};
use crate::catalog::rows::{Rows, text};
use kernel::row::Value;

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
        ("rolconfig", NoList),
    ]);
    for user in &catalog.users {
        rows.push(vec![
            oid_of(user.obj),
            text(user.name.as_str()),
            Value::Bool(user.superuser),
            Value::Bool(true),
            Value::Bool(user.superuser),
            Value::Bool(false),
            Value::Bool(true),
            Value::Bool(false),
            Value::Int4(-1),
            text("********"),
            Value::Null,
            Value::Bool(user.superuser),
            Value::Null,
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
    ]);
    for user in &catalog.users {
        rows.push(vec![
            text(user.name.as_str()),
            oid_of(user.obj),
            Value::Bool(false),
            Value::Bool(user.superuser),
        ]);
    }
    rows
}
