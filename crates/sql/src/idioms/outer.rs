//! Outer joins by `(+)`: `WHERE e.dept = d.id(+)` as `LEFT JOIN`.
//!
//! What it promises: conditions with the sign are those of the join, the others are asked of its
//! rows. What it must never do: guess to which relation a column belongs, where that decides.

use super::{alias_of, all_of, conjuncts};
use crate::bind::ident_name;
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Join, JoinConstraint, JoinOperator, ObjectName, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableFactor, TableWithJoins, visit_expressions,
    visit_expressions_mut,
};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// A condition with the sign.
struct Marked {
    /// The relation whose columns have it.
    outer: usize,
    /// The others that it names.
    others: BTreeSet<usize>,
    /// Whether a column in it says no relation.
    open: bool,
    condition: Expr,
}

fn has_sign(expr: &Expr) -> bool {
    crate::outside::any(expr, |part| matches!(part, Expr::OuterJoin(_)))
}

fn wrong<T>(text: &str, hint: &str) -> Result<T> {
    Err(PgError::new("42601", text).with_hint(hint))
}

/// The relation that a column is qualified with.
fn relation(parts: &[Ident], names: &[String]) -> Result<Option<usize>> {
    let [qualifier @ .., _] = parts else { return Ok(None) };
    let Some(last) = qualifier.last() else { return Ok(None) };
    let last = ident_name(last);
    Ok(names.iter().position(|name| *name == last))
}

fn marked(mut condition: Expr, names: &[String]) -> Result<Marked> {
    let subquery: ControlFlow<()> = visit_expressions(&condition, |part| match part {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    if subquery.is_break() {
        return Err(PgError::unsupported("(+) beside a subquery"));
    }
    let (mut outer, mut all, mut open) = (BTreeSet::new(), BTreeSet::new(), false);
    let mut unknown = false;
    let _: ControlFlow<()> = visit_expressions(&condition, |part| {
        match part {
            Expr::OuterJoin(column) => match &**column {
                Expr::CompoundIdentifier(parts) => match relation(parts, names) {
                    Ok(Some(at)) => _ = outer.insert(at),
                    _ => unknown = true,
                },
                _ => unknown = true,
            },
            Expr::CompoundIdentifier(parts) => {
                // Others are of a query further out.
                if let Ok(Some(at)) = relation(parts, names) {
                    all.insert(at);
                }
            }
            Expr::Identifier(_) => open = true,
            _ => {}
        }
        ControlFlow::Continue(())
    });
    if unknown {
        return wrong(
            "a column with (+) must say its relation",
            "Qualify it by the name of what stands in FROM.",
        );
    }
    let mut outer = outer.into_iter();
    let (Some(at), None) = (outer.next(), outer.next()) else {
        return wrong(
            "a condition may have (+) at columns of one relation only",
            "Use FULL JOIN for rows of both sides.",
        );
    };
    all.remove(&at);
    let _: ControlFlow<()> = visit_expressions_mut(&mut condition, |part| {
        if let Expr::OuterJoin(column) = part {
            *part = (**column).clone();
        }
        ControlFlow::Continue(())
    });
    Ok(Marked { outer: at, others: all, open, condition })
}

/// The relations that a condition names, if each of its columns says one and no query is in it.
fn named(condition: &Expr, names: &[String]) -> Option<BTreeSet<usize>> {
    let mut all = BTreeSet::new();
    let found: ControlFlow<()> = visit_expressions(condition, |part| match part {
        Expr::CompoundIdentifier(parts) => match relation(parts, names) {
            Ok(Some(at)) => {
                all.insert(at);
                ControlFlow::Continue(())
            }
            _ => ControlFlow::Break(()),
        },
        Expr::Identifier(_) | Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    found.is_continue().then_some(all)
}

/// Puts joins in the place of the signs of a select, if there are any.
pub(super) fn joins_in(body: &mut SetExpr) -> Result<()> {
    match body {
        SetExpr::Select(select) => joined(select),
        SetExpr::SetOperation { left, right, .. } => {
            joins_in(left)?;
            joins_in(right)
        }
        _ => Ok(()),
    }
}

fn joined(select: &mut Select) -> Result<()> {
    if !select.selection.as_ref().is_some_and(has_sign) {
        return Ok(());
    }
    let simple = |from: &TableWithJoins| from.joins.is_empty();
    if !select.from.iter().all(simple) {
        return wrong(
            "(+) cannot be used beside JOIN",
            "Write all joins of the query in one of the two ways.",
        );
    }
    let mut names = Vec::with_capacity(select.from.len());
    for from in &select.from {
        match alias_of(&from.relation) {
            Some(alias) => names.push(ident_name(&alias)),
            None => return Err(PgError::unsupported("(+) beside this form of a table in FROM")),
        }
    }
    let mut conditions = Vec::new();
    if let Some(selection) = select.selection.take() {
        conjuncts(selection, &mut conditions);
    }
    let (signed, mut rest): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(has_sign);
    let signed = signed.into_iter().map(|one| marked(one, &names)).collect::<Result<Vec<_>>>()?;
    let outer: BTreeSet<usize> = signed.iter().map(|one| one.outer).collect();
    if outer.len() == names.len() {
        return wrong(
            "all relations of the query are joined by (+)",
            "The relation whose rows are all to be kept has no sign.",
        );
    }
    wildcards(select, &names);
    let factors: Vec<TableFactor> =
        std::mem::take(&mut select.from).into_iter().map(|from| from.relation).collect();
    let mut made: Option<TableWithJoins> = None;
    let mut here: BTreeSet<usize> = BTreeSet::new();
    for at in (0..names.len()).filter(|at| !outer.contains(at)) {
        here.insert(at);
        let (on, others): (Vec<Expr>, Vec<Expr>) = rest.into_iter().partition(|one| {
            made.is_some()
                && named(one, &names)
                    .is_some_and(|of| of.len() > 1 && of.contains(&at) && of.is_subset(&here))
        });
        rest = others;
        let relation = factors[at].clone();
        match &mut made {
            None => made = Some(TableWithJoins { relation, joins: Vec::new() }),
            Some(made) => made.joins.push(Join {
                relation,
                global: false,
                join_operator: match all_of(on) {
                    Some(on) => JoinOperator::Inner(JoinConstraint::On(on)),
                    None => JoinOperator::CrossJoin(JoinConstraint::None),
                },
            }),
        }
    }
    let mut left: Vec<usize> = outer.iter().copied().collect();
    let mut signed = signed;
    while !left.is_empty() {
        // What names no relation may be of any: it comes when all others are there.
        let ready = left.iter().position(|at| {
            let mut own = signed.iter().filter(|one| one.outer == *at);
            own.all(|one| {
                one.others.is_subset(&here)
                    && (!one.open || !one.others.is_empty() || left.len() == 1 || names.len() == 2)
            })
        });
        let Some(ready) = ready else {
            return wrong(
                "relations are joined to each other in a circle by (+)",
                "Qualify all columns of these conditions, and give the sign to one of two sides.",
            );
        };
        let at = left.remove(ready);
        let (own, others): (Vec<Marked>, Vec<Marked>) =
            signed.into_iter().partition(|one| one.outer == at);
        signed = others;
        here.insert(at);
        let on = all_of(own.into_iter().map(|one| one.condition).collect());
        let on = on.ok_or_else(|| PgError::internal("an outer join without a condition"))?;
        if let Some(made) = &mut made {
            made.joins.push(Join {
                relation: factors[at].clone(),
                global: false,
                join_operator: JoinOperator::LeftOuter(JoinConstraint::On(on)),
            });
        }
    }
    select.from = made.into_iter().collect();
    select.selection = all_of(rest);
    Ok(())
}

/// `*` shows the columns in the order in which the relations were written.
fn wildcards(select: &mut Select, names: &[String]) {
    let mut out = Vec::with_capacity(select.projection.len());
    for item in std::mem::take(&mut select.projection) {
        match item {
            SelectItem::Wildcard(options) => out.extend(names.iter().map(|name| {
                let name = ObjectName::from(vec![super::quoted(name)]);
                let kind = SelectItemQualifiedWildcardKind::ObjectName(name);
                SelectItem::QualifiedWildcard(kind, options.clone())
            })),
            other => out.push(other),
        }
    }
    select.projection = out;
}

#[cfg(test)]
mod tests {
    use super::super::tests::shown;

    #[test]
    fn signs_become_left_joins() {
        assert_eq!(
            shown("select e.a, d.b from e, d where e.d = d.id(+) and e.a > 1"),
            "SELECT e.a, d.b FROM e LEFT OUTER JOIN d ON e.d = d.id WHERE e.a > 1"
        );
        assert_eq!(
            shown("select * from e, d where e.d(+) = d.id and e.x(+) = 'x'"),
            "SELECT \"e\".*, \"d\".* FROM d LEFT OUTER JOIN e ON e.d = d.id AND e.x = 'x'"
        );
        assert_eq!(
            shown("select 1 from a, b, c, d where a.x = b.x and b.y = c.y(+) and c.z = d.z(+)"),
            "SELECT 1 FROM a INNER JOIN b ON a.x = b.x LEFT OUTER JOIN c ON b.y = c.y LEFT OUTER \
             JOIN d ON c.z = d.z"
        );
        for text in [
            "select 1 from a, b where a.x(+) = b.x(+)",
            "select 1 from a, b where a.x(+) = b.x and a.y = b.y(+)",
            "select 1 from a, b where x = y(+)",
            "select 1 from a join b on a.x = b.x, c where a.y = c.y(+)",
        ] {
            assert_eq!(shown(text), "42601", "{text}");
        }
    }
}
