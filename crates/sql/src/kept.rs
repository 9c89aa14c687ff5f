//! Rows of a statement that runs to its end at once, handed out as the client asks for them.
//!
//! What for: RETURNING, FOR UPDATE, SHOW and EXPLAIN are done when their first row is sent; a
//! client that asks for a few rows at a time must still get no more than it asked for.

use crate::encode::RowSink;
use crate::session::Fetched;
use bytes::BytesMut;
use std::collections::VecDeque;

/// Takes all rows of a statement.
#[derive(Default)]
pub(crate) struct KeptRows {
    rows: VecDeque<BytesMut>,
    tag: String,
}

impl KeptRows {
    /// The statement is done.
    pub(crate) fn finish(&mut self, tag: String) {
        self.tag = tag;
    }

    /// Sends at most `max_rows` rows (0: all).
    pub(crate) fn hand_out(&mut self, max_rows: usize, sink: &mut dyn RowSink) -> Fetched {
        let mut sent = 0;
        // As in PostgreSQL, who asks for n rows and gets n is not told that there are no more.
        while max_rows == 0 || sent < max_rows {
            let Some(row) = self.rows.pop_front() else {
                return Fetched::Complete(std::mem::take(&mut self.tag));
            };
            sink.row().extend_from_slice(&row);
            sink.flush_if_large();
            sent += 1;
        }
        Fetched::Suspended
    }
}

impl RowSink for KeptRows {
    fn row(&mut self) -> &mut BytesMut {
        self.rows.push_back(BytesMut::new());
        self.rows.back_mut().expect("a row was just added")
    }

    /// A copy has no rows to keep.
    fn copy_out(&mut self, _binary: bool, _columns: usize) {}

    fn flush_if_large(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_handed_out_as_asked_for() {
        let mut kept = KeptRows::default();
        for b in b"abc" {
            kept.row().extend_from_slice(&[*b]);
        }
        kept.finish("SELECT 3".to_owned());
        let mut out = KeptRows::default();
        assert_eq!(kept.hand_out(2, &mut out), Fetched::Suspended);
        assert_eq!(out.rows.len(), 2);
        assert_eq!(kept.hand_out(1, &mut out), Fetched::Suspended);
        assert_eq!(out.rows.len(), 3);
        assert_eq!(kept.hand_out(2, &mut out), Fetched::Complete("SELECT 3".to_owned()));
    }
}
