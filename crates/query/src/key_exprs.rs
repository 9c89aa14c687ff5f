//! The expressions that indexes are over: as the planner writes them, and computed.
//!
//! What it promises: the value for a row is the one that a query would give for the expression, in
//! every session alike. What it must never do: take one whose value depends on anything but the
//! row.

use crate::arrow_rows::{ColumnReader, RowBatchBuilder, Source};
use crate::cast::{CastMode, cast};
use crate::error::{PgError, Result};
use crate::planner::{Planner, TableSet};
use crate::types::{PgColumn, field_of_column};
use crate::wire::FormatEnv;
use block::Rowid;
use datafusion::arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Volatility};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::sql::sqlparser::ast::Statement;
use kernel::dict::{IndexDef, TableDef};
use kernel::row::{ColType, RowView, TypeKind, Value};
use std::sync::Arc;

/// The expressions of one index, made once from a table's definition.
#[derive(Debug)]
pub struct KeyExprs {
    pub(crate) exprs: Vec<KeyExpr>,
    /// The columns that they name, as positions in the table.
    columns: Vec<usize>,
    schema: SchemaRef,
}

#[derive(Debug)]
pub(crate) struct KeyExpr {
    /// As it stands in optimised plans, its columns by their bare names.
    pub(crate) logical: Expr,
    pub(crate) ty: ColType,
    pub(crate) physical: Arc<dyn PhysicalExpr>,
    field: FieldRef,
}

/// The expression with its columns by their bare names.
pub(crate) fn bare(expr: &Expr) -> Expr {
    let plain = expr.clone().transform(|part| {
        Ok(match part {
            Expr::Column(column) => {
                Transformed::yes(Expr::Column(Column::new_unqualified(column.name)))
            }
            Expr::Alias(alias) => Transformed::yes(*alias.expr),
            other => Transformed::no(other),
        })
    });
    plain.map_or_else(|_| expr.clone(), |done| done.data)
}

fn not_immutable() -> PgError {
    PgError::new("42P17", "functions in index expression must be marked IMMUTABLE")
}

/// Functions that PostgreSQL has as stable for all arguments, though they are not here.
const STABLE: [&str; 8] =
    ["to_char", "concat", "concat_ws", "format", "age", "to_timestamp", "to_date", "to_json"];

fn kind_of(expr: &Expr, schema: &DFSchema) -> Option<TypeKind> {
    let ty = expr.get_type(schema).ok()?;
    crate::types::col_type_of(&ty).map(|ty| ty.kind)
}

/// Whether a cast depends on how the session reads and writes times, or on its zone.
fn is_stable_cast(from: &Expr, to: TypeKind, schema: &DFSchema) -> bool {
    let timed = |kind| {
        matches!(
            kind,
            TypeKind::Date
                | TypeKind::Time
                | TypeKind::Timestamp
                | TypeKind::Timestamptz
                | TypeKind::Interval
        )
    };
    let zoned = |kind| kind == TypeKind::Timestamptz;
    if matches!(from, Expr::Literal(..)) {
        return false;
    }
    let Some(from) = kind_of(from, schema) else { return false };
    (from.is_text() && timed(to) && to != TypeKind::Interval)
        || (timed(from) && to.is_text())
        || (zoned(from) != zoned(to) && timed(from) && timed(to))
}

/// 42P17 if the value may be another in another session, or later.
fn check_immutable(expr: &Expr, schema: &DFSchema) -> Result<()> {
    let mut stable = false;
    let zoned = |kind| kind == TypeKind::Timestamptz;
    expr.apply(|part| {
        match part {
            Expr::ScalarFunction(call) => {
                let name = call.func.name();
                let plain = name.trim_start_matches('$');
                let plain = plain.strip_prefix("pg_").unwrap_or(plain);
                let volatile = call.func.signature().volatility != Volatility::Immutable;
                let of_zone = matches!(plain, "date_trunc" | "date_part" | "extract")
                    && call.args.get(1).and_then(|arg| kind_of(arg, schema)).is_some_and(zoned);
                stable |= volatile || STABLE.contains(&plain) || of_zone;
                let to = name.strip_prefix("$cast_").and_then(|rest| rest.split('_').next());
                let to = to.and_then(|code| TypeKind::from_code(code.parse().ok()?));
                if let (Some(to), Some(from)) = (to, call.args.first()) {
                    stable |= is_stable_cast(from, to, schema);
                }
            }
            Expr::Cast(cast) => {
                let to = crate::types::col_type_of(cast.field.data_type()).map(|ty| ty.kind);
                stable |= to.is_some_and(|to| is_stable_cast(&cast.expr, to, schema));
            }
            Expr::Placeholder(_) | Expr::ScalarVariable(..) => stable = true,
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if stable { Err(not_immutable()) } else { Ok(()) }
}

/// The one expression of a plan `SELECT expr FROM table`, over the table's columns.
fn only_expr(plan: &LogicalPlan) -> Option<&Expr> {
    let LogicalPlan::Projection(projection) = plan else { return None };
    let over_table = matches!(&*projection.input, LogicalPlan::TableScan(_))
        || matches!(&*projection.input, LogicalPlan::SubqueryAlias(alias)
            if matches!(&*alias.input, LogicalPlan::TableScan(_)));
    match &projection.expr[..] {
        [one] if over_table => Some(one),
        _ => None,
    }
}

impl Planner {
    /// Expressions over the rows of a table, each as the query `SELECT expr FROM table`.
    ///
    /// # Errors
    /// What is wrong with one; 42P17 for one that is not immutable.
    pub fn key_exprs(
        &self,
        table: &TableDef,
        queries: Vec<Statement>,
        set: &TableSet,
    ) -> Result<KeyExprs> {
        let fields = table.columns.iter().enumerate();
        let all: Vec<_> = fields.map(|(i, c)| field_of_column(c, table.obj.0, i)).collect();
        let whole = DFSchema::try_from(Schema::new(all.clone()))?;
        let mut found = Vec::with_capacity(queries.len());
        let mut named: Vec<usize> = Vec::new();
        for query in queries {
            let (plan, columns) = self.key_plan(query, set)?;
            let field = plan.schema().field(0).clone();
            let ty = columns.first().and_then(PgColumn::col_type);
            let ty = ty.ok_or_else(|| PgError::unsupported("an index on this expression"))?;
            let expr = only_expr(&plan).map(bare);
            let expr = expr.ok_or_else(|| PgError::unsupported("an index on this expression"))?;
            check_immutable(&expr, &whole)?;
            for column in expr.column_refs() {
                let at = table.columns.iter().position(|c| c.name == column.name);
                named.push(at.ok_or_else(|| PgError::undefined_column(&column.name))?);
            }
            found.push((expr, ty.without_limit(), field));
        }
        named.sort_unstable();
        named.dedup();
        let schema =
            Arc::new(Schema::new(named.iter().map(|at| all[*at].clone()).collect::<Vec<_>>()));
        let input = DFSchema::try_from(schema.as_ref().clone())?;
        let make = |(logical, ty, field): (Expr, ColType, FieldRef)| {
            let physical = self.physical_expr(&logical, &input)?;
            Ok(KeyExpr { logical, ty, physical, field })
        };
        let exprs = found.into_iter().map(make).collect::<Result<_>>()?;
        Ok(KeyExprs { exprs, columns: named, schema })
    }
}

impl KeyExprs {
    /// The types of the values.
    #[must_use]
    pub fn types(&self) -> Vec<ColType> {
        self.exprs.iter().map(|expr| expr.ty).collect()
    }

    /// Their values for each of some rows of the table.
    ///
    /// # Errors
    /// Those of the expressions.
    pub fn values(&self, table: &TableDef, rows: &[&[u8]]) -> Result<Vec<Vec<Value>>> {
        let types: Vec<ColType> = table.columns.iter().map(|column| column.ty).collect();
        let sources: Vec<Source> = self.columns.iter().map(|at| Source::Column(*at)).collect();
        let mut builder = RowBatchBuilder::new(&types, &sources, self.schema.clone());
        for row in rows {
            builder.append(Rowid::from_u64(0), row, &RowView::new(&table.types, row))?;
        }
        let batch = builder.finish()?;
        let mut out: Vec<Vec<Value>> =
            rows.iter().map(|_| Vec::with_capacity(self.exprs.len())).collect();
        let env = FormatEnv::plain();
        for expr in &self.exprs {
            let array = expr.physical.evaluate(&batch)?.into_array(rows.len())?;
            let reader = ColumnReader::new(&array, &expr.field)?;
            for (i, values) in out.iter_mut().enumerate() {
                values.push(cast(&reader.get(i), expr.ty, CastMode::Explicit, &env)?);
            }
        }
        Ok(out)
    }
}

/// The expressions of an index, if they can be made.
fn exprs_of(table: &TableDef, index: &IndexDef) -> Option<Arc<KeyExprs>> {
    index.prepare(table).ok()?;
    index.derived.get::<KeyExprs>()
}

/// The expressions of a table's indexes, as columns behind its own.
#[derive(Clone, Default, Debug)]
pub(crate) struct Computed {
    /// Each once.
    pub(crate) exprs: Vec<(Expr, ColType)>,
    /// For each of the table's computed indexes the positions of its key's parts.
    places: Vec<Option<Vec<usize>>>,
}

impl Computed {
    pub(crate) fn of(table: &TableDef) -> Computed {
        let mut all = Computed::default();
        for index in &table.computed {
            let place = exprs_of(table, index).map(|own| all.places_of(table, index, &own));
            all.places.push(place);
        }
        all
    }

    fn places_of(&mut self, table: &TableDef, index: &IndexDef, own: &KeyExprs) -> Vec<usize> {
        let mut places = Vec::with_capacity(index.columns.len());
        for column in &index.columns {
            places.push(match column.checked_sub(kernel::dict::KEY_EXPR) {
                None => usize::from(*column),
                Some(at) => {
                    let own = &own.exprs[usize::from(at)];
                    let known = self.exprs.iter().position(|(known, _)| *known == own.logical);
                    let known = known.unwrap_or_else(|| {
                        self.exprs.push((own.logical.clone(), own.ty));
                        self.exprs.len() - 1
                    });
                    table.columns.len() + known
                }
            });
        }
        places
    }

    /// Where the parts of the key of the table's computed index `at` stand.
    pub(crate) fn places(&self, at: usize) -> Option<&[usize]> {
        self.places.get(at)?.as_deref()
    }

    /// The expression, if it is one of them, with its position behind the table's columns.
    pub(crate) fn find(&self, expr: &Expr) -> Option<(usize, ColType)> {
        if self.exprs.is_empty() || matches!(expr, Expr::Column(_) | Expr::Literal(..)) {
            return None;
        }
        let expr = bare(expr);
        let at = self.exprs.iter().position(|(known, _)| *known == expr)?;
        Some((at, self.exprs[at].1))
    }
}
