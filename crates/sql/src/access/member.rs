//! GRANT role TO role and REVOKE role FROM role; system privileges stand where roles do.
//!
//! What it promises: no role is a member of itself, however far round. What it must never do: let
//! somebody without ADMIN OPTION decide who belongs to a role.

use super::statement::RoleName;
use super::system;
use crate::session::Session;
use crate::{PgError, Result, Severity};
use kernel::dict::{self, MemberDef, UserDef};

impl Session {
    pub(super) async fn change_members(
        &mut self,
        grant: bool,
        (roles, members): (&[RoleName], &[RoleName]),
        admin: bool,
        by: Option<&RoleName>,
    ) -> Result<String> {
        let grantor = match by {
            Some(name) => self.role_named(name).await?.obj,
            None => self.identity.role,
        };
        for role in roles {
            if let RoleName::Named(name) = role
                && self.roles().await?.find(name).is_none()
            {
                let Some(meaning) = system::meaning(name) else {
                    return Err(match name.contains(' ') {
                        true => system::unknown(name),
                        false => super::no_role(name),
                    });
                };
                for member in members {
                    let what = (name.as_str(), meaning);
                    self.change_system_privilege(grant, what, member, admin, by).await?;
                }
                continue;
            }
            let role = self.role_named(role).await?;
            self.check_admin(&role).await?;
            for member in members {
                let member = self.role_named(member).await?;
                self.change_one_member(grant, &role, &member, admin, grantor).await?;
            }
        }
        Ok(if grant { "GRANT ROLE" } else { "REVOKE ROLE" }.to_owned())
    }

    /// 42501 unless the current role may say who is a member of `role`.
    pub(super) async fn check_admin(&mut self, role: &UserDef) -> Result<()> {
        let (own, known) = (self.identity.role, self.roles().await?);
        if known.is_superuser(own) {
            return Ok(());
        }
        if role.superuser {
            return Err(PgError::new("42501", "must be superuser to alter superusers"));
        }
        let may_create = known.of(own).is_some_and(|user| user.create_role);
        if may_create || known.is_admin(own, role.obj) {
            return Ok(());
        }
        Err(PgError::new("42501", format!("must have admin option on role \"{}\"", role.name)))
    }

    pub(super) async fn change_one_member(
        &mut self,
        grant: bool,
        role: &UserDef,
        member: &UserDef,
        admin: bool,
        grantor: block::ObjId,
    ) -> Result<()> {
        let known = self.roles().await?;
        let (of, who) = (&role.name, &member.name);
        let now = known.members.iter().find(|one| one.role == role.obj && one.member == member.obj);
        if role.obj == dict::DATABASE_OWNER_ROLE {
            let text = format!("role \"{of}\" cannot have explicit members");
            return Err(PgError::new("0A000", text));
        }
        if !grant {
            let Some(now) = now else {
                let text = format!("role \"{who}\" is not a member of role \"{of}\"");
                let mut warning = PgError::notice(Severity::Warning, text);
                warning.code = "01000";
                self.notices.push(warning);
                return Ok(());
            };
            // REVOKE ADMIN OPTION FOR leaves the membership.
            let left = admin.then_some(MemberDef { admin: false, ..*now });
            let txn = self.transaction()?;
            dict::change_member(&self.ctx, &txn, (role.obj, member.obj), left).await?;
            return Ok(());
        }
        if known.above(role.obj, false).contains(&member.obj) {
            let text = format!("role \"{of}\" is a member of role \"{who}\"");
            return Err(PgError::new("0LP01", text));
        }
        if now.is_some_and(|now| now.admin || !admin) {
            let text = format!("role \"{who}\" is already a member of role \"{of}\"");
            self.notice(Severity::Notice, text);
            return Ok(());
        }
        let new = MemberDef { role: role.obj, member: member.obj, grantor, admin };
        let txn = self.transaction()?;
        dict::change_member(&self.ctx, &txn, (role.obj, member.obj), Some(new)).await?;
        Ok(())
    }
}
