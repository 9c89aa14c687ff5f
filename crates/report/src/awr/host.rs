//! The machines that the instances run on: processors, and how much of them was used by whom.
//!
//! What it must never do: add up machines of several instances, which may be one.

use super::numbers::{Interval, Work};
use super::page::{Grid, Section, count, figures, percent, words};

/// What one machine did, in hundredths of a second of all its processors.
struct Machine<'a>(&'a Work);

impl Machine<'_> {
    fn added(&self, name: &str) -> Option<f64> {
        let table = self.0.table("wrh$_osstat")?;
        table.row(name).map(|row| table.added(row, "value"))
    }

    fn at_end(&self, name: &str) -> String {
        let table = self.0.table("wrh$_osstat");
        let value = table.and_then(|t| Some(t.at_end(t.row(name)?, "value")));
        value.map_or(String::new(), count)
    }

    /// What was used in none of the ways that are told apart.
    fn other(&self) -> Option<f64> {
        let known = ["USER_TIME", "NICE_TIME", "SYS_TIME"];
        let known: f64 = known.iter().filter_map(|name| self.added(name)).sum();
        Some((self.added("BUSY_TIME")? - known).max(0.0))
    }

    /// `None`: the server does not count it, or no time has passed.
    fn total(&self) -> Option<f64> {
        Some(self.added("IDLE_TIME")? + self.added("BUSY_TIME")?).filter(|sum| *sum > 0.0)
    }
}

/// The instances that a report is about.
fn shown<'a>(interval: &'a Interval, work: &Work) -> impl Iterator<Item = &'a Work> {
    let which = work.instance;
    interval.works.iter().filter(move |one| which == 0 || one.instance == which)
}

/// Processors of each instance's machine, and what part of them was used.
pub(crate) fn processors(interval: &Interval, work: &Work) -> Option<Section> {
    let mut grid = Grid::new(&[
        figures("Inst", 4),
        figures("CPUs", 4),
        figures("Cores", 5),
        figures("Sockets", 7),
        figures("%User", 6),
        figures("%Nice", 6),
        figures("%Sys", 6),
        figures("%Other", 6),
        figures("%Idle", 6),
        figures("%WIO", 6),
        figures("%Total\nCPU", 6),
        figures("%Busy\nCPU", 6),
    ]);
    for one in shown(interval, work) {
        let machine = Machine(one);
        let Some(total) = machine.total() else { continue };
        let part = |name: &str| machine.added(name).map_or(String::new(), |v| percent(v, total));
        let own = one.process_cpu_us().map(|us| us / 1e4);
        let of = |whole: Option<f64>| match (own, whole) {
            (Some(own), Some(whole)) => percent(own, whole),
            _ => String::new(),
        };
        grid.row(vec![
            one.instance.to_string(),
            machine.at_end("NUM_CPUS"),
            machine.at_end("NUM_CPU_CORES"),
            machine.at_end("NUM_CPU_SOCKETS"),
            part("USER_TIME"),
            part("NICE_TIME"),
            part("SYS_TIME"),
            machine.other().map_or(String::new(), |v| percent(v, total)),
            part("IDLE_TIME"),
            part("IOWAIT_TIME"),
            of(Some(total)),
            of(machine.added("BUSY_TIME")),
        ]);
    }
    Section::new("Host CPU and Instance CPU")
        .note(
            "The machine's processors, with all that runs on it: %User to %Idle are the whole, \
             %WIO a part of %Idle, %Other interrupts and what was taken by other guests of the \
             host. The last two columns are what the instance itself used of them, and of what was \
             used.",
        )
        .grid(grid)
        .unless_empty()
}

/// All that is known of the machines.
pub(crate) fn statistics(interval: &Interval, work: &Work) -> Option<Section> {
    let mut grid = Grid::new(&[
        figures("Inst", 4),
        words("Statistic", 28),
        figures("Total", 18),
        figures("End Value", 18),
    ]);
    for one in shown(interval, work) {
        let Some(table) = one.table("wrh$_osstat") else { continue };
        for row in &table.rows {
            let sum =
                ["_TIME", "_IN_BYTES", "_OUT_BYTES"].iter().any(|end| row.keys[0].ends_with(end));
            let added = if sum { count(table.added(row, "value")) } else { String::new() };
            let at_end = if sum { String::new() } else { count(table.at_end(row, "value")) };
            grid.row(vec![one.instance.to_string(), row.keys[0].clone(), added, at_end]);
        }
    }
    Section::new("Operating System Statistics")
        .note("Times are hundredths of a second of all processors together.")
        .grid(grid)
        .unless_empty()
}
