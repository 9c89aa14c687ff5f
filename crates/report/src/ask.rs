//! What reports ask the database, and what becomes of the answers. Whoever makes a report runs the
//! statements one after the other and gives the answers back in the same order.
//!
//! What it promises: every statement is a fixed text but for numbers in it; whoever may not read a
//! table is told so by the statement itself. What it must never do: know how a statement is run.

use crate::awr::{Absent, Fetched, Input, Samples, SnapshotRow, TABLES};
use crate::diagnose::{Beside, Blocker, Sequence, Waiter};
use std::collections::BTreeMap;

/// Takes a snapshot, and gives its number.
pub const CREATE_SNAPSHOT: &str = "select dbms_workload_repository.create_snapshot()";

/// Every instance of every snapshot that is kept: for [`snapshots`].
pub const SNAPSHOTS: &str = "select snap_id, instance_number, instance_name, version, \
     to_char(end_interval_time, 'YYYY-MM-DD HH24:MI:SS'), \
     (extract(epoch from end_interval_time) * 1000000)::bigint, \
     to_char(startup_time, 'YYYY-MM-DD HH24:MI:SS'), \
     (extract(epoch from startup_time) * 1000000)::bigint, coalesce(sessions, 0) \
     from pg_awr.wrm$_snapshot order by snap_id, instance_number";

const SEQUENCES: &str = "select sequence_owner || '.' || sequence_name, cache_size, order_flag \
     from dba_sequences";

const TEXTS: &str = "select sql_id, max(sql_text) from gv$sqlstats group by sql_id";

/// What a statement begins with whose answer is only worth having: who may not read it goes
/// without.
const IF_ALLOWED: &str = "/* if allowed */ ";

/// Whether a SQLSTATE says that a server does not have what a statement names: its answer is one
/// without rows and columns.
#[must_use]
pub fn is_missing(statement: &str, code: &str) -> bool {
    let refused = code == "42501" && statement.starts_with(IF_ALLOWED);
    refused || matches!(code, "42P01" | "3F000" | "42703")
}

fn number(cell: &Option<String>) -> Option<i64> {
    cell.as_deref()?.parse().ok()
}

fn pairs(fetched: &Fetched) -> BTreeMap<String, String> {
    let pair = |row: &Vec<Option<String>>| Some((row[0].clone()?, row[1].clone()?));
    fetched.rows.iter().filter_map(pair).collect()
}

/// The number of a snapshot that has been taken.
#[must_use]
pub fn taken(answer: &Fetched) -> Option<i64> {
    number(answer.rows.first()?.first()?)
}

/// The snapshots that are kept.
#[must_use]
pub fn snapshots(answer: &Fetched) -> Vec<SnapshotRow> {
    let row = |row: &Vec<Option<String>>| {
        let text = |at: usize| row[at].clone().unwrap_or_default();
        let number = |at: usize| number(&row[at]).unwrap_or(0);
        SnapshotRow {
            snap_id: number(0),
            instance: number(1),
            name: text(2),
            version: text(3),
            time: text(4),
            time_us: number(5),
            startup: text(6),
            startup_us: number(7),
            sessions: number(8),
        }
    };
    answer.rows.iter().map(row).collect()
}

/// What [`input`] is made of.
#[must_use]
pub fn input_statements((begin, end): (i64, i64)) -> Vec<String> {
    let rows =
        |table: &str| format!("select * from pg_awr.{table} where snap_id in ({begin}, {end})");
    let texts = format!(
        "select sql_id, sql_text from pg_awr.wrh$_sqltext where sql_id in \
         (select sql_id from pg_awr.wrh$_sqlstat where snap_id = {end})"
    );
    TABLES.iter().map(|(table, _)| rows(table)).chain([texts]).collect()
}

/// All that is kept of two snapshots.
#[must_use]
pub fn input(database: &str, snapshots: Vec<SnapshotRow>, answers: Vec<Fetched>) -> Input {
    let mut input = Input { database: database.to_owned(), snapshots, ..Input::default() };
    let mut answers = answers.into_iter();
    for ((table, _), rows) in TABLES.iter().zip(answers.by_ref()) {
        input.tables.insert((*table).to_owned(), rows);
    }
    input.texts = answers.next().map_or_else(BTreeMap::new, |texts| pairs(&texts));
    input
}

/// What [`beside`] is made of.
#[must_use]
pub fn beside_statements((begin, end): (i64, i64)) -> Vec<String> {
    let between = format!(
        "sample_time > \
         (select min(end_interval_time) from pg_awr.wrm$_snapshot where snap_id = {begin}) \
         and sample_time <= \
         (select max(end_interval_time) from pg_awr.wrm$_snapshot where snap_id = {end})"
    );
    let blockers = format!(
        "select event, blocking_inst_id, blocking_session, count(*) \
         from gv$active_session_history where event in ('enq: TX - row lock contention', \
         'enq: TM - contention') and blocking_session is not null and \
         {between} group by 1, 2, 3 order by 4 desc limit 10"
    );
    // Texts that differ in constants only are one statement.
    let waiters = format!(
        "select a.event, a.sql_id, o.owner || '.' || o.object_name, a.samples from \
         (select g.*, row_number() over (partition by event order by samples desc, sql_id, obj) \
         as place from (select event, mode() within group (order by sql_id) as sql_id, \
         current_obj# as obj, count(*) as samples from gv$active_session_history \
         where session_state = 'WAITING' and session_type <> 'BACKGROUND' and \
         wait_class <> 'Idle' and {between} group by event, current_obj#, \
         case when force_matching_signature = 0 then sql_id \
         else force_matching_signature::text end) g) a \
         left join dba_objects o on o.object_id = a.obj and o.subobject_name is null \
         where a.place <= 10 order by 4 desc, 1, 2, 3"
    );
    // Of several tables that a plan reads whole, the costly one.
    let full_reads = format!(
        "select q.sql_id, max(case when q.place = 1 then q.whole end) from \
         (select p.sql_id, p.whole, row_number() over (partition by p.sql_id \
         order by case when p.whole is null then 1 else 0 end, p.cost desc nulls last, p.whole) \
         as place from (select sql_id, plan_hash_value, cost, case \
         when operation = 'TABLE ACCESS' and options = 'FULL' then object_name \
         when operation in ('INDEX', 'BITMAP INDEX') and options like '%FULL SCAN%' \
         and options not like '%MIN/MAX%' then object_name end as whole \
         from pg_awr.wrh$_sql_plan) p where exists (select 1 from pg_awr.wrh$_sqlstat s \
         where s.snap_id = {end} and s.sql_id = p.sql_id \
         and s.plan_hash_value = p.plan_hash_value)) q group by q.sql_id"
    );
    vec![SEQUENCES.to_owned(), blockers, full_reads, waiters]
}

/// What the tables of snapshots do not hold: sequences as they are now, who held row locks, what
/// plans read whole.
#[must_use]
pub fn beside(answers: &[Fetched]) -> Beside {
    let rows = |at: usize| answers.get(at).map_or(&[][..], |answer| &answer.rows);
    let sequence = |row: &Vec<Option<String>>| {
        Some(Sequence {
            name: row[0].clone()?,
            cache: number(&row[1])?,
            ordered: row[2].as_deref() == Some("Y"),
        })
    };
    let blocker = |row: &Vec<Option<String>>| {
        Some(Blocker {
            event: row[0].clone()?,
            instance: number(&row[1])?,
            session: number(&row[2])?,
            samples: number(&row[3])?,
        })
    };
    let waiter = |row: &Vec<Option<String>>| {
        Some(Waiter {
            event: row[0].clone()?,
            sql_id: row[1].clone(),
            object: row[2].clone(),
            samples: number(&row[3])?,
        })
    };
    Beside {
        sequences: rows(0).iter().filter_map(sequence).collect(),
        blockers: rows(1).iter().filter_map(blocker).collect(),
        full_reads: rows(2)
            .iter()
            .filter_map(|row| Some((row[0].clone()?, row[1].clone())))
            .collect(),
        waiters: rows(3).iter().filter_map(waiter).collect(),
    }
}

/// What [`samples`] is made of: what sessions did in the last minutes, on all instances or on one.
#[must_use]
pub fn samples_statements(minutes: u32, instance: Option<u16>) -> Vec<String> {
    // Before an instance was started nobody looked.
    let range = format!(
        "select to_char(b, 'YYYY-MM-DD HH24:MI:SS'), to_char(now(), 'YYYY-MM-DD HH24:MI:SS'), \
         extract(epoch from now() - b)::bigint from (select greatest(now() - interval '{minutes} \
         minutes', (select min(startup_time) from gv$instance{})) as b) x",
        instance.map_or(String::new(), |k| format!(" where inst_id = {k}"))
    );
    // Where views of the field are read `||` takes NULL for an empty text: whom nobody blocks is
    // asked for before.
    let only = instance.map_or(String::new(), |k| format!(" and inst_id = {k}"));
    let rows = format!(
        "with a as (select inst_id, session_type, case session_state when 'ON CPU' then '' \
         else event end as event, case session_state when 'ON CPU' then '' else wait_class end \
         as wait_class, sql_id, session_id as session, program, case when \
         blocking_session is not null then blocking_inst_id || '.' || blocking_session end \
         as blocker, current_obj#, \
         to_char(sample_time, 'YYYY-MM-DD HH24:MI') as minute, count(*) as samples \
         from gv$active_session_history \
         where sample_time > now() - interval '{minutes} minutes'{only} \
         group by 1, 2, 3, 4, 5, 6, 7, 8, 9, 10) \
         select a.*, c.relname as object from a left join pg_class c on c.oid = a.current_obj#"
    );
    let of = |column: &str| instance.map_or(String::new(), |k| format!(" and {column} = {k}"));
    let open = format!(
        "select inst_id, to_char(startup_time, 'YYYY-MM-DD HH24:MI:SS'), \
         case when startup_time > now() - interval '{minutes} minutes' then 1 end \
         from gv$instance where true{} order by 1",
        of("inst_id")
    );
    // One that does not answer is known of snapshots.
    let known = format!(
        "{IF_ALLOWED}select distinct instance_number from pg_awr.wrm$_snapshot \
         where end_interval_time > now() - interval '1 day'{} order by 1",
        of("instance_number")
    );
    vec![range, rows, TEXTS.to_owned(), open, known]
}

/// Samples to report on; `None`: this server keeps none.
#[must_use]
pub fn samples(database: &str, answers: Vec<Fetched>) -> Option<Samples> {
    let [range, rows, texts, open, known]: [Fetched; 5] = answers.try_into().ok()?;
    if rows.columns.is_empty() {
        return None;
    }
    let cell = |at: usize| range.rows.first().and_then(|row| row[at].clone()).unwrap_or_default();
    let moments = cell(2).parse().unwrap_or(1);
    let (database, texts) = (database.to_owned(), pairs(&texts));
    let started = |row: &Vec<Option<String>>| match &row[..] {
        [Some(no), Some(since), Some(_)] => {
            Some(Absent { instance: no.clone(), since: Some(since.clone()) })
        }
        _ => None,
    };
    let is_open = |no: &String| open.rows.iter().any(|row| row[0].as_ref() == Some(no));
    let silent = known.rows.iter().filter_map(|row| row[0].clone()).filter(|no| !is_open(no));
    let silent = silent.map(|instance| Absent { instance, since: None });
    let mut absent: Vec<Absent> = open.rows.iter().filter_map(started).chain(silent).collect();
    absent.sort_by(|a, b| a.instance.cmp(&b.instance));
    Some(Samples { database, from: cell(0), to: cell(1), moments, rows, texts, absent })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(rows: &[&[&str]]) -> Fetched {
        let cell = |cell: &&str| (!cell.is_empty()).then(|| (*cell).to_owned());
        let row = |row: &&[&str]| row.iter().map(cell).collect();
        Fetched { columns: vec!["a".to_owned()], rows: rows.iter().map(row).collect() }
    }

    #[test]
    fn snapshots_are_read_with_their_times() {
        let cells = ["3", "1", "skein1", "0.1.0", "a", "5", "b", "4", "7"];
        let read = snapshots(&answer(&[&cells]));
        let one = &read[0];
        assert_eq!((one.snap_id, one.instance, one.time_us, one.sessions), (3, 1, 5, 7));
        assert!(snapshots(&Fetched::default()).is_empty(), "none is kept");
        assert_eq!((taken(&answer(&[&["4"]])), taken(&Fetched::default())), (Some(4), None));
    }

    #[test]
    fn every_table_of_two_snapshots_is_asked_for() {
        let asked = input_statements((4, 9));
        assert_eq!(asked.len(), TABLES.len() + 1);
        assert!(asked.iter().all(|text| text.contains('9')), "{asked:?}");
        let mut answers = vec![Fetched::default(); TABLES.len()];
        answers[0] = answer(&[&["1"]]);
        answers.push(answer(&[&["x", "select 1"], &["y", ""]]));
        let input = input("db", Vec::new(), answers);
        assert_eq!(input.tables[TABLES[0].0].rows.len(), 1);
        assert_eq!((input.texts.len(), input.texts["x"].as_str()), (1, "select 1"));
    }

    #[test]
    fn a_server_without_samples_has_no_report_of_them() {
        assert!(samples("db", vec![Fetched::default(); 5]).is_none());
        let asked = samples_statements(5, Some(2));
        assert!(asked[1].contains("'5 minutes' and inst_id = 2"), "{}", asked[1]);
        assert!(asked[1].contains("case when blocking_session is not null then"), "{}", asked[1]);
        let open = answer(&[&["1", "t1", ""], &["2", "t2", "1"]]);
        let known = answer(&[&["1"], &["3"]]);
        assert!(is_missing(&asked[4], "42501") && !is_missing(&asked[3], "42501"));
        let answers = vec![answer(&[&["f", "t", "300"]]), answer(&[]), Fetched::default()];
        let answers = answers.into_iter().chain([open, known]).collect();
        let told = samples("db", answers).unwrap();
        assert_eq!((told.from.as_str(), told.moments), ("f", 300));
        let absent = |no: &str, since: Option<&str>| Absent {
            instance: no.to_owned(),
            since: since.map(str::to_owned),
        };
        assert_eq!(told.absent, [absent("2", Some("t2")), absent("3", None)]);
    }

    #[test]
    fn who_held_row_locks_is_beside_the_snapshots() {
        let asked = beside_statements((3, 4)).join(";");
        assert!(asked.contains("where event in ('enq: TX - row lock contention', "), "{asked}");
        let sequences = answer(&[&["public.s", "20", "Y"], &["", "1", "N"]]);
        let plans = answer(&[&["a", "T"], &["b", ""]]);
        let waits = answer(&[&["enq: TM - contention", "a", "", "9"], &["", "b", "T", "3"]]);
        let told = beside(&[
            sequences,
            answer(&[&["enq: TM - contention", "2", "200001", "8"]]),
            plans,
            waits,
        ]);
        let waiter = Waiter {
            event: "enq: TM - contention".to_owned(),
            sql_id: Some("a".to_owned()),
            object: None,
            samples: 9,
        };
        assert_eq!(told.waiters, [waiter]);
        let full = [("a".to_owned(), Some("T".to_owned())), ("b".to_owned(), None)];
        assert_eq!(told.full_reads, full.into());
        let event = "enq: TM - contention".to_owned();
        let blocker = Blocker { event, instance: 2, session: 200_001, samples: 8 };
        assert_eq!(told.blockers, [blocker]);
        let sequence = Sequence { name: "public.s".to_owned(), cache: 20, ordered: true };
        assert_eq!(told.sequences, [sequence]);
        assert_eq!(beside_statements((1, 2)).len(), 4);
    }
}
