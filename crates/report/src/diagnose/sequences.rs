//! Sequences that go to the dictionary for each value, or nearly so.
//!
//! What it must never do: blame a sequence that nothing has asked in the interval.

use super::{Case, Finding, Sequence, ms_each, waits_of};
use crate::awr::page::{count, number, seconds};
use crate::awr::sql::statements;
use crate::awr::{Row, Table, Work};

const SEQUENCE_WAITS: [&str; 3] = ["row cache lock", "enq: SQ - contention", "DFS lock handle"];
/// A sequence with so many values at a time goes to the dictionary rarely.
const CACHE_ENOUGH: i64 = 100;

fn name_of(row: &Row) -> String {
    format!("{}.{}", row.keys[0], row.keys[1])
}

fn loads(table: &Table, row: &Row) -> f64 {
    table.added(row, "loads")
}

/// The sequence that went to the dictionary most often, and how often.
pub(super) fn most_loaded(work: &Work) -> Option<(String, f64)> {
    let table = work.table("wrh$_sequences")?;
    let row = *table.top(|row| loads(table, row)).first()?;
    Some((name_of(row), loads(table, row)))
}

/// The end of a text that is a name, perhaps with a schema before it.
fn path_before(text: &str) -> &str {
    let in_name = |c: char| c.is_alphanumeric() || "_$#.\"".contains(c);
    let start = text.char_indices().rev().take_while(|(_, c)| in_name(*c)).last();
    start.map_or("", |(at, _)| &text[at..])
}

/// Whether a statement asks this sequence, `schema.name`, for values: by its name alone or with its
/// schema, as `s.nextval` or `nextval('s')`.
fn asks(text: &str, sequence: &str) -> bool {
    let (text, sequence) = (text.to_lowercase(), sequence.to_lowercase());
    let bare = sequence.rsplit('.').next().unwrap_or(&sequence);
    text.match_indices("nextval").any(|(at, word)| {
        let path = match text[..at].strip_suffix('.') {
            Some(before) => path_before(before),
            None => {
                let rest = text[at + word.len()..].trim_start();
                let named = rest.strip_prefix('(').and_then(|r| r.trim_start().strip_prefix('\''));
                named.and_then(|named| named.split('\'').next()).unwrap_or("")
            }
        };
        let path = path.replace('"', "");
        path == sequence || path == bare
    })
}

/// A sequence that was asked in the interval.
struct Asked<'a> {
    sequence: &'a Sequence,
    /// Times that it went to the dictionary, and µs; `None`: not counted.
    loads: Option<(f64, f64)>,
    /// A statement that asks it.
    sql_id: Option<String>,
}

impl Asked<'_> {
    fn told(&self) -> String {
        let Sequence { name, cache, ordered } = self.sequence;
        let kept = match cache {
            0 | 1 => "keeps no values".to_owned(),
            cache => format!("keeps {cache} values"),
        };
        let ordered = if *ordered { ", in order over all instances" } else { "" };
        let loads = self.loads.map_or(String::new(), |(times, us)| {
            let each = number(ms_each(us, times), 2);
            format!(": it went to the dictionary {} times, {each} ms each", count(times))
        });
        let by = self.sql_id.as_ref().map_or(String::new(), |id| format!("; SQL {id} asks it"));
        format!("sequence {name} {kept}{ordered}{loads}{by}")
    }
}

/// Those with too small a cache, the most costly first; and what part of all refills' time was
/// theirs.
fn asked<'a>(case: &'a Case<'_>) -> (Vec<Asked<'a>>, f64) {
    let mut ran = statements(&case.all);
    ran.retain(|statement| statement.executions > 0.0);
    let asker = |sequence: &Sequence| {
        let asks =
            |id: &String| case.interval.texts.get(id).is_some_and(|t| asks(t, &sequence.name));
        ran.iter().map(|statement| statement.sql_id.clone()).find(asks)
    };
    let small = |sequence: &&Sequence| sequence.cache < CACHE_ENOUGH || sequence.ordered;
    let known = case.beside.sequences.iter().filter(small);
    let Some(table) = case.all.table("wrh$_sequences") else {
        // Not counted: what is left is which statements name it.
        let named = known.filter_map(|sequence| {
            let sql_id = asker(sequence)?;
            Some(Asked { sequence, loads: None, sql_id: Some(sql_id) })
        });
        let mut named: Vec<Asked<'a>> = named.collect();
        named.sort_by_key(|asked| (asked.sequence.cache, asked.sequence.name.clone()));
        return (named, 1.0);
    };
    let us = |row: &Row| table.added(row, "load_time");
    let mut all: Vec<Asked<'a>> = known
        .filter_map(|sequence| {
            let row = table.rows.iter().find(|row| name_of(row) == sequence.name)?;
            let loads = Some((loads(table, row), us(row))).filter(|(times, _)| *times > 0.0)?;
            Some(Asked { sequence, loads: Some(loads), sql_id: asker(sequence) })
        })
        .collect();
    let cost = |asked: &Asked<'_>| asked.loads.map_or(0.0, |(_, us)| us);
    all.sort_by(|a, b| {
        cost(b).total_cmp(&cost(a)).then_with(|| a.sequence.name.cmp(&b.sequence.name))
    });
    let (theirs, whole) =
        (all.iter().map(cost).sum::<f64>(), table.rows.iter().map(us).sum::<f64>());
    (all, if whole > 0.0 { theirs / whole } else { 1.0 })
}

/// Sequences whose refills, or the waits for these, take time.
pub(super) fn sequences(case: &Case<'_>) -> Vec<Finding> {
    let [entry, others @ ..] = SEQUENCE_WAITS;
    // Waits for the dictionary's entry are part of a refill's time, those for others' refills are
    // not.
    let ((_, entry_us), (_, others_us)) = (case.events(&[entry]), case.events(&others));
    let wait_us = entry_us + others_us;
    let load_us = case.all.sequence_load_us();
    let (all, part) = asked(case);
    // Waits for other entries of the dictionary look the same: there must be one to blame.
    let Some(first) = all.first().filter(|_| wait_us > 0.0 || load_us > 0.0) else {
        return Vec::new();
    };
    let first = &first.sequence.name;
    let mut evidence = Vec::new();
    if load_us > 0.0 {
        evidence.push(format!("`sequence load elapsed time`: {} s", seconds(load_us)));
    }
    let waits = SEQUENCE_WAITS.iter().map(|name| (name, case.event(name)));
    evidence.extend(waits.filter(|(_, w)| w.0 > 0.0).map(|(name, (n, us))| {
        format!("`{name}`: {}, {} ms each", waits_of(n), number(ms_each(us, n), 2))
    }));
    evidence.extend(all.iter().take(3).map(Asked::told));
    vec![Finding {
        cost_us: part * (load_us.max(entry_us) + others_us),
        sentence: format!(
            "sessions wait for the dictionary's entry of a sequence: {first} has too small a cache."
        ),
        evidence,
        remedy: format!(
            "alter sequence {first} cache 1000; the gaps that a cache may leave are no reason not to."
        ),
    }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_names_exactly_the_sequence_that_it_asks() {
        for text in [
            "insert into t values (cy.nextval, $1)",
            "select PUBLIC.CY.NEXTVAL from dual",
            "select nextval('cy')",
            "select nextval( 'public.cy'::regclass)",
            "select \"public\".\"cy\".nextval",
        ] {
            assert!(asks(text, "PUBLIC.CY"), "{text}");
        }
        for text in [
            "insert into cycles values (cycle_seq.nextval)",
            "select other.cy.nextval",
            "select nextval('cy2') from cy",
            "select cy from t",
            "select mycy.nextval",
        ] {
            assert!(!asks(text, "PUBLIC.CY"), "{text}");
        }
    }
}
