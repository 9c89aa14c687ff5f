//! Rows of a table whose definition changes: filled anew into fresh segments, or looked through.
//!
//! What it promises: every row that is there gets its new form, or the statement fails. What it
//! must never do: read by the transaction's snapshot; the table is locked and read as it stands.

use crate::bind::HiddenCall;
use crate::check::has_rules;
use crate::dml::{encode_checked, row_error};
use crate::insert::RowBatch;
use crate::plan::RowDefault;
use crate::returning::Returning;
use crate::session::Session;
use crate::{PgError, Result};
use block::Rowid;
use kernel::dict::{Generated, TableDef};
use kernel::row::{Datum, RowView, Value};
use kernel::txn::Snapshot;
use query::cast::{CastMode, cast};
use query::scalar::EvalContext;
use std::sync::Arc;

/// Where a column of the new rows comes from.
pub(super) enum Source {
    /// Nothing yet: it is computed from the other columns.
    Computed,
    /// A column of the old row.
    Old(usize),
    /// The column's default, evaluated for each row.
    Default(RowDefault),
    /// The expression that [`Using`] holds.
    Using,
}

/// An expression over the old row.
pub(super) struct Using {
    pub(super) expr: Returning,
    pub(super) calls: Vec<HiddenCall>,
}

type Rows = Vec<(Rowid, Vec<u8>)>;

impl Session {
    /// Fills the empty segments of the `new` definition from those of the `old` one.
    pub(super) async fn refill(
        &mut self,
        old: &TableDef,
        new: &Arc<TableDef>,
        sources: &[Source],
        using: Option<&Using>,
    ) -> Result<()> {
        let snapshot = self.transaction()?.newest_snapshot()?;
        let mut scan = kernel::table::scan(&self.ctx, old, &snapshot).await?;
        loop {
            let mut rows: Rows = Vec::new();
            let take = |rowid, row: &[u8]| rows.push((rowid, row.to_vec()));
            let more = scan.next_block(&self.ctx, take).await?;
            self.refill_rows(old, new, sources, using, &snapshot, rows).await?;
            if !more {
                return Ok(());
            }
        }
    }

    async fn refill_rows(
        &mut self,
        old: &TableDef,
        new: &Arc<TableDef>,
        sources: &[Source],
        using: Option<&Using>,
        snapshot: &Snapshot,
        rows: Rows,
    ) -> Result<()> {
        let (txn, env) = (self.transaction()?, self.format_env());
        let mut used = match using {
            Some(using) => self.use_rows(using, old, snapshot, &rows).await?.into_iter(),
            None => Vec::new().into_iter(),
        };
        let mut batch = RowBatch::default();
        for (_, row) in &rows {
            self.ctx.check_interrupt()?;
            let view = RowView::new(&old.types, row);
            let mut values = Vec::with_capacity(sources.len());
            for (source, column) in sources.iter().zip(&new.columns) {
                let value = match source {
                    Source::Old(at) => view.get(*at).to_value(),
                    Source::Default(default) => {
                        let called = self.call_all(&default.calls).await?;
                        let cx = EvalContext { row: None, params: &called, env: &env };
                        default.scalar.eval(&cx)?.into_value()
                    }
                    Source::Computed => Value::Null,
                    Source::Using => used.next().ok_or_else(|| PgError::internal("no value"))?,
                };
                values.push(match source {
                    Source::Using => {
                        cast(&value.as_datum(), column.ty, CastMode::Assignment, &env)?
                    }
                    _ => value,
                });
            }
            for (value, column) in values.iter().zip(&new.columns) {
                let computed = column.generated == Some(Generated::Stored);
                if column.not_null && value.is_null() && !computed {
                    return Err(contains_nulls(new, &column.name));
                }
            }
            let datums: Vec<Datum<'_>> = values.iter().map(Value::as_datum).collect();
            let mut bytes = std::mem::take(&mut self.row);
            encode_checked(new, &datums, &mut bytes)?;
            if has_rules(new) {
                self.complete_old_row(new, &mut bytes).await?;
            }
            batch.rows.push(&bytes);
            self.row = bytes;
            if batch.is_full() {
                let written = self.refill_batch(&txn, new, &mut batch).await;
                written.map_err(|error| not_unique(error, new))?;
                batch.clear();
            }
        }
        let written = self.refill_batch(&txn, new, &mut batch).await;
        written.map_err(|error| not_unique(error, new))
    }

    /// The expression's value for each row.
    async fn use_rows(
        &mut self,
        using: &Using,
        old: &TableDef,
        snapshot: &Snapshot,
        rows: &Rows,
    ) -> Result<Vec<Value>> {
        let env = self.format_env();
        let params = self.call_all(&using.calls).await?;
        let mut out = Vec::with_capacity(rows.len());
        match &using.expr {
            Returning::Scalars(scalars) => {
                for (_, row) in rows {
                    let view = RowView::new(&old.types, row);
                    let cx = EvalContext { row: Some(view), params: &params, env: &env };
                    for scalar in scalars {
                        out.push(scalar.eval(&cx)?.into_value());
                    }
                }
            }
            Returning::Query(plan) => {
                let state = self.state_over(&params, snapshot, rows.clone());
                let mut stream = self.open_query(plan, state).await?;
                while let Some(batch) = self.next_batch(&mut stream).await {
                    let batch = batch?;
                    let readers = query::planner::readers(&batch)?;
                    for i in 0..batch.num_rows() {
                        out.extend(readers.iter().map(|reader| reader.get(i).to_value()));
                    }
                }
            }
        }
        Ok(out)
    }

    /// 23502 if a row of the locked table has no value in the column.
    pub(super) async fn check_no_nulls(&mut self, table: &TableDef, column: usize) -> Result<()> {
        let snapshot = self.transaction()?.newest_snapshot()?;
        let mut scan = kernel::table::scan(&self.ctx, table, &snapshot).await?;
        let mut found = false;
        loop {
            let look = |_, row: &[u8]| found |= RowView::new(&table.types, row).is_null(column);
            let more = scan.next_block(&self.ctx, look).await?;
            if found {
                return Err(contains_nulls(table, &table.columns[column].name));
            }
            if !more {
                return Ok(());
            }
            self.ctx.check_interrupt()?;
        }
    }

    /// Whether the locked table has a row.
    pub(super) async fn has_rows(&mut self, table: &TableDef) -> Result<bool> {
        let snapshot = self.transaction()?.newest_snapshot()?;
        let mut scan = kernel::table::scan(&self.ctx, table, &snapshot).await?;
        let mut found = false;
        while !found && scan.next_block(&self.ctx, |_, _| found = true).await? {}
        Ok(found)
    }
}

pub(super) fn contains_nulls(table: &TableDef, column: &str) -> PgError {
    let name = &table.name;
    let text = format!("column \"{column}\" of relation \"{name}\" contains null values");
    PgError::new("23502", text).with_table(&table.schema, name).with_column(column)
}

/// A key that has become double, as the making of its index tells it.
fn not_unique(error: kernel::Error, table: &TableDef) -> PgError {
    let told = row_error(error, table);
    let Some(constraint) = told.constraint().filter(|_| told.code == "23505") else {
        return told;
    };
    let detail = told.detail.as_deref().unwrap_or("").replace("already exists", "is duplicated");
    PgError::new("23505", format!("could not create unique index \"{constraint}\""))
        .with_detail(detail)
        .with_table(&table.schema, &table.name)
        .with_constraint(constraint)
}
