//! Regular expressions: PostgreSQL's syntax on the library's machine.
//!
//! What it promises: a pattern means what it means to PostgreSQL, the longest match of the leftmost
//! ones included, or is refused. What it must never do: take a pattern whose meaning differs; look
//! ahead, look behind and references back are not supported.

use super::regex_syntax::{Flags, translated};
use super::strings::{of_whole, text};
use super::typed::{Body, Line, Many, One};
use crate::error::{PgError, Result};
use kernel::row::{Datum, Value};
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::meta;
use regex_automata::util::captures::Captures;
use regex_automata::{Anchored, Input, MatchKind};
use std::cell::RefCell;
use std::rc::Rc;

/// Compiled patterns that a thread keeps.
const KEPT_MAX: usize = 32;
/// Memory of one compiled pattern.
const SIZE_MAX: usize = 16 << 20;

/// A pattern, ready to be matched.
struct Compiled {
    machine: meta::Regex,
    /// The same pattern up to the end of the text, for the parts of a match of another length.
    whole: meta::Regex,
    ends: DFA,
    shortest: bool,
}

type Key = (String, Flags);

thread_local! {
    static KEPT: RefCell<Vec<(Key, Rc<Compiled>)>> = const { RefCell::new(Vec::new()) };
}

fn too_complex() -> PgError {
    PgError::new("2201B", "invalid regular expression: regular expression is too complex")
}

fn compiled(pattern: &str, flags: Flags) -> Result<Rc<Compiled>> {
    let found = KEPT.with_borrow_mut(|kept| {
        let at = kept.iter().position(|((p, f), _)| p == pattern && *f == flags)?;
        let one = kept.remove(at);
        let made = one.1.clone();
        kept.push(one);
        Some(made)
    });
    if let Some(made) = found {
        return Ok(made);
    }
    let source = translated(pattern, flags)?;
    let syntax = regex_automata::util::syntax::Config::new().nest_limit(200);
    let machine = |pattern: &str| {
        meta::Regex::builder()
            .configure(meta::Config::new().nfa_size_limit(Some(SIZE_MAX)))
            .syntax(syntax)
            .build(pattern)
            .map_err(|_| too_complex())
    };
    let ends = DFA::builder()
        .configure(
            DFA::config()
                .match_kind(MatchKind::All)
                .unicode_word_boundary(true)
                .skip_cache_capacity_check(true),
        )
        .syntax(syntax)
        .build(&source.text)
        .map_err(|_| too_complex())?;
    let made = Rc::new(Compiled {
        machine: machine(&source.text)?,
        whole: machine(&format!("(?:{})\\z", source.text))?,
        ends,
        shortest: source.shortest,
    });
    KEPT.with_borrow_mut(|kept| {
        if kept.len() >= KEPT_MAX {
            kept.remove(0);
        }
        kept.push(((pattern.to_owned(), flags), made.clone()));
    });
    Ok(made)
}

/// Where a match and its parts are, in bytes.
struct Match {
    start: usize,
    end: usize,
    groups: Vec<Option<(usize, usize)>>,
}

impl Compiled {
    fn is_match(&self, text: &str) -> bool {
        self.machine.is_match(text)
    }

    fn groups(&self) -> usize {
        self.machine.captures_len() - 1
    }

    /// The first match that begins at `from` or later.
    fn find_at(&self, text: &str, from: usize) -> Option<Match> {
        let mut captures = self.machine.create_captures();
        let input = Input::new(text).range(from..);
        self.machine.search_captures(&input, &mut captures);
        let found = captures.get_match()?;
        let (start, mut end) = (found.start(), found.end());
        if let Some(other) = self.end_from(text, start)
            && other != end
        {
            let bounded = Input::new(&text[..other]).range(start..).anchored(Anchored::Yes);
            let mut inner = self.whole.create_captures();
            self.whole.search_captures(&bounded, &mut inner);
            if inner.is_match() {
                captures = inner;
                end = other;
            }
        }
        Some(Match { start, end, groups: parts(&captures) })
    }

    /// Where the longest match that begins at `start` ends; the shortest for a pattern that wants
    /// little.
    fn end_from(&self, text: &str, start: usize) -> Option<usize> {
        let mut cache = Cache::new(&self.ends);
        let input = Input::new(text).range(start..).anchored(Anchored::Yes).earliest(self.shortest);
        self.ends.try_search_fwd(&mut cache, &input).ok().flatten().map(|half| half.offset())
    }

    /// All matches that do not overlap.
    fn all(&self, text: &str) -> Vec<Match> {
        self.all_from(text, 0)
    }

    fn all_from(&self, text: &str, from: usize) -> Vec<Match> {
        let (mut out, mut at) = (Vec::new(), from);
        while at <= text.len()
            && let Some(found) = self.find_at(text, at)
        {
            // An empty match moves on by one character.
            at = if found.end > found.start {
                found.end
            } else {
                found.end + text[found.end..].chars().next().map_or(1, char::len_utf8)
            };
            out.push(found);
        }
        out
    }
}

fn parts(captures: &Captures) -> Vec<Option<(usize, usize)>> {
    (1..captures.group_len())
        .map(|at| captures.get_group(at).map(|span| (span.start, span.end)))
        .collect()
}

/// Whether the text matches.
///
/// # Errors
/// 2201B.
pub(super) fn matches(text: &str, pattern: &str, fold: bool) -> Result<bool> {
    let mut flags = Flags::default();
    flags.fold = fold;
    Ok(compiled(pattern, flags)?.is_match(text))
}

/// The flags of a function, without `g` unless it is allowed.
fn flags_of(datum: Option<&Datum<'_>>, global: Option<&str>) -> Result<Flags> {
    let Some(given) = datum else { return Ok(Flags::default()) };
    let flags = Flags::parse(text(given)?)?;
    match global {
        Some(function) if flags.global => {
            let what = format!("{function}() does not support the \"global\" option");
            Err(PgError::new("22023", what))
        }
        _ => Ok(flags),
    }
}

fn item(all: &str, span: Option<(usize, usize)>) -> Value {
    span.map_or(Value::Null, |(from, to)| Value::Text(all[from..to].into()))
}

fn groups_of(all: &str, found: &Match) -> Vec<Value> {
    if found.groups.is_empty() {
        return vec![item(all, Some((found.start, found.end)))];
    }
    found.groups.iter().map(|span| item(all, *span)).collect()
}

fn regexp_match(a: &[Datum<'_>]) -> Result<Option<Vec<Value>>> {
    let flags = Flags::parse(a.get(2).map_or(Ok(""), text)?)?;
    if flags.global {
        let what = "regexp_match() does not support the \"global\" option";
        return Err(
            PgError::new("22023", what).with_hint("Use the regexp_matches function instead.")
        );
    }
    let all = text(&a[0])?;
    let found = compiled(text(&a[1])?, flags)?.find_at(all, 0);
    Ok(found.map(|found| groups_of(all, &found)))
}

/// `regexp_replace`; `nth` is which match to replace, from 1, and 0 for all.
fn replaced(
    all: &str,
    pattern: &str,
    by: &str,
    flags: Flags,
    from: i64,
    nth: i64,
) -> Result<Value> {
    let machine = compiled(pattern, flags)?;
    let start = char_offset(all, from);
    let (mut out, mut done) = (all[..start].to_owned(), start);
    let found = if nth == 1 {
        machine.find_at(all, start).into_iter().collect()
    } else {
        machine.all_from(all, start)
    };
    for (at, found) in found.iter().enumerate() {
        if nth != 0 && at as i64 + 1 != nth {
            continue;
        }
        out.push_str(&all[done..found.start]);
        let mut chars = by.chars();
        while let Some(c) = chars.next() {
            if c != '\\' {
                out.push(c);
                continue;
            }
            match chars.next() {
                Some('&') => out.push_str(&all[found.start..found.end]),
                Some(digit @ '1'..='9') => {
                    let at = usize::from(u8::try_from(digit).unwrap_or(b'1') - b'1');
                    if let Some(Some((from, to))) = found.groups.get(at) {
                        out.push_str(&all[*from..*to]);
                    }
                }
                Some('\\') => out.push('\\'),
                Some(other) => {
                    out.push('\\');
                    out.push(other);
                }
                None => out.push('\\'),
            }
        }
        done = found.end;
    }
    out.push_str(&all[done..]);
    Ok(Value::Text(out.into()))
}

/// Bytes before the character at `from`, counted from 1.
fn char_offset(all: &str, from: i64) -> usize {
    let skip = usize::try_from(from - 1).unwrap_or(0);
    all.char_indices().nth(skip).map_or(all.len(), |(at, _)| at)
}

fn regexp_replace(a: &[Datum<'_>]) -> Result<Value> {
    let given = a.get(3).map_or(Ok(""), text)?;
    // A number here means another form of the function, called with literals.
    if given.starts_with(|c: char| c.is_ascii_digit()) {
        let what = format!("invalid regular expression option: \"{}\"", &given[..1]);
        return Err(PgError::new("22023", what).with_hint(
            "If you meant to use regexp_replace() with a start parameter, cast the fourth argument \
             to integer explicitly.",
        ));
    }
    let flags = Flags::parse(given)?;
    let nth = i64::from(!flags.global);
    replaced(text(&a[0])?, text(&a[1])?, text(&a[2])?, flags, 1, nth)
}

fn at_least(name: &str, value: i64, least: i64) -> Result<i64> {
    if value < least {
        let what = format!("invalid value for parameter \"{name}\": {value}");
        return Err(PgError::new("22023", what));
    }
    Ok(value)
}

/// With a place to begin, and which match to replace.
fn regexp_replace_from(a: &[Datum<'_>]) -> Result<Value> {
    let number = |at: usize, default: i64| a.get(at).map_or(Ok(default), super::math::integer);
    let from = at_least("start", number(3, 1)?, 1)?;
    let nth = a.get(4).map(|_| at_least("n", number(4, 1)?, 0)).transpose()?;
    let flags = Flags::parse(a.get(5).map_or(Ok(""), text)?)?;
    let nth = nth.unwrap_or(i64::from(!flags.global));
    replaced(text(&a[0])?, text(&a[1])?, text(&a[2])?, flags, from, nth)
}

fn regexp_matches(a: &[Datum<'_>]) -> Result<Option<Vec<Vec<Value>>>> {
    let flags = Flags::parse(a.get(2).map_or(Ok(""), text)?)?;
    let all = text(&a[0])?;
    let machine = compiled(text(&a[1])?, flags)?;
    let found =
        if flags.global { machine.all(all) } else { machine.find_at(all, 0).into_iter().collect() };
    Ok(Some(found.iter().map(|one| groups_of(all, one)).collect()))
}

fn split(a: &[Datum<'_>], function: &str) -> Result<Option<Vec<Value>>> {
    let flags = flags_of(a.get(2), Some(function))?;
    let all = text(&a[0])?;
    let machine = compiled(text(&a[1])?, flags)?;
    let (mut out, mut done) = (Vec::new(), 0);
    for found in machine.all(all) {
        // An empty match at the end, or right after the last one, parts nothing.
        if found.end == found.start && (found.start >= all.len() || found.start == done) {
            continue;
        }
        out.push(item(all, Some((done, found.start))));
        done = found.end;
    }
    out.push(item(all, Some((done, all.len()))));
    Ok(Some(out))
}

fn regexp_count(a: &[Datum<'_>]) -> Result<Value> {
    let from = at_least("start", a.get(2).map_or(Ok(1), super::math::integer)?, 1)?;
    let flags = flags_of(a.get(3), Some("regexp_count"))?;
    let all = text(&a[0])?;
    let start = char_offset(all, from);
    if from > all.chars().count() as i64 + 1 {
        return Ok(Value::Int4(0));
    }
    let count = compiled(text(&a[1])?, flags)?.all_from(all, start).len();
    Ok(Value::Int4(i32::try_from(count).unwrap_or(i32::MAX)))
}

fn regexp_like(a: &[Datum<'_>]) -> Result<Value> {
    let flags = flags_of(a.get(2), Some("regexp_like"))?;
    Ok(Value::Bool(compiled(text(&a[1])?, flags)?.is_match(text(&a[0])?)))
}

/// Where to begin and which match to take, for `regexp_instr` and `regexp_substr`.
fn which(a: &[Datum<'_>]) -> Result<(i64, i64)> {
    let number = |at: usize| a.get(at).map_or(Ok(1), super::math::integer);
    Ok((at_least("start", number(2)?, 1)?, at_least("n", number(3)?, 1)?))
}

/// The span of that match or of part of it.
fn nth_span(
    a: &[Datum<'_>],
    (from, nth): (i64, i64),
    flags: Flags,
    group: i64,
) -> Result<Option<(usize, usize)>> {
    let all = text(&a[0])?;
    let machine = compiled(text(&a[1])?, flags)?;
    if from > all.chars().count() as i64 + 1 {
        return Ok(None);
    }
    let found = machine.all_from(all, char_offset(all, from));
    let Some(one) = found.get(usize::try_from(nth - 1).unwrap_or(usize::MAX)) else {
        return Ok(None);
    };
    Ok(match usize::try_from(group) {
        Ok(0) => Some((one.start, one.end)),
        Ok(group) if group <= machine.groups() => one.groups[group - 1],
        _ => None,
    })
}

fn regexp_instr(a: &[Datum<'_>]) -> Result<Value> {
    let which = which(a)?;
    let after = a.get(4).map_or(Ok(0), super::math::integer)?;
    if !(0..=1).contains(&after) {
        let what = format!("invalid value for parameter \"endoption\": {after}");
        return Err(PgError::new("22023", what));
    }
    let group = at_least("subexpr", a.get(6).map_or(Ok(0), super::math::integer)?, 0)?;
    let flags = flags_of(a.get(5), Some("regexp_instr"))?;
    let all = text(&a[0])?;
    let span = nth_span(a, which, flags, group)?;
    let at = span.map(|(from, to)| if after == 1 { to } else { from });
    let place = at.map_or(0, |at| all[..at].chars().count() + 1);
    Ok(Value::Int4(i32::try_from(place).unwrap_or(i32::MAX)))
}

fn regexp_substr(a: &[Datum<'_>]) -> Result<Value> {
    let which = which(a)?;
    let group = at_least("subexpr", a.get(5).map_or(Ok(0), super::math::integer)?, 0)?;
    let flags = flags_of(a.get(4), Some("regexp_substr"))?;
    Ok(item(text(&a[0])?, nth_span(a, which, flags, group)?))
}

/// `substring(text from pattern)`: the first part in parentheses, else the match.
fn substring(all: &str, pattern: &str) -> Result<Value> {
    let machine = compiled(pattern, Flags::default())?;
    Ok(match machine.find_at(all, 0) {
        None => Value::Null,
        Some(found) => match found.groups.first() {
            Some(first) => item(all, *first),
            None => item(all, Some((found.start, found.end))),
        },
    })
}

fn substring_similar(a: &[Datum<'_>]) -> Result<Value> {
    let escape = text(&a[2])?;
    let mut chars = escape.chars();
    let escape = match (chars.next(), chars.next()) {
        (escape, None) => escape,
        _ => {
            return Err(PgError::new("22025", "invalid escape string")
                .with_hint("Escape string must be empty or one character."));
        }
    };
    let pattern = super::patterns::similar_pattern(text(&a[1])?, escape)?;
    substring(text(&a[0])?, &pattern)
}

const fn one(body: One) -> Body {
    Body::One(body)
}

const fn many(body: Many) -> Body {
    Body::Many(body)
}

pub(super) const LINES: &[Line] = &[
    ("regexp_match(text, text) text[]", many(regexp_match)),
    ("regexp_match(text, text, text) text[]", many(regexp_match)),
    ("regexp_replace(text, text, text) text", one(regexp_replace)),
    ("regexp_replace(text, text, text, text) text", one(regexp_replace)),
    ("regexp_replace(text, text, text, int4) text", one(regexp_replace_from)),
    ("regexp_replace(text, text, text, int4, int4) text", one(regexp_replace_from)),
    ("regexp_replace(text, text, text, int4, int4, text) text", one(regexp_replace_from)),
    ("$regexp_matches(text, text) text[][]", Body::Nested(regexp_matches)),
    ("$regexp_matches(text, text, text) text[][]", Body::Nested(regexp_matches)),
    ("regexp_split_to_array(text, text) text[]", many(|a| split(a, "regexp_split_to_array"))),
    ("regexp_split_to_array(text, text, text) text[]", many(|a| split(a, "regexp_split_to_array"))),
    ("$regexp_split_to_table(text, text) text[]", many(|a| split(a, "regexp_split_to_table"))),
    (
        "$regexp_split_to_table(text, text, text) text[]",
        many(|a| split(a, "regexp_split_to_table")),
    ),
    ("regexp_count(text, text) int4", one(regexp_count)),
    ("regexp_count(text, text, int4) int4", one(regexp_count)),
    ("regexp_count(text, text, int4, text) int4", one(regexp_count)),
    ("+regexp_count(text, text, numeric) int4", one(|a| of_whole(a, regexp_count))),
    ("regexp_like(text, text) bool", one(regexp_like)),
    ("regexp_like(text, text, text) bool", one(regexp_like)),
    ("regexp_instr(text, text) int4", one(regexp_instr)),
    ("regexp_instr(text, text, int4) int4", one(regexp_instr)),
    ("regexp_instr(text, text, int4, int4) int4", one(regexp_instr)),
    ("regexp_instr(text, text, int4, int4, int4) int4", one(regexp_instr)),
    ("regexp_instr(text, text, int4, int4, int4, text) int4", one(regexp_instr)),
    ("regexp_instr(text, text, int4, int4, int4, text, int4) int4", one(regexp_instr)),
    ("+regexp_instr(text, text, numeric) int4", one(|a| of_whole(a, regexp_instr))),
    ("+regexp_instr(text, text, numeric, numeric) int4", one(|a| of_whole(a, regexp_instr))),
    ("+regexp_substr(text, text, numeric) text", one(|a| of_whole(a, regexp_substr))),
    ("+regexp_substr(text, text, numeric, numeric) text", one(|a| of_whole(a, regexp_substr))),
    ("regexp_substr(text, text) text", one(regexp_substr)),
    ("regexp_substr(text, text, int4) text", one(regexp_substr)),
    ("regexp_substr(text, text, int4, int4) text", one(regexp_substr)),
    ("regexp_substr(text, text, int4, int4, text) text", one(regexp_substr)),
    ("regexp_substr(text, text, int4, int4, text, int4) text", one(regexp_substr)),
    ("substring(text, text) text", one(|a| substring(text(&a[0])?, text(&a[1])?))),
    ("substring(text, text, text) text", one(substring_similar)),
];
