//! `pg_relation_size` and its like: blocks below the high-water marks of segments.
//!
//! What it promises: sizes as the segments' headers have them when the statement is bound; a
//! table's indexes are not part of its own size. What it must never do: scan a segment.

use super::Catalog;
use super::functions::{make, number, relation_oid};
use crate::session::Session;
use crate::{PgError, Result};
use datafusion::logical_expr::ScalarUDF;
use kernel::row::{ColType, Datum, TypeKind, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of each segment by its object, and of its table's indexes together.
#[derive(Default)]
struct Sizes {
    own: BTreeMap<i64, i64>,
    indexes: BTreeMap<i64, i64>,
    all: i64,
}

/// Whether a function asks for sizes.
pub(crate) fn asks_for_size(function: &str) -> bool {
    matches!(
        function,
        "pg_relation_size"
            | "pg_table_size"
            | "pg_total_relation_size"
            | "pg_indexes_size"
            | "pg_database_size"
            | "pg_tablespace_size"
    )
}

fn bytes(blocks: u32) -> i64 {
    i64::from(blocks) * i64::try_from(block::BLOCK_BYTES).unwrap_or(0)
}

impl Session {
    async fn segment_sizes(&mut self, catalog: &Catalog) -> Result<Sizes> {
        let mut sizes = Sizes::default();
        for table in &catalog.tables {
            let core = &self.instance.core;
            let (own, indexes) = match kernel::table::blocks(&self.ctx, core, table).await {
                Ok(found) => found,
                // Dropped since the catalog was read.
                Err(kernel::Error::ObjectGone) => continue,
                Err(error) => return Err(error.into()),
            };
            sizes.own.insert(table.obj.0.into(), bytes(own));
            let mut together = 0;
            for (index, blocks) in table.all_indexes().zip(indexes) {
                sizes.own.insert(index.obj.0.into(), bytes(blocks));
                together += bytes(blocks);
            }
            sizes.indexes.insert(table.obj.0.into(), together);
            sizes.all += bytes(own) + together;
        }
        for def in catalog.views.iter() {
            sizes.own.insert(def.obj.0.into(), 0);
        }
        for def in &catalog.sequences {
            sizes.own.insert(def.obj.0.into(), bytes(1));
        }
        Ok(sizes)
    }

    /// The functions, for one statement.
    pub(crate) async fn size_functions(&mut self) -> Result<Vec<Arc<ScalarUDF>>> {
        let catalog = Arc::new(self.catalog().await?);
        let sizes = Arc::new(self.segment_sizes(&catalog).await?);
        let relation = |name: &str, of: fn(&Sizes, i64) -> Option<i64>| {
            let sizes = sizes.clone();
            make(&catalog, name, None, ColType::new(TypeKind::Int8), None, move |c, args| {
                let oid = match args.first() {
                    Some(Datum::Text(name)) => {
                        Some(relation_oid(c, name).ok_or_else(|| PgError::undefined_table(name))?)
                    }
                    Some(other) => number(other),
                    None => None,
                };
                // Other forks than the main one are not there.
                if matches!(args.get(1), Some(Datum::Text(fork)) if *fork != "main") {
                    return Ok(Value::Int8(0));
                }
                Ok(oid.and_then(|oid| of(&sizes, oid)).map_or(Value::Null, Value::Int8))
            })
        };
        let own = |sizes: &Sizes, oid: i64| sizes.own.get(&oid).copied();
        let indexes = |sizes: &Sizes, oid: i64| Some(sizes.indexes.get(&oid).copied().unwrap_or(0));
        let total = |sizes: &Sizes, oid: i64| {
            let own = sizes.own.get(&oid)?;
            Some(own + sizes.indexes.get(&oid).copied().unwrap_or(0))
        };
        let whole = |name: &str| {
            let sizes = sizes.clone();
            make(&catalog, name, Some(1), ColType::new(TypeKind::Int8), None, move |_, _| {
                Ok(Value::Int8(sizes.all))
            })
        };
        Ok(vec![
            relation("pg_relation_size", own),
            relation("pg_table_size", own),
            relation("pg_indexes_size", indexes),
            relation("pg_total_relation_size", total),
            whole("pg_database_size"),
            whole("pg_tablespace_size"),
        ])
    }
}
