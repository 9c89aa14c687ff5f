//! What the machine is and does, all its processes together, as the operating system counts it.
//!
//! What it must never do: show a figure that could not be read; it is left out.

use crate::MachineFigure;
use std::collections::BTreeSet;
use std::fs;

/// What the figures of `/proc/stat` count: hundredths of a second on every Linux of today
/// (`USER_HZ`).
const TIMES: [&str; 5] = ["USER_TIME", "NICE_TIME", "SYS_TIME", "IDLE_TIME", "IOWAIT_TIME"];

/// Figures by their names in `v$osstat`.
pub(super) fn figures() -> Vec<MachineFigure> {
    let read = |name: &str| fs::read_to_string(format!("/proc/{name}")).unwrap_or_default();
    let mut all = Vec::new();
    processors(&read("cpuinfo"), &mut all);
    times(&read("stat"), &mut all);
    if let Some(load) = read("loadavg").split(' ').next().and_then(|word| word.parse().ok()) {
        all.push(MachineFigure { name: "LOAD", value: load, is_sum: false });
    }
    let memory = number_of(&read("meminfo"), "MemTotal:").map(|kib| kib * 1024.0);
    put(&mut all, "PHYSICAL_MEMORY_BYTES", memory, false);
    let paging = read("vmstat");
    for (name, word) in [("VM_IN_BYTES", "pswpin"), ("VM_OUT_BYTES", "pswpout")] {
        let bytes = number_of(&paging, word).map(|pages| pages * page_bytes());
        put(&mut all, name, bytes, true);
    }
    all
}

fn put(all: &mut Vec<MachineFigure>, name: &'static str, value: Option<f64>, is_sum: bool) {
    all.extend(value.map(|value| MachineFigure { name, value, is_sum }));
}

/// The number behind a word that a line begins with.
fn number_of(text: &str, word: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(word))?;
    line.split_whitespace().next()?.parse().ok()
}

#[allow(clippy::cast_precision_loss)] // some thousands
fn page_bytes() -> f64 {
    use nix::unistd::{SysconfVar, sysconf};
    sysconf(SysconfVar::PAGE_SIZE).ok().flatten().map_or(4096.0, |bytes| bytes as f64)
}

#[allow(clippy::cast_precision_loss)] // few
fn processors(cpuinfo: &str, all: &mut Vec<MachineFigure>) {
    let value_of = |line: &str| line.split_once(':').map(|(_, value)| value.trim().to_owned());
    let (mut count, mut socket) = (0_u32, String::new());
    let (mut sockets, mut cores) = (BTreeSet::new(), BTreeSet::new());
    for line in cpuinfo.lines() {
        if line.starts_with("processor") {
            count += 1;
        } else if line.starts_with("physical id") {
            socket = value_of(line).unwrap_or_default();
            sockets.insert(socket.clone());
        } else if line.starts_with("core id") {
            cores.insert((socket.clone(), value_of(line)));
        }
    }
    let some = |count: usize| (count > 0).then_some(count as f64);
    put(all, "NUM_CPUS", (count > 0).then_some(f64::from(count)), false);
    put(all, "NUM_CPU_CORES", some(cores.len()), false);
    put(all, "NUM_CPU_SOCKETS", some(sockets.len()), false);
}

fn times(stat: &str, all: &mut Vec<MachineFigure>) {
    let Some(line) = stat.lines().find_map(|line| line.strip_prefix("cpu ")) else { return };
    let counts: Vec<f64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let [user, nice, system, idle, waiting, interrupts @ ..] = &counts[..] else { return };
    // Work for interrupts, and what other guests of the host have taken from this machine; what
    // comes behind these is contained in the first two.
    let others: f64 = interrupts.iter().take(3).sum();
    // Who waits for I/O is idle meanwhile.
    let of = [*user, *nice, *system, idle + waiting, *waiting];
    for (name, value) in TIMES.into_iter().zip(of) {
        put(all, name, Some(value), true);
    }
    put(all, "BUSY_TIME", Some(user + nice + system + others), true);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(all: &[MachineFigure], name: &str) -> Option<f64> {
        all.iter().find(|figure| figure.name == name).map(|figure| figure.value)
    }

    #[test]
    fn times_are_those_of_all_processors() {
        let mut all = Vec::new();
        times("cpu  100 20 30 4000 50 6 7 8 90 9\ncpu0 1 2 3 4 5 6 7 8 9 0\n", &mut all);
        let found = ["USER_TIME", "NICE_TIME", "SYS_TIME", "IDLE_TIME", "IOWAIT_TIME", "BUSY_TIME"];
        let found = found.map(|name| value(&all, name));
        assert_eq!(found, [100.0, 20.0, 30.0, 4050.0, 50.0, 171.0].map(Some));
        times("nonsense", &mut all);
        assert_eq!(all.len(), 6);
    }

    #[test]
    fn cores_are_told_by_their_sockets() {
        let one = |cpu: u32, socket: u32, core: u32| {
            format!("processor\t: {cpu}\nphysical id\t: {socket}\ncore id\t\t: {core}\n\n")
        };
        let text = [one(0, 0, 0), one(1, 0, 0), one(2, 1, 0), one(3, 1, 1)].concat();
        let mut all = Vec::new();
        processors(&text, &mut all);
        let found = ["NUM_CPUS", "NUM_CPU_CORES", "NUM_CPU_SOCKETS"].map(|name| value(&all, name));
        assert_eq!(found, [Some(4.0), Some(3.0), Some(2.0)]);
    }

    #[test]
    fn this_machine_has_processors_memory_and_a_load() {
        let all = figures();
        for name in ["NUM_CPUS", "BUSY_TIME", "PHYSICAL_MEMORY_BYTES"] {
            assert!(value(&all, name).is_some_and(|value| value > 0.0), "{name}: {all:?}");
        }
        assert!(value(&all, "LOAD").is_some_and(|value| value >= 0.0), "{all:?}");
    }
}
