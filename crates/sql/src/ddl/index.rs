//! CREATE INDEX and DROP INDEX, and the columns of any key.
//!
//! What it promises: an index that is in the dictionary holds all rows. What it must never do: drop
//! an index that a constraint stands on.

use super::{named, refuse};
use crate::bind::{ident_name, table_parts};
use crate::dml::row_error;
use crate::key_exprs;
use crate::parse::{BITMAP, REVERSE};
use crate::session::Session;
use crate::{PgError, Result, Severity};
use datafusion::sql::sqlparser::ast::{self, Expr};
use kernel::dict::{
    self, ColumnDef, Included, IndexDef, IndexKind, KEY_EXPR, KeyExpr, KeyOrder, NewIndex, TableDef,
};
use kernel::row::{ColType, TypeKind};
use std::sync::Arc;

impl Session {
    pub(super) async fn create_index(&mut self, create: &ast::CreateIndex) -> Result<String> {
        if create.concurrently {
            if self.txn.as_ref().is_some_and(|txn| txn.explicit) {
                let text = "CREATE INDEX CONCURRENTLY cannot run inside a transaction block";
                return Err(PgError::new("25001", text));
            }
            let text = "the table is locked against changes while its index is made";
            self.notice(Severity::Notice, text.to_owned());
        }
        if !create.index_options.is_empty()
            || !create.alter_options.is_empty()
            || create.nulls_distinct == Some(false)
        {
            return refuse("this form of CREATE INDEX");
        }
        let kind = index_kind(create)?;
        if !create.with.is_empty() {
            self.notice(
                Severity::Notice,
                "storage parameters of indexes have no meaning here and are ignored",
            );
        }
        let table = self.relation_of(&create.table_name).await?;
        if table.view.is_some() {
            let text = format!("cannot create index on relation \"{}\"", table.name);
            let detail = "This operation is not supported for views.";
            return Err(PgError::new("42809", text).with_detail(detail));
        }
        self.check_owner("table", &table.name, table.owner).await?;
        self.check_create_in(&table.schema).await?;
        let names: Vec<String> = table.columns.iter().map(|c| c.name.clone()).collect();
        let (mut columns, exprs) = key_parts(&create.columns, &names)?;
        let exprs = match exprs.is_empty() {
            true => Vec::new(),
            false => key_exprs::key_exprs(&self.database, &table, &exprs)?,
        };
        check_classes(&create.columns, &part_types(&table, &columns, &exprs))?;
        let included = included_columns(&create.include, &names)?;
        let predicate = match &create.predicate {
            None => None,
            Some(expr) => {
                let env = self.format_env();
                Some(super::predicate::condition_of(expr, &table, &env)?)
            }
        };
        let name = match &create.name {
            Some(name) => table_parts(name)?.1,
            None => {
                let all = [columns.as_slice(), &included].concat();
                let list = key_exprs::part_names(&table, &all, &exprs);
                let wanted = format!("{}_{}_idx", table.name, list.join("_"));
                self.free_name(&table.schema, &wanted).await?
            }
        };
        if self.is_made(&table.schema, &name, create.if_not_exists).await? {
            return Ok("CREATE INDEX".to_owned());
        }
        let included = included_in(&mut columns, included, create.unique, &table);
        let index = NewIndex {
            kind,
            name,
            columns,
            included,
            orders: key_orders(&create.columns),
            unique: create.unique,
            primary: false,
            constraint: None,
            predicate,
            exprs,
        };
        self.build_index(&table, index).await?;
        Ok("CREATE INDEX".to_owned())
    }

    pub(super) async fn build_index(
        &mut self,
        table: &Arc<TableDef>,
        index: NewIndex,
    ) -> Result<()> {
        check_types(part_types(table, &index.columns, &index.exprs).into_iter())?;
        let txn = self.transaction()?;
        let (name, columns) = (index.name.clone(), index.columns.clone());
        let (exprs, kind, orders) = (index.exprs.clone(), index.kind, index.orders.clone());
        dict::create_index(&self.ctx, &txn, table, index).await.map_err(|error| match error {
            kernel::Error::UniqueViolation { key, .. } => {
                // The table's definition does not have the index yet; its key is told by one that
                // does.
                let mut with = (**table).clone();
                with.indexes.push(Arc::new(kernel::dict::IndexDef {
                    kind,
                    obj: table.obj,
                    name: name.clone(),
                    table: table.obj,
                    columns,
                    included: Included::default(),
                    orders,
                    unique: true,
                    primary: false,
                    constraint: None,
                    header: table.header,
                    root: table.header,
                    birth: table.birth,
                    predicate: None,
                    exprs,
                    evaluator: kernel::dict::Evaluator::default(),
                    derived: kernel::dict::Derived::default(),
                }));
                let error =
                    kernel::Error::UniqueViolation { index: name.clone(), key, row: Vec::new() };
                let shown = row_error(error, &with);
                let detail = shown
                    .detail
                    .as_deref()
                    .unwrap_or("")
                    .replace("already exists", "is duplicated");
                PgError::new("23505", format!("could not create unique index \"{name}\""))
                    .with_detail(detail)
                    .with_table(&with.schema, &with.name)
                    .with_constraint(&name)
            }
            other => named(other, &name),
        })
    }

    /// An index that the session may change, with its schema and its table.
    pub(crate) async fn own_index(
        &mut self,
        schema: Option<&str>,
        name: &str,
    ) -> Result<Option<(String, Arc<TableDef>, Arc<IndexDef>)>> {
        self.begin_if_needed();
        let txn = self.transaction()?;
        for schema in self.schemas_for(schema).await? {
            let found = dict::object(&self.ctx, &txn, &schema, name).await?;
            let Some(found) = found.filter(|o| o.kind == dict::ObjectKind::Index) else {
                continue;
            };
            self.check_owner("index", name, found.owner).await?;
            for table in dict::tables(&self.ctx, &txn).await? {
                let index = table.all_indexes().find(|i| i.obj == found.obj).cloned();
                if let Some(index) = index {
                    return Ok(Some((schema, table, index)));
                }
            }
        }
        Ok(None)
    }

    /// Makes an index anew, in a segment of its own, its keys turned round or not as `reverse`
    /// says; whether there is one of the name.
    pub(super) async fn rebuild_index(
        &mut self,
        schema: Option<&str>,
        name: &str,
        reverse: Option<bool>,
    ) -> Result<bool> {
        let Some((schema, table, index)) = self.own_index(schema, name).await? else {
            return Ok(false);
        };
        if table.referenced.iter().any(|key| key.index == index.obj) {
            return refuse("REBUILD of an index that a foreign key refers to");
        }
        let kind = turned(&index, reverse)?;
        let txn = self.transaction()?;
        let new = NewIndex {
            kind,
            name: index.name.clone(),
            columns: index.columns.clone(),
            included: index.included.clone(),
            orders: index.orders.clone(),
            unique: index.unique,
            primary: index.primary,
            constraint: index.constraint.clone(),
            predicate: index.predicate.clone(),
            exprs: index.exprs.clone(),
        };
        match &index.constraint {
            Some(constraint) => {
                dict::drop_constraint(&self.ctx, &txn, &table, constraint).await?;
            }
            None => dict::drop_index(&self.ctx, &txn, &schema, name).await?,
        }
        let table = self.altered(&table).await?;
        self.build_index(&table, new).await?;
        Ok(true)
    }

    /// Whether there was such an index; it is gone now.
    pub(super) async fn drop_index(
        &mut self,
        schema: Option<&str>,
        name: &str,
        cascade: bool,
    ) -> Result<bool> {
        let txn = self.transaction()?;
        for schema in self.schemas_for(schema).await? {
            let found = dict::object(&self.ctx, &txn, &schema, name).await?;
            let Some(found) = found.filter(|o| o.kind == dict::ObjectKind::Index) else {
                continue;
            };
            self.check_droppable("index", name, &schema, found.owner).await?;
            for table in dict::tables(&self.ctx, &txn).await? {
                let index = table.all_indexes().find(|i| i.name == name && table.schema == schema);
                if let Some(constraint) = index.and_then(|i| i.constraint.clone()) {
                    return Err(PgError::new(
                        "2BP01",
                        format!(
                            "cannot drop index {name} because constraint {constraint} on table {} requires it",
                            table.name
                        ),
                    )
                    .with_hint(format!(
                        "You can drop constraint {constraint} on table {} instead.",
                        table.name
                    )));
                }
                if let Some(index) = index.cloned() {
                    let what = format!("index {name}");
                    self.free_index(&table, &index, &what, cascade).await?;
                }
            }
            dict::drop_index(&self.ctx, &txn, &schema, name).await?;
            return Ok(true);
        }
        Ok(false)
    }
}

/// How an index is to hold its rows from now on.
fn turned(index: &IndexDef, reverse: Option<bool>) -> Result<IndexKind> {
    let what = match (index.kind, reverse) {
        (IndexKind::Bitmap, Some(_)) => "REBUILD [NO]REVERSE of a bitmap index",
        (IndexKind::Tree, Some(true)) if !index.included.columns.is_empty() => {
            "REBUILD REVERSE of an index that includes columns"
        }
        (IndexKind::Tree, Some(true))
            if index.orders.iter().any(|order| *order != KeyOrder::default()) =>
        {
            "REBUILD REVERSE of an index with descending columns"
        }
        (IndexKind::Tree | IndexKind::Reverse, Some(true)) => return Ok(IndexKind::Reverse),
        (IndexKind::Tree | IndexKind::Reverse, Some(false)) => return Ok(IndexKind::Tree),
        (kind, None) => return Ok(kind),
    };
    refuse(what)
}

/// How the index of a constraint is to hold its rows, as its options say.
pub(super) fn constraint_kind(
    method: Option<&ast::IndexType>,
    options: &[ast::IndexOption],
    included: &Included,
) -> Result<IndexKind> {
    match (method, options) {
        (None, []) => Ok(IndexKind::Tree),
        (None, [ast::IndexOption::Using(ast::IndexType::Custom(name))])
            if ident_name(name) == REVERSE =>
        {
            match included.columns.is_empty() {
                true => Ok(IndexKind::Reverse),
                false => refuse("USING INDEX REVERSE of a constraint that includes columns"),
            }
        }
        _ => refuse("an index type of a constraint"),
    }
}

/// The positions of the columns that INCLUDE names.
pub(super) fn included_columns(given: &[ast::Ident], names: &[String]) -> Result<Vec<u16>> {
    let position = |ident: &ast::Ident| {
        let name = ident_name(ident);
        let at = names.iter().position(|known| *known == name);
        let at =
            at.ok_or_else(|| PgError::new("42703", format!("column \"{name}\" does not exist")))?;
        u16::try_from(at).map_err(|_| PgError::new("54011", "too many columns"))
    };
    given.iter().map(position).collect()
}

/// What a new index includes. Its entries hold that too, behind the key in `columns`, if they may:
/// not where keys are unique, and only what can be ordered, once.
pub(super) fn included_in(
    columns: &mut Vec<u16>,
    included: Vec<u16>,
    unique: bool,
    table: &TableDef,
) -> Included {
    let mut all = columns.clone();
    let fits = |column: &u16| {
        let ty = table.columns[usize::from(*column)].ty;
        let once = !all.contains(column);
        all.push(*column);
        once && check_types([ty].into_iter()).is_ok()
    };
    let plain = !unique && columns.iter().all(|column| *column < KEY_EXPR);
    let stored = plain && !included.is_empty() && included.iter().all(fits);
    if stored {
        columns.extend(&included);
    }
    Included { columns: included, stored }
}

/// Refuses types whose values an index cannot order.
pub(super) fn check_key(columns: &[ColumnDef], key: &[u16]) -> Result<()> {
    check_types(key.iter().map(|at| columns[usize::from(*at)].ty))
}

/// How the index is to hold its rows, as USING says.
fn index_kind(create: &ast::CreateIndex) -> Result<IndexKind> {
    let Some(using) = &create.using else { return Ok(IndexKind::Tree) };
    let method = using.to_string();
    if method.eq_ignore_ascii_case("btree") {
        return Ok(IndexKind::Tree);
    }
    let kind = match &*method.to_ascii_lowercase() {
        BITMAP => IndexKind::Bitmap,
        REVERSE => IndexKind::Reverse,
        _ => return refuse(format!("index type {using}")),
    };
    let ordered = |column: &ast::IndexColumn| {
        let options = &column.column.options;
        options.asc.is_some() || options.nulls_first.is_some()
    };
    let refused = if create.unique && kind == IndexKind::Bitmap {
        "unique indexes"
    } else if !create.include.is_empty() {
        "included columns"
    } else if create.columns.iter().any(ordered) {
        "ASC/DESC and NULLS FIRST/LAST options"
    } else {
        return Ok(kind);
    };
    let text = format!("access method \"{}\" does not support {refused}", method.to_lowercase());
    Err(PgError::new("0A000", text))
}

pub(super) fn check_types(types: impl Iterator<Item = ColType>) -> Result<()> {
    for ty in types {
        if ty.kind == TypeKind::Json {
            let message =
                "data type json has no default operator class for access method \"btree\"";
            return Err(PgError::new("42704", message).with_hint(
                "You must specify an operator class for the index or define a default operator \
                 class for the data type.",
            ));
        }
        if !ty.is_ordered() {
            return refuse(format!("an index on type {ty}"));
        }
    }
    Ok(())
}

/// The types of the parts of a key.
fn part_types(table: &TableDef, columns: &[u16], exprs: &[KeyExpr]) -> Vec<ColType> {
    let ty = |at: &u16| match at.checked_sub(KEY_EXPR) {
        Some(at) => exprs[usize::from(at)].ty,
        None => table.columns[usize::from(*at)].ty,
    };
    columns.iter().map(ty).collect()
}

/// Operator classes: only those whose order is the one that every index has here. Texts are ordered
/// by their bytes, as the pattern classes do.
fn check_classes(given: &[ast::IndexColumn], types: &[ColType]) -> Result<()> {
    for (column, ty) in given.iter().zip(types) {
        let Some(class) = &column.operator_class else { continue };
        let shown = class.to_string().to_lowercase();
        let class = shown.strip_prefix("pg_catalog.").unwrap_or(&shown);
        let fits = match class {
            "text_pattern_ops" | "varchar_pattern_ops" => {
                matches!(ty.kind, TypeKind::Text | TypeKind::Varchar)
            }
            "bpchar_pattern_ops" => ty.kind == TypeKind::Char,
            _ => return refuse(format!("operator class {class}")),
        };
        if !fits {
            let ty = ColType::new(ty.kind);
            let message = format!("operator class \"{class}\" does not accept data type {ty}");
            return Err(PgError::new("42804", message));
        }
    }
    Ok(())
}

/// The columns of a constraint, which has no operator classes and no order, and what it includes.
pub(super) fn constraint_columns(
    columns: &[ast::IndexColumn],
    names: &[String],
) -> Result<(Vec<u16>, Included)> {
    let included = columns.iter().filter_map(included_name).collect::<Vec<_>>();
    let columns = &columns[..columns.len() - included.len()];
    if columns.iter().any(|column| column.operator_class.is_some()) {
        return refuse("an operator class in a constraint");
    }
    let ordered = |column: &ast::IndexColumn| {
        column.column.options.asc.is_some() || column.column.options.nulls_first.is_some()
    };
    if columns.iter().any(ordered) {
        return refuse("an order of columns in a constraint");
    }
    let included = included_columns(&included, names)?;
    Ok((index_columns(columns, names)?, Included { columns: included, stored: false }))
}

/// The column's name, if INCLUDE names it: see [`crate::words::with_included`].
fn included_name(column: &ast::IndexColumn) -> Option<ast::Ident> {
    let Expr::CompoundIdentifier(parts) = &column.column.expr else { return None };
    match &parts[..] {
        [mark, name] if mark.value == crate::words::INCLUDE => Some(name.clone()),
        _ => None,
    }
}

/// The orders that are asked for, if they are not those of all indexes.
fn key_orders(columns: &[ast::IndexColumn]) -> Vec<KeyOrder> {
    let order = |column: &ast::IndexColumn| {
        let options = &column.column.options;
        let descending = options.asc == Some(false);
        KeyOrder { descending, nulls_first: options.nulls_first.unwrap_or(descending) }
    };
    let orders: Vec<KeyOrder> = columns.iter().map(order).collect();
    let plain = orders.iter().all(|order| *order == KeyOrder::default());
    if plain { Vec::new() } else { orders }
}

/// The columns of a constraint's key: no expressions.
fn index_columns(columns: &[ast::IndexColumn], names: &[String]) -> Result<Vec<u16>> {
    match key_parts(columns, names)? {
        (columns, exprs) if exprs.is_empty() => Ok(columns),
        _ => Err(PgError::syntax("a constraint is over columns")),
    }
}

/// The parts of a key: columns, and the expressions that numbers from [`KEY_EXPR`] on stand for.
fn key_parts(columns: &[ast::IndexColumn], names: &[String]) -> Result<(Vec<u16>, Vec<Expr>)> {
    let mut out = Vec::with_capacity(columns.len());
    let mut exprs = Vec::new();
    for column in columns {
        let mut expr = &column.column.expr;
        while let Expr::Nested(inner) = expr {
            expr = inner;
        }
        let Expr::Identifier(ident) = expr else {
            let number = u16::try_from(exprs.len()).ok().filter(|at| *at < KEY_EXPR);
            let number = number.ok_or_else(|| PgError::new("54011", "too many columns"))?;
            out.push(KEY_EXPR + number);
            exprs.push(expr.clone());
            continue;
        };
        let name = ident_name(ident);
        let at = names.iter().position(|known| *known == name);
        let at = at.ok_or_else(|| {
            PgError::new("42703", format!("column \"{name}\" named in key does not exist"))
        })?;
        let at = u16::try_from(at).map_err(|_| PgError::new("54011", "too many columns"))?;
        if out.contains(&at) {
            return Err(PgError::new(
                "42701",
                format!("column \"{name}\" appears twice in the key"),
            ));
        }
        out.push(at);
    }
    Ok((out, exprs))
}
