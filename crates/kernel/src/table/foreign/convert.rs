//! Keys of one table as values of the other's types.
//!
//! Promises: two values are equal in SQL if and only if the converted one has the same key bytes. A
//! value that the other type cannot hold equals none there.

use crate::dict::IndexDef;
use crate::row::{ColType, Datum, RowTypes, RowView, TypeKind, Value, encode_key};

/// Whether values of the two types can be compared by key bytes after [`convert`].
#[must_use]
pub fn comparable(child: TypeKind, parent: TypeKind) -> bool {
    let integer = |kind| matches!(kind, TypeKind::Int2 | TypeKind::Int4 | TypeKind::Int8);
    let text = |kind| matches!(kind, TypeKind::Text | TypeKind::Varchar);
    let real = |kind| matches!(kind, TypeKind::Float4 | TypeKind::Float8);
    child == parent
        || (integer(child) && (integer(parent) || parent == TypeKind::Numeric))
        || (text(child) && text(parent))
        || (real(child) && real(parent))
}

fn integer(datum: &Datum<'_>) -> Option<i64> {
    match *datum {
        Datum::Int2(v) => Some(i64::from(v)),
        Datum::Int4(v) => Some(i64::from(v)),
        Datum::Int8(v) => Some(v),
        Datum::Numeric(mut v, mut scale) => {
            while scale > 0 && v % 10 == 0 {
                (v, scale) = (v / 10, scale - 1);
            }
            if scale == 0 { i64::try_from(v).ok() } else { None }
        }
        _ => None,
    }
}

/// The value as one of another type; `None`: that type has no such value.
fn convert<'a>(datum: Datum<'a>, to: TypeKind) -> Option<Datum<'a>> {
    match (to, &datum) {
        (TypeKind::Int2, _) => i16::try_from(integer(&datum)?).ok().map(Datum::Int2),
        (TypeKind::Int4, _) => i32::try_from(integer(&datum)?).ok().map(Datum::Int4),
        (TypeKind::Int8, _) => integer(&datum).map(Datum::Int8),
        (TypeKind::Numeric, Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_)) => {
            integer(&datum).map(|v| Datum::Numeric(i128::from(v), 0))
        }
        (TypeKind::Float8, Datum::Float4(v)) => Some(Datum::Float8(f64::from(*v))),
        (TypeKind::Float4, Datum::Float8(v)) => real_of(*v).map(Datum::Float4),
        _ => Some(datum),
    }
}

/// The number as a real that is equal to it, if there is one.
#[allow(clippy::cast_possible_truncation)] // what is lost is looked for
fn real_of(v: f64) -> Option<f32> {
    let real = v as f32;
    (f64::from(real) == v || v.is_nan()).then_some(real)
}

/// Values of a row's columns.
#[must_use]
pub fn values_of(types: &RowTypes, columns: &[u16], row: &[u8]) -> Vec<Value> {
    let view = RowView::new(types, row);
    columns.iter().map(|column| view.get(usize::from(*column)).to_value()).collect()
}

/// Key bytes of values, none of them NULL, as columns of these types hold them. `None`: they
/// cannot.
#[must_use]
pub fn key_of(values: &[Value], types: &RowTypes, columns: &[u16]) -> Option<Vec<u8>> {
    let mut key = Vec::new();
    for (value, column) in values.iter().zip(columns) {
        encode_key(&[convert(value.as_datum(), kind(types, *column))?], &mut key);
    }
    Some(key)
}

fn kind(types: &RowTypes, column: u16) -> TypeKind {
    let ty: ColType = types[usize::from(column)];
    ty.kind
}

/// The beginning of the index's keys under which rows with these values stand; `columns` are the
/// values' columns, which are the first of the index in some order. `None`: no row can have them.
pub(super) fn prefix_of(
    values: &[Value],
    types: &RowTypes,
    columns: &[u16],
    index: &IndexDef,
) -> Option<Vec<u8>> {
    let mut key = Vec::new();
    for (place, column) in index.columns[..columns.len()].iter().enumerate() {
        let at = columns.iter().position(|own| own == column)?;
        index.encode(place, &convert(values[at].as_datum(), kind(types, *column))?, &mut key);
    }
    // A parent's key is a whole one.
    index.arrange(&mut key);
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_have_equal_keys() {
        let types: RowTypes =
            [TypeKind::Int2, TypeKind::Int8, TypeKind::Numeric].map(ColType::new).to_vec().into();
        let key = |value: Value, column: u16| key_of(&[value], &types, &[column]);
        assert_eq!(key(Value::Int4(7), 1), key(Value::Int8(7), 1));
        assert_eq!(key(Value::Int8(70_000), 0), None);
        assert_eq!(key(Value::Int2(7), 2), key(Value::Numeric(700, 2), 2));
        assert_eq!(key(Value::Numeric(700, 2), 0), key(Value::Int2(7), 0));
        assert_eq!(key(Value::Numeric(705, 2), 1), None);
        assert_eq!(convert(Datum::Float8(0.1), TypeKind::Float4), None);
        assert_eq!(convert(Datum::Float8(2.5), TypeKind::Float4), Some(Datum::Float4(2.5)));
        assert_eq!(
            convert(Datum::Float4(0.1), TypeKind::Float8),
            Some(Datum::Float8(0.10000000149011612))
        );
        assert!(comparable(TypeKind::Float4, TypeKind::Float8));
        assert!(comparable(TypeKind::Int8, TypeKind::Int2));
        assert!(!comparable(TypeKind::Numeric, TypeKind::Int8));
    }
}
