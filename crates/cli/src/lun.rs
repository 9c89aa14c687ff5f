//! `skein add lun`: enlarges the disk group, whether instances run or not.

use crate::config::Config;
use crate::error::{Result, say};
use crate::layout::Layout;
use crate::node;
use std::path::Path;

/// Adds a LUN of `size_bytes`, at `path` or as the next file of the group.
pub fn add(dir: &Path, size_bytes: u64, path: Option<&Path>) -> Result<()> {
    let layout = Layout::new(dir);
    let config = Config::load(&layout)?;
    // A path is the user's, relative to where the user is, not to the database.
    let path = path.map(|p| std::path::absolute(p).unwrap_or_else(|_| p.to_owned()));
    node::with_group(&layout, &config, async |group| {
        let lun = group.add_lun(path.as_deref(), size_bytes).await?;
        let luns = group.luns();
        let free: u64 = luns.iter().map(|l| l.free_bytes).sum();
        say!("LUN {lun} added; {} MiB free in {} LUNs", free >> 20, luns.len());
        Ok(())
    })
}
