//! `column`: how columns look, which are not shown, and which variables take their values.
//!
//! What it promises: widths, templates and headings are those of aligned results; the other formats
//! have values and names as they come. What it must never do: write a text by a number's template.

use super::Shell;
use super::format::{Format, Kind, Line, Table};
use super::shapes::{Form, Shape, Side, Template, Wrap};
use super::words::{full, quoted_words};

/// Characters of a column that says how wide it is.
const WIDTH_MAX: usize = 32_767;

/// What templates may have in them.
pub(super) const TEMPLATES: &str = "a number's template has 9 0 , . $ B MI S PR";

/// Words of `column`, each by the shortest form that is taken and in full.
const OPTIONS: [(&str, &str); 20] = [
    ("ali", "alias"),
    ("cle", "clear"),
    ("entmap", "entmap"),
    ("fold_a", "fold_after"),
    ("fold_b", "fold_before"),
    ("for", "format"),
    ("hea", "heading"),
    ("jus", "justify"),
    ("like", "like"),
    ("newl", "newline"),
    ("new_v", "new_value"),
    ("nopri", "noprint"),
    ("nul", "null"),
    ("off", "off"),
    ("old_v", "old_value"),
    ("on", "on"),
    ("pri", "print"),
    ("tru", "truncated"),
    ("wor", "word_wrapped"),
    ("wra", "wrapped"),
];

/// What stands behind `format`.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Written {
    /// `a20`: in so many characters.
    Text(usize),
    Number(Template),
}

impl Written {
    fn read(text: &str) -> Option<Written> {
        match text.strip_prefix(['a', 'A']) {
            Some(width) => {
                let width = width.parse().ok().filter(|width| (1..=WIDTH_MAX).contains(width));
                width.map(Written::Text)
            }
            None => Template::read(text).map(Written::Number),
        }
    }
}

/// What `column` says of one.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Column {
    new_value: Option<String>,
    hidden: bool,
    /// What is said of it does not hold for now.
    off: bool,
    written: Option<Written>,
    heading: Option<String>,
    side: Option<Side>,
    null: Option<String>,
    wrap: Option<Wrap>,
}

impl Column {
    /// Takes a word and what belongs to it.
    ///
    /// # Errors
    /// What is wrong with it.
    fn take<'a>(
        &mut self,
        word: &str,
        rest: &mut impl Iterator<Item = &'a str>,
    ) -> Result<(), String> {
        match full(&OPTIONS, word).unwrap_or("") {
            "clear" => *self = Column::default(),
            "format" => {
                let text = rest.next().unwrap_or("");
                let Some(written) = Written::read(text) else {
                    return Err(format!("format {text}: a text's width is as in a20, {TEMPLATES}"));
                };
                self.written = Some(written);
            }
            "heading" => self.heading = rest.next().map(str::to_owned),
            "justify" => {
                self.side = Some(match rest.next().unwrap_or("").to_ascii_lowercase().as_str() {
                    "l" | "left" => Side::Left,
                    "c" | "center" | "centre" => Side::Center,
                    "r" | "right" => Side::Right,
                    other => return Err(format!("justify {other}: left, center or right")),
                });
            }
            "new_value" => self.new_value = rest.next().map(str::to_lowercase),
            "noprint" => self.hidden = true,
            "print" => self.hidden = false,
            "null" => self.null = rest.next().map(str::to_owned),
            "off" => self.off = true,
            "on" => self.off = false,
            "truncated" => self.wrap = Some(Wrap::Cut),
            "word_wrapped" => self.wrap = Some(Wrap::Words),
            "wrapped" => self.wrap = Some(Wrap::Lines),
            // They only say how a page looks.
            "alias" | "entmap" | "old_value" => drop(rest.next()),
            "fold_after" | "fold_before" | "newline" => {}
            _ => return Err(format!("{word}: there is no such word")),
        }
        Ok(())
    }

    /// Takes from another one what is not said of it how it looks.
    fn take_like(&mut self, other: &Column) {
        let own = std::mem::take(self);
        *self = Column {
            written: own.written.or_else(|| other.written.clone()),
            heading: own.heading.or_else(|| other.heading.clone()),
            side: own.side.or(other.side),
            null: own.null.or_else(|| other.null.clone()),
            wrap: own.wrap.or(other.wrap),
            ..own
        };
    }

    /// As it could be said.
    fn shown(&self, name: &str) -> String {
        let mut out = format!("column {name}");
        match &self.written {
            Some(Written::Text(width)) => out.push_str(&format!(" format a{width}")),
            Some(Written::Number(template)) => {
                out.push_str(&format!(" format {}", template.written()));
            }
            None => {}
        }
        if let Some(text) = &self.heading {
            out.push_str(&format!(" heading '{text}'"));
        }
        match self.side {
            Some(Side::Left) => out.push_str(" justify left"),
            Some(Side::Center) => out.push_str(" justify center"),
            Some(Side::Right) => out.push_str(" justify right"),
            None => {}
        }
        match self.wrap {
            Some(Wrap::Lines) => out.push_str(" wrapped"),
            Some(Wrap::Words) => out.push_str(" word_wrapped"),
            Some(Wrap::Cut) => out.push_str(" truncated"),
            None => {}
        }
        if let Some(text) = &self.null {
            out.push_str(&format!(" null '{text}'"));
        }
        if let Some(variable) = &self.new_value {
            out.push_str(&format!(" new_value {variable}"));
        }
        out.push_str(if self.hidden { " noprint" } else { "" });
        out.push_str(if self.off { " off\n" } else { "\n" });
        out
    }
}

impl Shell {
    /// `column NAME [format F] [heading TEXT] [justify SIDE] [null TEXT] [new_value VARIABLE]
    /// [noprint] [like NAME] [off] [clear]`, or what there is.
    pub(super) fn column(&mut self, text: &str) {
        let words = quoted_words(text);
        let mut words = words.iter().map(String::as_str);
        let Some(name) = words.next().map(str::to_lowercase) else {
            let shown = self.columns.iter().map(|(name, column)| column.shown(name));
            let shown: String = shown.collect();
            return self.print(&shown);
        };
        let mut words = words.peekable();
        let known = self.columns.get(&name);
        if words.peek().is_none() {
            match known.map(|column| column.shown(&name)) {
                Some(shown) => self.print(&shown),
                None => self.refuse(&format!("column {name}: nothing is said of it")),
            }
            return;
        }
        let mut column = known.cloned().unwrap_or_default();
        while let Some(word) = words.next() {
            let done = match full(&OPTIONS, word) {
                Some("like") => {
                    let other = words.next().unwrap_or("").to_lowercase();
                    let found = self.columns.get(&other);
                    let done = found.map(|other| column.take_like(other));
                    done.ok_or_else(|| format!("like {other}: nothing is said of it"))
                }
                _ => column.take(word, &mut words),
            };
            // What else is said holds.
            if let Err(error) = done {
                self.refuse(&format!("column {name} {error}"));
            }
        }
        match column == Column::default() {
            true => drop(self.columns.remove(&name)),
            false => drop(self.columns.insert(name, column)),
        }
    }

    /// What is said of a column, and holds.
    fn said_of(&self, name: &str) -> Option<&Column> {
        self.columns.get(&name.to_lowercase()).filter(|column| !column.off)
    }

    /// Keeps the values that columns give to variables; the result without what is not printed.
    pub(super) fn columns_applied(&mut self, mut table: Table) -> Table {
        if self.columns.is_empty() {
            return table;
        }
        for at in (0..table.header.len()).rev() {
            let known = self.columns.get(&table.header[at].to_lowercase());
            let Some(column) = known.filter(|column| !column.off) else { continue };
            if let Some(name) = &column.new_value {
                match table.rows.last() {
                    Some(row) => {
                        self.defines.insert(name.clone(), row[at].clone().unwrap_or_default());
                    }
                    // Who asks whether it is defined gets an empty text.
                    None => drop(self.defines.entry(name.clone()).or_default()),
                }
            }
            if column.hidden {
                table.header.remove(at);
                table.rows.iter_mut().for_each(|row| drop(row.remove(at)));
                if at < table.kinds.len() {
                    table.kinds.remove(at);
                }
                for line in table.lines.iter_mut().flatten() {
                    if let Line::Cells(cells) = line {
                        cells.remove(at);
                    }
                }
            }
        }
        table
    }

    /// Whether it must be known which columns of a result are numbers.
    pub(super) fn writes_numbers(&self, table: &Table) -> bool {
        let has_template = |name: &String| {
            let written = self.said_of(name).and_then(|column| column.written.as_ref());
            matches!(written, Some(Written::Number(_)))
        };
        let settings = &self.settings;
        settings.format == Format::Aligned
            && (settings.numformat.is_some()
                || settings.numwidth.is_some()
                || table.header.iter().any(has_template))
    }

    /// Says how the columns of a result are shown.
    pub(super) fn shape(&self, table: &mut Table) {
        let shapes = (0..table.header.len()).map(|at| self.shape_of(table, at));
        let shapes: Vec<Shape> = shapes.collect();
        table.shapes = shapes;
    }

    fn shape_of(&self, table: &Table, at: usize) -> Shape {
        let settings = &self.settings;
        let column = self.said_of(&table.header[at]);
        let written = column.and_then(|column| column.written.as_ref());
        let known = table.kinds.get(at).map(|kind| *kind == Kind::Number);
        let form = match written {
            Some(Written::Text(width)) => {
                let usual = if settings.wraps { Wrap::Lines } else { Wrap::Cut };
                let wrap = column.and_then(|column| column.wrap).unwrap_or(usual);
                Form::Text { width: *width, wrap }
            }
            Some(Written::Number(template)) if known.unwrap_or_else(|| table.is_number(at)) => {
                Form::Number(template.clone())
            }
            _ if known == Some(true) => match (&settings.numformat, settings.numwidth) {
                (Some(template), _) => Form::Number(template.clone()),
                (None, Some(width)) => Form::Within(width),
                (None, None) => Form::Plain,
            },
            _ => Form::Plain,
        };
        let heading = column.and_then(|column| column.heading.as_deref());
        let heading = heading.map(|text| match settings.headsep {
            Some(sign) => text.split(sign).map(str::to_owned).collect(),
            None => vec![text.to_owned()],
        });
        let (side, null) = match column {
            Some(column) => (column.side, column.null.clone()),
            None => (None, None),
        };
        Shape { form, heading, side, null }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(text: &str) -> (Column, Vec<String>) {
        let words = quoted_words(text);
        let mut words = words.iter().map(String::as_str);
        let (mut column, mut errors) = (Column::default(), Vec::new());
        while let Some(word) = words.next() {
            errors.extend(column.take(word, &mut words).err());
        }
        (column, errors)
    }

    #[test]
    fn words_say_how_a_column_looks() {
        let shown = |text: &str| column(text).0.shown("c");
        assert_eq!(shown("format A20"), "column c format a20\n");
        assert_eq!(
            shown("for $999,990.99 hea 'Total|Pay' jus center nul '-' wra new_v V nopri"),
            "column c format $999,990.99 heading 'Total|Pay' justify center wrapped null '-' \
             new_value v noprint\n"
        );
        assert_eq!(shown("alias x entmap off word tru off"), "column c truncated off\n");
        assert_eq!(shown("noprint format a5 off clear"), "column c\n");
        for wrong in ["format a0", "format", "format x", "justify up", "bogus"] {
            let (column, errors) = column(wrong);
            assert!(errors.len() == 1 && column == Column::default(), "{wrong}: {errors:?}");
        }
    }

    #[test]
    fn a_column_may_look_like_another() {
        let (mut own, _) = column("heading Own new_value v");
        own.take_like(&column("format a5 heading Other noprint").0);
        assert_eq!(own.shown("c"), "column c format a5 heading 'Own' new_value v\n");
    }
}
