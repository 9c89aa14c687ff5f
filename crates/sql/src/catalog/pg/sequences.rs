//! Sequences: `pg_sequence`, `pg_sequences`.
//!
//! What it promises: the definitions as the dictionary has them. The last value of a sequence
//! is the last that an instance has taken to give away.

use super::oid_of;
use crate::catalog::Catalog;
use crate::catalog::rows::Shape::{Bool, Int8, Name, Object, Oid};
use crate::catalog::rows::{Rows, int, text};
use kernel::row::{ColType, Value};
use query::types::{PgType, oid};

pub(super) fn sequence_rows(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("seqrelid", Oid),
        ("seqtypid", Oid),
        ("seqstart", Int8),
        ("seqincrement", Int8),
        ("seqmax", Int8),
        ("seqmin", Int8),
        ("seqcache", Int8),
        ("seqcycle", Bool),
    ]);
    for s in &catalog.sequences {
        rows.push(vec![
            oid_of(s.obj),
            int(PgType::of(ColType::new(s.kind)).oid),
            int(s.start),
            int(s.increment),
            int(s.max),
            int(s.min),
            int(s.cache),
            Value::Bool(s.cycle),
        ]);
    }
    rows
}

pub(super) fn sequences(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("schemaname", Name),
        ("sequencename", Name),
        ("sequenceowner", Name),
        ("data_type", Object(oid::REGTYPE)),
        ("start_value", Int8),
        ("min_value", Int8),
        ("max_value", Int8),
        ("increment_by", Int8),
        ("cycle", Bool),
        ("cache_size", Int8),
        ("last_value", Int8),
    ]);
    for s in &catalog.sequences {
        rows.push(vec![
            text(s.schema.as_str()),
            text(s.name.as_str()),
            text(catalog.roles.name(s.owner)),
            int(PgType::of(ColType::new(s.kind)).oid),
            int(s.start),
            int(s.min),
            int(s.max),
            int(s.increment),
            Value::Bool(s.cycle),
            int(s.cache),
            catalog.last_values.get(&s.obj).map_or(Value::Null, |last| int(*last)),
        ]);
    }
    rows
}
