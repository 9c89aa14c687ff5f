//! `greatest`, `least` and array constructors, the library's, where untyped literals stand beside
//! other types and where it has another order than PostgreSQL.
//!
//! What it promises: PostgreSQL's order of intervals, jsonb and arrays; a literal takes the type of
//! the others ([`crate::common_types`]).

use crate::arrow_rows::{ColumnReader, single_column};
use crate::common_types::beside_texts;
use crate::error::PgError;
use crate::floats;
use crate::scalar::compare;
use crate::types::{arrow_type, col_type_of};
use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result as DfResult;
use datafusion::functions::core::{greatest, least};
use datafusion::functions_nested::make_array::make_array_udf;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use kernel::row::{Datum, TypeKind};
use std::cmp::Ordering;
use std::sync::Arc;

#[derive(Debug, PartialEq, Eq, Hash)]
struct Alike {
    of_library: Arc<ScalarUDF>,
    /// Of `greatest` and `least`: how what is found compares with what it replaces.
    wanted: Option<Ordering>,
}

/// The functions.
#[must_use]
pub fn alike() -> [Arc<ScalarUDF>; 3] {
    let all = [
        (greatest(), Some(Ordering::Greater)),
        (least(), Some(Ordering::Less)),
        (make_array_udf(), None),
    ];
    all.map(|(of_library, wanted)| Arc::new(ScalarUDF::new_from_impl(Alike { of_library, wanted })))
}

impl ScalarUDFImpl for Alike {
    fn name(&self) -> &str {
        self.of_library.name()
    }

    fn signature(&self) -> &Signature {
        self.of_library.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> DfResult<DataType> {
        let one = beside_texts(arg_types).cloned().or_else(|| floats::common(arg_types));
        match one {
            Some(ty) => self.of_library.return_type(&vec![ty; arg_types.len()]),
            None => self.of_library.return_type(arg_types),
        }
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

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let ty = col_type_of(args.return_field.data_type());
        let ours = |kind| matches!(kind, TypeKind::Interval | TypeKind::Jsonb | TypeKind::Array);
        let (Some(ty), Some(wanted)) = (ty.filter(|ty| ours(ty.kind)), self.wanted) else {
            return self.of_library.invoke_with_args(args);
        };
        let rows = args.number_rows;
        let readers = args
            .args
            .iter()
            .zip(&args.arg_fields)
            .map(|(arg, field)| Ok(ColumnReader::new(&arg.to_array(rows)?, field)?))
            .collect::<DfResult<Vec<_>>>()?;
        let mut found = Vec::with_capacity(rows);
        for row in 0..rows {
            let mut best = Datum::Null;
            for reader in &readers {
                let value = reader.get(row);
                let better = match compare(&value, &best)? {
                    Some(order) => order == wanted,
                    None => matches!(best, Datum::Null),
                };
                if better {
                    best = value;
                }
            }
            found.push(best.to_value());
        }
        let array = single_column(ty, &arrow_type(ty), &found)?;
        if array.data_type() != args.return_field.data_type() {
            return Err(PgError::internal("greatest of another type").into());
        }
        Ok(ColumnarValue::Array(array))
    }
}
