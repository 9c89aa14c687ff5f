//! Look-up, replacement and pinning.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use block::{Dba, Mode, Rba};
use disk::Group;
use env::{BoxFuture, Env, IoBuf};
use observe::{Ctx, Stat, WaitEvent};
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;
use tokio::sync::Notify;

use super::buffer::{Buffer, Pin, State};
use crate::clock::ScnClock;
use crate::error::{Error, Result};
use crate::redo::Log;

/// Settings of the cache.
#[derive(Clone, Copy, Debug)]
pub struct CacheConfig {
    /// Buffers in all (`db_cache_size` / block size).
    pub blocks: usize,
}

const SHARDS: usize = 32;

#[derive(Default)]
struct Shard {
    map: FxHashMap<u64, Arc<Buffer>>,
    ring: VecDeque<Arc<Buffer>>,
}

/// Who grants rights to blocks when this instance is not alone.
pub trait Grants: Send + Sync {
    /// Gets right `want` and an image for a buffer that lacks one of them. `read`: false for a
    /// block that will be formatted (its content does not matter).
    fn acquire<'a>(
        &'a self,
        ctx: &'a Ctx,
        buffer: &'a Arc<Buffer>,
        want: Mode,
        read: bool,
    ) -> BoxFuture<'a, Result<()>>;
    /// Gets S on up to 128 consecutive absent blocks in one request; best effort.
    fn acquire_many<'a>(
        &'a self,
        ctx: &'a Ctx,
        buffers: Vec<Arc<Buffer>>,
    ) -> BoxFuture<'a, Result<()>>;
    /// The last pin of a buffer with a waiting peer has dropped.
    fn pins_dropped(&self, buffer: &Arc<Buffer>);
    /// The cache would like to give the buffer up; the right goes when the master has agreed.
    fn release(&self, buffer: &Arc<Buffer>);
    /// The data file holds the block at this version now.
    fn written(&self, buffer: &Arc<Buffer>, version: block::Version);
    /// A checkpoint waits for these past images: ask their writers to write.
    fn request_writes(&self, blocks: &[(Dba, block::Version)]);
}

/// The buffer cache of one instance.
pub struct Cache {
    me: Weak<Cache>,
    pub env: Env,
    pub group: Arc<Group>,
    pub log: Arc<Log>,
    pub clock: Arc<ScnClock>,
    shards: Vec<Mutex<Shard>>,
    per_shard: usize,
    /// Sole member, nothing unrecovered, no past image: no message is ever needed.
    alone: AtomicBool,
    pub(super) grants: OnceLock<Arc<dyn Grants>>,
    /// Everything that holds the checkpoint back, oldest first.
    pub(super) dirty: Mutex<BTreeMap<(Rba, Dba), Arc<Buffer>>>,
    /// Changes hold it shared from append until their blocks are on the dirty list.
    pub(super) gate: RwLock<()>,
    pub(super) dbwr_wake: Notify,
    pub(super) freed: Notify,
    pub(super) need_free: AtomicBool,
    pub data_writes: AtomicU64,
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
        Arc::new_cyclic(|me| Cache {
            me: me.clone(),
            env: env.clone(),
            group: group.clone(),
            log: log.clone(),
            clock: clock.clone(),
            shards: (0..SHARDS).map(|_| Mutex::new(Shard::default())).collect(),
            per_shard: (config.blocks / SHARDS).max(2),
            alone: AtomicBool::new(true),
            grants: OnceLock::new(),
            dirty: Mutex::new(BTreeMap::new()),
            gate: RwLock::new(()),
            dbwr_wake: Notify::new(),
            freed: Notify::new(),
            need_free: AtomicBool::new(false),
            data_writes: AtomicU64::new(0),
        })
    }

    pub(super) fn arc(&self) -> Arc<Cache> {
        self.me.upgrade().expect("the cache is in use")
    }

    /// Connects the cache to the cluster; once.
    pub fn set_grants(&self, grants: Arc<dyn Grants>) {
        assert!(self.grants.set(grants).is_ok(), "grants are set once");
    }

    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.alone.load(Ordering::SeqCst)
    }

    /// Switches the fast path; the caller has frozen requests (hazard C5).
    pub fn set_alone(&self, alone: bool) {
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
        self.per_shard * SHARDS
    }

    fn shard(&self, dba: Dba) -> &Mutex<Shard> {
        // Fibonacci hashing: neighbours spread over the shards.
        let h = dba.to_u64().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        &self.shards[usize::try_from(h).expect("24 bits") % SHARDS]
    }

    /// The buffer of `dba`, if there is one.
    #[must_use]
    pub fn lookup(&self, dba: Dba) -> Option<Arc<Buffer>> {
        let shard = self.shard(dba).lock();
        let buffer = shard.map.get(&dba.to_u64())?;
        buffer.touch();
        Some(buffer.clone())
    }

    /// The buffer of `dba`, made if there is none; true if it is new (and marked loading).
    pub(crate) fn lookup_or_insert(&self, dba: Dba, loading: bool) -> (Arc<Buffer>, bool) {
        let mut shard = self.shard(dba).lock();
        if let Some(buffer) = shard.map.get(&dba.to_u64()) {
            buffer.touch();
            return (buffer.clone(), false);
        }
        if shard.map.len() >= self.per_shard {
            self.evict(&mut shard);
        }
        let buffer = Arc::new(Buffer::new(dba, loading));
        shard.map.insert(dba.to_u64(), buffer.clone());
        shard.ring.push_back(buffer.clone());
        (buffer, true)
    }

    /// Removes one victim, if the sweep finds one.
    fn evict(&self, shard: &mut Shard) {
        let limit = 2 * shard.ring.len();
        let mut released = 0;
        for _ in 0..limit {
            let Some(buffer) = shard.ring.pop_front() else { break };
            let usage = buffer.usage.load(Ordering::Relaxed);
            if usage > 0 {
                buffer.usage.store(usage - 1, Ordering::Relaxed);
                shard.ring.push_back(buffer);
                continue;
            }
            match self.try_evict(&buffer) {
                Evict::Gone => {
                    shard.map.remove(&buffer.dba.to_u64());
                    if shard.map.len() < self.per_shard {
                        return;
                    }
                }
                Evict::Released => {
                    shard.ring.push_back(buffer);
                    released += 1;
                    if released >= 8 {
                        return;
                    }
                }
                Evict::Keep => shard.ring.push_back(buffer),
            }
        }
        self.need_free.store(true, Ordering::SeqCst);
        self.dbwr_wake.notify_one();
    }

    fn try_evict(&self, buffer: &Arc<Buffer>) -> Evict {
        // Two references: the map's and the one just taken off the ring.
        if Arc::strong_count(buffer) != 2 || buffer.pin_count() != 0 {
            return Evict::Keep;
        }
        let Some(st) = buffer.latch().try_write() else { return Evict::Keep };
        if st.dirty || st.writing || st.loading || st.past_image.is_some() || st.blocked {
            return Evict::Keep;
        }
        if self.is_alone() || (st.mode == Mode::N && st.holder.is_idle()) {
            return Evict::Gone;
        }
        drop(st);
        if let Some(grants) = self.grants.get() {
            grants.release(buffer);
        }
        Evict::Released
    }

    /// Whether a shard is so full that its user should wait for the writer.
    fn overfull(&self, dba: Dba) -> bool {
        self.shard(dba).lock().map.len() > self.per_shard + self.per_shard / 8 + 8
    }

    /// Waits while the shard of `dba` is over its share.
    async fn wait_for_room(&self, ctx: &Ctx, dba: Dba) -> Result<()> {
        let mut tries = 0;
        while self.overfull(dba) && tries < 100 {
            ctx.bump(Stat::FreeBufferRequested, 1);
            self.need_free.store(true, Ordering::SeqCst);
            self.dbwr_wake.notify_one();
            let p = [u64::from(dba.file), u64::from(dba.block), 0];
            let limit = std::time::Duration::from_millis(10);
            let _ = ctx
                .wait_for_or_cancel(WaitEvent::FreeBufferWaits, p, limit, self.freed.notified())
                .await?;
            self.evict(&mut self.shard(dba).lock());
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
        Ok(Pin { buffer, cache: self.arc() })
    }

    /// Pins `dba` in X for formatting: its content is not read.
    ///
    /// # Errors
    /// As [`Cache::pin`].
    pub async fn pin_new(&self, ctx: &Ctx, dba: Dba) -> Result<Pin> {
        ctx.bump(Stat::DbBlockGets, 1);
        let buffer = self.obtain(ctx, dba, Mode::X, false).await?;
        Ok(Pin { buffer, cache: self.arc() })
    }

    /// Pins without waiting: `None` if the right is not here now.
    #[must_use]
    pub fn try_pin(&self, dba: Dba, want: Mode) -> Option<Pin> {
        let buffer = self.lookup(dba)?;
        let pinned = buffer.latch().try_read().is_some_and(|st| buffer.pin_if(&st, want));
        pinned.then(|| Pin { buffer, cache: self.arc() })
    }

    /// A pinned buffer.
    async fn obtain(&self, ctx: &Ctx, dba: Dba, want: Mode, read: bool) -> Result<Arc<Buffer>> {
        loop {
            let (buffer, new) = self.lookup_or_insert(dba, true);
            if !new {
                let ready = buffer.pin_if(&buffer.latch().read(), want);
                if ready {
                    return Ok(buffer);
                }
            }
            self.make_ready(ctx, &buffer, new, want, read).await?;
        }
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
        loop {
            let (buffer, new) = self.lookup_or_insert(dba, true);
            if !new {
                let st = buffer.latch().read();
                if let Some(image) = readable(&st) {
                    ctx.bump(Stat::ConsistentGets, 1);
                    return Ok(f(image));
                }
            }
            self.make_ready(ctx, &buffer, new, Mode::S, true).await?;
        }
    }

    /// Whether the block is here in S or X, ready to be read.
    #[must_use]
    pub fn is_readable(&self, dba: Dba) -> bool {
        self.lookup(dba).is_some_and(|b| readable(&b.latch().read()).is_some())
    }

    /// Brings image and right here, or waits for whoever does. The caller looks again.
    pub(super) async fn make_ready(
        &self,
        ctx: &Ctx,
        buffer: &Arc<Buffer>,
        new: bool,
        want: Mode,
        read: bool,
    ) -> Result<()> {
        let dba = buffer.dba;
        if new {
            if let Err(e) = self.wait_for_room(ctx, dba).await {
                self.load_failed(buffer);
                return Err(e);
            }
            return self.load(ctx, buffer, want, read).await;
        }
        let waiting = buffer.changed.notified();
        let mut waiting = std::pin::pin!(waiting);
        waiting.as_mut().enable();
        let (event, mine) = {
            let mut st = buffer.latch().write();
            if st.image.is_some() && st.mode >= want && !st.blocked && !st.recovering {
                return Ok(());
            }
            if st.loading {
                (WaitEvent::ReadByOtherSession, false)
            } else if st.blocked {
                (WaitEvent::GcBufferBusyRelease, false)
            } else if st.recovering {
                (WaitEvent::GcRecoveryQuiesce, false)
            } else {
                st.loading = true;
                (WaitEvent::ReadByOtherSession, true)
            }
        };
        if mine {
            return self.load(ctx, buffer, want, read).await;
        }
        let p = [u64::from(dba.file), u64::from(dba.block), 1];
        ctx.wait_or_cancel(event, p, waiting).await?;
        Ok(())
    }

    /// The buffer is marked loading by this caller: gets right and image. Clears the mark.
    async fn load(&self, ctx: &Ctx, buffer: &Arc<Buffer>, want: Mode, read: bool) -> Result<()> {
        // Whatever ends this future early (an error, a cancelled statement) clears the mark.
        let guard = LoadGuard { cache: self, buffer: Some(buffer) };
        if self.is_alone() {
            let image = if read {
                self.read_block(ctx, buffer.dba).await?
            } else {
                IoBuf::zeroed(block::BLOCK_BYTES)
            };
            let mut st = buffer.latch().write();
            // The flag is tested under the latch: a join may have begun meanwhile (hazard C5).
            if self.is_alone() {
                if st.image.is_none() {
                    st.image = Some(image);
                }
                st.mode = Mode::X;
                st.holder.set_alone();
                guard.done(&mut st);
                return Ok(());
            }
        }
        let grants = self.grants.get().ok_or(Error::Closing)?;
        grants.acquire(ctx, buffer, want, read).await?;
        guard.done(&mut buffer.latch().write());
        Ok(())
    }

    fn load_failed(&self, buffer: &Arc<Buffer>) {
        buffer.latch().write().loading = false;
        buffer.changed.notify_waiters();
    }

    pub(super) fn pins_dropped(&self, buffer: &Arc<Buffer>) {
        if let Some(grants) = self.grants.get() {
            grants.pins_dropped(buffer);
        }
    }

    /// Every buffer, for reports, views and the rebuild of the directory.
    #[must_use]
    pub fn buffers(&self) -> Vec<Arc<Buffer>> {
        let mut out = Vec::new();
        for shard in &self.shards {
            out.extend(shard.lock().map.values().cloned());
        }
        out.sort_by_key(|b| b.dba);
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

enum Evict {
    Gone,
    Released,
    Keep,
}

/// The image, if it may be read now.
pub(super) fn readable(st: &State) -> Option<&[u8]> {
    if st.mode == Mode::N || st.recovering {
        return None;
    }
    st.image.as_deref()
}

struct LoadGuard<'a> {
    cache: &'a Cache,
    buffer: Option<&'a Arc<Buffer>>,
}

impl LoadGuard<'_> {
    fn done(mut self, st: &mut State) {
        st.loading = false;
        if let Some(buffer) = self.buffer.take() {
            buffer.changed.notify_waiters();
        }
    }
}

impl Drop for LoadGuard<'_> {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer {
            self.cache.load_failed(buffer);
        }
    }
}
