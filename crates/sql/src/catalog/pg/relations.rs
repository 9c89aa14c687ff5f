//! Tables, their columns and defaults: `pg_class`, `pg_attribute`, `pg_attrdef`, `pg_tables`,
//! and their comments in `pg_description`.
//!
//! What it promises: everything with a name of its own has a row in `pg_class`, also indexes,
//! sequences and the views of this catalog. What it must never do: count rows or blocks.

use super::database::{BITMAP_METHOD, BTREE_METHOD};
use super::{VIEWS, oid_of};
use crate::catalog::known::TYPES;
use crate::catalog::rows::Shape::{Bool, Char, Float8, Int2, Int4, Name, NoList, Oid, Other, Text};
use crate::catalog::rows::{Rows, TEXTS, int, text, texts};
use crate::catalog::{Catalog, functions, rights};
use crate::ddl::is_temporary;
use crate::sequence::split_name;
use block::ObjId;
use kernel::dict::{
    Acl, CheckOption, ColumnDef, Generated, IndexDef, IndexKind, SUPERUSER_OBJ, TableDef,
};
use kernel::row::{TypeKind, Value};
use query::functions::quote_ident;
use query::types::{PgType, oid};

/// What a relation has beside its columns.
#[derive(Clone, Copy)]
struct Has<'a> {
    owner: ObjId,
    acl: Option<&'a Acl>,
    indexes: bool,
    checks: usize,
    /// Foreign keys, its own or others' to it: PostgreSQL enforces them by triggers.
    keys: bool,
    /// Blocks and rows as ANALYZE has found them; -1: it has not looked.
    blocks: u64,
    rows: f64,
    /// What WITH has said of a view.
    option: Option<&'static str>,
    /// Whether a materialized view's rows have been computed.
    populated: bool,
    /// Number of an index's access method.
    method: i64,
}

/// Of the system's own.
const NOTHING: Has<'_> = Has {
    owner: SUPERUSER_OBJ,
    acl: None,
    indexes: false,
    checks: 0,
    keys: false,
    blocks: 0,
    rows: -1.0,
    option: None,
    populated: true,
    method: 0,
};

pub(super) fn classes(catalog: &Catalog) -> Rows {
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
        ("relrewrite", Oid),
        ("relfrozenxid", Other(28)),
        ("relminmxid", Other(28)),
        ("relacl", TEXTS),
        ("reloptions", TEXTS),
        ("relpartbound", Other(oid::PG_NODE_TREE)),
    ]);
    let mut add = |obj: Value, name: &str, schema: &str, kind: &str, columns: usize, of: Has| {
        let am = match kind {
            "r" => 2,
            "i" => of.method,
            _ => 0,
        };
        rows.push(vec![
            obj.clone(),
            text(name),
            int(catalog.schema_oid(schema)),
            int(0),
            int(0),
            oid_of(of.owner),
            int(am),
            obj,
            int(0),
            Value::Int4(i32::try_from(of.blocks).unwrap_or(i32::MAX)),
            Value::Float8(of.rows),
            int(0),
            Value::Bool(of.indexes),
            Value::Bool(false),
            text(if is_temporary(schema) { "t" } else { "p" }),
            text(kind),
            Value::Int2(i16::try_from(columns).unwrap_or(i16::MAX)),
            Value::Int2(i16::try_from(of.checks).unwrap_or(i16::MAX)),
            Value::Bool(false),
            Value::Bool(of.keys),
            Value::Bool(false),
            Value::Bool(false),
            Value::Bool(false),
            Value::Bool(of.populated),
            text("d"),
            Value::Bool(false),
            int(0),
            text("0"),
            text("0"),
            rights::acl_value(catalog, of.acl),
            of.option.map_or(Value::Null, |option| texts([option])),
            Value::Null,
        ]);
    };
    for table in &catalog.tables {
        let (owner, acl) = (table.owner, table.acl.as_ref());
        let keys = !table.foreign.is_empty() || !table.referenced.is_empty();
        let stats = catalog.statistics.get(&table.obj);
        let (blocks, of_table) = stats.map_or((0, -1.0), |stats| (stats.blocks, stats.rows));
        let of = Has {
            blocks,
            rows: of_table,
            option: None,
            indexes: table.all_indexes().next().is_some(),
            checks: table.checks.len(),
            keys,
            owner,
            acl,
            populated: table.materialized.as_ref().is_none_or(|own| own.populated),
            method: 0,
        };
        let kind = if table.materialized.is_some() { "m" } else { "r" };
        add(oid_of(table.obj), &table.name, &table.schema, kind, table.columns.len(), of);
        for index in table.all_indexes() {
            add(
                oid_of(index.obj),
                &index.name,
                &table.schema,
                "i",
                index.all_columns().len(),
                Has { owner, rows: of_table.max(0.0), method: method_of(index), ..NOTHING },
            );
        }
    }
    for view in &catalog.views {
        let option = view.view.as_ref().and_then(|own| own.check).map(|check| match check {
            CheckOption::Local => "check_option=local",
            CheckOption::Cascaded => "check_option=cascaded",
        });
        let of = Has { rows: 0.0, owner: view.owner, acl: view.acl.as_ref(), option, ..NOTHING };
        add(oid_of(view.obj), &view.name, &view.schema, "v", view.columns.len(), of);
    }
    for s in &catalog.sequences {
        let of = Has { owner: s.owner, acl: s.acl.as_ref(), ..NOTHING };
        add(oid_of(s.obj), &s.name, &s.schema, "S", 3, of);
    }
    for (name, oid) in VIEWS {
        add(int(*oid), name, "pg_catalog", "v", 1, NOTHING);
    }
    rows
}

fn method_of(index: &IndexDef) -> i64 {
    match index.kind {
        IndexKind::Tree | IndexKind::Reverse => BTREE_METHOD,
        IndexKind::Bitmap => BITMAP_METHOD,
    }
}

/// Whether a column has what PostgreSQL calls a default: an identity column has a sequence instead.
pub(super) fn has_default(def: &ColumnDef) -> bool {
    let identity = matches!(def.generated, Some(Generated::Always | Generated::ByDefault));
    def.default.is_some() && !identity
}

pub(super) fn attributes(catalog: &Catalog) -> Rows {
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
        ("attcacheoff", Int4),
        ("attbyval", Bool),
        ("attalign", Char),
        ("attstorage", Char),
        ("attcompression", Char),
        ("attacl", TEXTS),
        ("attoptions", NoList),
        ("attfdwoptions", NoList),
        ("attmissingval", NoList),
    ]);
    let mut add = |obj: Value, def: &ColumnDef, number: usize, own: bool| {
        let ty = PgType::of(def.ty);
        let known = TYPES.find(ty.oid.into());
        rows.push(vec![
            obj,
            text(def.name.as_str()),
            int(ty.oid),
            Value::Int4(-1),
            Value::Int2(ty.typlen()),
            Value::Int2(i16::try_from(number).unwrap_or(i16::MAX)),
            Value::Int4(0),
            Value::Int4(ty.shown_typmod()),
            Value::Bool(own && def.not_null),
            Value::Bool(own && has_default(def)),
            Value::Bool(false),
            text(match def.generated.filter(|_| own) {
                Some(kind @ (Generated::Always | Generated::ByDefault)) => kind.code(),
                _ => "",
            }),
            text(match def.generated.filter(|_| own) {
                Some(kind @ Generated::Stored) => kind.code(),
                _ => "",
            }),
            Value::Bool(false),
            Value::Bool(true),
            Value::Int4(0),
            int(if def.ty.kind.is_text() { 100 } else { 0 }),
            Value::Int4(-1),
            Value::Bool(def.ty.kind == TypeKind::Enum || known.is_some_and(|ty| ty.yes(3))),
            text(known.map_or("i", |ty| ty.text(16))),
            text(known.map_or("p", |ty| ty.text(17))),
            text(""),
            rights::acl_value(catalog, def.acl.as_ref().filter(|_| own)),
            Value::Null,
            Value::Null,
            Value::Null,
        ]);
    };
    for table in catalog.relations() {
        for column in 0..table.columns.len() {
            add(oid_of(table.obj), &table.columns[column], column + 1, true);
        }
        for index in table.all_indexes() {
            if index.exprs.is_empty() && index.included.columns.is_empty() {
                for (i, at) in index.all_columns().iter().enumerate() {
                    add(oid_of(index.obj), &table.columns[usize::from(*at)], i + 1, false);
                }
                continue;
            }
            let all = index.all_columns();
            let names = crate::key_exprs::part_names(table, &all, &index.exprs);
            for (i, (at, name)) in all.iter().zip(&names).enumerate() {
                let def = ColumnDef::new(name, index.part_type(table, *at));
                add(oid_of(index.obj), &def, i + 1, false);
            }
        }
    }
    rows
}

/// OID of a column's default.
pub(super) fn default_oid(table: &TableDef, column: usize) -> i64 {
    let id = i64::from(table.obj.0) * 10_000 + i64::try_from(column + 1).unwrap_or(0);
    id % i64::from(u32::MAX)
}

/// A default as PostgreSQL writes it: with the type of a literal, and a sequence without its schema
/// if it is found so.
pub(in crate::catalog) fn shown_default(
    catalog: &Catalog,
    column: &ColumnDef,
    default: &str,
) -> String {
    if column.generated.is_some() {
        return default.to_owned();
    }
    if let Some(sequence) = functions::sequence_of_default(default) {
        let shown = match &split_name(&sequence.replace("''", "'"))[..] {
            [schema, name] if catalog.is_visible(schema, name) => {
                quote_ident(name).replace('\'', "''")
            }
            _ => sequence.to_owned(),
        };
        return format!("nextval('{shown}'::regclass)");
    }
    let inner = default.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    match inner {
        Some(inner) if !inner.replace("''", "").contains('\'') => {
            let name = match column.ty.kind {
                TypeKind::Char => "bpchar".to_owned(),
                TypeKind::Enum => column.ty.enum_type().map_or_else(String::new, |def| {
                    format!("{}.{}", quote_ident(&def.schema), quote_ident(&def.name))
                }),
                _ => column.ty.without_limit().to_string(),
            };
            format!("{default}::{name}")
        }
        _ => default.to_owned(),
    }
}

pub(super) fn defaults(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("oid", Oid),
        ("adrelid", Oid),
        ("adnum", Int2),
        ("adbin", Other(oid::PG_NODE_TREE)),
    ]);
    for table in &catalog.tables {
        for (i, column) in table.columns.iter().enumerate() {
            let Some(default) = column.default.as_ref().filter(|_| has_default(column)) else {
                continue;
            };
            let number = i16::try_from(i + 1).unwrap_or(i16::MAX);
            rows.push(vec![
                int(default_oid(table, i)),
                oid_of(table.obj),
                Value::Int2(number),
                text(shown_default(catalog, column, default)),
            ]);
        }
    }
    rows
}

pub(super) fn descriptions(catalog: &Catalog) -> Rows {
    let mut rows =
        Rows::new(&[("objoid", Oid), ("classoid", Oid), ("objsubid", Int4), ("description", Text)]);
    for (class, oid, said) in catalog.comments_on_own() {
        rows.push(vec![int(oid), int(class), Value::Int4(0), text(said)]);
    }
    for ty in &catalog.types.all {
        let Some(comment) = &ty.comment else { continue };
        rows.push(vec![oid_of(ty.obj), int(1247), Value::Int4(0), text(comment.as_str())]);
    }
    for table in catalog.relations() {
        let columns = table.columns.iter().map(|column| &column.comment);
        for (number, comment) in std::iter::once(&table.comment).chain(columns).enumerate() {
            let Some(comment) = comment else { continue };
            rows.push(vec![
                oid_of(table.obj),
                int(1259),
                Value::Int4(i32::try_from(number).unwrap_or(i32::MAX)),
                text(comment.as_str()),
            ]);
        }
    }
    rows
}

/// Comments on roles and the database.
pub(super) fn shared_descriptions(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[("objoid", Oid), ("classoid", Oid), ("description", Text)]);
    for (class, oid, said) in catalog.comments_on_shared() {
        rows.push(vec![int(oid), int(class), text(said)]);
    }
    rows
}

pub(super) fn tables(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("schemaname", Name),
        ("tablename", Name),
        ("tableowner", Name),
        ("hasindexes", Bool),
    ]);
    for table in catalog.tables.iter().filter(|table| table.materialized.is_none()) {
        rows.push(vec![
            text(table.schema.as_str()),
            text(table.name.as_str()),
            text(catalog.roles.name(table.owner)),
            Value::Bool(table.all_indexes().next().is_some()),
        ]);
    }
    rows
}

pub(super) fn views(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("schemaname", Name),
        ("viewname", Name),
        ("viewowner", Name),
        ("definition", Text),
    ]);
    for view in &catalog.views {
        rows.push(vec![
            text(view.schema.as_str()),
            text(view.name.as_str()),
            text(catalog.roles.name(view.owner)),
            functions::view_definition(view).map_or(Value::Null, text),
        ]);
    }
    rows
}

pub(super) fn materialized(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("schemaname", Name),
        ("matviewname", Name),
        ("matviewowner", Name),
        ("tablespace", Name),
        ("hasindexes", Bool),
        ("ispopulated", Bool),
        ("definition", Text),
    ]);
    for view in &catalog.tables {
        let Some(own) = &view.materialized else { continue };
        rows.push(vec![
            text(view.schema.as_str()),
            text(view.name.as_str()),
            text(catalog.roles.name(view.owner)),
            Value::Null,
            Value::Bool(view.all_indexes().next().is_some()),
            Value::Bool(own.populated),
            functions::view_definition(view).map_or(Value::Null, text),
        ]);
    }
    rows
}

/// The rule behind each view, which clients join to find what a view depends on.
pub(super) fn rules(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("oid", Oid),
        ("rulename", Name),
        ("ev_class", Oid),
        ("ev_type", Char),
        ("ev_enabled", Char),
        ("is_instead", Bool),
        ("ev_qual", Other(oid::PG_NODE_TREE)),
        ("ev_action", Other(oid::PG_NODE_TREE)),
    ]);
    for view in catalog.with_queries() {
        rows.push(vec![
            oid_of(view.obj),
            text("_RETURN"),
            oid_of(view.obj),
            text("1"),
            text("O"),
            Value::Bool(true),
            Value::Null,
            Value::Null,
        ]);
    }
    rows
}
