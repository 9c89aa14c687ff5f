//! The process that looks once a second at what sessions do, MMNL: `v$active_session_history`,
//! `v$undostat`, `v$sysmetric`; and which SCN is current, for queries as of a time.
//!
//! What it promises: a sample a second while it gets a processor; who stands in a session's way is
//! found out while the sample is taken. What it must never do: make a session wait.

use crate::database::Database;
use block::Dba;
use env::Lane;
use kernel::gcs::BlockedBy;
use kernel::instance::Instance;
use kernel::undo::{UndoBlocks, UndoCounters, UndoLook};
use observe::{Blocking, Sample, Sampler, SessionKind, SessionState, Stat, WaitEvent};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Between two samples.
const INTERVAL: Duration = Duration::from_secs(1);

/// Starts it. It ends with the instance.
pub(crate) fn start(instance: &Arc<Instance>) {
    let weak = Arc::downgrade(instance);
    let ctx = instance.observer.ctx(SessionKind::Background, "MMNL");
    let env = ctx.env.clone();
    env.spawn_task("MMNL", Lane::Background, async move {
        let mut sampler = Sampler::default();
        let mut left = INTERVAL;
        if let Some(instance) = weak.upgrade() {
            instance.note_scn();
        }
        loop {
            ctx.sleep(WaitEvent::RdbmsIpcMessage, left).await;
            let Some(instance) = weak.upgrade() else { return };
            if instance.is_closing() {
                return;
            }
            instance.note_scn();
            let begun = ctx.env.now();
            sample(&instance, &mut sampler).await;
            let taken = Duration::from_micros(ctx.env.now().since(begun));
            left = INTERVAL.saturating_sub(taken);
        }
    });
}

/// What `v$undostat` needs.
fn note_undo(instance: &Instance, seen: &[(Arc<SessionState>, Sample)]) {
    let (core, observer) = (&instance.core, &instance.observer);
    let now = core.env.now();
    let (mut running, mut blocks) = (0, UndoBlocks::default());
    for segment in core.all_segments() {
        let report = segment.report(now, core.undo_retention_us());
        running += report.active as u64;
        blocks.add(report.states);
    }
    let ended = [Stat::UserCommits, Stat::RecursiveCommits, Stat::TransactionRollbacks];
    let clients = seen.iter().filter(|(_, sample)| sample.kind == SessionKind::User);
    let longest = clients
        .filter_map(|(_, s)| Some((s.sql?, s.wall_us.saturating_sub(s.exec_start_wall_us?))))
        .max_by_key(|(_, us)| *us);
    instance.undo_history.note(&UndoLook {
        wall_us: core.env.wall_us(),
        counters: UndoCounters {
            blocks_used: observer.stat(Stat::UndoBlocksUsed),
            transactions: ended.into_iter().map(|stat| observer.stat(stat)).sum(),
            too_old: observer.stat(Stat::SnapshotTooOld),
        },
        blocks,
        running,
        longest: longest.map(|(id, us)| (id, us.unsigned_abs())),
    });
}

/// Tells the samples how much their statements hold in temporary files.
fn note_temporary(instance: &Arc<Instance>, seen: &mut [(Arc<SessionState>, Sample)]) {
    // Where a client's session is, there are such files.
    if seen.iter().all(|(_, sample)| sample.kind != SessionKind::User) {
        return;
    }
    let Ok(database) = Database::of(instance) else { return };
    for file in database.planner.temp_space().files() {
        let whose = seen.iter_mut().find(|(_, sample)| u64::from(sample.sid) == file.sid);
        if let Some((_, sample)) = whose {
            sample.temp_bytes += file.bytes;
        }
    }
}

async fn sample(instance: &Arc<Instance>, sampler: &mut Sampler) {
    let observer = &instance.observer;
    let mut seen = sampler.look(observer);
    note_undo(instance, &seen);
    note_temporary(instance, &mut seen);
    observer.metrics.note(observer);
    let blockers = match seen.iter().any(|(_, sample)| sample.event.is_some()) {
        true => instance.node.blockers().await,
        false => BTreeMap::new(),
    };
    for (_, sample) in seen.iter_mut().filter(|(_, sample)| sample.event.is_some()) {
        let by: Option<&BlockedBy> = blockers.get(&sample.sid);
        sample.blocking = by.map_or(Blocking::NoHolder, |by| by.next);
    }
    let cache = &instance.core.cache;
    let object_of = |file, block| cache.object_at(Dba { file, block }).map(|obj| obj.0);
    sampler.keep(observer, seen, instance.params._ash_size(), &object_of);
}
