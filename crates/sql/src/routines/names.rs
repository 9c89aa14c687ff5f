//! Routines by name, and the types that their definitions name.

use super::choose::given;
use crate::parse::parse_single;
use crate::planning::Counted;
use crate::sequence::split_name;
use crate::session::Session;
use crate::{PgError, Result};
use block::ObjId;
use kernel::dict::{self, RoutineDef, Routines};
use kernel::row::ColType;
use query::Relation;
use query::functions::quote_ident;
use std::sync::Arc;

/// What a type in a definition is.
pub(super) enum Named {
    Type(ColType),
    /// A row of a table or view.
    Row(ObjId),
    Record,
    Void,
}

impl Session {
    /// All functions and procedures.
    pub(crate) async fn routines(&mut self) -> Result<Arc<Routines>> {
        self.begin_if_needed();
        let txn = self.transaction()?;
        Ok(dict::routines(&self.ctx, &txn).await?)
    }

    /// Routines of a name, those that are found first in front.
    pub(super) async fn routines_named(
        &mut self,
        schema: Option<&str>,
        name: &str,
    ) -> Result<Vec<Arc<RoutineDef>>> {
        let routines = self.routines().await?;
        let mut found: Vec<Arc<RoutineDef>> = Vec::new();
        for schema in self.schemas_for(schema).await? {
            for one in routines.named(&schema, name) {
                if found.iter().all(|known| known.signature != one.signature) {
                    found.push(one.clone());
                }
            }
        }
        Ok(found)
    }

    /// Whether a procedure has this name.
    pub(crate) async fn is_procedure(&mut self, parts: &[String]) -> Result<bool> {
        let (schema, name) = match parts {
            [name] => (None, name),
            [schema, name] => (Some(schema.as_str()), name),
            _ => return Ok(false),
        };
        let found = self.routines_named(schema, name).await?;
        Ok(found.iter().any(|one| one.body.procedure))
    }

    /// The type that a text names.
    pub(super) async fn type_in_definition(&mut self, text: &str) -> Result<Named> {
        let lower = text.trim().to_lowercase();
        match lower.as_str() {
            "void" => return Ok(Named::Void),
            "record" => return Ok(Named::Record),
            "trigger" | "event_trigger" => {
                return Err(PgError::unsupported("a function for triggers"));
            }
            "refcursor" | "sys_refcursor" => return Ok(Named::Type(ColType::REF_CURSOR)),
            "anyelement" | "anyarray" | "anynonarray" | "anyenum" | "anycompatible" | "\"any\""
            | "any" | "cstring" | "internal" => {
                return Err(PgError::unsupported(format!("type {lower} of a function")));
            }
            "pls_integer" | "binary_integer" | "simple_integer" => {
                return Ok(Named::Type(ColType::new(kernel::row::TypeKind::Int4)));
            }
            "simple_double" => {
                return Ok(Named::Type(ColType::new(kernel::row::TypeKind::Float8)));
            }
            "simple_float" => {
                return Ok(Named::Type(ColType::new(kernel::row::TypeKind::Float4)));
            }
            _ => {}
        }
        let text = text.trim();
        if lower.ends_with("%rowtype") {
            return self.row_type(&text[..text.len() - "%rowtype".len()]).await;
        }
        let query = match lower.ends_with("%type") {
            true => {
                let path = &text[..text.len() - "%type".len()];
                let Some((table, column)) = path.trim().rsplit_once('.') else {
                    return Err(PgError::syntax(format!("improper %TYPE reference: {path}")));
                };
                format!("select {column} from {table}")
            }
            false => format!("select cast(null as {text})"),
        };
        let prepared =
            match self.prepare_within(parse_single(&query)?, &[], Counted::UnlessValues).await {
                Ok(prepared) => prepared,
                Err(error) if error.code == "42704" => {
                    return self.row_type(text).await.map_err(|_| error);
                }
                Err(error) => return Err(error),
            };
        let column = prepared.columns.first().ok_or_else(|| PgError::internal("no column"))?;
        let own = self.type_of_oid(column.oid).await?;
        let ty = own.or_else(|| query::types::col_type_of_oid(column.oid));
        let refuse = || PgError::unsupported(format!("type {text} of a function"));
        Ok(Named::Type(ty.ok_or_else(refuse)?.without_limit()))
    }

    async fn row_type(&mut self, path: &str) -> Result<Named> {
        let (schema, table) = match &split_name(path.trim())[..] {
            [table] => (None, table.clone()),
            [schema, table] => (Some(schema.clone()), table.clone()),
            _ => return Err(PgError::new("42704", format!("type \"{path}\" does not exist"))),
        };
        match self.find_relation(schema.as_deref(), &table).await? {
            Relation::Table(def) | Relation::View(def) => Ok(Named::Row(def.obj)),
            Relation::Rows(_) => Err(PgError::unsupported(format!("a row of {path} as a result"))),
        }
    }

    /// 42501 unless the role may call it; who uses a view must be able to call what it calls.
    pub(crate) async fn check_execute(&mut self, def: &RoutineDef, in_view: bool) -> Result<()> {
        let role = self.identity.role;
        if role == dict::SUPERUSER_OBJ {
            return Ok(());
        }
        // What a view names was found when it was made.
        if !in_view {
            self.check_schema(&def.schema, dict::Privileges::USAGE).await?;
        }
        if role == def.owner {
            return Ok(());
        }
        let roles = self.roles().await?;
        let own = (dict::AclKind::Function, def.owner);
        let held = crate::access::held(&roles, role, own, def.acl.as_ref());
        match held.has(dict::Privileges::EXECUTE) {
            true => Ok(()),
            false => Err(crate::access::denied(word(def), &def.name)),
        }
    }

    /// A routine's name as messages have it, with its arguments' types.
    pub(crate) async fn shown_routine(&mut self, def: &RoutineDef) -> Result<String> {
        let found = self.routines_named(None, &def.name).await?;
        let visible = found.iter().any(|one| one.obj == def.obj);
        let name = quote_ident(&def.name);
        let types = types_of(def);
        Ok(match visible {
            true => format!("{name}({types})"),
            false => format!("{}.{name}({types})", quote_ident(&def.schema)),
        })
    }
}

/// The types of what a call gives.
pub(super) fn types_of(def: &RoutineDef) -> String {
    let types: Vec<String> = given(def).map(|arg| arg.ty.to_string()).collect();
    types.join(",")
}

pub(super) fn word(def: &RoutineDef) -> &'static str {
    if def.body.procedure { "procedure" } else { "function" }
}
