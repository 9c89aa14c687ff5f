//! From a run that fails to the smallest one that fails in the same way.
//!
//! A simpler scenario is another run from the same seed: its interleavings are new. So each step
//! tries a few seeds, and is kept if one of them fails at the same place of the code. What it
//! promises: the scenario it ends with has failed with the seed it names, at that place.

use crate::faults::Fault;
use crate::mixed::Mix;
use crate::scenario::{LoadKind, Scenario};

/// Seeds tried for each simpler scenario, the one that failed first.
const SEEDS_EACH: u64 = 4;

/// A run that fails.
#[derive(Clone, Debug)]
pub struct Failing {
    pub seed: u64,
    pub scenario: Scenario,
    /// Where it fails: runs that fail there are taken for the same.
    pub place: String,
}

/// Scenarios that are simpler by one step, the greatest steps first.
fn simpler(s: &Scenario) -> Vec<Scenario> {
    let mut all = Vec::new();
    let mut with = |change: &dyn Fn(&mut Scenario)| {
        let mut simpler = s.clone();
        change(&mut simpler);
        if format!("{simpler:?}") != format!("{s:?}") {
            all.push(simpler);
        }
    };
    let present = s.numbers().into_iter().filter(|(_, count)| *count > 0).collect::<Vec<_>>();
    for (fault, _) in &present {
        with(&|s| s.set_number(*fault, 0));
    }
    with(&|s| {
        s.lease = None;
        s.set_number(Fault::ArbiterCut, 0);
        s.set_number(Fault::ArbiterTrouble, 0);
    });
    with(&|s| s.rot = 0);
    with(&|s| s.crashes_while_opening = 0);
    with(&|s| s.points = false);
    with(&|s| s.swarm = false);
    with(&|s| s.swarm_sizes = false);
    with(&|s| s.swarm_loads = false);
    if let LoadKind::Together(parts) = &s.load
        && parts.len() > 1
    {
        for part in parts {
            with(&|s| s.load = part.clone());
        }
        for left_out in 0..parts.len() {
            let mut rest = parts.clone();
            rest.remove(left_out);
            with(&|s| s.load = LoadKind::Together(rest.clone()));
        }
    }
    with(&|s| s.commits_at_least = 0);
    with(&|s| s.net_delay_us = s.net_delay_us.min(Scenario::default().net_delay_us));
    for (fault, count) in &present {
        with(&|s| s.set_number(*fault, count / 2));
        with(&|s| s.set_number(*fault, count - 1));
    }
    with(&|s| s.instances = (s.instances - 1).max(1));
    with(&|s| s.clients_per_instance = (s.clients_per_instance / 2).max(1));
    with(&|s| s.clients_per_instance = (s.clients_per_instance - 1).max(1));
    with(&|s| s.calm_us = (s.calm_us / 2).max(1000));
    with(&|s| match &mut s.load {
        LoadKind::Bank(size) => *size = (*size / 2).max(2),
        LoadKind::Family(size)
        | LoadKind::Lists(size)
        | LoadKind::ListsCommitted(size)
        | LoadKind::Registers(size)
        | LoadKind::Sequences(size) => *size = (*size / 2).max(1),
        LoadKind::Together(_) => {}
        LoadKind::Mixed(mix) => mix.items = (mix.items / 2).max(1),
    });
    with(&|s| {
        if let LoadKind::Mixed(Mix { fillers, .. }) = &mut s.load
            && fillers.len() > 1
        {
            fillers.pop();
        }
    });
    all
}

/// Makes the run as small as it gets. `fails`: the place where a run fails, if it does. `told` is
/// called with each smaller run; once it says no, the search ends.
pub fn shrink(
    mut at: Failing,
    fails: impl Fn(u64, &Scenario) -> Option<String>,
    mut told: impl FnMut(&Failing) -> bool,
) -> Failing {
    'smaller: loop {
        for scenario in simpler(&at.scenario) {
            for seed in (0..SEEDS_EACH).map(|n| at.seed.wrapping_add(n)) {
                if fails(seed, &scenario).is_some_and(|place| place == at.place) {
                    at = Failing { seed, scenario, place: at.place };
                    if !told(&at) {
                        return at;
                    }
                    continue 'smaller;
                }
            }
        }
        return at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::Fault;

    #[test]
    fn what_does_not_matter_goes_and_what_does_stays() {
        let text = "instances = 4\nload = bank 64\nclients_per_instance = 6\nswarm = true\n\
                    crashes = 5\nlog_stalls = 3\nrot = 2\ncuts = 1";
        let scenario = Scenario::parse(text).expect("a scenario");
        // Fails with two crashes or more, on two instances or more, for odd seeds; elsewhere
        // without them.
        let fails = |seed: u64, s: &Scenario| {
            let here = s.crashes >= 2 && s.instances >= 2 && seed % 2 == 1;
            Some(if here { "here" } else { "elsewhere" }.to_owned())
        };
        let mut steps = 0;
        let start = Failing { seed: 7, scenario, place: "here".to_owned() };
        let end = shrink(start, fails, |_| {
            steps += 1;
            true
        });
        assert_eq!((end.scenario.instances, end.scenario.crashes), (2, 2));
        assert_eq!((end.scenario.clients_per_instance, end.scenario.rot), (1, 0));
        assert_eq!(end.scenario.others.get(&Fault::LogStall).copied().unwrap_or(0), 0);
        assert!(matches!(end.scenario.load, LoadKind::Bank(2)));
        assert_eq!((end.seed % 2, end.place.as_str()), (1, "here"));
        assert!(steps > 5);
    }

    #[test]
    fn it_ends_when_it_is_told_to() {
        let start = Failing { seed: 1, scenario: Scenario::default(), place: String::new() };
        let end = shrink(start, |_, _| Some(String::new()), |_| false);
        assert_eq!(end.seed, 1);
    }
}
