//! The names that calls of functions have in the schemas of plans.
//!
//! What for: the library forms the name of an expression again for every expression around it, each
//! time the types of that are asked for: the cube of the number of operators in a row. What it
//! promises: equal calls have equal names, others have others; the name of a call in which others
//! lie deep is short, and costs no more than a look at what it is made of.

use datafusion::error::Result as DfResult;
use datafusion::logical_expr::Expr;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Calls in one another that still have the name of all of them.
const LEVELS_MAX: usize = 24;

/// The name of a call with these arguments.
pub(super) fn of_call(function: &str, args: &[Expr]) -> DfResult<String> {
    let mut name = format!("{function}(");
    if is_deep(args) {
        let mut hasher = DefaultHasher::new();
        args.hash(&mut hasher);
        write!(name, "#{:016x}", hasher.finish())?;
    } else {
        for (at, arg) in args.iter().enumerate() {
            if at > 0 {
                name.push(',');
            }
            write!(name, "{}", arg.schema_name())?;
        }
    }
    name.push(')');
    Ok(name)
}

/// Whether one of the arguments is a call with such an argument, and so on.
fn is_deep(args: &[Expr]) -> bool {
    // Of all the ways down, two: that of a row of operators, and that of calls in brackets.
    goes_down(args, <[Expr]>::first) || goes_down(args, <[Expr]>::last)
}

fn goes_down(args: &[Expr], way: fn(&[Expr]) -> Option<&Expr>) -> bool {
    let (mut args, mut levels) = (args, 0);
    while let Some(expr) = way(args) {
        let mut expr = expr;
        args = loop {
            match expr {
                Expr::ScalarFunction(call) => break &call.args,
                Expr::Cast(cast) => expr = &cast.expr,
                Expr::Alias(alias) => expr = &alias.expr,
                Expr::Negative(of) | Expr::Not(of) => expr = of,
                Expr::BinaryExpr(binary) => expr = &binary.left,
                _ => return false,
            }
        };
        levels += 1;
        if levels == LEVELS_MAX {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::expr::ScalarFunction;
    use datafusion::prelude::{abs, col, lit};

    /// `f` of itself, so many times.
    fn nested(levels: usize, of: Expr, last: bool) -> Expr {
        let Expr::ScalarFunction(call) = abs(lit(1)) else { panic!() };
        (0..levels).fold(of, |inner, _| {
            let args = if last { vec![lit(1), inner] } else { vec![inner, lit(1)] };
            Expr::ScalarFunction(ScalarFunction::new_udf(call.func.clone(), args))
        })
    }

    #[test]
    fn deep_calls_have_short_names_that_tell_them_apart() {
        assert_eq!(of_call("f", &[col("a"), lit(1)]).unwrap(), "f(a,Int32(1))");
        for last in [false, true] {
            let name = |of: Expr| of_call("f", &[nested(LEVELS_MAX + 1, of, last)]).unwrap();
            assert_eq!(name(col("a")), name(col("a")));
            assert_ne!(name(col("a")), name(col("b")));
            assert_eq!(name(col("a")).len(), "f(#0123456789abcdef)".len());
        }
        let shallow = of_call("f", &[nested(3, col("a"), false)]).unwrap();
        assert_eq!(shallow, "f(abs(abs(abs(a,Int32(1)),Int32(1)),Int32(1)))");
    }
}
