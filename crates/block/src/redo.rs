//! Redo records: the unit of atomicity in recovery.
//!
//! A record: length (4), crc32c of all that follows (4), Rba (8), log incarnation (4), crc of the
//! predecessor (4), SCN (8), xid (8), kind (1), vector count (2), vectors. A vector: address (8),
//! version before (16), length (4), operation. The incarnation and the predecessor's crc keep an
//! older record behind the end of the log from ever being taken for the next one (hazard C13).

use crate::bytes::{DecodeError, Reader, Write, get_u32, put_u32};
use crate::op::{Op, Vector};
use crate::types::{Dba, Rba, Scn, Version, Xid};

pub const RECORD_HEADER_BYTES: usize = 43;
/// Format SCN of a version made by a format earlier in the same record, whose SCN is not yet known.
pub const SAME_RECORD: Scn = Scn::MAX;

/// What a record is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum RecordKind {
    Change = 1,
    /// A change that commits its transaction.
    Commit = 2,
    /// Fills the rest of a sector; no vectors.
    Pad = 3,
    /// The thread was closed cleanly here.
    Close = 4,
}

/// A record; its vectors are decoded, or still bytes in a [`RawRecord`].
#[derive(Clone, PartialEq, Debug)]
pub struct Record<V = Vector> {
    pub rba: Rba,
    pub incarnation: u32,
    pub prev_crc: u32,
    pub crc: u32,
    pub scn: Scn,
    pub xid: Xid,
    pub kind: RecordKind,
    pub vectors: Vec<V>,
    pub length_bytes: u32,
}

/// Builds the body (everything from the vector count on) of a record.
#[derive(Default)]
pub struct Body {
    bytes: Vec<u8>,
    count: u16,
}

impl Body {
    #[must_use]
    pub fn new() -> Body {
        Body { bytes: Vec::with_capacity(256), count: 0 }
    }

    pub fn push(&mut self, dba: Dba, before: Version, op: &Op) {
        self.bytes.u64(dba.to_u64());
        self.bytes.u64(before.format.0);
        self.bytes.u64(before.count);
        let at = self.bytes.len();
        self.bytes.u32(0);
        op.encode(&mut self.bytes);
        let len = u32::try_from(self.bytes.len() - at - 4).expect("a vector is below 1 MiB");
        put_u32(&mut self.bytes, at, len);
        self.count += 1;
    }

    /// Length of the whole record.
    #[must_use]
    pub fn record_bytes(&self) -> usize {
        RECORD_HEADER_BYTES + self.bytes.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// The fields of a record that the log gives it.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    pub rba: Rba,
    pub incarnation: u32,
    pub prev_crc: u32,
    pub scn: Scn,
    pub xid: Xid,
    pub kind: RecordKind,
}

/// Appends the record to `out` and returns its crc.
pub fn encode(stamp: &Stamp, body: &Body, out: &mut Vec<u8>) -> u32 {
    let start = out.len();
    out.u32(u32::try_from(body.record_bytes()).expect("a record is below 1 MiB"));
    out.u32(0);
    out.u64(stamp.rba.0);
    out.u32(stamp.incarnation);
    out.u32(stamp.prev_crc);
    out.u64(stamp.scn.0);
    out.u64(stamp.xid.to_u64());
    out.u8(stamp.kind as u8);
    out.u16(body.count);
    out.extend_from_slice(&body.bytes);
    let crc = crc32c::crc32c(&out[start + 8..]);
    put_u32(out, start + 4, crc);
    crc
}

/// Appends a pad record that makes `out` end `fill_bytes` later.
///
/// # Panics
/// When `fill_bytes` is less than a record header.
pub fn encode_pad(stamp: &Stamp, fill_bytes: usize, out: &mut Vec<u8>) -> u32 {
    assert!(fill_bytes >= RECORD_HEADER_BYTES);
    let body = Body { bytes: vec![0; fill_bytes - RECORD_HEADER_BYTES], count: 0 };
    encode(&Stamp { kind: RecordKind::Pad, ..*stamp }, &body, out)
}

/// Why a log ends: a value, not an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndReason {
    /// The next bytes are no record, or one that was only partly written.
    Torn,
    /// A whole record, but of an older life of the log file.
    Stale,
}

/// A vector as it stands in a record: where it applies is known, its operation not yet decoded.
#[derive(Clone, Copy, Debug)]
pub struct RawVector<'a> {
    pub dba: Dba,
    pub before: Version,
    pub op: &'a [u8],
}

impl RawVector<'_> {
    /// Whether the operation makes the block anew.
    #[must_use]
    pub fn is_format(&self) -> bool {
        Op::is_format_code(self.op)
    }

    /// # Errors
    /// The bytes are not an operation.
    pub fn decode(&self) -> Result<Vector, DecodeError> {
        let op = Op::decode(&mut Reader::new(self.op))?;
        Ok(Vector { dba: self.dba, before: self.before, op })
    }
}

/// A record with its vectors undecoded.
pub type RawRecord<'a> = Record<RawVector<'a>>;

impl RawRecord<'_> {
    /// # Errors
    /// A vector's bytes are not an operation.
    pub fn decode(&self) -> Result<Record, DecodeError> {
        let vectors: Result<Vec<Vector>, DecodeError> =
            self.vectors.iter().map(RawVector::decode).collect();
        Ok(Record {
            rba: self.rba,
            incarnation: self.incarnation,
            prev_crc: self.prev_crc,
            crc: self.crc,
            scn: self.scn,
            xid: self.xid,
            kind: self.kind,
            vectors: vectors?,
            length_bytes: self.length_bytes,
        })
    }
}

/// Reads the record at the start of `bytes`, which must be the one at `rba` of `incarnation`,
/// following a record with crc `prev_crc` (`None`: not known, the first of a scan).
///
/// # Errors
/// Why the log ends here.
pub fn decode(
    bytes: &[u8],
    rba: Rba,
    incarnation: u32,
    prev_crc: Option<u32>,
) -> Result<Record, EndReason> {
    let raw = decode_raw(bytes, rba, incarnation, prev_crc)?;
    raw.decode().map_err(|_| EndReason::Torn)
}

/// As [`decode`], without decoding the operations.
///
/// # Errors
/// Why the log ends here.
pub fn decode_raw(
    bytes: &[u8],
    rba: Rba,
    incarnation: u32,
    prev_crc: Option<u32>,
) -> Result<RawRecord<'_>, EndReason> {
    if bytes.len() < RECORD_HEADER_BYTES {
        return Err(EndReason::Torn);
    }
    let len = get_u32(bytes, 0) as usize;
    if len < RECORD_HEADER_BYTES || len > bytes.len() {
        return Err(EndReason::Torn);
    }
    let crc = get_u32(bytes, 4);
    if crc32c::crc32c(&bytes[8..len]) != crc {
        return Err(EndReason::Torn);
    }
    let record = parse_raw(&bytes[..len]).map_err(|_| EndReason::Torn)?;
    if record.rba != rba
        || record.incarnation != incarnation
        || prev_crc.is_some_and(|p| p != record.prev_crc)
    {
        return Err(EndReason::Stale);
    }
    Ok(record)
}

/// Parses one whole record whose crc is known to be good.
///
/// # Errors
/// The bytes are not a record.
pub fn parse(bytes: &[u8]) -> Result<Record, DecodeError> {
    parse_raw(bytes)?.decode()
}

/// Address, version and length of a vector.
const VECTOR_BYTES_MIN: usize = 28;

fn parse_raw(bytes: &[u8]) -> Result<RawRecord<'_>, DecodeError> {
    let mut r = Reader::new(bytes);
    let length_bytes = r.u32()?;
    let crc = r.u32()?;
    let rba = Rba(r.u64()?);
    let incarnation = r.u32()?;
    let prev_crc = r.u32()?;
    let scn = Scn(r.u64()?);
    let xid = Xid::from_u64(r.u64()?);
    let kind = match r.u8()? {
        1 => RecordKind::Change,
        2 => RecordKind::Commit,
        3 => RecordKind::Pad,
        4 => RecordKind::Close,
        _ => return Err(r.error()),
    };
    let n = r.u16()?;
    // A forged count reserves no more than its bytes could hold.
    let mut vectors = Vec::with_capacity(usize::from(n).min(bytes.len() / VECTOR_BYTES_MIN));
    for _ in 0..n {
        let dba = Dba::from_u64(r.u64()?);
        let mut before = Version { format: Scn(r.u64()?), count: r.u64()? };
        if before.format == SAME_RECORD {
            before.format = scn;
        }
        vectors.push(RawVector { dba, before, op: r.bytes32()? });
    }
    Ok(RawRecord { rba, incarnation, prev_crc, crc, scn, xid, kind, vectors, length_bytes })
}

/// crc32c of `b`: the checksum of everything on disk.
#[must_use]
pub fn crc(b: &[u8]) -> u32 {
    crc32c::crc32c(b)
}
