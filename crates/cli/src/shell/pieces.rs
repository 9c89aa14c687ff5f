//! Cuts what is typed into statements, blocks of procedural code and commands of the shell.
//!
//! What it promises: nothing inside quotes and comments ends a statement; a block ends with a line
//! that holds only a slash, and statements with a semicolon or such a line.

use super::blocks::{is_block, makes_routine, name_len};
use super::prepared::Prepared;
use super::words::{Begins, begins, command_len};

/// What comes next in a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Piece<'a> {
    /// A statement or block, without what ended it.
    Statement(&'a str),
    /// A command of the shell: a line.
    Command(&'a str),
    /// The statement before once more.
    Again,
    /// A block that is not run: a line that holds only a point has ended it.
    Kept(&'a str),
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

/// The next piece; `None`: only blanks and comments are left. `prepared`: what `execute` of is a
/// statement.
pub fn next<'a>(text: &'a str, prepared: &Prepared) -> Option<Next<'a>> {
    let mut at = 0;
    loop {
        let rest = &text[at..];
        let blank = rest.len() - rest.trim_start().len();
        if blank > 0 {
            at += blank;
        } else if rest.starts_with("--") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if rest.starts_with("/*") {
            at += comment_len(rest).unwrap_or(rest.len());
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
    match begins(rest, prepared) {
        Begins::Command => {
            let (len, end, complete) = command_len(rest);
            let piece = Piece::Command(rest[..len].trim());
            return Some(Next { piece, at, end: at + end, complete });
        }
        Begins::Line => {
            let (len, end, ended) = to_semicolon(line);
            let piece = Piece::Statement(line[..len].trim_end());
            let end = if ended { at + end } else { line_end };
            return Some(Next { piece, at, end, complete: true });
        }
        Begins::Statement => {}
    }
    let (len, end, ended) = match is_block(rest) {
        true => to_slash(rest),
        false => match to_semicolon(rest) {
            (len, end, true) => (len, end, Ended::Runs),
            (len, end, false) => (len, end, Ended::Not),
        },
    };
    let text = rest[..len].trim_end();
    let piece = match ended {
        Ended::Kept => Piece::Kept(text),
        Ended::Runs | Ended::Not => Piece::Statement(text),
    };
    Some(Next { piece, at, end: at + end, complete: ended != Ended::Not })
}

/// What has ended a block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    Runs,
    Kept,
    Not,
}

/// Length of a block up to a line with a slash or a point, and with that line.
fn to_slash(text: &str) -> (usize, usize, Ended) {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        match line.trim() {
            "/" => return (at, at + line.len(), Ended::Runs),
            "." => return (at, at + line.len(), Ended::Kept),
            _ => at += line.len(),
        }
    }
    (text.len(), text.len(), Ended::Not)
}

/// Length of a statement up to its semicolon, or a line with a slash.
fn to_semicolon(text: &str) -> (usize, usize, bool) {
    // A routine of SQL has statements between BEGIN ATOMIC and END.
    let counts = makes_routine(text);
    let (mut at, mut depth) = (0, 0_usize);
    while at < text.len() {
        let rest = &text[at..];
        let skip = step(rest);
        if rest.starts_with(';') && depth == 0 {
            return (at, at + 1, true);
        }
        if skip == 1 && rest.starts_with('/') {
            let begins = text[..at].rsplit('\n').next().is_some_and(|l| l.trim().is_empty());
            let line = rest.find('\n').unwrap_or(rest.len());
            if begins && rest[..line].trim() == "/" {
                return (at, at + (line + 1).min(rest.len()), true);
            }
        }
        if counts {
            match rest[..skip].to_ascii_lowercase().as_str() {
                "begin" => depth += 1,
                "case" if depth > 0 => depth += 1,
                "end" => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        at += skip;
    }
    (text.len(), text.len(), false)
}

/// Length of what `text` begins with: quoted text, a comment, a name or word, a character.
pub fn step(text: &str) -> usize {
    let word = name_len(text);
    if word == 1 && text.starts_with(['e', 'E']) && text[1..].starts_with('\'') {
        return 1 + escaped_len(&text[1..]);
    }
    if let Some(len) = delimited_len(text) {
        return len;
    }
    if word > 0 {
        return word;
    }
    let one = text.chars().next().map_or(1, char::len_utf8);
    closed_len(text).unwrap_or(one)
}

/// Length of the field's `q'[it's]'` that `text` begins with, if it does.
fn delimited_len(text: &str) -> Option<usize> {
    let inside = text.strip_prefix(['n', 'N']).unwrap_or(text).strip_prefix(['q', 'Q'])?;
    let inside = inside.strip_prefix('\'')?;
    let open = inside.chars().next().filter(|c| !c.is_whitespace())?;
    let close = match open {
        '[' => ']',
        '{' => '}',
        '<' => '>',
        '(' => ')',
        same => same,
    };
    let rest = &inside[open.len_utf8()..];
    let before = text.len() - rest.len();
    let end = [close, '\''].iter().collect::<String>();
    Some(rest.find(&end).map_or(text.len(), |at| before + at + end.len()))
}

/// Length of the quoted text or comment that `text` begins with, if it does.
pub fn closed_len(text: &str) -> Option<usize> {
    Some(match text.as_bytes().first()? {
        b'\'' | b'"' => quoted_len(text),
        b'$' => dollar_len(text),
        _ => return comment_len(text),
    })
}

/// Length of the comment that `text` begins with, if it does; comments may stand in one another.
pub fn comment_len(text: &str) -> Option<usize> {
    if text.starts_with("--") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if !text.starts_with("/*") {
        return None;
    }
    let (mut at, mut depth) = (2, 1);
    while depth > 0 {
        let Some(next) = text[at..].find("*/") else { return Some(text.len()) };
        match text[at..at + next].find("/*") {
            Some(inner) => (at, depth) = (at + inner + 2, depth + 1),
            None => (at, depth) = (at + next + 2, depth - 1),
        }
    }
    Some(at)
}

/// Length of the quoted text that `text` begins with, in which a backslash takes the meaning of
/// what follows it away.
fn escaped_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b'\'' if bytes.get(at + 1) == Some(&b'\'') => at += 1,
            b'\'' => return at + 1,
            _ => {}
        }
        at += 1;
    }
    text.len()
}

/// Length of the quoted text that `text` begins with; a doubled quote is inside.
pub fn quoted_len(text: &str) -> usize {
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
        while let Some(next) = next(&text[at..], &Prepared::default()) {
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
        let delimited = "select q'[it's; x]', nq'!;'!' from q; select q;";
        let whole = S("select q'[it's; x]', nq'!;'!' from q");
        assert_eq!(all(delimited), [whole, S("select q")]);
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
    fn bodies_of_stored_code_are_not_cut() {
        use Piece::{Command as C, Kept, Statement as S};
        let trigger = "create or replace trigger g before insert on t for each row\nbegin\n  \
                       delete from t;\n  insert into t values (1);\nend;";
        let package = "create package body p as\n  procedure a is begin null; end;\nend;";
        let atomic = "create function f() returns int begin atomic select 1; select case when true \
                      then 2 end; end";
        let text = format!(
            "{trigger}\n/\n{package}\n/\ncreate type mood as enum ('a;', 'b');\n\
             create type x as (a int);\n{atomic};\nbegin null; end;\n.\n\
             create type o as object (a int);\n/\nselect e'it\\'s;', v$x$y;select 1;"
        );
        assert_eq!(
            all(&text),
            [
                S(trigger),
                S(package),
                S("create type mood as enum ('a;', 'b')"),
                S("create type x as (a int)"),
                S(atomic),
                Kept("begin null; end;"),
                S("create type o as object (a int);"),
                S("select e'it\\'s;', v$x$y"),
                S("select 1"),
            ]
        );
        let text = "set autotrace on\nselect 1;\nlist\nshow search_path\nshow a; select 2;\n\
                    exec p(1, -\n  2)\nset x\n  to 1;\n/* a /* b */ ; */ select 3;";
        assert_eq!(
            all(text),
            [
                C("set autotrace on"),
                S("select 1"),
                C("list"),
                S("show search_path"),
                S("show a"),
                S("select 2"),
                C("exec p(1, -\n  2)"),
                S("set x\n  to 1"),
                S("select 3"),
            ]
        );
    }

    #[test]
    fn a_procedure_is_called_by_a_line_and_a_prepared_statement_by_one_of_the_server() {
        let text = "execute transfer(1,2,1)\nselect 1;";
        let mut prepared = Prepared::default();
        let first = next(text, &prepared).map(|next| next.piece);
        assert_eq!(first, Some(Piece::Command("execute transfer(1,2,1)")));
        prepared.note("prepare transfer(int) as select $1");
        let first = next(text, &prepared).map(|next| next.piece);
        assert_eq!(first, Some(Piece::Statement("execute transfer(1,2,1)\nselect 1")));
    }

    #[test]
    fn what_is_not_ended_is_not_complete() {
        let complete = |text| next(text, &Prepared::default()).is_some_and(|next| next.complete);
        assert!(complete("select 1;\n") && complete("\\d t\n"));
        assert!(
            !complete("select 1\n") && !complete("select ';\n") && !complete("begin null; end;\n")
        );
    }
}
