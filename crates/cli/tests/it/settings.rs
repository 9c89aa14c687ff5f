//! `skein.toml` and what shows it; the command line as it is used and misused.

use crate::db::{Db, Folder, fail, skein, succeed, wait_until};

#[test]
fn show_parameter_reads_every_setting_back() {
    let set = [
        "undo_retention=77s",
        "max_connections=33",
        "log_files=2",
        "fast_start_mttr_target=9",
        "alert_log=told.log",
        "lock_timeout=1234",
    ];
    let db = Db::init_with(2, "256M", &set);
    let own = "[instance.2]\nopen_cursors = 44";
    db.edit_settings(|t| t.replace("[instance.2]", own).replace("\"told.log\"", "\"told_K.log\""));
    db.edit_settings(|t| t.replace("alert_log = \"told_K.log\"\n", ""));
    db.start_all();
    let value = |k: u16, name: &str| {
        let shown = db.sql(k, &format!("show parameter {name}"));
        let line = shown.lines().find(|line| line.starts_with(&format!("{name}|")));
        line.unwrap_or_else(|| panic!("{name}: {shown}")).rsplit('|').next().unwrap().to_owned()
    };
    for (name, wanted) in [
        ("undo_retention", "77"),
        ("max_connections", "33"),
        ("log_files", "2"),
        ("fast_start_mttr_target", "9"),
        ("lock_timeout", "1234"),
        ("db_cache_size", "32M"),
        ("log_file_size", "8M"),
    ] {
        assert_eq!(value(1, name), wanted, "{name}");
    }
    assert_eq!((value(1, "open_cursors"), value(2, "open_cursors")), ("1000".into(), "44".into()));
    let status = db.status();
    for (k, instance) in (1..).zip(status["instances"].as_array().unwrap()) {
        assert_eq!(value(k, "listen"), instance["listen"].as_str().unwrap());
        assert_eq!(value(k, "interconnect"), instance["interconnect"].as_str().unwrap());
        assert_eq!(value(k, "console_listen"), instance["console"].as_str().unwrap());
    }
    // Every parameter that the file explains is one that can be shown.
    let text = std::fs::read_to_string(db.dir().join("skein.toml")).unwrap();
    let named = text.lines().filter_map(|line| line.trim_start_matches("# ").split_once(" = "));
    for (name, _) in named.filter(|(name, _)| *name != "instances") {
        value(1, name);
    }
}

#[test]
fn the_alert_log_is_where_the_settings_say() {
    let db = Db::init(1);
    let own = "[instance.1]\nalert_log = \"logs.txt\"";
    db.edit_settings(|t| t.replace("[instance.1]", own));
    db.start_all();
    // Written behind the back of who starts the instance.
    crate::db::wait_until("the log of the settings says that it is open", || {
        let told = std::fs::read_to_string(db.dir().join("logs.txt")).unwrap_or_default();
        told.contains("instance 1 open on ")
    });
    let path = db.status()["instances"][0]["alert_log"].as_str().unwrap().to_owned();
    assert_eq!(std::path::Path::new(&path), db.dir().join("logs.txt"));
}

#[test]
fn alter_system_changes_what_may_change() {
    let db = Db::open(1);
    db.sql(1, "alter system set undo_retention = 60");
    assert_eq!(db.sql(1, "select value from v$parameter where name = 'undo_retention'"), "60");
    let said = db.sql_error(1, "55P02", "alter system set db_cache_size = '64M'");
    assert!(said.contains("skein.toml"), "{said}");
    db.sql_error(1, "22023", "alter system set undo_retention = 'soon'");
    db.sql_error(1, "42704", "alter system set no_such_thing = 1");
}

#[test]
fn alter_system_says_for_whom_and_how_long() {
    let db = Db::open(2);
    let shown = |k, name: &str| {
        db.sql(k, &format!("select display_value from v$parameter where name = '{name}'"))
    };
    let retentions = || [shown(1, "undo_retention"), shown(2, "undo_retention")];
    let file = || std::fs::read_to_string(db.dir().join("skein.toml")).unwrap();
    let before = file();
    db.sql(1, "alter system set undo_retention = 60 scope = memory sid = 'skein2'");
    assert_eq!(retentions(), ["900", "60"]);
    db.sql(1, "alter system set undo_retention = 120 comment = 'less' scope=memory");
    assert_eq!(retentions(), ["120", "120"]);
    assert_eq!(file(), before);
    db.sql(2, "alter system set undo_retention = 180 scope=both sid='*'");
    assert_eq!(retentions(), ["180", "180"]);
    assert!(file().contains("\nundo_retention = \"180\"\n"), "{}", file());
    // What is fixed while an instance runs is set for its next start, and for one alone.
    db.sql_error(1, "55P02", "alter system set db_cache_size = 40M scope=both");
    db.sql(1, "alter system set db_cache_size = 40M scope=spfile sid='skein2'");
    db.sql_error(1, "22023", "alter system set undo_retention = 1 scope=spfile sid='other'");
    db.sql_error(1, "22023", "alter system set listen = '127.0.0.1:1' scope=spfile");
    db.sql_error(1, "55000", "alter system set undo_retention = 1 sid = 'skein3'");
    db.sql_error(1, "42601", "alter system set undo_retention = 1 scope = sometimes");
    let cache = shown(1, "db_cache_size");
    db.abort(2);
    db.sql_error(1, "55000", "alter system set undo_retention = 1 scope=memory sid='skein2'");
    db.start_all();
    assert_eq!(
        [shown(1, "db_cache_size"), shown(2, "db_cache_size")],
        [cache.clone(), "40M".into()]
    );
    assert_eq!(retentions(), ["180", "180"]);
    db.sql(1, "alter system reset db_cache_size sid='skein2'");
    db.sql(1, "alter system reset undo_retention");
    assert_eq!(retentions(), ["900", "900"]);
    db.abort(2);
    db.start_all();
    assert_eq!(shown(2, "db_cache_size"), cache);
    let uncommented = |text: String| {
        text.lines().filter(|l| !l.starts_with('#')).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(uncommented(file()), uncommented(before));
}

#[test]
fn settings_that_are_wrong_are_named_with_the_file() {
    let db = Db::init(2);
    let good = std::fs::read_to_string(db.dir().join("skein.toml")).unwrap();
    for (from, to, named) in [
        ("[parameters]\n", "[parameters]\nlog_files = 1\n", "log_files"),
        ("[parameters]\n", "[parameters]\nlisten = \"127.0.0.1:1\"\n", "[instance.K]"),
        ("[parameters]\n", "[parameters\n", "TOML parse error"),
        ("listen = \"127.0.0.1:0\"", "listen = \"here\"", "listen"),
        ("[instance.2]", "[instance.3]", "instance.3"),
        ("instances = 2", "instances = 0", "instances"),
    ] {
        db.edit_settings(|_| good.replacen(from, to, 1));
        for args in [&["start", "--all"][..], &["status"], &["stop"]] {
            let said = fail(2, db.skein(args[0]).args(&args[1..]));
            assert!(said.contains("skein.toml") && said.contains(named), "{args:?} {said}");
        }
    }
    db.edit_settings(|_| good.clone());
    assert_eq!(db.state(1), "DOWN");
}

#[test]
fn an_address_in_use_is_named() {
    let db = Db::init(2);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for key in ["listen", "interconnect"] {
        let good = std::fs::read_to_string(db.dir().join("skein.toml")).unwrap();
        let line = format!("\n{key} = \"127.0.0.1:0\"");
        db.edit_settings(|t| t.replace(&line, &format!("\n{key} = \"127.0.0.1:{port}\"")));
        let said = fail(5, db.skein("start").args(["--instance", "2"]));
        assert!(said.contains(&port) && said.contains("in use"), "{key}: {said}");
        db.edit_settings(|_| good);
    }
    // Both instances on one port: the first has it.
    drop(taken);
    let line = "\nlisten = \"127.0.0.1:0\"";
    db.edit_settings(|t| t.replace(line, &format!("\nlisten = \"127.0.0.1:{port}\"")));
    let said = fail(5, db.skein("start").arg("--all"));
    assert!(said.contains("instance 1 open") && said.contains("instance 2 did not open"), "{said}");
    assert_eq!(db.sql(1, "select 1"), "1");
}

#[test]
fn the_command_line_says_what_is_wrong_with_it() {
    let folder = Folder::new();
    let dir = folder.0.to_str().unwrap();
    for (args, named) in [
        (&[][..], "Usage: skein <COMMAND>"),
        (&["init"], "<DIR>"),
        (&["init", dir, "--instances", "0"], "from 1 to 8"),
        (&["init", dir, "--instances", "x"], "invalid value 'x'"),
        (&["init", dir, "--luns", "0"], "at least 1"),
        (&["init", dir, "--lun-size", "5"], "at least 16M"),
        (&["init", dir, "--lun-size", "1Q"], "unknown unit"),
        (&["init", dir, "--port-base", "65535"], "no room"),
        (&["init", dir, "--set", "foo"], "NAME=VALUE"),
        (&["init", dir, "--set", "foo=1"], "unknown parameter \"foo\""),
        (&["init", dir, "--set", "log_files=1"], "from 2 to 16"),
        (&["init", dir, "--set", "listen=127.0.0.1:1"], "[instance.K]"),
        (&["start", dir], "<--instance <K>|--all>"),
        (&["start", dir, "--instance", "1", "--all"], "cannot be used with"),
        (&["sql", dir, "file", "-c", "select 1"], "cannot be used with"),
        (&["stop", dir, "--force"], "unexpected argument '--force'"),
    ] {
        let said = fail(2, skein().args(args));
        assert!(said.contains(named), "{args:?}: {said}");
        assert!(!folder.0.exists(), "{args:?} made a folder");
    }
    for command in ["start", "status", "stop", "sql", "dump", "add"] {
        let mut run = skein();
        match command {
            "start" => run.args([command, dir, "--all"]),
            "dump" => run.args([command, dir, "redo"]),
            "add" => run.args([command, "lun", dir]),
            _ => run.args([command, dir]),
        };
        let said = fail(3, &mut run);
        assert!(said.contains("there is no database in") && said.contains("skein init"), "{said}");
    }
    let said = succeed(skein().arg("--help"));
    assert!(said.contains("Exit codes: 0 done") && said.contains("skein stop /tmp/db"), "{said}");
    let full = ["init", dir, "--luns", "1", "--lun-size", "16M", "--set"];
    let said = fail(4, skein().args(full).arg(crate::db::filesystemio()));
    assert!(said.contains("disk group is full"), "{said}");
    assert!(!folder.0.exists());
}

#[test]
fn a_script_goes_on_behind_an_error_and_has_failed_then() {
    let db = Db::open(1);
    let sql = |text: &str| {
        let mut sql = db.skein("sql");
        sql.args(["-c", text]);
        sql
    };
    succeed(&mut sql("create table t (id int primary key); insert into t values (1), (2)"));
    assert_eq!(succeed(&mut sql("copy t to stdout")), "1\n2\n");
    let said = fail(2, db.skein("sql").args(["--instance", "2", "-c", "select 1"]));
    assert!(said.contains("there is no instance 2"), "{said}");
    let script = db.dir().join("script.sql");
    std::fs::write(&script, "insert into t values (3);\nselect 1/0;\ninsert into t values (4);\n")
        .unwrap();
    let said = fail(1, db.skein("sql").arg(&script));
    assert!(said.contains("22012"), "{said}");
    assert_eq!(db.sql(1, "select max(id) from t"), "4", "it goes on");
    let two = ["-c", "insert into t values (5); select 1/0", "-c", "insert into t values (6)"];
    assert!(fail(1, db.skein("sql").args(two)).contains("22012"));
    assert_eq!(db.sql(1, "select max(id) from t"), "5", "commands stop at the first error");
    fail(1, db.skein("sql").arg("/nowhere.sql"));
}

#[test]
fn a_foreground_instance_ends_in_order_on_sigterm_and_ctrl_c() {
    use nix::sys::signal::Signal;
    let db = Db::init(1);
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut start = db.skein("start");
        start.args(["--instance", "1"]).stdout(std::process::Stdio::piped());
        let child = start.spawn().unwrap();
        wait_until("it is open", || db.state(1) == "OPEN");
        db.signal(1, signal);
        let out = child.wait_with_output().unwrap();
        let said = crate::db::all_text(&out);
        assert!(out.status.success(), "{said}");
        assert_eq!(said.lines().count(), 1, "one line when it is open: {said}");
        assert!(said.starts_with("instance 1 open on 127.0.0.1:"), "{said}");
        assert!(db.alert_log(1).trim_end().ends_with("instance closed"), "{}", db.alert_log(1));
    }
}
