//! Tables as DataFusion's planner sees them.
//!
//! What it promises: a filter is taken over only if the scan evaluates it exactly; hidden columns
//! (the row's address and
//! bytes) exist only for the target of a statement that changes or locks rows.

use crate::estimate::{TableSize, rows_kept};
use crate::key_exprs::Computed;
use crate::pushdown::{Columns, convert_filter};
use crate::scalar::Scalar;
use crate::scan::{Access, Hint, Hints, ScanExec, ScanWork};
use crate::types::field_of_column;
use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Constraint, Constraints, DFSchema};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use datafusion::physical_plan::ExecutionPlan;
use kernel::dict::{IndexDef, IndexKind, TableDef};
use kernel::row::ColType;
use std::sync::Arc;

/// Catalog name under which the target of a statement is planned.
pub const TARGET_CATALOG: &str = "$target";
/// Hidden column: the row's address.
pub const ROWID_COLUMN: &str = "$rowid";
/// Hidden column: the row's bytes.
pub const ROW_COLUMN: &str = "$row";

/// By what a statement says a table is to be read; for the field's hints.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AccessHint {
    /// By none of its indexes.
    Full,
    /// By one of these indexes, or by any if none is named, if it serves.
    By(Vec<String>),
    /// By none of these indexes, or by none at all if none is named.
    Without(Vec<String>),
}

/// A table to scan.
#[derive(Clone, Debug)]
pub struct TableScanSource {
    table: Arc<TableDef>,
    types: Arc<[ColType]>,
    schema: SchemaRef,
    target: bool,
    size: TableSize,
    /// What its indexes on expressions are over.
    computed: Arc<Computed>,
    /// The primary key, on which the other columns of a group depend.
    keys: Constraints,
    /// The parameter with the SCN that it is read as of.
    as_of: Option<usize>,
    /// As it is without what is said of its indexes, if it is to be read by one.
    unhinted: Option<Box<TableScanSource>>,
}

impl TableScanSource {
    /// With hidden columns if `target`.
    #[must_use]
    pub fn new(table: Arc<TableDef>, target: bool) -> TableScanSource {
        let columns = table.columns.iter().enumerate();
        let mut fields: Vec<Field> =
            columns.map(|(i, column)| field_of_column(column, table.obj.0, i)).collect();
        if target {
            fields.push(Field::new(ROWID_COLUMN, DataType::Int64, false));
            fields.push(Field::new(ROW_COLUMN, DataType::Binary, false));
        }
        let types = table.columns.iter().map(|column| column.ty).collect();
        let primary = table.indexes.iter().filter(|index| index.primary);
        let primary = primary.map(|index| {
            Constraint::PrimaryKey(index.columns.iter().map(|at| usize::from(*at)).collect())
        });
        let keys = Constraints::new_unverified(primary.collect());
        let (size, schema) = (TableSize::default(), Arc::new(Schema::new(fields)));
        let computed = Arc::new(Computed::of(&table));
        let (as_of, unhinted) = (None, None);
        TableScanSource { table, types, schema, target, size, computed, keys, as_of, unhinted }
    }

    /// With what is known of its size.
    #[must_use]
    pub fn with_size(mut self, size: TableSize) -> TableScanSource {
        self.size = size;
        self
    }

    /// Read as of an SCN of the past, if a parameter says one.
    #[must_use]
    pub(crate) fn read_as_of(mut self, param: Option<usize>) -> TableScanSource {
        if param.is_none() {
            return self;
        }
        // What a column or key promises today it may not have kept then.
        let mut table = TableDef::clone(&self.table);
        table.columns.iter_mut().for_each(|column| column.not_null = false);
        let fields = self.schema.fields().iter();
        let fields: Vec<Field> =
            fields.map(|field| field.as_ref().clone().with_nullable(true)).collect();
        self.schema = Arc::new(Schema::new(fields));
        self.keys = Constraints::new_unverified(Vec::new());
        self.table = Arc::new(table);
        self.as_of = param;
        self.unhinted = self.unhinted.map(|source| Box::new(source.read_as_of(param)));
        self
    }

    /// Read as a hint says: by the indexes that it leaves. One that says to use an index is
    /// forgotten if none of those is of use.
    pub(crate) fn hinted(mut self, hint: &AccessHint) -> TableScanSource {
        let stays = |index: &IndexDef| match hint {
            AccessHint::Full => false,
            AccessHint::By(names) => names.is_empty() || names.contains(&index.name),
            AccessHint::Without(names) => !names.is_empty() && !names.contains(&index.name),
        };
        let mut table = TableDef::clone(&self.table);
        let mut all = Vec::new();
        for list in [&mut table.indexes, &mut table.partial, &mut table.computed] {
            all.extend(list.iter().map(|index| stays(index)));
            list.retain(|index| stays(index));
        }
        // A name that none has is of no hint.
        if matches!(hint, AccessHint::By(_)) && !all.contains(&true) {
            return self;
        }
        let by_one = matches!(hint, AccessHint::By(_));
        self.unhinted = by_one.then(|| Box::new(self.clone()));
        let mut kept = all.into_iter();
        self.size.index_blocks.retain(|_| kept.next().unwrap_or(true));
        self.size.forced = by_one;
        self.computed = Arc::new(Computed::of(&table));
        self.table = Arc::new(table);
        self
    }

    pub(crate) fn table(&self) -> &Arc<TableDef> {
        &self.table
    }

    /// Whether enough is known of it to choose when it is joined; rows that are to be changed come
    /// in the order in which the statement was written.
    pub(crate) fn may_move(&self) -> bool {
        self.size.stats.is_some() && !self.target
    }

    pub(crate) fn size(&self) -> &TableSize {
        &self.size
    }

    /// Whether an index yields the column's least and greatest value among the rows that the
    /// filters keep, as far as they fix its columns before.
    pub(crate) fn orders_by(&self, column: &str, filters: &[Expr]) -> bool {
        let Some(column) = self.table.columns.iter().position(|c| c.name == column) else {
            return false;
        };
        let converted = self.with_columns(|columns| {
            filters.iter().map(|f| convert_filter(f, columns)).collect::<Option<Vec<_>>>()
        });
        let Some(filters) = converted else { return false };
        let fixed = Access::equal_columns(&self.types, &filters);
        let ordered = |index: &&Arc<IndexDef>| index.kind != IndexKind::Reverse;
        self.table.indexes.iter().filter(ordered).any(|index| {
            let mut columns = index.columns.iter().map(|c| usize::from(*c));
            columns.find(|c| fixed[*c].is_none()) == Some(column)
        })
    }

    fn with_columns<R>(&self, f: impl FnOnce(&Columns<'_>) -> R) -> R {
        let names: Vec<&str> = self.table.columns.iter().map(|c| c.name.as_str()).collect();
        f(&Columns { names: &names, types: &self.types, computed: None })
    }

    /// What a filter says of expressions that indexes are over, if it does: only to choose an
    /// index by.
    fn hint(&self, filter: &Expr) -> Option<Scalar> {
        if self.computed.exprs.is_empty() {
            return None;
        }
        let names: Vec<&str> = self.table.columns.iter().map(|c| c.name.as_str()).collect();
        let columns = Columns { names: &names, types: &self.types, computed: Some(&self.computed) };
        let hint = convert_filter(filter, &columns)?;
        let mut names_one = false;
        hint.walk(&mut |part| {
            names_one |= matches!(part, Scalar::Column(at) if *at >= self.types.len());
        });
        names_one.then_some(hint)
    }

    /// Whether a filter says something of indexes that only a hint keeps away.
    fn is_hint_otherwise(&self, filter: &Expr) -> bool {
        self.unhinted.as_ref().is_some_and(|source| source.hint(filter).is_some())
    }

    /// The filters as the scan evaluates them, and what they say of expressions that indexes are
    /// over; `above`: how one is evaluated that the scan does not. `None`: one of them is neither.
    fn converted(
        &self,
        filters: &[Expr],
        above: &dyn Fn(&Expr) -> Option<Arc<dyn PhysicalExpr>>,
    ) -> Option<(Vec<Scalar>, Vec<Hint>)> {
        let (mut all, mut hints) = (Vec::new(), Vec::new());
        for filter in filters {
            let own = self.with_columns(|columns| convert_filter(filter, columns));
            match self.hint(filter) {
                Some(condition) => {
                    let above = if own.is_none() { above(filter) } else { None };
                    hints.push(Hint { condition, own: own.clone(), above });
                }
                None if own.is_none() && !self.is_hint_otherwise(filter) => return None,
                None => {}
            }
            all.extend(own);
        }
        Some((all, hints))
    }

    /// Rows that filters of a scan are thought to keep.
    pub(crate) fn rows_kept(&self, filters: &[Expr]) -> f64 {
        let (table, size) = (&self.table, &self.size);
        let Some((own, hints)) = self.converted(filters, &|_| None) else { return size.rows };
        if hints.is_empty() {
            return rows_kept(table, &own, size);
        }
        let hints = Hints::new(table, size, &self.computed, hints);
        let others = own.into_iter().filter(|filter| !hints.has_own(filter));
        let others: Vec<Scalar> = others.collect();
        rows_kept(table, &others, size) * hints.part(table, size, &|_| true)
    }

    /// Whether an index serves for filters of a scan.
    pub(crate) fn is_served(&self, filters: &[Expr]) -> bool {
        let Some((own, hints)) = self.converted(filters, &|_| None) else { return false };
        if !Access::offers(&self.table, &self.types, &own).is_empty() {
            return true;
        }
        let hints: Vec<Scalar> = hints.into_iter().map(|hint| hint.condition).collect();
        let choose = || Access::choose(&self.table, &self.types, &own, &hints, &self.computed);
        !hints.is_empty() && !matches!(choose(), Access::Full)
    }

    /// What a scan of it is to read; the columns are those of its schema.
    fn work(
        &self,
        session: &dyn Session,
        projection: &[usize],
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DfResult<ScanWork> {
        let schema = Arc::new(self.schema.project(projection)?);
        // What is only a hint is evaluated above the scan, as the planner makes it there.
        let above = |filter: &Expr| {
            let schema = DFSchema::try_from(schema.clone()).ok()?;
            let context = PhysicalPlanningContext::default();
            create_physical_expr(filter, &schema, session.execution_props(), &context).ok()
        };
        let (filters, hints) = self
            .converted(filters, &above)
            .ok_or_else(|| crate::PgError::internal("a filter that the scan did not accept"))?;
        let said: Vec<Scalar> = hints.iter().map(|hint| hint.condition.clone()).collect();
        let access = Access::choose(&self.table, &self.types, &filters, &said, &self.computed);
        let size = TableSize { peeked: crate::peek::values(), ..self.size.clone() };
        let hints = Hints::new(&self.table, &size, &self.computed, hints);
        Ok(ScanWork {
            table: self.table.clone(),
            types: self.types.clone(),
            sources: ScanWork::sources(&self.types, projection),
            schema,
            filters,
            unsaid: Vec::new(),
            probes: Vec::new(),
            access,
            hints: Arc::new(hints),
            limit,
            target: self.target,
            size,
            as_of: self.as_of,
            instead: None,
            asked: Vec::new(),
        })
    }
}

#[async_trait]
impl TableProvider for TableScanSource {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.keys)
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> DfResult<Vec<TableProviderFilterPushDown>> {
        Ok(self.with_columns(|columns| {
            let exact = |filter: &&Expr| match convert_filter(filter, columns) {
                Some(_) => TableProviderFilterPushDown::Exact,
                None if self.hint(filter).is_some() || self.is_hint_otherwise(filter) => {
                    TableProviderFilterPushDown::Inexact
                }
                None => TableProviderFilterPushDown::Unsupported,
            };
            filters.iter().map(exact).collect()
        }))
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let projection = match projection {
            Some(columns) => columns.clone(),
            None => (0..self.schema.fields().len()).collect(),
        };
        let scan = ScanExec::new(self.work(session, &projection, filters, limit)?);
        let unhinted = self.unhinted.as_deref().filter(|_| scan.is_full());
        let Some(unhinted) = unhinted else { return Ok(Arc::new(scan)) };
        let instead = ScanExec::new(unhinted.work(session, &projection, filters, limit)?);
        Ok(Arc::new(scan.or_else(&instead)))
    }
}
