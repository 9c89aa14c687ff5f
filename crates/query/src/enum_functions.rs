//! `enum_first`, `enum_last`, `enum_range`: what values an enum type has.
//!
//! What it promises: the labels of the definition that the statement was planned with, in their
//! order. Ranges are arrays of text: there are no arrays of enums.

use crate::array::array_value;
use crate::arrow_rows::{ColumnReader, single_column};
use crate::error::PgError;
use crate::types::{PgType, arrow_type, col_type_of, field_with_meta};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use kernel::row::{ColType, Datum, EnumType, EnumValue, TypeKind, Value};
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Which {
    First,
    Last,
    Range,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct EnumFunction {
    which: Which,
    signature: Signature,
}

/// The functions.
#[must_use]
pub fn enum_functions() -> Vec<Arc<ScalarUDF>> {
    let signature = Signature::variadic_any(Volatility::Immutable);
    let make = |which| {
        Arc::new(ScalarUDF::new_from_impl(EnumFunction { which, signature: signature.clone() }))
    };
    [Which::First, Which::Last, Which::Range].into_iter().map(make).collect()
}

impl EnumFunction {
    /// The enum among the types of the arguments.
    fn enum_of(&self, fields: &[FieldRef]) -> Result<(ColType, &'static EnumType), PgError> {
        let wanted = if self.which == Which::Range { 1..=2 } else { 1..=1 };
        let types = fields.iter().filter_map(|field| col_type_of(field.data_type()));
        let found = types.filter_map(|ty| Some((ty, ty.enum_type()?))).next();
        match found {
            Some(found) if wanted.contains(&fields.len()) => Ok(found),
            _ => {
                let types: Vec<String> = fields
                    .iter()
                    .filter_map(|field| col_type_of(field.data_type()))
                    .map(|ty| ty.to_string())
                    .collect();
                let text = format!("function {}({}) does not exist", self.name(), types.join(", "));
                Err(PgError::new("42883", text))
            }
        }
    }
}

impl ScalarUDFImpl for EnumFunction {
    fn name(&self) -> &'static str {
        match self.which {
            Which::First => "enum_first",
            Which::Last => "enum_last",
            Which::Range => "enum_range",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> DfResult<DataType> {
        Err(PgError::internal("the type of an enum's function without its arguments").into())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        let (own, _) = self.enum_of(args.arg_fields)?;
        let ty = match self.which {
            Which::Range => ColType::array_of(TypeKind::Text),
            _ => own,
        };
        Ok(Arc::new(field_with_meta(self.name(), arrow_type(ty), PgType::of(ty))))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let (ty, def) = self.enum_of(&args.arg_fields)?;
        let value = |at: Option<i64>| {
            at.map_or(Value::Null, |position| Value::Enum(EnumValue { of: ty.modifier, position }))
        };
        if self.which != Which::Range {
            let label = match self.which {
                Which::First => def.labels.first(),
                _ => def.labels.last(),
            };
            let array = single_column(ty, &arrow_type(ty), &[value(label.map(|l| l.position))])?;
            let scalar = datafusion::common::ScalarValue::try_from_array(&array, 0)?;
            return Ok(ColumnarValue::Scalar(scalar));
        }
        let rows = args.number_rows;
        let mut bounds = Vec::new();
        for (arg, field) in args.args.iter().zip(&args.arg_fields) {
            bounds.push(ColumnReader::new(&arg.to_array(rows)?, field)?);
        }
        let position = |reader: &ColumnReader, row| match reader.get(row) {
            Datum::Enum(value) => Some(value.position),
            _ => None,
        };
        let mut all = Vec::with_capacity(rows);
        for row in 0..rows {
            // One argument says the type alone; of two a NULL says no bound.
            let (low, high) = match &bounds[..] {
                [low, high] => (position(low, row), position(high, row)),
                _ => (None, None),
            };
            let inside = |at: i64| low.is_none_or(|l| at >= l) && high.is_none_or(|h| at <= h);
            let labels = def.labels.iter().filter(|label| inside(label.position));
            let labels: Vec<Value> =
                labels.map(|label| Value::Text(label.text.as_str().into())).collect();
            all.push(array_value(ColType::new(TypeKind::Text), &labels));
        }
        let list = ColType::array_of(TypeKind::Text);
        Ok(ColumnarValue::Array(single_column(list, &arrow_type(list), &all)?))
    }
}
