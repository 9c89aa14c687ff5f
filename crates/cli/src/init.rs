//! `skein init`: makes a database.

use crate::config::{Config, INSTANCES_MAX, template};
use crate::error::{CliError, Doing, Exit, Result, say};
use crate::layout::Layout;
use crate::node;
use rand::Rng;
use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

const GENERATED_PASSWORD_CHARS: usize = 20;
/// Smaller LUNs could not even hold the system files.
const LUN_BYTES_MIN: u64 = 16 << 20;

/// What was asked for.
pub struct Request<'a> {
    pub dir: &'a Path,
    pub instances: u16,
    pub luns: u16,
    pub lun_size_bytes: u64,
    pub port_base: u16,
    /// Parameters to write to the settings: `name=value`.
    pub set: &'a [String],
}

/// Makes the database and says what was made. What a failed attempt has made is taken away again.
pub fn run(request: &Request<'_>) -> Result<()> {
    check(request)?;
    let layout = Layout::new(request.dir);
    let text = template(request.instances, request.port_base, &settings(request.set)?);
    let config = Config::check_text(&text)?;
    let mut claimed = None;
    let made = node::unless_interrupted(async || {
        claimed = Some(claim_folder(&layout)?);
        make(request, &layout, &config).await
    });
    let made = made.and_then(|password| {
        // Last: a folder without settings holds no database.
        write_private(&layout.settings(), text.as_bytes())?;
        report(request, &layout, &config, password.as_deref());
        Ok(())
    });
    if made.is_err() {
        // Only what `init` makes: the folder was empty before.
        let _ = match claimed {
            Some(true) => std::fs::remove_dir_all(layout.dir()),
            Some(false) => empty_folder(layout.dir()),
            None => Ok(()),
        };
    }
    made
}

fn check(request: &Request<'_>) -> Result<()> {
    if !(1..=INSTANCES_MAX).contains(&request.instances) {
        return Err(CliError::usage(format!("--instances must be from 1 to {INSTANCES_MAX}")));
    }
    if request.luns == 0 {
        return Err(CliError::usage("--luns must be at least 1"));
    }
    if request.lun_size_bytes < LUN_BYTES_MIN {
        return Err(CliError::usage("--lun-size must be at least 16M"));
    }
    if request.port_base != 0 && request.port_base.checked_add(request.instances - 1).is_none() {
        return Err(CliError::usage("--port-base leaves no room for that many ports"));
    }
    Ok(())
}

fn settings(set: &[String]) -> Result<Vec<(&str, &str)>> {
    set.iter()
        .map(|text| {
            text.split_once('=')
                .map(|(name, value)| (name.trim(), value.trim()))
                .ok_or_else(|| CliError::usage(format!("--set {text}: expected NAME=VALUE")))
        })
        .collect()
}

/// Makes the folder, or takes an empty one; true if it was made.
fn claim_folder(layout: &Layout) -> Result<bool> {
    let dir = layout.dir();
    if layout.settings().exists() {
        return Err(CliError::state(format!("{} already holds a database", dir.display())));
    }
    if dir.exists() {
        let mut entries = std::fs::read_dir(dir).doing(format_args!("read {}", dir.display()))?;
        if entries.next().is_some() {
            let hint = if layout.secret().exists() {
                ": an init that was interrupted has left files there; remove the folder first"
            } else {
                ""
            };
            return Err(CliError::state(format!("{} is not empty{hint}", dir.display())));
        }
        std::fs::set_permissions(dir, Permissions::from_mode(0o700))
            .doing(format_args!("set the mode of {}", dir.display()))?;
        return Ok(false);
    }
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.doing(format_args!("make {}", dir.display()))?;
    Ok(true)
}

fn empty_folder(dir: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            std::fs::remove_dir_all(path)?;
        } else {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Everything but the settings; gives the password if it was made up.
async fn make(request: &Request<'_>, layout: &Layout, config: &Config) -> Result<Option<String>> {
    let given = std::env::var("SKEIN_PASSWORD").ok().filter(|p| !p.is_empty());
    let password = given.clone().unwrap_or_else(generated_password);
    std::fs::create_dir(layout.run()).doing("make the folder for running instances")?;
    write_private(&layout.secret(), &rand::random::<[u8; 32]>())?;
    node::create_database(
        layout,
        config,
        request.luns,
        request.lun_size_bytes,
        &server::scram_verifier(&password),
    )
    .await?;
    Ok(given.is_none().then_some(password))
}

fn report(request: &Request<'_>, layout: &Layout, config: &Config, generated: Option<&str>) {
    let dir = layout.dir().display();
    say!("database skein made in {dir}");
    say!("  disk group    {} LUNs of {} MiB", request.luns, request.lun_size_bytes >> 20);
    for k in 1..=request.instances {
        let listen = config.listen(k);
        match listen.strip_suffix(":0") {
            Some(host) => say!("  instance {k}    {host}, a free port"),
            None => say!("  instance {k}    {listen}"),
        }
    }
    say!("  settings      {}", layout.settings().display());
    match generated {
        Some(password) => say!("  superuser     skein, password {password} (shown only now)"),
        None => say!("  superuser     skein, password from SKEIN_PASSWORD"),
    }
    say!("start it with: skein start {dir} --all");
}

fn generated_password() -> String {
    let mut rng = rand::rng();
    (0..GENERATED_PASSWORD_CHARS)
        .map(|_| char::from(rng.sample(rand::distr::Alphanumeric)))
        .collect()
}

fn write_private(path: &Path, bytes: &[u8]) -> Result<()> {
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut f| f.write_all(bytes).and_then(|()| f.sync_all()));
    written.map_err(|e| CliError::new(Exit::Failed, format!("write {}: {e}", path.display())))
}
