//! Types and collations: `pg_type`, `pg_collation`.
//!
//! What it promises: every type a column or a result can have is there, with its array. What it
//! must never do: give a type another OID than PostgreSQL's.

use super::OWNER;
use crate::catalog::rows::Shape::{Bool, Char, Int2, Int4, Name, Oid, Other, Text};
use crate::catalog::rows::{Rows, int, text};
use crate::catalog::types::TYPES;
use kernel::row::Value;
use query::types::oid;

pub(super) fn type_rows() -> Rows {
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
        ("typelem", Oid),
        ("typarray", Oid),
        ("typinput", Other(oid::REGPROC)),
        ("typoutput", Other(oid::REGPROC)),
        ("typreceive", Other(oid::REGPROC)),
        ("typsend", Other(oid::REGPROC)),
        ("typnotnull", Bool),
        ("typbasetype", Oid),
        ("typtypmod", Int4),
        ("typndims", Int4),
        ("typcollation", Oid),
        ("typdefault", Text),
    ]);
    let mut add =
        |id: u32, name: &str, len: i16, by_value: bool, category: &str, elem: u32, array: u32| {
            let procedure = |suffix: &str| {
                text(if elem != 0 { format!("array_{suffix}") } else { format!("{name}{suffix}") })
            };
            rows.push(vec![
                int(id),
                text(name),
                int(11),
                int(OWNER),
                Value::Int2(len),
                Value::Bool(by_value),
                text(if id == oid::VOID || id == oid::UNKNOWN { "p" } else { "b" }),
                text(category),
                Value::Bool(false),
                Value::Bool(true),
                text(","),
                int(0),
                int(elem),
                int(array),
                procedure("in"),
                procedure("out"),
                procedure("recv"),
                procedure("send"),
                Value::Bool(false),
                int(0),
                Value::Int4(-1),
                Value::Int4(0),
                int(if category == "S" { 100 } else { 0 }),
                Value::Null,
            ]);
        };
    for (id, name, len, by_value, category, array) in TYPES {
        add(*id, name, *len, *by_value, category, 0, *array);
        if *array != 0 {
            add(*array, &format!("_{name}"), -1, false, "A", *id, 0);
        }
    }
    rows
}

pub(super) fn collations() -> Rows {
    let mut rows = Rows::new(&[
        ("oid", Oid),
        ("collname", Name),
        ("collnamespace", Oid),
        ("collencoding", Int4),
    ]);
    rows.push(vec![int(100), text("default"), int(11), Value::Int4(-1)]);
    rows.push(vec![int(950), text("C"), int(11), Value::Int4(-1)]);
    rows
}
