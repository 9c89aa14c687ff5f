//! Services: what clients may connect to, and who has.
//!
//! What it promises: a service has the same hash everywhere, and on all instances together each is
//! told once. What it must never do: name a service that nobody can connect to.

use super::int4;
use super::registry::{Column, Make, SessionView, columns, views};
use crate::Result;
use crate::catalog::rows::Shape::{Int4, Int8, Text, Timestamptz};
use crate::catalog::rows::{Rows, int, text};
use crate::session::Session;
use kernel::instance::Instance;
use kernel::row::Value;
use observe::{SessionKind, SessionRow, SqlId};
use std::sync::Arc;

const SERVICE: &[Column] = columns! {
    service_id: Int4, "Place of the service in the list, from 1.";
    name: Text, "Name of the service: `skein`, and those of the parameter `service_names`.";
    name_hash: Int8, "A number made from its name.";
    network_name: Text, "What a client names as its database: the same as `name`.";
    creation_date: Timestamptz, "Always NULL: nobody has noted when it was made.";
};

views! {
    "v$services", Make::Local(services), "What clients may connect to here." {} + SERVICE {}
    "v$active_services", Make::Local(active_services), "The same, with who has." {
    } + SERVICE {
        blocked: Text, "`NO`: while an instance is open, it takes clients for all of them.";
        sessions: Int8, "Sessions of clients that have connected to it.";
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
