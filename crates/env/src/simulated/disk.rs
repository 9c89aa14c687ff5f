//! Simulated files: shared by all processes, with latency, faults and losses at a crash.
//!
//! The fault model. A write to a file opened without `dsync` is visible at once but durable only
//! after
//! `sync`: when its writer crashes, each such write survives whole, survives in part (some of its
//! 512-byte sectors) or is lost, each on its own. A write in flight at its writer's crash, `dsync`
//! or
//! not, has the same three fates. A read that overlaps a write in flight may see some new sectors.
//! A completed `dsync` or synced write is never lost.
//!
//! Fencing. The storage knows those that have registered; once one is fenced, what it has in flight
//! has met the fate of a crash, and whatever it reads or writes is refused with EBADE: a persistent
//! reservation of type "exclusive access, registrants only" that has been preempted. Locks of files
//! are those of a cluster's file system: they hold between hosts, and fall with the fence.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::oneshot;

use super::rng::{Rng, hash_bytes};
use super::world::{Shared, World};
use crate::{BoxFuture, FileLock, IoBuf, OpenOptions, RawFile};

const PAGE_BYTES: usize = 4096;
const SECTOR_BYTES: usize = 512;
/// Faults of this path hit what the storage is told.
const LUNS: &str = "/luns/";

/// A disk fault in force.
#[derive(Clone, Debug)]
pub struct DiskFault {
    /// The instance that meets it; `None`: all.
    pub instance: Option<u8>,
    /// Part of the path of the files concerned; empty: all.
    pub path_contains: String,
    pub kind: FaultKind,
    /// How likely each I/O meets it.
    pub probability: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// Reads fail with EIO.
    ReadError,
    /// Writes and syncs fail with EIO; a failed write may have left anything in its range.
    WriteError,
    /// Reads end early: fewer bytes than were asked for.
    ShortRead,
    /// Every I/O takes this much longer.
    SlowUs(u64),
    /// Every write and sync takes this much longer.
    SlowWritesUs(u64),
    /// Growing a file fails with ENOSPC.
    Full,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Io {
    Read,
    Write,
    Sync,
}

#[derive(Default)]
struct FileState {
    size_bytes: u64,
    pages: BTreeMap<u64, Box<[u8; PAGE_BYTES]>>,
    unsynced: Vec<Unsynced>,
    locks: Vec<HeldLock>,
}

struct Unsynced {
    pid: u32,
    offset_bytes: u64,
    data: IoBuf,
}

struct HeldLock {
    id: u64,
    pid: u32,
    start: u64,
    end: u64,
}

type IoResult = (io::Result<()>, IoBuf);

struct InFlight {
    pid: u32,
    path: Arc<PathBuf>,
    offset_bytes: u64,
    dsync: bool,
    fails: bool,
    data: IoBuf,
    done: oneshot::Sender<IoResult>,
}

#[derive(Default)]
pub(super) struct DiskState {
    files: BTreeMap<PathBuf, FileState>,
    writes: BTreeMap<u64, InFlight>,
    next_id: u64,
    pub(super) faults: Vec<DiskFault>,
    /// Processes that have registered as writers, by key.
    writers: BTreeMap<u64, u32>,
    /// Processes whose writes are refused.
    fenced: BTreeSet<u32>,
    /// None are.
    fences_forgotten: bool,
}

impl DiskState {
    pub(super) fn forget_fences(&mut self) {
        self.fences_forgotten = true;
    }
}

fn refused() -> io::Error {
    io::Error::from_raw_os_error(nix::libc::EBADE)
}

fn eio() -> io::Error {
    io::Error::from_raw_os_error(nix::libc::EIO)
}

impl FileState {
    fn store(&mut self, offset_bytes: u64, data: &[u8]) {
        let mut done = 0;
        while done < data.len() {
            let at = offset_bytes + done as u64;
            let within = (at % PAGE_BYTES as u64) as usize;
            let n = (PAGE_BYTES - within).min(data.len() - done);
            let page = self
                .pages
                .entry(at / PAGE_BYTES as u64)
                .or_insert_with(|| Box::new([0; PAGE_BYTES]));
            page[within..within + n].copy_from_slice(&data[done..done + n]);
            done += n;
        }
        self.size_bytes = self.size_bytes.max(offset_bytes + data.len() as u64);
    }

    fn store_some_sectors(&mut self, offset_bytes: u64, data: &[u8], rng: &mut Rng) {
        for (i, sector) in data.chunks(SECTOR_BYTES).enumerate() {
            if rng.chance(0.5) {
                self.store(offset_bytes + (i * SECTOR_BYTES) as u64, sector);
            }
        }
    }

    fn load(&self, offset_bytes: u64, buf: &mut [u8]) {
        let first = offset_bytes / PAGE_BYTES as u64;
        let end = (offset_bytes + buf.len() as u64).div_ceil(PAGE_BYTES as u64);
        buf.fill(0);
        for (no, page) in self.pages.range(first..end) {
            overlay(offset_bytes, buf, no * PAGE_BYTES as u64, &page[..]);
        }
        for write in &self.unsynced {
            overlay(offset_bytes, buf, write.offset_bytes, &write.data);
        }
    }

    /// Makes the unsynced writes that `which` selects durable, in order.
    fn settle(&mut self, which: impl Fn(&Unsynced) -> bool) {
        let (now, later) = std::mem::take(&mut self.unsynced).into_iter().partition(which);
        self.unsynced = later;
        let now: Vec<Unsynced> = now;
        for write in now {
            self.store(write.offset_bytes, &write.data);
        }
    }

    fn land(&mut self, pid: u32, offset_bytes: u64, data: IoBuf, dsync: bool) {
        if dsync {
            let end = offset_bytes + data.len() as u64;
            self.settle(|w| {
                w.offset_bytes < end && offset_bytes < w.offset_bytes + w.data.len() as u64
            });
            self.store(offset_bytes, &data);
        } else {
            self.size_bytes = self.size_bytes.max(offset_bytes + data.len() as u64);
            self.unsynced.push(Unsynced { pid, offset_bytes, data });
        }
    }
}

/// Copies what `src` (at `src_at`) has of the range of `buf` (at `buf_at`).
fn overlay(buf_at: u64, buf: &mut [u8], src_at: u64, src: &[u8]) {
    let start = buf_at.max(src_at);
    let end = (buf_at + buf.len() as u64).min(src_at + src.len() as u64);
    if start < end {
        let n = (end - start) as usize;
        let (to, from) = ((start - buf_at) as usize, (start - src_at) as usize);
        buf[to..to + n].copy_from_slice(&src[from..from + n]);
    }
}

/// What a crash does with a write that was not durable.
fn settle_at_crash(world: &mut World, path: &Path, offset_bytes: u64, data: &[u8]) {
    let (survive, torn) = (world.config.unsynced_survives, world.config.unsynced_torn);
    let Some(file) = world.disk.files.get_mut(path) else { return };
    let fate = if world.rng.chance(survive) {
        file.store(offset_bytes, data);
        0
    } else if world.rng.chance(torn) {
        file.store_some_sectors(offset_bytes, data, &mut world.rng);
        1
    } else {
        2
    };
    world.note("unsynced write at crash", offset_bytes, fate);
}

/// The process is gone: its locks fall, its writes that were not durable meet their fate.
pub(super) fn crash(world: &mut World, pid: u32) {
    for file in world.disk.files.values_mut() {
        file.locks.retain(|l| l.pid != pid);
    }
    drop(settle_writes(world, pid));
}

/// No write of this process lands any more.
fn fence(world: &mut World, pid: u32) {
    if !world.disk.fences_forgotten && world.disk.fenced.insert(pid) {
        world.note("fence", u64::from(pid), 0);
        for file in world.disk.files.values_mut() {
            file.locks.retain(|l| l.pid != pid);
        }
        for (done, data) in settle_writes(world, pid) {
            drop(done.send((Err(refused()), data)));
        }
    }
}

/// The writes of a process that are not durable meet their fate. Returns who waits for one.
fn settle_writes(world: &mut World, pid: u32) -> Vec<(oneshot::Sender<IoResult>, IoBuf)> {
    let mut lost = Vec::new();
    let mut waiting = Vec::new();
    for (path, file) in &mut world.disk.files {
        let (dead, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut file.unsynced).into_iter().partition(|w| w.pid == pid);
        file.unsynced = rest;
        lost.extend(dead.into_iter().map(|w| (path.clone(), w.offset_bytes, w.data)));
    }
    let ids: Vec<u64> =
        world.disk.writes.iter().filter(|(_, w)| w.pid == pid).map(|(id, _)| *id).collect();
    for id in ids {
        let w = world.disk.writes.remove(&id).expect("listed above");
        lost.push((w.path.to_path_buf(), w.offset_bytes, w.data.clone()));
        waiting.push((w.done, w.data));
    }
    for (path, offset_bytes, data) in lost {
        settle_at_crash(world, &path, offset_bytes, &data);
    }
    waiting
}

impl World {
    fn meets(&mut self, pid: u32, path: &Path, kind: FaultKind) -> bool {
        let instance = self.instance_of(pid);
        let text = path.to_string_lossy();
        let (rng, faults) = (&mut self.rng, &self.disk.faults);
        faults.iter().any(|f| {
            f.kind == kind
                && f.instance.is_none_or(|i| i == instance)
                && text.contains(&f.path_contains)
                && rng.chance(f.probability)
        })
    }

    fn io_delay_us(&mut self, pid: u32, path: &Path, io: Io) -> u64 {
        let instance = self.instance_of(pid);
        let text = path.to_string_lossy();
        let range = match io {
            Io::Read => self.config.disk_read_us,
            Io::Write => self.config.disk_write_us,
            Io::Sync => self.config.disk_sync_us,
        };
        let mut delay = self.rng.between(range);
        for fault in &self.disk.faults {
            let slow = match fault.kind {
                FaultKind::SlowUs(us) => Some(us),
                FaultKind::SlowWritesUs(us) if io != Io::Read => Some(us),
                _ => None,
            };
            if let Some(us) = slow
                && fault.instance.is_none_or(|i| i == instance)
                && text.contains(&fault.path_contains)
                && self.rng.chance(fault.probability)
            {
                delay += us;
            }
        }
        delay
    }

    fn finish_read(&mut self, path: &Path, offset_bytes: u64, buf: &mut [u8]) -> io::Result<()> {
        let file = self.disk.files.get(path).ok_or(io::ErrorKind::NotFound)?;
        if offset_bytes + buf.len() as u64 > file.size_bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        file.load(offset_bytes, buf);
        let torn = self.config.torn_read;
        let (rng, writes) = (&mut self.rng, &self.disk.writes);
        for write in writes.values().filter(|w| w.path.as_path() == path) {
            for (i, sector) in write.data.chunks(SECTOR_BYTES).enumerate() {
                let at = write.offset_bytes + (i * SECTOR_BYTES) as u64;
                let end = offset_bytes + buf.len() as u64;
                if at < end && offset_bytes < at + sector.len() as u64 && rng.chance(torn) {
                    overlay(offset_bytes, buf, at, sector);
                }
            }
        }
        let hash = hash_bytes(buf);
        self.note("read", offset_bytes, hash);
        Ok(())
    }

    fn finish_write(&mut self, id: u64) {
        // Gone if its writer has crashed.
        let Some(w) = self.disk.writes.remove(&id) else { return };
        let hash = hash_bytes(&w.data);
        self.note("write", w.offset_bytes, hash);
        let Some(file) = self.disk.files.get_mut(w.path.as_path()) else {
            drop(w.done.send((Err(io::ErrorKind::NotFound.into()), w.data)));
            return;
        };
        let result = if w.fails {
            file.store_some_sectors(w.offset_bytes, &w.data, &mut self.rng);
            Err(eio())
        } else {
            file.land(w.pid, w.offset_bytes, w.data.clone(), w.dsync);
            Ok(())
        };
        drop(w.done.send((result, w.data)));
    }
}

struct SimFile {
    shared: Arc<Shared>,
    pid: u32,
    path: Arc<PathBuf>,
    options: OpenOptions,
}

impl SimFile {
    fn check(&self, offset_bytes: u64) -> io::Result<()> {
        if self.options.direct && !offset_bytes.is_multiple_of(PAGE_BYTES as u64) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "unaligned direct I/O"));
        }
        Ok(())
    }
}

/// Waits for the completion; a crashed process waits for ever.
pub(super) async fn outcome<T>(result: oneshot::Receiver<T>) -> T {
    match result.await {
        Ok(value) => value,
        Err(_) => std::future::pending().await,
    }
}

impl RawFile for SimFile {
    fn read_at(&self, offset_bytes: u64, mut buf: IoBuf) -> BoxFuture<'_, IoResult> {
        if let Err(e) = self.check(offset_bytes) {
            return Box::pin(std::future::ready((Err(e), buf)));
        }
        let (done, result) = oneshot::channel();
        let (pid, path) = (self.pid, Arc::clone(&self.path));
        let mut world = self.shared.lock();
        let delay = world.io_delay_us(pid, &path, Io::Read);
        let fails = world.meets(pid, &path, FaultKind::ReadError);
        let short = world.meets(pid, &path, FaultKind::ShortRead);
        world.after(delay, move |world| {
            if !world.is_alive(pid) {
                return;
            }
            let fenced = world.disk.fenced.contains(&pid);
            let result = match (fails, short) {
                _ if fenced => Err(refused()),
                (true, _) => Err(eio()),
                (false, true) => Err(io::ErrorKind::UnexpectedEof.into()),
                (false, false) => world.finish_read(&path, offset_bytes, &mut buf),
            };
            drop(done.send((result, buf)));
        });
        drop(world);
        Box::pin(outcome(result))
    }

    fn write_at(&self, offset_bytes: u64, buf: IoBuf) -> BoxFuture<'_, IoResult> {
        if let Err(e) = self.check(offset_bytes) {
            return Box::pin(std::future::ready((Err(e), buf)));
        }
        let (done, result) = oneshot::channel();
        let mut world = self.shared.lock();
        if !world.is_alive(self.pid) {
            return Box::pin(std::future::pending());
        }
        let delay = world.io_delay_us(self.pid, &self.path, Io::Write);
        if world.disk.fenced.contains(&self.pid) {
            world.after(delay, move |_| drop(done.send((Err(refused()), buf))));
            return Box::pin(outcome(result));
        }
        let size = world.disk.files.get(self.path.as_path()).map_or(0, |f| f.size_bytes);
        if offset_bytes + buf.len() as u64 > size
            && world.meets(self.pid, &self.path, FaultKind::Full)
        {
            return Box::pin(std::future::ready((Err(io::ErrorKind::StorageFull.into()), buf)));
        }
        let fails = world.meets(self.pid, &self.path, FaultKind::WriteError);
        world.disk.next_id += 1;
        let id = world.disk.next_id;
        let write = InFlight {
            pid: self.pid,
            path: Arc::clone(&self.path),
            offset_bytes,
            dsync: self.options.dsync,
            fails,
            data: buf,
            done,
        };
        world.disk.writes.insert(id, write);
        world.count_write(self.pid);
        world.after(delay, move |world| world.finish_write(id));
        drop(world);
        Box::pin(outcome(result))
    }

    fn sync(&self) -> BoxFuture<'_, io::Result<()>> {
        let (done, result) = oneshot::channel();
        let (pid, path) = (self.pid, Arc::clone(&self.path));
        let mut world = self.shared.lock();
        let delay = world.io_delay_us(pid, &path, Io::Sync);
        let fails = world.meets(pid, &path, FaultKind::WriteError);
        world.after(delay, move |world| {
            if !world.is_alive(pid) {
                return;
            }
            world.note("sync", u64::from(pid), 0);
            if world.disk.fenced.contains(&pid) {
                drop(done.send(Err(refused())));
                return;
            }
            let result = match world.disk.files.get_mut(path.as_path()) {
                Some(file) if !fails => {
                    file.settle(|_| true);
                    Ok(())
                }
                _ => Err(eio()),
            };
            drop(done.send(result));
        });
        drop(world);
        Box::pin(outcome(result))
    }

    fn size_bytes(&self) -> io::Result<u64> {
        let world = self.shared.lock();
        let file = world.disk.files.get(self.path.as_path()).ok_or(io::ErrorKind::NotFound)?;
        Ok(file.size_bytes)
    }

    fn allocate(&self, size_bytes: u64) -> io::Result<()> {
        let mut world = self.shared.lock();
        if world.disk.fenced.contains(&self.pid) {
            return Err(refused());
        }
        if world.meets(self.pid, &self.path, FaultKind::Full) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let file = world.disk.files.get_mut(self.path.as_path()).ok_or(io::ErrorKind::NotFound)?;
        file.size_bytes = file.size_bytes.max(size_bytes);
        Ok(())
    }
}

pub(super) fn open(
    shared: &Arc<Shared>,
    pid: u32,
    path: &Path,
    options: OpenOptions,
) -> io::Result<Arc<dyn RawFile>> {
    let mut world = shared.lock();
    if world.disk.fenced.contains(&pid) {
        return Err(refused());
    }
    if options.direct && world.config.refuse_direct {
        let text = format!("the file system of {} refuses direct I/O", path.display());
        return Err(io::Error::new(io::ErrorKind::Unsupported, text));
    }
    let there = world.disk.files.contains_key(path);
    match (there, options.create_new) {
        (true, true) => return Err(io::ErrorKind::AlreadyExists.into()),
        (false, false) => return Err(io::ErrorKind::NotFound.into()),
        (false, true) => {
            world.disk.files.insert(path.to_owned(), FileState::default());
        }
        (true, false) => {}
    }
    drop(world);
    let path = Arc::new(path.to_owned());
    Ok(Arc::new(SimFile { shared: Arc::clone(shared), pid, path, options }))
}

/// Tells the storage something about a writer, which takes it as long as a write.
fn tell_storage(
    shared: &Shared,
    pid: u32,
    what: impl FnOnce(&mut World) + Send + 'static,
) -> BoxFuture<'static, io::Result<()>> {
    let (done, result) = oneshot::channel();
    let mut world = shared.lock();
    // A disk that is slow for somebody is slow in this too.
    let delay = world.io_delay_us(pid, Path::new(LUNS), Io::Write);
    world.after(delay, move |world| {
        if world.is_alive(pid) {
            what(world);
            drop(done.send(Ok(())));
        }
    });
    drop(world);
    Box::pin(outcome(result))
}

pub(super) fn register_key(
    shared: &Shared,
    pid: u32,
    key: u64,
) -> BoxFuture<'static, io::Result<()>> {
    tell_storage(shared, pid, move |world| {
        world.disk.writers.insert(key, pid);
        world.disk.fenced.remove(&pid);
    })
}

pub(super) fn fence_key(shared: &Shared, pid: u32, key: u64) -> BoxFuture<'static, io::Result<()>> {
    tell_storage(shared, pid, move |world| {
        if let Some(writer) = world.disk.writers.remove(&key) {
            fence(world, writer);
        }
    })
}

pub(super) fn is_fenced(shared: &Shared, pid: u32) -> bool {
    shared.lock().disk.fenced.contains(&pid)
}

pub(super) fn exists(shared: &Shared, path: &Path) -> bool {
    shared.lock().disk.files.keys().any(|f| f.starts_with(path))
}

pub(super) fn list(shared: &Shared, dir: &Path) -> io::Result<Vec<PathBuf>> {
    let world = shared.lock();
    let mut names: Vec<PathBuf> = world
        .disk
        .files
        .keys()
        .filter_map(|f| f.strip_prefix(dir).ok()?.components().next())
        .map(|name| PathBuf::from(name.as_os_str()))
        .collect();
    names.dedup();
    if names.is_empty() {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(names)
}

impl World {
    /// Takes a file away, as if its disk were detached.
    pub(super) fn remove_file(&mut self, path: &Path) -> bool {
        self.disk.files.remove(path).is_some()
    }

    pub(super) fn truncate_file(&mut self, path: &Path, size_bytes: u64) {
        let file = self.disk.files.get_mut(path).expect("a file to truncate");
        file.size_bytes = size_bytes;
        file.pages.retain(|no, _| no * (PAGE_BYTES as u64) < size_bytes);
    }

    /// Flips every bit of a range on disk.
    pub(super) fn corrupt_file(&mut self, path: &Path, offset_bytes: u64, len_bytes: usize) {
        let file = self.disk.files.get_mut(path).expect("a file to corrupt");
        let mut data = vec![0; len_bytes];
        file.load(offset_bytes, &mut data);
        data.iter_mut().for_each(|b| *b = !*b);
        file.settle(|_| true);
        file.store(offset_bytes, &data);
    }
}

struct SimLock {
    shared: Arc<Shared>,
    path: PathBuf,
    id: u64,
}

impl FileLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        // After a crash it is gone already: nothing matches the id.
        if let Some(file) = self.shared.lock().disk.files.get_mut(&self.path) {
            file.locks.retain(|l| l.id != self.id);
        }
    }
}

fn conflicts(file: &FileState, start: u64, end: u64) -> bool {
    file.locks.iter().any(|l| l.start < end && start < l.end)
}

pub(super) fn try_lock(
    shared: &Arc<Shared>,
    pid: u32,
    path: &Path,
    start: u64,
    len: u64,
) -> io::Result<Option<Box<dyn FileLock>>> {
    let mut world = shared.lock();
    if !world.is_alive(pid) || world.disk.fenced.contains(&pid) {
        return Ok(None);
    }
    world.disk.next_id += 1;
    let id = world.disk.next_id;
    let file = world.disk.files.get_mut(path).ok_or(io::ErrorKind::NotFound)?;
    if conflicts(file, start, start + len) {
        return Ok(None);
    }
    file.locks.push(HeldLock { id, pid, start, end: start + len });
    world.note("lock", start, u64::from(pid));
    drop(world);
    Ok(Some(Box::new(SimLock { shared: Arc::clone(shared), path: path.to_owned(), id })))
}

pub(super) fn is_locked(shared: &Shared, path: &Path, start: u64, len: u64) -> io::Result<bool> {
    let world = shared.lock();
    let file = world.disk.files.get(path).ok_or(io::ErrorKind::NotFound)?;
    Ok(conflicts(file, start, start + len))
}
