//! Types and collations: `pg_type`, `pg_collation`.
//!
//! What it promises: every type a column or a result can have is there, with its array. What it
//! must never do: give a type another OID than PostgreSQL's.

use super::{OWNER, oid_of};
use crate::catalog::Catalog;
use crate::catalog::known::TYPES;
use crate::catalog::rights;
use crate::catalog::rows::Shape::{Bool, Char, Float8, Int2, Int4, Name, Object, Oid, Other, Text};
use crate::catalog::rows::{Rows, TEXTS, int, text};
use kernel::row::Value;
use query::types::oid;

pub(super) fn type_rows(catalog: &Catalog) -> Rows {
    let procedure = Object(oid::REGPROC);
    let mut rows = Rows::new(&[
        ("oid", Oid),
        ("typname", Name),
        ("typnamespace", Oid),
        ("typowner", Oid),
        ("typlen", Int2),
        ("typbyval", Bool),
        ("typtype", Char),
        ("typcategory", Char),
        ("typispreferred", Bool),
        ("typisdefined", Bool),
        ("typdelim", Char),
        ("typrelid", Oid),
        ("typsubscript", procedure),
        ("typelem", Oid),
        ("typarray", Oid),
        ("typinput", procedure),
        ("typoutput", procedure),
        ("typreceive", procedure),
        ("typsend", procedure),
        ("typmodin", procedure),
        ("typmodout", procedure),
        ("typanalyze", procedure),
        ("typalign", Char),
        ("typstorage", Char),
        ("typnotnull", Bool),
        ("typbasetype", Oid),
        ("typtypmod", Int4),
        ("typndims", Int4),
        ("typcollation", Oid),
        ("typdefaultbin", Other(oid::PG_NODE_TREE)),
        ("typdefault", Text),
        ("typacl", TEXTS),
    ]);
    for ty in TYPES.iter() {
        rows.push(vec![
            int(ty.number(0)),
            text(ty.text(1)),
            int(11),
            int(OWNER),
            Value::Int2(ty.small(2)),
            Value::Bool(ty.yes(3)),
            text(ty.text(4)),
            text(ty.text(5)),
            Value::Bool(ty.yes(6)),
            Value::Bool(true),
            text(","),
            int(0),
            int(ty.number(9)),
            int(ty.number(7)),
            int(ty.number(8)),
            int(ty.number(10)),
            int(ty.number(11)),
            int(ty.number(12)),
            int(ty.number(13)),
            int(ty.number(14)),
            int(ty.number(15)),
            int(0),
            text(ty.text(16)),
            text(ty.text(17)),
            Value::Bool(false),
            int(0),
            Value::Int4(-1),
            Value::Int4(0),
            int(ty.number(18)),
            Value::Null,
            Value::Null,
            Value::Null,
        ]);
    }
    for ty in &catalog.types.all {
        rows.push(vec![
            oid_of(ty.obj),
            text(ty.name.as_str()),
            int(catalog.schema_oid(&ty.schema)),
            int(ty.owner.0),
            Value::Int2(4),
            Value::Bool(true),
            text("e"),
            text("E"),
            Value::Bool(false),
            Value::Bool(true),
            text(","),
            int(0),
            int(0),
            int(0),
            // There are no arrays of enums.
            int(0),
            int(ENUM_IN),
            int(ENUM_OUT),
            int(ENUM_RECEIVE),
            int(ENUM_SEND),
            int(0),
            int(0),
            int(0),
            text("i"),
            text("p"),
            Value::Bool(false),
            int(0),
            Value::Int4(-1),
            Value::Int4(0),
            int(0),
            Value::Null,
            Value::Null,
            rights::acl_value(catalog, ty.acl.as_ref()),
        ]);
    }
    rows
}

/// PostgreSQL's functions behind every enum.
const ENUM_IN: i64 = 3506;
const ENUM_OUT: i64 = 3507;
const ENUM_RECEIVE: i64 = 3532;
const ENUM_SEND: i64 = 3533;

/// `pg_enum`: the labels, numbered in their order.
pub(super) fn enums(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("oid", Oid),
        ("enumtypid", Oid),
        ("enumsortorder", Float8),
        ("enumlabel", Name),
    ]);
    for ty in &catalog.types.all {
        for (at, label) in ty.def().labels.iter().enumerate() {
            rows.push(vec![
                oid_of(label.obj),
                oid_of(ty.obj),
                Value::Float8(f64::from(u32::try_from(at + 1).unwrap_or(u32::MAX))),
                text(label.text.as_str()),
            ]);
        }
    }
    rows
}

pub(super) fn collations() -> Rows {
    let mut rows = Rows::new(&[
        ("oid", Oid),
        ("collname", Name),
        ("collnamespace", Oid),
        ("collowner", Oid),
        ("collprovider", Char),
        ("collisdeterministic", Bool),
        ("collencoding", Int4),
        ("collcollate", Text),
        ("collctype", Text),
        ("colliculocale", Text),
        ("collversion", Text),
    ]);
    let all = [
        (100, "default", "d", Value::Null),
        (950, "C", "c", text("C")),
        (951, "POSIX", "c", text("POSIX")),
    ];
    for (number, name, provider, locale) in all {
        rows.push(vec![
            int(number),
            text(name),
            int(11),
            int(OWNER),
            text(provider),
            Value::Bool(true),
            Value::Int4(-1),
            locale.clone(),
            locale,
            Value::Null,
            Value::Null,
        ]);
    }
    rows
}
