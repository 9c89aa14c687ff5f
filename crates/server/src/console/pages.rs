//! What each page asks the database, as SQL over views.
//!
//! What it promises: a page's statements are fixed texts; what a viewer sends goes in as
//! parameters, but for a statement to explain, which is prepared as one statement behind an EXPLAIN
//! that cannot run it, in a session that is read-only. What it must never do: show more than the
//! views do.

use super::query;
use super::viewer::{Part, Task};
use serde::Deserialize;
use std::borrow::Cow;

/// Rows of a list at the most.
const ROWS_MAX: usize = 2_000;
/// Statements on all instances: each keeps some thousands.
const STATEMENTS_MAX: usize = 20_000;
/// Lines of a plan.
const PLAN_LINES_MAX: usize = 1_000;

fn part(name: &'static str, text: impl Into<Cow<'static, str>>) -> Part {
    Part { name, text: text.into(), params: Vec::new(), rows_max: ROWS_MAX }
}

const ME: &str = "select current_user as name, u.usesuper as superuser, \
     pg_has_role(current_user, 'pg_signal_backend', 'USAGE') as may_signal \
     from pg_catalog.pg_user u where u.usename = current_user";

const INSTANCES: &str = "select inst_id, instance_name, version, status, \
     extract(epoch from startup_time) as started_s, sessions, current_scn \
     from gv$instance order by inst_id";

const ADDRESSES: &str = "select inst_id, name, display_value as value from gv$parameter \
     where name in ('listen', 'interconnect', 'console_listen', 'db_cache_size')";

const STATISTICS: &str = "select inst_id, name, value from gv$sysstat where name in \
     ('user commits', 'user rollbacks', 'execute count', 'consistent gets', 'db block gets', \
     'physical reads', 'physical writes', 'redo size', 'gc cr blocks received', \
     'gc current blocks received', 'gc cr blocks read directly', 'gc cr blocks served', \
     'gc current blocks served')";

const TRAFFIC: &str = "select inst_id, instance, kind, sum(blocks) as blocks, \
     sum(total_us) as total_us, sum(interconnect_us) as interconnect_us, \
     sum(master_queue_us) as queue_us, \
     sum(master_lms_us + lms_queue_us + own_lms_us) as lms_us, \
     sum(lms_build_us) as build_us, sum(pin_us) as pin_us, \
     sum(lgwr_flush_us) as flush_us, max(max_us) as max_us from gv$gc_wait_split \
     group by inst_id, instance, kind";

/// Of each text what it has cost on each instance; `$1`: since when it must have run, in ms.
const STATEMENTS: &str = "select inst_id, sql_id, sum(executions) as executions, \
     sum(elapsed_time) as elapsed_time, sum(cpu_time) as cpu_time, \
     sum(buffer_gets) as buffer_gets, sum(disk_reads) as disk_reads, \
     sum(rows_processed) as rows_processed, sum(cluster_wait_time) as cluster_wait_time, \
     sum(concurrency_wait_time) as concurrency_wait_time, \
     sum(application_wait_time) as application_wait_time, \
     sum(user_io_wait_time) as user_io_wait_time, \
     (extract(epoch from max(last_active_time)) * 1000)::bigint as active_ms from gv$sqlstats \
     where (extract(epoch from last_active_time) * 1000)::bigint > $1::int8 \
     and sql_text not like '%/* skein console */%' group by inst_id, sql_id";

/// A statement as each instance has it, by plan.
const STATEMENT: &str = "select inst_id, plan_hash_value, executions, failed_executions, \
     elapsed_time, cpu_time, buffer_gets, disk_reads, rows_processed, cluster_wait_time, \
     concurrency_wait_time, application_wait_time, user_io_wait_time, parse_calls, loads, \
     invalidations, version_count, parsing_user, \
     (extract(epoch from last_active_time) * 1000)::bigint as active_ms from gv$sqlstats \
     where sql_id = $1 order by inst_id, elapsed_time desc";

/// The steps of its plans that are kept, of each cursor by itself.
const STEPS: &str = "select plan_hash_value, inst_id, child_number, id, depth, operation, options, \
     object_name, cardinality, cost, access_predicates, filter_predicates from gv$sql_plan \
     where sql_id = $1 order by plan_hash_value, inst_id, child_number, id";

const STATEMENT_TEXT: &str = "select sql_fulltext from gv$sqlstats where sql_id = $1 limit 1";

const TEXTS: &str = "select sql_id, max(sql_text) as sql_text from gv$sqlstats \
     where sql_id = any(string_to_array($1, ',')) group by sql_id";

const OBJECTS: &str = "select c.oid, n.nspname as schema, c.relname as name, c.relkind as kind \
     from pg_class c join pg_namespace n on n.oid = c.relnamespace \
     where c.oid::int8::text = any(string_to_array($1, ','))";

const PARAMETERS: &str = "select inst_id, name, display_value as value, default_value, \
     isdefault = 'TRUE' as isdefault, issys_modifiable, description from gv$parameter \
     order by name, inst_id";

const SESSIONS: &str = "select *, extract(epoch from logon_time) as logon_s from gv$session \
     order by inst_id, sid";

/// What is asked for under an address; `None`: there is no such page.
///
/// # Errors
/// What is wrong with the query.
pub fn page(path: &str, query: &str) -> Option<Result<Task, String>> {
    let parts = match path {
        "/api/me" => vec![part("me", ME), part("instances", INSTANCES)],
        "/api/instances" => vec![
            part("instances", INSTANCES),
            part("addresses", ADDRESSES),
            part("statistics", STATISTICS),
            part("traffic", TRAFFIC),
        ],
        "/api/sessions" => vec![part("sessions", SESSIONS)],
        "/api/parameters" => vec![part("parameters", PARAMETERS)],
        "/api/snapshots" => return Some(Ok(Task::Snapshots)),
        "/api/activity" => return Some(query::window(query).map(Task::Activity)),
        "/api/statements" => return Some(query::since(query).map(statements)),
        "/api/statement" => return Some(query::statement(query).map(statement)),
        "/api/names" => return Some(query::names(query).map(names)),
        _ => return None,
    };
    Some(Ok(Task::Parts(parts)))
}

fn statements(since_ms: i64) -> Task {
    let params = vec![since_ms.to_string()];
    let rows_max = STATEMENTS_MAX;
    Task::Parts(vec![Part { params, rows_max, ..part("statements", STATEMENTS) }])
}

fn statement(sql_id: &str) -> Task {
    let of = |name, text| Part { params: vec![sql_id.to_owned()], ..part(name, text) };
    Task::Parts(vec![of("text", STATEMENT_TEXT), of("plans", STATEMENT), of("steps", STEPS)])
}

fn names((sql, objects): (&str, &str)) -> Task {
    let of = |name, text, list: &str| {
        let params = vec![list.to_owned()];
        (!list.is_empty()).then(|| Part { params, ..part(name, text) })
    };
    let all = [of("texts", TEXTS, sql), of("objects", OBJECTS, objects)];
    Task::Parts(all.into_iter().flatten().collect())
}

/// Whether something may be done under this path.
pub fn is_action(path: &str) -> bool {
    matches!(path, "/api/cancel" | "/api/terminate" | "/api/explain" | "/api/snapshot")
}

/// A session, told from those that had its number before.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Target {
    sid: i32,
    serial: i32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Explained {
    sql_text: String,
}

/// What is done under a path.
///
/// # Errors
/// What is wrong with the request.
pub fn action(path: &str, body: &[u8]) -> Result<Task, String> {
    let function = match path {
        "/api/explain" => return explain(body),
        "/api/snapshot" => return Ok(Task::TakeSnapshot),
        "/api/cancel" => "pg_cancel_backend",
        _ => "pg_terminate_backend",
    };
    let target: Target = serde_json::from_slice(body).map_err(|_| "sid and serial are wanted")?;
    let text = format!(
        "select pg_catalog.{function}(sid) as done from gv$session \
         where sid = $1::int4 and serial# = $2::int4 and type = 'USER'"
    );
    let params = vec![target.sid.to_string(), target.serial.to_string()];
    Ok(Task::Parts(vec![Part { params, ..part("signal", text) }]))
}

fn explain(body: &[u8]) -> Result<Task, String> {
    let Explained { sql_text } =
        serde_json::from_slice(body).map_err(|_| "sql_text is wanted".to_owned())?;
    // With options in parentheses the words that follow can be no option: ANALYZE would run it.
    let text = format!("explain (analyze false) {sql_text}");
    Ok(Task::Parts(vec![Part { rows_max: PLAN_LINES_MAX, ..part("plan", text) }]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only_part(task: Task) -> Part {
        match task {
            Task::Parts(mut parts) if parts.len() == 1 => parts.remove(0),
            _ => panic!("one statement"),
        }
    }

    #[test]
    fn actions_take_what_they_know_only() {
        let part = only_part(action("/api/cancel", br#"{"sid": 7, "serial": 3}"#).unwrap());
        assert_eq!(part.params, ["7", "3"]);
        assert!(part.text.contains("pg_cancel_backend(sid)"));
        for wrong in ["", "{}", r#"{"sid": "7; drop table t", "serial": 1}"#, r#"{"sid": 7}"#] {
            assert!(action("/api/terminate", wrong.as_bytes()).is_err(), "{wrong}");
        }
        let text = br#"{"sql_text": "analyze delete from t"}"#;
        let part = only_part(action("/api/explain", text).unwrap());
        assert_eq!(part.text, "explain (analyze false) analyze delete from t");
    }

    #[test]
    fn only_known_names_are_looked_up() {
        let part = only_part(page("/api/names", "objects=7,8").unwrap().unwrap());
        assert_eq!((part.name, &part.params[..]), ("objects", &["7,8".to_owned()][..]));
        assert!(page("/api/names", "objects=x").unwrap().is_err());
        assert!(page("/api/nothing", "").is_none());
    }
}
