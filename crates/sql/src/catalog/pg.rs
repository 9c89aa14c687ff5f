//! `pg_catalog`, as far as psql and drivers ask.
//!
//! A constraint has the OID of the index behind it. Views that have no rows here exist so that
//! clients' joins work.

use super::rows::{Rows, Shape, int, opt_text, text};
use super::{Catalog, schema_oid, types};
use kernel::dict::{IndexDef, TableDef};
use kernel::instance::Instance;
use kernel::row::Value;
use query::types::{PgType, oid};
use std::sync::Arc;

use Shape::{Bool, Char, Float8, Int2, Int4, Int8, Name, NoList, Oid, Other, Text, Timestamptz};

/// Owner of everything.
const OWNER: i64 = 10;
/// Views of `pg_catalog` with PostgreSQL's OIDs where it has them.
const VIEWS: &[(&str, i64)] = &[
    ("pg_class", 1259),
    ("pg_attribute", 1249),
    ("pg_type", 1247),
    ("pg_namespace", 2615),
    ("pg_index", 2610),
    ("pg_constraint", 2606),
    ("pg_attrdef", 2604),
    ("pg_database", 1262),
    ("pg_roles", 12_000),
    ("pg_user", 12_001),
    ("pg_authid", 1260),
    ("pg_settings", 12_002),
    ("pg_sequence", 2224),
    ("pg_sequences", 12_003),
    ("pg_tables", 12_004),
    ("pg_indexes", 12_005),
    ("pg_views", 12_006),
    ("pg_matviews", 12_007),
    ("pg_am", 2601),
    ("pg_proc", 1255),
    ("pg_description", 2609),
    ("pg_shdescription", 2396),
    ("pg_collation", 3456),
    ("pg_inherits", 2611),
    ("pg_policy", 3256),
    ("pg_trigger", 2620),
    ("pg_rewrite", 2618),
    ("pg_depend", 2608),
    ("pg_enum", 3501),
    ("pg_range", 3541),
    ("pg_extension", 3079),
    ("pg_tablespace", 1213),
    ("pg_publication", 6104),
    ("pg_publication_rel", 6106),
    ("pg_publication_namespace", 6237),
    ("pg_statistic_ext", 3381),
    ("pg_foreign_table", 3118),
    ("pg_foreign_server", 1417),
    ("pg_partitioned_table", 3350),
    ("pg_stat_activity", 12_008),
    ("pg_opclass", 2616),
    ("pg_language", 2612),
    ("pg_db_role_setting", 2964),
    ("pg_auth_members", 1261),
];

/// Whether there is a view of this name.
pub(super) fn is_known(name: &str) -> bool {
    VIEWS.iter().any(|(known, _)| *known == name)
}

/// Whether it is one that never has rows here.
pub(crate) fn is_empty_view(name: &str) -> bool {
    is_known(name) && empty(name).is_some()
}

pub(super) fn system_oid(name: &str) -> Option<i64> {
    VIEWS.iter().find(|(known, _)| *known == name).map(|(_, oid)| *oid)
}

pub(super) fn system_name(oid: i64) -> Option<&'static str> {
    VIEWS.iter().find(|(_, known)| *known == oid).map(|(name, _)| *name)
}

/// The view's rows.
pub(super) fn view(
    catalog: &Catalog,
    name: &str,
    user: &str,
    instance: &Arc<Instance>,
) -> Option<Rows> {
    Some(match name {
        "pg_class" => classes(catalog),
        "pg_attribute" => attributes(catalog),
        "pg_type" => type_rows(),
        "pg_namespace" => namespaces(),
        "pg_index" => indexes(catalog),
        "pg_constraint" => constraints(catalog),
        "pg_attrdef" => defaults(catalog),
        "pg_database" => databases(),
        "pg_roles" | "pg_authid" => roles(catalog),
        "pg_user" => users(catalog),
        "pg_settings" => settings(catalog),
        "pg_sequence" => sequence_rows(catalog),
        "pg_sequences" => sequences(catalog),
        "pg_tables" => tables(catalog),
        "pg_indexes" => index_list(catalog),
        "pg_am" => access_methods(),
        "pg_tablespace" => tablespaces(),
        "pg_collation" => collations(),
        "pg_stat_activity" => activity(instance, user),
        other => empty(other)?,
    })
}

fn oid_of(obj: block::ObjId) -> Value {
    int(obj.0)
}

fn classes(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("oid", Oid),
        ("relname", Name),
        ("relnamespace", Oid),
        ("reltype", Oid),
        ("reloftype", Oid),
        ("relowner", Oid),
        ("relam", Oid),
        ("relfilenode", Oid),
        ("reltablespace", Oid),
        ("relpages", Int4),
        ("reltuples", Float8),
        ("reltoastrelid", Oid),
        ("relhasindex", Bool),
        ("relisshared", Bool),
        ("relpersistence", Char),
        ("relkind", Char),
        ("relnatts", Int2),
        ("relchecks", Int2),
        ("relhasrules", Bool),
        ("relhastriggers", Bool),
        ("relhassubclass", Bool),
        ("relrowsecurity", Bool),
        ("relforcerowsecurity", Bool),
        ("relispopulated", Bool),
        ("relreplident", Char),
        ("relispartition", Bool),
        ("relacl", NoList),
        ("reloptions", NoList),
        ("relpartbound", Other(oid::PG_NODE_TREE)),
    ]);
    let mut add =
        |obj: Value, name: &str, schema: &str, kind: &str, columns: usize, indexed: bool| {
            let am = match kind {
                "r" => 2,
                "i" => 403,
                _ => 0,
            };
            rows.push(vec![
                obj.clone(),
                text(name),
                int(schema_oid(schema)),
                int(0),
                int(0),
                int(OWNER),
                int(am),
                obj,
                int(0),
                Value::Int4(0),
                Value::Float8(-1.0),
                int(0),
                Value::Bool(indexed),
                Value::Bool(false),
                text("p"),
                text(kind),
                Value::Int2(i16::try_from(columns).unwrap_or(i16::MAX)),
                Value::Int2(0),
                Value::Bool(false),
                Value::Bool(false),
                Value::Bool(false),
                Value::Bool(false),
                Value::Bool(false),
                Value::Bool(true),
                text("d"),
                Value::Bool(false),
                Value::Null,
                Value::Null,
                Value::Null,
            ]);
        };
    for table in &catalog.tables {
        let indexed = !table.indexes.is_empty();
        add(oid_of(table.obj), &table.name, &table.schema, "r", table.columns.len(), indexed);
        for index in &table.indexes {
            add(oid_of(index.obj), &index.name, &table.schema, "i", index.columns.len(), false);
        }
    }
    for s in &catalog.sequences {
        add(oid_of(s.obj), &s.name, &s.schema, "S", 3, false);
    }
    for (name, oid) in VIEWS {
        add(int(*oid), name, "pg_catalog", "v", 1, false);
    }
    rows
}

fn attributes(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("attrelid", Oid),
        ("attname", Name),
        ("atttypid", Oid),
        ("attstattarget", Int4),
        ("attlen", Int2),
        ("attnum", Int2),
        ("attndims", Int4),
        ("atttypmod", Int4),
        ("attnotnull", Bool),
        ("atthasdef", Bool),
        ("atthasmissing", Bool),
        ("attidentity", Char),
        ("attgenerated", Char),
        ("attisdropped", Bool),
        ("attislocal", Bool),
        ("attinhcount", Int4),
        ("attcollation", Oid),
        ("attstorage", Char),
        ("attcompression", Char),
        ("attacl", NoList),
        ("attoptions", NoList),
        ("attfdwoptions", NoList),
    ]);
    let mut add = |obj: Value, table: &TableDef, column: usize, number: usize, own: bool| {
        let def = &table.columns[column];
        let ty = PgType::of(def.ty);
        rows.push(vec![
            obj,
            text(def.name.as_str()),
            int(ty.oid),
            Value::Int4(-1),
            Value::Int2(ty.typlen()),
            Value::Int2(i16::try_from(number).unwrap_or(i16::MAX)),
            Value::Int4(0),
            Value::Int4(ty.typmod),
            Value::Bool(own && def.not_null),
            Value::Bool(own && def.default.is_some()),
            Value::Bool(false),
            text(""),
            text(""),
            Value::Bool(false),
            Value::Bool(true),
            Value::Int4(0),
            int(if def.ty.kind.is_text() { 100 } else { 0 }),
            text(if ty.typlen() > 0 { "p" } else { "x" }),
            text(""),
            Value::Null,
            Value::Null,
            Value::Null,
        ]);
    };
    for table in &catalog.tables {
        for column in 0..table.columns.len() {
            add(oid_of(table.obj), table, column, column + 1, true);
        }
        for index in &table.indexes {
            for (i, at) in index.columns.iter().enumerate() {
                add(oid_of(index.obj), table, usize::from(*at), i + 1, false);
            }
        }
    }
    rows
}

fn type_rows() -> Rows {
    let mut rows = Rows::new(&[
        ("oid", Oid),
        ("typname", Name),
        ("typnamespace", Oid),
        ("typowner", Oid),
        ("typlen", Int2),
        ("typbyval", Bool),
        ("typtype", Char),
        ("typcategory", Char),
        ("typispreferred", Bool),
        ("typisdefined", Bool),
        ("typdelim", Char),
        ("typrelid", Oid),
        ("typelem", Oid),
        ("typarray", Oid),
        ("typinput", Other(oid::REGPROC)),
        ("typoutput", Other(oid::REGPROC)),
        ("typreceive", Other(oid::REGPROC)),
        ("typsend", Other(oid::REGPROC)),
        ("typnotnull", Bool),
        ("typbasetype", Oid),
        ("typtypmod", Int4),
        ("typndims", Int4),
        ("typcollation", Oid),
        ("typdefault", Text),
    ]);
    let mut add =
        |id: u32, name: &str, len: i16, by_value: bool, category: &str, elem: u32, array: u32| {
            let procedure = |suffix: &str| {
                text(if elem != 0 { format!("array_{suffix}") } else { format!("{name}{suffix}") })
            };
            rows.push(vec![
                int(id),
                text(name),
                int(11),
                int(OWNER),
                Value::Int2(len),
                Value::Bool(by_value),
                text(if id == oid::VOID || id == oid::UNKNOWN { "p" } else { "b" }),
                text(category),
                Value::Bool(false),
                Value::Bool(true),
                text(","),
                int(0),
                int(elem),
                int(array),
                procedure("in"),
                procedure("out"),
                procedure("recv"),
                procedure("send"),
                Value::Bool(false),
                int(0),
                Value::Int4(-1),
                Value::Int4(0),
                int(if category == "S" { 100 } else { 0 }),
                Value::Null,
            ]);
        };
    for (id, name, len, by_value, category, array) in types::TYPES {
        add(*id, name, *len, *by_value, category, 0, *array);
        if *array != 0 {
            add(*array, &format!("_{name}"), -1, false, "A", *id, 0);
        }
    }
    rows
}

fn namespaces() -> Rows {
    let mut rows =
        Rows::new(&[("oid", Oid), ("nspname", Name), ("nspowner", Oid), ("nspacl", NoList)]);
    for schema in ["pg_catalog", "public", "sys", "information_schema"] {
        rows.push(vec![int(schema_oid(schema)), text(schema), int(OWNER), Value::Null]);
    }
    rows
}

fn vector(index: &IndexDef, separator: &str) -> String {
    let numbers: Vec<String> = index.columns.iter().map(|c| (c + 1).to_string()).collect();
    numbers.join(separator)
}

fn indexes(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("indexrelid", Oid),
        ("indrelid", Oid),
        ("indnatts", Int2),
        ("indnkeyatts", Int2),
        ("indisunique", Bool),
        ("indnullsnotdistinct", Bool),
        ("indisprimary", Bool),
        ("indisexclusion", Bool),
        ("indimmediate", Bool),
        ("indisclustered", Bool),
        ("indisvalid", Bool),
        ("indcheckxmin", Bool),
        ("indisready", Bool),
        ("indislive", Bool),
        ("indisreplident", Bool),
        ("indkey", Other(oid::INT2VECTOR)),
        ("indoption", Other(oid::INT2VECTOR)),
        ("indexprs", Other(oid::PG_NODE_TREE)),
        ("indpred", Other(oid::PG_NODE_TREE)),
    ]);
    for table in &catalog.tables {
        for index in &table.indexes {
            let count = Value::Int2(i16::try_from(index.columns.len()).unwrap_or(i16::MAX));
            let zeros = vec!["0"; index.columns.len()].join(" ");
            rows.push(vec![
                oid_of(index.obj),
                oid_of(table.obj),
                count.clone(),
                count,
                Value::Bool(index.unique),
                Value::Bool(false),
                Value::Bool(index.primary),
                Value::Bool(false),
                Value::Bool(true),
                Value::Bool(false),
                Value::Bool(true),
                Value::Bool(false),
                Value::Bool(true),
                Value::Bool(true),
                Value::Bool(false),
                text(vector(index, " ")),
                text(zeros),
                Value::Null,
                Value::Null,
            ]);
        }
    }
    rows
}

fn constraints(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("oid", Oid),
        ("conname", Name),
        ("connamespace", Oid),
        ("contype", Char),
        ("condeferrable", Bool),
        ("condeferred", Bool),
        ("convalidated", Bool),
        ("conrelid", Oid),
        ("contypid", Oid),
        ("conindid", Oid),
        ("conparentid", Oid),
        ("confrelid", Oid),
        ("confupdtype", Char),
        ("confdeltype", Char),
        ("confmatchtype", Char),
        ("conislocal", Bool),
        ("connoinherit", Bool),
        ("conkey", Other(1005)),
        ("confkey", Other(1005)),
        ("conbin", Other(oid::PG_NODE_TREE)),
    ]);
    for table in &catalog.tables {
        for index in table.indexes.iter().filter(|i| i.constraint.is_some()) {
            rows.push(vec![
                oid_of(index.obj),
                opt_text(index.constraint.as_deref()),
                int(schema_oid(&table.schema)),
                text(if index.primary { "p" } else { "u" }),
                Value::Bool(false),
                Value::Bool(false),
                Value::Bool(true),
                oid_of(table.obj),
                int(0),
                oid_of(index.obj),
                int(0),
                int(0),
                text(" "),
                text(" "),
                text(" "),
                Value::Bool(true),
                Value::Bool(true),
                text(format!("{{{}}}", vector(index, ","))),
                Value::Null,
                Value::Null,
            ]);
        }
    }
    rows
}

fn defaults(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("oid", Oid),
        ("adrelid", Oid),
        ("adnum", Int2),
        ("adbin", Other(oid::PG_NODE_TREE)),
    ]);
    for table in &catalog.tables {
        for (i, column) in table.columns.iter().enumerate() {
            let Some(default) = &column.default else { continue };
            let number = i16::try_from(i + 1).unwrap_or(i16::MAX);
            let id = i64::from(table.obj.0) * 10_000 + i64::from(number);
            rows.push(vec![
                int(id % i64::from(u32::MAX)),
                oid_of(table.obj),
                Value::Int2(number),
                text(default.as_str()),
            ]);
        }
    }
    rows
}

fn databases() -> Rows {
    let mut rows = Rows::new(&[
        ("oid", Oid),
        ("datname", Name),
        ("datdba", Oid),
        ("encoding", Int4),
        ("datlocprovider", Char),
        ("datistemplate", Bool),
        ("datallowconn", Bool),
        ("datconnlimit", Int4),
        ("dattablespace", Oid),
        ("datcollate", Text),
        ("datctype", Text),
        ("daticulocale", Text),
        ("datcollversion", Text),
        ("datacl", NoList),
    ]);
    rows.push(vec![
        int(5),
        text("skein"),
        int(OWNER),
        Value::Int4(6),
        text("c"),
        Value::Bool(false),
        Value::Bool(true),
        Value::Int4(-1),
        int(1663),
        text("C"),
        text("C.UTF-8"),
        Value::Null,
        Value::Null,
        Value::Null,
    ]);
    rows
}

fn roles(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("oid", Oid),
        ("rolname", Name),
        ("rolsuper", Bool),
        ("rolinherit", Bool),
        ("rolcreaterole", Bool),
        ("rolcreatedb", Bool),
        ("rolcanlogin", Bool),
        ("rolreplication", Bool),
        ("rolconnlimit", Int4),
        ("rolpassword", Text),
        ("rolvaliduntil", Timestamptz),
        ("rolbypassrls", Bool),
        ("rolconfig", NoList),
    ]);
    for user in &catalog.users {
        rows.push(vec![
            oid_of(user.obj),
            text(user.name.as_str()),
            Value::Bool(user.superuser),
            Value::Bool(true),
            Value::Bool(user.superuser),
            Value::Bool(false),
            Value::Bool(true),
            Value::Bool(false),
            Value::Int4(-1),
            text("********"),
            Value::Null,
            Value::Bool(user.superuser),
            Value::Null,
        ]);
    }
    rows
}

fn users(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("usename", Name),
        ("usesysid", Oid),
        ("usecreatedb", Bool),
        ("usesuper", Bool),
    ]);
    for user in &catalog.users {
        rows.push(vec![
            text(user.name.as_str()),
            oid_of(user.obj),
            Value::Bool(false),
            Value::Bool(user.superuser),
        ]);
    }
    rows
}

fn settings(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[("name", Text), ("setting", Text), ("short_desc", Text)]);
    for (name, value, description) in &catalog.settings {
        rows.push(vec![text(name.as_str()), text(value.as_str()), text(description.as_str())]);
    }
    rows
}

fn sequence_rows(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("seqrelid", Oid),
        ("seqtypid", Oid),
        ("seqstart", Int8),
        ("seqincrement", Int8),
        ("seqmax", Int8),
        ("seqmin", Int8),
        ("seqcache", Int8),
        ("seqcycle", Bool),
    ]);
    for s in &catalog.sequences {
        rows.push(vec![
            oid_of(s.obj),
            int(oid::INT8),
            int(s.start),
            int(s.increment),
            int(s.max),
            int(s.min),
            int(s.cache),
            Value::Bool(s.cycle),
        ]);
    }
    rows
}

fn sequences(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("schemaname", Name),
        ("sequencename", Name),
        ("sequenceowner", Name),
        ("start_value", Int8),
        ("min_value", Int8),
        ("max_value", Int8),
        ("increment_by", Int8),
        ("cycle", Bool),
        ("cache_size", Int8),
    ]);
    for s in &catalog.sequences {
        rows.push(vec![
            text(s.schema.as_str()),
            text(s.name.as_str()),
            text(kernel::dict::SUPERUSER),
            int(s.start),
            int(s.min),
            int(s.max),
            int(s.increment),
            Value::Bool(s.cycle),
            int(s.cache),
        ]);
    }
    rows
}

fn tables(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("schemaname", Name),
        ("tablename", Name),
        ("tableowner", Name),
        ("hasindexes", Bool),
    ]);
    for table in &catalog.tables {
        rows.push(vec![
            text(table.schema.as_str()),
            text(table.name.as_str()),
            text(kernel::dict::SUPERUSER),
            Value::Bool(!table.indexes.is_empty()),
        ]);
    }
    rows
}

fn index_list(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("schemaname", Name),
        ("tablename", Name),
        ("indexname", Name),
        ("indexdef", Text),
    ]);
    for table in &catalog.tables {
        for index in &table.indexes {
            rows.push(vec![
                text(table.schema.as_str()),
                text(table.name.as_str()),
                text(index.name.as_str()),
                text(super::functions::index_definition(table, index)),
            ]);
        }
    }
    rows
}

fn access_methods() -> Rows {
    let mut rows = Rows::new(&[("oid", Oid), ("amname", Name), ("amtype", Char)]);
    rows.push(vec![int(2), text("heap"), text("t")]);
    rows.push(vec![int(403), text("btree"), text("i")]);
    rows
}

fn tablespaces() -> Rows {
    let mut rows = Rows::new(&[("oid", Oid), ("spcname", Name), ("spcowner", Oid)]);
    rows.push(vec![int(1663), text("users"), int(OWNER)]);
    rows
}

fn collations() -> Rows {
    let mut rows = Rows::new(&[
        ("oid", Oid),
        ("collname", Name),
        ("collnamespace", Oid),
        ("collencoding", Int4),
    ]);
    rows.push(vec![int(100), text("default"), int(11), Value::Int4(-1)]);
    rows.push(vec![int(950), text("C"), int(11), Value::Int4(-1)]);
    rows
}

fn activity(instance: &Arc<Instance>, user: &str) -> Rows {
    let mut rows = Rows::new(&[
        ("datname", Name),
        ("pid", Int4),
        ("usename", Name),
        ("application_name", Text),
        ("backend_start", Timestamptz),
        ("wait_event_type", Text),
        ("wait_event", Text),
        ("state", Text),
        ("query", Text),
        ("backend_type", Text),
    ]);
    for s in instance.observer.sessions() {
        let client = s.kind == observe::SessionKind::User;
        let waiting = s.wait.event.filter(|_| s.wait.waiting);
        let name = if client && s.username.is_empty() { user } else { &s.username };
        rows.push(vec![
            text("skein"),
            Value::Int4(i32::try_from(s.sid).unwrap_or(i32::MAX)),
            text(name),
            text(&*s.program),
            Value::Timestamptz(s.logon_wall_us - query::datetime::EPOCH_US),
            opt_text(waiting.map(|e| e.class().name())),
            opt_text(waiting.map(|e| e.name())),
            text(if s.active { "active" } else { "idle" }),
            opt_text(s.sql_text.as_deref()),
            text(if client { "client backend" } else { "background" }),
        ]);
    }
    rows
}

/// Columns of the views that have no rows here.
fn empty(name: &str) -> Option<Rows> {
    Some(Rows::new(match name {
        "pg_views" | "pg_matviews" => &[
            ("schemaname", Name),
            ("viewname", Name),
            ("matviewname", Name),
            ("viewowner", Name),
            ("definition", Text),
        ],
        "pg_proc" => &[
            ("oid", Oid),
            ("proname", Name),
            ("pronamespace", Oid),
            ("proowner", Oid),
            ("prolang", Oid),
            ("prokind", Char),
            ("prorettype", Oid),
            ("proargtypes", Other(oid::OIDVECTOR)),
            ("proretset", Bool),
            ("prosrc", Text),
        ],
        "pg_description" => {
            &[("objoid", Oid), ("classoid", Oid), ("objsubid", Int4), ("description", Text)]
        }
        "pg_shdescription" => &[("objoid", Oid), ("classoid", Oid), ("description", Text)],
        "pg_inherits" => {
            &[("inhrelid", Oid), ("inhparent", Oid), ("inhseqno", Int4), ("inhdetachpending", Bool)]
        }
        "pg_policy" => &[
            ("oid", Oid),
            ("polname", Name),
            ("polrelid", Oid),
            ("polcmd", Char),
            ("polpermissive", Bool),
            ("polroles", NoList),
            ("polqual", Text),
            ("polwithcheck", Text),
        ],
        "pg_trigger" => &[
            ("oid", Oid),
            ("tgrelid", Oid),
            ("tgparentid", Oid),
            ("tgname", Name),
            ("tgfoid", Oid),
            ("tgtype", Int2),
            ("tgenabled", Char),
            ("tgisinternal", Bool),
            ("tgconstraint", Oid),
        ],
        "pg_rewrite" => &[
            ("oid", Oid),
            ("rulename", Name),
            ("ev_class", Oid),
            ("ev_type", Char),
            ("ev_enabled", Char),
        ],
        "pg_depend" => &[
            ("classid", Oid),
            ("objid", Oid),
            ("objsubid", Int4),
            ("refclassid", Oid),
            ("refobjid", Oid),
            ("refobjsubid", Int4),
            ("deptype", Char),
        ],
        "pg_enum" => {
            &[("oid", Oid), ("enumtypid", Oid), ("enumsortorder", Float8), ("enumlabel", Name)]
        }
        "pg_range" => &[("rngtypid", Oid), ("rngsubtype", Oid), ("rngmultitypid", Oid)],
        "pg_extension" => &[
            ("oid", Oid),
            ("extname", Name),
            ("extowner", Oid),
            ("extnamespace", Oid),
            ("extversion", Text),
        ],
        "pg_publication" => &[("oid", Oid), ("pubname", Name), ("puballtables", Bool)],
        "pg_publication_rel" => &[
            ("oid", Oid),
            ("prpubid", Oid),
            ("prrelid", Oid),
            ("prqual", Other(194)),
            ("prattrs", Other(oid::INT2VECTOR)),
        ],
        "pg_publication_namespace" => &[("oid", Oid), ("pnpubid", Oid), ("pnnspid", Oid)],
        "pg_statistic_ext" => &[
            ("oid", Oid),
            ("stxrelid", Oid),
            ("stxname", Name),
            ("stxnamespace", Oid),
            ("stxkeys", Other(oid::INT2VECTOR)),
            ("stxkind", Text),
            ("stxstattarget", Int4),
        ],
        "pg_foreign_table" => &[("ftrelid", Oid), ("ftserver", Oid), ("ftoptions", Text)],
        "pg_foreign_server" => &[("oid", Oid), ("srvname", Name)],
        "pg_partitioned_table" => &[("partrelid", Oid), ("partstrat", Char), ("partdefid", Oid)],
        "pg_opclass" => {
            &[("oid", Oid), ("opcname", Name), ("opcmethod", Oid), ("opcdefault", Bool)]
        }
        "pg_language" => &[("oid", Oid), ("lanname", Name)],
        "pg_db_role_setting" => &[("setdatabase", Oid), ("setrole", Oid), ("setconfig", Text)],
        "pg_auth_members" => {
            &[("roleid", Oid), ("member", Oid), ("grantor", Oid), ("admin_option", Bool)]
        }
        _ => return None,
    }))
}
