//! CREATE, ALTER, DROP and COMMENT ON TYPE, of enums.
//!
//! What it promises: PostgreSQL's errors; a type does not go without the columns of it, and they
//! only with CASCADE. What it must never do: change what a stored value stands for.

use super::depend::{depended_on, kind_of};
use super::refuse;
use crate::bind::ident_name;
use crate::named_types::{mark_in_table, missing_type, named_types};
use crate::session::Session;
use crate::{PgError, Result, Severity};
use datafusion::sql::sqlparser::ast::{
    AlterType, AlterTypeAddValuePosition, AlterTypeOperation, Ident, ObjectName,
    UserDefinedTypeRepresentation as Representation,
};
use kernel::dict::{self, AclKind, Privileges, TableDef, TypeChange, TypeDef};
use kernel::row::{EnumPlace, TypeKind};
use query::functions::quote_ident;
use std::sync::Arc;

fn check_label(label: &str) -> Result<()> {
    if label.len() <= dict::NAME_BYTES_MAX {
        return Ok(());
    }
    let error = PgError::new("42622", format!("invalid enum label \"{label}\""));
    Err(error.with_detail(format!("Labels must be {} bytes or less.", dict::NAME_BYTES_MAX)))
}

/// A label stands in quotes.
fn label(ident: &Ident) -> Result<&str> {
    match ident.quote_style {
        Some('\'') => Ok(&ident.value),
        _ => Err(PgError::syntax(format!("syntax error at or near \"{ident}\""))),
    }
}

fn existing(name: &str) -> PgError {
    PgError::new("42710", format!("type \"{name}\" already exists"))
}

fn type_exists(error: kernel::Error, name: &str) -> PgError {
    match error {
        kernel::Error::DuplicateObject(_) => existing(name),
        other => other.into(),
    }
}

fn changed(error: kernel::Error) -> PgError {
    match error {
        kernel::Error::Invalid(text) => PgError::new("54000", text),
        other => other.into(),
    }
}

impl Session {
    pub(super) async fn create_type(
        &mut self,
        name: &ObjectName,
        representation: Option<&Representation>,
    ) -> Result<String> {
        let Some(Representation::Enum { labels }) = representation else {
            return refuse("CREATE TYPE of anything but an enum");
        };
        let (schema, name) = self.new_name(name).await?;
        if super::is_temporary(&schema) {
            return refuse("a type in a temporary schema");
        }
        let mut texts: Vec<String> = Vec::new();
        for one in labels {
            let text = label(one)?;
            check_label(text)?;
            if texts.iter().any(|known| known == text) {
                let text = "duplicate key value violates unique constraint \
                            \"pg_enum_typid_label_index\"";
                return Err(PgError::new("23505", text));
            }
            texts.push(text.to_owned());
        }
        let txn = self.transaction()?;
        let (owner, known) = (self.owner(), (schema.as_str(), name.as_str()));
        let made = dict::create_type(&self.ctx, &txn, known, owner, &texts).await;
        let obj = made.map_err(|error| type_exists(error, &name))?;
        self.give_default_rights(AclKind::Type, &schema, obj).await?;
        Ok("CREATE TYPE".to_owned())
    }

    pub(super) async fn alter_type(&mut self, alter: &AlterType) -> Result<String> {
        let done = || Ok("ALTER TYPE".to_owned());
        let ty = self.type_named(&alter.name).await?;
        self.check_owner("type", &ty.name, ty.owner).await?;
        let txn = self.transaction()?;
        // Whoever else changes it has done so by now.
        dict::lock_type_users(&self.ctx, &txn, &ty).await?;
        let ty = self.user_types().await?.by_obj(ty.obj).cloned().unwrap_or(ty);
        let missing =
            |text: &str| PgError::new("22023", format!("\"{text}\" is not an existing enum label"));
        let known = |text: &str| ty.def().find(text).is_some();
        let taken =
            |text: &str| PgError::new("42710", format!("enum label \"{text}\" already exists"));
        let change = match &alter.operation {
            AlterTypeOperation::AddValue(add) => {
                let new = label(&add.value)?;
                check_label(new)?;
                if known(new) {
                    if !add.if_not_exists {
                        return Err(taken(new));
                    }
                    let text = format!("enum label \"{new}\" already exists, skipping");
                    self.notice(Severity::Notice, text);
                    return done();
                }
                let place = match &add.position {
                    None => EnumPlace::Last,
                    Some(AlterTypeAddValuePosition::Before(other)) => {
                        EnumPlace::Before(label(other)?)
                    }
                    Some(AlterTypeAddValuePosition::After(other)) => {
                        EnumPlace::After(label(other)?)
                    }
                };
                if let EnumPlace::Before(other) | EnumPlace::After(other) = place
                    && !known(other)
                {
                    return Err(missing(other));
                }
                TypeChange::AddValue(new, place)
            }
            AlterTypeOperation::RenameValue(rename) => {
                let (from, to) = (label(&rename.from)?, label(&rename.to)?);
                check_label(to)?;
                if !known(from) {
                    return Err(missing(from));
                }
                if known(to) {
                    return Err(taken(to));
                }
                self.rename_label(&ty, from, to).await?;
                return done();
            }
            AlterTypeOperation::Rename(rename) => {
                let name = ident_name(&rename.new_name);
                self.check_create_in(&ty.schema).await?;
                self.check_unnamed(&ty).await?;
                let done = dict::alter_type(&self.ctx, &txn, &ty, TypeChange::Rename(&name)).await;
                done.map_err(|error| type_exists(error, &name))?;
                return Ok("ALTER TYPE".to_owned());
            }
        };
        dict::alter_type(&self.ctx, &txn, &ty, change).await.map_err(changed)?;
        done()
    }

    /// ALTER TYPE .. SET SCHEMA.
    pub(super) async fn set_type_schema(
        &mut self,
        schema: Option<&str>,
        name: &str,
        to: &str,
    ) -> Result<String> {
        let found = self.find_type(schema, name).await?;
        let ty = found.ok_or_else(|| missing_type(schema, name))?;
        self.check_owner("type", &ty.name, ty.owner).await?;
        let txn = self.transaction()?;
        if dict::RESERVED_SCHEMAS.contains(&to) || to.starts_with(dict::TEMP_PREFIX) {
            return refuse(format!("moving into schema \"{to}\""));
        }
        if dict::schemas(&self.ctx, &txn).await?.find(to).is_none() {
            return Err(super::schema::missing_schema(to));
        }
        self.check_create_in(to).await?;
        if ty.schema != to {
            self.move_type(&ty, to).await?;
        }
        Ok("ALTER TYPE".to_owned())
    }

    pub(super) async fn move_type(&mut self, ty: &TypeDef, to: &str) -> Result<()> {
        let txn = self.transaction()?;
        dict::lock_type_users(&self.ctx, &txn, ty).await?;
        self.check_unnamed(ty).await?;
        let done = dict::alter_type(&self.ctx, &txn, ty, TypeChange::Schema(to)).await;
        done.map_err(|error| match error {
            kernel::Error::DuplicateObject(_) => {
                let text = format!("type \"{}\" already exists in schema \"{to}\"", ty.name);
                PgError::new("42710", text)
            }
            other => other.into(),
        })
    }

    /// Refuses to give another name to a type that a kept text names: such texts are not rewritten.
    async fn check_unnamed(&mut self, ty: &TypeDef) -> Result<()> {
        let txn = self.transaction()?;
        let mut users = dict::type_users(&self.ctx, &txn, ty.obj).await?;
        let views = dict::dependents(&self.ctx, &txn, ty.obj).await?;
        if let Some((view, _)) = views.first() {
            users.push(*view);
        }
        for user in users {
            let Some(def) = dict::table_by_obj(&self.ctx, &txn, user).await? else { continue };
            let named = views.iter().any(|(view, _)| *view == user) || names_type(&def, ty)?;
            if named {
                let (kind, name) = (kind_of(&def), &def.name);
                return refuse(format!("another name for a type that {kind} \"{name}\" names"));
            }
        }
        Ok(())
    }

    /// Whether there was such a type; it is gone now.
    pub(crate) async fn drop_type(
        &mut self,
        schema: Option<&str>,
        name: &str,
        cascade: bool,
    ) -> Result<bool> {
        let Some(ty) = self.find_type(schema, name).await? else { return Ok(false) };
        self.check_droppable("type", &ty.name, &ty.schema, ty.owner).await?;
        let txn = self.transaction()?;
        let users = dict::lock_type_users(&self.ctx, &txn, &ty).await?;
        let shown = format!("type {}", self.shown_type(&ty).await?);
        let (mut said, mut told) = (Vec::new(), Vec::new());
        let mut views: Vec<Arc<TableDef>> = Vec::new();
        let mut columns: Vec<(Arc<TableDef>, String)> = Vec::new();
        for user in users {
            let Some(def) = dict::table_by_obj(&self.ctx, &txn, user).await? else { continue };
            if def.view.is_some() {
                views.push(def);
                continue;
            }
            let relation = self.shown_relation(&def).await?;
            for column in &def.columns {
                if column.ty.enum_type().is_some_and(|own| own.obj == ty.obj) {
                    let one = format!("column {} of table {relation}", column.name);
                    said.push(format!("{one} depends on {shown}"));
                    told.push(one);
                    columns.push((Arc::clone(&def), column.name.clone()));
                }
            }
        }
        for (view, _) in dict::dependents(&self.ctx, &txn, ty.obj).await? {
            if views.iter().all(|known| known.obj != view) {
                views.extend(dict::table_by_obj(&self.ctx, &txn, view).await?);
            }
        }
        for view in &views {
            let one = format!("view {}", self.shown_relation(view).await?);
            said.push(format!("{one} depends on {shown}"));
            told.push(one);
        }
        let routines = dict::routines_of_type(&self.ctx, &txn, ty.obj).await?;
        for one in &routines {
            let word = if one.body.procedure { "procedure" } else { "function" };
            let one = format!("{word} {}", self.shown_routine(one).await?);
            said.push(format!("{one} depends on {shown}"));
            told.push(one);
        }
        if !said.is_empty() && !cascade {
            return Err(depended_on(&shown, &said));
        }
        self.notice_cascade(&told);
        let notices = self.notices.len();
        for view in views {
            // It may have gone with another.
            if let Some(view) = dict::table_by_obj(&self.ctx, &txn, view.obj).await? {
                env::boxed!(self.drop_relations(vec![view], true)).await?;
            }
        }
        for (table, column) in columns {
            let now = dict::table_by_obj(&self.ctx, &txn, table.obj).await?.unwrap_or(table);
            let now = dict::lock_definition(&self.ctx, &txn, &now).await?;
            env::boxed!(self.drop_column(&now, &column, true, true)).await?;
        }
        self.drop_routines_of(&routines).await?;
        // What went with these has been told.
        self.notices.truncate(notices);
        dict::drop_type(&self.ctx, &txn, &ty).await?;
        Ok(true)
    }

    /// A type's name as messages have it.
    async fn shown_type(&mut self, ty: &TypeDef) -> Result<String> {
        let visible = self.find_type(None, &ty.name).await?;
        if visible.is_some_and(|found| found.obj == ty.obj) {
            return Ok(quote_ident(&ty.name));
        }
        Ok(format!("{}.{}", quote_ident(&ty.schema), quote_ident(&ty.name)))
    }

    pub(super) async fn comment_on_type(
        &mut self,
        name: &ObjectName,
        comment: Option<&str>,
    ) -> Result<()> {
        let ty = self.type_named(name).await?;
        self.check_owner("type", &ty.name, ty.owner).await?;
        let txn = self.transaction()?;
        dict::alter_type(&self.ctx, &txn, &ty, TypeChange::Comment(comment)).await?;
        Ok(())
    }

    /// 42501 unless the role may make columns of these types.
    pub(super) async fn check_types(
        &mut self,
        columns: impl Iterator<Item = &dict::ColumnDef>,
    ) -> Result<()> {
        let enums = columns.filter(|column| column.ty.kind == TypeKind::Enum);
        let types: Vec<_> = enums.filter_map(|column| column.ty.enum_type()).collect();
        if types.is_empty() || self.is_superuser().await? {
            return Ok(());
        }
        let (known, roles) = (self.user_types().await?, self.roles().await?);
        for def in types {
            let Some(ty) = known.by_obj(def.obj) else { continue };
            let own = (AclKind::Type, ty.owner);
            let held = crate::access::held(&roles, self.identity.role, own, ty.acl.as_ref());
            if !held.has(Privileges::USAGE) {
                return Err(crate::access::denied("type", &ty.name));
            }
        }
        Ok(())
    }
}

/// Whether an expression that is kept with a table names the type.
fn names_type(def: &TableDef, ty: &TypeDef) -> Result<bool> {
    let defaults = def.columns.iter().filter_map(|column| column.default.as_deref());
    for text in defaults.chain(def.checks.iter().map(|check| check.expr.as_str())) {
        let mut expr = crate::direct::parse_expr(text)?;
        mark_in_table(&mut expr, def);
        if named_types(&expr).contains(&ty.obj) {
            return Ok(true);
        }
    }
    Ok(false)
}
