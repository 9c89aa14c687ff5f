//! Statements that the library does not parse, or not as the field writes them: cursors, sequences
//! with their options in any order, `alter session`, parts of ALTER.
//!
//! What it promises: a statement that begins like one of these and is none is left to the library,
//! or is a syntax error at the word that is wrong.

use super::*;

/// What ALTER INDEX may say of how an index is stored, where nothing else is altered.
const STORED_ALONE: [&str; 5] = ["parallel", "noparallel", "logging", "nologging", "compile"];

impl Words<'_> {
    fn finish(&self, own: Own) -> Result<Option<Own>> {
        if self.at_end() { Ok(Some(own)) } else { Err(self.near()) }
    }

    fn maintained(&mut self) -> Result<Vec<MaintainedTable>> {
        let mut out = Vec::new();
        while !self.at_end() {
            let (schema, name) = self.qualified()?;
            let mut columns = Vec::new();
            if self.take_token(&Token::LParen) {
                columns.push(self.name()?);
                while self.comma() {
                    columns.push(self.name()?);
                }
                if !self.close() {
                    return Err(self.near());
                }
            }
            out.push(MaintainedTable { schema, name, columns });
            if !self.take_token(&Token::Comma) {
                break;
            }
        }
        Ok(out)
    }
}

pub(super) fn parse_own(tokens: &[TokenWithSpan]) -> Result<Option<Own>> {
    let first = tokens.iter().find(|t| !is_space(&t.token));
    let Some(Token::Word(word)) = first.map(|t| &t.token) else { return Ok(None) };
    let ours = matches!(
        word.keyword,
        Keyword::VACUUM
            | Keyword::ANALYZE
            | Keyword::SHOW
            | Keyword::ALTER
            | Keyword::CREATE
            | Keyword::DECLARE
            | Keyword::FETCH
            | Keyword::CLOSE
            | Keyword::SET
            | Keyword::RESET
            | Keyword::DROP
            | Keyword::GRANT
            | Keyword::REVOKE
            | Keyword::CALL
            | Keyword::EXEC
            | Keyword::EXECUTE
            | Keyword::NoKeyword
    );
    let others = ["checkpoint", "reassign", "refresh", "do"];
    if !ours && !others.iter().any(|other| word.value.eq_ignore_ascii_case(other)) {
        return Ok(None);
    }
    let all = tokens;
    let tokens = tokens.iter().map(|t| &t.token).filter(|t| !is_space(t)).collect();
    let mut words = Words { tokens, at: 0, all };
    if let Some(own) = super::code::parse_do(&mut words)? {
        return Ok(Some(own));
    }
    if let Some(own) = super::procedures::parse(&mut words)? {
        return words.finish(own);
    }
    if let Some(own) = crate::cursor_words::parse(&mut words)? {
        return words.finish(own);
    }
    if let Some(access) = crate::access::parse(&mut words)? {
        return words.finish(Own::Access(Box::new(access)));
    }
    if words.take("vacuum") {
        return parse_vacuum(words);
    }
    if words.take("analyze") || words.take("analyse") {
        return parse_analyze(words);
    }
    if words.take("checkpoint") {
        return words.finish(Own::Checkpoint);
    }
    if words.take("refresh") {
        return parse_refresh(words);
    }
    if words.take("show") && (words.take("parameter") || words.take("parameters")) {
        let name = if words.at_end() { None } else { Some(words.value()?) };
        return words.finish(Own::ShowParameter(name));
    }
    words.at = 0;
    if words.take("create") && words.take("sequence") {
        return parse_sequence(words);
    }
    words.at = 0;
    if words.take("alter") && words.take("system") {
        if words.take("checkpoint") {
            return words.finish(Own::Checkpoint);
        }
        if let Some(own) = super::system::parse(&mut words)? {
            return words.finish(own);
        }
        let alter = super::system::parse_parameter(&mut words)?;
        return words.finish(Own::AlterSystem(alter));
    }
    words.at = 0;
    if words.take("create") && words.take("schema") {
        let element = |token: &&&Token| is_word(token, "create") || is_word(token, "grant");
        if words.tokens[words.at..].iter().any(|token| element(&token)) {
            return Err(PgError::unsupported("CREATE SCHEMA with what is to be made in it"));
        }
    }
    words.at = 0;
    if words.take("set") && words.take("constraints") {
        return parse_set_constraints(words);
    }
    if let Some(own) = parse_alter_relation(&mut words)? {
        return words.finish(own);
    }
    words.at = 0;
    if words.take("alter") && words.take("session") {
        return parse_alter_session(words);
    }
    Ok(None)
}

/// `ALTER .. SET SCHEMA`, `ALTER VIEW`, `INDEX`, `SCHEMA` and `SEQUENCE .. RENAME`.
fn parse_alter_relation(words: &mut Words<'_>) -> Result<Option<Own>> {
    words.at = 0;
    if !words.take("alter") {
        return Ok(None);
    }
    let kinds = [
        ("table", "TABLE"),
        ("materialized", "MATERIALIZED VIEW"),
        ("view", "VIEW"),
        ("index", "INDEX"),
        ("sequence", "SEQUENCE"),
        ("type", "TYPE"),
        ("schema", "SCHEMA"),
    ];
    let Some((_, kind)) = kinds.into_iter().find(|(word, _)| words.take(word)) else {
        return Ok(None);
    };
    if kind == "MATERIALIZED VIEW" && !words.take("view") {
        return Ok(None);
    }
    let if_exists = words.take("if");
    if if_exists && !words.take("exists") {
        return Ok(None);
    }
    let _ = kind == "TABLE" && words.take("only");
    let Ok((schema, name)) = words.qualified() else { return Ok(None) };
    let action = if words.take("set") {
        if kind == "VIEW" && !words.is("schema") {
            return Err(PgError::unsupported("ALTER VIEW .. SET"));
        }
        let logged = words.is("logged");
        if matches!(kind, "TABLE" | "SEQUENCE") && (logged || words.is("unlogged")) {
            words.skip()?;
            RelationAction::SetLogged(logged)
        } else if kind == "INDEX" || !words.take("schema") {
            return Ok(None);
        } else {
            RelationAction::SetSchema(words.name()?)
        }
    } else if (kind == "TABLE" && words.take("move")) || (kind == "INDEX" && words.take("rebuild"))
    {
        let from = words.rest_ahead();
        match super::system::storage_clauses(words)? {
            Some(_) if kind == "TABLE" => {
                return Err(PgError::unsupported(format!("MOVE {from}")));
            }
            reverse => RelationAction::Rebuild(reverse),
        }
    } else if kind == "INDEX" && STORED_ALONE.iter().any(|word| words.is(word)) {
        let text = words.rest_ahead().to_uppercase();
        if words.take("compile") {
            if !words.at_end() {
                return Err(words.near());
            }
        } else if super::system::storage_clauses(words)?.is_some() {
            return Err(PgError::syntax("REVERSE and NOREVERSE stand behind REBUILD"));
        }
        RelationAction::Stored(text)
    } else if kind == "SCHEMA" && schema.is_none() && !if_exists && words.take("rename") {
        words.expect(&["to"])?;
        RelationAction::Rename(words.name()?)
    } else if matches!(kind, "TYPE" | "SCHEMA") {
        return Ok(None);
    } else if kind == "TABLE" && words.take("alter") {
        let _ = words.take("column");
        let Ok(name) = words.name() else { return Ok(None) };
        let dropped = words.take("drop");
        let named = match !dropped && words.take("add") {
            true => parse_named_identity(words)?,
            false => None,
        };
        let change = if let Some(named) = named {
            named
        } else if dropped && words.take("identity") {
            ColumnChange::DropIdentity { if_exists: words.take("if") && words.take("exists") }
        } else if dropped && words.take("expression") {
            ColumnChange::DropExpression { if_exists: words.take("if") && words.take("exists") }
        } else if !dropped && words.follows("set", "generated") {
            words.expect(&["set", "generated"])?;
            let always = words.take("always");
            let by_default = !always && words.take("by") && words.take("default");
            if !always && !by_default {
                return Err(words.near());
            }
            ColumnChange::SetGenerated { always }
        } else if let Some(spec) = parse_identity_options(words)? {
            ColumnChange::Sequence(Box::new(spec))
        } else {
            return Ok(None);
        };
        RelationAction::Column { name, change }
    } else if kind == "SEQUENCE" && words.take("owned") {
        if !words.take("by") {
            return Err(words.near());
        }
        RelationAction::OwnedBy(match words.take("none") {
            true => None,
            false => Some(owning_column(words)?),
        })
    } else if kind == "SEQUENCE" && is_sequence_option(words) {
        let mut spec = SequenceSpec::default();
        while !words.at_end() {
            altered_option(words, &mut spec)?;
        }
        RelationAction::Options(Box::new(spec))
    } else if kind == "VIEW" && (words.is("alter") || words.is("reset")) {
        return Err(PgError::unsupported("ALTER VIEW .. ALTER COLUMN and RESET"));
    } else if matches!(kind, "VIEW" | "MATERIALIZED VIEW" | "INDEX" | "SEQUENCE")
        && words.take("rename")
    {
        if words.take("to") {
            RelationAction::Rename(words.name()?)
        } else if !matches!(kind, "VIEW" | "MATERIALIZED VIEW") {
            return Err(words.near());
        } else {
            let _ = words.take("column");
            let old = words.name()?;
            if !words.take("to") {
                return Err(words.near());
            }
            RelationAction::RenameColumn { old, new: words.name()? }
        }
    } else {
        return Ok(None);
    };
    Ok(Some(Own::AlterRelation(Box::new(AlterRelation { kind, if_exists, schema, name, action }))))
}

/// `[schema.]table.column`.
fn owning_column(words: &mut Words<'_>) -> Result<(Option<String>, String, String)> {
    let mut parts = vec![words.name()?];
    while words.take_token(&Token::Period) {
        parts.push(words.name()?);
    }
    match &parts[..] {
        [table, column] => Ok((None, table.clone(), column.clone())),
        [schema, table, column] => Ok((Some(schema.clone()), table.clone(), column.clone())),
        _ => Err(PgError::syntax("invalid OWNED BY option")
            .with_hint("Specify OWNED BY table.column or OWNED BY NONE.")),
    }
}

fn parse_refresh(mut words: Words<'_>) -> Result<Option<Own>> {
    words.expect(&["materialized", "view"])?;
    let concurrently = words.take("concurrently");
    let (schema, name) = words.qualified()?;
    let mut no_data = false;
    if words.take("with") {
        no_data = words.take("no");
        words.expect(&["data"])?;
    }
    words.finish(Own::Refresh(Refresh { concurrently, schema, name, no_data }))
}

fn parse_set_constraints(mut words: Words<'_>) -> Result<Option<Own>> {
    let mut names = None;
    if !words.take("all") {
        let mut list = vec![words.qualified()?];
        while words.take_token(&Token::Comma) {
            list.push(words.qualified()?);
        }
        names = Some(list);
    }
    let deferred = words.take("deferred");
    if !deferred && !words.take("immediate") {
        return Err(words.near());
    }
    words.finish(Own::SetConstraints { names, deferred })
}

/// `ALTER SESSION SET a = 1 b = 2`, and `ENABLE`, `DISABLE` or `FORCE PARALLEL DML`, `DDL` or
/// `QUERY`, which is told as the setting of that name.
fn parse_alter_session(mut words: Words<'_>) -> Result<Option<Own>> {
    for verb in ["enable", "disable", "force"] {
        if words.take(verb) {
            let kinds = ["dml", "ddl", "query"];
            let kind = if words.take("parallel") {
                kinds.into_iter().find(|kind| words.take(kind))
            } else {
                None
            };
            let Some(kind) = kind else { return Err(words.near()) };
            let value = if words.take("parallel") { words.value()? } else { verb.to_owned() };
            return words.finish(Own::AlterSessionSet(vec![(format!("parallel {kind}"), value)]));
        }
    }
    if !words.take("set") {
        return Err(words.near());
    }
    let mut all = Vec::new();
    while all.is_empty() || !words.at_end() {
        let name = words.name()?;
        let between = words.take_token(&Token::Eq) || words.take("to") || name == "events";
        if !between {
            return Err(words.near());
        }
        let rest = &words.tokens[words.at..];
        // The next one begins where a name is followed by the sign; events have none.
        let next = |pair: &[&Token]| match pair {
            [Token::Word(_), Token::Eq] => true,
            [name, Token::SingleQuotedString(_)] => is_word(name, "events"),
            _ => false,
        };
        let end = (1..rest.len()).find(|at| rest.get(*at..*at + 2).is_some_and(next));
        let end = end.unwrap_or(rest.len());
        // The word is no name of files; in quotes it is.
        let none = name == "tracefile_identifier" && end == 1 && is_word(rest[0], "default");
        let value = words.value_until(words.at + end)?;
        all.push((name, if none { String::new() } else { value }));
    }
    words.finish(Own::AlterSessionSet(all))
}

fn parse_sequence(mut words: Words<'_>) -> Result<Option<Own>> {
    let mut spec = SequenceSpec::default();
    if words.take("if") {
        if !words.take("not") || !words.take("exists") {
            return Err(words.near());
        }
        spec.if_not_exists = true;
    }
    (spec.schema, spec.name) = words.qualified()?;
    while !words.at_end() {
        sequence_option(&mut words, &mut spec)?;
    }
    Ok(Some(Own::CreateSequence(Box::new(spec))))
}

const SEQUENCE_OPTIONS: [&str; 14] = [
    "as",
    "increment",
    "start",
    "minvalue",
    "maxvalue",
    "cache",
    "cycle",
    "order",
    "nominvalue",
    "nomaxvalue",
    "nocache",
    "nocycle",
    "noorder",
    "no",
];

fn is_sequence_option(words: &Words<'_>) -> bool {
    words.is("restart") || SEQUENCE_OPTIONS.iter().any(|word| words.is(word))
}

/// An option of `ALTER SEQUENCE`.
fn altered_option(words: &mut Words<'_>, spec: &mut SequenceSpec) -> Result<()> {
    if !words.take("restart") {
        return sequence_option(words, spec);
    }
    let value =
        words.take("with") || !(words.at_end() || words.is("set") || is_sequence_option(words));
    spec.restart = Some(if value { Some(words.number()?) } else { None });
    Ok(())
}

/// `RESTART ..` and `SET option ..` of an identity column; anything else is left to the library.
fn parse_identity_options(words: &mut Words<'_>) -> Result<Option<SequenceSpec>> {
    let options: Vec<&str> = SEQUENCE_OPTIONS.into_iter().filter(|word| *word != "as").collect();
    let set = |words: &Words<'_>| options.iter().any(|word| words.follows("set", word));
    if !words.is("restart") && !set(words) {
        return Ok(None);
    }
    let mut spec = SequenceSpec::default();
    while !words.at_end() {
        if !words.is("restart") {
            words.expect(&["set"])?;
        }
        altered_option(words, &mut spec)?;
    }
    Ok(Some(spec))
}

/// A limit; `None` for as many nines as the field's own limits have, which is how its scripts write
/// that there is none.
fn sequence_limit(words: &mut Words<'_>) -> Result<Option<i64>> {
    let signed = usize::from(words.tokens.get(words.at) == Some(&&Token::Minus));
    if let Some(Token::Number(digits, _)) = words.tokens.get(words.at + signed)
        && matches!(digits.len(), 26..=28)
        && digits.bytes().all(|digit| digit == b'9')
    {
        words.at += signed + 1;
        return Ok(None);
    }
    words.number().map(Some)
}

/// One option of a sequence.
fn sequence_option(words: &mut Words<'_>, spec: &mut SequenceSpec) -> Result<()> {
    if words.take("as") {
        spec.type_name = Some(words.name()?);
    } else if words.take("increment") {
        let _ = words.take("by");
        spec.increment = Some(words.number()?);
    } else if words.take("start") {
        let _ = words.take("with");
        spec.start = Some(words.number()?);
    } else if words.take("minvalue") {
        spec.min = Some(sequence_limit(words)?);
    } else if words.take("maxvalue") {
        spec.max = Some(sequence_limit(words)?);
    } else if words.take("cache") {
        spec.cache = Some(words.number()?);
    } else if words.take("cycle") {
        spec.cycle = Some(true);
    } else if words.take("order") {
        spec.order = Some(true);
    } else if words.take("nominvalue") {
        spec.min = Some(None);
    } else if words.take("nomaxvalue") {
        spec.max = Some(None);
    } else if words.take("nocache") {
        spec.cache = Some(1);
    } else if words.take("nocycle") {
        spec.cycle = Some(false);
    } else if words.take("noorder") {
        spec.order = Some(false);
    } else if words.take("no") {
        if words.take("minvalue") {
            spec.min = Some(None);
        } else if words.take("maxvalue") {
            spec.max = Some(None);
        } else if words.take("cycle") {
            spec.cycle = Some(false);
        } else {
            return Err(words.near());
        }
    } else {
        return Err(words.near());
    }
    Ok(())
}

/// `ADD GENERATED .. AS IDENTITY (SEQUENCE NAME name ..)`, whose name the library does not know;
/// without one it is left to the library.
fn parse_named_identity(words: &mut Words<'_>) -> Result<Option<ColumnChange>> {
    if !words.take("generated") {
        return Ok(None);
    }
    let always = words.take("always");
    let known = always || (words.take("by") && words.take("default"));
    if !known {
        return Ok(None);
    }
    let open = words.take("as") && words.take("identity") && words.take_token(&Token::LParen);
    if !open || !words.take("sequence") {
        return Ok(None);
    }
    if !words.take("name") {
        return Err(words.near());
    }
    let mut spec = SequenceSpec::default();
    (spec.schema, spec.name) = words.qualified()?;
    while !words.take_token(&Token::RParen) {
        sequence_option(words, &mut spec)?;
    }
    Ok(Some(ColumnChange::AddIdentity { always, spec: Box::new(spec) }))
}

/// `VACUUM [(option, ...)] [FULL] [FREEZE] [VERBOSE] [ANALYZE] [table, ...]`.
/// Options in parentheses: those of ANALYZE, and with `vacuum` those of VACUUM.
fn maintenance_options(words: &mut Words<'_>, vacuum: bool, into: &mut Maintenance) -> Result<()> {
    const OF_VACUUM: [&str; 8] = [
        "full",
        "freeze",
        "disable_page_skipping",
        "index_cleanup",
        "process_toast",
        "truncate",
        "parallel",
        "analyze",
    ];
    loop {
        let option = words.name()?;
        let option = if option == "analyse" { "analyze".to_owned() } else { option };
        let value = match words.tokens.get(words.at) {
            Some(Token::Comma | Token::RParen) | None => None,
            Some(Token::Number(digits, _)) => Some(digits.clone()),
            _ => Some(words.name_or_text()?),
        };
        if matches!(words.tokens.get(words.at), Some(Token::Number(..))) {
            words.at += 1;
        }
        let number = vacuum && matches!(&*option, "parallel" | "index_cleanup");
        let on = match value {
            Some(_) if number => true,
            None => true,
            Some(value) => match value.to_ascii_lowercase().as_str() {
                "true" | "on" | "1" => true,
                "false" | "off" | "0" => false,
                _ => {
                    return Err(PgError::syntax(format!("{option} requires a Boolean value")));
                }
            },
        };
        match &*option {
            "verbose" => into.verbose = on,
            "skip_locked" => into.skip_locked = on,
            "analyze" if vacuum => into.analyze = on,
            other if vacuum && OF_VACUUM.contains(&other) => {}
            other => {
                let statement = if vacuum { "VACUUM" } else { "ANALYZE" };
                let text = format!("unrecognized {statement} option \"{other}\"");
                return Err(PgError::syntax(text));
            }
        }
        if words.close() {
            return Ok(());
        }
        if !words.comma() {
            return Err(words.near());
        }
    }
}

fn parse_vacuum(mut words: Words<'_>) -> Result<Option<Own>> {
    let mut what = Maintenance::default();
    if words.open() {
        maintenance_options(&mut words, true, &mut what)?;
    } else {
        let _ = words.take("full");
        let _ = words.take("freeze");
        what.verbose = words.take("verbose");
        what.analyze = words.take("analyze") || words.take("analyse");
    }
    what.tables = words.maintained()?;
    words.finish(Own::Vacuum(what))
}

fn parse_analyze(mut words: Words<'_>) -> Result<Option<Own>> {
    let mut what = Maintenance { analyze: true, ..Maintenance::default() };
    if words.open() {
        maintenance_options(&mut words, false, &mut what)?;
    } else {
        what.verbose = words.take("verbose");
    }
    what.tables = words.maintained()?;
    words.finish(Own::Analyze(what))
}
