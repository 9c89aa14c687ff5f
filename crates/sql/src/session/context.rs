//! `sys_context('userenv', ..)` and `userenv(..)`: what a session knows of itself.
//!
//! What it promises: the same words as `v$session` has; NULL for what nobody has told. What it must
//! never do: make something up for a name that it does not know.

use super::Session;
use crate::bind::SessionFn;
use crate::catalog::shown_text;
use crate::{PgError, Result};
use kernel::row::Value;

/// Names of `userenv(..)`; `sys_context` knows these and more.
const OF_USERENV: [&str; 8] =
    ["sid", "sessionid", "instance", "isdba", "client_info", "terminal", "language", "lang"];

impl Session {
    /// The value of a call.
    pub(super) async fn told(&mut self, function: SessionFn, args: &[Value]) -> Result<Value> {
        let text = |at: usize| match args.get(at) {
            Some(Value::Text(text)) => Some(text.to_ascii_lowercase()),
            _ => None,
        };
        let (name, short) = match (function, args.len()) {
            (SessionFn::UserEnv, 1) => (text(0), true),
            (SessionFn::Context, 2 | 3) => {
                match text(0).as_deref() {
                    Some("userenv") => {}
                    None => return Ok(Value::Null),
                    Some(other) => {
                        let what = format!("the context {other} in sys_context");
                        return Err(PgError::unsupported(what));
                    }
                }
                (text(1), false)
            }
            (SessionFn::UserEnv, _) => return Err(no_function("userenv")),
            _ => return Err(no_function("sys_context")),
        };
        let Some(name) = name else { return Ok(Value::Null) };
        if short && !OF_USERENV.contains(&name.as_str()) {
            return Err(unknown(&name));
        }
        let told = env::boxed!(self.attribute(&name)).await?;
        let told = told.filter(|told| !told.is_empty());
        Ok(told.map_or(Value::Null, |told| Value::Text(told.into())))
    }

    /// What the session is by the name; `None`: nobody has told.
    async fn attribute(&mut self, name: &str) -> Result<Option<String>> {
        let about = self.ctx.session.about();
        let number = |number: u32| Some(number.to_string());
        Ok(match name {
            "sid" | "sessionid" => number(self.ctx.session.sid()),
            "instance" => number(u32::from(self.instance.me.0)),
            "instance_name" => Some(format!("skein{}", self.instance.me)),
            "db_name" | "db_unique_name" => Some("skein".to_owned()),
            "session_user" | "authenticated_identity" => Some(shown_text(&self.session_user)),
            "current_user" => Some(shown_text(&self.user)),
            "session_userid" | "current_userid" => number(self.identity.role.0),
            "current_schema" => {
                let path = self.schemas_for(None).await?;
                let found = path.into_iter().find(|schema| !crate::ddl::is_temporary(schema));
                found.map(|schema| shown_text(&schema))
            }
            "host" => Some(about.machine.to_string()),
            "ip_address" => {
                let peer = self.peer.parse::<std::net::IpAddr>();
                peer.ok().map(|_| self.peer.clone())
            }
            "module" => Some(about.module.to_string()),
            "action" => Some(about.action.to_string()),
            "client_info" => Some(about.client_info.to_string()),
            "client_identifier" => Some(about.client_identifier.to_string()),
            "client_program_name" => Some(about.program.to_string()),
            "service_name" => Some(about.service.to_string()),
            "isdba" => Some(if self.is_superuser().await? { "TRUE" } else { "FALSE" }.to_owned()),
            "language" => Some("AMERICAN_AMERICA.AL32UTF8".to_owned()),
            "lang" => Some("US".to_owned()),
            "os_user" => Some(about.os_user.to_string()),
            // What clients of the protocol do not say.
            "terminal" | "db_domain" | "proxy_user" => None,
            _ => return Err(unknown(name)),
        })
    }
}

fn no_function(name: &str) -> PgError {
    PgError::new("42883", format!("function {name} does not exist with these arguments"))
}

fn unknown(name: &str) -> PgError {
    PgError::new("22023", format!("invalid USERENV parameter \"{name}\""))
}
