//! Rules about the machines: sessions that could run and do not, for want of a processor.
//!
//! What it must never do: take for a lack of processors what is counted as a wait.

use super::{Case, Finding};
use crate::awr::Work;
use crate::awr::page::{number, percent, seconds};

/// A machine that is busier has no processor free for who is woken up.
const BUSY_MIN: f64 = 0.9;
/// Figures of several instances that differ by less are told once.
const SAME_PERCENT: f64 = 1.0;

/// The part of its time in which an instance's machine had work for all its processors.
fn busy(work: &Work) -> Option<f64> {
    let table = work.table("wrh$_osstat")?;
    let of = |name: &str| table.row(name).map(|row| table.added(row, "value"));
    let (idle, busy) = (of("IDLE_TIME")?, of("BUSY_TIME")?);
    (idle + busy > 0.0).then(|| busy / (idle + busy))
}

fn full(work: &Work) -> Option<f64> {
    busy(work).filter(|part| *part >= BUSY_MIN)
}

/// What is to be known of all figures where machines are full: every wait is longer there, since
/// who is woken up stands behind others.
pub(super) fn remark(case: &Case<'_>) -> Option<String> {
    let full: Vec<(i64, f64)> = case
        .interval
        .works
        .iter()
        .filter_map(|work| Some((work.instance, 100.0 * full(work)?)))
        .collect();
    let (least, most) = full
        .iter()
        .fold((f64::MAX, 0.0_f64), |(least, most), (_, part)| (least.min(*part), most.max(*part)));
    let all: Vec<String> = match full.len() > 1 && most - least < SAME_PERCENT {
        // One machine, as likely as not.
        true => vec![format!("busy for {} % of the time", number(most, 1))],
        false => full
            .iter()
            .map(|(instance, part)| {
                let part = number(*part, 1);
                format!("that of instance {instance} was busy for {part} % of the time")
            })
            .collect(),
    };
    (!all.is_empty()).then(|| {
        format!(
            "The machines have no processors to spare ({}): waits of every kind are longer for it, \
             those for commits and for LMS above all.",
            all.join(", ")
        )
    })
}

/// Time of calls that is neither processor time nor a wait, on a machine that is full.
pub(super) fn run_queue(case: &Case<'_>) -> Vec<Finding> {
    let finding = |work: &Work| {
        let (part, cpu) = (full(work)?, work.cpu_us()?);
        let us = work.counted_db_time_us()? - cpu - work.waits_us();
        let k = work.instance;
        (us > 0.0).then(|| Finding {
            cost_us: us,
            sentence: format!(
                "sessions of instance {k} could run and get no processor: so much of their calls \
                 is neither processor time nor a wait."
            ),
            evidence: vec![
                format!("the machine was busy for {} % of the time", number(100.0 * part, 1)),
                format!(
                    "instance {k}: {} s in calls, {} s of it processor time ({} %), {} s waits",
                    seconds(us + cpu + work.waits_us()),
                    seconds(cpu),
                    percent(cpu, us + cpu + work.waits_us()),
                    seconds(work.waits_us())
                ),
            ],
            remedy: "take load off the machine, or give it more processors.".to_owned(),
        })
    };
    case.interval.works.iter().filter_map(finding).collect()
}
