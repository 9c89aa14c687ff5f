//! System privileges of the field, and the roles that every database there has: what they come to
//! here, where a role may log on or not, and makes things in schemas.
//!
//! What it promises: a privilege does here what it says, or is refused by name. What it must never
//! do: take the place of a role that somebody has made under such a name.

use super::statement::{GrantSpec, GrantTarget, Item, ObjectClass, RoleName, RoleOption};
use crate::session::Session;
use crate::{PgError, Result};
use kernel::dict::{self, UserDef};

/// What a privilege lets a role do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Meaning {
    LogOn,
    /// Tables and what belongs to them, in a schema of its own or else in `public`.
    Make,
    Everything,
    /// A role that has the right.
    Member(&'static str),
    /// What everybody may here.
    Nothing,
}

/// The meaning of `CREATE SESSION`, `RESOURCE` and their like.
pub(super) fn meaning(name: &str) -> Option<Meaning> {
    Some(match name {
        "connect" | "create session" => Meaning::LogOn,
        "resource"
        | "create table"
        | "create view"
        | "create materialized view"
        | "create sequence"
        | "create procedure"
        | "create type" => Meaning::Make,
        "dba" => Meaning::Everything,
        "select any table" => Meaning::Member("pg_read_all_data"),
        "select any dictionary" | "select_catalog_role" => Meaning::Member("pg_monitor"),
        "alter session" | "unlimited tablespace" => Meaning::Nothing,
        _ => return None,
    })
}

/// 0A000 for a system privilege without a counterpart.
pub(super) fn unknown(name: &str) -> PgError {
    let text = format!("the system privilege {}", name.to_uppercase());
    PgError::unsupported(text).with_hint(
        "LOGIN, CREATEROLE and SUPERUSER of a role, GRANT CREATE ON SCHEMA, pg_read_all_data and \
         pg_write_all_data are what there is.",
    )
}

impl Session {
    /// Gives a member what a system privilege means, or takes it back.
    pub(super) async fn change_system_privilege(
        &mut self,
        grant: bool,
        (name, meaning): (&str, Meaning),
        member: &RoleName,
        admin: bool,
        by: Option<&RoleName>,
    ) -> Result<()> {
        if admin {
            let text = format!("ADMIN OPTION of {}", name.to_uppercase());
            return Err(PgError::unsupported(text)
                .with_hint("CREATEROLE of a role lets it make roles and decide for them."));
        }
        if *member == RoleName::Public {
            return Err(PgError::unsupported(format!("{} for PUBLIC", name.to_uppercase())));
        }
        let user = self.role_named(member).await?;
        match meaning {
            Meaning::LogOn if user.login != grant => {
                self.alter_role(member, &[RoleOption::Login(grant)]).await?;
            }
            Meaning::Everything if user.superuser != grant => {
                self.alter_role(member, &[RoleOption::Superuser(grant)]).await?;
            }
            Meaning::LogOn | Meaning::Everything | Meaning::Nothing => {}
            Meaning::Member(role) => {
                let role = RoleName::Named(role.to_owned());
                let (roles, members) = ([role], [member.clone()]);
                let both: (&[RoleName], &[RoleName]) = (&roles, &members);
                env::boxed!(self.change_members(grant, both, false, by)).await?;
            }
            Meaning::Make if self.has_own_schema(&user).await? => {
                if !grant {
                    let text = format!("REVOKE {} from a user with a schema", name.to_uppercase());
                    return Err(PgError::unsupported(text)
                        .with_hint("ALTER SCHEMA .. OWNER TO gives the schema to somebody else."));
                }
            }
            Meaning::Make => {
                let mut target = GrantTarget::of(ObjectClass::Schema);
                target.names.push((None, dict::PUBLIC.to_owned()));
                let spec = GrantSpec {
                    grant,
                    items: vec![Item { name: "create".to_owned(), columns: Vec::new() }],
                    target,
                    grantees: vec![member.clone()],
                    option: false,
                    granted_by: by.cloned(),
                    cascade: false,
                };
                self.grant(&spec).await?;
            }
        }
        Ok(())
    }

    /// Whether a role owns the schema that its names are looked up in first.
    async fn has_own_schema(&mut self, user: &UserDef) -> Result<bool> {
        let txn = self.transaction()?;
        let schemas = dict::schemas(&self.ctx, &txn).await?;
        Ok(schemas.find(&user.name).is_some_and(|schema| schema.owner == user.obj))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn privileges_have_a_meaning_or_none() {
        assert_eq!(meaning("create session"), Some(Meaning::LogOn));
        assert_eq!(meaning("resource"), Some(Meaning::Make));
        assert_eq!(meaning("flashback any table"), None);
        assert_eq!(unknown("drop any table").code, "0A000");
    }
}
