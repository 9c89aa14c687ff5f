//! Calls of functions.
//!
//! What it promises: a name means PostgreSQL's function of that name, or is refused. What it must
//! never do: let a client call a function that is ours inside (`$...`).

use super::array::collect_into_array;
use super::build::{binary, call, number, string, text_of};
use super::session::{rounded_now, session_function};
use crate::bind::scalar::ScalarBinder;
use crate::bind::{Binder, SessionFn, object_parts, refuse};
use crate::idioms::dates::DAY;
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, CastKind, DataType, DuplicateTreatment, Expr, Function, FunctionArg,
    FunctionArgExpr, FunctionArgumentClause, FunctionArguments, Ident, ObjectName, SetExpr, Value,
};

impl Binder<'_> {
    pub(super) fn function(&mut self, expr: &mut Expr) -> Result<()> {
        let Expr::Function(function) = expr else { return Ok(()) };
        let mut parts = object_parts(&function.name)?;
        if let Some((candidates, lazy)) = crate::routines::called_by(&parts) {
            *expr = self.routine(&candidates, lazy, plain_args(function)?)?;
            return Ok(());
        }
        let mut name = parts.pop().unwrap_or_default();
        if parts == ["information_schema"]
            && name == "_pg_expandarray"
            && let [vector] = &plain_args(function)?[..]
        {
            let mut vector = vector.clone();
            self.expr(&mut vector)?;
            *expr = call("unnest", vec![call(query::expand::EXPAND, vec![vector])]);
            return Ok(());
        }
        if let Some(of_text) = crate::idioms::of_lob(&parts, &name, function)? {
            *expr = of_text;
            return self.expr(expr);
        }
        if !(parts.is_empty() || parts == ["pg_catalog"] || parts == ["public"]) {
            let shown = function.name.to_string();
            return Err(PgError::new("42883", format!("function {shown} does not exist")));
        }
        if name == crate::idioms::sequences::NEXT_OF_ROW {
            *expr = self.next_of_row(plain_args(function)?)?;
            return Ok(());
        }
        if name == DAY
            && let Ok([date]) = <[Expr; 1]>::try_from(plain_args(function)?)
        {
            *expr = date;
            return self.expr(expr);
        }
        if name.starts_with('$')
            && name != query::single::SINGLE
            && name != "$array_ordinals"
            && name != query::functions::RANDOM_STRING
            && name != crate::idioms::LEVEL_FUNCTION
            && name != crate::idioms::exact::EXACT
            && name != crate::idioms::exact::DECIMAL
            && name != query::PART
            && name != query::FIELD_SUBSTR
            && name != query::FIELD_TO_CHAR
            && name != query::TO_DATETIME
            && name != query::FIELD_TO_NUMBER
            && name != query::FIELD_TO_TIMESTAMP
            && name != query::LISTED
            && name != query::NTH_FROM_LAST
            && name != query::SHORT
            && name != query::TO_HEX
            && name != query::FROM_HEX
            && name != crate::idioms::context::AS_OF
            && name != query::rows::ROW
            && name != query::subscripts::ARRAY_ASSIGN
            && name != query::subscripts::JSONB_ASSIGN
            && name != crate::bind::sample::CHANCE
            && !query::functions::gives_json_set(&name)
            && query::keep::aggregate_of(&name).is_none()
        {
            return Err(PgError::new("42883", format!("function {name} does not exist")));
        }
        if function.uses_odbc_syntax || !matches!(function.parameters, FunctionArguments::None) {
            return refuse("this form of a function call");
        }
        if name == "pg_listening_channels" && plain_args(function)?.is_empty() {
            *expr = self.listening_channels()?;
            return Ok(());
        }
        if let Some(aggregate) = crate::bind::window::kept_over(function, &name)? {
            name = aggregate.to_owned();
        }
        needs_window(&name, function)?;
        if let Some(new) = super::hypothetical::written_out(&name, function)? {
            *expr = new;
            return self.expr(expr);
        }
        needs_arguments(&name, function)?;
        if let Some(new) = self.set_or_constant(&name, expr)? {
            *expr = new;
            return Ok(());
        }
        let Expr::Function(function) = expr else { return Ok(()) };
        if name == "array"
            && let FunctionArguments::Subquery(query) = &mut function.args
        {
            let mut query = query.clone();
            collect_into_array(&mut query)?;
            self.query(&mut query)?;
            // Over no rows it is an array of none, where the aggregate is NULL.
            *expr = call("$array_or_empty", vec![Expr::Subquery(query)]);
            return Ok(());
        }
        if let Some(new) = self.special_function(&name, function)? {
            *expr = new;
            return Ok(());
        }
        let sets = self.sets_allowed;
        self.sets_allowed &= !matches!(name.as_str(), "coalesce" | "nvl");
        // How many digits to keep decides the result's type: it stays a plain literal.
        let digits = matches!(name.as_str(), "round" | "trunc").then_some(1);
        self.function_args(function, digits)?;
        self.sets_allowed = sets;
        if let Some(filter) = &mut function.filter {
            self.expr(filter)?;
        }
        self.order_by_list(&mut function.within_group, false)?;
        if let Some(window) = &mut function.over {
            self.window(window)?;
        }
        let known = match name.as_str() {
            "nvl" => "coalesce",
            "variance" => "var_samp",
            "every" => "bool_and",
            "grouping_id" => "grouping",
            "array_agg" | "count" => name.as_str(),
            "pg_table_is_visible"
            | "pg_get_indexdef"
            | "pg_get_constraintdef"
            | "to_regclass"
            | "pg_get_viewdef"
            | "pg_relation_is_updatable"
            | "pg_column_is_updatable"
            | "to_regtype"
            | "to_regnamespace"
            | "to_regrole"
            | "to_regproc"
            | "to_regprocedure"
            | "to_regoper"
            | "to_regoperator"
            | "acldefault"
            | "pg_get_function_arguments"
            | "pg_get_function_identity_arguments"
            | "pg_get_function_result"
            | "pg_get_functiondef"
            | "pg_function_is_visible"
            | "obj_description"
            | "shobj_description"
            | "format_type"
            | "pg_type_is_visible"
            | "col_description"
            | "pg_get_serial_sequence" => {
                self.references.catalog_functions = true;
                name.as_str()
            }
            other if crate::access::functions::is_known(other) => {
                self.references.catalog_functions = true;
                other
            }
            other => {
                self.references.sizes |= crate::catalog::asks_for_size(other);
                other
            }
        };
        function.name = ObjectName::from(vec![Ident::with_quote('"', known)]);
        Ok(())
    }

    /// What is no call any more: a set of rows, a cast written as a call, a numeric that is known.
    fn set_or_constant(&mut self, name: &str, expr: &Expr) -> Result<Option<Expr>> {
        let Expr::Function(function) = expr else { return Ok(None) };
        if let Some(made) = query::functions::set_function(name) {
            return self.set_in_list(made, plain_args(function)?).map(Some);
        }
        if name == "position" {
            return Err(PgError::syntax("syntax error at or near \",\""));
        }
        if let Some(data_type) = cast_function(name)
            && let [argument] = &plain_args(function)?[..]
        {
            let mut cast = Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(argument.clone()),
                data_type,
                array: false,
                format: None,
            };
            self.cast(&mut cast)?;
            return Ok(Some(cast));
        }
        Ok(super::constant::numeric_literal(expr))
    }

    fn function_args(&mut self, function: &mut Function, plain: Option<usize>) -> Result<()> {
        match &mut function.args {
            FunctionArguments::None => Ok(()),
            FunctionArguments::Subquery(query) => {
                let _: &SetExpr = &query.body;
                refuse("a query as a function's argument")
            }
            FunctionArguments::List(list) => {
                if !matches!(
                    list.duplicate_treatment,
                    None | Some(DuplicateTreatment::All | DuplicateTreatment::Distinct)
                ) {
                    return refuse("this form of a function call");
                }
                for (i, arg) in list.args.iter_mut().enumerate() {
                    match arg {
                        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))
                            if plain == Some(i)
                                && let Some(literal) = super::constant::whole_literal(expr) =>
                        {
                            *expr = literal;
                        }
                        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => self.expr(expr)?,
                        FunctionArg::Unnamed(FunctionArgExpr::Wildcard) => {}
                        _ => return refuse("named arguments"),
                    }
                }
                for clause in &mut list.clauses {
                    match clause {
                        FunctionArgumentClause::OrderBy(all) => self.order_by_list(all, false)?,
                        FunctionArgumentClause::IgnoreOrRespectNulls(_) => {}
                        _ => return refuse("this clause of a function call"),
                    }
                }
                Ok(())
            }
        }
    }

    /// Functions of the session, and those that are written in another way.
    fn special_function(&mut self, name: &str, function: &Function) -> Result<Option<Expr>> {
        if let Some(mut rounded) = rounded_now(name, function)? {
            self.cast(&mut rounded)?;
            return Ok(Some(rounded));
        }
        if let Some(written) = self.field_function(name, function)? {
            return Ok(Some(written));
        }
        if let Some(session) = session_function(name) {
            let mut args = Vec::new();
            let given = plain_args(function)?;
            let of_rows = match session {
                SessionFn::Setting => Some("$current_setting"),
                SessionFn::SetConfig => Some("$set_config"),
                _ => None,
            };
            if let Some(name) = of_rows
                && super::array::names_column(&given)
            {
                self.references.catalog_functions = true;
                let mut given = given;
                self.all(given.iter_mut())?;
                return Ok(Some(call(name, given)));
            }
            let calls = session.per_row() && session != SessionFn::RandomUuid;
            if calls && !self.one_row {
                return self.of_each_row(name, session, given).map(Some);
            }
            let unknown = session.argument(given.len());
            for arg in &given {
                let constants = ScalarBinder::constants(self.params);
                match constants.bind_argument(arg, unknown)? {
                    Some(bound) => args.push(bound),
                    None if calls => return self.of_each_row(name, session, given).map(Some),
                    None => return refuse(format!("the argument {arg}")),
                }
            }
            return self.hidden(session, args).map(Some);
        }
        // PostgreSQL's that are missing here.
        const OTHERS: &[&str] = &["setseed"];
        if OTHERS.contains(&name) {
            return refuse(format!("function {name}"));
        }
        if name == "age"
            && let [to] = &plain_args(function)?[..]
        {
            let today = self.hidden(SessionFn::CurrentDate, Vec::new())?;
            let mut to = to.clone();
            self.expr(&mut to)?;
            return Ok(Some(call("age", vec![today, to])));
        }
        if name == "pg_typeof"
            && let [Expr::Value(value)] = &plain_args(function)?[..]
            && matches!(value.value, Value::SingleQuotedString(_) | Value::Null)
        {
            return Ok(Some(string("unknown")));
        }
        if name == "make_interval" {
            let mut made = interval_parts(function)?;
            self.all(made.iter_mut())?;
            return Ok(Some(call("make_interval", made)));
        }
        // Several rows out of one value.
        const SETS: &[&str] = &[
            "json_each",
            "json_each_text",
            "json_populate_record",
            "json_to_record",
            "json_to_recordset",
        ];
        if SETS.contains(&name.replacen("jsonb_", "json_", 1).as_str()) {
            return refuse(format!("function {name}"));
        }
        if name == "nullif"
            && let [value, other] = &plain_args(function)?[..]
        {
            let mut case = null_if_equal(value, other);
            self.expr(&mut case)?;
            return Ok(Some(case));
        }
        if name == "pg_char_to_encoding"
            && let [encoding] = &plain_args(function)?[..]
        {
            let utf8 = text_of(encoding).is_some_and(|name| name.eq_ignore_ascii_case("utf8"));
            return Ok(Some(number(if utf8 { "6" } else { "-1" })));
        }
        Ok(match name {
            "version" => Some(string(crate::settings::VERSION_TEXT)),
            "current_database" | "current_catalog" => Some(string("skein")),
            "getdatabaseencoding" | "pg_client_encoding" => Some(string("UTF8")),
            "decode" => {
                let args = plain_args(function)?;
                if args.len() < 3 {
                    return Ok(None);
                }
                let mut case = decode_as_case(&args);
                self.expr(&mut case)?;
                Some(case)
            }
            _ => None,
        })
    }
}

/// The arguments of a call that has nothing but plain ones.
pub(crate) fn plain_args(function: &Function) -> Result<Vec<Expr>> {
    if function.filter.is_some() || function.over.is_some() || !function.within_group.is_empty() {
        return refuse("this form of a function call");
    }
    match &function.args {
        FunctionArguments::None => Ok(Vec::new()),
        FunctionArguments::Subquery(_) => refuse("a query as a function's argument"),
        FunctionArguments::List(list) => {
            if list.duplicate_treatment.is_some() || !list.clauses.is_empty() {
                return refuse("this form of a function call");
            }
            list.args
                .iter()
                .map(|arg| match arg {
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Ok(expr.clone()),
                    _ => refuse("named arguments"),
                })
                .collect()
        }
    }
}

/// Functions of windows are called over one.
fn needs_window(name: &str, function: &Function) -> Result<()> {
    const WINDOWS: &[&str] = &[
        "cume_dist",
        "dense_rank",
        "first_value",
        "lag",
        "last_value",
        "lead",
        "nth_value",
        "ntile",
        "percent_rank",
        "rank",
        "row_number",
    ];
    if WINDOWS.contains(&name) && function.over.is_none() && function.within_group.is_empty() {
        let what = format!("window function {name} requires an OVER clause");
        return Err(PgError::new("42809", what));
    }
    Ok(())
}

/// `count()` is written with an asterisk; no other aggregate is without arguments but `mode`.
fn needs_arguments(name: &str, function: &Function) -> Result<()> {
    let none = match &function.args {
        FunctionArguments::None => true,
        FunctionArguments::List(list) => list.args.is_empty(),
        FunctionArguments::Subquery(_) => false,
    };
    if !none || !function.within_group.is_empty() {
        return Ok(());
    }
    if name == "count" {
        let text = "count(*) must be used to call a parameterless aggregate function";
        return Err(PgError::new("42809", text));
    }
    if crate::bind::subquery::AGGREGATES.contains(&name) {
        let hint = "No function matches the given name and argument types. You might need to add \
                    explicit type casts.";
        let text = format!("function {name}() does not exist");
        return Err(PgError::new("42883", text).with_hint(hint));
    }
    Ok(())
}

/// The type that a function with its name casts to.
fn cast_function(name: &str) -> Option<DataType> {
    Some(match name {
        "date" => DataType::Date,
        "text" => DataType::Text,
        "bool" => DataType::Bool,
        "int2" => DataType::Int2(None),
        "int4" => DataType::Int4(None),
        "int8" => DataType::Int8(None),
        "float4" => DataType::Float4,
        "float8" => DataType::Float8,
        _ => return None,
    })
}

/// The arguments of `make_interval`, by name or by position.
fn interval_parts(function: &Function) -> Result<Vec<Expr>> {
    const NAMES: [&str; 7] = ["years", "months", "weeks", "days", "hours", "mins", "secs"];
    let FunctionArguments::List(list) = &function.args else { return Ok(Vec::new()) };
    let mut parts = vec![number("0"); NAMES.len()];
    for (i, arg) in list.args.iter().enumerate() {
        let (at, value) = match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => (Some(i), value),
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => {
                let name = crate::bind::ident_name(name);
                (NAMES.iter().position(|known| **known == name), value)
            }
            FunctionArg::ExprNamed {
                name: Expr::Identifier(name),
                arg: FunctionArgExpr::Expr(value),
                ..
            } => {
                let name = crate::bind::ident_name(name);
                (NAMES.iter().position(|known| **known == name), value)
            }
            _ => return refuse("this form of a function call"),
        };
        let Some(slot) = at.and_then(|at| parts.get_mut(at)) else {
            return Err(PgError::new(
                "42883",
                "function make_interval does not exist for these arguments",
            ));
        };
        *slot = value.clone();
    }
    Ok(parts)
}

/// `nullif(a, b)` as a CASE, where an untyped literal takes the other side's type.
fn null_if_equal(value: &Expr, other: &Expr) -> Expr {
    use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
    let condition = binary(value.clone(), BinaryOperator::Eq, other.clone());
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition, result: Expr::Value(Value::Null.into()) }],
        else_result: Some(Box::new(value.clone())),
    }
}

/// `decode(x, a, 1, b, 2, 3)`: NULL equals NULL here.
fn decode_as_case(args: &[Expr]) -> Expr {
    use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
    let (value, rest) = (&args[0], &args[1..]);
    let conditions = rest
        .chunks_exact(2)
        .map(|pair| CaseWhen {
            condition: Expr::IsNotDistinctFrom(Box::new(value.clone()), Box::new(pair[0].clone())),
            result: pair[1].clone(),
        })
        .collect();
    let else_result = (rest.len() % 2 == 1).then(|| Box::new(rest[rest.len() - 1].clone()));
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions,
        else_result,
    }
}
