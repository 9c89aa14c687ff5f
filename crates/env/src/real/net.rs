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
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::task::Poll;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt};
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

/// The half of a stream that is written to.
enum WriteHalf {
    Tcp(tokio::net::tcp::OwnedWriteHalf),
    Unix(tokio::net::unix::OwnedWriteHalf),
}

impl WriteHalf {
    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            WriteHalf::Tcp(half) => half.try_write(bytes),
            WriteHalf::Unix(half) => half.try_write(bytes),
        }
    }

    async fn writable(&self) -> io::Result<()> {
        match self {
            WriteHalf::Tcp(half) => half.writable().await,
            WriteHalf::Unix(half) => half.writable().await,
        }
    }
}

impl AsFd for WriteHalf {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            WriteHalf::Tcp(half) => half.as_ref().as_fd(),
            WriteHalf::Unix(half) => half.as_ref().as_fd(),
        }
    }
}

struct Socket {
    stream: WriteHalf,
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
                match self.stream.try_write(&buf[done..]) {
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
            match self.stream.try_write(&buf[done..]) {
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

fn shutdown(stream: &WriteHalf, how: Shutdown) {
    let how = match how {
        Shutdown::Write => nix::sys::socket::Shutdown::Write,
        _ => nix::sys::socket::Shutdown::Both,
    };
    // Fails only if the peer has closed already: then there is nothing to shut down.
    let _ = nix::sys::socket::shutdown(stream.as_fd().as_raw_fd(), how);
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
    half: Box<dyn AsyncRead + Send + Unpin>,
    buf: Vec<u8>,
    /// What of `buf` has been handed out.
    taken: usize,
}

impl StreamReceiver {
    /// The next whole frame in the buffer. `Err` when the peer does not speak our framing.
    fn next_frame(&mut self) -> Result<Option<Vec<u8>>, ()> {
        let rest = &self.buf[self.taken..];
        let Some(head) = rest.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
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
        if self.taken == self.buf.len() {
            self.buf.clear();
            self.taken = 0;
            self.buf.shrink_to(KEEP_BUFFER_BYTES);
        }
        Ok(Some(frame))
    }

    fn make_room(&mut self, frame_bytes: usize) {
        self.buf.drain(..self.taken);
        self.taken = 0;
        // Grow with what has come, so that a length alone makes nobody allocate 64 MiB.
        let want = frame_bytes.min(self.buf.len() * 2 + READ_CHUNK_BYTES);
        self.buf.reserve(want.saturating_sub(self.buf.len()));
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
                self.buf.reserve(READ_CHUNK_BYTES.min(4096));
                // Not tried without need: a read that does not fill the buffer has emptied the
                // socket, and the next one waits for the reactor.
                match self.half.read_buf(&mut self.buf).await {
                    Ok(0) => return None,
                    Ok(_) => {}
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => {
                        self.socket.break_off();
                        return None;
                    }
                }
            }
        })
    }
}

fn tcp(serve: &Handle, stream: TcpStream) -> io::Result<Connection> {
    stream.set_nodelay(true)?;
    let (half, stream) = stream.into_split();
    Ok(connection(serve, Box::new(half), WriteHalf::Tcp(stream)))
}

fn local(serve: &Handle, stream: UnixStream) -> Connection {
    let (half, stream) = stream.into_split();
    connection(serve, Box::new(half), WriteHalf::Unix(stream))
}

fn connection(
    serve: &Handle,
    half: Box<dyn AsyncRead + Send + Unpin>,
    stream: WriteHalf,
) -> Connection {
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
    Connection {
        sender: Arc::new(StreamSender(Arc::clone(&socket))),
        receiver: Box::new(StreamReceiver {
            socket,
            half,
            buf: Vec::with_capacity(READ_CHUNK_BYTES),
            taken: 0,
        }),
    }
}

/// The Unix socket beside a listener on a loopback address. It has no file: its name (the leading
/// zero says so) lives in the network's name space, as the address does, and goes with the process.
fn local_name(addr: SocketAddr) -> Option<String> {
    addr.ip().is_loopback().then(|| format!("\0skein-interconnect/{addr}"))
}

/// Runs `future` in the serving lane, whose reactor then owns the sockets it makes.
async fn in_lane<T: Send + 'static>(
    serve: &Handle,
    future: impl Future<Output = io::Result<T>> + Send + 'static,
) -> io::Result<T> {
    serve.spawn(future).await.map_err(io::Error::other)?
}

pub(super) async fn connect(serve: Handle, addr: String) -> io::Result<Connection> {
    if let Some(name) = addr.parse().ok().and_then(local_name) {
        let stream = in_lane(&serve, UnixStream::connect(name)).await;
        if let Ok(stream) = stream {
            return Ok(local(&serve, stream));
        }
        // Nobody there, or one who listens on TCP alone, as a version before this one does.
    }
    let stream = in_lane(&serve, async move { TcpStream::connect(addr).await }).await?;
    tcp(&serve, stream)
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
                return Poll::Ready(accepted.map(|(stream, _)| local(&self.serve, stream)));
            }
            let (stream, _) = std::task::ready!(self.listener.poll_accept(cx))?;
            Poll::Ready(tcp(&self.serve, stream))
        }))
    }
}
