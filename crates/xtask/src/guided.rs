//! Builds that follow what a program did before: `cargo x train`, `cargo x dist`.
//!
//! An instrumented build of the profile `dist` runs a load (`bench/lib/train.py`), what it has
//! counted is kept in the cache folder, and builds from then on place and inline by it. Functions
//! changed since are built as without; a profile is good for months. Must never build without a
//! profile where one was asked for.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::run::{self, RunDir};

/// What a short transaction counts for beside a row of a long query.
const SHORT_WEIGHT: u32 = 10;

/// Variables of a build, and its further arguments.
pub struct Guided {
    pub variables: Vec<(&'static str, OsString)>,
    pub target: String,
}

impl Guided {
    /// `flags`: rustc's; `place`: folder of the products in the target folder. A target that is
    /// named keeps the flags from build scripts and macros.
    fn new(flags: &str, place: &str) -> Result<Guided, String> {
        let variables = vec![
            ("RUSTFLAGS", flags.into()),
            ("CARGO_TARGET_DIR", run::target_dir().join(place).into_os_string()),
        ];
        Ok(Guided { variables, target: host()? })
    }

    /// A build by the newest profile.
    pub fn by_profile() -> Result<Guided, String> {
        let newest = profiles()?.pop().ok_or(
            "there is no profile yet: `cargo x train` makes one (an instrumented build, then 3 \
             minutes of load)",
        )?;
        println!("built by {}", newest.display());
        Guided::new(&format!("-Cprofile-use={}", newest.display()), "guided")
    }
}

fn folder() -> PathBuf {
    run::cache_dir().join("profiles")
}

/// Profiles kept, the newest last. Cargo builds again when the name is another.
fn profiles() -> Result<Vec<PathBuf>, String> {
    let Ok(entries) = fs::read_dir(folder()) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(|e| format!("read {}: {e}", folder().display()))?.path();
        if path.extension().is_some_and(|e| e == "profdata") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn host() -> Result<String, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("-vV").output().map_err(|e| format!("run rustc: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|l| l.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc -vV names no host".to_owned())
}

/// The newest `llvm-profdata`: that of the toolchain, or one that Debian installs.
fn profdata_tool() -> Result<PathBuf, String> {
    let mut found: Vec<(u32, PathBuf)> = Vec::new();
    let folders = fs::read_dir("/usr/lib").into_iter().flatten().filter_map(Result::ok);
    for entry in folders {
        let name = entry.file_name().to_string_lossy().into_owned();
        let version = name.strip_prefix("llvm-").and_then(|v| v.parse().ok());
        let tool = entry.path().join("bin/llvm-profdata");
        if let (Some(version), true) = (version, tool.is_file()) {
            found.push((version, tool));
        }
    }
    let newest = found.into_iter().max().filter(|(version, _)| *version >= LLVM_MIN);
    newest.map(|(_, tool)| tool).ok_or_else(|| {
        format!("llvm-profdata is missing: install llvm-{LLVM_MIN} (Debian's name) or a newer one")
    })
}

/// The first LLVM that reads what programs of today's rustc write.
const LLVM_MIN: u32 = 19;

/// Builds an instrumented `skein`, runs the load and keeps what was counted.
pub fn train() -> Result<bool, String> {
    let tool = profdata_tool()?;
    // Before a build that takes half an hour.
    if !load("--check".as_ref(), &[])? {
        return Ok(false);
    }
    let dir = RunDir::new("train")?;
    let counts = dir.path().join("counts");
    let flags = format!("-Cprofile-generate={}", run::target_dir().join("train").display());
    let mut how = Guided::new(&flags, "train")?;
    // What is counted is placed before crates are optimised together, which takes half the time.
    how.variables.push(("CARGO_PROFILE_DIST_LTO", "off".into()));
    let args = ["build", "--profile", "dist", "-p", "skein-cli", "--bin", "skein", "--target"];
    let Some(built) = run::build_with(&[&args[..], &[&how.target]].concat(), &how.variables)?
    else {
        return Ok(false);
    };
    let exe = built.iter().find(|e| e.target == "skein");
    let exe = dir.take(exe.ok_or("the build made no executable skein")?)?;
    let variables = [
        ("SKEIN_BIN", exe.into_os_string()),
        ("SKEIN_WORK_DIR", dir.path().into()),
        // Of the programs that start and stop servers, which are of no interest.
        ("LLVM_PROFILE_FILE", dir.path().join("others-%m.profraw").into_os_string()),
    ];
    if !load(counts.as_os_str(), &variables)? {
        return Ok(false);
    }
    keep(&tool, &counts).map(|profile| {
        println!("kept as {}: `cargo x dist` builds by it", profile.display());
        true
    })
}

/// Runs the load, or with `--check` only looks for the programs that it needs.
fn load(argument: &OsStr, variables: &[(&str, OsString)]) -> Result<bool, String> {
    let status = Command::new("python3")
        .arg(run::root().join("bench/lib/train.py"))
        .arg(argument)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .status()
        .map_err(|e| format!("run bench/lib/train.py: {e}"))?;
    Ok(status.success())
}

fn keep(tool: &Path, counts: &Path) -> Result<PathBuf, String> {
    let older = profiles()?;
    fs::create_dir_all(folder()).map_err(|e| format!("make {}: {e}", folder().display()))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let to = folder().join(format!("skein-{now}.profdata"));
    let input = |weight: u32, what: &str| {
        format!("-weighted-input={weight},{}", counts.join(what).display())
    };
    let status = Command::new(tool)
        .args(["merge", "-o"])
        .arg(&to)
        .args([input(SHORT_WEIGHT, "short"), input(1, "long")])
        .status()
        .map_err(|e| format!("run {}: {e}", tool.display()))?;
    if !status.success() {
        return Err(format!("{} cannot read what the build has counted", tool.display()));
    }
    for path in older {
        fs::remove_file(&path).map_err(|e| format!("remove {}: {e}", path.display()))?;
    }
    Ok(to)
}

/// `cargo x dist`: the program as it is installed, built by a profile.
pub fn dist() -> Result<bool, String> {
    let how = Guided::by_profile()?;
    let args = ["build", "--profile", "dist", "-p", "skein-cli", "--bin", "skein", "--target"];
    let Some(built) = run::build_with(&[&args[..], &[&how.target]].concat(), &how.variables)?
    else {
        return Ok(false);
    };
    let exe = built.iter().find(|e| e.target == "skein").ok_or("no executable skein was made")?;
    println!("{}", exe.path.display());
    Ok(true)
}
