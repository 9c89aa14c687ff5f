//! `skein`: the one binary. It makes a database, runs and stops its instances, shows their state,
//! runs statements, and looks into blocks and redo.
//!
//! What it promises: every failure has a message on stderr and an exit code that says whose it is
//! (see `--help`). Nothing here knows what is in a block; [`node`] is the only part that opens one.

mod ash;
mod block_text;
mod config;
mod dump;
mod error;
mod init;
mod kept_settings;
mod lab;
mod layout;
mod lun;
mod node;
mod redo_text;
mod reports;
mod runtime;
mod scheduling;
mod shell;
mod start;
mod status;
mod stop;
mod trace_files;
mod traces;
mod verify;

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EXIT_CODES: &str = "\
Exit codes: 0 done; 1 a statement or request failed, or verify has found damage; 2 wrong usage or \
settings; 3 not possible now \
(no database, already one, already running, not running); 4 the disk group is missing, damaged, \
full or refuses direct I/O; 5 an address cannot be used; 6 the effect of an experiment was not \
reproduced; 7 it could not be tested here; 70 an internal invariant is broken; \
130, 143 init or an experiment ended by Ctrl-C, SIGTERM.";

const EXAMPLES: &str = "\
A database in five minutes:
  SKEIN_PASSWORD=secret skein init /tmp/db
  skein start /tmp/db --all
  skein status /tmp/db
  skein sql /tmp/db -c 'select 1'
  PGPASSWORD=secret psql -h 127.0.0.1 -p 6501 -U skein
  skein stop /tmp/db";

/// One SQL database that several server processes open at once from the same disks.
#[derive(Parser)]
#[command(name = "skein", version, after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a database: a disk group with the system files, settings, a superuser.
    ///
    /// The superuser is `skein`, with the password in SKEIN_PASSWORD, or one that is made up and
    /// printed once. A folder that holds anything is refused. What was made until
    /// Ctrl-C or SIGTERM is removed.
    Init(InitArgs),
    /// Start one instance in the foreground, or all in the background.
    Start(StartArgs),
    /// Stop one instance or all, in order; or abort them, as a power cut would.
    Stop {
        /// The database's folder.
        dir: PathBuf,
        /// Only this instance.
        #[arg(long, value_name = "K")]
        instance: Option<u16>,
        /// End the process at once; the next start recovers.
        #[arg(long)]
        abort: bool,
    },
    /// Show every instance: DOWN, STARTING, RECOVERING, OPEN or STOPPING, its address and process.
    Status {
        /// The database's folder.
        dir: PathBuf,
        /// As JSON, for programs.
        #[arg(long)]
        json: bool,
    },
    /// Run statements as the superuser, over the Unix socket in the database's folder.
    Sql(SqlArgs),
    /// Print a block or redo as an engineer reads it. Instances may run meanwhile.
    Dump {
        /// The database's folder.
        dir: PathBuf,
        #[command(subcommand)]
        what: DumpCommand,
    },
    /// Sum up what trace files say of each statement.
    ///
    /// Arguments are files to read, then, where it has no ending .trc, the file to write (else the
    /// report is printed), and options as NAME=VALUE: sort=KEY,.. (such as prsela,exeela,fchela),
    /// print=N, sys=no, aggregate=no, waits=no. Exit code 1: something could not be read; the
    /// report ends with what, by file and line.
    Tkprof {
        /// FILE.. [REPORT] [NAME=VALUE ..]
        #[arg(required = true)]
        arguments: Vec<String>,
    },
    /// Take one session's lines out of trace files.
    ///
    /// Options are output=FILE (else they are printed), session=SID.SERIAL, clientid=, service=,
    /// action= and module=; all that are given must suit.
    Trcsess {
        /// [NAME=VALUE ..] FILE..
        #[arg(required = true)]
        arguments: Vec<String>,
    },
    /// Take a snapshot of the statistics of all instances; prints its number.
    Snapshot {
        /// The database's folder.
        dir: PathBuf,
        /// List the snapshots that are kept instead.
        #[arg(long)]
        list: bool,
    },
    /// Report on what happened between two snapshots; without numbers, the two newest.
    ///
    /// Exit code 3: there are no two snapshots; 2: the end is not after the beginning; 1: there is
    /// no such snapshot, or the instance was restarted between the two.
    Report(ReportArgs),
    /// Say what limited the cluster between two snapshots, with evidence; without numbers, between
    /// the two newest.
    ///
    /// Exit codes as of report.
    Diagnose {
        /// The database's folder.
        dir: PathBuf,
        /// Number of the snapshot to begin with.
        #[arg(requires = "end")]
        begin: Option<i64>,
        /// Number of the snapshot to end with.
        end: Option<i64>,
        /// Take a snapshot first, and end with it.
        #[arg(long, conflicts_with = "begin")]
        now: bool,
    },
    /// Walk all of a database and say what is damaged; nothing is written and no lock is taken.
    ///
    /// Checksums and addresses, control file, undo, dictionary, space, tables, indexes, and every
    /// index against its table. Instances may run meanwhile: what changes is looked at again, and
    /// what cannot be judged is said. A crashed database is judged as recovery will leave it. Exit
    /// code 1: damage was found.
    Verify {
        /// The database's folder.
        dir: PathBuf,
        /// As JSON, for programs.
        #[arg(long)]
        json: bool,
    },
    /// Try what is believed of such databases, on a cluster of its own.
    Lab {
        #[command(subcommand)]
        what: lab::LabCommand,
    },
    /// Add to a database.
    Add {
        #[command(subcommand)]
        what: AddCommand,
    },
}

#[derive(Args)]
struct InitArgs {
    /// The folder to make.
    dir: PathBuf,
    /// Number of instances, 1 to 8.
    #[arg(long, default_value_t = 3)]
    instances: u16,
    /// Number of LUN files.
    #[arg(long, default_value_t = 4)]
    luns: u16,
    /// Size of each; the space is allocated.
    #[arg(long, default_value = "1G", value_parser = parse_size)]
    lun_size: u64,
    /// Instance K listens on 127.0.0.1:P+K-1; 0 takes free ports.
    #[arg(long, value_name = "P", default_value_t = 6501)]
    port_base: u16,
    /// A parameter to write to skein.toml, such as log_file_size=16M, or filesystemio_options=none
    /// for file systems that refuse direct I/O. May be given several times.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
}

#[derive(Args)]
#[command(group = clap::ArgGroup::new("which").required(true).args(["instance", "all"]))]
struct StartArgs {
    /// The database's folder.
    dir: PathBuf,
    /// Run this instance in the foreground; SIGTERM or Ctrl-C stops it in order.
    #[arg(long, value_name = "K")]
    instance: Option<u16>,
    /// Start all instances in the background; returns when all are open.
    #[arg(long)]
    all: bool,
    /// Leave the terminal's session first (how --all starts each instance).
    #[arg(long, hide = true)]
    detached: bool,
}

#[derive(Args)]
struct SqlArgs {
    /// The database's folder.
    dir: PathBuf,
    /// Through this instance; else the first one that is open.
    #[arg(long, value_name = "K")]
    instance: Option<u16>,
    /// Run this text instead of a file. May be given several times.
    #[arg(short, long, value_name = "SQL", conflicts_with = "file")]
    command: Vec<String>,
    /// How results are shown.
    #[arg(long, value_enum, default_value = "aligned")]
    format: shell::Format,
    /// A file of statements, also as `@FILE`; without it they are read from standard input, or
    /// typed.
    file: Option<PathBuf>,
    /// Values of &1, &2 .. in it.
    arguments: Vec<String>,
}

#[derive(Args)]
struct ReportArgs {
    /// The database's folder.
    dir: PathBuf,
    /// Number of the snapshot to begin with.
    #[arg(requires = "end")]
    begin: Option<i64>,
    /// Number of the snapshot to end with.
    end: Option<i64>,
    /// Only this instance.
    #[arg(long, value_name = "K", conflicts_with = "global")]
    instance: Option<u16>,
    /// All instances together and beside each other; so it is without --instance, too, where there
    /// are several.
    #[arg(long)]
    global: bool,
    /// As one HTML page with charts.
    #[arg(long)]
    html: bool,
    /// Write this file instead of printing.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Take a snapshot first, and end with it.
    #[arg(long, conflicts_with = "begin")]
    now: bool,
    /// What sessions did in the last minutes instead (5 without a number), out of the active
    /// session history.
    #[arg(
        long,
        value_name = "MINUTES",
        num_args = 0..=1,
        default_missing_value = "5",
        value_parser = clap::value_parser!(u32).range(1..=10_080),
        conflicts_with_all = ["begin", "now", "global"]
    )]
    ash: Option<u32>,
}

#[derive(Subcommand)]
enum DumpCommand {
    /// A block by its address, such as 4.128: header, transactions, rows.
    ///
    /// It is read from disk; a running instance may have a newer version in its cache. File 3 holds
    /// undo, file 63 the transaction tables, file 4 tables and indexes.
    Block {
        /// FILE.BLOCK
        address: String,
    },
    /// The redo of one instance from its checkpoint on: each record and its change vectors.
    Redo {
        /// Whose redo.
        #[arg(long, value_name = "K", default_value_t = 1)]
        instance: u16,
        /// Only records that change this block.
        #[arg(long, value_name = "FILE.BLOCK")]
        block: Option<String>,
    },
}

#[derive(Subcommand)]
enum AddCommand {
    /// Add a LUN to the disk group; running instances use its space at once.
    Lun {
        /// The database's folder.
        dir: PathBuf,
        /// Size of the new LUN.
        #[arg(long, default_value = "1G", value_parser = parse_size)]
        lun_size: u64,
        /// Path of the new file or device; without it the next file in DIR/luns.
        #[arg(long)]
        path: Option<PathBuf>,
    },
}

fn parse_size(text: &str) -> Result<u64, String> {
    let lower = text.trim().to_ascii_lowercase();
    let number = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &lower[number.len()..] {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        unit => return Err(format!("unknown unit \"{unit}\"; use K, M, G or T")),
    };
    let number: u64 = number.trim().parse().map_err(|_| "expected a size, such as 512M")?;
    number.checked_mul(1 << shift).ok_or_else(|| "too large".to_owned())
}

fn dispatch(cli: Cli) -> error::Result<()> {
    match cli.command {
        Command::Init(a) => init::run(&init::Request {
            dir: &a.dir,
            instances: a.instances,
            luns: a.luns,
            lun_size_bytes: a.lun_size,
            port_base: a.port_base,
            set: &a.set,
        }),
        Command::Start(a) => match a.instance {
            Some(k) => {
                if a.detached {
                    // Fails only for a group leader, which is detached already.
                    let _ = nix::unistd::setsid();
                }
                start::foreground(&a.dir, k)
            }
            None => start::all(&a.dir),
        },
        Command::Stop { dir, instance, abort } => stop::run(&dir, instance, abort),
        Command::Status { dir, json } => status::run(&dir, json),
        Command::Sql(a) => shell::run(&shell::Request {
            dir: &a.dir,
            instance: a.instance,
            commands: &a.command,
            file: a.file.as_deref(),
            arguments: &a.arguments,
            format: a.format,
        }),
        Command::Dump { dir, what } => match what {
            DumpCommand::Block { address } => dump::block(&dir, &address),
            DumpCommand::Redo { instance, block } => dump::redo(&dir, instance, block.as_deref()),
        },
        Command::Tkprof { arguments } => traces::tkprof(&arguments),
        Command::Trcsess { arguments } => traces::trcsess(&arguments),
        Command::Lab { what } => lab::run(what),
        Command::Snapshot { dir, list } => reports::snapshot(&dir, list),
        Command::Report(ReportArgs { ash: Some(minutes), dir, instance, html, output, .. }) => {
            ash::report(&dir, minutes, instance, html, output.as_deref())
        }
        Command::Report(a) => reports::report(&reports::Request {
            dir: &a.dir,
            range: a.begin.zip(a.end),
            instance: a.instance,
            global: a.global,
            html: a.html,
            output: a.output.as_deref(),
            now: a.now,
        }),
        Command::Diagnose { dir, begin, end, now } => reports::diagnose(&dir, begin.zip(end), now),
        Command::Verify { dir, json } => verify::run(&dir, json),
        Command::Add { what: AddCommand::Lun { dir, lun_size, path } } => {
            lun::add(&dir, lun_size, path.as_deref())
        }
    }
}

fn main() -> ExitCode {
    // A reader that closes our output early (head) is no failure worth a panic message.
    let cli = Cli::parse();
    match dispatch(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("skein: {e}");
            ExitCode::from(e.code())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_size("1G"), Ok(1 << 30));
        assert_eq!(parse_size(" 64 MiB"), Ok(64 << 20));
        assert_eq!(parse_size("4096"), Ok(4096));
        for bad in ["", "G", "1X", "-1G", "99999999999T"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }
}
