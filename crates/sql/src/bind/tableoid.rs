//! The system column `tableoid`: the number of the table that a row comes from.
//!
//! What it promises: it is that of the table its name stands for; a NULL beside a row of the
//! catalog that an outer join has made up. What it must never do: appear under `*`.

use super::{Binder, object_parts, refuse};
use crate::Result;
use datafusion::sql::sqlparser::ast::{
    CaseWhen, CastKind, DataType, Expr, Ident, JoinOperator, ObjectName, Query, Select, SelectItem,
    TableFactor, TableWithJoins, Value, VisitMut, VisitorMut,
    helpers::attached_token::AttachedToken,
};
use std::ops::ControlFlow;

const NAME: &str = "tableoid";

/// A table in FROM.
struct Source {
    /// What its columns are qualified with.
    alias: String,
    /// Its name as SQL has it.
    name: String,
    /// Whether it is of the catalog, where `oid` tells a row that is there.
    catalog: bool,
    /// Whether an outer join may put NULLs in its place.
    nullable: bool,
}

fn is_name(ident: &Ident) -> bool {
    ident.value.eq_ignore_ascii_case(NAME)
}

fn quoted(part: &str) -> String {
    format!("\"{}\"", part.replace('"', "\"\""))
}

fn cast(expr: Expr, to: &str) -> Expr {
    let name = ObjectName::from(vec![Ident::new(to)]);
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(expr),
        data_type: DataType::Custom(name, Vec::new()),
        array: false,
        format: None,
    }
}

impl Source {
    fn number(&self) -> Result<Expr> {
        let name = Expr::Value(Value::SingleQuotedString(self.name.clone()).into());
        let number = cast(cast(name, "regclass"), "oid");
        if !self.nullable {
            return Ok(number);
        }
        if !self.catalog {
            return refuse("tableoid of a table on the nullable side of an outer join");
        }
        let column = vec![Ident::with_quote('"', &self.alias), Ident::new("oid")];
        let there = Expr::IsNotNull(Box::new(Expr::CompoundIdentifier(column)));
        Ok(Expr::Case {
            case_token: AttachedToken::empty(),
            end_token: AttachedToken::empty(),
            operand: None,
            conditions: vec![CaseWhen { condition: there, result: number }],
            else_result: None,
        })
    }
}

impl Binder<'_> {
    /// Puts numbers in the place of `tableoid` in a query.
    pub(super) fn table_numbers(&mut self, select: &mut Select) -> Result<()> {
        if !select.to_string().to_lowercase().contains(NAME) {
            return Ok(());
        }
        let mut sources = Vec::new();
        for from in &select.from {
            self.sources(from, &mut sources)?;
        }
        for item in &mut select.projection {
            let SelectItem::UnnamedExpr(expr) = item else { continue };
            let plain = match &*expr {
                Expr::Identifier(name) => is_name(name),
                Expr::CompoundIdentifier(parts) => parts.last().is_some_and(is_name),
                _ => false,
            };
            if plain {
                let alias = Ident::with_quote('"', NAME);
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
            }
        }
        let mut visitor = Numbers { sources, depth: 0 };
        let mut outcome = ControlFlow::Continue(());
        for item in &mut select.projection {
            if outcome.is_continue() {
                outcome = item.visit(&mut visitor);
            }
        }
        if outcome.is_continue() {
            outcome = select.selection.visit(&mut visitor);
        }
        if outcome.is_continue() {
            outcome = select.from.visit(&mut visitor);
        }
        match outcome {
            ControlFlow::Break(error) => Err(error),
            ControlFlow::Continue(()) => Ok(()),
        }
    }

    fn sources(&self, from: &TableWithJoins, all: &mut Vec<Source>) -> Result<()> {
        let first = all.len();
        self.source(&from.relation, false, all)?;
        for join in &from.joins {
            let (left, right) = match join.join_operator {
                JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => (false, true),
                JoinOperator::Right(_) | JoinOperator::RightOuter(_) => (true, false),
                JoinOperator::FullOuter(_) => (true, true),
                _ => (false, false),
            };
            if left {
                all[first..].iter_mut().for_each(|source| source.nullable = true);
            }
            self.source(&join.relation, right, all)?;
        }
        Ok(())
    }

    fn source(&self, factor: &TableFactor, nullable: bool, all: &mut Vec<Source>) -> Result<()> {
        match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                let parts = object_parts(name)?;
                let Some(last) = parts.last() else { return Ok(()) };
                if parts.len() == 1 && self.ctes.contains(last) {
                    return Ok(());
                }
                let alias =
                    alias.as_ref().map_or_else(|| last.clone(), |a| super::ident_name(&a.name));
                let catalog = match &parts[..] {
                    [name] => name.starts_with("pg_"),
                    [schema, _] => schema == "pg_catalog",
                    _ => false,
                };
                let name: Vec<String> = parts.iter().map(|part| quoted(part)).collect();
                all.push(Source { alias, name: name.join("."), catalog, nullable });
                Ok(())
            }
            TableFactor::NestedJoin { table_with_joins, .. } => {
                let first = all.len();
                self.sources(table_with_joins, all)?;
                all[first..].iter_mut().for_each(|source| source.nullable |= nullable);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

struct Numbers {
    sources: Vec<Source>,
    /// Of queries inside the one at hand.
    depth: usize,
}

impl VisitorMut for Numbers {
    type Break = crate::PgError;

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<crate::PgError> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<crate::PgError> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<crate::PgError> {
        let source = match &*expr {
            Expr::Identifier(name) if is_name(name) && self.depth == 0 => match &self.sources[..] {
                [only] => Some(only),
                _ => None,
            },
            Expr::CompoundIdentifier(parts) if parts.last().is_some_and(is_name) => {
                let [qualifier, _] = &parts[..] else { return ControlFlow::Continue(()) };
                let wanted = super::ident_name(qualifier);
                self.sources.iter().find(|source| source.alias == wanted)
            }
            _ => None,
        };
        match source.map(Source::number) {
            Some(Ok(number)) => *expr = number,
            Some(Err(error)) => return ControlFlow::Break(error),
            None => {}
        }
        ControlFlow::Continue(())
    }
}
