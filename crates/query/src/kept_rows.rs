//! Rows of a query that may be asked for again, or after its transaction: those of cursors.
//!
//! What it promises: they hold no more memory than a statement may always hold; what is more is
//! written to a temporary file, and read back a part at a time. What it must never do: go on
//! without a row that neither has room for: the query fails then.

use crate::ColumnReader;
use crate::error::{PgError, Result};
use crate::memory::Reservation;
use crate::planner::{Planner, readers};
use crate::temp_files::{TempFile, TempSpace};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::ipc::reader::StreamReader;
use datafusion::arrow::ipc::writer::StreamWriter;
use kernel::row::{Datum, Value};
use observe::Ctx;
use std::collections::VecDeque;
use std::sync::Arc;

/// Rows that have come from the query at once.
enum Part {
    Held { readers: Vec<ColumnReader>, rows: usize, bytes: usize },
    Written { offset_bytes: u64, bytes: usize, rows: usize },
    Values(Vec<Vec<Value>>),
}

impl Part {
    const fn is_written(&self) -> bool {
        matches!(self, Part::Written { .. })
    }

    fn len(&self) -> usize {
        match self {
            Part::Held { rows, .. } | Part::Written { rows, .. } => *rows,
            Part::Values(rows) => rows.len(),
        }
    }
}

/// See the module.
pub struct KeptRows {
    /// Each with the number of its first row, from 0.
    parts: VecDeque<(u64, Part)>,
    /// Rows that have come, those that are forgotten among them.
    come: u64,
    memory: Reservation,
    /// What may be held in memory, in bytes.
    held_max_bytes: usize,
    space: Arc<TempSpace>,
    ctx: Ctx,
    file: Option<Arc<TempFile>>,
    /// The part that was read back last, by its offset.
    read: Option<(u64, Vec<ColumnReader>)>,
}

/// A row, of which values are asked for by their column.
pub enum KeptRow<'a> {
    Columns { readers: &'a [ColumnReader], at: usize },
    Values(&'a [Value]),
}

impl KeptRow<'_> {
    #[must_use]
    pub fn get(&self, column: usize) -> Datum<'_> {
        match self {
            KeptRow::Columns { readers, at } => readers[column].get(*at),
            KeptRow::Values(values) => values[column].as_datum(),
        }
    }
}

fn gone() -> PgError {
    PgError::internal("a kept row that is gone")
}

impl KeptRows {
    /// Without rows yet, for the session of `ctx`.
    #[must_use]
    pub fn new(planner: &Planner, ctx: &Ctx) -> KeptRows {
        KeptRows {
            parts: VecDeque::new(),
            come: 0,
            memory: Reservation::of_session(planner.pga(), ctx, "rows of a cursor"),
            held_max_bytes: planner.pga().sure_bytes(),
            space: planner.temp_space().clone(),
            ctx: ctx.clone(),
            file: None,
            read: None,
        }
    }

    /// Rows that have come so far, those that are forgotten among them.
    #[must_use]
    pub const fn come(&self) -> u64 {
        self.come
    }

    /// Forgets parts all of whose rows stand before row `at`, counted from 0.
    pub fn forget_before(&mut self, at: u64) {
        while let Some((start, part)) = self.parts.front()
            && start + part.len() as u64 <= at
        {
            if let Some((_, Part::Held { bytes, .. })) = self.parts.pop_front() {
                self.memory.shrink(bytes);
            }
        }
        if self.file.is_some() && !self.parts.iter().any(|(_, part)| part.is_written()) {
            (self.file, self.read) = (None, None);
        }
    }

    fn add(&mut self, part: Part) {
        let start = self.come;
        self.come += part.len() as u64;
        self.parts.push_back((start, part));
    }

    /// Rows that were made one by one.
    pub fn push_values(&mut self, rows: Vec<Vec<Value>>) {
        self.add(Part::Values(rows));
    }

    /// Rows that the query has given at once.
    ///
    /// # Errors
    /// 53100, 58030 where they must be written and cannot.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        let (rows, bytes) = (batch.num_rows(), batch.get_array_memory_size());
        let fits = self.memory.bytes().saturating_add(bytes) <= self.held_max_bytes;
        if fits && self.memory.grow(bytes).is_ok() {
            self.add(Part::Held { readers: readers(batch)?, rows, bytes });
            return Ok(());
        }
        let written = written(batch)?;
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(self.space.create(&self.ctx, "rows of a cursor")?),
        };
        let offset_bytes = file.append(&written)?;
        self.add(Part::Written { offset_bytes, bytes: written.len(), rows });
        Ok(())
    }

    /// Whether [`KeptRows::get`] has a row, counted from 0, at once.
    #[must_use]
    pub fn has(&self, at: u64) -> bool {
        match self.place(at) {
            Ok((Part::Written { offset_bytes, .. }, _)) => {
                self.read.as_ref().is_some_and(|(offset, _)| offset == offset_bytes)
            }
            found => found.is_ok(),
        }
    }

    /// Sees to it that [`KeptRows::get`] has a row, counted from 0.
    ///
    /// # Errors
    /// 58030 if it cannot be read back.
    pub async fn bring(&mut self, at: u64) -> Result<()> {
        if self.has(at) {
            return Ok(());
        }
        let &Part::Written { offset_bytes, bytes, .. } = self.place(at)?.0 else { return Ok(()) };
        let file = self.file.clone().ok_or_else(gone)?;
        let batch = read_back(&file.read(offset_bytes, bytes).await?)?;
        self.read = Some((offset_bytes, readers(&batch)?));
        Ok(())
    }

    /// A row that [`KeptRows::bring`] has seen to.
    ///
    /// # Errors
    /// XX000 for any other one.
    pub fn get(&self, at: u64) -> Result<KeptRow<'_>> {
        let (part, at) = self.place(at)?;
        match part {
            Part::Held { readers, .. } => Ok(KeptRow::Columns { readers, at }),
            Part::Values(rows) => Ok(KeptRow::Values(&rows[at])),
            Part::Written { offset_bytes, .. } => match &self.read {
                Some((offset, readers)) if offset == offset_bytes => {
                    Ok(KeptRow::Columns { readers, at })
                }
                _ => Err(gone()),
            },
        }
    }

    /// The part that has a row, and the row's place in it.
    fn place(&self, at: u64) -> Result<(&Part, usize)> {
        let behind = self.parts.partition_point(|(start, _)| *start <= at);
        let (start, part) = self.parts.get(behind.wrapping_sub(1)).ok_or_else(gone)?;
        let within = usize::try_from(at - start).unwrap_or(usize::MAX);
        if within < part.len() { Ok((part, within)) } else { Err(gone()) }
    }
}

/// A batch as a stream of Arrow's, with its schema.
fn written(batch: &RecordBatch) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut writer = StreamWriter::try_new(&mut out, batch.schema_ref()).map_err(broken)?;
    writer.write(batch).map_err(broken)?;
    writer.finish().map_err(broken)?;
    drop(writer);
    Ok(out)
}

fn read_back(bytes: &[u8]) -> Result<RecordBatch> {
    let mut stream = StreamReader::try_new(bytes, None).map_err(broken)?;
    stream.next().ok_or_else(gone)?.map_err(broken)
}

fn broken(e: datafusion::arrow::error::ArrowError) -> PgError {
    PgError::internal(format!("rows of a cursor in a temporary file: {e}"))
}
