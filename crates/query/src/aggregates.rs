//! What `sum` and `avg` add up: PostgreSQL gives `sum(bigint)` and `avg` of integers as numeric, so
//! their argument is
//! converted before DataFusion's accumulators see it.

use crate::arith::rescale;
use crate::arrow_rows::{ColumnReader, single_column};
use crate::cast::to_numeric;
use crate::error::PgError;
use crate::types::col_type_of;
use datafusion::arrow::array::Array;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use kernel::row::{ColType, Datum, TypeKind, Value};
use std::sync::Arc;

/// Digits after the point inside `avg`; DataFusion adds four.
const AVG_SCALE: i8 = 12;

#[derive(Debug, PartialEq, Eq, Hash)]
struct AggregateArgument {
    avg: bool,
    signature: Signature,
}

/// The conversion for `avg`, or for `sum`.
#[must_use]
pub fn argument_function(avg: bool) -> Arc<ScalarUDF> {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(AggregateArgument { avg, signature }))
}

impl AggregateArgument {
    fn target(&self, from: &DataType) -> DataType {
        match from {
            DataType::Int8 | DataType::Int16 | DataType::Int32 if !self.avg => DataType::Int64,
            DataType::Int64 | DataType::UInt64 if !self.avg => DataType::Decimal128(38, 0),
            ty if self.avg && ty.is_integer() => DataType::Decimal128(38, AVG_SCALE),
            DataType::Decimal128(_, scale) if self.avg => {
                DataType::Decimal128(38, (*scale).max(AVG_SCALE))
            }
            other => other.clone(),
        }
    }
}

impl ScalarUDFImpl for AggregateArgument {
    fn name(&self) -> &str {
        if self.avg { "$avg_argument" } else { "$sum_argument" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        let kind = col_type_of(&types[0]).map(|ty| ty.kind);
        if self.avg && matches!(kind, Some(TypeKind::Interval | TypeKind::Time)) {
            return Err(PgError::unsupported("avg of times and intervals").into());
        }
        Ok(self.target(&types[0]))
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> DfResult<ExprSimplifyResult> {
        let from = info.get_data_type(&args[0])?;
        let to = self.target(&from);
        let mut args = args;
        let arg = args.swap_remove(0);
        Ok(ExprSimplifyResult::Simplified(if from == to {
            arg
        } else {
            datafusion::logical_expr::cast(arg, to)
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let array = args.args[0].to_array(args.number_rows)?;
        let to = args.return_field.data_type();
        let DataType::Decimal128(_, scale) = to else {
            return Ok(ColumnarValue::Array(datafusion::arrow::compute::cast(&array, to)?));
        };
        let scale = u8::try_from(*scale).unwrap_or(0);
        let reader = ColumnReader::new(&array, &args.arg_fields[0])?;
        let mut values = Vec::with_capacity(array.len());
        for row in 0..array.len() {
            values.push(match reader.get(row) {
                Datum::Null => Value::Null,
                datum => {
                    let (v, s) = to_numeric(&datum)?;
                    let v = rescale(v, s, scale).ok_or_else(|| PgError::out_of_range("numeric"))?;
                    Value::Numeric(v, scale)
                }
            });
        }
        let out = single_column(ColType::new(TypeKind::Numeric), to, &values)?;
        Ok(match &args.args[0] {
            ColumnarValue::Scalar(_) if out.len() == 1 => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&out, 0)?)
            }
            _ => ColumnarValue::Array(out),
        })
    }
}
