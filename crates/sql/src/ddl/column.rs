//! Columns as they are declared: type, default, and the constraints written beside them.
//!
//! What it promises: a default that is stored can be evaluated. What it must never do: give a
//! column a type that is near the one asked for.

use super::constraint::{Constraints, constraint_of, plain_characteristics};
use super::refuse;
use super::sequence::identity_spec;
use crate::bind::{ident_name, object_parts};
use crate::check::{Place, normal};
use crate::parse::{REVERSE, SequenceSpec};
use crate::planning::column_default;
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{
    self, ColumnOption, DataType, GeneratedAs, GeneratedExpressionMode, SequenceOptions,
};
use datafusion::sql::sqlparser::tokenizer::Token;
use kernel::dict::{ColumnDef, Generated, IndexKind};
use kernel::row::{ColType, TypeKind};
use query::sqltype::col_type_of_sql;

/// A column as declared.
pub(super) struct Column {
    pub(super) def: ColumnDef,
    /// `serial` and identity: a sequence of its own.
    pub(super) sequence: Option<SequenceSpec>,
}

pub(super) fn declare_column(
    column: &ast::ColumnDef,
    table: &str,
    constraints: &mut Constraints,
    position: usize,
) -> Result<Column> {
    let name = ident_name(&column.name);
    let (ty, mut sequence) = column_type(&column.data_type)?;
    let (mut has_default, mut computed, mut identity) = (false, None, None);
    let mut def = ColumnDef { not_null: sequence.is_some(), ..ColumnDef::new(&name, ty) };
    let at = u16::try_from(position).map_err(|_| PgError::new("54011", "too many columns"))?;
    for option in &column.options {
        let constraint = option.name.as_ref().map(ident_name);
        match &option.option {
            ColumnOption::Null => {}
            ColumnOption::NotNull => def.not_null = true,
            ColumnOption::Default(expr) => {
                has_default = true;
                def.default = Some(default_text(expr, def.ty));
            }
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
            // Of the constraint before it.
            ColumnOption::DialectSpecific(tokens) => {
                let [Token::Word(method)] = &tokens[..] else {
                    return refuse("this option of a column");
                };
                let index = constraints.indexes.last_mut().filter(|index| index.columns == [at]);
                match index {
                    Some(index)
                        if method.value.eq_ignore_ascii_case(REVERSE) && constraint.is_none() =>
                    {
                        index.kind = IndexKind::Reverse;
                    }
                    _ => return Err(PgError::syntax("syntax error at or near \"USING\"")),
                }
            }
            ColumnOption::Generated {
                generation_expr: None,
                sequence_options,
                generated_as,
                ..
            } => {
                def.not_null = true;
                sequence = Some(sequence_options.clone().unwrap_or_default());
                identity = Some(match generated_as {
                    GeneratedAs::ByDefault => Generated::ByDefault,
                    _ => Generated::Always,
                });
            }
            ColumnOption::Generated {
                generated_as: GeneratedAs::Always | GeneratedAs::ExpStored,
                generation_expr: Some(expr),
                generation_expr_mode: Some(GeneratedExpressionMode::Stored),
                generated_keyword: true,
                ..
            } => computed = Some(normal(expr, Place::Generated)?.to_string()),
            ColumnOption::Check(check) => {
                let name = constraint.or_else(|| check.name.as_ref().map(ident_name));
                constraints.add_check(name, check)?;
            }
            ColumnOption::ForeignKey(spec) => {
                constraints.add_foreign(constraint, vec![name.clone()], spec);
            }
            ColumnOption::Collation(collation) => {
                let name = object_parts(collation)?.pop().unwrap_or_default();
                if !["C", "c", "POSIX", "default"].contains(&name.as_str()) {
                    return refuse(format!("collation \"{name}\""));
                }
            }
            other => return refuse(format!("the column option {other}")),
        }
    }
    let both = |one: &str, other: &str| {
        let column = &def.name;
        let text = format!(
            "both {one} and {other} specified for column \"{column}\" of table \"{table}\""
        );
        PgError::syntax(text)
    };
    match (has_default, &computed, identity) {
        (true, Some(_), _) => return Err(both("default", "generation expression")),
        (true, _, Some(_)) => return Err(both("default", "identity")),
        (_, Some(_), Some(_)) => return Err(both("identity", "generation expression")),
        _ => {}
    }
    // The field's NUMBER, too.
    let kinds = [TypeKind::Int2, TypeKind::Int4, TypeKind::Int8, TypeKind::Numeric];
    let is_number = kinds.contains(&def.ty.kind);
    if identity.is_some() && !is_number {
        let text = "identity column type must be smallint, integer, or bigint";
        return Err(PgError::new("22023", text));
    }
    def.generated = identity.or_else(|| computed.as_ref().map(|_| Generated::Stored));
    if computed.is_some() {
        def.default = computed;
    }
    let sequence = sequence.as_deref().map(identity_spec).transpose()?;
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
    if *sql == DataType::Regclass {
        return refuse("a column of type regclass");
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

/// A default as it is kept: without what says again that a literal has the column's type, or that
/// the name of a sequence is one.
pub(super) fn default_text(expr: &ast::Expr, ty: ColType) -> String {
    use ast::{Expr, FunctionArg, FunctionArgExpr, FunctionArguments};
    let literal = |expr: &Expr| {
        matches!(expr, Expr::Value(value)
        if matches!(value.value, ast::Value::SingleQuotedString(_)))
    };
    match expr {
        Expr::Cast { expr: inner, data_type, .. }
            if literal(inner)
                && query::sqltype::col_type_of_sql(data_type)
                    .is_ok_and(|cast| cast == Some(ty.without_limit())) =>
        {
            inner.to_string()
        }
        Expr::Function(function) => {
            let mut function = function.clone();
            let named = crate::bind::object_parts(&function.name);
            if named.is_ok_and(|parts| parts.last().is_some_and(|last| last == "nextval"))
                && let FunctionArguments::List(list) = &mut function.args
                && let [FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))] = &mut list.args[..]
                && let Expr::Cast { expr: inner, data_type: DataType::Regclass, .. } = arg
                && literal(inner)
            {
                *arg = (**inner).clone();
            }
            Expr::Function(function).to_string()
        }
        other => other.to_string(),
    }
}
