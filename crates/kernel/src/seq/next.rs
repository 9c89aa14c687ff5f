//! Values from sequences.
//!
//! Promise (H21): no value is handed out before the change of `seq$` that takes it is durable, so
//! no crash, here or elsewhere, makes a sequence repeat one. Values are not given back by a
//! rollback.

use std::sync::Arc;

use env::Micros;
use observe::{Ctx, TimePart, WaitEvent, enq_p1};

use super::cache::{CachedSequence, Range, Slot};
use super::turn::{COMMON_MAX, common_here};
use crate::dict::{
    Fixed, Record, SequenceDef, autonomous, change, finish, newest, obj_key, of, one,
};
use crate::error::{Error, Result};
use crate::row::Value;
use crate::txn::{Core, Transaction};

/// Columns of `seq$`.
mod at {
    pub const INCREMENT: usize = 2;
    pub const MIN: usize = 3;
    pub const MAX: usize = 4;
    pub const CYCLE: usize = 6;
    pub const HIGHWATER: usize = 9;
    pub const USED: usize = 10;
    pub const GENERATION: usize = 12;
}

/// `cache id` of `row cache lock`: the field's number of `dc_sequences`.
const CACHE_ID: u64 = 13;
/// Lock modes as the two wait events show them.
const ROW_CACHE_X: u64 = 5;
const ENQUEUE_X: u8 = 6;

/// How far a sequence has got, and by which rules it goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Progress {
    increment: i64,
    min: i64,
    max: i64,
    cycle: bool,
    /// Last value given to some cache; not yet given if `used` is false.
    highwater: i64,
    used: bool,
}

impl Progress {
    fn of(row: &Record) -> Result<Progress> {
        Ok(Progress {
            increment: row.int(at::INCREMENT)?,
            min: row.int(at::MIN)?,
            max: row.int(at::MAX)?,
            cycle: row.bool(at::CYCLE)?,
            highwater: row.int(at::HIGHWATER)?,
            used: row.bool(at::USED)?,
        })
    }

    /// The next values, at most `wanted`, fewer at the limit; `None` if the limit is reached.
    fn next(&self, wanted: u64) -> Option<Range> {
        let up = self.increment > 0;
        let inside = |v: &i64| (self.min..=self.max).contains(v);
        let first = if self.used {
            match self.highwater.checked_add(self.increment).filter(inside) {
                Some(first) => first,
                None if self.cycle => {
                    if up {
                        self.min
                    } else {
                        self.max
                    }
                }
                None => return None,
            }
        } else {
            self.highwater
        };
        let limit = if up { self.max } else { self.min };
        let steps = limit.abs_diff(first) / self.increment.unsigned_abs();
        let count = wanted.min(steps.saturating_add(1));
        Some(Range { first, increment: self.increment, count })
    }
}

/// The last value of a range that is not empty. It lies within the sequence's limits.
pub(super) fn last_of(range: &Range) -> i64 {
    let last = i128::from(range.first)
        + i128::from(range.increment) * i128::from(range.count.saturating_sub(1));
    i64::try_from(last).expect("values lie between the limits of the sequence")
}

/// The next value of the sequence.
///
/// # Errors
/// [`Error::SequenceExhausted`]; [`Error::UndefinedObject`] if it was dropped.
pub async fn nextval(ctx: &Ctx, txn: &Arc<Transaction>, def: &SequenceDef) -> Result<i64> {
    let core = txn.core();
    let dict = of(core)?;
    if dict.has_touched_object(txn, def.obj) {
        // Made by this transaction: nobody else can see the row, nor use its values.
        return env::boxed!(take(ctx, txn, def, 1)).await.map(|range| range.first);
    }
    let slot = dict.sequences.slot(def.obj);
    if def.cache == 1 {
        return env::boxed!(take_one(ctx, txn, def, &slot)).await;
    }
    // Ranges of their own would break the order over several instances.
    if def.has_common_cache() && core.table_locks.values().is_some() {
        return env::boxed!(take_common(ctx, txn, def, &slot)).await;
    }
    loop {
        if let Some(value) = slot.take(def.generation) {
            return Ok(value);
        }
        env::boxed!(fill(ctx, core, def, &slot)).await?;
    }
}

/// One value that is in no cache: each instance takes some in its turn.
async fn take_one(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &SequenceDef,
    slot: &Arc<Slot>,
) -> Result<i64> {
    let (core, wait) = (txn.core(), (WaitEvent::RowCacheLock, [CACHE_ID, 0, ROW_CACHE_X]));
    // Each value comes from the dictionary: to wait for one's turn there is part of that.
    let _timed = ctx.timed(TimePart::SequenceLoad);
    let asked = core.env.now();
    let request = ctx.ask_enqueue(WaitEvent::EnqSq);
    let mut turns = ctx.wait_or_cancel(wait.0, wait.1, slot.refill.lock()).await?;
    let turn = turns.begin(ctx, txn, def, Some(wait)).await?;
    let _held = request.granted();
    let taken = refill(ctx, core, def, slot, (1, asked)).await?;
    turns.end(turn, asked, slot);
    Ok(taken.first)
}

/// The next value of a sequence whose cache all instances have in common.
async fn take_common(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &SequenceDef,
    slot: &Arc<Slot>,
) -> Result<i64> {
    let core = txn.core();
    let asked = core.env.now();
    let p = [enq_p1(*b"SV", ENQUEUE_X), u64::from(def.obj.0), 0];
    let request = ctx.ask_enqueue(WaitEvent::DfsLockHandle);
    let mut turns = ctx.wait_or_cancel(WaitEvent::DfsLockHandle, p, slot.refill.lock()).await?;
    let turn = turns.begin(ctx, txn, def, None).await?;
    let _held = request.granted();
    let mut range = match turn.common(def) {
        Some(range) => range,
        None => {
            let wanted = def.cache.unsigned_abs().min(COMMON_MAX);
            refill(ctx, core, def, slot, (wanted, core.env.now())).await?
        }
    };
    let value = range.take().ok_or_else(|| Error::SequenceExhausted(def.name.clone()))?;
    // Taken by rules that this session does not know yet: nobody else may go on from there by its.
    let left = if range.increment == def.increment { range } else { Range::default() };
    // Before it is handed out: whoever comes next goes on behind it.
    turn.set_common(def, left)?;
    turns.end(turn, asked, slot);
    slot.note_use(def);
    // The others may have put this instance out, and gone on.
    core.check_deadline();
    Ok(value)
}

/// Takes back what is left of the values that all instances have in common: nobody gets them any
/// more. The value that was handed out last, and the last one that was held: as long as that is how
/// far the sequence has got, it may go on behind the one handed out. The turn is over then; who
/// comes next takes values from the dictionary.
pub(crate) async fn withdraw_common(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &SequenceDef,
) -> Result<Option<(i64, i64)>> {
    let core = txn.core();
    let dict = of(core)?;
    // What this transaction has made or changed, it takes from the dictionary itself.
    if !def.has_common_cache()
        || core.table_locks.values().is_none()
        || dict.has_touched_object(txn, def.obj)
    {
        return Ok(None);
    }
    let slot = dict.sequences.slot(def.obj);
    let p = [enq_p1(*b"SV", ENQUEUE_X), u64::from(def.obj.0), 0];
    let request = ctx.ask_enqueue(WaitEvent::DfsLockHandle);
    let mut turns = ctx.wait_or_cancel(WaitEvent::DfsLockHandle, p, slot.refill.lock()).await?;
    let turn = turns.begin(ctx, txn, def, None).await?;
    let _held = request.granted();
    let Some(range) = turn.common(def) else { return Ok(None) };
    // Before anybody may go on behind them.
    turn.set_common(def, Range::default())?;
    let given = range.first.checked_sub(range.increment);
    Ok(given.map(|given| (given, last_of(&range))))
}

/// Takes new values unless another session did meanwhile.
async fn fill(ctx: &Ctx, core: &Arc<Core>, def: &SequenceDef, slot: &Slot) -> Result<()> {
    let p = [enq_p1(*b"SQ", ENQUEUE_X), u64::from(def.obj.0), 0];
    let request = ctx.ask_enqueue(WaitEvent::EnqSq);
    let mut turns = ctx.wait_or_cancel(WaitEvent::EnqSq, p, slot.refill.lock()).await?;
    let _held = request.granted();
    turns.give_up();
    if !slot.is_empty(def.generation) {
        return Ok(());
    }
    let cache = def.cache.unsigned_abs();
    // What CREATE SEQUENCE says of its cache holds to the value. The sequence behind a serial or
    // identity column is nobody's to count on: it takes more where it is used much.
    let wanted = match def.table {
        Some(_) => slot.wanted(cache, core.env.now()),
        None => cache,
    };
    let taken = refill(ctx, core, def, slot, (wanted, core.env.now())).await?;
    slot.put(taken, def.generation);
    Ok(())
}

/// Takes values in a transaction of its own; durable when this returns. Also since when whoever
/// takes them has been about it.
async fn refill(
    ctx: &Ctx,
    core: &Arc<Core>,
    def: &SequenceDef,
    slot: &Slot,
    (wanted, since): (u64, Micros),
) -> Result<Range> {
    let own = autonomous(core);
    // Whatever it waits for, block or row, another instance is changing the sequence's entry.
    let p = [CACHE_ID, 0, ROW_CACHE_X];
    let _timed = ctx.timed(TimePart::SequenceLoad);
    let taken = ctx.wait_over(WaitEvent::RowCacheLock, p, take(ctx, &own, def, wanted)).await;
    let finished = finish(ctx, &own, taken).await;
    let us = core.env.now().since(since);
    if finished.is_ok() {
        slot.note_load(def, us);
    }
    finished
}

async fn take(ctx: &Ctx, txn: &Arc<Transaction>, def: &SequenceDef, wanted: u64) -> Result<Range> {
    let dict = of(txn.core())?;
    let table = dict.fixed(Fixed::Seq);
    let mut taken = None;
    let found = change(ctx, txn, table, 0, &obj_key(def.obj), |row| {
        let range = Progress::of(row)?
            .next(wanted)
            .ok_or_else(|| Error::SequenceExhausted(def.name.clone()))?;
        taken = Some(range);
        Ok(vec![(at::HIGHWATER, Value::Int8(last_of(&range))), (at::USED, Value::Bool(true))])
    })
    .await?;
    let range = taken.filter(|_| found).ok_or_else(|| undefined(def))?;
    dict.count_sequence_change();
    Ok(range)
}

fn undefined(def: &SequenceDef) -> Error {
    Error::UndefinedObject(format!("sequence \"{}\"", def.name))
}

/// Sets the sequence: the next value is `value`, or the one after it if `used`. At once and for
/// everybody, whatever becomes of the transaction; other instances first hand out what they hold,
/// unless the sequence is ordered.
///
/// # Errors
/// [`Error::Invalid`] outside the sequence's limits; [`Error::UndefinedObject`].
pub async fn setval(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &SequenceDef,
    value: i64,
    used: bool,
) -> Result<i64> {
    if value < def.min || value > def.max {
        return Err(Error::Invalid(format!(
            "setval: value {value} is out of bounds for sequence \"{}\" ({}..{})",
            def.name, def.min, def.max
        )));
    }
    let core = txn.core();
    let dict = of(core)?;
    if dict.has_touched_object(txn, def.obj) {
        return set(ctx, txn, def, value, used).await;
    }
    let slot = dict.sequences.slot(def.obj);
    let p = [enq_p1(*b"SQ", ENQUEUE_X), u64::from(def.obj.0), 0];
    let request = ctx.ask_enqueue(WaitEvent::EnqSq);
    let mut turns = ctx.wait_or_cancel(WaitEvent::EnqSq, p, slot.refill.lock()).await?;
    let common = match def.has_common_cache() && core.table_locks.values().is_some() {
        true => Some(turns.begin(ctx, txn, def, None).await?),
        false => {
            turns.give_up();
            None
        }
    };
    let _held = request.granted();
    // First, for the change may be durable where its end is not waited for; what is lost is a gap.
    if let Some(turn) = &common {
        turn.set_common(def, Range::default())?;
    }
    let own = autonomous(core);
    let done = set(ctx, &own, def, value, used).await;
    let value = finish(ctx, &own, done).await?;
    slot.put(Range::default(), def.generation);
    drop(common);
    Ok(value)
}

async fn set(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &SequenceDef,
    value: i64,
    used: bool,
) -> Result<i64> {
    let dict = of(txn.core())?;
    let table = dict.fixed(Fixed::Seq);
    let found = change(ctx, txn, table, 0, &obj_key(def.obj), |row| {
        // Who holds values of before must not give them back as if nothing had happened.
        let generation = row.int_or_null(at::GENERATION)?.unwrap_or(0).wrapping_add(1);
        Ok(vec![
            (at::HIGHWATER, Value::Int8(value)),
            (at::USED, Value::Bool(used)),
            (at::GENERATION, Value::Int8(generation)),
        ])
    })
    .await?;
    if !found {
        return Err(undefined(def));
    }
    dict.count_sequence_change();
    Ok(value)
}

/// How far the sequence has got in the dictionary: the last value given to an instance, and whether
/// it was given at all (`last_value` and `is_called`).
///
/// # Errors
/// [`Error::UndefinedObject`]; what reading blocks can fail with.
pub async fn last_value(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &SequenceDef,
) -> Result<(i64, bool)> {
    let table = of(txn.core())?.fixed(Fixed::Seq);
    let snap = newest(txn)?;
    let row = one(ctx, &snap, table, 0, &obj_key(def.obj)).await?;
    let progress = Progress::of(&row.ok_or_else(|| undefined(def))?)?;
    Ok((progress.highwater, progress.used))
}

/// What this instance holds of each sequence it has used; another one may have dropped it since.
/// What all instances have in common is held by the one that has its enqueue.
#[must_use]
pub fn cached(core: &Core) -> Vec<CachedSequence> {
    let Ok(dict) = of(core) else { return Vec::new() };
    let mut all = dict.sequences.list();
    for held in &mut all {
        if let Some(now) = dict.sequence_held(held.obj) {
            held.def = now;
        }
        if let Some(range) = common_here(core, &held.def) {
            (held.next, held.count) = (Some(range.first), range.count);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRESH: Progress =
        Progress { increment: 1, min: 1, max: i64::MAX, cycle: false, highwater: 1, used: false };

    fn range(first: i64, increment: i64, count: u64) -> Option<Range> {
        Some(Range { first, increment, count })
    }

    #[test]
    fn the_first_value_is_the_start() {
        assert_eq!(FRESH.next(20), range(1, 1, 20));
        let later = Progress { highwater: 20, used: true, ..FRESH };
        assert_eq!(later.next(20), range(21, 1, 20));
        assert_eq!(last_of(&later.next(20).expect("a range")), 40);
    }

    #[test]
    fn the_last_range_is_cut_off_at_the_limit() {
        let near = Progress { increment: 4, max: 10, highwater: 1, used: true, ..FRESH };
        assert_eq!(near.next(20), range(5, 4, 2));
        let at_end = Progress { highwater: 9, ..near };
        assert_eq!(at_end.next(20), None);
    }

    #[test]
    fn a_cycle_starts_again_at_the_other_limit() {
        let up = Progress { min: -3, max: 10, cycle: true, highwater: 10, used: true, ..FRESH };
        assert_eq!(up.next(5), range(-3, 1, 5));
        let down = Progress { increment: -2, highwater: -2, ..up };
        assert_eq!(down.next(9), range(10, -2, 7));
        assert_eq!(last_of(&down.next(9).expect("a range")), -2);
    }

    #[test]
    fn the_limits_of_the_type_are_no_trap() {
        let top = Progress { highwater: i64::MAX, used: true, ..FRESH };
        assert_eq!(top.next(1), None);
        let whole = Progress { min: i64::MIN, highwater: i64::MIN, ..FRESH };
        assert_eq!(whole.next(u64::MAX), range(i64::MIN, 1, u64::MAX));
        let bottom = Progress { increment: i64::MIN, min: i64::MIN, highwater: 0, ..FRESH };
        assert_eq!(bottom.next(9), range(0, i64::MIN, 2));
    }
}
