//! `information_schema._pg_expandarray`: the elements of a vector with their positions.
//!
//! What it promises: one list of pairs `(x, n)` for each vector, to be unnested; the vectors are
//! arrays, or vectors of the catalog.

use crate::arrow_rows::ColumnReader;
use datafusion::arrow::array::{Array, Int32Builder, Int64Builder, ListArray, StructArray};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::Result as DfResult;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use kernel::row::{ArrayView, Datum};
use std::sync::Arc;

/// Its name in plans.
pub const EXPAND: &str = "$expandarray";

#[derive(Debug, PartialEq, Eq, Hash)]
struct Expand {
    signature: Signature,
}

#[must_use]
pub fn expand_function() -> Arc<ScalarUDF> {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(Expand { signature }))
}

fn fields() -> Fields {
    Fields::from(vec![
        Field::new("x", DataType::Int64, true),
        Field::new("n", DataType::Int32, true),
    ])
}

fn item() -> Arc<Field> {
    Arc::new(Field::new_list_field(DataType::Struct(fields()), true))
}

impl ScalarUDFImpl for Expand {
    fn name(&self) -> &'static str {
        EXPAND
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::List(item()))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let vectors = args.args[0].to_array(args.number_rows)?;
        let vectors = ColumnReader::new(&vectors, &args.arg_fields[0])?;
        let (mut xs, mut ns) = (Int64Builder::new(), Int32Builder::new());
        let mut lengths = Vec::with_capacity(args.number_rows);
        for row in 0..args.number_rows {
            let mut length = 0;
            if let Datum::Array(bytes) = vectors.get(row) {
                for element in ArrayView::new(bytes).iter() {
                    length += 1;
                    xs.append_option(match element {
                        Datum::Int2(v) => Some(i64::from(v)),
                        Datum::Int4(v) => Some(i64::from(v)),
                        Datum::Int8(v) => Some(v),
                        _ => None,
                    });
                    ns.append_value(i32::try_from(length).unwrap_or(i32::MAX));
                }
            }
            lengths.push(length);
        }
        let columns: Vec<Arc<dyn Array>> = vec![Arc::new(xs.finish()), Arc::new(ns.finish())];
        let pairs = StructArray::try_new(fields(), columns, None)?;
        let offsets = OffsetBuffer::from_lengths(lengths);
        let list = ListArray::try_new(item(), offsets, Arc::new(pairs), None)?;
        Ok(ColumnarValue::Array(Arc::new(list)))
    }
}
