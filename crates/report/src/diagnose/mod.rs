//! What limited the cluster between two snapshots, in sentences, each with its evidence.
//!
//! A rule is a pure function over the interval's numbers; what it finds has a cost in the time of
//! clients' calls, and the costs order the findings. Costs of different rules may overlap: a wait
//! for a block is part of the block's object's cost and of its sender's.
//!
//! What it promises: no finding without figures; a quiet system is called quiet. What it must never
//! do: name a cause where the numbers allow another.

mod cluster;
mod database;
mod events;
mod host;
mod parses;
mod sequences;
mod statements;

use crate::awr::page::{Section, count, number, percent, seconds};
use crate::awr::{Interval, Work, html_page, wrapped};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A finding with a smaller part of the time is not told.
const SHARE_MIN: f64 = 0.05;
/// With fewer sessions at work on average, nothing limits anything.
const ACTIVE_MIN: f64 = 0.02;

/// A sequence as the dictionary has it now.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Sequence {
    pub name: String,
    /// 0: none is kept.
    pub cache: i64,
    pub ordered: bool,
}

/// Samples of clients' sessions that waited for an event.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Waiter {
    pub event: String,
    /// In which statement, and for what, if that is known.
    pub sql_id: Option<String>,
    pub object: Option<String>,
    pub samples: i64,
}

/// Samples in which a session held a lock that others waited for.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Blocker {
    /// What they waited for.
    pub event: String,
    pub instance: i64,
    pub session: i64,
    pub samples: i64,
}

/// What is not in snapshots.
#[derive(Clone, Default, Debug)]
pub struct Beside {
    pub sequences: Vec<Sequence>,
    /// Those that others waited for at locks, the most samples first.
    pub blockers: Vec<Blocker>,
    /// Statements whose plans are known: a table that the plan reads whole, if it does that.
    pub full_reads: BTreeMap<String, Option<String>>,
    /// The most samples first.
    pub waiters: Vec<Waiter>,
}

/// Something that limited the cluster.
#[derive(Clone, Default, PartialEq, Debug)]
pub(crate) struct Finding {
    /// Time of clients' calls, µs.
    pub(crate) cost_us: f64,
    pub(crate) sentence: String,
    pub(crate) evidence: Vec<String>,
    pub(crate) remedy: String,
}

/// What a rule looks at.
pub(crate) struct Case<'a> {
    pub(crate) interval: &'a Interval,
    /// All instances together.
    pub(crate) all: Work,
    pub(crate) beside: &'a Beside,
    /// Time of clients' calls on all instances, µs.
    pub(crate) db_time_us: f64,
}

impl Case<'_> {
    /// Waits of clients for an event on all instances: how many, and µs.
    pub(crate) fn event(&self, name: &str) -> (f64, f64) {
        event_of(&self.all, name)
    }

    /// The same for several.
    pub(crate) fn events(&self, names: &[&str]) -> (f64, f64) {
        let sum = |(n, us): (f64, f64), (m, more): (f64, f64)| (n + m, us + more);
        names.iter().map(|name| self.event(name)).fold((0.0, 0.0), sum)
    }

    /// Time of clients' waits of a class on all instances, µs.
    pub(crate) fn class_us(&self, class: &str) -> f64 {
        self.all.class_us(class).unwrap_or(0.0)
    }

    /// Time of clients' waits on all instances, without idle ones, µs.
    pub(crate) fn waits_us(&self) -> f64 {
        let Some(table) = self.all.table("wrh$_system_event") else { return 0.0 };
        let rows = table.rows.iter().filter(|row| row.keys.get(1).is_none_or(|of| of != "Idle"));
        rows.map(|row| table.added(row, "time_waited_micro_fg")).sum()
    }

    /// A part of the time of clients' calls.
    pub(crate) fn share(&self, us: f64) -> f64 {
        if self.db_time_us > 0.0 { us / self.db_time_us } else { 0.0 }
    }
}

/// Waits of an instance's clients for an event: how many, and µs.
pub(crate) fn event_of(work: &Work, name: &str) -> (f64, f64) {
    let Some(table) = work.table("wrh$_system_event") else { return (0.0, 0.0) };
    table.row(name).map_or((0.0, 0.0), |row| {
        (table.added(row, "total_waits_fg"), table.added(row, "time_waited_micro_fg"))
    })
}

/// So many waits.
fn waits_of(number_of: f64) -> String {
    let text = count(number_of);
    if text == "1" { "1 wait".to_owned() } else { format!("{text} waits") }
}

/// Milliseconds each.
pub(crate) fn ms_each(us: f64, count: f64) -> f64 {
    if count > 0.0 { us / count / 1e3 } else { 0.0 }
}

type Rule = fn(&Case<'_>) -> Vec<Finding>;

/// The rules there are, by what each looks for.
const RULES: [(&str, Rule); 21] = [
    ("a slow log writer elsewhere", cluster::flush),
    ("LMS without processor", cluster::lms_queue),
    ("blocks that several want", cluster::master_queue),
    ("LMS at work", cluster::lms_work),
    ("the interconnect", cluster::interconnect),
    ("pins", cluster::pins),
    ("hot blocks", cluster::hot_blocks),
    ("commits", database::commits),
    ("row locks", database::row_locks),
    ("table locks", database::table_locks),
    ("transaction entries in blocks", database::itl),
    ("log space", database::log_space),
    ("reads from disk", database::reads),
    ("temporary files", database::temporary_files),
    ("sequences", sequences::sequences),
    ("right-growing indexes", database::right_growing),
    ("missing indexes", statements::missing_index),
    ("statements planned anew", parses::hard_parses),
    ("processor", statements::processor),
    ("no processor free", host::run_queue),
    ("other waits", events::others),
];

/// What the rules find, the most costly first.
pub(crate) fn findings(case: &Case<'_>) -> Vec<Finding> {
    let mut all: Vec<Finding> = RULES.iter().flat_map(|(_, rule)| rule(case)).collect();
    all.retain(|finding| case.share(finding.cost_us) >= SHARE_MIN);
    all.sort_by(|a, b| b.cost_us.total_cmp(&a.cost_us).then_with(|| a.sentence.cmp(&b.sentence)));
    all
}

/// What there is to say of an interval.
struct Verdict {
    /// What it is about.
    about: String,
    /// What is to be known of the figures.
    remarks: Vec<String>,
    /// Findings with their part of the time in per cent; or why there are none.
    found: Result<Vec<(String, Finding)>, String>,
}

fn verdict(interval: &Interval, beside: &Beside) -> Verdict {
    let db_time_us: f64 = interval.works.iter().map(Work::db_time_us).sum();
    let case = Case { interval, all: interval.together(), beside, db_time_us };
    let elapsed_s = case.all.elapsed_s();
    let active = db_time_us / 1e6 / elapsed_s;
    let who: Vec<String> = interval.works.iter().map(|work| work.instance.to_string()).collect();
    let about = format!(
        "Snapshots {} to {} of {}, {} s, instance{} {}: DB time {} s, {} sessions at work on \
         average.",
        interval.begin,
        interval.end,
        interval.database,
        number(elapsed_s, 1),
        if who.len() == 1 { "" } else { "s" },
        who.join(", "),
        seconds(db_time_us),
        number(active, 2)
    );
    let mut remarks = Vec::new();
    if case.all.counted_db_time_us().is_none() {
        let text = "DB time is what is known of it: waits, and processor time if it is counted.";
        remarks.push(text.to_owned());
    }
    remarks.extend(host::remark(&case));
    remarks.extend(interval.left_out.iter().map(|(_, why)| format!("Left out: {why}.")));
    let quiet = "Nothing limits the cluster: its clients hardly ask for anything.";
    // Snapshots ask for something, and nobody else may.
    let own = statements::of_own(&case, |statement| statement.elapsed_us);
    let asked = (db_time_us - own).max(0.0) / 1e6 / elapsed_s;
    let found = match asked < ACTIVE_MIN {
        true => Err(quiet.to_owned()),
        false => Ok(findings(&case)),
    };
    let found = found.and_then(|found| match found.is_empty() {
        true => Err(format!(
            "Nothing stands out: no cause that is known here takes {} % of the time.",
            100.0 * SHARE_MIN
        )),
        false => Ok(found),
    });
    let part = |finding: Finding| (percent(finding.cost_us, db_time_us), finding);
    Verdict { about, remarks, found: found.map(|found| found.into_iter().map(part).collect()) }
}

/// The diagnosis as text.
#[must_use]
pub fn diagnose(interval: &Interval, beside: &Beside) -> String {
    let Verdict { about, remarks, found } = verdict(interval, beside);
    let mut out = about + "\n";
    for remark in remarks {
        let _ = writeln!(out, "{remark}");
    }
    out.push('\n');
    let found = match found {
        Ok(found) => found,
        Err(why) => return out + &why + "\n",
    };
    for (at, (part, finding)) in found.iter().enumerate() {
        let sentence = format!("{}. {part} % of DB time: {}", at + 1, finding.sentence);
        put(&mut out, &sentence, "", "   ");
        for evidence in &finding.evidence {
            put(&mut out, evidence, "   - ", "     ");
        }
        put(&mut out, &finding.remedy, "   To do: ", "     ");
        out.push('\n');
    }
    out
}

/// A sentence that stands by itself.
fn begun_large(sentence: &str) -> String {
    let mut chars = sentence.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// The diagnosis as one HTML page.
#[must_use]
pub fn diagnose_html(interval: &Interval, beside: &Beside) -> String {
    let Verdict { about, remarks, found } = verdict(interval, beside);
    let mut head = Section::new("What it is about").note(about);
    for remark in remarks {
        head = head.note(remark);
    }
    let mut sections = vec![head];
    match found {
        Err(why) => sections.push(Section::new("Nothing found").note(why)),
        Ok(found) => sections.extend(found.into_iter().enumerate().map(|(at, (part, finding))| {
            let title = format!("{}. {part} % of DB time", at + 1);
            let mut section = Section::new(&title).note(begun_large(&finding.sentence));
            for evidence in finding.evidence {
                section = section.note(format!("– {evidence}"));
            }
            section.note(format!("To do: {}", finding.remedy))
        })),
    }
    let of = format!("DB: {}  Snaps: {}-{}", interval.database, interval.begin, interval.end);
    html_page(&format!("Skein diagnosis  {of}"), &sections)
}

fn put(out: &mut String, text: &str, first: &str, rest: &str) {
    for (at, line) in wrapped(text, 88).iter().enumerate() {
        let _ = writeln!(out, "{}{line}", if at == 0 { first } else { rest });
    }
}

#[cfg(test)]
mod tests;
