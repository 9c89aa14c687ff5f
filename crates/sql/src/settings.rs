//! Settings of a session: `SET`, `SHOW`, `RESET`, and what the client is told at the start.
//!
//! What it promises: a setting either has the effect its name promises, or is one of those that
//! clients set and that have
//! no meaning here, named in [`ACCEPTED`]; anything else is refused.

use crate::{PgError, Result};
use kernel::txn::Isolation;
use query::datetime::Zone;
use std::collections::BTreeMap;

/// `server_version`: clients branch on its number.
pub(crate) const SERVER_VERSION: &str = concat!("15.0 (Skein ", env!("CARGO_PKG_VERSION"), ")");
/// What `version()` says.
pub(crate) const VERSION_TEXT: &str = concat!(
    "PostgreSQL 15.0 (Skein ",
    env!("CARGO_PKG_VERSION"),
    "), a shared-disk cluster database"
);

/// Settings with fixed values: setting them to something else is refused.
const FIXED: &[(&str, &str)] = &[
    ("server_version", SERVER_VERSION),
    ("server_version_num", "150000"),
    ("server_encoding", "UTF8"),
    ("client_encoding", "UTF8"),
    ("integer_datetimes", "on"),
    ("standard_conforming_strings", "on"),
    ("in_hot_standby", "off"),
    ("block_size", "8192"),
    ("max_identifier_length", "63"),
    ("lc_collate", "C"),
    ("lc_ctype", "C.UTF-8"),
    ("lc_messages", "C"),
    ("lc_monetary", "C"),
    ("lc_numeric", "C"),
    ("lc_time", "C"),
    ("max_index_keys", "32"),
    ("password_encryption", "scram-sha-256"),
];

/// Settings that clients make and that change nothing here.
const ACCEPTED: &[(&str, &str)] = &[
    ("application_name", ""),
    ("bytea_output", "hex"),
    ("client_min_messages", "notice"),
    ("datestyle", "ISO, MDY"),
    ("default_tablespace", ""),
    ("default_table_access_method", "heap"),
    ("escape_string_warning", "on"),
    ("extra_float_digits", "1"),
    ("idle_in_transaction_session_timeout", "0"),
    ("idle_session_timeout", "0"),
    ("intervalstyle", "postgres"),
    ("row_security", "on"),
    ("check_function_bodies", "on"),
    ("synchronize_seqscans", "on"),
    ("synchronous_commit", "on"),
    ("timezone_abbreviations", "Default"),
    ("work_mem", "4MB"),
    ("maintenance_work_mem", "64MB"),
    ("xmloption", "content"),
    ("search_path", "\"$user\", public"),
    ("geqo", "on"),
    ("jit", "off"),
    ("constraint_exclusion", "partition"),
    ("cpu_index_tuple_cost", "0.005"),
    ("cpu_operator_cost", "0.0025"),
    ("cpu_tuple_cost", "0.01"),
    ("default_statistics_target", "100"),
    ("default_text_search_config", "pg_catalog.simple"),
    ("effective_cache_size", "4GB"),
    ("effective_io_concurrency", "1"),
    ("enable_bitmapscan", "on"),
    ("enable_hashagg", "on"),
    ("enable_hashjoin", "on"),
    ("enable_indexonlyscan", "on"),
    ("enable_indexscan", "on"),
    ("enable_material", "on"),
    ("enable_mergejoin", "on"),
    ("enable_nestloop", "on"),
    ("enable_seqscan", "on"),
    ("enable_sort", "on"),
    ("enable_tidscan", "on"),
    ("from_collapse_limit", "8"),
    ("geqo_threshold", "12"),
    ("hash_mem_multiplier", "2"),
    ("join_collapse_limit", "8"),
    ("parallel_setup_cost", "1000"),
    ("parallel_tuple_cost", "0.1"),
    ("plan_cache_mode", "auto"),
    ("random_page_cost", "4"),
    ("seq_page_cost", "1"),
    ("temp_buffers", "8MB"),
    ("max_parallel_workers_per_gather", "2"),
    ("statement_timeout", "0"),
    ("statistics_level", "typical"),
    ("lock_timeout", "0"),
    ("timezone", "UTC"),
    ("default_transaction_isolation", "read committed"),
    ("transaction_isolation", "read committed"),
    ("default_transaction_read_only", "off"),
    ("transaction_read_only", "off"),
    ("default_transaction_deferrable", "off"),
    ("transaction_deferrable", "off"),
    ("session_authorization", "skein"),
    ("role", "none"),
];

/// What a client is told at the start, with nothing asked.
const TOLD: &[&str] = &[
    "application_name",
    "client_encoding",
    "datestyle",
    "default_transaction_read_only",
    "in_hot_standby",
    "integer_datetimes",
    "intervalstyle",
    "is_superuser",
    "server_encoding",
    "server_version",
    "session_authorization",
    "standard_conforming_strings",
    "timezone",
];

/// Settings whose changes the client is told.
const REPORTED: &[&str] =
    &["application_name", "datestyle", "timezone", "intervalstyle", "session_authorization"];

/// Settings that say who the session is.
const IDENTITY: [&str; 3] = ["role", "session_authorization", "is_superuser"];

/// The settings of one session.
pub(crate) struct Settings {
    values: BTreeMap<String, String>,
    /// What `RESET` goes back to: the startup packet's.
    defaults: BTreeMap<String, String>,
    /// Values to go back to when the transaction ends.
    local: Vec<(String, Option<String>)>,
    /// Values to go back to when the transaction rolls back.
    undo: Vec<(String, Option<String>)>,
    pub(crate) superuser: bool,
    pub(crate) zone: Zone,
    pub(crate) zone_name: String,
    pub(crate) statement_timeout_us: u64,
    pub(crate) lock_timeout_us: u64,
    pub(crate) idle_in_transaction_us: u64,
    pub(crate) idle_session_us: u64,
    /// `max_parallel_workers_per_gather`.
    pub(crate) workers: usize,
    /// Whether all executions are measured step by step: `statistics_level`.
    pub(crate) measures: bool,
    pub(crate) isolation: Isolation,
    pub(crate) read_only: bool,
    /// Schemas looked through for a name without one, as they were given: `$user` may be among
    /// them, and some may not be there.
    pub(crate) search_path: Vec<String>,
    changes: Vec<(String, String)>,
}

fn shown_name(name: &str) -> &str {
    match name {
        "datestyle" => "DateStyle",
        "timezone" => "TimeZone",
        "intervalstyle" => "IntervalStyle",
        other => other,
    }
}

/// A duration as PostgreSQL takes it: milliseconds unless a unit follows.
fn parse_duration_us(name: &str, value: &str) -> Result<u64> {
    let text = value.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let invalid = || {
        PgError::new("22023", format!("invalid value for parameter \"{name}\": \"{value}\""))
            .with_hint("Valid units for this parameter are \"us\", \"ms\", \"s\", \"min\", \"h\", and \"d\".")
    };
    let factor = match text[digits..].trim() {
        "" | "ms" => 1_000,
        "us" => 1,
        "s" => 1_000_000,
        "min" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => return Err(invalid()),
    };
    let number: u64 = text[..digits].parse().map_err(|_| invalid())?;
    number.checked_mul(factor).ok_or_else(invalid)
}

fn parse_workers(name: &str, value: &str) -> Result<usize> {
    const WORKERS_MAX: i64 = 1024;
    let number: i64 = value.trim().parse().map_err(|_| {
        PgError::new("22023", format!("invalid value for parameter \"{name}\": \"{value}\""))
    })?;
    let within = usize::try_from(number).ok().filter(|_| number <= WORKERS_MAX);
    within.ok_or_else(|| {
        let range = format!("(0 .. {WORKERS_MAX})");
        let text = format!("{number} is outside the valid range for parameter \"{name}\" {range}");
        PgError::new("22023", text)
    })
}

/// Whether executions are measured step by step.
fn parse_statistics_level(name: &str, value: &str) -> Result<bool> {
    match value.trim().to_ascii_lowercase().as_str() {
        "typical" => Ok(false),
        "all" => Ok(true),
        "basic" => Err(PgError::unsupported("statistics_level = basic")
            .with_hint("What is counted costs too little to be switched off: TYPICAL, or ALL.")),
        _ => Err(invalid_value(name, value).with_hint("Available values: typical, all.")),
    }
}

/// The isolation level of a name.
pub(crate) fn parse_isolation(text: &str) -> Result<Isolation> {
    match text.trim().to_ascii_lowercase().as_str() {
        "read committed" | "read uncommitted" => Ok(Isolation::ReadCommitted),
        "repeatable read" => Ok(Isolation::RepeatableRead),
        "serializable" => Err(serializable()),
        other => Err(PgError::new(
            "22023",
            format!("invalid value for parameter \"transaction_isolation\": \"{other}\""),
        )),
    }
}

pub(crate) fn serializable() -> PgError {
    PgError::unsupported("isolation level SERIALIZABLE").with_hint(
        "Use REPEATABLE READ, and SELECT ... FOR UPDATE on rows whose values a decision depends on.",
    )
}

impl Settings {
    pub(crate) fn new(user: &str, startup: &[(String, String)]) -> Result<Settings> {
        let mut settings = Settings {
            values: BTreeMap::new(),
            defaults: BTreeMap::new(),
            local: Vec::new(),
            undo: Vec::new(),
            superuser: true,
            zone: Zone::utc(),
            zone_name: "UTC".to_owned(),
            statement_timeout_us: 0,
            lock_timeout_us: 0,
            idle_in_transaction_us: 0,
            idle_session_us: 0,
            workers: 2,
            measures: false,
            isolation: Isolation::ReadCommitted,
            read_only: false,
            search_path: vec!["$user".to_owned(), "public".to_owned()],
            changes: Vec::new(),
        };
        settings.values.insert("session_authorization".into(), user.to_owned());
        for (name, value) in startup {
            let name = name.to_ascii_lowercase();
            if IDENTITY.contains(&name.as_str()) {
                let text = format!("\"{name}\" at log-on");
                return Err(PgError::unsupported(text).with_hint("Use SET ROLE."));
            } else if name == "client_encoding" {
                check_encoding(value)?;
            } else {
                settings.assign(&name, Some(value))?;
            }
        }
        settings.defaults = settings.values.clone();
        settings.changes = TOLD
            .iter()
            .filter_map(|name| Some((shown_name(name).to_owned(), settings.show(name)?)))
            .collect();
        Ok(settings)
    }

    /// `SET name = value`; `None` is DEFAULT.
    pub(crate) fn set(&mut self, name: &str, value: Option<&str>, local: bool) -> Result<()> {
        let name = name.to_ascii_lowercase();
        if IDENTITY.contains(&name.as_str()) && value.is_some() {
            // Who may be whom is not for a list of values to say.
            return Err(PgError::unsupported(format!("\"{name}\" as a setting"))
                .with_hint("Use SET ROLE or SET SESSION AUTHORIZATION."));
        }
        self.set_any(name, value, local)
    }

    /// A role that has been found to be allowed.
    pub(crate) fn set_identity(
        &mut self,
        name: &str,
        value: Option<&str>,
        local: bool,
    ) -> Result<()> {
        self.set_any(name.to_owned(), value, local)
    }

    /// The client is told whether it is one now.
    pub(crate) fn note_superuser(&mut self, superuser: bool) {
        if self.superuser != superuser {
            self.superuser = superuser;
            let shown = if superuser { "on" } else { "off" };
            self.changes.push(("is_superuser".to_owned(), shown.to_owned()));
        }
    }

    /// What a session begins with unless its client has said otherwise.
    pub(crate) fn begin_with(&mut self, name: &str, value: &str) -> Result<()> {
        let name = name.to_ascii_lowercase();
        if IDENTITY.contains(&name.as_str()) || self.defaults.contains_key(&name) {
            return Ok(());
        }
        self.assign(&name, Some(value))?;
        if let Some(value) = self.values.get(&name) {
            self.defaults.insert(name, value.clone());
        }
        Ok(())
    }

    /// Whether a session could take this value.
    pub(crate) fn check(name: &str, value: &str) -> Result<()> {
        Settings::new("", &[])?.set(name, Some(value), false)
    }

    fn set_any(&mut self, name: String, value: Option<&str>, local: bool) -> Result<()> {
        let before = self.values.get(&name).cloned();
        self.assign(&name, value)?;
        self.undo.push((name.clone(), before.clone()));
        if local {
            self.local.push((name, before));
        }
        Ok(())
    }

    fn assign(&mut self, name: &str, value: Option<&str>) -> Result<()> {
        if let Some((_, fixed)) = FIXED.iter().find(|(known, _)| *known == name) {
            return match value {
                None => Ok(()),
                Some(value) if name == "client_encoding" => check_encoding(value),
                Some(value) if value.eq_ignore_ascii_case(fixed) => Ok(()),
                Some(_) => {
                    Err(PgError::new("55P02", format!("parameter \"{name}\" cannot be changed")))
                }
            };
        }
        let custom = name.contains('.');
        let known = ACCEPTED.iter().find(|(known, _)| *known == name);
        if known.is_none() && !custom {
            return Err(PgError::new(
                "42704",
                format!("unrecognized configuration parameter \"{name}\""),
            ));
        }
        let default = self.defaults.get(name).cloned();
        let value = match value {
            Some(value) => value.to_owned(),
            None => {
                default.or_else(|| known.map(|(_, value)| (*value).to_owned())).unwrap_or_default()
            }
        };
        self.apply(name, &value)?;
        if REPORTED.contains(&name) && self.values.get(name) != Some(&value) {
            self.changes.push((shown_name(name).to_owned(), value.clone()));
        }
        self.values.insert(name.to_owned(), value);
        Ok(())
    }

    fn apply(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "timezone" => {
                self.zone = Zone::parse(value)?;
                value.clone_into(&mut self.zone_name);
            }
            "statement_timeout" => self.statement_timeout_us = parse_duration_us(name, value)?,
            "max_parallel_workers_per_gather" => self.workers = parse_workers(name, value)?,
            "lock_timeout" => self.lock_timeout_us = parse_duration_us(name, value)?,
            "idle_in_transaction_session_timeout" => {
                self.idle_in_transaction_us = parse_duration_us(name, value)?;
            }
            "idle_session_timeout" => self.idle_session_us = parse_duration_us(name, value)?,
            "default_transaction_isolation" => self.isolation = parse_isolation(value)?,
            "default_transaction_read_only" => self.read_only = query::cast::parse_bool(value)?,
            "statistics_level" => self.measures = parse_statistics_level(name, value)?,
            "bytea_output" if value != "hex" => {
                return Err(PgError::unsupported("bytea_output other than hex"));
            }
            "datestyle" => {
                let iso = value.to_ascii_uppercase();
                if !iso.contains("ISO") && !["MDY", "DMY", "YMD"].contains(&iso.trim()) {
                    return Err(PgError::unsupported("a DateStyle other than ISO"));
                }
                if iso.contains("DMY") || iso.contains("YMD") {
                    let what = "a DateStyle in which months do not come first";
                    return Err(PgError::unsupported(what));
                }
            }
            "intervalstyle" => check_interval_style(value)?,
            "extra_float_digits" => check_float_digits(value)?,
            "client_min_messages" if !MESSAGES.contains(&value.to_ascii_lowercase().as_str()) => {
                let hint = format!("Available values: {}.", MESSAGES[..9].join(", "));
                return Err(invalid_value(name, value).with_hint(hint));
            }
            "search_path" => {
                self.search_path = parse_name_list(value).ok_or_else(|| {
                    let text = format!("invalid value for parameter \"search_path\": \"{value}\"");
                    PgError::new("22023", text).with_detail("List syntax is invalid.")
                })?;
            }
            _ => {}
        }
        Ok(())
    }

    /// The value `SHOW` shows.
    pub(crate) fn show(&self, name: &str) -> Option<String> {
        let name = name.to_ascii_lowercase();
        if name == "is_superuser" {
            return Some(if self.superuser { "on" } else { "off" }.to_owned());
        }
        if let Some((_, value)) = FIXED.iter().find(|(known, _)| *known == name) {
            return Some((*value).to_owned());
        }
        if let Some(value) = self.values.get(&name) {
            return Some(value.clone());
        }
        ACCEPTED.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    }

    /// All settings, for `SHOW ALL` and `pg_settings`.
    pub(crate) fn all(&self) -> Vec<(String, String)> {
        let mut all: BTreeMap<String, String> = BTreeMap::new();
        for (name, value) in FIXED.iter().chain(ACCEPTED) {
            all.insert((*name).to_owned(), (*value).to_owned());
        }
        all.insert("is_superuser".to_owned(), self.show("is_superuser").unwrap_or_default());
        all.extend(self.values.iter().map(|(k, v)| (k.clone(), v.clone())));
        all.into_iter().map(|(name, value)| (shown_name(&name).to_owned(), value)).collect()
    }

    /// `RESET ALL`, `DISCARD ALL`; the role stays what it is.
    pub(crate) fn reset_all(&mut self) -> Result<()> {
        let stays = |name: &str| matches!(name, "role" | "session_authorization");
        let names: Vec<String> = self.values.keys().filter(|name| !stays(name)).cloned().collect();
        for name in names {
            self.assign(&name, None)?;
        }
        Ok(())
    }

    fn put_back(&mut self, changes: Vec<(String, Option<String>)>) {
        for (name, value) in changes.into_iter().rev() {
            // What was set before is valid.
            let _ = self.assign(&name, value.as_deref());
        }
    }

    /// The transaction has ended; true if a setting may have changed by that.
    pub(crate) fn end_transaction(&mut self, committed: bool) -> bool {
        if self.local.is_empty() && self.undo.is_empty() {
            return false;
        }
        let (local, undo) = (std::mem::take(&mut self.local), std::mem::take(&mut self.undo));
        self.put_back(if committed { local } else { undo });
        true
    }

    pub(crate) fn take_changes(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.changes)
    }
}

/// The words of `client_min_messages`, from the least to the most important one, and two more for
/// some of them.
const MESSAGES: [&str; 11] = [
    "debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error", "debug",
    "info",
];

fn invalid_value(name: &str, value: &str) -> PgError {
    PgError::new("22023", format!("invalid value for parameter \"{name}\": \"{value}\""))
}

fn check_interval_style(value: &str) -> Result<()> {
    match value.to_ascii_lowercase().as_str() {
        "postgres" => Ok(()),
        "postgres_verbose" | "sql_standard" | "iso_8601" => {
            Err(PgError::unsupported("an IntervalStyle other than postgres"))
        }
        _ => {
            let hint = "Available values: postgres, postgres_verbose, sql_standard, iso_8601.";
            Err(invalid_value("intervalstyle", value).with_hint(hint))
        }
    }
}

/// Numbers are always written with as many digits as tell them from others.
fn check_float_digits(value: &str) -> Result<()> {
    match value.trim().parse::<i32>() {
        Ok(1..=3) => Ok(()),
        Ok(-15..=0) => Err(PgError::unsupported("extra_float_digits below 1")),
        Ok(number) => {
            let of = "is outside the valid range for parameter \"extra_float_digits\" (-15 .. 3)";
            Err(PgError::new("22023", format!("{number} {of}")))
        }
        Err(_) => Err(invalid_value("extra_float_digits", value)),
    }
}

impl Settings {
    /// Whether the client wants to see notices, and warnings.
    pub(crate) fn shows(&self, severity: crate::Severity) -> bool {
        let wanted = self.show("client_min_messages").unwrap_or_default().to_ascii_lowercase();
        let rank = |word: &str| MESSAGES.iter().position(|known| *known == word).unwrap_or(0);
        match severity {
            crate::Severity::Notice => {
                rank(&wanted) <= rank("notice") || matches!(wanted.as_str(), "debug" | "info")
            }
            crate::Severity::Warning => wanted != "error",
            _ => true,
        }
    }
}

/// Names in a list: folded unless quoted.
fn parse_name_list(text: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut rest = text.trim();
    if rest.is_empty() {
        return Some(names);
    }
    loop {
        let name;
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut own = String::new();
            let mut chars = quoted.char_indices().peekable();
            let end = loop {
                match chars.next()? {
                    (_, '"') if chars.peek().is_some_and(|(_, c)| *c == '"') => {
                        own.push('"');
                        chars.next();
                    }
                    (at, '"') => break at + 1,
                    (_, c) => own.push(c),
                }
            };
            (name, rest) = (own, quoted[end..].trim_start());
        } else {
            let end = rest.find(|c: char| c == ',' || c.is_whitespace()).unwrap_or(rest.len());
            if end == 0 {
                return None;
            }
            (name, rest) = (rest[..end].to_lowercase(), rest[end..].trim_start());
        }
        names.push(name);
        if rest.is_empty() {
            return Some(names);
        }
        rest = rest.strip_prefix(',')?.trim_start();
    }
}

fn check_encoding(value: &str) -> Result<()> {
    let name: String = value.chars().filter(char::is_ascii_alphanumeric).collect();
    if ["utf8", "unicode", "default", ""].contains(&name.to_ascii_lowercase().as_str()) {
        return Ok(());
    }
    Err(PgError::new(
        "22023",
        format!("invalid value for parameter \"client_encoding\": \"{value}\""),
    )
    .with_hint("The only encoding is UTF8."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings::new("u", &[("TimeZone".into(), "+02".into())]).unwrap()
    }

    #[test]
    fn values_are_checked_and_reset_to_the_startup_packets() {
        let mut s = settings();
        assert_eq!(s.show("timezone").unwrap(), "+02");
        let told = s.take_changes();
        assert!(told.contains(&("server_version".to_owned(), SERVER_VERSION.to_owned())));
        s.set("TimeZone", Some("UTC"), false).unwrap();
        assert_eq!(s.take_changes(), [("TimeZone".to_owned(), "UTC".to_owned())]);
        s.set("timezone", None, false).unwrap();
        assert_eq!(s.show("TIMEZONE").unwrap(), "+02");
        assert_eq!(s.set("nonsense", Some("1"), false).unwrap_err().code, "42704");
        assert_eq!(s.set("server_version", Some("9"), false).unwrap_err().code, "55P02");
        assert_eq!(s.set("statement_timeout", Some("1 week"), false).unwrap_err().code, "22023");
        s.set("statement_timeout", Some("2s"), false).unwrap();
        assert_eq!(s.statement_timeout_us, 2_000_000);
        let error =
            s.set("default_transaction_isolation", Some("serializable"), false).unwrap_err();
        assert_eq!(error.code, "0A000");
        assert!(s.set("client_encoding", Some("'UTF-8'"), false).is_ok());
        assert_eq!(s.set("client_encoding", Some("LATIN1"), false).unwrap_err().code, "22023");
    }

    #[test]
    fn changes_end_with_their_transaction() {
        let mut s = settings();
        s.set("lock_timeout", Some("5"), false).unwrap();
        s.end_transaction(true);
        s.set("lock_timeout", Some("7"), true).unwrap();
        assert_eq!(s.lock_timeout_us, 7_000);
        s.end_transaction(true);
        assert_eq!(s.lock_timeout_us, 5_000);
        s.set("lock_timeout", Some("9"), false).unwrap();
        s.end_transaction(false);
        assert_eq!(s.lock_timeout_us, 5_000);
    }
}
