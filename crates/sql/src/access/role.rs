//! CREATE, ALTER and DROP ROLE.
//!
//! What it promises: the dictionary holds verifiers only; who may not make superusers makes none.
//! What it must never do: keep or show a password.

use super::no_role;
use super::statement::{RoleName, RoleOption, RoleSetting};
use crate::session::Session;
use crate::settings::Settings;
use crate::{PgError, Result, Severity};
use block::ObjId;
use kernel::dict::{
    self, Acl, AclKind, AclTarget, ObjectKind, Privileges, RoleUse, Roles, UserDef,
};
use kernel::row::{ColType, TypeKind, Value};
use std::sync::OnceLock;

/// Makes the verifier of a password.
type Hasher = fn(&str) -> String;

static HASHER: OnceLock<Hasher> = OnceLock::new();

/// Tells how passwords become verifiers; the server's log-on code knows. Only the first call
/// counts.
pub fn set_password_hasher(hasher: Hasher) {
    let _ = HASHER.set(hasher);
}

fn verifier(password: Option<&str>) -> Result<Option<String>> {
    let Some(text) = password else { return Ok(None) };
    // psql's \password sends the verifier, so that the password never travels.
    if text.starts_with("SCRAM-SHA-256$") {
        return Ok(Some(text.to_owned()));
    }
    match HASHER.get() {
        Some(hasher) => Ok(Some(hasher(text))),
        None => Err(PgError::unsupported("a password in clear text")
            .with_hint("Give a SCRAM-SHA-256 verifier, as psql's \\password does.")),
    }
}

fn plain_name(name: &RoleName) -> Result<&str> {
    let reserved =
        |name: &str| Err(PgError::new("42939", format!("role name \"{name}\" is reserved")));
    match name {
        RoleName::Named(name) if name == "none" => reserved(name),
        RoleName::Named(name) if name.starts_with("pg_") => {
            let detail = "Role names starting with \"pg_\" are reserved.";
            reserved(name).map_err(|error| error.with_detail(detail))
        }
        RoleName::Named(name) => Ok(name),
        RoleName::Public => reserved("public"),
        RoleName::Current => {
            Err(PgError::new("42939", "CURRENT_USER cannot be used as a role name here"))
        }
        RoleName::Session => {
            Err(PgError::new("42939", "SESSION_USER cannot be used as a role name here"))
        }
    }
}

fn refused(text: &str) -> PgError {
    PgError::new("42501", text.to_owned())
}

impl Session {
    /// What an option makes of a role's definition.
    fn apply(&self, user: &mut UserDef, option: &RoleOption) -> Result<()> {
        match option {
            RoleOption::Superuser(on) => user.superuser = *on,
            RoleOption::CreateDb(on) => user.create_db = *on,
            RoleOption::CreateRole(on) => user.create_role = *on,
            RoleOption::Inherit(on) => user.inherit = *on,
            RoleOption::Login(on) => user.login = *on,
            RoleOption::Replication(on) => user.replication = *on,
            RoleOption::BypassRls(on) => user.bypass_rls = *on,
            RoleOption::Connections(limit) => {
                let limit = i32::try_from(*limit).ok().filter(|limit| *limit >= -1);
                user.connections = limit
                    .ok_or_else(|| PgError::new("22023", "invalid connection limit".to_owned()))?;
            }
            RoleOption::Password(password) => user.verifier = verifier(password.as_deref())?,
            RoleOption::ValidUntil(text) => {
                user.valid_until = match text.trim() {
                    "infinity" => Some(i64::MAX),
                    text => {
                        let ty = ColType::new(TypeKind::Timestamptz);
                        match query::cast::parse_text(text, ty, &self.format_env())? {
                            Value::Timestamptz(us) => Some(us),
                            _ => None,
                        }
                    }
                };
            }
            RoleOption::InRole(_)
            | RoleOption::Members(_)
            | RoleOption::Admin(_)
            | RoleOption::OwnSchema => {}
        }
        Ok(())
    }

    pub(super) async fn create_role(
        &mut self,
        name: &RoleName,
        login: bool,
        if_not_exists: bool,
        options: &[RoleOption],
    ) -> Result<String> {
        let (own, roles) = (self.identity.role, self.roles().await?);
        let superuser = roles.is_superuser(own);
        let asks = |wanted: fn(&RoleOption) -> bool| options.iter().any(wanted);
        if !superuser {
            if asks(|o| matches!(o, RoleOption::Superuser(true))) {
                return Err(refused("must be superuser to create superusers"));
            }
            if asks(|o| matches!(o, RoleOption::Replication(true))) {
                return Err(refused("must be superuser to create replication users"));
            }
            if asks(|o| matches!(o, RoleOption::BypassRls(true))) {
                return Err(refused("must be superuser to create bypassrls users"));
            }
            if !roles.of(own).is_some_and(|user| user.create_role) {
                return Err(refused("permission denied to create role"));
            }
        }
        let name = plain_name(name)?;
        if roles.find(name).is_some() {
            let text = format!("role \"{name}\" already exists");
            if if_not_exists {
                self.notice(Severity::Notice, format!("{text}, skipping"));
                return Ok("CREATE ROLE".to_owned());
            }
            return Err(PgError::new("42710", text));
        }
        let mut user = UserDef { login, ..UserDef::new(ObjId(0), name) };
        for option in options {
            self.apply(&mut user, option)?;
        }
        let txn = self.transaction()?;
        let made = dict::create_user(&self.ctx, &txn, &user).await?;
        for option in options {
            let (names, above, admin) = match option {
                RoleOption::InRole(names) => (names, true, false),
                RoleOption::Members(names) => (names, false, false),
                RoleOption::Admin(names) => (names, false, true),
                _ => continue,
            };
            for other in names {
                let other = self.role_named(other).await?;
                if above {
                    self.check_admin(&other).await?;
                }
                let (role, member) = if above { (&*other, &made) } else { (&made, &*other) };
                self.change_one_member(true, role, member, admin, own).await?;
            }
        }
        if asks(|o| matches!(o, RoleOption::OwnSchema)) {
            self.make_own_schema(&made).await?;
        }
        Ok("CREATE ROLE".to_owned())
    }

    /// The schema that the names of a new role are looked up in first. One that is there already
    /// stays who it belongs to.
    async fn make_own_schema(&mut self, user: &UserDef) -> Result<()> {
        self.check_database(Privileges::CREATE).await.map_err(|error| {
            error.with_hint("IDENTIFIED BY makes a schema for the user; LOGIN PASSWORD does not.")
        })?;
        let (txn, name) = (self.transaction()?, &user.name);
        match dict::create_schema(&self.ctx, &txn, name, user.obj).await {
            Ok(()) => {
                // In the field rights on what is in it are all that is asked for.
                let mut acl = Acl::default_of(AclKind::Schema, user.obj);
                acl.grant(dict::EVERYBODY, user.obj, Privileges::USAGE, Privileges::NONE);
                let target = AclTarget::Schema(name);
                dict::change_acl(&self.ctx, &txn, target, |_| Some(acl.clone())).await?;
                Ok(())
            }
            Err(kernel::Error::DuplicateObject(_)) => {
                let text = format!("schema \"{name}\" already exists, and stays as it is");
                self.notice(Severity::Notice, text);
                Ok(())
            }
            Err(other) => Err(other.into()),
        }
    }

    pub(super) async fn alter_role(
        &mut self,
        name: &RoleName,
        options: &[RoleOption],
    ) -> Result<String> {
        let user = self.role_named(name).await?;
        if user.name.starts_with("pg_") {
            plain_name(name)?;
        }
        let (own, roles) = (self.identity.role, self.roles().await?);
        if !roles.is_superuser(own) {
            let asks = |wanted: fn(&RoleOption) -> bool| options.iter().any(wanted);
            if user.superuser || asks(|o| matches!(o, RoleOption::Superuser(_))) {
                let text =
                    "must be superuser to alter superuser roles or change superuser attribute";
                return Err(refused(text));
            }
            if user.replication || asks(|o| matches!(o, RoleOption::Replication(_))) {
                let text = "must be superuser to alter replication roles or change replication \
                            attribute";
                return Err(refused(text));
            }
            if asks(|o| matches!(o, RoleOption::BypassRls(_))) {
                return Err(refused("must be superuser to change bypassrls attribute"));
            }
            // Everybody may change the own password.
            let own_password = user.obj == own
                && options.iter().all(|option| matches!(option, RoleOption::Password(_)));
            if !roles.of(own).is_some_and(|user| user.create_role) && !own_password {
                return Err(refused("permission denied"));
            }
        }
        if user.obj == dict::SUPERUSER_OBJ && options.contains(&RoleOption::Superuser(false)) {
            let text = "the bootstrap user must have the SUPERUSER attribute";
            return Err(PgError::unsupported(text));
        }
        let mut new = (*user).clone();
        for option in options {
            self.apply(&mut new, option)?;
        }
        let txn = self.transaction()?;
        // Somebody else may have changed the role since it was looked at: what is not named stays
        // as it is now, and the role may have become one that only a superuser may change.
        let mut forbidden = false;
        let superuser = roles.is_superuser(own);
        dict::alter_user(&self.ctx, &txn, &user.name, |now| {
            forbidden = !superuser && (now.superuser || now.replication);
            now.take_changes(&user, new);
        })
        .await?;
        if forbidden {
            let text = "must be superuser to alter superuser roles or change superuser attribute";
            return Err(refused(text));
        }
        Ok("ALTER ROLE".to_owned())
    }

    pub(super) async fn rename_role(&mut self, name: &RoleName, to: &str) -> Result<String> {
        let user = self.role_named(name).await?;
        plain_name(name)?;
        plain_name(&RoleName::Named(to.to_owned()))?;
        for (number, what) in [(self.identity.session, "session"), (self.identity.role, "current")]
        {
            if user.obj == number {
                return Err(PgError::unsupported(format!("{what} user cannot be renamed")));
            }
        }
        let (own, roles) = (self.identity.role, self.roles().await?);
        if !roles.is_superuser(own) {
            if user.superuser {
                return Err(refused("must be superuser to rename superusers"));
            }
            if !roles.of(own).is_some_and(|user| user.create_role) {
                return Err(refused("permission denied to rename role"));
            }
        }
        if roles.find(to).is_some() {
            return Err(PgError::new("42710", format!("role \"{to}\" already exists")));
        }
        if user.obj == dict::SUPERUSER_OBJ {
            return Err(PgError::unsupported("another name for the user who owns the dictionary"));
        }
        let txn = self.transaction()?;
        let new = to.to_owned();
        dict::alter_user(&self.ctx, &txn, &user.name, |user| user.name = new).await?;
        Ok("ALTER ROLE".to_owned())
    }

    pub(super) async fn set_for_role(
        &mut self,
        role: Option<&RoleName>,
        setting: &RoleSetting,
    ) -> Result<String> {
        let Some(name) = role else {
            return Err(PgError::unsupported("settings for all roles")
                .with_hint("ALTER SYSTEM SET changes what sessions begin with."));
        };
        let user = self.role_named(name).await?;
        let (own, roles) = (self.identity.role, self.roles().await?);
        if !roles.is_superuser(own) {
            if user.superuser {
                let text =
                    "must be superuser to alter superuser roles or change superuser attribute";
                return Err(refused(text));
            }
            if user.obj != own && !roles.of(own).is_some_and(|user| user.create_role) {
                return Err(refused("permission denied"));
            }
        }
        let change = match setting {
            RoleSetting::Set(name, value) => Some((name.clone(), Some(value.clone()))),
            RoleSetting::FromCurrent(name) => {
                let value = self.show_setting(name);
                Some((name.clone(), Some(value.unwrap_or_default())))
            }
            RoleSetting::Reset(name) => Some((name.clone(), None)),
            RoleSetting::ResetAll => None,
        };
        if let Some((name, Some(value))) = &change {
            Settings::check(name, value)?;
        }
        let txn = self.transaction()?;
        dict::alter_user(&self.ctx, &txn, &user.name, |user| match change {
            None => user.config.clear(),
            Some((name, value)) => {
                user.config.retain(|(known, _)| *known != name);
                user.config.extend(value.map(|value| (name, value)));
            }
        })
        .await?;
        Ok("ALTER ROLE".to_owned())
    }

    pub(super) async fn drop_roles(
        &mut self,
        names: &[RoleName],
        if_exists: bool,
        users: bool,
        cascade: bool,
    ) -> Result<String> {
        let (own, roles) = (self.identity.role, self.roles().await?);
        if !roles.is_superuser(own) && !roles.of(own).is_some_and(|user| user.create_role) {
            return Err(refused("permission denied to drop role"));
        }
        for name in names {
            let RoleName::Named(name) = name else {
                let text = "cannot use special role specifier in DROP ROLE";
                return Err(PgError::new("22023", text));
            };
            let roles = self.roles().await?;
            let Some(user) = roles.find(name).cloned() else {
                if !if_exists {
                    return Err(no_role(name));
                }
                let text = format!("role \"{name}\" does not exist, skipping");
                self.notice(Severity::Notice, text);
                continue;
            };
            if user.obj == self.identity.role || user.obj == self.identity.login {
                return Err(PgError::new("55006", "current user cannot be dropped"));
            }
            if user.obj == self.identity.session {
                return Err(PgError::new("55006", "session user cannot be dropped"));
            }
            if user.superuser && !roles.is_superuser(own) {
                return Err(refused("must be superuser to drop superusers"));
            }
            if user.obj.0 < dict::USER_OBJ_MIN {
                let text = format!(
                    "cannot drop role {name} because it is required by the database system"
                );
                return Err(PgError::new("2BP01", text));
            }
            if cascade {
                self.drop_owned(&[RoleName::Named(name.clone())], true).await?;
            }
            let txn = self.transaction()?;
            let mut uses = dict::role_uses(&self.ctx, &txn, user.obj).await?;
            if users && matches!(&uses[..], [RoleUse::OwnsSchema(own)] if own == name) {
                // As it has come with the user: nothing of the user's is in it.
                let schemas = dict::schemas(&self.ctx, &txn).await?;
                if let Some(schema) = schemas.find(name) {
                    self.drop_known_schema(schema, false).await?;
                }
                let text = format!("the empty schema \"{name}\" goes with its user");
                self.notice(Severity::Notice, text);
                uses.clear();
            }
            if !uses.is_empty() {
                let lines: Vec<String> =
                    uses.iter().map(|one| use_line(one, &roles, user.obj)).collect();
                let text =
                    format!("role \"{name}\" cannot be dropped because some objects depend on it");
                return Err(PgError::new("2BP01", text)
                    .with_detail(lines.join("\n"))
                    .with_hint("DROP USER .. CASCADE drops what a role owns, too."));
            }
            dict::drop_user(&self.ctx, &txn, name).await?;
        }
        Ok("DROP ROLE".to_owned())
    }
}

/// What keeps a role, as a line of an error's detail.
fn use_line(found: &RoleUse, roles: &Roles, role: ObjId) -> String {
    let kind = |kind: &ObjectKind| match kind {
        ObjectKind::Table => "table",
        ObjectKind::View => "view",
        ObjectKind::Materialized => "materialized view",
        ObjectKind::Sequence => "sequence",
        ObjectKind::Index => "index",
    };
    let routine = |procedure: bool| if procedure { "procedure" } else { "function" };
    let short = |name: &str| name.strip_prefix("public.").unwrap_or(name).to_owned();
    match found {
        RoleUse::Owns(of, name, _) => format!("owner of {} {}", kind(of), short(name)),
        RoleUse::OwnsSchema(name) => format!("owner of schema {name}"),
        RoleUse::OwnsType(name, _) => format!("owner of type {}", short(name)),
        RoleUse::OwnsRoutine(procedure, name, _) => {
            format!("owner of {} {}", routine(*procedure), short(name))
        }
        RoleUse::RightsOnRoutine(procedure, name, _) => {
            format!("privileges for {} {}", routine(*procedure), short(name))
        }
        RoleUse::RightsOnType(name, _) => format!("privileges for type {}", short(name)),
        RoleUse::OwnsDatabase => format!("owner of database {}", crate::DATABASE),
        RoleUse::Rights(of, name, _) => format!("privileges for {} {}", kind(of), short(name)),
        RoleUse::RightsOnColumn { relation, column, .. } => {
            format!("privileges for column {column} of table {}", short(relation))
        }
        RoleUse::RightsOnSchema(name) => format!("privileges for schema {name}"),
        RoleUse::RightsOnDatabase => format!("privileges for database {}", crate::DATABASE),
        RoleUse::Defaults(of, owner, _) => {
            let what = match of {
                dict::AclKind::Relation => "relations",
                dict::AclKind::Sequence => "sequences",
                dict::AclKind::Function => "functions",
                dict::AclKind::Type => "types",
                _ => "schemas",
            };
            let owner = if *owner == role { role } else { *owner };
            let name = roles.name(owner);
            format!("default privileges on new {what} belonging to role {name}")
        }
    }
}
