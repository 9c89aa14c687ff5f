#![doc = include_str!("../README.md")]

mod mutate;
mod seeds;
mod targets;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use mutate::Mutator;
use peak_alloc::PeakAlloc;

/// Memory is counted in programs that use this crate.
#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Memory that a decoder may take, whatever it is given, bytes.
const MEMORY_BYTES: usize = 64 * 1024;
/// And for each byte of its input.
const MEMORY_BYTES_EACH: usize = 64;
/// Inputs kept for their new answers, and so many more for no reason.
const KEPT_MAX: usize = 4096;

/// A decoder and what it is fed with.
pub struct Target {
    pub name: &'static str,
    seeds: fn() -> Vec<Vec<u8>>,
    /// Makes checksums good again.
    mend: fn(&mut Vec<u8>),
    /// A number for each kind of answer.
    decode: fn(&[u8]) -> u64,
}

/// All there are.
#[must_use]
pub fn targets() -> &'static [Target] {
    targets::ALL
}

/// What a run has seen.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    pub inputs: u64,
    pub answers: usize,
}

fn corpus(target: &Target) -> PathBuf {
    // Of the checkout that runs, which need not be the one that was built last.
    let here = std::env::var_os("CARGO_MANIFEST_DIR");
    let here = here.map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    here.join("../../tests/fuzz").join(target.name)
}

fn kept_inputs(target: &Target) -> Vec<Vec<u8>> {
    let Ok(files) = std::fs::read_dir(corpus(target)) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = files.filter_map(|f| Some(f.ok()?.path())).collect();
    paths.sort();
    paths.iter().filter_map(|path| std::fs::read(path).ok()).collect()
}

/// Feeds one input.
///
/// # Errors
/// The rule that was broken.
pub fn feed(target: &Target, input: &[u8]) -> Result<u64, String> {
    MEMORY.reset_peak_usage();
    let before = MEMORY.current_usage();
    let answer = catch_unwind(AssertUnwindSafe(|| (target.decode)(input)));
    let took = MEMORY.peak_usage().saturating_sub(before);
    let answer = answer.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        format!("panic: {}", text.unwrap_or("?"))
    })?;
    let limit = MEMORY_BYTES + MEMORY_BYTES_EACH * input.len();
    if took > limit {
        return Err(format!("took {took} bytes of memory for an input of {}", input.len()));
    }
    Ok(answer)
}

/// Feeds a target for a time, with the inputs that this seed makes.
///
/// # Errors
/// A rule was broken; the input is in the corpus.
pub fn run(target: &Target, seed: u64, time: Duration) -> Result<Report, String> {
    let mut pool = (target.seeds)();
    pool.extend(kept_inputs(target));
    assert!(!pool.is_empty(), "{} has no seeds", target.name);
    let mut report = Report { inputs: 0, answers: 0 };
    let mut answers = BTreeSet::new();
    for input in &pool {
        answers.insert(fed(target, input)?);
        report.inputs += 1;
    }
    let mut mutator = Mutator::new(seed);
    let began = Instant::now();
    while began.elapsed() < time {
        for _ in 0..64 {
            let mut input = mutator.change(&pool);
            (target.mend)(&mut input);
            let answer = fed(target, &input)?;
            report.inputs += 1;
            if answers.insert(answer) && pool.len() < KEPT_MAX {
                pool.push(input);
            }
        }
    }
    report.answers = answers.len();
    Ok(report)
}

fn fed(target: &Target, input: &[u8]) -> Result<u64, String> {
    feed(target, input).map_err(|why| {
        let name = format!("{:08x}", crc32c::crc32c(input));
        let folder = corpus(target);
        let path = folder.join(&name);
        let kept = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, input));
        let mut text = format!("{}: {why}; input ", target.name);
        let _ = match kept {
            Ok(()) => write!(text, "{}", path.display()),
            Err(e) => write!(text, "of {} bytes, not written ({e}): {input:02x?}", input.len()),
        };
        text
    })
}
