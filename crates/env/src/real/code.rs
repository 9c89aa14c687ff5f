//! The code that short statements run, in large pages.
//!
//! A build by a profile puts what runs often into a section of its own, some megabytes: a thousand
//! pages of 4 KiB, for each instance of a machine, more than a processor remembers addresses of. In
//! pages of 2 MiB they are a handful. What it promises: code is at the same addresses before and
//! after, and what cannot be done leaves it as it was. What it must never do: move code that runs
//! seldom, as moved pages are no longer shared between processes.

use std::io::{self, BufRead, BufReader};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::ptr::NonNull;

use nix::sys::mman::{
    MRemapFlags, MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, mprotect, mremap, munmap,
};
use object::read::elf::{ElfFile64, ProgramHeader};
use object::read::{Object, ObjectSection, ReadCache};

const LARGE_BYTES: usize = 2 << 20;

/// Where the linker gathers what a profile has seen run often.
const HOT_SECTION: &str = ".text.hot";

const STATE: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Moves the code that runs often into large pages and returns how many bytes; `None`: this program
/// was built without a profile, and does not know which code that is.
///
/// # Errors
/// Why the operating system has refused; nothing is changed then.
pub fn code_to_large_pages() -> io::Result<Option<usize>> {
    let state = std::fs::read_to_string(STATE)?;
    if state.contains("[never]") {
        return Err(io::Error::other(format!("{STATE} says never")));
    }
    let Some(range) = code_of(HOT_SECTION, LARGE_BYTES)? else { return Ok(None) };
    move_pages(range.clone(), LARGE_BYTES)?;
    Ok(Some(range.len()))
}

/// The pages of `page_bytes` that hold the section, as far as they are within the program's code.
fn code_of(section: &str, page_bytes: usize) -> io::Result<Option<Range<usize>>> {
    let path = std::env::current_exe()?;
    let file = ReadCache::new(std::fs::File::open(&path)?);
    let elf = ElfFile64::<object::Endianness, _>::parse(&file).map_err(io::Error::other)?;
    let Some(section) = elf.section_by_name(section) else { return Ok(None) };
    let Some(mapped) = code_mapping(&path.to_string_lossy())? else {
        return Err(io::Error::other("the program's code is not mapped from its file"));
    };
    let endian = elf.endian();
    let holds =
        |start: u64, bytes: u64| (start..start + bytes).contains(&section.address()) && bytes > 0;
    let segment = elf
        .elf_program_headers()
        .iter()
        .find(|p| holds(p.p_vaddr(endian), p.p_memsz(endian)))
        .ok_or_else(|| io::Error::other("the section is in no segment"))?;
    // The file's offset of a page is that of the address within its segment.
    let offset = section.address() - segment.p_vaddr(endian) + segment.p_offset(endian);
    let start = usize::try_from(offset)
        .ok()
        .and_then(|offset| offset.checked_sub(mapped.file_offset))
        .map(|from| mapped.at.start + from)
        .ok_or_else(|| io::Error::other("the section is not in the mapping of code"))?;
    let end = start + usize::try_from(section.size()).map_err(io::Error::other)?;
    Ok(whole_pages(start..end, &mapped.at, page_bytes))
}

/// The pages that `wanted` touches and that lie within `all`; `None` if there is none.
fn whole_pages(
    wanted: Range<usize>,
    all: &Range<usize>,
    page_bytes: usize,
) -> Option<Range<usize>> {
    let down = |at: usize| at / page_bytes * page_bytes;
    let start = down(wanted.start).max(all.start.next_multiple_of(page_bytes));
    let end = wanted.end.next_multiple_of(page_bytes).min(down(all.end));
    (start < end).then_some(start..end)
}

struct Mapping {
    at: Range<usize>,
    file_offset: usize,
}

/// Where the code of the file at `path` is mapped.
fn code_mapping(path: &str) -> io::Result<Option<Mapping>> {
    for line in BufReader::new(std::fs::File::open("/proc/self/maps")?).lines() {
        let line = line?;
        if let Some(mapping) = line.ends_with(path).then(|| parse_mapping(&line)).flatten() {
            return Ok(Some(mapping));
        }
    }
    Ok(None)
}

/// `55d0a000-55d0b000 r-xp 00001000 fe:00 123 /path`; `None` for other than code.
fn parse_mapping(line: &str) -> Option<Mapping> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    if words.next()? != "r-xp" {
        return None;
    }
    let hex = |word: &str| usize::from_str_radix(word, 16).ok();
    Some(Mapping { at: hex(start)?..hex(end)?, file_offset: hex(words.next()?)? })
}

/// Puts new pages of the same content in the place of those at `range`; large ones where
/// `page_bytes` is their size.
fn move_pages(range: Range<usize>, page_bytes: usize) -> io::Result<()> {
    let bytes = range.len();
    let room = NonZeroUsize::new(bytes + page_bytes).expect("it is positive");
    let write = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: new memory, which nobody knows of.
    #[allow(unsafe_code)]
    let made = unsafe { mmap_anonymous(None, room, write, MapFlags::MAP_PRIVATE) }?;
    let start = made.addr().get().next_multiple_of(page_bytes);
    let copy = made.map_addr(|_| NonZeroUsize::new(start).expect("above a valid address"));
    // SAFETY: `copy..+bytes` lies within the new memory, and nobody else knows of it. The code in
    // `range` is mapped and nobody writes to it, since it is code. What takes its place has the
    // same bytes and the same rights, and comes in one step: the system holds the process's map
    // meanwhile, so that a thread that runs there finds the old page or the new one. Both are whole
    // large pages, which are moved as such.
    #[allow(unsafe_code)]
    let moved = unsafe {
        madvise(copy, bytes, MmapAdvise::MADV_HUGEPAGE)
            .and_then(|()| {
                let code: *const u8 = std::ptr::with_exposed_provenance(range.start);
                std::ptr::copy_nonoverlapping(code, copy.as_ptr().cast::<u8>(), bytes);
                mprotect(copy, bytes, ProtFlags::PROT_READ | ProtFlags::PROT_EXEC)
            })
            .and_then(|()| {
                let place = NonNull::new(std::ptr::with_exposed_provenance_mut(range.start));
                let how = MRemapFlags::MREMAP_MAYMOVE | MRemapFlags::MREMAP_FIXED;
                mremap(copy, bytes, bytes, how, place)
            })
    };
    let rest = |from: usize, to: usize| {
        if from < to {
            let at = made.map_addr(|_| NonZeroUsize::new(from).expect("above a valid address"));
            // SAFETY: what is left of the new memory around the copy; nobody has used it.
            #[allow(unsafe_code)]
            let _ = unsafe { munmap(at, to - from) };
        }
    };
    let (first, end) = (made.addr().get(), made.addr().get() + room.get());
    if let Err(e) = moved {
        rest(first, end);
        return Err(e.into());
    }
    rest(first, start);
    rest(start + bytes, end);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_pages_that_are_touched_and_lie_within() {
        let all = 3 * LARGE_BYTES / 2..7 * LARGE_BYTES + 1;
        let pages = |from: usize, to: usize| whole_pages(from..to, &all, LARGE_BYTES);
        let large = |from: usize, to: usize| Some(from * LARGE_BYTES..to * LARGE_BYTES);
        assert_eq!(pages(3 * LARGE_BYTES + 5, 3 * LARGE_BYTES + 9), large(3, 4));
        assert_eq!(pages(3 * LARGE_BYTES - 1, 4 * LARGE_BYTES + 1), large(2, 5));
        assert_eq!(pages(0, 20 * LARGE_BYTES), large(2, 7), "clipped at both ends");
        assert_eq!(pages(7 * LARGE_BYTES, 7 * LARGE_BYTES + 1), None, "not whole");
    }

    #[test]
    fn a_line_of_the_map_is_read() {
        let line = "55d0a000-55d0b000 r-xp 00001000 fe:00 123                 /usr/bin/skein";
        let mapping = parse_mapping(line).unwrap();
        assert_eq!((mapping.at, mapping.file_offset), (0x55d0_a000..0x55d0_b000, 0x1000));
        assert!(parse_mapping(&line.replace("r-xp", "r--p")).is_none());
        assert!(parse_mapping("nonsense").is_none());
    }

    #[test]
    fn code_runs_on_where_it_was_moved() {
        // This program may be too small for a large page.
        const PAGE_BYTES: usize = 4096;
        let range = code_of(".text", PAGE_BYTES).unwrap().expect("there is code");
        let sum = || (0..1000_u64).map(|n| std::hint::black_box(n).pow(2)).sum::<u64>();
        let before = sum();
        let text = |range: &Range<usize>| {
            let code: *const u8 = std::ptr::with_exposed_provenance(range.start);
            // SAFETY: the program's own code, which is mapped and never written.
            #[allow(unsafe_code)]
            unsafe { std::slice::from_raw_parts(code, range.len()) }.to_vec()
        };
        let code = text(&range);
        std::thread::scope(|scope| {
            let busy = scope.spawn(|| (0..2000).map(|_| sum()).max());
            move_pages(range.clone(), PAGE_BYTES).unwrap();
            assert_eq!(busy.join().unwrap(), Some(before));
        });
        assert!(text(&range) == code, "the same bytes");
        assert_eq!(sum(), before);
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let moved = maps.lines().find(|l| l.starts_with(&format!("{:x}-", range.start))).unwrap();
        assert_eq!(moved.split_ascii_whitespace().count(), 5, "of no file: {moved}");
    }

    #[test]
    fn a_program_without_a_profile_is_left_as_it_is() {
        match code_to_large_pages() {
            Ok(moved) => assert_eq!(moved, None),
            Err(e) => assert!(e.to_string().contains("never"), "{e}"),
        }
    }
}
