//! `skein-chaos`: real processes under a load, harmed from a seed, that `cargo x chaos` runs. See
//! `lab::chaos`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    lab::chaos::main(&args)
}
