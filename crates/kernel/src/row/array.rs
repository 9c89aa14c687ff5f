//! Arrays as rows keep them: of one dimension, counted from 1, NULLs among the elements.
//!
//! Layout, little-endian: code of the elements' type (1 byte), number of elements (4 bytes), the
//! end of each element's data counted from the end of these offsets (4 bytes each, the highest bit
//! set for NULL), the data. What it promises: bytes that passed [`ArrayView::checked`] can be read.

use super::codec::{append_data, check_data, decode};
use super::{ColType, Datum, TypeKind};

const HEADER_BYTES: usize = 5;
const OFFSET_BYTES: usize = 4;
const NULL: u32 = 0x8000_0000;

/// The bytes of an array.
///
/// # Panics
/// If an element is not of the kind, or all together are longer than a row can be.
#[must_use]
pub fn encode_array(kind: TypeKind, elements: &[Datum<'_>]) -> Box<[u8]> {
    let count =
        u32::try_from(elements.len()).expect("an array has fewer elements than a row bytes");
    let mut out = vec![kind.code()];
    out.extend_from_slice(&count.to_le_bytes());
    out.resize(HEADER_BYTES + elements.len() * OFFSET_BYTES, 0);
    let data_at = out.len();
    for (i, element) in elements.iter().enumerate() {
        assert!(super::codec::fits(kind, element), "{element:?} in an array of {kind:?}");
        append_data(element, &mut out);
        let end = u32::try_from(out.len() - data_at).expect("arrays stay below 2 GiB");
        assert!(end < NULL, "arrays stay below 2 GiB");
        let end = if element.is_null() { end | NULL } else { end };
        let at = HEADER_BYTES + i * OFFSET_BYTES;
        out[at..at + OFFSET_BYTES].copy_from_slice(&end.to_le_bytes());
    }
    out.into_boxed_slice()
}

/// An array's bytes, readable element by element.
#[derive(Clone, Copy, Debug)]
pub struct ArrayView<'a> {
    kind: TypeKind,
    count: usize,
    bytes: &'a [u8],
}

impl<'a> ArrayView<'a> {
    /// A view of bytes that [`encode_array`] made.
    ///
    /// # Panics
    /// If they are malformed.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> ArrayView<'a> {
        ArrayView::header(bytes).expect("an array has a header")
    }

    /// A view of bytes of unknown origin; `None` if they are no array.
    #[must_use]
    pub fn checked(bytes: &'a [u8]) -> Option<ArrayView<'a>> {
        let view = ArrayView::header(bytes)?;
        let data = bytes.get(view.data_at()..)?;
        let mut from = 0;
        for i in 0..view.count {
            let (end, null) = view.end(i);
            let element = data.get(from..end)?;
            if null && !element.is_empty() {
                return None;
            }
            let flat = !matches!(view.kind, TypeKind::Array | TypeKind::Enum);
            if !null && (!flat || check_data(view.kind, element).is_err()) {
                return None;
            }
            from = end;
        }
        (from == data.len()).then_some(view)
    }

    fn header(bytes: &'a [u8]) -> Option<ArrayView<'a>> {
        let (code, rest) = bytes.split_first()?;
        let count = u32::from_le_bytes(rest.get(..4)?.try_into().ok()?);
        let view = ArrayView {
            kind: TypeKind::from_code(*code)?,
            count: usize::try_from(count).ok()?,
            bytes,
        };
        let offsets = view.count.checked_mul(OFFSET_BYTES)?;
        (bytes.len() - HEADER_BYTES >= offsets).then_some(view)
    }

    fn data_at(&self) -> usize {
        HEADER_BYTES + self.count * OFFSET_BYTES
    }

    fn end(&self, i: usize) -> (usize, bool) {
        let at = HEADER_BYTES + i * OFFSET_BYTES;
        let mut raw = [0; OFFSET_BYTES];
        raw.copy_from_slice(&self.bytes[at..at + OFFSET_BYTES]);
        let raw = u32::from_le_bytes(raw);
        ((raw & !NULL) as usize, raw & NULL != 0)
    }

    /// The kind of the elements.
    #[must_use]
    pub const fn kind(&self) -> TypeKind {
        self.kind
    }

    #[must_use]
    pub const fn len(&self) -> usize {
        self.count
    }

    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The element at a place counted from 0.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn get(&self, i: usize) -> Datum<'a> {
        let from = if i == 0 { 0 } else { self.end(i - 1).0 };
        let (end, null) = self.end(i);
        if null {
            return Datum::Null;
        }
        let at = self.data_at();
        // Enums, whose values need more than their kind, are never elements.
        decode(ColType::new(self.kind), &self.bytes[at + from..at + end])
    }

    pub fn iter(&self) -> impl Iterator<Item = Datum<'a>> + '_ {
        (0..self.count).map(|i| self.get(i))
    }
}
