//! CREATE and ALTER TABLE and CREATE INDEX as the field writes them: columns in brackets, MODIFY,
//! states of constraints, and clauses of storage.
//!
//! What it promises: a state of a constraint that it would be in anyway goes; any other is refused
//! by name. What it must never do: take the name of a column for a clause.

use super::Token;
use super::edit::{Edit, words};
use crate::{PgError, Result};
use std::ops::Range;

/// The option that stands for clauses of storage where nothing else is altered.
pub(crate) const STORED: &str = "$stored";

fn refused<T>(what: &str) -> Result<T> {
    Err(PgError::unsupported(what))
}

/// How many words a clause of storage has that begins at a place; `None`: none begins there.
pub(super) fn physical(edit: &Edit<'_>, n: usize) -> Result<Option<usize>> {
    const WITH_VALUE: [&str; 5] = ["tablespace", "pctfree", "pctused", "initrans", "maxtrans"];
    const ALONE: [&str; 9] = [
        "logging",
        "nologging",
        "noparallel",
        "cache",
        "nocache",
        "nocompress",
        "monitoring",
        "nomonitoring",
        "norowdependencies",
    ];
    let value = edit.name(n + 1) || edit.number(n + 1);
    Ok(Some(match () {
        () if edit.any(n, &WITH_VALUE) && value => 2,
        () if edit.any(n, &ALONE) => 1,
        () if edit.any(n, &["storage", "result_cache"]) && edit.open(n + 1) => {
            match edit.closing(n + 1) {
                Some(close) => close + 1 - n,
                None => return Ok(None),
            }
        }
        () if edit.is(n, "parallel") && edit.open(n + 1) => match edit.closing(n + 1) {
            Some(close) => close + 1 - n,
            None => return Ok(None),
        },
        () if edit.is(n, "parallel") => 1 + usize::from(edit.number(n + 1)),
        () if edit.all(n, &["row", "store", "compress"]) => {
            3 + usize::from(edit.any(n + 3, &["basic", "advanced"]))
        }
        () if edit.all(n, &["compress", "for"]) => {
            let more = ["operations", "low", "high"];
            3 + usize::from(edit.any(n + 3, &more))
        }
        () if edit.is(n, "compress") => {
            1 + usize::from(edit.number(n + 1) || edit.any(n + 1, &["basic", "advanced"]))
        }
        () if edit.all(n, &["segment", "creation"]) => 3,
        () if edit.any(n, &["enable", "disable"]) && edit.all(n + 1, &["row", "movement"]) => 3,
        () if edit.all(n, &["organization", "heap"]) => 2,
        () if edit.all(n, &["organization", "index"]) => return refused("ORGANIZATION INDEX"),
        () if edit.all(n, &["organization", "external"]) => {
            return refused("ORGANIZATION EXTERNAL");
        }
        () => return Ok(None),
    }))
}

/// Takes clauses of storage out from a place on, up to what they do not know. How many words.
fn strip(edit: &mut Edit<'_>, mut n: usize, end: usize) -> Result<()> {
    let mut depth = 0usize;
    while n < end {
        if depth == 0
            && let Some(width) = physical(edit, n)?
        {
            edit.remove(n..(n + width).min(end));
            n += width;
            continue;
        }
        depth += usize::from(edit.open(n));
        depth -= usize::from(depth > 0 && edit.sign(n, &Token::RParen));
        n += 1;
    }
    Ok(())
}

/// Types and states of constraints in the definition of a column or a constraint.
fn definition(edit: &mut Edit<'_>, range: Range<usize>, new: bool) -> Result<()> {
    // A name may be any of the words below.
    let mut n = match edit.is(range.start, "constraint") {
        true => edit.behind_name(range.start + 1),
        false => range.start + 1,
    };
    let mut depth = 0usize;
    while n < range.end {
        let at = n;
        n += 1;
        if depth == 0 && edit.any(at, &["constraint", "references"]) {
            n = edit.behind_name(at + 1);
            continue;
        }
        if edit.open(at) {
            depth += 1;
        } else if edit.sign(at, &Token::RParen) {
            depth = depth.saturating_sub(1);
        }
        if depth > 0 {
            continue;
        }
        if edit.is(at, "number") && edit.open(at + 1) {
            edit.replace(at, words("NUMERIC"));
            if edit.sign(at + 2, &Token::Mul) {
                edit.replace(at + 2, [Token::Number("38".to_owned(), false)]);
            }
        } else if edit.all(at, &["long", "raw"]) {
            edit.replace(at, words("BYTEA"));
            edit.remove(at + 1..at + 2);
        } else if edit.all(at, &["with", "local", "time", "zone"]) {
            edit.remove(at + 1..at + 2);
        } else if edit.all(at, &["default", "on", "null"]) {
            return refused("DEFAULT ON NULL");
        } else if edit.all(at, &["using", "index"]) {
            n = using_index(edit, at, range.end)?;
        } else if edit.is(at, "disable") {
            return Err(PgError::unsupported("DISABLE of a constraint")
                .with_hint("Leave the constraint out, or add it later with NOT VALID."));
        } else if edit.is(at, "novalidate") && !new {
            edit.replace(at, words("NOT VALID"));
        } else if edit.any(at, &["enable", "validate", "novalidate", "rely", "norely"]) {
            edit.remove(at..at + 1);
        }
    }
    Ok(())
}

/// `USING INDEX` with clauses of storage; the place behind it.
fn using_index(edit: &mut Edit<'_>, at: usize, end: usize) -> Result<usize> {
    let mut n = at + 2;
    if edit.open(n) {
        return Err(PgError::unsupported("USING INDEX (CREATE INDEX ..)")
            .with_hint("The index of a constraint has the constraint's name."));
    }
    let mut reverse = false;
    while n < end {
        n += match physical(edit, n)? {
            Some(width) => width,
            None if edit.is(n, "reverse") => {
                reverse = true;
                1
            }
            None if edit.any(n, &["noreverse", "sort", "nosort", "visible"]) => 1,
            None if edit.all(n, &["compute", "statistics"]) => 2,
            None => break,
        }
    }
    let stated = ["enable", "disable", "validate", "novalidate", "rely", "norely", "deferrable"];
    let more = ["not", "initially", "constraint", "online"];
    let named = n == at + 2 && n < end && edit.name(n);
    if named && !edit.any(n, &stated) && !edit.any(n, &more) {
        return Err(PgError::unsupported("USING INDEX with an index that is there")
            .with_hint("The index of a constraint is made with it."));
    }
    match reverse {
        // As an option of the constraint, which its index is made by.
        true => {
            edit.replace(at, words("USING reverse"));
            edit.remove(at + 1..n);
        }
        false => edit.remove(at..n),
    }
    Ok(n)
}

/// CREATE TABLE, from its name on.
pub(super) fn create(edit: &mut Edit<'_>, from: usize) -> Result<()> {
    let mut n = from;
    if edit.all(n, &["if", "not", "exists"]) {
        n += 3;
    }
    n = edit.behind_name(n);
    // Of a type, or a partition.
    if edit.any(n, &["of", "partition"]) {
        return Ok(());
    }
    if edit.open(n) {
        let Some(close) = edit.closing(n) else { return Ok(()) };
        for part in edit.parts(n + 1..close) {
            definition(edit, part, true)?;
        }
        n = close + 1;
    }
    let end = query_at(edit, n);
    strip(edit, n, end)
}

/// Where a query begins, with words of its own.
fn query_at(edit: &Edit<'_>, from: usize) -> usize {
    let mut depth = 0usize;
    for n in from..edit.len() {
        depth += usize::from(edit.open(n));
        depth -= usize::from(depth > 0 && edit.sign(n, &Token::RParen));
        if depth == 0 && edit.is(n, "as") {
            return n;
        }
    }
    edit.len()
}

/// CREATE INDEX, from its name on. Whether it is to be made ONLINE.
pub(super) fn index(edit: &mut Edit<'_>, from: usize) -> Result<bool> {
    let on = (from..edit.len()).find(|n| edit.is(*n, "on"));
    let Some(on) = on else { return Ok(false) };
    let mut n = edit.behind_name(on + 1);
    if edit.is(n, "using") {
        n += 2;
    }
    let Some(close) = edit.closing(n).filter(|_| edit.open(n)) else { return Ok(false) };
    let mut online = false;
    n = close + 1;
    while n < edit.len() && !edit.is(n, "where") {
        // INCLUDE names columns.
        if edit.open(n)
            && let Some(close) = edit.closing(n)
        {
            n = close + 1;
            continue;
        }
        let width = match () {
            () if edit.is(n, "online") => {
                online = true;
                1
            }
            () if edit.all(n, &["compute", "statistics"]) => 2,
            () if edit.any(n, &["sort", "nosort", "visible", "noreverse", "usable"]) => 1,
            () if edit.any(n, &["invisible", "unusable"]) => {
                let text = format!("CREATE INDEX .. {}", edit.text(n..n + 1).to_uppercase());
                return refused(&text);
            }
            () if edit.any(n, &["local", "global"]) => {
                let text = format!("CREATE INDEX .. {}", edit.text(n..n + 1).to_uppercase());
                return refused(&text);
            }
            () => match physical(edit, n)? {
                Some(width) => width,
                None => {
                    n += 1;
                    continue;
                }
            },
        };
        edit.remove(n..n + width);
        n += width;
    }
    Ok(online)
}

fn begins_constraint(edit: &Edit<'_>, n: usize) -> bool {
    edit.any(n, &["constraint", "primary", "unique", "check", "foreign"])
}

/// What an operation of ALTER TABLE may begin with.
const OPERATIONS: [&str; 8] =
    ["add", "modify", "drop", "rename", "set", "enable", "disable", "alter"];

/// ALTER TABLE.
pub(super) fn alter(edit: &mut Edit<'_>, told: &mut Vec<String>) -> Result<()> {
    let mut n = 2;
    if edit.all(n, &["if", "exists"]) {
        n += 2;
    }
    n += usize::from(edit.is(n, "only"));
    n = edit.behind_name(n);
    if storage_only(edit, n)? {
        told.push(format!("{} has no meaning here", edit.text(n..edit.len()).to_uppercase()));
        let option = [
            words("SET"),
            vec![
                Token::LParen,
                Token::make_word(STORED, Some('"')),
                Token::Eq,
                Token::Number("1".to_owned(), false),
                Token::RParen,
            ],
        ];
        edit.insert(n, option.concat());
        edit.remove(n..edit.len());
        return Ok(());
    }
    while n < edit.len() {
        let next = operation(edit, n)?;
        if edit.sign(next, &Token::Comma) {
            n = next + 1;
        } else if edit.any(next, &OPERATIONS) {
            // The field puts no comma behind what stands in brackets.
            edit.insert(next, [Token::Comma]);
            n = next;
        } else if next > n
            && let Some(width) = physical(edit, next)?
        {
            edit.remove(next..next + width);
            n = next + width;
        } else {
            break;
        }
    }
    Ok(())
}

/// Whether there is nothing else than clauses of storage.
fn storage_only(edit: &Edit<'_>, from: usize) -> Result<bool> {
    let mut n = from;
    while n < edit.len() {
        match physical(edit, n)? {
            Some(width) => n += width,
            None => return Ok(false),
        }
    }
    Ok(n > from)
}

/// One operation; the place behind it.
fn operation(edit: &mut Edit<'_>, n: usize) -> Result<usize> {
    let end = {
        let rest = edit.parts(n..edit.len());
        rest.first().map_or(edit.len(), |part| part.end)
    };
    let partition = edit.is(n + 1, "partition") || edit.is(n + 1, "subpartition");
    if edit.any(n, &["add", "drop", "modify", "truncate", "split", "merge", "exchange"])
        && partition
    {
        let text = format!("ALTER TABLE .. {}", edit.text(n..n + 2).to_uppercase());
        return refused(&text);
    }
    if edit.is(n, "add") && edit.open(n + 1) {
        return add(edit, n);
    }
    if edit.is(n, "add") {
        let mut from = n + 1 + usize::from(edit.is(n + 1, "column"));
        if edit.all(from, &["if", "not", "exists"]) {
            from += 3;
        }
        definition(edit, from..end, false)?;
        return Ok(end);
    }
    if edit.is(n, "modify") {
        return modify(edit, n, end);
    }
    if edit.is(n, "drop") && edit.open(n + 1) {
        let Some(close) = edit.closing(n + 1) else { return Ok(end) };
        edit.remove(n + 1..n + 2);
        edit.insert(n + 2, words("COLUMN"));
        for part in edit.parts(n + 2..close).into_iter().skip(1) {
            edit.insert(part.start, words("DROP COLUMN"));
        }
        edit.remove(close..close + 1);
        if edit.is(close + 1, "cascade") && edit.is(close + 2, "constraints") {
            return refused("DROP COLUMN .. CASCADE CONSTRAINTS");
        }
        return Ok(close + 1);
    }
    if edit.is(n, "drop") && edit.is(end.saturating_sub(1), "constraints") {
        return refused("DROP COLUMN .. CASCADE CONSTRAINTS");
    }
    let pairs = [
        ("set", "unused"),
        ("drop", "unused"),
        ("enable", "constraint"),
        ("enable", "primary"),
        ("enable", "unique"),
        ("enable", "novalidate"),
        ("enable", "validate"),
        ("disable", "constraint"),
        ("disable", "primary"),
        ("disable", "unique"),
        ("disable", "validate"),
        ("disable", "novalidate"),
        ("shrink", "space"),
        ("allocate", "extent"),
        ("deallocate", "unused"),
    ];
    if let Some((a, b)) = pairs.iter().find(|(a, b)| edit.all(n, &[a, b])) {
        let text = format!("ALTER TABLE .. {} {}", a.to_uppercase(), b.to_uppercase());
        let error = PgError::unsupported(text);
        return Err(match *a {
            "enable" => error.with_hint("A constraint is in force as long as it is there."),
            "disable" => error.with_hint(
                "DROP CONSTRAINT, and ADD CONSTRAINT again when the rows may be checked.",
            ),
            _ => error,
        });
    }
    Ok(end)
}

/// `ADD (a t, b t)`; the place behind it.
fn add(edit: &mut Edit<'_>, n: usize) -> Result<usize> {
    let Some(close) = edit.closing(n + 1) else { return Ok(edit.len()) };
    for (i, part) in edit.parts(n + 2..close).into_iter().enumerate() {
        let column = !begins_constraint(edit, part.start);
        let mut put = if i > 0 { words("ADD") } else { Vec::new() };
        if column {
            put.extend(words("COLUMN"));
        }
        edit.insert(part.start, put);
        definition(edit, part, false)?;
    }
    edit.remove(n + 1..n + 2);
    edit.remove(close..close + 1);
    Ok(close + 1)
}

/// `MODIFY a t` and `MODIFY (a t NOT NULL, ..)` as ALTER COLUMN; the place behind it.
fn modify(edit: &mut Edit<'_>, n: usize, end: usize) -> Result<usize> {
    let (parts, end) = match edit.open(n + 1) {
        true => {
            let Some(close) = edit.closing(n + 1) else { return Ok(edit.len()) };
            (edit.parts(n + 2..close), close + 1)
        }
        false => (std::iter::once(n + 1..end).collect(), end),
    };
    let mut out: Vec<Token> = Vec::new();
    for part in parts {
        let refuse = ["constraint", "primary", "unique", "default", "lob", "nested", "varray"];
        if edit.any(part.start, &refuse) && edit.name(part.start + 1) {
            let text = format!(
                "ALTER TABLE .. MODIFY {}",
                edit.text(part.start..part.start + 1).to_uppercase()
            );
            return refused(&text);
        }
        for mut change in modified(edit, part)? {
            if !out.is_empty() {
                out.push(Token::Comma);
            }
            out.append(&mut change);
        }
    }
    edit.insert(n, out);
    edit.remove(n..end);
    Ok(end)
}

/// What becomes of one column.
fn modified(edit: &Edit<'_>, part: Range<usize>) -> Result<Vec<Vec<Token>>> {
    let column = |what: &str| {
        let mut all = words("ALTER COLUMN");
        all.extend(edit.cut(part.start..part.start + 1));
        all.extend(words(what));
        all
    };
    let ends = ["default", "not", "null", "constraint", "check", "enable", "visible", "invisible"];
    let mut n = part.start + 1;
    let mut out = Vec::new();
    let from = n;
    let mut depth = 0usize;
    while n < part.end && (depth > 0 || !edit.any(n, &ends)) {
        depth += usize::from(edit.open(n));
        depth -= usize::from(depth > 0 && edit.sign(n, &Token::RParen));
        n += 1;
    }
    if n > from {
        let mut ty = column("TYPE");
        ty.extend(type_of(edit, from..n));
        out.push(ty);
    }
    while n < part.end {
        if edit.is(n, "default") {
            if edit.all(n, &["default", "on", "null"]) {
                return refused("DEFAULT ON NULL");
            }
            let from = n + 1;
            n = from + 1;
            let mut depth = usize::from(edit.open(from));
            while n < part.end && (depth > 0 || !edit.any(n, &["not", "null", "constraint"])) {
                depth += usize::from(edit.open(n));
                depth -= usize::from(depth > 0 && edit.sign(n, &Token::RParen));
                n += 1;
            }
            let mut default = column("SET DEFAULT");
            default.extend(edit.cut(from..n));
            out.push(default);
        } else if edit.all(n, &["not", "null"]) {
            out.push(column("SET NOT NULL"));
            n += 2;
        } else if edit.is(n, "null") {
            out.push(column("DROP NOT NULL"));
            n += 1;
        } else if edit.is(n, "constraint") && edit.all(n + 2, &["not", "null"]) {
            n += 2;
        } else if edit.any(n, &["enable", "validate"]) {
            n += 1;
        } else {
            let text = format!("MODIFY with {}", edit.text(n..n + 1).to_uppercase());
            return refused(&text);
        }
    }
    if out.is_empty() {
        return Err(PgError::syntax("MODIFY says nothing of the column"));
    }
    Ok(out)
}

/// A type in PostgreSQL's words.
fn type_of(edit: &Edit<'_>, range: Range<usize>) -> Vec<Token> {
    let n = range.start;
    if edit.all(n, &["long", "raw"]) {
        return words("BYTEA");
    }
    let mut ty = edit.cut(range);
    if edit.is(n, "number") && edit.open(n + 1) {
        ty[0] = Token::make_keyword("NUMERIC");
        if edit.sign(n + 2, &Token::Mul) {
            ty[2] = Token::Number("38".to_owned(), false);
        }
    }
    let local = |token: &Token| super::is_word(token, "local");
    ty.retain(|token| !local(token));
    ty
}
