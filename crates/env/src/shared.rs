//! Memory of one instance that the other instances of its machine may look at, without its help.
//!
//! It has three parts: open words, which the others may change too; words that only the owner
//! changes; and frames, of which the owner takes [`IoBuf`]s. What the words mean is the business of
//! the layers above, and so is telling whether what was copied out of a frame was whole: a frame
//! may change while it is being copied.
//!
//! Promises: a view stays readable after its owner's death, as it was then. Must never let anyone
//! but the owner write into words or frames.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use parking_lot::Mutex;

use crate::buf::{IO_ALIGN_BYTES, IoBuf};

/// How much there is of each part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharedLayout {
    pub open_words: usize,
    pub words: usize,
    pub frames: usize,
    /// A multiple of [`IO_ALIGN_BYTES`].
    pub frame_bytes: usize,
}

/// What a memory file of ours is called among a process's open files.
const MEMORY_FILE: &str = "/memfd:skein (deleted)";
/// First word of the memory: "SKEINSHM" and the version of what follows.
const MAGIC: u64 = 0x534b_4549_4e00_0001;
/// Words before the open ones: magic, the owner's random number, the layout.
const HEAD_WORDS: usize = 6;

impl SharedLayout {
    fn open_bytes(&self) -> usize {
        ((HEAD_WORDS + self.open_words) * 8).next_multiple_of(IO_ALIGN_BYTES)
    }

    fn words_bytes(&self) -> usize {
        (self.words * 8).next_multiple_of(IO_ALIGN_BYTES)
    }

    fn bytes(&self) -> usize {
        self.open_bytes() + self.words_bytes() + self.frames * self.frame_bytes
    }

    fn head(&self, key: u64) -> [u64; HEAD_WORDS] {
        let [open, words, frames, frame_bytes] =
            [self.open_words, self.words, self.frames, self.frame_bytes].map(|n| n as u64);
        [MAGIC, key, open, words, frames, frame_bytes]
    }

    fn of_head(head: [u64; HEAD_WORDS], key: u64) -> io::Result<SharedLayout> {
        let [magic, found, sizes @ ..] = head;
        let sizes = sizes.map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        let [open_words, words, frames, frame_bytes] = sizes;
        if magic != MAGIC || found != key {
            return Err(io::Error::other("the memory is another process's"));
        }
        Ok(SharedLayout { open_words, words, frames, frame_bytes })
    }
}

/// Mapped pages.
struct Pages {
    at: NonNull<u8>,
    len_bytes: usize,
}

// SAFETY: plain memory; what is shared between threads is reached through atomics, and a frame's
// bytes through the one `IoBuf` that owns it.
#[allow(unsafe_code)]
unsafe impl Send for Pages {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Pages {}

impl Pages {
    /// Maps `len_bytes` of a memory file.
    fn map(file: &OwnedFd, from: usize, len_bytes: usize, writable: bool) -> io::Result<Pages> {
        let len = std::num::NonZeroUsize::new(len_bytes).ok_or(io::ErrorKind::InvalidInput)?;
        let mut access = ProtFlags::PROT_READ;
        access.set(ProtFlags::PROT_WRITE, writable);
        let from = i64::try_from(from).map_err(io::Error::other)?;
        // SAFETY: a new mapping at an address of the system's choice; it lives until `drop`.
        #[allow(unsafe_code)]
        let at = unsafe { mmap(None, len, access, MapFlags::MAP_SHARED, file, from) };
        Ok(Pages { at: at?.cast(), len_bytes })
    }

    fn words(&self, first: usize, count: usize) -> &[AtomicU64] {
        assert!((first + count) * 8 <= self.len_bytes, "word {first} is outside the memory");
        // SAFETY: inside the mapping, aligned to 8 as pages are, never moved while `self` lives;
        // nobody of this process reaches these bytes but through atomics: of its own memory only
        // what lies before the frames, of another's all, which it may not write.
        #[allow(unsafe_code)]
        unsafe {
            std::slice::from_raw_parts(self.at.cast::<AtomicU64>().add(first).as_ptr(), count)
        }
    }

    fn word(&self, i: usize) -> &AtomicU64 {
        &self.words(i, 1)[0]
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length; nothing that borrows from it is left.
        #[allow(unsafe_code)]
        let unmapped = unsafe { munmap(self.at.cast(), self.len_bytes) };
        debug_assert!(unmapped.is_ok(), "a mapping of our own is unmapped");
    }
}

/// The owner's side.
pub struct SharedMemory {
    layout: SharedLayout,
    pages: Pages,
    free: Mutex<Vec<u32>>,
    file: OwnedFd,
    key: u64,
}

impl SharedMemory {
    /// Makes memory that nobody else knows of yet. Pages cost nothing before they are used. `key`:
    /// a random number, by which others know that they have found this memory.
    ///
    /// # Errors
    /// The system's.
    pub fn create(layout: SharedLayout, key: u64) -> io::Result<Arc<SharedMemory>> {
        use nix::sys::memfd::{MFdFlags, memfd_create};
        assert!(layout.frame_bytes.is_multiple_of(IO_ALIGN_BYTES), "frames are pages");
        let frames = u32::try_from(layout.frames).map_err(io::Error::other)?;
        let file = memfd_create(c"skein", MFdFlags::MFD_CLOEXEC)?;
        let len_bytes = layout.bytes();
        nix::unistd::ftruncate(&file, i64::try_from(len_bytes).map_err(io::Error::other)?)?;
        let pages = Pages::map(&file, 0, len_bytes, true)?;
        for (i, word) in layout.head(key).into_iter().enumerate() {
            pages.word(i).store(word, Ordering::SeqCst);
        }
        // The lowest are taken first: they have pages already.
        let free = Mutex::new((0..frames).rev().collect());
        Ok(Arc::new(SharedMemory { layout, pages, free, file, key }))
    }

    /// Where another process of this machine finds it.
    #[must_use]
    pub fn descriptor(&self) -> String {
        format!("{}:{}:{:x}", std::process::id(), self.file.as_raw_fd(), self.key)
    }

    /// # Panics
    /// There are not so many.
    #[must_use]
    pub fn open_word(&self, i: usize) -> &AtomicU64 {
        assert!(i < self.layout.open_words, "open word {i}");
        self.pages.word(HEAD_WORDS + i)
    }

    /// # Panics
    /// There are not so many.
    #[must_use]
    pub fn word(&self, i: usize) -> &AtomicU64 {
        assert!(i < self.layout.words, "word {i}");
        self.pages.word(self.layout.open_bytes() / 8 + i)
    }

    /// A buffer of a frame's size, of unknown content; `None`: all are taken. It is free again when
    /// the buffer is dropped.
    #[must_use]
    pub fn take_frame(self: &Arc<SharedMemory>) -> Option<IoBuf> {
        let frame = self.free.lock().pop()?;
        Some(IoBuf::of_frame(Frame { memory: self.clone(), frame }))
    }

    /// The number of the frame that a buffer is; `None`: it is none of this memory's.
    #[must_use]
    pub fn frame_of(&self, buf: &IoBuf) -> Option<u32> {
        let frame = buf.frame()?;
        std::ptr::eq(Arc::as_ptr(&frame.memory), self).then_some(frame.frame)
    }

    fn frame_at(&self, frame: u32) -> NonNull<u8> {
        let before = self.layout.open_bytes() + self.layout.words_bytes();
        let at = before + frame as usize * self.layout.frame_bytes;
        assert!(at + self.layout.frame_bytes <= self.pages.len_bytes, "frame {frame}");
        // SAFETY: inside the mapping.
        #[allow(unsafe_code)]
        unsafe {
            self.pages.at.add(at)
        }
    }
}

/// One frame, owned: what an [`IoBuf`] is made of.
pub(crate) struct Frame {
    memory: Arc<SharedMemory>,
    frame: u32,
}

impl Frame {
    pub(crate) fn bytes(&self) -> &[u8] {
        let at = self.memory.frame_at(self.frame);
        // SAFETY: a frame's bytes inside the mapping, which `memory` keeps; this process reaches
        // them through this value alone, since a frame is handed out once until it is dropped.
        #[allow(unsafe_code)]
        unsafe {
            std::slice::from_raw_parts(at.as_ptr(), self.memory.layout.frame_bytes)
        }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let at = self.memory.frame_at(self.frame);
        // SAFETY: as above, and borrowed for change by this value's only user. Other processes
        // never write; those that read know that they may read what is half done.
        #[allow(unsafe_code)]
        unsafe {
            std::slice::from_raw_parts_mut(at.as_ptr(), self.memory.layout.frame_bytes)
        }
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        self.memory.free.lock().push(self.frame);
    }
}

/// Copies that a thread keeps for the next: memory that its processor still has at hand. A
/// statement makes many, one after the other, and gives them back at its end.
const SPARE_MAX: usize = 4;

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// An empty vector with room for `bytes`.
fn spare(bytes: usize) -> Vec<u8> {
    let kept = SPARE.with_borrow_mut(Vec::pop);
    kept.filter(|copy| copy.capacity() >= bytes).unwrap_or_else(|| Vec::with_capacity(bytes))
}

/// Takes back what [`SharedView::copy_frame`] has given (or anything as large).
pub fn give_copy_back(mut copy: Vec<u8>) {
    SPARE.with_borrow_mut(|kept| {
        // What has grown is not kept: the next copy needs no more than a frame.
        if kept.len() < SPARE_MAX && copy.capacity() <= 2 * IO_ALIGN_BYTES {
            copy.clear();
            kept.push(copy);
        }
    });
}

/// The memory of another instance.
pub struct SharedView {
    layout: SharedLayout,
    open: Pages,
    rest: Pages,
}

impl SharedView {
    /// Finds the memory that its owner has described.
    ///
    /// # Errors
    /// The owner has gone, is another user's, or lives in another world of process ids.
    pub fn open(descriptor: &str) -> io::Result<SharedView> {
        let bad = || io::Error::new(io::ErrorKind::InvalidInput, "not shared memory's descriptor");
        let mut parts = descriptor.splitn(3, ':');
        let mut part = || parts.next().ok_or_else(bad);
        let pid: u32 = part()?.parse().map_err(|_| bad())?;
        let fd: u32 = part()?.parse().map_err(|_| bad())?;
        let key = u64::from_str_radix(part()?, 16).map_err(|_| bad())?;
        let path = format!("/proc/{pid}/fd/{fd}");
        // In another world of process ids the number may be anything's, and opening that might do
        // something or wait.
        if std::fs::read_link(&path)?.to_str() != Some(MEMORY_FILE) {
            return Err(io::Error::other("the memory is another process's"));
        }
        let flags = nix::libc::O_NOCTTY | nix::libc::O_NONBLOCK | nix::libc::O_CLOEXEC;
        let mut options = std::fs::OpenOptions::new();
        options.read(true).write(true).custom_flags(flags);
        let file: OwnedFd = options.open(path)?.into();
        SharedView::of_file(&file, key)
    }

    /// A look at memory of this very process: for the simulator and tests.
    ///
    /// # Errors
    /// The system's.
    pub fn of(memory: &SharedMemory) -> io::Result<SharedView> {
        SharedView::of_file(&memory.file, memory.key)
    }

    fn of_file(file: &OwnedFd, key: u64) -> io::Result<SharedView> {
        // Never beyond the file's end: to touch that would end the process.
        let len = usize::try_from(nix::sys::stat::fstat(file)?.st_size).unwrap_or(0);
        if len < IO_ALIGN_BYTES {
            return Err(io::Error::other("the memory is another process's"));
        }
        let first = Pages::map(file, 0, IO_ALIGN_BYTES, false)?;
        let head = std::array::from_fn(|i| first.word(i).load(Ordering::SeqCst));
        let layout = SharedLayout::of_head(head, key)?;
        if layout.bytes() != len {
            return Err(io::Error::other("the memory has another size than it says"));
        }
        let open = Pages::map(file, 0, layout.open_bytes(), true)?;
        let rest = Pages::map(file, layout.open_bytes(), len - layout.open_bytes(), false)?;
        Ok(SharedView { layout, open, rest })
    }

    #[must_use]
    pub fn layout(&self) -> SharedLayout {
        self.layout
    }

    /// # Panics
    /// There are not so many.
    #[must_use]
    pub fn open_word(&self, i: usize) -> &AtomicU64 {
        assert!(i < self.layout.open_words, "open word {i}");
        self.open.word(HEAD_WORDS + i)
    }

    /// What the owner's word is now.
    ///
    /// # Panics
    /// There are not so many.
    #[must_use]
    pub fn word(&self, i: usize) -> u64 {
        assert!(i < self.layout.words, "word {i}");
        self.rest.word(i).load(Ordering::SeqCst)
    }

    /// Copies a frame as it is now, torn if its owner is just changing it; `None`: there is no such
    /// frame.
    #[must_use]
    pub fn copy_frame(&self, frame: u32) -> Option<Vec<u8>> {
        let frame = usize::try_from(frame).ok().filter(|f| *f < self.layout.frames)?;
        let first = (self.layout.words_bytes() + frame * self.layout.frame_bytes) / 8;
        let words = self.rest.words(first, self.layout.frame_bytes / 8);
        let mut out = spare(self.layout.frame_bytes);
        let room = &mut out.spare_capacity_mut()[..self.layout.frame_bytes];
        let (to, rest) = room.as_chunks_mut::<8>();
        assert!(rest.is_empty() && to.len() == words.len(), "frames are of whole words");
        for (to, word) in to.iter_mut().zip(words) {
            let word = word.load(Ordering::Relaxed);
            // One store a word: an array of bytes made of it byte by byte is moved byte by byte.
            // SAFETY: eight bytes that may be written, of whatever alignment.
            #[allow(unsafe_code)]
            unsafe {
                to.as_mut_ptr().cast::<u64>().write_unaligned(word);
            }
        }
        // SAFETY: as many words as the frame has were written just now, and they fill it.
        #[allow(unsafe_code)]
        unsafe {
            out.set_len(self.layout.frame_bytes)
        };
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: SharedLayout =
        SharedLayout { open_words: 2, words: 1000, frames: 3, frame_bytes: 8192 };

    #[test]
    fn a_view_sees_what_the_owner_does_and_outlives_it() {
        let memory = SharedMemory::create(LAYOUT, 77).expect("memory");
        let view = SharedView::open(&memory.descriptor()).expect("found by its descriptor");
        assert_eq!(view.layout(), LAYOUT);
        memory.word(999).store(5, Ordering::SeqCst);
        view.open_word(1).store(6, Ordering::SeqCst);
        assert_eq!((view.word(999), memory.open_word(1).load(Ordering::SeqCst)), (5, 6));
        let mut bufs: Vec<IoBuf> = (0..3).map(|_| memory.take_frame().expect("free")).collect();
        assert!(memory.take_frame().is_none(), "all are taken");
        bufs[2].fill(9);
        let frame = memory.frame_of(&bufs[2]).expect("a frame of it");
        assert_eq!(view.copy_frame(frame), Some(vec![9; 8192]));
        assert_eq!(view.copy_frame(3), None);
        assert_eq!(bufs[2].clone()[..], bufs[2][..], "a copy of a frame is memory of its own");
        assert!(memory.frame_of(&bufs[2].clone()).is_none());
        drop((bufs, memory));
        assert_eq!(view.copy_frame(frame), Some(vec![9; 8192]), "as it was");
    }

    #[test]
    fn a_copy_given_back_serves_the_next() {
        let memory = SharedMemory::create(LAYOUT, 3).expect("memory");
        let view = SharedView::of(&memory).expect("a view");
        let mut buf = memory.take_frame().expect("free");
        buf.fill(7);
        let frame = memory.frame_of(&buf).expect("a frame of it");
        let copy = view.copy_frame(frame).expect("copied");
        let at = copy.as_ptr();
        give_copy_back(copy);
        buf.fill(8);
        let again = view.copy_frame(frame).expect("copied");
        assert_eq!((again.as_ptr(), &again), (at, &vec![8; 8192]));
        give_copy_back(Vec::with_capacity(9000));
        give_copy_back(Vec::with_capacity(10));
        assert_eq!(view.copy_frame(frame), Some(vec![8; 8192]), "the small one is of no use");
        (0..9).for_each(|_| give_copy_back(vec![0; 8192]));
        assert_eq!(SPARE.with_borrow(Vec::len), SPARE_MAX);
    }

    #[test]
    fn a_frame_dropped_is_free_again_and_others_memory_is_refused() {
        let memory = SharedMemory::create(LAYOUT, 1).expect("memory");
        let other = SharedMemory::create(LAYOUT, 2).expect("memory");
        let buf = memory.take_frame().expect("free");
        assert_eq!((memory.frame_of(&buf), other.frame_of(&buf)), (Some(0), None));
        drop(buf);
        assert_eq!(memory.take_frame().and_then(|b| memory.frame_of(&b)), Some(0));
        let wrong_key = memory.descriptor().replace(":1", ":2");
        let of_file = format!("{}:0:1", std::process::id());
        for bad in [wrong_key.as_str(), &of_file, "1:2", "x:2:3", "", "4000000:3:1"] {
            assert!(SharedView::open(bad).is_err(), "{bad}");
        }
    }
}
