//! Numbers of objects that are shown by their names (`regclass` and its like), and the catalog's
//! vectors, which count from 0: what an expression means depends on the type that only its field's
//! metadata tell.
//!
//! What it promises: text made of such a value is what PostgreSQL writes; a column of a result has
//! the name. What it must never do: change what is compared or joined: that is the number.

use crate::functions::RowFunction;
use crate::planner::TableSet;
use crate::rows::{ROW, holds_rows, shown_oid, text_function};
use crate::types::{PgType, is_vector, names_objects, oid, pg_type_of_field};
use crate::wire::FormatEnv;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::Column;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder};
use kernel::row::{ColType, Datum, TypeKind, Value};

const TEXT: ColType = ColType::new(TypeKind::Text);

/// The function that names an object of a type.
#[must_use]
const fn naming_function(type_oid: u32) -> &'static str {
    match type_oid {
        oid::REGPROC => "$regproc_name",
        oid::REGPROCEDURE => "$regprocedure_name",
        oid::REGOPER => "$regoper_name",
        oid::REGOPERATOR => "$regoperator_name",
        oid::REGTYPE => "$regtype_name",
        oid::REGNAMESPACE => "$regnamespace_name",
        oid::REGROLE => "$regrole_name",
        _ => "$regclass_name",
    }
}

/// The plan with names where text is made of such values.
pub(crate) fn in_texts(plan: LogicalPlan, tables: &TableSet) -> DfResult<LogicalPlan> {
    let rewrite = |node: LogicalPlan| {
        let mut schema = merge_schema(&node.inputs());
        if let LogicalPlan::TableScan(scan) = &node {
            schema.merge(&scan.projected_schema);
        }
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            let done =
                expr.transform_up(|part| Ok(Transformed::yes(part_of(part, &schema, tables))))?;
            Ok(done.update_data(|expr| name.restore(expr)))
        })
    };
    Ok(plan.transform_up_with_subqueries(rewrite)?.data)
}

/// What clients are told of an expression's type.
fn type_of(expr: &Expr, schema: &DFSchema) -> Option<u32> {
    let field: (_, std::sync::Arc<Field>) = expr.to_field(schema).ok()?;
    Some(pg_type_of_field(&field.1).oid)
}

/// Whether an object is its name already.
fn is_text(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|ty| ty == DataType::Utf8)
}

fn named(expr: Expr, type_oid: u32, tables: &TableSet) -> Option<Expr> {
    let function = tables.function(naming_function(type_oid))?;
    Some(Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![expr])))
}

/// Functions for which the blanks at the end of char(n) count, beside LIKE.
const PADDED: [&str; 4] = ["octet_length", "$like", "$ilike", "$regex"];

fn part_of(mut expr: Expr, schema: &DFSchema, tables: &TableSet) -> Expr {
    if let Expr::Like(like) = &mut expr {
        // Blanks at the end of char(n) are a part of what a pattern is for.
        *like.expr = padded(std::mem::take(&mut *like.expr), schema);
        return expr;
    }
    let Expr::ScalarFunction(call) = &mut expr else { return expr };
    let name = call.func.name();
    if PADDED.contains(&name)
        && let Some(first) = call.args.first_mut()
    {
        *first = padded(std::mem::take(first), schema);
        return expr;
    }
    if name == ROW {
        call.args =
            std::mem::take(&mut call.args).into_iter().map(|value| padded(value, schema)).collect();
        return expr;
    }
    let to_text = name.starts_with("$cast_")
        && call.func.return_type(&[]).is_ok_and(|ty| ty == crate::types::arrow_type(TEXT));
    let subscripts =
        matches!(name, "$array_get" | "array_lower" | "array_upper" | "$generate_subscripts");
    if !to_text && !subscripts {
        return expr;
    }
    let Some(first) = call.args.first_mut() else { return expr };
    let Some(type_oid) = type_of(first, schema) else { return expr };
    if to_text && names_objects(type_oid) {
        if !is_text(first, schema)
            && let Some(name) = named(first.clone(), type_oid, tables)
        {
            *first = name;
        }
    } else if is_vector(type_oid) {
        let function = match name {
            "$array_get" => Some(vector_get()),
            "array_lower" => Some(bound("$vector_lower", |_| 0)),
            "array_upper" => Some(bound("$vector_upper", |count| count - 1)),
            "$generate_subscripts" => Some(vector_subscripts()),
            _ => None,
        };
        match function {
            Some(function) => {
                let function = match name {
                    // The type of an element depends on the vector's.
                    "$array_get" => function.returning(crate::array_functions::element_of_args),
                    _ => function,
                };
                call.func = function.into_udf();
            }
            None => {
                let text = vector_text().into_udf();
                *first = Expr::ScalarFunction(ScalarFunction::new_udf(text, vec![first.clone()]));
            }
        }
    }
    expr
}

/// A value of type char(n) with the blanks at its end that are not stored.
fn padded(value: Expr, schema: &DFSchema) -> Expr {
    let field: Option<(_, std::sync::Arc<Field>)> = value.to_field(schema).ok();
    let ty = field.map(|(_, field)| pg_type_of_field(&field));
    let Some(PgType { oid: oid::BPCHAR, typmod }) = ty else { return value };
    let length = ColType { kind: TypeKind::Char, modifier: typmod }.length();
    let Some(length) = length else { return value };
    let name = format!("$padded_{length}");
    let function = RowFunction::new(&name, Some(1), TEXT, true, move |args| match &args[0] {
        Datum::Text(text) => {
            let missing = length.saturating_sub(text.chars().count());
            Ok(Value::Text(format!("{text}{}", " ".repeat(missing)).into()))
        }
        other => Ok(other.to_value()),
    });
    Expr::ScalarFunction(ScalarFunction::new_udf(function.into_udf(), vec![value]))
}

fn vector_text() -> RowFunction {
    RowFunction::new("$vector_text", Some(1), TEXT, true, |args| match &args[0] {
        Datum::Array(bytes) => {
            let mut out = Vec::new();
            crate::array::push_vector(bytes, &FormatEnv::plain(), &mut out);
            Ok(Value::Text(String::from_utf8(out).unwrap_or_default().into()))
        }
        other => Ok(other.to_value()),
    })
}

fn vector_get() -> RowFunction {
    RowFunction::new("$vector_get", Some(2), TEXT, true, |args| {
        let at = usize::try_from(crate::array_functions::whole(&args[1])?).ok();
        Ok(match (&args[0], at) {
            (Datum::Array(bytes), Some(at)) => {
                let array = kernel::row::ArrayView::new(bytes);
                if at < array.len() { array.get(at).to_value() } else { Value::Null }
            }
            _ => Value::Null,
        })
    })
}

/// A bound of a vector, out of its length.
fn bound(name: &str, of: fn(i32) -> i32) -> RowFunction {
    let int4 = ColType::new(TypeKind::Int4);
    RowFunction::new(name, Some(2), int4, true, move |args| match &args[0] {
        Datum::Array(bytes) => {
            let count = kernel::row::ArrayView::new(bytes).len();
            let count = i32::try_from(count).unwrap_or(i32::MAX);
            Ok(if count == 0 { Value::Null } else { Value::Int4(of(count)) })
        }
        _ => Ok(Value::Null),
    })
}

fn vector_subscripts() -> RowFunction {
    let int4s = ColType::array_of(TypeKind::Int4);
    RowFunction::new("$vector_subscripts", None, int4s, true, |args| {
        crate::array_functions::subscripts(args, 0)
    })
}

/// The plan of a statement with names in its result, and rows as they are written. Clients are told
/// of the objects' type.
pub(crate) fn in_result(plan: LogicalPlan, tables: &TableSet) -> DfResult<LogicalPlan> {
    let schema = plan.schema().clone();
    let is_named = |field: &Field| {
        let ty = pg_type_of_field(field);
        names_objects(ty.oid) && !matches!(field.data_type(), DataType::Utf8)
    };
    let is_rows = |field: &Field| holds_rows(field.data_type());
    if !schema.fields().iter().any(|field| is_named(field) || is_rows(field)) {
        return Ok(plan);
    }
    let exprs = schema.iter().map(|(qualifier, field)| {
        let column = Expr::Column(Column::from((qualifier, field)));
        if is_rows(field) {
            let function = text_function(shown_oid(field.data_type()), tables.format_env());
            let text = Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![column]));
            return text.alias_qualified(qualifier.cloned(), field.name());
        }
        let PgType { oid: type_oid, .. } = pg_type_of_field(field);
        match named(column.clone(), type_oid, tables).filter(|_| is_named(field)) {
            Some(name) => name.alias_qualified(qualifier.cloned(), field.name()),
            None => column,
        }
    });
    let exprs: Vec<Expr> = exprs.collect();
    LogicalPlanBuilder::from(plan).project(exprs)?.build()
}
