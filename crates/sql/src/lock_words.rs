//! What the field's FOR UPDATE says in another way: a column behind OF, and WAIT with seconds.
//!
//! What it promises: the name of a relation in FROM, which is what PostgreSQL has there, comes
//! first.

use crate::bind::table_parts;
use crate::planning::quoted;
use crate::session::Session;
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{LockClause, ObjectName};
use query::Relation;

/// What stands in FROM: the name it goes by, and schema and name of a relation.
type Named<'a> = (Option<&'a String>, Option<&'a (Option<String>, String)>);

/// How many seconds are waited, if a clause says so: it is taken out.
pub(crate) fn waited(locks: &mut Vec<LockClause>) -> Result<Option<u32>> {
    let mut seconds = None;
    let mut wrong = None;
    locks.retain(|lock| {
        let name = match &lock.of {
            Some(of) => of.0.last().and_then(|part| part.as_ident()),
            None => None,
        };
        let Some(text) = name.and_then(|name| name.value.strip_prefix(crate::parse::WAIT)) else {
            return true;
        };
        match text.parse() {
            Ok(parsed) => seconds = Some(parsed),
            Err(_) => wrong = Some(text.to_owned()),
        }
        false
    });
    match wrong {
        Some(text) => Err(PgError::syntax(format!("syntax error at or near \"{text}\""))),
        None => Ok(seconds),
    }
}

impl Session {
    /// The field's OF names a column: the relation that has it is meant.
    pub(crate) async fn of_relation<'a>(
        &mut self,
        mut lock: LockClause,
        items: impl Iterator<Item = Named<'a>> + Clone,
    ) -> Result<LockClause> {
        let Some(of) = &lock.of else { return Ok(lock) };
        let (qualifier, name) = table_parts(of)?;
        if qualifier.is_none() && items.clone().any(|(alias, _)| alias == Some(&name)) {
            return Ok(lock);
        }
        for (alias, named) in items {
            let Some(alias) = alias else { continue };
            if qualifier.as_ref().is_some_and(|qualifier| qualifier != alias) {
                continue;
            }
            let Some((schema, table)) = named else { continue };
            let found = self.find_relation(schema.as_deref(), table).await;
            if let Ok(Relation::Table(table)) = found
                && table.column(&name).is_some()
            {
                lock.of = Some(ObjectName::from(vec![quoted(alias)]));
                return Ok(lock);
            }
        }
        Ok(lock)
    }
}
