//! Result rows as DataRow bodies.

use crate::Result;
use bytes::BytesMut;
use kernel::row::{Datum, TypeKind, Value};
use parking_lot::Mutex;
use query::PgColumn;
use query::array::push_vector;
use query::types::is_vector;
use query::wire::{FormatEnv, push_binary, push_text};
use std::sync::Arc;

/// Where a statement's rows go.
pub trait RowSink: Send {
    /// The buffer for one row: column count, then length and bytes of each value; or, while copying
    /// out, one line.
    fn row(&mut self) -> &mut BytesMut;
    /// Rows are lines of a copy to the client from now on; the statement's end ends it.
    fn copy_out(&mut self, binary: bool, columns: usize);
    /// Called after rows: hands them on if there are many.
    fn flush_if_large(&mut self);
}

/// Takes rows that go elsewhere than to the client.
#[derive(Default)]
pub(crate) struct Nowhere(BytesMut);

impl RowSink for Nowhere {
    fn row(&mut self) -> &mut BytesMut {
        self.0.clear();
        &mut self.0
    }

    fn copy_out(&mut self, _binary: bool, _columns: usize) {}

    fn flush_if_large(&mut self) {}
}

/// A result column as it is sent.
#[derive(Clone, Copy, Debug)]
struct Sent {
    oid: u32,
    binary: bool,
    /// Characters to which a char(n) is filled up with blanks.
    pad_to: usize,
}

/// Encodes rows of one result.
#[derive(Clone, Debug)]
pub(crate) struct RowEncoder {
    columns: Vec<Sent>,
    env: FormatEnv,
    scratch: Vec<u8>,
    /// Where the values go instead, if they are not sent.
    rows: Option<TakenRows>,
}

/// Rows as values.
pub(crate) type TakenRows = Arc<Mutex<Vec<Vec<Value>>>>;

impl RowEncoder {
    /// `formats` as in Bind: none for text, one for all, or one a column.
    pub(crate) fn new(columns: &[PgColumn], formats: &[i16], env: FormatEnv) -> RowEncoder {
        let format = |i: usize| match formats {
            [] => 0,
            [one] => *one,
            many => many.get(i).copied().unwrap_or(0),
        };
        let columns = columns
            .iter()
            .enumerate()
            .map(|(i, column)| Sent {
                oid: column.oid,
                binary: format(i) == 1,
                pad_to: if column.oid == query::types::oid::BPCHAR {
                    usize::try_from(column.typmod - 4).unwrap_or(0)
                } else {
                    0
                },
            })
            .collect();
        RowEncoder { columns, env, scratch: Vec::new(), rows: None }
    }

    /// Keeps the rows instead.
    pub(crate) fn into_rows(self) -> (RowEncoder, TakenRows) {
        let rows = TakenRows::default();
        (self.taken_by(rows.clone()), rows)
    }

    /// Keeps the rows there.
    pub(crate) fn taken_by(mut self, rows: TakenRows) -> RowEncoder {
        self.rows = Some(rows);
        self
    }

    /// Appends one row; `value` gives each column's value.
    pub(crate) fn encode<'v>(
        &mut self,
        mut value: impl FnMut(usize) -> Result<ValueRef<'v>>,
        out: &mut BytesMut,
    ) -> Result<()> {
        if let Some(rows) = &self.rows {
            let values = (0..self.columns.len()).map(|i| Ok(value(i)?.datum().to_value()));
            rows.lock().push(values.collect::<Result<Vec<_>>>()?);
            return Ok(());
        }
        let row = &mut self.scratch;
        row.clear();
        let count = u16::try_from(self.columns.len()).unwrap_or(u16::MAX);
        row.extend_from_slice(&count.to_be_bytes());
        for (i, sent) in self.columns.iter().enumerate() {
            let value = value(i)?;
            let datum = value.datum();
            let at = row.len();
            row.extend_from_slice(&[0; 4]);
            if datum.is_null() {
                row[at..].copy_from_slice(&(-1i32).to_be_bytes());
                continue;
            }
            if sent.binary {
                push_binary(&datum, sent.oid, row)?;
            } else if let (Datum::Array(array), true) = (datum, is_vector(sent.oid)) {
                push_vector(array, &self.env, row);
            } else {
                push_text(&datum, &self.env, row);
            }
            if sent.pad_to > 0
                && let Datum::Text(text) = datum
            {
                let have = text.chars().count();
                row.extend(std::iter::repeat_n(b' ', sent.pad_to.saturating_sub(have)));
            }
            let len = i32::try_from(row.len() - at - 4).map_err(|_| too_long())?;
            row[at..at + 4].copy_from_slice(&len.to_be_bytes());
        }
        out.extend_from_slice(row);
        Ok(())
    }
}

fn too_long() -> crate::PgError {
    crate::PgError::new("54000", "a value is too long to be sent")
}

/// A value to send.
pub(crate) type ValueRef<'a> = query::scalar::Val<'a>;

/// What a client is told about a value of a kind, where there is no column.
pub(crate) fn column_of(name: &str, kind: TypeKind) -> PgColumn {
    PgColumn::new(name, query::PgType::of(kernel::row::ColType::new(kind)))
}
