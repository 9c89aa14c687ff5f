//! Each rule that can be broken is noticed: from the seed on that `cargo x mutants` has found.
//! The control, the same seed with the rule whole, passes. The table in `docs/mutants.md` lists
//! them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use global::Mutant;
use sim::Scenario;

/// Mutant, scenario, seed.
const CAUGHT: &[(Mutant, &str, u64)] = &[
    (Mutant::ShipBeforeFlush, "stalls", 1),
    (Mutant::DropPastImageEarly, "mutants", 1),
    (Mutant::DemoteAfterSend, "mutants", 1),
    (Mutant::SkipScnBroadcast, "mutants", 1),
    (Mutant::ForgetWriteDuty, "mutants", 2),
    (Mutant::AcceptStaleEpoch, "late-words", 3),
    (Mutant::AnswerBeforeFlush, "stalls", 1),
    (Mutant::ReuseUndoEarly, "tiny", 5),
    (Mutant::AnswerAfterLease, "leases", 12),
    (Mutant::SkipFence, "leases", 11),
];

fn scenario(name: &str) -> Scenario {
    let path = Path::new("scenarios").join(format!("{name}.scenario"));
    let text = std::fs::read_to_string(&path).expect("a scenario file");
    Scenario::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// A change of the kernel moves the interleavings: from the known seed on, this many are tried.
const SEEDS_TRIED: u64 = 40;

#[test]
fn every_mutant_is_caught_and_its_control_is_not() {
    let mut escaped = Vec::new();
    for &(mutant, name, known) in CAUGHT {
        let whole = scenario(name);
        let broken = Scenario { mutant: Some(mutant), ..whole.clone() };
        let caught = (known..known + SEEDS_TRIED).find(|seed| {
            println!("mutant {}: seed {seed} of {name}", mutant.name());
            catch_unwind(AssertUnwindSafe(|| sim::run(*seed, &broken))).is_err()
        });
        let Some(seed) = caught else {
            escaped.push(mutant.name());
            continue;
        };
        let report = sim::run(seed, &whole);
        assert!(report.counts.acknowledged > 0, "{name}: seed {seed}: nothing was done");
    }
    assert!(escaped.is_empty(), "not caught: {escaped:?}");
}

#[test]
fn every_mutant_has_a_seed_and_stands_in_the_table() {
    let table = std::fs::read_to_string("../../docs/mutants.md").expect("the table");
    for mutant in Mutant::ALL {
        let known = CAUGHT.iter().find(|(m, ..)| *m == mutant);
        let (_, name, seed) = known.unwrap_or_else(|| panic!("no seed for {}", mutant.name()));
        let row = format!("| `{}` | {name} | {seed} |", mutant.name());
        assert!(table.contains(&row), "docs/mutants.md has no row that begins {row}");
    }
}
