//! Constraints: PRIMARY KEY and UNIQUE become unique indexes.
//!
//! What it promises: names are those PostgreSQL would give. What it must never do: accept a
//! constraint that nothing would enforce.

use super::index::index_columns;
use super::refuse;
use crate::bind::ident_name;
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{self, TableConstraint};
use kernel::dict::NewIndex;

pub(super) fn constraint_index(
    constraint: &TableConstraint,
    table: &str,
    names: &[String],
) -> Result<NewIndex> {
    match constraint {
        TableConstraint::PrimaryKey(key) => {
            plain_characteristics(key.characteristics.as_ref())?;
            let columns = index_columns(&key.columns, names)?;
            let name = key.name.as_ref().map_or_else(|| format!("{table}_pkey"), ident_name);
            Ok(constraint_of(name, columns, true))
        }
        TableConstraint::Unique(key) => {
            plain_characteristics(key.characteristics.as_ref())?;
            if key.nulls_distinct == ast::NullsDistinctOption::NotDistinct {
                return refuse("NULLS NOT DISTINCT");
            }
            let columns = index_columns(&key.columns, names)?;
            let list: Vec<&str> = columns.iter().map(|c| names[usize::from(*c)].as_str()).collect();
            let own = || format!("{table}_{}_key", list.join("_"));
            let name = key.name.as_ref().map_or_else(own, ident_name);
            Ok(constraint_of(name, columns, false))
        }
        TableConstraint::ForeignKey(_) => refuse("FOREIGN KEY"),
        TableConstraint::Check(_) => refuse("CHECK"),
        _ => refuse("this kind of constraint"),
    }
}

pub(super) fn constraint_of(name: String, columns: Vec<u16>, primary: bool) -> NewIndex {
    NewIndex { constraint: Some(name.clone()), name, columns, unique: true, primary }
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
