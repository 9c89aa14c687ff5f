//! The pages of the web console in a browser: they show what happens, on a desktop and on a phone,
//! take no user's text for markup, and say when an instance is down.
//!
//! With `SKEIN_PICTURES` set to a folder the pictures that are taken stay there.

use crate::browser::Browser;
use crate::console::console_port;
use crate::db::{Db, Folder, PASSWORD};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// Statements that keep both instances at work, some of them on the same rows.
const LOAD: [&str; 3] = [
    "begin; update t set v = v + 1 where id = (random() * 9)::int; commit;",
    "select count(*), sum(v) from t where id > (random() * 1000)::int;",
    "begin; update t set v = v + 1 where id = 500; update t set v = v + 1 where id = 501; commit;",
];

/// Clients that work until they are dropped.
struct Load(Vec<Child>);

impl Load {
    fn start(db: &Db) -> Load {
        let scripts = LOAD.iter().enumerate().map(|(n, text)| {
            let path = db.dir().join(format!("load_{n}.sql"));
            std::fs::write(&path, text.replace("; ", ";\n")).unwrap();
            path
        });
        let scripts: Vec<PathBuf> = scripts.collect();
        let start = |k: u16| {
            let mut pgbench = db.client("pgbench", k);
            pgbench.args(["-n", "-c", "3", "-j", "1", "-T", "600", "-M", "prepared"]);
            pgbench.args(scripts.iter().flat_map(|path| [Path::new("-f"), path]));
            pgbench.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("pgbench runs")
        };
        Load([1, 2].map(start).into())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Takes a picture of what is shown; it must show something.
fn picture(browser: &mut Browser, folder: &Path, name: &str) {
    let bytes = browser.picture(&folder.join(format!("{name}.png")));
    assert!(bytes > 8_000, "{name} is empty: {bytes} bytes");
    let wider = browser
        .eval("document.documentElement.scrollWidth > document.documentElement.clientWidth + 1");
    assert_eq!(wider, serde_json::json!(false), "{name} is wider than the screen");
}

fn log_on(browser: &mut Browser, password: &str) {
    browser.wait_for("!document.getElementById('log-on').hidden");
    let fill = format!(
        "(() => {{ const form = document.getElementById('log-on-form'); \
         form.elements.user.value = 'skein'; form.elements.password.value = {}; \
         form.requestSubmit(); }})()",
        serde_json::json!(password)
    );
    browser.eval(&fill);
}

fn go_to(browser: &mut Browser, page: &str) {
    browser.eval(&format!("location.hash = '#{page}'"));
    browser.wait_for(&format!("document.querySelector('nav a[aria-current]').hash === '#{page}'"));
}

#[test]
fn pages_show_what_the_cluster_does() {
    let db = Db::open(2);
    db.sql(1, "create table t (id int primary key, v int)");
    db.sql(1, "insert into t select g, 0 from generate_series(0, 2000) g");
    let load = Load::start(&db);
    let mut marked = db.client("psql", 2);
    let text = "select '<img src=x onerror=\"document.title=1\">' as v, pg_sleep(600)";
    marked.args(["-X", "-c", text]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut marked = marked.spawn().unwrap();

    let own = Folder::new();
    std::fs::create_dir_all(&own.0).unwrap();
    let folder = std::env::var_os("SKEIN_PICTURES").map_or_else(|| own.0.clone(), PathBuf::from);
    let mut browser = Browser::start(&own.0);
    browser.size(1280, 900, false, "light");
    browser.open(&format!("http://127.0.0.1:{}/", console_port(&db, 1)));
    log_on(&mut browser, "wrong");
    browser.wait_for("document.getElementById('log-on-error').innerText.includes('failed')");
    picture(&mut browser, &folder, "log-on");
    log_on(&mut browser, PASSWORD);

    // The chart of the cluster, and one of each instance, have areas.
    browser.wait_for("document.querySelectorAll('.chart').length === 3");
    browser
        .wait_for("[...document.querySelectorAll('.chart')].every(c => c.querySelector('path'))");
    browser.wait_for("document.querySelectorAll('#page table tbody tr').length > 2");
    picture(&mut browser, &folder, "activity");

    go_to(&mut browser, "instances");
    browser.wait_for("document.querySelectorAll('.matrix .rate').length === 2");
    browser.wait_for("document.querySelectorAll('svg.bar rect').length > 1");
    browser.wait_for("!document.querySelector('.facts').innerText.includes('–')");
    picture(&mut browser, &folder, "instances");

    go_to(&mut browser, "sessions");
    browser.wait_for("document.querySelector('#page').innerText.includes('<img src=x')");
    browser.eval(
        "[...document.querySelectorAll('.item')].find(i => i.innerText.includes('<img')) \
         .querySelector('button').click()",
    );
    browser.wait_for("document.querySelector('.item.open .actions button.danger')");
    picture(&mut browser, &folder, "sessions");
    // Text of a user is text: there is no such image, and its script has not run.
    assert_eq!(browser.eval("document.querySelectorAll('#page img').length"), 0);
    assert_ne!(browser.eval("document.title"), "1");
    browser.eval("document.querySelector('.item.open .actions button.danger').click()");
    browser.wait_for("document.querySelector('dialog[open]')");
    browser.eval("document.querySelector('dialog button.danger').click()");
    browser.wait_for("!document.querySelector('#page').innerText.includes('<img src=x')");
    assert!(!marked.wait().unwrap().success(), "it was terminated");

    go_to(&mut browser, "sql");
    browser.wait_for("document.querySelector('.item button')");
    // A statement of the load shows while it runs: whichever is there is asked for its plan.
    browser.wait_for(
        "(() => { if (document.querySelector('dialog[open]')) \
         return document.querySelector('dialog[open] pre') !== null; \
         [...document.querySelectorAll('.item')].find(i => i.innerText.includes('from t')) \
         ?.querySelector('button').click(); return false; })()",
    );
    picture(&mut browser, &folder, "sql");
    browser.eval("document.getElementById('dialog').close()");

    go_to(&mut browser, "parameters");
    browser.wait_for("document.querySelectorAll('#page table tbody tr').length > 40");
    picture(&mut browser, &folder, "parameters");

    browser.size(390, 844, true, "dark");
    for page in ["activity", "instances", "sql", "sessions", "parameters"] {
        go_to(&mut browser, page);
        browser.wait_for("document.querySelector('#page .chart path, #page table, #page .item')");
        picture(&mut browser, &folder, &format!("phone-{page}"));
    }

    // Instance 2 goes down and comes back; then this one.
    drop(load);
    go_to(&mut browser, "activity");
    db.abort(2);
    browser.wait_for("document.getElementById('banner').innerText.includes('Instance 2 is down')");
    picture(&mut browser, &folder, "phone-down");
    db.start_all();
    browser.wait_for("document.getElementById('banner').hidden");
    let listens = format!("console_listen = \"127.0.0.1:{}\"", console_port(&db, 1));
    db.edit_settings(|text| text.replacen("console_listen = \"127.0.0.1:0\"", &listens, 1));
    db.abort(1);
    browser.wait_for("document.getElementById('banner').innerText.includes('has not answered')");
    db.start_all();
    browser.wait_for("!document.getElementById('log-on').hidden");
    log_on(&mut browser, PASSWORD);
    browser.wait_for("!document.getElementById('console').hidden");
    assert_eq!(browser.troubles, Vec::<String>::new());
}
