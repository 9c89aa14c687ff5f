//! `/metrics`: counters of the registries in Prometheus' text format.
//!
//! What it promises: every sample has its HELP and TYPE, from the registry's own words; names end
//! in their unit (seconds, bytes, blocks), counters in `_total`, and never go back while the
//! instance runs; a text is made at most once a second, however many ask. What it must never do:
//! use as a label what users can choose, which would show their data and be without bound.

use super::Shared;
use bytes::Bytes;
use kernel::instance::Instance;
use observe::{
    EventTotals, HISTOGRAM_BUCKETS, Observer, SessionKind, Stat, TransferKind, TransferRow, Unit,
    WaitEvent, bucket_limit_us,
};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// Of the format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// How old a text may be.
const KEPT: Duration = Duration::from_secs(1);
/// Every second bucket of the registry's histograms: powers of four.
const BUCKET_STEP: usize = 2;

/// The last text made.
#[derive(Default)]
pub struct Metrics(Mutex<Option<(Instant, Bytes)>>);

impl Metrics {
    /// The text of now.
    pub fn text(&self, shared: &Shared) -> Bytes {
        let mut last = self.0.lock();
        match &*last {
            Some((made, text)) if made.elapsed() < KEPT => text.clone(),
            _ => {
                let text = Bytes::from(page(shared.engine.instance(), shared.places.max()));
                *last = Some((Instant::now(), text.clone()));
                text
            }
        }
    }
}

fn page(instance: &Instance, connections_max: usize) -> String {
    let observer = &instance.observer;
    let mut page = Page { text: String::new(), instance: instance.me.0 };
    page.instance_state(instance, connections_max);
    page.sessions(observer);
    for (stat, value) in observer.sysstat() {
        page.statistic(stat, value);
    }
    page.waits(observer);
    page.transfers(&observer.block_waits.rows());
    page.text
}

struct Page {
    text: String,
    instance: u8,
}

/// A statistic's name in the form of the format.
fn metric_name(stat: Stat) -> String {
    let mut name = String::from("skein");
    for word in stat.name().split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty()) {
        name.push('_');
        name.push_str(&word.to_ascii_lowercase());
    }
    let unit = match stat.unit() {
        Unit::Count => "",
        Unit::Bytes => "bytes",
        Unit::Micros | Unit::Centis => "seconds",
        Unit::Blocks => "blocks",
    };
    if !unit.is_empty() && !name.split('_').any(|word| word == unit) {
        name.push('_');
        name.push_str(unit);
    }
    if stat.is_gauge() { name } else { name + "_total" }
}

/// Microseconds as seconds, exactly.
fn seconds(us: u64) -> String {
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n")
}

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP {name} {}\n# TYPE {name} {kind}", escaped(help));
    }

    /// `labels`: name and value, beside that of the instance.
    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let _ = write!(self.text, "{name}{{inst_id=\"{}\"", self.instance);
        for (label, text) in labels {
            let _ = write!(self.text, ",{label}=\"{}\"", escaped(text).replace('"', "\\\""));
        }
        let _ = writeln!(self.text, "}} {value}");
    }

    fn instance_state(&mut self, instance: &Instance, connections_max: usize) {
        let version = env!("CARGO_PKG_VERSION");
        self.family("skein_instance_info", "gauge", "The instance and its version.");
        self.sample("skein_instance_info", &[("version", version)], 1);
        let help = "When the instance was started, in seconds since 1970.";
        self.family("skein_start_time_seconds", "gauge", help);
        let started = u64::try_from(instance.observer.started_wall_us()).unwrap_or(0);
        self.sample("skein_start_time_seconds", &[], seconds(started));
        let help = "Instances of the cluster that are open, this one among them.";
        self.family("skein_cluster_instances", "gauge", help);
        self.sample("skein_cluster_instances", &[], instance.node.view().members.len());
        self.family("skein_current_scn", "counter", "The system change number, a logical clock.");
        self.sample("skein_current_scn", &[], instance.core.current_scn().0);
        let help = "Client connections that the instance takes (max_connections).";
        self.family("skein_max_connections", "gauge", help);
        self.sample("skein_max_connections", &[], connections_max);
    }

    fn sessions(&mut self, observer: &Observer) {
        let clients: Vec<_> =
            observer.sessions().into_iter().filter(|s| s.kind == SessionKind::User).collect();
        let help = "Sessions of clients, by whether they work for their client now.";
        self.family("skein_sessions", "gauge", help);
        for (status, active) in [("active", true), ("inactive", false)] {
            let count = clients.iter().filter(|s| s.active == active).count();
            self.sample("skein_sessions", &[("status", status)], count);
        }
        let help = "Sessions of clients that work now, by the class of what they wait for; CPU: \
                    for nothing.";
        self.family("skein_active_sessions", "gauge", help);
        // Every class has a line, be it 0: what is absent could not be told from what is not known.
        let classes = WaitEvent::ALL.iter().map(|event| event.class()).filter(|c| c.counts());
        let mut counts: BTreeMap<&str, usize> = classes.map(|class| (class.name(), 0)).collect();
        counts.insert("CPU", 0);
        for session in clients.iter().filter(|s| s.active) {
            let waits = session.wait.event.filter(|_| session.wait.waiting);
            let class = waits.map_or("CPU", |event| event.class().name());
            if let Some(count) = counts.get_mut(class) {
                *count += 1;
            }
        }
        for (class, count) in counts {
            self.sample("skein_active_sessions", &[("class", class)], count);
        }
    }

    fn statistic(&mut self, stat: Stat, value: u64) {
        let name = metric_name(stat);
        let kind = if stat.is_gauge() { "gauge" } else { "counter" };
        self.family(&name, kind, stat.doc());
        match stat.unit() {
            Unit::Micros | Unit::Centis => self.sample(&name, &[], seconds(value)),
            _ => self.sample(&name, &[], value),
        }
    }

    fn waits(&mut self, observer: &Observer) {
        let rows = observer.system_events();
        let name = "skein_wait_duration_seconds";
        let help = "Waits that have ended, of all sessions, by wait event and its class; \
                    docs/reference/wait-events.md says what each is for.";
        self.family(name, "histogram", help);
        for row in &rows {
            self.histogram(name, row.event, &row.all);
        }
        let name = "skein_foreground_wait_seconds_total";
        self.family(name, "counter", "Time that sessions of clients have waited.");
        for row in &rows {
            let labels = [("event", row.event.name()), ("class", row.event.class().name())];
            self.sample(name, &labels, seconds(row.foreground.time_us));
        }
        let name = "skein_wait_timeouts_total";
        self.family(name, "counter", "Waits that were given up when their time was over.");
        for row in &rows {
            let labels = [("event", row.event.name()), ("class", row.event.class().name())];
            self.sample(name, &labels, row.all.timeouts);
        }
    }

    fn histogram(&mut self, name: &str, event: WaitEvent, totals: &EventTotals) {
        let labels = [("event", event.name()), ("class", event.class().name())];
        let bucket = format!("{name}_bucket");
        let mut below = 0;
        for at in 0..HISTOGRAM_BUCKETS {
            below += totals.histogram[at];
            let Some(limit_us) = bucket_limit_us(at).filter(|_| at % BUCKET_STEP == 0) else {
                continue;
            };
            let limit = seconds(limit_us);
            self.sample(&bucket, &[labels[0], labels[1], ("le", &limit)], below);
        }
        self.sample(&bucket, &[labels[0], labels[1], ("le", "+Inf")], totals.waits);
        self.sample(&format!("{name}_sum"), &labels, seconds(totals.time_us));
        self.sample(&format!("{name}_count"), &labels, totals.waits);
    }

    fn transfers(&mut self, rows: &[TransferRow]) {
        let name = "skein_block_transfers_total";
        let help = "Blocks received from another instance, by kind and class of block.";
        self.family(name, "counter", help);
        for row in rows {
            let from = row.instance.to_string();
            self.sample(name, &labels_of(row, &from), row.totals.blocks());
        }
        let name = "skein_block_transfer_seconds_total";
        let help = "Time until they were here, by the part in which it was spent, as \
                    v$gc_wait_split has them.";
        self.family(name, "counter", help);
        for row in rows {
            let (from, t) = (row.instance.to_string(), &row.totals);
            for (part, us) in [
                ("interconnect", t.interconnect_us),
                ("master_queue", t.master_queue_us),
                ("master_lms", t.master_lms_us),
                ("lms_queue", t.lms_us),
                ("lms_build", t.build_us),
                ("pin", t.pin_us),
                ("lgwr_flush", t.flush_us),
                ("own_lms", t.own_lms_us),
            ] {
                let [a, b, c] = labels_of(row, &from);
                self.sample(name, &[a, b, c, ("part", part)], seconds(us));
            }
        }
    }
}

fn labels_of<'a>(row: &TransferRow, from: &'a str) -> [(&'static str, &'a str); 3] {
    let kind = match row.kind {
        TransferKind::Cr => "cr",
        TransferKind::Current => "current",
    };
    [("from_inst_id", from), ("kind", kind), ("class", row.class.name())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_of_statistics_are_distinct_and_end_in_their_unit() {
        let names: BTreeSet<String> = Stat::ALL.iter().map(|stat| metric_name(*stat)).collect();
        assert_eq!(names.len(), Stat::ALL.len());
        let letters = |name: &String| {
            name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        };
        assert!(names.iter().all(letters), "{names:?}");
        for (stat, name) in [
            (Stat::UserCommits, "skein_user_commits_total"),
            (Stat::RedoSize, "skein_redo_size_bytes_total"),
            (Stat::LogonsCurrent, "skein_logons_current"),
            (Stat::RedoWriteTime, "skein_redo_write_time_seconds_total"),
            (Stat::GcCrBlocksReceived, "skein_gc_cr_blocks_received_total"),
        ] {
            assert_eq!(metric_name(stat), name);
        }
    }

    #[test]
    fn a_histogram_adds_up() {
        let mut page = Page { text: String::new(), instance: 2 };
        let mut totals = EventTotals { waits: 3, time_us: 1_500_002, ..EventTotals::default() };
        totals.histogram[1] = 1;
        totals.histogram[2] = 1;
        totals.histogram[HISTOGRAM_BUCKETS - 1] = 1;
        page.histogram("w", WaitEvent::LogFileSync, &totals);
        let labels = r#"inst_id="2",event="log file sync",class="Commit""#;
        for line in [
            format!("w_bucket{{{labels},le=\"0.000001\"}} 0"),
            format!("w_bucket{{{labels},le=\"0.000004\"}} 2"),
            format!("w_bucket{{{labels},le=\"+Inf\"}} 3"),
            format!("w_sum{{{labels}}} 1.500002"),
            format!("w_count{{{labels}}} 3"),
        ] {
            assert!(page.text.lines().any(|known| known == line), "{line} in {}", page.text);
        }
    }

    #[test]
    fn text_of_labels_and_help_is_escaped() {
        let mut page = Page { text: String::new(), instance: 1 };
        page.family("a", "gauge", "two\nlines\\");
        page.sample("a", &[("l", "\"x\"\n")], 1);
        let expected = "# HELP a two\\nlines\\\\\n# TYPE a gauge\n\
                        a{inst_id=\"1\",l=\"\\\"x\\\"\\n\"} 1\n";
        assert_eq!(page.text, expected);
    }
}
