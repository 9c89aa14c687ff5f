//! Views of the system's in plans: what a plan has of them, and what each execution reads.
//!
//! What it promises: a plan over views is kept as any other, and each execution sees the rows of
//! its own beginning, with the rights of its own session. What it must never do: let a plan go on
//! to read a view whose name means a table by now.

use super::{Rows, held_relation};
use crate::Result;
use crate::plan::Plan;
use crate::session::Session;
use query::{FixedTable, Relation, ViewName, ViewRows};
use std::sync::Arc;

impl Session {
    /// A view as a relation: each execution reads its rows, if the plan is made for more than one.
    pub(super) fn view_relation(
        &self,
        schema: Option<&str>,
        name: &str,
        rows: &Rows,
        may_be_hidden: bool,
    ) -> Result<Relation> {
        if self.plans_once {
            return held_relation(name, rows);
        }
        let view = ViewName {
            schema: schema.map(Arc::from),
            name: Arc::from(name),
            inside: self.view_depth > 0,
            may_be_hidden,
        };
        Ok(Relation::Rows(Arc::new(FixedTable::of_view(view, &rows.batch()?))))
    }

    /// Reads the views of a plan for an execution; what the statement around had read, which is to
    /// be put back when that ends.
    pub(crate) async fn read_views(&mut self, plan: &Plan) -> Result<Arc<ViewRows>> {
        let mut all = ViewRows::with_capacity(plan.views.len());
        for view in &plan.views {
            let depth = std::mem::replace(&mut self.view_depth, u32::from(view.inside));
            let rows = env::boxed!(self.system_rows(view.schema.as_deref(), &view.name)).await;
            self.view_depth = depth;
            // Somebody has made a table of its name a moment ago.
            let (rows, _) = rows?.ok_or(kernel::Error::ObjectGone)?;
            all.push((view.clone(), rows.batch()?));
        }
        Ok(std::mem::replace(&mut self.views, Arc::new(all)))
    }

    /// Whether the name of one of a plan's views means a table by now.
    pub(crate) async fn is_hidden(&mut self, plan: &Plan) -> Result<bool> {
        for view in plan.views.iter().filter(|view| view.may_be_hidden) {
            let depth = std::mem::replace(&mut self.view_depth, u32::from(view.inside));
            let found = env::boxed!(self.find_table(None, &view.name)).await;
            self.view_depth = depth;
            if found?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
