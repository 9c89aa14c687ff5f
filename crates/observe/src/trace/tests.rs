//! Trace files to the letter, their limits, and what becomes of one that cannot be written.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use super::*;
use crate::tests::{at, poll, world};
use crate::{Ctx, Observer, SessionKind, Stat, WaitEvent};

/// Files in memory; writes fail while `full`.
#[derive(Default)]
struct Kept {
    files: Mutex<BTreeMap<String, String>>,
    full: AtomicBool,
}

impl TraceFiles for Arc<Kept> {
    fn append(&self, name: &str, text: &[u8]) -> io::Result<()> {
        if self.full.load(Ordering::SeqCst) {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        let text = std::str::from_utf8(text).expect("text");
        self.files.lock().entry(name.to_owned()).or_default().push_str(text);
        Ok(())
    }
    fn size_bytes(&self, name: &str) -> u64 {
        self.text(name).len() as u64
    }
    fn node(&self) -> &str {
        "n1"
    }
    fn prefix(&self) -> &str {
        "skein_1"
    }
    fn banner(&self) -> &str {
        "Skein\n"
    }
    fn path(&self, name: &str) -> String {
        format!("trace/{name}")
    }
}

impl Kept {
    fn text(&self, name: &str) -> String {
        self.files.lock().get(name).cloned().unwrap_or_default()
    }
}

fn request(level: u8) -> TraceRequest {
    TraceRequest { level, ..TraceRequest::default() }
}

fn traced(level: u8) -> (Arc<crate::tests::Clock>, Arc<Observer>, Arc<Kept>, Ctx) {
    let (clock, observer) = world();
    let kept = Arc::new(Kept::default());
    observer.set_trace_files(Box::new(kept.clone()));
    let ctx = observer.ctx(SessionKind::User, "psql");
    clock.advance(1_000);
    observer.set_trace(&ctx.session, &request(level)).expect("there is a folder");
    (clock, observer, kept, ctx)
}

#[test]
fn statements_are_named_as_the_field_names_them() {
    assert_eq!(sql_id("select * from dual"), ("a5ks9fhw2v9s1".to_owned(), 942_515_969));
}

#[test]
fn plans_are_told_once_each_time_or_never() {
    for (more, wanted) in
        [(0, [true, false]), (TRACE_PLANS_ALL, [true, true]), (TRACE_PLANS_NEVER, [false, false])]
    {
        let (_, _observer, _kept, ctx) = traced(TRACE_CALLS | more);
        let text: Arc<str> = Arc::from("select * from dual");
        let cursor = ctx.trace_enter(&text, 10).expect("it is traced");
        let mut asked = [false; 2];
        for wants in &mut asked {
            *wants = ctx.trace_wants_plan(&text, 811);
            ctx.trace_plan(&text, 811, &[]);
        }
        ctx.trace_leave(cursor);
        assert_eq!(asked, wanted, "{more}");
    }
}

#[test]
fn another_plan_of_a_text_is_told_too() {
    for (more, wanted) in [
        (0, [true, false, true, false, true]),
        (TRACE_PLANS_ALL, [true; 5]),
        (TRACE_PLANS_NEVER, [false; 5]),
    ] {
        let (_, _observer, _kept, ctx) = traced(TRACE_CALLS | more);
        let text: Arc<str> = Arc::from("select * from dual");
        let cursor = ctx.trace_enter(&text, 10).expect("it is traced");
        let asked = [811, 811, 812, 812, 811].map(|plan| {
            let wants = ctx.trace_wants_plan(&text, plan);
            if wants {
                ctx.trace_plan(&text, plan, &[]);
            }
            wants
        });
        ctx.trace_leave(cursor);
        assert_eq!(asked, wanted, "{more}");
    }
}

#[test]
fn a_call_its_waits_and_what_runs_inside_it() {
    let (clock, observer, kept, ctx) = traced(TRACE_CALLS | TRACE_WAITS | TRACE_BINDS);
    let text: Arc<str> = Arc::from("select * from dual");
    let mark = ctx.trace_mark();
    let cursor = ctx.trace_enter(&text, 10).expect("it is traced");
    // Its own plan, and one for all texts of the kind: it has missed once.
    ctx.bump(Stat::ParseCountHard, 2);
    clock.advance(41);
    ctx.trace_call(Call::Parse, cursor, &mark, 0, 811);
    ctx.trace_leave(cursor);
    let cursor = ctx.trace_enter(&text, 10).expect("it is traced");
    let bind = Bind { type_code: 1, length_bytes: 3, scale: 0, value: Some("\"abc\"".into()) };
    let null = Bind { type_code: 1, length_bytes: 0, scale: 0, value: None };
    ctx.trace_binds(cursor, &[bind, null]);
    let mark = ctx.trace_mark();
    {
        let mut inner = ctx.recursive(Call::Exec, || "update seq$ set x=:1".to_owned());
        let mut wait = pin!(ctx.wait(WaitEvent::RowCacheLock, [13, 0, 5], at(&clock, 1_100, ())));
        assert!(poll(wait.as_mut()).is_pending());
        clock.advance(100);
        assert!(poll(wait.as_mut()).is_ready());
        ctx.bump(Stat::DbBlockGets, 3);
        inner.rows(1);
    }
    clock.advance(9);
    let mark = ctx.trace_call(Call::Exec, cursor, &mark, 0, 811);
    ctx.bump(Stat::ConsistentGets, 31);
    ctx.bump(Stat::PhysicalReads, 2);
    clock.advance(50);
    ctx.trace_call(Call::Fetch, cursor, &mark, 7, 811);
    assert!(ctx.trace_wants_plan(&text, 811));
    let operation = "TABLE ACCESS FULL DUAL (cr=31 pr=2 pw=0 time=50 us)".to_owned();
    let line = PlanLine { rows: 7, parent: 0, position: 1, obj: 116, operation };
    ctx.trace_plan(&text, 811, &[line]);
    assert!(!ctx.trace_wants_plan(&text, 811));
    ctx.trace_leave(cursor);
    ctx.trace_transaction_end(false, true);
    ctx.trace_parse_error(None, "selec 1", 10, "42601");
    assert_eq!(ctx.session.trace_name().as_deref(), Some("skein_1_ora_1.trc"));
    observer.set_trace(&ctx.session, &request(0)).expect("off");
    let wall = "2026-11-21T10:00:00.123456Z";
    let rule = "=====================";
    assert_eq!(
        kept.text("skein_1_ora_1.trc"),
        format!(
            "\
Skein

*** {wall}
*** SESSION ID:(1.1) {wall}
*** CLIENT ID:() {wall}
*** SERVICE NAME:(skein) {wall}
*** MODULE NAME:(psql) {wall}
*** ACTION NAME:() {wall}

{rule}
PARSING IN CURSOR #1 len=18 dep=0 uid=10 oct=3 lid=10 tim=1000 hv=942515969 ad='382da701' \
sqlid='a5ks9fhw2v9s1'
select * from dual
END OF STMT
PARSE #1:c=0,e=41,p=0,cr=0,cu=0,mis=1,r=0,dep=0,og=1,plh=811,tim=1041
BINDS #1:
 Bind#0
  oacdty=01 mxl=8(03) mxlc=00 mal=00 scl=00 pre=00
  oacflg=00 fl2=0000 frm=00 csi=00 siz=8 off=0
  kxsbbbfp=00000000 bln=8 avl=03 flg=05
  value=\"abc\"
 Bind#1
  oacdty=01 mxl=8(00) mxlc=00 mal=00 scl=00 pre=00
  oacflg=00 fl2=0000 frm=00 csi=00 siz=8 off=8
  kxsbbbfp=00000001 bln=8 avl=00 flg=01
{rule}
PARSING IN CURSOR #2 len=20 dep=1 uid=0 oct=6 lid=0 tim=1041 hv=3120158693 ad='b9f9d7e5' \
sqlid='guqc7dkwzmpz5'
update seq$ set x=:1
END OF STMT
WAIT #2: nam='row cache lock' ela= 100 cache id=13 mode=0 request=5 obj#=-1 tim=1141
EXEC #2:c=0,e=100,p=0,cr=0,cu=3,mis=0,r=1,dep=1,og=1,plh=0,tim=1141
EXEC #1:c=0,e=109,p=0,cr=0,cu=3,mis=0,r=0,dep=0,og=1,plh=811,tim=1150
FETCH #1:c=0,e=50,p=2,cr=31,cu=0,mis=0,r=7,dep=0,og=1,plh=811,tim=1200
STAT #1 id=1 cnt=7 pid=0 pos=1 obj=116 op='TABLE ACCESS FULL DUAL (cr=31 pr=2 pw=0 time=50 us)'
XCTEND rlbk=0, rd_only=1, tim=1200
{rule}
PARSE ERROR #3:len=7 dep=0 uid=10 oct=0 lid=10 tim=1200 err=42601
selec 1
CLOSE #1:c=0,e=0,dep=0,type=0,tim=1200
CLOSE #2:c=0,e=0,dep=1,type=0,tim=1200
"
        )
    );
}

#[test]
fn waits_are_left_out_below_level_8_and_nothing_is_told_when_it_is_off() {
    let (clock, observer, kept, ctx) = traced(TRACE_CALLS);
    ctx.record_wait(WaitEvent::LogFileSync, 5);
    assert!(!ctx.traces_binds());
    clock.advance(STAMP_US + 1);
    ctx.trace_transaction_end(true, false);
    observer.flush_traces();
    let text = kept.text("skein_1_ora_1.trc");
    assert!(!text.contains("WAIT"), "{text}");
    let end = "\n*** 2026-11-21T10:00:00.123456Z\nXCTEND rlbk=1, rd_only=0, tim=10001001\n";
    assert!(text.ends_with(end), "{text}");
    observer.set_trace(&ctx.session, &request(0)).expect("off");
    assert!(!ctx.traced());
    let asked = AtomicBool::new(false);
    drop(ctx.recursive(Call::Exec, || {
        asked.store(true, Ordering::SeqCst);
        String::new()
    }));
    ctx.trace_transaction_end(true, false);
    assert!(!asked.load(Ordering::SeqCst));
    assert_eq!(kept.text("skein_1_ora_1.trc"), text);
}

#[test]
fn a_session_that_ends_leaves_a_whole_file_and_its_name_may_have_a_part_of_its_own() {
    let (_, observer, kept, ctx) = traced(TRACE_CALLS);
    let own = TraceRequest { identifier: "mine".into(), ..request(TRACE_CALLS) };
    observer.set_trace(&ctx.session, &own).expect("there is a folder");
    let cursor = ctx.trace_enter(&Arc::from("select 1"), 10).expect("it is traced");
    ctx.trace_leave(cursor);
    drop(ctx);
    let text = kept.text("skein_1_ora_1_mine.trc");
    assert!(text.ends_with("CLOSE #1:c=0,e=0,dep=0,type=0,tim=1000\n"), "{text}");
    assert!(!kept.text("skein_1_ora_1.trc").contains("PARSING"));
}

#[test]
fn a_full_disk_loses_the_trace_and_is_told_once() {
    let (_, observer, kept, ctx) = traced(TRACE_CALLS);
    kept.full.store(true, Ordering::SeqCst);
    for _ in 0..2 {
        ctx.trace_transaction_end(false, false);
        observer.flush_traces();
    }
    let lines = observer.alert_log.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].text.starts_with("write trace file trace/skein_1_ora_1.trc: "), "{lines:?}");
    kept.full.store(false, Ordering::SeqCst);
    ctx.trace_transaction_end(false, true);
    observer.flush_traces();
    assert_eq!(kept.text("skein_1_ora_1.trc"), "XCTEND rlbk=0, rd_only=1, tim=1000\n");
}

#[test]
fn a_trace_ends_at_its_limit() {
    let (_, observer, kept, ctx) = traced(TRACE_CALLS);
    let short = TraceRequest { bytes_max: Some(400), ..request(TRACE_CALLS) };
    observer.set_trace(&ctx.session, &short).expect("there is a folder");
    for _ in 0..50 {
        ctx.trace_transaction_end(false, true);
    }
    observer.flush_traces();
    let text = kept.text("skein_1_ora_1.trc");
    assert!(text.ends_with("*** DUMP FILE SIZE IS LIMITED TO 400 BYTES ***\n"), "{text}");
    assert!(text.len() < 500, "{}", text.len());
}

#[test]
fn the_limit_is_the_files_however_often_it_is_switched_on() {
    let (_, observer, kept, ctx) = traced(TRACE_CALLS);
    let limited = |most| TraceRequest { bytes_max: Some(most), ..request(TRACE_CALLS) };
    let run = || (0..50).for_each(|_| ctx.trace_transaction_end(false, true));
    let text = || {
        observer.flush_traces();
        kept.text("skein_1_ora_1.trc")
    };
    observer.set_trace(&ctx.session, &limited(400)).expect("there is a folder");
    run();
    let full = text();
    let end = "*** DUMP FILE SIZE IS LIMITED TO 400 BYTES ***\n";
    assert!(full.ends_with(end), "{full}");
    // Once more while it is on, and after it has been off.
    observer.set_trace(&ctx.session, &limited(400)).expect("there is a folder");
    run();
    assert_eq!(text(), full);
    observer.set_trace(&ctx.session, &request(0)).expect("off");
    observer.set_trace(&ctx.session, &limited(400)).expect("there is a folder");
    run();
    assert_eq!(text(), full);
    // A higher limit lets it go on.
    observer.set_trace(&ctx.session, &limited(1_000)).expect("there is a folder");
    run();
    let longer = text();
    assert!(longer.ends_with("LIMITED TO 1000 BYTES ***\n"), "{longer}");
    assert!(longer.starts_with(&full) && longer.len() < 1_100, "{longer}");
    assert_eq!(longer.matches("LIMITED").count(), 2, "{longer}");
}

#[test]
fn a_text_that_cannot_be_parsed_has_one_cursor() {
    let (_, observer, kept, ctx) = traced(TRACE_CALLS);
    for _ in 0..2 {
        let cursor = ctx.trace_enter(&Arc::from("select nosuch"), 10).expect("it is traced");
        ctx.trace_parse_error(Some(cursor), "select nosuch", 10, "42703");
        ctx.trace_leave(cursor);
    }
    // Of a trace that has been ended meanwhile.
    ctx.trace_parse_error(Some(1), "selec 1", 10, "42601");
    observer.flush_traces();
    let text = kept.text("skein_1_ora_1.trc");
    let numbers = |begin: &str| -> Vec<String> {
        let lines = text.lines().filter_map(|line| line.strip_prefix(begin));
        lines.map(|rest| rest.chars().take(1).collect()).collect()
    };
    assert_eq!(numbers("PARSING IN CURSOR #"), ["1"], "{text}");
    assert_eq!(numbers("PARSE ERROR #"), ["1", "1", "2"], "{text}");
}

#[test]
fn cursors_that_nobody_uses_make_room() {
    let (_, _observer, _kept, ctx) = traced(TRACE_CALLS);
    let first = ctx.trace_enter(&Arc::from("select 0"), 10).expect("it is traced");
    for i in 1..=CURSORS_MAX {
        let cursor = ctx.trace_enter(&Arc::from(format!("select {i}")), 10).expect("traced");
        ctx.trace_leave(cursor);
    }
    // The one in use has been kept, with its number.
    assert_eq!(ctx.trace_enter(&Arc::from("select 0"), 10), Some(first));
    let again = ctx.trace_enter(&Arc::from("select 1"), 10).expect("it is traced");
    assert!(again as usize > CURSORS_MAX);
}

#[test]
fn an_instance_without_a_folder_says_so() {
    let (_, observer) = world();
    let ctx = observer.ctx(SessionKind::User, "psql");
    assert!(observer.set_trace(&ctx.session, &request(TRACE_CALLS)).is_err());
    assert!(!ctx.traced());
}

#[test]
fn rules_that_are_read_late_change_nothing() {
    let (_, observer, _, ctx) = traced(0);
    ctx.session.describe(|about| about.service = Arc::from("shop"));
    let level = || ctx.session.trace_level();
    let rule = |service: &str| TraceRule {
        service: Some(service.to_owned()),
        level: TRACE_CALLS,
        ..TraceRule::default()
    };
    assert_eq!(observer.outdated_trace_rules(), Some(1), "none have been read");
    observer.set_trace_rules(1, vec![rule("shop")], None);
    assert_eq!((observer.outdated_trace_rules(), level()), (None, TRACE_CALLS));
    observer.outdate_trace_rules();
    let slow = observer.outdated_trace_rules().expect("there are others");
    observer.outdate_trace_rules();
    let quick = observer.outdated_trace_rules().expect("there are others again");
    observer.set_trace_rules(quick, vec![rule("back")], None);
    assert_eq!((observer.outdated_trace_rules(), level()), (None, 0));
    observer.set_trace_rules(slow, vec![rule("shop")], None);
    assert_eq!((observer.outdated_trace_rules(), level()), (None, 0));
    observer.outdate_trace_rules();
    let last = observer.outdated_trace_rules().expect("there are others");
    observer.set_trace_rules(last, Vec::new(), None);
    assert_eq!((observer.outdated_trace_rules(), level()), (None, 0));
}

#[test]
fn commands_have_numbers_and_names() {
    for (text, name) in [
        ("select 1", Some("SELECT")),
        ("with a as (select 1) table a", Some("SELECT")),
        ("merge into t", Some("MERGE")),
        ("do $$ begin end $$", Some("PL/SQL EXECUTE")),
        ("declare c cursor for select 1", Some("SELECT")),
        ("DECLARE \"a b\" NO SCROLL CURSOR WITH HOLD FOR select 1", Some("SELECT")),
        ("declare c binary no scroll cursor for select 1", Some("SELECT")),
        ("declare cursor c is select 1; begin null; end;", Some("PL/SQL EXECUTE")),
        ("declare c cursor for select 1; begin null; end;", Some("PL/SQL EXECUTE")),
        ("declare n number := 1; begin null; end;", Some("PL/SQL EXECUTE")),
        ("begin", None),
        ("drop view v", Some("DROP VIEW")),
        ("create unique index i on t (a)", Some("CREATE INDEX")),
        ("grant select on t to a", None),
    ] {
        assert_eq!(command_name(command(text)), name, "{text}");
    }
}
