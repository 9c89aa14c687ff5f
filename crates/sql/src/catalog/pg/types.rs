//! Types and collations: `pg_type`, `pg_collation`.
//!
//! What it promises: every type a column or a result can have is there, with its array. What it
//! must never do: give a type another OID than PostgreSQL's.

use super::OWNER;
use crate::catalog::known::TYPES;
use crate::catalog::rows::Shape::{Bool, Char, Int2, Int4, Name, NoList, Object, Oid, Other, Text};
use crate::catalog::rows::{Rows, int, text};
use kernel::row::Value;
use query::types::oid;

pub(super) fn type_rows() -> Rows {
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
        ("typacl", NoList),
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
