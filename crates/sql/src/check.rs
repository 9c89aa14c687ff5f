//! CHECK constraints: what they say, and whether a row meets it.
//!
//! What it promises: a row that makes a condition false is not written; NULL is as good as true.
//! What it must never do: look at another row.

use crate::bind::{HiddenCall, Params, ident_name};
use crate::direct::parse_expr;
use crate::dml::failing_row;
use crate::returning::Returning;
use crate::session::Session;
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, SelectItem, UnaryOperator, visit_expressions,
    visit_expressions_mut,
};
use futures::StreamExt;
use kernel::dict::TableDef;
use kernel::row::{Datum, RowView};
use query::functions::format_type;
use query::scalar::EvalContext;
use query::types::oid;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A table's conditions, bound. Kept with its definition.
struct Checks {
    exprs: Returning,
    calls: Vec<HiddenCall>,
}

/// Functions over many rows, which have no place in a condition on one.
const AGGREGATES: [&str; 14] = [
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "bool_and",
    "bool_or",
    "every",
    "string_agg",
    "array_agg",
    "stddev",
    "variance",
    "median",
    "listagg",
];

/// Whether a function over many rows is called in an expression.
pub(crate) fn has_aggregate(expr: &Expr) -> bool {
    visit_expressions(expr, |part| match part {
        Expr::Function(function) => {
            let name = function.name.0.last().and_then(|part| part.as_ident()).map(ident_name);
            match name.is_some_and(|name| AGGREGATES.contains(&name.as_str())) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

/// The condition as it is kept: columns by their bare names.
pub(crate) fn normal(expr: &Expr) -> Result<Expr> {
    let mut expr = expr.clone();
    let refused = visit_expressions_mut(&mut expr, |part| {
        if let Expr::CompoundIdentifier(parts) = part
            && let Some(last) = parts.last()
        {
            *part = Expr::Identifier(last.clone());
        }
        let refused = match &*part {
            Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => {
                PgError::new("0A000", "cannot use subquery in check constraint")
            }
            Expr::Function(function) => {
                let name = function.name.0.last().and_then(|part| part.as_ident()).map(ident_name);
                let name = name.unwrap_or_default();
                if function.over.is_some() {
                    let text = "window functions are not allowed in check constraints";
                    PgError::new("42P20", text)
                } else if AGGREGATES.contains(&name.as_str()) {
                    let text = "aggregate functions are not allowed in check constraints";
                    PgError::new("42803", text)
                } else {
                    return ControlFlow::Continue(());
                }
            }
            _ => return ControlFlow::Continue(()),
        };
        ControlFlow::Break(refused)
    });
    match refused {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(expr),
    }
}

/// The name of the column that a part of an expression is.
fn column_name(part: &Expr) -> Option<String> {
    match part {
        Expr::Identifier(ident) => Some(ident_name(ident)),
        Expr::CompoundIdentifier(parts) => parts.last().map(ident_name),
        _ => None,
    }
}

/// The columns that an expression names, in their order in the table.
pub(crate) fn columns_of(expr: &Expr, names: &[&str]) -> Vec<usize> {
    let mut found = Vec::new();
    let _: ControlFlow<()> = visit_expressions(expr, |part| {
        let name = column_name(part);
        found.extend(names.iter().position(|known| Some(*known) == name.as_deref()));
        ControlFlow::Continue(())
    });
    found.sort_unstable();
    found.dedup();
    found
}

/// The same condition on a column of another name.
pub(crate) fn with_column(expr: &str, old: &str, new: &str) -> Result<String> {
    let mut expr = parse_expr(expr)?;
    let _: ControlFlow<()> = visit_expressions_mut(&mut expr, |part| {
        if column_name(part).as_deref() == Some(old) {
            let plain = query::functions::quote_ident(new) == new;
            let ident = if plain { Ident::new(new) } else { Ident::with_quote('"', new) };
            *part = Expr::Identifier(ident);
        }
        ControlFlow::Continue(())
    });
    Ok(expr.to_string())
}

/// The name PostgreSQL would give: with the column, if the condition is on one alone.
pub(crate) fn chosen_name(
    table: &str,
    expr: &Expr,
    columns: &[&str],
    taken: impl Fn(&str) -> bool,
) -> String {
    let base = match &columns_of(expr, columns)[..] {
        [one] => format!("{table}_{}_check", columns[*one]),
        _ => format!("{table}_check"),
    };
    let mut name = base.clone();
    let mut n = 0;
    while taken(&name) {
        n += 1;
        name = format!("{base}{n}");
    }
    name
}

impl Session {
    /// The table's conditions, bound: an error if one cannot be.
    async fn checks_of(&mut self, table: &Arc<TableDef>) -> Result<Arc<Checks>> {
        if let Some(known) = table.derived.get::<Checks>() {
            return Ok(known);
        }
        let mut items = Vec::with_capacity(table.checks.len());
        for (i, check) in table.checks.iter().enumerate() {
            let (expr, alias) = (parse_expr(&check.expr)?, Ident::new(format!("check{i}")));
            items.push(SelectItem::ExprWithAlias { expr, alias });
        }
        let mut params = Params::new(Vec::new(), 0);
        // Over a definition of its own: one that holds its plan would hold itself.
        let own = Arc::new((**table).clone());
        let planned = Box::pin(self.plan_returning(&items, &own, &table.name, &mut params));
        let (exprs, shown) = planned.await?;
        if let Some(other) = shown.iter().find(|column| column.oid != oid::BOOL) {
            let ty = format_type(i64::from(other.oid), -1);
            let text = format!("argument of CHECK must be type boolean, not type {ty}");
            return Err(PgError::new("42804", text));
        }
        if params.hidden.iter().any(|call| call.function.per_row()) {
            return Err(PgError::unsupported("a function with effects in a check constraint"));
        }
        let checks = Arc::new(Checks { exprs, calls: params.hidden });
        table.derived.put(checks.clone());
        Ok(checks)
    }

    /// Which condition the row breaks, as a position in `table.checks`; a row from before may break
    /// those that are not known to be met by all.
    async fn broken_check(
        &mut self,
        table: &Arc<TableDef>,
        row: &[u8],
        is_new: bool,
    ) -> Result<Option<usize>> {
        let counts = |i: usize| is_new || table.checks[i].valid;
        let checks = self.checks_of(table).await?;
        let params = self.call_all(&checks.calls).await?;
        let env = self.format_env();
        match &checks.exprs {
            Returning::Scalars(scalars) => {
                let view = RowView::new(&table.types, row);
                let cx = EvalContext { row: Some(view), params: &params, env: &env };
                for (i, scalar) in scalars.iter().enumerate() {
                    if counts(i) && scalar.truth(&cx)? == Some(false) {
                        return Ok(Some(i));
                    }
                }
            }
            Returning::Query(plan) => {
                let snapshot = self.transaction()?.newest_snapshot()?;
                let rows = vec![(block::Rowid::from_u64(0), row.to_vec())];
                let state = self.state_over(&params, &snapshot, rows);
                let mut stream = self.open_query(plan, state).await?;
                while let Some(batch) = stream.next().await {
                    let batch = batch?;
                    let readers = query::planner::readers(&batch)?;
                    let broken = |reader: &query::ColumnReader| {
                        (0..batch.num_rows()).any(|i| reader.get(i) == Datum::Bool(false))
                    };
                    let mut readers = readers.iter().enumerate();
                    if let Some((i, _)) = readers.find(|(i, r)| counts(*i) && broken(r)) {
                        return Ok(Some(i));
                    }
                }
            }
        }
        Ok(None)
    }

    /// 23514 if the row, as it would be written, breaks a condition of its table.
    pub(crate) async fn check_row(&mut self, table: &Arc<TableDef>, row: &[u8]) -> Result<()> {
        let Some(at) = Box::pin(self.broken_check(table, row, true)).await? else {
            return Ok(());
        };
        let (name, relation) = (&table.checks[at].name, &table.name);
        let text =
            format!("new row for relation \"{relation}\" violates check constraint \"{name}\"");
        let values: Vec<Datum<'_>> = RowView::new(&table.types, row).iter().collect();
        Err(PgError::new("23514", text).with_detail(failing_row(&values)).with_constraint(name))
    }

    /// The same for the row in `self.row`.
    pub(crate) async fn check_own_row(&mut self, table: &Arc<TableDef>) -> Result<()> {
        if table.checks.is_empty() {
            return Ok(());
        }
        let row = std::mem::take(&mut self.row);
        let checked = self.check_row(table, &row).await;
        self.row = row;
        checked
    }

    /// 23514 if a row from before, as a change of its table would write it, breaks a condition.
    pub(crate) async fn check_old_row(&mut self, table: &Arc<TableDef>, row: &[u8]) -> Result<()> {
        match Box::pin(self.broken_check(table, row, false)).await? {
            Some(at) => Err(broken_by_some_row(table, at)),
            None => Ok(()),
        }
    }

    /// 23514 if a row of the locked table breaks a condition; also an error if one cannot be bound.
    pub(crate) async fn check_rows(&mut self, table: &Arc<TableDef>) -> Result<()> {
        self.checks_of(table).await?;
        let snapshot = self.transaction()?.newest_snapshot()?;
        let mut scan = kernel::table::scan(&self.ctx, table, &snapshot).await?;
        loop {
            let mut rows: Vec<Vec<u8>> = Vec::new();
            let take = |_, row: &[u8]| rows.push(row.to_vec());
            let more = scan.next_block(&self.ctx, take).await?;
            for row in rows {
                self.ctx.check_interrupt()?;
                self.check_old_row(table, &row).await?;
            }
            if !more {
                return Ok(());
            }
        }
    }
}

fn broken_by_some_row(table: &TableDef, at: usize) -> PgError {
    let (name, relation) = (&table.checks[at].name, &table.name);
    let text =
        format!("check constraint \"{name}\" of relation \"{relation}\" is violated by some row");
    PgError::new("23514", text).with_constraint(name)
}

/// The expression as PostgreSQL shows it: an operation stands in parentheses of its own, in the
/// shorter form only where they were written.
pub(crate) fn shown(expr: &Expr, short: bool) -> String {
    if short {
        return shown_short(expr, Binding::Loosest);
    }
    let inner = |expr: &Expr| shown(expr, false);
    match expr {
        Expr::Nested(expr) => inner(expr),
        Expr::BinaryOp { left, op, right } => {
            let op = op.to_string();
            let op = if op == "!=" { "<>" } else { &op };
            format!("({} {op} {})", inner(left), inner(right))
        }
        Expr::IsNull(expr) => format!("({} IS NULL)", inner(expr)),
        Expr::IsNotNull(expr) => format!("({} IS NOT NULL)", inner(expr)),
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => format!("(NOT {})", inner(expr)),
        Expr::Between { expr, negated: false, low, high } => {
            let (expr, low, high) = (inner(expr), inner(low), inner(high));
            format!("(({expr} >= {low}) AND ({expr} <= {high}))")
        }
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_) => expr.to_string(),
        Expr::Function(_) | Expr::Cast { .. } | Expr::Case { .. } => expr.to_string(),
        other => format!("({other})"),
    }
}

/// How tightly an operation holds what it stands on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Binding {
    Loosest,
    Or,
    And,
    Not,
    Compare,
    Other,
}

fn binding(op: &BinaryOperator) -> Binding {
    match op {
        BinaryOperator::Or => Binding::Or,
        BinaryOperator::And => Binding::And,
        BinaryOperator::Eq
        | BinaryOperator::NotEq
        | BinaryOperator::Lt
        | BinaryOperator::LtEq
        | BinaryOperator::Gt
        | BinaryOperator::GtEq => Binding::Compare,
        _ => Binding::Other,
    }
}

/// The expression with parentheses only where it would mean something else without.
fn shown_short(expr: &Expr, within: Binding) -> String {
    let (text, own) = match expr {
        Expr::Nested(expr) => return shown_short(expr, within),
        Expr::BinaryOp { left, op, right } => {
            let own = binding(op);
            let op = op.to_string();
            let op = if op == "!=" { "<>" } else { &op };
            let inside = if own == Binding::Compare { Binding::Other } else { own };
            let (left, right) = (shown_short(left, inside), shown_short(right, inside));
            (format!("{left} {op} {right}"), own)
        }
        Expr::IsNull(expr) => {
            (format!("{} IS NULL", shown_short(expr, Binding::Other)), Binding::Compare)
        }
        Expr::IsNotNull(expr) => {
            (format!("{} IS NOT NULL", shown_short(expr, Binding::Other)), Binding::Compare)
        }
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => {
            (format!("NOT {}", shown_short(expr, Binding::Not)), Binding::Not)
        }
        Expr::Between { expr, negated: false, low, high } => {
            let expr = shown_short(expr, Binding::Other);
            let (low, high) = (shown_short(low, Binding::Other), shown_short(high, Binding::Other));
            (format!("{expr} >= {low} AND {expr} <= {high}"), Binding::And)
        }
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_) | Expr::Function(_) => {
            return expr.to_string();
        }
        other => (other.to_string(), Binding::Compare),
    };
    // Operations that bind alike may still not be read from left to right.
    let parentheses = own < within || (own == Binding::Other && within == Binding::Other);
    if parentheses { format!("({text})") } else { text }
}

/// A constraint as its definition shows it.
pub(crate) fn definition(check: &kernel::dict::CheckDef, short: bool) -> String {
    let not_valid = if check.valid { "" } else { " NOT VALID" };
    match parse_expr(&check.expr) {
        Ok(expr) => format!("CHECK ({}){not_valid}", shown(&expr, short)),
        Err(_) => format!("CHECK (({})){not_valid}", check.expr),
    }
}
