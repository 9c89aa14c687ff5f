//! Expressions: each kind is bound, rewritten or refused by name.

use super::{Binder, HiddenCall, SessionFn, object_parts, refuse};
use crate::bind::scalar::ScalarBinder;
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, CaseWhen, CastKind, CeilFloorKind, DataType, DuplicateTreatment,
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArgumentList,
    FunctionArguments, Ident, ObjectName, OrderByKind, Query, SelectItem, SetExpr, Subscript,
    TableFactor, TableFunctionArgs, TimezoneInfo, UnaryOperator, Value,
};
use kernel::row::{ColType, TypeKind};
use query::cast::parse_numeric;
use query::functions::cast_name;
use query::sqltype::col_type_of_sql;

/// Longest list that is written out as comparisons.
const LIST_MAX: usize = 64;

pub(super) fn number(digits: &str) -> Expr {
    Expr::Value(Value::Number(digits.to_owned(), false).into())
}

fn string(text: impl Into<String>) -> Expr {
    Expr::Value(Value::SingleQuotedString(text.into()).into())
}

/// Position of a parameter named `$1`, from 0.
pub(crate) fn placeholder_index(name: &str) -> Result<usize> {
    name.strip_prefix('$')
        .and_then(|n| n.parse::<usize>().ok())
        .and_then(|n| n.checked_sub(1))
        .ok_or_else(|| PgError::new("42P02", format!("there is no parameter {name}")))
}

/// A call of a function by its exact name.
pub(crate) fn call(name: &str, args: Vec<Expr>) -> Expr {
    let args = args.into_iter().map(|e| FunctionArg::Unnamed(FunctionArgExpr::Expr(e))).collect();
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::with_quote('"', name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

fn not(expr: Expr, negated: bool) -> Expr {
    if negated {
        Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(Expr::Nested(Box::new(expr))) }
    } else {
        expr
    }
}

fn text_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(v) => match &v.value {
            Value::SingleQuotedString(s) | Value::EscapedStringLiteral(s) => Some(s),
            _ => None,
        },
        _ => None,
    }
}

impl Binder<'_> {
    pub(super) fn expr(&mut self, expr: &mut Expr) -> Result<()> {
        self.enter()?;
        let done = self.expr_inner(expr);
        self.depth -= 1;
        done
    }

    fn all<'e>(&mut self, all: impl IntoIterator<Item = &'e mut Expr>) -> Result<()> {
        all.into_iter().try_for_each(|expr| self.expr(expr))
    }

    fn expr_inner(&mut self, expr: &mut Expr) -> Result<()> {
        match expr {
            Expr::Identifier(ident) => self.identifier(ident).map(|new| replace(expr, new)),
            Expr::CompoundIdentifier(parts) => {
                let parts: Vec<String> = parts.iter().map(super::ident_name).collect();
                self.compound(&parts).map(|new| replace(expr, new))
            }
            Expr::Value(_) => self.value(expr),
            Expr::Nested(inner)
            | Expr::IsNull(inner)
            | Expr::IsNotNull(inner)
            | Expr::IsTrue(inner)
            | Expr::IsNotTrue(inner)
            | Expr::IsFalse(inner)
            | Expr::IsNotFalse(inner)
            | Expr::IsUnknown(inner)
            | Expr::IsNotUnknown(inner) => self.expr(inner),
            Expr::IsDistinctFrom(a, b) | Expr::IsNotDistinctFrom(a, b) => {
                self.all([&mut **a, &mut **b])
            }
            Expr::BinaryOp { .. } => self.binary(expr),
            Expr::UnaryOp { op, expr: inner } => match op {
                UnaryOperator::Plus | UnaryOperator::Minus | UnaryOperator::Not => self.expr(inner),
                UnaryOperator::PGAbs => {
                    self.expr(inner)?;
                    *expr = call("abs", vec![(**inner).clone()]);
                    Ok(())
                }
                other => refuse(format!("operator {other}")),
            },
            Expr::Between { .. } => self.between(expr),
            Expr::InList { .. } => self.in_list(expr),
            Expr::InSubquery { expr: inner, subquery, negated: _ } => {
                self.expr(inner)?;
                self.query(subquery)
            }
            Expr::Exists { .. } if self.in_projection => {
                super::subquery::as_count(expr)?;
                self.expr(expr)
            }
            Expr::Exists { subquery, negated: _ } => self.query(subquery),
            Expr::Subquery(_) => {
                super::subquery::as_single_value(expr);
                match expr {
                    Expr::Subquery(subquery) => self.query(subquery),
                    other => self.single_value(other),
                }
            }
            Expr::AnyOp { .. } | Expr::AllOp { .. } => self.any_all(expr),
            Expr::Like { any: false, expr: a, pattern, escape_char, negated: _ }
            | Expr::ILike { any: false, expr: a, pattern, escape_char, negated: _ } => {
                if escape_char
                    .as_ref()
                    .is_some_and(|c| c.value != Value::SingleQuotedString("\\".into()))
                {
                    return refuse("ESCAPE with another character than a backslash");
                }
                *escape_char = None;
                self.all([&mut **a, &mut **pattern])
            }
            Expr::SimilarTo { expr: a, pattern, escape_char: None, negated: _ } => {
                self.all([&mut **a, &mut **pattern])
            }
            Expr::Cast { .. } => self.cast(expr),
            Expr::TypedString(typed) => {
                let inner = Box::new(Expr::Value(typed.value.clone()));
                let data_type = typed.data_type.clone();
                *expr = Expr::Cast {
                    kind: CastKind::Cast,
                    expr: inner,
                    data_type,
                    array: false,
                    format: None,
                };
                self.cast(expr)
            }
            Expr::Interval(interval) => match &*interval.value {
                Expr::Value(_) => Ok(()),
                _ => refuse("an interval that is not a literal"),
            },
            Expr::Extract { expr: inner, .. } => self.expr(inner),
            Expr::Ceil { expr: inner, field: CeilFloorKind::DateTimeField(field) }
            | Expr::Floor { expr: inner, field: CeilFloorKind::DateTimeField(field) }
                if field.to_string().is_empty()
                    || *field == datafusion::sql::sqlparser::ast::DateTimeField::NoDateTime =>
            {
                self.expr(inner)
            }
            Expr::Position { expr: a, r#in } => self.all([&mut **a, &mut **r#in]),
            Expr::Substring { expr: inner, substring_from, substring_for, .. } => {
                self.expr(inner)?;
                self.all(substring_from.iter_mut().chain(substring_for).map(|e| &mut **e))
            }
            Expr::Trim { expr: inner, trim_what, trim_characters, .. } => {
                self.expr(inner)?;
                self.all(trim_what.iter_mut().map(|e| &mut **e))?;
                self.all(trim_characters.iter_mut().flatten())
            }
            Expr::Overlay { expr: inner, overlay_what, overlay_from, overlay_for } => {
                self.all([&mut **inner, &mut **overlay_what, &mut **overlay_from])?;
                self.all(overlay_for.iter_mut().map(|e| &mut **e))
            }
            Expr::Collate { expr: inner, collation } => {
                let name = object_parts(collation)?.pop().unwrap_or_default();
                if !matches!(name.as_str(), "C" | "c" | "POSIX" | "posix" | "default" | "ucs_basic")
                {
                    return refuse(format!("collation \"{name}\""));
                }
                let mut inner = std::mem::replace(&mut **inner, string(""));
                self.expr(&mut inner)?;
                *expr = inner;
                Ok(())
            }
            Expr::Function(_) => self.function(expr),
            Expr::Case { operand, conditions, else_result, .. } => {
                self.all(operand.iter_mut().map(|e| &mut **e))?;
                for CaseWhen { condition, result } in conditions {
                    self.all([condition, result])?;
                }
                self.all(else_result.iter_mut().map(|e| &mut **e))
            }
            Expr::Array(array) => self.all(&mut array.elem),
            Expr::Tuple(all) => self.all(all),
            Expr::GroupingSets(sets) | Expr::Cube(sets) | Expr::Rollup(sets) => {
                sets.iter_mut().try_for_each(|set| self.all(set))
            }
            Expr::AtTimeZone { timestamp, time_zone } => {
                self.expr(timestamp)?;
                match text_of(time_zone) {
                    Some(_) => Ok(()),
                    None => refuse("AT TIME ZONE with an expression"),
                }
            }
            Expr::CompoundFieldAccess { root, access_chain } => {
                self.expr(root)?;
                for access in access_chain {
                    match access {
                        AccessExpr::Subscript(Subscript::Index { index }) => self.expr(index)?,
                        _ => return refuse("this kind of field access"),
                    }
                }
                Ok(())
            }
            other => refuse(format!("the expression {other}")),
        }
    }

    /// A subquery that has become `CASE WHEN condition THEN (subquery) END`.
    fn single_value(&mut self, expr: &mut Expr) -> Result<()> {
        let Expr::Case { conditions, .. } = expr else {
            return Err(PgError::internal("a subquery became something else"));
        };
        for CaseWhen { condition, result } in conditions {
            self.expr(condition)?;
            if let Expr::Subquery(subquery) = result {
                self.query(subquery)?;
            }
        }
        Ok(())
    }

    /// Words that look like columns but are functions.
    fn identifier(&mut self, ident: &Ident) -> Result<Option<Expr>> {
        if ident.quote_style.is_some() {
            return Ok(None);
        }
        let function = match ident.value.to_ascii_lowercase().as_str() {
            "sysdate" => SessionFn::LocalTimestamp,
            "systimestamp" => SessionFn::Now,
            "current_schema" => SessionFn::CurrentSchema,
            "rownum" | "level" | "rowid" | "connect_by_root" => {
                return refuse(format!("the pseudo-column {}", ident.value));
            }
            _ => return Ok(None),
        };
        self.hidden(function, Vec::new()).map(Some)
    }

    /// `sequence.nextval`.
    fn compound(&mut self, parts: &[String]) -> Result<Option<Expr>> {
        let Some((last, name)) = parts.split_last() else { return Ok(None) };
        let function = match last.as_str() {
            "nextval" => SessionFn::NextVal,
            "currval" => SessionFn::CurrVal,
            _ => return Ok(None),
        };
        if name.is_empty() {
            return Ok(None);
        }
        let sequence = query::Scalar::Const(kernel::row::Value::Text(name.join(".").into()));
        self.hidden(function, vec![sequence]).map(Some)
    }

    /// A parameter in place of a call.
    fn hidden(&mut self, function: SessionFn, args: Vec<query::Scalar>) -> Result<Expr> {
        if function.per_row() && !self.one_row {
            return Err(PgError::unsupported(
                "a function with an effect in a query over several rows",
            )
            .with_hint(
                "Sequences can be used in column defaults, VALUES and SELECT without FROM.",
            ));
        }
        let at = self.params.add_hidden(HiddenCall { function, args });
        Ok(Binder::placeholder(at))
    }

    fn value(&mut self, expr: &mut Expr) -> Result<()> {
        let Expr::Value(value) = expr else { return Ok(()) };
        match &value.value {
            Value::Number(digits, _) => {
                if digits.parse::<i32>().is_ok() {
                    *expr = Expr::Cast {
                        kind: CastKind::Cast,
                        expr: Box::new(number(&digits.clone())),
                        data_type: DataType::Int4(None),
                        array: false,
                        format: None,
                    };
                } else if digits.bytes().all(|b| b.is_ascii_digit())
                    && digits.parse::<i64>().is_err()
                {
                    // Beyond bigint a whole number is numeric.
                    *expr = call(&cast_name(ColType::new(TypeKind::Numeric)), vec![string(digits)]);
                } else if digits.contains(['e', 'E']) {
                    // The library takes 1e9 for a decimal with -9 digits behind the point.
                    let kind = match parse_numeric(digits) {
                        Ok(_) => TypeKind::Numeric,
                        Err(_) => TypeKind::Float8,
                    };
                    *expr = call(&cast_name(ColType::new(kind)), vec![string(digits)]);
                }
                Ok(())
            }
            Value::SingleQuotedString(_) | Value::Boolean(_) | Value::Null => Ok(()),
            Value::EscapedStringLiteral(text) => {
                *expr = string(text.clone());
                Ok(())
            }
            Value::DollarQuotedString(text) => {
                *expr = string(text.value.clone());
                Ok(())
            }
            Value::Placeholder(name) => {
                let at = placeholder_index(name)?;
                if at >= self.params.types.len() {
                    return Err(PgError::new("42P02", format!("there is no parameter {name}")));
                }
                Ok(())
            }
            other => refuse(format!("the literal {other}")),
        }
    }

    fn binary(&mut self, expr: &mut Expr) -> Result<()> {
        let Expr::BinaryOp { left, op, right } = expr else { return Ok(()) };
        self.all([&mut **left, &mut **right])?;
        if let BinaryOperator::PGCustomBinaryOperator(parts) = op {
            let symbol = match &parts[..] {
                [schema, symbol] if schema.eq_ignore_ascii_case("pg_catalog") => symbol.as_str(),
                [symbol] => symbol.as_str(),
                _ => return refuse("an operator of another schema"),
            };
            *op = match symbol {
                "=" => BinaryOperator::Eq,
                "<>" | "!=" => BinaryOperator::NotEq,
                "<" => BinaryOperator::Lt,
                ">" => BinaryOperator::Gt,
                "<=" => BinaryOperator::LtEq,
                ">=" => BinaryOperator::GtEq,
                "~" => BinaryOperator::PGRegexMatch,
                "~*" => BinaryOperator::PGRegexIMatch,
                "!~" => BinaryOperator::PGRegexNotMatch,
                "!~*" => BinaryOperator::PGRegexNotIMatch,
                "~~" => BinaryOperator::PGLikeMatch,
                "!~~" => BinaryOperator::PGNotLikeMatch,
                "+" => BinaryOperator::Plus,
                "-" => BinaryOperator::Minus,
                "*" => BinaryOperator::Multiply,
                "/" => BinaryOperator::Divide,
                "||" => BinaryOperator::StringConcat,
                other => return refuse(format!("operator {other}")),
            };
        }
        let like = |negated, i: bool, left: &Expr, right: &Expr| {
            let (a, pattern) = (Box::new(left.clone()), Box::new(right.clone()));
            if i {
                Expr::ILike { negated, any: false, expr: a, pattern, escape_char: None }
            } else {
                Expr::Like { negated, any: false, expr: a, pattern, escape_char: None }
            }
        };
        match op {
            BinaryOperator::Plus
            | BinaryOperator::Minus
            | BinaryOperator::Multiply
            | BinaryOperator::Divide
            | BinaryOperator::Modulo
            | BinaryOperator::StringConcat
            | BinaryOperator::Gt
            | BinaryOperator::Lt
            | BinaryOperator::GtEq
            | BinaryOperator::LtEq
            | BinaryOperator::Eq
            | BinaryOperator::NotEq
            | BinaryOperator::And
            | BinaryOperator::Or
            | BinaryOperator::BitwiseAnd
            | BinaryOperator::BitwiseOr
            | BinaryOperator::PGBitwiseShiftLeft
            | BinaryOperator::PGBitwiseShiftRight
            | BinaryOperator::PGRegexMatch
            | BinaryOperator::PGRegexIMatch
            | BinaryOperator::PGRegexNotMatch
            | BinaryOperator::PGRegexNotIMatch => Ok(()),
            BinaryOperator::PGExp => {
                *expr = call("power", vec![(**left).clone(), (**right).clone()]);
                Ok(())
            }
            BinaryOperator::PGLikeMatch => {
                *expr = like(false, false, left, right);
                Ok(())
            }
            BinaryOperator::PGNotLikeMatch => {
                *expr = like(true, false, left, right);
                Ok(())
            }
            BinaryOperator::PGILikeMatch => {
                *expr = like(false, true, left, right);
                Ok(())
            }
            BinaryOperator::PGNotILikeMatch => {
                *expr = like(true, true, left, right);
                Ok(())
            }
            other => refuse(format!("operator {other}")),
        }
    }

    /// Written out as comparisons, where an untyped literal takes the other side's type.
    fn between(&mut self, expr: &mut Expr) -> Result<()> {
        let Expr::Between { expr: value, negated, low, high } = expr else { return Ok(()) };
        self.all([&mut **value, &mut **low, &mut **high])?;
        let low = binary((**value).clone(), BinaryOperator::GtEq, (**low).clone());
        let high = binary((**value).clone(), BinaryOperator::LtEq, (**high).clone());
        let both = Expr::Nested(Box::new(binary(low, BinaryOperator::And, high)));
        *expr = not(both, *negated);
        Ok(())
    }

    fn in_list(&mut self, expr: &mut Expr) -> Result<()> {
        let Expr::InList { expr: value, list, negated } = expr else { return Ok(()) };
        if list.is_empty() {
            return Err(PgError::syntax("syntax error at or near \")\""));
        }
        self.expr(value)?;
        self.all(list.iter_mut())?;
        let untyped = list.iter().any(|e| text_of(e).is_some());
        if !untyped || list.len() > LIST_MAX {
            return Ok(());
        }
        let (value, negated) = ((**value).clone(), *negated);
        let mut equal = list.drain(..).map(|item| binary(value.clone(), BinaryOperator::Eq, item));
        let first = equal.next().unwrap_or_else(|| string(""));
        let any = equal.fold(first, |all, one| binary(all, BinaryOperator::Or, one));
        *expr = not(Expr::Nested(Box::new(any)), negated);
        Ok(())
    }

    /// `x = ANY (...)` over an array literal or a subquery.
    fn any_all(&mut self, expr: &mut Expr) -> Result<()> {
        let (left, op, right, any) = match expr {
            Expr::AnyOp { left, compare_op, right, .. } => (left, compare_op, right, true),
            Expr::AllOp { left, compare_op, right } => (left, compare_op, right, false),
            _ => return Ok(()),
        };
        if let Expr::Subquery(subquery) = &mut **right {
            let negated = match (&op, any) {
                (BinaryOperator::Eq, true) => false,
                (BinaryOperator::NotEq, false) => true,
                _ => return refuse("ANY or ALL of a subquery with this operator"),
            };
            self.expr(left)?;
            self.query(subquery)?;
            let (expr_box, subquery) = (left.clone(), subquery.clone());
            *expr = Expr::InSubquery { expr: expr_box, subquery, negated };
            return Ok(());
        }
        let Some(items) = array_items(right) else {
            // A column that holds an array.
            if let (BinaryOperator::Eq, true) = (&op, any) {
                self.all([&mut **left, &mut **right])?;
                *expr = call("$has_element", vec![(**right).clone(), (**left).clone()]);
                return Ok(());
            }
            return refuse("ANY or ALL of this expression");
        };
        let join = if any { BinaryOperator::Or } else { BinaryOperator::And };
        let mut parts = items.into_iter().map(|item| binary((**left).clone(), op.clone(), item));
        let empty = Expr::Value(Value::Boolean(!any).into());
        let first = parts.next().unwrap_or(empty);
        let mut all =
            Expr::Nested(Box::new(parts.fold(first, |all, one| binary(all, join.clone(), one))));
        self.expr(&mut all)?;
        *expr = all;
        Ok(())
    }

    fn cast(&mut self, expr: &mut Expr) -> Result<()> {
        let Expr::Cast { kind, expr: inner, data_type, array, format } = expr else {
            return Ok(());
        };
        if !matches!(kind, CastKind::Cast | CastKind::DoubleColon) || *array || format.is_some() {
            return refuse("this kind of cast");
        }
        if let Some(replaced) = self.object_cast(inner, data_type)? {
            *expr = replaced;
            return Ok(());
        }
        let Some(ty) = col_type_of_sql(data_type)? else {
            if let DataType::Array(_) = data_type {
                return refuse("a cast to an array");
            }
            return self.expr(inner);
        };
        if let Expr::Value(value) = &**inner
            && let Value::Placeholder(name) = &value.value
            && let Some(slot @ None) = self.params.types.get_mut(placeholder_index(name)?)
        {
            *slot = Some(ColType::new(ty.kind));
        }
        if ty.kind == TypeKind::Timestamptz && !self.zone_is_utc {
            match text_of(inner) {
                Some(text) => {
                    let us = query::datetime::parse_timestamptz(text, &self.zone, 0)?;
                    let mut utc = Vec::new();
                    query::datetime::push_timestamptz(us, &query::datetime::Zone::utc(), &mut utc);
                    **inner = string(String::from_utf8_lossy(&utc).into_owned());
                }
                None => {
                    let utc = matches!(data_type, DataType::Timestamp(_, TimezoneInfo::None));
                    debug_assert!(!utc);
                }
            }
        }
        self.expr(inner)?;
        *expr = call(&cast_name(ty), vec![(**inner).clone()]);
        Ok(())
    }

    /// Casts to `regclass` and its like, which look into the catalog.
    fn object_cast(&mut self, inner: &mut Expr, data_type: &DataType) -> Result<Option<Expr>> {
        let name = match data_type {
            DataType::Regclass => "regclass".to_owned(),
            DataType::Custom(name, _) => object_parts(name)?.pop().unwrap_or_default(),
            _ => return Ok(None),
        };
        let function = match (name.as_str(), text_of(inner).is_some()) {
            ("regclass", true) => "$to_regclass",
            ("regclass", false) => "$regclass_name",
            ("regtype", false) => "$regtype_name",
            ("regtype", true) => "$to_regtype",
            ("regproc" | "regprocedure" | "regnamespace" | "regrole", _) => {
                self.expr(inner)?;
                return Ok(Some(call(
                    &cast_name(ColType::new(TypeKind::Text)),
                    vec![inner.clone()],
                )));
            }
            _ => return Ok(None),
        };
        self.references.catalog_functions = true;
        self.expr(inner)?;
        Ok(Some(call(function, vec![inner.clone()])))
    }

    fn function(&mut self, expr: &mut Expr) -> Result<()> {
        let Expr::Function(function) = expr else { return Ok(()) };
        let mut parts = object_parts(&function.name)?;
        let name = parts.pop().unwrap_or_default();
        if !(parts.is_empty() || parts == ["pg_catalog"] || parts == ["public"]) {
            let shown = function.name.to_string();
            return Err(PgError::new("42883", format!("function {shown} does not exist")));
        }
        if name.starts_with('$') && name != query::single::SINGLE {
            return Err(PgError::new("42883", format!("function {name} does not exist")));
        }
        if function.uses_odbc_syntax || !matches!(function.parameters, FunctionArguments::None) {
            return refuse("this form of a function call");
        }
        if name == "array"
            && let FunctionArguments::Subquery(query) = &mut function.args
        {
            let mut query = query.clone();
            if let Some(column) = unnested_column(&query) {
                *expr = column;
                return self.expr(expr);
            }
            collect_into_array(&mut query)?;
            self.query(&mut query)?;
            *expr = Expr::Subquery(query);
            return Ok(());
        }
        if let Some(new) = self.special_function(&name, function)? {
            *expr = new;
            return Ok(());
        }
        // How many digits to keep decides the result's type: it stays a plain literal.
        let digits = matches!(name.as_str(), "round" | "trunc").then_some(1);
        self.function_args(function, digits)?;
        if let Some(filter) = &mut function.filter {
            self.expr(filter)?;
        }
        self.order_by_list(&mut function.within_group, false)?;
        if let Some(window) = &mut function.over {
            self.window(window)?;
        }
        let known = match name.as_str() {
            "nvl" => "coalesce",
            "char_length" | "character_length" => "length",
            "ceiling" => "ceil",
            "pow" => "power",
            "sign" => "signum",
            "variance" => "var_samp",
            "every" => "bool_and",
            "array_agg" | "count" => name.as_str(),
            "pg_table_is_visible"
            | "pg_get_indexdef"
            | "pg_get_constraintdef"
            | "to_regclass"
            | "pg_get_serial_sequence" => {
                self.references.catalog_functions = true;
                name.as_str()
            }
            other => other,
        };
        function.name = ObjectName::from(vec![Ident::with_quote('"', known)]);
        Ok(())
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
                        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(_)))
                            if plain == Some(i) => {}
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
        if let Some(session) = session_function(name) {
            let mut args = Vec::new();
            for arg in plain_args(function)? {
                let constants = ScalarBinder::constants(self.params);
                args.push(constants.bind_argument(arg)?);
            }
            return self.hidden(session, args).map(Some);
        }
        // DataFusion has functions of these names that mean something else.
        const OTHERS: &[&str] = &[
            "to_date",
            "to_timestamp",
            "to_time",
            "to_number",
            "to_unixtime",
            "from_unixtime",
            "date_format",
            "date_bin",
            "arrow_cast",
            "arrow_typeof",
        ];
        if OTHERS.contains(&name) {
            return refuse(format!("function {name}"));
        }
        if name == "mod"
            && let [left, right] = &plain_args(function)?[..]
        {
            let mut modulo =
                Expr::Nested(Box::new(binary(left.clone(), BinaryOperator::Modulo, right.clone())));
            self.expr(&mut modulo)?;
            return Ok(Some(modulo));
        }
        Ok(match name {
            "version" => Some(string(crate::settings::VERSION_TEXT)),
            "current_database" | "current_catalog" => Some(string("skein")),
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

fn replace(expr: &mut Expr, new: Option<Expr>) {
    if let Some(new) = new {
        *expr = new;
    }
}

/// The function of the session with this name.
pub(super) fn session_function(name: &str) -> Option<SessionFn> {
    Some(match name {
        "now" | "current_timestamp" | "transaction_timestamp" | "statement_timestamp" => {
            SessionFn::Now
        }
        "clock_timestamp" => SessionFn::ClockTimestamp,
        "localtimestamp" => SessionFn::LocalTimestamp,
        "current_date" => SessionFn::CurrentDate,
        "current_user" | "session_user" | "user" | "current_role" => SessionFn::CurrentUser,
        "current_schema" => SessionFn::CurrentSchema,
        "current_schemas" => SessionFn::CurrentSchemas,
        "pg_backend_pid" => SessionFn::BackendPid,
        "current_setting" => SessionFn::Setting,
        "set_config" => SessionFn::SetConfig,
        "txid_current" | "pg_current_xact_id" => SessionFn::TransactionId,
        "nextval" => SessionFn::NextVal,
        "currval" => SessionFn::CurrVal,
        "lastval" => SessionFn::LastVal,
        "setval" => SessionFn::SetVal,
        "pg_sleep" => SessionFn::Sleep,
        "pg_postmaster_start_time" => SessionFn::StartTime,
        "pg_advisory_lock" | "pg_advisory_xact_lock" => SessionFn::AdvisoryLock,
        _ => return None,
    })
}

/// The arguments of a call that has nothing but plain ones.
pub(super) fn plain_args(function: &Function) -> Result<Vec<Expr>> {
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

/// `ARRAY(SELECT ... FROM unnest(column))`, or `... WHERE x = ANY (column)`: the only columns that
/// hold arrays are
/// those of the catalog that are always NULL, so that the column stands for the result.
fn unnested_column(query: &Query) -> Option<Expr> {
    let SetExpr::Select(select) = &*query.body else { return None };
    if let Some(Expr::AnyOp { right, .. }) = &select.selection {
        let column = match &**right {
            Expr::Nested(inner) => &**inner,
            other => other,
        };
        if matches!(column, Expr::CompoundIdentifier(_)) {
            return Some(column.clone());
        }
    }
    let [from] = &select.from[..] else { return None };
    let TableFactor::Table { name, args: Some(TableFunctionArgs { args, .. }), .. } =
        &from.relation
    else {
        return None;
    };
    let unnest = object_parts(name).ok()?.pop()? == "unnest";
    match &args[..] {
        [
            FunctionArg::Unnamed(FunctionArgExpr::Expr(
                column @ (Expr::Identifier(_) | Expr::CompoundIdentifier(_)),
            )),
        ] if unnest => Some(column.clone()),
        _ => None,
    }
}

/// `ARRAY(query)`: the query's one column becomes an aggregate.
fn collect_into_array(query: &mut Query) -> Result<()> {
    let order = query.order_by.take();
    let SetExpr::Select(select) = &mut *query.body else {
        return refuse("ARRAY of a set operation");
    };
    let [SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }] =
        &mut select.projection[..]
    else {
        return Err(PgError::syntax("subquery must return only one column"));
    };
    let mut aggregate = call("array_agg", vec![item.clone()]);
    if let (Expr::Function(function), Some(order)) = (&mut aggregate, order)
        && let FunctionArguments::List(list) = &mut function.args
        && let OrderByKind::Expressions(all) = order.kind
    {
        // A position means the one column.
        let all = all.into_iter().map(|mut one| {
            if matches!(one.expr, Expr::Value(_)) {
                one.expr = item.clone();
            }
            one
        });
        list.clauses.push(FunctionArgumentClause::OrderBy(all.collect()));
    }
    *item = aggregate;
    Ok(())
}

/// The elements of `ARRAY[...]` or `'{...}'`.
fn array_items(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::Nested(inner) => array_items(inner),
        Expr::Array(array) => Some(array.elem.clone()),
        Expr::Cast { expr, data_type: DataType::Array(_), .. } => array_items(expr),
        other => {
            let body = text_of(other)?.strip_prefix('{')?.strip_suffix('}')?;
            if body.is_empty() {
                return Some(Vec::new());
            }
            Some(body.split(',').map(|item| string(item.trim().trim_matches('"'))).collect())
        }
    }
}
