//! Objects by their names and back: `regclass`, `regtype` and their like.
//!
//! What it promises: a name is read and written as PostgreSQL does it, with the schema where it is
//! needed. What it must never do: guess an object for a name that several have.

use super::functions::{make, number, relation_name, relation_oid};
use super::known::{FUNCTIONS, Line, OPERATORS, TYPES, type_by_name, type_name};
use super::{Catalog, pg};
use crate::sequence::split_name;
use crate::{PgError, Result};
use datafusion::logical_expr::ScalarUDF;
use kernel::row::{ColType, Datum, TypeKind, Value};
use query::functions::quote_ident;
use query::types::oid;
use std::sync::Arc;

const TEXT: ColType = ColType::new(TypeKind::Text);
const INT8: ColType = ColType::new(TypeKind::Int8);

/// A kind of objects that have a `reg` type.
struct Kind {
    oid: u32,
    to: &'static str,
    name_of: &'static str,
    /// What answers NULL for a name that nothing has.
    asks: &'static str,
    find: fn(&Catalog, &str) -> Result<Option<i64>>,
    missing: fn(&str) -> PgError,
    name: fn(&Catalog, i64) -> Option<String>,
}

static KINDS: [Kind; 8] = [
    Kind {
        oid: oid::REGCLASS,
        to: "$to_regclass",
        name_of: "$regclass_name",
        asks: "to_regclass",
        find: |c, name| Ok(relation_oid(c, name)),
        missing: |name| PgError::undefined_table(name),
        name: relation_name,
    },
    Kind {
        oid: oid::REGTYPE,
        to: "$to_regtype",
        name_of: "$regtype_name",
        asks: "to_regtype",
        find: |c, name| Ok(type_by_name(name).or_else(|| c.user_type_by_name(name))),
        missing: |name| PgError::new("42704", format!("type \"{name}\" does not exist")),
        name: |c, oid| {
            let known = TYPES.find(oid).map(|ty| ty.text(19).to_owned());
            known.or_else(|| c.user_type(oid).map(|ty| c.shown_type(ty)))
        },
    },
    Kind {
        oid: oid::REGNAMESPACE,
        to: "$to_regnamespace",
        name_of: "$regnamespace_name",
        asks: "to_regnamespace",
        find: |c, name| {
            let wanted = split_name(name).concat();
            Ok(c.all_schemas().iter().find(|(_, own, _)| *own == wanted).map(|(oid, ..)| *oid))
        },
        missing: |name| PgError::new("3F000", format!("schema \"{name}\" does not exist")),
        name: |c, oid| {
            let all = c.all_schemas();
            all.iter().find(|(own, ..)| *own == oid).map(|(_, name, _)| quote_ident(name))
        },
    },
    Kind {
        oid: oid::REGROLE,
        to: "$to_regrole",
        name_of: "$regrole_name",
        asks: "to_regrole",
        find: |c, name| {
            let wanted = split_name(name).concat();
            Ok(c.users.iter().find(|user| user.name == wanted).map(|user| user.obj.0.into()))
        },
        missing: |name| PgError::new("42704", format!("role \"{name}\" does not exist")),
        name: |c, oid| {
            let user = c.users.iter().find(|user| i64::from(user.obj.0) == oid);
            user.map(|user| quote_ident(&user.name))
        },
    },
    Kind {
        oid: oid::REGPROC,
        to: "$to_regproc",
        name_of: "$regproc_name",
        asks: "to_regproc",
        find: |c, name| {
            let several =
                || PgError::new("42725", format!("more than one function named \"{name}\""));
            match &c.routines_called(name)[..] {
                [] => one_of(FUNCTIONS.iter().filter(|f| f.text(1) == bare(name)), several),
                [one] => Ok(Some(one.obj.0.into())),
                _ => Err(several()),
            }
        },
        missing: |name| PgError::new("42883", format!("function \"{name}\" does not exist")),
        // PostgreSQL writes a schema before what a search would not find alone.
        name: |c, oid| {
            let own = c.shown_routine(oid, false);
            own.or_else(|| {
                FUNCTIONS.find(oid).map(|f| {
                    let same = FUNCTIONS.iter().filter(|other| other.text(1) == f.text(1)).count();
                    let name = quote_ident(f.text(1));
                    if same > 1 { format!("pg_catalog.{name}") } else { name }
                })
            })
        },
    },
    Kind {
        oid: oid::REGPROCEDURE,
        to: "$to_regprocedure",
        name_of: "$regprocedure_name",
        asks: "to_regprocedure",
        find: |c, name| {
            if let Some(own) = c.routine_with_types(name) {
                return Ok(Some(own.obj.0.into()));
            }
            Ok(with_arguments(name).and_then(|(name, types)| {
                let mut all = FUNCTIONS.iter();
                all.find(|f| f.text(1) == name && f.numbers(8) == types).map(|f| f.number(0))
            }))
        },
        missing: |name| PgError::new("42883", format!("function \"{name}\" does not exist")),
        name: |c, oid| {
            let own = c.shown_routine(oid, true);
            own.or_else(|| {
                FUNCTIONS.find(oid).map(|f| {
                    let types: Vec<String> = f.numbers(8).into_iter().map(type_name).collect();
                    format!("{}({})", quote_ident(f.text(1)), types.join(","))
                })
            })
        },
    },
    Kind {
        oid: oid::REGOPER,
        to: "$to_regoper",
        name_of: "$regoper_name",
        asks: "to_regoper",
        find: |_, name| {
            one_of(OPERATORS.iter().filter(|op| op.text(1) == bare(name)), || {
                PgError::new("42725", format!("more than one operator named {name}"))
            })
        },
        missing: |name| PgError::new("42883", format!("operator does not exist: {name}")),
        name: |_, oid| {
            OPERATORS.find(oid).map(|op| {
                let same = OPERATORS.iter().filter(|other| other.text(1) == op.text(1)).count();
                let name = op.text(1);
                if same > 1 { format!("pg_catalog.{name}") } else { name.to_owned() }
            })
        },
    },
    Kind {
        oid: oid::REGOPERATOR,
        to: "$to_regoperator",
        name_of: "$regoperator_name",
        asks: "to_regoperator",
        find: |_, name| {
            Ok(with_arguments(name).and_then(|(name, types)| {
                let [left, right] = types[..] else { return None };
                let mut all = OPERATORS.iter();
                let same = |op: &Line<'_>| {
                    op.text(1) == name && op.number(5) == left && op.number(6) == right
                };
                all.find(same).map(|op| op.number(0))
            }))
        },
        missing: |name| PgError::new("42883", format!("operator does not exist: {name}")),
        name: |_, oid| {
            OPERATORS.find(oid).map(|op| {
                let side = |at| match op.number(at) {
                    0 => "NONE".to_owned(),
                    ty => type_name(ty),
                };
                format!("{}({},{})", op.text(1), side(5), side(6))
            })
        },
    },
];

/// A name without the system's schema in front.
fn bare(name: &str) -> &str {
    name.trim().trim_start_matches("pg_catalog.")
}

fn one_of<'a>(
    mut all: impl Iterator<Item = Line<'a>>,
    several: impl Fn() -> PgError,
) -> Result<Option<i64>> {
    let first = all.next().map(|line| line.number(0));
    if all.next().is_some() { Err(several()) } else { Ok(first) }
}

/// `name(type, ...)`.
fn with_arguments(text: &str) -> Option<(&str, Vec<i64>)> {
    let (name, rest) = bare(text).split_once('(')?;
    let list = rest.trim_end().strip_suffix(')')?;
    let parts = list.split(',').map(str::trim).filter(|part| !part.is_empty());
    let types: Option<Vec<i64>> = parts
        .map(|part| if part.eq_ignore_ascii_case("none") { Some(0) } else { type_by_name(part) })
        .collect();
    Some((name.trim(), types?))
}

fn out_of_range() -> PgError {
    PgError::out_of_range("OID")
}

/// The functions behind casts between names and numbers, over one catalog.
pub(super) fn functions(catalog: &Arc<Catalog>) -> Vec<Arc<ScalarUDF>> {
    let mut all = vec![make(catalog, "$to_oid", Some(1), INT8, Some(oid::OID), |_, args| {
        let number = match &args[0] {
            Datum::Text(text) => {
                text.trim().parse().map_err(|_| PgError::invalid_text("oid", text))?
            }
            other => number(other).ok_or_else(|| PgError::new("42846", "cannot cast to oid"))?,
        };
        // A negative integer has the same bits.
        let number =
            if i32::try_from(number).is_ok() && number < 0 { number + (1 << 32) } else { number };
        u32::try_from(number).map(|n| Value::Int8(n.into())).map_err(|_| out_of_range())
    })];
    for kind in &KINDS {
        all.push(make(catalog, kind.to, Some(1), INT8, Some(kind.oid), |c, args| match &args[0] {
            Datum::Text("-") => Ok(Value::Int8(0)),
            Datum::Text(text) => match text.trim().parse::<u32>() {
                Ok(number) => Ok(Value::Int8(number.into())),
                Err(_) => {
                    let found = (kind.find)(c, text)?;
                    found.map(Value::Int8).ok_or_else(|| (kind.missing)(text))
                }
            },
            other => Ok(number(other).map_or(Value::Null, Value::Int8)),
        }));
        all.push(make(catalog, kind.asks, Some(1), INT8, Some(kind.oid), |c, args| {
            match &args[0] {
                Datum::Text(text) => {
                    Ok((kind.find)(c, text).ok().flatten().map_or(Value::Null, Value::Int8))
                }
                _ => Ok(Value::Null),
            }
        }));
        all.push(make(catalog, kind.name_of, Some(1), TEXT, Some(kind.oid), |c, args| {
            let Some(number) = number(&args[0]) else { return Ok(args[0].to_value()) };
            if number == 0 {
                return Ok(Value::Text("-".into()));
            }
            let name = (kind.name)(c, number).or_else(|| {
                pg::system_name(number).map(str::to_owned).filter(|_| kind.oid == oid::REGCLASS)
            });
            Ok(Value::Text(name.unwrap_or_else(|| number.to_string()).into()))
        }));
    }
    all
}
