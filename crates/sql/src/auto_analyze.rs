//! ANALYZE by itself: a task of each instance looks after the tables that have changed much.
//!
//! What it promises: a table is looked through soon after many of its rows have come or changed, by
//! one instance at a time, between the statements of sessions; `autovacuum = off` stops it, and
//! `v$session` shows it at work. What it must never do: keep a session waiting for the time that
//! looking through a table takes, or do anything where nothing has changed.

use crate::utility::gather;
use block::ObjId;
use env::Lane;
use kernel::dict::{self, Changes, TEMP_PREFIX, TableDef, TableStats};
use kernel::instance::Instance;
use kernel::params::FRACTION_ONE;
use kernel::table::LockWait;
use kernel::txn::{Holder, Isolation, TmMode, Transaction, analyze_resource};
use observe::{AlertLevel, Ctx, SessionKind, WaitEvent};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Between two looks at what has changed.
const INTERVAL: Duration = Duration::from_secs(3);

/// What the task knows of tables.
#[derive(Default)]
struct Known {
    /// When each one's statistics were last gathered, µs of the wall clock.
    gathered: BTreeMap<ObjId, Option<i64>>,
    /// When gathering them failed, µs of the wall clock.
    failed: BTreeMap<ObjId, i64>,
}

/// Starts the task. It ends with the instance.
pub(crate) fn start(instance: &Arc<Instance>) {
    let weak = Arc::downgrade(instance);
    let ctx = instance.observer.ctx(SessionKind::Background, "autovacuum");
    let env = ctx.env.clone();
    env.spawn_task("autovacuum", Lane::Background, async move {
        let mut known = Known::default();
        loop {
            ctx.sleep(WaitEvent::AutoAnalyzeTimer, INTERVAL).await;
            let Some(instance) = weak.upgrade() else { return };
            if instance.is_closing() {
                return;
            }
            if instance.params.autovacuum() {
                round(&ctx, &instance, &mut known).await;
            }
        }
    });
}

async fn round(ctx: &Ctx, instance: &Arc<Instance>, known: &mut Known) {
    let threshold = instance.params.autovacuum_analyze_threshold();
    for (obj, changes) in dict::changed_tables(&instance.core) {
        if instance.is_closing() {
            return;
        }
        let wait_us = naptime_us(instance);
        let failed = known.failed.get(&obj);
        if changes.count() <= threshold || failed.is_some_and(|at| ctx.env.wall_us() - at < wait_us)
        {
            continue;
        }
        known.failed.remove(&obj);
        match look_after(ctx, instance, obj, &changes, known).await {
            // Dropped or altered meanwhile, or closing: the next round sees.
            Ok(())
            | Err(kernel::Error::ObjectGone | kernel::Error::UndefinedObject(_))
            | Err(kernel::Error::Closing) => {}
            Err(error) => {
                known.failed.insert(obj, ctx.env.wall_us());
                let text = format!("gather statistics of table {}: {error}", obj.0);
                ctx.alert(AlertLevel::Warning, text);
            }
        }
        ctx.session.set_sql(None);
    }
}

/// Gathers the table's statistics if it has changed enough.
async fn look_after(
    ctx: &Ctx,
    instance: &Arc<Instance>,
    obj: ObjId,
    changes: &Changes,
    known: &mut Known,
) -> kernel::Result<()> {
    // Somebody else has the turn only to close.
    let Ok(_turn) = instance.background_turn.try_lock() else { return Ok(()) };
    if instance.is_closing() {
        return Ok(());
    }
    let txn = instance.begin(ctx, Isolation::ReadCommitted);
    ctx.session.set_own_transaction(txn.local_id());
    let done = look_in(ctx, instance, &txn, obj, changes, known).await;
    match done {
        Ok(()) => txn.commit(ctx).await.map(|_| ()),
        Err(error) => {
            txn.rollback(ctx).await?;
            Err(error)
        }
    }
}

async fn look_in(
    ctx: &Ctx,
    instance: &Arc<Instance>,
    txn: &Arc<Transaction>,
    obj: ObjId,
    changes: &Changes,
    known: &mut Known,
) -> kernel::Result<()> {
    let counted = changes.count();
    let Some(def) = dict::table_by_obj(ctx, txn, obj).await? else {
        dict::forget_changes(&instance.core, obj);
        known.gathered.remove(&obj);
        return Ok(());
    };
    if def.schema.starts_with(TEMP_PREFIX) || def.view.is_some() {
        // Only its own session reads it.
        return Ok(());
    }
    let stats = dict::statistics(ctx, txn, &def).await?;
    let last = stats.as_ref().and_then(|stats| stats.analyzed_us.max(stats.autoanalyzed_us));
    if known.gathered.insert(obj, last).is_some_and(|before| before != last) {
        // Somebody else has gathered them since.
        changes.taken(counted);
        return Ok(());
    }
    if !is_due(ctx, instance, &def, stats.as_deref(), last, counted).await? {
        return Ok(());
    }
    // Whoever is changing the definition goes first: this can wait, and nobody shall wait for it.
    let who = Holder { id: txn.local_id(), same: None };
    let (core, turn) = (&instance.core, analyze_resource(obj));
    let held = match core.lock_table(ctx, txn, obj, TmMode::SS, LockWait::NoWait).await {
        Ok(_) => core.lock_resource(ctx, txn, who, turn, TmMode::X, LockWait::NoWait).await,
        Err(error) => Err(error),
    };
    match held {
        Ok(()) => {}
        Err(kernel::Error::RowLocked) => return Ok(()),
        Err(error) => return Err(error),
    }
    let text = format!("autovacuum: ANALYZE {}.{}", def.schema, def.name);
    ctx.session.set_sql(Some(Arc::from(text)));
    let snapshot = txn.snapshot(ctx).await?;
    let positions: Vec<usize> = (0..def.columns.len()).collect();
    let (new, _) = gather(ctx, &def, &snapshot, &positions, true).await?;
    if instance.is_closing() {
        return Ok(());
    }
    dict::set_statistics(ctx, txn, &def, &new).await?;
    known.gathered.insert(obj, Some(new.at_us));
    changes.taken(counted);
    Ok(())
}

fn naptime_us(instance: &Instance) -> i64 {
    let wait_s = i64::try_from(instance.params.autovacuum_naptime()).unwrap_or(i64::MAX);
    wait_s.saturating_mul(1_000_000)
}

/// Whether so many changes are enough, and the last time is long enough ago. A table that nobody
/// has looked through or that has grown to twice its size does not wait.
async fn is_due(
    ctx: &Ctx,
    instance: &Arc<Instance>,
    def: &TableDef,
    stats: Option<&TableStats>,
    last: Option<i64>,
    counted: u64,
) -> kernel::Result<bool> {
    let params = &instance.params;
    let rows = stats.map_or(0.0, |stats| stats.rows.max(0.0));
    #[allow(clippy::cast_precision_loss)] // counts of rows
    let enough = params.autovacuum_analyze_threshold() as f64
        + rows * params.autovacuum_analyze_scale_factor() as f64 / FRACTION_ONE as f64;
    #[allow(clippy::cast_precision_loss)] // counts of rows
    if counted as f64 <= enough {
        return Ok(false);
    }
    let (Some(stats), Some(last)) = (stats, last) else { return Ok(true) };
    if ctx.env.wall_us() - last >= naptime_us(instance) {
        return Ok(true);
    }
    let (blocks, _) = kernel::table::blocks(ctx, &instance.core, def).await?;
    Ok(u64::from(blocks) >= stats.blocks.max(1) * 2)
}

impl crate::session::Session {
    /// Notes rows that the statement has changed; those of a block count once it has committed.
    pub(crate) fn note_rows(&mut self, table: &TableDef, count: usize) {
        if count == 0 {
            return;
        }
        let count = count as u64;
        match &mut self.txn {
            Some(txn) if txn.explicit => {
                let known = txn.changed.iter_mut().find(|(known, _)| known.is(&table.changes));
                match known {
                    Some((_, so_far)) => *so_far += count,
                    None => txn.changed.push((table.changes.clone(), count)),
                }
            }
            _ => table.changes.add(count),
        }
    }
}

/// What a transaction that has committed has changed.
pub(crate) fn note_committed(changed: Vec<(Changes, u64)>) {
    for (changes, count) in changed {
        changes.add(count);
    }
}
