//! TABLESAMPLE, and the field's SAMPLE: each row of a table by chance.
//!
//! What it promises: every row comes with the probability that was asked for, whatever the others
//! do; SYSTEM takes rows as BERNOULLI does. What it must never do: give the same rows again and say
//! nothing, so that REPEATABLE is refused.

use super::{ident_name, refuse};
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, ExactNumberInfo, Expr, Ident, SetExpr, TableAlias,
    TableFactor, TableSample, TableSampleKind, TableSampleMethod, TableSampleModifier, Value,
};

/// The function that makes a probability of a percentage.
pub(super) const CHANCE: &str = "$chance";

/// What stands in FROM for a sample of a table.
pub(super) fn sampled(table: TableFactor, sample: Option<TableSampleKind>) -> Result<TableFactor> {
    let (TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) =
        sample.ok_or_else(|| PgError::internal("no sample"))?;
    let TableSample { modifier, name, quantity, seed, bucket, offset } = *sample;
    let method = match modifier {
        TableSampleModifier::TableSample => {
            matches!(name, Some(TableSampleMethod::Bernoulli | TableSampleMethod::System))
        }
        // The field's SAMPLE (n) and SAMPLE BLOCK (n).
        TableSampleModifier::Sample => matches!(name, None | Some(TableSampleMethod::Block)),
    };
    let quantity = quantity.filter(|q| q.parenthesized && q.unit.is_none());
    let (Some(quantity), true, None) = (quantity, method && bucket.is_none(), offset) else {
        return Err(PgError::syntax("syntax error in TABLESAMPLE"));
    };
    if seed.is_some() {
        return refuse("REPEATABLE in TABLESAMPLE");
    }
    let TableFactor::Table { name, mut alias, args: None, .. } = table.clone() else {
        let text = "TABLESAMPLE clause can only be applied to tables and materialized views";
        return Err(PgError::new("42601", text));
    };
    if alias.is_none() {
        let last = name.0.last().and_then(|part| part.as_ident()).map(ident_name);
        alias = last.map(|name| TableAlias {
            explicit: true,
            name: Ident::with_quote('"', name),
            columns: Vec::new(),
            at: None,
        });
    }
    let percent = Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(quantity.value),
        data_type: DataType::Double(ExactNumberInfo::None),
        array: false,
        format: None,
    };
    // NULL is refused as any number out of range.
    let too_much = Expr::value(Value::Number("101".to_owned(), false));
    let percent = super::expr::call("coalesce", vec![percent, too_much]);
    let chance = super::expr::call(CHANCE, vec![percent]);
    let random = super::expr::call("random", Vec::new());
    let (left, right) = (Box::new(random), Box::new(chance));
    let nothing = Expr::Identifier(Ident::new("t"));
    let mut subquery = super::expr::set_query("SELECT * FROM t WHERE true", nothing, "")?;
    if let SetExpr::Select(select) = &mut *subquery.body {
        select.selection = Some(Expr::BinaryOp { left, op: BinaryOperator::Lt, right });
        for from in &mut select.from {
            from.relation = table.clone();
            if let TableFactor::Table { alias, .. } = &mut from.relation {
                *alias = None;
            }
        }
    }
    let subquery = Box::new(subquery);
    Ok(TableFactor::Derived { lateral: false, subquery, alias, sample: None })
}
