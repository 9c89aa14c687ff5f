//! A whole report to the letter, the page as HTML, and every way in which there is none.

use super::*;

/// Rows of a table as texts: names of the columns, then one row a line.
pub(crate) fn fetched(text: &str) -> Fetched {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let part = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let columns = part(lines.next().unwrap_or(""));
    let value = |cell: String| (!cell.is_empty()).then_some(cell);
    let rows = lines.map(|line| part(line).into_iter().map(value).collect()).collect();
    Fetched { columns, rows }
}

pub(crate) fn snapshot(snap_id: i64, instance: i64, minute: i64, startup_us: i64) -> SnapshotRow {
    SnapshotRow {
        snap_id,
        instance,
        name: format!("skein{instance}"),
        version: "0.1.0".to_owned(),
        time: format!("2026-11-26 12:{minute:02}:00"),
        time_us: minute * 60_000_000,
        startup: format!("2026-11-26 {startup_us:02}:00:00"),
        startup_us,
        sessions: snap_id,
    }
}

const SYSSTAT: &str = "
    snap_id | instance_number | name | value | class | unit
    1 | 1 | user commits | 100 | 1 | count
    2 | 1 | user commits | 700 | 1 | count
    1 | 1 | consistent gets | 1000 | 8 | count
    2 | 1 | consistent gets | 61000 | 8 | count
    1 | 1 | physical reads | 0 | 8 | blocks
    2 | 1 | physical reads | 600 | 8 | blocks
    1 | 1 | gc cr blocks received | 10 | 32 | blocks
    2 | 1 | gc cr blocks received | 1210 | 32 | blocks
    1 | 1 | gc cr block receive time | 0 | 32 | us
    2 | 1 | gc cr block receive time | 75960000 | 32 | us
    1 | 1 | gc current blocks received | 0 | 32 | blocks
    2 | 1 | gc current blocks received | 300 | 32 | blocks
    1 | 1 | gc current block receive time | 0 | 32 | cs
    2 | 1 | gc current block receive time | 63 | 32 | cs
    1 | 1 | gc cr blocks served | 0 | 32 | blocks
    2 | 1 | gc cr blocks served | 200 | 32 | blocks
    1 | 1 | gc cr block build time | 0 | 32 | us
    2 | 1 | gc cr block build time | 60000 | 32 | us
    1 | 1 | gc cr block flushes | 0 | 32 | count
    2 | 1 | gc cr block flushes | 9 | 32 | count
    1 | 1 | gc cr block flush time | 0 | 32 | us
    2 | 1 | gc cr block flush time | 463500 | 32 | us
    1 | 1 | gc current blocks served | 0 | 32 | blocks
    2 | 1 | gc current blocks served | 0 | 32 | blocks
    1 | 1 | gcs messages sent | 0 | 32 | count
    2 | 1 | gcs messages sent | 3000 | 32 | count
    1 | 2 | user commits | 5 | 1 | count
    2 | 2 | user commits | 65 | 1 | count
    1 | 2 | gc cr blocks received | 0 | 32 | blocks
    2 | 2 | gc cr blocks received | 200 | 32 | blocks
    1 | 2 | gc cr block receive time | 0 | 32 | us
    2 | 2 | gc cr block receive time | 2080000 | 32 | us
";

const EVENTS: &str = "
    snap_id | instance_number | event | wait_class | total_waits | time_waited_micro \
     | total_timeouts | total_waits_fg | total_timeouts_fg | time_waited_micro_fg
    1 | 1 | gc cr block busy | Cluster | 10 | 10000 | 0 | 10 | 0 | 10000
    2 | 1 | gc cr block busy | Cluster | 1210 | 75970000 | 12 | 1210 | 12 | 75970000
    2 | 1 | log file sync | Commit | 600 | 1200000 | 0 | 600 | 0 | 1200000
    2 | 1 | log file parallel write | System I/O | 650 | 1100000 | 0 | 0 | 0 | 0
    2 | 1 | SQL*Net message from client | Idle | 900 | 60000000 | 0 | 900 | 0 | 60000000
    2 | 2 | log file sync | Commit | 60 | 120000 | 0 | 60 | 0 | 120000
";

const HISTOGRAM: &str = "
    snap_id | instance_number | event | wait_time_micro | wait_count
    1 | 1 | log file sync | 1024 | 0
    2 | 1 | log file sync | 512 | 150
    2 | 1 | log file sync | 2048 | 300
    2 | 1 | log file sync | 4096 | 75
    2 | 1 | log file sync | | 75
    2 | 1 | SQL*Net message from client | 1024 | 900
";

const SPLIT: &str = "
    snap_id | instance_number | instance | class | kind | blocks | total_us | interconnect_us \
     | master_queue_us | lms_build_us | pin_us | lgwr_flush_us | flushes
    2 | 1 | 2 | data block | cr | 200 | 60000 | 40000 | 10000 | 10000 | 0 | 0 | 0
    2 | 1 | 3 | data block | cr | 900 | 70000000 | 300000 | 100000 | 90000 | 0 | 69510000 | 45
    2 | 1 | 3 | undo block | cr | 100 | 5900000 | 30000 | 10000 | 10000 | 0 | 5850000 | 5
";

const SQLSTAT: &str = "
    snap_id | instance_number | sql_id | plan_hash_value | executions | elapsed_time | cpu_time \
     | buffer_gets | disk_reads | rows_processed | parse_calls | cluster_wait_time
    1 | 1 | 4kq0x0s1v2a3b | 7 | 100 | 1000 | 500 | 300 | 0 | 100 | 1 | 0
    2 | 1 | 4kq0x0s1v2a3b | 7 | 1300 | 76001000 | 600500 | 3900 | 0 | 1300 | 1 | 75960000
    2 | 1 | 9zzzzzzzzzzzz | 8 | 1 | 2000 | 900 | 40 | 600 | 0 | 1 | 0
";

const OTHERS: [(&str, &str); 5] = [
    (
        "wrh$_rowcache_summary",
        "snap_id | instance_number | parameter | gets | getmisses | modifications | count
         1 | 1 | dc_objects | 100 | 10 | 0 | 30
         2 | 1 | dc_objects | 500 | 50 | 2 | 31
         2 | 1 | dc_users | 0 | 0 | 0 | 3",
    ),
    (
        "wrh$_sys_time_model",
        "snap_id | instance_number | stat_name | value
         1 | 1 | DB CPU | 1000000
         2 | 1 | DB CPU | 241000000
         1 | 1 | background cpu time | 0
         2 | 1 | background cpu time | 120000000",
    ),
    (
        "wrh$_osstat",
        "snap_id | instance_number | stat_name | value
         1 | 1 | NUM_CPUS | 4
         2 | 1 | NUM_CPUS | 4
         1 | 1 | IDLE_TIME | 1000
         2 | 1 | IDLE_TIME | 181000
         1 | 1 | BUSY_TIME | 5000
         2 | 1 | BUSY_TIME | 65000
         1 | 1 | USER_TIME | 0
         2 | 1 | USER_TIME | 36000
         1 | 1 | NICE_TIME | 400
         2 | 1 | NICE_TIME | 10000
         1 | 1 | SYS_TIME | 0
         2 | 1 | SYS_TIME | 12000",
    ),
    (
        "wrh$_parameter",
        "snap_id | instance_number | name | display_value | isdefault
         2 | 1 | log_file_size | 8M | FALSE
         2 | 1 | db_cache_size | 128M | true",
    ),
    (
        "wrh$_seg_stat",
        "snap_id | instance_number | owner | object_name | object_type | obj | statistic_name | value
         1 | 1 | public | t | TABLE | 7 | logical reads | 100
         2 | 1 | public | t | TABLE | 7 | logical reads | 60100
         2 | 1 | public | u | TABLE | 8 | row lock waits | 4",
    ),
];

fn input() -> Input {
    let mut input = Input { database: "seed".to_owned(), ..Input::default() };
    for (snap_id, minute) in [(1, 0), (2, 10)] {
        input.snapshots.extend([1, 2].map(|no| snapshot(snap_id, no, minute, 9)));
    }
    for (table, text) in [
        ("wrh$_sysstat", SYSSTAT),
        ("wrh$_system_event", EVENTS),
        ("wrh$_event_histogram", HISTOGRAM),
        ("wrh$_gc_wait_split", SPLIT),
        ("wrh$_sqlstat", SQLSTAT),
    ]
    .into_iter()
    .chain(OTHERS)
    {
        input.tables.insert(table.to_owned(), fetched(text));
    }
    let text = "select v from t where id = $1 and v < 'a & b'";
    input.texts.insert("4kq0x0s1v2a3b".to_owned(), text.to_owned());
    input
}

/// Compares with a file of this folder; `BLESS=1` writes it.
fn golden(name: &str, text: &str) {
    // Of the clone at hand, which need not be the one that this was built in.
    let here = std::env::var("CARGO_MANIFEST_DIR");
    let here = here.unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
    let path = format!("{here}/src/awr/golden/{name}");
    if std::env::var("BLESS").is_ok() {
        std::fs::write(&path, text).expect("written");
        return;
    }
    let wanted = std::fs::read_to_string(&path).expect("the file; BLESS=1 makes it");
    for (at, (own, wanted)) in text.lines().zip(wanted.lines()).enumerate() {
        assert_eq!(own, wanted, "{name}, line {}", at + 1);
    }
    assert_eq!(text.len(), wanted.len(), "{name} ends too early or too late");
}

#[test]
fn one_instance_to_the_letter() {
    let interval = Interval::new(&input(), 1, 2, Some(1)).expect("a report");
    golden("instance.txt", &report_text(&interval, false));
}

#[test]
fn all_instances_to_the_letter() {
    let interval = Interval::new(&input(), 1, 2, None).expect("a report");
    golden("global.txt", &report_text(&interval, true));
}

#[test]
fn times_are_taken_in_full_where_they_are_kept() {
    let mut input = input();
    let rows = "snap_id | instance_number | name | value | class | unit | value_us
        1 | 1 | gc cr block build time | 0 | 32 | cs | 1000
        2 | 1 | gc cr block build time | 2 | 32 | cs | 29999
        2 | 1 | redo size | 2 | 2 | bytes |";
    input.tables.insert("wrh$_sysstat".to_owned(), fetched(rows));
    let interval = Interval::new(&input, 1, 2, Some(1)).expect("a report");
    let work = &interval.works[0];
    assert_eq!(work.stat_us("gc cr block build time"), Some(28_999.0));
    assert_eq!(work.stat("gc cr block build time"), Some(2.0));
    assert_eq!(work.stat("redo size"), Some(2.0));
}

#[test]
fn a_statement_does_not_begin_anew_with_another_plan() {
    let mut input = input();
    let rows = "snap_id | instance_number | sql_id | plan_hash_value | executions | elapsed_time
        1 | 1 | one | 7 | 100 | 1000
        1 | 1 | one | 9 | 10 | 100
        2 | 1 | one | 8 | 130 | 1300
        2 | 1 | one | 9 | 11 | 110";
    input.tables.insert("wrh$_sqlstat".to_owned(), fetched(rows));
    let interval = Interval::new(&input, 1, 2, Some(1)).expect("a report");
    let all = sql::statements(&interval.works[0]);
    let [one] = &all[..] else { panic!("one statement, not {all:?}") };
    assert_eq!((one.executions, one.elapsed_us), (31.0, 310.0));
}

#[test]
fn a_segment_keeps_the_name_that_a_snapshot_has_of_it() {
    let mut input = input();
    let rows =
        "snap_id | instance_number | owner | object_name | object_type | obj | statistic_name | value
        1 | 1 | public | gone | TABLE | 7 | logical reads | 100
        2 | 1 | | | | 7 | logical reads | 150
        1 | 1 | public | old | TABLE | 8 | logical reads | 10
        2 | 1 | public | new | TABLE | 8 | logical reads | 30
        2 | 1 | | | | 9 | logical reads | 5";
    input.tables.insert("wrh$_seg_stat".to_owned(), fetched(rows));
    let interval = Interval::new(&input, 1, 2, Some(1)).expect("a report");
    let table = interval.works[0].table("wrh$_seg_stat").expect("segments");
    let told = |row: &Row| (row.keys[1].clone(), table.added(row, "value"));
    let all: Vec<_> = table.rows.iter().map(told).collect();
    let expected = [("gone", 50.0), ("new", 20.0), ("", 5.0)];
    assert_eq!(all, expected.map(|(name, added)| (name.to_owned(), added)));
    let text = report_text(&interval, false);
    assert!(text.contains("** MISSING: 9 **") && !text.contains("MISSING: 7"), "{text}");
}

#[test]
fn what_is_not_counted_is_not_shown() {
    let mut input = input();
    for table in ["wrh$_seg_stat", "wrh$_sqlstat", "wrh$_gc_wait_split", "wrh$_sys_time_model"] {
        // Views that this server does not have: the tables are empty, or not there at all.
        input.tables.insert(table.to_owned(), Fetched::default());
    }
    let interval = Interval::new(&input, 1, 2, Some(1)).expect("a report");
    let text = report_text(&interval, false);
    for absent in
        ["Segments by", "SQL ordered", "Instance Pair", "Latch", "Library Cache", "DB CPU"]
    {
        assert!(!text.contains(absent), "{absent}: {text}");
    }
    assert!(text.contains("Top Timed Events"), "{text}");
}

/// Names of the elements of a page, each closed in its turn; `Err`: what is wrong.
fn elements(page: &str) -> Result<Vec<String>, String> {
    let (mut open, mut all): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let body = page.strip_prefix("<!DOCTYPE html>\n").ok_or("no doctype")?;
    let mut rest = body;
    while let Some(at) = rest.find('<') {
        let text = &rest[..at];
        if text.contains('>') {
            return Err(format!("a bare > in {text}"));
        }
        for (i, _) in text.match_indices('&') {
            let known = ["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"];
            if !known.iter().any(|entity| text[i..].starts_with(entity)) {
                return Err(format!("a bare & in {text}"));
            }
        }
        let end = rest[at..].find('>').ok_or("a tag without an end")? + at;
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if tag.matches('"').count() % 2 != 0 || tag.contains('<') {
            return Err(format!("a broken tag {tag}"));
        }
        if let Some(name) = tag.strip_prefix('/') {
            let last = open.pop();
            if last.as_deref() != Some(name) {
                return Err(format!("</{name}> closes {last:?}"));
            }
            continue;
        }
        let name = tag.split([' ', '/']).next().unwrap_or("").to_owned();
        all.push(name.clone());
        if !tag.ends_with('/') {
            open.push(name);
        }
    }
    if open.is_empty() { Ok(all) } else { Err(format!("{open:?} are open at the end")) }
}

#[test]
fn the_page_is_whole_and_needs_nothing_from_elsewhere() {
    let interval = Interval::new(&input(), 1, 2, None).expect("a report");
    let page = report_html(&interval, true);
    let names = elements(&page).unwrap_or_else(|why| panic!("{why}: {page}"));
    let charts = names.iter().filter(|name| *name == "svg").count();
    assert!(charts >= 4, "{charts} charts");
    for loaded in ["src=", "url(", "@import", "<script", "<link"] {
        assert!(!page.contains(loaded), "{loaded}");
    }
    assert!(page.contains("a &amp; b&#39;"), "texts are escaped");
    // What a bar says is its figure: 69.51 s of flushes in 900 blocks, 5.85 s in 100.
    let parts = page.split("3 -&gt; 1 cr").nth(1).expect("a bar of the pair");
    assert!(parts.contains(">75.90<"), "{parts}");
}

#[test]
fn a_broken_page_is_noticed() {
    let page = |body: &str| elements(&format!("<!DOCTYPE html>\n<p>{body}</p>\n"));
    assert!(page("a &amp; <b>b</b>").is_ok());
    for bad in ["<b>", "a & b", "<b></i>", "a > b", "<b class=\"x></b>"] {
        assert!(page(bad).is_err(), "{bad}");
    }
}

#[test]
fn counters_of_two_starts_are_never_subtracted() {
    let mut input = input();
    input.snapshots = vec![
        snapshot(1, 1, 0, 9),
        snapshot(2, 1, 10, 9),
        snapshot(3, 1, 20, 11),
        snapshot(4, 1, 30, 11),
        snapshot(5, 1, 40, 11),
        snapshot(1, 2, 0, 9),
        snapshot(5, 2, 40, 9),
    ];
    let refused = Interval::new(&input, 1, 5, Some(1)).expect_err("it was restarted");
    let (at, instead) = ("2026-11-26 11:00:00".to_owned(), vec![(1, 2), (3, 5)]);
    assert_eq!(refused, Problem::Restarted { instance: 1, begin: 1, end: 5, at, instead });
    let said = refused.to_string();
    assert!(said.ends_with("a report is possible from 1 to 2, or from 3 to 5"), "{said}");
    let alone = Interval::new(&input, 2, 3, Some(1)).expect_err("it was restarted").to_string();
    assert!(alone.contains("no two snapshots in between are of one start"), "{alone}");
    // Of all, the one that was not restarted; the other is named.
    let all = Interval::new(&input, 1, 5, None).expect("instance 2 went on");
    assert_eq!((all.works.len(), all.left_out.len(), all.left_out[0].0), (1, 1, 1));
    for global in [true, false] {
        assert!(report_text(&all, global).contains("Left out: instance 1 was started anew"));
    }
}

#[test]
fn what_is_asked_for_must_be_there() {
    let input = input();
    let refused =
        |begin, end, instance| Interval::new(&input, begin, end, instance).expect_err("no report");
    assert_eq!(refused(2, 2, None), Problem::Order { begin: 2, end: 2 });
    assert_eq!(refused(1, 9, None).to_string(), "there is no snapshot 9; there are 1, 2");
    let gone = refused(1, 2, Some(3)).to_string();
    assert!(gone.starts_with("instance 3 is not in snapshot 1, only 1, 2"), "{gone}");
    let empty = Input::default();
    assert_eq!(Interval::new(&empty, 1, 2, None).expect_err("none"), Problem::NoSnapshots);
    assert_eq!(newest_pair(&[], None), Err(Problem::NoSnapshots));
}

#[test]
fn the_newest_pair_is_of_one_start() {
    let all = [
        snapshot(1, 1, 0, 9),
        snapshot(2, 1, 10, 9),
        snapshot(3, 1, 20, 11),
        snapshot(2, 2, 10, 9),
        snapshot(3, 2, 20, 9),
    ];
    assert_eq!(newest_pair(&all[..2], None), Ok((1, 2)));
    assert_eq!(newest_pair(&all, None), Ok((2, 3)));
    let restarted = newest_pair(&all, Some(1)).expect_err("another start").to_string();
    assert!(restarted.starts_with("instance 1 was started anew at "), "{restarted}");
    assert!(restarted.ends_with("a report is possible from 1 to 2"), "{restarted}");
    assert_eq!(newest_pair(&all[..1], None), Err(Problem::NoSnapshots));
    assert_eq!(newest_pair(&all, Some(2)), Ok((2, 3)));
}

#[test]
fn samples_to_the_letter() {
    let rows = fetched(
        "inst_id | session_type | event | wait_class | sql_id | session | program | blocker | object \
         | minute | samples
         1 | FOREGROUND | gc cr block busy | Cluster | 4kq0x0s1v2a3b | 7 | psql | | public.t \
         | 12:00 | 60
         1 | FOREGROUND | | | 4kq0x0s1v2a3b | 7 | psql | | | 12:00 | 20
         2 | FOREGROUND | enq: TX - row lock contention | Application | 9zzzzzzzzzzzz | 9 | app \
         | 1.7 \
         | public.t | 12:01 | 15
         2 | BACKGROUND | log file parallel write | System I/O | | 3 | lgwr | | | 12:01 | 5",
    );
    let text = "select v from t where id = $1".to_owned();
    let samples = Samples {
        database: "seed".to_owned(),
        from: "2026-11-26 12:00:00".to_owned(),
        to: "2026-11-26 12:02:00".to_owned(),
        moments: 120,
        rows,
        texts: [("4kq0x0s1v2a3b".to_owned(), text)].into(),
        absent: vec![
            Absent { instance: "2".to_owned(), since: Some("2026-11-26 12:01:00".to_owned()) },
            Absent { instance: "3".to_owned(), since: None },
        ],
    };
    golden("ash.txt", &ash_text(&samples));
    let page = ash_html(&samples);
    elements(&page).unwrap_or_else(|why| panic!("{why}: {page}"));
    let quiet = ash_text(&Samples::default());
    assert!(quiet.contains("No session was at work") && !quiet.contains("Top"), "{quiet}");
    assert!(!quiet.contains("-0"), "{quiet}");
    let absent = vec![Absent { instance: "3".to_owned(), since: None }];
    let down = ash_text(&Samples { absent, ..Samples::default() });
    assert!(down.contains("There are no samples") && !down.contains("at work"), "{down}");
}
