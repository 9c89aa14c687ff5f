//! Sequences as the field shows them: `dba_sequences`, and `v$_sequences`, what this instance has
//! in hand.
//!
//! What it promises: `last_number` is the last value given to the cache of any instance, as the
//! dictionary has it at that moment. What it must never do: take a value.

use super::rows::Shape::{Int8, Text};
use super::rows::{Rows, int, text};
use crate::Result;
use crate::session::Session;
use kernel::dict::SequenceDef;
use kernel::row::Value;
use kernel::seq;
use std::sync::Arc;

/// Views of this module.
pub(super) fn is_known(name: &str) -> bool {
    matches!(name, "dba_sequences" | "v$_sequences")
}

fn flag(yes: bool) -> Value {
    text(if yes { "Y" } else { "N" })
}

/// What the field writes for a sequence without a cache.
fn cache_size(def: &SequenceDef) -> Value {
    int(if def.cache == 1 { 0 } else { def.cache })
}

impl Session {
    pub(super) async fn sequence_view(&mut self, name: &str) -> Result<Rows> {
        self.begin_if_needed();
        let all = self.shown_catalog().await?.sequences;
        match name {
            "dba_sequences" => self.dba_sequences(all).await,
            _ => Ok(self.held_sequences(&all)),
        }
    }

    async fn dba_sequences(&mut self, all: Vec<Arc<SequenceDef>>) -> Result<Rows> {
        let mut rows = Rows::new(&[
            ("sequence_owner", Text),
            ("sequence_name", Text),
            ("min_value", Int8),
            ("max_value", Int8),
            ("increment_by", Int8),
            ("cycle_flag", Text),
            ("order_flag", Text),
            ("cache_size", Int8),
            ("last_number", Int8),
        ]);
        let txn = self.transaction()?;
        for def in &all {
            let (last, used) = match seq::last_value(&self.ctx, &txn, def).await {
                Err(kernel::Error::UndefinedObject(_)) => continue,
                read => read?,
            };
            // Before the first value: the one that would stand before it.
            let last = if used { last } else { last.saturating_sub(def.increment) };
            rows.push(vec![
                text(def.schema.as_str()),
                text(def.name.as_str()),
                int(def.min),
                int(def.max),
                int(def.increment),
                flag(def.cycle),
                flag(def.order),
                cache_size(def),
                int(last),
            ]);
        }
        Ok(rows)
    }

    fn held_sequences(&self, all: &[Arc<SequenceDef>]) -> Rows {
        let mut rows = Rows::new(&[
            ("sequence_owner", Text),
            ("sequence_name", Text),
            ("object", Int8),
            ("active_flag", Text),
            ("nextvalue", Int8),
            ("min_value", Int8),
            ("max_value", Int8),
            ("increment_by", Int8),
            ("cycle_flag", Text),
            ("order_flag", Text),
            ("cache_size", Int8),
            ("highwater", Int8),
        ]);
        for held in seq::cached(&self.instance.core) {
            let Some(def) = all.iter().find(|def| def.obj == held.obj) else { continue };
            let left = i64::try_from(held.count).unwrap_or(i64::MAX).saturating_sub(1);
            let last = |next: i64| next.saturating_add(def.increment.saturating_mul(left));
            let some = |value: Option<i64>| value.map_or(Value::Null, int);
            rows.push(vec![
                text(def.schema.as_str()),
                text(def.name.as_str()),
                int(def.obj.0),
                flag(held.next.is_some()),
                some(held.next),
                int(def.min),
                int(def.max),
                int(def.increment),
                flag(def.cycle),
                flag(def.order),
                cache_size(def),
                some(held.next.map(last)),
            ]);
        }
        rows
    }
}
