//! `skein-demo`: the demonstration that `./demo` runs. See `lab::demo`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    lab::demo::main(&args)
}
