//! `ALTER SYSTEM SET` and `RESET`: of this instance, another one or all, now, from the next start
//! on, or both.
//!
//! What it promises: nothing is changed before all is checked, and the file is written before a
//! value is in force: what is answered with success holds for as long as the scope says. Where
//! neither is said, it is said of all instances and for good. What it must never do: pass over an
//! instance that is named and not open.

use super::own::param_error;
use crate::parse::{AlterSystem, Scope};
use crate::session::Session;
use crate::{PgError, Result};
use block::InstanceNo;
use kernel::gcs::CallKind;
use kernel::instance::Instance;
use kernel::params::Parameters;
use observe::WaitEvent;

/// Whom a change is for.
enum Whom {
    All,
    One(InstanceNo),
}

fn whom(sid: Option<&str>) -> Result<Whom> {
    let Some(sid) = sid.filter(|sid| *sid != "*") else { return Ok(Whom::All) };
    let lower = sid.to_lowercase();
    let number = lower.strip_prefix("skein").unwrap_or(&lower).parse().ok();
    let known = number.filter(|k| (1..=block::INSTANCES_MAX).contains(k));
    known.map(|k| Whom::One(InstanceNo(k))).ok_or_else(|| {
        PgError::new("22023", format!("invalid sid \"{sid}\""))
            .with_hint("It is '*' for all instances, or one's name as v$instance shows it.")
    })
}

fn not_open(instance: InstanceNo) -> PgError {
    PgError::new("55000", format!("instance {} is not open", instance.0)).with_hint(
        "SCOPE=SPFILE sets the value with which it will start; v$active_instances shows which are \
         open.",
    )
}

fn not_kept(name: &str, error: &std::io::Error) -> PgError {
    let code = match error.kind() {
        std::io::ErrorKind::InvalidInput => "22023",
        _ => "58030",
    };
    PgError::new(code, format!("cannot keep parameter \"{name}\": {error}"))
}

impl Session {
    pub(super) async fn alter_system(&mut self, alter: &AlterSystem) -> Result<()> {
        if !self.is_superuser().await? {
            let text = format!("permission denied to set parameter \"{}\"", alter.name);
            return Err(PgError::new("42501", text));
        }
        let (name, default) = Parameters::default_of(&alter.name).map_err(param_error)?;
        let value = alter.value.as_deref().unwrap_or(default);
        Parameters::check_start(name, value).map_err(param_error)?;
        let whom = whom(alter.sid.as_deref())?;
        let fixed = Parameters::is_fixed(name).map_err(param_error)?;
        let file = self.instance.settings_file().cloned();
        let scope = match (alter.scope, &file) {
            (Some(scope), _) => scope,
            // What stands in the file is all there is to be taken back.
            (None, Some(_)) if fixed && alter.value.is_none() => Scope::File,
            (None, Some(_)) => Scope::Both,
            (None, None) => Scope::Memory,
        };
        if fixed && scope != Scope::File {
            let fixed = kernel::params::ParamError::Fixed { name: name.to_owned() };
            return Err(param_error(fixed));
        }
        let open = self.instance.node.view();
        if let (Whom::One(one), true) = (&whom, scope != Scope::File)
            && !open.members.contains(one)
        {
            return Err(not_open(*one));
        }
        if scope != Scope::Memory {
            let Some(file) = file else {
                let text = "there is no file of parameters";
                return Err(PgError::new("55000", text)
                    .with_hint("SCOPE=MEMORY sets the value until the instance stops."));
            };
            let of = match whom {
                Whom::All => None,
                Whom::One(one) => Some(one),
            };
            file.keep(of, name, alter.value.as_deref()).map_err(|e| not_kept(name, &e))?;
        }
        if scope == Scope::File {
            return Ok(());
        }
        // Again: who has joined meanwhile may have read the file as it was before.
        let open = self.instance.node.view();
        for &to in &open.members {
            if matches!(whom, Whom::One(one) if one != to) {
                continue;
            }
            // What is taken back leaves what is said elsewhere in the file.
            let left = match (&alter.value, self.instance.settings_file()) {
                (None, Some(file)) if scope == Scope::Both => {
                    Some(file.value(to, name).map_err(|e| not_kept(name, &e))?)
                }
                _ => None,
            };
            let value = left.as_deref().unwrap_or(value);
            self.set_parameter_on(to, name, value, matches!(whom, Whom::One(_))).await?;
        }
        Ok(())
    }

    /// `named`: that it has gone meanwhile is an error; of several, it is just not there any more.
    async fn set_parameter_on(
        &mut self,
        to: InstanceNo,
        name: &str,
        value: &str,
        named: bool,
    ) -> Result<()> {
        if to == self.instance.me {
            return self.instance.alter_system(name, value).map_err(param_error);
        }
        let body = [name, value].join("\0");
        let node = self.instance.node.clone();
        let call = node.call_peer(to, CallKind::Parameter, body.as_bytes());
        let p = [0, 0, u64::from(CallKind::Parameter.code())];
        match self.ctx.wait_or_cancel(WaitEvent::ReliableMessage, p, call).await? {
            Some(told) if told.is_empty() => Ok(()),
            Some(told) => {
                let text = String::from_utf8_lossy(&told).into_owned();
                Err(PgError::new("22023", format!("instance {}: {text}", to.0)))
            }
            None if named => Err(not_open(to)),
            None => Ok(()),
        }
    }
}

/// What another instance has asked; answers with what is wrong, or nothing.
pub(crate) fn receive_parameter(instance: &Instance, body: &[u8]) -> Option<Vec<u8>> {
    let (name, value) = std::str::from_utf8(body).ok()?.split_once('\0')?;
    let done = instance.alter_system(name, value);
    Some(done.err().map(|e| e.to_string().into_bytes()).unwrap_or_default())
}
