//! Results as text: aligned, one column a line, CSV, JSON.

use serde_json::{Map, Value};
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

/// A result.
#[derive(Default)]
pub struct Table {
    pub header: Vec<String>,
    pub rows: Vec<Vec<Option<String>>>,
    /// Of each column, as far as it is known.
    pub kinds: Vec<Kind>,
}

/// What is shown besides values.
pub struct Look<'a> {
    pub heading: bool,
    pub count: bool,
    pub null: &'a str,
    pub separator: &'a str,
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

    /// Numbers stand to the right.
    fn is_number(&self, column: usize) -> bool {
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

    fn aligned(&self, look: &Look<'_>) -> String {
        let count = self.header.len();
        let lines_of = |text: &str| text.split('\n').map(str::to_owned).collect::<Vec<_>>();
        let cells: Vec<Vec<Vec<String>>> = self
            .rows
            .iter()
            .map(|row| row.iter().map(|cell| lines_of(self.shown(cell, look))).collect())
            .collect();
        let width = |text: &String| text.chars().count();
        let widths: Vec<usize> = (0..count)
            .map(|i| {
                let own = cells.iter().flat_map(|row| row[i].iter().map(width));
                let head = if look.heading { width(&self.header[i]) } else { 0 };
                own.chain([head]).max().unwrap_or(0)
            })
            .collect();
        let right: Vec<bool> = (0..count).map(|i| self.is_number(i)).collect();
        let mut text = String::new();
        if look.heading && count > 0 {
            let names = self.header.iter().zip(&widths).map(|(name, w)| format!(" {name:<w$} "));
            text.push_str(names.collect::<Vec<_>>().join(look.separator).trim_end());
            text.push('\n');
            let rule: Vec<String> = widths.iter().map(|w| "-".repeat(w + 2)).collect();
            text.push_str(&rule.join("+"));
            text.push('\n');
        }
        for row in &cells {
            let height = row.iter().map(Vec::len).max().unwrap_or(1);
            for line in 0..height {
                let parts = row.iter().enumerate().map(|(i, cell)| {
                    let (w, part) = (widths[i], cell.get(line).map_or("", String::as_str));
                    if right[i] { format!(" {part:>w$} ") } else { format!(" {part:<w$} ") }
                });
                text.push_str(parts.collect::<Vec<_>>().join(look.separator).trim_end());
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
        let quoted = |text: &str| match text.contains([',', '"', '\n', '\r']) {
            true => format!("\"{}\"", text.replace('"', "\"\"")),
            false => text.to_owned(),
        };
        let mut text = String::new();
        if look.heading {
            let names: Vec<String> = self.header.iter().map(|name| quoted(name)).collect();
            let _ = writeln!(text, "{}", names.join(","));
        }
        for row in &self.rows {
            // An empty text is told from NULL.
            let cells = row.iter().map(|cell| match cell.as_deref() {
                None => look.null.to_owned(),
                Some("") => "\"\"".to_owned(),
                Some(text) => quoted(text),
            });
            let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join(","));
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
    use super::*;

    fn table() -> Table {
        Table {
            header: vec!["id".into(), "name".into()],
            rows: vec![
                vec![Some("1".into()), Some("Zoë, \"z\"".into())],
                vec![Some("100".into()), None],
            ],
            kinds: vec![Kind::Number, Kind::Text],
        }
    }

    const LOOK: Look<'static> = Look { heading: true, count: true, null: "", separator: "|" };

    #[test]
    fn results_are_aligned_numbers_to_the_right() {
        let shown = table().text(Format::Aligned, &LOOK);
        assert_eq!(shown, " id  | name\n-----+----------\n   1 | Zoë, \"z\"\n 100 |\n(2 rows)\n");
        let plain = Look { heading: false, count: false, null: "-", separator: " " };
        assert_eq!(table().text(Format::Aligned, &plain), "   1   Zoë, \"z\"\n 100   -\n");
    }

    #[test]
    fn other_formats_keep_values_apart() {
        let shown = table().text(Format::Csv, &LOOK);
        assert_eq!(shown, "id,name\n1,\"Zoë, \"\"z\"\"\"\n100,\n");
        let read: Value = serde_json::from_str(&table().text(Format::Json, &LOOK)).expect("json");
        assert_eq!(
            read,
            serde_json::json!([{"id": 1, "name": "Zoë, \"z\""}, {"id": 100, "name": null}])
        );
        let shown = table().text(Format::Expanded, &LOOK);
        assert!(shown.starts_with("-[ row 1 ]\nid   | 1\nname | Zoë"), "{shown}");
    }
}
