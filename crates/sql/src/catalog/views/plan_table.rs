//! Plans that the session has had explained, as the field's table of them shows them.
//!
//! What it promises: the steps are those that `dbms_xplan.display` prints. What it must never do:
//! show what another session has explained.

use super::registry::{Make, SessionView, views};
use super::sql::estimate;
use super::{int4, wall};
use crate::Result;
use crate::catalog::rows::Shape::{Int4, Int8, Text, Timestamptz};
use crate::catalog::rows::{Rows, int, opt_text, text};
use crate::session::Session;
use kernel::row::Value;
use observe::PlanRow;

views! {
    "plan_table", Make::Session(SessionView::PlanTable), "What EXPLAIN PLAN has explained in this \
        session, the last 50 plans, one row a step. It is a view: a plan goes when one of the same \
        `statement_id` is explained, and with the session." {
        statement_id: Text, "As EXPLAIN PLAN has set it; NULL: it has not.";
        plan_id: Int8, "Tells the plans apart, from 1, in the order in which they were explained.";
        timestamp: Timestamptz, "When it was explained.";
        remarks: Text, "Always NULL: nobody can set it.";
        operation: Text, "What the step does, as in `v$sql_plan`.";
        options: Text, "How, as in `v$sql_plan`.";
        object_node: Text, "Always NULL: all is done here.";
        object_owner: Text, "Schema of the table or index; NULL: it has been dropped, or several \
            indexes have the name.";
        object_name: Text, "The table or index.";
        object_type: Text, "`TABLE`, `INDEX`, `INDEX (UNIQUE)` or `INDEX (BITMAP)`.";
        "object#": Int8, "Number of that, as in `v$sql_plan` (a column of our own).";
        id: Int4, "Number of the step, from 0, which is the statement itself.";
        parent_id: Int4, "The step whose input it is.";
        depth: Int4, "How deep in the tree it stands.";
        position: Int4, "Among the inputs of its parent, from 1.";
        cost: Int8, "What it costs with all below it, in units of reading a block after another.";
        cardinality: Int8, "Rows that it gives.";
        bytes: Int8, "Bytes of these.";
        other_tag: Text, "Always NULL, as in `v$sql_plan`.";
        partition_start: Text, "Always NULL: there are no partitions.";
        partition_stop: Text, "Always NULL, for the same reason.";
        time: Int8, "Always NULL: what a step costs is not told in seconds.";
        access_predicates: Text, "What leads to its rows.";
        filter_predicates: Text, "What they must meet beside that.";
        projection: Text, "Names of the columns that it yields; NULL: that is not known.";
    }
}

fn step(plan: usize, (id, at_us): (Option<&str>, i64), number: usize, of: &PlanRow) -> Vec<Value> {
    vec![
        opt_text(id),
        int(plan + 1),
        wall(at_us),
        Value::Null,
        text(of.operation.as_str()),
        opt_text(of.option.as_deref()),
        Value::Null,
        Value::Null,
        opt_text(of.object.as_deref()),
        Value::Null,
        if of.obj > 0 { int(of.obj) } else { Value::Null },
        int4(number),
        of.parent.map_or(Value::Null, int4),
        int4(of.depth),
        int4(of.position),
        estimate(of.cost),
        estimate(of.rows),
        estimate(of.bytes),
        Value::Null,
        Value::Null,
        Value::Null,
        Value::Null,
        opt_text(of.access.as_deref()),
        opt_text(of.filter.as_deref()),
        opt_text(of.projection.as_deref()),
    ]
}

impl Session {
    /// The rows of `plan_table`.
    pub(super) async fn plan_table(&mut self, rows: &mut Rows) -> Result<()> {
        for (plan, kept) in self.explained.iter().enumerate() {
            let (id, at_us, steps) = kept.shown();
            for (number, of) in steps.iter().enumerate() {
                rows.push(step(plan, (id, at_us), number, of));
            }
        }
        self.name_plan_objects(rows).await
    }
}
