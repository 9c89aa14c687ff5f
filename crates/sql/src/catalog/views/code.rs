//! Stored code: what routines are written as; and lists of the field that are empty here, since
//! there is nothing to put into them.
//!
//! What it promises: the lines of a routine, behind `create or replace`, make the same routine
//! again. What it must never do: tell of code that does not run here.

use super::registry::{Make, SessionView, views};
use super::{int4, shown_name};
use crate::Result;
use crate::catalog::Catalog;
use crate::catalog::rows::Shape::{Int4, Text};
use crate::catalog::rows::{Rows, text};
use crate::session::Session;
use kernel::dict::RoutineDef;

views! {
    "dba_source", Make::Session(SessionView::Source), "What stored functions and procedures are \
        written as, line by line." {
        owner: Text, "Schema of the routine.";
        name: Text, "Its name; several may have the same, told apart by their arguments.";
        type: Text, "`FUNCTION` or `PROCEDURE`.";
        line: Int4, "Number of the line, from 1, as errors of the routine tell it.";
        text: Text, "The line, without its end. Code in the field's form is as it was typed, from \
            `procedure` or `function`; of other code the head is made from the dictionary and \
            stands in the first line, in front of the body.";
    }
    "dba_errors", Make::Session(SessionView::Nothing), "Errors of stored code: always without rows. \
        A routine that cannot be read is refused when it is made, and what else is wrong with it \
        is told to who runs it." {
        owner: Text, "Schema of the code.";
        name: Text, "Its name.";
        type: Text, "What it is.";
        sequence: Int4, "Orders the errors of one piece of code.";
        line: Int4, "Line of the error.";
        position: Int4, "Character of the line.";
        text: Text, "The error.";
        attribute: Text, "`ERROR` or `WARNING`.";
    }
    "dba_triggers", Make::Session(SessionView::Nothing), "Triggers: always without rows, there \
        are none here." {
        owner: Text, "Schema of the trigger.";
        trigger_name: Text, "Its name.";
        trigger_type: Text, "When it would run.";
        triggering_event: Text, "What would run it.";
        table_owner: Text, "Schema of the table.";
        base_object_type: Text, "`TABLE` or `VIEW`.";
        table_name: Text, "The table.";
        column_name: Text, "The column.";
        referencing_names: Text, "What it would call a row, old and new.";
        when_clause: Text, "On what condition it would run.";
        status: Text, "`ENABLED` or `DISABLED`.";
        description: Text, "Its head.";
        action_type: Text, "`PL/SQL` or `CALL`.";
        trigger_body: Text, "What it would do.";
    }
    "dba_synonyms", Make::Session(SessionView::Nothing), "Other names of objects: always without \
        rows, there are none here." {
        owner: Text, "Schema of the name.";
        synonym_name: Text, "The name.";
        table_owner: Text, "Schema of the object.";
        table_name: Text, "Its own name.";
        db_link: Text, "The database that it is in.";
    }
}

/// What the field calls a routine.
pub(super) fn kind(def: &RoutineDef) -> &'static str {
    if def.body.procedure { "PROCEDURE" } else { "FUNCTION" }
}

fn source(catalog: &Catalog, rows: &mut Rows) {
    for def in &catalog.routines.all {
        for (at, line) in catalog.routine_source(def).lines().enumerate() {
            rows.push(vec![
                shown_name(&def.schema),
                shown_name(&def.name),
                text(kind(def)),
                int4(at + 1),
                text(line),
            ]);
        }
    }
}

impl Session {
    /// The rows of `dba_source`.
    pub(super) async fn source(&mut self, rows: &mut Rows) -> Result<()> {
        source(&self.shown_catalog().await?, rows);
        Ok(())
    }
}
