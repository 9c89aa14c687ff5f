//! Whether filters leave only rows that a partial index holds.
//!
//! What it promises: where it says yes, every row that the filters keep meets the predicate. It
//! looks at each part of the predicate by itself, and at constants only: what a parameter is, is
//! not known when a plan is made. What it must never do: guess.

use crate::scalar::{CmpOp, Scalar, compare};
use kernel::dict::Condition;
use kernel::row::{ColType, Value, decode_key};
use std::cmp::Ordering;

/// Whether rows of these types that pass all filters meet the predicate.
#[must_use]
pub fn implies(filters: &[Scalar], types: &[ColType], predicate: &Condition) -> bool {
    let mut conjuncts = Vec::new();
    filters.iter().for_each(|filter| filter.conjuncts(&mut conjuncts));
    Known { conjuncts: &conjuncts, types }.says(predicate)
}

struct Known<'a> {
    conjuncts: &'a [&'a Scalar],
    types: &'a [ColType],
}

/// What a conjunct says of a column.
enum Said<'a> {
    Null,
    NotNull,
    True,
    False,
    Compare(CmpOp, &'a Value),
    Among(Vec<&'a Value>),
}

fn column(scalar: &Scalar) -> Option<u16> {
    match scalar {
        Scalar::Column(at) => u16::try_from(*at).ok(),
        _ => None,
    }
}

fn constant(scalar: &Scalar) -> Option<&Value> {
    match scalar {
        Scalar::Const(value) if !value.is_null() => Some(value),
        _ => None,
    }
}

/// What a condition says, and of which column; every comparison that holds says "not NULL" too.
fn said(conjunct: &Scalar) -> Option<(u16, Said<'_>)> {
    match conjunct {
        Scalar::Column(_) => Some((column(conjunct)?, Said::True)),
        Scalar::IsNull(inner) => Some((column(inner)?, Said::Null)),
        Scalar::Not(inner) => match &**inner {
            Scalar::IsNull(inner) => Some((column(inner)?, Said::NotNull)),
            other => Some((column(other)?, Said::False)),
        },
        Scalar::Compare(op, sides) => {
            let (at, op, other) = match (column(&sides.0), column(&sides.1)) {
                (Some(at), _) => (at, *op, &sides.1),
                (None, Some(at)) => (at, op.flipped(), &sides.0),
                (None, None) => return None,
            };
            Some((at, constant(other).map_or(Said::NotNull, |value| Said::Compare(op, value))))
        }
        Scalar::In(value, list) => {
            let values = list.iter().map(constant).collect::<Option<Vec<_>>>();
            Some((column(value)?, values.map_or(Said::NotNull, Said::Among)))
        }
        _ => None,
    }
}

impl Known<'_> {
    fn says(&self, predicate: &Condition) -> bool {
        match predicate {
            Condition::And(all) => all.iter().all(|one| self.says(one)),
            Condition::Or(all) => all.iter().any(|one| self.says(one)),
            Condition::Not(inner) => match &**inner {
                Condition::IsNull(at) => self.any(*at, |said| !matches!(said, Said::Null)),
                Condition::True(at) => self.any(*at, |said| match said {
                    Said::False | Said::Compare(CmpOp::Eq, Value::Bool(false)) => true,
                    Said::Compare(CmpOp::Ne, Value::Bool(v)) => *v,
                    _ => false,
                }),
                _ => false,
            },
            Condition::IsNull(at) => self.any(*at, |said| matches!(said, Said::Null)),
            Condition::True(at) => self.any(*at, |said| match said {
                Said::True | Said::Compare(CmpOp::Eq, Value::Bool(true)) => true,
                Said::Compare(CmpOp::Ne, Value::Bool(v)) => !*v,
                _ => false,
            }),
            Condition::Compare(op, at, key) => {
                let Some(bound) = self.value(*at, key) else { return false };
                self.any(*at, |said| match said {
                    Said::Compare(own, value) => follows(*own, value, *op, &bound),
                    Said::Among(values) => {
                        let one = |value: &&Value| follows(CmpOp::Eq, value, *op, &bound);
                        values.iter().all(one)
                    }
                    _ => false,
                })
            }
            Condition::Among(at, keys) => {
                let values =
                    keys.iter().map(|key| self.value(*at, key)).collect::<Option<Vec<_>>>();
                let Some(known) = values else { return false };
                let within = |value: &Value| {
                    known.iter().any(|one| order(value, one) == Some(Ordering::Equal))
                };
                self.any(*at, |said| match said {
                    Said::Compare(CmpOp::Eq, value) => within(value),
                    Said::Among(values) => values.iter().all(|value| within(value)),
                    _ => false,
                })
            }
        }
    }

    fn any(&self, at: u16, fits: impl Fn(&Said<'_>) -> bool) -> bool {
        let of_column = self.conjuncts.iter().filter_map(|one| said(one));
        of_column.filter(|(column, _)| *column == at).any(|(_, said)| fits(&said))
    }

    /// The constant behind a key of a column.
    fn value(&self, at: u16, key: &[u8]) -> Option<Value> {
        value_of_key(*self.types.get(usize::from(at))?, key)
    }
}

/// A predicate as filters say it; `None`: one of its constants cannot be read.
pub(crate) fn scalar_of(predicate: &Condition, types: &[ColType]) -> Option<Scalar> {
    let column = |at: &u16| Scalar::Column(usize::from(*at));
    let constant = |at: &u16, key: &[u8]| {
        let ty = *types.get(usize::from(*at))?;
        value_of_key(ty, key).map(Scalar::Const)
    };
    let joined = |all: &[Condition], join: &dyn Fn(Scalar, Scalar) -> Scalar| {
        let parts = all.iter().map(|one| scalar_of(one, types));
        parts.collect::<Option<Vec<Scalar>>>()?.into_iter().reduce(join)
    };
    match predicate {
        Condition::And(all) => joined(all, &Scalar::and),
        Condition::Or(all) => joined(all, &|a, b| Scalar::Or(Box::new((a, b)))),
        Condition::Not(inner) => Some(Scalar::Not(Box::new(scalar_of(inner, types)?))),
        Condition::IsNull(at) => Some(Scalar::IsNull(Box::new(column(at)))),
        Condition::True(at) => Some(column(at)),
        Condition::Compare(op, at, key) => {
            Some(Scalar::compare(*op, column(at), constant(at, key)?))
        }
        Condition::Among(at, keys) => {
            let values = keys.iter().map(|key| constant(at, key)).collect::<Option<Vec<_>>>()?;
            Some(Scalar::In(Box::new(column(at)), values))
        }
    }
}

/// The value that a key of a type stands for.
#[must_use]
pub fn value_of_key(ty: ColType, key: &[u8]) -> Option<Value> {
    let mut values = Vec::new();
    decode_key(&[ty], key, &mut values).ok()?;
    values.pop()
}

fn order(a: &Value, b: &Value) -> Option<Ordering> {
    compare(&a.as_datum(), &b.as_datum()).ok().flatten()
}

/// Whether `x own value` makes `x wanted bound` true.
fn follows(own: CmpOp, value: &Value, wanted: CmpOp, bound: &Value) -> bool {
    use CmpOp as P;
    let Some(order) = order(value, bound) else { return false };
    match own {
        CmpOp::Eq => wanted.holds(order),
        CmpOp::Ne => wanted == P::Ne && order.is_eq(),
        CmpOp::Lt => match wanted {
            P::Lt | P::Le | P::Ne => order.is_le(),
            _ => false,
        },
        CmpOp::Le => match wanted {
            P::Lt | P::Ne => order.is_lt(),
            P::Le => order.is_le(),
            _ => false,
        },
        CmpOp::Gt => match wanted {
            P::Gt | P::Ge | P::Ne => order.is_ge(),
            _ => false,
        },
        CmpOp::Ge => match wanted {
            P::Gt | P::Ne => order.is_gt(),
            P::Ge => order.is_ge(),
            _ => false,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::row::{Datum, TypeKind, encode_key};

    fn key(v: i32) -> Box<[u8]> {
        let mut key = Vec::new();
        encode_key(&[Datum::Int4(v)], &mut key);
        key.into()
    }

    fn says(op: CmpOp, v: i32, predicate: &Condition) -> bool {
        let filter = Scalar::compare(op, Scalar::Column(0), Scalar::Const(Value::Int4(v)));
        implies(&[filter], &[ColType::new(TypeKind::Int4)], predicate)
    }

    #[test]
    fn what_follows_is_true_of_every_number() {
        let ops = [CmpOp::Eq, CmpOp::Ne, CmpOp::Lt, CmpOp::Le, CmpOp::Gt, CmpOp::Ge];
        let mut found = 0;
        for own in ops {
            for wanted in ops {
                for (value, bound) in (-3..3).flat_map(|v| (-3..3).map(move |b| (v, b))) {
                    if !says(own, value, &Condition::Compare(wanted, 0, key(bound))) {
                        continue;
                    }
                    found += 1;
                    for x in -9i32..9 {
                        let kept = own.holds(x.cmp(&value));
                        assert!(!kept || wanted.holds(x.cmp(&bound)), "{own:?} {wanted:?}");
                    }
                }
            }
        }
        assert!(found > 200, "{found}");
    }

    #[test]
    fn a_predicate_is_told_as_a_filter() {
        let types = [ColType::new(TypeKind::Int4), ColType::new(TypeKind::Bool)];
        let predicate = Condition::And(vec![
            Condition::Compare(CmpOp::Gt, 0, key(7)),
            Condition::Not(Box::new(Condition::True(1))),
        ]);
        let above = Scalar::compare(CmpOp::Gt, Scalar::Column(0), Scalar::Const(Value::Int4(7)));
        let not = Scalar::Not(Box::new(Scalar::Column(1)));
        assert_eq!(scalar_of(&predicate, &types), Some(Scalar::and(above, not)));
        let unknown = Condition::Compare(CmpOp::Gt, 2, key(7));
        assert_eq!(scalar_of(&unknown, &types), None);
    }

    #[test]
    fn comparisons_say_that_a_column_is_not_null() {
        let not_null = Condition::Not(Box::new(Condition::IsNull(0)));
        assert!(says(CmpOp::Gt, 1, &not_null));
        let param = Scalar::compare(CmpOp::Eq, Scalar::Column(0), Scalar::Param(0));
        let types = [ColType::new(TypeKind::Int4)];
        assert!(implies(std::slice::from_ref(&param), &types, &not_null));
        assert!(!implies(&[param], &types, &Condition::Compare(CmpOp::Eq, 0, key(1))));
        assert!(!says(CmpOp::Gt, 1, &Condition::IsNull(0)));
    }
}
