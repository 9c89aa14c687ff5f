//! The web console over HTTP: who gets in, what they may see and do, metrics.

use crate::db::{Db, PASSWORD, succeed, wait_until};
use crate::security::{TLS, certificates};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

/// An answer over HTTP.
pub struct Reply {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: String,
}

impl Reply {
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }

    /// The cookie that it sets, as it is sent back.
    fn cookie(&self) -> String {
        self.header("set-cookie").split(';').next().unwrap_or("").to_owned()
    }
}

/// Where the console of an instance is.
pub fn console_port(db: &Db, k: u16) -> u16 {
    let status = db.status();
    let at = status["instances"][usize::from(k) - 1]["console"].as_str().expect("a console");
    at.rsplit_once(':').unwrap().1.parse().unwrap()
}

/// Sends a request with these headers; a body makes it a POST of JSON unless they say otherwise.
pub fn http(port: u16, path: &str, headers: &[(&str, &str)], body: Option<&str>) -> Reply {
    let has = |name: &str| headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
    let method = if body.is_some() { "POST" } else { "GET" };
    let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if !has("host") {
        request += &format!("Host: 127.0.0.1:{port}\r\n");
    }
    for (name, value) in headers {
        request += &format!("{name}: {value}\r\n");
    }
    if let Some(body) = body {
        if !has("content-type") {
            request += "Content-Type: application/json\r\n";
        }
        request += &format!("Content-Length: {}\r\n", body.len());
    }
    request += "\r\n";
    request += body.unwrap_or("");
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the console listens");
    // It may answer, and close, before it has read all of a body.
    let _ = stream.write_all(request.as_bytes());
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text}"));
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let pairs = lines.filter_map(|line| line.split_once(": "));
    let headers = pairs.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
    Reply { status, headers, body: body.to_owned() }
}

fn try_log_on(port: u16, user: &str, password: &str) -> Reply {
    let body = json!({ "user": user, "password": password }).to_string();
    http(port, "/api/log-on", &[], Some(&body))
}

/// The cookie of a session.
pub fn log_on(port: u16, user: &str, password: &str) -> String {
    let reply = try_log_on(port, user, password);
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.cookie()
}

pub fn get(port: u16, cookie: &str, path: &str) -> Reply {
    http(port, path, &[("Cookie", cookie)], None)
}

pub fn post(port: u16, cookie: &str, path: &str, body: &Value) -> Reply {
    http(port, path, &[("Cookie", cookie)], Some(&body.to_string()))
}

pub fn message(reply: &Reply) -> String {
    reply.json()["error"]["message"].as_str().expect("an error").to_owned()
}

/// Rows of a part of an answer, as objects.
pub fn rows(answer: &Value, part: &str) -> Vec<BTreeMap<String, Value>> {
    let columns = answer[part]["columns"].as_array().unwrap();
    let names = || columns.iter().map(|name| name.as_str().unwrap().to_owned());
    let of = |row: &Value| names().zip(row.as_array().unwrap().iter().cloned()).collect();
    answer[part]["rows"].as_array().unwrap().iter().map(of).collect()
}

pub fn create_user(db: &Db, name: &str, options: &str) {
    let password = PASSWORD.replace('\'', "''");
    db.sql(1, &format!("create user {name} password '{password}' {options}"));
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// What holds of a console that nobody has logged on to.
fn check_without_log_on(port: u16) {
    for (path, kind) in [
        ("/", "text/html; charset=utf-8"),
        ("/style.css", "text/css; charset=utf-8"),
        ("/app.js", SCRIPT),
        ("/activity.js", SCRIPT),
        ("/chart.js", SCRIPT),
        ("/dom.js", SCRIPT),
        ("/instances.js", SCRIPT),
        ("/names.js", SCRIPT),
        ("/pages.js", SCRIPT),
        ("/parameters.js", SCRIPT),
        ("/reports.js", SCRIPT),
        ("/sessions.js", SCRIPT),
        ("/sql.js", SCRIPT),
        ("/widgets.js", SCRIPT),
        ("/icon.svg", "image/svg+xml"),
    ] {
        let reply = http(port, path, &[], None);
        assert_eq!((reply.status, reply.header("content-type")), (200, kind), "{path}");
        let policy = reply.header("content-security-policy");
        assert!(policy.contains("default-src 'none'; script-src 'self'"), "{path}: {policy}");
        assert_eq!(reply.header("x-content-type-options"), "nosniff");
        // Nothing is loaded from elsewhere.
        assert!(!reply.body.contains("https://"), "{path}");
    }
    for path in [
        "me",
        "activity",
        "instances",
        "sessions",
        "parameters",
        "statements",
        "statement?sql_id=0123456789abc",
        "names?objects=1",
        "snapshots",
        "report?kind=ash",
    ] {
        let path = format!("/api/{path}");
        for cookie in ["", "a=b", &format!("skein_console_{port}=guessed")] {
            assert_eq!(get(port, cookie, &path).status, 401, "{path} with {cookie}");
        }
    }
    let target = json!({ "sid": 1, "serial": 1 });
    for path in ["/api/cancel", "/api/terminate", "/api/snapshot"] {
        assert_eq!(post(port, "", path, &target).status, 401, "{path}");
    }
    for path in ["/nothing", "/api/nothing", "/../secret", "/style.css/"] {
        assert_eq!(http(port, path, &[], None).status, 404, "{path}");
    }
}

/// What another page, or another name of this machine, could have a browser send.
fn check_foreign_requests(port: u16, cookie: &str) {
    let body = json!({ "user": "skein", "password": PASSWORD }).to_string();
    let send = |headers: &[(&str, &str)], path: &str, body: Option<&str>| {
        http(port, path, &[&[("Cookie", cookie)], headers].concat(), body).status
    };
    let form = ("Content-Type", "application/x-www-form-urlencoded");
    assert_eq!(send(&[form], "/api/log-on", Some(&body)), 403);
    assert_eq!(send(&[("Content-Type", "text/plain")], "/api/log-on", Some(&body)), 403);
    assert_eq!(send(&[("Origin", "http://127.0.0.1:1")], "/api/log-on", Some(&body)), 403);
    assert_eq!(send(&[("Origin", "null")], "/api/log-off", Some("{}")), 403);
    let own = format!("http://127.0.0.1:{port}");
    for host in ["evil.example", "evil.example:80", "127.0.0.1.evil.example"] {
        assert_eq!(send(&[("Host", host)], "/", None), 421, "{host}");
        assert_eq!(send(&[("Host", host)], "/metrics", None), 421, "{host}");
    }
    let large = format!("\"{}\"", "x".repeat(100_000));
    assert_eq!(send(&[], "/api/log-on", Some(&large)), 413);
    assert_eq!(send(&[], "/api/log-on", Some("{")), 400);
    assert_eq!(send(&[], "/api/activity?since=x", None), 400);
    assert_eq!(send(&[("Origin", &own)], "/api/log-on", Some(&body)), 200);
    assert_eq!(send(&[], "/api/me", None), 401, "another log-on of a browser ends the first");
}

#[test]
fn the_console_lets_users_in_and_nobody_else() {
    let db = Db::open(1);
    let port = console_port(&db, 1);
    check_without_log_on(port);
    let reply = try_log_on(port, "skein", "wrong");
    assert_eq!((reply.status, reply.header("set-cookie")), (401, ""));
    assert_eq!(message(&reply), "password authentication failed for user \"skein\"");
    let reply = try_log_on(port, "no<body>", "");
    assert_eq!(message(&reply), "password authentication failed for user \"no<body>\"");
    assert_eq!(reply.header("content-type"), "application/json");

    let reply = try_log_on(port, "skein", PASSWORD);
    let cookie = reply.cookie();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age="] {
        assert!(reply.header("set-cookie").contains(part), "{part}");
    }
    assert!(cookie.len() > 60, "{cookie}");
    let me = get(port, &cookie, "/api/me").json();
    assert_eq!((&me["user"], &me["instance"]), (&json!("skein"), &json!(1)));
    assert_eq!(rows(&me, "me")[0]["superuser"], json!(true));
    // It is a client like any other.
    let listed = "select count(*) from v$session where program = 'skein console' \
                  and username = 'SKEIN' and event = 'SQL*Net message from client'";
    wait_until("the session is listed and rests", || db.sql(1, listed) == "1");
    let trail = "select action, outcome from v$audit_trail where username = 'SKEIN' \
                 and peer like '127.0.0.1:%' and outcome = '28P01'";
    assert_eq!(db.sql(1, trail), "LOGON|28P01");
    check_foreign_requests(port, &cookie);

    // Logged off is logged off, and so is who has been terminated.
    let cookie = log_on(port, "skein", PASSWORD);
    assert_eq!(post(port, &cookie, "/api/log-off", &json!({})).status, 200);
    assert_eq!(get(port, &cookie, "/api/me").status, 401);
    let cookie = log_on(port, "skein", PASSWORD);
    db.sql(1, "select pg_terminate_backend(sid) from v$session where program = 'skein console'");
    wait_until("the session has ended", || get(port, &cookie, "/api/me").status == 401);
}

#[test]
fn rules_and_limits_hold_for_the_console_too() {
    let db = Db::init_with(1, "256M", &["max_connections=5", "superuser_reserved_connections=2"]);
    db.start_all();
    let port = console_port(&db, 1);
    create_user(&db, "ann", "connection limit 1");
    create_user(&db, "out", "nologin");
    let reply = try_log_on(port, "out", PASSWORD);
    assert_eq!((reply.status, message(&reply).contains("not permitted to log in")), (403, true));
    let ann = log_on(port, "ann", PASSWORD);
    assert!(message(&try_log_on(port, "ann", PASSWORD)).contains("too many connections for role"));
    assert_eq!(post(port, &ann, "/api/log-off", &json!({})).status, 200);
    // The seat is free when the session has ended.
    wait_until("ann may again", || try_log_on(port, "ann", PASSWORD).status == 200);
    create_user(&db, "bob", "");
    let _both = [log_on(port, "bob", PASSWORD), log_on(port, "bob", PASSWORD)];
    let reply = try_log_on(port, "bob", PASSWORD);
    assert_eq!(reply.status, 503);
    assert!(message(&reply).contains("reserved"), "{}", reply.body);
    std::fs::write(
        db.dir().join("pg_hba.conf"),
        "host all bob all reject\nhost all eve all trust\nhost all all all scram-sha-256\n",
    )
    .unwrap();
    let reply = try_log_on(port, "bob", PASSWORD);
    assert_eq!(reply.status, 403);
    assert!(message(&reply).contains("pg_hba.conf rejects connection"), "{}", reply.body);
    // Who guesses waits.
    wait_until("guesses have to wait", || {
        let reply = try_log_on(port, "skein", "guess");
        reply.status == 429 && !reply.header("retry-after").is_empty()
    });
    assert_eq!(try_log_on(port, "skein", PASSWORD).status, 429, "right or wrong is not looked at");
}

#[test]
fn a_viewer_sees_and_does_what_its_user_may() {
    let db = Db::open(2);
    let port = console_port(&db, 1);
    create_user(&db, "ann", "");
    db.sql(1, "create table t (id int primary key, v text)");
    let mut busy = db.client("psql", 2);
    busy.args(["-X", "-c", "select '<img src=x>' as v, pg_sleep(120)"]);
    let mut busy = busy.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let (ann, skein) = (log_on(port, "ann", PASSWORD), log_on(port, "skein", PASSWORD));
    let sleeper = |cookie: &str| {
        let answer = get(port, cookie, "/api/sessions").json();
        let mut all = rows(&answer, "sessions").into_iter();
        all.find(|s| s["inst_id"] == json!(2) && s["event"] == json!("PL/SQL lock timer"))
    };
    wait_until("the session of instance 2 is shown", || sleeper(&skein).is_some());
    let seen = sleeper(&skein).unwrap();
    // Text stays text: it is the page that must not make markup of it.
    assert_eq!(seen["sql_text"], json!("select '<img src=x>' as v, pg_sleep(120)"));
    assert_eq!(sleeper(&ann).unwrap()["sql_text"], json!("<insufficient privilege>"));

    let target = json!({ "sid": seen["sid"], "serial": seen["serial#"] });
    let reply = post(port, &ann, "/api/terminate", &target);
    assert_eq!(reply.status, 403, "{}", reply.body);
    assert!(message(&reply).contains("superuser"), "{}", reply.body);
    let other = json!({ "sid": seen["sid"], "serial": 0 });
    let reply = post(port, &skein, "/api/terminate", &other).json();
    assert!(rows(&reply, "signal").is_empty(), "not a session of before with its number");
    let reply = post(port, &skein, "/api/terminate", &target).json();
    assert_eq!(rows(&reply, "signal")[0]["done"], json!(true));
    wait_until("it has ended", || busy.try_wait().unwrap().is_some());

    let explain = |text: &str| post(port, &skein, "/api/explain", &json!({ "sql_text": text }));
    let plan = explain("select * from t where id = 7");
    assert_eq!(plan.status, 200, "{}", plan.body);
    assert!(plan.body.contains("t_pkey"), "{}", plan.body);
    db.sql(1, "insert into t values (1, 'kept')");
    for text in ["analyze delete from t", "select 1; delete from t", "", "verbose) delete from t"] {
        let reply = explain(text);
        assert_eq!(reply.status, 400, "{text}: {}", reply.body);
    }
    assert_eq!(db.sql(1, "select v from t"), "kept");

    for (path, part, least) in [
        ("/api/instances", "instances", 2),
        ("/api/instances", "statistics", 20),
        ("/api/parameters", "parameters", 80),
        ("/api/statements", "statements", 1),
    ] {
        let reply = get(port, &ann, path);
        assert_eq!(reply.status, 200, "{path}: {}", reply.body);
        assert!(rows(&reply.json(), part).len() >= least, "{path}: {}", reply.body);
    }
    db.abort(2);
    wait_until("instance 2 is gone from the list", || {
        let reply = get(port, &ann, "/api/instances");
        reply.status == 200 && rows(&reply.json(), "instances").len() == 1
    });
}

/// One scrape: families with their types, and samples by name and labels.
struct Scraped {
    types: BTreeMap<String, String>,
    samples: BTreeMap<String, f64>,
}

/// Name, labels and value of a sample's line.
fn sample(line: &str) -> (&str, Vec<(String, String)>, f64) {
    let (name, rest) = line.split_at(line.find(['{', ' ']).expect("a value"));
    let mut labels = Vec::new();
    let Some(mut rest) = rest.strip_prefix('{') else {
        return (name, labels, rest.trim().parse().expect("a number"));
    };
    loop {
        let (label, after) = rest.split_once("=\"").expect("a label");
        let mut value = String::new();
        let mut chars = after.char_indices();
        let end = loop {
            match chars.next().expect("an end of the label") {
                (_, '\\') => value.push(chars.next().expect("an escaped character").1),
                (at, '"') => break at,
                (_, c) => value.push(c),
            }
        };
        labels.push((label.to_owned(), value));
        rest = &after[end + 1..];
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => break,
        }
    }
    let value = rest.strip_prefix("} ").expect("a blank before the value");
    (name, labels, value.parse().expect("a number"))
}

/// Reads the text format strictly.
fn scraped(text: &str) -> Scraped {
    let (mut types, mut samples) = (BTreeMap::new(), BTreeMap::new());
    let (mut helped, mut current) = (BTreeSet::new(), String::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a text");
            assert!(helped.insert(name.to_owned()), "{name} is there twice");
            assert!(help.len() > 5, "{name}: {help}");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(helped.contains(name), "{name} has no HELP");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            types.insert(name.to_owned(), kind.to_owned());
            current = name.to_owned();
        } else {
            let (name, labels, value) = sample(line);
            let own = name.strip_prefix(current.as_str()).expect("under its own TYPE");
            let kind = &types[&current];
            let parts: &[&str] = match kind.as_str() {
                "histogram" => &["_bucket", "_sum", "_count"],
                _ => &[""],
            };
            assert!(parts.contains(&own), "{line} is none of {current}");
            assert!(labels.iter().any(|(label, _)| label == "inst_id"), "{line}");
            let key = format!("{name} {labels:?}");
            assert!(samples.insert(key, value).is_none(), "{line} is there twice");
        }
    }
    Scraped { types, samples }
}

#[test]
fn metrics_are_in_the_text_format_and_only_grow() {
    let db = Db::open(2);
    let port = console_port(&db, 1);
    let scrape = || {
        let reply = http(port, "/metrics", &[], None);
        assert_eq!(reply.status, 200, "{}", reply.body);
        assert_eq!(reply.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
        scraped(&reply.body)
    };
    db.sql(1, "create table t (id int primary key, v int)");
    let first = scrape();
    db.sql(2, "insert into t select g, 0 from generate_series(1, 1000) g");
    db.sql(1, "update t set v = v + 1; select count(*) from t");
    let value = |of: &Scraped, name: &str| {
        let found = of.samples.iter().find(|(key, _)| key.starts_with(&format!("{name} ")));
        *found.unwrap_or_else(|| panic!("no {name}")).1
    };
    let commits = "skein_user_commits_total";
    let mut last = scrape();
    wait_until("the next text is made", || {
        last = scrape();
        value(&last, commits) > value(&first, commits)
    });
    let counts = |key: &str| {
        let name = key.split(' ').next().unwrap();
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        let is = |name: &str| matches!(last.types.get(name).map(String::as_str), Some("counter"));
        is(name) || family.is_some_and(|family| last.types.contains_key(family))
    };
    let mut counters = 0;
    for (key, before) in first.samples.iter().filter(|(key, _)| counts(key)) {
        let now = last.samples.get(key).unwrap_or_else(|| panic!("{key} has gone"));
        assert!(now >= before, "{key} went back from {before} to {now}");
        counters += 1;
    }
    assert!(counters > 150, "{counters}");
    assert_eq!(value(&last, "skein_cluster_instances"), 2.0);
    assert!(value(&last, "skein_redo_size_bytes_total") > 0.0);
    let sync = last.samples.keys().any(|key| {
        key.starts_with("skein_wait_duration_seconds_bucket") && key.contains("log file sync")
    });
    assert!(sync, "waits are there with their events");

    // Who comes from elsewhere proves who it is.
    let forwarded = ("X-Forwarded-For", "10.0.0.1");
    let reply = http(port, "/metrics", &[forwarded], None);
    assert_eq!(reply.status, 401);
    assert_eq!(reply.header("www-authenticate"), "Basic realm=\"skein\"");
    create_user(&db, "prometheus", "");
    // `prometheus:` and the password, and a wrong one.
    let with = |encoded: &str| {
        let basic = format!("Basic {encoded}");
        http(port, "/metrics", &[forwarded, ("Authorization", &basic)], None).status
    };
    assert_eq!(with("cHJvbWV0aGV1czppdCdzIGEgc2VjcmV0"), 200);
    assert_eq!(with("cHJvbWV0aGV1czp3cm9uZw=="), 401);
}

#[test]
fn an_instance_opens_with_or_without_its_console() {
    let db = Db::init(1);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let set = |value: &str| {
        db.edit_settings(|text| {
            let other = text.lines().filter(|line| !line.starts_with("console_listen"));
            let lines: Vec<&str> = other.collect();
            format!("{}\nconsole_listen = \"{value}\"\n", lines.join("\n"))
        });
    };
    for (value, told) in [
        (format!("127.0.0.1:{port}"), "no web console on 127.0.0.1"),
        ("0.0.0.0:0".to_owned(), "passwords would cross the network in clear text"),
        ("off".to_owned(), ""),
    ] {
        set(&value);
        db.start_all();
        assert_eq!(db.status()["instances"][0]["console"], Value::Null, "{value}");
        let shown = "select value from v$parameter where name = 'console_listen'";
        assert_eq!(db.sql(1, shown), "off");
        assert!(db.alert_log(1).contains(told), "{value}: {}", db.alert_log(1));
        db.stop();
    }
    set("127.0.0.1:0");
    db.start_all();
    let (at, shown) = (console_port(&db, 1), "show console_listen");
    assert_eq!(db.sql(1, shown), format!("127.0.0.1:{at}"));
    // An instance that stops ends the sessions of its console, as all others.
    log_on(at, "skein", PASSWORD);
    db.stop();
    assert!(TcpStream::connect(("127.0.0.1", at)).is_err());
    assert!(!db.alert_log(1).contains("did not end in time"), "{}", db.alert_log(1));
}

#[test]
fn an_encrypted_console_is_for_the_network() {
    let db = Db::init_with(1, "256M", &TLS);
    certificates(db.dir());
    std::fs::write(
        db.dir().join("pg_hba.conf"),
        "local all all scram-sha-256\nhostssl all ann all cert\nhost all all all scram-sha-256\n",
    )
    .unwrap();
    db.edit_settings(|text| {
        text.replace("console_listen = \"127.0.0.1:0\"", "console_listen = \"0.0.0.0:0\"")
    });
    db.start_all();
    create_user(&db, "ann", "");
    let url = format!("https://127.0.0.1:{}", console_port(&db, 1));
    let curl = |path: &str, args: &[&str]| {
        let mut curl = Command::new("curl");
        curl.current_dir(db.dir()).args(["-s", "-i", "--cacert", "ca.crt"]).args(args);
        succeed(curl.arg(format!("{url}{path}")))
    };
    let enter = |user: &str, password: &str, args: &[&str]| {
        let body = json!({ "user": user, "password": password }).to_string();
        let json = ["-H", "Content-Type: application/json", "--data-binary", &body];
        curl("/api/log-on", &[&json[..], args].concat())
    };
    let reply = enter("skein", PASSWORD, &[]);
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    assert!(reply.contains("; Secure") && reply.contains("strict-transport-security"), "{reply}");
    // Whose certificate counts needs no password, and gets in as nobody else.
    let shown = ["--cert", "ann.crt", "--key", "ann.key"];
    assert!(enter("ann", "", &shown).starts_with("HTTP/1.1 200"));
    let reply = enter("ann", PASSWORD, &[]);
    assert!(reply.starts_with("HTTP/1.1 403") && reply.contains("certificate"), "{reply}");
    assert!(enter("skein", "", &shown).starts_with("HTTP/1.1 401"));
    assert!(curl("/", &["-H", "Host: db.example"]).starts_with("HTTP/1.1 200"));
    let metrics = curl("/metrics", &["-H", "Host: db.example"]);
    assert!(metrics.starts_with("HTTP/1.1 401"), "a name could lead here: {metrics}");
    assert!(curl("/metrics", &[]).starts_with("HTTP/1.1 200"));
}

/// Whoever opens connections and says nothing, or half a request, keeps others from the console at
/// the most, and from nothing else.
#[test]
fn a_console_that_is_swamped_harms_nobody_else() {
    let db = Db::open(1);
    let port = console_port(&db, 1);
    let open = |head: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let _ = stream.write_all(head.as_bytes());
        stream
    };
    let silent: Vec<TcpStream> = (0..100).map(|_| open("GET / HTTP/1.1\r\nHost:")).collect();
    assert_eq!(db.sql(1, "select 7"), "7");
    // Those beyond the limit are closed at once.
    let closed = |stream: &TcpStream| {
        stream.set_nonblocking(true).unwrap();
        let mut stream = stream;
        match stream.read(&mut [0]) {
            Ok(bytes) => bytes == 0,
            Err(e) => e.kind() != std::io::ErrorKind::WouldBlock,
        }
    };
    wait_until("some are closed", || silent.iter().any(closed));
    drop(silent);
    wait_until("there is room again", || {
        let mut stream = open("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        text.starts_with("HTTP/1.1 200")
    });
    for head in [
        "\0\u{1}\u{2}\r\n\r\n".to_owned(),
        "GET / HTTP/9\r\n\r\n".to_owned(),
        format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(100_000)),
        format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "a: b\r\n".repeat(1_000)),
    ] {
        let mut text = String::new();
        let _ = open(&head).read_to_string(&mut text);
        assert!(!text.starts_with("HTTP/1.1 200"), "{text}");
    }
    // Sessions are bounded too, and a request for one more is told so.
    let tries: Vec<Reply> = (0..20).map(|_| try_log_on(port, "skein", PASSWORD)).collect();
    let full = tries.iter().filter(|reply| reply.status == 503).count();
    assert_eq!((full, tries.iter().filter(|reply| reply.status == 200).count()), (4, 16));
    assert_eq!(db.sql(1, "select 8"), "8");
    assert_eq!(http(port, "/metrics", &[], None).status, 200);
}
