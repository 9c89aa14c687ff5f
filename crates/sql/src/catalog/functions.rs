//! Functions that look into the catalog: names of objects, definitions of indexes and constraints.

use super::Catalog;
use super::known::{FUNCTIONS, TYPES};
use crate::parse::BITMAP;
use crate::sequence::split_name;
use crate::{PgError, Result};
use datafusion::logical_expr::ScalarUDF;
use kernel::dict::{CheckDef, ForeignKeyDef, IndexDef, IndexKind, KeyAction, KeyOrder, TableDef};
use kernel::row::{ColType, Datum, TypeKind, Value};
use query::functions::{RowFunction, quote_ident};
use std::sync::Arc;

const TEXT: ColType = ColType::new(TypeKind::Text);

pub(super) fn number(datum: &Datum<'_>) -> Option<i64> {
    match datum {
        Datum::Int2(v) => Some(i64::from(*v)),
        Datum::Int4(v) => Some(i64::from(*v)),
        Datum::Int8(v) => Some(*v),
        Datum::Text(v) => v.trim().parse().ok(),
        _ => None,
    }
}

fn text(text: impl Into<Box<str>>) -> Value {
    Value::Text(text.into())
}

/// What a new object's owner and everybody may do with it.
fn default_rights(kind: &str, owner: &str) -> Result<Value> {
    let (all, own) = match kind {
        "c" => ("", ""),
        "r" => ("", "arwdDxt"),
        "s" => ("", "rwU"),
        "d" => ("Tc", "CTc"),
        "f" => ("X", "X"),
        "l" | "T" => ("U", "U"),
        "L" => ("", "rw"),
        "n" => ("", "UC"),
        "t" => ("", "C"),
        "F" | "S" => ("", "U"),
        "p" => ("", "sA"),
        _ => {
            let message = format!("unrecognized object type abbreviation: \"{kind}\"");
            return Err(PgError::new("22023", message));
        }
    };
    let owner = quote_ident(owner);
    let mut rights = Vec::new();
    if !all.is_empty() {
        rights.push(format!("={all}/{owner}"));
    }
    if !own.is_empty() {
        rights.push(format!("{owner}={own}/{owner}"));
    }
    Ok(super::rows::texts(rights))
}

/// Settings that rows of a statement ask for: name, value, whether for the transaction.
pub(crate) type SetByRows = Arc<parking_lot::Mutex<Vec<(String, String, bool)>>>;

/// `set_config` of columns: takes notes that are followed when the statement ends.
pub(super) fn set_config(notes: &SetByRows) -> Arc<ScalarUDF> {
    let notes = notes.clone();
    let function = RowFunction::new("$set_config", Some(3), TEXT, true, move |args| {
        let (Datum::Text(name), Datum::Text(value)) = (&args[0], &args[1]) else {
            return Err(PgError::new("22004", "set_config needs a name, a value and a flag"));
        };
        let local = args[2] == Datum::Bool(true);
        notes.lock().push(((*name).to_owned(), (*value).to_owned(), local));
        Ok(text(*value))
    });
    function.for_one_plan().into_udf()
}

/// What is known of a function: a field of the system's, or what is made of a stored one.
fn of_function(
    catalog: &Catalog,
    oid: &Datum<'_>,
    field: usize,
    own: impl Fn(&kernel::dict::RoutineDef) -> Option<String>,
) -> Result<Value> {
    let Some(oid) = number(oid) else { return Ok(Value::Null) };
    if let Some(def) = catalog.routine(oid) {
        return Ok(own(def).map_or(Value::Null, text));
    }
    Ok(FUNCTIONS.find(oid).map_or(Value::Null, |line| text(line.text(field))))
}

/// A function over a catalog; `shown` is the type that clients are told of, if not the plain one.
pub(super) fn make(
    catalog: &Arc<Catalog>,
    name: &str,
    args: Option<usize>,
    returns: ColType,
    shown: Option<u32>,
    body: impl Fn(&Catalog, &[Datum<'_>]) -> Result<Value> + Send + Sync + 'static,
) -> Arc<ScalarUDF> {
    let catalog = catalog.clone();
    let function = RowFunction::new(name, args, returns, true, move |args| body(&catalog, args));
    let function = function.for_one_plan();
    match shown {
        Some(oid) => function.shown_as(oid).into_udf(),
        None => function.into_udf(),
    }
}

/// The name of a type; a modifier of NULL is none.
fn format_type(catalog: &Arc<Catalog>) -> Arc<ScalarUDF> {
    let catalog = catalog.clone();
    let function = RowFunction::new("format_type", Some(2), TEXT, false, move |args| {
        let Some(oid) = number(&args[0]) else { return Ok(Value::Null) };
        let modifier = number(&args[1]).unwrap_or(-1);
        Ok(text(match catalog.user_type(oid) {
            Some(ty) => catalog.shown_type(ty),
            None => query::functions::format_type(oid, modifier),
        }))
    });
    function.for_one_plan().into_udf()
}

/// All of them, over one catalog.
pub(super) fn all(catalog: &Arc<Catalog>) -> Vec<Arc<ScalarUDF>> {
    type Body = fn(&Catalog, &[Datum<'_>]) -> Result<Value>;
    let make = |name: &str, args: Option<usize>, returns: ColType, body: Body| {
        make(catalog, name, args, returns, None, body)
    };
    let rights = crate::access::functions::FUNCTIONS.iter();
    let mut all: Vec<_> =
        rights.map(|(name, body)| make(name, None, ColType::new(TypeKind::Bool), *body)).collect();
    let user_name = crate::access::functions::user_name;
    all.push(make("pg_get_userbyid", Some(1), TEXT, user_name));
    all.push(format_type(catalog));
    all.extend([
        make("pg_table_is_visible", Some(1), ColType::new(TypeKind::Bool), |c, args| {
            let Some(oid) = number(&args[0]) else { return Ok(Value::Null) };
            let visible = match relation_schema(c, oid) {
                Some((schema, name)) => c.is_visible(schema, name),
                None => super::pg::system_name(oid).is_some(),
            };
            Ok(Value::Bool(visible))
        }),
        make("acldefault", Some(2), ColType::array_of(TypeKind::Text), |c, args| {
            let Some(owner) = number(&args[1]) else { return Ok(Value::Null) };
            let kind = match args[0] {
                Datum::Text(kind) => kind,
                _ => return Ok(Value::Null),
            };
            let owner = c.users.iter().find(|user| i64::from(user.obj.0) == owner);
            default_rights(kind, owner.map_or(kernel::dict::SUPERUSER, |user| &user.name))
        }),
        make("$current_setting", None, TEXT, |c, args| {
            let Datum::Text(name) = args[0] else { return Ok(Value::Null) };
            match c.settings.iter().find(|(known, ..)| known.eq_ignore_ascii_case(name)) {
                Some((_, value, _)) => Ok(text(value.as_str())),
                None if args.get(1) == Some(&Datum::Bool(true)) => Ok(Value::Null),
                None => {
                    let message = format!("unrecognized configuration parameter \"{name}\"");
                    Err(PgError::new("42704", message))
                }
            }
        }),
        make("pg_type_is_visible", Some(1), ColType::new(TypeKind::Bool), |c, args| {
            let Some(oid) = number(&args[0]) else { return Ok(Value::Null) };
            let hidden = |ty: &kernel::dict::TypeDef| c.shown_type(ty) != quote_ident(&ty.name);
            Ok(Value::Bool(!c.user_type(oid).is_some_and(hidden)))
        }),
        make("pg_get_function_arguments", Some(1), TEXT, |c, args| {
            of_function(c, &args[0], 16, |def| Some(c.routine_arguments(def, true)))
        }),
        make("pg_get_functiondef", Some(1), TEXT, |c, args| {
            let def = number(&args[0]).and_then(|oid| c.routine(oid));
            Ok(def.map_or(Value::Null, |def| text(c.routine_text(def))))
        }),
        make("pg_function_is_visible", Some(1), ColType::new(TypeKind::Bool), |c, args| {
            let Some(oid) = number(&args[0]) else { return Ok(Value::Null) };
            Ok(match c.routine(oid) {
                Some(def) => Value::Bool(c.path.contains(&def.schema)),
                None if FUNCTIONS.find(oid).is_some() => Value::Bool(true),
                None => Value::Null,
            })
        }),
        make("pg_get_function_identity_arguments", Some(1), TEXT, |c, args| {
            of_function(c, &args[0], 16, |def| Some(c.routine_arguments(def, false)))
        }),
        make("pg_get_function_result", Some(1), TEXT, |c, args| {
            of_function(c, &args[0], 17, |def| c.routine_result(def))
        }),
        make("pg_get_indexdef", None, TEXT, |c, args| {
            let Some(oid) = args.first().and_then(number) else { return Ok(Value::Null) };
            let Some((table, index)) = find_index(c, oid) else { return Ok(Value::Null) };
            let short = matches!(args.get(2), Some(Datum::Bool(true)));
            Ok(match args.get(1).and_then(number).filter(|n| *n > 0) {
                None => text(index_definition(table, index, short)),
                Some(column) => {
                    let at = usize::try_from(column - 1).unwrap_or(usize::MAX);
                    match index.all_columns().get(at) {
                        Some(at) => text(crate::key_exprs::shown_part(table, index, *at, short)),
                        None => text(""),
                    }
                }
            })
        }),
        make("pg_get_constraintdef", None, TEXT, |c, args| {
            let Some(oid) = args.first().and_then(number) else { return Ok(Value::Null) };
            if let Some(check) = find_check(c, oid) {
                let short = matches!(args.get(1), Some(Datum::Bool(true)));
                return Ok(text(crate::check::definition(check, short)));
            }
            if let Some(key) = find_key(c, oid) {
                return Ok(key_definition(c, key).map_or(Value::Null, text));
            }
            Ok(find_index(c, oid).map_or(Value::Null, |(t, i)| text(constraint_definition(t, i))))
        }),
        make("pg_relation_is_updatable", Some(2), ColType::new(TypeKind::Int4), |c, args| {
            let Some(oid) = number(&args[0]) else { return Ok(Value::Null) };
            let found = c.relations().find(|def| i64::from(def.obj.0) == oid);
            let yes = found.is_some_and(|def| super::schema::is_updatable(c, def));
            // INSERT, UPDATE and DELETE, each a bit.
            Ok(Value::Int4(if yes { 28 } else { 0 }))
        }),
        make("pg_column_is_updatable", Some(3), ColType::new(TypeKind::Bool), |c, args| {
            let (Some(oid), Some(column)) = (number(&args[0]), number(&args[1])) else {
                return Ok(Value::Null);
            };
            let found = c.relations().find(|def| i64::from(def.obj.0) == oid);
            let at = usize::try_from(column - 1).ok();
            let yes = found
                .zip(at)
                .and_then(|(def, at)| super::schema::updatable_columns(c, def).get(at).copied());
            Ok(Value::Bool(yes.unwrap_or(false)))
        }),
        make("pg_get_viewdef", None, TEXT, |c, args| {
            let oid = match args.first() {
                Some(Datum::Text(name)) => {
                    let missing = || PgError::undefined_table(name);
                    Some(relation_oid(c, name).ok_or_else(missing)?)
                }
                Some(other) => number(other),
                None => None,
            };
            let view = c.relations().find(|view| Some(i64::from(view.obj.0)) == oid);
            Ok(view.and_then(|view| view_definition(view)).map_or(Value::Null, text))
        }),
        make("obj_description", None, TEXT, |c, args| {
            let Some(oid) = args.first().and_then(number) else { return Ok(Value::Null) };
            let class = match args.get(1) {
                None => None,
                Some(Datum::Text(name)) => Some(*name),
                Some(_) => return Ok(Value::Null),
            };
            if let Some(said) = c.comment(class, oid) {
                return Ok(text(said));
            }
            let mut all = c.relations();
            let of_class = class.is_none_or(|class| class == "pg_class");
            let table = all.find(|table| of_class && i64::from(table.obj.0) == oid);
            let known = match class.unwrap_or("") {
                "pg_type" => {
                    let known = TYPES.find(oid).map(|line| line.text(20));
                    known.or_else(|| c.user_type(oid)?.comment.as_deref())
                }
                "pg_proc" => {
                    let known = FUNCTIONS.find(oid).map(|line| line.text(18));
                    known.or_else(|| c.routine(oid)?.comment.as_deref())
                }
                _ => None,
            };
            let comment = table.and_then(|table| table.comment.as_deref()).or(known);
            Ok(comment.filter(|text| !text.is_empty()).map_or(Value::Null, text))
        }),
        make("shobj_description", Some(2), TEXT, |c, args| {
            let (Some(oid), Datum::Text(class)) = (number(&args[0]), &args[1]) else {
                return Ok(Value::Null);
            };
            Ok(c.shared_comment(class, oid).map_or(Value::Null, text))
        }),
        make("col_description", Some(2), TEXT, |c, args| {
            let (Some(oid), Some(column)) = (number(&args[0]), number(&args[1])) else {
                return Ok(Value::Null);
            };
            let table = c.relations().find(|table| i64::from(table.obj.0) == oid);
            let at = usize::try_from(column - 1).ok();
            let column = table.and_then(|table| table.columns.get(at?));
            Ok(column.and_then(|column| column.comment.as_deref()).map_or(Value::Null, text))
        }),
        make("pg_get_serial_sequence", Some(2), TEXT, |c, args| {
            let (Datum::Text(table), Datum::Text(column)) = (&args[0], &args[1]) else {
                return Ok(Value::Null);
            };
            let oid = relation_oid(c, table);
            let table = c.tables.iter().find(|t| Some(i64::from(t.obj.0)) == oid);
            let column = table.and_then(|t| t.columns.iter().find(|x| x.name == *column));
            // One that only serves the column is not the column's own.
            let owned = c.sequences.iter().any(|sequence| {
                sequence.table == table.map(|t| t.obj)
                    && column.is_some_and(|column| super::calls(column, sequence))
            });
            let default = column.and_then(|x| x.default.as_deref()).filter(|_| owned);
            let name = default.and_then(sequence_of_default);
            Ok(name.map_or(Value::Null, |name| text(name.replace("''", "'"))))
        }),
    ]);
    all
}

/// The name of the sequence that a default takes its values from, its apostrophes doubled.
pub(super) fn sequence_of_default(default: &str) -> Option<&str> {
    let name = default.strip_prefix("nextval('")?.strip_suffix("')")?;
    (!name.replace("''", "").contains('\'')).then_some(name)
}

pub(crate) fn relation_oid(catalog: &Catalog, name: &str) -> Option<i64> {
    if let Ok(oid) = name.trim().parse() {
        return Some(oid);
    }
    let parts = split_name(name);
    let (schema, name) = match &parts[..] {
        [name] => (None, name),
        [schema, name] => (Some(schema), name),
        _ => return None,
    };
    if let Some(oid) = super::pg::system_oid(name)
        && schema.is_none_or(|s| s == "pg_catalog")
    {
        return Some(oid);
    }
    match schema {
        Some(schema) => relation_in(catalog, schema, name),
        None => catalog.path.iter().find_map(|schema| relation_in(catalog, schema, name)),
    }
}

fn relation_in(catalog: &Catalog, schema: &str, name: &str) -> Option<i64> {
    for table in catalog.relations().filter(|table| table.schema == schema) {
        if table.name == name {
            return Some(i64::from(table.obj.0));
        }
        if let Some(index) = table.all_indexes().find(|i| i.name == name) {
            return Some(i64::from(index.obj.0));
        }
    }
    let sequence = catalog.sequences.iter().find(|s| s.name == name && s.schema == schema);
    sequence.map(|s| i64::from(s.obj.0))
}

/// Schema and name of a relation.
fn relation_schema(catalog: &Catalog, oid: i64) -> Option<(&str, &str)> {
    for table in catalog.relations() {
        if i64::from(table.obj.0) == oid {
            return Some((&table.schema, &table.name));
        }
        if let Some(index) = table.all_indexes().find(|i| i64::from(i.obj.0) == oid) {
            return Some((&table.schema, &index.name));
        }
    }
    let sequence = catalog.sequences.iter().find(|s| i64::from(s.obj.0) == oid);
    sequence.map(|s| (s.schema.as_str(), s.name.as_str()))
}

pub(super) fn relation_name(catalog: &Catalog, oid: i64) -> Option<String> {
    let Some((schema, name)) = relation_schema(catalog, oid) else {
        return super::pg::system_name(oid).map(str::to_owned);
    };
    Some(if catalog.is_visible(schema, name) {
        quote_ident(name)
    } else {
        format!("{}.{}", quote_ident(schema), quote_ident(name))
    })
}

/// An index by its OID; a constraint has the OID of its index.
fn find_index(catalog: &Catalog, oid: i64) -> Option<(&TableDef, &IndexDef)> {
    catalog.tables.iter().find_map(|table| {
        let index = table.all_indexes().find(|i| i64::from(i.obj.0) == oid)?;
        Some((&**table, &**index))
    })
}

/// A CHECK constraint by its OID.
fn find_check(catalog: &Catalog, oid: i64) -> Option<&CheckDef> {
    let mut checks = catalog.tables.iter().flat_map(|table| &table.checks);
    checks.find(|check| i64::from(check.obj.0) == oid)
}

fn find_key(catalog: &Catalog, oid: i64) -> Option<&ForeignKeyDef> {
    let mut keys = catalog.tables.iter().flat_map(|table| &table.foreign);
    keys.find(|key| i64::from(key.obj.0) == oid).map(|key| &**key)
}

/// A foreign key as it would be declared.
fn key_definition(catalog: &Catalog, key: &ForeignKeyDef) -> Option<String> {
    let find = |obj| catalog.tables.iter().find(|table| table.obj == obj);
    let (table, parent) = (find(key.table)?, find(key.parent)?);
    let list = |table: &TableDef, columns: &[u16]| {
        let name = |at: &u16| quote_ident(&table.columns[usize::from(*at)].name);
        columns.iter().map(name).collect::<Vec<_>>().join(", ")
    };
    let mut out = format!(
        "FOREIGN KEY ({}) REFERENCES {}({})",
        list(table, &key.columns),
        relation_name(catalog, i64::from(parent.obj.0))?,
        list(parent, &key.parent_columns(parent)?)
    );
    if key.full {
        out.push_str(" MATCH FULL");
    }
    for (word, action) in [("UPDATE", key.on_update), ("DELETE", key.on_delete)] {
        if action != KeyAction::NoAction {
            out.push_str(&format!(" ON {word} {}", action_words(action)));
        }
    }
    for (said, words) in [
        (key.deferrable, " DEFERRABLE"),
        (key.deferred, " INITIALLY DEFERRED"),
        (!key.validated, " NOT VALID"),
    ] {
        out.push_str(if said { words } else { "" });
    }
    Some(out)
}

pub(super) fn action_words(action: KeyAction) -> &'static str {
    match action {
        KeyAction::NoAction => "NO ACTION",
        KeyAction::Restrict => "RESTRICT",
        KeyAction::Cascade => "CASCADE",
        KeyAction::SetNull => "SET NULL",
        KeyAction::SetDefault => "SET DEFAULT",
    }
}

/// With the orders that were asked for, and what is included, as PostgreSQL shows them.
fn column_list(table: &TableDef, index: &IndexDef, short: bool) -> String {
    let orders = index.orders.iter().copied().chain(std::iter::repeat(KeyOrder::default()));
    let one = |(at, order): (&u16, KeyOrder)| {
        let words = match (order.descending, order.nulls_first) {
            (false, false) => "",
            (false, true) => " NULLS FIRST",
            (true, true) => " DESC",
            (true, false) => " DESC NULLS LAST",
        };
        format!("{}{words}", crate::key_exprs::shown_part(table, index, *at, short))
    };
    let all: Vec<String> = index.key_columns().iter().zip(orders).map(one).collect();
    format!("({}){}", all.join(", "), include_clause(table, index))
}

/// The columns beside the key.
fn include_clause(table: &TableDef, index: &IndexDef) -> String {
    let columns = index.included.columns.iter();
    let names: Vec<String> =
        columns.map(|at| quote_ident(&table.columns[usize::from(*at)].name).to_string()).collect();
    if names.is_empty() { String::new() } else { format!(" INCLUDE ({})", names.join(", ")) }
}

/// A view's text, which makes the view again.
pub(super) fn view_definition(view: &TableDef) -> Option<String> {
    view.shows().map(|own| format!(" {};", crate::view_text::shown(&own.text)))
}

pub(super) fn index_definition(table: &TableDef, index: &IndexDef, short: bool) -> String {
    format!(
        "CREATE {}INDEX {} ON {}.{} USING {} {}{}{}",
        if index.unique { "UNIQUE " } else { "" },
        quote_ident(&index.name),
        quote_ident(&table.schema),
        quote_ident(&table.name),
        match index.kind {
            IndexKind::Tree | IndexKind::Reverse => "btree",
            IndexKind::Bitmap => BITMAP,
        },
        column_list(table, index, short),
        if index.kind == IndexKind::Reverse { " REVERSE" } else { "" },
        match &index.predicate {
            Some(condition) => format!(" WHERE {}", crate::ddl::predicate_text(table, condition)),
            None => String::new(),
        }
    )
}

fn constraint_definition(table: &TableDef, index: &IndexDef) -> String {
    let word = if index.primary { "PRIMARY KEY" } else { "UNIQUE" };
    let method = if index.kind == IndexKind::Reverse { " USING INDEX REVERSE" } else { "" };
    format!("{word} {}{method}", column_list(table, index, false))
}
