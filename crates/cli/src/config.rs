//! `skein.toml`: the settings of a database, written with comments, read strictly.
//!
//! What it promises: a key that does not exist and a value that is not allowed are errors naming
//! them; what is not written has the default that the file's comments show.

use crate::error::{CliError, Doing, Result};
use crate::layout::Layout;
use kernel::params::{Modifiable, PARAMETERS, Parameters};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Highest number of instances of one database.
pub const INSTANCES_MAX: u16 = 8;

/// The file as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    instances: u16,
    #[serde(default)]
    parameters: BTreeMap<String, toml::Value>,
    #[serde(default)]
    instance: BTreeMap<String, BTreeMap<String, toml::Value>>,
}

/// The settings of a database.
#[derive(Debug)]
pub struct Config {
    pub instances: u16,
    common: BTreeMap<String, String>,
    own: BTreeMap<u16, Own>,
}

/// What is set for one instance alone.
#[derive(Debug, Default)]
struct Own {
    parameters: BTreeMap<String, String>,
}

/// Parameters that hold the address of one instance: they stand in its section only.
const ADDRESSES: [&str; 4] = ["listen", "interconnect", "interconnect_published", "console_listen"];

/// What stands for the address of a console that shall not be.
pub const NO_CONSOLE: &str = "off";

/// Ports of consoles are so far above those of clients.
const CONSOLE_PORTS_ABOVE: u16 = 100;

/// Everything one instance is started with.
pub struct InstanceConfig {
    /// Address for clients.
    pub listen: String,
    /// Address for the other instances.
    pub interconnect: String,
    /// Address of the web console; `None`: there is none.
    pub console: Option<String>,
    pub parameters: Parameters,
}

impl Config {
    /// Reads and checks the file.
    pub fn load(layout: &Layout) -> Result<Config> {
        let path = layout.settings();
        if !path.exists() {
            return Err(CliError::state(format!(
                "there is no database in {} (make one with: skein init {})",
                layout.dir().display(),
                layout.dir().display()
            )));
        }
        let text = std::fs::read_to_string(&path).doing(format_args!("read {}", path.display()))?;
        Config::parse(&text).map_err(|e| CliError::usage(format!("{}: {e}", path.display())))
    }

    /// Checks a text that is to become the file.
    pub fn check_text(text: &str) -> Result<Config> {
        Config::parse(text).map_err(CliError::usage)
    }

    fn parse(text: &str) -> std::result::Result<Config, String> {
        let file: File = toml::from_str(text).map_err(|e| e.to_string())?;
        if !(1..=INSTANCES_MAX).contains(&file.instances) {
            return Err(format!("instances must be from 1 to {INSTANCES_MAX}"));
        }
        let scratch = Parameters::default();
        if let Some(name) = ADDRESSES.iter().find(|a| file.parameters.contains_key(**a)) {
            return Err(format!("[parameters] {name}: an address belongs to [instance.K]"));
        }
        let common = checked(&scratch, "parameters", file.parameters)?;
        let mut own = BTreeMap::new();
        for (number, table) in file.instance {
            let k = number.parse().ok().filter(|k| (1..=file.instances).contains(k)).ok_or_else(
                || format!("[instance.{number}]: there are instances 1 to {}", file.instances),
            )?;
            let section = format!("instance.{k}");
            for name in ADDRESSES {
                check_address(&table, &section, name)?;
            }
            own.insert(k, Own { parameters: checked(&scratch, &section, table)? });
        }
        Ok(Config { instances: file.instances, common, own })
    }

    /// Whether `k` is one of the database's instances.
    pub fn check_instance(&self, k: u16) -> Result<()> {
        if (1..=self.instances).contains(&k) {
            return Ok(());
        }
        Err(CliError::usage(format!(
            "there is no instance {k}: this database has instances 1 to {}",
            self.instances
        )))
    }

    /// The address clients of instance `k` are told in advance (its port may be 0).
    pub fn listen(&self, k: u16) -> String {
        let own = self.own.get(&k).and_then(|own| own.parameters.get("listen").cloned());
        own.unwrap_or_else(|| Parameters::default().listen())
    }

    /// What instance `k` is started with.
    pub fn for_instance(&self, k: u16) -> Result<InstanceConfig> {
        self.check_instance(k)?;
        let parameters = Parameters::default();
        let own = self.own.get(&k);
        let settings = self.common.iter().chain(own.iter().flat_map(|own| &own.parameters));
        for (name, value) in settings {
            parameters.set(name, value).map_err(|e| CliError::usage(e.to_string()))?;
        }
        let (listen, interconnect) = (parameters.listen(), parameters.interconnect());
        let console = Some(parameters.console_listen()).filter(|at| at != NO_CONSOLE);
        Ok(InstanceConfig { listen, interconnect, console, parameters })
    }
}

fn check_address(
    table: &BTreeMap<String, toml::Value>,
    section: &str,
    key: &str,
) -> std::result::Result<(), String> {
    let Some(value) = table.get(key) else { return Ok(()) };
    let may_be_off = key == "console_listen";
    if may_be_off && value.as_str() == Some(NO_CONSOLE) {
        return Ok(());
    }
    let or_off = if may_be_off { " or \"off\"" } else { "" };
    match value.as_str().unwrap_or_default().parse::<std::net::SocketAddr>() {
        Ok(_) => Ok(()),
        Err(_) => Err(format!("[{section}] {key} must be \"address:port\"{or_off}, not {value}")),
    }
}

fn checked(
    scratch: &Parameters,
    section: &str,
    table: BTreeMap<String, toml::Value>,
) -> std::result::Result<BTreeMap<String, String>, String> {
    let mut settings = BTreeMap::new();
    for (name, value) in table {
        let text = match value {
            toml::Value::String(text) => text,
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Boolean(yes) => yes.to_string(),
            other => return Err(format!("[{section}] {name}: {other} is not a parameter's value")),
        };
        scratch.set(&name, &text).map_err(|e| format!("[{section}] {e}"))?;
        settings.insert(name, text);
    }
    Ok(settings)
}

/// The text of a new `skein.toml`, in which `set` is not left to the defaults.
pub fn template(instances: u16, port_base: u16, set: &[(&str, &str)]) -> String {
    let mut text = String::new();
    text.push_str(
        "# Settings of a Skein database. Read when an instance starts; `show parameter` shows what\n\
         # is in force. A key that does not exist is an error.\n\n",
    );
    let _ = writeln!(text, "# Number of instances; each has a section below.");
    let _ = writeln!(text, "instances = {instances}\n");
    text.push_str(
        "# Parameters of all instances. Those left out have the value shown.\n[parameters]\n",
    );
    let addresses = |name: &str| ADDRESSES.contains(&name);
    for p in PARAMETERS.iter().filter(|p| !addresses(p.name)) {
        let when = match p.modifiable {
            Modifiable::Startup => "",
            Modifiable::System => " (alter system)",
            Modifiable::Session => " (alter system, set)",
        };
        let said = set.iter().find(|(name, _)| *name == p.name);
        let (mark, value) = said.map_or(("# ", p.default), |(_, value)| ("", *value));
        let value = toml::Value::from(value);
        let _ = writeln!(text, "# {}{when}\n{mark}{} = {value}", p.description, p.name);
    }
    // A name that does not exist is written too, for the check of the text to find.
    let known = |name: &str| !addresses(name) && PARAMETERS.iter().any(|p| p.name == name);
    for (name, value) in set.iter().filter(|(n, _)| !known(n)) {
        let _ = writeln!(text, "{} = {}", toml::Value::from(*name), toml::Value::from(*value));
    }
    for k in 1..=instances {
        let port = if port_base == 0 { 0 } else { port_base + k - 1 };
        let console_port = if port == 0 { None } else { port.checked_add(CONSOLE_PORTS_ABOVE) };
        let console_port = console_port.unwrap_or(0);
        let _ = write!(
            text,
            "\n[instance.{k}]\n\
             # Where clients connect; port 0 takes a free one, which `skein status` shows.\n\
             listen = \"127.0.0.1:{port}\"\n\
             # Where the other instances connect; port 0 takes a free one and publishes it.\n\
             interconnect = \"127.0.0.1:0\"\n\
             # What the others are told instead, where a proxy stands before that address.\n\
             # interconnect_published = \"127.0.0.1:6701\"\n\
             # Web console, and metrics for Prometheus; off: neither. Other addresses than those\n\
             # of this machine alone want ssl_cert_file and ssl_key_file.\n\
             console_listen = \"127.0.0.1:{console_port}\"\n\
             # Any parameter written here is for this instance alone.\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_is_read_back_with_all_defaults() {
        let config = Config::parse(&template(3, 6501, &[])).unwrap();
        assert_eq!(config.instances, 3);
        let two = config.for_instance(2).unwrap();
        assert_eq!(two.listen, "127.0.0.1:6502");
        assert_eq!(two.console.as_deref(), Some("127.0.0.1:6602"));
        let set = |r: &kernel::params::ParamRow| !r.is_default && !ADDRESSES.contains(&r.name);
        assert!(!two.parameters.rows().iter().any(set));
        assert!(config.for_instance(4).is_err());
        assert_eq!(Config::parse(&template(1, 0, &[])).unwrap().listen(1), "127.0.0.1:0");
        let buffered = Config::parse(&template(1, 0, &[("filesystemio_options", "none")]))
            .unwrap()
            .for_instance(1)
            .unwrap();
        assert!(!buffered.parameters.direct_io());
        assert!(Config::parse(&template(1, 0, &[("log_files", "no\"such")])).is_err());
        let e = Config::parse(&template(1, 0, &[("a b", "1")])).unwrap_err();
        assert!(e.contains("\"a b\""), "{e}");
    }

    #[test]
    fn every_parameter_can_be_uncommented() {
        let text = template(1, 0, &[]);
        let written = ["listen", "interconnect", "console_listen"];
        for p in PARAMETERS.iter().filter(|p| !written.contains(&p.name)) {
            let line = format!("# {} = ", p.name);
            assert!(text.contains(&line), "{}", p.name);
            Config::parse(&text.replace(&line, &line[2..])).unwrap();
        }
    }

    #[test]
    fn a_console_may_be_off_and_needs_no_port_of_its_own() {
        let console = |text: &str| Config::parse(text).unwrap().for_instance(1).unwrap().console;
        assert_eq!(console("instances = 1\n[instance.1]\nconsole_listen = \"off\"\n"), None);
        assert_eq!(console("instances = 1\n").as_deref(), Some("127.0.0.1:0"));
        // There is no room above the highest port of all.
        assert_eq!(console(&template(1, 65_500, &[])).as_deref(), Some("127.0.0.1:0"));
    }

    #[test]
    fn an_instance_overrides_the_common_value() {
        let text = "instances = 2\n[parameters]\ndb_cache_size = \"64M\"\nlog_files = 4\n\
                    [instance.2]\ndb_cache_size = \"32M\"\n";
        let config = Config::parse(text).unwrap();
        assert_eq!(config.for_instance(1).unwrap().parameters.db_cache_size(), 64 << 20);
        let two = config.for_instance(2).unwrap().parameters;
        assert_eq!((two.db_cache_size(), two.log_files()), (32 << 20, 4));
    }

    #[test]
    fn errors_name_the_key() {
        for (text, named) in [
            ("instances = 1\nport = 3\n", "port"),
            ("instances = 1\n[parameters]\ndb_cash_size = 1\n", "db_cash_size"),
            ("instances = 1\n[parameters]\nlog_files = 1\n", "log_files"),
            ("instances = 1\n[parameters]\nlog_files = [1]\n", "log_files"),
            ("instances = 1\n[instance.1]\nlisten = \"here\"\n", "listen"),
            ("instances = 1\n[instance.1]\nconsole_listen = \"no\"\n", "\"off\""),
            ("instances = 1\n[parameters]\nlisten = \"127.0.0.1:1\"\n", "[instance.K]"),
            ("instances = 1\n[instance.2]\n", "instance.2"),
            ("instances = 99\n", "instances"),
        ] {
            let e = Config::parse(text).unwrap_err();
            assert!(e.contains(named), "{text}: {e}");
        }
    }
}
