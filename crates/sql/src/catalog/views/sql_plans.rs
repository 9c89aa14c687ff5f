//! Plans of statements: their steps as they are expected, and what they have done where that was
//! measured.

use super::registry::{Column, Make, columns, views};
use super::sql::{cursors, estimate, opt, sql_address};
use super::{int4, shown_name};
use crate::Result;
use crate::catalog::Catalog;
use crate::catalog::rows::Shape::{Int4, Int8, Text};
use crate::catalog::rows::{NamedRow, Rows, int, opt_text, text};
use crate::session::Session;
use block::ObjId;
use kernel::dict::IndexKind;
use kernel::instance::Instance;
use kernel::row::Value;
use observe::{CursorRow, PlanRow, StepFigures};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a step is, and what the planner expected of it.
const PLAN: &[Column] = columns! {
    address: Text, "The number behind `sql_id`, in hexadecimal.";
    hash_value: Int8, "The lower half of the number behind `sql_id`.";
    plan_hash_value: Int8, "Number of the plan.";
    id: Int4, "Number of the step, from 0, which is the statement itself.";
    parent_id: Int4, "The step whose input it is.";
    depth: Int4, "How deep in the tree it stands.";
    position: Int4, "Among the inputs of its parent, from 1.";
    operation: Text, "What is done, in the field's words: `TABLE ACCESS`, `INDEX` ..";
    options: Text, "How: `FULL`, `BY INDEX ROWID`, `RANGE SCAN` ..";
    "object#": Int8, "Number of the table or index; NULL: it has been dropped, or several \
        indexes have the name.";
    object_owner: Text, "Schema of that; NULL for the same reasons.";
    object_name: Text, "The table or index.";
    object_type: Text, "`TABLE`, `INDEX`, `INDEX (UNIQUE)` or `INDEX (BITMAP)`.";
    other_tag: Text, "Always NULL: an operation says by itself whether several tasks do it.";
    partition_start: Text, "Always NULL: there are no partitions.";
    partition_stop: Text, "Always NULL, for the same reason.";
    cost: Int8, "What it costs with all below it, in units of reading a block after another.";
    cardinality: Int8, "Rows that it gives.";
    bytes: Int8, "Bytes of these.";
    time: Int8, "Always NULL: what a step costs is not told in seconds.";
    access_predicates: Text, "What leads to its rows.";
    filter_predicates: Text, "What they must meet beside that.";
    projection: Text, "Names of the columns that it yields; NULL: that is not known.";
    parsing_user: Text, "Who parsed the statement first.";
};

/// What a step has done.
const DONE: &[Column] = columns! {
    executions: Int8, "Executions by this plan that were measured; NULL, as all that follow: none.";
    last_starts: Int8, "Times that the last of them began the step: for each row of the other side, \
        inside a nested loop; for each key of a list, in an index.";
    starts: Int8, "The same in all of them.";
    last_output_rows: Int8, "Rows that it gave then, of UPDATE and its like those changed; reading a \
        bitmap index it is pieces, bringing sets together one each time.";
    output_rows: Int8, "The same in all of them.";
    last_cr_buffer_gets: Int8, "Blocks visited as of a snapshot, with all below it, as all that \
        follow.";
    cr_buffer_gets: Int8, "The same in all of them.";
    last_cu_buffer_gets: Int8, "Blocks visited in their newest version.";
    cu_buffer_gets: Int8, "The same in all of them.";
    last_disk_reads: Int8, "Blocks read from disk.";
    disk_reads: Int8, "The same in all of them.";
    last_disk_writes: Int8, "Always NULL: what goes to temporary files is not told by steps.";
    disk_writes: Int8, "Always NULL, for the same reason.";
    last_elapsed_time: Int8, "Microseconds.";
    elapsed_time: Int8, "The same in all of them.";
};

views! {
    "v$sql_plan", Make::Local(sql_plan), "Plans of the statements in `v$sql`, one row a step, with \
        what the planner expected; none of statements that are planned for each execution." {
        sql_id: Text, "Name of the statement.";
        child_number: Int4, "Which of its rows in `v$sql`.";
    } + PLAN {}
    "v$sql_plan_statistics", Make::Local(sql_plan_statistics), "What the steps of plans have done in \
        executions that were measured: by the hint `gather_plan_statistics`, or with \
        `statistics_level = all`. Without the statement itself." {
        sql_id: Text, "Name of the statement.";
        child_number: Int4, "Which of its rows in `v$sql`.";
        address: Text, "The number behind `sql_id`, in hexadecimal.";
        hash_value: Int8, "The lower half of the number behind `sql_id`.";
        plan_hash_value: Int8, "Number of the plan.";
        operation_id: Int4, "Number of the step, `id` in `v$sql_plan`.";
    } + DONE {}
    "v$sql_plan_statistics_all", Make::Local(sql_plan_statistics_all), "Both beside each other: all \
        steps of `v$sql_plan`, with what they have done where that was measured." {
        sql_id: Text, "Name of the statement.";
        child_number: Int4, "Which of its rows in `v$sql`.";
    } + PLAN {} + DONE {}
}

/// A step's statement: the columns before those of [`PLAN`] that come of the step.
fn statement(row: &CursorRow) -> Vec<Value> {
    vec![
        text(row.id.to_string()),
        int4(row.child),
        sql_address(row.id),
        int(row.id.hash_value()),
        int(row.plan_hash),
    ]
}

/// The columns of [`PLAN`], with the statement's before them. The names are the asker's to fill
/// in, who can read the dictionary.
fn planned(row: &CursorRow, id: usize, step: &PlanRow) -> Vec<Value> {
    let mut values = statement(row);
    values.extend([
        int4(id),
        step.parent.map_or(Value::Null, int4),
        int4(step.depth),
        int4(step.position),
        text(step.operation.as_str()),
        opt_text(step.option.as_deref()),
        if step.obj > 0 { int(step.obj) } else { Value::Null },
        Value::Null,
        opt_text(step.object.as_deref()),
        Value::Null,
        Value::Null,
        Value::Null,
        Value::Null,
        estimate(step.cost),
        estimate(step.rows),
        estimate(step.bytes),
        Value::Null,
        opt_text(step.access.as_deref()),
        opt_text(step.filter.as_deref()),
        opt_text(step.projection.as_deref()),
        opt(&row.parsed_by.user),
    ]);
    values
}

/// What a step did in the last execution, and in all; NULL: that was not measured.
type Figures = [Option<StepFigures>; 2];

fn each(figures: Figures, which: fn(StepFigures) -> u64) -> [Value; 2] {
    figures.map(|step| step.map_or(Value::Null, |step| int(which(step))))
}

/// The columns of [`DONE`].
fn done(row: &CursorRow, id: usize) -> [Value; 15] {
    let figures = row.plan_figures.as_deref();
    let both: Figures = match figures {
        Some(all) => [&all.last, &all.all].map(|steps| steps.get(id).copied().flatten()),
        None => [None, None],
    };
    let [last_starts, starts] = each(both, |step| step.starts);
    let [last_rows, rows] = each(both, |step| step.rows);
    let [last_consistent, consistent] = each(both, |step| step.consistent_gets);
    let [last_current, current] = each(both, |step| step.current_gets);
    let [last_reads, reads] = each(both, |step| step.reads);
    let [last_us, us] = each(both, |step| step.elapsed_us);
    [
        figures.map_or(Value::Null, |all| int(all.executions)),
        last_starts,
        starts,
        last_rows,
        rows,
        last_consistent,
        consistent,
        last_current,
        current,
        last_reads,
        reads,
        Value::Null,
        Value::Null,
        last_us,
        us,
    ]
}

fn sql_plan(instance: &Arc<Instance>, rows: &mut Rows) {
    for row in cursors(instance) {
        for (id, step) in row.plan.iter().enumerate() {
            rows.push(planned(&row, id, step));
        }
    }
}

fn sql_plan_statistics(instance: &Arc<Instance>, rows: &mut Rows) {
    for row in cursors(instance).iter().filter(|row| row.plan_figures.is_some()) {
        // The field has the statement itself in the other view only.
        for id in 1..row.plan.len() {
            let mut values = statement(row);
            values.push(int4(id));
            values.extend(done(row, id));
            rows.push(values);
        }
    }
}

fn sql_plan_statistics_all(instance: &Arc<Instance>, rows: &mut Rows) {
    for row in cursors(instance) {
        for (id, step) in row.plan.iter().enumerate() {
            let mut values = planned(&row, id, step);
            values.extend(done(&row, id));
            rows.push(values);
        }
    }
}

/// What plans name: number, schema and the field's word for the type.
struct Named {
    obj: i64,
    schema: String,
    kind: &'static str,
}

/// Tables and indexes as plans name them.
struct PlanObjects {
    by_number: BTreeMap<i64, Named>,
    /// Numbers of indexes by name; 0: of several.
    indexes: BTreeMap<String, i64>,
}

impl PlanObjects {
    fn of(catalog: &Catalog) -> PlanObjects {
        let mut all = PlanObjects { by_number: BTreeMap::new(), indexes: BTreeMap::new() };
        for table in &catalog.tables {
            all.add(table.obj, &table.schema, "TABLE");
            for index in table.all_indexes() {
                all.add(
                    index.obj,
                    &table.schema,
                    match (index.unique, index.kind) {
                        (true, _) => "INDEX (UNIQUE)",
                        (false, IndexKind::Bitmap) => "INDEX (BITMAP)",
                        (false, IndexKind::Tree | IndexKind::Reverse) => "INDEX",
                    },
                );
                let number = i64::from(index.obj.0);
                let known = all.indexes.entry(index.name.to_uppercase());
                known.and_modify(|known| *known = 0).or_insert(number);
            }
        }
        all
    }

    fn add(&mut self, obj: ObjId, schema: &str, kind: &'static str) {
        let obj = i64::from(obj.0);
        self.by_number.insert(obj, Named { obj, schema: schema.to_owned(), kind });
    }

    /// What a row names: by its number, which tables have; an index may have its name only.
    fn find(&self, row: NamedRow<'_>) -> Option<&Named> {
        if let Value::Int8(obj) = row.get("object#") {
            return self.by_number.get(&obj);
        }
        let is_index = row.text("operation").contains("INDEX");
        let obj = self.indexes.get(row.text("object_name")).filter(|_| is_index)?;
        self.by_number.get(obj)
    }
}

impl Session {
    /// Fills in the numbers, schemas and types of the objects of `v$sql_plan`.
    pub(in crate::catalog) async fn name_plan_objects(&mut self, rows: &mut Rows) -> Result<()> {
        let objects = PlanObjects::of(&self.catalog().await?);
        rows.fill("object_owner", |row| {
            objects.find(row).map_or(Value::Null, |of| shown_name(&of.schema))
        });
        rows.fill("object_type", |row| objects.find(row).map_or(Value::Null, |of| text(of.kind)));
        // Last, for the others are found by it.
        rows.fill("object#", |row| objects.find(row).map_or(Value::Null, |of| int(of.obj)));
        Ok(())
    }
}
