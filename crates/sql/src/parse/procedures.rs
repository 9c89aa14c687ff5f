//! Procedures that are called by name: those that switch traces, the repository's, and those by
//! which a session says something of itself.
//!
//! What it promises: values by position or by name (`waits => true`), each at most once; `CALL`,
//! `EXEC` and `EXECUTE` mean the same. A name that is none of these is left to others, and where an
//! argument is more than a literal, the call is a block.

use super::{Own, Words};
use crate::pl::{as_block, is_package_call, is_statistics_call};
use crate::trace::{TraceCall, TracedPlans};
use crate::workload::{RepositoryCall, RuleCall, TracedSessions};
use crate::{PgError, Result};

/// A value of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Given {
    Null,
    Number(i64),
    Truth(bool),
    Text(String),
    /// Any module, or action.
    Any,
}

/// The field's oldest: calls and plans of the own session.
const SET_SQL_TRACE: &str = "dbms_session.set_sql_trace";

/// Procedures and their parameters, in order.
const PROCEDURES: [(&str, &[&str]); 13] = [
    (
        "dbms_monitor.session_trace_enable",
        &["session_id", "serial_num", "waits", "binds", "plan_stat", "inst_id"],
    ),
    ("dbms_monitor.session_trace_disable", &["session_id", "serial_num", "inst_id"]),
    (
        "dbms_monitor.serv_mod_act_trace_enable",
        &[
            "service_name",
            "module_name",
            "action_name",
            "waits",
            "binds",
            "instance_name",
            "plan_stat",
        ],
    ),
    (
        "dbms_monitor.serv_mod_act_trace_disable",
        &["service_name", "module_name", "action_name", "instance_name"],
    ),
    ("dbms_monitor.client_id_trace_enable", &["client_id", "waits", "binds", "plan_stat"]),
    ("dbms_monitor.client_id_trace_disable", &["client_id"]),
    ("dbms_monitor.database_trace_enable", &["waits", "binds", "instance_name", "plan_stat"]),
    ("dbms_monitor.database_trace_disable", &["instance_name"]),
    ("dbms_session.session_trace_enable", &["waits", "binds", "plan_stat"]),
    ("dbms_session.session_trace_disable", &[]),
    (SET_SQL_TRACE, &["sql_trace"]),
    ("dbms_workload_repository.create_snapshot", &[]),
    ("dbms_workload_repository.drop_snapshot_range", &["low_snap_id", "high_snap_id"]),
];

/// What stands for any module, and any action.
pub(crate) const ANY_OF_RULE: [&str; 2] = ["dbms_monitor.all_modules", "dbms_monitor.all_actions"];

/// A procedure's name and its parameters, in order.
pub(crate) fn procedure(name: &str) -> Option<(&'static str, &'static [&'static str])> {
    PROCEDURES.iter().find(|(known, _)| *known == name).copied()
}

const PACKAGES: [&str; 3] = ["dbms_monitor", "dbms_session", "dbms_workload_repository"];

pub(super) fn parse(words: &mut Words<'_>) -> Result<Option<Own>> {
    let called = words.take("call") || words.take("exec") || words.take("execute");
    if called && (words.calls(is_package_call) || words.calls(is_statistics_call)) {
        return as_block(&words.rest_text()).map(|code| Some(Own::Code(code)));
    }
    let package = PACKAGES.iter().any(|package| words.is(package));
    if !called || !package {
        words.rewind();
        return Ok(None);
    }
    let whole = words.at;
    let name = words.dotted()?;
    let Some((_, parameters)) = procedure(&name) else {
        return Err(PgError::new("42883", format!("procedure {name} does not exist")));
    };
    let mut given: Vec<Option<Given>> = vec![None; parameters.len()];
    if words.open() && !words.close() {
        let mut at = 0;
        loop {
            let place = if words.names_argument() {
                let argument = words.name()?;
                words.arrow();
                let place = parameters.iter().position(|known| *known == argument);
                place.ok_or_else(|| no_argument(&name, &argument))?
            } else {
                at += 1;
                at - 1
            };
            let Some(value) = value(words) else { return block(words, whole) };
            let slot = given.get_mut(place).ok_or_else(|| {
                PgError::new("42883", format!("too many arguments for procedure {name}"))
            })?;
            if slot.replace(value).is_some() {
                let argument = parameters[place];
                return Err(PgError::syntax(format!("argument \"{argument}\" is given twice")));
            }
            if !words.comma() {
                break;
            }
        }
        // An expression begins as a literal may.
        if !words.close() {
            return block(words, whole);
        }
    }
    if name.starts_with("dbms_workload_repository.") {
        return repository_call(&name, parameters, &given).map(|call| Some(Own::Repository(call)));
    }
    let call = Call { name: &name, parameters, given: &given };
    match call.traced_sessions()? {
        Some(sessions) => call.rule(sessions).map(|call| Some(Own::TraceRule(call))),
        None => call.trace().map(|call| Some(Own::Trace(call))),
    }
}

/// A call, from the name on, as a block.
fn block(words: &mut Words<'_>, from: usize) -> Result<Option<Own>> {
    words.at = from;
    as_block(&words.rest_text()).map(|code| Some(Own::Code(code)))
}

fn repository_call(
    name: &str,
    parameters: &[&str],
    given: &[Option<Given>],
) -> Result<RepositoryCall> {
    let number = |at: usize| match &given[at] {
        Some(Given::Number(number)) => Ok(*number),
        Some(Given::Text(text)) if text.trim().parse::<i64>().is_ok() => {
            Ok(text.trim().parse().unwrap_or_default())
        }
        _ => {
            let text = format!("argument \"{}\" of {name} must be a number", parameters[at]);
            Err(PgError::new("22023", text))
        }
    };
    match parameters {
        [] => Ok(RepositoryCall::CreateSnapshot),
        _ => Ok(RepositoryCall::DropRange(number(0)?, number(1)?)),
    }
}

fn no_argument(procedure: &str, argument: &str) -> PgError {
    PgError::new("42883", format!("procedure {procedure} has no argument \"{argument}\""))
}

/// A literal; `None`: it is none.
fn value(words: &mut Words<'_>) -> Option<Given> {
    if words.at_number() {
        return words.number().map(Given::Number).ok();
    }
    if words.at_text() {
        return words.text().map(Given::Text).ok();
    }
    match &*words.dotted().ok()? {
        "null" => Some(Given::Null),
        any if ANY_OF_RULE.contains(&any) => Some(Given::Any),
        "true" => Some(Given::Truth(true)),
        "false" => Some(Given::Truth(false)),
        _ => None,
    }
}

/// A call of a procedure that switches traces, with its values.
struct Call<'a> {
    name: &'a str,
    parameters: &'a [&'a str],
    given: &'a [Option<Given>],
}

impl Call<'_> {
    fn of(&self, wanted: &str) -> Option<&Given> {
        let at = self.parameters.iter().position(|known| *known == wanted)?;
        self.given[at].as_ref().filter(|given| **given != Given::Null)
    }

    fn wrong(&self, wanted: &str) -> PgError {
        let text = format!("invalid value for argument \"{wanted}\" of {}", self.name);
        PgError::new("22023", text)
    }

    fn number(&self, wanted: &str) -> Result<Option<u32>> {
        match self.of(wanted) {
            None => Ok(None),
            Some(Given::Number(number)) => {
                u32::try_from(*number).map(Some).map_err(|_| self.wrong(wanted))
            }
            // As `sys_context` gives it.
            Some(Given::Text(text)) => {
                text.trim().parse().map(Some).map_err(|_| self.wrong(wanted))
            }
            Some(_) => Err(self.wrong(wanted)),
        }
    }

    fn truth(&self, wanted: &str, default: bool) -> Result<bool> {
        match self.of(wanted) {
            None => Ok(default),
            Some(Given::Truth(truth)) => Ok(*truth),
            Some(_) => Err(self.wrong(wanted)),
        }
    }

    fn text(&self, wanted: &str) -> Result<Option<String>> {
        match self.of(wanted) {
            None | Some(Given::Any) => Ok(None),
            Some(Given::Text(text)) => Ok(Some(text.clone())),
            Some(Given::Number(number)) => Ok(Some(number.to_string())),
            Some(_) => Err(self.wrong(wanted)),
        }
    }

    fn needed(&self, wanted: &str) -> Result<String> {
        self.text(wanted)?.filter(|text| !text.is_empty()).ok_or_else(|| {
            let text = format!("argument \"{wanted}\" of {} is missing", self.name);
            PgError::new("22023", text)
        })
    }

    fn is_on(&self) -> bool {
        self.name.ends_with("_enable")
    }

    /// After which executions plans are told.
    fn plans(&self) -> Result<TracedPlans> {
        match self.text("plan_stat")? {
            None => Ok(TracedPlans::First),
            Some(word) => TracedPlans::named(&word).ok_or_else(|| self.wrong("plan_stat")),
        }
    }

    /// Which sessions a rule is about; `None`: it is one session that is traced.
    fn traced_sessions(&self) -> Result<Option<TracedSessions>> {
        let name = self.name.trim_end_matches("_enable").trim_end_matches("_disable");
        Ok(Some(match name {
            "dbms_monitor.serv_mod_act_trace" => {
                let service = self.needed("service_name")?;
                let (module, action) = (self.text("module_name")?, self.text("action_name")?);
                if module.is_none() && action.is_some() {
                    let text = "an action is traced only with its module";
                    return Err(PgError::new("22023", text).with_hint("Name the module too."));
                }
                TracedSessions::Service { service, module, action }
            }
            "dbms_monitor.client_id_trace" => TracedSessions::Client(self.needed("client_id")?),
            "dbms_monitor.database_trace" => TracedSessions::All,
            _ => return Ok(None),
        }))
    }

    fn rule(&self, sessions: TracedSessions) -> Result<RuleCall> {
        let plans = self.plans()?;
        if plans != TracedPlans::First {
            let text = format!("plan_stat => '{}' of {}", plans.name(), self.name);
            return Err(PgError::unsupported(text).with_hint(
                "Plans are told after the first execution of each statement; other ways are for \
                 single sessions, by session_trace_enable.",
            ));
        }
        Ok(RuleCall {
            on: self.is_on(),
            sessions,
            waits: self.truth("waits", true)?,
            binds: self.truth("binds", false)?,
            instance: self.text("instance_name")?,
        })
    }

    fn trace(&self) -> Result<TraceCall> {
        if self.name == SET_SQL_TRACE {
            let Some(Given::Truth(on)) = self.of("sql_trace") else {
                return Err(self.wrong("sql_trace"));
            };
            let plans = TracedPlans::First;
            return Ok(TraceCall { on: *on, session: None, waits: false, binds: false, plans });
        }
        let plans = self.plans()?;
        let (sid, serial) = (self.number("session_id")?, self.number("serial_num")?);
        let instance = match self.number("inst_id")? {
            None => None,
            Some(k) => Some(u8::try_from(k).map_err(|_| self.wrong("inst_id"))?),
        };
        let session = match (sid, serial) {
            (None, None) if instance.is_none() => None,
            (Some(sid), Some(serial)) => Some((sid, serial, instance)),
            _ => {
                return Err(PgError::new("22023", "session_id and serial_num belong together")
                    .with_hint("v$session and gv$session show both."));
            }
        };
        let (waits, binds) = (self.truth("waits", true)?, self.truth("binds", false)?);
        Ok(TraceCall { on: self.is_on(), session, waits, binds, plans })
    }
}

#[cfg(test)]
mod tests {
    use crate::parse::{Own, Parsed, parse_single};
    use crate::trace::{TraceCall, TracedPlans};
    use crate::workload::{RepositoryCall, RuleCall, TracedSessions};

    #[test]
    fn snapshots_are_taken_and_dropped() {
        let call = |text: &str| match parse_single(text).map_err(|e| e.code)?.parsed {
            Parsed::Own(Own::Repository(call)) => Ok(call),
            other => panic!("{text}: {other:?}"),
        };
        let create = "dbms_workload_repository.create_snapshot";
        assert_eq!(call(&format!("exec {create}")), Ok(RepositoryCall::CreateSnapshot));
        assert_eq!(call(&format!("call {create}()")), Ok(RepositoryCall::CreateSnapshot));
        let drop = "dbms_workload_repository.drop_snapshot_range";
        let range = RepositoryCall::DropRange(2, 7);
        let named = format!("exec {drop}(high_snap_id => 7, low_snap_id => 2)");
        assert_eq!((call(&format!("call {drop}(2, 7)")), call(&named)), (Ok(range), Ok(range)));
        assert_eq!(call(&format!("call {drop}(2)")), Err("22023"));
        assert_eq!(call("call dbms_workload_repository.nothing()"), Err("42883"));
    }

    fn call(text: &str) -> Result<TraceCall, &'static str> {
        let statement = parse_single(text).map_err(|e| e.code)?;
        match statement.parsed {
            Parsed::Own(Own::Trace(call)) => Ok(call),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn many_sessions_are_traced_by_what_they_say() {
        let call = |text: &str| match parse_single(text).map_err(|e| e.code)?.parsed {
            Parsed::Own(Own::TraceRule(call)) => Ok(call),
            other => panic!("{text}: {other:?}"),
        };
        let some = |text: &str| Some(text.to_owned());
        let of = |on, sessions, waits, binds, instance| {
            Ok(RuleCall { on, sessions, waits, binds, instance })
        };
        let enable = "exec dbms_monitor.serv_mod_act_trace_enable";
        let service = |module, action| TracedSessions::Service {
            service: "SYS$USERS".to_owned(),
            module,
            action,
        };
        assert_eq!(
            call(&format!("{enable}('SYS$USERS')")),
            of(true, service(None, None), true, false, None)
        );
        let module = service(some("m"), None);
        let text = format!(
            "{enable}(service_name => 'SYS$USERS', module_name => 'm', action_name => \
             dbms_monitor.all_actions, waits => false, binds => true, instance_name => 'skein2')"
        );
        assert_eq!(call(&text), of(true, module, false, true, some("skein2")));
        let off = "call dbms_monitor.serv_mod_act_trace_disable('SYS$USERS', 'm', 'a')";
        assert_eq!(call(off), of(false, service(some("m"), some("a")), true, false, None));
        let client = "exec dbms_monitor.client_id_trace_enable('c', binds => true)";
        let of_client = TracedSessions::Client("c".to_owned());
        assert_eq!(call(client), of(true, of_client, true, true, None));
        // A number where a text is wanted is its digits.
        let number = call("exec dbms_monitor.client_id_trace_enable(4711)");
        assert_eq!(number, of(true, TracedSessions::Client("4711".to_owned()), true, false, None));
        let all = "exec dbms_monitor.database_trace_disable";
        assert_eq!(call(all), of(false, TracedSessions::All, true, false, None));
        let plans = "exec dbms_monitor.client_id_trace_enable('c', plan_stat => ";
        assert!(call(&format!("{plans}'first_execution')")).is_ok());
        assert_eq!(call(&format!("{plans}'never')")), Err("0A000"));
        for bad in [
            "exec dbms_monitor.serv_mod_act_trace_enable()",
            "exec dbms_monitor.serv_mod_act_trace_enable(true)",
            "exec dbms_monitor.serv_mod_act_trace_enable('s', action_name => 'a')",
            "exec dbms_monitor.client_id_trace_enable(null)",
        ] {
            assert_eq!(call(bad), Err("22023"), "{bad}");
        }
    }

    #[test]
    fn values_come_by_position_and_by_name() {
        let plans = TracedPlans::First;
        let of = |session, waits, binds| Ok(TraceCall { on: true, session, waits, binds, plans });
        let enable = "dbms_monitor.session_trace_enable";
        assert_eq!(call(&format!("call {enable}()")), of(None, true, false));
        let here = Some((12, 34, None));
        assert_eq!(call(&format!("exec {enable}(12, 34, false, true)")), of(here, false, true));
        let there = Some((12, 34, Some(2)));
        let text = format!("CALL {enable}(12, 34, inst_id => 2, binds=>true)");
        assert_eq!(call(&text), of(there, true, true));
        let off = "execute dbms_monitor.session_trace_disable(12, 34, 2)";
        let gone = TraceCall { on: false, session: there, waits: true, binds: false, plans };
        assert_eq!(call(off), Ok(gone));
        assert_eq!(call("exec dbms_session.session_trace_enable"), of(None, true, false));
        let own =
            |on, waits, plans| Ok(TraceCall { on, session: None, waits, binds: false, plans });
        for (word, plans) in [
            ("never", TracedPlans::Never),
            ("FIRST_EXECUTION", TracedPlans::First),
            ("all_executions", TracedPlans::All),
        ] {
            let text = format!("exec dbms_session.session_trace_enable(plan_stat => '{word}')");
            assert_eq!(call(&text), own(true, true, plans), "{word}");
        }
        let set = "exec dbms_session.set_sql_trace";
        assert_eq!(call(&format!("{set}(true)")), own(true, false, plans));
        assert_eq!(call(&format!("{set}(sql_trace => false)")), own(false, false, plans));
        for (bad, code) in [
            ("exec dbms_session.set_sql_trace", "22023"),
            ("exec dbms_session.set_sql_trace(1)", "22023"),
            ("call dbms_session.session_trace_enable(plan_stat => 'some')", "22023"),
            ("call dbms_monitor.nothing()", "42883"),
            ("call dbms_monitor.session_trace_enable(1)", "22023"),
            ("call dbms_monitor.session_trace_enable(1, 2, 3)", "22023"),
            ("call dbms_monitor.session_trace_enable(x => 1)", "42883"),
            ("call dbms_monitor.session_trace_enable(1, 2, session_id => 1)", "42601"),
            ("call dbms_session.session_trace_disable(1)", "42883"),
        ] {
            assert_eq!(call(bad), Err(code), "{bad}");
        }
        // What is no literal is worked out by a block.
        let enable = "exec dbms_monitor.session_trace_enable";
        for args in ["$1, $2", "1 + 1, 2", "sys_context('userenv', 'sid'), x", "waits => x"] {
            let parsed = parse_single(&format!("{enable}({args})")).map(|one| one.parsed);
            assert!(matches!(parsed, Ok(Parsed::Own(Own::Code(_)))), "{args}: {parsed:?}");
        }
        let by_text = call(&format!("{enable}('12', '7')")).map(|call| call.session);
        assert_eq!(by_text, Ok(Some((12, 7, None))));
    }
}
