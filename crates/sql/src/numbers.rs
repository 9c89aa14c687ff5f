//! Numbers for columns of type `numeric` (`number`) without precision and scale.
//!
//! What it promises: a row holds what every query can compute with, so that none of its ways shows
//! another value: digits behind the fifteenth place are rounded, as those behind a column's scale
//! are. What it must never do: store what a query would fail to read.

use crate::{PgError, Result};
use kernel::dict::TableDef;
use kernel::row::{Datum, TypeKind};
use query::arith::rescale;
use query::cast::trim_zeros;
use query::types::FREE_NUMERIC_SCALE;

/// Digits before the point.
const WHOLE_DIGITS_MAX: u32 = 22;
/// A value below it has few digits enough at any scale that is stored.
const SURE: u128 = 10u128.pow(WHOLE_DIGITS_MAX);

/// The row with its numbers made to fit; `None`: they do.
///
/// # Errors
/// 22003 with the column: the number has too many digits before the point.
pub(crate) fn fitted<'a>(table: &TableDef, values: &[Datum<'a>]) -> Result<Option<Vec<Datum<'a>>>> {
    let mut fitted: Option<Vec<Datum<'a>>> = None;
    for (at, (column, value)) in table.columns.iter().zip(values).enumerate() {
        let Datum::Numeric(number, scale) = *value else { continue };
        let sure = scale <= FREE_NUMERIC_SCALE && number.unsigned_abs() < SURE;
        let free = column.ty.kind == TypeKind::Numeric && column.ty.precision_scale().is_none();
        if sure || !free {
            continue;
        }
        let (number, scale) = match scale > FREE_NUMERIC_SCALE {
            true => {
                let rounded = rescale(number, scale, FREE_NUMERIC_SCALE).unwrap_or(0);
                trim_zeros(rounded, FREE_NUMERIC_SCALE)
            }
            false => trim_zeros(number, scale),
        };
        if number.unsigned_abs() / 10u128.pow(u32::from(scale)) >= SURE {
            return Err(too_long(table, &column.name));
        }
        fitted.get_or_insert_with(|| values.to_vec())[at] = Datum::Numeric(number, scale);
    }
    Ok(fitted)
}

fn too_long(table: &TableDef, column: &str) -> PgError {
    PgError::new("22003", "numeric field overflow")
        .with_detail(format!(
            "Column \"{column}\" has neither precision nor scale; its numbers have at most \
             {WHOLE_DIGITS_MAX} digits before the point."
        ))
        .with_hint("Numbers of up to 38 digits are kept by numeric(38), or number(38).")
        .with_table(&table.schema, &table.name)
        .with_column(column)
}
