//! The report at the end: what was done, what stalled, what moved, what was waited for.

use std::fmt::Write;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::bank::{ClientLog, Load};
use super::views::{Counters, by_name};

/// Seconds at which things happened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timeline {
    /// Index of the instance that was killed.
    pub victim: Option<usize>,
    pub kill_s: Option<u64>,
    pub restart_s: Option<u64>,
    pub open_s: Option<u64>,
    pub end_s: u64,
}

/// Growth of the counters over the load.
#[derive(Clone, Debug, Default)]
pub struct Moved {
    pub statistics: Counters,
    pub wait_counts: Counters,
    pub wait_us: Counters,
}

const STATISTICS: [&str; 10] = [
    "gc cr blocks received",
    "gc current blocks received",
    "gc remote grants",
    "gcs messages sent",
    "ges messages sent",
    "DBWR fusion writes",
    "physical reads",
    "physical writes",
    "redo size",
    "user commits",
];
const WAITS_SHOWN: usize = 10;

/// The whole report; `moved` is the reason if the views could not be read.
#[must_use]
pub fn text(load: &Load, timeline: &Timeline, moved: &Result<Moved, String>) -> String {
    let mut out = String::new();
    throughput(&mut out, load, timeline);
    stalls(&mut out, load, timeline);
    match moved {
        Ok(moved) => {
            blocks(&mut out, &moved.statistics, load.down.len());
            waits(&mut out, moved);
        }
        Err(why) => {
            let _ = writeln!(out, "\nBlocks moved and waits: not known, {why}");
        }
    }
    out
}

fn throughput(out: &mut String, load: &Load, timeline: &Timeline) {
    let _ = writeln!(out, "\nTransfers by second and instance");
    let count = |instance: usize, s: u64| {
        let slot = usize::try_from(s).ok().and_then(|s| load.done[instance].get(s));
        slot.map_or(0, |n| n.load(Relaxed))
    };
    for s in 0..timeline.end_s {
        let _ = write!(out, "{s:>5} s");
        for instance in 0..load.done.len() {
            let _ = write!(out, " {:>8}", count(instance, s));
        }
        let victim = timeline.victim.map_or(0, |v| v + 1);
        for (at, what) in [
            (timeline.kill_s, "killed"),
            (timeline.restart_s, "started"),
            (timeline.open_s, "open"),
        ] {
            if at == Some(s) {
                let _ = write!(out, "   instance {victim} {what}");
            }
        }
        out.push('\n');
    }
    let _ = write!(out, "    all");
    // With what was acknowledged while the clients came to their ends.
    let mut sum = 0;
    for done in &load.done {
        let total: u64 = done.iter().map(|n| n.load(Relaxed)).sum();
        let _ = write!(out, " {total:>8}");
        sum += total;
    }
    let _ = writeln!(out, "   = {sum}, {} a second", sum / timeline.end_s.max(1));
    let latency = load.latency_us.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = writeln!(
        out,
        "    time of a transfer: median {}, 99 % {}, longest {}",
        ms(latency.value_at_quantile(0.5)),
        ms(latency.value_at_quantile(0.99)),
        ms(latency.max())
    );
}

fn ms(us: u64) -> String {
    format!("{}.{:02} ms", us / 1000, us % 1000 / 10)
}

/// The client of a surviving instance that waited longest.
#[must_use]
pub fn longest_stall(clients: &[ClientLog], victim: Option<usize>) -> Option<&ClientLog> {
    let survivors = clients.iter().filter(|c| Some(c.instance) != victim);
    survivors.max_by_key(|c| c.longest_stall)
}

fn stalls(out: &mut String, load: &Load, timeline: &Timeline) {
    let clients = load.clients.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(client) = longest_stall(&clients, timeline.victim) {
        let _ = writeln!(
            out,
            "\nLongest stall of a surviving instance's client: {:.2} s \
             (instance {}, until {:.1} s)",
            client.longest_stall.as_secs_f64(),
            client.instance + 1,
            client.stall_end.as_secs_f64()
        );
    }
    let retries: u64 = clients.iter().map(|c| c.retries).sum();
    let disconnects: u64 = clients.iter().map(|c| c.disconnects).sum();
    let _ = writeln!(
        out,
        "Transfers rolled back and tried anew: {retries}; connections lost: {disconnects}"
    );
}

fn blocks(out: &mut String, statistics: &Counters, instances: usize) {
    let _ = writeln!(out, "\nBlocks moved and work done, by instance");
    for name in STATISTICS {
        let value = |i: usize| statistics.get(&(i, name.to_owned()));
        if (1..=instances).all(|i| value(i).is_none()) {
            continue;
        }
        let _ = write!(out, "  {name:<28}");
        for i in 1..=instances {
            let shown = value(i).map_or_else(|| "?".to_owned(), i64::to_string);
            let _ = write!(out, " {shown:>12}");
        }
        out.push('\n');
    }
}

fn waits(out: &mut String, moved: &Moved) {
    let times = by_name(&moved.wait_us);
    let counts = by_name(&moved.wait_counts);
    let mut top: Vec<_> = times.iter().filter(|(_, us)| **us > 0).collect();
    top.sort_by_key(|(name, us)| (-**us, (*name).clone()));
    let _ =
        writeln!(out, "\nTop waits over all instances {:>19} {:>10} {:>12}", "waits", "s", "mean");
    for (name, us) in top.into_iter().take(WAITS_SHOWN) {
        let count = counts.get(name).copied().unwrap_or(0);
        let mean = Duration::from_micros(u64::try_from(us / count.max(1)).unwrap_or(0));
        let seconds = Duration::from_micros(u64::try_from(*us).unwrap_or(0)).as_secs_f64();
        let mean_us = u64::try_from(mean.as_micros()).unwrap_or(u64::MAX);
        let _ = writeln!(out, "  {name:<38} {count:>8} {seconds:>10.2} {:>12}", ms(mean_us));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_victims_clients_do_not_count_as_stalled() {
        let log = |instance, s| ClientLog {
            instance,
            longest_stall: Duration::from_secs(s),
            ..ClientLog::default()
        };
        let clients = [log(0, 1), log(1, 9), log(2, 3)];
        assert_eq!(longest_stall(&clients, Some(1)).map(|c| c.instance), Some(2));
        assert_eq!(longest_stall(&clients, None).map(|c| c.instance), Some(1));
        assert!(longest_stall(&[], None).is_none());
    }

    #[test]
    fn the_report_shows_what_was_read_and_names_what_was_not() {
        let urls = vec!["a".to_owned(), "b".to_owned()];
        let load = Load::new(10, urls, 2).expect("a load");
        load.done[1][0].store(42, Relaxed);
        let timeline =
            Timeline { victim: Some(1), kill_s: Some(1), end_s: 2, ..Timeline::default() };
        let missing = text(&load, &timeline, &Err("gv$sysstat: gone".to_owned()));
        assert!(missing.contains("not known, gv$sysstat: gone"), "{missing}");
        assert!(missing.contains("    0 s        0       42\n"), "{missing}");
        assert!(missing.contains("    1 s        0        0   instance 2 killed\n"), "{missing}");
        let mut moved = Moved::default();
        moved.statistics.insert((1, "gc cr blocks received".to_owned()), 77);
        moved.wait_us.insert((2, "log file sync".to_owned()), 3_000_000);
        moved.wait_counts.insert((2, "log file sync".to_owned()), 1000);
        let shown = text(&load, &timeline, &Ok(moved));
        let line = |start: &str| shown.lines().find(|l| l.contains(start)).map(str::to_owned);
        let blocks = line("gc cr blocks").expect("a line");
        assert!(blocks.contains("77") && blocks.ends_with('?'), "{shown}");
        let sync = line("log file sync").expect("a line");
        assert!(sync.contains("1000") && sync.contains("3.00"), "{shown}");
        assert!(line("physical reads").is_none());
    }
}
