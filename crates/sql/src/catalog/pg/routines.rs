//! Functions and operators: `pg_proc`, `pg_aggregate`, `pg_operator`, `pg_cast`, `pg_language`, and
//! what btree indexes are made with: `pg_opclass`, `pg_opfamily`, `pg_amop`.
//!
//! What it promises: rows are PostgreSQL's for what there is here too. What it must never do: list
//! what a statement cannot use.

use super::OWNER;
use super::database::BTREE_METHOD;
use crate::catalog::Catalog;
use crate::catalog::known::{
    AGGREGATES, AMOPS, CASTS, FUNCTIONS, KEYWORDS, Line, OPCLASSES, OPERATORS, OPFAMILIES,
};
use crate::catalog::rows::Shape::{
    Bool, Char, Int2, Int4, List, Name, NoList, Object, Oid, Other, Text,
};
use crate::catalog::rows::{Rows, TEXTS, int, oids, text, texts};
use kernel::dict::KEY_EXPR;
use kernel::row::Value;
use query::types::oid;

/// Schema of all of it.
const PG_CATALOG: i64 = 11;

fn language(name: &str) -> i64 {
    match name {
        "sql" => 14,
        "c" => 13,
        _ => 12,
    }
}

fn list(line: &Line<'_>, at: usize) -> Option<Vec<&'static str>> {
    let text = line.text(at);
    (!text.is_empty()).then(|| text.split(',').collect())
}

pub(super) fn functions(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("oid", Oid),
        ("proname", Name),
        ("pronamespace", Oid),
        ("proowner", Oid),
        ("prolang", Oid),
        ("procost", Shape4),
        ("prorows", Shape4),
        ("provariadic", Oid),
        ("prosupport", Object(oid::REGPROC)),
        ("prokind", Char),
        ("prosecdef", Bool),
        ("proleakproof", Bool),
        ("proisstrict", Bool),
        ("proretset", Bool),
        ("provolatile", Char),
        ("proparallel", Char),
        ("pronargs", Int2),
        ("pronargdefaults", Int2),
        ("prorettype", Oid),
        ("proargtypes", List(oid::OIDVECTOR)),
        ("proallargtypes", List(oid::OID_ARRAY)),
        ("proargmodes", List(oid::CHAR_ARRAY)),
        ("proargnames", List(oid::TEXT_ARRAY)),
        ("proargdefaults", Other(oid::PG_NODE_TREE)),
        ("protrftypes", List(oid::OID_ARRAY)),
        ("prosrc", Text),
        ("probin", Text),
        ("prosqlbody", Other(oid::PG_NODE_TREE)),
        ("proconfig", NoList),
        ("proacl", TEXTS),
    ]);
    for line in FUNCTIONS.iter() {
        let arguments = line.numbers(8);
        let all = line.numbers(13);
        rows.push(vec![
            int(line.number(0)),
            text(line.text(1)),
            int(PG_CATALOG),
            int(OWNER),
            int(language(line.text(14))),
            Value::Float8(1.0),
            Value::Float8(if line.yes(3) { 1000.0 } else { 0.0 }),
            int(line.number(9)),
            int(0),
            text(line.text(2)),
            Value::Bool(false),
            Value::Bool(false),
            Value::Bool(line.yes(4)),
            Value::Bool(line.yes(3)),
            text(line.text(5)),
            text(line.text(6)),
            Value::Int2(i16::try_from(arguments.len()).unwrap_or(i16::MAX)),
            Value::Int2(line.small(10)),
            int(line.number(7)),
            oids(arguments),
            if all.is_empty() { Value::Null } else { oids(all) },
            list(&line, 11).map_or(Value::Null, texts),
            list(&line, 12).map_or(Value::Null, texts),
            Value::Null,
            Value::Null,
            text(line.text(15)),
            Value::Null,
            Value::Null,
            Value::Null,
            Value::Null,
        ]);
    }
    crate::catalog::stored::rows(catalog, &mut rows);
    rows
}

/// Costs are `real` in PostgreSQL.
use crate::catalog::rows::Shape::Float8 as Shape4;

pub(super) fn aggregates() -> Rows {
    let mut rows = Rows::new(&[
        ("aggfnoid", Object(oid::REGPROC)),
        ("aggkind", Char),
        ("aggnumdirectargs", Int2),
        ("aggsortop", Oid),
        ("aggtranstype", Oid),
        ("agginitval", Text),
    ]);
    for line in AGGREGATES.iter() {
        let initial = line.text(7);
        rows.push(vec![
            int(line.number(0)),
            text(line.text(1)),
            Value::Int2(line.small(2)),
            int(line.number(5)),
            int(line.number(6)),
            if initial.is_empty() { Value::Null } else { text(initial) },
        ]);
    }
    rows
}

pub(super) fn operators() -> Rows {
    let mut rows = Rows::new(&[
        ("oid", Oid),
        ("oprname", Name),
        ("oprnamespace", Oid),
        ("oprowner", Oid),
        ("oprkind", Char),
        ("oprcanmerge", Bool),
        ("oprcanhash", Bool),
        ("oprleft", Oid),
        ("oprright", Oid),
        ("oprresult", Oid),
        ("oprcom", Oid),
        ("oprnegate", Oid),
        ("oprcode", Object(oid::REGPROC)),
        ("oprrest", Object(oid::REGPROC)),
        ("oprjoin", Object(oid::REGPROC)),
    ]);
    for line in OPERATORS.iter() {
        rows.push(vec![
            int(line.number(0)),
            text(line.text(1)),
            int(PG_CATALOG),
            int(OWNER),
            text(line.text(2)),
            Value::Bool(line.yes(3)),
            Value::Bool(line.yes(4)),
            int(line.number(5)),
            int(line.number(6)),
            int(line.number(7)),
            int(line.number(8)),
            int(line.number(9)),
            int(line.number(10)),
            int(0),
            int(0),
        ]);
    }
    rows
}

/// The operator of that name between two values of a type, or of `text` for character strings.
pub(super) fn operator_of(name: &str, ty: u32) -> Option<i64> {
    let ty = i64::from(if ty == oid::VARCHAR { oid::TEXT } else { ty });
    let is = |line: &crate::catalog::known::Line<'_>| {
        line.text(1) == name && line.number(5) == ty && line.number(6) == ty
    };
    OPERATORS.iter().find(is).map(|line| line.number(0))
}

pub(super) fn casts() -> Rows {
    let mut rows = Rows::new(&[
        ("oid", Oid),
        ("castsource", Oid),
        ("casttarget", Oid),
        ("castfunc", Oid),
        ("castcontext", Char),
        ("castmethod", Char),
    ]);
    for line in CASTS.iter() {
        rows.push(vec![
            int(line.number(0)),
            int(line.number(1)),
            int(line.number(2)),
            int(line.number(3)),
            text(line.text(4)),
            text(line.text(5)),
        ]);
    }
    rows
}

pub(super) fn languages() -> Rows {
    let mut rows = Rows::new(&[
        ("oid", Oid),
        ("lanname", Name),
        ("lanowner", Oid),
        ("lanispl", Bool),
        ("lanpltrusted", Bool),
        ("lanplcallfoid", Oid),
        ("laninline", Oid),
        ("lanvalidator", Oid),
        ("lanacl", NoList),
    ]);
    let own = [(12, "internal"), (13, "c"), (14, "sql")];
    for (number, name) in own.into_iter().chain(crate::catalog::stored::LANGUAGES) {
        let is_pl = name.starts_with("pl");
        rows.push(vec![
            int(number),
            text(name),
            int(OWNER),
            Value::Bool(is_pl),
            Value::Bool(name == "sql" || is_pl),
            int(0),
            int(0),
            int(0),
            Value::Null,
        ]);
    }
    rows
}

pub(super) fn operator_classes() -> Rows {
    let mut rows = Rows::new(&[
        ("oid", Oid),
        ("opcmethod", Oid),
        ("opcname", Name),
        ("opcnamespace", Oid),
        ("opcowner", Oid),
        ("opcfamily", Oid),
        ("opcintype", Oid),
        ("opcdefault", Bool),
        ("opckeytype", Oid),
    ]);
    for line in OPCLASSES.iter() {
        rows.push(vec![
            int(line.number(0)),
            int(BTREE_METHOD),
            text(line.text(1)),
            int(PG_CATALOG),
            int(OWNER),
            int(line.number(2)),
            int(line.number(3)),
            Value::Bool(line.yes(4)),
            int(line.number(5)),
        ]);
    }
    rows
}

pub(super) fn operator_families() -> Rows {
    let mut rows = Rows::new(&[
        ("oid", Oid),
        ("opfmethod", Oid),
        ("opfname", Name),
        ("opfnamespace", Oid),
        ("opfowner", Oid),
    ]);
    for line in OPFAMILIES.iter() {
        rows.push(vec![
            int(line.number(0)),
            int(BTREE_METHOD),
            text(line.text(1)),
            int(PG_CATALOG),
            int(OWNER),
        ]);
    }
    rows
}

pub(super) fn family_operators() -> Rows {
    let mut rows = Rows::new(&[
        ("oid", Oid),
        ("amopfamily", Oid),
        ("amoplefttype", Oid),
        ("amoprighttype", Oid),
        ("amopstrategy", Int2),
        ("amoppurpose", Char),
        ("amopopr", Oid),
        ("amopmethod", Oid),
        ("amopsortfamily", Oid),
    ]);
    for line in AMOPS.iter() {
        rows.push(vec![
            int(line.number(0)),
            int(line.number(1)),
            int(line.number(2)),
            int(line.number(3)),
            Value::Int2(line.small(4)),
            text("s"),
            int(line.number(5)),
            int(BTREE_METHOD),
            int(0),
        ]);
    }
    rows
}

/// What depends on what: a sequence on the column that it belongs to, a default on its sequence.
pub(super) fn dependencies(catalog: &crate::catalog::Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("classid", Oid),
        ("objid", Oid),
        ("objsubid", Int4),
        ("refclassid", Oid),
        ("refobjid", Oid),
        ("refobjsubid", Int4),
        ("deptype", Char),
    ]);
    const CLASS: i64 = 1259;
    let mut add = |class: i64, of: i64, on_class: i64, on: i64, column: usize, kind: &str| {
        rows.push(vec![
            int(class),
            int(of),
            Value::Int4(0),
            int(on_class),
            int(on),
            Value::Int4(i32::try_from(column).unwrap_or(0)),
            text(kind),
        ]);
    };
    for sequence in &catalog.sequences {
        let Some((table, column, identity)) = catalog.column_of(sequence) else { continue };
        let kind = if identity { "i" } else { "a" };
        add(CLASS, sequence.obj.0.into(), CLASS, table.obj.0.into(), column + 1, kind);
        if !identity {
            let default = super::relations::default_oid(table, column);
            add(2604, default, CLASS, sequence.obj.0.into(), 0, "n");
        }
    }
    for table in &catalog.tables {
        let at = i64::from(table.obj.0);
        for (i, _) in
            table.columns.iter().enumerate().filter(|(_, c)| super::relations::has_default(c))
        {
            add(2604, super::relations::default_oid(table, i), CLASS, at, i + 1, "a");
        }
        for index in table.all_indexes() {
            let index_oid = i64::from(index.obj.0);
            match index.constraint {
                Some(_) => {
                    add(CLASS, index_oid, 2606, index_oid, 0, "i");
                    for column in &index.all_columns() {
                        add(2606, index_oid, CLASS, at, usize::from(*column) + 1, "a");
                    }
                }
                None => {
                    let named = index.exprs.iter().flat_map(|expr| &expr.columns);
                    let all = index.all_columns();
                    let plain = all.iter().filter(|column| **column < KEY_EXPR);
                    for column in plain.chain(named) {
                        add(CLASS, index_oid, CLASS, at, usize::from(*column) + 1, "a");
                    }
                }
            }
        }
        for key in &table.foreign {
            for column in &key.columns {
                add(2606, key.obj.0.into(), CLASS, at, usize::from(*column) + 1, "a");
            }
            add(2606, key.obj.0.into(), CLASS, key.index.0.into(), 0, "n");
        }
        for check in &table.checks {
            add(2606, check.obj.0.into(), CLASS, at, 0, "a");
        }
    }
    for view in catalog.with_queries() {
        let rule = i64::from(view.obj.0);
        add(2618, rule, CLASS, rule, 0, "i");
        // Its columns may hang on a primary key that it groups by: a dump must make that first.
        let grouped = view.view.as_ref().is_some_and(|own| own.text.contains("GROUP BY"));
        for table in catalog.tables.iter().filter(|_| grouped) {
            let key = table.all_indexes().find(|index| index.primary && index.constraint.is_some());
            if let Some(key) = key
                && catalog.used_by(view).contains(&i64::from(table.obj.0))
            {
                add(2618, rule, 2606, key.obj.0.into(), 0, "n");
            }
        }
        for used in catalog.used_by(view) {
            add(2618, rule, CLASS, used, 0, "n");
        }
    }
    rows
}

/// What `pg_get_keywords()` gives.
pub(super) fn keywords() -> Rows {
    let mut rows = Rows::new(&[
        ("word", Text),
        ("catcode", Char),
        ("barelabel", Bool),
        ("catdesc", Text),
        ("baredesc", Text),
    ]);
    for line in KEYWORDS.iter() {
        rows.push(vec![
            text(line.text(0)),
            text(line.text(1)),
            Value::Bool(line.yes(2)),
            text(line.text(3)),
            text(line.text(4)),
        ]);
    }
    rows
}
