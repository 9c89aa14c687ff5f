//! Rows of a statement as JSON.
//!
//! What it promises: numbers are numbers where JSON can hold them, everything else is text or null;
//! the answer says whether rows were left out, and a text that is cut ends in an ellipsis. What it
//! must never do: grow with the length of what users write.

use bytes::{Buf, BytesMut};
use serde::Serialize;
use serde_json::{Number, Value};

/// Largest whole number that a browser reads exactly.
const WHOLE_MAX: u64 = 1 << 53;
/// OIDs of `int8 int2 int4 oid float4 float8 numeric`.
const NUMBERS: [u32; 7] = [20, 21, 23, 26, 700, 701, 1700];
const BOOL: u32 = 16;
/// Bytes of a text at the most.
pub const TEXT_BYTES_MAX: usize = 16 * 1024;

/// The result of one statement.
#[derive(Debug, Default, Serialize)]
pub struct Table {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Value>>,
    /// There were more rows than an answer may have.
    pub cut: bool,
}

/// Takes a statement's rows in the form of the wire.
#[derive(Default)]
pub struct Taken(BytesMut);

impl sql::RowSink for Taken {
    fn row(&mut self) -> &mut BytesMut {
        &mut self.0
    }
    // A console sends no COPY; its lines would be no rows.
    fn copy_out(&mut self, _binary: bool, _columns: usize) {}
    fn flush_if_large(&mut self) {}
}

impl Taken {
    /// Goes through the rows taken. `None`: they are not whole.
    fn each(mut self, mut row: impl FnMut(&[Option<BytesMut>])) -> Option<()> {
        let mut cells = Vec::new();
        while self.0.has_remaining() {
            let count = usize::try_from(self.0.try_get_i16().ok()?).ok()?;
            cells.clear();
            for _ in 0..count {
                let length = self.0.try_get_i32().ok()?;
                cells.push(match usize::try_from(length) {
                    Err(_) => None,
                    Ok(length) if length > self.0.remaining() => return None,
                    Ok(length) => Some(self.0.split_to(length)),
                });
            }
            row(&cells);
        }
        Some(())
    }

    /// The rows taken, of columns with these names and types. `None`: they are not whole.
    pub fn into_table(self, columns: Vec<String>, oids: &[u32], cut: bool) -> Option<Table> {
        let mut rows = Vec::new();
        let oid = |at: usize| oids.get(at).copied().unwrap_or(0);
        self.each(|cells| {
            let cell = |(at, cell): (usize, &Option<BytesMut>)| {
                cell.as_ref().map_or(Value::Null, |bytes| value(oid(at), bytes))
            };
            rows.push(cells.iter().enumerate().map(cell).collect());
        })?;
        Some(Table { columns, rows, cut })
    }

    /// Hands on the texts of each row taken. `None`: they are not whole.
    pub fn texts(self, mut row: impl FnMut(&[Option<&str>])) -> Option<()> {
        self.each(|cells| {
            let texts: Vec<Option<&str>> = cells
                .iter()
                .map(|cell| cell.as_ref().map(|bytes| str::from_utf8(bytes).unwrap_or_default()))
                .collect();
            row(&texts);
        })
    }
}

fn value(oid: u32, bytes: &[u8]) -> Value {
    if bytes.len() > TEXT_BYTES_MAX {
        // A character that is cut is left out.
        let kept = bytes[..TEXT_BYTES_MAX].utf8_chunks().map(|chunk| chunk.valid());
        return Value::String(kept.chain(["…"]).collect());
    }
    let text = String::from_utf8_lossy(bytes);
    let number = match oid {
        BOOL => return Value::Bool(text == "t"),
        oid if NUMBERS.contains(&oid) => match text.parse::<i64>() {
            Ok(whole) => (whole.unsigned_abs() <= WHOLE_MAX).then(|| Number::from(whole)),
            Err(_) => text.parse::<f64>().ok().and_then(Number::from_f64),
        },
        _ => None,
    };
    number.map_or_else(|| Value::String(text.into_owned()), Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BufMut;
    use sql::RowSink;

    #[test]
    fn rows_of_the_wire_become_values() {
        let mut taken = Taken::default();
        for text in ["7", "9007199254740993", "1.50", "NaN"] {
            let row = taken.row();
            row.put_i16(3);
            row.put_i32(i32::try_from(text.len()).unwrap());
            row.put_slice(text.as_bytes());
            row.put_i32(-1);
            row.put_i32(1);
            row.put_slice(b"t");
        }
        let names = ["a", "b", "c"].map(str::to_owned).to_vec();
        let table = taken.into_table(names, &[1700, 25, 16], false).unwrap();
        let shown = serde_json::to_string(&table.rows).unwrap();
        let expected =
            r#"[[7,null,true],["9007199254740993",null,true],[1.5,null,true],["NaN",null,true]]"#;
        assert_eq!(shown, expected);
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let long = "ä".repeat(TEXT_BYTES_MAX);
        let Value::String(cut) = value(25, &long.as_bytes()[1..]) else { panic!("a text") };
        assert!(cut.ends_with("ä…") && cut.len() <= TEXT_BYTES_MAX + "…".len());
        assert_eq!(value(25, b"short"), Value::String("short".to_owned()));
    }

    #[test]
    fn rows_that_are_cut_off_are_none() {
        let mut taken = Taken::default();
        taken.row().put_i16(1);
        taken.row().put_i32(5);
        taken.row().put_slice(b"abc");
        assert!(taken.into_table(vec!["a".to_owned()], &[25], false).is_none());
    }
}
