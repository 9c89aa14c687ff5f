//! Reading blocks from disk: one at a time, and many in one request.

use std::sync::Arc;
use std::time::Duration;

use block::layout::{self, Damage};
use block::{BLOCK_BYTES, Dba, MASTER_GROUP_BLOCKS, Mode};
use env::IoBuf;
use observe::{Ctx, Stat, WaitEvent};

use super::buffer::Buffer;
use super::pool::Cache;
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
        let p = [u64::from(dba.file), u64::from(dba.block), 1];
        let mut tries = 0;
        loop {
            ctx.bump(Stat::PhysicalReads, 1);
            ctx.bump(Stat::PhysicalReadRequests, 1);
            let read = self.group.read_blocks(dba.file, dba.block, 1);
            let image = ctx.wait(WaitEvent::DbFileSequentialRead, p, read).await?;
            match layout::check(&image, dba) {
                Ok(()) => {
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

    /// Reads ahead `count` consecutive blocks from `first` in as few requests as possible, so that
    /// a scan finds them cached. Blocks that are here, or being read, are left alone.
    ///
    /// # Errors
    /// A block is damaged or cannot be read.
    pub async fn prefetch(&self, ctx: &Ctx, first: Dba, count: u32) -> Result<()> {
        let mut at = 0;
        while at < count {
            let left_in_group = MASTER_GROUP_BLOCKS - (first.block + at) % MASTER_GROUP_BLOCKS;
            let end = at + left_in_group.min(count - at);
            let mut run: Vec<Arc<Buffer>> = Vec::new();
            for i in at..end {
                let dba = Dba::new(first.file, first.block + i);
                if self.lookup(dba).is_none() {
                    let (buffer, new) = self.lookup_or_insert(dba, true);
                    if new {
                        run.push(buffer);
                        continue;
                    }
                }
                self.read_run(ctx, std::mem::take(&mut run)).await?;
            }
            self.read_run(ctx, run).await?;
            at = end;
        }
        Ok(())
    }

    /// Loads consecutive buffers that this caller has marked loading.
    async fn read_run(&self, ctx: &Ctx, run: Vec<Arc<Buffer>>) -> Result<()> {
        if run.is_empty() {
            return Ok(());
        }
        let guard = RunGuard { run };
        let run = &guard.run;
        if !self.is_alone() {
            let Some(grants) = self.grants.get() else { return Err(Error::Closing) };
            return grants.acquire_many(ctx, run.clone()).await;
        }
        let images = self.read_many(ctx, run).await?;
        for (buffer, image) in run.iter().zip(images) {
            let mut st = buffer.latch().write();
            if self.is_alone() && st.image.is_none() {
                st.image = Some(image);
                st.mode = Mode::X;
                st.holder.set_alone();
            }
        }
        Ok(())
    }

    /// Images of consecutive blocks by one read, each checked. `db file scattered read`.
    pub(crate) async fn read_many(&self, ctx: &Ctx, run: &[Arc<Buffer>]) -> Result<Vec<IoBuf>> {
        let first = run[0].dba;
        let n = u32::try_from(run.len()).expect("a run is at most 128 blocks");
        if n == 1 {
            return Ok(vec![self.read_block(ctx, first).await?]);
        }
        ctx.bump(Stat::PhysicalReads, u64::from(n));
        ctx.bump(Stat::PhysicalReadRequests, 1);
        ctx.bump(Stat::PhysicalReadMultiRequests, 1);
        let p = [u64::from(first.file), u64::from(first.block), u64::from(n)];
        let read = self.group.read_blocks(first.file, first.block, n);
        let all = ctx.wait(WaitEvent::DbFileScatteredRead, p, read).await?;
        let mut out = Vec::with_capacity(run.len());
        for (buffer, bytes) in run.iter().zip(all.chunks_exact(BLOCK_BYTES)) {
            if layout::check(bytes, buffer.dba).is_ok() {
                self.clock.raise(layout::scn(bytes));
                out.push(IoBuf::copy_from(bytes));
            } else {
                out.push(self.read_block(ctx, buffer.dba).await?);
            }
        }
        Ok(out)
    }
}

/// Clears the loading marks of a run however the read ends.
struct RunGuard {
    run: Vec<Arc<Buffer>>,
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        for buffer in &self.run {
            buffer.latch().write().loading = false;
            buffer.changed.notify_waiters();
        }
    }
}
