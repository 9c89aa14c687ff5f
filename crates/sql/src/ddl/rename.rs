//! Other names and schemas of indexes and sequences, whichever statement says so.
//!
//! What it promises: the defaults that call a sequence call it by its new name. What it must never
//! do: leave a default behind that names nothing.

use super::sequence_use::qualified;
use super::{named, refuse};
use crate::parse::{AlterRelation, LOGGED, RelationAction};
use crate::session::Session;
use crate::{PgError, Result, Severity};
use kernel::dict::{self, SequenceDef};
use kernel::txn::TmMode;

impl Session {
    /// ALTER INDEX and ALTER SEQUENCE.
    pub(super) async fn alter_other(&mut self, alter: &AlterRelation) -> Result<String> {
        let AlterRelation { kind, if_exists, schema, name, action } = alter;
        let found = if *kind == "INDEX" {
            match action {
                RelationAction::Rename(to) => {
                    self.rename_index(schema.as_deref(), name, to).await?
                }
                RelationAction::Rebuild(reverse) => {
                    self.rebuild_index(schema.as_deref(), name, *reverse).await?
                }
                RelationAction::Stored(text) => {
                    let found = self.own_index(schema.as_deref(), name).await?.is_some();
                    if found {
                        self.notice(Severity::Notice, format!("{text} has no meaning here"));
                    }
                    found
                }
                _ => return refuse("this form of ALTER INDEX"),
            }
        } else {
            self.change_sequence(schema.as_deref(), name, action).await?
        };
        if !found {
            if self.find_table(schema.as_deref(), name).await?.is_some() {
                let article = if *kind == "INDEX" { "an" } else { "a" };
                let text = format!("\"{name}\" is not {article} {}", kind.to_lowercase());
                return Err(PgError::new("42809", text));
            }
            if !if_exists {
                return Err(PgError::undefined_table(match schema {
                    Some(schema) => format!("{schema}.{name}"),
                    None => name.clone(),
                }));
            }
            let text = format!("relation \"{name}\" does not exist, skipping");
            self.notice(Severity::Notice, text);
        }
        Ok(format!("ALTER {kind}"))
    }

    /// ALTER TABLE .. RENAME TO of something else than a table; whether there is such a thing.
    pub(super) async fn rename_other(
        &mut self,
        schema: Option<&str>,
        name: &str,
        to: &str,
    ) -> Result<bool> {
        if self.rename_index(schema, name, to).await? {
            return Ok(true);
        }
        self.change_sequence(schema, name, &RelationAction::Rename(to.to_owned())).await
    }

    async fn rename_index(&mut self, schema: Option<&str>, name: &str, to: &str) -> Result<bool> {
        let Some((_, table, index)) = self.own_index(schema, name).await? else {
            return Ok(false);
        };
        let txn = self.transaction()?;
        let done = dict::rename_index(&self.ctx, &txn, &table, &index, to).await;
        done.map_err(|error| named(error, to))?;
        Ok(true)
    }

    /// ALTER SEQUENCE; whether there is one of that name.
    async fn change_sequence(
        &mut self,
        schema: Option<&str>,
        name: &str,
        action: &RelationAction,
    ) -> Result<bool> {
        let Some(sequence) = self.find_sequence(schema, name).await? else { return Ok(false) };
        match action {
            RelationAction::Options(spec) => self.alter_sequence(&sequence, spec).await?,
            RelationAction::OwnedBy(owner) => self.own_by(&sequence, owner.as_ref()).await?,
            RelationAction::Rename(to) => {
                let schema = sequence.schema.clone();
                if *to == sequence.name {
                    return Err(named(kernel::Error::DuplicateObject(to.clone()), to));
                }
                self.move_sequence(&sequence, &schema, to).await?;
            }
            RelationAction::SetSchema(to) => {
                self.check_owner("sequence", name, sequence.owner).await?;
                self.check_move(to).await?;
                if *to == sequence.schema {
                    return Ok(true);
                }
                if let Some(table) = sequence.table {
                    let txn = self.transaction()?;
                    let table = dict::table_by_obj(&self.ctx, &txn, table).await?;
                    let table = table.map_or_else(String::new, |table| table.name.clone());
                    let text = "cannot move an owned sequence into another schema";
                    let detail = format!("Sequence \"{name}\" is linked to table \"{table}\".");
                    return Err(PgError::new("0A000", text).with_detail(detail));
                }
                let name = sequence.name.clone();
                self.move_sequence(&sequence, to, &name).await?;
            }
            RelationAction::SetLogged(true) => {}
            RelationAction::SetLogged(false) => self.notice(Severity::Notice, LOGGED),
            RelationAction::RenameColumn { .. }
            | RelationAction::Column { .. }
            | RelationAction::Rebuild(_)
            | RelationAction::Stored(_) => {
                return refuse("this form of ALTER SEQUENCE");
            }
        }
        Ok(true)
    }

    async fn move_sequence(
        &mut self,
        sequence: &SequenceDef,
        schema: &str,
        name: &str,
    ) -> Result<()> {
        self.check_owner("sequence", &sequence.name, sequence.owner).await?;
        self.hold_sequence(sequence.obj, TmMode::X).await?;
        self.rename_in_defaults(sequence, &qualified(schema, name)).await?;
        let txn = self.transaction()?;
        let done = dict::move_sequence(&self.ctx, &txn, sequence, schema, name).await;
        done.map_err(|error| match error {
            kernel::Error::DuplicateObject(_) if schema != sequence.schema => {
                super::schema::exists_in(&format!("relation \"{name}\""), schema)
            }
            other => named(other, name),
        })
    }
}
