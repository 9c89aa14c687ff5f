//! CREATE, ALTER, DROP, TRUNCATE: from the syntax tree to the dictionary.
//!
//! What it promises: a clause that has no meaning here is either refused or named in a notice; DDL
//! is part of its transaction.

use crate::bind::{ident_name, object_parts, table_parts};
use crate::dml::row_error;
use crate::parse::SequenceSpec;
use crate::session::Session;
use crate::{PgError, Result, Severity, direct};
use datafusion::sql::sqlparser::ast::{
    self, AlterColumnOperation, AlterTableOperation, ColumnOption, CreateTableOptions, DataType,
    Expr, ObjectName, ObjectType, SequenceOptions, SqlOption, TableConstraint,
};
use kernel::dict::{self, ColumnDef, NewIndex, NewSequence, NewTable, TableDef};
use kernel::row::{ColType, TypeKind};
use query::sqltype::col_type_of_sql;
use std::sync::Arc;

/// Values an instance takes of a sequence at once, unless it says otherwise.
const SEQUENCE_CACHE: i64 = 20;

/// A column as declared.
struct Column {
    def: ColumnDef,
    /// `serial` and identity: a sequence of its own.
    sequence: Option<Vec<SequenceOptions>>,
}

fn refuse<T>(what: impl std::fmt::Display) -> Result<T> {
    Err(PgError::unsupported(what))
}

fn duplicate_table(name: &str) -> PgError {
    PgError::new("42P07", format!("relation \"{name}\" already exists"))
}

impl Session {
    fn owner(&self) -> block::ObjId {
        dict::SUPERUSER_OBJ
    }

    /// Schema and name of an object to be made.
    fn new_name(&self, name: &ObjectName) -> Result<(String, String)> {
        let (schema, name) = table_parts(name)?;
        self.own_schema(schema, name)
    }

    fn own_schema(&self, schema: Option<String>, name: String) -> Result<(String, String)> {
        let schema =
            match schema {
                Some(schema) => schema,
                None => self.settings.search_path.first().cloned().ok_or_else(|| {
                    PgError::new("3F000", "no schema has been selected to create in")
                })?,
            };
        if schema != dict::PUBLIC {
            let code =
                if dict::RESERVED_SCHEMAS.contains(&schema.as_str()) { "42501" } else { "3F000" };
            let message = if code == "42501" {
                format!("permission denied for schema {schema}")
            } else {
                format!("schema \"{schema}\" does not exist")
            };
            return Err(PgError::new(code, message));
        }
        Ok((schema, name))
    }

    pub(crate) async fn create_table(&mut self, create: &ast::CreateTable) -> Result<String> {
        check_create_table(create)?;
        for option in table_options(&create.table_options)? {
            self.table_option(option)?;
        }
        let (schema, name) = self.new_name(&create.name)?;
        let txn = self.transaction()?;
        if dict::object(&self.ctx, &txn, &schema, &name).await?.is_some() {
            if create.if_not_exists {
                self.notice(
                    Severity::Notice,
                    format!("relation \"{name}\" already exists, skipping"),
                );
                return Ok("CREATE TABLE".to_owned());
            }
            return Err(duplicate_table(&name));
        }
        let mut columns: Vec<Column> = Vec::with_capacity(create.columns.len());
        let mut indexes = Vec::new();
        for column in &create.columns {
            let declared = declare_column(column, &name, &mut indexes, columns.len())?;
            if columns.iter().any(|c| c.def.name == declared.def.name) {
                return Err(PgError::new(
                    "42701",
                    format!("column \"{}\" specified more than once", declared.def.name),
                ));
            }
            columns.push(declared);
        }
        let names: Vec<String> = columns.iter().map(|c| c.def.name.clone()).collect();
        for constraint in &create.constraints {
            indexes.push(constraint_index(constraint, &name, &names)?);
        }
        one_primary_key(&indexes, &name)?;
        for index in indexes.iter().filter(|index| index.primary) {
            for column in &index.columns {
                columns[usize::from(*column)].def.not_null = true;
            }
        }
        let mut owned = Vec::new();
        for column in &mut columns {
            if let Some(options) = column.sequence.take() {
                let sequence =
                    self.free_name(&schema, &format!("{name}_{}_seq", column.def.name)).await?;
                let ty = column.def.ty;
                let new = sequence_def(
                    &schema,
                    &sequence,
                    self.owner(),
                    &identity_spec(&options)?,
                    Some(ty),
                )?;
                column.def.default = Some(format!(
                    "nextval('{schema}.{}')",
                    query::functions::quote_ident(&sequence)
                ));
                owned.push(new);
            }
        }
        let new = NewTable {
            schema,
            name: name.clone(),
            owner: self.owner(),
            columns: columns.into_iter().map(|c| c.def).collect(),
            indexes,
        };
        for column in 0..new.columns.len() {
            check_default(&new, column)?;
        }
        let table = dict::create_table(&self.ctx, &txn, new).await.map_err(|e| named(e, &name))?;
        for mut sequence in owned {
            sequence.table = Some(table.obj);
            dict::create_sequence(&self.ctx, &txn, sequence).await?;
        }
        if let Some(query) = &create.query {
            let _ = query;
            return refuse("CREATE TABLE AS");
        }
        Ok("CREATE TABLE".to_owned())
    }

    fn table_option(&mut self, option: &SqlOption) -> Result<()> {
        let SqlOption::KeyValue { key, value } = option else {
            return refuse(format!("the table option {option}"));
        };
        let name = ident_name(key);
        match name.as_str() {
            // Free space in blocks is the storage layer's own business.
            "fillfactor" | "autovacuum_enabled" | "toast_tuple_target" | "parallel_workers" => {
                let text = format!(
                    "storage parameter \"{name}\" = {value} has no meaning here and is ignored"
                );
                self.notice(Severity::Notice, text);
                Ok(())
            }
            other => Err(PgError::new("22023", format!("unrecognized parameter \"{other}\""))),
        }
    }

    /// A name like `wanted` that nothing has.
    async fn free_name(&mut self, schema: &str, wanted: &str) -> Result<String> {
        let txn = self.transaction()?;
        let base: String = wanted.chars().take(55).collect();
        for n in 0..1000 {
            let name = if n == 0 { base.clone() } else { format!("{base}{n}") };
            if dict::object(&self.ctx, &txn, schema, &name).await?.is_none() {
                return Ok(name);
            }
        }
        Err(duplicate_table(wanted))
    }

    pub(crate) async fn create_index(&mut self, create: &ast::CreateIndex) -> Result<String> {
        if create.concurrently
            || !create.include.is_empty()
            || create.predicate.is_some()
            || !create.index_options.is_empty()
            || !create.alter_options.is_empty()
            || create.nulls_distinct == Some(false)
        {
            return refuse("this form of CREATE INDEX");
        }
        if let Some(using) = &create.using
            && !using.to_string().eq_ignore_ascii_case("btree")
        {
            return refuse(format!("index type {using}"));
        }
        if !create.with.is_empty() {
            self.notice(
                Severity::Notice,
                "storage parameters of indexes have no meaning here and are ignored",
            );
        }
        let table = self.table_of(&create.table_name).await?;
        let names: Vec<String> = table.columns.iter().map(|c| c.name.clone()).collect();
        let columns = index_columns(&create.columns, &names)?;
        let name = match &create.name {
            Some(name) => table_parts(name)?.1,
            None => {
                let list: Vec<&str> =
                    columns.iter().map(|c| names[usize::from(*c)].as_str()).collect();
                let wanted = format!("{}_{}_idx", table.name, list.join("_"));
                self.free_name(&table.schema, &wanted).await?
            }
        };
        let txn = self.transaction()?;
        if dict::object(&self.ctx, &txn, &table.schema, &name).await?.is_some() {
            if create.if_not_exists {
                self.notice(
                    Severity::Notice,
                    format!("relation \"{name}\" already exists, skipping"),
                );
                return Ok("CREATE INDEX".to_owned());
            }
            return Err(duplicate_table(&name));
        }
        let index =
            NewIndex { name, columns, unique: create.unique, primary: false, constraint: None };
        self.build_index(&table, index).await?;
        Ok("CREATE INDEX".to_owned())
    }

    async fn build_index(&mut self, table: &Arc<TableDef>, index: NewIndex) -> Result<()> {
        let txn = self.transaction()?;
        let (name, columns) = (index.name.clone(), index.columns.clone());
        dict::create_index(&self.ctx, &txn, table, index).await.map_err(|error| match error {
            kernel::Error::UniqueViolation { key, .. } => {
                // The table's definition does not have the index yet; its key is told by one that
                // does.
                let mut with = (**table).clone();
                with.indexes.push(Arc::new(kernel::dict::IndexDef {
                    obj: table.obj,
                    name: name.clone(),
                    table: table.obj,
                    columns,
                    unique: true,
                    primary: false,
                    constraint: None,
                    header: table.header,
                    root: table.header,
                    birth: table.birth,
                }));
                let error = kernel::Error::UniqueViolation { index: name.clone(), key };
                let shown = row_error(error, &with);
                let detail = shown
                    .detail
                    .as_deref()
                    .unwrap_or("")
                    .replace("already exists", "is duplicated");
                PgError::new("23505", format!("could not create unique index \"{name}\""))
                    .with_detail(detail)
                    .with_constraint(&name)
            }
            other => named(other, &name),
        })
    }

    /// The table of a name, or 42P01.
    pub(crate) async fn table_of(&mut self, name: &ObjectName) -> Result<Arc<TableDef>> {
        let (schema, table) = table_parts(name)?;
        match self.find_relation(schema.as_deref(), &table).await? {
            query::Relation::Table(def) if def.schema == dict::SYS => {
                Err(PgError::new("42501", format!("permission denied for table {table}")))
            }
            query::Relation::Table(def) => Ok(def),
            query::Relation::Rows(_) => {
                Err(PgError::new("42809", format!("\"{table}\" is not a table")))
            }
        }
    }

    pub(crate) async fn alter_table(&mut self, alter: &ast::AlterTable) -> Result<String> {
        let done = || Ok("ALTER TABLE".to_owned());
        if alter.location.is_some() || alter.on_cluster.is_some() || alter.table_type.is_some() {
            return refuse("this form of ALTER TABLE");
        }
        let (schema, name) = table_parts(&alter.name)?;
        if alter.if_exists && self.find_table(schema.as_deref(), &name).await?.is_none() {
            self.notice(Severity::Notice, format!("relation \"{name}\" does not exist, skipping"));
            return done();
        }
        for operation in &alter.operations {
            // Each sees what the one before has done.
            let table = self.table_of(&alter.name).await?;
            self.alter_one(&table, operation).await?;
        }
        done()
    }

    async fn alter_one(
        &mut self,
        table: &Arc<TableDef>,
        operation: &AlterTableOperation,
    ) -> Result<()> {
        let txn = self.transaction()?;
        let names: Vec<String> = table.columns.iter().map(|c| c.name.clone()).collect();
        match operation {
            AlterTableOperation::AddConstraint { constraint, not_valid: false } => {
                let index = constraint_index(constraint, &table.name, &names)?;
                if index.primary && table.primary_key().is_some() {
                    return Err(several_primary_keys(&table.name));
                }
                let name = index.name.clone();
                if dict::object(&self.ctx, &txn, &table.schema, &name).await?.is_some() {
                    return Err(duplicate_table(&name));
                }
                self.build_index(table, index).await
            }
            AlterTableOperation::AddColumn {
                if_not_exists,
                column_def,
                column_position: None,
                ..
            } => {
                let name = ident_name(&column_def.name);
                if names.contains(&name) {
                    if *if_not_exists {
                        let text = format!(
                            "column \"{name}\" of relation \"{}\" already exists, skipping",
                            table.name
                        );
                        self.notice(Severity::Notice, text);
                        return Ok(());
                    }
                    return Err(PgError::new(
                        "42701",
                        format!("column \"{name}\" of relation \"{}\" already exists", table.name),
                    ));
                }
                let mut indexes = Vec::new();
                let column = declare_column(column_def, &table.name, &mut indexes, names.len())?;
                if !indexes.is_empty() || column.sequence.is_some() {
                    return refuse("ADD COLUMN with a constraint or a sequence");
                }
                if column.def.default.is_some() || column.def.not_null {
                    return refuse("ADD COLUMN with DEFAULT or NOT NULL").map_err(|e: PgError| {
                        e.with_hint("Add the column, UPDATE it, then SET NOT NULL.")
                    });
                }
                Ok(dict::add_column(&self.ctx, &txn, table, column.def).await?)
            }
            AlterTableOperation::DropConstraint { if_exists, name, drop_behavior: _ } => {
                let name = ident_name(name);
                let known = table.indexes.iter().any(|i| i.constraint.as_deref() == Some(&*name));
                if !known && *if_exists {
                    let text = format!(
                        "constraint \"{name}\" of relation \"{}\" does not exist, skipping",
                        table.name
                    );
                    self.notice(Severity::Notice, text);
                    return Ok(());
                }
                if !known {
                    return Err(PgError::new(
                        "42704",
                        format!(
                            "constraint \"{name}\" of relation \"{}\" does not exist",
                            table.name
                        ),
                    ));
                }
                Ok(dict::drop_constraint(&self.ctx, &txn, table, &name).await?)
            }
            AlterTableOperation::AlterColumn { column_name, op } => {
                let at = direct::column_position(table, &ident_name(column_name))?;
                match op {
                    AlterColumnOperation::SetNotNull => {
                        self.check_no_nulls(table, at).await?;
                        Ok(dict::set_not_null(&self.ctx, &txn, table, at, true).await?)
                    }
                    AlterColumnOperation::DropNotNull => {
                        Ok(dict::set_not_null(&self.ctx, &txn, table, at, false).await?)
                    }
                    other => refuse(format!("ALTER COLUMN {other}")),
                }
            }
            AlterTableOperation::SetOptionsParens { options } => {
                options.iter().try_for_each(|option| self.table_option(option))
            }
            AlterTableOperation::OwnerTo { .. } => refuse("OWNER TO"),
            other => refuse(format!("ALTER TABLE {other}")),
        }
    }

    /// 23502 if a row has no value in the column.
    async fn check_no_nulls(&mut self, table: &Arc<TableDef>, column: usize) -> Result<()> {
        let txn = self.transaction()?;
        let (core, mode) = (txn.core(), kernel::txn::TmMode::X);
        let wait = kernel::table::LockWait::Wait;
        core.lock_table(&self.ctx, &txn, table.obj, mode, wait).await?;
        let snapshot = self.snapshot().await?;
        let mut scan = kernel::table::scan(&self.ctx, table, &snapshot).await?;
        let mut found = false;
        let types = table.types.clone();
        loop {
            let more = scan
                .next_block(&self.ctx, |_, row| {
                    found |= kernel::row::RowView::new(&types, row).is_null(column);
                })
                .await?;
            if found {
                return Err(PgError::new(
                    "23502",
                    format!(
                        "column \"{}\" of relation \"{}\" contains null values",
                        table.columns[column].name, table.name
                    ),
                ));
            }
            if !more {
                return Ok(());
            }
            self.ctx.check_interrupt()?;
        }
    }

    pub(crate) async fn drop_objects(
        &mut self,
        kind: &ObjectType,
        names: &[ObjectName],
        if_exists: bool,
        cascade: bool,
    ) -> Result<String> {
        for name in names {
            let (schema, object) = table_parts(name)?;
            let txn = self.transaction()?;
            let found = match kind {
                ObjectType::Table => match self.find_table(schema.as_deref(), &object).await? {
                    Some(table) if table.schema == dict::SYS => {
                        return Err(PgError::new(
                            "42501",
                            format!("permission denied for table {object}"),
                        ));
                    }
                    Some(table) => {
                        dict::drop_table(&self.ctx, &txn, &table).await?;
                        true
                    }
                    None => false,
                },
                ObjectType::Index => self.drop_index(schema.as_deref(), &object).await?,
                ObjectType::Sequence => {
                    match self.find_sequence(schema.as_deref(), &object).await? {
                        Some(sequence) => {
                            dict::drop_sequence(&self.ctx, &txn, &sequence).await?;
                            true
                        }
                        None => false,
                    }
                }
                ObjectType::Role | ObjectType::User => self.drop_user(&object).await?,
                other => return refuse(format!("DROP {other}")),
            };
            if found {
                continue;
            }
            let (what, code) = match kind {
                ObjectType::Table => ("table", "42P01"),
                ObjectType::Index => ("index", "42704"),
                ObjectType::Sequence => ("sequence", "42P01"),
                _ => ("role", "42704"),
            };
            if !if_exists {
                return Err(PgError::new(code, format!("{what} \"{object}\" does not exist")));
            }
            self.notice(Severity::Notice, format!("{what} \"{object}\" does not exist, skipping"));
        }
        // Nothing depends on an object but what goes with it.
        let _ = cascade;
        Ok(format!("DROP {}", kind.to_string().to_uppercase()))
    }

    async fn drop_index(&mut self, schema: Option<&str>, name: &str) -> Result<bool> {
        let txn = self.transaction()?;
        let path = match schema {
            Some(schema) => vec![schema.to_owned()],
            None => self.settings.search_path.clone(),
        };
        for schema in path {
            let found = dict::object(&self.ctx, &txn, &schema, name).await?;
            if !found.is_some_and(|o| o.kind == dict::ObjectKind::Index) {
                continue;
            }
            for table in dict::tables(&self.ctx, &txn).await? {
                let index = table.indexes.iter().find(|i| i.name == name && table.schema == schema);
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
            }
            dict::drop_index(&self.ctx, &txn, &schema, name).await?;
            return Ok(true);
        }
        Ok(false)
    }

    async fn drop_user(&mut self, name: &str) -> Result<bool> {
        let txn = self.transaction()?;
        if dict::user(&self.ctx, &txn, name).await?.is_none() {
            return Ok(false);
        }
        if name == self.user {
            return Err(PgError::new("55006", "current user cannot be dropped"));
        }
        dict::drop_user(&self.ctx, &txn, name).await?;
        Ok(true)
    }

    pub(crate) async fn truncate(&mut self, truncate: &ast::Truncate) -> Result<String> {
        if truncate.partitions.is_some() || truncate.on_cluster.is_some() {
            return refuse("this form of TRUNCATE");
        }
        if matches!(truncate.identity, Some(ast::TruncateIdentityOption::Restart)) {
            return refuse("RESTART IDENTITY");
        }
        let mut tables = Vec::new();
        for target in &truncate.table_names {
            tables.push(self.table_of(&target.name).await?);
        }
        let txn = self.transaction()?;
        for table in tables {
            dict::truncate_table(&self.ctx, &txn, &table).await?;
        }
        Ok("TRUNCATE TABLE".to_owned())
    }

    pub(crate) async fn create_sequence(&mut self, spec: &SequenceSpec) -> Result<String> {
        let (schema, name) = self.own_schema(spec.schema.clone(), spec.name.clone())?;
        let txn = self.transaction()?;
        if dict::object(&self.ctx, &txn, &schema, &name).await?.is_some() {
            if spec.if_not_exists {
                let text = format!("relation \"{name}\" already exists, skipping");
                self.notice(Severity::Notice, text);
                return Ok("CREATE SEQUENCE".to_owned());
            }
            return Err(duplicate_table(&name));
        }
        let ty = match spec.type_name.as_deref() {
            None | Some("bigint" | "int8") => None,
            Some("integer" | "int" | "int4") => Some(ColType::new(TypeKind::Int4)),
            Some("smallint" | "int2") => Some(ColType::new(TypeKind::Int2)),
            Some(_) => Some(ColType::new(TypeKind::Text)),
        };
        let new = sequence_def(&schema, &name, self.owner(), spec, ty)?;
        dict::create_sequence(&self.ctx, &txn, new).await.map_err(|e| named(e, &name))?;
        Ok("CREATE SEQUENCE".to_owned())
    }
}

fn named(error: kernel::Error, name: &str) -> PgError {
    match error {
        kernel::Error::DuplicateObject(_) => duplicate_table(name),
        other => other.into(),
    }
}

/// Refuses every clause of CREATE TABLE but those that mean something.
fn check_create_table(create: &ast::CreateTable) -> Result<()> {
    if create.temporary {
        return refuse("CREATE TEMPORARY TABLE");
    }
    if create.inherits.is_some() || create.partition_of.is_some() || create.partition_by.is_some() {
        return refuse("inheritance and partitions");
    }
    if create.query.is_some() {
        return refuse("CREATE TABLE AS");
    }
    if create.like.is_some() {
        return refuse("LIKE in CREATE TABLE");
    }
    let plain = ast::CreateTable {
        name: create.name.clone(),
        columns: create.columns.clone(),
        constraints: create.constraints.clone(),
        if_not_exists: create.if_not_exists,
        table_options: create.table_options.clone(),
        ..ast::helpers::stmt_create_table::CreateTableBuilder::new(create.name.clone()).build()
    };
    // hive_formats is filled in by the parser without being written.
    let plain = ast::CreateTable { hive_formats: create.hive_formats.clone(), ..plain };
    if *create != plain {
        return refuse("a clause of this CREATE TABLE");
    }
    Ok(())
}

fn table_options(options: &CreateTableOptions) -> Result<&[SqlOption]> {
    match options {
        CreateTableOptions::None => Ok(&[]),
        CreateTableOptions::With(options) => Ok(options),
        _ => refuse("this form of table options"),
    }
}

fn declare_column(
    column: &ast::ColumnDef,
    table: &str,
    indexes: &mut Vec<NewIndex>,
    position: usize,
) -> Result<Column> {
    let name = ident_name(&column.name);
    let (ty, mut sequence) = column_type(&column.data_type)?;
    let mut def = ColumnDef { name: name.clone(), ty, not_null: sequence.is_some(), default: None };
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
                indexes.push(constraint_of(name, vec![at], true));
            }
            ColumnOption::Unique(key) => {
                plain_characteristics(key.characteristics.as_ref())?;
                let name = constraint.unwrap_or_else(|| format!("{table}_{name}_key"));
                indexes.push(constraint_of(name, vec![at], false));
            }
            ColumnOption::Generated { generation_expr: None, sequence_options, .. } => {
                def.not_null = true;
                sequence = Some(sequence_options.clone().unwrap_or_default());
            }
            ColumnOption::Check(_) => return refuse("CHECK"),
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
fn column_type(sql: &DataType) -> Result<(ColType, Option<Vec<SequenceOptions>>)> {
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

fn constraint_of(name: String, columns: Vec<u16>, primary: bool) -> NewIndex {
    NewIndex { constraint: Some(name.clone()), name, columns, unique: true, primary }
}

fn plain_characteristics(characteristics: Option<&ast::ConstraintCharacteristics>) -> Result<()> {
    match characteristics {
        Some(c) if c.deferrable == Some(true) || c.enforced == Some(false) => {
            refuse("DEFERRABLE and NOT ENFORCED")
        }
        _ => Ok(()),
    }
}

fn constraint_index(
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

fn one_primary_key(indexes: &[NewIndex], table: &str) -> Result<()> {
    if indexes.iter().filter(|index| index.primary).count() > 1 {
        return Err(several_primary_keys(table));
    }
    Ok(())
}

fn several_primary_keys(table: &str) -> PgError {
    PgError::new("42P16", format!("multiple primary keys for table \"{table}\" are not allowed"))
}

fn index_columns(columns: &[ast::IndexColumn], names: &[String]) -> Result<Vec<u16>> {
    let mut out = Vec::with_capacity(columns.len());
    for column in columns {
        if column.operator_class.is_some() {
            return refuse("an operator class");
        }
        let options = &column.column.options;
        if options.asc == Some(false) || options.nulls_first == Some(true) {
            return refuse("a descending index").map_err(|e: PgError| {
                e.with_hint("An ascending index is read in both directions.")
            });
        }
        let Expr::Identifier(ident) = &column.column.expr else {
            return refuse("an index on an expression");
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
    Ok(out)
}

/// Refuses a default that could not be evaluated later.
fn check_default(table: &NewTable, column: usize) -> Result<()> {
    let def = &table.columns[column];
    let Some(text) = &def.default else { return Ok(()) };
    let expr = direct::parse_expr(text)?;
    let mut params = crate::bind::Params::new(Vec::new(), 0);
    let mut binder = crate::bind::scalar::ScalarBinder::constants(&mut params);
    match binder.bind_assignment(&expr, def.ty)? {
        Some(_) => Ok(()),
        None => refuse(format!("the default \"{text}\" of column \"{}\"", def.name)),
    }
}

fn sequence_number(expr: &Expr) -> Result<i64> {
    expr.to_string().replace(' ', "").parse().map_err(|_| PgError::syntax("an integer is expected"))
}

/// The options of an identity column.
fn identity_spec(options: &[SequenceOptions]) -> Result<SequenceSpec> {
    let mut spec = SequenceSpec::default();
    for option in options {
        match option {
            SequenceOptions::IncrementBy(expr, _) => spec.increment = Some(sequence_number(expr)?),
            SequenceOptions::MinValue(value) => {
                spec.min = Some(value.as_ref().map(sequence_number).transpose()?);
            }
            SequenceOptions::MaxValue(value) => {
                spec.max = Some(value.as_ref().map(sequence_number).transpose()?);
            }
            SequenceOptions::StartWith(expr, _) => spec.start = Some(sequence_number(expr)?),
            SequenceOptions::Cache(expr) => spec.cache = Some(sequence_number(expr)?),
            // The library's flag says NO CYCLE.
            SequenceOptions::Cycle(no) => spec.cycle = !no,
        }
    }
    Ok(spec)
}

fn sequence_def(
    schema: &str,
    name: &str,
    owner: block::ObjId,
    spec: &SequenceSpec,
    ty: Option<ColType>,
) -> Result<NewSequence> {
    let (low, high) = match ty.map(|ty| ty.kind) {
        Some(TypeKind::Int2) => (i64::from(i16::MIN), i64::from(i16::MAX)),
        Some(TypeKind::Int4) => (i64::from(i32::MIN), i64::from(i32::MAX)),
        Some(TypeKind::Int8) | None => (i64::MIN, i64::MAX),
        Some(_) => {
            return Err(PgError::new(
                "22023",
                "sequence type must be smallint, integer, or bigint",
            ));
        }
    };
    let (increment, cache) = (spec.increment.unwrap_or(1), spec.cache.unwrap_or(SEQUENCE_CACHE));
    let invalid = |text: String| Err(PgError::new("22023", text));
    if increment == 0 {
        return invalid("INCREMENT must not be zero".to_owned());
    }
    if cache < 1 {
        return invalid(format!("CACHE ({cache}) must be greater than zero"));
    }
    let up = increment > 0;
    let min = spec.min.flatten().unwrap_or(if up { 1 } else { low });
    let max = spec.max.flatten().unwrap_or(if up { high } else { -1 });
    if min >= max {
        return invalid(format!("MINVALUE ({min}) must be less than MAXVALUE ({max})"));
    }
    let start = spec.start.unwrap_or(if up { min } else { max });
    if start < min {
        return invalid(format!("START value ({start}) cannot be less than MINVALUE ({min})"));
    }
    if start > max {
        return invalid(format!("START value ({start}) cannot be greater than MAXVALUE ({max})"));
    }
    Ok(NewSequence {
        schema: schema.to_owned(),
        name: name.to_owned(),
        owner,
        start,
        increment,
        min,
        max,
        cache,
        cycle: spec.cycle,
        order: spec.order,
        table: None,
    })
}
