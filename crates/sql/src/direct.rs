//! The direct path: statements on single rows found by a unique key, INSERT of values, SELECT
//! without FROM.
//!
//! What it promises: the same result as the way through DataFusion, without Arrow. A statement of
//! another shape is left alone.

use crate::bind::scalar::ScalarBinder;
use crate::bind::{Params, TARGETS_MAX, ident_name, output_name, table_parts};
use crate::generated::{Overriding, check_assigned, given_counts};
use crate::plan::{Direct, DirectSelect, LockKind, RowAccess};
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{
    self, AssignmentTarget, Expr, FromTable, GroupByExpr, LockClause, ObjectName, Query, Select,
    SelectFlavor, SelectItem, SetExpr, Statement as Ast, TableFactor, TableObject, TableWithJoins,
    WildcardAdditionalOptions,
};
use kernel::dict::{Generated, IndexDef, TableDef};
use kernel::row::{ColType, TypeKind, Value};
use query::cast::{CastMode, kind_of};
use query::scalar::CmpOp;
use query::{PgColumn, PgType, Scalar};
use std::sync::Arc;

/// The one table of a statement.
pub(crate) struct OneTable {
    pub(crate) schema: Option<String>,
    pub(crate) name: String,
    pub(crate) alias: String,
}

/// What the direct path makes of a statement.
pub(crate) struct Bound {
    pub(crate) direct: Direct,
    pub(crate) columns: Vec<PgColumn>,
    pub(crate) returns_rows: bool,
}

/// The table the statement is about, if its shape fits; `Some(None)` if it needs none.
pub(crate) fn shape(ast: &Ast) -> Option<Option<OneTable>> {
    match ast {
        Ast::Query(query) => {
            let select = plain_query(query)?;
            match &select.from[..] {
                [] => (select.selection.is_none() && query.locks.is_empty()).then_some(None),
                [one] => plain_table(one).map(Some),
                _ => None,
            }
        }
        Ast::Update(update) => {
            if update.from.is_some()
                || update.output.is_some()
                || update.or.is_some()
                || !update.order_by.is_empty()
                || update.limit.is_some()
            {
                return None;
            }
            plain_table(&update.table).map(Some)
        }
        Ast::Delete(delete) => {
            if !delete.tables.is_empty()
                || delete.using.is_some()
                || delete.output.is_some()
                || !delete.order_by.is_empty()
                || delete.limit.is_some()
            {
                return None;
            }
            match &delete.from {
                FromTable::WithFromKeyword(from) => match &from[..] {
                    [one] => plain_table(one).map(Some),
                    _ => None,
                },
                FromTable::WithoutKeyword(_) => None,
            }
        }
        Ast::Insert(insert) => {
            let values = match &insert.source {
                None => true,
                Some(source) => values_of(source).is_some(),
            };
            if !values {
                return None;
            }
            insert_target(insert).ok().map(Some)
        }
        _ => None,
    }
}

/// The table of an INSERT, whose other clauses are checked.
pub(crate) fn insert_target(insert: &ast::Insert) -> Result<OneTable> {
    let refuse = |what: &str| Err(PgError::unsupported(what));
    if insert.or.is_some()
        || insert.partitioned.is_some()
        || !insert.after_columns.is_empty()
        || !insert.assignments.is_empty()
        || insert.output.is_some()
        || insert.replace_into
        || insert.priority.is_some()
        || insert.insert_alias.is_some()
        || insert.settings.is_some()
        || insert.format_clause.is_some()
        || insert.multi_table_insert_type.is_some()
    {
        return refuse("this form of INSERT");
    }
    let TableObject::TableName(name) = &insert.table else {
        return refuse("INSERT into something that is no table");
    };
    let (schema, name) = table_parts(name)?;
    let alias = insert.table_alias.as_ref().map(|a| ident_name(&a.alias));
    Ok(OneTable { schema, alias: alias.unwrap_or_else(|| name.clone()), name })
}

fn values_of(source: &Query) -> Option<Vec<&[Expr]>> {
    if !nothing_but_body(source) || !source.locks.is_empty() {
        return None;
    }
    match &*source.body {
        SetExpr::Values(values) => Some(values.rows.iter().map(|row| &row.content[..]).collect()),
        _ => None,
    }
}

fn nothing_but_body(query: &Query) -> bool {
    query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && query.for_clause.is_none()
        && query.settings.is_none()
        && query.format_clause.is_none()
        && query.pipe_operators.is_empty()
}

fn plain_query(query: &Query) -> Option<&Select> {
    let SetExpr::Select(select) = &*query.body else { return None };
    let group = matches!(&select.group_by,
        GroupByExpr::Expressions(all, modifiers) if all.is_empty() && modifiers.is_empty());
    let plain = nothing_but_body(query)
        && select.distinct.is_none()
        && select.select_modifiers.is_none()
        && select.top.is_none()
        && select.exclude.is_none()
        && select.into.is_none()
        && select.lateral_views.is_empty()
        && select.prewhere.is_none()
        && select.connect_by.is_empty()
        && group
        && select.cluster_by.is_empty()
        && select.distribute_by.is_empty()
        && select.sort_by.is_empty()
        && select.having.is_none()
        && select.named_window.is_empty()
        && select.qualify.is_none()
        && select.value_table_mode.is_none()
        && matches!(select.flavor, SelectFlavor::Standard);
    plain.then_some(&**select)
}

fn plain_table(from: &TableWithJoins) -> Option<OneTable> {
    if !from.joins.is_empty() {
        return None;
    }
    let TableFactor::Table {
        name,
        alias,
        args: None,
        with_hints,
        version: None,
        with_ordinality: false,
        partitions,
        json_path: None,
        sample: None,
        index_hints,
    } = &from.relation
    else {
        return None;
    };
    if !with_hints.is_empty() || !partitions.is_empty() || !index_hints.is_empty() {
        return None;
    }
    let (schema, name) = table_parts(name).ok()?;
    let alias = match alias {
        None => name.clone(),
        Some(alias) if alias.columns.is_empty() && alias.at.is_none() => ident_name(&alias.name),
        Some(_) => return None,
    };
    Some(OneTable { schema, name, alias })
}

/// The lock a query's FOR clause asks for.
fn lock_kind(query: &Query) -> Option<LockKind> {
    query.locks.first().map(crate::locking::kind_of)
}

fn is_alias(name: &ObjectName, alias: &str) -> bool {
    table_parts(name).is_ok_and(|(schema, name)| schema.is_none() && name == alias)
}

/// A SELECT without FROM.
pub(crate) fn bind_values(ast: &Ast, params: &mut Params) -> Result<Option<Bound>> {
    let Ast::Query(query) = ast else { return Ok(None) };
    let Some(select) = plain_query(query) else { return Ok(None) };
    // Too many are refused where all other queries are bound.
    if select.projection.len() > TARGETS_MAX {
        return Ok(None);
    }
    let mut output = Vec::with_capacity(select.projection.len());
    let mut columns = Vec::with_capacity(select.projection.len());
    for item in &select.projection {
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
            return Ok(None);
        };
        let Some((scalar, ty)) = ScalarBinder::constants(params).bind_output(expr)? else {
            return Ok(None);
        };
        output.push(scalar);
        columns.push(PgColumn::new(output_name(item).unwrap_or_default(), PgType::of(ty)));
    }
    Ok(Some(Bound { direct: Direct::Values(output), columns, returns_rows: true }))
}

/// A statement about one table.
pub(crate) fn bind(
    ast: &Ast,
    table: &Arc<TableDef>,
    alias: &str,
    params: &mut Params,
) -> Result<Option<Bound>> {
    match ast {
        Ast::Query(query) => bind_select(query, table, alias, params),
        Ast::Update(update) => bind_update(update, table, alias, params),
        Ast::Delete(delete) => {
            let Some(row) = row_access(delete.selection.as_ref(), table, alias, params)? else {
                return Ok(None);
            };
            let Some((returning, columns)) =
                bind_returning(delete.returning.as_deref(), table, alias, params)?
            else {
                return Ok(None);
            };
            let returns_rows = returning.is_some();
            Ok(Some(Bound { direct: Direct::Delete { row, returning }, columns, returns_rows }))
        }
        Ast::Insert(insert) => bind_insert(insert, table, alias, params),
        _ => Ok(None),
    }
}

fn bind_select(
    query: &Query,
    table: &Arc<TableDef>,
    alias: &str,
    params: &mut Params,
) -> Result<Option<Bound>> {
    let Some(select) = plain_query(query) else { return Ok(None) };
    let Some(row) = row_access(select.selection.as_ref(), table, alias, params)? else {
        return Ok(None);
    };
    let Some((output, columns)) = bind_items(&select.projection, table, alias, params)? else {
        return Ok(None);
    };
    // What OF names may be a column, and another clause may say how long to wait.
    let others = |lock: &LockClause| lock.of.as_ref().is_some_and(|of| !is_alias(of, alias));
    if query.locks.len() > 1 || query.locks.iter().any(others) {
        return Ok(None);
    }
    let lock = lock_kind(query);
    let direct = Direct::Select(DirectSelect { row, output, lock });
    Ok(Some(Bound { direct, columns, returns_rows: true }))
}

fn bind_update(
    update: &ast::Update,
    table: &Arc<TableDef>,
    alias: &str,
    params: &mut Params,
) -> Result<Option<Bound>> {
    let Some(row) = row_access(update.selection.as_ref(), table, alias, params)? else {
        return Ok(None);
    };
    let mut set: Vec<(usize, Scalar)> = Vec::with_capacity(update.assignments.len());
    for assignment in &update.assignments {
        let AssignmentTarget::ColumnName(name) = &assignment.target else { return Ok(None) };
        let at = assigned_column(name, table)?;
        if set.iter().any(|(known, _)| *known == at) {
            return Err(assigned_twice(&table.columns[at].name));
        }
        if !is_default(&assignment.value) {
            check_assigned(&table.columns[at])?;
        }
        let scalar = if is_default(&assignment.value) {
            match default_of(table, at)? {
                None => Some(Scalar::Const(Value::Null)),
                Some(expr) => {
                    ScalarBinder::constants(params).bind_assignment(&expr, table.columns[at].ty)?
                }
            }
        } else {
            ScalarBinder::new(table, alias, params)
                .bind_assignment(&assignment.value, table.columns[at].ty)?
        };
        let Some(scalar) = scalar else { return Ok(None) };
        set.push((at, scalar));
    }
    let Some((returning, columns)) =
        bind_returning(update.returning.as_deref(), table, alias, params)?
    else {
        return Ok(None);
    };
    let returns_rows = returning.is_some();
    Ok(Some(Bound { direct: Direct::Update { row, set, returning }, columns, returns_rows }))
}

pub(crate) fn assigned_twice(column: &str) -> PgError {
    PgError::syntax(format!("multiple assignments to same column \"{column}\""))
}

/// Position of the column an UPDATE assigns to.
pub(crate) fn assigned_column(name: &ast::ObjectName, table: &TableDef) -> Result<usize> {
    let (_, column) = table_parts(name)?;
    column_position(table, &column)
}

/// Position of a column.
pub(crate) fn column_position(table: &TableDef, column: &str) -> Result<usize> {
    table.columns.iter().position(|c| c.name == column).ok_or_else(|| {
        let table = &table.name;
        PgError::new("42703", format!("column \"{column}\" of relation \"{table}\" does not exist"))
    })
}

/// Whether an expression is the word DEFAULT.
pub(crate) fn is_default(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(ident)
        if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}

/// The parsed default of a column.
pub(crate) fn default_of(table: &TableDef, column: usize) -> Result<Option<Expr>> {
    let def = &table.columns[column];
    match &def.default {
        Some(text) if def.generated != Some(Generated::Stored) => {
            let mut expr = parse_expr(text)?;
            crate::named_types::mark_in_table(&mut expr, table);
            Ok(Some(expr))
        }
        // What is generated is computed when the other values are there.
        _ => Ok(None),
    }
}

/// Parses an expression's text.
pub(crate) fn parse_expr(text: &str) -> Result<Expr> {
    use crate::dialect::OwnDialect;
    use datafusion::sql::sqlparser::parser::Parser;
    Parser::new(&OwnDialect::default())
        .try_with_sql(text)
        .and_then(|mut parser| parser.parse_expr())
        .map_err(|error| PgError::internal(format!("default \"{text}\": {error}")))
}

/// The columns an INSERT gives values for.
pub(crate) fn insert_columns(insert: &ast::Insert, table: &TableDef) -> Result<Vec<usize>> {
    if insert.columns.is_empty() {
        return Ok((0..table.columns.len()).collect());
    }
    let mut out: Vec<usize> = Vec::with_capacity(insert.columns.len());
    for name in &insert.columns {
        let (_, name) = table_parts(name)?;
        let at = column_position(table, &name)?;
        if out.contains(&at) {
            return Err(PgError::new(
                "42701",
                format!("column \"{name}\" specified more than once"),
            ));
        }
        out.push(at);
    }
    Ok(out)
}

/// 42601 if not all rows of VALUES have as many values as the first.
pub(crate) fn check_widths(mut widths: impl Iterator<Item = usize>) -> Result<()> {
    let first = widths.next();
    match widths.all(|width| Some(width) == first) {
        true => Ok(()),
        false => Err(PgError::syntax("VALUES lists must all be the same length")),
    }
}

fn bind_insert(
    insert: &ast::Insert,
    table: &Arc<TableDef>,
    alias: &str,
    params: &mut Params,
) -> Result<Option<Bound>> {
    let overriding = Overriding::of(insert);
    let columns = insert_columns(insert, table)?;
    let nothing: &[Expr] = &[];
    let rows = match &insert.source {
        None => vec![nothing],
        Some(source) => match values_of(source) {
            Some(rows) => rows,
            None => return Ok(None),
        },
    };
    check_widths(rows.iter().map(|row| row.len()))?;
    let mut bound = Vec::with_capacity(rows.len());
    for row in rows {
        if row.len() > columns.len() {
            return Err(PgError::syntax("INSERT has more expressions than target columns"));
        }
        if row.len() < columns.len() && !insert.columns.is_empty() {
            return Err(PgError::syntax("INSERT has more target columns than expressions"));
        }
        let mut scalars = Vec::with_capacity(table.columns.len());
        for (at, column) in table.columns.iter().enumerate() {
            let given = columns.iter().position(|c| *c == at).and_then(|i| row.get(i));
            let given = match given.filter(|expr| !is_default(expr)) {
                Some(expr) if given_counts(column, overriding)? => Some(expr),
                _ => None,
            };
            let scalar = match given {
                Some(expr) => ScalarBinder::constants(params).bind_assignment(expr, column.ty)?,
                _ => match default_of(table, at)? {
                    None => Some(Scalar::Const(Value::Null)),
                    Some(expr) => {
                        ScalarBinder::constants(params).bind_assignment(&expr, column.ty)?
                    }
                },
            };
            let Some(scalar) = scalar else { return Ok(None) };
            scalars.push(scalar);
        }
        bound.push(scalars);
    }
    let Some((returning, columns)) =
        bind_returning(insert.returning.as_deref(), table, alias, params)?
    else {
        return Ok(None);
    };
    let returns_rows = returning.is_some();
    let direct = Direct::Insert { table: table.clone(), rows: bound, conflict: None, returning };
    Ok(Some(Bound { direct, columns, returns_rows }))
}

type Items = (Vec<Scalar>, Vec<PgColumn>);

/// A select list over one table's row; `None` if it is not simple.
pub(crate) fn bind_items(
    items: &[SelectItem],
    table: &Arc<TableDef>,
    alias: &str,
    params: &mut Params,
) -> Result<Option<Items>> {
    let mut output = Vec::with_capacity(items.len());
    let mut columns = Vec::with_capacity(items.len());
    for item in items {
        match item {
            SelectItem::Wildcard(options) if *options == WildcardAdditionalOptions::default() => {
                for at in 0..table.columns.len() {
                    output.push(Scalar::Column(at));
                    columns.push(table_column(table, at, None));
                }
            }
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                let bound = ScalarBinder::new(table, alias, params).bind_output(expr)?;
                let Some((scalar, ty)) = bound else { return Ok(None) };
                let name = output_name(item).unwrap_or_default();
                columns.push(match scalar {
                    Scalar::Column(at) => table_column(table, at, Some(name)),
                    _ => PgColumn::new(name, PgType::of(ty)),
                });
                output.push(scalar);
            }
            _ => return Ok(None),
        }
    }
    Ok(Some((output, columns)))
}

fn table_column(table: &TableDef, at: usize, name: Option<String>) -> PgColumn {
    let column = &table.columns[at];
    let name = name.unwrap_or_else(|| column.name.clone());
    let mut shown = PgColumn::new(name, PgType::of(column.ty));
    shown.table_oid = table.obj.0;
    shown.attnum = i16::try_from(at + 1).unwrap_or(0);
    shown
}

type Returned = (Option<Vec<Scalar>>, Vec<PgColumn>);

fn bind_returning(
    items: Option<&[SelectItem]>,
    table: &Arc<TableDef>,
    alias: &str,
    params: &mut Params,
) -> Result<Option<Returned>> {
    let Some(items) = items else { return Ok(Some((None, Vec::new()))) };
    let bound = bind_items(items, table, alias, params)?;
    Ok(bound.map(|(output, columns)| (Some(output), columns)))
}

/// How a condition finds its row, if it fixes a unique key.
fn row_access(
    selection: Option<&Expr>,
    table: &Arc<TableDef>,
    alias: &str,
    params: &mut Params,
) -> Result<Option<RowAccess>> {
    let Some(selection) = selection else { return Ok(None) };
    let Some(filter) = ScalarBinder::new(table, alias, params).bind_condition(selection)? else {
        return Ok(None);
    };
    let mut conjuncts = Vec::new();
    filter.conjuncts(&mut conjuncts);
    let types = params.all_types();
    let unique = table.indexes.iter().filter(|index| index.unique);
    for index in unique {
        if let Some(key) = key_of(index, table, &conjuncts, &types) {
            let (key, is_exact) = key;
            let key_is_all = is_exact && conjuncts.len() == index.columns.len();
            let (table, index) = (table.clone(), index.clone());
            return Ok(Some(RowAccess { table, index, key, key_is_all, filter: filter.clone() }));
        }
    }
    Ok(None)
}

/// The key that the conditions fix; and whether a row with it meets them, or may be another than
/// they mean: `id = 2.5` becomes the key 3.
fn key_of(
    index: &IndexDef,
    table: &TableDef,
    conjuncts: &[&Scalar],
    types: &[Option<ColType>],
) -> Option<(Vec<Scalar>, bool)> {
    let mut is_exact = true;
    let key = index.columns.iter().map(|column| {
        let column = usize::from(*column);
        let value = conjuncts.iter().find_map(|one| equal_to(one, column))?;
        let ty = table.columns[column].ty;
        let kind = kind_before(value, types);
        is_exact &= kind.is_some_and(|kind| keeps_value(kind, ty.kind));
        Some(in_type(value, ty, types))
    });
    let key = key.collect::<Option<Vec<Scalar>>>()?;
    Some((key, is_exact))
}

/// Whether a value of one type is the same in the other, if it can be in it at all.
fn keeps_value(from: TypeKind, to: TypeKind) -> bool {
    let whole = |kind| matches!(kind, TypeKind::Int2 | TypeKind::Int4 | TypeKind::Int8);
    from == to
        || whole(from) && (whole(to) || to == TypeKind::Numeric)
        || from.is_text() && to.is_text() && to != TypeKind::Char
}

fn equal_to(condition: &Scalar, column: usize) -> Option<&Scalar> {
    let Scalar::Compare(CmpOp::Eq, sides) = condition else { return None };
    match (&sides.0, &sides.1) {
        (Scalar::Column(c), other) | (other, Scalar::Column(c))
            if *c == column && other.is_row_free() =>
        {
            Some(other)
        }
        _ => None,
    }
}

/// The type of a scalar, as far as it is known without its meaning.
fn kind_before(scalar: &Scalar, types: &[Option<ColType>]) -> Option<TypeKind> {
    match scalar {
        Scalar::Const(value) => kind_of(&value.as_datum()),
        Scalar::Param(at) => types.get(*at).copied().flatten().map(|ty| ty.kind),
        Scalar::Cast(_, ty, _) => Some(ty.kind),
        _ => None,
    }
}

/// The scalar in the column's type, for a key.
fn in_type(scalar: &Scalar, ty: ColType, types: &[Option<ColType>]) -> Scalar {
    let kind = kind_before(scalar, types);
    let fits = kind == Some(ty.kind)
        || (ty.kind != TypeKind::Char && ty.kind.is_text() && kind.is_some_and(TypeKind::is_text));
    if fits {
        scalar.clone()
    } else {
        Scalar::Cast(Box::new(scalar.clone()), ty.without_limit(), CastMode::Explicit)
    }
}
