//! Running cargo and keeping what it built.
//!
//! The target folder may be shared by several checkouts, so whatever is executed later is named by
//! cargo's own JSON output and copied aside at once: a build elsewhere cannot swap it under a test.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// The repository: the one that cargo runs this program in. Another checkout with the same target
/// folder may have compiled it.
pub fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let here = here.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    here.ancestors().nth(2).unwrap_or(&here).to_path_buf()
}

/// `$XDG_CACHE_HOME/skein` or `~/.cache/skein`.
pub fn cache_dir() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|h| h.join(".cache")));
    cache.unwrap_or_else(std::env::temp_dir).join("skein")
}

pub fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) if !dir.is_empty() => PathBuf::from(dir),
        _ => cache_dir().join("target"),
    }
}

/// Says where cargo's children build, once, before anything runs.
pub fn set_target_dir() {
    println!("building in {}", target_dir().display());
}

/// `cargo` as started by us: in the repository, with our target folder. What the cargo that runs
/// this program has told it of its own package is not handed on: build scripts look at it, and
/// would build again what a plain `cargo build` has built.
pub fn cargo(args: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|own| text.starts_with(own)) {
            command.env_remove(&name);
        }
    }
    command.current_dir(root()).env("CARGO_TARGET_DIR", target_dir()).args(args);
    command
}

/// Runs a step and shows its output; whether it succeeded.
pub fn step(args: &[&str]) -> Result<bool, String> {
    println!("== cargo {}", args.join(" "));
    let status = cargo(args).status().map_err(|e| format!("run cargo: {e}"))?;
    Ok(status.success())
}

/// What `cargo metadata` says.
pub fn metadata() -> Result<Value, String> {
    let output = cargo(&["metadata", "--format-version", "1"])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("run cargo metadata: {e}"))?;
    if !output.status.success() {
        return Err("cargo metadata failed".to_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|e| format!("read cargo metadata: {e}"))
}

/// An executable cargo made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executable {
    /// Package name.
    pub package: String,
    /// Folder of the package: tests run there.
    pub package_dir: PathBuf,
    /// Name of the target (`kernel`, `it`, `skein`).
    pub target: String,
    /// Whether it is a test harness.
    pub test: bool,
    pub path: PathBuf,
}

/// Builds and returns the executables made, in cargo's order sorted by package and target; `None`
/// if the build failed (cargo has said why).
pub fn build(args: &[&str]) -> Result<Option<Vec<Executable>>, String> {
    build_with(args, &[])
}

/// [`build`], with environment variables of its own.
pub fn build_with(
    args: &[&str],
    variables: &[(&'static str, OsString)],
) -> Result<Option<Vec<Executable>>, String> {
    println!("== cargo {}", args.join(" "));
    let mut child = cargo(args)
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .arg("--message-format=json-render-diagnostics")
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("run cargo: {e}"))?;
    let stdout = child.stdout.take().ok_or("cargo has no output")?;
    let mut found = BTreeMap::new();
    for line in BufReader::new(stdout).lines() {
        let line = line.map_err(|e| format!("read cargo's output: {e}"))?;
        if let Some(exe) = serde_json::from_str(&line).ok().as_ref().and_then(executable) {
            found.insert((exe.package.clone(), exe.target.clone(), exe.test), exe);
        }
    }
    let status = child.wait().map_err(|e| format!("wait for cargo: {e}"))?;
    Ok(status.success().then(|| found.into_values().collect()))
}

fn executable(message: &Value) -> Option<Executable> {
    let path = message.get("executable")?.as_str()?;
    let manifest = Path::new(message.get("manifest_path")?.as_str()?);
    let package_dir = manifest.parent()?.to_path_buf();
    Some(Executable {
        package: package_name(message.get("package_id")?.as_str()?),
        package_dir,
        target: message.pointer("/target/name")?.as_str()?.to_owned(),
        test: message.pointer("/profile/test")?.as_bool()?,
        path: PathBuf::from(path),
    })
}

/// The name in a package id: `path+file:///x/crates/block#skein-block@0.1.0`, or without a name
/// where it is the folder's.
fn package_name(id: &str) -> String {
    let (path, tail) = id.rsplit_once('#').unwrap_or(("", id));
    match tail.split_once('@') {
        Some((name, _)) => name.to_owned(),
        None => path.rsplit('/').next().unwrap_or(path).to_owned(),
    }
}

/// A folder of our own that goes away with this value, unless it is kept.
pub struct RunDir {
    path: PathBuf,
    keep: bool,
}

impl RunDir {
    pub fn new(what: &str) -> Result<RunDir, String> {
        let path = cache_dir().join(format!("{what}-{}", std::process::id()));
        // A left-over of a killed run that had the same process id.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).map_err(|e| format!("make {}: {e}", path.display()))?;
        Ok(RunDir { path, keep: false })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the folder to somebody else.
    pub fn keep(&mut self) {
        self.keep = true;
    }

    /// Copies an executable here under its target's name.
    pub fn take(&self, exe: &Executable) -> Result<PathBuf, String> {
        let kind = if exe.test { "-test" } else { "" };
        let folder = self.path.join(format!("{}{kind}", exe.package));
        fs::create_dir_all(&folder).map_err(|e| format!("make {}: {e}", folder.display()))?;
        let to = folder.join(&exe.target);
        fs::copy(&exe.path, &to).map_err(|e| format!("copy {}: {e}", exe.path.display()))?;
        Ok(to)
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        if !self.keep {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_id_gives_its_name() {
        assert_eq!(package_name("path+file:///x/crates/block#skein-block@0.1.0"), "skein-block");
        assert_eq!(package_name("path+file:///x/crates/xtask#0.1.0"), "xtask");
    }

    #[test]
    fn executables_are_read_from_cargos_messages() {
        let message = serde_json::json!({
            "reason": "compiler-artifact",
            "package_id": "path+file:///x/crates/cli#skein-cli@0.1.0",
            "manifest_path": "/x/crates/cli/Cargo.toml", "target": {"name": "skein"},
            "profile": {"test": false}, "executable": "/t/release/skein"});
        let exe = executable(&message).expect("an executable");
        assert_eq!((exe.package.as_str(), exe.target.as_str()), ("skein-cli", "skein"));
        assert_eq!((exe.test, exe.package_dir), (false, PathBuf::from("/x/crates/cli")));
        let library = serde_json::json!({"reason": "compiler-artifact", "executable": null});
        assert_eq!(executable(&library), None);
    }
}
