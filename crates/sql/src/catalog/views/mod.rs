//! The `v$`, `gv$` and `dba_` views. Every column comes from a live counter, state or the
//! dictionary; what they are is said once, in the registry, which the files of this folder fill by
//! subject.
//!
//! What it promises: names are the field's; where the field writes `#`, which no name in SQL has
//! without quotes, ours ends in `_no` or leaves it out (`serial`, `seq`). What it must never do:
//! show what always is the same.

mod audit;
mod cache;
mod cluster;
mod events;
mod fixed;
mod history;
mod instance;
mod locks;
#[cfg(test)]
mod page;
mod registry;
mod sequences;
mod session;
mod sql;
mod statistics;
mod storage;
mod transfers;
mod work_areas;

use super::rows::Rows;
use crate::Result;
use crate::session::Session;
use kernel::instance::Instance;
use kernel::row::Value;
use query::datetime::EPOCH_US;
use registry::{Make, SessionView, View};
use std::sync::Arc;

/// All there are, by subject.
const ALL: [&[View]; 15] = [
    instance::VIEWS,
    session::VIEWS,
    history::VIEWS,
    sql::VIEWS,
    events::VIEWS,
    statistics::VIEWS,
    cache::VIEWS,
    transfers::VIEWS,
    cluster::VIEWS,
    locks::VIEWS,
    storage::VIEWS,
    sequences::VIEWS,
    work_areas::VIEWS,
    audit::VIEWS,
    fixed::VIEWS,
];

fn all() -> impl Iterator<Item = &'static View> {
    ALL.into_iter().flatten()
}

fn find(name: &str) -> Option<&'static View> {
    all().find(|view| view.name == name)
}

/// The rows that this instance has of a view; `None` for an unknown name, and for what a session
/// makes.
pub(super) async fn local(instance: &Arc<Instance>, view: &str) -> Option<Rows> {
    let view = find(view)?;
    let mut rows = view.empty();
    match view.make {
        Make::Local(make) => make(instance, &mut rows),
        Make::Blocked(make) => make(instance, &instance.node.blockers().await, &mut rows),
        Make::Session(_) => return None,
    }
    Some(rows)
}

/// The view of this name that a session makes.
pub(super) struct OfSession(&'static View, SessionView);

pub(super) fn of_session(name: &str) -> Option<OfSession> {
    let view = find(name)?;
    match view.make {
        Make::Session(which) => Some(OfSession(view, which)),
        Make::Local(_) | Make::Blocked(_) => None,
    }
}

impl Session {
    pub(super) async fn dictionary_view(&mut self, view: OfSession) -> Result<Rows> {
        let OfSession(view, which) = view;
        let mut rows = view.empty();
        self.begin_if_needed();
        match which {
            SessionView::DbaSequences => self.dba_sequences(&mut rows).await?,
            SessionView::HeldSequences => self.held_sequences(&mut rows).await?,
            SessionView::Segments => self.segments(&mut rows).await?,
            SessionView::DataFiles => self.data_files(&mut rows),
            SessionView::Waiters => self.waiters(&mut rows).await?,
            SessionView::Blockers => self.blockers(&mut rows).await?,
        }
        Ok(rows)
    }
}

/// A moment by the wall clock, in µs since 1970.
fn wall(us: i64) -> Value {
    Value::Timestamptz(us - EPOCH_US)
}

fn int4(value: impl TryInto<i32>) -> Value {
    Value::Int4(value.try_into().unwrap_or(i32::MAX))
}

/// Microseconds on the average; 0 of nothing.
fn average(us: u64, waits: u64) -> Value {
    super::rows::int(us.checked_div(waits).unwrap_or(0))
}
