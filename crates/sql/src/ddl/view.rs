//! CREATE, REPLACE and ALTER VIEW, and what becomes of a view's text when what it reads changes its
//! name.
//!
//! What it promises: the text is kept as it was understood; a view that is replaced keeps its
//! columns. What it must never do: leave a view whose text cannot be planned.

use super::temporary::is_temporary;
use super::{named, refuse};
use crate::bind::ident_name;
use crate::parse::{AlterRelation, LOGGED, Parsed, RelationAction, Statement, parse_single};
use crate::session::Session;
use crate::view::{Change, Found, Known, fix, name_output, relation_names};
use crate::{PgError, Result, Severity};
use block::ObjId;
use datafusion::sql::sqlparser::ast::{self, Query, Statement as Ast};
use kernel::dict::{self, CheckOption, ColumnDef, NewView, TableDef, Use, ViewDef};
use query::functions::format_type;
use query::types::PgType;
use query::{PgColumn, Relation};
use std::sync::Arc;

/// The query of a view's text.
pub(crate) fn query_of(view: &ViewDef) -> Result<Query> {
    if let Parsed::Sql(ast) = parse_single(&view.text)?.parsed
        && let Ast::Query(query) = *ast
    {
        return Ok(*query);
    }
    Err(PgError::internal("a view without a query"))
}

fn statement_of(query: &Query) -> Statement {
    Statement {
        text: Arc::from(query.to_string()),
        parsed: Parsed::Sql(Box::new(Ast::Query(Box::new(query.clone())))),
        ..Statement::empty()
    }
}

fn column_of(name: &str, column: &PgColumn) -> Result<ColumnDef> {
    let Some(mut ty) = column.col_type() else {
        return refuse(format!("a column of the type of \"{name}\" in a view"));
    };
    // An array's modifier is the type of its elements.
    if ty.element().is_none() {
        ty.modifier = column.typmod;
    }
    Ok(ColumnDef::new(name, ty))
}

impl Session {
    /// What the names in a query stand for; those that stand for nothing are left out.
    async fn known_names(&mut self, query: &Query) -> Result<Known> {
        let mut known = Known::new();
        for (schema, name) in relation_names(query) {
            let found = match self.find_relation(schema.as_deref(), &name).await {
                Ok(Relation::Table(def) | Relation::View(def)) => found(&def),
                Ok(Relation::Rows(rows)) => {
                    if self.find_sequence(schema.as_deref(), &name).await?.is_some() {
                        return refuse("a sequence in FROM of a view");
                    }
                    let own = match &schema {
                        Some(schema) => schema.clone(),
                        None if name.starts_with("pg_") => "pg_catalog".to_owned(),
                        None => dict::SYS.to_owned(),
                    };
                    let schema_of_rows = rows.schema();
                    let fields = schema_of_rows.fields().iter();
                    let columns = fields.map(|field| field.name().clone()).collect();
                    Found { schema: own, name: name.clone(), obj: None, columns }
                }
                // A common table expression, or the statement's own error.
                Err(_) => continue,
            };
            known.insert((schema, name), found);
        }
        Ok(known)
    }

    /// A query with its names of types noted, and those of routines with their schemas; and what
    /// of both it names.
    async fn with_types(&mut self, query: &Query) -> Result<(Query, Vec<Use>)> {
        let mut ast = Ast::Query(Box::new(query.clone()));
        self.settle_types(&mut ast).await?;
        let mut named = self.qualify_routines(&mut ast).await?;
        let Ast::Query(query) = ast else {
            return Err(PgError::internal("a query that is none"));
        };
        named.extend(crate::named_types::named_types(&query));
        let uses = named.into_iter().map(|obj| Use { obj, column: String::new() });
        Ok((*query, uses.collect()))
    }

    /// A view's text and columns, from its query and the names given to its columns.
    pub(super) async fn define_view(
        &mut self,
        query: &Query,
        names: &[String],
    ) -> Result<(ViewDef, Vec<ColumnDef>)> {
        if !query.locks.is_empty() {
            return refuse("FOR UPDATE in a view");
        }
        // What is kept has the form that all else knows.
        let (own, _) = self.idioms_of(&Ast::Query(Box::new(query.clone())), false).await?;
        let query = match &own {
            Some(Ast::Query(own)) => own,
            _ => query,
        };
        crate::with::check_run_once(query)?;
        // As it was written: its errors are the statement's.
        env::boxed!(self.make_plan(&statement_of(query), &[])).await?;
        let (mut query, named) = self.with_types(query).await?;
        let known = self.known_names(&query).await?;
        let mut uses = fix(&mut query, &known, None)?;
        uses.extend(named);
        uses.sort();
        let plan = env::boxed!(self.make_plan(&statement_of(&query), &[])).await?;
        let own: Vec<String> = plan.columns.iter().map(|column| column.name.clone()).collect();
        if names.len() > own.len() {
            let text = "CREATE VIEW specifies more column names than columns";
            return Err(PgError::syntax(text));
        }
        let mut all = names.to_vec();
        all.extend(own[names.len()..].iter().cloned());
        for (i, name) in all.iter().enumerate() {
            if all[..i].contains(name) {
                let text = format!("column \"{name}\" specified more than once");
                return Err(PgError::new("42701", text));
            }
        }
        name_output(&mut query, &all, &own)?;
        let columns = all.iter().zip(&plan.columns).map(|(name, column)| column_of(name, column));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        Ok((ViewDef { text: query.to_string(), uses, check: None }, columns))
    }

    pub(super) async fn create_view(&mut self, create: &ast::CreateView) -> Result<String> {
        crate::idioms::past::refuse_in_view(&create.query)?;
        if create.materialized {
            return env::boxed!(self.create_materialized(create)).await;
        }
        check_create_view(create)?;
        let check = check_option(&create.options)?;
        let done = || Ok("CREATE VIEW".to_owned());
        let (mut schema, name) = match create.temporary {
            true => self.new_temp_name(&create.name).await?,
            false => self.new_name(&create.name).await?,
        };
        let names: Vec<String> = create.columns.iter().map(|c| ident_name(&c.name)).collect();
        let txn = self.transaction()?;
        // What its owner may read is asked when it is read.
        let caller = self.check_as.replace(dict::SUPERUSER_OBJ);
        let defined = self.define_view(&create.query, &names).await;
        self.check_as = caller;
        let (mut view, columns) = defined?;
        view.check = check;
        if check.is_some() {
            self.check_checkable(&view).await?;
        }
        if !is_temporary(&schema) && self.reads_temporary(&view.uses).await? {
            let text = format!("view \"{name}\" will be a temporary view");
            self.notice(Severity::Notice, text);
            schema = self.temp_schema().await?;
        }
        let old = dict::table(&self.ctx, &txn, &schema, &name).await?;
        if !create.or_replace || old.is_none() {
            self.is_made(&schema, &name, false).await?;
            let owner = self.owner();
            let new = NewView { schema, name: name.clone(), owner, columns, view };
            let made = dict::create_view(&self.ctx, &txn, new).await;
            let made = made.map_err(|e| named(e, &name))?;
            let kind = dict::AclKind::Relation;
            self.give_default_rights(kind, &made.schema, made.obj).await?;
            return done();
        }
        let Some(old) = old else { return done() };
        if old.view.is_none() {
            return Err(PgError::new("42809", format!("\"{name}\" is not a view")));
        }
        self.check_owner("view", &name, old.owner).await?;
        let old = dict::lock_definition(&self.ctx, &txn, &old).await?;
        // It may have got another owner while this waited.
        self.check_owner("view", &name, old.owner).await?;
        check_replacement(&old.columns, &columns)?;
        self.check_not_own(&old, &view.uses).await?;
        // What was said of a column stays with it.
        let mut columns = columns;
        for (new, old) in columns.iter_mut().zip(&old.columns) {
            new.comment.clone_from(&old.comment);
            new.default.clone_from(&old.default);
        }
        dict::replace_view(&self.ctx, &txn, &old, &columns, &view).await?;
        done()
    }

    /// 0A000 unless rows can be changed through the view, so that its check option means something.
    async fn check_checkable(&mut self, view: &ViewDef) -> Result<()> {
        let mut open = view.clone();
        loop {
            let query = query_of(&open)?;
            let mut why = super::updatable::why_not_written(&query);
            let mut below = None;
            for (schema, name) in relation_names(&query) {
                match self.find_relation(schema.as_deref(), &name).await {
                    Ok(Relation::View(def)) => below = def.view.clone(),
                    Ok(Relation::Rows(_)) => {
                        let text = "Views that do not select from a single table or view are not \
                                    automatically updatable.";
                        why = why.or(Some(text));
                    }
                    _ => {}
                }
            }
            if let Some(why) = why {
                let text = "WITH CHECK OPTION is supported only on automatically updatable views";
                return Err(PgError::new("0A000", text).with_hint(why));
            }
            match below {
                Some(next) => open = next,
                None => return Ok(()),
            }
        }
    }

    /// Whether something that a view reads is temporary.
    pub(super) async fn reads_temporary(&mut self, uses: &[Use]) -> Result<bool> {
        let txn = self.transaction()?;
        for one in uses.iter().filter(|one| one.column.is_empty()) {
            let def = dict::table_by_obj(&self.ctx, &txn, one.obj).await?;
            if def.is_some_and(|def| is_temporary(&def.schema)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Refuses a view that would read itself.
    async fn check_not_own(&mut self, view: &TableDef, uses: &[Use]) -> Result<()> {
        let txn = self.transaction()?;
        let mut open: Vec<ObjId> = uses.iter().map(|one| one.obj).collect();
        let mut seen = Vec::new();
        while let Some(obj) = open.pop() {
            if obj == view.obj {
                let name = &view.name;
                let text = format!("infinite recursion detected in rules for relation \"{name}\"");
                return Err(PgError::new("42P17", text));
            }
            if seen.contains(&obj) {
                continue;
            }
            seen.push(obj);
            if let Some(def) = dict::table_by_obj(&self.ctx, &txn, obj).await?
                && let Some(own) = def.shows()
            {
                open.extend(own.uses.iter().map(|one| one.obj));
            }
        }
        Ok(())
    }

    /// ALTER .. SET SCHEMA, ALTER VIEW .. RENAME, and what [`Session::alter_other`] does.
    pub(crate) async fn alter_relation(&mut self, alter: &AlterRelation) -> Result<String> {
        let AlterRelation { kind, if_exists, schema, name, action } = alter;
        let done = Ok(format!("ALTER {kind}"));
        if let "INDEX" | "SEQUENCE" = *kind {
            return env::boxed!(self.alter_other(alter)).await;
        }
        if let ("SCHEMA", RelationAction::Rename(to)) = (*kind, action) {
            self.begin_if_needed();
            return env::boxed!(self.rename_schema(name, to)).await;
        }
        if let ("TYPE", RelationAction::SetSchema(to)) = (*kind, action) {
            return env::boxed!(self.set_type_schema(schema.as_deref(), name, to)).await;
        }
        let Some(def) = self.find_table(schema.as_deref(), name).await? else {
            let shown = match schema {
                Some(schema) => format!("{schema}.{name}"),
                None => name.clone(),
            };
            let missing = PgError::undefined_table(shown);
            if *if_exists {
                let text = format!("relation \"{name}\" does not exist, skipping");
                self.notice(Severity::Notice, text);
                return done;
            }
            return Err(missing);
        };
        if *kind == "MATERIALIZED VIEW" && def.materialized.is_none() {
            let text = format!("\"{name}\" is not a materialized view");
            return Err(PgError::new("42809", text));
        }
        if *kind == "VIEW" && def.view.is_none() {
            return Err(PgError::new("42809", format!("\"{name}\" is not a view")));
        }
        self.check_owner(super::depend::kind_of(&def), name, def.owner).await?;
        let txn = self.transaction()?;
        let def = dict::lock_definition(&self.ctx, &txn, &def).await?;
        self.check_owner(super::depend::kind_of(&def), name, def.owner).await?;
        match action {
            RelationAction::Rename(new) => self.rename_relation(&def, new.clone()).await?,
            RelationAction::Column { name, change } => {
                if def.view.is_some() {
                    let text = format!("\"{}\" is not a table", def.name);
                    return Err(PgError::new("42809", text));
                }
                self.change_generated(&def, name, change).await?;
            }
            RelationAction::SetSchema(schema) => self.set_schema(&def, schema).await?,
            RelationAction::RenameColumn { old, new } if def.materialized.is_some() => {
                self.rename_materialized_column(&def, old, new).await?;
            }
            RelationAction::RenameColumn { old, new } => {
                self.rename_view_column(&def, old, new).await?;
            }
            RelationAction::SetLogged(true)
            | RelationAction::OwnedBy(_)
            | RelationAction::Stored(_)
            | RelationAction::Options(_) => {}
            RelationAction::SetLogged(false) => self.notice(Severity::Notice, LOGGED),
            RelationAction::Rebuild(_) => self.move_table(&def).await?,
        }
        done
    }

    async fn rename_view_column(
        &mut self,
        view: &Arc<TableDef>,
        old: &str,
        new: &str,
    ) -> Result<()> {
        let missing = || PgError::new("42703", format!("column \"{old}\" does not exist"));
        let at = view.column(old).ok_or_else(missing)?;
        if view.column(new).is_some() {
            let text = format!("column \"{new}\" of relation \"{}\" already exists", view.name);
            return Err(PgError::new("42701", text));
        }
        let own = view.view.as_ref().ok_or_else(|| PgError::internal("a view without a text"))?;
        let mut query = query_of(own)?;
        let before: Vec<String> = view.columns.iter().map(|c| c.name.clone()).collect();
        let mut columns = view.columns.clone();
        new.clone_into(&mut columns[at].name);
        let after: Vec<String> = columns.iter().map(|c| c.name.clone()).collect();
        name_output(&mut query, &after, &before)?;
        let text = ViewDef { text: query.to_string(), uses: own.uses.clone(), check: own.check };
        let txn = self.transaction()?;
        dict::replace_view(&self.ctx, &txn, view, &columns, &text).await?;
        let change = Change::Column { obj: view.obj, old: old.to_owned(), new: new.to_owned() };
        self.rewrite_views(view, &change).await
    }

    /// Writes the texts of the views that read a relation anew, after it has changed; `before` is
    /// what the texts still know.
    pub(super) async fn rewrite_views(&mut self, before: &TableDef, change: &Change) -> Result<()> {
        let txn = self.transaction()?;
        let mut objects: Vec<ObjId> = Vec::new();
        for (obj, name) in dict::dependents(&self.ctx, &txn, before.obj).await? {
            let counts = match change {
                Change::Object { .. } => true,
                Change::Column { old, .. } => name == *old,
            };
            if counts && !objects.contains(&obj) {
                objects.push(obj);
            }
        }
        for obj in objects {
            let Some(view) = dict::table_by_obj(&self.ctx, &txn, obj).await? else { continue };
            let Some(own) = view.shows() else { continue };
            let (mut query, named) = self.with_types(&query_of(own)?).await?;
            let mut known = self.known_names(&query).await?;
            known.insert((Some(before.schema.clone()), before.name.clone()), found(before));
            let mut uses = fix(&mut query, &known, Some(change.clone()))?;
            uses.extend(named);
            uses.sort();
            let new = ViewDef { text: query.to_string(), uses, check: own.check };
            self.set_text(&view, &new).await?;
        }
        Ok(())
    }
}

fn found(def: &TableDef) -> Found {
    Found {
        schema: def.schema.clone(),
        name: def.name.clone(),
        obj: Some(def.obj),
        columns: def.columns.iter().map(|column| column.name.clone()).collect(),
    }
}

/// Refuses every clause of CREATE VIEW but those that mean something.
fn check_create_view(create: &ast::CreateView) -> Result<()> {
    if create.or_alter
        || create.secure
        || create.if_not_exists
        || !create.cluster_by.is_empty()
        || create.comment.is_some()
        || create.with_no_schema_binding
        || create.copy_grants
        || create.to.is_some()
        || create.params.is_some()
        || create.columns.iter().any(|c| c.data_type.is_some() || c.options.is_some())
    {
        return refuse("a clause of this CREATE VIEW");
    }
    Ok(())
}

/// What WITH says of a view.
fn check_option(options: &ast::CreateTableOptions) -> Result<Option<CheckOption>> {
    let options = match options {
        ast::CreateTableOptions::None => return Ok(None),
        ast::CreateTableOptions::With(options) => options,
        _ => return refuse("a clause of this CREATE VIEW"),
    };
    let mut found = None;
    for option in options {
        let ast::SqlOption::KeyValue { key, value } = option else {
            return refuse("an option of a view");
        };
        let name = ident_name(key);
        if name != "check_option" {
            return match name.as_str() {
                "security_barrier" | "security_invoker" => refuse(format!("view option {name}")),
                _ => Err(PgError::new("22023", format!("unrecognized parameter \"{name}\""))),
            };
        }
        let value = match value {
            ast::Expr::Value(value) => match &value.value {
                ast::Value::SingleQuotedString(text) => text.clone(),
                other => other.to_string(),
            },
            ast::Expr::Identifier(ident) => ident_name(ident),
            other => other.to_string(),
        };
        found = Some(match value.as_str() {
            "local" => CheckOption::Local,
            "cascaded" => CheckOption::Cascaded,
            _ => {
                let text = format!("invalid value for enum option \"check_option\": {value}");
                let detail = "Valid values are \"local\" and \"cascaded\".";
                return Err(PgError::new("22023", text).with_detail(detail));
            }
        });
    }
    Ok(found)
}

/// A view's columns stay; others may follow.
fn check_replacement(old: &[ColumnDef], new: &[ColumnDef]) -> Result<()> {
    let invalid = |text: String| Err(PgError::new("42P16", text));
    if new.len() < old.len() {
        return invalid("cannot drop columns from view".to_owned());
    }
    for (old, new) in old.iter().zip(new) {
        if old.name != new.name {
            let error = PgError::new(
                "42P16",
                format!("cannot change name of view column \"{}\" to \"{}\"", old.name, new.name),
            );
            let hint =
                "Use ALTER VIEW ... RENAME COLUMN ... to change name of view column instead.";
            return Err(error.with_hint(hint));
        }
        if old.ty != new.ty {
            let shown = |def: &ColumnDef| match def.ty.enum_type() {
                Some(own) => own.name.clone(),
                None => format_type(i64::from(PgType::of(def.ty).oid), i64::from(def.ty.modifier)),
            };
            return invalid(format!(
                "cannot change data type of view column \"{}\" from {} to {}",
                old.name,
                shown(old),
                shown(new)
            ));
        }
    }
    Ok(())
}
