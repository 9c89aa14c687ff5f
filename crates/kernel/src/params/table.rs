//! The table of parameters, and the values of one instance.

use super::value::{Kind, Modifiable, ParamDef, ParamError, ParamRow};
use parking_lot::RwLock;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// Declares the parameters: the definition table, the value store and an accessor for each.
///
/// Numeric kinds get an accessor of the type named after `->`; text ones return a `String`.
macro_rules! parameters {
    ($( $name:ident : $kind:expr, $default:literal, $when:ident -> $ty:tt, $doc:literal; )*) => {
        /// Every parameter there is, in the order of `v$parameter`.
        pub const PARAMETERS: &[ParamDef] = &[
            $( ParamDef { name: stringify!($name), kind: $kind, default: $default,
                          modifiable: Modifiable::$when, description: $doc }, )*
        ];

        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[derive(Clone, Copy)]
        enum Index { $( $name, )* }

        impl Parameters {
            $( parameters!(@accessor $name $ty $doc); )*
        }
    };
    (@accessor $name:ident text $doc:literal) => {
        #[doc = $doc]
        #[must_use]
        pub fn $name(&self) -> String {
            self.text(Index::$name)
        }
    };
    (@accessor $name:ident bool $doc:literal) => {
        #[doc = $doc]
        #[must_use]
        pub fn $name(&self) -> bool {
            self.number(Index::$name) != 0
        }
    };
    (@accessor $name:ident word $doc:literal) => {
        #[doc = $doc]
        #[must_use]
        pub fn $name(&self) -> &'static str {
            self.word(Index::$name)
        }
    };
    (@accessor $name:ident $ty:ident $doc:literal) => {
        #[doc = $doc]
        ///
        /// In its base unit: bytes, seconds or milliseconds where it has one.
        ///
        /// # Panics
        /// Never: the declared range fits the type, which a test checks.
        #[must_use]
        pub fn $name(&self) -> $ty {
            $ty::try_from(self.number(Index::$name)).expect("declared range fits the type")
        }
    };
}

const KIB: i64 = 1 << 10;
const MIB: i64 = 1 << 20;
const GIB: i64 = 1 << 30;
const TIB: i64 = 1 << 40;
const DAY_S: i64 = 86_400;
const WEEK_MS: i64 = 7 * DAY_S * 1_000;

parameters! {
    db_cache_size: Kind::Bytes { min: MIB, max: TIB }, "128M", Startup -> u64,
        "Memory of the buffer cache.";
    log_buffer: Kind::Bytes { min: 256 * KIB, max: GIB }, "8M", Startup -> u64,
        "Memory of the redo log buffer.";
    log_file_size: Kind::Bytes { min: MIB, max: 64 * GIB }, "64M", Startup -> u64,
        "Size of each redo log file; used when an instance's redo thread is made.";
    log_files: Kind::Int { min: 2, max: 16 }, "3", Startup -> usize,
        "Number of redo log files of an instance; used when its redo thread is made.";
    undo_retention: Kind::Seconds { min: 0, max: 30 * DAY_S }, "900s", System -> u64,
        "Seconds for which undo of committed transactions is kept for old snapshots.";
    fast_start_mttr_target: Kind::Seconds { min: 1, max: 3_600 }, "5s", System -> u64,
        "Bound for the seconds that crash recovery of this instance may take; \
         the checkpoint is kept close enough for it.";
    filesystemio_options: Kind::Choice(&["none", "directio", "asynch", "setall"]), "setall",
        Startup -> word,
        "How files are opened: setall and directio demand direct I/O, none and asynch go \
         through the operating system's cache.";
    gcs_server_processes: Kind::Int { min: 1, max: 64 }, "1", Startup -> usize,
        "Number of block server (LMS) threads.";
    high_priority_processes: Kind::Text, "LMS*|LGWR", Startup -> text,
        "Threads that run before others, separated by |; a * at the end stands for the rest.";
    os_sched_high_priority: Kind::Int { min: 0, max: 2 }, "1", Startup -> usize,
        "How they do: 0 not at all, 1 by nice -20, 2 by real-time priority, which costs more \
         where instances share a machine. Where that is not allowed the value becomes 0, and the \
         alert log says so.";
    cpu_set: Kind::Text, "", Startup -> text,
        "Processors that the instance's threads run on, as in 0-3,8; empty means all. Where that is \
         refused the value becomes empty, and the alert log says so.";
    high_priority_cpu_set: Kind::Text, "", Startup -> text,
        "Processors for the threads of high_priority_processes, told in the same way; empty means \
         those of cpu_set.";
    pga_aggregate_target: Kind::Bytes { min: 16 * MIB, max: TIB }, "256M", Startup -> u64,
        "Memory for sorts, hashes and other work areas of all statements together. What does not \
         fit is written to temporary files.";
    temp_directory: Kind::Text, "", Startup -> text,
        "Folder of this machine for temporary files; empty means the system's ($TMPDIR or /tmp).";
    max_connections: Kind::Int { min: 1, max: 10_000 }, "100", Startup -> usize,
        "Number of client connections; one more is refused with 53300.";
    superuser_reserved_connections: Kind::Int { min: 0, max: 1_000 }, "3", Startup -> usize,
        "How many of max_connections only superusers may take.";
    open_cursors: Kind::Int { min: 10, max: 65_535 }, "1000", Startup -> usize,
        "Number of prepared statements that one session may hold.";
    statement_timeout: Kind::Millis { min: 0, max: WEEK_MS }, "0", Session -> u64,
        "Milliseconds after which a statement is cancelled; 0 means never.";
    lock_timeout: Kind::Millis { min: 0, max: WEEK_MS }, "0", Session -> u64,
        "Milliseconds after which a wait for a lock is given up; 0 means never.";
    max_parallel_workers_per_gather: Kind::Int { min: 0, max: 1_024 }, "2", Session -> u64,
        "Tasks of the instance that may help a session to read a table of 8 MiB or more; 0 means \
         none.";
    statistics_level: Kind::Choice(&["typical", "all"]), "typical", Session -> word,
        "Whether each execution is measured step by step (all), for `v$sql_plan_statistics`; sessions \
         that are open keep theirs.";
    idle_in_transaction_session_timeout: Kind::Millis { min: 0, max: WEEK_MS }, "0", Session -> u64,
        "Milliseconds after which a session is ended that is idle in a transaction; 0 means never.";
    idle_session_timeout: Kind::Millis { min: 0, max: WEEK_MS }, "0", Session -> u64,
        "Milliseconds after which a session is ended that is idle outside one; 0 means never.";
    ssl_cert_file: Kind::Text, "", Startup -> text,
        "The server's certificate (PEM), those that have signed it behind it; a path in the \
         database's folder or an absolute one. Empty means that nothing is encrypted.";
    ssl_key_file: Kind::Text, "", Startup -> text,
        "The private key (PEM) of ssl_cert_file.";
    ssl_ca_file: Kind::Text, "", Startup -> text,
        "Certificates (PEM) of those who sign clients' certificates; empty means that clients are \
         not asked for one.";
    hba_file: Kind::Text, "pg_hba.conf", Startup -> text,
        "Rules for who may log on from where, in PostgreSQL's form; read again when it has changed. \
         Without the file everybody may, with a password.";
    audit_file: Kind::Text, "", Startup -> text,
        "Path of the audit trail; empty means audit_K.log in the database's folder, off means none.";
    autovacuum: Kind::Bool, "on", System -> bool,
        "Whether tables of which many rows have changed are analyzed without being asked.";
    autovacuum_analyze_scale_factor: Kind::Fraction { min: 0, max: 100_000_000 }, "0.1",
        System -> u64,
        "Part of a table's rows that must have changed, beside autovacuum_analyze_threshold.";
    autovacuum_analyze_threshold: Kind::Int { min: 0, max: 2_147_483_647 }, "50", System -> u64,
        "Rows of a table that must have changed before it is analyzed without being asked.";
    autovacuum_naptime: Kind::Seconds { min: 1, max: 2_147_483 }, "60s", System -> u64,
        "Seconds between two such looks at one table, unless it has grown to twice its size.";
    awr_snapshot_interval: Kind::Seconds { min: 0, max: 365 * DAY_S }, "1h", System -> u64,
        "Seconds after which one of the instances takes a snapshot of the statistics of all; 0 \
         means only on request.";
    awr_snapshot_retention: Kind::Seconds { min: 60, max: 3_650 * DAY_S }, "8d", System -> u64,
        "Seconds for which snapshots of the statistics are kept.";
    audit_file_size: Kind::Bytes { min: 16 * KIB, max: 64 * GIB }, "16M", System -> u64,
        "Size at which the audit trail begins a new file.";
    audit_files: Kind::Int { min: 0, max: 1_000 }, "5", System -> usize,
        "How many older files of the audit trail are kept.";
    _lgwr_flush_delay_us: Kind::Int { min: 0, max: 10_000_000 }, "0", System -> u64,
        "Microseconds that each flush of the log writer takes longer: for experiments.";
    _disk_delay_us: Kind::Int { min: 0, max: 10_000_000 }, "0", System -> u64,
        "Microseconds that each read and write of the disk group takes longer: for experiments.";
    _disk_failing_lun: Kind::Int { min: 0, max: 65_535 }, "0", System -> u16,
        "Counted from 1, the LUN of which each read and write fails on this instance: for \
         experiments; 0 means none.";
    _db_block_buffers: Kind::Int { min: 0, max: 1_000_000_000 }, "0", Startup -> usize,
        "Buffers of the cache whatever db_cache_size says, for experiments with very small ones; 0 \
         means that it counts.";
    _dbwr_interval_us: Kind::Int { min: 1_000, max: 10_000_000 }, "100000", Startup -> u64,
        "Microseconds between two rounds of the block writer, each with a checkpoint.";
    _itl_entries_max: Kind::Int { min: 2, max: 100 }, "100", Startup -> u8,
        "Entries that a block's list of transactions grows to: for experiments.";
    _gc_spin_us: Kind::Int { min: 0, max: 10_000 }, "250", Startup -> u64,
        "Microseconds for which a session looks for another instance's answer before it sleeps, \
         as long as no other thread wants its processor; 0: it sleeps at once.";
    _gc_direct_reads: Kind::Bool, "on", Startup -> bool,
        "Whether an instance looks into the memory of the others on its machine for consistent \
         reads, states of transactions and news of commits, instead of sending messages.";
    _ash_size: Kind::Bytes { min: 64 * KIB, max: GIB }, "16M", System -> u64,
        "Memory of the active session history, which `v$active_session_history` shows.";
    diagnostic_dest: Kind::Text, "", Startup -> text,
        "Folder of trace files; empty means trace in the database's folder.";
    max_dump_file_size: Kind::Bytes { min: 0, max: TIB }, "0", Session -> u64,
        "Size at which a session's trace ends; 0 means never.";
    alert_log: Kind::Text, "", Startup -> text,
        "Path of the alert log; empty means alert_K.log in the database's folder.";
    service_names: Kind::Text, "", Startup -> text,
        "Names, with commas between them, that clients may connect to as if they were databases, \
         beside skein; each is a service by which sessions are told apart, and traced.";
    listen: Kind::Text, "127.0.0.1:0", Startup -> text,
        "Where clients connect; port 0 takes a free one, which `skein status` shows.";
    interconnect: Kind::Text, "127.0.0.1:0", Startup -> text,
        "Where the other instances connect; port 0 takes a free one and publishes it.";
    interconnect_published: Kind::Text, "", Startup -> text,
        "The address that the other instances are told to connect to, where a proxy or a translated \
         address stands before `interconnect`; empty means `interconnect` itself.";
    console_listen: Kind::Text, "127.0.0.1:0", Startup -> text,
        "Where browsers find the web console and Prometheus its metrics; port 0 takes a free one, \
         which `skein status` shows; off means neither.";
}

/// The values of one instance's parameters.
pub struct Parameters {
    numbers: Box<[AtomicI64]>,
    /// Changed while the instance runs.
    altered: Box<[AtomicBool]>,
    texts: RwLock<Vec<String>>,
}

impl Default for Parameters {
    fn default() -> Parameters {
        let defaults =
            PARAMETERS.iter().map(|p| AtomicI64::new(p.kind.parse(p.default).unwrap_or(0)));
        Parameters {
            numbers: defaults.collect(),
            altered: PARAMETERS.iter().map(|_| AtomicBool::new(false)).collect(),
            texts: RwLock::new(PARAMETERS.iter().map(|p| p.default.to_owned()).collect()),
        }
    }
}

impl Parameters {
    /// Sets a value before the instance runs (from `skein.toml`, or a test).
    ///
    /// # Errors
    /// Unknown name, or a value its kind does not allow.
    pub fn set(&self, name: &str, value: &str) -> Result<(), ParamError> {
        let (at, def) = find(name)?;
        let number = check(def, value)?;
        self.store(at, number, value);
        Ok(())
    }

    /// Changes a value of the running instance (`alter system set`).
    ///
    /// # Errors
    /// As [`Parameters::set`], and [`ParamError::Fixed`] for one that only `skein.toml` sets.
    pub fn alter_system(&self, name: &str, value: &str) -> Result<(), ParamError> {
        let (at, def) = find(name)?;
        if def.modifiable == Modifiable::Startup {
            return Err(ParamError::Fixed { name: def.name.to_owned() });
        }
        let number = check(def, value)?;
        self.store(at, number, value);
        self.altered[at].store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Checks a value that is to hold from the next start on; gives the name as it is declared.
    ///
    /// # Errors
    /// As [`Parameters::set`].
    pub fn check_start(name: &str, value: &str) -> Result<&'static str, ParamError> {
        let (_, def) = find(name)?;
        check(def, value)?;
        Ok(def.name)
    }

    /// The default of a parameter, as a user would write it, and its name as it is declared.
    ///
    /// # Errors
    /// Unknown name.
    pub fn default_of(name: &str) -> Result<(&'static str, &'static str), ParamError> {
        find(name).map(|(_, def)| (def.name, def.default))
    }

    /// Whether a parameter changes only when an instance starts.
    ///
    /// # Errors
    /// Unknown name.
    pub fn is_fixed(name: &str) -> Result<bool, ParamError> {
        find(name).map(|(_, def)| def.modifiable == Modifiable::Startup)
    }

    /// Checks a value that a session sets for itself; gives its number in the base unit.
    ///
    /// # Errors
    /// As [`Parameters::set`], and [`ParamError::Fixed`] for one that a session may not set.
    pub fn check_session(name: &str, value: &str) -> Result<i64, ParamError> {
        let (_, def) = find(name)?;
        if !def.modifiable.in_session() {
            return Err(ParamError::Fixed { name: def.name.to_owned() });
        }
        check(def, value)
    }

    /// A value as a user would write it.
    ///
    /// # Errors
    /// Unknown name.
    pub fn show(&self, name: &str) -> Result<String, ParamError> {
        let (at, _) = find(name)?;
        Ok(self.row(at).display_value)
    }

    /// All rows of `v$parameter`.
    #[must_use]
    pub fn rows(&self) -> Vec<ParamRow> {
        (0..PARAMETERS.len()).map(|at| self.row(at)).collect()
    }

    /// Whether files must be opened with direct I/O.
    #[must_use]
    pub fn direct_io(&self) -> bool {
        matches!(self.filesystemio_options(), "setall" | "directio")
    }

    fn row(&self, at: usize) -> ParamRow {
        let def = &PARAMETERS[at];
        let number = self.numbers[at].load(Ordering::Relaxed);
        let (value, display_value) = if def.kind == Kind::Text {
            let text = self.texts.read()[at].clone();
            (text.clone(), text)
        } else {
            (def.kind.value_text(number), def.kind.display_text(number))
        };
        let is_default = if def.kind == Kind::Text {
            value == def.default
        } else {
            def.kind.parse(def.default) == Some(number)
        };
        ParamRow {
            num: i32::try_from(at + 1).unwrap_or(i32::MAX),
            name: def.name,
            type_name: def.kind.type_name(),
            value,
            display_value,
            default_value: def.default,
            is_default,
            is_altered: self.altered[at].load(Ordering::Relaxed),
            system_modifiable: def.modifiable.system_word(),
            session_modifiable: def.modifiable.in_session(),
            description: def.description,
        }
    }

    fn store(&self, at: usize, number: i64, text: &str) {
        self.numbers[at].store(number, Ordering::Relaxed);
        text.clone_into(&mut self.texts.write()[at]);
    }

    fn number(&self, index: Index) -> i64 {
        self.numbers[index as usize].load(Ordering::Relaxed)
    }

    fn text(&self, index: Index) -> String {
        self.texts.read()[index as usize].clone()
    }

    fn word(&self, index: Index) -> &'static str {
        let Kind::Choice(words) = PARAMETERS[index as usize].kind else { return "" };
        usize::try_from(self.number(index)).ok().and_then(|at| words.get(at)).copied().unwrap_or("")
    }
}

fn find(name: &str) -> Result<(usize, &'static ParamDef), ParamError> {
    PARAMETERS
        .iter()
        .enumerate()
        .find(|(_, p)| p.name.eq_ignore_ascii_case(name))
        .ok_or_else(|| ParamError::Unknown { name: name.to_owned() })
}

/// The value's number; 0 for text.
fn check(def: &ParamDef, value: &str) -> Result<i64, ParamError> {
    if def.kind == Kind::Text {
        return Ok(0);
    }
    def.kind.parse(value).ok_or_else(|| ParamError::Invalid {
        name: def.name.to_owned(),
        value: value.to_owned(),
        expected: def.kind.expected(),
    })
}
