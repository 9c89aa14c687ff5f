//! Columns as they are declared: type, default, and the constraints written beside them.
//!
//! What it promises: a default that is stored can be evaluated. What it must never do: give a
//! column a type that is near the one asked for.

use super::constraint::{Constraints, constraint_of, plain_characteristics};
use super::refuse;
use crate::bind::{ident_name, object_parts};
use crate::planning::column_default;
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{self, ColumnOption, DataType, SequenceOptions};
use kernel::dict::ColumnDef;
use kernel::row::{ColType, TypeKind};
use query::sqltype::col_type_of_sql;

/// A column as declared.
pub(super) struct Column {
    pub(super) def: ColumnDef,
    /// `serial` and identity: a sequence of its own.
    pub(super) sequence: Option<Vec<SequenceOptions>>,
}

pub(super) fn declare_column(
    column: &ast::ColumnDef,
    table: &str,
    constraints: &mut Constraints,
    position: usize,
) -> Result<Column> {
    let name = ident_name(&column.name);
    let (ty, mut sequence) = column_type(&column.data_type)?;
    let mut def = ColumnDef { not_null: sequence.is_some(), ..ColumnDef::new(&name, ty) };
    let at = u16::try_from(position).map_err(|_| PgError::new("54011", "too many columns"))?;
    for option in &column.options {
        let constraint = option.name.as_ref().map(ident_name);
        match &option.option {
            ColumnOption::Null => {}
            ColumnOption::NotNull => def.not_null = true,
            ColumnOption::Default(expr) => def.default = Some(expr.to_string()),
            ColumnOption::PrimaryKey(key) => {
                plain_characteristics(key.characteristics.as_ref())?;
                let name = constraint.unwrap_or_else(|| format!("{table}_pkey"));
                constraints.indexes.push(constraint_of(name, vec![at], true));
            }
            ColumnOption::Unique(key) => {
                plain_characteristics(key.characteristics.as_ref())?;
                let name = constraint.unwrap_or_else(|| format!("{table}_{name}_key"));
                constraints.indexes.push(constraint_of(name, vec![at], false));
            }
            ColumnOption::Generated { generation_expr: None, sequence_options, .. } => {
                def.not_null = true;
                sequence = Some(sequence_options.clone().unwrap_or_default());
            }
            ColumnOption::Check(check) => {
                let name = constraint.or_else(|| check.name.as_ref().map(ident_name));
                constraints.add_check(name, check)?;
            }
            ColumnOption::ForeignKey(_) => return refuse("FOREIGN KEY"),
            ColumnOption::Collation(collation) => {
                let name = object_parts(collation)?.pop().unwrap_or_default();
                if !["C", "c", "POSIX", "default"].contains(&name.as_str()) {
                    return refuse(format!("collation \"{name}\""));
                }
            }
            other => return refuse(format!("the column option {other}")),
        }
    }
    Ok(Column { def, sequence })
}

/// The type, and whether it brings a sequence.
pub(super) fn column_type(sql: &DataType) -> Result<(ColType, Option<Vec<SequenceOptions>>)> {
    if let DataType::Custom(name, _) = sql {
        let last = object_parts(name)?.pop().unwrap_or_default();
        let kind = match last.as_str() {
            "serial" | "serial4" => Some(TypeKind::Int4),
            "bigserial" | "serial8" => Some(TypeKind::Int8),
            "smallserial" | "serial2" => Some(TypeKind::Int2),
            "oid" | "regclass" | "regtype" | "name" | "regproc" | "char" | "unknown"
            | "cstring" => {
                return refuse(format!("a column of type {last}"));
            }
            _ => None,
        };
        if let Some(kind) = kind {
            return Ok((ColType::new(kind), Some(Vec::new())));
        }
    }
    match sql {
        DataType::Real | DataType::Float4 => {
            return refuse("type real").map_err(|e: PgError| e.with_hint("Use double precision."));
        }
        DataType::Timestamp(Some(n), _) if *n < 6 => {
            return refuse("a precision of timestamps other than 6");
        }
        DataType::Regclass => return refuse("a column of type regclass"),
        _ => {}
    }
    match col_type_of_sql(sql)? {
        Some(ty) => Ok((ty, None)),
        None => refuse(format!("type {sql}")),
    }
}

/// Refuses a default that could not be evaluated later.
pub(super) fn check_default(def: &ColumnDef) -> Result<()> {
    column_default(def).map(|_| ())
}
