//! Whole reports to the letter, damaged files, and sessions taken out of several.

use super::*;

const FILE: &str = "\
Skein 0.1.0 SQL trace
Node name:\tn1
Instance name:\tskein1

*** 2026-11-21T10:00:00.000001Z
*** SESSION ID:(5.7) 2026-11-21T10:00:00.000001Z
*** CLIENT ID:() 2026-11-21T10:00:00.000001Z
*** SERVICE NAME:(skein) 2026-11-21T10:00:00.000001Z
*** MODULE NAME:(psql) 2026-11-21T10:00:00.000001Z
*** ACTION NAME:() 2026-11-21T10:00:00.000001Z

=====================
PARSING IN CURSOR #1 len=45 dep=0 uid=10 oct=2 lid=10 tim=1000000 hv=7 ad='7' sqlid='abc'
insert into t1
select t1_seq.nextval from dual
END OF STMT
PARSE #1:c=300,e=400,p=0,cr=0,cu=0,mis=1,r=0,dep=0,og=1,plh=811,tim=1000400
BINDS #1:
 Bind#0
  oacdty=01 mxl=8(03) mxlc=00 mal=00 scl=00 pre=00
  oacflg=00 fl2=0000 frm=00 csi=00 siz=8 off=0
  kxsbbbfp=00000000 bln=8 avl=03 flg=05
  value=\"EXEC #9:\"
=====================
PARSING IN CURSOR #2 len=20 dep=1 uid=0 oct=6 lid=0 tim=1000500 hv=8 ad='8' sqlid='def'
update seq$ set x=:1
END OF STMT
WAIT #2: nam='row cache lock' ela= 2930000 cache id=13 mode=0 request=5 obj#=-1 tim=3930500
EXEC #2:c=270,e=2930300,p=0,cr=1,cu=2,mis=0,r=1,dep=1,og=1,plh=0,tim=3930800
WAIT #1: nam='gc current block 2-way' ela= 410 p1=4 p2=131 p3=1 obj#=53782 tim=3931210
EXEC #1:c=5280000,e=7660000,p=1,cr=794,cu=25670,mis=0,r=10000,dep=0,og=1,plh=811,tim=8660000
STAT #1 id=1 cnt=10000 pid=0 pos=1 obj=0 op='LOAD TABLE (cr=794 pr=1 pw=0 time=7660000 us)'
STAT #1 id=2 cnt=1 pid=1 pos=1 obj=77 op='INDEX UNIQUE SCAN I (cr=3 pr=0 pw=0 time=9 us)'
WAIT #0: nam='log file sync' ela= 900 buffer#=1 sync scn=2 p3=0 obj#=-1 tim=8661000
XCTEND rlbk=0, rd_only=0, tim=8661000
CLOSE #1:c=0,e=0,dep=0,type=0,tim=8661001
CLOSE #2:c=0,e=0,dep=1,type=0,tim=8661001
";

fn read(text: &str) -> Trace {
    let mut trace = Trace::default();
    trace.read("a.trc", text.as_bytes(), true);
    trace
}

fn report(text: &str, options: &Options) -> String {
    tkprof(&read(text), &["a.trc".to_owned()], options)
}

#[test]
fn a_whole_report() {
    let expected = include_str!("../tests/insert.prf");
    let shown = report(FILE, &Options::default());
    let shown = shown.replace(env!("CARGO_PKG_VERSION"), "VERSION");
    assert!(shown == expected, "{shown}");
}

#[test]
fn recursive_statements_can_be_hidden_and_stay_in_the_totals() {
    let shown = report(FILE, &Options { sys: false, waits: false, ..Options::default() });
    assert!(!shown.contains("update seq$") && !shown.contains("row cache lock"), "{shown}");
    let recursive = shown.split("ALL RECURSIVE").nth(1).expect("the second totals");
    let line = "Execute      1      0.00       2.93          0          1          2           1\n";
    assert!(recursive.contains(line), "{recursive}");
}

#[test]
fn the_heaviest_come_first_where_that_is_asked() {
    let order = |keys: &str| {
        let sort = SortKey::parse_list(keys).expect("known keys");
        let shown = report(FILE, &Options { sort, ..Options::default() });
        shown.find("insert into t1") < shown.find("update seq$")
    };
    assert!(order("prsela,exeela,fchela"));
    assert!(order("exeqry"));
    // User 10 before the database itself.
    assert!(order("userid"));
    let error = SortKey::parse_list("nonsense").expect_err("no key");
    assert!(error.contains("nonsense"), "{error}");
    let sort = SortKey::parse_list("exerow").expect("a known key");
    let first = report(FILE, &Options { sort, print: Some(1), ..Options::default() });
    assert!(first.contains("insert into t1") && !first.contains("update seq$"));
}

#[test]
fn steps_are_as_wide_as_is_asked_and_statements_of_clients_a_script() {
    let shown = report(FILE, &Options { width: Some(60), ..Options::default() });
    let step = shown.lines().find(|line| line.contains("LOAD TABLE")).expect("the step");
    assert_eq!(step.chars().count(), 60, "{shown}");
    assert_eq!(recorded(&read(FILE)), "insert into t1\nselect t1_seq.nextval from dual;\n");
}

#[test]
fn a_session_is_one_however_often_its_trace_begins() {
    let trace = read(&format!("{FILE}{}", FILE.replace("rd_only=0", "rd_only=1")));
    assert_eq!((trace.sessions.len(), trace.commits, trace.rollbacks), (1, 1, 0));
}

#[test]
fn one_text_is_one_statement_unless_sessions_are_kept_apart() {
    let count = |aggregate| {
        let mut trace = Trace::default();
        trace.read("a.trc", FILE.as_bytes(), aggregate);
        trace.read("b.trc", FILE.as_bytes(), aggregate);
        let calls: u64 = trace.statements.iter().map(|s| s.total().count).sum();
        assert_eq!((calls, trace.sessions.len(), trace.commits), (6, 2, 2));
        trace.statements.len()
    };
    assert_eq!((count(true), count(false)), (2, 4));
}

/// One text that ran without an index and with one, twice through one cursor that saw both.
const PLANS: &str = "\
Skein 0.1.0 SQL trace
*** SESSION ID:(5.7) 2026-11-21T10:00:00.000001Z

=====================
PARSING IN CURSOR #1 len=27 dep=0 uid=10 oct=3 lid=10 tim=100 hv=7 ad='7' sqlid='abc'
select v from t where k = 1
END OF STMT
PARSE #1:c=0,e=10,p=0,cr=0,cu=0,mis=1,r=0,dep=0,og=1,plh=0,tim=110
EXEC #1:c=0,e=10,p=0,cr=0,cu=0,mis=0,r=0,dep=0,og=1,plh=11,tim=120
FETCH #1:c=0,e=500,p=0,cr=500,cu=0,mis=0,r=4,dep=0,og=1,plh=11,tim=620
STAT #1 id=1 cnt=4 pid=0 pos=1 obj=5 op='TABLE ACCESS FULL T (cr=500 pr=0 pw=0 time=500 us)'
WAIT #1: nam='db file sequential read' ela= 40 file#=4 block#=9 blocks=1 obj#=-1 tim=700
EXEC #1:c=0,e=20,p=0,cr=0,cu=0,mis=1,r=0,dep=0,og=1,plh=22,tim=720
FETCH #1:c=0,e=30,p=1,cr=3,cu=0,mis=0,r=1,dep=0,og=1,plh=22,tim=750
STAT #1 id=1 cnt=1 pid=0 pos=1 obj=6 op='INDEX RANGE SCAN T_K (cr=3 pr=1 pw=0 time=30 us)'
WAIT #1: nam='SQL*Net message from client' ela= 900 driver id=0 #bytes=0 p3=0 obj#=-1 tim=1700
CLOSE #1:c=0,e=0,dep=0,type=0,tim=1700
=====================
PARSING IN CURSOR #1 len=27 dep=0 uid=10 oct=3 lid=10 tim=1800 hv=7 ad='7' sqlid='abc'
select v from t where k = 1
END OF STMT
PARSE #1:c=0,e=5,p=0,cr=0,cu=0,mis=0,r=0,dep=0,og=1,plh=22,tim=1805
FETCH #1:c=0,e=40,p=0,cr=3,cu=0,mis=0,r=4,dep=0,og=1,plh=22,tim=1850
STAT #1 id=1 cnt=4 pid=0 pos=1 obj=6 op='INDEX RANGE SCAN T_K (cr=3 pr=0 pw=0 time=40 us)'
";

#[test]
fn executions_of_one_text_by_different_plans_are_told_apart() {
    let trace = read(PLANS);
    assert_eq!(trace.notes, []);
    let [full, index] = &trace.statements[..] else { panic!("{:?}", trace.statements) };
    assert_eq!((full.plan, index.plan), (11, 22));
    let counts = |s: &crate::trace::Statement| s.calls.map(|sums| sums.count);
    // The parse had no plan yet: it is that of the one that follows.
    assert_eq!((counts(full), counts(index)), ([1, 1, 1], [1, 1, 2]));
    assert_eq!((full.total().query, index.total().query), (500, 6));
    let waits: Vec<&str> = index.waits.iter().map(|w| w.event.as_str()).collect();
    assert_eq!(waits, ["db file sequential read", "SQL*Net message from client"]);
    assert_eq!(full.waits, []);
    let rows = |s: &crate::trace::Statement| {
        let source = &s.sources[0];
        (source.told, source.rows, source.rows_average(), source.rows_max)
    };
    assert_eq!((rows(full), rows(index)), ((1, 4, 4, 4), (2, 1, 2, 4)));
    let shown = report(PLANS, &Options::default());
    for line in [
        "SQL ID: abc Plan Hash: 11\n",
        "SQL ID: abc Plan Hash: 22\n",
        "Number of plan statistics captured: 2\n\nRows (1st) Rows (avg) Rows (max)  Row Source",
        "         1          2          4  INDEX RANGE SCAN T_K (cr=3 pr=1 pw=0 time=30 us)",
        "total        7      0.00       0.00          1        506          0           9\n",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
}

#[test]
fn a_cut_file_tells_what_could_be_read() {
    let whole = read(FILE);
    assert_eq!(whole.notes, []);
    // Cut anywhere: no panic, never more than there is, and a note unless the cut is between lines.
    for end in 0..FILE.len() {
        let trace = read(&FILE[..end]);
        let calls = |t: &Trace| t.statements.iter().map(|s| s.total().count).sum::<u64>();
        assert!(calls(&trace) <= calls(&whole), "cut at {end}");
        let bytes = FILE.as_bytes();
        let between = end == 0 || bytes[end - 1] == b'\n' || bytes[end] == b'\n';
        assert!(between || !trace.notes.is_empty(), "cut at {end}");
    }
    let cut = FILE.find("c=5280000").expect("it is there") + 20;
    let trace = read(&FILE[..cut]);
    let line = FILE[..cut].lines().count();
    let text = "the file ends within this line".to_owned();
    assert_eq!(trace.notes, [Note { file: "a.trc".to_owned(), line, text }]);
    let shown = tkprof(&trace, &["a.trc".to_owned()], &Options::default());
    assert!(shown.ends_with("a.trc:31: the file ends within this line\n"), "{shown}");
}

#[test]
fn damaged_lines_are_told_and_left_out() {
    let damaged = FILE
        .replace("EXEC #2:c=270,", "EXEC #2:c=x70,")
        .replace("WAIT #1: nam='gc", "WAIT #1: nam=gc")
        .replace("EXEC #1:c", "EXEC #8:c");
    let trace = read(&damaged);
    let lines: Vec<usize> = trace.notes.iter().map(|note| note.line).collect();
    assert_eq!(lines, [29, 30, 31]);
    assert!(trace.notes[0].text.starts_with("cannot be read: EXEC #2:c=x70,"), "{:?}", trace.notes);
    let no_end = FILE.replacen("END OF STMT\n", "", 1);
    let trace = read(&no_end);
    assert_eq!(trace.notes.len(), 1, "{:?}", trace.notes);
    assert_eq!(trace.statements[0].text, "insert into t1\nselect t1_seq.nextval from dual");
    assert_eq!(trace.statements[0].calls[1].count, 1);
    let mut noise = Trace::default();
    noise.read("noise", &[0xff, 0, b'\n', b'#', b'\n'], true);
    assert!(noise.statements.is_empty());
}

#[test]
fn errors_are_counted_and_texts_that_could_not_be_parsed_are_no_calls() {
    let text = FILE.replace(
        "XCTEND rlbk=0,",
        "PARSE ERROR #3:len=17 dep=0 uid=1 oct=0 lid=1 tim=8661000 err=42601\nselec\nEXEC #1:c=1\n\
         ERROR #1:err=23505 tim=8661000\nXCTEND rlbk=1,",
    );
    let trace = read(&text);
    assert_eq!(trace.notes, []);
    assert_eq!((trace.statements[0].errors, trace.rollbacks), (1, 1));
}

/// A table that is not there, is made, and is read then through the cursor that had failed; and a
/// text that is wrong twice.
const FAILED: &str = "\
Skein 0.1.0 SQL trace
*** SESSION ID:(5.7) 2026-11-21T10:00:00.000001Z

=====================
PARSING IN CURSOR #1 len=23 dep=0 uid=10 oct=3 lid=10 tim=100 hv=7 ad='7' sqlid='abc'
select *
  from missing
END OF STMT
WAIT #1: nam='row cache lock' ela= 40 cache id=13 mode=0 request=5 obj#=-1 tim=140
=====================
PARSE ERROR #1:len=23 dep=0 uid=10 oct=3 lid=10 tim=150 err=42P01
select *
  from missing
WAIT #0: nam='SQL*Net message from client' ela= 900 driver id=0 #bytes=0 p3=0 obj#=-1 tim=1700
=====================
PARSE ERROR #3:len=5 dep=0 uid=10 oct=0 lid=10 tim=1750 err=42601
selec
=====================
PARSE ERROR #4:len=5 dep=0 uid=10 oct=0 lid=10 tim=1760 err=42601
selec
";

#[test]
fn a_text_that_could_not_be_parsed_is_told_with_its_error() {
    let trace = read(FAILED);
    assert_eq!(trace.notes, []);
    let shown = report(FAILED, &Options { waits: false, ..Options::default() });
    let block = "\n\
        The following statement encountered a error during parse:\n\n\
        select *\n  from missing\n\n\
        Error encountered: 42P01\n\
        ********************************************************************************\n\n\
        The following statement encountered a error during parse:\n\n\
        selec\n\n\
        Error encountered: 42601\n\
        Calls that failed: 2\n\
        ********************************************************************************\n";
    assert!(shown.contains(block), "{shown}");
    assert!(!shown.contains("SQL ID: "), "{shown}");
    assert_eq!(trace.statements[0].waits.len(), 1, "{:?}", trace.statements);
    // The same cursor runs it later: those calls are a statement of their own.
    let later = format!(
        "{FAILED}PARSE #1:c=0,e=10,p=0,cr=0,cu=0,mis=1,r=0,dep=0,og=1,plh=0,tim=1800\n\
         EXEC #1:c=0,e=10,p=0,cr=0,cu=0,mis=0,r=0,dep=0,og=1,plh=11,tim=1810\n"
    );
    let trace = read(&later);
    assert_eq!(trace.notes, []);
    let plans: Vec<(Option<&str>, u64, u64)> = trace
        .statements
        .iter()
        .map(|s| (s.parse_error.as_deref(), s.plan, s.total().count))
        .collect();
    assert_eq!(plans, [(Some("42P01"), 0, 0), (None, 11, 2), (Some("42601"), 0, 0)]);
    let cut = read(FAILED.trim_end_matches("lec\n"));
    assert_eq!(cut.notes.len(), 1, "{:?}", cut.notes);
}

#[test]
fn a_session_is_taken_out_of_several_files() {
    let other = FILE.replace("5.7", "6.1").replace("(psql)", "(app (1))").replace("10:00", "09:00");
    let later = FILE.replace("10:00", "11:00").replace("insert into t1", "insert into t2");
    let files = [later.clone(), other.clone(), FILE.to_owned()];
    let of = |filter: Filter| trcsess(&files, &filter);
    let session = of(Filter { session: Some("5.7".into()), ..Filter::default() });
    assert_eq!(session, format!("{FILE}{later}"));
    let module = of(Filter { module: Some("app (1)".into()), ..Filter::default() });
    assert_eq!(module, other);
    let both = Filter { service: Some("skein".into()), ..Filter::default() };
    assert_eq!(of(both.clone()), format!("{other}{FILE}{later}"));
    assert_eq!(of(Filter { action: Some("none".into()), ..both }), "");
}

/// The lines of a session that begins to call itself something else within a call, and has two
/// statements in that time, one of which looks like other lines.
const MODULES: &str = "\
Skein 0.1.0 SQL trace
*** 2026-11-21T10:00:00.000001Z
*** SESSION ID:(5.7) 2026-11-21T10:00:00.000001Z
*** MODULE NAME:(psql) 2026-11-21T10:00:00.000001Z

=====================
PARSING IN CURSOR #1 len=42 dep=0 uid=10 oct=47 lid=10 tim=100 hv=7 ad='7' sqlid='abc'
call dbms_application_info.set_module('m',
END OF STMT
PARSE #1:c=0,e=10,p=0,cr=0,cu=0,mis=1,r=0,dep=0,og=1,plh=0,tim=110
=====================
PARSING IN CURSOR #2 len=8 dep=0 uid=10 oct=3 lid=10 tim=111 hv=8 ad='8' sqlid='def'
select 2
END OF STMT
PARSE #2:c=0,e=2,p=0,cr=0,cu=0,mis=1,r=0,dep=0,og=1,plh=0,tim=113
*** MODULE NAME:(m) 2026-11-21T10:02:00.000001Z
*** ACTION NAME:(a) 2026-11-21T10:02:00.000001Z
EXEC #1:c=0,e=20,p=0,cr=0,cu=0,mis=0,r=0,dep=0,og=1,plh=0,tim=130
=====================
PARSING IN CURSOR #3 len=46 dep=0 uid=10 oct=3 lid=10 tim=140 hv=9 ad='9' sqlid='ghj'
select '
*** MODULE NAME:(x) 2026
EXEC #2:c=0'
END OF STMT
PARSE #3:c=0,e=10,p=0,cr=0,cu=0,mis=1,r=0,dep=0,og=1,plh=0,tim=150
ERROR #3:err=22012 tim=151
EXEC #1:c=0,e=30,p=0,cr=0,cu=0,mis=0,r=0,dep=0,og=1,plh=0,tim=180
CLOSE #1:c=0,e=0,dep=0,type=0,tim=190
CLOSE #2:c=0,e=0,dep=0,type=0,tim=190
CLOSE #3:c=0,e=0,dep=0,type=0,tim=190
";

#[test]
fn a_call_has_its_text_though_that_was_told_before_the_part() {
    let module = Filter { module: Some("m".into()), ..Filter::default() };
    let text = trcsess(&[MODULES.to_owned()], &module);
    let carried = "\
=====================
PARSING IN CURSOR #1 len=42 dep=0 uid=10 oct=47 lid=10 tim=100 hv=7 ad='7' sqlid='abc'
call dbms_application_info.set_module('m',
END OF STMT
";
    let at = MODULES.find("*** MODULE NAME:(m)").expect("it is there");
    // Once, before its first call; a cursor without calls in the part is only closed.
    let wanted = MODULES[at..].replacen("EXEC #1:", &format!("{carried}EXEC #1:"), 1);
    assert_eq!(text, wanted);
    let trace = read(&text);
    assert_eq!(trace.notes, []);
    let told: Vec<(&str, u64)> =
        trace.statements.iter().map(|s| (s.sql_id.as_str(), s.total().count)).collect();
    assert_eq!(told, [("abc", 2), ("ghj", 1)]);
    // Another session's cursor of the same number comes between, in the order of time.
    let other = MODULES
        .replace("5.7", "6.1")
        .replace("(psql)", "(m)")
        .replace("10:0", "10:01:0")
        .replace("set_module(", "set_modules(")
        .replace("len=42", "len=43")
        .replace("sqlid='abc'", "sqlid='xyz'");
    let end = other.find("PARSE #2").expect("it is there");
    let both = trcsess(&[MODULES.to_owned(), other[..end].to_owned()], &module);
    assert_eq!(both, format!("{}{wanted}", &other[..end]));
    let trace = read(&both);
    assert_eq!(trace.notes, []);
    let told: Vec<(&str, u64)> =
        trace.statements.iter().map(|s| (s.sql_id.as_str(), s.total().count)).collect();
    assert_eq!(told, [("xyz", 1), ("def", 0), ("abc", 2), ("ghj", 1)]);
}

#[test]
fn an_error_of_the_execution_is_a_call_that_failed() {
    let text = "\
=====================
PARSING IN CURSOR #9 len=20 dep=0 uid=10 oct=3 lid=10 tim=100 hv=7 ad='7' sqlid='abc'
select 1/0 from dual
END OF STMT
PARSE #9:c=0,e=10,p=0,cr=0,cu=0,mis=1,r=0,dep=0,og=1,plh=0,tim=110
EXEC #9:c=0,e=0,p=0,cr=0,cu=0,mis=0,r=0,dep=0,og=1,plh=0,tim=110
ERROR #9:err=22012 tim=110
";
    assert_eq!(read(text).notes, []);
    let shown = report(text, &Options::default());
    for line in ["\nParse        1 ", "\nExecute      1 ", "\nCalls that failed: 1\n"] {
        assert!(shown.contains(line), "{shown}");
    }
    assert!(!shown.contains("error during parse"), "{shown}");
}
