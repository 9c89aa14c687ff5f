//! The expressions that indexes are over: as the planner writes them, and computed.
//!
//! What it promises: the value for a row is the one that a query would give for the expression, in
//! every session alike. What it must never do: take one whose value depends on anything but the
//! row.

use crate::analyze::column_stats;
use crate::arrow_rows::{ColumnReader, RowBatchBuilder, Source};
use crate::cast::{CastMode, cast};
use crate::error::{PgError, Result};
use crate::planner::{Planner, TableSet};
use crate::selectivity::distinct;
use crate::types::{PgColumn, field_of_column};
use crate::wire::FormatEnv;
use block::{ObjId, Rowid};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Volatility};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::sql::sqlparser::ast::Statement;
use kernel::dict::{ColumnStats, IndexDef, TableDef, TableStats};
use kernel::row::{ColType, Datum, RowView, TypeKind, Value, encode_key, encode_row};
use std::collections::BTreeMap;
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
pub(crate) const STABLE: [&str; 8] =
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
        let mut builder = self.builder(table, self.schema.clone());
        for row in rows {
            builder.append(Rowid::from_u64(0), row, &RowView::new(&table.types, row))?;
        }
        let batch = builder.finish()?;
        let mut out: Vec<Vec<Value>> =
            rows.iter().map(|_| Vec::with_capacity(self.exprs.len())).collect();
        for expr in &self.exprs {
            for (values, value) in out.iter_mut().zip(expr.values(&batch)?) {
                values.push(value);
            }
        }
        Ok(out)
    }

    fn builder(&self, table: &TableDef, schema: SchemaRef) -> RowBatchBuilder {
        let types: Vec<ColType> = table.columns.iter().map(|column| column.ty).collect();
        let sources: Vec<Source> = self.columns.iter().map(|at| Source::Column(*at)).collect();
        RowBatchBuilder::new(&types, &sources, schema)
    }

    /// The value of the expression at a place for each of some values of one column; the others
    /// are NULL.
    fn images(
        &self,
        place: usize,
        table: &TableDef,
        column: usize,
        values: &[Value],
    ) -> Result<Vec<Value>> {
        let fields = self.schema.fields().iter();
        let fields: Vec<Field> =
            fields.map(|field| field.as_ref().clone().with_nullable(true)).collect();
        let mut builder = self.builder(table, Arc::new(Schema::new(fields)));
        let mut bytes = Vec::new();
        for value in values {
            let mut row = vec![Datum::Null; table.columns.len()];
            row[column] = value.as_datum();
            bytes.clear();
            encode_row(&table.types, &row, &mut bytes);
            builder.append(Rowid::from_u64(0), &bytes, &RowView::new(&table.types, &bytes))?;
        }
        let expr = self.exprs.get(place).ok_or_else(|| PgError::internal("no such expression"))?;
        expr.values(&builder.finish()?)
    }
}

impl KeyExpr {
    fn values(&self, batch: &RecordBatch) -> Result<Vec<Value>> {
        let rows = batch.num_rows();
        let array = self.physical.evaluate(batch)?.into_array(rows)?;
        let reader = ColumnReader::new(&array, &self.field)?;
        let env = FormatEnv::plain();
        (0..rows).map(|i| cast(&reader.get(i), self.ty, CastMode::Explicit, &env)).collect()
    }
}

/// The expressions of an index, if they can be made.
pub(crate) fn exprs_of(table: &TableDef, index: &IndexDef) -> Option<Arc<KeyExprs>> {
    index.prepare(table).ok()?;
    index.derived.get::<KeyExprs>()
}

/// An expression that indexes are over.
#[derive(Clone, Debug)]
pub(crate) struct ComputedExpr {
    /// As it stands in optimised plans, its columns by their bare names.
    logical: Expr,
    pub(crate) ty: ColType,
    /// Those of an index, and which of them it is.
    of: (Arc<KeyExprs>, usize),
    /// All indexes that are over it, and which of theirs it is.
    known_by: Vec<(ObjId, usize)>,
}

/// The expressions of a table's indexes, as columns behind its own.
#[derive(Clone, Default, Debug)]
pub(crate) struct Computed {
    /// Each once.
    pub(crate) exprs: Vec<ComputedExpr>,
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

    fn places_of(&mut self, table: &TableDef, index: &IndexDef, own: &Arc<KeyExprs>) -> Vec<usize> {
        let mut places = Vec::with_capacity(index.columns.len());
        for column in &index.columns {
            places.push(match column.checked_sub(kernel::dict::KEY_EXPR) {
                None => usize::from(*column),
                Some(at) => {
                    let of = (own.clone(), usize::from(at));
                    let own = &own.exprs[of.1];
                    let known = self.exprs.iter().position(|known| known.logical == own.logical);
                    let known = known.unwrap_or_else(|| {
                        let (logical, ty) = (own.logical.clone(), own.ty);
                        self.exprs.push(ComputedExpr { logical, ty, of, known_by: Vec::new() });
                        self.exprs.len() - 1
                    });
                    self.exprs[known].known_by.push((index.obj, usize::from(at)));
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
        let at = self.exprs.iter().position(|known| known.logical == expr)?;
        Some((at, self.exprs[at].ty))
    }

    /// The table's columns that an expression names.
    pub(crate) fn columns(&self, at: usize, table: &TableDef) -> Vec<usize> {
        let Some(expr) = self.exprs.get(at) else { return Vec::new() };
        let named = expr.logical.column_refs();
        let is_named = |name: &str| named.iter().any(|column| column.name == name);
        let columns = table.columns.iter().enumerate().filter(|(_, column)| is_named(&column.name));
        columns.map(|(at, _)| at).collect()
    }

    /// What is known of the values of an expression: what was found out with an index over it, or,
    /// where it is over a single column, from what is known of that column's.
    pub(crate) fn stats(
        &self,
        at: usize,
        table: &TableDef,
        stats: &TableStats,
        rows: f64,
    ) -> Option<ColumnStats> {
        let expr = self.exprs.get(at)?;
        let found = expr.known_by.iter().find_map(|(index, place)| stats.expr(*index, *place));
        if let Some(found) = found {
            return Some(found.clone());
        }
        let [column] = self.columns(at, table)[..] else { return None };
        let known = stats.column(column)?;
        let distinct = distinct(known, rows);
        let mut values = vec![Value::Null];
        values.extend(known.common.iter().map(|(value, _)| value.clone()));
        values.extend(spread(&known.histogram, distinct));
        let (own, place) = &expr.of;
        // One that fails for a value is not known.
        let images = own.images(*place, table, column, &values).ok()?;
        stats_of_images(expr.ty, known, distinct, &images)
    }
}

/// Bounds of whole numbers stand at even distances, of which a remainder makes one value: where
/// nearly all numbers are there, others between them stand for the column as well.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // a guess
fn spread(bounds: &[Value], distinct: f64) -> Vec<Value> {
    /// Of the golden section: its multiples fall evenly and without a period.
    const STEP: f64 = 0.618_033_988_749_894_9;
    /// Part of the numbers that are there.
    const DENSE: f64 = 0.9;
    let number = |value: &Value| match value {
        Value::Int2(v) => Some(i64::from(*v)),
        Value::Int4(v) => Some(i64::from(*v)),
        Value::Int8(v) => Some(*v),
        _ => None,
    };
    let numbers = bounds.iter().map(number).collect::<Option<Vec<i64>>>();
    let Some([first, .., last]) = numbers.as_deref() else { return bounds.to_vec() };
    if distinct < (*last as f64 - *first as f64) * DENSE {
        return bounds.to_vec();
    }
    let between = |at: usize, low: i64, high: i64| {
        let part = (at as f64 * STEP).fract();
        low.saturating_add(((high as f64 - low as f64) * part) as i64)
    };
    let pairs = numbers.iter().flat_map(|numbers| numbers.windows(2)).zip(bounds).enumerate();
    let moved = pairs.filter_map(|(at, (pair, bound))| {
        let v = between(at, pair[0], pair[1]);
        match bound {
            Value::Int2(_) => i16::try_from(v).ok().map(Value::Int2),
            Value::Int4(_) => i32::try_from(v).ok().map(Value::Int4),
            _ => Some(Value::Int8(v)),
        }
    });
    moved.collect()
}

/// What is known of an expression: `images` are its values for NULL, for the column's common values
/// and for others that stand for as many rows each.
#[allow(clippy::cast_precision_loss)] // short lists
fn stats_of_images(
    ty: ColType,
    known: &ColumnStats,
    distinct: f64,
    images: &[Value],
) -> Option<ColumnStats> {
    let (of_null, others) = images.split_first()?;
    let (of_common, of_rest) = others.split_at_checked(known.common.len())?;
    // How many there are is known of the column's values as a sample of them.
    let all = column_stats(ty, others.iter().map(Value::as_datum), distinct);
    if all.distinct == 0.0 {
        return None;
    }
    let told: f64 = known.common.iter().map(|(_, part)| part).sum();
    let rest = (1.0 - known.null_fraction - told).max(0.0);
    let left = (distinct - known.common.len() as f64).max(1.0);
    let behind = column_stats(ty, of_rest.iter().map(Value::as_datum), left);
    let mut nulls = rest * behind.null_fraction;
    let mut common: BTreeMap<Vec<u8>, (Value, f64)> = BTreeMap::new();
    let parts = known.common.iter().map(|(_, part)| *part);
    let told = std::iter::once((of_null, known.null_fraction))
        .chain(of_common.iter().zip(parts))
        .chain(behind.common.iter().map(|(value, part)| (value, part * rest)));
    for (image, part) in told.filter(|(_, part)| *part > 0.0) {
        if image.is_null() {
            nulls += part;
            continue;
        }
        let mut key = Vec::new();
        encode_key(&[image.as_datum()], &mut key);
        common.entry(key).or_insert_with(|| (image.clone(), 0.0)).1 += part;
    }
    let mut common: Vec<(Value, f64)> = common.into_values().collect();
    common.sort_by(|a, b| b.1.total_cmp(&a.1));
    let values = if all.distinct < 0.0 { -all.distinct * distinct } else { all.distinct };
    Some(ColumnStats {
        null_fraction: nulls.min(1.0),
        distinct: values.max(common.len() as f64).max(1.0),
        width: all.width,
        correlation: None,
        common,
        histogram: behind.histogram,
    })
}

#[cfg(test)]
#[allow(clippy::float_cmp)]
mod tests {
    use super::*;

    const ROWS: f64 = 1_000.0;

    fn of(column: impl Fn(i32) -> i32, expr: impl Fn(i32) -> i32) -> ColumnStats {
        let ty = ColType::new(TypeKind::Int4);
        let values: Vec<Value> = (0..1_000).map(|i| Value::Int4(column(i))).collect();
        let known = column_stats(ty, values.iter().map(Value::as_datum), ROWS);
        let there = distinct(&known, ROWS);
        let mut images = vec![Value::Null];
        let common = known.common.iter().map(|(value, _)| value.clone());
        for value in common.chain(spread(&known.histogram, there)) {
            images.push(match value {
                Value::Int4(v) => Value::Int4(expr(v)),
                other => other,
            });
        }
        stats_of_images(ty, &known, there, &images).unwrap()
    }

    #[test]
    fn values_of_an_expression_are_known_from_those_of_its_column() {
        // As many as the column has.
        let twice = of(|i| i, |v| v * 2);
        assert!((distinct(&twice, ROWS) - ROWS).abs() < 1.0, "{}", twice.distinct);
        assert!(twice.common.is_empty() && twice.null_fraction == 0.0);
        // A remainder, whatever the distance of the histogram's bounds.
        let last = of(|i| i, |v| v % 10);
        assert!((distinct(&last, ROWS) - 10.0).abs() < 0.5, "{}", last.distinct);
        assert!(last.common.iter().all(|(_, part)| *part < 0.25), "{:?}", last.common);
        // Of a few values all are told.
        let half = of(|i| i % 4, |v| v / 2);
        assert_eq!(half.distinct, 2.0);
        let parts: Vec<f64> = half.common.iter().map(|(_, part)| *part).collect();
        assert_eq!(parts, [0.5, 0.5]);
    }

    #[test]
    fn bounds_with_gaps_between_them_stay() {
        let bounds: Vec<Value> = (0..5).map(|i| Value::Int4(i * 100)).collect();
        assert_eq!(spread(&bounds, 5.0), bounds);
        let moved = spread(&bounds, 400.0);
        assert_eq!(moved.len(), 4);
        assert!(moved.iter().zip(&bounds).skip(1).all(|(moved, bound)| moved != bound));
        let texts = [Value::Text("a".into()), Value::Text("b".into())];
        assert_eq!(spread(&texts, 1_000.0), texts);
    }
}
