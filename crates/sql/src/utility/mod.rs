//! Commands, one module for each family of statements; here is which of them runs what.
//!
//! What it promises: a command answers with PostgreSQL's tag, or is refused by name. What it must
//! never do: plan a query; what reads or changes rows goes through the planner.

mod explain;
mod explain_text;
mod lock;
mod maintain;
mod own;
mod prepare;
mod settings;
mod system;
mod transaction;

pub(crate) use explain::{ExplainOptions, direct_text};
pub(crate) use maintain::gather;
pub(crate) use own::parameter_columns;
pub(crate) use system::receive_parameter;

use crate::bind::{ident_name, object_parts};
use crate::encode::{RowSink, ValueRef};
use crate::session::{Fetched, Portal, Session};
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{self, Statement as Ast};
use kernel::row::Datum;
use prepare::unknown_statement;
use query::PgColumn;

fn refuse<T>(what: impl std::fmt::Display) -> Result<T> {
    Err(PgError::unsupported(what))
}

fn done(tag: &str) -> Result<Fetched> {
    Ok(Fetched::Complete(tag.to_owned()))
}

fn setting_name(name: &ast::ObjectName) -> Result<String> {
    Ok(object_parts(name)?.join(".").to_lowercase())
}

impl Session {
    /// The result columns of a command.
    pub(crate) fn command_columns(&self, ast: &Ast) -> Result<Vec<PgColumn>> {
        Ok(match ast {
            Ast::ShowVariable { variable } => settings::show_columns(variable),
            Ast::Execute { name: Some(name), .. } => {
                let name = setting_name(name)?;
                let prepared = self.named.get(&name).ok_or_else(|| unknown_statement(&name))?;
                prepared.columns.clone()
            }
            _ => Vec::new(),
        })
    }

    pub(crate) async fn run_utility(
        &mut self,
        ast: &Ast,
        portal: &mut Portal,
        sink: &mut dyn RowSink,
    ) -> Result<Fetched> {
        match ast {
            Ast::Savepoint { name } => self.savepoint(ident_name(name)),
            Ast::ReleaseSavepoint { name } => self.release(&ident_name(name)),
            Ast::Set(set) => self.run_set(set),
            Ast::Reset(reset) => self.run_reset(&reset.reset),
            Ast::ShowVariable { variable } => self.run_show(variable, portal, sink),
            Ast::Discard { object_type } => self.run_discard(object_type).await,
            Ast::Prepare { name, data_types, statement } => {
                self.run_prepare(ident_name(name), data_types, statement).await
            }
            Ast::Execute { name: Some(name), parameters, .. } => {
                let name = setting_name(name)?;
                self.run_execute(&name, parameters, portal, sink).await
            }
            Ast::Deallocate { name, .. } => self.run_deallocate(&ident_name(name)),
            Ast::Copy { .. } => self.run_copy(ast, sink).await,
            Ast::Lock(lock) => self.run_lock(lock).await,
            Ast::LISTEN { channel } => {
                self.listen(ident_name(channel))?;
                done("LISTEN")
            }
            Ast::UNLISTEN { channel } => {
                self.unlisten(ident_name(channel))?;
                done("UNLISTEN")
            }
            Ast::NOTIFY { channel, payload } => {
                self.notify(&ident_name(channel), payload.as_deref().unwrap_or(""))?;
                done("NOTIFY")
            }
            Ast::Declare { .. } | Ast::Fetch { .. } | Ast::Close { .. } => refuse("cursors in SQL")
                .map_err(|e: PgError| {
                    e.with_hint("Portals of the extended protocol fetch in parts.")
                }),
            ddl => Ok(Fetched::Complete(self.run_ddl(ddl).await?)),
        }
    }

    /// Rows of texts, for the columns the portal's statement was described with.
    fn send_texts(
        &self,
        rows: &[Vec<String>],
        portal: &Portal,
        sink: &mut dyn RowSink,
    ) -> Result<()> {
        let mut encoder = self.encoder_into(&portal.prepared.columns, portal);
        for row in rows {
            encoder.encode(|i| Ok(ValueRef::Ref(Datum::Text(&row[i]))), sink.row())?;
            sink.flush_if_large();
        }
        Ok(())
    }
}
