//! Reads of what the cluster has granted: consecutive blocks that were granted together are one
//! request of the disk, which begins at once, whoever waits.
//!
//! What it promises: each read is accounted for exactly once, by the first session that waits for
//! one of its blocks (`db file sequential read`, `db file scattered read`), or, when all who asked
//! have gone, by the instance. What it must never do: make a read wait for a session to run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use block::{BLOCK_BYTES, Dba, layout};
use env::{IoBuf, Micros};
use observe::{Ctx, Stat, WaitEvent};
use tokio::sync::Notify;

use super::buffer::{Buffer, State};
use super::pool::Cache;
use super::segments::SegmentStat;
use crate::error::{Error, Result};

/// Most blocks of one request: 1 MiB.
const RUN_BLOCKS_MAX: usize = block::MASTER_GROUP_BLOCKS as usize;

/// One request of consecutive blocks.
pub struct DiskRead {
    first: Dba,
    blocks: u32,
    began: Micros,
    /// When it ended; 0: it has not.
    ended_us: AtomicU64,
    ended: Notify,
    accounted: AtomicBool,
    /// Who accounts for it if nobody else does.
    instance: Ctx,
}

impl DiskRead {
    fn new(ctx: &Ctx, run: &[Arc<Buffer>]) -> Arc<DiskRead> {
        Arc::new(DiskRead {
            first: run[0].dba,
            blocks: u32::try_from(run.len()).expect("a run is at most 128 blocks"),
            began: ctx.env.now(),
            ended_us: AtomicU64::new(0),
            ended: Notify::new(),
            accounted: AtomicBool::new(false),
            instance: ctx.clone(),
        })
    }

    fn is_over(&self) -> bool {
        self.ended_us.load(Ordering::SeqCst) != 0
    }

    /// Its blocks are here, or known to be unreadable: before that nobody may be told.
    pub fn end(&self) {
        // The clock of a simulation begins at 0.
        self.ended_us.store(self.instance.env.now().0.max(1), Ordering::SeqCst);
        self.ended.notify_waiters();
    }

    fn event(&self) -> WaitEvent {
        match self.blocks {
            1 => WaitEvent::DbFileSequentialRead,
            _ => WaitEvent::DbFileScatteredRead,
        }
    }

    fn p(&self) -> [u64; 3] {
        [u64::from(self.first.file), u64::from(self.first.block), u64::from(self.blocks)]
    }

    /// Whether the caller is the first: the read is counted for its session then, and is for it to
    /// wait for by name.
    fn account(&self, ctx: &Ctx) -> bool {
        if self.accounted.swap(true, Ordering::SeqCst) {
            return false;
        }
        ctx.bump(Stat::PhysicalReads, u64::from(self.blocks));
        ctx.bump(Stat::PhysicalReadRequests, 1);
        ctx.bump(Stat::PhysicalReadMultiRequests, u64::from(self.blocks > 1));
        true
    }

    /// Waits for its end, at most `limit`: by its name for who comes first, as `read by other
    /// session` for the others.
    ///
    /// # Errors
    /// The session was interrupted.
    pub async fn wait(&self, ctx: &Ctx, dba: Dba, limit: Duration) -> Result<()> {
        let mut ended = std::pin::pin!(self.ended.notified());
        ended.as_mut().enable();
        let first = self.account(ctx);
        if self.is_over() {
            if first {
                ctx.record_wait_at(self.event(), self.p(), 0);
            }
            return Ok(());
        }
        let (event, p) = match first {
            true => (self.event(), self.p()),
            false => {
                let p = [u64::from(dba.file), u64::from(dba.block), 1];
                (WaitEvent::ReadByOtherSession, p)
            }
        };
        // Who has waited too long looks again.
        let _ = ctx.wait_for_or_cancel(event, p, limit, ended).await?;
        Ok(())
    }
}

impl Drop for DiskRead {
    fn drop(&mut self) {
        let (ctx, ended_us) = (self.instance.clone(), *self.ended_us.get_mut());
        if self.account(&ctx) {
            let us = Micros(ended_us).since(self.began);
            ctx.record_wait_at(self.event(), self.p(), us);
        }
    }
}

impl State {
    /// When the read began that is over before a session was told of its grant: the wait for the
    /// grant ended then.
    #[must_use]
    pub fn read_before_told(&self) -> Option<Micros> {
        let read = self.disk_read.as_ref()?;
        (self.image.is_some() || self.read_error.is_some()).then_some(read.began)
    }

    /// The block has come for a session that asked for it: accounts for its read, if that is over
    /// and nobody has.
    pub(crate) fn account_read(&mut self, ctx: &Ctx) {
        if let Some(read) = self.disk_read.take()
            && read.account(ctx)
        {
            ctx.record_wait_at(read.event(), read.p(), ctx.env.now().since(read.began));
        }
    }
}

impl Cache {
    /// The requests by which granted blocks are read, each with its buffers. Under the gate.
    pub(crate) fn begin_reads(
        &self,
        ctx: &Ctx,
        mut granted: Vec<Arc<Buffer>>,
    ) -> Vec<(Arc<DiskRead>, Vec<Arc<Buffer>>)> {
        granted.sort_by_key(|buffer| buffer.dba);
        let next = |a: &Arc<Buffer>, b: &Arc<Buffer>| {
            a.dba.file == b.dba.file && a.dba.block + 1 == b.dba.block
        };
        let mut out = Vec::new();
        for run in granted.chunk_by(next).flat_map(|run| run.chunks(RUN_BLOCKS_MAX)) {
            let read = DiskRead::new(ctx, run);
            for buffer in run {
                let mut st = buffer.latch().write();
                st.disk_read = Some(read.clone());
                st.wake = true;
            }
            out.push((read, run.to_vec()));
        }
        out
    }

    /// Reads blocks that have been granted; the result of each. `ctx` is the instance's: it has
    /// what must be read again because another instance was writing it.
    pub(crate) async fn read_granted(
        &self,
        ctx: &Ctx,
        read: &DiskRead,
        run: &[Arc<Buffer>],
    ) -> Vec<Result<IoBuf>> {
        let DiskRead { first, blocks, began, .. } = *read;
        let all = self.group.read_blocks(first.file, first.block, blocks).await;
        self.files.read(first.file, blocks, self.env.now().since(began));
        let mut out = Vec::with_capacity(run.len());
        match all {
            Ok(all) if blocks == 1 => out.push(self.checked(ctx, first, all).await),
            Ok(all) => {
                for (buffer, bytes) in run.iter().zip(all.chunks_exact(BLOCK_BYTES)) {
                    out.push(self.checked(ctx, buffer.dba, IoBuf::copy_from(bytes)).await);
                }
            }
            // Of the blocks of a request that failed, some may be readable.
            Err(_) if blocks > 1 => {
                for buffer in run {
                    out.push(self.read_block(ctx, buffer.dba).await);
                }
            }
            Err(e) => out.push(Err(Error::from(e))),
        }
        out
    }

    async fn checked(&self, ctx: &Ctx, dba: Dba, image: IoBuf) -> Result<IoBuf> {
        if layout::check(&image, dba).is_err() {
            return self.read_block(ctx, dba).await;
        }
        self.segments.add(layout::obj(&image), SegmentStat::PhysicalReads, 1);
        self.clock.raise(layout::scn(&image));
        Ok(image)
    }
}
