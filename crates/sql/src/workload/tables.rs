//! What a snapshot holds: for each table the view that fills it, and the columns taken from it.
//!
//! Columns have the field's names. A view that this server does not have, or that lacks a column
//! which says what a row is about, fills no table.

use crate::{PgError, Result};
use query::functions::quote_ident;

/// A column of a table, and its type.
pub(super) type Column = (&'static str, &'static str);

/// A table that one view fills.
pub(super) struct Source {
    pub table: &'static str,
    /// The first of these that serves is taken; each is also there as `gv$`.
    pub views: &'static [&'static str],
    pub columns: &'static [Column],
    /// How many of the columns, from the first, the view must have.
    pub needed: usize,
    /// What else is asked beside the view.
    join: &'static str,
    /// Which rows are worth keeping; empty: all.
    only: &'static str,
}

/// Whose rows a statement takes from a view.
#[derive(Clone, Copy)]
pub(super) enum Whose {
    /// Those of all instances that answer.
    All,
    /// Those of this one, which runs it.
    Own(u8),
}

impl Source {
    /// The statement that fills the table from a view with these columns; `None`: it lacks some.
    pub(super) fn fill(
        &self,
        view: &str,
        known: &[String],
        snap_id: i64,
        whose: Whose,
    ) -> Option<String> {
        let (mut names, mut values) = (String::new(), String::new());
        for (at, (name, ty)) in self.columns.iter().enumerate() {
            let Some(found) = column_like(known, name) else {
                if at < self.needed {
                    return None;
                }
                continue;
            };
            names.push_str(&format!(", {name}"));
            values.push_str(&format!(", cast({} as {ty})", quote_ident(found)));
        }
        let only =
            if self.only.is_empty() { String::new() } else { format!(" where {}", self.only) };
        let from = match whose {
            Whose::All => format!("g{view}"),
            Whose::Own(me) => format!("(select {me} as inst_id, * from {view}) own"),
        };
        Some(format!(
            "insert into pg_awr.{} (snap_id, instance_number{names}) \
             select {snap_id}, inst_id{values} from {from}{}{only}",
            self.table, self.join
        ))
    }
}

/// The view's column of a name: numbers end in `#` where the field has it so.
fn column_like<'a>(known: &'a [String], name: &str) -> Option<&'a String> {
    known.iter().find(|k| *k == name).or_else(|| {
        let bare = name.strip_suffix("_no").unwrap_or(name);
        known.iter().find(|k| k.strip_suffix('#') == Some(bare))
    })
}

/// The view of a table: `dba_hist_sysstat` shows `wrh$_sysstat`.
pub(super) fn hist_name(table: &str) -> String {
    if table == ACTIVE_SESSIONS {
        return "dba_hist_active_sess_history".to_owned();
    }
    if table == TRACING {
        return "dba_enabled_traces".to_owned();
    }
    let bare = table.strip_prefix("wrm$_").or(table.strip_prefix("wrh$_")).unwrap_or(table);
    format!("dba_hist_{bare}")
}

/// The table of samples of what sessions did: one in ten of those in memory.
pub(super) const ACTIVE_SESSIONS: &str = "wrh$_active_session_history";

/// The table of statistics.
pub(super) const SYSSTAT: &str = "wrh$_sysstat";

/// The table of how long waits were.
pub(super) const EVENT_HISTOGRAM: &str = "wrh$_event_histogram";

/// The table of what statements have cost.
pub(super) const SQL_STAT: &str = "wrh$_sqlstat";

/// The table of what has been done with segments.
pub(super) const SEG_STAT: &str = "wrh$_seg_stat";

/// The table that knows the snapshots: one row for each instance in one.
pub(super) const SNAPSHOT: &str = "wrm$_snapshot";
pub(super) const SNAPSHOT_COLUMNS: &[Column] = &[
    ("snap_id", "bigint"),
    ("instance_number", "integer"),
    ("instance_name", "text"),
    ("host_name", "text"),
    ("version", "text"),
    ("startup_time", "timestamptz"),
    ("begin_interval_time", "timestamptz"),
    ("end_interval_time", "timestamptz"),
    ("flush_elapsed_us", "bigint"),
    ("sessions", "bigint"),
    ("snap_flag", "integer"),
];

/// Instances that are not in a snapshot, and why.
pub(super) const SNAP_ERROR: &str = "wrm$_snap_error";
pub(super) const SNAP_ERROR_COLUMNS: &[Column] =
    &[("snap_id", "bigint"), ("instance_number", "integer"), ("error_text", "text")];

/// Texts of statements, and who parsed them first, once for all snapshots.
pub(super) const SQL_TEXT: &str = "wrh$_sqltext";
pub(super) const SQL_TEXT_COLUMNS: &[Column] = &[
    ("sql_id", "text"),
    ("sql_text", "text"),
    ("command_type", "integer"),
    ("parsing_schema_name", "text"),
    ("module", "text"),
    ("action", "text"),
];

/// Plans of statements, one row a step, once for all snapshots.
pub(super) const SQL_PLAN: &str = "wrh$_sql_plan";
pub(super) const SQL_PLAN_COLUMNS: &[Column] = &[
    ("sql_id", "text"),
    ("plan_hash_value", "bigint"),
    ("id", "integer"),
    ("parent_id", "integer"),
    ("depth", "integer"),
    ("position", "integer"),
    ("operation", "text"),
    ("options", "text"),
    ("object_name", "text"),
    ("cost", "bigint"),
    ("cardinality", "bigint"),
    ("bytes", "bigint"),
    ("access_predicates", "text"),
    ("filter_predicates", "text"),
];

/// A table that is filled in a way of its own.
pub(super) const OTHERS: [(&str, &[Column]); 5] = [
    (SNAPSHOT, SNAPSHOT_COLUMNS),
    (SNAP_ERROR, SNAP_ERROR_COLUMNS),
    (SQL_TEXT, SQL_TEXT_COLUMNS),
    (SQL_PLAN, SQL_PLAN_COLUMNS),
    (TRACING, TRACING_COLUMNS),
];

/// Traces that are on for all sessions of a kind.
pub(super) const TRACING: &str = "wri$_tracing_enabled";
pub(super) const TRACING_COLUMNS: &[Column] = &[
    ("trace_id", "bigint"),
    ("trace_type", "text"),
    ("primary_id", "text"),
    ("qualifier_id1", "text"),
    ("qualifier_id2", "text"),
    ("waits", "boolean"),
    ("binds", "boolean"),
    ("instance_name", "text"),
];

const fn source(
    table: &'static str,
    views: &'static [&'static str],
    needed: usize,
    columns: &'static [Column],
) -> Source {
    Source { table, views, columns, needed, join: "", only: "" }
}

impl Source {
    const fn only(mut self, condition: &'static str) -> Source {
        self.only = condition;
        self
    }

    const fn beside(mut self, join: &'static str) -> Source {
        self.join = join;
        self
    }
}

/// All of them. The two columns `snap_id` and `instance_number` come first in each.
pub(super) const SOURCES: &[Source] = &[
    source(
        SYSSTAT,
        &["v$sysstat"],
        2,
        &[
            ("name", "text"),
            ("value", "bigint"),
            ("class", "bigint"),
            ("unit", "text"),
            ("value_us", "bigint"),
            ("stat_id", "bigint"),
        ],
    ),
    source(
        "wrh$_sys_time_model",
        &["v$sys_time_model"],
        2,
        &[("stat_name", "text"), ("value", "bigint"), ("stat_id", "bigint")],
    ),
    source(
        "wrh$_osstat",
        &["v$osstat"],
        2,
        &[("stat_name", "text"), ("value", "bigint"), ("osstat_id", "bigint")],
    ),
    source(
        "wrh$_system_event",
        &["v$system_event"],
        4,
        &[
            ("event", "text"),
            ("wait_class", "text"),
            ("total_waits", "bigint"),
            ("time_waited_micro", "bigint"),
            ("total_timeouts", "bigint"),
            ("total_waits_fg", "bigint"),
            ("total_timeouts_fg", "bigint"),
            ("time_waited_micro_fg", "bigint"),
            ("event_id", "bigint"),
            ("wait_class_id", "bigint"),
        ],
    )
    .only("total_waits > 0"),
    source(
        EVENT_HISTOGRAM,
        &["v$event_histogram_micro"],
        3,
        &[("event", "text"), ("wait_time_micro", "bigint"), ("wait_count", "bigint")],
    )
    .only("wait_count > 0"),
    source(
        "wrh$_gc_wait_split",
        &["v$gc_wait_split"],
        10,
        &[
            ("instance", "integer"),
            ("class", "text"),
            ("kind", "text"),
            ("blocks", "bigint"),
            ("total_us", "bigint"),
            ("interconnect_us", "bigint"),
            ("master_queue_us", "bigint"),
            ("lms_build_us", "bigint"),
            ("pin_us", "bigint"),
            ("lgwr_flush_us", "bigint"),
            ("flushes", "bigint"),
            ("master_lms_us", "bigint"),
            ("lms_queue_us", "bigint"),
            ("own_lms_us", "bigint"),
        ],
    )
    .only("blocks > 0"),
    source("wrh$_inst_cache_transfer", &["v$instance_cache_transfer"], 5, TRANSFER),
    source("wrh$_cr_block_server", &["v$cr_block_server"], 1, CR_SERVER),
    source("wrh$_current_block_server", &["v$current_block_server"], 2, CURRENT_SERVER),
    source(
        "wrh$_ges_statistics",
        &["v$ges_statistics"],
        2,
        &[("name", "text"), ("value", "bigint")],
    ),
    source(SQL_STAT, &["v$sqlstats"], 3, SQL).only("executions > 0 or elapsed_time > 0"),
    source(
        SEG_STAT,
        &["v$segment_statistics"],
        4,
        &[
            ("owner", "text"),
            ("object_name", "text"),
            ("statistic_name", "text"),
            ("value", "bigint"),
            ("object_type", "text"),
            ("obj", "bigint"),
        ],
    )
    .only("value > 0"),
    source(
        "wrh$_rowcache_summary",
        &["v$rowcache"],
        3,
        &[
            ("parameter", "text"),
            ("gets", "bigint"),
            ("getmisses", "bigint"),
            ("modifications", "bigint"),
            ("count", "bigint"),
            ("dlm_requests", "bigint"),
            ("dlm_conflicts", "bigint"),
            ("dlm_releases", "bigint"),
        ],
    ),
    source(
        "wrh$_sequences",
        &["v$_sequences"],
        4,
        &[
            ("sequence_owner", "text"),
            ("sequence_name", "text"),
            ("loads", "bigint"),
            ("load_time", "bigint"),
        ],
    ),
    source(
        "wrh$_librarycache",
        &["v$librarycache"],
        3,
        &[
            ("namespace", "text"),
            ("gets", "bigint"),
            ("gethits", "bigint"),
            ("pins", "bigint"),
            ("pinhits", "bigint"),
            ("reloads", "bigint"),
            ("invalidations", "bigint"),
        ],
    ),
    source(
        "wrh$_parameter",
        &["v$parameter"],
        2,
        &[
            ("name", "text"),
            ("display_value", "text"),
            ("isdefault", "text"),
            ("value", "text"),
            ("ismodified", "text"),
        ],
    ),
    source(
        "wrh$_enqueue_stat",
        &["v$enqueue_statistics"],
        2,
        &[
            ("eq_type", "text"),
            ("total_wait", "bigint"),
            ("total_req", "bigint"),
            ("eq_name", "text"),
            ("req_reason", "text"),
            ("succ_req", "bigint"),
            ("failed_req", "bigint"),
            ("cum_wait_time", "bigint"),
        ],
    ),
    source(
        "wrh$_latch",
        &["v$latch"],
        4,
        &[
            ("name", "text"),
            ("gets", "bigint"),
            ("misses", "bigint"),
            ("sleeps", "bigint"),
            ("spin_gets", "bigint"),
            ("wait_time", "bigint"),
        ],
    ),
    source(
        "wrh$_waitstat",
        &["v$waitstat"],
        3,
        &[("class", "text"), ("count", "bigint"), ("time", "bigint")],
    ),
    source(ACTIVE_SESSIONS, &["v$active_session_history"], 3, SAMPLE)
        .beside(
            " left join (select instance_number as kept_of, max(sample_time) as kept_until \
             from pg_awr.wrh$_active_session_history group by instance_number) kept \
             on kept_of = inst_id",
        )
        .only("sample_id % 10 = 0 and (kept_until is null or sample_time > kept_until)"),
];

const SAMPLE: &[Column] = &[
    ("sample_id", "bigint"),
    ("sample_time", "timestamptz"),
    ("session_id", "integer"),
    ("session_serial", "integer"),
    ("session_type", "text"),
    ("user_id", "bigint"),
    ("username", "text"),
    ("sql_id", "text"),
    ("top_level_sql_id", "text"),
    ("sql_plan_hash_value", "bigint"),
    ("sql_exec_start", "timestamptz"),
    ("session_state", "text"),
    ("event", "text"),
    ("event_id", "bigint"),
    ("wait_class_id", "bigint"),
    ("wait_class", "text"),
    ("seq", "bigint"),
    ("p1text", "text"),
    ("p1", "bigint"),
    ("p2text", "text"),
    ("p2", "bigint"),
    ("p3text", "text"),
    ("p3", "bigint"),
    ("time_waited", "bigint"),
    ("blocking_session_status", "text"),
    ("blocking_inst_id", "integer"),
    ("blocking_session", "integer"),
    ("blocking_session_serial", "integer"),
    ("current_obj_no", "bigint"),
    ("current_file_no", "integer"),
    ("current_block_no", "bigint"),
    ("current_row_no", "integer"),
    ("remote_instance_no", "integer"),
    ("xid", "text"),
    ("in_hard_parse", "text"),
    ("in_sql_execution", "text"),
    ("service_name", "text"),
    ("program", "text"),
    ("module", "text"),
    ("action", "text"),
    ("client_id", "text"),
    ("machine", "text"),
    ("sql_child_number", "integer"),
    ("sql_opcode", "integer"),
    ("sql_opname", "text"),
    ("force_matching_signature", "bigint"),
    ("top_level_sql_opcode", "integer"),
    ("sql_exec_id", "bigint"),
    ("plsql_entry_object_id", "bigint"),
    ("plsql_object_id", "bigint"),
    ("wait_time", "bigint"),
    ("in_parse", "text"),
    ("in_plsql_execution", "text"),
    ("service_hash", "bigint"),
    ("port", "integer"),
    ("tm_delta_time", "bigint"),
    ("tm_delta_cpu_time", "bigint"),
    ("tm_delta_db_time", "bigint"),
    ("delta_time", "bigint"),
    ("delta_read_io_requests", "bigint"),
    ("delta_write_io_requests", "bigint"),
    ("delta_read_io_bytes", "bigint"),
    ("delta_write_io_bytes", "bigint"),
    ("pga_allocated", "bigint"),
    ("temp_space_allocated", "bigint"),
];

const TRANSFER: &[Column] = &[
    ("instance", "integer"),
    ("class", "text"),
    ("cr_block", "bigint"),
    ("current_block", "bigint"),
    ("cr_2hop", "bigint"),
    ("cr_block_time", "bigint"),
    ("cr_2hop_time", "bigint"),
    ("cr_3hop", "bigint"),
    ("cr_3hop_time", "bigint"),
    ("cr_busy", "bigint"),
    ("cr_busy_time", "bigint"),
    ("cr_congested", "bigint"),
    ("cr_congested_time", "bigint"),
    ("current_block_time", "bigint"),
    ("current_2hop", "bigint"),
    ("current_2hop_time", "bigint"),
    ("current_3hop", "bigint"),
    ("current_3hop_time", "bigint"),
    ("current_busy", "bigint"),
    ("current_busy_time", "bigint"),
    ("current_congested", "bigint"),
    ("current_congested_time", "bigint"),
    ("lost", "bigint"),
    ("lost_time", "bigint"),
];

const CR_SERVER: &[Column] = &[
    ("cr_requests", "bigint"),
    ("current_requests", "bigint"),
    ("data_requests", "bigint"),
    ("undo_requests", "bigint"),
    ("tx_requests", "bigint"),
    ("other_requests", "bigint"),
    ("current_results", "bigint"),
    ("private_results", "bigint"),
    ("zero_results", "bigint"),
    ("disk_read_results", "bigint"),
    ("fail_results", "bigint"),
    ("stale", "bigint"),
    ("fairness_down_converts", "bigint"),
    ("fairness_clears", "bigint"),
    ("free_gc_elements", "bigint"),
    ("flushes", "bigint"),
    ("flushes_queued", "bigint"),
    ("flush_queue_full", "bigint"),
    ("flush_max_time", "bigint"),
    ("light_works", "bigint"),
    ("errors", "bigint"),
];

const CURRENT_SERVER: &[Column] = &[
    ("pin0", "bigint"),
    ("flush0", "bigint"),
    ("pin1", "bigint"),
    ("pin10", "bigint"),
    ("pin100", "bigint"),
    ("pin1000", "bigint"),
    ("pin10000", "bigint"),
    ("flush1", "bigint"),
    ("flush10", "bigint"),
    ("flush100", "bigint"),
    ("flush1000", "bigint"),
    ("flush10000", "bigint"),
    ("write1", "bigint"),
    ("write10", "bigint"),
    ("write100", "bigint"),
    ("write1000", "bigint"),
    ("write10000", "bigint"),
];

const SQL: &[Column] = &[
    ("sql_id", "text"),
    ("executions", "bigint"),
    ("elapsed_time", "bigint"),
    ("plan_hash_value", "bigint"),
    ("cpu_time", "bigint"),
    ("buffer_gets", "bigint"),
    ("disk_reads", "bigint"),
    ("rows_processed", "bigint"),
    ("parse_calls", "bigint"),
    ("fetches", "bigint"),
    ("end_of_fetch_count", "bigint"),
    ("loads", "bigint"),
    ("invalidations", "bigint"),
    ("cluster_wait_time", "bigint"),
    ("concurrency_wait_time", "bigint"),
    ("application_wait_time", "bigint"),
    ("user_io_wait_time", "bigint"),
    ("force_matching_signature", "bigint"),
];

/// The statement that makes a table.
pub(super) fn create(table: &str, columns: &[Column]) -> String {
    let all: Vec<String> = columns.iter().map(|(name, ty)| format!("{name} {ty}")).collect();
    format!("create table pg_awr.{table} ({})", all.join(", "))
}

/// Columns of a source's table, the common ones first.
fn all_columns(source: &Source) -> Vec<Column> {
    let common = [("snap_id", "bigint"), ("instance_number", "integer")];
    common.into_iter().chain(source.columns.iter().copied()).collect()
}

/// All tables with their columns.
pub(super) fn all_tables() -> impl Iterator<Item = (&'static str, Vec<Column>)> {
    let sources = SOURCES.iter().map(|source| (source.table, all_columns(source)));
    OTHERS.iter().map(|(table, columns)| (*table, columns.to_vec())).chain(sources)
}

/// Checks what a caller gives as a range of snapshots.
pub(super) fn check_range(low: i64, high: i64) -> Result<()> {
    if low > high {
        let text = format!("low_snap_id {low} is above high_snap_id {high}");
        return Err(PgError::new("22023", text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(all: &[&str]) -> Vec<String> {
        all.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_statement_takes_the_columns_that_the_view_has() {
        let source = SOURCES.iter().find(|s| s.table == "wrh$_enqueue_stat").expect("it is there");
        let known = names(&["eq_type", "total_req#", "total_wait#", "req_reason"]);
        let text = source.fill("v$enqueue_statistics", &known, 7, Whose::All).expect("enough");
        assert_eq!(
            text,
            "insert into pg_awr.wrh$_enqueue_stat (snap_id, instance_number, eq_type, total_wait, \
             total_req, req_reason) select 7, inst_id, cast(eq_type as text), \
             cast(\"total_wait#\" as bigint), cast(\"total_req#\" as bigint), \
             cast(req_reason as text) from gv$enqueue_statistics"
        );
        assert!(source.fill("v$enqueue_statistics", &known[..1], 7, Whose::All).is_none());
        let own = source.fill("v$enqueue_statistics", &known, 7, Whose::Own(2)).expect("enough");
        assert!(own.ends_with(" from (select 2 as inst_id, * from v$enqueue_statistics) own"));
    }

    #[test]
    fn tables_and_their_views_have_names_of_their_own() {
        let mut all: Vec<&str> = all_tables().map(|(table, _)| table).collect();
        let mut hist: Vec<String> = all.iter().map(|table| hist_name(table)).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        hist.sort_unstable();
        hist.dedup();
        assert_eq!((all.len(), hist.len()), (count, count));
        assert!(all.iter().chain(&["dba_hist_x"]).all(|name| super::super::is_own_name(name)));
        assert!(SOURCES.iter().all(|s| s.needed > 0 && s.needed <= s.columns.len()));
    }

    #[test]
    fn a_range_goes_upwards() {
        assert!(check_range(3, 3).is_ok());
        assert_eq!(check_range(4, 3).expect_err("backwards").code, "22023");
    }
}
