//! Frames over stream sockets: a length (u32, little-endian), then that many bytes.
//!
//! Between hosts the stream is TCP. Who listens on a loopback address listens on a Unix socket of
//! that name as well, and who connects to one tries that first: the same messages cost half as much
//! without TCP's segments, acknowledgements and timers between two processes of one machine.
//!
//! Who sends or flushes writes to the socket there and then, so that no thread change stands
//! between an asker and the wire, and writes all that is queued. What the socket does not take is
//! left to the connection's writer task. Order is that of `send` and `queue`: whoever writes holds
//! the right to write, and takes the queue as it is.

use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::task::Poll;

use parking_lot::Mutex;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::{BoxFuture, Connection, FrameReceiver, FrameSender, Listener};

/// The longest frame; a longer one is refused by the sender and breaks the connection at the
/// receiver.
const FRAME_BYTES_MAX: usize = 64 << 20;
const LENGTH_BYTES: usize = 4;
const READ_CHUNK_BYTES: usize = 64 << 10;
/// Write buffers larger than this are given back to the allocator after use.
const KEEP_BUFFER_BYTES: usize = 256 << 10;

struct Outgoing {
    queued: Vec<u8>,
    /// Somebody (a sender or the writer task) is in the middle of writing.
    writing: bool,
    /// No more frames: flush and end.
    finished: bool,
    broken: bool,
}

/// A socket that does not block.
enum Stream {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

impl Stream {
    fn tcp(stream: TcpStream) -> io::Result<Stream> {
        stream.set_nodelay(true)?;
        stream.into_std().map(Stream::Tcp)
    }

    fn local(stream: UnixStream) -> io::Result<Stream> {
        stream.into_std().map(Stream::Unix)
    }

    /// Another descriptor of the same socket: a reactor watches a descriptor for one thing.
    fn again(&self) -> io::Result<Stream> {
        match self {
            Stream::Tcp(stream) => stream.try_clone().map(Stream::Tcp),
            Stream::Unix(stream) => stream.try_clone().map(Stream::Unix),
        }
    }

    fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => (&mut &*stream).read(buf),
            Stream::Unix(stream) => (&mut &*stream).read(buf),
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => (&mut &*stream).write(bytes),
            Stream::Unix(stream) => (&mut &*stream).write(bytes),
        }
    }

    /// Returns when the socket may take something again; in the serving lane.
    async fn writable(&self) -> io::Result<()> {
        self.watched(Interest::WRITABLE)?.writable().await.map(|_| ())
    }

    /// The socket as the reactor of the calling task watches it, for one thing only.
    #[allow(unsafe_code)]
    fn watched(&self, interest: Interest) -> io::Result<AsyncFd<Stream>> {
        // SAFETY: the standard library's sockets own their descriptor: it stays open, and the same,
        // until they are dropped, which `AsyncFd` does after it has ended its watch.
        let watched = unsafe { AsyncFd::register_with_interest(self.again()?, interest) };
        Ok(watched?)
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

struct Socket {
    stream: Stream,
    out: Mutex<Outgoing>,
    wake_writer: Notify,
}

impl Socket {
    fn broken() -> io::Error {
        io::Error::new(io::ErrorKind::BrokenPipe, "the connection is broken")
    }

    fn break_off(&self) {
        self.out.lock().broken = true;
        shutdown(&self.stream, Shutdown::Both);
        self.wake_writer.notify_one();
    }

    /// Takes the queue if there is something to write; else gives up the right to write.
    fn take_queue(&self, spare: &mut Vec<u8>) -> bool {
        spare.clear();
        if spare.capacity() > KEEP_BUFFER_BYTES {
            *spare = Vec::new();
        }
        let mut out = self.out.lock();
        if out.queued.is_empty() || out.broken {
            out.writing = false;
            return false;
        }
        std::mem::swap(&mut out.queued, spare);
        true
    }

    /// Writes from the calling thread as long as the socket takes it; what does not fit goes back
    /// to
    /// the head of the queue, for the writer task.
    fn write_here(&self) {
        let mut buf = Vec::new();
        while self.take_queue(&mut buf) {
            let mut done = 0;
            while done < buf.len() {
                match self.stream.write(&buf[done..]) {
                    Ok(n) => done += n,
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                        buf.drain(..done);
                        let mut out = self.out.lock();
                        buf.extend_from_slice(&out.queued);
                        out.queued = buf;
                        out.writing = false;
                        drop(out);
                        self.wake_writer.notify_one();
                        return;
                    }
                    Err(_) => return self.break_off(),
                }
            }
        }
        if self.out.lock().finished {
            self.wake_writer.notify_one();
        }
    }

    async fn write_all(&self, buf: &[u8]) -> io::Result<()> {
        let mut done = 0;
        while done < buf.len() {
            match self.stream.write(&buf[done..]) {
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.stream.writable().await?,
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// The writer task: ends when the connection breaks or the sender is gone and all is written.
    async fn writer(self: Arc<Self>) {
        let mut buf = Vec::new();
        loop {
            let turn = {
                let mut out = self.out.lock();
                if out.broken || (out.finished && out.queued.is_empty() && !out.writing) {
                    break;
                }
                let free = !out.writing && !out.queued.is_empty();
                out.writing |= free;
                free
            };
            if turn {
                while self.take_queue(&mut buf) {
                    if self.write_all(&buf).await.is_err() {
                        self.break_off();
                        return;
                    }
                }
            } else {
                self.wake_writer.notified().await;
            }
        }
        shutdown(&self.stream, Shutdown::Write);
    }
}

fn shutdown(stream: &Stream, how: Shutdown) {
    let how = match how {
        Shutdown::Write => nix::sys::socket::Shutdown::Write,
        _ => nix::sys::socket::Shutdown::Both,
    };
    // Fails only if the peer has closed already: then there is nothing to shut down.
    let _ = nix::sys::socket::shutdown(stream.as_raw_fd(), how);
}

struct StreamSender(Arc<Socket>);

impl StreamSender {
    fn put(out: &mut Outgoing, frame: &[u8]) -> io::Result<()> {
        if frame.len() > FRAME_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "frame above 64 MiB"));
        }
        if out.broken {
            return Err(Socket::broken());
        }
        let len = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        out.queued.extend_from_slice(&len.to_le_bytes());
        out.queued.extend_from_slice(frame);
        Ok(())
    }
}

impl FrameSender for StreamSender {
    fn send(&self, frame: Vec<u8>) -> io::Result<()> {
        self.queue(frame)?;
        self.flush();
        Ok(())
    }

    fn queue(&self, frame: Vec<u8>) -> io::Result<()> {
        Self::put(&mut self.0.out.lock(), &frame)
    }

    fn flush(&self) {
        let free = {
            let mut out = self.0.out.lock();
            let free = !out.writing && !out.queued.is_empty();
            out.writing |= free;
            free
        };
        if free {
            self.0.write_here();
        }
    }

    fn close(&self) {
        self.0.break_off();
    }
}

impl Drop for StreamSender {
    fn drop(&mut self) {
        self.0.out.lock().finished = true;
        self.0.wake_writer.notify_one();
    }
}

struct StreamReceiver {
    socket: Arc<Socket>,
    stream: AsyncFd<Stream>,
    buf: Vec<u8>,
    /// What of `buf` has come.
    filled: usize,
    /// What of that has been handed out.
    taken: usize,
}

impl StreamReceiver {
    /// The next whole frame in the buffer. `Err` when the peer does not speak our framing.
    fn next_frame(&mut self) -> Result<Option<Vec<u8>>, ()> {
        let rest = &self.buf[self.taken..self.filled];
        let Some(head) = rest.first_chunk::<LENGTH_BYTES>() else {
            self.make_room(0);
            return Ok(None);
        };
        let len = u32::from_le_bytes(*head) as usize;
        if len > FRAME_BYTES_MAX {
            return Err(());
        }
        let Some(body) = rest.get(LENGTH_BYTES..LENGTH_BYTES + len) else {
            self.make_room(LENGTH_BYTES + len);
            return Ok(None);
        };
        let frame = body.to_vec();
        self.taken += LENGTH_BYTES + len;
        Ok(Some(frame))
    }

    /// Moves what has not been handed out to the front, and grows with what has come, so that a
    /// length alone makes nobody allocate 64 MiB.
    fn make_room(&mut self, frame_bytes: usize) {
        self.buf.copy_within(self.taken..self.filled, 0);
        self.filled -= self.taken;
        self.taken = 0;
        let want = frame_bytes.min(self.filled * 2) + READ_CHUNK_BYTES;
        if self.buf.len() < want {
            self.buf.resize(want, 0);
        } else if self.filled == 0 && self.buf.len() > KEEP_BUFFER_BYTES {
            self.buf.truncate(READ_CHUNK_BYTES);
            self.buf.shrink_to_fit();
        }
    }

    /// Reads what is there, at least a byte; 0 at the end.
    async fn fill(&mut self) -> io::Result<usize> {
        let room = &mut self.buf[self.filled..];
        assert!(!room.is_empty(), "what has come has been taken, or there is room for more");
        loop {
            let mut ready = self.stream.readable().await?;
            match ready.get_inner().read(room) {
                Ok(n) => {
                    // A read that does not fill the buffer has emptied the socket: the next one
                    // waits for the reactor.
                    if n < room.len() && n > 0 {
                        ready.clear_ready();
                    }
                    self.filled += n;
                    return Ok(n);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                Err(e) => return Err(e),
            }
        }
    }
}

impl FrameReceiver for StreamReceiver {
    // Dropping the future between polls loses nothing: all state is in `self`.
    fn recv(&mut self) -> BoxFuture<'_, Option<Vec<u8>>> {
        Box::pin(async move {
            loop {
                match self.next_frame() {
                    Ok(Some(frame)) => return Some(frame),
                    Ok(None) => {}
                    Err(()) => {
                        self.socket.break_off();
                        return None;
                    }
                }
                match self.fill().await {
                    Ok(0) => return None,
                    Ok(_) => {}
                    Err(_) => {
                        self.socket.break_off();
                        return None;
                    }
                }
            }
        })
    }
}

/// Makes both halves of a connection; in the serving lane, whose reactor then owns the socket.
///
/// Whoever reads is watched for what comes, and for nothing else: each message that the peer takes
/// off a Unix socket makes it writable once more, and a reactor that is told of that is woken for
/// each message that it has sent.
fn connection(serve: &Handle, stream: Stream) -> io::Result<Connection> {
    let watched = stream.watched(Interest::READABLE)?;
    let socket = Arc::new(Socket {
        stream,
        out: Mutex::new(Outgoing {
            queued: Vec::new(),
            writing: false,
            finished: false,
            broken: false,
        }),
        wake_writer: Notify::new(),
    });
    serve.spawn(Arc::clone(&socket).writer());
    let same_machine = matches!(socket.stream, Stream::Unix(_));
    Ok(Connection {
        same_machine,
        sender: Arc::new(StreamSender(Arc::clone(&socket))),
        receiver: Box::new(StreamReceiver {
            socket,
            stream: watched,
            buf: Vec::new(),
            filled: 0,
            taken: 0,
        }),
    })
}

/// The Unix socket beside a listener on a loopback address. It has no file: its name (the leading
/// zero says so) lives in the network's name space, as the address does, and goes with the process.
fn local_name(addr: SocketAddr) -> Option<String> {
    addr.ip().is_loopback().then(|| format!("\0skein-interconnect/{addr}"))
}

/// Runs `future` in the serving lane.
async fn in_lane<T: Send + 'static>(
    serve: &Handle,
    future: impl Future<Output = io::Result<T>> + Send + 'static,
) -> io::Result<T> {
    serve.spawn(future).await.map_err(io::Error::other)?
}

pub(super) async fn connect(serve: Handle, addr: String) -> io::Result<Connection> {
    let lane = serve.clone();
    in_lane(&serve, async move {
        if let Some(name) = addr.parse().ok().and_then(local_name)
            && let Ok(stream) = UnixStream::connect(name).await
        {
            return connection(&lane, Stream::local(stream)?);
        }
        // Nobody there, or one who listens on TCP alone, as a version before this one does.
        connection(&lane, Stream::tcp(TcpStream::connect(addr).await?)?)
    })
    .await
}

pub(super) async fn listen(serve: Handle, addr: String) -> io::Result<Box<dyn Listener>> {
    let listener = in_lane(&serve, async move { TcpListener::bind(addr).await }).await?;
    let addr = listener.local_addr()?;
    let near = match local_name(addr) {
        Some(name) => Some(in_lane(&serve, async move { UnixListener::bind(name) }).await?),
        None => None,
    };
    Ok(Box::new(FrameListener { listener, near, serve, local_addr: addr.to_string() }))
}

struct FrameListener {
    listener: TcpListener,
    /// For peers on this machine.
    near: Option<UnixListener>,
    serve: Handle,
    local_addr: String,
}

impl Listener for FrameListener {
    fn local_addr(&self) -> String {
        self.local_addr.clone()
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<Connection>> {
        Box::pin(poll_fn(|cx| {
            // The new socket belongs to the serving lane, whoever accepts it.
            let _context = self.serve.enter();
            if let Some(near) = &self.near
                && let Poll::Ready(accepted) = near.poll_accept(cx)
            {
                return Poll::Ready(
                    accepted
                        .and_then(|(stream, _)| connection(&self.serve, Stream::local(stream)?)),
                );
            }
            let (stream, _) = std::task::ready!(self.listener.poll_accept(cx))?;
            Poll::Ready(connection(&self.serve, Stream::tcp(stream)?))
        }))
    }
}
