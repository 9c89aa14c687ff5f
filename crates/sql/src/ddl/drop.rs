//! DROP of every kind of object: the names one after the other, each by its kind's own rule.
//!
//! What it promises: an object that is not there is told as PostgreSQL tells it; relations that are
//! named together go together. What it must never do: drop what the statement has not named, unless
//! it says CASCADE.

use super::refuse;
use crate::bind::table_parts;
use crate::session::Session;
use crate::{PgError, Result, Severity};
use datafusion::sql::sqlparser::ast::{ObjectName, ObjectType};
use kernel::dict::{self, ObjectKind};

impl Session {
    pub(super) async fn drop_objects(
        &mut self,
        kind: &ObjectType,
        names: &[ObjectName],
        if_exists: bool,
        (cascade, purge): (bool, bool),
    ) -> Result<String> {
        let mut relations = Vec::new();
        for name in names {
            let (schema, object) = table_parts(name)?;
            let in_schema = schema.as_deref();
            if !matches!(kind, ObjectType::Schema)
                && !self.schema_is_there(in_schema, if_exists).await?
            {
                continue;
            }
            let found = match kind {
                ObjectType::Table | ObjectType::View | ObjectType::MaterializedView => {
                    let wanted = match kind {
                        ObjectType::View => ObjectKind::View,
                        ObjectType::MaterializedView => ObjectKind::Materialized,
                        _ => ObjectKind::Table,
                    };
                    let found = self.droppable(in_schema, &object, wanted).await?;
                    let is_found = found.is_some();
                    let known = |def: &std::sync::Arc<dict::TableDef>| {
                        found.as_ref().is_some_and(|found| found.obj == def.obj)
                    };
                    if !relations.iter().any(known) {
                        relations.extend(found);
                    }
                    is_found
                }
                ObjectType::Index => self.drop_index(in_schema, &object, cascade).await?,
                ObjectType::Sequence => self.drop_sequence(in_schema, &object, cascade).await?,
                ObjectType::Schema => self.drop_schema(&object, cascade).await?,
                ObjectType::Type => {
                    env::boxed!(self.drop_type(in_schema, &object, cascade)).await?
                }
                other => return refuse(format!("DROP {other}")),
            };
            if found {
                continue;
            }
            let (what, code) = match kind {
                ObjectType::Table => ("table", "42P01"),
                ObjectType::View => ("view", "42P01"),
                ObjectType::MaterializedView => ("materialized view", "42P01"),
                ObjectType::Index => ("index", "42704"),
                ObjectType::Type => ("type", "42704"),
                ObjectType::Sequence => ("sequence", "42P01"),
                _ => ("schema", "3F000"),
            };
            let shown = match &schema {
                Some(schema) => format!("{schema}.{object}"),
                None => object.clone(),
            };
            if !if_exists {
                return Err(PgError::new(code, format!("{what} \"{shown}\" does not exist")));
            }
            // The notice names the object alone.
            self.notice(Severity::Notice, format!("{what} \"{object}\" does not exist, skipping"));
        }
        // CASCADE CONSTRAINTS: keys that refer to it go, and nothing else.
        let keys = cascade && purge;
        if keys {
            self.drop_keys_to(&relations).await?;
        }
        self.drop_relations(relations, cascade && !keys).await?;
        Ok(format!("DROP {}", kind.to_string().to_uppercase()))
    }

    /// Whether a schema that was named is there; IF EXISTS makes a notice of it.
    async fn schema_is_there(&mut self, schema: Option<&str>, if_exists: bool) -> Result<bool> {
        let Some(name) = schema else { return Ok(true) };
        let txn = self.transaction()?;
        if dict::RESERVED_SCHEMAS.contains(&name)
            || name == super::PG_TEMP
            || self.is_own_temporary(name)
            || dict::schemas(&self.ctx, &txn).await?.find(name).is_some()
        {
            return Ok(true);
        }
        if !if_exists {
            return Err(super::schema::missing_schema(name));
        }
        self.notice(Severity::Notice, format!("schema \"{name}\" does not exist, skipping"));
        Ok(false)
    }
}
