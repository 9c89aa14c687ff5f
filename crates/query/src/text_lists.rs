//! `string_agg` that gives texts as all other functions do.
//!
//! The library's gives texts of another type of its own, which its functions of several arguments
//! (`coalesce(string_agg(..), '')`) then mix with ordinary ones where there are no rows.
//!
//! What it promises: the library's result, cast. What it must never do: change what is kept of a
//! group meanwhile.

use datafusion::arrow::array::{ArrayRef, BooleanArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, Signature,
};
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

/// What it gives.
const TEXT: DataType = DataType::Utf8;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct TextList {
    inner: Arc<AggregateUDF>,
}

/// The function around the library's.
pub(crate) fn of(inner: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::new_from_impl(TextList { inner }))
}

impl TextList {
    /// As the library's own is called.
    fn inner_args<'a>(&self, args: AccumulatorArgs<'a>) -> DfResult<AccumulatorArgs<'a>> {
        Ok(AccumulatorArgs { return_field: self.inner_field(&args.return_field)?, ..args })
    }

    fn inner_field(&self, field: &Field) -> DfResult<FieldRef> {
        Ok(Arc::new(field.clone().with_data_type(self.inner.return_type(&[])?)))
    }
}

impl AggregateUDFImpl for TextList {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, _types: &[DataType]) -> DfResult<DataType> {
        Ok(TEXT)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> DfResult<Vec<FieldRef>> {
        let return_field = self.inner_field(&args.return_field)?;
        self.inner.state_fields(StateFieldsArgs { return_field, ..args })
    }

    fn accumulator(&self, args: AccumulatorArgs) -> DfResult<Box<dyn Accumulator>> {
        let inner = self.inner.accumulator(self.inner_args(args)?)?;
        Ok(Box::new(Texts { inner }))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> DfResult<Box<dyn GroupsAccumulator>> {
        let inner = self.inner.create_groups_accumulator(self.inner_args(args)?)?;
        Ok(Box::new(Texts { inner }))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        // The library's is its own reverse.
        ReversedUDAF::Reversed(Arc::new(AggregateUDF::new_from_impl(self.clone())))
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.inner.supports_null_handling_clause()
    }
}

/// What the library keeps of a group, or of several.
#[derive(Debug)]
struct Texts<A: ?Sized> {
    inner: Box<A>,
}

impl Accumulator for Texts<dyn Accumulator> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        self.inner.update_batch(values)
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        self.inner.evaluate()?.cast_to(&TEXT)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        self.inner.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        self.inner.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}

impl GroupsAccumulator for Texts<dyn GroupsAccumulator> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> DfResult<()> {
        self.inner.update_batch(values, groups, filter, total)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> DfResult<ArrayRef> {
        Ok(cast(&self.inner.evaluate(emit_to)?, &TEXT)?)
    }

    fn state(&mut self, emit_to: EmitTo) -> DfResult<Vec<ArrayRef>> {
        self.inner.state(emit_to)
    }

    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], total: usize) -> DfResult<()> {
        self.inner.merge_batch(values, groups, total)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> DfResult<Vec<ArrayRef>> {
        self.inner.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }
}
