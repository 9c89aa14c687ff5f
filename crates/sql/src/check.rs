//! What a row owes to its table beyond its columns' types: CHECK constraints, and the values of
//! generated columns.
//!
//! What it promises: a row that makes a condition false is not written, NULL is as good as true; a
//! generated column has the value of its expression. What it must never do: look at another row.

use crate::bind::{HiddenCall, Params, ident_name};
use crate::direct::parse_expr;
use crate::dml::failing_row;
use crate::planning::VIEW_CHECK;
use crate::returning::Returning;
use crate::session::Session;
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, Expr, Ident, SelectItem, UnaryOperator, visit_expressions,
    visit_expressions_mut,
};
use kernel::dict::{ColumnDef, Generated, TableDef};
use kernel::row::{Datum, RowView, TypeKind, Value};
use query::PgColumn;
use query::cast::{CastMode, cast};
use query::functions::format_type;
use query::scalar::EvalContext;
use query::types::oid;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Expressions over a row, bound.
struct Bound {
    exprs: Returning,
    calls: Vec<HiddenCall>,
}

/// A table's conditions and the expressions of its generated columns. Kept with its definition.
struct Rules {
    checks: Bound,
    generated: Bound,
}

/// A condition on rows that are not written yet, bound.
pub(crate) struct RowFilter(Bound);

/// Where an expression over one row stands, as messages call it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Check,
    Generated,
    Index,
}

impl Place {
    fn name(self) -> &'static str {
        match self {
            Place::Check => "check constraint",
            Place::Generated => "column generation expression",
            Place::Index => "index expression",
        }
    }
}

/// Whether a table has columns whose values are computed from others.
pub(crate) fn has_generated(table: &TableDef) -> bool {
    table.columns.iter().any(|column| column.generated == Some(Generated::Stored))
}

/// Whether rows of a table must be completed and checked before they are written.
pub(crate) fn has_rules(table: &TableDef) -> bool {
    !table.checks.is_empty() || has_generated(table)
}

/// The generated columns with their positions.
fn generated_columns(table: &TableDef) -> impl Iterator<Item = (usize, &ColumnDef)> {
    let columns = table.columns.iter().enumerate();
    columns.filter(|(_, column)| column.generated == Some(Generated::Stored))
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

/// Whether a function of this name is one over many rows.
pub(crate) fn is_aggregate(name: &str) -> bool {
    AGGREGATES.contains(&name) || query::keep::aggregate_of(name).is_some()
}

/// Whether a function over many rows is called in an expression.
pub(crate) fn has_aggregate(expr: &Expr) -> bool {
    visit_expressions(expr, |part| match part {
        Expr::Function(function) => {
            let name = function.name.0.last().and_then(|part| part.as_ident()).map(ident_name);
            match name.is_some_and(|name| is_aggregate(&name)) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

/// The expression as it is kept: columns by their bare names.
pub(crate) fn normal(expr: &Expr, place: Place) -> Result<Expr> {
    let of = place.name();
    let mut expr = expr.clone();
    let refused = visit_expressions_mut(&mut expr, |part| {
        if let Expr::CompoundIdentifier(parts) = part
            && let Some(last) = parts.last()
        {
            *part = Expr::Identifier(last.clone());
        }
        let refused = match &*part {
            Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => {
                PgError::new("0A000", format!("cannot use subquery in {of}"))
            }
            Expr::Function(function) => {
                let name = function.name.0.last().and_then(|part| part.as_ident()).map(ident_name);
                let name = name.unwrap_or_default();
                if function.over.is_some() {
                    let text = format!("window functions are not allowed in {of}s");
                    PgError::new("42P20", text)
                } else if is_aggregate(&name) {
                    let text = format!("aggregate functions are not allowed in {of}s");
                    PgError::new("42803", text)
                } else if query::row_calls::FUNCTIONS.iter().any(|(known, _)| *known == name) {
                    match place {
                        Place::Check => PgError::unsupported(format!("{name}() in a {of}")),
                        Place::Generated => {
                            PgError::new("42P17", "generation expression is not immutable")
                        }
                        Place::Index => {
                            let text = "functions in index expression must be marked IMMUTABLE";
                            PgError::new("42P17", text)
                        }
                    }
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

/// 23502 if a column that is not generated lacks its value: a plan over the row would be told that
/// there is one.
fn refuse_nulls(table: &TableDef, row: &[u8]) -> Result<()> {
    let view = RowView::new(&table.types, row);
    let lacks = |(at, column): (usize, &ColumnDef)| {
        column.not_null && column.generated != Some(Generated::Stored) && view.get(at).is_null()
    };
    if !table.columns.iter().enumerate().any(lacks) {
        return Ok(());
    }
    // Nor have the columns that are generated one yet.
    let value = |(at, column): (usize, &ColumnDef)| match column.generated {
        Some(Generated::Stored) => Datum::Null,
        _ => view.get(at),
    };
    let datums: Vec<Datum<'_>> = table.columns.iter().enumerate().map(value).collect();
    crate::dml::encode_complete(table, &datums, &mut Vec::new())
}

impl Session {
    async fn bind_over_row(
        &mut self,
        table: &Arc<TableDef>,
        exprs: impl Iterator<Item = &str>,
    ) -> Result<(Bound, Vec<PgColumn>)> {
        let mut items = Vec::new();
        for (i, text) in exprs.enumerate() {
            let (mut expr, alias) = (parse_expr(text)?, Ident::new(format!("value{i}")));
            crate::named_types::mark_in_table(&mut expr, table);
            items.push(SelectItem::ExprWithAlias { expr, alias });
        }
        let mut params = Params::new(Vec::new(), 0);
        // Over a definition of its own: one that holds its plan would hold itself.
        let own = Arc::new((**table).clone());
        let planned = env::boxed!(self.plan_returning(&items, &own, &table.name, &mut params));
        let (exprs, shown) = planned.await?;
        Ok((Bound { exprs, calls: params.hidden }, shown))
    }

    /// What COPY's WHERE says, bound.
    pub(crate) async fn row_filter(
        &mut self,
        table: &Arc<TableDef>,
        condition: &str,
    ) -> Result<RowFilter> {
        let (bound, shown) = self.bind_over_row(table, std::iter::once(condition)).await?;
        if let Some(column) = shown.first().filter(|column| column.oid != oid::BOOL) {
            let ty = format_type(i64::from(column.oid), -1);
            let text = format!("argument of WHERE must be type boolean, not type {ty}");
            return Err(PgError::new("42804", text));
        }
        Ok(RowFilter(bound))
    }

    /// Whether a row meets the condition.
    pub(crate) async fn passes(
        &mut self,
        table: &Arc<TableDef>,
        filter: &RowFilter,
        row: &[u8],
    ) -> Result<bool> {
        let params = self.call_all(&filter.0.calls).await?;
        let env = self.format_env();
        match &filter.0.exprs {
            Returning::Scalars(scalars) => {
                let view = RowView::new(&table.types, row);
                let cx = EvalContext { row: Some(view), params: &params, env: &env };
                let Some(condition) = scalars.first() else { return Ok(true) };
                Ok(condition.truth(&cx)? == Some(true))
            }
            Returning::Query(plan) => {
                refuse_nulls(table, row)?;
                let snapshot = self.transaction()?.newest_snapshot()?;
                let rows = vec![(block::Rowid::from_u64(0), row.to_vec())];
                let state = self.state_over(&params, &snapshot, rows);
                let mut stream = self.open_query(plan, state).await?;
                let mut met = false;
                while let Some(batch) = self.next_batch(&mut stream).await {
                    let batch = batch?;
                    let readers = query::planner::readers(&batch)?;
                    let first = readers.first();
                    met |= batch.num_rows() > 0
                        && first.is_some_and(|reader| reader.get(0) == Datum::Bool(true));
                }
                Ok(met)
            }
        }
    }

    /// The table's conditions and generated columns, bound: an error if one cannot be.
    async fn rules_of(&mut self, table: &Arc<TableDef>) -> Result<Arc<Rules>> {
        if let Some(known) = table.derived.get::<Rules>() {
            return Ok(known);
        }
        let texts = table.checks.iter().map(|check| check.expr.as_str());
        let (checks, shown) = self.bind_over_row(table, texts).await?;
        if let Some(other) = shown.iter().find(|column| column.oid != oid::BOOL) {
            let ty = format_type(i64::from(other.oid), -1);
            let text = format!("argument of CHECK must be type boolean, not type {ty}");
            return Err(PgError::new("42804", text));
        }
        if checks.calls.iter().any(|call| call.function.per_row()) {
            return Err(PgError::unsupported("a function with effects in a check constraint"));
        }
        let columns: Vec<&ColumnDef> = generated_columns(table).map(|(_, def)| def).collect();
        let texts = columns.iter().filter_map(|column| column.default.as_deref());
        let (generated, shown) = self.bind_over_row(table, texts).await?;
        if !generated.calls.is_empty() {
            return Err(PgError::new("42P17", "generation expression is not immutable"));
        }
        for (column, shown) in columns.iter().zip(&shown) {
            let given = shown.col_type().map_or(TypeKind::Text, |ty| ty.kind);
            if !crate::bind::scalar::assignable(given, column.ty.kind) {
                let of = format_type(i64::from(shown.oid), -1);
                let text = format!(
                    "column \"{}\" is of type {} but default expression is of type {of}",
                    column.name, column.ty
                );
                let hint = "You will need to rewrite or cast the expression.";
                return Err(PgError::new("42804", text).with_hint(hint));
            }
        }
        let rules = Arc::new(Rules { checks, generated });
        table.derived.put(rules.clone());
        Ok(rules)
    }

    /// Computes the generated columns of a row that has all others.
    async fn fill_generated(&mut self, table: &Arc<TableDef>, row: &mut Vec<u8>) -> Result<()> {
        let rules = self.rules_of(table).await?;
        let env = self.format_env();
        let mut values: Vec<Value> = Vec::new();
        match &rules.generated.exprs {
            Returning::Scalars(scalars) => {
                let view = RowView::new(&table.types, row);
                let cx = EvalContext { row: Some(view), params: &[], env: &env };
                for scalar in scalars {
                    values.push(scalar.eval(&cx)?.into_value());
                }
            }
            Returning::Query(plan) => {
                refuse_nulls(table, row)?;
                let snapshot = self.transaction()?.newest_snapshot()?;
                let rows = vec![(block::Rowid::from_u64(0), row.clone())];
                let state = self.state_over(&[], &snapshot, rows);
                let mut stream = self.open_query(plan, state).await?;
                while let Some(batch) = self.next_batch(&mut stream).await {
                    let batch = batch?;
                    if batch.num_rows() > 0 {
                        let readers = query::planner::readers(&batch)?;
                        values = readers.iter().map(|reader| reader.get(0).to_value()).collect();
                    }
                }
            }
        }
        let mut all: Vec<Value> =
            RowView::new(&table.types, row).iter().map(|datum| datum.to_value()).collect();
        for ((at, column), value) in generated_columns(table).zip(values) {
            all[at] = cast(&value.as_datum(), column.ty, CastMode::Assignment, &env)?;
        }
        let datums: Vec<Datum<'_>> = all.iter().map(Value::as_datum).collect();
        crate::dml::encode_complete(table, &datums, row)
    }

    /// Computes the generated columns of a row and sees whether it meets its table's conditions.
    pub(crate) async fn complete_row(
        &mut self,
        table: &Arc<TableDef>,
        row: &mut Vec<u8>,
    ) -> Result<()> {
        self.complete(table, row, true).await
    }

    /// The same for a row from before, as a change of its table would write it.
    pub(crate) async fn complete_old_row(
        &mut self,
        table: &Arc<TableDef>,
        row: &mut Vec<u8>,
    ) -> Result<()> {
        self.complete(table, row, false).await
    }

    async fn complete(
        &mut self,
        table: &Arc<TableDef>,
        row: &mut Vec<u8>,
        is_new: bool,
    ) -> Result<()> {
        if has_generated(table) {
            env::boxed!(self.fill_generated(table, row)).await?;
        }
        match (table.checks.is_empty(), is_new) {
            (true, _) => Ok(()),
            (false, true) => self.check_row(table, row).await,
            (false, false) => self.check_old_row(table, row).await,
        }
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
        let rules = self.rules_of(table).await?;
        let checks = &rules.checks;
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
                while let Some(batch) = self.next_batch(&mut stream).await {
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
    async fn check_row(&mut self, table: &Arc<TableDef>, row: &[u8]) -> Result<()> {
        let Some(at) = env::boxed!(self.broken_check(table, row, true)).await? else {
            return Ok(());
        };
        let (name, relation) = (&table.checks[at].name, &table.name);
        if let Some(view) = name.strip_prefix(VIEW_CHECK) {
            let text = format!("new row violates check option for view \"{view}\"");
            let values: Vec<Datum<'_>> = RowView::new(&table.types, row).iter().collect();
            return Err(PgError::new("44000", text).with_detail(failing_row(&values)));
        }
        let text =
            format!("new row for relation \"{relation}\" violates check constraint \"{name}\"");
        let values: Vec<Datum<'_>> = RowView::new(&table.types, row).iter().collect();
        Err(PgError::new("23514", text)
            .with_detail(failing_row(&values))
            .with_table(&table.schema, relation)
            .with_constraint(name))
    }

    /// The same for the row in `self.row`.
    pub(crate) async fn complete_own_row(&mut self, table: &Arc<TableDef>) -> Result<()> {
        if !has_rules(table) {
            return Ok(());
        }
        let mut row = std::mem::take(&mut self.row);
        let done = self.complete_row(table, &mut row).await;
        self.row = row;
        done
    }

    /// 23514 if a row from before, as a change of its table would write it, breaks a condition.
    async fn check_old_row(&mut self, table: &Arc<TableDef>, row: &[u8]) -> Result<()> {
        match env::boxed!(self.broken_check(table, row, false)).await? {
            Some(at) => Err(broken_by_some_row(table, at)),
            None => Ok(()),
        }
    }

    /// 23514 if a row of the locked table breaks a condition; also an error if one cannot be bound.
    pub(crate) async fn check_rows(&mut self, table: &Arc<TableDef>) -> Result<()> {
        self.rules_of(table).await?;
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
    PgError::new("23514", text).with_table(&table.schema, relation).with_constraint(name)
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
        Expr::Cast { expr, data_type, .. } => match (&**expr, type_shown(data_type)) {
            (literal @ Expr::Value(_), ty) => format!("{literal}::{ty}"),
            (other @ Expr::Nested(_), ty) => format!("{}::{ty}", inner(other)),
            (other, ty) => format!("({})::{ty}", inner(other)),
        },
        Expr::Function(_) | Expr::Case { .. } => expr.to_string(),
        Expr::Extract { .. }
        | Expr::Ceil { .. }
        | Expr::Floor { .. }
        | Expr::Position { .. }
        | Expr::Substring { .. }
        | Expr::Trim { .. }
        | Expr::Overlay { .. } => expr.to_string(),
        other => format!("({other})"),
    }
}

/// A type's name as definitions show it.
fn type_shown(ty: &DataType) -> String {
    match query::sqltype::col_type_of_sql(ty) {
        Ok(Some(known)) if known.kind != TypeKind::Enum => known.to_string(),
        _ => ty.to_string(),
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
        Expr::Cast { expr, data_type, .. } => {
            let plain = matches!(&**expr, Expr::Identifier(_) | Expr::Value(_) | Expr::Function(_));
            let (inner, ty) = (shown_short(expr, Binding::Loosest), type_shown(data_type));
            return if plain { format!("{inner}::{ty}") } else { format!("({inner})::{ty}") };
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
