//! Snapshots without being asked: a thread of each instance looks whether one is due, and whether
//! its samples of sessions must be kept before that, because the memory for them is nearly full. It
//! also reads which traces are on for many sessions, when told that others are and nobody has
//! logged on since.
//!
//! What it promises: one instance takes it for all; when that one dies, whichever comes next does.
//! What it must never do: take one while the instance closes.

use super::take::{Taken, keep_samples, take};
use super::traces::try_read_rules;
use kernel::instance::Instance;
use observe::{AlertLevel, Ctx, SessionKind, WaitEvent};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Between two looks at the clock.
const ROUND: Duration = Duration::from_secs(2);
/// After somebody else was at it, or it failed.
const PAUSE_US: i64 = 30_000_000;

/// Takes snapshots whenever they are due, until the instance closes. For a thread of its own, as a
/// session has one.
pub async fn keep_snapshots(instance: Weak<Instance>) {
    let Some(open) = instance.upgrade() else { return };
    let ctx = open.observer.ctx(SessionKind::Background, "mmon");
    drop(open);
    // When the newest snapshot was taken, as far as this instance knows; at first its own start.
    let mut last_us = ctx.env.wall_us();
    let mut not_before_us = 0;
    // Number of the last moment whose samples are kept, and when the next try may be.
    let (mut kept_id, mut keep_not_before_us) = (0, 0);
    loop {
        ctx.sleep(WaitEvent::RdbmsIpcMessage, ROUND).await;
        let Some(instance) = instance.upgrade() else { return };
        if instance.is_closing() {
            return;
        }
        try_read_rules(&instance, &ctx).await;
        let interval_s = instance.params.awr_snapshot_interval();
        let interval_us = i64::try_from(interval_s).unwrap_or(i64::MAX).saturating_mul(1_000_000);
        let now_us = ctx.env.wall_us();
        if interval_us == 0 {
            continue;
        }
        let history = &instance.observer.history;
        let newer_bytes = history.newer_bytes(kept_id);
        let is_nearly_full = newer_bytes >= instance.params._ash_size() / 3 * 2;
        if is_nearly_full && now_us >= keep_not_before_us {
            let last_id = history.last_id();
            match keep(&instance, &ctx).await {
                true => kept_id = last_id,
                false => keep_not_before_us = ctx.env.wall_us() + PAUSE_US.min(interval_us),
            }
        }
        if now_us - last_us < interval_us || now_us < not_before_us {
            continue;
        }
        match due(&instance, &ctx, interval_us).await {
            Some(known_us) => last_us = known_us,
            None => not_before_us = ctx.env.wall_us() + PAUSE_US.min(interval_us),
        }
    }
}

/// Keeps the samples of sessions that nobody has kept yet; whether that is done.
async fn keep(instance: &Arc<Instance>, ctx: &Ctx) -> bool {
    let Ok(_turn) = instance.background_turn.try_lock() else { return false };
    if instance.is_closing() {
        return false;
    }
    let done = keep_samples(instance, ctx).await;
    ctx.session.set_sql(None);
    done.unwrap_or_else(|error| {
        if !instance.is_closing() {
            ctx.alert(AlertLevel::Warning, format!("keep samples of sessions: {error}"));
        }
        false
    })
}

/// Takes a snapshot if it is still due; when the newest one was taken, or `None`: not known.
async fn due(instance: &Arc<Instance>, ctx: &Ctx, interval_us: i64) -> Option<i64> {
    // Somebody else has the turn only for a short time, or to close.
    let _turn = instance.background_turn.try_lock().ok()?;
    if instance.is_closing() {
        return None;
    }
    let now_us = ctx.env.wall_us();
    let done = take(instance, ctx, Some(interval_us)).await;
    ctx.session.set_sql(None);
    match done {
        Ok(Taken::Snapshot { id, left_out }) => {
            if !left_out.is_empty() {
                let who: Vec<String> = left_out.iter().map(ToString::to_string).collect();
                let text = format!("snapshot {id} is without instance {}", who.join(", "));
                ctx.alert(AlertLevel::Warning, text);
            }
            Some(now_us)
        }
        Ok(Taken::Early { last_us }) => Some(last_us),
        Ok(Taken::Busy) => None,
        Err(error) => {
            if !instance.is_closing() {
                ctx.alert(AlertLevel::Warning, format!("take a snapshot: {error}"));
            }
            None
        }
    }
}
