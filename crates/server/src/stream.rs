//! A client's socket: TCP or Unix, blocking.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A connected client. Reads and writes block the session's own thread.
pub enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// A second handle to the same socket, for whoever must wake a blocked reader.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn try_clone(&self) -> io::Result<Stream> {
        Ok(match self {
            Stream::Tcp(s) => Stream::Tcp(s.try_clone()?),
            Stream::Unix(s) => Stream::Unix(s.try_clone()?),
        })
    }

    /// Ends one or both directions; a thread blocked in them wakes up.
    pub fn shutdown(&self, how: Shutdown) {
        // It fails only when the peer has gone already, which is as good.
        let _ = match self {
            Stream::Tcp(s) => s.shutdown(how),
            Stream::Unix(s) => s.shutdown(how),
        };
    }

    /// Limits how long a read may block; `None` for ever.
    pub fn set_read_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Tcp(s) => s.set_read_timeout(limit),
            Stream::Unix(s) => s.set_read_timeout(limit),
        }
    }

    /// Blocks until the client has sent something, has gone, or `bell` is readable; true if it is
    /// that and the client has nothing to say.
    pub fn rings_first(&self, bell: BorrowedFd<'_>) -> bool {
        use nix::errno::Errno;
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        loop {
            let mut both = [
                PollFd::new(self.as_fd(), PollFlags::POLLIN),
                PollFd::new(bell, PollFlags::POLLIN),
            ];
            match poll(&mut both, PollTimeout::NONE) {
                Err(Errno::EINTR) => {}
                // The read that follows tells what is wrong.
                Err(_) => return false,
                Ok(_) => return !both[0].any().unwrap_or(true),
            }
        }
    }

    /// Whether the client has closed its side, told without taking a byte. A client that closed
    /// after sending more than was read looks alive until that is read.
    pub fn is_gone(&self) -> bool {
        use nix::sys::socket::{MsgFlags, recv};
        let mut byte = [0_u8; 1];
        match recv(self.as_raw_fd(), &mut byte, MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT) {
            Ok(n) => n == 0,
            Err(e) => !matches!(e, nix::errno::Errno::EAGAIN | nix::errno::Errno::EINTR),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(s) => s.as_fd(),
            Stream::Unix(s) => s.as_fd(),
        }
    }
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Stream::Tcp(s) => s.as_raw_fd(),
            Stream::Unix(s) => s.as_raw_fd(),
        }
    }
}

impl Read for &Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(s) => (&mut &*s).read(buf),
            Stream::Unix(s) => (&mut &*s).read(buf),
        }
    }
}

impl Write for &Stream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(s) => (&mut &*s).write(buf),
            Stream::Unix(s) => (&mut &*s).write(buf),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
