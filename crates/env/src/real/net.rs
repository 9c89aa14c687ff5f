//! Frames over TCP: a length (u32, little-endian), then that many bytes.
//!
//! A frame sent from a thread outside the serving lane is written to the socket there and then, so
//! that no thread change stands between an asker and the wire; so is a long one. The serving lane
//! itself queues short ones, and the connection's writer task sends all that one turn has produced
//! in one write. Order is that of `send` in either case: whoever writes holds the right to write,
//! and takes the queue as it is.

use std::future::poll_fn;
use std::io;
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::AsyncReadExt;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::{BoxFuture, Connection, FrameReceiver, FrameSender, Listener};

/// The longest frame; a longer one is refused by the sender and breaks the connection at the
/// receiver.
const FRAME_BYTES_MAX: usize = 64 << 20;
const LENGTH_BYTES: usize = 4;
const READ_CHUNK_BYTES: usize = 64 << 10;
/// A frame at least as long (a block) is worth a write of its own.
const AT_ONCE_BYTES: usize = 4 << 10;
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

struct Socket {
    stream: OwnedWriteHalf,
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

fn shutdown(stream: &OwnedWriteHalf, how: Shutdown) {
    let how = match how {
        Shutdown::Write => nix::sys::socket::Shutdown::Write,
        _ => nix::sys::socket::Shutdown::Both,
    };
    // Fails only if the peer has closed already: then there is nothing to shut down.
    let _ = nix::sys::socket::shutdown(stream.as_ref().as_raw_fd(), how);
}

struct TcpSender(Arc<Socket>);

impl FrameSender for TcpSender {
    fn send(&self, frame: Vec<u8>) -> io::Result<()> {
        let len = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        if frame.len() > FRAME_BYTES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "frame above 64 MiB"));
        }
        let here = {
            let mut out = self.0.out.lock();
            if out.broken {
                return Err(Socket::broken());
            }
            out.queued.extend_from_slice(&len.to_le_bytes());
            out.queued.extend_from_slice(&frame);
            let at_once = frame.len() >= AT_ONCE_BYTES || !super::is_serving();
            let here = !out.writing && at_once;
            out.writing |= here;
            here
        };
        if here {
            self.0.write_here();
        } else {
            self.0.wake_writer.notify_one();
        }
        Ok(())
    }

    fn close(&self) {
        self.0.break_off();
    }
}

impl Drop for TcpSender {
    fn drop(&mut self) {
        self.0.out.lock().finished = true;
        self.0.wake_writer.notify_one();
    }
}

struct TcpReceiver {
    socket: Arc<Socket>,
    half: OwnedReadHalf,
    buf: Vec<u8>,
    /// What of `buf` has been handed out.
    taken: usize,
}

impl TcpReceiver {
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

impl FrameReceiver for TcpReceiver {
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

fn connection(serve: &Handle, stream: TcpStream) -> io::Result<Connection> {
    stream.set_nodelay(true)?;
    let (half, stream) = stream.into_split();
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
    Ok(Connection {
        sender: Arc::new(TcpSender(Arc::clone(&socket))),
        receiver: Box::new(TcpReceiver {
            socket,
            half,
            buf: Vec::with_capacity(READ_CHUNK_BYTES),
            taken: 0,
        }),
    })
}

/// Runs `future` in the serving lane, whose reactor then owns the sockets it makes.
async fn in_lane<T: Send + 'static>(
    serve: &Handle,
    future: impl Future<Output = io::Result<T>> + Send + 'static,
) -> io::Result<T> {
    serve.spawn(future).await.map_err(io::Error::other)?
}

pub(super) async fn connect(serve: Handle, addr: String) -> io::Result<Connection> {
    let stream = in_lane(&serve, async move { TcpStream::connect(addr).await }).await?;
    connection(&serve, stream)
}

pub(super) async fn listen(serve: Handle, addr: String) -> io::Result<Box<dyn Listener>> {
    let listener = in_lane(&serve, async move { TcpListener::bind(addr).await }).await?;
    let local_addr = listener.local_addr()?.to_string();
    Ok(Box::new(FrameListener { listener, serve, local_addr }))
}

struct FrameListener {
    listener: TcpListener,
    serve: Handle,
    local_addr: String,
}

impl Listener for FrameListener {
    fn local_addr(&self) -> String {
        self.local_addr.clone()
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<Connection>> {
        Box::pin(async move {
            let (stream, _) = poll_fn(|cx| {
                // The new socket belongs to the serving lane, whoever accepts it.
                let _context = self.serve.enter();
                self.listener.poll_accept(cx)
            })
            .await?;
            connection(&self.serve, stream)
        })
    }
}
