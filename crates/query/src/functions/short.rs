//! Numbers of the field's statements, which are shown as short as they are: `320/1024*1024` is 320.
//!
//! What it promises: the value stays what it is, of whatever type it is; only where a numeric is
//! shown the zeros go that a plan's number of digits has put at its end.

use super::names;
use crate::types::shown_short;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use std::sync::Arc;

/// What stands around such a number in a statement.
pub const SHORT: &str = "$short";

/// What takes the zeros off where there is no plan, and values have digits of their own.
pub const TRIMMED: &str = "$trimmed";

#[derive(Debug, PartialEq, Eq, Hash)]
struct Short {
    signature: Signature,
}

/// The function.
pub(crate) fn short() -> Arc<ScalarUDF> {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(Short { signature }))
}

impl ScalarUDFImpl for Short {
    fn name(&self) -> &'static str {
        SHORT
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn schema_name(&self, args: &[Expr]) -> DfResult<String> {
        names::of_call(SHORT, args)
    }

    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        Ok(types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        Ok(Arc::new(shown_short(&args.arg_fields[0], SHORT)))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        Ok(args.args.swap_remove(0))
    }
}
