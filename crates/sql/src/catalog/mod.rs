//! Names of relations: tables of the dictionary, and the views `pg_catalog`, `information_schema`
//! and `v$`, whose rows are made when an execution begins.
//!
//! What it promises: OIDs are those of the dictionary, the same on every instance; a view's columns
//! come from live state. What it must never do: keep a view's rows in a plan that is kept.

mod columns;
mod comments;
mod constraints;
mod functions;
mod known;
mod objects;
mod peers;
mod pg;
mod rights;
mod rows;
mod schema;
mod sizes;
mod stored;
mod views;
mod views_read;

pub use peers::connect_instances;
pub(crate) use pg::sees_statements_of;
pub(crate) use views::{DATABASE, database_id, shown_text};

use crate::cursor::CursorRow;
use crate::ddl::is_temporary;
use crate::sequence::split_name;
use crate::session::Session;
use crate::{PgError, Result};
use block::ObjId;
use kernel::dict::{
    self, ColumnDef, CommentDef, Generated, Privileges, Roles, Routines, Schemas, SequenceDef,
    TableDef, TableStats, TypeDef, Types, UserDef,
};
use kernel::gcs::CallKind;
use kernel::instance::Instance;
use kernel::row::Value;
use observe::WaitEvent;
use parking_lot::Mutex;
use query::Relation;
use query::functions::quote_ident;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

pub(crate) use comments::DATABASE_OID;
pub(crate) use functions::{SetByRows, relation_oid};
pub(crate) use pg::{KEYWORDS, empty_column, is_empty_view, system_name};
pub(crate) use rows::{Rows, Shape};
pub(crate) use sizes::asks_for_size;
pub(crate) use stored::is_system_function;

/// Number of an instance, and the rows of a view there.
pub type PeerRows = (u8, Vec<Vec<u8>>);

/// Asks the other open instances for the rows of a `v$` view.
pub trait ViewPeers: Send + Sync {
    /// For each other open instance its number and rows, each in the form of [`local_view_rows`].
    fn ask<'a>(
        &'a self,
        ctx: &'a observe::Ctx,
        view: &'a str,
    ) -> env::BoxFuture<'a, Result<Vec<PeerRows>>>;
}

/// How one instance of this process reaches the others.
type Reach = (Weak<Instance>, Arc<dyn ViewPeers>);

static PEERS: Mutex<Vec<Reach>> = Mutex::new(Vec::new());

/// Tells how `gv$` views of `instance` reach the other instances.
pub fn set_view_peers(instance: &Arc<Instance>, peers: Arc<dyn ViewPeers>) {
    let mut all = PEERS.lock();
    all.retain(|(known, _)| known.strong_count() > 0);
    all.push((Arc::downgrade(instance), peers));
}

fn peers_of(instance: &Arc<Instance>) -> Option<Arc<dyn ViewPeers>> {
    let all = PEERS.lock();
    let same = |known: &Weak<Instance>| std::ptr::eq(known.as_ptr(), Arc::as_ptr(instance));
    all.iter().rev().find(|(known, _)| same(known)).map(|(_, peers)| peers.clone())
}

/// The rows of this instance's `v$` view, encoded, for an instance that asks; `None` for an unknown
/// view.
pub async fn local_view_rows(instance: &Arc<Instance>, view: &str) -> Option<Vec<Vec<u8>>> {
    views::local(instance, view).await.map(|rows| rows.encode())
}

/// Everything in the dictionary, as one statement sees it.
pub(crate) struct Catalog {
    pub(crate) tables: Vec<Arc<TableDef>>,
    pub(crate) views: Vec<Arc<TableDef>>,
    pub(crate) schemas: Arc<Schemas>,
    pub(crate) sequences: Vec<Arc<SequenceDef>>,
    pub(crate) types: Arc<Types>,
    pub(crate) routines: Arc<Routines>,
    /// Comments that are in no definition.
    pub(crate) comments: Vec<CommentDef>,
    pub(crate) users: Vec<Arc<UserDef>>,
    pub(crate) roles: Arc<Roles>,
    /// What is known of tables; of their columns only where a view shows it.
    pub(crate) statistics: BTreeMap<ObjId, Arc<TableStats>>,
    /// The current role.
    pub(crate) role: ObjId,
    pub(crate) settings: Vec<(String, String, String)>,
    pub(crate) cursors: Vec<CursorRow>,
    /// What PREPARE has named: name, text, and types of the parameters.
    pub(crate) prepared: Vec<(String, String, Vec<u32>)>,
    /// The last values of sequences that may be seen, only where a view shows them.
    pub(crate) last_values: BTreeMap<ObjId, i64>,
    /// Numbers under which the session and its transaction hold locks.
    pub(crate) lock_numbers: Vec<u64>,
    /// `gv$session`, only where a view shows it.
    pub(crate) sessions: Option<Rows>,
    pub(crate) pid: i32,
    pub(crate) path: Vec<String>,
}

/// OIDs of the schemas that are in no dictionary.
const SYSTEM_SCHEMAS: [(&str, i64); 3] =
    [("pg_catalog", 11), ("sys", 2201), ("information_schema", 2202)];

/// The OID of a session's schema of temporary objects: of its instance and session.
fn temp_oid(schema: &str) -> i64 {
    let numbers = schema.strip_prefix(dict::TEMP_PREFIX).and_then(|rest| rest.split_once('_'));
    let numbers = numbers.and_then(|(i, s)| Some((i.parse().ok()?, s.parse().ok()?)));
    let (instance, session): (i64, i64) = numbers.unwrap_or((0, 0));
    0x7000_0000 + instance * 0x0100_0000 + session % 0x0100_0000
}

/// The OID of a schema; 0: there is none of that name.
fn schema_oid(known: &Schemas, schema: &str) -> i64 {
    let system = SYSTEM_SCHEMAS.iter().find(|(name, _)| *name == schema).map(|(_, oid)| *oid);
    let own = || known.find(schema).map(|found| i64::from(found.obj.0));
    let temporary = || is_temporary(schema).then(|| temp_oid(schema));
    system.or_else(own).or_else(temporary).unwrap_or(0)
}

impl Catalog {
    /// The OID of a schema.
    pub(crate) fn schema_oid(&self, schema: &str) -> i64 {
        schema_oid(&self.schemas, schema)
    }

    /// All schemas: OID, name, number of the owner.
    pub(crate) fn all_schemas(&self) -> Vec<(i64, &str, u32)> {
        // The dictionary's own schema is not shown, as its tables are not.
        let system = SYSTEM_SCHEMAS.iter().filter(|(name, _)| *name != dict::SYS);
        let system = system.map(|(name, oid)| (*oid, *name, dict::SUPERUSER_OBJ.0));
        let own = self.schemas.all.iter();
        let own = own.map(|one| (i64::from(one.obj.0), one.name.as_str(), one.owner.0));
        let mut all: Vec<(i64, &str, u32)> = system.chain(own).collect();
        let relations = self.relations().map(|def| def.schema.as_str());
        for name in relations.chain(self.sequences.iter().map(|def| def.schema.as_str())) {
            if is_temporary(name) && all.iter().all(|(_, known, _)| *known != name) {
                all.push((temp_oid(name), name, dict::SUPERUSER_OBJ.0));
            }
        }
        all
    }

    /// The type that a user has made with this number.
    pub(crate) fn user_type(&self, oid: i64) -> Option<&TypeDef> {
        self.types.by_obj(block::ObjId(u32::try_from(oid).ok()?))
    }

    /// A type's name as it is written where it is used.
    pub(crate) fn shown_type(&self, ty: &TypeDef) -> String {
        let first = self.path.iter().find(|schema| self.types.find(schema, &ty.name).is_some());
        let name = quote_ident(&ty.name);
        match first.is_some_and(|first| *first == ty.schema) {
            true => name,
            false => format!("{}.{name}", quote_ident(&ty.schema)),
        }
    }

    /// The number of a type that a user has made.
    pub(crate) fn user_type_by_name(&self, name: &str) -> Option<i64> {
        let parts = split_name(name);
        let found = match &parts[..] {
            [name] => self.path.iter().find_map(|schema| self.types.find(schema, name)),
            [schema, name] => self.types.find(schema, name),
            _ => None,
        };
        found.map(|ty| i64::from(ty.obj.0))
    }

    /// Views, and materialized ones.
    pub(crate) fn with_queries(&self) -> impl Iterator<Item = &Arc<TableDef>> {
        let materialized = self.tables.iter().filter(|table| table.materialized.is_some());
        self.views.iter().chain(materialized)
    }

    /// Tables and views.
    pub(crate) fn relations(&self) -> impl Iterator<Item = &Arc<TableDef>> {
        self.tables.iter().chain(&self.views)
    }

    /// The column that a sequence belongs to, its position, and whether it is an identity column.
    pub(crate) fn column_of(&self, sequence: &SequenceDef) -> Option<(&TableDef, usize, bool)> {
        let owner = sequence.table?;
        let table = self.tables.iter().find(|table| table.obj == owner)?;
        let mut columns = table.columns.iter();
        let at = columns.position(|column| calls(column, sequence))?;
        let identity = Some(Generated::Always) == table.columns[at].generated
            || Some(Generated::ByDefault) == table.columns[at].generated;
        Some((table, at, identity))
    }

    /// OIDs of the relations that a view reads.
    pub(crate) fn used_by(&self, view: &TableDef) -> Vec<i64> {
        let mut all: Vec<i64> = Vec::new();
        for used in view.shows().into_iter().flat_map(|own| &own.uses) {
            let oid = i64::from(used.obj.0);
            if !all.contains(&oid) && self.relations().any(|def| def.obj == used.obj) {
                all.push(oid);
            }
        }
        all
    }

    /// Whether a relation is found by its name alone.
    pub(crate) fn is_visible(&self, schema: &str, name: &str) -> bool {
        let first = self.path.iter().find(|own| {
            let relation = |def: &&Arc<TableDef>| {
                def.schema == **own
                    && (def.name == name || def.all_indexes().any(|index| index.name == name))
            };
            let sequence = |def: &&Arc<SequenceDef>| def.schema == **own && def.name == name;
            self.relations().any(|def| relation(&def))
                || self.sequences.iter().any(|def| sequence(&def))
        });
        first.is_some_and(|first| first == schema)
    }
}

/// Whether a column takes its values from a sequence.
fn calls(column: &ColumnDef, sequence: &SequenceDef) -> bool {
    let name = column.default.as_deref().and_then(functions::sequence_of_default);
    match name.map(|name| split_name(&name.replace("''", "'"))).as_deref() {
        Some([schema, name]) => *schema == sequence.schema && *name == sequence.name,
        _ => false,
    }
}

/// The column of a table that takes its values from a sequence.
pub(crate) fn calls_sequence<'a>(
    table: &'a TableDef,
    sequence: &SequenceDef,
) -> Option<&'a ColumnDef> {
    table.columns.iter().find(|column| calls(column, sequence))
}

impl Session {
    async fn catalog(&mut self) -> Result<Catalog> {
        self.begin_if_needed();
        let txn = self.transaction()?;
        let mut settings: Vec<(String, String, String)> = self
            .settings
            .all()
            .into_iter()
            .map(|(name, value)| (name, value, String::new()))
            .collect();
        // A parameter that is also a setting of the session is shown as that.
        for row in self.instance.params.rows() {
            match settings.iter_mut().find(|(name, ..)| name == row.name) {
                Some((.., description)) => row.description.clone_into(description),
                None => {
                    settings.push((row.name.to_owned(), row.display_value, row.description.into()));
                }
            }
        }
        let cursors = self.cursor_rows();
        let prepared = self.named.iter().map(|(name, prepared)| {
            let text = format!("PREPARE {} AS {}", quote_ident(name), prepared.statement.text);
            (name.clone(), text, prepared.param_oids.clone())
        });
        let prepared = prepared.collect();
        Ok(Catalog {
            cursors,
            prepared,
            last_values: BTreeMap::new(),
            sessions: None,
            lock_numbers: self.user_locks.number().into_iter().chain([txn.local_id()]).collect(),
            pid: i32::try_from(self.ctx.session.sid()).unwrap_or(i32::MAX),
            tables: dict::tables(&self.ctx, &txn).await?,
            views: dict::views(&self.ctx, &txn).await?,
            schemas: dict::schemas(&self.ctx, &txn).await?,
            sequences: dict::sequences(&self.ctx, &txn).await?,
            types: dict::types(&self.ctx, &txn).await?,
            routines: dict::routines(&self.ctx, &txn).await?,
            comments: dict::comments(&self.ctx, &txn).await?,
            users: self.roles().await?.all.clone(),
            roles: self.roles().await?,
            statistics: BTreeMap::new(),
            role: self.identity.role,
            settings,
            path: self.schemas_for(None).await?,
        })
    }

    /// The catalog without the tables that it is kept in, which are not for clients to dump or
    /// change.
    async fn shown_catalog(&mut self) -> Result<Catalog> {
        let mut catalog = self.catalog().await?;
        catalog.tables.retain(|table| table.schema != dict::SYS);
        catalog.views.retain(|view| view.schema != dict::SYS);
        catalog.sequences.retain(|sequence| sequence.schema != dict::SYS);
        Ok(catalog)
    }

    /// The schemas that a name is looked for in: the one given, or those of the search path that
    /// there are.
    pub(crate) async fn schemas_for(&mut self, schema: Option<&str>) -> Result<Vec<String>> {
        if let Some(schema) = schema {
            let name = self.named_schema(schema)?;
            // What a view names was understood when it was made.
            if self.view_depth == 0 && self.identity.role != dict::SUPERUSER_OBJ {
                self.begin_if_needed();
                env::boxed!(self.check_schema(&name, Privileges::USAGE)).await?;
            }
            return Ok(vec![name]);
        }
        self.begin_if_needed();
        let txn = self.transaction()?;
        let known = dict::schemas(&self.ctx, &txn).await?;
        let roles = match self.identity.role == dict::SUPERUSER_OBJ || self.view_depth > 0 {
            true => None,
            false => Some(env::boxed!(self.roles()).await?),
        };
        // A schema that may not be used is passed over.
        let may = |schema: &dict::SchemaDef| {
            roles.as_ref().is_none_or(|roles| self.held_in(roles, schema).has(Privileges::USAGE))
        };
        let is_there = |name: &str| {
            known.find(name).is_some_and(may) || dict::RESERVED_SCHEMAS.contains(&name)
        };
        let mut path: Vec<String> = self.temporary.schema.iter().cloned().collect();
        for name in &self.settings.search_path {
            let name = if name == "$user" { &self.user } else { name };
            if is_there(name) && !path.contains(name) {
                path.push(name.clone());
            }
        }
        Ok(path)
    }

    /// The table or view of a name, or none.
    pub(crate) async fn find_table(
        &mut self,
        schema: Option<&str>,
        name: &str,
    ) -> Result<Option<Arc<TableDef>>> {
        self.begin_if_needed();
        let txn = self.transaction()?;
        for schema in self.schemas_for(schema).await? {
            if let Some(found) = dict::table(&self.ctx, &txn, &schema, name).await? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// What a name in a statement stands for, or 42P01.
    pub(crate) async fn find_relation(
        &mut self,
        schema: Option<&str>,
        name: &str,
    ) -> Result<Relation> {
        // Apart, so that sessions which never ask for them do not hold room for them.
        if let Some((rows, may_be_hidden)) = env::boxed!(self.system_rows(schema, name)).await? {
            return self.view_relation(schema, name, &rows, may_be_hidden);
        }
        let in_sys = schema.is_none_or(|s| s == "sys");
        if let Some(found) = self.find_table(schema, name).await? {
            return Ok(match found.view {
                Some(_) => Relation::View(found),
                None => Relation::Table(found),
            });
        }
        if in_sys
            && crate::workload::is_own_name(name)
            && let Some(found) = self.find_table(Some(crate::workload::SCHEMA), name).await?
        {
            return Ok(match found.view {
                Some(_) => Relation::View(found),
                None => Relation::Table(found),
            });
        }
        if let Some(sequence) = self.find_sequence(schema, name).await? {
            env::boxed!(self.check_sequence(&sequence, Privileges::SELECT)).await?;
            let mut rows = Rows::new(&[
                ("last_value", Shape::Int8),
                ("log_cnt", Shape::Int8),
                ("is_called", Shape::Bool),
            ]);
            let txn = self.transaction()?;
            let read = kernel::seq::last_value(&self.ctx, &txn, &sequence);
            let (last, called) = env::boxed!(read).await?;
            rows.push(vec![Value::Int8(last), Value::Int8(0), Value::Bool(called)]);
            return held_relation(name, &rows);
        }
        Err(match schema {
            Some(schema) => PgError::undefined_table(format!("{schema}.{name}")),
            None if crate::workload::is_history(name) => PgError::undefined_table(name).with_hint(
                "Views of the history are there from the first snapshot on, which `exec \
                 dbms_workload_repository.create_snapshot` takes; `skein report --help` tells more.",
            ),
            None => PgError::undefined_table(name),
        })
    }

    /// The rows of a view of the system's, and whether a table of its name would be meant instead
    /// if there were one; `None`: there is no such view, or there is such a table.
    async fn system_rows(
        &mut self,
        schema: Option<&str>,
        name: &str,
    ) -> Result<Option<(Rows, bool)>> {
        let in_sys = schema.is_none_or(|s| s == "sys");
        // All but these are names that users too may have given.
        let theirs = schema.is_none() && !name.starts_with("v$");
        let of_session = match in_sys.then(|| views::of_session(name)).flatten() {
            Some(_) if theirs && self.find_table(None, name).await?.is_some() => None,
            view => view,
        };
        if matches!(schema, Some("pg_catalog" | "information_schema"))
            || (schema.is_none() && name.starts_with("pg_"))
        {
            let rows = env::boxed!(self.catalog_view(schema, name)).await?;
            return Ok(rows.map(|rows| (rows, false)));
        }
        if let Some(view) = of_session {
            let rows = env::boxed!(self.dictionary_view(view)).await?;
            return Ok(Some((rows, theirs)));
        }
        if in_sys && (name.starts_with("v$") || name.starts_with("gv$")) {
            return Ok(self.instance_view(name).await?.map(|rows| (rows, false)));
        }
        if schema.is_none() && name == "dual" && self.find_table(None, name).await?.is_none() {
            let mut rows = Rows::new(&[("dummy", Shape::Text)]);
            rows.push(vec![Value::Text("X".into())]);
            return Ok(Some((rows, true)));
        }
        Ok(None)
    }

    async fn catalog_view(&mut self, schema: Option<&str>, name: &str) -> Result<Option<Rows>> {
        if schema == Some("information_schema") {
            if !schema::is_known(name) {
                return Ok(None);
            }
            let mut catalog = self.shown_catalog().await?;
            // The standard knows none.
            catalog.tables.retain(|table| table.materialized.is_none());
            return Ok(schema::view(&catalog, name));
        }
        if !pg::is_known(name) {
            return Ok(None);
        }
        if matches!(name, "pg_authid" | "pg_shadow" | "pg_hba_file_rules" | "pg_statistic")
            && !self.is_superuser().await?
        {
            let kind = if name == "pg_shadow" { "view" } else { "table" };
            return Err(crate::access::denied(kind, name));
        }
        let mut catalog = self.shown_catalog().await?;
        let txn = self.transaction()?;
        match name {
            "pg_class" | "pg_stat_all_tables" | "pg_stat_user_tables" => {
                let all = dict::all_statistics(&self.ctx, &txn).await?;
                catalog.statistics.extend(all.into_iter().map(|one| (one.obj, Arc::new(one))));
            }
            "pg_stats" | "pg_statistic" => {
                for table in &catalog.tables {
                    let known = dict::statistics(&self.ctx, &txn, table).await?;
                    catalog.statistics.extend(known.map(|known| (table.obj, known)));
                }
            }
            "pg_stat_activity" => {
                catalog.sessions = self.rows_of_all("v$session").await?;
            }
            "pg_sequences" => {
                for def in &catalog.sequences {
                    let owner = (dict::AclKind::Sequence, def.owner);
                    let held =
                        crate::access::held(&catalog.roles, catalog.role, owner, def.acl.as_ref());
                    if !held.has(Privileges::SELECT) && !held.has(Privileges::USAGE) {
                        continue;
                    }
                    match kernel::seq::last_value(&self.ctx, &txn, def).await {
                        Ok((last, true)) => {
                            catalog.last_values.insert(def.obj, last);
                        }
                        Ok((_, false)) | Err(kernel::Error::UndefinedObject(_)) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
            }
            _ => {}
        }
        Ok(pg::view(&catalog, name, &self.user, &self.instance))
    }

    async fn instance_view(&mut self, name: &str) -> Result<Option<Rows>> {
        if name.ends_with("v$audit_trail") && !self.is_superuser().await? {
            return Err(crate::access::denied("view", name));
        }
        if let Some(mut rows) = self.local_rows(name).await? {
            self.finish_rows(name, &mut rows).await?;
            return Ok(Some(rows));
        }
        let Some(local_name) = name.strip_prefix('g') else { return Ok(None) };
        let Some(mut all) = self.rows_of_all(local_name).await? else { return Ok(None) };
        self.finish_rows(local_name, &mut all).await?;
        Ok(Some(all))
    }

    /// The rows of this instance's view of a name.
    async fn local_rows(&mut self, name: &str) -> Result<Option<Rows>> {
        // Who blocks whom may be for another instance to say.
        let p = [0, 0, u64::from(CallKind::Waits.code())];
        let rows = env::boxed!(views::local(&self.instance, name));
        Ok(self.ctx.wait_or_cancel(WaitEvent::ReliableMessage, p, rows).await?)
    }

    /// The rows of all instances' views of a name.
    async fn rows_of_all(&mut self, local_name: &str) -> Result<Option<Rows>> {
        let Some(local) = self.local_rows(local_name).await? else { return Ok(None) };
        let mut all = local.with_instance(self.instance.me.0);
        if let Some(peers) = peers_of(&self.instance) {
            for (instance, rows) in peers.ask(&self.ctx, local_name).await? {
                for row in rows {
                    all.push_encoded(instance, &row)?;
                }
            }
        }
        Ok(Some(all))
    }

    /// What only the asking session knows of a view's rows.
    async fn finish_rows(&mut self, view: &str, rows: &mut Rows) -> Result<()> {
        match view {
            "v$segment_statistics" => env::boxed!(self.name_segments(rows)).await?,
            "v$session" => env::boxed!(self.name_schemas(["schemaname", "schema#"], rows)).await?,
            "v$sql" | "v$sqlarea" => {
                let columns = ["parsing_schema_name", "parsing_schema_id"];
                env::boxed!(self.name_schemas(columns, rows)).await?;
            }
            "v$sql_plan" | "v$sql_plan_statistics_all" => {
                env::boxed!(self.name_plan_objects(rows)).await?;
            }
            "v$transaction" => self.tell_start_times(rows),
            "v$diag_info" => self.tell_trace_file(rows),
            _ => {}
        }
        self.hide_texts(view, rows).await?;
        // As the lists of users have them, with which these are joined.
        for column in ["username", "oracle_username", "user_name"] {
            rows.show(column, views::shown_text);
        }
        Ok(())
    }

    /// What others run is not for everybody: it may hold what they know.
    async fn hide_texts(&mut self, view: &str, rows: &mut Rows) -> Result<()> {
        let (texts, of): (&[&str], &str) = match view {
            "v$session" => (&["sql_text"], "username"),
            "v$sql" | "v$sqlarea" | "v$sqlstats" => (&["sql_text", "sql_fulltext"], "parsing_user"),
            "v$sqltext" => (&["sql_text"], "parsing_user"),
            "v$open_cursor" => (&["sql_text"], "user_name"),
            "v$sql_plan" | "v$sql_plan_statistics_all" => {
                (&["access_predicates", "filter_predicates", "projection"], "parsing_user")
            }
            _ => return Ok(()),
        };
        if self.is_superuser().await? {
            return Ok(());
        }
        let (roles, role) = (self.roles().await?, self.identity.role);
        for text in texts {
            rows.hide(text, of, |user| pg::sees_statements_of(&roles, role, user));
        }
        Ok(())
    }

    /// Functions that look into the catalog, for one statement.
    pub(crate) async fn catalog_functions(
        &mut self,
    ) -> Result<Vec<Arc<datafusion::logical_expr::ScalarUDF>>> {
        let catalog = Arc::new(self.catalog().await?);
        let mut all = functions::all(&catalog);
        all.extend(objects::functions(&catalog));
        all.push(functions::set_config(&self.set_by_rows));
        Ok(all)
    }
}

/// Rows as a relation, for a plan that is made for one execution.
fn held_relation(name: &str, rows: &Rows) -> Result<Relation> {
    Ok(Relation::Rows(Arc::new(query::FixedTable::new(name, rows.batch()?))))
}
