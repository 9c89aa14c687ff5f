//! Joins by the names of columns, and names that mean several columns.
//!
//! USING and NATURAL become conditions, and a column that such a join shows once becomes what it
//! is: that of one side, or of whichever side has a row.
//!
//! What it promises: `*` shows what PostgreSQL shows, in its order; a name that stands for more
//! than one column is refused. What it must never do: guess the columns of a source that it does
//! not know.

use super::from::{Kind, Scope, Source};
use super::quoted;
use super::walk::{Rewriter, column};
use crate::bind::{call, ident_name, object_parts};
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Join, JoinConstraint, JoinOperator, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableFactor, TableWithJoins, Value,
};

/// A column that a name alone may mean.
#[derive(Clone)]
pub(super) struct Visible {
    pub(super) name: String,
    pub(super) expr: Expr,
    /// Whether it stands for a column of either side of a join.
    pub(super) merged: bool,
}

/// The columns of one source; `None`: they are not known.
pub(super) fn visible(source: &Source) -> Option<Vec<Visible>> {
    if source.kind == Kind::Unknown || source.alias.is_empty() {
        return None;
    }
    let one = |name: &String| Visible {
        name: name.clone(),
        expr: column(&source.alias, name),
        merged: false,
    };
    Some(source.columns.iter().map(one).collect())
}

/// Which side's value a column has that both sides have.
#[derive(Clone, Copy)]
enum Side {
    Left,
    Right,
    Either,
}

fn constraint(operator: &mut JoinOperator) -> Option<(&mut JoinConstraint, Side)> {
    Some(match operator {
        JoinOperator::Join(on)
        | JoinOperator::Inner(on)
        | JoinOperator::Left(on)
        | JoinOperator::LeftOuter(on) => (on, Side::Left),
        JoinOperator::Right(on) | JoinOperator::RightOuter(on) => (on, Side::Right),
        JoinOperator::FullOuter(on) => (on, Side::Either),
        _ => return None,
    })
}

/// The one column of a side that is called so.
fn only<'v>(side: &'v [Visible], name: &str, word: &str) -> Result<&'v Visible> {
    let mut all = side.iter().filter(|one| one.name == name);
    let Some(first) = all.next() else {
        let text =
            format!("column \"{name}\" specified in USING clause does not exist in {word} table");
        return Err(PgError::new("42703", text));
    };
    if all.next().is_some() {
        let text = format!("common column name \"{name}\" appears more than once in {word} table");
        return Err(PgError::new("42702", text));
    }
    Ok(first)
}

/// What is visible of two sides joined; names that the join goes by become a condition.
pub(super) fn joined(
    left: Vec<Visible>,
    right: Vec<Visible>,
    join: &mut Join,
) -> Result<Vec<Visible>> {
    let Some((on, side)) = constraint(&mut join.join_operator) else {
        return Ok([left, right].concat());
    };
    let names: Vec<String> = match on {
        JoinConstraint::Using(names) => {
            names.iter().filter_map(|name| object_parts(name).ok()?.pop()).collect()
        }
        JoinConstraint::Natural => {
            let common = |one: &&Visible| right.iter().any(|other| other.name == one.name);
            left.iter().filter(common).map(|one| one.name.clone()).collect()
        }
        _ => return Ok([left, right].concat()),
    };
    let (mut merged, mut condition) = (Vec::with_capacity(names.len()), None);
    for name in &names {
        let (one, other) = (only(&left, name, "left")?, only(&right, name, "right")?);
        let binary = |left: &Expr, op, right: &Expr| Expr::BinaryOp {
            left: Box::new(left.clone()),
            op,
            right: Box::new(right.clone()),
        };
        let equal = binary(&one.expr, BinaryOperator::Eq, &other.expr);
        condition = Some(match condition {
            None => equal,
            Some(before) => binary(&before, BinaryOperator::And, &equal),
        });
        let expr = match side {
            Side::Left => one.expr.clone(),
            Side::Right => other.expr.clone(),
            Side::Either => call("coalesce", vec![one.expr.clone(), other.expr.clone()]),
        };
        merged.push(Visible { name: name.clone(), expr, merged: true });
    }
    *on = JoinConstraint::On(condition.unwrap_or(Expr::Value(Value::Boolean(true).into())));
    let rest = left.into_iter().chain(right).filter(|one| !names.contains(&one.name));
    Ok(merged.into_iter().chain(rest).collect())
}

impl Scope {
    /// What the item of a select list shows, if it is a wildcard over known sources.
    fn expanded(&self, item: &SelectItem) -> Option<Vec<Visible>> {
        match item {
            SelectItem::Wildcard(_) => self.visible.clone(),
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                let wanted = object_parts(name).ok()?.pop()?;
                self.sources.iter().find(|source| source.alias == wanted).and_then(visible)
            }
            _ => None,
        }
    }

    /// Puts columns in the place of wildcards where those would show them wrong: in another order,
    /// or several of one name.
    pub(super) fn expand(&self, items: &mut Vec<SelectItem>) {
        let Some(visible) = &self.visible else { return };
        let mut shown: Vec<Visible> = Vec::new();
        let mut twice = false;
        for one in items.iter().filter_map(|item| self.expanded(item)).flatten() {
            let same = shown.iter().filter(|known| known.name == one.name);
            let mut same = same.peekable();
            twice |= same.peek().is_some();
            // What has several columns of one name shows them itself.
            if !one.merged && same.any(|known| known.expr == one.expr) {
                return;
            }
            shown.push(one);
        }
        if !twice && !visible.iter().any(|one| one.merged) {
            return;
        }
        let mut out = Vec::with_capacity(items.len());
        for item in items.drain(..) {
            let Some(columns) = self.expanded(&item) else {
                out.push(item);
                continue;
            };
            out.extend(columns.into_iter().map(|one| match one.merged {
                false => SelectItem::UnnamedExpr(one.expr),
                true => SelectItem::ExprWithAlias { expr: one.expr, alias: quoted(&one.name) },
            }));
        }
        *items = out;
    }
}

impl Rewriter<'_> {
    /// What a column's name becomes, if it is no plain column.
    ///
    /// # Errors
    /// 42702 if it means several.
    pub(super) fn named(&self, expr: &Expr) -> Result<Option<Expr>> {
        let ambiguous = |name: &str| {
            let text = format!("column reference \"{name}\" is ambiguous");
            Err(PgError::new("42702", text))
        };
        match expr {
            Expr::Identifier(ident) => {
                let name = ident_name(ident);
                let has = |scope: &&Scope| {
                    let mut columns = scope.sources.iter().flat_map(|source| &source.columns);
                    scope.visible.is_none() || columns.any(|own| *own == name)
                };
                let scope = self.scopes.iter().rev().find(has);
                let Some(visible) = scope.and_then(|scope| scope.visible.as_ref()) else {
                    return Ok(None);
                };
                let mut all = visible.iter().filter(|one| one.name == name);
                match (all.next(), all.next()) {
                    (Some(_), Some(_)) => ambiguous(&name),
                    (Some(one), None) if one.merged => Ok(Some(one.expr.clone())),
                    _ => Ok(None),
                }
            }
            Expr::CompoundIdentifier(parts) => {
                let [alias, name] = &parts[..] else { return Ok(None) };
                let (alias, name) = (ident_name(alias), ident_name(name));
                let scopes = self.scopes.iter().rev();
                let mut sources = scopes.flat_map(|scope| &scope.sources);
                let source = sources.find(|source| source.alias == alias);
                let count = source
                    .map_or(0, |source| source.columns.iter().filter(|own| **own == name).count());
                if count > 1 { ambiguous(&name) } else { Ok(None) }
            }
            _ => Ok(None),
        }
    }
}

fn any_by_name(from: &TableWithJoins) -> bool {
    let nested = |factor: &TableFactor| match factor {
        TableFactor::NestedJoin { table_with_joins, .. } => any_by_name(table_with_joins),
        _ => false,
    };
    nested(&from.relation)
        || from.joins.iter().any(|join| {
            let mut operator = join.join_operator.clone();
            let by_name = constraint(&mut operator).is_some_and(|(on, _)| {
                matches!(on, JoinConstraint::Using(_) | JoinConstraint::Natural)
            });
            by_name || nested(&join.relation)
        })
}

/// Whether a query has such joins, or may show several columns of one name.
pub(super) fn joins_by_name(query: &Query) -> bool {
    fn in_select(select: &Select) -> bool {
        let wild = |item: &&SelectItem| {
            matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
        };
        let several = select.from.len() > 1 || select.from.iter().any(|one| !one.joins.is_empty());
        (several && select.projection.iter().any(|item| wild(&item)))
            || select.from.iter().any(any_by_name)
    }
    fn in_body(body: &SetExpr) -> bool {
        match body {
            SetExpr::Select(select) => in_select(select),
            SetExpr::SetOperation { left, right, .. } => in_body(left) || in_body(right),
            _ => false,
        }
    }
    in_body(&query.body)
}
