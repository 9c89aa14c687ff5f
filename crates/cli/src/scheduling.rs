//! How an instance asks the operating system to schedule its threads, and what came of it.
//!
//! What it promises: what is refused is told and does not keep the instance from running; the
//! parameters show what is in force. What it must never do: run an instance elsewhere than it was
//! told without saying so.

use crate::error::{CliError, Result};
use env::real::{Priority, Processors, bind_thread, may_bind, may_favour};
use kernel::params::Parameters;
use observe::AlertLevel;
use std::io;

/// What is in force.
pub struct Scheduling {
    pub priority: Priority,
    /// Names of the threads that have it.
    pub favoured: String,
    /// Where those run, if not where all do.
    pub favoured_on: Processors,
    /// For the alert log.
    pub told: Vec<(AlertLevel, String)>,
}

impl Scheduling {
    /// Binds the calling thread, from which all others come, and tries the rest. `parameters` show
    /// the defaults for what was refused.
    pub fn ask(parameters: &Parameters) -> Result<Scheduling> {
        let favoured = parameters.high_priority_processes();
        let mut told = Vec::new();
        let priority = match parameters.os_sched_high_priority() {
            0 => Priority::Ordinary,
            1 => Priority::Preferred,
            _ => Priority::RealTime,
        };
        let done = match priority {
            Priority::Ordinary => String::new(),
            Priority::Preferred => format!("{favoured} run at nice -20"),
            Priority::RealTime => format!("{favoured} run at real-time priority"),
        };
        let refusal = format!("{favoured} run at ordinary priority, os_sched_high_priority");
        let given = may_favour(priority);
        let favours =
            note(parameters, "os_sched_high_priority", "0", given, &refusal, &done, &mut told)?;
        let on: Processors = read(parameters.cpu_set(), "cpu_set")?;
        let done = format!("threads run on processors {}", parameters.cpu_set());
        let done = if on.is_all() { String::new() } else { done };
        let refusal = "threads run on all processors, cpu_set";
        note(parameters, "cpu_set", "", bind_thread(&on), refusal, &done, &mut told)?;
        let name = "high_priority_cpu_set";
        let favoured_on: Processors = read(parameters.high_priority_cpu_set(), name)?;
        let done = format!("{favoured} run on processors {}", parameters.high_priority_cpu_set());
        let done = if favoured_on.is_all() { String::new() } else { done };
        let refusal = format!("{favoured} run where all threads do, {name}");
        let given = may_bind(&favoured_on);
        let bound = note(parameters, name, "", given, &refusal, &done, &mut told)?;
        Ok(Scheduling {
            priority: if favours { priority } else { Priority::Ordinary },
            favoured,
            favoured_on: if bound { favoured_on } else { Processors::default() },
            told,
        })
    }
}

fn read(text: String, name: &str) -> Result<Processors> {
    text.parse().map_err(|why| CliError::usage(format!("{name}: {why}")))
}

/// Notes what came of a request: `done`, or `refusal` and the parameter set to `default`.
fn note(
    parameters: &Parameters,
    name: &str,
    default: &str,
    came: io::Result<()>,
    refusal: &str,
    done: &str,
    told: &mut Vec<(AlertLevel, String)>,
) -> Result<bool> {
    match came {
        Ok(()) => {
            if !done.is_empty() {
                told.push((AlertLevel::Info, done.to_owned()));
            }
            Ok(true)
        }
        Err(e) => {
            told.push((AlertLevel::Warning, format!("{refusal} is not obeyed: {e}")));
            parameters.set(name, default).map_err(|e| CliError::failed(e.to_string()))?;
            Ok(false)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(set: &[(&str, &str)]) -> Parameters {
        let parameters = Parameters::default();
        for (name, value) in set {
            parameters.set(name, value).expect("a parameter");
        }
        parameters
    }

    #[test]
    fn what_is_refused_is_told_and_shown_and_the_rest_goes_on() {
        let asked = parameters(&[("os_sched_high_priority", "0"), ("cpu_set", "1023")]);
        let scheduling = Scheduling::ask(&asked).expect("it goes on");
        assert_eq!(scheduling.priority, Priority::Ordinary);
        let [(AlertLevel::Warning, told)] = &scheduling.told[..] else {
            panic!("{:?}", scheduling.told)
        };
        assert!(told.starts_with("threads run on all processors, cpu_set is not obeyed"), "{told}");
        assert_eq!(asked.cpu_set(), "");
    }

    #[test]
    fn a_list_that_cannot_be_read_is_a_wrong_setting() {
        let asked = parameters(&[("os_sched_high_priority", "0"), ("high_priority_cpu_set", "x")]);
        let refused = Scheduling::ask(&asked).err().expect("refused");
        assert!(refused.message.starts_with("high_priority_cpu_set: expected processors"));
        assert_eq!(refused.code(), 2);
    }
}
