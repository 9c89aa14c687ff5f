//! Aligned buffers for direct I/O.

use bytemuck::{Pod, Zeroable};

use crate::shared::Frame;

/// Alignment, and the unit of length, of every [`IoBuf`].
pub const IO_ALIGN_BYTES: usize = 4096;

#[repr(C, align(4096))]
#[derive(Clone, Copy)]
struct IoPage([u8; IO_ALIGN_BYTES]);

// SAFETY: a byte array with no padding (size equals alignment) and no invalid bit patterns.
#[allow(unsafe_code)]
unsafe impl Zeroable for IoPage {}
// SAFETY: as above; `Copy`, `'static`, no interior mutability, no pointers.
#[allow(unsafe_code)]
unsafe impl Pod for IoPage {}

/// An owned byte buffer, aligned to 4096, with a length that is a multiple of 4096.
pub struct IoBuf(Memory);

enum Memory {
    Own(Vec<IoPage>),
    /// Other instances of the machine may look at it.
    Frame(Frame),
}

impl IoBuf {
    /// A zeroed buffer.
    ///
    /// # Panics
    /// When `len_bytes` is not a multiple of [`IO_ALIGN_BYTES`].
    #[must_use]
    pub fn zeroed(len_bytes: usize) -> IoBuf {
        assert!(len_bytes.is_multiple_of(IO_ALIGN_BYTES), "{len_bytes} is not a multiple of 4096");
        IoBuf(Memory::Own(bytemuck::zeroed_vec(len_bytes / IO_ALIGN_BYTES)))
    }

    /// A copy of `bytes`, zero-padded to the next multiple of 4096.
    #[must_use]
    pub fn copy_from(bytes: &[u8]) -> IoBuf {
        let (whole, rest) = bytes.as_chunks::<IO_ALIGN_BYTES>();
        let mut pages = Vec::with_capacity(whole.len() + usize::from(!rest.is_empty()));
        pages.extend(whole.iter().copied().map(IoPage));
        if !rest.is_empty() {
            let mut last = IoPage::zeroed();
            last.0[..rest.len()].copy_from_slice(rest);
            pages.push(last);
        }
        IoBuf(Memory::Own(pages))
    }

    pub(crate) fn of_frame(frame: Frame) -> IoBuf {
        IoBuf(Memory::Frame(frame))
    }

    pub(crate) fn frame(&self) -> Option<&Frame> {
        match &self.0 {
            Memory::Own(_) => None,
            Memory::Frame(frame) => Some(frame),
        }
    }
}

impl Clone for IoBuf {
    /// Never a frame: frames are few, and each is taken for a purpose.
    fn clone(&self) -> IoBuf {
        IoBuf::copy_from(self)
    }
}

impl std::ops::Deref for IoBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Memory::Own(pages) => bytemuck::cast_slice(pages),
            Memory::Frame(frame) => frame.bytes(),
        }
    }
}

impl std::ops::DerefMut for IoBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Memory::Own(pages) => bytemuck::cast_slice_mut(pages),
            Memory::Frame(frame) => frame.bytes_mut(),
        }
    }
}

impl std::fmt::Debug for IoBuf {
    /// The length only: contents are blocks, too long to show.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "IoBuf({} bytes)", self.len())
    }
}
