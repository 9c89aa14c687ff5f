//! DBWR and CKPT: write dirty blocks through the double-write area, and move the checkpoint.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use block::{Dba, InstanceNo, Mode, Rba, Version, layout};
use env::{IoBuf, Lane};
use global::HolderEvent;
use observe::{Ctx, Stat, WaitEvent};

use super::buffer::Buffer;
use super::double_write::{Area, DW_BLOCKS, write_images};
use super::pool::Cache;
use super::segments::SegmentStat;
use super::step::Carry;
use crate::error::Result;

/// How DBWR works.
#[derive(Clone, Copy, Debug)]
pub struct Dbwr {
    pub interval: Duration,
}

struct Copied {
    buffer: Arc<Buffer>,
    version: Version,
    image: IoBuf,
}

impl Cache {
    /// Puts a changed buffer on the dirty list. The caller holds its latch and the gate.
    pub(crate) fn mark_dirty(
        &self,
        buffer: &Arc<Buffer>,
        st: &mut super::State,
        from: Rba,
        to: Rba,
        structural: bool,
    ) {
        if !st.dirty {
            st.dirty = true;
            // A past image here is older and keeps its own place; the current image starts anew.
            st.first_dirty = from;
            self.requeue(buffer, st);
        }
        if st.writing && st.redirty.is_none() {
            st.redirty = Some(from);
        }
        st.last_rba = to;
        if structural {
            st.struct_rba = to;
        }
    }

    /// Buffers on the dirty list.
    #[must_use]
    pub fn dirty_count(&self) -> usize {
        self.dirty.lock().len()
    }

    /// Redo behind the log's end above which dirty blocks are written (`fast_start_mttr_target`).
    pub fn set_lag_bytes(&self, bytes: u64) {
        self.lag_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Starts DBWR (which is also CKPT).
    pub fn start_dbwr(self: &Arc<Cache>, ctx: Ctx, me: InstanceNo, config: Dbwr) {
        let cache = self.clone();
        self.env.spawn_task("DBWR", Lane::Background, async move {
            loop {
                let wake = cache.dbwr_wake.notified();
                // Woken or timed out: either way a round is due.
                let idle = WaitEvent::RdbmsIpcMessage;
                let _ = ctx.wait_for(idle, [30, 0, 0], config.interval, wake).await;
                if let Err(e) = cache.write_round(&ctx, me).await {
                    ctx.alert(observe::AlertLevel::Error, format!("DBWR cannot write: {e}"));
                    cache.env.abort_instance(&format!("DBWR cannot write: {e}"));
                }
            }
        });
    }

    async fn write_round(&self, ctx: &Ctx, me: InstanceNo) -> Result<()> {
        // At least half of the ring stays free for new redo, whatever the target.
        let lag = self.lag_bytes.load(Ordering::Relaxed).min(self.log.ring_bytes() / 2);
        let wanted = std::mem::take(&mut *self.wanted_writes.lock());
        for some in wanted.chunks(DW_BLOCKS as usize) {
            self.write_batch(ctx, me, some.to_vec()).await?;
        }
        loop {
            let need_free = self.need_free.swap(false, Ordering::SeqCst);
            let target = Rba(self.log.next().0.saturating_sub(lag));
            let many = self.dirty_count() > self.capacity_blocks() / 2;
            let limit = if need_free || many { Rba::MAX } else { target };
            let batch = self.oldest_dirty(limit);
            if batch.is_empty() {
                break;
            }
            let full = batch.len() >= DW_BLOCKS as usize;
            if need_free {
                ctx.bump(Stat::DbwrLruBuffers, batch.len() as u64);
            } else {
                ctx.bump(Stat::DbwrCheckpointBuffers, batch.len() as u64);
            }
            self.write_batch(ctx, me, batch).await?;
            self.freed.notify_waiters();
            if !full {
                break;
            }
        }
        self.advance_checkpoint(ctx).await
    }

    /// Up to a batch of dirty buffers whose first change is below `limit`, oldest first.
    fn oldest_dirty(&self, limit: Rba) -> Vec<Arc<Buffer>> {
        let dirty = self.dirty.lock();
        dirty.range(..(limit, Dba::NONE)).take(DW_BLOCKS as usize).map(|(_, b)| b.clone()).collect()
    }

    /// Writes the buffers that can be written now: copies, flushes redo, double-write, data files.
    ///
    /// # Errors
    /// A disk error; nothing is lost then, the blocks stay dirty.
    pub async fn write_batch(
        &self,
        ctx: &Ctx,
        me: InstanceNo,
        buffers: Vec<Arc<Buffer>>,
    ) -> Result<()> {
        let mut copies = Vec::with_capacity(buffers.len());
        let mut wanted = Vec::new();
        let mut upto = Rba::ZERO;
        for buffer in buffers {
            let mut st = buffer.latch().write();
            if st.past_image.is_some() {
                wanted.push(buffer.clone());
            }
            if !st.dirty || st.writing || st.mode() == Mode::N {
                continue;
            }
            let Some(image) = &st.image else { continue };
            let image = image.clone();
            upto = upto.max(st.last_rba);
            st.writing = true;
            st.redirty = None;
            drop(st);
            let version = layout::version(&image);
            copies.push(Copied { buffer, version, image });
        }
        for buffer in wanted {
            let _gate = self.enter_protocol();
            let mut st = buffer.latch().write();
            self.step(&buffer, &mut st, HolderEvent::CheckpointPast, Carry::default());
        }
        if copies.is_empty() {
            return Ok(());
        }
        copies.sort_by_key(|c| c.buffer.dba);
        self.log.nudge(upto);
        ctx.wait(WaitEvent::RdbmsIpcReply, [0; 3], self.log.flushed(upto)).await;
        for c in &mut copies {
            layout::seal(&mut c.image);
            assert!(
                layout::dba(&c.image) == c.buffer.dba,
                "buffer of {} holds block {}",
                c.buffer.dba,
                layout::dba(&c.image)
            );
        }
        let result = self.write_copies(ctx, me, &copies).await;
        self.finish_writes(&copies, result.is_ok());
        result
    }

    async fn write_copies(&self, ctx: &Ctx, me: InstanceNo, copies: &[Copied]) -> Result<()> {
        let requests = copies.len() as u64;
        let images: Vec<(Dba, IoBuf)> =
            copies.iter().map(|c| (c.buffer.dba, c.image.clone())).collect();
        let begun = self.env.now();
        let write = write_images(&self.group, Area::Dbwr(me), &images);
        let n = ctx.wait(WaitEvent::DbFileParallelWrite, [requests, 0, 0], write).await?;
        ctx.bump(Stat::DbwrDoubleWriteBlocks, requests);
        ctx.bump(Stat::PhysicalWriteRequests, n);
        ctx.bump(Stat::PhysicalWrites, requests);
        let blocks: Vec<Dba> = images.iter().map(|(dba, _)| *dba).collect();
        self.files.written(&blocks, self.env.now().since(begun));
        for (_, image) in &images {
            self.common.segments.add(layout::obj(image), SegmentStat::PhysicalWrites, 1);
        }
        self.data_writes.fetch_add(requests, Ordering::SeqCst);
        Ok(())
    }

    fn finish_writes(&self, copies: &[Copied], ok: bool) {
        for c in copies {
            let _gate = self.enter_protocol();
            let mut st = c.buffer.latch().write();
            st.writing = false;
            if ok && st.dirty {
                match st.redirty.take() {
                    Some(from) => st.first_dirty = from,
                    None => st.dirty = false,
                }
                self.requeue(&c.buffer, &mut st);
            }
            // A write in flight counts as a pin for whoever waits to take the block away.
            let event = if ok {
                HolderEvent::WriteDone { version: c.version }
            } else {
                HolderEvent::Progress
            };
            self.step(&c.buffer, &mut st, event, Carry::default());
            st.wake = true;
        }
    }

    /// The position below which all changes of this instance are on disk.
    #[must_use]
    pub fn checkpoint_position(&self) -> Rba {
        let next = {
            let _gate = self.gate.write();
            self.log.next()
        };
        let oldest = self.dirty.lock().keys().next().map(|k| k.0);
        oldest.unwrap_or(next).min(next)
    }

    /// # Errors
    /// The control file cannot be written.
    pub async fn advance_checkpoint(&self, ctx: &Ctx) -> Result<()> {
        let position = self.checkpoint_position();
        let behind = position.0.saturating_sub(self.log.checkpoint().0);
        if behind == 0 {
            return Ok(());
        }
        // The checkpoint is a record boundary below the durable end: scan starts there.
        let position = position.min(self.log.durable());
        self.log.set_checkpoint(ctx, position).await?;
        ctx.bump(Stat::DbwrCheckpoints, 1);
        Ok(())
    }

    /// Writes everything that is dirty now and moves the checkpoint past it.
    ///
    /// # Errors
    /// A disk error.
    pub async fn checkpoint_all(&self, ctx: &Ctx, me: InstanceNo) -> Result<()> {
        let upto = self.log.next();
        self.log.nudge(upto);
        self.log.flushed(upto).await;
        loop {
            let batch = self.oldest_dirty(upto);
            if batch.is_empty() {
                break;
            }
            let before = self.checkpoint_position();
            self.write_batch(ctx, me, batch).await?;
            if self.checkpoint_position() <= before {
                // Past images, or writes of DBWR in flight: wait for those who write them.
                self.env.sleep(Duration::from_millis(2)).await;
                ctx.check_interrupt()?;
            }
        }
        self.advance_checkpoint(ctx).await
    }
}
