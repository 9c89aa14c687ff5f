//! Functions that DataFusion lacks or has with other rules: PostgreSQL's arithmetic and casts, and
//! the functions that
//! clients call on the catalog.
//!
//! They work row by row on values; that is fast enough for what they are, and their rules are
//! written once, in
//! [`crate::arith`] and [`crate::cast`]. What they must never do: depend on the session (such
//! values arrive as
//! parameters), but for its time zone, for which a plan is made.

mod alike;
mod binary;
pub mod by_row;
mod categories;
mod coalesce;
mod field;
mod field_dates;
mod field_intervals;
mod format;
mod formatting;
mod hash;
mod json_sets;
mod keywords;
mod math;
mod names;
mod operators;
mod overlaps;
mod patterns;
mod regex;
mod regex_syntax;
mod series;
mod short;
mod strings;
mod transcendental;
mod typed;

pub use alike::alike;
pub use coalesce::coalesce;
pub use field::{FIELD_SUBSTR, FIELD_TO_CHAR, FROM_HEX, PART, TO_HEX, number_text};
pub use field_dates::MINUS as FIELD_MINUS;
pub(crate) use field_dates::moved_by_days;
pub use formatting::{FIELD_TO_NUMBER, FIELD_TO_TIMESTAMP, TO_DATETIME, is_hexadecimal, template};
pub use json_sets::{gives_json_set, json_set};
pub(crate) use operators::symbol;
pub use series::set_function;
pub(crate) use short::short;
pub use short::{SHORT, TRIMMED};
pub use strings::RANDOM_STRING;
pub use typed::{Typed, missing};

use crate::arith::{self, Op};
use crate::arrow_rows::{ColumnReader, single_column};
use crate::cast::{CastMode, cast, to_numeric};
use crate::error::{PgError, Result};
use crate::memory::Results;
use crate::rows::{Form, holds_rows, written};
use crate::scalar::arithmetic;
use crate::types::{PgType, arrow_type, col_type_of, field_with_meta};
use crate::wire::FormatEnv;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};
use kernel::row::{ColType, Datum, TypeKind, Value};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a function does with the values of one row.
pub type RowFn = dyn Fn(&[Datum<'_>]) -> Result<Value> + Send + Sync;

/// The type of a result that depends on the arguments: their fields, and their values where they
/// are constants.
pub type ReturnsFn = fn(&[FieldRef], &[Option<&ScalarValue>]) -> Result<ColType>;

/// A function evaluated row by row.
pub struct RowFunction {
    name: String,
    signature: Signature,
    returns: ColType,
    arrow: DataType,
    /// What clients are told the type is.
    shown: PgType,
    returns_by: Option<ReturnsFn>,
    /// NULL for a NULL argument, without a call.
    strict: bool,
    /// How rows among the arguments are given to it; `None`: it takes none.
    rows: Option<(Form, FormatEnv)>,
    /// Whether it knows what was true when the plan was made.
    for_one_plan: bool,
    eval: Box<RowFn>,
}

impl RowFunction {
    /// A function of any arguments.
    #[must_use]
    pub fn new(
        name: &str,
        arg_count: Option<usize>,
        returns: ColType,
        strict: bool,
        eval: impl Fn(&[Datum<'_>]) -> Result<Value> + Send + Sync + 'static,
    ) -> RowFunction {
        let signature = match arg_count {
            Some(0) => Signature::nullary(Volatility::Immutable),
            Some(count) => Signature::any(count, Volatility::Immutable),
            None => Signature::one_of(
                vec![TypeSignature::Nullary, TypeSignature::VariadicAny],
                Volatility::Immutable,
            ),
        };
        RowFunction {
            name: name.to_owned(),
            signature,
            returns,
            arrow: arrow_type(returns),
            shown: PgType::of(returns),
            returns_by: None,
            strict,
            rows: None,
            for_one_plan: false,
            eval: Box::new(eval),
        }
    }

    /// With arguments of exactly these types.
    #[must_use]
    pub fn with_types(mut self, types: Vec<DataType>) -> RowFunction {
        self.signature = Signature::exact(types, Volatility::Immutable);
        self
    }

    /// With a result whose type follows from the arguments.
    #[must_use]
    pub fn returning(mut self, by: ReturnsFn) -> RowFunction {
        self.returns_by = Some(by);
        self
    }

    /// With arguments that may be rows: it is given them in this form.
    #[must_use]
    pub(crate) const fn taking_rows(mut self, form: Form, env: FormatEnv) -> RowFunction {
        self.rows = Some((form, env));
        self
    }

    /// A result that clients see as this type.
    #[must_use]
    pub const fn shown_as(mut self, type_oid: u32) -> RowFunction {
        self.shown = PgType::new(type_oid);
        self
    }

    /// One that knows what was true when the plan was made, which serves no other execution then.
    #[must_use]
    pub const fn for_one_plan(mut self) -> RowFunction {
        self.for_one_plan = true;
        self
    }

    /// A decimal result of exactly this type.
    #[must_use]
    pub fn with_arrow(mut self, arrow: DataType) -> RowFunction {
        self.arrow = arrow;
        self
    }

    #[must_use]
    pub fn into_udf(self) -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::new_from_impl(self))
    }

    /// The value for the values of one row.
    ///
    /// # Errors
    /// The function's.
    fn of_row(&self, args: &[Datum<'_>]) -> Result<Value> {
        match self.strict && args.iter().any(Datum::is_null) {
            true => Ok(Value::Null),
            false => (self.eval)(args),
        }
    }

    /// Type of a call of such a function, if it is known without a look at the arguments.
    pub(crate) fn type_of(call: &ScalarFunction) -> Option<DataType> {
        let function = call.func.inner().downcast_ref::<RowFunction>()?;
        function.returns_by.is_none().then(|| function.arrow.clone())
    }
}

/// Whether the type of what a function gives depends on values of its arguments, not only on their
/// types.
pub(crate) fn takes_type_from_values(function: &ScalarUDF) -> bool {
    let inner = function.inner();
    match inner.downcast_ref::<RowFunction>() {
        Some(function) => function.returns_by.is_some(),
        None => inner.downcast_ref::<Typed>().is_some_and(Typed::takes_digits),
    }
}

/// Whether a function knows what was true when the plan was made.
pub(crate) fn is_for_one_plan(function: &ScalarUDF) -> bool {
    function.inner().downcast_ref::<RowFunction>().is_some_and(|function| function.for_one_plan)
}

/// A function of a plan that is called on the values of one row.
#[derive(Clone)]
pub struct RowCall(Arc<ScalarUDF>);

impl RowCall {
    /// The function of a call whose result depends on nothing but its arguments, of these types,
    /// with the type of what it gives; `None`: it is another, or that is not known here.
    pub(crate) fn of(
        call: &ScalarFunction,
        args: &[Option<TypeKind>],
    ) -> Option<(RowCall, ColType)> {
        let function = call.func.inner().downcast_ref::<RowFunction>()?;
        if function.signature.volatility != Volatility::Immutable || function.rows.is_some() {
            return None;
        }
        let returns = match function.returns_by {
            None => function.returns,
            Some(by) => {
                let field = |kind: TypeKind| Arc::new(Field::new("", arrow_type(ty(kind)), true));
                let fields: Vec<FieldRef> =
                    args.iter().map(|kind| kind.map(field)).collect::<Option<_>>()?;
                by(&fields, &vec![None; fields.len()]).ok()?
            }
        };
        Some((RowCall(call.func.clone()), returns))
    }

    pub(crate) fn name(&self) -> &str {
        self.0.name()
    }

    /// # Errors
    /// The function's.
    pub(crate) fn call(&self, args: &[Datum<'_>]) -> Result<Value> {
        match self.0.inner().downcast_ref::<RowFunction>() {
            Some(function) => function.of_row(args),
            None => Err(PgError::internal("a call of another kind of function")),
        }
    }
}

impl PartialEq for RowCall {
    fn eq(&self, other: &RowCall) -> bool {
        self.0 == other.0
    }
}

impl fmt::Debug for RowCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for RowFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowFunction").field("name", &self.name).finish_non_exhaustive()
    }
}

impl PartialEq for RowFunction {
    fn eq(&self, other: &RowFunction) -> bool {
        self.name == other.name && self.arrow == other.arrow
    }
}

impl Eq for RowFunction {}

impl Hash for RowFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for RowFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn schema_name(&self, args: &[Expr]) -> DfResult<String> {
        names::of_call(&self.name, args)
    }

    fn return_type(&self, _types: &[DataType]) -> DfResult<DataType> {
        Ok(self.arrow.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        crate::interruptible::check()?;
        if self.rows.is_none() && args.arg_fields.iter().any(|arg| holds_rows(arg.data_type())) {
            let what = format!("a row as an argument of {}", self.name);
            return Err(PgError::unsupported(what).into());
        }
        if let Some(by) = self.returns_by {
            let ty = by(args.arg_fields, args.scalar_arguments)?;
            let shown = PgType::new(PgType::of(ty).oid);
            return Ok(Arc::new(field_with_meta(&self.name, arrow_type(ty), shown)));
        }
        Ok(Arc::new(field_with_meta(&self.name, self.arrow.clone(), self.shown)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let mut readers = Vec::with_capacity(args.args.len());
        for (arg, field) in args.args.iter().zip(&args.arg_fields) {
            // What is the same for all rows is there once: it may be long.
            let once = matches!(arg, ColumnarValue::Scalar(_));
            let array = arg.to_array(if once { 1 } else { rows })?;
            let reader = match self.rows.filter(|_| holds_rows(array.data_type())) {
                Some((form, env)) => {
                    let (array, field) = written(&array, field, form, &env)?;
                    ColumnReader::new(&array, &field)?
                }
                None => ColumnReader::new(&array, field)?,
            };
            readers.push((reader, once));
        }
        crate::interruptible::check()?;
        let mut results = Results::default();
        let mut values = Vec::with_capacity(readers.len());
        let mut out = Vec::with_capacity(rows);
        for row in 0..rows {
            values.clear();
            values.extend(readers.iter().map(|(one, once)| one.get(if *once { 0 } else { row })));
            out.push(if self.strict && values.iter().any(Datum::is_null) {
                Value::Null
            } else {
                results.counted((self.eval)(&values)?)?
            });
        }
        let arrow = args.return_field.data_type();
        let returns = match self.returns_by {
            Some(_) => col_type_of(arrow).unwrap_or(self.returns),
            None => self.returns,
        };
        let array = single_column(returns, arrow, &out)?;
        Ok(if constant {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?)
        } else {
            ColumnarValue::Array(array)
        })
    }
}

fn ty(kind: TypeKind) -> ColType {
    ColType::new(kind)
}

const OPS: [(Op, &str); 5] =
    [(Op::Add, "add"), (Op::Sub, "sub"), (Op::Mul, "mul"), (Op::Div, "div"), (Op::Mod, "mod")];
const KINDS: [(TypeKind, &str); 5] = [
    (TypeKind::Int2, "int2"),
    (TypeKind::Int4, "int4"),
    (TypeKind::Int8, "int8"),
    (TypeKind::Float4, "float4"),
    (TypeKind::Float8, "float8"),
];

/// The function for an operation in a kind of number; numerics see [`numeric_function`].
#[must_use]
pub fn arithmetic_function(op: Op, kind: TypeKind) -> Option<Arc<ScalarUDF>> {
    let op_name = OPS.iter().find(|(o, _)| *o == op)?.1;
    let kind_name = KINDS.iter().find(|(k, _)| *k == kind)?.1;
    let arrow = arrow_type(ty(kind));
    let name = format!("${kind_name}_{op_name}");
    let function = RowFunction::new(&name, Some(2), ty(kind), true, move |args| {
        Ok(arithmetic(op, kind, &args[0], &args[1])?.into_value())
    });
    Some(function.with_types(vec![arrow.clone(), arrow]).into_udf())
}

/// The sign before a whole number, whose least value has none with the other sign (22003), or
/// before an interval.
#[must_use]
pub(crate) fn negation(kind: TypeKind) -> Option<Arc<ScalarUDF>> {
    if kind == TypeKind::Interval {
        return Some(crate::temporal::negation().into_udf());
    }
    if !matches!(kind, TypeKind::Int2 | TypeKind::Int4 | TypeKind::Int8) {
        return None;
    }
    let kind_name = KINDS.iter().find(|(k, _)| *k == kind)?.1;
    let name = format!("{NEGATION}{kind_name}");
    let function = RowFunction::new(&name, Some(1), ty(kind), true, move |args| {
        Ok(arithmetic(Op::Sub, kind, &Datum::Int2(0), &args[0])?.into_value())
    });
    Some(function.with_types(vec![arrow_type(ty(kind))]).into_udf())
}

const NEGATION: &str = "$negative_";

/// Whether a function of this name is a sign.
#[must_use]
pub(crate) fn is_negation(name: &str) -> bool {
    name.starts_with(NEGATION)
}

/// Inverse of the naming in [`arithmetic_function`].
#[must_use]
pub fn arithmetic_of(name: &str) -> Option<(Op, TypeKind)> {
    let (kind, op) = name.strip_prefix('$')?.split_once('_')?;
    let op = OPS.iter().find(|(_, o)| *o == op)?.0;
    let kind = KINDS.iter().find(|(_, k)| *k == kind)?.0;
    Some((op, kind))
}

/// Inverse of the naming in [`numeric_function`]: the operation, and the digits of its result.
#[must_use]
pub fn numeric_of(name: &str) -> Option<(Op, u8)> {
    let (op, scale) = name.strip_prefix("$numeric_")?.split_once('_')?;
    let op = [(Op::Mul, "mul"), (Op::Mod, "mod"), (Op::Div, "div")].into_iter().find(|o| o.1 == op);
    Some((op?.0, scale.parse().ok()?))
}

/// Multiplication, division or remainder of decimals with a result of `scale` digits.
#[must_use]
pub fn numeric_function(op: Op, scale: u8) -> Arc<ScalarUDF> {
    let op_name = match op {
        Op::Mul => "mul",
        Op::Mod => "mod",
        _ => "div",
    };
    let name = format!("$numeric_{op_name}_{scale}");
    let arrow = DataType::Decimal128(38, scale.cast_signed());
    RowFunction::new(&name, Some(2), ty(TypeKind::Numeric), true, move |args| {
        let (v, s) = arith::numeric(op, to_numeric(&args[0])?, to_numeric(&args[1])?)?;
        let v = arith::rescale(v, s, scale).ok_or_else(|| PgError::out_of_range("numeric"))?;
        Ok(Value::Numeric(v, scale))
    })
    .with_arrow(arrow)
    .into_udf()
}

/// The conversion to `to`, under a name that [`cast_of`] reads.
#[must_use]
pub fn cast_name(to: ColType) -> String {
    format!("$cast_{}_{}", to.kind.code(), to.modifier)
}

/// The function of a name made by [`cast_name`].
#[must_use]
pub fn cast_of(name: &str, env: FormatEnv) -> Option<Arc<ScalarUDF>> {
    let (code, modifier) = name.strip_prefix("$cast_")?.split_once('_')?;
    let kind = TypeKind::from_code(code.parse().ok()?)?;
    let to = ColType { kind, modifier: modifier.parse().ok()? };
    let function = RowFunction::new(name, Some(1), to, true, move |args| {
        cast(&args[0], to, CastMode::Explicit, &env)
    });
    let function = if kind.is_text() { function.taking_rows(Form::Text, env) } else { function };
    Some(function.into_udf())
}

/// Whether a cast from `from` changes nothing.
#[must_use]
pub fn cast_is_identity(from: &Field, to: ColType) -> bool {
    col_type_of(from.data_type()).is_some_and(|ty| {
        ty == to
            && (to.modifier == -1 || to.kind == TypeKind::Array)
            && arrow_type(to) == *from.data_type()
    })
}

fn text(datum: &Datum<'_>) -> String {
    crate::wire::to_text(datum, &FormatEnv::plain())
}

fn constant(name: &str, returns: TypeKind, value: Value) -> RowFunction {
    RowFunction::new(name, None, ty(returns), false, move |_| Ok(value.clone()))
}

fn text_value(text: impl Into<Box<str>>) -> Value {
    Value::Text(text.into())
}

/// A version 4 UUID of these bits.
#[must_use]
pub const fn random_uuid(high: u64, low: u64) -> [u8; 16] {
    let bits = (high as u128) << 64 | low as u128;
    let bits = bits & !(0xf << 76) | (4 << 76);
    (bits & !(0b11 << 62) | (0b10 << 62)).to_be_bytes()
}

/// UUIDs for the rows of one statement, out of the one that it was given.
#[derive(Debug)]
struct RowUuid {
    signature: Signature,
    made: AtomicU64,
}

impl PartialEq for RowUuid {
    fn eq(&self, _: &RowUuid) -> bool {
        true
    }
}

impl Eq for RowUuid {}

impl Hash for RowUuid {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

/// The function `$row_uuid`.
#[must_use]
pub fn row_uuid_function() -> Arc<ScalarUDF> {
    let signature = Signature::any(1, Volatility::Volatile);
    Arc::new(ScalarUDF::new_from_impl(RowUuid { signature, made: AtomicU64::new(0) }))
}

impl ScalarUDFImpl for RowUuid {
    fn name(&self) -> &'static str {
        "$row_uuid"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> DfResult<DataType> {
        Ok(arrow_type(ty(TypeKind::Uuid)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let arrow = args.return_field.data_type();
        if args.number_rows == 0 {
            // A seed that comes with each row does not come then.
            return Ok(ColumnarValue::Array(single_column(ty(TypeKind::Uuid), arrow, &[])?));
        }
        let seed = args.args[0].to_array(1)?;
        let Datum::Uuid(seed) = ColumnReader::new(&seed, &args.arg_fields[0])?.get(0) else {
            return Err(PgError::internal("a seed of random UUIDs").into());
        };
        let one = || {
            let number = self.made.fetch_add(1, Ordering::Relaxed);
            let mut hash = md5::Context::new();
            hash.consume(seed);
            hash.consume(number.to_be_bytes());
            let bits = u128::from_be_bytes(hash.finalize().0);
            let (high, low) = ((bits >> 64) as u64, (bits & u128::from(u64::MAX)) as u64);
            Value::Uuid(random_uuid(high, low))
        };
        let all: Vec<Value> = (0..args.number_rows).map(|_| one()).collect();
        Ok(ColumnarValue::Array(single_column(ty(TypeKind::Uuid), arrow, &all)?))
    }
}

/// Tables of functions but for those of numbers and of texts.
const OTHER_LINES: [&[typed::Line]; 12] = [
    binary::LINES,
    field::LINES,
    field_dates::LINES,
    field_intervals::LINES,
    format::LINES,
    formatting::LINES,
    formatting::FIELD_LINES,
    regex::LINES,
    operators::LINES,
    overlaps::LINES,
    series::LINES,
    json_sets::LINES,
];

/// Functions with PostgreSQL's signatures. `env` has the time zone they work in.
#[must_use]
pub fn typed_functions(env: FormatEnv) -> Vec<Typed> {
    let all: Vec<typed::Line> =
        [[math::LINES, strings::LINES].concat(), OTHER_LINES.concat()].concat();
    typed::functions(&all, env)
}

fn operator_function(name: &str) -> Arc<ScalarUDF> {
    let mut all = typed::functions(operators::LINES, FormatEnv::plain());
    match all.iter().position(|function| function.sql_name() == name) {
        Some(at) => all.swap_remove(at).into_udf(),
        None => missing(name),
    }
}

/// `||` of bytes.
#[must_use]
pub fn concat_bytes() -> Arc<ScalarUDF> {
    operator_function("$concat_bytes")
}

/// Addition, subtraction or multiplication of double precision, which may overflow.
#[must_use]
pub fn float8_function(op: Op) -> Arc<ScalarUDF> {
    operator_function(match op {
        Op::Add => "$float8_add",
        Op::Sub => "$float8_sub",
        _ => "$float8_mul",
    })
}

/// The value of a call with constants of a function whose numeric result has digits that depend on
/// the value.
#[must_use]
pub fn numeric_constant(name: &str, args: &[(Value, Option<TypeKind>)]) -> Option<Value> {
    if !matches!(name, "sqrt" | "exp" | "ln" | "log" | "log10" | "power" | "pow" | "to_number") {
        return None;
    }
    let lines = if name == "to_number" { formatting::LINES } else { math::LINES };
    let all = typed::functions(lines, FormatEnv::plain());
    let function = all.iter().find(|function| function.sql_name() == name)?;
    // An error is raised where the call is reached.
    function.numeric_constant(args).ok().flatten()
}

/// A conversion of `expr` as [`cast_of`] does it.
#[must_use]
pub fn cast_expr(expr: Expr, to: ColType, env: FormatEnv) -> Expr {
    match cast_of(&cast_name(to), env) {
        Some(function) => Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![expr])),
        None => expr,
    }
}

/// Functions on the catalog whose answer depends on nothing, and small ones of PostgreSQL. `env`
/// has the time zone they work in.
#[must_use]
pub fn builtin_functions(env: FormatEnv) -> Vec<RowFunction> {
    let yes = || Value::Bool(true);
    let mut all: Vec<RowFunction> = [
        "pg_function_is_visible",
        "pg_opclass_is_visible",
        "pg_opfamily_is_visible",
        "pg_ts_dict_is_visible",
        "pg_ts_parser_is_visible",
        "pg_ts_template_is_visible",
        "pg_operator_is_visible",
        "pg_collation_is_visible",
        "pg_conversion_is_visible",
        "pg_statistics_obj_is_visible",
        "pg_ts_config_is_visible",
    ]
    .iter()
    .map(|name| constant(name, TypeKind::Bool, yes()))
    .collect();
    for name in ["pg_is_other_temp_schema", "pg_relation_is_publishable"] {
        all.push(constant(name, TypeKind::Bool, Value::Bool(false)));
    }
    all.push(strings::random_string());
    all.push(RowFunction::new("pg_is_in_recovery", Some(0), ty(TypeKind::Bool), false, |_| {
        Ok(Value::Bool(false))
    }));
    for name in [
        "pg_tablespace_location",
        "pg_get_function_sqlbody",
        "pg_get_triggerdef",
        "pg_get_partkeydef",
        "pg_get_statisticsobjdef_columns",
        "pg_get_ruledef",
    ] {
        all.push(constant(name, TypeKind::Text, Value::Null));
    }
    all.push(constant("pg_encoding_to_char", TypeKind::Text, text_value("UTF8")));
    all.push(RowFunction::new("pg_get_expr", None, ty(TypeKind::Text), false, |args| {
        Ok(args.first().map_or(Value::Null, Datum::to_value))
    }));
    all.push(RowFunction::new("format_type", Some(2), ty(TypeKind::Text), false, |args| {
        let number = |datum: &Datum<'_>| text(datum).parse::<i64>().ok();
        let Some(oid) = number(&args[0]) else { return Ok(Value::Null) };
        let modifier = number(&args[1]).unwrap_or(-1);
        Ok(text_value(format_type(oid, modifier)))
    }));
    all.push(RowFunction::new("pg_size_pretty", Some(1), ty(TypeKind::Text), true, |args| {
        let bytes = match &args[0] {
            Datum::Int2(v) => i64::from(*v),
            Datum::Int4(v) => i64::from(*v),
            Datum::Int8(v) => *v,
            other => text(other).parse().map_err(|_| {
                PgError::new("42883", "function pg_size_pretty does not exist for this type")
            })?,
        };
        Ok(text_value(size_pretty(bytes)))
    }));
    all.extend(crate::temporal::functions(env));
    all.extend(crate::json_functions::functions(env));
    all.extend(crate::array_functions::functions(env));
    all.extend(crate::subscripts::functions());
    all
}

/// A number of bytes in the largest unit that leaves at least 10 of it, rounded half up.
fn size_pretty(bytes: i64) -> String {
    let sign = if bytes < 0 { "-" } else { "" };
    let mut size = bytes.unsigned_abs();
    if size < 10 * 1024 {
        return format!("{sign}{size} bytes");
    }
    // Counted in halves of the unit, for the rounding.
    size >>= 9;
    let mut unit = "kB";
    for larger in ["MB", "GB", "TB", "PB"] {
        if size < 20 * 1024 - 1 {
            break;
        }
        size >>= 10;
        unit = larger;
    }
    format!("{sign}{} {unit}", size.div_ceil(2))
}

/// An identifier, in quotes if it needs them.
#[must_use]
pub fn quote_ident(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !keywords::is_reserved(name);
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// A type's name from its OID and modifier.
#[must_use]
pub fn format_type(type_oid: i64, modifier: i64) -> String {
    use crate::types::{col_type_of_oid, oid};
    let Ok(type_oid) = u32::try_from(type_oid) else { return "???".to_owned() };
    let modifier = i32::try_from(modifier).unwrap_or(-1);
    match type_oid {
        oid::FLOAT4 => "real".to_owned(),
        other if other_type_name(other).is_some() => {
            other_type_name(other).unwrap_or_default().to_owned()
        }
        other => match col_type_of_oid(other) {
            Some(ty) if ty.kind == TypeKind::Array => ty.to_string(),
            Some(ty) => ColType { kind: ty.kind, modifier }.to_string(),
            None => "???".to_owned(),
        },
    }
}

/// Names of the types that no column can have.
fn other_type_name(type_oid: u32) -> Option<&'static str> {
    use crate::types::oid;
    Some(match type_oid {
        oid::NAME => "name",
        oid::OID => "oid",
        oid::CHAR => "\"char\"",
        oid::REGPROC => "regproc",
        oid::REGPROCEDURE => "regprocedure",
        oid::REGOPER => "regoper",
        oid::REGOPERATOR => "regoperator",
        oid::REGCLASS => "regclass",
        oid::REGTYPE => "regtype",
        oid::REGNAMESPACE => "regnamespace",
        oid::REGROLE => "regrole",
        oid::INT2VECTOR => "int2vector",
        oid::OIDVECTOR => "oidvector",
        oid::PG_NODE_TREE => "pg_node_tree",
        oid::REFCURSOR => "refcursor",
        oid::UNKNOWN => "unknown",
        oid::VOID => "void",
        oid::CHAR_ARRAY => "\"char\"[]",
        oid::NAME_ARRAY => "name[]",
        oid::OID_ARRAY => "oid[]",
        1021 => "real[]",
        2249 => "record",
        2275 => "cstring",
        2276 => "\"any\"",
        2277 => "anyarray",
        2279 => "trigger",
        2281 => "internal",
        2283 => "anyelement",
        2776 => "anynonarray",
        5077 => "anycompatible",
        5078 => "anycompatiblearray",
        5079 => "anycompatiblenonarray",
        _ => return None,
    })
}
