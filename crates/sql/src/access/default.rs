//! ALTER DEFAULT PRIVILEGES, and the rights that new objects begin with.
//!
//! What it promises: what a role has said of its later objects holds on every instance. What it
//! must never do: change an object that is there.

use super::grant::{change_one, wanted};
use super::statement::{GrantSpec, ObjectClass, RoleName};
use crate::session::Session;
use crate::{PgError, Result};
use block::ObjId;
use kernel::dict::{self, Acl, AclKind, AclTarget};

impl Session {
    pub(super) async fn default_privileges(
        &mut self,
        roles: &[RoleName],
        schemas: &[String],
        spec: &GrantSpec,
    ) -> Result<String> {
        let mut owners = Vec::new();
        for name in roles {
            let role = self.role_named(name).await?;
            let (own, known) = (self.identity.role, self.roles().await?);
            if !known.is_superuser(own) && !known.above(own, true).contains(&role.obj) {
                let text = "permission denied to change default privileges";
                return Err(PgError::new("42501", text));
            }
            owners.push(role.obj);
        }
        if roles.is_empty() {
            owners.push(self.identity.role);
        }
        let mut places: Vec<Option<ObjId>> = Vec::new();
        let txn = self.transaction()?;
        let known = dict::schemas(&self.ctx, &txn).await?;
        for name in schemas {
            let found = known.find(name).ok_or_else(|| crate::ddl::missing_schema(name))?;
            places.push(Some(found.obj));
        }
        if schemas.is_empty() {
            places.push(None);
        }
        let kind = match spec.target.class {
            ObjectClass::Sequence => AclKind::Sequence,
            ObjectClass::Function => AclKind::Function,
            ObjectClass::Type => AclKind::Type,
            ObjectClass::Schema => AclKind::Schema,
            _ => AclKind::Relation,
        };
        if kind == AclKind::Schema && !schemas.is_empty() {
            let text = "cannot use IN SCHEMA clause when using GRANT/REVOKE ON SCHEMAS";
            return Err(PgError::new("0LP01", text));
        }
        let items: Vec<_> = spec.items.iter().collect();
        let privileges = wanted(&items, kind)?;
        let mut grantees = Vec::new();
        for name in &spec.grantees {
            grantees.push(self.grantee(name).await?);
        }
        for role in owners {
            for schema in &places {
                let target = AclTarget::Default { role, schema: *schema, kind };
                // In a schema stands what comes on top; elsewhere, all that there is.
                let base = || match schema {
                    Some(_) => Acl::default(),
                    None => Acl::default_of(kind, role),
                };
                let mut failed = None;
                dict::change_acl(&self.ctx, &txn, target, |old| {
                    let mut acl = old.clone().unwrap_or_else(base);
                    for grantee in &grantees {
                        let pair = (*grantee, role);
                        if let Err(error) = change_one(&mut acl, spec, pair, privileges, role) {
                            failed = Some(error);
                            return old;
                        }
                    }
                    Some(acl).filter(|acl| *acl != base())
                })
                .await?;
                if let Some(error) = failed {
                    return Err(error);
                }
            }
        }
        Ok("ALTER DEFAULT PRIVILEGES".to_owned())
    }

    /// Gives something that has just been made the rights that its maker's objects begin with.
    pub(crate) async fn give_default_rights(
        &mut self,
        kind: AclKind,
        schema: &str,
        obj: ObjId,
    ) -> Result<()> {
        let txn = self.transaction()?;
        let roles = self.roles().await?;
        if roles.defaults.is_empty() || crate::ddl::is_temporary(schema) {
            return Ok(());
        }
        let schemas = dict::schemas(&self.ctx, &txn).await?;
        let place = schemas.find(schema).map(|schema| schema.obj);
        let Some(acl) = roles.acl_of_new(self.identity.role, place, kind) else { return Ok(()) };
        let target = match kind {
            AclKind::Schema => AclTarget::Schema(schema),
            AclKind::Type => AclTarget::Type(obj),
            AclKind::Function => AclTarget::Routine(obj),
            _ => AclTarget::Relation(obj),
        };
        dict::change_acl(&self.ctx, &txn, target, |_| Some(acl.clone())).await?;
        Ok(())
    }
}
