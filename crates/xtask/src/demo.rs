//! `cargo x demo`, `cargo x chaos` and `cargo x bench`: build the shipped binary and run it.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use crate::guided::Guided;
use crate::run::{self, Executable, RunDir};

/// The one benchmark that needs a second build.
const GRANT_CHECK: &str = "grant-check";

/// How a program that is run is built.
#[derive(Clone, Copy)]
enum Build {
    /// Of a profile of Cargo.toml.
    Plain(&'static str),
    /// Of the profile `dist`, by what a load was seen to do.
    Guided,
}

impl Build {
    fn run(self, what: &[&str]) -> Result<Option<Vec<Executable>>, String> {
        match self {
            Build::Plain(profile) => run::build(&[&["build", "--profile", profile], what].concat()),
            Build::Guided => {
                let how = Guided::by_profile()?;
                let head = ["build", "--profile", "dist", "--target", &how.target];
                run::build_with(&[&head[..], what].concat(), &how.variables)
            }
        }
    }
}

/// Builds `skein` and the programs of `lab` and puts copies of them into one folder.
fn build_into(dir: &RunDir, build: Build) -> Result<Option<PathBuf>, String> {
    let what = ["-p", "skein-cli", "-p", "skein-lab", "--bins"];
    let Some(executables) = build.run(&what)? else {
        return Ok(None);
    };
    let bin = dir.path().join("bin");
    fs::create_dir_all(&bin).map_err(|e| format!("make {}: {e}", bin.display()))?;
    for name in ["skein", "skein-demo", "skein-tpcc", "skein-chaos"] {
        let exe = executables.iter().find(|e| e.target == name);
        let exe = exe.ok_or_else(|| format!("the build made no executable {name}"))?;
        fs::copy(&exe.path, bin.join(name)).map_err(|e| format!("copy {name}: {e}"))?;
    }
    Ok(Some(bin))
}

/// Replaces this process by `skein-demo`, so that Ctrl-C reaches nobody else. It owns the folder
/// from then on and removes it at its end.
pub fn demo(args: &[String]) -> Result<bool, String> {
    let mut dir = RunDir::new("demo")?;
    let Some(bin) = build_into(&dir, Build::Plain("release"))? else {
        return Ok(false);
    };
    dir.keep();
    let mut command = Command::new(bin.join("skein-demo"));
    command.arg("--work-dir").arg(dir.path()).args(args).env("SKEIN_BIN", bin.join("skein"));
    let error = command.exec();
    let _ = fs::remove_dir_all(dir.path());
    Err(format!("run skein-demo: {error}"))
}

/// Runs `skein-chaos`; it works in a folder of its own, which it keeps if it fails.
pub fn chaos(args: &[String]) -> Result<bool, String> {
    let dir = RunDir::new("chaos")?;
    let Some(bin) = build_into(&dir, Build::Plain("release"))? else {
        return Ok(false);
    };
    let mut command = Command::new(bin.join("skein-chaos"));
    let command = command.args(args).env("SKEIN_BIN", bin.join("skein"));
    let status = command.status().map_err(|e| format!("run skein-chaos: {e}"))?;
    Ok(status.success())
}

/// Builds `skein` once more, without the check of rights to blocks.
fn build_granted(dir: &RunDir, build: Build) -> Result<Option<PathBuf>, String> {
    let what = ["-p", "skein-cli", "--bin", "skein", "--features", "skein-cli/granted"];
    let Some(executables) = build.run(&what)? else {
        return Ok(None);
    };
    let exe = executables.iter().find(|e| e.target == "skein");
    let exe = exe.ok_or("the build made no executable skein")?;
    let copy = dir.path().join("bin/skein-granted");
    fs::copy(&exe.path, &copy).map_err(|e| format!("copy skein-granted: {e}"))?;
    Ok(Some(copy))
}

/// Runs `bench/NAME` with a fresh build: of the profile `dist`, with `--guided` of the same by what
/// `cargo x train` has seen, or with `--release` of the one that tests use.
pub fn bench(args: &[String]) -> Result<bool, String> {
    let (build, args) = match args.split_first() {
        Some((first, rest)) if first == "--release" => (Build::Plain("release"), rest),
        Some((first, rest)) if first == "--guided" => (Build::Guided, rest),
        _ => (Build::Plain("dist"), args),
    };
    let folder = run::root().join("bench");
    let Some((name, rest)) = args.split_first() else {
        let entries = fs::read_dir(&folder).map_err(|e| format!("read bench/: {e}"))?;
        // Folders hold what the scripts share.
        let files = entries.filter_map(Result::ok).filter(|e| e.path().is_file());
        let mut names: Vec<_> = files.filter_map(|e| e.file_name().into_string().ok()).collect();
        names.sort();
        println!("{}", names.join("\n"));
        return Ok(true);
    };
    let script = folder.join(name);
    if name.contains('/') || !script.is_file() {
        return Err(format!("there is no bench/{name}"));
    }
    let dir = RunDir::new("bench")?;
    let Some(bin) = build_into(&dir, build)? else {
        return Ok(false);
    };
    let mut command = Command::new(&script);
    if name == GRANT_CHECK {
        let Some(granted) = build_granted(&dir, build)? else {
            return Ok(false);
        };
        command.env("SKEIN_GRANTED_BIN", granted);
    }
    let status = command
        .args(rest)
        .current_dir(run::root())
        .env("SKEIN_BIN", bin.join("skein"))
        .env("SKEIN_WORK_DIR", dir.path())
        .status()
        .map_err(|e| format!("run bench/{name}: {e}"))?;
    Ok(status.success())
}
