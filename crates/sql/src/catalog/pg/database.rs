//! The database as a whole and what it offers: `pg_database`, `pg_namespace`, `pg_tablespace`,
//! `pg_am`, `pg_settings`.
//!
//! What it promises: one database, the same for all instances; settings are the session's. What it
//! must never do: name a schema that nothing can be found in.

use super::OWNER;
use crate::catalog::rows::Shape::{Bool, Char, Int4, Name, NoList, Object, Oid, Text};
use crate::catalog::rows::{Rows, TEXTS, int, text};
use crate::catalog::{Catalog, rights};
use crate::parse::BITMAP;
use kernel::row::Value;
use query::types::oid;

pub(super) fn databases(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("oid", Oid),
        ("datname", Name),
        ("datdba", Oid),
        ("encoding", Int4),
        ("datlocprovider", Char),
        ("datistemplate", Bool),
        ("datallowconn", Bool),
        ("datconnlimit", Int4),
        ("datfrozenxid", Oid),
        ("datminmxid", Oid),
        ("dattablespace", Oid),
        ("datcollate", Text),
        ("datctype", Text),
        ("daticulocale", Text),
        ("datcollversion", Text),
        ("datacl", TEXTS),
    ]);
    rows.push(vec![
        int(5),
        text("skein"),
        int(catalog.roles.owner.0),
        Value::Int4(6),
        text("c"),
        Value::Bool(false),
        Value::Bool(true),
        Value::Int4(-1),
        // Nothing is ever frozen here.
        int(3),
        int(1),
        int(1663),
        text("C"),
        text("C.UTF-8"),
        Value::Null,
        Value::Null,
        rights::acl_value(catalog, catalog.roles.acl.as_ref()),
    ]);
    rows
}

pub(super) fn namespaces(catalog: &Catalog) -> Rows {
    let mut rows =
        Rows::new(&[("oid", Oid), ("nspname", Name), ("nspowner", Oid), ("nspacl", TEXTS)]);
    for (oid, name, owner) in catalog.all_schemas() {
        let acl = catalog.schemas.find(name).and_then(|schema| schema.acl.as_ref());
        let acl = rights::acl_value(catalog, acl);
        rows.push(vec![int(oid), text(name), int(owner), acl]);
    }
    rows
}

pub(super) fn tablespaces() -> Rows {
    let mut rows = Rows::new(&[
        ("oid", Oid),
        ("spcname", Name),
        ("spcowner", Oid),
        ("spcacl", NoList),
        ("spcoptions", NoList),
    ]);
    rows.push(vec![int(1663), text("users"), int(OWNER), Value::Null, Value::Null]);
    rows
}

/// Numbers of the access methods of indexes; PostgreSQL has no bitmap indexes, and no method with
/// the second.
pub(super) const BTREE_METHOD: i64 = 403;
pub(super) const BITMAP_METHOD: i64 = 404;

pub(super) fn access_methods() -> Rows {
    let mut rows = Rows::new(&[
        ("oid", Oid),
        ("amname", Name),
        ("amhandler", Object(oid::REGPROC)),
        ("amtype", Char),
    ]);
    rows.push(vec![int(2), text("heap"), int(3), text("t")]);
    rows.push(vec![int(BTREE_METHOD), text("btree"), int(330), text("i")]);
    rows.push(vec![int(BITMAP_METHOD), text(BITMAP), int(0), text("i")]);
    rows
}

pub(super) fn settings(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("name", Text),
        ("setting", Text),
        ("unit", Text),
        ("category", Text),
        ("short_desc", Text),
        ("extra_desc", Text),
        ("context", Text),
        ("vartype", Text),
        ("source", Text),
        ("min_val", Text),
        ("max_val", Text),
        ("enumvals", NoList),
        ("boot_val", Text),
        ("reset_val", Text),
        ("sourcefile", Text),
        ("sourceline", Int4),
        ("pending_restart", Bool),
    ]);
    for (name, value, description) in &catalog.settings {
        let kind = match value.as_str() {
            "on" | "off" => "bool",
            number if number.parse::<i64>().is_ok() => "integer",
            _ => "string",
        };
        let mut row = vec![
            text(name.as_str()),
            text(value.as_str()),
            Value::Null,
            text("Settings"),
            text(description.as_str()),
            Value::Null,
            text("user"),
            text(kind),
            text("session"),
        ];
        row.extend((0..7).map(|_| Value::Null));
        row.push(Value::Bool(false));
        rows.push(row);
    }
    rows
}
