//! The bytes received from one client, cut into messages.
//!
//! What it promises: a message's length is checked before memory is taken for it, memory grows with
//! the bytes that really arrive, and goes back to the small idle size after a large message.

use crate::message::{is_frontend_tag, may_be_long};
use crate::report::Report;
use std::io::{self, Read};
use std::ops::Range;

/// Size of the buffer of an idle session.
const IDLE_BYTES: usize = 8 * 1024;
/// Size of the buffer of a session whose client sends faster than one idle buffer a read.
const STREAM_BYTES: usize = 64 * 1024;
/// The most that one read takes while a long message arrives.
const READ_BYTES_MAX: usize = 256 * 1024;
/// Longest message of the kinds that carry statements, parameters and rows. A row has at most
/// 16 MiB, and twice that as hexadecimal text.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Longest message that is read past, so that its sender may go on; what claims more is no message.
const REFUSED_BYTES_MAX: usize = 1024 * 1024 * 1024;
/// Longest message of the other kinds.
const SHORT_MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// Longest startup packet, as in PostgreSQL.
const STARTUP_BYTES_MAX: usize = 10_000;

const _: () = assert!(STARTUP_BYTES_MAX < SHORT_MESSAGE_BYTES_MAX);

/// A receive buffer: bytes `start..end` have arrived and are not used yet.
pub struct Input {
    buf: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes that the message at `start` has in all, when its header says more than has arrived.
    wanted: usize,
    /// The last read filled the buffer: there is probably more.
    streaming: bool,
    refused: Option<Refused>,
}

/// A statement or its parameters, longer than is taken: it is read past.
struct Refused {
    tag: u8,
    len: usize,
    /// Bytes of it that have not arrived yet.
    left: usize,
}

/// What has arrived.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrived {
    /// A complete message: its tag and where its body is.
    Message(u8, Range<usize>),
    /// The last byte of a message that was too long, with its tag and length.
    TooLong(u8, usize),
}

impl Default for Input {
    fn default() -> Input {
        Input {
            buf: vec![0; IDLE_BYTES],
            start: 0,
            end: 0,
            wanted: 0,
            streaming: false,
            refused: None,
        }
    }
}

impl Input {
    /// The next message. `None` asks for more bytes.
    ///
    /// # Errors
    /// A protocol violation: unknown tag, impossible length.
    pub fn next_message(&mut self) -> Result<Option<Arrived>, Report> {
        if self.refused.is_some() {
            return Ok(self.read_past());
        }
        let have = &self.buf[self.start..self.end];
        let Some((header, _)) = have.split_first_chunk::<5>() else {
            if let Some(tag) = have.first() {
                check_tag(*tag)?;
            }
            self.wanted = 5;
            return Ok(None);
        };
        let tag = header[0];
        check_tag(tag)?;
        let limit = match tag {
            b'Q' | b'P' | b'B' => REFUSED_BYTES_MAX,
            tag if may_be_long(tag) => MESSAGE_BYTES_MAX,
            _ => SHORT_MESSAGE_BYTES_MAX,
        };
        let len = checked_len([header[1], header[2], header[3], header[4]], 4, limit)?;
        if len > MESSAGE_BYTES_MAX {
            self.refused = Some(Refused { tag, len, left: 1 + len });
            return Ok(self.read_past());
        }
        Ok(self.take(1 + len, 5).map(|body| Arrived::Message(tag, body)))
    }

    fn read_past(&mut self) -> Option<Arrived> {
        let refused = self.refused.as_mut()?;
        let here = refused.left.min(self.end - self.start);
        refused.left -= here;
        self.start += here;
        self.wanted = 0;
        if refused.left > 0 {
            return None;
        }
        self.refused.take().map(|refused| Arrived::TooLong(refused.tag, refused.len))
    }

    /// The next complete packet of the startup phase, which has no tag: where its body is.
    ///
    /// # Errors
    /// A protocol violation: impossible length.
    pub fn next_startup(&mut self) -> Result<Option<Range<usize>>, Report> {
        let Some(header) = self.buf[self.start..self.end].first_chunk::<4>() else {
            self.wanted = 4;
            return Ok(None);
        };
        let len = checked_len(*header, 8, STARTUP_BYTES_MAX)
            .map_err(|_| Report::protocol("invalid length of startup packet"))?;
        Ok(self.take(len, 4))
    }

    /// The next complete password message (`p`) of the log-on exchange: where its body is.
    ///
    /// # Errors
    /// A protocol violation: another tag, impossible length.
    pub fn next_password(&mut self) -> Result<Option<Range<usize>>, Report> {
        let have = &self.buf[self.start..self.end];
        if have.first().is_some_and(|tag| *tag != b'p') {
            return Err(Report::protocol(format!(
                "expected password response, got message type {}",
                have[0]
            )));
        }
        let Some(header) = have.first_chunk::<5>() else {
            self.wanted = 5;
            return Ok(None);
        };
        let len = checked_len([header[1], header[2], header[3], header[4]], 4, STARTUP_BYTES_MAX)?;
        Ok(self.take(1 + len, 5))
    }

    /// The bytes of a body that one of the above gave. Valid until the next [`Input::fill`].
    pub fn body(&self, range: Range<usize>) -> &[u8] {
        &self.buf[range]
    }

    /// Whether bytes have arrived that no complete message has used.
    pub fn has_bytes(&self) -> bool {
        self.start < self.end
    }

    /// Reads what is there, waiting until there is something. 0: the client has closed.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn fill(&mut self, from: &mut impl Read) -> io::Result<usize> {
        self.make_room();
        loop {
            match from.read(&mut self.buf[self.end..]) {
                Ok(n) => {
                    self.end += n;
                    self.streaming = self.end == self.buf.len();
                    return Ok(n);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    fn take(&mut self, total: usize, header: usize) -> Option<Range<usize>> {
        if self.end - self.start < total {
            self.wanted = total;
            return None;
        }
        let body = self.start + header..self.start + total;
        self.start += total;
        self.wanted = 0;
        Some(body)
    }

    fn make_room(&mut self) {
        let have = self.end - self.start;
        if self.start > 0 {
            self.buf.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, have);
        }
        let usual = if self.streaming { STREAM_BYTES } else { IDLE_BYTES };
        if self.wanted <= usual && have < usual {
            if self.buf.len() > usual {
                self.buf.truncate(usual);
                self.buf.shrink_to_fit();
            } else {
                self.buf.resize(usual, 0);
            }
        } else if self.buf.len() - have < READ_BYTES_MAX / 2 {
            // As far as the message reaches, but never far beyond what has really arrived.
            let size = self.wanted.clamp(have + 1, have + READ_BYTES_MAX.max(have));
            self.buf.resize(size.max(self.buf.len()), 0);
        }
        if self.end == self.buf.len() {
            self.buf.resize(self.buf.len() + IDLE_BYTES, 0);
        }
    }
}

fn check_tag(tag: u8) -> Result<(), Report> {
    if is_frontend_tag(tag) {
        Ok(())
    } else {
        Err(Report::protocol(format!("invalid frontend message type {tag}")))
    }
}

fn checked_len(header: [u8; 4], min: usize, max: usize) -> Result<usize, Report> {
    let len = i32::from_be_bytes(header);
    match usize::try_from(len) {
        Ok(len) if (min..=max).contains(&len) => Ok(len),
        Ok(len) if len > max => {
            Err(Report::protocol(format!("message of {len} bytes is longer than {max}")))
        }
        _ => Err(Report::protocol("invalid message length")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        let len = u32::try_from(body.len() + 4).unwrap();
        [&[tag][..], &len.to_be_bytes(), body].concat()
    }

    #[test]
    fn messages_come_out_whole_however_the_bytes_arrive() {
        let long = vec![b'x'; 300_000];
        let bytes = [message(b'Q', b"a\0"), message(b'd', &long), message(b'S', b"")].concat();
        for step in [1_usize, 7, 4096, 1 << 20] {
            let mut input = Input::default();
            let mut seen = Vec::new();
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let n = step.min(rest.len());
                let (mut part, after) = rest.split_at(n);
                rest = after;
                while !part.is_empty() {
                    input.fill(&mut part).unwrap();
                    while let Some(arrived) = input.next_message().unwrap() {
                        let Arrived::Message(tag, body) = arrived else { panic!("{arrived:?}") };
                        seen.push((tag, input.body(body).len()));
                    }
                }
            }
            assert_eq!(seen, [(b'Q', 2), (b'd', long.len()), (b'S', 0)], "step {step}");
            input.streaming = false;
            input.make_room();
            assert_eq!(input.buf.len(), IDLE_BYTES, "shrinks back");
        }
    }

    #[test]
    fn lengths_are_checked_before_the_body_is_read() {
        for bytes in [
            &b"Q\x7f\xff\xff\xff"[..],
            b"Q\xff\xff\xff\xff",
            b"Q\0\0\0\x03",
            b"S\0\x02\0\0",
            b"?",
            b"\0\0\0",
        ] {
            let mut input = Input::default();
            input.fill(&mut &bytes[..]).unwrap();
            let e = input.next_message().unwrap_err();
            assert_eq!(e.code(), "08P01", "{bytes:?}");
            assert_eq!(input.buf.len(), IDLE_BYTES);
        }
    }

    #[test]
    fn a_message_too_long_is_read_past() {
        let len = MESSAGE_BYTES_MAX + 1;
        let header = [&b"Q"[..], &u32::try_from(len).unwrap().to_be_bytes()].concat();
        let mut input = Input::default();
        input.fill(&mut &header[..]).unwrap();
        let part = vec![b'x'; 1 << 20];
        let mut left = len - 4;
        while left > 0 {
            assert_eq!(input.next_message().unwrap(), None);
            assert!(input.buf.len() <= STREAM_BYTES + IDLE_BYTES, "{}", input.buf.len());
            left -= input.fill(&mut &part[..left.min(part.len())]).unwrap();
        }
        assert_eq!(input.next_message().unwrap(), Some(Arrived::TooLong(b'Q', len)));
        input.fill(&mut &b"S\0\0\0\x04"[..]).unwrap();
        assert!(matches!(input.next_message().unwrap(), Some(Arrived::Message(b'S', _))));
    }

    #[test]
    fn a_promised_length_takes_memory_only_as_bytes_arrive() {
        let mut input = Input::default();
        input.fill(&mut &b"d\x03\0\0\0abc"[..]).unwrap();
        assert_eq!(input.next_message().unwrap(), None);
        input.fill(&mut &b"def"[..]).unwrap();
        assert!(input.buf.len() <= 2 * READ_BYTES_MAX, "{}", input.buf.len());
    }
}
