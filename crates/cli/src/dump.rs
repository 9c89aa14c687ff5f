//! `skein dump`: blocks and redo as text, for engineers. Reads the shared disks beside running
//! instances: a block shown is the one on disk, which may be older than the one in a cache.

use crate::block_text;
use crate::config::Config;
use crate::error::{CliError, Result};
use crate::layout::Layout;
use crate::node;
use crate::redo_text;
use block::redo::EndReason;
use block::{Dba, InstanceNo};
use kernel::redo::{Ring, Scan, read_thread};
use kernel::space::{DATA_FILE, UNDO_FILE};
use kernel::undo::UNDO_HEADER_FILE;
use std::path::Path;

/// The files that hold blocks as [`block_text`] reads them.
const BLOCK_FILES: [u16; 3] = [UNDO_FILE, DATA_FILE, UNDO_HEADER_FILE];

/// Prints the block at `address`.
pub fn block(dir: &Path, address: &str) -> Result<()> {
    let layout = Layout::new(dir);
    let config = Config::load(&layout)?;
    let dba = parse_address(address)?;
    node::with_group(&layout, &config, async |group| {
        let files: Vec<u16> = group.files().iter().map(|(file, _)| *file).collect();
        if !BLOCK_FILES.contains(&dba.file) {
            let what =
                if files.contains(&dba.file) { "holds no such blocks" } else { "does not exist" };
            return Err(CliError::usage(format!(
                "file {} {what}: file {UNDO_FILE} holds undo, {UNDO_HEADER_FILE} transaction \
                 tables, {DATA_FILE} tables and indexes (redo: skein dump {} redo)",
                dba.file,
                dir.display()
            )));
        }
        let (path, offset) = group.locate(dba).map_err(|e| match e {
            disk::Error::BeyondEnd { .. } => CliError::usage(e.to_string()),
            e => e.into(),
        })?;
        let bytes = group.read_block(dba).await?;
        let place = format!("in {} at {offset:#x}", path.display());
        print_text(&format!("block {dba} {place}\n{}", block_text::describe(&bytes, dba)))
    })
}

/// Prints the redo of instance `k` from its checkpoint on; with `address`, only what changes it.
pub fn redo(dir: &Path, k: u16, address: Option<&str>) -> Result<()> {
    let layout = Layout::new(dir);
    let config = Config::load(&layout)?;
    config.check_instance(k)?;
    let wanted = address.map(parse_address).transpose()?;
    let thread = u8::try_from(k).map(InstanceNo).map_err(|e| CliError::usage(e.to_string()))?;
    node::with_group(&layout, &config, async |group| {
        let (_, state) = read_thread(&group, thread).await?;
        print_text(&format!(
            "redo thread {k}: {:?}, incarnation {}, checkpoint {}, log sequence {}, scn {}\n",
            state.status, state.incarnation, state.checkpoint, state.log_seq, state.scn
        ))?;
        let ring = Ring::open(&group, thread)?;
        let mut scan = Scan::open(&group, ring, &state).await?;
        while let Some(record) = scan.next().await? {
            if wanted.is_none_or(|dba| record.vectors.iter().any(|v| v.dba == dba)) {
                print_text(&redo_text::describe(&record))?;
            }
        }
        match scan.end() {
            Some(end) => print_text(&format!("end of log at {}: {}\n", end.rba, end_text(end.why))),
            None => Ok(()),
        }
    })
}

fn end_text(why: EndReason) -> &'static str {
    match why {
        EndReason::Torn => "no whole record follows",
        EndReason::Stale => "what follows was written in an earlier life of the file",
    }
}

/// Prints; a reader that has seen enough (`head`) ends the program quietly.
fn print_text(text: &str) -> Result<()> {
    use std::io::Write as _;
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        Err(e) => Err(CliError::failed(format!("write to standard output: {e}"))),
        Ok(()) => Ok(()),
    }
}

fn parse_address(text: &str) -> Result<Dba> {
    let parts = text
        .split_once('.')
        .and_then(|(file, block)| Some(Dba::new(file.parse().ok()?, block.parse().ok()?)));
    parts.ok_or_else(|| CliError::usage(format!("\"{text}\" is no block address such as 4.128")))
}

#[cfg(test)]
mod tests {
    use super::parse_address;
    use block::Dba;

    #[test]
    fn addresses_are_file_and_block() {
        assert_eq!(parse_address("4.128").unwrap(), Dba::new(4, 128));
        for bad in ["4", "4.", ".1", "4.1.2", "x.1", "70000.1", "-1.2"] {
            assert!(parse_address(bad).is_err(), "{bad}");
        }
    }
}
