//! Numbers for new objects, and versions of definitions.
//!
//! Object numbers come from a counter row, a range at a time; a number is used only after the range
//! that holds it is durably taken, so a crash leaves gaps and never a number used twice.

use std::sync::Arc;

use block::ObjId;
use observe::{Ctx, WaitEvent};

use super::fixed::{Fixed, USER_OBJ_MIN};
use super::state::{autonomous, finish, of};
use super::store;
use crate::error::{Error, Result};
use crate::row::{Datum, Value};
use crate::txn::Core;

/// Numbers an instance takes at once.
const RANGE: u32 = 64;
/// The counter's row in `props$`: the first number that no instance has taken.
pub(super) const NEXT_OBJ: &str = "next object number";
/// `cache id` of the wait event: the field's number of `dc_objects`.
const CACHE_ID: u64 = 8;
/// Lock modes as `row cache lock` shows them.
const MODE_X: u64 = 5;

#[derive(Default)]
struct Range {
    next: u32,
    end: u32,
}

/// The range of object numbers this instance has taken.
#[derive(Default)]
pub(super) struct Ids(tokio::sync::Mutex<Range>);

/// A number that no object has or ever had.
pub(super) async fn next_obj(ctx: &Ctx, core: &Arc<Core>) -> Result<ObjId> {
    let lock = of(core)?.ids.0.lock();
    let mut range =
        ctx.wait_or_cancel(WaitEvent::RowCacheLock, [CACHE_ID, 0, MODE_X], lock).await?;
    if range.next == range.end {
        let first = take_range(ctx, core).await?;
        *range = Range { next: first, end: first + RANGE };
    }
    let obj = ObjId(range.next);
    range.next += 1;
    Ok(obj)
}

async fn take_range(ctx: &Ctx, core: &Arc<Core>) -> Result<u32> {
    let props = of(core)?.fixed(Fixed::Props);
    let txn = autonomous(core);
    let mut first = 0;
    let taken = store::change(ctx, &txn, props, 0, &[Datum::Text(NEXT_OBJ)], |row| {
        first = row.text(1)?.parse().map_err(|_| row.unknown("object number"))?;
        if first < USER_OBJ_MIN {
            return Err(row.unknown("object number"));
        }
        let next = first
            .checked_add(RANGE)
            .ok_or_else(|| Error::Invalid("all object numbers are used up".into()))?;
        Ok(vec![(1, Value::Text(next.to_string().into()))])
    })
    .await;
    if !finish(ctx, &txn, taken).await? {
        return Err(Error::Invariant(format!("props$ has no row '{NEXT_OBJ}'")));
    }
    Ok(first)
}

/// A version for a definition that changes now: no other definition in the database ever has it.
/// The SCN is this instance's alone until it is sent or logged, and the commit that makes the
/// definition known logs a higher one.
pub(super) fn next_version(core: &Core) -> u64 {
    core.clock.tick().0 * u64::from(block::INSTANCES_MAX + 1) + u64::from(core.me.0)
}
