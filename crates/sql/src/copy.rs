//! COPY: rows in and out as text, CSV or binary.
//!
//! What it promises: a row's bytes may arrive cut anywhere; memory is bounded by one line or row,
//! and a batch of rows of bounded size.

use crate::bind::ident_name;
use crate::check::{RowFilter, has_rules};
use crate::copy_binary;
use crate::copy_text::{Format, LineSearch, csv_fields, push_field, push_header, text_fields};
use crate::dml::{encode_checked, row_error};
use crate::encode::{RowEncoder, RowSink};
use crate::insert::RowBatch;
use crate::plan::{Kind, RowDefault};
use crate::session::{Fetched, Session};
use crate::{PgError, Result, direct};
use datafusion::sql::sqlparser::ast::{CopySource, CopyTarget, Ident, Statement as Ast};
use kernel::dict::{Generated, Privileges, TableDef};
use kernel::row::{ColType, Datum, RowView, TypeKind, Value};
use observe::{Operation, Target};
use query::cast::parse_text;
use query::scalar::{EvalContext, Val};
use query::wire::FormatEnv;
use std::sync::Arc;

/// Longest line accepted.
pub(crate) const LINE_BYTES_MAX: usize = 64 << 20;

/// A COPY FROM STDIN in progress.
pub(crate) struct CopyIn {
    pub(crate) table: Arc<TableDef>,
    pub(crate) columns: Vec<usize>,
    defaults: Vec<(usize, RowDefault)>,
    pub(crate) format: Format,
    /// Bytes of a line that is not complete.
    pub(crate) rest: Vec<u8>,
    search: LineSearch,
    /// Values of the row being made.
    pub(crate) values: Vec<Value>,
    pub(crate) header_seen: bool,
    pub(crate) ended: bool,
    pub(crate) line_no: u64,
    rows: u64,
    operation: Operation,
    /// Rows that do not meet it are left out.
    filter: Option<RowFilter>,
    batch: RowBatch,
    /// Line of the batch's first row.
    batch_line_no: u64,
}

impl Session {
    /// `COPY`, in either direction.
    pub(crate) async fn run_copy(&mut self, ast: &Ast, sink: &mut dyn RowSink) -> Result<Fetched> {
        let Ast::Copy { source, to, target, options, legacy_options, values } = ast else {
            return Err(PgError::internal("no COPY"));
        };
        if !matches!(target, CopyTarget::Stdin | CopyTarget::Stdout) {
            return Err(PgError::new(
                "0A000",
                "COPY to or from files of the server is not supported",
            )
            .with_hint("Use \\copy of psql, which reads and writes the client's files."));
        }
        let mut format = Format::new(options, legacy_options, *to)?;
        let filter = values.first().and_then(Option::as_deref);
        if *to {
            if filter.is_some() {
                return Err(PgError::syntax("WHERE clause not allowed with COPY TO"));
            }
            return self.copy_out(source, format, sink).await;
        }
        let CopySource::Table { table_name, columns } = source else {
            return Err(PgError::syntax("COPY FROM needs a table"));
        };
        self.check_writable("COPY FROM")?;
        let table = self.copied_table(table_name, false).await?;
        let columns = copy_columns(columns, &table)?;
        self.check_columns(&table, Privileges::INSERT, &columns).await?;
        format.choose(&names_of(&table, &columns), Some(&table))?;
        let filter = match filter {
            Some(condition) => Some(env::boxed!(self.row_filter(&table, condition)).await?),
            None => None,
        };
        let mut defaults = Vec::new();
        for at in (0..table.columns.len()).filter(|at| !columns.contains(at)) {
            if let Some(default) = crate::planning::row_default(&table, at)? {
                defaults.push((at, default));
            }
        }
        let (count, binary) = (columns.len(), format.binary);
        let header_seen = !format.header && !binary;
        let target = Target::object(&table.schema, &table.name);
        // The client alone knows how much will come.
        let operation = Operation::begin(&self.ctx, "Copy From", target, (0, "Rows"));
        self.copy = Some(CopyIn {
            table,
            columns,
            defaults,
            format,
            rest: Vec::new(),
            search: LineSearch::default(),
            values: Vec::new(),
            header_seen,
            ended: false,
            line_no: 0,
            rows: 0,
            operation,
            filter,
            batch: RowBatch::default(),
            batch_line_no: 0,
        });
        Ok(Fetched::CopyIn { binary, columns: count })
    }

    /// Data of a COPY FROM STDIN, cut anywhere.
    ///
    /// # Errors
    /// What is wrong with a row; the COPY has ended then and left nothing.
    pub async fn copy_data(&mut self, data: &[u8]) -> Result<()> {
        let copying = self.begin_copying();
        let done = self.copy_more(data).await;
        self.end_copying(copying, 0, done.is_err(), true);
        done
    }

    async fn copy_more(&mut self, data: &[u8]) -> Result<()> {
        let Some(mut copy) = self.copy.take() else {
            return Err(PgError::new("08P01", "unexpected message type CopyData"));
        };
        copy.operation.add_bytes(data.len() as u64);
        match self.take_data(&mut copy, data).await {
            Ok(()) => {
                self.copy = Some(copy);
                Ok(())
            }
            Err(error) => {
                let error = with_place(error, &copy);
                self.fail_transaction().await;
                Err(error)
            }
        }
    }

    /// The end of the data; gives the command tag.
    ///
    /// # Errors
    /// As [`Session::copy_data`].
    pub async fn copy_done(&mut self) -> Result<String> {
        let copying = self.begin_copying();
        let done = self.copy_to_end().await;
        let rows = done.as_ref().map_or(0, |rows| *rows);
        self.end_copying(copying, rows, done.is_err(), false);
        done.map(|rows| format!("COPY {rows}"))
    }

    async fn copy_to_end(&mut self) -> Result<u64> {
        let Some(mut copy) = self.copy.take() else {
            return Err(PgError::new("08P01", "unexpected message type CopyDone"));
        };
        let done = match self.finish_copy(&mut copy).await {
            Ok(()) => self.settle_keys(false).await,
            failed => failed,
        };
        match done {
            Ok(()) => {
                copy.operation.end(&self.ctx);
                let rows = usize::try_from(copy.rows).unwrap_or(usize::MAX);
                self.note_rows(&copy.table, rows);
                Ok(copy.rows)
            }
            Err(error) => {
                let error = with_place(error, &copy);
                self.fail_transaction().await;
                Err(error)
            }
        }
    }

    /// The client gave up; the error to show for it.
    pub async fn copy_fail(&mut self, reason: &str) -> PgError {
        self.copy = None;
        let copying = self.begin_copying();
        self.fail_transaction().await;
        self.end_copying(copying, 0, true, false);
        PgError::new("57014", format!("COPY from stdin failed: {reason}"))
    }

    async fn take_data(&mut self, copy: &mut CopyIn, data: &[u8]) -> Result<()> {
        if copy.format.binary {
            return self.take_binary(copy, data).await;
        }
        copy.rest.extend_from_slice(data);
        let mut buffer = std::mem::take(&mut copy.rest);
        let mut from = 0;
        while let Some(end) = copy.search.line_end(&buffer, from, &copy.format) {
            let line = &buffer[from..end];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            self.take_line(copy, line).await?;
            from = end + 1;
        }
        buffer.drain(..from);
        copy.search.scanned -= from;
        if buffer.len() > LINE_BYTES_MAX {
            return Err(PgError::new("54000", "a line of COPY data is too long"));
        }
        copy.rest = buffer;
        Ok(())
    }

    async fn finish_copy(&mut self, copy: &mut CopyIn) -> Result<()> {
        if copy.format.binary {
            // Between rows it may end without a trailer, as pgx ends it.
            if !(copy.header_seen && copy.rest.is_empty()) {
                return Err(copy_binary::bad("unexpected EOF in COPY data"));
            }
            return self.write_copied(copy).await;
        }
        let rest = std::mem::take(&mut copy.rest);
        if copy.search.in_quotes {
            return Err(PgError::new("22P04", "unterminated CSV quoted field"));
        }
        if !rest.is_empty() {
            let line = rest.strip_suffix(b"\r").unwrap_or(&rest);
            self.take_line(copy, line).await?;
        }
        self.write_copied(copy).await
    }

    async fn take_line(&mut self, copy: &mut CopyIn, line: &[u8]) -> Result<()> {
        copy.line_no += 1;
        if !copy.header_seen {
            copy.header_seen = true;
            return match copy.format.match_header {
                true => check_header(copy, line),
                false => Ok(()),
            };
        }
        if copy.ended {
            return Ok(());
        }
        if line == b"\\." {
            copy.ended = true;
            return Ok(());
        }
        let line = std::str::from_utf8(line)
            .map_err(|_| PgError::new("22021", "invalid byte sequence for encoding \"UTF8\""))?;
        let env = self.format_env();
        let fields = if copy.format.csv {
            csv_fields(line, &copy.format)?
        } else {
            text_fields(line, &copy.format)?
        };
        let table = copy.table.clone();
        copy.values.clear();
        copy.values.resize(table.columns.len(), Value::Null);
        if fields.len() > copy.columns.len() {
            return Err(PgError::new("22P04", "extra data after last expected column"));
        }
        for (i, at) in copy.columns.iter().enumerate() {
            let Some(field) = fields.get(i) else {
                let name = &table.columns[*at].name;
                return Err(PgError::new("22P04", format!("missing data for column \"{name}\"")));
            };
            if let Some(text) = field {
                copy.values[*at] = parse_text(text, table.columns[*at].ty, &env)?;
            }
        }
        self.insert_copied(copy, &env).await
    }

    /// Adds the row of `copy.values`, which lacks nothing but defaults, to the batch.
    pub(crate) async fn insert_copied(&mut self, copy: &mut CopyIn, env: &FormatEnv) -> Result<()> {
        let CopyIn { table, values, defaults, .. } = copy;
        for (at, default) in &*defaults {
            let called = self.call_all(&default.calls).await?;
            let cx = EvalContext { row: None, params: &called, env };
            values[*at] = default.scalar.eval(&cx)?.into_value();
        }
        let datums: Vec<Datum<'_>> = values.iter().map(Value::as_datum).collect();
        if let Some(filter) = &copy.filter {
            let row = table.encode(&datums);
            if !env::boxed!(self.passes(table, filter, &row)).await? {
                return Ok(());
            }
        }
        let mut row = std::mem::take(&mut self.row);
        encode_checked(table, &datums, &mut row)?;
        if has_rules(table) {
            self.complete_row(table, &mut row).await?;
        }
        if copy.batch.rows.is_empty() {
            copy.batch_line_no = copy.line_no;
        }
        copy.batch.rows.push(&row);
        self.row = row;
        if copy.batch.is_full() {
            self.write_copied(copy).await?;
        }
        Ok(())
    }

    /// Writes the rows that have been collected.
    async fn write_copied(&mut self, copy: &mut CopyIn) -> Result<()> {
        self.ctx.check_interrupt()?;
        let txn = self.transaction()?;
        let CopyIn { table, batch, batch_line_no: first, line_no: last, .. } = copy;
        self.write_batch(&txn, table, batch).await.map_err(|error| {
            let error = row_error(error, table);
            if error.detail.is_some() || first == last {
                return error;
            }
            error.with_detail(format!("COPY {}, lines {first} to {last}", table.name))
        })?;
        let written = copy.batch.rows.len() as u64;
        copy.operation.advance(&self.ctx, written);
        copy.rows += written;
        copy.batch.clear();
        Ok(())
    }

    async fn copy_out(
        &mut self,
        source: &CopySource,
        mut format: Format,
        sink: &mut dyn RowSink,
    ) -> Result<Fetched> {
        let rows = match source {
            CopySource::Table { table_name, columns } => {
                let table = self.copied_table(table_name, true).await?;
                let columns = copy_columns(columns, &table)?;
                self.check_columns(&table, Privileges::SELECT, &columns).await?;
                format.choose(&names_of(&table, &columns), Some(&table))?;
                self.copy_table(&table, &columns, &format, sink).await?
            }
            CopySource::Query(query) => {
                let statement = crate::parse::Statement {
                    text: Arc::from(query.to_string()),
                    parsed: crate::parse::Parsed::Sql(Box::new(Ast::Query(query.clone()))),
                    ..crate::parse::Statement::empty()
                };
                self.copy_query(&statement, format, sink).await?
            }
        };
        Ok(Fetched::Complete(format!("COPY {rows}")))
    }

    async fn copy_table(
        &mut self,
        table: &Arc<TableDef>,
        columns: &[usize],
        format: &Format,
        sink: &mut dyn RowSink,
    ) -> Result<u64> {
        sink.copy_out(format.binary, columns.len());
        if format.binary {
            return self.copy_table_binary(table, columns, sink).await;
        }
        if format.header {
            let names: Vec<&str> =
                columns.iter().map(|c| table.columns[*c].name.as_str()).collect();
            push_header(&names, format, sink);
        }
        let snapshot = self.snapshot()?;
        let env = self.format_env();
        let mut scan = kernel::table::scan(&self.ctx, table, &snapshot).await?;
        let types = &table.types;
        let (mut rows, mut line) = (0, Vec::new());
        let mut lines: Vec<u8> = Vec::new();
        let mut ends: Vec<usize> = Vec::new();
        loop {
            lines.clear();
            ends.clear();
            let more = scan
                .next_block(&self.ctx, |_, row| {
                    let view = RowView::new(types, row);
                    line.clear();
                    for (i, column) in columns.iter().enumerate() {
                        let ty = types[*column];
                        push_field(i, &view.get(*column), ty, format, &env, &mut line);
                    }
                    line.push(b'\n');
                    lines.extend_from_slice(&line);
                    ends.push(lines.len());
                })
                .await?;
            let mut from = 0;
            for end in &ends {
                sink.row().extend_from_slice(&lines[from..*end]);
                sink.flush_if_large();
                from = *end;
                rows += 1;
            }
            if !more {
                return Ok(rows);
            }
            self.ctx.check_interrupt()?;
        }
    }

    async fn copy_query(
        &mut self,
        statement: &crate::parse::Statement,
        mut format: Format,
        sink: &mut dyn RowSink,
    ) -> Result<u64> {
        let plan = self.plan_for(statement, &[]).await?;
        let names: Vec<&str> = plan.columns.iter().map(|column| column.name.as_str()).collect();
        format.choose(&names, None)?;
        let format = &format;
        sink.copy_out(format.binary, plan.columns.len());
        let mut header = copy_binary::Header::default();
        if format.header {
            let names: Vec<&str> = plan.columns.iter().map(|c| c.name.as_str()).collect();
            push_header(&names, format, sink);
        }
        let env = self.format_env();
        let params = self.call_all(&plan.hidden).await?;
        let text = ColType::new(TypeKind::Text);
        let mut line = Vec::new();
        let mut encoder = RowEncoder::new(&plan.columns, &[1], env);
        let mut push = |datums: &[Datum<'_>], line: &mut Vec<u8>, sink: &mut dyn RowSink| {
            if format.binary {
                let value = |i: usize| Ok(Val::Ref(datums[i]));
                return copy_binary::push_row(&mut encoder, value, &mut header, sink);
            }
            line.clear();
            for (i, datum) in datums.iter().enumerate() {
                push_field(i, datum, text, format, &env, line);
            }
            line.push(b'\n');
            sink.row().extend_from_slice(line);
            sink.flush_if_large();
            Ok(())
        };
        let rows = match &plan.kind {
            Kind::Query(query) if query.lock.is_none() => {
                let outer = self.read_views(&plan).await?;
                let state = self.exec_state(params).await;
                self.views = outer;
                let mut stream = self.open_query(query, state?).await?;
                let mut rows = 0;
                while let Some(batch) = self.next_batch(&mut stream).await {
                    let batch = batch?;
                    let readers = query::planner::readers(&batch)?;
                    for i in 0..batch.num_rows() {
                        let datums: Vec<Datum<'_>> = readers.iter().map(|r| r.get(i)).collect();
                        push(&datums, &mut line, sink)?;
                        rows += 1;
                    }
                    self.ctx.check_interrupt()?;
                }
                rows
            }
            Kind::Direct(direct) => match self.direct_row(direct, &params).await? {
                None => 0,
                Some(values) => {
                    let datums: Vec<Datum<'_>> = values.iter().map(Value::as_datum).collect();
                    push(&datums, &mut line, sink)?;
                    1
                }
            },
            _ => return Err(PgError::unsupported("COPY of this statement")),
        };
        if format.binary {
            header.push_trailer(sink);
        }
        Ok(rows)
    }
}

fn with_place(error: PgError, copy: &CopyIn) -> PgError {
    if error.detail.is_some() {
        return error;
    }
    let place = format!("COPY {}, line {}", copy.table.name, copy.line_no);
    error.with_detail(place)
}

fn names_of<'t>(table: &'t TableDef, columns: &[usize]) -> Vec<&'t str> {
    columns.iter().map(|at| table.columns[*at].name.as_str()).collect()
}

/// 22P04 unless the header line names the columns.
fn check_header(copy: &CopyIn, line: &[u8]) -> Result<()> {
    let line = std::str::from_utf8(line)
        .map_err(|_| PgError::new("22021", "invalid byte sequence for encoding \"UTF8\""))?;
    let fields = match copy.format.csv {
        true => csv_fields(line, &copy.format)?,
        false => text_fields(line, &copy.format)?,
    };
    let names = names_of(&copy.table, &copy.columns);
    if fields.len() != names.len() {
        let text = format!(
            "wrong number of fields in header line: got {}, expected {}",
            fields.len(),
            names.len()
        );
        return Err(PgError::new("22P04", text));
    }
    for (at, (field, name)) in fields.iter().zip(names).enumerate() {
        let number = at + 1;
        let got = match field {
            Some(field) if field == name => continue,
            Some(field) => format!("got \"{field}\""),
            None => format!("got null value (\"{}\")", copy.format.null),
        };
        let text = format!(
            "column name mismatch in header line field {number}: {got}, expected \"{name}\""
        );
        return Err(PgError::new("22P04", text));
    }
    Ok(())
}

fn copy_columns(columns: &[Ident], table: &TableDef) -> Result<Vec<usize>> {
    let is_generated = |at: &usize| table.columns[*at].generated == Some(Generated::Stored);
    if columns.is_empty() {
        return Ok((0..table.columns.len()).filter(|at| !is_generated(at)).collect());
    }
    let named = columns.iter().map(|ident| direct::column_position(table, &ident_name(ident)));
    let named = named.collect::<Result<Vec<usize>>>()?;
    if let Some(at) = named.iter().find(|at| is_generated(at)) {
        let text = format!("column \"{}\" is a generated column", table.columns[*at].name);
        let detail = "Generated columns cannot be used in COPY.";
        return Err(PgError::new("42P10", text).with_detail(detail));
    }
    Ok(named)
}
