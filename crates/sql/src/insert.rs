//! INSERT: rows given one by one, in numbers, or by a query.
//!
//! What it promises: rows that come in numbers reach the kernel in batches of bounded size; what is
//! wrong with a row is reported as if the rows had been written one by one.

use crate::check::has_rules;
use crate::conflict::Written;
use crate::dml::{Output, encode_checked, row_error, types};
use crate::encode::{RowEncoder, RowSink};
use crate::plan::{Direct, InsertSelect};
use crate::session::Session;
use crate::{PgError, Result};
use block::Rowid;
use block::bytes::ByteList;
use kernel::dict::TableDef;
use kernel::row::{Datum, RowView, Value};
use kernel::table;
use kernel::txn::{Snapshot, Transaction};
use query::ColumnReader;
use query::Scalar;
use query::cast::{CastMode, cast};
use query::scalar::{EvalContext, Val};
use query::wire::FormatEnv;
use std::sync::Arc;

/// Rows a batch holds at most.
const BATCH_ROWS_MAX: usize = 2_000;
/// Bytes of rows at which a batch is written.
const BATCH_BYTES_MAX: usize = 256 << 10;

/// Rows waiting to be written together.
#[derive(Default)]
pub(crate) struct RowBatch {
    pub(crate) rows: ByteList,
    rowids: Vec<Rowid>,
}

impl RowBatch {
    pub(crate) fn is_full(&self) -> bool {
        self.rows.len() >= BATCH_ROWS_MAX || self.rows.total_bytes() >= BATCH_BYTES_MAX
    }

    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.rowids.clear();
    }
}

impl Session {
    /// Writes the rows of a batch, which stays as it is.
    pub(crate) async fn write_batch(
        &mut self,
        txn: &Arc<Transaction>,
        table: &TableDef,
        batch: &mut RowBatch,
    ) -> kernel::Result<()> {
        let RowBatch { rows, rowids } = batch;
        match rows.len() {
            0 => Ok(()),
            1 => {
                rowids.clear();
                rowids.push(table::insert(&self.ctx, txn, table, rows.get(0)).await?);
                Ok(())
            }
            _ => table::insert_many(&self.ctx, txn, table, rows, rowids).await,
        }
    }

    /// The same for rows that the table had in another form.
    pub(crate) async fn refill_batch(
        &mut self,
        txn: &Arc<Transaction>,
        table: &TableDef,
        batch: &mut RowBatch,
    ) -> kernel::Result<()> {
        let RowBatch { rows, rowids } = batch;
        table::refill_many(&self.ctx, txn, table, rows, rowids).await
    }

    // ---- INSERT … VALUES

    pub(crate) async fn direct_insert(
        &mut self,
        direct: &Direct,
        params: &[Value],
        mut encoder: RowEncoder,
        sink: &mut dyn RowSink,
    ) -> Result<String> {
        let Direct::Insert { table, rows, conflict, returning } = direct else {
            return Err(PgError::internal("no INSERT"));
        };
        let (txn, env) = (self.transaction()?, self.format_env());
        let (mut count, mut written) = (0usize, Written::default());
        let mut batch = (conflict.is_none() && rows.len() > 1).then(RowBatch::default);
        for row in rows {
            let made = self.make_row(table, row, params, &env).await;
            if let Some(batch) = &mut batch {
                if made.is_ok() {
                    batch.rows.push(&self.row);
                }
                // What is wrong with the rows before comes first.
                if made.is_err() || batch.is_full() {
                    self.write_batch(&txn, table, batch).await.map_err(|e| row_error(e, table))?;
                    made?;
                    count += batch.rows.len();
                    let given = batch.rows.iter();
                    return_rows(
                        table,
                        returning.as_deref(),
                        given,
                        (params, &env),
                        &mut encoder,
                        sink,
                    )?;
                    batch.clear();
                }
                continue;
            }
            made?;
            if let Some(clause) = conflict {
                let mut row = std::mem::take(&mut self.row);
                let done =
                    env::boxed!(self.upsert(table, clause, params, &mut row, &mut written)).await;
                self.row = row;
                if done?.is_none() {
                    continue;
                }
            } else {
                table::insert(&self.ctx, &txn, table, &self.row)
                    .await
                    .map_err(|error| row_error(error, table))?;
            }
            count += 1;
            let given = std::iter::once(self.row.as_slice());
            return_rows(table, returning.as_deref(), given, (params, &env), &mut encoder, sink)?;
        }
        if let Some(mut batch) = batch {
            self.write_batch(&txn, table, &mut batch).await.map_err(|e| row_error(e, table))?;
            count += batch.rows.len();
            let given = batch.rows.iter();
            return_rows(table, returning.as_deref(), given, (params, &env), &mut encoder, sink)?;
        }
        self.note_rows(table, count);
        Ok(format!("INSERT 0 {count}"))
    }

    /// Leaves the row with these values, complete and checked, in `self.row`.
    async fn make_row(
        &mut self,
        table: &Arc<TableDef>,
        row: &[Scalar],
        params: &[Value],
        env: &FormatEnv,
    ) -> Result<()> {
        {
            let cx = EvalContext { row: None, params, env };
            let mut values: Vec<Val<'_>> = Vec::with_capacity(row.len());
            for scalar in row {
                values.push(scalar.eval(&cx)?);
            }
            let datums: Vec<Datum<'_>> = values.iter().map(Val::datum).collect();
            encode_checked(table, &datums, &mut self.row)?;
        }
        self.complete_own_row(table).await
    }

    // ---- INSERT … SELECT

    pub(crate) async fn run_insert_select(
        &mut self,
        plan: &InsertSelect,
        params: Vec<Value>,
        encoder: RowEncoder,
        sink: &mut dyn RowSink,
    ) -> Result<String> {
        self.check_writable("INSERT")?;
        let table = &plan.table;
        let mut output = Output::new(plan.returning.as_ref(), params.clone(), encoder);
        let state = self.exec_state(params).await?;
        let snapshot = state.snapshot.clone();
        let mut calculated = match self.measuring {
            // It has steps then.
            Some(_) => None,
            None => self.calculated(&plan.query, &state.params)?,
        };
        let mut stream = match calculated {
            Some(_) => None,
            None => Some(self.open_measured(&plan.query, state.clone()).await?),
        };
        let (mut count, mut written) = (0usize, Written::default());
        let mut values: Vec<Value> = vec![Value::Null; table.columns.len()];
        let (mut batch, mut row) = (RowBatch::default(), Vec::new());
        loop {
            let found = match &mut stream {
                Some(stream) => self.next_batch(stream).await.transpose()?,
                None => calculated.take(),
            };
            let Some(found) = found else { break };
            let readers = query::planner::readers(&found)?;
            for i in 0..found.num_rows() {
                let made = self.select_row(plan, &readers, i, &mut values, &mut row).await;
                let Some(clause) = &plan.conflict else {
                    if made.is_ok() {
                        batch.rows.push(&row);
                    }
                    // What is wrong with the rows before comes first.
                    if made.is_err() || batch.is_full() {
                        count += batch.rows.len();
                        self.put_selected(table, &mut batch, &mut output, &snapshot, sink).await?;
                    }
                    made?;
                    continue;
                };
                made?;
                let given = &state.params;
                let done = self.upsert(table, clause, given, &mut row, &mut written);
                let Some(rowid) = env::boxed!(done).await? else { continue };
                count += 1;
                if plan.returning.is_some() {
                    let copy = row.clone();
                    self.output_row(table, &mut output, &snapshot, rowid, copy, sink).await?;
                }
            }
        }
        count += batch.rows.len();
        self.put_selected(table, &mut batch, &mut output, &snapshot, sink).await?;
        self.flush_output(&mut output, &snapshot, sink).await?;
        self.note_rows(table, count);
        Ok(format!("INSERT 0 {count}"))
    }

    /// Makes the row of what the query has found, defaults and generated columns included.
    async fn select_row(
        &mut self,
        plan: &InsertSelect,
        readers: &[ColumnReader],
        at: usize,
        values: &mut [Value],
        row: &mut Vec<u8>,
    ) -> Result<()> {
        self.ctx.check_interrupt()?;
        let (table, env) = (&plan.table, self.format_env());
        for (reader, column) in readers.iter().zip(&plan.columns) {
            let ty = table.columns[*column].ty;
            values[*column] = cast(&reader.get(at), ty, CastMode::Assignment, &env)?;
        }
        for (column, default) in &plan.defaults {
            let called = self.call_all(&default.calls).await?;
            let cx = EvalContext { row: None, params: &called, env: &env };
            values[*column] = default.scalar.eval(&cx)?.into_value();
        }
        let datums: Vec<Datum<'_>> = values.iter().map(Value::as_datum).collect();
        encode_checked(table, &datums, row)?;
        if has_rules(table) {
            self.complete_row(table, row).await?;
        }
        Ok(())
    }

    /// Writes a batch, gives what it returns to the output and empties it.
    async fn put_selected(
        &mut self,
        table: &TableDef,
        batch: &mut RowBatch,
        output: &mut Output<'_>,
        snapshot: &Snapshot,
        sink: &mut dyn RowSink,
    ) -> Result<()> {
        let txn = self.transaction()?;
        self.write_batch(&txn, table, batch).await.map_err(|error| row_error(error, table))?;
        if output.returning.is_some() {
            for (row, rowid) in batch.rows.iter().zip(&batch.rowids) {
                self.output_row(table, output, snapshot, *rowid, row.to_vec(), sink).await?;
            }
        }
        batch.clear();
        Ok(())
    }
}

/// Sends what a statement returns of rows it has written.
fn return_rows<'r>(
    table: &TableDef,
    returning: Option<&[Scalar]>,
    rows: impl Iterator<Item = &'r [u8]>,
    (params, env): (&[Value], &FormatEnv),
    encoder: &mut RowEncoder,
    sink: &mut dyn RowSink,
) -> Result<()> {
    let Some(output) = returning else { return Ok(()) };
    for row in rows {
        let view = RowView::new(types(table), row);
        let cx = EvalContext { row: Some(view), params, env };
        encoder.encode(|i| output[i].eval(&cx), sink.row())?;
        sink.flush_if_large();
    }
    Ok(())
}
