//! Runs files of SQLite's sqllogictest: statements, and queries whose values are known from several
//! database systems.
//!
//! The files have no licence and are not part of this project. They are looked for in the folder
//! that `SKEIN_SQLLOGICTEST` names, else in `~/.cache/skein/sqllogictest`; `CONTRIBUTING.md` says
//! how to put them there. Without them the tests say so and do nothing.
//!
//! What it promises: every record of a file is run and compared. Records that a file keeps for
//! other database systems (`onlyif`, `skipif`) are left out as the file says, taking us for
//! PostgreSQL.
//! The whole corpus takes an hour; what runs with all other tests is the first file of each part.
//! `RECORDS=index/in` runs all files with that in their path, `RECORDS=` all there are.

use crate::hop::Sessions;
use crate::runner::{Database, Order};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The parts of the corpus that are run.
const PARTS: [&str; 9] = [
    "select1.test",
    "select2.test",
    "select3.test",
    "select4.test",
    "select5.test",
    "index/between",
    "index/commute",
    "index/delete",
    "index/in",
];
/// What the files call a database system of our dialect.
const DIALECT: &str = "postgresql";
/// Differences shown of one file.
const SHOWN: usize = 3;

/// What a record expects.
enum Expected {
    Success,
    Error,
    /// Values, one a line or in rows; the types and the order in which they are compared.
    Values {
        types: String,
        sort: String,
        lines: Vec<String>,
    },
}

struct Record {
    line_no: usize,
    sql: String,
    expected: Expected,
}

/// The folder with the corpus, if there is one.
fn folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let cache = || set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    let dir = set("SKEIN_SQLLOGICTEST").or_else(|| Some(cache()?.join("skein/sqllogictest")))?;
    dir.is_dir().then_some(dir)
}

fn collect(path: &Path, out: &mut Vec<PathBuf>) {
    if path.is_file() {
        out.push(path.to_owned());
        return;
    }
    let Ok(entries) = std::fs::read_dir(path) else { return };
    let mut paths: Vec<PathBuf> = entries.map(|e| e.expect("a folder entry").path()).collect();
    paths.sort();
    paths
        .iter()
        .filter(|p| p.is_dir() || p.extension().is_some_and(|e| e == "test"))
        .for_each(|path| collect(path, out));
}

/// The files to run: the first of each part, or, with `RECORDS`, all whose path has that in it.
fn files(root: &Path) -> Vec<PathBuf> {
    let wanted = std::env::var("RECORDS").ok();
    let mut all = Vec::new();
    for part in PARTS {
        let mut of_part = Vec::new();
        collect(&root.join(part), &mut of_part);
        match &wanted {
            Some(wanted) => of_part.retain(|path| path.to_string_lossy().contains(wanted)),
            None => of_part.truncate(1),
        }
        all.append(&mut of_part);
    }
    all
}

fn parse(text: &str) -> Vec<Record> {
    let mut records = Vec::new();
    let mut lines = text.lines().enumerate().peekable();
    let mut left_out = false;
    while let Some((i, line)) = lines.next() {
        let words: Vec<&str> =
            line.split('#').next().unwrap_or_default().split_ascii_whitespace().collect();
        let expected = match words[..] {
            [] | ["hash-threshold", ..] => continue,
            ["halt"] if !std::mem::take(&mut left_out) => break,
            ["halt"] => continue,
            ["onlyif", name] => {
                left_out |= name != DIALECT;
                continue;
            }
            ["skipif", name] => {
                left_out |= name == DIALECT;
                continue;
            }
            ["statement", "ok"] => Expected::Success,
            ["statement", "error"] => Expected::Error,
            ["query", types, ref rest @ ..] => Expected::Values {
                types: types.to_owned(),
                sort: rest.first().copied().unwrap_or("nosort").to_owned(),
                lines: Vec::new(),
            },
            _ => panic!("line {}: \"{line}\" is not known", i + 1),
        };
        let mut record = Record { line_no: i + 1, sql: String::new(), expected };
        let mut answer = false;
        while let Some((_, line)) = lines.next_if(|(_, line)| !line.trim().is_empty()) {
            match &mut record.expected {
                Expected::Values { lines, .. } if answer => lines.push(line.to_owned()),
                _ if line == "----" => answer = true,
                _ => _ = writeln!(record.sql, "{line}"),
            }
        }
        if !std::mem::take(&mut left_out) {
            records.push(record);
        }
    }
    records
}

/// A value as the files write it: by the type that the query announces, not by the column's.
fn shown(value: &str, ty: char) -> String {
    if value == "NULL" {
        return value.to_owned();
    }
    match ty {
        'I' => value.split('.').next().unwrap_or_default().to_owned(),
        'R' => value.parse::<f64>().map_or_else(|_| value.to_owned(), |v| format!("{v:.3}")),
        _ if value.is_empty() => "(empty)".to_owned(),
        _ => value.chars().map(|c| if (' '..='~').contains(&c) { c } else { '@' }).collect(),
    }
}

/// What a query's answer looks like in a file: values or their hash, as the file has it.
fn values(answer: &str, types: &str, sort: &str, expected: &[String]) -> Vec<String> {
    let mut rows: Vec<Vec<String>> = answer
        .lines()
        .take(answer.lines().count().saturating_sub(1)) // the tag
        .map(|row| row.split('|').zip(types.chars()).map(|(v, ty)| shown(v, ty)).collect())
        .collect();
    if sort == "rowsort" {
        rows.sort();
    }
    let mut values: Vec<String> = rows.into_iter().flatten().collect();
    if sort == "valuesort" {
        values.sort();
    }
    if expected.len() == 1 && expected[0].contains(" values hashing to ") {
        let mut md5 = md5::Context::new();
        for value in &values {
            md5.consume(value);
            md5.consume("\n");
        }
        return vec![format!("{} values hashing to {:x}", values.len(), md5.finalize())];
    }
    values
}

/// Runs one file; how many records it has, and what differs.
fn run_file(path: &Path, instances: u8) -> (usize, Vec<String>) {
    let text = std::fs::read_to_string(path).expect("a file of the corpus");
    let records = parse(&text);
    let database = Database::create(instances);
    let mut sessions = Sessions::new(&database);
    let mut differences = Vec::new();
    for record in &records {
        sessions.order("main", Order { text: record.sql.clone(), params: None });
        let answer = sessions.answer("main");
        let wrong = match (&record.expected, &answer) {
            (Expected::Success, Ok(_)) | (Expected::Error, Err(_)) => None,
            (Expected::Values { types, sort, lines }, Ok(text)) => {
                let got = values(text, types, sort, lines);
                // Some files have the values of a row in one line.
                let same = got == *lines || got.join(" ") == lines.join(" ");
                (!same).then(|| format!("expected {lines:?}, got {got:?}"))
            }
            (_, Err(e)) => Some(format!("{} {}", e.code, e.message)),
            (Expected::Error, Ok(_)) => Some("no error".to_owned()),
        };
        if let Some(wrong) = wrong {
            let at = format!("{}:{}", path.display(), record.line_no);
            differences.push(format!("{at}: {}{wrong}", record.sql));
        }
    }
    (records.len(), differences)
}

/// Runs the files, several at once; what differs.
fn run_all(instances: u8) {
    let Some(root) = folder() else {
        println!("skipped: no sqllogictest files (see CONTRIBUTING.md)");
        return;
    };
    let files = files(&root);
    assert!(!files.is_empty(), "{} holds none of {PARTS:?}", root.display());
    let (next, total) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let failed: Mutex<Vec<String>> = Mutex::default();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (records, differences) = run_file(path, instances);
                    total.fetch_add(records, Ordering::Relaxed);
                    let name = path.strip_prefix(&root).unwrap_or(path).display();
                    println!("{name}: {records} records, {} differ", differences.len());
                    failed.lock().expect("no panic").extend(differences.into_iter().take(SHOWN));
                }
            });
        }
    });
    println!("{} records on {instances} instance(s)", total.into_inner());
    let failed = failed.into_inner().expect("no panic");
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn sqllogictest() {
    run_all(1);
}

/// Every statement on another instance than the one before: the answers are the same.
#[test]
fn sqllogictest_that_hops_between_instances() {
    run_all(3);
}

/// The reader and the comparison themselves, on a corpus of our own.
#[test]
fn a_file_of_records_is_run_and_wrong_answers_are_found() {
    let dir = std::env::temp_dir().join(format!("skein-records-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a folder");
    let path = dir.join("own.test");
    let text = "hash-threshold 8\n\nstatement ok\ncreate table t (a int, b text, c float)\n\n\
                statement ok\ninsert into t values (1, '', 2.5), (2, null, 1)\n\n\
                statement error\ninsert into t values (1, 2, 3, 4)\n\n\
                query ITR rowsort label\nselect a, b, c from t\n----\n1\n(empty)\n2.500\n2\nNULL\n\
                1.000\n\n\
                query I valuesort\nselect a + 9 - a * 8 from t\n----\n2 values hashing to \
                5f446d612006514eb949d3596cb82f85\n\n\
                onlyif mysql\nquery I nosort\nselect nothing\n----\n1\n\n\
                skipif postgresql\nstatement ok\nselect nothing\n\n\
                query I nosort\nselect 3\n----\n4\n\nstatement ok\nselect nothing\n\n\
                halt\n\nstatement ok\nselect nothing\n";
    std::fs::write(&path, text).expect("a file");
    let (records, differences) = run_file(&path, 1);
    std::fs::remove_dir_all(&dir).expect("the folder goes");
    assert_eq!(records, 7, "those of other systems and behind halt are left out");
    assert_eq!(differences.len(), 2, "{differences:?}");
    assert!(differences[0].contains("expected [\"4\"], got [\"3\"]"), "{differences:?}");
    assert!(differences[1].contains("42703"), "{differences:?}");
}
