//! Round trips, random access, order of keys against order of values, and bytes that are no row.

use super::*;
use std::cmp::Ordering;

fn mood() -> ColType {
    let label = |(text, position): (&str, i64)| EnumLabel {
        obj: block::ObjId(2),
        position,
        text: text.to_owned(),
    };
    let labels = [("sad", -5), ("happy", 7)].map(label).to_vec();
    let (schema, name) = ("public".to_owned(), "mood of rows".to_owned());
    ColType::of_enum(EnumType { obj: block::ObjId(1), schema, name, labels }).0
}

fn all_types() -> Vec<ColType> {
    let plain = |kind: &TypeKind| !matches!(kind, TypeKind::Array | TypeKind::Enum);
    let plain = TypeKind::ALL.into_iter().filter(plain).map(ColType::new);
    plain.chain([ColType::array_of(TypeKind::Int4), mood()]).collect()
}

fn samples() -> Vec<Vec<Datum<'static>>> {
    let full = vec![
        Datum::Bool(true),
        Datum::Int2(-7),
        Datum::Int4(i32::MIN),
        Datum::Int8(i64::MAX),
        Datum::Float8(-2.5),
        Datum::Numeric(-12_345, 2),
        Datum::Text("häuser"),
        Datum::Text(""),
        Datum::Text("pad"),
        Datum::Bytea(&[0, 255, 0]),
        Datum::Date(-1),
        Datum::Timestamp(1),
        Datum::Timestamptz(i64::MIN + 1),
        Datum::Uuid([0xa7; 16]),
        Datum::Time(86_399_999_999),
        Datum::Interval(Interval { months: -1, days: -2, us: -3 }),
        Datum::Json("{ \"a\":1}"),
        Datum::Jsonb("{\"a\": 1}"),
        Datum::Float4(-2.5),
        // {7,NULL}
        Datum::Array(&[3, 2, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0x80, 7, 0, 0, 0]),
        Datum::Enum(mood().enum_value("sad").expect("a label")),
    ];
    let mut every_other = full.clone();
    every_other.iter_mut().step_by(2).for_each(|d| *d = Datum::Null);
    vec![full, every_other, vec![Datum::Null; 21]]
}

#[test]
fn rows_come_back_column_by_column() {
    let types = all_types();
    for row in samples() {
        let mut bytes = Vec::new();
        encode_row(&types, &row, &mut bytes);
        let view = RowView::checked(&types, &bytes).unwrap();
        for i in (0..row.len()).rev() {
            assert_eq!(view.get(i), row[i], "column {i}");
            assert_eq!(view.is_null(i), row[i].is_null());
        }
    }
}

#[test]
fn missing_columns_read_as_null() {
    let types = all_types();
    let mut bytes = Vec::new();
    encode_row(&types[..2], &[Datum::Bool(false), Datum::Int2(3)], &mut bytes);
    let view = RowView::new(&types, &bytes);
    assert_eq!(view.stored_count(), 2);
    assert_eq!(view.get(1), Datum::Int2(3));
    assert_eq!(view.get(2), Datum::Null);
    assert_eq!(view.iter().count(), types.len());
}

#[test]
fn a_short_row_reads_what_its_columns_were_added_with() {
    let types = [TypeKind::Int4, TypeKind::Text, TypeKind::Int8].map(ColType::new).to_vec();
    let mut bytes = Vec::new();
    encode_row(&types[..1], &[Datum::Int4(1)], &mut bytes);
    let added = stored_value(TypeKind::Text, &Datum::Text("new"));
    let shape = RowTypes::new(types, vec![None, added, None]);
    let view = RowView::checked(&shape, &bytes).expect("a row");
    assert_eq!((view.get(0), view.get(1)), (Datum::Int4(1), Datum::Text("new")));
    assert_eq!((view.is_null(1), view.is_null(2)), (false, true));
    assert_eq!(view.get(2), Datum::Null);
    bytes.clear();
    encode_row(&shape, &[Datum::Int4(1), Datum::Null, Datum::Null], &mut bytes);
    assert_eq!(RowView::new(&shape, &bytes).get(1), Datum::Null, "NULL that is stored stays");
}

#[test]
fn long_rows_use_wide_offsets() {
    let types = [ColType::new(TypeKind::Text), ColType::new(TypeKind::Int4)];
    let long = "x".repeat(1 << 20);
    for text in [&long[..32_763], &long[..32_764], &long[..]] {
        let mut bytes = Vec::new();
        encode_row(&types, &[Datum::Text(text), Datum::Int4(9)], &mut bytes);
        let view = RowView::checked(&types, &bytes).unwrap();
        assert_eq!(view.get(0), Datum::Text(text));
        assert_eq!(view.get(1), Datum::Int4(9));
    }
}

#[test]
fn numerics_of_every_size_come_back() {
    let types = [ColType::new(TypeKind::Numeric)];
    for value in [0, 1, -1, 127, 128, -128, -129, i128::MAX, i128::MIN, 10i128.pow(38)] {
        let mut bytes = Vec::new();
        encode_row(&types, &[Datum::Numeric(value, 9)], &mut bytes);
        let got = RowView::checked(&types, &bytes).unwrap().get(0);
        assert_eq!(got, Datum::Numeric(value, 9));
    }
}

#[test]
fn damaged_bytes_never_panic_when_checked() {
    let types = all_types();
    let mut bytes = Vec::new();
    encode_row(&types, &samples()[0], &mut bytes);
    for cut in 0..bytes.len() {
        assert!(RowView::checked(&types, &bytes[..cut]).is_err(), "cut at {cut}");
    }
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            if let Ok(view) = RowView::checked(&types, &damaged) {
                assert_eq!(view.iter().count(), types.len());
            }
        }
    }
}

fn key(values: &[Datum<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_key(values, &mut out);
    out
}

/// Each list is in ascending order without equals: the keys must be too.
#[test]
fn keys_order_as_values() {
    let lists: Vec<Vec<Datum<'_>>> = vec![
        vec![Datum::Bool(false), Datum::Bool(true), Datum::Null],
        vec![Datum::Int2(i16::MIN), Datum::Int2(-1), Datum::Int2(0), Datum::Int2(i16::MAX)],
        vec![Datum::Int4(i32::MIN), Datum::Int4(-1), Datum::Int4(0), Datum::Int4(7), Datum::Null],
        vec![Datum::Int8(i64::MIN), Datum::Int8(-256), Datum::Int8(255), Datum::Int8(256)],
        vec![
            Datum::Float4(f32::NEG_INFINITY),
            Datum::Float4(-f32::MIN_POSITIVE),
            Datum::Float4(0.0),
            // The same order as of double precision.
            Datum::Float8(0.1),
            Datum::Float4(0.1),
            Datum::Float4(f32::MAX),
            Datum::Float4(f32::NAN),
        ],
        vec![
            Datum::Float8(f64::NEG_INFINITY),
            Datum::Float8(-1e300),
            Datum::Float8(-1.0),
            Datum::Float8(-f64::MIN_POSITIVE),
            Datum::Float8(0.0),
            Datum::Float8(1e-300),
            Datum::Float8(2.0),
            Datum::Float8(f64::INFINITY),
            Datum::Float8(f64::NAN),
            Datum::Null,
        ],
        vec![
            Datum::Text(""),
            Datum::Text("\0"),
            Datum::Text("\0\0"),
            Datum::Text("\0a"),
            Datum::Text("\u{1}"),
            Datum::Text("a"),
            Datum::Text("a\0"),
            Datum::Text("a\0b"),
            Datum::Text("a\u{1}"),
            Datum::Text("ab"),
            Datum::Text("b"),
            Datum::Text("é"),
            Datum::Null,
        ],
        vec![Datum::Bytea(&[]), Datum::Bytea(&[0]), Datum::Bytea(&[0, 255]), Datum::Bytea(&[255])],
        vec![Datum::Date(-10), Datum::Date(0), Datum::Date(10)],
        vec![Datum::Timestamp(i64::MIN), Datum::Timestamp(-1), Datum::Timestamp(1)],
    ];
    for list in lists {
        for (i, a) in list.iter().enumerate() {
            for (j, b) in list.iter().enumerate() {
                let (ka, kb) = (key(&[*a]), key(&[*b]));
                assert_eq!(ka.cmp(&kb), i.cmp(&j), "{a:?} and {b:?}");
            }
        }
    }
}

/// In every order of the first column, whatever stands behind it.
#[test]
fn keys_of_ordered_columns_stand_in_that_order_and_come_back() {
    let lists: Vec<Vec<Datum<'_>>> = vec![
        vec![Datum::Int4(i32::MIN), Datum::Int4(-1), Datum::Int4(0), Datum::Int4(i32::MAX)],
        vec![
            Datum::Text(""),
            Datum::Text("\0"),
            Datum::Text("a"),
            Datum::Text("a\0"),
            Datum::Text("b"),
        ],
        vec![
            Datum::Numeric(-15, 1),
            Datum::Numeric(0, 0),
            Datum::Numeric(1, 2),
            Datum::Numeric(1, 0),
        ],
        vec![Datum::Float8(-1e300), Datum::Float8(0.0), Datum::Float8(f64::INFINITY)],
    ];
    let kinds = [TypeKind::Int4, TypeKind::Text, TypeKind::Numeric, TypeKind::Float8];
    let orders = [(false, false), (false, true), (true, true), (true, false)]
        .map(|(descending, nulls_first)| KeyOrder { descending, nulls_first });
    for (values, kind) in lists.into_iter().zip(kinds) {
        for order in orders {
            let mut wanted = values.clone();
            if order.descending {
                wanted.reverse();
            }
            wanted.insert(if order.nulls_first { 0 } else { wanted.len() }, Datum::Null);
            let types = [ColType::new(kind), ColType::new(TypeKind::Int4)];
            let keys = wanted.iter().map(|value| {
                let mut out = Vec::new();
                assert_eq!(encode_ordered(value, order, &mut out), value.is_null());
                encode_ordered(&Datum::Int4(5), KeyOrder::default(), &mut out);
                out.extend_from_slice(&[9; 8]);
                let mut got = Vec::new();
                let rest = decode_ordered_prefix(&types, &[order], &out, &mut got).unwrap();
                assert_eq!(
                    (rest, &got[0], &got[1]),
                    (&[9; 8][..], &value.to_value(), &Value::Int4(5))
                );
                let (mut begin, mut end) = (Vec::new(), Vec::new());
                key_values_begin(&mut begin);
                key_values_end(&mut end);
                assert_eq!((begin..end).contains(&out), !value.is_null());
                out
            });
            assert!(keys.is_sorted(), "{kind:?} {order:?}");
        }
    }
}

#[test]
fn numeric_keys_order_by_value_whatever_the_scale() {
    let mut values: Vec<(i128, u8)> = Vec::new();
    let mut state = 88_172_645_463_325_252u64;
    for _ in 0..400 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let magnitude = i128::from(state as i64) >> (state % 60);
        values.push((magnitude, (state >> 8) as u8 % 12));
    }
    values.extend([(0, 0), (0, 5), (15, 1), (150, 2), (-15, 1), (-150, 2), (100, 0), (1, 0)]);
    for &(a, sa) in &values {
        for &(b, sb) in &values {
            let want = (a * 10i128.pow(u32::from(sb))).cmp(&(b * 10i128.pow(u32::from(sa))));
            let got = key(&[Datum::Numeric(a, sa)]).cmp(&key(&[Datum::Numeric(b, sb)]));
            assert_eq!(got, want, "{a}e-{sa} and {b}e-{sb}");
        }
    }
}

#[test]
fn keys_of_several_columns_order_column_by_column() {
    let short_first = key(&[Datum::Text("a"), Datum::Int4(9)]);
    let long_first = key(&[Datum::Text("ab"), Datum::Int4(1)]);
    assert_eq!(short_first.cmp(&long_first), Ordering::Less);
    let mut end = key(&[Datum::Text("a")]);
    key_prefix_end(&mut end);
    assert!(key(&[Datum::Text("a"), Datum::Null]) < end);
    assert!(end < long_first);
}

#[test]
fn keys_are_decodable() {
    let types = all_types();
    for row in samples() {
        let mut bytes = Vec::new();
        assert_eq!(encode_key(&row, &mut bytes), row.iter().any(Datum::is_null));
        let mut got = Vec::new();
        decode_key(&types, &bytes, &mut got).unwrap();
        let want: Vec<Value> = row.iter().map(Datum::to_value).collect();
        assert_eq!(got, want);
        for cut in 0..bytes.len() {
            assert!(decode_key(&types, &bytes[..cut], &mut Vec::new()).is_err());
        }
    }
    for (v, scale, want, want_scale) in
        [(150, 2, 15, 1), (1200, 0, 1200, 0), (-100, 2, -1, 0), (i128::MIN, 0, i128::MIN, 0)]
    {
        let bytes = key(&[Datum::Numeric(v, scale)]);
        let mut got = Vec::new();
        decode_key(&[ColType::new(TypeKind::Numeric)], &bytes, &mut got).unwrap();
        assert_eq!(got, [Value::Numeric(want, want_scale)]);
    }
}

#[test]
fn type_codes_and_modifiers_come_back() {
    for kind in TypeKind::ALL {
        assert_eq!(TypeKind::from_code(kind.code()), Some(kind));
    }
    assert_eq!(TypeKind::from_code(0), None);
    assert_eq!(ColType::numeric(10, 2).precision_scale(), Some((10, 2)));
    assert_eq!(ColType::numeric(10, 2).to_string(), "numeric(10,2)");
    assert_eq!(ColType::with_length(TypeKind::Varchar, 30).length(), Some(30));
    assert_eq!(ColType::with_length(TypeKind::Char, 84).to_string(), "character(84)");
}

/// What is not NULL stands between the bounds, whatever its bytes.
#[test]
fn extremes_of_every_type_are_in_the_range_of_values() {
    let extremes = [
        Datum::Bool(false),
        Datum::Bool(true),
        Datum::Int2(i16::MAX),
        Datum::Int4(i32::MIN),
        Datum::Int4(i32::MAX),
        Datum::Int8(i64::MAX),
        Datum::Float8(f64::NAN),
        Datum::Float8(f64::INFINITY),
        Datum::Float8(f64::NEG_INFINITY),
        Datum::Date(i32::MAX),
        Datum::Timestamp(i64::MIN),
        Datum::Numeric(i128::MIN, 0),
        Datum::Numeric(0, 0),
        Datum::Text(""),
        Datum::Text("\u{10ffff}"),
        Datum::Bytea(&[0xff; 3]),
        Datum::Uuid([0xff; 16]),
        Datum::Uuid([0; 16]),
    ];
    for descending in [false, true] {
        for nulls_first in [false, true] {
            let order = KeyOrder { descending, nulls_first };
            let bytes = |value: &Datum<'_>| {
                let mut out = b"prefix".to_vec();
                encode_ordered(value, order, &mut out);
                out.extend_from_slice(&[0xff; 8]);
                out
            };
            let (mut begin, mut end) = (b"prefix".to_vec(), b"prefix".to_vec());
            key_values_begin(&mut begin);
            key_values_end(&mut end);
            for value in &extremes {
                let key = bytes(value);
                assert!(begin <= key && key < end, "{value:?} {order:?}");
            }
            let null = bytes(&Datum::Null);
            assert!(null < begin || null >= end, "{order:?}");
        }
    }
}

#[test]
fn a_glance_sees_what_a_view_does_or_nothing() {
    let types = all_types();
    let wide = "w".repeat(40_000);
    let mut rows = samples();
    rows.push(samples()[0][..3].to_vec());
    rows.push({
        let mut row = samples().swap_remove(0);
        row[6] = Datum::Text(&wide);
        row
    });
    for row in &rows {
        let mut bytes = Vec::new();
        encode_row(&types[..row.len()], row, &mut bytes);
        let view = RowView::new(&types, &bytes);
        let narrow = row.get(6) != Some(&Datum::Text(&wide));
        for i in 0..types.len() {
            let want = match view.raw(i) {
                _ if !narrow || i >= row.len() => Glance::Unknown,
                None => Glance::Null,
                Some(data) => Glance::Data(data),
            };
            assert_eq!(glance(&bytes, i), want, "column {i}");
        }
    }
    assert_eq!(
        [glance(&[], 0), glance(&[1, 0], 0), glance(&[1, 0, 9, 0], 0)],
        [Glance::Unknown, Glance::Unknown, Glance::Unknown]
    );
}
