//! Steps as rows, and as lines of a trace.

use super::line::lines_of;
use super::rows::{TOLD_BYTES_MAX, predicates};
use super::*;
use datafusion::common::JoinType;
use query::explain::{Estimate, Inner, Names, TABLE_ACCESS};

fn step(operator: Operator, table: &str, index: Option<&str>) -> Step {
    Step {
        operator,
        text: operator.word(),
        details: Vec::new(),
        estimate: Estimate::default(),
        read_width: 0.0,
        columns: Vec::new(),
        actual: None,
        index: None,
        names: (!table.is_empty()).then(|| Names {
            table: table.to_owned(),
            index: index.map(str::to_owned),
            ..Names::default()
        }),
        sets: None,
        inner: None,
        branches: Vec::new(),
        inputs: Vec::new(),
    }
}

#[test]
fn steps_have_the_fields_names() {
    let named = |operator, table, index| {
        let lines = lines_of(&step(operator, table, index));
        let words = |line: &Line| {
            let all = [line.name, line.option, &line.object];
            let all: Vec<&str> = all.into_iter().filter(|word| !word.is_empty()).collect();
            all.join(" ")
        };
        lines.iter().map(words).collect::<Vec<String>>().join(", ")
    };
    assert_eq!(named(Operator::SeqScan, "my table", None), "TABLE ACCESS FULL MY TABLE");
    assert_eq!(
        named(Operator::IndexRangeScan { backward: true }, "t", Some("i")),
        "TABLE ACCESS BY INDEX ROWID T, INDEX RANGE SCAN DESCENDING I"
    );
    assert_eq!(
        named(Operator::IndexKeysScan { unique: true }, "t", Some("i")),
        "INLIST ITERATOR, TABLE ACCESS BY INDEX ROWID T, INDEX UNIQUE SCAN I"
    );
    let only = Operator::IndexOnlyScan { backward: false };
    assert_eq!(named(only, "t", Some("i")), "INDEX RANGE SCAN I");
    let whole = Operator::IndexFullScan { backward: true };
    assert_eq!(
        named(whole, "t", Some("i")),
        "TABLE ACCESS BY INDEX ROWID T, INDEX FULL SCAN DESCENDING I"
    );
    let whole = Operator::IndexOnlyFullScan { backward: false };
    assert_eq!(named(whole, "t", Some("i")), "INDEX FULL SCAN I");
    let extreme = |whole| named(Operator::IndexExtreme { whole }, "t", Some("i"));
    assert_eq!(extreme(true), "INDEX FULL SCAN (MIN/MAX) I");
    assert_eq!(extreme(false), "FIRST ROW, INDEX RANGE SCAN (MIN/MAX) I");
    assert_eq!(named(Operator::IndexAnyScan, "t", Some("i or j")), "CONCATENATION");
    assert_eq!(named(Operator::FixedScan, "v$lock", None), "FIXED TABLE FULL V$LOCK");
    assert_eq!(named(Operator::DualScan, "dual", None), "FAST DUAL");
    let function = "COLLECTION ITERATOR PICKLER FETCH GENERATE_SERIES";
    assert_eq!(named(Operator::FunctionScan, "generate_series", None), function);
    assert_eq!(named(Operator::Aggregate, "", None), "SORT AGGREGATE");
    assert_eq!(named(Operator::HashJoin(JoinType::RightSemi), "", None), "HASH JOIN SEMI");
    assert_eq!(named(Operator::HashJoin(JoinType::Left), "", None), "HASH JOIN OUTER");
    let anti = Operator::NestedLoop(JoinType::LeftAnti);
    assert_eq!(named(anti, "a Left t", Some("i")), "NESTED LOOPS ANTI");
    assert_eq!(named(Operator::FirstRows, "", None), "SORT ORDER BY STOPKEY");
    let shared = "TEMP TABLE TRANSFORMATION, LOAD AS SELECT (CURSOR DURATION MEMORY)";
    assert_eq!(named(Operator::Shared, "", None), shared);
}

fn with_inputs(operator: Operator, inputs: Vec<Step>) -> Step {
    Step { inputs, ..step(operator, "", None) }
}

fn scan() -> Step {
    step(Operator::SeqScan, "t", None)
}

/// The lines of a step in a trace: rows, parent, position, object and operation.
pub(super) fn traced(step: &Step) -> Vec<String> {
    let mut rows = Rows::new(ROWS_MAX);
    let top = rows.statement("SELECT", Expected::default());
    for step in step.field_steps() {
        rows.add_step(step, top);
    }
    let shown = |line: PlanLine| {
        let PlanLine { rows, parent, position, obj, operation } = line;
        format!("{rows} {parent} {position} {obj} {operation}")
    };
    lines_of_rows(&rows).into_iter().map(shown).collect()
}

fn shown_below(step: &Step) -> Vec<String> {
    let mut rows = Rows::new(ROWS_MAX);
    let top = rows.statement("SELECT", Expected::default());
    for step in step.field_steps() {
        rows.add_step(step, top);
    }
    shown(&rows.rows[1..])
}

#[test]
fn a_window_sorts_its_rows_itself() {
    let sort = with_inputs(Operator::Sort, vec![scan()]);
    let mut window = with_inputs(Operator::WindowSort, vec![sort]);
    window.actual = Some(Actual { loops: 1, rows: 4, ..Actual::default() });
    assert_eq!(
        shown_below(&with_inputs(Operator::Filter, vec![window.clone()])),
        ["1 1 Some(0) FILTER||", "2 1 Some(1) WINDOW|SORT|", "3 1 Some(2) TABLE ACCESS|FULL|T"]
    );
    assert_eq!(
        traced(&window),
        [
            "4 0 1 0 WINDOW SORT (cr=0 pr=0 pw=0 time=0 us cost=0 size=0 card=1)",
            "0 1 1 0 TABLE ACCESS FULL T",
        ]
    );
}

#[test]
fn what_has_no_line_leaves_its_place_to_what_is_below() {
    let calls = with_inputs(Operator::Calls, vec![scan()]);
    let value = with_inputs(Operator::Aggregate, vec![step(Operator::Result, "", None)]);
    let values = with_inputs(Operator::InitPlan, vec![calls, value]);
    assert_eq!(
        shown_below(&values),
        [
            "1 1 Some(0) SORT|AGGREGATE|",
            "2 1 Some(1) FAST DUAL||",
            "1 2 Some(0) TABLE ACCESS|FULL|T",
        ]
    );
}

#[test]
fn lines_of_one_step_are_each_below_the_one_before() {
    let shared = with_inputs(Operator::Shared, vec![scan()]);
    assert_eq!(
        shown_below(&shared),
        [
            "1 1 Some(0) TEMP TABLE TRANSFORMATION||",
            "2 1 Some(1) LOAD AS SELECT|(CURSOR DURATION MEMORY)|",
            "3 1 Some(2) TABLE ACCESS|FULL|T",
        ]
    );
    let mut keys = step(Operator::IndexKeysScan { unique: false }, "t", Some("i"));
    keys.names.as_mut().unwrap().obj = 7;
    keys.index = Some(Part { obj: 8, actual: Actual { rows: 2, ..Actual::default() } });
    assert_eq!(
        traced(&keys),
        [
            "0 0 1 0 INLIST ITERATOR",
            "0 1 1 7 TABLE ACCESS BY INDEX ROWID T",
            "2 2 1 8 INDEX RANGE SCAN I (cr=0 pr=0 pw=0 time=0 us)",
        ]
    );
}

fn actual(loops: u64, rows: u64) -> Actual {
    Actual { loops, rows, ..Actual::default() }
}

/// Lines of a plan, each with how often it was begun and its rows, if that was measured.
fn begun(step: &Step) -> Vec<(String, Option<(u64, u64)>)> {
    let mut rows = Rows::new(ROWS_MAX);
    let top = rows.statement("SELECT", Expected::default());
    rows.add_step(step, top);
    let told = |(row, figures): (&PlanRow, &Option<StepFigures>)| {
        (row.operation.clone(), figures.map(|figures| (figures.starts, figures.rows)))
    };
    rows.rows.iter().zip(&rows.figures).skip(1).map(told).collect()
}

#[test]
fn each_key_of_a_list_begins_what_is_below_the_iterator() {
    let mut keys = step(Operator::IndexKeysScan { unique: false }, "t", Some("i"));
    keys.actual = Some(actual(1, 6));
    keys.index = Some(Part { obj: 8, actual: actual(4, 7) });
    assert_eq!(
        begun(&keys),
        [
            ("INLIST ITERATOR".to_owned(), Some((1, 6))),
            (TABLE_ACCESS.to_owned(), Some((4, 6))),
            ("INDEX".to_owned(), Some((4, 7))),
        ]
    );
}

#[test]
fn each_of_several_accesses_has_its_lines_below_the_concatenation() {
    let mut first = step(Operator::IndexRangeScan { backward: false }, "t", Some("i"));
    first.details = vec![("Index Cond", "(a = 1)".to_owned())];
    first.actual = Some(actual(1, 5));
    first.index = Some(Part { obj: 8, actual: actual(1, 5) });
    let mut second = step(Operator::IndexUniqueScan, "t", Some("j"));
    second.details =
        vec![("Index Cond", "(b = 2)".to_owned()), ("Filter", "lnnvl(a = 1)".to_owned())];
    let mut all = step(Operator::IndexAnyScan, "t", Some("i or j"));
    all.details = vec![
        ("Index Cond", "((a = 1) OR (b = 2))".to_owned()),
        ("Filter", "((a = 1) OR (b = 2))".to_owned()),
    ];
    all.actual = Some(actual(1, 6));
    all.branches = vec![first, second];
    assert_eq!(
        shown_below(&all),
        [
            "1 1 Some(0) CONCATENATION||",
            "2 1 Some(1) TABLE ACCESS|BY INDEX ROWID|T",
            "3 1 Some(2) INDEX|RANGE SCAN|I",
            "2 2 Some(1) TABLE ACCESS|BY INDEX ROWID|T",
            "3 1 Some(4) INDEX|UNIQUE SCAN|J",
        ]
    );
    let figures: Vec<_> = begun(&all).into_iter().map(|(_, figures)| figures).collect();
    assert_eq!(figures, [Some((1, 6)), Some((1, 5)), Some((1, 5)), None, None]);
    let mut rows = Rows::new(ROWS_MAX);
    let top = rows.statement("SELECT", Expected::default());
    rows.add_step(&all, top);
    let told: Vec<_> =
        rows.rows[1..].iter().map(|r| (r.access.as_deref(), r.filter.as_deref())).collect();
    let (none, filter) = ((None, None), (None, Some("lnnvl(a = 1)")));
    assert_eq!(told, [none, none, (Some("(a = 1)"), None), filter, (Some("(b = 2)"), None)]);
}

#[test]
fn predicates_are_told_as_access_and_filter() {
    let mut scan = step(Operator::IndexRangeScan { backward: false }, "t", Some("i"));
    assert_eq!(predicates(&scan), Predicates::default());
    scan.details = vec![
        ("Index Cond", "(a = 1)".to_owned()),
        ("Filter", "(b = 2)".to_owned()),
        ("Limit", "3".to_owned()),
    ];
    scan.columns = vec!["a".to_owned(), "b".to_owned()];
    scan.names.as_mut().unwrap().obj = 7;
    let asked = predicates(&scan);
    assert_eq!(asked.access.as_deref(), Some("(a = 1)"));
    assert_eq!(asked.filter.as_deref(), Some("(b = 2)"));
    let mut rows = Rows::new(ROWS_MAX);
    let top = rows.statement("SELECT", Expected::default());
    rows.add_step(&scan, top);
    let told: Vec<_> =
        rows.rows.iter().map(|r| (r.access.as_deref(), r.filter.as_deref())).collect();
    let none = (None, None);
    assert_eq!(told, [none, (None, Some("(b = 2)")), (Some("(a = 1)"), None)]);
    let known: Vec<_> = rows.rows.iter().map(|r| (r.obj, r.projection.as_deref())).collect();
    assert_eq!(known, [(0, None), (7, Some("a, b")), (0, None)]);
}

fn shown(rows: &[PlanRow]) -> Vec<String> {
    let shown = |row: &PlanRow| {
        let [option, object] = [&row.option, &row.object].map(|o| o.clone().unwrap_or_default());
        let (depth, position, parent) = (row.depth, row.position, row.parent);
        format!("{depth} {position} {parent:?} {}|{option}|{object}", row.operation)
    };
    rows.iter().map(shown).collect()
}

#[test]
fn lines_become_operations_options_and_names() {
    let mut rows = Rows::new(ROWS_MAX);
    let top = rows.statement("UPDATE", Expected::default());
    let mut lines = lines_for(Operator::BitmapScan, "t", "i");
    lines.extend(bitmaps::rows_of_key("i"));
    let asked = Predicates { access: Some("(a = 1)".to_owned()), filter: None };
    assert_eq!(rows.add(&lines, &asked, top, Expected::default()), (1, 3));
    let groups = lines_for(Operator::HashAggregate, "", "");
    assert_eq!(rows.add(&groups, &Predicates::default(), top, Expected::default()), (4, 4));
    assert_eq!(
        shown(&rows.rows),
        [
            "0 0 None UPDATE STATEMENT||",
            "1 1 Some(0) TABLE ACCESS|BY INDEX ROWID|T",
            "2 1 Some(1) BITMAP CONVERSION|TO ROWIDS|",
            "3 1 Some(2) BITMAP INDEX|SINGLE VALUE|I",
            "1 2 Some(0) HASH|GROUP BY|",
        ]
    );
    assert_eq!(rows.rows[1].access, None);
    assert_eq!(rows.rows[3].access.as_deref(), Some("(a = 1)"));
}

fn join() -> Step {
    let mut join = step(Operator::NestedLoop(JoinType::Inner), "t", Some("i"));
    join.inputs.push(step(Operator::SeqScan, "a statement", None));
    let estimate = Estimate { total_cost: 0.24, rows: 2.0, width: 8.0, startup_cost: 0.0 };
    join.inner = Some(Inner { unique: false, bitmap: false, estimate, actual: None });
    join
}

#[test]
fn what_is_read_for_each_row_comes_behind_the_input() {
    let join = join();
    let mut rows = Rows::new(ROWS_MAX);
    let top = rows.statement("SELECT", Expected::default());
    rows.add_step(&join, top);
    assert_eq!(
        shown(&rows.rows),
        [
            "0 0 None SELECT STATEMENT||",
            "1 1 Some(0) NESTED LOOPS||",
            "2 1 Some(1) TABLE ACCESS|FULL|A STATEMENT",
            "2 2 Some(1) TABLE ACCESS|BY INDEX ROWID|T",
            "3 1 Some(3) INDEX|RANGE SCAN|I",
        ]
    );
    let table = &rows.rows[3];
    assert_eq!((table.cost, table.rows, table.bytes), (Some(0.24), Some(2.0), Some(16.0)));
}

#[test]
fn each_side_of_a_join_by_index_has_its_line_in_a_trace() {
    let part = |obj, gets, rows| {
        let mut actual = Actual { rows, total_us: 10 * gets, ..Actual::default() };
        actual.visits.consistent_gets = gets;
        Part { obj, actual }
    };
    let mut join = join();
    join.actual = Some(part(0, 30, 20).actual);
    join.inputs[0].actual = Some(part(0, 5, 10).actual);
    if let Some(names) = &mut join.inputs[0].names {
        names.obj = 7;
    }
    if let Some(inner) = &mut join.inner {
        (inner.unique, inner.actual) = (true, Some(part(8, 25, 20)));
    }
    join.index = Some(part(9, 20, 20));
    if let Some(names) = &mut join.names {
        names.obj = 8;
    }
    assert_eq!(
        traced(&join),
        [
            "20 0 1 0 NESTED LOOPS (cr=30 pr=0 pw=0 time=300 us cost=0 size=0 card=1)",
            "10 1 1 7 TABLE ACCESS FULL A STATEMENT (cr=5 pr=0 pw=0 time=50 us cost=0 size=0 \
             card=1)",
            "20 1 2 8 TABLE ACCESS BY INDEX ROWID T (cr=25 pr=0 pw=0 time=250 us cost=0 \
             size=16 card=2)",
            "20 3 1 9 INDEX UNIQUE SCAN I (cr=20 pr=0 pw=0 time=200 us)",
        ]
    );
}

#[test]
fn the_bitmaps_of_a_join_are_told_as_pieces() {
    let mut join = join();
    if let Some(inner) = &mut join.inner {
        inner.bitmap = true;
    }
    let actual = Actual { loops: 10, rows: 50, pieces: 12, ..Actual::default() };
    join.index = Some(Part { obj: 9, actual });
    let lines = traced(&join);
    assert_eq!(
        lines[3..],
        [
            "50 3 1 0 BITMAP CONVERSION TO ROWIDS (cr=0 pr=0 pw=0 time=0 us)",
            "12 4 1 9 BITMAP INDEX SINGLE VALUE I (cr=0 pr=0 pw=0 time=0 us)",
        ]
    );
}

#[test]
fn what_counts_rows_is_told_with_the_bytes_that_it_reads() {
    let mut scan = scan();
    scan.estimate.rows = 0.2;
    let mut rows = Rows::new(ROWS_MAX);
    let top = rows.statement("SELECT", Expected::default());
    rows.add_step(&scan, top);
    scan.read_width = 9.0;
    rows.add_step(&scan, top);
    let told: Vec<_> = rows.rows.iter().map(|row| (row.rows, row.bytes)).collect();
    assert_eq!(told, [(None, None), (Some(1.0), None), (Some(1.0), Some(9.0))]);
}

#[test]
fn a_plan_keeps_no_more_than_there_is_room_for() {
    let mut wide = step(Operator::Sort, "", None);
    wide.details = vec![("Filter", "x".repeat(5000))];
    wide.inputs = vec![wide.clone(); 300];
    let mut rows = Rows::new(ROWS_MAX);
    let top = rows.statement("SELECT", Expected::default());
    rows.add_step(&wide, top);
    assert_eq!(rows.rows.len(), ROWS_MAX);
    let told: usize = rows.rows.iter().filter_map(|row| row.filter.as_ref()).map(String::len).sum();
    assert_eq!(told, TOLD_BYTES_MAX + " ..".len());
}
