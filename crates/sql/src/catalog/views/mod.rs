//! The `v$`, `gv$` and `dba_` views. Every column comes from a live counter, state or the
//! dictionary; what they are is said once, in the registry, which the files of this folder fill by
//! subject.
//!
//! What it promises: names are the field's; those of objects and owners are in capital letters in
//! the `dba_` views, as scripts write them. What it must never do: show what always is the same,
//! but for what scripts ask for.

mod audit;
mod cache;
mod chains;
mod cluster;
mod code;
mod constraints;
mod cursors;
mod dependencies;
mod dictionary;
mod events;
mod fixed;
mod gathered;
mod history;
mod instance;
mod latches;
mod locks;
mod long_operations;
mod metrics;
mod nls;
mod objects;
#[cfg(test)]
mod page;
mod plan_table;
mod processes;
mod product;
mod registry;
mod repository;
mod rights;
mod sequences;
mod services;
mod session;
mod sql;
mod sql_plans;
mod statistics;
mod storage;
mod transfers;
mod undo;
mod work_areas;

use super::rows::Rows;
use crate::Result;
use crate::session::Session;
use kernel::instance::Instance;
use kernel::row::Value;
use query::datetime::EPOCH_US;
use registry::{Make, SessionView, View};
use std::sync::Arc;

pub(crate) use instance::{DATABASE, database_id};

/// All there are, by subject.
const ALL: [&[View]; 35] = [
    instance::VIEWS,
    services::VIEWS,
    session::VIEWS,
    long_operations::VIEWS,
    processes::VIEWS,
    history::VIEWS,
    sql::VIEWS,
    sql_plans::VIEWS,
    plan_table::VIEWS,
    cursors::VIEWS,
    events::VIEWS,
    statistics::VIEWS,
    metrics::VIEWS,
    cache::VIEWS,
    transfers::VIEWS,
    cluster::VIEWS,
    locks::VIEWS,
    chains::VIEWS,
    latches::VIEWS,
    undo::VIEWS,
    storage::VIEWS,
    sequences::VIEWS,
    objects::VIEWS,
    constraints::VIEWS,
    gathered::VIEWS,
    dependencies::VIEWS,
    dictionary::VIEWS,
    rights::VIEWS,
    code::VIEWS,
    nls::VIEWS,
    product::VIEWS,
    repository::VIEWS,
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
        Make::Once(_) | Make::Session(_) => return None,
    }
    Some(rows)
}

/// A view that a session makes.
pub(super) struct OfSession {
    view: &'static View,
    /// Only what is in the current schema, which is not named.
    own: bool,
    /// With the instance's number in front.
    global: bool,
}

/// The view of this name that a session makes: `dba_objects` shows all, `all_objects` too, and
/// `user_objects` those of the current schema; what only the session has, its `gv$` view shows as
/// this instance's.
pub(super) fn of_session(name: &str) -> Option<OfSession> {
    let own = name.strip_prefix("user_");
    let of_all = own
        .or_else(|| name.strip_prefix("all_"))
        .and_then(|rest| find(&format!("dba_{rest}")).filter(|view| view.owner().is_some()));
    let own = own.is_some() && of_all.is_some();
    let of_instance = name.strip_prefix('g').and_then(find).filter(|view| view.is_local());
    let global = of_instance.is_some();
    let view = of_all.or(of_instance).or_else(|| find(name))?;
    match view.make {
        Make::Session(_) | Make::Once(_) => Some(OfSession { view, own, global }),
        Make::Local(_) | Make::Blocked(_) => None,
    }
}

impl Session {
    pub(super) async fn dictionary_view(&mut self, view: OfSession) -> Result<Rows> {
        let OfSession { view, own, global } = view;
        let mut rows = view.empty();
        self.begin_if_needed();
        match view.make {
            Make::Once(make) => make(&self.instance, &mut rows),
            Make::Session(which) => {
                self.made_view(which, &mut rows).await?;
                // No user's schema has them.
                if !own && matches!(which, SessionView::TabColumns | SessionView::TabCols) {
                    fixed::tab_columns(which == SessionView::TabCols, &mut rows);
                }
            }
            Make::Local(_) | Make::Blocked(_) => {}
        }
        if own && let Some(column) = view.owner() {
            let mut path = self.schemas_for(None).await?.into_iter();
            let schema = path.find(|schema| !crate::ddl::is_temporary(schema));
            rows.keep_own(column, &schema.map_or(Value::Null, |schema| shown_name(&schema)));
        }
        Ok(if global { rows.with_instance(self.instance.me.0) } else { rows })
    }

    async fn made_view(&mut self, which: SessionView, rows: &mut Rows) -> Result<()> {
        match which {
            SessionView::DbaSequences => self.dba_sequences(rows).await?,
            SessionView::Segments => self.segments(rows).await?,
            SessionView::Extents => self.extents(rows).await?,
            SessionView::DataFiles => self.data_files(rows),
            SessionView::FreeSpace => self.free_space(rows).await?,
            SessionView::Waiters => self.waiters(rows).await?,
            SessionView::Locks => self.locks_in_words(rows).await?,
            SessionView::Services => self.all_services(rows).await?,
            SessionView::Blockers => self.blockers(rows).await?,
            SessionView::MyStatistics => self.my_statistics(rows),
            SessionView::WaitChains => self.wait_chains(rows).await?,
            SessionView::PlanTable => self.plan_table(rows).await?,
            SessionView::Dictionary
            | SessionView::TabComments
            | SessionView::ColComments
            | SessionView::Tab
            | SessionView::Cat => self.words_view(which, rows).await?,
            SessionView::Users
            | SessionView::AllUsers
            | SessionView::UserUsers
            | SessionView::Roles
            | SessionView::RolePrivs
            | SessionView::SysPrivs
            | SessionView::TabPrivs
            | SessionView::ColPrivs
            | SessionView::UserTabPrivs
            | SessionView::UserRolePrivs
            | SessionView::UserSysPrivs
            | SessionView::SessionPrivs
            | SessionView::SessionRoles => self.rights_view(which, rows).await?,
            SessionView::Source => self.source(rows).await?,
            SessionView::Nothing => {}
            of_objects => self.objects_view(of_objects, rows).await?,
        }
        Ok(())
    }
}

/// A name as the field shows it: in capital letters, unless it needs quotes.
pub(super) fn shown_name(name: &str) -> Value {
    super::rows::text(shown_text(name))
}

/// The same as a text.
pub(crate) fn shown_text(name: &str) -> String {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_$#".contains(c);
    match name.chars().all(plain) {
        true => name.to_ascii_uppercase(),
        false => name.to_owned(),
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
