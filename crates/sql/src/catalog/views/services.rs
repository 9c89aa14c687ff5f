//! Services: what clients may connect to, and who has.
//!
//! What it promises: a service has the same hash everywhere, and on all instances together each is
//! told once. What it must never do: name a service that nobody can connect to.

use super::events::{self, EVENT, TOTALS, US_PER_CS};
use super::int4;
use super::registry::{Column, Make, SessionView, columns, views};
use crate::Result;
use crate::catalog::rows::Shape::{Int4, Int8, Text, Timestamptz};
use crate::catalog::rows::{Rows, int, text};
use crate::session::Session;
use kernel::instance::Instance;
use kernel::row::Value;
use observe::{EventTotals, SessionKind, SessionRow, SqlId, Stat, WaitClass, WaitEvent};
use std::collections::BTreeMap;
use std::sync::Arc;

const SERVICE: &[Column] = columns! {
    service_id: Int4, "Place of the service in the list, from 1.";
    name: Text, "Name of the service: `skein`, and those of the parameter `service_names`.";
    name_hash: Int8, "A number made from its name.";
    network_name: Text, "What a client names as its database: the same as `name`.";
    creation_date: Timestamptz, "Always NULL: nobody has noted when it was made.";
};

/// Whose sessions a row is about.
const WHOSE: &[Column] = columns! {
    service_name: Text, "The service; `SYS$BACKGROUND`: the instance's own processes.";
    service_name_hash: Int8, "A number made from its name, as in `v$services`.";
};

views! {
    "v$services", Make::Local(services), "What clients may connect to here." {} + SERVICE {}
    "v$active_services", Make::Local(active_services), "The same, with who has." {
    } + SERVICE {
        blocked: Text, "`NO`: while an instance is open, it takes clients for all of them.";
        sessions: Int8, "Sessions of clients that have connected to it.";
    }
    "v$service_stats", Make::Local(service_stats), "Statistics of each service's sessions, open and \
        ended, since the instance's start." {} + WHOSE {
        stat_id: Int8, "A number made from the statistic's name, as in `v$sysstat`.";
        stat_name: Text, "Name of the statistic.";
        value: Int8, "The sum over the sessions; of times in microseconds.";
    }
    "v$service_event", Make::Local(service_event), "What each service's sessions, open and ended, \
        have waited for since the instance's start." {} + WHOSE {} + EVENT {} + TOTALS {}
    "v$service_wait_class", Make::Local(service_wait_class), "The same by class." {} + WHOSE {
        wait_class_id: Int8, "The field's identifier of the class.";
        "wait_class#": Int4, "The field's number of the class.";
        wait_class: Text, "The class.";
        total_waits: Int8, "Waits.";
        time_waited: Int8, "Hundredths of a second waited.";
    }
    "dba_services", Make::Session(SessionView::Services), "What clients may connect to on any \
        instance that is open." {} + SERVICE {}
    "all_services", Make::Session(SessionView::Services), "The same." {} + SERVICE {}
}

fn service_names(instance: &Instance) -> Vec<String> {
    let set = instance.params.service_names();
    let set = set.split(',').map(str::trim).filter(|name| !name.is_empty());
    let mut names = vec![observe::USER_SERVICE.to_owned()];
    for name in set {
        if names.iter().all(|known| known != name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// The columns of [`SERVICE`]; `at`: from 0.
fn service(at: usize, name: &str) -> Vec<Value> {
    let hash = SqlId::of(name).hash_value();
    vec![int4(at + 1), text(name), int(hash), text(name), Value::Null]
}

fn services(instance: &Arc<Instance>, rows: &mut Rows) {
    for (at, name) in service_names(instance).iter().enumerate() {
        rows.push(service(at, name));
    }
}

fn active_services(instance: &Arc<Instance>, rows: &mut Rows) {
    let open = instance.observer.sessions();
    for (at, name) in service_names(instance).iter().enumerate() {
        let of = |s: &&SessionRow| s.kind == SessionKind::User && *s.about.service == **name;
        let mut row = service(at, name);
        row.extend([text("NO"), int(open.iter().filter(of).count())]);
        rows.push(row);
    }
}

/// The columns of [`WHOSE`].
fn whose(name: &str) -> [Value; 2] {
    [text(name), int(SqlId::of(name).hash_value())]
}

fn service_stats(instance: &Arc<Instance>, rows: &mut Rows) {
    for (name, totals) in instance.observer.service_totals() {
        for stat in Stat::ALL {
            let mut row = Vec::from(whose(&name));
            row.extend([int(stat.id()), text(stat.name()), int(totals.stats[stat.index()])]);
            rows.push(row);
        }
    }
}

/// What each service's sessions have waited for.
fn waits(instance: &Instance) -> impl Iterator<Item = (Arc<str>, WaitEvent, EventTotals)> {
    let services = instance.observer.service_totals().into_iter();
    services.flat_map(|(name, totals)| {
        let events = WaitEvent::ALL.iter().copied().zip(totals.events);
        let happened = events.filter(|(_, totals)| totals.waits > 0);
        happened.map(move |(event, totals)| (name.clone(), event, totals))
    })
}

fn service_event(instance: &Arc<Instance>, rows: &mut Rows) {
    for (name, event, totals) in waits(instance) {
        let of = events::named(event).into_iter().chain(events::totals(&totals));
        rows.push(whose(&name).into_iter().chain(of).collect());
    }
}

fn service_wait_class(instance: &Arc<Instance>, rows: &mut Rows) {
    let mut sums: BTreeMap<(Arc<str>, WaitClass), (u64, u64)> = BTreeMap::new();
    for (name, event, totals) in waits(instance) {
        let (waits, us) = sums.entry((name, event.class())).or_default();
        *waits += totals.waits;
        *us += totals.time_us;
    }
    for ((name, class), (waits, us)) in sums {
        let mut row = Vec::from(whose(&name));
        row.extend([int(class.id()), int4(class.number()), text(class.name())]);
        row.extend([int(waits), int(us / US_PER_CS)]);
        rows.push(row);
    }
}

impl Session {
    /// The rows of `dba_services`: first those of this instance.
    pub(super) async fn all_services(&mut self, rows: &mut Rows) -> Result<()> {
        let mut names = service_names(&self.instance);
        let all = self.rows_of_all("v$services").await?;
        for row in all.iter().flat_map(Rows::named) {
            let name = row.text("name");
            if names.iter().all(|known| known != name) {
                names.push(name.to_owned());
            }
        }
        names.iter().enumerate().for_each(|(at, name)| rows.push(service(at, name)));
        Ok(())
    }
}
