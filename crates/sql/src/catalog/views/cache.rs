//! What this instance keeps in memory: blocks, and entries of the dictionary.

use super::int4;
use super::registry::{Make, views};
use crate::catalog::rows::Shape::{Bool, Int4, Int8, Text};
use crate::catalog::rows::{Rows, int, text};
use block::BLOCK_BYTES;
use kernel::instance::Instance;
use kernel::row::Value;
use std::sync::Arc;

views! {
    "v$bh", Make::Local(buffers), "Buffers of the block cache that are in use." {
        file_no: Int4, "The data file.";
        block_no: Int8, "The block in it.";
        class: Text, "What the block is; NULL while its image is not here.";
        objd: Int8, "The object that it belongs to.";
        status: Text, "`xcur`: here to be changed; `scur`: to be read, perhaps elsewhere too; \
            `pi`: only an image of the past; `free`: none.";
        dirty: Bool, "Whether the block is newer than on disk.";
        past_image: Bool, "Whether an image of the past is kept.";
    }
    "v$sga", Make::Local(sga), "Memory that the instance has for all its sessions." {
        name: Text, "What for.";
        value: Int8, "Bytes.";
    }
    "v$rowcache", Make::Local(rowcache), "The dictionary's entries in memory." {
        cache_no: Int4, "Number of the row.";
        parameter: Text, "What the entries describe.";
        count: Int8, "Entries held.";
        gets: Int8, "Look-ups.";
        getmisses: Int8, "Look-ups that had to read the dictionary.";
        modifications: Int8, "Entries that a change on this or another instance made old.";
    }
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
            content.map_or(Value::Null, |(kind, _)| text(format!("{kind:?}").to_lowercase())),
            content.map_or(Value::Null, |(_, obj)| int(obj.0)),
            text(status),
            Value::Bool(buffer.dirty),
            Value::Bool(buffer.past_image),
        ]);
    }
}

fn sga(instance: &Arc<Instance>, rows: &mut Rows) {
    let buffers = instance.core.cache.capacity_blocks() * BLOCK_BYTES;
    rows.push(vec![text("Database Buffers"), int(buffers)]);
    rows.push(vec![text("Redo Buffers"), int(instance.params.log_buffer())]);
}

fn rowcache(instance: &Arc<Instance>, rows: &mut Rows) {
    for (at, stat) in kernel::dict::row_cache_stats(&instance.core).into_iter().enumerate() {
        rows.push(vec![
            int4(at),
            text(stat.name),
            int(stat.count),
            int(stat.gets),
            int(stat.misses),
            int(stat.modifications),
        ]);
    }
}
