//! What aggregates are given: types that PostgreSQL's aggregate of the name does not take are an
//! error, and what `sum` and `avg` add up is converted before DataFusion's accumulators see it,
//! since PostgreSQL gives `sum(bigint)` and `avg` of integers as numeric.

use crate::arith::rescale;
use crate::arrow_rows::{ColumnReader, single_column};
use crate::cast::to_numeric;
use crate::error::PgError;
use crate::functions::{RowFunction, format_type};
use crate::scalar::common_number;
use crate::types::{col_type_of, pg_type_of_field};
use datafusion::arrow::array::Array;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use kernel::row::{ColType, Datum, TypeKind, Value};
use std::sync::Arc;

/// Digits after the point inside `avg`; DataFusion adds four, and cuts what is beyond them.
const AVG_SCALE: i8 = 14;
/// Digits after the point that `avg` shows at least.
const AVG_SHOWN: u8 = 16;

/// Digits after the point of an average that the library gives with so many: those of what is
/// averaged, and 16 at least.
fn average_scale(of_library: u8) -> u8 {
    of_library.saturating_sub(4).max(AVG_SHOWN)
}

/// The average with as many digits as are shown, rounded; double precision and intervals are left
/// alone.
#[must_use]
pub fn average_function() -> Arc<ScalarUDF> {
    let numeric = ColType::new(TypeKind::Numeric);
    let function = RowFunction::new("$average", Some(1), numeric, true, |args| match &args[0] {
        Datum::Numeric(v, scale) => {
            let shown = average_scale(*scale);
            let range = || PgError::out_of_range("numeric");
            Ok(Value::Numeric(rescale(*v, *scale, shown).ok_or_else(range)?, shown))
        }
        other => Ok(other.to_value()),
    });
    let function = function.returning(|fields, _| {
        Ok(match fields.first().map(|field| field.data_type()) {
            Some(DataType::Decimal128(_, scale)) => {
                let scale = u8::try_from(*scale).unwrap_or(0);
                ColType::numeric(38, average_scale(scale))
            }
            Some(DataType::Interval(_)) => ColType::new(TypeKind::Interval),
            _ => ColType::new(TypeKind::Float8),
        })
    });
    function.into_udf()
}

/// The first argument of an aggregate, checked and converted; the others are only looked at.
#[derive(Debug, PartialEq, Eq, Hash)]
struct AggregateArgument {
    aggregate: String,
    name: String,
    signature: Signature,
}

/// What an aggregate takes.
#[derive(Clone, Copy, PartialEq)]
enum Takes {
    Anything,
    Numbers,
    Integers,
    Truths,
    Texts,
    /// What has an order, with PostgreSQL's exceptions.
    Ordered,
}

fn takes(aggregate: &str) -> Takes {
    match aggregate {
        "sum" | "avg" | "stddev" | "stddev_pop" | "stddev_samp" | "var_pop" | "var_samp"
        | "corr" | "covar_pop" | "covar_samp" | "regr_avgx" | "regr_avgy" | "regr_count"
        | "regr_intercept" | "regr_r2" | "regr_slope" | "regr_sxx" | "regr_sxy" | "regr_syy" => {
            Takes::Numbers
        }
        "bit_and" | "bit_or" | "bit_xor" => Takes::Integers,
        "bool_and" | "bool_or" => Takes::Truths,
        "string_agg" => Takes::Texts,
        "min" | "max" => Takes::Ordered,
        _ => Takes::Anything,
    }
}

/// Whether the arguments of an aggregate are looked at.
#[must_use]
pub fn is_checked(aggregate: &str) -> bool {
    takes(aggregate) != Takes::Anything
}

impl Takes {
    fn kind(self, kind: TypeKind) -> bool {
        let number = common_number(kind, kind).is_some();
        match self {
            Takes::Anything => true,
            // Sums of intervals are refused by name where orders are looked at.
            Takes::Numbers => number || matches!(kind, TypeKind::Interval | TypeKind::Time),
            Takes::Integers => matches!(kind, TypeKind::Int2 | TypeKind::Int4 | TypeKind::Int8),
            Takes::Truths => kind == TypeKind::Bool,
            Takes::Texts => kind.is_text() || kind == TypeKind::Bytea,
            Takes::Ordered => !matches!(
                kind,
                TypeKind::Bool
                    | TypeKind::Bytea
                    | TypeKind::Uuid
                    | TypeKind::Json
                    | TypeKind::Jsonb
            ),
        }
    }
}

/// The function around the arguments of an aggregate.
#[must_use]
pub fn argument_function(aggregate: &str) -> Arc<ScalarUDF> {
    let signature = Signature::variadic_any(Volatility::Immutable);
    let name = format!("${aggregate}_argument");
    let aggregate = aggregate.to_owned();
    Arc::new(ScalarUDF::new_from_impl(AggregateArgument { aggregate, name, signature }))
}

impl AggregateArgument {
    fn target(&self, from: &DataType) -> DataType {
        let avg = self.aggregate == "avg";
        match from {
            _ if !avg && self.aggregate != "sum" => from.clone(),
            DataType::Int8 | DataType::Int16 | DataType::Int32 if !avg => DataType::Int64,
            DataType::Int64 | DataType::UInt64 if !avg => DataType::Decimal128(38, 0),
            ty if avg && ty.is_integer() => DataType::Decimal128(38, AVG_SCALE),
            DataType::Float16 | DataType::Float32 if avg => DataType::Float64,
            DataType::Decimal128(_, scale) if avg => {
                DataType::Decimal128(38, (*scale).max(AVG_SCALE))
            }
            other => other.clone(),
        }
    }

    fn check(&self, args: &ReturnFieldArgs<'_>) -> Result<(), PgError> {
        let takes = takes(&self.aggregate);
        let untyped = |at: usize| {
            let field = &args.arg_fields[at];
            let literal = args.scalar_arguments.get(at).copied().flatten();
            *field.data_type() == DataType::Null
                || matches!(literal, Some(ScalarValue::Utf8(_) | ScalarValue::Null))
        };
        let shown = || -> String {
            let types = args.arg_fields.iter().enumerate().map(|(at, field)| {
                if untyped(at) {
                    return "unknown".to_owned();
                }
                format_type(i64::from(pg_type_of_field(field).oid), -1)
            });
            format!("{}({})", self.aggregate, types.collect::<Vec<_>>().join(", "))
        };
        let refused = |(at, field): (usize, &FieldRef)| {
            let both = !matches!(takes, Takes::Texts) || at == 0;
            both && !untyped(at)
                && col_type_of(field.data_type()).is_none_or(|ty| !takes.kind(ty.kind))
        };
        if args.arg_fields.iter().enumerate().any(refused) {
            return Err(PgError::new("42883", format!("function {} does not exist", shown()))
                .with_hint(NO_FUNCTION));
        }
        let several = matches!(takes, Takes::Numbers | Takes::Integers)
            && args.arg_fields.len() == 1
            && untyped(0);
        if several {
            return Err(PgError::new("42725", format!("function {} is not unique", shown()))
                .with_hint(NOT_UNIQUE));
        }
        Ok(())
    }
}

const NO_FUNCTION: &str = "No function matches the given name and argument types. You might need \
                           to add explicit type casts.";
const NOT_UNIQUE: &str =
    "Could not choose a best candidate function. You might need to add explicit type casts.";

impl ScalarUDFImpl for AggregateArgument {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    // Plans show the argument as it was written.
    fn display_name(&self, args: &[Expr]) -> DfResult<String> {
        Ok(args[0].to_string())
    }

    fn schema_name(&self, args: &[Expr]) -> DfResult<String> {
        Ok(args[0].schema_name().to_string())
    }

    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        Ok(self.target(&types[0]))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        self.check(&args)?;
        let field = args.arg_fields[0].as_ref().clone();
        let kind = col_type_of(field.data_type()).map(|ty| ty.kind);
        if self.aggregate == "avg" && kind == Some(TypeKind::Time) {
            return Err(PgError::unsupported("avg of times").into());
        }
        let to = self.target(field.data_type());
        Ok(Arc::new(if to == *field.data_type() {
            field.with_name(&self.name)
        } else {
            Field::new(&self.name, to, true)
        }))
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
        if to == array.data_type() {
            return Ok(ColumnarValue::Array(array));
        }
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
