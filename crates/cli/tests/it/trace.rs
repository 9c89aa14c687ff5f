//! SQL trace of real sessions, and what `skein tkprof` and `skein trcsess` make of it.

use crate::clients::{connect, strings};
use crate::db::{Db, PASSWORD, fail, skein, succeed, wait_until};
use std::path::PathBuf;

const ON: &str = "alter session set events '10046 trace name context forever , level 12'";
const OFF: &str = "alter session set events '10046 trace name context off'";

impl Db {
    fn trace(&self, name: &str) -> PathBuf {
        self.dir().join("trace").join(name)
    }

    fn trace_text(&self, name: &str) -> String {
        std::fs::read_to_string(self.trace(name)).unwrap_or_default()
    }
}

/// The lines of a file that begin with this.
fn lines<'a>(text: &'a str, begin: &str) -> Vec<&'a str> {
    text.lines().filter(|line| line.starts_with(begin)).collect()
}

/// The block of a report that has this statement.
fn block<'a>(report: &'a str, statement: &str) -> &'a str {
    let mut blocks = report.split("****\n");
    blocks.find(|block| block.contains(statement)).unwrap_or_else(|| panic!("{report}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_traced_with_its_waits_for_another_instance() {
    // Who gathers statistics on the session's instance would fetch the blocks in its place; what is
    // seen in the other's memory is not waited for.
    let db = Db::init_with(2, "256M", &["autovacuum=off", "_gc_direct_reads=off"]);
    db.start_all();
    db.sql(1, "create table story (id int primary key, n int, v text)");
    db.sql(1, "insert into story select i, i % 7, 'x' from generate_series(1, 1000) i");
    db.sql(1, "create sequence story_seq nocache");
    let client = connect(&db, 1).await;
    // What the session has used before is not looked up again.
    client.batch_execute("alter session set tracefile_identifier = 'story'").await.unwrap();
    client.batch_execute(ON).await.unwrap();
    db.sql(2, "update story set v = 'there' where id = 5");
    let text = "select v from story where id = $1";
    let found: String = client.query_one(text, &[&5i32]).await.unwrap().get(0);
    assert_eq!(found, "there");
    db.sql(2, "update story set v = 'again'");
    let scan = "select max(n) from story where v = $1";
    for _ in 0..2 {
        let most: i32 = client.query_one(scan, &[&"again"]).await.unwrap().get(0);
        assert_eq!(most, 6);
    }
    client
        .execute("insert into story values (2000, nextval('story_seq'), $1)", &[&"mine"])
        .await
        .unwrap();
    assert!(client.batch_execute("selec 1").await.is_err());
    assert!(client.batch_execute("insert into story values (5, 5, 'twice')").await.is_err());
    let show = "select value from v$diag_info where name = 'Default Trace File'";
    let path: String = client.query_one(show, &[]).await.unwrap().get(0);
    client.batch_execute(OFF).await.unwrap();
    client.batch_execute("select 'untraced'").await.unwrap();
    // It is told also where nothing is traced, and of nobody else.
    let told: String = client.query_one(show, &[]).await.unwrap().get(0);
    assert_eq!(told, path);
    let other: String = connect(&db, 1).await.query_one(show, &[]).await.unwrap().get(0);
    assert!(other.ends_with(".trc") && !std::path::Path::new(&other).exists(), "{other}");

    let trace = std::fs::read_to_string(&path).unwrap();
    assert!(path.ends_with("_story.trc") && trace.contains("*** SESSION ID:("), "{path}: {trace}");
    let cursor = lines(&trace, "PARSING IN CURSOR").len();
    assert!(cursor >= 4, "{trace}");
    assert!(trace.contains(&format!("\n{text}\nEND OF STMT\n")), "{trace}");
    assert!(lines(&trace, "PARSE #").iter().any(|line| line.contains("mis=1")), "{trace}");
    assert!(trace.contains("  value=5\n") && trace.contains("  value=\"again\"\n"), "{trace}");
    let waits = lines(&trace, "WAIT #");
    assert!(waits.iter().any(|line| line.contains("nam='gc c")), "{trace}");
    assert!(waits.iter().any(|line| line.contains("nam='SQL*Net message from client'")), "{trace}");
    let stats = lines(&trace, "STAT #");
    assert!(stats.iter().any(|line| line.contains("op='TABLE ACCESS FULL STORY (cr=")), "{trace}");
    assert!(stats.iter().any(|line| line.contains("op='SORT AGGREGATE")), "{trace}");
    for step in [
        "op='TABLE ACCESS BY INDEX ROWID STORY (cr=",
        "op='INDEX UNIQUE SCAN STORY_PKEY (cr=",
        "op='LOAD TABLE CONVENTIONAL STORY (cr=",
    ] {
        assert!(stats.iter().any(|line| line.contains(step)), "{step}: {trace}");
    }
    assert_eq!(lines(&trace, "PARSE ERROR #").len(), 1, "{trace}");
    assert!(trace.contains("err=42601\nselec 1\n") && trace.contains(":err=23505 tim="), "{trace}");
    assert!(trace.contains("XCTEND rlbk=0, rd_only=1,"), "{trace}");
    assert!(trace.contains("XCTEND rlbk=0, rd_only=0,"), "{trace}");
    // The sequence's change of the dictionary: inside the insert, before its own line.
    let seq = trace.find("update seq$ set").expect("the change of seq$");
    let insert = trace.find("insert into story values (2000").expect("the insert");
    assert!(insert < seq && trace[seq..].contains("\nEXEC #"), "{trace}");
    assert!(!trace.contains("untraced"), "{trace}");
    assert!(lines(&trace, "CLOSE #").len() >= 4, "{trace}");

    let report = succeed(skein().args(["tkprof", &path, "sort=prsela,exeela,fchela"]));
    let scanned = block(&report, scan);
    assert!(
        scanned.contains("\nExecute      2 ") && scanned.contains("\nFetch        2 "),
        "{report}"
    );
    assert!(scanned.contains("SORT AGGREGATE") && scanned.contains("  gc c"), "{report}");
    assert!(block(&report, "update seq$ set").contains("(recursive depth: 1)"), "{report}");
    let failed = "encountered a error during parse:\n\nselec 1\n\nError encountered: 42601\n";
    assert!(block(&report, "selec 1\n").contains(failed), "{report}");
    let own = succeed(skein().args(["tkprof", &path, "sys=no", "waits=no"]));
    assert!(!own.contains("update seq$ set") && !own.contains("Event waited on"), "{own}");
    // Cut in the middle of its last line: what there is, and where it ends.
    let cut = db.dir().join("cut.trc");
    std::fs::write(&cut, &trace[..trace.len() - 5]).unwrap();
    let out = db.dir().join("cut.prf");
    let said = fail(1, skein().arg("tkprof").args([&cut, &out]));
    assert!(said.contains("one place of the input could not be read"), "{said}");
    let report = std::fs::read_to_string(&out).unwrap();
    let last =
        format!("{}:{}: the file ends within this line", cut.display(), trace.lines().count());
    assert!(report.contains(&last) && report.contains(scan), "{report}");
}

/// The lines of a statement's plan in a trace.
fn stat_lines<'a>(trace: &'a str, text: &str) -> Vec<&'a str> {
    let parsed = format!("\n{text}\nEND OF STMT\n");
    let (before, _) = trace.split_once(&parsed).unwrap_or_else(|| panic!("{text}: {trace}"));
    let begin = "PARSING IN CURSOR #";
    let parsing = before.lines().rev().find_map(|line| line.strip_prefix(begin));
    let number = parsing.and_then(|rest| rest.split(' ').next()).expect("it has a number");
    lines(trace, &format!("STAT #{number} "))
}

/// A figure of such a line.
fn figure<'a>(line: &'a str, name: &str) -> &'a str {
    let (_, behind) = line.split_once(&format!(" {name}=")).unwrap_or_else(|| panic!("{line}"));
    behind.split(' ').next().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_has_the_steps_that_the_views_have() {
    let db = Db::open(1);
    db.sql(1, "create table steps (id int primary key, n int, v text)");
    db.sql(1, "create index steps_n on steps (n)");
    db.sql(1, "insert into steps select i, i % 7, 'x' from generate_series(1, 1000) i");
    let client = connect(&db, 1).await;
    client.batch_execute("alter session set tracefile_identifier = 'steps'").await.unwrap();
    client.batch_execute("alter session set sql_trace = true").await.unwrap();
    let texts = [
        "select v from steps where id = 7",
        "select max(v) from steps where n = 3",
        "update steps set v = 'y' where id = 7",
        "update steps set v = 'y' where n = 4",
        "delete from steps where id = 8",
        "delete from steps where id = 5000 and n = 3",
        "insert into steps select id + 2000, n, v from steps where id < 10",
        "select id from steps where n = 5 for update",
    ];
    for text in texts {
        client.batch_execute(text).await.unwrap();
    }
    let show = "select value from v$diag_info where name = 'Default Trace File'";
    let path: String = client.query_one(show, &[]).await.unwrap().get(0);
    client.batch_execute("alter session set sql_trace = false").await.unwrap();
    let trace = std::fs::read_to_string(&path).unwrap();
    for text in texts {
        let shown = |line: &&str| {
            let (_, operation) = line.split_once(" op='").expect("it names its operation");
            let words = operation.split(" (cr=").next().unwrap_or_default();
            format!("{} {} {words}", figure(line, "id"), figure(line, "pid"))
        };
        let told: Vec<String> = stat_lines(&trace, text).iter().map(shown).collect();
        let plan = format!(
            "select string_agg(concat_ws(' ', p.id, p.parent_id, p.operation, p.options, \
             p.object_name), ';' order by p.id) from v$sql_plan p join v$sql s on \
             s.sql_id = p.sql_id where p.id > 0 and s.sql_text = '{}'",
            text.replace('\'', "''")
        );
        assert_eq!(told.join(";"), db.sql(1, &plan), "{text}: {trace}");
    }
    let rows = |text: &str| {
        let all = stat_lines(&trace, text);
        all.iter().map(|line| figure(line, "cnt").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(rows("select v from steps where id = 7"), ["1", "1"]);
    assert_eq!(rows("update steps set v = 'y' where id = 7"), ["1", "1"]);
    assert_eq!(rows("delete from steps where id = 5000 and n = 3"), ["0", "0"]);
    assert_eq!(rows("update steps set v = 'y' where n = 4")[..2], ["143", "143"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_another_instance_is_traced_by_a_call() {
    let db = Db::open(2);
    db.sql(1, "create role clerk login password 'secret'");
    let client = connect(&db, 2).await;
    let who = "select sid, serial# from v$session where sid = pg_backend_pid()";
    let row = client.query_one(who, &[]).await.unwrap();
    let (sid, serial): (i32, i32) = (row.get(0), row.get(1));
    let state = format!(
        "select sql_trace, sql_trace_waits, sql_trace_binds from gv$session \
                         where inst_id = 2 and sid = {sid}"
    );
    assert_eq!(db.sql(1, &state), "DISABLED|FALSE|FALSE");
    let enable = "dbms_monitor.session_trace_enable";
    db.sql(1, &format!("call {enable}({sid}, {serial}, true, false, inst_id => 2)"));
    assert_eq!(db.sql(1, &state), "ENABLED|TRUE|FALSE");
    client.batch_execute("select 'seen from afar'").await.unwrap();
    db.sql(1, &format!("exec dbms_monitor.session_trace_disable({sid}, {serial}, 2)"));
    assert_eq!(db.sql(1, &state), "DISABLED|FALSE|FALSE");
    let name = format!("skein_2_ora_{sid}.trc");
    let text = db.trace_text(&name);
    assert!(text.contains("\nselect 'seen from afar'\nEND OF STMT\n"), "{text}");
    // Without being switched off, what was traced is in the file soon.
    db.sql(2, &format!("call {enable}({sid}, {serial})"));
    client.batch_execute("select 'written soon'").await.unwrap();
    wait_until("it is in the file", || db.trace_text(&name).contains("select 'written soon'"));
    let session = format!("session={sid}.{serial}");
    let path = db.trace(&name).display().to_string();
    let picked = succeed(skein().args(["trcsess", &session, &path]));
    assert!(picked.contains("select 'seen from afar'"), "{picked}");
    assert_eq!(succeed(skein().args(["trcsess", "session=0.0", &path])), "");

    // The other ways to say the same, and plans of all executions.
    client.batch_execute("exec dbms_session.session_trace_disable").await.unwrap();
    let plans = format!("select sql_trace_plan_stats from gv$session where sid = {sid}");
    let on = "alter session set events 'sql_trace wait=true, bind=true, plan_stat=all_executions'";
    client.batch_execute("create table each_time (v int)").await.unwrap();
    client.batch_execute(on).await.unwrap();
    assert_eq!(db.sql(1, &state), "ENABLED|TRUE|TRUE");
    assert_eq!(db.sql(1, &plans), "ALL EXEC");
    for _ in 0..2 {
        client.batch_execute("select max(v) from each_time").await.unwrap();
    }
    client.batch_execute("exec dbms_session.set_sql_trace(false)").await.unwrap();
    assert_eq!(db.sql(1, &state), "DISABLED|FALSE|FALSE");
    let report = succeed(skein().args(["tkprof", &path]));
    let told = "Number of plan statistics captured: 2\n";
    let each = block(&report, "select max(v) from each_time");
    assert!(each.contains(told), "{report}");
    // One block for both runs: the first one's lines have the plan's number as well.
    let hash = "select plan_hash_value from v$sql where sql_text = 'select max(v) from each_time'";
    let hash = db.sql(2, hash);
    assert!(hash != "0" && each.contains(&format!("Plan Hash: {hash}\n")), "{hash}: {report}");
    assert!(each.contains("\nExecute      2 ") && each.contains("\nFetch        2 "), "{report}");
    assert!(each.contains("Misses in library cache during parse: 1\n"), "{report}");
    client.batch_execute("exec dbms_session.set_sql_trace(true)").await.unwrap();
    assert_eq!(db.sql(1, &state), "ENABLED|FALSE|FALSE");
    client.batch_execute("alter session set events 'sql_trace off'").await.unwrap();
    assert_eq!(db.sql(1, &state), "DISABLED|FALSE|FALSE");

    db.sql_error(1, "42704", &format!("call {enable}({sid}, 0, inst_id => 2)"));
    db.sql_error(1, "55000", &format!("call {enable}({sid}, {serial}, inst_id => 9)"));
    db.sql_error(1, "42704", "call dbms_monitor.session_trace_enable(9999, 1)");
    db.sql_error(1, "0A000", "alter session set events '10053 trace name context forever'");
    db.sql_error(
        1,
        "0A000",
        "alter session set events '10046 trace name context forever, level 7'",
    );
    db.sql_error(1, "22023", "alter session set tracefile_identifier = '../x'");
    let clerk = format!("set role clerk; call {enable}({sid}, {serial}, inst_id => 2)");
    db.sql_error(1, "42501", &clerk);
}

/// The number behind a word of a line.
fn number(line: &str, key: &str) -> u64 {
    let rest = line.split_once(key).map_or("", |(_, rest)| rest);
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("{key} in {line}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_of_blocks_are_told_also_when_they_cannot_be_prepared() {
    let db = Db::init_with(1, "256M", &[]);
    db.start_all();
    let client = connect(&db, 1).await;
    client
        .batch_execute("create table e (v numeric(5,2)); create table fresh (id int)")
        .await
        .unwrap();
    client
        .batch_execute("alter session set events '10046 trace name context forever, level 13'")
        .await
        .unwrap();
    for what in [
        "execute immediate 'selec 1'",
        "execute immediate 'select nosuch from e'",
        "insert into e values (1000000)",
    ] {
        let block = format!("begin {what}; exception when others then null; end;");
        client.batch_execute(&block).await.unwrap();
    }
    let block = "declare n number; begin select count(*) into n from fresh where id > 3; end;";
    client.batch_execute(block).await.unwrap();
    client
        .batch_execute("set application_name = 'renamed'; select 'under that name'")
        .await
        .unwrap();
    let sid = strings(&client, "select pg_backend_pid()").await.remove(0);
    client.batch_execute(OFF).await.unwrap();
    let name = format!("skein_1_ora_{sid}.trc");
    let text = db.trace_text(&name);
    let failed = |code: &str| {
        let line =
            text.lines().find(|line| line.starts_with("PARSE ERROR") && line.ends_with(code));
        number(line.unwrap_or_else(|| panic!("{code}: {text}")), "dep=")
    };
    assert_eq!((failed("err=42601"), failed("err=42703")), (1, 1), "{text}");
    // What a constant gives is no fault of the text.
    let (before, _) = text.split_once(":err=22003").unwrap_or_else(|| panic!("{text}"));
    let call = before.lines().rfind(|line| line.starts_with("EXEC #")).expect("its execution");
    assert_eq!(number(call, "dep="), 1, "{text}");
    // The dictionary is read for the statement of the block, not for the block.
    let (_, behind) = text.split_once(block.trim_end_matches(';')).expect("the block");
    let is_end = |line: &str| line.starts_with("EXEC #") && line.contains("dep=0");
    let end = behind.lines().position(is_end).expect("its execution");
    let calls: Vec<&str> = behind.lines().take(end + 1).collect();
    let gets = |depth: u64| -> u64 {
        let is_call = |line: &&&str| {
            ["PARSE #", "EXEC #", "FETCH #"].iter().any(|call| line.starts_with(call))
        };
        let of_depth = calls.iter().filter(is_call).filter(|l| number(l, "dep=") == depth);
        of_depth.map(|line| number(line, "cr=") + number(line, "cu=")).sum()
    };
    assert!(gets(2) > 0 && gets(2) <= gets(1) && gets(1) <= gets(0), "{calls:?}");
    let path = db.trace(&name).display().to_string();
    let picked = succeed(skein().args(["trcsess", "module=renamed", &path]));
    assert!(picked.contains("select 'under that name'"), "{picked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn procedures_that_switch_traces_take_expressions() {
    let db = Db::init_with(1, "256M", &[]);
    db.start_all();
    let client = connect(&db, 1).await;
    let state = async || {
        let sql = "select concat_ws(' ', sql_trace, sql_trace_waits, sql_trace_binds) from \
                   v$session where sid = pg_backend_pid()";
        strings(&client, sql).await.remove(0)
    };
    let own = "(select sid, serial# from v$session where sid = pg_backend_pid())";
    let over = |call: &str| format!("begin for r in {own} loop {call}; end loop; end;");
    let on = over("dbms_monitor.session_trace_enable(r.sid, r.serial#, true, binds => 1 = 1)");
    client.batch_execute(&on).await.unwrap();
    assert_eq!(state().await, "ENABLED TRUE TRUE");
    let off = over("dbms_monitor.session_trace_disable(r.sid, r.serial#)");
    client.batch_execute(&off).await.unwrap();
    assert_eq!(state().await, "DISABLED FALSE FALSE");
    // Parameters of procedures, functions, bind variables.
    let switch = "create procedure switch(p boolean) as begin dbms_session.set_sql_trace(p); end;";
    client.batch_execute(switch).await.unwrap();
    client.batch_execute("exec switch(true)").await.unwrap();
    assert_eq!(state().await, "ENABLED FALSE FALSE");
    client.batch_execute("exec switch(false)").await.unwrap();
    let serial = "select serial# from v$session where sid = pg_backend_pid()";
    let serial: i32 = client.query_one(serial, &[]).await.unwrap().get(0);
    let enable = "call dbms_monitor.session_trace_enable(sys_context('userenv', 'sid'),";
    client.batch_execute(&format!("{enable} {serial} * 4 / 4)")).await.unwrap();
    assert_eq!(state().await, "ENABLED TRUE FALSE");
    client.batch_execute("exec dbms_session.session_trace_disable").await.unwrap();
    let rule = "declare v varchar2(10) := 'it''s'; begin \
                dbms_monitor.client_id_trace_enable(v || '1', binds => v is null); end;";
    client.batch_execute(rule).await.unwrap();
    let rules = "select concat_ws(' ', primary_id, waits, binds) from dba_enabled_traces";
    assert_eq!(strings(&client, rules).await, ["it's1 t f"]);
    let wrong = "begin dbms_monitor.session_trace_enable(1, 2, x => 3); end;";
    let error = client.batch_execute(wrong).await.expect_err("there is no such argument");
    assert_eq!(error.code().map(|code| code.code()), Some("42883"));
}

/// A client of a service of instance `k` that calls itself `module`.
async fn of_service(db: &Db, k: u16, service: &str, module: &str) -> tokio_postgres::Client {
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(db.port(k)).user("skein").dbname(service).password(PASSWORD);
    let (client, connection) =
        config.application_name(module).connect(tokio_postgres::NoTls).await.expect("connects");
    tokio::spawn(connection);
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_traced_by_service_module_and_client() {
    let db = Db::init_with(2, "256M", &["service_names=shop, back"]);
    db.start_all();
    let rule = "dbms_monitor.serv_mod_act_trace_enable";
    db.sql(1, &format!("call {rule}('shop', 'orders', waits => false, binds => true)"));
    let shown =
        "select trace_type, primary_id, qualifier_id1, waits, binds from dba_enabled_traces";
    assert_eq!(db.sql(2, shown), "SERVICE_MODULE|shop|orders|f|t");
    let (orders, other) =
        (of_service(&db, 2, "shop", "orders").await, of_service(&db, 2, "shop", "x").await);
    let state = "select sql_trace || ' ' || sql_trace_binds from v$session \
                 where sid = pg_backend_pid() and service_name = 'shop'";
    let is = |client: &tokio_postgres::Client| {
        tokio::task::block_in_place(|| {
            let row = tokio::runtime::Handle::current().block_on(client.query_one(state, &[]));
            row.unwrap().get::<_, String>(0)
        })
    };
    assert_eq!((is(&orders), is(&other)), ("ENABLED TRUE".into(), "DISABLED FALSE".into()));
    // It has not been switched on again, but for all modules: open sessions follow, too.
    let all = "dbms_monitor.serv_mod_act_trace_";
    db.sql(1, &format!("call {all}enable('shop', waits => false, binds => true)"));
    wait_until("open sessions of the other instance follow", || is(&other) == "ENABLED TRUE");
    db.sql(1, &format!("call {all}disable('shop')"));
    wait_until("open sessions of the other instance follow", || is(&other) == "DISABLED FALSE");
    other.batch_execute("set application_name = 'orders'").await.unwrap();
    assert_eq!(is(&other), "ENABLED TRUE");
    other.batch_execute("call dbms_application_info.set_module('bills', 'all')").await.unwrap();
    assert_eq!(is(&other), "DISABLED FALSE");
    // What it asks for itself stays, whatever it says.
    other.batch_execute(ON).await.unwrap();
    other.batch_execute("set application_name = 'orders'").await.unwrap();
    other.batch_execute("set application_name = 'bills'").await.unwrap();
    assert_eq!(is(&other), "ENABLED TRUE");
    let by_client = "call dbms_monitor.client_id_trace_enable('mary')";
    db.sql(2, by_client);
    let back = of_service(&db, 2, "back", "b").await;
    back.batch_execute("call dbms_session.set_identifier('mary')").await.unwrap();
    back.batch_execute("select 'of mary'").await.unwrap();
    let sid: i32 = back.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
    let name = format!("skein_2_ora_{sid}.trc");
    wait_until("it is in the file", || db.trace_text(&name).contains("select 'of mary'"));
    // It is on after a restart, and off when it is switched off.
    db.stop();
    db.start_all();
    let again = of_service(&db, 1, "shop", "orders").await;
    assert_eq!(is(&again), "ENABLED TRUE");
    let off = "call dbms_monitor.serv_mod_act_trace_disable('shop', 'orders')";
    db.sql(2, off);
    wait_until("the other instance follows", || is(&again) == "DISABLED FALSE");
    db.sql_error(1, "42704", off);
    db.sql_error(1, "42501", &format!("create role c login; set role c; {off}"));
    db.sql_error(1, "0A000", &format!("call {rule}('shop', plan_stat => 'never')"));
    db.sql_error(1, "22023", &format!("call {rule}('shop', plan_stat => 'x')"));
    let sessions = "select string_agg(name || sessions, ' ' order by name) from v$active_services";
    assert_eq!(db.sql(1, sessions), "back0 shop1 skein1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_logs_on_after_the_call_is_traced_on_any_instance() {
    let db = Db::open(3);
    let state = "select sql_trace from v$session where sid = pg_backend_pid()";
    // Sessions of three instances: those that log on as soon as the call has returned.
    let states = async |module: &str| {
        let mut states = Vec::new();
        for k in 1..=3 {
            let client = of_service(&db, k, "skein", module).await;
            states.push(client.query_one(state, &[]).await.unwrap().get::<_, String>(0));
        }
        states.join(" ")
    };
    for round in 1..=3 {
        let module = format!("m{round}");
        assert_eq!(states(&module).await, "DISABLED DISABLED DISABLED");
        let caller = connect(&db, round).await;
        let rule = |what: &str| {
            format!("call dbms_monitor.serv_mod_act_trace_{what}('skein', '{module}')")
        };
        caller.batch_execute(&rule("enable")).await.unwrap();
        assert_eq!(states(&module).await, "ENABLED ENABLED ENABLED", "by instance {round}");
        caller.batch_execute(&rule("disable")).await.unwrap();
        assert_eq!(states(&module).await, "DISABLED DISABLED DISABLED", "by instance {round}");
    }
}

#[test]
fn a_trace_ends_at_its_limit_and_without_a_folder_it_is_lost() {
    let db = Db::open(1);
    let settings = "alter session set max_dump_file_size = 1024; \
                    alter session set sql_trace = true; \
                    alter session set tracefile_identifier = 'short'";
    let many = "select 'some text';".repeat(40);
    db.sql(1, &format!("{settings}; {many}"));
    // Written by a background task, which may be at it when the session has ended.
    let text = || {
        let folder = std::fs::read_dir(db.dir().join("trace")).into_iter().flatten();
        let mut paths = folder.map(|entry| entry.unwrap().path());
        let short = paths.find(|path| path.to_string_lossy().ends_with("_short.trc"));
        short.map(|path| std::fs::read_to_string(path).unwrap()).unwrap_or_default()
    };
    let end = "*** DUMP FILE SIZE IS LIMITED TO 1024 BYTES ***\n";
    wait_until("the trace ends at its limit", || text().ends_with(end));
    // A file in the folder's place: sessions go on, and the alert log tells once.
    std::fs::remove_dir_all(db.dir().join("trace")).unwrap();
    std::fs::write(db.dir().join("trace"), "no folder").unwrap();
    for _ in 0..2 {
        assert_eq!(db.sql(1, "alter session set sql_trace = true; select 7"), "7");
    }
    wait_until("it is told", || db.alert_log(1).contains("write trace file"));
    assert_eq!(db.alert_log(1).matches("what cannot be written is lost").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_texts_and_of_values_are_told_apart() {
    let db = Db::open(1);
    let client = connect(&db, 1).await;
    client.batch_execute("alter session set tracefile_identifier = 'errors'").await.unwrap();
    client.batch_execute(ON).await.unwrap();
    let (divides, unknown) = ("select 1/0 from dual", "select nosuch from dual");
    for text in [divides, unknown] {
        assert!(client.batch_execute(text).await.is_err(), "{text}");
    }
    // The call that sets a module ends in it, and was parsed before it.
    let names = "call dbms_application_info.set_module('mod1', 'act1')";
    client.batch_execute(names).await.unwrap();
    client.batch_execute("select 'in the module'").await.unwrap();
    let show = "select value from v$diag_info where name = 'Default Trace File'";
    let path: String = client.query_one(show, &[]).await.unwrap().get(0);
    client.batch_execute(OFF).await.unwrap();
    let trace = std::fs::read_to_string(&path).unwrap();
    let number = |text: &str| {
        let (before, _) = trace.split_once(&format!("\n{text}\nEND OF STMT\n")).expect("its text");
        let parsing = before.lines().last().and_then(|l| l.strip_prefix("PARSING IN CURSOR #"));
        parsing.and_then(|rest| rest.split(' ').next()).expect("it has a number").to_owned()
    };
    let (divides, unknown) = (number(divides), number(unknown));
    assert_eq!(lines(&trace, &format!("PARSE #{divides}:")).len(), 1, "{trace}");
    assert_eq!(lines(&trace, &format!("EXEC #{divides}:")).len(), 1, "{trace}");
    assert!(trace.contains(&format!("\nERROR #{divides}:err=22012 tim=")), "{trace}");
    let failed = lines(&trace, "PARSE ERROR #");
    assert_eq!(failed.len(), 1, "{trace}");
    assert!(failed[0].starts_with(&format!("PARSE ERROR #{unknown}:len=23 dep=0 ")), "{trace}");
    assert!(failed[0].ends_with(" err=42703"), "{trace}");
    let report = succeed(skein().args(["tkprof", &path]));
    assert!(block(&report, "select 1/0 from dual").contains("Calls that failed: 1\n"), "{report}");
    assert!(block(&report, "select nosuch").contains("Error encountered: 42703\n"), "{report}");
    let out = db.dir().join("o.trc").display().to_string();
    succeed(skein().args(["trcsess", "module=mod1", &format!("output={out}"), &path]));
    let report = succeed(skein().args(["tkprof", &out]));
    assert!(block(&report, names).contains("\nExecute      1 "), "{report}");
    assert!(report.contains("in the module") && !report.contains("nosuch"), "{report}");
}
