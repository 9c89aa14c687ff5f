//! `cargo x …`: the one entry to building, testing and demonstrating Skein.
//!
//! It runs cargo and looks at the tree; it imports none of our crates, so that it builds in seconds
//! and works when they do not. What it must never do: pass when something did not run.

mod demo;
mod guided;
mod harness;
mod moved;
mod run;
mod test;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo x COMMAND

  test            all that CI runs; the last line is `N passed, N failed`
  unit            the fast tests of the pure crates and the kernel (below a minute)
  tidy            layers, names, lengths, licences: the rules that need no compiler
  sim [SEED]      the cluster simulation: fixed seeds and a fresh one, or the one given
  sim [SEED] [--scenario FILE] [--minutes M] [--log FILE] [--shrink]
                  one scenario (see crates/sim/scenarios), from one seed or from many;
                  into a log of seeds, which goes on where it ended; or from a seed that
                  fails to the smallest scenario that fails there
  sim --scenario FILE --ratchet crates/sim/speed
                  how fast the simulator is, beside the best it has been
  mutants [NAME]  looks for a seed that notices each rule that can be broken
  fuzz [TARGET] [--seconds N] [--seed S]
                  feeds decoders with damaged bytes, 60 s each
  chaos [SEED]    real processes under a load and SIGKILL, their histories checked
                  (`cargo x chaos --help`)
  demo [ARGS]     builds Skein and demonstrates it (`cargo x demo --help`)
  bless           rewrites goldens and generated pages; review the difference
  bench [NAME]    runs bench/NAME against a build of the profile `dist`, the first of which
                  takes long (`bench --release NAME`: of the one that tests use; `bench --guided
                  NAME`: as `dist` builds); without a name lists what there is
  train           runs a load on an instrumented build and keeps what it did
  dist            builds `skein` as it is installed: of the profile `dist`, by what the newest
                  `train` has seen; the last line is its path

Build products go to CARGO_TARGET_DIR, by default ~/.cache/skein/target.";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match args.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("help", &args[..]),
    };
    run::set_target_dir();
    let result = match command {
        "test" => test::test(),
        "unit" => test::unit(),
        "tidy" => tidy::command(),
        "sim" => test::sim(rest),
        "mutants" => test::mutants(rest),
        "fuzz" => test::fuzz(rest),
        "chaos" => demo::chaos(rest),
        "demo" => demo::demo(rest),
        "bless" => test::bless(),
        "bench" => demo::bench(rest),
        "train" => guided::train(),
        "dist" => guided::dist(),
        "help" | "--help" | "-h" => {
            println!("{USAGE}");
            Ok(true)
        }
        other => Err(format!("no such command: {other}\n\n{USAGE}")),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
