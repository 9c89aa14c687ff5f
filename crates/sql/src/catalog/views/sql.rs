//! Statements: their texts, what their executions have cost, and how their plans were found.

use super::registry::{Column, Make, columns, views};
use super::session::user_number;
use super::{average, int4, wall};
use crate::catalog::rows::Shape::{Float8, Int4, Int8, Text, Timestamptz};
use crate::catalog::rows::{Rows, int, opt_text, text};
use block::BLOCK_BYTES;
use kernel::instance::Instance;
use kernel::row::Value;
use observe::{CursorRow, Figures, SqlId, Stat};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What `v$sql` and `v$sqlarea` tell of a statement before what it has cost.
const CURSOR: &[Column] = columns! {
    sql_text: Text, "The first 1000 characters.";
    sql_fulltext: Text, "The whole text.";
    address: Text, "The number behind `sql_id`, in hexadecimal.";
    hash_value: Int8, "The lower half of the number behind `sql_id`.";
    plan_hash_value: Int8, "Number of the plan; 0: it has none, or one for each execution.";
    sharable_mem: Int8, "Bytes of its text and its counters in the shared pool; its plan is not in \
        them.";
    command_type: Int4, "The field's number of the command; 0: it has none for it.";
    parsing_user_id: Int8, "Who parsed it first, as `dba_users.user_id` has it.";
    parsing_user: Text, "The name of the same.";
    parsing_schema_name: Text, "The current schema of that session: the first that there is of \
        those in which it looked for names; NULL: there is none of them.";
    service: Text, "The service that user had connected to.";
    module: Text, "The module that parsed it first.";
    action: Text, "What that module was doing.";
    parse_calls: Int8, "Times it was parsed, its plan found or not.";
    loads: Int8, "Times it was planned.";
    invalidations: Int8, "Times its plan was found out of date.";
    executions: Int8, "Executions, failed ones among them.";
    failed_executions: Int8, "Executions that failed.";
    users_executing: Int8, "Sessions that are executing it now.";
};

/// What a statement has cost.
const COSTS: &[Column] = columns! {
    fetches: Int8, "Calls that fetched rows.";
    end_of_fetch_count: Int8, "Executions whose rows were fetched to the end.";
    rows_processed: Int8, "Rows given or changed.";
    buffer_gets: Int8, "Blocks visited, by what it runs inside too.";
    disk_reads: Int8, "Blocks read from disk.";
    physical_read_bytes: Int8, "Bytes of these.";
    elapsed_time: Int8, "Microseconds of planning, executing and fetching, with what it runs \
        inside.";
    cpu_time: Int8, "Microseconds on a CPU by the scheduler's clock where the execution before \
        took a millisecond or more; of shorter ones the time that was not waited. Workers \
        beside the session are not in it.";
    application_wait_time: Int8, "Microseconds waited for locks.";
    concurrency_wait_time: Int8, "Microseconds waited for others inside the instance.";
    cluster_wait_time: Int8, "Microseconds waited for other instances.";
    user_io_wait_time: Int8, "Microseconds waited for disks.";
    avg_hard_parse_time: Int8, "Microseconds that planning it took on the average.";
};

/// When it came and was used.
const LOADED: &[Column] = columns! {
    first_load_time: Timestamptz, "When it was parsed first.";
    last_load_time: Timestamptz, "When it was planned last.";
    last_active_time: Timestamptz, "When its last execution ended.";
};

views! {
    "v$sql", Make::Local(sql), "Statements that were parsed here, one row for each kind of session \
        that shares one: the same user, schema path and types of parameters. They are kept beyond \
        their plans; the least active go first." {
        sql_id: Text, "Name of the statement, made from its text; the same in traces and on all \
            instances.";
        child_number: Int4, "Tells the rows of one statement apart.";
    } + CURSOR {} + COSTS {} + LOADED {}
    "v$sqlarea", Make::Local(sqlarea), "The same, one row for a text." {
        sql_id: Text, "Name of the statement.";
        version_count: Int8, "Rows that `v$sql` has of it.";
    } + CURSOR {} + COSTS {} + LOADED {}
    "v$sqlstats", Make::Local(sqlstats), "The same, one row for a text and a plan." {
        sql_id: Text, "Name of the statement.";
        plan_hash_value: Int8, "Number of the plan; 0: it has none, or one for each execution.";
        sql_text: Text, "The first 1000 characters.";
        sql_fulltext: Text, "The whole text.";
        version_count: Int8, "Rows that `v$sql` has of it.";
        parsing_user: Text, "Who parsed it first.";
        parse_calls: Int8, "Times it was parsed, its plan found or not.";
        loads: Int8, "Times it was planned.";
        invalidations: Int8, "Times its plan was found out of date.";
        executions: Int8, "Executions, failed ones among them.";
        failed_executions: Int8, "Executions that failed.";
    } + COSTS {
        last_active_time: Timestamptz, "When its last execution ended.";
    }
    "v$sql_plan", Make::Local(sql_plan), "Plans of the statements in `v$sql`, one row a step, with \
        what the planner expected; none of statements that are planned for each execution." {
        sql_id: Text, "Name of the statement.";
        child_number: Int4, "Which of its rows in `v$sql`.";
        address: Text, "The number behind `sql_id`, in hexadecimal.";
        hash_value: Int8, "The lower half of the number behind `sql_id`.";
        plan_hash_value: Int8, "Number of the plan.";
        id: Int4, "Number of the step, from 0, which is the statement itself.";
        parent_id: Int4, "The step whose input it is.";
        depth: Int4, "How deep in the tree it stands.";
        position: Int4, "Among the inputs of its parent, from 1.";
        operation: Text, "What is done, in the field's words: `TABLE ACCESS`, `INDEX` ..";
        options: Text, "How: `FULL`, `BY INDEX ROWID`, `RANGE SCAN` ..";
        object_owner: Text, "Always NULL: a plan names it without its schema.";
        object_name: Text, "The table or index.";
        other_tag: Text, "Always NULL: an operation says by itself whether several tasks do it.";
        partition_start: Text, "Always NULL: there are no partitions.";
        partition_stop: Text, "Always NULL, for the same reason.";
        cost: Int8, "What it costs with all below it, in units of reading a block after another.";
        cardinality: Int8, "Rows that it gives.";
        bytes: Int8, "Bytes of these.";
        access_predicates: Text, "What leads to its rows.";
        filter_predicates: Text, "What they must meet beside that.";
        parsing_user: Text, "Who parsed the statement first.";
    }
    "v$sqltext", Make::Local(sqltext), "Texts of statements, cut into pieces." {
        sql_id: Text, "Name of the statement.";
        address: Text, "The number behind `sql_id`, in hexadecimal.";
        hash_value: Int8, "The lower half of the number behind `sql_id`.";
        command_type: Int4, "The field's number of the command; 0: it has none for it.";
        parsing_user: Text, "Who parsed it first.";
        piece: Int4, "Number of the piece, from 0.";
        sql_text: Text, "64 characters of the text, or what is left.";
    }
    "v$librarycache", Make::Local(library_cache), "How plans of statements were found." {
        namespace: Text, "`SQL AREA`: plans of statements.";
        gets: Int8, "Plans looked for when a statement was parsed.";
        gethits: Int8, "Of these found, and not out of date.";
        gethitratio: Float8, "Their part.";
        pins: Int8, "Executions.";
        pinhits: Int8, "Executions whose plan was still good.";
        pinhitratio: Float8, "Their part.";
        reloads: Int8, "Plans made anew for a statement that had one before.";
        invalidations: Int8, "Plans found out of date: a definition had changed, or statistics.";
    }
}

/// Characters of `sql_text`.
const TEXT_CHARS: usize = 1_000;
/// Characters of a piece of `v$sqltext`.
const PIECE_CHARS: usize = 64;

fn cursors(instance: &Instance) -> Vec<CursorRow> {
    let env = instance.observer.env();
    instance.observer.statements.rows(env.now(), env.wall_us())
}

/// How many sessions run each statement.
fn executing(instance: &Instance) -> BTreeMap<SqlId, u64> {
    let mut out = BTreeMap::new();
    for state in instance.observer.session_states() {
        let running = state.running();
        let inner = running.sql.filter(|_| !running.parsing);
        for id in inner.into_iter().chain(running.top.filter(|top| Some(*top) != running.sql)) {
            *out.entry(id).or_default() += 1;
        }
    }
    out
}

/// Rows that are shown as one: the first of them, the times of all, and their sums.
struct Group {
    first: CursorRow,
    figures: Figures,
    versions: u64,
}

/// The name of a statement where the field shows an address.
pub(super) fn sql_address(id: SqlId) -> Value {
    text(format!("{:016X}", id.number()))
}

impl Group {
    fn of(row: CursorRow) -> Group {
        Group { figures: row.figures, first: row, versions: 1 }
    }

    fn add(&mut self, row: CursorRow) {
        self.figures.add(&row.figures);
        self.versions += 1;
        let first = &mut self.first;
        first.bytes += row.bytes;
        first.last_load_wall_us = first.last_load_wall_us.max(row.last_load_wall_us);
        if row.last_active_wall_us > first.last_active_wall_us {
            first.last_active_wall_us = row.last_active_wall_us;
            first.plan_hash = row.plan_hash;
        }
        if row.first_load_wall_us < first.first_load_wall_us {
            first.first_load_wall_us = row.first_load_wall_us;
            first.parsed_by = row.parsed_by;
        }
    }
}

fn grouped<K: Ord>(all: Vec<CursorRow>, key: impl Fn(&CursorRow) -> K) -> Vec<Group> {
    let mut groups: BTreeMap<K, Group> = BTreeMap::new();
    for row in all {
        match groups.entry(key(&row)) {
            std::collections::btree_map::Entry::Vacant(empty) => {
                empty.insert(Group::of(row));
            }
            std::collections::btree_map::Entry::Occupied(mut there) => there.get_mut().add(row),
        }
    }
    groups.into_values().collect()
}

pub(super) fn first_chars(all: &str, count: usize) -> &str {
    let end = all.char_indices().nth(count).map_or(all.len(), |(at, _)| at);
    &all[..end]
}

fn opt(word: &str) -> Value {
    opt_text(Some(word).filter(|word| !word.is_empty()))
}

/// From `sql_text` to `sharable_mem`.
fn texts(row: &CursorRow) -> [Value; 6] {
    [
        text(first_chars(&row.text, TEXT_CHARS)),
        text(&*row.text),
        sql_address(row.id),
        int(row.id.hash_value()),
        int(row.plan_hash),
        int(row.bytes),
    ]
}

/// From `command_type` to `action`.
fn origin(row: &CursorRow) -> [Value; 7] {
    let by = &row.parsed_by;
    let [user, schemas, service, module, action] =
        [&by.user, &by.schemas, &by.service, &by.module, &by.action].map(|word| opt(word));
    [int4(row.command), user_number(by.user_no), user, schemas, service, module, action]
}

/// From `fetches` to `avg_hard_parse_time`.
fn costs(f: &Figures) -> [Value; 13] {
    let [application, concurrency, cluster, user_io] = f.waited_us;
    [
        int(f.fetches),
        int(f.ends_of_fetch),
        int(f.rows),
        int(f.gets),
        int(f.reads),
        int(f.reads * BLOCK_BYTES as u64),
        int(f.elapsed_us),
        int(f.cpu_us),
        int(application),
        int(concurrency),
        int(cluster),
        int(user_io),
        average(f.hard_parse_us, f.loads),
    ]
}

/// From `parse_calls` to `avg_hard_parse_time`; `executing`: `None` leaves the column out.
fn figures(f: &Figures, executing: Option<u64>) -> Vec<Value> {
    let parsed = [f.parse_calls, f.loads, f.invalidations, f.executions, f.failures].map(int);
    let mut out = Vec::from(parsed);
    out.extend(executing.map(int));
    out.extend(costs(f));
    out
}

fn sql(instance: &Arc<Instance>, rows: &mut Rows) {
    let running = executing(instance);
    for row in cursors(instance) {
        let mut values = vec![text(row.id.to_string()), int4(row.child)];
        values.extend(texts(&row));
        values.extend(origin(&row));
        values.extend(figures(&row.figures, Some(running.get(&row.id).copied().unwrap_or(0))));
        let times = [row.first_load_wall_us, row.last_load_wall_us, row.last_active_wall_us];
        values.extend(times.map(wall));
        rows.push(values);
    }
}

fn sqlarea(instance: &Arc<Instance>, rows: &mut Rows) {
    let running = executing(instance);
    for group in grouped(cursors(instance), |row| row.id) {
        let row = &group.first;
        let mut values = vec![text(row.id.to_string()), int(group.versions)];
        values.extend(texts(row));
        values.extend(origin(row));
        values.extend(figures(&group.figures, Some(running.get(&row.id).copied().unwrap_or(0))));
        let times = [row.first_load_wall_us, row.last_load_wall_us, row.last_active_wall_us];
        values.extend(times.map(wall));
        rows.push(values);
    }
}

fn sqlstats(instance: &Arc<Instance>, rows: &mut Rows) {
    for group in grouped(cursors(instance), |row| (row.id, row.plan_hash)) {
        let row = &group.first;
        let mut values = vec![
            text(row.id.to_string()),
            int(row.plan_hash),
            text(first_chars(&row.text, TEXT_CHARS)),
            text(&*row.text),
            int(group.versions),
            opt(&row.parsed_by.user),
        ];
        values.extend(figures(&group.figures, None));
        values.push(wall(row.last_active_wall_us));
        rows.push(values);
    }
}

fn sql_plan(instance: &Arc<Instance>, rows: &mut Rows) {
    let number =
        |value: Option<f64>| value.map_or(Value::Null, |value| Value::Int8(rounded(value)));
    for row in cursors(instance) {
        for (id, step) in row.plan.iter().enumerate() {
            rows.push(vec![
                text(row.id.to_string()),
                int4(row.child),
                sql_address(row.id),
                int(row.id.hash_value()),
                int(row.plan_hash),
                int4(id),
                step.parent.map_or(Value::Null, int4),
                int4(step.depth),
                int4(step.position),
                text(step.operation.as_str()),
                opt_text(step.option.as_deref()),
                Value::Null,
                opt_text(step.object.as_deref()),
                Value::Null,
                Value::Null,
                Value::Null,
                number(step.cost),
                number(step.rows),
                number(step.bytes),
                opt_text(step.access.as_deref()),
                opt_text(step.filter.as_deref()),
                opt(&row.parsed_by.user),
            ]);
        }
    }
}

#[allow(clippy::cast_possible_truncation)] // estimates; it saturates
fn rounded(value: f64) -> i64 {
    value.round() as i64
}

fn sqltext(instance: &Arc<Instance>, rows: &mut Rows) {
    for group in grouped(cursors(instance), |row| row.id) {
        let row = &group.first;
        let mut left = &*row.text;
        let mut piece = 0;
        while !left.is_empty() {
            let part = first_chars(left, PIECE_CHARS);
            rows.push(vec![
                text(row.id.to_string()),
                sql_address(row.id),
                int(row.id.hash_value()),
                int4(row.command),
                opt(&row.parsed_by.user),
                int4(piece),
                text(part),
            ]);
            left = &left[part.len()..];
            piece += 1;
        }
    }
}

#[allow(clippy::cast_precision_loss)] // counts
fn ratio(part: u64, of: u64) -> Value {
    // Of nothing nothing was missed.
    Value::Float8(if of == 0 { 1.0 } else { part as f64 / of as f64 })
}

fn library_cache(instance: &Arc<Instance>, rows: &mut Rows) {
    let totals = instance.observer.statements.totals();
    let pins = instance.observer.stat(Stat::ExecuteCount);
    let pin_hits = pins.saturating_sub(totals.pin_misses);
    rows.push(vec![
        text("SQL AREA"),
        int(totals.gets),
        int(totals.get_hits),
        ratio(totals.get_hits, totals.gets),
        int(pins),
        int(pin_hits),
        ratio(pin_hits, pins),
        int(totals.reloads),
        int(totals.invalidations),
    ]);
}
