//! Comparisons with what `sys_context` and `userenv` tell, which is a text: `sid =
//! sys_context('userenv', 'sid')`.
//!
//! What it promises: beside a column of numbers the text is read as a number. What it must never
//! do: change what is compared with texts.

use super::plain_name;
use crate::bind::call;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Value};

/// The text in its second place as a value of the type of the first one.
pub(crate) const AS_OF: &str = "$as_of";

fn tells(expr: &Expr, is_routine: &dyn Fn(&str) -> bool) -> bool {
    let Expr::Function(function) = expr else { return false };
    plain_name(&function.name).is_some_and(|name| {
        matches!(name.as_str(), "sys_context" | "userenv") && !is_routine(&name)
    })
}

/// The column, and the place of the text that it is compared with.
fn sides<'e>(
    expr: &'e mut Expr,
    is_routine: &dyn Fn(&str) -> bool,
) -> Option<(&'e Expr, &'e mut Expr)> {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    let Expr::BinaryOp { left, op: Eq | NotEq | Lt | LtEq | Gt | GtEq, right } = expr else {
        return None;
    };
    let is_column = |expr: &Expr| matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
    if is_column(left) && tells(right, is_routine) {
        return Some((&**left, &mut **right));
    }
    if is_column(right) && tells(left, is_routine) {
        return Some((&**right, &mut **left));
    }
    None
}

/// Whether a column is compared with what the session tells.
pub(super) fn is_compared(expr: &Expr, is_routine: &dyn Fn(&str) -> bool) -> bool {
    matches!(expr, Expr::BinaryOp { left, right, .. }
        if tells(left, is_routine) || tells(right, is_routine))
}

/// Reads the text as what it is compared with.
pub(super) fn compare(expr: &mut Expr, is_routine: &dyn Fn(&str) -> bool) {
    if let Some((column, text)) = sides(expr, is_routine) {
        let column = column.clone();
        let told = std::mem::replace(text, Expr::Value(Value::Null.into()));
        *text = call(AS_OF, vec![column, told]);
    }
}

#[cfg(test)]
mod tests {
    use crate::idioms::tests::shown;

    #[test]
    fn a_column_is_compared_with_a_value_of_its_type() {
        assert_eq!(
            shown("select 1 from s where sid = userenv('sid') and a = 1"),
            "SELECT 1 FROM s WHERE sid = \"$as_of\"(sid, userenv('sid')) AND a = 1"
        );
        let plain = "SELECT 1 WHERE 'x' = userenv('sid')";
        assert_eq!(shown(plain), plain);
    }
}
