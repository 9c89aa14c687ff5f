//! Casts: to types of columns, and to the names of objects (`regclass` and its like).
//!
//! What it promises: a cast is the function of ours that does what PostgreSQL does. What it must
//! never do: cast by the rules of the planner where ours differ.

use super::build::{call, text_of};
use super::literal::placeholder_index;
use crate::Result;
use crate::bind::scalar::is_timed;
use crate::bind::{Binder, object_parts, refuse};
use datafusion::sql::sqlparser::ast::{CaseWhen, CastKind, DataType, Expr, Value, Values};
use kernel::row::{ColType, TypeKind};
use query::cast::parse_text;
use query::functions::cast_name;
use query::sqltype::col_type_of_sql;
use query::wire::FormatEnv;

/// Untyped literals in the columns of VALUES take the type that another row's cast gives.
pub(in crate::bind) fn type_literals(values: &mut Values) {
    let width = values.rows.first().map_or(0, |row| row.content.len());
    for at in 0..width {
        let mut column: Vec<&mut Expr> =
            values.rows.iter_mut().filter_map(|row| row.content.get_mut(at)).collect();
        type_alike(&mut column);
    }
}

/// Untyped literals among expressions of one type take it from the first that is cast to it.
pub(super) fn type_alike(all: &mut [&mut Expr]) {
    let typed = all.iter().find_map(|one| match &**one {
        Expr::Cast { data_type, array: false, format: None, .. } => Some(data_type.clone()),
        Expr::TypedString(typed) => Some(typed.data_type.clone()),
        Expr::Interval(_) => Some(DataType::Interval { fields: None, precision: None }),
        _ => None,
    });
    let Some(data_type) = typed else { return };
    for one in all.iter_mut().filter(|one| text_of(one).is_some()) {
        as_type(one, data_type.clone());
    }
}

/// Untyped literals among the results of a CASE take the type that all others are cast to.
///
/// # Errors
/// 22P02 and its like for a literal that the type does not have, whether or not it is the result.
pub(super) fn type_results(
    conditions: &mut [CaseWhen],
    otherwise: Option<&mut Expr>,
) -> Result<()> {
    let results = conditions.iter_mut().map(|one| &mut one.result);
    let all: Vec<&mut Expr> = results.chain(otherwise).collect();
    let mut typed: Option<&DataType> = None;
    for one in &all {
        match &**one {
            Expr::Value(value) if value.value == Value::Null => {}
            literal if text_of(literal).is_some() => {}
            Expr::Cast { data_type, array: false, format: None, .. }
                if typed.is_none_or(|ty| ty == data_type) =>
            {
                typed = Some(data_type);
            }
            _ => return Ok(()),
        }
    }
    let Some(sql) = typed.cloned() else { return Ok(()) };
    // Where lengths differ, the type of all has none.
    let is_plain = |ty: &ColType| ty.modifier == -1 && !ty.kind.is_text();
    let Some(ty) = col_type_of_sql(&sql).ok().flatten().filter(is_plain) else { return Ok(()) };
    for one in all {
        let Some(text) = text_of(one) else { continue };
        // What is read in the session's time zone is left to the cast.
        if !is_timed(ty.kind) {
            parse_text(text, ty, &FormatEnv::plain())?;
        }
        as_type(one, sql.clone());
    }
    Ok(())
}

/// Writes a cast around an expression.
pub(super) fn as_type(expr: &mut Expr, data_type: DataType) {
    *expr = Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(expr.clone()),
        data_type,
        array: false,
        format: None,
    };
}

/// The name of the type at the end of `regclass` and its like.
fn object_type(data_type: &DataType) -> Result<Option<String>> {
    Ok(match data_type {
        DataType::Regclass => Some("regclass".to_owned()),
        DataType::Custom(name, _) => object_parts(name)?.pop(),
        _ => None,
    })
}

impl Binder<'_> {
    pub(super) fn cast(&mut self, expr: &mut Expr) -> Result<()> {
        if let Some(literal) = super::constant::numeric_literal(expr) {
            *expr = literal;
            return Ok(());
        }
        let Expr::Cast { kind, expr: inner, data_type, array, format } = expr else {
            return Ok(());
        };
        if !matches!(kind, CastKind::Cast | CastKind::DoubleColon) || *array || format.is_some() {
            return refuse("this kind of cast");
        }
        if let Some(replaced) = self.object_cast(inner, data_type)? {
            *expr = replaced;
            return Ok(());
        }
        let Some(ty) = col_type_of_sql(data_type)? else {
            return self.expr(inner);
        };
        if let Expr::Value(value) = &**inner
            && let Value::Placeholder(name) = &value.value
            && let Some(slot @ None) = self.params.types.get_mut(placeholder_index(name)?)
        {
            *slot = Some(ty.without_limit());
        }
        self.expr(inner)?;
        *expr = call(&cast_name(ty), vec![(**inner).clone()]);
        Ok(())
    }

    /// Casts to `regclass` and its like, which look into the catalog.
    fn object_cast(&mut self, inner: &mut Expr, data_type: &DataType) -> Result<Option<Expr>> {
        let Some(name) = object_type(data_type)? else { return Ok(None) };
        let function = match name.as_str() {
            "oid" => "$to_oid",
            "regclass" => "$to_regclass",
            "regtype" => "$to_regtype",
            "regproc" => "$to_regproc",
            "regprocedure" => "$to_regprocedure",
            "regoper" => "$to_regoper",
            "regoperator" => "$to_regoperator",
            "regnamespace" => "$to_regnamespace",
            "regrole" => "$to_regrole",
            _ => return Ok(None),
        };
        if let Expr::Value(value) = &*inner
            && let Value::Placeholder(name) = &value.value
            && let Some(slot @ None) = self.params.types.get_mut(placeholder_index(name)?)
        {
            *slot = Some(ColType::new(TypeKind::Text));
        }
        self.references.catalog_functions = true;
        self.expr(inner)?;
        Ok(Some(call(function, vec![inner.clone()])))
    }
}
