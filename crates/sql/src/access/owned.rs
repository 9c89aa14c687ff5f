//! REASSIGN OWNED and DROP OWNED: what a role leaves behind.
//!
//! What it promises: afterwards nothing but its memberships names the role. What it must never do:
//! drop what others depend on without CASCADE.

use super::statement::RoleName;
use crate::session::Session;
use crate::{PgError, Result};
use block::ObjId;
use kernel::dict::{self, AclTarget, ObjectKind, RoleUse};

impl Session {
    async fn check_acts_for(&mut self, role: &RoleName, what: &str) -> Result<ObjId> {
        let role = self.role_named(role).await?;
        if !self.has_role(role.obj).await? {
            return Err(PgError::new("42501", format!("permission denied to {what}")));
        }
        if role.obj == dict::SUPERUSER_OBJ {
            let name = &role.name;
            let text = format!(
                "cannot {what} owned by role {name} because they are required by the database \
                 system"
            );
            return Err(PgError::new("2BP01", text));
        }
        Ok(role.obj)
    }

    pub(super) async fn reassign_owned(
        &mut self,
        from: &[RoleName],
        to: &RoleName,
    ) -> Result<String> {
        let to = self.role_named(to).await?.obj;
        if !self.has_role(to).await? {
            return Err(PgError::new("42501", "permission denied to reassign objects"));
        }
        for role in from {
            let role = self.check_acts_for(role, "reassign objects").await?;
            let txn = self.transaction()?;
            for found in dict::role_uses(&self.ctx, &txn, role).await? {
                match found {
                    RoleUse::Owns(ObjectKind::Sequence, _, obj) => {
                        // Those of a table have gone with it.
                        dict::change_owner(&self.ctx, &txn, obj, &[], to).await?;
                    }
                    RoleUse::Owns(_, _, obj) => self.give_relation(obj, to).await?,
                    RoleUse::OwnsType(_, obj) => {
                        let types = self.user_types().await?;
                        if let Some(ty) = types.by_obj(obj) {
                            let change = dict::TypeChange::Owner(to);
                            dict::alter_type(&self.ctx, &txn, ty, change).await?;
                        }
                    }
                    RoleUse::OwnsRoutine(_, _, obj) => {
                        let routines = self.routines().await?;
                        if let Some(one) = routines.by_obj(obj) {
                            let change = dict::RoutineChange::Owner(to);
                            dict::alter_routine(&self.ctx, &txn, one, change).await?;
                        }
                    }
                    RoleUse::OwnsSchema(name) => {
                        dict::change_schema_owner(&self.ctx, &txn, &name, to).await?;
                    }
                    _ => {}
                }
            }
        }
        Ok("REASSIGN OWNED".to_owned())
    }

    pub(super) async fn drop_owned(&mut self, roles: &[RoleName], cascade: bool) -> Result<String> {
        for role in roles {
            let role = self.check_acts_for(role, "drop objects").await?;
            let txn = self.transaction()?;
            let mut relations = Vec::new();
            let mut schemas = Vec::new();
            for found in dict::role_uses(&self.ctx, &txn, role).await? {
                match found {
                    RoleUse::Owns(
                        ObjectKind::Table | ObjectKind::View | ObjectKind::Materialized,
                        _,
                        obj,
                    ) => {
                        relations.extend(dict::table_by_obj(&self.ctx, &txn, obj).await?);
                    }
                    RoleUse::OwnsSchema(name) => schemas.push(name),
                    other => self.forget_right(role, other).await?,
                }
            }
            self.drop_relations(relations, cascade).await?;
            // Sequences of dropped tables are gone by now.
            for found in dict::role_uses(&self.ctx, &txn, role).await? {
                if let RoleUse::Owns(ObjectKind::Sequence, shown, _) = found {
                    let (schema, name) = shown.split_once('.').unwrap_or(("", &shown));
                    if let Some(def) = dict::sequence(&self.ctx, &txn, schema, name).await? {
                        dict::drop_sequence(&self.ctx, &txn, &def).await?;
                    }
                }
            }
            let routines = self.routines().await?;
            for one in routines.all.iter().filter(|one| one.owner == role) {
                env::boxed!(self.drop_routine(one, cascade)).await?;
            }
            let types = self.user_types().await?;
            for ty in types.all.iter().filter(|ty| ty.owner == role) {
                env::boxed!(self.drop_type(Some(&ty.schema), &ty.name, cascade)).await?;
            }
            for schema in schemas {
                self.drop_schema(&schema, cascade).await?;
            }
        }
        Ok("DROP OWNED".to_owned())
    }

    async fn forget_right(&mut self, role: ObjId, found: RoleUse) -> Result<()> {
        let txn = self.transaction()?;
        let name;
        let target = match found {
            RoleUse::Rights(_, _, obj) => AclTarget::Relation(obj),
            RoleUse::RightsOnColumn { column, obj, .. } => {
                let def = dict::table_by_obj(&self.ctx, &txn, obj).await?;
                let Some(at) = def.and_then(|def| def.column(&column)) else { return Ok(()) };
                AclTarget::Column(obj, at)
            }
            RoleUse::RightsOnSchema(schema) => {
                name = schema;
                AclTarget::Schema(&name)
            }
            RoleUse::RightsOnType(_, obj) => AclTarget::Type(obj),
            RoleUse::RightsOnRoutine(_, _, obj) => AclTarget::Routine(obj),
            RoleUse::RightsOnDatabase => AclTarget::Database,
            RoleUse::Defaults(kind, role, schema) => AclTarget::Default { role, schema, kind },
            RoleUse::Owns(..)
            | RoleUse::OwnsSchema(_)
            | RoleUse::OwnsType(..)
            | RoleUse::OwnsRoutine(..)
            | RoleUse::OwnsDatabase => return Ok(()),
        };
        let own = matches!(target, AclTarget::Default { role: of, .. } if of == role);
        dict::change_acl(&self.ctx, &txn, target, |old| {
            let mut acl = old?;
            acl.forget(role);
            let empty_column = matches!(target, AclTarget::Column(..)) && acl.0.is_empty();
            let keep = !(own || empty_column);
            keep.then_some(acl)
        })
        .await?;
        Ok(())
    }
}
