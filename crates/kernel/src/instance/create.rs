//! Making a database.

use std::path::Path;
use std::sync::Arc;

use block::{BLOCK_BYTES, INSTANCES_MAX, InstanceNo};
use disk::{Group, Options};
use env::{Env, IoBuf};
use observe::Ctx;

use super::open::{Parts, build_core};
use crate::cache::{DW_FILE, DW_FILE_BLOCKS};
use crate::dict::{self, OneInstance};
use crate::error::Result;
use crate::redo::{CONTROL_BLOCKS, CONTROL_FILE, log_file_no};
use crate::space::DATA_FILE;
use crate::txn::{Isolation, Transaction};
use crate::undo::{UNDO_FILE, UNDO_HEADER_FILE, format_header, segments_of};

/// What a new database is made of.
#[derive(Clone, Debug)]
pub struct NewDatabase<'a> {
    pub dir: &'a Path,
    pub options: Options,
    pub instances: u8,
    pub luns: u16,
    pub lun_size_bytes: u64,
    pub log_files: u16,
    pub log_file_bytes: u64,
    /// SCRAM verifier of the superuser `skein`.
    pub verifier: &'a str,
}

/// Blocks the undo and the data file start with; both grow on demand.
const FIRST_BLOCKS: u32 = 1024;
/// Length of the writes that fill a new log file.
const ZEROS_BYTES: usize = 1 << 20;

/// Makes the disk group, its files and the dictionary. The folder has none yet.
///
/// # Errors
/// The folder holds a group; the LUNs are too small; disk errors.
pub async fn create_database(ctx: &Ctx, env: &Env, new: &NewDatabase<'_>) -> Result<()> {
    let group = Group::create_with(env, new.dir, new.luns, new.lun_size_bytes, new.options).await?;
    let direct = new.options.direct_io == disk::DirectIo::Required;
    let voting = cluster::membership::voting_path(new.dir);
    cluster::voting::VotingFile::create(env, &voting, INSTANCES_MAX, direct).await?;
    group.create_file(CONTROL_FILE, CONTROL_BLOCKS).await?;
    group.create_file(DW_FILE, DW_FILE_BLOCKS).await?;
    group.create_file(UNDO_FILE, FIRST_BLOCKS).await?;
    group.create_file(DATA_FILE, FIRST_BLOCKS).await?;
    group.create_file(UNDO_HEADER_FILE, 128).await?;
    for k in 1..=new.instances {
        add_thread(&group, InstanceNo(k), new.log_files, new.log_file_bytes).await?;
    }
    let me = InstanceNo(1);
    let parts = Parts {
        cache_blocks: 4096,
        itl_entries_max: block::itl::ITL_ENTRIES_MAX,
        log_buffer_bytes: 4 << 20,
        undo_retention_us: 0,
        start_scn: block::Scn(1),
        shown: false,
    };
    let core = build_core(env, &group, me, &parts).await?;
    core.log.begin().await?;
    core.log.start_writer(ctx.clone());
    for k in 1..=INSTANCES_MAX {
        for usn in segments_of(InstanceNo(k)) {
            format_header(ctx, &core.cache, usn).await?;
        }
    }
    core.space.format_file(ctx, UNDO_FILE).await?;
    core.space.format_file(ctx, DATA_FILE).await?;
    super::open::load_segments(ctx, &core, segments_of(me), true).await?;
    dict::bootstrap(ctx, &core, Arc::new(OneInstance)).await?;
    let txn = Transaction::begin(&core, Isolation::ReadCommitted, core.current_scn());
    let set = dict::set_password(ctx, &txn, dict::SUPERUSER, Some(new.verifier)).await;
    match set {
        Ok(()) => {
            txn.commit(ctx).await?;
        }
        Err(e) => {
            txn.rollback(ctx).await?;
            return Err(e);
        }
    }
    core.cache.checkpoint_all(ctx, me).await?;
    core.log.close(ctx).await
}

/// Makes the log files of thread `k` and writes zeros to all of them: a file system only reserves
/// the space of a new LUN, and the first write to a part of it changes the file system's own
/// records, which doubles the time and the CPU of a commit.
///
/// # Errors
/// The group is full.
pub async fn add_thread(group: &Group, k: InstanceNo, files: u16, bytes: u64) -> Result<()> {
    let blocks = u32::try_from(bytes / BLOCK_BYTES as u64).unwrap_or(u32::MAX).max(128);
    let len = u64::from(blocks) * BLOCK_BYTES as u64;
    for idx in 0..files {
        let file_no = log_file_no(k, idx);
        group.create_file(file_no, blocks).await?;
        for at in (0..len).step_by(ZEROS_BYTES) {
            let part = (len - at).min(ZEROS_BYTES as u64);
            let part = usize::try_from(part).expect("at most ZEROS_BYTES");
            group.write_at(file_no, at, IoBuf::zeroed(part)).await?;
        }
    }
    Ok(())
}
