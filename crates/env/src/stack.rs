//! The stacks of threads that run statements: large, as statements nest deeply, but what a deep one
//! has touched is given back while the session waits for its client.

use std::cell::Cell;

/// Reserved for the stack of a thread that runs statements; only what is touched takes memory.
pub const STACK_BYTES: usize = 64 << 20;

/// What a thread keeps below the caller of [`give_back`]: what ordinary statements use.
const KEPT_BYTES: usize = 128 << 10;

const PAGE_BYTES: usize = 4096;

thread_local! {
    static DEEP: Cell<bool> = const { Cell::new(false) };
}

/// What the calling thread now does may touch much of its stack.
pub fn note_deep() {
    DEEP.set(true);
}

/// Gives the operating system what deep calls since the last time have left on the calling
/// thread's stack, far below the caller. For threads of a stack of their own, of [`STACK_BYTES`],
/// that is not grown elsewhere meanwhile.
pub fn give_back() {
    if DEEP.replace(false) {
        give_back_now();
    }
}

#[inline(never)]
fn give_back_now() {
    let Some(left) = stacker::remaining_stack() else { return };
    let mark = 0u8;
    let here = std::hint::black_box(&raw const mark).addr();
    let bottom = here.saturating_sub(left).next_multiple_of(PAGE_BYTES) + PAGE_BYTES;
    let top = here.saturating_sub(KEPT_BYTES) / PAGE_BYTES * PAGE_BYTES;
    if bottom >= top || left > STACK_BYTES {
        return;
    }
    // SAFETY: the range is the unused part of this thread's own stack: nothing lives below the
    // frame of this function, and what this call itself needs fits in what is kept. Pages that are
    // touched later come back filled with zeros.
    #[allow(unsafe_code)]
    unsafe {
        nix::libc::madvise(
            std::ptr::without_provenance_mut(bottom),
            top - bottom,
            nix::libc::MADV_DONTNEED,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deep(levels: u64) -> u64 {
        let frame = std::hint::black_box([levels; 128]);
        if levels == 0 { 0 } else { deep(levels - 1) + frame[7] % 2 }
    }

    /// kB of this process in memory.
    fn resident() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
    }

    #[test]
    fn what_deep_calls_touched_is_given_back() {
        let run = || {
            for _ in 0..3 {
                deep(30_000);
                let before = resident();
                give_back();
                assert!(resident() + 8_000 > before, "nobody noted anything");
                note_deep();
                give_back();
                assert!(resident() + 24_000 < before, "{} of {before}", resident());
            }
            deep(30_000)
        };
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(run).unwrap();
        assert_eq!(thread.join().unwrap(), 15_000);
    }
}
