//! What the dictionary knows of an index.
//!
//! Promises: who makes a key by an [`IndexDef`] makes it as the index holds it. Must never look at
//! blocks.

use block::{Dba, ObjId, Scn};

use super::condition::Condition;
use super::def::{Derived, TableDef};
use super::expression::{Evaluator, KeyExpr};
use crate::btree::KeyForm;
use crate::row::{ColType, Datum, KeyOrder, RowTypes, RowView, Value, encode_ordered};

/// How an index holds its rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IndexKind {
    /// An entry for each row.
    #[default]
    Tree,
    /// The same, under keys that are turned round ([`crate::row::reverse_key`]): neighbours are
    /// far from each other, and only whole keys are found.
    Reverse,
    /// For each value bitmaps of the rows that have it. Never unique.
    Bitmap,
}

/// An index as of its table's version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexDef {
    pub kind: IndexKind,
    pub obj: ObjId,
    pub name: String,
    pub table: ObjId,
    /// Positions of the columns that its entries hold in the table, from 0; from
    /// [`super::KEY_EXPR`] on those of `exprs`. They are the key's, and behind them what else
    /// `included` says.
    pub columns: Vec<u16>,
    /// What INCLUDE names.
    pub included: Included,
    /// How the values of the key's columns stand; empty where they ascend in all of them, NULLs
    /// last. See [`IndexDef::orders`].
    pub orders: Vec<KeyOrder>,
    pub unique: bool,
    pub primary: bool,
    /// Name of the constraint it enforces.
    pub constraint: Option<String>,
    /// Header block of its segment.
    pub header: Dba,
    /// Root block; stays for the life of the segment.
    pub root: Dba,
    /// SCN of the segment's creation: older snapshots must not use the index.
    pub birth: Scn,
    /// Which rows it holds; `None`: all.
    pub predicate: Option<Condition>,
    /// The expressions in its key.
    pub exprs: Vec<KeyExpr>,
    /// Who computes them.
    pub evaluator: Evaluator,
    /// What they are made into.
    pub derived: Derived,
}

/// The columns of a table that an index has beside its key.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Included {
    pub columns: Vec<u16>,
    /// Whether entries hold them, as the last of the index's columns. Those of a unique index do
    /// not: its keys would not be unique by themselves.
    pub stored: bool,
}

impl IndexDef {
    /// The key's columns.
    #[must_use]
    pub fn key_columns(&self) -> &[u16] {
        let more = if self.included.stored { self.included.columns.len() } else { 0 };
        &self.columns[..self.columns.len().saturating_sub(more)]
    }

    /// How the values of the key's columns stand in its entries; those of further columns ascend.
    /// Only trees have an order.
    #[must_use]
    pub fn orders(&self) -> &[KeyOrder] {
        if self.kind == IndexKind::Tree { &self.orders } else { &[] }
    }

    /// How the values of the column at this place of the key stand.
    #[must_use]
    pub fn order(&self, at: usize) -> KeyOrder {
        self.orders().get(at).copied().unwrap_or_default()
    }

    /// Appends the value of the column at this place to a key, and says whether it is NULL.
    pub fn encode(&self, at: usize, value: &Datum<'_>, key: &mut Vec<u8>) -> bool {
        encode_ordered(value, self.order(at), key)
    }

    /// What its keys are like.
    #[must_use]
    pub fn form(&self) -> KeyForm<'_> {
        let reverse = self.kind == IndexKind::Reverse;
        KeyForm { unique: self.unique, reverse, orders: self.orders() }
    }

    /// Brings a key, all columns of it, to the form in which the index holds it.
    pub fn arrange(&self, key: &mut Vec<u8>) {
        if self.kind == IndexKind::Reverse {
            crate::row::reverse_key(key);
        }
    }

    /// The key's columns and the included ones.
    #[must_use]
    pub fn all_columns(&self) -> Vec<u16> {
        [self.key_columns(), &self.included.columns].concat()
    }

    /// The values of its expressions for each of the rows.
    ///
    /// # Errors
    /// [`crate::Error::Raised`].
    pub fn values(&self, table: &TableDef, rows: &[&[u8]]) -> crate::Result<Vec<Vec<Value>>> {
        self.evaluator.values(table, self, rows)
    }

    /// Makes what computes its expressions, into `derived`.
    ///
    /// # Errors
    /// [`crate::Error::Raised`].
    pub fn prepare(&self, table: &TableDef) -> crate::Result<()> {
        self.evaluator.prepare(table, self)
    }

    /// The type of a part of its key.
    #[must_use]
    pub fn part_type(&self, table: &TableDef, column: u16) -> ColType {
        match column.checked_sub(super::KEY_EXPR) {
            Some(at) => self.exprs[usize::from(at)].ty,
            None => table.columns[usize::from(column)].ty,
        }
    }

    /// Whether it holds a row.
    #[must_use]
    pub fn holds(&self, types: &RowTypes, row: &[u8]) -> bool {
        let condition = self.predicate.as_ref();
        condition.is_none_or(|condition| condition.holds(&RowView::new(types, row)))
    }
}

impl KeyOrder {
    /// What stands behind the column's position in `ind$`.
    pub(super) fn code(self) -> &'static str {
        match (self.descending, self.nulls_first) {
            (false, false) => "",
            (false, true) => "F",
            (true, true) => "D",
            (true, false) => "E",
        }
    }

    pub(super) fn of_code(code: &str) -> Option<KeyOrder> {
        // An order that was kept to be shown: the entries ascend.
        if matches!(code, "f" | "d" | "e") {
            return Some(KeyOrder::default());
        }
        let all = [(false, false), (false, true), (true, true), (true, false)];
        let mut all = all.map(|(descending, nulls_first)| KeyOrder { descending, nulls_first });
        all.iter_mut().find(|order| order.code() == code).copied()
    }
}
