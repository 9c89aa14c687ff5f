//! The views of the history: what the tables keep, under the field's names too, and what was added
//! since the snapshot before.
//!
//! What it promises: `.._total` is what an instance had counted since its start, `.._delta` what
//! has come since the snapshot before it, or since the start if that is the newer of the two. What
//! it must never do: give a sum since the start for that of an interval. Where the snapshot before
//! has been dropped, or a statement has got another plan since, there is no `.._delta`.

use super::tables::{
    ACTIVE_SESSIONS, Column, EVENT_HISTOGRAM, SEG_STAT, SNAPSHOT, SQL_STAT, SYSSTAT, TRACING,
    all_tables, hist_name,
};
use kernel::dict::TableDef;

/// A view of the history.
pub(super) struct HistView {
    pub(super) name: String,
    /// Names of its columns, and what they are.
    columns: Vec<(String, String)>,
    /// What stands behind FROM.
    from: String,
    /// A name in its text that the text of an older release lacks; empty: the columns tell.
    mark: &'static str,
}

impl HistView {
    /// The statement that makes it.
    pub(super) fn create(&self) -> String {
        format!("create view {}", self.defined(self.columns.iter()))
    }

    /// The statement that puts it in the place of a view with these columns, which stay where they
    /// are; `None`: it lacks one of them.
    pub(super) fn replace(&self, old: &[&str]) -> Option<String> {
        let find = |wanted: &&str| self.columns.iter().find(|(name, _)| name == *wanted);
        let kept = old.iter().map(find).collect::<Option<Vec<_>>>()?;
        let added = self.columns.iter().filter(|(name, _)| !old.contains(&name.as_str()));
        Some(format!("create or replace view {}", self.defined(kept.into_iter().chain(added))))
    }

    fn defined<'a>(&self, columns: impl Iterator<Item = &'a (String, String)>) -> String {
        let columns = columns.map(|(name, of)| format!("{of} as \"{name}\""));
        let columns = columns.collect::<Vec<_>>().join(", ");
        format!("pg_awr.{} as select {columns} from {}", self.name, self.from)
    }

    /// Whether the view that there is lacks a column or shows another thing, as one of an older
    /// release may.
    pub(super) fn is_old(&self, found: &TableDef) -> bool {
        let text = found.view.as_ref().map_or("", |view| view.text.as_str());
        !text.contains(self.mark)
            || self.columns.iter().any(|(name, _)| found.column(name).is_none())
    }

    fn new(name: &str, from: String) -> HistView {
        HistView { name: name.to_owned(), columns: Vec::new(), from, mark: "" }
    }

    fn marked(self, mark: &'static str) -> HistView {
        HistView { mark, ..self }
    }

    fn with(mut self, name: &str, of: impl Into<String>) -> HistView {
        self.columns.push((name.to_owned(), of.into()));
        self
    }

    fn with_all(self, columns: &[(&str, &str)]) -> HistView {
        columns.iter().fold(self, |view, (name, of)| view.with(name, *of))
    }
}

/// What the field calls columns that the tables have under other names, and what follows from them.
const NAMED: &[(&str, &[(&str, &str)])] = &[
    (
        SNAPSHOT,
        &[
            ("flush_elapsed", "t.flush_elapsed_us * interval '1 microsecond'"),
            // There is but one level, and a snapshot with an error is not kept.
            ("snap_level", "1"),
            ("error_count", "0"),
        ],
    ),
    (SYSSTAT, &[("stat_name", "t.name")]),
    ("wrh$_osstat", &[("stat_id", "t.osstat_id")]),
    ("wrh$_system_event", &[("event_name", "t.event")]),
    ("wrh$_parameter", &[("parameter_name", "t.name")]),
    ("wrh$_latch", &[("latch_name", "t.name")]),
    ("wrh$_waitstat", &[("wait_count", "t.count")]),
    ("wrh$_rowcache_summary", &[("total_usage", "t.count")]),
    (
        "wrh$_enqueue_stat",
        &[
            ("total_req#", "t.total_req"),
            ("total_wait#", "t.total_wait"),
            ("succ_req#", "t.succ_req"),
            ("failed_req#", "t.failed_req"),
        ],
    ),
    (
        ACTIVE_SESSIONS,
        &[
            ("session_serial#", "t.session_serial"),
            ("seq#", "t.seq"),
            ("blocking_session_serial#", "t.blocking_session_serial"),
            ("current_obj#", "t.current_obj_no"),
            ("current_file#", "t.current_file_no"),
            ("current_block#", "t.current_block_no"),
            ("current_row#", "t.current_row_no"),
            ("remote_instance#", "t.remote_instance_no"),
        ],
    ),
];

/// Views that show what a table keeps in another form.
const SEG_STAT_OBJ: &str = "dba_hist_seg_stat_obj";
const BACKGROUND: &str = "dba_hist_bg_event_summary";
const INSTANCES: &str = "dba_hist_database_instance";

/// Names of all views.
pub(super) fn names() -> impl Iterator<Item = String> {
    let more = [SEG_STAT_OBJ, BACKGROUND, INSTANCES].map(str::to_owned);
    all_tables().map(|(table, _)| hist_name(table)).chain(more)
}

/// All views, of a database of this number and name.
pub(super) fn all(dbid: u32, db_name: &str) -> Vec<HistView> {
    let dbid = format!("cast({dbid} as bigint)");
    let mut views: Vec<HistView> = all_tables()
        .map(|(table, columns)| match table {
            EVENT_HISTOGRAM => event_histogram(&dbid),
            SEG_STAT => seg_stat(&dbid),
            SQL_STAT => sql_stat(&columns, &dbid),
            _ => as_kept(table, &columns, &dbid),
        })
        .collect();
    views.push(seg_stat_obj(&dbid));
    views.push(background(&dbid));
    views.push(instances(&dbid, db_name));
    views
}

/// What a table keeps.
fn as_kept(table: &str, columns: &[Column], dbid: &str) -> HistView {
    let view = HistView::new(&hist_name(table), format!("pg_awr.{table} t"));
    let view = own(view, columns);
    if table == TRACING {
        return view;
    }
    let more = NAMED.iter().find(|(of, _)| *of == table).map(|(_, more)| *more);
    view.with_all(more.unwrap_or_default()).with("dbid", dbid)
}

/// The table's own columns.
fn own(view: HistView, columns: &[Column]) -> HistView {
    columns.iter().fold(view, |view, (name, _)| view.with(name, format!("t.{name}")))
}

/// Waits by milliseconds, as the field has them: the table's finer buckets below the first are one.
fn event_histogram(dbid: &str) -> HistView {
    // Bounds are powers of two.
    let from = format!(
        "(select snap_id, instance_number, event, wait_count, case when wait_time_micro is not \
         null then greatest(wait_time_micro >> 10, 1) end as bucket_milli \
         from pg_awr.{EVENT_HISTOGRAM}) t \
         group by t.snap_id, t.instance_number, t.event, t.bucket_milli"
    );
    HistView::new(&hist_name(EVENT_HISTOGRAM), from)
        .marked("bucket_milli")
        .with_all(&[
            ("snap_id", "t.snap_id"),
            ("instance_number", "t.instance_number"),
            ("event", "t.event"),
            ("wait_time_micro", "t.bucket_milli * 1024"),
            ("wait_count", "cast(sum(t.wait_count) as bigint)"),
            ("event_name", "t.event"),
            ("wait_time_milli", "t.bucket_milli"),
        ])
        .with("dbid", dbid)
}

/// A table, and beside each row (`t`) that of the same instance's snapshot before (`b`), and its
/// snapshot (`s`). `between`: what is joined before `b`; `same`: which of its rows is meant.
fn beside_before(table: &str, between: &str, same: &str) -> String {
    let so_far = "(partition by instance_number, startup_time order by snap_id";
    // The time at which an interval begins is made of the snapshots before it in the same way.
    format!(
        "pg_awr.{table} t left join (select snap_id, instance_number, begin_interval_time, \
         startup_time, lag(snap_id) over {so_far}) as before_id, \
         max(end_interval_time) over {so_far} \
         rows between unbounded preceding and 1 preceding) as before_end \
         from pg_awr.{SNAPSHOT}) s \
         on s.snap_id = t.snap_id and s.instance_number = t.instance_number {between}\
         left join pg_awr.{table} b \
         on b.snap_id = s.before_id and b.instance_number = t.instance_number and {same}"
    )
}

/// Whether the snapshot before has been dropped: there was one since the instance's start, and the
/// interval does not begin with the end of one that is there.
const IS_LOST: &str = "s.begin_interval_time > s.startup_time \
                       and s.begin_interval_time is distinct from s.before_end";

/// What statements have cost: the name of a counter here, and the field's for its sums.
const COSTS: [(&str, &str); 15] = [
    ("executions", "executions"),
    ("elapsed_time", "elapsed_time"),
    ("cpu_time", "cpu_time"),
    ("buffer_gets", "buffer_gets"),
    ("disk_reads", "disk_reads"),
    ("rows_processed", "rows_processed"),
    ("parse_calls", "parse_calls"),
    ("fetches", "fetches"),
    ("end_of_fetch_count", "end_of_fetch_count"),
    ("loads", "loads"),
    ("invalidations", "invalidations"),
    ("cluster_wait_time", "clwait"),
    ("concurrency_wait_time", "ccwait"),
    ("application_wait_time", "apwait"),
    ("user_io_wait_time", "iowait"),
];

/// Whether a statement was let go since the snapshot before and came again: it counts from zero.
const CAME_AGAIN: &str = "t.executions < b.executions or t.elapsed_time < b.elapsed_time \
                          or t.buffer_gets < b.buffer_gets";

/// Whether what was added to a statement's sums came with the plan of the row: the statement is new
/// since the snapshot before; or it had one plan, this one or none yet, and has one; or it had
/// several, as many as now, and none was made since. Sums go with a cursor to its next plan.
const HAS_KEPT_PLAN: &str = "(k.seen_id is null or (k.seen_id = s.before_id and \
     ((k.plans = 1 and k.plans_then = 1 \
     and (k.plan_then = t.plan_hash_value or k.plan_then = 0)) \
     or (k.plans > 1 and k.plans = k.plans_then and k.loads = k.loads_then \
     and b.snap_id is not null))))";

/// Beside each row of a statement (`k`): how many plans it had, and how often one was made, and the
/// same of the last snapshot since the instance's start that knows it.
fn plans_then() -> String {
    let then = |what: &str| {
        format!(
            "lag(c.{what}) over (partition by c.instance_number, c.startup_time, c.sql_id \
             order by c.snap_id)"
        )
    };
    format!(
        "left join (select c.snap_id, c.instance_number, c.sql_id, c.plans, c.loads, \
         {} as seen_id, {} as plans_then, {} as plan_then, {} as loads_then from \
         (select u.snap_id, u.instance_number, y.startup_time, u.sql_id, count(*) as plans, \
         min(u.plan_hash_value) as one_plan, cast(sum(u.loads) as bigint) as loads \
         from pg_awr.{SQL_STAT} u join pg_awr.{SNAPSHOT} y \
         on y.snap_id = u.snap_id and y.instance_number = u.instance_number \
         group by u.snap_id, u.instance_number, y.startup_time, u.sql_id) c) k \
         on k.snap_id = t.snap_id and k.instance_number = t.instance_number \
         and k.sql_id = t.sql_id ",
        then("snap_id"),
        then("plans"),
        then("one_plan"),
        then("loads")
    )
}

fn sql_stat(columns: &[Column], dbid: &str) -> HistView {
    let same = "b.sql_id = t.sql_id and (b.plan_hash_value = t.plan_hash_value \
                or (k.plans = 1 and k.plans_then = 1))";
    let from = beside_before(SQL_STAT, &plans_then(), same);
    let from = format!("{from} left join pg_awr.wrh$_sqltext x on x.sql_id = t.sql_id");
    let view = HistView::new(&hist_name(SQL_STAT), from).marked("plans_then");
    let mut view = own(view, columns);
    for (counter, name) in COSTS {
        let added = format!(
            "case when {IS_LOST} or {HAS_KEPT_PLAN} is not true then null \
             when {CAME_AGAIN} or t.{counter} < b.{counter} then t.{counter} \
             else t.{counter} - case when b.snap_id is null then 0 else b.{counter} end end"
        );
        view = view.with(&format!("{name}_total"), format!("t.{counter}"));
        view = view.with(&format!("{name}_delta"), added);
    }
    view.with_all(&[
        ("parsing_schema_name", "x.parsing_schema_name"),
        ("module", "x.module"),
        ("action", "x.action"),
    ])
    .with("dbid", dbid)
}

/// What is counted of segments, and the field's name of the column.
const DONE: [(&str, &str); 12] = [
    ("logical reads", "logical_reads"),
    ("buffer busy waits", "buffer_busy_waits"),
    ("db block changes", "db_block_changes"),
    ("physical reads", "physical_reads"),
    ("physical writes", "physical_writes"),
    ("ITL waits", "itl_waits"),
    ("row lock waits", "row_lock_waits"),
    ("segment scans", "table_scans"),
    ("gc cr blocks received", "gc_cr_blocks_received"),
    ("gc current blocks received", "gc_cu_blocks_received"),
    ("gc buffer busy", "gc_buffer_busy"),
    ("physical read requests", "physical_read_requests"),
];

/// What was added to a number of a segment.
const ADDED: &str =
    "case when t.value < b.value then t.value else t.value - coalesce(b.value, 0) end";

/// The table has a row for each number that is not 0; the field a row for each segment.
fn seg_stat(dbid: &str) -> HistView {
    let same = "b.obj = t.obj and b.statistic_name = t.statistic_name";
    let from = beside_before(SEG_STAT, "", same);
    let from =
        format!("{from} where t.obj is not null group by t.snap_id, t.instance_number, t.obj");
    let view = HistView::new(&hist_name(SEG_STAT), from).marked("before_end");
    let mut view = view.with_all(&[
        ("snap_id", "t.snap_id"),
        ("instance_number", "t.instance_number"),
        ("obj#", "t.obj"),
        ("dataobj#", "t.obj"),
    ]);
    for (statistic, name) in DONE {
        let sum = |of: &str| {
            let of = format!("case when t.statistic_name = '{statistic}' then {of} end");
            format!("coalesce(max({of}), 0)")
        };
        let added = format!("case when bool_or({IS_LOST}) then null else {} end", sum(ADDED));
        view = view.with(&format!("{name}_total"), sum("t.value"));
        view = view.with(&format!("{name}_delta"), added);
    }
    view.with("dbid", dbid)
}

/// What the segments are called.
fn seg_stat_obj(dbid: &str) -> HistView {
    let from = format!("pg_awr.{SEG_STAT} t where t.obj is not null group by t.obj");
    HistView::new(SEG_STAT_OBJ, from)
        .with_all(&[
            ("obj#", "t.obj"),
            ("dataobj#", "t.obj"),
            ("owner", "max(t.owner)"),
            ("object_name", "max(t.object_name)"),
            ("subobject_name", "cast(null as text)"),
            ("object_type", "max(t.object_type)"),
            ("tablespace_name", "cast('USERS' as text)"),
        ])
        .with("dbid", dbid)
}

/// What the instance's own processes have waited for.
fn background(dbid: &str) -> HistView {
    let from = "pg_awr.wrh$_system_event t where t.total_waits > coalesce(t.total_waits_fg, 0)";
    HistView::new(BACKGROUND, from.to_owned())
        .with_all(&[
            ("snap_id", "t.snap_id"),
            ("instance_number", "t.instance_number"),
            ("event_id", "t.event_id"),
            ("event_name", "t.event"),
            ("wait_class_id", "t.wait_class_id"),
            ("wait_class", "t.wait_class"),
            ("total_waits", "t.total_waits - coalesce(t.total_waits_fg, 0)"),
            ("total_timeouts", "t.total_timeouts - coalesce(t.total_timeouts_fg, 0)"),
            ("time_waited_micro", "t.time_waited_micro - coalesce(t.time_waited_micro_fg, 0)"),
        ])
        .with("dbid", dbid)
}

/// The starts of instances that snapshots know.
fn instances(dbid: &str, db_name: &str) -> HistView {
    let from = format!("pg_awr.{SNAPSHOT} t group by t.instance_number, t.startup_time");
    HistView::new(INSTANCES, from)
        .with_all(&[
            ("instance_number", "t.instance_number"),
            ("startup_time", "t.startup_time"),
            ("parallel", "cast('YES' as text)"),
            ("version", "max(t.version)"),
            ("instance_name", "max(t.instance_name)"),
            ("host_name", "max(t.host_name)"),
        ])
        .with("db_name", format!("cast('{db_name}' as text)"))
        .with("dbid", dbid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_view_has_a_name_and_columns_of_its_own() {
        let views = all(7, "SKEIN");
        let named: Vec<&String> = views.iter().map(|view| &view.name).collect();
        assert_eq!(names().collect::<Vec<_>>().iter().collect::<Vec<_>>(), named);
        assert_eq!(named.iter().collect::<BTreeSet<_>>().len(), named.len());
        for view in &views {
            let columns: BTreeSet<&String> = view.columns.iter().map(|(name, _)| name).collect();
            assert_eq!(columns.len(), view.columns.len(), "{}", view.name);
            let dbid = view.columns.iter().any(|(name, _)| name == "dbid");
            assert_eq!(dbid, view.name != "dba_enabled_traces", "{}", view.name);
        }
    }

    #[test]
    fn columns_of_an_older_view_stay_where_they_are() {
        let view = HistView::new("v", "t".to_owned());
        let view = view.with_all(&[("a", "t.a"), ("b", "t.x"), ("c", "t.c")]);
        let text = "pg_awr.v as select t.c as \"c\", t.a as \"a\", t.x as \"b\" from t";
        assert_eq!(view.replace(&["c"]), Some(format!("create or replace view {text}")));
        assert_eq!(view.replace(&["a", "gone"]), None);
        let text = "pg_awr.v as select t.a as \"a\", t.x as \"b\", t.c as \"c\" from t";
        assert_eq!(view.create(), format!("create view {text}"));
    }

    #[test]
    fn marks_stand_in_the_texts() {
        let views = all(7, "SKEIN");
        assert!(views.iter().all(|view| view.create().contains(view.mark)));
        assert_eq!(views.iter().filter(|view| !view.mark.is_empty()).count(), 3);
    }

    #[test]
    fn other_names_are_given_to_tables_that_there_are() {
        let tables: Vec<&str> = all_tables().map(|(table, _)| table).collect();
        assert!(NAMED.iter().all(|(table, _)| tables.contains(table)));
        let columns = all_tables().find(|(table, _)| *table == SQL_STAT);
        let (_, columns) = columns.expect("it is there");
        let known = |name: &str| columns.iter().any(|(column, _)| *column == name);
        assert!(COSTS.iter().all(|(counter, _)| known(counter)));
        let kept = kernel::cache::SegmentStat::ALL.map(kernel::cache::SegmentStat::name);
        assert!(kept.iter().all(|name| DONE.iter().any(|(statistic, _)| statistic == name)));
    }
}
