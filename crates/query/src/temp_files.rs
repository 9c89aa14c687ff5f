//! Temporary files: what sorts, groups and joins write out when they may hold no more.
//!
//! What it promises: a file is nobody else's, has no name, and its space is free again when its
//! statement has ended, however it ends. Each read and write is a wait of the session. What it must
//! never do: hold up other sessions of the thread while it reads.

use crate::error::{PgError, Result};
use bytes::Bytes;
use datafusion::error::Result as DfResult;
use datafusion::execution::disk_manager::{DiskManager, DiskManagerBuilder};
use datafusion::execution::spill_file::{SpillFile, SpillWriter, TempFileFactory};
use futures::Stream;
use observe::{Ctx, Stat, WaitEvent};
use parking_lot::Mutex;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// What a file is read and written by, in bytes: 32 blocks.
const PIECE_BYTES: usize = 256 << 10;
const BLOCK_BYTES: u64 = block::BLOCK_BYTES as u64;

/// Temporary files of an instance.
pub struct TempSpace {
    dir: PathBuf,
    next: AtomicU32,
    files: Mutex<Vec<Weak<TempFile>>>,
}

/// A temporary file that is there, for `v$tempseg_usage`.
#[derive(Clone, Debug)]
pub struct TempUse {
    /// Session that writes it.
    pub sid: u64,
    pub number: u32,
    /// What it is for, as the step that writes it says.
    pub what: String,
    pub bytes: u64,
}

impl TempSpace {
    /// `dir`: where the files are; empty: where the system has such files.
    #[must_use]
    pub fn new(dir: &str) -> Arc<TempSpace> {
        let dir = if dir.is_empty() { std::env::temp_dir() } else { PathBuf::from(dir) };
        Arc::new(TempSpace { dir, next: AtomicU32::new(1), files: Mutex::default() })
    }

    /// The files that are there now.
    #[must_use]
    pub fn files(&self) -> Vec<TempUse> {
        let files = self.files.lock();
        let files = files.iter().filter_map(Weak::upgrade);
        files
            .map(|file| TempUse {
                sid: u64::from(file.ctx.session.sid()),
                number: file.number,
                what: file.what.clone(),
                bytes: file.bytes.load(Ordering::Relaxed),
            })
            .collect()
    }

    /// What gives files to the steps of one statement.
    pub(crate) fn of_statement(self: &Arc<TempSpace>, ctx: &Ctx) -> DfResult<DiskManager> {
        let factory = Factory { space: self.clone(), ctx: ctx.clone() };
        DiskManagerBuilder::default().with_temp_file_factory(Arc::new(factory)).build()
    }

    /// A file of a session.
    ///
    /// # Errors
    /// 53100, 58030.
    pub(crate) fn create(self: &Arc<TempSpace>, ctx: &Ctx, what: &str) -> Result<Arc<TempFile>> {
        let file = tempfile::tempfile_in(&self.dir)
            .map_err(|e| failed("create a temporary file in", self, &e))?;
        let file = Arc::new_cyclic(|own| TempFile {
            own: own.clone(),
            file: Arc::new(file),
            bytes: AtomicU64::new(0),
            number: self.next.fetch_add(1, Ordering::Relaxed),
            what: what.to_owned(),
            ctx: ctx.clone(),
            space: self.clone(),
        });
        let mut files = self.files.lock();
        files.retain(|file| file.strong_count() > 0);
        files.push(Arc::downgrade(&file));
        Ok(file)
    }
}

struct Factory {
    space: Arc<TempSpace>,
    ctx: Ctx,
}

impl TempFileFactory for Factory {
    fn create_temp_file(&self, description: &str) -> DfResult<Arc<dyn SpillFile>> {
        Ok(self.space.create(&self.ctx, description)?)
    }
}

fn failed(what: &str, space: &TempSpace, e: &std::io::Error) -> PgError {
    let code = match e.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => "53100",
        _ => "58030",
    };
    let text = format!("could not {what} {}: {e}", space.dir.display());
    PgError::new(code, text).with_hint("The parameter temp_directory says where such files are.")
}

/// A temporary file of a session.
pub(crate) struct TempFile {
    own: Weak<TempFile>,
    file: Arc<File>,
    bytes: AtomicU64,
    number: u32,
    what: String,
    ctx: Ctx,
    space: Arc<TempSpace>,
}

impl TempFile {
    /// File, block and number of blocks of a piece, as waits have them.
    fn place(&self, offset_bytes: u64, bytes: usize) -> [u64; 3] {
        let blocks = (bytes as u64).div_ceil(BLOCK_BYTES);
        [self.number.into(), offset_bytes / BLOCK_BYTES, blocks]
    }

    /// Writes behind what is there; the offset where it stands, in bytes.
    ///
    /// # Errors
    /// 53100, 58030.
    pub(crate) fn append(&self, bytes: &[u8]) -> Result<u64> {
        let offset_bytes = self.bytes.load(Ordering::Relaxed);
        let began = self.ctx.env.now();
        // Into the system's cache: what it costs is the copy, mostly.
        self.file
            .write_all_at(bytes, offset_bytes)
            .map_err(|e| failed("write a temporary file in", &self.space, &e))?;
        let us = self.ctx.env.now().since(began);
        let p = self.place(offset_bytes, bytes.len());
        self.ctx.record_wait_at(WaitEvent::DirectPathWriteTemp, p, us);
        self.ctx.bump(Stat::PhysicalWritesDirectTemp, p[2]);
        self.bytes.store(offset_bytes + bytes.len() as u64, Ordering::Release);
        Ok(offset_bytes)
    }

    /// What stands at an offset.
    ///
    /// # Errors
    /// 58030.
    pub(crate) async fn read(&self, offset_bytes: u64, length: usize) -> Result<Vec<u8>> {
        let raw = self.file.clone();
        let reading = tokio::task::spawn_blocking(move || {
            let mut piece = vec![0; length];
            raw.read_exact_at(&mut piece, offset_bytes).map(|()| piece)
        });
        let p = self.place(offset_bytes, length);
        let done = self.ctx.wait(WaitEvent::DirectPathReadTemp, p, reading).await;
        self.ctx.bump(Stat::PhysicalReadsDirectTemp, p[2]);
        let done = done.map_err(|e| PgError::internal(format!("a read was given up: {e}")))?;
        done.map_err(|e| failed("read a temporary file in", &self.space, &e))
    }
}

impl SpillFile for TempFile {
    fn size(&self) -> Option<u64> {
        Some(self.bytes.load(Ordering::Relaxed))
    }

    fn read_stream(&self) -> DfResult<Pin<Box<dyn Stream<Item = DfResult<Bytes>> + Send>>> {
        let file = self.own.upgrade().ok_or_else(|| PgError::internal("a file that is gone"))?;
        let stream = futures::stream::try_unfold((file, 0), |(file, offset_bytes)| async move {
            let piece = read(&file, offset_bytes).await?;
            let next = offset_bytes + piece.len() as u64;
            Ok((!piece.is_empty()).then(|| (Bytes::from(piece), (file, next))))
        });
        Ok(env::boxed!(stream))
    }

    fn open_writer(&self) -> DfResult<Box<dyn SpillWriter>> {
        let file = self.own.upgrade().ok_or_else(|| PgError::internal("a file that is gone"))?;
        Ok(Box::new(Writer { file, waiting: Vec::new() }))
    }
}

/// The piece at an offset; nothing at the end.
async fn read(file: &TempFile, offset_bytes: u64) -> DfResult<Vec<u8>> {
    let left = file.bytes.load(Ordering::Acquire).saturating_sub(offset_bytes);
    let length = PIECE_BYTES.min(usize::try_from(left).unwrap_or(PIECE_BYTES));
    match length {
        0 => Ok(Vec::new()),
        _ => Ok(file.read(offset_bytes, length).await?),
    }
}

/// Gathers what is written into pieces.
struct Writer {
    file: Arc<TempFile>,
    waiting: Vec<u8>,
}

impl Writer {
    fn write_out(&mut self) -> std::io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        // Those between here and the statement hand on nothing but the system's errors.
        self.file.append(&self.waiting).map_err(std::io::Error::other)?;
        self.waiting.clear();
        Ok(())
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() >= PIECE_BYTES {
            self.write_out()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.write_out()
    }
}

impl SpillWriter for Writer {
    fn finish(&mut self) -> DfResult<()> {
        Ok(self.write_out()?)
    }
}
