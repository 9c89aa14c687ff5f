//! `skein-tpcc`: the TPC-C-like load that `cargo x bench tpcc` runs. See `lab::tpcc`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    lab::tpcc::main(&args)
}
