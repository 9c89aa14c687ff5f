//! Sequences as the field shows them: `dba_sequences`, and `v$_sequences`, what this instance has
//! in hand.
//!
//! What it promises: `last_number` is the last value given to the cache of any instance, as the
//! dictionary has it at that moment. What it must never do: take a value.

use super::registry::{Make, SessionView, views};
use super::shown_name;
use crate::Result;
use crate::catalog::rows::Shape::{Int8, Text};
use crate::catalog::rows::{Rows, int, text};
use crate::session::Session;
use kernel::dict::SequenceDef;
use kernel::instance::Instance;
use kernel::row::Value;
use kernel::seq;
use std::sync::Arc;

views! {
    "dba_sequences", Make::Session(SessionView::DbaSequences), "Sequences." {
        sequence_owner: Text, "Its schema.";
        sequence_name: Text, "Its name.";
        min_value: Int8, "Lowest value.";
        max_value: Int8, "Highest value.";
        increment_by: Int8, "From one value to the next.";
        cycle_flag: Text, "`Y`: it begins anew after its last value.";
        order_flag: Text, "`Y`: values come in the order of the calls, on all instances.";
        cache_size: Int8, "Values that an instance takes at once; 0: each by itself.";
        last_number: Int8, "The last value that any instance has taken into its cache.";
    }
    "v$_sequences", Make::Local(held_sequences), "Sequences that this instance has taken values \
        from since its start, and what it has in hand of them." {
        sequence_owner: Text, "Its schema.";
        sequence_name: Text, "Its name.";
        "object#": Int8, "Its number.";
        active_flag: Text, "`Y`: there is a next value in hand.";
        nextvalue: Int8, "The next value.";
        min_value: Int8, "Lowest value.";
        max_value: Int8, "Highest value.";
        increment_by: Int8, "From one value to the next.";
        cycle_flag: Text, "`Y`: it begins anew after its last value.";
        order_flag: Text, "`Y`: values come in the order of the calls, on all instances.";
        cache_size: Int8, "Values that an instance takes at once; 0: each by itself.";
        highwater: Int8, "The last value in hand.";
        loads: Int8, "Times that this instance has taken values from the dictionary (a name of our \
            own).";
        load_time: Int8, "Microseconds that took (a name of our own).";
    }
}

fn flag(yes: bool) -> Value {
    text(if yes { "Y" } else { "N" })
}

/// What the field writes for a sequence without a cache.
fn cache_size(def: &SequenceDef) -> Value {
    int(if def.cache == 1 { 0 } else { def.cache })
}

impl Session {
    pub(super) async fn dba_sequences(&mut self, rows: &mut Rows) -> Result<()> {
        let all = self.shown_catalog().await?.sequences;
        let txn = self.transaction()?;
        for def in &all {
            let (last, used) = match seq::last_value(&self.ctx, &txn, def).await {
                Err(kernel::Error::UndefinedObject(_)) => continue,
                read => read?,
            };
            // Before the first value: the one that would stand before it.
            let last = if used { last } else { last.saturating_sub(def.increment) };
            rows.push(vec![
                shown_name(&def.schema),
                shown_name(&def.name),
                int(def.min),
                int(def.max),
                int(def.increment),
                flag(def.cycle),
                flag(def.order),
                cache_size(def),
                int(last),
            ]);
        }
        Ok(())
    }
}

fn held_sequences(instance: &Arc<Instance>, rows: &mut Rows) {
    for held in seq::cached(&instance.core) {
        let def = &held.def;
        if crate::ddl::is_temporary(&def.schema) {
            continue;
        }
        let left = i64::try_from(held.count).unwrap_or(i64::MAX).saturating_sub(1);
        let last = |next: i64| next.saturating_add(def.increment.saturating_mul(left));
        let some = |value: Option<i64>| value.map_or(Value::Null, int);
        rows.push(vec![
            shown_name(&def.schema),
            shown_name(&def.name),
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
            int(held.loads),
            int(held.load_us),
        ]);
    }
}
