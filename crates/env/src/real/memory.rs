//! Memory that the process holds and nobody uses.
//!
//! The allocator gives pages that have been free for a second back to the operating system, but
//! looks for them only while memory is freed: after a large load, with nobody at work, all that it
//! used would stay in the process.

// The crate of the allocator, so that its library is linked.
use libmimalloc_sys as _;

#[allow(unsafe_code)]
unsafe extern "C" {
    fn mi_collect(force: bool);
}

/// Gives back what has been free for a second; a few loads from memory if there is nothing. To be
/// called now and then, always from the same thread.
pub fn give_free_memory_back() {
    // SAFETY: it may be called at any time from any thread; unforced it neither waits nor touches
    // memory that is in use.
    #[allow(unsafe_code)]
    unsafe {
        mi_collect(false);
    }
}

/// Gives back what this thread has allocated and freed, at once. For a thread that has done what it
/// will not do again and then waits for long: its free lists would keep a page of each size it has
/// used.
pub fn give_own_memory_back() {
    // SAFETY: as above; forced it looks through this thread's own free lists, and through what
    // ended threads have left.
    #[allow(unsafe_code)]
    unsafe {
        mi_collect(true);
    }
}
