//! Frames of windows that DataFusion does not have: with EXCLUDE, with offsets that are computed,
//! and RANGE with offsets over all types that PostgreSQL has it for.
//!
//! The binder gives such a frame as a call of [`FRAME`] before what the window is partitioned by.
//! The function over the window becomes one that is given all rows of a partition and finds the
//! frame of each by itself.
//!
//! What it promises: the rows of each frame are PostgreSQL's, and so are the errors of offsets.

use crate::arrow_rows::ColumnReader;
use crate::error::{PgError, Result};
use crate::frame_rows::{End, Exclude, Offsets, Shape, Units, frames};
use crate::functions::RowFunction;
use crate::interruptible::check;
use crate::memory::results_fit;
use crate::types::{arrow_type, col_type_of};
use crate::wire::FormatEnv;
use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::compute::{SortOptions, filter};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::expr::{Placeholder, WindowFunction};
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
            args
        }
        None => match frame_of_list(&function) {
            Some(args) => args,
            None => return Ok(None),
        },
    };
    let own = with_frame(function, &args, input, env)?;
    Ok(Some(own.alias(expr.schema_name().to_string())))
}

/// The frame of an aggregate whose values grow with it, as the arguments of [`FRAME`]: the library
/// would hold the values of all rows, however much that is, and cannot take rows out of all of
/// them.
fn frame_of_list(function: &WindowFunction) -> Option<Vec<Expr>> {
    let WindowFunctionDefinition::AggregateUDF(udf) = &function.fun else { return None };
    if !LISTS.contains(&udf.name()) {
        return None;
    }
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
            _ => Inner::Aggregate(udf.clone()),
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
    args.extend(function.params.order_by.iter().map(|key| key.expr.clone()));
    let shape = shape_of(frame)?;
    let key = match function.params.order_by.first() {
        Some(key) => Some(key.expr.get_type(schema)?),
        None => None,
    };
    for offset in frame.iter().skip(4) {
        let given = offset.get_type(schema).ok();
        args.push(offset_of(offset, given.as_ref(), shape.units, key.as_ref())?);
    }
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
    function.params.args = args;
    function.params.window_frame = whole;
    Ok(Expr::from(function))
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
        let keys = &values[first_key..first_offset];
        let all =
            frames(&self.shape, keys, key.as_ref(), self.keys.first(), &offsets, rows, &self.env)?;
        let mut out = Vec::with_capacity(rows);
        let mut bytes = 0_usize;
        let mut last: Option<(Vec<Range<usize>>, ScalarValue)> = None;
        for frame in all {
            check()?;
            let value = match &last {
                // The same rows give the same value.
                Some((known, value)) if *known == frame => value.clone(),
                _ => self.value_over(values, &frame)?,
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
    fn value_over(&self, values: &[ArrayRef], frame: &[Range<usize>]) -> DfResult<ScalarValue> {
        let nothing = || ScalarValue::try_from(self.result.data_type());
        match &self.inner {
            Inner::Aggregate(udf) => self.aggregate(udf, values, frame),
            Inner::First | Inner::Last | Inner::Nth => {
                let mut rows: Vec<usize> = frame.iter().cloned().flatten().collect();
                if self.ignore_nulls {
                    rows.retain(|row| values[0].is_valid(*row));
                }
                let at = match &self.inner {
                    Inner::First => rows.first(),
                    Inner::Last => rows.last(),
                    _ => match ScalarValue::try_from_array(&values[1], 0)? {
                        ScalarValue::Int64(Some(n)) => nth(&rows, n)?,
                        ScalarValue::Int32(Some(n)) => nth(&rows, i64::from(n))?,
                        _ => None,
                    },
                };
                at.map_or_else(nothing, |at| ScalarValue::try_from_array(&values[0], *at))
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

/// The row in this place of the frame, from 1.
fn nth(rows: &[usize], n: i64) -> Result<Option<&usize>> {
    match usize::try_from(n).ok().and_then(|n| n.checked_sub(1)) {
        Some(at) => Ok(rows.get(at)),
        None => Err(PgError::new("22016", "argument of nth_value must be greater than zero")),
    }
}
