//! From rows of two snapshots to what happened between them.
//!
//! What it promises: counters of one start of an instance only are subtracted; what a server does
//! not count is `None`, never zero.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The tables of a snapshot that reports read, and the columns which say what a row is about; all
/// others are counters, but for a few.
pub const TABLES: &[(&str, &[&str])] = &[
    ("wrh$_sysstat", &["name", "class", "unit"]),
    ("wrh$_sys_time_model", &["stat_name"]),
    ("wrh$_osstat", &["stat_name"]),
    ("wrh$_system_event", &["event", "wait_class"]),
    ("wrh$_event_histogram", &["event", "wait_time_micro"]),
    ("wrh$_gc_wait_split", &["instance", "class", "kind"]),
    ("wrh$_inst_cache_transfer", &["instance", "class"]),
    ("wrh$_cr_block_server", &[]),
    ("wrh$_current_block_server", &[]),
    ("wrh$_ges_statistics", &["name"]),
    ("wrh$_sqlstat", &["sql_id", "force_matching_signature"]),
    (SEGMENTS, &["owner", "object_name", "object_type", "obj", "statistic_name"]),
    ("wrh$_rowcache_summary", &["parameter"]),
    ("wrh$_sequences", &["sequence_owner", "sequence_name"]),
    ("wrh$_librarycache", &["namespace"]),
    ("wrh$_parameter", &["name", "display_value", "isdefault"]),
    ("wrh$_enqueue_stat", &["eq_type", "eq_name", "req_reason"]),
    ("wrh$_latch", &["name"]),
    ("wrh$_waitstat", &["class"]),
];

/// The one of segments, and what says there how one is called.
const SEGMENTS: &str = "wrh$_seg_stat";
const NAMES: [&str; 3] = ["owner", "object_name", "object_type"];

/// The few. What a statement has cost stands under the plan that it has at the
/// moment, and goes with it to the next: only the sum over its plans can be subtracted.
const ASIDE: [&str; 3] = ["snap_id", "instance_number", "plan_hash_value"];

/// Rows as they are fetched: the names of the columns, and the values as texts.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Fetched {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Option<String>>>,
}

impl Fetched {
    fn place(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|known| known == column)
    }

    pub(super) fn value<'a>(&self, row: &'a [Option<String>], column: &str) -> Option<&'a str> {
        row.get(self.place(column)?)?.as_deref()
    }

    pub(super) fn number(&self, row: &[Option<String>], column: &str) -> Option<i64> {
        self.value(row, column)?.parse().ok()
    }
}

/// An instance in a snapshot.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct SnapshotRow {
    pub snap_id: i64,
    pub instance: i64,
    pub name: String,
    pub version: String,
    /// As it is shown.
    pub time: String,
    /// µs since 1970.
    pub time_us: i64,
    pub startup: String,
    pub startup_us: i64,
    pub sessions: i64,
}

/// All that a report is made of.
#[derive(Clone, Default, Debug)]
pub struct Input {
    pub database: String,
    /// Every instance of every snapshot that is kept.
    pub snapshots: Vec<SnapshotRow>,
    /// By the name of the table: rows of the two snapshots.
    pub tables: BTreeMap<String, Fetched>,
    /// Texts of statements by their ids.
    pub texts: BTreeMap<String, String>,
}

/// Why there is no report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Problem {
    NoSnapshots,
    /// The end is not after the beginning.
    Order {
        begin: i64,
        end: i64,
    },
    Unknown {
        snap_id: i64,
        known: String,
    },
    NotThere {
        instance: i64,
        snap_id: i64,
        there: String,
    },
    Restarted {
        instance: i64,
        begin: i64,
        end: i64,
        at: String,
        /// Pairs of one start, in their order.
        instead: Vec<(i64, i64)>,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::NoSnapshots => f.write_str(
                "there are not two snapshots to compare; `skein snapshot DIR` takes one",
            ),
            Problem::Order { begin, end } => {
                write!(f, "the end, {end}, must be a later snapshot than the beginning, {begin}")
            }
            Problem::Unknown { snap_id, known } => {
                write!(f, "there is no snapshot {snap_id}; there are {known}")
            }
            Problem::NotThere { instance, snap_id, there } => write!(
                f,
                "instance {instance} is not in snapshot {snap_id}, only {there}: it was down or \
                 did not answer"
            ),
            Problem::Restarted { instance, begin, end, at, instead } => {
                write!(
                    f,
                    "instance {instance} was started anew at {at}, between snapshots {begin} and \
                     {end}: its counters began at zero then"
                )?;
                if instead.is_empty() {
                    return f.write_str("; no two snapshots in between are of one start");
                }
                let pairs = instead.iter().map(|(from, to)| format!("from {from} to {to}"));
                let pairs: Vec<String> = pairs.collect();
                write!(f, "; a report is possible {}", pairs.join(", or "))
            }
        }
    }
}

impl std::error::Error for Problem {}

/// What happened in one table between two snapshots.
#[derive(Clone, Default, PartialEq, Debug)]
pub(crate) struct Table {
    /// Names of the counters.
    columns: Vec<String>,
    pub(crate) rows: Vec<Row>,
}

/// One row: what it is about, how much was added, and what it is at the end.
#[derive(Clone, Default, PartialEq, Debug)]
pub(crate) struct Row {
    pub(crate) keys: Vec<String>,
    added: Vec<i64>,
    at_end: Vec<i64>,
}

impl Table {
    pub(crate) fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|known| known == name)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.column(name).is_some()
    }

    /// What was added to a counter; zero if there is no such counter.
    #[allow(clippy::cast_precision_loss)] // counts
    pub(crate) fn added(&self, row: &Row, name: &str) -> f64 {
        self.column(name).map_or(0.0, |at| row.added[at] as f64)
    }

    #[allow(clippy::cast_precision_loss)] // counts
    pub(crate) fn at_end(&self, row: &Row, name: &str) -> f64 {
        self.column(name).map_or(0.0, |at| row.at_end[at] as f64)
    }

    /// The sum of a counter over all rows.
    pub(crate) fn sum(&self, name: &str) -> f64 {
        self.rows.iter().map(|row| self.added(row, name)).sum()
    }

    /// The row about something.
    pub(crate) fn row(&self, key: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.keys.first().is_some_and(|first| first == key))
    }

    /// Rows with something in a counter, the largest first.
    pub(crate) fn top(&self, by: impl Fn(&Row) -> f64) -> Vec<&Row> {
        let mut all: Vec<(f64, &Row)> =
            self.rows.iter().map(|row| (by(row), row)).filter(|(value, _)| *value > 0.0).collect();
        all.sort_by(|(a, x), (b, y)| b.total_cmp(a).then_with(|| x.keys.cmp(&y.keys)));
        all.into_iter().map(|(_, row)| row).collect()
    }

    /// Adds the rows of another instance.
    fn add(&mut self, other: &Table) {
        for name in &other.columns {
            if !self.has(name) {
                self.columns.push(name.clone());
                for row in &mut self.rows {
                    row.added.push(0);
                    row.at_end.push(0);
                }
            }
        }
        for theirs in &other.rows {
            let at = match self.rows.iter().position(|own| own.keys == theirs.keys) {
                Some(at) => at,
                None => {
                    let zero = vec![0; self.columns.len()];
                    let (added, at_end) = (zero.clone(), zero);
                    self.rows.push(Row { keys: theirs.keys.clone(), added, at_end });
                    self.rows.len() - 1
                }
            };
            for (from, name) in other.columns.iter().enumerate() {
                let Some(to) = self.column(name) else { continue };
                let own = &mut self.rows[at];
                // What counts nothing, such as a hash value, may be too large for a sum.
                own.added[to] = own.added[to].saturating_add(theirs.added[from]);
                own.at_end[to] = own.at_end[to].saturating_add(theirs.at_end[from]);
            }
        }
    }

    /// Subtracts an instance's rows of two snapshots; `None`: there are none at the end.
    /// `only_grows`: nothing that is counted is let go while an instance is up; the time that a
    /// machine waits for I/O may fall a little all the same.
    fn between(
        fetched: &Fetched,
        keys: &[&str],
        only_grows: bool,
        instance: i64,
        begin: i64,
        end: i64,
    ) -> Option<Table> {
        let is_counter =
            |name: &&String| !keys.contains(&name.as_str()) && !ASIDE.contains(&name.as_str());
        let own = |row: &&Vec<Option<String>>| {
            fetched.number(row, "snap_id") == Some(end)
                && fetched.number(row, "instance_number") == Some(instance)
        };
        // A column that this server does not count is NULL everywhere.
        let counted = |name: &&String| {
            fetched.rows.iter().filter(own).any(|r| fetched.value(r, name).is_some())
        };
        let columns: Vec<String> =
            fetched.columns.iter().filter(is_counter).filter(counted).cloned().collect();
        let rows_of = |snap_id: i64| {
            let rows = fetched.rows.iter().filter(move |row| {
                fetched.number(row, "snap_id") == Some(snap_id)
                    && fetched.number(row, "instance_number") == Some(instance)
            });
            summed(rows.map(|row| {
                let key = keys.iter().map(|k| fetched.value(row, k).unwrap_or("").to_owned());
                let values = columns.iter().map(|name| fetched.number(row, name).unwrap_or(0));
                (key.collect::<Vec<String>>(), values.collect::<Vec<i64>>())
            }))
        };
        let before: BTreeMap<Vec<String>, Vec<i64>> = rows_of(begin).into_iter().collect();
        let subtract = |(keys, at_end): (Vec<String>, Vec<i64>)| {
            let zero = vec![0; columns.len()];
            let from = before.get(&keys).unwrap_or(&zero);
            // What was let go and came again counts from zero.
            let anew = !only_grows && at_end.iter().zip(from).any(|(now, then)| now < then);
            let from = if anew { &zero } else { from };
            let added = at_end.iter().zip(from).map(|(now, then)| (now - then).max(0)).collect();
            Row { keys, added, at_end }
        };
        let rows: Vec<Row> = rows_of(end).into_iter().map(subtract).collect();
        (!rows.is_empty()).then_some(Table { columns, rows })
    }
}

/// The rows of segments, each under the last name that a snapshot has of it: one that was dropped
/// before the end has none there, and one that was renamed has two.
fn under_last_names(fetched: &Fetched) -> Fetched {
    let mut out = fetched.clone();
    let ([Some(owner), Some(name), Some(kind)], Some(obj)) =
        (NAMES.map(|name| fetched.place(name)), fetched.place("obj"))
    else {
        return out;
    };
    let places = [owner, name, kind];
    let mut last: BTreeMap<&str, (i64, &[Option<String>])> = BTreeMap::new();
    for row in &fetched.rows {
        let of = fetched.value(row, "obj").zip(fetched.number(row, "snap_id"));
        let Some((obj, snap_id)) = of.filter(|_| fetched.value(row, "object_name").is_some())
        else {
            continue;
        };
        if last.get(obj).is_none_or(|(known, _)| *known < snap_id) {
            last.insert(obj, (snap_id, row.as_slice()));
        }
    }
    for row in &mut out.rows {
        let named = row.get(obj).and_then(Option::as_deref).and_then(|obj| last.get(obj));
        let Some((_, named)) = named else { continue };
        places.into_iter().for_each(|at| row[at].clone_from(&named[at]));
    }
    out
}

/// What a row is about, and its counters.
type Counted = (Vec<String>, Vec<i64>);

/// The sums of rows that are about the same, in the order of the first of them.
fn summed(rows: impl Iterator<Item = Counted>) -> Vec<Counted> {
    let mut sums: Vec<Counted> = Vec::new();
    let mut places: BTreeMap<Vec<String>, usize> = BTreeMap::new();
    for (key, values) in rows {
        match places.get(&key) {
            Some(at) => {
                sums[*at].1.iter_mut().zip(values).for_each(|(sum, more)| *sum += more);
            }
            None => {
                places.insert(key.clone(), sums.len());
                sums.push((key, values));
            }
        }
    }
    sums
}

/// What one instance, or all together, did between two snapshots.
#[derive(Clone, Default, Debug)]
pub(crate) struct Work {
    /// 0: all.
    pub(crate) instance: i64,
    pub(crate) name: String,
    pub(crate) begin: SnapshotRow,
    pub(crate) end: SnapshotRow,
    tables: BTreeMap<&'static str, Table>,
}

/// Names under which a server may count the CPU time of clients' sessions, in sysstat.
const CPU: [&str; 1] = ["CPU used by this session"];

impl Work {
    pub(crate) fn table(&self, name: &str) -> Option<&Table> {
        self.tables.get(name)
    }

    #[allow(clippy::cast_precision_loss)] // µs
    pub(crate) fn elapsed_s(&self) -> f64 {
        (self.end.time_us - self.begin.time_us).max(1) as f64 / 1e6
    }

    /// What was added to a statistic.
    pub(crate) fn stat(&self, name: &str) -> Option<f64> {
        let table = self.table("wrh$_sysstat")?;
        table.row(name).map(|row| table.added(row, "value"))
    }

    /// The sum of statistics of which there is at least one.
    pub(crate) fn stats(&self, names: &[&str]) -> Option<f64> {
        let known: Vec<f64> = names.iter().filter_map(|name| self.stat(name)).collect();
        (!known.is_empty()).then(|| known.iter().sum())
    }

    /// A statistic that is a time, in µs whatever unit it is counted in.
    pub(crate) fn stat_us(&self, name: &str) -> Option<f64> {
        let table = self.table("wrh$_sysstat")?;
        let row = table.row(name)?;
        if table.has("value_us") {
            return Some(table.added(row, "value_us"));
        }
        let factor = match row.keys.get(2).map(String::as_str) {
            Some("us" | "microseconds") => 1.0,
            Some("ms" | "milliseconds") => 1e3,
            // The field's.
            _ => 1e4,
        };
        Some(table.added(row, "value") * factor)
    }

    fn model_us(&self, name: &str) -> Option<f64> {
        let table = self.table("wrh$_sys_time_model")?;
        table.row(name).map(|row| table.added(row, "value"))
    }

    /// Processor time of clients' calls, µs.
    pub(crate) fn cpu_us(&self) -> Option<f64> {
        let own = || CPU.iter().find_map(|name| self.stat_us(name));
        self.model_us("DB CPU").or_else(own)
    }

    /// Processor time of the whole process, µs.
    pub(crate) fn process_cpu_us(&self) -> Option<f64> {
        Some(self.model_us("DB CPU")? + self.model_us("background cpu time")?)
    }

    /// Time of clients' calls, µs, if the server counts it.
    pub(crate) fn counted_db_time_us(&self) -> Option<f64> {
        self.model_us("DB time").or_else(|| self.stat_us("DB time"))
    }

    /// The same, or what is known of it: waits and processor time.
    pub(crate) fn db_time_us(&self) -> f64 {
        let known = || self.waits_us() + self.cpu_us().unwrap_or(0.0);
        self.counted_db_time_us().unwrap_or_else(known)
    }

    /// Waits of clients' sessions that were no idleness, µs.
    pub(crate) fn waits_us(&self) -> f64 {
        let Some(table) = self.table("wrh$_system_event") else { return 0.0 };
        let busy = table.rows.iter().filter(|row| !is_idle(row));
        busy.map(|row| table.added(row, "time_waited_micro_fg")).sum()
    }

    /// Clients' waits of a class, µs; `None`: not counted.
    pub(crate) fn class_us(&self, class: &str) -> Option<f64> {
        let table = self.table("wrh$_system_event")?;
        let rows = table.rows.iter().filter(|row| row.keys.get(1).is_some_and(|of| of == class));
        Some(rows.map(|row| table.added(row, "time_waited_micro_fg")).sum())
    }

    /// Time of planning, µs.
    pub(crate) fn hard_parse_us(&self) -> f64 {
        const NAME: &str = "hard parse elapsed time";
        self.model_us(NAME).or_else(|| self.stat_us(NAME)).unwrap_or(0.0)
    }

    /// Time in which sequences took values from the dictionary, µs.
    pub(crate) fn sequence_load_us(&self) -> f64 {
        const NAME: &str = "sequence load elapsed time";
        self.model_us(NAME).or_else(|| self.stat_us(NAME)).unwrap_or(0.0)
    }

    pub(crate) fn transactions(&self) -> f64 {
        self.stats(&["user commits", "user rollbacks"]).unwrap_or(0.0)
    }

    pub(crate) fn gets(&self) -> f64 {
        self.stats(&["consistent gets", "db block gets"]).unwrap_or(0.0)
    }
}

/// Whether a row of the events is idleness.
pub(crate) fn is_idle(row: &Row) -> bool {
    row.keys.get(1).is_some_and(|class| class == "Idle")
}

/// What happened between two snapshots.
#[derive(Clone, Debug)]
pub struct Interval {
    pub(crate) database: String,
    pub(crate) begin: i64,
    pub(crate) end: i64,
    pub(crate) works: Vec<Work>,
    /// Instances that are not in it, and why.
    pub(crate) left_out: Vec<(i64, String)>,
    pub(crate) texts: BTreeMap<String, String>,
}

/// Numbers as `1, 2, 5`, or as `1 to 40` if they are many.
fn listed(numbers: &BTreeSet<i64>) -> String {
    let many = numbers.len() > 12;
    match (many, numbers.first(), numbers.last()) {
        (true, Some(first), Some(last)) => format!("{} from {first} to {last}", numbers.len()),
        _ => numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}

/// The two newest snapshots that an instance, or any, is in, of one start.
///
/// # Errors
/// [`Problem::NoSnapshots`]; [`Problem::Restarted`] if the newest is the first of its start.
pub fn newest_pair(
    snapshots: &[SnapshotRow],
    instance: Option<i64>,
) -> Result<(i64, i64), Problem> {
    let of = |row: &&SnapshotRow| instance.is_none_or(|no| row.instance == no);
    let ids: BTreeSet<i64> = snapshots.iter().filter(of).map(|row| row.snap_id).collect();
    let end = *ids.last().ok_or(Problem::NoSnapshots)?;
    let now: Vec<&SnapshotRow> =
        snapshots.iter().filter(of).filter(|row| row.snap_id == end).collect();
    let same = |row: &&SnapshotRow| {
        row.snap_id < end
            && now.iter().any(|n| (n.instance, n.startup_us) == (row.instance, row.startup_us))
    };
    if let Some(begin) = snapshots.iter().filter(same).map(|row| row.snap_id).max() {
        return Ok((begin, end));
    }
    // The first one of all, of an instance that is in the newest.
    let older = snapshots.iter().filter(of).filter(|row| {
        row.snap_id < end && now.iter().any(|newest| newest.instance == row.instance)
    });
    let first = older.min_by_key(|row| row.snap_id).ok_or(Problem::NoSnapshots)?;
    both(snapshots, first.instance, first.snap_id, end)?;
    Ok((first.snap_id, end))
}

/// Checks that two snapshots are there and in order.
///
/// # Errors
/// What is wrong with them.
pub fn check_pair(snapshots: &[SnapshotRow], begin: i64, end: i64) -> Result<(), Problem> {
    if begin >= end {
        return Err(Problem::Order { begin, end });
    }
    let known: BTreeSet<i64> = snapshots.iter().map(|row| row.snap_id).collect();
    if known.is_empty() {
        return Err(Problem::NoSnapshots);
    }
    match [begin, end].into_iter().find(|snap_id| !known.contains(snap_id)) {
        Some(snap_id) => Err(Problem::Unknown { snap_id, known: listed(&known) }),
        None => Ok(()),
    }
}

impl Interval {
    /// Subtracts. With `instance`, it must be in both snapshots and not have been restarted;
    /// without, those of which that is not true are left out and named.
    ///
    /// # Errors
    /// Why there is nothing to report.
    pub fn new(
        input: &Input,
        begin: i64,
        end: i64,
        instance: Option<i64>,
    ) -> Result<Interval, Problem> {
        check_pair(&input.snapshots, begin, end)?;
        let (mut works, mut left_out) = (Vec::new(), Vec::new());
        let mut first = None;
        let wanted: BTreeSet<i64> = match instance {
            Some(instance) => BTreeSet::from([instance]),
            None => {
                let either = |row: &&SnapshotRow| row.snap_id == begin || row.snap_id == end;
                input.snapshots.iter().filter(either).map(|row| row.instance).collect()
            }
        };
        for no in wanted {
            match both(&input.snapshots, no, begin, end) {
                Ok((from, to)) => works.push(work(input, from, to)),
                Err(problem) => {
                    left_out.push((no, problem.to_string()));
                    first.get_or_insert(problem);
                }
            }
        }
        if works.is_empty() {
            return Err(first.unwrap_or(Problem::NoSnapshots));
        }
        let (database, texts) = (input.database.clone(), input.texts.clone());
        Ok(Interval { database, begin, end, works, left_out, texts })
    }

    /// What all instances did together.
    pub(crate) fn together(&self) -> Work {
        let mut all = self.works[0].clone();
        for other in &self.works[1..] {
            for (name, table) in &other.tables {
                all.tables.entry(name).or_default().add(table);
            }
            all.begin.sessions += other.begin.sessions;
            all.end.sessions += other.end.sessions;
        }
        (all.instance, all.name) = (0, "all".to_owned());
        all
    }
}

/// An instance's rows in two snapshots, of one start.
fn both(
    snapshots: &[SnapshotRow],
    instance: i64,
    begin: i64,
    end: i64,
) -> Result<(&SnapshotRow, &SnapshotRow), Problem> {
    let find = |snap_id: i64| {
        let found = snapshots.iter().find(|r| r.snap_id == snap_id && r.instance == instance);
        found.ok_or_else(|| {
            let there = snapshots.iter().filter(|r| r.snap_id == snap_id).map(|r| r.instance);
            Problem::NotThere { instance, snap_id, there: listed(&there.collect()) }
        })
    };
    let (from, to) = (find(begin)?, find(end)?);
    if from.startup_us == to.startup_us {
        return Ok((from, to));
    }
    let inside = |r: &&SnapshotRow| r.instance == instance && (begin..=end).contains(&r.snap_id);
    let mut starts: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for row in snapshots.iter().filter(inside) {
        starts.entry(row.startup_us).or_default().push(row.snap_id);
    }
    let pairs = starts.values().filter_map(|ids| {
        let (first, last) = (*ids.iter().min()?, *ids.iter().max()?);
        (first < last).then_some((first, last))
    });
    let mut instead: Vec<(i64, i64)> = pairs.collect();
    instead.sort_unstable();
    Err(Problem::Restarted { instance, begin, end, at: to.startup.clone(), instead })
}

fn work(input: &Input, from: &SnapshotRow, to: &SnapshotRow) -> Work {
    let tables = TABLES.iter().filter_map(|(name, keys)| {
        let fetched = input.tables.get(*name)?;
        let (begin, end) = (from.snap_id, to.snap_id);
        let only_grows = *name == "wrh$_osstat";
        let named = (*name == SEGMENTS).then(|| under_last_names(fetched));
        let fetched = named.as_ref().unwrap_or(fetched);
        let table = Table::between(fetched, keys, only_grows, to.instance, begin, end)?;
        Some((*name, table))
    });
    Work {
        instance: to.instance,
        name: to.name.clone(),
        begin: from.clone(),
        end: to.clone(),
        tables: tables.collect(),
    }
}
