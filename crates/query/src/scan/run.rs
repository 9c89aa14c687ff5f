//! A scan at work: from keys and blocks to batches.

use super::access::Access;
use super::filter::Filter;
use super::{BATCH_BYTES, BATCH_ROWS, ROWS_PER_CHECK, ScanWork};
use crate::arrow_rows::RowBatchBuilder;
use crate::cast::{CastMode, cast};
use crate::error::{PgError, Result};
use crate::explain::{PartBegun, Parts};
use crate::gather::Share;
use crate::memory::scan_memory;
use crate::scalar::{EvalContext, Scalar, item_count};
use crate::state::{ExecState, SharedState};
use crate::store;
use block::Rowid;
use datafusion::arrow::array::RecordBatch;
use datafusion::execution::memory_pool::MemoryPool;
use kernel::dict::IndexDef;
use kernel::row::{
    ArrayView, ColType, Datum, KeyOrder, RowView, TypeKind, Value, decode_ordered_prefix,
    encode_ordered, encode_row, key_values_begin, key_values_end,
};
use std::ops::Bound;
use std::sync::Arc;

/// Blocks that a reader among others reads without a pause.
const BLOCKS_PER_PAUSE: u64 = 8;

/// Where a running scan gets its next rows.
enum Cursor {
    Start,
    Full(store::FullScan),
    Range {
        scan: store::RangeScan,
        batch: store::Entries,
        at: usize,
        /// The blocks of the entries before this one have been brought here.
        brought: usize,
    },
    /// Unique keys still to look up, last first.
    Unique {
        index: Arc<IndexDef>,
        keys: Vec<Vec<u8>>,
    },
    /// Ranges still to open, last first.
    Ranges {
        index: Arc<IndexDef>,
        keys: Vec<Vec<u8>>,
    },
    Given(usize),
    End,
}

/// What the rows of a scan are given to.
pub(crate) trait Taker: Send {
    /// # Errors
    /// What the taker finds wrong.
    fn take(&mut self, rowid: Rowid, row: &[u8], view: &RowView<'_>) -> Result<()>;
    /// Rows it holds or has passed on, as the scan's limit counts them.
    fn rows(&self) -> usize;
    /// Rows of whose values none is asked for; `false`: it does ask.
    fn take_count(&mut self, _rows: u64) -> bool {
        false
    }
}

impl Taker for RowBatchBuilder {
    fn take_count(&mut self, rows: u64) -> bool {
        self.count(rows)
    }

    fn take(&mut self, rowid: Rowid, row: &[u8], view: &RowView<'_>) -> Result<()> {
        self.append(rowid, row, view)
    }

    fn rows(&self) -> usize {
        self.len()
    }
}

pub(crate) struct ScanRun<T> {
    work: Arc<ScanWork>,
    state: SharedState,
    taker: T,
    cursor: Cursor,
    /// Ranges that follow the one being read.
    later: Option<(Arc<IndexDef>, Vec<Vec<u8>>)>,
    produced: usize,
    row: Vec<u8>,
    /// Set if the entries of an index are read instead of rows.
    entries: Option<EntryRows>,
    backward: bool,
    /// Which of several accesses is read.
    branch: usize,
    /// Whether the range of keys says all that its filters say.
    exact: bool,
    /// Whether entries are counted, not looked at.
    counts: bool,
    /// Of those counted, what has not been handed on.
    counted: u64,
    filter: Filter,
    /// Rows of one block to read together.
    slots: Vec<u16>,
    /// Set if others read parts of the table.
    share: Option<Arc<Share>>,
    /// Blocks read so far, of a shared scan.
    blocks: u64,
    /// Where it tells what reading its indexes took.
    parts: Option<Parts>,
    /// Of what its full scans take what they hold ahead, if it is a step of a statement.
    pool: Option<Arc<dyn MemoryPool>>,
}

/// Filters one row and hands it to the taker; false if the filters drop it.
pub(crate) fn accept(
    work: &ScanWork,
    filter: &Filter,
    state: &ExecState,
    taker: &mut impl Taker,
    rowid: Rowid,
    row: &[u8],
) -> Result<bool> {
    let view = RowView::new(&work.table.types, row);
    if !filter.keeps(&view, state)? {
        return Ok(false);
    }
    taker.take(rowid, row, &view)?;
    Ok(true)
}

/// Makes rows of index entries: the columns of the key, NULL in the others.
struct EntryRows {
    index: Arc<IndexDef>,
    types: Vec<ColType>,
    values: Vec<Value>,
}

impl EntryRows {
    fn new(index: &Arc<IndexDef>, types: &[ColType]) -> EntryRows {
        let types = index.columns.iter().map(|c| types[usize::from(*c)]).collect();
        EntryRows { index: index.clone(), types, values: Vec::new() }
    }

    /// # Errors
    /// The entry is not of this index.
    fn row(&mut self, key: &[u8], types: &[ColType], row: &mut Vec<u8>) -> Result<()> {
        self.values.clear();
        decode_ordered_prefix(&self.types, self.index.orders(), key, &mut self.values)
            .map_err(|error| PgError::internal(format!("index {}: {error}", self.index.name)))?;
        let mut datums = vec![Datum::Null; types.len()];
        for (value, column) in self.values.iter().zip(&self.index.columns) {
            datums[usize::from(*column)] = value.as_datum();
        }
        row.clear();
        encode_row(types, &datums, row);
        Ok(())
    }
}

impl ScanRun<RowBatchBuilder> {
    /// A scan that makes batches.
    pub(super) fn batches(work: Arc<ScanWork>, state: SharedState) -> ScanRun<RowBatchBuilder> {
        let builder = RowBatchBuilder::new(&work.types, &work.sources, work.schema.clone());
        ScanRun::new(work, state, builder)
    }

    fn is_full(&self) -> bool {
        let limit = self.work.limit.unwrap_or(usize::MAX);
        self.taker.len() >= BATCH_ROWS
            || self.taker.bytes() >= BATCH_BYTES
            || self.produced + self.taker.len() >= limit
    }

    pub(super) async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let limit = self.work.limit.unwrap_or(usize::MAX);
        while !self.is_at_end() && !self.is_full() && self.produced < limit {
            self.step().await?;
        }
        if self.taker.is_empty() {
            return Ok(None);
        }
        let mut batch = self.taker.finish()?;
        if self.produced + batch.num_rows() > limit {
            batch = batch.slice(0, limit - self.produced);
        }
        self.produced += batch.num_rows();
        Ok(Some(batch))
    }
}

impl<T: Taker> ScanRun<T> {
    pub(crate) fn new(work: Arc<ScanWork>, state: SharedState, taker: T) -> ScanRun<T> {
        let entries = work.only_index().map(|index| EntryRows::new(index, &work.types));
        ScanRun {
            work,
            state,
            taker,
            cursor: Cursor::Start,
            later: None,
            produced: 0,
            row: Vec::new(),
            entries,
            backward: false,
            branch: 0,
            exact: false,
            counts: false,
            counted: 0,
            filter: Filter::default(),
            slots: Vec::new(),
            share: None,
            blocks: 0,
            parts: None,
            pool: None,
        }
    }

    /// The same, of a table that others read parts of.
    pub(super) fn sharing(mut self, share: Option<Arc<Share>>) -> ScanRun<T> {
        self.share = share;
        self
    }

    /// The same, which tells there what reading its indexes takes.
    pub(super) fn telling(mut self, parts: Option<Parts>) -> ScanRun<T> {
        self.parts = parts;
        self
    }

    /// The same, as a step of a statement that has this memory.
    pub(super) fn within(mut self, pool: &Arc<dyn MemoryPool>) -> ScanRun<T> {
        self.pool = Some(pool.clone());
        self
    }

    fn full(&self, scan: store::FullScan) -> Cursor {
        Cursor::Full(match &self.pool {
            Some(pool) => scan.within(scan_memory(pool)),
            None => scan,
        })
    }

    pub(crate) fn taker(&mut self) -> &mut T {
        &mut self.taker
    }

    pub(crate) fn is_at_end(&self) -> bool {
        matches!(self.cursor, Cursor::End)
    }

    /// Of several accesses the one at hand begins or goes on; `None`: that is told nowhere.
    fn branch_begun(&self) -> Option<PartBegun> {
        let (table, _) = self.parts.as_ref()?.branches.get(self.branch)?.table.as_ref()?;
        let ctx = &self.state.ctx;
        Some(match self.cursor {
            Cursor::Start => PartBegun::start(table, ctx),
            _ => PartBegun::again(table, ctx),
        })
    }

    /// The next access begins where one has ended.
    fn next_branch(&mut self) {
        // Rows that are given are looked at once.
        if self.work.target && self.state.target.is_some() {
            return;
        }
        if let (Access::Any { branches }, Cursor::End) = (&self.work.access, &self.cursor)
            && self.branch + 1 < branches.len()
        {
            self.branch += 1;
            self.cursor = Cursor::Start;
        }
    }

    /// Reads on: the rows of a block, or as many entries as may be looked at between two looks at
    /// the cancel flag. Some more rows than the limit may come.
    pub(crate) async fn step(&mut self) -> Result<()> {
        let (begun, before) = (self.branch_begun(), self.taker.rows());
        self.read_on().await?;
        if let Some(begun) = begun {
            begun.end(&self.state.ctx, self.taker.rows().saturating_sub(before) as u64);
        }
        self.next_branch();
        Ok(())
    }

    async fn read_on(&mut self) -> Result<()> {
        self.state.ctx.check_interrupt()?;
        let (work, state, branch) = (self.work.clone(), self.state.clone(), self.branch);
        let filter = &self.filter;
        match &mut self.cursor {
            Cursor::Start => {
                self.open().await?;
                self.filter = match &work.access {
                    Access::Any { branches } if !matches!(self.cursor, Cursor::Given(_)) => {
                        let own = &branches[self.branch].filters;
                        let all: Vec<Scalar> = work.filters.iter().chain(own).cloned().collect();
                        Filter::new(&all, &work.types, &state)
                    }
                    _ if self.exact => Filter::new(&work.unsaid, &work.types, &state),
                    _ => Filter::new(&work.filters, &work.types, &state),
                };
                if !work.target {
                    self.filter.look_for(&work.probes, &state);
                }
                let ranged = matches!(self.cursor, Cursor::Range { .. });
                self.counts =
                    ranged && self.exact && work.counts_rows() && self.taker.take_count(0);
            }
            Cursor::Full(scan) => {
                let taker = &mut self.taker;
                let (mut failed, quick) = (None, filter.quick());
                let more = scan
                    .next_block(&state.ctx, |rowid, row| {
                        if !quick.drops(row) && failed.is_none() {
                            failed = accept(&work, filter, &state, taker, rowid, row).err();
                        }
                    })
                    .await?;
                if let Some(error) = failed {
                    return Err(error);
                }
                match &self.share {
                    None if more => {}
                    None => self.cursor = Cursor::End,
                    Some(share) => {
                        if !more {
                            let next = share.next(&state.ctx, &work.table, &state.snapshot).await?;
                            self.cursor = next.map_or(Cursor::End, |scan| self.full(scan));
                        }
                        self.blocks += 1;
                        if self.blocks.is_multiple_of(BLOCKS_PER_PAUSE) {
                            // Others have work to do on the same threads.
                            tokio::task::yield_now().await;
                        }
                    }
                }
            }
            Cursor::Range { scan, .. } if self.counts => {
                if self.counted == 0 {
                    let part = self.parts.as_ref().map(|parts| &parts.index);
                    let Some(rows) = scan.count_watched(&state.ctx, part).await? else {
                        self.next_range();
                        return Ok(());
                    };
                    self.counted = rows;
                }
                let rows = self.counted.min(BATCH_ROWS as u64);
                self.counted -= rows;
                if !self.taker.take_count(rows) {
                    return Err(PgError::internal("rows are counted for one who reads them"));
                }
            }
            Cursor::Range { scan, batch, at, brought } => {
                if *at == batch.rowids().len() {
                    (*at, *brought) = (0, 0);
                    let part = self.parts.as_ref().map(|parts| &parts.of_branch(branch).index);
                    if !scan.next_watched(&state.ctx, batch, part).await? {
                        self.next_range();
                        return Ok(());
                    }
                }
                let limit = work.limit.unwrap_or(usize::MAX).saturating_sub(self.produced);
                let taker = &mut self.taker;
                if let Some(entries) = &mut self.entries {
                    let stop = batch.rowids().len().min(*at + ROWS_PER_CHECK);
                    while *at < stop && taker.rows() < limit {
                        entries.row(batch.key(*at), &work.types, &mut self.row)?;
                        accept(&work, filter, &state, taker, batch.rowids()[*at], &self.row)?;
                        *at += 1;
                    }
                    return Ok(());
                }
                if *at >= *brought {
                    let ahead = store::bring(&state.ctx, &state.snapshot, batch, *at, limit.max(1));
                    *brought = env::boxed!(ahead).await?;
                }
                // Entries of neighbouring keys often point into one block.
                let Some(dba) = batch.run(*at, ROWS_PER_CHECK, &mut self.slots) else {
                    return Ok(());
                };
                let mut failed = None;
                let rowids = &batch.rowids()[*at..];
                let slots = &self.slots;
                let fetched = store::fetch_block(
                    &state.ctx,
                    &work.table,
                    dba,
                    slots,
                    &state.snapshot,
                    |i, row| {
                        failed = accept(&work, filter, &state, taker, rowids[i], row).err();
                        failed.is_none() && taker.rows() < limit
                    },
                );
                fetched.await?;
                *at += self.slots.len();
                if let Some(error) = failed {
                    return Err(error);
                }
            }
            Cursor::Unique { index, keys } => {
                let Some(key) = keys.pop() else {
                    self.cursor = Cursor::End;
                    return Ok(());
                };
                let (ctx, row) = (&state.ctx, &mut self.row);
                let part = self.parts.as_ref().map(|parts| &parts.of_branch(branch).index);
                let (table, snapshot) = (&work.table, &state.snapshot);
                let found = store::unique_lookup(ctx, table, index, &key, snapshot, row, part);
                if let Some(rowid) = found.await? {
                    accept(&work, filter, &state, &mut self.taker, rowid, row)?;
                }
            }
            Cursor::Ranges { index, keys } => {
                let Some(key) = keys.pop() else {
                    self.cursor = Cursor::End;
                    return Ok(());
                };
                self.later = Some((index.clone(), std::mem::take(keys)));
                let index = index.clone();
                self.open_prefix(&index, &key);
            }
            Cursor::Given(at) => {
                let rows = state.target.as_ref().map_or(&[][..], |target| &target.rows);
                for (rowid, row) in &rows[*at..] {
                    accept(&work, filter, &state, &mut self.taker, *rowid, row)?;
                }
                self.cursor = Cursor::End;
            }
            Cursor::End => {}
        }
        Ok(())
    }

    fn next_range(&mut self) {
        self.cursor = match self.later.take() {
            Some((index, keys)) => Cursor::Ranges { index, keys },
            None => Cursor::End,
        };
    }

    fn open_prefix(&mut self, index: &IndexDef, key: &[u8]) {
        self.open_range(index, Bound::Included(key), Bound::Included(key));
    }

    /// Bounds are prefixes and stand for all keys that begin with them.
    fn open_range(&mut self, index: &IndexDef, from: Bound<&[u8]>, to: Bound<&[u8]>) {
        let state = &self.state;
        let scan = store::range_scan(&state.ctx, index, from, to, self.backward, &state.snapshot);
        if let Some(parts) = &self.parts {
            parts.of_branch(self.branch).index.lock().loops += 1;
        }
        self.cursor = Cursor::Range {
            scan,
            batch: store::Entries::new(self.entries.is_some()),
            at: 0,
            brought: 0,
        };
    }

    async fn open(&mut self) -> Result<()> {
        if let Some(param) = self.work.as_of {
            self.state = Arc::new(self.state.as_of(param)?);
        }
        let (work, state) = (self.work.clone(), self.state.clone());
        if work.target && state.target.is_some() {
            self.cursor = Cursor::Given(0);
            return Ok(());
        }
        let (access, is_alone) = match &work.access {
            Access::Any { branches } => (&branches[self.branch].access, false),
            one => (one, true),
        };
        match access {
            Access::Full => {
                let (ctx, snapshot) = (&state.ctx, &state.snapshot);
                self.cursor = match &self.share {
                    Some(share) => {
                        let first = share.next(ctx, &work.table, snapshot).await?;
                        first.map_or(Cursor::End, |scan| self.full(scan))
                    }
                    None => {
                        let scan = store::full_scan(ctx, &work.table, snapshot).await?;
                        self.full(scan)
                    }
                };
            }
            Access::Keys { index, keys } => {
                let cx = EvalContext { row: None, params: &state.params, env: &state.env };
                let mut encoded = Vec::with_capacity(item_count(keys, 0));
                let mut exact = true;
                let mut add = |item: &Datum<'_>| {
                    encoded.extend(encode_one(&work, &state, index, item, &mut exact)?);
                    Ok::<(), PgError>(())
                };
                for key in keys {
                    let value = key.eval(&cx)?;
                    match (key, value.datum()) {
                        (Scalar::Each(_), Datum::Array(bytes)) => {
                            for item in ArrayView::new(bytes).iter() {
                                add(&item)?;
                            }
                        }
                        (_, datum) => add(&datum)?,
                    }
                }
                self.exact = exact;
                encoded.sort_unstable();
                encoded.dedup();
                encoded.reverse();
                let index = index.clone();
                self.cursor = if index.unique {
                    Cursor::Unique { index, keys: encoded }
                } else {
                    Cursor::Ranges { index, keys: encoded }
                };
            }
            Access::Any { .. } => return Err(PgError::internal("alternatives of alternatives")),
            Access::Bits(found) => {
                let parts = self.parts.as_ref();
                let begun = parts.map(|parts| PartBegun::start(&parts.index, &state.ctx));
                let told = parts.map_or(&[][..], |parts| &parts.sets[..]);
                let read = found.bits.read(&work, &state, told).await?;
                if let Some(begun) = begun {
                    begun.end(&state.ctx, 0);
                }
                let Some((rows, exact)) = read else {
                    let scan = store::full_scan(&state.ctx, &work.table, &state.snapshot).await?;
                    self.cursor = self.full(scan);
                    return Ok(());
                };
                self.exact = exact;
                let (scan, batch) = (store::row_scan(rows), store::Entries::new(false));
                self.cursor = Cursor::Range { scan, batch, at: 0, brought: 0 };
            }
            Access::Range { index, equal, lower, upper, backward } => {
                self.backward = *backward;
                let bounds = (lower.as_ref(), upper.as_ref());
                match self.open_keys(index, equal, bounds) {
                    // The condition is an error for each row that meets the others, if there is
                    // one: no row comes of the scan, so that its order does not matter.
                    Err(error) if is_alone && error.code.starts_with("22") => {
                        self.exact = false;
                        let scan = store::full_scan(&state.ctx, &work.table, &state.snapshot);
                        let scan = scan.await?;
                        self.cursor = self.full(scan);
                    }
                    opened => opened?,
                }
            }
        }
        Ok(())
    }

    /// Opens a range of keys that begin with these values.
    fn open_keys(
        &mut self,
        index: &Arc<IndexDef>,
        equal: &[Scalar],
        (lower, upper): (Option<&Scalar>, Option<&Scalar>),
    ) -> Result<()> {
        let mut exact = true;
        let Some(key) = encode_values(&self.work, &self.state, index, equal, &mut exact)? else {
            self.cursor = Cursor::End;
            return Ok(());
        };
        self.exact = exact;
        if index.unique && equal.len() == index.columns.len() {
            self.cursor = Cursor::Unique { index: index.clone(), keys: vec![key] };
            return Ok(());
        }
        self.open_bounds(index, key, lower, upper, equal.len())
    }

    fn open_bounds(
        &mut self,
        index: &IndexDef,
        prefix: Vec<u8>,
        lower: Option<&Scalar>,
        upper: Option<&Scalar>,
        position: usize,
    ) -> Result<()> {
        let table = &self.work.table;
        let column = index.columns.get(position).map(|c| index.part_type(table, *c));
        let mut from = prefix.clone();
        let mut to = prefix;
        let mut exact = self.exact;
        let bounded = lower.is_some() || upper.is_some();
        let bounds = match index.order(position).descending {
            false => [lower, upper],
            true => [upper, lower],
        };
        let mut ends = false;
        for (at, (bound, key)) in bounds.into_iter().zip([&mut from, &mut to]).enumerate() {
            let value = match (bound, column) {
                (Some(bound), Some(column)) => self.key_value(bound, column, &mut exact)?,
                _ => KeyValue::None,
            };
            match value {
                KeyValue::Value(value) => {
                    index.encode(position, &value.as_datum(), key);
                }
                KeyValue::Null => {
                    self.cursor = Cursor::End;
                    return Ok(());
                }
                // NULL is in no range, wherever it stands.
                KeyValue::None if bounded && at == 0 => key_values_begin(key),
                KeyValue::None if bounded => {
                    key_values_end(key);
                    ends = true;
                }
                KeyValue::None => {}
            }
        }
        self.exact = exact;
        let to = if ends { Bound::Excluded(&*to) } else { Bound::Included(&*to) };
        self.open_range(index, Bound::Included(&from), to);
        Ok(())
    }

    fn key_value(&self, scalar: &Scalar, ty: ColType, exact: &mut bool) -> Result<KeyValue> {
        let cx = EvalContext { row: None, params: &self.state.params, env: &self.state.env };
        let value = scalar.eval(&cx)?;
        *exact &= is_exact(&value.datum(), ty);
        key_value(&value.datum(), ty, &self.state)
    }
}

/// The key of the first columns of an index; `None` if no row can have it.
pub(crate) fn encode_values(
    work: &ScanWork,
    state: &ExecState,
    index: &IndexDef,
    values: &[Scalar],
    exact: &mut bool,
) -> Result<Option<Vec<u8>>> {
    let cx = EvalContext { row: None, params: &state.params, env: &state.env };
    let mut key = Vec::with_capacity(16);
    for (at, (value, column)) in values.iter().zip(&index.columns).enumerate() {
        let value = value.eval(&cx)?;
        let ty = index.part_type(&work.table, *column);
        *exact &= is_exact(&value.datum(), ty);
        match key_value(&value.datum(), ty, state)? {
            KeyValue::Value(value) => index.encode(at, &value.as_datum(), &mut key),
            KeyValue::Null | KeyValue::None => return Ok(None),
        };
    }
    Ok(Some(key))
}

/// The key of a value of the first column; `None` if no row can have it. `exact` stays if the key
/// is found where the value is equal, and nowhere else.
fn encode_one(
    work: &ScanWork,
    state: &ExecState,
    index: &IndexDef,
    value: &Datum<'_>,
    exact: &mut bool,
) -> Result<Option<Vec<u8>>> {
    let Some(column) = index.columns.first() else { return Ok(None) };
    let mut key = Vec::with_capacity(16);
    let ty = index.part_type(&work.table, *column);
    // Nothing is equal to NULL.
    *exact &= value.is_null() || is_exact(value, ty);
    Ok(append_key(value, (ty, index.order(0)), state, &mut key)?.then_some(key))
}

/// Appends a value to a key of a column of that type, whose values stand in that order; false if no
/// row can have it.
pub(crate) fn append_key(
    datum: &Datum<'_>,
    (ty, order): (ColType, KeyOrder),
    state: &ExecState,
    key: &mut Vec<u8>,
) -> Result<bool> {
    let own = matches!(
        (datum, ty.kind),
        (Datum::Int2(_), TypeKind::Int2)
            | (Datum::Int4(_), TypeKind::Int4)
            | (Datum::Int8(_), TypeKind::Int8)
            | (Datum::Date(_), TypeKind::Date)
            | (Datum::Uuid(_), TypeKind::Uuid)
    );
    if own {
        encode_ordered(datum, order, key);
        return Ok(true);
    }
    // The others may have to be brought to the column's form.
    match key_value(datum, ty, state)? {
        KeyValue::Value(value) => {
            encode_ordered(&value.as_datum(), order, key);
            Ok(true)
        }
        KeyValue::Null | KeyValue::None => Ok(false),
    }
}

/// Whether keys compare with the key of this value as the column's values compare with it: it is
/// of the column's type, or a whole number that the column can hold.
pub(super) fn is_exact(datum: &Datum<'_>, ty: ColType) -> bool {
    match (datum, ty.kind) {
        (Datum::Int2(_), TypeKind::Int2 | TypeKind::Int4 | TypeKind::Int8)
        | (Datum::Int4(_), TypeKind::Int4 | TypeKind::Int8)
        | (Datum::Int8(_), TypeKind::Int8)
        | (Datum::Text(_), TypeKind::Text | TypeKind::Varchar)
        | (Datum::Date(_), TypeKind::Date)
        | (Datum::Timestamp(_), TypeKind::Timestamp)
        | (Datum::Timestamptz(_), TypeKind::Timestamptz)
        | (Datum::Uuid(_), TypeKind::Uuid)
        | (Datum::Enum(_), TypeKind::Enum)
        | (Datum::Bool(_), TypeKind::Bool) => true,
        // Keys forget how many zeros are at a number's end, which values do not compare.
        (
            Datum::Numeric(..) | Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_),
            TypeKind::Numeric,
        ) => true,
        (Datum::Numeric(v, scale), _) => {
            let unit = 10i128.checked_pow(u32::from(*scale));
            let whole = unit.filter(|unit| v % unit == 0).map(|unit| v / unit);
            whole.is_some_and(|whole| match ty.kind {
                TypeKind::Int2 => i16::try_from(whole).is_ok(),
                TypeKind::Int4 => i32::try_from(whole).is_ok(),
                TypeKind::Int8 => i64::try_from(whole).is_ok(),
                _ => false,
            })
        }
        (Datum::Int4(v), TypeKind::Int2) => i16::try_from(*v).is_ok(),
        (Datum::Int8(v), TypeKind::Int4) => i32::try_from(*v).is_ok(),
        (Datum::Int8(v), TypeKind::Int2) => i16::try_from(*v).is_ok(),
        _ => false,
    }
}

/// The value in the column's type. One that the type cannot hold gives no bound, and equals no
/// row.
pub(super) fn key_value(datum: &Datum<'_>, ty: ColType, state: &ExecState) -> Result<KeyValue> {
    if datum.is_null() {
        return Ok(KeyValue::Null);
    }
    let ty = ty.without_limit();
    // Blanks that a comparison with char(n) ignores have been taken off: the others count.
    if ty.kind == TypeKind::Char && matches!(datum, Datum::Text(_)) {
        return Ok(KeyValue::Value(datum.to_value()));
    }
    if let Datum::Float8(v) = datum
        && !v.is_finite()
        && !matches!(ty.kind, TypeKind::Float4 | TypeKind::Float8)
    {
        return Ok(KeyValue::None);
    }
    match cast(datum, ty, CastMode::Explicit, &state.env) {
        Ok(value) => Ok(KeyValue::Value(value)),
        Err(error) if error.code == "22003" => Ok(KeyValue::None),
        Err(error) => Err(error),
    }
}

pub(super) enum KeyValue {
    Value(Value),
    Null,
    None,
}
