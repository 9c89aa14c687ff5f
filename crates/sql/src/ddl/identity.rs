//! Columns that become identity columns, or cease to be generated.
//!
//! What it promises: an identity column has a sequence of its own, which goes with the identity.
//! What it must never do: touch the values that are there.

use super::alter_column::kept;
use crate::parse::{ColumnChange, SequenceSpec};
use crate::session::Session;
use crate::{PgError, Result, Severity, direct};
use datafusion::sql::sqlparser::ast::{GeneratedAs, SequenceOptions};
use kernel::dict::{Generated, TableDef};
use query::functions::quote_ident;
use std::sync::Arc;

fn is_identity(generated: Option<Generated>) -> bool {
    matches!(generated, Some(Generated::Always | Generated::ByDefault))
}

impl Session {
    /// ALTER COLUMN .. ADD GENERATED .. AS IDENTITY.
    pub(super) async fn add_identity(
        &mut self,
        table: &Arc<TableDef>,
        at: usize,
        generated_as: Option<GeneratedAs>,
        options: &[SequenceOptions],
    ) -> Result<()> {
        let always = !matches!(generated_as, Some(GeneratedAs::ByDefault));
        let spec = super::sequence::identity_spec(options)?;
        self.add_identity_of(table, at, always, &spec).await
    }

    async fn add_identity_of(
        &mut self,
        table: &Arc<TableDef>,
        at: usize,
        always: bool,
        spec: &SequenceSpec,
    ) -> Result<()> {
        let mut columns = kept(table);
        let def = &mut columns[at].def;
        let refused = |what: &str| {
            let text = format!("column \"{}\" of relation \"{}\" {what}", def.name, table.name);
            Err(PgError::new("55000", text))
        };
        if !def.not_null {
            return refused("must be declared NOT NULL before identity can be added");
        }
        if is_identity(def.generated) {
            return refused("is already an identity column");
        }
        if def.default.is_some() {
            return refused("already has a default value");
        }
        let schema = &table.schema;
        let sequence = self.own_sequence(schema, &table.name, def, spec).await?;
        self.make_owned(sequence, table.obj).await?;
        def.generated = Some(if always { Generated::Always } else { Generated::ByDefault });
        self.set_columns(table, columns, false).await.map(|_| ())
    }

    /// ALTER COLUMN .. DROP IDENTITY, DROP EXPRESSION, SET GENERATED.
    pub(super) async fn change_generated(
        &mut self,
        table: &Arc<TableDef>,
        column: &str,
        change: &ColumnChange,
    ) -> Result<()> {
        let at = direct::column_position(table, column)?;
        if let ColumnChange::AddIdentity { always, spec } = change {
            return self.add_identity_of(table, at, *always, spec).await;
        }
        let mut columns = kept(table);
        let def = &mut columns[at].def;
        let (fits, wanted, if_exists) = match change {
            ColumnChange::DropIdentity { if_exists } => {
                (is_identity(def.generated), "an identity column", *if_exists)
            }
            ColumnChange::SetGenerated { .. } | ColumnChange::Sequence(_) => {
                (is_identity(def.generated), "an identity column", false)
            }
            ColumnChange::DropExpression { if_exists } => {
                let stored = def.generated == Some(Generated::Stored);
                (stored, "a stored generated column", *if_exists)
            }
            ColumnChange::AddIdentity { .. } => return Ok(()),
        };
        if !fits {
            let text =
                format!("column \"{column}\" of relation \"{}\" is not {wanted}", table.name);
            if !if_exists {
                return Err(PgError::new("55000", text));
            }
            self.notice(Severity::Notice, format!("{text}, skipping"));
            return Ok(());
        }
        if let ColumnChange::Sequence(spec) = change {
            return self.alter_sequence_of(table, &table.columns[at], spec).await;
        }
        let default = def.default.clone();
        match change {
            ColumnChange::SetGenerated { always: true } => def.generated = Some(Generated::Always),
            ColumnChange::SetGenerated { always: false } => {
                def.generated = Some(Generated::ByDefault);
            }
            ColumnChange::AddIdentity { .. } | ColumnChange::Sequence(_) => {}
            ColumnChange::DropIdentity { .. } | ColumnChange::DropExpression { .. } => {
                def.generated = None;
                def.default = None;
            }
        }
        self.set_columns(table, columns, false).await?;
        if matches!(change, ColumnChange::DropIdentity { .. }) {
            let what = format!("identity of column {}", quote_ident(column));
            self.drop_sequence_of(table, default.as_deref(), &what, false).await?;
        }
        Ok(())
    }
}
