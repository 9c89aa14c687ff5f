//! What clients know to have happened: only what COMMIT was confirmed for is booked.
//!
//! Each client keeps a ledger of its own; together they say what every instance must show at the
//! end. [`Progress`] is shared, and says at any time what a snapshot must at least and may at most
//! show.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::time::Duration;

use hdrhistogram::Histogram;

/// The longest transaction that is told apart from longer ones: an hour.
const LATENCY_US_MAX: u64 = 3_600_000_000;

/// TPC-C's five transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

impl Kind {
    pub const ALL: [Kind; 5] =
        [Kind::NewOrder, Kind::Payment, Kind::OrderStatus, Kind::Delivery, Kind::StockLevel];

    #[must_use]
    pub fn name(self) -> &'static str {
        ["New-Order", "Payment", "Order-Status", "Delivery", "Stock-Level"][self as usize]
    }
}

/// What clients did in one district.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct District {
    pub orders: i64,
    pub order_lines: i64,
    pub payments: i64,
    pub paid_cents: i64,
    pub delivered: i64,
}

/// What clients ordered of one warehouse's stock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stock {
    pub quantity: i64,
    pub lines: i64,
    /// Lines of orders of another warehouse.
    pub remote_lines: i64,
}

/// The changes of one transaction, or of all those of a client.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// By warehouse and district.
    pub districts: BTreeMap<(i32, i32), District>,
    /// By warehouse.
    pub stocks: BTreeMap<i32, Stock>,
}

impl Changes {
    pub fn add(&mut self, other: &Changes) {
        for (at, more) in &other.districts {
            let sum = self.districts.entry(*at).or_default();
            sum.orders += more.orders;
            sum.order_lines += more.order_lines;
            sum.payments += more.payments;
            sum.paid_cents += more.paid_cents;
            sum.delivered += more.delivered;
        }
        for (at, more) in &other.stocks {
            let sum = self.stocks.entry(*at).or_default();
            sum.quantity += more.quantity;
            sum.lines += more.lines;
            sum.remote_lines += more.remote_lines;
        }
    }
}

/// What one client, or all of them, did.
#[derive(Clone, Debug)]
pub struct Ledger {
    pub changes: Changes,
    /// By kind, in microseconds from BEGIN of the first attempt to the end; rolled-back ones too.
    pub latency_us: Vec<Histogram<u64>>,
    /// New-Orders that ended with the rollback that TPC-C wants.
    pub rolled_back: u64,
    /// Attempts that were repeated, by kind, by SQLSTATE.
    pub repeats: BTreeMap<(usize, String), u64>,
}

impl Ledger {
    /// # Errors
    /// A histogram cannot be made.
    pub fn new() -> Result<Ledger, String> {
        let one = |_| Histogram::new_with_bounds(1, LATENCY_US_MAX, 3);
        let latency_us: Result<Vec<_>, _> = Kind::ALL.into_iter().map(one).collect();
        Ok(Ledger {
            changes: Changes::default(),
            latency_us: latency_us.map_err(|e| format!("histogram: {e:?}"))?,
            rolled_back: 0,
            repeats: BTreeMap::new(),
        })
    }

    pub fn ended(&mut self, kind: Kind, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        // What is above the histogram's limit counts as the limit.
        self.latency_us[kind as usize].saturating_record(us);
    }

    pub fn repeated(&mut self, kind: Kind, code: &str) {
        *self.repeats.entry((kind as usize, code.to_owned())).or_default() += 1;
    }

    /// Transactions that ended, by kind.
    #[must_use]
    pub fn count(&self, kind: Kind) -> u64 {
        self.latency_us[kind as usize].len()
    }

    /// # Errors
    /// Histograms do not fit.
    pub fn add(&mut self, other: &Ledger) -> Result<(), String> {
        self.changes.add(&other.changes);
        for (sum, more) in self.latency_us.iter_mut().zip(&other.latency_us) {
            sum.add(more).map_err(|e| format!("histogram: {e:?}"))?;
        }
        self.rolled_back += other.rolled_back;
        for (at, more) in &other.repeats {
            *self.repeats.entry(at.clone()).or_default() += more;
        }
        Ok(())
    }
}

/// How far all clients have got; counted before the first attempt begins, and after COMMIT.
#[derive(Debug, Default)]
pub struct Progress {
    pub orders_begun: AtomicI64,
    pub orders_committed: AtomicI64,
    pub payments_begun: AtomicI64,
    pub payments_committed: AtomicI64,
    /// Somebody has failed, or time is up: nobody begins anything new.
    pub stop: AtomicBool,
}
