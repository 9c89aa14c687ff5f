//! Sequences over instances: who gets which values, what the dictionary knows of it, and what a
//! crash makes of it.

use crate::clients::{connect, strings};
use crate::db::{Db, wait_until};
use std::collections::BTreeSet;
use std::fmt::Write;

/// Takes values on an instance, and tells them with the dictionary's last number.
fn take(db: &Db, k: u16, name: &str, count: u32, story: &mut String) {
    let take = format!("select nextval('{name}');").repeat(count as usize);
    let values = db.sql(k, &take);
    let values: Vec<i64> = values.lines().map(|line| line.parse().unwrap()).collect();
    let last = last_number(db, name);
    let run = match (values.first(), values.last()) {
        (Some(a), Some(b)) if a == b => format!("{a}"),
        (Some(a), Some(b)) => format!("{a}-{b}"),
        _ => String::new(),
    };
    assert!(values.windows(2).all(|two| two[0] + 1 == two[1]), "{values:?}");
    let _ = writeln!(story, "instance {k} takes {run}, highwater {last}");
}

fn last_number(db: &Db, name: &str) -> i64 {
    let sql =
        format!("select last_number from dba_sequences where sequence_name = upper('{name}')");
    db.sql(1, &sql).parse().unwrap()
}

/// The walk that a sequence's highwater takes while two instances use it in turn.
#[test]
fn instances_take_ranges_as_large_as_the_cache_says() {
    let db = Db::open(2);
    db.sql(1, "create sequence cached start with 10");
    // Its maker gives the definition up, with what it holds, when another instance first reads it.
    assert_eq!(db.sql(2, "select is_called from cached"), "f");
    let mut story = format!("highwater {}\n", last_number(&db, "cached"));
    take(&db, 1, "cached", 1, &mut story);
    let held = "select nextvalue, highwater, cache_size from v$_sequences \
                where sequence_name = 'CACHED'";
    assert_eq!(db.sql(1, held), "11|29|20");
    assert_eq!(db.sql(2, held), "");
    let loads = "select inst_id, loads, load_time > 0 from gv$_sequences \
                 where sequence_name = 'CACHED' order by inst_id";
    assert_eq!(db.sql(2, loads), "1|1|t");
    take(&db, 2, "cached", 1, &mut story);
    assert_eq!(db.sql(1, loads), "1|1|t\n2|1|t");
    take(&db, 1, "cached", 19, &mut story);
    take(&db, 1, "cached", 1, &mut story);
    assert_eq!(
        story,
        "\
highwater 9
instance 1 takes 10, highwater 29
instance 2 takes 30, highwater 49
instance 1 takes 11-29, highwater 49
instance 1 takes 50, highwater 69
"
    );
    db.sql(1, "create sequence uncached start with 10 nocache");
    let mut story = format!("highwater {}\n", last_number(&db, "uncached"));
    for k in [1, 2, 1] {
        take(&db, k, "uncached", 1, &mut story);
    }
    assert_eq!(
        story,
        "\
highwater 9
instance 1 takes 10, highwater 10
instance 2 takes 11, highwater 11
instance 1 takes 12, highwater 12
"
    );
    let shown = "select min_value, increment_by, cycle_flag, order_flag, cache_size \
                 from dba_sequences where sequence_name = 'UNCACHED'";
    assert_eq!(db.sql(2, shown), "1|1|N|N|0");
}

/// One change of the dictionary for each range, however quickly they are used up.
#[test]
fn a_range_is_never_larger_than_the_cache_says() {
    let db = Db::open(1);
    db.sql(1, "create sequence quick cache 20");
    let take = "select nextval('quick');".repeat(400);
    let on =
        "alter session set tracefile_identifier = 'quick'; alter session set sql_trace = true;";
    db.sql(1, &format!("{on} {take}"));
    let trace = std::fs::read_dir(db.dir().join("trace")).unwrap().next().unwrap().unwrap();
    // The file is written behind the session's back.
    crate::db::wait_until("the trace has twenty changes, and no more", || {
        let report = db_report(&trace.path().display().to_string());
        let changes = report.split("****\n").find(|block| block.contains("update seq$ set"));
        changes.is_some_and(|changes| changes.contains("\nExecute     20 "))
    });
    assert_eq!(last_number(&db, "quick"), 400);
}

fn db_report(trace: &str) -> String {
    crate::db::succeed(crate::db::skein().args(["tkprof", trace]))
}

#[test]
fn a_crash_loses_values_and_repeats_none() {
    let db = Db::open(2);
    db.sql(1, "create sequence survivor cache 50");
    let mut seen = BTreeSet::new();
    let mut take = |k| {
        let values = db.sql(k, &"select nextval('survivor');".repeat(7));
        for value in values.lines() {
            assert!(seen.insert(value.parse::<i64>().unwrap()), "{value} was given twice");
        }
    };
    for _ in 0..3 {
        take(1);
        take(2);
        db.abort(2);
        wait_until("it is out", || db.sql(1, "select count(*) from gv$instance") == "1");
        take(1);
        db.start_all();
        take(2);
    }
    // What instance 2 held at each crash is lost.
    let last = last_number(&db, "survivor");
    assert!(last >= 200, "{last}");
}

/// The cache of an ordered sequence belongs to all instances, and is lost with the one that has it.
#[test]
fn an_ordered_sequences_values_come_in_order_from_a_cache() {
    let db = Db::open(2);
    db.sql(1, "create sequence ordered cache 20 order");
    let mut story = String::new();
    for (k, count) in [(1, 3), (2, 3), (1, 1), (2, 13), (1, 1)] {
        take(&db, k, "ordered", count, &mut story);
    }
    assert_eq!(
        story,
        "\
instance 1 takes 1-3, highwater 20
instance 2 takes 4-6, highwater 20
instance 1 takes 7, highwater 20
instance 2 takes 8-20, highwater 20
instance 1 takes 21, highwater 40
"
    );
    let waits = "select count(*) > 0 from gv$system_event where event = 'DFS lock handle'";
    assert_eq!(db.sql(1, waits), "t");
    // Other rules begin behind the value that was handed out last, wherever that was.
    db.sql(2, "alter sequence ordered increment by 10");
    let next = "select nextval('ordered')";
    let values: Vec<i64> = [1, 2].map(|k| db.sql(k, next).parse().unwrap()).into();
    assert_eq!(values, [31, 41]);
    let high = last_number(&db, "ordered");
    db.signal(1, nix::sys::signal::Signal::SIGKILL);
    let after: i64 = db.sql(2, next).parse().unwrap();
    assert!(after == high + 10 || after == values[1] + 10, "{after} behind {values:?}, {high}");
}

/// What is left of the common cache goes back with ALTER, so that a script can bring the sequence
/// to where it began; and the instance that has the cache shows it.
#[test]
fn altering_an_ordered_sequence_loses_no_values() {
    let db = Db::open(2);
    db.sql(1, "create sequence back cache 20 order");
    // Its maker gives the definition up when another instance first reads it.
    assert_eq!(db.sql(2, "select is_called from back"), "f");
    let next = "select nextval('back')";
    let held = "select active_flag, nextvalue, highwater, loads from v$_sequences \
                where sequence_name = 'BACK'";
    assert_eq!(db.sql(1, next), "1");
    assert_eq!(db.sql(1, held), "Y|2|20|1");
    assert_eq!([2, 2].map(|k| db.sql(k, next)), ["2", "3"]);
    assert_eq!(db.sql(2, held), "Y|4|20|0");
    assert_eq!(db.sql(1, held), "N|||1");
    db.sql(1, "alter sequence back increment by -3 minvalue 0");
    assert_eq!(db.sql(2, next), "0");
    db.sql(2, "alter sequence back increment by 1");
    assert_eq!([1, 2].map(|k| db.sql(k, next)), ["1", "2"]);
    db.sql(1, "alter sequence back cache 50");
    assert_eq!([1, 2].map(|k| db.sql(k, next)), ["3", "4"]);
    db.sql(2, "alter sequence back noorder");
    assert_eq!(db.sql(2, next), "5");
}

/// ALTER SEQUENCE that has waited for another one goes by what that has left.
#[tokio::test(flavor = "multi_thread")]
async fn what_another_alter_has_changed_meanwhile_stays() {
    let db = Db::init_with(2, "256M", &[]);
    db.start_all();
    db.sql(1, "create sequence rules");
    let (first, second) = (connect(&db, 1).await, connect(&db, 2).await);
    let sid = strings(&second, "select pg_backend_pid()").await.remove(0);
    first.batch_execute("begin; alter sequence rules increment by 5").await.unwrap();
    let waiting = tokio::spawn(async move {
        second.batch_execute("alter sequence rules cache 50").await.expect("it has waited");
    });
    let waits = format!(
        "select count(*) from gv$session where sid = {sid} and state = 'WAITING' and \
         wait_class <> 'Idle' and seconds_in_wait > 0"
    );
    wait_until("the other one waits", || db.sql(1, &waits) == "1");
    first.batch_execute("commit").await.unwrap();
    waiting.await.unwrap();
    let rules = "select concat_ws(' ', increment_by, cache_size) from pg_sequences where \
                 sequencename = 'rules'";
    assert_eq!(strings(&first, rules).await, ["5 50"]);
}
