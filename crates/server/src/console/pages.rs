//! What each page asks the database, as SQL over views.
//!
//! What it promises: a page's statements are fixed texts; what a viewer sends goes in as
//! parameters, but for a statement to explain, which is prepared as one statement behind an EXPLAIN
//! that cannot run it, in a session that is read-only. What it must never do: show more than the
//! views do.

use super::viewer::Part;
use serde::Deserialize;
use std::borrow::Cow;

/// Rows of a list at the most.
const ROWS_MAX: usize = 2_000;
/// Lines of a plan.
const PLAN_LINES_MAX: usize = 1_000;

/// The statements of one question.
pub struct Question {
    pub parts: Vec<Part>,
}

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

const EVENTS: &str = "select inst_id, event, wait_class, total_waits_fg as waits, \
     time_waited_micro_fg as time_us from gv$system_event \
     where wait_class <> 'Idle' and total_waits_fg > 0";

const PARAMETERS: &str = "select inst_id, name, display_value as value, default_value, isdefault, \
     issys_modifiable, description from gv$parameter order by name, inst_id";

const SESSIONS: &str = "select *, extract(epoch from logon_time) as logon_s from gv$session \
     order by inst_id, sid";

/// What a page is made of; `None`: there is no such page.
pub fn page(path: &str) -> Option<Question> {
    let parts = match path {
        "/api/me" => vec![part("me", ME), part("instances", INSTANCES)],
        "/api/events" => vec![part("events", EVENTS)],
        "/api/instances" => vec![
            part("instances", INSTANCES),
            part("addresses", ADDRESSES),
            part("statistics", STATISTICS),
            part("traffic", TRAFFIC),
        ],
        "/api/sessions" => vec![part("sessions", SESSIONS)],
        "/api/parameters" => vec![part("parameters", PARAMETERS)],
        _ => return None,
    };
    Some(Question { parts })
}

/// Whether something may be done under this path.
pub fn is_action(path: &str) -> bool {
    matches!(path, "/api/cancel" | "/api/terminate" | "/api/explain")
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
pub fn action(path: &str, body: &[u8]) -> Result<Question, String> {
    let function = match path {
        "/api/explain" => return explain(body),
        "/api/cancel" => "pg_cancel_backend",
        _ => "pg_terminate_backend",
    };
    let target: Target = serde_json::from_slice(body).map_err(|_| "sid and serial are wanted")?;
    let text = format!(
        "select pg_catalog.{function}(sid) as done from gv$session \
         where sid = $1::int4 and serial = $2::int4 and type = 'USER'"
    );
    let params = vec![target.sid.to_string(), target.serial.to_string()];
    Ok(Question { parts: vec![Part { params, ..part("signal", text) }] })
}

fn explain(body: &[u8]) -> Result<Question, String> {
    let Explained { sql_text } =
        serde_json::from_slice(body).map_err(|_| "sql_text is wanted".to_owned())?;
    // With options in parentheses the words that follow can be no option: ANALYZE would run it.
    let text = format!("explain (analyze false) {sql_text}");
    Ok(Question { parts: vec![Part { rows_max: PLAN_LINES_MAX, ..part("plan", text) }] })
}

/// `since=MILLISECONDS&step=SECONDS` of a chart.
///
/// # Errors
/// What is wrong with it.
pub fn window(query: &str) -> Result<(i64, i64), String> {
    let (mut since_ms, mut step_s) = (0, 1);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let number = value.parse::<i64>().map_err(|_| format!("{name} must be a number"))?;
        match name {
            "since" => since_ms = number,
            "step" if number >= 1 => step_s = number,
            _ => return Err("since (milliseconds) and step (seconds) are known here".to_owned()),
        }
    }
    Ok((since_ms, step_s))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_asks_for_its_window() {
        assert_eq!(window(""), Ok((0, 1)));
        assert_eq!(window("since=1500&step=5"), Ok((1500, 5)));
        for wrong in ["since=x", "step=0", "since", "until=3"] {
            assert!(window(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn actions_take_what_they_know_only() {
        let question = action("/api/cancel", br#"{"sid": 7, "serial": 3}"#).unwrap();
        assert_eq!(question.parts[0].params, ["7", "3"]);
        assert!(question.parts[0].text.contains("pg_cancel_backend(sid)"));
        for wrong in ["", "{}", r#"{"sid": "7; drop table t", "serial": 1}"#, r#"{"sid": 7}"#] {
            assert!(action("/api/terminate", wrong.as_bytes()).is_err(), "{wrong}");
        }
        let question = action("/api/explain", br#"{"sql_text": "analyze delete from t"}"#).unwrap();
        assert_eq!(question.parts[0].text, "explain (analyze false) analyze delete from t");
    }
}
