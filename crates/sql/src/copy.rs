//! COPY: rows in and out as text, CSV or binary.
//!
//! What it promises: a row's bytes may arrive cut anywhere; memory is bounded by one line or row.

use crate::bind::ident_name;
use crate::check::has_rules;
use crate::copy_binary;
use crate::dml::{encode_checked, row_error};
use crate::encode::{RowEncoder, RowSink};
use crate::plan::{Direct, Kind, RowDefault};
use crate::session::{Fetched, Session};
use crate::{PgError, Result, direct};
use datafusion::sql::sqlparser::ast::{
    CopyLegacyCsvOption, CopyLegacyOption, CopyOption, CopySource, CopyTarget, Ident,
    Statement as Ast,
};
use futures::StreamExt;
use kernel::dict::{Generated, TableDef};
use kernel::row::{ColType, Datum, RowView, TypeKind, Value};
use query::cast::parse_text;
use query::scalar::{EvalContext, Val};
use query::wire::{FormatEnv, push_text};
use std::sync::Arc;

/// Longest line accepted.
pub(crate) const LINE_BYTES_MAX: usize = 64 << 20;

/// How rows are written.
#[derive(Clone, Debug)]
pub(crate) struct Format {
    csv: bool,
    binary: bool,
    delimiter: u8,
    null: String,
    header: bool,
    quote: u8,
    escape: u8,
}

/// A COPY FROM STDIN in progress.
pub(crate) struct CopyIn {
    pub(crate) table: Arc<TableDef>,
    pub(crate) columns: Vec<usize>,
    defaults: Vec<(usize, RowDefault)>,
    pub(crate) format: Format,
    /// Bytes of a line that is not complete.
    pub(crate) rest: Vec<u8>,
    /// Inside a quoted CSV field at the end of `rest`, up to which it has been looked at.
    in_quotes: bool,
    scanned: usize,
    pub(crate) header_seen: bool,
    pub(crate) ended: bool,
    pub(crate) line_no: u64,
    rows: u64,
}

fn one_byte(c: char, what: &str) -> Result<u8> {
    u8::try_from(c).map_err(|_| {
        PgError::new("0A000", format!("COPY {what} must be a single one-byte character"))
    })
}

impl Format {
    fn new(options: &[CopyOption], legacy: &[CopyLegacyOption]) -> Result<Format> {
        let (mut csv, mut binary) = (false, false);
        let (mut delimiter, mut null, mut header) = (None, None, false);
        let (mut quote, mut escape) = (None, None);
        for option in options {
            match option {
                CopyOption::Format(name) => match ident_name(name).as_str() {
                    "text" => {}
                    "csv" => csv = true,
                    "binary" => binary = true,
                    other => {
                        let message = format!("COPY format \"{other}\" not recognized");
                        return Err(PgError::new("22023", message));
                    }
                },
                // Rows are visible when their transaction commits, frozen or not: nothing to do.
                CopyOption::Freeze(_) => {}
                CopyOption::Delimiter(c) => delimiter = Some(one_byte(*c, "delimiter")?),
                CopyOption::Null(text) => null = Some(text.clone()),
                CopyOption::Header(on) => header = *on,
                CopyOption::Quote(c) => quote = Some(one_byte(*c, "quote")?),
                CopyOption::Escape(c) => escape = Some(one_byte(*c, "escape")?),
                CopyOption::Encoding(name)
                    if name.to_ascii_lowercase().replace('-', "") == "utf8" => {}
                other => return Err(PgError::unsupported(format!("the COPY option {other}"))),
            }
        }
        for option in legacy {
            match option {
                CopyLegacyOption::Delimiter(c) => delimiter = Some(one_byte(*c, "delimiter")?),
                CopyLegacyOption::Null(text) => null = Some(text.clone()),
                CopyLegacyOption::Header => header = true,
                CopyLegacyOption::Binary => binary = true,
                CopyLegacyOption::Csv(more) => {
                    csv = true;
                    for one in more {
                        match one {
                            CopyLegacyCsvOption::Header => header = true,
                            CopyLegacyCsvOption::Quote(c) => quote = Some(one_byte(*c, "quote")?),
                            CopyLegacyCsvOption::Escape(c) => {
                                escape = Some(one_byte(*c, "escape")?)
                            }
                            other => {
                                return Err(PgError::unsupported(format!(
                                    "the COPY option {other}"
                                )));
                            }
                        }
                    }
                }
                other => return Err(PgError::unsupported(format!("the COPY option {other}"))),
            }
        }
        if binary {
            copy_binary::refuse_options(&[
                ("CSV", csv),
                ("DELIMITER", delimiter.is_some()),
                ("NULL", null.is_some()),
                ("HEADER", header),
                ("QUOTE", quote.is_some()),
                ("ESCAPE", escape.is_some()),
            ])?;
        }
        let quote = quote.unwrap_or(b'"');
        Ok(Format {
            csv,
            binary,
            delimiter: delimiter.unwrap_or(if csv { b',' } else { b'\t' }),
            null: null.unwrap_or_else(|| if csv { String::new() } else { "\\N".to_owned() }),
            header,
            quote,
            escape: escape.unwrap_or(quote),
        })
    }
}

impl Session {
    /// `COPY`, in either direction.
    pub(crate) async fn run_copy(&mut self, ast: &Ast, sink: &mut dyn RowSink) -> Result<Fetched> {
        let Ast::Copy { source, to, target, options, legacy_options, values: _ } = ast else {
            return Err(PgError::internal("no COPY"));
        };
        if !matches!(target, CopyTarget::Stdin | CopyTarget::Stdout) {
            return Err(PgError::new(
                "0A000",
                "COPY to or from files of the server is not supported",
            )
            .with_hint("Use \\copy of psql, which reads and writes the client's files."));
        }
        let format = Format::new(options, legacy_options)?;
        if *to {
            return self.copy_out(source, &format, sink).await;
        }
        let CopySource::Table { table_name, columns } = source else {
            return Err(PgError::syntax("COPY FROM needs a table"));
        };
        self.check_writable("COPY FROM")?;
        let table = self.copied_table(table_name, false).await?;
        let columns = copy_columns(columns, &table)?;
        let mut defaults = Vec::new();
        for at in (0..table.columns.len()).filter(|at| !columns.contains(at)) {
            if let Some(default) = crate::planning::row_default(&table, at)? {
                defaults.push((at, default));
            }
        }
        let (count, binary) = (columns.len(), format.binary);
        let header_seen = !format.header && !binary;
        self.copy = Some(CopyIn {
            table,
            columns,
            defaults,
            format,
            rest: Vec::new(),
            in_quotes: false,
            scanned: 0,
            header_seen,
            ended: false,
            line_no: 0,
            rows: 0,
        });
        Ok(Fetched::CopyIn { binary, columns: count })
    }

    /// Data of a COPY FROM STDIN, cut anywhere.
    ///
    /// # Errors
    /// What is wrong with a row; the COPY has ended then and left nothing.
    pub async fn copy_data(&mut self, data: &[u8]) -> Result<()> {
        let Some(mut copy) = self.copy.take() else {
            return Err(PgError::new("08P01", "unexpected message type CopyData"));
        };
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
        let Some(mut copy) = self.copy.take() else {
            return Err(PgError::new("08P01", "unexpected message type CopyDone"));
        };
        let done = match self.finish_copy(&mut copy).await {
            Ok(()) => self.settle_keys(false).await,
            failed => failed,
        };
        match done {
            Ok(()) => Ok(format!("COPY {}", copy.rows)),
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
        self.fail_transaction().await;
        PgError::new("57014", format!("COPY from stdin failed: {reason}"))
    }

    async fn take_data(&mut self, copy: &mut CopyIn, data: &[u8]) -> Result<()> {
        if copy.format.binary {
            return self.take_binary(copy, data).await;
        }
        copy.rest.extend_from_slice(data);
        let mut buffer = std::mem::take(&mut copy.rest);
        let mut from = 0;
        while let Some(end) = copy.line_end(&buffer, from) {
            let line = &buffer[from..end];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            self.take_line(copy, line).await?;
            from = end + 1;
            copy.scanned = from;
        }
        buffer.drain(..from);
        copy.scanned -= from.min(copy.scanned);
        if buffer.len() > LINE_BYTES_MAX {
            return Err(PgError::new("54000", "a line of COPY data is too long"));
        }
        copy.rest = buffer;
        Ok(())
    }

    async fn finish_copy(&mut self, copy: &mut CopyIn) -> Result<()> {
        if copy.format.binary {
            let whole = copy.ended && copy.rest.is_empty();
            return if whole {
                Ok(())
            } else {
                Err(copy_binary::bad("unexpected EOF in COPY data"))
            };
        }
        let rest = std::mem::take(&mut copy.rest);
        if copy.in_quotes {
            return Err(PgError::new("22P04", "unterminated CSV quoted field"));
        }
        if !rest.is_empty() {
            let line = rest.strip_suffix(b"\r").unwrap_or(&rest);
            self.take_line(copy, line).await?;
        }
        Ok(())
    }

    async fn take_line(&mut self, copy: &mut CopyIn, line: &[u8]) -> Result<()> {
        copy.line_no += 1;
        if !copy.header_seen {
            copy.header_seen = true;
            return Ok(());
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
        let mut values: Vec<Value> = vec![Value::Null; table.columns.len()];
        if fields.len() > copy.columns.len() {
            return Err(PgError::new("22P04", "extra data after last expected column"));
        }
        for (i, at) in copy.columns.iter().enumerate() {
            let Some(field) = fields.get(i) else {
                let name = &table.columns[*at].name;
                return Err(PgError::new("22P04", format!("missing data for column \"{name}\"")));
            };
            if let Some(text) = field {
                values[*at] = parse_text(text, table.columns[*at].ty, &env)?;
            }
        }
        self.insert_copied(copy, values, &env).await
    }

    /// Inserts a row that lacks nothing but defaults.
    pub(crate) async fn insert_copied(
        &mut self,
        copy: &mut CopyIn,
        mut values: Vec<Value>,
        env: &FormatEnv,
    ) -> Result<()> {
        let table = copy.table.clone();
        for (at, default) in &copy.defaults {
            let called = self.call_all(&default.calls).await?;
            let cx = EvalContext { row: None, params: &called, env };
            values[*at] = default.scalar.eval(&cx)?.into_value();
        }
        let datums: Vec<Datum<'_>> = values.iter().map(Value::as_datum).collect();
        let mut row = std::mem::take(&mut self.row);
        encode_checked(&table, &datums, &mut row)?;
        if has_rules(&table) {
            self.complete_row(&table, &mut row).await?;
        }
        let txn = self.transaction()?;
        let inserted = kernel::table::insert(&self.ctx, &txn, &table, &row).await;
        self.row = row;
        inserted.map_err(|error| row_error(error, &table))?;
        copy.rows += 1;
        if copy.rows.is_multiple_of(256) {
            self.ctx.check_interrupt()?;
        }
        Ok(())
    }

    async fn copy_out(
        &mut self,
        source: &CopySource,
        format: &Format,
        sink: &mut dyn RowSink,
    ) -> Result<Fetched> {
        let rows = match source {
            CopySource::Table { table_name, columns } => {
                let table = self.copied_table(table_name, true).await?;
                let columns = copy_columns(columns, &table)?;
                self.copy_table(&table, &columns, format, sink).await?
            }
            CopySource::Query(query) => {
                let statement = crate::parse::Statement {
                    text: Arc::from(query.to_string()),
                    parsed: crate::parse::Parsed::Sql(Box::new(Ast::Query(query.clone()))),
                    param_count: 0,
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
        let snapshot = self.snapshot().await?;
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
        format: &Format,
        sink: &mut dyn RowSink,
    ) -> Result<u64> {
        let plan = self.plan_for(statement, &[]).await?;
        sink.copy_out(format.binary, plan.columns.len());
        if format.binary {
            copy_binary::push_header(sink);
        }
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
                return copy_binary::push_row(&mut encoder, |i| Ok(Val::Ref(datums[i])), sink);
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
                let state = self.exec_state(params).await?;
                let mut stream = self.open_query(query, state).await?;
                let mut rows = 0;
                while let Some(batch) = stream.next().await {
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
            copy_binary::push_trailer(sink);
        }
        Ok(rows)
    }

    /// The values of the one row a direct statement reads.
    async fn direct_row(
        &mut self,
        direct: &Direct,
        params: &[Value],
    ) -> Result<Option<Vec<Value>>> {
        let env = self.format_env();
        let (output, view);
        match direct {
            Direct::Values(all) => {
                output = all;
                view = None;
            }
            Direct::Select(select) => {
                if !self.direct_select(select, params, &env).await? {
                    return Ok(None);
                }
                output = &select.output;
                view = Some(RowView::new(&select.row.table.types, &self.row));
            }
            _ => return Err(PgError::unsupported("COPY of a statement that changes rows")),
        }
        let cx = EvalContext { row: view, params, env: &env };
        let values: Result<Vec<Value>> =
            output.iter().map(|one| one.eval(&cx).map(query::scalar::Val::into_value)).collect();
        values.map(Some)
    }
}

fn with_place(error: PgError, copy: &CopyIn) -> PgError {
    if error.detail.is_some() {
        return error;
    }
    let place = format!("COPY {}, line {}", copy.table.name, copy.line_no);
    error.with_detail(place)
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

impl CopyIn {
    /// Where the line that begins at `from` ends.
    fn line_end(&mut self, buffer: &[u8], from: usize) -> Option<usize> {
        let start = self.scanned.max(from);
        if !self.format.csv {
            // A newline after a backslash belongs to the field.
            for at in start..buffer.len() {
                if buffer[at] == b'\n' && !escaped(buffer, from, at) {
                    return Some(at);
                }
            }
            self.scanned = buffer.len();
            return None;
        }
        for (at, b) in buffer.iter().enumerate().skip(start) {
            if *b == self.format.quote {
                self.in_quotes = !self.in_quotes;
            } else if *b == b'\n' && !self.in_quotes {
                return Some(at);
            }
        }
        self.scanned = buffer.len();
        None
    }
}

fn escaped(buffer: &[u8], from: usize, at: usize) -> bool {
    buffer[from..at].iter().rev().take_while(|b| **b == b'\\').count() % 2 == 1
}

/// Fields of a line of text; NULL is `None`.
fn text_fields(line: &str, format: &Format) -> Result<Vec<Option<String>>> {
    let mut out = Vec::new();
    let mut field = String::new();
    let mut raw_from = 0;
    let mut chars = line.char_indices().peekable();
    let delimiter = char::from(format.delimiter);
    loop {
        let Some((at, c)) = chars.next() else {
            let raw = &line[raw_from..];
            out.push(if raw == format.null { None } else { Some(field) });
            return Ok(out);
        };
        if c == delimiter {
            let raw = &line[raw_from..at];
            let done = std::mem::take(&mut field);
            out.push(if raw == format.null { None } else { Some(done) });
            raw_from = at + c.len_utf8();
        } else if c == '\\' {
            match chars.next() {
                None => field.push('\\'),
                Some((_, 'b')) => field.push('\u{8}'),
                Some((_, 'f')) => field.push('\u{c}'),
                Some((_, 'n')) => field.push('\n'),
                Some((_, 'r')) => field.push('\r'),
                Some((_, 't')) => field.push('\t'),
                Some((_, 'v')) => field.push('\u{b}'),
                Some((_, 'x')) => push_coded(&mut field, &mut chars, 16, 2, 0)?,
                Some((_, d @ '0'..='7')) => {
                    push_coded(&mut field, &mut chars, 8, 2, d.to_digit(8).unwrap_or(0))?;
                }
                Some((_, other)) => field.push(other),
            }
        } else {
            field.push(c);
        }
    }
}

fn push_coded(
    field: &mut String,
    chars: &mut std::iter::Peekable<std::str::CharIndices<'_>>,
    radix: u32,
    more: usize,
    first: u32,
) -> Result<()> {
    let mut code = first;
    for _ in 0..more {
        let Some(digit) = chars.peek().and_then(|(_, c)| c.to_digit(radix)) else { break };
        code = code * radix + digit;
        chars.next();
    }
    let c = u8::try_from(code & 0xff).ok().filter(u8::is_ascii).map(char::from);
    let invalid = || PgError::new("22021", "invalid byte sequence for encoding \"UTF8\"");
    field.push(c.filter(|c| *c != '\0').ok_or_else(invalid)?);
    Ok(())
}

/// Fields of a CSV record.
fn csv_fields(line: &str, format: &Format) -> Result<Vec<Option<String>>> {
    let (quote, escape) = (char::from(format.quote), char::from(format.escape));
    let delimiter = char::from(format.delimiter);
    let mut out = Vec::new();
    let (mut field, mut quoted, mut inside) = (String::new(), false, false);
    let mut chars = line.chars().peekable();
    loop {
        match chars.next() {
            None if inside => {
                return Err(PgError::new("22P04", "unterminated CSV quoted field"));
            }
            None => {
                out.push(if !quoted && field == format.null { None } else { Some(field) });
                return Ok(out);
            }
            Some(c) if inside => {
                if c == escape && chars.peek().is_some_and(|n| *n == quote || *n == escape) {
                    field.extend(chars.next());
                } else if c == quote {
                    inside = false;
                } else {
                    field.push(c);
                }
            }
            Some(c) if c == delimiter => {
                let done = std::mem::take(&mut field);
                out.push(if !quoted && done == format.null { None } else { Some(done) });
                quoted = false;
            }
            Some(c) if c == quote => {
                inside = true;
                quoted = true;
            }
            Some(c) => field.push(c),
        }
    }
}

fn push_header(names: &[&str], format: &Format, sink: &mut dyn RowSink) {
    let mut line = Vec::new();
    let (text, env) = (ColType::new(TypeKind::Text), FormatEnv::plain());
    for (i, name) in names.iter().enumerate() {
        push_field(i, &Datum::Text(name), text, format, &env, &mut line);
    }
    line.push(b'\n');
    sink.row().extend_from_slice(&line);
}

/// Appends one field, and the delimiter before it.
fn push_field(
    i: usize,
    datum: &Datum<'_>,
    ty: ColType,
    format: &Format,
    env: &FormatEnv,
    line: &mut Vec<u8>,
) {
    if i > 0 {
        line.push(format.delimiter);
    }
    if datum.is_null() {
        line.extend_from_slice(format.null.as_bytes());
        return;
    }
    let from = line.len();
    push_text(datum, env, line);
    if let (Datum::Text(text), Some(length), TypeKind::Char) = (datum, ty.length(), ty.kind) {
        line.extend(std::iter::repeat_n(b' ', length.saturating_sub(text.chars().count())));
    }
    let raw = line.split_off(from);
    if format.csv {
        let special =
            |b: &u8| [format.delimiter, format.quote, format.escape, b'\n', b'\r'].contains(b);
        if raw == format.null.as_bytes() || raw.iter().any(special) || raw == b"\\." {
            line.push(format.quote);
            for b in raw {
                if b == format.quote || b == format.escape {
                    line.push(format.escape);
                }
                line.push(b);
            }
            line.push(format.quote);
        } else {
            line.extend_from_slice(&raw);
        }
        return;
    }
    for b in raw {
        let code = match b {
            b'\\' => b'\\',
            0x08 => b'b',
            0x0c => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x0b => b'v',
            b if b == format.delimiter => b,
            b => {
                line.push(b);
                continue;
            }
        };
        line.extend_from_slice(&[b'\\', code]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(csv: bool) -> Format {
        let options: &[CopyOption] = if csv {
            &[CopyOption::Format(Ident {
                value: "csv".into(),
                quote_style: None,
                span: datafusion::sql::sqlparser::tokenizer::Span::empty(),
            })]
        } else {
            &[]
        };
        Format::new(options, &[]).unwrap()
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn text_lines_are_taken_apart() {
        let f = format(false);
        assert_eq!(
            text_fields("1\t\\N\ta\\tb\\\\", &f).unwrap(),
            [some("1"), None, some("a\tb\\")]
        );
        assert_eq!(text_fields("\\101\\x42", &f).unwrap(), [some("AB")]);
        assert_eq!(text_fields("", &f).unwrap(), [some("")]);
        assert!(text_fields("\\x00", &f).is_err());
    }

    #[test]
    fn csv_records_are_taken_apart() {
        let f = format(true);
        let got = csv_fields("1,,\"\",\"a \"\"b\"\", c\"", &f).unwrap();
        assert_eq!(got, [some("1"), None, some(""), some("a \"b\", c")]);
        assert_eq!(csv_fields("\"open", &f).unwrap_err().code, "22P04");
    }

    #[test]
    fn fields_come_back() {
        let env = FormatEnv::plain();
        let text = ColType::new(TypeKind::Text);
        for csv in [false, true] {
            let f = format(csv);
            for value in ["a", "", "a\tb\nc\\d", "x,\"y\"", "\\N", "\\."] {
                let mut line = Vec::new();
                push_field(0, &Datum::Text(value), text, &f, &env, &mut line);
                let line = String::from_utf8(line).unwrap();
                let got = if csv { csv_fields(&line, &f) } else { text_fields(&line, &f) };
                assert_eq!(got.unwrap(), [some(value)], "csv {csv}, {value:?}");
            }
        }
    }
}
