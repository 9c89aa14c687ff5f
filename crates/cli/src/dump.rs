//! `skein dump`: blocks and redo as text, for engineers. Reads the shared disks beside running
//! instances: a block shown is the one on disk, which may be older than the one in a cache.

use crate::block_text;
use crate::config::Config;
use crate::error::{CliError, Result};
use crate::layout::Layout;
use crate::node;
use block::redo::Record;
use block::{Dba, InstanceNo};
use kernel::redo::{Ring, Scan, read_thread};
use std::fmt::Write as _;
use std::path::Path;

/// Longest text of one change vector.
const VECTOR_CHARS_MAX: usize = 400;

/// Prints the block at `address`.
pub fn block(dir: &Path, address: &str) -> Result<()> {
    let layout = Layout::new(dir);
    let config = Config::load(&layout)?;
    let dba = parse_address(address)?;
    node::with_group(&layout, &config, async |group| {
        let (path, offset) = group.locate(dba)?;
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
                print_text(&record_text(&record))?;
            }
        }
        match scan.end() {
            Some(end) => print_text(&format!("end of log at {}: {:?}\n", end.rba, end.why)),
            None => Ok(()),
        }
    })
}

fn record_text(record: &Record) -> String {
    let mut text = format!(
        "{} scn {} xid {} {:?} {} bytes, crc {:#010x}\n",
        record.rba, record.scn, record.xid, record.kind, record.length_bytes, record.crc
    );
    for v in &record.vectors {
        let op: String = format!("{:?}", v.op).chars().take(VECTOR_CHARS_MAX).collect();
        let _ = writeln!(text, "  {} {} -> {} {op}", v.dba, v.before, v.after(record.scn));
    }
    text
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
