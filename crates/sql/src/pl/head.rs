//! The head of a routine in the field's form: what was written before its body, from `procedure` or
//! `function`. It is kept beside the body, which begins with as many line ends as the head has, so
//! that a place in the code has the line it had where it was typed.
//!
//! What it promises: head and body make the text that was typed. What it must never do: name a
//! routine as it is not called any more.

use super::lex::{Tok, tokens};
use query::functions::quote_ident;
use std::ops::Range;

/// What the head is called among the options of a routine, which are lines.
pub(super) const HEAD: &str = "head";

/// The head among a routine's options, as it is kept; `None`: it has none.
pub(crate) fn head_of(options: &str) -> Option<&str> {
    let mut all = options.lines().filter_map(|line| line.split_once('='));
    all.find(|(name, _)| *name == HEAD).map(|(_, head)| head)
}

/// A head as one line.
pub(super) fn kept(head: &str) -> String {
    head.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r")
}

/// The line ends that a body begins with behind this head.
pub(super) fn lines_of(head: &str) -> String {
    "\n".repeat(head.matches('\n').count())
}

fn unfolded(kept: &str) -> String {
    let mut out = String::with_capacity(kept.len());
    let mut chars = kept.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => out.push('\n'),
                Some('r') => out.push('\r'),
                Some(other) => out.push(other),
                None => {}
            },
            c => out.push(c),
        }
    }
    out
}

/// The name in a head: its schema, if it has one, itself, and where both stand.
fn name_in(head: &str) -> Option<(Option<String>, String, Range<usize>)> {
    let tokens = tokens(head).ok()?;
    let part = |at: usize| match tokens.get(at).map(|token| &token.tok) {
        Some(Tok::Word(name) | Tok::Quoted(name)) => Some(name.clone()),
        _ => None,
    };
    let has_schema = tokens.get(2).is_some_and(|token| token.tok == Tok::Symbol("."));
    let (schema, last) = if has_schema { (Some(part(1)?), 3) } else { (None, 1) };
    Some((schema, part(last)?, tokens.get(1)?.at..tokens.get(last)?.end))
}

/// What a routine was called when its head was written: its code may name it so, whatever it is
/// called now.
pub(super) fn first_name(kept: &str) -> Option<String> {
    name_in(&unfolded(kept)).map(|(_, name, _)| name)
}

/// A head with the routine's name of today, if it has another.
fn renamed(head: String, schema: &str, name: &str) -> String {
    let Some((own_schema, own, place)) = name_in(&head) else { return head };
    if own == name && own_schema.is_none_or(|own| own == schema) {
        return head;
    }
    let name = format!("{}.{}", quote_ident(schema), quote_ident(name));
    format!("{}{name}{}", &head[..place.start], &head[place.end..])
}

/// A routine in the field's form as it was typed, behind `create or replace`.
///
/// `head`: as it is kept; `body`: with the line ends that stand for the head's.
pub(crate) fn whole_text(head: &str, body: &str, schema: &str, name: &str) -> String {
    let head = unfolded(head);
    let lines = lines_of(&head);
    let body = body.strip_prefix(&lines).unwrap_or(body);
    format!("{}{body};", renamed(head, schema, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_kept_as_it_was_typed() {
        let head = "procedure p(a varchar2 default '\\n') -- one\r\nis\n  ";
        let line = kept(head);
        assert!(!line.contains(['\n', '\r']) && unfolded(&line) == head);
        assert_eq!(lines_of(head), "\n\n");
        let typed = whole_text(&line, "\n\nbegin\n null;\nend p", "public", "p");
        assert_eq!(typed, format!("{head}begin\n null;\nend p;"));
    }

    #[test]
    fn a_head_names_the_routine_as_it_is_called_now() {
        let of = |head: &str| renamed(head.to_owned(), "s", "New");
        assert_eq!(of("procedure p is "), "procedure s.\"New\" is ");
        assert_eq!(of("function\n a.p(x int) is "), "function\n s.\"New\"(x int) is ");
        assert_eq!(of("procedure \"New\" is "), "procedure \"New\" is ");
        assert_eq!(of("procedure s.\"New\" is "), "procedure s.\"New\" is ");
        assert_eq!(first_name(&kept("function\n a.p(x int) is ")).as_deref(), Some("p"));
        assert_eq!(head_of("cost=1\nhead=procedure p is "), Some("procedure p is "));
    }
}
