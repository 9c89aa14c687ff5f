//! `round`, `trunc`, `ceil`, `floor` with PostgreSQL's types: numerics stay numerics with as many
//! digits as asked for,
//! everything else is double precision.

use crate::arith::rescale;
use crate::arrow_rows::{ColumnReader, single_column};
use crate::cast::{to_f64, to_numeric};
use crate::error::{PgError, Result};
use datafusion::arrow::array::Array;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use kernel::row::{ColType, Datum, TypeKind, Value};
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Way {
    Round,
    Trunc,
    Ceil,
    Floor,
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct Rounding {
    way: Way,
    signature: Signature,
}

/// The four functions.
#[must_use]
pub fn rounding_functions() -> Vec<Arc<ScalarUDF>> {
    [Way::Round, Way::Trunc, Way::Ceil, Way::Floor]
        .into_iter()
        .map(|way| {
            let signature = Signature::variadic_any(Volatility::Immutable);
            Arc::new(ScalarUDF::new_from_impl(Rounding { way, signature }))
        })
        .collect()
}

/// The second argument, if it is a literal between 0 and 38.
fn digits_of(value: Option<&ScalarValue>) -> Option<u8> {
    let digits = match value? {
        ScalarValue::Int16(Some(v)) => i64::from(*v),
        ScalarValue::Int32(Some(v)) => i64::from(*v),
        ScalarValue::Int64(Some(v)) => *v,
        _ => return None,
    };
    u8::try_from(digits).ok().filter(|d| *d <= 38)
}

impl Rounding {
    fn numeric(&self, datum: &Datum<'_>, digits: u8) -> Result<Value> {
        let (value, scale) = to_numeric(datum)?;
        let range = || PgError::out_of_range("numeric");
        if digits >= scale {
            return Ok(Value::Numeric(rescale(value, scale, digits).ok_or_else(range)?, digits));
        }
        let unit = crate::arith::pow10(u32::from(scale - digits)).ok_or_else(range)?;
        let whole = match self.way {
            Way::Round => rescale(value, scale, digits).ok_or_else(range)?,
            Way::Trunc => value / unit,
            Way::Floor => value.div_euclid(unit),
            Way::Ceil => -(-value).div_euclid(unit),
        };
        Ok(Value::Numeric(whole, digits))
    }

    fn float8(&self, datum: &Datum<'_>) -> Result<Value> {
        let v = to_f64(datum)?;
        Ok(Value::Float8(match self.way {
            Way::Round => v.round_ties_even(),
            Way::Trunc => v.trunc(),
            Way::Ceil => v.ceil(),
            Way::Floor => v.floor(),
        }))
    }
}

impl ScalarUDFImpl for Rounding {
    fn name(&self) -> &'static str {
        match self.way {
            Way::Round => "round",
            Way::Trunc => "trunc",
            Way::Ceil => "ceil",
            Way::Floor => "floor",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        Ok(match types.first() {
            Some(DataType::Decimal128(..)) => DataType::Decimal128(38, 0),
            _ => DataType::Float64,
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        let first = args.arg_fields.first().map(|f| f.data_type());
        let two = args.arg_fields.len() == 2;
        if args.arg_fields.is_empty()
            || args.arg_fields.len() > 2
            || (two && matches!(self.way, Way::Ceil | Way::Floor))
        {
            let name = self.name();
            let message = format!("function {name} does not exist with these arguments");
            return Err(PgError::new("42883", message).into());
        }
        let ty = match (first, two) {
            (Some(DataType::Decimal128(..)), false) => DataType::Decimal128(38, 0),
            (Some(ty), true) if matches!(ty, DataType::Decimal128(..)) || ty.is_integer() => {
                match digits_of(args.scalar_arguments.get(1).copied().flatten()) {
                    Some(digits) => DataType::Decimal128(38, digits.cast_signed()),
                    None => {
                        let what = "rounding to digits that are not a literal from 0 to 38";
                        return Err(PgError::unsupported(what).into());
                    }
                }
            }
            (_, true) => {
                let name = self.name();
                let message = format!("function {name}(double precision, integer) does not exist");
                return Err(PgError::new("42883", message).into());
            }
            _ => DataType::Float64,
        };
        Ok(Arc::new(Field::new(self.name(), ty, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let constant = matches!(args.args[0], ColumnarValue::Scalar(_));
        let rows = if constant { 1 } else { args.number_rows };
        let array = args.args[0].to_array(rows)?;
        let reader = ColumnReader::new(&array, &args.arg_fields[0])?;
        let to = args.return_field.data_type();
        let mut out = Vec::with_capacity(rows);
        for row in 0..array.len() {
            let datum = reader.get(row);
            out.push(match to {
                _ if datum.is_null() => Value::Null,
                DataType::Decimal128(_, digits) => {
                    self.numeric(&datum, u8::try_from(*digits).unwrap_or(0))?
                }
                _ => self.float8(&datum)?,
            });
        }
        let kind = match to {
            DataType::Decimal128(..) => TypeKind::Numeric,
            _ => TypeKind::Float8,
        };
        let array = single_column(ColType::new(kind), to, &out)?;
        Ok(if constant {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?)
        } else {
            ColumnarValue::Array(array)
        })
    }
}
