//! The report on what happened between two snapshots of the statistics, in the field's layout.
//!
//! What it promises: a page whose numbers this server does not count is not there; counters of two
//! starts of an instance are never subtracted. What it must never do: print a zero for what is not
//! known.

mod ash;
mod cluster;
mod front;
mod host;
mod html;
mod numbers;
pub(crate) mod page;
mod rest;
pub(crate) mod sql;
mod text;
mod waits;

pub use ash::{Absent, Samples, ash_html, ash_text};
pub use numbers::{
    Fetched, Input, Interval, Problem, SnapshotRow, TABLES, check_pair, newest_pair,
};

pub(crate) use cluster::SPLIT;
pub(crate) use html::page as html_page;
pub(crate) use numbers::{Row, Table, Work};
pub(crate) use text::wrapped;

use page::Section;

/// Everything there is to say of one instance, or of all.
fn sections(interval: &Interval, work: &Work) -> Vec<Section> {
    let global = work.instance == 0;
    let mut all = vec![front::header(interval, work), front::load_profile(work)];
    if global {
        all.push(front::load_by_instance(interval));
    }
    let front = [front::efficiency(work), front::top_events(work), front::wait_classes(work)];
    let where_time_went = [host::processors(interval, work), rest::time_model(work)];
    all.extend(front.into_iter().chain(where_time_went).flatten());
    if rest::is_quiet(work) {
        all.push(Section::new("Quiet").note("No session of a client has waited for anything."));
    }
    let cluster = [
        cluster::load_profile(work),
        cluster::efficiency(work),
        cluster::characteristics(interval, work),
        cluster::messages(work),
        cluster::wait_split(interval, work),
        cluster::transfers(interval, work),
        cluster::served(work),
        cluster::current_served(work),
        waits::events(work, true),
        waits::events(work, false),
        waits::histogram(work),
    ];
    all.extend(cluster.into_iter().flatten());
    all.extend(sql::sections(interval, work));
    all.extend(
        [rest::activity(work), waits::buffer_waits(work), rest::enqueues(work)]
            .into_iter()
            .flatten(),
    );
    all.extend(
        [rest::undo(work), rest::latches(work), rest::latch_sleeps(work)].into_iter().flatten(),
    );
    all.extend(rest::segments(work));
    all.extend(rest::dictionary(work));
    let last = [rest::library(work), rest::global_enqueues(work), host::statistics(interval, work)];
    all.extend(last.into_iter().flatten());
    all.extend(rest::parameters(work));
    all
}

/// Whom a report is about: an instance of the interval if it has one only and `global` is not
/// asked for, else all of them.
fn chosen(interval: &Interval, global: bool) -> Work {
    match &interval.works[..] {
        [one] if !global => one.clone(),
        _ => interval.together(),
    }
}

fn of(interval: &Interval, work: &Work) -> String {
    let name = if work.instance == 0 { "all" } else { work.name.as_str() };
    format!("DB/Inst: {}/{name}  Snaps: {}-{}", interval.database, interval.begin, interval.end)
}

/// The report as text.
#[must_use]
pub fn report_text(interval: &Interval, global: bool) -> String {
    let work = chosen(interval, global);
    let of = of(interval, &work);
    let mut out = String::new();
    for section in sections(interval, &work) {
        text::section(&mut out, &section, &of);
    }
    out.push_str("End of Report\n");
    out
}

/// The report as one HTML page.
#[must_use]
pub fn report_html(interval: &Interval, global: bool) -> String {
    let work = chosen(interval, global);
    html::page(
        &format!("Skein workload report  {}", of(interval, &work)),
        &sections(interval, &work),
    )
}

/// A page that says why there is no report.
#[must_use]
pub fn refusal_html(why: &str) -> String {
    html::page("No report", &[Section::new("Why").note(why)])
}

#[cfg(test)]
pub(crate) mod tests;
