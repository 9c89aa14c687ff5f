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
use super::segments::segments_of;
use crate::error::Result;

/// Most blocks of one request: 1 MiB.
const RUN_BLOCKS_MAX: usize = block::MASTER_GROUP_BLOCKS as usize;
/// After its end a read that nobody has accounted for is the instance's.
const SETTLE_AFTER: Duration = Duration::from_millis(50);

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

    /// Returns when it is over.
    pub async fn ended(&self) {
        let mut ended = std::pin::pin!(self.ended.notified());
        ended.as_mut().enable();
        if !self.is_over() {
            ended.await;
        }
    }

    /// Waits for `changed`, which comes when the block is here or known to be unreadable, at most
    /// `limit`: by the read's name for who comes first, as `read by other session` for the others.
    ///
    /// # Errors
    /// The session was interrupted.
    pub async fn wait(
        &self,
        ctx: &Ctx,
        dba: Dba,
        limit: Duration,
        changed: impl Future<Output = ()>,
    ) -> Result<()> {
        let (event, p) = match self.account(ctx) {
            true => (self.event(), self.p()),
            false => {
                let p = [u64::from(dba.file), u64::from(dba.block), 1];
                (WaitEvent::ReadByOtherSession, p)
            }
        };
        // Who has waited too long looks again.
        let _ = ctx.wait_for_or_cancel(event, p, limit, changed).await?;
        Ok(())
    }

    /// Accounts for it in a session for which its block has come before it was told of the grant.
    /// `since`: where the session's wait for the grant has ended; `None`: it waited for others, and
    /// this time has been counted. With no latch held.
    pub fn account_late(&self, ctx: &Ctx, since: Option<Micros>) {
        if !self.account(ctx) {
            return;
        }
        let end = match self.ended_us.load(Ordering::SeqCst) {
            0 => ctx.env.now(),
            ended_us => Micros(ended_us),
        };
        let us = since.map_or(0, |since| end.since(since));
        ctx.record_wait_at(self.event(), self.p(), us);
    }

    /// Accounts for it in the instance, if nobody has.
    fn settle(&self) {
        let (ctx, ended_us) = (&self.instance, self.ended_us.load(Ordering::SeqCst));
        if self.account(ctx) {
            let us = Micros(ended_us).since(self.began);
            ctx.record_wait_at(self.event(), self.p(), us);
        }
    }

    /// Returns when it is accounted for: some time after its end by the instance, if all who asked
    /// have gone or found their blocks here.
    pub async fn settled(&self) {
        if !self.accounted.load(Ordering::SeqCst) {
            self.instance.env.sleep(SETTLE_AFTER).await;
            self.settle();
        }
    }
}

impl Drop for DiskRead {
    fn drop(&mut self) {
        self.settle();
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
}

impl Cache {
    /// The requests by which granted blocks are read, each with its buffers: but for those that are
    /// formatted instead, here and now. No latch is held.
    pub(crate) fn begin_reads(
        &self,
        ctx: &Ctx,
        mut granted: Vec<Arc<Buffer>>,
    ) -> Vec<(Arc<DiskRead>, Vec<Arc<Buffer>>)> {
        granted.retain(|buffer| !self.format_granted(buffer));
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

    /// Reads blocks that have been granted, each a buffer of `run`: those that came whole.
    pub(crate) async fn read_granted(
        &self,
        read: &DiskRead,
        run: &[Arc<Buffer>],
    ) -> Vec<Option<IoBuf>> {
        let DiskRead { first, blocks, began, .. } = *read;
        let all = self.group.read_blocks(first.file, first.block, blocks).await;
        self.files.read(first.file, blocks, self.env.now().since(began));
        let checked = |(buffer, image): (&Arc<Buffer>, IoBuf)| self.checked(buffer.dba, image);
        let images: Vec<Option<IoBuf>> = match all {
            Ok(all) if blocks == 1 => vec![checked((&run[0], all))],
            Ok(all) => {
                let images = all.chunks_exact(BLOCK_BYTES).map(IoBuf::copy_from);
                run.iter().zip(images).map(checked).collect()
            }
            // Of the blocks of a request that failed, some may be readable.
            Err(_) => vec![None; run.len()],
        };
        self.count_reads(segments_of(run, &images));
        images
    }

    fn checked(&self, dba: Dba, image: IoBuf) -> Option<IoBuf> {
        layout::check(&image, dba).ok()?;
        self.clock.raise(layout::scn(&image));
        Some(image)
    }
}
