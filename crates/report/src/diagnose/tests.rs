//! Each rule by numbers for which it holds and numbers for which it does not, and whole diagnoses
//! to the letter.

use super::*;
use crate::awr::tests::{fetched, snapshot};
use crate::awr::{Input, Interval};

/// An interval of 10 minutes of instances 1 and 3, with these rows at its end and nothing before.
fn interval(tables: &[(&str, &str)]) -> Interval {
    let mut input = Input { database: "test".to_owned(), ..Input::default() };
    for (snap_id, minute) in [(1, 0), (2, 10)] {
        input.snapshots.extend([1, 3].map(|no| snapshot(snap_id, no, minute, 9)));
    }
    for (table, rows) in tables {
        let head = match *table {
            "wrh$_sysstat" => "name | value | class | unit",
            "wrh$_system_event" => {
                "event | wait_class | total_waits | time_waited_micro | total_waits_fg \
                 | time_waited_micro_fg"
            }
            "wrh$_gc_wait_split" => {
                "instance | class | kind | blocks | total_us | interconnect_us | master_queue_us \
                 | lms_build_us | pin_us | lgwr_flush_us | flushes | lms_queue_us | own_lms_us \
                 | master_lms_us"
            }
            "wrh$_sqlstat" => {
                "sql_id | plan_hash_value | executions | elapsed_time | cpu_time | buffer_gets \
                 | rows_processed | cluster_wait_time | application_wait_time | loads \
                 | force_matching_signature"
            }
            "wrh$_osstat" | "wrh$_sys_time_model" => "stat_name | value",
            "wrh$_sequences" => "sequence_owner | sequence_name | loads | load_time",
            "wrh$_seg_stat" => "owner | object_name | object_type | obj | statistic_name | value",
            other => panic!("{other}"),
        };
        let rows: Vec<String> = rows.lines().map(|row| format!("2 | {row}")).collect();
        let text = format!("snap_id | instance_number | {head}\n{}", rows.join("\n"));
        input.tables.insert((*table).to_owned(), fetched(&text));
    }
    input.texts.insert("q".to_owned(), "insert into t values (s.nextval, $1)".to_owned());
    Interval::new(&input, 1, 2, None).expect("an interval")
}

/// Sentences of one rule.
fn found_beside(name: &str, tables: &[(&str, &str)], beside: &Beside) -> Vec<Finding> {
    let interval = interval(tables);
    let db_time_us: f64 = interval.works.iter().map(Work::db_time_us).sum();
    let case = Case { interval: &interval, all: interval.together(), beside, db_time_us };
    let (_, rule) = RULES.iter().find(|(known, _)| *known == name).expect("a rule");
    rule(&case)
}

fn found(name: &str, tables: &[(&str, &str)]) -> Vec<Finding> {
    found_beside(name, tables, &Beside::default())
}

/// The one sentence, with its evidence.
fn told(found: &[Finding]) -> String {
    let [one] = found else { panic!("one finding, not {found:?}") };
    format!("{} {}", one.sentence, one.evidence.join("; "))
}

const SPLIT: &str = "wrh$_gc_wait_split";
const EVENTS: &str = "wrh$_system_event";
const STATS: &str = "wrh$_sysstat";
const SQL: &str = "wrh$_sqlstat";
const SEGMENTS: &str = "wrh$_seg_stat";
const SEQUENCES: &str = "wrh$_sequences";

#[test]
fn a_slow_log_writer_is_found_where_it_is() {
    let name = "a slow log writer elsewhere";
    let slow = "1 | 3 | data block | cr | 1000 | 63300000 | 300000 | 100000 | 300000 | 0 | 62600000 | 45 | 0 | 0 | 0";
    let writes = "3 | log file parallel write | System I/O | 10 | 43800000 | 0 | 0";
    let told = told(&found(name, &[(SPLIT, slow), (EVENTS, writes)]));
    assert!(
        told.starts_with("the log writer of instance 3 is slow, and instance 1 waits"),
        "{told}"
    );
    assert!(told.contains("3 -> 1: 1,000 blocks, 63.30 ms each"), "{told}");
    assert!(told.contains("took 4,380.00 ms each, 10 of them"), "{told}");
    // The same waits, spent on the way.
    let other = "1 | 3 | data block | cr | 1000 | 63300000 | 62300000 | 100000 | 300000 | 0 | 600000 | 45 | 0 | 0 | 0";
    assert!(found(name, &[(SPLIT, other)]).is_empty());
    // A flush is most of a wait that is short.
    let short =
        "1 | 3 | data block | cr | 1000 | 500000 | 100000 | 0 | 0 | 0 | 400000 | 1000 | 0 | 0 | 0";
    assert!(found(name, &[(SPLIT, short)]).is_empty());
}

#[test]
fn a_machine_whose_processors_are_all_wanted_is_told_of() {
    let row =
        "1 | 3 | data block | current | 1000 | 9000000 | 9 | 0 | 0 | 0 | 0 | 0 | 8000000 | 0 | 0";
    let machine = "3 | IDLE_TIME | 1000\n3 | BUSY_TIME | 99000";
    let told = told(&found("LMS without processor", &[(SPLIT, row), ("wrh$_osstat", machine)]));
    assert!(told.contains("its machine's processors were idle for 1.0 % of the time"), "{told}");
}

#[test]
fn the_parts_of_a_block_wait_are_told_apart() {
    let rows = [
        (
            "the interconnect",
            "9000000 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 0",
            "the way between instance 3",
        ),
        (
            "LMS without processor",
            "9 | 0 | 0 | 0 | 0 | 0 | 8000000 | 0 | 0",
            "LMS of instance 3 does",
        ),
        ("blocks that several want", "9 | 8000000 | 0 | 0 | 0 | 0 | 0 | 0 | 0", "instance 1 asks"),
        ("LMS at work", "9 | 0 | 8000000 | 0 | 0 | 0 | 0 | 0 | 0", "LMS of instance 3 works long"),
        ("pins", "9 | 0 | 0 | 8000000 | 0 | 0 | 0 | 0 | 0", "blocks that instance 1 asks for"),
    ];
    for (name, parts, sentence) in rows {
        let row = format!("1 | 3 | data block | current | 1000 | 9000000 | {parts}");
        let told = told(&found(name, &[(SPLIT, &row)]));
        assert!(told.starts_with(sentence), "{told}");
        for (other, ..) in rows.iter().filter(|(other, ..)| *other != name) {
            assert!(found(other, &[(SPLIT, &row)]).is_empty(), "{other} for {name}");
        }
    }
}

#[test]
fn the_lms_that_is_late_is_named() {
    let told = |queues: &str| {
        let row =
            format!("1 | 3 | data block | cr | 100 | 900000 | 9 | 0 | 0 | 0 | 0 | 0 | {queues}");
        told(&found("LMS without processor", &[(SPLIT, &row)]))
    };
    assert!(told("800000 | 0 | 0").starts_with("LMS of instance 3 does not"));
    assert!(told("0 | 800000 | 0").starts_with("LMS of instance 1 does not"));
    assert!(told("0 | 0 | 800000").starts_with("LMS of the instances that master the blocks"));
}

#[test]
fn hot_blocks_are_told_with_object_and_statement() {
    let events = "1 | gc buffer busy acquire | Cluster | 500 | 5000000 | 500 | 5000000";
    let segments = "1 | public | t | TABLE | 7 | gc current blocks received | 400\n\
                    3 | public | u | TABLE | 8 | gc cr blocks received | 20";
    let sql = "1 | q | 1 | 500 | 5000000 | 1000 | 500 | 500 | 4900000 | 0";
    let told = told(&found("hot blocks", &[(EVENTS, events), (SEGMENTS, segments), (SQL, sql)]));
    assert!(told.contains("of table public.t above all"), "{told}");
    assert!(told.contains("SQL q (500 executions, 5.00 s): insert into t"), "{told}");
    // All of the wait was for a log writer.
    let split =
        "1 | 3 | data block | current | 500 | 5000000 | 0 | 0 | 0 | 0 | 5000000 | 500 | 0 | 0 | 0";
    let flushed = found("hot blocks", &[(EVENTS, events), (SEGMENTS, segments), (SPLIT, split)]);
    assert!(flushed[0].cost_us <= 0.0, "{flushed:?}");
    assert!(found("hot blocks", &[(EVENTS, events)]).is_empty(), "no object, no sentence");
}

#[test]
fn commits_wait_for_the_device_the_others_or_are_many() {
    let events = |sync: u32, write: u32| {
        format!(
            "1 | log file sync | Commit | 100 | {} | 100 | {}\n\
             1 | log file parallel write | System I/O | 100 | {} | 0 | 0",
            sync * 100_000,
            sync * 100_000,
            write * 100_000
        )
    };
    let told = |events: &str| told(&found("commits", &[(EVENTS, events)]));
    assert!(told(&events(10, 9)).starts_with("commits on instance 1 wait for slow writes"));
    assert!(told(&events(2, 1)).starts_with("clients of instance 1 wait for their commits"));
    // Who commits while one is written waits for two writes.
    assert!(told(&events(45, 22)).starts_with("commits on instance 1 wait for slow writes"));
    assert!(told(&events(45, 9)).starts_with("clients of instance 1 wait for their commits"));
    let acks =
        |ms: u32| format!("\n1 | wait for scn ack | Other | 100 | {0} | 100 | {0}", ms * 100_000);
    // They are over before the redo is on disk.
    let early = told(&(events(10, 1) + &acks(8)));
    assert!(early.starts_with("clients of instance 1 wait for their commits"), "{early}");
    // They last for longer: the rest is theirs.
    let late = found("commits", &[(EVENTS, &(events(2, 2) + &acks(7)))]);
    let [own, others] = &late[..] else { panic!("two findings, not {late:?}") };
    assert!((own.cost_us - 200_000.0).abs() < 1.0, "{own:?}");
    assert!(others.sentence.starts_with("commits on instance 1 wait for the other"), "{others:?}");
    assert!((others.cost_us - 500_000.0).abs() < 1.0, "{others:?}");
    assert!(found("commits", &[(EVENTS, acks(7).trim())]).is_empty());
}

#[test]
fn commits_of_several_instances_are_one_finding() {
    let events = "1 | log file sync | Commit | 100 | 300000 | 100 | 300000\n\
                  3 | log file sync | Commit | 100 | 400000 | 100 | 400000";
    let found = found("commits", &[(EVENTS, events)]);
    assert!(told(&found).starts_with("clients of instances 1, 3 wait for their commits"));
    assert!((found[0].cost_us - 700_000.0).abs() < 1.0, "{found:?}");
}

#[test]
fn a_machine_that_is_full_is_told_of() {
    let machine = "3 | IDLE_TIME | 5000\n3 | BUSY_TIME | 95000";
    let events = "3 | log file sync | Commit | 100 | 1000000 | 100 | 1000000";
    let model = |ms: u32| format!("3 | DB time | {ms}000\n3 | DB CPU | 2000000");
    let (much, known) = (model(9_000), model(3_000));
    let of = |model| [("wrh$_osstat", machine), ("wrh$_sys_time_model", model), (EVENTS, events)];
    let found_one = found("no processor free", &of(much.as_str()));
    assert!(told(&found_one).starts_with("sessions of instance 3 could run"), "{found_one:?}");
    assert!((found_one[0].cost_us - 6_000_000.0).abs() < 1.0, "{found_one:?}");
    // All of it is known.
    assert!(found("no processor free", &of(known.as_str())).is_empty());
    let text = diagnose(&interval(&of(known.as_str())), &Beside::default());
    assert!(text.contains("that of instance 3 was busy for 95.0 % of the time"), "{text}");
}

#[test]
fn statements_of_the_database_itself_are_no_evidence() {
    let events = "1 | enq: TX - row lock contention | Application | 20 | 9000000 | 20 | 9000000";
    let sql = "1 | q | 1 | 5 | 5000000 | 1000 | 5 | 5 | 0 | 4000000\n\
               1 | snap | 1 | 5 | 5000000 | 1000 | 5 | 5 | 0 | 4500000";
    let mut interval = interval(&[(EVENTS, events), (SQL, sql)]);
    let text = "call dbms_workload_repository.create_snapshot()".to_owned();
    interval.texts.insert("snap".to_owned(), text);
    let (all, beside) = (interval.together(), Beside::default());
    let case = Case { interval: &interval, all, beside: &beside, db_time_us: 9_000_000.0 };
    let told = told(&database::row_locks(&case));
    assert!(told.contains("SQL q (5 executions") && !told.contains("SQL snap"), "{told}");
}

/// Requests that lie for most of each wait, as much with the sender as with the asker.
#[test]
fn a_late_lms_is_named_however_short_the_waits_are() {
    let split =
        "1 | 3 | data block | cr | 1000 | 770000 | 20000 | 0 | 0 | 0 | 0 | 0 | 400000 | 350000 | 0";
    let found_two = found("LMS without processor", &[(SPLIT, split)]);
    let [sender, asker] = &found_two[..] else { panic!("two findings, not {found_two:?}") };
    assert!(sender.sentence.starts_with("LMS of instance 3 does not"), "{sender:?}");
    assert!(asker.sentence.starts_with("LMS of instance 1 does not"), "{asker:?}");
    let short = "1 | 3 | data block | cr | 1000 | 90000 | 2000 | 0 | 0 | 0 | 0 | 0 | 80000 | 0 | 0";
    assert!(found("LMS without processor", &[(SPLIT, short)]).is_empty());
}

/// Blocks that are asked for together are waited for together: nobody waited for longer than that.
#[test]
fn rules_of_blocks_cost_no_more_than_clients_waited() {
    let name = "LMS without processor";
    let split =
        "1 | 3 | data block | cr | 9000 | 90000000 | 0 | 0 | 0 | 0 | 0 | 0 | 80000000 | 0 | 0";
    let alone = found(name, &[(SPLIT, split)]);
    assert!((alone[0].cost_us - 80_000_000.0).abs() < 1.0, "{alone:?}");
    let events = "1 | gc cr multi block request | Cluster | 250 | 2700000 | 250 | 2700000";
    let bounded = found(name, &[(SPLIT, split), (EVENTS, events)]);
    assert!((bounded[0].cost_us - 2_400_000.0).abs() < 1.0, "{bounded:?}");
}

#[test]
fn where_all_lms_are_late_none_is_the_one() {
    let row = |to: i64, from: i64| {
        format!(
            "{to} | {from} | data block | cr | 100 | 90000 | 0 | 0 | 0 | 0 | 0 | 0 | 40000 | 40000 | 0"
        )
    };
    let split = [row(1, 2), row(2, 3), row(3, 1)].join("\n");
    let told = found("LMS without processor", &[(SPLIT, &split)]);
    let [one] = &told[..] else { panic!("one finding, not {told:?}") };
    assert!(one.sentence.starts_with("LMS of instances 1, 2, 3 does not"), "{one:?}");
    // The second instance has no snapshot.
    assert!((one.cost_us - 160_000.0).abs() < 1.0 && one.evidence.len() == 2, "{one:?}");
}

#[test]
fn who_waits_for_a_commit_to_end_waits_for_its_redo() {
    let outcome = "1 | commit outcome | Concurrency | 100 | 700000 | 100 | 700000";
    let slow = "3 | log file sync | Commit | 100 | 900000 | 100 | 900000\n\
                3 | log file parallel write | System I/O | 100 | 700000 | 0 | 0";
    let told = found("commits", &[(EVENTS, &format!("{outcome}\n{slow}"))]);
    assert!(told[0].sentence.contains("on instance 3 wait for slow writes"), "{told:?}");
    assert!((told[0].cost_us - 1_600_000.0).abs() < 1.0 && told.len() == 1, "{told:?}");
    let alone = found("commits", &[(EVENTS, outcome)]);
    assert!(alone[0].sentence.starts_with("sessions wait for commits of others"), "{alone:?}");
    assert!(found("other waits", &[(EVENTS, outcome)]).is_empty());
}

/// 200 values of a sequence without a cache, each durable before it is given, and four commits.
#[test]
fn commits_of_refills_are_no_commits_of_clients() {
    let events = "1 | log file sync | Commit | 204 | 1020000 | 204 | 1020000\n\
                  1 | log file parallel write | System I/O | 204 | 204000 | 0 | 0";
    let stats = |users: u32| format!("1 | user commits | {users} | 1 | count");
    let of = |stats: &str, loads: &str| {
        found("commits", &[(EVENTS, events), (STATS, stats), (SEQUENCES, loads)]).remove(0)
    };
    let many = "1 | PUBLIC | CY | 199 | 1100000\n1 | PUBLIC | OTHER | 1 | 5000";
    let refills = of(&stats(4), many);
    assert!(
        refills.sentence.starts_with(
            "clients of instance 1 wait for refills of sequence PUBLIC.CY to be on disk"
        ),
        "{refills:?}"
    );
    assert_eq!(refills.remedy, "alter sequence PUBLIC.CY cache 1000.");
    assert!((refills.cost_us - 1_000_000.0).abs() < 1.0, "{refills:?}");
    let told = refills.evidence.join("; ");
    assert!(told.contains("4 commits of clients, 200 refills of sequences"), "{told}");
    assert!(told.contains("sequence PUBLIC.CY was refilled 199 times"), "{told}");
    // As many waits, of clients' commits.
    let few = "1 | PUBLIC | CY | 4 | 22000";
    let own = of(&stats(200), few);
    assert!(own.sentence.starts_with("clients of instance 1 wait for their commits"), "{own:?}");
    assert!((own.cost_us - 1_000_000.0).abs() < 1.0, "{own:?}");
    // Of a sequence that was not asked nothing is told.
    let unasked = of(&stats(204), "1 | PUBLIC | CY | 0 | 0");
    assert!(unasked.cost_us > 1_019_999.0 && unasked.evidence.len() == 1, "{unasked:?}");
}

#[test]
fn row_locks_are_told_with_table_and_blocker() {
    let events = "1 | enq: TX - row lock contention | Application | 20 | 9000000 | 20 | 9000000";
    let segments = "1 | public | t | TABLE | 7 | row lock waits | 20";
    let blocker = |event: &str, session| Blocker {
        event: event.to_owned(),
        instance: 3,
        session,
        samples: 17,
    };
    let blockers =
        vec![blocker("enq: TX - row lock contention", 42), blocker("enq: TM - contention", 43)];
    let beside = Beside { blockers, ..Beside::default() };
    let all = [(EVENTS, events), (SEGMENTS, segments)];
    let told = told(&found_beside("row locks", &all, &beside));
    assert!(told.contains("locked, of table public.t above all"), "{told}");
    let held = |session| format!("session {session} of instance 3 held the lock in 17 samples");
    assert!(told.contains(&held(42)) && !told.contains(&held(43)), "{told}");
    assert!(found("row locks", &[(SEGMENTS, segments)]).is_empty());
}

#[test]
fn locks_of_other_kinds_are_no_row_locks() {
    let rows = "1 | enq: TX - row lock contention | Application | 20 | 9000000 | 20 | 9000000";
    let tables = "1 | enq: TM - contention | Application | 7 | 8000000 | 7 | 8000000";
    let users = "3 | enq: UL - contention | Application | 5 | 40000000 | 5 | 40000000";
    let sql = "1 | q | 1 | 100 | 9000000 | 100 | 500 | 500 | 0 | 8000000";
    let events = format!("{rows}\n{tables}");
    let all = [(EVENTS, &*events), (SQL, sql)];
    let of_rows = found("row locks", &all);
    assert!((of_rows[0].cost_us - 9_000_000.0).abs() < 1.0, "{of_rows:?}");
    assert_eq!(of_rows[0].evidence[0], "20 waits, 450.0 ms each");
    assert!(of_rows[0].evidence[1].starts_with("SQL q"), "{of_rows:?}");
    let of_tables = found("table locks", &all);
    assert!((of_tables[0].cost_us - 8_000_000.0).abs() < 1.0, "{of_tables:?}");
    assert_eq!(of_tables[0].evidence, ["7 waits, 1,142.9 ms each"], "most were for rows");
    assert!(found("table locks", &[(EVENTS, rows)]).is_empty());
    assert!(found("row locks", &[(EVENTS, &format!("{tables}\n{users}"))]).is_empty());
    // Samples know who waited for what.
    let waiter = |event: &str, id: Option<&str>, object: Option<&str>, samples| Waiter {
        event: event.to_owned(),
        sql_id: id.map(str::to_owned),
        object: object.map(str::to_owned),
        samples,
    };
    let beside = Beside {
        waiters: vec![
            waiter("enq: TX - row lock contention", Some("z"), Some("t"), 9),
            waiter("enq: TM - contention", Some("q"), Some("u"), 8),
            waiter("enq: TM - contention", None, None, 1),
        ],
        ..Beside::default()
    };
    let of_tables = found_beside("table locks", &all, &beside);
    assert!(of_tables[0].sentence.ends_with("have locked, u above all."), "{of_tables:?}");
    let told = [
        "SQL q waited for u in 8 samples: insert into t values (s.nextval, $1)",
        "sessions without a statement waited in 1 samples",
    ];
    assert_eq!(of_tables[0].evidence[1..], told);
    let of_rows = found_beside("row locks", &all, &beside);
    assert_eq!(of_rows[0].evidence[1..], ["SQL z waited for t in 9 samples"]);
    // Most of what statements waited for locks was for those of the users' own.
    let events = format!("{rows}\n{users}");
    let of_rows = found("row locks", &[(EVENTS, &events), (SQL, sql)]);
    assert_eq!(of_rows[0].evidence, ["20 waits, 450.0 ms each"]);
}

#[test]
fn blocks_logs_and_disks() {
    for (name, event, sentence) in [
        ("transaction entries in blocks", "enq: TX - allocate ITL entry", "blocks have no room"),
        ("log space", "log file switch (checkpoint incomplete)", "changes wait for room"),
        ("reads from disk", "db file sequential read", "sessions wait for blocks from disk"),
        ("temporary files", "direct path read temp", "sorts, groups and joins write"),
    ] {
        let events = format!("1 | {event} | Other | 10 | 5000000 | 10 | 5000000");
        let told = told(&found(name, &[(EVENTS, &events)]));
        assert!(told.starts_with(sentence), "{told}");
        // The instance's own threads wait for it; no client does.
        let own = format!("1 | {event} | Other | 10 | 5000000 | 0 | 0");
        assert!(found(name, &[(EVENTS, &own)]).is_empty(), "{name}");
    }
}

fn sequences(all: &[(&str, i64)]) -> Beside {
    let one = |(name, cache): &(&str, i64)| Sequence {
        name: (*name).to_owned(),
        cache: *cache,
        ordered: false,
    };
    Beside { sequences: all.iter().map(one).collect(), ..Beside::default() }
}

#[test]
fn a_sequence_with_a_small_cache_is_named() {
    let events = "1 | row cache lock | Concurrency | 1000 | 5000000 | 1000 | 5000000";
    let stats = "1 | sequence load elapsed time | 8000000 | 64 | us";
    // PUBLIC.A was not asked in the interval; LARGE has a cache that is large enough.
    let loads = "1 | PUBLIC | S | 1000 | 6000000\n3 | PUBLIC | S | 500 | 1000000\n\
                 1 | PUBLIC | LARGE | 20 | 1000000";
    let sql = "1 | q | 1 | 1500 | 5000000 | 1000 | 500 | 500 | 0 | 0";
    let beside = sequences(&[("PUBLIC.A", 0), ("PUBLIC.S", 1), ("PUBLIC.LARGE", 1000)]);
    let all = [(EVENTS, events), (STATS, stats), (SEQUENCES, loads), (SQL, sql)];
    let found_one = found_beside("sequences", &all, &beside);
    let told = told(&found_one);
    assert!(told.contains("PUBLIC.S has too small a cache"), "{told}");
    let evidence = "sequence PUBLIC.S keeps no values: it went to the dictionary 1,500 times, 4.67 \
                    ms each; SQL q asks it";
    assert!(told.contains(evidence), "{told}");
    assert!(told.contains("`sequence load elapsed time`: 8.00 s"), "{told}");
    assert!(!told.contains("LARGE") && !told.contains("PUBLIC.A"), "{told}");
    // 7 of the 8 seconds of refills are those of small caches.
    assert!((found_one[0].cost_us - 7_000_000.0).abs() < 1.0, "{found_one:?}");
    assert!(found_beside("sequences", &[(SEQUENCES, loads)], &beside).is_empty(), "no time");
    // Whatever is waited for in the dictionary, it is no sequence.
    let large = sequences(&[("PUBLIC.LARGE", 1000)]);
    assert!(found_beside("sequences", &all, &large).is_empty());
    let idle = sequences(&[("PUBLIC.A", 0)]);
    assert!(found_beside("sequences", &all, &idle).is_empty());
}

#[test]
fn of_an_older_server_only_a_sequence_that_a_statement_names_is_blamed() {
    let events = "1 | row cache lock | Concurrency | 1000 | 5000000 | 1000 | 5000000";
    let sql = "1 | q | 1 | 1500 | 5000000 | 1000 | 500 | 500 | 0 | 0";
    let beside = sequences(&[("PUBLIC.VALUES", 0), ("PUBLIC.S", 20)]);
    let all = [(EVENTS, events), (SQL, sql)];
    let told = told(&found_beside("sequences", &all, &beside));
    assert!(told.contains("sequence PUBLIC.S keeps 20 values; SQL q asks it"), "{told}");
    assert!(!told.contains("PUBLIC.VALUES"), "{told}");
    // Nothing ran that asks one.
    assert!(found_beside("sequences", &[(EVENTS, events)], &beside).is_empty());
}

#[test]
fn an_index_that_grows_at_its_right_end() {
    let name = "right-growing indexes";
    let events = "1 | enq: TX - index contention | Concurrency | 100 | 5000000 | 100 | 5000000";
    let stats = |right: u32| {
        format!(
            "1 | leaf node splits | 100 | 8 | count\n1 | leaf node 90-10 splits | {right} | 8 | count"
        )
    };
    let segments = "1 | public | t_pk | INDEX | 9 | gc current blocks received | 400\n\
                    1 | public | t | TABLE | 7 | gc current blocks received | 900";
    let all = [(EVENTS, events), (STATS, &*stats(95)), (SEGMENTS, segments)];
    let told = told(&found(name, &all));
    assert!(told.starts_with("index public.t_pk grows at its right end only"), "{told}");
    assert!(told.contains("95 of 100 leaf splits were at the right end"), "{told}");
    // Each instance has values of its own, near the end.
    let near = found(name, &[(EVENTS, events), (STATS, &stats(23)), (SEGMENTS, segments)]);
    assert!(
        near[0].sentence.ends_with("grows at its right end: sessions insert into its last blocks.")
    );
    assert!(found(name, &[(EVENTS, events), (STATS, &stats(14))]).is_empty());
    assert!(found(name, &[(STATS, &stats(95))]).is_empty());
    // Of waits for blocks in use 4 of 13 are for those of indexes.
    let busy = "1 | gc current block busy | Cluster | 130 | 1300000 | 130 | 1300000";
    let events = format!("{events}\n{busy}");
    let all = [(EVENTS, &*events), (STATS, &*stats(95)), (SEGMENTS, segments)];
    let growing = found(name, &all);
    let [one] = &growing[..] else { panic!("{growing:?}") };
    assert!((one.cost_us - 5_400_000.0).abs() < 1.0, "{one:?}");
    assert_eq!(one.evidence[1], "140 waits for index blocks in use, 38.57 ms each");
    let tables = "1 | public | t | TABLE | 7 | gc current blocks received | 900";
    assert!(found(name, &[(EVENTS, busy), (STATS, &stats(95)), (SEGMENTS, tables)]).is_empty());
}

#[test]
fn a_small_table_that_is_read_whole_each_time() {
    let stats = "1 | consistent gets | 130000 | 8 | count";
    let full = "1 | q | 1 | 1000 | 5000000 | 4000000 | 120000 | 1000 | 0 | 0";
    let told = told(&found("missing indexes", &[(STATS, stats), (SQL, full)]));
    assert!(told.starts_with("SQL q visits 120 blocks in each of its executions"), "{told}");
    for (why, row) in [
        ("by an index", "1 | q | 1 | 40000 | 5000000 | 4000000 | 120000 | 40000 | 0 | 0"),
        ("many rows", "1 | q | 1 | 1000 | 5000000 | 4000000 | 120000 | 100000 | 0 | 0"),
        ("seldom", "1 | q | 1 | 10 | 5000000 | 4000000 | 120000 | 10 | 0 | 0"),
        ("little of all", "1 | q | 1 | 1000 | 5000000 | 4000000 | 30000 | 1000 | 0 | 0"),
    ] {
        assert!(found("missing indexes", &[(STATS, stats), (SQL, row)]).is_empty(), "{why}");
    }
}

/// A thousand texts with a constant each, of which the library cache has the last hundred.
fn with_constants(texts: u32, gets: u32, rows: u32) -> String {
    let row = |n: u32| {
        format!("1 | c{n} | 1 | 10 | {} | 40000 | {gets} | {rows} | 0 | 0 | 1 | 77", 50_000 + n)
    };
    (0..texts).map(row).collect::<Vec<_>>().join("\n")
}

#[test]
fn texts_that_differ_in_constants_are_one_statement() {
    let stats = "1 | consistent gets | 130000 | 8 | count\n\
                 1 | parse count (hard) | 105 | 8 | count";
    let all = with_constants(100, 1_200, 10);
    let known = [(STATS, stats), (SQL, &*all)];
    let sentence = told(&found("missing indexes", &known));
    let begin = "SQL c99 and 99 others that differ in constants only visits 120 blocks in each of";
    assert!(sentence.starts_with(begin), "{sentence}");
    assert!(sentence.contains("92.3 % of all blocks that were visited are its own"), "{sentence}");
    // Nine of ten are no longer known.
    let forgotten = "1 | consistent gets | 1300000 | 8 | count\n\
                     1 | parse count (hard) | 1050 | 8 | count\n\
                     1 | DB time | 90000000 | 1 | us";
    let found_one = found("missing indexes", &[(STATS, forgotten), (SQL, &all)]);
    let text = told(&found_one);
    assert!(text.contains("100.0 % of the blocks that statements still known"), "{text}");
    assert!((found_one[0].cost_us - 54_220_291.7).abs() < 1.0, "{found_one:?}");
    // A statement with one text is known as a whole: it has a tenth of all.
    let one = "1 | q | 1 | 1000 | 5000000 | 4000000 | 120000 | 1000 | 0 | 0 | 1 | 78";
    assert!(found("missing indexes", &[(STATS, forgotten), (SQL, one)]).is_empty());
    // What planning took, an index does not save; nor is one text with another that nobody ran more
    // than one.
    let two = "1 | q | 1 | 1000 | 5000000 | 4000000 | 120000 | 1000 | 0 | 0 | 5 | 78\n\
               1 | r | 1 | 0 | 900 | 900 | 0 | 0 | 0 | 0 | 5 | 78";
    let planning = format!(
        "{stats}\n1 | hard parse elapsed time | 10500000 | 1 | us\n1 | DB time | 9000000 | 1 | us"
    );
    let found_one = found("missing indexes", &[(STATS, &planning), (SQL, two)]);
    assert!(told(&found_one).starts_with("SQL q visits 120 blocks"), "{found_one:?}");
    assert!((found_one[0].cost_us - 4_000_900.0).abs() < 1.0, "{found_one:?}");
    // A change of a definition has no WHERE.
    let mut ddl = interval(&[(STATS, stats), (SQL, one.replace("| 1 | 78", "| 1 | 0").as_str())]);
    for (text, findings) in [
        ("  Select v from t", 1),
        ("alter table q drop column c", 0),
        ("select Max (v) from t where k = 1", 0),
        ("select k, max(v) from t group by k", 1),
    ] {
        ddl.texts.insert("q".to_owned(), text.to_owned());
        let (all, beside) = (ddl.together(), Beside::default());
        let case = Case { interval: &ddl, all, beside: &beside, db_time_us: 9_000_000.0 };
        assert_eq!(statements::missing_index(&case).len(), findings, "{text}");
    }
    // The plan is known: it reads a table whole, or none.
    let plan = |table: Option<&str>| Beside {
        full_reads: [("c99".to_owned(), table.map(str::to_owned))].into(),
        ..Beside::default()
    };
    let named = found_beside("missing indexes", &known, &plan(Some("T")));
    assert!(told(&named).contains("it reads T whole"), "{named:?}");
    assert!(
        named[0].remedy.starts_with("an index on the columns of its WHERE, of what is in T"),
        "{named:?}"
    );
    assert!(found_beside("missing indexes", &known, &plan(None)).is_empty());
}

#[test]
fn plans_that_are_made_anew_have_a_cause() {
    let name = "statements planned anew";
    let stats = "1 | hard parse elapsed time | 8000000 | 1 | us\n\
                 1 | parse count (hard) | 1000 | 8 | count\n\
                 1 | execute count | 1000 | 8 | count";
    let told = |sql: &str| told(&found(name, &[(STATS, stats), (SQL, sql)]));
    let constants = told(&with_constants(100, 1_200, 10));
    assert!(constants.starts_with("statements are planned anew for each constant"), "{constants}");
    assert!(constants.contains("1,000 plans made, 8.00 ms each, 8.00 s together"), "{constants}");
    assert!(constants.contains("SQL c99 and 99 others that differ in constants"), "{constants}");
    let one = |loads: u32| format!("1 | q | 1 | 1000 | 9000000 | 1 | 1 | 1 | 0 | 0 | {loads} | 78");
    assert!(told(&one(900)).starts_with("statements are planned anew again and again"));
    assert!(told(&one(1)).starts_with("statements are planned, and few of the plans"));
    // Once on each instance is not again.
    let each = "1 | q | 1 | 1 | 9000000 | 1 | 1 | 1 | 0 | 0 | 1 | 78\n\
                3 | q | 1 | 1 | 9000000 | 1 | 1 | 1 | 0 | 0 | 1 | 78";
    assert!(told(each).starts_with("statements are planned, and few of the plans"));
    // Texts whose plans are there are not planned anew.
    let kept = with_constants(100, 1_200, 10).replace("| 1 | 77", "| 0 | 77");
    assert!(told(&kept).starts_with("statements are planned, and few of the plans"));
    let many = stats.replace("execute count | 1000", "execute count | 100000");
    let slow = found(name, &[(STATS, &*many), (SQL, &one(1))]);
    assert!(slow[0].sentence.starts_with("the plans of statements take long"), "{slow:?}");
    assert!(found(name, &[(SQL, &one(900))]).is_empty(), "not counted");
    // Half of the plans are those of snapshots.
    let of_own = "1 | own | 1 | 10 | 9000000 | 1 | 1 | 1 | 0 | 0 | 500 | 79";
    let rows = one(400) + "\n" + of_own;
    let mut interval = interval(&[(STATS, stats), (SQL, &rows)]);
    let own = "insert into pg_awr.wrh$_sqlstat select 1".to_owned();
    interval.texts.insert("own".to_owned(), own);
    let (all, beside) = (interval.together(), Beside::default());
    let case = Case { interval: &interval, all, beside: &beside, db_time_us: 9_000_000.0 };
    let clients = parses::hard_parses(&case);
    assert!((clients[0].cost_us - 4_000_000.0).abs() < 1.0, "{clients:?}");
    assert!(clients[0].evidence[0].starts_with("500 plans made, 8.00 ms each"), "{clients:?}");
}

#[test]
fn statements_that_compute() {
    let cpu = "1 | CPU used by this session | 9000000 | 1 | us";
    let told = told(&found("processor", &[(STATS, cpu)]));
    assert!(told.starts_with("the statements compute"), "{told}");
    let waits = "1 | log file sync | Commit | 100 | 90000000 | 100 | 90000000";
    assert!(found("processor", &[(STATS, cpu), (EVENTS, waits)]).is_empty());
    assert!(found("processor", &[]).is_empty(), "not counted");
    // Snapshots are no load of the clients'.
    let cpu = "1 | CPU used by this session | 90000000 | 1 | us";
    let snapshots = "1 | own | 0 | 1 | 60000000 | 60000000 | 900 | 1 | 0 | 0";
    let mut interval = interval(&[(STATS, cpu), ("wrh$_sqlstat", snapshots)]);
    let text = |interval: &Interval| diagnose(interval, &Beside::default());
    assert!(text(&interval).contains("the statements compute"), "{}", text(&interval));
    let own = "call dbms_workload_repository.create_snapshot()".to_owned();
    interval.texts.insert("own".to_owned(), own);
    assert!(!text(&interval).contains("the statements compute"), "{}", text(&interval));
}

#[test]
fn what_nobody_explains_is_named() {
    let events = "1 | enq: UL - contention | Application | 4 | 90000000 | 4 | 90000000\n\
                  1 | SQL*Net message from client | Idle | 9 | 900000000 | 9 | 900000000\n\
                  1 | log file sync | Commit | 100 | 10000000 | 100 | 10000000";
    let found = found("other waits", &[(EVENTS, events)]);
    assert_eq!(
        told(&found),
        "sessions wait for `enq: UL - contention` (class Application). 4 waits, 22,500.00 ms each"
    );
    let text = diagnose(&interval(&[(EVENTS, events)]), &Beside::default());
    assert!(
        text.contains("1. 90.0 % of DB time: sessions wait for `enq: UL - contention`"),
        "{text}"
    );
}

#[test]
fn the_costly_come_first_and_the_cheap_not_at_all() {
    let events = "1 | log file sync | Commit | 100 | 2000000 | 100 | 2000000\n\
                  1 | gc cr block busy | Cluster | 1000 | 70000000 | 1000 | 70000000\n\
                  1 | db file sequential read | User I/O | 100 | 30000 | 100 | 30000";
    let split = "1 | 3 | data block | cr | 1000 | 70000000 | 300000 | 100000 | 90000 | 0 | 69510000 | 45 | 0 | 0 | 0";
    let text = diagnose(&interval(&[(EVENTS, events), (SPLIT, split)]), &Beside::default());
    assert!(text.contains("1. 96.5 % of DB time: the log writer of instance 3 is slow"), "{text}");
    assert!(!text.contains("2. "), "commits and reads are below the limit: {text}");
    let page = diagnose_html(&interval(&[(EVENTS, events), (SPLIT, split)]), &Beside::default());
    for part in ["1. 96.5 % of DB time", "<p>The log writer of instance 3 is slow", "<p>To do: "] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let first = text.lines().next().unwrap_or("");
    assert!(
        first.starts_with("Snapshots 1 to 2 of test, 600.0 s, instances 1, 3: DB time 72.03 s")
    );
}

#[test]
fn a_quiet_system_is_called_quiet() {
    let text =
        diagnose(&interval(&[(STATS, "1 | user commits | 3 | 1 | count")]), &Beside::default());
    assert!(text.contains("Nothing limits the cluster: its clients hardly ask"), "{text}");
    let events = "1 | SQL*Net message to client | Network | 100 | 90000000 | 100 | 90000000";
    let text = diagnose(&interval(&[(EVENTS, events)]), &Beside::default());
    assert!(text.contains("Nothing stands out"), "{text}");
    // Snapshots are no clients.
    let events = "1 | reliable message | Other | 100 | 90000000 | 100 | 90000000";
    let snapshots = "1 | own | 0 | 1 | 89000000 | 100 | 900 | 1 | 0 | 0";
    let mut interval = interval(&[(EVENTS, events), ("wrh$_sqlstat", snapshots)]);
    let own = "call dbms_workload_repository.create_snapshot()".to_owned();
    interval.texts.insert("own".to_owned(), own);
    let text = diagnose(&interval, &Beside::default());
    assert!(text.contains("Nothing limits the cluster: its clients hardly ask"), "{text}");
}
