//! COMMENT ON whatever there is: relations, columns, constraints, types, schemas, roles, the
//! database.
//!
//! What it promises: who comments on something owns it; the comment goes with it. What it must
//! never do: note a comment on what is not there.

use super::{missing_schema, refuse};
use crate::access::RoleName;
use crate::bind::{object_parts, table_parts};
use crate::catalog::DATABASE_OID;
use crate::session::Session;
use crate::words::CONSTRAINT;
use crate::{PgError, Result, Severity, direct};
use block::ObjId;
use datafusion::sql::sqlparser::ast::{CommentObject, Ident, ObjectName};
use kernel::dict::{self, Described, IndexDef, ObjectKind, TableDef};
use std::sync::Arc;

/// What is left of a name without its first or last part.
fn relation_name(parts: Vec<String>) -> ObjectName {
    let quoted = parts.into_iter().map(|part| Ident::with_quote('"', part));
    ObjectName::from(quoted.collect::<Vec<_>>())
}

/// The number of a constraint.
pub(super) fn constraint_obj(table: &TableDef, name: &str) -> Option<ObjId> {
    let index = |index: &&Arc<IndexDef>| index.constraint.as_deref() == Some(name);
    let check = table.checks.iter().find(|check| check.name == name).map(|check| check.obj);
    let key = || table.foreign.iter().find(|key| key.name == name).map(|key| key.obj);
    check.or_else(key).or_else(|| table.indexes.iter().find(index).map(|index| index.obj))
}

impl Session {
    pub(super) async fn comment_on(
        &mut self,
        kind: &CommentObject,
        name: &ObjectName,
        comment: Option<&str>,
    ) -> Result<String> {
        // No text is no comment.
        let comment = comment.filter(|text| !text.is_empty());
        match kind {
            CommentObject::Table => {
                let table = self.table_of(name).await?;
                self.comment_on_relation(&table, None, comment).await?;
            }
            CommentObject::View => {
                let view = self.view_of(name).await?;
                self.comment_on_relation(&view, None, comment).await?;
            }
            CommentObject::MaterializedView => {
                let table = self.table_of(name).await?;
                if table.materialized.is_none() {
                    let text = format!("\"{}\" is not a materialized view", table.name);
                    return Err(PgError::new("42809", text));
                }
                self.comment_on_relation(&table, None, comment).await?;
            }
            CommentObject::Column => {
                let mut parts = object_parts(name)?;
                let (Some(column), false) = (parts.pop(), parts.is_empty()) else {
                    return Err(PgError::syntax("column name must be qualified"));
                };
                let table = self.relation_of(&relation_name(parts)).await?;
                let at = direct::column_position(&table, &column)?;
                self.comment_on_relation(&table, Some(at), comment).await?;
            }
            CommentObject::Type => self.comment_on_type(name, comment).await?,
            CommentObject::Index => self.comment_on_index(name, comment).await?,
            CommentObject::Sequence => self.comment_on_sequence(name, comment).await?,
            CommentObject::Schema => self.comment_on_schema(name, comment).await?,
            CommentObject::Role => self.comment_on_role(name, comment).await?,
            CommentObject::Database => self.comment_on_database(name, comment).await?,
            // Stands for CONSTRAINT, which the library does not know.
            CommentObject::Collation
                if name.0.first().and_then(|part| part.as_ident()).is_some_and(|first| {
                    first.quote_style.is_some() && first.value == CONSTRAINT
                }) =>
            {
                self.comment_on_constraint(name, comment).await?;
            }
            other => return refuse(format!("COMMENT ON {other}")),
        }
        Ok("COMMENT".to_owned())
    }

    async fn comment_on_relation(
        &mut self,
        table: &TableDef,
        column: Option<usize>,
        comment: Option<&str>,
    ) -> Result<()> {
        let kind = super::depend::kind_of(table);
        self.check_owner(kind, &table.name, table.owner).await?;
        let txn = self.transaction()?;
        Ok(dict::set_comment(&self.ctx, &txn, table, column, comment).await?)
    }

    /// Notes a comment that no definition has.
    pub(super) async fn note_comment(
        &mut self,
        on: (Described, ObjId),
        holder: ObjId,
        comment: Option<&str>,
    ) -> Result<()> {
        let txn = self.transaction()?;
        Ok(dict::comment_on(&self.ctx, &txn, on, holder, comment).await?)
    }

    async fn comment_on_index(&mut self, name: &ObjectName, comment: Option<&str>) -> Result<()> {
        let (schema, index) = table_parts(name)?;
        let txn = self.transaction()?;
        for schema in self.schemas_for(schema.as_deref()).await? {
            let found = dict::object(&self.ctx, &txn, &schema, &index).await?;
            let Some(found) = found else { continue };
            if found.kind != ObjectKind::Index {
                return Err(PgError::new("42809", format!("\"{index}\" is not an index")));
            }
            self.check_owner("index", &index, found.owner).await?;
            let all = dict::tables(&self.ctx, &txn).await?;
            let table = all.iter().find(|t| t.all_indexes().any(|i| i.obj == found.obj));
            let table = table.ok_or_else(|| PgError::undefined_table(&index))?;
            return self.note_comment((Described::Relation, found.obj), table.obj, comment).await;
        }
        Err(self.no_relation(schema.as_deref(), &index).await)
    }

    async fn comment_on_sequence(
        &mut self,
        name: &ObjectName,
        comment: Option<&str>,
    ) -> Result<()> {
        let (schema, name) = table_parts(name)?;
        let Some(found) = self.find_sequence(schema.as_deref(), &name).await? else {
            if self.find_table(schema.as_deref(), &name).await?.is_some() {
                return Err(PgError::new("42809", format!("\"{name}\" is not a sequence")));
            }
            return Err(self.no_relation(schema.as_deref(), &name).await);
        };
        self.check_owner("sequence", &name, found.owner).await?;
        self.note_comment((Described::Relation, found.obj), found.obj, comment).await
    }

    /// 42P01, or what is wrong with the schema.
    async fn no_relation(&mut self, schema: Option<&str>, name: &str) -> PgError {
        let Some(schema) = schema else { return PgError::undefined_table(name) };
        match self.schemas_for(Some(schema)).await {
            Err(error) => error,
            Ok(_) => PgError::undefined_table(format!("{schema}.{name}")),
        }
    }

    async fn comment_on_schema(&mut self, name: &ObjectName, comment: Option<&str>) -> Result<()> {
        let [name] = &object_parts(name)?[..] else {
            return Err(PgError::syntax("a name of a schema is expected"));
        };
        if dict::RESERVED_SCHEMAS.contains(&name.as_str()) {
            return refuse("COMMENT ON a schema of the system's");
        }
        let txn = self.transaction()?;
        let schemas = dict::schemas(&self.ctx, &txn).await?;
        let found = schemas.find(name).ok_or_else(|| missing_schema(name))?;
        self.check_owner("schema", name, found.owner).await?;
        // Only an empty text says that nothing is said of this one.
        let comment = match found.obj {
            dict::PUBLIC_OBJ => Some(comment.unwrap_or("")),
            _ => comment,
        };
        self.note_comment((Described::Schema, found.obj), found.obj, comment).await
    }

    async fn comment_on_role(&mut self, name: &ObjectName, comment: Option<&str>) -> Result<()> {
        let [name] = &object_parts(name)?[..] else {
            return Err(PgError::syntax("a name of a role is expected"));
        };
        let found = self.role_named(&RoleName::Named(name.clone())).await?;
        let (own, roles) = (self.identity.role, self.roles().await?);
        if !roles.is_superuser(own) {
            if found.superuser {
                return Err(PgError::new("42501", "must be superuser"));
            }
            if !roles.of(own).is_some_and(|own| own.create_role) {
                return Err(PgError::new("42501", "must have CREATEROLE privilege"));
            }
        }
        self.note_comment((Described::Role, found.obj), found.obj, comment).await
    }

    async fn comment_on_database(
        &mut self,
        name: &ObjectName,
        comment: Option<&str>,
    ) -> Result<()> {
        let [name] = &object_parts(name)?[..] else {
            return Err(PgError::syntax("a name of a database is expected"));
        };
        if name != crate::DATABASE {
            self.notice(Severity::Warning, format!("database \"{name}\" does not exist"));
            return Ok(());
        }
        let owner = self.roles().await?.owner;
        self.check_owner("database", name, owner).await?;
        let obj = ObjId(DATABASE_OID);
        self.note_comment((Described::Database, obj), obj, comment).await
    }

    /// `name`: what stands for the word CONSTRAINT, the table, and the constraint.
    async fn comment_on_constraint(
        &mut self,
        name: &ObjectName,
        comment: Option<&str>,
    ) -> Result<()> {
        let mut parts = object_parts(name)?;
        parts.remove(0);
        let constraint = parts.pop().unwrap_or_default();
        let table = self.table_of(&relation_name(parts)).await?;
        self.check_owner("relation", &table.name, table.owner).await?;
        let found = constraint_obj(&table, &constraint).ok_or_else(|| {
            let (name, table) = (&constraint, &table.name);
            let text = format!("constraint \"{name}\" for table \"{table}\" does not exist");
            PgError::new("42704", text)
        })?;
        self.note_comment((Described::Constraint, found), table.obj, comment).await
    }
}
