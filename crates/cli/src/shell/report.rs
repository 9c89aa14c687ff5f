//! Breaks, and what is computed at them: `break`, `compute`.
//!
//! What it promises: sums of numbers are exact as long as they have room in 38 digits. What it must
//! never do: change a value that a row has.

use super::figures::{Figure, Gathered};
use super::format::{Cell, Line, Table};
use super::words::quoted_words;
use super::{Format, Shell};
use crate::error::{CliError, Result};
use std::fmt::Write;

/// What a break is at.
#[derive(Clone, PartialEq, Eq, Debug)]
enum On {
    /// The end of all rows.
    Report,
    /// Another value of a column.
    Column(String),
    Row,
}

impl On {
    fn named(word: &str) -> On {
        match word.trim_end_matches(',').to_lowercase().as_str() {
            "report" => On::Report,
            "row" => On::Row,
            name => On::Column(name.to_owned()),
        }
    }

    fn shown(&self) -> &str {
        match self {
            On::Report => "report",
            On::Column(name) => name,
            On::Row => "row",
        }
    }

    /// The outermost first.
    fn rank(&self) -> u8 {
        match self {
            On::Report => 0,
            On::Column(_) => 1,
            On::Row => 2,
        }
    }
}

#[derive(Clone, Debug)]
struct Break {
    on: On,
    /// Blank lines behind it.
    skip: usize,
    /// The names of the columns stand behind it once more.
    page: bool,
    /// A value that is the same as before is shown all the same.
    repeats: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Compute {
    figure: Figure,
    label: String,
    of: String,
    on: On,
}

/// What `break` and `compute` have said.
#[derive(Default)]
pub(super) struct Report {
    breaks: Vec<Break>,
    computes: Vec<Compute>,
}

/// Whether a word is another one, or as much of it as must be there.
fn is(word: &str, short: &str, full: &str) -> bool {
    let word = word.to_ascii_lowercase();
    word.starts_with(short) && full.starts_with(&word)
}

fn usage(text: &str) -> CliError {
    CliError::failed(text)
}

impl Report {
    /// `break on COLUMN [skip N|page] [nodup|dup] on ..`
    fn set_breaks(&mut self, text: &str) -> Result<()> {
        let wrong = || usage("break on COLUMN|row|report [skip N|page] [nodup|dup] [on ..]");
        let words = quoted_words(text);
        let mut words = words.iter();
        let mut breaks: Vec<Break> = Vec::new();
        while let Some(word) = words.next() {
            if word.eq_ignore_ascii_case("on") {
                let on = On::named(words.next().ok_or_else(wrong)?);
                breaks.retain(|known| known.on != on);
                breaks.push(Break { on, skip: 0, page: false, repeats: false });
                continue;
            }
            let last = breaks.last_mut().ok_or_else(wrong)?;
            if is(word, "ski", "skip") {
                let what = words.next().ok_or_else(wrong)?;
                match what.parse::<usize>() {
                    Ok(lines) => last.skip = lines,
                    Err(_) if is(what, "p", "page") => last.page = true,
                    Err(_) => return Err(wrong()),
                }
            } else if is(word, "p", "page") {
                last.page = true;
            } else if is(word, "nodup", "noduplicates") {
                last.repeats = false;
            } else if is(word, "dup", "duplicates") {
                last.repeats = true;
            } else {
                return Err(wrong());
            }
        }
        breaks.sort_by_key(|known| known.on.rank());
        self.breaks = breaks;
        Ok(())
    }

    /// `compute FUNCTION [label TEXT] .. of COLUMN .. on COLUMN|report ..`
    fn add_computes(&mut self, text: &str) -> Result<()> {
        let wrong = || {
            usage(
                "compute sum|avg|count|min|max|num|std|var [label TEXT] of COLUMN .. on \
                 COLUMN|row|report ..",
            )
        };
        let words = quoted_words(text);
        let mut words = words.iter();
        let mut figures: Vec<(Figure, Option<String>)> = Vec::new();
        let mut of: Vec<String> = Vec::new();
        while let Some(word) = words.next() {
            if word.eq_ignore_ascii_case("of") {
                break;
            }
            if is(word, "lab", "label") {
                let last = figures.last_mut().ok_or_else(wrong)?;
                last.1 = Some(words.next().ok_or_else(wrong)?.clone());
            } else {
                figures.push((Figure::named(word).ok_or_else(wrong)?, None));
            }
        }
        for word in words.by_ref().take_while(|word| !word.eq_ignore_ascii_case("on")) {
            of.push(word.trim_end_matches(',').to_lowercase());
        }
        let on: Vec<On> = words.map(|word| On::named(word)).collect();
        if figures.is_empty() || of.is_empty() || on.is_empty() {
            return Err(wrong());
        }
        for on in on {
            for of in &of {
                for (figure, label) in &figures {
                    let label = label.clone().unwrap_or_else(|| figure.name().to_owned());
                    let new = Compute { figure: *figure, label, of: of.clone(), on: on.clone() };
                    let same = |known: &Compute| {
                        known.figure == new.figure && known.of == new.of && known.on == new.on
                    };
                    self.computes.retain(|known| !same(known));
                    self.computes.push(new);
                }
            }
        }
        Ok(())
    }

    fn shown_breaks(&self) -> String {
        if self.breaks.is_empty() {
            return "no breaks are defined\n".to_owned();
        }
        let mut out = "break".to_owned();
        for known in &self.breaks {
            let _ = write!(out, " on {}", known.on.shown());
            if known.skip > 0 {
                let _ = write!(out, " skip {}", known.skip);
            }
            out.push_str(if known.page { " page" } else { "" });
            if matches!(known.on, On::Column(_)) {
                out.push_str(if known.repeats { " dup" } else { " nodup" });
            }
        }
        out.push('\n');
        out
    }

    fn shown_computes(&self) -> String {
        if self.computes.is_empty() {
            return "no computes are defined\n".to_owned();
        }
        let shown = self.computes.iter().map(|known| {
            let Compute { figure, label, of, on } = known;
            format!("compute {} label '{label}' of {of} on {}\n", figure.name(), on.shown())
        });
        shown.collect()
    }

    /// The lines of a result, and what could not be computed; `None`: it has no breaks.
    pub(super) fn lines(&self, table: &Table) -> Option<(Vec<Line>, Vec<String>)> {
        let at = |name: &str| table.header.iter().position(|own| own.eq_ignore_ascii_case(name));
        let mut active: Vec<Active<'_>> = Vec::new();
        for known in &self.breaks {
            let column = match &known.on {
                On::Report | On::Row => None,
                On::Column(name) => match at(name) {
                    None => continue,
                    column => column,
                },
            };
            let own = self.computes.iter().filter(|compute| compute.on == known.on);
            let totals = own.filter_map(|compute| {
                let column = at(&compute.of)?;
                Some(Total { compute, column, gathered: Gathered::default() })
            });
            active.push(Active { known, column, totals: totals.collect() });
        }
        if active.is_empty() || table.rows.is_empty() {
            return None;
        }
        let mut writer = Writer { table, lines: Vec::new(), told: Vec::new(), is_top: true };
        let mut before: Option<&Vec<Option<String>>> = None;
        for row in &table.rows {
            // The outermost break that has come.
            let changed = match before {
                None => 0,
                Some(before) => {
                    let comes = |active: &Active<'_>| match active.column {
                        Some(column) => before[column] != row[column],
                        None => active.known.on == On::Row,
                    };
                    active.iter().position(comes).unwrap_or(active.len())
                }
            };
            if before.is_some() {
                for ended in active[changed..].iter_mut().rev() {
                    writer.end(ended, true);
                }
            }
            writer.row(row, &active, changed);
            for total in active.iter_mut().flat_map(|active| &mut active.totals) {
                total.gathered.add(row[total.column].as_deref());
            }
            before = Some(row);
        }
        for ended in active.iter_mut().rev() {
            writer.end(ended, false);
        }
        Some((writer.lines, writer.told))
    }
}

/// A figure that is being computed.
struct Total<'a> {
    compute: &'a Compute,
    column: usize,
    gathered: Gathered,
}

/// A break of a result.
struct Active<'a> {
    known: &'a Break,
    column: Option<usize>,
    totals: Vec<Total<'a>>,
}

struct Writer<'a> {
    table: &'a Table,
    lines: Vec<Line>,
    told: Vec<String>,
    /// Nothing stands below the names of the columns yet, so that no value is left out.
    is_top: bool,
}

impl Writer<'_> {
    fn row(&mut self, row: &[Option<String>], active: &[Active<'_>], changed: usize) {
        let changed = if std::mem::take(&mut self.is_top) { 0 } else { changed };
        let same = &active[..changed];
        let cells = row.iter().enumerate().map(|(column, value)| {
            let is_same =
                same.iter().any(|known| known.column == Some(column) && !known.known.repeats);
            if is_same { Cell::Empty } else { Cell::Value(value.clone()) }
        });
        self.lines.push(Line::Cells(cells.collect()));
    }

    /// What stands behind the rows of a break; whether others follow.
    fn end(&mut self, ended: &mut Active<'_>, goes_on: bool) {
        let width = self.table.header.len();
        let labels = ended.column.unwrap_or(0);
        if !ended.totals.is_empty() {
            let mut cells = vec![Cell::Empty; width];
            if let Some(column) = ended.column {
                cells[column] = Cell::Fill('*');
            }
            for total in &ended.totals {
                cells[total.column] = Cell::Fill('-');
            }
            self.lines.push(Line::Cells(cells));
        }
        let mut written: Vec<(Figure, &str)> = Vec::new();
        for total in &ended.totals {
            let line = (total.compute.figure, total.compute.label.as_str());
            if written.contains(&line) {
                continue;
            }
            written.push(line);
            let mut cells = vec![Cell::Empty; width];
            cells[labels] = Cell::Label(line.1.to_owned());
            let same = ended
                .totals
                .iter()
                .filter(|other| (other.compute.figure, other.compute.label.as_str()) == line);
            for other in same {
                cells[other.column] = match other.gathered.value(line.0) {
                    Ok(Some(value)) => Cell::Value(Some(value)),
                    Ok(None) => Cell::Empty,
                    Err(text) => {
                        let (figure, of) = (line.0.name(), &other.compute.of);
                        let text = format!("compute {figure} of {of}: {text}");
                        if !self.told.contains(&text) {
                            self.told.push(text);
                        }
                        Cell::Empty
                    }
                };
            }
            self.lines.push(Line::Cells(cells));
        }
        for total in &mut ended.totals {
            total.gathered = Gathered::default();
        }
        self.lines.extend(std::iter::repeat_n(Line::Blank, ended.known.skip));
        if ended.known.page && goes_on {
            self.lines.push(Line::Heading);
            self.is_top = true;
        }
    }
}

impl Shell {
    /// `break ..`, or what there is.
    pub(super) fn set_breaks(&mut self, text: &str) -> Result<()> {
        if !text.is_empty() {
            return self.report.set_breaks(text);
        }
        let shown = self.report.shown_breaks();
        self.print(&shown);
        Ok(())
    }

    /// `compute ..`, or what there is.
    pub(super) fn compute(&mut self, text: &str) -> Result<()> {
        if !text.is_empty() {
            return self.report.add_computes(text);
        }
        let shown = self.report.shown_computes();
        self.print(&shown);
        Ok(())
    }

    pub(super) fn clear_breaks(&mut self) {
        self.report.breaks.clear();
    }

    pub(super) fn clear_computes(&mut self) {
        self.report.computes.clear();
    }

    /// Lays a result out as a report where it has breaks.
    pub(super) fn lay_out(&mut self, table: &mut Table) {
        if self.settings.format == Format::Aligned
            && let Some((lines, told)) = self.report.lines(table)
        {
            table.lines = Some(lines);
            told.iter().for_each(|text| self.refuse(text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::format::{Csv, Look};
    use super::*;

    fn shown(report: &Report, rows: &[&[&str]]) -> String {
        let cell = |text: &&str| (!text.is_empty()).then(|| (*text).to_owned());
        let mut table = Table {
            header: rows[0].iter().map(|name| (*name).to_owned()).collect(),
            rows: rows[1..].iter().map(|row| row.iter().map(cell).collect()).collect(),
            ..Table::default()
        };
        table.lines = report.lines(&table).map(|(lines, _)| lines);
        let csv = Csv::USUAL;
        let look = Look { heading: true, count: false, null: "", separator: "|", csv };
        table.text(Format::Aligned, &look)
    }

    const ROWS: [&[&str]; 5] = [
        &["dept", "name", "sal"],
        &["10", "a", "1.50"],
        &["10", "b", "2"],
        &["20", "c", ""],
        &["20", "d", "4"],
    ];

    #[test]
    fn values_that_are_the_same_are_shown_once() {
        let mut report = Report::default();
        assert!(report.lines(&Table::default()).is_none());
        report.set_breaks("on report on dept skip 1").expect("breaks");
        let wanted = [
            " dept | name | sal",
            "------+------+------",
            "   10 | a    | 1.50",
            "      | b    |    2",
            "",
            "   20 | c    |",
            "      | d    |    4",
            "",
        ];
        assert_eq!(shown(&report, &ROWS).lines().collect::<Vec<_>>(), wanted);
        assert_eq!(report.shown_breaks(), "break on report on dept skip 1 nodup\n");
        report.set_breaks("on dept page").expect("breaks");
        let page = " dept | name | sal\n------+------+------\n";
        assert_eq!(shown(&report, &ROWS).matches(page).count(), 2);
        report.set_breaks("on nosuch").expect("breaks");
        assert!(!shown(&report, &ROWS).contains("      | b"));
        assert!(report.set_breaks("dept").is_err() && report.set_breaks("on a skip x").is_err());
    }

    #[test]
    fn figures_stand_behind_their_rows() {
        let mut report = Report::default();
        report.set_breaks("on dept on report").expect("breaks");
        report.add_computes("sum label Total count of sal on dept").expect("computes");
        report.add_computes("sum of sal on report").expect("computes");
        let wanted = [
            " dept  | name | sal",
            "-------+------+------",
            "    10 | a    | 1.50",
            "       | b    |    2",
            " ***** |      | ----",
            " Total |      | 3.50",
            " count |      |    2",
            "    20 | c    |",
            "       | d    |    4",
            " ***** |      | ----",
            " Total |      |    4",
            " count |      |    1",
            "       |      | ----",
            " sum   |      | 7.50",
        ];
        assert_eq!(shown(&report, &ROWS).lines().collect::<Vec<_>>(), wanted);
        assert_eq!(report.shown_computes().lines().count(), 3);
        report.add_computes("avg of name on dept").expect("computes");
        let table = Table {
            header: vec!["dept".into(), "name".into()],
            rows: vec![vec![Some("1".into()), Some("x".into())]],
            ..Table::default()
        };
        let told = report.lines(&table).map(|(_, told)| told).unwrap_or_default();
        assert!(told.len() == 1 && told[0].starts_with("compute avg of name: "), "{told:?}");
        assert!(report.add_computes("sum of sal").is_err());
        assert!(report.add_computes("product of sal on dept").is_err());
    }
}
