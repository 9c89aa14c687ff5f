//! OWNER TO.
//!
//! What it promises: who gives something away owns it and may act as the new owner, who could have
//! made it there. What it must never do: leave the parts of a table behind.

use super::statement::RoleName;
use super::{denied, held, must_own};
use crate::session::Session;
use crate::{PgError, Result, Severity};
use block::ObjId;
use kernel::dict::{self, AclKind, Privileges};

impl Session {
    /// Whether the current role may make `to` an owner: 42501 if not.
    pub(crate) async fn check_new_owner(&mut self, to: ObjId) -> Result<()> {
        let (role, roles) = (self.identity.role, self.roles().await?);
        if roles.is_member(role, to) {
            return Ok(());
        }
        let text = format!("must be member of role \"{}\"", roles.name(to));
        Err(PgError::new("42501", text))
    }

    pub(super) async fn change_owner(
        &mut self,
        class: &str,
        if_exists: bool,
        (schema, name): &(Option<String>, String),
        to: &RoleName,
    ) -> Result<String> {
        let to = self.role_named(to).await?.obj;
        let tag = format!("ALTER {}", class.to_uppercase());
        match class {
            "schema" => self.change_schema_owner(name, to).await?,
            "type" => self.change_type_owner((schema.as_deref(), name), to).await?,
            "database" => {
                let text = "another owner of the database";
                return Err(PgError::unsupported(text));
            }
            _ => {
                let found = self.relation_to_give(class, schema.as_deref(), name).await?;
                let Some((obj, word, in_schema, owner)) = found else {
                    if !if_exists {
                        return Err(PgError::undefined_table(name));
                    }
                    let text = format!("relation \"{name}\" does not exist, skipping");
                    self.notice(Severity::Notice, text);
                    return Ok(tag);
                };
                if owner != to {
                    self.check_owner(word, name, owner).await?;
                    if !self.is_superuser().await? {
                        self.check_new_owner(to).await?;
                        self.check_owner_makes(to, &in_schema).await?;
                    }
                    self.give_relation(obj, to).await?;
                }
            }
        }
        Ok(tag)
    }

    async fn change_type_owner(
        &mut self,
        (schema, name): (Option<&str>, &str),
        to: ObjId,
    ) -> Result<()> {
        let missing = || crate::named_types::missing_type(schema, name);
        let ty = self.find_type(schema, name).await?.ok_or_else(missing)?;
        if ty.owner == to {
            return Ok(());
        }
        self.check_owner("type", &ty.name, ty.owner).await?;
        if !self.is_superuser().await? {
            self.check_new_owner(to).await?;
            self.check_owner_makes(to, &ty.schema).await?;
        }
        let txn = self.transaction()?;
        dict::alter_type(&self.ctx, &txn, &ty, dict::TypeChange::Owner(to)).await?;
        Ok(())
    }

    /// The new owner must be able to make it where it is.
    pub(crate) async fn check_owner_makes(&mut self, to: ObjId, schema: &str) -> Result<()> {
        let txn = self.transaction()?;
        let (roles, schemas) = (self.roles().await?, dict::schemas(&self.ctx, &txn).await?);
        let Some(found) = schemas.find(schema) else { return Ok(()) };
        let owner = (AclKind::Schema, found.owner);
        if held(&roles, to, owner, found.acl.as_ref()).has(Privileges::CREATE) {
            return Ok(());
        }
        Err(denied("schema", schema))
    }

    /// Number, kind, schema and owner.
    async fn relation_to_give(
        &mut self,
        class: &str,
        schema: Option<&str>,
        name: &str,
    ) -> Result<Option<(ObjId, &'static str, String, ObjId)>> {
        if let Some(def) = self.find_table(schema, name).await? {
            let word = super::relation_word(&def);
            if class != "table" && class != word {
                let article = if class == "view" { "view" } else { class };
                return Err(PgError::new("42809", format!("\"{name}\" is not a {article}")));
            }
            if def.schema == dict::SYS {
                return Err(must_own(word, name));
            }
            return Ok(Some((def.obj, word, def.schema.clone(), def.owner)));
        }
        let Some(def) = self.find_sequence(schema, name).await? else { return Ok(None) };
        if class == "view" {
            return Err(PgError::new("42809", format!("\"{name}\" is not a view")));
        }
        if let Some(table) = def.table {
            let txn = self.transaction()?;
            let table = dict::table_by_obj(&self.ctx, &txn, table).await?;
            let table = table.map_or_else(String::new, |table| table.name.clone());
            let text = format!("cannot change owner of sequence \"{name}\"");
            let detail = format!("Sequence \"{name}\" is linked to table \"{table}\".");
            return Err(PgError::new("0A000", text).with_detail(detail));
        }
        Ok(Some((def.obj, "sequence", def.schema.clone(), def.owner)))
    }

    /// Gives a relation with its parts to another role.
    pub(super) async fn give_relation(&mut self, obj: ObjId, to: ObjId) -> Result<()> {
        let txn = self.transaction()?;
        let sequences = dict::sequences(&self.ctx, &txn).await?;
        let own = sequences.iter().filter(|sequence| sequence.table == Some(obj));
        let own: Vec<ObjId> = own.map(|sequence| sequence.obj).collect();
        dict::change_owner(&self.ctx, &txn, obj, &own, to).await?;
        Ok(())
    }

    async fn change_schema_owner(&mut self, name: &str, to: ObjId) -> Result<()> {
        let txn = self.transaction()?;
        let schemas = dict::schemas(&self.ctx, &txn).await?;
        let missing = || crate::ddl::missing_schema(name);
        let found = schemas.find(name).ok_or_else(missing)?.clone();
        if found.owner == to {
            return Ok(());
        }
        self.check_owner("schema", name, found.owner).await?;
        if !self.is_superuser().await? {
            self.check_new_owner(to).await?;
            self.check_database(Privileges::CREATE).await?;
        }
        dict::change_schema_owner(&self.ctx, &txn, name, to).await?;
        Ok(())
    }
}
