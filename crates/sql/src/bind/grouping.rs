//! GROUP BY: its columns, and ROLLUP, CUBE and GROUPING SETS as lists of the sets that they stand
//! for. `rollup((a, b), c)` is `grouping sets ((a, b, c), (a, b), ())`. And what makes one group of
//! all rows without a column to group by: `group by ()`, and HAVING alone.
//!
//! What it promises: columns in parentheses come and go together; sets that are the same stand in
//! the list as often as they are asked for, so that each gives its rows. What it must never do:
//! bind an expression once for each set that it is in: they would be several then.

use super::query::{at_position, is_number};
use super::subquery::is_aggregate;
use super::{Binder, object_parts, plain_args, refuse};
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, GroupByExpr, SelectItem};

/// Columns that are grouped by together, or that a set has.
type Columns = Vec<Expr>;

/// As in PostgreSQL.
const SETS_MAX: usize = 4096;
const CUBE_MAX: usize = 12;
const _: () = assert!(1_usize << CUBE_MAX <= SETS_MAX);

impl Binder<'_> {
    /// GROUP BY, before HAVING is bound.
    pub(super) fn group_by(
        &mut self,
        group_by: &mut GroupByExpr,
        shown: &[SelectItem],
        having: &mut Option<Expr>,
    ) -> Result<()> {
        let GroupByExpr::Expressions(all, modifiers) = group_by else {
            return refuse("GROUP BY ALL");
        };
        if !modifiers.is_empty() {
            return refuse("this form of GROUP BY");
        }
        let clause = !all.is_empty();
        // `(a, b)` is no row here: the columns are grouped by one after the other.
        while let Some(at) = all.iter().position(|expr| matches!(expr, Expr::Tuple(_))) {
            if let Expr::Tuple(fields) = all.remove(at) {
                all.splice(at..at, fields);
            }
        }
        // All sets of one clause meet all of the next one.
        let mut count: usize = 1;
        for expr in all.iter_mut() {
            match expr {
                Expr::GroupingSets(_) | Expr::Cube(_) | Expr::Rollup(_) => {
                    let clause = std::mem::replace(expr, Expr::GroupingSets(Vec::new()));
                    let sets = self.grouping_sets(clause, shown)?;
                    count = count.saturating_mul(sets.len());
                    *expr = Expr::GroupingSets(sets);
                }
                // The planner puts there what is meant.
                expr if is_number(expr) => drop(at_position(expr, shown)?),
                expr => self.expr(expr)?,
            }
        }
        if all.is_empty() && (clause || having.is_some()) {
            one_group(shown, having)?;
        }
        check_count(count)
    }

    fn grouping_sets(&mut self, clause: Expr, shown: &[SelectItem]) -> Result<Vec<Columns>> {
        match clause {
            Expr::Rollup(mut parts) => {
                self.parts(&mut parts, shown)?;
                rolled_up(&parts)
            }
            Expr::Cube(mut parts) => {
                self.parts(&mut parts, shown)?;
                cubed(&parts)
            }
            Expr::GroupingSets(all) => {
                let mut sets = Vec::with_capacity(all.len());
                for mut set in all {
                    match inner_clause(&set)? {
                        Some(clause) => sets.extend(self.grouping_sets(clause, shown)?),
                        None => {
                            self.columns(&mut set, shown)?;
                            sets.push(set);
                        }
                    }
                    check_count(sets.len())?;
                }
                Ok(sets)
            }
            _ => Err(PgError::internal("no grouping sets")),
        }
    }

    fn parts(&mut self, parts: &mut [Columns], shown: &[SelectItem]) -> Result<()> {
        for part in parts {
            if part.is_empty() {
                return Err(PgError::syntax("syntax error at or near \")\""));
            }
            self.columns(part, shown)?;
        }
        Ok(())
    }

    fn columns(&mut self, columns: &mut [Expr], shown: &[SelectItem]) -> Result<()> {
        for one in columns {
            if !is_number(one) {
                self.expr(one)?;
                continue;
            }
            let Some(column) = at_position(one, shown)? else {
                return refuse("a position in grouping sets beside *");
            };
            *one = column;
        }
        Ok(())
    }
}

/// Makes one group of all rows, however few there are: the planner takes only an aggregate for a
/// sign of that.
fn one_group(shown: &[SelectItem], having: &mut Option<Expr>) -> Result<()> {
    let shown = shown.iter().filter_map(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    });
    if shown.chain(having.as_ref()).any(is_grouped) {
        return Ok(());
    }
    let any = crate::direct::parse_expr("count(*) >= 0")?;
    *having = Some(match having.take() {
        None => any,
        Some(condition) => Expr::BinaryOp {
            left: Box::new(Expr::Nested(Box::new(condition))),
            op: BinaryOperator::And,
            right: Box::new(any),
        },
    });
    Ok(())
}

/// Whether an aggregate is called in an expression itself.
fn is_grouped(expr: &Expr) -> bool {
    crate::outside::any(expr, |part| {
        let Expr::Function(function) = part else { return false };
        let name = object_parts(&function.name).ok().and_then(|mut parts| parts.pop());
        function.over.is_none() && name.is_some_and(|name| is_aggregate(&name))
    })
}

fn check_count(sets: usize) -> Result<()> {
    if sets > SETS_MAX {
        let text = format!("too many grouping sets present (maximum {SETS_MAX})");
        return Err(PgError::new("54001", text));
    }
    Ok(())
}

/// ROLLUP or CUBE as one of the GROUPING SETS, which the parser takes for a function's call.
fn inner_clause(set: &[Expr]) -> Result<Option<Expr>> {
    let [Expr::Function(call)] = set else { return Ok(None) };
    let clause = match object_parts(&call.name)?.as_slice() {
        [name] if name == "rollup" => Expr::Rollup,
        [name] if name == "cube" => Expr::Cube,
        _ => return Ok(None),
    };
    let part = |arg: Expr| match arg {
        Expr::Tuple(columns) => columns,
        Expr::Nested(column) => vec![*column],
        column => vec![column],
    };
    Ok(Some(clause(plain_args(call)?.into_iter().map(part).collect())))
}

/// All parts, then one less from the end each time, and no columns at last.
fn rolled_up(parts: &[Columns]) -> Result<Vec<Columns>> {
    check_count(parts.len().saturating_add(1))?;
    Ok((0..=parts.len()).rev().map(|count| parts[..count].concat()).collect())
}

/// Each choice of parts.
fn cubed(parts: &[Columns]) -> Result<Vec<Columns>> {
    if parts.len() > CUBE_MAX {
        return Err(PgError::new("54011", format!("CUBE is limited to {CUBE_MAX} elements")));
    }
    // The first part is in the first half of the sets.
    let chosen = |choice: usize| -> Columns {
        let is_in = |at: &usize| (choice >> (parts.len() - 1 - at)) & 1 == 1;
        (0..parts.len()).filter(is_in).flat_map(|at| parts[at].iter().cloned()).collect()
    };
    Ok((0..1_usize << parts.len()).rev().map(chosen).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::ast::Ident;

    fn parts(all: &[&str]) -> Vec<Columns> {
        let column = |name: char| Expr::Identifier(Ident::new(name));
        all.iter().map(|names| names.chars().map(column).collect()).collect()
    }

    fn shown(sets: &[Columns]) -> Vec<String> {
        sets.iter().map(|set| set.iter().map(ToString::to_string).collect()).collect()
    }

    #[test]
    fn parts_of_several_columns_come_and_go_together() {
        let sets = rolled_up(&parts(&["ab", "c"])).unwrap();
        assert_eq!(shown(&sets), ["abc", "ab", ""]);
        let sets = cubed(&parts(&["ab", "c"])).unwrap();
        assert_eq!(shown(&sets), ["abc", "ab", "c", ""]);
    }

    #[test]
    fn what_is_repeated_makes_sets_of_its_own() {
        let sets = rolled_up(&parts(&["a", "a"])).unwrap();
        assert_eq!(shown(&sets), ["aa", "a", ""]);
        let sets = cubed(&parts(&["a", "a"])).unwrap();
        assert_eq!(shown(&sets), ["aa", "a", "a", ""]);
    }

    #[test]
    fn there_are_limits() {
        let sets = cubed(&parts(&["a"; CUBE_MAX])).unwrap();
        assert_eq!(sets.len(), 1_usize << CUBE_MAX);
        let error = cubed(&parts(&["a"; CUBE_MAX + 1])).unwrap_err();
        assert_eq!(error.code, "54011");
        assert_eq!(check_count(SETS_MAX + 1).unwrap_err().code, "54001");
    }
}
