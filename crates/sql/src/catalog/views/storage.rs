//! Segments and files: what is done with them, how large they are; the redo thread.

use super::events::US_PER_CS;
use super::registry::{Make, SessionView, views};
use super::{average, int4, shown_name, wall};
use crate::Result;
use crate::catalog::Catalog;
use crate::catalog::rows::Shape::{Int4, Int8, Text, Timestamptz};
use crate::catalog::rows::{Rows, int, text};
use crate::session::Session;
use block::{BLOCK_BYTES, Dba, ObjId};
use kernel::cache::SegmentStat;
use kernel::dict;
use kernel::instance::Instance;
use kernel::redo::{LogFileStatus, log_file_no};
use kernel::row::Value;
use kernel::space::{DATA_FILE, SegmentInfo, UNDO_FILE};
use observe::Stat;
use std::collections::BTreeMap;
use std::sync::Arc;

views! {
    "v$segstat", Make::Local(segstat), "Work that this instance has done with each segment. Blocks \
        read from other instances' memory count as logical reads; of gets of one block by several \
        sessions at the same instant one may be missing." {
        "ts#": Int4, "Number of its tablespace, as `v$tablespace` has it.";
        "obj#": Int8, "The object.";
        "dataobj#": Int8, "The same.";
        statistic_name: Text, "What is counted.";
        "statistic#": Int4, "Number of the statistic.";
        value: Int8, "How often; blocks for reads and writes.";
    }
    "v$segment_statistics", Make::Local(segment_statistics), "As `v$segstat`, with the names of the \
        segments." {
        owner: Text, "Schema of the object; NULL: it has been dropped since.";
        object_name: Text, "Its name.";
        subobject_name: Text, "Always NULL: there are no partitions.";
        object_type: Text, "`TABLE`, `INDEX`, or `SEQUENCE`.";
        tablespace_name: Text, "Where its blocks are.";
        "ts#": Int4, "Number of that, as `v$tablespace` has it.";
        "obj#": Int8, "Its number.";
        "dataobj#": Int8, "The same.";
        statistic_name: Text, "What is counted.";
        "statistic#": Int4, "Number of the statistic.";
        value: Int8, "How often; blocks for reads and writes.";
    }
    "v$filestat", Make::Local(filestat), "I/O of this instance by data file." {
        "file#": Int4, "The file.";
        phyrds: Int8, "Read requests.";
        phywrts: Int8, "Write requests.";
        phyblkrd: Int8, "Blocks read.";
        phyblkwrt: Int8, "Blocks written.";
        readtim: Int8, "Hundredths of a second of the reads.";
        writetim: Int8, "Hundredths of a second of the writes: of batches for several files, what the \
            file's blocks are of them.";
        avgiotim: Int8, "Hundredths of a second a request on the average.";
        singleblkrds: Int8, "Read requests of a single block.";
        singleblkrdtim: Int8, "Hundredths of a second of these.";
    }
    "v$thread", Make::Local(thread), "The redo thread of this instance. Places are bytes from the \
        thread's first." {
        "thread#": Int4, "Number of the thread: the instance's.";
        status: Text, "`OPEN`: redo goes to it.";
        enabled: Text, "`PUBLIC`.";
        instance: Text, "Name of the instance.";
        groups: Int4, "Its log files.";
        "current_group#": Int4, "The log file that is written, as in `v$log`.";
        "sequence#": Int8, "Sequence number of the log file that is written.";
        open_time: Timestamptz, "When the instance was started.";
        checkpoint_rba: Int8, "Recovery would begin here.";
        "checkpoint_change#": Int8, "SCN at which that was noted.";
        durable_rba: Int8, "Redo is on disk up to here.";
        last_rba: Int8, "Redo is made up to here.";
    }
    "v$log", Make::Local(log_files), "Log files of this instance's redo thread." {
        "group#": Int4, "Place of the file in its ring, from 1.";
        "thread#": Int4, "Number of the thread: the instance's.";
        "sequence#": Int8, "Its sequence number; NULL: it has not been written yet.";
        bytes: Int8, "Redo that it holds, in bytes.";
        members: Int4, "Files with the same redo: 1, mirroring is the disk group's affair.";
        archived: Text, "`NO`: redo is not archived.";
        status: Text, "`CURRENT`: it is being written; `ACTIVE`: recovery would need it; `INACTIVE`: \
            it may be written anew; `UNUSED`.";
        "first_change#": Int8, "SCN when it was begun: what was on its way to it may be a little \
            older; NULL: it was begun before the instance's start.";
        first_time: Timestamptz, "When that was.";
    }
    "v$log_history", Make::Local(log_history), "Log files that this instance has filled since its \
        start, the last thousand." {
        recid: Int8, "Number of the row: the file's sequence number.";
        stamp: Int8, "Seconds from 1970 to when it was full.";
        "thread#": Int4, "Number of the thread: the instance's.";
        "sequence#": Int8, "Sequence number of the file.";
        "first_change#": Int8, "SCN when it was begun.";
        first_time: Timestamptz, "When that was.";
        "next_change#": Int8, "SCN when the next one was begun.";
    }
    "v$logfile", Make::Local(log_members), "Log files of this instance's redo thread, by name." {
        "group#": Int4, "Place of the file in its ring, as in `v$log`.";
        status: Text, "Always NULL: the file is in use; one that cannot be used ends the instance.";
        type: Text, "`ONLINE`: there are no others.";
        member: Text, "A name made of the database's, the thread's and the file's number: what is \
            in a disk group has no other.";
    }
    "v$instance_recovery", Make::Local(instance_recovery), "What recovery of this instance would \
        have to do now." {
        recovery_estimated_ios: Int8, "Blocks that are newer than on disk.";
        actual_redo_blks: Int8, "Redo from the checkpoint on, in blocks of 8 KiB.";
        ckpt_block_writes: Int8, "Blocks written so that a checkpoint could move on.";
    }
    "dba_segments", Make::Session(SessionView::Segments), "Segments of tables and indexes." {
        owner: Text, "Schema of the object.";
        segment_name: Text, "Its name.";
        segment_type: Text, "`TABLE` or `INDEX`.";
        tablespace_name: Text, "Where its blocks are.";
        header_file: Int4, "File of the segment's header block.";
        header_block: Int8, "That block.";
        bytes: Int8, "Bytes of its extents.";
        blocks: Int8, "Blocks of its extents.";
        extents: Int8, "Extents.";
        initial_extent: Int8, "Bytes of the first of them.";
        hwm_blocks: Int8, "Blocks below the high-water mark, its header and maps among them.";
        "obj#": Int8, "Number of the object.";
        partition_name: Text, "Always NULL: there are no partitions.";
        segment_subtype: Text, "`ASSM`: it has maps of its free blocks.";
        relative_fno: Int4, "The same as `header_file`.";
        next_extent: Int8, "Always NULL: the larger the segment, the larger its next extent.";
        min_extents: Int8, "Always `1`.";
        max_extents: Int8, "Always NULL: there are as many as it needs.";
        pct_increase: Int8, "Always NULL, as `next_extent`.";
        buffer_pool: Text, "`DEFAULT`: there is one.";
    }
    "dba_extents", Make::Session(SessionView::Extents), "Extents of the segments of tables and \
        indexes." {
        owner: Text, "Schema of the object.";
        segment_name: Text, "Its name.";
        segment_type: Text, "`TABLE` or `INDEX`.";
        tablespace_name: Text, "Where its blocks are.";
        extent_id: Int4, "Number of the extent in its segment, from 0.";
        file_id: Int4, "Number of the file.";
        block_id: Int8, "First block of the extent.";
        bytes: Int8, "Its size in bytes.";
        blocks: Int8, "Its size in blocks.";
        partition_name: Text, "Always NULL: there are no partitions.";
        relative_fno: Int4, "The same as `file_id`.";
    }
    "dba_data_files", Make::Session(SessionView::DataFiles), "Files of tables, indexes and undo." {
        file_name: Text, "A name made of the database's, the tablespace's and the number: what is in \
            a disk group has no other.";
        file_id: Int4, "Number of the file.";
        tablespace_name: Text, "`USERS`: tables and indexes; `UNDO`.";
        bytes: Int8, "Its size in bytes.";
        blocks: Int8, "Its size in blocks.";
        status: Text, "`AVAILABLE`: without it the database is not open.";
        relative_fno: Int4, "The same as `file_id`.";
        autoextensible: Text, "`YES`: it grows when it is full.";
        maxbytes: Int8, "Bytes that it can grow to: with all that is free in the disk group, which \
            the other files may take as well.";
        maxblocks: Int8, "Blocks of the same.";
        increment_by: Int8, "Always NULL: it grows by a part of its size.";
        online_status: Text, "`ONLINE`.";
    }
    "dba_temp_files", Make::Session(SessionView::Nothing), "Files of temporary tablespaces: always \
        without rows. What statements write beside memory is in files of the operating system, \
        which `v$tempseg_usage` shows while they are there." {
        file_name: Text, "Its name.";
        file_id: Int4, "Number of the file.";
        tablespace_name: Text, "The tablespace.";
        bytes: Int8, "Its size in bytes.";
        blocks: Int8, "Its size in blocks.";
        status: Text, "Whether it can be used.";
        relative_fno: Int4, "The same as `file_id`.";
        autoextensible: Text, "Whether it grows.";
        maxbytes: Int8, "Bytes that it can grow to.";
        maxblocks: Int8, "Blocks of the same.";
        increment_by: Int8, "Blocks by which it grows.";
    }
    "v$tempfile", Make::Local(nothing), "The same, by number: always without rows." {
        "file#": Int4, "Number of the file.";
        "ts#": Int4, "Number of its tablespace.";
        "rfile#": Int4, "The same as `file#`.";
        status: Text, "Whether it can be used.";
        enabled: Text, "Whether it is written.";
        bytes: Int8, "Its size in bytes.";
        blocks: Int8, "Its size in blocks.";
        block_size: Int8, "Bytes of a block.";
        name: Text, "Its name.";
    }
    "v$datafile", Make::Local(data_file), "Files of tables, indexes and undo, by number." {
        "file#": Int4, "Number of the file.";
        "ts#": Int4, "Number of its tablespace, as `v$tablespace` has it.";
        name: Text, "Its name, as `dba_data_files.file_name` has it.";
        bytes: Int8, "Its size in bytes.";
        blocks: Int8, "Its size in blocks.";
        block_size: Int8, "Bytes of a block.";
        "rfile#": Int4, "The same as `file#`.";
        status: Text, "`ONLINE`.";
        enabled: Text, "`READ WRITE`.";
    }
    "v$tablespace", Make::Local(tablespaces), "Where blocks are." {
        "ts#": Int4, "Its number.";
        name: Text, "Its name.";
        bigfile: Text, "`YES`: it has one file.";
    }
    "dba_free_space", Make::Session(SessionView::FreeSpace), "Runs of blocks of the files that no \
        segment has. A file grows when none of them is long enough." {
        tablespace_name: Text, "`USERS` or `UNDO`.";
        file_id: Int4, "Number of the file.";
        block_id: Int8, "First block of the run.";
        bytes: Int8, "Its size in bytes.";
        blocks: Int8, "Its size in blocks.";
        relative_fno: Int4, "The same as `file_id`.";
    }
}

/// Files and their tablespaces.
const FILES: [(u16, &str); 2] = [(UNDO_FILE, "UNDO"), (DATA_FILE, "USERS")];

fn tablespaces(_: &Arc<Instance>, rows: &mut Rows) {
    FILES.iter().for_each(|(file, space)| rows.push(vec![int4(*file), text(*space), text("YES")]));
}

/// File, tablespace, name and blocks of each.
fn files(instance: &Instance) -> impl Iterator<Item = (u16, &'static str, String, u32)> {
    FILES.into_iter().filter_map(move |(file, space)| {
        let blocks = instance.core.cache.group.file_blocks(file)?;
        Some((file, space, format!("+SKEIN/{}.{file}", space.to_lowercase()), blocks))
    })
}

fn data_file(instance: &Arc<Instance>, rows: &mut Rows) {
    for (file, _, name, blocks) in files(instance) {
        let bytes = u64::from(blocks) * BLOCK_BYTES as u64;
        // A tablespace has one file, whose number it goes by.
        rows.push(vec![
            int4(file),
            int4(file),
            text(name),
            int(bytes),
            int(blocks),
            int(BLOCK_BYTES),
            int4(file),
            text("ONLINE"),
            text("READ WRITE"),
        ]);
    }
}

fn nothing(_: &Arc<Instance>, _: &mut Rows) {}

fn tablespace(file: u16) -> Value {
    FILES.iter().find(|of| of.0 == file).map_or(Value::Null, |of| text(of.1))
}

/// A row for each object and statistic.
fn by_segment(instance: &Instance, mut row: impl FnMut(ObjId, SegmentStat, u64)) {
    for (obj, counts) in instance.core.cache.segment_counts() {
        // Undo, maps of files, and blocks that were never formatted and that no scan has read.
        if obj.0 > 0 {
            SegmentStat::ALL.into_iter().zip(counts).for_each(|(stat, n)| row(obj, stat, n));
        }
    }
}

fn segstat(instance: &Arc<Instance>, rows: &mut Rows) {
    by_segment(instance, |obj, stat, n| {
        rows.push(vec![
            int4(DATA_FILE),
            int(obj.0),
            int(obj.0),
            text(stat.name()),
            int4(stat as usize),
            int(n),
        ]);
    });
}

/// The names are the asker's to fill in, who can read the dictionary.
fn segment_statistics(instance: &Arc<Instance>, rows: &mut Rows) {
    by_segment(instance, |obj, stat, n| {
        let mut values = vec![Value::Null; 4];
        values.extend([tablespace(DATA_FILE), int4(DATA_FILE), int(obj.0), int(obj.0)]);
        values.extend([text(stat.name()), int4(stat as usize), int(n)]);
        rows.push(values);
    });
}

fn filestat(instance: &Arc<Instance>, rows: &mut Rows) {
    for of in instance.core.cache.file_counts() {
        rows.push(vec![
            int4(of.file),
            int(of.reads),
            int(of.writes),
            int(of.blocks_read),
            int(of.blocks_written),
            int(of.read_us / US_PER_CS),
            int(of.write_us / US_PER_CS),
            average((of.read_us + of.write_us) / US_PER_CS, of.reads + of.writes),
            int(of.single_reads),
            int(of.single_read_us / US_PER_CS),
        ]);
    }
}

fn thread(instance: &Arc<Instance>, rows: &mut Rows) {
    let log = &instance.core.log;
    let (files, sequence) = log.files();
    let current = files.iter().find(|file| file.status == LogFileStatus::Current);
    rows.push(vec![
        int4(log.thread().0),
        text("OPEN"),
        text("PUBLIC"),
        text(format!("skein{}", instance.me)),
        int4(files.len()),
        current.map_or(Value::Null, |file| int4(u32::from(file.group) + 1)),
        int(sequence),
        wall(instance.observer.started_wall_us()),
        int(log.checkpoint().0),
        int(log.checkpoint_scn().0),
        int(log.durable().0),
        int(log.next().0),
    ]);
}

fn log_files(instance: &Arc<Instance>, rows: &mut Rows) {
    let log = &instance.core.log;
    let begun = log.begun();
    for file in log.files().0 {
        let begun = begun.iter().find(|begun| Some(begun.seq) == file.seq);
        rows.push(vec![
            int4(u32::from(file.group) + 1),
            int4(log.thread().0),
            file.seq.map_or(Value::Null, int),
            int(file.bytes),
            int4(1),
            text("NO"),
            text(match file.status {
                LogFileStatus::Current => "CURRENT",
                LogFileStatus::Active => "ACTIVE",
                LogFileStatus::Inactive => "INACTIVE",
                LogFileStatus::Unused => "UNUSED",
            }),
            begun.map_or(Value::Null, |begun| int(begun.scn.0)),
            begun.map_or(Value::Null, |begun| wall(begun.wall_us)),
        ]);
    }
}

fn log_history(instance: &Arc<Instance>, rows: &mut Rows) {
    let log = &instance.core.log;
    for pair in log.begun().windows(2) {
        let (file, next) = (pair[0], pair[1]);
        rows.push(vec![
            int(file.seq),
            int(next.wall_us.div_euclid(1_000_000)),
            int4(log.thread().0),
            int(file.seq),
            int(file.scn.0),
            wall(file.wall_us),
            int(next.scn.0),
        ]);
    }
}

fn log_members(instance: &Arc<Instance>, rows: &mut Rows) {
    let log = &instance.core.log;
    let thread = log.thread();
    for file in log.files().0 {
        let number = log_file_no(thread, file.group);
        rows.push(vec![
            int4(u32::from(file.group) + 1),
            Value::Null,
            text("ONLINE"),
            text(format!("+SKEIN/redo_{thread}.{number}")),
        ]);
    }
}

fn instance_recovery(instance: &Arc<Instance>, rows: &mut Rows) {
    let (log, cache) = (&instance.core.log, &instance.core.cache);
    let redo_bytes = log.next().0.saturating_sub(log.checkpoint().0);
    rows.push(vec![
        int(cache.dirty_count()),
        int(redo_bytes.div_ceil(BLOCK_BYTES as u64)),
        int(instance.observer.stat(Stat::DbwrCheckpointBuffers)),
    ]);
}

/// An object's schema, name and type.
type Named = (String, String, &'static str);

fn names(catalog: &Catalog) -> BTreeMap<i64, Named> {
    let mut names = BTreeMap::new();
    let bootstrap = (dict::SYS.to_owned(), "bootstrap$".to_owned(), "TABLE");
    names.insert(i64::from(dict::BOOTSTRAP_OBJ.0), bootstrap);
    for table in &catalog.tables {
        let of = |name: &str, kind| (table.schema.clone(), name.to_owned(), kind);
        names.insert(i64::from(table.obj.0), of(&table.name, "TABLE"));
        for index in table.all_indexes() {
            names.insert(i64::from(index.obj.0), of(&index.name, "INDEX"));
        }
    }
    for def in &catalog.sequences {
        let named = (def.schema.clone(), def.name.clone(), "SEQUENCE");
        names.insert(i64::from(def.obj.0), named);
    }
    names
}

/// The segments of tables and indexes: what they are called, the object, the header block.
fn all_segments(catalog: &Catalog) -> Vec<(Named, ObjId, Dba)> {
    let mut all = Vec::new();
    for table in &catalog.tables {
        let of = |name: &str, kind| (table.schema.clone(), name.to_owned(), kind);
        all.push((of(&table.name, "TABLE"), table.obj, table.header));
        for index in table.all_indexes() {
            all.push((of(&index.name, "INDEX"), index.obj, index.header));
        }
    }
    all
}

/// From `owner` to `tablespace_name`.
fn shown((schema, name, kind): &Named, file: u16) -> Vec<Value> {
    vec![shown_name(schema), shown_name(name), text(*kind), tablespace(file)]
}

impl Session {
    /// Fills in the names of the objects of `v$segment_statistics`.
    pub(in crate::catalog) async fn name_segments(&mut self, rows: &mut Rows) -> Result<()> {
        let names = names(&self.catalog().await?);
        rows.name_objects("obj#", |obj| {
            let (schema, name, kind) = names.get(&obj)?;
            Some([shown_name(schema), shown_name(name), text(*kind)])
        });
        Ok(())
    }

    pub(super) async fn segments(&mut self, rows: &mut Rows) -> Result<()> {
        let all = all_segments(&self.catalog().await?);
        for (named, obj, header) in all {
            let Some(info) = self.segment(obj, header).await? else { continue };
            let mut row = shown(&named, header.file);
            let first = info.extents.first();
            row.extend([
                int4(header.file),
                int(header.block),
                int(u64::from(info.blocks()) * BLOCK_BYTES as u64),
                int(info.blocks()),
                int(info.extents.len()),
                first.map_or(Value::Null, |e| int(u64::from(e.blocks) * BLOCK_BYTES as u64)),
                int(info.hwm),
                int(obj.0),
                Value::Null,
                text("ASSM"),
                int4(header.file),
                Value::Null,
                int(1),
                Value::Null,
                Value::Null,
                text("DEFAULT"),
            ]);
            rows.push(row);
        }
        Ok(())
    }

    pub(super) async fn extents(&mut self, rows: &mut Rows) -> Result<()> {
        let all = all_segments(&self.catalog().await?);
        for (named, obj, header) in all {
            let Some(info) = self.segment(obj, header).await? else { continue };
            for (at, extent) in info.extents.iter().enumerate() {
                let mut row = shown(&named, extent.first.file);
                row.extend([
                    int4(at),
                    int4(extent.first.file),
                    int(extent.first.block),
                    int(u64::from(extent.blocks) * BLOCK_BYTES as u64),
                    int(extent.blocks),
                    Value::Null,
                    int4(extent.first.file),
                ]);
                rows.push(row);
            }
        }
        Ok(())
    }

    /// What the segment's header says; `None`: it was dropped since the catalog was read, or its
    /// block is another's by now.
    async fn segment(&mut self, obj: ObjId, header: Dba) -> Result<Option<SegmentInfo>> {
        match self.instance.core.space.segment_info(&self.ctx, header).await {
            Err(kernel::Error::ObjectGone) => Ok(None),
            read => Ok(Some(read?).filter(|info| info.obj == obj)),
        }
    }

    pub(super) fn data_files(&self, rows: &mut Rows) {
        let luns = self.instance.core.cache.group.luns();
        let free_bytes: u64 = luns.iter().map(|lun| lun.free_bytes).sum();
        for (file, space, name, blocks) in files(&self.instance) {
            let bytes = u64::from(blocks) * BLOCK_BYTES as u64;
            rows.push(vec![
                text(name),
                int4(file),
                text(space),
                int(bytes),
                int(blocks),
                text("AVAILABLE"),
                int4(file),
                text("YES"),
                int(bytes + free_bytes),
                int((bytes + free_bytes) / BLOCK_BYTES as u64),
                Value::Null,
                text("ONLINE"),
            ]);
        }
    }

    pub(super) async fn free_space(&mut self, rows: &mut Rows) -> Result<()> {
        for (file, space) in FILES {
            if self.instance.core.cache.group.file_blocks(file).is_none() {
                continue;
            }
            for run in self.instance.core.space.unused_extents(&self.ctx, file).await? {
                rows.push(vec![
                    text(space),
                    int4(file),
                    int(run.first.block),
                    int(u64::from(run.blocks) * BLOCK_BYTES as u64),
                    int(run.blocks),
                    int4(file),
                ]);
            }
        }
        Ok(())
    }
}
