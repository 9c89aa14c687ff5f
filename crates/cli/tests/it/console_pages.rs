//! The pages of the web console in a browser: they show what happens, on a desktop and on a phone,
//! take no user's text for markup, and say when an instance is down.
//!
//! With `SKEIN_PICTURES` set to a folder the pictures that are taken stay there.

use crate::browser::Browser;
use crate::console::console_port;
use crate::console_history::{Client, blocked_row};
use crate::db::{Db, Folder, PASSWORD, wait_until};
use serde_json::Value;
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

/// A folder for the browser, and where pictures go.
fn folders() -> (Folder, PathBuf) {
    let own = Folder::new();
    std::fs::create_dir_all(&own.0).unwrap();
    let pictures = std::env::var_os("SKEIN_PICTURES").map_or_else(|| own.0.clone(), PathBuf::from);
    (own, pictures)
}

/// The width of a small phone.
fn phone(browser: &mut Browser, scheme: &str) {
    browser.size(375, 812, true, scheme);
}

fn go_to(browser: &mut Browser, page: &str) {
    browser.eval(&format!("location.hash = '#{page}'"));
    browser.wait_for(&format!("document.querySelector('nav a[aria-current]').hash === '#{page}'"));
}

/// Statements are sorted by what is chosen, and one of them is opened.
fn check_statements(browser: &mut Browser, folder: &Path) {
    go_to(browser, "sql");
    let rows = "[...document.querySelectorAll('td.statement')]";
    browser.wait_for(&format!("{rows}.some(r => r.innerText.includes('from t where id >'))"));
    browser.wait_for("document.querySelector('td.num.chosen').innerText.includes('/s')");
    // It has not looked for a minute yet, and does not say so.
    browser.wait_for(
        "[...document.querySelectorAll('.head')].some(e => \
         /\\d since this page was opened, \\d+ s ago/.test(e.innerText))",
    );
    for title in ["Elapsed", "CPU", "Gets", "Executions", "Cluster", "Elapsed each"] {
        browser.eval(&format!(
            "[...document.querySelectorAll('button.sort')].find(b => b.innerText === '{title}').click()"
        ));
        browser.wait_for(&format!(
            "document.querySelector('button.sort[aria-pressed=\"true\"]').innerText === '{title}'"
        ));
    }
    browser.eval(
        "[...document.querySelectorAll('.chips label')].find(l => l.innerText === 'Since start').click()",
    );
    browser.eval(
        "[...document.querySelectorAll('button.sort')].find(b => b.innerText === 'Gets').click()",
    );
    // The largest first: numbers with their units are put in order by the page's own reading.
    let sorted = "(() => { const of = t => parseFloat(t.replace(/,/g, '')) * \
        (t.includes('G') ? 1e9 : t.includes('M') ? 1e6 : t.includes('k') ? 1e3 : 1); \
        const all = [...document.querySelectorAll('td.num.chosen')].map(c => c.innerText) \
        .filter(t => t !== '–').map(of); \
        return all.length > 3 && all.every((v, i) => i === 0 || v <= all[i - 1] * 1.06); })()";
    browser.wait_for(sorted);
    browser.eval(&format!(
        "{rows}.find(r => r.innerText.includes('from t where id >')).querySelector('a').click()"
    ));
    browser.wait_for(
        "document.querySelector('pre.text').innerText.includes('select count(*), sum(v) from t')",
    );
    browser.wait_for(
        "[...document.querySelectorAll('.steps td.step')].some(c => \
         c.innerText.includes('SELECT STATEMENT'))",
    );
    browser.eval(
        "[...document.querySelectorAll('.statement-open button')].find(b => \
         b.innerText === 'Explain').click()",
    );
    browser.wait_for("document.querySelector('pre.plan').innerText.toLowerCase().includes('scan')");
    browser.wait_for(
        "[...document.querySelectorAll('.statement-open .part')].find(p => \
         p.innerText.startsWith('By instance')).querySelectorAll('tbody tr').length === 2",
    );
    browser.wait_for("document.querySelector('.statement-open .top-row .bar rect')");
    browser.wait_for("document.querySelector('.statement-open .chart path')");
    let kept = "[...document.querySelectorAll('.statement-open td .code')].some(c => /^\\d+$/.test(c.innerText))";
    browser.wait_for(kept);
    picture(browser, folder, "sql");
    phone(browser, "dark");
    // With little width the figures stand beneath each other.
    browser.wait_for("document.querySelectorAll('.statement-open .part tbody tr').length > 15");
    picture(browser, folder, "phone-sql-open");
    browser.size(1280, 900, false, "light");
    browser.eval("document.querySelector('.statement-open a[href=\"#sql\"]').click()");
    browser.wait_for("!document.querySelector('.statement-open')");
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

    let (own, folder) = folders();
    let mut browser = Browser::start(&own.0);
    browser.size(1280, 900, false, "light");
    browser.open(&format!("http://127.0.0.1:{}/", console_port(&db, 1)));
    log_on(&mut browser, "wrong");
    browser.wait_for("document.getElementById('log-on-error').innerText.includes('failed')");
    picture(&mut browser, &folder, "log-on");
    log_on(&mut browser, PASSWORD);

    // The chart of the cluster, and one of each instance, have areas; the lists have rows.
    browser.wait_for("document.querySelectorAll('.chart').length === 3");
    browser
        .wait_for("[...document.querySelectorAll('.chart')].every(c => c.querySelector('path'))");
    for list in ["Top wait events", "Top SQL", "Top sessions"] {
        browser.wait_for(&format!(
            "document.querySelector('[data-list=\"{list}\"] .top-row .bar rect')"
        ));
    }
    browser
        .wait_for("document.querySelector('[data-list=\"Top SQL\"]').innerText.includes('from t')");
    // What somebody draws over in the chart is what the lists are about.
    let range = browser.eval("document.getElementById('range').innerText");
    browser.draw(".chart.choosable svg", 0.6, 1.0);
    browser.wait_for(
        "[...document.querySelectorAll('.chips label')].some(l => l.innerText === 'Chosen')",
    );
    browser.wait_for(&format!("document.getElementById('range').innerText !== {range}"));
    let band = "Number(document.querySelector('.band').getAttribute('width')) \
                / document.querySelector('.chart svg').clientWidth";
    browser.wait_for(&format!("Math.abs({band} - 0.4) < 0.03"));
    browser.wait_for("document.querySelectorAll('[data-list] .top-row').length > 3");
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

    check_statements(&mut browser, &folder);

    go_to(&mut browser, "parameters");
    browser.wait_for("document.querySelectorAll('#page table tbody tr').length > 40");
    picture(&mut browser, &folder, "parameters");

    for scheme in ["dark", "light"] {
        phone(&mut browser, scheme);
        for page in ["activity", "instances", "sql", "sessions", "reports", "parameters"] {
            go_to(&mut browser, page);
            browser.wait_for("document.querySelector('#page .chart path, #page table, #page .item, #page .snapshots p')");
            picture(&mut browser, &folder, &format!("phone-{page}-{scheme}"));
        }
    }
    phone(&mut browser, "dark");
    // A tap chooses too.
    go_to(&mut browser, "activity");
    browser.wait_for("document.querySelector('.top-row')");
    browser.tap(".chart.choosable svg", 0.7);
    browser.wait_for(
        "[...document.querySelectorAll('.chips label')].some(l => l.innerText === 'Chosen')",
    );
    browser.wait_for("Number(document.querySelector('.band').getAttribute('width')) > 20");
    picture(&mut browser, &folder, "phone-activity");

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

#[test]
fn sessions_stand_in_a_tree_of_blockers() {
    let db = Db::open(2);
    let [first, mut second] = blocked_row(&db);
    // Behind the one of instance 2 that waits stands another of instance 1; and there is a table
    // that one of instance 2 keeps from one of instance 1.
    db.sql(1, "create table ledger (id int primary key)");
    let mut third = Client::on(&db, 1);
    let mut locks = Client::on(&db, 2);
    let mut inserts = Client::on(&db, 1);
    let blocked = "select count(*) from gv$session where blocking_session is not null";
    wait_until("the first waits", || db.sql(1, blocked) == "1");
    drop(first);
    wait_until("its blocker has gone", || db.sql(1, blocked) == "0");
    // Now the second holds the row. It goes on to wait for one that a new session holds.
    let mut first = Client::on(&db, 1);
    first.run("begin; update accounts set balance = 9 where id = 2;");
    let transactions = |n: &str| db.sql(1, "select count(*) from gv$transaction") == n;
    wait_until("the row is held", || transactions("2"));
    second.run("update accounts set balance = 5 where id = 2;");
    wait_until("the second waits", || db.sql(1, blocked) == "1");
    third.run("update accounts set balance = 7 where id = 1;");
    wait_until("the third waits", || db.sql(1, blocked) == "2");
    locks.run("begin; lock table ledger in exclusive mode;");
    let locked = "select count(*) from gv$lock where type = 'TM' and lmode = 6";
    wait_until("the table is locked", || db.sql(1, locked) == "1");
    inserts.run("insert into ledger values (1);");
    wait_until("the insert waits", || db.sql(1, blocked) == "3");
    let sid = |sql: &str| db.sql(1, &format!("select sid from gv$session where {sql}"));
    let [a, b, c] = [
        sid("sql_text like 'update accounts set balance = 9%'"),
        sid("sql_text like 'update accounts set balance = 5%'"),
        sid("sql_text like 'update accounts set balance = 7%'"),
    ];

    let (own, folder) = folders();
    let mut browser = Browser::start(&own.0);
    browser.size(1280, 900, false, "light");
    browser.open(&format!("http://127.0.0.1:{}/#sessions", console_port(&db, 2)));
    log_on(&mut browser, PASSWORD);
    browser.wait_for("document.querySelectorAll('#blockers > .tree').length === 2");
    // The final blocker first, with the longer chain above the shorter one.
    let chain = format!(
        "[...document.querySelectorAll('#blockers > .tree')][0]; \
         const at = e => e.querySelector(':scope > .item').dataset.sid; \
         const below = e => e.querySelector(':scope > .tree'); \
         return [at(root), at(below(root)), at(below(below(root)))].join() === '{a},{b},{c}';"
    );
    browser.wait_for(&format!("(() => {{ const root = {chain} }})()"));
    let item =
        |sid: &str| format!("document.querySelector('#blockers [data-sid=\"{sid}\"]').innerText");
    browser.wait_for(&format!("{}.includes('blocks 2')", item(&a)));
    browser.wait_for(&format!("{}.includes('instance 1')", item(&a)));
    browser.wait_for(&format!("{}.includes('idle')", item(&a)));
    browser.wait_for(&format!("{}.includes('instance 2')", item(&b)));
    browser.wait_for(&format!("{}.includes('enq: TX - row lock contention')", item(&b)));
    let row = "/waits for accounts, row \\d+ in block \\d+ of file \\d+, exclusive; transaction/";
    browser.wait_for(&format!("{row}.test({})", item(&b)));
    browser.wait_for(&format!("{row}.test({})", item(&c)));
    browser.wait_for("document.getElementById('blockers').innerText.includes('waits for table ledger, row exclusive')");
    // How long: it grows, though the lock is waited for in parts.
    let seconds = format!("parseFloat({}.match(/([\\d.]+) s\\b/)[1]) >= 3", item(&b));
    browser.wait_for(&seconds);
    picture(&mut browser, &folder, "blockers");
    phone(&mut browser, "dark");
    picture(&mut browser, &folder, "phone-blockers");
    // Whoever may ends the one that all wait for.
    let press = |browser: &mut Browser, what: &str| {
        browser.eval(&format!(
            "document.querySelector('#blockers [data-sid=\"{a}\"] {what}').click()"
        ));
    };
    press(&mut browser, "button");
    browser.wait_for("document.querySelector('#blockers .item.open button.danger')");
    press(&mut browser, "button.danger");
    browser.wait_for("document.querySelector('dialog[open] button.danger')");
    browser.eval("document.querySelector('dialog button.danger').click()");
    browser.wait_for(&format!("!document.querySelector('#blockers [data-sid=\"{a}\"]')"));
    assert_eq!(browser.troubles, Vec::<String>::new());
}

#[test]
fn a_report_is_made_and_shown_in_the_page() {
    let db = Db::open(2);
    db.sql(1, "create table t (id int primary key, v int)");
    db.sql(1, "insert into t select g, 0 from generate_series(0, 2000) g");
    let (own, folder) = folders();
    let mut browser = Browser::start(&own.0);
    browser.size(1280, 900, false, "light");
    let address = format!("http://127.0.0.1:{}/", console_port(&db, 1));
    browser.open(&format!("{address}#reports"));
    log_on(&mut browser, PASSWORD);
    let button = |name: &str| {
        format!(
            "[...document.querySelectorAll('#page button')].find(b => b.innerText === '{name}')"
        )
    };
    browser.wait_for("document.querySelector('.snapshots').innerText.includes('no snapshot yet')");
    assert_eq!(browser.eval(&format!("{}.disabled", button("Workload report"))), true);
    let take = |browser: &mut Browser, n: usize| {
        browser.wait_for(&format!("!{}.disabled", button("Take a snapshot")));
        browser.eval(&format!("{}.click()", button("Take a snapshot")));
        browser
            .wait_for(&format!("document.querySelectorAll('.snapshots tbody tr').length === {n}"));
        browser.wait_for(&format!(
            "document.querySelector('#page').innerText.includes('Snapshot {n} is taken.')"
        ));
    };
    take(&mut browser, 1);
    let load = Load::start(&db);
    let active = "select count(*) from gv$active_session_history where session_type = 'FOREGROUND' \
                  and program = 'pgbench'";
    wait_until("there is work", || db.sql(1, active).parse::<u64>().unwrap() > 20);
    take(&mut browser, 2);
    take(&mut browser, 3);
    // The two newest are chosen; the first is chosen by hand.
    let chosen =
        "[...document.querySelectorAll('.snapshots input:checked')].map(i => i.value).join()";
    assert_eq!(browser.eval(chosen), "3,2", "end, then begin, in the order of the rows");
    browser.eval("document.querySelector('.snapshots input[name=begin][value=\"1\"]').click()");
    browser.eval("document.querySelector('.snapshots input[name=end][value=\"2\"]').click()");
    let open = |browser: &mut Browser, name: &str, address: &str| {
        browser.eval(&format!("{}.click()", button(name)));
        browser.wait_for(&format!(
            "document.querySelector('iframe.report').getAttribute('src').includes('{address}') && \
             document.querySelector('iframe.report').dataset.loaded === 'yes'"
        ));
        browser.frame_text(address)
    };
    let report = open(&mut browser, "Workload report", "kind=workload&begin=1&end=2");
    for part in ["Skein workload report", "Load by Instance", "Top Timed Events", "Snaps: 1-2"] {
        assert!(report.contains(part), "{part}: {report}");
    }
    picture(&mut browser, &folder, "report");
    // It runs nothing, and the page cannot be reached from it.
    assert_eq!(browser.eval("document.querySelector('iframe.report').getAttribute('sandbox')"), "");
    assert_eq!(
        browser.eval("document.querySelector('iframe.report').contentDocument"),
        Value::Null
    );
    let told = open(&mut browser, "Diagnosis", "kind=diagnosis&begin=1&end=2");
    assert!(told.contains("Snapshots 1 to 2 of"), "{told}");
    picture(&mut browser, &folder, "diagnosis");
    browser.eval(
        "[...document.querySelectorAll('.chips label')].find(l => l.innerText === '1').click()",
    );
    let ash = open(&mut browser, "ASH report", "kind=ash&minutes=5&instance=1");
    assert!(ash.contains("ASH REPORT") && ash.contains("Top User Events"), "{ash}");
    phone(&mut browser, "dark");
    picture(&mut browser, &folder, "phone-report");
    drop(load);
    // By itself in a tab of its own it is the same page.
    browser.size(1280, 900, false, "light");
    browser.open(&format!("{address}api/report?kind=workload&begin=1&end=2"));
    browser.wait_for("document.body.innerText.includes('Load by Instance')");
    assert_eq!(browser.troubles, Vec::<String>::new());
}
