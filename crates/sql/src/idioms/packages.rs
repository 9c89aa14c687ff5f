//! Functions of the field's packages that stand in expressions: `dbms_random`,
//! `dbms_utility`, `dbms_workload_repository`.
//!
//! What it promises: each call stands for an expression of the field's meaning; a name that the
//! package does not have is 42883.

use super::is;
use crate::bind::ident_name;
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{Expr, Function, Ident};

pub(super) const RANDOM: &str = "dbms_random";
pub(super) const UTILITY: &str = "dbms_utility";
const REPOSITORY: &str = "dbms_workload_repository";

/// The function of a package that is called.
fn of_package<'a>(function: &'a Function, package: &str) -> Option<&'a Ident> {
    match &function.name.0[..] {
        [own, name] if own.as_ident().is_some_and(|own| is(own, package)) => name.as_ident(),
        _ => None,
    }
}

pub(super) fn is_called(function: &Function) -> bool {
    [RANDOM, UTILITY, REPOSITORY].iter().any(|own| of_package(function, own).is_some())
}

/// The name that a column has which shows nothing but such a call.
pub(super) fn shown_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::CompoundIdentifier(parts) => match &parts[..] {
            [package, name] if is(package, RANDOM) || is(package, UTILITY) => {
                Some(ident_name(name))
            }
            _ => None,
        },
        Expr::Function(function) => {
            [RANDOM, UTILITY].iter().find_map(|own| of_package(function, own)).map(ident_name)
        }
        _ => None,
    }
}

/// What a function of `dbms_utility` stands for.
fn of_utility(name: &Ident) -> Result<Expr> {
    match ident_name(name).as_str() {
        // As much of it as fits a BINARY_INTEGER, as in blocks.
        "get_time" => crate::direct::parse_expr(
            "((floor(extract(epoch from clock_timestamp()) * 100)::bigint + 2147483648) \
             % 4294967296 - 2147483648)",
        ),
        name => {
            let text = format!("{UTILITY}.{name} in a statement of SQL");
            Err(PgError::unsupported(text)
                .with_hint("Ask for it in a block, and give it to a variable."))
        }
    }
}

/// What a function of `dbms_workload_repository` stands for.
fn of_repository(name: &Ident, function: &Function) -> Result<Expr> {
    let count = crate::bind::plain_args(function)?.len();
    match (ident_name(name).as_str(), count) {
        ("create_snapshot", 0) => {
            crate::direct::parse_expr(&format!("{}()", query::row_calls::CREATE_SNAPSHOT))
        }
        (name, count) => {
            let text =
                format!("function {REPOSITORY}.{name} with {count} arguments does not exist");
            Err(PgError::new("42883", text))
        }
    }
}

/// What a call stands for; `None`: another expression.
pub(super) fn standing_for(expr: &Expr) -> Result<Option<Expr>> {
    let (name, args) = match expr {
        Expr::CompoundIdentifier(parts) => match &parts[..] {
            [package, name] if is(package, RANDOM) => (name, Vec::new()),
            [package, name] if is(package, UTILITY) => return of_utility(name).map(Some),
            _ => return Ok(None),
        },
        Expr::Function(function) => match of_package(function, RANDOM) {
            Some(name) => (name, crate::bind::plain_args(function)?),
            None => {
                if let Some(name) = of_package(function, UTILITY) {
                    return of_utility(name).map(Some);
                }
                let called = of_package(function, REPOSITORY);
                return called.map(|name| of_repository(name, function)).transpose();
            }
        },
        _ => return Ok(None),
    };
    let name = ident_name(name);
    let args: Vec<String> = args.iter().map(ToString::to_string).collect();
    let text = match (name.as_str(), &args[..]) {
        ("value", []) => "random()::numeric".to_owned(),
        ("value", [low, high]) => format!(
            "(({low})::double precision + random() * (({high})::double precision - \
             ({low})::double precision))::numeric"
        ),
        ("random", []) => "(floor(random() * 4294967296) - 2147483648)::int".to_owned(),
        ("normal", []) => {
            "(sqrt(-2 * ln(1 - random())) * cos(2 * pi() * random()))::numeric".to_owned()
        }
        ("string", [kind, length]) => {
            format!("\"{}\"({kind}, ({length})::int, random())", query::functions::RANDOM_STRING)
        }
        _ => {
            let count = args.len();
            let text = format!("function {RANDOM}.{name} with {count} arguments does not exist");
            return Err(PgError::new("42883", text));
        }
    };
    crate::direct::parse_expr(&text).map(|expr| Some(Expr::Nested(Box::new(expr))))
}
