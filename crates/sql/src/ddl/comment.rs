//! COMMENT ON a table, a column or a type.

use super::refuse;
use crate::bind::object_parts;
use crate::session::Session;
use crate::{PgError, Result, direct};
use datafusion::sql::sqlparser::ast::{CommentObject, Ident, ObjectName};
use kernel::dict;

impl Session {
    pub(super) async fn comment_on(
        &mut self,
        kind: &CommentObject,
        name: &ObjectName,
        comment: Option<&str>,
    ) -> Result<String> {
        // No text is no comment.
        let comment = comment.filter(|text| !text.is_empty());
        if matches!(kind, CommentObject::Type) {
            self.comment_on_type(name, comment).await?;
            return Ok("COMMENT".to_owned());
        }
        let (table, column) = match kind {
            CommentObject::Table => (self.table_of(name).await?, None),
            CommentObject::View => (self.view_of(name).await?, None),
            CommentObject::Column => {
                let mut parts = object_parts(name)?;
                let (Some(column), false) = (parts.pop(), parts.is_empty()) else {
                    return Err(PgError::syntax("column name must be qualified"));
                };
                let quoted = parts.into_iter().map(|part| Ident::with_quote('"', part));
                let name = ObjectName::from(quoted.collect::<Vec<_>>());
                let table = self.relation_of(&name).await?;
                let at = direct::column_position(&table, &column)?;
                (table, Some(at))
            }
            other => return refuse(format!("COMMENT ON {other}")),
        };
        let kind = super::depend::kind_of(&table);
        self.check_owner(kind, &table.name, table.owner).await?;
        let txn = self.transaction()?;
        dict::set_comment(&self.ctx, &txn, &table, column, comment).await?;
        Ok("COMMENT".to_owned())
    }
}
