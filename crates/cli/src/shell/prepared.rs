//! Which statements the session has prepared: `execute` of one of these is the server's statement,
//! of any other name the field's command, which calls a procedure.
//!
//! What it promises: what `prepare` has made in this shell is known by its name until it is taken
//! away. What it must never do: ask the server, as each line is read with it.

use super::blocks::{Token, tokens};
use std::collections::BTreeSet;

/// Names as the server keeps them.
#[derive(Default, Debug)]
pub struct Prepared(BTreeSet<String>);

fn name_of(token: Token<'_>) -> String {
    match token.text.strip_prefix('"') {
        Some(rest) => rest.strip_suffix('"').unwrap_or(rest).replace("\"\"", "\""),
        None => token.text.to_lowercase(),
    }
}

impl Prepared {
    /// Takes note of a statement that the server has done.
    pub(super) fn note(&mut self, statement: &str) {
        let mut words = tokens(statement);
        let Some(first) = words.next() else { return };
        let Some(next) = words.next() else { return };
        if first.is("prepare") {
            if !next.is("transaction") {
                self.0.insert(name_of(next));
            }
        } else if first.is("deallocate") {
            // `deallocate prepare p`
            let named = if next.is("prepare") { words.next() } else { None };
            match named.unwrap_or(next) {
                all if all.is("all") => self.clear(),
                name => {
                    self.0.remove(&name_of(name));
                }
            }
        } else if first.is("discard") && next.is("all") {
            self.clear();
        }
    }

    /// The session has ended.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether `execute`, which stood before `text`, runs one of them.
    pub(super) fn is_run_by(&self, text: &str) -> bool {
        let mut words = tokens(text);
        let Some(name) = words.next() else { return false };
        // A procedure of a package, or a schema.
        let goes_on = words.next().is_some_and(|next| next.is("."));
        !goes_on && self.0.contains(&name_of(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_known_while_they_are_there() {
        let mut prepared = Prepared::default();
        prepared.note("PREPARE Transfer(int) as select $1");
        prepared.note("prepare \"Two\" as select 2");
        prepared.note("prepare transaction 'x'");
        prepared.note("select 1");
        for (text, runs) in [
            (" transfer(1);", true),
            ("\n  TRANSFER (1)", true),
            (" \"Two\"", true),
            (" two", false),
            (" transfer.transfer(1)", false),
            (" transaction", false),
            (" :x := 1", false),
            ("", false),
        ] {
            assert_eq!(prepared.is_run_by(text), runs, "{text}");
        }
        prepared.note("deallocate prepare transfer");
        assert!(!prepared.is_run_by(" transfer") && prepared.is_run_by(" \"Two\";"));
        prepared.note("deallocate all");
        assert!(!prepared.is_run_by(" \"Two\""));
        prepared.note("prepare p as select 1");
        prepared.note("discard all");
        assert!(!prepared.is_run_by(" p"));
    }
}
