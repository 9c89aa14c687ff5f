//! What ALTER SYSTEM does beside setting parameters, and the clauses of storage behind MOVE and
//! REBUILD.
//!
//! What it promises: what has no counterpart here is refused by its words.

use super::{Own, Victim, Words, is_word};
use crate::{PgError, Result};
use datafusion::sql::sqlparser::tokenizer::Token;

/// `ALTER SYSTEM SET` and `RESET`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AlterSystem {
    pub name: String,
    /// None: the default.
    pub value: Option<String>,
    /// None: not said.
    pub scope: Option<Scope>,
    /// The instance it is for, as it was written; None: not said.
    pub sid: Option<String>,
}

/// How long what ALTER SYSTEM says holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Until the instance stops.
    Memory,
    /// From its next start on.
    File,
    Both,
}

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

/// `SET name = value` or `RESET name`, with `COMMENT = 'text'`, `DEFERRED`,
/// `SCOPE = MEMORY | SPFILE | BOTH` and `SID = 'name'` behind it.
pub(super) fn parse_parameter(words: &mut Words<'_>) -> Result<AlterSystem> {
    let reset = words.take("reset");
    if !reset && !words.take("set") {
        return Err(words.near());
    }
    let name = words.name()?;
    let mut value = None;
    if !reset {
        // `SET EVENTS 'text'` has no sign between.
        let between = words.take_token(&Token::Eq) || words.take("to") || name == "events";
        if !between {
            return Err(words.near());
        }
        let rest = &words.tokens[words.at..];
        let ends = |at: &usize| {
            let next_is_sign = rest.get(at + 1) == Some(&&Token::Eq);
            let word = |word: &str| is_word(rest[*at], word);
            word("deferred") || next_is_sign && ["comment", "scope", "sid"].into_iter().any(word)
        };
        // The value itself may be one of these words.
        let end = (1..rest.len()).find(ends).unwrap_or(rest.len());
        let default = end == 1 && is_word(rest[0], "default");
        let text = words.value_until(words.at + end)?;
        value = if default { None } else { Some(text) };
    }
    let mut alter = AlterSystem { name, value, scope: None, sid: None };
    while !words.at_end() {
        // There is one value, which every session goes by from now on.
        if words.take("deferred") {
            return Err(PgError::unsupported("ALTER SYSTEM SET .. DEFERRED"));
        }
        let (comment, scope) = (words.take("comment"), words.take("scope"));
        if !comment && !scope && !words.take("sid") || !words.take_token(&Token::Eq) {
            return Err(words.near());
        }
        if comment {
            words.text()?;
        } else if scope {
            alter.scope = Some(match () {
                () if words.take("memory") => Scope::Memory,
                () if words.take("spfile") => Scope::File,
                () if words.take("both") => Scope::Both,
                () => return Err(words.near()),
            });
        } else {
            alter.sid = Some(words.text()?);
        }
    }
    Ok(alter)
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

/// Clauses behind MOVE and REBUILD that say where and how; whether the keys of an index are to be
/// turned round, if that is said.
pub(super) fn storage_clauses(words: &mut Words<'_>) -> Result<Option<bool>> {
    const ALONE: [&str; 7] =
        ["online", "logging", "nologging", "noparallel", "nocompress", "cache", "nocache"];
    let mut reverse = None;
    while !words.at_end() {
        if ALONE.iter().any(|word| words.take(word)) {
            continue;
        }
        if words.take("tablespace") {
            words.name()?;
        } else if words.take("reverse") {
            reverse = Some(true);
        } else if words.take("noreverse") {
            reverse = Some(false);
        } else if ["pctfree", "initrans", "maxtrans"].iter().any(|word| words.take(word)) {
            words.number()?;
        } else if words.take("parallel") || words.take("compress") {
            if words.at_number() {
                words.number()?;
            } else if words.open() {
                while !words.close() {
                    words.skip()?;
                }
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
        } else if words.is("partition") || words.is("subpartition") {
            return Err(PgError::unsupported(format!("REBUILD or MOVE .. {}", words.rest())));
        } else {
            return Err(words.near());
        }
    }
    Ok(reverse)
}
