//! Reading blocks from disk: one at a time, and many in one request.

use std::sync::Arc;
use std::time::Duration;

use block::layout::{self, Damage};
use block::{BLOCK_BYTES, Dba, MASTER_GROUP_BLOCKS, Mode, ObjId};
use env::IoBuf;
use observe::{Ctx, Stat, WaitEvent};

use super::buffer::Buffer;
use super::pool::Cache;
use super::segments::segments_of;
use crate::error::{Error, Result};

/// A read that overlaps another instance's write may be torn: it is repeated before the block is
/// called damaged.
const REREADS_MAX: u32 = 8;

impl Cache {
    /// Reads and checks one block. `db file sequential read`.
    ///
    /// # Errors
    /// [`Error::Corrupt`] after several tries; disk errors.
    pub async fn read_block(&self, ctx: &Ctx, dba: Dba) -> Result<IoBuf> {
        self.read_one(ctx, dba, None).await
    }

    /// [`Cache::read_block`] for a buffer, which may know whose block it is.
    ///
    /// # Errors
    /// The same.
    pub(crate) async fn read_into(&self, ctx: &Ctx, buffer: &Buffer) -> Result<IoBuf> {
        self.read_one(ctx, buffer.dba, Some(buffer)).await
    }

    async fn read_one(&self, ctx: &Ctx, dba: Dba, buffer: Option<&Buffer>) -> Result<IoBuf> {
        let p = [u64::from(dba.file), u64::from(dba.block), 1];
        let mut tries = 0;
        loop {
            ctx.bump(Stat::PhysicalReads, 1);
            ctx.bump(Stat::PhysicalReadRequests, 1);
            let (read, began) = (self.group.read_blocks(dba.file, dba.block, 1), self.env.now());
            let image = ctx.wait(WaitEvent::DbFileSequentialRead, p, read).await?;
            self.files.read(dba.file, 1, self.env.now().since(began));
            match layout::check(&image, dba) {
                Ok(()) => {
                    let obj = buffer.map_or_else(|| layout::obj(&image), |b| b.segment_of(&image));
                    self.count_reads(std::iter::once(obj));
                    self.clock.raise(layout::scn(&image));
                    return Ok(image);
                }
                Err(damage) => {
                    tries += 1;
                    self.report_damage(ctx, dba, damage, tries)?;
                    self.env.sleep(Duration::from_micros(200 << tries.min(5))).await;
                }
            }
        }
    }

    fn report_damage(&self, ctx: &Ctx, dba: Dba, damage: Damage, tries: u32) -> Result<()> {
        ctx.bump(Stat::BlockChecksumRetries, 1);
        if tries < REREADS_MAX {
            return Ok(());
        }
        let what = format!("{damage} (file {}, block {}, read {tries} times)", dba.file, dba.block);
        ctx.alert(observe::AlertLevel::Error, format!("block {dba} is damaged: {what}"));
        Err(Error::Corrupt { dba, what })
    }

    /// Reads ahead `count` consecutive blocks of the segment `obj` from `first` in as few requests
    /// as possible, so that a scan finds them cached. Blocks that are here, or being read, are left
    /// alone.
    ///
    /// # Errors
    /// A block is damaged or cannot be read.
    pub async fn prefetch(&self, ctx: &Ctx, obj: ObjId, first: Dba, count: u32) -> Result<()> {
        let mut at = 0;
        while at < count {
            let left_in_group = MASTER_GROUP_BLOCKS - (first.block + at) % MASTER_GROUP_BLOCKS;
            let end = at + left_in_group.min(count - at);
            let mut run: Vec<Arc<Buffer>> = Vec::new();
            for i in at..end {
                let dba = Dba::new(first.file, first.block + i);
                if let Some(buffer) = self.claim(dba, obj) {
                    run.push(buffer);
                } else {
                    self.read_run(ctx, std::mem::take(&mut run)).await?;
                }
            }
            self.read_run(ctx, run).await?;
            at = end;
        }
        Ok(())
    }

    /// The buffer of an absent block; while alone it is marked as being read by this caller.
    fn claim(&self, dba: Dba, obj: ObjId) -> Option<Arc<Buffer>> {
        let (buffer, _) = self.lookup_or_insert(dba);
        let _gate = self.enter_protocol();
        let mut st = buffer.latch().write();
        if st.image.is_some() || st.loading || !st.holder.is_idle() {
            return None;
        }
        if self.is_alone() {
            if !st.holder.take_alone(Mode::X) {
                return None;
            }
            st.loading = true;
        }
        buffer.seek(obj);
        drop(st);
        Some(buffer)
    }

    /// Loads consecutive buffers that this caller has claimed.
    async fn read_run(&self, ctx: &Ctx, run: Vec<Arc<Buffer>>) -> Result<()> {
        if run.is_empty() {
            return Ok(());
        }
        if !run.iter().all(|b| b.latch().read().loading) {
            // Not alone (any more): those claimed alone, if any, are read one by one by their
            // users.
            let (alone, asked): (Vec<_>, Vec<_>) =
                run.into_iter().partition(|b| b.latch().read().loading);
            drop(RunGuard { cache: self, run: alone });
            let Some(grants) = self.grants() else { return Err(Error::Closing) };
            return grants.acquire_many(ctx, asked).await;
        }
        let mut guard = RunGuard { cache: self, run };
        let images = self.read_many(ctx, &guard.run).await?;
        for (buffer, image) in std::mem::take(&mut guard.run).iter().zip(images) {
            self.finish_load(buffer, Some(image));
        }
        Ok(())
    }

    /// Images of consecutive blocks by one read, each checked. `db file scattered read`.
    pub(crate) async fn read_many(&self, ctx: &Ctx, run: &[Arc<Buffer>]) -> Result<Vec<IoBuf>> {
        let first = run[0].dba;
        let n = u32::try_from(run.len()).expect("a run is at most 128 blocks");
        if n == 1 {
            return Ok(vec![self.read_into(ctx, &run[0]).await?]);
        }
        ctx.bump(Stat::PhysicalReads, u64::from(n));
        ctx.bump(Stat::PhysicalReadRequests, 1);
        ctx.bump(Stat::PhysicalReadMultiRequests, 1);
        let p = [u64::from(first.file), u64::from(first.block), u64::from(n)];
        let (read, began) = (self.group.read_blocks(first.file, first.block, n), self.env.now());
        let all = ctx.wait(WaitEvent::DbFileScatteredRead, p, read).await?;
        self.files.read(first.file, n, self.env.now().since(began));
        let mut out = Vec::with_capacity(run.len());
        for (buffer, bytes) in run.iter().zip(all.chunks_exact(BLOCK_BYTES)) {
            let is_whole = layout::check(bytes, buffer.dba).is_ok();
            if is_whole {
                self.clock.raise(layout::scn(bytes));
            }
            out.push(is_whole.then(|| IoBuf::copy_from(bytes)));
        }
        self.count_reads(segments_of(run, &out));
        let mut images = Vec::with_capacity(run.len());
        for (buffer, image) in run.iter().zip(out) {
            images.push(match image {
                Some(image) => image,
                None => self.read_into(ctx, buffer).await?,
            });
        }
        Ok(images)
    }
}

/// Ends the reads of a run that did not come to their end.
struct RunGuard<'a> {
    cache: &'a Cache,
    run: Vec<Arc<Buffer>>,
}

impl Drop for RunGuard<'_> {
    fn drop(&mut self) {
        for buffer in &self.run {
            self.cache.finish_load(buffer, None);
        }
    }
}
