//! What the dictionary says in words: its own views, comments; and the short lists of one's
//! own tables that scripts of the field ask for.
//!
//! What it promises: names are shown as in the other views of objects. What it must never do: list
//! a view that cannot be read.

use super::fixed::shown;
use super::registry::{Make, SessionView, views};
use super::{all, shown_name};
use crate::Result;
use crate::catalog::Catalog;
use crate::catalog::rows::Shape::Text;
use crate::catalog::rows::{Rows, opt_text, text};
use crate::session::Session;
use crate::workload::SCHEMA;
use kernel::dict::TableDef;

views! {
    "dictionary", Make::Session(SessionView::Dictionary), "The views of this list." {
        table_name: Text, "Name of the view.";
        comments: Text, "What its rows are.";
    }
    "dict", Make::Session(SessionView::Dictionary), "The same as `dictionary`." {
        table_name: Text, "Name of the view.";
        comments: Text, "What its rows are.";
    }
    "dba_tab_comments", Make::Session(SessionView::TabComments), "Tables and views, with what has \
        been said of them by COMMENT." {
        owner: Text, "Its schema.";
        table_name: Text, "Its name.";
        table_type: Text, "`TABLE`, `VIEW` or `MATERIALIZED VIEW`.";
        comments: Text, "The comment; NULL: there is none.";
    }
    "dba_col_comments", Make::Session(SessionView::ColComments), "The same of their columns." {
        owner: Text, "Schema of the table.";
        table_name: Text, "The table.";
        column_name: Text, "Name of the column.";
        comments: Text, "The comment; NULL: there is none.";
    }
    "tab", Make::Session(SessionView::Tab), "Tables and views of the current schema." {
        tname: Text, "Its name.";
        tabtype: Text, "`TABLE`, `VIEW` or `MATERIALIZED VIEW`.";
    }
    "cat", Make::Session(SessionView::Cat), "Tables, views and sequences of the current schema." {
        table_name: Text, "Its name.";
        table_type: Text, "`TABLE`, `VIEW`, `MATERIALIZED VIEW` or `SEQUENCE`.";
    }
}

/// What the field calls a table or view.
pub(super) fn kind(table: &TableDef) -> &'static str {
    match (&table.view, &table.materialized) {
        (Some(_), _) => "VIEW",
        (None, Some(_)) => "MATERIALIZED VIEW",
        (None, None) => "TABLE",
    }
}

fn dictionary(catalog: &Catalog, rows: &mut Rows) {
    for view in all() {
        rows.push(vec![shown("", view.name), text(view.doc)]);
        if view.is_local() {
            rows.push(vec![shown("g", view.name), text(format!("On all instances: {}", view.doc))]);
        }
        if let (Some(rest), Some(_)) = (view.name.strip_prefix("dba_"), view.owner()) {
            let own = format!("Of the current schema: {}", view.doc);
            rows.push(vec![shown("user_", rest), text(own)]);
            rows.push(vec![shown("all_", rest), text(view.doc)]);
        }
    }
    // They are there from the first snapshot on.
    for view in catalog.relations().filter(|def| def.schema == SCHEMA && def.view.is_some()) {
        let doc = view.comment.as_deref().unwrap_or("Kept by the workload repository.");
        rows.push(vec![shown_name(&view.name), text(doc)]);
    }
}

fn tab_comments(catalog: &Catalog, rows: &mut Rows) {
    for table in catalog.relations() {
        rows.push(vec![
            shown_name(&table.schema),
            shown_name(&table.name),
            text(kind(table)),
            opt_text(table.comment.as_deref()),
        ]);
    }
}

fn col_comments(catalog: &Catalog, rows: &mut Rows) {
    for table in catalog.relations() {
        for column in &table.columns {
            rows.push(vec![
                shown_name(&table.schema),
                shown_name(&table.name),
                shown_name(&column.name),
                opt_text(column.comment.as_deref()),
            ]);
        }
    }
}

impl Session {
    /// The rows of one of these views.
    pub(super) async fn words_view(&mut self, which: SessionView, rows: &mut Rows) -> Result<()> {
        let catalog = self.shown_catalog().await?;
        match which {
            SessionView::Dictionary => dictionary(&catalog, rows),
            SessionView::TabComments => tab_comments(&catalog, rows),
            SessionView::ColComments => col_comments(&catalog, rows),
            _ => {
                let mut path = self.schemas_for(None).await?.into_iter();
                let schema = path.find(|schema| !crate::ddl::is_temporary(schema));
                let own = |of: &str| schema.as_deref() == Some(of);
                for table in catalog.relations().filter(|table| own(&table.schema)) {
                    rows.push(vec![shown_name(&table.name), text(kind(table))]);
                }
                let sequences = catalog.sequences.iter().filter(|def| own(&def.schema));
                if which == SessionView::Cat {
                    sequences.for_each(|def| {
                        rows.push(vec![shown_name(&def.name), text("SEQUENCE")]);
                    });
                }
            }
        }
        Ok(())
    }
}
