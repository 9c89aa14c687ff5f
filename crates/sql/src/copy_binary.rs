//! COPY's binary format: a signature, then rows as a count of fields and each field with its
//! length, then a count of -1.
//!
//! What it promises: bytes may arrive cut anywhere, and no length is believed before it is checked.

use crate::copy::{CopyIn, LINE_BYTES_MAX};
use crate::encode::{RowEncoder, RowSink};
use crate::session::Session;
use crate::{PgError, Result};
use bytes::BytesMut;
use kernel::dict::TableDef;
use kernel::row::{RowView, Value};
use query::PgColumn;
use query::cast::{CastMode, cast};
use query::scalar::Val;
use query::types::PgType;
use query::wire::decode;
use std::sync::Arc;

const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";
/// Signature, flags, length of an extension.
const HEADER_BYTES: usize = SIGNATURE.len() + 8;
/// Flags that a reader must understand; none is.
const CRITICAL_FLAGS: u32 = 0xffff_0000;

/// What a copy begins with: it goes in one message with what follows, as clients expect.
#[derive(Default)]
pub(crate) struct Header {
    sent: bool,
}

impl Header {
    fn message<'s>(&mut self, sink: &'s mut dyn RowSink) -> &'s mut BytesMut {
        let out = sink.row();
        if !std::mem::replace(&mut self.sent, true) {
            out.extend_from_slice(SIGNATURE);
            out.extend_from_slice(&[0; 8]);
        }
        out
    }

    /// What a copy ends with.
    pub(crate) fn push_trailer(&mut self, sink: &mut dyn RowSink) {
        self.message(sink).extend_from_slice(&(-1_i16).to_be_bytes());
    }
}

/// One row.
///
/// # Errors
/// A value has no binary form.
pub(crate) fn push_row<'v>(
    encoder: &mut RowEncoder,
    value: impl FnMut(usize) -> Result<Val<'v>>,
    header: &mut Header,
    sink: &mut dyn RowSink,
) -> Result<()> {
    // The body of a DataRow message is what a copy calls a tuple.
    encoder.encode(value, header.message(sink))?;
    sink.flush_if_large();
    Ok(())
}

/// What some bytes begin with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    /// Not all of it is there yet.
    More,
    Header,
    Row(Vec<Option<&'a [u8]>>),
    End,
}

/// Takes the next part off `bytes`; gives it with its length.
///
/// # Errors
/// 22P04: it is not what a copy sends there.
pub(crate) fn next_part(bytes: &[u8], header_seen: bool) -> Result<(Part<'_>, usize)> {
    if !header_seen {
        return header(bytes);
    }
    let Some(count) = bytes.first_chunk::<2>() else { return Ok((Part::More, 0)) };
    let count = i16::from_be_bytes(*count);
    if count == -1 {
        return Ok((Part::End, 2));
    }
    let count = usize::try_from(count).map_err(|_| bad("row field count is negative"))?;
    let mut fields = Vec::with_capacity(count.min(bytes.len() / 4));
    let mut at = 2;
    for _ in 0..count {
        let Some(len) = bytes[at..].first_chunk::<4>() else { return Ok((Part::More, 0)) };
        at += 4;
        let len = i32::from_be_bytes(*len);
        if len == -1 {
            fields.push(None);
            continue;
        }
        let len = usize::try_from(len).map_err(|_| bad("invalid field size"))?;
        let Some(field) = bytes.get(at..at + len) else { return Ok((Part::More, 0)) };
        fields.push(Some(field));
        at += len;
    }
    Ok((Part::Row(fields), at))
}

fn header(bytes: &[u8]) -> Result<(Part<'_>, usize)> {
    let known = bytes.len().min(SIGNATURE.len());
    if bytes[..known] != SIGNATURE[..known] {
        return Err(bad("COPY file signature not recognized"));
    }
    if bytes.len() < HEADER_BYTES {
        return Ok((Part::More, 0));
    }
    let word =
        |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    if word(SIGNATURE.len()) & CRITICAL_FLAGS != 0 {
        return Err(bad("unrecognized critical flags in COPY file header"));
    }
    if word(SIGNATURE.len() + 4) != 0 {
        return Err(bad("an extension in the COPY file header is not supported"));
    }
    Ok((Part::Header, HEADER_BYTES))
}

pub(crate) fn bad(why: &str) -> PgError {
    PgError::new("22P04", why.to_owned())
}

/// Options that only text has.
///
/// # Errors
/// 42601: one was given.
pub(crate) fn refuse_options(given: &[(&str, bool)]) -> Result<()> {
    match given.iter().find(|(_, given)| *given) {
        Some((name, _)) => {
            Err(PgError::new("42601", format!("cannot specify {name} in BINARY mode")))
        }
        None => Ok(()),
    }
}

impl Session {
    pub(crate) async fn take_binary(&mut self, copy: &mut CopyIn, data: &[u8]) -> Result<()> {
        copy.rest.extend_from_slice(data);
        let mut buffer = std::mem::take(&mut copy.rest);
        let mut from = 0;
        while !copy.ended {
            let (part, len) = next_part(&buffer[from..], copy.header_seen)?;
            match part {
                Part::More => break,
                Part::Header => copy.header_seen = true,
                Part::End => copy.ended = true,
                Part::Row(fields) => self.take_binary_row(copy, &fields).await?,
            }
            from += len;
        }
        buffer.drain(..from);
        if copy.ended && !buffer.is_empty() {
            return Err(bad("received copy data after EOF marker"));
        }
        if buffer.len() > LINE_BYTES_MAX {
            return Err(PgError::new("54000", "a row of COPY data is too long"));
        }
        copy.rest = buffer;
        Ok(())
    }

    async fn take_binary_row(&mut self, copy: &mut CopyIn, fields: &[Option<&[u8]>]) -> Result<()> {
        copy.line_no += 1;
        let table = copy.table.clone();
        let (got, wanted) = (fields.len(), copy.columns.len());
        if got != wanted {
            let why = format!("row field count is {got}, expected {wanted}");
            return Err(bad(&why));
        }
        let env = self.format_env();
        copy.values.clear();
        copy.values.resize(table.columns.len(), Value::Null);
        for (at, field) in copy.columns.iter().zip(fields) {
            if let Some(bytes) = field {
                let ty = table.columns[*at].ty;
                let value = decode(bytes, ty, PgType::of(ty).oid, true, &env)?;
                copy.values[*at] = cast(&value.as_datum(), ty, CastMode::Assignment, &env)?;
            }
        }
        self.insert_copied(copy, &env).await
    }

    pub(crate) async fn copy_table_binary(
        &mut self,
        table: &Arc<TableDef>,
        columns: &[usize],
        sink: &mut dyn RowSink,
    ) -> Result<u64> {
        let mut header = Header::default();
        let column = |at: &usize| {
            let column = &table.columns[*at];
            PgColumn::new(column.name.clone(), PgType::of(column.ty))
        };
        let shown: Vec<PgColumn> = columns.iter().map(column).collect();
        let mut encoder = RowEncoder::new(&shown, &[1], self.format_env());
        let snapshot = self.snapshot()?;
        let mut scan = kernel::table::scan(&self.ctx, table, &snapshot).await?;
        let (mut rows, mut failed) = (0, None);
        loop {
            // Sent after the block is let go: a slow client must not hold it.
            let mut kept = crate::kept::KeptRows::default();
            let more = scan
                .next_block(&self.ctx, |_, row| {
                    let view = RowView::new(&table.types, row);
                    let value = |i: usize| Ok(Val::Ref(view.get(columns[i])));
                    if let Err(e) = push_row(&mut encoder, value, &mut header, &mut kept) {
                        failed.get_or_insert(e);
                    }
                    rows += 1;
                })
                .await?;
            if let Some(e) = failed {
                return Err(e);
            }
            kept.hand_out(0, sink);
            if !more {
                header.push_trailer(sink);
                return Ok(rows);
            }
            self.ctx.check_interrupt()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole() -> Vec<u8> {
        let mut bytes = SIGNATURE.to_vec();
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(&[0, 2, 0, 0, 0, 1, 7, 255, 255, 255, 255]);
        bytes.extend_from_slice(&[255, 255]);
        bytes
    }

    #[test]
    fn parts_come_out_whole_however_the_bytes_are_cut() {
        let bytes = whole();
        let (header, at) = next_part(&bytes, false).unwrap();
        assert_eq!((header, at), (Part::Header, 19));
        let row = &bytes[at..];
        assert_eq!(next_part(row, true).unwrap(), (Part::Row(vec![Some(&[7][..]), None]), 11));
        assert_eq!(next_part(&row[11..], true).unwrap(), (Part::End, 2));
        for cut in 0..at {
            assert_eq!(next_part(&bytes[..cut], false).unwrap().0, Part::More, "{cut}");
        }
        for cut in 0..11 {
            assert_eq!(next_part(&row[..cut], true).unwrap().0, Part::More, "{cut}");
        }
    }

    #[test]
    fn what_is_no_copy_is_refused() {
        for (bytes, seen) in [
            (&b"1\t2\n"[..], false),
            (b"PGCOPY\n\xff\r\n\0\0\x01\0\0\0\0\0\0", false),
            (b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\x04", false),
            (b"\xff\xfe", true),
            (b"\0\x01\xff\xff\xff\xfe", true),
        ] {
            assert_eq!(next_part(bytes, seen).unwrap_err().code, "22P04", "{bytes:?}");
        }
    }
}
