//! Long values in pieces: rows whose values would hold more than a statement may are worked on in
//! smaller batches.
//!
//! What it promises: what streams needs no memory but for some rows, however long they are; only a
//! value that does not fit alone is refused. What it must never do: work out anew what costs
//! nothing to keep; rows that have been worked out stay so.

use crate::error::PgError;
use crate::interruptible::check;
use crate::memory::results_fit;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use datafusion::arrow::array::{StringArray, StringBuilder};
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use datafusion::arrow::error::ArrowError;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CaseExpr, Column, Literal};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode, PhysicalGroupBy};
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::metrics::BaselineMetrics;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};
use futures::StreamExt;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

type Expr = Arc<dyn PhysicalExpr>;

/// A literal that may be there once for each row of a batch.
const SHORT_BYTES: usize = 256;

/// How a step is run whose values may be long.
#[derive(Debug)]
pub(crate) enum Way {
    /// As this step.
    As(Arc<dyn ExecutionPlan>),
    /// As these expressions over its input.
    Projected(Vec<Expr>),
}

/// How the step is run if it makes values that may be long.
///
/// # Errors
/// The library's.
pub(crate) fn way(node: &Arc<dyn ExecutionPlan>) -> DfResult<Option<Way>> {
    if let Some(filter) = node.downcast_ref::<FilterExec>() {
        let schema = filter.input().schema();
        if !makes_long(filter.predicate(), &schema)? {
            return Ok(None);
        }
        let predicate = in_pieces(filter.predicate(), &schema)?;
        let filter = FilterExecBuilder::from(filter).with_predicate(predicate).build()?;
        return Ok(Some(Way::As(Arc::new(filter))));
    }
    if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        let schema = projection.input().schema();
        let exprs: Vec<&Expr> = projection.expr().iter().map(|one| &one.expr).collect();
        if !any_long(&exprs, &schema)? {
            return Ok(None);
        }
        let exprs = exprs.into_iter().map(|expr| in_pieces(expr, &schema)).collect::<DfResult<_>>();
        return Ok(Some(Way::Projected(exprs?)));
    }
    match node.downcast_ref::<AggregateExec>() {
        Some(aggregate) => aggregated(aggregate),
        None => Ok(None),
    }
}

fn aggregated(aggregate: &AggregateExec) -> DfResult<Option<Way>> {
    if aggregate.mode().input_mode() != AggregateInputMode::Raw {
        return Ok(None);
    }
    let schema = aggregate.input().schema();
    let mut changed = false;
    let mut all = Vec::with_capacity(aggregate.aggr_expr().len());
    for one in aggregate.aggr_expr() {
        let args = one.expressions();
        if one.is_reversed() || !any_long(&args.iter().collect::<Vec<_>>(), &schema)? {
            all.push(one.clone());
            continue;
        }
        let of_piece = |(at, arg): (usize, &Expr)| match at > 0 && arg.is::<Literal>() {
            // What the library wants to see as it is.
            true => Ok(arg.clone()),
            false => in_pieces(arg, &schema),
        };
        let args = args.iter().enumerate().map(of_piece).collect::<DfResult<Vec<Expr>>>()?;
        let order = one.order_bys().iter().map(|key| key.expr.clone()).collect();
        let new = one.with_new_expressions(args, order);
        changed |= new.is_some();
        all.push(new.map_or_else(|| one.clone(), Arc::new));
    }
    let groups = aggregate.group_expr();
    let keys: Vec<&Expr> = groups.expr().iter().map(|(key, _)| key).collect();
    let ordered = *aggregate.input_order_mode() != InputOrderMode::Linear
        || all.iter().any(|one| !one.order_bys().is_empty() || one.is_reversed());
    if ordered || !any_long(&keys, &schema)? {
        let new = || Way::As(Arc::new(aggregate.with_new_aggr_exprs(all)));
        return Ok(changed.then(new));
    }
    let key = |(key, name): &(Expr, String)| -> DfResult<(Expr, String)> {
        Ok((in_pieces(key, &schema)?, name.clone()))
    };
    let groups = PhysicalGroupBy::new(
        groups.expr().iter().map(key).collect::<DfResult<_>>()?,
        groups.null_expr().to_vec(),
        groups.groups().to_vec(),
        groups.has_grouping_set(),
    );
    let new = AggregateExec::try_new(
        *aggregate.mode(),
        groups,
        all,
        aggregate.filter_expr().to_vec(),
        aggregate.input().clone(),
        aggregate.input_schema(),
    )?;
    let new = new.with_limit_options(aggregate.limit_options());
    // The rows must be what the step has said that they are.
    Ok((new.schema() == aggregate.schema()).then(|| Way::As(Arc::new(new))))
}

fn any_long(exprs: &[&Expr], schema: &Schema) -> DfResult<bool> {
    for expr in exprs {
        if makes_long(expr, schema)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether values of the type may be of any length.
fn is_long(ty: &DataType) -> bool {
    !(ty.is_primitive()
        || matches!(ty, DataType::Null | DataType::Boolean | DataType::FixedSizeBinary(_)))
}

/// The length of what stands for all rows.
fn scalar_bytes(value: &ScalarValue) -> usize {
    match value {
        ScalarValue::Utf8(Some(text)) | ScalarValue::LargeUtf8(Some(text)) => text.len(),
        ScalarValue::Binary(Some(bytes)) | ScalarValue::LargeBinary(Some(bytes)) => bytes.len(),
        ScalarValue::List(list) => list.get_array_memory_size(),
        _ => 0,
    }
}

/// Whether it works out values that may be long, also on the way to one that is not.
fn makes_long(expr: &Expr, schema: &Schema) -> DfResult<bool> {
    let mut found = false;
    expr.apply(|part| {
        found = match part.downcast_ref::<Literal>() {
            Some(literal) => scalar_bytes(literal.value()) > SHORT_BYTES,
            None => !part.is::<Column>() && is_long(&part.data_type(schema)?),
        };
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// The expression, worked out in pieces where it can be.
fn in_pieces(expr: &Expr, schema: &Schema) -> DfResult<Expr> {
    if expr.is::<Column>() || !makes_long(expr, schema)? {
        return Ok(expr.clone());
    }
    let bounded = expr.clone().transform_up(|part| {
        if let Some(binary) = part.downcast_ref::<BinaryExpr>()
            && *binary.op() == Operator::StringConcat
            && part.data_type(schema)? == DataType::Utf8
        {
            let sides = [binary.left().clone(), binary.right().clone()];
            return Ok(Transformed::yes(Arc::new(Concat { sides }) as Expr));
        }
        match part.downcast_ref::<CaseExpr>() {
            Some(case) if is_long(&part.data_type(schema)?) => {
                Ok(Transformed::yes(with_fitting(case, schema)?))
            }
            _ => Ok(Transformed::no(part)),
        }
    })?;
    let fixed = !is_long(&expr.data_type(schema)?);
    Ok(Arc::new(ByPieces { inner: bounded.data, fixed }))
}

/// CASE whose branches may be there once for each row.
fn with_fitting(case: &CaseExpr, schema: &Schema) -> DfResult<Expr> {
    let branch = |expr: &Expr| -> DfResult<Expr> {
        let once = !expr.is::<Column>() && makes_long(expr, schema)?;
        Ok(if once {
            Arc::new(ByPieces { inner: expr.clone(), fixed: false })
        } else {
            expr.clone()
        })
    };
    let branches = case.when_then_expr().iter();
    let branches = branches
        .map(|(when, then)| -> DfResult<(Expr, Expr)> { Ok((when.clone(), branch(then)?)) });
    let last = case.else_expr().map(branch).transpose()?;
    let new = CaseExpr::try_new(case.expr().cloned(), branches.collect::<DfResult<_>>()?, last)?;
    Ok(Arc::new(new))
}

/// Whether values of rows that were worked on together were too long.
fn is_too_long(e: &DataFusionError) -> bool {
    let ours = |e: &(dyn std::error::Error + 'static)| match e.downcast_ref::<PgError>() {
        Some(e) => e.code == "53200",
        None => e.downcast_ref::<DataFusionError>().is_some_and(is_too_long),
    };
    match e {
        DataFusionError::External(inner) => ours(&**inner),
        DataFusionError::ArrowError(inner, _) => match &**inner {
            ArrowError::ExternalError(inner) => ours(&**inner),
            other => crate::error::is_too_much_text(other),
        },
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => {
            is_too_long(inner)
        }
        DataFusionError::Shared(inner) => is_too_long(inner),
        _ => false,
    }
}

/// The value, if it may be there once for each row.
fn fitting(value: ColumnarValue, rows: usize) -> DfResult<ColumnarValue> {
    if let ColumnarValue::Scalar(scalar) = &value
        && rows > 1
    {
        results_fit(scalar_bytes(scalar).saturating_mul(rows))?;
    }
    Ok(value)
}

/// What is worked out for all rows if that fits; else for some after others if its own values are
/// short.
#[derive(Debug, Eq)]
struct ByPieces {
    inner: Expr,
    fixed: bool,
}

impl PartialEq for ByPieces {
    fn eq(&self, other: &ByPieces) -> bool {
        self.inner.eq(&other.inner) && self.fixed == other.fixed
    }
}

impl Hash for ByPieces {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl fmt::Display for ByPieces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl ByPieces {
    fn of(&self, batch: &RecordBatch) -> DfResult<ColumnarValue> {
        fitting(self.inner.evaluate(batch)?, batch.num_rows())
    }
}

impl PhysicalExpr for ByPieces {
    fn return_field(&self, schema: &Schema) -> DfResult<FieldRef> {
        self.inner.return_field(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> DfResult<ColumnarValue> {
        let rows = batch.num_rows();
        match self.of(batch) {
            Err(e) if self.fixed && rows > 1 && is_too_long(&e) => {}
            other => return other,
        }
        let (mut at, mut size) = (0, rows / 2);
        let mut parts = Vec::new();
        while at < rows {
            check()?;
            let piece = batch.slice(at, size.min(rows - at));
            match self.of(&piece) {
                Ok(value) => {
                    parts.push(value.into_array(piece.num_rows())?);
                    at += piece.num_rows();
                }
                Err(e) if size > 1 && is_too_long(&e) => size /= 2,
                Err(e) => return Err(e),
            }
        }
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        Ok(ColumnarValue::Array(concat(&parts)?))
    }

    fn children(&self) -> Vec<&Expr> {
        vec![&self.inner]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Expr>) -> DfResult<Expr> {
        let inner = children.pop().ok_or_else(|| PgError::internal("pieces of nothing"))?;
        Ok(Arc::new(ByPieces { inner, fixed: self.fixed }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_sql(f)
    }
}

/// `||` of texts, whose length is known before it is made.
#[derive(Debug, Eq)]
struct Concat {
    sides: [Expr; 2],
}

impl PartialEq for Concat {
    fn eq(&self, other: &Concat) -> bool {
        self.sides.iter().zip(&other.sides).all(|(a, b)| a.eq(b))
    }
}

impl Hash for Concat {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.sides.iter().for_each(|side| side.hash(state));
    }
}

impl fmt::Display for Concat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} || {}", self.sides[0], self.sides[1])
    }
}

/// Texts of rows, or the one of all of them.
enum Texts {
    Each(ArrayRef),
    All(Option<String>),
}

impl Texts {
    fn of(value: ColumnarValue) -> DfResult<Texts> {
        Ok(match value {
            ColumnarValue::Scalar(ScalarValue::Utf8(text)) => Texts::All(text),
            ColumnarValue::Scalar(ScalarValue::Null) => Texts::All(None),
            ColumnarValue::Scalar(other) => Texts::Each(other.to_array()?),
            ColumnarValue::Array(array) => Texts::Each(array),
        })
    }

    fn bytes(&self, rows: usize) -> usize {
        match self {
            Texts::Each(array) => array.as_string_opt::<i32>().map_or(0, |texts| {
                let ends = texts.value_offsets();
                let bytes = ends.last().zip(ends.first()).map_or(0, |(last, first)| last - first);
                usize::try_from(bytes).unwrap_or(0)
            }),
            Texts::All(text) => text.as_ref().map_or(0, String::len).saturating_mul(rows),
        }
    }

    fn column(&self) -> DfResult<Option<&StringArray>> {
        match self {
            Texts::All(_) => Ok(None),
            Texts::Each(array) => match array.as_string_opt::<i32>() {
                Some(texts) => Ok(Some(texts)),
                None => Err(PgError::internal("a text of another type").into()),
            },
        }
    }

    fn get<'a>(&'a self, column: Option<&'a StringArray>, row: usize) -> Option<&'a str> {
        match (self, column) {
            (Texts::All(text), _) => text.as_deref(),
            (Texts::Each(_), Some(texts)) => texts.is_valid(row).then(|| texts.value(row)),
            (Texts::Each(_), None) => None,
        }
    }
}

impl PhysicalExpr for Concat {
    fn return_field(&self, schema: &Schema) -> DfResult<FieldRef> {
        let [left, right] = &self.sides;
        BinaryExpr::new(left.clone(), Operator::StringConcat, right.clone()).return_field(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> DfResult<ColumnarValue> {
        let left = Texts::of(self.sides[0].evaluate(batch)?)?;
        let right = Texts::of(self.sides[1].evaluate(batch)?)?;
        if let (Texts::All(a), Texts::All(b)) = (&left, &right) {
            results_fit(left.bytes(1).saturating_add(right.bytes(1)))?;
            let text = a.as_ref().zip(b.as_ref()).map(|(a, b)| [a.as_str(), b.as_str()].concat());
            return Ok(ColumnarValue::Scalar(ScalarValue::Utf8(text)));
        }
        let rows = batch.num_rows();
        let bytes = left.bytes(rows).saturating_add(right.bytes(rows));
        results_fit(bytes)?;
        if i32::try_from(bytes).is_err() {
            return Err(crate::error::too_much_text().into());
        }
        let (a, b) = (left.column()?, right.column()?);
        let mut out = StringBuilder::with_capacity(rows, bytes);
        for row in 0..rows {
            match (left.get(a, row), right.get(b, row)) {
                (Some(first), Some(second)) => {
                    // Two writes of one value.
                    fmt::Write::write_str(&mut out, first).map_err(PgError::internal)?;
                    out.append_value(second);
                }
                _ => out.append_null(),
            }
        }
        Ok(ColumnarValue::Array(Arc::new(out.finish())))
    }

    fn children(&self) -> Vec<&Expr> {
        self.sides.iter().collect()
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Expr>) -> DfResult<Expr> {
        let sides = <[Expr; 2]>::try_from(children);
        let sides = sides.map_err(|_| PgError::internal("texts of other than two sides"))?;
        Ok(Arc::new(Concat { sides }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sides[0].fmt_sql(f)?;
        f.write_str(" || ")?;
        self.sides[1].fmt_sql(f)
    }
}

/// Rows of a projection, as many at a time as fit.
struct Projected {
    input: SendableRecordBatchStream,
    exprs: Vec<Expr>,
    schema: SchemaRef,
    /// A batch that was begun, and its row that comes next.
    open: Option<(RecordBatch, usize)>,
    /// Rows of the next piece.
    size: usize,
    metrics: BaselineMetrics,
}

/// The rows of these expressions.
pub(crate) fn projected(
    input: SendableRecordBatchStream,
    exprs: &[Expr],
    schema: SchemaRef,
    metrics: BaselineMetrics,
) -> SendableRecordBatchStream {
    let (exprs, of_rows) = (exprs.to_vec(), schema.clone());
    let rows = Projected { input, exprs, schema, open: None, size: usize::MAX, metrics };
    let rows = futures::stream::try_unfold(rows, |mut rows| async move {
        Ok(rows.next().await?.map(|batch| (batch, rows)))
    });
    env::boxed!(RecordBatchStreamAdapter::new(of_rows, rows))
}

impl Projected {
    async fn next(&mut self) -> DfResult<Option<RecordBatch>> {
        let (batch, at) = match self.open.take() {
            Some(open) => open,
            None => match self.input.next().await.transpose()? {
                Some(batch) => (batch, 0),
                None => return Ok(None),
            },
        };
        loop {
            check()?;
            let piece = batch.slice(at, self.size.min(batch.num_rows() - at));
            let rows = piece.num_rows();
            match self.of(&piece) {
                Ok(made) => {
                    if at + rows < batch.num_rows() {
                        self.open = Some((batch, at + rows));
                    }
                    self.size = self.size.saturating_mul(2);
                    self.metrics.record_output(rows);
                    return Ok(Some(made));
                }
                Err(e) if rows > 1 && is_too_long(&e) => self.size = rows / 2,
                Err(e) => return Err(e),
            }
        }
    }

    fn of(&self, piece: &RecordBatch) -> DfResult<RecordBatch> {
        let _timer = self.metrics.elapsed_compute().timer();
        let rows = piece.num_rows();
        let columns = self.exprs.iter().map(|expr| expr.evaluate(piece)?.into_array(rows));
        let columns = columns.collect::<DfResult<Vec<ArrayRef>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?)
    }
}
