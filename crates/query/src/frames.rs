//! Frames of windows that DataFusion does not have: with EXCLUDE, with offsets that are computed,
//! and RANGE with offsets over all types that PostgreSQL has it for. `lag` and `lead` of a number
//! of rows that is computed or that passes NULLs by, and `nth_value` of a place that is computed or
//! counted from the last row.
//!
//! The binder gives such a frame as a call of [`FRAME`] before what the window is partitioned by.
//! The function over the window becomes one that is given all rows of a partition and finds the
//! frame of each by itself.
//!
//! What it promises: the rows of each frame are PostgreSQL's, and so are the errors of offsets.

use crate::arrow_rows::ColumnReader;
use crate::error::{PgError, Result};
use crate::expr_planner::adopt;
use crate::frame_places::{NTH_FROM_LAST, place, shift};
use crate::frame_rows::{End, Exclude, Offsets, Shape, Units, frames};
use crate::functions::RowFunction;
use crate::interruptible::check;
use crate::interval_aggregates::of_name as of_intervals_called;
use crate::keep::with_one_zero;
use crate::memory::results_fit;
use crate::ordering::order_key;
use crate::scalar::common_number;
use crate::types::{arrow_type, col_type_of};
use crate::wire::FormatEnv;
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::{SortOptions, filter};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::expr::{NullTreatment, Placeholder, WindowFunction};
use datafusion::logical_expr::function::{
    AccumulatorArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs,
};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    AggregateUDF, Expr, ExprSchemable, LogicalPlan, PartitionEvaluator, Signature, Volatility,
    Window, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition, WindowUDF,
    WindowUDFImpl, cast, lit,
};
use datafusion::physical_expr::PhysicalExpr;
use kernel::row::{ColType, TypeKind};
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

/// The function whose arguments say what a frame is: units, start, end, what is excluded, and the
/// offsets of start and end.
pub const FRAME: &str = "$frame";

/// Aggregates whose values hold all rows of a frame.
const LISTS: [&str; 6] =
    ["array_agg", "string_agg", "json_agg", "jsonb_agg", "json_object_agg", "jsonb_object_agg"];

/// See [`FRAME`]; it is never called.
pub(crate) fn frame_function() -> RowFunction {
    RowFunction::new(FRAME, Some(6), ColType::new(TypeKind::Int8), false, |_| {
        Err(PgError::internal("a frame that is a value"))
    })
}

/// The plan with functions of our own over such frames.
///
/// # Errors
/// 0A000 for offsets of a type that does not suit the order's.
pub(crate) fn with_frames(plan: LogicalPlan, env: FormatEnv) -> DfResult<LogicalPlan> {
    let done = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::Window(window) = &node else { return Ok(Transformed::no(node)) };
        let mut exprs = Vec::with_capacity(window.window_expr.len());
        let mut found = false;
        for expr in &window.window_expr {
            let own = framed(expr, &window.input, env)?;
            found |= own.is_some();
            exprs.push(own.unwrap_or_else(|| expr.clone()));
        }
        if !found {
            return Ok(Transformed::no(node));
        }
        let window = Window::try_new(exprs, window.input.clone())?;
        Ok(Transformed::yes(LogicalPlan::Window(window)))
    })?;
    Ok(done.data)
}

fn framed(expr: &Expr, input: &Arc<LogicalPlan>, env: FormatEnv) -> DfResult<Option<Expr>> {
    if let Expr::Alias(named) = expr {
        let mut named = named.clone();
        let Some(own) = framed(&named.expr, input, env)? else { return Ok(None) };
        *named.expr = own.unalias();
        return Ok(Some(Expr::Alias(named)));
    }
    let Expr::WindowFunction(function) = expr else { return Ok(None) };
    let args = match function.params.partition_by.first() {
        Some(Expr::ScalarFunction(frame)) if frame.name() == FRAME => Some(frame.args.clone()),
        _ => None,
    };
    let mut function = function.as_ref().clone();
    let args = match args {
        Some(args) => {
            function.params.partition_by.remove(0);
            Some(args)
        }
        None => own_frame(&function, input),
    };
    let own = match (is_shift(&function), args) {
        (Some(direction), _) if has_computed_arguments(&function) || ignores_nulls(&function) => {
            shifted(function, direction, input, env)?
        }
        (_, Some(args)) => with_frame(function, &args, input, env)?,
        (_, None) => return Ok(None),
    };
    Ok(Some(own.alias(expr.schema_name().to_string())))
}

/// Whether the function gives a value of a row before or after the current one: `-1` and `1`.
fn is_shift(function: &WindowFunction) -> Option<i64> {
    let WindowFunctionDefinition::WindowUDF(udf) = &function.fun else { return None };
    match udf.name() {
        "lag" => Some(-1),
        "lead" => Some(1),
        _ => None,
    }
}

fn is_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(..) => true,
        Expr::Negative(inner) => is_literal(inner),
        Expr::Cast(cast) => is_literal(&cast.expr),
        _ => false,
    }
}

/// Whether it is a whole number as it is written, which is all that the library counts rows by.
fn is_whole(expr: &Expr) -> bool {
    use ScalarValue::{Int16, Int32, Int64};
    match expr {
        Expr::Literal(Int16(Some(_)) | Int32(Some(_)) | Int64(Some(_)), _) => true,
        Expr::Negative(inner) => is_whole(inner),
        _ => false,
    }
}

/// Whether what comes after the value is more than constants, which are all that the library takes.
fn has_computed_arguments(function: &WindowFunction) -> bool {
    let args = &function.params.args;
    args.get(1).is_some_and(|offset| !is_whole(offset))
        || args.get(2).is_some_and(|default| !is_literal(default))
}

/// Whether it passes NULLs by. What the library has for `lead` loses rows behind them.
fn ignores_nulls(function: &WindowFunction) -> bool {
    function.params.null_treatment == Some(NullTreatment::IgnoreNulls)
}

/// `lag` and `lead` of as many rows as an expression says, or with a default that is one, or of
/// rows that are not NULL.
fn shifted(
    mut function: WindowFunction,
    direction: i64,
    input: &Arc<LogicalPlan>,
    env: FormatEnv,
) -> DfResult<Expr> {
    let schema = input.schema();
    let name = function.fun.name().to_owned();
    let args = &mut function.params.args;
    let own = args[0].get_type(schema)?;
    let unknown = |types: &[&DataType]| {
        let shown = types.iter().map(|ty| {
            col_type_of(ty).map_or_else(|| ty.to_string(), |ty| ty.without_limit().to_string())
        });
        let shown = shown.collect::<Vec<_>>().join(", ");
        PgError::new("42883", format!("function {name}({shown}) does not exist")).with_hint(
            "No function matches the given name and argument types. You might need to add \
             explicit type casts.",
        )
    };
    if let Some(offset) = args.get_mut(1) {
        let given = adopt(offset.clone(), None, Some(&DataType::Int32), &env)?;
        let ty = given.get_type(schema)?;
        let fits = match ty {
            DataType::Null | DataType::Int16 | DataType::Int32 => true,
            // A whole number as it is written.
            DataType::Int64 => is_literal(&given),
            _ => false,
        };
        if !fits {
            return Err(unknown(&[&own, &ty]).into());
        }
        *offset = cast(given, DataType::Int64);
    }
    if let Some(default) = args.get_mut(2) {
        let given = adopt(default.clone(), None, Some(&own), &env)?;
        let ty = given.get_type(schema)?;
        let kinds = (col_type_of(&own), col_type_of(&ty));
        let wanted = match kinds {
            _ if ty == own || ty == DataType::Null => own.clone(),
            (Some(a), Some(b)) if a.kind.is_text() && b.kind.is_text() => own.clone(),
            (Some(a), Some(b)) => match common_number(a.kind, b.kind) {
                Some(TypeKind::Numeric) => wider(&own, &ty),
                Some(kind) => arrow_type(ColType::new(kind)),
                None => return Err(unknown(&[&own, &DataType::Int32, &ty]).into()),
            },
            _ => return Err(unknown(&[&own, &DataType::Int32, &ty]).into()),
        };
        *default = cast(given, wanted.clone());
        if wanted != own {
            args[0] = cast(args[0].clone(), wanted);
        }
    }
    let whole =
        Shape { units: Units::Rows, start: End::First, end: End::Last, exclude: Exclude::NoOthers };
    let result = args[0].to_field(schema)?.1;
    let count = args.len();
    Ok(over_partition(function, Inner::Shift(direction), whole, count, false, &result, env))
}

/// The decimal that has room for the digits of both.
fn wider(a: &DataType, b: &DataType) -> DataType {
    let scale = |ty: &DataType| match ty {
        DataType::Decimal128(_, scale) => *scale,
        _ => 0,
    };
    DataType::Decimal128(crate::types::NUMERIC_PRECISION, scale(a).max(scale(b)))
}

/// The frame of a function that the library does not compute as PostgreSQL does, whatever it is, as
/// the arguments of [`FRAME`].
fn own_frame(function: &WindowFunction, input: &LogicalPlan) -> Option<Vec<Expr>> {
    let nth = function.fun.name() == "nth_value" && !has_place(function);
    let own = nth || function.fun.name() == NTH_FROM_LAST || is_moving_extreme(function, input);
    if own { frame_words(function) } else { frame_of_list(function) }
}

/// Whether it is the least or greatest interval of rows that do not all stay.
fn is_moving_extreme(function: &WindowFunction, input: &LogicalPlan) -> bool {
    let moves = match &function.params.window_frame.start_bound {
        WindowFrameBound::Preceding(offset) => !offset.is_null(),
        _ => true,
    };
    moves
        && matches!(function.fun.name(), "min" | "max")
        && function.params.args.first().is_some_and(|arg| is_interval(arg, input.schema()))
}

fn is_interval(arg: &Expr, schema: &DFSchema) -> bool {
    arg.get_type(schema).is_ok_and(|ty| matches!(ty, DataType::Interval(_)))
}

/// Whether the place that `nth_value` asks for is a number that is right.
fn has_place(function: &WindowFunction) -> bool {
    matches!(
        function.params.args.get(1),
        Some(Expr::Literal(ScalarValue::Int64(Some(1..)) | ScalarValue::Int32(Some(1..)), _))
    )
}

/// The frame of an aggregate whose values grow with it, as the arguments of [`FRAME`]: the library
/// would hold the values of all rows, however much that is, and cannot take rows out of all of
/// them.
fn frame_of_list(function: &WindowFunction) -> Option<Vec<Expr>> {
    let WindowFunctionDefinition::AggregateUDF(udf) = &function.fun else { return None };
    if LISTS.contains(&udf.name()) { frame_words(function) } else { None }
}

fn frame_words(function: &WindowFunction) -> Option<Vec<Expr>> {
    let frame = &function.params.window_frame;
    let units = match frame.units {
        WindowFrameUnits::Rows => "rows",
        WindowFrameUnits::Range => "range",
        WindowFrameUnits::Groups => "groups",
    };
    let end = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::CurrentRow => Some(("current", None)),
        WindowFrameBound::Preceding(offset) if offset.is_null() => Some(("first", None)),
        WindowFrameBound::Following(offset) if offset.is_null() => Some(("last", None)),
        WindowFrameBound::Preceding(offset) => Some(("preceding", Some(rows_of(offset)?))),
        WindowFrameBound::Following(offset) => Some(("following", Some(rows_of(offset)?))),
    };
    let (start, first) = end(&frame.start_bound)?;
    let (end, last) = end(&frame.end_bound)?;
    let mut args: Vec<Expr> = [units, start, end, "no others"].into_iter().map(lit).collect();
    args.extend([first, last].map(|offset| Expr::Literal(ScalarValue::Int64(offset), None)));
    Some(args)
}

/// An offset in rows.
fn rows_of(offset: &ScalarValue) -> Option<i64> {
    match offset {
        ScalarValue::UInt64(Some(rows)) => i64::try_from(*rows).ok(),
        ScalarValue::Int64(Some(rows)) => Some(*rows),
        _ => None,
    }
}

/// What a function does with the rows of a frame.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Inner {
    Aggregate(Arc<AggregateUDF>),
    First,
    Last,
    Nth,
    NthFromLast,
    /// The value so many rows on: before the current one, or after it.
    Shift(i64),
}

impl Inner {
    /// Whether each row may ask for another place of its frame.
    fn asks_by_row(&self) -> bool {
        matches!(self, Inner::Nth | Inner::NthFromLast)
    }
}

fn with_frame(
    mut function: WindowFunction,
    frame: &[Expr],
    input: &Arc<LogicalPlan>,
    env: FormatEnv,
) -> DfResult<Expr> {
    let schema = input.schema();
    let inner = match &function.fun {
        WindowFunctionDefinition::WindowUDF(udf) => match udf.name() {
            "first_value" => Inner::First,
            "last_value" => Inner::Last,
            "nth_value" => Inner::Nth,
            NTH_FROM_LAST => Inner::NthFromLast,
            // The others look at the whole partition, whatever the frame is.
            _ => {
                let ordered = !function.params.order_by.is_empty();
                function.params.window_frame = WindowFrame::new(ordered.then_some(false));
                return Ok(Expr::from(function));
            }
        },
        WindowFunctionDefinition::AggregateUDF(udf) => match udf.name() {
            "first_value" => Inner::First,
            "last_value" => Inner::Last,
            "nth_value" => Inner::Nth,
            name => {
                let of_intervals =
                    function.params.args.first().is_some_and(|arg| is_interval(arg, schema));
                let own = if of_intervals { of_intervals_called(name) } else { None };
                Inner::Aggregate(own.unwrap_or_else(|| udf.clone()))
            }
        },
    };
    if function.params.distinct {
        let text = "DISTINCT is not implemented for window functions";
        return Err(PgError::new("0A000", text).into());
    }
    let mut args = std::mem::take(&mut function.params.args);
    let fields = args.iter().map(|arg| arg.to_field(schema).map(|(_, field)| field));
    let mut fields = fields.collect::<DfResult<Vec<FieldRef>>>()?;
    let result = match &inner {
        Inner::Aggregate(udf) => {
            let wanted = fields_with_udf(&fields, udf.as_ref())?;
            for ((arg, own), wanted) in args.iter_mut().zip(&fields).zip(&wanted) {
                if own.data_type() != wanted.data_type() {
                    *arg = cast(arg.clone(), wanted.data_type().clone());
                }
            }
            fields = wanted;
            udf.return_field(&fields)?
        }
        _ => fields.first().cloned().ok_or_else(|| PgError::internal("a value of no argument"))?,
    };
    let count = args.len();
    let filtered = function.params.filter.is_some();
    args.extend(function.params.filter.take().map(|filter| *filter));
    let shape = shape_of(frame)?;
    let by_offset = shape.units == Units::Range && shape.has_offsets();
    for key in &function.params.order_by {
        // Rows are peers where what they are sorted by is equal; an offset is put to the value.
        args.push(match by_offset {
            true => key.expr.clone(),
            false => order_key(key.expr.clone(), &key.expr.get_type(schema)?),
        });
    }
    let key = match function.params.order_by.first() {
        Some(key) => Some(key.expr.get_type(schema)?),
        None => None,
    };
    for (offset, end) in frame.iter().skip(4).zip([shape.start, shape.end]) {
        if !matches!(end, End::Preceding | End::Following) {
            // What stands for no offset has no type that could suit or not.
            args.push(Expr::Literal(ScalarValue::Int64(None), None));
            continue;
        }
        let given = offset.get_type(schema).ok();
        args.push(offset_of(offset, given.as_ref(), shape.units, key.as_ref())?);
    }
    function.params.args = args;
    Ok(over_partition(function, inner, shape, count, filtered, &result, env))
}

/// The function as one that is given all rows of a partition: `count` arguments of its own, its
/// filter, and for all but a shift what it is ordered by, and the offsets.
fn over_partition(
    mut function: WindowFunction,
    inner: Inner,
    shape: Shape,
    count: usize,
    filtered: bool,
    result: &FieldRef,
    env: FormatEnv,
) -> Expr {
    let keys = function
        .params
        .order_by
        .iter()
        .map(|key| SortOptions { descending: !key.asc, nulls_first: key.nulls_first });
    let own = Framed {
        name: function.fun.name().to_owned(),
        signature: Signature::variadic_any(Volatility::Immutable),
        inner,
        shape,
        count,
        filtered,
        keys: keys.collect(),
        result: result.data_type().clone(),
        metadata: result.metadata().clone().into_iter().collect(),
        env: OfSession(env),
    };
    let whole = WindowFrame::new_bounds(
        WindowFrameUnits::Rows,
        WindowFrameBound::Preceding(ScalarValue::UInt64(None)),
        WindowFrameBound::Following(ScalarValue::UInt64(None)),
    );
    function.fun = WindowFunctionDefinition::WindowUDF(Arc::new(WindowUDF::new_from_impl(own)));
    function.params.window_frame = whole;
    Expr::from(function)
}

fn word(expr: Option<&Expr>) -> &str {
    match expr {
        Some(Expr::Literal(ScalarValue::Utf8(Some(word)), _)) => word,
        _ => "",
    }
}

fn shape_of(frame: &[Expr]) -> Result<Shape> {
    let malformed = || PgError::internal("a frame of what is none");
    let end = |at: usize| match word(frame.get(at)) {
        "first" => Ok(End::First),
        "preceding" => Ok(End::Preceding),
        "current" => Ok(End::Current),
        "following" => Ok(End::Following),
        "last" => Ok(End::Last),
        "first group" => Ok(End::FirstGroup),
        "last group" => Ok(End::LastGroup),
        _ => Err(malformed()),
    };
    Ok(Shape {
        units: match word(frame.first()) {
            "rows" => Units::Rows,
            "range" => Units::Range,
            "groups" => Units::Groups,
            _ => return Err(malformed()),
        },
        start: end(1)?,
        end: end(2)?,
        exclude: match word(frame.get(3)) {
            "no others" => Exclude::NoOthers,
            "current row" => Exclude::CurrentRow,
            "group" => Exclude::Group,
            "ties" => Exclude::Ties,
            _ => return Err(malformed()),
        },
    })
}

/// The offset in a type that can be counted with, or put to what is ordered by.
fn offset_of(
    offset: &Expr,
    given: Option<&DataType>,
    units: Units,
    key: Option<&DataType>,
) -> Result<Expr> {
    use TypeKind::{
        Date, Float4, Float8, Int2, Int4, Int8, Interval, Numeric, Time, Timestamp, Timestamptz,
    };
    let int8 = arrow_type(ColType::new(Int8));
    if given.is_none_or(|ty| *ty == DataType::Null) && !matches!(offset, Expr::Placeholder(_)) {
        return Ok(Expr::Literal(ScalarValue::Int64(None), None));
    }
    if units != Units::Range {
        return Ok(cast(offset.clone(), int8));
    }
    let key = key.and_then(col_type_of);
    let unsuitable = |text: String| PgError::new("0A000", text);
    let shown = key.map_or_else(|| "unknown".to_owned(), |ty| ColType::new(ty.kind).to_string());
    let start = "RANGE with offset PRECEDING/FOLLOWING is not supported for column type";
    let wanted = match key.map(|ty| ty.kind) {
        Some(kind @ (Int2 | Int4 | Int8 | Numeric)) => kind,
        Some(Float4 | Float8) => Float8,
        Some(Date | Timestamp | Timestamptz | Time | Interval) => Interval,
        _ => return Err(unsuitable(format!("{start} {shown}"))),
    };
    if let Expr::Placeholder(one) = offset
        && given.is_none_or(|ty| *ty == DataType::Null)
    {
        let field = Field::new("", arrow_type(ColType::new(wanted)), true);
        let own = Placeholder::new_with_field(one.id.clone(), Some(Arc::new(field)));
        return Ok(Expr::Placeholder(own));
    }
    let own = given.and_then(col_type_of).map(|ty| ty.kind);
    let fits = matches!(
        (wanted, own),
        (Int2 | Int4 | Int8, Some(Int2 | Int4 | Int8))
            | (Numeric, Some(Int2 | Int4 | Int8 | Numeric))
            | (Float8, Some(Int2 | Int4 | Int8 | Numeric | Float4 | Float8))
            | (Interval, Some(Interval))
    );
    if !fits {
        let given = own.map_or_else(|| "unknown".to_owned(), |own| ColType::new(own).to_string());
        let error = unsuitable(format!("{start} {shown} and offset type {given}"));
        return Err(error.with_hint("Cast the offset value to an appropriate type."));
    }
    Ok(match wanted {
        Int2 | Int4 | Int8 => cast(offset.clone(), int8),
        Float8 => cast(offset.clone(), DataType::Float64),
        _ => offset.clone(),
    })
}

/// A function over frames of our own. Its arguments: those of the function, its filter, what the
/// window is ordered by, and the offsets.
#[derive(PartialEq, Eq, Hash, Debug)]
struct Framed {
    name: String,
    signature: Signature,
    inner: Inner,
    shape: Shape,
    count: usize,
    filtered: bool,
    keys: Vec<SortOptions>,
    result: DataType,
    metadata: Vec<(String, String)>,
    env: OfSession,
}

/// What a session's time zone is. A plan has one, so that two functions of it never differ in it.
#[derive(Clone, Copy, Debug)]
struct OfSession(FormatEnv);

impl PartialEq for OfSession {
    fn eq(&self, _: &OfSession) -> bool {
        true
    }
}

impl Eq for OfSession {}

impl Hash for OfSession {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl WindowUDFImpl for Framed {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn partition_evaluator(
        &self,
        args: PartitionEvaluatorArgs<'_>,
    ) -> DfResult<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(Evaluator {
            name: self.name.clone(),
            inner: self.inner.clone(),
            shape: self.shape,
            count: self.count,
            filtered: self.filtered,
            keys: self.keys.clone(),
            result: Arc::new(Field::new(&self.name, self.result.clone(), true)),
            env: self.env.0,
            ignore_nulls: args.ignore_nulls(),
            exprs: args.input_exprs().to_vec(),
            fields: args.input_fields().to_vec(),
        }))
    }

    fn field(&self, args: WindowUDFFieldArgs<'_>) -> DfResult<FieldRef> {
        let metadata = self.metadata.iter().cloned().collect();
        let field = Field::new(args.name(), self.result.clone(), true);
        Ok(Arc::new(field.with_metadata(metadata)))
    }
}

#[derive(Debug)]
struct Evaluator {
    name: String,
    inner: Inner,
    shape: Shape,
    count: usize,
    filtered: bool,
    keys: Vec<SortOptions>,
    result: FieldRef,
    env: FormatEnv,
    ignore_nulls: bool,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    fields: Vec<FieldRef>,
}

impl PartitionEvaluator for Evaluator {
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> DfResult<ArrayRef> {
        if let Inner::Shift(direction) = self.inner {
            return shift(&values[..self.count], direction, rows, self.ignore_nulls);
        }
        let first_key = self.count + usize::from(self.filtered);
        let first_offset = first_key + self.keys.len();
        let reader = |at: usize| -> Result<ColumnReader> {
            ColumnReader::new(&values[at], self.fields[at].as_ref())
        };
        let key = match self.shape.units {
            Units::Range if self.shape.has_offsets() => Some(reader(first_key)?),
            _ => None,
        };
        let offsets = [reader(first_offset)?, reader(first_offset + 1)?];
        let offsets = Offsets::read(&self.shape, &offsets, rows)?;
        let keys: Vec<ArrayRef> =
            values[first_key..first_offset].iter().map(with_one_zero).collect();
        let all =
            frames(&self.shape, &keys, key.as_ref(), self.keys.first(), &offsets, rows, &self.env)?;
        let mut out = Vec::with_capacity(rows);
        let mut bytes = 0_usize;
        let mut last: Option<(Vec<Range<usize>>, ScalarValue)> = None;
        for (row, frame) in all.into_iter().enumerate() {
            check()?;
            let value = match &last {
                // The same rows give the same value, but for the place that a row asks for.
                Some((known, value)) if *known == frame && !self.inner.asks_by_row() => {
                    value.clone()
                }
                _ => self.value_over(values, &frame, row)?,
            };
            bytes = bytes.saturating_add(value.size() - size_of_val(&value));
            results_fit(bytes)?;
            out.push(value.clone());
            last = Some((frame, value));
        }
        ScalarValue::iter_to_array(out)
    }
}

impl Evaluator {
    fn value_over(
        &self,
        values: &[ArrayRef],
        frame: &[Range<usize>],
        row: usize,
    ) -> DfResult<ScalarValue> {
        let nothing = || ScalarValue::try_from(self.result.data_type());
        match &self.inner {
            Inner::Aggregate(udf) => self.aggregate(udf, values, frame),
            inner => {
                let mut rows = frame.iter().cloned().flatten();
                let counts = |row: &usize| !self.ignore_nulls || values[0].is_valid(*row);
                let at = match inner {
                    Inner::First => rows.find(counts),
                    Inner::Last => rows.rfind(counts),
                    _ => {
                        let place = place(&ScalarValue::try_from_array(&values[1], row)?)?;
                        match (place, *inner == Inner::NthFromLast) {
                            (Some(n), false) if self.ignore_nulls => rows.filter(counts).nth(n),
                            (Some(n), true) if self.ignore_nulls => {
                                rows.rev().filter(counts).nth(n)
                            }
                            // Whole ranges are stepped over.
                            (Some(n), false) => rows.nth(n),
                            (Some(n), true) => rows.nth_back(n),
                            (None, _) => None,
                        }
                    }
                };
                at.map_or_else(nothing, |at| ScalarValue::try_from_array(&values[0], at))
            }
        }
    }

    fn aggregate(
        &self,
        udf: &AggregateUDF,
        values: &[ArrayRef],
        frame: &[Range<usize>],
    ) -> DfResult<ScalarValue> {
        let (exprs, fields) = (&self.exprs[..self.count], &self.fields[..self.count]);
        let schema = Schema::new(fields.to_vec());
        let mut state = udf.accumulator(AccumulatorArgs {
            return_field: self.result.clone(),
            schema: &schema,
            ignore_nulls: self.ignore_nulls,
            order_bys: &[],
            is_reversed: false,
            name: &self.name,
            is_distinct: false,
            exprs,
            expr_fields: fields,
        })?;
        for rows in frame.iter().filter(|rows| !rows.is_empty()) {
            let part = |array: &ArrayRef| array.slice(rows.start, rows.len());
            let mut parts: Vec<ArrayRef> = values[..self.count].iter().map(part).collect();
            if self.filtered {
                let wanted = part(&values[self.count]);
                let kept = parts.iter().map(|array| filter(array, wanted.as_boolean()));
                parts = kept.collect::<std::result::Result<_, _>>()?;
            }
            state.update_batch(&parts)?;
        }
        state.evaluate()
    }
}
