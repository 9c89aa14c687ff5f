//! Who the session is: who has logged on, whom it stands for, and as which role it acts.
//!
//! What it promises: SET ROLE and SET SESSION AUTHORIZATION end with their transaction as other
//! settings do. What it must never do: take a role for another one that has got its name.

use super::no_role;
use super::statement::RoleName;
use crate::session::Session;
use crate::{PgError, Result};
use block::ObjId;
use kernel::dict::{self, UserDef};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A number that no role has.
const NOBODY: ObjId = ObjId(u32::MAX);

/// See the module.
pub(crate) struct Identity {
    /// Who has logged on.
    pub(crate) login: ObjId,
    /// Whom the session stands for: the one who has logged on, or of SET SESSION AUTHORIZATION.
    pub(crate) session: ObjId,
    /// Whose rights count.
    pub(crate) role: ObjId,
    /// Names as they were when they were looked up.
    names: BTreeMap<String, ObjId>,
}

impl Identity {
    pub(crate) fn unknown() -> Identity {
        Identity { login: NOBODY, session: NOBODY, role: NOBODY, names: BTreeMap::new() }
    }

    /// Number of the one whose rights count; 0: not known.
    pub(crate) fn role_number(&self) -> u32 {
        if self.role == NOBODY { 0 } else { self.role.0 }
    }

    /// Whether it has been looked up who has logged on.
    pub(crate) fn is_known(&self) -> bool {
        self.login != NOBODY
    }

    /// What the settings say.
    pub(crate) fn follow(&mut self, session: &str, role: &str) {
        let of = |name: &str| self.names.get(name).copied().unwrap_or(NOBODY);
        self.session = of(session);
        self.role = if role == "none" { self.session } else { of(role) };
    }
}

impl Session {
    /// Acts as a role, or as the settings say; gives as whom it did before. Settings may change
    /// meanwhile.
    pub(crate) fn act_as(&mut self, role: Option<(ObjId, String)>) -> Option<(ObjId, String)> {
        let before = std::mem::replace(&mut self.acting_as, role);
        self.note_context();
        before
    }

    /// 42501 in a routine with the rights of its owner, whose caller must not lose his.
    fn check_may_change(&self, name: &str) -> Result<()> {
        if self.acting_as.is_none() {
            return Ok(());
        }
        let text = format!("cannot set parameter \"{name}\" within security-definer function");
        Err(PgError::new("42501", text))
    }

    /// Looks up who has logged on; the first thing that a session does.
    pub(crate) async fn know_identity(&mut self) -> Result<()> {
        if self.identity.is_known() {
            return Ok(());
        }
        let began = self.txn.is_none();
        let found = self.roles().await.map(|roles| roles.find(&self.session_user).cloned());
        if began {
            self.rollback().await?;
        }
        let missing =
            || PgError::new("28000", format!("role \"{}\" does not exist", self.session_user));
        let user = found?.ok_or_else(missing)?;
        self.identity.login = user.obj;
        self.ctx.session.set_user_no(user.obj.0);
        self.identity.names.insert(user.name.clone(), user.obj);
        self.settings.note_superuser(user.superuser);
        self.note_context();
        Ok(())
    }

    pub(crate) async fn set_role(&mut self, name: Option<&str>, local: bool) -> Result<String> {
        self.check_may_change("role")?;
        if let Some(name) = name {
            let roles = self.roles().await?;
            let missing = || PgError::new("22023", format!("role \"{name}\" does not exist"));
            let role = roles.find(name).ok_or_else(missing)?;
            let session = self.identity.session;
            if !roles.is_member(session, role.obj) {
                let text = format!("permission denied to set role \"{name}\"");
                return Err(PgError::new("42501", text));
            }
            self.identity.names.insert(name.to_owned(), role.obj);
        }
        self.settings.set_identity("role", name, local)?;
        self.note_identity().await?;
        Ok(self.set_tag(name.is_some()))
    }

    pub(crate) async fn set_session_authorization(
        &mut self,
        name: Option<&str>,
        local: bool,
    ) -> Result<String> {
        self.check_may_change("session_authorization")?;
        if let Some(name) = name {
            let roles = self.roles().await?;
            let missing = || PgError::new("22023", format!("role \"{name}\" does not exist"));
            let role = roles.find(name).ok_or_else(missing)?;
            if role.obj != self.identity.login && !roles.is_superuser(self.identity.login) {
                let text = "permission denied to set session authorization";
                return Err(PgError::new("42501", text));
            }
            self.identity.names.insert(name.to_owned(), role.obj);
        }
        self.settings.set_identity("session_authorization", name, local)?;
        self.settings.set_identity("role", None, local)?;
        self.note_identity().await?;
        Ok(self.set_tag(name.is_some()))
    }

    fn set_tag(&self, set: bool) -> String {
        if set { "SET" } else { "RESET" }.to_owned()
    }

    async fn note_identity(&mut self) -> Result<()> {
        self.note_context();
        let superuser = self.is_superuser().await?;
        self.settings.note_superuser(superuser);
        Ok(())
    }

    /// The role that a statement names, or 42704; PUBLIC is none.
    pub(crate) async fn role_named(&mut self, name: &RoleName) -> Result<Arc<UserDef>> {
        let roles = self.roles().await?;
        let of = |obj: ObjId| roles.of(obj).cloned().ok_or_else(|| no_role(&obj.0.to_string()));
        match name {
            RoleName::Named(name) => roles.find(name).cloned().ok_or_else(|| no_role(name)),
            RoleName::Current => of(self.identity.role),
            RoleName::Session => of(self.identity.session),
            RoleName::Public => Err(no_role("public")),
        }
    }

    /// The same where PUBLIC may stand.
    pub(crate) async fn grantee(&mut self, name: &RoleName) -> Result<ObjId> {
        match name {
            RoleName::Public => Ok(dict::EVERYBODY),
            other => Ok(self.role_named(other).await?.obj),
        }
    }
}
