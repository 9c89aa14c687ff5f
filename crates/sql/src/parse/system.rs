//! What ALTER SYSTEM does beside setting parameters, and the clauses of storage behind MOVE and
//! REBUILD.
//!
//! What it promises: what has no counterpart here is refused by its words.

use super::{Own, Victim, Words};
use crate::{PgError, Result};

/// What ALTER SYSTEM does beside setting parameters.
pub(super) fn parse(words: &mut Words<'_>) -> Result<Option<Own>> {
    if words.take("kill") {
        words.expect(&["session"])?;
        let victim = victim(&words.text()?)?;
        let _ = words.take("immediate");
        return Ok(Some(Own::KillSession(victim)));
    }
    if words.follows("flush", "shared_pool") {
        words.expect(&["flush", "shared_pool"])?;
        return Ok(Some(Own::FlushSharedPool));
    }
    let others = [
        "flush",
        "switch",
        "archive",
        "disconnect",
        "enable",
        "disable",
        "register",
        "suspend",
        "resume",
        "quiesce",
        "unquiesce",
        "check",
        "dump",
    ];
    match others.iter().find(|word| words.is(word)) {
        Some(_) => {
            let what = words.rest().to_uppercase();
            Err(PgError::unsupported(format!("ALTER SYSTEM {what}")))
        }
        None => Ok(None),
    }
}

/// `'sid,serial#[,@instance]'`.
fn victim(text: &str) -> Result<Victim> {
    let wrong = || {
        PgError::new("22023", format!("invalid session \"{text}\""))
            .with_hint("It is written 'sid,serial', as v$session shows both.")
    };
    let mut parts = text.split(',').map(str::trim);
    let mut number = || parts.next().and_then(|part| part.parse::<u32>().ok());
    let (Some(sid), Some(serial)) = (number(), number()) else { return Err(wrong()) };
    let instance = match parts.next() {
        None => None,
        Some(part) => {
            let number = part.strip_prefix('@').and_then(|part| part.parse().ok());
            Some(number.ok_or_else(wrong)?)
        }
    };
    if parts.next().is_some() {
        return Err(wrong());
    }
    Ok(Victim { sid, serial, instance })
}

/// Clauses behind MOVE and REBUILD that say where and how.
pub(super) fn storage_clauses(words: &mut Words<'_>) -> Result<()> {
    const ALONE: [&str; 8] = [
        "online",
        "logging",
        "nologging",
        "noparallel",
        "nocompress",
        "noreverse",
        "cache",
        "nocache",
    ];
    while !words.at_end() {
        if ALONE.iter().any(|word| words.take(word)) {
            continue;
        }
        if words.take("tablespace") {
            words.name()?;
        } else if ["pctfree", "initrans", "maxtrans"].iter().any(|word| words.take(word)) {
            words.number()?;
        } else if words.take("parallel") || words.take("compress") {
            if words.at_number() {
                words.number()?;
            }
        } else if words.take("compute") {
            words.expect(&["statistics"])?;
        } else if words.take("update") {
            // They are made anew in any case.
            words.expect(&["indexes"])?;
        } else if words.take("storage") && words.open() {
            while !words.close() {
                words.skip()?;
            }
        } else if words.is("partition") || words.is("subpartition") || words.is("reverse") {
            return Err(PgError::unsupported(format!("REBUILD or MOVE .. {}", words.rest())));
        } else {
            return Err(words.near());
        }
    }
    Ok(())
}
