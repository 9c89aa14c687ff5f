//! Room that ended transactions have left in a block.
//!
//! Space that a transaction frees stays its own until it has ended (hazard H23): rows keep their
//! capacity, deleted rows their place. Here is told how much of that may be taken now. A deleted
//! row
//! goes only when every snapshot of the cluster sees its deletion, so that a rowid held by any
//! statement never comes to mean another row.

use block::{Scn, layout, rows};

use crate::txn::{LockState, View};

/// Rows to settle, and the bytes that gives.
#[derive(Debug, Default)]
pub struct Plan {
    pub slots: Vec<u16>,
    pub gain_bytes: usize,
}

/// Bytes that settling the row in `slot` gives, if its changers have ended.
fn gain(b: &[u8], slot: u16, row: &rows::Row<'_>) -> usize {
    let capacity = rows::capacity(b, slot);
    if row.is_deleted() {
        return rows::ROW_HEADER_BYTES + capacity;
    }
    capacity - row.bytes.len().max(rows::ROW_CAPACITY_MIN)
}

fn all_rows(b: &[u8]) -> impl Iterator<Item = (u16, rows::Row<'_>)> {
    (0..rows::slot_count(b)).filter_map(|slot| rows::get(b, slot).map(|row| (slot, row)))
}

/// What may be settled now. `horizon`: no snapshot is below it. `keep`: a slot to leave alone.
pub fn plan(b: &[u8], view: &View<'_>, horizon: Scn, keep: Option<u16>) -> Plan {
    let mut plan = Plan::default();
    for (slot, row) in all_rows(b) {
        if keep == Some(slot) {
            continue;
        }
        let last = match view.lock_state(row.lock) {
            LockState::Mine | LockState::Active(_) => continue,
            LockState::Committed(scn) => scn,
            LockState::Free => layout::taken_scn(b),
        };
        let bytes = gain(b, slot, &row);
        if bytes > 0 && (!row.is_deleted() || last <= horizon) {
            plan.slots.push(slot);
            plan.gain_bytes += bytes;
        }
    }
    plan
}

/// Bytes that are free, or will be once all transactions have ended and all snapshots moved on.
pub fn potential_bytes(b: &[u8]) -> usize {
    rows::free_bytes(b) + all_rows(b).map(|(slot, row)| gain(b, slot, &row)).sum::<usize>()
}
