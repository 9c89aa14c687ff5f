//! Statements: their texts, what their executions have cost, and how their plans were found.

use super::registry::{Column, Make, columns, views};
use super::session::{user_number, word_hash};
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
    sorts: Int8, "Steps that sorted.";
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

/// What is known of its rows in `v$sql`, and what scripts ask for beside that.
const VERSIONS: &[Column] = columns! {
    loaded_versions: Int8, "Of its rows in `v$sql` those that have a plan.";
    open_versions: Int8, "Of these rows those that sessions are executing now.";
    users_opening: Int8, "The same as `users_executing`: who has prepared it and does nothing with \
        it is not counted.";
    kept_versions: Int8, "Always 0: none can be told to stay.";
    optimizer_mode: Text, "`ALL_ROWS`: its plan is the cheapest for all of its rows, or as many as \
        it says itself; NULL: it has none.";
    optimizer_cost: Int8, "What its plan is thought to cost; NULL: that is not known.";
    parsing_schema_id: Int8, "The number of `parsing_schema_name`, as `pg_namespace.oid` has it.";
    module_hash: Int8, "A number made from `module`; 0: there is none.";
    action_hash: Int8, "A number made from `action`; 0: there is none.";
    literal_hash_value: Int8, "Always 0: values taken out of a text are any.";
    object_status: Text, "`VALID`: a plan that is out of date is made anew when it is wanted.";
    is_obsolete: Text, "`N`: however many rows of a statement there are.";
    is_shareable: Text, "`Y`: sessions of the same kind share it.";
    is_bind_sensitive: Text, "`N`: one plan serves all values of its parameters.";
    is_bind_aware: Text, "`N`, for the same reason.";
    remote: Text, "`N`: there are no links to other databases.";
    sql_profile: Text, "Always NULL: there are none.";
    program_id: Int8, "The function or procedure whose code it was parsed first in, as \
        `pg_proc.oid` has it; 0: it was in none.";
};

/// By what it is like others.
const SIGNATURES: &[Column] = columns! {
    exact_matching_signature: Int8, "A number made from the text: the same for texts that differ in \
        blanks, comments that are no hints, and small or capital letters of words.";
    force_matching_signature: Int8, "The same for texts that differ in these, and in constants or \
        parameters in their place.";
};

views! {
    "v$sql", Make::Local(sql), "Statements that were parsed here, one row for each kind of session \
        that shares one: the same user, schema path and types of parameters. They are kept beyond \
        their plans; the least active go first." {
        sql_id: Text, "Name of the statement, made from its text; the same in traces and on all \
            instances.";
        child_number: Int4, "Tells the rows of one statement apart.";
    } + CURSOR {} + COSTS {} + LOADED {} + VERSIONS {} + SIGNATURES {}
    "v$sqlarea", Make::Local(sqlarea), "The same, one row for a text." {
        sql_id: Text, "Name of the statement.";
        version_count: Int8, "Rows that `v$sql` has of it.";
    } + CURSOR {} + COSTS {} + LOADED {} + VERSIONS {} + SIGNATURES {}
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
        sharable_mem: Int8, "Bytes of its text and its counters in the shared pool, of all of its \
            rows in `v$sql`; plans are not in them.";
    } + SIGNATURES {}
    "v$sqlcommand", Make::Local(sqlcommand), "Commands that have a number of the field's." {
        command_type: Int4, "The number, as in `v$sql`.";
        command_name: Text, "Its name.";
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
        reloads: Int8, "Plans made again that had been held, and were aged out or invalidated.";
        invalidations: Int8, "Held plans found out of date: a definition had changed, or \
            statistics.";
        dlm_lock_requests: Int8, "Always 0: no right is asked of other instances for a plan. Those \
            to the definitions that it is made of are in `v$rowcache`.";
        dlm_pin_requests: Int8, "Always 0, for the same reason.";
        dlm_pin_releases: Int8, "Always 0, for the same reason.";
        dlm_invalidation_requests: Int8, "Always 0: a plan is found out of date when it is used.";
        dlm_invalidations: Int8, "Always 0, for the same reason.";
    }
}

/// Characters of `sql_text`.
const TEXT_CHARS: usize = 1_000;
/// Characters of a piece of `v$sqltext`.
const PIECE_CHARS: usize = 64;

pub(super) fn cursors(instance: &Instance) -> Vec<CursorRow> {
    let env = instance.observer.env();
    instance.observer.statements.rows(env.now(), env.wall_us())
}

/// How many sessions run each statement, by its children.
struct Executing(BTreeMap<(SqlId, u32), u64>);

impl Executing {
    fn now(instance: &Instance) -> Executing {
        let mut out: BTreeMap<(SqlId, u32), u64> = BTreeMap::new();
        for state in instance.observer.session_states() {
            let running = state.running();
            // One that is only being parsed has no child yet.
            let inner = running.sql.zip(running.child);
            let top = running.top.zip(running.top_child).filter(|_| running.top != running.sql);
            for child in inner.into_iter().chain(top) {
                *out.entry(child).or_default() += 1;
            }
        }
        Executing(out)
    }

    /// Sessions, and children that they run; `None`: of all children.
    fn of(&self, id: SqlId, child: Option<u32>) -> (u64, u64) {
        let (first, last) = child.map_or((0, u32::MAX), |child| (child, child));
        let found = self.0.range((id, first)..=(id, last));
        found.fold((0, 0), |(users, children), (_, more)| (users + more, children + 1))
    }
}

/// Rows that are shown as one: the first of them, the times of all, and their sums.
struct Group {
    first: CursorRow,
    figures: Figures,
    versions: u64,
    /// Those of them that have a plan.
    loaded: u64,
}

/// The name of a statement where the field shows an address.
pub(super) fn sql_address(id: SqlId) -> Value {
    text(format!("{:016X}", id.number()))
}

/// One if the row has a plan.
fn loaded(row: &CursorRow) -> u64 {
    u64::from(!row.plan.is_empty())
}

impl Group {
    fn of(row: CursorRow) -> Group {
        Group { figures: row.figures, loaded: loaded(&row), first: row, versions: 1 }
    }

    fn add(&mut self, row: CursorRow) {
        self.figures.add(&row.figures);
        self.versions += 1;
        self.loaded += loaded(&row);
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

pub(super) fn opt(word: &str) -> Value {
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
fn costs(f: &Figures) -> [Value; 14] {
    let [application, concurrency, cluster, user_io] = f.waited_us;
    [
        int(f.fetches),
        int(f.ends_of_fetch),
        int(f.rows),
        int(f.gets),
        int(f.reads),
        int(f.sorts),
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

/// The columns of [`VERSIONS`]. `loaded`: rows that have a plan; `at_work`: as
/// [`Executing::of`] has it.
fn versions(row: &CursorRow, loaded: u64, at_work: (u64, u64)) -> [Value; 18] {
    let cost = row.plan.first().and_then(|statement| statement.cost);
    [
        int(loaded),
        int(at_work.1),
        int(at_work.0),
        int(0),
        opt_text((loaded > 0).then_some("ALL_ROWS")),
        estimate(cost),
        // The asker fills it in.
        Value::Null,
        word_hash(&row.parsed_by.module),
        word_hash(&row.parsed_by.action),
        int(0),
        text("VALID"),
        text("N"),
        text("Y"),
        text("N"),
        text("N"),
        text("N"),
        Value::Null,
        int(row.parsed_by.code.unwrap_or(0)),
    ]
}

/// The columns of [`SIGNATURES`].
fn signatures(row: &CursorRow) -> [Value; 2] {
    [row.signatures.exact, row.signatures.force].map(int)
}

fn sqlcommand(_: &Arc<Instance>, rows: &mut Rows) {
    for (number, name) in observe::COMMANDS {
        rows.push(vec![int4(*number), text(*name)]);
    }
}

fn sql(instance: &Arc<Instance>, rows: &mut Rows) {
    let running = Executing::now(instance);
    for row in cursors(instance) {
        let at_work = running.of(row.id, Some(row.child));
        let mut values = vec![text(row.id.to_string()), int4(row.child)];
        values.extend(texts(&row));
        values.extend(origin(&row));
        values.extend(figures(&row.figures, Some(at_work.0)));
        let times = [row.first_load_wall_us, row.last_load_wall_us, row.last_active_wall_us];
        values.extend(times.map(wall));
        values.extend(versions(&row, loaded(&row), at_work));
        values.extend(signatures(&row));
        rows.push(values);
    }
}

fn sqlarea(instance: &Arc<Instance>, rows: &mut Rows) {
    let running = Executing::now(instance);
    for group in grouped(cursors(instance), |row| row.id) {
        let row = &group.first;
        let mut values = vec![text(row.id.to_string()), int(group.versions)];
        values.extend(texts(row));
        values.extend(origin(row));
        let at_work = running.of(row.id, None);
        values.extend(figures(&group.figures, Some(at_work.0)));
        let times = [row.first_load_wall_us, row.last_load_wall_us, row.last_active_wall_us];
        values.extend(times.map(wall));
        values.extend(versions(row, group.loaded, at_work));
        values.extend(signatures(row));
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
        values.extend([wall(row.last_active_wall_us), int(row.bytes)]);
        values.extend(signatures(row));
        rows.push(values);
    }
}

/// A whole number; NULL: nothing is known.
#[allow(clippy::cast_possible_truncation)] // estimates; it saturates
pub(super) fn estimate(value: Option<f64>) -> Value {
    value.map_or(Value::Null, |value| Value::Int8(value.round() as i64))
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
        int(0),
        int(0),
        int(0),
        int(0),
        int(0),
    ]);
}
