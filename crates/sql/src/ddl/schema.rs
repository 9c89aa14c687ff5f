//! CREATE and DROP SCHEMA, and what moves between schemas.
//!
//! What it promises: a schema goes with everything in it or not at all. What it must never do: drop
//! what others depend on without CASCADE.

use super::depend::{Thing, depended_on, kind_of};
use super::refuse;
use super::sequence_use::qualified;
use crate::bind::{ident_name, object_parts};
use crate::routines::ddl::place;
use crate::session::Session;
use crate::view::Change;
use crate::{PgError, Result, Severity};
use datafusion::sql::sqlparser::ast::{ObjectName, SchemaName};
use kernel::dict::{self, AclKind, Privileges, SchemaDef, TableDef};
use kernel::txn::TmMode;
use query::functions::quote_ident;
use std::sync::Arc;

/// 3F000.
pub(crate) fn missing_schema(name: &str) -> PgError {
    PgError::new("3F000", format!("schema \"{name}\" does not exist"))
}

fn one_name(name: &ObjectName) -> Result<String> {
    match &object_parts(name)?[..] {
        [one] => Ok(one.clone()),
        _ => Err(PgError::syntax("a name of a schema is expected")),
    }
}

fn check_not_system(name: &str) -> Result<()> {
    if !name.starts_with("pg_") {
        return Ok(());
    }
    let text = format!("unacceptable schema name \"{name}\"");
    let detail = "The prefix \"pg_\" is reserved for system schemas.";
    Err(PgError::new("42939", text).with_detail(detail))
}

impl Session {
    pub(super) async fn create_schema(
        &mut self,
        name: &SchemaName,
        if_not_exists: bool,
    ) -> Result<String> {
        let (name, role) = match name {
            SchemaName::Simple(name) => (one_name(name)?, None),
            SchemaName::UnnamedAuthorization(role) => (ident_name(role), Some(ident_name(role))),
            SchemaName::NamedAuthorization(name, role) => (one_name(name)?, Some(ident_name(role))),
        };
        let done = || Ok("CREATE SCHEMA".to_owned());
        let txn = self.transaction()?;
        let mut owner = self.owner();
        if let Some(role) = role {
            let role = match role.as_str() {
                "current_user" | "session_user" | "current_role" => self.user.clone(),
                _ => role,
            };
            let found = dict::user(&self.ctx, &txn, &role).await?;
            let missing = || PgError::new("42704", format!("role \"{role}\" does not exist"));
            owner = found.ok_or_else(missing)?.obj;
            let (own, roles) = (self.identity.role, self.roles().await?);
            if !roles.is_member(own, owner) {
                let text = format!("must be member of role \"{role}\"");
                return Err(PgError::new("42501", text));
            }
        }
        self.check_database(Privileges::CREATE).await?;
        check_not_system(&name)?;
        let exists = || format!("schema \"{name}\" already exists");
        let known = dict::schemas(&self.ctx, &txn).await?.find(&name).is_some();
        if known && if_not_exists {
            self.notice(Severity::Notice, format!("{}, skipping", exists()));
            return done();
        }
        match dict::create_schema(&self.ctx, &txn, &name, owner).await {
            Ok(()) => {
                let kind = AclKind::Schema;
                self.give_default_rights(kind, &name, block::ObjId(0)).await?;
                done()
            }
            Err(kernel::Error::DuplicateObject(_)) => Err(PgError::new("42P06", exists())),
            Err(other) => Err(other.into()),
        }
    }

    /// Whether there was such a schema; it is gone now.
    pub(crate) async fn drop_schema(&mut self, name: &str, cascade: bool) -> Result<bool> {
        let txn = self.transaction()?;
        if dict::RESERVED_SCHEMAS.contains(&name) {
            let text =
                format!("cannot drop schema {name} because it is required by the database system");
            return Err(PgError::new("2BP01", text));
        }
        let found = dict::schemas(&self.ctx, &txn).await?.find(name).cloned();
        let Some(schema) = found else { return Ok(false) };
        self.check_owner("schema", name, schema.owner).await?;
        self.drop_known_schema(&schema, cascade).await?;
        Ok(true)
    }

    /// Drops a schema; that one may has been asked before.
    pub(crate) async fn drop_known_schema(
        &mut self,
        schema: &SchemaDef,
        cascade: bool,
    ) -> Result<()> {
        let txn = self.transaction()?;
        // Nobody makes anything in it from here on.
        let (obj, wait) = (schema.obj, kernel::txn::LockWait::Wait);
        let core = &self.instance.core;
        core.lock_table(&self.ctx, &txn, obj, kernel::txn::TmMode::X, wait).await?;
        self.empty_schema(schema, cascade).await?;
        dict::drop_schema(&self.ctx, &txn, schema).await?;
        self.forget_defaults(schema.obj).await
    }

    /// ALTER SCHEMA .. RENAME TO: what is in it moves along.
    pub(super) async fn rename_schema(&mut self, name: &str, new: &str) -> Result<String> {
        let txn = self.transaction()?;
        let found = dict::schemas(&self.ctx, &txn).await?.find(name).cloned();
        let missing = || match dict::RESERVED_SCHEMAS.contains(&name) {
            true => crate::access::denied("schema", name),
            false => missing_schema(name),
        };
        let schema = found.ok_or_else(missing)?;
        let exists = || PgError::new("42P06", format!("schema \"{new}\" already exists"));
        let known = dict::schemas(&self.ctx, &txn).await?;
        if known.find(new).is_some() || dict::RESERVED_SCHEMAS.contains(&new) {
            return Err(exists());
        }
        self.check_owner("schema", name, schema.owner).await?;
        self.check_database(Privileges::CREATE).await?;
        check_not_system(new)?;
        let renamed = dict::rename_schema(&self.ctx, &txn, &schema, new).await;
        renamed.map_err(|error| match error {
            kernel::Error::DuplicateObject(_) => exists(),
            other => other.into(),
        })?;
        let relations = dict::tables(&self.ctx, &txn).await?.into_iter();
        let relations = relations.chain(dict::views(&self.ctx, &txn).await?);
        let inside: Vec<_> =
            relations.filter(|def| def.schema == name).map(|def| def.obj).collect();
        for obj in &inside {
            // Each as it is now: a view's text names what has moved before it.
            if let Some(def) = dict::table_by_obj(&self.ctx, &txn, *obj).await? {
                self.move_relation(&def, new).await?;
            }
        }
        for one in dict::sequences(&self.ctx, &txn).await? {
            if one.schema == name {
                self.hold_sequence(one.obj, TmMode::X).await?;
                self.rename_in_defaults(&one, &qualified(new, &one.name)).await?;
                dict::move_sequence(&self.ctx, &txn, &one, new, &one.name).await?;
            }
        }
        for ty in self.user_types().await?.all.iter().filter(|ty| ty.schema == name) {
            self.move_type(ty, new).await?;
        }
        for one in self.routines().await?.all.iter().filter(|one| one.schema == name) {
            self.check_uncalled(one).await?;
            let change = dict::RoutineChange::Schema(place(one, new));
            dict::alter_routine(&self.ctx, &txn, one, change).await?;
        }
        Ok("ALTER SCHEMA".to_owned())
    }

    /// The rights that new objects get in a schema go with it.
    async fn forget_defaults(&mut self, schema: block::ObjId) -> Result<()> {
        let txn = self.transaction()?;
        let roles = dict::roles(&self.ctx, &txn).await?;
        for one in roles.defaults.iter().filter(|one| one.schema == Some(schema)) {
            let (role, kind) = (one.role, one.kind);
            let target = dict::AclTarget::Default { role, schema: one.schema, kind };
            dict::change_acl(&self.ctx, &txn, target, |_| None).await?;
        }
        Ok(())
    }

    async fn empty_schema(&mut self, schema: &SchemaDef, cascade: bool) -> Result<()> {
        let txn = self.transaction()?;
        let inside = |def: &Arc<TableDef>| def.schema == schema.name;
        let mut relations: Vec<Arc<TableDef>> =
            dict::tables(&self.ctx, &txn).await?.into_iter().filter(inside).collect();
        relations.extend(dict::views(&self.ctx, &txn).await?.into_iter().filter(inside));
        let sequences = dict::sequences(&self.ctx, &txn).await?;
        let owned = |table: block::ObjId| relations.iter().any(|def| def.obj == table);
        let sequences: Vec<_> = sequences
            .into_iter()
            .filter(|one| one.schema == schema.name && !one.table.is_some_and(owned))
            .collect();
        let shown = quote_ident(&schema.name);
        let mut inside = Vec::new();
        for def in &relations {
            inside.push((def.obj, format!("{} {}", kind_of(def), self.shown_relation(def).await?)));
        }
        let visible = self.schemas_for(None).await?.contains(&schema.name);
        let prefix = if visible { String::new() } else { format!("{shown}.") };
        for one in &sequences {
            inside.push((one.obj, format!("sequence {prefix}{}", quote_ident(&one.name))));
        }
        let types = self.user_types().await?;
        let types: Vec<_> = types.all.iter().filter(|ty| ty.schema == schema.name).collect();
        for ty in &types {
            inside.push((ty.obj, format!("type {prefix}{}", quote_ident(&ty.name))));
        }
        let routines = self.routines().await?;
        let routines: Vec<_> =
            routines.all.iter().filter(|one| one.schema == schema.name).cloned().collect();
        for one in &routines {
            let word = if one.body.procedure { "procedure" } else { "function" };
            inside.push((one.obj, format!("{word} {}", self.shown_routine(one).await?)));
        }
        inside.sort_by_key(|(obj, _)| *obj);
        let mut told: Vec<String> = inside.into_iter().map(|(_, shown)| shown).collect();
        let mut said: Vec<String> =
            told.iter().map(|one| format!("{one} depends on schema {shown}")).collect();
        // What stands outside and depends on what is inside goes too.
        let (mut views, mut others) = (Vec::new(), Vec::new());
        for def in &relations {
            for one in self.dependents_of(def, None).await? {
                let goes = |obj| relations.iter().any(|other| other.obj == obj);
                let outside = match one.what {
                    Thing::View(view)
                        if goes(view.obj)
                            || views.iter().any(|known: &Arc<TableDef>| known.obj == view.obj) =>
                    {
                        false
                    }
                    Thing::View(view) => {
                        views.push(view);
                        true
                    }
                    Thing::Key(child, key) => {
                        let outside = !goes(child.obj);
                        others.push(Thing::Key(child, key));
                        outside
                    }
                    Thing::Routine(routine) => {
                        let outside = routine.schema != schema.name;
                        others.push(Thing::Routine(routine));
                        outside
                    }
                    // No default calls a relation.
                    Thing::Default(..) => false,
                };
                if outside {
                    said.push(one.said);
                    told.push(one.shown);
                }
            }
        }
        let goes = |obj| relations.iter().any(|other| other.obj == obj);
        let mut defaults = self.defaults_on_owned(goes).await?;
        for one in &sequences {
            self.hold_sequence(one.obj, TmMode::X).await?;
            defaults.extend(self.defaults_on(one, goes).await?);
        }
        for one in defaults {
            said.push(one.said);
            told.push(one.shown);
            others.push(one.what);
        }
        if told.is_empty() {
            return Ok(());
        }
        if !cascade {
            return Err(depended_on(&format!("schema {shown}"), &said));
        }
        self.notice_cascade(&told);
        relations.extend(views);
        for other in &others {
            self.drop_dependent(other).await?;
        }
        let views = relations.iter().filter(|def| def.view.is_some());
        for view in views {
            dict::drop_view(&self.ctx, &txn, view).await?;
        }
        for table in relations.iter().filter(|def| def.view.is_none()) {
            dict::drop_table(&self.ctx, &txn, table).await?;
        }
        for sequence in &sequences {
            dict::drop_sequence(&self.ctx, &txn, sequence).await?;
        }
        // Views elsewhere that call them go too.
        for one in &routines {
            // It may have gone with a table of which it gives rows.
            if self.routines().await?.by_obj(one.obj).is_some() {
                env::boxed!(self.drop_routine(one, true)).await?;
            }
        }
        // Columns of them elsewhere go too.
        for ty in types {
            env::boxed!(self.drop_type(Some(&ty.schema), &ty.name, true)).await?;
        }
        Ok(())
    }

    /// Whether something may be moved into a schema.
    pub(super) async fn check_move(&mut self, schema: &str) -> Result<()> {
        if dict::RESERVED_SCHEMAS.contains(&schema) || schema.starts_with(dict::TEMP_PREFIX) {
            return refuse(format!("moving into schema \"{schema}\""));
        }
        let txn = self.transaction()?;
        if dict::schemas(&self.ctx, &txn).await?.find(schema).is_none() {
            return Err(missing_schema(schema));
        }
        self.check_create_in(schema).await
    }

    /// ALTER TABLE and ALTER VIEW .. SET SCHEMA.
    pub(super) async fn set_schema(&mut self, def: &Arc<TableDef>, schema: &str) -> Result<()> {
        self.check_move(schema).await?;
        if def.schema == schema {
            return Ok(());
        }
        self.move_relation(def, schema).await
    }

    async fn move_relation(&mut self, def: &Arc<TableDef>, schema: &str) -> Result<()> {
        let txn = self.transaction()?;
        let sequences: Vec<_> = dict::sequences(&self.ctx, &txn)
            .await?
            .into_iter()
            .filter(|one| one.table == Some(def.obj))
            .collect();
        for one in &sequences {
            self.hold_sequence(one.obj, TmMode::X).await?;
            self.rename_in_defaults(one, &qualified(schema, &one.name)).await?;
        }
        let def = &self.altered(def).await?;
        let done = dict::set_schema(&self.ctx, &txn, def, &sequences, schema).await;
        done.map_err(|error| match error {
            kernel::Error::DuplicateObject(what) => exists_in(&what, schema),
            other => other.into(),
        })?;
        let change =
            Change::Object { obj: def.obj, schema: schema.to_owned(), name: def.name.clone() };
        self.rewrite_views(def, &change).await
    }
}

pub(super) fn exists_in(what: &str, schema: &str) -> PgError {
    PgError::new("42P07", format!("{what} already exists in schema \"{schema}\""))
}
