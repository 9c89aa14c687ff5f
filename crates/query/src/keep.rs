//! Aggregates over the first or the last rows of an order, the field's
//! `max(x) KEEP (DENSE_RANK FIRST ORDER BY y)`.
//!
//! What it promises: all rows with the first (or last) key take part, and no others; NULLs among
//! the keys stand where the order puts them. What it must never do: hold more than the best key and
//! what the aggregate holds of its rows.

use crate::error::PgError;
use crate::types::col_type_of;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use datafusion::arrow::compute::filter;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float32Type, Float64Type, Schema};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::ScalarValue;
use datafusion::error::Result as DfResult;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::PhysicalExpr;
use kernel::row::TypeKind;
use std::cmp::Ordering;
use std::sync::Arc;

const FIRST: &str = "$keep_first_";
const LAST: &str = "$keep_last_";

/// The aggregates that there are of this kind, each with the name of the function that it is.
const AGGREGATES: [(&str, &str); 7] = [
    ("avg", "avg"),
    ("count", "count"),
    ("max", "max"),
    ("min", "min"),
    ("stddev", "stddev"),
    ("sum", "sum"),
    ("variance", "var_samp"),
];

/// The function that stands for an aggregate over the first or the last rows; its order stands
/// behind its argument. `None`: there is none.
#[must_use]
pub fn name_of(aggregate: &str, last: bool) -> Option<String> {
    let known = AGGREGATES.iter().any(|(name, _)| *name == aggregate);
    known.then(|| format!("{}{aggregate}", if last { LAST } else { FIRST }))
}

fn known(name: &str) -> Option<(&'static str, &'static str)> {
    let aggregate = name.strip_prefix(FIRST).or_else(|| name.strip_prefix(LAST))?;
    AGGREGATES.into_iter().find(|(known, _)| *known == aggregate)
}

/// The aggregate that a function of this name is over the first or the last rows.
#[must_use]
pub fn aggregate_of(name: &str) -> Option<&'static str> {
    known(name).map(|(aggregate, _)| aggregate)
}

/// Whether such an aggregate is one over the last rows.
#[must_use]
pub fn keeps_last(name: &str) -> bool {
    name.starts_with(LAST)
}

/// The function that such an aggregate is over all rows.
pub(crate) fn function_of(name: &str) -> Option<&'static str> {
    known(name).map(|(_, function)| function)
}

/// All of them.
pub(crate) fn aggregates() -> Vec<Arc<AggregateUDF>> {
    let mut all = Vec::with_capacity(2 * AGGREGATES.len());
    for (aggregate, function) in AGGREGATES {
        let inner = match function {
            "avg" => Some(crate::real_sum::avg()),
            "count" => Some(count_udaf()),
            "max" => Some(max_udaf()),
            "min" => Some(min_udaf()),
            "sum" => Some(crate::real_sum::sum()),
            other => {
                let mut ours = crate::statistics::aggregates().into_iter();
                ours.find(|one| one.name() == other)
            }
        };
        let Some(inner) = inner else { continue };
        for (prefix, last) in [(FIRST, false), (LAST, true)] {
            let kept = Kept {
                name: format!("{prefix}{aggregate}"),
                function,
                last,
                inner: inner.clone(),
                signature: Signature::any(1, Volatility::Immutable),
            };
            all.push(Arc::new(AggregateUDF::new_from_impl(kept)));
        }
    }
    all
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Kept {
    name: String,
    function: &'static str,
    last: bool,
    inner: Arc<AggregateUDF>,
    signature: Signature,
}

impl Kept {
    /// The aggregate of values of this type.
    fn of_type(&self, ty: &DataType) -> Result<Arc<AggregateUDF>, PgError> {
        let refused = match (self.function, col_type_of(ty).map(|ty| ty.kind)) {
            ("min" | "max", Some(TypeKind::Array)) => Some("arrays"),
            ("sum" | "avg" | "stddev" | "var_samp", Some(TypeKind::Time)) => Some("times"),
            ("stddev" | "var_samp", Some(TypeKind::Interval)) => Some("intervals"),
            _ => None,
        };
        if let Some(what) = refused {
            return Err(PgError::unsupported(format!("{} of {what}", self.function)));
        }
        let own = match ty {
            DataType::Interval(_) => crate::interval_aggregates::of_name(self.function),
            _ => None,
        };
        Ok(own.unwrap_or_else(|| self.inner.clone()))
    }
}

impl AggregateUDFImpl for Kept {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        self.of_type(&types[0])?.return_type(types)
    }

    fn is_nullable(&self) -> bool {
        self.inner.is_nullable()
    }

    fn default_value(&self, ty: &DataType) -> DfResult<ScalarValue> {
        self.inner.default_value(ty)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> DfResult<Box<dyn Accumulator>> {
        if args.is_distinct {
            return Err(PgError::unsupported("DISTINCT beside KEEP").into());
        }
        let keys = args
            .order_bys
            .iter()
            .map(|one| {
                let ty = one.expr.data_type(args.schema)?;
                Ok(SortField::new_with_options(ty, one.options))
            })
            .collect::<DfResult<Vec<SortField>>>()?;
        if keys.is_empty() {
            return Err(PgError::syntax("KEEP without ORDER BY").into());
        }
        let over = Over {
            inner: self.of_type(args.expr_fields[0].data_type())?,
            return_field: args.return_field.clone(),
            schema: args.schema.clone(),
            name: args.name.to_owned(),
            exprs: args.exprs.to_vec(),
            expr_fields: args.expr_fields.to_vec(),
        };
        let inner = over.begin()?;
        let converter = RowConverter::new(keys)?;
        Ok(Box::new(Best { over, last: self.last, converter, key: None, inner }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> DfResult<Vec<FieldRef>> {
        let key = Field::new(format!("{}[key]", args.name), DataType::Binary, true);
        let inner = self.of_type(args.input_fields[0].data_type())?;
        let mut all: Vec<FieldRef> = vec![Arc::new(key)];
        all.extend(inner.state_fields(StateFieldsArgs {
            name: args.name,
            input_fields: args.input_fields,
            return_field: args.return_field.clone(),
            ordering_fields: &[],
            is_distinct: false,
        })?);
        Ok(all)
    }

    // It compares by itself: the library is not to sort its input, but is to hand over the keys.
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Beneficial
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        _sorted: bool,
    ) -> DfResult<Option<Arc<dyn AggregateUDFImpl>>> {
        Ok(Some(self))
    }
}

/// An aggregate, and all that it takes to begin it anew.
#[derive(Debug)]
struct Over {
    inner: Arc<AggregateUDF>,
    return_field: FieldRef,
    schema: Schema,
    name: String,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    expr_fields: Vec<FieldRef>,
}

impl Over {
    fn begin(&self) -> DfResult<Box<dyn Accumulator>> {
        self.inner.accumulator(AccumulatorArgs {
            return_field: self.return_field.clone(),
            schema: &self.schema,
            ignore_nulls: false,
            order_bys: &[],
            is_reversed: false,
            name: &self.name,
            is_distinct: false,
            exprs: &self.exprs,
            expr_fields: &self.expr_fields,
        })
    }
}

/// The aggregate over the rows with the best key so far.
#[derive(Debug)]
struct Best {
    over: Over,
    last: bool,
    converter: RowConverter,
    /// `None`: there was no row.
    key: Option<Box<[u8]>>,
    inner: Box<dyn Accumulator>,
}

/// Whether a key is better than the one that it compares with.
fn is_better(last: bool, order: Ordering) -> bool {
    if last { order.is_gt() } else { order.is_lt() }
}

/// A key's column with one zero: in the rows' form the one below zero is another key.
pub(crate) fn with_one_zero(key: &ArrayRef) -> ArrayRef {
    match key.data_type() {
        DataType::Float64 => {
            Arc::new(key.as_primitive::<Float64Type>().unary::<_, Float64Type>(|v| v + 0.0))
        }
        DataType::Float32 => {
            Arc::new(key.as_primitive::<Float32Type>().unary::<_, Float32Type>(|v| v + 0.0))
        }
        _ => key.clone(),
    }
}

/// The chosen rows of these columns.
fn of_rows(columns: &[ArrayRef], chosen: &BooleanArray) -> DfResult<Vec<ArrayRef>> {
    if chosen.true_count() == chosen.len() {
        return Ok(columns.to_vec());
    }
    columns.iter().map(|column| Ok(filter(column.as_ref(), chosen)?)).collect()
}

impl Best {
    /// Whether rows with this key take part. Where it is better than that of the rows so far, those
    /// do not any more.
    fn admits(&mut self, key: &[u8]) -> DfResult<bool> {
        match self.key.as_deref().map(|known| key.cmp(known)) {
            Some(Ordering::Equal) => return Ok(true),
            Some(order) if !is_better(self.last, order) => return Ok(false),
            Some(_) => self.inner = self.over.begin()?,
            // The aggregate has seen nothing yet.
            None => {}
        }
        self.key = Some(key.into());
        Ok(true)
    }
}

impl Accumulator for Best {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        let (args, keys) = values.split_at(self.over.exprs.len());
        if args[0].is_empty() {
            return Ok(());
        }
        let keys: Vec<ArrayRef> = keys.iter().map(with_one_zero).collect();
        let rows = self.converter.convert_columns(&keys)?;
        let mut best = rows.row(0);
        for row in rows.iter().skip(1) {
            if is_better(self.last, row.cmp(&best)) {
                best = row;
            }
        }
        if !self.admits(best.as_ref())? {
            return Ok(());
        }
        let chosen: BooleanArray = rows.iter().map(|row| Some(row == best)).collect();
        self.inner.update_batch(&of_rows(args, &chosen)?)
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        self.inner.evaluate()
    }

    fn size(&self) -> usize {
        let key = self.key.as_ref().map_or(0, |key| key.len());
        size_of_val(self) + key + self.converter.size() + self.inner.size()
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        let key = self.key.as_ref().map(|key| key.to_vec());
        let mut all = vec![ScalarValue::Binary(key)];
        all.extend(self.inner.state()?);
        Ok(all)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        let keys = states[0].as_binary::<i32>();
        let mut best: Option<&[u8]> = None;
        for key in keys.iter().flatten() {
            if best.is_none_or(|best| is_better(self.last, key.cmp(best))) {
                best = Some(key);
            }
        }
        let Some(key) = best else { return Ok(()) };
        if !self.admits(key)? {
            return Ok(());
        }
        let chosen: BooleanArray = keys.iter().map(|one| Some(one == Some(key))).collect();
        self.inner.merge_batch(&of_rows(&states[1..], &chosen)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_is_kept() {
        assert_eq!(name_of("max", true).as_deref(), Some("$keep_last_max"));
        assert_eq!(name_of("listagg", true), None);
        assert_eq!(aggregate_of("$keep_first_variance"), Some("variance"));
        assert_eq!(function_of("$keep_first_variance"), Some("var_samp"));
        assert_eq!(aggregate_of("max"), None);
        assert!(keeps_last("$keep_last_max") && !keeps_last("$keep_first_max"));
        let all = aggregates();
        assert_eq!(all.len(), 2 * AGGREGATES.len());
        assert!(all.iter().all(|one| aggregate_of(one.name()).is_some()));
    }
}
