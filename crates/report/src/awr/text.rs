//! A report as text, 80 characters wide where its tables are.

use super::page::{Block, Grid, Line, Section};
use std::fmt::Write;

/// What ends a section.
const RULE: &str = "         -------------------------------------------------------------\n";
/// How much of a text below a row is shown.
const BELOW_CHARS: usize = 400;

pub(crate) fn section(out: &mut String, section: &Section, of: &str) {
    let _ = writeln!(out, "{}  {of}", section.title);
    for block in &section.blocks {
        match block {
            Block::Note(text) => {
                for line in wrapped(text, 77) {
                    let _ = writeln!(out, "-> {line}");
                }
            }
            Block::Grid(grid) => self::grid(out, grid),
            Block::Pairs(all) => pairs(out, all),
            Block::Chart(_) => {}
        }
        if !matches!(block, Block::Chart(_) | Block::Note(_)) {
            out.push('\n');
        }
    }
    out.push_str(RULE);
    out.push('\n');
}

/// A text in lines of at most so many characters, broken between words.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let mut word: String = word.to_owned();
        while word.chars().count() > width {
            let rest =
                word.split_off(word.char_indices().nth(width).map_or(word.len(), |(i, _)| i));
            lines.push(std::mem::replace(&mut word, rest));
        }
        let last = lines.last_mut().expect("there is one");
        let sum = last.chars().count() + 1 + word.chars().count();
        match last.is_empty() {
            true => last.push_str(&word),
            false if sum <= width => {
                last.push(' ');
                last.push_str(&word);
            }
            false => lines.push(word),
        }
    }
    lines.retain(|line| !line.is_empty());
    lines
}

fn cut(text: &str, width: usize) -> String {
    text.chars().take(width).collect()
}

fn grid(out: &mut String, grid: &Grid) {
    let height = grid.columns.iter().map(|c| c.name.lines().count()).max().unwrap_or(1);
    for line in 0..height {
        let names = grid.columns.iter().map(|c| {
            let own = c.name.lines().count();
            let skipped = height - own;
            line.checked_sub(skipped).and_then(|at| c.name.lines().nth(at)).unwrap_or("").to_owned()
        });
        cells(out, grid, &names.collect::<Vec<_>>());
    }
    let rules: Vec<String> = grid.columns.iter().map(|c| "-".repeat(c.width)).collect();
    cells(out, grid, &rules);
    for Line { cells: values, below } in &grid.rows {
        cells(out, grid, values);
        if let Some(below) = below {
            for line in wrapped(&cut(below, BELOW_CHARS), 78) {
                let _ = writeln!(out, "  {line}");
            }
            out.push('\n');
        }
    }
}

fn cells(out: &mut String, grid: &Grid, values: &[String]) {
    let mut line = String::new();
    for (at, (col, value)) in grid.columns.iter().zip(values).enumerate() {
        if at > 0 {
            line.push(' ');
        }
        let _ = match col.right {
            // A number is never cut.
            true => write!(line, "{value:>width$}", width = col.width),
            false => write!(line, "{:<width$}", cut(value, col.width), width = col.width),
        };
    }
    out.push_str(line.trim_end());
    out.push('\n');
}

fn pairs(out: &mut String, all: &[(String, String)]) {
    let width = all.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    for (name, value) in all {
        let _ = writeln!(out, "{name:>width$}: {value:>12}");
    }
}

#[cfg(test)]
mod tests {
    use super::wrapped;

    #[test]
    fn lines_break_between_words() {
        assert_eq!(wrapped("a bb ccc", 4), ["a bb", "ccc"]);
        assert_eq!(wrapped("abcdefgh i", 3), ["abc", "def", "gh", "i"]);
        assert!(wrapped("  \n ", 10).is_empty());
    }
}
