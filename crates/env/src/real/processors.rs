//! Which processors threads run on.
//!
//! What it promises: a list that names no processor of this machine is refused, by the operating
//! system's word. What it must never do: bind anything that was not asked for.

use std::io;
use std::str::FromStr;

/// Numbers of processors, as in `0-3,8`; none means all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Processors(Vec<usize>);

/// Numbers that a set of the operating system has room for.
const NUMBER_MAX: usize = nix::libc::CPU_SETSIZE as usize - 1;

impl Processors {
    /// Whether no processor is named: all are meant.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromStr for Processors {
    type Err = String;

    fn from_str(text: &str) -> Result<Processors, String> {
        let wrong = || {
            format!(
                "expected processors from 0 to {NUMBER_MAX}, such as 0-3,8 (or nothing: all), not \
                 \"{text}\""
            )
        };
        let number = |text: &str| {
            let number: usize = text.trim().parse().map_err(|_| wrong())?;
            if number > NUMBER_MAX { Err(wrong()) } else { Ok(number) }
        };
        let mut all = Vec::new();
        for part in text.split(',').filter(|_| !text.trim().is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(wrong());
            }
            all.extend(first..=last);
        }
        Ok(Processors(all))
    }
}

/// Binds the calling thread. Threads that it starts from now on inherit that.
///
/// # Errors
/// The operating system's refusal: none of the processors is there, or may be used.
pub fn bind_thread(processors: &Processors) -> io::Result<()> {
    if processors.is_all() {
        return Ok(());
    }
    let bytes = std::mem::size_of::<nix::libc::cpu_set_t>();
    // SAFETY: a set of zeros is one without a processor; numbers are below its size, which parsing
    // has checked; thread 0 is the caller, and the set lives for the call, which reads it.
    #[allow(unsafe_code)]
    let code = unsafe {
        let mut set: nix::libc::cpu_set_t = std::mem::zeroed();
        for number in &processors.0 {
            nix::libc::CPU_SET(*number, &mut set);
        }
        nix::libc::sched_setaffinity(0, bytes, &raw const set)
    };
    if code != 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Tries whether a thread of this process may be bound, on one made for that.
///
/// # Errors
/// As [`bind_thread`].
pub fn may_bind(processors: &Processors) -> io::Result<()> {
    let processors = processors.clone();
    let tried = std::thread::Builder::new().spawn(move || bind_thread(&processors))?.join();
    tried.unwrap_or_else(|_| Err(io::Error::other("the thread has panicked")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_numbers_and_ranges() {
        let read = |text: &str| text.parse::<Processors>();
        assert_eq!(read("0-2, 5"), Ok(Processors(vec![0, 1, 2, 5])));
        assert!(read(" ").expect("all").is_all());
        for wrong in ["x", "3-1", "0,", "-1", "1024", "0-99999"] {
            assert!(read(wrong).is_err_and(|why| why.contains(wrong)), "{wrong}");
        }
    }

    #[test]
    fn a_thread_is_bound_to_what_is_there_and_to_nothing_else() {
        let first = std::fs::read_to_string("/proc/thread-self/status").expect("status");
        let allowed = |status: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
            line.expect("the kernel tells").trim().to_owned()
        };
        let one = allowed(&first).split(['-', ',']).next().expect("one at least").to_owned();
        let bound = one.clone();
        std::thread::spawn(move || {
            bind_thread(&bound.parse().expect("a number")).expect("it may");
            let now = std::fs::read_to_string("/proc/thread-self/status").expect("status");
            assert_eq!(allowed(&now), bound);
        })
        .join()
        .expect("bound");
        assert!(may_bind(&one.parse().expect("a number")).is_ok());
        let beyond = NUMBER_MAX.to_string().parse().expect("a number");
        assert!(may_bind(&beyond).is_err());
    }
}
