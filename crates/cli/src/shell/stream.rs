//! The way to an instance, and results as texts where the client library asks for binary ones.
//!
//! What it promises: values of a statement with parameters are shown as the server writes them, as
//! those of other statements are. What it must never do: touch anything else of what is sent; the
//! library reads the catalog for itself, in binary form.

use bytes::{Buf, BytesMut};
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_postgres::{CancelToken, NoTls};

/// Bytes that are taken at once.
const TAKEN_BYTES_MAX: usize = 64 << 10;

/// Where an instance listens.
pub(super) enum Address {
    Unix(PathBuf),
    Tcp(String, u16),
}

pub(super) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Socket for T {}

impl Address {
    async fn open(&self) -> io::Result<Box<dyn Socket>> {
        let socket: Box<dyn Socket> = match self {
            Address::Unix(path) => Box::new(UnixStream::connect(path).await?),
            Address::Tcp(host, port) => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
        };
        Ok(socket)
    }
}

/// What the shell keeps of the way to its instance.
pub(super) struct Link {
    address: Address,
    wants_texts: Arc<AtomicBool>,
}

impl Link {
    /// The way there, and what the client library sends and reads by.
    ///
    /// # Errors
    /// Nobody listens.
    pub(super) async fn open(address: Address) -> io::Result<(Link, Wire)> {
        let socket = address.open().await?;
        let wants_texts = Arc::new(AtomicBool::new(false));
        let messages = Messages::default();
        let wire =
            Wire { socket, out: BytesMut::new(), messages, wants_texts: wants_texts.clone() };
        Ok((Link { address, wants_texts }, wire))
    }

    /// Whether the next statement with parameters is to give its results as texts.
    pub(super) fn want_texts(&self, wanted: bool) {
        self.wants_texts.store(wanted, Ordering::Relaxed);
    }

    /// Ends what a session runs, which has begun over this way.
    pub(super) async fn cancel(&self, token: &CancelToken) {
        // Who cannot be reached ends nothing: the answer is waited for as before.
        if let Ok(socket) = self.address.open().await {
            let _ = token.cancel_query_raw(socket, NoTls).await;
        }
    }
}

/// Follows the messages that a client sends.
#[derive(Default)]
struct Messages {
    /// Tag and length of the message, as far as they have come; the first has no tag.
    head: Vec<u8>,
    has_begun: bool,
    tag: u8,
    /// Bytes of the message that are still to come.
    left: usize,
}

impl Messages {
    /// Goes on with these bytes. The message that binds values to a statement asks for texts if
    /// they are wanted, which is asked for once.
    fn pass(&mut self, bytes: &mut [u8], wants_texts: &AtomicBool) {
        let mut at = 0;
        while at < bytes.len() {
            if self.left > 0 {
                let here = self.left.min(bytes.len() - at);
                at += here;
                self.left -= here;
                if self.left == 0 && self.tag == b'B' && wants_texts.swap(false, Ordering::Relaxed)
                {
                    // It ends with the one form of all columns: 1, binary. 0 is text.
                    bytes[at - 1] = 0;
                }
                continue;
            }
            self.head.push(bytes[at]);
            at += 1;
            let (tag, length) = self.head.split_at(usize::from(self.has_begun));
            let Ok(length) = <[u8; 4]>::try_from(length) else { continue };
            self.tag = tag.first().copied().unwrap_or(0);
            self.has_begun = true;
            // The length counts itself.
            let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
            self.left = length.saturating_sub(4);
            self.head.clear();
        }
    }
}

/// A socket of which the client library's messages go through [`Messages`].
pub(super) struct Wire {
    socket: Box<dyn Socket>,
    /// What was taken and is not sent yet.
    out: BytesMut,
    messages: Messages,
    wants_texts: Arc<AtomicBool>,
}

impl Wire {
    fn poll_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.out.is_empty() {
            let sent = ready!(Pin::new(&mut self.socket).poll_write(cx, &self.out))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.out.advance(sent);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_read(cx, buf)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_out(cx))?;
        let taken = &buf[..buf.len().min(TAKEN_BYTES_MAX)];
        this.out.extend_from_slice(taken);
        this.messages.pass(&mut this.out, &this.wants_texts);
        // What does not go at once goes before what follows, or with a flush.
        match this.poll_out(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(taken.len())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_out(cx))?;
        Pin::new(&mut this.socket).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_out(cx))?;
        Pin::new(&mut this.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(tag: Option<u8>, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).expect("a short message");
        tag.into_iter().chain(length.to_be_bytes()).chain(body.iter().copied()).collect()
    }

    #[test]
    fn one_bind_asks_for_texts_however_it_is_cut() {
        let begin = message(None, b"\0\x03\0\0user\0B\0\0");
        let bind = message(Some(b'B'), b"\0s1\0\0\0\0\0\0\x01\0\x01");
        let asks = message(Some(b'B'), b"\0s1\0\0\0\0\0\0\x01\0\0");
        let [sync, query] = [message(Some(b'S'), b""), message(Some(b'Q'), b"B\0\x01\0\x01")];
        let all = [&begin[..], &bind, &sync, &query, &bind, &sync, &bind].concat();
        for size in 1..=all.len() {
            let (mut messages, wants) = (Messages::default(), AtomicBool::new(false));
            let mut sent = all.clone();
            let before = begin.len() + bind.len() + sync.len();
            let (first, rest) = sent.split_at_mut(before);
            first.chunks_mut(size).for_each(|part| messages.pass(part, &wants));
            wants.store(true, Ordering::Relaxed);
            rest.chunks_mut(size).for_each(|part| messages.pass(part, &wants));
            let wanted = [&begin[..], &bind, &sync, &query, &asks, &sync, &bind].concat();
            assert_eq!(sent, wanted, "{size}");
        }
    }
}
