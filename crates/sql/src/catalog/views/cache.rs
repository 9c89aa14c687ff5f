//! What this instance keeps in memory: blocks, and entries of the dictionary.

use super::cluster::element_address;
use super::int4;
use super::registry::{Make, views};
use crate::catalog::rows::Shape::{Bool, Int4, Int8, Text};
use crate::catalog::rows::{Rows, int, text};
use block::BLOCK_BYTES;
use block::layout::Kind;
use kernel::instance::Instance;
use kernel::row::Value;
use std::sync::Arc;

views! {
    "v$bh", Make::Local(buffers), "Buffers of the block cache that are in use." {
        "file#": Int4, "The data file.";
        "block#": Int8, "The block in it.";
        "class#": Int4, "The field's number of its class, as wait events have it: 1 data, 4 \
            segment header, 8 map of free blocks, 13 map of a file, 17 undo header, 18 undo; NULL \
            while its image is not here.";
        class: Text, "What the block is.";
        objd: Int8, "The object that it belongs to.";
        status: Text, "`xcur`: here to be changed; `scur`: to be read, perhaps elsewhere too; \
            `pi`: only an image of the past; `free`: none.";
        dirty: Bool, "Whether the block is newer than on disk.";
        past_image: Bool, "Whether an image of the past is kept.";
        xnc: Int8, "Always 0: that another instance wanted it is counted by segment, in `v$segstat`.";
        forced_reads: Int8, "Always 0, for the same reason.";
        forced_writes: Int8, "Always 0: nobody writes a block to disk so that another may read it.";
        lock_element_addr: Text, "The right to it, as `v$gc_element.gc_element_addr` has it.";
        lock_element_name: Text, "The same, as `v$gc_element.gc_element_name` has it.";
        lock_element_class: Int4, "The same as `class#`.";
        temp: Text, "`N`: blocks of temporary files are not in the cache.";
        ping: Text, "`Y`: another instance has got it from here since, and an image of the past \
            is kept; else `N`.";
        stale: Text, "`N`: an image that is out of date is dropped, but for that of the past.";
        direct: Text, "`N`: what is read past the cache is not in it.";
        new: Text, "`Y`: it has never been formatted; else `N`.";
        "ts#": Int4, "Number of its tablespace, as `v$tablespace` has it.";
    }
    "v$sga", Make::Local(sga), "Memory that the instance has for all its sessions." {
        name: Text, "What for.";
        value: Int8, "Bytes.";
    }
    "v$sgainfo", Make::Local(sgainfo), "The same, by the field's newer names." {
        name: Text, "What for.";
        bytes: Int8, "Bytes.";
        resizeable: Text, "`No`: it cannot be changed while the instance runs.";
    }
    "v$sgastat", Make::Local(sgastat), "The same in more detail, as far as it is known." {
        pool: Text, "`shared pool`; NULL for what is allotted as a whole.";
        name: Text, "What for.";
        bytes: Int8, "Bytes.";
    }
    "v$rowcache", Make::Local(rowcache), "The dictionary's entries in memory." {
        "cache#": Int4, "Number of the row.";
        type: Text, "`PARENT`: an entry holds all that belongs to it, such as a table's columns.";
        "subordinate#": Int4, "Always NULL, for the same reason.";
        parameter: Text, "What the entries describe.";
        count: Int8, "Entries held.";
        usage: Int8, "The same: what is held can be used.";
        fixed: Int8, "Of these the dictionary's own, which are never dropped.";
        gets: Int8, "Look-ups.";
        getmisses: Int8, "Look-ups that had to read the dictionary.";
        scans: Int8, "Always 0: entries are found by their names and numbers; a list is an entry.";
        scanmisses: Int8, "Always 0, for the same reason.";
        scancompletes: Int8, "Always 0, for the same reason.";
        modifications: Int8, "Changes of entries: by DDL of this or another instance, and of sequences \
            each time that they go to the dictionary for values.";
        dlm_requests: Int8, "Rights to keep or change an entry that another instance was asked \
            for.";
        dlm_conflicts: Int8, "Rights of this instance that another one wanted.";
        dlm_releases: Int8, "Rights given back to another instance, wholly or in part.";
    }
}

fn flag(yes: bool) -> Value {
    text(if yes { "Y" } else { "N" })
}

fn buffers(instance: &Arc<Instance>, rows: &mut Rows) {
    for buffer in instance.core.cache.buffer_rows() {
        let status = match buffer.mode {
            block::Mode::X => "xcur",
            block::Mode::S => "scur",
            block::Mode::N if buffer.past_image => "pi",
            block::Mode::N => "free",
        };
        let content = buffer.content;
        rows.push(vec![
            int4(buffer.dba.file),
            int(buffer.dba.block),
            content.map_or(Value::Null, |(kind, _)| int4(kind.class())),
            content.map_or(Value::Null, |(kind, _)| text(format!("{kind:?}").to_lowercase())),
            content.map_or(Value::Null, |(_, obj)| int(obj.0)),
            text(status),
            Value::Bool(buffer.dirty),
            Value::Bool(buffer.past_image),
            int(0),
            int(0),
            int(0),
            element_address(buffer.dba),
            text(buffer.dba.to_string()),
            content.map_or(Value::Null, |(kind, _)| int4(kind.class())),
            flag(false),
            flag(buffer.past_image),
            flag(false),
            flag(false),
            flag(content.is_some_and(|(kind, _)| kind == Kind::Free)),
            int4(buffer.dba.file),
        ]);
    }
}

fn sga(instance: &Arc<Instance>, rows: &mut Rows) {
    let buffers = instance.core.cache.capacity_blocks() * BLOCK_BYTES;
    rows.push(vec![text("Database Buffers"), int(buffers)]);
    rows.push(vec![text("Redo Buffers"), int(instance.params.log_buffer())]);
}

fn sgainfo(instance: &Arc<Instance>, rows: &mut Rows) {
    let buffers = instance.core.cache.capacity_blocks() as u64 * BLOCK_BYTES as u64;
    let pool: u64 = shared_pool(instance).iter().map(|(_, bytes)| bytes).sum();
    for (name, bytes) in [
        ("Buffer Cache Size", buffers),
        ("Redo Buffers", instance.params.log_buffer()),
        ("Shared Pool Size", pool),
    ] {
        rows.push(vec![text(name), int(bytes), text("No")]);
    }
}

/// What is known of the memory for statements and the like, in bytes.
fn shared_pool(instance: &Instance) -> [(&'static str, u64); 3] {
    let (cache, observer) = (&instance.core.cache, &instance.observer);
    [
        ("buffer headers", cache.buffer_count() as u64 * kernel::cache::BUFFER_BYTES as u64),
        ("sql area", observer.statements.bytes()),
        ("ASH buffers", observer.history.bytes()),
    ]
}

fn sgastat(instance: &Arc<Instance>, rows: &mut Rows) {
    let cache = &instance.core.cache;
    let whole = [
        ("buffer_cache", cache.capacity_blocks() as u64 * BLOCK_BYTES as u64),
        ("log_buffer", instance.params.log_buffer()),
    ];
    for (name, bytes) in whole {
        rows.push(vec![Value::Null, text(name), int(bytes)]);
    }
    for (name, bytes) in shared_pool(instance) {
        rows.push(vec![text("shared pool"), text(name), int(bytes)]);
    }
}

fn rowcache(instance: &Arc<Instance>, rows: &mut Rows) {
    for (at, stat) in kernel::dict::row_cache_stats(&instance.core).into_iter().enumerate() {
        rows.push(vec![
            int4(at),
            text("PARENT"),
            Value::Null,
            text(stat.name),
            int(stat.count),
            int(stat.count),
            int(stat.fixed),
            int(stat.gets),
            int(stat.misses),
            int(0),
            int(0),
            int(0),
            int(stat.modifications),
            int(stat.requests),
            int(stat.conflicts),
            int(stat.releases),
        ]);
    }
}
