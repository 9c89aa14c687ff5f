//! Statements that the parser's library does not know: maintenance, SHOW PARAMETER, ALTER SYSTEM
//! and ALTER SESSION, CREATE SEQUENCE.
//!
//! What it promises: a parameter is shown and changed under the name it has in `v$parameter`. What
//! it must never do: change one for those who are no superusers.

use super::{done, refuse};
use crate::encode::{RowSink, column_of};
use crate::parse::{Own, located_in_code};
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
                env::boxed!(self.vacuum(what)).await?;
                done("VACUUM")
            }
            Own::Analyze(what) => {
                env::boxed!(self.analyze_tables(what)).await?;
                done("ANALYZE")
            }
            Own::Code(code) => {
                let done = env::boxed!(self.run_code(code)).await;
                let statement = &portal.prepared.statement;
                done.map_err(|error| located_in_code(error, &code.text, statement))
            }
            Own::CreateRoutine(spec) => {
                let made = env::boxed!(self.create_routine(spec)).await.map(Fetched::Complete);
                let code = spec.text.as_deref().unwrap_or("");
                let statement = &portal.prepared.statement;
                made.map_err(|error| located_in_code(error, code, statement))
            }
            Own::Routine(command) => {
                Ok(Fetched::Complete(env::boxed!(self.routine_command(command)).await?))
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
            Own::Access(access) => {
                Ok(Fetched::Complete(env::boxed!(self.run_access(access)).await?))
            }
            Own::CreateSequence(spec) => {
                self.check_writable("CREATE SEQUENCE")?;
                Ok(Fetched::Complete(self.create_sequence(spec).await?))
            }
            Own::Refresh(refresh) => {
                Ok(Fetched::Complete(env::boxed!(self.refresh(refresh)).await?))
            }
            Own::AlterRelation(alter) => {
                self.check_writable("ALTER")?;
                Ok(Fetched::Complete(self.alter_relation(alter).await?))
            }
            Own::AlterSystem(alter) => {
                env::boxed!(self.alter_system(alter)).await?;
                done("ALTER SYSTEM")
            }
            Own::KillSession(victim) => {
                env::boxed!(self.kill(*victim)).await?;
                done("ALTER SYSTEM")
            }
            Own::FlushSharedPool => {
                if !self.is_superuser().await? {
                    return Err(PgError::new(
                        "42501",
                        "permission denied to flush the shared pool",
                    ));
                }
                self.database.cache.clear();
                done("ALTER SYSTEM")
            }
            Own::AlterSessionSet(all) => self.alter_session(all),
            Own::Trace(call) => {
                self.trace_by_call(call).await?;
                done("CALL")
            }
            Own::TraceRule(call) => {
                self.trace_by_rule(call).await?;
                done("CALL")
            }
            Own::Repository(call) => {
                self.repository_call(*call).await?;
                done("CALL")
            }
            Own::Declare(declare) => env::boxed!(self.declare(declare, portal)).await,
            Own::Fetch(fetch) => env::boxed!(self.fetch_cursor(fetch, portal, sink)).await,
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

    fn alter_session(&mut self, all: &[(String, String)]) -> Result<Fetched> {
        for (name, value) in all {
            self.alter_session_setting(name, value)?;
        }
        done("ALTER SESSION")
    }

    fn alter_session_setting(&mut self, name: &str, value: &str) -> Result<()> {
        if self.alter_trace(name, value)?.is_some() {
            return Ok(());
        }
        if name == "time_zone" {
            let zone = zone_of(value);
            self.settings.set("timezone", zone.as_deref(), false)?;
            self.note_context();
            return Ok(());
        }
        let own = if name == "current_schema" { "search_path" } else { name };
        if self.settings.show(own).is_some() {
            self.settings.set(own, Some(value), false)?;
            self.note_context();
            return Ok(());
        }
        if means_nothing_here(name) {
            let text = format!("{name} has no effect here");
            self.notice(crate::Severity::Notice, text);
            return Ok(());
        }
        kernel::params::Parameters::check_session(name, value).map_err(param_error)?;
        refuse(format!("parameter \"{name}\" of one session"))
    }
}

/// A time zone as the field names it: the sign of an offset counts east, where PostgreSQL's counts
/// west if there are minutes. `None`: the one that the session began with.
fn zone_of(value: &str) -> Option<String> {
    if value.eq_ignore_ascii_case("local") || value.eq_ignore_ascii_case("dbtimezone") {
        return None;
    }
    let offset = value.trim();
    let Some((hours, minutes)) = offset.split_once(':') else { return Some(offset.to_owned()) };
    if minutes == "00" {
        return Some(hours.to_owned());
    }
    Some(match hours.strip_prefix('-') {
        Some(hours) => format!("+{hours}:{minutes}"),
        None => format!("-{}:{minutes}", hours.trim_start_matches('+')),
    })
}

/// What scripts of the field set to steer its planner, its memory, its parallel servers or how it
/// writes what has no template, and what no result depends on here.
fn means_nothing_here(name: &str) -> bool {
    const BEGINNINGS: [&str; 9] = [
        "nls_",
        "optimizer_",
        "parallel ",
        "parallel_",
        "query_rewrite_",
        "star_transformation_",
        "plsql_",
        "_optimizer_",
        "_serial_direct_",
    ];
    const NAMES: [&str; 10] = [
        "cursor_sharing",
        "db_file_multiblock_read_count",
        "hash_area_size",
        "hash_join_enabled",
        "recyclebin",
        "session_cached_cursors",
        "skip_unusable_indexes",
        "sort_area_retained_size",
        "sort_area_size",
        "workarea_size_policy",
    ];
    BEGINNINGS.iter().any(|beginning| name.starts_with(beginning)) || NAMES.contains(&name)
}

pub(super) fn param_error(error: kernel::params::ParamError) -> PgError {
    let code = match error {
        kernel::params::ParamError::Unknown { .. } => "42704",
        kernel::params::ParamError::Invalid { .. } => "22023",
        kernel::params::ParamError::Fixed { .. } => "55P02",
    };
    PgError::new(code, error.to_string())
}
