//! What goes to one client: messages gathered in a buffer, written when the client waits for them.
//!
//! What it promises: the buffer holds whole messages only, but for at most one row at its end that
//! is being built; a failed statement's unfinished row is cut off. While rows stream, the buffer is
//! written each time it is large, so a result is never held in memory.
//!
//! Once a write has failed the client is gone: what follows is dropped, and `is_broken` tells.

use crate::engine::{ClientWaits, Column, Notification};
use crate::report::Report;
use crate::stream::Stream;
use bytes::{BufMut, BytesMut};
use pgwire::messages::Message;
use std::io::Write;
use std::sync::Arc;

/// Above this the buffer is written even if the client does not wait.
const FLUSH_BYTES: usize = 64 * 1024;
/// Capacity above which an idle session's buffer is given back.
const IDLE_BYTES_MAX: usize = 16 * 1024;

/// The sending half of a session.
pub struct Output {
    buf: BytesMut,
    /// Where the row that is being built begins.
    open: Option<usize>,
    /// Rows are CopyData messages instead of DataRow.
    copying: bool,
    stream: Arc<Stream>,
    waits: Option<Arc<dyn ClientWaits>>,
    broken: bool,
}

impl Output {
    /// An empty buffer in front of `stream`.
    pub fn new(stream: Arc<Stream>) -> Output {
        Output {
            buf: BytesMut::with_capacity(4096),
            open: None,
            copying: false,
            stream,
            waits: None,
            broken: false,
        }
    }

    /// From now on writes are waits of a session.
    pub fn set_waits(&mut self, waits: Arc<dyn ClientWaits>) {
        self.waits = Some(waits);
    }

    /// Whether the client cannot be reached any more.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    // ---- rows -------------------------------------------------------------------------------

    /// Begins the next row and gives the buffer to append its body to: after the column count, for
    /// each value its length and bytes (or, while copying out, the bytes of the line).
    pub fn row(&mut self) -> &mut BytesMut {
        self.close_row();
        self.open = Some(self.buf.len());
        self.buf.put_u8(if self.copying { b'd' } else { b'D' });
        self.buf.put_u32(0);
        &mut self.buf
    }

    /// Ends the row that [`Output::row`] began, if any.
    pub fn close_row(&mut self) {
        if let Some(at) = self.open.take() {
            self.patch_length(at);
        }
    }

    /// Cuts off a row that its statement could not finish.
    pub fn drop_row(&mut self) {
        if let Some(at) = self.open.take() {
            self.buf.truncate(at);
        }
    }

    /// Whether rows are being copied out.
    #[must_use]
    pub fn is_copying(&self) -> bool {
        self.copying
    }

    /// Whether so much is buffered that it is time to write.
    #[must_use]
    pub fn is_large(&self) -> bool {
        self.buf.len() >= FLUSH_BYTES
    }

    /// Ends the open row and writes if much is buffered.
    pub fn flush_if_large(&mut self) {
        if self.is_large() {
            self.close_row();
            self.write(true);
        }
    }

    // ---- messages ---------------------------------------------------------------------------

    /// Appends a message of the protocol library.
    pub fn message(&mut self, message: &impl Message) {
        self.close_row();
        let at = self.buf.len();
        // It refuses only what is beyond the protocol's size limits.
        if message.encode(&mut self.buf).is_err() {
            self.buf.truncate(at);
            self.report(&Report::error("54000", "an answer is too long for the protocol"));
        }
    }

    /// Appends a message that has no body.
    pub fn bare(&mut self, tag: u8) {
        self.close_row();
        self.buf.put_slice(&[tag, 0, 0, 0, 4]);
    }

    /// Appends one byte outside any message (the answer to an encryption request).
    pub fn raw_byte(&mut self, byte: u8) {
        self.buf.put_u8(byte);
    }

    /// `CommandComplete`.
    pub fn command_complete(&mut self, tag: &str) {
        let at = self.begin(b'C');
        self.put_text(tag);
        self.patch_length(at);
    }

    /// `NotificationResponse`.
    pub fn notification(&mut self, notification: &Notification) {
        self.close_row();
        let at = self.begin(b'A');
        self.buf.put_i32(notification.pid);
        self.put_text(&notification.channel);
        self.put_text(&notification.payload);
        self.patch_length(at);
    }

    /// `ReadyForQuery` with the transaction status (`I`, `T`, `E`).
    pub fn ready(&mut self, status: u8) {
        self.close_row();
        self.buf.put_slice(&[b'Z', 0, 0, 0, 5, status]);
    }

    /// `ParameterStatus`.
    pub fn parameter_status(&mut self, name: &str, value: &str) {
        let at = self.begin(b'S');
        self.put_text(name);
        self.put_text(value);
        self.patch_length(at);
    }

    /// `RowDescription`. `formats` as in Bind: none for text, one for all, or one a column.
    pub fn row_description(&mut self, columns: &[Column], formats: &[i16]) {
        let at = self.begin(b'T');
        self.put_count(columns.len());
        for (i, column) in columns.iter().enumerate() {
            self.put_text(&column.name);
            self.buf.put_u32(column.table_oid);
            self.buf.put_i16(column.attnum);
            self.buf.put_u32(column.type_oid);
            self.buf.put_i16(column.type_len);
            self.buf.put_i32(column.type_modifier);
            self.buf.put_i16(format_of(formats, i));
        }
        self.patch_length(at);
    }

    /// `ParameterDescription`.
    pub fn parameter_description(&mut self, oids: &[u32]) {
        let at = self.begin(b't');
        self.put_count(oids.len());
        for oid in oids {
            self.buf.put_u32(*oid);
        }
        self.patch_length(at);
    }

    /// `CopyInResponse`.
    pub fn copy_in(&mut self, binary: bool, columns: usize) {
        self.copy_response(b'G', binary, columns);
    }

    /// `CopyOutResponse`; rows are lines of the copy from now on.
    pub fn copy_out(&mut self, binary: bool, columns: usize) {
        self.copy_response(b'H', binary, columns);
        self.copying = true;
    }

    /// `CopyDone`, when all lines were sent.
    pub fn copy_out_done(&mut self) {
        self.bare(b'c');
        self.copying = false;
    }

    fn copy_response(&mut self, tag: u8, binary: bool, columns: usize) {
        let at = self.begin(tag);
        self.buf.put_u8(u8::from(binary));
        self.put_count(columns);
        for _ in 0..columns {
            self.buf.put_i16(i16::from(binary));
        }
        self.patch_length(at);
    }

    /// `ErrorResponse` or `NoticeResponse`, by severity.
    pub fn report(&mut self, report: &Report) {
        use crate::report::Severity::{Error, Fatal};
        self.drop_row();
        let is_error = matches!(report.severity, Error | Fatal);
        if is_error {
            self.copying = false;
        }
        let at = self.begin(if is_error { b'E' } else { b'N' });
        let always = [
            (b'S', report.severity.word()),
            (b'V', report.severity.word()),
            (b'C', report.code()),
            (b'M', report.message.as_str()),
        ];
        for (tag, text) in always {
            self.put_field(tag, text);
        }
        if let Some(extra) = report.extra() {
            let position = extra.position.map(|p| p.to_string());
            let optional = [(b'D', &extra.detail), (b'H', &extra.hint), (b'P', &position)];
            for (tag, text) in optional {
                if let Some(text) = text {
                    self.put_field(tag, text);
                }
            }
            for (tag, text) in &extra.fields {
                self.put_field(*tag, text);
            }
        }
        self.buf.put_u8(0);
        self.patch_length(at);
    }

    // ---- writing ----------------------------------------------------------------------------

    /// Writes all whole messages. The client's socket may block it.
    pub fn flush(&mut self) {
        self.write(false);
    }

    fn write(&mut self, more: bool) {
        self.close_row();
        if self.buf.is_empty() {
            return;
        }
        if !self.broken {
            let (stream, bytes) = (&self.stream, &self.buf[..]);
            let mut outcome = Ok(());
            let mut write = || outcome = (&**stream).write_all(bytes);
            match &self.waits {
                Some(waits) => waits.write(more, bytes.len(), &mut write),
                None => write(),
            }
            self.broken = outcome.is_err();
        }
        self.buf.clear();
        if self.buf.capacity() > IDLE_BYTES_MAX && !self.copying {
            self.buf = BytesMut::with_capacity(4096);
        }
    }

    fn begin(&mut self, tag: u8) -> usize {
        self.close_row();
        let at = self.buf.len();
        self.buf.put_u8(tag);
        self.buf.put_u32(0);
        at
    }

    fn patch_length(&mut self, at: usize) {
        let len = u32::try_from(self.buf.len() - at - 1).unwrap_or(u32::MAX);
        self.buf[at + 1..at + 5].copy_from_slice(&len.to_be_bytes());
    }

    fn put_count(&mut self, count: usize) {
        self.buf.put_u16(u16::try_from(count).unwrap_or(u16::MAX));
    }

    fn put_field(&mut self, tag: u8, text: &str) {
        self.buf.put_u8(tag);
        self.put_text(text);
    }

    /// A zero byte inside would end the text early and make what follows a forged field.
    fn put_text(&mut self, text: &str) {
        let text = text.split('\0').next().unwrap_or("");
        self.buf.put_slice(text.as_bytes());
        self.buf.put_u8(0);
    }
}

/// The format of column `i` under Bind's rules.
fn format_of(formats: &[i16], i: usize) -> i16 {
    match formats {
        [] => 0,
        [one] => *one,
        many => many.get(i).copied().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    fn pair() -> (Output, UnixStream) {
        let (a, b) = UnixStream::pair().unwrap();
        (Output::new(Arc::new(Stream::unix(a))), b)
    }

    fn sent(mut out: Output, mut peer: UnixStream) -> Vec<u8> {
        out.flush();
        drop(out);
        let mut bytes = Vec::new();
        peer.read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_row_that_its_statement_did_not_finish_is_cut_off() {
        let (mut out, peer) = pair();
        out.row().put_slice(b"\0\0");
        out.row().put_slice(b"\0\x05unfinished");
        out.report(&Report::error("22012", "division by zero"));
        let bytes = sent(out, peer);
        assert_eq!(&bytes[..7], b"D\0\0\0\x06\0\0");
        assert_eq!(bytes[7], b'E');
        assert!(!bytes.windows(10).any(|w| w == b"unfinished"));
        let len = u32::from_be_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
        assert_eq!(bytes.len(), 7 + 1 + usize::try_from(len).unwrap());
    }

    #[test]
    fn a_zero_byte_in_a_text_cannot_forge_a_field() {
        let (mut out, peer) = pair();
        out.report(&Report::error("XX000", "a\0Cforged"));
        let bytes = sent(out, peer);
        assert!(!bytes.windows(6).any(|w| w == b"forged"));
    }

    #[test]
    fn copied_rows_are_copy_data() {
        let (mut out, peer) = pair();
        out.copy_out(false, 2);
        out.row().put_slice(b"1\t2\n");
        out.copy_out_done();
        let bytes = sent(out, peer);
        assert_eq!(bytes, b"H\0\0\0\x0b\0\0\x02\0\0\0\0d\0\0\0\x081\t2\nc\0\0\0\x04");
    }
}
