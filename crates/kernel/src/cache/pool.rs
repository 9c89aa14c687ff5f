//! Look-up, replacement and pinning.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use block::op::Op;
use block::{Dba, Mode, Rba};
use disk::Group;
use env::latch::{Latch, LatchList};
use env::{BoxFuture, Env};
use global::{HolderEffect, HolderEvent};
use observe::{Ctx, Session, Stat, WaitEvent};
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;
use tokio::sync::Notify;

use super::buffer::{Buffer, GRANTED, Pin, State};
use super::busy::{BusyRow, Common};
use super::segments::Files;
use super::step::Carry;
use crate::clock::ScnClock;
use crate::error::{Error, Result};
use crate::redo::Log;
use crate::shown::Shown;

/// Settings of the cache.
#[derive(Clone, Copy, Debug)]
pub struct CacheConfig {
    /// Buffers in all (`db_cache_size` / block size).
    pub blocks: usize,
    /// Others of the machine may see it (`_gc_direct_reads`).
    pub shown: bool,
}

const SHARDS_MAX: usize = 32;
/// How often a session that finds the cache too full waits, up to 10 ms each time: for writes,
/// which must not fall behind, and for blocks that are given back, which is soon over.
const WAITS_FOR_WRITES: u32 = 100;
const WAITS_FOR_RELEASES: u32 = 1;
/// A shard has so many buffers at least, or is the only one.
const SHARD_BLOCKS_MIN: usize = 4;

#[derive(Default)]
pub(super) struct Shard {
    pub(super) map: FxHashMap<u64, Arc<Buffer>>,
    ring: VecDeque<Arc<Buffer>>,
}

/// The cluster, as the cache needs it when this instance is not alone.
pub trait Grants: Send + Sync {
    /// Gets right `want` on the block, and its image.
    fn acquire<'a>(
        &'a self,
        ctx: &'a Ctx,
        buffer: &'a Arc<Buffer>,
        want: Mode,
    ) -> BoxFuture<'a, Result<()>>;
    /// Gets what it can of absent blocks of one master group in one request; best effort.
    fn acquire_many<'a>(
        &'a self,
        ctx: &'a Ctx,
        buffers: Vec<Arc<Buffer>>,
    ) -> BoxFuture<'a, Result<()>>;
    /// Does what a holder's step says and the cache cannot: messages, reads, flushes. Under the
    /// buffer's latch; nothing is awaited.
    fn perform(
        &self,
        buffer: &Arc<Buffer>,
        st: &mut State,
        effect: HolderEffect,
        carry: &mut Carry,
    );
    /// A peer waits for a block that is kept for a user here: ends that soon if nobody takes it.
    /// Under the buffer's latch.
    fn end_reservation_soon(&self, buffer: &Arc<Buffer>);
    /// Sends what has been said in a step of the protocol.
    fn send_queued(&self);
}

/// The buffer cache of one instance.
pub struct Cache {
    me: Weak<Cache>,
    pub env: Env,
    pub group: Arc<Group>,
    pub log: Arc<Log>,
    pub clock: Arc<ScnClock>,
    /// What others of the machine may see of it.
    pub(crate) shown: Option<Arc<Shown>>,
    /// A power of two of them.
    pub(super) shards: Vec<Latch<Shard>>,
    per_shard: usize,
    /// Sole member, nothing unrecovered, no past image: no message is ever needed.
    alone: AtomicBool,
    /// Whoever it is has the cache: it is not kept alive from here.
    pub(super) grants: OnceLock<Weak<dyn Grants>>,
    /// Everything that holds the checkpoint back, oldest first.
    pub(super) dirty: Latch<BTreeMap<(Rba, Dba), Arc<Buffer>>>,
    /// Changes hold it shared from append until their blocks are on the dirty list.
    pub(super) gate: RwLock<()>,
    pub(super) dbwr_wake: Notify,
    pub(super) freed: Notify,
    pub(super) need_free: AtomicBool,
    pub data_writes: AtomicU64,
    pub(crate) common: Arc<Common>,
    pub(super) files: Files,
    /// See `set_lag_bytes`.
    pub(super) lag_bytes: AtomicU64,
    /// Blocks others wait to see on disk.
    pub(super) wanted_writes: Mutex<Vec<Arc<Buffer>>>,
    /// See `pin_formatted`: what is to be done to blocks, once granted, instead of reading them. A
    /// leaf: locked for a look, also under a latch.
    pub(super) formats: Mutex<BTreeMap<Dba, (Op, Arc<Session>)>>,
    /// See `enter_protocol`.
    pub(super) protocol: RwLock<()>,
    pub(super) frozen: AtomicBool,
}

impl Cache {
    #[must_use]
    pub fn new(
        env: &Env,
        group: &Arc<Group>,
        log: &Arc<Log>,
        clock: &Arc<ScnClock>,
        config: CacheConfig,
    ) -> Arc<Cache> {
        let shown = config.shown.then(|| Shown::new(env, config.blocks)).flatten();
        if let Some(shown) = &shown {
            clock.show(shown);
            log.show(shown);
        }
        let most = (config.blocks / SHARD_BLOCKS_MIN).clamp(1, SHARDS_MAX);
        let shards = if most.is_power_of_two() { most } else { most.next_power_of_two() / 2 };
        Arc::new_cyclic(|me| Cache {
            me: me.clone(),
            env: env.clone(),
            group: group.clone(),
            log: log.clone(),
            clock: clock.clone(),
            common: Arc::new(Common::new(shown.clone())),
            shown,
            shards: (0..shards)
                .map(|_| Latch::new("cache buffers chains", Shard::default()))
                .collect(),
            per_shard: (config.blocks / shards).max(2),
            alone: AtomicBool::new(true),
            grants: OnceLock::new(),
            dirty: Latch::new("checkpoint queue latch", BTreeMap::new()),
            gate: RwLock::new(()),
            dbwr_wake: Notify::new(),
            freed: Notify::new(),
            need_free: AtomicBool::new(false),
            data_writes: AtomicU64::new(0),
            files: Files::default(),
            lag_bytes: AtomicU64::new(u64::MAX),
            wanted_writes: Mutex::new(Vec::new()),
            formats: Mutex::new(BTreeMap::new()),
            protocol: RwLock::new(()),
            frozen: AtomicBool::new(false),
        })
    }

    /// Tells of its latches.
    pub(crate) fn latches(&self, list: &mut LatchList) {
        self.shards.iter().for_each(|shard| list.add(shard));
        list.add(&self.dirty);
    }

    /// Waits for latches of blocks so far, by what the block is.
    #[must_use]
    pub fn busy_rows(&self) -> Vec<BusyRow> {
        self.common.busy_rows()
    }

    pub(super) fn arc(&self) -> Arc<Cache> {
        self.me.upgrade().expect("the cache is in use")
    }

    /// Connects the cache to the cluster; once.
    pub fn set_grants(&self, grants: &Arc<impl Grants + 'static>) {
        let grants = Arc::downgrade(grants);
        assert!(self.grants.set(grants).is_ok(), "grants are set once");
    }

    pub(super) fn grants(&self) -> Option<Arc<dyn Grants>> {
        self.grants.get()?.upgrade()
    }

    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.alone.load(Ordering::SeqCst)
    }

    /// Whether others of the machine see what this instance holds.
    #[must_use]
    pub fn shows(&self) -> bool {
        self.shown.as_ref().is_some_and(|shown| shown.is_on())
    }

    /// Shows a block as it is, if it is here.
    pub(crate) fn show(&self, dba: Dba) {
        let buffer = self.shard(dba).lock().map.get(&dba.to_u64()).cloned();
        if let Some(buffer) = buffer {
            drop(buffer.latch().write());
        }
    }

    /// Switches the fast path; the caller has frozen requests (hazard C5).
    ///
    /// # Panics
    /// In a build that checks no rights, when another instance is there.
    pub fn set_alone(&self, alone: bool) {
        assert!(alone || !GRANTED, "a build with the feature `granted` runs one instance alone");
        self.alone.store(alone, Ordering::SeqCst);
    }

    /// Held shared by a change from the append of its record until its blocks are dirty.
    pub(crate) fn enter_gate(&self) -> parking_lot::RwLockReadGuard<'_, ()> {
        // Recursive: a waiting writer (CKPT) must not block a change that holds latches forever.
        self.gate.read_recursive()
    }

    /// Buffers the cache may have.
    #[must_use]
    pub fn capacity_blocks(&self) -> usize {
        self.per_shard * self.shards.len()
    }

    fn shard(&self, dba: Dba) -> &Latch<Shard> {
        // Fibonacci hashing: neighbours spread over the shards.
        let h = dba.to_u64().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        &self.shards[usize::try_from(h).expect("24 bits") & (self.shards.len() - 1)]
    }

    /// The buffer of `dba`, if there is one.
    #[must_use]
    pub fn lookup(&self, dba: Dba) -> Option<Arc<Buffer>> {
        let shard = self.shard(dba).lock();
        let buffer = shard.map.get(&dba.to_u64())?;
        buffer.touch();
        Some(buffer.clone())
    }

    /// The buffer of `dba`, made if there is none; true if it is new.
    pub(crate) fn lookup_or_insert(&self, dba: Dba) -> (Arc<Buffer>, bool) {
        let mut shard = self.shard(dba).lock();
        if let Some(buffer) = shard.map.get(&dba.to_u64()) {
            buffer.touch();
            return (buffer.clone(), false);
        }
        if shard.map.len() >= self.per_shard {
            self.evict(&mut shard);
        }
        let buffer = Arc::new(Buffer::new(dba, self.common.clone()));
        shard.map.insert(dba.to_u64(), buffer.clone());
        shard.ring.push_back(buffer.clone());
        (buffer, true)
    }

    /// Removes victims until the shard has room, if the sweep finds any. How often it is worth
    /// while to wait for others to become free.
    fn evict(&self, shard: &mut Shard) -> u32 {
        let limit = 2 * shard.ring.len();
        let (mut released, mut waits) = (0, 0);
        for _ in 0..limit {
            let Some(buffer) = shard.ring.pop_front() else { break };
            let usage = buffer.usage.load(Ordering::Relaxed);
            if usage > 0 {
                buffer.usage.store(usage - 1, Ordering::Relaxed);
                shard.ring.push_back(buffer);
                // The next sweep may take it.
                waits = waits.max(WAITS_FOR_RELEASES);
                continue;
            }
            match self.try_evict(&buffer) {
                Evict::Gone => {
                    shard.map.remove(&buffer.dba.to_u64());
                    if shard.map.len() < self.per_shard {
                        return waits;
                    }
                }
                Evict::Released => {
                    shard.ring.push_back(buffer);
                    waits = waits.max(WAITS_FOR_RELEASES);
                    released += 1;
                    if released >= 8 {
                        return waits;
                    }
                }
                Evict::Soon => {
                    shard.ring.push_back(buffer);
                    waits = WAITS_FOR_WRITES;
                }
                Evict::InUse => shard.ring.push_back(buffer),
            }
        }
        self.need_free.store(true, Ordering::SeqCst);
        self.dbwr_wake.notify_one();
        // Blocks in use (the headers of undo segments are, as long as they are served here) may be
        // more than the cache shall have: waiting makes no room then.
        let unused = shard.ring.iter().filter(|b| b.pin_count() == 0).count();
        if unused > self.slack_blocks() { waits } else { 0 }
    }

    fn try_evict(&self, buffer: &Arc<Buffer>) -> Evict {
        if buffer.pin_count() != 0 {
            return Evict::InUse;
        }
        // Two references: the map's and the one just taken off the ring. The dirty list has
        // another, and so has who is about to use the block.
        if Arc::strong_count(buffer) != 2 {
            let soon = buffer.latch().try_read().is_none_or(|st| st.must_stay());
            return if soon { Evict::Soon } else { Evict::InUse };
        }
        // The gate comes before the latch; who holds the gate exclusively is not waited for here.
        let Some(_gate) = self.protocol.try_read_recursive() else { return Evict::Soon };
        let Some(mut st) = buffer.latch().try_write() else { return Evict::Soon };
        if st.must_stay() {
            return Evict::Soon;
        }
        if st.loading {
            return Evict::InUse;
        }
        if st.holder.is_idle() && st.image.is_none() {
            return Evict::Gone;
        }
        if self.is_alone() {
            if st.holder.present() {
                st.holder.drop_alone();
                if let Some(image) = st.image.take() {
                    self.settle_counts(buffer, &image);
                }
                return Evict::Gone;
            }
            return Evict::InUse;
        }
        self.step(buffer, &mut st, HolderEvent::EvictWanted, Carry::default());
        if st.holder.is_releasing() { Evict::Released } else { Evict::InUse }
    }

    /// Whether a shard is so full that its user should wait for the writer.
    fn overfull(&self, dba: Dba) -> bool {
        self.shard(dba).lock().map.len() > self.per_shard + self.slack_blocks()
    }

    /// What a shard may have above its share before anybody waits.
    fn slack_blocks(&self) -> usize {
        self.per_shard / 8 + 8
    }

    /// Waits while the shard of `dba` is over its share, unless all of it is in use: what sessions
    /// have pinned they may keep until they get one more.
    async fn wait_for_room(&self, ctx: &Ctx, dba: Dba) -> Result<()> {
        let mut tries = 0;
        while self.overfull(dba) && tries < self.evict(&mut self.shard(dba).lock()) {
            ctx.bump(Stat::FreeBufferRequested, 1);
            self.need_free.store(true, Ordering::SeqCst);
            self.dbwr_wake.notify_one();
            let p = [u64::from(dba.file), u64::from(dba.block), 0];
            let limit = std::time::Duration::from_millis(10);
            let _ = ctx
                .wait_for_or_cancel(WaitEvent::FreeBufferWaits, p, limit, self.freed.notified())
                .await?;
            tries += 1;
        }
        Ok(())
    }

    /// Pins `dba` in mode `want`, reading it or getting it from the cluster if needed.
    ///
    /// # Errors
    /// The block is damaged or cannot be read; the session was interrupted.
    pub async fn pin(&self, ctx: &Ctx, dba: Dba, want: Mode) -> Result<Pin> {
        ctx.bump(Stat::DbBlockGets, 1);
        let buffer = self.obtain(ctx, dba, want, true).await?;
        Ok(Pin { buffer, cache: self.arc(), mode: want })
    }

    /// Pins `dba` in X for formatting: alone, its content is not read. Where the block is granted
    /// by the cluster it is read all the same, unless it is pinned by [`Cache::pin_formatted`].
    ///
    /// # Errors
    /// As [`Cache::pin`].
    pub async fn pin_new(&self, ctx: &Ctx, dba: Dba) -> Result<Pin> {
        ctx.bump(Stat::DbBlockGets, 1);
        let buffer = self.obtain(ctx, dba, Mode::X, false).await?;
        Ok(Pin { buffer, cache: self.arc(), mode: Mode::X })
    }

    /// Pins without waiting: `None` if the right is not here now.
    #[must_use]
    pub fn try_pin(&self, dba: Dba, want: Mode) -> Option<Pin> {
        let buffer = self.lookup(dba)?;
        let pinned = buffer.latch().try_read().is_some_and(|st| buffer.pin_if(&st, want));
        pinned.then(|| Pin { buffer, cache: self.arc(), mode: want })
    }

    /// A pinned buffer.
    async fn obtain(&self, ctx: &Ctx, dba: Dba, want: Mode, read: bool) -> Result<Arc<Buffer>> {
        loop {
            let (buffer, new) = self.lookup_or_insert(dba);
            // What reads and asks others is boxed: every caller's future would be as large.
            if new {
                env::boxed!(self.wait_for_room(ctx, dba)).await?;
            } else if buffer.pin_if(&buffer.latch().read(), want) {
                return Ok(buffer);
            }
            env::boxed!(self.make_ready(ctx, &buffer, want, read, true)).await?;
        }
    }

    /// As [`Cache::read`] if that need not wait; else gives `f` back. Most reads end here, and a
    /// caller that puts all else behind a box has a small future.
    ///
    /// # Errors
    /// `f`: the block is not here, or not to be read now.
    pub fn try_read<R, F: FnOnce(&[u8]) -> R>(
        &self,
        ctx: &Ctx,
        dba: Dba,
        f: F,
    ) -> std::result::Result<R, F> {
        let Some(buffer) = self.lookup(dba) else { return Err(f) };
        let st = buffer.latch().read();
        let Some(image) = st.readable() else { return Err(f) };
        ctx.bump(Stat::ConsistentGets, 1);
        buffer.counts.got();
        let out = f(image);
        drop(st);
        if buffer.use_reservation() {
            self.pins_dropped(&buffer);
        }
        Ok(out)
    }

    /// Runs `f` on the current block under its latch; the instance has at least S.
    ///
    /// # Errors
    /// As [`Cache::pin`].
    pub async fn read<R>(
        &self,
        ctx: &Ctx,
        dba: Dba,
        f: impl FnOnce(&[u8]) -> R + Send,
    ) -> Result<R> {
        match self.try_read(ctx, dba, f) {
            Ok(out) => Ok(out),
            Err(f) => env::boxed!(self.read_waiting(ctx, dba, f)).await,
        }
    }

    async fn read_waiting<R>(
        &self,
        ctx: &Ctx,
        dba: Dba,
        f: impl FnOnce(&[u8]) -> R + Send,
    ) -> Result<R> {
        loop {
            let (buffer, new) = self.lookup_or_insert(dba);
            if new {
                env::boxed!(self.wait_for_room(ctx, dba)).await?;
            } else {
                let st = buffer.latch().read();
                // Enough under the latch, even while a peer waits for the block.
                if let Some(image) = st.readable() {
                    ctx.bump(Stat::ConsistentGets, 1);
                    buffer.counts.got();
                    let out = f(image);
                    drop(st);
                    if buffer.use_reservation() {
                        self.pins_dropped(&buffer);
                    }
                    return Ok(out);
                }
            }
            env::boxed!(self.make_ready(ctx, &buffer, Mode::S, true, false)).await?;
        }
    }

    /// Whether a local user may have the block in `want` now; the caller holds its latch.
    #[must_use]
    pub fn usable(&self, buffer: &Buffer, st: &State, want: Mode) -> bool {
        buffer.usable(st, want)
    }

    /// Has the block written ahead of the checkpoint's own list.
    pub fn request_write(&self, buffer: &Arc<Buffer>) {
        self.wanted_writes.lock().push(buffer.clone());
        self.dbwr_wake.notify_one();
    }

    /// Whether the block is here in S or X, ready to be read.
    #[must_use]
    pub fn is_readable(&self, dba: Dba) -> bool {
        self.lookup(dba).is_some_and(|b| {
            let st = b.latch().read();
            st.holder.readable() && st.image.is_some()
        })
    }

    /// Brings image and right here, or waits for whoever does. The caller looks again.
    pub(super) async fn make_ready(
        &self,
        ctx: &Ctx,
        buffer: &Arc<Buffer>,
        want: Mode,
        read: bool,
        pin: bool,
    ) -> Result<()> {
        let dba = buffer.dba;
        let waiting = buffer.changed.notified();
        let mut waiting = std::pin::pin!(waiting);
        waiting.as_mut().enable();
        match self.next_step(buffer, want, read, pin) {
            NextStep::Look => return Ok(()),
            NextStep::Wait => {
                let p = [u64::from(dba.file), u64::from(dba.block), 1];
                ctx.wait_or_cancel(WaitEvent::ReadByOtherSession, p, waiting).await?;
                return Ok(());
            }
            NextStep::Ask => {
                let grants = self.grants().ok_or(Error::Closing)?;
                return grants.acquire(ctx, buffer, want).await;
            }
            NextStep::Read => {}
        }
        // Whatever ends this future early (an error, a cancelled statement) ends the read.
        let guard = LoadGuard { cache: self, buffer: Some(buffer) };
        let image = self.read_into(ctx, buffer).await?;
        guard.done(image);
        Ok(())
    }

    fn next_step(&self, buffer: &Arc<Buffer>, want: Mode, read: bool, pin: bool) -> NextStep {
        let _gate = self.enter_protocol();
        let mut st = buffer.latch().write();
        if buffer.usable(&st, want) {
            return NextStep::Look;
        }
        if want == Mode::S && st.holder.readable() && st.image.is_some() && !pin {
            return NextStep::Look;
        }
        if st.loading {
            return NextStep::Wait;
        }
        // The flag is tested under the latch: a join may begin at any time (hazard C5).
        if !self.is_alone() {
            return NextStep::Ask;
        }
        if !st.holder.take_alone(Mode::X) {
            return NextStep::Look;
        }
        if read {
            st.loading = true;
            return NextStep::Read;
        }
        st.image = Some(self.unread(buffer.dba));
        self.step(buffer, &mut st, HolderEvent::ReadDone, Carry::default());
        NextStep::Look
    }

    /// A read under a right taken alone has ended.
    pub(super) fn finish_load(&self, buffer: &Arc<Buffer>, image: Option<env::IoBuf>) {
        let _gate = self.enter_protocol();
        let mut st = buffer.latch().write();
        st.loading = false;
        let event = if image.is_some() { HolderEvent::ReadDone } else { HolderEvent::ReadFailed };
        st.image = image;
        self.step(buffer, &mut st, event, Carry::default());
        st.wake = true;
    }

    pub(crate) fn pins_dropped(&self, buffer: &Arc<Buffer>) {
        if self.is_alone() {
            return;
        }
        let _gate = self.enter_protocol();
        let mut st = buffer.latch().write();
        self.step(buffer, &mut st, HolderEvent::Progress, Carry::default());
    }

    /// Every buffer, by addresses.
    #[must_use]
    pub fn buffers(&self) -> Vec<Arc<Buffer>> {
        let mut out = self.buffers_unordered();
        out.sort_by_key(|b| b.dba);
        out
    }

    /// Every buffer, in no order: a million of them take long to sort.
    #[must_use]
    pub fn buffers_unordered(&self) -> Vec<Arc<Buffer>> {
        let mut out = Vec::with_capacity(self.capacity_blocks());
        for shard in &self.shards {
            out.extend(shard.lock().map.values().cloned());
        }
        out
    }

    /// Drops a buffer whose right has gone (called by the grants after a release).
    pub fn forget(&self, buffer: &Arc<Buffer>) {
        let mut shard = self.shard(buffer.dba).lock();
        let idle = {
            let st = buffer.latch().read();
            st.image.is_none() && !st.loading && st.past_image.is_none() && st.holder.is_idle()
        };
        if idle && buffer.pin_count() == 0 {
            shard.map.remove(&buffer.dba.to_u64());
            shard.ring.retain(|b| !Arc::ptr_eq(b, buffer));
        }
        drop(shard);
        self.freed.notify_waiters();
    }
}

/// What a session does about a block it cannot use yet.
enum NextStep {
    Look,
    /// Somebody here reads it.
    Wait,
    /// Ask the cluster.
    Ask,
    /// Read it: the right has been taken alone.
    Read,
}

enum Evict {
    Gone,
    /// The right to it is given back; it goes when that is done.
    Released,
    /// It has to be written first, or somebody is at it for a moment.
    Soon,
    InUse,
}

struct LoadGuard<'a> {
    cache: &'a Cache,
    buffer: Option<&'a Arc<Buffer>>,
}

impl LoadGuard<'_> {
    fn done(mut self, image: env::IoBuf) {
        if let Some(buffer) = self.buffer.take() {
            self.cache.finish_load(buffer, Some(image));
        }
    }
}

impl Drop for LoadGuard<'_> {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer {
            self.cache.finish_load(buffer, None);
        }
    }
}
