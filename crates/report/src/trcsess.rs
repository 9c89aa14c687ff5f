//! `trcsess`: the lines of one logical session out of several trace files.
//!
//! What it promises: lines keep their order within a file, and parts of several files come in the
//! order of time; a call has its statement's text before it, also where that was told of while the
//! session called itself something else. What it must never do: give a line to two sessions.

use std::collections::BTreeMap;

use crate::trace::{cursor_of, end_of_failed, end_of_text, number_after};

/// Which session; everything that is given must be so.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Filter {
    /// `sid.serial`.
    pub session: Option<String>,
    pub client_id: Option<String>,
    pub service: Option<String>,
    pub action: Option<String>,
    pub module: Option<String>,
}

/// What a line does with a cursor, which has a number, and where all that was told of cursors has
/// the text of its statement.
#[derive(Clone, Copy)]
enum Does {
    Nothing,
    Tells(u64, usize),
    Uses(u64, usize),
    Ends(u64),
    /// Another session begins.
    EndsAll,
}

#[derive(Clone, Copy)]
struct Line<'a> {
    text: &'a str,
    does: Does,
}

/// What a part of a file says of itself.
#[derive(Clone, Default)]
struct Part<'a> {
    /// Time of day of its first line.
    wall: &'a str,
    attributes: [&'a str; 5],
    lines: Vec<Line<'a>>,
}

const ATTRIBUTES: [&str; 5] =
    ["SESSION ID:(", "CLIENT ID:(", "SERVICE NAME:(", "ACTION NAME:(", "MODULE NAME:("];

const TELLS: &str = "PARSING IN CURSOR";
const ENDS: &str = "CLOSE ";
/// How lines begin that say something of a cursor, behind these words.
const USES: [&str; 7] = ["PARSE ", "EXEC ", "FETCH ", "WAIT ", "BINDS ", "STAT ", "ERROR "];
/// What stands before a statement's text.
const SEPARATOR: &str = "=====================";

/// Which attribute a line tells, its value and the time.
fn attribute(line: &str) -> Option<(usize, &str, &str)> {
    let rest = line.strip_prefix("*** ")?;
    let at = ATTRIBUTES.iter().position(|name| rest.starts_with(name))?;
    // A program's name may have brackets; the time has none.
    let (value, wall) = rest[ATTRIBUTES[at].len()..].rsplit_once(')')?;
    Some((at, value, wall.trim()))
}

/// The line behind the one at `at`, and behind the text of a statement that it begins.
fn line_behind(lines: &[&str], at: usize) -> usize {
    let length = |rest| cursor_of(rest).and_then(|(_, rest)| number_after(rest, "len="));
    if let Some(length) = lines[at].strip_prefix(TELLS).and_then(length) {
        let (end, whole) = end_of_text(lines, at, length);
        return end + usize::from(whole);
    }
    let failed = lines[at].strip_prefix("PARSE ERROR").and_then(length);
    failed.map_or(at + 1, |length| end_of_failed(lines, at, length).0)
}

/// What a line does; `open`: the cursors that are, by their numbers.
fn does(line: &str, open: &BTreeMap<u64, usize>) -> Does {
    let number = |word: &str| Some(cursor_of(line.strip_prefix(word)?)?.0);
    if let Some(number) = number(ENDS) {
        return Does::Ends(number);
    }
    let used = USES.into_iter().find_map(number);
    let found = used.and_then(|number| Some((number, *open.get(&number)?)));
    found.map_or(Does::Nothing, |(number, place)| Does::Uses(number, place))
}

/// The parts of a file: a new one begins where something about the session changes. What the file
/// tells of cursors is added to `told`.
fn parts<'a>(text: &'a str, told: &mut Vec<Vec<&'a str>>) -> Vec<Part<'a>> {
    let lines: Vec<&str> = text.lines().collect();
    let mut all: Vec<Part<'_>> = Vec::new();
    let mut now = Part::default();
    let mut open = BTreeMap::new();
    let mut at = 0;
    while let Some(&line) = lines.get(at) {
        let next = line_behind(&lines, at);
        let mut does = does(line, &open);
        if let Some((which, value, wall)) = attribute(line) {
            if now.lines.iter().any(|line| !heading(line.text)) {
                let attributes = now.attributes;
                all.push(std::mem::take(&mut now));
                now.attributes = attributes;
            }
            if which == 0 {
                now.attributes = [""; 5];
                open.clear();
                does = Does::EndsAll;
            }
            now.attributes[which] = value;
            now.wall = wall;
        } else if let Some((number, _)) = line.strip_prefix(TELLS).and_then(cursor_of) {
            does = Does::Tells(number, told.len());
            open.insert(number, told.len());
            told.push(lines[at..next].to_vec());
        } else if let Does::Ends(number) = does {
            open.remove(&number);
        }
        now.lines.push(Line { text: line, does });
        let inside = lines[at + 1..next].iter().copied();
        now.lines.extend(inside.map(|text| Line { text, does: Does::Nothing }));
        at = next;
    }
    all.push(now);
    all
}

/// Whether a line is one of those before a session's first call.
fn heading(line: &str) -> bool {
    let begins = |word: &str| line.starts_with(word);
    let told = USES.into_iter().any(begins);
    !(told || [TELLS, ENDS, "XCTEND "].into_iter().any(begins))
}

/// The lines that belong to the session that `filter` names.
#[must_use]
pub fn trcsess(files: &[String], filter: &Filter) -> String {
    let Filter { session, client_id, service, action, module } = filter;
    let wanted = [session, client_id, service, action, module];
    let mut told = Vec::new();
    let mut all: Vec<Part<'_>> = files.iter().flat_map(|text| parts(text, &mut told)).collect();
    let suits = |part: &Part<'_>| {
        let mut both = wanted.iter().zip(part.attributes);
        both.all(|(wanted, is)| wanted.as_ref().is_none_or(|wanted| wanted == is))
    };
    all.retain(suits);
    all.sort_by_key(|part| part.wall);
    let mut out = Vec::new();
    // What whoever reads on takes the numbers of cursors for.
    let mut known: BTreeMap<u64, usize> = BTreeMap::new();
    for line in all.iter().flat_map(|part| &part.lines) {
        match line.does {
            Does::Tells(number, place) => {
                known.insert(number, place);
            }
            Does::Uses(number, place) => {
                if known.insert(number, place) != Some(place) {
                    out.push(SEPARATOR);
                    out.extend(&told[place]);
                }
            }
            Does::Ends(number) => {
                known.remove(&number);
            }
            Does::EndsAll => known.clear(),
            Does::Nothing => {}
        }
        out.push(line.text);
    }
    out.iter().flat_map(|line| [*line, "\n"]).collect()
}
