//! `pg_typeof`: the name of an expression's type.
//!
//! What it promises: the type that clients are told of. What it must never do: look at the value.

use crate::functions::format_type;
use crate::types::pg_type_of_field;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

#[derive(Debug, PartialEq, Eq, Hash)]
struct PgTypeof {
    signature: Signature,
}

/// The function.
#[must_use]
pub fn pg_typeof() -> Arc<ScalarUDF> {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(PgTypeof { signature }))
}

impl ScalarUDFImpl for PgTypeof {
    fn name(&self) -> &'static str {
        "pg_typeof"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let ty = pg_type_of_field(&args.arg_fields[0]);
        let own = crate::types::col_type_of(args.arg_fields[0].data_type());
        let own = own.filter(|ty| ty.enum_type().is_some());
        let name = own.map_or_else(|| format_type(i64::from(ty.oid), -1), |ty| ty.to_string());
        Ok(ColumnarValue::Scalar(ScalarValue::Utf8(Some(name))))
    }
}
