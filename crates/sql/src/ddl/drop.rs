//! DROP of every kind of object: the names one after the other, each by its kind's own rule.
//!
//! What it promises: an object that is not there is told as PostgreSQL tells it. What it must never
//! do: drop what the statement has not named.

use super::refuse;
use crate::bind::table_parts;
use crate::session::Session;
use crate::{PgError, Result, Severity};
use datafusion::sql::sqlparser::ast::{ObjectName, ObjectType};

impl Session {
    pub(super) async fn drop_objects(
        &mut self,
        kind: &ObjectType,
        names: &[ObjectName],
        if_exists: bool,
        cascade: bool,
    ) -> Result<String> {
        for name in names {
            let (schema, object) = table_parts(name)?;
            let found = match kind {
                ObjectType::Table => self.drop_table(schema.as_deref(), &object).await?,
                ObjectType::Index => self.drop_index(schema.as_deref(), &object).await?,
                ObjectType::Sequence => self.drop_sequence(schema.as_deref(), &object).await?,
                ObjectType::Role | ObjectType::User => self.drop_role(&object).await?,
                other => return refuse(format!("DROP {other}")),
            };
            if found {
                continue;
            }
            let (what, code) = match kind {
                ObjectType::Table => ("table", "42P01"),
                ObjectType::Index => ("index", "42704"),
                ObjectType::Sequence => ("sequence", "42P01"),
                _ => ("role", "42704"),
            };
            if !if_exists {
                return Err(PgError::new(code, format!("{what} \"{object}\" does not exist")));
            }
            self.notice(Severity::Notice, format!("{what} \"{object}\" does not exist, skipping"));
        }
        // Nothing depends on an object but what goes with it.
        let _ = cascade;
        Ok(format!("DROP {}", kind.to_string().to_uppercase()))
    }
}
