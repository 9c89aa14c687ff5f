//! Files with direct, durable, positional I/O, and open-file-description locks.
//!
//! Locks are OFD locks, never POSIX ones: those vanish when any descriptor of the file is closed.
//! Every descriptor is close-on-exec, so no child can keep a dead instance's lock.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use nix::fcntl::FcntlArg;
use nix::libc;

use super::pool::IoPool;
use crate::{BoxFuture, FileLock, IoBuf, OpenOptions, RawFile};

struct RealFile {
    file: Arc<File>,
    pool: Arc<IoPool>,
}

pub(super) fn open(
    path: &Path,
    options: OpenOptions,
    pool: Arc<IoPool>,
) -> io::Result<Arc<dyn RawFile>> {
    let mut flags = libc::O_CLOEXEC;
    if options.direct {
        flags |= libc::O_DIRECT;
    }
    if options.dsync {
        flags |= libc::O_DSYNC;
    }
    if options.create_new
        && let Some(parent) = path.parent()
    {
        std::fs::create_dir_all(parent)?;
    }
    let opened = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(options.create_new)
        .mode(0o600)
        .custom_flags(flags)
        .open(path);
    let file = match opened {
        Err(e) if options.direct && e.raw_os_error() == Some(libc::EINVAL) => {
            // Linux has made the directory entry by the time it finds out.
            if options.create_new {
                std::fs::remove_file(path)?;
            }
            let text = format!("the file system of {} refuses direct I/O", path.display());
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        other => other?,
    };
    if options.create_new
        && let Some(parent) = path.parent()
    {
        // The name must be as durable as what is written under it.
        File::open(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })?
            .sync_all()?;
    }
    Ok(Arc::new(RealFile { file: Arc::new(file), pool }))
}

impl RealFile {
    /// Runs `op` here if this thread may block, else on an I/O thread. There it starts now, not
    /// when the future is first polled, and ends even if the future is dropped.
    fn run<T, F>(&self, op: F) -> BoxFuture<'static, T>
    where
        T: Send + 'static,
        F: FnOnce(&File) -> T + Send + Unpin + 'static,
    {
        if super::may_block() {
            let file = Arc::clone(&self.file);
            return Box::pin(Here { op: Some(move || op(&file)), announced: false });
        }
        let (done, result) = tokio::sync::oneshot::channel();
        let file = Arc::clone(&self.file);
        self.pool.submit(Box::new(move || {
            // Nobody waiting any more is fine: the I/O is done all the same.
            drop(done.send(op(&file)));
        }));
        Box::pin(async move { result.await.expect("an I/O thread ends only with the process") })
    }
}

/// A blocking call as a future: the first poll only says that there is something to wait for, so
/// that the wait has begun, with its name, before the thread stands still.
struct Here<F> {
    op: Option<F>,
    announced: bool,
}

impl<T, F: FnOnce() -> T + Unpin> Future for Here<F> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        if !self.announced {
            self.announced = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let op = self.op.take().expect("a future is not polled after it is ready");
        Poll::Ready(op())
    }
}

fn read_exact(file: &File, offset_bytes: u64, buf: &mut [u8]) -> io::Result<()> {
    file.read_exact_at(buf, offset_bytes)
}

impl RawFile for RealFile {
    fn read_at(&self, offset_bytes: u64, mut buf: IoBuf) -> BoxFuture<'_, (io::Result<()>, IoBuf)> {
        self.run(move |file| (read_exact(file, offset_bytes, &mut buf), buf))
    }

    fn write_at(&self, offset_bytes: u64, buf: IoBuf) -> BoxFuture<'_, (io::Result<()>, IoBuf)> {
        self.run(move |file| (file.write_all_at(&buf, offset_bytes), buf))
    }

    fn sync(&self) -> BoxFuture<'_, io::Result<()>> {
        self.run(File::sync_data)
    }

    fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn allocate(&self, size_bytes: u64) -> io::Result<()> {
        let len = i64::try_from(size_bytes)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "size above 2^63"))?;
        if len == 0 {
            return Ok(());
        }
        nix::fcntl::posix_fallocate(&*self.file, 0, len)?;
        self.file.sync_all()
    }
}

/// Holds the descriptor that owns the lock: closing it, by drop or by death, releases the lock.
struct OfdLock {
    _file: File,
}

impl FileLock for OfdLock {}

fn range(offset_bytes: u64, len_bytes: u64) -> io::Result<libc::flock> {
    let bad = |_| io::Error::new(io::ErrorKind::InvalidInput, "lock range above 2^63");
    Ok(libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: i64::try_from(offset_bytes).map_err(bad)?,
        l_len: i64::try_from(len_bytes).map_err(bad)?,
        l_pid: 0,
    })
}

fn lock_file(path: &Path) -> io::Result<File> {
    std::fs::OpenOptions::new().read(true).write(true).custom_flags(libc::O_CLOEXEC).open(path)
}

pub(super) fn try_lock(
    path: &Path,
    offset_bytes: u64,
    len_bytes: u64,
) -> io::Result<Option<Box<dyn FileLock>>> {
    let file = lock_file(path)?;
    let lock = range(offset_bytes, len_bytes)?;
    match nix::fcntl::fcntl(&file, FcntlArg::F_OFD_SETLK(&lock)) {
        Ok(_) => Ok(Some(Box::new(OfdLock { _file: file }))),
        Err(nix::errno::Errno::EAGAIN | nix::errno::Errno::EACCES) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

pub(super) fn is_locked(path: &Path, offset_bytes: u64, len_bytes: u64) -> io::Result<bool> {
    let file = lock_file(path)?;
    let mut lock = range(offset_bytes, len_bytes)?;
    nix::fcntl::fcntl(&file, FcntlArg::F_OFD_GETLK(&mut lock))?;
    Ok(lock.l_type != libc::F_UNLCK as libc::c_short)
}
