//! Changes of membership, as this instance goes through them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use block::{INSTANCES_MAX, InstanceNo};
use cluster::machine::{Life, Reconfiguration};
use cluster::{Class, MembershipEvent};
use env::Lane;
use env::marks::{self, Mark};
use futures::future::{Either, select};
use global::epoch::{Channel, EpochEffect, EpochEvent};
use global::msg::{EpochMessage, Holding, Message, Recovered};
use global::{Epoch, MasterMap, Mutant, Rebuild, broken};
use observe::{AlertLevel, Stat};
use tokio::sync::mpsc;

use super::node::{Node, View};
use super::phases::Phase;

/// Items of one batch of a report.
const BATCH: usize = 1000;

/// What this instance holds, by the masters that are to know.
type HoldingsByMaster = std::collections::BTreeMap<InstanceNo, Batches<Holding>>;

/// The channels between any two instances: one a class, one lane.
pub(super) fn channels() -> Vec<Channel> {
    global::msg::Class::ALL.iter().map(|&class| Channel { class, lane: 0 }).collect()
}

fn network_class(class: global::msg::Class) -> Class {
    match class {
        global::msg::Class::Block => Class::Blocks,
        global::msg::Class::Enqueue => Class::Enqueues,
        global::msg::Class::Transaction => Class::Transactions,
        global::msg::Class::Epoch => Class::Epochs,
    }
}

impl Node {
    /// The task that follows the membership.
    pub(super) fn start_lmon(
        self: &Arc<Node>,
        mut events: mpsc::Receiver<MembershipEvent>,
        mut broken: mpsc::UnboundedReceiver<Life>,
    ) {
        let node = self.clone();
        self.env.spawn_task("LMON membership", Lane::Serve, async move {
            loop {
                match select(env::boxed!(events.recv()), env::boxed!(broken.recv())).await {
                    Either::Left((Some(event), _)) => match event {
                        MembershipEvent::Joined(r) | MembershipEvent::Reconfigured(r) => {
                            node.reconfigure(r).await;
                        }
                        MembershipEvent::Evicted { reason } => {
                            let text = format!("evicted from the cluster: {reason}");
                            node.ctx.alert(AlertLevel::Error, text.clone());
                            node.env.abort_instance(&text);
                        }
                        MembershipEvent::PutOut { instance, why } => {
                            let text = format!("instance {instance} is put out: {why}");
                            node.ctx.alert(AlertLevel::Warning, text);
                        }
                        MembershipEvent::LockStuck { instance, pid } => {
                            let text = format!(
                                "instance {instance} (process {pid}) is gone, but its lock is held"
                            );
                            node.ctx.alert(AlertLevel::Warning, text);
                        }
                    },
                    Either::Right((Some(life), _)) => {
                        let epoch = node.view().epoch;
                        node.membership.report_broken(life.instance, epoch.0);
                    }
                    _ => return,
                }
            }
        });
    }

    /// Enters a membership announced by the cluster.
    pub async fn reconfigure(&self, r: Reconfiguration) {
        let members: Vec<InstanceNo> = r.members.iter().map(|m| m.instance).collect();
        let names: Vec<String> = members.iter().map(ToString::to_string).collect();
        let text = format!("epoch {}: members {}", r.epoch, names.join(", "));
        self.ctx.alert(AlertLevel::Info, text);
        self.phases.lock().begin(Epoch(r.epoch), self.env.now());
        self.ctx.bump(Stat::Reconfigurations, 1);
        for life in &r.departed {
            if !broken(Mutant::AcceptStaleEpoch) {
                self.net.close_peer(life.instance);
            }
        }
        let node = self.arc();
        let (epoch, all) = (r.epoch, r.members.clone());
        if members.len() > 1 {
            self.env.spawn_task("connect", Lane::Serve, async move {
                use cluster::ConnectError;
                if let Err(ConnectError::Unreachable(peer)) =
                    node.net.connect_members(epoch, &all).await
                {
                    node.membership.report_broken(peer, epoch);
                } else {
                    node.announce(epoch, &all.iter().map(|m| m.instance).collect::<Vec<_>>());
                }
            });
        } else {
            self.announce(epoch, &members);
        }
    }

    pub(super) fn phase_ended(&self, epoch: Epoch, phase: Phase) {
        self.phases.lock().end(epoch, phase, self.env.now());
    }

    /// All links stand: the epoch begins for this instance.
    fn announce(&self, epoch: u64, members: &[InstanceNo]) {
        // Every thread without a member, whoever's death left it (C14). Which of them are open only
        // the recoverer looks, once, in the epoch: had each instance looked for itself, one might
        // see
        // a thread open that another has just closed, and wait for a recovery that nobody does.
        let absent = (1..=INSTANCES_MAX).map(InstanceNo).filter(|k| !members.contains(k));
        self.epoch_event(EpochEvent::NewMembership {
            epoch: Epoch(epoch),
            members: members.to_vec(),
            dead_threads: absent.collect(),
            recoverer: members.iter().copied().min().expect("a member"),
        });
    }

    /// Steps the epoch machine and does what it says, as one.
    pub(super) fn epoch_event(&self, event: EpochEvent) {
        let mut machine = self.machine.lock();
        let mut effects = Vec::new();
        machine.step(event, &mut effects);
        let mut effects = effects.into_iter().peekable();
        while let Some(effect) = effects.next() {
            match effect {
                EpochEffect::SendMarkers { epoch, to } => self.send_markers(epoch, &to),
                EpochEffect::Enter { epoch, members } => {
                    // Entering and reporting are one: nothing is stepped in between.
                    let report = matches!(effects.peek(), Some(EpochEffect::Report { .. }));
                    if report {
                        effects.next();
                    }
                    self.enter(epoch, members, report);
                    self.phase_ended(epoch, Phase::Freeze);
                }
                other => self.epoch_effect(other),
            }
        }
    }

    fn epoch_effect(&self, effect: EpochEffect) {
        match effect {
            EpochEffect::Freeze { epoch } => {
                self.thawed.store(false, Ordering::SeqCst);
                self.phase_ended(epoch, Phase::Links);
            }
            EpochEffect::DiscardDeparted { instance } => {
                if !broken(Mutant::AcceptStaleEpoch) {
                    self.net.close_peer(instance);
                }
                self.parked.lock().retain(|key, _| key.0 != instance);
            }
            EpochEffect::Rebuild { epoch } => {
                self.rebuild_directory(epoch);
                self.phase_ended(epoch, Phase::Rebuild);
            }
            EpochEffect::ScanDeadThreads { epoch, threads } => self.scan_dead(epoch, threads),
            EpochEffect::Recover { epoch } => self.recover_set(epoch),
            EpochEffect::CloseDeadThreads { epoch, threads } => self.close_dead(epoch, threads),
            EpochEffect::Send { to, msg } => self.send(to, Message::Epoch(msg)),
            EpochEffect::ThawBlocks { epoch } => {
                self.thawed.store(true, Ordering::SeqCst);
                marks::reached(Mark::EpochThawed);
                self.thaw.notify_waiters();
                self.start_looking(epoch);
                self.phase_ended(epoch, Phase::Thaw);
                self.ctx.alert(AlertLevel::Info, self.phases.lock().line());
                if self.view().members.len() == usize::from(INSTANCES_MAX) {
                    // No thread is without a member; the machine says so only where one was.
                    self.all_recovered(epoch);
                }
            }
            EpochEffect::ThawEnqueues { .. } => self.enqueues_thaw(),
            EpochEffect::AllRecovered { epoch } => self.all_recovered(epoch),
            EpochEffect::DemandEpoch { peer } => {
                self.membership.report_broken(peer, self.view().epoch.0);
            }
            EpochEffect::SendMarkers { .. }
            | EpochEffect::Enter { .. }
            | EpochEffect::Report { .. } => {}
        }
    }

    /// Closes the old epoch on every channel: nothing of it is sent afterwards.
    fn send_markers(&self, epoch: Epoch, to: &[InstanceNo]) {
        let _all = self.cache.stop_protocol();
        self.cache.set_frozen(true);
        if let Some(shown) = &self.cache.shown {
            shown.set_epoch(0);
        }
        if !to.is_empty() {
            self.cache.set_alone(false);
        }
        self.enqueues_freeze();
        let old = self.view().epoch;
        for &peer in to {
            for channel in channels() {
                let marker = EpochMessage::Marker {
                    epoch,
                    scn: self.core.clock.current(),
                    class: channel.class,
                    lane: channel.lane,
                };
                let class = network_class(channel.class);
                self.send_in(old, peer, class, Message::Epoch(marker));
            }
        }
        marks::reached(Mark::EpochMarkersSent);
    }

    /// All Markers are here: the old epoch's requests are void, rights with an image stay.
    fn enter(&self, epoch: Epoch, members: Vec<InstanceNo>, report: bool) {
        // Unpinned after the gate is open again.
        let _given_back: Vec<Arc<crate::undo::Segment>>;
        let _all = self.cache.stop_protocol();
        let map = MasterMap::new(&members);
        *self.view.write() = Arc::new(View { epoch, members: members.clone(), map: map.clone() });
        self.looks.forget(epoch);
        self.directory_ready.store(false, Ordering::SeqCst);
        self.duties_told.store(0, Ordering::SeqCst);
        self.master.lock().clear();
        *self.rebuild.lock() = Rebuild::new();
        self.before_directory.lock().clear();
        self.calls.lock().clear();
        self.cr_waits.lock().clear();
        self.served.writes_void();
        self.horizons.lock().retain(|k, _| members.contains(k));
        self.recovery.lock().reset();
        let parts = self.cache.enter_epoch(|part: &mut HoldingsByMaster, holding| {
            if report {
                part.entry(map.master_of(holding.addr)).or_default().push(holding);
            }
        });
        self.enqueues_enter();
        self.cache.set_frozen(false);
        marks::reached(Mark::EpochEntered);
        if let Some(shown) = &self.cache.shown {
            shown.set_epoch(epoch.0);
        }
        // What this instance does not answer for any more goes to those who do.
        _given_back = self.give_back_segments();
        if report {
            let mut held: HoldingsByMaster =
                members.iter().map(|m| (*m, Batches::default())).collect();
            for (master, items) in parts.into_iter().flatten() {
                held.get_mut(&master).expect("a member").append(items);
            }
            self.report(epoch, held);
            self.enqueues_report(epoch);
        }
        self.wake_classes();
    }

    /// Tells the masters what this instance holds; with the gate held exclusively.
    fn report(&self, epoch: Epoch, held: HoldingsByMaster) {
        for (master, items) in held {
            for (items, last) in items.finish() {
                self.send(master, Message::Epoch(EpochMessage::Holdings { epoch, last, items }));
            }
        }
    }

    /// Handles a message of the epoch class.
    pub(super) fn epoch_message(&self, from: InstanceNo, message: EpochMessage) {
        let now = self.view().epoch;
        match message {
            EpochMessage::Marker { epoch, class, lane, .. } => {
                self.epoch_event(EpochEvent::Marker {
                    from,
                    epoch,
                    channel: Channel { class, lane },
                });
            }
            EpochMessage::Holdings { epoch, last, items } if epoch == now => {
                self.rebuild.lock().report(from, &items);
                if last {
                    self.epoch_event(EpochEvent::HoldingsComplete { from, epoch });
                }
            }
            EpochMessage::EnqueueHoldings { epoch, last, items } if epoch == now => {
                self.enqueues_reported(from, &items);
                if last {
                    self.epoch_event(EpochEvent::EnqueuesComplete { from, epoch });
                }
            }
            EpochMessage::RebuildDone { epoch } => {
                self.epoch_event(EpochEvent::RebuildDone { from, epoch });
            }
            EpochMessage::DeadChanges { epoch, last, items } if epoch == now => {
                self.rebuild.lock().dead_changes(&items);
                if last {
                    self.epoch_event(EpochEvent::DeadChangesComplete { epoch });
                }
            }
            EpochMessage::RecoverySet { epoch, last, items } if epoch == now => {
                self.recovery.lock().set.extend(items);
                if last {
                    self.epoch_event(EpochEvent::RecoverySetComplete { from, epoch });
                }
            }
            EpochMessage::Thaw { epoch } => self.epoch_event(EpochEvent::Thaw { epoch }),
            EpochMessage::ThawEnqueues { epoch } => {
                self.epoch_event(EpochEvent::ThawEnqueues { epoch });
            }
            EpochMessage::RecoveredBlocks { epoch, items } if epoch == now => {
                self.blocks_recovered(&items);
            }
            EpochMessage::DutiesDone { epoch } => {
                self.epoch_event(EpochEvent::DutiesDone { from, epoch });
            }
            EpochMessage::RecoveryDone { epoch, .. } => {
                self.epoch_event(EpochEvent::RecoveryDone { epoch });
            }
            _ => {}
        }
    }

    /// All reports are here: the directory of this master, and what follows from it.
    fn rebuild_directory(&self, epoch: Epoch) {
        let _gate = self.cache.enter_protocol();
        marks::reached(Mark::EpochRebuilding);
        let rebuild = std::mem::take(&mut *self.rebuild.lock());
        let recoverer = self.view().members[0];
        let rebuilt = {
            let mut master = self.master.lock();
            rebuild.finish(self.env.now().0, &mut master, recoverer)
        };
        if let Some((addr, why)) = rebuilt.broken.first() {
            let text = format!("block {addr} after the membership change: {why}");
            self.ctx.alert(AlertLevel::Error, text.clone());
            self.env.abort_instance(&text);
        }
        self.send_master(rebuilt.effects);
        let items: Vec<_> = rebuilt.set.iter().map(|u| (u.addr, u.past)).collect();
        for (items, last) in batches(items) {
            let set = EpochMessage::RecoverySet { epoch, last, items };
            self.send(recoverer, Message::Epoch(set));
        }
        let waiting = {
            let mut waiting = self.before_directory.lock();
            self.directory_ready.store(true, Ordering::SeqCst);
            std::mem::take(&mut *waiting)
        };
        for (from, message) in waiting {
            self.master_message(from, message, 0);
        }
        if self.master.lock().owed().is_empty() {
            self.duties_done();
        } else {
            self.press_owed(epoch);
        }
    }

    /// Asks, until they are done, for the writes that the end of recovery waits for.
    fn press_owed(&self, epoch: Epoch) {
        let node = self.arc();
        self.env.spawn_task("owed writes", Lane::Serve, async move {
            loop {
                node.env.sleep(std::time::Duration::from_millis(20)).await;
                let _gate = node.cache.enter_protocol();
                if node.view().epoch != epoch || node.cache.is_frozen() {
                    return;
                }
                let mut effects = Vec::new();
                let mut master = node.master.lock();
                master.press_owed(node.env.now().0, &mut effects);
                let done = master.owed().is_empty();
                node.send_master(effects);
                drop(master);
                if done {
                    node.duties_done();
                    return;
                }
            }
        });
    }

    /// Everything that lies on dead threads' redo and is mastered here is on disk.
    pub(super) fn duties_done(&self) {
        let epoch = self.view().epoch;
        if !self.directory_ready.load(Ordering::SeqCst)
            || self.duties_told.swap(epoch.0, Ordering::SeqCst) == epoch.0
        {
            return;
        }
        let recoverer = self.view().members[0];
        self.send(recoverer, Message::Epoch(EpochMessage::DutiesDone { epoch }));
    }

    fn blocks_recovered(&self, items: &[Recovered]) {
        let _gate = self.cache.enter_protocol();
        let mut effects = Vec::new();
        {
            let mut master = self.master.lock();
            let now_us = self.env.now().0;
            for r in items {
                master.recovered(now_us, r.addr, r.version, &mut effects);
            }
        }
        self.send_master(effects);
        if self.master.lock().owed().is_empty() {
            self.duties_done();
        }
    }
}

/// Items of a report, cut into messages as they come.
pub(super) struct Batches<T>(Vec<Vec<T>>);

impl<T> Default for Batches<T> {
    fn default() -> Batches<T> {
        Batches(Vec::new())
    }
}

impl<T> Batches<T> {
    /// Those of another part; batches need not be full.
    pub fn append(&mut self, other: Batches<T>) {
        self.0.extend(other.0);
    }

    pub fn push(&mut self, item: T) {
        match self.0.last_mut() {
            Some(batch) if batch.len() < BATCH => batch.push(item),
            _ => {
                let mut batch = Vec::with_capacity(BATCH);
                batch.push(item);
                self.0.push(batch);
            }
        }
    }

    /// The batches, and of each whether it is the last; one without items if there are none.
    pub fn finish(mut self) -> impl Iterator<Item = (Vec<T>, bool)> {
        if self.0.is_empty() {
            self.0.push(Vec::new());
        }
        let count = self.0.len();
        self.0.into_iter().enumerate().map(move |(at, batch)| (batch, at + 1 == count))
    }
}

/// Cuts a report into batches; the last one says so, and there is always one.
pub(super) fn batches<T>(items: Vec<T>) -> impl Iterator<Item = (Vec<T>, bool)> {
    let mut out = Batches::default();
    items.into_iter().for_each(|item| out.push(item));
    out.finish()
}
