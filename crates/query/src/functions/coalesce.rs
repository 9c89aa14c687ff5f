//! `coalesce`, which the library makes a CASE in which all arguments but the last stand twice.
//!
//! What it promises: the first argument that is not NULL; where a later one may fail, or costs
//! much, it is not looked at before it is needed. What it must never do: grow a plan without
//! bound: arguments nested in arguments would double it at each level.

use crate::common_types::beside_texts;
use crate::floats;
use datafusion::arrow::array::{ArrayRef, BooleanArray};
use datafusion::arrow::compute::is_null;
use datafusion::arrow::compute::kernels::zip::zip;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result as DfResult;
use datafusion::functions::core::coalesce::CoalesceFunc;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use std::sync::Arc;

/// Parts of the arguments that may stand twice in a plan.
const DOUBLED_MAX: usize = 64;

#[derive(Debug, Default, PartialEq, Eq, Hash)]
struct Coalesce {
    of_library: CoalesceFunc,
}

/// The function.
#[must_use]
pub fn coalesce() -> ScalarUDF {
    ScalarUDF::new_from_impl(Coalesce::default())
}

impl ScalarUDFImpl for Coalesce {
    fn name(&self) -> &str {
        "coalesce"
    }

    fn signature(&self) -> &Signature {
        self.of_library.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> DfResult<DataType> {
        self.of_library.return_type(arg_types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        let types: Vec<DataType> =
            args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let field = self.of_library.return_field_from_args(args)?;
        Ok(match beside_texts(&types).cloned().or_else(|| floats::common(&types)) {
            Some(ty) => Arc::new(field.as_ref().clone().with_data_type(ty)),
            None => field,
        })
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> DfResult<ExprSimplifyResult> {
        let (doubled, last) = args.split_at(args.len().saturating_sub(1));
        let mut parts = 0_usize;
        for expr in doubled {
            expr.apply(|_| {
                parts += 1;
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        let plain = |expr: &Expr| matches!(expr, Expr::Literal(..) | Expr::Column(_));
        let cannot_fail = doubled.iter().skip(1).chain(last).all(plain);
        if args.len() > 1 && (parts > DOUBLED_MAX || (cannot_fail && parts > 1)) {
            return Ok(ExprSimplifyResult::Original(args));
        }
        self.of_library.simplify(args, info)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let mut found: Option<ArrayRef> = None;
        for arg in args.args {
            if let ColumnarValue::Scalar(value) = &arg {
                crate::memory::results_fit(value.size().saturating_mul(rows))?;
            }
            let Some(so_far) = found else {
                found = Some(arg.into_array(rows)?);
                continue;
            };
            if so_far.null_count() == 0 {
                found = Some(so_far);
                break;
            }
            let missing: BooleanArray = is_null(&so_far)?;
            let next = arg.into_array(rows)?;
            found = Some(zip(&missing, &next, &so_far)?);
        }
        let Some(found) = found else {
            return Ok(ColumnarValue::Scalar(ScalarValue::Null));
        };
        Ok(if constant {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?)
        } else {
            ColumnarValue::Array(found)
        })
    }

    fn conditional_arguments<'a>(
        &self,
        args: &'a [Expr],
    ) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.of_library.conditional_arguments(args)
    }

    fn short_circuits(&self) -> bool {
        true
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> DfResult<Vec<DataType>> {
        match beside_texts(arg_types) {
            // Literals are not converted here but written anew.
            Some(_) => Ok(arg_types.to_vec()),
            None => match floats::common(arg_types) {
                Some(ty) => Ok(vec![ty; arg_types.len()]),
                None => self.of_library.coerce_types(arg_types),
            },
        }
    }
}
