//! The log buffer and LGWR.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use block::redo::{self, Body, RECORD_HEADER_BYTES, RecordKind, Stamp};
use block::{InstanceNo, Rba, Scn, Xid};
use disk::Group;
use env::latch::{Latch, LatchList};
use env::marks::{self, Mark, Point};
use env::{Env, IoBuf, Lane};
use futures::future::{Either, select};
use observe::{Ctx, LiveTotals, Stat, WaitEvent};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::control::{ThreadState, ThreadStatus, read_thread, write_thread};
use super::files::{LOG_SECTOR_BYTES, LogFileHeader, Ring};
use super::flights::{Flights, Taken};
use super::waiters::Waiters;
use crate::clock::ScnClock;
use crate::error::{Error, Result};
use crate::shown::Shown;

/// Settings of the log.
#[derive(Clone, Copy, Debug)]
pub struct LogConfig {
    /// Redo that may wait in memory before sessions wait (`log buffer space`).
    pub buffer_bytes: usize,
}

/// Buffers that have been written are kept to be filled again up to this capacity: new memory costs
/// a page fault for each 4 KiB.
const SPARE_BYTES_MAX: usize = 4 << 20;

/// Stretches of redo that are written at the same time: who finds one on its way need not wait for
/// it before its own goes out. More would make many small writes of what could be one.
const WRITES_AT_ONCE: usize = 2;

struct Buffer {
    bytes: Vec<u8>,
    /// Empty: buffers that were written, to be filled again.
    spare: Vec<Vec<u8>>,
    /// Position of `bytes[0]`.
    start: Rba,
    prev_crc: u32,
}

impl Buffer {
    fn next(&self) -> Rba {
        Rba(self.start.0 + self.bytes.len() as u64)
    }
}

/// Where LGWR is in the ring.
struct Position {
    seq: u32,
    first: Rba,
}

/// What is in a log file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogFileStatus {
    /// It is being written.
    Current,
    /// Recovery would need it.
    Active,
    /// It may be written anew.
    Inactive,
    Unused,
}

/// One file of the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogFileRow {
    /// Its place in the ring, from 0.
    pub group: u16,
    /// `None`: it has not been written yet.
    pub seq: Option<u32>,
    /// Redo that it holds.
    pub bytes: u64,
    pub status: LogFileStatus,
}

/// A log file that has been begun since the instance's start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogFileBegun {
    pub seq: u32,
    /// The clock at that moment: what was on its way to the file may be a little older.
    pub scn: Scn,
    /// µs since 1970.
    pub wall_us: i64,
}

/// How many of them are known: a thousand that are full, and the one that is written.
const BEGUN_MAX: usize = 1_001;

/// Counts a record of the redo, and the changes of blocks in it.
pub(crate) fn count_record(totals: &LiveTotals, redo_bytes: usize, vectors: usize) {
    totals.add_stat(Stat::RedoEntries, 1);
    totals.add_stat(Stat::RedoSize, redo_bytes as u64);
    totals.add_stat(Stat::DbBlockChanges, vectors as u64);
}

/// This instance's redo thread.
pub struct Log {
    env: Env,
    group: Arc<Group>,
    ring: Ring,
    config: LogConfig,
    incarnation: u32,
    clock: Arc<ScnClock>,
    buffer: Latch<Buffer>,
    position: Mutex<Position>,
    /// The last files that were begun, the first of them first.
    begun: Mutex<VecDeque<LogFileBegun>>,
    /// Sequence number of the thread state last written, and its checkpoint.
    state: tokio::sync::Mutex<(u64, ThreadState)>,
    /// Records below this are durable.
    durable: AtomicU64,
    /// Others of the machine see how far that is.
    shown: OnceLock<Arc<Shown>>,
    /// Nothing at or above this may be appended: the ring's room.
    limit: AtomicU64,
    checkpoint: AtomicU64,
    /// The clock when that was noted.
    checkpoint_scn: AtomicU64,
    wanted: AtomicU64,
    wake: Notify,
    flushed: Waiters,
    room: Notify,
    closing: AtomicBool,
    /// Extra time each flush takes, for experiments (`_lgwr_flush_delay_us`).
    delay_us: AtomicU64,
    /// What was taken out of the buffer and is not durable yet. Taken before `buffer`.
    flights: Latch<Flights>,
    /// The log writer's, once it runs: writes are counted as its own whoever does them.
    writer: OnceLock<Ctx>,
}

/// A stretch of redo in the hands of whoever writes it. That may be a session, which may go away in
/// the middle: the log writer goes on then.
struct Writing<'a> {
    log: &'a Log,
    taken: Option<Taken>,
}

impl Writing<'_> {
    fn blocks(&self) -> u64 {
        self.taken.as_ref().map_or(0, |taken| (taken.bytes.len() / block::BLOCK_BYTES) as u64)
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        if let Some(taken) = self.taken.take() {
            self.log.flights.lock().abandon(taken);
            self.log.wake.notify_one();
        }
    }
}

/// What there is to write.
enum Next<'a> {
    Stretch(Writing<'a>),
    /// Everything is durable.
    Nothing,
    /// All is on its way, or as much as may be at once: who ends tells those who wait.
    Busy,
}

impl Log {
    /// Tells of its latches.
    pub(crate) fn latches(&self, list: &mut LatchList) {
        list.add(&self.buffer);
        list.add(&self.flights);
    }

    /// Thread `k`, which must be closed (or recovered). Nothing is written yet, and nothing may be
    /// flushed before [`Log::begin`].
    ///
    /// # Errors
    /// The thread is still open (its redo may be needed), or the disk failed.
    pub async fn prepare(
        env: &Env,
        group: &Arc<Group>,
        k: InstanceNo,
        clock: &Arc<ScnClock>,
        config: LogConfig,
    ) -> Result<Arc<Log>> {
        let ring = Ring::open(group, k)?;
        let (state_seq, old) = read_thread(group, k).await?;
        if old.status == ThreadStatus::Open {
            return Err(Error::Invariant(format!("redo thread {k} is open: it needs recovery")));
        }
        clock.raise(old.scn);
        let first = Rba(old.checkpoint.0.next_multiple_of(LOG_SECTOR_BYTES));
        let incarnation = old.incarnation + 1;
        let seq = old.log_seq + 1;
        let state = ThreadState {
            status: ThreadStatus::Open,
            incarnation,
            checkpoint: first,
            log_seq: seq,
            scn: clock.current(),
        };
        let log = Arc::new(Log {
            env: env.clone(),
            group: group.clone(),
            ring,
            config,
            incarnation,
            clock: clock.clone(),
            buffer: Latch::new(
                "redo allocation",
                Buffer { bytes: Vec::new(), spare: Vec::new(), start: first, prev_crc: 0 },
            ),
            position: Mutex::new(Position { seq, first }),
            begun: Mutex::default(),
            state: tokio::sync::Mutex::new((state_seq, state)),
            durable: AtomicU64::new(first.0),
            shown: OnceLock::new(),
            limit: AtomicU64::new(0),
            checkpoint: AtomicU64::new(first.0),
            checkpoint_scn: AtomicU64::new(state.scn.0),
            wanted: AtomicU64::new(0),
            wake: Notify::new(),
            flushed: Waiters::default(),
            room: Notify::new(),
            closing: AtomicBool::new(false),
            delay_us: AtomicU64::new(0),
            flights: Latch::new("redo writing", Flights::new(WRITES_AT_ONCE)),
            writer: OnceLock::new(),
        });
        log.set_limit(first);
        Ok(log)
    }

    /// Begins a new log file with a new incarnation and marks the thread open, durably; once,
    /// before the writer is started.
    ///
    /// # Errors
    /// The disk failed.
    pub async fn begin(&self) -> Result<()> {
        let mut guard = self.state.lock().await;
        let (thread, incarnation) = (self.ring.thread, self.incarnation);
        let (seq, first) = (guard.1.log_seq, guard.1.checkpoint);
        let header = LogFileHeader { thread, incarnation, seq, first };
        self.group.write_at(self.ring.file_of(seq), 0, header.encode()).await?;
        write_thread(&self.group, thread, guard.0 + 1, &guard.1).await?;
        guard.0 += 1;
        self.note_begun(seq);
        Ok(())
    }

    fn note_begun(&self, seq: u32) {
        let (scn, wall_us) = (self.clock.current(), self.env.wall_us());
        let mut begun = self.begun.lock();
        if begun.len() == BEGUN_MAX {
            begun.pop_front();
        }
        begun.push_back(LogFileBegun { seq, scn, wall_us });
    }

    /// The last files that were begun since the instance's start, the first of them first.
    pub fn begun(&self) -> Vec<LogFileBegun> {
        self.begun.lock().iter().copied().collect()
    }

    #[must_use]
    pub fn thread(&self) -> InstanceNo {
        self.ring.thread
    }

    #[must_use]
    pub fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// Lets others of the machine see how far this thread is durable; before the writer starts.
    pub(crate) fn show(&self, shown: &Arc<Shown>) {
        shown.set_durable(self.durable());
        let _ = self.shown.set(shown.clone());
    }

    /// Redo below this position is durable.
    #[must_use]
    pub fn durable(&self) -> Rba {
        Rba(self.durable.load(Ordering::SeqCst))
    }

    /// Redo below this position is durable or on its way.
    fn taken(&self) -> Rba {
        self.buffer.lock().start
    }

    /// Where the next record will stand.
    #[must_use]
    pub fn next(&self) -> Rba {
        self.buffer.lock().next()
    }

    #[must_use]
    pub fn checkpoint(&self) -> Rba {
        Rba(self.checkpoint.load(Ordering::SeqCst))
    }

    /// The clock when the checkpoint was noted last: no change before it has a higher SCN.
    #[must_use]
    pub fn checkpoint_scn(&self) -> Scn {
        Scn(self.checkpoint_scn.load(Ordering::SeqCst))
    }

    /// Redo the whole ring holds, in bytes.
    #[must_use]
    pub fn ring_bytes(&self) -> u64 {
        self.ring.capacity_bytes * u64::from(self.ring.files)
    }

    /// The thread's log files as they stand in the ring, and the sequence number of the one that is
    /// written.
    #[must_use]
    pub fn files(&self) -> (Vec<LogFileRow>, u32) {
        let (seq, first) = {
            let position = self.position.lock();
            (position.seq, position.first)
        };
        let needed = self.checkpoint().0.next_multiple_of(LOG_SECTOR_BYTES);
        let files = u32::from(self.ring.files);
        let row = |back: u32| {
            let group = self.ring.idx_of(seq + files - back);
            let seq = seq.checked_sub(back).filter(|seq| *seq > 0);
            // Of a former life nothing is needed any more, where exactly it ended does not matter.
            let back_bytes = u64::from(back.saturating_sub(1)) * self.ring.capacity_bytes;
            let end = first.0.saturating_sub(back_bytes);
            let status = match (back, seq) {
                (0, _) => LogFileStatus::Current,
                (_, None) => LogFileStatus::Unused,
                _ if end > needed => LogFileStatus::Active,
                _ => LogFileStatus::Inactive,
            };
            LogFileRow { group, seq, bytes: self.ring.capacity_bytes, status }
        };
        ((0..files).map(row).collect(), seq)
    }

    pub fn set_flush_delay_us(&self, us: u64) {
        self.delay_us.store(us, Ordering::Relaxed);
    }

    /// Room kept free for those who have passed `throttle` and not yet appended.
    fn margin_bytes(&self) -> u64 {
        (self.ring.capacity_bytes / 2).min(16 << 20)
    }

    /// The ring may be written up to the start of the file that holds the checkpoint.
    fn set_limit(&self, checkpoint: Rba) {
        let position = self.position.lock();
        let back = position.first.0.saturating_sub(checkpoint.0);
        let files_back = back.div_ceil(self.ring.capacity_bytes);
        let oldest = position.first.0 - files_back * self.ring.capacity_bytes;
        let limit = oldest + u64::from(self.ring.files) * self.ring.capacity_bytes;
        drop(position);
        self.limit.store(limit, Ordering::SeqCst);
        self.room.notify_waiters();
    }

    fn has_room(&self) -> (bool, bool) {
        let buffer = self.buffer.lock();
        let in_buffer = buffer.bytes.len() <= self.config.buffer_bytes;
        let in_ring = buffer.next().0 + self.margin_bytes() <= self.limit.load(Ordering::SeqCst);
        (in_buffer, in_ring)
    }

    /// Waits until there is room for more redo. Called before anything is pinned.
    ///
    /// # Errors
    /// The session was interrupted, or the instance closes.
    pub async fn throttle(&self, ctx: &Ctx) -> Result<()> {
        loop {
            let waiting = self.room.notified();
            let mut waiting = std::pin::pin!(waiting);
            waiting.as_mut().enable();
            let (in_buffer, in_ring) = self.has_room();
            if in_buffer && in_ring {
                return Ok(());
            }
            if self.closing.load(Ordering::SeqCst) {
                return Err(Error::Closing);
            }
            let event = if in_ring {
                ctx.bump(Stat::RedoBufferRetries, 1);
                self.wake.notify_one();
                WaitEvent::LogBufferSpace
            } else {
                ctx.bump(Stat::RedoLogSpaceRequests, 1);
                marks::reached(Mark::LogFull);
                WaitEvent::LogFileSwitchCheckpoint
            };
            ctx.wait_or_cancel(event, [0; 3], waiting).await?;
        }
    }

    /// Appends a record; called under the latches of all its blocks. `scn` if the caller has drawn
    /// one (commit); else the record gets the clock's, a new one if it formats a block.
    pub fn append(
        &self,
        body: &Body,
        xid: Xid,
        kind: RecordKind,
        scn: Option<Scn>,
        new_scn: bool,
    ) -> (Rba, Rba, Scn) {
        let mut buffer = self.buffer.lock();
        let scn = match scn {
            Some(scn) => scn,
            None if new_scn => self.clock.tick(),
            None => self.clock.current(),
        };
        let rba = buffer.next();
        let end = Rba(rba.0 + body.record_bytes() as u64);
        if end.0 > self.limit.load(Ordering::SeqCst) {
            drop(buffer);
            self.env.abort_instance("redo would overwrite what a checkpoint still needs");
        }
        let stamp =
            Stamp { rba, incarnation: self.incarnation, prev_crc: buffer.prev_crc, scn, xid, kind };
        let crc = redo::encode(&stamp, body, &mut buffer.bytes);
        buffer.prev_crc = crc;
        (rba, end, scn)
    }

    /// Waits until everything below `upto` is durable. The caller names the wait.
    pub async fn flushed(&self, upto: Rba) {
        loop {
            if self.durable() >= upto {
                return;
            }
            let waiting = self.flushed.join(upto, false);
            if self.durable() >= upto {
                return;
            }
            self.wanted.fetch_max(upto.0, Ordering::SeqCst);
            self.wake.notify_one();
            waiting.await;
        }
    }

    /// As [`Log::flushed`]. If the caller's thread may write, and not too many do, it writes what
    /// is in the buffer itself: waking the log writer and being woken by it costs more than the
    /// write. Who finds too many waits, and one of those is woken to write for all of them.
    pub async fn flush(&self, upto: Rba) {
        if !self.env.may_write_here() || self.delay_us.load(Ordering::Relaxed) > 0 {
            return self.flushed(upto).await;
        }
        loop {
            // Before the look at what is on its way: who writes it tells whom it finds afterwards.
            let waiting = self.flushed.join(upto, true);
            if self.durable() >= upto {
                return;
            }
            if self.taken() >= upto {
                waiting.await;
                continue;
            }
            let Next::Stretch(mut writing) = self.next_stretch() else {
                waiting.await;
                continue;
            };
            drop(waiting);
            let began = self.env.now();
            if let Err(e) = env::boxed!(self.write(&mut writing)).await {
                self.env.abort_instance(&format!("redo cannot be written: {e}"));
            }
            if let Some(writer) = self.writer.get() {
                let us = self.env.now().since(began);
                writer.record_wait(WaitEvent::LogFileParallelWrite, us);
            }
        }
    }

    /// Asks LGWR to write what is there, without waiting.
    pub fn nudge(&self, upto: Rba) {
        if self.durable() < upto {
            self.wanted.fetch_max(upto.0, Ordering::SeqCst);
            self.wake.notify_one();
        }
    }

    /// Starts LGWR. An I/O error ends the instance: what was not written cannot be acknowledged.
    pub fn start_writer(self: &Arc<Log>, ctx: Ctx) {
        let log = self.clone();
        // Set once: a log has one writer.
        let _ = self.writer.set(ctx.clone());
        self.env.spawn_task("LGWR", Lane::Log, async move {
            // Told that there is room for another write: the only one who was.
            let mut told = false;
            loop {
                if !std::mem::take(&mut told) && !log.is_writer_needed() {
                    if log.closing.load(Ordering::SeqCst) {
                        return;
                    }
                    let _ = ctx
                        .wait_for(
                            WaitEvent::RdbmsIpcMessage,
                            [300, 0, 0],
                            Duration::from_secs(3),
                            log.wake.notified(),
                        )
                        .await;
                    continue;
                }
                let upto = log.next();
                let waiting = log.flushed.join(upto, true);
                match log.next_stretch() {
                    Next::Stretch(mut writing) => {
                        drop(waiting);
                        let blocks = writing.blocks();
                        let write = log.write(&mut writing);
                        let p = [1, blocks, 1];
                        if let Err(e) = ctx.wait(WaitEvent::LogFileParallelWrite, p, write).await {
                            log.env.abort_instance(&format!("LGWR cannot write: {e}"));
                        }
                    }
                    Next::Nothing => {}
                    // Whoever writes may go away, and then calls.
                    Next::Busy => {
                        let called = std::pin::pin!(log.wake.notified());
                        let either = select(waiting, called);
                        let woken = ctx.wait(WaitEvent::RdbmsIpcMessage, [0; 3], either).await;
                        told = matches!(woken, Either::Left(_)) && log.durable() < upto;
                    }
                }
            }
        });
    }

    fn is_writer_needed(&self) -> bool {
        self.durable() < Rba(self.wanted.load(Ordering::SeqCst))
            || self.buffer.lock().bytes.len() > self.config.buffer_bytes / 3
            || self.flights.lock().has_abandoned()
    }

    /// Takes what is in the buffer, padded to a sector, or what somebody else has taken and not
    /// finished.
    fn next_stretch(&self) -> Next<'_> {
        let mut flights = self.flights.lock();
        if let Some(taken) = flights.take_abandoned() {
            return Next::Stretch(Writing { log: self, taken: Some(taken) });
        }
        let mut buffer = self.buffer.lock();
        let used = buffer.bytes.len();
        if used == 0 && flights.is_empty() {
            // All of it is durable. With the locks: who wants more appends it first.
            self.wanted.store(self.durable().0, Ordering::SeqCst);
            return Next::Nothing;
        }
        if used == 0 {
            return Next::Busy;
        }
        let sector = usize::try_from(LOG_SECTOR_BYTES).expect("small");
        let mut fill = used.next_multiple_of(sector) - used;
        if fill > 0 && fill < RECORD_HEADER_BYTES {
            fill += sector;
        }
        let file_end = self.position.lock().first.0 + self.ring.capacity_bytes;
        let alone = buffer.next().0 + fill as u64 > file_end;
        if !flights.may_take(alone) {
            return Next::Busy;
        }
        if fill > 0 {
            let stamp = Stamp {
                rba: buffer.next(),
                incarnation: self.incarnation,
                prev_crc: buffer.prev_crc,
                scn: self.clock.current(),
                xid: Xid::NONE,
                kind: RecordKind::Pad,
            };
            buffer.prev_crc = redo::encode_pad(&stamp, fill, &mut buffer.bytes);
            self.count(Stat::RedoWastage, fill as u64);
        }
        let start = buffer.start;
        buffer.start = buffer.next();
        let spare = buffer.spare.pop().unwrap_or_default();
        let bytes = std::mem::replace(&mut buffer.bytes, spare);
        drop(buffer);
        if !flights.is_empty() {
            marks::reached(Mark::RedoTwoFlights);
        }
        let taken = flights.take(bytes, start, alone);
        drop(flights);
        self.room.notify_waiters();
        Next::Stretch(Writing { log: self, taken: Some(taken) })
    }

    /// Writes a stretch, and tells those who wait.
    async fn write(&self, writing: &mut Writing<'_>) -> Result<()> {
        let Some(taken) = writing.taken.as_mut() else { return Ok(()) };
        let began = self.env.now();
        let delay = self.delay_us.load(Ordering::Relaxed);
        if delay > 0 {
            self.env.sleep(Duration::from_micros(delay)).await;
        }
        if marks::is_taken(Point::LogWriteSlow) {
            self.env.sleep(Duration::from_millis(3)).await;
        }
        self.write_stream(taken).await?;
        self.count(Stat::RedoWrites, 1);
        self.count(Stat::RedoBlocksWritten, taken.bytes.len() as u64 / 512);
        self.count(Stat::RedoWriteTime, self.env.now().since(began));
        let Some(Taken { mut bytes, .. }) = self.landed(writing) else { return Ok(()) };
        // Before somebody is told who takes the buffer.
        if bytes.capacity() <= SPARE_BYTES_MAX {
            bytes.clear();
            let mut buffer = self.buffer.lock();
            if buffer.spare.len() < WRITES_AT_ONCE {
                buffer.spare.push(bytes);
            }
        }
        self.flushed.tell(self.durable(), self.taken());
        Ok(())
    }

    /// The stretch is written: the log may be durable further now.
    fn landed(&self, writing: &mut Writing<'_>) -> Option<Taken> {
        let taken = writing.taken.take()?;
        let mut flights = self.flights.lock();
        if let Some(durable) = flights.written(&taken) {
            // With the lock: whoever ends next has the higher position.
            self.durable.store(durable.0, Ordering::SeqCst);
            if let Some(shown) = self.shown.get() {
                shown.set_durable(durable);
            }
        }
        Some(taken)
    }

    fn count(&self, stat: Stat, n: u64) {
        if let Some(writer) = self.writer.get() {
            writer.bump(stat, n);
        }
    }

    /// Writes a whole number of sectors, switching files as needed, from where it has got to.
    async fn write_stream(&self, taken: &mut Taken) -> Result<()> {
        while taken.written < taken.bytes.len() {
            let at = taken.start.0 + taken.written as u64;
            let rest = &taken.bytes[taken.written..];
            let (seq, first) = {
                let p = self.position.lock();
                (p.seq, p.first.0)
            };
            let end = first + self.ring.capacity_bytes;
            if at == end {
                self.switch_file(seq + 1, Rba(end)).await?;
                continue;
            }
            let n = usize::try_from(end - at).unwrap_or(usize::MAX).min(rest.len());
            let offset = LOG_SECTOR_BYTES + (at - first);
            self.group
                .write_at(self.ring.file_of(seq), offset, IoBuf::copy_from(&rest[..n]))
                .await?;
            taken.written += n;
        }
        Ok(())
    }

    async fn switch_file(&self, seq: u32, first: Rba) -> Result<()> {
        let header =
            LogFileHeader { thread: self.ring.thread, incarnation: self.incarnation, seq, first };
        self.group.write_at(self.ring.file_of(seq), 0, header.encode()).await?;
        *self.position.lock() = Position { seq, first };
        self.note_begun(seq);
        marks::reached(Mark::LogSwitched);
        Ok(())
    }

    /// Notes durably that recovery would start at `rba`.
    ///
    /// # Errors
    /// The control file cannot be written.
    pub async fn set_checkpoint(&self, ctx: &Ctx, rba: Rba) -> Result<()> {
        let mut guard = self.state.lock().await;
        if rba <= guard.1.checkpoint {
            return Ok(());
        }
        let seq = guard.0 + 1;
        let state = ThreadState {
            checkpoint: rba,
            log_seq: self.position.lock().seq,
            scn: self.clock.current(),
            ..guard.1
        };
        ctx.wait(
            WaitEvent::ControlFileParallelWrite,
            [1, 1, 1],
            write_thread(&self.group, self.ring.thread, seq, &state),
        )
        .await?;
        *guard = (seq, state);
        self.checkpoint.store(rba.0, Ordering::SeqCst);
        self.checkpoint_scn.store(state.scn.0, Ordering::SeqCst);
        drop(guard);
        self.set_limit(rba);
        Ok(())
    }

    /// Stops LGWR after the last flush and marks the thread closed: everything is on disk.
    ///
    /// # Errors
    /// The control file cannot be written.
    pub async fn close(&self, ctx: &Ctx) -> Result<()> {
        let end = self.next();
        self.flushed(end).await;
        let mut guard = self.state.lock().await;
        let seq = guard.0 + 1;
        let state = ThreadState {
            status: ThreadStatus::Closed,
            checkpoint: self.next(),
            log_seq: self.position.lock().seq,
            scn: self.clock.current(),
            ..guard.1
        };
        ctx.wait(
            WaitEvent::ControlFileParallelWrite,
            [1, 1, 1],
            write_thread(&self.group, self.ring.thread, seq, &state),
        )
        .await?;
        *guard = (seq, state);
        self.closing.store(true, Ordering::SeqCst);
        self.wake.notify_one();
        self.room.notify_waiters();
        Ok(())
    }
}
