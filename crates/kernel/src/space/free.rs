//! What of the data files nobody has: `dba_free_space`.
//!
//! Promises: each run of free blocks as its file map has it at one moment; runs of two maps are
//! told apart. Must never change anything.

use block::layout::{self, Kind};
use block::{Dba, Mode};
use observe::Ctx;

use super::files::Space;
use super::layout::{Extent, FILE_MAP_COUNT, FILE_MAP_UNITS, UNIT_BLOCKS, free_runs, map_dba};
use crate::error::{Error, Result};

impl Space {
    /// The runs of free blocks of a file, in their order.
    ///
    /// # Errors
    /// A file map cannot be read; the session was interrupted.
    pub async fn unused_extents(&self, ctx: &Ctx, file: u16) -> Result<Vec<Extent>> {
        let units = self.file_blocks(file)? / UNIT_BLOCKS;
        let mut found = Vec::new();
        for k in 0..FILE_MAP_COUNT.min(units.div_ceil(FILE_MAP_UNITS)) {
            let map = self.cache.pin(ctx, map_dba(file, k), Mode::S).await?;
            let b = map.read();
            if layout::kind(&b) != Kind::FileMap {
                let what = "it is not a file map".to_owned();
                return Err(Error::Corrupt { dba: map.dba(), what });
            }
            let first_unit = k * FILE_MAP_UNITS;
            let runs = free_runs(&b, FILE_MAP_UNITS.min(units - first_unit));
            found.extend(runs.into_iter().map(|(first, count)| Extent {
                first: Dba::new(file, (first_unit + first) * UNIT_BLOCKS),
                blocks: count * UNIT_BLOCKS,
            }));
        }
        Ok(found)
    }
}
