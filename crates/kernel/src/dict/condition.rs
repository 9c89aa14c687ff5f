//! The predicate of a partial index: which rows it holds.
//!
//! Conditions of a form that cannot fail and needs nothing but the row: columns compared with
//! constants, which are kept as the keys that they have in the column's type. NULL is kept apart
//! from false, as in SQL; the index holds the rows for which the whole is true.

use crate::row::{RowView, encode_key};

/// A comparison: of a column's key with a constant's, or of any two values.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Comparison {
    /// All of them, with their codes on disk.
    const ALL: [(Comparison, u8); 6] = [
        (Comparison::Eq, 0),
        (Comparison::Ne, 1),
        (Comparison::Lt, 2),
        (Comparison::Le, 3),
        (Comparison::Gt, 4),
        (Comparison::Ge, 5),
    ];

    /// The operator with its sides exchanged.
    #[must_use]
    pub const fn flipped(self) -> Comparison {
        match self {
            Comparison::Lt => Comparison::Gt,
            Comparison::Le => Comparison::Ge,
            Comparison::Gt => Comparison::Lt,
            Comparison::Ge => Comparison::Le,
            same => same,
        }
    }

    /// Whether it is true of two values in this order.
    #[must_use]
    #[inline]
    pub const fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            Comparison::Eq => order.is_eq(),
            Comparison::Ne => order.is_ne(),
            Comparison::Lt => order.is_lt(),
            Comparison::Le => order.is_le(),
            Comparison::Gt => order.is_gt(),
            Comparison::Ge => order.is_ge(),
        }
    }
}

/// A condition on one row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Condition {
    And(Vec<Condition>),
    Or(Vec<Condition>),
    Not(Box<Condition>),
    IsNull(u16),
    /// A boolean column.
    True(u16),
    Compare(Comparison, u16, Box<[u8]>),
    /// The column equals one of these.
    Among(u16, Vec<Box<[u8]>>),
}

impl Condition {
    /// Whether it is true of a row.
    #[must_use]
    pub fn holds(&self, row: &RowView<'_>) -> bool {
        self.truth(row) == Some(true)
    }

    fn truth(&self, row: &RowView<'_>) -> Option<bool> {
        let key = |column: u16| {
            let datum = row.get(usize::from(column));
            (!datum.is_null()).then(|| {
                let mut key = Vec::new();
                encode_key(&[datum], &mut key);
                key
            })
        };
        match self {
            Condition::And(all) => {
                let mut unknown = false;
                for one in all {
                    match one.truth(row) {
                        Some(false) => return Some(false),
                        Some(true) => {}
                        None => unknown = true,
                    }
                }
                (!unknown).then_some(true)
            }
            Condition::Or(all) => {
                let mut unknown = false;
                for one in all {
                    match one.truth(row) {
                        Some(true) => return Some(true),
                        Some(false) => {}
                        None => unknown = true,
                    }
                }
                (!unknown).then_some(false)
            }
            Condition::Not(inner) => inner.truth(row).map(|truth| !truth),
            Condition::IsNull(column) => Some(row.is_null(usize::from(*column))),
            Condition::True(column) => match row.get(usize::from(*column)) {
                crate::row::Datum::Bool(truth) => Some(truth),
                _ => None,
            },
            Condition::Compare(op, column, value) => {
                key(*column).map(|key| op.holds(key.as_slice().cmp(value)))
            }
            Condition::Among(column, values) => {
                key(*column).map(|key| values.iter().any(|value| **value == *key))
            }
        }
    }

    /// The columns that it names.
    pub fn columns(&self, found: &mut Vec<u16>) {
        match self {
            Condition::And(all) | Condition::Or(all) => {
                all.iter().for_each(|one| one.columns(found));
            }
            Condition::Not(inner) => inner.columns(found),
            Condition::IsNull(column)
            | Condition::True(column)
            | Condition::Compare(_, column, _)
            | Condition::Among(column, _) => {
                if !found.contains(column) {
                    found.push(*column);
                }
            }
        }
    }

    /// The same with columns at other places; `None` if one is gone.
    #[must_use]
    pub fn moved(&self, to: &impl Fn(u16) -> Option<u16>) -> Option<Condition> {
        let list = |all: &[Condition]| all.iter().map(|one| one.moved(to)).collect::<Option<_>>();
        Some(match self {
            Condition::And(all) => Condition::And(list(all)?),
            Condition::Or(all) => Condition::Or(list(all)?),
            Condition::Not(inner) => Condition::Not(Box::new(inner.moved(to)?)),
            Condition::IsNull(column) => Condition::IsNull(to(*column)?),
            Condition::True(column) => Condition::True(to(*column)?),
            Condition::Compare(op, column, value) => {
                Condition::Compare(*op, to(*column)?, value.clone())
            }
            Condition::Among(column, values) => Condition::Among(to(*column)?, values.clone()),
        })
    }

    /// As `ind$` keeps it.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let count = |n: usize, out: &mut Vec<u8>| {
            let n = u32::try_from(n).unwrap_or(u32::MAX);
            out.extend_from_slice(&n.to_le_bytes());
        };
        let bytes = |value: &[u8], out: &mut Vec<u8>| {
            count(value.len(), out);
            out.extend_from_slice(value);
        };
        match self {
            Condition::And(all) | Condition::Or(all) => {
                out.push(if matches!(self, Condition::And(_)) { b'&' } else { b'|' });
                count(all.len(), out);
                all.iter().for_each(|one| one.encode(out));
            }
            Condition::Not(inner) => {
                out.push(b'!');
                inner.encode(out);
            }
            Condition::IsNull(column) => {
                out.push(b'n');
                out.extend_from_slice(&column.to_le_bytes());
            }
            Condition::True(column) => {
                out.push(b't');
                out.extend_from_slice(&column.to_le_bytes());
            }
            Condition::Compare(op, column, value) => {
                out.push(b'c');
                let code = Comparison::ALL.iter().find(|(one, _)| one == op);
                out.push(code.map_or(0, |(_, code)| *code));
                out.extend_from_slice(&column.to_le_bytes());
                bytes(value, out);
            }
            Condition::Among(column, values) => {
                out.push(b'i');
                out.extend_from_slice(&column.to_le_bytes());
                count(values.len(), out);
                values.iter().for_each(|value| bytes(value, out));
            }
        }
    }

    /// Inverse of [`Condition::encode`]; `None` for other bytes.
    pub(super) fn decode(bytes: &[u8]) -> Option<Condition> {
        let mut rest = bytes;
        let found = Condition::take(&mut rest, 0)?;
        rest.is_empty().then_some(found)
    }

    fn take(rest: &mut &[u8], depth: u32) -> Option<Condition> {
        if depth > DEPTH_MAX {
            return None;
        }
        let list = |rest: &mut &[u8]| -> Option<Vec<Condition>> {
            let count = take_count(rest)?;
            (0..count).map(|_| Condition::take(rest, depth + 1)).collect()
        };
        Some(match take_bytes(rest, 1)?[0] {
            b'&' => Condition::And(list(rest)?),
            b'|' => Condition::Or(list(rest)?),
            b'!' => Condition::Not(Box::new(Condition::take(rest, depth + 1)?)),
            b'n' => Condition::IsNull(take_column(rest)?),
            b't' => Condition::True(take_column(rest)?),
            b'c' => {
                let code = take_bytes(rest, 1)?[0];
                let (op, _) = Comparison::ALL.into_iter().find(|(_, known)| *known == code)?;
                let column = take_column(rest)?;
                let count = take_count(rest)?;
                Condition::Compare(op, column, take_bytes(rest, count)?.into())
            }
            b'i' => {
                let column = take_column(rest)?;
                let count = take_count(rest)?;
                let one = |_| {
                    let len = take_count(rest)?;
                    Some(take_bytes(rest, len)?.into())
                };
                Condition::Among(column, (0..count).map(one).collect::<Option<_>>()?)
            }
            _ => return None,
        })
    }
}

/// How deep a condition may be.
const DEPTH_MAX: u32 = 200;

fn take_bytes<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (head, tail) = rest.split_at_checked(count)?;
    *rest = tail;
    Some(head)
}

fn take_column(rest: &mut &[u8]) -> Option<u16> {
    Some(u16::from_le_bytes(take_bytes(rest, 2)?.try_into().ok()?))
}

fn take_count(rest: &mut &[u8]) -> Option<usize> {
    let count = u32::from_le_bytes(take_bytes(rest, 4)?.try_into().ok()?);
    // Each needs a byte at least.
    usize::try_from(count).ok().filter(|count| *count <= rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{ColType, Datum, TypeKind, encode_row};

    fn key(v: i32) -> Box<[u8]> {
        let mut key = Vec::new();
        encode_key(&[Datum::Int4(v)], &mut key);
        key.into()
    }

    #[test]
    fn conditions_know_null_from_false_and_survive_the_disk() {
        let types = [ColType::new(TypeKind::Int4), ColType::new(TypeKind::Bool)];
        let more = Condition::Compare(Comparison::Gt, 0, key(5));
        let among = Condition::Among(0, vec![key(1), key(9)]);
        let all = [
            (more.clone(), [true, false, false]),
            (Condition::Not(Box::new(more.clone())), [false, true, false]),
            (Condition::IsNull(0), [false, false, true]),
            (among.clone(), [true, true, false]),
            (Condition::And(vec![more.clone(), among, Condition::True(1)]), [true, false, false]),
            (Condition::Or(vec![more, Condition::True(1)]), [true, true, true]),
        ];
        for (condition, want) in all {
            for (value, want) in [Datum::Int4(9), Datum::Int4(1), Datum::Null].iter().zip(want) {
                let mut row = Vec::new();
                encode_row(&types, &[*value, Datum::Bool(true)], &mut row);
                assert_eq!(condition.holds(&RowView::new(&types, &row)), want, "{condition:?}");
            }
            let mut bytes = Vec::new();
            condition.encode(&mut bytes);
            assert_eq!(Condition::decode(&bytes), Some(condition));
            for cut in 0..bytes.len() {
                assert_eq!(Condition::decode(&bytes[..cut]), None);
            }
        }
    }
}
