//! Procedures that are called by name: those that switch traces, the repository's, and those by
//! which a session says something of itself.
//!
//! What it promises: values by position or by name (`waits => true`), each at most once; `CALL`,
//! `EXEC` and `EXECUTE` mean the same. A name that is none of these is left to others.

use super::{Own, Words};
use crate::pl::{as_block, is_attribute_call};
use crate::trace::TraceCall;
use crate::workload::RepositoryCall;
use crate::{PgError, Result};

/// A value of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Given {
    Null,
    Number(i64),
    Truth(bool),
}

/// Procedures and their parameters, in order.
const PROCEDURES: [(&str, &[&str]); 6] = [
    (
        "dbms_monitor.session_trace_enable",
        &["session_id", "serial_num", "waits", "binds", "plan_stat", "inst_id"],
    ),
    ("dbms_monitor.session_trace_disable", &["session_id", "serial_num", "inst_id"]),
    ("dbms_session.session_trace_enable", &["waits", "binds", "plan_stat"]),
    ("dbms_session.session_trace_disable", &[]),
    ("dbms_workload_repository.create_snapshot", &[]),
    ("dbms_workload_repository.drop_snapshot_range", &["low_snap_id", "high_snap_id"]),
];

const PACKAGES: [&str; 3] = ["dbms_monitor", "dbms_session", "dbms_workload_repository"];

pub(super) fn parse(words: &mut Words<'_>) -> Result<Option<Own>> {
    let called = words.take("call") || words.take("exec") || words.take("execute");
    if called && words.calls(is_attribute_call) {
        return as_block(&words.rest_text()).map(|code| Some(Own::Code(code)));
    }
    let package = PACKAGES.iter().any(|package| words.is(package));
    if !called || !package {
        words.rewind();
        return Ok(None);
    }
    let name = words.dotted()?;
    let Some((_, parameters)) = PROCEDURES.iter().find(|(known, _)| *known == name) else {
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
            let value = value(words)?;
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
        if !words.close() {
            return Err(words.near());
        }
    }
    if name.starts_with("dbms_workload_repository.") {
        return repository_call(&name, parameters, &given).map(|call| Some(Own::Repository(call)));
    }
    trace_call(&name, parameters, &given).map(|call| Some(Own::Trace(call)))
}

fn repository_call(
    name: &str,
    parameters: &[&str],
    given: &[Option<Given>],
) -> Result<RepositoryCall> {
    let number = |at: usize| match &given[at] {
        Some(Given::Number(number)) => Ok(*number),
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

fn value(words: &mut Words<'_>) -> Result<Given> {
    if words.at_number() {
        return words.number().map(Given::Number);
    }
    match &*words.name()? {
        "null" => Ok(Given::Null),
        "true" => Ok(Given::Truth(true)),
        "false" => Ok(Given::Truth(false)),
        other => Err(PgError::unsupported(format!("\"{other}\" as an argument"))
            .with_hint("Arguments are numbers, true, false and null.")),
    }
}

fn trace_call(name: &str, parameters: &[&str], given: &[Option<Given>]) -> Result<TraceCall> {
    let of = |wanted: &str| {
        let at = parameters.iter().position(|known| *known == wanted)?;
        given[at].as_ref().filter(|given| **given != Given::Null)
    };
    let wrong = |wanted: &str| {
        PgError::new("22023", format!("invalid value for argument \"{wanted}\" of {name}"))
    };
    let number = |wanted: &str| match of(wanted) {
        None => Ok(None),
        Some(Given::Number(number)) => u32::try_from(*number).map(Some).map_err(|_| wrong(wanted)),
        Some(_) => Err(wrong(wanted)),
    };
    let truth = |wanted: &str, default: bool| match of(wanted) {
        None => Ok(default),
        Some(Given::Truth(truth)) => Ok(*truth),
        Some(_) => Err(wrong(wanted)),
    };
    if of("plan_stat").is_some() {
        return Err(PgError::unsupported("argument plan_stat")
            .with_hint("Plans are told after the first execution of each statement."));
    }
    let (sid, serial) = (number("session_id")?, number("serial_num")?);
    let instance = match number("inst_id")? {
        None => None,
        Some(k) => Some(u8::try_from(k).map_err(|_| wrong("inst_id"))?),
    };
    let session = match (sid, serial) {
        (None, None) if instance.is_none() => None,
        (Some(sid), Some(serial)) => Some((sid, serial, instance)),
        _ => {
            return Err(PgError::new("22023", "session_id and serial_num belong together")
                .with_hint("v$session and gv$session show both."));
        }
    };
    let on = name.ends_with("_enable");
    Ok(TraceCall { on, session, waits: truth("waits", true)?, binds: truth("binds", false)? })
}

#[cfg(test)]
mod tests {
    use crate::parse::{Own, Parsed, parse_single};
    use crate::trace::TraceCall;
    use crate::workload::RepositoryCall;

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
    fn values_come_by_position_and_by_name() {
        let of = |session, waits, binds| Ok(TraceCall { on: true, session, waits, binds });
        let enable = "dbms_monitor.session_trace_enable";
        assert_eq!(call(&format!("call {enable}()")), of(None, true, false));
        let here = Some((12, 34, None));
        assert_eq!(call(&format!("exec {enable}(12, 34, false, true)")), of(here, false, true));
        let there = Some((12, 34, Some(2)));
        let text = format!("CALL {enable}(12, 34, inst_id => 2, binds=>true)");
        assert_eq!(call(&text), of(there, true, true));
        let off = "execute dbms_monitor.session_trace_disable(12, 34, 2)";
        let gone = TraceCall { on: false, session: there, waits: true, binds: false };
        assert_eq!(call(off), Ok(gone));
        assert_eq!(call("exec dbms_session.session_trace_enable"), of(None, true, false));
        for (bad, code) in [
            ("call dbms_monitor.nothing()", "42883"),
            ("call dbms_monitor.session_trace_enable(1)", "22023"),
            ("call dbms_monitor.session_trace_enable(1, 2, 3)", "22023"),
            ("call dbms_monitor.session_trace_enable(x => 1)", "42883"),
            ("call dbms_monitor.session_trace_enable(1, 2, session_id => 1)", "42601"),
            ("call dbms_session.session_trace_disable(1)", "42883"),
        ] {
            assert_eq!(call(bad), Err(code), "{bad}");
        }
    }
}
