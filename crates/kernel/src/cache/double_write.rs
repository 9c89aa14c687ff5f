//! The double-write areas: what is about to be written to data files is written here first, so that
//! a block torn by a crash is found whole somewhere.
//!
//! Promises: a batch is in its area before the first of its blocks is touched. A block is called
//! torn only after many reads: a living instance may be writing it. Must never write over a block
//! that may have another writer: the caller restores only what recovery has locked.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use block::bytes::{Reader, Write};
use block::{BLOCK_BYTES, Dba, INSTANCES_MAX, InstanceNo, layout};
use disk::Group;
use env::IoBuf;
use observe::{Ctx, Stat, WaitEvent};

use crate::error::Result;

/// File of the double-write areas.
pub const DW_FILE: u16 = 2;
/// Blocks of one batch; an area is one header block more.
pub const DW_BLOCKS: u32 = 127;
/// Blocks of the file: two areas for each instance.
pub const DW_FILE_BLOCKS: u32 = 2 * INSTANCES_MAX as u32 * (DW_BLOCKS + 1);
const DW_MAGIC: u32 = 0x534b_4457;

/// A block that fails its checks so often is torn; until then somebody may be writing it.
const TORN_READS: u32 = 12;

/// Who writes through an area. They differ so that a recovery leaves the area of the dead one as it
/// is, for the case that it is itself cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// DBWR of the instance.
    Dbwr(InstanceNo),
    /// The instance, recovering others.
    Recovery(InstanceNo),
}

impl Area {
    fn first_block(self) -> u32 {
        let n = match self {
            Area::Dbwr(k) => u32::from(k.0 - 1),
            Area::Recovery(k) => u32::from(INSTANCES_MAX) + u32::from(k.0 - 1),
        };
        n * (DW_BLOCKS + 1)
    }
}

/// Writes sealed images, ascending by address and at most a batch, to a double-write area and then
/// to the data files. Returns the number of data-file requests.
///
/// # Errors
/// A disk error.
pub async fn write_images(group: &Group, area: Area, images: &[(Dba, IoBuf)]) -> Result<u64> {
    assert!(images.len() <= DW_BLOCKS as usize, "a batch has at most {DW_BLOCKS} blocks");
    group.write_blocks(DW_FILE, area.first_block(), dw_batch(images)).await?;
    let mut at = 0;
    let mut writes = Vec::new();
    while at < images.len() {
        let first = images[at].0;
        let mut n = 1;
        while at + n < images.len()
            && images[at + n].0.file == first.file
            && images[at + n].0.block == first.block + u32::try_from(n).expect("a batch is small")
        {
            n += 1;
        }
        let mut buf = IoBuf::zeroed(n * BLOCK_BYTES);
        for (i, (_, image)) in images[at..at + n].iter().enumerate() {
            buf[i * BLOCK_BYTES..(i + 1) * BLOCK_BYTES].copy_from_slice(image);
        }
        writes.push(group.write_blocks(first.file, first.block, buf));
        at += n;
    }
    let requests = writes.len() as u64;
    for result in futures::future::join_all(writes).await {
        result?;
    }
    Ok(requests)
}

/// The image of a double-write area: header, then the blocks.
fn dw_batch(images: &[(Dba, IoBuf)]) -> IoBuf {
    let mut head = Vec::with_capacity(BLOCK_BYTES);
    head.u32(DW_MAGIC);
    head.u32(u32::try_from(images.len()).expect("a batch is small"));
    for (dba, _) in images {
        head.u64(dba.to_u64());
    }
    let crc = block::redo::crc(&head);
    head.u32(crc);
    let mut out = IoBuf::zeroed((images.len() + 1) * BLOCK_BYTES);
    out[..head.len()].copy_from_slice(&head);
    for (i, (_, image)) in images.iter().enumerate() {
        out[(i + 1) * BLOCK_BYTES..(i + 2) * BLOCK_BYTES].copy_from_slice(image);
    }
    out
}

/// Reads ranges of blocks side by side, as one wait.
async fn read_all(ctx: &Ctx, group: &Group, ranges: &[(Dba, u32)]) -> Result<Vec<IoBuf>> {
    let files: BTreeSet<u16> = ranges.iter().map(|(dba, _)| dba.file).collect();
    let blocks: u64 = ranges.iter().map(|(_, n)| u64::from(*n)).sum();
    let p = [files.len() as u64, blocks, ranges.len() as u64];
    let reads = ranges.iter().map(|(dba, n)| group.read_blocks(dba.file, dba.block, *n));
    let all = futures::future::try_join_all(reads);
    Ok(ctx.wait(WaitEvent::DbFileParallelRead, p, all).await?)
}

/// The whole blocks of an area.
fn dw_blocks(all: &[u8]) -> Vec<(Dba, IoBuf)> {
    let mut out = Vec::new();
    let mut r = Reader::new(&all[..BLOCK_BYTES]);
    let (Ok(magic), Ok(n)) = (r.u32(), r.u32()) else { return out };
    if magic != DW_MAGIC || n > DW_BLOCKS {
        return out;
    }
    let addresses: Vec<u64> = (0..n).filter_map(|_| r.u64().ok()).collect();
    let end = r.at();
    if r.u32().ok() != Some(block::redo::crc(&all[..end])) {
        return out;
    }
    for (i, addr) in addresses.into_iter().enumerate() {
        let dba = Dba::from_u64(addr);
        let image = &all[(i + 1) * BLOCK_BYTES..(i + 2) * BLOCK_BYTES];
        if layout::check(image, dba).is_ok() {
            out.push((dba, IoBuf::copy_from(image)));
        }
    }
    out
}

/// The blocks that the dead instances `dead` have torn: those of their double-write areas whose
/// data-file copy fails its checks however often it is read, each with the highest valid version
/// over the areas of all instances (hazard C11).
///
/// # Errors
/// A disk error.
pub async fn find_torn(
    ctx: &Ctx,
    group: &Group,
    dead: &[InstanceNo],
) -> Result<BTreeMap<Dba, IoBuf>> {
    let mut best: BTreeMap<Dba, IoBuf> = BTreeMap::new();
    let mut suspects = BTreeSet::new();
    for k in (1..=INSTANCES_MAX).map(InstanceNo) {
        let areas = [Area::Dbwr(k), Area::Recovery(k)];
        let ranges = areas.map(|a| (Dba::new(DW_FILE, a.first_block()), DW_BLOCKS + 1));
        let read = read_all(ctx, group, &ranges).await?;
        for (dba, image) in read.iter().flat_map(|all| dw_blocks(all)) {
            if dead.contains(&k) {
                suspects.insert(dba);
            }
            let newer = |old: &IoBuf| layout::version(old) < layout::version(&image);
            if best.get(&dba).is_none_or(newer) {
                best.insert(dba, image);
            }
        }
    }
    let mut suspects: Vec<Dba> = suspects.into_iter().collect();
    for round in 0..TORN_READS {
        if round > 0 {
            let pause = Duration::from_micros(200 << round.min(5));
            let p = [suspects.len() as u64, u64::from(round), 0];
            ctx.wait(WaitEvent::TornBlockRecheck, p, ctx.env.sleep(pause)).await;
        }
        let mut bad = Vec::new();
        for some in suspects.chunks(DW_BLOCKS as usize) {
            let ranges: Vec<(Dba, u32)> = some.iter().map(|&dba| (dba, 1)).collect();
            let now = read_all(ctx, group, &ranges).await?;
            let torn = some.iter().zip(&now).filter(|(dba, b)| layout::check(b, **dba).is_err());
            bad.extend(torn.map(|(&dba, _)| dba));
        }
        ctx.bump(Stat::BlockChecksumRetries, bad.len() as u64);
        suspects = bad;
        if suspects.is_empty() {
            break;
        }
    }
    Ok(suspects.into_iter().filter_map(|dba| Some((dba, best.remove(&dba)?))).collect())
}

/// Writes the whole copy of a torn block over it. The caller knows that nobody else writes it.
///
/// # Errors
/// A disk error.
pub async fn restore_torn(ctx: &Ctx, group: &Group, dba: Dba, image: &IoBuf) -> Result<()> {
    let write = group.write_blocks(dba.file, dba.block, image.clone());
    ctx.wait(WaitEvent::DbFileParallelWrite, [1, 0, 0], write).await?;
    ctx.bump(Stat::TornBlocksRestored, 1);
    Ok(())
}
