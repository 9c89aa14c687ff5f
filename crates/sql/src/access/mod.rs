//! Who runs a statement, and whether that role may: roles, privileges, owners.
//!
//! What it promises: a statement is checked when it is planned, or when it runs if it has no plan;
//! a plan depends on the versions of the lists of rights it was checked by and on the role it was
//! checked for, so a REVOKE on any instance counts for the next statement on every other and a
//! plan that is found costs no look-up. What it must never do: let a name of a role decide where
//! the role's number is known.

mod default;
pub(crate) mod functions;
mod grant;
mod identity;
mod member;
mod owned;
mod owner;
mod read;
mod role;
mod statement;
mod system;
pub(crate) mod view;
mod words;

pub(crate) use identity::Identity;
pub(crate) use read::{ReadBy, Target};
pub use role::set_password_hasher;
pub(crate) use statement::{Access, RoleName};
pub(crate) use words::parse;

use crate::session::Session;
use crate::{PgError, Result};
use block::ObjId;
use kernel::dict::{self, Acl, AclKind, Privileges, Roles, SchemaDef, SequenceDef, TableDef};
use std::sync::Arc;

/// 42501.
pub(crate) fn denied(kind: &str, name: &str) -> PgError {
    PgError::new("42501", format!("permission denied for {kind} {name}"))
}

/// 42501.
pub(crate) fn must_own(kind: &str, name: &str) -> PgError {
    PgError::new("42501", format!("must be owner of {kind} {name}"))
}

/// 42704.
pub(crate) fn no_role(name: &str) -> PgError {
    PgError::new("42704", format!("role \"{name}\" does not exist"))
}

pub(crate) fn relation_word(def: &TableDef) -> &'static str {
    match (&def.view, &def.materialized) {
        (Some(_), _) => "view",
        (None, Some(_)) => "materialized view",
        (None, None) => "table",
    }
}

/// What a role may do with something, its memberships included.
pub(crate) fn held(
    roles: &Roles,
    role: ObjId,
    (kind, owner): (AclKind, ObjId),
    acl: Option<&Acl>,
) -> Privileges {
    if roles.is_superuser(role) {
        return kind.all();
    }
    let above = roles.above(role, true);
    let own = match acl {
        Some(acl) => acl.privileges_of(&above),
        None => Acl::default_of(kind, owner).privileges_of(&above),
    };
    let mut more = Privileges::NONE;
    let (reads, writes) =
        (above.contains(&dict::READ_ALL_DATA), above.contains(&dict::WRITE_ALL_DATA));
    match kind {
        AclKind::Relation => {
            if reads {
                more = more.with(Privileges::SELECT);
            }
            if writes {
                let all = Privileges::INSERT.with(Privileges::UPDATE).with(Privileges::DELETE);
                more = more.with(all);
            }
        }
        AclKind::Sequence => {
            if reads {
                more = more.with(Privileges::SELECT);
            }
            if writes {
                more = more.with(Privileges::UPDATE).with(Privileges::USAGE);
            }
        }
        AclKind::Schema if reads || writes => more = Privileges::USAGE,
        _ => {}
    }
    own.with(more.and(kind.all()))
}

/// What a role may do with one column beside what it may do with the whole relation.
pub(crate) fn held_on_column(
    roles: &Roles,
    role: ObjId,
    def: &TableDef,
    column: usize,
) -> Privileges {
    let acl = def.columns.get(column).and_then(|column| column.acl.as_ref());
    held(roles, role, (AclKind::Column, def.owner), acl)
}

impl Session {
    /// All roles as they are now.
    pub(crate) async fn roles(&mut self) -> Result<Arc<Roles>> {
        self.begin_if_needed();
        let txn = self.transaction()?;
        Ok(dict::roles(&self.ctx, &txn).await?)
    }

    /// Whose rights count: the current role's, or the owner's of the view that is being read.
    pub(crate) fn acting(&self) -> ObjId {
        self.check_as.unwrap_or(self.identity.role)
    }

    /// What a plan depends on beside its objects: who is a member of what. Nothing can be said of
    /// the role that everything belongs to.
    pub(crate) async fn roles_version(&mut self) -> Result<Option<(ObjId, u64)>> {
        if self.identity.role == dict::SUPERUSER_OBJ {
            return Ok(None);
        }
        let roles = env::boxed!(self.roles()).await?;
        Ok(Some((dict::ROLES_OBJ, roles.version)))
    }

    pub(crate) async fn is_superuser(&mut self) -> Result<bool> {
        if self.identity.role == dict::SUPERUSER_OBJ {
            return Ok(true);
        }
        let role = self.identity.role;
        Ok(self.roles().await?.is_superuser(role))
    }

    /// Whether the current role has what another one has, without SET ROLE.
    pub(crate) async fn has_role(&mut self, of: ObjId) -> Result<bool> {
        let role = self.identity.role;
        if role == of || role == dict::SUPERUSER_OBJ {
            return Ok(true);
        }
        let roles = self.roles().await?;
        Ok(roles.is_superuser(role) || roles.above(role, true).contains(&of))
    }

    pub(crate) async fn check_owner(&mut self, kind: &str, name: &str, owner: ObjId) -> Result<()> {
        if self.has_role(owner).await? { Ok(()) } else { Err(must_own(kind, name)) }
    }

    /// What the acting role may do with a table or view.
    pub(crate) async fn held_on(&mut self, def: &TableDef) -> Result<Privileges> {
        let role = self.acting();
        let system = def.schema == dict::SYS;
        if role == dict::SUPERUSER_OBJ && !system {
            return Ok(AclKind::Relation.all());
        }
        let roles = self.roles().await?;
        if system {
            // The dictionary is changed by its own statements only, and it holds passwords.
            let reads = roles.is_superuser(role);
            return Ok(if reads { Privileges::SELECT } else { Privileges::NONE });
        }
        Ok(held(&roles, role, (AclKind::Relation, def.owner), def.acl.as_ref()))
    }

    /// All of these privileges on a whole table or view.
    pub(crate) async fn check_relation(
        &mut self,
        def: &TableDef,
        wanted: Privileges,
    ) -> Result<()> {
        self.check_changes(def, wanted)?;
        if self.held_on(def).await?.has(wanted) {
            return Ok(());
        }
        Err(denied(relation_word(def), &def.name))
    }

    /// 42809 for changes of a materialized view's rows but by REFRESH.
    pub(crate) fn check_changes(&self, def: &TableDef, wanted: Privileges) -> Result<()> {
        let changes = [Privileges::INSERT, Privileges::UPDATE, Privileges::DELETE];
        if def.materialized.is_some()
            && self.refreshed != Some(def.obj)
            && changes.into_iter().any(|change| wanted.has(change))
        {
            let text = format!("cannot change materialized view \"{}\"", def.name);
            return Err(PgError::new("42809", text));
        }
        Ok(())
    }

    /// A privilege on the whole table or view, or on each of these columns; of none, on any.
    pub(crate) async fn check_columns(
        &mut self,
        def: &TableDef,
        wanted: Privileges,
        columns: &[usize],
    ) -> Result<()> {
        self.check_changes(def, wanted)?;
        if self.held_on(def).await?.has(wanted) {
            return Ok(());
        }
        let (role, roles) = (self.acting(), self.roles().await?);
        if def.schema == dict::SYS {
            return Err(denied(relation_word(def), &def.name));
        }
        let may = |column: &usize| held_on_column(&roles, role, def, *column).has(wanted);
        let all = match columns {
            [] => (0..def.columns.len()).any(|column| may(&column)),
            some => some.iter().all(may),
        };
        if all { Ok(()) } else { Err(denied(relation_word(def), &def.name)) }
    }

    /// Any of these privileges on a sequence.
    pub(crate) async fn check_sequence(
        &mut self,
        def: &SequenceDef,
        any_of: Privileges,
    ) -> Result<()> {
        let role = self.acting();
        if role == dict::SUPERUSER_OBJ {
            return Ok(());
        }
        let roles = self.roles().await?;
        let own = held(&roles, role, (AclKind::Sequence, def.owner), def.acl.as_ref());
        if own.meets(any_of) { Ok(()) } else { Err(denied("sequence", &def.name)) }
    }

    /// What the current role may do in a schema; temporary ones are the session's own.
    pub(crate) fn held_in(&self, roles: &Roles, schema: &SchemaDef) -> Privileges {
        let owner = (AclKind::Schema, schema.owner);
        held(roles, self.identity.role, owner, schema.acl.as_ref())
    }

    /// 42501 unless the current role may make something in the schema.
    pub(crate) async fn check_create_in(&mut self, schema: &str) -> Result<()> {
        self.check_schema(schema, Privileges::CREATE).await
    }

    pub(crate) async fn check_schema(&mut self, schema: &str, wanted: Privileges) -> Result<()> {
        if self.identity.role == dict::SUPERUSER_OBJ || crate::ddl::is_temporary(schema) {
            return Ok(());
        }
        let txn = self.transaction()?;
        let schemas = dict::schemas(&self.ctx, &txn).await?;
        let Some(found) = schemas.find(schema) else {
            // The system's own are open to look into and closed to everything else.
            let open = wanted == Privileges::USAGE;
            return if open { Ok(()) } else { Err(denied("schema", schema)) };
        };
        let roles = self.roles().await?;
        if self.held_in(&roles, found).has(wanted) {
            return Ok(());
        }
        Err(denied("schema", schema))
    }

    /// 42501 unless the current role has this on the database.
    pub(crate) async fn check_database(&mut self, wanted: Privileges) -> Result<()> {
        let (role, roles) = (self.identity.role, self.roles().await?);
        let owner = (AclKind::Database, roles.owner);
        if held(&roles, role, owner, roles.acl.as_ref()).has(wanted) {
            return Ok(());
        }
        Err(denied("database", crate::DATABASE))
    }

    pub(crate) async fn run_access(&mut self, access: &Access) -> Result<String> {
        if !access.is_setting() {
            self.check_writable("GRANT")?;
        }
        match access {
            Access::Grant(spec) => self.grant(spec).await,
            Access::Members { grant, roles, members, admin, granted_by, cascade: _ } => {
                let by = granted_by.as_ref();
                self.change_members(*grant, (roles, members), *admin, by).await
            }
            Access::Defaults { roles, schemas, spec } => {
                self.default_privileges(roles, schemas, spec).await
            }
            Access::CreateRole { login, name, if_not_exists, options } => {
                self.create_role(name, *login, *if_not_exists, options).await
            }
            Access::AlterRole { name, options } => self.alter_role(name, options).await,
            Access::RenameRole { name, to } => self.rename_role(name, to).await,
            Access::RoleSetting { role, setting } => {
                self.set_for_role(role.as_ref(), setting).await
            }
            Access::DropRoles { names, if_exists, users, cascade } => {
                self.drop_roles(names, *if_exists, *users, *cascade).await
            }
            Access::Reassign { from, to } => self.reassign_owned(from, to).await,
            Access::DropOwned { roles, cascade } => self.drop_owned(roles, *cascade).await,
            Access::Owner { class, if_exists, name, to } => {
                self.change_owner(class, *if_exists, name, to).await
            }
            Access::SetRole { name, local } => self.set_role(name.as_deref(), *local).await,
            Access::SetSession { name, local } => {
                self.set_session_authorization(name.as_deref(), *local).await
            }
        }
    }
}
