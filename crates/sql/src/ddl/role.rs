//! Roles: users with a password and nothing more.
//!
//! What it promises: the dictionary holds verifiers only. What it must never do: keep or show a
//! password.

use crate::bind::object_parts;
use crate::session::Session;
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{
    AlterRoleOperation, CreateRole, Expr, Password, RoleOption, Value as Literal,
};
use kernel::dict;
use std::sync::OnceLock;

/// Makes the verifier of a password.
type Hasher = fn(&str) -> String;

static HASHER: OnceLock<Hasher> = OnceLock::new();

/// Tells how passwords become verifiers; the server's log-on code knows. Only the first call
/// counts.
pub fn set_password_hasher(hasher: Hasher) {
    let _ = HASHER.set(hasher);
}

fn verifier(password: &Password) -> Result<Option<String>> {
    let text = match password {
        Password::NullPassword => return Ok(None),
        Password::Password(Expr::Value(value)) => match &value.value {
            Literal::SingleQuotedString(text) | Literal::EscapedStringLiteral(text) => text.clone(),
            _ => return Err(PgError::syntax("a password must be a text")),
        },
        Password::Password(_) => return Err(PgError::syntax("a password must be a text")),
    };
    // psql's \password sends the verifier, so that the password never travels.
    if text.starts_with("SCRAM-SHA-256$") {
        return Ok(Some(text));
    }
    match HASHER.get() {
        Some(hasher) => Ok(Some(hasher(&text))),
        None => Err(PgError::unsupported("a password in clear text")
            .with_hint("Give a SCRAM-SHA-256 verifier, as psql's \\password does.")),
    }
}

impl Session {
    pub(super) async fn create_role(&mut self, role: &CreateRole) -> Result<String> {
        let flags = [role.create_db, role.create_role, role.replication, role.bypassrls];
        if flags.contains(&Some(true))
            || role.connection_limit.is_some()
            || role.valid_until.is_some()
            || !role.in_role.is_empty()
            || !role.in_group.is_empty()
            || !role.role.is_empty()
            || !role.user.is_empty()
            || !role.admin.is_empty()
        {
            return Err(PgError::unsupported("an option of this CREATE ROLE"));
        }
        let verifier = role.password.as_ref().map(verifier).transpose()?.flatten();
        let txn = self.transaction()?;
        for name in &role.names {
            let name = object_parts(name)?.pop().unwrap_or_default();
            if dict::user(&self.ctx, &txn, &name).await?.is_some() {
                if role.if_not_exists {
                    continue;
                }
                return Err(PgError::new("42710", format!("role \"{name}\" already exists")));
            }
            let superuser = role.superuser.unwrap_or(false);
            dict::create_user(&self.ctx, &txn, &name, verifier.as_deref(), superuser).await?;
        }
        Ok("CREATE ROLE".to_owned())
    }

    pub(super) async fn alter_role(
        &mut self,
        name: &str,
        operation: &AlterRoleOperation,
    ) -> Result<String> {
        let AlterRoleOperation::WithOptions { options } = operation else {
            return Err(PgError::unsupported("this form of ALTER ROLE"));
        };
        let txn = self.transaction()?;
        if dict::user(&self.ctx, &txn, name).await?.is_none() {
            return Err(PgError::new("42704", format!("role \"{name}\" does not exist")));
        }
        for option in options {
            match option {
                RoleOption::Password(password) => {
                    let verifier = verifier(password)?;
                    dict::set_password(&self.ctx, &txn, name, verifier.as_deref()).await?;
                }
                RoleOption::Login(true) => {}
                other => return Err(PgError::unsupported(format!("ALTER ROLE ... {other}"))),
            }
        }
        Ok("ALTER ROLE".to_owned())
    }

    /// Whether there was such a role; it is gone now.
    pub(super) async fn drop_role(&mut self, name: &str) -> Result<bool> {
        let txn = self.transaction()?;
        if dict::user(&self.ctx, &txn, name).await?.is_none() {
            return Ok(false);
        }
        if name == self.user {
            return Err(PgError::new("55006", "current user cannot be dropped"));
        }
        dict::drop_user(&self.ctx, &txn, name).await?;
        Ok(true)
    }
}
