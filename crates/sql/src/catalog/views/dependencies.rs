//! What objects are made of others, and stored routines.
//!
//! What it promises: what is named cannot be dropped before what names it, but with CASCADE. What
//! it must never do: guess from a routine's text what it may need when it runs.

use super::code::kind;
use super::registry::{Make, SessionView, views};
use super::{dictionary, int4, shown_name};
use crate::catalog::Catalog;
use crate::catalog::rows::Shape::{Int4, Int8, Text};
use crate::catalog::rows::{Rows, int, text};
use block::ObjId;
use kernel::dict::{RoutineDef, RoutineResult, Volatility};
use kernel::row::{ColType, Value};
use std::collections::{BTreeMap, BTreeSet};

views! {
    "dba_dependencies", Make::Session(SessionView::Dependencies), "What an object could not be \
        there without: tables, views, types and routines that a view reads; types of a table's \
        columns and of what a routine takes and gives. What the text of a routine names is looked \
        for when it runs." {
        owner: Text, "Schema of the object.";
        name: Text, "Its name.";
        type: Text, "`VIEW`, `MATERIALIZED VIEW`, `TABLE`, `FUNCTION` or `PROCEDURE`.";
        referenced_owner: Text, "Schema of what it needs.";
        referenced_name: Text, "The name of that.";
        referenced_type: Text, "What that is: one of these, or `TYPE`.";
        referenced_link_name: Text, "Always NULL: there are no links to other databases.";
        dependency_type: Text, "`HARD`.";
    }
    "dba_procedures", Make::Session(SessionView::Procedures), "Stored functions and procedures." {
        owner: Text, "Its schema.";
        object_name: Text, "Its name.";
        procedure_name: Text, "Always NULL: there are no packages.";
        object_id: Int8, "Its number.";
        subprogram_id: Int4, "Always `1`.";
        overload: Text, "Tells those of one name apart, from `1`; NULL: there is one.";
        object_type: Text, "`FUNCTION` or `PROCEDURE`.";
        aggregate: Text, "`NO`.";
        pipelined: Text, "`YES`: it gives any number of rows; else `NO`.";
        parallel: Text, "`NO`.";
        interface: Text, "`NO`.";
        deterministic: Text, "`YES`: it is IMMUTABLE; else `NO`.";
        authid: Text, "With whose rights it runs: `DEFINER` or `CURRENT_USER`.";
    }
}

/// Schema, name and type of what others may need.
type Named<'a> = (&'a str, &'a str, &'static str);

fn names(catalog: &Catalog) -> BTreeMap<ObjId, Named<'_>> {
    let relations = catalog.relations();
    let relations =
        relations.map(|def| (def.obj, (&*def.schema, &*def.name, dictionary::kind(def))));
    let types = catalog.types.all.iter();
    let types = types.map(|def| (def.obj, (&*def.schema, &*def.name, "TYPE")));
    let routines = catalog.routines.all.iter();
    let routines = routines.map(|def| (def.obj, (&*def.schema, &*def.name, kind(def))));
    relations.chain(types).chain(routines).collect()
}

/// The number of a type that a user has made.
fn made_by_a_user(ty: ColType) -> Option<ObjId> {
    ty.enum_type().map(|own| own.obj)
}

/// What a routine takes and gives.
fn of_routine(def: &RoutineDef) -> BTreeSet<ObjId> {
    let body = &def.body;
    let mut needed: BTreeSet<ObjId> =
        body.args.iter().filter_map(|arg| made_by_a_user(arg.ty)).collect();
    match body.result {
        RoutineResult::Type(ty) => needed.extend(made_by_a_user(ty)),
        RoutineResult::Row(obj) => {
            needed.insert(obj);
        }
        RoutineResult::Void | RoutineResult::Record => {}
    }
    needed
}

pub(super) fn dependencies(catalog: &Catalog, rows: &mut Rows) {
    let names = names(catalog);
    let mut add = |(schema, name, kind): Named<'_>, needed: BTreeSet<ObjId>| {
        for (of_schema, of_name, of_kind) in needed.iter().filter_map(|obj| names.get(obj)) {
            rows.push(vec![
                shown_name(schema),
                shown_name(name),
                text(kind),
                shown_name(of_schema),
                shown_name(of_name),
                text(*of_kind),
                Value::Null,
                text("HARD"),
            ]);
        }
    };
    for def in catalog.relations() {
        let needed: BTreeSet<ObjId> = match def.shows() {
            Some(own) => own.uses.iter().map(|used| used.obj).collect(),
            None => def.columns.iter().filter_map(|column| made_by_a_user(column.ty)).collect(),
        };
        add((&*def.schema, &*def.name, dictionary::kind(def)), needed);
    }
    for def in &catalog.routines.all {
        add((&*def.schema, &*def.name, kind(def)), of_routine(def));
    }
}

pub(super) fn procedures(catalog: &Catalog, rows: &mut Rows) {
    let all = &catalog.routines.all;
    let yes = |yes: bool| text(if yes { "YES" } else { "NO" });
    for (at, def) in all.iter().enumerate() {
        // They stand in the order of their names.
        let same = |other: &RoutineDef| (&other.schema, &other.name) == (&def.schema, &def.name);
        let before = all[..at].iter().rev().take_while(|other| same(other)).count();
        let alone = before == 0 && all.get(at + 1).is_none_or(|next| !same(next));
        rows.push(vec![
            shown_name(&def.schema),
            shown_name(&def.name),
            Value::Null,
            int(def.obj.0),
            int4(1),
            if alone { Value::Null } else { text((before + 1).to_string()) },
            text(kind(def)),
            yes(false),
            yes(def.body.set),
            yes(false),
            yes(false),
            yes(def.body.volatility == Volatility::Immutable),
            text(if def.body.definer { "DEFINER" } else { "CURRENT_USER" }),
        ]);
    }
}
