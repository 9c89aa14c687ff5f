//! Names of types that users have made: found before a statement is bound, and noted at the name.
//!
//! What it promises: a name without a schema is looked for as PostgreSQL does it, the system's own
//! types first; what is found is written with its schema, so that a text that is kept means the
//! same for ever. What it must never do: guess a type for a name that is not found.

use crate::bind::object_parts;
use crate::session::Session;
use crate::{PgError, Result};
use block::ObjId;
use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTableOperation, ArrayElemTypeDef, DataType, Expr, Ident, ObjectName,
    Statement as Ast, VisitMut, visit_expressions_mut,
};
use kernel::dict::{self, TableDef, TypeDef, Types};
use kernel::row::ColType;
use query::sqltype::{col_type_of_sql, mark_type, marked_type};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Calls `visit` for the name of each type that is not the system's.
fn visit_name(ty: &mut DataType, visit: &mut dyn FnMut(&mut ObjectName)) {
    match ty {
        DataType::Array(
            ArrayElemTypeDef::SquareBracket(element, _) | ArrayElemTypeDef::AngleBracket(element),
        ) => visit_name(element, visit),
        DataType::Custom(name, modifiers) if modifiers.is_empty() => {
            let qualified = match object_parts(name) {
                Ok(parts) => parts.len() > 1 && parts[0] != "pg_catalog",
                Err(_) => return,
            };
            let unknown = || {
                let plain = DataType::Custom(name.clone(), Vec::new());
                col_type_of_sql(&plain).is_err_and(|error| error.code == "42704")
            };
            if qualified || unknown() {
                visit(name);
            }
        }
        _ => {}
    }
}

fn visit_exprs(node: &mut impl VisitMut, visit: &mut dyn FnMut(&mut ObjectName)) {
    let _: ControlFlow<()> = visit_expressions_mut(node, |expr: &mut Expr| {
        match expr {
            Expr::Cast { data_type, .. } => visit_name(data_type, visit),
            Expr::TypedString(typed) => visit_name(&mut typed.data_type, visit),
            _ => {}
        }
        ControlFlow::Continue(())
    });
}

fn visit_statement(ast: &mut Ast, visit: &mut dyn FnMut(&mut ObjectName)) {
    match ast {
        Ast::CreateTable(create) => {
            create.columns.iter_mut().for_each(|column| visit_name(&mut column.data_type, visit));
        }
        Ast::AlterTable(alter) => {
            for operation in &mut alter.operations {
                match operation {
                    AlterTableOperation::AddColumn { column_def, .. } => {
                        visit_name(&mut column_def.data_type, visit);
                    }
                    AlterTableOperation::AlterColumn {
                        op: AlterColumnOperation::SetDataType { data_type, .. },
                        ..
                    } => visit_name(data_type, visit),
                    _ => {}
                }
            }
        }
        Ast::Prepare { data_types, .. } => {
            data_types.iter_mut().for_each(|ty| visit_name(ty, visit));
        }
        _ => {}
    }
    visit_exprs(ast, visit);
}

/// Writes the name as it is found without a search path, and notes what it stands for.
fn settle(name: &mut ObjectName, ty: ColType, schema: &str, own: &str) {
    let plain = |text: &str| match query::functions::quote_ident(text) == text {
        true => Ident::new(text),
        false => Ident::with_quote('"', text),
    };
    *name = ObjectName::from(vec![plain(schema), plain(own)]);
    mark_type(name, ty);
}

/// The types that an expression or a query names, once they are noted.
pub(crate) fn named_types(node: &impl datafusion::sql::sqlparser::ast::Visit) -> Vec<ObjId> {
    let mut found = Vec::new();
    let _: ControlFlow<()> =
        datafusion::sql::sqlparser::ast::visit_expressions(node, |expr: &Expr| {
            let ty = match expr {
                Expr::Cast { data_type, .. } => data_type,
                Expr::TypedString(typed) => &typed.data_type,
                _ => return ControlFlow::Continue(()),
            };
            if let DataType::Custom(name, _) = ty
                && let Some(def) = marked_type(name).and_then(ColType::enum_type)
                && !found.contains(&def.obj)
            {
                found.push(def.obj);
            }
            ControlFlow::Continue(())
        });
    found
}

/// Notes the types in an expression that is kept with a table: such as its columns have.
pub(crate) fn mark_by_table(expr: &mut Expr, types: impl Iterator<Item = ColType> + Clone) {
    visit_exprs(expr, &mut |name| {
        let Ok(parts) = object_parts(name) else { return };
        let [schema, own] = &parts[..] else { return };
        let mut types = types.clone();
        let found = types
            .find(|ty| ty.enum_type().is_some_and(|def| def.schema == *schema && def.name == *own));
        if let Some(ty) = found {
            mark_type(name, ty);
        }
    });
}

/// [`mark_by_table`] with the types of a table's columns.
pub(crate) fn mark_in_table(expr: &mut Expr, table: &TableDef) {
    mark_by_table(expr, table.columns.iter().map(|column| column.ty));
}

impl Session {
    /// The types that users have made.
    pub(crate) async fn user_types(&mut self) -> Result<Arc<Types>> {
        self.begin_if_needed();
        let txn = self.transaction()?;
        Ok(dict::types(&self.ctx, &txn).await?)
    }

    /// The type of a name, if there is one that a user has made.
    pub(crate) async fn find_type(
        &mut self,
        schema: Option<&str>,
        name: &str,
    ) -> Result<Option<TypeDef>> {
        let types = self.user_types().await?;
        for schema in self.schemas_for(schema).await? {
            if let Some(found) = types.find(&schema, name) {
                return Ok(Some(found.clone()));
            }
        }
        Ok(None)
    }

    /// The type of a number, if a user has made it.
    pub(crate) async fn type_of_oid(&mut self, oid: u32) -> Result<Option<ColType>> {
        if oid < dict::USER_OBJ_MIN {
            return Ok(None);
        }
        let types = self.user_types().await?;
        Ok(types.by_obj(ObjId(oid)).map(|ty| ty.ty))
    }

    /// Notes the types that a statement names. What a plan of it depends on then, if it names any.
    pub(crate) async fn settle_types(&mut self, ast: &mut Ast) -> Result<Option<(ObjId, u64)>> {
        let mut wanted: Vec<Vec<String>> = Vec::new();
        visit_statement(ast, &mut |name| wanted.extend(object_parts(name).ok()));
        if wanted.is_empty() {
            return Ok(None);
        }
        let version = self.user_types().await?.version;
        let mut found: Vec<(Vec<String>, TypeDef)> = Vec::new();
        for parts in wanted {
            let ty = match &parts[..] {
                [name] => self.find_type(None, name).await?,
                [schema, name] => self.find_type(Some(schema), name).await?,
                _ => None,
            };
            found.extend(ty.map(|ty| (parts, ty)));
        }
        visit_statement(ast, &mut |name| {
            let Ok(parts) = object_parts(name) else { return };
            if let Some((_, ty)) = found.iter().find(|(known, _)| *known == parts) {
                settle(name, ty.ty, &ty.schema, &ty.name);
            }
        });
        Ok(Some((dict::TYPES_OBJ, version)))
    }

    /// The type of a name, or 42704.
    pub(crate) async fn type_named(&mut self, name: &ObjectName) -> Result<TypeDef> {
        let (schema, own) = crate::bind::table_parts(name)?;
        let found = self.find_type(schema.as_deref(), &own).await?;
        found.ok_or_else(|| missing_type(schema.as_deref(), &own))
    }
}

/// 42704.
pub(crate) fn missing_type(schema: Option<&str>, name: &str) -> PgError {
    let shown = match schema {
        Some(schema) => format!("{schema}.{name}"),
        None => name.to_owned(),
    };
    PgError::new("42704", format!("type \"{shown}\" does not exist"))
}
