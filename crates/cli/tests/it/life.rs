//! A database from `init` to the end of its instances.

use crate::db::{Db, Folder, all_text, fail, skein, succeed, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Output, Stdio};

#[test]
fn committed_rows_survive_stop_and_kill() {
    let db = Db::open(1);
    db.sql(1, "create table t (id int primary key, v text)");
    db.sql(1, "insert into t values (1, 'one'), (2, 'two')");
    assert_eq!(db.sql(1, "select id, v from t order by id"), "1|one\n2|two");
    db.stop();
    assert_eq!(db.state(1), "DOWN");
    db.start_all();
    assert_eq!(db.sql(1, "select count(*) from t"), "2");
    db.sql(1, "insert into t values (3, 'three')");
    db.signal(1, nix::sys::signal::Signal::SIGKILL);
    wait_until("the process is gone", || db.state(1) == "DOWN");
    db.start_all();
    assert_eq!(db.sql(1, "select id, v from t order by id"), "1|one\n2|two\n3|three");
    db.sql(1, "delete from t where id = 2");
    db.abort(1);
    db.start_all();
    assert_eq!(db.sql(1, "select v from t where id = 3"), "three");
    assert_eq!(db.sql(1, "select count(*) from t"), "2");
}

#[test]
fn init_makes_private_files_and_prints_a_generated_password_once() {
    let folder = Folder::new();
    let said = succeed(skein().env_remove("SKEIN_PASSWORD").arg("init").arg(&folder.0).args([
        "--instances",
        "1",
        "--luns",
        "2",
        "--lun-size",
        "256M",
        "--port-base",
        "0",
        "--set",
        "log_file_size=8M",
        "--set",
        crate::db::filesystemio(),
    ]));
    assert!(said.contains("password ") && said.contains("shown only now"), "{said}");
    let mode =
        |path: &str| std::fs::metadata(folder.0.join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(""), mode("secret"), mode("skein.toml")), (0o700, 0o600, 0o600));
    assert_eq!(std::fs::metadata(folder.0.join("secret")).unwrap().len(), 32);
}

#[test]
fn init_refuses_a_folder_that_holds_anything() {
    let db = Db::init(1);
    let before = std::fs::read(db.dir().join("skein.toml")).unwrap();
    let said = fail(3, &mut db.skein("init"));
    assert!(said.contains("already holds a database"), "{said}");
    assert_eq!(std::fs::read(db.dir().join("skein.toml")).unwrap(), before);

    let folder = Folder::new();
    std::fs::create_dir_all(&folder.0).unwrap();
    std::fs::write(folder.0.join("letter.txt"), "keep me").unwrap();
    let said = fail(3, skein().arg("init").arg(&folder.0));
    assert!(said.contains("is not empty"), "{said}");
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1);
}

#[test]
fn a_failed_init_leaves_nothing() {
    let folder = Folder::new();
    fail(2, skein().arg("init").arg(&folder.0).args(["--instances", "9"]));
    fail(2, skein().arg("init").arg(&folder.0).args(["--lun-size", "1K", "--luns", "1"]));
    assert!(!folder.0.exists());
}

/// R, S, T, Z …: the field after the name in parentheses.
fn state_of(pid: Pid) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat[stat.rfind(')').unwrap()..].chars().nth(2).unwrap()
}

/// Starts an init, stands it still in the middle, and lets it go on with a signal to end.
fn interrupt_init(folder: &Path, signal: Signal) -> Output {
    let was_there = folder.exists();
    loop {
        let mut init = skein();
        init.arg("init").arg(folder).args(["--luns", "2", "--lun-size", "256M"]);
        init.args(["--port-base", "0", "--set", "log_file_size=8M"]);
        init.args(["--set", crate::db::filesystemio()]);
        let child = init.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let pid = Pid::from_raw(child.id().cast_signed());
        wait_until("it has begun", || folder.join("luns").exists());
        kill(pid, Signal::SIGSTOP).unwrap();
        // Stopped, or ended before it could be.
        wait_until("it stands still", || matches!(state_of(pid), 'T' | 'Z'));
        let begun = !folder.join("skein.toml").exists();
        kill(pid, signal).unwrap();
        kill(pid, Signal::SIGCONT).unwrap();
        let out = child.wait_with_output().unwrap();
        if begun {
            return out;
        }
        // It was done before it could be stopped.
        std::fs::remove_dir_all(folder).unwrap();
        if was_there {
            std::fs::create_dir(folder).unwrap();
        }
    }
}

#[test]
fn an_interrupted_init_takes_away_what_it_made_and_nothing_else() {
    let folder = Folder::new();
    let database = folder.0.join("db");
    std::fs::create_dir_all(&folder.0).unwrap();
    std::fs::write(folder.0.join("letter.txt"), "keep me").unwrap();
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let out = interrupt_init(&database, signal);
        assert_eq!(out.status.code(), Some(code), "{}", all_text(&out));
        assert!(all_text(&out).contains("interrupted"), "{}", all_text(&out));
        assert!(!database.exists(), "the folder it made is gone");
    }
    std::fs::create_dir(&database).unwrap();
    let out = interrupt_init(&database, Signal::SIGINT);
    assert_eq!(out.status.code(), Some(130), "{}", all_text(&out));
    assert_eq!(std::fs::read_dir(&database).unwrap().count(), 0, "a folder that was there stays");
    assert_eq!(std::fs::read(folder.0.join("letter.txt")).unwrap(), b"keep me");
}

#[test]
fn status_tells_down_from_open_and_stop_of_what_is_down_is_an_error() {
    let db = Db::init(2);
    assert_eq!((db.state(1), db.state(2)), ("DOWN".into(), "DOWN".into()));
    let said = fail(3, db.skein("stop").args(["--instance", "2"]));
    assert!(said.contains("instance 2 is not running"), "{said}");
    fail(3, db.skein("sql").args(["-c", "select 1"]));
    fail(2, db.skein("stop").args(["--instance", "3"]));
    db.start_all();
    assert_eq!((db.state(1), db.state(2)), ("OPEN".into(), "OPEN".into()));
    db.stop();
    assert_eq!(db.state(2), "DOWN");
}

#[test]
fn the_owner_needs_no_password_in_the_databases_folder() {
    let db = Db::open(1);
    let said = succeed(db.skein("sql").args(["-c", "select 1 as one; select 'a' as b"]));
    assert!(said.contains(" one\n-----\n   1\n(1 row)"), "{said}");
    let said = fail(1, db.skein("sql").args(["-c", "select 1/0"]));
    assert!(said.contains("22012"), "{said}");
    let mut psql = db.client("psql", 1);
    psql.env("PGHOST", db.dir()).env_remove("PGPASSWORD").args(["-X", "-A", "-t", "-w"]);
    assert_eq!(succeed(psql.args(["-c", "select current_user"])).trim(), "skein");
}

#[test]
fn show_parameter_reads_the_settings_back() {
    let db = Db::init_with(1, "256M", &["undo_retention=77s"]);
    db.start_all();
    assert!(db.sql(1, "show parameter undo_retention").contains("77"));
    assert_eq!(db.sql(1, "select value from v$parameter where name = 'undo_retention'"), "77");
}
