//! A client's socket: TCP or Unix, blocking, encrypted or not.

use crate::tls::{Channel, Encryption, Tls};
use parking_lot::Mutex;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::time::Duration;

enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A connected client. Reads and writes block the session's own thread.
pub struct Stream {
    socket: Socket,
    /// Where the client is, if it came by TCP.
    peer: Option<IpAddr>,
    /// Once the client has asked for it. Only the session's thread reads and writes.
    channel: OnceLock<(Mutex<Channel>, Encryption)>,
}

/// What a wait for the client has ended with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Woken {
    /// It has sent something, or has gone.
    Client,
    Bell,
    TimedOut,
}

impl Stream {
    #[must_use]
    pub fn tcp(socket: TcpStream, peer: IpAddr) -> Stream {
        let peer = Some(peer.to_canonical());
        Stream { socket: Socket::Tcp(socket), peer, channel: OnceLock::new() }
    }

    #[must_use]
    pub fn unix(socket: UnixStream) -> Stream {
        Stream { socket: Socket::Unix(socket), peer: None, channel: OnceLock::new() }
    }

    /// Where the client is; `None`: on this machine, through the Unix socket.
    #[must_use]
    pub fn peer_ip(&self) -> Option<IpAddr> {
        // As it was when the connection was made: a socket that has been reset knows no longer, and
        // must not pass for one of this machine.
        self.peer
    }

    /// The client's process, and whom it runs as; `None`: it is not known, as of any TCP
    /// connection. Process 0: the instance cannot see it, as across containers.
    #[must_use]
    pub fn os_process(&self) -> Option<(u32, String)> {
        use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
        let Socket::Unix(socket) = &self.socket else { return None };
        let of = getsockopt(socket, PeerCredentials).ok()?;
        let uid = of.uid();
        let user = nix::unistd::User::from_uid(nix::unistd::Uid::from_raw(uid)).ok().flatten();
        // A user whom the system has no name for goes by the number.
        let user = user.map_or_else(|| uid.to_string(), |user| user.name);
        Some((u32::try_from(of.pid()).unwrap_or_default(), user))
    }

    #[must_use]
    pub fn is_tcp(&self) -> bool {
        matches!(self.socket, Socket::Tcp(_))
    }

    /// Begins to encrypt: what follows is TLS.
    ///
    /// # Errors
    /// The client has gone, or speaks no TLS that we do.
    pub fn encrypt(&self, tls: &Tls) -> io::Result<()> {
        let mut channel = tls.accept()?;
        let encryption = channel.handshake(&mut &self.socket)?;
        // Asked for once: a second request is refused before.
        let _ = self.channel.set((Mutex::new(channel), encryption));
        Ok(())
    }

    /// How it is encrypted, if it is.
    #[must_use]
    pub fn encryption(&self) -> Option<&Encryption> {
        self.channel.get().map(|(_, encryption)| encryption)
    }

    /// Ends one or both directions; a thread blocked in them wakes up.
    pub fn shutdown(&self, how: Shutdown) {
        // It fails only when the peer has gone already, which is as good.
        let _ = match &self.socket {
            Socket::Tcp(s) => s.shutdown(how),
            Socket::Unix(s) => s.shutdown(how),
        };
    }

    /// Limits how long a read may block; `None` for ever.
    pub fn set_read_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        match &self.socket {
            Socket::Tcp(s) => s.set_read_timeout(limit),
            Socket::Unix(s) => s.set_read_timeout(limit),
        }
    }

    /// Blocks until the client has sent something, has gone, `bell` is readable, or `limit` is
    /// over.
    pub fn wait(&self, bell: Option<BorrowedFd<'_>>, limit: Option<Duration>) -> Woken {
        use nix::errno::Errno;
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        if self.channel.get().is_some_and(|(channel, _)| channel.lock().has_bytes()) {
            return Woken::Client;
        }
        let timeout = limit.map_or(PollTimeout::NONE, |limit| {
            PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX)
        });
        loop {
            let mut both = vec![PollFd::new(self.as_fd(), PollFlags::POLLIN)];
            both.extend(bell.map(|bell| PollFd::new(bell, PollFlags::POLLIN)));
            match poll(&mut both, timeout) {
                Err(Errno::EINTR) => {}
                // The read that follows tells what is wrong.
                Err(_) => return Woken::Client,
                Ok(0) => return Woken::TimedOut,
                Ok(_) if both[0].any().unwrap_or(true) => return Woken::Client,
                Ok(_) => return Woken::Bell,
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

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some((channel, _)) = self.channel.get() {
            channel.lock().close(&mut &self.socket);
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Tcp(s) => s.as_fd(),
            Socket::Unix(s) => s.as_fd(),
        }
    }
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        match &self.socket {
            Socket::Tcp(s) => s.as_raw_fd(),
            Socket::Unix(s) => s.as_raw_fd(),
        }
    }
}

impl Read for &Socket {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(s) => (&mut &*s).read(buf),
            Socket::Unix(s) => (&mut &*s).read(buf),
        }
    }
}

impl Write for &Socket {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(s) => (&mut &*s).write(buf),
            Socket::Unix(s) => (&mut &*s).write(buf),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for &Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.channel.get() {
            None => (&self.socket).read(buf),
            Some((channel, _)) => channel.lock().read(&mut &self.socket, buf),
        }
    }
}

impl Write for &Stream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self.channel.get() {
            None => (&self.socket).write(buf),
            Some((channel, _)) => channel.lock().write(&mut &self.socket, buf),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
