//! The report at the end.

use std::fmt::Write;
use std::time::Duration;

use super::check::CONDITIONS;
use super::ledger::{Kind, Ledger};

/// What a load that went well did.
#[derive(Clone, Debug)]
pub struct Report {
    /// Seconds that making the tables took.
    pub load_s: f64,
    /// Seconds that the clients ran.
    pub run_s: f64,
    pub ledger: Ledger,
    /// By instance: how often all conditions were checked while the load ran; once more after it.
    pub rounds_meanwhile: Vec<u64>,
    pub longest_round: Duration,
}

impl Report {
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        self.transactions(&mut out);
        self.repeats(&mut out);
        let committed = self.ledger.changes.districts.values();
        let (orders, payments, cents, delivered) = committed.fold((0, 0, 0, 0), |sum, d| {
            (sum.0 + d.orders, sum.1 + d.payments, sum.2 + d.paid_cents, sum.3 + d.delivered)
        });
        let (instances, conditions) = (self.rounds_meanwhile.len(), CONDITIONS.len());
        let _ = writeln!(
            out,
            "acknowledged, and shown by all {instances}: {orders} orders, {payments} payments of \
             {}.{:02}, {delivered} deliveries; {} orders rolled back",
            cents / 100,
            cents % 100,
            self.ledger.rolled_back
        );
        let _ = writeln!(
            out,
            "{conditions} conditions, none broken: checked in {:?} snapshots from each while it \
             ran, in one from each after; longest round {:.2} s",
            self.rounds_meanwhile,
            self.longest_round.as_secs_f64()
        );
        out
    }

    fn transactions(&self, out: &mut String) {
        let _ =
            writeln!(out, "tables made in {:.1} s; load ran for {:.1} s", self.load_s, self.run_s);
        let head = ["count", "a second", "p50 ms", "p95 ms", "max ms"];
        let head: String = head.iter().map(|h| format!("{h:>11}")).collect();
        let _ = writeln!(out, "{:14}{head}", "");
        let mut all = 0;
        for kind in Kind::ALL {
            let latency = &self.ledger.latency_us[kind as usize];
            let count = latency.len();
            all += count;
            let rate = self.rate(count);
            let ms =
                [latency.value_at_quantile(0.5), latency.value_at_quantile(0.95), latency.max()];
            let ms: String =
                ms.iter().map(|us| format!("{:>7}.{:03}", us / 1000, us % 1000)).collect();
            let _ = writeln!(out, "{:14}{count:11}{rate:11.1}{ms}", kind.name());
        }
        let _ = writeln!(out, "{:14}{all:11}{:11.1}", "all", self.rate(all));
    }

    fn rate(&self, count: u64) -> f64 {
        f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / self.run_s.max(0.001)
    }

    fn repeats(&self, out: &mut String) {
        if self.ledger.repeats.is_empty() {
            let _ = writeln!(out, "nothing repeated");
        }
        for ((kind, code), count) in &self.ledger.repeats {
            let name = Kind::ALL[*kind].name();
            let _ = writeln!(out, "{count} attempts of {name} repeated after {code}");
        }
    }
}
