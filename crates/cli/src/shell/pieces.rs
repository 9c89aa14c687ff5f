//! Cuts what is typed into statements, blocks of procedural code and commands of the shell.
//!
//! What it promises: nothing inside quotes and comments ends a statement; a block ends with a line
//! that holds only a slash, and statements with a semicolon or such a line.

/// What comes next in a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Piece<'a> {
    /// A statement or block, without what ended it.
    Statement(&'a str),
    /// A command of the shell: a line.
    Command(&'a str),
    /// The statement before once more.
    Again,
}

/// A piece with its place.
#[derive(Debug)]
pub struct Next<'a> {
    pub piece: Piece<'a>,
    /// Bytes up to where it begins, and up to what follows it.
    pub at: usize,
    pub end: usize,
    /// Whether something has ended it.
    pub complete: bool,
}

/// Words that begin a command of the shell wherever they stand first in a line.
const COMMANDS: [&str; 33] = [
    "@", "@@", "!", "rem", "remark", "prompt", "exec", "variable", "var", "print", "start",
    "spool", "whenever", "define", "undefine", "accept", "pause", "host", "desc", "describe",
    "connect", "exit", "quit", "clear", "column", "col", "ttitle", "btitle", "break", "compute",
    "timing", "help", "conn",
];

/// What `set` sets in the shell.
pub const SETTINGS: [&str; 30] = [
    "timing",
    "serveroutput",
    "feedback",
    "feed",
    "heading",
    "head",
    "pagesize",
    "pages",
    "linesize",
    "lines",
    "echo",
    "termout",
    "term",
    "verify",
    "ver",
    "trimspool",
    "trims",
    "trimout",
    "tab",
    "wrap",
    "long",
    "numwidth",
    "num",
    "define",
    "sqlprompt",
    "autocommit",
    "format",
    "colsep",
    "null",
    "arraysize",
];

fn first_word(line: &str) -> &str {
    let line = line.trim_start();
    let end = line.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(line.len());
    &line[..end]
}

/// Whether a line is a command of the shell.
fn is_command(line: &str) -> bool {
    let line = line.trim();
    if line.starts_with(['\\', '@', '!']) {
        return true;
    }
    let word = first_word(line).to_ascii_lowercase();
    let rest = line[first_word(line).len()..].trim_start();
    let next = first_word(rest).to_ascii_lowercase();
    match word.as_str() {
        "set" => {
            SETTINGS.contains(&next.as_str()) && !rest[next.len()..].trim_start().starts_with(['='])
        }
        "show" => matches!(next.as_str(), "user" | "errors" | "release" | "err"),
        // A cursor's, a prepared statement's.
        "execute" => line.contains(":=") || line.contains("dbms_"),
        word => COMMANDS.contains(&word),
    }
}

/// Whether a statement begins with these words, comments between them aside.
fn words(text: &str, count: usize) -> Vec<String> {
    let mut out = Vec::new();
    let mut rest = text;
    while out.len() < count {
        rest = rest.trim_start();
        if rest.starts_with("--") {
            rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
        } else if rest.starts_with("/*") {
            rest = &rest[rest.find("*/").map_or(rest.len(), |i| i + 2)..];
        } else {
            let word = first_word(rest);
            let len = word.len().max(rest.chars().next().map_or(0, char::len_utf8));
            if len == 0 {
                break;
            }
            out.push(rest[..len].to_ascii_lowercase());
            rest = &rest[len..];
        }
    }
    out
}

/// Whether semicolons are part of the statement: a block, or a routine in the field's language.
fn is_block(text: &str) -> bool {
    let words = words(text, 60);
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    match word(0) {
        "begin" => !matches!(
            word(1),
            "" | ";" | "transaction" | "work" | "isolation" | "read" | "not" | "deferrable"
        ),
        "declare" => !words.iter().take(6).any(|word| word == "cursor") || word(1) == "cursor",
        "<" => word(1) == "<",
        "create" => {
            let from = if word(1) == "or" { 3 } else { 1 };
            let from = from + usize::from(word(from).ends_with("editionable"));
            if !matches!(word(from), "function" | "procedure") {
                return false;
            }
            let mut open = 0;
            for at in from..words.len() {
                match word(at) {
                    "(" => open += 1,
                    ")" => open -= 1,
                    "returns" | "language" if open == 0 => return false,
                    "is" if open == 0 => return true,
                    "as" if open == 0 => return !matches!(word(at + 1), "'" | "$"),
                    _ => {}
                }
            }
            false
        }
        _ => false,
    }
}

/// The next piece; `None`: only blanks and comments are left.
pub fn next(text: &str) -> Option<Next<'_>> {
    let mut at = 0;
    loop {
        let rest = &text[at..];
        let blank = rest.len() - rest.trim_start().len();
        if blank > 0 {
            at += blank;
        } else if rest.starts_with("--") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if rest.starts_with("/*") {
            at += rest.find("*/").map_or(rest.len(), |i| i + 2);
        } else if rest.starts_with(';') {
            at += 1;
        } else {
            break;
        }
    }
    let rest = &text[at..];
    if rest.is_empty() {
        return None;
    }
    let line_len = rest.find('\n').unwrap_or(rest.len());
    let line = &rest[..line_len];
    let line_end = at + (line_len + 1).min(rest.len());
    if line.trim() == "/" {
        return Some(Next { piece: Piece::Again, at, end: line_end, complete: true });
    }
    if is_command(line) {
        return Some(Next {
            piece: Piece::Command(line.trim()),
            at,
            end: line_end,
            complete: true,
        });
    }
    let (len, end, complete) = match is_block(rest) {
        true => to_slash(rest),
        false => to_semicolon(rest),
    };
    let piece = Piece::Statement(rest[..len].trim_end());
    Some(Next { piece, at, end: at + end, complete })
}

/// Length of a block up to a line with a slash, and with that line.
fn to_slash(text: &str) -> (usize, usize, bool) {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.trim() == "/" {
            return (at, at + line.len(), true);
        }
        at += line.len();
    }
    (text.len(), text.len(), false)
}

/// Length of a statement up to its semicolon, or a line with a slash.
fn to_semicolon(text: &str) -> (usize, usize, bool) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        if let Some(skip) = closed_len(rest) {
            at += skip;
            continue;
        }
        let skip = match bytes[at] {
            b'/' => {
                let begins = text[..at].rsplit('\n').next().is_some_and(|l| l.trim().is_empty());
                let line = rest.find('\n').unwrap_or(rest.len());
                if begins && rest[..line].trim() == "/" {
                    return (at, at + (line + 1).min(rest.len()), true);
                }
                1
            }
            b';' => return (at, at + 1, true),
            _ => rest.chars().next().map_or(1, char::len_utf8),
        };
        at += skip;
    }
    (text.len(), text.len(), false)
}

/// Length of the quoted text or comment that `text` begins with, if it does.
pub fn closed_len(text: &str) -> Option<usize> {
    Some(match text.as_bytes().first()? {
        b'\'' | b'"' => quoted_len(text),
        b'-' if text.starts_with("--") => text.find('\n').unwrap_or(text.len()),
        b'/' if text.starts_with("/*") => text.find("*/").map_or(text.len(), |i| i + 2),
        b'$' => dollar_len(text),
        _ => return None,
    })
}

/// Length of the quoted text that `text` begins with; a doubled quote is inside.
fn quoted_len(text: &str) -> usize {
    let quote = text.as_bytes()[0];
    let mut at = 1;
    let bytes = text.as_bytes();
    while at < bytes.len() {
        if bytes[at] == quote {
            if bytes.get(at + 1) != Some(&quote) {
                return at + 1;
            }
            at += 1;
        }
        at += 1;
    }
    text.len()
}

/// Length of the dollar-quoted text that `text` begins with, or of a lone dollar sign.
fn dollar_len(text: &str) -> usize {
    let Some(end) = text[1..].find('$').map(|i| i + 2) else { return 1 };
    let tag = &text[..end];
    let name = &tag[1..end - 1];
    if name.starts_with(|c: char| c.is_ascii_digit())
        || !name.chars().all(|c| c.is_alphanumeric() || c == '_')
    {
        return 1;
    }
    text[end..].find(tag).map_or(text.len(), |i| end + i + end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<Piece<'_>> {
        let (mut out, mut at) = (Vec::new(), 0);
        while let Some(next) = next(&text[at..]) {
            at += next.end;
            out.push(next.piece);
        }
        out
    }

    #[test]
    fn statements_end_with_semicolons_outside_of_quotes() {
        use Piece::Statement as S;
        let text = "select ';'; -- a; b\ninsert into t values ('it''s;', \"c;d\");;\n\
                    do $$ begin; end $$; do $x$ $$; $x$; /* ; */ select $1; commit -- end";
        assert_eq!(
            all(text),
            [
                S("select ';'"),
                S("insert into t values ('it''s;', \"c;d\")"),
                S("do $$ begin; end $$"),
                S("do $x$ $$; $x$"),
                S("select $1"),
                S("commit -- end"),
            ]
        );
        assert!(all(" ; -- nothing\n ; /* x */").is_empty());
        assert_eq!(all("select 1\n/\nselect 4 / 2;"), [S("select 1"), S("select 4 / 2")]);
    }

    #[test]
    fn blocks_end_with_a_slash() {
        use Piece::{Again, Command as C, Statement as S};
        let text = "begin;\nbegin\n  null;\nend;\n/\nset timing on\ndeclare x int; begin null; end;\n/\n/\n\
                    create or replace procedure p(a in number) is begin null; end;\n/\n\
                    create function f(a int) returns int language sql as 'select 1; select 2';\n\
                    exec p(1);\nREM a; b\n@file x\ndeclare c cursor for select 1;\nset x = 1;";
        assert_eq!(
            all(text),
            [
                S("begin"),
                S("begin\n  null;\nend;"),
                C("set timing on"),
                S("declare x int; begin null; end;"),
                Again,
                S("create or replace procedure p(a in number) is begin null; end;"),
                S("create function f(a int) returns int language sql as 'select 1; select 2'"),
                C("exec p(1);"),
                C("REM a; b"),
                C("@file x"),
                S("declare c cursor for select 1"),
                S("set x = 1"),
            ]
        );
    }

    #[test]
    fn what_is_not_ended_is_not_complete() {
        let complete = |text| next(text).is_some_and(|next| next.complete);
        assert!(complete("select 1;\n") && complete("\\d t\n"));
        assert!(
            !complete("select 1\n") && !complete("select ';\n") && !complete("begin null; end;\n")
        );
    }
}
