//! What `v$bh` shows of the cache: one line a buffer, each as it stood at its own moment.

use block::{Dba, Mode, ObjId, layout};

use super::pool::Cache;

/// Memory of a buffer without its block.
pub const BUFFER_BYTES: usize = size_of::<super::Buffer>();

/// A line of `v$bh`.
#[derive(Clone, Debug)]
pub struct BufferRow {
    pub dba: Dba,
    /// What the block is and to whom it belongs; `None` while its image is not here.
    pub content: Option<(layout::Kind, ObjId)>,
    pub mode: Mode,
    pub dirty: bool,
    pub past_image: bool,
}

impl Cache {
    /// Whose block it is, if it is here.
    #[must_use]
    pub fn object_at(&self, dba: Dba) -> Option<ObjId> {
        let buffer = self.lookup(dba)?;
        let state = buffer.latch().read();
        state.image.as_ref().map(|image| layout::obj(image)).filter(|obj| obj.0 > 0)
    }

    /// How many buffers there are, with those whose block is not here.
    #[must_use]
    pub fn buffer_count(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().map.len()).sum()
    }

    /// The buffers in use.
    #[must_use]
    pub fn buffer_rows(&self) -> Vec<BufferRow> {
        let row = |buffer: std::sync::Arc<super::Buffer>| {
            let state = buffer.latch().read();
            let image = state.image.as_ref();
            BufferRow {
                dba: buffer.dba,
                content: image.map(|b| (layout::kind(b), layout::obj(b))),
                mode: state.mode(),
                dirty: state.dirty,
                past_image: state.past_image.is_some(),
            }
        };
        self.buffers().into_iter().map(row).collect()
    }
}
