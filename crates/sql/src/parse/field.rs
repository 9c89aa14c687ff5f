//! Statements as the field writes them, in the words that PostgreSQL has for them.
//!
//! What it promises: a clause that says how or where something is stored goes, since space is the
//! database's own affair; one that means something is written in another way, or refused by name.
//! What it must never do: change a statement that PostgreSQL would understand.

use super::edit::{Edit, words};
use super::kept;
use super::phrases;
use super::tables;
use super::{Token, TokenWithSpan};
use crate::{PgError, Result};

/// The statement in other words; `None`: it is as it is. And what is told of it.
pub(super) type Written = (Option<Vec<TokenWithSpan>>, Vec<String>);

/// What is told of an index that is made while others change its table.
const ONLINE: &str = "the table is locked against changes while its index is made";

/// What is told of a table that other sessions could have had, too.
const GLOBAL: &str = "the table is this session's own: its definition goes with the session";

pub(super) fn written(tokens: &[TokenWithSpan]) -> Result<Written> {
    let mut told = Vec::new();
    let plain = kept::without(tokens, &mut told)?;
    let tokens = plain.as_deref().unwrap_or(tokens);
    let phrased = phrases::written(tokens)?;
    let tokens = phrased.as_deref().unwrap_or(tokens);
    let mut edit = Edit::new(tokens);
    distinct(&mut edit);
    wait(&mut edit);
    match () {
        () if edit.is(0, "insert") => several_tables(&edit)?,
        () if edit.is(0, "delete") => delete(&mut edit),
        () if edit.is(0, "merge") => merge(&mut edit)?,
        () if edit.is(0, "truncate") => truncate(&mut edit),
        () if edit.is(0, "rename") => rename(&mut edit),
        () if edit.all(0, &["drop", "table"]) => drop_table(&mut edit),
        () if edit.is(0, "create") => create(&mut edit, &mut told)?,
        () if edit.all(0, &["alter", "table"]) => tables::alter(&mut edit, &mut told)?,
        () if edit.all(0, &["alter", "index"]) => alter_index(&edit, &mut told)?,
        () if edit.is(0, "analyze") => analyze(&mut edit)?,
        () if edit.all(0, &["explain", "plan"]) => explain_plan(&mut edit)?,
        () => {}
    }
    Ok((edit.done().or(phrased).or(plain), told))
}

/// `SELECT UNIQUE`.
fn distinct(edit: &mut Edit<'_>) {
    for n in 0..edit.len() {
        if edit.all(n, &["select", "unique"]) {
            edit.replace(n + 1, words("DISTINCT"));
        }
    }
}

/// The relation that `FOR UPDATE WAIT n` speaks of.
pub(crate) const WAIT: &str = "$wait ";

/// `FOR UPDATE [OF ..] WAIT n`, with a clause more that says how long.
fn wait(edit: &mut Edit<'_>) {
    for n in 0..edit.len() {
        if !edit.all(n, &["for", "update"]) {
            continue;
        }
        let mut end = n + 2;
        if edit.is(end, "of") {
            end = edit.behind_name(end + 1);
            while edit.sign(end, &Token::Comma) {
                end = edit.behind_name(end + 1);
            }
        }
        if edit.is(end, "wait")
            && let Some(Token::Number(seconds, _)) = edit.token(end + 1)
        {
            let mut more = words("FOR UPDATE OF");
            more.push(Token::make_word(&format!("{WAIT}{seconds}"), Some('"')));
            edit.remove(end..end + 2);
            edit.insert(end + 2, more);
        }
    }
}

/// `INSERT ALL INTO t .. INTO u .. SELECT ..`.
fn several_tables(edit: &Edit<'_>) -> Result<()> {
    if !edit.any(1, &["all", "first"]) || !edit.any(2, &["into", "when"]) {
        return Ok(());
    }
    let text = format!("INSERT {}", edit.text(1..2).to_uppercase());
    Err(PgError::unsupported(text).with_hint("An INSERT for each table is understood."))
}

/// `DELETE t WHERE ..`.
fn delete(edit: &mut Edit<'_>) {
    if edit.name(1) && !edit.is(1, "from") {
        edit.insert(1, words("FROM"));
    }
}

/// The condition behind an action of MERGE, as one before it.
fn merge(edit: &mut Edit<'_>) -> Result<()> {
    let (mut when, mut depth, mut updates) = (None, 0usize, false);
    for n in 0..edit.len() {
        depth += usize::from(edit.open(n) || edit.is(n, "case"));
        let closed = edit.sign(n, &Token::RParen) || edit.is(n, "end");
        depth -= usize::from(depth > 0 && closed);
        if depth > 0 {
            continue;
        }
        if edit.is(n, "when") {
            when = None;
            updates = false;
        } else if edit.is(n, "then") {
            when = Some(n);
            updates = edit.is(n + 1, "update");
        } else if when.is_some() && edit.all(n, &["delete", "where"]) {
            return Err(PgError::unsupported("DELETE WHERE behind the UPDATE of MERGE")
                .with_hint("WHEN MATCHED AND .. THEN DELETE is understood."));
        } else if edit.is(n, "where")
            && let Some(then) = when.take()
        {
            let end = (n + 1..=edit.len()).find(|at| {
                *at == edit.len()
                    || edit.all(*at, &["when", "matched"])
                    || edit.all(*at, &["when", "not", "matched"])
                    || (updates && edit.all(*at, &["delete", "where"]))
            });
            let end = end.unwrap_or(edit.len());
            if edit.all(end, &["delete", "where"]) {
                return Err(PgError::unsupported("DELETE WHERE behind the UPDATE of MERGE")
                    .with_hint("WHEN MATCHED AND .. THEN DELETE is understood."));
            }
            let mut condition = words("AND");
            condition.push(Token::LParen);
            condition.extend(edit.cut(n + 1..end));
            condition.push(Token::RParen);
            edit.remove(n..end);
            edit.insert(then, condition);
        }
    }
    Ok(())
}

/// `TRUNCATE TABLE t DROP STORAGE` and `REUSE STORAGE`.
fn truncate(edit: &mut Edit<'_>) {
    let mut end = edit.len();
    if end > 2 && edit.is(end - 1, "storage") {
        end -= 1;
        if edit.is(end - 1, "all") {
            end -= 1;
        }
        if edit.any(end - 1, &["drop", "reuse"]) {
            edit.remove(end - 1..edit.len());
        }
    }
}

/// `RENAME a TO b`.
fn rename(edit: &mut Edit<'_>) {
    let end = edit.behind_name(1);
    if edit.name(1) && edit.is(end, "to") {
        edit.replace(0, words("ALTER TABLE"));
        edit.insert(end, words("RENAME"));
    }
}

/// `DROP TABLE t [CASCADE CONSTRAINTS] [PURGE]`: the first is marked by the word PURGE behind
/// CASCADE, which has no meaning of its own where nothing is kept of what is dropped.
fn drop_table(edit: &mut Edit<'_>) {
    let mut end = edit.len();
    let listed = |n: usize| edit.sign(n, &Token::Comma) || edit.sign(n, &Token::Period);
    let names = listed(end.saturating_sub(2)) || edit.is(end.saturating_sub(2), "exists");
    if end > 3 && edit.is(end - 1, "purge") && !names {
        edit.remove(end - 1..end);
        end -= 1;
    }
    if end > 4 && edit.all(end - 2, &["cascade", "constraints"]) {
        edit.replace(end - 1, words("PURGE"));
    }
}

fn create(edit: &mut Edit<'_>, told: &mut Vec<String>) -> Result<()> {
    let mut n = 1;
    if edit.all(n, &["or", "replace"]) {
        n += 2;
    }
    let mut synonym = n;
    synonym += usize::from(edit.is(synonym, "public"));
    if edit.is(synonym, "synonym") {
        return Err(PgError::unsupported("CREATE SYNONYM")
            .with_hint("A view, or a schema in search_path, gives a table another name."));
    }
    while edit.any(n, &["force", "noforce", "editionable", "noneditionable"]) {
        edit.remove(n..n + 1);
        n += 1;
    }
    if edit.is(n, "no") && edit.is(n + 1, "force") {
        edit.remove(n..n + 2);
        n += 2;
    }
    if edit.is(n, "view") {
        return view(edit, n);
    }
    let global = edit.is(n, "global");
    if edit.any(n, &["global", "local", "private"]) {
        n += 1;
    }
    if edit.any(n, &["temporary", "temp", "unlogged"]) {
        n += 1;
    }
    if edit.is(n, "table") {
        if global {
            told.push(GLOBAL.to_owned());
        }
        return tables::create(edit, n + 1);
    }
    if edit.any(n, &["unique", "bitmap"]) {
        n += 1;
    }
    if edit.is(n, "index") && tables::index(edit, n + 1)? {
        told.push(ONLINE.to_owned());
    }
    Ok(())
}

/// `WITH READ ONLY` of a view: its rows come from a subquery, and cannot be changed.
fn view(edit: &mut Edit<'_>, n: usize) -> Result<()> {
    let mut end = edit.len();
    if end > 4 && edit.is(end - 2, "constraint") && edit.any(end - 3, &["option", "only"]) {
        edit.remove(end - 2..end);
        end -= 2;
    }
    if !(end > 4 && edit.all(end - 3, &["with", "read", "only"])) {
        return Ok(());
    }
    let mut depth = 0usize;
    let query = (n..end).find(|at| {
        depth += usize::from(edit.open(*at));
        depth -= usize::from(depth > 0 && edit.sign(*at, &Token::RParen));
        depth == 0 && edit.is(*at, "as")
    });
    let Some(query) = query else { return Ok(()) };
    let from = [words("SELECT"), vec![Token::Mul], words("FROM"), vec![Token::LParen]].concat();
    edit.insert(query + 1, from);
    edit.remove(end - 3..end);
    edit.insert(end, [vec![Token::RParen], words("AS read_only")].concat());
    Ok(())
}

/// Clauses of ALTER INDEX that have no counterpart; those of `REBUILD` are read where it is.
fn alter_index(edit: &Edit<'_>, told: &mut Vec<String>) -> Result<()> {
    let mut n = 2;
    if edit.all(n, &["if", "exists"]) {
        n += 2;
    }
    n = edit.behind_name(n);
    if edit.is(n, "rebuild") {
        if (n..edit.len()).any(|at| edit.is(at, "online")) {
            told.push(ONLINE.to_owned());
        }
        return Ok(());
    }
    let known =
        ["coalesce", "visible", "invisible", "monitoring", "nomonitoring", "unusable", "shrink"];
    match known.iter().find(|word| edit.is(n, word)) {
        Some(word) => {
            let text = format!("ALTER INDEX .. {}", word.to_uppercase());
            Err(PgError::unsupported(text))
        }
        None => Ok(()),
    }
}

/// `ANALYZE TABLE t COMPUTE STATISTICS`.
fn analyze(edit: &mut Edit<'_>) -> Result<()> {
    if !edit.any(1, &["table", "index", "cluster"]) || !edit.name(2) {
        return Ok(());
    }
    let end = edit.behind_name(2);
    let statistics = edit.any(end, &["compute", "estimate"]) && edit.is(end + 1, "statistics");
    if edit.is(1, "index") && statistics {
        // Its table is looked through.
        let part = |n: usize| Token::SingleQuotedString(edit.text(n..n + 1));
        let owner = if end > 3 { part(end - 3) } else { Token::make_keyword("NULL") };
        let mut call = words("CALL dbms_stats");
        call.push(Token::Period);
        call.extend(words("gather_index_stats"));
        call.extend([Token::LParen, owner, Token::Comma, part(end - 1), Token::RParen]);
        edit.remove(0..edit.len());
        edit.insert(0, call);
        return Ok(());
    }
    if !edit.is(1, "table") || !statistics {
        let what = edit.text(end..edit.len()).to_uppercase();
        let kind = edit.text(1..2).to_uppercase();
        return Err(PgError::unsupported(format!("ANALYZE {kind} .. {what}")));
    }
    edit.remove(1..2);
    edit.remove(end..edit.len());
    Ok(())
}

/// `EXPLAIN PLAN [SET STATEMENT_ID = 'x'] [INTO plan_table] FOR ..`, as an option of EXPLAIN.
fn explain_plan(edit: &mut Edit<'_>) -> Result<()> {
    let mut n = 2;
    let mut id = None;
    if edit.all(n, &["set", "statement_id"]) && edit.sign(n + 2, &Token::Eq) {
        id = Some(edit.cut(n + 3..n + 4))
            .filter(|id| matches!(&id[..], [Token::SingleQuotedString(text)] if !text.is_empty()));
        if id.is_none() {
            return Err(PgError::syntax("statement_id must be a text in single quotes"));
        }
        n += 4;
    }
    if edit.is(n, "into") && edit.name(n + 1) {
        let end = edit.behind_name(n + 1);
        if end > n + 2 || !edit.is(n + 1, "plan_table") {
            return Err(PgError::unsupported("EXPLAIN PLAN INTO another table than PLAN_TABLE")
                .with_hint("Explained plans are kept in the session, not in a table."));
        }
        n = end;
    }
    if !edit.is(n, "for") {
        return Ok(());
    }
    let mut option = vec![Token::LParen, Token::make_word(crate::xplan::OPTION, Some('"'))];
    option.extend(id.into_iter().flatten());
    option.push(Token::RParen);
    edit.remove(1..n + 1);
    edit.insert(n + 1, option);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::parse::testing::{same, shown};
    use crate::parse::{Own, Parsed, parse_single};

    #[test]
    fn statements_are_put_in_other_words() {
        same("delete t x where x.a = 1", "delete from t x where x.a = 1");
        same("select unique a from t", "select distinct a from t");
        same("truncate table t reuse storage", "truncate table t");
        same("rename s.a to b", "alter table s.a rename to b");
        same("drop table t purge", "drop table t");
        assert_eq!(shown("drop table purge"), "DROP TABLE purge");
        assert_eq!(shown("drop table t, purge"), "DROP TABLE t, purge");
        same("analyze table s.t compute statistics", "analyze s.t");
        same(
            "merge into t using s on (t.a = s.a) when matched then update set b = case when s.b = 1 \
             then 2 end where s.c > 1 when not matched then insert (a) values (s.a) where s.b > 1",
            "merge into t using s on (t.a = s.a) when matched and (s.c > 1) then update set b = \
             case when s.b = 1 then 2 end when not matched and (s.b > 1) then insert (a) values \
             (s.a)",
        );
        same(
            "create or replace force view v as select a from t with read only",
            "create or replace view v as select * from (select a from t) as read_only",
        );
        same(
            "explain plan set statement_id = 'x' into plan_table for select 1",
            "explain (\"$plan\" 'x') select 1",
        );
        same("explain plan for delete from t", "explain (\"$plan\") delete from t");
        assert_eq!(shown("explain plan into other for select 1"), "0A000");
        assert_eq!(shown("explain plan set statement_id = 5 for select 1"), "42601");
        assert_eq!(shown("create public synonym s for t"), "0A000");
    }

    #[test]
    fn clauses_of_tables_and_indexes_go_or_are_refused() {
        same(
            "create table t (a number(*,0) not null enable, enable int, constraint p primary key \
             (a) using index tablespace x pctfree 5 enable validate) parallel (degree 4) compress \
             for all operations cache",
            "create table t (a numeric(38,0) not null, enable int, constraint p primary key (a))",
        );
        same(
            "create table t tablespace x parallel 4 as select 1 as cache",
            "create table t as select 1 as cache",
        );
        same(
            "create unique index i on t (a) online compute statistics parallel 2 where cache > 1",
            "create unique index i on t (a) where cache > 1",
        );
        same(
            "alter table t add (a int, b number(5))",
            "alter table t add column a int, add column b numeric(5)",
        );
        same(
            "alter table t modify (a number(12) default 1 not null, b null)",
            "alter table t alter column a type numeric(12), alter column a set default 1, alter \
             column a set not null, alter column b drop not null",
        );
        same("alter table t drop (a, b)", "alter table t drop column a, drop column b");
        same(
            "alter table t add (a int) modify (b bigint) drop column c",
            "alter table t add column a int, alter column b type bigint, drop column c",
        );
        same(
            "alter table t add constraint c check (a > 0) enable novalidate",
            "alter table t add constraint c check (a > 0) not valid",
        );
        for text in [
            "create table t (a int) organization index",
            "create table t (a int primary key disable)",
            "create table t (a int default on null 1)",
            "create index i on t (a) invisible",
            "alter table t set unused (a)",
            "alter table t disable constraint c",
            "alter table t modify constraint c disable",
            "alter table t add partition p values less than (1)",
            "alter index i coalesce",
        ] {
            assert_eq!(shown(text), "0A000", "{text}");
        }
    }

    #[test]
    fn sessions_are_killed_by_both_numbers() {
        let victim = |text: &str| match parse_single(text).map(|statement| statement.parsed) {
            Ok(Parsed::Own(Own::KillSession(victim))) => {
                Some((victim.sid, victim.serial, victim.instance))
            }
            _ => None,
        };
        assert_eq!(victim("alter system kill session '12,34'"), Some((12, 34, None)));
        let text = "alter system kill session '12, 34, @2' immediate";
        assert_eq!(victim(text), Some((12, 34, Some(2))));
        assert_eq!(victim("alter system kill session '12'"), None);
    }
}
