//! Hints of the field: `select /*+ full(t) */ ..`.
//!
//! What it promises: those that say by what a table is read, how many tasks help, and that steps
//! are to be measured, are followed where they can be; others mean nothing here and are passed
//! over, as the field passes over what it does not know. What it must never do: change what a
//! statement means, or fail it.

use crate::bind::{ident_name, table_parts};
use crate::dialect::OwnDialect;
use datafusion::sql::sqlparser::ast::{Statement as Ast, TableFactor, Visit, Visitor};
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer, Whitespace};
use query::AccessHint;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Tasks that a hint may ask for.
const WORKERS_MAX: usize = 64;

/// What the hints of a statement come to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hints {
    /// By the name that a table goes by in the statement.
    access: Vec<(String, AccessHint)>,
    /// Of tables as they are named in FROM.
    tables: BTreeMap<(Option<String>, String), AccessHint>,
    /// Tasks that may help to read a table, if that is said.
    workers: Option<usize>,
    /// Whether executions are to be measured step by step.
    measure: bool,
}

/// The texts of a statement's hints, without what encloses them.
fn texts(text: &str) -> Vec<String> {
    if !text.contains("/*+") && !text.contains("--+") {
        return Vec::new();
    }
    let dialect = OwnDialect::default();
    let Ok(tokens) = Tokenizer::new(&dialect, text).tokenize() else { return Vec::new() };
    let hint = |token: Token| match token {
        Token::Whitespace(
            Whitespace::MultiLineComment(comment) | Whitespace::SingleLineComment { comment, .. },
        ) => comment.strip_prefix('+').map(str::to_owned),
        _ => None,
    };
    tokens.into_iter().filter_map(hint).collect()
}

/// The hints of a text once more as comments, for a text that is made from the statement.
pub(crate) fn kept(text: &str) -> String {
    texts(text).iter().map(|hint| format!("/*+{hint}*/ ")).collect()
}

impl Hints {
    /// Those of a statement; `None`: it has none that means something here.
    pub(crate) fn of(text: &str, ast: &Ast) -> Option<Hints> {
        let mut hints = Hints::default();
        texts(text).iter().for_each(|text| hints.read(text));
        if !hints.access.is_empty() {
            let _ = ast.visit(&mut Named(&mut hints));
        }
        let says = !hints.tables.is_empty() || hints.workers.is_some() || hints.measure;
        says.then_some(hints)
    }

    /// What is said of a table that the statement names so.
    pub(crate) fn about(&self, schema: Option<&str>, name: &str) -> Option<&AccessHint> {
        if self.tables.is_empty() {
            return None;
        }
        self.tables.get(&(schema.map(str::to_owned), name.to_owned()))
    }

    /// Whether something is said of how a table is read.
    pub(crate) fn tell_access(&self) -> bool {
        !self.tables.is_empty()
    }

    pub(crate) fn workers(&self) -> Option<usize> {
        self.workers
    }

    /// Whether what each step does is asked for.
    pub(crate) fn measure(&self) -> bool {
        self.measure
    }

    fn read(&mut self, text: &str) {
        let mut rest = text;
        while let Some(at) = rest.find(|c: char| c.is_alphanumeric() || c == '_') {
            let word = &rest[at..];
            let len = word.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(word.len());
            let (name, behind) = word.split_at(len);
            let behind = behind.trim_start();
            let (inside, behind) = match behind.strip_prefix('(') {
                Some(open) => open.split_once(')').unwrap_or((open, "")),
                None => ("", behind),
            };
            // `@` names a part of the statement; indexes may be named by their columns in brackets.
            let words = inside.split(|c: char| c.is_whitespace() || c == ',');
            let words = words.filter(|word| !word.is_empty() && !word.starts_with('@'));
            self.note(&name.to_ascii_lowercase(), &words.map(folded).collect::<Vec<_>>());
            rest = behind;
        }
    }

    fn note(&mut self, name: &str, words: &[String]) {
        let number = || words.last().and_then(|word| word.parse::<usize>().ok());
        match name {
            "parallel" => self.workers = number().map(|n| n.saturating_sub(1).min(WORKERS_MAX)),
            "no_parallel" | "noparallel" => self.workers = Some(0),
            "gather_plan_statistics" => self.measure = true,
            _ => {}
        }
        let Some((table, indexes)) = words.split_first() else { return };
        let hint = match name {
            "full" => AccessHint::Full,
            "index" | "index_asc" | "index_desc" | "index_rs" | "index_rs_asc"
            | "index_rs_desc" | "index_ffs" | "index_ss" | "index_join" | "index_combine"
            | "and_equal" => AccessHint::By(indexes.to_vec()),
            "no_index" => AccessHint::Without(indexes.to_vec()),
            _ => return,
        };
        self.access.push((table.clone(), hint));
    }
}

/// A name as the dictionary has it.
fn folded(word: &str) -> String {
    match word.strip_prefix('"').and_then(|word| word.strip_suffix('"')) {
        Some(quoted) => quoted.to_owned(),
        None => word.to_ascii_lowercase(),
    }
}

/// Finds the tables that hints speak of by the names that they go by.
struct Named<'a>(&'a mut Hints);

impl Visitor for Named<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, alias, .. } = factor
            && let Ok((schema, name)) = table_parts(name)
        {
            let goes_by = alias.as_ref().map_or_else(|| name.clone(), |a| ident_name(&a.name));
            let said = self.0.access.iter().find(|(known, _)| *known == goes_by);
            if let Some((_, hint)) = said.cloned() {
                self.0.tables.insert((schema, name), hint);
            }
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<Hints> {
        let mut parsed =
            datafusion::sql::sqlparser::parser::Parser::parse_sql(&OwnDialect::default(), text)
                .expect("it is a statement");
        Hints::of(text, &parsed.remove(0))
    }

    #[test]
    fn tables_are_found_by_the_names_they_go_by() {
        let text = "select /*+ leading(x) FULL(x) index(S.b  s_i) parallel(4) */ 1 \
                    from t x, s, \"T\" y where x.id in (select /*+ no_index(y t_a, t_b) */ 1)";
        let hints = of(text).expect("it has some");
        assert_eq!(hints.about(None, "t"), Some(&AccessHint::Full));
        assert_eq!(hints.about(None, "s"), None, "S.b is no table here");
        let without = AccessHint::Without(vec!["t_a".to_owned(), "t_b".to_owned()]);
        assert_eq!(hints.about(None, "T"), Some(&without));
        assert_eq!((hints.workers(), hints.measure()), (Some(3), false));
        let text = "select /*+ GATHER_PLAN_STATISTICS full(x) */ 1 from t x";
        let hints = of(text).expect("it has some");
        assert!(hints.measure() && hints.about(None, "t") == Some(&AccessHint::Full));
        assert!(of("select /*+ gather_plan_statistics */ 1").is_some_and(|all| all.measure()));
    }

    #[test]
    fn what_is_no_hint_says_nothing() {
        for text in [
            "select 1 from t",
            "select /* full(t) */ 1 from t",
            "select '/*+ full(t) */' from t",
            "select /*+ ordered use_nl(t) */ 1 from t",
            "select /*+ full(u) */ 1 from t",
            "select /*+ full( */ 1 from t",
        ] {
            assert!(of(text).is_none(), "{text}");
        }
        assert_eq!(
            kept("select /*+ full(t) */ 1 /* x */ --+ rule\n"),
            "/*+ full(t) */ /*+ rule\n*/ "
        );
    }
}
