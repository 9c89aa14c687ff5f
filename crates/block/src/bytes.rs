//! Little-endian access to byte slices, and the small writer and reader all codecs here use.
//!
//! The `get_*` and `put_*` functions panic on a short slice: they are for blocks whose size is
//! known. [`Reader`] never panics: it is for bytes that somebody else wrote.

/// # Panics
/// When the slice is too short.
#[must_use]
#[inline(always)]
pub fn get_u16(b: &[u8], off: usize) -> u16 {
    u16::from_le_bytes([b[off], b[off + 1]])
}

/// # Panics
/// When the slice is too short.
#[must_use]
#[inline]
pub fn get_u32(b: &[u8], off: usize) -> u32 {
    u32::from_le_bytes(b[off..off + 4].try_into().expect("four bytes"))
}

/// # Panics
/// When the slice is too short.
#[must_use]
#[inline]
pub fn get_u64(b: &[u8], off: usize) -> u64 {
    u64::from_le_bytes(b[off..off + 8].try_into().expect("eight bytes"))
}

#[inline]
pub fn put_u16(b: &mut [u8], off: usize, v: u16) {
    b[off..off + 2].copy_from_slice(&v.to_le_bytes());
}

#[inline]
pub fn put_u32(b: &mut [u8], off: usize, v: u32) {
    b[off..off + 4].copy_from_slice(&v.to_le_bytes());
}

#[inline]
pub fn put_u64(b: &mut [u8], off: usize, v: u64) {
    b[off..off + 8].copy_from_slice(&v.to_le_bytes());
}

/// `v` as `u16`.
///
/// # Panics
/// When it does not fit: lengths inside a block always do.
#[must_use]
#[inline]
pub fn u16_of(v: usize) -> u16 {
    u16::try_from(v).expect("a length inside a block fits 16 bits")
}

/// Appends little-endian values to a vector.
pub trait Write {
    fn u8(&mut self, v: u8);
    fn u16(&mut self, v: u16);
    fn u32(&mut self, v: u32);
    fn u64(&mut self, v: u64);
    /// Length (u16) and bytes.
    fn bytes16(&mut self, v: &[u8]);
    /// Length (u32) and bytes.
    fn bytes32(&mut self, v: &[u8]);
}

impl Write for Vec<u8> {
    fn u8(&mut self, v: u8) {
        self.push(v);
    }
    fn u16(&mut self, v: u16) {
        self.extend_from_slice(&v.to_le_bytes());
    }
    fn u32(&mut self, v: u32) {
        self.extend_from_slice(&v.to_le_bytes());
    }
    fn u64(&mut self, v: u64) {
        self.extend_from_slice(&v.to_le_bytes());
    }
    fn bytes16(&mut self, v: &[u8]) {
        self.u16(u16_of(v.len()));
        self.extend_from_slice(v);
    }
    fn bytes32(&mut self, v: &[u8]) {
        self.u32(u32::try_from(v.len()).expect("a record is below 4 GiB"));
        self.extend_from_slice(v);
    }
}

/// Byte strings one behind the other, in two allocations: the rows or keys of a batch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ByteList {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl ByteList {
    #[must_use]
    pub fn new() -> ByteList {
        ByteList::default()
    }

    /// With room for `count` strings of `bytes` in all.
    #[must_use]
    pub fn with_capacity(count: usize, bytes: usize) -> ByteList {
        ByteList { bytes: Vec::with_capacity(bytes), ends: Vec::with_capacity(count) }
    }

    /// # Panics
    /// When the list would hold 4 GiB.
    pub fn push(&mut self, one: &[u8]) {
        self.bytes.extend_from_slice(one);
        self.ends.push(u32::try_from(self.bytes.len()).expect("a batch is below 4 GiB"));
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all strings together.
    #[must_use]
    pub fn total_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// # Panics
    /// When there are not so many.
    #[must_use]
    #[inline]
    pub fn get(&self, i: usize) -> &[u8] {
        let from = if i == 0 { 0 } else { self.ends[i - 1] as usize };
        &self.bytes[from..self.ends[i] as usize]
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|i| self.get(i))
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Count (u16), then each string's length (u16) and bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(2 + 2 * self.len() + self.bytes.len());
        out.u16(u16_of(self.len()));
        for one in self.iter() {
            out.bytes16(one);
        }
    }

    /// # Errors
    /// The bytes end.
    pub fn decode(r: &mut Reader<'_>) -> Result<ByteList, DecodeError> {
        let n = r.u16()?;
        let mut list = ByteList::new();
        for _ in 0..n {
            list.push(r.bytes16()?);
        }
        Ok(list)
    }
}

/// The bytes do not decode: too short, or a tag or length that cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("damaged or foreign bytes at offset {at}")]
pub struct DecodeError {
    pub at: usize,
}

/// Reads what [`Write`] wrote; every call checks its bounds.
#[derive(Clone)]
pub struct Reader<'a> {
    b: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    #[must_use]
    pub fn new(b: &'a [u8]) -> Reader<'a> {
        Reader { b, at: 0 }
    }

    #[must_use]
    pub fn at(&self) -> usize {
        self.at
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.at >= self.b.len()
    }

    #[must_use]
    pub fn error(&self) -> DecodeError {
        DecodeError { at: self.at }
    }

    /// # Errors
    /// Fewer than `n` bytes left.
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], DecodeError> {
        let end = self.at.checked_add(n).filter(|&e| e <= self.b.len()).ok_or(self.error())?;
        let out = &self.b[self.at..end];
        self.at = end;
        Ok(out)
    }

    /// The rest of the bytes.
    pub fn rest(&mut self) -> &'a [u8] {
        let out = &self.b[self.at..];
        self.at = self.b.len();
        out
    }

    /// # Errors
    /// The bytes end.
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.take(1)?[0])
    }

    /// # Errors
    /// The bytes end.
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(get_u16(self.take(2)?, 0))
    }

    /// # Errors
    /// The bytes end.
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(get_u32(self.take(4)?, 0))
    }

    /// # Errors
    /// The bytes end.
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(get_u64(self.take(8)?, 0))
    }

    /// # Errors
    /// The bytes end.
    pub fn bytes16(&mut self) -> Result<&'a [u8], DecodeError> {
        let n = self.u16()?;
        self.take(usize::from(n))
    }

    /// # Errors
    /// The bytes end.
    pub fn bytes32(&mut self) -> Result<&'a [u8], DecodeError> {
        let n = self.u32()?;
        self.take(n as usize)
    }
}
