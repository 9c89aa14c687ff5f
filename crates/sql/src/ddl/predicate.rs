//! The predicate of a partial index: from its text to a condition of the kernel's, and back.
//!
//! What it promises: the condition means what the text means, NULL included. What it must never
//! do: take one whose constants the columns cannot hold as they are.

use crate::bind::Params;
use crate::bind::scalar::ScalarBinder;
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, visit_expressions_mut};
use kernel::dict::{Comparison, Condition, TableDef};
use kernel::row::{ColType, TypeKind, Value, encode_key};
use query::Scalar;
use query::cast::{CastMode, cast};
use query::functions::quote_ident;
use query::implied::value_of_key;
use query::scalar::{EvalContext, compare};
use query::wire::{FormatEnv, to_text};
use std::ops::ControlFlow;

fn refused(expr: &Expr) -> PgError {
    PgError::unsupported(format!("the index predicate {expr}"))
}

/// `x = ANY (ARRAY[...])` as a list, which PostgreSQL writes so.
fn lists_of(expr: &mut Expr) {
    let _: ControlFlow<()> = visit_expressions_mut(expr, |part| {
        if let Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } = part {
            let mut array = &**right;
            while let Expr::Nested(inner) | Expr::Cast { expr: inner, .. } = array {
                array = inner;
            }
            if let Expr::Array(array) = array {
                let (expr, list) = (left.clone(), array.elem.clone());
                *part = Expr::InList { expr, list, negated: false };
            }
        }
        ControlFlow::Continue(())
    });
}

/// A predicate as a scalar over the table's rows.
pub(crate) fn bind_predicate(expr: &Expr, table: &TableDef) -> Result<Scalar> {
    let mut expr = expr.clone();
    crate::named_types::mark_in_table(&mut expr, table);
    lists_of(&mut expr);
    let mut params = Params::new(Vec::new(), 0);
    let bound = ScalarBinder::new(table, &table.name, &mut params).bind_condition(&expr)?;
    let bound = bound.ok_or_else(|| refused(&expr))?;
    let mut stable = !params.hidden.is_empty();
    bound.walk(&mut |part| {
        stable |= matches!(part, Scalar::Call(called, _) if !called.is_immutable());
    });
    if stable {
        let text = "functions in index predicate must be marked IMMUTABLE";
        return Err(PgError::new("42P17", text));
    }
    Ok(bound)
}

/// A predicate as the kernel keeps it.
pub(super) fn condition_of(expr: &Expr, table: &TableDef, env: &FormatEnv) -> Result<Condition> {
    crate::conflict::check_predicate(&expr.to_string(), table)?;
    let scalar = bind_predicate(expr, table)?;
    Maker { table, env }.condition(&scalar)?.ok_or_else(|| refused(expr))
}

struct Maker<'a> {
    table: &'a TableDef,
    env: &'a FormatEnv,
}

impl Maker<'_> {
    fn condition(&self, scalar: &Scalar) -> Result<Option<Condition>> {
        Ok(match scalar {
            Scalar::And(sides) | Scalar::Or(sides) => {
                let and = matches!(scalar, Scalar::And(_));
                let (left, right) = (self.condition(&sides.0)?, self.condition(&sides.1)?);
                let (Some(left), Some(right)) = (left, right) else { return Ok(None) };
                let mut all = Vec::new();
                for one in [left, right] {
                    match one {
                        Condition::And(inner) if and => all.extend(inner),
                        Condition::Or(inner) if !and => all.extend(inner),
                        other => all.push(other),
                    }
                }
                Some(if and { Condition::And(all) } else { Condition::Or(all) })
            }
            Scalar::Not(inner) => self.condition(inner)?.map(|c| Condition::Not(Box::new(c))),
            Scalar::IsNull(inner) => self.column(inner).map(Condition::IsNull),
            Scalar::Column(_) => self.column(scalar).map(Condition::True),
            Scalar::Compare(op, sides) => {
                let (at, op, other) = match (self.column(&sides.0), self.column(&sides.1)) {
                    (Some(at), None) => (at, *op, &sides.1),
                    (None, Some(at)) => (at, op.flipped(), &sides.0),
                    _ => return Ok(None),
                };
                self.key(at, other)?.map(|key| Condition::Compare(op, at, key))
            }
            Scalar::In(value, list) => {
                let Some(at) = self.column(value) else { return Ok(None) };
                let mut keys = Vec::with_capacity(list.len());
                for one in list {
                    let Some(key) = self.key(at, one)? else { return Ok(None) };
                    keys.push(key);
                }
                Some(Condition::Among(at, keys))
            }
            _ => None,
        })
    }

    /// The column that it is; a cast of text to text changes nothing.
    fn column(&self, scalar: &Scalar) -> Option<u16> {
        match scalar {
            Scalar::Column(at) => u16::try_from(*at).ok(),
            Scalar::Cast(inner, ty, _) if *ty == ColType::new(TypeKind::Text) => {
                let at = self.column(inner)?;
                let own = self.table.columns[usize::from(at)].ty.kind;
                matches!(own, TypeKind::Text | TypeKind::Varchar).then_some(at)
            }
            _ => None,
        }
    }

    /// The key of a constant in the column's type; `None` for what that type cannot say.
    fn key(&self, at: u16, scalar: &Scalar) -> Result<Option<Box<[u8]>>> {
        let ty = self.table.columns[usize::from(at)].ty.without_limit();
        if !scalar.is_row_free() || !ty.is_ordered() || ty.kind == TypeKind::Array {
            return Ok(None);
        }
        let value = scalar.eval(&EvalContext { row: None, params: &[], env: self.env })?;
        let value = value.into_value();
        if value.is_null() {
            return Ok(None);
        }
        let Ok(own) = cast(&value.as_datum(), ty, CastMode::Explicit, self.env) else {
            return Ok(None);
        };
        let same = compare(&own.as_datum(), &value.as_datum());
        if !matches!(same, Ok(Some(order)) if order.is_eq()) {
            return Ok(None);
        }
        let mut key = Vec::new();
        encode_key(&[own.as_datum()], &mut key);
        Ok(Some(key.into()))
    }
}

/// The predicate as it is shown, in brackets.
pub(crate) fn predicate_text(table: &TableDef, condition: &Condition) -> String {
    let name = |at: &u16| quote_ident(&table.columns[usize::from(*at)].name);
    let value = |at: &u16, key: &[u8]| {
        let ty = table.columns[usize::from(*at)].ty.without_limit();
        value_of_key(ty, key).map_or_else(|| "NULL".to_owned(), |value| literal(&value, ty))
    };
    let joined = |all: &[Condition], word: &str| {
        let all: Vec<String> = all.iter().map(|one| predicate_text(table, one)).collect();
        format!("({})", all.join(word))
    };
    match condition {
        Condition::And(all) => joined(all, " AND "),
        Condition::Or(all) => joined(all, " OR "),
        Condition::Not(inner) => match &**inner {
            Condition::IsNull(at) => format!("({} IS NOT NULL)", name(at)),
            other => format!("(NOT {})", predicate_text(table, other)),
        },
        Condition::IsNull(at) => format!("({} IS NULL)", name(at)),
        Condition::True(at) => name(at),
        Condition::Compare(op, at, key) => {
            let op = match op {
                Comparison::Eq => "=",
                Comparison::Ne => "<>",
                Comparison::Lt => "<",
                Comparison::Le => "<=",
                Comparison::Gt => ">",
                Comparison::Ge => ">=",
            };
            format!("({} {op} {})", name(at), value(at, key))
        }
        Condition::Among(at, keys) => {
            let all: Vec<String> = keys.iter().map(|key| value(at, key)).collect();
            format!("({} IN ({}))", name(at), all.join(", "))
        }
    }
}

pub(super) fn quote_literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A constant that reads back the same.
fn literal(value: &Value, ty: ColType) -> String {
    let text = to_text(&value.as_datum(), &FormatEnv::plain());
    match value {
        Value::Bool(v) => v.to_string(),
        Value::Int2(_) | Value::Int4(_) | Value::Int8(_) | Value::Numeric(..) => {
            if text.starts_with('-') { format!("'{text}'::{ty}") } else { text }
        }
        Value::Enum(_) => {
            let own = ty.enum_type();
            let own = own.map_or_else(String::new, |def| {
                format!("::{}.{}", quote_ident(&def.schema), quote_ident(&def.name))
            });
            format!("{}{own}", quote_literal(&text))
        }
        _ => format!("{}::{ty}", quote_literal(&text)),
    }
}
