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

/// Less than this below the caller's frame is left alone: its callees touch it again at once.
const STACK_MARGIN_BYTES: usize = 16 << 10;

/// Gives back the pages of this thread's stack below its present frame. A thread that has once
/// called very deep and then waits for long would keep them. Not for a process's first thread.
pub fn give_free_stack_back() {
    let here = 0u8;
    let frame = std::ptr::from_ref(&here) as usize;
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten();
    let page = page.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(4096);
    let Some(low) = lowest_of_stack() else { return };
    let end = frame.saturating_sub(STACK_MARGIN_BYTES) & !(page - 1);
    if end <= low {
        return;
    }
    // SAFETY: the range lies within this thread's own stack, below the frames of this function and
    // of all its callers, so nothing in it is in use; what is given back reads as zeros when it is
    // touched again.
    #[allow(unsafe_code)]
    unsafe {
        nix::libc::madvise(low as *mut nix::libc::c_void, end - low, nix::libc::MADV_DONTNEED);
    }
}

/// The lowest address of this thread's stack, above its guard.
fn lowest_of_stack() -> Option<usize> {
    let mut attributes = std::mem::MaybeUninit::<nix::libc::pthread_attr_t>::uninit();
    let (mut low, mut bytes) = (std::ptr::null_mut(), 0);
    // SAFETY: the attributes are made by the first call, looked at and given back only if it
    // succeeded, and the other pointers are to locals.
    #[allow(unsafe_code)]
    let found = unsafe {
        let own = nix::libc::pthread_self();
        nix::libc::pthread_getattr_np(own, attributes.as_mut_ptr()) == 0 && {
            let got =
                nix::libc::pthread_attr_getstack(attributes.as_ptr(), &raw mut low, &raw mut bytes);
            nix::libc::pthread_attr_destroy(attributes.as_mut_ptr());
            got == 0
        }
    };
    found.then_some(low as usize)
}
