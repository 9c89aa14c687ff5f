//! Results as text: aligned, one column a line, CSV, JSON.

use super::shapes::{PLAIN, Shape};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt::Write;

/// How results are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Format {
    Aligned,
    Expanded,
    Csv,
    Json,
}

/// What becomes of a column's texts in JSON.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Text,
    Number,
    Truth,
    Json,
}

/// What a line of a report has in a column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cell {
    Value(Option<String>),
    /// It stands to the left, also among numbers.
    Label(String),
    /// As many as the column is wide.
    Fill(char),
    Empty,
}

/// A line of a report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Line {
    Cells(Vec<Cell>),
    Blank,
    /// The names of the columns once more.
    Heading,
}

/// A result.
#[derive(Default)]
pub struct Table {
    pub header: Vec<String>,
    pub rows: Vec<Vec<Option<String>>>,
    /// Of each column, as far as it is known.
    pub kinds: Vec<Kind>,
    /// What is shown instead of the rows where they are aligned.
    pub lines: Option<Vec<Line>>,
    /// How columns look there; of those behind the last nothing is said.
    pub shapes: Vec<Shape>,
}

/// A line as it is drawn.
enum Drawn<'a> {
    Parts(Vec<Part<'a>>),
    Blank,
    Heading,
}

enum Part<'a> {
    Lines(Vec<Cow<'a, str>>),
    Left(&'a str),
    Fill(char),
}

impl Part<'_> {
    fn width(&self) -> usize {
        let width = |text: &str| text.chars().count();
        match self {
            Part::Lines(lines) => lines.iter().map(|line| width(line)).max().unwrap_or(0),
            Part::Left(text) => width(text),
            Part::Fill(_) => 0,
        }
    }

    fn height(&self) -> usize {
        if let Part::Lines(lines) = self { lines.len() } else { 1 }
    }

    /// One of its lines, filled up.
    fn shown(&self, line: usize, width: usize, right: bool) -> String {
        let (text, right) = match self {
            Part::Lines(lines) => (lines.get(line).map_or("", |line| &**line), right),
            Part::Left(text) if line == 0 => (*text, false),
            Part::Fill(c) if line == 0 => return format!(" {} ", c.to_string().repeat(width)),
            Part::Left(_) | Part::Fill(_) => ("", false),
        };
        if right { format!(" {text:>width$} ") } else { format!(" {text:<width$} ") }
    }
}

/// How values stand in a line of CSV.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Csv {
    /// What stands between them.
    pub delimiter: char,
    /// Whether those that need quotes have them.
    pub quotes: bool,
}

impl Csv {
    pub const USUAL: Csv = Csv { delimiter: ',', quotes: true };
}

/// What is shown besides values.
pub struct Look<'a> {
    pub heading: bool,
    pub count: bool,
    pub null: &'a str,
    pub separator: &'a str,
    pub csv: Csv,
}

impl Table {
    /// The result as text.
    #[must_use]
    pub fn text(&self, format: Format, look: &Look<'_>) -> String {
        match format {
            Format::Aligned => self.aligned(look),
            Format::Expanded => self.expanded(look),
            Format::Csv => self.csv(look),
            Format::Json => self.json(),
        }
    }

    fn shown<'a>(&'a self, cell: &'a Option<String>, look: &Look<'a>) -> &'a str {
        cell.as_deref().unwrap_or(look.null)
    }

    fn shape(&self, column: usize) -> &Shape {
        self.shapes.get(column).unwrap_or(&PLAIN)
    }

    /// Whether all that a column has are numbers, which stand to the right.
    pub(super) fn is_number(&self, column: usize) -> bool {
        let number = |text: &str| {
            let text = text.strip_prefix('-').unwrap_or(text);
            text.starts_with(|c: char| c.is_ascii_digit())
                && text
                    .bytes()
                    .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'))
                && text.parse::<f64>().is_ok()
        };
        let mut values = self.rows.iter().filter_map(|row| row[column].as_deref()).peekable();
        values.peek().is_some() && values.all(number)
    }

    fn drawn<'a>(&'a self, look: &Look<'a>) -> Vec<Drawn<'a>> {
        let value = |(column, cell): (usize, &'a Option<String>)| {
            let shape = self.shape(column);
            Part::Lines(match cell {
                Some(text) => shape.lines(text),
                None => shape.null_lines(look.null),
            })
        };
        let part = |(column, cell): (usize, &'a Cell)| match cell {
            Cell::Value(cell) => value((column, cell)),
            Cell::Label(text) => Part::Left(self.shape(column).label(text)),
            Cell::Fill(c) => Part::Fill(*c),
            Cell::Empty => Part::Left(""),
        };
        match &self.lines {
            None => {
                let rows = self.rows.iter();
                rows.map(|row| Drawn::Parts(row.iter().enumerate().map(value).collect())).collect()
            }
            Some(lines) => {
                let drawn = lines.iter().map(|line| match line {
                    Line::Cells(cells) => {
                        Drawn::Parts(cells.iter().enumerate().map(part).collect())
                    }
                    Line::Blank => Drawn::Blank,
                    Line::Heading => Drawn::Heading,
                });
                drawn.collect()
            }
        }
    }

    /// The lines of a column's heading.
    fn heading(&self, column: usize) -> Vec<&str> {
        match &self.shape(column).heading {
            Some(lines) => lines.iter().map(String::as_str).collect(),
            None => vec![self.header[column].as_str()],
        }
    }

    fn widths(&self, drawn: &[Drawn<'_>], look: &Look<'_>) -> Vec<usize> {
        let width = |column: usize| {
            let own = drawn.iter().filter_map(|line| match line {
                Drawn::Parts(parts) => Some(parts[column].width()),
                Drawn::Blank | Drawn::Heading => None,
            });
            let lines = if look.heading { self.heading(column) } else { Vec::new() };
            let head = lines.iter().map(|line| line.chars().count());
            own.chain(head).max().unwrap_or(0).max(self.shape(column).width_min())
        };
        let all = 0..self.header.len();
        all.map(|column| self.shape(column).width().unwrap_or_else(|| width(column))).collect()
    }

    /// The names of the columns, and the line below them.
    fn headings(&self, widths: &[usize], look: &Look<'_>) -> String {
        let mut text = String::new();
        if !look.heading || widths.is_empty() {
            return text;
        }
        let all: Vec<Vec<&str>> = (0..widths.len()).map(|column| self.heading(column)).collect();
        let height = all.iter().map(Vec::len).max().unwrap_or(0);
        for line in 0..height {
            let names = all.iter().zip(widths).enumerate().map(|(column, (lines, width))| {
                // Those of fewer lines stand at the bottom.
                let at = (line + lines.len()).checked_sub(height);
                self.shape(column).heading_line(at.map_or("", |at| lines[at]), *width)
            });
            text.push_str(names.collect::<Vec<_>>().join(look.separator).trim_end());
            text.push('\n');
        }
        let rule: Vec<String> = widths.iter().map(|w| "-".repeat(w + 2)).collect();
        let usual = look.separator == super::settings::SEPARATOR;
        text.push_str(&rule.join(if usual { "+" } else { look.separator }));
        text.push('\n');
        text
    }

    fn aligned(&self, look: &Look<'_>) -> String {
        let drawn = self.drawn(look);
        let widths = self.widths(&drawn, look);
        let is_right = |column| self.shape(column).is_right();
        let right: Vec<bool> = (0..widths.len())
            .map(|column| is_right(column).unwrap_or_else(|| self.is_number(column)))
            .collect();
        let heading = self.headings(&widths, look);
        let mut text = heading.clone();
        for line in &drawn {
            let parts = match line {
                Drawn::Parts(parts) => parts,
                Drawn::Blank => {
                    text.push('\n');
                    continue;
                }
                Drawn::Heading => {
                    text.push('\n');
                    text.push_str(&heading);
                    continue;
                }
            };
            let height = parts.iter().map(Part::height).max().unwrap_or(1);
            for line in 0..height {
                let shown = parts.iter().zip(widths.iter().zip(&right));
                let shown = shown.map(|(part, (w, right))| part.shown(line, *w, *right));
                text.push_str(shown.collect::<Vec<_>>().join(look.separator).trim_end());
                text.push('\n');
            }
        }
        if look.count {
            text.push_str(&count_of(self.rows.len()));
        }
        text
    }

    fn expanded(&self, look: &Look<'_>) -> String {
        let width = self.header.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let mut text = String::new();
        for (n, row) in self.rows.iter().enumerate() {
            let _ = writeln!(text, "-[ row {} ]{}", n + 1, "-".repeat(width.saturating_sub(4)));
            for (name, cell) in self.header.iter().zip(row) {
                let shown = self.shown(cell, look).replace('\n', &format!("\n{:width$} | ", ""));
                let _ = writeln!(text, "{name:<width$} | {shown}");
            }
        }
        if look.count {
            text.push_str(&count_of(self.rows.len()));
        }
        text
    }

    fn csv(&self, look: &Look<'_>) -> String {
        let Csv { delimiter, quotes } = look.csv;
        let between = delimiter.to_string();
        let quoted = |text: &str| match quotes && text.contains([delimiter, '"', '\n', '\r']) {
            true => format!("\"{}\"", text.replace('"', "\"\"")),
            false => text.to_owned(),
        };
        let mut text = String::new();
        if look.heading {
            let names: Vec<String> = self.header.iter().map(|name| quoted(name)).collect();
            let _ = writeln!(text, "{}", names.join(between.as_str()));
        }
        for row in &self.rows {
            // An empty text is told from NULL.
            let cells = row.iter().map(|cell| match cell.as_deref() {
                None => look.null.to_owned(),
                Some("") if quotes => "\"\"".to_owned(),
                Some(text) => quoted(text),
            });
            let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join(between.as_str()));
        }
        text
    }

    fn json(&self) -> String {
        let value = |cell: &Option<String>, kind: Kind| match (cell.as_deref(), kind) {
            (None, _) => Value::Null,
            (Some(text), Kind::Number | Kind::Json) => {
                serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
            }
            (Some(text), Kind::Truth) => Value::Bool(text == "t"),
            (Some(text), Kind::Text) => Value::from(text),
        };
        let rows = self.rows.iter().map(|row| {
            let cells = row.iter().enumerate().map(|(i, cell)| {
                let kind = self.kinds.get(i).copied().unwrap_or(Kind::Text);
                (self.header[i].clone(), value(cell, kind))
            });
            Value::Object(cells.collect::<Map<String, Value>>())
        });
        let rows: Vec<Value> = rows.collect();
        serde_json::to_string_pretty(&rows).unwrap_or_default() + "\n"
    }
}

fn count_of(rows: usize) -> String {
    format!("({rows} row{})\n", if rows == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::super::shapes::{Form, Side, Template, Wrap};
    use super::*;

    fn table() -> Table {
        Table {
            header: vec!["id".into(), "name".into()],
            rows: vec![
                vec![Some("1".into()), Some("Zoë, \"z\"".into())],
                vec![Some("100".into()), None],
            ],
            kinds: vec![Kind::Number, Kind::Text],
            ..Table::default()
        }
    }

    const LOOK: Look<'static> =
        Look { heading: true, count: true, null: "", separator: "|", csv: Csv::USUAL };

    #[test]
    fn results_are_aligned_numbers_to_the_right() {
        let shown = table().text(Format::Aligned, &LOOK);
        assert_eq!(shown, " id  | name\n-----+----------\n   1 | Zoë, \"z\"\n 100 |\n(2 rows)\n");
        let plain = Look { heading: false, count: false, null: "-", separator: " ", ..LOOK };
        assert_eq!(table().text(Format::Aligned, &plain), "   1   Zoë, \"z\"\n 100   -\n");
        let own = Look { separator: ";", count: false, ..LOOK };
        let shown = table().text(Format::Aligned, &own);
        assert!(shown.starts_with(" id  ; name\n-----;----------\n   1 ; Zoë"), "{shown}");
    }

    #[test]
    fn columns_have_a_shape_of_their_own() {
        let template = |text| Template::read(text).map_or(Form::Plain, Form::Number);
        let text = |width| Form::Text { width, wrap: Wrap::Lines };
        let heading = |text: &str| Some(text.split('|').map(str::to_owned).collect());
        let number = Shape { form: template("990.00"), ..Shape::default() };
        let name = Shape {
            form: text(4),
            heading: heading("Full|Name"),
            null: Some("none".into()),
            ..Shape::default()
        };
        let shaped = Table { shapes: vec![number, name], ..table() };
        let wanted = [
            "         | Full",
            "      id | Name",
            "---------+------",
            "    1.00 | Zoë,",
            "         |  \"z\"",
            "  100.00 | none",
            "(2 rows)",
        ];
        let shown = shaped.text(Format::Aligned, &LOOK);
        assert_eq!(shown.lines().collect::<Vec<_>>(), wanted);
        assert!(shaped.text(Format::Csv, &LOOK).starts_with("id,name\n1,"));
        // A width of its own cuts the name of the column, and a side moves it.
        let name = Shape { form: text(3), side: Some(Side::Right), ..Shape::default() };
        let number = Shape { form: Form::Within(2), side: Some(Side::Left), ..Shape::default() };
        let shaped = Table { shapes: vec![number, name], ..table() };
        let shown = shaped.text(Format::Aligned, &LOOK);
        let wanted = [
            " id | nam",
            "----+-----",
            "  1 | Zoë",
            "    | , \"",
            "    | z\"",
            " ## |",
            "(2 rows)",
        ];
        assert_eq!(shown.lines().collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn lines_of_a_report_stand_in_the_columns() {
        let value = |text: &str| Cell::Value(Some(text.to_owned()));
        let lines = vec![
            Line::Cells(vec![value("1"), value("a")]),
            Line::Cells(vec![Cell::Fill('*'), Cell::Fill('-')]),
            Line::Cells(vec![Cell::Label("x".into()), Cell::Empty]),
            Line::Blank,
            Line::Heading,
            Line::Cells(vec![value("100"), Cell::Value(None)]),
        ];
        let report = Table { lines: Some(lines), ..table() };
        let wanted = [
            " id  | name",
            "-----+------",
            "   1 | a",
            " *** | ----",
            " x   |",
            "",
            "",
            " id  | name",
            "-----+------",
            " 100 |",
            "(2 rows)",
        ];
        let shown = report.text(Format::Aligned, &LOOK);
        assert_eq!(shown.lines().collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn other_formats_keep_values_apart() {
        let shown = table().text(Format::Csv, &LOOK);
        assert_eq!(shown, "id,name\n1,\"Zoë, \"\"z\"\"\"\n100,\n");
        let csv = |delimiter, quotes| {
            table().text(Format::Csv, &Look { csv: Csv { delimiter, quotes }, ..LOOK })
        };
        assert_eq!(csv('|', true), "id|name\n1|\"Zoë, \"\"z\"\"\"\n100|\n");
        assert_eq!(csv(';', false), "id;name\n1;Zoë, \"z\"\n100;\n");
        let read: Value = serde_json::from_str(&table().text(Format::Json, &LOOK)).expect("json");
        assert_eq!(
            read,
            serde_json::json!([{"id": 1, "name": "Zoë, \"z\""}, {"id": 100, "name": null}])
        );
        let shown = table().text(Format::Expanded, &LOOK);
        assert!(shown.starts_with("-[ row 1 ]\nid   | 1\nname | Zoë"), "{shown}");
    }
}
