//! Latches, and waits for blocks that others have latched.

use super::events::US_PER_CS;
use super::int4;
use super::registry::{Column, Make, columns, views};
use crate::catalog::rows::Shape::{Int4, Int8, Text};
use crate::catalog::rows::{Rows, int, text};
use crate::database::Database;
use env::latch::{LatchCounts, LatchList, LatchRow};
use kernel::instance::Instance;
use kernel::row::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

const COUNTS: &[Column] = columns! {
    gets: Int8, "Requests.";
    misses: Int8, "Those that found it taken.";
    sleeps: Int8, "Those that slept until it was free.";
    spin_gets: Int8, "Misses that got it by trying again, without a sleep.";
    wait_time: Int8, "Microseconds slept.";
    immediate_gets: Int8, "Always 0: who asks for a latch waits for it.";
    immediate_misses: Int8, "Always 0, for the same reason.";
};

views! {
    "v$latch", Make::Local(latches), "Latches, short locks on what the instance has in memory; those \
        of one name together." {
        addr: Text, "Where it is, as `p1raw` of a wait for it says; NULL: there are several of the \
            name, each in `v$latch_children`.";
        "latch#": Int4, "Number of the row.";
        name: Text, "Name of the latch.";
    } + COUNTS {}
    "v$latch_parent", Make::Local(parents), "Latches that there is one of. Where there are several \
        of a name, each is a child." {
        addr: Text, "Where it is, as `p1raw` of a wait for it says.";
        "latch#": Int4, "Number of its row in `v$latch`.";
        name: Text, "Name of the latch.";
    } + COUNTS {}
    "v$latch_children", Make::Local(children), "Each latch of those that there are several of." {
        addr: Text, "Where it is, as `p1raw` of a wait for it says.";
        "latch#": Int4, "Number of its row in `v$latch`.";
        "child#": Int4, "Number of the latch among those of its name.";
        name: Text, "Name of the latch.";
    } + COUNTS {}
    "v$waitstat", Make::Local(waitstat), "Waits for blocks whose latch another session of this \
        instance had (`buffer busy waits`), by class of the block." {
        class: Text, "What the block is: `data block`, also of one that has no rows yet; `segment \
            header`, `1st level bmb`, `file header block`, `undo header` or `undo block`.";
        count: Int8, "Waits.";
        time: Int8, "Hundredths of a second waited.";
    }
}

fn all(instance: &Arc<Instance>) -> Vec<(&'static str, Vec<LatchRow>)> {
    let mut list = LatchList::default();
    instance.latches(&mut list);
    // A session that asks has made it.
    if let Ok(database) = Database::of(instance) {
        database.cache.latches(&mut list);
    }
    list.rows()
}

fn counts(of: &LatchCounts) -> [Value; 7] {
    [of.gets, of.misses, of.sleeps, of.spin_gets, of.wait_us, 0, 0].map(int)
}

/// As [`super::session`] shows the parameters of waits.
fn address(latch: &LatchRow) -> Value {
    text(format!("{:016X}", latch.address))
}

fn latches(instance: &Arc<Instance>, rows: &mut Rows) {
    for (at, (name, each)) in all(instance).into_iter().enumerate() {
        let mut sum = LatchCounts::default();
        each.iter().for_each(|one| sum.add(&one.counts));
        let only = if let [only] = &each[..] { address(only) } else { Value::Null };
        rows.push([only, int4(at), text(name)].into_iter().chain(counts(&sum)).collect());
    }
}

fn parents(instance: &Arc<Instance>, rows: &mut Rows) {
    for (at, (name, each)) in all(instance).into_iter().enumerate() {
        if let [only] = &each[..] {
            let who = [address(only), int4(at), text(name)];
            rows.push(who.into_iter().chain(counts(&only.counts)).collect());
        }
    }
}

fn children(instance: &Arc<Instance>, rows: &mut Rows) {
    for (at, (name, each)) in all(instance).into_iter().enumerate() {
        if each.len() < 2 {
            continue;
        }
        for (child, of) in each.iter().enumerate() {
            let who = [address(of), int4(at), int4(child + 1), text(name)];
            rows.push(who.into_iter().chain(counts(&of.counts)).collect());
        }
    }
}

/// The field's names of `class#`.
fn class_name(class: u64) -> &'static str {
    match class {
        4 => "segment header",
        8 => "1st level bmb",
        13 => "file header block",
        17 => "undo header",
        18 => "undo block",
        // Also of one that is free, which has been latched to be filled.
        _ => "data block",
    }
}

fn waitstat(instance: &Arc<Instance>, rows: &mut Rows) {
    let mut classes: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for row in instance.core.cache.busy_rows() {
        let (waits, us) = classes.entry(class_name(row.kind.class())).or_default();
        *waits += row.waits;
        *us += row.time_us;
    }
    for (class, (waits, us)) in classes {
        rows.push(vec![text(class), int(waits), int(us / US_PER_CS)]);
    }
}
