//! `gv$` views: what one instance says of all.

use crate::clients::{connect, strings};
use crate::db::{Db, PASSWORD, wait_until};
use nix::sys::signal::Signal;

const WHO: &str = "select inst_id from gv$instance order by 1";

#[test]
fn every_gv_view_has_the_rows_of_all_instances() {
    let db = Db::open(3);
    db.sql(1, "create table t (id int primary key, v int)");
    db.sql(1, "create sequence s");
    for k in 1..=3 {
        db.sql(k, "select nextval('s')");
        db.sql(k, &format!("insert into t values ({k}, 0)"));
        db.sql(k, "update t set v = v + 1");
        db.sql(k, "select /*+ gather_plan_statistics */ max(v) from t");
    }
    // What is shown while it lasts: a lock on each instance.
    let held = [1, 2, 3].map(|k| {
        let mut psql = db.client("psql", k);
        psql.args(["-X", "-q", "-c", "begin", "-c", &format!("update t set v = 9 where id = {k}")]);
        psql.args(["-c", "select pg_sleep(100)"]);
        psql.spawn().unwrap()
    });
    wait_until("the rows are locked", || {
        let sql = "select count(distinct inst_id) from gv$lock where type = 'TM'";
        db.sql(2, sql) == "3"
    });
    for k in 1..=3 {
        assert_eq!(db.sql(k, WHO), "1\n2\n3");
        // Temporary files are there only while somebody sorts much, waits where somebody waits,
        // samples where somebody works, long operations where something took long, metrics after a
        // whole interval, cursors where they are open, full log files where there is much redo; a
        // session has its statistics on one.
        let views = db.sql(
            k,
            "select lower(name) from v$fixed_table where name like 'GV$%' and lower(name) not in \
             ('gv$tempseg_usage', 'gv$ges_blocking_enqueue', 'gv$enqueue_statistics', \
              'gv$enqueue_stat', 'gv$session_longops', 'gv$sysmetric', \
              'gv$active_session_history', 'gv$tempfile', 'gv$open_cursor', 'gv$mystat', \
              'gv$log_history')",
        );
        assert!(views.lines().any(|view| view == "gv$session"), "{views}");
        for view in views.lines() {
            let sql = format!("select distinct inst_id from {view} order by 1");
            assert_eq!(db.sql(k, &sql), "1\n2\n3", "{view} through instance {k}");
        }
    }
    // The same counter, read on the instance itself and through another.
    let local = db.sql(2, "select value from v$parameter where name = 'listen'");
    let sql = "select value from gv$parameter where inst_id = 2 and name = 'listen'";
    assert_eq!(db.sql(3, sql), local);
    for mut child in held {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// A row is locked on one instance, wanted on another: who waits for whom is seen from a third.
#[test]
fn waiters_and_blockers_are_seen_over_instances() {
    let db = Db::open(3);
    db.sql(1, "create table t (id int primary key, v int)");
    db.sql(1, "insert into t values (1, 0)");
    let spawn = |k, sql: &str| {
        let mut psql = db.client("psql", k);
        psql.args(["-X", "-q", "-c", "begin", "-c", sql, "-c", "select pg_sleep(100)"]);
        psql.spawn().unwrap()
    };
    let holder = spawn(1, "update t set v = 1");
    let sid = |k: u16| {
        db.sql(k, "select session_id from v$locked_object join v$session on sid = session_id")
    };
    wait_until("the row is locked", || !sid(1).is_empty());
    let waiter = spawn(2, "update t set v = 2");
    let waits = "select trunc(waiting_session / 100000)::int, \
                 trunc(holding_session / 100000)::int, lock_type, mode_held, mode_requested \
                 from dba_waiters";
    wait_until("somebody waits", || db.sql(3, waits) == "1|0|TX|6|6");
    let first = sid(1);
    assert_eq!(db.sql(3, "select holding_session from dba_blockers"), first);
    assert_eq!(db.sql(3, "select count(*) from gv$transaction"), "2");
    // The lock manager's view of the same, and of the lock itself.
    let global = "select owner_node, master_node, grant_level, request_level, blocked, blocker \
                  from gv$ges_blocking_enqueue where resource_name2 like '%,TX' order by blocked";
    assert_eq!(db.sql(3, global), "1|1|KJUSEREX|KJUSERNL|0|1\n2|1|KJUSERNL|KJUSEREX|1|0");
    let block = "select distinct block from gv$lock where type in ('TX', 'TM') and lmode > 0";
    assert_eq!(db.sql(3, block), "2", "nobody waits on the holder's own instance");
    let neighbour = spawn(1, "update t set v = 3");
    let of_holder = format!("select block from v$lock where type = 'TX' and sid = {first}");
    wait_until("one of its own instance waits", || db.sql(1, &of_holder) == "1");
    // Both are counted for the table, on the instance that waits.
    let counted = "select inst_id from gv$segment_statistics where object_name = 'T' and \
                   object_type = 'TABLE' and statistic_name = 'row lock waits' and value > 0 \
                   order by 1";
    wait_until("both are counted", || db.sql(3, counted) == "1\n2");
    for mut child in [holder, waiter, neighbour] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// Who waits for what becomes of a key asks for the transaction in mode 4.
#[test]
fn a_wait_for_a_key_is_one_in_share_mode() {
    let db = Db::open(2);
    db.sql(1, "create table t (id int primary key)");
    let spawn = |k| {
        let mut psql = db.client("psql", k);
        psql.args(["-X", "-q", "-c", "begin", "-c", "insert into t values (1)"]);
        psql.args(["-c", "select pg_sleep(100)"]);
        psql.spawn().unwrap()
    };
    let holder = spawn(1);
    wait_until("the key is there", || db.sql(1, "select count(*) from v$transaction") == "1");
    let waiter = spawn(2);
    let waits = "select lock_type, mode_held, mode_requested from dba_waiters";
    wait_until("somebody waits", || db.sql(1, waits) == "TX|6|4");
    let global = "select request_level from gv$ges_blocking_enqueue where blocked = 1";
    assert_eq!(db.sql(1, global), "KJUSERPR");
    for mut child in [holder, waiter] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn gv_views_go_on_while_an_instance_is_dead() {
    let db = Db::open(3);
    db.signal(2, Signal::SIGKILL);
    wait_until("the dead one is out", || db.sql(1, WHO) == "1\n3");
    assert_eq!(db.sql(3, WHO), "1\n3");
    db.start_all();
    wait_until("it is back", || db.sql(3, WHO) == "1\n2\n3");
    assert_eq!(db.sql(2, WHO), "1\n2\n3");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gv_query_waits_for_a_frozen_instance_and_can_be_cancelled() {
    let db = Db::open(3);
    let (client, looker) = (connect(&db, 1).await, connect(&db, 1).await);
    let cancel = client.cancel_token();
    // What both queries need of the dictionary is here before its master may be the frozen one.
    let waiting = "select count(*) from v$session_wait \
                   where event = 'reliable message' and state = 'WAITING'";
    client.batch_execute("select count(*) from gv$sysstat").await.unwrap();
    assert_eq!(strings(&looker, waiting).await, ["0"]);
    db.signal(3, Signal::SIGSTOP);
    let asked = tokio::spawn(async move {
        let answer = client.batch_execute("select count(*) from gv$sysstat").await;
        (answer, client)
    });
    while strings(&looker, waiting).await != ["1"] {
        assert!(!asked.is_finished(), "it did not wait for the frozen one");
    }
    cancel.cancel_query(tokio_postgres::NoTls).await.unwrap();
    let (answer, client) = asked.await.unwrap();
    assert_eq!(answer.unwrap_err().code().unwrap().code(), "57014");
    // Asked again, it ends when the frozen one is out of the cluster.
    let rows = client.query(WHO, &[]).await.unwrap();
    let who: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(who, [1, 2]);
}

/// A request that a block server does not get to is not taken for a slow network or log.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_waits_for_a_block_server_is_called_congested() {
    // Otherwise a reader looks into the other instance's memory.
    let db = Db::init_with(2, "256M", &["_gc_direct_reads=off"]);
    db.start_all();
    db.sql(1, "create table t (id int primary key, v int)");
    db.sql(1, "insert into t values (1, 0)");
    // A session that looks is there before the other instance stands still: to log in may need it.
    let looker = connect(&db, 2).await;
    let read = "select v from t where id = 1";
    let change = "update t set v = 1 where id = 1";
    for (last, event) in [(read, "gc cr block congested"), (change, "gc current block congested")] {
        let client = connect(&db, 2).await;
        let sid = strings(&client, "select pg_backend_pid()").await.remove(0);
        // For far longer than for anything else that the request may have to wait for.
        let waiting = format!(
            "select count(*) from v$session_wait where sid = {sid} and state = 'WAITING' \
             and event like 'gc c%request' and wait_time_micro > 50000"
        );
        // All else that the statement needs is here before the other instance stands still.
        client.batch_execute(last).await.unwrap();
        assert_eq!(strings(&looker, &waiting).await, ["0"]);
        db.sql(1, "update t set v = 2 where id = 1");
        db.signal(1, Signal::SIGSTOP);
        let asked = tokio::spawn(async move { client.batch_execute(last).await });
        while strings(&looker, &waiting).await != ["1"] {
            let all = "select string_agg(event || ' ' || state, ', ') from v$session_wait";
            assert!(!asked.is_finished(), "it did not wait: {:?}", strings(&looker, all).await);
        }
        db.signal(1, Signal::SIGCONT);
        asked.await.unwrap().unwrap();
        let named = format!("select count(*) > 0 from v$system_event where event = '{event}'");
        assert_eq!(db.sql(2, &named), "t", "{event}");
        moved::note([(moved::EVENT, event.to_owned(), true)]);
    }
    let late = "select sum(cr_congested + current_congested) > 0, max(cr_congested_time + \
                current_congested_time) > 1000 from v$instance_cache_transfer where instance = 1";
    assert_eq!(db.sql(2, late), "t|t");
    let split = "select max(lms_queue_us) > 1000 from v$gc_wait_split where instance = 1";
    assert_eq!(db.sql(2, split), "t", "{}", db.sql(2, "select * from v$gc_wait_split"));
    let queue = "select value > 1 from v$ges_statistics where name = 'gcs msgs queue time (ms)'";
    assert_eq!(db.sql(1, queue), "t");
}

/// Files are read and written on the thread that wants them: it stands still, and says for what.
#[test]
fn waits_for_files_are_counted() {
    let db = Db::open(1);
    db.sql(1, "create table t (id int primary key, v int)");
    db.sql(1, "insert into t select i, i from generate_series(1, 3000) g(i)");
    let waits = |event: &str| {
        let sql = format!("select total_waits from v$system_event where event = '{event}'");
        db.sql(1, &sql).parse::<u64>().unwrap_or(0)
    };
    assert!(waits("log file parallel write") > 0);
    assert!(waits("log file sync") > 0);
    // Before the first statement of a session: what it waits for after that are its own reads.
    db.stop();
    db.start_all();
    let sql = "select count(v) from t; select sum(total_waits) from v$session_event \
        where sid = pg_backend_pid() and event in ('db file sequential read', \
        'db file scattered read', 'direct path read')";
    let own = db.sql(1, sql);
    let reads: u64 = own.lines().last().unwrap().parse().unwrap_or(0);
    assert!(reads > 0, "the session read a table and waited for no read: {own}");
}

/// A client of instance `k` that runs statements one after the other and stays.
fn runs(db: &Db, k: u16, statements: &[&str]) -> std::process::Child {
    let mut psql = db.client("psql", k);
    psql.args(["-X", "-q"]);
    for sql in statements {
        psql.args(["-c", sql]);
    }
    psql.stdout(std::process::Stdio::null()).spawn().unwrap()
}

/// The number of the session whose last statement this is.
fn sid_of(db: &Db, k: u16, sql: &str) -> String {
    db.sql(k, &format!("select sid from v$session where sql_text = '{sql}' and type = 'USER'"))
}

#[test]
fn who_blocks_whom_is_known_over_instances() {
    let db = Db::open(3);
    db.sql(1, "create table t (id int primary key, v int)");
    db.sql(1, "insert into t select i, 0 from generate_series(1, 3) g(i)");
    let (first, second, third) = (
        "update t set v = 1 where id = 1",
        "update t set v = 2 where id = 1",
        "update t set v = 3 where id = 2",
    );
    let sleeps = "select pg_sleep(1000)";
    let mut holder = runs(&db, 1, &["begin", first, sleeps]);
    wait_until("the first row is changed", || !sid_of(&db, 1, sleeps).is_empty());
    let mut middle = runs(&db, 2, &["begin", "update t set v = 2 where id = 2", second]);
    let waiting = |k: u16, sql: &str| {
        let text = "select count(*) from v$session where state = 'WAITING' and \
             event = 'enq: TX - row lock contention' and sql_text";
        db.sql(k, &format!("{text} = '{sql}'")) == "1"
    };
    wait_until("the second waits for the first", || waiting(2, second));
    let mut last = runs(&db, 3, &[third]);
    wait_until("the third waits for the second", || waiting(3, third));
    let (holder_sid, middle_sid) = (sid_of(&db, 1, sleeps), sid_of(&db, 2, second));
    let obstacle = |view: &str, of: u16, sql: &str| {
        let columns = "blocking_session_status, blocking_instance, blocking_session, \
             final_blocking_instance, final_blocking_session, row_wait_obj# is not null";
        db.sql(of, &format!("select {columns} from {view} where sql_text = '{sql}'"))
    };
    let of_second = format!("VALID|1|{holder_sid}|1|{holder_sid}|t");
    let of_third = format!("VALID|2|{middle_sid}|1|{holder_sid}|t");
    assert_eq!(obstacle("v$session", 2, second), of_second);
    assert_eq!(obstacle("v$session", 3, third), of_third);
    for k in 1..=3 {
        assert_eq!(obstacle("gv$session", k, third), of_third, "through instance {k}");
    }
    assert_eq!(obstacle("v$session", 1, sleeps), "NO HOLDER|||||f");
    // The whole chain, from its end to its beginning.
    let lock = "enq: TX - row lock contention";
    let chain = "select instance, blocker_instance, blocker_is_valid, num_waiters, \
         wait_event_text = 'enq: TX - row lock contention', chain_is_cycle, chain_signature \
         from v$wait_chains where chain_id = (select chain_id from v$wait_chains where sid = ";
    let event = db.sql(1, &format!("select event from v$session where sid = {holder_sid}"));
    let signature = format!("FALSE|'{event}'<='{lock}'<='{lock}'");
    assert_eq!(
        db.sql(2, &format!("{chain}{holder_sid}) order by instance")),
        format!("1||FALSE|1|f|{signature}\n2|1|TRUE|1|t|{signature}\n3|2|TRUE|0|t|{signature}")
    );
    // Samples say the same, and what is waited for.
    let sampled = |what: &str| {
        db.sql(
            3,
            &format!(
                "select count(*) > 0 from v$active_session_history h, v$sql s, pg_class c \
                 where h.sql_id = s.sql_id and s.sql_text = '{third}' and c.relname = 't' \
                 and h.event = 'enq: TX - row lock contention' and h.session_state = 'WAITING' \
                 and h.wait_class = 'Application' and h.current_obj# = c.oid \
                 and h.blocking_inst_id = 2 and h.blocking_session = {middle_sid} and {what}"
            ),
        ) == "t"
    };
    wait_until("it is sampled", || sampled("time_waited = 0"));
    db.sql(1, &format!("select pg_terminate_backend({holder_sid})"));
    for child in [&mut holder, &mut middle, &mut last] {
        child.wait().unwrap();
    }
    wait_until("its last sample says how long it waited", || sampled("time_waited > 0"));
}

#[test]
fn an_instance_that_does_not_answer_holds_no_view_up() {
    let db = Db::open(2);
    db.sql(1, "create table t (id int primary key, v int)");
    db.sql(1, "insert into t values (1, 0)");
    let (first, second) = ("update t set v = 1 where id = 1", "update t set v = 2 where id = 1");
    let sleeps = "select pg_sleep(1000)";
    let mut holder = runs(&db, 2, &["begin", first, sleeps]);
    wait_until("the row is changed", || !sid_of(&db, 2, sleeps).is_empty());
    let mut waiter = runs(&db, 1, &[second]);
    let status = || {
        let sql = "select blocking_session_status, blocking_instance from v$session \
             where state = 'WAITING' and sql_text";
        db.sql(1, &format!("{sql} = '{second}'"))
    };
    wait_until("it waits", || status() == "VALID|2");
    db.signal(2, Signal::SIGSTOP);
    assert_eq!(status(), "UNKNOWN|2");
    db.signal(2, Signal::SIGCONT);
    for child in [&mut holder, &mut waiter] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_over_views_are_parsed_once_a_call() {
    let db = Db::open(2);
    db.sql(1, "create table t (id int primary key, v int)");
    db.sql(1, "insert into t values (1, 1), (2, 2)");
    let client = connect(&db, 1).await;
    let counted = |text: &str| {
        let sql = "select executions, parse_calls, loads from v$sqlarea where sql_text";
        db.sql(1, &format!("{sql} = '{text}'"))
    };
    let read = ["t where v > 0", "v$session where sid > 0", "gv$instance", "dba_users", "pg_class"];
    for from in read {
        // Sent as a text its plan is held when it has come twice.
        let text = format!("select count(*) from {from}");
        for _ in 0..3 {
            client.simple_query(&text).await.unwrap();
        }
        assert_eq!(counted(&text), "3|3|2", "{text}");
        let text = format!("select count(*) as n from {from}");
        let prepared = client.prepare(&text).await.unwrap();
        for _ in 0..3 {
            let rows: i64 = client.query_one(&prepared, &[]).await.unwrap().get(0);
            assert!(rows > 0, "{text}");
        }
        assert_eq!(counted(&text), "3|1|1", "{text}");
    }
    // One that is prepared sees what there is when it is executed.
    let here = client.prepare("select count(*) from gv$session where program = 'late'").await;
    let here = here.unwrap();
    let sessions = async || client.query_one(&here, &[]).await.unwrap().get::<_, i64>(0);
    assert_eq!(sessions().await, 0);
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(db.port(2)).user("skein").password(PASSWORD);
    let late = config.dbname("skein").application_name("late").connect(tokio_postgres::NoTls);
    let (late, connection) = late.await.unwrap();
    tokio::spawn(connection);
    late.batch_execute("select 1").await.unwrap();
    assert_eq!(sessions().await, 1);
}
