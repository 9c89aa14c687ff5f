//! Syntax trees as scalar expressions over one row, where they are simple enough; the direct path
//! runs on them.
//!
//! What it promises: an expression it converts has PostgreSQL's types and meaning; anything else it
//! leaves alone (`None`) for
//! DataFusion. An error is one that the statement has in any case.

use super::expr::{
    interval_literal, is_of_field, placeholder_index, plain_args, rounded_now, session_function,
    text_of, written_call,
};
use super::{HiddenCall, Params, SessionFn, ident_name, object_parts};
use crate::Result;
use crate::idioms::dates::DAY;
use crate::idioms::exact::EXACT;
use crate::idioms::sequences::NEXT_OF_ROW;
use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, CastKind, Expr, UnaryOperator, Value as Literal,
};
use kernel::dict::TableDef;
use kernel::row::{ColType, TypeKind, Value};
use query::Scalar;
use query::arith::Op;
use query::cast::{CastMode, cast, parse_numeric, parse_text};
use query::functions::by_row::FORMATTED;
use query::scalar::{CmpOp, common_number};
use query::sqltype::col_type_of_sql;
use query::wire::FormatEnv;
use std::borrow::Cow;

/// An expression with its type; untyped are NULL, text literals and parameters of unknown type.
#[derive(Clone, Debug)]
pub(crate) struct Typed {
    pub(crate) scalar: Scalar,
    pub(crate) ty: Option<ColType>,
}

/// Converts expressions over the columns of at most one table.
pub(crate) struct ScalarBinder<'a> {
    table: Option<(&'a TableDef, &'a str)>,
    pub(super) params: &'a mut Params,
}

const BOOL: ColType = ColType::new(TypeKind::Bool);

impl<'a> ScalarBinder<'a> {
    pub(crate) fn new(table: &'a TableDef, alias: &'a str, params: &'a mut Params) -> Self {
        ScalarBinder { table: Some((table, alias)), params }
    }

    /// Without a row.
    pub(crate) fn constants(params: &'a mut Params) -> Self {
        ScalarBinder { table: None, params }
    }

    /// An argument of a function of the session; `None` for what has to be planned.
    pub(crate) fn bind_argument(
        mut self,
        expr: &Expr,
        unknown: TypeKind,
    ) -> Result<Option<Scalar>> {
        // A name that says it is one of a relation.
        let expr = match expr {
            Expr::Cast { expr: inner, data_type: ast::DataType::Regclass, .. } => inner,
            other => other,
        };
        let Some(typed) = self.bind(expr)? else { return Ok(None) };
        if let Scalar::Param(at) = typed.scalar
            && let Some(slot @ None) = self.params.types.get_mut(at)
        {
            *slot = Some(ColType::new(unknown));
        }
        Ok(Some(typed.scalar))
    }

    /// The expression with its type; text where nothing tells.
    pub(crate) fn bind_output(&mut self, expr: &Expr) -> Result<Option<(Scalar, ColType)>> {
        let Some(typed) = self.bind(expr)? else { return Ok(None) };
        let ty = typed.ty.unwrap_or(ColType::new(TypeKind::Text));
        self.adopt(typed, ty).map(|scalar| scalar.map(|scalar| (scalar, ty)))
    }

    /// The expression as a value of a column.
    pub(crate) fn bind_assignment(&mut self, expr: &Expr, to: ColType) -> Result<Option<Scalar>> {
        let Some(typed) = self.bind(expr)? else { return Ok(None) };
        let is_literal =
            matches!(typed.scalar, Scalar::Const(Value::Text(_))) && typed.ty.is_none();
        let Some(scalar) = self.adopt(typed.clone(), to)? else { return Ok(None) };
        let from = typed.ty.unwrap_or(to.without_limit());
        // What has the column's type and no limit to obey goes in as it is.
        let free = from.kind == to.kind && (to.modifier == -1 || from == to);
        if is_literal || (free && to.kind != TypeKind::Char) {
            return Ok(Some(scalar));
        }
        if !assignable(from.kind, to.kind) {
            return Ok(None);
        }
        let cast = Scalar::Cast(Box::new(scalar), to, CastMode::Assignment);
        fold(cast).map(Some)
    }

    /// A condition.
    pub(crate) fn bind_condition(&mut self, expr: &Expr) -> Result<Option<Scalar>> {
        let Some(typed) = self.bind(expr)? else { return Ok(None) };
        Ok(match typed.ty {
            Some(ty) if ty.kind == TypeKind::Bool => Some(typed.scalar),
            _ => None,
        })
    }

    /// Gives an untyped expression a type.
    pub(super) fn adopt(&mut self, typed: Typed, to: ColType) -> Result<Option<Scalar>> {
        if typed.ty.is_some() {
            return Ok(Some(typed.scalar));
        }
        Ok(match typed.scalar {
            Scalar::Const(Value::Null) => Some(Scalar::Const(Value::Null)),
            Scalar::Const(Value::Text(text)) => {
                // These depend on the session's time zone and clock.
                if is_timed(to.kind) {
                    let text = Box::new(Scalar::Const(Value::Text(text)));
                    return Ok(Some(Scalar::Cast(text, to, CastMode::Assignment)));
                }
                Some(Scalar::Const(parse_text(&text, to, &FormatEnv::plain())?))
            }
            Scalar::Param(at) => {
                if let Some(slot @ None) = self.params.types.get_mut(at) {
                    *slot = Some(to.without_limit());
                }
                Some(Scalar::Param(at))
            }
            _ => None,
        })
    }

    pub(crate) fn bind(&mut self, expr: &Expr) -> Result<Option<Typed>> {
        let typed = |scalar, ty| Ok(Some(Typed { scalar, ty: Some(ty) }));
        match expr {
            Expr::Nested(inner) => self.bind(inner),
            Expr::Interval(interval) => self.bind(&interval_literal(interval)?),
            Expr::Identifier(ident) => {
                let name = ident_name(ident);
                match self.column(&name) {
                    Some(found) => Ok(Some(found)),
                    None if ident.quote_style.is_some() => Ok(None),
                    None => match name.as_str() {
                        "sysdate" => self.session(SessionFn::SystemDate, Vec::new()),
                        "systimestamp" => self.session(SessionFn::SystemTime, Vec::new()),
                        "current_schema" => self.session(SessionFn::CurrentSchema, Vec::new()),
                        "current_role" => self.session(SessionFn::CurrentUser, Vec::new()),
                        _ => Ok(None),
                    },
                }
            }
            Expr::CompoundIdentifier(parts) => {
                let parts: Vec<String> = parts.iter().map(ident_name).collect();
                self.compound(&parts)
            }
            Expr::Value(value) => self.literal(&value.value),
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
                if let Expr::Value(value) = &**expr
                    && let Literal::Number(digits, _) = &value.value
                {
                    let constant = |value, kind| {
                        let ty = Some(ColType::new(kind));
                        Ok(Some(Typed { scalar: Scalar::Const(value), ty }))
                    };
                    match digits.as_str() {
                        "2147483648" => return constant(Value::Int4(i32::MIN), TypeKind::Int4),
                        "9223372036854775808" => {
                            return constant(Value::Int8(i64::MIN), TypeKind::Int8);
                        }
                        _ => {}
                    }
                }
                let Some(inner) = self.bind(expr)? else { return Ok(None) };
                match inner.ty {
                    Some(ty) if common_number(ty.kind, ty.kind).is_some() => {
                        typed(fold(Scalar::Neg(Box::new(inner.scalar)))?, ty)
                    }
                    _ => Ok(None),
                }
            }
            Expr::UnaryOp { op: UnaryOperator::Plus, expr } => self.bind(expr),
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => match self.bind_condition(expr)? {
                Some(inner) => typed(Scalar::Not(Box::new(inner)), BOOL),
                None => Ok(None),
            },
            Expr::IsNull(inner) => match self.bind(inner)? {
                Some(inner) => typed(Scalar::IsNull(Box::new(inner.scalar)), BOOL),
                None => Ok(None),
            },
            Expr::IsNotNull(inner) => match self.bind(inner)? {
                Some(inner) => {
                    let null = Scalar::IsNull(Box::new(inner.scalar));
                    typed(Scalar::Not(Box::new(null)), BOOL)
                }
                None => Ok(None),
            },
            Expr::BinaryOp { left, op, right } => self.binary(left, op, right),
            Expr::Between { expr, negated: false, low, high } => {
                let low = self.comparison(CmpOp::Ge, expr, low)?;
                let high = self.comparison(CmpOp::Le, expr, high)?;
                match (low, high) {
                    (Some(low), Some(high)) => typed(Scalar::and(low, high), BOOL),
                    _ => Ok(None),
                }
            }
            Expr::InList { expr, list, negated: false } => self.in_list(expr, list),
            Expr::Cast {
                kind: CastKind::Cast | CastKind::DoubleColon,
                expr,
                data_type,
                array: false,
                format: None,
            } => self.cast(expr, data_type),
            Expr::Array(array) => self.array(&array.elem, None),
            Expr::TypedString(text) => self.cast(&Expr::Value(text.value.clone()), &text.data_type),
            Expr::Function(function) => self.function(function),
            other if let Some((name, args)) = written_call(other) => self.call_of(name, &args),
            _ => Ok(None),
        }
    }

    fn column(&self, name: &str) -> Option<Typed> {
        let (table, _) = self.table?;
        let at = table.columns.iter().position(|column| column.name == name)?;
        Some(Typed { scalar: Scalar::Column(at), ty: Some(table.columns[at].ty) })
    }

    fn compound(&mut self, parts: &[String]) -> Result<Option<Typed>> {
        match parts {
            [qualifier, name] if self.table.is_some_and(|(_, alias)| alias == qualifier) => {
                Ok(self.column(name))
            }
            [name @ .., last] if last == "nextval" || last == "currval" => {
                let call = if last == "nextval" { SessionFn::NextVal } else { SessionFn::CurrVal };
                let sequence = Scalar::Const(Value::Text(name.join(".").into()));
                self.session(call, vec![sequence])
            }
            _ => Ok(None),
        }
    }

    pub(super) fn session(
        &mut self,
        function: SessionFn,
        args: Vec<Scalar>,
    ) -> Result<Option<Typed>> {
        // With a row in sight a value for each row would be needed.
        if function.per_row() && self.table.is_some() {
            return Ok(None);
        }
        let at = self.params.add_hidden(HiddenCall { function, args });
        Ok(Some(Typed { scalar: Scalar::Param(at), ty: Some(function.result()) }))
    }

    fn literal(&mut self, value: &Literal) -> Result<Option<Typed>> {
        let known = |value: Value, kind| {
            Ok(Some(Typed { scalar: Scalar::Const(value), ty: Some(ColType::new(kind)) }))
        };
        let untyped = |value| Ok(Some(Typed { scalar: Scalar::Const(value), ty: None }));
        match value {
            Literal::Number(digits, _) => {
                if let Ok(v) = digits.parse::<i32>() {
                    return known(Value::Int4(v), TypeKind::Int4);
                }
                if let Ok(v) = digits.parse::<i64>() {
                    return known(Value::Int8(v), TypeKind::Int8);
                }
                match parse_numeric(digits) {
                    Ok((v, scale)) => known(Value::Numeric(v, scale), TypeKind::Numeric),
                    // So far beyond our numerics it can only be meant as double precision; what
                    // is written in full is not rounded to it.
                    Err(error) => match digits.parse::<f64>() {
                        Ok(v) if v.is_finite() && digits.contains(['e', 'E']) => {
                            known(Value::Float8(v), TypeKind::Float8)
                        }
                        _ => Err(error),
                    },
                }
            }
            Literal::Boolean(v) => known(Value::Bool(*v), TypeKind::Bool),
            Literal::Null => untyped(Value::Null),
            Literal::SingleQuotedString(text) | Literal::EscapedStringLiteral(text) => {
                untyped(Value::Text(text.as_str().into()))
            }
            Literal::DollarQuotedString(text) => untyped(Value::Text(text.value.as_str().into())),
            Literal::Placeholder(name) => {
                let at = placeholder_index(name)?;
                let hidden = at.checked_sub(self.params.types.len());
                let hidden = hidden.and_then(|at| self.params.hidden.get(at));
                let ty = match (self.params.types.get(at), hidden) {
                    (Some(ty), _) => *ty,
                    (None, Some(call)) => Some(call.function.result()),
                    (None, None) => return Ok(None),
                };
                Ok(Some(Typed { scalar: Scalar::Param(at), ty }))
            }
            _ => Ok(None),
        }
    }

    /// Two sides brought to types that go together; to be computed with, only numbers.
    fn pair(&mut self, left: &Expr, right: &Expr, numbers: bool) -> Result<Option<(Typed, Typed)>> {
        let (Some(mut a), Some(mut b)) = (self.bind(left)?, self.bind(right)?) else {
            return Ok(None);
        };
        // An untyped side has not the type of a date or a document beside it.
        let other =
            |typed: &Typed| typed.ty.is_some_and(|ty| common_number(ty.kind, ty.kind).is_none());
        if numbers && (other(&a) || other(&b)) {
            return Ok(None);
        }
        for _ in 0..2 {
            if a.ty.is_none()
                && let Some(ty) = b.ty
            {
                let ty = ty.without_limit();
                let Some(scalar) = self.adopt(a, ty)? else { return Ok(None) };
                a = Typed { scalar, ty: Some(ty) };
            }
            std::mem::swap(&mut a, &mut b);
        }
        Ok((a.ty.is_some() && b.ty.is_some()).then_some((a, b)))
    }

    fn comparison(&mut self, op: CmpOp, left: &Expr, right: &Expr) -> Result<Option<Scalar>> {
        let Some((a, b)) = self.pair(left, right, false)? else { return Ok(None) };
        let (Some(ta), Some(tb)) = (a.ty, b.ty) else { return Ok(None) };
        if ta.kind == TypeKind::Json {
            return Ok(None);
        }
        let alike = ta.kind == tb.kind
            && ta.element() == tb.element()
            && (ta.kind != TypeKind::Enum || ta == tb);
        let same = alike || (ta.kind.is_text() && tb.kind.is_text());
        if !same && common_number(ta.kind, tb.kind).is_none() {
            return Ok(None);
        }
        // Blanks at the end of char mean nothing, and are not stored; those of a text count.
        let trim = |this: Typed, own: ColType, other: ColType| {
            let stored = own.kind == TypeKind::Char && matches!(this.scalar, Scalar::Column(_));
            match other.kind == TypeKind::Char && own.kind != TypeKind::Text && !stored {
                true => without_blanks(this.scalar),
                false => this.scalar,
            }
        };
        Ok(Some(Scalar::compare(op, trim(a, ta, tb), trim(b, tb, ta))))
    }

    fn binary(&mut self, left: &Expr, op: &BinaryOperator, right: &Expr) -> Result<Option<Typed>> {
        let boolean = |scalar| Some(Typed { scalar, ty: Some(BOOL) });
        let compare = match op {
            BinaryOperator::Eq => CmpOp::Eq,
            BinaryOperator::NotEq => CmpOp::Ne,
            BinaryOperator::Lt => CmpOp::Lt,
            BinaryOperator::LtEq => CmpOp::Le,
            BinaryOperator::Gt => CmpOp::Gt,
            BinaryOperator::GtEq => CmpOp::Ge,
            BinaryOperator::And | BinaryOperator::Or => {
                let (a, b) = (self.bind_condition(left)?, self.bind_condition(right)?);
                let (Some(a), Some(b)) = (a, b) else { return Ok(None) };
                let sides = Box::new((a, b));
                let and = *op == BinaryOperator::And;
                return Ok(boolean(if and { Scalar::And(sides) } else { Scalar::Or(sides) }));
            }
            BinaryOperator::Plus => return self.arithmetic(Op::Add, left, right),
            BinaryOperator::Minus => return self.arithmetic(Op::Sub, left, right),
            BinaryOperator::Multiply => return self.arithmetic(Op::Mul, left, right),
            BinaryOperator::Divide => return self.arithmetic(Op::Div, left, right),
            BinaryOperator::Modulo => return self.arithmetic(Op::Mod, left, right),
            BinaryOperator::StringConcat => return self.concat(left, right),
            _ => return Ok(None),
        };
        Ok(self.comparison(compare, left, right)?.and_then(boolean))
    }

    fn arithmetic(&mut self, op: Op, left: &Expr, right: &Expr) -> Result<Option<Typed>> {
        let Some((a, b)) = self.pair(left, right, true)? else { return Ok(None) };
        let (Some(ta), Some(tb)) = (a.ty, b.ty) else { return Ok(None) };
        let Some(kind) = common_number(ta.kind, tb.kind) else { return Ok(None) };
        if op == Op::Mod && matches!(kind, TypeKind::Float4 | TypeKind::Float8) {
            return Ok(None);
        }
        let scalar = fold(Scalar::Arith(op, kind, Box::new((a.scalar, b.scalar))))?;
        Ok(Some(Typed { scalar, ty: Some(ColType::new(kind)) }))
    }

    fn concat(&mut self, left: &Expr, right: &Expr) -> Result<Option<Typed>> {
        let (left, right) = (part_of(left)?, part_of(right)?);
        let bound = (self.bind(left.0.as_ref())?, self.bind(right.0.as_ref())?);
        let (Some(a), Some(b)) = bound else { return Ok(None) };
        let text = ColType::new(TypeKind::Text);
        let is_text = |t: &Typed| t.ty.is_none_or(|ty| ty.kind.is_text());
        let (a, b) = (joined(a, left.1), joined(b, right.1));
        if (!is_text(&a) && !is_text(&b) && !left.1 && !right.1)
            || [&a, &b].iter().any(|t| {
                t.ty.is_some_and(|ty| {
                    matches!(ty.kind, TypeKind::Bytea | TypeKind::Jsonb | TypeKind::Array)
                })
            })
        {
            return Ok(None);
        }
        let (Some(a), Some(b)) = (self.adopt(a, text)?, self.adopt(b, text)?) else {
            return Ok(None);
        };
        let whole = |side, is_part: bool| match is_part {
            true => Scalar::Coalesce(vec![side, Scalar::Const(Value::Text("".into()))]),
            false => side,
        };
        let sides = (whole(a, left.1), whole(b, right.1));
        Ok(Some(Typed { scalar: Scalar::Concat(Box::new(sides)), ty: Some(text) }))
    }

    fn in_list(&mut self, expr: &Expr, list: &[Expr]) -> Result<Option<Typed>> {
        let Some(value) = self.bind(expr)? else { return Ok(None) };
        let Some(ty) = value.ty.filter(|ty| ty.kind != TypeKind::Json) else { return Ok(None) };
        let mut items = Vec::with_capacity(list.len());
        for item in list {
            let Some(mut item) = self.bind(item)? else { return Ok(None) };
            if let Some(other) = item.ty
                && (other.kind == TypeKind::Float4) != (ty.kind == TypeKind::Float4)
            {
                // A list has one type with what is looked for in it: real with whole numbers and
                // numerics, though an operator between the two would compare double precision.
                let Scalar::Const(value) = &item.scalar else { return Ok(None) };
                if ty.kind != TypeKind::Float4 || other.kind == TypeKind::Float8 {
                    return Ok(None);
                }
                let real = ColType::new(TypeKind::Float4);
                let value = cast(&value.as_datum(), real, CastMode::Explicit, &FormatEnv::plain())?;
                item = Typed { scalar: Scalar::Const(value), ty: Some(real) };
            }
            if let Some(other) = item.ty
                && other.kind != ty.kind
                && common_number(other.kind, ty.kind).is_none()
                && !(other.kind.is_text() && ty.kind.is_text())
            {
                return Ok(None);
            }
            let is_text = item.ty.is_some_and(|ty| ty.kind == TypeKind::Text);
            let is_literal = item.ty.is_none() && matches!(item.scalar, Scalar::Const(_));
            let Some(item) = self.adopt(item, ty.without_limit())? else { return Ok(None) };
            // Values are of the type of char beside them; a text alone is compared as a text, and
            // so is each that differs from row to row.
            if ty.kind != TypeKind::Char || is_literal || (list.len() == 1 && is_text) {
                items.push(item);
            } else if item.is_row_free() {
                items.push(without_blanks(item));
            } else {
                return Ok(None);
            }
        }
        let scalar = Scalar::In(Box::new(value.scalar), items);
        Ok(Some(Typed { scalar, ty: Some(BOOL) }))
    }

    fn cast(
        &mut self,
        inner: &Expr,
        data_type: &datafusion::sql::sqlparser::ast::DataType,
    ) -> Result<Option<Typed>> {
        if let datafusion::sql::sqlparser::ast::DataType::Custom(name, _) = data_type {
            let last = object_parts(name)?.pop().unwrap_or_default();
            if last.starts_with("reg") || last == "oid" || last == "name" || last == "char" {
                return Ok(None);
            }
        }
        if matches!(data_type, datafusion::sql::sqlparser::ast::DataType::Regclass) {
            return Ok(None);
        }
        let Some(ty) = col_type_of_sql(data_type)? else { return Ok(None) };
        if let (Expr::Array(array), Some(element)) = (inner, ty.element()) {
            return self.array(&array.elem, Some(element));
        }
        let Some(inner) = self.bind(inner)? else { return Ok(None) };
        let literal = inner.ty.is_none();
        let plain = ty.without_limit();
        let scalar = if literal && !matches!(inner.scalar, Scalar::Const(Value::Text(_))) {
            let Some(scalar) = self.adopt(inner, plain)? else { return Ok(None) };
            scalar
        } else {
            inner.scalar
        };
        let cast = Scalar::Cast(Box::new(scalar), ty, CastMode::Explicit);
        let scalar = if is_timed(ty.kind) { cast } else { fold(cast)? };
        Ok(Some(Typed { scalar, ty: Some(ty) }))
    }

    /// `ARRAY[...]` of constants; of the elements' type if none is asked for.
    fn array(&mut self, elements: &[Expr], wanted: Option<ColType>) -> Result<Option<Typed>> {
        let mut values = Vec::with_capacity(elements.len());
        let mut found: Option<ColType> = None;
        for one in elements {
            let Some(bound) = self.bind(one)? else { return Ok(None) };
            let Scalar::Const(value) = bound.scalar else { return Ok(None) };
            match (found, bound.ty) {
                (Some(kept), Some(ty)) if kept.kind != ty.kind => return Ok(None),
                (_, ty) => found = ty.or(found),
            }
            values.push(value);
        }
        let element = wanted.or(found).unwrap_or(ColType::new(TypeKind::Text)).without_limit();
        // Text of these is read by the session's clock and zone.
        if is_timed(element.kind) || (elements.is_empty() && wanted.is_none()) {
            return Ok(None);
        }
        let env = FormatEnv::plain();
        let cast =
            |value: &Value| query::cast::cast(&value.as_datum(), element, CastMode::Explicit, &env);
        let values = values.iter().map(cast).collect::<Result<Vec<Value>>>()?;
        let scalar = Scalar::Const(query::array::array_value(element, &values));
        Ok(Some(Typed { scalar, ty: Some(ColType::array_of(element.kind)) }))
    }

    fn function(
        &mut self,
        function: &datafusion::sql::sqlparser::ast::Function,
    ) -> Result<Option<Typed>> {
        let mut parts = object_parts(&function.name)?;
        if let Some((candidates, lazy)) = crate::routines::called_by(&parts) {
            // With a row in sight it may need a value for each row.
            return match lazy || self.table.is_some() {
                true => Ok(None),
                false => self.routine(&candidates, &plain_args(function)?),
            };
        }
        let name = parts.pop().unwrap_or_default();
        if let Some(of_text) = crate::idioms::of_lob(&parts, &name, function)? {
            return self.bind(&of_text);
        }
        if !(parts.is_empty() || parts == ["pg_catalog"]) {
            return Ok(None);
        }
        let text = |value: &str| {
            let scalar = Scalar::Const(Value::Text(value.into()));
            Ok(Some(Typed { scalar, ty: Some(ColType::new(TypeKind::Text)) }))
        };
        match name.as_str() {
            "version" => return text(crate::settings::VERSION_TEXT),
            "current_database" | "current_catalog" => return text("skein"),
            "coalesce" | "nvl" => return self.coalesce(&plain_args(function)?),
            NEXT_OF_ROW => return self.next_of_row(&plain_args(function)?),
            EXACT => return self.exact(&plain_args(function)?),
            query::SHORT => return self.short(&plain_args(function)?),
            // The planner's.
            DAY | query::PART => return Ok(None),
            _ => {}
        }
        if let Some(rounded) = rounded_now(&name, function)? {
            return self.bind(&rounded);
        }
        if name == "random" {
            return match plain_args(function).as_deref() {
                Ok([]) => self.session(SessionFn::Random, Vec::new()),
                _ => Ok(None),
            };
        }
        let Some(session) = session_function(&name) else { return self.call(&name, function) };
        let mut args = Vec::new();
        let given = plain_args(function)?;
        let unknown = session.argument(given.len());
        for arg in &given {
            let constants = ScalarBinder::constants(self.params);
            let Some(arg) = constants.bind_argument(arg, unknown)? else { return Ok(None) };
            args.push(arg);
        }
        self.session(session, args)
    }

    /// A function of numbers or texts.
    fn call(&mut self, name: &str, function: &ast::Function) -> Result<Option<Typed>> {
        let plain = function.over.is_none()
            && function.filter.is_none()
            && function.within_group.is_empty()
            && !function.uses_odbc_syntax;
        let ast::FunctionArguments::List(list) = &function.args else { return Ok(None) };
        if !plain || list.duplicate_treatment.is_some() || !list.clauses.is_empty() {
            return Ok(None);
        }
        // `count(*)` has none.
        let Ok(given) = plain_args(function) else { return Ok(None) };
        self.call_of(name, &given)
    }

    fn call_of(&mut self, name: &str, given: &[Expr]) -> Result<Option<Typed>> {
        // Templates that only the field has are a plan's.
        if let (FORMATTED, [_, mask]) = (name, given)
            && text_of(mask).is_some_and(is_of_field)
        {
            return Ok(None);
        }
        let mut bound = Vec::with_capacity(given.len());
        for arg in given {
            // An error in it is one only where the call is reached.
            let Ok(Some(arg)) = self.bind(arg) else { return Ok(None) };
            bound.push(arg);
        }
        let kinds: Vec<Option<TypeKind>> =
            bound.iter().map(|arg| arg.ty.map(|ty| ty.kind)).collect();
        // The blanks at the end of `char` are not stored, and may count.
        if kinds.contains(&Some(TypeKind::Char)) {
            return Ok(None);
        }
        let Some(called) = query::functions::by_row::called(name, &kinds) else { return Ok(None) };
        let mut args = Vec::with_capacity(bound.len());
        for (at, arg) in bound.into_iter().enumerate() {
            let Some(kind) = called.arg(at) else { return Ok(None) };
            let to = ColType::new(kind);
            let same = arg.ty.is_none_or(|ty| {
                ty.kind == kind
                    || (ty.kind.is_text() && kind.is_text() && ty.kind != TypeKind::Char)
            });
            // What a plan may take for another type is no error yet.
            let Ok(Some(scalar)) = self.adopt(arg, to) else { return Ok(None) };
            args.push(match same {
                true => scalar,
                false => Scalar::Cast(Box::new(scalar), to, CastMode::Explicit),
            });
        }
        let ty = Some(called.returns());
        let scalar = Scalar::Call(called, args);
        // An error is raised where the call is reached.
        let scalar = fold(scalar.clone()).unwrap_or(scalar);
        Ok(Some(Typed { scalar, ty }))
    }

    /// A value of a sequence, which all who say the same share.
    fn next_of_row(&mut self, args: &[Expr]) -> Result<Option<Typed>> {
        let mut bound = Vec::with_capacity(args.len());
        for arg in args {
            let Some(arg) = self.bind(arg)? else { return Ok(None) };
            bound.push(arg.scalar);
        }
        self.session(SessionFn::NextVal, bound)
    }

    /// A whole number as a numeric; other numbers as they are.
    fn exact(&mut self, args: &[Expr]) -> Result<Option<Typed>> {
        let [inner] = args else { return Ok(None) };
        let Some(inner) = self.bind(inner)? else { return Ok(None) };
        match inner.ty.map(|ty| ty.kind) {
            Some(TypeKind::Int2 | TypeKind::Int4 | TypeKind::Int8) => {
                let ty = ColType::new(TypeKind::Numeric);
                let cast = Scalar::Cast(Box::new(inner.scalar), ty, CastMode::Explicit);
                Ok(Some(Typed { scalar: fold(cast)?, ty: Some(ty) }))
            }
            Some(TypeKind::Numeric | TypeKind::Float4 | TypeKind::Float8) => Ok(Some(inner)),
            _ => Ok(None),
        }
    }

    /// A numeric without zeros at its end; anything else as it is.
    fn short(&mut self, args: &[Expr]) -> Result<Option<Typed>> {
        let [inner] = args else { return Ok(None) };
        let Some(inner) = self.bind(inner)? else { return Ok(None) };
        let numeric = TypeKind::Numeric;
        if inner.ty.map(|ty| ty.kind) != Some(numeric) {
            return Ok(Some(inner));
        }
        let called = query::functions::by_row::called(query::TRIMMED, &[Some(numeric)]);
        let Some(called) = called else { return Ok(None) };
        let scalar = Scalar::Call(called, vec![inner.scalar]);
        let scalar = fold(scalar.clone()).unwrap_or(scalar);
        Ok(Some(Typed { scalar, ty: Some(ColType::new(numeric)) }))
    }

    fn coalesce(&mut self, args: &[Expr]) -> Result<Option<Typed>> {
        let mut bound = Vec::with_capacity(args.len());
        for arg in args {
            let Some(one) = self.bind(arg)? else { return Ok(None) };
            bound.push(one);
        }
        let Some(ty) = bound.iter().find_map(|one| one.ty) else { return Ok(None) };
        let plain = ty.without_limit();
        let mut all = Vec::with_capacity(bound.len());
        for one in bound {
            if one.ty.is_some_and(|other| other.kind != ty.kind) {
                return Ok(None);
            }
            let Some(scalar) = self.adopt(one, plain)? else { return Ok(None) };
            all.push(scalar);
        }
        Ok(Some(Typed { scalar: Scalar::Coalesce(all), ty: Some(plain) }))
    }
}

/// Whether a value of one type may be stored in a column of another without a cast being written.
pub(crate) fn assignable(from: TypeKind, to: TypeKind) -> bool {
    let timed = |kind| matches!(kind, TypeKind::Date | TypeKind::Timestamp | TypeKind::Timestamptz);
    let other = matches!(
        (from, to),
        (TypeKind::Timestamp | TypeKind::Timestamptz | TypeKind::Interval, TypeKind::Time)
            | (TypeKind::Time, TypeKind::Interval)
            | (TypeKind::Json, TypeKind::Jsonb)
            | (TypeKind::Jsonb, TypeKind::Json)
    );
    let number = common_number(from, to).is_some();
    from == to || to.is_text() || number || (timed(from) && timed(to)) || other
}

/// Whether text of the type may speak of the clock or need a time zone.
pub(super) const fn is_timed(kind: TypeKind) -> bool {
    matches!(
        kind,
        TypeKind::Date
            | TypeKind::Timestamp
            | TypeKind::Timestamptz
            | TypeKind::Time
            | TypeKind::Array
    )
}

/// A value as one of char: without blanks at its end.
fn without_blanks(scalar: Scalar) -> Scalar {
    Scalar::Cast(Box::new(scalar), ColType::new(TypeKind::Char), CastMode::Explicit)
}

/// What a value may hold that is kept with its statement.
const FOLDED_BYTES_MAX: usize = 64 << 10;

/// Computes what depends on nothing, unless it is long.
/// A side of the field's `||` without what is around it, and whether there was that.
fn part_of(side: &Expr) -> Result<(Cow<'_, Expr>, bool)> {
    if let Expr::Function(function) = side
        && matches!(&object_parts(&function.name)?[..], [name] if name == query::PART)
        && let Ok([inner]) = <[Expr; 1]>::try_from(plain_args(function)?)
    {
        return Ok((Cow::Owned(inner), true));
    }
    Ok((Cow::Borrowed(side), false))
}

/// A side of `||`: a number that the field joins is written as it writes numbers.
fn joined(side: Typed, by_the_field: bool) -> Typed {
    let numeric = Some(TypeKind::Numeric);
    if !by_the_field || side.ty.map(|ty| ty.kind) != numeric {
        return side;
    }
    match query::functions::by_row::called(query::FIELD_TO_CHAR, &[numeric]) {
        Some(called) => {
            let scalar = Scalar::Call(called, vec![side.scalar]);
            let scalar = fold(scalar.clone()).unwrap_or(scalar);
            Typed { scalar, ty: Some(ColType::new(TypeKind::Text)) }
        }
        None => side,
    }
}

fn fold(scalar: Scalar) -> Result<Scalar> {
    let mut constant = true;
    scalar.walk(&mut |one| {
        constant &= !matches!(one, Scalar::Column(_) | Scalar::Param(_));
        if let Scalar::Cast(_, ty, _) = one {
            constant &= !is_timed(ty.kind) && !ty.kind.is_text();
        }
        if let Scalar::Call(called, _) = one {
            constant &= called.is_constant();
        }
    });
    if !constant {
        return Ok(scalar);
    }
    let env = FormatEnv { value_bytes: FOLDED_BYTES_MAX, ..FormatEnv::plain() };
    let cx = query::scalar::EvalContext { row: None, params: &[], env: &env };
    Ok(match scalar.eval(&cx).map(query::scalar::Val::into_value) {
        Ok(value) => Scalar::Const(value),
        Err(e) if e.code == "53200" => scalar,
        Err(e) => return Err(e),
    })
}
