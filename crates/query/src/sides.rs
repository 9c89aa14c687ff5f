//! The sides of a comparison: where they stand, and what blanks at the end of char(n) mean.
//!
//! What it promises: char(n) beside varchar, or beside what has no type yet, is compared as two of
//! char(n), beside a text as two texts; the library sees a known value last. What it must never do:
//! change what an error says of the sides: those stand as they were written.

use crate::functions::cast_expr;
use crate::types::{oid, pg_type_of_field};
use crate::wire::FormatEnv;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::expr::{InList, Placeholder};
use datafusion::logical_expr::planner::{PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use kernel::row::{ColType, TypeKind};
use std::sync::Arc;

/// The oid of the type that clients are told of an expression.
fn oid_of(expr: &Expr, schema: &DFSchema) -> Option<u32> {
    let field = expr.to_field(schema).ok().map(|(_, field)| field);
    field.map(|field| pg_type_of_field(&field).oid)
}

/// Whether the expression is of type char(n), whose blanks at the end mean nothing and are not
/// stored.
pub(crate) fn is_padded(expr: &Expr, schema: &DFSchema) -> bool {
    oid_of(expr, schema) == Some(oid::BPCHAR)
}

/// A value as one of char(n): without blanks at its end.
fn without_blanks(expr: Expr, env: FormatEnv) -> Expr {
    match expr {
        Expr::Literal(ScalarValue::Utf8(Some(text)), meta) => {
            Expr::Literal(ScalarValue::Utf8(Some(text.trim_end_matches(' ').to_owned())), meta)
        }
        other => cast_expr(other, ColType::new(TypeKind::Char), env),
    }
}

/// What stands beside a value of char(n). Blanks at its end count if it is a text: as a text, the
/// value of char(n) has none.
pub(crate) fn beside_char(expr: Expr, schema: &DFSchema, env: FormatEnv) -> Expr {
    match expr {
        Expr::Literal(ScalarValue::Utf8(Some(_)), _) => without_blanks(expr, env),
        Expr::Placeholder(parameter) => match &parameter.field {
            None => {
                let field = Arc::new(Field::new("", DataType::Utf8, true));
                let typed = Placeholder::new_with_field(parameter.id, Some(field));
                without_blanks(Expr::Placeholder(typed), env)
            }
            // Clients may send char(n) with its blanks.
            Some(field) if matches!(pg_type_of_field(field).oid, oid::VARCHAR | oid::BPCHAR) => {
                without_blanks(Expr::Placeholder(parameter), env)
            }
            Some(_) => Expr::Placeholder(parameter),
        },
        other if oid_of(&other, schema) == Some(oid::VARCHAR) => without_blanks(other, env),
        other => other,
    }
}

/// The list beside a value of char(n): several known values are of its type, as in PostgreSQL,
/// which looks for one type for all of them; each other one is compared by itself. `None`: the
/// value is of another type.
pub(crate) fn list_beside_char(list: &InList, schema: &DFSchema, env: FormatEnv) -> Option<Expr> {
    if !is_padded(&list.expr, schema) {
        return None;
    }
    let is_known = |item: &Expr| !item.any_column_refs() && !item.contains_outer();
    let several = list.list.iter().filter(|item| is_known(item)).count() > 1;
    let untyped = |item: &Expr| matches!(item, Expr::Placeholder(p) if p.field.is_none());
    let compared = |item: &Expr| {
        if several && is_known(item) && !untyped(item) {
            without_blanks(item.clone(), env)
        } else {
            beside_char(item.clone(), schema, env)
        }
    };
    let items = list.list.iter().map(compared).collect();
    Some(Expr::InList(InList { expr: list.expr.clone(), list: items, negated: list.negated }))
}

/// The comparison that says the same with its sides changed; `None`: it is none.
fn turned(op: &BinaryOperator) -> Option<BinaryOperator> {
    Some(match op {
        BinaryOperator::Eq => BinaryOperator::Eq,
        BinaryOperator::NotEq => BinaryOperator::NotEq,
        BinaryOperator::Lt => BinaryOperator::Gt,
        BinaryOperator::LtEq => BinaryOperator::GtEq,
        BinaryOperator::Gt => BinaryOperator::Lt,
        BinaryOperator::GtEq => BinaryOperator::LtEq,
        _ => return None,
    })
}

/// Whether it is made of written values and parameters, by operators and casts.
fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(..) | Expr::Placeholder(_) => true,
        Expr::Cast(cast) => is_constant(&cast.expr),
        Expr::Negative(inner) => is_constant(inner),
        Expr::BinaryExpr(binary) => is_constant(&binary.left) && is_constant(&binary.right),
        Expr::ScalarFunction(call) => {
            call.name().starts_with('$') && call.args.iter().all(is_constant)
        }
        _ => false,
    }
}

/// Whether a known value stands first beside one that is none.
pub(crate) fn is_value_first(expr: &RawBinaryExpr) -> bool {
    is_constant(&expr.left) && !is_constant(&expr.right)
}

/// A comparison as the library plans it. It takes `1 = a` and `a = 1` for two conditions that
/// cannot both hold, and which of `5 < a` and `a >= 5` is the narrower for the other one.
pub(crate) fn value_last(expr: RawBinaryExpr, first: bool) -> PlannerResult<RawBinaryExpr> {
    PlannerResult::Original(match turned(&expr.op) {
        Some(op) if first => RawBinaryExpr { op, left: expr.right, right: expr.left },
        _ => expr,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::prelude::{col, lit};

    /// The operator and the left side that the library is given.
    fn planned(op: BinaryOperator, left: Expr, right: Expr) -> (BinaryOperator, Expr) {
        let raw = RawBinaryExpr { op, left, right };
        let first = is_value_first(&raw);
        match value_last(raw, first) {
            PlannerResult::Original(raw) => (raw.op, raw.left),
            PlannerResult::Planned(_) => panic!("nothing is planned here"),
        }
    }

    #[test]
    fn a_value_goes_last_beside_what_is_none() {
        let a = || col("a");
        assert_eq!(planned(BinaryOperator::Lt, lit(1), a()), (BinaryOperator::Gt, a()));
        assert_eq!(planned(BinaryOperator::LtEq, -lit(1), a()), (BinaryOperator::GtEq, a()));
        assert_eq!(planned(BinaryOperator::Lt, a(), lit(1)), (BinaryOperator::Lt, a()));
        assert_eq!(planned(BinaryOperator::Lt, a(), col("b")), (BinaryOperator::Lt, a()));
        assert_eq!(planned(BinaryOperator::Eq, lit(1), lit(2)), (BinaryOperator::Eq, lit(1)));
        assert_eq!(planned(BinaryOperator::Plus, lit(1), a()), (BinaryOperator::Plus, lit(1)));
    }

    #[test]
    fn blanks_count_beside_char_only_in_texts() {
        let (schema, env) = (DFSchema::empty(), FormatEnv::plain());
        assert_eq!(beside_char(lit("x  "), &schema, env), lit("x"));
        let text = cast_expr(lit("x  "), ColType::new(TypeKind::Text), env);
        assert_eq!(beside_char(text.clone(), &schema, env), text);
        let varchar = cast_expr(lit("x  "), ColType::new(TypeKind::Varchar), env);
        assert!(is_padded(&beside_char(varchar, &schema, env), &schema));
        let untyped = Placeholder::new_with_field("$1".to_owned(), None);
        assert!(is_padded(&beside_char(Expr::Placeholder(untyped), &schema, env), &schema));
    }
}
