//! How the operating system schedules the threads that others wait for.
//!
//! Real-time priority has a price where peers share a machine: each message then takes the
//! processor from whoever has it, twice for a thread that is woken on another processor. A nice
//! value of -20 goes before ordinary load as well, and lets messages gather while the reader of
//! the last one still runs.

use std::io;

/// How favoured threads are scheduled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Priority {
    /// As all others.
    Ordinary,
    /// Nice -20: with a weight of 88,761 against 1024.
    Preferred,
    /// Real time (`SCHED_RR`, the lowest): before everything that is not.
    RealTime,
}

/// Whether `list` (`LMS*|LGWR`) names the thread.
pub(super) fn names(list: &str, thread: &str) -> bool {
    list.split('|').map(str::trim).any(|name| match name.strip_suffix('*') {
        Some(prefix) => thread.starts_with(prefix),
        None => thread == name,
    })
}

/// Gives the calling thread `priority`. Threads that it starts do not inherit real time.
pub(super) fn take(priority: Priority) -> io::Result<()> {
    let refused = match priority {
        Priority::Ordinary => false,
        // SAFETY: thread 0 is the caller; nothing is read or written in this process.
        #[allow(unsafe_code)]
        Priority::Preferred => unsafe {
            nix::libc::setpriority(nix::libc::PRIO_PROCESS, 0, -20) != 0
        },
        Priority::RealTime => {
            const POLICY: nix::libc::c_int = nix::libc::SCHED_RR | nix::libc::SCHED_RESET_ON_FORK;
            let param = nix::libc::sched_param { sched_priority: 1 };
            // SAFETY: thread 0 is the caller; the parameter lives for the call, which reads it.
            #[allow(unsafe_code)]
            let code = unsafe { nix::libc::sched_setscheduler(0, POLICY, &raw const param) };
            code != 0
        }
    };
    if refused { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Processor time of the calling thread, in microseconds.
pub(super) fn thread_cpu_us() -> u64 {
    clock_us(nix::libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The same of another thread of this process; `None`: it runs no more.
pub(super) fn cpu_of_thread_us(number: u32) -> Option<u64> {
    // The clock of a thread has its number in it: the complement above three bits that say "of a
    // thread" (4) and "by the scheduler" (2). The C library makes the same of its own handles,
    // which cannot be kept past the end of a thread.
    let number = nix::libc::clockid_t::try_from(number).ok()?;
    Some(clock_us((!number << 3) | 6)).filter(|us| *us > 0)
}

/// Processor time of all threads of this process there have been, in microseconds.
pub(super) fn process_cpu_us() -> u64 {
    clock_us(nix::libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// The machine's monotonic clock, in microseconds: one for all its processes, and the one that
/// `Instant` goes by.
pub(crate) fn machine_us() -> u64 {
    clock_us(nix::libc::CLOCK_MONOTONIC)
}

fn clock_us(clock: nix::libc::clockid_t) -> u64 {
    let mut used = nix::libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time lives for the call, which writes it.
    #[allow(unsafe_code)]
    let code = unsafe { nix::libc::clock_gettime(clock, &raw mut used) };
    let us = |seconds: i64, ns: i64| u64::try_from(seconds * 1_000_000 + ns / 1_000).unwrap_or(0);
    if code == 0 { us(used.tv_sec, used.tv_nsec) } else { 0 }
}

/// Tries whether this process may give `priority` to threads, on a thread made for that.
///
/// # Errors
/// The operating system's refusal.
pub fn may_favour(priority: Priority) -> io::Result<()> {
    let tried = std::thread::Builder::new().spawn(move || take(priority))?.join();
    tried.unwrap_or_else(|_| Err(io::Error::other("the thread has panicked")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_time_of_a_thread_is_known_to_others_while_it_runs() {
        let (tell, told) = std::sync::mpsc::channel();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let worker = std::thread::spawn(move || {
            while thread_cpu_us() < 3_000 {
                std::hint::spin_loop();
            }
            tell.send(nix::unistd::gettid().as_raw()).expect("it is read");
            stopped.recv().expect_err("nothing is sent");
        });
        let number = u32::try_from(told.recv().expect("it runs")).expect("a number");
        let us = cpu_of_thread_us(number).expect("it runs");
        assert!((3_000..=process_cpu_us()).contains(&us), "{us}");
        assert_eq!(cpu_of_thread_us(1), None, "none of this process");
        drop(stop);
        worker.join().expect("it ends");
    }

    #[test]
    fn a_list_names_threads_and_prefixes() {
        for named in ["LMS0", "LMS12", "LGWR"] {
            assert!(names("LMS*|LGWR", named), "{named}");
        }
        for not in ["LM", "LGWR2", "BG0"] {
            assert!(!names("LMS*|LGWR", not), "{not}");
        }
        assert!(!names("", "LMS0"));
    }

    #[test]
    fn an_ordinary_thread_needs_no_permission() {
        assert!(may_favour(Priority::Ordinary).is_ok());
    }
}
