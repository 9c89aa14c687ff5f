//! Constraints: PRIMARY KEY and UNIQUE become unique indexes, CHECK a condition, FOREIGN KEY is
//! made when both tables are there.
//!
//! What it promises: names are those PostgreSQL would give. What it must never do: accept a
//! constraint that nothing would enforce.

use super::foreign::NewForeign;
use super::index::{constraint_columns, constraint_kind};
use super::refuse;
use crate::bind::ident_name;
use crate::check::{Place, chosen_name, normal};
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{self, Expr, TableConstraint};
use kernel::dict::{Included, NewIndex};

/// What is declared beside the columns.
#[derive(Default)]
pub(super) struct Constraints {
    pub(super) indexes: Vec<NewIndex>,
    checks: Vec<(Option<String>, Expr)>,
    pub(super) foreign: Vec<NewForeign>,
}

impl Constraints {
    /// Takes in a constraint of the table.
    pub(super) fn add(
        &mut self,
        constraint: &TableConstraint,
        table: &str,
        names: &[String],
    ) -> Result<()> {
        match constraint {
            TableConstraint::PrimaryKey(key) => {
                plain_characteristics(key.characteristics.as_ref())?;
                let (columns, included) = constraint_columns(&key.columns, names)?;
                let name = key.name.as_ref().map_or_else(|| format!("{table}_pkey"), ident_name);
                let kind = constraint_kind(key.index_type.as_ref(), &key.index_options, &included)?;
                let index = constraint_of(name, columns, true);
                self.indexes.push(NewIndex { included, kind, ..index });
            }
            TableConstraint::Unique(key) => {
                plain_characteristics(key.characteristics.as_ref())?;
                if key.nulls_distinct == ast::NullsDistinctOption::NotDistinct {
                    return refuse("NULLS NOT DISTINCT");
                }
                let (columns, included) = constraint_columns(&key.columns, names)?;
                let all = columns.iter().chain(&included.columns);
                let list: Vec<&str> = all.map(|c| names[usize::from(*c)].as_str()).collect();
                let own = || format!("{table}_{}_key", list.join("_"));
                let name = key.name.as_ref().map_or_else(own, ident_name);
                let kind = constraint_kind(key.index_type.as_ref(), &key.index_options, &included)?;
                let index = constraint_of(name, columns, false);
                self.indexes.push(NewIndex { included, kind, ..index });
            }
            TableConstraint::Check(check) => {
                self.add_check(check.name.as_ref().map(ident_name), check)?;
            }
            TableConstraint::ForeignKey(spec) => {
                if spec.index_name.is_some() {
                    return refuse("an index name of a foreign key");
                }
                let columns = spec.columns.iter().map(ident_name).collect();
                let name = spec.name.as_ref().map(ident_name);
                self.add_foreign(name, columns, spec);
            }
            _ => return refuse("this kind of constraint"),
        }
        Ok(())
    }

    pub(super) fn add_foreign(
        &mut self,
        name: Option<String>,
        columns: Vec<String>,
        spec: &ast::ForeignKeyConstraint,
    ) {
        let spec = spec.clone();
        self.foreign.push(NewForeign { name, columns, spec, not_valid: false });
    }

    pub(super) fn add_check(
        &mut self,
        name: Option<String>,
        check: &ast::CheckConstraint,
    ) -> Result<()> {
        if check.enforced == Some(false) {
            return refuse("NOT ENFORCED");
        }
        self.checks.push((name, normal(&check.expr, Place::Check)?));
        Ok(())
    }

    /// Names and texts of the CHECK constraints; `taken` are the names of those that are there.
    pub(super) fn named_checks(
        &self,
        table: &str,
        names: &[String],
        taken: &[String],
    ) -> Result<Vec<(String, String)>> {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut out: Vec<(String, String)> = Vec::new();
        for (name, expr) in &self.checks {
            let is_taken = |name: &str| {
                taken.iter().any(|known| known == name) || out.iter().any(|(n, _)| n == name)
            };
            let name = match name {
                Some(name) if out.iter().any(|(known, _)| known == name) => {
                    let text = format!("check constraint \"{name}\" already exists");
                    return Err(PgError::new("42710", text));
                }
                Some(name) if is_taken(name) => {
                    return Err(taken_name(name, table));
                }
                Some(name) => name.clone(),
                None => chosen_name(table, expr, &names, is_taken),
            };
            out.push((name, expr.to_string()));
        }
        Ok(out)
    }
}

/// 42710: constraints of one table have names of their own.
pub(super) fn taken_name(name: &str, table: &str) -> PgError {
    let text = format!("constraint \"{name}\" for relation \"{table}\" already exists");
    PgError::new("42710", text)
}

pub(super) fn constraint_of(name: String, columns: Vec<u16>, primary: bool) -> NewIndex {
    let constraint = Some(name.clone());
    let (orders, predicate) = (Vec::new(), None);
    let exprs = Vec::new();
    let included = Included::default();
    NewIndex {
        kind: Default::default(),
        constraint,
        name,
        columns,
        included,
        orders,
        unique: true,
        primary,
        predicate,
        exprs,
    }
}

pub(super) fn plain_characteristics(
    characteristics: Option<&ast::ConstraintCharacteristics>,
) -> Result<()> {
    match characteristics {
        Some(c) if c.deferrable == Some(true) || c.enforced == Some(false) => {
            refuse("DEFERRABLE and NOT ENFORCED")
        }
        _ => Ok(()),
    }
}

pub(super) fn one_primary_key(indexes: &[NewIndex], table: &str) -> Result<()> {
    if indexes.iter().filter(|index| index.primary).count() > 1 {
        return Err(several_primary_keys(table));
    }
    Ok(())
}

pub(super) fn several_primary_keys(table: &str) -> PgError {
    PgError::new("42P16", format!("multiple primary keys for table \"{table}\" are not allowed"))
}
