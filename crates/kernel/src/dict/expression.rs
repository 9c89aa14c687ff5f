//! Keys that are computed: what an index on an expression is over.
//!
//! The kernel knows no expressions. It keeps their text, and asks whoever has registered for it
//! with [`set_key_expressions`] for their values, from every place that writes rows. What it
//! promises: an index on expressions is kept by the same code as any other. What it must never do:
//! write a row of a table with such an index without having asked.

use std::fmt;
use std::sync::Arc;

use super::def::TableDef;
use super::index::IndexDef;
use super::state::of;
use crate::error::{Error, Result};
use crate::row::{ColType, TypeKind, Value};
use crate::txn::Core;

/// In [`IndexDef::columns`], from here on a number is the position of an expression in
/// [`IndexDef::exprs`].
pub const KEY_EXPR: u16 = 0x8000;

/// An expression that an index is over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyExpr {
    /// Its SQL text, with the table's columns by their bare names.
    pub text: String,
    pub ty: ColType,
    /// Positions of the columns that it names.
    pub columns: Vec<u16>,
}

/// Computes keys.
pub trait KeyExpressions: Send + Sync {
    /// Makes what [`KeyExpressions::values`] needs, and leaves it in the index's `derived`.
    ///
    /// # Errors
    /// [`Error::Raised`] if it cannot be made.
    fn prepare(&self, table: &TableDef, index: &IndexDef) -> Result<()>;

    /// The values of the index's expressions, for each of the rows. Nothing may wait in it.
    ///
    /// # Errors
    /// [`Error::Raised`] if an expression cannot be computed.
    fn values(&self, table: &TableDef, index: &IndexDef, rows: &[&[u8]])
    -> Result<Vec<Vec<Value>>>;
}

/// Who computes the keys of an index; nobody where there are no expressions.
#[derive(Clone, Default)]
pub struct Evaluator(pub(super) Option<Arc<dyn KeyExpressions>>);

impl Evaluator {
    fn own(&self, index: &IndexDef) -> Result<&Arc<dyn KeyExpressions>> {
        let nobody = || Error::Invariant(format!("nobody computes the keys of {}", index.name));
        self.0.as_ref().ok_or_else(nobody)
    }

    pub(super) fn prepare(&self, table: &TableDef, index: &IndexDef) -> Result<()> {
        self.own(index)?.prepare(table, index)
    }

    pub(super) fn values(
        &self,
        table: &TableDef,
        index: &IndexDef,
        rows: &[&[u8]],
    ) -> Result<Vec<Vec<Value>>> {
        let values = self.own(index)?.values(table, index, rows)?;
        let fits =
            values.len() == rows.len() && values.iter().all(|row| row.len() == index.exprs.len());
        match fits {
            true => Ok(values),
            false => Err(Error::Invariant(format!("other keys than those of {}", index.name))),
        }
    }
}

impl PartialEq for Evaluator {
    fn eq(&self, _: &Evaluator) -> bool {
        true
    }
}

impl Eq for Evaluator {}

impl fmt::Debug for Evaluator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Evaluator")
    }
}

/// From now on definitions of this instance have their keys computed by `own`. Once only.
///
/// # Errors
/// [`Error::Closing`] while the instance is not open.
pub fn set_key_expressions(core: &Core, own: Arc<dyn KeyExpressions>) -> Result<()> {
    of(core)?.set_key_expressions(own);
    Ok(())
}

/// As `ind$` keeps them; `None` if there are none.
pub(super) fn expr_bytes(exprs: &[KeyExpr]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let count = |n: usize, out: &mut Vec<u8>| {
        let n = u32::try_from(n).unwrap_or(u32::MAX);
        out.extend_from_slice(&n.to_le_bytes());
    };
    for expr in exprs {
        count(expr.text.len(), &mut out);
        out.extend_from_slice(expr.text.as_bytes());
        out.push(expr.ty.kind.code());
        out.extend_from_slice(&expr.ty.modifier.to_le_bytes());
        count(expr.columns.len(), &mut out);
        expr.columns.iter().for_each(|column| out.extend_from_slice(&column.to_le_bytes()));
    }
    (!exprs.is_empty()).then_some(out)
}

/// Inverse of [`expr_bytes`]; `None` for other bytes.
pub(super) fn exprs_of(bytes: &[u8]) -> Option<Vec<KeyExpr>> {
    fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
        let (head, tail) = rest.split_at_checked(count)?;
        *rest = tail;
        Some(head)
    }
    fn count(rest: &mut &[u8]) -> Option<usize> {
        let count = u32::from_le_bytes(take(rest, 4)?.try_into().ok()?);
        usize::try_from(count).ok().filter(|count| *count <= rest.len())
    }
    let (mut rest, mut exprs) = (bytes, Vec::new());
    while !rest.is_empty() {
        let len = count(&mut rest)?;
        let text = String::from_utf8(take(&mut rest, len)?.to_vec()).ok()?;
        let kind = TypeKind::from_code(take(&mut rest, 1)?[0])?;
        // What names an enum's definition counts in one process only.
        if kind == TypeKind::Enum {
            return None;
        }
        let modifier = i32::from_le_bytes(take(&mut rest, 4)?.try_into().ok()?);
        let columns = count(&mut rest)?;
        let one = |_| Some(u16::from_le_bytes(take(&mut rest, 2)?.try_into().ok()?));
        let columns = (0..columns).map(one).collect::<Option<Vec<u16>>>()?;
        exprs.push(KeyExpr { text, ty: ColType { kind, modifier }, columns });
    }
    Some(exprs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_survive_the_disk() {
        let exprs = [
            KeyExpr {
                text: "lower(name)".into(),
                ty: ColType::new(TypeKind::Text),
                columns: vec![1],
            },
            KeyExpr { text: "a + b".into(), ty: ColType::numeric(9, 2), columns: vec![0, 300] },
        ];
        assert_eq!(expr_bytes(&[]), None);
        let first = expr_bytes(&exprs[..1]).expect("bytes").len();
        let bytes = expr_bytes(&exprs).expect("bytes");
        assert_eq!(exprs_of(&bytes).as_deref(), Some(&exprs[..]));
        for cut in 1..bytes.len() {
            assert_eq!(exprs_of(&bytes[..cut]).is_some(), cut == first, "{cut}");
        }
    }
}
