//! COPY's text and CSV: options, lines taken apart, fields written.
//!
//! What it promises: what is written is read back as the same values. A field without anything
//! special in it is not copied.

use crate::bind::ident_name;
use crate::copy_binary;
use crate::encode::RowSink;
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{CopyLegacyCsvOption, CopyLegacyOption, CopyOption, Ident};
use kernel::dict::TableDef;
use kernel::row::{ColType, Datum, TypeKind};
use memchr::{memchr, memchr2};
use query::wire::{FormatEnv, push_text};
use std::borrow::Cow;

/// How rows are written.
#[derive(Clone, Debug)]
pub(crate) struct Format {
    pub(crate) csv: bool,
    pub(crate) binary: bool,
    pub(crate) delimiter: u8,
    pub(crate) null: String,
    pub(crate) header: bool,
    pub(crate) quote: u8,
    pub(crate) escape: u8,
    /// Whether the header line must name the columns.
    pub(crate) match_header: bool,
    /// Columns that are always written in quotes.
    force_quote: Chosen,
    /// Columns whose unquoted fields are never NULL.
    force_not_null: Chosen,
    /// Columns whose quoted fields may be NULL.
    force_null: Chosen,
}

/// Columns that an option names, and whether each of those copied is one of them.
#[derive(Clone, Debug, Default)]
struct Chosen {
    option: &'static str,
    names: Vec<String>,
    all: bool,
    each: Vec<bool>,
}

/// The name that stands for all columns in a list that may be `*`.
pub(crate) const ALL_COLUMNS: &str = "$all";
/// The name in a list of FORCE_NULL that stands for HEADER MATCH.
pub(crate) const MATCH: &str = "$match";

impl Chosen {
    fn of(option: &'static str, idents: &[Ident]) -> Chosen {
        let names: Vec<String> = idents.iter().map(ident_name).collect();
        let all = names.iter().any(|name| name == ALL_COLUMNS);
        Chosen { option, names, all, each: Vec::new() }
    }

    fn is_given(&self) -> bool {
        self.all || !self.names.is_empty()
    }

    fn choose(&mut self, columns: &[&str], table: Option<&TableDef>) -> Result<()> {
        if !self.is_given() {
            return Ok(());
        }
        let unknown = |name: &&String| !columns.contains(&name.as_str());
        if let Some(name) = self.names.iter().filter(|_| !self.all).find(unknown) {
            let (code, text) = match table {
                None => ("42703", format!("column \"{name}\" does not exist")),
                Some(table) if table.column(name).is_none() => {
                    let relation = &table.name;
                    let text =
                        format!("column \"{name}\" of relation \"{relation}\" does not exist");
                    ("42703", text)
                }
                Some(_) => {
                    let option = self.option;
                    ("42P10", format!("{option} column \"{name}\" not referenced by COPY"))
                }
            };
            return Err(PgError::new(code, text));
        }
        let chosen = |name: &&str| self.all || self.names.iter().any(|one| one == name);
        self.each = columns.iter().map(chosen).collect();
        Ok(())
    }

    fn has(&self, at: usize) -> bool {
        self.each.get(at).copied().unwrap_or(false)
    }
}

fn one_byte(c: char, what: &str) -> Result<u8> {
    u8::try_from(c).ok().filter(u8::is_ascii).ok_or_else(|| {
        PgError::new("0A000", format!("COPY {what} must be a single one-byte character"))
    })
}

impl Format {
    pub(crate) fn new(
        options: &[CopyOption],
        legacy: &[CopyLegacyOption],
        out: bool,
    ) -> Result<Format> {
        let (mut csv, mut binary) = (false, false);
        let (mut delimiter, mut null, mut header) = (None, None, false);
        let (mut quote, mut escape) = (None, None);
        let mut match_header = false;
        let (mut force_quote, mut force_not_null, mut force_null) =
            (Chosen::default(), Chosen::default(), Chosen::default());
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
                CopyOption::ForceQuote(names) => force_quote = Chosen::of("FORCE_QUOTE", names),
                CopyOption::ForceNotNull(names) => {
                    force_not_null = Chosen::of("FORCE_NOT_NULL", names);
                }
                CopyOption::ForceNull(names)
                    if names.len() == 1 && ident_name(&names[0]) == MATCH =>
                {
                    match_header = true;
                }
                CopyOption::ForceNull(names) => force_null = Chosen::of("FORCE_NULL", names),
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
                            CopyLegacyCsvOption::ForceQuote(names) => {
                                force_quote = Chosen::of("FORCE_QUOTE", names);
                            }
                            CopyLegacyCsvOption::ForceNotNull(names) => {
                                force_not_null = Chosen::of("FORCE_NOT_NULL", names);
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
        for (given, name, only_out) in [
            (&force_quote, "COPY force quote", true),
            (&force_not_null, "COPY force not null", false),
            (&force_null, "COPY force null", false),
        ] {
            if given.is_given() && !csv {
                return Err(PgError::new("0A000", format!("{name} available only in CSV mode")));
            }
            if given.is_given() && only_out != out {
                let only = if only_out { "COPY TO" } else { "COPY FROM" };
                return Err(PgError::new("0A000", format!("{name} only available using {only}")));
            }
        }
        if match_header && out {
            return Err(PgError::new("0A000", "cannot use \"match\" with HEADER in COPY TO"));
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
            match_header,
            force_quote,
            force_not_null,
            force_null,
        })
    }

    /// Takes in the names of the columns that are copied.
    pub(crate) fn choose(&mut self, columns: &[&str], table: Option<&TableDef>) -> Result<()> {
        let lists = [&mut self.force_quote, &mut self.force_not_null, &mut self.force_null];
        lists.into_iter().try_for_each(|list| list.choose(columns, table))
    }

    /// Whether a CSV field is NULL.
    fn is_null(&self, at: usize, field: &str, quoted: bool) -> bool {
        let may_be = match quoted {
            true => self.force_null.has(at),
            false => !self.force_not_null.has(at),
        };
        may_be && field == self.null
    }
}

/// How far the search for a line's end has come.
#[derive(Default)]
pub(crate) struct LineSearch {
    /// Inside a quoted CSV field at `scanned`, up to which the buffer has been looked at.
    pub(crate) in_quotes: bool,
    pub(crate) scanned: usize,
    /// Whether the byte before `scanned` is an escape.
    after_escape: bool,
}

impl LineSearch {
    /// Where the line that begins at `from` ends.
    pub(crate) fn line_end(
        &mut self,
        buffer: &[u8],
        from: usize,
        format: &Format,
    ) -> Option<usize> {
        if format.csv && format.escape != format.quote {
            return self.line_end_escaped(buffer, from, format);
        }
        let mut at = self.scanned.max(from);
        let found = loop {
            let rest = &buffer[at..];
            let next = match format.csv {
                true => memchr2(format.quote, b'\n', rest),
                false => memchr(b'\n', rest),
            };
            let Some(next) = next else { break None };
            let here = at + next;
            at = here + 1;
            if !format.csv {
                // A newline after a backslash belongs to the field.
                if !escaped(buffer, from, here) {
                    break Some(here);
                }
            } else if buffer[here] == format.quote {
                self.in_quotes = !self.in_quotes;
            } else if !self.in_quotes {
                break Some(here);
            }
        };
        self.scanned = found.map_or(buffer.len(), |end| end + 1);
        found
    }
}

impl LineSearch {
    /// The same of CSV whose quotes are escaped by something else than themselves.
    fn line_end_escaped(&mut self, buffer: &[u8], from: usize, format: &Format) -> Option<usize> {
        let begin = self.scanned.max(from);
        let found = (begin..buffer.len()).find(|at| {
            let byte = buffer[*at];
            let after_escape = std::mem::take(&mut self.after_escape);
            if byte == format.quote && !after_escape {
                self.in_quotes = !self.in_quotes;
            }
            self.after_escape = self.in_quotes && byte == format.escape && !after_escape;
            byte == b'\n' && !self.in_quotes
        });
        self.scanned = found.map_or(buffer.len(), |end| end + 1);
        found
    }
}

fn escaped(buffer: &[u8], from: usize, at: usize) -> bool {
    buffer[from..at].iter().rev().take_while(|b| **b == b'\\').count() % 2 == 1
}

/// A field of a line; NULL is `None`.
pub(crate) type Field<'l> = Option<Cow<'l, str>>;

/// Fields of a line of text.
pub(crate) fn text_fields<'l>(line: &'l str, format: &Format) -> Result<Vec<Field<'l>>> {
    let bytes = line.as_bytes();
    let mut out = Vec::new();
    let mut from = 0;
    loop {
        let special = memchr2(format.delimiter, b'\\', &bytes[from..]).map(|at| from + at);
        let (end, coded) = match special {
            None => (bytes.len(), None),
            Some(at) if bytes[at] == format.delimiter => (at, None),
            Some(_) => {
                coded_field(&line[from..], format).map(|(len, text)| (from + len, Some(text)))?
            }
        };
        let raw = &line[from..end];
        out.push((raw != format.null).then(|| coded.map_or(Cow::Borrowed(raw), Cow::Owned)));
        if end == bytes.len() {
            return Ok(out);
        }
        from = end + 1;
    }
}

/// Length and content of a field with backslashes, which ends at a delimiter or with the line.
fn coded_field(line: &str, format: &Format) -> Result<(usize, String)> {
    let delimiter = char::from(format.delimiter);
    let mut field = String::new();
    let mut chars = line.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if c == delimiter {
            return Ok((at, field));
        }
        if c != '\\' {
            field.push(c);
            continue;
        }
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
    }
    Ok((line.len(), field))
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
pub(crate) fn csv_fields<'l>(line: &'l str, format: &Format) -> Result<Vec<Field<'l>>> {
    if memchr(format.quote, line.as_bytes()).is_none() {
        let fields = line.split(char::from(format.delimiter)).enumerate();
        let value = |(at, f)| (!format.is_null(at, f, false)).then_some(Cow::Borrowed(f));
        return Ok(fields.map(value).collect());
    }
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
                let null = format.is_null(out.len(), &field, quoted);
                out.push((!null).then_some(Cow::Owned(field)));
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
                let null = format.is_null(out.len(), &done, quoted);
                out.push((!null).then_some(Cow::Owned(done)));
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

pub(crate) fn push_header(names: &[&str], format: &Format, sink: &mut dyn RowSink) {
    let mut line = Vec::new();
    // Names are in quotes only where they must be.
    let plain = Format { force_quote: Chosen::default(), ..format.clone() };
    let (text, env) = (ColType::new(TypeKind::Text), FormatEnv::plain());
    for (i, name) in names.iter().enumerate() {
        push_field(i, &Datum::Text(name), text, &plain, &env, &mut line);
    }
    line.push(b'\n');
    sink.row().extend_from_slice(&line);
}

/// Appends one field, and the delimiter before it.
pub(crate) fn push_field(
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
        let forced = format.force_quote.has(i);
        if forced || raw == format.null.as_bytes() || raw.iter().any(special) || raw == b"\\." {
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
        Format::new(options, &[], false).unwrap()
    }

    fn some(text: &str) -> Field<'_> {
        Some(Cow::Borrowed(text))
    }

    #[test]
    fn quotes_may_be_escaped_by_something_else() {
        let f = Format { escape: b'\\', ..format(true) };
        let data = b"1,\"a\\\"b\nc\"\n2,\"\\\\\"\n";
        for cut in 0..data.len() {
            let (mut search, mut from, mut lines) = (LineSearch::default(), 0, Vec::new());
            for end in [cut, data.len()] {
                while let Some(at) = search.line_end(&data[..end], from, &f) {
                    lines.push(std::str::from_utf8(&data[from..at]).unwrap());
                    from = at + 1;
                }
            }
            assert_eq!(lines, ["1,\"a\\\"b\nc\"", "2,\"\\\\\""], "{cut}");
            assert_eq!(csv_fields(lines[0], &f).unwrap(), [some("1"), some("a\"b\nc")]);
            assert_eq!(csv_fields(lines[1], &f).unwrap(), [some("2"), some("\\")]);
        }
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
