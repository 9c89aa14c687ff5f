//! Scenarios as files: one `name = value` a line, `#` begins a comment.
//!
//! Promises: a name that does not exist, or a value out of its range, is an error with its line.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use global::Mutant;

use crate::faults::Fault;
use crate::mixed::Mix;
use crate::scenario::{LoadKind, Scenario};

const NO_MARKS: &str = "this build counts no marks: build it with feature `marks`";

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("\"{text}\" is not such a number"))
}

/// `bank 60`, `mixed 12`, `mixed 8 10 3000 9000` (lengths of fillers), `family 9`, `lists 5`,
/// `lists_committed 5`, `registers 5`, `sequences 3`; several with commas between.
fn load(text: &str) -> Result<LoadKind, String> {
    if text.contains(',') {
        return text.split(',').map(load).collect::<Result<_, _>>().map(LoadKind::Together);
    }
    let mut words = text.split_whitespace();
    let (kind, size) = (words.next().unwrap_or_default(), words.next());
    let size: i64 = number(size.ok_or("a load has a size")?)?;
    let lengths = words.map(number).collect::<Result<Vec<usize>, String>>()?;
    if size < 1 || (!lengths.is_empty() && kind != "mixed") {
        return Err(format!("no such load: {text}"));
    }
    match kind {
        "bank" => Ok(LoadKind::Bank(size)),
        "family" => Ok(LoadKind::Family(size)),
        "lists" => Ok(LoadKind::Lists(size)),
        "lists_committed" => Ok(LoadKind::ListsCommitted(size)),
        "registers" => Ok(LoadKind::Registers(size)),
        "sequences" => Ok(LoadKind::Sequences(size)),
        "mixed" => {
            let mut mix = Mix { items: size, ..Mix::default() };
            if !lengths.is_empty() {
                mix.fillers = lengths;
            }
            Ok(LoadKind::Mixed(mix))
        }
        _ => Err(format!("no such load: {kind}")),
    }
}

/// The load as [`load`] reads it.
impl fmt::Display for LoadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadKind::Bank(size) => write!(f, "bank {size}"),
            LoadKind::Family(size) => write!(f, "family {size}"),
            LoadKind::Lists(size) => write!(f, "lists {size}"),
            LoadKind::ListsCommitted(size) => write!(f, "lists_committed {size}"),
            LoadKind::Registers(size) => write!(f, "registers {size}"),
            LoadKind::Sequences(size) => write!(f, "sequences {size}"),
            LoadKind::Mixed(mix) => {
                write!(f, "mixed {}", mix.items)?;
                mix.fillers.iter().try_for_each(|length| write!(f, " {length}"))
            }
            LoadKind::Together(all) => {
                let all: Vec<String> = all.iter().map(ToString::to_string).collect();
                f.write_str(&all.join(", "))
            }
        }
    }
}

impl Scenario {
    /// Reads a scenario; what it does not say is as in [`Scenario::default`], with no fault.
    ///
    /// # Errors
    /// A sentence that names the line.
    pub fn parse(text: &str) -> Result<Scenario, String> {
        let mut scenario = Scenario { crashes: 0, blackouts: 0, ..Scenario::default() };
        for (no, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let set = line.split_once('=').ok_or_else(|| "no `name = value`".to_owned());
            set.and_then(|(name, value)| scenario.set(name.trim(), value.trim()))
                .map_err(|e| format!("line {no}: {e}"))?;
        }
        let numbers = scenario.numbers();
        if let Some((fault, _)) = numbers.iter().find(|(f, n)| f.needs_leases() && *n > 0)
            && scenario.lease.is_none()
        {
            return Err(format!("{} take leases: lease_ms", fault.name()));
        }
        if scenario.instances == 0 || scenario.instances > block::INSTANCES_MAX {
            return Err(format!("{} instances", scenario.instances));
        }
        Ok(scenario)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let fault = Fault::ALL.into_iter().find(|fault| fault.name() == name);
        if let Some(fault) = fault {
            let count = number(value)?;
            if fault.needs_marks() && !cfg!(feature = "marks") {
                return Err(NO_MARKS.to_owned());
            }
            self.set_number(fault, count);
            return Ok(());
        }
        match name {
            "instances" => self.instances = number(value)?,
            "load" => self.load = load(value)?,
            "clients_per_instance" => self.clients_per_instance = number(value)?,
            "misscount_ms" => self.misscount = Duration::from_millis(number(value)?),
            "lease_ms" => {
                let ms: u64 = number(value)?;
                self.lease = (ms > 0).then(|| Duration::from_millis(ms));
            }
            "crashes_while_opening" => self.crashes_while_opening = number(value)?,
            "calm_us" => self.calm_us = number(value)?,
            "net_delay_us" => self.net_delay_us = number(value)?,
            "cache_blocks" => self.cache_blocks = number(value)?,
            "itl_entries_max" => self.itl_entries_max = number(value)?,
            "dbwr_interval_us" => self.dbwr_interval_us = number(value)?,
            "undo_retention_s" => self.undo_retention_s = number(value)?,
            "lun_mib" => self.sizes.lun_bytes = number::<u64>(value)? << 20,
            "log_files" => self.sizes.log_files = number(value)?,
            "log_file_mib" => self.sizes.log_file_bytes = number::<u64>(value)? << 20,
            "rot" => self.rot = number(value)?,
            "swarm" => self.swarm = number(value)?,
            "swarm_sizes" => self.swarm_sizes = number(value)?,
            "swarm_loads" => self.swarm_loads = number(value)?,
            "points" if !cfg!(feature = "marks") => return Err(NO_MARKS.to_owned()),
            "points" => self.points = number(value)?,
            "commits_at_least" => self.commits_at_least = number(value)?,
            "crash_at_write_in_turn" => self.crash_at_write_in_turn = number(value)?,
            "mutant" => {
                let mutant = Mutant::of_name(value);
                self.mutant = Some(mutant.ok_or_else(|| format!("no such mutant: {value}"))?);
            }
            _ => return Err(format!("there is no \"{name}\"")),
        }
        Ok(())
    }
}

/// The scenario as a file that says all of it.
impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "instances = {}", self.instances)?;
        writeln!(f, "load = {}", self.load)?;
        writeln!(f, "clients_per_instance = {}", self.clients_per_instance)?;
        writeln!(f, "misscount_ms = {}", self.misscount.as_millis())?;
        if let Some(lease) = self.lease {
            writeln!(f, "lease_ms = {}", lease.as_millis())?;
        }
        writeln!(f, "crashes_while_opening = {}", self.crashes_while_opening)?;
        writeln!(f, "calm_us = {}", self.calm_us)?;
        writeln!(f, "net_delay_us = {}", self.net_delay_us)?;
        writeln!(f, "cache_blocks = {}", self.cache_blocks)?;
        writeln!(f, "itl_entries_max = {}", self.itl_entries_max)?;
        writeln!(f, "dbwr_interval_us = {}", self.dbwr_interval_us)?;
        writeln!(f, "undo_retention_s = {}", self.undo_retention_s)?;
        writeln!(f, "lun_mib = {}", self.sizes.lun_bytes >> 20)?;
        writeln!(f, "log_files = {}", self.sizes.log_files)?;
        writeln!(f, "log_file_mib = {}", self.sizes.log_file_bytes >> 20)?;
        writeln!(f, "rot = {}", self.rot)?;
        writeln!(f, "swarm = {}", self.swarm)?;
        writeln!(f, "swarm_sizes = {}", self.swarm_sizes)?;
        writeln!(f, "swarm_loads = {}", self.swarm_loads)?;
        writeln!(f, "commits_at_least = {}", self.commits_at_least)?;
        writeln!(f, "crash_at_write_in_turn = {}", self.crash_at_write_in_turn)?;
        if self.points {
            writeln!(f, "points = true")?;
        }
        if let Some(mutant) = self.mutant {
            writeln!(f, "mutant = {}", mutant.name())?;
        }
        for (fault, count) in self.numbers().into_iter().filter(|(_, count)| *count > 0) {
            writeln!(f, "{} = {count}", fault.name())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_file_says_what_it_is_once_more() {
        let mut seen = 0;
        for entry in std::fs::read_dir("scenarios").expect("the scenarios") {
            let text = std::fs::read_to_string(entry.expect("a file").path()).expect("a text");
            if cfg!(not(feature = "marks")) && needs_marks(&text) {
                continue;
            }
            let scenario = Scenario::parse(&text).expect("a scenario");
            let again = Scenario::parse(&scenario.to_string()).expect("its text");
            assert_eq!(format!("{scenario:?}"), format!("{again:?}"));
            seen += 1;
        }
        assert!(seen > 5);
    }

    fn needs_marks(text: &str) -> bool {
        let names = Fault::ALL.into_iter().filter(|fault| fault.needs_marks()).map(Fault::name);
        names.chain(["points"]).any(|name| text.lines().any(|line| line.starts_with(name)))
    }

    #[test]
    fn a_scenario_is_read_with_its_comments() {
        let text = "# three\ninstances = 3\n\nload = mixed 8 10 3000  # long\nlog_stalls = 2\n\
                    swarm = true\nmutant = ship-before-flush\ncrashes = 1";
        let s = Scenario::parse(text).expect("a scenario");
        assert_eq!((s.instances, s.crashes, s.blackouts, s.swarm), (3, 1, 0, true));
        assert_eq!(s.others.get(&Fault::LogStall), Some(&2));
        assert_eq!(s.mutant, Some(Mutant::ShipBeforeFlush));
        let LoadKind::Mixed(mix) = s.load else { panic!("a mixed load") };
        assert_eq!((mix.items, mix.fillers), (8, vec![10, 3000]));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, says) in [
            ("instances = 3\ncrashs = 1", "line 2: there is no \"crashs\""),
            ("crashes", "line 1: no `name = value`"),
            ("crashes = many", "line 1: \"many\""),
            ("load = bank", "line 1: a load has a size"),
            ("load = bank 5 6", "line 1: no such load"),
            ("mutant = x", "line 1: no such mutant"),
            ("instances = 9", "9 instances"),
            ("arbiter_cuts = 1", "arbiter_cuts take leases"),
        ] {
            let e = Scenario::parse(text).expect_err(text);
            assert!(e.contains(says), "{e}");
        }
    }
}
