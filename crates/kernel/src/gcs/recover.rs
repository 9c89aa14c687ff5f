//! Instance recovery: what a survivor does about dead threads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use block::{BLOCK_BYTES, Dba, INSTANCES_MAX, InstanceNo, Scn, Version, layout};
use env::marks::{self, Mark, Point};
use env::{IoBuf, Lane};
use global::Epoch;
use global::epoch::EpochEvent;
use global::msg::{EpochMessage, Message, Recovered, TxnMessage};
use observe::{AlertLevel, Stat, WaitEvent};

use super::calls::CallKind;
use super::epochs::batches;
use super::node::Node;
use super::phases::Phase;
use crate::cache::{Area, DW_BLOCKS, find_torn, restore_torn, write_images};
use crate::error::{Error, Result};
use crate::recovery::{Collected, close_threads, collect};
use crate::redo::{ThreadStatus, read_thread};
use crate::undo::{Segment, segments_of};

/// What the recoverer keeps of an epoch.
#[derive(Default)]
pub(super) struct Recovery {
    pub collected: Option<Arc<Collected>>,
    /// The blocks locked for recovery, with the newest past image of each.
    pub set: Vec<(Dba, Option<(InstanceNo, Version)>)>,
    /// Those of the set that are on disk and unlocked: they may have been changed since.
    pub done: BTreeSet<Dba>,
    /// The dead threads: those that were open.
    pub threads: Vec<InstanceNo>,
}

impl Recovery {
    pub fn reset(&mut self) {
        *self = Recovery::default();
    }
}

impl Node {
    /// Where the simulator has recovery take its time, so that something else comes between.
    async fn dawdle(&self) {
        if marks::is_taken(Point::RecoveryStepSlow) {
            self.env.sleep(Duration::from_millis(5)).await;
        }
    }

    /// Runs a step of recovery again until it succeeds or a later epoch has begun.
    fn recovery_task<F, Fut>(&self, name: &'static str, epoch: Epoch, step: F)
    where
        F: Fn(Arc<Node>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<()>> + Send,
    {
        let node = self.arc();
        self.env.spawn_task(name, Lane::Background, async move {
            loop {
                match step(node.clone()).await {
                    Ok(()) => return,
                    Err(e) => {
                        if node.view().epoch != epoch {
                            return;
                        }
                        node.ctx.alert(AlertLevel::Error, format!("{name}: {e}; trying again"));
                        node.env.sleep(Duration::from_millis(200)).await;
                    }
                }
            }
        });
    }

    /// Reads the dead threads and tells every master what it found.
    pub(super) fn scan_dead(&self, epoch: Epoch, absent: Vec<InstanceNo>) {
        self.recovery_task("scan dead threads", epoch, move |node| {
            let absent = absent.clone();
            async move {
                let _turn = node.recovery_turn.lock().await;
                marks::reached(Mark::RecoveryScanBegun);
                let (mut threads, mut left_scn) = (Vec::new(), Scn::ZERO);
                for &k in &absent {
                    let state = read_thread(&node.group, k).await?.1;
                    // Who has left in order has told nobody the SCNs of its last formats, either.
                    left_scn = left_scn.max(state.scn);
                    if state.status == ThreadStatus::Open {
                        threads.push(k);
                    }
                }
                let mut collected = Collected::default();
                if !threads.is_empty() {
                    let torn = find_torn(&node.ctx, &node.group, &threads).await?;
                    collected = collect(&node.ctx, &node.group, &threads).await?;
                    collected.torn = torn;
                }
                collected.max_scn = collected.max_scn.max(left_scn);
                // Nothing of the dead is answered before all know their SCNs (H8): the clock goes
                // out with every message from here on.
                node.core.clock.raise(collected.max_scn);
                node.core.snapshots.raise_floor(collected.max_scn);
                marks::reached(Mark::RecoveryScanDone);
                node.dawdle().await;
                let view = node.view();
                if view.epoch != epoch {
                    marks::reached(Mark::RecoveryOvertaken);
                    return Ok(());
                }
                node.phase_ended(epoch, Phase::RedoScan);
                if !threads.is_empty() {
                    let text = format!(
                        "instance recovery of thread {}: {} bytes of redo, {} blocks",
                        names(&threads),
                        collected.bytes,
                        collected.block_count()
                    );
                    node.ctx.alert(AlertLevel::Info, text);
                }
                let mut by_master: BTreeMap<InstanceNo, Vec<Recovered>> =
                    view.members.iter().map(|m| (*m, Vec::new())).collect();
                for (addr, version) in collected.last_versions() {
                    let master = view.map.master_of(addr);
                    let items = by_master.get_mut(&master).expect("a member");
                    items.push(Recovered { addr, version });
                }
                {
                    let mut recovery = node.recovery.lock();
                    recovery.collected = Some(Arc::new(collected));
                    recovery.threads = threads;
                }
                for (master, items) in by_master {
                    for (items, last) in batches(items) {
                        let found = EpochMessage::DeadChanges { epoch, last, items };
                        node.send(master, Message::Epoch(found));
                    }
                }
                Ok(())
            }
        });
    }

    /// Every lock is taken: rebuilds the blocks of the set, adopts undo.
    pub(super) fn recover_set(&self, epoch: Epoch) {
        self.recovery_task("recover blocks", epoch, move |node| async move {
            let turn = node.recovery_turn.lock().await;
            let (set, collected, threads) = {
                let r = node.recovery.lock();
                let mut set = r.set.clone();
                set.retain(|(addr, _)| !r.done.contains(addr));
                (set, r.collected.clone(), r.threads.clone())
            };
            if node.view().epoch != epoch {
                return Ok(());
            }
            let collected = collected.ok_or_else(|| Error::Invariant("no scan".to_owned()))?;
            // Before anything else is written: a second recovery must find them too. A torn block
            // that is not in the set is held by a survivor, which writes it.
            for (addr, _) in &set {
                if let Some(image) = collected.torn.get(addr) {
                    restore_torn(&node.ctx, &node.group, *addr, image).await?;
                    marks::reached(Mark::RecoveryTornRestored);
                }
            }
            let mut done = Vec::new();
            let mut batch: Vec<(Dba, IoBuf)> = Vec::new();
            for some in sorted(set).chunks(DW_BLOCKS as usize) {
                let bases = some.iter().map(|(addr, past)| node.base_of(*addr, *past, &collected));
                let bases = futures::future::try_join_all(bases).await?;
                for ((addr, _), mut image) in some.iter().zip(bases) {
                    let applied = collected.apply(&mut image, *addr)?;
                    node.ctx.bump(Stat::RecoveryVectors, applied);
                    done.push(Recovered { addr: *addr, version: layout::version(&image) });
                    layout::seal(&mut image);
                    batch.push((*addr, image));
                }
                node.write_recovered(epoch, &mut batch, &mut done).await?;
            }
            drop(turn);
            if node.view().epoch != epoch {
                return Ok(());
            }
            if !threads.is_empty() {
                node.ctx.bump(Stat::InstanceRecoveries, threads.len() as u64);
                let text = format!("blocks of thread {} recovered", names(&threads));
                node.ctx.alert(AlertLevel::Info, text);
            }
            node.adopt(epoch).await?;
            node.epoch_event(EpochEvent::DeadTransactionsLocked { epoch });
            node.epoch_event(EpochEvent::SetRecovered { epoch });
            Ok(())
        });
    }

    async fn write_recovered(
        &self,
        epoch: Epoch,
        batch: &mut Vec<(Dba, IoBuf)>,
        done: &mut Vec<Recovered>,
    ) -> Result<()> {
        if batch.is_empty() || self.view().epoch != epoch {
            return Ok(());
        }
        marks::reached(Mark::RecoveryBlocksBuilt);
        self.dawdle().await;
        // Through an area of its own: DBWR's is in use, that of the dead may be needed once more.
        write_images(&self.group, Area::Recovery(self.me), batch).await?;
        batch.clear();
        marks::reached(Mark::RecoveryBlocksWritten);
        let view = self.view();
        if view.epoch != epoch {
            return Ok(());
        }
        self.recovery.lock().done.extend(done.iter().map(|r| r.addr));
        let mut by_master: BTreeMap<InstanceNo, Vec<Recovered>> = BTreeMap::new();
        for r in done.drain(..) {
            by_master.entry(view.map.master_of(r.addr)).or_default().push(r);
        }
        for (master, items) in by_master {
            self.send(master, Message::Epoch(EpochMessage::RecoveredBlocks { epoch, items }));
        }
        Ok(())
    }

    /// What recovery starts from: the newest past image if it is newer than disk, else disk.
    async fn base_of(
        &self,
        addr: Dba,
        past: Option<(InstanceNo, Version)>,
        collected: &Collected,
    ) -> Result<IoBuf> {
        let disk = self.cache.read_block(&self.ctx, addr).await;
        let formats = collected.begins_with_format(addr);
        let disk = match disk {
            Ok(image) => image,
            Err(Error::Corrupt { .. }) if past.is_some() || formats => IoBuf::zeroed(BLOCK_BYTES),
            Err(e) => return Err(e),
        };
        let Some((from, version)) = past.filter(|p| p.1 > layout::version(&disk)) else {
            return Ok(disk);
        };
        let body = addr.to_u64().to_le_bytes().to_vec();
        let image = if from == self.me {
            self.past_image(addr)
        } else {
            let kind = CallKind::PastImage.code();
            let make = |req_id| TxnMessage::Call { req_id, kind, body };
            marks::reached(Mark::RecoveryBaseAsked);
            match self.call(from, make).await {
                Some(TxnMessage::CallReply { ok: true, body, .. }) => Some(body),
                _ => None,
            }
        };
        match image {
            Some(i) if i.len() == BLOCK_BYTES && layout::version(&i) == version => {
                Ok(IoBuf::copy_from(&i))
            }
            _ => Err(Error::Invariant(format!("the past image {version} of {addr} is missing"))),
        }
    }

    /// The past image kept here.
    pub(super) fn past_image(&self, addr: Dba) -> Option<Vec<u8>> {
        let buffer = self.cache.lookup(addr)?;
        let st = buffer.latch().read();
        st.past_image.as_ref().map(|p| p.image.to_vec())
    }

    /// Gives up the dead threads' redo: nothing lies on it any more.
    pub(super) fn close_dead(&self, epoch: Epoch, _threads: Vec<InstanceNo>) {
        self.recovery_task("close dead threads", epoch, move |node| async move {
            let collected = node.recovery.lock().collected.clone();
            if let Some(collected) = collected {
                marks::reached(Mark::RecoveryThreadsClosing);
                close_threads(&node.group, &collected.ends).await?;
            }
            node.epoch_event(EpochEvent::DeadThreadsClosed { epoch });
            Ok(())
        });
    }

    /// Answers from now on for the undo segments that are this instance's in the epoch, and rolls
    /// back in the background what was active in them.
    pub async fn adopt(&self, epoch: Epoch) -> Result<()> {
        let view = self.view();
        for k in (1..=INSTANCES_MAX).map(InstanceNo) {
            if view.answers_for(k) != self.me {
                continue;
            }
            for usn in segments_of(k) {
                if self.core.segment(usn).is_some() {
                    continue;
                }
                let segment =
                    Arc::new(Segment::load(&self.ctx, &self.cache, usn, k == self.me).await?);
                if self.view().epoch != epoch {
                    return Ok(());
                }
                self.core.add_segment(segment, k == self.me);
            }
        }
        // Before anybody's statement, or any wish for a table's lock, goes on (H18).
        self.lock_dead_tables(epoch).await?;
        self.segments_ready.store(epoch.0, Ordering::SeqCst);
        marks::reached(Mark::RecoveryUndoAdopted);
        self.segments_loaded.notify_waiters();
        Ok(())
    }

    /// Stops answering for segments of instances that are members again. Nothing in them is active:
    /// joins wait for that.
    #[must_use]
    pub(super) fn give_back_segments(&self) -> Vec<Arc<Segment>> {
        let view = self.view();
        let others =
            (1..=INSTANCES_MAX).map(InstanceNo).filter(|k| view.answers_for(*k) != self.me);
        others.flat_map(segments_of).filter_map(|usn| self.core.remove_segment(usn)).collect()
    }

    /// No thread is unrecovered: dead transactions are rolled back, then others may join.
    pub(super) fn all_recovered(&self, epoch: Epoch) {
        self.ctx.alert(AlertLevel::Info, format!("epoch {}: open", epoch.0));
        self.settled.store(epoch.0, Ordering::SeqCst);
        self.settle.notify_waiters();
        self.recovery_task("adopt undo segments", epoch, move |node| async move {
            node.adopt(epoch).await?;
            loop {
                let mut left = 0;
                for segment in node.core.all_segments() {
                    for xid in segment.left_by_crash() {
                        if node.view().epoch != epoch {
                            return Ok(());
                        }
                        let _turn = node.rollback_turn.lock().await;
                        if !segment.left_by_crash().contains(&xid) {
                            continue; // Done by the task of an earlier epoch.
                        }
                        marks::reached(Mark::RecoveryRollingBack);
                        node.dawdle().await;
                        match node.core.roll_back_dead(&node.ctx, &segment, xid).await {
                            Ok(()) => marks::reached(Mark::RecoveryRolledBack),
                            Err(e) => {
                                left += 1;
                                let text = format!("cannot roll back transaction {xid} yet: {e}");
                                node.ctx.alert(AlertLevel::Warning, text);
                            }
                        }
                    }
                }
                if left == 0 {
                    break;
                }
                node.ctx.sleep(WaitEvent::SmonTimer, Duration::from_millis(200)).await;
            }
            node.unlock_dead_tables();
            node.ctx.alert(AlertLevel::Info, format!("epoch {}: everything recovered", epoch.0));
            node.membership.epoch_done(epoch.0);
            node.rest_if_alone(epoch);
            Ok(())
        });
    }
}

fn sorted(
    mut set: Vec<(Dba, Option<(InstanceNo, Version)>)>,
) -> Vec<(Dba, Option<(InstanceNo, Version)>)> {
    set.sort_by_key(|s| s.0);
    set
}

fn names(threads: &[InstanceNo]) -> String {
    let names: Vec<String> = threads.iter().map(ToString::to_string).collect();
    names.join(", ")
}
