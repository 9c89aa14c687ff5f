//! Functions of the field's packages that stand in expressions: `dbms_random`,
//! `dbms_utility`, `dbms_workload_repository`, `dbms_lob`.
//!
//! What it promises: each call stands for an expression of the field's meaning; a name that the
//! package does not have is 42883. What it must never do: take a function for one of these that
//! somebody has made in a schema of that name.

use super::is;
use crate::bind::{call, ident_name, plain_args};
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArguments, Ident, Value,
};

const RANDOM: &str = "dbms_random";
const UTILITY: &str = "dbms_utility";
const REPOSITORY: &str = "dbms_workload_repository";
const LOB: &str = "dbms_lob";

/// What `dbms_lob.substr` takes where no amount is said.
const AMOUNT: &str = "32767";

/// Whether somebody has made a function of a name, which may have its schema.
type IsRoutine<'a> = &'a dyn Fn(&str) -> bool;

/// A name of a package, unless it is a function's of somebody.
fn own<'a>(package: &str, name: &'a Ident, is_routine: IsRoutine<'_>) -> Option<&'a Ident> {
    let is_theirs = is_routine(&format!("{package}.{}", ident_name(name)));
    (!is_theirs).then_some(name)
}

/// The function of a package that is called.
fn of_package<'a>(
    function: &'a Function,
    package: &str,
    is_routine: IsRoutine<'_>,
) -> Option<&'a Ident> {
    match &function.name.0[..] {
        [schema, name] if schema.as_ident().is_some_and(|schema| is(schema, package)) => {
            own(package, name.as_ident()?, is_routine)
        }
        _ => None,
    }
}

/// The same of what is named without arguments.
fn named<'a>(parts: &'a [Ident], package: &str, is_routine: IsRoutine<'_>) -> Option<&'a Ident> {
    match parts {
        [schema, name] if is(schema, package) => own(package, name, is_routine),
        _ => None,
    }
}

pub(super) fn is_called(function: &Function, is_routine: IsRoutine<'_>) -> bool {
    let all = [RANDOM, UTILITY, REPOSITORY];
    all.into_iter().any(|package| of_package(function, package, is_routine).is_some())
}

/// The name that a column has which shows nothing but such a call.
pub(super) fn shown_name(expr: &Expr, is_routine: IsRoutine<'_>) -> Option<String> {
    let mut all = [RANDOM, UTILITY].into_iter();
    let found = match expr {
        Expr::CompoundIdentifier(parts) => {
            all.find_map(|package| named(parts, package, is_routine))
        }
        Expr::Function(function) => {
            all.find_map(|package| of_package(function, package, is_routine))
        }
        _ => None,
    };
    found.map(ident_name)
}

/// What a call of `dbms_lob` stands for, whose values are texts here; `None`: another one, or of
/// a function that the package does not have. Whoever asks knows that nobody has made it.
///
/// # Errors
/// 0A000: arguments by their names.
pub(crate) fn of_lob(schema: &[String], name: &str, function: &Function) -> Result<Option<Expr>> {
    if schema != [LOB] || !matches!(name, "substr" | "getlength" | "instr") {
        return Ok(None);
    }
    if let FunctionArguments::List(list) = &function.args
        && list.args.iter().any(|arg| !matches!(arg, FunctionArg::Unnamed(_)))
    {
        return Err(PgError::unsupported(format!("named arguments of {LOB}.{name}")));
    }
    let number = |digits: &str| Expr::Value(Value::Number(digits.to_owned(), false).into());
    let mut args = plain_args(function)?;
    Ok(match (name, args.len()) {
        ("substr", count @ 1..=3) => {
            args.extend([AMOUNT, "1"].into_iter().skip(count - 1).map(number));
            // The amount stands before the offset.
            args.swap(1, 2);
            Some(call("substr", args))
        }
        ("getlength", 1) => Some(call("length", args)),
        ("instr", 2..=4) => Some(call("instr", args)),
        _ => None,
    })
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
    let count = plain_args(function)?.len();
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
pub(super) fn standing_for(expr: &Expr, is_routine: IsRoutine<'_>) -> Result<Option<Expr>> {
    let (name, args) = match expr {
        Expr::CompoundIdentifier(parts) => match named(parts, RANDOM, is_routine) {
            Some(name) => (name, Vec::new()),
            None => return named(parts, UTILITY, is_routine).map(of_utility).transpose(),
        },
        Expr::Function(function) => match of_package(function, RANDOM, is_routine) {
            Some(name) => (name, plain_args(function)?),
            None => {
                if let Some(name) = of_package(function, UTILITY, is_routine) {
                    return of_utility(name).map(Some);
                }
                let called = of_package(function, REPOSITORY, is_routine);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{Parsed, parse_single};
    use datafusion::sql::sqlparser::ast::{SelectItem, SetExpr, Statement as Ast};

    /// The first column that a query shows.
    fn expr(text: &str) -> Expr {
        let Parsed::Sql(ast) = parse_single(text).unwrap().parsed else { panic!("{text}") };
        let Ast::Query(query) = *ast else { panic!("{text}") };
        let SetExpr::Select(select) = *query.body else { panic!("{text}") };
        match select.projection.into_iter().next() {
            Some(SelectItem::UnnamedExpr(expr)) => expr,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn lob(text: &str) -> String {
        let Expr::Function(function) = expr(text) else { panic!("{text}") };
        let mut parts = crate::bind::object_parts(&function.name).unwrap();
        let name = parts.pop().unwrap_or_default();
        match of_lob(&parts, &name, &function) {
            Ok(made) => made.map_or_else(|| "as it is".to_owned(), |made| made.to_string()),
            Err(error) => error.code.to_owned(),
        }
    }

    #[test]
    fn texts_of_any_length_are_texts() {
        assert_eq!(lob("select dbms_lob.substr(a, 5, 2)"), "\"substr\"(a, 2, 5)");
        assert_eq!(lob("select DBMS_LOB.SUBSTR(a)"), "\"substr\"(a, 1, 32767)");
        assert_eq!(lob("select sys.dbms_lob . substr (a, 9)"), "\"substr\"(a, 1, 9)");
        assert_eq!(lob("select dbms_lob.getlength(a)"), "\"length\"(a)");
        assert_eq!(lob("select dbms_lob.instr(a, 'x', 1, 2)"), "\"instr\"(a, 'x', 1, 2)");
        assert_eq!(lob("select dbms_lob.substr(lob_loc => a, amount => 2)"), "0A000");
        assert_eq!(lob("select dbms_lob.compare(a, b)"), "as it is");
        assert_eq!(lob("select lob.substr(a, 5, 2)"), "as it is");
    }

    #[test]
    fn what_somebody_has_made_is_meant() {
        let made = |text: &str| standing_for(&expr(text), &|name| name == "dbms_random.value");
        assert_eq!(made("select dbms_random.value(1)").unwrap(), None);
        assert_eq!(made("select dbms_random.value").unwrap(), None);
        assert!(made("select dbms_random.normal()").unwrap().is_some());
    }
}
