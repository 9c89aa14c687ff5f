//! `has_table_privilege` and its like, over one statement's catalog.
//!
//! What it promises: the same answer that a statement would get. What it must never do: say yes
//! where it does not know.

use super::held;
use crate::catalog::{Catalog, relation_oid};
use crate::{PgError, Result};
use block::ObjId;
use kernel::dict::{Acl, AclKind, Privileges, TableDef};
use kernel::row::{Datum, Value};
use query::functions::quote_ident;

/// A privilege that is asked for, and whether as one that may be granted.
type Asked = (Privileges, bool);

fn number(datum: &Datum<'_>) -> Option<i64> {
    match datum {
        Datum::Int2(v) => Some(i64::from(*v)),
        Datum::Int4(v) => Some(i64::from(*v)),
        Datum::Int8(v) => Some(*v),
        _ => None,
    }
}

fn role_of(catalog: &Catalog, datum: &Datum<'_>) -> Result<Option<ObjId>> {
    match datum {
        Datum::Text("public") => Ok(Some(kernel::dict::EVERYBODY)),
        Datum::Text(name) => {
            let found = catalog.roles.find(name);
            found.map(|user| Some(user.obj)).ok_or_else(|| super::no_role(name))
        }
        other => Ok(number(other).and_then(|oid| u32::try_from(oid).ok()).map(ObjId)),
    }
}

/// The role at the front if there is one more than `count`, else the current one.
fn split<'a, 'd>(
    catalog: &Catalog,
    args: &'a [Datum<'d>],
    count: usize,
) -> Result<Option<(ObjId, &'a [Datum<'d>])>> {
    if args.len() == count {
        return Ok(Some((catalog.role, args)));
    }
    if args.len() != count + 1 {
        return Err(PgError::new("42883", "function with these arguments does not exist"));
    }
    Ok(role_of(catalog, &args[0])?.map(|role| (role, &args[1..])))
}

fn asked(text: &str, known: Privileges) -> Result<Vec<Asked>> {
    let one = |word: &str| {
        let word = word.trim();
        let upper = word.to_uppercase();
        let (name, option) = match upper.strip_suffix(" WITH GRANT OPTION") {
            Some(name) => (name.trim().to_owned(), true),
            None => (upper.clone(), false),
        };
        let found = Privileges::named(&name).filter(|one| known.has(*one));
        found.map(|one| (one, option)).ok_or_else(|| {
            PgError::new("22023", format!("unrecognized privilege type: \"{word}\""))
        })
    };
    text.split(',').map(one).collect()
}

fn asked_in(arg: &Datum<'_>, known: Privileges) -> Result<Vec<Asked>> {
    match arg {
        Datum::Text(text) => asked(text, known),
        _ => Err(PgError::new("22023", "unrecognized privilege type: \"\"")),
    }
}

fn has_any(
    catalog: &Catalog,
    role: ObjId,
    (kind, owner): (AclKind, ObjId),
    acl: Option<&Acl>,
    asked: &[Asked],
) -> bool {
    let roles = &catalog.roles;
    let own = held(roles, role, (kind, owner), acl);
    let may_grant = || {
        let above = roles.above(role, true);
        if roles.is_superuser(role) {
            return kind.all();
        }
        let list = acl.cloned().unwrap_or_else(|| Acl::default_of(kind, owner));
        list.options_of(&above, owner)
    };
    asked.iter().any(|(one, option)| if *option { may_grant().has(*one) } else { own.has(*one) })
}

/// The relation that an argument names; an error for a name that nothing has, none for a number.
fn relation(catalog: &Catalog, arg: &Datum<'_>) -> Result<Option<i64>> {
    match arg {
        Datum::Text(name) => {
            let missing = || PgError::undefined_table(name);
            relation_oid(catalog, name).map(Some).ok_or_else(missing)
        }
        other => Ok(number(other)),
    }
}

fn table(catalog: &Catalog, oid: i64) -> Option<&TableDef> {
    catalog.relations().find(|def| i64::from(def.obj.0) == oid).map(|def| &**def)
}

fn on_relation(catalog: &Catalog, args: &[Datum<'_>], columns: bool) -> Result<Value> {
    let Some((role, args)) = split(catalog, args, 2)? else { return Ok(Value::Null) };
    let known = if columns { AclKind::Column.all() } else { AclKind::Relation.all() };
    let wanted = asked_in(&args[1], known)?;
    let Some(oid) = relation(catalog, &args[0])? else { return Ok(Value::Null) };
    if let Some(def) = table(catalog, oid) {
        let whole = (AclKind::Relation, def.owner);
        let mut has = has_any(catalog, role, whole, def.acl.as_ref(), &wanted);
        if columns && !has {
            has = def.columns.iter().any(|column| {
                let part = (AclKind::Column, def.owner);
                has_any(catalog, role, part, column.acl.as_ref(), &wanted)
            });
        }
        return Ok(Value::Bool(has));
    }
    if let Some(def) = catalog.sequences.iter().find(|def| i64::from(def.obj.0) == oid) {
        let whole = (AclKind::Sequence, def.owner);
        return Ok(Value::Bool(has_any(catalog, role, whole, def.acl.as_ref(), &wanted)));
    }
    // A view of the system's, which all may read but one.
    if let Some(name) = crate::catalog::system_name(oid) {
        let reads = wanted.contains(&(Privileges::SELECT, false));
        let open = !matches!(name, "pg_authid" | "pg_hba_file_rules");
        let superuser = catalog.roles.is_superuser(role);
        return Ok(Value::Bool(superuser || (reads && open)));
    }
    Ok(Value::Null)
}

fn on_column(catalog: &Catalog, args: &[Datum<'_>]) -> Result<Value> {
    let Some((role, args)) = split(catalog, args, 3)? else { return Ok(Value::Null) };
    let wanted = asked_in(&args[2], AclKind::Column.all())?;
    let Some(def) = relation(catalog, &args[0])?.and_then(|oid| table(catalog, oid)) else {
        return Ok(Value::Null);
    };
    let at = match &args[1] {
        Datum::Text(name) => Some(crate::direct::column_position(def, name)?),
        other => number(other).and_then(|n| usize::try_from(n - 1).ok()),
    };
    let Some(column) = at.and_then(|at| def.columns.get(at)) else { return Ok(Value::Null) };
    let whole = (AclKind::Relation, def.owner);
    let part = (AclKind::Column, def.owner);
    Ok(Value::Bool(
        has_any(catalog, role, whole, def.acl.as_ref(), &wanted)
            || has_any(catalog, role, part, column.acl.as_ref(), &wanted),
    ))
}

fn on_sequence(catalog: &Catalog, args: &[Datum<'_>]) -> Result<Value> {
    let Some((role, args)) = split(catalog, args, 2)? else { return Ok(Value::Null) };
    let wanted = asked_in(&args[1], AclKind::Sequence.all())?;
    let Some(oid) = relation(catalog, &args[0])? else { return Ok(Value::Null) };
    let Some(def) = catalog.sequences.iter().find(|def| i64::from(def.obj.0) == oid) else {
        return match &args[0] {
            Datum::Text(name) => {
                let text = format!("\"{}\" is not a sequence", quote_ident(name));
                Err(PgError::new("42809", text))
            }
            _ => Ok(Value::Null),
        };
    };
    let whole = (AclKind::Sequence, def.owner);
    Ok(Value::Bool(has_any(catalog, role, whole, def.acl.as_ref(), &wanted)))
}

fn on_schema(catalog: &Catalog, args: &[Datum<'_>]) -> Result<Value> {
    let Some((role, args)) = split(catalog, args, 2)? else { return Ok(Value::Null) };
    let wanted = asked_in(&args[1], AclKind::Schema.all())?;
    let found = match &args[0] {
        Datum::Text(name) => {
            let known = catalog.all_schemas();
            let found = known.iter().find(|(_, known, _)| known == name).map(|(oid, ..)| *oid);
            let missing = || PgError::new("3F000", format!("schema \"{name}\" does not exist"));
            Some(found.ok_or_else(missing)?)
        }
        other => number(other),
    };
    let Some(oid) = found else { return Ok(Value::Null) };
    if let Some(schema) = catalog.schemas.all.iter().find(|one| i64::from(one.obj.0) == oid) {
        let whole = (AclKind::Schema, schema.owner);
        return Ok(Value::Bool(has_any(catalog, role, whole, schema.acl.as_ref(), &wanted)));
    }
    let known = catalog.all_schemas();
    let Some((_, _, owner)) = known.iter().find(|(known, ..)| *known == oid) else {
        return Ok(Value::Null);
    };
    let uses = wanted.contains(&(Privileges::USAGE, false));
    let whole = (AclKind::Schema, ObjId(*owner));
    Ok(Value::Bool(uses || has_any(catalog, role, whole, None, &wanted)))
}

fn on_type(catalog: &Catalog, args: &[Datum<'_>]) -> Result<Value> {
    let Some((role, args)) = split(catalog, args, 2)? else { return Ok(Value::Null) };
    let wanted = asked_in(&args[1], AclKind::Type.all())?;
    let oid = match &args[0] {
        Datum::Text(name) => catalog.user_type_by_name(name),
        other => number(other),
    };
    let Some(ty) = oid.and_then(|oid| catalog.user_type(oid)) else {
        // The system's own types are everybody's.
        return Ok(Value::Bool(true));
    };
    let whole = (AclKind::Type, ty.owner);
    Ok(Value::Bool(has_any(catalog, role, whole, ty.acl.as_ref(), &wanted)))
}

fn on_database(catalog: &Catalog, args: &[Datum<'_>]) -> Result<Value> {
    let Some((role, args)) = split(catalog, args, 2)? else { return Ok(Value::Null) };
    let wanted = asked_in(&args[1], AclKind::Database.all())?;
    match &args[0] {
        Datum::Text(name) if *name != crate::DATABASE => {
            return Err(PgError::new("3D000", format!("database \"{name}\" does not exist")));
        }
        Datum::Text(_) => {}
        other if number(other) == Some(5) => {}
        _ => return Ok(Value::Null),
    }
    let whole = (AclKind::Database, catalog.roles.owner);
    Ok(Value::Bool(has_any(catalog, role, whole, catalog.roles.acl.as_ref(), &wanted)))
}

fn has_role(catalog: &Catalog, args: &[Datum<'_>]) -> Result<Value> {
    let Some((role, args)) = split(catalog, args, 2)? else { return Ok(Value::Null) };
    let (Some(of), Datum::Text(text)) = (role_of(catalog, &args[0])?, &args[1]) else {
        return Ok(Value::Null);
    };
    let roles = &catalog.roles;
    let one = |word: &str| {
        let word = word.trim().to_uppercase();
        let admin = word.ends_with(" WITH ADMIN OPTION") || word.ends_with(" WITH GRANT OPTION");
        let kind = word.split(' ').next().unwrap_or("");
        match (kind, admin) {
            ("MEMBER" | "USAGE", true) => Ok(roles.is_admin(role, of)),
            ("MEMBER", false) => Ok(roles.is_member(role, of)),
            ("USAGE", false) => {
                Ok(roles.is_superuser(role) || roles.above(role, true).contains(&of))
            }
            _ => {
                let text = format!("unrecognized privilege type: \"{}\"", text.trim());
                Err(PgError::new("22023", text))
            }
        }
    };
    let all = text.split(',').map(one).collect::<Result<Vec<bool>>>()?;
    Ok(Value::Bool(all.into_iter().any(|has| has)))
}

/// The system's own functions may be called by everybody.
fn on_function(catalog: &Catalog, args: &[Datum<'_>]) -> Result<Value> {
    let Some((role, args)) = split(catalog, args, 2)? else { return Ok(Value::Null) };
    let wanted = asked_in(&args[1], AclKind::Function.all())?;
    let def = match &args[0] {
        Datum::Text(name) => catalog.routine_with_types(name),
        other => number(other)
            .and_then(|oid| u32::try_from(oid).ok())
            .and_then(|oid| catalog.routines.by_obj(ObjId(oid))),
    };
    let Some(def) = def else { return Ok(Value::Bool(true)) };
    let whole = (AclKind::Function, def.owner);
    Ok(Value::Bool(has_any(catalog, role, whole, def.acl.as_ref(), &wanted)))
}

/// What everybody may use.
fn open(catalog: &Catalog, args: &[Datum<'_>]) -> Result<Value> {
    Ok(split(catalog, args, 2)?.map_or(Value::Null, |_| Value::Bool(true)))
}

/// A function's body.
pub(crate) type Body = fn(&Catalog, &[Datum<'_>]) -> Result<Value>;

/// All of them that say yes or no, by name.
pub(crate) const FUNCTIONS: &[(&str, Body)] = &[
    ("has_table_privilege", |catalog, args| on_relation(catalog, args, false)),
    ("has_any_column_privilege", |catalog, args| on_relation(catalog, args, true)),
    ("has_column_privilege", on_column),
    ("has_sequence_privilege", on_sequence),
    ("has_schema_privilege", on_schema),
    ("has_database_privilege", on_database),
    ("has_function_privilege", on_function),
    ("has_language_privilege", open),
    ("has_type_privilege", on_type),
    ("has_tablespace_privilege", open),
    ("pg_has_role", has_role),
];

/// Whether it needs the catalog for what it says of rights.
pub(crate) fn is_known(name: &str) -> bool {
    name == "pg_get_userbyid" || FUNCTIONS.iter().any(|(known, _)| *known == name)
}

/// `pg_get_userbyid`.
pub(crate) fn user_name(catalog: &Catalog, args: &[Datum<'_>]) -> Result<Value> {
    let Some(oid) = args.first().and_then(number) else { return Ok(Value::Null) };
    let found = u32::try_from(oid).ok().and_then(|oid| catalog.roles.of(ObjId(oid)));
    let shown = found.map_or_else(|| format!("unknown (OID={oid})"), |user| user.name.clone());
    Ok(Value::Text(shown.into()))
}
