//! Statements that the parser's library does not know: maintenance, SHOW PARAMETER, ALTER SYSTEM
//! and ALTER SESSION, CREATE SEQUENCE.
//!
//! What it promises: a parameter is shown and changed under the name it has in `v$parameter`. What
//! it must never do: change one for those who are no superusers.

use super::{done, refuse};
use crate::encode::{RowSink, column_of};
use crate::parse::Own;
use crate::session::{Fetched, Portal, Session};
use crate::{PgError, Result};
use kernel::dict::CHECKPOINT_ROLE;
use kernel::row::TypeKind;
use query::PgColumn;

/// Columns of `SHOW PARAMETER`.
pub(crate) fn parameter_columns() -> Vec<PgColumn> {
    ["name", "type", "value"].iter().map(|name| column_of(name, TypeKind::Text)).collect()
}

impl Session {
    pub(crate) async fn run_own(
        &mut self,
        own: &Own,
        portal: &Portal,
        sink: &mut dyn RowSink,
    ) -> Result<Fetched> {
        match own {
            Own::Vacuum(what) => {
                Box::pin(self.vacuum(what)).await?;
                done("VACUUM")
            }
            Own::Analyze(what) => {
                Box::pin(self.analyze_tables(what)).await?;
                done("ANALYZE")
            }
            Own::Code(code) => Box::pin(self.run_code(code)).await,
            Own::CreateRoutine(spec) => {
                Ok(Fetched::Complete(Box::pin(self.create_routine(spec)).await?))
            }
            Own::Routine(command) => {
                Ok(Fetched::Complete(Box::pin(self.routine_command(command)).await?))
            }
            Own::Checkpoint => {
                if !self.is_superuser().await? && !self.has_role(CHECKPOINT_ROLE).await? {
                    let text =
                        "must be superuser or have privileges of pg_checkpoint to do CHECKPOINT";
                    return Err(PgError::new("42501", text));
                }
                let cache = &self.instance.core.cache;
                cache.checkpoint_all(&self.ctx, self.instance.me).await?;
                done("CHECKPOINT")
            }
            Own::ShowParameter(pattern) => {
                self.show_parameters(pattern.as_deref().unwrap_or(""), portal, sink)
            }
            Own::Access(access) => Ok(Fetched::Complete(Box::pin(self.run_access(access)).await?)),
            Own::CreateSequence(spec) => {
                self.check_writable("CREATE SEQUENCE")?;
                Ok(Fetched::Complete(self.create_sequence(spec).await?))
            }
            Own::Refresh(refresh) => Ok(Fetched::Complete(Box::pin(self.refresh(refresh)).await?)),
            Own::AlterRelation(alter) => {
                self.check_writable("ALTER")?;
                Ok(Fetched::Complete(self.alter_relation(alter).await?))
            }
            Own::AlterSystemSet { name, value } => {
                if !self.is_superuser().await? {
                    let text = format!("permission denied to set parameter \"{name}\"");
                    return Err(PgError::new("42501", text));
                }
                self.instance.alter_system(name, value).map_err(param_error)?;
                done("ALTER SYSTEM")
            }
            Own::AlterSessionSet { name, value } => self.alter_session(name, value),
            Own::Trace(call) => {
                self.trace_by_call(call).await?;
                done("CALL")
            }
            Own::Repository(call) => {
                self.repository_call(*call).await?;
                done("CALL")
            }
            Own::Declare(declare) => Box::pin(self.declare(declare, portal)).await,
            Own::Fetch(fetch) => Box::pin(self.fetch_cursor(fetch, portal, sink)).await,
            Own::Close(name) => self.close_cursor(name.as_deref()),
            Own::SetConstraints { names, deferred } => {
                self.set_constraints(names.as_deref(), *deferred).await?;
                done("SET CONSTRAINTS")
            }
        }
    }

    fn show_parameters(
        &mut self,
        pattern: &str,
        portal: &Portal,
        sink: &mut dyn RowSink,
    ) -> Result<Fetched> {
        let wanted = pattern.trim_matches('%').to_lowercase();
        let all = self.instance.params.rows().into_iter();
        let rows: Vec<Vec<String>> = all
            .filter(|row| row.name.contains(&wanted))
            .map(|row| vec![row.name.to_owned(), row.type_name.to_owned(), row.display_value])
            .collect();
        self.send_texts(&rows, portal, sink)?;
        done("SHOW")
    }

    fn alter_session(&mut self, name: &str, value: &str) -> Result<Fetched> {
        if self.alter_trace(name, value)?.is_some() {
            return done("ALTER SESSION");
        }
        if self.settings.show(name).is_some() {
            self.settings.set(name, Some(value), false)?;
            self.note_context();
            return done("ALTER SESSION");
        }
        kernel::params::Parameters::check_session(name, value).map_err(param_error)?;
        refuse(format!("parameter \"{name}\" of one session"))
    }
}

fn param_error(error: kernel::params::ParamError) -> PgError {
    let code = match error {
        kernel::params::ParamError::Unknown { .. } => "42704",
        kernel::params::ParamError::Invalid { .. } => "22023",
        kernel::params::ParamError::Fixed { .. } => "55P02",
    };
    PgError::new(code, error.to_string())
}
