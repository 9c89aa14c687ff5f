//! Which lines are commands of the shell, and which belong to the server.
//!
//! What it promises: a line that begins with a word of the field's shells is a command by itself,
//! known or not, so that it never takes the statement behind it with it. What it must never do:
//! take a statement of SQL for a command.

use super::prepared::Prepared;

/// Commands, each by the shortest form that is taken and in full.
const COMMANDS: [(&str, &str); 41] = [
    ("acc", "accept"),
    ("a", "append"),
    ("bre", "break"),
    ("bti", "btitle"),
    ("c", "change"),
    ("cl", "clear"),
    ("col", "column"),
    ("comp", "compute"),
    ("conn", "connect"),
    ("def", "define"),
    ("del", "del"),
    ("desc", "describe"),
    ("disc", "disconnect"),
    ("exec", "execute"),
    ("exit", "exit"),
    ("get", "get"),
    ("help", "help"),
    ("ho", "host"),
    ("i", "input"),
    ("l", "list"),
    ("pau", "pause"),
    ("pri", "print"),
    ("pro", "prompt"),
    ("quit", "quit"),
    ("rem", "remark"),
    ("repf", "repfooter"),
    ("reph", "repheader"),
    ("r", "run"),
    ("sav", "save"),
    ("set", "set"),
    ("sho", "show"),
    ("spo", "spool"),
    ("sta", "start"),
    ("timi", "timing"),
    ("tti", "ttitle"),
    ("undef", "undefine"),
    ("var", "variable"),
    ("whenever", "whenever"),
    // What there is to be said of them stands in `ABSENT`.
    ("copy", "copy"),
    ("shutdown", "shutdown"),
    ("startup", "startup"),
];

/// Commands of the field's shell that this one does not have, and what does their work.
const ABSENT: [(&str, &str, &str); 12] = [
    ("archive", "archive", ""),
    ("attr", "attribute", ""),
    ("copy", "copy", "INSERT .. SELECT, or \"copy t to stdout\" and \"copy t from stdin\", do"),
    ("ed", "edit", "\"save FILE\" and \"get FILE\" do, with an editor between them"),
    ("hist", "history", "the terminal's history is in ~/.skein_history"),
    ("oradebug", "oradebug", ""),
    ("passw", "password", "ALTER USER does"),
    ("recover", "recover", "an instance recovers when it is started"),
    ("shutdown", "shutdown", "\"skein stop\" does, outside of the shell"),
    ("startup", "startup", "\"skein start\" does, outside of the shell"),
    ("store", "store", ""),
    ("xquery", "xquery", ""),
];

/// What `set` sets in the shell, each by the shortest form that is taken and in full.
const SETTINGS: [(&str, &str); 47] = [
    ("appi", "appinfo"),
    ("arr", "arraysize"),
    ("auto", "autocommit"),
    ("autop", "autoprint"),
    ("autot", "autotrace"),
    ("colsep", "colsep"),
    ("def", "define"),
    ("describe", "describe"),
    ("echo", "echo"),
    ("emb", "embedded"),
    ("esc", "escape"),
    ("exitc", "exitcommit"),
    ("feed", "feedback"),
    ("flu", "flush"),
    ("format", "format"),
    ("heads", "headsep"),
    ("hea", "heading"),
    ("lin", "linesize"),
    ("lobprefetch", "lobprefetch"),
    ("long", "long"),
    ("longc", "longchunksize"),
    ("mark", "markup"),
    ("newp", "newpage"),
    ("null", "null"),
    ("numf", "numformat"),
    ("num", "numwidth"),
    ("pages", "pagesize"),
    ("recsep", "recsep"),
    ("recsepchar", "recsepchar"),
    ("rowprefetch", "rowprefetch"),
    ("scan", "scan"),
    ("serverout", "serveroutput"),
    ("shift", "shiftinout"),
    ("sqlbl", "sqlblanklines"),
    ("sqlco", "sqlcontinue"),
    ("sqln", "sqlnumber"),
    ("sqlp", "sqlprompt"),
    ("statementc", "statementcache"),
    ("tab", "tab"),
    ("term", "termout"),
    ("ti", "time"),
    ("timi", "timing"),
    ("trim", "trimout"),
    ("trims", "trimspool"),
    ("und", "underline"),
    ("ver", "verify"),
    ("wra", "wrap"),
];

/// What `show` shows besides what `set` has set.
const SHOWN: [&str; 21] = [
    "btitle",
    "con_id",
    "con_name",
    "edition",
    "err",
    "error",
    "errors",
    "lno",
    "parameter",
    "parameters",
    "pdbs",
    "pno",
    "recyclebin",
    "release",
    "sga",
    "spool",
    "spparameter",
    "spparameters",
    "sqlcode",
    "ttitle",
    "user",
];

/// What a line begins, or what follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Begins {
    Command,
    /// A statement of the server that ends with its line.
    Line,
    Statement,
}

/// The word that `text` begins with.
pub(super) fn first_word(text: &str) -> &str {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

/// The word of a list that a word means, in full.
pub(super) fn full(list: &[(&'static str, &'static str)], word: &str) -> Option<&'static str> {
    let word = word.to_ascii_lowercase();
    let means = |(short, full): &&(&str, &str)| word.starts_with(short) && full.starts_with(&word);
    // A word that is one in full is that one.
    let exact = list.iter().find(|(_, full)| *full == word);
    exact.or_else(|| list.iter().find(means)).map(|(_, full)| *full)
}

/// The command that a word means, in full.
pub(super) fn command(word: &str) -> Option<&'static str> {
    full(&COMMANDS, word)
}

/// What is said of a command that only the field's shell has.
pub(super) fn absent(word: &str) -> Option<String> {
    let word = word.to_ascii_lowercase();
    let means =
        |(short, full, _): &&(&str, &str, &str)| word.starts_with(short) && full.starts_with(&word);
    let (_, full, instead) = ABSENT.iter().find(means)?;
    Some(match instead.is_empty() {
        true => format!("{full}: this shell has no such command"),
        false => format!("{full}: this shell has no such command; {instead}"),
    })
}

/// Whether a word is the number of a line of the statement before.
pub(super) fn is_line_number(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit())
}

/// The setting of the shell that a word means, in full.
pub(super) fn setting(word: &str) -> Option<&'static str> {
    full(&SETTINGS, word)
}

/// What `text` begins, a statement's or a command's first word being its first; `prepared`: what
/// `execute` of is a statement.
pub(super) fn begins(text: &str, prepared: &Prepared) -> Begins {
    let line = text.lines().next().unwrap_or("");
    if line.starts_with(['\\', '@', '!']) {
        return Begins::Command;
    }
    let word = first_word(line);
    let rest = &line[word.len()..];
    let next = first_word(rest).to_ascii_lowercase();
    let is_command = match command(word).unwrap_or("") {
        "set" => sets_here(&text[word.len()..]),
        "show" => return shows(&next, rest),
        // A transaction.
        "start" => next != "transaction",
        "execute" if word.len() == "execute".len() => !prepared.is_run_by(&text[word.len()..]),
        // The field's has a database first.
        "copy" => matches!(next.as_str(), "from" | "to"),
        "" if is_line_number(word) => alone(rest) && !rest.starts_with('/'),
        "" => absent(word).is_some() && (word.len() > 1 || alone(rest)),
        // Any sign may stand around what is changed.
        "change" => word.len() > 1 || !rest.is_empty(),
        "append" | "input" | "list" | "run" => word.len() > 1 || alone(rest),
        _ => true,
    };
    if is_command { Begins::Command } else { Begins::Statement }
}

/// Whether what follows a word of one letter lets it be a command.
fn alone(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with([' ', '\t', ';', '/', '\r'])
}

/// Whether `set`, which stood before `text`, is one of the shell's and not one of the server's.
fn sets_here(text: &str) -> bool {
    // What stands on the next line may say it.
    let head = text.trim_start();
    let end = head.find(|c: char| !c.is_alphanumeric() && !"_.$".contains(c));
    let (name, behind) = head.split_at(end.unwrap_or(head.len()));
    let behind = behind.trim_start();
    let next = first_word(behind).to_ascii_lowercase();
    match name.to_ascii_lowercase().as_str() {
        "" | "local" | "session" | "transaction" | "constraints" | "role" | "schema" | "names"
        | "xml" => false,
        "time" if next == "zone" => false,
        // Its character may be any.
        "underline" | "und" => true,
        _ => !behind.starts_with('=') && next != "to",
    }
}

/// What `show` begins with this word behind it.
fn shows(next: &str, rest: &str) -> Begins {
    if next.is_empty() {
        return Begins::Statement;
    }
    if SHOWN.contains(&next) || setting(next).is_some_and(|full| full != "time") {
        return Begins::Command;
    }
    // `show time zone` is the server's, `show time` the shell's.
    if next == "time" && !rest.to_ascii_lowercase().contains("zone") {
        return Begins::Command;
    }
    Begins::Line
}

/// Words of a command, quotes around them taken off; blanks inside quotes are kept.
pub(super) fn quoted_words(text: &str) -> Vec<String> {
    let (mut out, mut rest) = (Vec::new(), text.trim_start());
    while let Some(first) = rest.chars().next() {
        let (word, behind) = match first {
            '\'' | '"' => {
                let inner = &rest[1..];
                let end = inner.find(first).unwrap_or(inner.len());
                (&inner[..end], inner.get(end + 1..).unwrap_or(""))
            }
            _ => rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len())),
        };
        out.push(word.to_owned());
        rest = behind.trim_start();
    }
    out
}

/// Length of a command up to the end of its line, and with it; a hyphen at the end of a line goes
/// on with the next. `false`: the next line is not there yet.
pub(super) fn command_len(text: &str) -> (usize, usize, bool) {
    let word = command(first_word(text)).unwrap_or("");
    let continues = |line: &str| {
        let Some(head) = line.trim_end().strip_suffix('-') else { return false };
        match word {
            "remark" | "host" => false,
            // Rulers are made of hyphens.
            "prompt" => head.ends_with(' ') && !head.trim_end().ends_with('-'),
            _ => !head.ends_with('-') && !text.starts_with(['\\', '!']),
        }
    };
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if !continues(line) {
            return (at + line.trim_end().len(), at + line.len(), true);
        }
        at += line.len();
    }
    (text.len(), text.len(), false)
}

/// A command's lines as one.
pub(super) fn joined(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let last = lines.len().saturating_sub(1);
    let parts = lines.iter().enumerate().map(|(i, line)| match i == last {
        true => line.trim(),
        false => line.trim_end().trim_end_matches('-').trim(),
    });
    parts.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_shell_are_commands_and_those_of_sql_are_not() {
        let mut prepared = Prepared::default();
        prepared.note("prepare p as select $1");
        for text in [
            "set autocommit off",
            "set autotrace on",
            "set bogus on",
            "set time on",
            "show sga",
            "show autocommit",
            "show sqlcode",
            "l",
            "list 1 2",
            "r",
            "run;",
            "disc",
            "edit",
            "c/old/new/",
            "c|old|new",
            "a  , b",
            "append x",
            "i order by 1",
            "del 2 last",
            "2",
            "3  from t",
            "accept x prompt 'X'",
            "copy from a@b -",
            "start file",
            "timi start",
            "execute p.q(1)",
            "execute :x := 1",
            "execute q(1);",
            "EXECUTE q",
            "shutdown immediate",
            "@file",
            "\\d",
        ] {
            assert_eq!(begins(text, &prepared), Begins::Command, "{text}");
        }
        for text in [
            "set x = 1;",
            "set x to 1;",
            "set search_path\n  to a, b;",
            "set a.b = 'c'",
            "set local x = 1",
            "set time zone 'UTC'",
            "set transaction isolation level read committed",
            "set constraints all deferred",
            "set role none",
            "start transaction;",
            "execute p(1);",
            "execute p('a.b');",
            "execute\n  p(1);",
            "copy t from stdin;",
            "copy (select 1) to stdout;",
            "listen x",
            "lock table t",
            "reset all",
            "call p()",
            "abort",
            "alter table t add a int",
            "analyze t",
            "checkpoint",
            "commit",
            "comment on table t is 'x'",
            "import foreign schema s from server t into u",
            "cluster",
            "insert into t values (1);",
            "savepoint a",
            "declare c cursor for select 1",
            "delete from t",
            "show",
        ] {
            assert_eq!(begins(text, &prepared), Begins::Statement, "{text}");
        }
        assert_eq!(begins("show search_path", &prepared), Begins::Line);
        assert_eq!(begins("show time zone", &prepared), Begins::Line);
    }

    #[test]
    fn shortest_forms_are_taken() {
        assert_eq!(command("acc"), Some("accept"));
        assert_eq!(command("EXEC"), Some("execute"));
        assert_eq!((command("ac"), command("executes")), (None, None));
        for (word, means) in [
            ("pages", Some("pagesize")),
            ("lines", Some("linesize")),
            ("head", Some("heading")),
            ("auto", Some("autocommit")),
            ("timi", Some("timing")),
            ("trims", Some("trimspool")),
            ("autop", Some("autoprint")),
            ("autot", Some("autotrace")),
            ("bogus", None),
        ] {
            assert_eq!(setting(word), means, "{word}");
        }
    }

    #[test]
    fn commands_go_on_behind_a_hyphen() {
        let len = |text| command_len(text);
        assert_eq!(len("exec p(1, -\n  2);\nselect"), (17, 18, true));
        assert_eq!(len("prompt -----\nselect"), (12, 13, true));
        assert_eq!(len("rem a -\nselect"), (7, 8, true));
        assert!(!len("exec p(1, -\n").2);
        assert_eq!(joined("exec p(1, -\n  2);"), "exec p(1, 2);");
        assert_eq!(quoted_words("a 'b c' \"d e\"  f"), ["a", "b c", "d e", "f"]);
    }
}
