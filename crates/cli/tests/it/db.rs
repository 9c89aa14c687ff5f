//! A database for one test.

use std::fmt::Write as _;
use std::io::{Read, Seek, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub const PASSWORD: &str = "it's a secret";
/// Bound for waits that end by a condition.
const LIMIT: Duration = Duration::from_secs(60);

/// The binary under test.
pub fn skein() -> Command {
    let built = env!("CARGO_BIN_EXE_skein");
    let program = std::env::var_os("SKEIN_BIN").unwrap_or_else(|| built.into());
    let mut command = Command::new(program);
    command.env("SKEIN_PASSWORD", PASSWORD);
    command
}

/// Standard output of a command that must succeed.
pub fn succeed(command: &mut Command) -> String {
    let out = command.output().expect("the program runs");
    assert!(out.status.success(), "{command:?} failed: {}", all_text(&out));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// What a command that must fail with `code` printed.
pub fn fail(code: i32, command: &mut Command) -> String {
    let out = command.output().expect("the program runs");
    assert_eq!(out.status.code(), Some(code), "{command:?}: {}", all_text(&out));
    all_text(&out)
}

pub fn all_text(out: &Output) -> String {
    let mut text = String::from_utf8_lossy(&out.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&out.stderr));
    text
}

/// Whether no thread of a process runs; so it is with one that has ended.
fn all_stopped(pid: nix::unistd::Pid) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return true };
    threads.filter_map(Result::ok).all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // Behind the name, which may have anything in it.
        let state = stat.rsplit_once(") ").map_or("X", |(_, rest)| rest);
        state.starts_with(['T', 't', 'Z', 'X'])
    })
}

/// Waits until a condition holds.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < deadline, "still not so: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A folder that goes with the value.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let n = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("skein-it-{}-{n}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        Folder(dir)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if std::thread::panicking() && std::env::var_os("SKEIN_KEEP").is_some() {
            eprintln!("kept: {}", self.0.display());
            return;
        }
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A database; its instances end with it.
pub struct Db {
    folder: Folder,
    pub instances: u16,
}

impl Db {
    /// Makes a small database. Nothing is started.
    pub fn init(instances: u16) -> Db {
        Db::init_with(instances, "256M", &[])
    }

    /// The same with a size of each of its two LUNs, and further parameters.
    pub fn init_with(instances: u16, lun_size: &str, set: &[&str]) -> Db {
        let folder = Folder::new();
        let mut init = skein();
        init.arg("init").arg(&folder.0).args(["--instances", &instances.to_string()]);
        init.args(["--luns", "2", "--lun-size", lun_size, "--port-base", "0"]);
        // Small, so that many tests run side by side.
        for setting in ["db_cache_size=32M", "log_file_size=8M", filesystemio()].iter().chain(set) {
            init.args(["--set", setting]);
        }
        succeed(&mut init);
        Db { folder, instances }
    }

    /// The same with all instances open.
    pub fn open(instances: u16) -> Db {
        let db = Db::init(instances);
        db.start_all();
        db
    }

    pub fn dir(&self) -> &Path {
        &self.folder.0
    }

    pub fn edit_settings(&self, edit: impl FnOnce(&str) -> String) {
        let path = self.dir().join("skein.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, edit(&text)).unwrap();
    }

    /// Spoils every block of the data file that holds `needle`, on disk; there must be one.
    pub fn spoil(&self, needle: &[u8]) {
        let mut spoiled = 0;
        for lun in ["luns/lun0", "luns/lun1"] {
            let path = self.dir().join(lun);
            let mut file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).unwrap();
            for (at, block) in bytes.chunks(8192).enumerate() {
                // Byte 4 of a block is its kind, 6 and 7 its file: redo and copies elsewhere hold
                // the needle too.
                let in_data = [1, 2].contains(&block[4]) && block[6..8] == [4, 0];
                if let Some(found) = block.windows(needle.len()).position(|w| w == needle)
                    && in_data
                {
                    file.seek(SeekFrom::Start((at * 8192 + found) as u64)).unwrap();
                    file.write_all(b"????").unwrap();
                    spoiled += 1;
                }
            }
        }
        // More than one where blocks are written twice.
        assert!(spoiled > 0, "no block on disk holds the row");
    }

    /// A command of the binary on this database.
    pub fn skein(&self, what: &str) -> Command {
        let mut command = skein();
        command.args(what.split(' ')).arg(self.dir());
        command
    }

    pub fn start_all(&self) {
        succeed(self.skein("start").arg("--all"));
    }

    pub fn stop(&self) {
        succeed(&mut self.skein("stop"));
    }

    /// Ends instance `k` as a power cut would.
    pub fn abort(&self, k: u16) {
        succeed(self.skein("stop").args(["--instance", &k.to_string(), "--abort"]));
    }

    pub fn status(&self) -> serde_json::Value {
        let text = succeed(self.skein("status").arg("--json"));
        serde_json::from_str(&text).expect("status is JSON")
    }

    pub fn state(&self, k: u16) -> String {
        let status = self.status();
        let instances = status["instances"].as_array().unwrap();
        let one = instances.iter().find(|i| i["instance"] == k).unwrap();
        one["state"].as_str().unwrap().to_owned()
    }

    /// Sends a signal to instance `k`'s process; after SIGSTOP all of its threads stand still.
    pub fn signal(&self, k: u16, signal: nix::sys::signal::Signal) {
        let status = self.status();
        let pid = status["instances"][usize::from(k) - 1]["pid"].as_i64().expect("it runs");
        let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).unwrap());
        nix::sys::signal::kill(pid, signal).unwrap();
        // The thread that takes the signal stops the others: until it runs, they go on and answer.
        if signal == nix::sys::signal::Signal::SIGSTOP {
            wait_until("its threads stand still", || all_stopped(pid));
        }
    }

    /// Where clients of instance `k` connect.
    pub fn port(&self, k: u16) -> u16 {
        let status = self.status();
        let listen = status["instances"][usize::from(k) - 1]["listen"].as_str().unwrap();
        listen.rsplit_once(':').unwrap().1.parse().unwrap()
    }

    /// A PostgreSQL program pointed at instance `k`.
    pub fn client(&self, program: &str, k: u16) -> Command {
        let mut command = Command::new(program);
        command
            .env("PGHOST", "127.0.0.1")
            .env("PGPORT", self.port(k).to_string())
            .env("PGUSER", "skein")
            .env("PGDATABASE", "skein")
            .env("PGPASSWORD", PASSWORD)
            .env("PGOPTIONS", "")
            .env("PGCONNECT_TIMEOUT", "10");
        command
    }

    fn psql(&self, k: u16, sql: &str) -> Command {
        let mut command = self.client("psql", k);
        command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=verbose"]);
        command.args(["-c", sql]);
        command
    }

    /// Runs a statement on instance `k`; its rows, columns parted by `|`.
    pub fn sql(&self, k: u16, sql: &str) -> String {
        succeed(&mut self.psql(k, sql)).trim_end().to_owned()
    }

    /// Runs a statement that must fail with `code`; what it said.
    pub fn sql_error(&self, k: u16, code: &str, sql: &str) -> String {
        let out = self.psql(k, sql).output().unwrap();
        let text = all_text(&out);
        assert!(!out.status.success(), "no error: {sql}: {text}");
        assert!(text.contains(code), "expected {code} from {sql}: {text}");
        text
    }

    pub fn alert_log(&self, k: u16) -> String {
        std::fs::read_to_string(self.dir().join(format!("alert_{k}.log"))).unwrap_or_default()
    }

    /// For messages of failed tests: the logs of all instances.
    pub fn logs(&self) -> String {
        let mut text = String::new();
        for k in 1..=self.instances {
            let console = self.dir().join(format!("run/instance_{k}.out"));
            let said = std::fs::read_to_string(console).unwrap_or_default();
            let _ = write!(text, "--- instance {k}\n{}\n{said}\n", self.alert_log(k));
        }
        text
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
        // Errors are not this test's: it may have stopped its instances, or frozen one.
        let _ = self.skein("stop").arg("--abort").output();
    }
}

/// Direct I/O where temporary files take it.
pub fn filesystemio() -> &'static str {
    use std::os::unix::fs::OpenOptionsExt;
    const O_DIRECT: i32 = 0o40000;
    let name = format!("skein-direct-{}-{:?}", std::process::id(), std::thread::current().id());
    let path = std::env::temp_dir().join(name);
    let file =
        std::fs::File::options().create(true).append(true).custom_flags(O_DIRECT).open(&path);
    let _ = std::fs::remove_file(path);
    match file {
        Ok(_) => "filesystemio_options=setall",
        Err(_) => "filesystemio_options=none",
    }
}
