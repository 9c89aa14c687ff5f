//! Functions with PostgreSQL's signatures: which form of a name a call means, and the values it is
//! called with.
//!
//! What it promises: a call is resolved as PostgreSQL resolves it (exact types first, then
//! preferred ones, untyped literals last), or is an error that names the function and its
//! arguments. What it must never do: choose another form when a plan is looked at again.

use super::categories::{Category, category, implicit, preferred};
use crate::arrow_rows::{ColumnReader, single_column};
use crate::cast::{CastMode, cast};
use crate::datetime::Zone;
use crate::error::{PgError, Result};
use crate::memory::Results;
use crate::types::{
    FREE_NUMERIC_SCALE, PgType, arrow_type, col_type_of, field_with_meta, pg_type_of_field,
};
use crate::wire::{FormatEnv, to_text};
use datafusion::arrow::array::{ArrayRef, ListArray};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use kernel::row::{ColType, Datum, TypeKind, Value};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// One value out of the values of a row.
pub(super) type One = fn(&[Datum<'_>]) -> Result<Value>;
/// Several values, or NULL: an array, or the rows of a set.
pub(super) type Many = fn(&[Datum<'_>]) -> Result<Option<Vec<Value>>>;

/// Several values that depend on the session's time zone.
pub(super) type Zoned = fn(&[Datum<'_>], &Zone) -> Result<Option<Vec<Value>>>;

/// One value that depends on the session's time zone.
pub(super) type In = fn(&[Datum<'_>], &Zone) -> Result<Value>;

/// Several arrays of values.
pub(super) type Nested = fn(&[Datum<'_>]) -> Result<Option<Vec<Vec<Value>>>>;

#[derive(Clone, Copy)]
pub(super) enum Body {
    One(One),
    In(In),
    Many(Many),
    Zoned(Zoned),
    Nested(Nested),
}

/// What an argument is declared as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Arg {
    Kind(TypeKind),
    Any,
}

/// Digits after the point of a numeric result; decimals have a fixed number of them in a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Scale {
    Fixed(u8),
    First,
    Largest,
    /// As many as the literal in the second place says.
    Digits,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Returns {
    Kind(TypeKind),
    Numeric(Scale),
    List(TypeKind),
    /// Arrays of texts.
    Nested,
}

/// One form of a function.
pub(super) struct Form {
    args: Vec<Arg>,
    /// The last argument may be given any number of times.
    variadic: bool,
    /// NULL for a NULL argument, without a call.
    pub(super) strict: bool,
    returns: Returns,
    pub(super) body: Body,
}

/// All forms of a name.
pub struct Typed {
    name: String,
    signature: Signature,
    forms: Vec<Form>,
    /// The field's beside those of PostgreSQL: tried where none of them fits.
    others: Vec<Form>,
    /// What conversions of the arguments depend on.
    env: FormatEnv,
}

/// A line of a table of functions: `name(type, ...) type`, and what computes it. A type of `any`
/// takes anything, `...` repeats the last argument, `?` before the result's type says that the
/// function is called with NULLs too; `[]` makes it an array. `+` before the name marks a form of
/// the field's, which is tried where none of PostgreSQL's fits.
pub(super) type Line = (&'static str, Body);

fn kind_of_name(name: &str) -> TypeKind {
    match name {
        "bool" => TypeKind::Bool,
        "int2" => TypeKind::Int2,
        "int4" => TypeKind::Int4,
        "int8" => TypeKind::Int8,
        "float4" => TypeKind::Float4,
        "float8" => TypeKind::Float8,
        "numeric" => TypeKind::Numeric,
        "bytea" => TypeKind::Bytea,
        "date" => TypeKind::Date,
        "timestamp" => TypeKind::Timestamp,
        "timestamptz" => TypeKind::Timestamptz,
        "interval" => TypeKind::Interval,
        "time" => TypeKind::Time,
        "uuid" => TypeKind::Uuid,
        "json" => TypeKind::Json,
        "jsonb" => TypeKind::Jsonb,
        other => {
            assert_eq!(other, "text", "a type in a table of functions");
            TypeKind::Text
        }
    }
}

fn form_of(line: &Line) -> (&'static str, Form) {
    let (text, body) = line;
    let (name, rest) = text.split_once('(').expect("a signature has arguments");
    let (args, returns) = rest.split_once(')').expect("a signature has arguments");
    let variadic = args.ends_with("...");
    let args = args
        .trim_end_matches("...")
        .split(',')
        .map(str::trim)
        .filter(|arg| !arg.is_empty())
        .map(|arg| if arg == "any" { Arg::Any } else { Arg::Kind(kind_of_name(arg)) })
        .collect();
    let returns = returns.trim();
    let strict = !returns.starts_with('?');
    let returns = match returns.trim_start_matches('?').trim() {
        "numeric:first" => Returns::Numeric(Scale::First),
        "numeric:max" => Returns::Numeric(Scale::Largest),
        "numeric:digits" => Returns::Numeric(Scale::Digits),
        "numeric:0" => Returns::Numeric(Scale::Fixed(0)),
        "numeric:15" => Returns::Numeric(Scale::Fixed(FREE_NUMERIC_SCALE)),
        "numeric:16" => Returns::Numeric(Scale::Fixed(16)),
        "text[][]" => Returns::Nested,
        other => match other.strip_suffix("[]") {
            Some(element) => Returns::List(kind_of_name(element)),
            None => Returns::Kind(kind_of_name(other)),
        },
    };
    (name, Form { args, variadic, strict, returns, body: *body })
}

/// The forms of such a table.
pub(super) fn forms_of(lines: &[Line]) -> Vec<(&'static str, Form)> {
    lines.iter().map(form_of).collect()
}

/// The functions of such a table, its lines with the same name together.
pub(super) fn functions(lines: &[Line], env: FormatEnv) -> Vec<Typed> {
    let mut all: Vec<Typed> = Vec::new();
    for line in lines {
        let (name, form) = form_of(line);
        let (name, other) = match name.strip_prefix('+') {
            Some(name) => (name, true),
            None => (name, false),
        };
        let at = all.iter().position(|typed| typed.name == name).unwrap_or_else(|| {
            all.push(Typed::new(name, Vec::new(), env));
            all.len() - 1
        });
        let forms = if other { &mut all[at].others } else { &mut all[at].forms };
        forms.push(form);
    }
    all
}

/// A function of this name that has no form: every call of it is the error it should be.
#[must_use]
pub fn missing(name: &str) -> Arc<ScalarUDF> {
    Typed::new(name, Vec::new(), FormatEnv::plain()).into_udf()
}

impl Form {
    /// The one form that a call with arguments of these types means.
    pub(super) fn chosen<'f>(
        forms: &'f [Form],
        others: &'f [Form],
        given: &[Option<TypeKind>],
    ) -> Option<&'f Form> {
        let mut found = select(forms, given);
        if found.is_empty() {
            found = select(others, given);
        }
        match found[..] {
            [form] => Some(form),
            _ => None,
        }
    }

    /// Whether it gives one value, which a plan leaves as it is, for arguments of known types.
    pub(super) fn is_by_row(&self) -> bool {
        let returns = match self.returns {
            Returns::Kind(kind) => kind != TypeKind::Numeric,
            Returns::Numeric(scale) => {
                matches!(scale, Scale::First | Scale::Largest | Scale::Digits | Scale::Fixed(0))
            }
            Returns::List(_) | Returns::Nested => false,
        };
        returns
            && matches!(self.body, Body::One(_) | Body::In(_))
            && self.args.iter().all(|arg| matches!(arg, Arg::Kind(_)))
    }

    /// Whether a numeric can have as many digits behind the point as a call asks for.
    pub(super) fn check_digits(&self, name: &str, args: &[Datum<'_>]) -> Result<()> {
        match (self.returns, args.get(1)) {
            (Returns::Numeric(Scale::Digits), Some(Datum::Int4(digits)))
                if i64::from(*digits) > DIGITS_MAX =>
            {
                Err(too_many_digits(name))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn kind_of_result(&self) -> ColType {
        ColType::new(match self.returns {
            Returns::Kind(kind) | Returns::List(kind) => kind,
            Returns::Numeric(_) => TypeKind::Numeric,
            Returns::Nested => TypeKind::Text,
        })
    }

    pub(super) fn kind_of_arg(&self, at: usize) -> Option<TypeKind> {
        match self.arg(at) {
            Some(Arg::Kind(kind)) => Some(kind),
            _ => None,
        }
    }

    fn arg(&self, at: usize) -> Option<Arg> {
        match self.args.get(at) {
            Some(arg) => Some(*arg),
            None if self.variadic => self.args.last().copied(),
            None => None,
        }
    }

    fn takes(&self, given: &[Option<TypeKind>]) -> bool {
        let fits = |(at, kind): (usize, &Option<TypeKind>)| match (self.arg(at), kind) {
            (Some(Arg::Kind(to)), Some(from)) => implicit(*from, to),
            (Some(_), _) => true,
            (None, _) => false,
        };
        given.len() >= self.args.len() && given.iter().enumerate().all(fits)
    }

    fn count(
        &self,
        given: &[Option<TypeKind>],
        what: impl Fn(TypeKind, TypeKind) -> bool,
    ) -> usize {
        let counts = |(at, kind): (usize, &Option<TypeKind>)| match (self.arg(at), kind) {
            (Some(Arg::Kind(to)), Some(from)) => what(*from, to),
            _ => false,
        };
        given.iter().enumerate().filter(|one| counts(*one)).count()
    }
}

/// The form of an operator one of whose sides has no type: that of the other is tried first.
fn operator<'f>(forms: &'f [Form], given: &[Option<TypeKind>]) -> Option<&'f Form> {
    let ((Some(kind), None) | (None, Some(kind))) = (*given.first()?, *given.get(1)?) else {
        return None;
    };
    let exact = |form: &&Form| form.args == [Arg::Kind(kind), Arg::Kind(kind)];
    forms.iter().find(exact).filter(|_| given.len() == 2)
}

/// The steps of PostgreSQL's `func_select_candidate`.
fn select<'f>(forms: &'f [Form], given: &[Option<TypeKind>]) -> Vec<&'f Form> {
    let mut left: Vec<&Form> = forms.iter().filter(|form| form.takes(given)).collect();
    let keep_best = |left: &mut Vec<&'f Form>, score: &dyn Fn(&Form) -> usize| {
        let best = left.iter().map(|form| score(form)).max().unwrap_or(0);
        left.retain(|form| score(form) == best);
    };
    keep_best(&mut left, &|form| form.count(given, |from, to| from == to));
    keep_best(&mut left, &|form| {
        form.count(given, |from, to| {
            from == to || (preferred(to) && category(from) == category(to))
        })
    });
    if left.len() < 2 {
        return left;
    }
    for at in (0..given.len()).filter(|at| given[*at].is_none()) {
        let kinds: Vec<TypeKind> = left
            .iter()
            .filter_map(|form| match form.arg(at) {
                Some(Arg::Kind(kind)) => Some(kind),
                _ => None,
            })
            .collect();
        let Some(first) = kinds.first().map(|kind| category(*kind)) else { continue };
        let wanted = if kinds.iter().any(|kind| category(*kind) == Category::String) {
            Category::String
        } else if kinds.iter().all(|kind| category(*kind) == first) {
            first
        } else {
            continue;
        };
        let best = kinds.iter().any(|kind| category(*kind) == wanted && preferred(*kind));
        left.retain(|form| match form.arg(at) {
            Some(Arg::Kind(kind)) => category(kind) == wanted && (!best || preferred(kind)),
            _ => false,
        });
    }
    // Untyped arguments are taken for what the typed ones are.
    let mut known = given.iter().flatten();
    if left.len() > 1
        && let Some(first) = known.next()
        && known.all(|kind| kind == first)
    {
        let same: Vec<Option<TypeKind>> = vec![Some(*first); given.len()];
        let fitting: Vec<&Form> = left.iter().copied().filter(|form| form.takes(&same)).collect();
        if fitting.len() == 1 {
            return fitting;
        }
    }
    left
}

/// The kind of an argument; `None` for a literal or parameter without a type.
fn given_kind(field: &Field, literal: Option<&ScalarValue>) -> Option<TypeKind> {
    match (field.data_type(), literal) {
        (DataType::Null, _) | (_, Some(ScalarValue::Utf8(_) | ScalarValue::Null)) => None,
        (ty, _) => col_type_of(ty).map(|ty| ty.kind).or(Some(TypeKind::Json)),
    }
}

fn shown_type(field: &Field, literal: Option<&ScalarValue>) -> String {
    match given_kind(field, literal) {
        None => "unknown".to_owned(),
        Some(_) => super::format_type(i64::from(pg_type_of_field(field).oid), -1),
    }
}

const NO_MATCH: &str = "No function matches the given name and argument types. You might need to \
                        add explicit type casts.";
const AMBIGUOUS: &str =
    "Could not choose a best candidate function. You might need to add explicit type casts.";

impl Typed {
    fn new(name: &str, forms: Vec<Form>, env: FormatEnv) -> Typed {
        let signature = Signature::one_of(
            vec![
                datafusion::logical_expr::TypeSignature::Nullary,
                datafusion::logical_expr::TypeSignature::VariadicAny,
            ],
            if name == "random" { Volatility::Volatile } else { Volatility::Immutable },
        );
        Typed { name: name.to_owned(), signature, forms, others: Vec::new(), env }
    }

    #[must_use]
    pub fn into_udf(self) -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::new_from_impl(self))
    }

    /// Whether a form of it gives as many digits as an argument says.
    pub(super) fn takes_digits(&self) -> bool {
        let digits = Returns::Numeric(Scale::Digits);
        self.forms.iter().chain(&self.others).any(|form| form.returns == digits)
    }

    /// Its name in SQL.
    #[must_use]
    pub fn sql_name(&self) -> &str {
        &self.name
    }

    fn form(&self, fields: &[FieldRef], literals: &[Option<&ScalarValue>]) -> Result<&Form> {
        let literal = |at: usize| literals.get(at).copied().flatten();
        let mut given: Vec<Option<TypeKind>> =
            fields.iter().enumerate().map(|(at, field)| given_kind(field, literal(at))).collect();
        // The digits to keep are a plain literal, which the library takes for a bigint.
        let rounds = matches!(self.name.as_str(), "round" | "trunc");
        if let Some(digits @ Some(TypeKind::Int8)) = given.get_mut(1)
            && rounds
            && literal(1).is_some()
        {
            *digits = Some(TypeKind::Int4);
        }
        if self.name.starts_with('$')
            && let Some(form) = operator(&self.forms, &given)
        {
            return Ok(form);
        }
        let mut found = select(&self.forms, &given);
        if found.is_empty() {
            found = select(&self.others, &given);
        }
        if let [form] = found[..] {
            return Ok(form);
        }
        let mut types: Vec<String> =
            fields.iter().enumerate().map(|(at, field)| shown_type(field, literal(at))).collect();
        if rounds && types.len() == 2 && given[1] == Some(TypeKind::Int4) {
            types[1] = "integer".to_owned();
        }
        let call = format!("{}({})", self.name.trim_start_matches('$'), types.join(", "));
        let operator = self.name.strip_prefix('$').and_then(super::operators::symbol);
        Err(match (operator, &types[..]) {
            (Some(symbol), [left, right]) => {
                let call = format!("{left} {symbol} {right}");
                PgError::new("42883", format!("operator does not exist: {call}"))
                    .with_hint(super::operators::NO_OPERATOR)
            }
            (Some(symbol), [one]) => {
                PgError::new("42883", format!("operator does not exist: {symbol} {one}"))
                    .with_hint(super::operators::NO_OPERATOR)
            }
            _ if found.is_empty() => {
                PgError::new("42883", format!("function {call} does not exist")).with_hint(NO_MATCH)
            }
            _ => {
                PgError::new("42725", format!("function {call} is not unique")).with_hint(AMBIGUOUS)
            }
        })
    }

    /// The types that untyped parameters among the arguments take.
    #[must_use]
    pub fn parameter_types(&self, fields: &[FieldRef]) -> Vec<Option<TypeKind>> {
        let Ok(form) = self.form(fields, &[]) else { return Vec::new() };
        (0..fields.len())
            .map(|at| match form.arg(at) {
                Some(Arg::Kind(kind)) => Some(kind),
                _ => None,
            })
            .collect()
    }

    /// The value of a call with these constants, where the result is numeric: its digits are then
    /// those of PostgreSQL. `None` where there is no such form.
    ///
    /// # Errors
    /// Those of the function.
    pub fn numeric_constant(&self, args: &[(Value, Option<TypeKind>)]) -> Result<Option<Value>> {
        let given: Vec<Option<TypeKind>> = args.iter().map(|(_, kind)| *kind).collect();
        let found = select(&self.forms, &given);
        let [form] = found[..] else { return Ok(None) };
        let (Returns::Numeric(_), Body::One(body)) = (form.returns, form.body) else {
            return Ok(None);
        };
        let mut values = Vec::with_capacity(args.len());
        for (at, (value, _)) in args.iter().enumerate() {
            if *value == Value::Null {
                return Ok(None);
            }
            values.push(match form.arg(at) {
                Some(Arg::Kind(to)) => coerced(&value.as_datum(), to, &self.env)?,
                _ => value.clone(),
            });
        }
        let datums: Vec<Datum<'_>> = values.iter().map(Value::as_datum).collect();
        body(&datums).map(Some)
    }
}

fn coerced(datum: &Datum<'_>, to: TypeKind, env: &FormatEnv) -> Result<Value> {
    cast(datum, ColType::new(to), CastMode::Explicit, env)
}

/// A value for an argument of any type: what the session's time zone shows otherwise is text.
fn shown_in(datum: &Datum<'_>, env: &FormatEnv) -> Option<Value> {
    match datum {
        Datum::Timestamptz(_) | Datum::Array(_) | Datum::Enum(_) => {
            Some(Value::Text(to_text(datum, env).into()))
        }
        _ => None,
    }
}

fn has_kind(datum: &Datum<'_>, kind: TypeKind) -> bool {
    match datum {
        Datum::Null => true,
        Datum::Bool(_) => kind == TypeKind::Bool,
        Datum::Int2(_) => kind == TypeKind::Int2,
        Datum::Int4(_) => kind == TypeKind::Int4,
        Datum::Int8(_) => kind == TypeKind::Int8,
        Datum::Float4(_) => kind == TypeKind::Float4,
        Datum::Float8(_) => kind == TypeKind::Float8,
        Datum::Numeric(..) => kind == TypeKind::Numeric,
        Datum::Text(_) => kind.is_text(),
        Datum::Bytea(_) => kind == TypeKind::Bytea,
        Datum::Date(_) => kind == TypeKind::Date,
        Datum::Timestamp(_) => kind == TypeKind::Timestamp,
        Datum::Timestamptz(_) => kind == TypeKind::Timestamptz,
        Datum::Uuid(_) => kind == TypeKind::Uuid,
        Datum::Time(_) => kind == TypeKind::Time,
        Datum::Interval(_) => kind == TypeKind::Interval,
        Datum::Array(_) => kind == TypeKind::Array,
        Datum::Enum(_) => kind == TypeKind::Enum,
        _ => false,
    }
}

fn scale_of(field: &Field) -> u8 {
    match field.data_type() {
        DataType::Decimal128(_, scale) => u8::try_from(*scale).unwrap_or(0),
        _ => 0,
    }
}

/// Digits after the point that a numeric can have beside one before it.
const DIGITS_MAX: i64 = 37;

fn too_many_digits(name: &str) -> PgError {
    PgError::unsupported(format!("{name} to more than {DIGITS_MAX} digits after the point"))
}

fn numeric_scale(
    scale: Scale,
    name: &str,
    fields: &[FieldRef],
    literals: &[Option<&ScalarValue>],
) -> Result<u8> {
    Ok(match scale {
        Scale::Fixed(scale) => scale,
        Scale::First => fields.first().map_or(0, |field| scale_of(field)),
        Scale::Largest => fields.iter().map(|field| scale_of(field)).max().unwrap_or(0),
        Scale::Digits => {
            let digits = match literals.get(1).copied().flatten() {
                Some(ScalarValue::Int16(Some(v))) => i64::from(*v),
                Some(ScalarValue::Int32(Some(v))) => i64::from(*v),
                Some(ScalarValue::Int64(Some(v))) => *v,
                _ => {
                    return Err(PgError::unsupported(format!(
                        "{name} to a number of digits that is not a literal"
                    )));
                }
            };
            if digits > DIGITS_MAX {
                return Err(too_many_digits(name));
            }
            u8::try_from(digits.max(0)).unwrap_or(0)
        }
    })
}

impl std::fmt::Debug for Typed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Typed").field("name", &self.name).finish_non_exhaustive()
    }
}

impl PartialEq for Typed {
    fn eq(&self, other: &Typed) -> bool {
        self.name == other.name
    }
}

impl Eq for Typed {}

impl Hash for Typed {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Typed {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn schema_name(&self, args: &[Expr]) -> DfResult<String> {
        super::names::of_call(&self.name, args)
    }

    fn return_type(&self, _types: &[DataType]) -> DfResult<DataType> {
        Err(PgError::internal("a function's type without its arguments").into())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        crate::interruptible::check()?;
        let form = self.form(args.arg_fields, args.scalar_arguments)?;
        let shown = |kind| PgType::of(ColType::new(kind));
        Ok(Arc::new(match form.returns {
            Returns::Kind(kind) => {
                field_with_meta(&self.name, arrow_type(ColType::new(kind)), shown(kind))
            }
            Returns::Numeric(scale) => {
                let scale =
                    numeric_scale(scale, &self.name, args.arg_fields, args.scalar_arguments)?;
                let ty = DataType::Decimal128(38, scale.cast_signed());
                field_with_meta(&self.name, ty, shown(TypeKind::Numeric))
            }
            Returns::List(TypeKind::Numeric) => {
                let scale = args.arg_fields.iter().map(|field| scale_of(field)).max();
                let item = DataType::Decimal128(38, scale.unwrap_or(0).cast_signed());
                Field::new(&self.name, list_of(item), true)
            }
            Returns::List(kind) => Field::new(&self.name, list_type(kind), true),
            Returns::Nested => Field::new(&self.name, list_of(list_type(TypeKind::Text)), true),
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let constant = !args.args.is_empty()
            && args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let literals: Vec<Option<&ScalarValue>> = args
            .args
            .iter()
            .map(|arg| match arg {
                ColumnarValue::Scalar(value) => Some(value),
                ColumnarValue::Array(_) => None,
            })
            .collect();
        let form = self.form(&args.arg_fields, &literals)?;
        let mut readers = Vec::with_capacity(args.args.len());
        for (at, (arg, field)) in args.args.iter().zip(&args.arg_fields).enumerate() {
            // What is the same for all rows is there once: it may be long.
            let once = matches!(arg, ColumnarValue::Scalar(_));
            let array = arg.to_array(if once { 1 } else { rows })?;
            let to = match form.arg(at) {
                Some(Arg::Kind(kind)) => Some(kind),
                _ => None,
            };
            readers.push(Argument { reader: ColumnReader::new(&array, field)?, once, to });
        }
        crate::interruptible::check()?;
        let array = call_rows(form, &readers, rows, args.return_field.data_type(), &self.env)?;
        Ok(if constant {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?)
        } else {
            ColumnarValue::Array(array)
        })
    }
}

fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("item", item, true)))
}

fn list_type(kind: TypeKind) -> DataType {
    list_of(arrow_type(ColType::new(kind)))
}

/// A list of these lengths over an array of all their items; `None` is NULL.
fn list(arrow: &DataType, lengths: &[Option<usize>], items: ArrayRef) -> Result<ArrayRef> {
    let DataType::List(item) = arrow else {
        return Err(PgError::internal("an array of another type"));
    };
    let offsets = OffsetBuffer::from_lengths(lengths.iter().map(|n| n.unwrap_or(0)));
    let nulls = NullBuffer::from_iter(lengths.iter().map(Option::is_some));
    Ok(Arc::new(ListArray::try_new(item.clone(), offsets, items, Some(nulls))?))
}

/// An argument of a call for many rows.
struct Argument {
    reader: ColumnReader,
    /// There is one value for all rows.
    once: bool,
    to: Option<TypeKind>,
}

impl Argument {
    fn get(&self, row: usize) -> Datum<'_> {
        self.reader.get(if self.once { 0 } else { row })
    }
}

fn call_rows(
    form: &Form,
    readers: &[Argument],
    rows: usize,
    arrow: &DataType,
    env: &FormatEnv,
) -> Result<ArrayRef> {
    let mut out = Vec::with_capacity(rows);
    let mut results = Results::default();
    let (mut lengths, mut inner) = (Vec::new(), Vec::new());
    for row in 0..rows {
        let datums: Vec<Datum<'_>> = readers.iter().map(|one| one.get(row)).collect();
        let null = form.strict && datums.iter().any(Datum::is_null);
        let owned = datums
            .iter()
            .zip(readers)
            .map(|(datum, Argument { to, .. })| match to {
                Some(to) if !null && !has_kind(datum, *to) => coerced(datum, *to, env).map(Some),
                Some(_) => Ok(None),
                None => Ok(shown_in(datum, env)),
            })
            .collect::<Result<Vec<Option<Value>>>>()?;
        let values: Vec<Datum<'_>> = datums
            .iter()
            .zip(&owned)
            .map(|(datum, own)| own.as_ref().map_or(*datum, Value::as_datum))
            .collect();
        match form.body {
            Body::One(_) | Body::In(_) if null => out.push(Value::Null),
            Body::One(body) => out.push(results.counted(body(&values)?)?),
            Body::In(body) => out.push(results.counted(body(&values, &env.zone)?)?),
            Body::Many(_) | Body::Zoned(_) => {
                let items = match form.body {
                    _ if null => None,
                    Body::Zoned(body) => body(&values, &env.zone)?,
                    Body::Many(body) => body(&values)?,
                    _ => None,
                };
                lengths.push(items.as_ref().map(Vec::len));
                for item in items.into_iter().flatten() {
                    out.push(results.counted(item)?);
                }
            }
            Body::Nested(body) => {
                let items = if null { None } else { body(&values)? };
                lengths.push(items.as_ref().map(Vec::len));
                for item in items.into_iter().flatten() {
                    inner.push(Some(item.len()));
                    out.extend(item);
                }
            }
        }
    }
    match (form.returns, arrow) {
        (Returns::Nested, DataType::List(item)) => {
            let texts = single_column(ColType::new(TypeKind::Text), &DataType::Utf8, &out)?;
            list(arrow, &lengths, list(item.data_type(), &inner, texts)?)
        }
        (Returns::List(kind), DataType::List(item)) => {
            list(arrow, &lengths, single_column(ColType::new(kind), item.data_type(), &out)?)
        }
        (Returns::Kind(kind), _) => single_column(ColType::new(kind), arrow, &out),
        _ => single_column(ColType::new(TypeKind::Numeric), arrow, &out),
    }
}
